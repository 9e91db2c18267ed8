//! Connections that move from worker to worker: see `balance`.
//!
//! The driver hands a connection back once nothing of it is under way ([`Event::Detached`]); its client then
//! travels in a message. A client that others may have messages in flight for in an order that matters
//! (blocked, subscribed, monitoring, tracking) stays: it is adopted again on the spot. Other messages that
//! still come for a connection that has left are sent after it.
//!
//! [`Event::Detached`]: mantissa_net::Event::Detached

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mantissa_engine::host::Target;
use mantissa_engine::notice;
use mantissa_engine::session::{SharedSession, flag};
use mantissa_net::{Conn, Driver, Socket};
use mantissa_sys::{QuickInstant, ThreadClock};

use super::{LONG, Worker};
use crate::conn_id::conn_id;
use crate::connection::{Connection, Wire};
use crate::http::State;
use crate::inbox::{Handover, Message};
use crate::network::ASIDE_MS;

/// Clients that are looked at for one request to hand over, so that it takes little time however many there
/// are.
const LOOKED_AT_MAX: usize = 4096;
/// How long messages are sent after a client that has left. They are on their way for microseconds.
const FORWARDED_MS: i64 = 10_000;

/// How often a worker tells that it serves clients with short requests.
const QUICK_EVERY: Duration = Duration::from_millis(100);

/// A client that has left.
pub(super) struct Departure {
    connection: Arc<SharedSession>,
    at_ms: i64,
}

impl Worker<'_> {
    /// Hands over connections that make up a share of this worker's load.
    pub(super) fn hand_over(&mut self, driver: &mut Driver, handover: Handover) {
        if self.is_frozen() {
            return;
        }
        let len = self.connections.len();
        let mut busy = Vec::new();
        let (now, quick_now) = (Instant::now(), QuickInstant::now());
        let is_aside = self.context.worker >= self.network.active_workers.load(Ordering::Relaxed);
        let keeps_long = is_aside && self.network.serves_quick(now);
        for index in (0..len.min(LOOKED_AT_MAX)).map(|step| (self.looked_at + step) % len) {
            let Some(connection) = self.connections[index].as_deref_mut() else { continue };
            let count = connection.session.shared.command_count.load(Ordering::Relaxed);
            let load = count - std::mem::replace(&mut connection.counted_commands, count);
            let stays = keeps_long && is_suspect(connection, quick_now);
            if load > 0 && !stays && may_move(connection) {
                busy.push((load, connection.conn));
            }
        }
        self.looked_at = (self.looked_at + len.min(LOOKED_AT_MAX)) % len.max(1);
        let total: u64 = busy.iter().map(|(load, _)| load).sum();
        let mut wanted = (total as f64 * handover.share).round() as u64;
        busy.sort_unstable_by_key(|&(load, _)| std::cmp::Reverse(load));
        for (load, conn) in busy {
            if load <= wanted {
                wanted -= load;
                if let Some(connection) = self.connection_mut(conn) {
                    connection.moving_to = Some(handover.to);
                    driver.detach(conn);
                }
            }
        }
    }

    /// The processor time that this thread has used, if a client has just had a long request and may have
    /// another. Reading it is a system call.
    #[inline]
    pub(super) fn used_before_long(&self, connection: &Connection, now: QuickInstant) -> Option<Duration> {
        is_suspect(connection, now).then(|| self.used())
    }

    fn used(&self) -> Duration {
        self.clock.as_ref().map_or(Duration::ZERO, ThreadClock::used)
    }

    /// Notes how long requests of a client took that began at a time; `used_before` is what
    /// [`Self::used_before_long`] was then.
    #[inline]
    pub(super) fn note_time(
        &mut self,
        driver: &mut Driver,
        connection: &mut Connection,
        began: QuickInstant,
        used_before: Option<Duration>,
    ) {
        if self.context.command_began.duration_since(began) >= LONG {
            self.note_long(driver, connection, used_before);
        } else if used_before.is_none() && began.duration_since(self.quick_at) >= QUICK_EVERY {
            self.quick_at = began;
            self.network.note_quick(self.context.worker, Instant::now());
        }
    }

    /// A client's requests took long by the clock. If it is not the first time within a second, and this time
    /// they did so by the processor time that the thread had used before, others have to wait for them: the
    /// client moves to where no others are.
    #[cold]
    fn note_long(&mut self, driver: &mut Driver, connection: &mut Connection, used_before: Option<Duration>) {
        let (worker, now) = (self.context.worker, Instant::now());
        let is_busy = used_before.is_none_or(|before| self.used().saturating_sub(before) >= LONG);
        if !self.context.active.config.worker_packing || !is_busy {
            return;
        }
        connection.long_at = Some(QuickInstant::now());
        if used_before.is_none() {
            return;
        }
        self.network.note_long(worker, now);
        let to = self.network.aside(worker, connection.session.shared.id, now);
        if let Some(to) = to.filter(|_| may_move(connection) && connection.moving_to.is_none()) {
            self.network.note_long(to, now);
            connection.moving_to = Some(to);
            driver.detach(connection.conn);
        }
    }

    /// The driver has let go of a connection.
    pub(super) fn detached(&mut self, driver: &mut Driver, conn: Conn, socket: Socket) {
        if self.connection_mut(conn).is_none() {
            return;
        }
        let Some(socket) = self.give_up(conn, socket) else { return };
        let Some(mut connection) = self.connections[conn.index()].take() else { return };
        let to = connection.moving_to.take().filter(|_| may_move(&connection));
        self.weights.remove(&self.context, &mut connection);
        let now_ms = self.context.now_ms;
        self.departures.retain(|_, departure| now_ms - departure.at_ms < FORWARDED_MS);
        self.departures
            .insert(conn, Departure { connection: Arc::clone(&connection.session.shared), at_ms: now_ms });
        match to {
            Some(to) if to != self.context.worker => {
                self.network.post(to, Message::Move(connection, socket));
            }
            _ => {
                self.arrived(driver, connection, socket);
            }
        }
    }

    /// Takes over a client.
    pub(super) fn arrived(
        &mut self,
        driver: &mut Driver,
        mut connection: Box<Connection>,
        socket: Socket,
    ) -> Option<Conn> {
        let conn = match driver.adopt(socket) {
            Ok(conn) => conn,
            Err(error) => {
                notice!("Could not take over a connection: {error}");
                self.forget(&mut connection);
                return None;
            }
        };
        connection.conn = conn;
        connection.session.conn = conn_id(conn);
        *connection.session.shared.target.lock() =
            Target { worker: self.context.worker, conn: conn_id(conn) };
        if connection.is_waiting() && !connection.wire.is_websocket() {
            connection.stop_reading(driver);
        } else if connection.held || self.is_frozen() {
            // Another process may have to read on if this one does not come to serve.
            driver.hold_reading(conn);
        }
        // A client killed before its new worker was known: the old worker was notified.
        let killed = connection.session.shared.has(flag::KILLED);
        if let Some(blocked) = &connection.session.blocked {
            self.deadlines.add(blocked);
        }
        self.note_pending_replies(driver, &connection);
        self.note_replica(driver, &mut connection);
        self.place(connection);
        self.note_behind(conn);
        if killed {
            self.close(driver, conn, true);
        }
        Some(conn)
    }

    /// Where a client is now that has left this connection; none if it never was here, and none while it is
    /// on its way: then it waits for no message, and that it is killed it finds out when it arrives.
    pub(super) fn moved_to(&self, conn: Conn) -> Option<Target> {
        let target = *self.departures.get(&conn)?.connection.target.lock();
        (target.conn != conn_id(conn) || target.worker != self.context.worker).then_some(target)
    }
}

/// Whether a client has had a long request within [`ASIDE_MS`].
#[inline]
fn is_suspect(connection: &Connection, now: QuickInstant) -> bool {
    let is_recent = |at| now.duration_since(at) <= Duration::from_millis(ASIDE_MS);
    connection.long_at.is_some_and(is_recent)
}

/// Whether a client may be served by another worker from its next request on. Those who get messages beside
/// replies may not, so that the messages stay in order.
fn may_move(connection: &Connection) -> bool {
    let told = flag::MONITOR | flag::PUBSUB | flag::TRACKING | flag::GETS_MESSAGES | flag::REPLICA;
    let tied = flag::BLOCKED | flag::KILLED | told;
    !(connection.session.shared.has(tied)
        || connection.is_waiting()
        || connection.held
        || matches!(&connection.wire, Wire::Http(http) if matches!(http.state, State::Behind(_)))
        || connection.session.closing
        || connection.session.killed)
        && connection.pending_replies.is_none()
}
