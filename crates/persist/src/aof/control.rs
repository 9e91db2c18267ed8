//! The state that the writer of an append-only file shares with other threads: settings, progress, and the
//! changes of the file that are still to come.

use mantissa_sys::simulation;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::position::put_position;
use super::preallocation::PREALLOCATED_BYTES_MAX;
use crate::log::{Log, Lsn, Reader, Start, Waker};
use crate::storage::StorageFile;
use crate::write::ReplicationFacts;

/// Bytes that may wait to be written before the writer counts as stalled.
const UNWRITTEN_BYTES_MAX: u64 = 256 << 20;
/// Bytes that are preallocated at a time by default.
const PREALLOCATED_BYTES: u64 = 1 << 20;

/// When the file is synced: `appendfsync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// `always`: after each write, before the replies leave.
    Always,
    /// `everysec`: once a second.
    EverySecond,
    /// `no`: the kernel decides.
    Never,
}

/// Opens the next file. The writer calls it once the present file is durable, with the length of that in
/// bytes. `None` closes the append-only file. After an error the writer stays with the present file.
pub type NextFile = Box<dyn FnOnce(u64) -> io::Result<Option<Box<dyn StorageFile>>> + Send>;

/// What is to be done at an LSN.
pub(super) struct FileChange {
    pub(super) lsn: Lsn,
    /// Changes to another file.
    pub(super) next: Option<NextFile>,
    /// What is then written to the file, beside the log.
    pub(super) note: Vec<u8>,
}

#[derive(Default)]
pub(super) struct Shared {
    /// The reader of the log, while there is a file or a change to one is to come.
    pub(super) reader: Option<Reader>,
    /// Changes of the file and notes that are still to come, by rising LSN.
    pub(super) changes: VecDeque<FileChange>,
    /// The time of the writer's next work has changed since it fell asleep.
    is_to_recheck: bool,
}

/// What a writer waits for: see [`WriterControl::wait`].
#[derive(Debug)]
pub struct Pause {
    pub(super) timeout: Duration,
    pub(super) ends_with_sync: bool,
    pub(super) ends_with_work: bool,
}

/// Settings and progress of a [`Writer`](super::Writer).
pub struct WriterControl {
    pub(super) log: Arc<Log>,
    shared: Mutex<Shared>,
    has_work: Condvar,
    policy: AtomicU8,
    /// Timestamps are written.
    notes_time: AtomicBool,
    /// The file is being closed: bytes that cannot be written are dropped.
    pub(super) is_closing: AtomicBool,
    /// Writing has stopped for good, until the file is closed.
    is_abandoned: AtomicBool,
    /// Syncs are held back, whatever the policy: `no-appendfsync-on-rewrite`.
    holds_syncs: AtomicBool,
    pub(super) is_syncing: AtomicBool,
    /// Bytes that are preallocated at a time; 0: none are.
    preallocation: AtomicU64,
    /// The present sync takes too long.
    pub(super) is_slow: AtomicBool,
    /// Number of syncs that took too long.
    pub(super) slow_syncs: AtomicU64,
    /// The outcome of the sync thread's last attempt: the LSN up to which all is durable.
    pub(super) sync_outcome: Mutex<Option<io::Result<Lsn>>>,
    written: AtomicU64,
    durable: AtomicU64,
}

impl WriterControl {
    /// The control of a writer that reads `log`. There is no file yet.
    pub fn new(log: Arc<Log>) -> Self {
        WriterControl {
            log,
            shared: Mutex::default(),
            has_work: Condvar::new(),
            policy: AtomicU8::new(SyncPolicy::EverySecond as u8),
            notes_time: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
            holds_syncs: AtomicBool::new(false),
            is_syncing: AtomicBool::new(false),
            preallocation: AtomicU64::new(PREALLOCATED_BYTES),
            is_slow: AtomicBool::new(false),
            slow_syncs: AtomicU64::new(0),
            sync_outcome: Mutex::new(None),
            written: AtomicU64::new(Lsn::MAX),
            durable: AtomicU64::new(Lsn::MAX),
        }
    }

    /// The sync policy.
    pub fn policy(&self) -> SyncPolicy {
        match self.policy.load(Ordering::Relaxed) {
            0 => SyncPolicy::Always,
            1 => SyncPolicy::EverySecond,
            _ => SyncPolicy::Never,
        }
    }

    /// Sets the sync policy.
    pub fn set_policy(&self, policy: SyncPolicy) {
        self.policy.store(policy as u8, Ordering::Relaxed);
        self.wake();
    }

    /// Sets how many bytes are preallocated at a time with [`SyncPolicy::Always`], up to 64 MB; 0: none are.
    pub fn set_preallocation(&self, bytes: u64) {
        self.preallocation.store(bytes.min(PREALLOCATED_BYTES_MAX), Ordering::Relaxed);
    }

    pub(super) fn preallocation(&self) -> u64 {
        self.preallocation.load(Ordering::Relaxed)
    }

    /// Whether a timestamp is written before the first unit of each second: `aof-timestamp-enabled`.
    pub fn set_notes_time(&self, notes_time: bool) {
        self.notes_time.store(notes_time, Ordering::Relaxed);
    }

    pub(super) fn notes_time(&self) -> bool {
        self.notes_time.load(Ordering::Relaxed)
    }

    /// Stops the writer until the file is closed, or lets it go on. Used after a failed sync, when it is not
    /// known what is on the disk.
    pub fn abandon(&self, is_abandoned: bool) {
        self.is_abandoned.store(is_abandoned, Ordering::Relaxed);
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Relaxed)
    }

    /// Holds syncs back, whatever the policy, or allows them again.
    pub fn hold_syncs(&self, holds: bool) {
        self.holds_syncs.store(holds, Ordering::Relaxed);
        self.wake();
    }

    pub(super) fn holds_syncs(&self) -> bool {
        self.holds_syncs.load(Ordering::Relaxed)
    }

    /// Whether a sync is under way.
    pub fn is_syncing(&self) -> bool {
        self.is_syncing.load(Ordering::Relaxed)
    }

    /// Whether workers should wait before they append.
    #[inline]
    pub fn is_stalled(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed) || self.unwritten() > UNWRITTEN_BYTES_MAX
    }

    /// Number of syncs that took so long that the writer counted as stalled.
    pub fn slow_syncs(&self) -> u64 {
        self.slow_syncs.load(Ordering::Relaxed)
    }

    /// Counts such syncs from now on.
    pub fn reset_slow_syncs(&self) {
        self.slow_syncs.store(0, Ordering::Relaxed);
    }

    /// The LSN up to which the log is written to the file; the maximum while there is no file.
    #[inline]
    pub fn written(&self) -> Lsn {
        self.written.load(Ordering::SeqCst)
    }

    /// The LSN up to which the log survives a crash; the maximum while there is no file.
    #[inline]
    pub fn durable(&self) -> Lsn {
        self.durable.load(Ordering::SeqCst)
    }

    /// Bytes of the log that are not written yet.
    #[inline]
    pub fn unwritten(&self) -> u64 {
        let written = self.written();
        self.log.end().saturating_sub(written)
    }

    pub(super) fn set_written(&self, lsn: Lsn) {
        self.written.store(lsn, Ordering::SeqCst);
    }

    pub(super) fn set_durable(&self, lsn: Lsn) {
        self.durable.store(lsn, Ordering::SeqCst);
    }

    pub(super) fn locked(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a change to another file is to come.
    pub(super) fn has_change(&self) -> bool {
        !self.locked().changes.is_empty()
    }

    #[cold]
    pub(super) fn wake(&self) {
        let _shared = self.locked();
        self.has_work.notify_all();
    }

    /// Wakes the thread in [`WriterControl::wait`], so that it asks the writer again what to wait for.
    pub fn recheck(&self) {
        self.locked().is_to_recheck = true;
        self.has_work.notify_all();
    }

    /// Sleeps until there is something for the writer to do.
    pub fn wait(&self, pause: &Pause) {
        let mut shared = self.locked();
        if std::mem::take(&mut shared.is_to_recheck) {
            return;
        }
        let is_synced = pause.ends_with_sync && !self.is_syncing.load(Ordering::Acquire);
        let has_change = pause.ends_with_work && !shared.changes.is_empty();
        if !pause.timeout.is_zero() && !is_synced && !has_change {
            drop(self.sleep(shared, pause.timeout, pause.ends_with_work.then_some(0)));
        }
    }

    /// Sleeps until `units` units were appended in all, the writer is woken for another reason, or `timeout`
    /// has passed. 0: any readable unit ends the sleep; `None`: no unit does.
    pub(super) fn sleep<'s>(
        &'s self,
        shared: MutexGuard<'s, Shared>,
        timeout: Duration,
        units: Option<u64>,
    ) -> MutexGuard<'s, Shared> {
        if simulation::is_active() {
            // What was appended before counts, also in a simulation.
            let is_there = units == Some(0) && shared.reader.as_ref().is_some_and(Reader::has_more);
            drop(shared);
            if !is_there {
                simulation::wait(Some(timeout));
            }
            return self.locked();
        }
        // A waking thread needs the lock on `shared`, which is held until this one sleeps.
        if let (Some(reader), Some(units)) = (&shared.reader, units) {
            reader.begin_sleep(units);
            let is_there = if units == 0 { reader.has_more() } else { self.log.units() >= units };
            if is_there {
                reader.end_sleep();
                return shared;
            }
        }
        let woken = self.has_work.wait_timeout(shared, timeout);
        let shared = woken.unwrap_or_else(PoisonError::into_inner).0;
        if let Some(reader) = &shared.reader {
            reader.end_sleep();
        }
        shared
    }

    /// Has the writer change to another file, which `next` opens, after what was appended so far. The
    /// append-only file is open from now on. SELECT precedes what is appended next.
    pub fn switch(self: &Arc<Self>, next: NextFile) {
        self.switch_to(next, None);
    }

    /// The same, where the file begins with what is known of replication at the end of the log, and the log
    /// goes on as if there were no change. No unit may be appended from when `facts` were taken on.
    pub fn switch_at(self: &Arc<Self>, next: NextFile, facts: &ReplicationFacts) {
        self.switch_to(next, Some(facts));
    }

    /// Has the writer note what is known of replication at the end of the log, or that nothing is. To be
    /// called when the history changes, with units excluded as for [`WriterControl::switch_at`].
    pub fn note_position(&self, facts: Option<&ReplicationFacts>) {
        let mut shared = self.locked();
        if shared.reader.is_some() {
            let mut note = Vec::new();
            put_position(facts, &mut note);
            shared.changes.push_back(FileChange { lsn: self.log.end(), next: None, note });
            self.has_work.notify_all();
        }
    }

    fn switch_to(self: &Arc<Self>, next: NextFile, facts: Option<&ReplicationFacts>) {
        let mut shared = self.locked();
        self.is_closing.store(false, Ordering::Relaxed);
        let lsn = match &shared.reader {
            Some(_) if facts.is_some() => self.log.end(),
            Some(_) => self.log.restart(),
            None => {
                let control = Arc::downgrade(self);
                let waker: Waker = Arc::new(move || {
                    if let Some(control) = control.upgrade() {
                        control.wake();
                    }
                });
                let start = if facts.is_some() { Start::Here } else { Start::Fresh };
                let Ok(reader) = self.log.register(start, u64::MAX, Some(waker)) else {
                    unreachable!("the log always ends somewhere")
                };
                let lsn = reader.lsn();
                self.set_written(lsn);
                self.set_durable(lsn);
                shared.reader = Some(reader);
                lsn
            }
        };
        shared.changes.push_back(FileChange { lsn, next: Some(next), note: note(facts) });
        self.has_work.notify_all();
    }

    /// Has the writer close the file after what was appended so far, and then call `closed`. Bytes that
    /// cannot be written at the next attempt are lost.
    pub fn close(&self, closed: impl FnOnce() + Send + 'static) {
        let mut shared = self.locked();
        self.is_closing.store(true, Ordering::Relaxed);
        let next: NextFile = Box::new(|_| {
            closed();
            Ok(None)
        });
        let (lsn, next) = (self.log.end(), Some(next));
        shared.changes.push_back(FileChange { lsn, next, note: Vec::new() });
        self.has_work.notify_all();
    }

    /// Drops the reader of the log because there is no file now. False, and nothing done, if a file is to
    /// follow.
    pub(super) fn end_reading(&self) -> bool {
        let mut shared = self.locked();
        if !shared.changes.is_empty() {
            return false;
        }
        shared.reader = None;
        self.set_written(Lsn::MAX);
        self.set_durable(Lsn::MAX);
        true
    }
}

/// The line that a file begins with; none if nothing is known of replication.
fn note(facts: Option<&ReplicationFacts>) -> Vec<u8> {
    let mut note = Vec::new();
    if let Some(facts) = facts {
        put_position(Some(facts), &mut note);
    }
    note
}
