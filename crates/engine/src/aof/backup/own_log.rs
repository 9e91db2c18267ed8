//! The log of a backup where the append-only file is off: another reader of the log of commits, which writes
//! the increment into the backup's folder.
//!
//! Nobody waits for it. Where it can not be written, or is far behind, the backup fails and nothing else. It
//! is made durable once a second, whatever `appendfsync` says, and when it ends.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use mantissa_persist::aof::manifest::{base_name, increment_name};
use mantissa_persist::aof::{AofFile, Writer, WriterControl, WriterError};
use mantissa_persist::storage::OutputFile;
use mantissa_persist::write::FileFacts;
use mantissa_store::LockedShards;
use mantissa_sys::{clock, simulation};

use super::folder;
use crate::aof::writer::reason;
use crate::engine::Engine;
use crate::replication::backlog;
use crate::snapshot::{self, Pace};
use crate::state::backup::{OwnLog, Phase};

/// Bytes of the log that may wait to be written before the backup fails: they take memory.
const UNWRITTEN_BYTES_MAX: u64 = 256 << 20;
/// How long the writer sleeps at most.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// The number of the base and of the increment.
const SEQUENCE: i64 = 1;

/// Whether the backup of this number is still at its base.
fn is_wanted(engine: &Engine, number: u64) -> bool {
    let record = engine.backup.record.lock();
    record.number == number && record.phase == Phase::Snapshotting
}

/// A base that ends with an error once the backup has failed.
struct Base<'e> {
    file: Box<dyn OutputFile>,
    engine: &'e Engine,
    number: u64,
}

impl Write for Base<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !is_wanted(self.engine, self.number) {
            return Err(io::Error::other(super::ABORTED));
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl OutputFile for Base<'_> {
    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}

/// Writes the base, and has what follows its instant be logged.
pub(super) fn write_base(engine: &Engine, number: u64) -> Result<(), String> {
    let outcome = try_to_write_base(engine, number);
    if let Err(reason) = &outcome {
        super::fail(engine, number, reason);
        super::clear(engine, &super::turn(engine));
    }
    outcome
}

fn try_to_write_base(engine: &Engine, number: u64) -> Result<(), String> {
    let record = engine.backup.record.lock().clone();
    if !is_wanted(engine, number) {
        return Err(super::ABORTED.to_owned());
    }
    let (storage, directory) = (&*engine.storage, &record.directory);
    let temporary = directory.join(folder::temporary_name());
    let name = base_name(&record.name, SEQUENCE, true);
    let path = directory.join(&name);
    let failed = |error: io::Error| format!("{}: {}", path.display(), reason(&error));
    let increment = directory.join(increment_name(&record.name, SEQUENCE));
    let log =
        storage.create(&increment).map_err(|error| format!("{}: {}", increment.display(), reason(&error)))?;
    let file = storage.create_output(&temporary).map_err(failed)?;
    let control = start_writer(engine, number)?;
    let at_cut = |_: &mut LockedShards<'_>| {
        if is_wanted(engine, number) && !engine.stopping.load(Ordering::Relaxed) {
            engine.backup.is_logging.store(true, Ordering::Relaxed);
            // This may begin another history.
            backlog::settle_logging(engine);
            control.switch_at(Box::new(move |_| Ok(Some(log))), &engine.stream_facts());
        }
    };
    let facts = FileFacts { is_aof_base: true, ..snapshot::facts() };
    let mut base = Base { file, engine, number };
    let ends = || engine.persistence.background_ends.load(Ordering::Relaxed);
    let reason = |error| if ends() { "the server ended".to_owned() } else { failed(error) };
    snapshot::write(engine, &mut base, &facts, Pace::Steady, at_cut).map_err(reason)?;
    base.sync().map_err(failed)?;
    drop(base);
    if !is_wanted(engine, number) {
        return Err(super::ABORTED.to_owned());
    }
    storage.rename(&temporary, &path).map_err(failed)?;
    storage.sync_directory(directory).map_err(failed)?;
    let mut record = engine.backup.record.lock();
    if record.number != number || record.phase != Phase::Snapshotting {
        return Err(super::ABORTED.to_owned());
    }
    record.base = Some(AofFile { name, sequence: SEQUENCE, start_offset: None, end_offset: None });
    record.phase = Phase::Incrementing;
    Ok(())
}

/// Starts the thread that writes the increment, once there is a file.
fn start_writer(engine: &Engine, number: u64) -> Result<Arc<WriterControl>, String> {
    let no_thread = |error: io::Error| format!("A thread could not be started: {error}");
    let control = Arc::new(WriterControl::new(Arc::clone(&engine.log)));
    control.set_notes_time(engine.active_config().config.aof_timestamp_enabled);
    let mut writer = Writer::new(Arc::clone(&control));
    writer.start_syncer().map_err(no_thread)?;
    let (sender, ended) = mpsc::channel();
    let (has_closed, shared) = (Arc::<AtomicBool>::default(), Arc::clone(&control));
    let is_over = Arc::clone(&has_closed);
    let body = move |engine: &Engine| {
        let outcome = write(&shared, writer, &is_over);
        if let Err(reason) = &outcome {
            super::fail(engine, number, reason);
        }
        let _nobody_waits_where_it_has_failed = sender.send(outcome);
    };
    *engine.backup.own_log.lock() = Some(OwnLog { control: Arc::clone(&control), has_closed, ended });
    engine.spawn("backup-log", body).map_err(no_thread)?;
    Ok(control)
}

/// Writes the log until it is closed, or can not be written.
fn write(control: &WriterControl, mut writer: Writer, has_closed: &AtomicBool) -> Result<(), String> {
    loop {
        control.wait(&writer.pause(clock::now(), SLEEP_MAX));
        let outcome = writer.write_and_sync(clock::now());
        if let Err(
            WriterError::Write(error)
            | WriterError::Sync(error)
            | WriterError::NextFile(error)
            | WriterError::Closed(error),
        ) = outcome
        {
            return Err(format!("the increment can not be written: {}", reason(&error)));
        }
        if has_closed.load(Ordering::Acquire) {
            return Ok(());
        }
    }
}

/// Whether the log is too far behind.
pub(super) fn is_behind(engine: &Engine) -> bool {
    let log = engine.backup.own_log.lock();
    log.as_ref().is_some_and(|log| log.control.unwritten() > UNWRITTEN_BYTES_MAX)
}

/// Ends the log, if there is one: with what `at_end` returns, which runs at the instant, while all shards are
/// locked, and whether everything is durable. No shard may be locked by this thread.
pub(super) fn stop<T>(engine: &Engine, at_end: impl FnOnce() -> T) -> Option<(T, Result<(), String>)> {
    let OwnLog { control, has_closed, ended } = engine.backup.own_log.lock().take()?;
    let locked = engine.keyspace.lock(engine.keyspace.all_shards());
    engine.backup.is_logging.store(false, Ordering::Relaxed);
    backlog::settle_logging(engine);
    let at_end = at_end();
    control.close(move || has_closed.store(true, Ordering::Release));
    drop(locked);
    engine.log.kick();
    let outcome = simulation::receive(&ended).unwrap_or_else(|_| Err("its log ended".to_owned()));
    Some((at_end, outcome))
}

/// Ends the increment with the data of an instant, durably.
pub(super) fn seal(engine: &Engine, number: u64) -> Result<(), String> {
    let Some((noted, outcome)) = stop(engine, || super::note_end(engine, number)) else {
        return Err(super::ABORTED.to_owned());
    };
    noted.and(outcome)?;
    let mut record = engine.backup.record.lock();
    let name = increment_name(&record.name, SEQUENCE);
    record.increments.push(AofFile { name, sequence: SEQUENCE, start_offset: Some(0), end_offset: None });
    Ok(())
}
