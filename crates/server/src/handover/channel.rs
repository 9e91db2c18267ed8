//! The Unix socket between the two processes of a hand-over: requests in RESP, some with a descriptor.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mantissa_protocol::{Args, OwnedArgs, Parsed, RequestLimits, RequestParser, encode_request};
use mantissa_sys::descriptors;

/// Bytes that are received at a time.
const RECEIVED_BYTES_MAX: usize = 64 << 10;

/// One end of it.
pub struct Channel {
    socket: UnixStream,
    /// Received and not parsed.
    bytes: Vec<u8>,
    parser: RequestParser,
    /// Received descriptors, in the order of the messages that have one.
    descriptors: VecDeque<OwnedFd>,
}

impl Channel {
    /// A channel over a socket.
    pub fn new(socket: UnixStream) -> Channel {
        Channel { socket, bytes: Vec::new(), parser: RequestParser::default(), descriptors: VecDeque::new() }
    }

    /// Sends a message, and a descriptor with it.
    pub fn send(&self, words: &[&[u8]], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut bytes = Vec::new();
        encode_request(&mut bytes, words);
        descriptors::send(&self.socket, &bytes, descriptor.as_slice())
    }

    /// Sends encoded messages, and the descriptors of those that have one.
    pub fn send_all(&self, messages: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        descriptors::send(&self.socket, messages, descriptors)
    }

    /// The next message. Fails with [`io::ErrorKind::UnexpectedEof`] when the other process is gone, and with
    /// [`io::ErrorKind::TimedOut`] or [`io::ErrorKind::WouldBlock`] if nothing comes for so long.
    pub fn receive(&mut self, timeout: Duration) -> io::Result<OwnedArgs> {
        self.socket.set_read_timeout(Some(timeout))?;
        let mut slices = Vec::new();
        loop {
            match self.parser.parse(&self.bytes, &RequestLimits::TRUSTED, &mut slices) {
                Parsed::Request { consumed } => {
                    let message = Args::new(&self.bytes, &slices).to_owned();
                    self.bytes.drain(..consumed);
                    return Ok(message);
                }
                Parsed::Incomplete { .. } => {}
                _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "not a message of a hand-over")),
            }
            let start = self.bytes.len();
            self.bytes.resize(start + RECEIVED_BYTES_MAX, 0);
            let received = descriptors::receive(&self.socket, &mut self.bytes[start..]);
            let count = received.as_ref().map_or(0, |(count, _)| *count);
            self.bytes.truncate(start + count);
            let (_, received) = received?;
            self.descriptors.extend(received);
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The descriptor of the message that was received last, if it says that it has one.
    pub fn take_descriptor(&mut self) -> io::Result<OwnedFd> {
        let missing = || io::Error::new(io::ErrorKind::InvalidData, "a descriptor is missing");
        self.descriptors.pop_front().ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn messages_come_whole_and_with_their_descriptors() {
        let (ours, theirs) = UnixStream::pair().expect("sockets can be made");
        let (left, right) = UnixStream::pair().expect("sockets can be made");
        let large = vec![b'x'; 3 << 20];
        let sent = large.clone();
        let sender = std::thread::spawn(move || {
            let channel = Channel::new(ours);
            channel.send(&[b"begin"], None).expect("it is read");
            channel.send(&[b"client", &sent], Some(left.as_fd())).expect("it is read");
            channel.send(&[b"client", b""], Some(right.as_fd())).expect("it is read");
            channel.send(&[b"end"], None).expect("it is read");
        });
        let mut channel = Channel::new(theirs);
        let wait = Duration::from_secs(30);
        let next = |channel: &mut Channel| channel.receive(wait).expect("a message comes");
        assert_eq!(next(&mut channel).as_args().at(0), b"begin");
        let message = next(&mut channel);
        assert_eq!(message.as_args().at(1), large);
        let first = channel.take_descriptor().expect("it has one");
        assert_eq!(next(&mut channel).as_args().len(), 2);
        let second = channel.take_descriptor().expect("it has one");
        assert_eq!(next(&mut channel).as_args().at(0), b"end");
        assert!(channel.take_descriptor().is_err());
        sender.join().expect("it has sent everything");
        drop(first);
        let mut rest = Vec::new();
        UnixStream::from(second).read_to_end(&mut rest).expect("the other end is closed");
        let error = channel.receive(wait).expect_err("the other end is closed");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
