//! Listening sockets, TCP and Unix domain.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::system;

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
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let fd = stream_socket(family)?;
        system::set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        if address.is_ipv6() {
            system::set_option(fd.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
        }
        bind_tcp(&fd, address)?;
        listen(&fd, backlog)?;
        let listener = TcpListener::from(fd);
        let address = listener.local_addr()?;
        Ok(Listener { fd: OwnedFd::from(listener), address: LocalAddress::Tcp(address), path: None })
    }

    /// Listens on a Unix domain socket. A file left at `path` is removed first; `permissions` are file mode
    /// bits.
    pub fn unix(path: &Path, permissions: Option<u32>, backlog: u32) -> io::Result<Listener> {
        let fd = stream_socket(libc::AF_UNIX)?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        bind_unix(&fd, path)?;
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

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    pub(crate) fn unix_path(&self) -> Option<&Arc<str>> {
        self.path.as_ref()
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

fn stream_socket(family: libc::c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is involved.
    system::checked(unsafe { libc::socket(family, kind, 0) }).map(system::owned)
}

fn listen(fd: &OwnedFd, backlog: u32) -> io::Result<()> {
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    // SAFETY: no memory is involved.
    system::checked(unsafe { libc::listen(fd.as_raw_fd(), backlog) }).map(drop)
}

fn bind_tcp(fd: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    match address {
        SocketAddr::V4(address) => {
            // SAFETY: all-zero is a valid `sockaddr_in`.
            let mut raw: libc::sockaddr_in = unsafe { std::mem::zeroed() };
            raw.sin_family = libc::AF_INET as _;
            raw.sin_port = address.port().to_be();
            raw.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
            bind(fd, &raw, size_of_val(&raw))
        }
        SocketAddr::V6(address) => {
            // SAFETY: all-zero is a valid `sockaddr_in6`.
            let mut raw: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
            raw.sin6_family = libc::AF_INET6 as _;
            raw.sin6_port = address.port().to_be();
            raw.sin6_addr.s6_addr = address.ip().octets();
            raw.sin6_scope_id = address.scope_id();
            raw.sin6_flowinfo = address.flowinfo();
            bind(fd, &raw, size_of_val(&raw))
        }
    }
}

fn bind_unix(fd: &OwnedFd, path: &Path) -> io::Result<()> {
    let bytes = path.as_os_str().as_encoded_bytes();
    // SAFETY: all-zero is a valid `sockaddr_un`.
    let mut raw: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    if bytes.len() >= raw.sun_path.len() || bytes.contains(&0) {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    raw.sun_family = libc::AF_UNIX as _;
    for (to, &from) in raw.sun_path.iter_mut().zip(bytes) {
        *to = from as _;
    }
    bind(fd, &raw, size_of_val(&raw))
}

fn bind<T>(fd: &OwnedFd, address: &T, len: usize) -> io::Result<()> {
    let pointer: *const T = address;
    // SAFETY: `address` is a socket address of `len` bytes, which the kernel only reads.
    system::checked(unsafe { libc::bind(fd.as_raw_fd(), pointer.cast(), len as _) }).map(drop)
}

/// One `accept` that never waits.
pub(crate) fn accept(listener: &Listener) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let none = std::ptr::null_mut();
    // SAFETY: null asks for no address.
    system::checked(unsafe { libc::accept4(listener.raw_fd(), none, std::ptr::null_mut(), flags) })
        .map(system::owned)
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
    pub(crate) fn of(error: &io::Error) -> AcceptError {
        match error.raw_os_error().unwrap_or(0) {
            libc::EAGAIN => AcceptError::Empty,
            libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM | libc::EINVAL | libc::EBADF => {
                AcceptError::BackOff
            }
            _ => AcceptError::Next,
        }
    }
}
