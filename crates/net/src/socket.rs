//! An accepted socket and who is at the other end of it.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use crate::system;
use crate::tls::{Acceptor, Session};

/// Who is at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A TCP connection.
    Tcp {
        /// The address of the client.
        remote: SocketAddr,
        /// The address that the client connected to.
        local: SocketAddr,
    },
    /// A Unix domain connection, known by the path of the listener.
    Unix {
        /// The path of the listening socket.
        path: Arc<str>,
    },
}

impl Peer {
    /// The client's end, as `addr=` in CLIENT LIST prints it: `127.0.0.1:51234`, `[::1]:51234`, `/path:0`.
    pub fn remote_text(&self) -> impl fmt::Display + '_ {
        Text { peer: self, remote: true }
    }

    /// The server's end, as `laddr=` in CLIENT LIST prints it: `127.0.0.1:6379`, `[::1]:6379`, `/path:0`.
    pub fn local_text(&self) -> impl fmt::Display + '_ {
        Text { peer: self, remote: false }
    }

    /// Whether this is a Unix domain connection.
    pub fn is_unix(&self) -> bool {
        matches!(self, Peer::Unix { .. })
    }

    /// Whether the client runs on this host, as protected mode sees it: a Unix domain connection or a
    /// loopback address.
    pub fn is_loopback(&self) -> bool {
        match self {
            Peer::Tcp { remote, .. } => remote.ip().to_canonical().is_loopback(),
            Peer::Unix { .. } => true,
        }
    }
}

struct Text<'a> {
    peer: &'a Peer,
    remote: bool,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = match self.peer {
            Peer::Unix { path } => return write!(out, "{path}:0"),
            Peer::Tcp { remote, local } => {
                if self.remote {
                    remote
                } else {
                    local
                }
            }
        };
        match address {
            SocketAddr::V4(address) => write!(out, "{address}"),
            // Without the scope of a link-local address, which Redis does not print either.
            SocketAddr::V6(address) => write!(out, "[{}]:{}", address.ip(), address.port()),
        }
    }
}

/// An accepted connection: owns the descriptor, which does not block. Dropping it closes the connection.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    peer: Peer,
    /// TLS, while no driver serves the connection.
    session: Option<Box<Session>>,
}

impl Socket {
    /// Takes over a freshly accepted descriptor; `path` is that of the listener if it is a Unix domain
    /// socket.
    pub(crate) fn from_accepted(fd: OwnedFd, path: Option<&Arc<str>>) -> io::Result<Socket> {
        if let Some(path) = path {
            return Ok(Socket { fd, peer: Peer::Unix { path: path.clone() }, session: None });
        }
        let stream = TcpStream::from(fd);
        let peer = Peer::Tcp { remote: stream.peer_addr()?, local: stream.local_addr()? };
        Ok(Socket { fd: OwnedFd::from(stream), peer, session: None })
    }

    /// Wraps a connected TCP stream, for connections that this side has opened.
    pub fn from_stream(stream: TcpStream) -> io::Result<Socket> {
        stream.set_nonblocking(true)?;
        Socket::from_accepted(OwnedFd::from(stream), None)
    }

    /// A connection of another process whose descriptor has come here; `path` is that of the listener if it is
    /// a Unix domain socket.
    pub fn received(fd: OwnedFd, path: Option<&str>) -> io::Result<Socket> {
        Socket::from_accepted(fd, path.map(Arc::from).as_ref())
    }

    /// Whether it speaks TLS, whose keys can not leave the process.
    pub fn has_tls(&self) -> bool {
        self.session.is_some()
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Has the connection speak TLS, of which nothing may have been received or sent so far.
    pub fn start_tls(&mut self, acceptor: &Acceptor) -> io::Result<()> {
        self.session = Some(Box::new(Session::new(acceptor)?));
        Ok(())
    }

    pub(crate) fn session_mut(&mut self) -> &mut Option<Box<Session>> {
        &mut self.session
    }

    /// The descriptor. It stays owned by this value.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Has the kernel probe a silent peer after `seconds`, then three times at a third of that. 0 turns it
    /// off. Nothing on a Unix domain socket.
    pub fn set_keepalive(&self, seconds: u32) {
        self.set_tcp_option(libc::SOL_SOCKET, libc::SO_KEEPALIVE, (seconds > 0).into());
        if seconds > 0 {
            let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
            self.set_tcp_option(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds);
            self.set_tcp_option(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, (seconds / 3).max(1));
            self.set_tcp_option(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3);
        }
    }

    /// Sends small segments at once. Nothing on a Unix domain socket.
    pub fn set_nodelay(&self, on: bool) {
        self.set_tcp_option(libc::IPPROTO_TCP, libc::TCP_NODELAY, on.into());
    }

    /// Sets a tuning option. The kernel refuses one only where the connection has already ended or the
    /// value is out of its range; the connection works without it.
    fn set_tcp_option(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) {
        if !self.peer.is_unix() {
            let _ = system::set_option(self.fd.as_fd(), level, name, value);
        }
    }

    /// Ends the connection from this side in good order: the peer sees the end after the last byte, and
    /// bytes that it sent in vain are read off, because closing with bytes unread would reset the
    /// connection and could take the last reply with it.
    pub(crate) fn finish(&self) {
        system::shutdown(self.fd(), libc::SHUT_WR);
        let mut scrap = [0; 4096];
        for _ in 0..64 {
            match system::receive(self.fd(), &mut scrap) {
                Ok(got) if got == scrap.len() => {}
                _ => return,
            }
        }
    }

    /// The error that the kernel holds against the connection, if any.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        let mut number: libc::c_int = 0;
        let mut len = size_of::<libc::c_int>() as libc::socklen_t;
        let pointer: *mut libc::c_int = &mut number;
        // SAFETY: the pointer and the length describe `number`, which outlives the call.
        let result = unsafe {
            libc::getsockopt(self.fd(), libc::SOL_SOCKET, libc::SO_ERROR, pointer.cast(), &mut len)
        };
        (result == 0 && number != 0).then(|| io::Error::from_raw_os_error(number))
    }

    /// One attempt to send a few bytes without waiting, for a farewell such as `-ERR max number of clients
    /// reached`.
    pub fn write_best_effort(&self, bytes: &[u8]) {
        // A peer that cannot take the farewell goes without it.
        let _ = system::send(self.fd(), bytes);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_print_as_in_client_list() {
        let tcp = |remote: &str, local: &str| Peer::Tcp {
            remote: remote.parse().expect("an address"),
            local: local.parse().expect("an address"),
        };
        let four = tcp("127.0.0.1:51234", "127.0.0.1:6379");
        assert_eq!(four.remote_text().to_string(), "127.0.0.1:51234");
        assert_eq!(four.local_text().to_string(), "127.0.0.1:6379");
        assert!(four.is_loopback());
        let six = tcp("[::1]:1", "[fe80::1%3]:6379");
        assert_eq!(six.remote_text().to_string(), "[::1]:1");
        assert_eq!(six.local_text().to_string(), "[fe80::1]:6379");
        assert!(!tcp("10.0.0.1:1", "10.0.0.2:6379").is_loopback());
        let unix = Peer::Unix { path: "/tmp/a.sock".into() };
        assert_eq!(unix.remote_text().to_string(), "/tmp/a.sock:0");
        assert_eq!(unix.local_text().to_string(), "/tmp/a.sock:0");
    }
}
