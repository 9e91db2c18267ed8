//! What may not leave yet: a reply waits until what it tells of is confirmed, which is as far as
//! `appendfsync` promises ([`confirmed`](mantissa_engine::aof::Aof::confirmed)): on the disk with `always`,
//! else in the file. So nobody hears of a write that a crash, or the end of the process, could undo.
//!
//! A reply waits for the position in the log behind the last write that it may tell of: one of its client's
//! own, or the last one to a shard that a command of its client has looked at. Who asks about other shards
//! does not wait. (In Redis nothing leaves that was caused in the same turn.) What comes for a client while a
//! reply of its own waits comes behind that.
//!
//! Messages of one worker to clients of another wait in the same way, in the order in which they came:
//! service of blocked clients, published messages, invalidations.
//!
//! Nothing else waits: requests go on being run, and whoever writes the log wakes the worker when more is
//! confirmed. Where it is quick the worker itself writes, at the end of a turn, all that is queued.

use std::collections::VecDeque;

use mantissa_engine::stats;
use mantissa_net::{Conn, Driver};

use super::Worker;
use crate::connection::Connection;
use crate::inbox::Message;

/// Replies of one client.
#[derive(Default)]
pub struct Replies {
    /// Positions in the log, and what may leave when they are confirmed.
    queue: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
}

/// What a worker holds back.
#[derive(Default)]
pub(super) struct Withheld {
    /// The connections of clients with replies that wait.
    conns: Vec<Conn>,
    /// Messages, with the positions that they wait for.
    messages: VecDeque<(u64, Message)>,
}

impl Withheld {
    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.conns.is_empty() && self.messages.is_empty()
    }
}

impl Worker<'_> {
    /// Sends bytes to a client as soon as the log is confirmed up to `position`.
    pub(super) fn deliver(
        &mut self,
        driver: &mut Driver,
        connection: &mut Connection,
        bytes: Vec<u8>,
        position: u64,
    ) {
        if connection.withheld.is_none() && position <= self.context.engine.aof.confirmed() {
            return self.send_now(driver, connection, bytes);
        }
        let replies = connection.withheld.get_or_insert_with(|| {
            self.withheld.conns.push(connection.conn);
            Box::default()
        });
        replies.bytes += bytes.len();
        replies.queue.push_back((position, bytes));
    }

    fn send_now(&self, driver: &mut Driver, connection: &Connection, bytes: Vec<u8>) {
        let counters = &self.context.engine.stats.workers[self.context.worker];
        stats::add(&counters.output_bytes, bytes.len() as u64);
        stats::add(&counters.writes, 1);
        stats::add(&connection.session.shared.sent_bytes, bytes.len() as u64);
        driver.send(connection.conn, bytes);
    }

    /// A client whose replies wait has come to this worker, or to another connection of it.
    pub(super) fn note_withheld(&mut self, connection: &Connection) {
        if connection.withheld.is_some() {
            self.withheld.conns.push(connection.conn);
        }
    }

    /// Keeps a message that must wait, or returns one that need not.
    pub(super) fn withhold_message(&mut self, position: u64, message: Message) -> Option<Message> {
        let follows = message.target().is_some() && !self.withheld.messages.is_empty();
        if follows || position > self.context.engine.aof.confirmed() {
            self.withheld.messages.push_back((position, message));
            return None;
        }
        Some(message)
    }

    /// Lets go what may leave now, and arranges for the rest.
    pub(super) fn release_withheld(&mut self, driver: &mut Driver) {
        loop {
            if self.withheld.is_empty() {
                return;
            }
            let aof = &self.context.engine.aof;
            aof.await_confirmed(self.context.worker);
            let confirmed = aof.confirmed();
            let mut released = false;
            while let Some((_, message)) =
                self.withheld.messages.pop_front_if(|(position, _)| *position <= confirmed)
            {
                released = true;
                self.handle_message(driver, message);
            }
            for conn in std::mem::take(&mut self.withheld.conns) {
                released |= self.release_replies(driver, conn, confirmed);
            }
            if !released && confirmed == self.context.engine.aof.confirmed() {
                return;
            }
        }
    }

    /// Sends the replies of a connection that may leave. Whether there were any.
    fn release_replies(&mut self, driver: &mut Driver, conn: Conn, confirmed: u64) -> bool {
        if self.suspended.as_ref().is_some_and(|suspended| suspended.conn == conn) {
            self.withheld.conns.push(conn);
            return false;
        }
        if self.connection_mut(conn).is_none() {
            return false;
        }
        let Some(mut connection) = self.connections[conn.index()].take() else { return false };
        let mut released = false;
        if let Some(mut replies) = connection.withheld.take() {
            while let Some((_, bytes)) = replies.queue.pop_front_if(|(position, _)| *position <= confirmed) {
                released = true;
                replies.bytes -= bytes.len();
                self.send_now(driver, &connection, bytes);
            }
            if !replies.queue.is_empty() {
                connection.withheld = Some(replies);
                self.withheld.conns.push(conn);
            } else if connection.session.closing {
                self.forget(&mut connection);
                driver.close_after_send(conn);
                return released;
            }
        }
        self.connections[conn.index()] = Some(connection);
        if released {
            self.after_send(driver, conn);
        }
        released
    }

    /// Unsent bytes of a client, those included that may not leave yet.
    pub(super) fn unsent(&self, driver: &Driver, connection: &Connection) -> usize {
        driver.unsent(connection.conn) + connection.withheld.as_ref().map_or(0, |replies| replies.bytes)
    }
}
