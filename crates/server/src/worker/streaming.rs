//! Long replies that leave while they are being written.

use mantissa_engine::batch::Request;
use mantissa_engine::execute::{self, Progress};
use mantissa_engine::registry::Command;
use mantissa_net::{Driver, Outlet};
use mantissa_protocol::{Reply, Sink};

use super::{Worker, execute_guarded, guarded};
use crate::connection::Connection;

/// The kernel, which takes what it can hold.
struct Kernel(Outlet);

impl Sink for Kernel {
    fn take(&mut self, bytes: &[u8]) -> usize {
        self.0.send(bytes)
    }
}

impl Worker<'_> {
    /// Runs a request. If it reads a large value, its reply leaves while it is being written.
    pub(super) fn execute(
        &mut self,
        driver: &mut Driver,
        connection: &mut Connection,
        input: &[u8],
        (request, command): (&Request, Option<&'static Command>),
        reply: &mut Reply,
    ) -> Progress {
        let args = request.args(input, &self.batch.slices);
        self.context.leaves_images = connection.wire.is_resp();
        let (context, session) = (&mut self.context, &mut connection.session);
        let progress = execute_guarded(context, session, (command, args), request.hash, reply);
        self.context.leaves_images = false;
        if progress == Progress::Image {
            self.read_image(driver, connection, input, request, reply);
            return Progress::Done;
        }
        progress
    }

    #[cold]
    fn read_image(
        &mut self,
        driver: &mut Driver,
        connection: &mut Connection,
        input: &[u8],
        request: &Request,
        reply: &mut Reply,
    ) {
        if let Some(outlet) = self.outlet(driver, connection) {
            reply.stream_to(Box::new(Kernel(outlet)));
        }
        let args = request.args(input, &self.batch.slices);
        let (context, session) = (&mut self.context, &mut connection.session);
        let read = |context: &mut _, session: &mut _| execute::read_image(context, session, args, reply);
        let is_whole = guarded(context, session, args, read);
        let streamed = reply.end_streaming();
        if is_whole == Some(false) {
            connection.session.killed = true;
        }
        if streamed.bytes == 0 {
            return;
        }
        self.count_sent(connection, streamed.bytes + reply.len() - streamed.kept);
        if !reply.has_overflowed() {
            let rest = std::mem::take(reply).into_bytes();
            driver.send_rest(connection.conn, rest, streamed.kept);
            self.bound_unsent(driver, connection);
            *reply = self.begin_reply(driver, connection);
        }
    }

    /// The way for a reply to leave at once, if nothing is to leave before it.
    fn outlet(&self, driver: &Driver, connection: &Connection) -> Option<Outlet> {
        let is_confirmed = self.context.outbox.required_lsn <= self.context.engine.aof.confirmed();
        let may_leave = is_confirmed && connection.pending_replies.is_none() && !connection.is_replica;
        if may_leave && self.context.streams_image() { driver.outlet(connection.conn) } else { None }
    }
}
