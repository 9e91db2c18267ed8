//! Dumps for replicas: one thread encodes a snapshot once for all that wait for it.
//!
//! The snapshot's cut is where the stream goes on: there, with all shards locked, the replicas' readers of
//! the log are registered. Encoded chunks go straight to the replicas, for their workers to send. The slowest
//! of them sets the pace, but is given up after `repl-timeout` without progress. A replica of this server's
//! kind gets what is written meanwhile between the chunks (`persist::framing::parts`), so that the log need
//! not keep it. Only where a replica has to be told the length beforehand, or `repl-diskless-sync` is off,
//! the dump goes through a file.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mantissa_config::Config;
use mantissa_persist::framing::parts;
use mantissa_persist::log::Start;
use mantissa_persist::storage::OutputFile;
use mantissa_persist::write::{FileFacts, Target, WriteOptions, Writer};
use mantissa_store::LockedShards;
use mantissa_sys::{clock, simulation};
use parking_lot::Mutex;

use super::primary::{self, name_of};
use crate::engine::{Engine, random_id};
use crate::snapshot::{self, Pace};
use crate::state::replication::{Piece, Replica, ReplicaState};
use crate::{notice, warning};

/// Bytes of a chunk.
const CHUNK_BYTES: usize = 128 << 10;
/// Bytes of chunks that may wait for one replica.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// How often who fills looks whether it is still wanted.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Starts a dump if replicas wait for one, none is under way, and no more replicas are to be waited for.
pub fn start_if_due(engine: &Engine, now_ms: i64) {
    let active = engine.active_config();
    if !is_due(engine, &active.config, now_ms) {
        return;
    }
    let serving = &engine.replication.serving;
    if serving.is_dumping.swap(true, Ordering::AcqRel) {
        return;
    }
    serving.dumping_since_s.store(now_ms / 1000, Ordering::Relaxed);
    let body = |engine: &Engine| {
        run(engine);
        engine.replication.serving.is_dumping.store(false, Ordering::Release);
        // Others have come meanwhile, or wanted something else.
        if !engine.stopping.load(Ordering::Relaxed) {
            start_if_due(engine, clock::unix_ms());
        }
    };
    if let Err(error) = engine.spawn("replica-dump", body) {
        serving.is_dumping.store(false, Ordering::Release);
        warning!("A dump for replicas could not be started: {error}");
    }
}

fn is_due(engine: &Engine, config: &Config, now_ms: i64) -> bool {
    let replicas = engine.replication.replicas.lock();
    let waiting: Vec<&Arc<Replica>> = replicas.iter().filter(|replica| waits(replica)).collect();
    let waits_ms = |replica: &&&Arc<Replica>| now_ms - replica.waits_since_ms.load(Ordering::Relaxed);
    let Some(longest_ms) = waiting.iter().map(|replica| waits_ms(&replica)).max() else { return false };
    let takes_mark = |replica: &&Arc<Replica>| replica.takes_unknown_length.load(Ordering::Relaxed);
    let expected = config.repl_diskless_sync_max_replicas as usize;
    !config.repl_diskless_sync
        || !waiting.iter().all(takes_mark)
        || waiting.iter().any(|replica| replica.is_urgent.load(Ordering::Relaxed))
        || (expected > 0 && waiting.len() >= expected)
        || longest_ms >= i64::from(config.repl_diskless_sync_delay) * 1000
}

/// Whether a replica waits for a dump that has not begun.
fn waits(replica: &Replica) -> bool {
    replica.state() == ReplicaState::WaitsForDump && !replica.is_in_dump.load(Ordering::Relaxed)
}

/// What replicas have asked for: they share a dump if that is the same.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Content {
    keys: bool,
    functions: bool,
    /// What they can read.
    target: Target,
}

impl Content {
    fn of(replica: &Replica) -> Self {
        Content {
            keys: !replica.without_keys.load(Ordering::Relaxed),
            functions: !replica.without_functions.load(Ordering::Relaxed),
            target: match replica.is_own_kind.load(Ordering::Relaxed) {
                true => Target::Replica,
                false => Target::of_replica(&replica.version.lock()),
            },
        }
    }

    fn is_all(self) -> bool {
        self.keys && self.functions
    }
}

/// A dump that is being made.
struct Dump<'e> {
    engine: &'e Engine,
    content: Content,
    /// What ends it, where its length is not told beforehand.
    mark: Option<String>,
    /// The replicas that are sent it; known at the cut.
    targets: Mutex<Vec<Arc<Replica>>>,
    is_cut: AtomicBool,
    timeout: Duration,
    pace: Pace,
}

/// Makes one dump, and has it sent.
fn run(engine: &Engine) {
    let active = engine.active_config();
    let config = &active.config;
    let waiting =
        engine.replication.replicas.lock().iter().filter(|it| waits(it)).cloned().collect::<Vec<_>>();
    let Some(first) = waiting.first() else { return };
    let content = Content::of(first);
    let shares = |replica: &&Arc<Replica>| Content::of(replica) == content;
    let takes_mark = |replica: &Arc<Replica>| replica.takes_unknown_length.load(Ordering::Relaxed);
    let takes_parts = |replica: &Arc<Replica>| replica.ahead_bytes_max.load(Ordering::Relaxed) > 0;
    let wants_mark = config.repl_diskless_sync || !content.is_all();
    let is_marked = wants_mark && waiting.iter().filter(shares).all(takes_mark);
    let dump = Dump {
        engine,
        content,
        mark: is_marked.then(random_id),
        targets: Mutex::default(),
        is_cut: AtomicBool::new(false),
        pace: match is_marked && waiting.iter().filter(shares).all(takes_parts) {
            true => Pace::Steady,
            false => Pace::Brisk,
        },
        timeout: Duration::from_secs(u64::from(config.repl_timeout)),
    };
    let began = clock::now();
    let way = if is_marked { "replicas sockets" } else { "disk" };
    notice!("Starting BGSAVE for SYNC with target: {way}");
    let outcome = match is_marked {
        true => dump.stream(),
        false => dump.spool(config),
    };
    let targets = std::mem::take(&mut *dump.targets.lock());
    match &outcome {
        Ok(bytes) => notice!(
            "Dump for {} replicas ended with success: {bytes} bytes, {:.3} seconds",
            targets.len(),
            clock::since(began).as_secs_f64()
        ),
        Err(error) => {
            warning!("Dump for replicas failed: {error}");
            let reason = format!("the dump for it has failed: {error}");
            let targets = if targets.is_empty() { waiting } else { targets };
            targets.iter().for_each(|replica| primary::give_up(engine, replica, reason.clone()));
        }
    }
}

impl Dump<'_> {
    /// Sends the dump while it is encoded. Returns its length.
    fn stream(&self) -> io::Result<u64> {
        let mut outlet = Outlet { dump: self, chunk: Vec::new(), bytes: 0 };
        self.write(&mut outlet)?;
        outlet.pass()?;
        let mark = Arc::new(self.mark.clone().unwrap_or_default().into_bytes());
        self.give_each(|has_parts| if has_parts { Piece::End } else { Piece::Bare(Arc::clone(&mark)) })?;
        self.end(true);
        Ok(outlet.bytes)
    }

    /// Writes the dump to a file, then sends that. Returns its length.
    fn spool(&self, config: &Config) -> io::Result<u64> {
        let storage = &*self.engine.storage;
        let number = self.engine.replication.serving.dump_count.fetch_add(1, Ordering::Relaxed);
        let name = format!("temp-repl-{}-{number}.rdb", std::process::id());
        let path = Path::new(&config.dir).join(name);
        let outcome = storage.create_output(&path).and_then(|mut file| {
            self.write(&mut *file)?;
            file.sync()?;
            drop(file);
            self.send_file(&path)
        });
        let _may_not_be_there = storage.remove(&path);
        outcome
    }

    fn send_file(&self, path: &Path) -> io::Result<u64> {
        let mut file = self.engine.storage.open(path)?;
        let length = file.length()?;
        for replica in self.targets.lock().iter() {
            replica.set_state(ReplicaState::ReceivesDump);
        }
        self.give(Arc::new(format!("${length}\r\n").into_bytes()))?;
        let mut left = length;
        while left > 0 {
            let mut chunk = vec![0; left.min(CHUNK_BYTES as u64) as usize];
            file.read_exact(&mut chunk)?;
            left -= chunk.len() as u64;
            self.give(Arc::new(chunk))?;
        }
        self.end(false);
        Ok(length)
    }

    /// Writes what the dump holds.
    fn write(&self, file: &mut dyn OutputFile) -> io::Result<()> {
        let engine = self.engine;
        if self.content.keys {
            let at_cut = |locked: &mut LockedShards<'_>| self.cut(locked);
            return snapshot::write_for_replicas(
                engine,
                file,
                &snapshot::facts(),
                (self.content.target, self.pace),
                at_cut,
            )
            .map(drop);
        }
        let (libraries, replication) = {
            let mut locked = engine.keyspace.lock(engine.keyspace.all_shards());
            self.cut(&mut locked);
            (engine.scripting.libraries.snapshot(), Some(engine.stream_facts()))
        };
        let checksum = engine.active_config().config.rdbchecksum;
        let mut writer = Writer::new(
            file,
            WriteOptions { checksum, target: self.content.target, ..WriteOptions::default() },
            None,
        );
        writer.begin(&FileFacts { replication, ..snapshot::facts() })?;
        if self.content.functions {
            libraries.values().try_for_each(|library| writer.function(&library.code))?;
        }
        writer.finish().map(drop)
    }

    /// At the instant whose state is dumped: registers the readers of the stream, and tells the replicas.
    fn cut(&self, locked: &mut LockedShards<'_>) {
        let engine = self.engine;
        let replication = &engine.replication;
        super::backlog::begin(engine, locked);
        let start = if replication.is_replica() { Start::Here } else { Start::Fresh };
        let bytes_max = primary::log_bytes_max(&engine.active_config().config);
        let (id, offset) = (replication.history().id, primary::offset(engine));
        let takes = |replica: &&Arc<Replica>| {
            let takes_mark = replica.takes_unknown_length.load(Ordering::Relaxed);
            waits(replica) && Content::of(replica) == self.content && (self.mark.is_none() || takes_mark)
        };
        let targets: Vec<_> = replication.replicas.lock().iter().filter(takes).cloned().collect();
        for replica in &targets {
            let mut answer = String::new();
            if !replica.is_old.load(Ordering::Relaxed) {
                answer = format!("+FULLRESYNC {id} {offset}\r\n");
            }
            let ahead_bytes_max = replica.ahead_bytes_max.load(Ordering::Relaxed);
            let has_parts = self.mark.is_some() && ahead_bytes_max > 0;
            match &self.mark {
                Some(_) if has_parts => answer.push_str(parts::HEADER),
                Some(mark) => answer.push_str(&format!("$EOF:{mark}\r\n")),
                None => {}
            }
            let mut outgoing = replica.outgoing.lock();
            if outgoing.is_closed {
                continue;
            }
            if !replica.is_dump_only.load(Ordering::Relaxed) {
                outgoing.reader = engine.log.register(start, bytes_max, None).ok();
            }
            let answer = Arc::new(answer.into_bytes());
            outgoing.push(if has_parts { Piece::Begin(answer) } else { Piece::Bare(answer) });
            (outgoing.has_parts, outgoing.ahead_left) = (has_parts, ahead_bytes_max);
            replica.is_in_dump.store(true, Ordering::Relaxed);
            replica.is_streamed_to.store(self.mark.is_some(), Ordering::Relaxed);
            if self.mark.is_some() {
                replica.set_state(ReplicaState::ReceivesDump);
            }
            drop(outgoing);
            primary::wake_worker(engine, replica);
        }
        *self.targets.lock() = targets;
        self.is_cut.store(true, Ordering::Release);
    }

    /// Gives a chunk to all replicas, and waits until none of them has too many. Fails if nobody is left.
    fn give(&self, chunk: Arc<Vec<u8>>) -> io::Result<()> {
        self.give_each(|has_parts| match has_parts {
            true => Piece::Part(Arc::clone(&chunk)),
            false => Piece::Bare(Arc::clone(&chunk)),
        })
    }

    /// Gives each replica what `piece_for` has for it, which is told whether the dump goes in parts.
    fn give_each(&self, piece_for: impl Fn(bool) -> Piece) -> io::Result<()> {
        let mut targets = self.targets.lock();
        targets.retain(|replica| {
            let mut outgoing = replica.outgoing.lock();
            if outgoing.is_closed || outgoing.failure.is_some() {
                return false;
            }
            let piece = piece_for(outgoing.has_parts);
            outgoing.push(piece);
            drop(outgoing);
            primary::wake_worker(self.engine, replica);
            true
        });
        if targets.is_empty() {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "no replica is left"));
        }
        targets.iter().try_for_each(|replica| self.wait_for(replica))
    }

    /// Waits until a replica has room for more, or is given up.
    fn wait_for(&self, replica: &Replica) -> io::Result<()> {
        let mut outgoing = replica.outgoing.lock();
        let (mut least, mut since) = (usize::MAX, clock::now());
        while outgoing.dump_bytes > WAITING_BYTES_MAX && !outgoing.is_closed && outgoing.failure.is_none() {
            if self.engine.stopping.load(Ordering::Relaxed) {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "the server ends"));
            }
            if outgoing.dump_bytes < least {
                (least, since) = (outgoing.dump_bytes, clock::now());
            }
            if clock::since(since) > self.timeout {
                drop(outgoing);
                let reason = format!(
                    "it has taken nothing of the dump for {} seconds (repl-timeout)",
                    self.timeout.as_secs()
                );
                primary::give_up(self.engine, replica, reason);
                return Ok(());
            }
            if simulation::is_active() {
                drop(outgoing);
                simulation::wait(Some(LOOK_INTERVAL));
                outgoing = replica.outgoing.lock();
            } else {
                replica.has_sent.wait_until(&mut outgoing, Instant::now() + LOOK_INTERVAL);
            }
        }
        Ok(())
    }

    /// Notes that the dump is complete.
    fn end(&self, awaits_ack: bool) {
        for replica in self.targets.lock().iter() {
            let mut outgoing = replica.outgoing.lock();
            // In parts its end is told, so that the stream can follow at once.
            let awaits_ack = awaits_ack && !outgoing.has_parts && !outgoing.has_acked;
            (outgoing.dump_ended, outgoing.awaits_ack) = (true, awaits_ack);
            drop(outgoing);
            if awaits_ack {
                notice!(
                    "Streamed RDB transfer with replica {} succeeded (socket). Waiting for REPLCONF ACK from \
                     replica to enable streaming",
                    name_of(replica)
                );
            }
            primary::wake_worker(self.engine, replica);
        }
    }
}

/// Takes the encoded dump, for the replicas.
struct Outlet<'d, 'e> {
    dump: &'d Dump<'e>,
    chunk: Vec<u8>,
    bytes: u64,
}

impl Outlet<'_, '_> {
    /// Passes on what has been collected.
    fn pass(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK_BYTES));
        self.bytes += chunk.len() as u64;
        self.dump.give(Arc::new(chunk))
    }
}

impl Write for Outlet<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        // Before the cut nobody is to be sent anything.
        if self.chunk.len() >= CHUNK_BYTES && self.dump.is_cut.load(Ordering::Acquire) {
            self.pass()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl OutputFile for Outlet<'_, '_> {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
