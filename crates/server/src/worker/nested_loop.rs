//! The event loop within a long command: a slow script, or a read of a large value, serves the other
//! connections of its worker from within ([`nested_loop::serve_others`]).
//!
//! The worker lends the thread everything but what the running command uses. The session that runs it is not
//! in its place meanwhile: what comes for it is kept until the command has ended.
//!
//! A read of a large value within one of another is put off until that has ended. Otherwise the first would
//! wait for the second. A client with further requests gives way after such a read.

use std::collections::HashMap;
use std::sync::Arc;

use mantissa_engine::Engine;
use mantissa_engine::batch::Request;
use mantissa_engine::blocking::Deadlines;
use mantissa_engine::context::Context;
use mantissa_engine::execute::Progress;
use mantissa_engine::host;
use mantissa_engine::nested_loop::{self, NestedLoop};
use mantissa_engine::registry::Command;
use mantissa_engine::session::{Session, flag};
use mantissa_engine::warning;
use mantissa_net::{Conn, Driver};
use mantissa_persist::log::Lsn;
use mantissa_protocol::Reply;

use super::moving::Departure;
use super::pending_replies::Pending;
use super::replicas::Replicas;
use super::web::WebConnections;
use super::weights::Weights;
use super::{Worker, WorkerListener, execute_guarded};
use crate::conn_id::conn_id;
use crate::connection::Connection;
use crate::inbox::Message;
use crate::network::Network;

/// The connection whose session is inside a long command: it is not in its place.
pub(super) struct Suspended {
    pub(super) conn: Conn,
    /// Its connection has ended.
    pub(super) closed: bool,
    /// What it is to be sent behind the reply, with the LSNs that this waits for.
    pub(super) pushes: Vec<(Arc<[u8]>, Lsn)>,
    /// What else has come for it in the meantime.
    messages: Vec<Message>,
}

impl Suspended {
    fn new(conn: Conn) -> Suspended {
        Suspended { conn, closed: false, pushes: Vec::new(), messages: Vec::new() }
    }

    fn keep(&mut self, message: Message) {
        match message {
            Message::Engine(host::Message::Push(_, bytes)) => self.pushes.push((bytes, 0)),
            message => self.messages.push(message),
        }
    }
}

/// What a worker lends to a long command.
struct LentWorker<'a, 'e> {
    engine: &'e Engine,
    network: &'e Network,
    number: usize,
    driver: &'a mut Driver,
    connections: &'a mut Vec<Option<Box<Connection>>>,
    deadlines: &'a mut Deadlines,
    listeners: &'a mut Vec<WorkerListener>,
    web: &'a mut WebConnections,
    departures: &'a mut HashMap<Conn, Departure>,
    pending: &'a mut Pending,
    replicas: &'a mut Replicas,
    weights: &'a mut Weights,
    has_paused: &'a mut bool,
    stopping: &'a mut bool,
    behind: &'a mut Vec<Conn>,
    looked_at: &'a mut usize,
    inspected: &'a mut usize,
    last_tick_ms: &'a mut i64,
    suspended: &'a mut Vec<Suspended>,
    conn: Conn,
    /// Whether the command reads a large value.
    is_read: bool,
    /// What serves them, from the first time on until the command ends.
    worker: Option<Box<Worker<'e>>>,
}

impl LentWorker<'_, '_> {
    /// Exchanges what is lent with what a worker has.
    fn exchange(&mut self, worker: &mut Worker) {
        std::mem::swap(&mut worker.connections, self.connections);
        std::mem::swap(&mut worker.deadlines, self.deadlines);
        std::mem::swap(&mut worker.listeners, self.listeners);
        std::mem::swap(&mut worker.web, self.web);
        std::mem::swap(&mut worker.departures, self.departures);
        std::mem::swap(&mut worker.pending, self.pending);
        std::mem::swap(&mut worker.replicas, self.replicas);
        std::mem::swap(&mut worker.weights, self.weights);
        std::mem::swap(&mut worker.behind, self.behind);
        std::mem::swap(&mut worker.looked_at, self.looked_at);
        std::mem::swap(&mut worker.inspected, self.inspected);
        std::mem::swap(&mut worker.last_tick_ms, self.last_tick_ms);
        std::mem::swap(&mut worker.suspended, self.suspended);
    }
}

impl NestedLoop for LentWorker<'_, '_> {
    fn serve(&mut self) {
        let mut worker = self.worker.take().unwrap_or_else(|| {
            self.driver.hold_reading(self.conn);
            let mut worker = Box::new(Worker::new(self.engine, self.network, self.number));
            worker.context.puts_off_images = self.is_read;
            self.suspended.push(Suspended::new(self.conn));
            worker
        });
        self.exchange(&mut worker);
        worker.has_paused = *self.has_paused;
        if let Err(error) = self.driver.run_nested(&mut *worker) {
            warning!("Serving clients beside a long command failed: {error}");
        }
        worker.context.refresh();
        worker.read_messages(self.driver);
        worker.look_behind(self.driver);
        worker.tick(self.driver);
        worker.end_turn(self.driver);
        // Requests that went on now have messages for clients here, and these perhaps for others elsewhere.
        worker.deliver_local(self.driver);
        worker.context.outbox.end_iteration(!worker.pending.is_empty());
        self.exchange(&mut worker);
        *self.has_paused = worker.has_paused;
        *self.stopping |= worker.stopping;
        self.worker = Some(worker);
    }
}

impl<'e> Worker<'e> {
    /// Runs a request that may run a script, which may serve other clients meanwhile.
    pub(super) fn execute_script(
        &mut self,
        driver: &mut Driver,
        connection: &mut Connection,
        input: &[u8],
        (request, command): (&Request, Option<&'static Command>),
        reply: &mut Reply,
    ) -> Progress {
        let slices = std::mem::take(&mut self.batch.slices);
        let args = request.args(input, &slices);
        let (progress, suspended) = self.lend(driver, connection, false, |context, session| {
            execute_guarded(context, session, (command, args), request.hash, reply)
        });
        self.batch.slices = slices;
        self.rejoin(driver, connection, suspended, reply);
        progress
    }

    /// Runs a part of a client's request, which may serve other clients meanwhile. `is_read`: it reads a
    /// large value. If others were served, the connection is to [rejoin](Worker::rejoin).
    pub(super) fn lend<R>(
        &mut self,
        driver: &mut Driver,
        connection: &mut Connection,
        is_read: bool,
        work: impl FnOnce(&mut Context<'e>, &mut Session) -> R,
    ) -> (R, Option<Suspended>) {
        if connection.moving_to.take().is_some() {
            // It could leave while it is not in its place.
            driver.stay(connection.conn);
        }
        let mut nested = LentWorker {
            engine: self.context.engine,
            network: self.network,
            number: self.context.worker,
            driver,
            connections: &mut self.connections,
            deadlines: &mut self.deadlines,
            listeners: &mut self.listeners,
            web: &mut self.web,
            departures: &mut self.departures,
            pending: &mut self.pending,
            replicas: &mut self.replicas,
            weights: &mut self.weights,
            has_paused: &mut self.has_paused,
            stopping: &mut self.stopping,
            behind: &mut self.behind,
            looked_at: &mut self.looked_at,
            inspected: &mut self.inspected,
            last_tick_ms: &mut self.last_tick_ms,
            suspended: &mut self.suspended,
            conn: connection.conn,
            is_read,
            worker: None,
        };
        let (context, session) = (&mut self.context, &mut connection.session);
        let result = nested_loop::lend(&mut nested, || work(context, session));
        let has_served = nested.worker.is_some();
        (result, if has_served { self.suspended.pop() } else { None })
    }

    /// Catches up with what has come for a connection while a part of its request ran. `reply` ends with that
    /// request's.
    pub(super) fn rejoin(
        &mut self,
        driver: &mut Driver,
        connection: &mut Connection,
        suspended: Option<Suspended>,
        reply: &mut Reply,
    ) {
        let Some(suspended) = suspended else { return };
        let worker = self.context.worker;
        connection.weight.forget_magnitude();
        connection.session.killed |= suspended.closed || connection.session.shared.has(flag::KILLED);
        if !suspended.closed {
            driver.resume_reading(connection.conn);
        }
        for (bytes, lsn) in suspended.pushes {
            if connection.wire.is_resp() {
                self.context.outbox.required_lsn = self.context.outbox.required_lsn.max(lsn);
                reply.raw(&bytes);
            } else {
                let push = host::Message::Push(conn_id(connection.conn), bytes);
                self.network.post(worker, Message::Engine(push));
            }
        }
        suspended.messages.into_iter().for_each(|message| self.network.post(worker, message));
    }

    /// The connection of a long command that runs around the present event.
    pub(super) fn suspended_mut(&mut self, conn: Conn) -> Option<&mut Suspended> {
        self.suspended.iter_mut().find(|suspended| suspended.conn == conn)
    }

    /// Keeps a message that cannot be handled within a long command. Returns any other.
    pub(super) fn keep_for_suspended(&mut self, message: Message) -> Option<Message> {
        let target = message.target().and_then(|conn| self.suspended.iter().position(|it| it.conn == conn));
        let last = self.suspended.len().checked_sub(1).filter(|_| message.waits_for_scripts());
        let Some(suspended) = target.or(last).and_then(|at| self.suspended.get_mut(at)) else {
            return Some(message);
        };
        suspended.keep(message);
        None
    }

    /// Has the requests of a client wait until they are resumed. `held_back`: by CLIENT PAUSE or a failover.
    pub(super) fn pause(&mut self, connection: &mut Connection, held_back: bool) {
        (connection.paused, connection.held_back) = (true, held_back);
        connection.session.shared.mark(flag::BLOCKED, true);
        self.has_paused = true;
    }

    /// Has the rest of a client's requests wait until others had their turn: those that were put off while a
    /// large value was read for it, and messages that could not be handled meanwhile.
    pub(super) fn give_way(&mut self, connection: &mut Connection) {
        if connection.is_waiting() || connection.session.closing || connection.session.killed {
            return;
        }
        self.pause(connection, false);
        let retry = host::Message::Retry(conn_id(connection.conn));
        self.network.post(self.context.worker, Message::Engine(retry));
    }
}
