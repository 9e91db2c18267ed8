//! Bytes to and from the server.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use mantissa_protocol::{Decoder, Value, encode_request};

/// Where a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Address {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl Address {
    /// As errors name it.
    pub(crate) fn plain(&self) -> String {
        match self {
            Address::Tcp(host, port) => format!("{host}:{port}"),
            Address::Unix(path) => path.display().to_string(),
        }
    }
}

impl fmt::Display for Address {
    /// As the prompt shows it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(host, port) if host.contains(':') => write!(formatter, "[{host}]:{port}"),
            Address::Tcp(host, port) => write!(formatter, "{host}:{port}"),
            Address::Unix(path) => write!(formatter, "redis {}", path.display()),
        }
    }
}

/// A connected socket.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// What an event loop registers.
    pub(crate) fn descriptor(&self) -> RawFd {
        match self {
            Stream::Tcp(stream) => stream.as_raw_fd(),
            Stream::Unix(stream) => stream.as_raw_fd(),
        }
    }

    /// Whether operations that would wait fail in place of waiting.
    pub(crate) fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nonblocking(nonblocking),
            Stream::Unix(stream) => stream.set_nonblocking(nonblocking),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How many bytes are read at a time, at most.
const READ_SIZE: usize = 64 * 1024;

/// A connection to a server.
pub(crate) struct Connection {
    stream: Stream,
    /// What has arrived; replies up to `start` have been taken.
    arrived: Vec<u8>,
    start: usize,
    decoder: Decoder,
}

impl Connection {
    /// Connects.
    pub(crate) fn open(address: &Address) -> io::Result<Connection> {
        let stream = match address {
            Address::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port))?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
            Address::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
        };
        Ok(Connection { stream, arrived: Vec::new(), start: 0, decoder: Decoder::default() })
    }

    /// The socket, for those who read replies in their own way. Nothing but replies must have been received.
    pub(crate) fn into_stream(self) -> Stream {
        self.stream
    }

    /// Another handle on the same socket, to write while this one reads.
    pub(crate) fn writer(&self) -> io::Result<Box<dyn Write + Send>> {
        Ok(match &self.stream {
            Stream::Tcp(stream) => Box::new(stream.try_clone()?),
            Stream::Unix(stream) => Box::new(stream.try_clone()?),
        })
    }

    /// Lets reads fail that take longer.
    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.stream {
            Stream::Tcp(stream) => stream.set_read_timeout(timeout),
            Stream::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }

    /// Sends a command.
    pub(crate) fn send(&mut self, command: &[impl AsRef<[u8]>]) -> io::Result<()> {
        let mut request = Vec::new();
        encode_request(&mut request, command);
        self.stream.write_all(&request).map_err(|error| match error.kind() {
            // Not to be taken for the end of whoever reads the output.
            io::ErrorKind::BrokenPipe => closed(),
            _ => error,
        })
    }

    /// Sends commands, one after another.
    pub(crate) fn send_all(&mut self, commands: &[Vec<Vec<u8>>]) -> io::Result<()> {
        let mut requests = Vec::new();
        for command in commands {
            encode_request(&mut requests, command);
        }
        self.stream.write_all(&requests)
    }

    /// Sends commands that are in the protocol already.
    pub(crate) fn send_encoded(&mut self, commands: &[u8]) -> io::Result<()> {
        self.stream.write_all(commands)
    }

    /// Waits for the next reply; messages before it are dropped.
    pub(crate) fn receive_reply(&mut self) -> io::Result<Value> {
        loop {
            match self.receive()? {
                Value::Push(_) => {}
                reply => return Ok(reply),
            }
        }
    }

    /// What comes from the server as it is, for what is no reply.
    pub(crate) fn raw_reader(&mut self) -> impl Read + '_ {
        let arrived = self.arrived.split_off(self.start);
        self.arrived.clear();
        self.start = 0;
        io::Cursor::new(arrived).chain(&mut self.stream)
    }

    /// Waits for the next reply or message.
    pub(crate) fn receive(&mut self) -> io::Result<Value> {
        loop {
            let input = self.arrived.get(self.start..).unwrap_or_default();
            match self.decoder.decode(input) {
                Ok(Some((value, size))) => {
                    self.start += size;
                    return Ok(value);
                }
                Ok(None) => {
                    if self.read()? == 0 {
                        return Err(closed());
                    }
                }
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        }
    }

    /// Sends a command and waits for its reply; messages before it are dropped.
    pub(crate) fn ask(&mut self, command: &[impl AsRef<[u8]>]) -> io::Result<Value> {
        self.send(command)?;
        self.receive_reply()
    }

    /// Whether the server has hung up, as far as can be known without waiting. Keeps what arrives meanwhile.
    pub(crate) fn is_closed(&mut self) -> bool {
        if self.stream.set_nonblocking(true).is_err() {
            return true;
        }
        let closed = match self.read() {
            Ok(size) => size == 0,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        };
        self.stream.set_nonblocking(false).is_err() || closed
    }

    /// Reads what has arrived, waiting for something to; 0 is the end.
    fn read(&mut self) -> io::Result<usize> {
        self.arrived.drain(..self.start);
        self.start = 0;
        let end = self.arrived.len();
        self.arrived.resize(end + READ_SIZE, 0);
        let result = loop {
            match self.stream.read(&mut self.arrived[end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.arrived.truncate(end + result.as_ref().map_or(0, |size| *size));
        result
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "Server closed the connection")
}
