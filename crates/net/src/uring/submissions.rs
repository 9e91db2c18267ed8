//! What goes to the kernel: the operations of connections, the polls for wake-ups and listeners, and the
//! call that submits and waits.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd};
use io_uring::{cqueue, opcode, squeue};

use super::ring::Waiting;
use super::{Purpose, Sending, Standing, Uring};
use crate::link::{Due, SENT_EVENT_BYTES};
use crate::ring_buffers::GROUP;
use crate::slots::Conn;

/// Buffers handed over in one gathering send.
const GATHERED: usize = 32;
/// Maximum bytes of one send, far below the limit of its 32-bit length.
const OPERATION_BYTES_MAX: usize = 1 << 30;
/// Bytes of a fill that one receive waits for: until then the kernel does not tell how many have arrived. To
/// wait for none takes a tenth more processor time for values of 64 MB. The last bytes are not waited for.
const FILL_OPERATION_BYTES_MAX: usize = 256 << 10;

const SEND_FLAGS: i32 = libc::MSG_NOSIGNAL;
/// Flags of a send that does not wait for space in the socket's buffer and fails unless it sends everything.
pub(super) const SEND_AT_ONCE_FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_WAITALL;

/// The header and the parts of a gathering send. The kernel copies both when the entry is submitted.
pub(super) struct Message {
    header: libc::msghdr,
    parts: [libc::iovec; GATHERED],
}

impl Message {
    /// A message of these parts; `IoSlice` has the layout of `iovec`.
    fn new(slices: &[IoSlice<'_>]) -> Box<Message> {
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: an all-zero `msghdr` is a valid empty one.
        let header = unsafe { std::mem::zeroed() };
        let mut message = Box::new(Message { header, parts: [empty; GATHERED] });
        for (part, slice) in message.parts.iter_mut().zip(slices) {
            *part = libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len: slice.len() };
        }
        message.header.msg_iov = message.parts.as_mut_ptr();
        message.header.msg_iovlen = slices.len().min(GATHERED) as _;
        message
    }
}

impl Uring {
    /// Submits everything that is queued, waits, and takes in what has completed.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.release_limbo();
        match std::mem::take(&mut self.starved) {
            0 => {}
            starved => self.buffers.grow(starved),
        }
        let ending = std::mem::take(&mut self.ending);
        self.flush();
        self.settle_all();
        self.arm_waker();
        let retry = self.watch_listeners();
        let timeout = match (timeout, retry) {
            (Some(timeout), Some(retry)) => Some(timeout.min(retry)),
            (timeout, retry) => timeout.or(retry),
        };
        let idle = self.carried.is_none()
            && self.ready.is_empty()
            && ending.is_empty()
            && self.completions.is_empty()
            && !self.listeners.has_accepted();
        let may_sleep = idle && timeout != Some(Duration::ZERO) && self.waker.fall_asleep();
        let waiting = if may_sleep { self.waiting(timeout) } else { Waiting::NOT };
        let result = self.ring.enter(waiting);
        self.waker.awake();
        result?;
        self.take_in()?;
        self.ready.extend(ending.into_iter().map(|conn| Due::Ended { conn }));
        Ok(())
    }

    fn waiting(&mut self, timeout: Option<Duration>) -> Waiting {
        match self.batching.plan(timeout) {
            Some((completions, longest)) if self.ring.can_wait_for_several() => {
                Waiting { completions, timeout, min_wait_us: longest.as_micros() as u32 }
            }
            _ => Waiting::for_one(timeout),
        }
    }

    /// Takes completions from the kernel. Those of receives wait to be reported; the others are applied now:
    /// new connections wait for no long receive.
    fn take_in(&mut self) -> io::Result<()> {
        let submitted = self.ring.submitted();
        let mut completions = std::mem::take(&mut self.completions);
        let first = completions.len();
        let result = self.ring.reap(|completion| completions.push_back(completion));
        let mut kept = first;
        for index in first..completions.len() {
            let completion = completions[index];
            match Purpose::of(completion.data) {
                Some(Purpose::SendAtOnce | Purpose::SendWaiting) => self.sent(completion),
                Some(Purpose::Accept) => {
                    self.accept_armed = false;
                    self.operations -= 1;
                    self.listeners.accept();
                }
                Some(Purpose::Wake) => {
                    if !cqueue::more(completion.flags) {
                        self.wake_armed = false;
                        self.operations -= 1;
                    }
                }
                _ => {
                    completions[kept] = completion;
                    kept += 1;
                }
            }
        }
        completions.truncate(kept);
        let front = self.order.put_short_first(&mut completions, first, self.conns.capacity());
        self.short_count = front.len;
        self.left_counts = [front.left, first - front.left];
        self.completions = completions;
        result?;
        while self.messages.front().is_some_and(|(number, _)| *number < submitted) {
            self.messages.pop_front();
        }
        while self.at_once.front().is_some_and(|(number, _)| *number < submitted) {
            let Some((_, slot)) = self.at_once.pop_front() else { break };
            self.sent_in_silence(slot);
        }
        Ok(())
    }

    // Sending.

    /// Starts a send for every connection that has something new.
    fn flush(&mut self) {
        let mut listed = std::mem::take(&mut self.listed);
        for conn in listed.drain(..) {
            if let Some(it) = self.conns.get_mut(conn) {
                it.link.listed = false;
                it.link.tell_sent |= it.link.outgoing.unsent() >= SENT_EVENT_BYTES;
                // If an event is to follow, the send must report, so that the wait ends.
                let reports = it.link.reports_sent();
                self.start_send(conn, reports);
            }
        }
        self.listed = listed;
    }

    pub(super) fn start_send(&mut self, conn: Conn, reports: bool) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        if it.sending != Sending::Nothing || it.link.outgoing.is_empty() {
            return;
        }
        let fd = Fd(it.link.socket.fd());
        let flags = if reports { SEND_FLAGS } else { SEND_AT_ONCE_FLAGS };
        let mut message = None;
        let (entry, buffers, bytes) = match it.link.outgoing.single() {
            Some(bytes) => {
                let len = bytes.len().min(OPERATION_BYTES_MAX);
                (opcode::Send::new(fd, bytes.as_ptr(), len as u32).flags(flags).build(), 1, len)
            }
            None => {
                let mut parts = [IoSlice::new(&[]); GATHERED];
                let count = it.link.outgoing.gather(&mut parts);
                let bytes = parts[..count].iter().map(|part| part.len()).sum();
                let header = &message.insert(Message::new(&parts[..count])).header;
                (opcode::SendMsg::new(fd, header).flags(flags as u32).build(), count, bytes)
            }
        };
        it.link.outgoing.pin(buffers);
        it.operations += 1;
        self.operations += 1;
        let slot = conn.slot();
        let (sending, entry) = if reports {
            (Sending::Waiting, entry.user_data(Purpose::SendWaiting.data(slot)))
        } else {
            let entry = entry.flags(squeue::Flags::SKIP_SUCCESS);
            (Sending::AtOnce(bytes as u32), entry.user_data(Purpose::SendAtOnce.data(slot)))
        };
        it.sending = sending;
        // SAFETY: the buffers are pinned in the queue and the descriptor is kept with it, both until the
        // send has reported or is known to be done; the message is kept until it is submitted.
        let number = unsafe { self.ring.push(entry) };
        if !reports {
            self.at_once.push_back((number, slot));
        }
        if let Some(message) = message {
            self.messages.push_back((number, message));
        }
    }

    // Receiving.

    fn settle_all(&mut self) {
        let mut unsettled = std::mem::take(&mut self.unsettled);
        for conn in unsettled.drain(..) {
            self.settle(conn);
        }
        self.unsettled = unsettled;
    }

    /// Cancels or starts the pending operation of a connection, if it is not the one that is wanted.
    fn settle(&mut self, conn: Conn) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        it.unsettled = false;
        let wanted = it.wanted();
        let receive = Purpose::Receive.data(conn.slot());
        if it.standing == wanted || it.cancelling {
            return;
        }
        if it.standing != Standing::Nothing {
            it.cancelling = true;
            let entry = opcode::AsyncCancel::new(receive).build();
            let entry = entry.flags(squeue::Flags::SKIP_SUCCESS);
            // SAFETY: the entry names no memory.
            unsafe { self.ring.push(entry.user_data(Purpose::Cancel.data(conn.slot()))) };
            return;
        }
        let fd = Fd(it.link.socket.fd());
        let poll = |events: i16| opcode::PollAdd::new(fd, events as u32).build();
        let entry = match (wanted, &mut it.link.fill) {
            (Standing::Multishot, _) => opcode::RecvMulti::new(fd, GROUP).build(),
            (Standing::Direct, Some(fill)) => {
                let missing = fill.missing();
                let len = missing.min(FILL_OPERATION_BYTES_MAX);
                let flags = if len < missing { libc::MSG_WAITALL } else { 0 };
                let spare = fill.buffer.spare_capacity_mut();
                debug_assert!(len > 0 && len <= spare.len());
                let start = spare.as_mut_ptr().cast::<u8>();
                opcode::Recv::new(fd, start, len as u32).flags(flags).build()
            }
            (Standing::WatchEnd, _) => poll(libc::POLLRDHUP),
            (Standing::WatchError, _) => poll(0),
            (Standing::Nothing | Standing::Direct, _) => return,
        };
        it.standing = wanted;
        it.operations += 1;
        self.operations += 1;
        // SAFETY: the fill buffer and the descriptor are kept in the slot, untouched, until the operation
        // has ended.
        unsafe { self.ring.push(entry.user_data(receive)) };
    }

    // Waking and accepting.

    fn arm_waker(&mut self) {
        if !self.wake_armed {
            self.wake_armed = true;
            self.operations += 1;
            let fd = Fd(self.waker.as_fd().as_raw_fd());
            let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32).multi(true).build();
            // SAFETY: the entry names no memory, and the descriptor is closed after the ring.
            unsafe { self.ring.push(entry.user_data(Purpose::Wake.data(0))) };
        }
    }

    /// Watches the listeners. Returns the time until the next pause of a listener ends.
    fn watch_listeners(&mut self) -> Option<Duration> {
        let next = self.listeners.watch();
        if !self.accept_armed && self.listeners.are_watched() {
            self.accept_armed = true;
            self.operations += 1;
            let fd = Fd(self.listeners.as_fd().as_raw_fd());
            let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32).build();
            // SAFETY: the entry names no memory, and the descriptor is closed after the ring.
            unsafe { self.ring.push(entry.user_data(Purpose::Accept.data(0))) };
        }
        next
    }

    // The end.

    /// Cancels all operations and waits for their ends. False if some have not ended.
    fn cancel_all(&mut self) -> bool {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        // SAFETY: the entry names no memory.
        unsafe { self.ring.push(entry.user_data(Purpose::CancelAll.data(0))) };
        let pause = Some(Duration::from_millis(10));
        for _ in 0..100 {
            let waiting = if self.operations > 0 { Waiting::for_one(pause) } else { Waiting::NOT };
            if self.ring.enter(waiting).is_err() || self.take_in().is_err() {
                return false;
            }
            while self.next().is_some() {}
            if self.operations == 0 {
                return true;
            }
        }
        false
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        for slot in 0..self.conns.capacity() as u32 {
            if let Some((conn, _)) = self.conns.at(slot) {
                self.close(conn);
            }
        }
        if !self.cancel_all() {
            // The kernel may still write to this memory, so it is leaked.
            self.buffers.leak();
            std::mem::forget(std::mem::replace(&mut self.conns, crate::slots::Slots::new()));
        }
    }
}
