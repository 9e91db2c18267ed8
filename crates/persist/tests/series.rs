//! Time series in payloads: what is written reads back, and damaged ones are refused or read.

use mantissa_persist::load::LoadOptions;
use mantissa_persist::payload::{dump_named, restore_value};
use mantissa_persist::write::WriteOptions;
use mantissa_store::series::{DuplicatePolicy, Options, Sample, Series};
use mantissa_store::{Value, ValueRef};
use proptest::collection::vec;
use proptest::prelude::*;

/// The samples, with the bits of their values.
fn samples(series: &Series) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    series.visit(0, u64::MAX, |piece| {
        all.extend(piece.iter().map(|sample| (sample.time, sample.value.to_bits())));
        true
    });
    all
}

fn series() -> impl Strategy<Value = Series> {
    let value = prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        (0..1000).prop_map(|tenths| f64::from(tenths) / 10.0)
    ];
    let time = prop_oneof![0..2000_u64, any::<u64>().prop_map(|time| time >> 1)];
    let samples = vec((time, value), 0..120);
    (samples, any::<bool>(), 6..20_u64, vec(("[a-z]{1,3}", "[a-z0-9]{1,12}"), 0..4)).prop_map(
        |(samples, is_compressed, words, labels)| {
            let label =
                |(name, value): (String, String)| (name.into_bytes().into(), value.into_bytes().into());
            let labels = labels.into_iter().map(label).collect();
            let options = Options { chunk_bytes: 8 * words, is_compressed, labels, ..Options::default() };
            let mut series = Series::new(options);
            for (time, value) in samples {
                series.add(Sample { time, value }, DuplicatePolicy::Last).expect("nothing is too old");
            }
            series
        },
    )
}

fn payload(series: &Series) -> Vec<u8> {
    dump_named(b"key", ValueRef::Series(series), &WriteOptions::default())
}

/// Gives a payload the checksum that it has to have.
fn seal(payload: &mut [u8]) {
    let body = payload.len() - 8;
    let checksum = mantissa_persist::format::Checksum::of(&payload[..body]);
    payload[body..].copy_from_slice(&checksum.to_le_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_is_dumped_is_restored(series in series()) {
        let Ok(Value::Series(read)) = restore_value(&payload(&series), &LoadOptions::default()) else {
            panic!("no series is restored");
        };
        prop_assert_eq!(samples(&read), samples(&series));
        prop_assert_eq!(read.options(), series.options());
    }

    #[test]
    fn a_damaged_payload_is_refused_or_restored(
        series in series(),
        bits in vec(any::<prop::sample::Index>(), 1..4),
    ) {
        let mut payload = payload(&series);
        for bit in bits {
            let bit = bit.index(8 * (payload.len() - 10));
            payload[bit / 8] ^= 1 << (bit % 8);
        }
        seal(&mut payload);
        if let Ok(Value::Series(mut read)) = restore_value(&payload, &LoadOptions::default()) {
            let times: Vec<u64> = samples(&read).iter().map(|sample| sample.0).collect();
            prop_assert!(times.is_sorted() && times.len() as u64 == read.len());
            let _ = read.add(Sample { time: 77, value: 0.5 }, DuplicatePolicy::Sum);
            read.remove(5, u64::MAX);
        }
    }
}
