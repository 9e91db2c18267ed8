//! The process that hands over.
//!
//! ```text
//! here                                     the successor
//! begin: configuration          ->         makes an engine, follows this server as a replica
//!                               <-         synced, what it takes beside RESP clients, where its log begins
//! backlog ...                   ->         keeps it: what comes before its log, for replicas that come back
//! catch-up: the log's end       ->         applies the stream to that end at least
//!                               <-         caught-up, and again until that takes no time
//! (workers stop running requests)
//! finish: the log's end         ->         applies the stream to that end
//!                               <-         caught-up
//! (replies leave, connections are given up, the append-only file is closed)
//! state, listener, client ...   ->         registers everything, serves nobody
//! take-over                     ->         opens the append-only file
//!                               <-         serving, and from then on it does
//! client ... (late ones), end   ->
//! ```
//!
//! Until `serving` has come the successor changes nothing that this server needs: if it fails, or is gone,
//! this server takes everything back and goes on. After that this server runs no request any more.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mantissa_engine::replication::{backlog, passing, role};
use mantissa_engine::state::failover::FailoverState;
use mantissa_engine::state::replication::{Address, SUCCESSOR};
use mantissa_engine::{Engine, aof, engine_state, notice, verbose, warning};
use mantissa_net::{LocalAddress, Socket};
use mantissa_protocol::OwnedArgs;
use mantissa_sys::{descriptors, process};

use super::channel::Channel;
use super::{BACKLOG, ENVIRONMENT, LOG_BEGINS, TAKES_WEB, await_placed, client, number};
use crate::freeze::Freeze;
use crate::inbox::Message;
use crate::network::Network;

/// How long a step may take in which nobody is served.
const STEP_MAX: Duration = Duration::from_secs(10);
/// How long commands may take for which a thread of its own works, while nobody is served.
const UNDER_WAY_MAX: Duration = Duration::from_secs(1);
/// How long is waited for the end of a successor that has been killed.
const END_MAX: Duration = Duration::from_secs(2);
/// How long clients that do not read may hold everybody up. They follow later.
const RELEASE_MAX: Duration = Duration::from_millis(20);
/// How long they may take then.
const LATE_MAX: Duration = Duration::from_secs(60);
/// The successor is near enough when it has caught up within this time.
const NEAR: Duration = Duration::from_millis(5);
/// How long dumps for other replicas are waited for; then these are closed, and begin again.
const SYNC_WAIT_MAX: Duration = Duration::from_secs(60);
/// How long it may take to come so near; then it has to be this near.
const NEAR_WAIT_MAX: Duration = Duration::from_secs(60);
const NEAR_MAX: Duration = Duration::from_secs(1);
/// How often it looks whether the successor lives.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Memory that must be free, as a part of what is in use: the successor has the data once more.
const MEMORY_FREE_PERCENT: u64 = 110;

/// What is to be started in the place of this server.
pub struct Request {
    /// The program; that of this process by default.
    pub binary: Option<PathBuf>,
    /// Directives as on a command line, beside those that are in force.
    pub options: Vec<Vec<u8>>,
    /// The client that has asked, which is told by the successor.
    pub client: u64,
}

/// A server that hands over.
struct Predecessor<'a> {
    engine: &'a Engine,
    network: &'a Arc<Network>,
    request: &'a Request,
    channel: Channel,
    child: Child,
    /// There is a backlog for others than the successor.
    keeps_backlog: bool,
}

/// What the time went into in which nobody was served.
struct Steps {
    began: Instant,
    text: String,
}

impl Steps {
    fn begin() -> Steps {
        Steps { began: Instant::now(), text: String::new() }
    }

    /// A step has ended.
    fn note(&mut self, name: &str) {
        let separator = if self.text.is_empty() { "" } else { ", " };
        self.text.push_str(&format!("{separator}{name} {:.1?}", self.began.elapsed()));
        self.began = Instant::now();
    }
}

/// Hands over, and has this process end. After an error this server serves as before, and no other does.
pub fn hand_over(engine: &Engine, network: &Arc<Network>, request: &Request) -> Result<(), String> {
    if network.hands_over.swap(true, Ordering::AcqRel) {
        return Err("an upgrade is under way already".to_owned());
    }
    let outcome = check(engine).and_then(|()| {
        let mut predecessor = Predecessor::start(engine, network, request)?;
        predecessor.pass_on().map_err(|reason| {
            predecessor.end_successor();
            predecessor.last_words().unwrap_or(reason)
        })
    });
    if let Err(reason) = &outcome {
        network.hands_over.store(false, Ordering::Release);
        warning!("The upgrade has failed, this server goes on: {reason}");
    }
    outcome
}

/// What a message says of a failure.
fn failure(message: &OwnedArgs) -> String {
    String::from_utf8_lossy(message.as_args().at(1)).into_owned()
}

/// Refuses what can not work.
fn check(engine: &Engine) -> Result<(), String> {
    if engine.persistence.loading.load(Ordering::Acquire) {
        return Err("data are being loaded".to_owned());
    }
    refuse_own_writes(engine)?;
    let used = mantissa_store::allocator::allocated_bytes() as u64;
    let needed = used.saturating_mul(MEMORY_FREE_PERCENT) / 100;
    match process::available_memory() {
        Some(free) if free < needed => Err(format!(
            "the data are in memory twice for a while: {needed} bytes are needed, and {free} are free"
        )),
        _ => Ok(()),
    }
}

/// Refuses a replica that takes writes of its own: no stream has them, so the successor would miss them.
fn refuse_own_writes(engine: &Engine) -> Result<(), String> {
    if engine.replication.is_replica() && !engine.active_config().config.replica_read_only {
        return Err(
            "a replica that takes writes (replica-read-only no) has some that no stream has".to_owned()
        );
    }
    Ok(())
}

impl<'a> Predecessor<'a> {
    /// Starts the successor, and begins to serve it as a replica.
    fn start(engine: &'a Engine, network: &'a Arc<Network>, request: &'a Request) -> Result<Self, String> {
        let failed = |what: &str, error: io::Error| format!("{what}: {error}");
        let pair = || UnixStream::pair().map_err(|error| failed("no socket could be made", error));
        let ((ours, theirs), (stream, their_stream)) = (pair()?, pair()?);
        let binary = match &request.binary {
            Some(binary) => binary.clone(),
            None => own_program().map_err(|error| failed("this program's file can not be found", error))?,
        };
        let inherited = [&theirs, &their_stream];
        for socket in inherited {
            descriptors::set_inherited(socket, true)
                .map_err(|error| failed("a socket can not be passed on", error))?;
        }
        let numbers = inherited.map(|socket| socket.as_raw_fd().to_string()).join(",");
        let mut command = Command::new(&binary);
        if std::env::var("WATCHDOG_PID").is_ok_and(|number| number == std::process::id().to_string()) {
            // The watchdog that awaits this process awaits the successor then.
            command.env_remove("WATCHDOG_PID");
        }
        command
            .arg0(std::env::args_os().next().unwrap_or_else(|| binary.clone().into_os_string()))
            .args(std::env::args_os().skip(1))
            .args(request.options.iter().map(|option| OsString::from_vec(option.clone())))
            .env(ENVIRONMENT, numbers);
        let child = network
            .oom_score
            .without(engine, || command.spawn())
            .map_err(|error| failed(&format!("{} can not be started", binary.display()), error))?;
        drop((theirs, their_stream));
        notice!("Upgrade: process {} of {} begins to take over", child.id(), binary.display());
        let socket = Socket::received(OwnedFd::from(stream), Some(SUCCESSOR));
        let socket = socket.map_err(|error| failed("the successor can not be served", error))?;
        let keeps_backlog = engine.replication.kept.lock().is_some();
        network.post(0, Message::AdoptSuccessor(socket));
        Ok(Predecessor { engine, network, request, channel: Channel::new(ours), child, keeps_backlog })
    }

    fn pass_on(&mut self) -> Result<(), String> {
        self.begin()?;
        let synced = self.await_message(b"synced", Duration::MAX)?;
        let takes_web = synced.as_args().iter().any(|word| word == TAKES_WEB);
        self.send_backlog(&synced)?;
        self.await_savers();
        self.await_nearness()?;
        let background = self.engine.background_turn.lock();
        let began = Instant::now();
        let freeze = Arc::new(Freeze::new(takes_web));
        let mut has_closed_log = false;
        let outcome = self.freeze_and_send(&freeze, &mut has_closed_log);
        if let Err(reason) = outcome {
            // Never do both serve.
            self.end_successor();
            self.take_back(&freeze, has_closed_log);
            return Err(reason);
        }
        // The files are the successor's.
        std::mem::forget(background);
        notice!("Upgrade: process {} serves; clients waited for {:.1?}", self.child.id(), began.elapsed());
        self.network.successor.store(self.child.id(), Ordering::Release);
        self.send_late(&freeze);
        (self.network.shutdown)(0);
        Ok(())
    }

    /// Kills the successor. It may take longer to end than anybody should wait, but does nothing more.
    fn end_successor(&mut self) {
        let began = Instant::now();
        let _may_have_ended = self.child.kill();
        while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < END_MAX {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn begin(&mut self) -> Result<(), String> {
        let active = self.engine.active_config();
        let config = &active.config;
        let file = config.file().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        let options = client::pack(&self.request.options);
        let text = config.whole_text();
        self.send(&[b"begin", b"configuration", &text, b"file", file.as_bytes(), b"options", &options], None)
    }

    fn send(&self, words: &[&[u8]], descriptor: Option<std::os::fd::BorrowedFd<'_>>) -> Result<(), String> {
        self.channel.send(words, descriptor).map_err(|error| format!("the successor is gone: {error}"))
    }

    /// Why the successor says that it has failed, which it may have done while something was sent to it. It
    /// has ended.
    fn last_words(&mut self) -> Option<String> {
        loop {
            let message = self.channel.receive(LOOK_EVERY).ok()?;
            if message.as_args().at(0) == b"failed" {
                return Some(failure(&message));
            }
        }
    }

    /// Waits for a message of this kind.
    fn await_message(&mut self, kind: &[u8], timeout: Duration) -> Result<OwnedArgs, String> {
        let began = Instant::now();
        loop {
            match self.channel.receive(LOOK_EVERY) {
                Ok(message) if message.as_args().at(0) == kind => return Ok(message),
                Ok(message) if message.as_args().at(0) == b"failed" => {
                    return Err(failure(&message));
                }
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                }
                Err(error) => return Err(format!("the successor is gone: {error}")),
            }
            if began.elapsed() > timeout {
                return Err(format!("the successor takes too long: {}", String::from_utf8_lossy(kind)));
            }
        }
    }

    /// Sends what the backlog has from before the successor's log. Clients are served meanwhile.
    fn send_backlog(&self, synced: &OwnedArgs) -> Result<(), String> {
        let synced = synced.as_args();
        let names = (1..synced.len()).find(|&at| synced.at(at) == LOG_BEGINS);
        let end = names.and_then(|at| number(synced.get(at + 1)?));
        let Some(end) = end.filter(|_| self.keeps_backlog) else { return Ok(()) };
        backlog::pass_on(self.engine, end, |offset, bytes| {
            self.send(&[BACKLOG, offset.to_string().as_bytes(), bytes], None)
        })
    }

    /// Awaits a save that is under way, which would be lost, and for some time dumps for other replicas and
    /// commands for which a thread of its own works, as MIGRATE.
    fn await_savers(&self) {
        let (engine, began) = (self.engine, Instant::now());
        let is_saving =
            || engine.persistence.saving.load(Ordering::Acquire) || engine.aof.rewrite.is_running();
        let are_busy = || passing::are_syncing(engine) || engine.under_way.load(Ordering::Acquire) > 0;
        let are_awaited = || began.elapsed() < SYNC_WAIT_MAX && are_busy();
        while is_saving() || are_awaited() || engine.replication.failover.state() != FailoverState::None {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until little of the stream is left for the time in which nobody is served.
    fn await_nearness(&mut self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let (asked, end) = (Instant::now(), self.log_end());
            self.send(&[b"catch-up", end.as_bytes()], None)?;
            self.await_message(b"caught-up", Duration::MAX)?;
            let took = asked.elapsed();
            let is_late = began.elapsed() > NEAR_WAIT_MAX;
            // A busy machine answers late also where nothing is written.
            if took <= NEAR || is_late && took <= NEAR_MAX || self.log_end() == end {
                return Ok(());
            }
            if is_late {
                return Err(format!("more is written than the successor can apply: it is {took:.1?} behind"));
            }
        }
    }

    /// The offset of the log's end.
    fn log_end(&self) -> String {
        self.engine.replication.offset_of(self.engine.log.end()).to_string()
    }

    /// Stops everything and sends it. The successor serves after that.
    fn freeze_and_send(&mut self, freeze: &Arc<Freeze>, has_closed_log: &mut bool) -> Result<(), String> {
        let workers = self.network.worker_count;
        self.network.post_all(|| Message::Freeze(Arc::clone(freeze)));
        let mut steps = Steps::begin();
        if !freeze.await_stopped(workers, STEP_MAX) {
            return Err("a command or script takes too long".to_owned());
        }
        self.await_under_way()?;
        refuse_own_writes(self.engine)?;
        role::end(self.engine);
        steps.note("stop");
        let end = self.finish_stream()?;
        steps.note("catch up");
        self.network.post_all(|| Message::Release);
        let _others_follow_later = freeze.await_emptied(workers, RELEASE_MAX);
        steps.note("release");
        aof::backup::leave(self.engine);
        *has_closed_log = true;
        aof::finish(self.engine);
        if self.log_end() != end {
            self.finish_stream()?;
        }
        steps.note("close the log");
        for (name, value) in engine_state::capture(self.engine) {
            self.send(&[b"state", name, &value], None)?;
        }
        let primary = self.engine.replication.primary.lock().clone();
        if let Some(Address { host, port }) = primary {
            self.send(&[b"state", b"primary", format!("{host} {port}").as_bytes()], None)?;
        }
        if self.keeps_backlog {
            self.send(&[b"state", b"backlog", b""], None)?;
        }
        freeze.with_listeners(|listeners| {
            listeners.iter().try_for_each(|(service, listener)| {
                let address = match listener.local_addr() {
                    LocalAddress::Tcp(address) => address.to_string(),
                    LocalAddress::Unix(path) => path.to_string_lossy().into_owned(),
                };
                let words = [b"listener", service.name().as_bytes(), address.as_bytes()];
                self.send(&words, Some(listener.as_fd()))
            })
        })?;
        self.send_clients(freeze)?;
        let client = self.request.client.to_string();
        self.send(&[b"take-over", b"client", client.as_bytes()], None)?;
        steps.note("send");
        self.await_message(b"serving", STEP_MAX)?;
        steps.note("take over");
        verbose!("Upgrade: {}", steps.text);
        Ok(())
    }

    /// Awaits commands for which a thread of its own works: the successor would run them once more. Workers
    /// run their rest while they run no requests.
    fn await_under_way(&self) -> Result<(), String> {
        let began = Instant::now();
        while self.engine.under_way.load(Ordering::Acquire) > 0 {
            if began.elapsed() > UNDER_WAY_MAX {
                return Err("a MIGRATE or BACKUP takes too long".to_owned());
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Ok(())
    }

    /// Has the successor apply the stream to its end. Returns the offset of that.
    fn finish_stream(&mut self) -> Result<String, String> {
        let end = self.log_end();
        self.send(&[b"finish", end.as_bytes()], None)?;
        self.await_message(b"caught-up", STEP_MAX)?;
        Ok(end)
    }

    /// Sends the clients that have been given up since the last time. They stay in `freeze` as sent.
    fn send_clients(&self, freeze: &Freeze) -> Result<(), String> {
        freeze.for_unsent(descriptors::SENT_MAX, |batch| {
            let (mut messages, mut sockets) = (Vec::new(), Vec::new());
            for frozen in batch.iter().filter(|frozen| client::may_go(frozen)) {
                let is_told = frozen.connection.session.shared.id == self.request.client;
                if client::encode(self.engine, frozen, is_told, &mut messages) {
                    sockets.push(frozen.socket.as_fd());
                }
            }
            let sent = self.channel.send_all(&messages, &sockets);
            sent.map_err(|error| format!("the successor is gone: {error}"))
        })
    }

    /// Sends clients that had not read all of their replies before.
    fn send_late(&mut self, freeze: &Arc<Freeze>) {
        freeze.leave_files();
        let deadline = Instant::now() + LATE_MAX;
        loop {
            freeze.close_sent();
            let is_done = freeze.await_emptied(self.network.worker_count, LOOK_EVERY);
            if let Err(reason) = self.send_clients(freeze) {
                return warning!("Upgrade: clients that had not read their replies are closed: {reason}");
            }
            if is_done || Instant::now() > deadline {
                let _it_ends_with_this_process = self.send(&[b"end"], None);
                return;
            }
        }
    }

    /// Goes on as if nothing had happened.
    fn take_back(&self, freeze: &Freeze, has_closed_log: bool) {
        if has_closed_log
            && self.engine.active_config().config.appendonly
            && let Err(reason) = aof::files::open_at_start(self.engine)
        {
            warning!("The append-only file can not be written on: {reason}");
        }
        if has_closed_log {
            aof::backup::adopt(self.engine);
        }
        role::start_link(self.engine);
        self.network.listen(freeze.take_listeners());
        let mut sessions = Vec::new();
        for frozen in freeze.take_clients() {
            sessions.push(Arc::clone(&frozen.connection.session.shared));
            self.network.post(self.network.choose_worker(), Message::Move(frozen.connection, frozen.socket));
        }
        if let Err(reason) = await_placed(&sessions, STEP_MAX) {
            warning!("{reason}");
        }
        self.network.post_all(|| Message::Thaw);
    }
}

/// The file of this program. A file that has taken its place, as an update of a package puts one there, is
/// what is meant.
fn own_program() -> io::Result<PathBuf> {
    const REPLACED: &str = " (deleted)";
    let path = std::env::current_exe()?;
    match path.to_str().and_then(|text| text.strip_suffix(REPLACED)) {
        Some(text) => Ok(PathBuf::from(text)),
        None => Ok(path),
    }
}
