//! Dump files: reading one at the start, writing them on demand and by save points.
//!
//! What a dump holds comes from [`crate::snapshot`].

use mantissa_sys::{clock, simulation};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use mantissa_persist::storage::OutputFile;
use mantissa_persist::write::{WriteOptions, Writer, save_file_if};
use parking_lot::{Mutex, MutexGuard};

use crate::context::Context;
use crate::engine::Engine;
use crate::host::Message;
use crate::live::Live;
use crate::loading::{Loading, Present, load_file};
use crate::snapshot::{self, Cut, Pace, Progress};
use crate::{notice, warning};
use mantissa_config::ShutdownFlags;
use mantissa_sys::clock::unix_ms;

/// Seconds after a failed background save before a save point tries again.
const RETRY_S: i64 = 5;

/// Counts changes, each worker in a cache line of its own.
pub struct Changes {
    counters: [ChangeCounter; CHANGE_COUNTER_COUNT],
    saved: AtomicU64,
}

#[derive(Default)]
#[repr(align(128))]
struct ChangeCounter(AtomicU64);

const CHANGE_COUNTER_COUNT: usize = 64;

impl Default for Changes {
    fn default() -> Self {
        Changes { counters: std::array::from_fn(|_| ChangeCounter::default()), saved: AtomicU64::new(0) }
    }
}

impl Changes {
    /// Counts changes of a worker.
    #[inline]
    pub fn add(&self, worker: usize, changes: u64) {
        self.counters[worker % CHANGE_COUNTER_COUNT].0.fetch_add(changes, Ordering::Relaxed);
    }

    /// All changes since the start.
    pub fn total(&self) -> u64 {
        self.counters.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum()
    }

    /// The changes that have not been saved.
    pub fn get(&self) -> u64 {
        self.total().saturating_sub(self.saved.load(Ordering::Relaxed))
    }

    /// Says that the changes up to this total have been saved.
    fn saved(&self, total: u64) {
        self.saved.fetch_max(total, Ordering::Relaxed);
    }
}

/// The order of what is saved. Each state that a dump may hold has the number of its cut, the instant whose
/// state it is: all shards are locked then. No dump takes the place of one with a later cut.
#[derive(Default)]
pub struct Cuts {
    last: AtomicU64,
    /// The number of the last FLUSHALL.
    flushed: AtomicU64,
    /// The number of the dump that has the file's name; held while one gets it.
    published: Mutex<u64>,
}

impl Cuts {
    /// The number of a cut at this instant. All shards must be locked, or those of another keyspace whose
    /// state is that of all.
    pub fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether the data have been flushed since the cut with this number.
    pub fn is_void(&self, number: u64) -> bool {
        self.flushed.load(Ordering::Relaxed) > number
    }

    /// Leave to give the dump of this cut the file's name; `None` where a later one has it.
    fn publish(&self, number: u64) -> Option<MutexGuard<'_, u64>> {
        let mut published = self.published.lock();
        (number > *published).then(|| {
            *published = number;
            published
        })
    }
}

/// The state after a FLUSHALL.
#[derive(Clone, Copy)]
struct Flush {
    number: u64,
    changes: u64,
}

/// What is known of dump files.
#[derive(Default)]
pub struct Persistence {
    /// Changes since the last successful save.
    pub dirty: Changes,
    /// When the last successful save ended (at first: when the server started), Unix time in s.
    pub last_save_s: AtomicI64,
    /// When a background save was last tried, Unix time in s.
    pub last_try_s: AtomicI64,
    /// How long the last background save took, in s; -1 before the first.
    pub last_duration_s: AtomicI64,
    /// The last background save failed.
    pub last_save_failed: AtomicBool,
    /// A background save is running.
    pub saving: AtomicBool,
    /// When it began, Unix time in s.
    pub saving_since_s: AtomicI64,
    /// One is to follow it: BGSAVE SCHEDULE.
    pub scheduled: AtomicBool,
    /// Held by whoever writes a dump of the data.
    pub writing: Mutex<()>,
    /// The order of dumps.
    pub cuts: Cuts,
    /// The last FLUSHALL, until its dump is written.
    flush: Mutex<Option<Flush>>,
    /// Held by who writes that dump.
    saving_flush: Mutex<()>,
    /// Held by who saves because the server is to end.
    ending: Mutex<()>,
    /// Held while a snapshot is under way.
    pub snapshot: Mutex<()>,
    /// How far it has come.
    pub progress: Progress,
    /// Bytes that writers copied for the last background save.
    pub last_copied_bytes: AtomicU64,
    /// A dump is being read; commands get an error meanwhile.
    pub loading: AtomicBool,
    /// That dump is large, and all shards are locked for it: who waits for one gets an error instead.
    pub reloading: AtomicBool,
    /// How far that has come.
    pub load: Loading,
    /// Saves since the start.
    pub save_count: AtomicU64,
    /// Keys that the last load found expired.
    pub loaded_expired: AtomicU64,
    /// Keys that the last load brought.
    pub loaded_keys: AtomicU64,
    /// The server ends, and has been saved for that.
    ends_saved: AtomicBool,
}

/// The dump file's path.
pub fn dump_path(live: &Live) -> PathBuf {
    Path::new(&live.config.dir).join(&live.config.dbfilename)
}

/// To be called once, before anything is loaded.
pub fn begin(engine: &Engine) {
    engine.persistence.last_save_s.store(unix_ms() / 1000, Ordering::Relaxed);
    engine.persistence.last_duration_s.store(-1, Ordering::Relaxed);
    engine.persistence.load.begin();
}

/// Reads the dump file, if there is one, while commands on data are refused.
pub fn load(engine: &Engine) -> Result<(), String> {
    let live = engine.live();
    let path = dump_path(&live);
    if !engine.storage.exists(&path).unwrap_or(false) {
        return Ok(());
    }
    let started = clock::now();
    let summary = load_file(engine, &engine.keyspace, &path, Present::None, false)?;
    notice!(
        "Done loading RDB, keys loaded: {}, keys expired: {}.",
        summary.keys_loaded,
        summary.keys_expired
    );
    notice!("DB loaded from disk: {:.3} seconds", clock::since(started).as_secs_f64());
    Ok(())
}

/// Writes a dump of the present state, there whole or not at all. No shard may be locked by this thread.
pub fn save(engine: &Engine, pace: Pace) -> std::io::Result<()> {
    save_and(engine, pace, || {})
}

/// The same; `at_cut` runs at the instant whose state is written.
fn save_and(engine: &Engine, pace: Pace, at_cut: impl FnOnce()) -> std::io::Result<()> {
    let mutex = &engine.persistence.writing;
    let _one_at_a_time = simulation::lock(|| mutex.try_lock(), || mutex.lock());
    publish(engine, |file| snapshot::write(engine, file, &snapshot::facts(), pace, |_| at_cut()))?;
    engine.persistence.save_count.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Makes the dump file of what `write` writes, unless there is a later one.
pub fn publish(
    engine: &Engine,
    write: impl FnOnce(&mut dyn OutputFile) -> std::io::Result<Cut>,
) -> std::io::Result<()> {
    let persistence = &engine.persistence;
    let path = dump_path(&engine.live());
    let started = clock::now();
    let admit = |cut: &Cut| Ok(persistence.cuts.publish(cut.number));
    let Cut { changes, copied_bytes, .. } = save_file_if(&*engine.storage, &path, write, admit)?;
    persistence.dirty.saved(changes);
    persistence.last_copied_bytes.store(copied_bytes, Ordering::Relaxed);
    persistence.last_save_s.store(unix_ms() / 1000, Ordering::Relaxed);
    persistence.last_save_failed.store(false, Ordering::Relaxed);
    notice!("DB saved on disk: {:.3} seconds", clock::since(started).as_secs_f64());
    Ok(())
}

/// Takes notice that all data have been flushed, which ends a background save that is under way. All shards
/// must be locked.
pub fn note_flush(engine: &Engine) {
    let persistence = &engine.persistence;
    let flush = Flush { number: persistence.cuts.next(), changes: persistence.dirty.total() };
    persistence.cuts.flushed.store(flush.number, Ordering::Relaxed);
    *persistence.flush.lock() = Some(flush);
}

/// Writes a dump of the state after the last FLUSHALL, if save points are configured: what was flushed does
/// not come back with the next start. It holds libraries of functions only.
#[cold]
pub fn save_flush(engine: &Engine) {
    let mutex = &engine.persistence.saving_flush;
    let _who_waited_finds_it_done = simulation::lock(|| mutex.try_lock(), || mutex.lock());
    let Some(Flush { number, changes }) = engine.persistence.flush.lock().take() else { return };
    let live = engine.live();
    if live.config.save_points.is_empty() {
        return;
    }
    let options = WriteOptions { checksum: live.config.rdbchecksum, ..WriteOptions::default() };
    let outcome = publish(engine, |file| {
        let mut writer = Writer::new(file, options, None);
        writer.begin(&snapshot::facts())?;
        let libraries = engine.scripting.libraries.snapshot();
        libraries.values().try_for_each(|library| writer.function(&library.code))?;
        writer.finish()?;
        Ok(Cut { number, changes, copied_bytes: 0 })
    });
    if let Err(error) = outcome {
        warning!("Error saving the DB on disk after it was flushed: {error}");
    }
}

/// Starts a background save. `at_cut` runs on its thread, at the instant whose state is saved, and again at
/// the end, since the save may fail before that instant. An error says why it does not start.
pub fn start_background_save(
    engine: &Engine,
    at_cut: impl Fn(&Engine) + Send + 'static,
) -> Result<(), &'static str> {
    let persistence = &engine.persistence;
    if persistence.saving.swap(true, Ordering::AcqRel) {
        return Err("Background save already in progress");
    }
    let now_s = unix_ms() / 1000;
    persistence.last_try_s.store(now_s, Ordering::Relaxed);
    persistence.saving_since_s.store(now_s, Ordering::Relaxed);
    let body = move |engine: &Engine| {
        let outcome = save_and(engine, Pace::Steady, || at_cut(engine));
        at_cut(engine);
        let duration_s = unix_ms() / 1000 - now_s;
        engine.persistence.last_duration_s.store(duration_s, Ordering::Relaxed);
        if let Err(error) = outcome.as_ref().map_err(std::io::Error::kind)
            && error == std::io::ErrorKind::Interrupted
        {
            notice!("Background saving ended: the data were flushed");
        } else if let Err(error) = outcome {
            warning!("Background saving error: {error}");
            engine.persistence.last_save_failed.store(true, Ordering::Relaxed);
        } else {
            notice!("Background saving terminated with success");
        }
        engine.persistence.saving.store(false, Ordering::Release);
    };
    if engine.spawn("saver", body).is_err() {
        persistence.saving.store(false, Ordering::Release);
        return Err("Could not start a thread to save");
    }
    notice!("Background saving started");
    Ok(())
}

/// Starts a background save if one is due.
pub fn tick(context: &mut Context) {
    let engine = context.engine;
    let persistence = &engine.persistence;
    if persistence.saving.load(Ordering::Acquire) || engine.aof.rewrite.is_running() {
        return;
    }
    if persistence.scheduled.swap(false, Ordering::Relaxed) {
        let _already_running_is_fine = start_background_save(engine, |_| {});
        return;
    }
    let now_s = context.now_ms / 1000;
    let dirty = persistence.dirty.get();
    let since_s = now_s - persistence.last_save_s.load(Ordering::Relaxed);
    let failed = persistence.last_save_failed.load(Ordering::Relaxed);
    if failed && now_s - persistence.last_try_s.load(Ordering::Relaxed) <= RETRY_S {
        return;
    }
    for point in &context.live.config.save_points {
        if dirty >= point.changes && since_s > point.seconds as i64 {
            notice!("{} changes in {} seconds. Saving...", point.changes, point.seconds);
            let _already_running_is_fine = start_background_save(engine, |_| {});
            return;
        }
    }
}

/// Saves if it is asked for, or if save points are configured and it is not forbidden. Writes wait meanwhile.
/// False if that failed and the server must not end: they go on.
pub fn save_before_exit(engine: &Engine, flags: ShutdownFlags) -> bool {
    let has_points = !engine.live().config.save_points.is_empty();
    if !flags.save && (flags.nosave || !has_points) {
        return true;
    }
    let mutex = &engine.persistence.ending;
    let _one_at_a_time = simulation::lock(|| mutex.try_lock(), || mutex.lock());
    notice!("Saving the final RDB snapshot before exiting.");
    let paused_until_ms = engine.pause.until_ms.swap(i64::MAX, Ordering::Relaxed);
    let Err(error) = save(engine, Pace::Hasty) else {
        engine.persistence.ends_saved.store(true, Ordering::Relaxed);
        return true;
    };
    if flags.force {
        warning!("Error trying to save the DB. Exit anyway: {error}");
        return true;
    }
    warning!("Error trying to save the DB, can't exit: {error}");
    // What CLIENT PAUSE or UNPAUSE has said meanwhile holds.
    let _changed_meanwhile = engine.pause.until_ms.compare_exchange(
        i64::MAX,
        paused_until_ms,
        Ordering::Relaxed,
        Ordering::Relaxed,
    );
    engine.send_all(|| Message::Resume);
    false
}

/// Saves once more if the server is to end saved and a write was on its way past the pause when it was saved:
/// what a client was told is in the dump. No worker may run any more. False if that failed: nobody can be
/// served again, so all that is left is to say so.
pub fn save_the_rest(engine: &Engine) -> bool {
    let persistence = &engine.persistence;
    if !persistence.ends_saved.load(Ordering::Relaxed) || persistence.dirty.get() == 0 {
        return true;
    }
    notice!("Saving what has changed meanwhile.");
    let outcome = save(engine, Pace::Hasty);
    if let Err(error) = &outcome {
        warning!("Error trying to save the DB, the last changes are lost: {error}");
    }
    outcome.is_ok()
}
