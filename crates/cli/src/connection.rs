//! Bytes to and from the server.

mod pump;

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use mantissa_net::TlsStream;
use mantissa_protocol::{Decoder, Value, encode_request};

use crate::tls::TlsConfig;

/// Where a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Address {
    Tcp(String, u16),
    Tls(String, u16, TlsConfig),
    Unix(PathBuf),
}

impl Address {
    /// A host and a port, reached with TLS if that is given.
    pub(crate) fn host(host: String, port: u16, tls: Option<TlsConfig>) -> Address {
        match tls {
            Some(config) => Address::Tls(host, port, config),
            None => Address::Tcp(host, port),
        }
    }

    /// How TLS is spoken there, if it is.
    pub(crate) fn tls(&self) -> Option<TlsConfig> {
        match self {
            Address::Tls(_, _, config) => Some(config.clone()),
            _ => None,
        }
    }

    /// As errors name it.
    pub(crate) fn plain(&self) -> String {
        match self {
            Address::Tcp(host, port) | Address::Tls(host, port, _) => format!("{host}:{port}"),
            Address::Unix(path) => path.display().to_string(),
        }
    }
}

impl fmt::Display for Address {
    /// As the prompt shows it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(host, port) | Address::Tls(host, port, _) if host.contains(':') => {
                write!(formatter, "[{host}]:{port}")
            }
            Address::Tcp(host, port) | Address::Tls(host, port, _) => write!(formatter, "{host}:{port}"),
            Address::Unix(path) => write!(formatter, "redis {}", path.display()),
        }
    }
}

/// A connected socket.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream>),
    Unix(UnixStream),
}

impl Stream {
    /// What an event loop registers.
    pub(crate) fn descriptor(&self) -> RawFd {
        match self {
            Stream::Tcp(stream) => stream.as_raw_fd(),
            Stream::Tls(stream) => stream.as_raw_fd(),
            Stream::Unix(stream) => stream.as_raw_fd(),
        }
    }

    /// Whether operations that would wait fail in place of waiting.
    pub(crate) fn set_nonblocking(&mut self, nonblocking: bool) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nonblocking(nonblocking),
            Stream::Tls(stream) => stream.set_nonblocking(nonblocking),
            Stream::Unix(stream) => stream.set_nonblocking(nonblocking),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tls(stream) => stream.flush(),
            Stream::Tcp(_) | Stream::Unix(_) => Ok(()),
        }
    }
}

/// How many bytes are read at a time, at most.
const READ_SIZE: usize = 64 * 1024;

/// Tries the addresses of a host, each for so long at most.
fn connect_within(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "The host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                failure = io::Error::new(error.kind(), "Connection timed out");
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// A connection to a server.
pub(crate) struct Connection {
    stream: Stream,
    /// What has arrived; replies up to `start` have been taken.
    arrived: Vec<u8>,
    start: usize,
    decoder: Decoder,
}

impl Connection {
    /// Connects, for so long at most if that is given.
    pub(crate) fn open(address: &Address, timeout: Option<Duration>) -> io::Result<Connection> {
        let connect = |host: &str, port: u16| {
            let stream = match timeout {
                Some(timeout) => connect_within(host, port, timeout)?,
                None => TcpStream::connect((host, port))?,
            };
            stream.set_nodelay(true).map(|()| stream)
        };
        let stream = match address {
            Address::Tcp(host, port) => Stream::Tcp(connect(host, *port)?),
            Address::Tls(host, port, config) => {
                Stream::Tls(Box::new(config.connect(connect(host, *port)?, host)?))
            }
            Address::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
        };
        Ok(Connection { stream, arrived: Vec::new(), start: 0, decoder: Decoder::default() })
    }

    /// What an event loop registers.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.stream.descriptor()
    }

    /// The socket, for those who read replies in their own way. Nothing but replies must have been received.
    pub(crate) fn into_stream(self) -> Stream {
        self.stream
    }

    /// Another handle on the same socket, to write while this one reads.
    pub(crate) fn writer(&mut self) -> io::Result<Box<dyn Write + Send>> {
        match &self.stream {
            Stream::Tcp(stream) => return Ok(Box::new(stream.try_clone()?)),
            Stream::Unix(stream) => return Ok(Box::new(stream.try_clone()?)),
            Stream::Tls(_) => {}
        }
        // Both directions of TLS share a state: a thread passes on what goes over a pair of sockets.
        let (near, far) = UnixStream::pair()?;
        if let Stream::Tls(stream) = std::mem::replace(&mut self.stream, Stream::Unix(near.try_clone()?)) {
            pump::start(*stream, far)?;
        }
        Ok(Box::new(near))
    }

    /// Lets reads fail that take longer.
    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.stream {
            Stream::Tcp(stream) => stream.set_read_timeout(timeout),
            Stream::Tls(stream) => stream.socket().set_read_timeout(timeout),
            Stream::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }

    /// Sends a command.
    pub(crate) fn send(&mut self, command: &[impl AsRef<[u8]>]) -> io::Result<()> {
        let mut request = Vec::new();
        encode_request(&mut request, command);
        self.stream.write_all(&request).map_err(|error| match error.kind() {
            // Another kind: the same one from standard output means that its reader has ended.
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

/// The error of a connection that the server has ended.
pub(crate) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "Server closed the connection")
}
