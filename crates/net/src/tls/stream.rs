//! A connected socket with TLS, for those who look after one connection: links to other servers, and tools.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// How many bytes wait to be encrypted and sent, at most.
const UNSENT_BYTES_MAX: usize = 256 << 10;
/// How long one step of a handshake waits where there is a limit of time.
const STEP: Duration = Duration::from_millis(100);

/// A connected socket with TLS. Reads and writes wait as long as the socket's timeouts say.
pub struct TlsStream {
    tls: ClientConnection,
    socket: TcpStream,
    is_nonblocking: bool,
}

impl TlsStream {
    /// Agrees with the server at the other end, as `config` and `name` say. With a limit of time the
    /// socket gets timeouts.
    pub fn connect(
        mut socket: TcpStream,
        config: &Arc<ClientConfig>,
        name: ServerName<'static>,
        time_max: Option<Duration>,
    ) -> io::Result<TlsStream> {
        let mut tls = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        tls.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        if time_max.is_some() {
            socket.set_read_timeout(Some(STEP))?;
            socket.set_write_timeout(Some(STEP))?;
        }
        let deadline = time_max.map(|time| Instant::now() + time);
        while tls.is_handshaking() {
            match tls.complete_io(&mut socket) {
                Err(error) if is_pause(&error) && deadline.is_some_and(|end| Instant::now() < end) => {}
                outcome => drop(outcome?),
            }
        }
        Ok(TlsStream { tls, socket, is_nonblocking: false })
    }

    /// The socket, whose timeouts may change. [`TlsStream::set_nonblocking`] has reads and writes not wait.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Whether reads and writes fail with `WouldBlock` where they had to wait.
    pub fn set_nonblocking(&mut self, nonblocking: bool) -> io::Result<()> {
        self.is_nonblocking = nonblocking;
        self.socket.set_nonblocking(nonblocking)
    }

    /// Takes what has been decrypted; 0 at the end, `WouldBlock` if there is nothing.
    fn decrypted(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.tls.reader().read(buffer) {
            // The server hung up without saying so; many do.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            result => result,
        }
    }

    /// Reads what has arrived and decrypts it; answers to it, such as new keys, go out as far as they can.
    fn receive(&mut self) -> io::Result<()> {
        self.flush_as_possible()?;
        match self.tls.read_tls(&mut self.socket) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            received => drop(received?),
        }
        self.tls.process_new_packets().map_err(io::Error::other)?;
        self.flush_as_possible()
    }

    /// Sends what the kernel takes.
    fn flush_as_possible(&mut self) -> io::Result<()> {
        match self.flush() {
            Err(error) if is_pause(&error) => Ok(()),
            outcome => outcome,
        }
    }
}

fn is_pause(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

impl AsRawFd for TlsStream {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl Read for TlsStream {
    /// Where nothing waits, reads all that has arrived, as far as the buffer takes it.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        loop {
            match self.decrypted(&mut buffer[count..]) {
                Ok(0) => return Ok(count),
                Ok(more) => {
                    count += more;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if count == 0 => return Err(error),
                Err(_) => return Ok(count),
            }
            if count > 0 && !self.is_nonblocking {
                return Ok(count);
            }
            match self.receive() {
                Err(_) if count > 0 => return Ok(count),
                received => received?,
            }
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // What was accepted before goes first, so that there is room.
        self.flush_as_possible()?;
        let count = self.tls.writer().write(bytes)?;
        if count == 0 && !bytes.is_empty() {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        self.flush_as_possible()?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                sent => drop(sent?),
            }
        }
        Ok(())
    }
}
