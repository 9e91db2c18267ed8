//! A backup that shares the files of the append-only file: each gets a second name in the backup's folder.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use mantissa_persist::aof::AofFile;
use mantissa_sys::simulation;

use super::{ABORTED, SWITCHED_OFF, fail, note_end, void_reason};
use crate::aof::rewrite::{list_increment, next_increment};
use crate::engine::Engine;
use crate::state::aof::{Files, Switch};
use crate::state::backup::{Phase, Record};

/// How often who wants the next number for an increment looks whether it is free.
const NUMBER_INTERVAL: Duration = Duration::from_millis(2);

/// Gives a file a second name. The record is locked: nobody removes the files of a failed backup before.
fn pin(engine: &Engine, record: &Record, files: &Files, file: &AofFile) -> Result<(), String> {
    let link = record.directory.join(&file.name);
    let pinned = engine.storage.link(&files.path(&file.name), &link);
    pinned.map_err(|error: io::Error| format!("Can't link {}: {error}", link.display()))
}

/// Takes the base that a rewrite has just listed, where a backup waits for one. What has been logged since
/// its instant is in the last increment.
pub fn pin_base(engine: &Engine, files: &Files) {
    let mut record = engine.backup.record.lock();
    let is_wanted = record.phase == Phase::Snapshotting && !record.is_own;
    let Some(base) = files.manifest.base.as_ref().filter(|_| is_wanted) else { return };
    let number = record.number;
    let pinned = pin(engine, &record, files, base);
    let directory = record.directory.clone();
    if pinned.is_ok() {
        record.base = Some(base.clone());
        record.phase = Phase::Incrementing;
    }
    drop(record);
    let synced = pinned.and_then(|()| {
        let synced = engine.storage.sync_directory(&directory);
        synced.map_err(|error| format!("Can't write {}: {error}", directory.display()))
    });
    if let Err(reason) = synced {
        fail(engine, number, &reason);
    }
}

/// Takes the increment that has just ended: `files` are those before the one that the log goes on with.
pub fn pin_increment(engine: &Engine, files: &Files) {
    let mut record = engine.backup.record.lock();
    let is_wanted = record.phase == Phase::Incrementing && !record.is_own;
    let Some(last) = files.manifest.increments.last().filter(|_| is_wanted) else { return };
    if void_reason(engine, &record).is_some() {
        return;
    }
    let number = record.number;
    let pinned = pin(engine, &record, files, last);
    if pinned.is_ok() {
        record.increments.push(last.clone());
    }
    drop(record);
    if let Err(reason) = pinned {
        fail(engine, number, &reason);
    }
}

/// Ends a backup whose base is in the folder that the log has left.
pub fn note_move(engine: &Engine) {
    let record = engine.backup.record.lock().clone();
    if record.phase == Phase::Incrementing && !record.is_own {
        fail(engine, record.number, "the append-only file has gone on in another folder");
    }
}

/// Ends a backup whose base a rewrite was to write.
pub fn note_failed_rewrite(engine: &Engine, reason: &str) {
    let record = engine.backup.record.lock().clone();
    if record.phase == Phase::Snapshotting && !record.is_own {
        fail(engine, record.number, reason);
    }
}

/// Takes the next number for an increment, once no rewrite has it.
fn take_number(engine: &Engine, number: u64) -> Result<Switch, String> {
    loop {
        if let Some(switch) = engine.aof.rewrite.try_switch() {
            return Ok(switch);
        }
        let record = engine.backup.record.lock().clone();
        if record.number != number || record.phase != Phase::Incrementing {
            return Err(ABORTED.to_owned());
        }
        simulation::sleep(NUMBER_INTERVAL);
    }
}

/// Has the log go on to another increment. Returns when the one before is durable and has its second name.
pub(super) fn seal(engine: &Engine, number: u64) -> Result<(), String> {
    let switch = take_number(engine, number)?;
    let files = engine.aof.files.lock().clone().ok_or(SWITCHED_OFF)?;
    let (_, path) = next_increment(&files);
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let file = engine.storage.create(&path).map_err(failed)?;
    let (sender, ended) = mpsc::channel();
    let locked = engine.keyspace.lock(engine.keyspace.all_shards());
    let void = void_reason(engine, &engine.backup.record.lock());
    let is_stopping = engine.stopping.load(Ordering::Relaxed);
    if let Some(reason) = void.or(is_stopping.then_some("the server ended")) {
        drop(locked);
        let _it_is_replaced_by_the_next = engine.storage.remove(&path);
        return Err(reason.to_owned());
    }
    let shared = engine.share();
    let next = Box::new(move |bytes| {
        let listed = list_increment(&shared, bytes);
        drop(switch);
        let noted = listed.clone().and_then(|()| note_end(&shared, number));
        let _it_may_have_been_aborted = sender.send(noted);
        listed.map(|()| Some(file)).map_err(io::Error::other)
    });
    engine.aof.control.switch_at(next, &engine.stream_facts());
    drop(locked);
    simulation::receive(&ended).unwrap_or_else(|_| Err(SWITCHED_OFF.to_owned()))
}
