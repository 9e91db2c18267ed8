//! The event loop within a long command: a slow script, or a read of a large value, serves the other
//! connections of its worker from within ([`nested_loop::serve_others`]).
//!
//! The worker lends the thread everything but what the running command uses. The session that runs it is not
//! in its place meanwhile: what comes for it is kept until the command has ended.
//!
//! A read of a large value within one of another is put off until that has ended. Otherwise the first would
//! wait for the second.

use std::collections::HashMap;

use mantissa_engine::Engine;
use mantissa_engine::batch::Request;
use mantissa_engine::blocking::Deadlines;
use mantissa_engine::context::Context;
use mantissa_engine::execute::Progress;
use mantissa_engine::host;
use mantissa_engine::nested_loop::{self, NestedLoop};
use mantissa_engine::registry::Command;
use mantissa_engine::session::Session;
use mantissa_engine::warning;
use mantissa_net::{Conn, Driver};
use mantissa_protocol::Reply;

use super::moving::Departure;
use super::pending_replies::Pending;
use super::replicas::Replicas;
use super::web::WebConnections;
use super::weights::Weights;
use super::{Worker, WorkerListener, execute_guarded};
use crate::connection::Connection;
use crate::inbox::Message;
use crate::network::Network;

/// The connection whose session is inside a long command: it is not in its place.
pub(super) struct Suspended {
    pub(super) conn: Conn,
    /// Its connection has ended.
    pub(super) closed: bool,
    /// What has come for it in the meantime.
    pub(super) messages: Vec<Message>,
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
    }
}

impl NestedLoop for LentWorker<'_, '_> {
    fn serve(&mut self) {
        let mut worker = self.worker.take().unwrap_or_else(|| {
            self.driver.hold_reading(self.conn);
            let mut worker = Box::new(Worker::new(self.engine, self.network, self.number));
            worker.context.puts_off_images = self.is_read;
            worker.suspended = Some(Suspended { conn: self.conn, closed: false, messages: Vec::new() });
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
        let progress = self.lend(driver, connection, false, |context, session| {
            execute_guarded(context, session, (command, args), request.hash, reply)
        });
        self.batch.slices = slices;
        progress
    }

    /// Runs a part of a client's request, which may serve other clients meanwhile. `is_read`: it reads a large
    /// value.
    pub(super) fn lend<R>(
        &mut self,
        driver: &mut Driver,
        connection: &mut Connection,
        is_read: bool,
        work: impl FnOnce(&mut Context<'e>, &mut Session) -> R,
    ) -> R {
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
            conn: connection.conn,
            is_read,
            worker: None,
        };
        let (context, session) = (&mut self.context, &mut connection.session);
        let result = nested_loop::lend(&mut nested, || work(context, session));
        if let Some(suspended) = nested.worker.and_then(|mut worker| worker.suspended.take()) {
            connection.weight.forget_magnitude();
            connection.session.killed |= suspended.closed;
            if !suspended.closed {
                driver.resume_reading(connection.conn);
            }
            let worker = self.context.worker;
            suspended.messages.into_iter().for_each(|message| self.network.post(worker, message));
            if is_read && self.has_paused {
                self.network.post(worker, Message::Engine(host::Message::Resume));
            }
        }
        result
    }
}
