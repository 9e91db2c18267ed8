//! Replicas that this worker has the connections of: sends them the dump, then the log.
//!
//! Nothing is done for a command. At the end of an iteration of the event loop each replica is sent what has
//! come, as long as the driver has less than [`UNSENT_BYTES_MAX`] for it; the rest waits in the log, and is
//! sent when the driver has sent what it has. A worker whose replicas have all that there is says so, and is
//! woken by the next who appends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_engine::commands::ClientFigures;
use mantissa_engine::replication::primary;
use mantissa_engine::session::flag;
use mantissa_engine::state::replication::{Outgoing, Replica};
use mantissa_engine::{stats, warning};
use mantissa_net::{Conn, Driver};
use mantissa_persist::log::{Chunk, Lsn};

use super::Worker;
use crate::connection::Connection;

/// Bytes that the driver may have for a replica before it is given more.
const UNSENT_BYTES_MAX: usize = 1 << 20;
/// Bytes of the log that are handed to the driver at once.
const SENT_BYTES_MAX: usize = 64 << 10;

/// How often a worker looks again at once when others have appended meanwhile.
const ROUNDS_MAX: usize = 2;

/// The replicas of a worker.
#[derive(Default)]
pub(super) struct Replicas {
    all: Vec<(Conn, Arc<Replica>)>,
    /// For reading the log.
    chunks: Vec<Chunk>,
}

/// What has become of a replica.
enum Fate {
    /// It has all that there is.
    Served,
    /// It waits for the driver.
    Waits,
    /// It has got the dump that it wanted.
    Done,
    /// It is to be closed.
    Failed(String),
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
                if self.suspended.as_ref().is_some_and(|suspended| suspended.conn == *conn) {
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
        let engine = self.context.engine;
        let mut outgoing = replica.outgoing.lock();
        if let Some(reason) = outgoing.failure.take() {
            return Fate::Failed(reason);
        }
        let mut room = UNSENT_BYTES_MAX.saturating_sub(driver.unsent(conn));
        if !outgoing.dump.is_empty() {
            while room > 0
                && let Some(piece) = outgoing.dump.pop_front()
            {
                outgoing.dump_bytes = outgoing.dump_bytes.saturating_sub(piece.len());
                room = room.saturating_sub(piece.len());
                self.hand_over_bytes(driver, conn, replica, &piece);
            }
            replica.has_sent.notify_all();
        }
        if !outgoing.dump.is_empty() {
            return Fate::Waits;
        }
        if !outgoing.dump_ended {
            return Fate::Served;
        }
        drop(outgoing);
        if primary::dump_sent(engine, replica) {
            return Fate::Done;
        }
        let mut outgoing = replica.outgoing.lock();
        match outgoing.awaits_ack {
            true => Fate::Served,
            false => self.send_log(driver, conn, replica, &mut outgoing, room),
        }
    }

    fn send_log(
        &mut self,
        driver: &mut Driver,
        conn: Conn,
        replica: &Replica,
        outgoing: &mut Outgoing,
        mut room: usize,
    ) -> Fate {
        let Some(reader) = &mut outgoing.reader else { return Fate::Served };
        while reader.behind() > 0 {
            if room == 0 {
                return Fate::Waits;
            }
            let mut chunks = std::mem::take(&mut self.replicas.chunks);
            let outcome = reader.read(Lsn::MAX, room.min(SENT_BYTES_MAX), &mut chunks);
            if let Err(lost) = outcome {
                let limit = primary::log_bytes_max(&self.context.active.config);
                return Fate::Failed(format!(
                    "{lost}, more than the {limit} of client-output-buffer-limit replica (hard) allow"
                ));
            }
            let is_empty = chunks.is_empty();
            let mut buffer = driver.take_buffer();
            chunks.iter().for_each(|chunk| buffer.extend_from_slice(chunk.bytes()));
            chunks.clear();
            self.replicas.chunks = chunks;
            room = room.saturating_sub(buffer.len());
            self.count_sent(replica, buffer.len());
            if is_empty {
                // Somebody is still copying, and wakes this worker.
                driver.return_buffer(buffer);
                return Fate::Served;
            }
            driver.send(conn, buffer);
        }
        Fate::Served
    }

    fn hand_over_bytes(&self, driver: &mut Driver, conn: Conn, replica: &Replica, bytes: &[u8]) {
        let mut buffer = driver.take_buffer();
        buffer.extend_from_slice(bytes);
        self.count_sent(replica, bytes.len());
        driver.send(conn, buffer);
    }

    fn count_sent(&self, replica: &Replica, bytes: usize) {
        if bytes > 0 {
            let engine = self.context.engine;
            stats::add(&engine.stats.workers[self.context.worker].writes, 1);
            stats::add(&replica.session.sent_bytes, bytes as u64);
            engine.replication.serving.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
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
