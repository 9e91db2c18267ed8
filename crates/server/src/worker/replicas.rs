//! Replicas that this worker has the connections of: sends them the dump, then the log.
//!
//! What there is to send, and in which order, says [`sending`]. At the end of an iteration of the event loop
//! each replica is sent what has come, as long as the driver has less than [`UNSENT_BYTES_MAX`] for it; the
//! rest waits in the log, and is sent when the driver has sent what it has. A worker whose replicas have all
//! that there is says so, and is woken by the next who appends.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use mantissa_engine::commands::ClientFigures;
use mantissa_engine::replication::primary;
use mantissa_engine::replication::sending::{self, Fate, Outlet};
use mantissa_engine::session::flag;
use mantissa_engine::state::replication::Replica;
use mantissa_engine::{stats, warning};
use mantissa_net::{Conn, Driver};
use mantissa_persist::log::Chunk;

use super::Worker;
use crate::connection::Connection;

/// Bytes that the driver may have for a replica before it is given more.
const UNSENT_BYTES_MAX: usize = 1 << 20;

/// How often a worker looks again at once when others have appended meanwhile.
const ROUNDS_MAX: usize = 2;

/// The replicas of a worker.
#[derive(Default)]
pub(super) struct Replicas {
    all: Vec<(Conn, Arc<Replica>)>,
    /// For reading the log.
    chunks: Vec<Chunk>,
}

/// A connection of the driver.
struct DriverOutlet<'d, 'n> {
    driver: &'d mut Driver,
    conn: Conn,
    /// The worker's count of writes.
    writes: &'n AtomicU64,
}

impl Outlet for DriverOutlet<'_, '_> {
    fn room(&self) -> usize {
        UNSENT_BYTES_MAX.saturating_sub(self.driver.unsent(self.conn))
    }

    fn send<'p>(&mut self, parts: impl Iterator<Item = &'p [u8]>) {
        let mut buffer = self.driver.take_buffer();
        parts.for_each(|part| buffer.extend_from_slice(part));
        stats::add(self.writes, 1);
        self.driver.send(self.conn, buffer);
    }
}

impl Worker<'_> {
    /// Notes that a client has become a replica, or has come here as one.
    pub(super) fn note_replica(&mut self, driver: &mut Driver, connection: &mut Connection) {
        connection.is_replica = connection.session.shared.has(flag::REPLICA);
        let (true, Some(replica)) = (connection.is_replica, &connection.session.replica) else { return };
        if self.replicas.all.iter().all(|(conn, _)| *conn != connection.conn) {
            self.replicas.all.push((connection.conn, Arc::clone(replica)));
            // It stays here: what it is sent is sent by this worker.
            connection.moving_to = None;
            driver.stay(connection.conn);
            if self.context.active.config.repl_disable_tcp_nodelay {
                driver.set_nodelay(connection.conn, false);
            }
        }
    }

    /// Sends to all replicas what there is for them.
    #[inline]
    pub(super) fn send_to_replicas(&mut self, driver: &mut Driver) {
        if !self.replicas.all.is_empty() {
            self.send_to_each(driver);
        }
    }

    fn send_to_each(&mut self, driver: &mut Driver) {
        let (engine, worker, is_still) = (self.context.engine, self.context.worker, self.is_still());
        for _ in 0..ROUNDS_MAX {
            let end = engine.log.end();
            let mut reads_on = false;
            let mut replicas = std::mem::take(&mut self.replicas.all);
            replicas.retain(|(conn, replica)| {
                if self.suspended_mut(*conn).is_some() {
                    return true;
                }
                let Some(connection) = self.connection_mut(*conn) else { return false };
                if connection.pending_replies.is_some() || is_still && !connection.is_successor() {
                    return true;
                }
                match self.send_to(driver, *conn, replica) {
                    Fate::Served => {
                        reads_on = true;
                        true
                    }
                    Fate::Waits => {
                        driver.notify_sent(*conn);
                        true
                    }
                    Fate::Done => {
                        self.end_replica(driver, *conn);
                        false
                    }
                    Fate::Failed(reason) => {
                        warning!("Disconnecting replica {}: {reason}", primary::name_of(replica));
                        self.close(driver, *conn, true);
                        false
                    }
                }
            });
            self.replicas.all = replicas;
            if !reads_on || primary::begin_sleep(engine, worker, end) {
                return;
            }
        }
        engine.wake(worker);
    }

    fn send_to(&mut self, driver: &mut Driver, conn: Conn, replica: &Replica) -> Fate {
        let (engine, worker) = (self.context.engine, self.context.worker);
        let writes = &engine.stats.workers[worker].writes;
        let mut outlet = DriverOutlet { driver, conn, writes };
        let config = &self.context.active.config;
        sending::send(engine, replica, config, &mut self.replicas.chunks, &mut outlet)
    }

    /// Closes the connection of a replica that wanted a dump only, once that has left.
    fn end_replica(&mut self, driver: &mut Driver, conn: Conn) {
        if let Some(mut connection) = self.connections.get_mut(conn.index()).and_then(Option::take) {
            self.forget(&mut connection);
            driver.close_after_send(conn);
        }
    }

    /// Marks a replica for closing that has made a request with a reply, which would be taken for a part of
    /// the stream.
    pub(super) fn refuse_reply(&self, connection: &mut Connection, reply: &[u8]) {
        connection.session.killed = true;
        let session = &connection.session.shared;
        let name = ClientFigures::of(self.context.engine, session.id).last_command(session);
        warning!(
            "Replica generated a reply to command '{name}', disconnecting it: '{}'",
            String::from_utf8_lossy(reply).trim_end()
        );
    }
}
