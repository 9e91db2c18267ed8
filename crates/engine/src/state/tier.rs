//! The state of values on disk: the file, the reads that wait, and counts. What is done with it is
//! [`crate::tier`].

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

use mantissa_commands::{Error, ForRequest, Lent, Outcome, Take, TakenPart};
use mantissa_persist::tier::{TierFigures, TierFile};
use mantissa_store::KeyHash;
use mantissa_store::cold::{Cold, Elements, Part, RecordId};
use mantissa_sys::clock;
use parking_lot::{Condvar, Mutex};

use crate::client::SharedSession;
use crate::memory_limit::{Candidate, Lease, Search};

/// How long a value that could not be read counts as unreadable.
const FAILURE_LASTS: Duration = Duration::from_secs(1);
/// How often such a failure is told of.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// Large values that wait at most.
const LARGE_WAITING_MAX: usize = 16;
/// Bytes of a value that takes so long to move that others should wait for it while memory is full.
const HUGE_BYTES: usize = 8 << 20;
/// Large values in a row that can not be moved after which none are left to that thread for a while.
const LARGE_FRUITLESS_MAX: usize = 2 * LARGE_WAITING_MAX;
const FRUITLESS_REST: Duration = Duration::from_millis(10);
/// A value that could not be moved is left alone for so many times as long as it took to find that out, and
/// for so long at least.
const REST_FACTOR: u32 = 16;
const REST_MIN: Duration = Duration::from_millis(100);
/// Values that are left alone at most.
const RESTING_MAX: usize = 1024;
/// Records of a batch that a reader reads before others have their turn.
const BATCH_STEP: usize = 64;
/// Bytes of their values after which they have it too.
const BATCH_STEP_BYTES: usize = 1 << 20;
const TOO_MUCH: Error = Error::fixed(
    "ERR too many samples to be read from disk at once, ask for fewer series, less time or buckets",
);
const FAILED_INSIDE: Error = Error::fixed("ERR reading a value from disk failed inside the server");
/// About what it takes to hold a part of a value for a request.
const PART_BYTES: usize = 160;
/// While there are reads of both kinds, one in so many is of those that others come before.
const LATER_EVERY: u64 = 8;
/// Bytes of values that wait to be read though no request waits for them.
const UNASKED_BYTES_MAX: usize = 8 << 20;
/// Values of more bytes are read one at a time while they have more than [`READING_BYTES_MAX`] together.
const READ_FREELY_BYTES_MAX: usize = 1 << 20;
const READING_BYTES_MAX: usize = 64 << 20;
/// How often an idle reader or mover looks whether the engine ends.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The engine's values on disk.
#[derive(Default)]
pub struct Tier {
    file: OnceLock<Arc<TierFile>>,
    /// A value has gone there.
    is_used: AtomicBool,
    /// Reads that wait.
    pub reads: Reads,
    /// Large values that are to go there.
    pub large: LargeValues,
    /// Whether segments of a full file are being emptied.
    pub emptying: Emptying,
    /// Looks for the few that can go where most can not.
    pub search: Search,
    offloaded: AtomicU64,
    /// Values whose copy in memory was given up.
    pub forgotten: AtomicU64,
    /// Records that were moved to empty a segment.
    pub moved: AtomicU64,
}

/// What INFO shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Of the file.
    pub file: TierFigures,
    /// Values that were moved there.
    pub offloaded: u64,
    /// Values that were there already and left memory again.
    pub forgotten: u64,
    /// Records that were moved to empty a segment.
    pub moved: u64,
    /// Requests that have waited for values, and waits of the link to a primary.
    pub fetches: u64,
}

impl Tier {
    /// The file, if there is one.
    #[inline]
    pub fn file(&self) -> Option<&Arc<TierFile>> {
        self.file.get()
    }

    /// Whether values may be on disk.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Sets the file, once.
    pub fn open(&self, file: Arc<TierFile>) {
        let _set_once = self.file.set(file);
    }

    /// Notes that a value has gone to the file.
    pub fn note_use(&self) {
        self.is_used.store(true, Ordering::Relaxed);
        self.offloaded.fetch_add(1, Ordering::Relaxed);
    }

    /// Puts another most disk space into force, with a configuration by which other values may go.
    pub fn configure(&self, bytes_max: u64) {
        if let Some(file) = self.file() {
            file.configure(bytes_max);
            self.large.forget_rests();
            self.search.begin_anew();
        }
    }

    /// What INFO shows; `None` where all values are in memory.
    pub fn figures(&self) -> Option<Figures> {
        Some(Figures {
            file: self.file()?.figures(),
            offloaded: self.offloaded.load(Ordering::Relaxed),
            forgotten: self.forgotten.load(Ordering::Relaxed),
            moved: self.moved.load(Ordering::Relaxed),
            fetches: self.reads.fetches(),
        })
    }
}

/// Whether segments of a full file are being emptied ([`crate::turnover`]), as all threads see it.
#[derive(Default)]
pub struct Emptying {
    is_at_work: AtomicBool,
    /// Unix time in ms.
    rests_until: AtomicI64,
}

impl Emptying {
    /// Has segments be emptied.
    pub fn ask(&self) {
        self.is_at_work.store(true, Ordering::Relaxed);
    }

    /// Whether they are being emptied, or are to be.
    pub fn is_at_work(&self) -> bool {
        self.is_at_work.load(Ordering::Relaxed)
    }

    /// Whether that has freed nothing of late.
    pub fn rests(&self) -> bool {
        clock::unix_ms() < self.rests_until.load(Ordering::Relaxed)
    }

    /// Has it rest for so long from now on.
    pub fn rest(&self, rest: Duration) {
        self.rests_until.store(clock::unix_ms() + rest.as_millis() as i64, Ordering::Relaxed);
    }

    /// Notes that it has ended.
    pub fn end(&self) {
        self.is_at_work.store(false, Ordering::Relaxed);
    }
}

/// Large values that wait for the thread that moves them to disk.
#[derive(Default)]
pub struct LargeValues {
    queue: Mutex<LargeQueue>,
    arrived: Condvar,
}

#[derive(Default)]
struct LargeQueue {
    waiting: VecDeque<Candidate>,
    /// The first of them is being moved, which takes long.
    is_moving_huge: bool,
    /// Values in a row that could not be moved, and when that was the last time.
    fruitless: usize,
    fruitless_since: Option<Instant>,
    /// Values that could not be moved, and until when they are left alone.
    resting: HashMap<Key, Instant>,
}

/// What becomes of a large value that is to be left to the thread that moves them.
#[derive(PartialEq, Eq, Debug)]
pub enum Offered {
    /// It waits for it.
    Taken,
    /// It has done so before.
    Waits,
    /// Too many others do.
    TooMany,
    /// It could not be moved of late, or none could.
    Rests,
}

impl LargeValues {
    /// Leaves a value to that thread.
    pub fn offer(&self, candidate: Candidate) -> Offered {
        let mut queue = self.queue.lock();
        let is_fruitless = queue.fruitless_since.is_some_and(|since| clock::since(since) < FRUITLESS_REST);
        if is_fruitless || queue.rests(&candidate) {
            return Offered::Rests;
        }
        if queue.waiting.iter().any(|other| other.is_same_key(&candidate)) {
            return Offered::Waits;
        }
        if queue.waiting.len() >= LARGE_WAITING_MAX {
            return Offered::TooMany;
        }
        queue.waiting.push_back(candidate);
        self.arrived.notify_one();
        Offered::Taken
    }

    /// Whether a value could not be moved of late.
    pub fn rests(&self, candidate: &Candidate) -> bool {
        self.queue.lock().rests(candidate)
    }

    /// Notes that a value could not be moved, and how long it took to find that out.
    pub fn rest(&self, candidate: &Candidate, took: Duration) {
        let mut queue = self.queue.lock();
        let now = clock::now();
        if queue.resting.len() >= RESTING_MAX {
            queue.resting.retain(|_, until| *until > now);
        }
        if queue.resting.len() < RESTING_MAX {
            let until = now + (took * REST_FACTOR).max(REST_MIN);
            queue.resting.insert((candidate.database, candidate.hash), until);
        }
    }

    fn forget_rests(&self) {
        self.queue.lock().resting.clear();
    }

    /// Whether the thread has something to do.
    pub fn is_at_work(&self) -> bool {
        !self.queue.lock().waiting.is_empty()
    }

    /// Whether the thread has so much to do that others should wait for it.
    pub fn is_behind(&self) -> bool {
        self.queue.lock().is_behind()
    }

    /// Notes the bytes of a value that is about to be moved.
    pub fn begin(&self, candidate: &Candidate, bytes: usize) {
        let mut queue = self.queue.lock();
        let is_first = queue.waiting.front().is_some_and(|first| first.is_same_key(candidate));
        queue.is_moving_huge |= is_first && bytes > HUGE_BYTES;
    }

    /// The next value to be moved; `None` if none comes for a while.
    pub fn next(&self) -> Option<Candidate> {
        let mut queue = self.queue.lock();
        if queue.waiting.is_empty() {
            self.arrived.wait_for(&mut queue, LOOK_EVERY);
        }
        queue.waiting.front().copied()
    }

    /// Notes that the value that [`LargeValues::next`] has told has been moved, or can not be, if it is known
    /// which. Whether others may have waited for that.
    pub fn end(&self, is_moved: Option<bool>) -> bool {
        let mut queue = self.queue.lock();
        let was_behind = queue.is_behind();
        let was_last = queue.waiting.pop_front().is_some() && queue.waiting.is_empty();
        queue.is_moving_huge = false;
        if let Some(is_moved) = is_moved {
            queue.fruitless = if is_moved { 0 } else { queue.fruitless + 1 };
            let is_fruitless = queue.fruitless >= LARGE_FRUITLESS_MAX;
            queue.fruitless_since = is_fruitless.then(clock::now);
        }
        was_behind || was_last
    }
}

impl LargeQueue {
    fn is_behind(&self) -> bool {
        self.is_moving_huge || self.waiting.len() >= LARGE_WAITING_MAX
    }

    fn rests(&self, candidate: &Candidate) -> bool {
        let until = self.resting.get(&(candidate.database, candidate.hash));
        until.is_some_and(|until| *until > clock::now())
    }
}

/// A database and the hash of a key in it.
pub type Key = (usize, KeyHash);

/// A value to be read, or a part of one.
pub enum Read {
    /// The value of a key.
    Value(Key, Cold),
    /// A part of a value.
    Part(Arc<PartRead>),
    /// Records for one request: some of those that are left.
    Batch(Arc<Batch>),
}

/// What those who need the same read have in common.
#[derive(PartialEq, Eq, Hash)]
enum Wanted {
    Value(Key),
    /// A part of a record.
    Part(RecordId, Asked),
    /// The records of a batch, which stays where it is.
    Batch(usize),
}

impl Read {
    /// What counts of it while it is read.
    fn bytes_at_once(&self) -> usize {
        let bytes = match self {
            Read::Value(_, cold) => cold.place().len(),
            Read::Part(part) => part.bytes,
            Read::Batch(_) => 0,
        };
        if bytes > READ_FREELY_BYTES_MAX { bytes } else { 0 }
    }

    fn wanted(&self) -> Wanted {
        match self {
            Read::Value(key, _) => Wanted::Value(*key),
            Read::Part(part) => Wanted::Part(part.cold.id(), part.asked.clone()),
            Read::Batch(batch) => Wanted::Batch(Arc::as_ptr(batch).addr()),
        }
    }
}

/// What of a value is to be read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Asked {
    /// Bytes of a string, in whole blocks.
    Bytes(Range<usize>),
    /// Elements of a collection.
    Elements(Elements),
}

/// A part of a value that is read for requests that need no more of it.
pub struct PartRead {
    /// The record.
    cold: Cold,
    asked: Asked,
    /// About how many bytes are read.
    bytes: usize,
    outcome: OnceLock<Result<Option<Part>, String>>,
}

impl PartRead {
    /// A part of a record, of about so many bytes.
    pub fn new((cold, asked): (Cold, Asked), bytes: usize) -> Arc<PartRead> {
        Arc::new(PartRead { cold, asked, bytes, outcome: OnceLock::new() })
    }

    /// Notes why it could not be read, unless it has been.
    pub fn fail(&self, reason: &str) {
        let _set_once = self.outcome.set(Err(reason.to_owned()));
    }

    /// Reads it.
    pub fn run(&self) -> Result<(), String> {
        let outcome = self.outcome.get_or_init(|| match &self.asked {
            Asked::Bytes(range) => self.cold.read_part(range.clone()).map(Some),
            Asked::Elements(elements) => self.cold.read_elements(elements),
        });
        outcome.as_ref().map(|_| ()).map_err(String::clone)
    }

    /// What has been read, which is nothing if all of the value has to be; or why it could not be. `None` if
    /// it has not been tried yet.
    pub fn outcome(&self) -> Option<Result<Option<&Part>, &str>> {
        self.outcome.get().map(|outcome| outcome.as_ref().map(Option::as_ref).map_err(String::as_str))
    }

    /// What has been read.
    pub fn part(&self) -> Option<&Part> {
        self.outcome()?.ok()?
    }

    /// Whether it is this part of that record.
    pub fn is_of(&self, cold: &Cold, asked: &Asked) -> bool {
        self.asked == *asked && self.cold.is_same(cold)
    }
}

/// Records that are read for one request and go into no entry.
pub struct Batch {
    /// The command that it is for, as in [`ForRequest`].
    place: usize,
    /// In the order in which they lie on disk.
    records: Vec<Cold>,
    /// What is taken of each.
    take: Take,
    /// What that takes in memory.
    lease: Arc<Lease>,
    /// The next one to be read.
    next: AtomicUsize,
    /// Readers that have not come to the end.
    reading: AtomicUsize,
    /// Gone with the request.
    request: Weak<()>,
    outcomes: Mutex<Vec<(Cold, Outcome<TakenPart>)>>,
}

/// How far a batch is, for one of its readers.
#[derive(PartialEq, Eq)]
pub enum BatchState {
    /// There is more to be read.
    Unfinished,
    /// Other readers read what is left.
    LeftToOthers,
    /// All has been read.
    Read,
}

impl Batch {
    /// Records to be read by some readers for a request.
    pub fn new(of: ForRequest, lease: Arc<Lease>, request: &Arc<()>, readers: usize) -> Arc<Batch> {
        let ForRequest { place, mut records, take } = of;
        records.sort_unstable_by_key(|cold| (cold.segment().number(), cold.place().offset()));
        Arc::new(Batch {
            place,
            records,
            take,
            lease,
            next: AtomicUsize::new(0),
            reading: AtomicUsize::new(readers),
            request: Arc::downgrade(request),
            outcomes: Mutex::default(),
        })
    }

    /// Reads some of what is left.
    pub fn read_some(&self) -> BatchState {
        let mut bytes = 0;
        for _ in 0..BATCH_STEP {
            if bytes >= BATCH_STEP_BYTES {
                break;
            }
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(cold) = self.records.get(index).filter(|_| self.request.strong_count() > 0) else {
                let is_last = self.reading.fetch_sub(1, Ordering::AcqRel) == 1;
                return if is_last { BatchState::Read } else { BatchState::LeftToOthers };
            };
            let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| self.read(cold)));
            let outcome = outcome.unwrap_or(Err(FAILED_INSIDE));
            if outcome.is_err() {
                // The request fails, whatever comes.
                self.next.store(self.records.len(), Ordering::Relaxed);
            }
            self.outcomes.lock().push((cold.clone(), outcome));
            bytes += cold.place().len();
        }
        BatchState::Unfinished
    }

    fn read(&self, cold: &Cold) -> Outcome<TakenPart> {
        let value = cold.read().map_err(Error::unreadable)?;
        let (part, bytes) = (self.take)(cold, value)?;
        if self.lease.add(bytes + PART_BYTES) { Ok(part) } else { Err(TOO_MUCH) }
    }

    /// Adds what was taken to what was before, and returns what holds its bytes. The error is that of a
    /// record that could not be read.
    pub fn collect(&self, to: &mut Lent) -> Outcome<Arc<Lease>> {
        let outcomes = std::mem::take(&mut *self.outcomes.lock()).into_iter();
        let parts: Outcome<Vec<_>> = outcomes.map(|(cold, outcome)| Ok((cold, outcome?))).collect();
        parts?.into_iter().for_each(|(cold, part)| to.add(self.place, cold, part));
        Ok(Arc::clone(&self.lease))
    }

    /// The place of the command that it is for.
    pub fn place(&self) -> usize {
        self.place
    }
}

/// Who waits for values, and is told once they have been read.
pub enum Waiter {
    /// The request of a session: its worker gets a message.
    Request(Arc<SharedSession>),
    /// A thread: it is unparked.
    Thread(Thread),
}

/// What somebody waits for.
pub struct Waiting {
    /// Who that is.
    pub waiter: Waiter,
    /// Values that are still to come.
    left: AtomicUsize,
}

impl Waiting {
    /// Of a session's request for one thing.
    fn of_request(session: &Arc<SharedSession>) -> Arc<Waiting> {
        let waiter = Waiter::Request(Arc::clone(session));
        Arc::new(Waiting { waiter, left: AtomicUsize::new(1) })
    }

    /// Whether values are still to come.
    pub fn is_waiting(&self) -> bool {
        self.left.load(Ordering::Acquire) > 0
    }
}

/// What a value counts for that no request waits for.
fn unasked_bytes(cold: &Cold) -> usize {
    const OVERHEAD: usize = 256;
    cold.place().len() + OVERHEAD
}

/// Reads that wait, and those who wait for them.
#[derive(Default)]
pub struct Reads {
    queue: Mutex<Queue>,
    arrived: Condvar,
    fetches: AtomicU64,
}

#[derive(Default)]
struct Queue {
    reads: VecDeque<Read>,
    /// Those that others come before, but for one in [`LATER_EVERY`]: of batches, and those that no request
    /// waits for.
    later: VecDeque<Read>,
    /// Counts those taken out.
    turn: u64,
    /// Bytes of the values among those that no request waits for.
    unasked_bytes: usize,
    /// Bytes of the values that are being read, but for small ones.
    reading_bytes: usize,
    /// What is being read, those that wait included.
    wanted: HashMap<Wanted, Awaited>,
    /// When, the record of a value, and why.
    failures: HashMap<Wanted, (Instant, Option<RecordId>, String)>,
    /// When a failure was last told of.
    warned: Option<Instant>,
}

/// Who waits for a value or a part of one.
#[derive(Default)]
struct Awaited {
    waiting: Vec<Arc<Waiting>>,
    /// Where the part goes.
    part: Option<Arc<PartRead>>,
}

impl Queue {
    /// Which read is to be the next. Large values keep their order; while those that are being read have many
    /// bytes, only small ones are read beside them.
    fn first_possible(&self) -> Option<usize> {
        let left = if self.reading_bytes == 0 {
            usize::MAX
        } else {
            READING_BYTES_MAX.saturating_sub(self.reading_bytes)
        };
        let first = self.reads.front()?;
        if first.bytes_at_once() <= left {
            return Some(0);
        }
        self.reads.iter().position(|read| read.bytes_at_once() == 0)
    }

    /// Why something can not be read, for as long as that counts. A key may have another record by now.
    fn failure(&mut self, wanted: &Wanted, record: Option<RecordId>) -> Option<String> {
        if self.failures.is_empty() {
            return None;
        }
        self.failures.retain(|_, (since, ..)| clock::since(*since) < FAILURE_LASTS);
        let (_, failed, reason) = self.failures.get(wanted)?;
        (*failed == record).then(|| reason.clone())
    }
}

impl Reads {
    /// Requests that have waited, and waits of the link to a primary.
    pub fn fetches(&self) -> u64 {
        self.fetches.load(Ordering::Relaxed)
    }

    /// The failure of a key that holds still.
    pub fn failure(&self, keys: &[(Key, Cold)]) -> Option<String> {
        let mut queue = self.queue.lock();
        keys.iter().find_map(|(key, cold)| queue.failure(&Wanted::Value(*key), Some(cold.id())))
    }

    /// The failure of a part of a record that holds still.
    pub fn part_failure(&self, cold: &Cold, asked: &Asked) -> Option<String> {
        self.queue.lock().failure(&Wanted::Part(cold.id(), asked.clone()), None)
    }

    /// Has values read for somebody, and returns what tells whether they have been.
    pub fn add(&self, waiter: Waiter, mut missing: Vec<(Key, Cold)>) -> Arc<Waiting> {
        self.fetches.fetch_add(1, Ordering::Relaxed);
        missing.sort_by_key(|(key, _)| (key.0, key.1.0));
        missing.dedup_by_key(|(key, _)| *key);
        let waiting = Arc::new(Waiting { waiter, left: AtomicUsize::new(missing.len()) });
        let mut queue = self.queue.lock();
        for (key, cold) in missing {
            let awaited = queue.wanted.entry(Wanted::Value(key)).or_default();
            awaited.waiting.push(Arc::clone(&waiting));
            if awaited.waiting.len() == 1 {
                queue.reads.push_back(Read::Value(key, cold));
                self.arrived.notify_one();
            }
        }
        waiting
    }

    /// Has a part of a record, of about so many bytes, read for a session's request, and returns where it
    /// goes.
    pub fn add_part(
        &self,
        session: &Arc<SharedSession>,
        (cold, asked): (Cold, Asked),
        bytes: usize,
    ) -> Arc<PartRead> {
        self.fetches.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting::of_request(session);
        let mut queue = self.queue.lock();
        let awaited = queue.wanted.entry(Wanted::Part(cold.id(), asked.clone())).or_default();
        awaited.waiting.push(waiting);
        if let Some(part) = &awaited.part {
            return Arc::clone(part);
        }
        let part = PartRead::new((cold, asked), bytes);
        awaited.part = Some(Arc::clone(&part));
        queue.reads.push_back(Read::Part(Arc::clone(&part)));
        self.arrived.notify_one();
        part
    }

    /// Has the records of a batch read for a session's request.
    pub fn add_batch(
        &self,
        session: &Arc<SharedSession>,
        batch: &Arc<Batch>,
        readers: usize,
    ) -> Arc<Waiting> {
        self.fetches.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting::of_request(session);
        let mut queue = self.queue.lock();
        let awaited = Awaited { waiting: vec![Arc::clone(&waiting)], part: None };
        queue.wanted.insert(Read::Batch(Arc::clone(batch)).wanted(), awaited);
        for _ in 0..readers {
            queue.later.push_back(Read::Batch(Arc::clone(batch)));
            self.arrived.notify_one();
        }
        waiting
    }

    /// Puts a batch back of which more is to be read.
    pub fn go_on(&self, read: Read) {
        self.queue.lock().later.push_back(read);
        self.arrived.notify_one();
    }

    /// Has values read that no request waits for, as far as memory should have room for them.
    pub fn add_unasked(&self, missing: Vec<(Key, Cold)>) {
        let mut queue = self.queue.lock();
        for (key, cold) in missing {
            if queue.unasked_bytes >= UNASKED_BYTES_MAX {
                return;
            }
            if unasked_bytes(&cold) > UNASKED_BYTES_MAX {
                continue;
            }
            let wanted = Wanted::Value(key);
            if !queue.wanted.contains_key(&wanted) && queue.failure(&wanted, Some(cold.id())).is_none() {
                queue.wanted.insert(wanted, Awaited::default());
                queue.unasked_bytes += unasked_bytes(&cold);
                queue.later.push_back(Read::Value(key, cold));
                self.arrived.notify_one();
            }
        }
    }

    /// The next value to be read; `None` if none comes for a while.
    pub fn next(&self) -> Option<Read> {
        let mut queue = self.queue.lock();
        let mut first = queue.first_possible();
        if first.is_none() && queue.later.is_empty() {
            self.arrived.wait_for(&mut queue, LOOK_EVERY);
            first = queue.first_possible();
        }
        queue.turn += 1;
        let is_for_later = queue.turn.is_multiple_of(LATER_EVERY) && !queue.later.is_empty();
        if let Some(index) = first.filter(|_| !is_for_later) {
            let read = queue.reads.remove(index)?;
            queue.reading_bytes += read.bytes_at_once();
            return Some(read);
        }
        let read = queue.later.pop_front()?;
        if let Read::Value(_, cold) = &read {
            queue.unasked_bytes -= unasked_bytes(cold);
        }
        queue.reading_bytes += read.bytes_at_once();
        Some(read)
    }

    /// Whether a failure is to be told of: one in [`WARN_EVERY`] is.
    pub fn warns(&self) -> bool {
        let mut queue = self.queue.lock();
        let warns = queue.warned.is_none_or(|warned| clock::since(warned) >= WARN_EVERY);
        if warns {
            queue.warned = Some(clock::now());
        }
        warns
    }

    /// About the bytes that the large values take that are being read: the record, what it is unpacked to,
    /// and the value.
    pub fn bytes_under_way(&self) -> usize {
        3 * self.queue.lock().reading_bytes
    }

    /// Notes that a value has been read, or why not. Those who wait for nothing more.
    pub fn end(&self, read: &Read, failure: Option<String>) -> Vec<Arc<Waiting>> {
        let mut queue = self.queue.lock();
        let bytes = read.bytes_at_once();
        queue.reading_bytes -= bytes;
        if bytes > 0 && !queue.reads.is_empty() {
            // One that has been too large beside this one may be read now.
            self.arrived.notify_one();
        }
        if let Some(reason) = failure {
            let record = match read {
                Read::Value(_, cold) => Some(cold.id()),
                Read::Part(_) | Read::Batch(_) => None,
            };
            queue.failures.insert(read.wanted(), (clock::now(), record, reason));
        }
        let mut waiting = queue.wanted.remove(&read.wanted()).unwrap_or_default().waiting;
        waiting.retain(|waiting| waiting.left.fetch_sub(1, Ordering::AcqRel) == 1);
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mantissa_store::cold::{Place, RecordFile, Segment, ValueFacts};
    use mantissa_store::{Kind, Value};

    struct Nothing;

    impl RecordFile for Nothing {
        fn read(&self, _: u32, _: Place) -> Result<Value, String> {
            Err("there is nothing".to_owned())
        }

        fn read_part(&self, _: u32, _: Place, _: Range<usize>) -> Result<Vec<u8>, String> {
            Err("there is nothing".to_owned())
        }

        fn release(&self, _: u32) {}
    }

    fn candidate(number: u64) -> Candidate {
        Candidate { rank: 0, hash: KeyHash(number), database: 0 }
    }

    /// A value of so many bytes, whose key has them as its hash.
    fn value(bytes: usize) -> (Key, Cold) {
        let facts = ValueFacts { kind: Kind::String, encoding: "raw", is_written: false };
        let place = Place::new(0, bytes, facts).expect("it fits");
        ((0, KeyHash(bytes as u64)), Cold::new(Segment::new(1, Arc::new(Nothing)), place))
    }

    #[test]
    fn a_large_value_that_can_not_go_keeps_no_other_from_going() {
        let large = LargeValues::default();
        assert_eq!(large.offer(candidate(1)), Offered::Taken);
        assert_eq!(large.offer(candidate(1)), Offered::Waits);
        large.rest(&candidate(1), Duration::from_secs(60));
        assert!(large.end(Some(false)) && large.rests(&candidate(1)), "it was the last one");
        assert_eq!(large.offer(candidate(1)), Offered::Rests);
        for number in 2..2 + LARGE_WAITING_MAX as u64 {
            assert_eq!(large.offer(candidate(number)), Offered::Taken);
        }
        assert_eq!(large.offer(candidate(100)), Offered::TooMany);
        assert!(large.is_behind() && large.end(Some(true)));
        assert!(!large.is_behind() && !large.end(Some(true)));
        large.begin(&candidate(5), HUGE_BYTES + 1);
        assert!(!large.is_behind(), "another thread moves it");
        large.begin(&candidate(4), HUGE_BYTES + 1);
        assert!(large.is_behind() && large.end(Some(false)) && !large.is_behind());
        large.forget_rests();
        for _ in 0..2 * LARGE_FRUITLESS_MAX {
            large.end(None);
        }
        assert_eq!(large.offer(candidate(1)), Offered::Taken);
        for number in 0..2 * RESTING_MAX as u64 {
            large.rest(&candidate(number), Duration::from_secs(60));
        }
        assert_eq!(large.queue.lock().resting.len(), RESTING_MAX);
    }

    #[test]
    fn large_values_are_read_one_after_the_other() {
        let reads = Reads::default();
        let sizes = [90 << 20, 80 << 20, 20 << 20, 100, 30 << 20, 200];
        for bytes in sizes {
            let waiter = Waiter::Thread(std::thread::current());
            reads.add(waiter, vec![value(bytes)]);
        }
        let next = || reads.next().expect("there is one that may be read");
        let bytes_of = |read: &Read| match read {
            Read::Value(_, cold) => cold.place().len(),
            _ => 0,
        };
        // Beside the first only what is small.
        let begun = [next(), next(), next()];
        assert_eq!(begun.each_ref().map(bytes_of), [90 << 20, 100, 200]);
        assert!(reads.next().is_none());
        begun.iter().for_each(|read| assert_eq!(reads.end(read, None).len(), 1));
        let second = next();
        assert_eq!(bytes_of(&second), 80 << 20);
        assert!(reads.next().is_none());
        reads.end(&second, None);
        // Two that are within the bound together.
        let last = [next(), next()];
        assert_eq!(last.each_ref().map(bytes_of), [20 << 20, 30 << 20]);
        last.iter().for_each(|read| assert_eq!(reads.end(read, None).len(), 1));
        assert_eq!(reads.queue.lock().reading_bytes, 0);
        // What nobody waits for is not read at all if it is large.
        reads.add_unasked(vec![value(UNASKED_BYTES_MAX), value(1_000)]);
        assert_eq!(bytes_of(&next()), 1_000);
        assert_eq!(reads.queue.lock().unasked_bytes, 0);
    }
}
