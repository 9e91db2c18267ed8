//! Whether io_uring works here as this driver needs it: tried, not guessed from version numbers.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use io_uring::types::Fd;
use io_uring::{cqueue, opcode, squeue};

use super::ring::{Completion, Ring, Waiting};
use super::submissions::SEND_AT_ONCE_FLAGS;
use crate::ring_buffers::{Buffers, GROUP};

/// Checks on a pair of connected sockets that everything the driver builds on works here.
pub(super) fn probe(ring: &mut Ring, buffers: &Buffers) -> io::Result<()> {
    let (near, far) = UnixStream::pair()?;
    near.set_nonblocking(true)?;
    let fd = near.as_raw_fd();
    probe_receive(ring, buffers, fd, &far)?;
    probe_send(ring, fd, &far)
}

/// Runs entries until `count` completions have come.
fn run(ring: &mut Ring, entries: Vec<squeue::Entry>, count: usize) -> io::Result<Vec<Completion>> {
    for entry in entries {
        // SAFETY: the callers keep memory and descriptors until the ring has reported, or the ring is given
        // up.
        unsafe { ring.push(entry) };
    }
    let mut completions = Vec::new();
    for _ in 0..10 {
        let wait = Waiting::for_one(Some(Duration::from_millis(100)));
        ring.enter(if completions.len() < count { wait } else { Waiting::NOT })?;
        ring.reap(|completion| completions.push(completion))?;
        if completions.len() >= count {
            break;
        }
    }
    Ok(completions)
}

fn works(condition: bool) -> io::Result<()> {
    if condition { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// A multishot receive delivers into the provided buffers, goes on, and can be cancelled.
fn probe_receive(ring: &mut Ring, buffers: &Buffers, fd: RawFd, far: &UnixStream) -> io::Result<()> {
    let mut far = far;
    let receive = opcode::RecvMulti::new(Fd(fd), GROUP).build().user_data(1);
    let mut entries = vec![receive];
    for text in [&b"one"[..], b"two"] {
        run(ring, std::mem::take(&mut entries), 0)?;
        far.write_all(text)?;
        let got = run(ring, Vec::new(), 1)?;
        let [one] = got.as_slice() else { return works(false) };
        works(one.result == text.len() as i32 && cqueue::more(one.flags))?;
        let id = cqueue::buffer_select(one.flags).ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: the completion has just named the buffer and its length.
        works(*unsafe { buffers.lend(id, text.len()) } == *text)?;
    }
    let cancel = opcode::AsyncCancel::new(1).build().flags(squeue::Flags::SKIP_SUCCESS);
    let ended = run(ring, vec![cancel.user_data(2)], 1)?;
    works(ended.len() == 1 && ended.iter().all(|it| it.data == 1 && it.result == -libc::ECANCELED))
}

/// A send at once is silent when it takes everything, and reports truly when it takes less.
fn probe_send(ring: &mut Ring, fd: RawFd, far: &UnixStream) -> io::Result<()> {
    let send = |bytes: &[u8]| {
        let entry = opcode::Send::new(Fd(fd), bytes.as_ptr(), bytes.len() as u32);
        entry.flags(SEND_AT_ONCE_FLAGS).build().flags(squeue::Flags::SKIP_SUCCESS).user_data(3)
    };
    works(run(ring, vec![send(b"short")], 0)?.is_empty())?;
    let long = vec![0; 8 * 1024 * 1024];
    let reports = run(ring, vec![send(&long)], 1)?;
    let [report] = reports.as_slice() else { return works(false) };
    let taken = usize::try_from(report.result).unwrap_or(0);
    works(taken > 0 && taken < long.len())?;
    let reports = run(ring, vec![send(&long)], 1)?;
    works(reports.len() == 1 && reports.iter().all(|it| it.result == -libc::EAGAIN))?;
    far.set_nonblocking(true)?;
    let mut arrived = Vec::new();
    let mut far = far;
    // Everything that is there, and then the error that says so.
    let _ = far.read_to_end(&mut arrived);
    works(arrived.len() == taken + 5)
}
