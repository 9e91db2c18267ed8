//! Freeing memory when it is full: `maxmemory` and its policies.
//!
//! Before each command a worker checks that memory is within the limit ([`evict_if_needed`]). If it is not,
//! keys are evicted one by one, the worst of a small pool of candidates each time
//! ([`crate::memory_limit::Pool`]), into which a few entries of one random shard are drawn first. At most one
//! shard is locked, for some microseconds, and none is waited for. A command spends no more than
//! `maxmemory-eviction-tenacity` allows; what is left the background thread does, while commands go on.
//!
//! Memory is what the allocator has handed out, less what has left the keyspace and is about to be freed
//! ([`crate::memory_limit::Pressure`]). So neither several workers at once, nor one while a large value is
//! being freed, evict more than is needed.
//!
//! Where there is a folder for values on disk, values go there before keys are evicted: see [`crate::tier`].
//! If it is full, its oldest values are evicted ([`crate::turnover`]); where that does not help, keys
//! whose value is in memory come first.
//!
//! Below the limit a command pays a comparison or two. The sum is taken anew once in an iteration of the
//! event loop, and when the worker itself has allocated a part of what was left.

use mantissa_sys::clock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_store::Entry;

use crate::calls::note_latency;
use crate::context::Context;
use crate::engine::Engine;
use crate::memory_limit::{Candidate, Drawer, Drawn, Policy, Verdict, draw, measure};
use crate::shard_access::try_with_shard;
use crate::stats;
use crate::tier::offload;
use mantissa_config::{Config, MaxmemoryPolicy};

/// Candidates that one eviction tries at most: some are gone, or in a locked shard.
const ATTEMPTS_MAX: usize = 32;
/// Attempts in a row that find no value in memory after which keys whose value is on disk are evicted too.
const FRUITLESS_MAX: usize = 4;

/// Evicts keys before a command if memory is full. Returns whether it is still full and nothing can be
/// evicted. No shard may be locked.
#[inline]
pub fn evict_if_needed(context: &mut Context) -> bool {
    if context.active.config.tier_pressure {
        offload::move_all(context);
    }
    if context.active.config.maxmemory == 0 || context.evictor.is_within_limit() {
        return false;
    }
    let time_limit = time_limit(&context.active.config);
    let verdict = free_memory(context, time_limit);
    if verdict == Verdict::InProgress {
        context.engine.pressure.wake_background();
    }
    verdict == Verdict::Exhausted
}

/// Whether memory is full and nothing is ever evicted.
pub fn is_full(engine: &Engine, config: &Config) -> bool {
    let never_evicts = config.maxmemory_policy == MaxmemoryPolicy::Noeviction;
    if config.replica_ignore_maxmemory && engine.replication.is_replica() {
        return false;
    }
    never_evicts && config.maxmemory > 0 && engine.pressure.excess(config.maxmemory) > 0
}

/// How long a command may evict: `maxmemory-eviction-tenacity`, whose meaning is Redis's: 50 us for each of
/// the first ten, then 15 % more for each, and no limit at 100.
fn time_limit(config: &Config) -> Duration {
    match config.maxmemory_eviction_tenacity {
        tenacity @ 0..=10 => Duration::from_micros(50 * u64::from(tenacity)),
        tenacity @ 11..=99 => Duration::from_secs_f64(500e-6 * 1.15_f64.powi(tenacity as i32 - 10)),
        _ => Duration::MAX,
    }
}

/// Evicts until memory is within the limit, for about `time_limit` at most.
pub fn free_memory(context: &mut Context, time_limit: Duration) -> Verdict {
    let engine = context.engine;
    let limit = context.active.config.maxmemory;
    if limit > 0
        && let Some(verdict) = offload::make_room(context, limit, time_limit, may_empty_segments)
    {
        engine.pressure.note(verdict, engine.started);
        return verdict;
    }
    if !may_evict(context) {
        return Verdict::WithinLimit;
    }
    let excess = engine.pressure.excess(limit);
    let verdict = if excess <= 0 {
        context.evictor.note_headroom(-excess, engine.worker_count());
        Verdict::WithinLimit
    } else {
        match Policy::of(&context.active.config) {
            None => Verdict::Exhausted,
            Some(policy) => evict(context, policy, limit, time_limit),
        }
    };
    engine.pressure.note(verdict, engine.started);
    verdict
}

/// Whether keys may be evicted at present, if the policy evicts any.
pub fn may_evict(context: &Context) -> bool {
    let (engine, config) = (context.engine, &context.active.config);
    let is_unsafe = engine.persistence.loading.load(Ordering::Relaxed)
        || engine.scripting.is_busy()
        || engine.pauses(context.now_ms, true)
        || config.replica_ignore_maxmemory && engine.replication.is_replica();
    config.maxmemory > 0 && !is_unsafe
}

/// Whether segments of a full file may be emptied at present: in no order of expiries, and not while that
/// frees nothing.
pub fn may_empty_segments(context: &Context) -> bool {
    let engine = context.engine;
    may_evict(context)
        && Policy::of(&context.active.config).is_some_and(|policy| !policy.is_by_expiry())
        && !engine.tier.emptying.rests()
        && !engine.pauses_cron.load(Ordering::Relaxed)
}

fn evict(context: &mut Context, policy: Policy, limit: u64, time_limit: Duration) -> Verdict {
    // A key whose value is on disk frees little, and the file is lost for it.
    let (mut preferred, mut fruitless) = (offload::is_full(context).then(|| policy.in_memory_only()), 0);
    let pressure = &context.engine.pressure;
    let began = clock::now();
    let verdict = loop {
        if pressure.is_about_to_fall() {
            break Verdict::InProgress;
        }
        let attempt = evict_one(context, preferred.unwrap_or(policy), limit);
        if pressure.excess(limit) <= 0 {
            break Verdict::WithinLimit;
        }
        fruitless = if attempt == Attempt::Fruitless { fruitless + 1 } else { 0 };
        if fruitless >= FRUITLESS_MAX && preferred.take().is_some() {
            continue;
        }
        if attempt == Attempt::Impossible {
            break if pressure.is_freeing() { Verdict::InProgress } else { Verdict::Exhausted };
        }
        if clock::since(began) >= time_limit {
            break Verdict::InProgress;
        }
    };
    note_latency(context, "eviction-cycle", clock::since(began).as_nanos() as u64);
    verdict
}

/// The outcome of an attempt to evict a key.
#[derive(PartialEq, Eq)]
enum Attempt {
    /// A key was evicted, or need not be.
    Done,
    /// None of those drawn could be.
    Fruitless,
    /// No key can be.
    Impossible,
}

/// Evicts a key if memory is still full then.
fn evict_one(context: &mut Context, policy: Policy, limit: u64) -> Attempt {
    if context.evictor.policy != Some(policy) {
        context.evictor.policy = Some(policy);
        context.evictor.pool.clear();
    }
    let drawer = Drawer {
        pool: &mut context.evictor.pool,
        random_state: &mut context.random_state,
        now_ms: context.now_ms,
    };
    let drawn = draw(&context.engine.keyspace, policy, drawer);
    for _ in 0..ATTEMPTS_MAX {
        let Some(candidate) = context.evictor.pool.take_best() else { break };
        match remove(context, policy, &candidate, limit) {
            Removal::Done => return Attempt::Done,
            Removal::NotNeeded | Removal::InUse => {
                context.evictor.pool.offer(candidate);
                return Attempt::Done;
            }
            Removal::Stale => {}
        }
    }
    if drawn == Drawn::NothingThere { Attempt::Impossible } else { Attempt::Fruitless }
}

/// The outcome of evicting one candidate.
enum Removal {
    /// It was evicted.
    Done,
    /// Memory is within the limit.
    NotNeeded,
    /// Its shard is locked by another thread.
    InUse,
    /// It is gone, or has been used since it was chosen.
    Stale,
}

fn remove(context: &mut Context, policy: Policy, candidate: &Candidate, limit: u64) -> Removal {
    let engine = context.engine;
    let index = engine.keyspace.shard_of(candidate.hash);
    let now_ms = context.now_ms;
    let mut claim = None;
    let mut outcome = Removal::Stale;
    let is_wanted = |entry: &Entry| {
        if !policy.is_unchanged(entry, now_ms, candidate.rank) {
            return false;
        }
        claim = engine.pressure.claim(measure(entry).unwrap_or(1), limit);
        if claim.is_none() {
            outcome = Removal::NotNeeded;
        }
        claim.is_some()
    };
    let evicted =
        try_with_shard(context, index, candidate.database, |access| access.evict(candidate.hash, is_wanted));
    let Some(evicted) = evicted else { return Removal::InUse };
    drop(claim);
    if evicted {
        stats::add(&engine.stats.workers[context.worker].evicted_keys, 1);
        return Removal::Done;
    }
    outcome
}
