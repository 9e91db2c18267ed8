//! Finding series by their labels.

use std::collections::BTreeSet;
use std::sync::Arc;

use mantissa_store::cold::Cold;
use mantissa_store::{Entry, LabelShards, Series, ValueType};
use smallvec::SmallVec;

use crate::access::Access;
use crate::error::{Error, Outcome};

const NOT_PARSED: Error = Error::fixed("ERR TSDB: failed parsing labels");

/// What is asked of one label: `name=value`, `name!=value`, `name=(a,b)`, `name!=(a,b)`, `name=`, `name!=`.
struct Matcher<'a> {
    name: &'a [u8],
    is_negated: bool,
    /// None asks whether the label is there.
    values: Option<Vec<&'a [u8]>>,
}

impl<'a> Matcher<'a> {
    fn parse(word: &'a [u8]) -> Outcome<Self> {
        let at = word.iter().position(|&byte| byte == b'=').ok_or(NOT_PARSED)?;
        let is_negated = at > 0 && word[at - 1] == b'!';
        let is_list = word.get(at + 1) == Some(&b'(');
        // The name and the value are what is before and after signs; the module passes over more of these.
        let is_sign = |byte: &u8| *byte == b'=' || is_negated && *byte == b'!';
        let mut parts = word.split(is_sign).filter(|part| !part.is_empty());
        let name = parts.next().unwrap_or_default();
        let value = parts.next();
        let values = match value {
            None => None,
            Some(value) if is_list => Some(list(value)?),
            Some(value) => Some(vec![value]),
        };
        Ok(Matcher { name, is_negated, values })
    }

    /// Whether it names the values of which the label has to have one.
    fn is_positive(&self) -> bool {
        !self.is_negated && self.values.is_some()
    }

    /// The values that it names.
    fn values(&self) -> &[&'a [u8]] {
        self.values.as_deref().unwrap_or_default()
    }

    fn admits<'l>(&self, labels: impl Iterator<Item = (&'l [u8], &'l [u8])>) -> bool {
        let mut of_name = labels.filter(|(name, _)| *name == self.name);
        match &self.values {
            None => of_name.next().is_some() == self.is_negated,
            Some(values) => of_name.any(|(_, value)| values.contains(&value)) != self.is_negated,
        }
    }
}

/// The values between parentheses.
fn list(text: &[u8]) -> Outcome<Vec<&[u8]>> {
    let inner = text.strip_prefix(b"(").and_then(|text| text.strip_suffix(b")")).ok_or(NOT_PARSED)?;
    if inner.is_empty() {
        return Ok(Vec::new());
    }
    let values: Vec<&[u8]> = inner.split(|&byte| byte == b',').collect();
    if values.iter().any(|value| value.is_empty()) { Err(NOT_PARSED) } else { Ok(values) }
}

/// What is asked of the labels of series.
pub(super) struct Filter<'a>(Vec<Matcher<'a>>);

impl<'a> Filter<'a> {
    /// That of these words.
    pub(super) fn parse(words: impl Iterator<Item = &'a [u8]>) -> Outcome<Self> {
        let matchers: Vec<Matcher<'a>> = words.map(Matcher::parse).collect::<Outcome<_>>()?;
        if !matchers.iter().any(Matcher::is_positive) {
            return Err(Error::fixed("ERR TSDB: please provide at least one matcher"));
        }
        Ok(Filter(matchers))
    }

    /// What `look` says of the series that it admits, in the order of their keys. Shards are visited one at a
    /// time, and nothing is read from disk.
    fn visit<R>(&self, access: &mut Access<'_>, mut look: impl FnMut(&Entry) -> R) -> Vec<(Arc<[u8]>, R)> {
        let (database, now_ms) = (access.database(), access.now_ms());
        let keyspace = access.keyspace();
        let mut found: Vec<(Arc<[u8]>, R)> = Vec::new();
        let positive: SmallVec<[&Matcher<'a>; 4]> =
            self.0.iter().filter(|matcher| matcher.is_positive()).collect();
        let with = |matcher: &&Matcher<'a>| LabelShards::of(matcher.name, matcher.values());
        let shards = positive.iter().map(with).fold(LabelShards::ALL, LabelShards::and);
        let shard_count = access.shard_count();
        for index in (0..shard_count).filter(|&index| shards.contains(index, shard_count)) {
            access.visit_shard(index, |shard| {
                let database = &shard.databases[database];
                let labels = database.labels();
                let count = |matcher: &&&Matcher<'a>| -> usize {
                    matcher.values().iter().map(|value| labels.count(matcher.name, value)).sum()
                };
                let rarest = match positive.as_slice() {
                    [only] => Some(only),
                    several => several.iter().min_by_key(count),
                };
                let Some(rarest) = rarest else { return };
                for key in rarest.values().iter().flat_map(|value| labels.keys(rarest.name, value)) {
                    let entry = database.get(keyspace.hash(key), key);
                    let entry = entry.filter(|entry| !entry.has_expired(now_ms));
                    if let Some(entry) = entry
                        && self.0.iter().all(|matcher| matcher.admits(entry.series_labels()))
                    {
                        found.push((Arc::clone(key), look(entry)));
                    }
                }
            });
        }
        found.sort_by(|one, other| one.0.cmp(&other.0));
        found.dedup_by(|one, other| one.0 == other.0);
        found
    }

    /// Where the series are that it admits, in the order of their keys.
    pub(super) fn places(&self, access: &mut Access<'_>) -> Vec<(Arc<[u8]>, Place)> {
        self.visit(access, Place::of)
    }

    /// The keys of the series that it admits, in their order.
    pub(super) fn keys(&self, access: &mut Access<'_>) -> Vec<Arc<[u8]>> {
        self.visit(access, |_| ()).into_iter().map(|(key, ())| key).collect()
    }

    /// The same. `note` sees the name and value of each of their labels.
    pub(super) fn labels(
        &self,
        access: &mut Access<'_>,
        mut note: impl FnMut(&[u8], &[u8]),
    ) -> Vec<Arc<[u8]>> {
        let look = |entry: &Entry| entry.series_labels().for_each(|(name, value)| note(name, value));
        self.visit(access, look).into_iter().map(|(key, ())| key).collect()
    }
}

/// Where a series was found.
pub(super) enum Place {
    InMemory(Series),
    /// Its record, and the key of the series whose buckets it has.
    OnDisk(Cold, Option<Box<[u8]>>),
}

impl Place {
    /// That of an entry, which is not to be anything else than a series.
    pub(super) fn of(entry: &Entry) -> Place {
        match entry.cold_only() {
            Some(cold) => Place::OnDisk(cold, entry.series_source().map(Box::from)),
            None => Place::InMemory(Series::of(entry.value()).cloned().unwrap_or_default()),
        }
    }

    /// The key of the series whose buckets it has.
    pub(super) fn source(&self) -> Option<&[u8]> {
        match self {
            Place::InMemory(series) => series.source(),
            Place::OnDisk(_, source) => source.as_deref(),
        }
    }

    /// The record, if it is on disk.
    pub(super) fn cold(&self) -> Option<&Cold> {
        match self {
            Place::InMemory(_) => None,
            Place::OnDisk(cold, _) => Some(cold),
        }
    }
}

/// The keys of all series that have labels. `note` sees the name and value of each label. Shards are visited
/// one at a time.
pub(super) fn all_labels(access: &mut Access<'_>, mut note: impl FnMut(&[u8], &[u8])) -> BTreeSet<Arc<[u8]>> {
    let (database, now_ms) = (access.database(), access.now_ms());
    let keyspace = access.keyspace();
    let mut found: BTreeSet<Arc<[u8]>> = BTreeSet::new();
    for index in 0..access.shard_count() {
        access.visit_shard(index, |shard| {
            let database = &shard.databases[database];
            for key in database.labels().all_keys() {
                let entry = database.get(keyspace.hash(key), key);
                let entry = entry.filter(|entry| !entry.has_expired(now_ms));
                if let Some(entry) = entry.filter(|_| !found.contains(key)) {
                    found.insert(Arc::clone(key));
                    entry.series_labels().for_each(|(name, value)| note(name, value));
                }
            }
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matchers_admit_what_they_ask_for() {
        let labels: [(&[u8], &[u8]); 2] = [(b"x", b"1"), (b"y", b"2")];
        let all = [
            ("x=1", true),
            ("x=2", false),
            ("x!=1", false),
            ("x!=2", true),
            ("z!=2", true),
            ("x=", false),
            ("z=", true),
            ("x!=", true),
            ("z!=", false),
            ("x=(1,2)", true),
            ("x=(3)", false),
            ("x=()", false),
            ("x!=(1,2)", false),
            ("x!=(3,2)", true),
            ("z!=(1)", true),
            ("x==1", true),
        ];
        for (text, admits) in all {
            let matcher = Matcher::parse(text.as_bytes()).expect(text);
            assert_eq!(matcher.admits(labels.into_iter()), admits, "{text}");
        }
        for text in ["x", "", "x=(1", "x=(1,,2)", "x=(,1)", "x=(1)2"] {
            assert!(Matcher::parse(text.as_bytes()).is_err(), "{text}");
        }
        let parse = |text: &'static str| Filter::parse(text.split(' ').map(str::as_bytes)).is_ok();
        assert!(parse("x=1 y!=") && !parse("x!=1") && !parse("x=") && !parse("=1"));
    }
}
