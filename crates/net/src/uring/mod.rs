//! The driver over io_uring.
//!
//! Receiving: every connection has a pending multishot receive, which takes buffers from a ring shared with
//! the kernel (`ring_buffers`). `Standing` is the receive operation that is pending, or wanted. Once per
//! iteration the driver cancels those that no longer fit; the next operation starts when the last one has
//! reported its end.
//!
//! Sending: at the start of an iteration every connection with queued bytes gets one send. All of them go
//! out in the `io_uring_enter` that also waits. Such a send does not wait for space in the socket's buffer
//! and reports only failure (`Sending::AtOnce`): no completion when the call has returned means that
//! everything was sent. After a short send come sends that do wait and do report (`Sending::Waiting`),
//! until the queue is empty.
//!
//! Accepting: one poll is pending for all listeners of this driver (`crate::accepting` says why no accept
//! is).
//!
//! Memory that the kernel may read or write (queues, fill buffers) and descriptors named in entries belong
//! to a connection's slot, and the slot is kept until every operation on it has reported its end
//! (`Uring::operations`).

mod completions;
mod order;
mod probe;
pub(crate) mod ring;
mod submissions;

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use rustix::net::Shutdown;

use crate::accepting::Listeners;
use crate::batching_delay::BatchingDelay;
use crate::link::{Due, Leaving, Lent, Link};
use crate::listener::Listener;
use crate::outgoing::BufferPool;
use crate::outlet::Outlet;
use crate::reading::{Fill, Reading};
use crate::ring_buffers::Buffers;
use crate::slots::{Conn, Slots};
use crate::socket::Socket;
use crate::waker::Waker;
use order::Order;
use ring::{Completion, Ring};
use submissions::Message;

/// The receiving operation that is pending for a connection, or that is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    Nothing,
    /// A multishot receive into the shared buffers.
    Multishot,
    /// A receive into the buffer that is to be filled.
    Direct,
    /// A poll for the end of the peer's side.
    WatchEnd,
    /// A poll for errors.
    WatchError,
}

/// The send that is under way for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sending {
    Nothing,
    /// A send of that many bytes that is done when the submitting call has returned, unless it has
    /// reported a failure.
    AtOnce(u32),
    /// A send that reports when it is done.
    Waiting,
}

struct UringLink {
    link: Link,
    standing: Standing,
    sending: Sending,
    /// The pending operation is being cancelled.
    cancelling: bool,
    /// In the list of connections whose pending operation may need a change.
    unsettled: bool,
    /// The peer has ended its side.
    ended: bool,
    /// No operation is needed until the owner reads again or closes.
    watched: bool,
    /// The operations that have not reported their end.
    operations: u8,
    /// The last window in which this connection was counted as busy.
    counted_in: u16,
    /// Bytes that came after the owner stopped reading.
    #[allow(clippy::box_collection, reason = "rarely there, and 8 bytes in every connection instead of 24")]
    aside: Option<Box<Vec<u8>>>,
}

const _: () = assert!(size_of::<UringLink>() <= 176, "an idle connection is to stay cheap");

/// What an entry is for, in the top byte of its data. The slot is in the lower half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Purpose {
    Wake = 1,
    Accept,
    Receive,
    SendAtOnce,
    SendWaiting,
    Cancel,
    CancelAll,
}

impl Purpose {
    fn data(self, number: u32) -> u64 {
        (self as u64) << 56 | u64::from(number)
    }

    fn of(data: u64) -> Option<Purpose> {
        use Purpose::*;
        let all = [Wake, Accept, Receive, SendAtOnce, SendWaiting, Cancel, CancelAll];
        all.get((data >> 56).wrapping_sub(1) as usize).copied()
    }
}

pub(crate) struct Uring {
    // Before `buffers`: the ring goes first.
    ring: Ring,
    buffers: Buffers,
    /// Connections for which the kernel had no buffer in the last iteration.
    starved: u16,
    waker: Waker,
    wake_armed: bool,
    batching: BatchingDelay,
    conns: Slots<UringLink>,
    listeners: Listeners,
    /// A poll for connections that wait to be accepted is pending.
    accept_armed: bool,
    pool: BufferPool,
    /// Completions to be reported, in this order.
    completions: VecDeque<Completion>,
    /// Short receives at the front that are still to be reported, and whether the last one has just been.
    short_count: usize,
    short_done: bool,
    /// The last completion that was reported is a long receive.
    long_done: bool,
    /// Completions left over from the last iteration: among those at the front, and behind them.
    left_counts: [usize; 2],
    order: Order,
    /// What to report before them.
    ready: VecDeque<Due>,
    /// Bytes left over from a fill, to be reported before anything else.
    carried: Option<(Conn, Lent)>,
    /// Connections with something new to send.
    listed: Vec<Conn>,
    /// Connections whose pending operation may need a change.
    unsettled: Vec<Conn>,
    /// Connections that the peer has ended while replies were still queued: closed after one attempt to
    /// send them.
    ending: Vec<Conn>,
    /// The slots with a send of the kind `AtOnce`, with the numbers of the entries.
    at_once: VecDeque<(u64, u32)>,
    /// Headers of gathering sends, until the kernel has copied them, with the numbers of the entries.
    messages: VecDeque<(u64, Box<Message>)>,
    /// Operations that have not reported their end.
    operations: usize,
    /// A slot whose connection's end has been reported and that may be reused after the handler has
    /// returned.
    limbo: Option<u32>,
}

impl Uring {
    /// Fails where io_uring is forbidden or a feature that this driver needs does not work.
    pub(crate) fn new() -> io::Result<Uring> {
        let ring = Ring::new()?;
        let buffers = Buffers::register(ring.inner())?;
        let mut uring = Uring {
            ring,
            buffers,
            starved: 0,
            waker: Waker::new()?,
            wake_armed: false,
            batching: BatchingDelay::new(),
            conns: Slots::new(),
            listeners: Listeners::new()?,
            accept_armed: false,
            pool: BufferPool::new(),
            completions: VecDeque::new(),
            short_count: 0,
            short_done: false,
            long_done: false,
            left_counts: [0, 0],
            order: Order::default(),
            ready: VecDeque::new(),
            carried: None,
            listed: Vec::new(),
            unsettled: Vec::new(),
            ending: Vec::new(),
            at_once: VecDeque::new(),
            messages: VecDeque::new(),
            operations: 0,
            limbo: None,
        };
        probe::probe(&mut uring.ring, &uring.buffers)?;
        Ok(uring)
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.conns.live()
    }

    pub(crate) fn pool(&mut self) -> &mut BufferPool {
        &mut self.pool
    }

    pub(crate) fn set_batching_delay(&mut self, longest: Duration) {
        self.batching.set(longest);
    }

    pub(crate) fn add_listener(&mut self, listener: Listener) -> usize {
        self.listeners.add(listener)
    }

    pub(crate) fn remove_listener(&mut self, id: usize) {
        self.listeners.remove(id);
    }

    pub(crate) fn take_listener(&mut self, id: usize) -> Option<(Listener, Vec<Socket>)> {
        self.listeners.take(id)
    }

    pub(crate) fn adopt(&mut self, socket: Socket) -> io::Result<Conn> {
        let conn = self.conns.insert(UringLink {
            link: Link::new(socket),
            standing: Standing::Nothing,
            sending: Sending::Nothing,
            cancelling: false,
            unsettled: false,
            ended: false,
            watched: false,
            operations: 0,
            counted_in: 0,
            aside: None,
        });
        self.unsettle(conn);
        Ok(conn)
    }

    /// Has the pending operation checked in the next iteration.
    fn unsettle(&mut self, conn: Conn) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        if !it.unsettled {
            it.unsettled = true;
            self.unsettled.push(conn);
        }
    }

    pub(crate) fn outlet(&self, conn: Conn) -> Option<Outlet> {
        let it = self.conns.get(conn).filter(|it| it.link.is_idle() && it.sending == Sending::Nothing)?;
        Outlet::new(&it.link.socket)
    }

    /// Queues bytes without the first `sent`.
    pub(crate) fn send_from(&mut self, conn: Conn, bytes: Vec<u8>, sent: usize) {
        let Some(it) = self.conns.get_mut(conn) else { return self.pool.put(bytes) };
        if it.link.leaving == Leaving::Close {
            return self.pool.put(bytes);
        }
        it.link.outgoing.push_from(bytes, sent, &mut self.pool);
        self.list(conn);
    }

    /// Puts a connection with something to send in the list, unless a send is under way already.
    fn list(&mut self, conn: Conn) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        if !it.link.listed && it.sending == Sending::Nothing && !it.link.outgoing.is_empty() {
            it.link.listed = true;
            self.listed.push(conn);
        }
    }

    pub(crate) fn unsent(&self, conn: Conn) -> usize {
        self.conns.get(conn).map_or(0, |it| it.link.outgoing.unsent())
    }

    pub(crate) fn fill_progress(&self, conn: Conn) -> Option<(usize, usize)> {
        self.conns.get(conn)?.link.fill.as_ref().map(|fill| fill.progress())
    }

    pub(crate) fn notify_sent(&mut self, conn: Conn) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        if it.link.outgoing.is_empty() {
            self.ready.push_back(Due::Sent { conn });
        } else {
            it.link.tell_sent = true;
        }
    }

    pub(crate) fn fill(&mut self, conn: Conn, buffer: Vec<u8>, len: usize) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        if it.link.fill.is_some() || it.link.leaving == Leaving::Close {
            return;
        }
        let fill = Fill::new(buffer, len);
        if fill.missing() == 0 {
            self.ready.push_back(Due::Filled { conn, buffer: fill.buffer });
        } else {
            it.link.fill = Some(Box::new(fill));
            self.unsettle(conn);
        }
    }

    pub(crate) fn set_reading(&mut self, conn: Conn, reading: Reading) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        it.link.reading = reading;
        it.watched = false;
        match reading {
            Reading::On if it.aside.is_some() || it.ended => self.ready.push_back(Due::SetAside { conn }),
            Reading::Paused if it.ended && !it.link.defers_end => self.ending.push(conn),
            _ => {}
        }
        self.unsettle(conn);
    }

    pub(crate) fn defer_end(&mut self, conn: Conn, on: bool) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        if it.link.defers_end == on {
            return;
        }
        it.link.defers_end = on;
        if on || it.link.leaving != Leaving::No {
            return;
        }
        if it.ended && it.link.reading != Reading::Held && it.aside.is_none() {
            self.ending.push(conn);
        }
        // A poll may have found the end meanwhile.
        if std::mem::take(&mut it.watched) {
            self.unsettle(conn);
        }
    }

    pub(crate) fn close(&mut self, conn: Conn) {
        if self.end(conn) {
            self.conns.release(conn.slot());
        }
    }

    /// Ends the life of an id. Whether its slot is empty now; otherwise that follows when the last
    /// operation on the connection has reported its end.
    fn end(&mut self, conn: Conn) -> bool {
        let Some(it) = self.conns.get_mut(conn) else { return false };
        if it.operations == 0 {
            self.conns.retire(conn);
            self.conns.remove(conn.slot());
            return true;
        }
        // This ends the operations, and the peer sees the end at once.
        let _ = rustix::net::shutdown(&it.link.socket, Shutdown::Both);
        self.conns.retire(conn);
        false
    }

    pub(crate) fn close_after_send(&mut self, conn: Conn) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        it.link.leaving = Leaving::Close;
        self.leave_if_due(conn);
        self.unsettle(conn);
    }

    /// Has the end of a connection reported once what is queued has had one attempt to leave.
    pub(crate) fn end_soon(&mut self, conn: Conn) {
        self.ready.push_back(Due::Ended { conn });
    }

    pub(crate) fn detach(&mut self, conn: Conn) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        if it.link.leaving == Leaving::No {
            it.link.leaving = Leaving::Detach;
            if it.aside.is_some() {
                self.ready.push_back(Due::SetAside { conn });
            }
            self.leave_if_due(conn);
            self.unsettle(conn);
        }
    }

    pub(crate) fn set_nodelay(&mut self, conn: Conn, on: bool) {
        if let Some(it) = self.conns.get_mut(conn) {
            it.link.socket.set_nodelay(on);
        }
    }

    pub(crate) fn stay(&mut self, conn: Conn) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        if it.link.leaving == Leaving::Detach {
            it.link.leaving = Leaving::No;
            if it.ended || it.aside.is_some() {
                self.ready.push_back(Due::SetAside { conn });
            }
            self.unsettle(conn);
        }
    }

    /// Closes or detaches a connection that is to leave, once nothing is pending on it.
    fn leave_if_due(&mut self, conn: Conn) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        match it.link.leaving {
            Leaving::Close if it.link.outgoing.is_empty() => {
                self.ready.push_back(Due::Closed { conn, error: None });
            }
            _ if it.may_detach() => self.ready.push_back(Due::Detached { conn }),
            _ => {}
        }
    }
}

impl UringLink {
    fn may_detach(&self) -> bool {
        let idle = self.operations == 0 && self.standing == Standing::Nothing;
        self.link.leaving == Leaving::Detach
            && idle
            && self.link.outgoing.is_empty()
            && self.link.fill.is_none()
            && self.aside.is_none()
    }

    /// The receiving operation that is wanted.
    fn wanted(&self) -> Standing {
        // Bytes that were set aside are reported first.
        let owed = self.aside.is_some() && self.link.reading == Reading::On;
        if self.ended || self.watched || owed {
            return Standing::Nothing;
        }
        let receive = if self.link.fill.is_some() { Standing::Direct } else { Standing::Multishot };
        match (self.link.leaving, self.link.reading) {
            (Leaving::Close, _) | (Leaving::No, Reading::Held) => Standing::WatchError,
            (Leaving::No, Reading::Paused) => Standing::WatchEnd,
            (Leaving::No, Reading::On) => receive,
            (Leaving::Detach, _) if receive == Standing::Direct => Standing::Direct,
            (Leaving::Detach, _) => Standing::Nothing,
        }
    }
}
