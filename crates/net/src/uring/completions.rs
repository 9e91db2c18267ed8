//! Completions from the kernel, and the steps that follow from them.

use std::io;
use std::time::Instant;

use io_uring::cqueue;

use super::order::is_long;
use super::ring::Completion;
use super::{Purpose, Sending, Standing, Uring};
use crate::link::{BROKEN, Due, Leaving, Lent, Step, Urgency};
use crate::reading::Reading;
use crate::slots::Conn;

fn error_of(result: i32) -> io::Error {
    io::Error::from_raw_os_error(-result)
}

impl Uring {
    /// The next thing to report in this iteration.
    pub(crate) fn next(&mut self) -> Option<Step> {
        self.release_limbo();
        loop {
            let step = if let Some((conn, bytes)) = self.carried.take() {
                self.arrived(conn, bytes)
            } else if let Some(due) = self.ready.pop_front() {
                self.resolve(due)
            } else if let Some((listener, socket)) = self.listeners.next() {
                Some(Step::Accepted { listener, socket })
            } else {
                let completion = self.completions.pop_front()?;
                self.short_done = self.short_count == 1;
                self.short_count = self.short_count.saturating_sub(1);
                self.long_done = is_long(&completion);
                self.complete(completion)
            };
            if step.is_some() {
                return step;
            }
        }
    }

    /// The urgency of the end of this iteration after the last step of `next`.
    pub(crate) fn urgency(&self, began: Instant) -> Urgency {
        match self.order.urgency(began) {
            _ if self.short_done => Urgency::Now,
            Urgency::None if self.long_done => Urgency::AfterLong,
            urgency => urgency,
        }
    }

    /// Shows the received bytes of this iteration to the handler, if they are of several connections. True
    /// if they are.
    pub(crate) fn look_ahead(&self, mut show: impl FnMut(Conn, &[u8])) -> bool {
        let [short_left, rest_left] = self.left_counts;
        if self.completions.len() < short_left + rest_left + 2 {
            return false;
        }
        let short = self.completions.range(short_left..self.short_count);
        for completion in short.chain(self.completions.range(self.short_count + rest_left..)) {
            if let (Some(Purpose::Receive), Some(id), Ok(len @ 1..)) = (
                Purpose::of(completion.data),
                cqueue::buffer_select(completion.flags),
                usize::try_from(completion.result),
            ) && let Some(conn) = self.conns.id(completion.data as u32)
            {
                // SAFETY: the completion has named the buffer and its length, and is still to be looked at.
                show(conn, unsafe { self.buffers.view(id, len) });
            }
        }
        true
    }

    pub(super) fn release_limbo(&mut self) {
        if let Some(slot) = self.limbo.take() {
            self.conns.release(slot);
        }
    }

    /// The step for a pending event, if its connection is still there.
    fn resolve(&mut self, due: Due) -> Option<Step> {
        let it = self.conns.get_mut(due.conn())?;
        match due {
            Due::Filled { conn, buffer } => Some(Step::Filled { conn, buffer }),
            Due::Sent { conn } => it.link.outgoing.is_empty().then_some(Step::Sent { conn }),
            Due::SetAside { conn } => {
                if it.link.reading != Reading::On && it.link.leaving != Leaving::Detach {
                    return None;
                }
                let bytes = it.aside.take();
                if it.ended && !it.link.defers_end {
                    // The replies to the bytes set aside get one attempt to leave first.
                    self.ending.push(conn);
                }
                self.unsettle(conn);
                self.leave_if_due(conn);
                self.arrived(conn, Lent::Owned { bytes: *bytes?, start: 0 })
            }
            // It is found again when reading resumes, or when the end is deferred no more.
            Due::Ended { .. } if it.link.keeps_end_back() => None,
            Due::Ended { conn } => self.closed(conn, None),
            Due::Closed { conn, error } => {
                if it.link.leaving == Leaving::Close && error.is_none() {
                    it.link.socket.finish();
                }
                if self.end(conn) {
                    self.limbo = Some(conn.slot());
                }
                Some(Step::Closed { conn, error })
            }
            Due::Detached { conn } => {
                if !it.may_detach() {
                    return None;
                }
                self.conns.retire(conn);
                let socket = self.conns.remove(conn.slot())?.link.socket;
                self.limbo = Some(conn.slot());
                Some(Step::Detached { conn, socket })
            }
        }
    }

    fn complete(&mut self, completion: Completion) -> Option<Step> {
        let number = completion.data as u32;
        match Purpose::of(completion.data)? {
            Purpose::Receive => self.received(number, completion),
            Purpose::Cancel => {
                // There was nothing to cancel yet. Another attempt follows if the operation is still pending.
                let (conn, it) = self.conns.at(number)?;
                it.cancelling = false;
                self.unsettle(conn);
                None
            }
            // These were applied when they came.
            Purpose::Accept | Purpose::Wake | Purpose::SendAtOnce | Purpose::SendWaiting => None,
            Purpose::CancelAll => None,
        }
    }

    // Receiving.

    fn received(&mut self, slot: u32, completion: Completion) -> Option<Step> {
        let Completion { result, flags, .. } = completion;
        let buffer = cqueue::buffer_select(flags).map(|id| {
            // SAFETY: the completion has named the buffer and its length, and is looked at once.
            Lent::Ring(unsafe { self.buffers.lend(id, result.max(0) as usize) })
        });
        let (conn, it) = self.conns.at(slot)?;
        let standing = it.standing;
        self.batching.count(&mut it.counted_in);
        if !cqueue::more(flags) {
            it.standing = Standing::Nothing;
            it.cancelling = false;
            if self.operation_ended(conn) {
                return None;
            }
            self.unsettle(conn);
            self.leave_if_due(conn);
        }
        // Completions of an ended connection are ignored.
        self.conns.get_mut(conn)?;
        match standing {
            Standing::Multishot if result > 0 => self.arrived(conn, buffer?),
            Standing::Direct if result > 0 => self.filled(conn, result as usize),
            Standing::Multishot | Standing::Direct => self.receive_failed(conn, result),
            Standing::WatchEnd | Standing::WatchError => self.watched(conn, result),
            Standing::Nothing => None,
        }
    }

    /// Received bytes of a connection, which may be paused or closing by now.
    fn arrived(&mut self, conn: Conn, bytes: Lent) -> Option<Step> {
        let it = self.conns.get_mut(conn)?;
        if it.link.leaving == Leaving::Close {
            return None;
        }
        let wanted = it.link.reading == Reading::On || it.link.leaving == Leaving::Detach;
        if !wanted || it.aside.is_some() {
            it.aside.get_or_insert_default().extend_from_slice(&bytes);
            return None;
        }
        let Some(fill) = &mut it.link.fill else {
            return (!bytes.is_empty()).then_some(Step::Received { conn, bytes });
        };
        let used = fill.copy_from(&bytes);
        if used < bytes.len() {
            self.carried = Some((conn, bytes.after(used)));
        }
        self.take_filled(conn)
    }

    /// The kernel has written `count` bytes into the buffer that is to be filled.
    fn filled(&mut self, conn: Conn, count: usize) -> Option<Step> {
        let fill = self.conns.get_mut(conn)?.link.fill.as_mut()?;
        debug_assert!(count <= fill.missing());
        let len = fill.buffer.len() + count.min(fill.missing());
        // SAFETY: the receive was given the missing part of the buffer, has written `count` bytes at its
        // start, and nothing else has touched the buffer since.
        unsafe { fill.buffer.set_len(len) };
        self.take_filled(conn)
    }

    fn take_filled(&mut self, conn: Conn) -> Option<Step> {
        let it = self.conns.get_mut(conn)?;
        let fill = it.link.fill.take_if(|fill| fill.missing() == 0)?;
        self.unsettle(conn);
        self.leave_if_due(conn);
        Some(Step::Filled { conn, buffer: fill.buffer })
    }

    /// A receive has ended without bytes.
    fn receive_failed(&mut self, conn: Conn, result: i32) -> Option<Step> {
        match -result {
            0 => self.peer_ended(conn),
            // The next receive starts with the next iteration.
            libc::ENOBUFS => {
                self.starved = self.starved.saturating_add(1);
                None
            }
            libc::ECANCELED | libc::EINTR | libc::EAGAIN => None,
            _ => self.closed(conn, Some(error_of(result))),
        }
    }

    /// The peer has ended its side in good order.
    fn peer_ended(&mut self, conn: Conn) -> Option<Step> {
        let it = self.conns.get_mut(conn)?;
        it.ended = true;
        match (it.link.leaving, it.link.reading) {
            (Leaving::Close, _) => None,
            (Leaving::Detach, _) if it.link.fill.is_none() => None,
            (Leaving::No, _) if it.link.defers_end => None,
            (Leaving::No, Reading::Held) => None,
            (Leaving::No, _) if !it.link.outgoing.is_empty() => {
                self.ending.push(conn);
                None
            }
            _ => self.closed(conn, None),
        }
    }

    /// A poll has found something on a connection that is not read from.
    fn watched(&mut self, conn: Conn, result: i32) -> Option<Step> {
        let it = self.conns.get_mut(conn)?;
        if result < 0 || it.link.takes_bytes() {
            return None;
        }
        let events = result as u32;
        let reset = events & libc::POLLERR as u32 != 0;
        let ended = match (it.link.leaving, it.link.reading) {
            (Leaving::No, Reading::Paused) if !it.link.defers_end => {
                events & (BROKEN | libc::POLLRDHUP as u32) != 0
            }
            (Leaving::No, _) => reset || (it.aside.is_none() && it.link.is_broken(events)),
            _ => it.link.is_broken(events),
        };
        if ended {
            let error = it.link.socket.take_error();
            return self.closed(conn, error);
        }
        // The poll would find the same again at once.
        it.watched = true;
        None
    }

    fn closed(&mut self, conn: Conn, error: Option<io::Error>) -> Option<Step> {
        self.resolve(Due::Closed { conn, error })
    }

    // Sending.

    /// A send has reported.
    pub(super) fn sent(&mut self, completion: Completion) {
        let result = completion.result;
        let Some((conn, it)) = self.conns.at(completion.data as u32) else { return };
        it.sending = Sending::Nothing;
        it.link.outgoing.advance(result.max(0) as usize, &mut self.pool);
        if self.operation_ended(conn) {
            return;
        }
        let Some(it) = self.conns.get_mut(conn) else { return };
        match -result {
            libc::EAGAIN | libc::EINTR | libc::ECANCELED | ..=0 => {}
            _ => return self.ready.push_back(Due::Closed { conn, error: Some(error_of(result)) }),
        }
        if it.link.outgoing.is_empty() {
            self.all_sent(conn);
        } else {
            it.link.behind = true;
            self.start_send(conn, true);
        }
    }

    /// A send of the kind `AtOnce` has not reported a failure in time: it has sent everything.
    pub(super) fn sent_in_silence(&mut self, slot: u32) {
        let Some((conn, it)) = self.conns.at(slot) else { return };
        let Sending::AtOnce(bytes) = it.sending else { return };
        it.sending = Sending::Nothing;
        it.link.outgoing.advance(bytes as usize, &mut self.pool);
        let empty = it.link.outgoing.is_empty();
        if self.operation_ended(conn) {
            return;
        }
        if empty { self.all_sent(conn) } else { self.list(conn) }
    }

    fn all_sent(&mut self, conn: Conn) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        if it.link.reports_sent() {
            it.link.behind = false;
            it.link.tell_sent = false;
            self.ready.push_back(Due::Sent { conn });
        }
        self.leave_if_due(conn);
    }

    /// Counts the end of an operation. Whether it was the last one of a connection that has ended.
    fn operation_ended(&mut self, conn: Conn) -> bool {
        self.operations -= 1;
        let Some((_, it)) = self.conns.at(conn.slot()) else { return false };
        it.operations -= 1;
        if it.operations > 0 || !self.conns.is_retired(conn.slot()) {
            return false;
        }
        self.conns.remove(conn.slot());
        self.conns.release(conn.slot());
        true
    }
}
