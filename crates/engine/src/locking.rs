//! Which shards a command needs, and waiting for their locks.
//!
//! Locks are taken in ascending order. A write also takes the shards that serving clients blocked on
//! its keys may need. Nobody waits for a script that is slow: locking fails instead.

use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_commands::spec::{BeginSearch, FindKeys, KeySpec};
use mantissa_commands::{Locks, Outcome, find_keys};
use mantissa_protocol::Args;
use mantissa_store::{LockedShards, ShardSet};
use mantissa_sys::clock;
use mantissa_sys::simulation::{self, Fault};

use crate::admission;
use crate::engine::Engine;
use crate::invocation::{Command, Handler};
use crate::scripting::machine::is_running_here;

/// Whether the command's only key is its first argument.
#[inline]
pub fn has_one_key(command: &Command) -> bool {
    let one = |spec: &KeySpec| {
        matches!((spec.begin, spec.find), (BeginSearch::Index(1), FindKeys::Range { last: 0, .. }))
    };
    let info = command.info;
    info.locks == Locks::Keys && info.more_keys.is_none() && matches!(info.keys, [spec] if one(spec))
}

/// The shards that a command needs, as far as its arguments tell.
pub fn shards_of(engine: &Engine, command: &Command, args: Args<'_>) -> ShardSet {
    match command.info.locks {
        Locks::Nothing | Locks::Sweep => ShardSet::EMPTY,
        Locks::All => engine.keyspace.all_shards(),
        Locks::Keys => {
            let mut shards = ShardSet::EMPTY;
            for position in find_keys(command.info, args).unwrap_or_default() {
                shards.insert(engine.keyspace.shard_of(engine.keyspace.hash(args.at(position.index))));
            }
            shards
        }
    }
}

/// The shards that a command needs where others run with it under the same locks: all, if it cannot be told.
pub fn shards_held_for(engine: &Engine, command: &Command, args: Args<'_>) -> ShardSet {
    match (command.info.locks, command.handler) {
        (Locks::Nothing, _) => ShardSet::EMPTY,
        (Locks::Keys, Some(Handler::Data(_))) => shards_of(engine, command, args),
        _ => engine.keyspace.all_shards(),
    }
}

/// Locks one shard, like [`lock`].
#[inline]
pub fn lock_one(engine: &Engine, index: usize, may_write: bool) -> Outcome<LockedShards<'_>> {
    match engine.keyspace.try_lock_one(index) {
        Some(locked) if !may_write || locked.shard(index).is_some_and(|shard| !shard.has_waiters()) => {
            Ok(locked)
        }
        locked => {
            drop(locked);
            lock(engine, ShardSet::one(index), may_write)
        }
    }
}

/// Locks the shards, and for a write those too that serving the clients blocked on their keys may need. Fails
/// if a slow script holds one of them.
pub fn lock(engine: &Engine, wanted: ShardSet, may_write: bool) -> Outcome<LockedShards<'_>> {
    let mut set = wanted;
    loop {
        let locked = match engine.keyspace.try_lock(set) {
            Ok(locked) => locked,
            Err(_) => wait_for_shards(engine, set)?,
        };
        if !may_write || simulation::has_fault(Fault::NarrowLocks) {
            return Ok(locked);
        }
        let needed = with_waiters(&locked, set);
        if set.covers(needed) {
            return Ok(locked);
        }
        drop(locked);
        set = needed;
    }
}

/// Locks the shards for a write, like [`lock`], but waits for slow scripts. `None` if `give_up` says so.
pub fn lock_patiently(
    engine: &Engine,
    wanted: ShardSet,
    give_up: impl Fn() -> bool,
) -> Option<LockedShards<'_>> {
    let mut set = wanted;
    loop {
        let locked = match engine.keyspace.try_lock(set) {
            Ok(locked) => locked,
            Err(_) => engine.keyspace.lock_unless(set, &give_up)?,
        };
        let needed = with_waiters(&locked, set);
        if set.covers(needed) {
            return Some(locked);
        }
        drop(locked);
        set = needed;
    }
}

/// These locked shards, and those that serving the clients blocked on their keys may need.
fn with_waiters(locked: &LockedShards<'_>, set: ShardSet) -> ShardSet {
    let mut needed = set;
    set.for_each(|index| {
        if let Some(shard) = locked.shard(index) {
            needed = needed.union(shard.waiter_shards());
        }
    });
    needed
}

/// Waits for locked shards, and adds the time to `shard_wait_ns`: at most 1 ms, since waits for slow scripts
/// say nothing about the number of workers.
#[cold]
fn wait_for_shards(engine: &Engine, set: ShardSet) -> Outcome<LockedShards<'_>> {
    const COUNTED_MAX: Duration = Duration::from_millis(1);
    let began = clock::now();
    let locked = lock_when_free(engine, set);
    let waited = clock::since(began).min(COUNTED_MAX).as_nanos() as u64;
    engine.stats.shard_wait_ns.fetch_add(waited, Ordering::Relaxed);
    locked
}

/// Waits for shards that are not free. Fails if a slow script or a large file that is loaded is in
/// the way.
fn lock_when_free(engine: &Engine, set: ShardSet) -> Outcome<LockedShards<'_>> {
    // In the nested loop of a script this thread must not wait for shards that the script holds.
    let inside = is_running_here();
    let reloading = &engine.persistence.reloading;
    let give_up = || {
        inside
            || engine.scripting.is_busy()
            || reloading.load(Ordering::Relaxed)
            || engine.stopping.load(Ordering::Relaxed)
    };
    let locked = engine.keyspace.lock_unless(set, give_up);
    locked.ok_or_else(|| match reloading.load(Ordering::Relaxed) {
        true => admission::LOADING,
        false => engine.scripting.busy_error(),
    })
}
