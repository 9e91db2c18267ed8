//! The time series of a database by their labels.
//!
//! For each label and value the set of keys, in their order. A series that has no labels is not here. Adding
//! and removing one is O(labels log series); memory is a key for each label. [`LabelShards`] tells in which
//! shards there may be series with some labels.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use mantissa_sys::simulation;

use crate::Entry;
use crate::key_hash::KeyHasher;
use crate::murmur::murmur_64a;

type Keys = BTreeSet<Arc<[u8]>>;
type Map<T> = HashMap<Box<[u8]>, T, foldhash::fast::RandomState>;

/// The keys of the series that have labels.
#[derive(Default)]
pub struct LabelIndex(Map<Map<Keys>>);

impl LabelIndex {
    /// Adds an entry, if it is a series that has labels.
    #[inline]
    pub(crate) fn add(&mut self, entry: &Entry) {
        if entry.may_have_labels() {
            self.add_series(entry);
        }
    }

    fn add_series(&mut self, entry: &Entry) {
        let mut labels = entry.series_labels().peekable();
        if labels.peek().is_none() {
            return;
        }
        let key: Arc<[u8]> = entry.key().into();
        let group = 1 << (KeyHasher::of_this_run().hash(&key).0 >> (64 - GROUPS.ilog2()));
        for (name, value) in labels {
            SEEN[slot(name, value)].fetch_or(group, Ordering::Relaxed);
            if !self.0.contains_key(name) {
                self.0.insert(name.into(), Map::default());
            }
            let Some(values) = self.0.get_mut(name) else { continue };
            match values.get_mut(value) {
                Some(keys) => drop(keys.insert(Arc::clone(&key))),
                None => drop(values.insert(value.into(), Keys::from([Arc::clone(&key)]))),
            }
        }
    }

    /// Removes an entry, which has the labels with which it was added.
    #[inline]
    pub(crate) fn remove(&mut self, entry: &Entry) {
        if entry.may_have_labels() {
            self.remove_series(entry);
        }
    }

    fn remove_series(&mut self, entry: &Entry) {
        for (name, value) in entry.series_labels() {
            let Some(values) = self.0.get_mut(name) else { continue };
            let Some(keys) = values.get_mut(value) else { continue };
            keys.remove(entry.key());
            if keys.is_empty() {
                values.remove(value);
            }
            if values.is_empty() {
                self.0.remove(name);
            }
        }
    }

    /// The number of series that have a label with this value.
    pub fn count(&self, name: &[u8], value: &[u8]) -> usize {
        self.0.get(name).and_then(|values| values.get(value)).map_or(0, BTreeSet::len)
    }

    /// Their keys, in order.
    pub fn keys(&self, name: &[u8], value: &[u8]) -> impl Iterator<Item = &Arc<[u8]>> {
        self.0.get(name).and_then(|values| values.get(value)).into_iter().flatten()
    }

    /// The keys of all series. One that has several labels comes several times.
    pub fn all_keys(&self) -> impl Iterator<Item = &Arc<[u8]>> {
        self.0.values().flat_map(|values| values.values()).flatten()
    }

    /// Whether there is no series.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Groups of shards, by the first bits of the hashes of keys: one for each bit of a number.
const GROUPS: u32 = u64::BITS;
/// Labels with their values are told apart by a hash below this.
const SLOTS: usize = 1 << 14;

/// The groups in which series with a label were ever seen, in any keyspace. They are set with the shard
/// locked.
static SEEN: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];

fn slot(name: &[u8], value: &[u8]) -> usize {
    murmur_64a(value, murmur_64a(name, 0)) as usize % SLOTS
}

/// Shards in which series with certain labels may be: the others need not be locked to look for some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelShards(u64);

impl LabelShards {
    /// Every shard.
    pub const ALL: LabelShards = LabelShards(u64::MAX);

    /// Those of series for which a label has one of these values.
    pub fn of(name: &[u8], values: &[&[u8]]) -> Self {
        // A simulation does not depend on what was in the process before.
        if simulation::is_active() {
            return Self::ALL;
        }
        let seen = |value: &&[u8]| SEEN[slot(name, value)].load(Ordering::Relaxed);
        LabelShards(values.iter().map(seen).fold(0, |groups, seen| groups | seen))
    }

    /// Those that are in both.
    pub fn and(self, other: Self) -> Self {
        LabelShards(self.0 & other.0)
    }

    /// Whether a shard is among them; their number is a power of two.
    pub fn contains(self, shard: usize, shard_count: usize) -> bool {
        let groups = GROUPS as usize;
        if shard_count >= groups {
            return self.0 >> (shard / (shard_count / groups)) & 1 == 1;
        }
        let of_one = groups / shard_count;
        self.0 >> (shard * of_one) & (u64::MAX >> (groups - of_one)) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::{Options, Series};
    use crate::value::Value;

    #[test]
    fn a_series_is_found_by_all_its_labels_and_by_none_when_it_is_gone() {
        let series = |key: &[u8], labels: &[(&str, &str)]| {
            let label = |(name, value): &(&str, &str)| (name.as_bytes().into(), value.as_bytes().into());
            let labels = labels.iter().map(label).collect();
            let series = Series::new(Options { labels, ..Options::default() });
            Entry::new(key, Value::Series(series), None, 0)
        };
        let (one, other) =
            (series(b"one", &[("a", "1"), ("b", "2")]), series(b"other", &[("a", "1"), ("a", "3")]));
        let mut index = LabelIndex::default();
        index.add(&one);
        index.add(&other);
        let keys = |name, value| index.keys(name, value).map(AsRef::as_ref).collect::<Vec<_>>();
        assert_eq!(keys(b"a", b"1"), [&b"one"[..], b"other"]);
        assert_eq!(keys(b"a", b"3"), [&b"other"[..]]);
        assert_eq!((index.count(b"b", b"2"), index.count(b"b", b"1")), (1, 0));
        index.remove(&one);
        assert_eq!((index.count(b"b", b"2"), index.count(b"a", b"1")), (0, 1));
        index.remove(&other);
        assert!(index.is_empty());
    }

    #[test]
    fn shards_with_a_label_are_among_those_in_which_it_was_seen() {
        let mut index = LabelIndex::default();
        let mut keys = Vec::new();
        for number in 0..3u8 {
            let key = [b"shards of labels", &[number][..]].concat();
            let labels = [(b"only here".as_slice().into(), [number].as_slice().into())];
            let series = Series::new(Options { labels: labels.into(), ..Options::default() });
            index.add(&Entry::new(&key, Value::Series(series), None, 0));
            keys.push(key);
        }
        for shard_count in [2, 16, 64, 128, 1024] {
            let keyspace = crate::Keyspace::new(1, shard_count);
            for (number, key) in (0..).zip(&keys) {
                let shards = LabelShards::of(b"only here", &[&[number]]);
                let home = keyspace.shard_of(keyspace.hash(key));
                assert!(shards.contains(home, shard_count));
                assert!(LabelShards::of(b"only here", &[&[0], &[1], &[2]]).contains(home, shard_count));
                assert!(
                    LabelShards::ALL.and(shards) == shards && LabelShards::ALL.contains(home, shard_count)
                );
                let count = (0..shard_count).filter(|&shard| shards.contains(shard, shard_count)).count();
                assert!(count <= (shard_count / 64).max(1) * 3, "{count} of {shard_count}");
            }
            let none = LabelShards::of(b"nowhere else in these tests", &[b"x"]);
            assert!((0..shard_count).all(|shard| !none.contains(shard, shard_count)));
        }
    }
}
