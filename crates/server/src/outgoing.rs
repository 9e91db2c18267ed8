//! Connections that this server opens to others.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mantissa_engine::host::Stream;

/// A TCP connection to another server.
struct Plain(TcpStream);

impl Read for Plain {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Stream for Plain {
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.0.set_read_timeout(Some(timeout))?;
        self.0.set_write_timeout(Some(timeout))
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.0.local_addr().ok()
    }

    fn remote_address(&self) -> Option<SocketAddr> {
        self.0.peer_addr().ok()
    }

    fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// A Unix socket to another process.
struct Local(UnixStream);

impl Read for Local {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for Local {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Stream for Local {
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.0.set_read_timeout(Some(timeout))?;
        self.0.set_write_timeout(Some(timeout))
    }

    fn local_address(&self) -> Option<SocketAddr> {
        None
    }

    fn remote_address(&self) -> Option<SocketAddr> {
        None
    }

    fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// A connection over a Unix socket.
pub fn local(stream: UnixStream, timeout: Duration) -> io::Result<Box<dyn Stream>> {
    stream.set_nonblocking(false)?;
    let mut stream = Local(stream);
    stream.set_timeout(timeout)?;
    Ok(Box::new(stream))
}

/// Connects to the first address of a host that answers.
pub fn connect(host: &str, port: u16, timeout: Duration) -> io::Result<Box<dyn Stream>> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                let mut stream = Plain(stream);
                stream.set_timeout(timeout)?;
                return Ok(Box::new(stream));
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
