//! Dump files: reading one at the start, writing them on demand and by save points.
//!
//! What a dump holds comes from [`crate::snapshot`].

use mantissa_sys::{clock, simulation};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_persist::storage::OutputFile;
use mantissa_persist::write::{ReplicationFacts, WriteOptions, Writer, save_file_if};

use crate::active_config::ActiveConfig;
use crate::context::Context;
use crate::engine::Engine;
use crate::host::Message;
use crate::loading::{Present, load_file};
use crate::snapshot::{self, Cut, Pace};
use crate::state::persistence::Flush;
use crate::{notice, warning};
use mantissa_config::ShutdownFlags;
use mantissa_sys::clock::unix_ms;

/// Seconds after a failed background save before a save point tries again.
const RETRY_S: i64 = 5;
/// What the log says of a shutdown that does not end the server.
pub const FAILED_SHUTDOWN_LOG: &str =
    "Errors trying to shut down the server. Check the logs for more information.";

/// The dump file's path.
pub fn dump_path(active: &ActiveConfig) -> PathBuf {
    Path::new(&active.config.dir).join(&active.config.dbfilename)
}

/// The length of the dump file; 0 if there is none.
pub fn dump_bytes(engine: &Engine) -> u64 {
    engine.storage.length_of(&dump_path(&engine.active_config()))
}

/// Sets the times of the start. To be called once, before anything is loaded.
pub fn begin(engine: &Engine) {
    engine.persistence.last_save_s.store(unix_ms() / 1000, Ordering::Relaxed);
    engine.persistence.last_duration_s.store(-1, Ordering::Relaxed);
}

/// Why the dump file must not be overwritten, if it was loaded in part and nobody has allowed it.
pub fn overwrite_refusal(engine: &Engine) -> Option<String> {
    let active = engine.active_config();
    let reason = engine.persistence.partial.refusal(Some(&dump_path(&active)));
    reason.filter(|_| !active.config.rdb_overwrite_after_skip)
}

/// Reads the dump file, if there is one, while commands on data are refused. Returns where replication stood.
pub fn load(engine: &Engine) -> Result<Option<ReplicationFacts>, String> {
    let active = engine.active_config();
    let path = dump_path(&active);
    if !engine.storage.exists(&path).unwrap_or(false) {
        return Ok(None);
    }
    let started = clock::now();
    let summary = load_file(engine, &engine.keyspace, &path, Present::None, false)
        .map_err(|reason| format!("{reason} Terminating server after rdb file reading failure."))?;
    let (loaded, expired) = (summary.keys_loaded, summary.keys_expired);
    let empty = match summary.keys_empty {
        0 => String::new(),
        count => format!(", empty keys skipped: {count}"),
    };
    notice!("Done loading RDB, keys loaded: {loaded}, keys expired: {expired}{empty}.");
    notice!("DB loaded from disk: {:.3} seconds", clock::since(started).as_secs_f64());
    Ok(summary.replication)
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

/// Makes the dump file of what `write` writes, unless there is a later one. Fails if the file that is there
/// was loaded in part.
pub fn publish(
    engine: &Engine,
    write: impl FnOnce(&mut dyn OutputFile) -> std::io::Result<Cut>,
) -> std::io::Result<()> {
    let persistence = &engine.persistence;
    let path = dump_path(&engine.active_config());
    if let Some(reason) = overwrite_refusal(engine) {
        return Err(std::io::Error::other(reason));
    }
    let started = clock::now();
    let admit = |cut: &Cut| Ok(persistence.cuts.publish(cut.number));
    let Cut { changes, copied_bytes, .. } = save_file_if(&*engine.storage, &path, write, admit)?;
    persistence.partial.forget(&path);
    persistence.dirty.saved(changes);
    persistence.last_copied_bytes.store(copied_bytes, Ordering::Relaxed);
    persistence.last_save_s.store(unix_ms() / 1000, Ordering::Relaxed);
    persistence.last_save_failed.store(false, Ordering::Relaxed);
    notice!("DB saved on disk: {:.3} seconds", clock::since(started).as_secs_f64());
    Ok(())
}

/// Records that all data have been flushed, which ends a background save that is under way. All shards must
/// be locked.
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
    let active = engine.active_config();
    if active.config.save_points.is_empty() {
        return;
    }
    let options = WriteOptions { checksum: active.config.rdbchecksum, ..WriteOptions::default() };
    let outcome = publish(engine, |file| {
        let mut writer = Writer::new(file, options, None);
        writer.begin(&snapshot::facts())?;
        let libraries = engine.scripting.libraries.snapshot();
        libraries.values().try_for_each(|library| writer.function(&library.code))?;
        writer.finish()?;
        Ok(Cut { number, changes, copied_bytes: 0 })
    });
    if let Err(error) = outcome {
        let path = dump_path(&active);
        warning!("Error saving the DB on disk after it was flushed: {}: {error}", path.display());
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
    persistence.cancelled.store(false, Ordering::Relaxed);
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
            notice!("Background saving ended: the data were flushed, it was cancelled, or the server ends");
        } else if let Err(error) = outcome {
            warning!("Background saving error: {}: {error}", dump_path(&engine.active_config()).display());
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

/// Ends a background save that is under way or scheduled; it leaves no file. False if there is none.
pub fn cancel_background_save(engine: &Engine) -> bool {
    let persistence = &engine.persistence;
    if persistence.saving.load(Ordering::Acquire) {
        persistence.cancelled.store(true, Ordering::Relaxed);
        return true;
    }
    persistence.scheduled.swap(false, Ordering::Relaxed)
}

/// Starts a background save if one is due.
pub fn tick(context: &mut Context) {
    let engine = context.engine;
    let persistence = &engine.persistence;
    if persistence.loading.load(Ordering::Acquire) {
        return;
    }
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
    for point in &context.active.config.save_points {
        if dirty >= point.changes && since_s > point.seconds as i64 {
            notice!("{} changes in {} seconds. Saving...", point.changes, point.seconds);
            let _already_running_is_fine = start_background_save(engine, |_| {});
            return;
        }
    }
}

/// Has saves and rewrites in the background end with an error: the server is about to end.
pub fn end_background(engine: &Engine) {
    let persistence = &engine.persistence;
    if persistence.background_ends.swap(true, Ordering::Relaxed) {
        return;
    }
    if persistence.saving.load(Ordering::Acquire) {
        warning!("There is a background save under way, which ends now.");
    }
    if engine.aof.rewrite.is_running() {
        warning!("There is a rewrite of the append-only file under way, which ends now.");
    }
}

/// Waits until what [`end_background`] ends has removed its temporary files, but not long.
pub fn wait_for_background(engine: &Engine) {
    let is_busy = || engine.persistence.saving.load(Ordering::Acquire) || engine.aof.rewrite.is_running();
    wait_while(is_busy, Duration::from_secs(2));
}

/// Waits as long as something is busy, but not longer than `wait_max`.
pub fn wait_while(is_busy: impl Fn() -> bool, wait_max: Duration) {
    const LOOK_INTERVAL: Duration = Duration::from_millis(1);
    let deadline = clock::now() + wait_max;
    while is_busy() && clock::now() < deadline {
        simulation::sleep(LOOK_INTERVAL);
    }
}

/// Whether the engine may end although what `appendonly yes` is to begin with is still being written: without
/// it the next start would find no data.
fn may_end_without_log(engine: &Engine, flags: ShutdownFlags) -> bool {
    let is_listed = engine.aof.is_listed.load(Ordering::Relaxed);
    if is_listed || !engine.active_config().config.appendonly || !engine.aof.rewrite.is_running() {
        return true;
    }
    if flags.force {
        warning!("Writing initial AOF. Exit anyway.");
    } else {
        warning!("Writing initial AOF, can't exit.");
    }
    flags.force
}

/// Saves if it is asked for, or if save points are configured and it is not forbidden. Writes wait meanwhile,
/// and what is written in the background ends. False if that failed and the engine must not end: then writes
/// go on.
pub fn save_before_exit(engine: &Engine, flags: ShutdownFlags) -> bool {
    may_end_without_log(engine, flags) && save_at_end(engine, flags)
}

/// The same for an engine that ends in any case.
pub fn save_at_end(engine: &Engine, flags: ShutdownFlags) -> bool {
    end_background(engine);
    let is_saved = save_last(engine, flags);
    if !is_saved {
        engine.persistence.background_ends.store(false, Ordering::Relaxed);
    }
    is_saved
}

/// Has an engine go on that was to end and does not.
pub fn go_on(engine: &Engine) {
    engine.persistence.background_ends.store(false, Ordering::Relaxed);
    if engine.pause.until_ms.load(Ordering::Relaxed) == i64::MAX {
        engine.pause.end();
        engine.heed_pause(unix_ms());
        engine.send_all(|| Message::Resume);
    }
}

fn save_last(engine: &Engine, flags: ShutdownFlags) -> bool {
    let has_points = !engine.active_config().config.save_points.is_empty();
    if !flags.save && (flags.nosave || !has_points) {
        return true;
    }
    if !flags.save && overwrite_refusal(engine).is_some() && engine.persistence.dirty.get() == 0 {
        // The file has all that was loaded, and more.
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
    let path = dump_path(&engine.active_config());
    let path = path.display();
    if flags.force {
        warning!("Error trying to save the DB. Exit anyway. {path}: {error}");
        return true;
    }
    warning!("Error trying to save the DB, can't exit. {path}: {error}");
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

/// Saves once more if a write has run since the final save, so that the dump has every write that was
/// confirmed to a client. No worker may run any more. False if saving failed.
pub fn save_the_rest(engine: &Engine) -> bool {
    let persistence = &engine.persistence;
    if !persistence.ends_saved.load(Ordering::Relaxed) || persistence.dirty.get() == 0 {
        return true;
    }
    notice!("Saving what has changed meanwhile.");
    let outcome = save(engine, Pace::Hasty);
    if let Err(error) = &outcome {
        let path = dump_path(&engine.active_config());
        warning!("Error trying to save the DB to {}, the last changes are lost: {error}", path.display());
    }
    outcome.is_ok()
}
