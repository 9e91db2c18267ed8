//! Rewriting: a new base with the data as they are, and a new increment that begins at the same instant.
//!
//! The instant is the cut of a snapshot, when all shards are locked. What was logged before it goes to the
//! old increment, what comes after it to the new one. The log's writer lists the new increment in the
//! manifest once the old one is durable; the thread that writes the base puts it into the manifest, in the
//! place of all that it replaces, once it is whole and durable. At any time the manifest names files that
//! hold everything.
//!
//! Switching the log on is the same, but that until the base is there nothing is listed: so what the manifest
//! named before, if anything, stays what a start would load. So is the first rewrite after `dir` has changed:
//! the log goes on in the new folder.

use std::ffi::OsStr;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use mantissa_persist::aof::Rebuilder;
use mantissa_persist::load::{LoadOptions, Loader};
use mantissa_persist::storage::{Storage, StorageFile};
use mantissa_store::LockedShards;

use super::backup::{self, SWITCHED_OFF};
use crate::context::Context;
use crate::engine::Engine;
use crate::replication::{backlog, waits};
use crate::state::aof::Files;
use crate::{notice, persistence, snapshot, warning};
use mantissa_sys::clock::unix_ms;
use mantissa_sys::simulation::{self, Fault};

/// Failures in a row that are retried without delay.
const FAILURES_WITHOUT_DELAY: u64 = 3;
/// The first delay of a retry, in s; doubled after each further failure.
const RETRY_DELAY_S: i64 = 60;
/// The longest delay of a retry, in s.
const RETRY_DELAY_MAX_S: i64 = 3600;

/// Why none may begin: what would be replaced was loaded in part.
pub fn refusal(engine: &Engine) -> Option<String> {
    let reason = engine.persistence.partial.refusal(None);
    reason.filter(|_| !engine.active_config().config.rdb_overwrite_after_skip)
}

/// Starts one in the background. An error says why not.
pub fn start(engine: &Engine) -> Result<(), &'static str> {
    start_as(engine, run)
}

/// Whether what began in this epoch is not wanted any more.
fn is_void(engine: &Engine, epoch: u64) -> bool {
    let ends = engine.persistence.background_ends.load(Ordering::Relaxed);
    ends || engine.aof.rewrite.epoch.load(Ordering::SeqCst) != epoch
}

/// Waits until one that has been made void has ended: a client may ask for the next one then. That takes
/// longer than some milliseconds only where there is little processor time, or where the disk hangs.
pub(super) fn wait_for_void(engine: &Engine) {
    persistence::wait_while(|| engine.aof.rewrite.is_running(), Duration::from_secs(10));
}

/// Starts work in the background that counts as a rewrite: no other runs meanwhile, and no dump is begun. It
/// gets the epoch in which it has begun.
pub(super) fn start_as(
    engine: &Engine,
    work: impl FnOnce(&Engine, u64) -> Result<(), String> + Send + 'static,
) -> Result<(), &'static str> {
    let rewrite = &engine.aof.rewrite;
    if engine.aof.is_lost() {
        return Err("The append only file can not be written");
    }
    if rewrite.running.swap(true, Ordering::AcqRel) {
        return Err("Background append only file rewriting already in progress");
    }
    if !rewrite.take_number() {
        rewrite.running.store(false, Ordering::Release);
        return Err("The append only file can not go on to the file of the last rewrite yet");
    }
    // Who begins to switch it off from here on makes this one void.
    let epoch = rewrite.epoch.load(Ordering::SeqCst);
    if rewrite.switching_off.load(Ordering::SeqCst) > 0 {
        rewrite.takes_number.store(false, Ordering::Release);
        rewrite.running.store(false, Ordering::Release);
        return Err("The append only file is being switched off");
    }
    rewrite.is_scheduled.store(false, Ordering::Relaxed);
    rewrite.since_s.store(unix_ms() / 1000, Ordering::Relaxed);
    rewrite.count.fetch_add(1, Ordering::Relaxed);
    let body = move |engine: &Engine| {
        let rewrite = &engine.aof.rewrite;
        let outcome = work(engine, epoch);
        rewrite.takes_number.store(false, Ordering::Release);
        let now_s = unix_ms() / 1000;
        rewrite.last_duration_s.store(now_s - rewrite.since_s.load(Ordering::Relaxed), Ordering::Relaxed);
        rewrite.ended_s.store(now_s, Ordering::Relaxed);
        match outcome {
            Ok(()) => {
                rewrite.has_failed.store(false, Ordering::Relaxed);
                rewrite.failures.store(0, Ordering::Relaxed);
                notice!("Background AOF rewrite finished successfully");
            }
            Err(reason) if is_void(engine, epoch) => {
                notice!("Background AOF rewrite ended: it is not wanted any more");
                let ends = engine.persistence.background_ends.load(Ordering::Relaxed);
                backup::note_failed_rewrite(engine, if ends { "the server ended" } else { &reason });
            }
            Err(reason) => {
                rewrite.has_failed.store(true, Ordering::Relaxed);
                rewrite.failures.fetch_add(1, Ordering::Relaxed);
                warning!("Background AOF rewrite failed: {reason}");
                backup::note_failed_rewrite(engine, &reason);
            }
        }
        engine.aof.control.hold_syncs(false);
        rewrite.running.store(false, Ordering::Release);
    };
    if engine.spawn("rewriter", body).is_err() {
        rewrite.takes_number.store(false, Ordering::Release);
        rewrite.running.store(false, Ordering::Release);
        return Err("Could not start a thread to rewrite");
    }
    notice!("Background append only file rewriting started");
    Ok(())
}

/// Starts one if it is due.
pub fn tick(context: &mut Context) {
    let (engine, config) = (context.engine, &context.active.config);
    let (aof, rewrite) = (&engine.aof, &engine.aof.rewrite);
    if rewrite.is_running() || engine.persistence.saving.load(Ordering::Acquire) {
        return;
    }
    if engine.persistence.loading.load(Ordering::Acquire) {
        return;
    }
    if refusal(engine).is_some() {
        return;
    }
    let failures = rewrite.failures.load(Ordering::Relaxed);
    if failures >= FAILURES_WITHOUT_DELAY {
        let doublings = (failures - FAILURES_WITHOUT_DELAY).min(16) as u32;
        let retry_delay_s = (RETRY_DELAY_S << doublings).min(RETRY_DELAY_MAX_S);
        if context.now_ms / 1000 < rewrite.ended_s.load(Ordering::Relaxed) + retry_delay_s {
            return;
        }
    }
    let is_listed = aof.is_listed.load(Ordering::Relaxed);
    // The context's configuration may be older than the switching off that has cleared `is_listed`.
    let is_to_begin = || !is_listed && engine.active_config().config.appendonly;
    let is_wanted = rewrite.is_scheduled.load(Ordering::Relaxed) || is_to_begin();
    if is_wanted || (is_listed && has_grown(engine, config)) {
        let _one_that_runs_is_fine = start(engine);
    }
}

/// Whether the files have grown so much that they are to be rewritten.
fn has_grown(engine: &Engine, config: &mantissa_config::Config) -> bool {
    let (bytes, base) = (engine.aof.bytes(), engine.aof.base_bytes.load(Ordering::Relaxed).max(1));
    let percentage = u64::from(config.auto_aof_rewrite_percentage);
    if percentage == 0 || bytes <= config.auto_aof_rewrite_min_size {
        return false;
    }
    let growth = (u128::from(bytes) * 100 / u128::from(base)).saturating_sub(100);
    if growth < u128::from(percentage) {
        return false;
    }
    notice!("Starting automatic rewriting of AOF on {growth}% growth");
    true
}

/// A file that takes nothing any more once the rewrite is void.
struct Wanted<'a> {
    file: Box<dyn StorageFile>,
    is_void: &'a dyn Fn() -> bool,
}

impl Write for Wanted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.is_void)() {
            return Err(io::Error::other(SWITCHED_OFF));
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A rewrite that is under way.
struct Work<'e> {
    engine: &'e Engine,
    /// The files as they were when it began.
    files: Files,
    /// They are those that the log goes to; else it is off, in another folder, or to be switched on by this.
    is_listed: bool,
    epoch: u64,
    temporary: PathBuf,
    /// The base begins with a dump: else it is commands.
    is_rdb: bool,
    /// The number and path of the new increment, if the log is on or to be switched on.
    increment: Option<(i64, PathBuf)>,
}

fn run(engine: &Engine, epoch: u64) -> Result<(), String> {
    let config = &engine.active_config().config;
    let storage = &*engine.storage;
    let listed = engine.aof.files.lock().clone();
    let is_on = listed.is_some();
    let listed = listed.filter(|files| files.directory == Files::directory(config));
    let is_listed = listed.is_some();
    let files = match listed {
        Some(files) => files,
        None => Files::find(storage, config)?,
    };
    let logs = is_on || config.appendonly;
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    storage.create_directory(&files.directory).map_err(|error| failed(&files.directory, error))?;
    let temporary = files.path(OsStr::new(&format!("temp-rewriteaof-bg-{}.aof", std::process::id())));
    let increment = logs.then(|| next_increment(&files));
    let file = match &increment {
        Some((_, path)) => {
            if !is_listed {
                // The log may still go to the file of this name of one that has failed.
                let _may_not_be_there = storage.remove(path);
            }
            Some(storage.create(path).map_err(|error| failed(path, error))?)
        }
        None => None,
    };
    engine.aof.control.hold_syncs(config.no_appendfsync_on_rewrite);
    let is_rdb = config.aof_use_rdb_preamble;
    let work = Work { engine, files, is_listed, epoch, temporary, is_rdb, increment };
    let outcome = work.write_base(file).and_then(|()| work.finish(config.aof_disable_auto_gc));
    if outcome.is_err() {
        let _may_not_be_there = storage.remove(&work.temporary);
    } else {
        engine.persistence.partial.keep_only(&persistence::dump_path(&engine.active_config()));
        // Where the log was off, what it has is durable from now on.
        waits::serve(engine, false);
    }
    outcome
}

/// Turns a base from a dump into commands. An error follows soon after `is_void` has become true.
pub(super) fn make_commands(engine: &Engine, base: &Path, is_void: &dyn Fn() -> bool) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", base.display());
    let commands = base.with_extension("commands");
    let dump = BufReader::with_capacity(1 << 20, engine.storage.open(base).map_err(failed)?);
    let options = LoadOptions {
        limits: engine.active_config().settings.limits.clone(),
        now_ms: unix_ms(),
        skip_expired: false,
        ..LoadOptions::default()
    };
    let file = engine.storage.create(&commands).map_err(failed)?;
    let mut target = Rebuilder::new(Wanted { file, is_void });
    let outcome = Loader::new(dump, None, options).load(&mut target).map_err(|error| error.to_string());
    let outcome = outcome
        .and_then(|_| target.finish().and_then(|mut out| out.file.sync()).map_err(failed))
        .and_then(|()| engine.storage.rename(&commands, base).map_err(failed));
    if outcome.is_err() {
        let _may_not_be_there = engine.storage.remove(&commands);
    }
    outcome
}

/// The number and path of the increment that will follow the last one.
pub(super) fn next_increment(files: &Files) -> (i64, PathBuf) {
    let mut manifest = files.manifest.clone();
    let path = files.path(&manifest.next_increment(&files.name, None));
    (manifest.increments.last().map_or(0, |last| last.sequence), path)
}

impl Work<'_> {
    fn is_void(&self) -> bool {
        is_void(self.engine, self.epoch)
    }

    /// Writes the base, and has the log go on with the new increment at its instant.
    fn write_base(&self, increment: Option<Box<dyn StorageFile>>) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.temporary.display());
        let mut base = self.engine.storage.create_output(&self.temporary).map_err(failed)?;
        let (sender, switched) = mpsc::channel();
        let at_cut = |_: &mut LockedShards<'_>| {
            // Who would go on to the new file ends with the engine.
            let is_void = self.is_void() || self.engine.stopping.load(Ordering::Relaxed);
            if let Some(file) = increment.filter(|_| !is_void) {
                self.switch(file, sender);
            }
        };
        let ends = || self.is_void();
        snapshot::write_base(self.engine, &mut *base, &ends, at_cut).map_err(failed)?;
        base.sync().map_err(failed)?;
        drop(base);
        if !self.is_rdb {
            make_commands(self.engine, &self.temporary, &|| self.is_void())?;
        }
        if self.increment.is_some() {
            simulation::receive(&switched).unwrap_or_else(|_| Err(SWITCHED_OFF.to_owned()))?;
        }
        Ok(())
    }

    /// Has the log go on with the new increment, and be on if it was not.
    fn switch(&self, file: Box<dyn StorageFile>, sender: mpsc::Sender<Result<(), String>>) {
        let (engine, is_listed) = (self.engine.share(), self.is_listed);
        let switch = self.engine.aof.rewrite.begin_switch();
        let next = Box::new(move |bytes| {
            let outcome = match is_listed {
                true => list_increment(&engine, bytes),
                false => {
                    unlist(&engine);
                    Ok(())
                }
            };
            drop(switch);
            let _the_rewrite_may_have_failed_already = sender.send(outcome.clone());
            outcome.map(|()| Some(file)).map_err(std::io::Error::other)
        });
        self.engine.aof.is_logging.store(true, Ordering::Relaxed);
        // This may begin another history.
        backlog::settle_logging(self.engine);
        self.engine.aof.control.switch_at(next, &self.engine.stream_facts());
    }

    /// Puts the base in the place of what it replaces, and removes that.
    fn finish(&self, keeps_history: bool) -> Result<(), String> {
        let aof = &self.engine.aof;
        let mut listed = aof.files.lock();
        if self.is_void() {
            return Err(SWITCHED_OFF.to_owned());
        }
        let mut files = match (&*listed, self.is_listed) {
            (Some(files), true) => files.clone(),
            _ => self.files.clone(),
        };
        let name = files.name.clone();
        if self.increment.is_some() && !self.is_listed {
            files.manifest.next_increment(&name, Some(0));
        }
        let base = files.manifest.next_base(&name, self.is_rdb);
        let path = files.path(&base);
        let outcome = self.engine.storage.rename(&self.temporary, &path);
        outcome
            .and_then(|()| self.engine.storage.sync_directory(&files.directory))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        // A backup that was sealed meanwhile has had the log go on to another increment.
        let own = self.increment.as_ref().map_or(i64::MAX, |(number, _)| *number);
        let kept = files.manifest.increments.iter().filter(|file| file.sequence >= own).count();
        files.manifest.retire_increments(kept);
        if simulation::has_fault(Fault::EarlyRemoval) {
            remove_history(&*self.engine.storage, &mut files);
        }
        files.store(&*self.engine.storage)?;
        if self.increment.is_some() {
            backup::pin_base(self.engine, &files);
        }
        if !keeps_history {
            remove_history(&*self.engine.storage, &mut files);
        }
        let former_bytes = files.bytes(&*self.engine.storage, usize::from(self.increment.is_some()));
        aof.former_bytes.store(former_bytes, Ordering::Relaxed);
        if self.increment.is_some() {
            aof.is_listed.store(true, Ordering::Relaxed);
            *listed = Some(files);
        }
        aof.base_bytes.store(aof.bytes(), Ordering::Relaxed);
        Ok(())
    }
}

/// Lists the increment that the log goes on with. Run by the log's writer when the one before is durable and
/// has `bytes` bytes.
pub(super) fn list_increment(engine: &Engine, bytes: u64) -> Result<(), String> {
    let mut listed = engine.aof.files.lock();
    let Some(before) = &*listed else { return Err(SWITCHED_OFF.to_owned()) };
    let mut files = before.clone();
    let name = files.name.clone();
    files.manifest.next_increment(&name, Some(0));
    let directory = &files.directory;
    engine.storage.sync_directory(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    files.store(&*engine.storage)?;
    let aof = &engine.aof;
    aof.former_bytes.fetch_add(bytes, Ordering::Relaxed);
    aof.increment_bytes.store(0, Ordering::Relaxed);
    backup::pin_increment(engine, before);
    *listed = Some(files);
    Ok(())
}

/// Has nothing be listed until there is a base, since the log goes on in another folder. Run by the log's
/// writer when the increment before is durable.
fn unlist(engine: &Engine) {
    let mut listed = engine.aof.files.lock();
    if listed.take().is_some() {
        engine.aof.is_listed.store(false, Ordering::Relaxed);
        backup::note_move(engine);
    }
}

/// Removes files that are not needed any more, and forgets them.
pub(super) fn remove_history(storage: &dyn Storage, files: &mut Files) {
    let history = std::mem::take(&mut files.manifest.history);
    for file in &history {
        let path = files.path(&file.name);
        if let Err(error) = storage.remove(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            warning!("The former AOF file {} can not be removed: {error}", path.display());
        }
    }
    if !history.is_empty()
        && let Err(reason) = files.store(storage)
    {
        warning!("{reason}");
        files.manifest.history = history;
    }
}
