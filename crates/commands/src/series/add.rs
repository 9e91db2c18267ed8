//! Adding samples. What the clock says is logged as the time that it was.

use mantissa_protocol::{Args, OwnedArgs, Reply};
use mantissa_store::ValueType;
use mantissa_store::series::{Change, DuplicatePolicy, Refusal, Sample, Series};
use smallvec::SmallVec;

use super::options::{Given, policy};
use super::text::number_of;
use super::{WRONG_TYPE, compaction, create, place_of, settings, time_of};
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;
use crate::series_settings::SeriesSettings;

const NOT_A_SERIES: Error = Error::fixed("ERR TSDB: the key is not a TSDB key");
const OLD: Error = Error::fixed("ERR TSDB: Timestamp is older than retention");
const BLOCKED: Error = Error::fixed(
    "ERR TSDB: Error at upsert, update is not supported when DUPLICATE_POLICY is set to BLOCK mode",
);

const NOT_A_NUMBER: Error = Error::fixed(
    "ERR TSDB: Error at upsert, update is not supported when DUPLICATE_POLICY is set to MIN, MAX or SUM and \
     one value is NaN",
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
    const INVALID: Error = Error::fixed("ERR TSDB: invalid value");
    let Some(value) = number_of(value) else { return Err(INVALID) };
    if time == b"*" {
        return Ok(Sample { time: u64::try_from(access.clock_ms()).unwrap_or_default(), value });
    }
    let Some(time) = mantissa_number::parse_i64(time) else {
        return Err(Error::fixed("ERR TSDB: invalid timestamp"));
    };
    match u64::try_from(time) {
        Ok(time) => Ok(Sample { time, value }),
        Err(_) => Err(Error::fixed("ERR TSDB: invalid timestamp, must be a nonnegative integer")),
    }
}

/// Adds a sample by a policy, and appends what becomes of destinations.
pub(super) fn add_to(
    series: &mut Series,
    sample: Sample,
    policy: DuplicatePolicy,
    changes: &mut Vec<Change>,
) -> Outcome<Added> {
    if let Some(last) = is_ignored(series, sample, policy) {
        return Ok(Added::Ignored(last));
    }
    match series.add_and_compact(sample, policy, changes) {
        Ok(()) => Ok(Added::At(sample.time)),
        Err(Refusal::Old) => Err(OLD),
        Err(Refusal::Duplicate) => Err(BLOCKED),
        Err(Refusal::NotANumber) => Err(NOT_A_NUMBER),
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

/// Makes a series as the arguments say if there is none. Whether it has logged that.
fn make_if_absent(access: &mut Access<'_>, args: Args<'_>, command: &str) -> Outcome<bool> {
    let key = args.at(1);
    if access.find_mut(key).is_some() {
        return Ok(false);
    }
    create::make(access, key, Given::parse(args, command)?, true)
}

/// The series at a key, to change.
fn series_of<'a>(access: &'a mut Access<'_>, key: &[u8], not_a_series: Error) -> Outcome<&'a mut Series> {
    let entry = access.find_mut(key).and_then(|entry| entry.collection_mut());
    entry.and_then(Series::of_mut).ok_or(not_a_series)
}

/// Whether a sample may meet another one whose policy is that of settings, and so has to be logged with it.
fn needs_policy(series: &Series, sample: Sample, settings: &SeriesSettings) -> bool {
    settings.policy != DuplicatePolicy::Block
        && series.options().policy.is_none()
        && series.last().is_some_and(|last| sample.time <= last.time)
}

/// Logs a sample with its time, and the policy if that is not the series' own.
fn log_added(access: &mut Access<'_>, args: Args<'_>, time: u64, policy: Option<DuplicatePolicy>) {
    let time = time.to_string();
    let mut words: Vec<&[u8]> = args.iter().collect();
    words[2] = time.as_bytes();
    if let Some(policy) = policy {
        words.splice(4..4, [&b"ON_DUPLICATE"[..], policy.name().as_bytes()]);
    }
    access.log_instead(&words);
}

pub(super) fn add(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 4 {
        return Err(Error::arity("ts.add"));
    }
    let key = args.at(1);
    let sample = sample_of(access, args.at(2), args.at(3))?;
    compaction::bring_touched(access, [(key, sample.time)].into_iter())?;
    // A new series has no duplicates, and the module does not look at the option then.
    let found = access.collection_mut::<Series>(key).map_err(|_| NOT_A_SERIES)?;
    let (is_there, has_links) = (found.is_some(), found.is_some_and(|series| series.has_links()));
    let on_duplicate = if is_there && args.len() > 4 { policy(args, "ON_DUPLICATE")? } else { None };
    let mut changes = Vec::new();
    if has_links {
        compaction::forget_lost(access, key);
    }
    let settings = settings(access);
    let is_made = !is_there && make_if_absent(access, args, "ts.add")?;
    let series = series_of(access, key, NOT_A_SERIES)?;
    let policy = on_duplicate.or(series.options().policy).unwrap_or(settings.policy);
    let is_default = on_duplicate.is_none() && needs_policy(series, sample, settings);
    let added = add_to(series, sample, policy, &mut changes);
    compaction::carry_out(access, changes);
    access.event(EventClass::MODULE, "ts.add", key);
    match added? {
        Added::At(time) => {
            reply.integer(time.cast_signed());
            access.changed(key);
            access.signal(key);
            if args.at(2) == b"*" || is_made || is_default {
                log_added(access, args, time, is_default.then_some(policy));
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
    let (count, logs) = ((args.len() - 1) / 3, access.logs());
    bring_touched_by_all(access, args)?;
    reply.array(count);
    let (mut done, mut differs, mut policies, mut added_in_all, mut start) = (Vec::new(), false, false, 0, 0);
    while start < count {
        let key = args.at(1 + 3 * start);
        // Samples of one series in a row are added together.
        let run = (start..count).take_while(|index| args.at(1 + 3 * index) == key).count();
        compaction::forget_lost(access, key);
        let appended = append_run(access, args, start..start + run, reply);
        if logs {
            let time = |at| mantissa_number::parse_i64(args.at(at + 1)).unwrap_or_default();
            let places = (start..start + appended).map(|index| 1 + 3 * index);
            done.extend(places.map(|at| (at, time(at).cast_unsigned(), None)));
        }
        (0..appended).for_each(|_| access.event(EventClass::MODULE, "ts.add", key));
        let mut added = appended as u64;
        let mut results = Vec::new();
        add_run(access, args, start + appended..start + run, &mut results);
        for (index, (outcome, policy)) in (start + appended..).zip(results) {
            let at = 1 + 3 * index;
            match outcome {
                Ok(Added::At(time)) => {
                    reply.integer(time.cast_signed());
                    policies |= policy.is_some();
                    differs |= args.at(at + 1) == b"*";
                    added += 1;
                    if logs {
                        done.push((at, time, policy));
                    }
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
        if added > 0 {
            access.changed_by(key, added);
            access.signal(key);
        }
        added_in_all += added;
        start += run;
    }
    if added_in_all == 0 {
        access.log_nothing();
    } else if policies && logs {
        for (at, time, policy) in done {
            let words = [b"TS.ADD", args.at(at), args.at(at + 1), args.at(at + 2)];
            log_added(access, OwnedArgs::from_slices(&words).as_args(), time, policy);
        }
    } else if differs && logs {
        let times: Vec<String> = done.iter().map(|(_, time, _)| time.to_string()).collect();
        let mut words = vec![args.at(0)];
        for (&(at, ..), time) in done.iter().zip(&times) {
            words.extend([args.at(at), time.as_bytes(), args.at(at + 2)]);
        }
        access.log_instead(&words);
    }
    Ok(())
}

/// Sees to it that the series are in memory that the samples of TS.MADD may lead to a change of.
fn bring_touched_by_all(access: &Access<'_>, args: Args<'_>) -> Outcome {
    let samples = (1..args.len()).step_by(3).filter_map(|at| {
        let sample = sample_of(access, args.at(at + 1), args.at(at + 2)).ok()?;
        Some((args.at(at), sample.time))
    });
    compaction::bring_touched(access, samples)
}

/// Samples that are appended together.
const TOGETHER: usize = 64;

/// Appends samples of a run among the arguments of TS.MADD as long as each is later than all before it, and
/// replies their times. Returns how many these are: none where more has to be done than to append.
fn append_run(
    access: &mut Access<'_>,
    args: Args<'_>,
    run: std::ops::Range<usize>,
    reply: &mut Reply,
) -> usize {
    let key = args.at(1 + 3 * run.start);
    let Ok(series) = series_of(access, key, NOT_A_SERIES) else { return 0 };
    if series.has_links() || series.options().ignore_time_ms > 0 {
        return 0;
    }
    let mut last = series.last().map(|last| last.time);
    let (mut appended, mut samples) = (0, SmallVec::<[Sample; TOGETHER]>::new());
    for index in run {
        let (text, value) = (args.at(2 + 3 * index), args.at(3 + 3 * index));
        let time = mantissa_number::parse_i64(text).and_then(|time| u64::try_from(time).ok());
        let (Some(time), Some(value)) = (time, number_of(value)) else { break };
        if last.is_some_and(|last| time <= last) {
            break;
        }
        last = Some(time);
        if samples.len() == TOGETHER {
            series.append_all(&samples);
            samples.clear();
        }
        samples.push(Sample { time, value });
        // An integer has one text.
        reply.integer_text(text);
        appended += 1;
    }
    series.append_all(&samples);
    appended
}

/// What became of a sample, and the policy if that of settings may have decided.
type AddedBy = (Outcome<Added>, Option<DuplicatePolicy>);

/// Adds a run of samples of one series among the arguments of TS.MADD.
fn add_run(access: &mut Access<'_>, args: Args<'_>, run: std::ops::Range<usize>, results: &mut Vec<AddedBy>) {
    let Some(key) = args.get(1 + 3 * run.start).filter(|_| !run.is_empty()) else { return };
    let sample_at = |index: usize| sample_of(access, args.at(2 + 3 * index), args.at(3 + 3 * index));
    let samples: Vec<Outcome<Sample>> = run.map(sample_at).collect();
    let settings = settings(access);
    let mut changes = Vec::new();
    let mut rest = samples.into_iter();
    while let Some(sample) = rest.next() {
        let added = sample.and_then(|sample| Ok((sample, series_of(access, key, NOT_A_SERIES)?)));
        let (mut sample, series) = match added {
            Ok(found) => found,
            Err(error) => {
                results.push((Err(error), None));
                continue;
            }
        };
        loop {
            let is_default = needs_policy(series, sample, settings);
            let policy = series.options().policy.unwrap_or(settings.policy);
            let added = add_to(series, sample, policy, &mut changes);
            results.push((added, is_default.then_some(policy)));
            // The next one is for the same series, if there is nothing to do for others first.
            if !changes.is_empty() {
                break;
            }
            match rest.as_slice().first() {
                Some(&Ok(next)) => sample = next,
                _ => break,
            }
            rest.next();
        }
        compaction::carry_out(access, std::mem::take(&mut changes));
    }
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
    // The options of a new series are looked at before all else.
    let options = if is_there { None } else { Some(Given::parse(args, name)?) };
    let change = parse::float_or(args.at(2), "ERR TSDB: invalid increase/decrease value")?;
    let place = place_of(args, "TIMESTAMP");
    let given = place.map(|place| args.get(place + 1).unwrap_or_default());
    let time = match given {
        Some(word) if word != b"*" => time_of(word).ok_or(Error::fixed("ERR TSDB: invalid timestamp"))?,
        _ => u64::try_from(access.clock_ms()).unwrap_or_default(),
    };
    compaction::bring_touched(access, [(key, time)].into_iter())?;
    compaction::forget_lost(access, key);
    let is_made = match options {
        Some(options) => create::make(access, key, options, true)?,
        None => false,
    };
    let series = series_of(access, key, WRONG_TYPE)?;
    let last = series.last().unwrap_or(Sample { time: 0, value: 0.0 });
    if time < last.time && !series.is_empty() {
        return Err(Error::fixed(
            "TSDB: timestamp must be equal to or higher than the maximum existing timestamp",
        ));
    }
    if last.value.is_nan() {
        return Err(Error::fixed("ERR TSDB: the latest value is NaN"));
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
    access.signal(key);
    if is_made || given.is_none_or(|word| word == b"*") {
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
