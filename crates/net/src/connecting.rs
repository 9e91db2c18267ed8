//! Connections that this side opens from a given address of its own.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::listener::tcp_socket;

/// Connects to `address` from the local address `source`, whose port the kernel chooses. The stream blocks.
///
/// Fails if this machine does not have that address, if the two are of different families, or if nobody has
/// answered after `timeout`.
pub fn connect_from(source: IpAddr, address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let socket = tcp_socket(source)?;
    rustix::net::bind(&socket, &SocketAddr::new(source, 0))?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            let deadline = Instant::now() + timeout;
            loop {
                let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).ok();
                match poll(&mut [PollFd::new(&socket, PollFlags::OUT)], left.as_ref()) {
                    Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                    Ok(_) => break,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            sockopt::socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::connect_from;
    use std::net::{IpAddr, SocketAddr, TcpListener};
    use std::time::Duration;

    #[test]
    fn a_connection_comes_from_the_address_that_was_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let source: IpAddr = [127, 0, 0, 2].into();
        let stream = connect_from(source, address, Duration::from_secs(5)).expect("a connection");
        let (_accepted, peer) = listener.accept().expect("the same connection");
        assert_eq!(peer, stream.local_addr().expect("its address"));
        assert_eq!(peer.ip(), source);
    }

    #[test]
    fn an_address_of_another_machine_and_a_closed_port_are_errors() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let timeout = Duration::from_secs(5);
        assert!(connect_from([192, 0, 2, 1].into(), address, timeout).is_err());
        drop(listener);
        assert!(connect_from([127, 0, 0, 2].into(), address, timeout).is_err());
        let ipv6 = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], address.port()));
        assert!(connect_from([127, 0, 0, 2].into(), ipv6, timeout).is_err());
    }
}
