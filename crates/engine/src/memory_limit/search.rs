//! Finding the values that can go to disk where most can not: they are small, or there already.
//!
//! Draws ([`super::draw`]) find one soon if one in some hundred can go. Below that, and where
//! draws do not bring memory within its limit, all entries are looked at, shard by shard. All threads share
//! this walk: each goes on from where it has come to, for as long as its command may take. A lap begins where
//! memory is beyond its limit, and ends when memory is within it. If a lap has come across all entries and
//! memory is beyond its limit still, all that could go has gone. Then memory is exhausted: writes are refused
//! or keys are evicted, as `maxmemory-policy` says.
//!
//! Until that is known writes pass: as many as a lap takes commands. Where hardly any value can go each looks
//! at 1,000 entries at least, and at about 15,000 in 0.5 ms.
//!
//! It stays known while memory comes beyond its limit again and again, which it does with each write where
//! keys are evicted. What can go later is found meanwhile by a few attempts now and then. Memory is exhausted
//! no more once draws find something each time, with other settings, or when it has been within its limit for
//! [`FORGOTTEN_AFTER_MS`] or by one part in [`HEADROOM_PART`].
//!
//! A shard that another thread has locked comes later, and so does a value that was found in one. What is
//! locked after [`LOCK_WAIT_MAX`] in which nothing else could be looked at is passed over. The next lap
//! begins where the last one has ended, so that what has been emptied is not looked at again and again.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mantissa_store::{Keyspace, ShardSet};
use mantissa_sys::clock;
use parking_lot::Mutex;

use super::{Candidate, Policy};

/// Entries that one step looks at, with their shard locked.
const STEP_ENTRIES: usize = 256;
/// Shards that one step tries to lock.
const LOCK_ATTEMPTS: usize = 4;
/// Values of locked shards that are remembered.
const LATER_MAX: usize = 1_000;
/// How long a lap waits for locked shards.
const LOCK_WAIT_MAX: Duration = Duration::from_millis(50);
/// Time within the limit after which it is not known any more that nothing can go, in ms.
const FORGOTTEN_AFTER_MS: u64 = 1_000;
/// So is it once memory is below its limit by one part in this many: what keys are evicted for is less.
const HEADROOM_PART: u64 = 64;

/// What a step has come to.
pub enum Found {
    /// This value may go.
    Candidate(Candidate),
    /// None of those that it has looked at may.
    NothingYet,
    /// Other threads have the shards locked that are to be looked at.
    Locked,
    /// All entries have been looked at since the lap began.
    NothingLeft,
}

/// The walk that all threads share, and what is known from it.
#[derive(Default)]
pub struct Search {
    lap: Mutex<Lap>,
    /// A lap has begun.
    is_under_way: AtomicBool,
    /// A lap has ended with memory beyond its limit.
    is_exhausted: AtomicBool,
}

#[derive(Default)]
struct Lap {
    /// Where the walk has come to in the shards that are left, the next one first.
    left: VecDeque<Place>,
    /// The lap has begun.
    is_begun: bool,
    /// Values that have been found.
    found: Vec<Candidate>,
    /// Those of shards that other threads have locked: they are tried again after the walk.
    later: VecDeque<Candidate>,
    /// Since when nothing is left but these.
    later_since: Option<Instant>,
    /// Since when all shards that were tried have been locked.
    locked_since: Option<Instant>,
    /// Where the lap before has ended.
    resumed: Option<Place>,
    /// The policy by which memory is exhausted.
    policy: Option<Policy>,
    /// Unix time in ms when memory was last seen beyond its limit since then.
    exceeded_ms: i64,
}

/// Where the walk has come to in a shard.
#[derive(Clone, Copy)]
struct Place {
    shard: usize,
    database: usize,
    cursor: u64,
}

impl Search {
    /// Whether nothing can go, as far as is known. To be asked while memory is beyond its limit.
    pub fn is_exhausted(&self, policy: Policy, now_ms: i64) -> bool {
        if !self.is_exhausted.load(Ordering::Relaxed) {
            return false;
        }
        let mut lap = self.lap.lock();
        let is_forgotten = lap.exceeded_ms.abs_diff(now_ms) > FORGOTTEN_AFTER_MS;
        let is_known = lap.policy == Some(policy) && !is_forgotten;
        lap.exceeded_ms = now_ms;
        if !is_known {
            lap.end();
            self.is_exhausted.store(false, Ordering::Relaxed);
        }
        is_known
    }

    /// Notes that nothing can go.
    pub fn note_exhausted(&self, policy: Policy, now_ms: i64) {
        let mut lap = self.lap.lock();
        (lap.policy, lap.exceeded_ms) = (Some(policy), now_ms);
        self.is_exhausted.store(true, Ordering::Relaxed);
    }

    /// Whether a lap has begun.
    pub fn is_under_way(&self) -> bool {
        self.is_under_way.load(Ordering::Relaxed)
    }

    /// Begins a lap.
    pub fn begin(&self) {
        self.is_under_way.store(true, Ordering::Relaxed);
    }

    /// Notes that memory is within its limit.
    pub fn note_within_limit(&self) {
        if self.is_under_way() && !self.is_exhausted.load(Ordering::Relaxed) {
            self.begin_anew();
        }
    }

    /// Notes the bytes that are left below the limit.
    #[inline]
    pub fn note_headroom(&self, bytes: i64, limit: u64) {
        if self.is_exhausted.load(Ordering::Relaxed) && bytes.unsigned_abs() > limit / HEADROOM_PART {
            self.begin_anew();
        }
    }

    /// Forgets what is known.
    pub fn begin_anew(&self) {
        self.lap.lock().end();
        self.is_under_way.store(false, Ordering::Relaxed);
        self.is_exhausted.store(false, Ordering::Relaxed);
    }

    /// The next value that may go.
    pub fn next(&self, keyspace: &Keyspace, policy: Policy, now_ms: i64) -> Found {
        let mut lap = self.lap.lock();
        if let Some(candidate) = lap.found.pop() {
            return Found::Candidate(candidate);
        }
        if !lap.is_begun {
            lap.begin(keyspace.shard_count());
            self.begin();
        }
        let found = match lap.left.is_empty() {
            true => lap.try_later(),
            false => lap.step(keyspace, policy, now_ms),
        };
        if matches!(found, Found::NothingLeft) {
            lap.end();
            self.is_under_way.store(false, Ordering::Relaxed);
        }
        found
    }

    /// Has the next step find a value again.
    pub fn give_back(&self, candidate: Candidate) {
        self.lap.lock().found.push(candidate);
    }

    /// Has a value be found again after the walk: its shard is locked.
    pub fn postpone(&self, candidate: Candidate) {
        let mut lap = self.lap.lock();
        if lap.is_begun && lap.later.len() < LATER_MAX {
            lap.later.push_back(candidate);
        }
    }
}

impl Lap {
    /// All shards, from where the lap before has ended.
    fn begin(&mut self, shards: usize) {
        let first = self.resumed.map_or(0, |place| place.shard);
        let places = (0..shards).map(|at| Place { shard: (first + at) % shards, database: 0, cursor: 0 });
        self.left = places.collect();
        if let Some(place) = self.resumed.take() {
            // What lies before that place in its shard comes last, and with it the rest again.
            self.left.rotate_left(1);
            self.left.push_front(place);
        }
        (self.is_begun, self.locked_since, self.later_since) = (true, None, None);
    }

    fn end(&mut self) {
        if self.is_begun {
            self.resumed = self.left.front().copied();
        }
        self.is_begun = false;
        self.found.clear();
        self.later.clear();
    }

    /// A value of a shard that was locked, unless all of these have been locked for long.
    fn try_later(&mut self) -> Found {
        let since = *self.later_since.get_or_insert_with(clock::now);
        match self.later.pop_front() {
            Some(candidate) if clock::since(since) < LOCK_WAIT_MAX => Found::Candidate(candidate),
            _ => Found::NothingLeft,
        }
    }

    fn step(&mut self, keyspace: &Keyspace, policy: Policy, now_ms: i64) -> Found {
        for _ in 0..LOCK_ATTEMPTS.min(self.left.len()) {
            let Some(mut place) = self.left.pop_front() else { break };
            let Ok(locked) = keyspace.try_lock(ShardSet::one(place.shard)) else {
                self.left.push_back(place);
                continue;
            };
            self.locked_since = None;
            let mut seen = 0;
            while let Some(database) =
                locked.shard(place.shard).and_then(|shard| shard.databases.get(place.database))
            {
                if seen >= STEP_ENTRIES || !self.found.is_empty() {
                    self.left.push_front(place);
                    break;
                }
                seen += 1;
                place.cursor = database.scan(place.cursor, |entry| {
                    seen += 1;
                    if let Some(rank) = policy.rank(entry, now_ms, 0) {
                        let hash = keyspace.hash(entry.key());
                        self.found.push(Candidate { rank, hash, database: place.database });
                    }
                });
                place.database += usize::from(place.cursor == 0);
            }
            drop(locked);
            return self.found.pop().map_or(Found::NothingYet, Found::Candidate);
        }
        let since = *self.locked_since.get_or_insert_with(clock::now);
        if clock::since(since) < LOCK_WAIT_MAX {
            return Found::Locked;
        }
        self.left.pop_front();
        Found::NothingYet
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mantissa_config::Config;
    use mantissa_store::{Entry, Value};
    use std::collections::HashSet;

    /// Four shards of small values, with a larger one where its key is among `large`.
    fn keyspace(large: &[u32]) -> Keyspace {
        let keyspace = Keyspace::new(2, 4);
        for number in 0..4_000_u32 {
            let len = if large.contains(&number) { 500 } else { 40 };
            let (key, value) = (number.to_be_bytes(), Value::String(vec![b'x'; len]));
            let hash = keyspace.hash(&key);
            let index = keyspace.shard_of(hash);
            let mut locked = keyspace.lock(ShardSet::one(index));
            let shard = locked.shard_mut(index).expect("it is locked");
            shard.databases[number as usize % 2].insert(hash, Entry::new(&key, value, None, 0));
        }
        keyspace
    }

    /// What one lap finds, and how often it has come to locked shards.
    fn lap(search: &Search, keyspace: &Keyspace) -> (usize, usize) {
        let policy = Policy::to_disk(&Config::default());
        let (mut found, mut locked) = (0, 0);
        loop {
            match search.next(keyspace, policy, 1_000) {
                Found::Candidate(_) => found += 1,
                Found::NothingYet => {}
                Found::Locked => locked += 1,
                Found::NothingLeft => return (found, locked),
            }
        }
    }

    #[test]
    fn a_lap_finds_each_value_once_and_passes_over_what_stays_locked() {
        let search = Search::default();
        assert_eq!(lap(&search, &keyspace(&[])), (0, 0));
        let keyspace = keyspace(&[3, 7, 2_000, 3_998, 3_999]);
        for _ in 0..2 {
            assert_eq!(lap(&search, &keyspace), (5, 0));
        }
        let candidate = Candidate { rank: 0, hash: keyspace.hash(b"key"), database: 0 };
        search.give_back(candidate);
        assert_eq!(lap(&search, &keyspace), (6, 0));
        let hash = keyspace.hash(&7_u32.to_be_bytes());
        let held = keyspace.lock(ShardSet::one(keyspace.shard_of(hash)));
        let (found, locked) = lap(&search, &keyspace);
        assert!(found < 5 && locked > 0);
        drop(held);
        assert_eq!(lap(&search, &keyspace), (5, 0));
    }

    #[test]
    fn a_value_whose_shard_is_locked_keeps_no_other_from_being_found() {
        let (search, policy) = (Search::default(), Policy::to_disk(&Config::default()));
        let keyspace = keyspace(&[3, 7, 2_000, 3_998, 3_999]);
        let (mut found, mut tries) = (HashSet::new(), 0);
        loop {
            match search.next(&keyspace, policy, 1_000) {
                Found::Candidate(candidate) => {
                    found.insert(candidate.hash);
                    search.postpone(candidate);
                    tries += 1;
                }
                Found::NothingLeft => break,
                _ => {}
            }
        }
        assert!(found.len() == 5 && tries > 5, "{} in {tries} tries", found.len());
        // A lap that ends early is gone on with, and comes across everything.
        assert!(matches!(search.next(&keyspace, policy, 1_000), Found::Candidate(_) | Found::NothingYet));
        for _ in 0..6 {
            _ = search.next(&keyspace, policy, 1_000);
        }
        search.begin_anew();
        let (found, _) = lap(&search, &keyspace);
        assert!((5..=10).contains(&found), "{found}");
    }

    #[test]
    fn what_is_known_is_forgotten_when_memory_is_within_its_limit_for_long_or_by_far() {
        let search = Search::default();
        let policy = Policy::to_disk(&Config::default());
        let exhaust = |now_ms| search.note_exhausted(policy, now_ms);
        assert!(!search.is_exhausted(policy, 0));
        exhaust(0);
        assert!((1..10).all(|step| search.is_exhausted(policy, step * 900)));
        search.note_within_limit();
        search.note_headroom(1_000, 1 << 20);
        assert!(search.is_exhausted(policy, 9_000));
        assert!(!search.is_exhausted(policy, 11_000) && !search.is_exhausted(policy, 11_000));
        exhaust(11_000);
        search.note_headroom(20_000, 1 << 20);
        assert!(!search.is_exhausted(policy, 11_000));
        exhaust(11_000);
        assert!(!search.is_exhausted(policy.copies_only(), 11_000));
    }
}
