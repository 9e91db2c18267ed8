//! Listening sockets, TCP and Unix domain.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

/// The kernel takes a path of one byte more, which a client can not name: it ends paths with a zero.
const UNIX_PATH_BYTES_MAX: usize = 107;

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalAddress {
    /// A TCP address; the port is the real one, also if 0 was asked for.
    Tcp(SocketAddr),
    /// The path of a Unix domain socket.
    Unix(PathBuf),
}

/// A listening socket. Dropping it stops listening, and removes the file of a Unix domain socket.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    address: LocalAddress,
    /// The path once more, as the text that every accepted connection shares, for as long as the file is
    /// ours.
    path: Option<Arc<str>>,
}

impl Listener {
    /// Listens on a TCP address. An IPv6 address takes no IPv4 connections.
    pub fn tcp(address: SocketAddr, backlog: u32) -> io::Result<Listener> {
        Listener::open_tcp(address, backlog, false)
    }

    /// Like [`Listener::tcp`], also where the address overlaps with one of `others`, which this process
    /// listens on: one of the two is that of all interfaces.
    pub fn tcp_beside(address: SocketAddr, backlog: u32, others: &[Bound]) -> io::Result<Listener> {
        let others = others.iter().filter(|other| other.address.port() == address.port());
        others.clone().for_each(|other| other.share(true));
        let opened = Listener::open_tcp(address, backlog, others.clone().next().is_some());
        others.for_each(|other| other.share(false));
        opened
    }

    fn open_tcp(address: SocketAddr, backlog: u32, shares: bool) -> io::Result<Listener> {
        let fd = tcp_socket(address.ip())?;
        sockopt::set_socket_reuseaddr(&fd, true)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
        if shares {
            sockopt::set_socket_reuseport(&fd, true)?;
        }
        rustix::net::bind(&fd, &address)?;
        listen(&fd, backlog)?;
        if shares {
            sockopt::set_socket_reuseport(&fd, false)?;
        }
        let listener = TcpListener::from(fd);
        let address = listener.local_addr()?;
        Ok(Listener { fd: OwnedFd::from(listener), address: LocalAddress::Tcp(address), path: None })
    }

    /// Listens on a Unix domain socket. A file left at `path` is removed first; `permissions` are file mode
    /// bits.
    pub fn unix(path: &Path, permissions: Option<u32>, backlog: u32) -> io::Result<Listener> {
        let fd = stream_socket(AddressFamily::UNIX)?;
        if path.as_os_str().len() > UNIX_PATH_BYTES_MAX {
            return Err(Errno::NAMETOOLONG.into());
        }
        let socket_address = SocketAddrUnix::new(path)?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        rustix::net::bind(&fd, &socket_address)?;
        let text: Arc<str> = path.to_string_lossy().into();
        let address = LocalAddress::Unix(path.to_path_buf());
        let listener = Listener { fd, address, path: Some(text) };
        if let Some(mode) = permissions {
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        }
        listen(&listener.fd, backlog)?;
        Ok(listener)
    }

    /// A listener of another process whose descriptor has come here. The file of a Unix domain socket is its
    /// responsibility from now on.
    pub fn received(fd: OwnedFd, address: LocalAddress) -> Listener {
        let path = match &address {
            LocalAddress::Unix(path) => Some(path.to_string_lossy().into()),
            LocalAddress::Tcp(_) => None,
        };
        Listener { fd, address, path }
    }

    /// A second handle of a TCP listener.
    pub fn bound(&self) -> Option<Bound> {
        match self.address {
            LocalAddress::Tcp(address) => Some(Bound { address, fd: self.fd.try_clone().ok() }),
            LocalAddress::Unix(_) => None,
        }
    }

    /// Leaves the file of a Unix domain socket alone: another process has the listener now.
    pub fn leave_file(&mut self) {
        self.path = None;
    }

    /// Where this listener listens.
    pub fn local_addr(&self) -> &LocalAddress {
        &self.address
    }

    fn remove_file(&mut self) {
        if let LocalAddress::Unix(path) = &self.address
            && self.path.take().is_some()
        {
            // A file that is gone already needs no removing.
            let _ = fs::remove_file(path);
        }
    }

    pub(crate) fn unix_path(&self) -> Option<&Arc<str>> {
        self.path.as_ref()
    }
}

/// A second handle of a TCP listener: who holds it keeps the socket listening.
#[derive(Debug)]
pub struct Bound {
    address: SocketAddr,
    /// None where descriptors had run out.
    fd: Option<OwnedFd>,
}

impl Bound {
    /// Where the listener listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets whether sockets of this user may be bound to the same port.
    fn share(&self, on: bool) {
        if let Some(fd) = &self.fd {
            // Where the kernel refuses, the other socket is refused too.
            let _ = sockopt::set_socket_reuseport(fd, on);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.remove_file();
    }
}

/// A TCP socket for addresses of this family, which does not block.
pub(crate) fn tcp_socket(address: IpAddr) -> io::Result<OwnedFd> {
    stream_socket(if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 })
}

fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?)
}

fn listen(fd: &OwnedFd, backlog: u32) -> io::Result<()> {
    Ok(rustix::net::listen(fd, i32::try_from(backlog).unwrap_or(i32::MAX))?)
}

/// One `accept` that never waits.
pub(crate) fn accept(listener: &Listener) -> rustix::io::Result<OwnedFd> {
    rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
}

/// What an error of `accept` asks for.
pub(crate) enum AcceptError {
    /// This connection had gone, or a signal came: go on with the next.
    Next,
    /// Nothing waits.
    Empty,
    /// Descriptors or memory have run out: pause, the connection keeps waiting.
    BackOff,
}

impl AcceptError {
    pub(crate) fn of(error: Errno) -> AcceptError {
        match error {
            Errno::AGAIN => AcceptError::Empty,
            Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::INVAL | Errno::BADF => {
                AcceptError::BackOff
            }
            _ => AcceptError::Next,
        }
    }
}
