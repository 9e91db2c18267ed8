//! The system calls that the standard library does not offer, as safe functions.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, c_void};

/// The value of a system call, or its `errno`.
pub(crate) fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The length that a system call answered, or its `errno`.
pub(crate) fn checked_len(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Takes ownership of a descriptor that a system call has just returned.
pub(crate) fn owned(fd: RawFd) -> OwnedFd {
    debug_assert!(fd >= 0);
    // SAFETY: callers pass a descriptor that the kernel has just created for them and that nothing else
    // owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

pub(crate) fn set_option(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let pointer: *const c_int = &value;
    // SAFETY: the pointer and the length describe `value`, which outlives the call.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, pointer.cast(), size_of::<c_int>() as u32) };
    checked(result).map(drop)
}

/// A new epoll instance.
pub(crate) fn epoll() -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(owned)
}

/// Registers a descriptor with an epoll instance, changes what is registered, or removes it.
pub(crate) fn epoll_control(
    epoll: &OwnedFd,
    operation: c_int,
    fd: RawFd,
    events: u32,
    data: u64,
) -> io::Result<()> {
    let mut event = libc::epoll_event { events, u64: data };
    // SAFETY: `event` is valid for the length of the call, which does not keep it.
    checked(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, fd, &mut event) }).map(drop)
}

/// Waits for events, for as many milliseconds or, with -1, as long as it takes. Returns how many there are.
pub(crate) fn epoll_wait(
    epoll: &OwnedFd,
    events: &mut [libc::epoll_event],
    milliseconds: c_int,
) -> io::Result<usize> {
    let capacity = c_int::try_from(events.len()).unwrap_or(c_int::MAX);
    // SAFETY: `events` is writable for `capacity` events.
    let count =
        checked(unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), capacity, milliseconds) })?;
    Ok(count as usize)
}

/// One `recv` that never waits. Appends at most `len` bytes to `buffer`, into capacity that it already has.
pub(crate) fn receive_into(fd: RawFd, buffer: &mut Vec<u8>, len: usize) -> io::Result<usize> {
    let spare = buffer.spare_capacity_mut();
    let len = len.min(spare.len());
    // SAFETY: `spare` is writable for `len` bytes, and the kernel writes no more than that.
    let got = unsafe { libc::recv(fd, spare.as_mut_ptr().cast::<c_void>(), len, libc::MSG_DONTWAIT) };
    let got = checked_len(got)?;
    debug_assert!(got <= len);
    // SAFETY: the kernel has initialised `got` more bytes, which lie within the capacity.
    unsafe { buffer.set_len(buffer.len() + got) };
    Ok(got)
}

/// One `recv` that never waits, into initialised memory.
pub(crate) fn receive(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: `buffer` is writable for its length.
    let got =
        unsafe { libc::recv(fd, buffer.as_mut_ptr().cast::<c_void>(), buffer.len(), libc::MSG_DONTWAIT) };
    checked_len(got)
}

/// One `send` that never waits and raises no SIGPIPE.
pub(crate) fn send(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `bytes` is readable for its length.
    checked_len(unsafe { libc::send(fd, bytes.as_ptr().cast::<c_void>(), bytes.len(), flags) })
}

/// One gathering `sendmsg` that never waits and raises no SIGPIPE.
pub(crate) fn send_gathered(fd: RawFd, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: an all-zero `msghdr` is a valid empty one.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    // `IoSlice` has the layout of `iovec`; the kernel only reads through it.
    header.msg_iov = parts.as_ptr().cast_mut().cast::<libc::iovec>();
    header.msg_iovlen = parts.len() as _;
    // SAFETY: `header` points to `parts`, whose memory is borrowed for the length of the call.
    checked_len(unsafe { libc::sendmsg(fd, &header, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) })
}

/// Ends both directions of a connection, which also ends the operations that wait on it. Errors mean it had
/// ended.
pub(crate) fn shutdown(fd: RawFd, how: c_int) {
    // SAFETY: no memory is involved.
    unsafe { libc::shutdown(fd, how) };
}

/// The number of received bytes that wait in the kernel.
pub(crate) fn waiting_bytes(fd: RawFd) -> usize {
    let mut waiting: c_int = 0;
    // SAFETY: FIONREAD writes one `int`.
    let result = unsafe { libc::ioctl(fd, libc::FIONREAD, &mut waiting) };
    if result < 0 { 0 } else { waiting.max(0) as usize }
}
