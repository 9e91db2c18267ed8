//! A worker stops for a hand-over: see [`crate::freeze`].

use std::sync::Arc;

use mantissa_engine::host::Target;
use mantissa_engine::replication::primary;
use mantissa_net::{Conn, Driver, Socket};

use super::Worker;
use crate::freeze::Freeze;
use crate::handover::wire;
use crate::websocket::Source;

/// How far a worker has stopped.
pub(super) struct Stopped {
    freeze: Arc<Freeze>,
    /// It gives up its connections.
    releases: bool,
    /// It has given up all of them.
    is_empty: bool,
}

impl Worker<'_> {
    /// Whether requests are kept and not run.
    pub(super) fn is_frozen(&self) -> bool {
        self.stopped.is_some()
    }

    /// Whether nothing is to be sent but what the successor needs.
    pub(super) fn is_still(&self) -> bool {
        self.stopped.as_ref().is_some_and(|stopped| !stopped.releases)
    }

    /// Runs no requests from now on, and accepts no connections.
    pub(super) fn freeze(&mut self, driver: &mut Driver, freeze: Arc<Freeze>) {
        let mut listeners = Vec::new();
        for listener in std::mem::take(&mut self.listeners) {
            if let Some((taken, accepted)) = driver.take_listener(listener.id) {
                accepted.into_iter().for_each(|socket| self.accept_for(driver, listener.service, socket));
                listeners.push((listener.service, taken));
            }
        }
        // What the last requests have caused for clients of other workers is with those before any of them
        // gives up a connection.
        self.deliver_local(driver);
        self.context.outbox.end_iteration(!self.pending.is_empty());
        freeze.stopped(listeners);
        self.stopped = Some(Stopped { freeze, releases: false, is_empty: false });
    }

    /// Gives up its connections from now on.
    pub(super) fn release(&mut self, driver: &mut Driver) {
        if let Some(stopped) = &mut self.stopped {
            stopped.releases = true;
        }
        self.close_web(driver);
    }

    /// Has the driver let go of connections for which nothing waits any more. Called in each iteration.
    pub(super) fn go_on_releasing(&mut self, driver: &mut Driver) {
        if !self.stopped.as_ref().is_some_and(|stopped| stopped.releases && !stopped.is_empty) {
            return;
        }
        // Those that a message serves which waits for the log still do not know of it.
        if self.pending.has_messages() {
            return;
        }
        let takes_web = self.stopped.as_ref().is_some_and(|stopped| stopped.freeze.takes_web());
        let mut left = 0;
        for index in 0..self.connections.len() {
            let Some(connection) = self.connections[index].as_deref_mut() else { continue };
            if connection.is_successor() {
                continue;
            }
            let waiting = connection.session.replica.as_deref().map_or(0, primary::waiting_bytes);
            let may_leave = waiting == 0 && connection.pending_replies.is_none();
            let takes_web = takes_web && !driver.has_tls(connection.conn);
            if may_leave && !connection.wire.is_resp() && !(takes_web && wire::may_go(&connection.wire)) {
                self.leave_web(driver, index);
                continue;
            }
            left += 1;
            if may_leave && !connection.is_released {
                connection.is_released = true;
                driver.detach(connection.conn);
            }
        }
        if let Some(stopped) = self.stopped.as_mut().filter(|_| left == 0 && self.pending.is_empty()) {
            stopped.is_empty = true;
            stopped.freeze.emptied();
        }
    }

    /// Gives up a connection that the driver has let go of. Returns the socket if nothing is frozen.
    pub(super) fn give_up(&mut self, conn: Conn, socket: Socket) -> Option<Socket> {
        let Some(stopped) = &self.stopped else { return Some(socket) };
        let freeze = Arc::clone(&stopped.freeze);
        if let Some(mut connection) = self.connections[conn.index()].take() {
            (connection.moving_to, connection.is_released) = (None, false);
            self.weights.remove(&self.context, &mut connection);
            *connection.session.shared.target.lock() = Target::NOWHERE;
            freeze.put(connection, socket);
        }
        None
    }

    /// Serves again, first what has been kept.
    pub(super) fn thaw(&mut self, driver: &mut Driver) {
        if let Some(stopped) = self.stopped.take() {
            // It may have stopped after the others had been told to go on.
            self.network.listen(stopped.freeze.take_listeners());
        }
        self.context.refresh();
        for index in 0..self.connections.len() {
            let Some(connection) = self.connections[index].as_deref_mut() else { continue };
            let conn = connection.conn;
            let first_bytes = std::mem::take(&mut connection.first_bytes);
            if std::mem::take(&mut connection.is_released) {
                connection.moving_to = None;
                driver.stay(conn);
            }
            let (is_waiting, is_websocket) = (connection.is_waiting(), connection.wire.is_websocket());
            if !first_bytes.is_empty() {
                self.send_bytes(driver, conn, first_bytes, (0, Source::Reply));
            }
            if !is_waiting {
                self.resume(driver, conn);
            } else if is_websocket {
                // Its pings are answered while it waits.
                driver.resume_reading(conn);
            }
        }
    }
}
