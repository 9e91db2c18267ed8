//! Rules between series: making and deleting them, and carrying out what a write to a source leads to.
//!
//! The shards of the keys that a series is linked to are locked with its own
//! ([`crate::spec::Traits::FOLLOWS_LINKS`]). What a rule leads to is not logged: it follows from the write to
//! the source, on replicas as well.

use mantissa_protocol::{Args, Reply};
use mantissa_store::ValueType;
use mantissa_store::series::{Aggregation, Change, DuplicatePolicy, Rule, Sample, Series, Update};

use super::{NO_KEY, add, series_mut, time_of};
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;

/// The series at a key, without marking it as used.
fn peek<'a>(access: &'a Access<'_>, key: &[u8]) -> Option<&'a Series> {
    access.peek(key).and_then(|entry| Series::of(entry.value()))
}

/// The rule whose buckets a series at a key has, with its source.
fn rule_of<'a>(access: &'a Access<'_>, key: &[u8], series: &Series) -> Option<(&'a Series, &'a Rule)> {
    let source = peek(access, series.source()?)?;
    Some((source, source.rule(key)?))
}

/// The source of a series at a key, if their link holds.
pub(super) fn source_of<'s>(access: &Access<'_>, key: &[u8], series: &'s Series) -> Option<&'s [u8]> {
    rule_of(access, key, series).and(series.source())
}

/// The rules of a series at a key whose links hold.
pub(super) fn rules_of<'s>(access: &Access<'_>, key: &[u8], series: &'s Series) -> Vec<&'s Rule> {
    series.rules().iter().filter(|rule| is_destination(access, &rule.destination, key)).collect()
}

/// The value so far of the bucket under way, of a series at a key that has the buckets of another.
pub(super) fn open_bucket(access: &Access<'_>, key: &[u8], series: &Series) -> Option<Sample> {
    let (source, rule) = rule_of(access, key, series)?;
    if source.is_empty() { None } else { rule.open() }
}

/// A series at a key with the value so far of the bucket under way as its latest sample.
pub(super) fn with_open_bucket(access: &Access<'_>, key: &[u8], series: &Series) -> Series {
    with_latest(series, open_bucket(access, key, series))
}

/// The same for a command that visits shards one at a time.
pub(super) fn with_open_bucket_elsewhere(access: &mut Access<'_>, key: &[u8], series: &Series) -> Series {
    let Some(source) = series.source() else { return series.clone() };
    let (database, now_ms, keyspace) = (access.database(), access.now_ms(), access.keyspace());
    let hash = keyspace.hash(source);
    let open = access.visit_shard(keyspace.shard_of(hash), |shard| {
        let entry = shard.databases[database].get(hash, source);
        let entry = entry.filter(|entry| !entry.has_expired(now_ms))?;
        let source = Series::of(entry.value()).filter(|source| !source.is_empty())?;
        source.rule(key)?.open()
    });
    with_latest(series, open)
}

fn with_latest(series: &Series, open: Option<Sample>) -> Series {
    let mut series = series.clone();
    if let Some(open) = open {
        let last = series.last().map_or(0, |last| last.time);
        if series.options().retention_ms > 0 {
            // It does not make others too old.
            let retention_ms = &mut series.options_mut().retention_ms;
            *retention_ms = retention_ms.saturating_add(open.time.saturating_sub(last));
        }
        // One that is too old is not shown either.
        let _ = series.add(open, DuplicatePolicy::Last);
    }
    series
}

fn is_destination(access: &Access<'_>, key: &[u8], source: &[u8]) -> bool {
    peek(access, key).and_then(Series::source) == Some(source)
}

/// Has a series at a key forget the links that do not hold.
pub(super) fn forget_lost(access: &mut Access<'_>, key: &[u8]) {
    let Some(series) = peek(access, key).filter(|series| series.has_links()) else { return };
    let has_lost_source = series.source().is_some() && rule_of(access, key, series).is_none();
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
    if let Ok(series) = series_mut(access, key) {
        series.unlink();
    }
}

/// Tells the series that a renamed one is linked to of its new key.
pub(crate) fn renamed(access: &mut Access<'_>, old: &[u8], new: &[u8]) {
    let Some(series) = peek(access, new).filter(|series| series.has_links()) else { return };
    let source: Option<Box<[u8]>> = series.source().map(Box::from);
    let destinations: Vec<Box<[u8]>> = series.rules().iter().map(|rule| rule.destination.clone()).collect();
    if let Some(source) = source
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
