//! The driver over epoll.
//!
//! Connections are registered once, edge-triggered, for input and the peer's hang-up. After a `recv` that
//! did not fill the buffer the socket is known to be empty and costs nothing until the kernel reports it
//! again; after one that did, or after a hang-up, the connection stands in `again` and has its next `recv`
//! in the next iteration. Interest in output exists only while a queue is behind.
//!
//! Sends are collected and go out at the start of the next iteration, or earlier when many are waiting: one
//! `send` for each connection, however many replies it has.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::accepting::Listeners;
use crate::batching_delay::BatchingDelay;
use crate::link::{BROKEN, Due, Leaving, Lent, Link, SENT_EVENT_BYTES, Step};
use crate::listener::Listener;
use crate::outgoing::BufferPool;
use crate::outlet::Outlet;
use crate::reading::{Fill, Reading};
use crate::slots::{Conn, Slots};
use crate::socket::Socket;
use crate::system;
use crate::waker::Waker;

/// Maximum bytes of one `recv`, and so of one connection in one iteration.
const READ_BYTES: usize = 64 * 1024;
/// Maximum bytes that one connection reads straight into its own buffer in one iteration.
const FILL_BYTES: usize = 1024 * 1024;
/// Maximum bytes that one connection sends before other connections are served.
const TRANSMIT_BYTES: usize = 4 * 1024 * 1024;
/// The events taken from the kernel in one iteration.
const EVENTS: usize = 1024;
/// With this many connections that have bytes to send, sends do not wait for the end of the iteration.
const LISTED_MAX: usize = 128;
/// Buffers handed to one `sendmsg`.
const GATHERED: usize = 64;

/// The data of the waker's events. That of a connection's is its id, which is never this.
const WAKER_BITS: u64 = u64::MAX;
/// The data of the events of all listeners. It is no connection's id either.
const LISTENERS_BITS: u64 = u64::MAX - 1;

const INPUT: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);
const OUTPUT: EventFlags = EventFlags::OUT;
/// The socket takes bytes again, or will take none any more.
const SENDS_ON: EventFlags = OUTPUT.union(EventFlags::HUP).union(EventFlags::ERR);
const HANGUP: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

struct EpollLink {
    link: Link,
    /// The kernel may hold bytes, or the end of the stream, not read yet.
    readable: bool,
    /// The last window in which this connection was counted as busy.
    counted_in: u16,
    /// The peer has ended its side. `recv` is called until it returns the end of the stream.
    hung_up: bool,
    /// The connection is in `again`.
    queued: bool,
}

pub(crate) struct Epoll {
    epoll: OwnedFd,
    waker: Waker,
    batching: BatchingDelay,
    conns: Slots<EpollLink>,
    listeners: Listeners,
    pool: BufferPool,
    memory: Rc<Vec<u8>>,
    /// What to report before anything else.
    ready: VecDeque<Due>,
    /// Connections with something new to send.
    listed: Vec<Conn>,
    /// Connections to read from without a new event, in this iteration and in the next one.
    reading: Vec<Conn>,
    again: Vec<Conn>,
    events: Box<[Event]>,
    events_count: usize,
    events_done: usize,
    /// A slot whose connection's end has been reported and that may be reused after the handler has
    /// returned.
    limbo: Option<u32>,
}

impl Epoll {
    pub(crate) fn new() -> io::Result<Epoll> {
        let (epoll, waker, listeners) = (system::epoll()?, Waker::new()?, Listeners::new()?);
        epoll::add(&epoll, &waker, EventData::new_u64(WAKER_BITS), EventFlags::IN | EventFlags::ET)?;
        epoll::add(&epoll, &listeners, EventData::new_u64(LISTENERS_BITS), EventFlags::IN)?;
        Ok(Epoll {
            epoll,
            waker,
            batching: BatchingDelay::new(),
            conns: Slots::new(),
            listeners,
            pool: BufferPool::new(),
            memory: Rc::new(vec![0; READ_BYTES]),
            ready: VecDeque::new(),
            listed: Vec::new(),
            reading: Vec::new(),
            again: Vec::new(),
            events: vec![system::NO_EVENT; EVENTS].into(),
            events_count: 0,
            events_done: 0,
            limbo: None,
        })
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
        let link = EpollLink {
            link: Link::new(socket),
            counted_in: 0,
            readable: false,
            hung_up: false,
            queued: false,
        };
        let conn = self.conns.insert(link);
        let socket = &self.conns.get_mut(conn).expect("it has just been put in").link.socket;
        let added = epoll::add(&self.epoll, socket, EventData::new_u64(conn.to_bits()), INPUT);
        if let Err(error) = added {
            self.close(conn);
            return Err(error.into());
        }
        Ok(conn)
    }

    pub(crate) fn outlet(&self, conn: Conn) -> Option<Outlet> {
        let it = self.conns.get(conn).filter(|it| it.link.is_idle())?;
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

    /// Puts a connection with something to send in the list, unless the kernel will say when it may send.
    fn list(&mut self, conn: Conn) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        if !it.link.listed && !it.link.behind && !it.link.outgoing.is_empty() {
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
        }
    }

    pub(crate) fn set_reading(&mut self, conn: Conn, reading: Reading) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        it.link.reading = reading;
        if it.readable {
            self.queue(conn);
        }
    }

    pub(crate) fn defer_end(&mut self, conn: Conn, on: bool) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        it.link.defers_end = on;
        if it.readable && !on {
            self.queue(conn);
        }
    }

    /// Has a connection read from in the next iteration.
    fn queue(&mut self, conn: Conn) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        if !it.queued {
            it.queued = true;
            self.again.push(conn);
        }
    }

    pub(crate) fn close(&mut self, conn: Conn) {
        if let Some(it) = self.end(conn) {
            drop(it);
            self.conns.release(conn.slot());
        }
    }

    /// Ends the life of an id and takes its connection out of the slot.
    fn end(&mut self, conn: Conn) -> Option<EpollLink> {
        self.conns.get(conn)?;
        self.conns.retire(conn);
        self.conns.remove(conn.slot())
    }

    pub(crate) fn close_after_send(&mut self, conn: Conn) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        it.link.leaving = Leaving::Close;
        it.link.fill = None;
        self.leave_if_due(conn);
    }

    /// Has the end of a connection reported once what is queued has had one attempt to leave.
    pub(crate) fn end_soon(&mut self, conn: Conn) {
        self.ready.push_back(Due::Ended { conn });
    }

    pub(crate) fn detach(&mut self, conn: Conn) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        if it.link.leaving == Leaving::No {
            it.link.leaving = Leaving::Detach;
            self.leave_if_due(conn);
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
            if it.readable {
                self.queue(conn);
            }
        }
    }

    /// Closes or detaches a connection that is to leave, once its queue is empty.
    fn leave_if_due(&mut self, conn: Conn) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        if it.link.outgoing.is_empty() && it.link.fill.is_none() {
            match it.link.leaving {
                Leaving::No => {}
                Leaving::Close => self.ready.push_back(Due::Closed { conn, error: None }),
                Leaving::Detach => self.ready.push_back(Due::Detached { conn }),
            }
        }
    }

    // One iteration.

    /// Sends what is queued, then waits for events, if all of the last ones have been reported.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.release_limbo();
        self.flush();
        let has_events = self.events_done < self.events_count;
        if has_events || self.listeners.has_accepted() || !self.reading.is_empty() {
            return Ok(());
        }
        std::mem::swap(&mut self.reading, &mut self.again);
        let retry = self.listeners.watch();
        let timeout = match (timeout, retry) {
            (Some(timeout), Some(retry)) => Some(timeout.min(retry)),
            (timeout, retry) => timeout.or(retry),
        };
        let idle = self.ready.is_empty() && self.reading.is_empty() && self.listed.is_empty();
        let may_sleep = idle && timeout != Some(Duration::ZERO) && self.waker.fall_asleep();
        if may_sleep
            && let Some((events, longest)) = self.batching.plan(timeout)
            && self.events_count < events as usize
        {
            // The last iteration had little to do. The poll finds what has arrived in the meantime.
            std::thread::sleep(longest);
        }
        let result = self.poll(if may_sleep { timeout } else { Some(Duration::ZERO) });
        self.waker.awake();
        result
    }

    fn poll(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        (self.events_count, self.events_done) = (0, 0);
        match system::epoll_wait(&self.epoll, &mut self.events, timeout) {
            Ok(count) => self.events_count = count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// The next thing to report in this iteration.
    pub(crate) fn next(&mut self) -> Option<Step> {
        self.release_limbo();
        if self.listed.len() >= LISTED_MAX {
            self.flush();
        }
        loop {
            if let Some(due) = self.ready.pop_front() {
                if let Some(step) = self.resolve(due) {
                    return Some(step);
                }
            } else if let Some((listener, socket)) = self.listeners.next() {
                return Some(Step::Accepted { listener, socket });
            } else if let Some(conn) = self.reading.pop() {
                if let Some(it) = self.conns.get_mut(conn) {
                    it.queued = false;
                    if let Some(step) = self.read(conn) {
                        return Some(step);
                    }
                }
            } else if let Some(event) = self.events[..self.events_count].get(self.events_done).copied() {
                self.events_done += 1;
                if let Some(step) = self.dispatch(event) {
                    return Some(step);
                }
            } else {
                return None;
            }
        }
    }

    fn release_limbo(&mut self) {
        if let Some(slot) = self.limbo.take() {
            self.conns.release(slot);
        }
    }

    /// The step for a pending event, if its connection is still there.
    fn resolve(&mut self, due: Due) -> Option<Step> {
        let link = &mut self.conns.get_mut(due.conn())?.link;
        match due {
            Due::Filled { conn, buffer } => Some(Step::Filled { conn, buffer }),
            // Nothing is set aside here: unread bytes stay in the kernel.
            Due::SetAside { .. } => None,
            Due::Sent { conn } => link.outgoing.is_empty().then_some(Step::Sent { conn }),
            Due::Ended { .. } if link.keeps_end_back() => None,
            Due::Ended { conn } => self.closed(conn, None),
            Due::Closed { conn, error } => {
                let it = self.end(conn)?;
                self.limbo = Some(conn.slot());
                if it.link.leaving == Leaving::Close && error.is_none() {
                    it.link.socket.finish();
                }
                Some(Step::Closed { conn, error })
            }
            Due::Detached { conn } => {
                let leaves = link.leaving == Leaving::Detach;
                if !leaves || !link.outgoing.is_empty() || link.fill.is_some() {
                    return None;
                }
                let it = self.end(conn)?;
                self.limbo = Some(conn.slot());
                let socket = it.link.socket;
                // A descriptor that is not registered needs no removing.
                let _ = epoll::delete(&self.epoll, &socket);
                Some(Step::Detached { conn, socket })
            }
        }
    }

    fn dispatch(&mut self, event: Event) -> Option<Step> {
        let (bits, events) = ({ event.data }.u64(), event.flags);
        if bits == WAKER_BITS {
            return None;
        }
        if bits == LISTENERS_BITS {
            self.listeners.accept();
            return None;
        }
        let conn = Conn::from_bits(bits);
        if events.intersects(SENDS_ON) {
            self.send_behind(conn);
        }
        let it = self.conns.get_mut(conn)?;
        it.readable |= !events.difference(OUTPUT).is_empty();
        it.hung_up |= events.intersects(HANGUP);
        if it.link.takes_bytes() { self.read(conn) } else { self.look_for_end(conn, events.bits()) }
    }

    /// One `recv` for a connection that may have bytes.
    fn read(&mut self, conn: Conn) -> Option<Step> {
        let it = self.conns.get_mut(conn)?;
        if !it.link.takes_bytes() {
            return self.look_for_end(conn, 0);
        }
        if !it.readable {
            return None;
        }
        let fd = it.link.socket.as_fd();
        let (asked, got) = match &mut it.link.fill {
            Some(fill) => {
                let asked = fill.missing().min(FILL_BYTES);
                (asked, system::receive_into(fd, &mut fill.buffer, asked))
            }
            None => {
                let memory = match Rc::get_mut(&mut self.memory) {
                    Some(memory) => memory,
                    None => {
                        self.memory = Rc::new(vec![0; READ_BYTES]);
                        Rc::get_mut(&mut self.memory).expect("nothing else shares a fresh buffer")
                    }
                };
                (READ_BYTES, system::receive(fd, memory))
            }
        };
        match got {
            // It stays readable, and is read again once the end may be reported.
            Ok(0) if it.link.defers_end => None,
            Ok(0) => self.closed(conn, None),
            Ok(got) => {
                self.batching.count(&mut it.counted_in);
                it.readable = it.hung_up || got == asked;
                let more = it.readable;
                let filled = it.link.fill.take_if(|fill| fill.missing() == 0);
                let filling = it.link.fill.is_some();
                if more {
                    self.queue(conn);
                }
                if let Some(fill) = filled {
                    self.leave_if_due(conn);
                    return Some(Step::Filled { conn, buffer: fill.buffer });
                }
                let bytes = Lent::Shared { memory: self.memory.clone(), start: 0, len: got };
                (!filling).then_some(Step::Received { conn, bytes })
            }
            Err(Errno::AGAIN) => {
                it.readable = false;
                None
            }
            Err(Errno::INTR) => {
                self.queue(conn);
                None
            }
            Err(error) => self.closed(conn, Some(error.into())),
        }
    }

    /// For a connection whose bytes are not wanted: whether its end is to be reported all the same.
    fn look_for_end(&mut self, conn: Conn, events: u32) -> Option<Step> {
        let it = self.conns.get_mut(conn)?;
        let ended = match it.link.reading {
            Reading::Paused if it.link.leaving == Leaving::No && !it.link.defers_end => {
                it.hung_up || events & BROKEN != 0
            }
            _ => it.link.is_broken(events),
        };
        if ended {
            let error = it.link.socket.take_error();
            return self.closed(conn, error);
        }
        None
    }

    fn closed(&mut self, conn: Conn, error: Option<io::Error>) -> Option<Step> {
        self.resolve(Due::Closed { conn, error })
    }

    // Sending.

    /// Tries to send what has been queued since the last time.
    fn flush(&mut self) {
        let mut listed = std::mem::take(&mut self.listed);
        for conn in listed.drain(..) {
            if let Some(it) = self.conns.get_mut(conn) {
                it.link.listed = false;
                it.link.tell_sent |= it.link.outgoing.unsent() >= SENT_EVENT_BYTES;
                self.transmit(conn);
            }
        }
        // Connections that have sent their share stand in the list again.
        listed.append(&mut self.listed);
        self.listed = listed;
    }

    /// The socket is writable again, or has an error.
    fn send_behind(&mut self, conn: Conn) {
        if self.conns.get(conn).is_some_and(|it| it.link.behind) {
            self.transmit(conn);
        }
    }

    /// Hands the queue to the kernel until it is empty or the kernel takes no more.
    fn transmit(&mut self, conn: Conn) {
        let Some(it) = self.conns.get_mut(conn) else { return };
        let link = &mut it.link;
        let mut total = 0;
        while !link.outgoing.is_empty() {
            if total >= TRANSMIT_BYTES && !link.behind {
                link.listed = true;
                return self.listed.push(conn);
            }
            match send_once(link) {
                Ok(sent) => {
                    link.outgoing.advance(sent, &mut self.pool);
                    total += sent;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if !link.behind {
                        link.behind = true;
                        let data = EventData::new_u64(conn.to_bits());
                        let changed = epoll::modify(&self.epoll, &link.socket, data, INPUT | OUTPUT);
                        if let Err(error) = changed {
                            self.ready.push_back(Due::Closed { conn, error: Some(error.into()) });
                        }
                    }
                    return;
                }
                Err(error) => {
                    self.ready.push_back(Due::Closed { conn, error: Some(error.into()) });
                    return;
                }
            }
        }
        if link.reports_sent() {
            link.tell_sent = false;
            self.ready.push_back(Due::Sent { conn });
        }
        if std::mem::take(&mut link.behind) {
            // If this fails the connection gets events for a writable socket without need, which is harmless.
            let _ = epoll::modify(&self.epoll, &link.socket, EventData::new_u64(conn.to_bits()), INPUT);
        }
        if link.leaving != Leaving::No {
            self.leave_if_due(conn);
        }
    }
}

/// One attempt to hand the front of a queue to the kernel.
fn send_once(link: &Link) -> rustix::io::Result<usize> {
    let fd = link.socket.as_fd();
    if let Some(bytes) = link.outgoing.single() {
        return system::send(fd, bytes);
    }
    let mut parts = [IoSlice::new(&[]); GATHERED];
    let count = link.outgoing.gather(&mut parts);
    system::send_gathered(fd, &parts[..count])
}
