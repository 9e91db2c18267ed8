//! Moving values to disk while memory is beyond its limit.
//!
//! As in eviction, a few entries of a random shard are drawn, and the least used of those seen so far goes.
//! Its record is appended to the file's open segment, in memory, and the entry names the record from then on.
//! A value that is on disk already is only dropped. At most one shard is locked, and none is waited for.
//!
//! Large values are left to a thread of their own ([`move_large_values`]), which makes their records of
//! images with nothing locked ([`mantissa_store::Move`]); then it waits for their shards. What it frees of
//! them, it frees with nothing locked: the image is the last to hold the value. Large copies of values that
//! are on disk already are freed by the thread that frees what commands have removed.
//!
//! Where draws find nothing, or too little for memory to come within its limit, all entries are looked at
//! too, one after the other: see [`crate::memory_limit::Search`].
//!
//! A large value that can not be moved says nothing of others. It is left alone for many times as long as it
//! took to find that out.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_commands::LazyFree;
use mantissa_config::Config;
use mantissa_persist::load::Prepare;
use mantissa_persist::tier::{RecordEncoder, Refusal};
use mantissa_store::snapshot::Image;
use mantissa_store::{Collection, Database, Entry, LockedShards, ShardSet, Value, with_value};
use mantissa_sys::{clock, simulation};

use crate::context::Context;
use crate::engine::Engine;
use crate::host::Message;
use crate::memory_limit::{Candidate, Drawer, Found, Offloader, Policy, Verdict, draw, quick_bytes};
use crate::state::tier::Offered;

/// Candidates that one attempt tries at most.
const ATTEMPTS_MAX: usize = 32;
/// Draws in a row that find nothing after which values are searched for.
const DRAWS_MAX: usize = 2;
/// Draws in a row that find something after which memory is exhausted no more.
const HITS_MAX: u32 = 16;
/// Attempts that find nothing of one command while memory is exhausted.
const FRUITLESS_MAX: usize = 64;
/// Steps of the search that a command takes whatever time there is, unless memory is exhausted.
const STEPS_MIN: usize = 4;
/// The same where memory is beyond its limit by more than one part in [`EXCESS_PART`].
const STEPS_MIN_FAR: usize = 256;
/// How long the next attempt waits where memory is exhausted, in ms.
const REST_MS: i64 = 10;
/// Writes wait for a disk that is behind while memory is beyond its limit by more than one part in this many.
const EXCESS_PART: i64 = 16;
/// Writes wait for all large values that are to go while it is beyond by more than one part in this many: a
/// command may add several for each that goes.
const EXCESS_PART_MAX: i64 = 4;

/// Bytes in memory of a value whose record is made quickly in any form.
const QUICK_BYTES_MAX: usize = 8 << 10;
/// Bytes of a value that are freed at once.
const FREED_BYTES_MAX: usize = 1 << 20;
/// Parts of a collection that are freed at once.
const FREED_PARTS_MAX: usize = 1 << 12;
/// How long those who can wait for the disk wait before they try again.
const BEHIND_PAUSE: Duration = Duration::from_millis(1);
/// How often the shard of a large value is tried.
const LOCK_ATTEMPTS: usize = 20;
/// How long it waits in between.
const LOCK_PAUSE: Duration = Duration::from_micros(50);
/// What a panic counts for in how long its value is left alone.
const PANIC_COSTS: Duration = Duration::from_secs(1);

/// The outcome of moving one candidate.
#[derive(PartialEq, Eq)]
enum Moved {
    Yes,
    /// It is gone, in use, or not to be moved.
    No,
    /// Its shard is locked.
    Locked,
    /// All values have been looked at.
    NothingLeft,
    /// It is large: another thread is to move it.
    LeftToAnother,
    /// The same, and that thread has known of it before.
    Waits,
    Refused(Refusal),
}

/// Moves values until memory is within the limit, for about `time_limit` at most. `None` if nothing can be
/// moved: keys have to be evicted. Segments of a full file are emptied if `may_evict`.
pub fn make_room(
    context: &mut Context,
    limit: u64,
    time_limit: Duration,
    may_evict: impl Fn(&Context) -> bool,
) -> Option<Verdict> {
    let engine = context.engine;
    engine.tier.file()?;
    let excess = engine.pressure.excess(limit);
    if excess <= 0 {
        context.evictor.note_headroom(-excess, engine.worker_count());
        engine.tier.search.note_headroom(-excess, limit);
        engine.tier.search.note_within_limit();
        return Some(Verdict::WithinLimit);
    }
    let config = &context.active.config;
    // What is loaded comes as fast as it goes.
    let moves_large = engine.persistence.loading.load(Ordering::Relaxed);
    let may_evict = may_evict(context);
    let room = Room { engine, config, limit, time_limit, now_ms: context.now_ms, moves_large, may_evict };
    room.make(&mut context.evictor.offloader, &mut context.random_state)
}

/// What moves the values of loaded entries to disk once memory is full, and waits for the disk. `None` where
/// no value goes there.
pub fn while_loading(engine: &Engine) -> Option<Box<Prepare<'_>>> {
    let file = engine.tier.file()?;
    let active = engine.active_config();
    let limit = active.config.maxmemory;
    let policy = Policy::to_disk(&active.config);
    let mut encoder = RecordEncoder::default();
    let is_over = move || engine.stopping.load(Ordering::Relaxed);
    let prepare = move |entry: &mut Entry| {
        if limit == 0 || engine.pressure.excess(limit) <= 0 || policy.rank(entry, 0, 0).is_none() {
            return;
        }
        let bytes = quick_bytes(entry).unwrap_or_else(|| entry.memory_usage());
        if !policy.takes(bytes) {
            return;
        }
        loop {
            match file.append_large(&mut encoder, (entry, bytes), &is_over) {
                Ok(cold) => {
                    entry.cool(cold);
                    return engine.tier.note_use();
                }
                Err(Refusal::Behind) if !is_over() => simulation::sleep(BEHIND_PAUSE),
                Err(_) => return,
            }
        }
    };
    Some(Box::new(prepare))
}

/// Moves what can be moved, whatever room there is: `tier-pressure`.
#[cold]
pub fn move_all(context: &mut Context) {
    const FRUITLESS_MAX: usize = 16;
    let (engine, config) = (context.engine, &context.active.config);
    let (time_limit, now_ms) = (Duration::MAX, context.now_ms);
    let room = Room { engine, config, limit: 0, time_limit, now_ms, moves_large: false, may_evict: false };
    let (offloader, random_state) = (&mut context.evictor.offloader, &mut context.random_state);
    let policy = room.begin(offloader);
    let mut fruitless = 0;
    while engine.tier.file().is_some() && fruitless < FRUITLESS_MAX {
        match room.attempt(policy, offloader, random_state) {
            Moved::Yes => fruitless = 0,
            _ => fruitless += 1,
        }
    }
}

/// Whether a record takes long to make, so that nothing is to be locked meanwhile.
fn is_slow(entry: &Entry) -> bool {
    entry.is_large() && quick_bytes(entry).is_none_or(|bytes| bytes > QUICK_BYTES_MAX)
}

/// Frees a value that is on disk too; a large one in the background. No shard may be locked.
fn free_copy(engine: &Engine, copy: Value) {
    let is_large = with_value!(
        copy.borrow(),
        text => text.len() > FREED_BYTES_MAX,
        value => Collection::free_effort(value) > FREED_PARTS_MAX
            || Collection::memory_usage(value) > FREED_BYTES_MAX,
    );
    if is_large {
        engine.free_values(LazyFree { values: vec![copy], ..LazyFree::default() });
    }
}

/// Whether memory is beyond its limit by more than one part in so many.
fn is_beyond(engine: &Engine, limit: u64, part: i64) -> bool {
    engine.pressure.excess(limit) > limit as i64 / part
}

/// Whether a command that needs memory has to wait for the disk.
pub fn has_to_wait(engine: &Engine, limit: u64) -> bool {
    let (large, emptying) = (&engine.tier.large, &engine.tier.emptying);
    limit > 0
        && is_beyond(engine, limit, EXCESS_PART)
        && engine.tier.file().is_some_and(|file| {
            let is_behind = file.is_behind() || large.is_behind() || emptying.is_at_work();
            is_behind || is_beyond(engine, limit, EXCESS_PART_MAX) && large.is_at_work()
        })
}

/// Whether the file took no more when this thread tried last, a moment ago.
pub fn is_full(context: &Context) -> bool {
    context.now_ms < context.evictor.offloader.copies_only_until_ms
}

/// Moves large values that others have left to this thread, until the engine ends.
pub fn move_large_values(engine: &Engine) {
    let mut encoder = RecordEncoder::default();
    while !engine.stopping.load(Ordering::Relaxed) {
        let Some(candidate) = engine.tier.large.next() else { continue };
        let active = engine.active_config();
        let config = &active.config;
        let (time_limit, now_ms) = (Duration::MAX, clock::unix_ms());
        let room = Room { engine, config, limit: 0, time_limit, now_ms, moves_large: true, may_evict: false };
        let work = AssertUnwindSafe(|| room.move_large(Policy::to_disk(config), &mut encoder, &candidate));
        // Others wait for this thread: it goes on with the next one.
        let moved = std::panic::catch_unwind(work).unwrap_or_else(|_| {
            encoder = RecordEncoder::default();
            engine.tier.large.rest(&candidate, PANIC_COSTS);
            Moved::Refused(Refusal::Unfit)
        });
        let has_moved = match moved {
            Moved::Refused(Refusal::Behind) => {
                simulation::sleep(BEHIND_PAUSE);
                continue;
            }
            Moved::Yes => Some(true),
            Moved::Refused(_) => Some(false),
            // It has been used or changed, or its shard was locked: nothing follows from that.
            _ => None,
        };
        if engine.tier.large.end(has_moved) {
            engine.send_all(|| Message::Resume);
        }
    }
}

/// What is to be done, by whom.
struct Room<'a> {
    /// The engine.
    engine: &'a Engine,
    /// The configuration in force.
    config: &'a Config,
    /// `maxmemory`.
    limit: u64,
    /// For how long.
    time_limit: Duration,
    /// Unix time in ms.
    now_ms: i64,
    /// Whether large values are moved by this thread.
    moves_large: bool,
    /// Whether segments of a full file may be emptied.
    may_evict: bool,
}

impl Room<'_> {
    /// Moves values until memory is within the limit or the time is over. `None` if nothing can be moved.
    fn make(&self, offloader: &mut Offloader, random_state: &mut u64) -> Option<Verdict> {
        let mut policy = self.begin(offloader);
        if self.now_ms < offloader.rests_until_ms {
            return None;
        }
        let search = &self.engine.tier.search;
        let mut is_exhausted = search.is_exhausted(Policy::to_disk(self.config), self.now_ms);
        // Draws alone have not brought memory within its limit.
        let has_to_search = search.is_under_way();
        let (began, mut elapsed) = (clock::now(), Duration::ZERO);
        let (mut misses, mut fruitless, mut steps) = (0, 0, 0);
        loop {
            if let Some(verdict) = self.look() {
                return Some(verdict);
            }
            let is_drawn = misses < DRAWS_MAX && !(has_to_search && elapsed >= self.time_limit / 2);
            let moved = match is_drawn {
                true => self.attempt(policy, offloader, random_state),
                false => self.search_on(policy, &mut offloader.encoder),
            };
            match moved {
                Moved::Yes if is_drawn => {
                    (misses, offloader.hits) = (0, offloader.hits.saturating_add(1));
                    if is_exhausted && offloader.hits >= HITS_MAX {
                        search.begin_anew();
                        is_exhausted = false;
                    }
                }
                // Whether what is left to another can be moved is not known yet.
                Moved::Yes | Moved::LeftToAnother => {}
                // Where others wait for memory, the other thread is to have enough to do.
                Moved::Waits if is_beyond(self.engine, self.limit, EXCESS_PART) => {
                    misses += usize::from(is_drawn);
                    fruitless += 1;
                }
                Moved::Waits | Moved::Refused(Refusal::Behind) => return Some(Verdict::InProgress),
                Moved::Refused(Refusal::Full) => {
                    offloader.copies_only_until_ms = self.now_ms + REST_MS;
                    policy = self.begin(offloader);
                    self.ask_for_room();
                }
                Moved::NothingLeft => {
                    let verdict = self.give_up(offloader);
                    if verdict.is_none() {
                        search.note_exhausted(Policy::to_disk(self.config), self.now_ms);
                    }
                    return verdict;
                }
                Moved::Locked if !is_drawn && !is_exhausted => return Some(Verdict::InProgress),
                Moved::Locked | Moved::No | Moved::Refused(Refusal::Unfit) => {
                    misses += usize::from(is_drawn);
                    (offloader.hits, fruitless) = (0, fruitless + 1);
                }
            }
            steps += usize::from(!is_drawn);
            elapsed = clock::since(began);
            let is_time_over = elapsed >= self.time_limit;
            if is_exhausted && (is_time_over || fruitless >= FRUITLESS_MAX) {
                return self.give_up(offloader);
            }
            if is_time_over && !has_to_search && steps == 0 {
                search.begin();
                return Some(Verdict::InProgress);
            }
            if is_time_over && steps >= self.steps_min() {
                return Some(Verdict::InProgress);
            }
        }
    }

    /// Whether memory is within its limit, or will be without more being moved.
    fn look(&self) -> Option<Verdict> {
        if self.engine.pressure.excess(self.limit) <= 0 {
            self.engine.tier.search.note_within_limit();
            return Some(Verdict::WithinLimit);
        }
        self.engine.pressure.is_about_to_fall().then_some(Verdict::InProgress)
    }

    /// Has segments be emptied if the file is full and that may help.
    fn ask_for_room(&self) {
        let is_full = self.engine.tier.file().is_some_and(|file| file.free_slots() == Some(0));
        if is_full && self.may_evict && !self.engine.tier.emptying.is_at_work() {
            self.engine.tier.emptying.ask();
            self.engine.pressure.wake_background();
        }
    }

    fn steps_min(&self) -> usize {
        if is_beyond(self.engine, self.limit, EXCESS_PART) { STEPS_MIN_FAR } else { STEPS_MIN }
    }

    /// Says that nothing can be moved and rests, unless large values are being moved, or memory comes within
    /// its limit once what waits has been written, what is being read has been moved, or the file has room.
    fn give_up(&self, offloader: &mut Offloader) -> Option<Verdict> {
        let waiting = self.engine.tier.file().map_or(0, |file| file.waiting_bytes() as i64);
        let is_over_by_writes = waiting > 0 && self.engine.pressure.excess(self.limit) <= waiting;
        let is_at_work = self.engine.tier.large.is_at_work() || self.engine.tier.emptying.is_at_work();
        if is_at_work || self.is_over_by_reads() || is_over_by_writes {
            return Some(Verdict::InProgress);
        }
        offloader.rests_until_ms = self.now_ms + REST_MS;
        None
    }

    /// Whether memory is beyond the limit for values that are being read, which may be moved then.
    fn is_over_by_reads(&self) -> bool {
        let bytes = self.engine.tier.reads.bytes_under_way() as i64;
        bytes > 0 && self.engine.pressure.excess(self.limit) <= bytes
    }

    fn begin(&self, offloader: &mut Offloader) -> Policy {
        let mut policy = Policy::to_disk(self.config);
        if self.now_ms < offloader.copies_only_until_ms {
            policy = policy.copies_only();
        }
        if offloader.policy != Some(policy) {
            offloader.policy = Some(policy);
            offloader.pool.clear();
        }
        policy
    }

    /// Draws some candidates and moves the best. Those that wait for the other thread keep none of the others
    /// here.
    fn attempt(&self, policy: Policy, offloader: &mut Offloader, random_state: &mut u64) -> Moved {
        let drawer = Drawer { pool: &mut offloader.pool, random_state, now_ms: self.now_ms };
        draw(&self.engine.keyspace, policy, drawer);
        let (mut outcome, mut locked) = (Moved::No, Vec::new());
        for _ in 0..ATTEMPTS_MAX {
            let Some(candidate) = offloader.pool.take_best() else { break };
            match self.move_candidate(policy, &mut offloader.encoder, &candidate) {
                Moved::No | Moved::Refused(Refusal::Unfit) => {}
                Moved::Waits => outcome = Moved::Waits,
                Moved::Locked => locked.push(candidate),
                other => {
                    outcome = other;
                    break;
                }
            }
        }
        if outcome == Moved::No && !locked.is_empty() {
            outcome = Moved::Locked;
        }
        locked.into_iter().for_each(|candidate| offloader.pool.offer(candidate));
        outcome
    }

    /// Moves a value that the search finds next.
    fn search_on(&self, policy: Policy, encoder: &mut RecordEncoder) -> Moved {
        let search = &self.engine.tier.search;
        let candidate = match search.next(&self.engine.keyspace, policy, self.now_ms) {
            Found::Candidate(candidate) => candidate,
            Found::NothingYet => return Moved::No,
            Found::Locked => return Moved::Locked,
            Found::NothingLeft => return Moved::NothingLeft,
        };
        let moved = self.move_candidate(policy, encoder, &candidate);
        match moved {
            Moved::Locked => search.postpone(candidate),
            Moved::Refused(Refusal::Behind) => search.give_back(candidate),
            _ => {}
        }
        moved
    }

    fn move_candidate(&self, policy: Policy, encoder: &mut RecordEncoder, candidate: &Candidate) -> Moved {
        let (engine, hash) = (self.engine, candidate.hash);
        let Some(file) = engine.tier.file() else { return Moved::No };
        let index = engine.keyspace.shard_of(hash);
        let Ok(mut locked) = engine.keyspace.try_lock(ShardSet::one(index)) else { return Moved::Locked };
        let database = locked.shard_mut(index).and_then(|shard| shard.databases.get_mut(candidate.database));
        let Some(database) = database else { return Moved::No };
        let is_wanted = |entry: &Entry| policy.is_unchanged(entry, self.now_ms, candidate.rank);
        let mut forgotten = None;
        let moved = database.keep_otherwise(hash, is_wanted, |entry| {
            forgotten = entry.take_copy();
            if forgotten.is_some() {
                return Some(Moved::Yes);
            }
            if is_slow(entry) {
                return None;
            }
            Some(match file.append(encoder, entry) {
                Ok(cold) => {
                    entry.cool(cold);
                    engine.tier.note_use();
                    Moved::Yes
                }
                Err(refusal) => Moved::Refused(refusal),
            })
        });
        drop(locked);
        if let Some(copy) = forgotten {
            engine.tier.forgotten.fetch_add(1, Ordering::Relaxed);
            free_copy(engine, copy);
        }
        match moved {
            None => Moved::No,
            Some(Some(moved)) => moved,
            Some(None) if self.moves_large && engine.tier.large.rests(candidate) => Moved::No,
            Some(None) if self.moves_large => self.move_large(policy, encoder, candidate),
            Some(None) => match file.refusal() {
                Some(refusal) => Moved::Refused(refusal),
                None => self.leave(candidate),
            },
        }
    }

    /// Leaves a large value to the thread that moves those.
    fn leave(&self, candidate: &Candidate) -> Moved {
        match self.engine.tier.large.offer(*candidate) {
            Offered::Taken => Moved::LeftToAnother,
            Offered::Waits => Moved::Waits,
            Offered::TooMany => Moved::Refused(Refusal::Behind),
            Offered::Rests => Moved::No,
        }
    }

    /// Moves a large value: its shard is locked for its image, and again when its record has been made. One
    /// that has only been read meanwhile is on disk and in memory then. One that can not go is left alone for
    /// a while.
    fn move_large(&self, policy: Policy, encoder: &mut RecordEncoder, candidate: &Candidate) -> Moved {
        let engine = self.engine;
        let Some(file) = engine.tier.file() else { return Moved::No };
        if let Some(refusal) = file.refusal() {
            return Moved::Refused(refusal);
        }
        let began = clock::now();
        let is_wanted =
            |entry: &Entry| is_slow(entry) && policy.is_unchanged(entry, self.now_ms, candidate.rank);
        // A slow script may have the shard: others may be moved meanwhile.
        let locked = (0..LOCK_ATTEMPTS).find_map(|attempt| {
            if attempt > 0 {
                simulation::sleep(LOCK_PAUSE);
            }
            engine.keyspace.try_lock(self.shard_of(candidate)).ok()
        });
        let Some(locked) = locked else { return Moved::Locked };
        let begun =
            self.with_database(locked, candidate, |database| database.begin_move(candidate.hash, is_wanted));
        let Some(mut begun) = begun.flatten() else { return Moved::No };
        let bytes = match &begun.image {
            Image::Entry(entry) => entry.memory_usage(),
            Image::Text { text, .. } => text.byte_len(),
        };
        if !policy.takes(bytes) {
            engine.tier.large.rest(candidate, clock::since(began));
            return Moved::Refused(Refusal::Unfit);
        }
        engine.tier.large.begin(candidate, bytes);
        let is_over = || engine.stopping.load(Ordering::Relaxed);
        let cold = match file.append_image(encoder, (&mut begun, bytes), &is_over) {
            Ok(cold) => cold,
            // It is tried again once it is drawn again.
            Err(_) if begun.token().is_outdated() => return Moved::No,
            Err(Refusal::Behind) => return Moved::Refused(Refusal::Behind),
            Err(_) => {
                engine.tier.large.rest(candidate, clock::since(began));
                return Moved::Refused(Refusal::Unfit);
            }
        };
        // What has been written is not given up for a lock.
        let Some(locked) = engine.keyspace.lock_unless(self.shard_of(candidate), is_over) else {
            return Moved::No;
        };
        let has_ended =
            self.with_database(locked, candidate, |database| database.end_move(&mut begun, cold, is_wanted));
        match has_ended {
            Some(true) => {
                engine.tier.note_use();
                Moved::Yes
            }
            _ => Moved::No,
        }
    }

    fn shard_of(&self, candidate: &Candidate) -> ShardSet {
        ShardSet::one(self.engine.keyspace.shard_of(candidate.hash))
    }

    /// Has `work` see a candidate's database, and unlocks its shard.
    fn with_database<R>(
        &self,
        mut locked: LockedShards<'_>,
        candidate: &Candidate,
        work: impl FnOnce(&mut Database) -> R,
    ) -> Option<R> {
        let index = self.engine.keyspace.shard_of(candidate.hash);
        locked.shard_mut(index)?.databases.get_mut(candidate.database).map(work)
    }
}
