//! What clients have not taken yet, and what they do over time.

use std::sync::atomic::Ordering;

use mantissa_net::{Conn, Driver};
use mantissa_protocol::Reply;

use super::Worker;
use super::websocket::{UNREAD_BYTES_MAX, attend};
use crate::connection::Connection;
use crate::limits;

/// Unsent bytes beyond which a client's requests wait until some have left. Far more than a client that sends
/// a whole pipeline before it reads will ever leave unread, and still a bound.
const UNSENT_BYTES_MAX: usize = 1 << 30;
/// Unsent bytes from which on their number is published. The driver reports when such a queue has
/// been sent. Fewer bytes have nearly always left before another thread could look.
const NOTED_BYTES_MIN: usize = 64 << 10;

impl Worker<'_> {
    /// An empty reply that overflows where the client would be closed for it: because it has left more unread
    /// than it may, or because it alone takes more than all clients may.
    pub(super) fn begin_reply(&self, driver: &mut Driver, connection: &Connection) -> Reply {
        let bytes_max = match self.output_bytes_max(connection) {
            usize::MAX => usize::MAX,
            bytes_max => bytes_max.saturating_sub(self.unsent(driver, connection)),
        };
        Reply::with_buffer(driver.take_buffer(), connection.session.protocol).limited(bytes_max)
    }

    fn output_bytes_max(&self, connection: &Connection) -> usize {
        let bytes_max = limits::output_bytes_max(&self.context, connection);
        bytes_max.min(self.weights.output_bytes_max(&self.context, connection))
    }

    /// Marks a client for closing whose reply has overflowed.
    pub(super) fn close_overflowed(&self, connection: &mut Connection) {
        if self.output_bytes_max(connection) < limits::output_bytes_max(&self.context, connection) {
            self.log_eviction(connection);
            connection.session.killed = true;
        } else {
            limits::close_for_output(&self.context, connection);
        }
    }

    /// Sends what there is of a reply, and begins another.
    pub(super) fn flush(&mut self, driver: &mut Driver, connection: &mut Connection, reply: &mut Reply) {
        self.send(driver, connection, std::mem::take(reply));
        self.bound_unsent(driver, connection);
        *reply = self.begin_reply(driver, connection);
    }

    /// Bounds what a client leaves unread, after something has been queued for it.
    pub(super) fn bound_unsent(&mut self, driver: &mut Driver, connection: &mut Connection) {
        let unsent = self.unsent(driver, connection);
        let unsent_max = if connection.wire.is_websocket() { UNREAD_BYTES_MAX } else { UNSENT_BYTES_MAX };
        connection.held = unsent > unsent_max;
        limits::bound_output(&self.context, connection, unsent as u64);
        if unsent >= NOTED_BYTES_MIN {
            connection.session.shared.output_bytes.store(unsent as u64, Ordering::Relaxed);
            self.weights.note(&self.context, connection);
            self.evict_clients(driver, Some(connection));
        }
    }

    /// Looks at what a client has not taken yet, and closes it if that is beyond its limits.
    pub(super) fn after_send(&mut self, driver: &mut Driver, conn: Conn) {
        let Some(connection) = self.connections.get(conn.index()).and_then(Option::as_deref) else { return };
        let unsent = self.unsent(driver, connection);
        let Some(connection) = self.connections.get_mut(conn.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        limits::bound_output(&self.context, connection, unsent as u64);
        let is_noted = connection.session.shared.output_bytes.load(Ordering::Relaxed) > 0;
        if is_noted || connection.soft_limit_since_ms > 0 || unsent >= NOTED_BYTES_MIN {
            driver.notify_sent(conn);
            connection.session.shared.output_bytes.store(unsent as u64, Ordering::Relaxed);
        }
        if connection.session.killed {
            return self.close(driver, conn, true);
        }
        self.weights.note(&self.context, connection);
        self.evict_clients(driver, None);
    }

    /// The driver has sent everything of a client.
    pub(super) fn sent(&mut self, driver: &mut Driver, conn: Conn) {
        let Some(connection) = self.connection_mut(conn) else { return self.web_sent(driver, conn) };
        connection.soft_limit_since_ms = 0;
        let was_held = std::mem::replace(&mut connection.held, false);
        self.note_unsent(driver, conn);
        if was_held {
            self.context.refresh();
            self.resume(driver, conn);
        } else {
            self.advance_http(driver, conn);
        }
    }

    /// Brings what is noted of a client's unsent bytes up to date.
    fn note_unsent(&mut self, driver: &mut Driver, conn: Conn) {
        let Some(connection) = self.connections.get(conn.index()).and_then(Option::as_deref) else { return };
        let unsent = self.unsent(driver, connection) as u64;
        let Some(connection) = self.connections.get_mut(conn.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        connection.session.shared.output_bytes.store(unsent, Ordering::Relaxed);
        self.weights.note(&self.context, connection);
    }

    /// Checks some of the clients, so that each is checked about once a second: closes who has been idle
    /// for too long, or over the soft limit, and brings figures up to date.
    pub(super) fn inspect_clients(&mut self, driver: &mut Driver, elapsed_ms: i64) {
        let now_ms = self.context.now_ms;
        let len = self.connections.len();
        let share = len.saturating_mul(elapsed_ms.clamp(0, 1000) as usize) / 1000;
        for _ in 0..len.min(share + 1) {
            self.inspected = (self.inspected + 1) % len;
            let Some(connection) = self.connections[self.inspected].as_deref() else { continue };
            let conn = connection.conn;
            let unsent = self.unsent(driver, connection) as u64;
            let Some(connection) = self.connections[self.inspected].as_deref_mut() else { continue };
            if let Some((len, wanted)) = driver.fill_progress(conn).filter(|_| connection.wire.is_resp()) {
                connection.note_fill(len, wanted, now_ms);
            }
            if unsent > 0 {
                driver.notify_sent(conn);
            }
            let shared = &connection.session.shared;
            // Who reads is not idle.
            if unsent < shared.output_bytes.swap(unsent, Ordering::Relaxed) {
                shared.active_ms.store(now_ms, Ordering::Relaxed);
            }
            limits::bound_output(&self.context, connection, unsent);
            let is_gone = !attend(driver, &self.context, connection);
            if connection.session.killed || is_gone || limits::is_idle(&self.context, connection) {
                self.close(driver, conn, true);
            } else if connection.wire.is_http() {
                self.inspect_http(driver, conn);
            } else {
                self.weights.note(&self.context, connection);
            }
        }
    }
}
