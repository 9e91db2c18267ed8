//! What a series is told when it is made or altered.

use mantissa_protocol::Args;
use mantissa_store::series::{CHUNK_BYTES, DuplicatePolicy, Label, Options};

use super::place_of;
use crate::error::{Error, Outcome};
use crate::parse;
use crate::series_settings::SeriesSettings;

/// Options that are given; the others stay.
#[derive(Default)]
pub(super) struct Given {
    retention_ms: Option<u64>,
    chunk_bytes: Option<u64>,
    is_compressed: Option<bool>,
    policy: Option<DuplicatePolicy>,
    ignored: Option<(u64, f64)>,
    labels: Option<Box<[Label]>>,
}

impl Given {
    /// Those among the arguments of a command of this name.
    pub(super) fn parse(args: Args<'_>, command: &str) -> Outcome<Given> {
        // As in RedisTimeSeries, wrong labels are told of first.
        let mut given = Given { labels: labels(args)?, ..Given::default() };
        given.retention_ms = retention(args)?;
        given.chunk_bytes = chunk_bytes(args)?;
        given.is_compressed = is_compressed(args, command)?;
        given.policy = policy(args, "DUPLICATE_POLICY")?;
        given.ignored = ignored(args)?;
        Ok(given)
    }

    /// The options of a new series.
    pub(super) fn options(self, settings: &SeriesSettings) -> Options {
        let mut options = settings.options();
        self.change(&mut options);
        options
    }

    /// Changes those that are given.
    pub(super) fn change(self, options: &mut Options) {
        options.retention_ms = self.retention_ms.unwrap_or(options.retention_ms);
        options.chunk_bytes = self.chunk_bytes.unwrap_or(options.chunk_bytes);
        options.is_compressed = self.is_compressed.unwrap_or(options.is_compressed);
        options.policy = self.policy.or(options.policy);
        if let Some((time_ms, value)) = self.ignored {
            (options.ignore_time_ms, options.ignore_value) = (time_ms, value);
        }
        if let Some(labels) = self.labels {
            options.labels = labels;
        }
    }

    /// The same, but for what only a new series can be told. Returns the labels, which the caller has to set.
    pub(super) fn alter(mut self, options: &mut Options) -> Option<Box<[Label]>> {
        self.is_compressed = None;
        let labels = self.labels.take();
        self.change(options);
        labels
    }
}

/// The integer after a keyword, if that is there.
fn integer_after(args: Args<'_>, keyword: &str, error: &'static str) -> Outcome<Option<i64>> {
    let Some(place) = place_of(args, keyword) else { return Ok(None) };
    let word = args.get(place + 1).ok_or(Error::fixed(error))?;
    mantissa_number::parse_i64(word).map(Some).ok_or(Error::fixed(error))
}

fn retention(args: Args<'_>) -> Outcome<Option<u64>> {
    let retention = integer_after(args, "RETENTION", "ERR TSDB: Couldn't parse RETENTION")?;
    let error = Error::fixed("TSDB: Couldn't parse RETENTION");
    retention.map(|retention| u64::try_from(retention).map_err(|_| error)).transpose()
}

fn chunk_bytes(args: Args<'_>) -> Outcome<Option<u64>> {
    let Some(bytes) = integer_after(args, "CHUNK_SIZE", "ERR TSDB: Couldn't parse CHUNK_SIZE")? else {
        return Ok(None);
    };
    let bytes =
        u64::try_from(bytes).ok().filter(|bytes| bytes.is_multiple_of(8) && CHUNK_BYTES.contains(bytes));
    bytes.map(Some).ok_or(Error::fixed(
        "ERR TSDB: CHUNK_SIZE value must be a multiple of 8 in the range [48 .. 1048576]",
    ))
}

fn is_compressed(args: Args<'_>, command: &str) -> Outcome<Option<bool>> {
    let Some(place) = place_of(args, "ENCODING") else {
        return Ok(place_of(args, "UNCOMPRESSED").map(|_| false));
    };
    match args.get(place + 1) {
        None => Err(Error::arity(command)),
        Some(word) if parse::is(word, "COMPRESSED") => Ok(Some(true)),
        Some(word) if parse::is(word, "UNCOMPRESSED") => Ok(Some(false)),
        Some(_) => Err(Error::fixed("ERR TSDB: unknown ENCODING parameter")),
    }
}

/// The duplicate policy after a keyword, if that is there.
pub(super) fn policy(args: Args<'_>, keyword: &str) -> Outcome<Option<DuplicatePolicy>> {
    let Some(place) = place_of(args, keyword) else { return Ok(None) };
    let word = args.get(place + 1).ok_or(Error::fixed("ERR TSDB: Couldn't parse DUPLICATE_POLICY"))?;
    let found = DuplicatePolicy::ALL.iter().find(|(_, name)| parse::is(word, name));
    found.map(|row| Some(row.0)).ok_or(Error::fixed("ERR TSDB: Unknown DUPLICATE_POLICY"))
}

fn ignored(args: Args<'_>) -> Outcome<Option<(u64, f64)>> {
    let Some(place) = place_of(args, "IGNORE") else { return Ok(None) };
    let error = Error::fixed("ERR TSDB: Couldn't parse IGNORE");
    let (Some(time), Some(value)) = (args.get(place + 1), args.get(place + 2)) else { return Err(error) };
    let time = mantissa_number::parse_i64(time).ok_or(error)?;
    let value = parse::float_or(value, "ERR TSDB: Couldn't parse IGNORE")?;
    match u64::try_from(time) {
        Ok(time) if value >= 0.0 => Ok(Some((time, value))),
        _ => Err(Error::fixed("ERR TSDB: IGNORE arguments cannot be negative")),
    }
}

/// All words after LABELS, in pairs.
fn labels(args: Args<'_>) -> Outcome<Option<Box<[Label]>>> {
    let Some(place) = place_of(args, "LABELS") else { return Ok(None) };
    let words: Vec<&[u8]> = args.iter().skip(place + 1).collect();
    let is_bad = |pair: &&[&[u8]]| {
        let odd = |byte: &u8| matches!(byte, b'(' | b')' | b',');
        pair.iter().any(|word| word.is_empty()) || pair[1].iter().any(odd)
    };
    if words.chunks_exact(2).any(|pair| is_bad(&pair)) {
        return Err(Error::fixed("ERR TSDB: Couldn't parse LABELS"));
    }
    let mut labels: Vec<Label> = Vec::with_capacity(words.len() / 2);
    labels.extend(words.chunks_exact(2).map(|pair| (pair[0].into(), pair[1].into())));
    Ok(Some(labels.into_boxed_slice()))
}
