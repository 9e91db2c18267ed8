//! What stays in memory of a value on disk beside its place, because indexes and clocks refer to it.
//!
//! | value | what is kept | what for |
//! | --- | --- | --- |
//! | a hash whose fields may expire | [`FieldTimes`] | the list of such hashes, whether all have expired |
//! | a time series | [`SeriesFacts`] | the index of labels, and the series that it is linked to |
//!
//! Invariant: it is that of the value in the record, for as long as the entry names the record.

use crate::Hash;
use crate::series::Series;
use crate::value::ValueRef;

/// What is kept of a value.
#[derive(Clone, Debug)]
pub enum Kept {
    /// Of a hash with fields that may expire.
    Fields(FieldTimes),
    /// Of a time series.
    Series(SeriesFacts),
}

/// When the fields of a hash expire, as Unix times in ms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldTimes {
    /// The expiry under which it is on the list of such hashes ([`Hash::tracked_expiry`]).
    pub listed: Option<i64>,
    /// When the first field expires.
    pub earliest: Option<i64>,
    /// When all of its fields have expired; `None` if some never do.
    pub all_expired_from: Option<i64>,
    /// The number of fields.
    pub len: usize,
}

/// The labels of a time series and the keys of those that it is linked to.
///
/// ```text
/// number of labels | name, value of each | number of sources, 0 or 1 | the source | destinations
/// a number, a length: a byte, or 255 and four bytes LE
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeriesFacts(Box<[u8]>);

impl Kept {
    /// What has to be kept of a value.
    pub fn of(value: ValueRef<'_>) -> Option<Kept> {
        match value {
            ValueRef::Hash(hash) => FieldTimes::of(hash).map(Kept::Fields),
            ValueRef::Series(series) => SeriesFacts::of(series).map(Kept::Series),
            _ => None,
        }
    }

    /// The length of its texts.
    pub fn text_len(&self) -> usize {
        match self {
            Kept::Fields(_) => 0,
            Kept::Series(facts) => facts.0.len(),
        }
    }

    /// About that length for what has to be kept of a value, if anything has.
    pub fn bytes_of(value: ValueRef<'_>) -> Option<usize> {
        match value {
            ValueRef::Hash(hash) => FieldTimes::of(hash).map(|_| 0),
            ValueRef::Series(series) => {
                let labels = series.options().labels.iter().flat_map(|(name, value)| [&**name, &**value]);
                let texts = labels.chain(series.linked());
                SeriesFacts::are_there(series).then(|| texts.map(|text| 1 + text.len()).sum())
            }
            _ => None,
        }
    }

    /// A hash that was read from disk does not know under which expiry it is listed: tells it.
    pub(crate) fn restore(&self, value: &mut crate::Value) {
        if let (Kept::Fields(times), crate::Value::Hash(hash)) = (self, value) {
            hash.set_tracked_expiry(times.listed);
        }
    }
}

impl FieldTimes {
    /// Those of a hash; `None` if no field expires and it is on no list.
    fn of(hash: &Hash) -> Option<FieldTimes> {
        let (listed, earliest) = (hash.tracked_expiry(), hash.earliest_expiry());
        let all_expired_from = hash.all_expired_from();
        listed.or(earliest).map(|_| FieldTimes { listed, earliest, all_expired_from, len: hash.len() })
    }

    /// The number of fields if all of them have expired, else 0.
    pub fn expired_len(&self, now_ms: i64) -> usize {
        if self.all_expired_from.is_some_and(|time| time <= now_ms) { self.len } else { 0 }
    }
}

impl SeriesFacts {
    /// Whether a series has labels or links.
    fn are_there(series: &Series) -> bool {
        !series.options().labels.is_empty() || series.has_links()
    }

    /// Those of a series; `None` if it has neither labels nor links.
    fn of(series: &Series) -> Option<SeriesFacts> {
        if !Self::are_there(series) {
            return None;
        }
        let labels = &series.options().labels;
        let mut bytes = Vec::new();
        put_number(labels.len(), &mut bytes);
        for text in labels.iter().flat_map(|(name, value)| [name, value]) {
            put_text(text, &mut bytes);
        }
        put_number(usize::from(series.source().is_some()), &mut bytes);
        series.linked().for_each(|key| put_text(key, &mut bytes));
        Some(SeriesFacts(bytes.into_boxed_slice()))
    }

    /// Names and values of the labels.
    pub fn labels(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &*self.0;
        let count = take_number(&mut rest);
        (0..count).map(move |_| (take_text(&mut rest), take_text(&mut rest)))
    }

    /// The source, if there is one, and then the destinations.
    fn links(&self) -> (Option<&[u8]>, &[u8]) {
        let mut rest = &*self.0;
        for _ in 0..2 * take_number(&mut rest) {
            take_text(&mut rest);
        }
        let has_source = take_number(&mut rest) > 0;
        let source = has_source.then(|| take_text(&mut rest));
        (source, rest)
    }

    /// The key of the series whose buckets it has.
    pub fn source(&self) -> Option<&[u8]> {
        self.links().0
    }

    /// The keys of the series that have its buckets.
    pub fn destinations(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.links().1;
        std::iter::from_fn(move || (!rest.is_empty()).then(|| take_text(&mut rest)))
    }
}

/// The first byte of a number that takes four more.
const LONG: u8 = 255;

fn put_number(number: usize, out: &mut Vec<u8>) {
    match u8::try_from(number) {
        Ok(short) if short < LONG => out.push(short),
        _ => {
            out.push(LONG);
            out.extend_from_slice(&(number as u32).to_le_bytes());
        }
    }
}

fn put_text(text: &[u8], out: &mut Vec<u8>) {
    put_number(text.len(), out);
    out.extend_from_slice(text);
}

fn take_number(rest: &mut &[u8]) -> usize {
    match rest.split_first() {
        Some((&LONG, after)) => {
            let (number, after) = after.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
            *rest = after;
            u32::from_le_bytes(*number) as usize
        }
        Some((&short, after)) => {
            *rest = after;
            usize::from(short)
        }
        None => 0,
    }
}

fn take_text<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let len = take_number(rest);
    let (text, after) = rest.split_at(len.min(rest.len()));
    *rest = after;
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cold::Segment;
    use crate::cold::tests::{Values, cold_entry};
    use crate::key_hash::KeyHasher;
    use crate::series::{Aggregation, Options, Rule};
    use crate::shard::Database;
    use crate::{EncodingLimits, Entry, Value, ValueMut};

    #[test]
    fn series_tell_their_labels_and_links_without_their_samples() {
        let long = vec![b'x'; 70_000];
        let label = |name: &[u8], value: &[u8]| (Box::from(name), Box::from(value));
        let labels = Box::new([label(b"a", b"1"), label(b"", &long), label(b"a", b"2")]);
        let mut series = Series::new(Options { labels, ..Options::default() });
        let facts = |series: &Series| SeriesFacts::of(series).expect("it has some");
        assert_eq!((facts(&series).source(), facts(&series).destinations().count()), (None, 0));
        series.add_rule(Rule::new(b"one", Aggregation::Sum, 10, 0));
        series.add_rule(Rule::new(&long, Aggregation::Sum, 10, 0));
        let kept = facts(&series);
        let expected: [(&[u8], &[u8]); 3] = [(b"a", b"1"), (b"", &long), (b"a", b"2")];
        assert_eq!(kept.labels().collect::<Vec<_>>(), expected);
        assert_eq!(
            (kept.source(), kept.destinations().collect::<Vec<_>>()),
            (None, vec![&b"one"[..], &long])
        );
        let mut destination = Series::default();
        assert_eq!(SeriesFacts::of(&destination), None);
        destination.set_source(Some(b"from"));
        let kept = facts(&destination);
        assert_eq!((kept.source(), kept.destinations().count()), (Some(&b"from"[..]), 0));
        assert_eq!(kept.labels().count(), 0);
    }

    #[test]
    fn lists_of_a_database_know_what_is_on_disk() {
        const NOW_MS: i64 = 1_000;
        let (file, hasher) = (Arc::<Values>::default(), KeyHasher::of_this_run());
        let segment = Segment::new(1, file.clone());
        let mut database = Database::new(hasher);
        let mut hash = Hash::new();
        for (field, expiry) in [(b"a", NOW_MS + 5), (b"b", NOW_MS + 9)] {
            hash.set_with_expiry(field, b"value", expiry, &EncodingLimits::default());
        }
        let label = (Box::from(*b"name"), Box::from(*b"value"));
        let series = Series::new(Options { labels: Box::new([label]), ..Options::default() });
        for (offset, key, value) in [(0, b"h", Value::Hash(hash)), (80, b"s", Value::Series(series))] {
            let entry = database.insert(hasher.hash(key), Entry::new(key, value, None, 0));
            let moved = cold_entry(&file, &segment, offset, entry.duplicate(key, None));
            entry.cool(moved.cold().expect("it is on disk"));
        }
        let due = |database: &Database, time| database.hashes_with_expired_fields(time).count();
        let labelled = |database: &Database| database.labels().keys(b"name", b"value").count();
        for renamed in [b"h", b"i"] {
            assert_eq!((due(&database, NOW_MS + 4), due(&database, NOW_MS + 5)), (0, 1));
            let entry = database.remove(hasher.hash(renamed), renamed).expect("it is there");
            assert_eq!((database.hashes_with_expiry_len(), entry.is_in_memory()), (0, false));
            assert_eq!((entry.expired_fields(NOW_MS + 8), entry.expired_fields(NOW_MS + 9)), (0, 2));
            database.insert(hasher.hash(b"i"), entry.renamed(b"i"));
        }
        assert_eq!(labelled(&database), 1);
        let entry = database.remove(hasher.hash(b"s"), b"s").expect("it is there");
        assert_eq!((labelled(&database), entry.is_in_memory()), (0, false));
        assert_eq!(entry.series_labels().collect::<Vec<_>>(), [(&b"name"[..], &b"value"[..])]);
        // A value that is changed is on the list as before.
        let hash = hasher.hash(b"i");
        if let Some(ValueMut::Hash(fields)) = database.get_mut(hash, b"i").and_then(Entry::collection_mut) {
            assert_eq!(fields.tracked_expiry(), Some(NOW_MS + 5));
            fields.remove(b"a");
        }
        database.track_fields(hash, b"i");
        assert_eq!((due(&database, NOW_MS + 8), due(&database, NOW_MS + 9)), (0, 1));
        database.remove(hash, b"i");
        assert_eq!(database.hashes_with_expiry_len(), 0);
        drop(entry);
        assert_eq!(segment.named_count(), 0);
    }
}
