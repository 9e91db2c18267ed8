//! Emptying the oldest segments of a file that is full, where keys may be evicted.
//!
//! The keys that are unused for longest have their values on disk, so evicting one frees no more memory than
//! its key takes: eviction by memory would lose most of the file for a few new values. Whole segments are
//! emptied instead, those that were filled first, so that values can go on moving to disk. Values that are in
//! memory again leave their record, and of those that have been used since they were written some are read
//! again. What the policy does not evict stays.
//!
//! Which entries name a segment is found by a walk over all entries, as in [`crate::tier::cleaning`]. One
//! walk empties a part of the file, so its cost for each byte that is freed does not grow with the file. It
//! begins before the file is full; who writes faster than it goes on waits
//! ([`crate::tier::offload::has_to_wait`]).
//!
//! `volatile-ttl` evicts in an order that segments know nothing of, so nothing is emptied for it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use mantissa_persist::tier::TierFile;
use mantissa_store::cold::{Cold, Segment};
use mantissa_store::{Entry, KeyHash};
use mantissa_sys::clock;

use crate::context::Context;
use crate::engine::Engine;
use crate::eviction;
use crate::host::Message;
use crate::memory_limit::Policy;
use crate::shard_access::try_with_shard;
use crate::stats;
use crate::tier::walk::Walk;

/// One part in so many of the file is emptied by a walk.
const EMPTIED_PART: u64 = 16;
/// It begins when one part in so many is free.
const FREE_PART: u64 = 32;
/// Memory within one part in so many of its limit counts as full.
const NEAR_PART: u64 = 32;
/// Of the bytes of the segments one part in so many may come back to memory.
const KEPT_PART: u64 = 4;
/// How long one step takes about.
const STEP_TIME: Duration = Duration::from_millis(5);
/// How long segments may take to become free: their values may be in use by a snapshot.
const FREED_WITHIN: Duration = Duration::from_secs(1);
/// How long it waits for a shard, or for segments.
const PAUSE: Duration = Duration::from_millis(1);
/// How long it rests after a walk that has freed nothing; twice as long after each further one, up to
/// [`REST_DOUBLED_MAX`] times. What the segments hold may be in use by a snapshot for long.
const REST: Duration = Duration::from_secs(1);
const REST_DOUBLED_MAX: u32 = 6;

/// The walk.
#[derive(Default)]
pub struct Turnover {
    /// The segments that are being emptied, by number, and when they were full.
    emptied: HashMap<u32, (Instant, Weak<Segment>)>,
    walk: Walk,
    /// Bytes that may come back to memory.
    kept_bytes_left: u64,
    /// The walk has ended: until when segments are awaited.
    awaited_until: Option<Instant>,
    /// When it goes on.
    next: Option<Instant>,
    /// Walks in a row that have freed nothing, and their segments.
    fruitless: u32,
    held: Vec<Weak<Segment>>,
}

impl Turnover {
    /// When it wants to go on.
    pub fn next_run(&self) -> Option<Instant> {
        self.next
    }

    /// Goes on for some milliseconds, if there is anything to do.
    pub fn go_on(&mut self, context: &mut Context) {
        let engine = context.engine;
        let Some(file) = engine.tier.file() else { return };
        let emptying = &engine.tier.emptying;
        if !self.held.is_empty() && self.held.iter().all(|segment| segment.strong_count() == 0) {
            // A snapshot has ended.
            (self.held, self.fruitless) = (Vec::new(), 0);
            emptying.rest(Duration::ZERO);
        }
        let policy = Policy::of(&context.active.config);
        let Some(policy) = policy.filter(|_| eviction::may_empty_segments(context)) else {
            return if emptying.is_at_work() {
                self.end(engine, REST)
            };
        };
        if let Some(until) = self.awaited_until {
            let is_used = |(_, segment): &&(Instant, Weak<Segment>)| segment.strong_count() > 0;
            let used = self.emptied.values().filter(is_used).count();
            if used == 0 || clock::now() > until {
                return if used < self.emptied.len() {
                    self.fruitless = 0;
                    self.end(engine, Duration::ZERO)
                } else {
                    self.held.extend(self.emptied.drain().map(|(_, (_, segment))| segment));
                    self.fruitless += 1;
                    self.end(engine, REST * (1 << (self.fruitless - 1).min(REST_DOUBLED_MAX)))
                };
            }
            self.next = Some(clock::now() + PAUSE);
            return;
        }
        if self.emptied.is_empty() {
            if !emptying.is_at_work() && !is_due(context, file) {
                return;
            }
            let oldest = file.oldest_segments((file.slots_max() / EMPTIED_PART).max(1));
            let named = oldest.iter().map(|(segment, _)| segment.named_bytes()).sum::<u64>();
            self.kept_bytes_left = named / KEPT_PART;
            let by_number = |(segment, since): (Arc<Segment>, Instant)| {
                (segment.number(), (since, Arc::downgrade(&segment)))
            };
            self.emptied = oldest.into_iter().map(by_number).collect();
            if self.emptied.is_empty() {
                return self.end(engine, REST);
            }
            emptying.ask();
        }
        let began = clock::now();
        while self.awaited_until.is_none() && clock::since(began) < STEP_TIME {
            if !self.step(context, policy) {
                self.next = Some(clock::now() + PAUSE);
                return;
            }
        }
        self.next = Some(clock::now());
    }

    fn end(&mut self, engine: &Engine, rest: Duration) {
        let (fruitless, held) = (self.fruitless, std::mem::take(&mut self.held));
        *self = Turnover { fruitless, held, ..Turnover::default() };
        engine.tier.emptying.rest(rest);
        engine.tier.emptying.end();
        engine.send_all(|| Message::Resume);
    }

    /// Looks at some entries. False if it has to wait.
    fn step(&mut self, context: &mut Context, policy: Policy) -> bool {
        let keyspace = &context.engine.keyspace;
        let Ok(locked) = keyspace.try_lock(self.walk.shards()) else { return false };
        let now = clock::now();
        let (found, next) = self.walk.step(locked, |entry| {
            let cold = entry.cold()?;
            let (since, _) = self.emptied.get(&cold.segment().number())?;
            let seconds = now.saturating_duration_since(*since).as_secs();
            let is_in_use = !entry.is_in_memory() && policy.is_in_use(entry, context.now_ms, seconds);
            Some(Named { hash: keyspace.hash(entry.key()), cold, is_in_use })
        });
        // Where a shard is locked the walk looks at these entries once more.
        if !found.iter().all(|named| self.take_out(context, policy, named)) {
            return false;
        }
        self.walk = next;
        if self.walk.is_over(keyspace) {
            self.awaited_until = Some(clock::now() + FREED_WITHIN);
        }
        true
    }

    /// Evicts a key whose value is only in this record, or has the value leave it. False if its shard is
    /// locked.
    fn take_out(&mut self, context: &mut Context, policy: Policy, named: &Named) -> bool {
        let (engine, now_ms) = (context.engine, context.now_ms);
        let Named { hash, ref cold, is_in_use } = *named;
        let bytes = cold.place().record_bytes() as u64;
        let mut value = None;
        if is_in_use && bytes <= self.kept_bytes_left {
            value = cold.read().ok();
            self.kept_bytes_left -= bytes;
        }
        let Ok(mut locked) = engine.keyspace.try_lock(self.walk.shards()) else { return false };
        let leave = |entry: &mut Entry| {
            entry.keep_copy(cold, &mut value);
            entry.leave_record(cold);
        };
        if let Some(database) = self.walk.database_in(&mut locked) {
            database.keep_otherwise(hash, |_| true, leave);
        }
        drop(locked);
        let is_wanted = |entry: &Entry| {
            !entry.is_in_memory() && entry.is_in_record(cold) && policy.rank(entry, now_ms, 0).is_some()
        };
        let (shard, database) = (self.walk.shard(), self.walk.database());
        let evicted = try_with_shard(context, shard, database, |access| access.evict(hash, is_wanted));
        if evicted == Some(true) {
            stats::add(&engine.stats.workers[context.worker].evicted_keys, 1);
        }
        evicted.is_some()
    }
}

/// A value in a segment that is being emptied.
struct Named {
    hash: KeyHash,
    cold: Cold,
    /// It has been used since the segment was full.
    is_in_use: bool,
}

/// Whether the file is nearly full, and so is memory.
fn is_due(context: &Context, file: &TierFile) -> bool {
    let limit = context.active.config.maxmemory;
    let is_near = limit > 0 && context.engine.pressure.excess(limit) > -((limit / NEAR_PART) as i64);
    is_near && file.free_slots().is_some_and(|free| free <= file.slots_max() / FREE_PART)
}
