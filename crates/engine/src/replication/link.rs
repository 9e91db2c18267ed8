//! The link of a replica to its primary: a thread that connects, synchronises, applies the stream, and begins
//! again where that fails.
//!
//! What fails costs a line in the log and a second; the data and the position stay. So the next attempt asks
//! for the stream from where it ended, even where a full synchronisation was under way.

use std::cell::RefCell;
use std::io::{self, Read};
use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_config::{Config, LogLevel};
use mantissa_persist::framing::Payload;
use mantissa_persist::framing::parts::Ahead;
use mantissa_protocol::encode_request;
use mantissa_sys::clock::unix_ms;
use mantissa_sys::process;
use mantissa_sys::simulation::{self, Fault};

use super::apply::Applier;
use super::handshake::{Handshake, Options, Outcome};
use super::install::install;
use super::wire::Wire;
use super::{failover, primary, restore, role, topology};
use crate::engine::Engine;
use crate::log::{self, notice, warning};
use crate::state::failover::FailoverState;
use crate::state::replication::{Address, History, LinkState};

/// Time between two attempts.
const RETRY: Duration = Duration::from_secs(1);
/// So often a waiting link looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time between two acknowledgements.
const ACK_EVERY_MS: i64 = 1000;
/// Bytes that are read from the stream at a time.
const READ_BYTES: usize = 256 << 10;
/// Bytes of the stream that are read while CLIENT PAUSE keeps them from being applied.
const PAUSED_BYTES_MAX: usize = 16 << 20;

/// Starts the link with this number.
pub fn start(engine: &Engine, epoch: u64) -> io::Result<()> {
    engine.spawn("link", move |engine| {
        let mut link = Link { engine, epoch, is_lost: false, has_failed: false, starts_over: false };
        while link.goes_on() {
            match link.attempt() {
                Ok(never) => match never {},
                Err(Failure::Lost) => link.is_lost = true,
                Err(failure) => {
                    (link.is_lost, link.has_failed) = (false, failure == Failure::Broken);
                    link.rest();
                }
            }
        }
    })
}

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// The stream was applied, and has ended.
    Lost,
    /// The data did not arrive whole.
    Broken,
    /// There was no answer, or none that leads further.
    Refused,
}

enum Never {}

/// A wire that is read from while others send signs of life.
struct Lent<'w, 'e>(&'w RefCell<Wire<'e>>);

impl Read for Lent<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.borrow_mut().read(buffer)
    }
}

struct Link<'e> {
    engine: &'e Engine,
    epoch: u64,
    /// The last attempt led to a stream, which has ended.
    is_lost: bool,
    /// The last attempt failed while data were received.
    has_failed: bool,
    /// The stream made no sense: the next attempt asks for all data.
    starts_over: bool,
}

/// A dump, of which is told how many commands have come before its end.
struct Counted<'p, 'e, R> {
    payload: &'p mut Payload<R>,
    engine: &'e Engine,
}

impl<R: Read> Read for Counted<'_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let outcome = self.payload.read(buffer);
        self.engine.replication.link.note_ahead(self.payload.ahead().bytes());
        outcome
    }
}

/// The bytes of the stream that have not been applied.
struct Input {
    bytes: Vec<u8>,
    filled: usize,
    /// What has been read and comes behind them.
    ahead: Ahead,
}

impl<'e> Link<'e> {
    fn goes_on(&self) -> bool {
        self.engine.replication.link.is_current(self.epoch) && !self.engine.stopping.load(Ordering::Relaxed)
    }

    fn rest(&self) {
        let until_ms = unix_ms() + RETRY.as_millis() as i64;
        while self.goes_on() && unix_ms() < until_ms {
            simulation::sleep(LOOK_EVERY);
        }
    }

    /// Sets the state, unless the link is a former one.
    fn enter(&self, state: LinkState) {
        let _held_by_who_changes_the_role = self.engine.replication.primary.lock();
        let link = &self.engine.replication.link;
        if link.is_current(self.epoch) {
            link.enter(state);
        }
    }

    /// Connects, synchronises and follows until something fails.
    fn attempt(&mut self) -> Result<Never, Failure> {
        let outcome = self.follow();
        self.enter(LinkState::Connect);
        outcome
    }

    fn follow(&mut self) -> Result<Never, Failure> {
        let engine = self.engine;
        let Some(address) = engine.replication.primary.lock().clone() else { return Err(Failure::Refused) };
        let mut wire = self.connect(&address)?;
        let (outcome, rest) = self.shake_hands(&mut wire)?;
        if engine.replication.failover.state() == FailoverState::InProgress {
            match outcome {
                Outcome::Partial(_) | Outcome::Full(_) => failover::end(engine),
                Outcome::Refused => failover::abort(engine, "Failover target rejected psync request"),
                Outcome::Later | Outcome::Failed => {}
            }
        }
        let (wire, rest, database) = match outcome {
            Outcome::Partial(id) => {
                self.rename(id)?;
                notice!("MASTER <-> REPLICA sync: Master accepted a Partial Resynchronization.");
                let mut ahead = Ahead::default();
                ahead.extend(&rest);
                (wire, ahead, engine.log.database().unwrap_or(0))
            }
            Outcome::Full(position) => self.receive(wire, rest, position)?,
            Outcome::Later | Outcome::Failed | Outcome::Refused => return Err(Failure::Refused),
        };
        self.starts_over = false;
        self.apply(wire, rest, database)
    }

    fn connect(&self, address: &Address) -> Result<Wire<'e>, Failure> {
        let (engine, Address { host, port }) = (self.engine, address);
        match (self.is_lost, self.has_failed) {
            (true, _) => notice!("Reconnecting to MASTER {host}:{port}"),
            (_, true) => notice!("Reconnecting to MASTER {host}:{port} after failure"),
            _ => notice!("Connecting to MASTER {host}:{port}"),
        }
        notice!("MASTER <-> REPLICA sync started");
        self.enter(LinkState::Connecting);
        let link = &engine.replication.link;
        link.attempts.fetch_add(1, Ordering::Relaxed);
        link.attempts_total.fetch_add(1, Ordering::Relaxed);
        let active = engine.active_config();
        let timeout = Duration::from_secs(active.config.repl_timeout.into());
        let stream = engine.host().connect(&active.config, address, timeout);
        let wire = stream.and_then(|stream| Wire::new(engine, self.epoch, stream));
        wire.map_err(|error| {
            warning!("Error condition on socket for SYNC: {}", mantissa_config::reason(&error));
            Failure::Refused
        })
    }

    /// Agrees with the primary on where to begin. Returns what it has sent behind that.
    fn shake_hands(&self, wire: &mut Wire<'e>) -> Result<(Outcome, Vec<u8>), Failure> {
        notice!("Non blocking connect for SYNC fired the event.");
        self.enter(LinkState::Handshake);
        let mut handshake = Handshake::new(self.options());
        let mut buffer = [0; 4096];
        loop {
            let output = std::mem::take(&mut handshake.output);
            let received = wire.send(&output).and_then(|()| wire.try_read(&mut buffer));
            let count = received.map_err(|error| {
                if self.goes_on() && error.kind() == io::ErrorKind::TimedOut {
                    warning!("Timeout connecting to the MASTER...");
                } else if self.goes_on() {
                    let reason = mantissa_config::reason(&error);
                    warning!("Master did not respond to command during SYNC handshake: {reason}");
                }
                Failure::Refused
            })?;
            let received = &buffer[..count.unwrap_or(0)];
            let taken = handshake.receive(received);
            for (level, text) in handshake.notes.drain(..) {
                log::write(level, format_args!("{text}"));
            }
            if let Some(outcome) = handshake.outcome() {
                wire.send(&handshake.output).map_err(|_| Failure::Refused)?;
                return Ok((outcome.clone(), received[taken..].to_vec()));
            }
        }
    }

    fn options(&self) -> Options {
        let (engine, active) = (self.engine, self.engine.active_config());
        let config = &active.config;
        let wanted = (engine.replication.history().id, engine.replication.offset_of(engine.log.end()) + 1);
        Options {
            user: config.masteruser.clone(),
            password: config.masterauth.clone(),
            port: topology::listening_port(engine, config),
            address: topology::announced_ip(config).to_owned(),
            wanted: (!self.starts_over).then_some(wanted),
            ahead_bytes_max: ahead_bytes_max(config),
            takes_over: engine.replication.failover.state() == FailoverState::InProgress,
        }
    }

    /// Goes on under another name of the history, if there is one.
    fn rename(&self, id: Option<String>) -> Result<(), Failure> {
        let Some(id) = id else { return Ok(()) };
        let (engine, replication) = (self.engine, &self.engine.replication);
        let _locked = engine.keyspace.lock(engine.keyspace.all_shards());
        if !self.goes_on() {
            return Err(Failure::Refused);
        }
        let offset = replication.offset_of(engine.log.end()) + 1;
        let former = replication.history().id;
        replication.set_history(History { id, second: Some((former, offset)) });
        restore::note_history(engine);
        role::disconnect_replicas(engine);
        Ok(())
    }

    /// Receives all data and puts them in the place of those that are there.
    fn receive(
        &self,
        mut wire: Wire<'e>,
        rest: Vec<u8>,
        position: Option<(String, u64)>,
    ) -> Result<(Wire<'e>, Ahead, usize), Failure> {
        let link = &self.engine.replication.link;
        link.dump_bytes.store(-1, Ordering::Relaxed);
        link.dump_received.store(0, Ordering::Relaxed);
        link.dump_heard_s.store(unix_ms() / 1000, Ordering::Relaxed);
        self.enter(LinkState::Transfer);
        let failed = |reason: &str| {
            if self.goes_on() {
                warning!("{reason}");
            }
            Failure::Broken
        };
        wire.receives_dump = true;
        let wire = RefCell::new(wire);
        let mut payload = Payload::begin(Lent(&wire), rest).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => failed(&error.to_string()),
            _ => failed(&format!(
                "I/O error reading bulk count from MASTER: {}",
                mantissa_config::reason(&error)
            )),
        })?;
        payload.keep_ahead(ahead_bytes_max(&self.engine.active_config().config));
        match payload.length() {
            Some(bytes) => {
                link.dump_bytes.store(bytes as i64, Ordering::Relaxed);
                notice!("MASTER <-> REPLICA sync: receiving {bytes} bytes from master to parser");
            }
            None => {
                notice!("MASTER <-> REPLICA sync: receiving streamed RDB from master with EOF to parser");
            }
        }
        notice!("MASTER <-> REPLICA sync: Loading DB in memory");
        // The primary is to see that this side is there, also while it only loads. Who fails notices next.
        let progress = |_| _ = wire.borrow_mut().send_alive();
        let mut counted = Counted { payload: &mut payload, engine: self.engine };
        let installed = install(self.engine, &mut counted, position, &progress, &|| !self.goes_on());
        link.note_ahead(0);
        let installed =
            installed.map_err(|reason| failed(&format!("I/O error trying to sync with MASTER: {reason}")))?;
        self.engine.log.set_database(Some(installed.database));
        // What they have does not lead to what comes.
        role::disconnect_replicas(self.engine);
        notice!("MASTER <-> REPLICA sync: Finished with success");
        let (rest, _) = payload.into_rest();
        link.note_ahead(rest.bytes());
        let mut wire = wire.into_inner();
        wire.receives_dump = false;
        Ok((wire, rest, installed.database))
    }

    /// Applies the stream until it ends.
    fn apply(&mut self, mut wire: Wire<'e>, ahead: Ahead, database: usize) -> Result<Never, Failure> {
        let engine = self.engine;
        let mut input = Input { bytes: Vec::new(), filled: 0, ahead };
        let mut applier = Applier::new(engine, database);
        if !self.goes_on() {
            // It would apply as if it were the present link.
            return Err(Failure::Lost);
        }
        wire.show();
        self.enter(LinkState::Connected);
        // A primary that sent its data with a mark waits for this one.
        let mut acked_ms = 0;
        let lost = loop {
            if simulation::has_fault(Fault::EarlyAck) && !wire.is_blocked() {
                let _lost_later = wire.send(&acknowledgement(engine, input.filled as u64));
            }
            let now_ms = unix_ms();
            let is_paused = engine.pauses(now_ms, true);
            let applied = match applier.apply(if is_paused { &[] } else { &input.bytes[..input.filled] }) {
                Ok(applied) => applied,
                Err(reason) => {
                    self.starts_over = true;
                    break format!("what it sends makes no sense: {reason}");
                }
            };
            input.take(applied.used);
            let unapplied = if is_paused || applied.waits { input.filled } else { 0 };
            engine.replication.link.unapplied_bytes.store(unapplied as u64, Ordering::Relaxed);
            if (applied.ack || now_ms - acked_ms >= ACK_EVERY_MS) && !wire.is_blocked() {
                acked_ms = now_ms;
                if let Err(error) = wire.send(&acknowledgement(engine, 0)) {
                    break mantissa_config::reason(&error);
                }
            }
            if applied.ack {
                // It is asked for before what asks for it is applied.
                continue;
            }
            if !applied.waits && is_too_long(input.filled) {
                self.starts_over = true;
                let filled = input.filled;
                break format!("{filled} bytes are no whole command or transaction, and memory is short");
            }
            if applied.waits {
                // Nothing is read meanwhile; what comes waits at the primary.
                if let Err(error) = wire.check() {
                    break mantissa_config::reason(&error);
                }
                wire.forgive_silence();
                applier.wait(LOOK_EVERY);
                continue;
            }
            if is_paused && input.filled >= PAUSED_BYTES_MAX && self.goes_on() {
                wire.forgive_silence();
                simulation::sleep(LOOK_EVERY);
                continue;
            }
            if let Err(error) = input.fill(&mut wire, applied.used == 0 && !is_paused) {
                break mantissa_config::reason(&error);
            }
        };
        engine.replication.link.note_ahead(0);
        engine.replication.link.unapplied_bytes.store(0, Ordering::Relaxed);
        if self.goes_on() {
            log::write(LogLevel::Notice, format_args!("Connection with master lost. ({lost})"));
            notice!("Caching the disconnected master state.");
        }
        Err(Failure::Lost)
    }
}

/// Whether memory is too short for a command or transaction of which this many bytes have come, and may be as
/// many again. Nothing else limits it: `client-query-buffer-limit` is for clients.
fn is_too_long(bytes: usize) -> bool {
    const ALWAYS_BYTES: usize = 64 << 20;
    bytes > ALWAYS_BYTES && process::available_memory().is_some_and(|free| free / 2 < bytes as u64)
}

impl Input {
    /// Removes bytes from the front.
    fn take(&mut self, count: usize) {
        self.bytes.copy_within(count..self.filled, 0);
        self.filled -= count;
    }

    /// Reads what has come. Where what is there was not enough, reads as much again, if it comes soon: a long
    /// command is not looked at over and over.
    fn fill(&mut self, wire: &mut Wire<'_>, was_not_enough: bool) -> io::Result<()> {
        let wanted = match was_not_enough {
            true => self.filled.saturating_mul(2),
            false => self.filled,
        };
        while let Some(block) = self.ahead.pop() {
            self.bytes.truncate(self.filled);
            self.bytes.extend_from_slice(&block);
            self.filled = self.bytes.len();
            wire.note_ahead(self.ahead.bytes());
            if self.filled >= wanted.max(1) {
                return Ok(());
            }
        }
        if self.bytes.len() < wanted.max(self.filled) + READ_BYTES {
            self.bytes.resize(wanted.max(self.filled) + READ_BYTES, 0);
        } else if self.filled < READ_BYTES && self.bytes.len() > 4 * READ_BYTES {
            self.bytes.truncate(2 * READ_BYTES);
            self.bytes.shrink_to_fit();
        }
        loop {
            match wire.try_read(&mut self.bytes[self.filled..])? {
                Some(count) => self.filled += count,
                None => return Ok(()),
            }
            if self.filled >= wanted {
                return Ok(());
            }
        }
    }
}

/// Bytes of the stream that are kept until a dump has been loaded.
fn ahead_bytes_max(config: &Config) -> u64 {
    match config.replica_full_sync_buffer_limit {
        0 => primary::log_bytes_max(config),
        bytes => bytes,
    }
}

/// REPLCONF ACK, with what is durable where there is an append-only file. `early` bytes are acknowledged
/// that have not been applied: for a simulation.
fn acknowledgement(engine: &Engine, early: u64) -> Vec<u8> {
    let (replication, end) = (&engine.replication, engine.log.end());
    let offset = (replication.offset_of(end) + early).to_string();
    let mut words = vec!["REPLCONF".to_owned(), "ACK".to_owned(), offset];
    if engine.aof.is_listed.load(Ordering::Relaxed) {
        let durable = replication.offset_of(engine.aof.control.durable().min(end));
        words.extend(["FACK".to_owned(), durable.to_string()]);
    }
    let mut request = Vec::new();
    encode_request(&mut request, words);
    request
}
