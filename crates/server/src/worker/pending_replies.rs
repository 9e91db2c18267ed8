//! Replies that wait for the log. A reply leaves when the log is confirmed up to the reply's LSN
//! ([`Aof::confirmed`](mantissa_engine::state::aof::Aof::confirmed)): on the disk with `appendfsync always`,
//! else in the file. So nobody hears of a write that a crash, or the end of the process, could undo.
//!
//! A reply's LSN lies behind the last write that it may tell of: one of its client's own, or the last one to
//! a shard that a command of its client has read. A client that reads other shards does not wait. (In Redis
//! nothing leaves that was caused in the same event-loop iteration.) Whatever is for a client with pending
//! replies goes behind them.
//!
//! Messages of one worker to clients of another wait in the same way, in the order in which they came:
//! service of blocked clients, published messages, invalidations.
//!
//! While the log can not be written, with a full disk, clients that wait for it are disconnected: they have
//! to take their last writes for unknown. Later writes are refused, and reads do not wait.
//!
//! Nothing else waits: further requests run. The writer of the file wakes the worker when more is confirmed.
//! Where a write is quick, the worker itself runs the writer at the end of an iteration.

use std::collections::VecDeque;

use mantissa_engine::replication::primary;
use mantissa_engine::{host, stats, warning};
use mantissa_net::{Conn, Driver};
use mantissa_persist::log::Lsn;

use super::Worker;
use crate::conn_id::conn_of;
use crate::connection::Connection;
use crate::inbox::Message;

/// What waits for the log at a worker.
#[derive(Default)]
pub(super) struct Pending {
    /// The connections of clients with pending replies.
    conns: Vec<Conn>,
    /// Messages, with the LSNs that they wait for.
    messages: VecDeque<(Lsn, Message)>,
}

impl Pending {
    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.conns.is_empty() && self.messages.is_empty()
    }

    /// Whether messages for clients of this worker wait.
    pub(super) fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }
}

impl Worker<'_> {
    /// Sends bytes to a client as soon as the log is confirmed up to `lsn`.
    pub(super) fn deliver(
        &mut self,
        driver: &mut Driver,
        connection: &mut Connection,
        bytes: Vec<u8>,
        lsn: Lsn,
    ) {
        if connection.pending_replies.is_none() && lsn <= self.context.engine.aof.confirmed() {
            return self.send_now(driver, connection, bytes);
        }
        if connection.pending_replies.is_none() {
            self.wait_for_log(driver, connection.conn);
        }
        let replies = connection.pending_replies.get_or_insert_default();
        replies.bytes += bytes.len();
        replies.queue.push_back((lsn, bytes));
    }

    /// Notes a client with pending replies. One that has ended its side gets them all the same.
    fn wait_for_log(&mut self, driver: &mut Driver, conn: Conn) {
        self.pending.conns.push(conn);
        driver.defer_end(conn, true);
    }

    fn send_now(&self, driver: &mut Driver, connection: &mut Connection, bytes: Vec<u8>) {
        let Some(bytes) = self.on_wire(driver, connection, bytes) else { return };
        self.count_sent(connection, bytes.len());
        driver.send(connection.conn, bytes);
    }

    /// Counts bytes that are sent to a client at once.
    pub(super) fn count_sent(&self, connection: &Connection, bytes: usize) {
        let counters = &self.context.engine.stats.workers[self.context.worker];
        stats::add(&counters.output_bytes, bytes as u64);
        stats::add(&counters.writes, 1);
        stats::add(&connection.session.shared.sent_bytes, bytes as u64);
    }

    /// Notes a client that has come to this worker, perhaps with pending replies.
    pub(super) fn note_pending_replies(&mut self, driver: &mut Driver, connection: &Connection) {
        if connection.pending_replies.is_some() {
            self.wait_for_log(driver, connection.conn);
        }
    }

    /// Keeps a message that must wait, or returns one that need not.
    pub(super) fn keep_pending(&mut self, lsn: Lsn, message: Message) -> Option<Message> {
        let follows = message.target().is_some() && !self.pending.messages.is_empty();
        if follows || lsn > self.context.engine.aof.confirmed() {
            self.pending.messages.push_back((lsn, message));
            return None;
        }
        Some(message)
    }

    /// Sends what is confirmed, and has this worker be woken for the rest.
    pub(super) fn send_confirmed(&mut self, driver: &mut Driver) {
        loop {
            if self.pending.is_empty() {
                return;
            }
            let aof = &self.context.engine.aof;
            aof.await_confirmed(self.context.worker);
            let confirmed = aof.confirmed();
            let mut is_sent = false;
            while let Some((_, message)) = self.pending.messages.pop_front_if(|(lsn, _)| *lsn <= confirmed) {
                is_sent = true;
                self.handle_message(driver, message);
            }
            for conn in std::mem::take(&mut self.pending.conns) {
                is_sent |= self.send_confirmed_replies(driver, conn, confirmed);
            }
            if !is_sent && confirmed == self.context.engine.aof.confirmed() {
                return self.give_up_refused(driver);
            }
        }
    }

    /// Disconnects the clients that wait for the log if that can not be written.
    fn give_up_refused(&mut self, driver: &mut Driver) {
        if self.pending.is_empty() || !self.context.engine.aof.is_refusing() {
            return;
        }
        let mut count = 0;
        for (_, message) in std::mem::take(&mut self.pending.messages) {
            match message {
                // The element that it was served is in no file.
                Message::Engine(host::Message::Unblock(id, _)) => {
                    count += 1;
                    self.kill(driver, conn_of(id));
                }
                message => self.handle_message(driver, message),
            }
        }
        for conn in std::mem::take(&mut self.pending.conns) {
            if self.suspended_mut(conn).is_some() {
                self.pending.conns.push(conn);
                continue;
            }
            let Some(connection) = self.connection_mut(conn) else { continue };
            if connection.pending_replies.take().is_some() {
                count += 1;
                self.kill(driver, conn);
            }
        }
        if count > 0 {
            warning!("Disconnected {count} clients whose last writes the append-only file can not take");
        }
    }

    /// Sends the replies of a connection that are confirmed. Whether there were any.
    fn send_confirmed_replies(&mut self, driver: &mut Driver, conn: Conn, confirmed: u64) -> bool {
        if self.suspended_mut(conn).is_some() {
            self.pending.conns.push(conn);
            return false;
        }
        if self.connection_mut(conn).is_none() {
            return false;
        }
        let Some(mut connection) = self.connections[conn.index()].take() else { return false };
        let mut is_sent = false;
        if let Some(mut replies) = connection.pending_replies.take() {
            connection.note_active(self.context.now_ms);
            while let Some((_, bytes)) = replies.queue.pop_front_if(|(lsn, _)| *lsn <= confirmed) {
                is_sent = true;
                replies.bytes -= bytes.len();
                self.send_now(driver, &mut connection, bytes);
            }
            if !replies.queue.is_empty() {
                connection.pending_replies = Some(replies);
                self.pending.conns.push(conn);
            } else if connection.session.closing {
                self.end(driver, &mut connection);
                return is_sent;
            } else {
                driver.defer_end(conn, false);
            }
        }
        self.connections[conn.index()] = Some(connection);
        if is_sent {
            self.after_send(driver, conn);
            self.advance_http(driver, conn);
        }
        is_sent
    }

    /// Unsent bytes of a client, with its pending replies.
    pub(super) fn unsent(&self, driver: &Driver, connection: &Connection) -> usize {
        let of_log = connection.session.replica.as_deref().map_or(0, primary::waiting_bytes);
        driver.unsent(connection.conn)
            + of_log as usize
            + connection.pending_replies.as_ref().map_or(0, |replies| replies.bytes)
            + connection.wire.unsent_bytes()
    }
}
