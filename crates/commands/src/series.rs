//! Time series: the TS commands, as Redis's module has them.
//!
//! As there, the module's own commands check how many arguments they have, options are looked for by their
//! names anywhere among the arguments, and what is no option is passed over.

mod add;
mod arrow;
mod compaction;
mod create;
mod filter;
mod info;
mod many;
mod options;
mod parallel;
mod pivot;
mod range;
mod read;
mod rows;
mod table;
#[cfg(test)]
mod tests;
mod text;

pub use compaction::bring_links_of;
pub(crate) use compaction::{bring_if_linked, renamed, unlink};
pub(crate) use table::COMMANDS;

use mantissa_protocol::{Args, Reply};
use mantissa_store::series::{Sample, Series};

use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;
use crate::series_settings::SeriesSettings;

const NO_KEY: Error = Error::fixed("ERR TSDB: the key does not exist");

/// The module's text has two codes.
const WRONG_TYPE: Error =
    Error::fixed("ERR WRONGTYPE Operation against a key holding the wrong kind of value");

const BEYOND_RETENTION: Error = Error::fixed(
    "ERR TSDB: When a series has compactions, deleting samples or compaction buckets beyond the series \
     retention period is not possible",
);

/// The series at a key, to read.
fn series<'a>(access: &'a Access<'_>, key: &[u8]) -> Outcome<&'a Series> {
    access.collection(key).map_err(|_| WRONG_TYPE)?.ok_or(NO_KEY)
}

/// The series at a key, to change.
fn series_mut<'a>(access: &'a mut Access<'_>, key: &[u8]) -> Outcome<&'a mut Series> {
    access.collection_mut(key).map_err(|_| WRONG_TYPE)?.ok_or(NO_KEY)
}

/// What settings tell series.
fn settings<'a>(access: &Access<'a>) -> &'a SeriesSettings {
    if access.is_loading() { SeriesSettings::NONE } else { &access.settings().series }
}

/// The place of a keyword among all words of a command.
fn place_of(args: Args<'_>, keyword: &str) -> Option<usize> {
    args.iter().skip(1).position(|word| parse::is(word, keyword)).map(|place| place + 1)
}

/// Writes a sample.
fn write_sample(reply: &mut Reply, sample: Sample) {
    write_row(reply, sample.time, &[sample.value]);
}

/// Writes a time and its values.
fn write_row(reply: &mut Reply, time: u64, values: &[f64]) {
    reply.array(1 + values.len());
    reply.integer(time.cast_signed());
    values.iter().for_each(|&value| text::write_value(reply, value));
}

/// A time stamp: an integer that is not negative.
fn time_of(word: &[u8]) -> Option<u64> {
    mantissa_number::parse_i64(word).and_then(|time| u64::try_from(time).ok())
}

fn get(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if !(2..=3).contains(&args.len()) {
        return Err(Error::arity("ts.get"));
    }
    let key = args.at(1);
    let series = series(access, key)?;
    if args.get(2).is_some_and(|word| !parse::is(word, "LATEST")) {
        return Err(Error::fixed("ERR TSDB: wrong 3rd argument"));
    }
    let open = match args.get(2) {
        Some(_) => compaction::open_bucket(access, key, series)?,
        None => None,
    };
    match open.or(series.last()) {
        Some(sample) => write_sample(reply, sample),
        None => reply.array(0),
    }
    Ok(())
}

fn del(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 4 {
        return Err(Error::arity("ts.del"));
    }
    let key = args.at(1);
    let (from, to) = range::bounds(args, 2)?;
    compaction::bring_destinations(access, key)?;
    compaction::forget_lost(access, key);
    let series = series_mut(access, key)?;
    if !series.may_compact_removed(from) {
        return Err(BEYOND_RETENTION);
    }
    let mut changes = Vec::new();
    let count = series.remove_and_compact(from, to, &mut changes);
    compaction::carry_out(access, changes);
    reply.integer(count.cast_signed());
    access.modified(key, crate::effects::EventClass::MODULE, "ts.del");
    Ok(())
}

/// Writes labels, of which some may have no value.
fn write_labels(reply: &mut Reply, labels: &[(&[u8], Option<&[u8]>)]) {
    let is_map = reply.is_resp3();
    if is_map {
        reply.map(labels.len());
    } else {
        reply.array(labels.len());
    }
    for (name, value) in labels {
        if !is_map {
            reply.array(2);
        }
        reply.bulk(name);
        match value {
            Some(value) => reply.bulk(value),
            None => reply.null(),
        }
    }
}
