//! Samples between two times, or the values of buckets of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mantissa_protocol::{Args, Reply};
use mantissa_store::series::{Aggregation, Asked, Buckets, Sample, Series};

use super::text::Rows;
use super::{compaction, place_of, series, time_of, write_row};
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

/// Time stamps that FILTER_BY_TS looks at.
const TIMES_MAX: usize = 128;
/// Buckets without samples that one command fills at most, in all of its series, where no COUNT bounds them.
pub(super) const EMPTY_BUCKETS_MAX: usize = if cfg!(test) { 1 << 14 } else { 1 << 24 };

/// The time that stands for a bucket.
#[derive(Clone, Copy)]
pub(super) enum BucketTime {
    Start,
    Mid,
    End,
}

/// Values of one bucket that may be asked for.
const AGGREGATIONS_MAX: usize = 64;

/// Samples from which on their number is looked up, so that their reply, of a piece or more, can be streamed.
const STREAMED_SAMPLES_MIN: u64 = 4096;

/// What is asked of a series.
#[derive(Clone)]
pub(super) struct Query {
    from: u64,
    to: u64,
    count: usize,
    buckets: Option<(Buckets, BucketTime)>,
    times: Option<Vec<u64>>,
    values: Option<(f64, f64)>,
    is_reversed: bool,
    /// That of the command: its queries share it.
    budget: Arc<Budget>,
}

/// Buckets without samples that a command has filled, on all of its threads.
#[derive(Debug, Default)]
pub(super) struct Budget(AtomicUsize);

impl Budget {
    /// Buckets that are counted together.
    const BLOCK: usize = 1024;

    /// Notes that so many were filled.
    ///
    /// # Errors
    ///
    /// If they are too many.
    pub(super) fn take(&self, count: usize) -> Outcome {
        let before = self.0.fetch_add(count, Ordering::Relaxed);
        if before.saturating_add(count) > EMPTY_BUCKETS_MAX {
            return Err(Error::fixed("ERR TSDB: too many buckets"));
        }
        Ok(())
    }
}

/// The two times at a place among the arguments.
pub(super) fn bounds(args: Args<'_>, at: usize) -> Outcome<(u64, u64)> {
    let from = match args.at(at) {
        b"-" => Some(0),
        word => time_of(word),
    };
    let from = from.ok_or(Error::fixed("ERR TSDB: wrong fromTimestamp"))?;
    let to = match args.at(at + 1) {
        b"+" => Some(u64::MAX),
        word => time_of(word),
    };
    Ok((from, to.ok_or(Error::fixed("ERR TSDB: wrong toTimestamp"))?))
}

impl Query {
    /// That of a command of this name, whose two times are at a place among its arguments.
    pub(super) fn parse(args: Args<'_>, at: usize, is_reversed: bool, command: &str) -> Outcome<Query> {
        let mut all = Self::parse_all(args, at, is_reversed, (command, 1))?;
        Ok(all.swap_remove(0))
    }

    /// Those of so many series, each of which has an aggregation of its own.
    pub(super) fn parse_all(
        args: Args<'_>,
        at: usize,
        is_reversed: bool,
        (command, series): (&str, usize),
    ) -> Outcome<Vec<Query>> {
        let (from, to) = bounds(args, at)?;
        let count = count(args, series)?;
        let aggregations = Aggregations::parse(args, series)?;
        let mut buckets = match &aggregations {
            Some(aggregations) => Some(aggregations.buckets(args, is_reversed, command)?),
            None => None,
        };
        if let Some(place) = place_of(args, "ALIGN") {
            let word = args.get(place + 1).ok_or(Error::arity(command))?;
            let align = Align::parse(word)?;
            let Some((buckets, _)) = &mut buckets else {
                return Err(Error::fixed("ERR TSDB: ALIGN parameter can only be used with AGGREGATION"));
            };
            buckets.align = align.time(args.range(at..at + 2), (from, to))?;
        }
        let values = values(args)?;
        let times = times(args)?;
        let budget = Arc::default();
        let query = Query { from, to, count, buckets, times, values, is_reversed, budget };
        let Some(aggregations) = aggregations else { return Ok(vec![query; series]) };
        let of = |list: Box<[Aggregation]>| {
            let mut query = query.clone();
            if let Some((buckets, _)) = &mut query.buckets {
                buckets.aggregations = list;
            }
            query
        };
        Ok(aggregations.lists.into_iter().map(of).collect())
    }

    /// The aggregations, none where samples are asked for as they are.
    pub(super) fn aggregations(&self) -> &[Aggregation] {
        self.buckets.as_ref().map_or(&[], |(buckets, _)| &buckets.aggregations)
    }

    /// Values of a row.
    pub(super) fn width(&self) -> usize {
        self.aggregations().len().max(1)
    }

    /// The most rows that are wanted.
    pub(super) fn row_count(&self) -> usize {
        self.count
    }

    /// About how many samples of a series are read. Costs the logarithm of its chunks.
    pub(super) fn samples(&self, series: &Series) -> u64 {
        series.samples_about(self.from, self.to).min(self.count as u64)
    }

    /// That of the latest sample.
    pub(super) fn latest() -> Query {
        let (from, to, budget) = (0, u64::MAX, Arc::default());
        Query { from, to, count: 1, buckets: None, times: None, values: None, is_reversed: true, budget }
    }

    /// The same in the order of time. The rows that came first in the other order are among those at the end,
    /// so that it has no bound then.
    pub(super) fn ascending(mut self) -> Query {
        if self.is_reversed {
            self.count = usize::MAX;
        }
        self.is_reversed = false;
        if let Some((buckets, _)) = &mut self.buckets {
            buckets.is_reversed = false;
        }
        self
    }

    /// The same for another part of the command, whose buckets are counted by themselves.
    pub(super) fn with_own_budget(&self) -> Query {
        Query { budget: Arc::default(), ..self.clone() }
    }

    /// What its command has left for buckets without samples.
    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Whether the latest samples come first.
    pub(super) fn is_reversed(&self) -> bool {
        self.is_reversed
    }

    /// Calls `emit` with the rows of a series: a time, and the value of a sample or those of a bucket.
    /// Returns how many of them are buckets without samples.
    ///
    /// # Errors
    ///
    /// If the command fills too many buckets.
    pub(super) fn run(&self, series: &Series, emit: &mut dyn FnMut(u64, &[f64])) -> Outcome<usize> {
        let bounds = (self.from.max(series.oldest_kept()), self.to);
        let (mut from, mut to) = bounds;
        if let Some(times) = &self.times {
            from = from.max(times.first().copied().unwrap_or(u64::MAX));
            to = to.min(times.last().copied().unwrap_or(0));
        }
        if from > to {
            return Ok(0);
        }
        let wants = |sample: &Sample| {
            self.times.as_ref().is_none_or(|times| times.binary_search(&sample.time).is_ok())
                && self.values.is_none_or(|(min, max)| min <= sample.value && sample.value <= max)
        };
        let is_filtered = self.times.is_some() || self.values.is_some();
        let mut left = self.count;
        if let Some((buckets, time)) = &self.buckets {
            let wants: Option<&dyn Fn(&Sample) -> bool> = if is_filtered { Some(&wants) } else { None };
            let asked = Asked { bounds, within: (from, to), wants };
            let mut emit = |start, values: &[f64]| {
                if left == 0 {
                    return false;
                }
                left -= 1;
                emit(time.of(start, buckets.duration), values);
                left > 0
            };
            if buckets.with_empty {
                return self.fill(series, asked, &mut emit);
            }
            buckets.of(series, asked, &mut emit);
            return Ok(0);
        }
        let mut take = |sample: &Sample| {
            if !is_filtered || wants(sample) {
                emit(sample.time, &[sample.value]);
                left -= 1;
            }
            left > 0
        };
        if self.is_reversed {
            series.visit_reversed(from, to, |samples| samples.iter().rev().all(&mut take));
        } else {
            series.visit(from, to, |samples| samples.iter().all(&mut take));
        }
        Ok(0)
    }

    /// The buckets of a series, those without samples as well. Returns how many of these there are: those
    /// beyond the number of samples, about.
    fn fill(
        &self,
        series: &Series,
        asked: Asked<'_>,
        emit: &mut dyn FnMut(i64, &[f64]) -> bool,
    ) -> Outcome<usize> {
        let Some((buckets, _)) = &self.buckets else { return Ok(0) };
        let (from, to) = asked.within;
        let mut with_samples = series.samples_about(from, to);
        let (mut filled, mut outcome) = (0, Ok(()));
        buckets.of(series, asked, &mut |start, values| {
            if with_samples > 0 {
                with_samples -= 1;
                return emit(start, values);
            }
            filled += 1;
            if filled % Budget::BLOCK == 0 {
                outcome = self.budget.take(Budget::BLOCK);
            }
            outcome.is_ok() && emit(start, values)
        });
        outcome?;
        self.budget.take(filled % Budget::BLOCK)?;
        Ok(filled)
    }

    /// Writes the samples or buckets of a series, and returns how many there were.
    pub(super) fn write(&self, series: &Series, reply: &mut Reply) -> Outcome<usize> {
        let len = if reply.has_sink() { self.plain_len(series) } else { None };
        write(len, reply, |emit| self.run(series, emit).map(|_| ()))
    }

    /// How many samples are replied, if they are many and that can be told without reading them all.
    fn plain_len(&self, series: &Series) -> Option<usize> {
        let is_plain = self.buckets.is_none() && self.times.is_none() && self.values.is_none();
        if !is_plain || self.samples(series) < STREAMED_SAMPLES_MIN {
            return None;
        }
        let from = self.from.max(series.oldest_kept());
        usize::try_from(series.count(from, self.to)).ok().map(|len| len.min(self.count))
    }
}

/// Writes the rows that `run` emits, as many as `len` if that is known, and returns how many there were.
pub(super) fn write(
    len: Option<usize>,
    reply: &mut Reply,
    run: impl FnOnce(&mut dyn FnMut(u64, &[f64])) -> Outcome,
) -> Outcome<usize> {
    let list = reply.array_or_defer(len);
    let (mut count, mut rows) = (0, Rows::new());
    run(&mut |time, values| {
        match values {
            [value] => rows.write(reply, Sample { time, value: *value }),
            _ => write_row(reply, time, values),
        }
        count += 1;
        reply.stream();
    })?;
    debug_assert!(len.is_none_or(|len| len == count));
    reply.finish_if_deferred(list, count);
    Ok(count)
}

impl BucketTime {
    fn parse(word: &[u8]) -> Outcome<Self> {
        Ok(match word {
            b"-" => BucketTime::Start,
            b"+" => BucketTime::End,
            b"~" => BucketTime::Mid,
            word if parse::is(word, "start") => BucketTime::Start,
            word if parse::is(word, "end") => BucketTime::End,
            word if parse::is(word, "mid") => BucketTime::Mid,
            _ => return Err(Error::fixed("ERR TSDB: unknown BUCKETTIMESTAMP parameter")),
        })
    }

    fn of(self, start: i64, duration: i64) -> u64 {
        let start = start.max(0).cast_unsigned();
        match self {
            BucketTime::Start => start,
            BucketTime::Mid => start.saturating_add(duration.cast_unsigned() / 2),
            BucketTime::End => start.saturating_add(duration.cast_unsigned()),
        }
    }
}

/// The most samples or buckets that are wanted. The name of an aggregation, of which there are as many as
/// series, is not taken for the option.
fn count(args: Args<'_>, series: usize) -> Outcome<usize> {
    let is_option = |&at: &usize| {
        let mut before = (at.saturating_sub(series)..at).map(|before| args.at(before));
        let is_name = before.any(|word| parse::is(word, "AGGREGATION"));
        parse::is(args.at(at), "COUNT") && !is_name && !parse::is(args.at(at - 1), "REDUCE")
    };
    let Some(place) = (1..args.len()).find(is_option) else { return Ok(usize::MAX) };
    let word = args.get(place + 1).ok_or(Error::fixed("ERR TSDB: COUNT argument is missing"))?;
    let count = parse::integer_or(word, "ERR TSDB: Couldn't parse COUNT")?;
    let count = usize::try_from(count).ok().filter(|&count| count > 0);
    count.ok_or(Error::fixed("ERR TSDB: Invalid COUNT value"))
}

/// What AGGREGATION says: for each series a list of aggregations, and the length of buckets.
struct Aggregations {
    /// The place of the length among the arguments.
    place: usize,
    lists: Vec<Box<[Aggregation]>>,
    duration: i64,
}

impl Aggregations {
    fn parse(args: Args<'_>, series: usize) -> Outcome<Option<Self>> {
        const NOT_PARSED: &str = "ERR TSDB: Couldn't parse AGGREGATION";
        let Some(keyword) = place_of(args, "AGGREGATION") else { return Ok(None) };
        let place = keyword + 1 + series;
        let Some(duration) = args.get(place) else { return Err(Error::fixed(NOT_PARSED)) };
        let names = args.range(keyword + 1..place);
        let miscounted = Error::fixed("ERR TSDB: the number of aggregators must be equal to numkeys");
        if series > 1 && names.iter().skip(1).any(|name| mantissa_number::parse_i64(name).is_some()) {
            return Err(miscounted);
        }
        let duration = match parse::integer_or(duration, NOT_PARSED) {
            Err(_) if series > 1 && list_of(duration).is_some() => return Err(miscounted),
            duration => duration?,
        };
        let lists = names.iter().map(list_of).collect::<Option<Vec<_>>>();
        let lists = lists.ok_or(Error::fixed("ERR TSDB: Unknown aggregation type"))?;
        if duration <= 0 {
            return Err(Error::fixed("ERR TSDB: bucketDuration must be greater than zero"));
        }
        Ok(Some(Aggregations { place, lists, duration }))
    }

    /// The buckets of the first series, and the time that stands for one.
    fn buckets(&self, args: Args<'_>, is_reversed: bool, command: &str) -> Outcome<(Buckets, BucketTime)> {
        let place = self.place;
        let empty = place_of(args, "EMPTY");
        if empty.is_some_and(|at| at != place + 1 && at != place + 3) {
            return Err(Error::fixed(
                "ERR TSDB: EMPTY flag should be the 3rd or 5th flag after AGGREGATION flag",
            ));
        }
        let mut time = BucketTime::Start;
        if let Some(at) = place_of(args, "BUCKETTIMESTAMP") {
            if at != place + 1 && at != place + 2 {
                return Err(Error::fixed(
                    "ERR TSDB: BUCKETTIMESTAMP flag should be the 3rd or 4th flag after AGGREGATION flag",
                ));
            }
            time = BucketTime::parse(args.get(at + 1).ok_or(Error::arity(command))?)?;
        }
        let (aggregations, duration, with_empty) = (self.lists[0].clone(), self.duration, empty.is_some());
        Ok((Buckets { aggregations, duration, align: 0, with_empty, is_reversed }, time))
    }
}

/// Aggregations whose names are separated by commas.
fn list_of(word: &[u8]) -> Option<Box<[Aggregation]>> {
    let list = word.split(|&byte| byte == b',').map(Aggregation::of_name);
    list.take(AGGREGATIONS_MAX + 1)
        .collect::<Option<Box<[_]>>>()
        .filter(|list| list.len() <= AGGREGATIONS_MAX)
}

fn values(args: Args<'_>) -> Outcome<Option<(f64, f64)>> {
    let Some(place) = place_of(args, "FILTER_BY_VALUE") else { return Ok(None) };
    let (Some(min), Some(max)) = (args.get(place + 1), args.get(place + 2)) else {
        return Err(Error::fixed("ERR TSDB: FILTER_BY_VALUE one or more arguments are missing"));
    };
    let min = parse::float_or(min, "ERR TSDB: Couldn't parse MIN")?;
    Ok(Some((min, parse::float_or(max, "ERR TSDB: Couldn't parse MAX")?)))
}

fn times(args: Args<'_>) -> Outcome<Option<Vec<u64>>> {
    let Some(place) = place_of(args, "FILTER_BY_TS") else { return Ok(None) };
    let words = args.iter().skip(place + 1).take(TIMES_MAX);
    let mut times: Vec<u64> = words.map_while(time_of).collect();
    if times.is_empty() {
        return Err(Error::fixed("ERR TSDB: FILTER_BY_TS one or more arguments are missing"));
    }
    times.sort_unstable();
    times.dedup();
    Ok(Some(times))
}

/// Where a bucket starts.
enum Align {
    From,
    To,
    At(u64),
}

impl Align {
    fn parse(word: &[u8]) -> Outcome<Self> {
        match word {
            b"-" => Ok(Align::From),
            b"+" => Ok(Align::To),
            word if parse::is(word, "start") => Ok(Align::From),
            word if parse::is(word, "end") => Ok(Align::To),
            word => time_of(word).map(Align::At).ok_or(Error::fixed("ERR TSDB: unknown ALIGN parameter")),
        }
    }

    /// The time, given the words and the times of the range.
    fn time(self, words: Args<'_>, (from, to): (u64, u64)) -> Outcome<u64> {
        match self {
            Align::From if words.at(0) == b"-" => {
                Err(Error::fixed("ERR TSDB: start alignment can only be used with explicit start timestamp"))
            }
            Align::To if words.at(1) == b"+" => {
                Err(Error::fixed("ERR TSDB: end alignment can only be used with explicit end timestamp"))
            }
            Align::From => Ok(from),
            Align::To => Ok(to),
            Align::At(time) => Ok(time),
        }
    }
}

pub(super) fn range(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    of_key(access, args, reply, false, "ts.range")
}

pub(super) fn revrange(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    of_key(access, args, reply, true, "ts.revrange")
}

fn of_key(
    access: &mut Access<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    is_reversed: bool,
    command: &str,
) -> Outcome {
    if args.len() < 4 {
        return Err(Error::arity(command));
    }
    let key = args.at(1);
    let series = series(access, key)?;
    let query = Query::parse(args, 2, is_reversed, command)?;
    let series = compaction::latest(access, key, series, place_of(args, "LATEST").is_some())?;
    query.write(&series, reply)?;
    Ok(())
}
