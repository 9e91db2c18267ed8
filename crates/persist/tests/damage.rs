//! A file that redis-server wrote, whole, truncated anywhere and changed anywhere.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod model;

use mantissa_persist::check::check_rdb;
use mantissa_persist::load::{ChecksumState, LoadOptions};
use mantissa_persist::storage::FileSystem;
use mantissa_store::Kind;
use model::damaged::{BASES, check_damaged};
use model::{check_file, check_payload, digest, load};
use std::path::Path;

/// Written by redis-server 8.2.3 with small thresholds: every type in every encoding, field and key expiries,
/// streams with groups, a library of functions, two databases.
const SAMPLE: &[u8] = include_bytes!("files/redis-8.2.3.rdb");
/// What its DEBUG DIGEST said.
const SAMPLE_DIGEST: &str = "fc0446e02951c5d5eaec028039a5b0171b77fbec";

#[test]
fn the_sample_loads_to_the_digest_of_its_writer() {
    let loaded = load(SAMPLE, &LoadOptions::default()).expect("it is whole");
    let digest: String = digest(&loaded.keyspace).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, SAMPLE_DIGEST);
    assert_eq!(loaded.summary.checksum, ChecksumState::Verified);
    assert_eq!((loaded.summary.keys_loaded, loaded.summary.functions), (28, 1));
    assert!(loaded.functions[0].starts_with(b"#!lua name=sample"));
    assert!(check_file(SAMPLE));
}

#[test]
fn the_sample_is_reported() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/redis-8.2.3.rdb");
    let report = check_rdb(&FileSystem, &path, 0, |_, _| {}).expect("it can be opened");
    assert_eq!(report.damage, None);
    assert_eq!(report.summary.bytes, SAMPLE.len() as u64);
    let kinds = [Kind::String, Kind::List, Kind::Set, Kind::SortedSet, Kind::Hash, Kind::Stream];
    assert_eq!(kinds.map(|kind| report.keys_of(kind)), [11, 3, 5, 2, 4, 3]);
    assert_eq!((report.keys[&(3, Kind::List)], report.with_expiry, report.expired), (1, 1, 0));
    assert!(report.facts.contains(&(b"redis-ver".to_vec(), b"8.2.3".to_vec())));
}

#[test]
fn every_truncation_is_an_error() {
    for length in 0..SAMPLE.len() {
        for verify_checksum in [true, false] {
            let options = LoadOptions { verify_checksum, ..LoadOptions::default() };
            let error = load(&SAMPLE[..length], &options).err().expect("it is not whole");
            assert!(error.offset <= length as u64, "{error} in a file of {length} bytes");
        }
    }
}

#[test]
fn a_stream_with_a_flipped_bit_comes_to_the_same_in_several_threads() {
    const STEP: usize = 61;
    for bit in (0..SAMPLE.len() * 8).step_by(STEP) {
        let mut bad = SAMPLE.to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        model::check_stream(&bad);
    }
}

#[test]
fn every_flipped_bit_is_an_error_or_a_load() {
    let unchecked = LoadOptions { verify_checksum: false, ..LoadOptions::default() };
    let mut loads = 0;
    for bit in 0..SAMPLE.len() * 8 {
        let (byte, place) = (bit / 8, bit % 8);
        let mut bad = SAMPLE.to_vec();
        bad[byte] ^= 1 << place;
        // Another version may be one that has no checksum.
        let in_version = (5..9).contains(&byte);
        assert!(
            in_version || load(&bad, &LoadOptions::default()).is_err(),
            "bit {bit} is under the checksum"
        );
        // One bit of each byte goes through the slow check of everything that was loaded.
        let loaded = if byte % 8 == place { check_file(&bad) } else { load(&bad, &unchecked).is_ok() };
        loads += usize::from(loaded);
    }
    assert!((100..SAMPLE.len() * 8).contains(&loads), "{loads} loads");
}

#[test]
fn arbitrary_payloads_are_refused_or_restored() {
    // Every value of the sample starts somewhere in it.
    let restored = (0..SAMPLE.len()).filter(|&start| check_payload(&SAMPLE[start..])).count();
    assert!(restored > 20, "{restored} restored");
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..500 {
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .take(80)
        .collect();
        for form in 0..28 {
            check_payload(&[&[form][..], &bytes].concat());
        }
    }
}

#[test]
fn damaged_series_and_vector_sets_are_refused_or_sound() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let mut restored = 0;
    for round in 0..1000 {
        let edits = 4 * (round % 4);
        let data: Vec<u8> =
            std::iter::once(round as u8 / 4 % BASES).chain((0..edits).map(|_| byte())).collect();
        let is_restored = check_damaged(&data);
        assert!(is_restored || edits > 0, "a payload that is whole is refused");
        restored += usize::from(is_restored);
    }
    assert!((270..970).contains(&restored), "{restored} restored");
}
