//! The time series of a database by their labels.
//!
//! For each label and value the set of keys, in their order. A series that has no labels is not here. Adding
//! and removing one is O(labels log series); memory is a key for each label.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::Entry;

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
        for (name, value) in labels {
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
    pub fn keys(&self, name: &[u8], value: &[u8]) -> impl Iterator<Item = &[u8]> {
        let keys = self.0.get(name).and_then(|values| values.get(value));
        keys.into_iter().flatten().map(AsRef::as_ref)
    }

    /// The keys of all series. One that has several labels comes several times.
    pub fn all_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.0.values().flat_map(|values| values.values()).flatten().map(AsRef::as_ref)
    }

    /// Whether there is no series.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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
        assert_eq!(index.keys(b"a", b"1").collect::<Vec<_>>(), [&b"one"[..], b"other"]);
        assert_eq!(index.keys(b"a", b"3").collect::<Vec<_>>(), [&b"other"[..]]);
        assert_eq!((index.count(b"b", b"2"), index.count(b"b", b"1")), (1, 0));
        index.remove(&one);
        assert_eq!((index.count(b"b", b"2"), index.count(b"a", b"1")), (0, 1));
        index.remove(&other);
        assert!(index.is_empty());
    }
}
