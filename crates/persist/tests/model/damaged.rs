//! Payloads of time series and vector sets, broken in a few places: they are refused, or what was restored is
//! sound: it can be read, searched, changed and dumped.

use super::check_payload;
use mantissa_persist::format::{Checksum, VERSION};
use mantissa_persist::load::LoadOptions;
use mantissa_persist::payload::{dump_value, restore_value};
use mantissa_persist::write::WriteOptions;
use mantissa_store::series::{
    Aggregation, Asked, Buckets, Change, DuplicatePolicy, Options, Rule, Sample, Series,
};
use mantissa_store::vector_set::{Quantization, Search, VectorSet, VectorSetOptions};
use mantissa_store::{Value, ValueRef};

/// The number of different payloads.
pub const BASES: u8 = 8;

/// Breaks a payload, which the first byte chooses, where the others say: a place (two bytes), what is done
/// there, and a byte. True if the rest was restored.
pub fn check_damaged(data: &[u8]) -> bool {
    let Some((&base, edits)) = data.split_first() else { return false };
    let mut body = body_of(base % BASES);
    for edit in edits.chunks_exact(4) {
        let place = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % body.len().max(1);
        match edit[2] % 4 {
            0 => body[place] ^= 1 << (edit[3] % 8),
            1 => body[place] = edit[3],
            2 => body.insert(place, edit[3]),
            _ => drop(body.remove(place)),
        }
        if body.is_empty() {
            return false;
        }
    }
    if !check_payload(&body) {
        return false;
    }
    body.extend_from_slice(&VERSION.to_le_bytes());
    let checksum = Checksum::of(&body);
    body.extend_from_slice(&checksum.to_le_bytes());
    match restore_value(&body, &LoadOptions::default()) {
        Ok(Value::Series(series)) => use_series(series),
        Ok(Value::VectorSet(set)) => use_vectors(set),
        _ => {}
    }
    true
}

/// A payload without its footer.
fn body_of(base: u8) -> Vec<u8> {
    let mut payload = match base {
        0..4 => dump_value(ValueRef::Series(&series(base)), &WriteOptions::default()),
        _ => dump_value(ValueRef::VectorSet(&vectors(base)), &WriteOptions::default()),
    };
    let footer = size_of_val(&VERSION.to_le_bytes()) + size_of::<u64>();
    payload.truncate(payload.len() - footer);
    payload
}

fn series(base: u8) -> Series {
    let label = (Box::from(*b"room"), Box::from(*b"study"));
    let is_compressed = base.is_multiple_of(2);
    let options = Options { chunk_bytes: 128, is_compressed, labels: [label].into(), ..Options::default() };
    let mut series = Series::new(options);
    if base >= 2 {
        series.set_source(Some(b"source"));
        for (aggregation, _) in Aggregation::ALL {
            series.add_rule(Rule::new(b"to", aggregation, 10, 3));
        }
    }
    for index in 0..60_u64 {
        let value = if index % 11 == 5 { f64::NAN } else { index as f64 / 4.0 };
        let sample = Sample { time: index * index, value };
        series.add_and_compact(sample, DuplicatePolicy::Last, &mut Vec::new()).expect("nothing is too old");
    }
    series
}

fn vectors(base: u8) -> VectorSet {
    let quantization = match base % 4 {
        0 => Quantization::Q8,
        1 => Quantization::Binary,
        _ => Quantization::None,
    };
    let mut set = VectorSet::new(VectorSetOptions { dimension: 5, quantization, links: 4, projection: None });
    for index in 0..12_u32 {
        let numbers = (0..5_u32).map(|at| ((index * 7 + at * 3) % 13) as f32 - 6.0).collect();
        let target = set.target(numbers);
        set.set(format!("e{index}").as_bytes(), &target, 20);
    }
    if let Some(element) = set.find(b"e3") {
        set.set_attribute(element, b"{\"a\":1}");
    }
    set
}

fn use_series(mut series: Series) {
    let mut last = None;
    series.visit(0, u64::MAX, |samples| {
        for sample in samples {
            assert!(last.is_none_or(|last| last < sample.time));
            last = Some(sample.time);
        }
        true
    });
    let aggregations = Aggregation::ALL.map(|row| row.0).into();
    let buckets =
        Buckets { aggregations, duration: i64::MAX / 8, align: 1, with_empty: true, is_reversed: false };
    buckets.of(&series, Asked::all((0, u64::MAX)), &mut |_, values| values.len() == Aggregation::ALL.len());
    let mut changes: Vec<Change> = Vec::new();
    for time in [0, 77, u64::MAX >> 1] {
        let sample = Sample { time, value: 0.5 };
        _ = series.add_and_compact(sample, DuplicatePolicy::Last, &mut changes);
    }
    series.remove_and_compact(5, u64::MAX, &mut changes);
}

fn use_vectors(mut set: VectorSet) {
    let numbers = vec![0.5; set.dimension() as usize];
    let target = set.target(numbers);
    let search = || Search { count: 5, ef: 20, filter: None, expanded_max: 100 };
    let len = set.len();
    assert!(set.search(&target, search()).len() <= len.min(5));
    set.set(b"new", &target, 20);
    while !set.is_empty() {
        set.remove(0);
        set.search(&target, search());
    }
    assert!(set.is_empty());
}
