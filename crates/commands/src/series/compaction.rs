//! Rules between series: making and deleting them, and carrying out what a write to a source leads to.
//!
//! The shards of the keys that a series is linked to are locked with its own
//! ([`crate::spec::Traits::FOLLOWS_LINKS`]). Of those on disk, the ones that a command changes or whose
//! samples it needs are read before it runs again; links are known without that. What a rule leads to is not
//! logged: it follows from the write to the source, on replicas as well.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use mantissa_protocol::{Args, Reply};
use mantissa_store::cold::Cold;
use mantissa_store::series::{
    Aggregation, Change, DuplicatePolicy, Rule, Sample, Series, Update, are_there_links,
};
use mantissa_store::{Entry, Kind, Value, ValueType};

use super::filter::Place;
use super::{NO_KEY, add, series_mut, time_of};
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;

/// The series at a key, without marking it as used.
fn peek<'a>(access: &'a Access<'_>, key: &[u8]) -> Option<&'a Series> {
    let entry = access.peek(key).filter(|entry| entry.kind() == Kind::Series)?;
    Series::of(entry.value())
}

/// Sees to it that series at these keys are in memory, before the command changes anything. An error ends it.
fn bring<'k>(access: &Access<'_>, keys: impl Iterator<Item = &'k [u8]>) -> Outcome {
    note(access, keys)?;
    access.leave_if_unread()
}

/// The same, where others are noted before the command ends ([`Access::leave_if_unread`]).
fn note<'k>(access: &Access<'_>, keys: impl Iterator<Item = &'k [u8]>) -> Outcome {
    for key in keys {
        if let Some(entry) = access.peek(key).filter(|entry| entry.kind() == Kind::Series) {
            access.bring(key, entry)?;
        }
    }
    Ok(())
}

/// Sees to it that those are in memory that samples, each of the series at a key, may lead to a change of.
pub(super) fn bring_touched<'k>(
    access: &Access<'_>,
    samples: impl Iterator<Item = (&'k [u8], u64)>,
) -> Outcome {
    if !are_there_links() {
        return Ok(());
    }
    for (key, time) in samples {
        if let Some(series) = peek(access, key).filter(|series| series.has_links()) {
            note(access, series.touched_by(time))?;
        }
    }
    access.leave_if_unread()
}

/// Sees to it that all are in memory that have the buckets of the series at a key.
pub(super) fn bring_destinations(access: &Access<'_>, key: &[u8]) -> Outcome {
    let destinations = access.peek(key).into_iter().flat_map(Entry::series_destinations);
    bring(access, destinations)
}

/// Sees to it that a series is in memory if it is linked to others.
pub(crate) fn bring_if_linked(access: &Access<'_>, key: &[u8]) -> Outcome {
    let linked = access.peek(key).filter(|entry| has_links(entry));
    bring(access, linked.map(|_| key).into_iter())
}

/// Sees to it that all are in memory that the series at a key is linked to.
pub fn bring_links_of(access: &Access<'_>, key: &[u8]) -> Outcome {
    let links = |entry| Entry::series_source(entry).into_iter().chain(entry.series_destinations());
    bring(access, access.peek(key).into_iter().flat_map(links))
}

/// The same for the sources of series at some keys.
pub(super) fn bring_sources<'k>(access: &Access<'_>, keys: impl Iterator<Item = &'k [u8]>) -> Outcome {
    bring(access, keys.filter_map(|key| access.peek(key)?.series_source()))
}

fn has_links(entry: &Entry) -> bool {
    entry.series_source().is_some() || entry.series_destinations().next().is_some()
}

/// Whether the series at a key has a rule for a destination.
fn has_rule(access: &Access<'_>, source: &[u8], destination: &[u8]) -> bool {
    access.peek(source).is_some_and(|entry| entry.series_destinations().any(|key| key == destination))
}

/// The source of a series at a key, if their link holds.
pub(super) fn source_of<'s>(access: &Access<'_>, key: &[u8], series: &'s Series) -> Option<&'s [u8]> {
    series.source().filter(|source| has_rule(access, source, key))
}

/// The rules of a series at a key whose links hold.
pub(super) fn rules_of<'s>(access: &Access<'_>, key: &[u8], series: &'s Series) -> Vec<&'s Rule> {
    series.rules().iter().filter(|rule| is_destination(access, &rule.destination, key)).collect()
}

/// The value so far of the bucket under way, of a series at a key that has the buckets of another.
pub(super) fn open_bucket(access: &Access<'_>, key: &[u8], series: &Series) -> Outcome<Option<Sample>> {
    let Some(source) = series.source() else { return Ok(None) };
    bring(access, std::iter::once(source))?;
    Ok(peek(access, source).and_then(|source| open_bucket_of(source, source.rule(key)?)))
}

/// The value so far of the bucket under way that a source has for one of its rules.
fn open_bucket_of(source: &Series, rule: &Rule) -> Option<Sample> {
    if source.is_empty() { None } else { rule.open() }
}

/// A series at a key; with LATEST with the value so far of the bucket under way as its latest sample.
pub(super) fn latest<'s>(
    access: &Access<'_>,
    key: &[u8],
    series: &'s Series,
    is_asked: bool,
) -> Outcome<Cow<'s, Series>> {
    let open = if is_asked { open_bucket(access, key, series)? } else { None };
    let mut latest = Cow::Borrowed(series);
    if open.is_some() {
        add_latest(latest.to_mut(), open);
    }
    Ok(latest)
}

/// The values so far of the buckets under way that a source has, each with the key of its series.
type OpenBuckets = Vec<(Box<[u8]>, Sample)>;

/// The values so far of the buckets under way of series that have the buckets of others. For commands that
/// visit shards one at a time.
pub(super) fn open_buckets(
    access: &mut Access<'_>,
    found: &[(Arc<[u8]>, Place)],
) -> Outcome<HashMap<Box<[u8]>, Sample>> {
    let (database, now_ms, keyspace) = (access.database(), access.now_ms(), access.keyspace());
    let sources: BTreeSet<&[u8]> = found.iter().filter_map(|(_, place)| place.source()).collect();
    let mut places: Vec<(&[u8], Place)> = Vec::new();
    for source in sources {
        let hash = keyspace.hash(source);
        let place = access.visit_shard(keyspace.shard_of(hash), |shard| {
            let entry = shard.databases[database].get(hash, source);
            let entry = entry.filter(|entry| entry.kind() == Kind::Series && !entry.has_expired(now_ms));
            entry.map(Place::of)
        });
        places.extend(place.map(|place| (source, place)));
    }
    let of_all = |source: &Series| -> OpenBuckets {
        let open = |rule: &Rule| Some((rule.destination.clone(), open_bucket_of(source, rule)?));
        source.rules().iter().filter_map(open).collect()
    };
    let on_disk = places.iter().filter_map(|(source, place)| Some((*source, place.cold()?))).collect();
    let take = move |_: &Cold, value| {
        let buckets = Series::of(Value::borrow(&value)).map(of_all).unwrap_or_default();
        let bytes = buckets.iter().map(|(key, _)| key.len() + size_of::<(Box<[u8]>, Sample)>()).sum();
        Ok((buckets, bytes))
    };
    let read = access.taken_of(on_disk, take)?;
    let mut read = read.into_iter();
    let mut open: HashMap<(&[u8], Box<[u8]>), Sample> = HashMap::new();
    for (source, place) in &places {
        let buckets = match place {
            Place::InMemory(series) => of_all(series),
            Place::OnDisk(..) => read.next().map(|buckets| (*buckets).clone()).unwrap_or_default(),
        };
        open.extend(buckets.into_iter().map(|(key, sample)| ((*source, key), sample)));
    }
    let of = |(key, place): &(Arc<[u8]>, Place)| {
        let key: Box<[u8]> = (**key).into();
        let sample = *open.get(&(place.source()?, key.clone()))?;
        Some((key, sample))
    };
    Ok(found.iter().filter_map(of).collect())
}

/// Gives a series the value so far of the bucket under way as its latest sample, if there is one.
pub(super) fn add_latest(series: &mut Series, open: Option<Sample>) {
    let Some(open) = open else { return };
    let last = series.last().map_or(0, |last| last.time);
    if series.options().retention_ms > 0 {
        // It does not make others too old.
        let retention_ms = &mut series.options_mut().retention_ms;
        *retention_ms = retention_ms.saturating_add(open.time.saturating_sub(last));
    }
    // One that is too old is not shown either.
    let _ = series.add(open, DuplicatePolicy::Last);
}

fn is_destination(access: &Access<'_>, key: &[u8], source: &[u8]) -> bool {
    access.peek(key).and_then(Entry::series_source) == Some(source)
}

/// Has a series at a key forget the links that do not hold.
pub(super) fn forget_lost(access: &mut Access<'_>, key: &[u8]) {
    let Some(series) = peek(access, key).filter(|series| series.has_links()) else { return };
    let has_lost_source = series.source().is_some() && source_of(access, key, series).is_none();
    let is_lost = |rule: &&Rule| !is_destination(access, &rule.destination, key);
    let lost: Vec<Box<[u8]>> =
        series.rules().iter().filter(is_lost).map(|rule| rule.destination.clone()).collect();
    if !has_lost_source && lost.is_empty() {
        return;
    }
    let Ok(series) = series_mut(access, key) else { return };
    if has_lost_source {
        series.set_source(None);
    }
    series.retain_rules(|destination| !lost.iter().any(|lost| **lost == *destination));
}

/// Carries out what a write to a source leads to.
pub(super) fn carry_out(access: &mut Access<'_>, changes: Vec<Change>) {
    for Change { destination, update } in changes {
        let Ok(series) = series_mut(access, &destination) else { continue };
        // A destination may refuse a sample, because it keeps none of that age.
        match update {
            Update::Close(sample) => {
                drop(add::add_to(series, sample, DuplicatePolicy::Last, &mut Vec::new()))
            }
            Update::Replace(sample) => _ = series.add(sample, DuplicatePolicy::Last),
            Update::Remove(from, to) => _ = series.remove(from, to),
        }
        access.changed_by(&destination, 0);
        access.signal(&destination);
        if matches!(update, Update::Close(_)) {
            access.event(EventClass::MODULE, "ts.add:dest", &destination);
        }
    }
}

pub(super) fn create_rule(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    const COMMAND: &str = "ts.createrule";
    const NOT_PARSED: &str = "ERR TSDB: Couldn't parse AGGREGATION";
    if !(6..=7).contains(&args.len()) {
        return Err(Error::arity(COMMAND));
    }
    let place = super::place_of(args, "AGGREGATION").ok_or(Error::arity(COMMAND))?;
    let (Some(name), Some(duration)) = (args.get(place + 1), args.get(place + 2)) else {
        return Err(Error::fixed(NOT_PARSED));
    };
    let duration = parse::integer_or(duration, NOT_PARSED)?;
    let aggregation = Aggregation::of_name(name).ok_or(Error::fixed("ERR TSDB: Unknown aggregation type"))?;
    if duration <= 0 {
        return Err(Error::fixed("ERR TSDB: bucketDuration must be greater than zero"));
    }
    let align = match args.get(6) {
        Some(word) => time_of(word).ok_or(Error::fixed("ERR TSDB: Couldn't parse alignTimestamp"))?,
        None => 0,
    };
    let (source, destination) = (args.at(1), args.at(2));
    if source == destination {
        return Err(Error::fixed("ERR TSDB: the source key and destination key should be different"));
    }
    bring(access, [source, destination].into_iter())?;
    forget_lost(access, source);
    if series_mut(access, source)?.source().is_some() {
        return Err(Error::fixed("ERR TSDB: the source key already has a source rule"));
    }
    forget_lost(access, destination);
    let series = series_mut(access, destination)?;
    if series.source().is_some() {
        return Err(Error::fixed("ERR TSDB: the destination key already has a src rule"));
    }
    if !series.rules().is_empty() {
        return Err(Error::fixed("ERR TSDB: the destination key already has a dst rule"));
    }
    series.set_source(Some(source));
    series_mut(access, source)?.add_rule(Rule::new(destination, aggregation, duration, align));
    reply.ok();
    access.modified(source, EventClass::MODULE, "ts.createrule:src");
    access.changed_by(destination, 0);
    access.event(EventClass::MODULE, "ts.createrule:dest", destination);
    Ok(())
}

pub(super) fn delete_rule(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 3 {
        return Err(Error::arity("ts.deleterule"));
    }
    let (source, destination) = (args.at(1), args.at(2));
    bring(access, [source, destination].into_iter())?;
    forget_lost(access, source);
    let series = series_mut(access, source)?;
    if series.rule(destination).is_none() {
        return Err(Error::fixed("ERR TSDB: compaction rule does not exist"));
    }
    series.retain_rules(|other| other != destination);
    series_mut(access, destination).map_err(|_| NO_KEY)?.set_source(None);
    reply.ok();
    access.modified(source, EventClass::MODULE, "ts.deleterule:src");
    access.changed_by(destination, 0);
    access.event(EventClass::MODULE, "ts.deleterule:dest", destination);
    Ok(())
}

/// Has a copied or moved series forget its links.
pub(crate) fn unlink(access: &mut Access<'_>, key: &[u8]) {
    if access.peek(key).is_some_and(has_links)
        && let Ok(series) = series_mut(access, key)
    {
        series.unlink();
    }
}

/// Tells the series that a renamed one is linked to of its new key.
pub(crate) fn renamed(access: &mut Access<'_>, old: &[u8], new: &[u8]) {
    let Some(entry) = access.peek(new) else { return };
    let source: Option<Box<[u8]>> = entry.series_source().map(Box::from);
    let destinations: Vec<Box<[u8]>> = entry.series_destinations().map(Box::from).collect();
    if let Some(source) = source.filter(|source| has_rule(access, source, old))
        && let Ok(source) = series_mut(access, &source)
    {
        source.rename_destination(old, new);
    }
    for destination in destinations {
        if is_destination(access, &destination, old)
            && let Ok(destination) = series_mut(access, &destination)
        {
            destination.set_source(Some(new));
        }
    }
}
