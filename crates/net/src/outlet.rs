//! The way past the send queue of a connection, for who makes bytes while others leave.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use crate::system;

/// Sends bytes of a connection at once. It is given out while the connection's queue is empty
/// ([`Driver::outlet`](crate::Driver::outlet)) and dropped before anything is put there.
#[derive(Debug)]
pub struct Outlet {
    /// A duplicate, so that it is the connection's whatever becomes of the driver.
    fd: OwnedFd,
}

impl Outlet {
    pub(crate) fn new(socket: impl AsFd) -> Option<Outlet> {
        Some(Outlet { fd: rustix::io::fcntl_dupfd_cloexec(socket, 0).ok()? })
    }

    /// Sends as many of the bytes as the kernel takes now, from the first on. Returns how many. An error is
    /// left for the driver to find.
    pub fn send(&self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
            match system::send(self.fd.as_fd(), rest) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        sent
    }
}
