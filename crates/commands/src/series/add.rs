//! Adding samples. What the clock says is logged as the time that it was.

use mantissa_protocol::{Args, Reply};
use mantissa_store::series::{Change, DuplicatePolicy, Refusal, Sample, Series};
use mantissa_store::{Value, ValueType};

use super::options::{Given, policy};
use super::text::value_of;
use super::{WRONG_TYPE, compaction, place_of, time_of};
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};

const NOT_A_SERIES: Error = Error::fixed("ERR TSDB: the key is not a TSDB key");
const OLD: Error = Error::fixed("ERR TSDB: Timestamp is older than retention");
const BLOCKED: Error = Error::fixed(
    "ERR TSDB: Error at upsert, update is not supported when DUPLICATE_POLICY is set to BLOCK mode",
);

/// What became of a sample.
pub(super) enum Added {
    /// It is there, or merged with another.
    At(u64),
    /// It was so close to the latest one, of this time, that it was left out.
    Ignored(u64),
}

/// The sample that two words stand for; the time may be `*`.
fn sample_of(access: &Access<'_>, time: &[u8], value: &[u8]) -> Outcome<Sample> {
    let value = value_of(value).ok_or(Error::fixed("ERR TSDB: invalid value"))?;
    if time == b"*" {
        return Ok(Sample { time: u64::try_from(access.clock_ms()).unwrap_or_default(), value });
    }
    let time = mantissa_number::parse_i64(time).ok_or(Error::fixed("ERR TSDB: invalid timestamp"))?;
    let error = Error::fixed("ERR TSDB: invalid timestamp, must be a nonnegative integer");
    u64::try_from(time).map(|time| Sample { time, value }).map_err(|_| error)
}

/// Adds a sample by the series' own policy or another, and appends what becomes of destinations.
pub(super) fn add_to(
    series: &mut Series,
    sample: Sample,
    policy: Option<DuplicatePolicy>,
    changes: &mut Vec<Change>,
) -> Outcome<Added> {
    let policy = policy.or(series.options().policy).unwrap_or(DuplicatePolicy::Block);
    if let Some(last) = is_ignored(series, sample, policy) {
        return Ok(Added::Ignored(last));
    }
    match series.add_and_compact(sample, policy, changes) {
        Ok(()) => Ok(Added::At(sample.time)),
        Err(Refusal::Old) => Err(OLD),
        Err(Refusal::Duplicate) => Err(BLOCKED),
    }
}

/// The time of the latest sample, if another adds too little to it.
fn is_ignored(series: &Series, sample: Sample, policy: DuplicatePolicy) -> Option<u64> {
    let (last, options) = (series.last()?, series.options());
    let is_near = policy == DuplicatePolicy::Last
        && sample.time >= last.time
        && sample.time - last.time <= options.ignore_time_ms
        && (sample.value - last.value).abs() <= options.ignore_value;
    is_near.then_some(last.time)
}

/// The series at a key, to change; a new one as the arguments say if there is none.
fn series_or_new<'a>(
    access: &'a mut Access<'_>,
    args: Args<'_>,
    command: &str,
    not_a_series: Error,
) -> Outcome<&'a mut Series> {
    let key = args.at(1);
    if access.find_mut(key).is_none() {
        let series = Series::new(Given::parse(args, command)?.options());
        access.put(key, series.into_value(), None)?;
    }
    let (entry, _) = access.find_or_insert(key, || Value::Series(Series::default()))?;
    entry.into_mut().collection_mut().and_then(Series::of_mut).ok_or(not_a_series)
}

pub(super) fn add(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 4 {
        return Err(Error::arity("ts.add"));
    }
    let key = args.at(1);
    let sample = sample_of(access, args.at(2), args.at(3))?;
    // A new series has no duplicates, and the module does not look at the option then.
    let is_there = access.collection_mut::<Series>(key).map_err(|_| NOT_A_SERIES)?.is_some();
    let on_duplicate = if is_there { policy(args, "ON_DUPLICATE")? } else { None };
    let mut changes = Vec::new();
    if is_there {
        compaction::forget_lost(access, key);
    }
    let series = series_or_new(access, args, "ts.add", NOT_A_SERIES)?;
    let added = add_to(series, sample, on_duplicate, &mut changes);
    compaction::carry_out(access, changes);
    access.event(EventClass::MODULE, "ts.add", key);
    match added? {
        Added::At(time) => {
            reply.integer(time.cast_signed());
            access.changed(key);
            if args.at(2) == b"*" {
                let time = time.to_string();
                let mut words: Vec<&[u8]> = args.iter().collect();
                words[2] = time.as_bytes();
                access.log_instead(&words);
            }
        }
        Added::Ignored(time) => {
            reply.integer(time.cast_signed());
            access.log_nothing();
        }
    }
    Ok(())
}

pub(super) fn madd(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 4 || !(args.len() - 1).is_multiple_of(3) {
        return Err(Error::arity("ts.madd"));
    }
    let count = (args.len() - 1) / 3;
    reply.array(count);
    let (mut done, mut differs) = (Vec::with_capacity(count), false);
    for index in 0..count {
        let at = 1 + 3 * index;
        let key = args.at(at);
        match add_one(access, key, args.at(at + 1), args.at(at + 2)) {
            Ok(Added::At(time)) => {
                reply.integer(time.cast_signed());
                differs |= args.at(at + 1) == b"*";
                done.push((at, time));
                access.changed(key);
            }
            Ok(Added::Ignored(time)) => {
                reply.integer(time.cast_signed());
                differs = true;
            }
            Err(error) => {
                reply.error_bytes(error.bytes());
                differs = true;
            }
        }
        access.event(EventClass::MODULE, "ts.add", key);
    }
    if done.is_empty() {
        access.log_nothing();
    } else if differs && access.logs() {
        let times: Vec<String> = done.iter().map(|(_, time)| time.to_string()).collect();
        let mut words = vec![args.at(0)];
        for (&(at, _), time) in done.iter().zip(&times) {
            words.extend([args.at(at), time.as_bytes(), args.at(at + 2)]);
        }
        access.log_instead(&words);
    }
    Ok(())
}

fn add_one(access: &mut Access<'_>, key: &[u8], time: &[u8], value: &[u8]) -> Outcome<Added> {
    let sample = sample_of(access, time, value)?;
    compaction::forget_lost(access, key);
    let entry = access.find_mut(key).and_then(|entry| entry.collection_mut());
    let series = entry.and_then(Series::of_mut).ok_or(NOT_A_SERIES)?;
    let mut changes = Vec::new();
    let added = add_to(series, sample, None, &mut changes);
    compaction::carry_out(access, changes);
    added
}

pub(super) fn incrby(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    change_by(access, args, reply, "ts.incrby", 1.0)
}

pub(super) fn decrby(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    change_by(access, args, reply, "ts.decrby", -1.0)
}

/// Adds a sample whose value is that of the latest one and a change.
fn change_by(
    access: &mut Access<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    name: &'static str,
    sign: f64,
) -> Outcome {
    if args.len() < 3 {
        return Err(Error::arity(name));
    }
    let key = args.at(1);
    let is_there = access.find_mut(key).is_some();
    if is_there && access.collection_mut::<Series>(key).is_err() {
        return Err(WRONG_TYPE);
    }
    let change = value_of(args.at(2)).ok_or(Error::fixed("ERR TSDB: invalid increase/decrease value"))?;
    let place = place_of(args, "TIMESTAMP");
    let given = place.map(|place| args.get(place + 1).unwrap_or_default());
    let time = match given {
        Some(word) if word != b"*" => time_of(word).ok_or(Error::fixed("ERR TSDB: invalid timestamp"))?,
        _ => u64::try_from(access.clock_ms()).unwrap_or_default(),
    };
    compaction::forget_lost(access, key);
    let series = series_or_new(access, args, name, WRONG_TYPE)?;
    let last = series.last().unwrap_or(Sample { time: 0, value: 0.0 });
    if time < last.time && !series.is_empty() {
        return Err(Error::fixed(
            "TSDB: timestamp must be equal to or higher than the maximum existing timestamp",
        ));
    }
    let sample = Sample { time, value: last.value + sign * change };
    if let Some(time) = is_ignored(series, sample, DuplicatePolicy::Last) {
        reply.integer(time.cast_signed());
        access.log_nothing();
        access.event(EventClass::MODULE, name, key);
        return Ok(());
    }
    let mut changes = Vec::new();
    series.add_and_compact(sample, DuplicatePolicy::Last, &mut changes).map_err(|_| OLD)?;
    compaction::carry_out(access, changes);
    reply.integer(time.cast_signed());
    access.modified(key, EventClass::MODULE, name);
    if given.is_none_or(|word| word == b"*") {
        let time = time.to_string();
        let mut words: Vec<&[u8]> = args.iter().collect();
        match place {
            Some(place) => words[place + 1] = time.as_bytes(),
            None => drop(words.splice(3..3, [&b"TIMESTAMP"[..], time.as_bytes()])),
        }
        access.log_instead(&words);
    }
    Ok(())
}
