//! A worker: one thread, one event loop, the connections it serves.
//!
//! Bytes that arrive are parsed in place, a batch of requests at a time. In a keyspace that is larger than
//! the caches, the keys of a batch are hashed and their buckets and entries prefetched before the first of
//! its commands runs, so that the misses of a pipeline overlap. The first keys of all connections that have
//! sent something in an iteration are fetched in the same way before the first of them is served, where the
//! driver shows them.

mod freezing;
mod http;
mod input;
mod moving;
mod nested_loop;
mod output;
mod pending_replies;
mod replicas;
mod streaming;
mod web;
mod websocket;
mod weights;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mantissa_commands::spec::Traits;
use mantissa_net::{Conn, Driver, Event, Handler, Listener, LocalAddress, Socket, Urgency};
use mantissa_persist::log::Lsn;
use mantissa_protocol::{Args, Parsed, ProtocolError, Reply, RequestLimits, RequestParser, put_quoted};
use mantissa_store::{KeyHash, PREFETCHED_KEYS_MIN, is_contended};

use mantissa_engine::batch::{Batch, Request};
use mantissa_engine::blocking::{self, Deadlines};
use mantissa_engine::context::Context;
use mantissa_engine::execute::{self, Progress};
use mantissa_engine::host::{self, Target};
use mantissa_engine::registry::Command;
use mantissa_engine::replication::primary;
use mantissa_engine::session::Served;
use mantissa_engine::session::flag;
use mantissa_engine::state::replication::Replica;
use mantissa_engine::{Engine, Session, acl, aof, notice, sessions, stats, tracking, verbose, warning};
use mantissa_sys::clock::unix_ms;
use mantissa_sys::{QuickInstant, ThreadClock};

use crate::conn_id::{conn_id, conn_of, peer_of};
use crate::connection::{Connection, Partial, Wire};
use crate::inbox::Message;
use crate::network::Network;
use crate::service::Service;
use crate::websocket::Source;
use crate::{crash, limits};
use freezing::Stopped;
use input::Input;
use moving::Departure;
use nested_loop::Suspended;
use pending_replies::Pending;
use replicas::Replicas;
pub use web::CONNECTIONS_MAX as METRICS_CONNECTIONS_MAX;
use web::WebConnections;
use websocket::{collect, framed, hold_websocket};
use weights::Weights;

/// A worker's stack: what scripts nest is read and written by recursion.
pub const STACK_BYTES: usize = 16 << 20;

/// Maximum run time before `sched_yield`, which is called between two iterations of the event loop. The
/// kernel itself preempts only some hundred times a second.
const RUN_MAX: Duration = Duration::from_micros(100);
/// Most arguments of a command for which the lock of its shard is kept: others take longer than handing it
/// over.
const KEPT_ARGS_MAX: usize = 8;
/// A wait of this time has let others run: one that finds events at once takes 1 to 3 us.
const SLEEP_MIN: Duration = Duration::from_micros(10);
/// A client whose requests take so long is set aside: others wait for them.
const LONG: Duration = Duration::from_millis(3);
/// Maximum run time of an iteration while other connections wait with a request or two. Then replies are
/// sent and those requests served first, although more requests are at hand.
const ITERATION_MAX: Duration = Duration::from_micros(100);
/// The same where there are long receives alone: new connections and those that have been silent are looked
/// for then. A pipeline of 80 MB has been at hand at once.
const LONG_ITERATION_MAX: Duration = Duration::from_millis(1);
/// Reply bytes after which they are handed to the driver although more requests are at hand.
const FLUSH_BYTES: usize = 256 << 10;
/// How often requests that wait for the stream of replication are looked at.
const BEHIND_LOOK_MS: i64 = 2;
/// Missing bytes of an argument above which they are received straight into the request's own buffer.
const FILL_BYTES_MIN: usize = 32 << 10;
/// How much more such a buffer is made ready to receive at a time, at least.
const FILL_STEP_BYTES: usize = 1 << 20;

/// A thread that serves connections.
pub struct Worker<'e> {
    context: Context<'e>,
    network: &'e Network,
    clock: Option<ThreadClock>,
    /// When it last told that it serves clients with short requests.
    quick_at: QuickInstant,
    connections: Vec<Option<Box<Connection>>>,
    batch: Batch,
    /// For what messages of WebSocket clients carry.
    requests: Vec<u8>,
    /// The keys of the upcoming requests of an iteration, with their databases.
    upcoming: Vec<(usize, KeyHash)>,
    /// Whether the keyspace is large enough for prefetching to pay.
    prefetches: bool,
    deadlines: Deadlines,
    listeners: Vec<WorkerListener>,
    /// Connections that are no clients.
    web: WebConnections,
    /// Requests over HTTP that wait for the stream of replication.
    behind: Vec<Conn>,
    /// Clients that have moved on, by the connection that they had here.
    departures: HashMap<Conn, Departure>,
    /// What may not leave before the log is confirmed.
    pending: Pending,
    /// The replicas that are served here.
    replicas: Replicas,
    /// What clients take, and which are evicted first.
    weights: Weights,
    /// Where the next look for connections to hand over begins.
    looked_at: usize,
    /// Where the next look at what clients do over time begins.
    inspected: usize,
    /// Whether CLIENT PAUSE holds back any client of this worker.
    has_paused: bool,
    stopping: bool,
    /// Stopped for a hand-over.
    stopped: Option<Stopped>,
    last_tick_ms: i64,
    /// Within long commands: their clients, which are not in their places.
    suspended: Vec<Suspended>,
    /// Others were served within the present request.
    has_served_others: bool,
}

/// A socket that this worker accepts on.
struct WorkerListener {
    /// Its number in the driver.
    id: usize,
    /// The address; none for a Unix socket.
    address: Option<SocketAddr>,
    service: Service,
}

/// What requests are parsed and replies are made under. A command may change it for those after it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Terms {
    authenticated: bool,
    config_version: u64,
    is_subscriber: bool,
    is_replica: bool,
}

/// How far a batch was run.
enum BatchEnd {
    /// To its end.
    Whole,
    /// The rest, from here on, has to wait, or is not to be run.
    Stopped(usize),
    /// The rest, from here on, is to be parsed under other terms.
    Changed(usize),
}

/// What to do with a client after some of its requests have run.
enum Next {
    /// All of the input has been used but for this many bytes at its end.
    Waiting { consumed: usize, missing: usize },
    /// The client is to be closed, or must wait with the rest.
    Stopped { consumed: usize },
}

impl<'e> Worker<'e> {
    /// A worker of the server; `worker` is its number.
    pub fn new(engine: &'e Engine, network: &'e Network, worker: usize) -> Self {
        let context = Context::new(engine, worker);
        Worker {
            context,
            network,
            clock: ThreadClock::current().ok(),
            quick_at: QuickInstant::now(),
            connections: Vec::new(),
            batch: Batch::default(),
            requests: Vec::new(),
            upcoming: Vec::new(),
            prefetches: false,
            deadlines: Deadlines::default(),
            listeners: Vec::new(),
            web: WebConnections::default(),
            behind: Vec::new(),
            departures: HashMap::new(),
            pending: Pending::default(),
            replicas: Replicas::default(),
            weights: Weights::default(),
            looked_at: 0,
            inspected: 0,
            has_paused: false,
            stopping: false,
            stopped: None,
            last_tick_ms: 0,
            suspended: Vec::new(),
            has_served_others: false,
        }
    }

    /// Serves until told to stop.
    pub fn run(&mut self, driver: &mut Driver) -> std::io::Result<()> {
        let (stats, worker) = (&self.context.engine.stats, self.context.worker);
        let commands = || stats.workers[worker].commands.load(Ordering::Relaxed);
        let mut began = Instant::now();
        let (mut ended, mut commands_before) = (began, commands());
        while !self.stopping {
            let hz = self.context.active.config.hz.max(1);
            let mut timeout_ms = i64::from(1000 / hz).max(1);
            if let Some(deadline) = self.deadlines.first() {
                timeout_ms = timeout_ms.min((deadline - unix_ms()).max(0));
            }
            if !self.behind.is_empty() {
                timeout_ms = timeout_ms.min(BEHIND_LOOK_MS);
            }
            driver.run_once(Some(Duration::from_millis(timeout_ms as u64)), self)?;
            self.context.refresh();
            self.read_messages(driver);
            self.deliver_local(driver);
            self.look_behind(driver);
            self.tick(driver);
            self.end_turn(driver);
            self.go_on_releasing(driver);
            let now = Instant::now();
            let turn_ns = now.duration_since(driver.iteration_began()).as_nanos() as u64;
            let commands_now = commands();
            stats.note_iteration(worker, turn_ns, commands_now.wrapping_sub(commands_before));
            commands_before = commands_now;
            if driver.iteration_began().duration_since(ended) >= SLEEP_MIN {
                began = driver.iteration_began();
            }
            ended = now;
            if now.duration_since(began) >= RUN_MAX {
                std::thread::yield_now();
                began = Instant::now();
                ended = began;
            }
        }
        Ok(())
    }

    /// Has what was logged be written, and sends what may leave.
    fn end_turn(&mut self, driver: &mut Driver) {
        if !self.is_frozen() {
            primary::ask_for_acks(&mut self.context.outbox);
        }
        self.send_to_replicas(driver);
        self.context.outbox.end_iteration(!self.pending.is_empty());
        self.send_confirmed(driver);
        self.send_to_replicas(driver);
        self.weigh_clients(driver);
    }

    // ---- messages from other workers ----

    fn read_messages(&mut self, driver: &mut Driver) {
        for (lsn, message) in self.network.take_messages(self.context.worker) {
            if let Some(message) = self.keep_pending(lsn, message) {
                self.handle_message(driver, message);
            }
        }
    }

    fn handle_message(&mut self, driver: &mut Driver, message: Message) {
        let Some(message) = self.keep_for_suspended(message) else { return };
        match message {
            Message::Adopt(socket, service) => {
                self.adopt(driver, socket, service);
            }
            Message::AdoptSuccessor(socket) => self.adopt_successor(driver, socket),
            Message::Move(connection, socket) => {
                self.arrived(driver, connection, socket);
            }
            Message::HandOver(handover) => self.hand_over(driver, handover),
            Message::Engine(message) => self.handle_engine_message(driver, message),
            Message::Listen { service, kept, opened } => {
                self.stop_listening(driver, service, &kept);
                self.listen(driver, opened.into_iter().map(|listener| (service, listener)));
            }
            Message::Scraped { conn, format, content } => self.scraped(driver, conn, format, content),
            Message::Freeze(freeze) => self.freeze(driver, freeze),
            Message::Release => self.release(driver),
            Message::Thaw => self.thaw(driver),
            Message::Stop => {
                self.listeners.drain(..).for_each(|listener| driver.remove_listener(listener.id));
                self.stopping = true;
            }
        }
    }

    fn handle_engine_message(&mut self, driver: &mut Driver, message: host::Message) {
        use host::Message;
        match message {
            Message::Push(id, bytes) => self.push(driver, conn_of(id), bytes, 0),
            Message::Unblock(id, served) => self.unblock(driver, conn_of(id), served, 0),
            Message::Complete(id, blocked, work) => {
                if let Some(served) = blocking::complete(&mut self.context, &blocked, work) {
                    self.unblock(driver, conn_of(id), served, self.context.outbox.required_lsn);
                }
            }
            Message::Retry(id) => self.retry(driver, conn_of(id)),
            Message::Kill(id) => self.kill(driver, conn_of(id)),
            Message::Resume => self.resume_paused(driver),
            Message::WeighClients => {
                self.context.engine.client_memory.heed(self.context.worker);
                self.context.refresh();
                self.weigh_clients(driver);
            }
        }
    }

    /// Starts accepting on sockets.
    pub fn listen(&mut self, driver: &mut Driver, listeners: impl IntoIterator<Item = (Service, Listener)>) {
        for (service, listener) in listeners {
            let address = match listener.local_addr() {
                LocalAddress::Tcp(address) => Some(*address),
                LocalAddress::Unix(_) => None,
            };
            let id = driver.add_listener(listener);
            self.listeners.push(WorkerListener { id, address, service });
        }
    }

    /// Stops accepting on the TCP sockets of a service, but for those that are kept.
    fn stop_listening(&mut self, driver: &mut Driver, service: Service, kept: &[SocketAddr]) {
        self.listeners.retain(|listener| {
            let keep =
                listener.service != service || listener.address.is_none_or(|address| kept.contains(&address));
            if !keep {
                driver.remove_listener(listener.id);
            }
            keep
        });
    }

    /// Sends what commands of this worker have left for clients of this worker.
    fn deliver_local(&mut self, driver: &mut Driver) {
        if self.context.outbox.has_changed() {
            tracking::broadcast(&mut self.context.outbox);
        }
        while self.context.outbox.has_local() {
            let lsn = self.context.outbox.logged_lsn;
            for (id, bytes) in self.context.outbox.take_all() {
                self.push(driver, conn_of(id), bytes, lsn);
            }
        }
    }

    fn push(&mut self, driver: &mut Driver, conn: Conn, bytes: Arc<[u8]>, lsn: Lsn) {
        if self.connection_mut(conn).is_some() {
            let mut buffer = driver.take_buffer();
            buffer.extend_from_slice(&bytes);
            self.send_bytes(driver, conn, buffer, (lsn, Source::Push));
            self.after_send(driver, conn);
        } else if let Some(suspended) = self.suspended_mut(conn) {
            suspended.pushes.push((bytes, lsn));
        } else if let Some(target) = self.moved_to(conn) {
            self.context.outbox.push(target, bytes);
        }
    }

    fn kill(&mut self, driver: &mut Driver, conn: Conn) {
        match self.moved_to(conn) {
            Some(target) if self.connection_mut(conn).is_none() => {
                self.context.engine.send(target.worker, host::Message::Kill(target.conn));
            }
            _ => self.close(driver, conn, true),
        }
    }

    /// A blocked client has been served.
    fn unblock(&mut self, driver: &mut Driver, conn: Conn, served: Served, lsn: Lsn) {
        if self.connection_mut(conn).is_none() {
            if let Some(target) = self.moved_to(conn) {
                self.context.engine.send(target.worker, host::Message::Unblock(target.conn, served));
            }
            return;
        }
        // Found by its place, so that the rest of the worker can be used beside it.
        let Some(connection) = self.connections.get_mut(conn.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        let (session, deadlines) = (&mut connection.session, &mut self.deadlines);
        let ended = blocking::end_waiting(&mut self.context, session, deadlines, served);
        let Some(reply) = ended else { return };
        connection.note_active(self.context.now_ms);
        if let Some(reply) = reply {
            self.send_bytes(driver, conn, reply, (lsn, Source::Reply));
        } else if let Some(websocket) = connection.websocket() {
            websocket.ids.take_first();
        }
        self.resume(driver, conn);
    }

    /// What a client's request needs has been read from disk.
    fn retry(&mut self, driver: &mut Driver, conn: Conn) {
        if self.connection_mut(conn).is_some() {
            self.context.refresh();
            self.resume_if_paused(driver, conn);
        } else if let Some(target) = self.moved_to(conn) {
            self.context.engine.send(target.worker, host::Message::Retry(target.conn));
        }
    }

    fn resume_if_paused(&mut self, driver: &mut Driver, conn: Conn) {
        let now_ms = self.context.now_ms;
        let Some(connection) = self.connection_mut(conn).filter(|connection| connection.paused) else {
            return;
        };
        (connection.paused, connection.held_back) = (false, false);
        connection.note_active(now_ms);
        connection.session.shared.mark(flag::BLOCKED, false);
        self.resume(driver, conn);
    }

    fn resume_paused(&mut self, driver: &mut Driver) {
        if !std::mem::take(&mut self.has_paused) {
            return;
        }
        for index in 0..self.connections.len() {
            if let Some(conn) = self.connections[index].as_ref().map(|connection| connection.conn) {
                self.resume_if_paused(driver, conn);
            }
        }
    }

    // ---- connections ----

    fn accept(&mut self, driver: &mut Driver, listener: usize, socket: Socket) {
        let listener = self.listeners.iter().find(|it| it.id == listener);
        let service = listener.map_or(Service::Resp, |listener| listener.service);
        self.accept_for(driver, service, socket);
    }

    /// Begins to serve a connection that was accepted for a service.
    fn accept_for(&mut self, driver: &mut Driver, service: Service, mut socket: Socket) {
        self.context.refresh();
        let engine = self.context.engine;
        if service == Service::Metrics {
            return self.accept_web(driver, socket);
        }
        let for_tls = service.has_tls();
        if let Some(refusal) =
            limits::refusal(engine, self.network, &self.context.active.config, socket.peer())
        {
            stats::add(&engine.stats.workers[self.context.worker].rejected_connections, 1);
            if service.is_http() {
                http::refuse_connection(&socket, service, refusal);
            } else if !for_tls {
                socket.write_best_effort(refusal.as_bytes());
            }
            return;
        }
        if for_tls {
            let acceptor = self.network.acceptor.read().clone();
            if acceptor.is_none_or(|acceptor| socket.start_tls(&acceptor).is_err()) {
                return;
            }
        }
        self.network.open_count.fetch_add(1, Ordering::Relaxed);
        let target = self.network.choose_worker();
        if target == self.context.worker {
            self.adopt(driver, socket, service);
        } else {
            self.network.post(target, Message::Adopt(socket, service));
        }
    }

    fn adopt(&mut self, driver: &mut Driver, socket: Socket, service: Service) -> Option<Conn> {
        self.context.refresh();
        let config = &self.context.active.config;
        if !socket.peer().is_unix() {
            socket.set_nodelay(true);
            socket.set_keepalive(config.tcp_keepalive_s);
        }
        let (peer, descriptor) = (peer_of(socket.peer()), socket.fd());
        let conn = match driver.adopt(socket) {
            Ok(conn) => conn,
            Err(error) => {
                self.network.open_count.fetch_sub(1, Ordering::Relaxed);
                notice!("Could not serve a new connection: {error}");
                return None;
            }
        };
        let target = Target { worker: self.context.worker, conn: conn_id(conn) };
        let session = sessions::begin(&self.context, peer, descriptor, target);
        let mut connection = Box::new(Connection::new(session, conn));
        if service.is_http() {
            connection.wire = Wire::Http(Box::default());
        }
        self.place(connection);
        Some(conn)
    }

    /// Begins to serve the process that is to take over.
    fn adopt_successor(&mut self, driver: &mut Driver, socket: Socket) {
        self.network.open_count.fetch_add(1, Ordering::Relaxed);
        let Some(conn) = self.adopt(driver, socket, Service::Resp) else { return };
        let engine = self.context.engine;
        let user = acl::superuser(engine.registry, &self.context.active.config);
        if let Some(connection) = self.connection_mut(conn) {
            connection.session.set_user(&user);
            connection.session.authenticated = true;
            connection.be_successor();
            let replica = Replica::new(Arc::clone(&connection.session.shared));
            replica.is_urgent.store(true, Ordering::Relaxed);
            connection.session.replica = Some(Arc::new(replica));
        }
    }

    /// Puts a client in its place.
    fn place(&mut self, mut connection: Box<Connection>) {
        self.weights.note(&self.context, &mut connection);
        let index = connection.conn.index();
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, || None);
        }
        self.connections[index] = Some(connection);
    }

    fn connection_mut(&mut self, conn: Conn) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(conn.index())?.as_deref_mut()?;
        (connection.conn == conn).then_some(connection)
    }

    /// Forgets a client; `close` also closes its connection.
    fn close(&mut self, driver: &mut Driver, conn: Conn, close: bool) {
        if let Some(suspended) = self.suspended_mut(conn) {
            suspended.closed = true;
        }
        if self.connection_mut(conn).is_none() {
            return self.web_closed(conn);
        }
        if let Some(mut connection) = self.connections[conn.index()].take() {
            self.forget(&mut connection);
        }
        if close {
            driver.close(conn);
        }
    }

    /// Ends a client whose last reply has been given to the driver.
    fn end(&mut self, driver: &mut Driver, connection: &mut Connection) {
        if let Some(websocket) = connection.websocket() {
            let farewell = websocket.take_farewell();
            driver.send(connection.conn, farewell);
        }
        self.forget(connection);
        driver.close_after_send(connection.conn);
    }

    /// Ends the session. The socket is closed after that: who sees it closed finds the client's subscriptions
    /// and its place in lists gone.
    fn forget(&mut self, connection: &mut Connection) {
        self.weights.remove(&self.context, connection);
        sessions::end(&self.context, &mut connection.session, &mut self.deadlines);
        self.network.open_count.fetch_sub(1, Ordering::Relaxed);
    }

    // ---- requests ----

    fn received(&mut self, driver: &mut Driver, conn: Conn, bytes: &[u8]) {
        self.context.refresh();
        let worker_stats = &self.context.engine.stats.workers[self.context.worker];
        let now_ms = self.context.now_ms;
        let Some(connection) = self.connection_mut(conn) else {
            return self.web_received(driver, conn, bytes);
        };
        stats::add(&worker_stats.input_bytes, bytes.len() as u64);
        stats::add(&worker_stats.reads, 1);
        stats::add(&connection.session.shared.received_bytes, bytes.len() as u64);
        if connection.wire.is_websocket() {
            return self.websocket_received(driver, conn, bytes);
        }
        connection.note_active(now_ms);
        if !connection.wire.is_resp() {
            return self.http_received(driver, conn, bytes);
        }
        match connection.partial.take() {
            None => self.serve(driver, conn, Input::Lent(bytes)),
            Some(mut partial) => {
                partial.buffer.extend_from_slice(bytes);
                self.serve(driver, conn, Input::Kept(partial));
            }
        }
    }

    fn filled(&mut self, driver: &mut Driver, conn: Conn, buffer: Vec<u8>) {
        self.context.refresh();
        let Some(connection) = self.connection_mut(conn) else { return };
        let mut partial = connection.partial.take().unwrap_or_default();
        let received = buffer.len().saturating_sub(partial.counted_bytes) as u64;
        stats::add(&connection.session.shared.received_bytes, received);
        partial.buffer = buffer;
        let worker_stats = &self.context.engine.stats.workers[self.context.worker];
        stats::add(&worker_stats.input_bytes, received);
        stats::add(&worker_stats.reads, 1);
        self.serve(driver, conn, Input::Kept(partial));
    }

    /// Goes on with the requests of a client that had to wait.
    fn resume(&mut self, driver: &mut Driver, conn: Conn) {
        let Some(connection) = self.connection_mut(conn) else { return };
        let partial = connection.partial.take().unwrap_or_default();
        self.serve(driver, conn, Input::Kept(partial));
        self.advance_http(driver, conn);
        if self.connection_mut(conn).is_some_and(|connection| !connection.is_waiting() && !connection.held) {
            driver.resume_reading(conn);
        }
    }

    /// Runs the requests in the input, sends the replies, and keeps what is left over.
    fn serve(&mut self, driver: &mut Driver, conn: Conn, mut input: Input<'_>) {
        let Some(mut connection) = self.connections[conn.index()].take() else { return };
        connection.session.killed |= connection.session.shared.has(flag::KILLED);
        limits::bound_query(&self.context, &mut connection, input.bytes().len());
        let is_frozen = self.is_frozen() && !connection.is_successor();
        let next = if is_frozen
            || connection.is_waiting()
            || connection.held
            || connection.session.closing
            || connection.session.killed
        {
            Next::Stopped { consumed: 0 }
        } else {
            self.run_requests(driver, &mut connection, &mut input)
        };
        if connection.session.killed {
            self.forget(&mut connection);
            driver.close(conn);
            return;
        }
        connection.session.closing |= connection.has_farewell();
        if connection.session.closing && connection.pending_replies.is_none() {
            return self.end(driver, &mut connection);
        }
        if let Some(blocked) = &connection.session.blocked {
            self.deadlines.add(blocked);
        }
        self.keep(driver, &mut connection, input, &next);
        debug_assert!(self.connections[conn.index()].is_none(), "nobody else has its place");
        self.connections[conn.index()] = Some(connection);
        self.after_send(driver, conn);
    }

    fn run_requests(
        &mut self,
        driver: &mut Driver,
        connection: &mut Connection,
        input: &mut Input<'_>,
    ) -> Next {
        self.context.outbox.required_lsn = 0;
        let mut parser = input.take_parser();
        let mut position = 0;
        let mut reply = self.begin_reply(driver, connection);
        let next = loop {
            let parsed = self.parse_batch(connection, input.bytes(), &mut position, &mut parser);
            match self.run_batch(driver, connection, input.bytes(), &mut reply) {
                BatchEnd::Whole => {}
                BatchEnd::Stopped(consumed) => break Next::Stopped { consumed },
                BatchEnd::Changed(consumed) => {
                    (position, parser) = (consumed, RequestParser::default());
                    self.flush(driver, connection, &mut reply);
                    self.note_replica(driver, connection);
                    if connection.session.killed || connection.held {
                        break Next::Stopped { consumed };
                    }
                    continue;
                }
            }
            match parsed {
                Parsed::Incomplete { missing } => break Next::Waiting { consumed: position, missing },
                Parsed::Error(error) => {
                    self.protocol_error(connection, &mut reply, &error);
                    break Next::Stopped { consumed: position };
                }
                _ => {}
            }
        };
        if matches!(next, Next::Waiting { .. }) {
            input.put_parser(parser);
        }
        self.batch.trim();
        self.send(driver, connection, reply);
        next
    }

    fn terms(&self, connection: &Connection) -> Terms {
        Terms {
            authenticated: connection.session.authenticated,
            config_version: self.context.active.version,
            is_subscriber: connection.session.shared.has(flag::PUBSUB),
            is_replica: connection.session.shared.has(flag::REPLICA),
        }
    }

    /// Parses requests from `position` on, until the batch is full or the input ends.
    fn parse_batch(
        &mut self,
        connection: &Connection,
        input: &[u8],
        position: &mut usize,
        parser: &mut RequestParser,
    ) -> Parsed {
        let authenticated = connection.session.authenticated || !self.context.engine.acl.needs_login();
        let limits =
            RequestLimits { bulk_len_max: self.context.active.config.proto_max_bulk_len, authenticated };
        self.batch.parse(input, position, parser, &limits)
    }

    /// Runs the requests of the batch, until one changes what the rest depends on.
    fn run_batch(
        &mut self,
        driver: &mut Driver,
        connection: &mut Connection,
        input: &[u8],
        reply: &mut Reply,
    ) -> BatchEnd {
        let terms = self.terms(connection);
        if self.batch.requests.len() > 1 {
            let (keyspace, database) = (&self.context.engine.keyspace, connection.session.database);
            if self.prefetches {
                self.batch.prefetch(keyspace, database, input);
            }
            self.batch.fetch_ahead(keyspace, database, input);
        }
        let mut requests = std::mem::take(&mut self.batch.requests);
        let mut end = BatchEnd::Whole;
        let kept = self.context.engine.keyspace.release_kept_at_end();
        let began = QuickInstant::now();
        self.context.command_began = began;
        let used_before = self.used_before_long(connection, began);
        for (at, request) in requests.iter().enumerate() {
            let args = request.args(input, &self.batch.slices);
            let command = self.context.resolve(args).ok();
            let runs_scripts = command.is_some_and(|command| command.info.traits.has(Traits::RUNS_SCRIPTS));
            let next = requests.get(at + 1).filter(|_| is_contended() && !runs_scripts);
            self.context.keeps_lock = next.is_some_and(|next| self.is_for_same_key(input, args, next));
            let progress = if runs_scripts {
                self.execute_script(driver, connection, input, (request, command), reply)
            } else {
                self.execute(driver, connection, input, (request, command), reply)
            };
            if matches!(progress, Progress::Postponed | Progress::HeldBack) {
                self.pause(connection, progress == Progress::HeldBack);
                end = BatchEnd::Stopped(request.start);
                break;
            }
            if std::mem::take(&mut self.has_served_others) && request.end < input.len() {
                self.give_way(connection);
            }
            if reply.has_overflowed() {
                self.close_overflowed(connection);
            } else if connection.wire.is_websocket() && collect(connection, reply) >= FLUSH_BYTES
                || reply.len() >= FLUSH_BYTES
            {
                self.context.engine.keyspace.release_kept();
                self.flush(driver, connection, reply);
            }
            if connection.session.closing
                || connection.session.killed
                || connection.is_waiting()
                || connection.held
            {
                end = BatchEnd::Stopped(request.end);
                break;
            }
            if self.terms(connection) != terms {
                end = BatchEnd::Changed(request.end);
                break;
            }
        }
        self.context.keeps_lock = false;
        drop(kept);
        requests.clear();
        self.batch.requests = requests;
        self.note_time(driver, connection, began, used_before);
        end
    }

    /// Whether a short request has the same first argument as the one before.
    fn is_for_same_key(&self, input: &[u8], before: Args<'_>, request: &Request) -> bool {
        let args = request.args(input, &self.batch.slices);
        args.len() <= KEPT_ARGS_MAX && args.get(1) == before.get(1)
    }

    fn protocol_error(&self, connection: &mut Connection, reply: &mut Reply, error: &ProtocolError) {
        let text = error.message();
        self.context.engine.stats.count_error(self.context.worker, &String::from_utf8_lossy(&text));
        reply.error_bytes(&text);
        connection.session.closing = true;
    }

    fn send(&mut self, driver: &mut Driver, connection: &mut Connection, reply: Reply) {
        let mut bytes = reply.into_bytes();
        if connection.wire.is_websocket() {
            bytes = framed(driver, connection, bytes, Source::Reply);
        }
        if bytes.is_empty() {
            return driver.return_buffer(bytes);
        }
        if connection.is_replica {
            return self.refuse_reply(connection, &bytes);
        }
        self.deliver(driver, connection, bytes, self.context.outbox.required_lsn);
    }

    /// Sends bytes to a client that is in its place, as soon as the log is confirmed up to an LSN.
    fn send_bytes(&mut self, driver: &mut Driver, conn: Conn, bytes: Vec<u8>, (lsn, source): (Lsn, Source)) {
        if let Some(mut connection) = self.connections.get_mut(conn.index()).and_then(Option::take) {
            let bytes = framed(driver, &mut connection, bytes, source);
            self.deliver(driver, &mut connection, bytes, lsn);
            self.connections[conn.index()] = Some(connection);
        }
    }

    /// Keeps the input that has not been used, and arranges for more.
    fn keep(&mut self, driver: &mut Driver, connection: &mut Connection, input: Input<'_>, next: &Next) {
        let (consumed, missing) = match *next {
            Next::Waiting { consumed, missing } => (consumed, missing),
            Next::Stopped { consumed } => (consumed, 0),
        };
        let kept = match input {
            Input::Lent(bytes) if consumed == bytes.len() => None,
            Input::Lent(bytes) => {
                Some(Box::new(Partial { buffer: bytes[consumed..].to_vec(), ..Partial::default() }))
            }
            Input::Kept(partial) if consumed == partial.buffer.len() => None,
            Input::Kept(mut partial) => {
                partial.buffer.drain(..consumed);
                Some(partial)
            }
            Input::LentUnfinished(bytes, parser) => {
                Some(Box::new(Partial { buffer: bytes[consumed..].to_vec(), parser, counted_bytes: 0 }))
            }
        };
        connection.partial = kept;
        let buffer = connection.partial.as_ref().map(|partial| &partial.buffer);
        let (len, capacity) = buffer.map_or((0, 0), |buffer| (buffer.len(), buffer.capacity()));
        connection.note_query(len, capacity);
        if connection.wire.is_websocket() {
            hold_websocket(driver, connection);
        } else if connection.session.closing {
            driver.pause_reading(connection.conn);
        } else {
            connection.stop_reading(driver);
        }
        let Some(partial) = &mut connection.partial else { return };
        let fills = missing >= FILL_BYTES_MIN && !connection.wire.is_websocket();
        if fills && len as u64 <= self.context.active.config.client_query_buffer_limit {
            let step = missing.min(partial.buffer.len().max(FILL_STEP_BYTES));
            partial.counted_bytes = len;
            let buffer = std::mem::take(&mut partial.buffer);
            connection.note_query(len, len + step);
            driver.fill(connection.conn, buffer, len + step);
        } else {
            limits::bound_query(&self.context, connection, len);
        }
    }

    // ---- time ----

    /// What is done a few times a second: timeouts of blocked and idle clients.
    fn tick(&mut self, driver: &mut Driver) {
        let now_ms = self.context.now_ms;
        let hz = i64::from(self.context.active.config.hz.max(1));
        if !self.is_frozen() {
            self.deadlines.expire(&mut self.context);
        }
        self.context.engine.do_postponed();
        if now_ms - self.last_tick_ms < 1000 / hz {
            return;
        }
        let elapsed_ms = now_ms - std::mem::replace(&mut self.last_tick_ms, now_ms);
        let began = Instant::now();
        let keys = self.context.engine.keyspace.estimate_keys();
        self.prefetches = keys.map_or(self.prefetches, |keys| keys >= PREFETCHED_KEYS_MIN);
        if self.context.engine.pause.until_ms.load(Ordering::Relaxed) <= now_ms {
            self.resume_paused(driver);
        }
        self.inspect_clients(driver, elapsed_ms);
        self.expire_web(driver);
        let counters = &self.context.engine.stats.workers[self.context.worker];
        stats::add(&counters.cron_ns, began.elapsed().as_nanos() as u64);
    }
}

impl Handler for Worker<'_> {
    fn event(&mut self, driver: &mut Driver, event: Event<'_>) {
        match event {
            Event::Accepted { listener, socket } => self.accept(driver, listener, socket),
            Event::Received { conn, bytes } => self.received(driver, conn, bytes),
            Event::Filled { conn, buffer } => self.filled(driver, conn, buffer),
            Event::Sent { conn } => self.sent(driver, conn),
            Event::Closed { conn, error } => {
                if let Some(error) = error.filter(|error| error.kind() == ErrorKind::InvalidData) {
                    verbose!("Error accepting a client connection: {error}");
                }
                self.close(driver, conn, false);
            }
            Event::Detached { conn, socket } => self.detached(driver, conn, socket),
        }
        self.deliver_local(driver);
    }

    /// Hashes the first key of a connection's first request, and fetches its bucket.
    fn upcoming(&mut self, conn: Conn, bytes: &[u8]) {
        if !self.prefetches {
            return;
        }
        let Some(connection) = self.connections.get(conn.index()).and_then(Option::as_deref) else { return };
        if connection.partial.is_some() || !connection.wire.is_resp() {
            return;
        }
        let database = connection.session.database;
        let limits =
            RequestLimits { bulk_len_max: u64::MAX, authenticated: connection.session.authenticated };
        if let Some(key) = self.batch.first_key(bytes, &limits) {
            let keyspace = &self.context.engine.keyspace;
            let hash = keyspace.hash(key);
            keyspace.prefetch_bucket(database, hash);
            self.upcoming.push((database, hash));
        }
    }

    /// Fetches the entries of the upcoming keys, whose buckets have come meanwhile.
    fn upcoming_all_seen(&mut self) {
        let keyspace = &self.context.engine.keyspace;
        self.upcoming.drain(..).for_each(|(database, hash)| keyspace.prefetch_entry(database, hash));
    }

    /// Where replies wait for the disk, a long iteration lets more of them share one sync.
    fn ends_iteration(&mut self, began: Instant, urgency: Urgency) -> bool {
        let is_time = match urgency {
            Urgency::None => false,
            Urgency::AfterLong => began.elapsed() >= LONG_ITERATION_MAX,
            Urgency::Lately => began.elapsed() >= ITERATION_MAX,
            Urgency::Now => true,
        };
        is_time && !self.context.engine.aof.waits_for_disk()
    }
}

/// Runs a request; a panic closes its client and nothing else.
fn execute_guarded(
    context: &mut Context,
    session: &mut Session,
    (command, args): (Option<&'static Command>, Args<'_>),
    hash: Option<KeyHash>,
    reply: &mut Reply,
) -> Progress {
    let run = |context: &mut Context, session: &mut Session| {
        execute::execute(context, session, (command, args), hash, reply)
    };
    guarded(context, session, args, run).unwrap_or(Progress::Done)
}

/// Runs a part of a request. `None` if it has panicked: its client is to be closed then.
fn guarded<'e, R>(
    context: &mut Context<'e>,
    session: &mut Session,
    args: Args<'_>,
    run: impl FnOnce(&mut Context<'e>, &mut Session) -> R,
) -> Option<R> {
    let call = crash::Call { client: session.shared.id, args };
    let run = AssertUnwindSafe(|| mantissa_sys::crash::during(&call, || run(context, session)));
    let caught = std::panic::catch_unwind(run);
    if caught.is_err() {
        let mut shown = Vec::new();
        for argument in args.iter().take(8) {
            put_quoted(&mut shown, &argument[..argument.len().min(128)]);
            shown.push(b' ');
        }
        warning!(
            "A command failed inside the server; its client is closed: {}",
            String::from_utf8_lossy(&shown)
        );
        session.killed = true;
        context.command_failed();
        aof::append_unfinished(context);
    }
    caught.ok()
}
