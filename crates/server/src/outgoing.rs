//! Connections that this server opens to others.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mantissa_engine::config::Config;
use mantissa_engine::host::Stream;
use mantissa_engine::state::replication::Address;
use mantissa_net::TlsStream;

use crate::tls;

/// A connection to another process.
struct Connection<S>(S);

/// What a connection lies on.
trait Socket: Read + Write + Send + AsRawFd {
    fn set_timeouts(&self, timeout: Duration) -> io::Result<()>;

    /// The TCP connection that it is, or lies on.
    fn tcp(&self) -> Option<&TcpStream>;
}

impl Socket for TcpStream {
    fn set_timeouts(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }

    fn tcp(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

impl Socket for TlsStream {
    fn set_timeouts(&self, timeout: Duration) -> io::Result<()> {
        self.socket().set_timeouts(timeout)
    }

    fn tcp(&self) -> Option<&TcpStream> {
        Some(self.socket())
    }
}

impl Socket for UnixStream {
    fn set_timeouts(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }

    fn tcp(&self) -> Option<&TcpStream> {
        None
    }
}

impl<S: Read> Read for Connection<S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl<S: Write> Write for Connection<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<S: Socket> Stream for Connection<S> {
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.0.set_timeouts(timeout)
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.0.tcp()?.local_addr().ok()
    }

    fn remote_address(&self) -> Option<SocketAddr> {
        self.0.tcp()?.peer_addr().ok()
    }

    fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// A connection over a Unix socket.
pub fn local(stream: UnixStream, timeout: Duration) -> io::Result<Box<dyn Stream>> {
    stream.set_nonblocking(false)?;
    stream.set_timeouts(timeout)?;
    Ok(Box::new(Connection(stream)))
}

/// Connects to the first address of a host that answers, from `bind-source-addr` where it is set, with TLS
/// where `tls-replication` says so.
pub fn connect(config: &Config, address: &Address, timeout: Duration) -> io::Result<Box<dyn Stream>> {
    let Address { host, port } = address;
    let connector = match config.tls_replication {
        true => Some(tls::connector(config).map_err(io::Error::other)?),
        false => None,
    };
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host.as_str(), *port).to_socket_addrs()? {
        let connected = connect_tcp(&config.bind_source_addr, address, timeout).and_then(|socket| {
            socket.set_nodelay(true)?;
            Ok::<Box<dyn Stream>, io::Error>(match &connector {
                Some(connector) => Box::new(Connection(connector.connect(socket, host, timeout)?)),
                None => Box::new(Connection(socket)),
            })
        });
        match connected {
            Ok(mut stream) => {
                stream.set_timeout(timeout)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Connects from the address `source`, a name or a number, if there is one and it can be had. Otherwise the
/// system chooses the address.
fn connect_tcp(source: &str, address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    if !source.is_empty()
        && let Ok(sources) = (source, 0).to_socket_addrs()
    {
        let same_family = |own: &SocketAddr| own.is_ipv4() == address.is_ipv4();
        for own in sources.filter(same_family) {
            match mantissa_net::connect_from(own.ip(), address, timeout) {
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {}
                connected => return connected,
            }
        }
    }
    TcpStream::connect_timeout(&address, timeout)
}
