//! Active expiry: removes expired keys that no command looks up.
//!
//! The background thread looks at a small part of each shard in turn, ten times a second (`hz`). Where many
//! of the keys that it comes across have expired, it goes on with the same shard, for up to a quarter of its
//! time (more with `active-expire-effort`). A shard is locked for one step at a time: at most
//! [`STEP_ENTRIES`] entries, a fraction of a millisecond. Where there are more shards the steps are smaller.
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
/// The part of the time that goes into forgetting what producers have sent.
const FORGETTING_PERCENT: u64 = 10;
/// Keys over which the share of expired ones is averaged; then both counts are halved.
const MEMORY_KEYS: u64 = 1_000;

/// The walk over all shards.
#[derive(Default)]
pub struct Expirer {
    next_shard: usize,
    /// Keys with an expiry that were looked at lately, and how many of them had expired.
    seen: u64,
    stale: u64,
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
        for _ in 0..count {
            is_timed_out = !self.walk_shard(context, acceptable_percent, began + budget);
            if is_timed_out {
                break;
            }
            self.next_shard = (self.next_shard + 1) % count;
        }
        let figures = &context.engine.expiry;
        figures.rounds_timed_out.fetch_add(u64::from(is_timed_out), Ordering::Relaxed);
        let spent = clock::since(began);
        figures.spent_us.fetch_add(spent.as_micros() as u64, Ordering::Relaxed);
        figures.stale_basis_points.store(self.stale * 10_000 / self.seen.max(1), Ordering::Relaxed);
        calls::note_latency(context, "expire-cycle", spent.as_nanos() as u64);
    }

    /// Walks on in the next shard for as long as it pays. False if the time was up before.
    fn walk_shard(&mut self, context: &mut Context, acceptable_percent: u64, deadline: Instant) -> bool {
        let is_stale = |stale: usize, seen: usize| stale as u64 * 100 > seen as u64 * acceptable_percent;
        while let Some(progress) = step(context, self.next_shard) {
            self.note(progress);
            let goes_on = if progress.with_expiry == 0 {
                // Keys with an expiry are rare here: what was seen elsewhere tells whether to look for them.
                progress.visited > 0 && is_stale(self.stale as usize, self.seen as usize)
            } else {
                is_stale(progress.removed, progress.with_expiry)
            };
            if !goes_on || progress.finished > 0 {
                return true;
            }
            if clock::now() >= deadline {
                return false;
            }
        }
        true
    }

    fn note(&mut self, progress: ExpireProgress) {
        self.seen += progress.with_expiry as u64;
        self.stale += progress.removed as u64;
        while self.seen > MEMORY_KEYS {
            (self.seen, self.stale) = (self.seen / 2, self.stale / 2);
        }
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
