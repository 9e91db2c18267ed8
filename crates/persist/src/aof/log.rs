//! The log of commits on its way into an append-only file.
//!
//! Threads append whole units ([`Unit`]: a command, or several that belong together) to a queue in memory,
//! under one lock that is held for a copy of some bytes. The [`Writer`] takes what is queued, writes it, and
//! makes it durable as the policy says: whoever waits for that shares the work with all others. A thread of
//! its own has the writer do so; one who waits may do it himself where it is quick ([`Writer::is_quick`]).
//!
//! A position is a count of bytes since the log was made; it goes on over changes of the file. These hold:
//!
//! - `durable <= written <= end`, and each of them only grows;
//! - the file holds the units up to `written` in the order in which they were appended, whole, after those
//!   that it held before; a unit that did not fit as a whole is taken out again;
//! - the units up to `durable` survive a crash;
//! - while the log is closed all three are equal, and what is appended is dropped.
//!
//! Once a second, where that is the policy, another thread makes durable what is written, so that writing
//! goes on meanwhile. If it takes more than two seconds the log asks for patience ([`Log::is_stalled`]):
//! whoever appends should wait before that, so that no more than about two seconds of changes are ever at
//! stake. It asks too if too much waits to be written.
//!
//! Where everything is made durable at once, each batch is written over room that is [reserved] at the end of
//! the file; `appendfsync always` then takes half to a third of the time for a sync.
//!
//! The writer moves on to another file at a place in the queue ([`Log::switch`]), so that a snapshot taken
//! at that place and the new file together hold exactly everything. The file before is durable by then.
//!
//! [reserved]: super::reserve

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use mantissa_protocol::encode_request;

use super::reserve::{
    self, END_BYTES, FILLER, GROUP_BYTES_MAX, HEAD_BYTES_MAX, Head, Nonce, RESERVE_BYTES_MAX,
};
use super::write::put_timestamp;
use crate::storage::StorageFile;

/// Units beyond this size are handed over instead of copied.
const COPIED_BYTES_MAX: usize = 64 << 10;
/// Queued units are gathered into pieces of about this size.
const PIECE_BYTES: usize = 1 << 20;
/// How often the file is made durable when that is done every second.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// How long that may take before those who append are asked to wait.
const SYNC_TIME_MAX: Duration = Duration::from_secs(2);
/// Bytes that may wait to be written before those who append are asked to wait.
const QUEUED_BYTES_MAX: u64 = 256 << 20;
/// Where making durable takes no longer than this, waking another thread for it would take as long.
const QUICK_SYNC: Duration = Duration::from_micros(250);
/// And where no more than this is to be written. It takes a quarter of a millisecond where it is not made
/// durable.
const QUICK_BYTES: u64 = 256 << 10;
/// Bytes that a file is lengthened by ahead of what is written.
const RESERVE_BYTES: u64 = 1 << 20;
/// More units than are ever appended.
const AWAKE: u64 = u64::MAX;
/// How often a failed write is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// When what is written is made durable: `appendfsync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// As soon as it is written, before anybody is told of it.
    Always,
    /// Once a second.
    EverySecond,
    /// When the system sees fit.
    Never,
}

/// Commands that are logged together: either all of them are loaded again, or none.
#[derive(Debug, Default)]
pub struct Unit {
    bytes: Vec<u8>,
    commands: usize,
    first_database: usize,
    last_database: usize,
    /// The commands do not belong together.
    is_loose: bool,
}

impl Unit {
    /// Whether there is nothing in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.commands == 0
    }

    /// Adds a command on a database.
    pub fn push<'a>(
        &mut self,
        database: usize,
        words: impl IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>,
    ) {
        if self.commands == 0 {
            self.first_database = database;
        } else if self.last_database != database {
            put_select(database, &mut self.bytes);
        }
        self.last_database = database;
        self.commands += 1;
        encode_request(&mut self.bytes, words);
    }

    /// Says that the commands do not belong together: one of them may be loaded without the next.
    pub fn loosen(&mut self) {
        self.is_loose = true;
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(COPIED_BYTES_MAX);
        (self.commands, self.is_loose) = (0, false);
    }
}

fn put_select(database: usize, out: &mut Vec<u8>) {
    encode_request(out, ["SELECT", &database.to_string()]);
}

/// Gives the next file, run by the writer once all before is durable. `None` closes the log. After an error
/// the present file is written on.
pub type NextFile = Box<dyn FnOnce() -> io::Result<Option<Box<dyn StorageFile>>> + Send>;

/// What is queued for the writer.
enum Item {
    Bytes(Vec<u8>),
    Switch(NextFile),
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    /// The database that the next command will be run in when it is loaded; unknown in a new file.
    database: Option<usize>,
    /// The time of the last annotation, in s.
    stamped_s: i64,
    /// Whether appended units go anywhere.
    is_open: bool,
    /// Something is due at another time than when the writer fell asleep.
    is_to_recheck: bool,
}

impl Queue {
    /// The piece that the next unit is added to.
    fn piece(&mut self) -> &mut Vec<u8> {
        let fits = matches!(self.items.back(), Some(Item::Bytes(piece)) if piece.len() < PIECE_BYTES);
        if !fits {
            self.items.push_back(Item::Bytes(Vec::new()));
        }
        match self.items.back_mut() {
            Some(Item::Bytes(piece)) => piece,
            _ => unreachable!("a piece was pushed if the last item was none"),
        }
    }

    /// Whether the writer is to go on with another file.
    fn has_switch(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Switch(_)))
    }

    /// Adds bytes, and returns how many.
    fn add(&mut self, bytes: &[u8]) -> u64 {
        self.piece().extend_from_slice(bytes);
        bytes.len() as u64
    }
}

/// See the module's description.
pub struct Log {
    queue: Mutex<Queue>,
    has_work: Condvar,
    /// The writer sleeps until so many units were appended; [`AWAKE`] while it does not sleep.
    wakes_at_units: AtomicU64,
    policy: AtomicU8,
    /// What can not be written when the log is closed is given up.
    is_closing: AtomicBool,
    /// Nothing is made durable although the policy says so: `no-appendfsync-on-rewrite`.
    holds_syncs: AtomicBool,
    is_syncing: AtomicBool,
    /// Bytes that the file is lengthened by ahead; 0 if it is not.
    reserve_bytes: AtomicU64,
    /// Making durable takes too long.
    is_slow: AtomicBool,
    /// Times that it took too long.
    slow_syncs: AtomicU64,
    /// What the other thread's last attempt came to: the position up to which all is durable.
    sync_outcome: Mutex<Option<io::Result<u64>>>,
    /// Units appended.
    units: AtomicU64,
    end: AtomicU64,
    written: AtomicU64,
    durable: AtomicU64,
}

impl Default for Log {
    fn default() -> Self {
        Log {
            queue: Mutex::default(),
            has_work: Condvar::new(),
            wakes_at_units: AtomicU64::new(AWAKE),
            policy: AtomicU8::new(SyncPolicy::EverySecond as u8),
            is_closing: AtomicBool::new(false),
            holds_syncs: AtomicBool::new(false),
            is_syncing: AtomicBool::new(false),
            reserve_bytes: AtomicU64::new(RESERVE_BYTES),
            is_slow: AtomicBool::new(false),
            slow_syncs: AtomicU64::new(0),
            sync_outcome: Mutex::new(None),
            units: AtomicU64::new(0),
            end: AtomicU64::new(0),
            written: AtomicU64::new(0),
            durable: AtomicU64::new(0),
        }
    }
}

impl Log {
    /// How what is written is made durable.
    pub fn policy(&self) -> SyncPolicy {
        match self.policy.load(Ordering::Relaxed) {
            0 => SyncPolicy::Always,
            1 => SyncPolicy::EverySecond,
            _ => SyncPolicy::Never,
        }
    }

    /// Changes how what is written is made durable.
    pub fn set_policy(&self, policy: SyncPolicy) {
        self.policy.store(policy as u8, Ordering::Relaxed);
        self.wake();
    }

    /// Changes by how many bytes the file is lengthened ahead where everything is made durable at once, up to
    /// 64 MB; 0: not at all.
    pub fn set_reserve(&self, bytes: u64) {
        self.reserve_bytes.store(bytes.min(RESERVE_BYTES_MAX), Ordering::Relaxed);
    }

    /// Lets what is written wait to be made durable, whatever the policy, or no longer.
    pub fn hold_syncs(&self, holds: bool) {
        self.holds_syncs.store(holds, Ordering::Relaxed);
        self.wake();
    }

    /// Whether something is being made durable.
    pub fn is_syncing(&self) -> bool {
        self.is_syncing.load(Ordering::Relaxed)
    }

    /// Whether those who append should wait.
    #[inline]
    pub fn is_stalled(&self) -> bool {
        let written = self.written();
        self.is_slow.load(Ordering::Relaxed) || self.end() - written > QUEUED_BYTES_MAX
    }

    /// Times that making durable took so long that those who append were asked to wait.
    pub fn slow_syncs(&self) -> u64 {
        self.slow_syncs.load(Ordering::Relaxed)
    }

    /// The position after everything that was appended.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// The position up to which the system has it.
    #[inline]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// The position up to which it survives a crash.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::SeqCst)
    }

    /// Appends a unit, which is empty afterwards, and returns the position behind it. `now_s` notes the time
    /// (Unix time in s) if it is not the one that was noted last. [`Log::kick`] is to follow soon.
    pub fn append(&self, unit: &mut Unit, now_s: Option<i64>) -> u64 {
        let wraps = unit.commands > 1 && !unit.is_loose;
        let mut queue = locked(&self.queue);
        if !queue.is_open || unit.is_empty() {
            unit.clear();
            return self.end.load(Ordering::Relaxed);
        }
        let mut bytes = 0;
        if let Some(now_s) = now_s.filter(|&now_s| now_s > queue.stamped_s) {
            queue.stamped_s = now_s;
            let mut line = Vec::new();
            put_timestamp(now_s, &mut line);
            bytes += queue.add(&line);
        }
        if queue.database != Some(unit.first_database) {
            let mut select = Vec::new();
            put_select(unit.first_database, &mut select);
            bytes += queue.add(&select);
        }
        if wraps {
            bytes += queue.add(b"*1\r\n$5\r\nMULTI\r\n");
        }
        if unit.bytes.len() <= COPIED_BYTES_MAX {
            bytes += queue.add(&unit.bytes);
        } else {
            bytes += unit.bytes.len() as u64;
            queue.items.push_back(Item::Bytes(std::mem::take(&mut unit.bytes)));
        }
        if wraps {
            bytes += queue.add(b"*1\r\n$4\r\nEXEC\r\n");
        }
        queue.database = Some(unit.last_database);
        let end = self.end.load(Ordering::Relaxed) + bytes;
        self.end.store(end, Ordering::Release);
        self.units.fetch_add(1, Ordering::Relaxed);
        drop(queue);
        unit.clear();
        end
    }

    /// Has the writer begin with what was appended, if it sleeps and does not wait for more.
    #[inline]
    pub fn kick(&self) {
        // It falls asleep under the queue's lock, so one who has appended since sees that it sleeps.
        if self.units.load(Ordering::Relaxed) >= self.wakes_at_units.load(Ordering::Acquire) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        let _queue = locked(&self.queue);
        self.has_work.notify_all();
    }

    /// Has who waits in [`Log::wait`] ask the writer again what to wait for.
    pub fn recheck(&self) {
        locked(&self.queue).is_to_recheck = true;
        self.has_work.notify_all();
    }

    /// Sleeps until there is something for the writer to do.
    pub fn wait(&self, pause: &Pause) {
        let mut queue = locked(&self.queue);
        if std::mem::take(&mut queue.is_to_recheck) {
            return;
        }
        let is_synced = pause.ends_with_sync && !self.is_syncing.load(Ordering::Acquire);
        if pause.timeout.is_zero() || is_synced || (pause.ends_with_work && !queue.items.is_empty()) {
            return;
        }
        drop(self.sleep(queue, pause.timeout, 0));
    }

    /// Sleeps until so many units were appended, something else happens, or `timeout` has passed.
    fn sleep<'q>(
        &self,
        queue: MutexGuard<'q, Queue>,
        timeout: Duration,
        units: u64,
    ) -> MutexGuard<'q, Queue> {
        self.wakes_at_units.store(units, Ordering::Release);
        let woken = self.has_work.wait_timeout(queue, timeout);
        self.wakes_at_units.store(AWAKE, Ordering::Release);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Has the writer go on with another file, which it gets from `next`, after what was appended so far. The
    /// log is open from now on.
    pub fn switch(&self, next: NextFile) {
        let mut queue = locked(&self.queue);
        queue.items.push_back(Item::Switch(next));
        queue.is_open = true;
        self.is_closing.store(false, Ordering::Relaxed);
        queue.database = None;
        queue.stamped_s = 0;
        self.has_work.notify_all();
    }

    /// Drops what is appended from now on; the writer closes the file after what was appended so far, and
    /// calls `closed` then. What can not be written at the next attempt is lost.
    pub fn close(&self, closed: impl FnOnce() + Send + 'static) {
        let mut queue = locked(&self.queue);
        queue.is_open = false;
        self.is_closing.store(true, Ordering::Relaxed);
        queue.items.push_back(Item::Switch(Box::new(|| {
            closed();
            Ok(None)
        })));
        self.has_work.notify_all();
    }
}

/// What went wrong.
#[derive(Debug)]
pub enum Failure {
    /// A write: what could not be written is kept, and tried again a second later.
    Write(io::Error),
    /// Making durable. What was written since the last time may be lost in a crash, also if a later attempt
    /// succeeds.
    Sync(io::Error),
    /// The next file: the present one is written on.
    Switch(io::Error),
    /// Writing or making durable while the log was being closed. It is closed, without what was left.
    Closed(io::Error),
}

/// What a writer waits for: see [`Log::wait`].
#[derive(Debug)]
pub struct Pause {
    timeout: Duration,
    ends_with_sync: bool,
    ends_with_work: bool,
}

/// Writes what is appended to a log. There is one for each log.
pub struct Writer {
    log: Arc<Log>,
    file: Option<Box<dyn StorageFile>>,
    /// What has been taken from the queue and is not known to be written as a whole.
    batch: VecDeque<Item>,
    /// How much of the batch is written: whole items, and bytes of the next.
    done_items: usize,
    done_bytes: usize,
    /// The length of the file before the batch, without reserved room.
    length: u64,
    /// Where the room ends that is reserved behind that; 0 if there is none.
    reserved_end: u64,
    /// No room could be reserved in this file.
    is_full: bool,
    /// The nonce of the room, and the batch with what precedes it, as it goes there.
    nonce: Nonce,
    group: Vec<u8>,
    /// A group was written since the file was made durable: that is due, whatever the policy is now.
    has_group: bool,
    /// Something was written since the file was made durable.
    is_dirty: bool,
    synced_at: Option<Instant>,
    /// Where files are handed to be made durable beside the writing, and when the last one was.
    syncer: Option<mpsc::Sender<(Box<dyn StorageFile>, u64)>>,
    sync_began: Option<Instant>,
    failed_at: Option<Instant>,
    /// Units that were in the file when it was last made durable, and how long that took.
    synced_units: u64,
    written_units: u64,
    sync_time: Duration,
    /// How long making durable took in the last turn; 0 if it did not come to it.
    last_sync: Duration,
    /// Units that somebody waited for just before the last of them became durable.
    awaited_units: u64,
}

impl Writer {
    /// The writer of a log that has none yet.
    pub fn new(log: Arc<Log>) -> Self {
        Writer {
            log,
            file: None,
            batch: VecDeque::new(),
            done_items: 0,
            done_bytes: 0,
            length: 0,
            reserved_end: 0,
            is_full: false,
            nonce: Nonce::new(),
            group: Vec::new(),
            has_group: false,
            is_dirty: false,
            synced_at: None,
            syncer: None,
            sync_began: None,
            failed_at: None,
            synced_units: 0,
            written_units: 0,
            sync_time: Duration::ZERO,
            last_sync: Duration::ZERO,
            awaited_units: 0,
        }
    }

    /// Starts a thread that makes durable what is written, where that happens once a second.
    pub fn start_syncer(&mut self) -> io::Result<()> {
        let (sender, files) = mpsc::channel::<(Box<dyn StorageFile>, u64)>();
        let log = Arc::clone(&self.log);
        let body = move || {
            for (mut file, position) in files {
                let outcome = file.sync().map(|()| position);
                *locked(&log.sync_outcome) = Some(outcome);
                log.is_syncing.store(false, Ordering::Release);
                log.wake();
            }
        };
        std::thread::Builder::new().name("aof-sync".to_owned()).spawn(body)?;
        self.syncer = Some(sender);
        Ok(())
    }

    /// What there is to wait for now; for no longer than `timeout`.
    pub fn pause(&self, now: Instant, timeout: Duration) -> Pause {
        let has_batch = self.failed_at.is_none() && !self.batch.is_empty();
        let due = if has_batch { Some(now) } else { self.next_attempt() };
        Pause {
            timeout: due.map_or(timeout, |due| timeout.min(due.saturating_duration_since(now))),
            ends_with_sync: self.sync_began.is_some(),
            ends_with_work: self.failed_at.is_none(),
        }
    }

    /// Whether everything that was taken from the queue is written.
    pub fn is_idle(&self) -> bool {
        self.batch.is_empty() && self.failed_at.is_none()
    }

    /// Whether something is to be tried at some time although nobody appends anything.
    pub fn has_deadline(&self) -> bool {
        self.next_attempt().is_some()
    }

    /// Whether [`Writer::turn`] is over so soon that one who waits for it had better do it himself.
    pub fn is_quick(&self) -> bool {
        let is_sync_quick = match self.log.policy() {
            SyncPolicy::Always => !self.sync_time.is_zero() && self.sync_time <= QUICK_SYNC,
            // A group of before is still to be made durable.
            _ => !self.has_group && self.reserved_end == 0,
        };
        is_sync_quick
            && self.log.end() - self.log.written() <= QUICK_BYTES
            && self.failed_at.is_none()
            // A write may wait for the sync of the same file.
            && self.sync_began.is_none()
            && !locked(&self.log.queue).has_switch()
    }

    /// Waits, where everything is made durable at once, for those to come back who were told last: they share
    /// the next time, instead of waiting for the one after it. Half of what making durable takes is the most
    /// that this costs who comes first.
    pub fn gather(&mut self) {
        if self.log.policy() != SyncPolicy::Always || self.failed_at.is_some() {
            return;
        }
        let deadline = Instant::now() + self.sync_time / 2;
        let expected = self.synced_units + self.awaited_units * 9 / 10;
        let mut queue = locked(&self.log.queue);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || queue.has_switch() || self.log.units.load(Ordering::Relaxed) >= expected {
                return;
            }
            queue = self.log.sleep(queue, left, expected);
        }
    }

    /// When something is to be tried although nobody appends anything.
    fn next_attempt(&self) -> Option<Instant> {
        if let Some(failed_at) = self.failed_at {
            return Some(failed_at + RETRY_INTERVAL);
        }
        let syncs =
            self.log.policy() == SyncPolicy::EverySecond && !self.log.holds_syncs.load(Ordering::Relaxed);
        self.synced_at.filter(|_| self.is_dirty && syncs).map(|synced_at| synced_at + SYNC_INTERVAL)
    }

    /// Whether the last attempt failed.
    pub fn is_failing(&self) -> bool {
        self.failed_at.is_some()
    }

    /// How long making durable took in the last turn; 0 if it did not come to it.
    pub fn last_sync(&self) -> Duration {
        self.last_sync
    }

    /// The length of the file in bytes, without reserved room.
    pub fn file_bytes(&self) -> u64 {
        self.length
    }

    /// Writes what is queued and makes it durable if that is due. Does nothing for a while after a failure.
    pub fn turn(&mut self, now: Instant) -> Result<(), Failure> {
        if self.failed_at.is_some_and(|failed_at| now < failed_at + RETRY_INTERVAL) {
            return Ok(());
        }
        self.last_sync = Duration::ZERO;
        let outcome = self.write_queued().and_then(|()| self.sync_if_due(now));
        let outcome = match outcome {
            Err(Failure::Write(error) | Failure::Sync(error)) if self.gives_up() => {
                self.give_up();
                return Err(Failure::Closed(error));
            }
            outcome => outcome,
        };
        if !matches!(outcome, Err(Failure::Switch(_))) {
            self.failed_at = outcome.is_err().then_some(now);
        }
        outcome
    }

    /// Whether what can not be written is lost: not where somebody waits for it to be durable.
    fn gives_up(&self) -> bool {
        self.log.is_closing.load(Ordering::Relaxed) && self.log.policy() != SyncPolicy::Always
    }

    /// Closes the file without what could not be written.
    fn give_up(&mut self) {
        let end = {
            let mut queue = locked(&self.log.queue);
            self.batch.append(&mut queue.items);
            self.log.end()
        };
        (self.done_items, self.done_bytes) = (0, 0);
        // Whoever loads the file can do without.
        let _ = self.cut_reserve();
        for item in std::mem::take(&mut self.batch) {
            if let Item::Switch(next) = item {
                self.file = next().ok().flatten();
            }
        }
        (self.is_dirty, self.failed_at) = (false, None);
        // Nobody waits any more for what is lost to be durable.
        self.log.written.store(end, Ordering::SeqCst);
        self.log.durable.store(end, Ordering::SeqCst);
    }

    /// Writes what is queued and makes it durable, whatever the policy.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.write_queued()?;
        self.cut_reserve()?;
        self.sync()
    }

    fn write_queued(&mut self) -> Result<(), Failure> {
        let units = {
            let mut queue = locked(&self.log.queue);
            self.batch.append(&mut queue.items);
            self.log.units.load(Ordering::Relaxed)
        };
        match self.group_bytes() {
            Some(bytes) if self.reserve(bytes)? => self.write_group()?,
            _ if self.batch.is_empty() => {}
            _ => self.cut_reserve()?,
        }
        loop {
            match self.batch.get(self.done_items) {
                None => break,
                Some(Item::Bytes(_)) => self.write_item()?,
                Some(Item::Switch(_)) => self.switch()?,
            }
        }
        self.settle_batch();
        self.written_units = units;
        Ok(())
    }

    /// Bytes of the batch if it is one for reserved room: made durable at once, and no larger than a group.
    fn group_bytes(&self) -> Option<u64> {
        let bytes = self.batch.iter().map(|item| match item {
            Item::Bytes(bytes) => bytes.len(),
            // The file ends here.
            Item::Switch(_) => usize::MAX,
        });
        let bytes = bytes.fold(0, usize::saturating_add);
        let suits = self.log.policy() == SyncPolicy::Always
            && self.log.reserve_bytes.load(Ordering::Relaxed) > 0
            && !self.log.holds_syncs.load(Ordering::Relaxed)
            && (self.done_items, self.done_bytes) == (0, 0)
            && (1..=GROUP_BYTES_MAX).contains(&bytes)
            && self.file.is_some()
            && !self.is_full;
        suits.then_some(bytes as u64)
    }

    /// Sees to it that there is durable room for a group of so many bytes, and some behind it. False if the
    /// disk gives none.
    fn reserve(&mut self, group: u64) -> Result<bool, Failure> {
        if self.reserved_end == 0 {
            self.nonce = Nonce::new();
            let mut mark = Vec::new();
            reserve::put_line(&self.nonce.mark(), self.length, &mut mark);
            let length = self.length + mark.len() as u64;
            mark.extend_from_slice(&self.nonce.end());
            if !self.lengthen(self.length, &mark)? {
                return Ok(false);
            }
            self.length = length;
        }
        let needed = self.length + (HEAD_BYTES_MAX + END_BYTES) as u64 + group;
        if needed <= self.reserved_end {
            return Ok(true);
        }
        // The line that ends the room is written over, and written anew.
        let start = self.reserved_end - END_BYTES as u64;
        let room = self.log.reserve_bytes.load(Ordering::Relaxed) + (needed - start);
        let mut added = FILLER.repeat((room / 2) as usize);
        added.extend_from_slice(&self.nonce.end());
        if !self.lengthen(start, &added)? {
            return Ok(false);
        }
        let Some(file) = &mut self.file else { return Ok(false) };
        file.go_to(self.length).map_err(Failure::Write)?;
        Ok(true)
    }

    /// Writes durable room from `start` on to the end of the file. False if the disk does not take it.
    fn lengthen(&mut self, start: u64, room: &[u8]) -> Result<bool, Failure> {
        let Some(file) = &mut self.file else { return Ok(false) };
        // Until all of it is done: what there is of it is cut off before anything else is written.
        self.is_full = true;
        self.reserved_end = start + room.len() as u64;
        if file.go_to(start).and_then(|()| file.write_all(room)).is_err() {
            return Ok(false);
        }
        file.sync().map_err(Failure::Sync)?;
        self.is_full = false;
        Ok(true)
    }

    /// Writes the batch to reserved room.
    fn write_group(&mut self) -> Result<(), Failure> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let parts = || {
            self.batch.iter().filter_map(|item| match item {
                Item::Bytes(bytes) => Some(&bytes[..]),
                Item::Switch(_) => None,
            })
        };
        let head = Head::of(self.nonce, parts());
        self.group.clear();
        reserve::put_line(&head.line(), self.length + head.bytes as u64, &mut self.group);
        let line = self.group.len() as u64;
        parts().for_each(|part| self.group.extend_from_slice(part));
        (self.is_dirty, self.has_group) = (true, true);
        if let Err(error) = file.write_all(&self.group) {
            // The next attempt cuts off what there is of it.
            self.is_full = true;
            return Err(Failure::Write(error));
        }
        self.length += line;
        self.done_items = self.batch.len();
        Ok(())
    }

    /// Cuts reserved room off, durably: what is written next may share its last block.
    fn cut_reserve(&mut self) -> Result<(), Failure> {
        if self.has_group {
            self.sync()?;
        }
        if let Some(file) = &mut self.file
            && self.reserved_end > 0
        {
            file.set_length(self.length).map_err(Failure::Write)?;
            file.sync().map_err(Failure::Sync)?;
        }
        self.reserved_end = 0;
        Ok(())
    }

    /// Writes the rest of the next item.
    fn write_item(&mut self) -> Result<(), Failure> {
        let Some(Item::Bytes(bytes)) = self.batch.get(self.done_items) else { return Ok(()) };
        let rest = bytes.get(self.done_bytes..).unwrap_or_default();
        let Some(file) = &mut self.file else {
            // Between two files there is none; the log is closed then, or could not be opened.
            self.done_items += 1;
            return Ok(());
        };
        if rest.is_empty() {
            (self.done_items, self.done_bytes) = (self.done_items + 1, 0);
            return Ok(());
        }
        match file.write(rest) {
            Ok(0) => Err(self.undo(io::Error::from(io::ErrorKind::WriteZero))),
            Ok(count) => {
                self.is_dirty = true;
                self.done_bytes += count;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(self.undo(error)),
        }
    }

    /// Takes what is written of the batch out of the file again, so that it ends with a whole unit. If that
    /// fails too, the next attempt goes on where this one ended.
    fn undo(&mut self, error: io::Error) -> Failure {
        if let Some(file) = &mut self.file
            && (self.done_items, self.done_bytes) != (0, 0)
            && file.set_length(self.length).is_ok()
        {
            (self.done_items, self.done_bytes) = (0, 0);
        }
        Failure::Write(error)
    }

    /// Forgets the part of the batch that is written.
    fn settle_batch(&mut self) {
        let bytes: u64 = self
            .batch
            .drain(..self.done_items)
            .map(|item| match item {
                Item::Bytes(bytes) => bytes.len() as u64,
                Item::Switch(_) => 0,
            })
            .sum();
        (self.done_items, self.done_bytes) = (0, 0);
        self.length += bytes;
        self.log.written.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Goes on with the next file.
    fn switch(&mut self) -> Result<(), Failure> {
        self.settle_batch();
        self.cut_reserve()?;
        self.sync()?;
        let Some(Item::Switch(next)) = self.batch.pop_front() else { return Ok(()) };
        self.is_full = false;
        let opened = next().and_then(|file| {
            let length = file.as_ref().map_or(Ok(0), |file| file.length())?;
            Ok((file, length))
        });
        (self.file, self.length) = opened.map_err(Failure::Switch)?;
        Ok(())
    }

    fn sync_if_due(&mut self, now: Instant) -> Result<(), Failure> {
        self.note_synced(now)?;
        match self.log.policy() {
            _ if self.has_group => self.sync(),
            SyncPolicy::Always => self.sync(),
            SyncPolicy::EverySecond => {
                let synced_at = *self.synced_at.get_or_insert(now);
                let is_held = self.log.holds_syncs.load(Ordering::Relaxed) || self.sync_began.is_some();
                if is_held || !self.is_dirty || now < synced_at + SYNC_INTERVAL {
                    return Ok(());
                }
                self.synced_at = Some(now);
                self.begin_sync(now)
            }
            SyncPolicy::Never => Ok(()),
        }
    }

    /// Hands the file to the other thread, if there is one.
    fn begin_sync(&mut self, now: Instant) -> Result<(), Failure> {
        let (Some(file), Some(syncer)) = (&self.file, &self.syncer) else { return self.sync() };
        let file = file.duplicate().map_err(Failure::Sync)?;
        self.log.is_syncing.store(true, Ordering::Release);
        if syncer.send((file, self.log.written())).is_err() {
            self.log.is_syncing.store(false, Ordering::Release);
            return self.sync();
        }
        self.sync_began = Some(now);
        self.is_dirty = false;
        Ok(())
    }

    /// Notes what the other thread has come to, or that it takes too long.
    fn note_synced(&mut self, now: Instant) -> Result<(), Failure> {
        let Some(began) = self.sync_began else { return Ok(()) };
        if self.log.is_syncing.load(Ordering::Acquire) {
            if now >= began + SYNC_TIME_MAX && !self.log.is_slow.swap(true, Ordering::Relaxed) {
                self.log.slow_syncs.fetch_add(1, Ordering::Relaxed);
            }
            return Ok(());
        }
        self.sync_began = None;
        self.log.is_slow.store(false, Ordering::Relaxed);
        match locked(&self.log.sync_outcome).take() {
            Some(Ok(position)) => {
                self.log.durable.fetch_max(position, Ordering::SeqCst);
                Ok(())
            }
            Some(Err(error)) => {
                self.is_dirty = true;
                Err(Failure::Sync(error))
            }
            None => Ok(()),
        }
    }

    /// Waits until the other thread has nothing in hand.
    fn await_syncer(&mut self) -> Result<(), Failure> {
        let mut queue = locked(&self.log.queue);
        while self.log.is_syncing.load(Ordering::Acquire) {
            let woken = self.log.has_work.wait_timeout(queue, SYNC_INTERVAL);
            queue = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(queue);
        self.note_synced(Instant::now())
    }

    /// Makes everything durable that is written.
    fn sync(&mut self) -> Result<(), Failure> {
        if self.sync_began.is_some() {
            self.await_syncer()?;
        }
        if let Some(file) = self.file.as_mut().filter(|_| self.is_dirty) {
            self.log.is_syncing.store(true, Ordering::Relaxed);
            let began = Instant::now();
            let outcome = file.sync();
            self.log.is_syncing.store(false, Ordering::Relaxed);
            outcome.map_err(Failure::Sync)?;
            self.last_sync = began.elapsed();
            self.sync_time = (self.sync_time * 7 + self.last_sync) / 8;
            self.awaited_units = self.log.units.load(Ordering::Relaxed) - self.synced_units;
            self.synced_units = self.written_units;
        }
        (self.is_dirty, self.has_group) = (false, false);
        self.log.durable.store(self.log.written(), Ordering::SeqCst);
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
