//! The driver as its owner sees it, over either mechanism.

use std::io;
use std::time::{Duration, Instant};

use crate::epoll::Epoll;
use crate::link::{Step, Urgency};
use crate::listener::Listener;
use crate::outlet::Outlet;
use crate::reading::Reading;
use crate::slots::Conn;
use crate::socket::Socket;
use crate::tls::{Placed, Progress, Sessions};
use crate::uring::Uring;
use crate::waker::Waker;

/// An event of a driver.
#[derive(Debug)]
pub enum Event<'a> {
    /// A listener has accepted a connection. It is not served before [`Driver::adopt`], by any driver.
    Accepted {
        /// The listener, as [`Driver::add_listener`] numbered it.
        listener: usize,
        /// The connection. Dropping it closes it.
        socket: Socket,
    },
    /// Bytes have arrived. They are lent until the handler returns.
    Received {
        /// The connection.
        conn: Conn,
        /// The bytes, at least one.
        bytes: &'a [u8],
    },
    /// A buffer given to [`Driver::fill`] has reached its length.
    Filled {
        /// The connection.
        conn: Conn,
        /// The buffer.
        buffer: Vec<u8>,
    },
    /// Everything queued has been taken by the kernel. Reported if the first attempt did not take
    /// everything, if 64 KiB or more had been queued, if reading is paused or held, or if
    /// [`Driver::notify_sent`] asked for it; not for the ordinary short reply that leaves at once.
    Sent {
        /// The connection.
        conn: Conn,
    },
    /// The connection has ended: the peer closed or reset it, or [`Driver::close_after_send`] is done. The
    /// id is dead. Its index is not given out again before the handler returns.
    Closed {
        /// The connection.
        conn: Conn,
        /// The error, where it was not an orderly end.
        error: Option<io::Error>,
    },
    /// The answer to [`Driver::detach`]. The id is dead.
    Detached {
        /// The connection.
        conn: Conn,
        /// The connection, to be adopted elsewhere.
        socket: Socket,
    },
}

/// Receives the events of a driver.
pub trait Handler {
    /// Takes one event. It may call anything on the driver except [`Driver::run_once`], in whose place
    /// there is [`Driver::run_nested`].
    fn event(&mut self, driver: &mut Driver, event: Event<'_>);

    /// Shows bytes that [`Event::Received`] will report later in this iteration, so that the handler can
    /// prefetch what they need. Epoll never calls this, io_uring not for every event. A connection that
    /// ends before its event is not reported.
    fn upcoming(&mut self, conn: Conn, bytes: &[u8]) {
        let _ = (conn, bytes);
    }

    /// All upcoming bytes of this iteration have been shown.
    fn upcoming_all_seen(&mut self) {}

    /// Whether the iteration ends after this event. It began to report at `began`. Queued bytes are then
    /// sent, and the remaining events are reported by the next iterations.
    fn ends_iteration(&mut self, began: Instant, urgency: Urgency) -> bool {
        let _ = (began, urgency);
        false
    }
}

/// The mechanism under a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriverKind {
    /// Readiness, for kernels and containers without io_uring.
    Epoll,
    /// Completions.
    IoUring,
}

impl DriverKind {
    /// The name, as configuration and reports spell it.
    pub fn name(self) -> &'static str {
        match self {
            DriverKind::Epoll => "epoll",
            DriverKind::IoUring => "io_uring",
        }
    }
}

enum Mechanism {
    Epoll(Box<Epoll>),
    Uring(Box<Uring>),
}

/// The connections and listeners of one thread.
pub struct Driver {
    mechanism: Mechanism,
    sessions: Sessions,
    /// When the current iteration began to report events.
    began: Instant,
}

/// Calls a method of the mechanism in use.
macro_rules! on {
    ($driver:expr, $inner:ident => $call:expr) => {
        match &mut $driver.mechanism {
            Mechanism::Epoll($inner) => $call,
            Mechanism::Uring($inner) => $call,
        }
    };
}

impl Driver {
    /// A driver of the given kind; with `None`, io_uring if everything needed works here, epoll otherwise.
    /// To be created on the thread that runs it.
    pub fn new(kind: Option<DriverKind>) -> io::Result<Driver> {
        let mechanism = match kind {
            Some(DriverKind::Epoll) => Mechanism::Epoll(Box::new(Epoll::new()?)),
            Some(DriverKind::IoUring) => Mechanism::Uring(Box::new(Uring::new()?)),
            None => match Uring::new() {
                Ok(uring) => Mechanism::Uring(Box::new(uring)),
                Err(_) => Mechanism::Epoll(Box::new(Epoll::new()?)),
            },
        };
        Ok(Driver { mechanism, sessions: Sessions::default(), began: Instant::now() })
    }

    /// The mechanism that this driver uses.
    pub fn kind(&self) -> DriverKind {
        match &self.mechanism {
            Mechanism::Epoll(_) => DriverKind::Epoll,
            Mechanism::Uring(_) => DriverKind::IoUring,
        }
    }

    /// Sets the batching delay: while many connections are busy, an iteration waits up to `longest` after
    /// the first event for more. That saves work for each request and delays replies by at most `longest`.
    /// The default is 50 microseconds; zero switches it off. io_uring needs Linux 6.12 for it.
    pub fn set_batching_delay(&mut self, longest: Duration) {
        on!(self, inner => inner.set_batching_delay(longest))
    }

    /// Starts accepting. The number identifies the listener in [`Event::Accepted`] and is never reused.
    pub fn add_listener(&mut self, listener: Listener) -> usize {
        on!(self, inner => inner.add_listener(listener))
    }

    /// Stops accepting and drops the listener.
    pub fn remove_listener(&mut self, id: usize) {
        on!(self, inner => inner.remove_listener(id))
    }

    /// Stops accepting and gives the listener back, with connections that it has accepted and that have not
    /// been reported.
    pub fn take_listener(&mut self, id: usize) -> Option<(Listener, Vec<Socket>)> {
        on!(self, inner => inner.take_listener(id))
    }

    /// Starts serving an accepted connection, which any driver may have accepted.
    pub fn adopt(&mut self, mut socket: Socket) -> io::Result<Conn> {
        let session = socket.session_mut().take();
        let conn = on!(self, inner => inner.adopt(socket))?;
        if let Some(session) = session {
            self.sessions.insert(conn, session);
        }
        Ok(conn)
    }

    /// An empty buffer for [`Driver::send`], with capacity from an earlier use where one is at hand.
    pub fn take_buffer(&mut self) -> Vec<u8> {
        on!(self, inner => inner.pool().take())
    }

    /// Gives back a buffer that was not sent after all. Large ones are dropped.
    pub fn return_buffer(&mut self, buffer: Vec<u8>) {
        on!(self, inner => inner.pool().put(buffer))
    }

    /// Queues bytes. They leave in the order of the calls, in the next iteration at the latest. For a dead
    /// id they are dropped.
    pub fn send(&mut self, conn: Conn, mut bytes: Vec<u8>) {
        if let Some(session) = self.sessions.get_mut(conn) {
            let mut records = on!(self, inner => inner.pool().take());
            session.encrypt(&bytes, &mut records);
            on!(self, inner => inner.pool().put(bytes));
            bytes = records;
        }
        on!(self, inner => inner.send_from(conn, bytes, 0))
    }

    /// A way to send bytes of a connection at once, before the next call of [`Driver::send`] for it. None if
    /// bytes are queued, if it has TLS or is about to leave, and if the system gives no descriptor.
    pub fn outlet(&self, conn: Conn) -> Option<Outlet> {
        if self.sessions.has(conn) {
            return None;
        }
        match &self.mechanism {
            Mechanism::Epoll(inner) => inner.outlet(conn),
            Mechanism::Uring(inner) => inner.outlet(conn),
        }
    }

    /// Queues bytes of which the first `sent` have left through an outlet. Nothing else is queued.
    pub fn send_rest(&mut self, conn: Conn, bytes: Vec<u8>, sent: usize) {
        debug_assert!(!self.sessions.has(conn) && self.unsent(conn) == 0);
        on!(self, inner => inner.send_from(conn, bytes, sent))
    }

    /// Whether a connection has TLS; false for a dead id.
    pub fn has_tls(&self, conn: Conn) -> bool {
        self.sessions.has(conn)
    }

    /// The number of bytes that are queued and not yet taken by the kernel; 0 for a dead id.
    pub fn unsent(&self, conn: Conn) -> usize {
        match &self.mechanism {
            Mechanism::Epoll(inner) => inner.unsent(conn),
            Mechanism::Uring(inner) => inner.unsent(conn),
        }
    }

    /// Asks for [`Event::Sent`] when everything queued so far has left, also if it leaves at once.
    pub fn notify_sent(&mut self, conn: Conn) {
        on!(self, inner => inner.notify_sent(conn))
    }

    /// Has arriving bytes go straight into the spare capacity of `buffer` until it is `len` long, then
    /// reports [`Event::Filled`]. The capacity is reserved at once; the system provides memory as it is
    /// written to. Bytes that had arrived before are used first. One at a time: a call before the event for
    /// an earlier one does nothing.
    pub fn fill(&mut self, conn: Conn, buffer: Vec<u8>, len: usize) {
        if self.sessions.has(conn) && buffer.len() < len {
            return self.sessions.fill(conn, buffer, len);
        }
        on!(self, inner => inner.fill(conn, buffer, len))
    }

    /// How many bytes a buffer given to [`Driver::fill`] has, and how many it is to have. None without one.
    pub fn fill_progress(&self, conn: Conn) -> Option<(usize, usize)> {
        if self.sessions.has(conn) {
            return self.sessions.fill_progress(conn);
        }
        match &self.mechanism {
            Mechanism::Epoll(inner) => inner.fill_progress(conn),
            Mechanism::Uring(inner) => inner.fill_progress(conn),
        }
    }

    /// Stops reporting bytes, and reports [`Event::Closed`] as soon as the peer has ended its side, even if
    /// bytes that it sent before are still unread (they are lost then). For a client that waits and is of
    /// no use once gone.
    pub fn pause_reading(&mut self, conn: Conn) {
        self.set_reading(conn, Reading::Paused);
    }

    /// Stops reporting bytes without losing any: an orderly end by the peer is reported after the bytes
    /// before it, once reading has resumed. A reset is reported at once. For a client that is too fast.
    pub fn hold_reading(&mut self, conn: Conn) {
        self.set_reading(conn, Reading::Held);
    }

    /// Reports bytes again after [`Driver::pause_reading`] or [`Driver::hold_reading`].
    pub fn resume_reading(&mut self, conn: Conn) {
        self.set_reading(conn, Reading::On);
    }

    fn set_reading(&mut self, conn: Conn, reading: Reading) {
        self.sessions.set_reading(conn, reading);
        on!(self, inner => inner.set_reading(conn, reading))
    }

    /// Whether an orderly end by the peer is kept back: for a client that has replies to come. The end is
    /// reported once this is off again and what is queued by then has had one attempt to leave. A reset is
    /// reported at once.
    pub fn defer_end(&mut self, conn: Conn, on: bool) {
        self.sessions.defer_end(conn, on);
        on!(self, inner => inner.defer_end(conn, on))
    }

    /// Closes now and drops what is unsent. Nothing more is reported about the connection.
    pub fn close(&mut self, conn: Conn) {
        self.sessions.remove(conn);
        on!(self, inner => inner.close(conn))
    }

    /// Closes when everything queued has left, and reports [`Event::Closed`] then, or when the peer goes
    /// first. No more bytes are reported. How long to wait is for the caller to bound, with
    /// [`Driver::close`].
    pub fn close_after_send(&mut self, conn: Conn) {
        self.say_goodbye(conn);
        on!(self, inner => inner.close_after_send(conn))
    }

    /// Stops reading, waits until everything queued has left, and hands the connection back with
    /// [`Event::Detached`]. Bytes that the driver already has are reported first, and a pending
    /// [`Driver::fill`] completes first.
    pub fn detach(&mut self, conn: Conn) {
        on!(self, inner => inner.detach(conn))
    }

    /// Has small segments be sent at once, or gathered by the kernel.
    pub fn set_nodelay(&mut self, conn: Conn, on: bool) {
        on!(self, inner => inner.set_nodelay(conn, on))
    }

    /// Takes [`Driver::detach`] back, if it has not been answered yet.
    pub fn stay(&mut self, conn: Conn) {
        on!(self, inner => inner.stay(conn))
    }

    /// Runs one iteration of the event loop: submits what is queued, waits for events (at most `timeout`,
    /// with `None` for ever), and reports them until [`Handler::ends_iteration`] says so. Returns early if
    /// woken. An error means that the mechanism itself has failed.
    ///
    /// Events of one connection are reported in order. Over io_uring, short receives (up to 256 bytes) are
    /// reported before longer ones of other connections.
    pub fn run_once<H: Handler>(&mut self, timeout: Option<Duration>, handler: &mut H) -> io::Result<()> {
        let mut timeout = timeout;
        if self.sessions.are_due() {
            timeout = Some(Duration::ZERO);
            for conn in self.sessions.take_ending() {
                on!(self, inner => inner.end_soon(conn));
            }
        }
        on!(self, inner => inner.wait(timeout))?;
        if let Mechanism::Uring(uring) = &self.mechanism {
            let sessions = &self.sessions;
            let show = |conn, bytes: &[u8]| {
                if !sessions.has(conn) {
                    handler.upcoming(conn, bytes);
                }
            };
            if uring.look_ahead(show) {
                handler.upcoming_all_seen();
            }
        }
        while let Some((conn, bytes)) = self.sessions.next_due() {
            self.deliver_plain(conn, &bytes, handler);
            self.sessions.end_if_due(conn);
        }
        let began = Instant::now();
        self.began = began;
        while let Some(step) = on!(self, inner => inner.next()) {
            self.deliver(step, handler);
            let urgency = match &self.mechanism {
                Mechanism::Uring(uring) => uring.urgency(began),
                Mechanism::Epoll(_) => Urgency::None,
            };
            if handler.ends_iteration(began, urgency) {
                break;
            }
        }
        Ok(())
    }

    /// Runs the event loop from inside a handler that takes long: reports the remaining events of the
    /// current iteration, then those that have come since, without waiting. The event being handled is not
    /// reported again.
    pub fn run_nested<H: Handler>(&mut self, handler: &mut H) -> io::Result<()> {
        while let Some(step) = on!(self, inner => inner.next()) {
            self.deliver(step, handler);
        }
        let began = self.began;
        let outcome = self.run_once(Some(Duration::ZERO), handler);
        self.began = began;
        outcome
    }

    /// When the last iteration had stopped waiting and began to report events.
    pub fn iteration_began(&self) -> Instant {
        self.began
    }

    fn deliver<H: Handler>(&mut self, step: Step, handler: &mut H) {
        match step {
            Step::Received { conn, bytes } if self.sessions.has(conn) => {
                self.deliver_records(conn, &bytes, handler);
            }
            Step::Closed { conn, error } if self.sessions.has(conn) => {
                let failure = self.sessions.remove(conn).and_then(|session| session.failure());
                handler.event(self, Event::Closed { conn, error: failure.or(error) });
            }
            Step::Detached { conn, mut socket } if self.sessions.has(conn) => {
                *socket.session_mut() = self.sessions.remove(conn);
                handler.event(self, Event::Detached { conn, socket });
            }
            Step::Received { conn, bytes } => handler.event(self, Event::Received { conn, bytes: &bytes }),
            Step::Accepted { listener, socket } => handler.event(self, Event::Accepted { listener, socket }),
            Step::Filled { conn, buffer } => handler.event(self, Event::Filled { conn, buffer }),
            Step::Sent { conn } => handler.event(self, Event::Sent { conn }),
            Step::Closed { conn, error } => handler.event(self, Event::Closed { conn, error }),
            Step::Detached { conn, socket } => handler.event(self, Event::Detached { conn, socket }),
        }
    }

    // ---- TLS ----

    /// Takes in records of a connection with TLS, and reports the bytes in them.
    fn deliver_records<H: Handler>(&mut self, conn: Conn, records: &[u8], handler: &mut H) {
        let mut bytes = self.sessions.take_scratch();
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let progress = session.decrypt(records, &mut bytes);
        self.send_records(conn);
        self.deliver_plain(conn, &bytes, handler);
        self.sessions.return_scratch(bytes);
        match progress {
            Progress::Open => {}
            Progress::Ended => self.sessions.peer_ended(conn),
            Progress::Failed => on!(self, inner => inner.close_after_send(conn)),
        }
    }

    /// Reports decrypted bytes, or keeps them while the owner does not read.
    fn deliver_plain<H: Handler>(&mut self, conn: Conn, bytes: &[u8], handler: &mut H) {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.sessions.place(conn, &mut rest) {
                Placed::Reported => return handler.event(self, Event::Received { conn, bytes: rest }),
                Placed::Filled(buffer) => handler.event(self, Event::Filled { conn, buffer }),
                Placed::Kept => return,
            }
        }
    }

    /// Queues the records that a TLS session sends by itself.
    fn send_records(&mut self, conn: Conn) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        if session.wants_to_send() {
            let mut records = on!(self, inner => inner.pool().take());
            session.take_records(&mut records);
            on!(self, inner => inner.send_from(conn, records, 0));
        }
    }

    /// Queues close_notify.
    fn say_goodbye(&mut self, conn: Conn) {
        if let Some(session) = self.sessions.get_mut(conn) {
            session.say_goodbye();
            self.send_records(conn);
        }
    }

    /// A handle that ends the wait of this driver from any thread.
    pub fn waker(&self) -> Waker {
        match &self.mechanism {
            Mechanism::Epoll(inner) => inner.waker(),
            Mechanism::Uring(inner) => inner.waker(),
        }
    }

    /// The number of live connections.
    pub fn len(&self) -> usize {
        match &self.mechanism {
            Mechanism::Epoll(inner) => inner.len(),
            Mechanism::Uring(inner) => inner.len(),
        }
    }

    /// Whether there is no live connection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
