//! Backups of a running server: BACKUP START, SEAL, ABORT and CLEANUP.
//!
//! A backup is what an append-only file is: a base, the increments since the base's instant, and a manifest,
//! in a folder of their own. Sealed, it holds the data of the instant of BACKUP SEAL, and nothing changes it.
//!
//! Where the append-only file is on, the backup shares its files: a rewrite makes the base, and each file has
//! a second name in the backup's folder once it does not change any more, the base when it is listed, an
//! increment when the log has gone on to the next one. So rewrites take nothing away. BACKUP SEAL has the log
//! go on to another increment. Where it is off, the backup has a [log of its own](own_log), and the folder of
//! the append-only file is not touched: what a crash leaves is no append-only file that a start would load.
//!
//! The record of the backup is locked last: no other lock is taken meanwhile, and nothing is made durable.
//! Commands run on a thread of their own, so no worker waits for the disk.

mod folder;
mod own_log;
mod shared_log;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use mantissa_persist::aof::Manifest;
use mantissa_persist::aof::manifest::manifest_name;
use mantissa_sys::clock::unix_ms;
use mantissa_sys::simulation;
use parking_lot::MutexGuard;

use super::rewrite;
use crate::context::Context;
use crate::engine::Engine;
use crate::state::backup::{Phase, Record};
use crate::{notice, warning};

pub use folder::adopt;
pub(super) use shared_log::{note_failed_rewrite, note_move, pin_base, pin_increment};

const ABORTED: &str = "it was aborted";
const NONE_UNDER_WAY: &str = "No backup is in progress";
/// Why what was begun before is void.
pub(super) const SWITCHED_OFF: &str = "the append-only file was switched off";
const REPLACED: &str = "the data were replaced by those of a primary";

/// Permission to change what is in the folder.
fn turn(engine: &Engine) -> MutexGuard<'_, ()> {
    let mutex = &engine.backup.turn;
    simulation::lock(|| mutex.try_lock(), || mutex.lock())
}

/// Begins a backup, or has it begin once what is in its way has ended. An error says why not.
pub fn start(engine: &Engine) -> Result<(), String> {
    let turn = turn(engine);
    let before = engine.backup.record.lock().clone();
    match before.phase {
        Phase::Idle | Phase::Failed => {}
        Phase::Sealed => return Err("A sealed backup is there. Use BACKUP CLEANUP to remove it".to_owned()),
        _ => return Err("A backup is already in progress".to_owned()),
    }
    if let Some(reason) = rewrite::refusal(engine) {
        return Err(reason);
    }
    if engine.aof.is_lost() {
        return Err("The append only file can not be written".to_owned());
    }
    let config = &engine.active_config().config;
    if config.backupdirname == config.appenddirname {
        return Err("backupdirname and appenddirname name the same folder".to_owned());
    }
    let record = Record {
        phase: Phase::Pending,
        number: before.number + 1,
        start_s: unix_ms() / 1000,
        directory: folder::path(config),
        name: OsString::from(&config.appendfilename),
        ..Record::default()
    };
    clear(engine, &turn);
    let cleared = match before.phase {
        Phase::Failed => folder::remove(engine, &before.directory, &before.name),
        _ => Ok(()),
    };
    match cleared.and_then(|()| folder::prepare(engine, &record.directory)) {
        Ok(true) => {}
        Ok(false) => return Err(format!("The backup directory {} is not empty", record.directory.display())),
        Err(error) => {
            warning!("The backup can not begin: {error}");
            *engine.backup.record.lock() = Record { phase: Phase::Failed, error: error.clone(), ..record };
            return Err(error);
        }
    }
    *engine.backup.record.lock() = record;
    notice!("A backup was asked for");
    advance(engine);
    Ok(())
}

/// Has a backup that waits begin, if nothing is in its way.
fn advance(engine: &Engine) {
    let (aof, persistence) = (&engine.aof, &engine.persistence);
    let is_own = !engine.active_config().config.appendonly;
    let mut record = engine.backup.record.lock();
    let is_busy = persistence.saving.load(Ordering::Acquire) || persistence.loading.load(Ordering::Acquire);
    if record.phase != Phase::Pending || is_busy || (is_own && aof.rewrite.is_running()) {
        return;
    }
    record.phase = Phase::Snapshotting;
    record.is_own = is_own;
    record.epochs = epochs(engine);
    let number = record.number;
    drop(record);
    let has_begun = match is_own {
        true => rewrite::start_as(engine, move |engine, _| own_log::write_base(engine, number)).is_ok(),
        // One that is under way is as good.
        false => aof.rewrite.is_running() || rewrite::start(engine).is_ok(),
    };
    if !has_begun {
        wait_again(engine, number);
    }
}

/// Has a backup wait whose base nobody writes.
fn wait_again(engine: &Engine, number: u64) {
    let mut record = engine.backup.record.lock();
    if record.number == number && record.phase == Phase::Snapshotting {
        record.phase = Phase::Pending;
    }
}

/// The epochs of the data and of the append-only file.
fn epochs(engine: &Engine) -> (u64, u64) {
    (engine.backup.epoch(), engine.aof.rewrite.epoch.load(Ordering::SeqCst))
}

/// Why what is logged does not lead on from the backup's base any more.
fn void_reason(engine: &Engine, record: &Record) -> Option<&'static str> {
    let (data, files) = epochs(engine);
    match record.epochs {
        (its_data, _) if its_data != data => Some(REPLACED),
        (_, its_files) if its_files != files && !record.is_own => Some(SWITCHED_OFF),
        _ => None,
    }
}

/// Does what is due: begins a backup that waits, ends one that has become void, removes what a failed one has
/// left and what has been sealed for too long.
pub fn tick(context: &Context) {
    let engine = context.engine;
    let record = engine.backup.record.lock().clone();
    let has_epochs = record.phase.is_under_way() && record.phase != Phase::Pending;
    if let Some(reason) = void_reason(engine, &record).filter(|_| has_epochs) {
        return fail(engine, record.number, reason);
    }
    if own_log::is_behind(engine) {
        fail(engine, record.number, "the disk is slower than what is written");
    }
    let ttl_s = context.active.config.backup_sealed_ttl as i64;
    let work: fn(&Engine) = match record.phase {
        Phase::Pending => return advance(engine),
        Phase::Snapshotting if !record.is_own && !engine.aof.rewrite.is_running() => {
            return wait_again(engine, record.number);
        }
        Phase::Failed if record.has_leftovers => |engine| clear(engine, &turn(engine)),
        Phase::Sealed if ttl_s > 0 && context.now_ms / 1000 >= record.end_s + ttl_s => expire,
        _ => return,
    };
    if let Err(error) = engine.spawn("backup", work) {
        warning!("The files of a backup can not be removed: {error}");
    }
}

/// Ends a backup that is under way as failed. The next [`tick`], or [`clear`], removes what it has left.
fn fail(engine: &Engine, number: u64, reason: &str) {
    let mut record = engine.backup.record.lock();
    if record.number == number && record.phase.is_under_way() {
        record.phase = Phase::Failed;
        record.error = reason.to_owned();
        record.has_leftovers = true;
        record.base = None;
        record.increments.clear();
        warning!("The backup failed: {reason}");
    }
}

/// Removes what a failed backup has left. No shard may be locked by this thread.
fn clear(engine: &Engine, _turn: &MutexGuard<'_, ()>) {
    let record = engine.backup.record.lock().clone();
    if record.phase != Phase::Failed || !record.has_leftovers {
        return;
    }
    let _it_is_not_needed = own_log::stop(engine, || ());
    if let Err(error) = folder::remove(engine, &record.directory, &record.name) {
        warning!("The files of a failed backup can not be removed: {error}");
    }
    engine.backup.record.lock().has_leftovers = false;
}

/// Ends a backup that is neither sealed nor failed.
pub fn abort(engine: &Engine) -> Result<(), String> {
    let record = engine.backup.record.lock().clone();
    match record.phase {
        Phase::Sealed => return Err("The backup is sealed. Use BACKUP CLEANUP to remove it".to_owned()),
        phase if !phase.is_under_way() => return Err(NONE_UNDER_WAY.to_owned()),
        _ => {}
    }
    fail(engine, record.number, ABORTED);
    clear(engine, &turn(engine));
    Ok(())
}

/// Ends a backup that is neither sealed nor failed because the server ends, if there is one.
pub fn end(engine: &Engine) {
    let number = engine.backup.record.lock().number;
    fail(engine, number, "the server ended");
    clear(engine, &turn(engine));
}

/// The same because another process goes on, to which the files are left: see [`adopt`].
pub fn leave(engine: &Engine) {
    let _turn = turn(engine);
    let number = engine.backup.record.lock().number;
    fail(engine, number, "the server is upgraded");
    let _it_is_not_needed = own_log::stop(engine, || ());
    *engine.backup.record.lock() = Record { number, ..Record::default() };
}

/// Removes a backup that is sealed or has failed.
pub fn clean_up(engine: &Engine) -> Result<(), String> {
    let turn = turn(engine);
    let record = engine.backup.record.lock().clone();
    match record.phase {
        Phase::Sealed | Phase::Failed => {}
        Phase::Idle => return Err("There is no backup to clean up".to_owned()),
        _ => return Err("A backup is in progress. Use BACKUP ABORT to cancel it".to_owned()),
    }
    clear(engine, &turn);
    folder::remove(engine, &record.directory, &record.name).map_err(|error| {
        warning!("The files of a backup can not be removed: {error}");
        error
    })?;
    *engine.backup.record.lock() = Record { number: record.number, ..Record::default() };
    notice!("The files of a backup were removed");
    Ok(())
}

/// The same for one that has been sealed for `backup-sealed-ttl`.
fn expire(engine: &Engine) {
    let ttl_s = engine.active_config().config.backup_sealed_ttl as i64;
    let record = engine.backup.record.lock().clone();
    let is_due = ttl_s > 0 && unix_ms() / 1000 >= record.end_s + ttl_s;
    if record.phase == Phase::Sealed && is_due && clean_up(engine).is_err() {
        // Tried again after as long again.
        engine.backup.record.lock().end_s = unix_ms() / 1000;
    }
}

/// Ends the last increment, so that the backup is the data of this instant. Returns when it is durable.
pub fn seal(engine: &Engine) -> Result<(), String> {
    let mut record = engine.backup.record.lock();
    match record.phase {
        Phase::Incrementing if !record.is_being_sealed => record.is_being_sealed = true,
        Phase::Incrementing | Phase::Sealing => return Err("The backup is being sealed already".to_owned()),
        Phase::Sealed => return Err("The backup is sealed already".to_owned()),
        Phase::Idle | Phase::Failed => return Err(NONE_UNDER_WAY.to_owned()),
        phase => return Err(format!("The backup can not be sealed yet: it is {}", phase.name())),
    }
    let Record { number, is_own, .. } = *record;
    drop(record);
    let ended = if is_own { own_log::seal(engine, number) } else { shared_log::seal(engine, number) };
    ended.and_then(|()| complete(engine, number)).map_err(|reason| {
        fail(engine, number, &reason);
        clear(engine, &turn(engine));
        format!("The backup failed: {}", engine.backup.record.lock().error)
    })
}

/// Notes that the last increment ends here. False, with the reason, if what it has is not the data.
fn note_end(engine: &Engine, number: u64) -> Result<(), String> {
    let mut record = engine.backup.record.lock();
    if record.number != number || record.phase != Phase::Incrementing {
        return Err(ABORTED.to_owned());
    }
    if let Some(reason) = void_reason(engine, &record) {
        return Err(reason.to_owned());
    }
    record.phase = Phase::Sealing;
    Ok(())
}

/// Writes the manifest of a backup whose files are whole and durable.
fn complete(engine: &Engine, number: u64) -> Result<(), String> {
    let _turn = turn(engine);
    let record = engine.backup.record.lock().clone();
    let (Phase::Sealing, true, Some(base)) = (record.phase, record.number == number, record.base) else {
        return Err(ABORTED.to_owned());
    };
    let end_s = unix_ms() / 1000;
    let manifest = Manifest::of(base, record.increments);
    folder::write_manifest(engine, &record.directory, &record.name, (record.start_s, end_s), &manifest)?;
    let mut record = engine.backup.record.lock();
    if record.phase != Phase::Sealing {
        return Err(ABORTED.to_owned());
    }
    (record.phase, record.end_s) = (Phase::Sealed, end_s);
    notice!("The backup in {} is sealed", record.directory.display());
    Ok(())
}

/// The paths of the files that do not change any more.
pub fn files(record: &Record) -> Vec<PathBuf> {
    let parts = record.base.iter().chain(&record.increments).map(|file| file.name.clone());
    let manifest = (record.phase == Phase::Sealed).then(|| manifest_name(&record.name));
    parts.chain(manifest).map(|name| record.directory.join(name)).collect()
}
