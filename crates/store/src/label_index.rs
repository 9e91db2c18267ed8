//! The time series of a database by their labels.
//!
//! For each label and value the set of keys, in their order. A series that has no labels is not here. Adding
//! and removing one is O(labels log series); memory is a key for each label.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::Series;

type Keys = BTreeSet<Arc<[u8]>>;
type Map<T> = HashMap<Box<[u8]>, T, foldhash::fast::RandomState>;

/// The keys of the series that have labels.
#[derive(Default)]
pub struct LabelIndex(Map<Map<Keys>>);

impl LabelIndex {
    /// Adds a series.
    pub(crate) fn add(&mut self, key: &[u8], series: &Series) {
        let key: Arc<[u8]> = key.into();
        for (name, value) in &series.options().labels {
            if !self.0.contains_key(&**name) {
                self.0.insert(name.clone(), Map::default());
            }
            let Some(values) = self.0.get_mut(&**name) else { continue };
            match values.get_mut(&**value) {
                Some(keys) => drop(keys.insert(Arc::clone(&key))),
                None => drop(values.insert(value.clone(), Keys::from([Arc::clone(&key)]))),
            }
        }
    }

    /// Removes a series, which has the labels with which it was added.
    pub(crate) fn remove(&mut self, key: &[u8], series: &Series) {
        for (name, value) in &series.options().labels {
            let Some(values) = self.0.get_mut(&**name) else { continue };
            let Some(keys) = values.get_mut(&**value) else { continue };
            keys.remove(key);
            if keys.is_empty() {
                values.remove(&**value);
            }
            if values.is_empty() {
                self.0.remove(&**name);
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
    use crate::series::Options;

    #[test]
    fn a_series_is_found_by_all_its_labels_and_by_none_when_it_is_gone() {
        let series = |labels: &[(&str, &str)]| {
            let label = |(name, value): &(&str, &str)| (name.as_bytes().into(), value.as_bytes().into());
            Series::new(Options { labels: labels.iter().map(label).collect(), ..Options::default() })
        };
        let (one, other) = (series(&[("a", "1"), ("b", "2")]), series(&[("a", "1"), ("a", "3")]));
        let mut index = LabelIndex::default();
        index.add(b"one", &one);
        index.add(b"other", &other);
        assert_eq!(index.keys(b"a", b"1").collect::<Vec<_>>(), [&b"one"[..], b"other"]);
        assert_eq!(index.keys(b"a", b"3").collect::<Vec<_>>(), [&b"other"[..]]);
        assert_eq!((index.count(b"b", b"2"), index.count(b"b", b"1")), (1, 0));
        index.remove(b"one", &one);
        assert_eq!((index.count(b"b", b"2"), index.count(b"a", b"1")), (0, 1));
        index.remove(b"other", &other);
        assert!(index.is_empty());
    }
}
