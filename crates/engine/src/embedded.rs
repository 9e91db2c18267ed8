//! An engine inside a program: a folder and a configuration are enough to open one.
//!
//! [`Embedded::open`] loads what the folder holds. Each [`LocalClient`] is a session that runs commands on
//! the caller's thread; any number of threads may have one each. [`Embedded::close`] makes everything durable
//! that the configuration says is to be, as the end of a server does.
//!
//! A process may have several engines, each in a folder of its own. `maxmemory` bounds what the whole process
//! has allocated, and has an effect only where [`mantissa_store::allocator::CountingAllocator`] is the
//! program's `#[global_allocator]`.
//!
//! ```
//! use mantissa_engine::embedded::Embedded;
//! use mantissa_protocol::Value;
//!
//! # let folder = std::env::temp_dir().join(format!("mantissa-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! let store = Embedded::open(&folder, &[("appendonly", "yes")])?;
//! let mut client = store.client()?;
//! client.call(&["ZADD", "board", "1.5", "anna"]);
//! assert_eq!(client.call(&["ZCARD", "board"]), Value::Integer(1));
//! drop(client);
//! store.close()?;
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mantissa_config::{Config, SetError, ShutdownFlags};
use mantissa_persist::storage::{DirectoryLock, FileSystem, Storage};
use mantissa_protocol::{Decoder, OwnedArgs, Protocol, Reply, Value};
use mantissa_sys::simulation::{self, Fault};
use mantissa_sys::{QuickInstant, clock};
use parking_lot::{Condvar, Mutex};

use crate::background::{self, Background};
use crate::blocking::{self, Deadlines};
use crate::context::Context;
use crate::engine::Engine;
use crate::execute::{self, Progress};
use crate::host::{ConnId, Host, HostFacts, Message, Peer, Stream, Target, Upgrade};
use crate::replication::role;
use crate::session::Session;
use crate::state::replication::Address;
use crate::{aof, persistence, sessions, tracking};

/// Most clients at a time, unless [`Opening::clients`] says otherwise.
pub const CLIENTS_MAX: usize = 64;
/// Shards, unless a directive says otherwise.
const SHARDS: usize = 64;
/// How long a client waits at a time before it looks at the clock.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// The reply to a client that was closed by CLIENT KILL or QUIT.
const CLOSED: &[u8] = b"-ERR the client is closed\r\n";

/// Why an engine can not be opened, used or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedError(String);

impl fmt::Display for EmbeddedError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for EmbeddedError {}

/// Messages to a client, with the LSNs up to which the log must be confirmed first.
#[derive(Default)]
struct Inbox {
    messages: Mutex<Vec<(u64, Message)>>,
    arrived: Condvar,
}

/// Connects to the server at an address, within this time.
type Connector = dyn Fn(&Address, Duration) -> io::Result<Box<dyn Stream>> + Send + Sync;

/// The clients of a program.
struct Clients {
    /// How the engine reaches other servers; none if it does not.
    connector: Option<Arc<Connector>>,
    inboxes: Vec<Inbox>,
    free: Mutex<Vec<usize>>,
    /// The number of the next client. Places are reused, numbers are not.
    next_conn: AtomicU64,
}

impl Clients {
    fn new(count: usize, connector: Option<Arc<Connector>>) -> Self {
        let inboxes = (0..count).map(|_| Inbox::default()).collect();
        let free = Mutex::new((0..count).rev().collect());
        Clients { connector, inboxes, free, next_conn: AtomicU64::new(0) }
    }

    fn take_messages(&self, worker: usize) -> Vec<(u64, Message)> {
        std::mem::take(&mut *self.inboxes[worker].messages.lock())
    }

    /// Waits until something comes for a client, or it is woken.
    fn wait(&self, worker: usize, time_max: Duration) {
        if simulation::wait(Some(time_max)) {
            return;
        }
        let inbox = &self.inboxes[worker];
        let mut messages = inbox.messages.lock();
        if messages.is_empty() {
            inbox.arrived.wait_for(&mut messages, time_max);
        }
    }
}

impl Host for Clients {
    fn worker_count(&self) -> usize {
        self.inboxes.len()
    }

    fn send(&self, worker: usize, message: Message, required_lsn: u64) {
        if let Some(inbox) = self.inboxes.get(worker) {
            inbox.messages.lock().push((required_lsn, message));
            inbox.arrived.notify_all();
        }
    }

    fn wake(&self, worker: usize) {
        if let Some(inbox) = self.inboxes.get(worker) {
            let _a_waiter_has_looked = inbox.messages.lock();
            inbox.arrived.notify_all();
        }
    }

    /// The program decides itself when it ends.
    fn shut_down(&self, _code: u8) -> bool {
        false
    }

    fn configure(
        &self,
        _engine: &Engine,
        _old: &Config,
        _new: &mut Config,
        _given: &[&[u8]],
    ) -> Result<(), SetError> {
        Ok(())
    }

    fn log_failed(&self, error: &str) {
        crate::warning!("{error}. Writes are refused until the engine is opened again.");
    }

    fn connect(&self, _config: &Config, address: &Address, timeout: Duration) -> io::Result<Box<dyn Stream>> {
        match &self.connector {
            Some(connector) => connector(address, timeout),
            None => {
                Err(io::Error::new(io::ErrorKind::Unsupported, "an embedded engine follows no other server"))
            }
        }
    }

    fn upgrade(&self, _engine: &Engine, _request: Upgrade) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "the engine is a part of another program"))
    }

    fn facts(&self) -> HostFacts {
        HostFacts { multiplexing: "none", port: 0 }
    }

    fn abort(&self, report: String) -> ! {
        crate::log::write_raw(&report);
        std::process::abort()
    }
}

/// How an engine is opened.
#[derive(Clone)]
pub struct Opening {
    storage: Arc<dyn Storage>,
    clients_max: usize,
    has_background: bool,
    connector: Option<Arc<Connector>>,
}

impl Default for Opening {
    /// In the file system, with [`CLIENTS_MAX`] clients at most, and a background thread.
    fn default() -> Self {
        Opening {
            storage: Arc::new(FileSystem),
            clients_max: CLIENTS_MAX,
            has_background: true,
            connector: None,
        }
    }
}

impl Opening {
    /// Has the append-only files and dumps be here. The ACL file and the log file are in the file system all
    /// the same.
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = storage;
        self
    }

    /// The number of clients that there may be at a time.
    pub fn clients(mut self, clients_max: usize) -> Self {
        self.clients_max = clients_max;
        self
    }

    /// Lets the engine follow another server, as `replicaof` and REPLICAOF say: this connects to it, within
    /// the given time.
    pub fn connector(
        mut self,
        connect: impl Fn(&Address, Duration) -> io::Result<Box<dyn Stream>> + Send + Sync + 'static,
    ) -> Self {
        self.connector = Some(Arc::new(connect));
        self
    }

    /// Starts no background thread: keys expire when they are used, and nothing is evicted, saved or
    /// rewritten but by commands and by [`Background::round`]. For tests on a clock of their own, and for
    /// programs that have a thread for the rounds.
    pub fn without_background(mut self) -> Self {
        self.has_background = false;
        self
    }

    /// Opens the engine whose files are in a folder, and loads them: see [`Embedded::open`].
    pub fn open(
        self,
        folder: impl AsRef<Path>,
        directives: &[(&str, &str)],
    ) -> Result<Embedded, EmbeddedError> {
        let given = folder.as_ref();
        let failed = |error: std::io::Error| EmbeddedError(format!("{}: {error}", given.display()));
        let folder = self.storage.create_path(given).map_err(failed)?;
        let lock = self.storage.lock_directory(&folder).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => {
                EmbeddedError(format!("{}: another engine has this folder open", folder.display()))
            }
            _ => failed(error),
        })?;
        let config = configuration(&folder, directives)?;
        let clients = Arc::new(Clients::new(self.clients_max, self.connector));
        let host = Arc::clone(&clients) as Arc<dyn Host>;
        let engine = Engine::new(config, self.storage, host).map_err(EmbeddedError)?;
        engine.start_lazy_free().map_err(no_thread)?;
        crate::tier::start(&engine).map_err(EmbeddedError)?;
        let registry = engine.registry;
        let config = &engine.active_config().config;
        if let Err(error) = engine.acl.load_at_start(registry, config, &*engine.storage) {
            engine.wait_for_threads();
            return Err(EmbeddedError(error));
        }
        aof::begin_loading(&engine);
        if let Err(error) = aof::start(&engine) {
            stop_threads(&engine);
            return Err(EmbeddedError(error));
        }
        engine.persistence.loading.store(false, Ordering::Release);
        let embedded = Embedded { engine, clients, _lock: lock, is_closed: false };
        if self.has_background {
            background::start(&embedded.engine, |_| {}).map_err(no_thread)?;
        }
        Ok(embedded)
    }
}

/// An open engine.
pub struct Embedded {
    engine: Arc<Engine>,
    clients: Arc<Clients>,
    /// Nobody else uses the folder while this is held.
    _lock: DirectoryLock,
    is_closed: bool,
}

impl Embedded {
    /// Opens the engine whose files are in a folder, and loads them. `directives` are those of redis.conf;
    /// those about sockets and the process have no effect.
    pub fn open(folder: impl AsRef<Path>, directives: &[(&str, &str)]) -> Result<Embedded, EmbeddedError> {
        Opening::default().open(folder, directives)
    }

    /// The same without the background thread: see [`Opening::without_background`].
    pub fn open_without_background(
        folder: impl AsRef<Path>,
        directives: &[(&str, &str)],
    ) -> Result<Embedded, EmbeddedError> {
        Opening::default().without_background().open(folder, directives)
    }

    /// The work of the background thread, for a program that runs it on a thread of its own.
    pub fn background(&self) -> Background<'_> {
        Background::new(&self.engine)
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// A new client. An error if there are as many as may be.
    pub fn client(&self) -> Result<LocalClient<'_>, EmbeddedError> {
        let worker = self.clients.free.lock().pop();
        let worker = worker.ok_or_else(|| {
            EmbeddedError(format!("There are {} clients already", self.clients.inboxes.len()))
        })?;
        let context = Context::new(&self.engine, worker);
        let conn = ConnId(self.clients.next_conn.fetch_add(1, Ordering::Relaxed));
        let target = Target { worker, conn };
        let session = sessions::begin(&context, Peer::Embedded, -1, target);
        self.clients.take_messages(worker);
        Ok(LocalClient {
            context,
            clients: &self.clients,
            session,
            deadlines: Deadlines::default(),
            messages: VecDeque::new(),
            decoder: Decoder::default(),
        })
    }

    /// Closes the engine as a server ends: what was logged is made durable, and a dump is written if save
    /// points are configured. An error says what could not be written; the engine is closed all the same.
    pub fn close(mut self) -> Result<(), EmbeddedError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), EmbeddedError> {
        if std::mem::replace(&mut self.is_closed, true) {
            return Ok(());
        }
        let engine = &self.engine;
        let flags = ShutdownFlags { force: false, ..ShutdownFlags::default() };
        let is_saved = persistence::save_at_end(engine, flags);
        stop_threads(engine);
        match is_saved {
            true if engine.aof.is_lost() => Err(EmbeddedError(engine.aof.refusal_text())),
            true => Ok(()),
            false => Err(EmbeddedError("The dump could not be written".to_owned())),
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            crate::warning!("{error}");
        }
    }
}

fn no_thread(error: std::io::Error) -> EmbeddedError {
    EmbeddedError(format!("Could not start a thread: {error}"))
}

/// Makes durable what was logged, and ends the threads of an engine.
fn stop_threads(engine: &Engine) {
    engine.stopping.store(true, Ordering::Relaxed);
    role::end(engine);
    aof::backup::end(engine);
    aof::finish(engine);
    engine.pressure.wake_background();
    engine.wait_for_threads();
}

/// The configuration of an engine in a folder.
fn configuration(folder: &Path, directives: &[(&str, &str)]) -> Result<Config, EmbeddedError> {
    let mut text = format!("shards {SHARDS}\n").into_bytes();
    for (name, value) in directives {
        text.extend_from_slice(format!("{name} {value}\n").as_bytes());
    }
    let (mut config, _) =
        Config::from_text("the directives", &text).map_err(|error| EmbeddedError(error.to_string()))?;
    // The directive would look for it in the file system.
    let name = folder.to_str();
    let name = name.ok_or_else(|| EmbeddedError(format!("{}: no UTF-8", folder.display())))?;
    config.dir = name.to_owned();
    Ok(config)
}

fn is_push(value: &Value) -> bool {
    matches!(value, Value::Push(_))
}

/// A client of an embedded engine. It runs commands on the thread that calls it.
pub struct LocalClient<'e> {
    context: Context<'e>,
    clients: &'e Clients,
    session: Session,
    deadlines: Deadlines,
    messages: VecDeque<Value>,
    decoder: Decoder,
}

impl LocalClient<'_> {
    /// Runs a command and returns its reply, an error reply too, once it may be told: when the log has
    /// reached what `appendfsync` promises. A blocking command waits here. Messages that come meanwhile are
    /// kept for [`LocalClient::message`]. Null where replies are turned off.
    pub fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Value {
        let reply = self.call_raw(words);
        self.take_reply(&reply)
    }

    /// The same, with the reply as it would be sent. Empty if replies are turned off.
    pub fn call_raw<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Vec<u8> {
        let (mut bytes, required_lsn) = self.run(words);
        if self.session.blocked.is_some() {
            bytes.extend(self.wait_until_served());
        }
        if self.wait_for_log(required_lsn) { bytes } else { self.lost_reply() }
    }

    /// Runs a command that may wait, and does not wait for it: `None` if it waits. Its reply comes from
    /// [`LocalClient::poll`]; until then no other command can be run.
    pub fn submit<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Option<Value> {
        let (mut reply, required_lsn) = self.run(words);
        if !self.wait_for_log(required_lsn) {
            reply = self.lost_reply();
        }
        if self.session.blocked.is_some() { None } else { Some(self.take_reply(&reply)) }
    }

    /// The reply of the command that waits, once it has been served or its time is up.
    pub fn poll(&mut self) -> Option<Value> {
        self.context.refresh();
        self.deadlines.expire(&mut self.context);
        let reply = self.receive();
        self.deliver();
        if reply.is_empty() { None } else { Some(self.take_reply(&reply)) }
    }

    /// Runs commands one after the other and waits for the log once, at the end. One reply for each.
    pub fn pipeline<W: AsRef<[u8]>>(&mut self, commands: &[&[W]]) -> Vec<Value> {
        let (mut replies, mut lsn_max) = (Vec::with_capacity(commands.len()), 0);
        for words in commands {
            let (mut reply, required_lsn) = self.run(words);
            if self.session.blocked.is_some() {
                reply.extend(self.wait_until_served());
            }
            lsn_max = lsn_max.max(required_lsn);
            replies.push((required_lsn, self.take_reply(&reply)));
        }
        let is_confirmed = self.wait_for_log(lsn_max);
        let confirmed = self.context.engine.aof.confirmed();
        let lost = self.lost_reply();
        let reply_of =
            |(lsn, reply)| if is_confirmed || lsn <= confirmed { reply } else { self.take_reply(&lost) };
        replies.into_iter().map(reply_of).collect()
    }

    /// Runs a command, and returns its reply with the LSN that has to be confirmed before that is told.
    fn run<W: AsRef<[u8]>>(&mut self, words: &[W]) -> (Vec<u8>, u64) {
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        if words.is_empty() {
            return (b"-ERR empty command\r\n".to_vec(), 0);
        }
        if self.session.blocked.is_some() {
            return (b"-ERR the client waits in a blocking command\r\n".to_vec(), 0);
        }
        let args = OwnedArgs::from_slices(&words);
        let mut reply = Reply::new(self.session.protocol);
        loop {
            self.context.refresh();
            self.receive();
            if self.session.killed || self.session.closing {
                return (CLOSED.to_vec(), 0);
            }
            self.context.outbox.required_lsn = 0;
            self.context.command_began = QuickInstant::now();
            let call = (None, args.as_args());
            match execute::execute(&mut self.context, &mut self.session, call, None, &mut reply) {
                Progress::Done => break,
                Progress::HeldBack | Progress::Postponed => self.wait(WAIT_MAX),
                Progress::Image => {
                    execute::read_image(&mut self.context, &mut self.session, args.as_args(), &mut reply);
                    break;
                }
            }
        }
        if let Some(blocked) = &self.session.blocked {
            self.deadlines.add(blocked);
        }
        let required_lsn = self.context.outbox.required_lsn;
        self.deliver();
        (reply.into_bytes(), required_lsn)
    }

    /// The reply in what a command has sent. What else there is goes to the messages: a client of RESP3 may
    /// get some of them before the reply. Of several pushes, as SUBSCRIBE sends, the first is the reply.
    fn take_reply(&mut self, bytes: &[u8]) -> Value {
        let mut values = Vec::new();
        let mut start = 0;
        while let Ok(Some((value, size))) = self.decoder.decode(&bytes[start..]) {
            values.push(value);
            start += size;
        }
        if values.is_empty() {
            return Value::Null;
        }
        let reply = values.remove(values.iter().position(|value| !is_push(value)).unwrap_or(0));
        self.messages.extend(values);
        reply
    }

    /// The next message outside of replies: of Pub/Sub, MONITOR or tracking. None if none comes in time.
    pub fn message(&mut self, time_max: Duration) -> Option<Value> {
        let began = clock::now();
        loop {
            self.context.refresh();
            self.receive();
            self.deliver();
            let left = time_max.saturating_sub(clock::since(began));
            if let Some(message) = self.messages.pop_front() {
                return Some(message);
            }
            if left.is_zero() {
                return None;
            }
            self.wait(left);
        }
    }

    /// The state of the client.
    pub fn session(&self) -> &Session {
        &self.session
    }

    fn wait(&mut self, time_max: Duration) {
        self.clients.wait(self.context.worker, time_max.min(WAIT_MAX));
    }

    /// The reply in the place of one that tells of what is not in the log, and never will be.
    fn lost_reply(&self) -> Vec<u8> {
        format!("-{}\r\n", self.context.engine.aof.refusal_text()).into_bytes()
    }

    /// Waits until the log is confirmed up to here. False if it can not be written.
    #[must_use]
    fn wait_for_log(&mut self, required_lsn: u64) -> bool {
        if simulation::has_fault(Fault::EarlyReply) {
            return true;
        }
        let (engine, worker) = (self.context.engine, self.context.worker);
        self.context.outbox.end_iteration(engine.aof.confirmed() < required_lsn);
        while engine.aof.confirmed() < required_lsn {
            if engine.aof.is_lost() || engine.aof.is_refusing() {
                return false;
            }
            engine.aof.await_confirmed(worker);
            if engine.aof.confirmed() < required_lsn {
                self.wait(WAIT_MAX);
            }
        }
        true
    }

    /// Waits until the blocked session has been served, and returns the reply.
    fn wait_until_served(&mut self) -> Vec<u8> {
        let mut reply = Vec::new();
        while self.session.blocked.is_some() {
            self.context.refresh();
            self.deadlines.expire(&mut self.context);
            reply.extend(self.receive());
            self.deliver();
            if self.session.blocked.is_some() {
                let left = self.deadlines.first().map(|deadline| (deadline - clock::unix_ms()).max(0) as u64);
                self.wait(left.map_or(WAIT_MAX, |left| WAIT_MAX.min(Duration::from_millis(left))));
            }
        }
        reply
    }

    /// Acts on the messages that have come, and returns the reply of the blocked command if it has been
    /// served.
    fn receive(&mut self) -> Vec<u8> {
        let (mut reply, mut is_confirmed) = (Vec::new(), true);
        for (required_lsn, message) in self.clients.take_messages(self.context.worker) {
            is_confirmed &= self.wait_for_log(required_lsn);
            let is_own = message.target().is_none_or(|target| target == self.session.conn);
            let served = match message {
                // A message to an earlier client in this place: only its completion still has to run.
                Message::Complete(_, blocked, work) if !is_own => {
                    blocking::complete(&mut self.context, &blocked, work);
                    None
                }
                _ if !is_own => None,
                // It tells of what is not in the log.
                Message::Push(..) if !is_confirmed => None,
                Message::Push(_, bytes) => {
                    self.keep_messages(&bytes);
                    None
                }
                Message::Unblock(_, served) => Some(served),
                Message::Complete(_, blocked, work) => blocking::complete(&mut self.context, &blocked, work),
                Message::Kill(_) => {
                    self.session.killed = true;
                    if self.session.blocked.is_some() {
                        reply.extend(CLOSED);
                    }
                    sessions::end(&self.context, &mut self.session, &mut self.deadlines);
                    None
                }
                Message::Retry(_) | Message::Resume | Message::WeighClients => None,
            };
            if let Some(served) = served {
                let (session, deadlines) = (&mut self.session, &mut self.deadlines);
                let ended = blocking::end_waiting(&mut self.context, session, deadlines, served);
                reply.extend(ended.flatten().unwrap_or_default());
            }
        }
        if !is_confirmed && !reply.is_empty() {
            return self.lost_reply();
        }
        reply
    }

    /// Delivers the messages to this client and to others that its commands have caused.
    fn deliver(&mut self) {
        if self.context.outbox.has_changed() {
            tracking::broadcast(&mut self.context.outbox);
        }
        for (_, bytes) in self.context.outbox.take_all() {
            self.keep_messages(&bytes);
        }
        self.context.outbox.end_iteration(false);
    }

    fn keep_messages(&mut self, mut bytes: &[u8]) {
        while let Ok(Some((value, size))) = self.decoder.decode(bytes) {
            self.messages.push_back(value);
            bytes = &bytes[size..];
        }
    }
}

impl LocalClient<'_> {
    /// The protocol whose replies it gets: RESP2 at first, RESP3 after `HELLO 3`.
    pub fn protocol(&self) -> Protocol {
        self.session.protocol
    }
}

impl Drop for LocalClient<'_> {
    fn drop(&mut self) {
        sessions::end(&self.context, &mut self.session, &mut self.deadlines);
        self.deliver();
        self.clients.free.lock().push(self.context.worker);
    }
}
