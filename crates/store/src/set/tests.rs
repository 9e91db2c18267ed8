//! Sets against a model.

use std::collections::BTreeSet;

use mantissa_number::parse_i64;

use super::*;
use crate::test_random::random_numbers;
use crate::types::Sample;

impl Sample for Set {
    fn add_sample(&mut self, text: &[u8], limits: &EncodingLimits) {
        self.add(text, limits);
    }

    fn remove_sample(&mut self, text: &[u8]) {
        self.remove(text);
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
                13 => {
                    let was_empty = model.is_empty();
                    let take = |member: Element<'_>| {
                        assert!(model.remove(&member.to_vec()), "seed {seed} step {step}")
                    };
                    assert_eq!(set.take_one(&mut random, take), !was_empty);
                }
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
                true
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
fn clones_keep_what_they_had() {
    let limits = EncodingLimits { set_intset_entries_max: 200, ..EncodingLimits::default() };
    for seed in 0..24 {
        let mut random = random_numbers(seed);
        let kinds = [1, 2, 4, 8][seed as usize % 4];
        let (mut set, mut model) = (Set::new(), BTreeSet::new());
        let mut clones: Vec<(Set, BTreeSet<Vec<u8>>)> = Vec::new();
        for step in 0..2_000 {
            let text = member(random(), kinds);
            match random() % 16 {
                0..9 => assert_eq!(set.add(&text, &limits), model.insert(text), "seed {seed} step {step}"),
                9..14 => assert_eq!(set.remove(&text), model.remove(&text), "seed {seed} step {step}"),
                14 if random().is_multiple_of(8) => clones.push((set.clone(), model.clone())),
                15 if !clones.is_empty() => {
                    let chosen = random() as usize % clones.len();
                    let (clone, model) = &mut clones[chosen];
                    assert_eq!(clone.add(&text, &limits), model.insert(text), "seed {seed} step {step}");
                }
                _ => assert_eq!(set.contains(&text), model.contains(&text), "seed {seed} step {step}"),
            }
            if clones.len() > 6 {
                let (clone, model) = clones.swap_remove(random() as usize % clones.len());
                check(&clone, &model, seed);
            }
        }
        check(&set, &model, seed);
        drop(set);
        clones.iter().for_each(|(clone, model)| check(clone, model, seed));
    }
}

#[test]
fn a_scan_returns_who_stays_throughout() {
    let limits = EncodingLimits::default();
    for seed in 0..20 {
        let mut random = random_numbers(seed);
        let mut set = Set::new_hashtable();
        let stable = 1 + random() % 1_500;
        (0..stable).for_each(|number| assert!(set.add(format!("stays:{number}").as_bytes(), &limits)));
        let mut others: Vec<String> = Vec::new();
        let mut seen = BTreeSet::new();
        let (mut cursor, mut grows) = (0, true);
        loop {
            cursor = set.scan(cursor, |member| {
                seen.insert(member.to_vec());
            });
            if cursor == 0 {
                break;
            }
            if random().is_multiple_of(16) {
                grows = !grows;
            }
            for _ in 0..random() % 600 {
                if grows && others.len() < 20_000 {
                    let text = format!("comes:{}", random());
                    assert!(set.add(text.as_bytes(), &limits));
                    others.push(text);
                } else if let Some(text) = others.pop() {
                    assert!(set.remove(text.as_bytes()));
                }
            }
        }
        let is_seen = |number: u64| seen.contains(format!("stays:{number}").as_bytes());
        assert!((0..stable).all(is_seen), "seed {seed}");
    }
}

#[test]
fn members_are_picked_with_equal_probability() {
    let limits = EncodingLimits::default();
    let mut set = Set::new_hashtable();
    // Grows, shrinks and grows again, so that the bound on the members of a bucket has been moved.
    (0..5_000).for_each(|number| assert!(set.add(format!("{number:05}x").as_bytes(), &limits)));
    (200..5_000).for_each(|number| assert!(set.remove(format!("{number:05}x").as_bytes())));
    let mut counts = std::collections::BTreeMap::<Vec<u8>, u32>::new();
    let mut random = random_numbers(5);
    for _ in 0..100_000 {
        *counts.entry(set.random(&mut random).expect("not empty").to_vec()).or_default() += 1;
    }
    assert_eq!(counts.len(), 200);
    assert!(counts.values().all(|&count| (370..640).contains(&count)), "{counts:?}");
}

#[test]
fn members_that_are_clones_of_others_may_go_on_other_threads() {
    let limits = EncodingLimits::default();
    let mut set = Set::new();
    (0..20_000).for_each(|number| assert!(set.add(format!("member:{number}").as_bytes(), &limits)));
    set.add(&[b'x'; 5_000], &limits);
    std::thread::scope(|scope| {
        for round in 0..8 {
            let clone = set.clone();
            scope.spawn(move || {
                assert_eq!(clone.iter().count(), 20_001 - 2_000 * round);
                assert!(clone.contains(&[b'x'; 5_000]));
            });
            for number in round * 2_000..(round + 1) * 2_000 {
                assert!(set.remove(format!("member:{number}").as_bytes()));
            }
        }
    });
    assert_eq!(set.len(), 4_001);
}

#[test]
fn thresholds_far_beyond_the_defaults_hold() {
    let limits = EncodingLimits {
        set_listpack_entries_max: 5_000,
        set_listpack_value_bytes_max: 100_000,
        ..EncodingLimits::default()
    };
    let mut set = Set::new();
    let mut order = Vec::new();
    for number in 0..2_000_usize {
        let text = format!("{number}:").into_bytes().repeat(1 + number % 40);
        assert!(set.add(&text, &limits));
        order.push(text);
    }
    assert_eq!(set.encoding(), "listpack");
    for number in (0..2_000).rev().step_by(3) {
        assert!(set.remove(&order.remove(number)));
    }
    let members: Vec<Vec<u8>> = set.iter().map(|member| member.to_vec()).collect();
    assert_eq!(members, order);
    order.iter().for_each(|text| assert!(set.remove(text)));
}

#[test]
fn members_take_the_bytes_that_the_header_says() {
    let limits = EncodingLimits::default();
    let usage = |count: u64, text: &dyn Fn(u64) -> String| {
        let mut set = Set::new();
        (0..count).for_each(|number| assert!(set.add(text(number).as_bytes(), &limits)));
        set.memory_usage() as f64 / count as f64
    };
    for count in [2_000, 5_000, 10_000, 17_000, 30_000] {
        let bytes = usage(count, &|number| format!("member:{number:012}"));
        assert!(bytes < 24.5, "{count}: {bytes}");
        let bytes = usage(count, &|number| (number * 23_000_017 + (1 << 38)).to_string());
        assert!(bytes < 9.0, "{count}: {bytes}");
    }
    let bytes = usage(400, &|number| (number * 2_300_017 + (1 << 38)).to_string());
    assert!(bytes < 6.5, "{bytes}");
}

#[test]
fn a_prepared_table_is_like_one_that_has_grown() {
    let limits = EncodingLimits::default();
    let mut random = random_numbers(5);
    let (mut prepared, mut grown) = (Set::new(), Set::new());
    for number in 0..20_000_u32 {
        if number == 1_024 {
            prepared.prepare(18_000);
        }
        let member = format!("member:{}", number.wrapping_mul(0x9e37_79b1));
        assert!(prepared.add(member.as_bytes(), &limits) && grown.add(member.as_bytes(), &limits));
    }
    let texts = |set: &Set| set.iter().map(|member| member.to_vec()).collect::<HashSet<_>>();
    assert!(prepared.len() == 20_000 && texts(&prepared) == texts(&grown));
    assert!(prepared.memory_usage() <= grown.memory_usage() * 11 / 10);
    let mut picked = HashSet::new();
    for _ in 0..200_000 {
        picked.extend(prepared.random(&mut random).map(|member| member.to_vec()));
    }
    assert!(picked.len() > 19_900);
    for member in texts(&grown) {
        assert!(prepared.remove(&member));
    }
    assert!(prepared.is_empty());
}

/// The set that comes of adding all these members one after the other.
fn added<'a>(mut set: Set, members: impl IntoIterator<Item = Element<'a>>, limits: &EncodingLimits) -> Set {
    members.into_iter().for_each(|member| _ = set.add_element(member, limits));
    set
}

fn order(set: &Set) -> Vec<Vec<u8>> {
    set.iter().map(|member| member.to_vec()).collect()
}

/// Sets of all encodings, some of them with fewer members than their encoding is for.
fn some_set(random: &mut impl FnMut() -> u64, limits: &EncodingLimits) -> Set {
    let kinds = [1, 2, 8, 8][random() as usize % 4];
    let len = [0, 1, 3, 20, 60, 200, 900][random() as usize % 7];
    let mut set = Set::new();
    (0..len).for_each(|_| _ = set.add(&member(random(), kinds), limits));
    if random().is_multiple_of(3) {
        let gone = order(&set);
        let fraction = random() % 4;
        gone.iter().filter(|_| random() % 4 < fraction).for_each(|member| _ = set.remove(member));
    }
    set
}

#[test]
fn combinations_are_as_if_made_member_by_member() {
    let limits = EncodingLimits { set_intset_entries_max: 64, ..EncodingLimits::default() };
    for seed in 0..200 {
        let mut random = random_numbers(seed);
        let sets: Vec<Set> = (0..1 + random() % 3).map(|_| some_set(&mut random, &limits)).collect();
        let mut all: Vec<&Set> = sets.iter().collect();
        if random().is_multiple_of(4) {
            all.push(&sets[0]);
        }
        let before: Vec<BTreeSet<Vec<u8>>> = all.iter().map(|set| texts(set)).collect();

        let ordered = sets.iter().all(|set| set.encoding() != "hashtable");
        let union = Set::union(&all, &limits);
        let expected = added(Set::new(), all.iter().flat_map(|set| set.iter()), &limits);
        same(&union, &expected, ordered, seed);

        let others = &all[1..];
        let is_other = |member: Element<'_>| others.iter().any(|other| other.contains_element(member));
        let expected = added(Set::new(), all[0].iter().filter(|&member| !is_other(member)), &limits);
        same(&all[0].difference(others, true, &limits), &expected, ordered, seed);
        let mut expected = added(Set::new(), all[0].iter(), &limits);
        expected.remove_all(others);
        same(&all[0].difference(others, false, &limits), &expected, ordered, seed);

        let is_common = |member: Element<'_>| others.iter().all(|other| other.contains_element(member));
        let common = all[0].iter().filter(|&member| is_common(member));
        let start = if all[0].encoding() == "intset" { Set::new() } else { Set::new_listpack() };
        let mut expected = added(start, common, &limits);
        if expected.iter().all(|member| member.integer().is_some()) {
            expected.make_intset(&limits);
        }
        same(&all[0].intersection(others, &limits), &expected, ordered, seed);
        all.iter().zip(&before).for_each(|(set, before)| check(set, before, seed));
    }
}

/// A set of `size` members below `bound`, and what it is to hold; after growth alone, or after both.
fn large_set(
    random: &mut impl FnMut() -> u64,
    len: usize,
    bound: u64,
    limits: &EncodingLimits,
) -> (Set, BTreeSet<Vec<u8>>) {
    let text = |number: u64| match number % 5 {
        0 => number.to_string().into_bytes(),
        1 => format!("{number:0300}").into_bytes(),
        _ => format!("member:{number}").into_bytes(),
    };
    let (mut set, mut model) = (Set::new_listpack(), BTreeSet::new());
    let extra = random().is_multiple_of(2);
    while model.len() < if extra { 2 * len } else { len } {
        let member = text(random() % bound);
        set.add(&member, limits);
        model.insert(member);
    }
    while model.len() > len {
        let gone = model.pop_first().expect("there are more");
        set.remove(&gone);
    }
    (set, model)
}

#[test]
fn members_are_found_among_sets_of_other_sizes() {
    const SIZES: [usize; 6] = [5, 40, 150, 400, 1_000, 2_500];
    let limits = EncodingLimits { set_listpack_entries_max: 8, ..EncodingLimits::default() };
    for seed in 0..24 {
        let mut random = random_numbers(seed);
        let mut size = || SIZES[random() as usize % SIZES.len()];
        let sizes = [size(), size(), size()];
        let bound = 3 * sizes.iter().max().copied().unwrap_or(1) as u64;
        let [one, two, three] = sizes.map(|size| large_set(&mut random, size, bound, &limits));
        for others in [&[][..], &[&two], &[&two, &three], &[&three, &one]] {
            let sets: Vec<&Set> = others.iter().map(|(set, _)| set).collect();
            let is_in = |text: &Vec<u8>| others.iter().filter(|(_, model)| model.contains(text)).count();
            for (presence, count) in [(Presence::All, others.len()), (Presence::None, 0)] {
                let expected: BTreeSet<Vec<u8>> =
                    one.1.iter().filter(|text| is_in(text) == count).cloned().collect();
                let mut found = Vec::new();
                one.0.visit_among(presence, &sets, |member| {
                    found.push(member.to_vec());
                    true
                });
                assert_eq!(found.len(), expected.len(), "seed {seed} {sizes:?} {presence:?}");
                assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected, "seed {seed}");
                check(&one.0.filtered_among(presence, &sets), &expected, seed);
                let (mut visited, stop) = (0, expected.len().min(3));
                one.0.visit_among(presence, &sets, |_| {
                    visited += 1;
                    visited < stop
                });
                assert_eq!(visited, stop.max(usize::from(!expected.is_empty())), "seed {seed}");
            }
        }
    }
}

/// Whether two sets look the same to a client; what comes out of a table has no order.
fn same(set: &Set, expected: &Set, ordered: bool, seed: u64) {
    assert_eq!(set.encoding(), expected.encoding(), "seed {seed}");
    if !ordered || set.encoding() == "hashtable" {
        return check(set, &texts(expected), seed);
    }
    assert_eq!(order(set), order(expected), "seed {seed}");
}

#[test]
fn what_is_taken_is_gone_and_the_rest_stays() {
    let limits = EncodingLimits::default();
    for seed in 0..150 {
        let mut random = random_numbers(seed);
        let mut set = some_set(&mut random, &limits);
        let (mut model, clone) = (texts(&set), set.clone());
        let (all, encoding) = (model.clone(), set.encoding());
        let count = random() as usize % (set.len() + 2);
        let mut taken = 0;
        drop(set.take(count, &mut random, |member| {
            taken += 1;
            assert!(model.remove(&member.to_vec()), "seed {seed}");
        }));
        assert_eq!(taken, count.min(all.len()), "seed {seed}");
        assert_eq!(set.encoding(), encoding, "seed {seed}");
        check(&set, &model, seed);
        check(&clone, &all, seed);
        (0..50).for_each(|_| {
            let text = member(random(), 8);
            assert_eq!(set.add(&text, &limits), model.insert(text), "seed {seed}");
        });
        check(&set, &model, seed);
    }
}
