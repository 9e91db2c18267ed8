//! Values whose form in an RDB file leaves something out: here they come back as they were.
//!
//! | value | what an RDB file leaves out |
//! | --- | --- |
//! | t-digest | which nodes are merged: it is compressed before it is written |
//! | time series | where chunks begin, what samples of buckets under way were |
//! | vector set | numbers of elements, which decide between equals; where searches begin |
//!
//! ```text
//! t-digest     compression, least, largest, compressions, merged nodes, weights, nodes | mean, weight
//! time series  options, labels | source, rules, each with its state | runs
//! run          1 or 0 (compressed in memory, open), samples, bits, first time, first value, data (string)
//! vector set   options, projection | last place, entry | elements in the order of numbers
//! element      place, range and length, name, attribute, vector | links by level
//! ```

use std::io::Read;
use std::sync::Arc;

use mantissa_store::series::{DuplicatePolicy, GorillaReader, GorillaWriter, Options, Sample, Series};
use mantissa_store::vector_set::{
    LoadedElement, Projection, Quantization, VectorSet, VectorSetBuilder, VectorSetOptions, VectorSetState,
};
use mantissa_store::{Kind, TDigest, TDigestNode, TDigestShape, Value, ValueRef};

use crate::source::{LoadError, Source};
use crate::types::module::{put_double, put_unsigned, read_double, read_string, read_unsigned};
use crate::types::series::{read_labels, read_rule, write_rule};
use crate::write::{Encoder, Spill};

/// Elements for which there is room before any was read.
const BELIEVED: u64 = 1 << 12;
/// Bytes that a sample takes at most.
const SAMPLE_BYTES_MAX: u64 = 20;

/// Whether values of a type have a form of their own here.
pub(super) fn is_for(kind: Kind) -> bool {
    matches!(kind, Kind::TDigest | Kind::Series | Kind::VectorSet)
}

/// Appends a value, and calls `spill` now and then.
pub(super) fn put(value: ValueRef<'_>, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
    match value {
        ValueRef::TDigest(digest) => put_digest(digest, out),
        ValueRef::Series(series) => put_series(series, encoder, out, spill),
        ValueRef::VectorSet(set) => put_vectors(set, encoder, out, spill),
        _ => debug_assert!(false, "other values have the form of an RDB file"),
    }
}

/// Reads a value of a type. `None` if its parts do not fit together.
pub(super) fn read<R: Read>(source: &mut Source<R>, kind: Kind) -> Result<Option<Value>, LoadError> {
    Ok(match kind {
        Kind::TDigest => read_digest(source)?.map(Value::TDigest),
        Kind::Series => read_series(source)?.map(Value::Series),
        Kind::VectorSet => read_vectors(source)?.map(Value::VectorSet),
        _ => None,
    })
}

fn put_digest(digest: &TDigest, out: &mut Vec<u8>) {
    let TDigestShape { compression, min, max, compressions } = digest.shape();
    put_unsigned(compression.cast_unsigned(), out);
    put_double(min, out);
    put_double(max, out);
    put_unsigned(compressions.cast_unsigned(), out);
    let ((merged, merged_weight), (unmerged, unmerged_weight)) = (digest.merged(), digest.unmerged());
    put_unsigned(merged as u64, out);
    put_unsigned(merged_weight.cast_unsigned(), out);
    put_unsigned(unmerged_weight.cast_unsigned(), out);
    put_unsigned((merged + unmerged) as u64, out);
    for node in digest.nodes() {
        put_double(node.mean, out);
        put_unsigned(node.weight.cast_unsigned(), out);
    }
}

fn read_digest<R: Read>(source: &mut Source<R>) -> Result<Option<TDigest>, LoadError> {
    let compression = read_unsigned(source)?.cast_signed();
    let (min, max) = (read_double(source)?, read_double(source)?);
    let compressions = read_unsigned(source)?.cast_signed();
    let merged = (read_unsigned(source)? as usize, read_unsigned(source)?.cast_signed());
    let (unmerged_weight, count) = (read_unsigned(source)?.cast_signed(), read_unsigned(source)?);
    let mut nodes = Vec::with_capacity(count.min(BELIEVED) as usize);
    for _ in 0..count {
        let mean = read_double(source)?;
        nodes.push(TDigestNode { mean, weight: read_unsigned(source)?.cast_signed() });
    }
    let shape = TDigestShape { compression, min, max, compressions };
    Ok(TDigest::from_state(shape, nodes, merged, unmerged_weight))
}

fn put_series(series: &Series, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
    let options = series.options();
    put_unsigned(options.retention_ms, out);
    put_unsigned(options.chunk_bytes, out);
    put_unsigned(u64::from(options.is_compressed), out);
    put_unsigned(options.policy.map_or(0, |policy| policy as u64), out);
    put_unsigned(options.ignore_time_ms, out);
    put_double(options.ignore_value, out);
    put_unsigned(options.labels.len() as u64, out);
    for text in options.labels.iter().flat_map(|(name, value)| [name, value]) {
        encoder.module_string(text, out);
    }
    put_unsigned(u64::from(series.source().is_some()), out);
    series.source().inspect(|source| encoder.module_string(source, out));
    put_unsigned(series.rules().len() as u64, out);
    for rule in series.rules() {
        write_rule(rule, encoder, out);
        rule.state().into_iter().for_each(|word| put_unsigned(word, out));
    }
    let pieces = || series.pieces(0, u64::MAX);
    put_unsigned(pieces().count() as u64, out);
    let mut scratch = Vec::new();
    for piece in pieces() {
        let is_chunk = piece.is_chunk();
        let samples = piece.read(&mut scratch);
        let mut run = GorillaWriter::new((samples.len() as u64 * SAMPLE_BYTES_MAX).next_multiple_of(8));
        let has_room = samples.iter().all(|&sample| run.append(sample));
        debug_assert!(has_room, "a sample takes no more");
        put_unsigned(u64::from(is_chunk), out);
        put_unsigned(run.count, out);
        put_unsigned(run.bits, out);
        put_unsigned(run.base.time, out);
        put_unsigned(run.base.value.to_bits(), out);
        let mut data = run.data();
        data.truncate((run.bits.div_ceil(64) * 8) as usize);
        encoder.module_string(&data, out);
        if !spill(out) {
            break;
        }
    }
}

fn read_series<R: Read>(source: &mut Source<R>) -> Result<Option<Series>, LoadError> {
    let mut options = Options {
        retention_ms: read_unsigned(source)?,
        chunk_bytes: read_unsigned(source)?,
        is_compressed: read_unsigned(source)? != 0,
        ..Options::default()
    };
    let policy = read_unsigned(source)?;
    options.policy = DuplicatePolicy::ALL.iter().map(|row| row.0).find(|&one| one as u64 == policy);
    options.ignore_time_ms = read_unsigned(source)?;
    options.ignore_value = read_double(source)?;
    options.labels = read_labels(source)?;
    let linked_to: Option<Box<[u8]>> =
        if read_unsigned(source)? == 0 { None } else { Some(read_string(source)?.into()) };
    let mut rules = Vec::new();
    for _ in 0..read_unsigned(source)? {
        let Some(mut rule) = read_rule(source)? else { return Ok(None) };
        let mut state = rule.state();
        for word in &mut state {
            *word = read_unsigned(source)?;
        }
        rule.set_state(state);
        rules.push(rule);
    }
    let (mut samples, mut lengths) = (Vec::new(), Vec::new());
    for _ in 0..read_unsigned(source)? {
        let is_chunk = read_unsigned(source)? != 0;
        let (count, bits) = (read_unsigned(source)?, read_unsigned(source)?);
        let time = read_unsigned(source)?;
        let base = Sample { time, value: f64::from_bits(read_unsigned(source)?) };
        let data = read_string(source)?;
        let Ok(mut run) = GorillaReader::new(base, count, bits, data) else { return Ok(None) };
        let is_whole = run.all(|sample| {
            let later = sample.ok().filter(|sample| is_after(samples.last(), sample));
            later.inspect(|&sample| samples.push(sample)).is_some()
        });
        if !is_whole {
            return Ok(None);
        }
        lengths.extend(is_chunk.then_some(count as usize));
    }
    let Some(mut series) = Series::from_chunks(options, &samples, &lengths) else { return Ok(None) };
    series.set_source(linked_to.as_deref());
    rules.into_iter().for_each(|rule| series.add_rule(rule));
    Ok(Some(series))
}

fn is_after(last: Option<&Sample>, sample: &Sample) -> bool {
    last.is_none_or(|last| sample.time > last.time)
}

const QUANTIZATIONS: [Quantization; 3] = [Quantization::None, Quantization::Q8, Quantization::Binary];

fn put_vectors(set: &VectorSet, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
    put_unsigned(u64::from(set.dimension()), out);
    let quantization = QUANTIZATIONS.iter().position(|&one| one == set.quantization());
    put_unsigned(quantization.unwrap_or_default() as u64, out);
    put_unsigned(u64::from(set.links_max()), out);
    let mut bytes = Vec::new();
    put_unsigned(set.projection().map_or(0, |projection| u64::from(projection.input())), out);
    if let Some(projection) = set.projection() {
        projection.put_bytes(&mut bytes);
        encoder.module_string(&bytes, out);
    }
    let state = set.state();
    put_unsigned(state.last_uid, out);
    put_unsigned(state.entry.map_or(0, |entry| u64::from(entry) + 1), out);
    put_unsigned(set.len() as u64, out);
    for element in set.elements() {
        put_unsigned(set.uid(element), out);
        let (range, length) = set.range_and_length(element);
        put_unsigned(u64::from(range.to_bits()) << 32 | u64::from(length.to_bits()), out);
        bytes.clear();
        set.put_vector_bytes(element, &mut bytes);
        for text in [set.name(element), set.attribute(element), &bytes] {
            encoder.module_string(text, out);
        }
        let level = set.level(element);
        put_unsigned(u64::from(level), out);
        for level in 0..=level {
            let links = set.links(element, level);
            put_unsigned(links.len() as u64, out);
            links.iter().for_each(|&link| put_unsigned(u64::from(link), out));
        }
        if !spill(out) {
            break;
        }
    }
}

fn read_vectors<R: Read>(source: &mut Source<R>) -> Result<Option<VectorSet>, LoadError> {
    let dimension = read_unsigned(source)? as u32;
    let quantization = QUANTIZATIONS.get(read_unsigned(source)? as usize).copied();
    let links = read_unsigned(source)? as u32;
    let input = read_unsigned(source)? as u32;
    let mut projection = None;
    if input > 0 {
        let Some(read) = Projection::from_bytes(input, dimension, read_string(source)?) else {
            return Ok(None);
        };
        projection = Some(Arc::new(read));
    }
    let Some(quantization) = quantization else { return Ok(None) };
    let last_uid = read_unsigned(source)?;
    let entry = (read_unsigned(source)? as u32).checked_sub(1);
    let count = read_unsigned(source)?;
    let options = VectorSetOptions { dimension, quantization, links, projection };
    let mut builder = VectorSetBuilder::new(options, count);
    let (mut texts, mut links) = ([Vec::new(), Vec::new(), Vec::new()], Vec::new());
    for _ in 0..count {
        let uid = read_unsigned(source)?;
        let head = read_unsigned(source)?;
        for text in &mut texts {
            text.clear();
            text.extend_from_slice(read_string(source)?);
        }
        links.clear();
        for _ in 0..=read_unsigned(source)? {
            let count = read_unsigned(source)?;
            let mut on_level = Vec::with_capacity(count.min(BELIEVED) as usize);
            for _ in 0..count {
                on_level.push(read_unsigned(source)?);
            }
            links.push(on_level);
        }
        let (range, length) = (f32::from_bits((head >> 32) as u32), f32::from_bits(head as u32));
        let [name, attribute, vector] = &texts;
        let loaded = LoadedElement { name, attribute, vector, range, length, uid, links: &links };
        if builder.push_next(loaded).is_err() {
            return Ok(None);
        }
    }
    Ok(builder.finish_as(&VectorSetState { last_uid, entry }).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::WriteOptions;
    use mantissa_store::series::{Aggregation, Rule};

    fn bytes_of(value: ValueRef<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        put(value, &mut Encoder::new(WriteOptions::default(), None), &mut out, &mut |_| true);
        out
    }

    /// Changes a value and what came back of it in the same way again and again: they stay the same.
    fn check(mut value: Value, mut change: impl FnMut(&mut Value, usize)) {
        for step in 0..60 {
            let bytes = bytes_of(value.borrow());
            let mut back = read(&mut Source::from_bytes(bytes.clone()), value.kind()).ok().flatten();
            let back = back.as_mut().expect("it is sound");
            assert_eq!(bytes_of(back.borrow()), bytes, "step {step}");
            change(&mut value, step);
            change(back, step);
            assert_eq!(bytes_of(back.borrow()), bytes_of(value.borrow()), "step {step}");
            for len in (0..bytes.len()).step_by(37) {
                // What is cut is refused, or is another value, but nothing worse.
                _ = read(&mut Source::from_bytes(bytes[..len].to_vec()), value.kind());
            }
        }
    }

    fn number(step: usize, index: usize) -> f64 {
        ((step * 131 + index * 17) % 257) as f64 / 8.0
    }

    #[test]
    fn digests_go_on_as_if_they_had_stayed() {
        check(Value::TDigest(TDigest::new(20).expect("a small one")), |value, step| {
            let Value::TDigest(digest) = value else { unreachable!() };
            let numbers: Vec<f64> = (0..step % 9 * 5).map(|index| number(step, index)).collect();
            digest.add(&numbers).expect("they are few");
            if step % 13 == 5 {
                digest.compress().expect("they are few");
            }
            if step < 40 && step % 3 == 0 {
                // Weights that no double has.
                let other = digest.compressed();
                digest.merge(&other).expect("it is below 2^63");
            }
        });
    }

    #[test]
    fn series_go_on_as_if_they_had_stayed() {
        let labels = Box::new([(Box::from(*b"a label"), Box::from(*b"its value"))]);
        let options = Options { labels, chunk_bytes: 64, retention_ms: 3_000, ..Options::default() };
        let mut series = Series::new(options);
        for (aggregation, name) in Aggregation::ALL {
            series.add_rule(Rule::new(name.as_bytes(), aggregation, 100, 0));
        }
        check(Value::Series(series), |value, step| {
            let Value::Series(series) = value else { unreachable!() };
            let policy = DuplicatePolicy::Last;
            for index in 0..40 {
                let time = (step * 150 + index * index % 170) as u64;
                let value = if index == 7 { f64::NAN } else { number(step, index) };
                _ = series.add_and_compact(Sample { time, value }, policy, &mut Vec::new());
            }
            if step % 5 == 3 {
                series.remove(step as u64 * 150 - 90, step as u64 * 150 + 20);
            }
            if step == 40 {
                series.unlink();
                series.set_source(Some(b"from"));
            }
        });
    }

    #[test]
    fn vector_sets_go_on_as_if_they_had_stayed() {
        for quantization in QUANTIZATIONS {
            let projection = Some(Arc::new(Projection::new(5, 3)));
            let set = VectorSet::new(VectorSetOptions { dimension: 3, quantization, links: 4, projection });
            check(Value::VectorSet(set), |value, step| {
                let Value::VectorSet(set) = value else { unreachable!() };
                for index in 0..9 {
                    let name = format!("element {}", (step * 7 + index * 3) % 90);
                    if index % 3 == 2 {
                        set.find(name.as_bytes()).into_iter().for_each(|element| set.remove(element));
                        continue;
                    }
                    let vector = (0..3).map(|at| number(step, index * 3 + at) as f32 - 9.0).collect();
                    set.set(name.as_bytes(), &set.target(vector), 10);
                    set.find(name.as_bytes())
                        .into_iter()
                        .for_each(|element| set.set_attribute(element, b"{}"));
                }
            });
        }
    }
}
