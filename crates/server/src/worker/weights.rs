//! What the clients of a worker take, and which of them are evicted where all clients take too much.
//!
//! Without a limit a client that takes what it took before costs one comparison. With one, clients are kept
//! in sets by the magnitude of what they take. A client changes its set only when its magnitude changes.

use std::sync::atomic::Ordering;

use indexmap::IndexSet;
use mantissa_engine::client_memory::limit;
use mantissa_engine::context::Context;
use mantissa_engine::host::Message;
use mantissa_engine::session::flag;
use mantissa_engine::{Session, commands, notice, stats};
use mantissa_net::{Conn, Driver};
use mantissa_sys::clock::unix_ms;

use super::Worker;
use crate::connection::Connection;

/// Clients that take less than this power of two are of one magnitude.
const MAGNITUDE_MIN: u32 = 10;
/// What a connection takes beside its session.
const CONNECTION_BYTES: u64 = (size_of::<Connection>() - size_of::<Session>()) as u64;
/// Magnitudes: each is a power of two of bytes, the last one holds all that is larger.
const MAGNITUDES: usize = 24;

/// What is noted of all clients of a worker.
#[derive(Default)]
pub(super) struct Weights {
    /// Clients that may be evicted, by magnitude. Empty without a limit.
    sets: Vec<IndexSet<Conn>>,
    /// Bytes that this worker's clients may still take before all sums are added up again.
    allowance: i64,
}

impl Weights {
    /// Whether there is a limit.
    #[inline]
    pub(super) fn is_limited(&self) -> bool {
        !self.sets.is_empty()
    }

    /// Notes what a client takes now.
    #[inline]
    pub(super) fn note(&mut self, context: &Context, connection: &mut Connection) {
        // What waits for a replica is the log's.
        let bytes = match connection.is_replica {
            true => 0,
            false => connection.session.memory_bytes() + CONNECTION_BYTES,
        };
        // In this order for other workers: see `client_memory`.
        let is_more = bytes > connection.weight.bytes;
        if is_more && self.is_limited() {
            self.sort(context, connection, bytes);
        }
        if bytes != connection.weight.bytes {
            self.change(context, connection, bytes);
        }
        if !is_more && self.is_limited() {
            self.sort(context, connection, bytes);
        }
    }

    fn change(&mut self, context: &Context, connection: &mut Connection, bytes: u64) {
        let difference = bytes as i64 - connection.weight.bytes as i64;
        connection.weight.bytes = bytes;
        connection.session.shared.memory_bytes.store(bytes, Ordering::Relaxed);
        context.engine.client_memory.add(context.worker, difference);
        self.allowance -= difference;
    }

    /// Puts a client that takes these bytes into the set where it belongs.
    fn sort(&mut self, context: &Context, connection: &mut Connection, bytes: u64) {
        let may_go = !connection.session.shared.has(flag::NO_EVICT) && bytes > 0;
        let power = bytes.max(1).ilog2().saturating_sub(MAGNITUDE_MIN);
        let magnitude = may_go.then(|| power.min(MAGNITUDES as u32 - 1) as u8);
        if magnitude == connection.weight.magnitude {
            return;
        }
        self.take_out(connection);
        if let Some(set) = magnitude.and_then(|magnitude| self.sets.get_mut(usize::from(magnitude))) {
            set.insert(connection.conn);
            connection.weight.magnitude = magnitude;
        }
        self.tell_largest(context);
    }

    fn take_out(&mut self, connection: &mut Connection) {
        let magnitude = connection.weight.magnitude.take();
        if let Some(set) = magnitude.and_then(|magnitude| self.sets.get_mut(usize::from(magnitude))) {
            set.swap_remove(&connection.conn);
        }
    }

    /// The bytes that a client may leave unread before it is evicted whatever others take.
    pub(super) fn output_bytes_max(&self, context: &Context, connection: &Connection) -> usize {
        if !self.is_limited() || connection.session.shared.has(flag::NO_EVICT) {
            return usize::MAX;
        }
        limit(&context.active.config).map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
    }

    /// Forgets a client that leaves this worker.
    pub(super) fn remove(&mut self, context: &Context, connection: &mut Connection) {
        self.change(context, connection, 0);
        if connection.weight.magnitude.is_some() {
            self.take_out(connection);
            self.tell_largest(context);
        }
    }

    /// Leaves a client out that cannot be evicted while its script runs. It is sorted anew afterwards.
    pub(super) fn spare(&mut self, context: &Context, conn: Conn) {
        self.sets.iter_mut().for_each(|set| _ = set.swap_remove(&conn));
        self.tell_largest(context);
    }

    /// The largest client, with its magnitude plus 1.
    fn largest(&self) -> Option<(u32, Conn)> {
        let mut sets = self.sets.iter().enumerate().rev();
        sets.find_map(|(magnitude, set)| set.last().map(|&conn| (magnitude as u32 + 1, conn)))
    }

    fn tell_largest(&self, context: &Context) {
        let largest = self.largest().map_or(0, |(number, _)| number);
        context.engine.client_memory.set_largest(context.worker, largest);
    }

    /// Has the next look add up all sums.
    pub(super) fn expect_change(&mut self) {
        self.allowance = 0;
    }
}

impl Worker<'_> {
    /// Begins or ends to sort clients, where the limit has come or gone.
    fn follow_limit(&mut self) {
        let wanted = limit(&self.context.active.config).is_some();
        if wanted == self.weights.is_limited() {
            return;
        }
        self.weights.sets = vec![IndexSet::new(); if wanted { MAGNITUDES } else { 0 }];
        for connection in self.connections.iter_mut().flatten() {
            connection.weight.magnitude = None;
            self.weights.note(&self.context, connection);
        }
        self.weights.tell_largest(&self.context);
    }

    /// Once in an event-loop iteration: evicts clients if all take too much.
    pub(super) fn weigh_clients(&mut self, driver: &mut Driver) {
        self.follow_limit();
        self.weights.expect_change();
        self.evict_clients(driver, None);
    }

    /// Evicts clients, the largest first, as long as all take too much. `present` is one that is not in its
    /// place.
    #[inline]
    pub(super) fn evict_clients(&mut self, driver: &mut Driver, present: Option<&mut Connection>) {
        if self.weights.is_limited() && self.weights.allowance <= 0 {
            self.evict_excess(driver, present);
        }
    }

    #[cold]
    fn evict_excess(&mut self, driver: &mut Driver, mut present: Option<&mut Connection>) {
        let engine = self.context.engine;
        let Some(limit) = limit(&self.context.active.config) else { return };
        loop {
            let total = engine.client_memory.total();
            if total <= limit {
                let left = limit - total;
                self.weights.allowance = left as i64 / (2 * engine.worker_count() as i64 + 2);
                return;
            }
            let worker = engine.client_memory.evicting_worker();
            if engine.client_memory.total() <= limit {
                continue;
            }
            let Some(worker) = worker else { return };
            if worker != self.context.worker {
                if engine.client_memory.tell(worker) {
                    engine.send(worker, Message::WeighClients);
                }
                return;
            }
            let Some((number, conn)) = self.weights.largest() else { return };
            match present.as_deref_mut().filter(|connection| connection.conn == conn) {
                Some(connection) => {
                    self.log_eviction(connection);
                    connection.session.killed = true;
                    self.weights.remove(&self.context, connection);
                }
                None => match self.connections.get_mut(conn.index()).and_then(Option::take) {
                    Some(mut connection) => {
                        // Some of what was unsent may have left since it was noted.
                        let unsent = self.unsent(driver, &connection) as u64;
                        connection.session.shared.output_bytes.store(unsent, Ordering::Relaxed);
                        self.weights.note(&self.context, &mut connection);
                        let is_as_large = connection.weight.magnitude.map(u32::from) == Some(number - 1);
                        if is_as_large {
                            self.log_eviction(&connection);
                        }
                        self.connections[conn.index()] = Some(connection);
                        if is_as_large {
                            self.close(driver, conn, true);
                        }
                    }
                    None => self.weights.spare(&self.context, conn),
                },
            }
        }
    }

    pub(super) fn log_eviction(&self, connection: &Connection) {
        let mut line = Vec::new();
        let figures = commands::ClientFigures::of(self.context.engine, connection.session.shared.id);
        figures.write_line(&mut line, &connection.session.shared, unix_ms());
        notice!("Evicting client: {}", String::from_utf8_lossy(&line).trim_end());
        stats::add(&self.context.engine.stats.workers[self.context.worker].evicted_clients, 1);
    }
}
