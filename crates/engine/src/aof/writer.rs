//! Writing the log: by the worker that waits for it where that is quick, else by a thread of its own.
//!
//! Workers write at the end of an event-loop iteration, all that has been queued by then, whoever queued
//! it. The thread does what may take long: syncs with `always` on slow disks, large batches, what comes
//! while the file is being synced once a second, and going on to another file.

use mantissa_sys::clock;
use mantissa_sys::simulation::{self, Fault};
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_persist::aof::{SyncPolicy, Writer, WriterError};

use super::tell_waiters;
use crate::context::Outbox;
use crate::engine::Engine;
use crate::host::Message;
use crate::replication::primary;
use crate::{notice, stats, warning};

/// How long it sleeps if nobody wakes it.
const SLEEP_MAX: Duration = Duration::from_secs(3600);
/// Maximum time that a worker waits for another that is writing, before it leaves the rest to the thread. A
/// write of 4 KB takes 4 microseconds, one of 64 KB 39 (medians on ext4, Xeon at 2.5 GHz).
const OTHER_WRITE_MAX: Duration = Duration::from_micros(50);

/// Starts it.
pub(super) fn start(engine: &Engine) -> io::Result<()> {
    engine.aof.writer.lock().start_syncer()?;
    let body = |engine: &Engine| {
        let aof = &engine.aof;
        mantissa_sys::scheduling::use_short_time_slices();
        loop {
            let writer = simulation::lock(|| aof.writer.try_lock(), || aof.writer.lock());
            let pause = writer.pause(clock::now(), SLEEP_MAX);
            drop(writer);
            aof.control.wait(&pause);
            let mut writer = simulation::lock(|| aof.writer.try_lock(), || aof.writer.lock());
            writer.wait_for_group_commit();
            write_and_report(engine, &mut writer);
            if aof.has_ended.load(Ordering::Relaxed) {
                return;
            }
        }
    };
    engine.spawn("aof", body)
}

impl Outbox<'_> {
    /// To be called at the end of an event-loop iteration: has what was appended be written, here or by the
    /// writer's own thread. `waits`: something waits for the log to be confirmed further.
    #[inline]
    pub fn end_iteration(&mut self, waits: bool) {
        self.send_waiting();
        primary::ask_for_acks(self);
        let has_logged = self.take_logged();
        if has_logged || waits {
            write(self.engine(), self.worker());
        }
        if has_logged {
            primary::wake_senders(self.engine(), self.worker());
        }
    }
}

/// Writes the log: at once, by this thread, if it is a worker, replies wait for it and it is quick;
/// else by the log's own thread.
fn write(engine: &Engine, worker: usize) {
    let aof = &engine.aof;
    let leaves_it = !aof.holds_replies() || simulation::has_fault(Fault::EarlyReply);
    if leaves_it || !write_at_once(engine, worker) {
        engine.log.kick();
    }
}

/// False if there is something left to do.
fn write_at_once(engine: &Engine, worker: usize) -> bool {
    let aof = &engine.aof;
    simulation::yield_point();
    let writer = match aof.control.policy() {
        SyncPolicy::Always => aof.writer.try_lock(),
        _ => aof.writer.try_lock_for(OTHER_WRITE_MAX),
    };
    let Some(mut writer) = writer else { return false };
    if !writer.is_quick() {
        return false;
    }
    aof.await_no_longer(worker);
    let (had_deadline, began) = (writer.has_deadline(), clock::now());
    write_and_report(engine, &mut writer);
    stats::add(&engine.stats.workers[worker].log_ns, clock::since(began).as_nanos() as u64);
    if !had_deadline && writer.has_deadline() {
        // The thread sleeps for as long as nothing is due.
        aof.control.recheck();
    }
    writer.is_idle()
}

/// Writes and syncs what is due, and has the engine act upon the outcome.
fn write_and_report(engine: &Engine, writer: &mut Writer) {
    let aof = &engine.aof;
    let (durable, confirmed, was_stalled) =
        (aof.control.durable(), aof.confirmed(), aof.control.is_stalled());
    let (began, is_syncing) = (clock::now(), aof.control.is_syncing());
    let delay_us = aof.write_delay_us.load(Ordering::Relaxed);
    if delay_us > 0 && aof.control.unwritten() > 0 {
        simulation::sleep(Duration::from_micros(delay_us));
    }
    let outcome = writer.write_and_sync(began);
    note_latency(engine, clock::since(began), writer.last_sync(), is_syncing);
    aof.increment_bytes.store(writer.file_bytes(), Ordering::Relaxed);
    let is_lost = matches!(outcome, Err(WriterError::Closed(_)));
    if was_stalled && !aof.control.is_stalled() {
        engine.send_all(|| Message::Resume);
    }
    match outcome {
        Ok(()) => {
            if !writer.is_failing() && !aof.is_lost() && aof.write_failed.swap(false, Ordering::Relaxed) {
                notice!("AOF write error looks solved. The server can write again.");
            }
        }
        Err(WriterError::NextFile(error)) => warning!("The next file of the AOF could not be begun: {error}"),
        Err(WriterError::Closed(error)) => {
            warning!("The AOF is switched off without what could not be written: {}", reason(&error));
        }
        Err(WriterError::Write(error)) => fail(engine, "write", &error),
        Err(WriterError::Sync(error)) => {
            fail(engine, "fsync", &error);
            // The system has dropped what it could not write: only a new base has it for sure.
            aof.rewrite.is_scheduled.store(true, Ordering::Relaxed);
        }
    }
    if is_lost || aof.control.durable() > durable || aof.confirmed() > confirmed {
        tell_waiters(engine, is_lost);
    }
}

/// Notes how long writing has taken, and making durable where somebody waits for it.
fn note_latency(engine: &Engine, spent: Duration, sync: Duration, is_syncing: bool) {
    if engine.aof.control.policy() == SyncPolicy::Always {
        engine.note_latency("aof-fsync-always", sync);
    }
    let is_saving = engine.persistence.saving.load(Ordering::Relaxed) || engine.aof.rewrite.is_running();
    let detail = match is_syncing {
        true => "aof-write-pending-fsync",
        false if is_saving => "aof-write-active-child",
        false => "aof-write-alone",
    };
    let write = spent.saturating_sub(sync);
    engine.note_latency("aof-write", write);
    engine.note_latency(detail, write);
}

/// Notes an error, after which writes are refused. With `appendfsync always` the host may end the program: no
/// promise could be kept.
fn fail(engine: &Engine, what: &str, error: &io::Error) {
    let aof = &engine.aof;
    let reason = reason(error);
    if aof.control.policy() == SyncPolicy::Always {
        engine.host().log_failed(&format!("AOF {what} error: {reason}"));
        aof.write_error.lock().clone_from(&reason);
        aof.write_failed.store(true, Ordering::Relaxed);
        aof.lose();
        (0..engine.worker_count()).for_each(|worker| engine.wake(worker));
        return;
    }
    if !aof.write_failed.swap(true, Ordering::Relaxed) {
        warning!("AOF {what} error: {reason}. Writes are refused until it is solved.");
    }
    *aof.write_error.lock() = reason;
    (0..engine.worker_count()).for_each(|worker| engine.wake(worker));
}

/// What the system says about an error, without its number.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
