//! Active expiry: removes expired keys that no command looks up.
//!
//! Ten times a second (`hz`) the background thread looks at each shard in turn, where it has parts in which
//! something may have expired. Where many of the keys that it comes across have expired, it goes on with the
//! same shard, for up to a quarter of its time (more with `active-expire-effort`); so it does once after a
//! table has grown. A shard is locked for one step at a time: about [`STEP_ENTRIES`] entries, a fraction of a
//! millisecond. Where there are more shards the steps are smaller.
//!
//! What streams know of producers is forgotten in the same steps, on replicas too: that is no change.

use mantissa_sys::clock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mantissa_commands::{Access, ExpireProgress};
use mantissa_store::stream::Producers;

use crate::calls;
use crate::context::Context;
use crate::shard_access::try_with_shard;

/// Most entries that are looked at while a shard is locked.
const STEP_ENTRIES: usize = 200;
/// Entries of the first steps of a round in all shards.
const ROUND_ENTRIES: usize = 64 * STEP_ENTRIES;
/// The weight of a round in the share of keys that were found expired.
const ROUND_WEIGHT: f64 = 0.05;
/// The part of the time that goes into forgetting what producers have sent.
const FORGETTING_PERCENT: u64 = 10;

/// The walk over all shards.
#[derive(Default)]
pub struct Expirer {
    next_shard: usize,
    /// The percentage of the keys with an expiry that a round finds expired, averaged over rounds.
    stale_percent: f64,
}

/// What the steps of a round in all shards have found.
#[derive(Default)]
struct Round {
    /// Keys with an expiry.
    keys: usize,
    /// Those that were removed.
    removed: usize,
}

impl Expirer {
    /// One round, for at most its share of the time until the next.
    pub fn run(&mut self, context: &mut Context) {
        let config = &context.active.config;
        let effort = config.active_expire_effort.clamp(1, 10) - 1;
        let period_us = 1_000_000 / u64::from(config.hz.clamp(1, 500));
        let budget = Duration::from_micros(period_us * u64::from(25 + 2 * effort) / 100);
        let acceptable_percent = u64::from(10 - effort);
        let (began, count) = (clock::now(), context.engine.keyspace.shard_count());
        let mut is_timed_out = false;
        let mut round = Round::default();
        for _ in 0..count {
            is_timed_out = !self.walk_shard(context, acceptable_percent, began + budget, &mut round);
            if is_timed_out {
                break;
            }
            self.next_shard = (self.next_shard + 1) % count;
        }
        let figures = &context.engine.expiry;
        figures.rounds_timed_out.fetch_add(u64::from(is_timed_out), Ordering::Relaxed);
        let spent = clock::since(began);
        figures.spent_us.fetch_add(spent.as_micros() as u64, Ordering::Relaxed);
        let percent = round.removed as f64 * 100.0 / round.keys.max(1) as f64;
        self.stale_percent += (percent.min(100.0) - self.stale_percent) * ROUND_WEIGHT;
        figures.stale_basis_points.store((self.stale_percent * 100.0) as u64, Ordering::Relaxed);
        calls::note_latency(context, "expire-cycle", spent.as_nanos() as u64);
    }

    /// Goes through the next shard for as long as it pays. False if the time was up before.
    fn walk_shard(
        &mut self,
        context: &mut Context,
        acceptable_percent: u64,
        deadline: Instant,
        round: &mut Round,
    ) -> bool {
        let mut is_first = true;
        while let Some(progress) = step(context, self.next_shard) {
            if std::mem::take(&mut is_first) {
                round.keys += progress.keys;
            }
            round.removed += progress.removed;
            let (removed, seen) = (progress.removed as u64, progress.with_expiry as u64);
            if removed * 100 <= seen * acceptable_percent && !progress.is_behind {
                return true;
            }
            if clock::now() >= deadline {
                return false;
            }
        }
        true
    }
}

/// Has streams forget what producers have sent so long ago that it is not known any more, for at most a part
/// of the time until the next round. Shards that are in use have their turn then.
pub fn forget_sent(context: &Context) {
    if !Producers::have_been() {
        return;
    }
    let keyspace = &context.engine.keyspace;
    let period_us = 1_000_000 / u64::from(context.active.config.hz.clamp(1, 500));
    let budget = Duration::from_micros(period_us * FORGETTING_PERCENT / 100);
    let (began, now_ms) = (clock::now(), context.now_ms);
    for index in 0..keyspace.shard_count() {
        while let Some(mut locked) = keyspace.try_lock_one(index) {
            let forgotten: usize = locked.visit(index, |shard| {
                shard.databases.iter_mut().map(|database| database.forget_sent(now_ms, STEP_ENTRIES)).sum()
            });
            drop(locked);
            if clock::since(began) >= budget {
                return;
            }
            if forgotten < STEP_ENTRIES {
                break;
            }
        }
    }
}

/// Removes keys, each with its database, that a sweep has found expired, unless their shard is in use.
pub fn remove(context: &mut Context, mut keys: Vec<(usize, Box<[u8]>)>) {
    let keyspace = &context.engine.keyspace;
    let shard_of = |key: &[u8]| keyspace.shard_of(keyspace.hash(key));
    keys.sort_by_cached_key(|(_, key)| shard_of(key));
    for same in keys.chunk_by(|(_, one), (_, other)| shard_of(one) == shard_of(other)) {
        for few in same.chunks(STEP_ENTRIES) {
            let Some((_, first)) = few.first() else { continue };
            try_with_shard(context, shard_of(first), 0, |access| {
                for (database, key) in few {
                    access.select(*database);
                    access.remove_if_expired(key);
                }
            });
        }
    }
}

/// Looks at a small part of a shard. Nothing if it is in use. A hash on disk of which some fields have
/// expired is read first: a later round removes them.
fn step(context: &mut Context, shard: usize) -> Option<ExpireProgress> {
    let entries = (ROUND_ENTRIES / context.engine.keyspace.shard_count()).clamp(1, STEP_ENTRIES);
    let mut unread = Vec::new();
    let look = |access: &mut Access<'_>| mantissa_commands::expire_cycle(access, shard, entries, &mut unread);
    let progress = try_with_shard(context, shard, 0, look);
    if !unread.is_empty() {
        context.engine.tier.reads.add_unasked(unread);
    }
    progress
}
