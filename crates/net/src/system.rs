//! Sends and receives that never wait, and waits for events.
//!
//! System calls are rustix's, here and in the modules beside. `libc` is left where the io_uring crate takes
//! and gives the kernel's raw values (`msghdr`, `iovec`, the bits of `poll` and `send`, errors in
//! completions), and for `mincore`, which a test uses: rustix has no such call.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Result;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use rustix::time::Timespec;

/// The longest wait for events. A longer one needs a system call that old kernels lack.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What fills an array of events.
pub(crate) const NO_EVENT: Event = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };

const SEND_FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// A new epoll instance.
pub(crate) fn epoll() -> Result<OwnedFd> {
    epoll::create(CreateFlags::CLOEXEC)
}

/// Waits for events as long as it takes, or so long, rounded up to milliseconds, but no more than a day.
/// Returns how many there are.
pub(crate) fn epoll_wait(epoll: &OwnedFd, events: &mut [Event], timeout: Option<Duration>) -> Result<usize> {
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout.min(WAIT_MAX)).ok());
    epoll::wait(epoll, events, timeout.as_ref())
}

/// One `recv` that never waits. Appends at most `len` bytes to `buffer`, into capacity that it already has.
pub(crate) fn receive_into(fd: BorrowedFd<'_>, buffer: &mut Vec<u8>, len: usize) -> Result<usize> {
    let spare = buffer.spare_capacity_mut();
    let len = len.min(spare.len());
    let ((received, _), _) = rustix::net::recv(fd, &mut spare[..len], RecvFlags::DONTWAIT)?;
    let got = received.len();
    // SAFETY: the kernel has initialised `got` more bytes, which lie within the capacity.
    unsafe { buffer.set_len(buffer.len() + got) };
    Ok(got)
}

/// One `recv` that never waits, into initialised memory.
pub(crate) fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize> {
    rustix::net::recv(fd, buffer, RecvFlags::DONTWAIT).map(|(got, _)| got)
}

/// One `send` that never waits and raises no SIGPIPE.
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize> {
    rustix::net::send(fd, bytes, SEND_FLAGS)
}

/// One gathering `sendmsg` that never waits and raises no SIGPIPE.
pub(crate) fn send_gathered(fd: BorrowedFd<'_>, parts: &[io::IoSlice<'_>]) -> Result<usize> {
    rustix::net::sendmsg(fd, parts, &mut SendAncillaryBuffer::default(), SEND_FLAGS)
}

/// The number of received bytes that wait in the kernel.
pub(crate) fn waiting_bytes(fd: impl AsFd) -> usize {
    rustix::io::ioctl_fionread(fd).map_or(0, |waiting| waiting as usize)
}
