//! Hashes against a model.

use std::collections::BTreeMap;

use super::*;
use crate::test_random::random_numbers;
use crate::types::Sample;

impl Sample for Hash {
    fn add_sample(&mut self, text: &[u8], limits: &EncodingLimits) {
        self.set(text, text, limits);
    }

    fn remove_sample(&mut self, text: &[u8]) {
        self.remove(text);
    }
}

type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

fn text(number: u64) -> Vec<u8> {
    let value = number >> 8;
    match number % 8 {
        0 | 1 => (value % 100).to_string().into_bytes(),
        2 => (value as i64).to_string().into_bytes(),
        3 => vec![b'v'; value as usize % 300],
        4 if value.is_multiple_of(64) => vec![b'w'; 70_000],
        _ => format!("text:{}", value % 80).into_bytes(),
    }
}

fn field(number: u64) -> Vec<u8> {
    let value = number >> 8;
    match number % 4 {
        0 => (value % 60).to_string().into_bytes(),
        1 if value.is_multiple_of(32) => vec![b'f'; 256],
        _ => format!("field:{}", value % 60).into_bytes(),
    }
}

fn contents(hash: &Hash) -> Model {
    hash.iter().map(|(field, value, expiry)| (field.to_vec(), (value.to_vec(), expiry))).collect()
}

fn check(hash: &Hash, model: &Model, seed: u64) {
    assert_eq!(hash.len(), model.len(), "seed {seed}");
    assert_eq!(hash.iter().len(), model.len(), "seed {seed}");
    assert_eq!(&contents(hash), model, "seed {seed}");
    assert_eq!(&contents(&hash.clone()), model, "seed {seed}");
    assert_eq!(hash.earliest_expiry(), model.values().filter_map(|pair| pair.1).min(), "seed {seed}");
    for now_ms in [0, 500, 1_500] {
        let expired = model.values().filter(|pair| pair.1.is_some_and(|time| time <= now_ms)).count();
        assert_eq!(hash.expired_len(now_ms), expired, "seed {seed}");
        assert_eq!(hash.unexpired(now_ms).count(), model.len() - expired, "seed {seed}");
        assert_eq!(hash.all_expired(now_ms), expired > 0 && expired == model.len(), "seed {seed}");
    }
    let mut scanned = Model::new();
    let mut cursor = 0;
    loop {
        cursor = hash.scan(cursor, |(field, value, expiry)| {
            scanned.insert(field.to_vec(), (value.to_vec(), expiry));
        });
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(&scanned, model, "seed {seed}");
}

fn remove_expired(hash: &mut Hash, model: &mut Model, now_ms: i64, limit: usize) {
    let mut order = Vec::new();
    let count = hash.remove_expired(now_ms, limit, |field| order.push(field.to_vec()));
    assert_eq!(count, order.len());
    let due = model.values().filter(|pair| pair.1.is_some_and(|time| time <= now_ms)).count();
    assert_eq!(count, due.min(limit));
    let times: Vec<_> = order.iter().map(|field| model.remove(field).and_then(|pair| pair.1)).collect();
    assert!(times.is_sorted() && times.iter().all(|time| time.is_some_and(|time| time <= now_ms)));
}

/// Has a field go, stay as it is, or expire at another time.
fn change(hash: &mut Hash, model: &mut Model, field: &[u8], dice: u64) {
    let change = match dice % 4 {
        0 => FieldChange::Keep,
        1 => FieldChange::Remove,
        2 => FieldChange::Expire(None),
        _ => FieldChange::Expire(Some(1 + (dice >> 8) as i64 % 2_000)),
    };
    let found = hash.change_field(field, |value, expiry| (change, (value.to_vec(), expiry)));
    assert_eq!(found.as_ref(), model.get(field));
    match change {
        FieldChange::Remove => _ = model.remove(field),
        FieldChange::Expire(expiry) => _ = model.get_mut(field).map(|pair| pair.1 = expiry),
        FieldChange::Keep => {}
    }
}

fn step(hash: &mut Hash, model: &mut Model, random: &mut impl FnMut() -> u64, limits: &EncodingLimits) {
    let (field, value) = (field(random()), text(random()));
    let choice = random() % 20;
    match choice {
        0..8 => {
            let is_new = !model.contains_key(&field);
            let keep = choice < 3;
            let expiry = model.get(&field).and_then(|pair| pair.1).filter(|_| keep);
            let result = if keep {
                hash.set_keeping_expiry(&field, &value, limits)
            } else {
                hash.set(&field, &value, limits)
            };
            assert_eq!(result, is_new);
            model.insert(field, (value, expiry));
        }
        8..12 => assert_eq!(hash.remove(&field), model.remove(&field).is_some()),
        12..15 => {
            let expiry = (!random().is_multiple_of(4)).then(|| (1 + random() % 2_000) as i64);
            let known = model.get_mut(&field).map(|pair| pair.1 = expiry).is_some();
            assert_eq!(hash.set_expiry(&field, expiry), known);
        }
        16 => {
            let expiry = (1 + random() % 2_000) as i64;
            let is_new = model.insert(field.clone(), (value.clone(), Some(expiry))).is_none();
            assert_eq!(hash.set_with_expiry(&field, &value, expiry, limits), is_new);
        }
        17 => change(hash, model, &field, random()),
        18 => {
            let old = model.get(&field).cloned();
            let expected = old.as_ref().map(|pair| pair.0.clone());
            let new = random() as i64 >> (random() % 60);
            let result = hash.update_integer(&field, limits, |value| {
                assert_eq!(value.map(|value| value.to_vec()), expected);
                if new % 5 == 0 { Err(new) } else { Ok(new) }
            });
            assert_eq!(result, if new % 5 == 0 { Err(new) } else { Ok(()) });
            if new % 5 != 0 {
                model.insert(field, (new.to_string().into_bytes(), old.and_then(|pair| pair.1)));
            }
        }
        15 if random().is_multiple_of(8) => {
            remove_expired(hash, model, (random() % 300) as i64, 1 + random() as usize % 4);
        }
        _ => {
            let found = hash.get(&field).map(|(value, expiry)| (value.to_vec(), expiry));
            assert_eq!(found.as_ref(), model.get(&field));
        }
    }
}

#[test]
fn behaves_like_a_map_in_every_encoding() {
    for seed in 0..60 {
        let mut random = random_numbers(seed);
        let value_bytes = if seed % 3 == 0 { 64 } else { usize::MAX };
        let entries = [8, 64, 1_000][seed as usize % 3];
        let limits = EncodingLimits {
            hash_entries_max: entries,
            hash_value_bytes_max: value_bytes,
            ..EncodingLimits::default()
        };
        let (mut hash, mut model) = (Hash::new(), Model::new());
        for _ in 0..1_200 {
            step(&mut hash, &mut model, &mut random, &limits);
        }
        check(&hash, &model, seed);
        remove_expired(&mut hash, &mut model, 1_000, usize::MAX);
        check(&hash, &model, seed);
        for field in model.keys() {
            assert!(hash.remove(field));
        }
        assert!(hash.is_empty() && hash.earliest_expiry().is_none());
    }
}

#[test]
fn encodings_change_at_the_thresholds() {
    let limits = EncodingLimits { hash_entries_max: 4, ..EncodingLimits::default() };
    let mut hash = Hash::new();
    (0..4).for_each(|number| assert!(hash.set(&[b'a' + number], b"1", &limits)));
    assert_eq!(hash.encoding(), "listpack");
    let mut with_expiry = hash.clone();
    hash.set(b"e", b"1", &limits);
    assert_eq!(hash.encoding(), "hashtable");
    with_expiry.set_expiry(b"b", Some(5));
    assert_eq!(with_expiry.encoding(), "listpackex");
    with_expiry.set_expiry(b"b", None);
    assert_eq!(with_expiry.encoding(), "listpackex");
    with_expiry.set(b"a", &[b'x'; 65], &limits);
    assert_eq!(with_expiry.encoding(), "hashtable");
}

#[test]
fn fields_that_expire_stand_first_and_in_their_order() {
    let limits = EncodingLimits::default();
    let mut hash = Hash::new();
    for field in ["a", "b", "c", "d"] {
        hash.set(field.as_bytes(), field.as_bytes(), &limits);
    }
    hash.set_expiry(b"c", Some(20));
    hash.set_expiry(b"d", Some(10));
    hash.set_expiry(b"a", Some(20));
    let order = |hash: &Hash| -> Vec<u8> { hash.iter().flat_map(|(field, _, _)| field.to_vec()).collect() };
    assert_eq!(order(&hash), b"dacb");
    hash.set(b"d", b"new", &limits);
    assert_eq!(order(&hash), b"acbd");
}

#[test]
fn picks_live_fields_only() {
    for len in [3_usize, 40, 2_000] {
        let limits = EncodingLimits { hash_entries_max: 100, ..EncodingLimits::default() };
        for with_expiry in [0, len / 4, len - 1, len] {
            let mut hash = Hash::new();
            (0..len).for_each(|number| assert!(hash.set(number.to_string().as_bytes(), b"v", &limits)));
            for number in 0..with_expiry {
                hash.set_expiry(number.to_string().as_bytes(), Some(10));
            }
            let mut seen = std::collections::BTreeSet::new();
            hash.sample(len / 5, 10, random_numbers(1), |(field, _, expiry)| {
                assert!(expiry.is_none() && seen.insert(field.to_vec()));
            });
            assert_eq!(seen.len(), (len / 5).min(len - with_expiry));
            let mut picked = 0;
            hash.pick(20, 10, random_numbers(1), |(_, _, expiry)| {
                assert!(expiry.is_none());
                picked += 1;
                true
            });
            assert_eq!(picked, if with_expiry == len { 0 } else { 20 });
        }
    }
}

#[test]
fn clones_keep_what_they_had() {
    for seed in 0..24 {
        let mut random = random_numbers(seed);
        let limits = EncodingLimits {
            hash_entries_max: [8, 1_000][seed as usize % 2],
            hash_value_bytes_max: usize::MAX,
            ..EncodingLimits::default()
        };
        let (mut hash, mut model) = (Hash::new(), Model::new());
        let mut clones: Vec<(Hash, Model)> = Vec::new();
        for _ in 0..40 {
            for _ in 0..30 {
                step(&mut hash, &mut model, &mut random, &limits);
            }
            clones.push((hash.clone(), model.clone()));
            let chosen = random() as usize % clones.len();
            let (clone, clone_model) = &mut clones[chosen];
            step(clone, clone_model, &mut random, &limits);
            if clones.len() > 5 {
                let (clone, clone_model) = clones.swap_remove(random() as usize % clones.len());
                check(&clone, &clone_model, seed);
            }
        }
        check(&hash, &model, seed);
        drop(hash);
        clones.iter().for_each(|(clone, model)| check(clone, model, seed));
    }
}

#[test]
fn a_scan_returns_what_stays_throughout() {
    let limits = EncodingLimits { hash_entries_max: 0, ..EncodingLimits::default() };
    for seed in 0..10 {
        let mut random = random_numbers(seed);
        let mut hash = Hash::new();
        let stable = 1 + random() % 800;
        for number in 0..stable {
            assert!(hash.set(format!("stays:{number}").as_bytes(), b"value", &limits));
        }
        let (mut others, mut seen) = (Vec::new(), std::collections::BTreeSet::new());
        let (mut cursor, mut grows) = (0, true);
        loop {
            cursor = hash.scan(cursor, |(field, _, _)| {
                seen.insert(field.to_vec());
            });
            if cursor == 0 {
                break;
            }
            if random().is_multiple_of(16) {
                grows = !grows;
            }
            for _ in 0..random() % 300 {
                if grows && others.len() < 10_000 {
                    let field = format!("comes:{}", random()).into_bytes();
                    assert!(hash.set(&field, &vec![b'v'; random() as usize % 400], &limits));
                    if random().is_multiple_of(4) {
                        assert!(hash.set_expiry(&field, Some(1 + (random() >> 30) as i64)));
                    }
                    others.push(field);
                } else if let Some(field) = others.pop() {
                    assert!(hash.remove(&field));
                }
            }
        }
        let is_seen = |number: u64| seen.contains(format!("stays:{number}").as_bytes());
        assert!((0..stable).all(is_seen), "seed {seed}");
    }
}

#[test]
fn fields_take_the_bytes_that_the_header_says() {
    let limits = EncodingLimits::default();
    for count in [1_000, 3_000, 10_000, 17_000, 30_000] {
        let mut hash = Hash::new();
        for number in 0..count {
            hash.set(format!("field:{number:010}").as_bytes(), b"a value of 16 by", &limits);
        }
        let per_field = hash.memory_usage() as f64 / f64::from(count);
        assert!(per_field < 40.5, "{count}: {per_field}");
    }
    let mut small = Hash::new();
    for number in 0..10 {
        small.set(format!("field{number}").as_bytes(), b"a value of 16 by", &limits);
    }
    let handle = 8;
    assert!(
        small.memory_usage() - handle <= mantissa_memory::slab::class_size(248),
        "{}",
        small.memory_usage()
    );
}

#[test]
fn a_listpack_becomes_a_hash_that_can_be_changed() {
    use crate::listpack::Listpack;
    let limits = EncodingLimits { hash_entries_max: 128, ..EncodingLimits::default() };
    for (seed, count) in [0, 1, 2, 23, 24, 25, 60, 128, 129, 3_000].into_iter().enumerate() {
        let mut random = random_numbers(seed as u64);
        let (mut listpack, mut model) = (Listpack::new(), Model::new());
        for number in 0..count {
            let name = if number % 3 == 0 { number.to_string() } else { format!("field:{number}") };
            let value = text(random());
            listpack.push(name.as_bytes());
            listpack.push(&value);
            model.insert(name.into_bytes(), (value, None));
        }
        let mut hash = Hash::from_listpack(listpack.as_bytes(), &limits).expect("it is sound");
        check(&hash, &model, seed as u64);
        assert_eq!(hash.encoding(), if count > 128 { "hashtable" } else { "listpack" });
        for _ in 0..20 {
            let (field, value) = (field(random()), text(random()));
            assert_eq!(hash.set(&field, &value, &limits), model.insert(field, (value, None)).is_none());
        }
        check(&hash, &model, seed as u64);
        if count > 0 {
            listpack.push(format!("field:{}", count / 2 * 3 + 1).as_bytes());
            assert!(Hash::from_listpack(listpack.as_bytes(), &limits).is_err(), "a field without a value");
            listpack.push(b"value");
            let again = if count > 2 { b"field:1" } else { b"0" as &[u8] };
            listpack.push(again);
            listpack.push(b"value");
            let error = Hash::from_listpack(listpack.as_bytes(), &limits).expect_err("a field twice");
            assert_eq!(error.reason, "hash has a field twice");
        }
    }
}

/// Fields in a table, of which the first `expired` expire at 10 and so many after them at 20.
fn mostly_expired(len: usize, expired: usize, expiring: usize) -> Hash {
    let limits = EncodingLimits::default();
    let mut hash = Hash::new();
    for number in 0..len {
        let field = number.to_string().into_bytes();
        match number {
            _ if number < expired => hash.set_with_expiry(&field, b"x", 10, &limits),
            _ if number < expired + expiring => hash.set_with_expiry(&field, b"x", 20, &limits),
            _ => hash.set(&field, b"x", &limits),
        };
    }
    assert_eq!((hash.encoding(), hash.len()), ("hashtable", len));
    hash
}

/// Checks that 1,000 runs take about the same time with a large hash as with a small one.
fn assert_same_time(small: &Hash, large: &Hash, run: impl Fn(&Hash, i64)) {
    let time = |hash: &Hash| {
        let start = std::time::Instant::now();
        (0..1_000).for_each(|number| run(hash, number));
        start.elapsed()
    };
    let (small, large) = (time(small), time(large));
    assert!(large < small * 20 + std::time::Duration::from_millis(200), "{small:?}, {large:?}");
}

#[test]
fn counting_and_picking_unexpired_fields_takes_no_longer_with_more_expired_ones() {
    let (small, large) = (mostly_expired(1_000, 950, 40), mostly_expired(100_000, 95_000, 4_000));
    assert_same_time(&small, &large, |hash, number| {
        assert_eq!(hash.unexpired_len(10), hash.len() / 20);
        let (mut seen, mut random) = (0, random_numbers(number as u64));
        hash.sample(3, 10, &mut random, |_| seen += 1);
        hash.pick(1, 10, &mut random, |_| std::mem::replace(&mut seen, 9) == 3);
        assert_eq!(seen, 9);
    });
}

#[test]
fn a_clone_of_any_size_has_the_order_of_expiries() {
    let (small, large) = (mostly_expired(1_000, 0, 1_000), mostly_expired(100_000, 0, 100_000));
    assert_same_time(&small, &large, |hash, number| {
        let mut clone = hash.clone();
        assert_eq!((clone.earliest_expiry(), clone.all_expired_from()), (Some(20), Some(20)));
        clone.set_expiry(b"7", Some(number + 1));
        assert_eq!((clone.earliest_expiry(), hash.earliest_expiry()), (Some(20.min(number + 1)), Some(20)));
        assert_eq!(clone.remove_expired(19, 9, |field| assert_eq!(field, b"7")), usize::from(number < 19));
        let later = usize::from(number >= 20);
        assert_eq!((clone.expired_len(20), hash.expired_len(20)), (clone.len() - later, hash.len()));
    });
    let mut large = large;
    assert_eq!(large.remove_expired(20, 200_000, |_| {}), 100_000);
}

#[test]
fn unexpired_fields_are_picked_with_equal_probability() {
    for (expired, expiring, lasting) in [(3_000, 60, 40), (3_000, 100, 0), (3_000, 0, 100), (900, 500, 500)] {
        let hash = mostly_expired(expired + expiring + lasting, expired, expiring);
        let mut random = random_numbers(9);
        let mut counts = vec![0_usize; expiring + lasting];
        let mut count = |(field, _, _): Field<'_>| -> bool {
            let number: usize = String::from_utf8_lossy(&field.to_vec()).parse().expect("a number");
            counts[number - expired] += 1;
            true
        };
        let (draws, samples) = ((expiring + lasting) * 100, (expiring + lasting) * 20);
        hash.pick(draws, 10, &mut random, &mut count);
        for _ in 0..samples {
            hash.sample(5, 10, &mut random, |field| _ = count(field));
        }
        assert!(counts.iter().all(|count| (120..290).contains(count)), "{counts:?}");
        for wanted in [0, 1, counts.len() / 2, counts.len(), 9_999] {
            let mut seen = HashSet::new();
            hash.sample(wanted, 10, &mut random, |(field, _, _)| assert!(seen.insert(field.to_vec())));
            assert_eq!(seen.len(), wanted.min(counts.len()));
        }
        hash.pick(1, 20, &mut random, |(_, _, expiry)| {
            assert!(lasting > 0 && expiry.is_none());
            true
        });
    }
}
