//! An accepted socket and who is at the other end of it.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{Shutdown, sockopt};

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
    /// Whether this is a Unix domain connection.
    pub fn is_unix(&self) -> bool {
        matches!(self, Peer::Unix { .. })
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

    /// A connection of another process whose descriptor has come here; `path` is that of the listener if it
    /// is a Unix domain socket.
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
        if self.peer.is_unix() {
            return;
        }
        // The kernel refuses an option only where the connection has already ended or the value is out of its
        // range; the connection works without it.
        let _ = sockopt::set_socket_keepalive(self, seconds > 0);
        if seconds > 0 {
            let _ = sockopt::set_tcp_keepidle(self, Duration::from_secs(seconds.into()));
            let _ = sockopt::set_tcp_keepintvl(self, Duration::from_secs((seconds / 3).max(1).into()));
            let _ = sockopt::set_tcp_keepcnt(self, 3);
        }
    }

    /// Sends small segments at once. Nothing on a Unix domain socket.
    pub fn set_nodelay(&self, on: bool) {
        if !self.peer.is_unix() {
            // As above: refused only where it does not matter.
            let _ = sockopt::set_tcp_nodelay(self, on);
        }
    }

    /// Ends the connection from this side in good order: the peer sees the end after the last byte, and
    /// bytes that it sent in vain are read off, because closing with bytes unread would reset the
    /// connection and could take the last reply with it.
    pub(crate) fn finish(&self) {
        // An error means that it has ended already.
        let _ = rustix::net::shutdown(self, Shutdown::Write);
        let mut scrap = [0; 4096];
        for _ in 0..64 {
            match system::receive(self.as_fd(), &mut scrap) {
                Ok(got) if got == scrap.len() => {}
                _ => return,
            }
        }
    }

    /// The error that the kernel holds against the connection, if any.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        sockopt::socket_error(self).ok()?.err().map(io::Error::from)
    }

    /// One attempt to send a few bytes without waiting, for a farewell such as `-ERR max number of clients
    /// reached`.
    pub fn write_best_effort(&self, bytes: &[u8]) {
        // A peer that cannot take the farewell goes without it.
        let _ = system::send(self.as_fd(), bytes);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
