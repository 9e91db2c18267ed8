//! File descriptors that go to another process: over a Unix socket (SCM_RIGHTS), or to a child that inherits
//! them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

/// The number of descriptors that may go together.
pub const SENT_MAX: usize = 128;

/// Sends bytes, at least one, and up to [`SENT_MAX`] descriptors with the first of them. Blocks.
pub fn send(socket: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let too_many = || io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors");
    // The space may hold some more, by where it lies: a receiver has no room for them.
    if descriptors.len() > SENT_MAX {
        return Err(too_many());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SENT_MAX))];
    let mut sent = 0;
    while sent < bytes.len() {
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let is_with_descriptors = sent == 0 && !descriptors.is_empty();
        if is_with_descriptors && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(too_many());
        }
        let parts = [IoSlice::new(&bytes[sent..])];
        match rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL) {
            Ok(count) => sent += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Receives up to `buffer.len()` bytes, 0 at the end of the stream, and the descriptors that came with them,
/// which a child does not inherit. Blocks, for as long as the socket's read timeout says.
pub fn receive(socket: &UnixStream, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SENT_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(buffer)];
    let received = loop {
        match rustix::net::recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    Ok((received.bytes, descriptors))
}

/// Says whether children inherit a descriptor.
pub fn set_inherited(descriptor: impl AsFd, is_inherited: bool) -> io::Result<()> {
    let mut flags = fcntl_getfd(&descriptor)?;
    flags.set(FdFlags::CLOEXEC, !is_inherited);
    fcntl_setfd(&descriptor, flags).map_err(io::Error::from)
}

/// Takes over a Unix socket that this process has inherited under a number, as its parent has said in the
/// environment. `None` if the number is no such socket. To be called once for a number, before threads start.
pub fn inherited_socket(number: RawFd) -> Option<UnixStream> {
    const FIRST_INHERITED: RawFd = 3;
    if number < FIRST_INHERITED {
        return None;
    }
    // SAFETY: it is only looked at, and an error says if it is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_getfd(borrowed).ok()?;
    let is_unix = rustix::net::sockopt::socket_domain(borrowed).ok()? == rustix::net::AddressFamily::UNIX;
    if !is_unix {
        return None;
    }
    // SAFETY: it is open, and nothing in this process owns it: it was inherited, and the caller asks once.
    let owned = unsafe { OwnedFd::from_raw_fd(number) };
    set_inherited(&owned, false).ok()?;
    Some(UnixStream::from(owned))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::{AsRawFd, IntoRawFd};

    use super::*;

    #[test]
    fn a_descriptor_arrives_with_its_bytes() {
        let (ours, theirs) = UnixStream::pair().expect("sockets can be made");
        let (mut kept, sent) = UnixStream::pair().expect("sockets can be made");
        send(&ours, b"with", &[sent.as_fd()]).expect("the socket takes some bytes");
        send(&ours, b"without", &[]).expect("the socket takes some bytes");
        send(&ours, b"many", &[sent.as_fd(); SENT_MAX]).expect("the socket takes some bytes");
        assert!(send(&ours, b"too many", &[sent.as_fd(); SENT_MAX + 1]).is_err());
        drop((sent, ours));
        let mut bytes = [0; 4];
        let (count, mut descriptors) = receive(&theirs, &mut bytes).expect("something was sent");
        assert_eq!((&bytes[..count], descriptors.len()), (&b"with"[..], 1));
        let mut arrived = UnixStream::from(descriptors.remove(0));
        arrived.write_all(b"hello").expect("it is open");
        drop(arrived);
        let mut rest = [0; 16];
        // With more room Linux adds the bytes of the next message, and its descriptors.
        let (count, descriptors) = receive(&theirs, &mut rest[..7]).expect("something was sent");
        assert_eq!((&rest[..count], descriptors.len()), (&b"without"[..], 0));
        let (count, descriptors) = receive(&theirs, &mut rest).expect("something was sent");
        assert_eq!((&rest[..count], descriptors.len()), (&b"many"[..], SENT_MAX));
        drop(descriptors);
        let mut text = String::new();
        kept.read_to_string(&mut text).expect("it was closed");
        assert_eq!(text, "hello");
        assert_eq!(receive(&theirs, &mut rest).expect("the end is no error").0, 0);
    }

    #[test]
    fn only_an_inherited_unix_socket_is_taken_over() {
        let (ours, theirs) = UnixStream::pair().expect("sockets can be made");
        let number = theirs.into_raw_fd();
        let mut taken = inherited_socket(number).expect("it is a Unix socket");
        taken.write_all(b"x").expect("it is connected");
        assert_eq!(taken.as_raw_fd(), number);
        drop((taken, ours));
        let file = std::fs::File::open("/dev/null").expect("it exists");
        assert!(inherited_socket(file.as_raw_fd()).is_none());
        assert!(inherited_socket(1).is_none() && inherited_socket(-1).is_none());
    }
}
