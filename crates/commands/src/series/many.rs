//! Commands on all series that have certain labels.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use mantissa_protocol::{Args, Deferred, Reply};
use mantissa_store::cold::{Cold, RecordId};
use mantissa_store::series::{Aggregation, Aggregator, Label, Sample};

use super::filter::{Filter, Place};
use super::range::Query;
use super::rows::{Found, Taken};
use super::{compaction, parallel, place_of, write_labels, write_sample};
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

/// A series with its key.
type One = (Arc<[u8]>, Found);

/// The labels that are told of each series.
enum Shown<'a> {
    None,
    All,
    Selected(Vec<&'a [u8]>),
}

impl<'a> Shown<'a> {
    fn parse(args: Args<'a>) -> Outcome<Self> {
        const ENDS: [&str; 9] = [
            "FILTER",
            "COUNT",
            "AGGREGATION",
            "ALIGN",
            "FILTER_BY_TS",
            "FILTER_BY_VALUE",
            "WITHLABELS",
            "GROUPBY",
            "EXCLUDEEMPTY",
        ];
        let shows_all = place_of(args, "WITHLABELS").is_some();
        let Some(place) = place_of(args, "SELECTED_LABELS") else {
            return Ok(if shows_all { Shown::All } else { Shown::None });
        };
        if shows_all {
            return Err(Error::fixed("ERR TSDB: cannot accept WITHLABELS and SELECT_LABELS together"));
        }
        let is_name = |word: &&[u8]| !ENDS.iter().any(|end| parse::is(word, end));
        let names: Vec<&[u8]> = args.iter().skip(place + 1).take_while(is_name).collect();
        if names.is_empty() {
            return Err(Error::fixed("ERR TSDB: SELECT_LABELS should have at least 1 parameter"));
        }
        Ok(Shown::Selected(names))
    }

    fn write(&self, labels: &[Label], reply: &mut Reply) {
        let shown: Vec<(&[u8], Option<&[u8]>)> = match self {
            Shown::None => Vec::new(),
            Shown::All => labels.iter().map(|(name, value)| (&**name, Some(&**value))).collect(),
            Shown::Selected(names) => {
                let value =
                    |name: &[u8]| labels.iter().find(|label| *label.0 == *name).map(|label| &*label.1);
                names.iter().map(|&name| (name, value(name))).collect()
            }
        };
        write_labels(reply, &shown);
    }
}

/// The words after FILTER, up to `end`.
fn filter<'a>(args: Args<'a>, end: usize) -> Outcome<Filter<'a>> {
    let place = place_of(args, "FILTER").ok_or(Error::fixed("ERR TSDB: missing FILTER argument"))?;
    if place + 1 >= end {
        return Err(Error::fixed("ERR TSDB: missing labels for filter argument"));
    }
    Filter::parse(args.iter().take(end).skip(place + 1))
}

/// The series that a filter admits, for a query. The client must have the right to read them all.
fn find(access: &mut Access<'_>, args: Args<'_>, filter: &Filter<'_>, query: &Query) -> Outcome<Vec<One>> {
    let places = filter.places(access);
    access.note_found(places.iter().map(|(key, _)| Arc::clone(key)));
    let open = match place_of(args, "LATEST") {
        Some(_) => compaction::open_buckets(access, &places)?,
        None => HashMap::new(),
    };
    let on_disk = || places.iter().filter_map(|(key, place)| Some((&**key, place.cold()?)));
    let open_of_record: HashMap<RecordId, Sample> =
        on_disk().filter_map(|(key, cold)| Some((cold.id(), *open.get(key)?))).collect();
    // What is read here is taken from the command's budget below: the command may run again with it.
    let own = query.with_own_budget();
    let take = move |cold: &Cold, value| {
        let taken = Taken::of(&own, value, open_of_record.get(&cold.id()).copied())?;
        let bytes = taken.bytes();
        Ok((taken, bytes))
    };
    let taken = access.taken_of(on_disk().collect(), take)?;
    taken.iter().try_for_each(|taken| query.budget().take(taken.empty_buckets()))?;
    let mut taken = taken.into_iter();
    let found = |(key, place): (Arc<[u8]>, Place)| match place {
        Place::InMemory(mut series) => {
            compaction::add_latest(&mut series, open.get(&*key).copied());
            Some((key, Found::Series(series)))
        }
        Place::OnDisk(..) => Some((key, Found::Taken(taken.next()?))),
    };
    Ok(places.into_iter().filter_map(found).collect())
}

/// The series that the words after FILTER, which come last, admit, for a query.
pub(super) fn found(access: &mut Access<'_>, args: Args<'_>, query: &Query) -> Outcome<Vec<One>> {
    find(access, args, &filter(args, args.len())?, query)
}

/// Begins a list with a key for each element.
fn begin(reply: &mut Reply, len: usize) {
    if reply.is_resp3() {
        reply.map(len);
    } else {
        reply.array(len);
    }
}

/// Sets the length of such a list that was begun without knowing it.
fn finish(reply: &mut Reply, list: Deferred, len: usize) {
    if reply.is_resp3() {
        reply.finish_map(list, len);
    } else {
        reply.finish_array(list, len);
    }
}

/// Begins an element of such a list, of so many parts beside its key.
fn begin_element(reply: &mut Reply, key: &[u8], parts: usize) {
    if reply.is_resp3() {
        reply.bulk(key);
        reply.array(parts);
    } else {
        reply.array(1 + parts);
        reply.bulk(key);
    }
}

pub(super) fn queryindex(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 2 {
        return Err(Error::arity("ts.queryindex"));
    }
    let found = Filter::parse(args.iter().skip(1))?.keys(access);
    reply.set(found.len());
    found.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

pub(super) fn querylabels(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let wanted = match args.at(1) {
        word if parse::is(word, "LABELS") => None,
        word if parse::is(word, "VALUES") => Some(args.get(2).ok_or(Error::arity("ts.querylabels"))?),
        _ => return Err(Error::fixed("ERR TSDB: expected LABELS or VALUES")),
    };
    let rest = args.from(if wanted.is_none() { 2 } else { 3 });
    let mut texts: BTreeSet<Box<[u8]>> = BTreeSet::new();
    let note = |name: &[u8], value: &[u8]| {
        let text = if wanted.is_none() { name } else { value };
        if wanted.is_none_or(|wanted| *name == *wanted) && !texts.contains(text) {
            texts.insert(text.into());
        }
    };
    let found: Vec<Arc<[u8]>> = match rest.get(0) {
        None => super::filter::all_labels(access, note).into_iter().collect(),
        Some(word) if !parse::is(word, "FILTER") => return Err(Error::arity("ts.querylabels")),
        Some(_) if rest.len() == 1 => {
            return Err(Error::fixed("ERR TSDB: missing labels for filter argument"));
        }
        Some(_) => Filter::parse(rest.iter().skip(1))?.labels(access, note),
    };
    access.note_found(found);
    reply.set(texts.len());
    texts.iter().for_each(|text| reply.bulk(text));
    Ok(())
}

pub(super) fn mget(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 3 {
        return Err(Error::arity("ts.mget"));
    }
    place_of(args, "FILTER").ok_or(Error::arity("ts.mget"))?;
    let shown = Shown::parse(args)?;
    let found = found(access, args, &Query::latest())?;
    begin(reply, found.len());
    for (key, series) in &found {
        begin_element(reply, key, 2);
        shown.write(series.labels(), reply);
        match series.last() {
            Some(sample) => write_sample(reply, sample),
            None => reply.array(0),
        }
    }
    Ok(())
}

pub(super) fn mrange(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    of_many(access, args, reply, false, "ts.mrange")
}

pub(super) fn mrevrange(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    of_many(access, args, reply, true, "ts.mrevrange")
}

fn of_many(
    access: &mut Access<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    is_reversed: bool,
    command: &str,
) -> Outcome {
    if args.len() < 4 {
        return Err(Error::arity(command));
    }
    let query = Query::parse(args, 1, is_reversed, command)?;
    let shown = Shown::parse(args)?;
    let is_last = |word: &[u8]| parse::is(word, "EXCLUDEEMPTY");
    let excludes_empty = is_last(args.at(args.len() - 1));
    let options = args.range(0..args.len() - usize::from(excludes_empty));
    let place = place_of(options, "GROUPBY");
    let filter = filter(options, place.unwrap_or(options.len()))?;
    let grouping = place.map(|place| Grouping::parse(options, place, command)).transpose()?;
    if grouping.is_some() && query.width() > 1 {
        return Err(Error::fixed("ERR TSDB: GROUPBY takes one aggregator only"));
    }
    if let Some(grouping) = grouping {
        // Groups are made in the order of time, of which the first and the last value of a bucket depend.
        let (is_reversed, count) = (query.is_reversed(), query.row_count());
        let query = query.ascending();
        let found = find(access, args, &filter, &query)?;
        return grouping.write((&found, &query), (is_reversed, count), (&shown, excludes_empty), reply);
    }
    let found = find(access, args, &filter, &query)?;
    let list = reply.defer();
    let how = (&shown, excludes_empty);
    let runs = parallel::runs(&found, |(_, series)| series.samples(&query));
    let mut count = 0;
    if runs.len() < 2 {
        count = write_run(&found, &query, how, reply)?;
    } else {
        let empty = reply.part();
        let made = parallel::of_each(&runs, |run| {
            let mut part = empty.part();
            write_run(run, &query, how, &mut part).map(|count| (part, count))
        });
        for run in made {
            let (part, of_run) = run?;
            reply.append(&part);
            count += of_run;
        }
    }
    finish(reply, list, count);
    Ok(())
}

/// Writes series with their samples, and returns how many were written.
fn write_run(
    run: &[One],
    query: &Query,
    (shown, excludes_empty): (&Shown<'_>, bool),
    reply: &mut Reply,
) -> Outcome<usize> {
    let mut count = 0;
    for (key, series) in run {
        let start = reply.len();
        begin_element(reply, key, if reply.is_resp3() { 3 } else { 2 });
        shown.write(series.labels(), reply);
        if reply.is_resp3() {
            reply.map(1);
            reply.bulk(b"aggregators");
            let names = query.aggregations().iter().map(|aggregation| aggregation.name());
            reply.array(names.len());
            names.for_each(|name| reply.bulk(name.as_bytes()));
        }
        if series.write(query, reply)? == 0 && excludes_empty {
            reply.truncate(start);
        } else {
            count += 1;
        }
    }
    Ok(count)
}

/// GROUPBY: one series of all that have the same value of a label.
struct Grouping<'a> {
    label: &'a [u8],
    reducer: Aggregation,
}

impl<'a> Grouping<'a> {
    /// That at a place among the arguments, which is to be at their end.
    fn parse(args: Args<'a>, place: usize, command: &str) -> Outcome<Self> {
        if place + 4 != args.len() || !parse::is(args.at(place + 2), "REDUCE") {
            return Err(Error::arity(command));
        }
        let reducer = Aggregation::of_name(args.at(place + 3))
            .filter(|reducer| !matches!(reducer, Aggregation::Twa | Aggregation::First | Aggregation::Last));
        let reducer = reducer.ok_or(Error::fixed("ERR TSDB: Invalid reducer type"))?;
        Ok(Grouping { label: args.at(place + 1), reducer })
    }

    fn write(
        &self,
        (found, query): (&[One], &Query),
        (is_reversed, count): (bool, usize),
        (shown, excludes_empty): (&Shown<'_>, bool),
        reply: &mut Reply,
    ) -> Outcome {
        let mut groups: BTreeMap<&[u8], Vec<&One>> = BTreeMap::new();
        for one in found {
            let label = one.1.labels().iter().find(|label| *label.0 == *self.label);
            if let Some((_, value)) = label {
                groups.entry(value).or_default().push(one);
            }
        }
        let list = reply.defer();
        let mut written = 0;
        for (value, members) in groups {
            let mut sums: BTreeMap<u64, Aggregator> = BTreeMap::new();
            for (_, series) in &members {
                series.run(query, &mut |time, values| {
                    sums.entry(time).or_default().add(values[0]);
                    if sums.len() > count {
                        let _unwanted = if is_reversed { sums.pop_first() } else { sums.pop_last() };
                    }
                })?;
            }
            if sums.is_empty() && excludes_empty {
                continue;
            }
            written += 1;
            self.write_group(value, &members, shown, reply);
            reply.array(sums.len());
            let mut write = |(&time, sum): (&u64, &Aggregator)| {
                write_sample(reply, Sample { time, value: sum.value(self.reducer) });
            };
            if is_reversed {
                sums.iter().rev().for_each(&mut write);
            } else {
                sums.iter().for_each(&mut write);
            }
        }
        finish(reply, list, written);
        Ok(())
    }

    /// Writes what comes before the samples of a group.
    fn write_group(&self, value: &[u8], members: &[&One], shown: &Shown<'_>, reply: &mut Reply) {
        let name = [self.label, b"=", value].concat();
        let keys: Vec<&[u8]> = members.iter().map(|(key, _)| &**key).collect();
        let reducer = self.reducer.name().as_bytes();
        let own: Label = (self.label.into(), value.into());
        if !reply.is_resp3() {
            begin_element(reply, &name, 2);
            let reducer: Label = ((*b"__reducer__").into(), reducer.into());
            let sources: Label = ((*b"__source__").into(), keys.join(&b',').into());
            return shown.write(&[own, reducer, sources], reply);
        }
        begin_element(reply, &name, 4);
        shown.write(&[own], reply);
        reply.map(1);
        reply.bulk(b"reducers");
        reply.array(1);
        reply.bulk(reducer);
        reply.map(1);
        reply.bulk(b"sources");
        reply.array(keys.len());
        keys.iter().for_each(|key| reply.bulk(key));
    }
}
