//! Time series, as Redis's module keeps them.
//!
//! ```text
//! key, retention, chunk size, 1 or 2 (not compressed, compressed), last time, last value, number of samples,
//! duplicate policy, 0 or 1 and the key of a source, ignored difference in time, in value,
//! count, { label, its value }, count, { rule }, count, { chunk }
//! rule:                  key of the destination, length and alignment of buckets, number of the aggregation,
//!                        start of the bucket under way or 2^64 - 1, what its samples have come to
//! chunk, compressed:     bytes, samples, bits, first value, first time, last time, last distance,
//!                        last value, window above, window below, data
//! chunk, not compressed: first time, samples, bytes, data
//! ```
//!
//! Samples are put into chunks of the series' size one after the other, as the module does.

use super::Codec;
use super::module::{put_double, put_unsigned, read_double, read_string, read_unsigned};
use crate::aof::Rebuilder;
use crate::digest::Mixer;
use crate::format::{Checksum, VERSION, value_type};
use crate::source::{LoadError, Source};
use crate::write::{Encoder, Spill, Target, WriteOptions};
use mantissa_store::series::{
    Aggregation, CHUNK_BYTES, DuplicatePolicy, GorillaReader, GorillaWriter, Label, Options, Part, Rule,
    Sample, Series,
};
use mantissa_store::{EncodingLimits, ValueRef};
use std::io::{Read, Write};

const NOT_COMPRESSED: u64 = 1;
const COMPRESSED: u64 = 2;
const SAMPLE_BYTES: usize = 16;
/// What is said of a value whose parts do not fit together.
const UNSOUND: &str = "time series whose parts do not fit together";

impl Codec for Series {
    const FORMS: &'static [u8] = &[value_type::TIME_SERIES];
    // That of all modules' types.
    const DIGEST_NUMBER: u32 = 5;
    const MAY_BE_EMPTY: bool = true;

    fn form(&self, _target: Target) -> Option<u8> {
        Some(value_type::TIME_SERIES)
    }

    fn write(&self, _form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        let options = self.options();
        let last = self.last().unwrap_or(Sample { time: 0, value: 0.0 });
        encoder.module_key(out);
        put_unsigned(options.retention_ms, out);
        put_unsigned(options.chunk_bytes, out);
        put_unsigned(if options.is_compressed { COMPRESSED } else { NOT_COMPRESSED }, out);
        put_unsigned(last.time, out);
        put_double(last.value, out);
        put_unsigned(self.len(), out);
        put_unsigned(options.policy.map_or(0, |policy| policy as u64), out);
        put_unsigned(u64::from(self.source().is_some()), out);
        if let Some(source) = self.source() {
            encoder.module_string(source, out);
        }
        put_unsigned(options.ignore_time_ms, out);
        put_double(options.ignore_value, out);
        put_unsigned(options.labels.len() as u64, out);
        for (name, value) in &options.labels {
            encoder.module_string(name, out);
            encoder.module_string(value, out);
        }
        put_unsigned(self.rules().len() as u64, out);
        self.rules().iter().for_each(|rule| write_rule(rule, encoder, out));
        if options.is_compressed {
            write_compressed(self, encoder, out, spill);
        } else {
            write_plain(self, encoder, out, spill);
        }
    }

    fn read<R: Read>(source: &mut Source<R>, _form: u8, _limits: &EncodingLimits) -> Result<Self, LoadError> {
        let offset = source.offset();
        read_string(source)?;
        let mut options = Options {
            retention_ms: read_unsigned(source)?,
            chunk_bytes: read_unsigned(source)?,
            is_compressed: read_unsigned(source)? & NOT_COMPRESSED == 0,
            ..Options::default()
        };
        // The last sample and the number of them follow from the chunks.
        read_unsigned(source)?;
        read_double(source)?;
        read_unsigned(source)?;
        let policy = read_unsigned(source)?;
        options.policy = DuplicatePolicy::ALL.iter().map(|row| row.0).find(|&one| one as u64 == policy);
        let linked_to: Option<Box<[u8]>> =
            if read_unsigned(source)? == 0 { None } else { Some(read_string(source)?.into()) };
        options.ignore_time_ms = read_unsigned(source)?;
        options.ignore_value = read_double(source)?;
        let is_sound = CHUNK_BYTES.contains(&options.chunk_bytes)
            && options.chunk_bytes.is_multiple_of(8)
            && (options.policy.is_some() || policy == 0)
            && options.ignore_value >= 0.0;
        if !is_sound {
            return source.error(offset, UNSOUND);
        }
        options.labels = read_labels(source)?;
        let mut rules = Vec::new();
        for _ in 0..read_unsigned(source)? {
            match read_rule(source)? {
                Some(rule) => rules.push(rule),
                None => return source.error(offset, UNSOUND),
            }
        }
        let is_compressed = options.is_compressed;
        let mut series = Series::new(Options { retention_ms: 0, ..options.clone() });
        let count = read_unsigned(source)?;
        for _ in 0..count {
            let read = if is_compressed {
                read_compressed(source, &mut series)
            } else {
                read_plain(source, &mut series)
            };
            if !read? {
                return source.error(offset, UNSOUND);
            }
        }
        series.options_mut().retention_ms = options.retention_ms;
        series.set_source(linked_to.as_deref());
        rules.into_iter().for_each(|rule| series.add_rule(rule));
        Ok(series)
    }

    fn rebuild<W: Write>(&self, key: &[u8], to: &mut Rebuilder<W>) -> Result<(), String> {
        let mut encoder = Encoder::new(WriteOptions::default(), None);
        encoder.set_key(key);
        let mut payload = Vec::new();
        encoder.typed_value(ValueRef::Series(self), &mut payload);
        payload.extend_from_slice(&VERSION.to_le_bytes());
        let checksum = Checksum::of(&payload);
        payload.extend_from_slice(&checksum.to_le_bytes());
        to.command(&[b"RESTORE", key, b"0", &payload])
    }

    fn digest(&self, _digest: &mut Mixer) {
        // The module mixes nothing in.
    }
}

pub(crate) fn write_rule(rule: &Rule, encoder: &mut Encoder<'_>, out: &mut Vec<u8>) {
    encoder.module_string(&rule.destination, out);
    put_unsigned(rule.duration.cast_unsigned(), out);
    put_unsigned(rule.align, out);
    put_unsigned(rule.aggregation as u64, out);
    put_unsigned(rule.start.unwrap_or(u64::MAX), out);
    for part in rule.parts() {
        match part {
            Part::Double(value) => put_double(value, out),
            Part::Integer(value) => put_unsigned(value, out),
        }
    }
}

/// None if its parts are not those of a rule.
pub(crate) fn read_rule<R: Read>(source: &mut Source<R>) -> Result<Option<Rule>, LoadError> {
    let destination: Box<[u8]> = read_string(source)?.into();
    let duration = i64::try_from(read_unsigned(source)?).ok().filter(|&duration| duration > 0);
    let align = read_unsigned(source)?;
    let number = read_unsigned(source)?;
    let aggregation = Aggregation::ALL.iter().map(|row| row.0).find(|&one| one as u64 == number);
    let start = read_unsigned(source)?;
    let (Some(duration), Some(aggregation)) = (duration, aggregation) else { return Ok(None) };
    let mut rule = Rule::new(&destination, aggregation, duration, align);
    rule.start = (start != u64::MAX).then_some(start);
    let mut parts = Vec::new();
    for kind in rule.parts() {
        parts.push(match kind {
            Part::Double(_) => Part::Double(read_double(source)?),
            Part::Integer(_) => Part::Integer(read_unsigned(source)?),
        });
    }
    rule.set_parts(&parts);
    Ok(Some(rule))
}

/// Puts the samples into chunks and counts these; then writes them.
fn write_compressed(series: &Series, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
    let mut count = 1;
    fill_chunks(series, &mut |_| count += 1);
    put_unsigned(count, out);
    let last = fill_chunks(series, &mut |chunk| {
        write_chunk(chunk, encoder, out);
        spill(out);
    });
    write_chunk(&last, encoder, out);
}

/// Calls `full` with each chunk that is full, and returns the last.
fn fill_chunks(series: &Series, full: &mut dyn FnMut(&GorillaWriter)) -> GorillaWriter {
    let bytes = series.options().chunk_bytes;
    let mut chunk = GorillaWriter::new(bytes);
    series.visit(0, u64::MAX, |samples| {
        for &sample in samples {
            if !chunk.append(sample) {
                full(&chunk);
                chunk = GorillaWriter::new(bytes);
                chunk.append(sample);
            }
        }
        true
    });
    chunk
}

fn write_chunk(chunk: &GorillaWriter, encoder: &mut Encoder<'_>, out: &mut Vec<u8>) {
    put_unsigned(chunk.bytes, out);
    put_unsigned(chunk.count, out);
    put_unsigned(chunk.bits, out);
    put_unsigned(chunk.base.value.to_bits(), out);
    put_unsigned(chunk.base.time, out);
    put_unsigned(chunk.last.time, out);
    put_unsigned(chunk.distance, out);
    put_unsigned(chunk.last.value.to_bits(), out);
    put_unsigned(chunk.window.0.into(), out);
    put_unsigned(chunk.window.1.into(), out);
    encoder.module_string(&chunk.data(), out);
}

fn write_plain(series: &Series, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
    let bytes = series.options().chunk_bytes as usize;
    let per_chunk = (bytes / SAMPLE_BYTES).max(1);
    put_unsigned(series.len().div_ceil(per_chunk as u64).max(1), out);
    let mut chunk: Vec<Sample> = Vec::new();
    let mut write = |chunk: &mut Vec<Sample>, out: &mut Vec<u8>| {
        put_unsigned(chunk.first().map_or(0, |first| first.time), out);
        put_unsigned(chunk.len() as u64, out);
        put_unsigned(bytes as u64, out);
        let mut data: Vec<u8> = chunk
            .iter()
            .flat_map(|sample| [sample.time, sample.value.to_bits()])
            .flat_map(u64::to_le_bytes)
            .collect();
        data.resize(bytes, 0);
        encoder.module_string(&data, out);
        chunk.clear();
    };
    series.visit(0, u64::MAX, |samples| {
        for &sample in samples {
            if chunk.len() == per_chunk {
                write(&mut chunk, out);
                spill(out);
            }
            chunk.push(sample);
        }
        true
    });
    if !chunk.is_empty() || series.is_empty() {
        write(&mut chunk, out);
    }
}

pub(crate) fn read_labels<R: Read>(source: &mut Source<R>) -> Result<Box<[Label]>, LoadError> {
    let mut labels = Vec::new();
    let count = read_unsigned(source)?;
    for _ in 0..count {
        let name = read_string(source)?.into();
        labels.push((name, read_string(source)?.into()));
    }
    Ok(labels.into_boxed_slice())
}

/// False if the chunk is broken or does not follow the samples before it.
fn read_compressed<R: Read>(source: &mut Source<R>, series: &mut Series) -> Result<bool, LoadError> {
    let _bytes = read_unsigned(source)?;
    let (count, bits) = (read_unsigned(source)?, read_unsigned(source)?);
    let value = f64::from_bits(read_unsigned(source)?);
    let base = Sample { time: read_unsigned(source)?, value };
    for _ in 0..5 {
        read_unsigned(source)?;
    }
    let data = read_string(source)?;
    let Ok(mut reader) = GorillaReader::new(base, count, bits, data) else { return Ok(false) };
    Ok(reader.all(|sample| sample.is_ok_and(|sample| append(series, sample))))
}

fn read_plain<R: Read>(source: &mut Source<R>, series: &mut Series) -> Result<bool, LoadError> {
    read_unsigned(source)?;
    let (count, _bytes) = (read_unsigned(source)?, read_unsigned(source)?);
    let data = read_string(source)?;
    let Some(data) =
        usize::try_from(count).ok().and_then(|count| data.get(..count.checked_mul(SAMPLE_BYTES)?))
    else {
        return Ok(false);
    };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    Ok(data.chunks_exact(SAMPLE_BYTES).all(|bytes| {
        let (time, value) = bytes.split_at(8);
        append(series, Sample { time: number(time), value: f64::from_bits(number(value)) })
    }))
}

fn append(series: &mut Series, sample: Sample) -> bool {
    let is_later = series.last().is_none_or(|last| sample.time > last.time);
    is_later && series.add(sample, DuplicatePolicy::Block).is_ok()
}

#[cfg(test)]
impl super::tests::Sample for Series {
    fn with_elements(count: usize) -> Self {
        let labels = Box::new([(Box::from(*b"label"), Box::from(*b"value"))]);
        let mut series =
            Series::new(Options { labels, is_compressed: !count.is_multiple_of(200), ..Options::default() });
        for number in 0..count as u64 {
            let sample = Sample { time: number * number, value: number as f64 / 10.0 };
            series.add(sample, DuplicatePolicy::Block).expect("it is later");
        }
        series
    }

    fn disturb(&mut self) {
        self.remove(0, 0);
        self.add(Sample { time: 1 << 40, value: 0.5 }, DuplicatePolicy::Sum).expect("it is later");
    }
}
