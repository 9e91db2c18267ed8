//! What clients have not taken yet, and what they do over time.

use std::sync::atomic::Ordering;

use mantissa_net::{Conn, Driver};
use mantissa_protocol::Reply;

use super::Worker;
use crate::client::Client;
use crate::limits;

/// Unsent bytes beyond which a client's requests wait until some have left. Far more than a client that sends
/// a whole pipeline before it reads will ever leave unread, and still a bound.
const UNSENT_BYTES_MAX: usize = 1 << 30;
/// Unsent bytes from which on they are noted for all to see: the driver tells when so many have left. Less
/// has nearly always left before anybody could look.
const NOTED_BYTES_MIN: usize = 64 << 10;

impl Worker {
    /// An empty reply that overflows where the client would be closed for it: because it has left more unread
    /// than it may, or because it alone takes more than all clients may.
    pub(super) fn begin_reply(&self, driver: &mut Driver, client: &Client) -> Reply {
        let bytes_max = match self.output_bytes_max(client) {
            usize::MAX => usize::MAX,
            bytes_max => bytes_max.saturating_sub(self.unsent(driver, client)),
        };
        Reply::with_buffer(driver.take_buffer(), client.protocol).limited(bytes_max)
    }

    fn output_bytes_max(&self, client: &Client) -> usize {
        let bytes_max = limits::output_bytes_max(&self.context.live.config, client);
        bytes_max.min(self.weights.output_bytes_max(&self.context, client))
    }

    /// Marks a client for closing whose reply has overflowed.
    pub(super) fn close_overflowed(&self, client: &mut Client) {
        if self.output_bytes_max(client) < limits::output_bytes_max(&self.context.live.config, client) {
            self.log_eviction(client);
            client.killed = true;
        } else {
            limits::close_for_output(&self.context, client);
        }
    }

    /// Sends what there is of a reply, and begins another.
    pub(super) fn flush(&mut self, driver: &mut Driver, client: &mut Client, reply: &mut Reply) {
        self.send(driver, client, std::mem::take(reply));
        let unsent = self.unsent(driver, client);
        client.held = unsent > UNSENT_BYTES_MAX;
        limits::bound_output(&self.context, client, unsent as u64);
        if unsent >= NOTED_BYTES_MIN {
            client.shared.output_bytes.store(unsent as u64, Ordering::Relaxed);
            self.weights.note(&self.context, client);
            self.evict_clients(driver, Some(client));
        }
        *reply = self.begin_reply(driver, client);
    }

    /// Looks at what a client has not taken yet, and closes it if that is beyond its limits.
    pub(super) fn after_send(&mut self, driver: &mut Driver, conn: Conn) {
        let Some(client) = self.clients.get(conn.index()).and_then(Option::as_deref) else { return };
        let unsent = self.unsent(driver, client);
        let Some(client) = self.clients.get_mut(conn.index()).and_then(Option::as_deref_mut) else { return };
        limits::bound_output(&self.context, client, unsent as u64);
        let is_noted = client.shared.output_bytes.load(Ordering::Relaxed) > 0;
        if is_noted || client.soft_limit_since_ms > 0 || unsent >= NOTED_BYTES_MIN {
            driver.notify_sent(conn);
            client.shared.output_bytes.store(unsent as u64, Ordering::Relaxed);
        }
        if client.killed {
            return self.close(driver, conn, true);
        }
        self.weights.note(&self.context, client);
        self.evict_clients(driver, None);
    }

    /// The driver has sent everything of a client.
    pub(super) fn sent(&mut self, driver: &mut Driver, conn: Conn) {
        let Some(client) = self.client_mut(conn) else { return };
        client.soft_limit_since_ms = 0;
        let was_held = std::mem::replace(&mut client.held, false);
        self.note_unsent(driver, conn);
        if was_held {
            self.context.refresh();
            self.resume(driver, conn);
        }
    }

    /// Brings what is noted of a client's unsent bytes up to date.
    fn note_unsent(&mut self, driver: &mut Driver, conn: Conn) {
        let Some(client) = self.clients.get(conn.index()).and_then(Option::as_deref) else { return };
        let unsent = self.unsent(driver, client) as u64;
        let Some(client) = self.clients.get_mut(conn.index()).and_then(Option::as_deref_mut) else { return };
        client.shared.output_bytes.store(unsent, Ordering::Relaxed);
        self.weights.note(&self.context, client);
    }

    /// Looks at some of the clients, so that each has its turn about once a second: closes who has been idle
    /// for too long, or over the soft limit, and brings figures up to date.
    pub(super) fn inspect_clients(&mut self, driver: &mut Driver, elapsed_ms: i64) {
        let len = self.clients.len();
        let share = len.saturating_mul(elapsed_ms.clamp(0, 1000) as usize) / 1000;
        for _ in 0..len.min(share + 1) {
            self.inspected = (self.inspected + 1) % len;
            let Some(client) = self.clients[self.inspected].as_deref() else { continue };
            let conn = client.conn;
            let unsent = self.unsent(driver, client) as u64;
            let Some(client) = self.clients[self.inspected].as_deref_mut() else { continue };
            if unsent > 0 {
                driver.notify_sent(conn);
            }
            client.shared.output_bytes.store(unsent, Ordering::Relaxed);
            limits::bound_output(&self.context, client, unsent);
            if client.killed || limits::is_idle(&self.context, client) {
                self.close(driver, conn, true);
            } else {
                self.weights.note(&self.context, client);
            }
        }
    }
}
