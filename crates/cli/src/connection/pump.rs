//! Passes bytes between a stream with TLS and a local socket, in both directions at once, on a thread of its
//! own.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use mantissa_net::TlsStream;

/// How many bytes may wait in a direction.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// Bytes on their way in one direction.
#[derive(Default)]
struct Way {
    waiting: Vec<u8>,
    has_ended: bool,
}

impl Way {
    /// Moves what can be moved without waiting; whether there was anything.
    fn run(&mut self, from: &mut impl Read, to: &mut impl Write) -> io::Result<bool> {
        let mut moved = false;
        if !self.has_ended && self.waiting.len() < WAITING_BYTES_MAX {
            let end = self.waiting.len();
            self.waiting.resize(end + WAITING_BYTES_MAX, 0);
            let read = without_waiting(from.read(&mut self.waiting[end..]));
            self.waiting.truncate(end + read.as_ref().map_or(0, |read| read.unwrap_or(0)));
            let read = read?;
            self.has_ended = read == Some(0);
            moved = read.is_some();
        }
        if !self.waiting.is_empty()
            && let Some(count) = without_waiting(to.write(&self.waiting))?
        {
            self.waiting.drain(..count);
            moved = true;
        }
        without_waiting(to.flush())?;
        Ok(moved)
    }

    fn is_done(&self) -> bool {
        self.has_ended && self.waiting.is_empty()
    }
}

/// `None` in place of an error that says that there is nothing now.
fn without_waiting<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        outcome => outcome.map(Some),
    }
}

/// Starts to pass bytes on, until one of both ends.
pub(super) fn start(mut server: TlsStream, mut local: UnixStream) -> io::Result<()> {
    server.set_nonblocking(true)?;
    local.set_nonblocking(true)?;
    let mut poll = Poll::new()?;
    for (token, descriptor) in [server.as_raw_fd(), local.as_raw_fd()].into_iter().enumerate() {
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut SourceFd(&descriptor), Token(token), interest)?;
    }
    thread::spawn(move || {
        // The local reader sees the end of the stream, also after an error.
        let _ = pass(&mut poll, &mut server, &mut local);
        let _ = local.shutdown(Shutdown::Both);
    });
    Ok(())
}

fn pass(poll: &mut Poll, server: &mut TlsStream, local: &mut UnixStream) -> io::Result<()> {
    let (mut up, mut down) = (Way::default(), Way::default());
    let mut events = Events::with_capacity(8);
    while !down.is_done() && !up.is_done() {
        let moved = up.run(local, server)? | down.run(server, local)?;
        if !moved
            && let Err(error) = poll.poll(&mut events, None)
            && error.kind() != io::ErrorKind::Interrupted
        {
            return Err(error);
        }
    }
    Ok(())
}
