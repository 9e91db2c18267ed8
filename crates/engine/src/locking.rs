//! Which shards a command needs, and waiting for their locks.
//!
//! How they are taken is told in [`mantissa_store::Keyspace`]. A write also takes the shards that serving
//! clients blocked on its keys may need, a command on time series those of the series that they are linked
//! to. Nobody waits for a script that is slow: locking fails instead.

use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_commands::spec::Traits;
use mantissa_commands::{Locks, Outcome, find_keys};
use mantissa_protocol::Args;
use mantissa_store::series::are_there_links;
use mantissa_store::{KeyHash, Keyspace, LockedShards, ShardSet};
use mantissa_sys::clock;
use mantissa_sys::simulation::{self, Fault};
use smallvec::SmallVec;

use crate::admission;
use crate::engine::Engine;
use crate::invocation::{Command, Handler};
use crate::scripting::machine::is_running_here;

/// Most keys of a command that are fetched ahead of their use: more would push each other out of the caches.
const PREFETCHED_MAX: usize = 1024;

/// What a command, transaction or script needs locked.
#[derive(Default)]
pub struct Wanted {
    /// The shards.
    pub shards: ShardSet,
    /// The hashes of its keys, as far as they are known and not too many.
    pub hashes: SmallVec<[KeyHash; 16]>,
}

impl Wanted {
    /// Shards, whatever the keys.
    pub fn shards(shards: ShardSet) -> Self {
        Wanted { shards, ..Wanted::default() }
    }

    /// Adds a key.
    pub fn add(&mut self, keyspace: &Keyspace, hash: KeyHash) {
        self.shards.insert(keyspace.shard_of(hash));
        if self.hashes.len() < PREFETCHED_MAX {
            self.hashes.push(hash);
        }
    }
}

/// The shards that a command needs, as far as its arguments tell.
pub fn shards_of(engine: &Engine, command: &Command, args: Args<'_>) -> ShardSet {
    let mut wanted = Wanted::default();
    want(engine, command, args, &mut wanted);
    wanted.shards
}

/// Adds what a command needs, as far as its arguments tell.
pub fn want(engine: &Engine, command: &Command, args: Args<'_>, wanted: &mut Wanted) {
    let keyspace = &engine.keyspace;
    match command.info.locks {
        Locks::Nothing | Locks::Sweep => {}
        Locks::All => wanted.shards = keyspace.all_shards(),
        Locks::Keys => {
            let mut before = None;
            for position in find_keys(command.info, args).unwrap_or_default() {
                let key = args.at(position.index);
                // Keys three arguments apart are those of TS.MADD, which often has the same one again.
                let is_again = before.is_some_and(|at: usize| position.index == at + 3 && args.at(at) == key);
                if !is_again {
                    wanted.add(keyspace, keyspace.hash(key));
                }
                before = Some(position.index);
            }
            if let Some(key) = linked_argument(command, args) {
                wanted.shards.insert(keyspace.shard_of(keyspace.hash(key)));
            }
        }
    }
}

/// The shards that a command needs where others run with it under the same locks: all, if it cannot be told.
/// Whoever has locked them asks again if there were [no links](are_there_links) before.
pub fn shards_held_for(engine: &Engine, command: &Command, args: Args<'_>) -> ShardSet {
    let mut wanted = Wanted::default();
    want_held(engine, command, args, &mut wanted);
    wanted.shards
}

/// Adds what a command needs like [`shards_held_for`].
pub fn want_held(engine: &Engine, command: &Command, args: Args<'_>, wanted: &mut Wanted) {
    match (command.info.locks, command.handler) {
        (Locks::Nothing, _) => {}
        _ if command.info.traits.has(Traits::FOLLOWS_LINKS) && are_there_links() => {
            wanted.shards = engine.keyspace.all_shards();
        }
        (Locks::Keys, Some(Handler::Data(_))) => want(engine, command, args, wanted),
        _ => wanted.shards = engine.keyspace.all_shards(),
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
        let Some(needed) = more_for_waiters(&locked, &set) else { return Ok(locked) };
        drop(locked);
        set = needed;
    }
}

/// The same with what a command needs, and fetches its keys.
#[inline(never)]
pub fn lock_keys<'e>(
    engine: &'e Engine,
    database: usize,
    (command, args): (&Command, Args<'_>),
    may_write: bool,
) -> Outcome<LockedShards<'e>> {
    let mut wanted = Wanted::default();
    want(engine, command, args, &mut wanted);
    lock_wanted(engine, database, &wanted, may_write)
}

/// The same, and fetches the keys that are to be used in a database.
pub fn lock_wanted<'e>(
    engine: &'e Engine,
    database: usize,
    wanted: &Wanted,
    may_write: bool,
) -> Outcome<LockedShards<'e>> {
    let locked = match wanted.shards.only() {
        Some(index) => lock_one(engine, index, may_write)?,
        None => lock(engine, wanted.shards, may_write)?,
    };
    locked.prefetch(database, &wanted.hashes);
    Ok(locked)
}

/// Sees to it that a command which [follows links](Traits::FOLLOWS_LINKS) of time series holds, beside the
/// shards of its keys, those of the keys that series there are linked to.
///
/// What a series is linked to is known once its shard is locked. If a shard is missing then, all are released
/// and taken anew with it by `lock`, and the links are looked at again: they may have
/// changed meanwhile. Every round adds a shard, so there is an end. The handler begins with this invariant:
/// every link of a series at the command's keys leads to a locked shard.
pub fn lock_linked<'e, E>(
    engine: &Engine,
    mut locked: LockedShards<'e>,
    call: (&Command, Args<'_>, usize),
    lock: impl Fn(ShardSet) -> Result<LockedShards<'e>, E>,
) -> Result<LockedShards<'e>, E> {
    if !are_there_links() {
        return Ok(locked);
    }
    loop {
        let needed = linked_shards(engine, &locked, call);
        let set = locked.set();
        if set.covers(needed) {
            return Ok(locked);
        }
        drop(locked);
        locked = lock(set.union(needed))?;
    }
}

/// The shards of the keys that time series at a command's keys are linked to, or will be once it has made
/// them, in a database. Those of keys whose shards are locked are found.
pub fn linked_shards(
    engine: &Engine,
    locked: &LockedShards<'_>,
    (command, args, database): (&Command, Args<'_>, usize),
) -> ShardSet {
    let mut shards = ShardSet::EMPTY;
    if !command.info.traits.has(Traits::FOLLOWS_LINKS) || !are_there_links() {
        return shards;
    }
    let keyspace = locked.keyspace();
    let positions = find_keys(command.info, args).unwrap_or_default();
    let keys = positions.iter().map(|position| args.at(position.index)).chain(linked_argument(command, args));
    for key in keys {
        let hash = keyspace.hash(key);
        let shard = locked.shard(keyspace.shard_of(hash));
        let entry = shard.and_then(|shard| shard.databases.get(database)?.get(hash, key));
        if let Some(entry) = entry {
            let linked = entry.series_source().into_iter().chain(entry.series_destinations());
            linked.for_each(|key| shards.insert(keyspace.shard_of(keyspace.hash(key))));
        }
        if entry.is_none() && command.info.traits.has(Traits::COMPACTS) {
            for compaction in &engine.active_config().settings.series.compactions {
                shards.insert(keyspace.shard_of(keyspace.hash(&compaction.destination(key))));
            }
        }
    }
    shards
}

/// The key that a command touches beside those of its specifications.
fn linked_argument<'a>(command: &Command, args: Args<'a>) -> Option<&'a [u8]> {
    if command.info.traits.has(Traits::LINKS_KEYS) { args.get(2) } else { None }
}

/// Locks the shards for a write, like [`lock`], but waits for slow scripts. `None` if `give_up` says so.
pub fn lock_patiently(
    engine: &Engine,
    wanted: ShardSet,
    give_up: impl Fn() -> bool,
) -> Option<LockedShards<'_>> {
    let mut set = wanted;
    loop {
        let locked = engine.keyspace.lock_or_give_up(set, &give_up)?;
        let Some(needed) = more_for_waiters(&locked, &set) else { return Some(locked) };
        drop(locked);
        set = needed;
    }
}

/// These locked shards with those that serving the clients blocked on their keys may need, if there are more.
fn more_for_waiters(locked: &LockedShards<'_>, set: &ShardSet) -> Option<ShardSet> {
    let mut needed = None;
    set.for_each(|index| {
        if let Some(shard) = locked.shard(index).filter(|shard| shard.has_waiters()) {
            needed = Some(needed.unwrap_or(*set).union(shard.waiter_shards()));
        }
    });
    needed.filter(|needed| !set.covers(*needed))
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
