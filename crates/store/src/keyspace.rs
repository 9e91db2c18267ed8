//! The keyspace: all shards, each behind its own lock.
//!
//! A thread that needs few shards waits for one lock while it holds none, and takes the others only if they
//! are free. Else locks are taken in ascending order of shard numbers. So threads that need several never
//! wait for each other in a circle. [`LockedShards`] is the only way to a shard's contents.
//!
//! A thread may ask for more shards than it holds ([`LockedShards::extend`]), out of order. While it waits,
//! threads that wait for a further lock release the locks that they hold: they have not begun yet.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use mantissa_sys::simulation;
use parking_lot::RawMutex;
use parking_lot::lock_api::{RawMutex as _, RawMutexTimed as _};

use crate::ahead::Ahead;
use crate::extenders::Extenders;
use crate::kept;
use crate::key_hash::{KeyHash, KeyHasher};
use crate::shard::Shard;
use crate::shard_set::{SHARD_COUNT_MAX, ShardSet};
use crate::snapshot::{Snapshot, Totals};
use crate::tracked::TrackedTotals;

/// Keys from which on prefetching pays: fewer of them stay in the caches anyway.
pub const PREFETCHED_KEYS_MIN: usize = 32_768;
/// Longest wait for a lock before `give_up` and other extenders are checked again.
const LOCK_WAIT_MAX: Duration = Duration::from_millis(2);

/// How often a thread waits for one lock while it holds none before it holds some while it waits, and for how
/// many shards at most. MSETs of ten keys by eight workers of 256 shards: 370,000 a second without, 631,000
/// with.
const TURNS_MAX: usize = 8;
const SHARDS_IN_TURN_MAX: u32 = 32;
/// How often a thread looks at a lock that is not free before it sleeps: first with [`PAUSES`] instructions
/// between, then letting other threads of this processor run. The same MSETs: 829,000 a second.
const SPINS: u32 = 20;
const PAUSES: u32 = 8;
const YIELDS: u32 = 40;

#[repr(align(128))]
struct ShardCell {
    lock: RawMutex,
    shard: UnsafeCell<Shard>,
}

// SAFETY: the shard is reached only while its lock is held.
unsafe impl Sync for ShardCell {}

/// All databases, in shards.
pub struct Keyspace {
    /// Unique in the process.
    number: u64,
    cells: Box<[ShardCell]>,
    hasher: KeyHasher,
    /// `64 - log2(number of shards)`.
    shift: u32,
    database_count: usize,
    tracked: Arc<TrackedTotals>,
    /// Threads that ask for more shards than they hold.
    extenders: Extenders,
    /// Whether changes are logged. It changes only while all shards are locked.
    is_logged: AtomicBool,
    /// Whether what has expired is hidden and not removed. It changes only while all shards are locked.
    keeps_expired: AtomicBool,
    /// Whether reads do not remove it either, because writes are paused.
    pauses_expiry: AtomicBool,
    /// See [`Keyspace::longest_shard`].
    longest_shards: Box<[AtomicUsize]>,
}

impl Keyspace {
    /// An empty keyspace. `shard_count` is a power of two from 2 to [`SHARD_COUNT_MAX`]; other numbers are
    /// brought there.
    pub fn new(database_count: usize, shard_count: usize) -> Self {
        let shard_count = shard_count.next_power_of_two().clamp(2, SHARD_COUNT_MAX);
        let hasher = KeyHasher::of_this_run();
        let tracked = Arc::<TrackedTotals>::default();
        let cell = |_| ShardCell {
            lock: RawMutex::INIT,
            shard: UnsafeCell::new(Shard::new(database_count, hasher, Arc::clone(&tracked))),
        };
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        Keyspace {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            cells: (0..shard_count).map(cell).collect(),
            hasher,
            shift: 64 - shard_count.ilog2(),
            database_count,
            tracked: Arc::clone(&tracked),
            extenders: Extenders::default(),
            is_logged: AtomicBool::new(false),
            keeps_expired: AtomicBool::new(false),
            pauses_expiry: AtomicBool::new(false),
            longest_shards: (0..database_count).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    /// The most keys of a database in a shard, as far as whoever looked for that last has seen.
    pub fn longest_shard(&self, database: usize) -> &AtomicUsize {
        &self.longest_shards[database]
    }

    /// The number of databases.
    pub fn database_count(&self) -> usize {
        self.database_count
    }

    /// The number of shards.
    pub fn shard_count(&self) -> usize {
        self.cells.len()
    }

    /// The hash of a key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        self.hasher.hash(key)
    }

    /// The shard of a key.
    #[inline]
    pub fn shard_of(&self, hash: KeyHash) -> usize {
        (hash.0 >> self.shift) as usize
    }

    /// The keys of which clients may hold copies.
    pub fn tracked(&self) -> &TrackedTotals {
        &self.tracked
    }

    /// Every shard.
    pub fn all_shards(&self) -> ShardSet {
        ShardSet::first(self.cells.len())
    }

    /// Whether changes are logged. Does not change while the caller holds a lock.
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.is_logged.load(Ordering::Relaxed)
    }

    /// Sets whether changes are logged from now on. All shards must be locked, unless nobody uses them yet.
    pub fn set_logged(&self, is_logged: bool) {
        self.is_logged.store(is_logged, Ordering::Relaxed);
    }

    /// Whether what has expired is hidden and not removed: another server says when it goes. Does not change
    /// while the caller holds a lock.
    #[inline]
    pub fn keeps_expired(&self) -> bool {
        self.keeps_expired.load(Ordering::Relaxed)
    }

    /// Whether reads do not remove what has expired, because writes are paused.
    #[inline]
    pub fn pauses_expiry(&self) -> bool {
        self.pauses_expiry.load(Ordering::Relaxed)
    }

    /// Sets whether writes are paused.
    pub fn pause_expiry(&self, is_paused: bool) {
        self.pauses_expiry.store(is_paused, Ordering::Relaxed);
    }

    /// Sets whether what has expired is kept from now on. All shards must be locked, unless nobody uses them
    /// yet.
    pub fn set_keeps_expired(&self, keeps_expired: bool) {
        self.keeps_expired.store(keeps_expired, Ordering::Relaxed);
    }

    /// The hasher of keys.
    pub fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    /// Waits for the locks of these shards and takes them. The calling thread must hold none.
    #[inline]
    pub fn lock(&self, set: ShardSet) -> LockedShards<'_> {
        match self.try_lock(set) {
            Ok(locked) => locked,
            // Without `give_up` the locks are always taken in the end.
            Err(_) => loop {
                if let Some(locked) = self.lock_unless(set, || false) {
                    return locked;
                }
            },
        }
    }

    /// Takes the lock of one shard if it is free.
    #[inline]
    pub fn try_lock_one(&self, index: usize) -> Option<LockedShards<'_>> {
        simulation::yield_point();
        let locked = || LockedShards { keyspace: self, held: Held::One(index), not_send: PhantomData };
        (self.cells[index].lock.try_lock() || self.takes_kept(index)).then(locked)
    }

    /// Takes the locks of these shards if all of them are free; otherwise the number of one that is not.
    #[inline]
    pub fn try_lock(&self, set: ShardSet) -> Result<LockedShards<'_>, usize> {
        simulation::yield_point();
        self.take(set, None)
    }

    /// Takes the locks of these shards, of which the caller may have taken one. If another one is not free,
    /// all are released, and its number is the error.
    #[inline]
    fn take(&self, set: ShardSet, taken: Option<usize>) -> Result<LockedShards<'_>, usize> {
        let mut refused = None;
        set.for_each(|index| {
            let is_taken = refused.is_some() || taken == Some(index) || self.cells[index].lock.try_lock();
            if !is_taken {
                refused = Some(index);
            }
        });
        let Some(refused) = refused else {
            return Ok(LockedShards { keyspace: self, held: Held::these(set), not_send: PhantomData });
        };
        set.for_each(|index| {
            if index < refused || taken == Some(index) {
                // SAFETY: the lock was taken above, or by the caller.
                unsafe { self.cells[index].lock.unlock() };
            }
        });
        Err(refused)
    }

    /// Releases what this thread keeps when it is dropped.
    pub fn release_kept_at_end(&self) -> ReleaseKept<'_> {
        ReleaseKept(self)
    }

    /// Releases the lock that this thread keeps.
    pub fn release_kept(&self) {
        if let Some(index) = kept::shard(self.number) {
            kept::forget();
            // SAFETY: this thread took the lock, and its guard gave it up in `LockedShards::keep`.
            unsafe { self.cells[index].lock.unlock() };
        }
    }

    /// Whether this thread keeps the lock of this shard, which the caller has taken over then.
    #[cold]
    fn takes_kept(&self, index: usize) -> bool {
        let is_kept = kept::shard(self.number) == Some(index);
        if is_kept {
            kept::forget();
        }
        is_kept
    }

    /// No lock, where nothing of the keyspace is looked at.
    pub fn lock_none(&self) -> LockedShards<'_> {
        LockedShards { keyspace: self, held: Held::None, not_send: PhantomData }
    }

    /// Takes the locks of these shards: at once if they are free, else like [`Keyspace::lock_unless`].
    pub fn lock_or_give_up(&self, set: ShardSet, give_up: impl FnMut() -> bool) -> Option<LockedShards<'_>> {
        self.try_lock(set).ok().or_else(|| self.lock_unless(set, give_up))
    }

    /// Waits for the locks of these shards and takes them, unless `give_up` says so, which is asked every few
    /// milliseconds. The calling thread must hold none.
    #[cold]
    pub fn lock_unless(&self, set: ShardSet, mut give_up: impl FnMut() -> bool) -> Option<LockedShards<'_>> {
        self.release_kept();
        kept::note_wait();
        if let Some(ended) = self.lock_in_turn(set, &mut give_up) {
            return ended;
        }
        loop {
            let mut locked = LockedShards { keyspace: self, held: Held::None, not_send: PhantomData };
            let mut refused = false;
            set.for_each(|index| refused = refused || !locked.wait_for(index, &mut give_up));
            if !refused {
                return Some(locked);
            }
            drop(locked);
            // Either `give_up` said so, or another thread is extending.
            while !self.await_extenders() {
                if give_up() {
                    return None;
                }
            }
            if give_up() {
                return None;
            }
        }
    }

    /// Waits for a lock that is not free while it holds none, then takes the others if they are free. Whoever
    /// holds some while it waits keeps those waiting that need only these. `Some(None)` if `give_up` says so,
    /// `None` where this did not succeed a few times, or with many shards: they are hardly ever free at once.
    fn lock_in_turn(
        &self,
        set: ShardSet,
        give_up: &mut impl FnMut() -> bool,
    ) -> Option<Option<LockedShards<'_>>> {
        if set.count() > SHARDS_IN_TURN_MAX {
            return None;
        }
        let mut awaited = match self.try_lock(set) {
            Ok(locked) => return Some(Some(locked)),
            Err(index) => index,
        };
        for _ in 0..TURNS_MAX {
            while !self.wait_for_one(awaited) {
                if give_up() {
                    return Some(None);
                }
            }
            match self.take(set, Some(awaited)) {
                Ok(locked) => return Some(Some(locked)),
                Err(index) => awaited = index,
            }
        }
        None
    }

    /// Waits for the lock of one shard for [`LOCK_WAIT_MAX`].
    fn wait_for_one(&self, index: usize) -> bool {
        let lock = &self.cells[index].lock;
        if simulation::is_active() {
            simulation::yield_point();
            return lock.try_lock() || (simulation::wait(Some(LOCK_WAIT_MAX)) && lock.try_lock());
        }
        for round in 0..SPINS + YIELDS {
            if !lock.is_locked() && lock.try_lock() {
                return true;
            }
            match round < SPINS {
                true => (0..PAUSES).for_each(|_| std::hint::spin_loop()),
                false => std::thread::yield_now(),
            }
        }
        lock.try_lock_for(LOCK_WAIT_MAX)
    }

    /// Waits until no thread is extending, for [`LOCK_WAIT_MAX`] at most.
    fn await_extenders(&self) -> bool {
        match simulation::wait(Some(LOCK_WAIT_MAX)) {
            true => !self.extenders.exist(),
            false => self.extenders.await_end(LOCK_WAIT_MAX),
        }
    }

    /// Fetches a key's bucket ahead of its use, without taking the lock if it is not free.
    pub fn prefetch_bucket(&self, database: usize, hash: KeyHash) {
        self.peek(database, hash, |database| database.prefetch_bucket(hash));
    }

    /// Fetches a key's entry ahead of its use, without taking the lock if it is not free.
    pub fn prefetch_entry(&self, database: usize, hash: KeyHash) {
        self.peek(database, hash, |database| database.prefetch_entry(hash));
    }

    /// About how many keys there are, from one shard of them; `None` if that one is in use.
    pub fn estimate_keys(&self) -> Option<usize> {
        let locked = self.try_lock_one(0)?;
        let count: usize = locked.shard(0)?.databases.iter().map(crate::Database::len).sum();
        Some(count * self.cells.len())
    }

    /// Has `look` called with the part of a database that a key is in, if its lock is free.
    #[inline]
    pub(crate) fn peek<R>(
        &self,
        database: usize,
        hash: KeyHash,
        look: impl FnOnce(&crate::Database) -> R,
    ) -> Option<R> {
        let cell = &self.cells[self.shard_of(hash)];
        cell.lock.try_lock().then(|| {
            // SAFETY: the lock is held, and released right after the shared use.
            unsafe {
                let result = look(&(&(*cell.shard.get()).databases)[database]);
                cell.lock.unlock();
                result
            }
        })
    }

    /// Fetches what these commands will look at in collections that are larger than the caches, those of one
    /// key side by side. Their order is changed. A shard that is in use is left out: its holder may hold it
    /// for long, and may be this thread. Returns how many of them are about to use such collections, or may
    /// be, as their shard was left out.
    pub fn fetch_ahead(&self, database: usize, commands: &mut [Ahead<'_>]) -> usize {
        commands.sort_unstable_by_key(|command| command.key.0);
        let mut large = 0;
        for group in commands.chunk_by(|one, other| one.key == other.key) {
            let is_large = self.peek(database, group[0].key, |database| database.fetch_ahead(group));
            if is_large.unwrap_or(true) {
                large += group.len();
            }
        }
        large
    }
}

/// The locked shards. A set takes sixteen words, and moving one that was just written stalls. Most commands
/// lock one shard, whose number stays in a register.
enum Held {
    None,
    One(usize),
    Many(Box<ShardSet>),
}

impl Held {
    #[inline]
    fn these(set: ShardSet) -> Self {
        match set.only() {
            Some(one) => Held::One(one),
            None if set.is_empty() => Held::None,
            None => Held::Many(Box::new(set)),
        }
    }

    #[inline]
    fn contains(&self, index: usize) -> bool {
        match self {
            Held::None => false,
            Held::One(one) => *one == index,
            Held::Many(set) => set.contains(index),
        }
    }

    #[inline]
    fn set(&self) -> ShardSet {
        match self {
            Held::None => ShardSet::EMPTY,
            Held::One(one) => ShardSet::one(*one),
            Held::Many(set) => **set,
        }
    }

    #[inline]
    fn insert(&mut self, index: usize) {
        match self {
            Held::None => *self = Held::One(index),
            Held::One(one) => *self = Held::Many(Box::new(ShardSet::one(*one).union(ShardSet::one(index)))),
            Held::Many(set) => set.insert(index),
        }
    }

    fn remove(&mut self, index: usize) {
        match self {
            Held::One(one) if *one == index => *self = Held::None,
            Held::None | Held::One(_) => {}
            Held::Many(set) => set.remove(index),
        }
    }

    fn is_empty(&self) -> bool {
        self.set().is_empty()
    }

    #[inline]
    fn for_each(&self, mut visit: impl FnMut(usize)) {
        match self {
            Held::None => {}
            Held::One(one) => visit(*one),
            Held::Many(set) => set.for_each(visit),
        }
    }
}

/// See [`Keyspace::release_kept_at_end`].
pub struct ReleaseKept<'k>(&'k Keyspace);

impl Drop for ReleaseKept<'_> {
    fn drop(&mut self) {
        self.0.release_kept();
    }
}

/// Shards whose locks are held; they are released on drop.
pub struct LockedShards<'k> {
    keyspace: &'k Keyspace,
    held: Held,
    /// Locks are released by the thread that took them.
    not_send: PhantomData<*const ()>,
}

impl<'k> LockedShards<'k> {
    /// The keyspace.
    #[inline]
    pub fn keyspace(&self) -> &'k Keyspace {
        self.keyspace
    }

    /// Which shards are locked.
    #[inline]
    pub fn set(&self) -> ShardSet {
        self.held.set()
    }

    /// Whether the shard is locked.
    #[inline]
    pub fn contains(&self, index: usize) -> bool {
        self.held.contains(index)
    }

    /// A locked shard, `None` if it is not locked.
    #[inline]
    pub fn shard(&self, index: usize) -> Option<&Shard> {
        // SAFETY: the lock is held by `self`, and the borrow of `self` is shared.
        self.held.contains(index).then(|| unsafe { &*self.keyspace.cells[index].shard.get() })
    }

    /// A locked shard, to change, `None` if it is not locked.
    #[inline]
    pub fn shard_mut(&mut self, index: usize) -> Option<&mut Shard> {
        // SAFETY: the lock is held by `self`, and the borrow of `self` is exclusive.
        self.held.contains(index).then(|| unsafe { &mut *self.keyspace.cells[index].shard.get() })
    }

    /// Notes that these shards' last change is in the log of commits before this position.
    #[inline]
    pub fn note_logged(&mut self, position: u64) {
        let cells = &self.keyspace.cells;
        // SAFETY: the locks are held by `self`, and the borrow of `self` is exclusive.
        self.held.for_each(|index| unsafe { (*cells[index].shard.get()).logged_at = position });
    }

    /// The position in the log of commits behind the last change of any of these shards, as far as noted.
    #[inline]
    pub fn logged_at(&self) -> u64 {
        let cells = &self.keyspace.cells;
        let mut position = 0;
        // SAFETY: the locks are held by `self`, and the borrow of `self` is shared.
        self.held.for_each(|index| position = position.max(unsafe { (*cells[index].shard.get()).logged_at }));
        position
    }

    /// Takes one more lock; if some are held, in ascending order. False if `give_up` says so, or if another
    /// thread extends what it holds and may wait for a lock that is held here.
    fn wait_for(&mut self, index: usize, give_up: &mut impl FnMut() -> bool) -> bool {
        while !self.keyspace.wait_for_one(index) {
            if give_up() || (!self.held.is_empty() && self.keyspace.extenders.exist()) {
                return false;
            }
        }
        self.held.insert(index);
        true
    }

    /// Fetches these keys' buckets, then their entries, ahead of their use. Those of few keys are in the
    /// caches anyway.
    pub fn prefetch(&self, database: usize, hashes: &[KeyHash]) {
        let table = |hash: KeyHash| {
            self.shard(self.keyspace.shard_of(hash)).and_then(|shard| shard.databases.get(database))
        };
        let Some(first) = hashes.first().and_then(|&hash| table(hash)) else { return };
        if first.len() * self.keyspace.shard_count() < PREFETCHED_KEYS_MIN {
            return;
        }
        for &hash in hashes {
            if let Some(database) = table(hash) {
                database.prefetch_bucket(hash);
            }
        }
        for &hash in hashes {
            if let Some(database) = table(hash) {
                database.prefetch_entry(hash);
            }
        }
    }

    /// Takes further locks without giving back those that are held, in whatever order. False, with the same
    /// locks as before, if `give_up` says so, or if other threads that do the same wait for one of these.
    #[cold]
    pub fn extend(&mut self, more: ShardSet, mut give_up: impl FnMut() -> bool) -> bool {
        let keyspace = self.keyspace;
        keyspace.release_kept();
        let extension = keyspace.extenders.begin();
        let before = self.held.set();
        let mut complete = true;
        more.for_each(|index| {
            if complete && !self.held.contains(index) {
                complete = extension.waits(self.held.set(), index);
            }
            while complete && !self.held.contains(index) {
                if keyspace.wait_for_one(index) {
                    self.held.insert(index);
                } else if give_up() {
                    complete = false;
                }
            }
        });
        if !complete {
            more.for_each(|index| {
                if !before.contains(index) {
                    self.release(index);
                }
            });
        }
        complete
    }

    /// Keeps the lock of the only shard for the next command of this thread, and holds none from now on.
    /// Whoever calls this sees to it that the thread runs one soon or releases it
    /// ([`Keyspace::release_kept_at_end`]).
    #[cold]
    pub fn keep(&mut self) {
        if let Held::One(index) = self.held
            && !simulation::is_active()
        {
            // One that a command kept for the next, which was refused, would be lost.
            self.keyspace.release_kept();
            kept::keep(self.keyspace.number, index);
            self.held = Held::None;
        }
    }

    /// Releases one lock before the others.
    pub fn release(&mut self, index: usize) {
        if self.held.contains(index) {
            self.held.remove(index);
            // SAFETY: the lock was held by `self`, which gives up its part of the set with it.
            unsafe { self.keyspace.cells[index].lock.unlock() };
        }
    }

    /// Runs `work` on a shard: on the locked one, or on one locked for just this call if no shard is held.
    ///
    /// # Panics
    /// If other shards are locked but not this one: a program error, since that could wait in a circle.
    pub fn visit<R>(&mut self, index: usize, work: impl FnOnce(&mut Shard) -> R) -> R {
        if let Some(shard) = self.shard_mut(index) {
            return work(shard);
        }
        assert!(self.held.is_empty(), "commands that sweep the keyspace lock no shard or all of them");
        let keyspace = self.keyspace;
        let free = keyspace.try_lock_one(index);
        let mut locked = free.unwrap_or_else(|| keyspace.lock(ShardSet::one(index)));
        work(locked.shard_mut(index).expect("it was locked just now"))
    }

    /// Makes this instant the cut of a snapshot. All shards must be locked, and no other snapshot be under
    /// way. Returns what each database holds. Each shard is then to be walked to its end with
    /// [`Shard::snapshot_step`], and what is handed over to be taken, before another snapshot begins.
    pub fn begin_snapshot(&mut self) -> (Arc<Snapshot>, Vec<Totals>) {
        let keyspace = self.keyspace();
        let snapshot = Arc::new(Snapshot::new(keyspace.shard_count()));
        let mut totals = vec![Totals::default(); keyspace.database_count()];
        for index in 0..keyspace.shard_count() {
            let Some(shard) = self.shard_mut(index) else { continue };
            for (number, (database, total)) in shard.databases.iter_mut().zip(&mut totals).enumerate() {
                total.keys += database.len() as u64;
                total.with_expiry += database.with_expiry_len() as u64;
                database.begin_snapshot(number, &snapshot);
            }
        }
        (snapshot, totals)
    }
}

impl Drop for LockedShards<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the locks of exactly these shards were taken, on this thread (guards are not Send).
        let unlock = |index: usize| unsafe { self.keyspace.cells[index].lock.unlock() };
        match &self.held {
            Held::None => {}
            Held::One(one) => unlock(*one),
            Held::Many(set) => set.for_each(unlock),
        }
        simulation::yield_point();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_extend_what_they_hold_without_waiting_in_a_circle() {
        let keyspace = Keyspace::new(1, 64);
        let extended = std::sync::atomic::AtomicUsize::new(0);
        let work = |first: usize| {
            for round in 0..300 {
                let mut locked = keyspace.lock(ShardSet::one((first + round) % 64));
                if locked.extend(keyspace.all_shards(), || false) {
                    assert_eq!(locked.set(), keyspace.all_shards());
                    extended.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
                drop(locked);
                drop(keyspace.lock(ShardSet::first(40)));
            }
        };
        std::thread::scope(|scope| {
            for first in [63, 20, 0] {
                scope.spawn(move || work(first));
            }
        });
        assert!(extended.into_inner() >= 300);
        assert!(!keyspace.extenders.exist());
        assert!(keyspace.try_lock(keyspace.all_shards()).is_ok());
    }

    #[test]
    fn threads_extend_side_by_side() {
        let keyspace = Keyspace::new(1, 64);
        let [first, second] = [1, 2].map(|index| keyspace.lock(ShardSet::one(index)));
        let (mut first, mut second) = (first, second);
        std::thread::scope(|scope| {
            let third = scope.spawn(|| {
                let mut third = keyspace.lock(ShardSet::one(3));
                assert!(third.extend(ShardSet::one(1), || false));
            });
            while !keyspace.extenders.exist() {
                std::thread::yield_now();
            }
            assert!(second.extend(ShardSet::one(9), || false), "nobody who waits holds it");
            assert!(!first.extend(ShardSet::one(3), || true), "the third holds it, and waits for the first");
            drop(first);
            assert!(third.join().is_ok());
        });
        assert!(second.contains(9) && !keyspace.extenders.exist());
    }

    #[test]
    fn a_kept_lock_is_taken_again_or_released_by_whatever_is_locked_next() {
        let keyspace = Keyspace::new(1, 64);
        let is_free = |index: usize| {
            let try_lock = || keyspace.try_lock_one(index).is_some();
            std::thread::scope(|scope| scope.spawn(try_lock).join().expect("no panic"))
        };
        keyspace.lock(ShardSet::one(3)).keep();
        assert!(kept::shard(keyspace.number) == Some(3) && !is_free(3));
        let again = keyspace.try_lock_one(3).expect("it is kept here");
        assert!(kept::shard(keyspace.number).is_none() && !is_free(3));
        drop(again);
        assert!(is_free(3));
        let others: [fn(&Keyspace); 5] = [
            |keyspace| drop(keyspace.lock(ShardSet::first(5))),
            |keyspace| drop(keyspace.lock_unless(keyspace.all_shards(), || false)),
            |keyspace| assert!(keyspace.lock(ShardSet::one(4)).extend(keyspace.all_shards(), || false)),
            |keyspace| drop(keyspace.release_kept_at_end()),
            Keyspace::release_kept,
        ];
        for lock_other in others {
            keyspace.lock(ShardSet::one(3)).keep();
            lock_other(&keyspace);
            assert!(kept::shard(keyspace.number).is_none() && is_free(3));
        }
        keyspace.lock(ShardSet::one(3)).keep();
        keyspace.lock(ShardSet::one(4)).keep();
        assert!(kept::shard(keyspace.number) == Some(4) && is_free(3) && !is_free(4));
        keyspace.release_kept();
        keyspace.lock(ShardSet::first(2)).keep();
        assert!(kept::shard(keyspace.number).is_none() && is_free(0) && is_free(1));
    }

    #[test]
    fn threads_lock_overlapping_sets_without_losing_updates() {
        let keyspace = Keyspace::new(1, 64);
        let key = b"counter";
        let hash = keyspace.hash(key);
        let home = keyspace.shard_of(hash);
        let add = |others: usize| {
            for round in 0..2_000 {
                let set = ShardSet::one(home).union(ShardSet::first(others));
                let mut locked = match others {
                    0 => keyspace.try_lock_one(home).unwrap_or_else(|| keyspace.lock(set)),
                    _ => keyspace.lock(set),
                };
                let database = &mut locked.shard_mut(home).expect("locked").databases[0];
                match database.get_mut(hash, key) {
                    Some(entry) => {
                        let number = entry.as_string().and_then(|text| text.integer()).expect("a number");
                        entry.set_integer(number + 1);
                    }
                    None => drop(database.insert(hash, crate::Entry::string(key, b"1", None, 0))),
                }
                if others == 0 && round % 16 < 15 {
                    locked.keep();
                }
            }
            keyspace.release_kept();
        };
        std::thread::scope(|scope| {
            for others in [0, 0, 3, 20, 64] {
                scope.spawn(move || add(others));
            }
        });
        let locked = keyspace.lock(ShardSet::one(home));
        let entry = locked.shard(home).and_then(|shard| shard.databases[0].get(hash, key)).expect("there");
        assert_eq!(entry.as_string().and_then(|text| text.integer()), Some(10_000));
    }
}
