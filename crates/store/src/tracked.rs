//! Which clients may hold copies of which keys of a shard, so that they can be told when one changes.
//!
//! A key is here from the first read of a client that keeps copies until it changes, whichever of the
//! databases it was read in: clients are told of names. It costs its own bytes, about 60 more, and for each
//! further holder about 12. Holders that are gone stay until the key changes, but never make up more than
//! about half of the holders of a key with many.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::key_hash::{KeyHash, KeyHasher};
use crate::table::Table;

/// Holders of one key from which on those who are gone are looked for.
const PRUNED_LEN_MIN: usize = 64;

/// What all shards of a keyspace know together.
#[derive(Default)]
pub struct TrackedTotals {
    keys: AtomicUsize,
    holders: AtomicUsize,
    notes_all: AtomicBool,
}

impl TrackedTotals {
    /// Keys of which clients may hold copies.
    pub fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    /// The holders of all keys, summed up.
    pub fn holders(&self) -> usize {
        self.holders.load(Ordering::Relaxed)
    }

    /// Whether every change is to be noted, because a client tracks keys that have not been read.
    #[inline]
    pub fn notes_all(&self) -> bool {
        self.notes_all.load(Ordering::Relaxed)
    }

    /// Has every change noted that begins from now on, or no longer.
    pub fn note_all(&self, on: bool) {
        self.notes_all.store(on, Ordering::SeqCst);
    }
}

/// The clients that may hold a copy of a key, by number. They may be gone by now.
#[derive(Clone, Debug)]
pub enum Holders {
    /// One.
    One(u64),
    /// Several, and at how many those who are gone are looked for.
    Many(BTreeSet<u64>, usize),
}

impl Holders {
    /// How many there are; never 0.
    pub fn count(&self) -> usize {
        match self {
            Holders::One(_) => 1,
            Holders::Many(clients, _) => clients.len(),
        }
    }

    /// Visits each.
    pub fn for_each(&self, mut visit: impl FnMut(u64)) {
        match self {
            Holders::One(client) => visit(*client),
            Holders::Many(clients, _) => clients.iter().copied().for_each(visit),
        }
    }

    fn add(&mut self, client: u64, is_there: impl Fn(u64) -> bool) {
        match self {
            Holders::One(other) if *other == client => {}
            Holders::One(other) => *self = Holders::Many(BTreeSet::from([*other, client]), PRUNED_LEN_MIN),
            Holders::Many(clients, prune_at) => {
                clients.insert(client);
                if clients.len() >= *prune_at {
                    clients.retain(|&other| other == client || is_there(other));
                    *prune_at = (2 * clients.len()).max(PRUNED_LEN_MIN);
                }
            }
        }
    }
}

struct Tracked {
    key: Box<[u8]>,
    holders: Holders,
}

/// The keys of a shard that clients hold copies of, each with these clients.
pub struct TrackedKeys {
    table: Table<Box<Tracked>>,
    hasher: KeyHasher,
    totals: Arc<TrackedTotals>,
}

impl TrackedKeys {
    /// No key.
    pub fn new(hasher: KeyHasher, totals: Arc<TrackedTotals>) -> Self {
        TrackedKeys { table: Table::new(), hasher, totals }
    }

    /// The number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Whether changes have to be noted for clients that hold copies.
    #[inline]
    pub fn wants_changes(&self) -> bool {
        !self.table.is_empty() || self.totals.notes_all()
    }

    /// Notes that a client may hold a copy of a key. `is_there` tells whether a client still wants to know.
    pub fn add(&mut self, hash: KeyHash, key: &[u8], client: u64, is_there: impl Fn(u64) -> bool) {
        let hasher = self.hasher;
        let (tracked, is_new) = self.table.get_or_insert_with(
            hash.0,
            |tracked| *tracked.key == *key,
            || Box::new(Tracked { key: key.into(), holders: Holders::One(client) }),
            move |tracked| hasher.hash(&tracked.key).0,
        );
        if is_new {
            self.totals.keys.fetch_add(1, Ordering::Relaxed);
            self.totals.holders.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let before = tracked.holders.count();
        tracked.holders.add(client, is_there);
        let after = tracked.holders.count();
        // The sum wraps where holders have gone.
        self.totals.holders.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Removes a key and returns the clients that may hold a copy of it.
    pub fn take(&mut self, hash: KeyHash, key: &[u8]) -> Option<Holders> {
        let hasher = self.hasher;
        let tracked = self.table.remove(
            hash.0,
            |tracked| *tracked.key == *key,
            move |tracked| hasher.hash(&tracked.key).0,
        )?;
        self.totals.keys.fetch_sub(1, Ordering::Relaxed);
        self.totals.holders.fetch_sub(tracked.holders.count(), Ordering::Relaxed);
        Some(tracked.holders)
    }

    /// Forgets a key picked at random, but not `except`. None if there is no other, and in rare cases though
    /// there is. `random` returns uniform 64-bit numbers.
    pub fn take_random(
        &mut self,
        except: Option<&[u8]>,
        mut random: impl FnMut() -> u64,
    ) -> Option<(Box<[u8]>, Holders)> {
        const TRIES: usize = 8;
        if self.len() <= usize::from(except.is_some()) {
            return None;
        }
        for _ in 0..TRIES {
            let key = self.table.random(&mut random)?.key.clone();
            if except != Some(&*key) {
                let holders = self.take(self.hasher.hash(&key), &key)?;
                return Some((key, holders));
            }
        }
        None
    }

    /// Forgets all keys.
    pub fn clear(&mut self) {
        let table = std::mem::take(&mut self.table);
        let holders = table.iter().map(|tracked| tracked.holders.count()).sum();
        self.totals.keys.fetch_sub(table.len(), Ordering::Relaxed);
        self.totals.holders.fetch_sub(holders, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Keyspace;

    fn tracked() -> (TrackedKeys, KeyHasher, Arc<TrackedTotals>) {
        let hasher = Keyspace::new(1, 2).hasher();
        let totals = Arc::<TrackedTotals>::default();
        (TrackedKeys::new(hasher, Arc::clone(&totals)), hasher, totals)
    }

    #[test]
    fn totals_follow_what_is_there() {
        let (mut tracked, hasher, totals) = tracked();
        for number in 0..1000_u64 {
            let key = format!("key {}", number % 100).into_bytes();
            tracked.add(hasher.hash(&key), &key, number % 7, |_| true);
        }
        assert_eq!((totals.keys(), totals.holders()), (100, 700));
        assert_eq!(tracked.take(hasher.hash(b"key 3"), b"key 3").map(|holders| holders.count()), Some(7));
        assert!(tracked.take(hasher.hash(b"key 3"), b"key 3").is_none());
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            state ^ (state >> 29)
        };
        for _ in 0..50 {
            let (key, _) = tracked.take_random(Some(b"key 5"), &mut random).expect("others are there");
            assert_ne!(&*key, b"key 5");
        }
        assert_eq!((totals.keys(), totals.holders(), tracked.len()), (49, 343, 49));
        tracked.clear();
        assert_eq!((totals.keys(), totals.holders(), tracked.is_empty()), (0, 0, true));
        assert!(tracked.take_random(None, random).is_none());
    }

    #[test]
    fn those_who_are_gone_do_not_pile_up() {
        let (mut tracked, hasher, totals) = tracked();
        for client in 0..100_000_u64 {
            tracked.add(hasher.hash(b"k"), b"k", client, |other| other + 10 > client);
        }
        assert!(totals.holders() <= 2 * PRUNED_LEN_MIN, "{}", totals.holders());
    }
}
