//! Key sizes: a walk over all keys in the background finds how their sizes are distributed (INFO keysizes)
//! and which are the biggest.
//!
//! The walk looks at a few thousand keys a second of each shard in turn, for at most [`STEP_TIME`] ten times
//! a second. It pauses if nothing has changed since its last beginning. Shown are the findings of the last
//! whole walk, or of the present one if there is none. A keyspace of up to [`SMALL_KEYS`] keys is walked at
//! once when it is asked for, so that its figures are of now.
//!
//! A collection of more than [`MEASURED_ELEMENTS_MAX`] elements is ranked by their number; its bytes are
//! summed up when it is shown.

use mantissa_sys::clock;
use std::collections::BTreeMap;
use std::time::Duration;

use mantissa_commands::memory_usage;
use mantissa_store::{Entry, Keyspace, Kind, Shard, ShardSet};
use parking_lot::Mutex;

/// How long one step may take.
const STEP_TIME: Duration = Duration::from_micros(300);
/// Entries that are looked at while a shard is locked.
const LOCKED_ENTRIES: usize = 256;
/// The most keys for which figures are made when they are asked for.
pub const SMALL_KEYS: usize = 10_000;
/// Elements up to which a value is measured in the walk.
const MEASURED_ELEMENTS_MAX: usize = 1_000;
/// What an element of a larger value is taken to need, in bytes.
const ELEMENT_BYTES: usize = 32;
/// The biggest keys that are known.
const BIGGEST_MAX: usize = 100;

/// A key with its size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BigKey {
    /// Bytes of memory; where it has many elements, an estimate that is low.
    pub bytes: usize,
    /// Its database.
    pub database: usize,
    /// The key.
    pub key: Box<[u8]>,
}

/// How many values of one type have how many elements, or bytes for strings: by powers of two, the first
/// for none.
pub type Distribution = [u64; 65];

/// What a walk finds.
#[derive(Clone, Default)]
pub struct Findings {
    /// By database and type.
    pub sizes: BTreeMap<(usize, Kind), Box<Distribution>>,
    /// The biggest, in ascending order.
    biggest: Vec<BigKey>,
}

/// Bytes that a key takes with its value: as MEMORY USAGE reports them, or an estimate where elements are
/// many.
pub fn bytes_of(entry: &Entry) -> usize {
    match entry.free_effort() {
        0..=MEASURED_ELEMENTS_MAX => memory_usage(entry),
        elements => elements * ELEMENT_BYTES,
    }
}

impl Findings {
    /// Counts an entry.
    pub fn note(&mut self, database: usize, entry: &Entry) {
        self.note_size(database, entry);
        self.note_bytes(database, entry);
    }

    /// Counts an entry by the size of its value alone.
    pub fn note_size(&mut self, database: usize, entry: &Entry) {
        let kind = entry.kind();
        if kind.row().sizes.is_some() {
            // Nothing is read from disk for this: collections there are left out.
            if let Some(size) = entry.element_count() {
                let distribution = self.sizes.entry((database, kind)).or_insert_with(|| Box::new([0; 65]));
                distribution[(u64::BITS - size.leading_zeros()) as usize] += 1;
            }
        }
    }

    /// Counts an entry among the biggest, if it is one of them.
    fn note_bytes(&mut self, database: usize, entry: &Entry) {
        let bytes = bytes_of(entry);
        let smallest = self.biggest.first().map_or(0, |smallest| smallest.bytes);
        if self.biggest.len() < BIGGEST_MAX || bytes > smallest {
            let found = BigKey { bytes, database, key: entry.key().into() };
            let is_same = |other: &BigKey| other.database == database && other.key == found.key;
            self.biggest.retain(|other| !is_same(other));
            let at = self.biggest.partition_point(|other| *other < found);
            self.biggest.insert(at, found);
            if self.biggest.len() > BIGGEST_MAX {
                self.biggest.remove(0);
            }
        }
    }
}

impl Findings {
    /// The biggest keys, the biggest first.
    pub fn into_biggest(self) -> Vec<BigKey> {
        self.biggest.into_iter().rev().collect()
    }
}

/// The findings of the walks, shared by all threads.
#[derive(Default)]
pub struct KeySizes {
    last: Mutex<Option<Findings>>,
    present: Mutex<Findings>,
}

impl KeySizes {
    /// The distribution of sizes.
    pub fn sizes(&self) -> BTreeMap<(usize, Kind), Box<Distribution>> {
        let last = self.last.lock().as_ref().map(|findings| findings.sizes.clone());
        last.unwrap_or_else(|| self.present.lock().sizes.clone())
    }

    /// The biggest keys of the last walk and of the present one, the biggest first. Some may be gone.
    pub fn biggest(&self) -> Vec<BigKey> {
        let mut keys = self.present.lock().biggest.clone();
        keys.extend(self.last.lock().iter().flat_map(|findings| findings.biggest.iter().cloned()));
        // The present walk's figure of a key is the newer one.
        let mut seen = std::collections::HashSet::new();
        keys.retain(|found| seen.insert((found.database, found.key.clone())));
        keys.sort_by(|one, other| other.cmp(one));
        keys
    }
}

/// Where the walk is.
#[derive(Default)]
pub struct Walker {
    shard: usize,
    database: usize,
    cursor: u64,
    /// The number of changes when the walk began, and when the one before it did.
    began_at: Option<u64>,
    complete_at: Option<u64>,
}

impl Walker {
    /// Walks on for at most [`STEP_TIME`]. `changes` is the number of changes of the keyspace so far.
    pub fn step(&mut self, keyspace: &Keyspace, key_sizes: &KeySizes, changes: u64) {
        if self.began_at.is_none() {
            if self.complete_at == Some(changes) {
                return;
            }
            self.began_at = Some(changes);
        }
        let deadline = clock::now() + STEP_TIME;
        let mut present = key_sizes.present.lock();
        while self.shard < keyspace.shard_count() {
            let Ok(mut locked) = keyspace.try_lock(ShardSet::one(self.shard)) else { return };
            let Some(shard) = locked.shard_mut(self.shard) else { return };
            self.walk(shard, &mut present);
            drop(locked);
            if clock::now() >= deadline {
                return;
            }
        }
        *key_sizes.last.lock() = Some(std::mem::take(&mut present));
        *self = Walker { complete_at: self.began_at, ..Walker::default() };
    }

    /// Looks at some entries of a shard.
    fn walk(&mut self, shard: &Shard, findings: &mut Findings) {
        let mut left = LOCKED_ENTRIES;
        while let Some(database) = shard.databases.get(self.database) {
            let number = self.database;
            self.cursor = database.scan(self.cursor, |entry| {
                left = left.saturating_sub(1);
                findings.note(number, entry);
            });
            self.database += usize::from(self.cursor == 0);
            if left == 0 {
                return;
            }
        }
        (self.shard, self.database) = (self.shard + 1, 0);
    }
}
