//! Sets against a model.

use std::collections::BTreeSet;

use super::*;

fn random_numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// A member out of many kinds: small and large integers, what looks like one, short, long and empty texts.
fn member(number: u64, kinds: u64) -> Vec<u8> {
    let value = number >> 8;
    match number % kinds {
        0 => (value as i64 % 300).to_string().into_bytes(),
        1 => (value as i64 % 100_000 - 50_000).to_string().into_bytes(),
        2 => (i64::MIN + value as i64 % 4).to_string().into_bytes(),
        3 => (i64::MAX / 2 - 2 + value as i64 % 5).to_string().into_bytes(),
        4 => format!("0{}", value % 50).into_bytes(),
        5 => vec![b'x'; value as usize % 12],
        6 => vec![value as u8; 250 + value as usize % 10],
        _ => format!("member:{}", value % 500).into_bytes(),
    }
}

fn texts(set: &Set) -> BTreeSet<Vec<u8>> {
    set.iter().map(|member| member.to_vec()).collect()
}

fn check(set: &Set, model: &BTreeSet<Vec<u8>>, seed: u64) {
    assert_eq!(set.len(), model.len(), "seed {seed}");
    assert_eq!(set.iter().len(), model.len());
    assert_eq!(&texts(set), model, "seed {seed}");
    assert_eq!(&texts(&set.clone()), model, "seed {seed}");
    let mut scanned = BTreeSet::new();
    let mut cursor = 0;
    loop {
        cursor = set.scan(cursor, |member| {
            scanned.insert(member.to_vec());
        });
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(&scanned, model, "seed {seed}");
    assert!(set.memory_usage() >= model.iter().map(|member| member.len() / 3).sum());
}

#[test]
fn behaves_like_a_set_in_every_encoding() {
    let limits = EncodingLimits { set_intset_entries_max: 64, ..EncodingLimits::default() };
    for seed in 0..60 {
        let mut random = random_numbers(seed);
        let kinds = [1, 2, 4, 8][seed as usize % 4];
        let mut set = Set::new();
        let mut model = BTreeSet::new();
        for step in 0..1_500 {
            let text = member(random(), kinds);
            match random() % 16 {
                0..9 => assert_eq!(set.add(&text, &limits), model.insert(text), "seed {seed} step {step}"),
                9..13 => assert_eq!(set.remove(&text), model.remove(&text), "seed {seed} step {step}"),
                13 => match set.pop(&mut random) {
                    Some(popped) => assert!(model.remove(&popped), "seed {seed} step {step}"),
                    None => assert!(model.is_empty()),
                },
                _ => assert_eq!(set.contains(&text), model.contains(&text), "seed {seed} step {step}"),
            }
        }
        check(&set, &model, seed);
        if model.iter().all(|text| parse_i64(text).is_some()) && model.len() <= 64 {
            set.make_intset(&limits);
            assert_eq!(set.encoding(), "intset");
            check(&set, &model, seed);
        }
        for text in model {
            assert!(set.remove(&text), "seed {seed}");
        }
        assert!(set.is_empty());
    }
}

#[test]
fn samples_are_distinct_and_complete() {
    let limits = EncodingLimits::default();
    for len in [1, 5, 100, 3_000] {
        let mut set = Set::new();
        (0..len).for_each(|number| assert!(set.add(format!("m{number}").as_bytes(), &limits)));
        for wanted in [0, 1, 2, len / 5, len / 2, len, len + 7] {
            let mut seen = BTreeSet::new();
            set.sample(wanted, random_numbers(wanted as u64), |member| {
                assert!(seen.insert(member.to_vec()));
            });
            assert_eq!(seen.len(), wanted.min(len));
            let mut picked = 0;
            set.pick(wanted, random_numbers(7), |member| {
                assert!(set.contains(&member.to_vec()));
                picked += 1;
            });
            assert_eq!(picked, wanted);
        }
    }
}

#[test]
fn encodings_change_at_the_thresholds() {
    let limits = EncodingLimits::default();
    let mut set = Set::new();
    for number in 0..512 {
        set.add(number.to_string().as_bytes(), &limits);
        assert_eq!(set.encoding(), "intset");
    }
    set.add(b"512", &limits);
    assert_eq!(set.encoding(), "hashtable");

    let mut set = Set::new();
    (0..127).for_each(|number| assert!(set.add(number.to_string().as_bytes(), &limits)));
    set.add(b"text", &limits);
    assert_eq!(set.encoding(), "listpack");
    let mut long = set.clone();
    set.add(b"more", &limits);
    assert_eq!(set.encoding(), "hashtable");
    long.remove(b"0");
    long.add(&[b'x'; 65], &limits);
    assert_eq!(long.encoding(), "hashtable");
}

#[test]
fn a_listpack_keeps_the_order_in_which_members_came() {
    let limits = EncodingLimits::default();
    let mut set = Set::new();
    for text in ["c", "a", "17", "b", "a"] {
        set.add(text.as_bytes(), &limits);
    }
    set.remove(b"a");
    let order: Vec<Vec<u8>> = set.iter().map(|member| member.to_vec()).collect();
    assert_eq!(order, [b"c".to_vec(), b"17".to_vec(), b"b".to_vec()]);
}

#[test]
fn members_of_a_large_set_take_the_bytes_that_the_header_says() {
    let limits = EncodingLimits::default();
    let usage = |text: &dyn Fn(u64) -> String| {
        let mut set = Set::new();
        (0..100_000).for_each(|number| assert!(set.add(text(number).as_bytes(), &limits)));
        set.memory_usage() as f64 / 100_000.0
    };
    assert!(usage(&|number| number.to_string()) < 14.0);
    assert!(usage(&|number| format!("{number:07}")) < 14.0);
    assert!(usage(&|number| format!("member:{number:08}")) < 14.0 + 16.0);
}
