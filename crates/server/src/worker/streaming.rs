//! Long replies that leave while they are being written.

use mantissa_engine::batch::Request;
use mantissa_engine::execute::{self, Progress};
use mantissa_engine::registry::Command;
use mantissa_engine::{host, nested_loop, tracking};
use mantissa_net::{Driver, Outlet};
use mantissa_protocol::{Reply, Sink};
use mantissa_sys::QuickInstant;

use super::{Worker, execute_guarded, guarded};
use crate::connection::Connection;
use crate::inbox::Message;

/// How long a large value is read before the worker's other clients are served, at least, in ns.
const READ_NS_MIN: u64 = 1_000_000;

/// The kernel, which takes what it can hold if there is a way for the reply. The worker's other clients are
/// served in between, for half of the time at the most.
struct Kernel {
    outlet: Option<Outlet>,
    served: QuickInstant,
    /// How long is read before others are served again.
    read_ns: u64,
}

impl Kernel {
    fn new(outlet: Option<Outlet>) -> Kernel {
        Kernel { outlet, served: QuickInstant::now(), read_ns: READ_NS_MIN }
    }
}

impl Sink for Kernel {
    fn take(&mut self, bytes: &[u8]) -> usize {
        let count = self.outlet.as_ref().map_or(0, |outlet| outlet.send(bytes));
        if QuickInstant::now().nanos_since(self.served) >= self.read_ns {
            self.read_ns = nested_loop::serve_others().max(READ_NS_MIN);
            self.served = QuickInstant::now();
        }
        count
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
        let is_long = self.context.streams_image();
        let serves_others = is_long && self.suspended.is_empty();
        if serves_others {
            self.deliver_earlier(driver, connection, reply);
        }
        if is_long {
            reply.stream_to(Box::new(Kernel::new(self.outlet(driver, connection))));
        }
        let slices = std::mem::take(&mut self.batch.slices);
        let args = request.args(input, &slices);
        let read = |context: &mut _, session: &mut _| execute::read_image(context, session, args, reply);
        let (is_whole, suspended) = if serves_others {
            self.lend(driver, connection, true, |context, session| guarded(context, session, args, read))
        } else {
            (guarded(&mut self.context, &mut connection.session, args, read), None)
        };
        self.batch.slices = slices;
        let streamed = reply.end_streaming();
        if is_whole == Some(false) {
            connection.session.killed = true;
        }
        if streamed.bytes > 0 {
            self.count_sent(connection, streamed.bytes + reply.len() - streamed.kept);
            if !reply.has_overflowed() {
                let rest = std::mem::take(reply).into_bytes();
                driver.send_rest(connection.conn, rest, streamed.kept);
                self.bound_unsent(driver, connection);
                *reply = self.begin_reply(driver, connection);
            }
        }
        self.has_served_others = suspended.is_some();
        if self.has_served_others && self.has_paused {
            self.network.post(self.context.worker, Message::Engine(host::Message::Resume));
        }
        self.rejoin(driver, connection, suspended, reply);
    }

    /// Delivers what earlier requests have left for clients, before others leave more for them.
    fn deliver_earlier(&mut self, driver: &mut Driver, connection: &Connection, reply: &mut Reply) {
        let outbox = &mut self.context.outbox;
        if outbox.has_changed() {
            tracking::broadcast(outbox);
        }
        let own = outbox.take_for(connection.session.conn);
        if !own.is_empty() {
            outbox.required_lsn = outbox.required_lsn.max(outbox.logged_lsn);
            own.iter().for_each(|bytes| reply.raw(bytes));
        }
        self.context.engine.keyspace.release_kept();
        self.deliver_local(driver);
        self.context.outbox.end_iteration(!self.pending.is_empty());
    }

    /// The way for a reply to leave at once, if nothing is to leave before it.
    fn outlet(&self, driver: &Driver, connection: &Connection) -> Option<Outlet> {
        let is_confirmed = self.context.outbox.required_lsn <= self.context.engine.aof.confirmed();
        let may_leave = is_confirmed && connection.pending_replies.is_none() && !connection.is_replica;
        if may_leave { driver.outlet(connection.conn) } else { None }
    }
}
