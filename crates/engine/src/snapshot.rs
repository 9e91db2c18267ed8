//! Snapshots: the whole keyspace as it is at one instant, written as an RDB file.
//!
//! All shard locks are held for one instant, the cut; [`mantissa_store::snapshot`] says how the state of that
//! instant is kept while commands go on. Savers then walk the shards in steps that hold one lock for some ten
//! microseconds. Between steps they take the images that writers have handed over, so that these do not pile
//! up. Under the lock small strings are copied and collections shared; everything is encoded outside it. A
//! save that a client waits for has a saver for each core. A background save has one for every second core,
//! at a lower priority than all other threads, so that workers hardly wait for a processor; one more at
//! normal priority helps while too many handed-over images wait. Encoded bytes go in chunks to the thread
//! that writes and keeps the checksum. The chunks of a large value come one after the other.
//!
//! Memory: some chunks for each saver, the images that wait, and of a large collection the nodes that
//! writers change before its image has been encoded: an image gives up its nodes as they are encoded.

mod outlet;
mod saver;
#[cfg(test)]
mod tests;
mod texts;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use mantissa_persist::delay::KeyDelay;
use mantissa_persist::load::KeyUsage;
use mantissa_persist::storage::OutputFile;
use mantissa_persist::write::{FileFacts, Target, WriteOptions, Writer};
use mantissa_store::snapshot::Snapshot;
use mantissa_store::stream::StreamLevel;
use mantissa_store::{Keyspace, LockedShards};
use parking_lot::Mutex;

use crate::active_config::ActiveConfig;
use crate::engine::Engine;
use crate::state::progress::SnapshotProgress;
use mantissa_sys::clock::unix_ms;
use mantissa_sys::simulation;
use outlet::Chunk;
use saver::Saver;

/// Encoded chunks that may wait to be written.
const CHUNKS_WAITING_MAX: usize = 4;

/// The instant of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Its number: see [`crate::state::persistence::Cuts`].
    pub number: u64,
    /// The changes since the start; the snapshot includes them.
    pub changes: u64,
    /// Bytes that writers copied while the snapshot was written.
    pub copied_bytes: u64,
}

/// What a file says about itself that is written now, but for what holds at the cut: see [`write`].
pub fn facts() -> FileFacts {
    // The memory is the whole process's: in a simulation other runs would decide the length of the file.
    let used_bytes = if simulation::is_active() { 0 } else { mantissa_store::allocator::allocated_bytes() };
    FileFacts { created_s: unix_ms() / 1000, used_memory_bytes: used_bytes as u64, ..FileFacts::default() }
}

/// How many cores a snapshot may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// All of them, for a save that a client waits for.
    Hasty,
    /// Half of them, at low priority.
    Steady,
    /// Half of them, at the priority of all other threads: for replicas that are sent nothing else before
    /// they have the dump, since the log keeps for them what is written meanwhile.
    Brisk,
}

impl Pace {
    fn savers(self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        match self {
            Pace::Hasty => cores,
            Pace::Steady | Pace::Brisk => cores.div_ceil(2),
        }
    }
}

/// Locks all shards. At first it holds none while it waits for another: commands would have to wait too.
/// Fails once the server ends without saving: a script that has shards may never end.
fn lock_all<'a>(engine: &Engine, keyspace: &'a Keyspace) -> io::Result<LockedShards<'a>> {
    const ATTEMPTS: usize = 1000;
    for _ in 0..ATTEMPTS {
        if let Ok(locked) = keyspace.try_lock(keyspace.all_shards()) {
            return Ok(locked);
        }
        std::thread::yield_now();
    }
    let ends = || engine.persistence.ends_unsaved.load(Ordering::Relaxed);
    let locked = keyspace.lock_or_give_up(keyspace.all_shards(), ends);
    locked.ok_or_else(|| io::Error::other("the server ends without saving"))
}

/// What the savers of a snapshot share.
struct Job<'a> {
    keyspace: &'a Keyspace,
    progress: &'a SnapshotProgress,
    snapshot: Arc<Snapshot>,
    options: WriteOptions,
    /// The delay in force after a key; `None` where there was none when the snapshot began.
    key_delay: Option<&'a (dyn Fn() -> KeyDelay + Sync)>,
    /// What the file says about the use of a key with this access clock.
    usage_of: Option<&'a (dyn Fn(u32) -> KeyUsage + Sync)>,
    next_shard: AtomicUsize,
    /// Writing has failed: the walk goes on, since it has to end, but nothing is encoded.
    failed: AtomicBool,
    /// The first value that the file's reader could not read, as a sentence.
    refusal: Mutex<Option<String>>,
    /// Whether the file is not needed any more, with the same effect.
    is_void: &'a (dyn Fn() -> bool + Sync),
    /// Held by the sending saver, so that the chunks of a value stay together.
    stream: Mutex<()>,
    /// Held by the saver that has a large value from the disk in memory.
    brought: Mutex<()>,
    /// Chunks that have been written, for reuse.
    spare: Mutex<Vec<Vec<u8>>>,
}

impl Job<'_> {
    /// Whether nothing need be encoded any more.
    fn has_ended(&self) -> bool {
        // What has been left out once is missing for good.
        if (self.is_void)() {
            self.failed.store(true, Ordering::Relaxed);
        }
        self.failed.load(Ordering::Relaxed)
    }

    /// Ends the snapshot for a value that the file's reader could not read.
    fn refuse(&self, reason: &str) {
        self.refusal.lock().get_or_insert_with(|| reason.to_owned());
        self.failed.store(true, Ordering::Relaxed);
    }
}

/// Writes a snapshot of `keyspace` into `file`, which is not made durable. `at_cut` runs at the instant
/// whose state is written, while all shards are locked, on this thread; it should be quick. No shard may
/// be locked by this thread. Waits where another snapshot is under way. A dump that is written at a
/// steady pace ends with an error soon after the data have been flushed. The file says where replication
/// stood at the cut, if there is a log.
pub fn write(
    engine: &Engine,
    file: &mut dyn OutputFile,
    facts: &FileFacts,
    pace: Pace,
    at_cut: impl FnOnce(&mut LockedShards<'_>),
) -> io::Result<Cut> {
    let mutex = &engine.persistence.snapshot;
    let _one_at_a_time = simulation::lock(|| mutex.try_lock(), || mutex.lock());
    write_keyspace(engine, &engine.keyspace, file, facts, pace, at_cut)
}

/// Like [`write`], for a keyspace that is not the engine's or that no other snapshot is taken of.
pub fn write_keyspace(
    engine: &Engine,
    keyspace: &Keyspace,
    file: &mut dyn OutputFile,
    facts: &FileFacts,
    pace: Pace,
    at_cut: impl FnOnce(&mut LockedShards<'_>),
) -> io::Result<Cut> {
    let end = if pace == Pace::Steady && !facts.is_aof_base { End::AtFlush } else { End::Never };
    let plan = Plan { pace, target: Target::File, is_plain: false, end };
    write_as(engine, keyspace, file, facts, plan, at_cut)
}

/// Like [`write`], at a steady pace, for a base of the append-only file. Ends with an error soon after
/// `is_void` has become true.
pub fn write_base(
    engine: &Engine,
    file: &mut dyn OutputFile,
    is_void: &(dyn Fn() -> bool + Sync),
    at_cut: impl FnOnce(&mut LockedShards<'_>),
) -> io::Result<Cut> {
    let mutex = &engine.persistence.snapshot;
    let _one_at_a_time = simulation::lock(|| mutex.try_lock(), || mutex.lock());
    let facts = FileFacts { is_aof_base: true, ..facts() };
    let plan = Plan { pace: Pace::Steady, target: Target::File, is_plain: false, end: End::When(is_void) };
    write_as(engine, &engine.keyspace, file, &facts, plan, at_cut)
}

/// Like [`write`], at a steady pace, into a stream that is stored elsewhere: strings are not compressed,
/// there is no checksum, and a FLUSHALL does not end it.
pub fn write_for_archive(
    engine: &Engine,
    stream: &mut dyn OutputFile,
    at_cut: impl FnOnce(&mut LockedShards<'_>),
) -> io::Result<Cut> {
    let mutex = &engine.persistence.snapshot;
    let _one_at_a_time = simulation::lock(|| mutex.try_lock(), || mutex.lock());
    let plan = Plan { pace: Pace::Steady, target: Target::File, is_plain: true, end: End::Never };
    write_as(engine, &engine.keyspace, stream, &facts(), plan, at_cut)
}

/// Like [`write`], into a stream for replicas that `target` names. Every value has the form of the lowest
/// version that can express it. An error says if `target` can not read a value, and which. After an error
/// what was written has no end mark. A FLUSHALL does not end it.
pub fn write_for_replicas(
    engine: &Engine,
    stream: &mut dyn OutputFile,
    facts: &FileFacts,
    (target, pace): (Target, Pace),
    at_cut: impl FnOnce(&mut LockedShards<'_>),
) -> io::Result<Cut> {
    let mutex = &engine.persistence.snapshot;
    let _one_at_a_time = simulation::lock(|| mutex.try_lock(), || mutex.lock());
    let plan = Plan { pace, target, is_plain: false, end: End::Never };
    write_as(engine, &engine.keyspace, stream, facts, plan, at_cut)
}

/// What ends a snapshot before it is complete.
#[derive(Clone, Copy)]
enum End<'a> {
    Never,
    /// A FLUSHALL after the cut.
    AtFlush,
    /// This has become true.
    When(&'a (dyn Fn() -> bool + Sync)),
}

/// How a snapshot is written.
struct Plan<'a> {
    pace: Pace,
    target: Target,
    /// Without compression and checksum.
    is_plain: bool,
    end: End<'a>,
}

fn options_of(active: &ActiveConfig, target: Target, is_plain: bool) -> WriteOptions {
    WriteOptions {
        compress: active.config.rdbcompression && !is_plain,
        checksum: active.config.rdbchecksum && !is_plain,
        limits: active.settings.limits.clone(),
        target,
        streams: StreamLevel::highest(),
    }
}

fn write_as(
    engine: &Engine,
    keyspace: &Keyspace,
    file: &mut dyn OutputFile,
    facts: &FileFacts,
    Plan { pace, target, is_plain, end }: Plan<'_>,
    at_cut: impl FnOnce(&mut LockedShards<'_>),
) -> io::Result<Cut> {
    let active = engine.active_config();
    let now_ms = unix_ms();
    let usage_of = |clock: u32| saved_usage(&active, clock, now_ms);
    let policy = active.config.maxmemory_policy.name();
    let tells_usage = ["-lru", "-lfu", "-lrm"].iter().any(|end| policy.ends_with(end));
    let mut locked = lock_all(engine, keyspace)?;
    at_cut(&mut locked);
    let replication = engine.keyspace.is_logged().then(|| engine.stream_facts());
    let libraries = engine.scripting.libraries.snapshot();
    let changes = engine.persistence.dirty.total();
    let number = engine.persistence.cuts.next();
    let (snapshot, totals) = locked.begin_snapshot();
    drop(locked);

    let options = options_of(&active, target, is_plain);
    let mut writer = Writer::new(file, options.clone(), None);
    let keys = totals.iter().map(|total| total.keys).sum();
    let progress = &engine.persistence.progress;
    progress.begin(keys, &snapshot);
    let yields = pace != Pace::Hasty;
    let is_void = || {
        let is_over = match end {
            End::Never => false,
            End::AtFlush => engine.persistence.is_save_void(number),
            End::When(is_void) => is_void(),
        };
        is_over || (yields && engine.persistence.background_ends.load(Ordering::Relaxed))
    };
    let key_delay = || KeyDelay(engine.active_config().config.rdb_key_save_delay);
    let has_delay = key_delay() != KeyDelay::default();
    let job = Job {
        keyspace,
        progress,
        snapshot,
        options,
        key_delay: has_delay.then_some(&key_delay),
        usage_of: tells_usage.then_some(&usage_of),
        next_shard: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
        refusal: Mutex::default(),
        is_void: &is_void,
        stream: Mutex::new(()),
        brought: Mutex::new(()),
        spare: Mutex::new(Vec::new()),
    };
    let begun = writer.begin(&FileFacts { replication, ..facts.clone() });
    let begun =
        begun.and_then(|()| libraries.values().try_for_each(|library| writer.function(&library.code)));
    let begun = begun.and_then(|()| {
        let mut databases = totals.iter().enumerate().filter(|(_, total)| total.keys > 0);
        databases.try_for_each(|(number, total)| writer.database(number, total.keys, total.with_expiry))
    });
    let outcome = run(&job, pace, writer, begun);
    let copied_bytes = job.snapshot.copied_bytes();
    progress.end();
    if is_void() {
        return Err(io::Error::new(io::ErrorKind::Interrupted, "it is not wanted any more"));
    }
    outcome.map(|()| Cut { number, changes, copied_bytes })
}

/// Has everything encoded and written. The walk comes to its end whatever happens.
fn run<'j, 'a>(
    job: &'j Job<'a>,
    pace: Pace,
    writer: Writer<'a, &mut dyn OutputFile>,
    begun: io::Result<()>,
) -> io::Result<()> {
    job.failed.store(begun.is_err(), Ordering::Relaxed);
    let is_simulated = simulation::is_active();
    let savers = if is_simulated { 1 } else { pace.savers().min(job.keyspace.shard_count()) };
    let is_background = pace == Pace::Steady && !is_simulated;
    std::thread::scope(|scope| {
        let (sender, chunks) = mpsc::sync_channel::<Chunk>(CHUNKS_WAITING_MAX);
        let start = |work: fn(Saver<'j, 'a>)| {
            let sender = sender.clone();
            let body = move || work(Saver::new(job, sender));
            std::thread::Builder::new().name("saver".to_owned()).spawn_scoped(scope, body).ok()
        };
        let written = scope.spawn(move || begun.and_then(|()| write_chunks(job, writer, &chunks)));
        let work = if is_background { Saver::run_at_low_priority } else { Saver::run };
        let mut others = Vec::new();
        if is_background {
            others.push(start(|saver| saver.relieve(pile_bytes())));
        }
        others.extend((1..savers).map(|_| start(work)));
        // This thread's priority could not be raised again for what its caller does next.
        let first = if is_background { start(work) } else { None };
        let mut complete = true;
        if first.is_none() {
            let own = std::panic::AssertUnwindSafe(|| Saver::new(job, sender.clone()).run());
            complete = std::panic::catch_unwind(own).is_ok();
        }
        drop(sender);
        for other in others.into_iter().chain([first]).flatten() {
            complete &= other.join().is_ok();
        }
        let written = written.join().unwrap_or_else(|_| Err(io::Error::other("writing failed")));
        if let Some(reason) = job.refusal.lock().take() {
            return Err(io::Error::other(reason));
        }
        written.and_then(|()| if complete { Ok(()) } else { Err(encoding_failed()) })
    })
}

fn write_chunks<'a>(
    job: &Job<'_>,
    mut writer: Writer<'a, &mut dyn OutputFile>,
    chunks: &mpsc::Receiver<Chunk>,
) -> io::Result<()> {
    for mut chunk in chunks {
        if let Err(error) = writer.chunk(&chunk) {
            job.failed.store(true, Ordering::Relaxed);
            return Err(error);
        }
        chunk.clear();
        job.spare.lock().push(chunk);
    }
    // What lacks keys must not look whole to who reads a stream.
    if job.failed.load(Ordering::Relaxed) { Err(encoding_failed()) } else { writer.finish().map(drop) }
}

fn encoding_failed() -> io::Error {
    io::Error::other("encoding failed")
}

/// Bytes of images from writers that may wait for the savers at lower priority. Beyond that one at normal
/// priority helps, so that a save takes little memory on a busy machine.
fn pile_bytes() -> usize {
    const PILE_BYTES_MIN: usize = 8 << 20;
    const PILE_PART: usize = 32;
    PILE_BYTES_MIN.max(mantissa_store::allocator::allocated_bytes() / PILE_PART)
}

/// What a dump says about the use of a key with this access clock, under policies that look at it.
fn saved_usage(active: &ActiveConfig, clock: u32, now_ms: i64) -> KeyUsage {
    match active.settings.access_clock {
        mantissa_commands::AccessClock::LeastFrequentlyUsed { .. } => {
            KeyUsage { idle_s: None, frequency: Some(clock as u8) }
        }
        mantissa_commands::AccessClock::LeastRecentlyUsed
        | mantissa_commands::AccessClock::LeastRecentlyModified => KeyUsage {
            idle_s: Some(u64::from(mantissa_commands::idle_seconds(clock, now_ms))),
            frequency: None,
        },
    }
}
