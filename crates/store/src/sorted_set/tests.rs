//! Sorted sets against a map and a sorted vector, with every operation.

use std::collections::{BTreeMap, HashSet};

use super::*;
use crate::test_random::Random;
use crate::types::Sample;

impl Sample for SortedSet {
    fn add_sample(&mut self, text: &[u8], limits: &EncodingLimits) {
        self.insert(text, 7.5 * text.len() as f64, limits);
    }

    fn remove_sample(&mut self, text: &[u8]) {
        self.remove(text);
    }
}

/// What a run of operations looks like.
struct Plan {
    members: usize,
    scores: usize,
    member_bytes_max: usize,
    limits: EncodingLimits,
}

impl Plan {
    fn member(&self, random: &mut Random) -> Vec<u8> {
        let number = random.below(self.members);
        let mut member = format!("m{number}").into_bytes();
        member.resize(member.len() + number * 7919 % self.member_bytes_max, b'.');
        member
    }

    fn score(&self, random: &mut Random) -> f64 {
        match random.below(60) {
            0 => f64::INFINITY,
            1 => f64::NEG_INFINITY,
            _ => random.below(self.scores) as f64 / 4.0 - 20.0,
        }
    }
}

type Model = BTreeMap<Vec<u8>, f64>;

fn sorted(model: &Model) -> Vec<(&[u8], f64)> {
    let mut all: Vec<(&[u8], f64)> = model.iter().map(|(member, &score)| (&member[..], score)).collect();
    all.sort_by(|one, two| one.1.total_cmp(&two.1).then_with(|| one.0.cmp(two.0)));
    all
}

fn assert_equal(set: &SortedSet, model: &Model, plan: &Plan, random: &mut Random, context: &str) {
    let all = sorted(model);
    assert_eq!(set.len(), all.len(), "{context}");
    assert!(set.iter().eq(all.iter().copied()), "{context}");
    assert!(set.iter().rev().eq(all.iter().rev().copied()), "{context}");
    for (rank, &(member, score)) in all.iter().enumerate() {
        assert_eq!(set.rank(member), Some((rank, score)), "{context}");
    }
    let score = plan.score(random);
    let below = all.iter().filter(|entry| entry.1 < score).count();
    let above = all.iter().filter(|entry| entry.1 <= score).count();
    assert_eq!(set.count_before(Boundary::BelowScore(score)), below, "{context}");
    assert_eq!(set.count_before(Boundary::AboveScore(score)), above, "{context}");
    assert!(set.range(below..above).eq(all[below..above].iter().copied()));
    let other = plan.score(random);
    for (low, high) in [(score, score), (score, other)] {
        let below = |is_before: fn(f64, f64) -> bool, bound| {
            all.iter().filter(|entry| is_before(entry.1, bound)).count()
        };
        let (from, to) =
            (below(|score, bound| score < bound, low), below(|score, bound| score <= bound, high));
        let ranks = set.ranks_between(Boundary::BelowScore(low), Boundary::AboveScore(high));
        assert_eq!(ranks, from..to.max(from), "{context}");
        let between = || set.between(Boundary::BelowScore(low), Boundary::AboveScore(high));
        let expected = &all[ranks];
        assert!(between().eq(expected.iter().copied()), "{context}");
        assert!(between().rev().eq(expected.iter().rev().copied()), "{context}");
        let first = random.below(expected.len() + 1);
        let part = first..expected.len().min(first + random.below(20));
        assert!(between().part(part.clone()).eq(expected[part.clone()].iter().copied()), "{context}");
        assert!(between().part(part.clone()).rev().eq(expected[part].iter().rev().copied()), "{context}");
        assert_eq!(set.ranks_between(Boundary::Start, Boundary::AboveScore(high)), 0..to, "{context}");
        assert_eq!(set.ranks_between(Boundary::AboveScore(low), Boundary::End).end, all.len(), "{context}");
    }
    let mut seen = HashSet::new();
    let mut cursor = 0;
    loop {
        cursor = set.scan(cursor, 10, |member, score| {
            assert_eq!(model.get(member), Some(&score));
            seen.insert(member.to_vec());
        });
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen.len(), model.len(), "{context}");
}

fn step(set: &mut SortedSet, model: &mut Model, plan: &Plan, random: &mut Random, growing: bool) {
    let (member, score) = (plan.member(random), plan.score(random));
    match random.below(if growing { 10 } else { 20 }) {
        0..7 => {
            let is_new = set.insert(&member, score, &plan.limits);
            assert_eq!(is_new, model.insert(member, score).is_none());
        }
        7 => {
            let old = set.update(&member, &plan.limits, |old| old.map(|old| old + 0.25));
            assert_eq!(old, model.get(&member).copied());
            model.entry(member).and_modify(|score| *score += 0.25);
        }
        8 => {
            assert_eq!(set.score(&member), model.get(&member).copied());
            let from = random.below(model.len() + 1);
            assert_eq!(set.get(from), sorted(model).get(from).copied());
        }
        9 if random.below(20) == 0 => {
            let from = random.below(model.len() + 1);
            let span = random.below(if growing { 5 } else { 150 });
            let gone: Vec<Vec<u8>> =
                set.range(from..from + span).map(|(member, _)| member.to_vec()).collect();
            set.remove_ranks(from..from + span);
            assert!(gone.into_iter().all(|member| model.remove(&member).is_some()));
        }
        _ => assert_eq!(set.remove(&member), model.remove(&member)),
    }
}

#[test]
fn behaves_like_a_map_and_a_sorted_vector() {
    let limits = EncodingLimits::default();
    let plan = |members, scores, member_bytes_max| Plan {
        members,
        scores,
        member_bytes_max,
        limits: limits.clone(),
    };
    let plans =
        [plan(100, 20, 5), plan(3000, 9, 20), plan(2500, 100_000, 40), plan(400, 50, 3000), plan(900, 1, 90)];
    for (seed, plan) in plans.iter().enumerate() {
        let mut random = Random::new(seed as u64);
        let (mut set, mut model) = (SortedSet::new(), Model::new());
        for round in 0..6_000 {
            step(&mut set, &mut model, plan, &mut random, (round / 2000) % 2 == 0);
            if round % 400 == 0 {
                assert_equal(&set, &model, plan, &mut random, &format!("seed {seed} round {round}"));
            }
        }
        let copy = set.clone();
        assert_equal(&copy, &model, plan, &mut random, "clone");
        let bulk = SortedSet::from_entries(
            model.iter().map(|(member, &score)| (&member[..], score)).collect(),
            &limits,
        );
        assert_equal(&bulk, &model, plan, &mut random, "bulk");
        for member in model.keys() {
            assert!(set.remove(member).is_some());
        }
        assert!(set.is_empty() && set.memory_usage() <= 128);
    }
}

/// A member of one of the kinds that are hard to tell apart: numbers behind a common beginning, beginnings of
/// each other with zeros, and beginnings longer than any prefix that is kept.
fn alike_member(kind: usize, random: &mut Random) -> Vec<u8> {
    let number = random.below(9_000);
    match kind {
        0 => format!("member:{number:012}{:130}", "").into_bytes(),
        1 => (0..random.below(14)).map(|_| [0, b'a', 255][random.below(3)]).collect(),
        _ => format!("{:a>1$}{number}", "", 245 + number % 20).into_bytes(),
    }
}

#[test]
fn members_of_equal_scores_are_found() {
    let limits = EncodingLimits::default();
    for seed in 0..6 {
        let (mut random, kind, score_count) = (Random::new(seed as u64), seed % 3, 1 + seed / 3);
        let mut set = SortedSet::new();
        let mut model: Vec<(usize, Vec<u8>)> = Vec::new();
        for round in 0..8_000 {
            let entry = (random.below(score_count), alike_member(kind, &mut random));
            let score = entry.0 as f64;
            let below = model.partition_point(|other| *other < entry);
            let is_there = model.get(below) == Some(&entry);
            assert_eq!(
                set.count_before(Boundary::BelowEntry(score, &entry.1)),
                below,
                "seed {seed} round {round}"
            );
            if score_count == 1 {
                let boundaries = (Boundary::BelowMember(&entry.1), Boundary::AboveMember(&entry.1));
                let ranks = below..below + usize::from(is_there);
                let member = set.between(boundaries.0, boundaries.1).map(|(member, _)| member);
                assert!(member.eq(is_there.then_some(&entry.1[..])), "seed {seed} round {round}");
                assert_eq!(set.ranks_between(boundaries.0, boundaries.1), ranks, "seed {seed} round {round}");
                assert_eq!(set.count_before(boundaries.1), ranks.end, "seed {seed} round {round}");
            }
            if let Borrowed::Large(tree) = set.body.get()
                && round % 32 == 0
            {
                tree.check_hints();
            }
            let is_growing = (round / 2_000) % 2 == 0;
            match random.below(100) {
                0 if is_growing => {
                    let bulk = model.iter().map(|(score, member)| (&member[..], *score as f64)).collect();
                    set = SortedSet::from_entries(bulk, &limits);
                }
                0..20 if !is_growing => {
                    let end = model.len().min(below + random.below(60));
                    model.drain(below..end);
                    set.remove_ranks(below..end);
                }
                0..85 if !is_there => {
                    let old = set.update(&entry.1, &limits, |_| Some(score));
                    model.retain(|other| old.is_none() || other.1 != entry.1);
                    let below = model.partition_point(|other| *other < entry);
                    model.insert(below, entry);
                }
                _ if is_there => {
                    assert_eq!(set.remove(&entry.1), Some(score), "seed {seed}");
                    model.remove(below);
                }
                _ => {}
            }
        }
        let all = model.iter().map(|(score, member)| (&member[..], *score as f64));
        assert!(set.iter().eq(all), "seed {seed}");
    }
}

#[test]
fn a_member_that_gets_the_score_of_the_next_leaf_is_before_it() {
    let limits = EncodingLimits::default();
    // For some of these numbers the first leaf ends where the last but one score does.
    for below in 40..240 {
        let mut set = SortedSet::new();
        let low: Vec<String> = (0..below).map(|number| format!("z{number:03}")).collect();
        let high: Vec<String> = (41..141).map(|number| format!("a{number:03}")).collect();
        low.iter().for_each(|member| _ = set.insert(member.as_bytes(), 1.0, &limits));
        set.insert(b"a020", 1.5, &limits);
        set.insert(b"a000", 2.0, &limits);
        high.iter().for_each(|member| _ = set.insert(member.as_bytes(), 2.0, &limits));
        set.remove(b"a000");
        for member in ["a020", "a010", "a030"] {
            set.insert(member.as_bytes(), 2.0, &limits);
            if let Borrowed::Large(tree) = set.body.get() {
                tree.check_hints();
            }
        }
        let expected = low.iter().map(String::as_str).chain(["a010", "a020", "a030"]);
        let expected = expected.chain(high.iter().map(String::as_str)).map(str::as_bytes);
        assert!(set.iter().map(|(member, _)| member).eq(expected), "{below} below");
    }
}

#[test]
fn equal_scores_are_ordered_by_member() {
    let limits = EncodingLimits::default();
    let mut set = SortedSet::new();
    for number in 0..5000 {
        set.insert(format!("m{number:04}").as_bytes(), 1.0, &limits);
    }
    for number in [0, 1, 63, 64, 2500, 4999] {
        let member = format!("m{number:04}");
        assert_eq!(set.count_before(Boundary::BelowMember(member.as_bytes())), number);
        assert_eq!(set.count_before(Boundary::AboveMember(member.as_bytes())), number + 1);
    }
    for (low, high) in [(0, 0), (10, 12), (10, 4000), (4999, 4999), (4000, 10), (0, 4999)] {
        let (first, last) = (format!("m{low:04}"), format!("m{high:04}"));
        let boundaries = (Boundary::BelowMember(first.as_bytes()), Boundary::AboveMember(last.as_bytes()));
        assert_eq!(set.ranks_between(boundaries.0, boundaries.1), low..(high + 1).max(low));
        assert_eq!(set.ranks_between(Boundary::AboveMember(first.as_bytes()), boundaries.0).len(), 0);
    }
    assert_eq!(set.ranks_between(Boundary::BelowMember(b"a"), Boundary::BelowMember(b"b")), 0..0);
    assert_eq!(set.ranks_between(Boundary::BelowMember(b"y"), Boundary::AboveMember(b"z")), 5000..5000);
    assert_eq!(set.count_before(Boundary::AboveMember(b"z")), 5000);
    assert_eq!((set.count_before(Boundary::Start), set.count_before(Boundary::End)), (0, 5000));
}

#[test]
fn the_encoding_follows_the_thresholds() {
    let limits = EncodingLimits::default();
    let mut set = SortedSet::new();
    for number in 0..128 {
        set.insert(format!("{number}").as_bytes(), -0.0, &limits);
    }
    assert_eq!((set.encoding(), set.score(b"5").map(f64::to_bits)), ("listpack", Some(0)));
    set.insert(b"one more", -0.0, &limits);
    assert_eq!((set.encoding(), set.score(b"one more").map(f64::to_bits)), ("skiplist", Some(1 << 63)));
    set.remove_ranks(0..128);
    assert_eq!((set.encoding(), set.len()), ("skiplist", 1));
    let mut set = SortedSet::new();
    set.insert(&[b'x'; 64], 1.0, &limits);
    assert_eq!(set.encoding(), "listpack");
    set.insert(&[b'x'; 65], 1.0, &limits);
    assert_eq!(set.encoding(), "skiplist");
    set.remove(&[b'x'; 65]);
    set.settle(&limits);
    assert_eq!(set.encoding(), "listpack");
}

#[test]
fn a_member_costs_few_bytes() {
    let limits = EncodingLimits::default();
    let mut random = Random::new(1);
    let (mut rising, mut mixed) = (SortedSet::new(), SortedSet::new());
    for number in 0..60_000_u32 {
        let member = format!("member:{number:012}");
        rising.insert(member.as_bytes(), f64::from(number), &limits);
        mixed.insert(member.as_bytes(), random.next() as f64 / 1e9, &limits);
        let len = number as usize + 1;
        if len >= 10_000 && len.is_multiple_of(10_000) {
            let per_member = |set: &SortedSet| set.memory_usage() as f64 / len as f64;
            let (rising, mixed) = (per_member(&rising), per_member(&mixed));
            assert!((30.0..33.5).contains(&rising) && (35.0..39.0).contains(&mixed), "{rising} {mixed}");
        }
    }
}

#[test]
fn what_is_left_of_many_members_is_taken_away_whole() {
    let limits = EncodingLimits::default();
    let member = |number: u32| format!("{number:0120}").into_bytes();
    let mut set = SortedSet::new();
    for round in 0..2 {
        (0..60_000).for_each(|number| _ = set.insert(&member(number), f64::from(number), &limits));
        assert!(set.take_rest().is_none());
        let mut rests = 0;
        for number in 5..60_000 {
            set.remove(&member(number));
            rests += usize::from(set.take_rest().is_some());
            assert!(rests == 0 || set.len() <= UNTREED_ENTRIES, "number {number}, round {round}");
        }
        assert_eq!(rests, 1);
        let left: Vec<_> = set.iter().map(|(member, score)| (member.to_vec(), score)).collect();
        assert_eq!(left, (0..5).map(|number| (member(number), f64::from(number))).collect::<Vec<_>>());
        assert_eq!(set.encoding(), "skiplist");
        assert!(set.memory_usage() < 2000);
    }
    // One that was never large is not left to anybody.
    let mut set = SortedSet::new();
    (0..1000).for_each(|number| assert!(set.insert(&member(number), 1.0, &limits)));
    (0..1000).for_each(|number| assert!(set.remove(&member(number)).is_some()));
    assert!(set.take_rest().is_none() && set.is_empty() && set.memory_usage() == 0);
}

#[test]
fn clones_stay_as_they_were() {
    let limits = EncodingLimits::default();
    let plan = Plan { members: 4000, scores: 5000, member_bytes_max: 30, limits };
    for seed in 0..3 {
        let mut random = Random::new(seed);
        let (mut set, mut model) = (SortedSet::new(), Model::new());
        let mut held: Vec<(SortedSet, Model)> = Vec::new();
        for round in 0..6000 {
            step(&mut set, &mut model, &plan, &mut random, (round / 2000) % 2 == 0);
            if random.below(300) == 0 {
                held.push((set.clone(), model.clone()));
            }
            if random.below(900) == 0 && !held.is_empty() {
                // A clone goes on where the original was, and the original becomes a clone.
                let at = random.below(held.len());
                std::mem::swap(&mut set, &mut held[at].0);
                std::mem::swap(&mut model, &mut held[at].1);
            }
            if held.len() > 6 {
                let (clone, model) = held.remove(0);
                assert_equal(&clone, &model, &plan, &mut random, &format!("seed {seed} round {round}"));
                std::thread::spawn(move || drop(clone)).join().expect("dropping does not panic");
            }
        }
        held.iter().for_each(|(clone, model)| assert_equal(clone, model, &plan, &mut random, "held"));
        assert_equal(&set, &model, &plan, &mut random, "set");
    }
}

#[test]
fn scanning_meets_all_that_stays() {
    let limits = EncodingLimits::default();
    for seed in 0..2 {
        let mut random = Random::new(seed);
        let mut set = SortedSet::new();
        for number in 0..1000 {
            set.insert(format!("stays{number}").as_bytes(), random.below(50) as f64, &limits);
        }
        let grows = seed % 2 == 0;
        let mut passing = if grows { 0 } else { 5000 };
        for number in 0..passing {
            set.insert(format!("goes{number}").as_bytes(), number as f64, &limits);
        }
        let (mut seen, mut cursor) = (HashSet::new(), 0);
        loop {
            cursor = set.scan(cursor, 10, |member, _| _ = seen.insert(member.to_vec()));
            if cursor == 0 {
                break;
            }
            for _ in 0..random.below(400) {
                // Scores of members that stay change, and with them their leaves.
                let member = format!("stays{}", random.below(1000));
                set.insert(member.as_bytes(), random.below(50) as f64, &limits);
                if grows && passing < 10_000 {
                    set.insert(format!("goes{passing}").as_bytes(), random.below(50) as f64, &limits);
                    passing += 1;
                } else if !grows && passing > 0 {
                    passing -= 1;
                    assert!(set.remove(format!("goes{passing}").as_bytes()).is_some());
                }
            }
        }
        assert!((0..1000).all(|number| seen.contains(format!("stays{number}").as_bytes())), "seed {seed}");
    }
}

#[test]
fn a_builder_takes_members_in_any_order_and_none_twice() {
    let limits = EncodingLimits::default();
    let plan = Plan { members: 1, scores: 1, member_bytes_max: 1, limits: limits.clone() };
    for (seed, count) in [0, 1, 100, 129, 1_023, 1_024, 5_000].into_iter().enumerate() {
        let mut random = Random::new(seed as u64);
        let scores = if seed % 2 == 0 { 50 } else { 1 << 40 };
        let mut model = Model::new();
        for number in 0..count {
            let mut member = format!("member:{number}").into_bytes();
            member.resize(member.len() + if number % 1_000 == 7 { 70_000 } else { number % 3 }, b'.');
            model.insert(member, random.below(scores) as f64 / 8.0 - 3.0);
        }
        let rising = sorted(&model);
        let build = |entries: &mut dyn Iterator<Item = (&[u8], f64)>| {
            let mut builder = SortedSetBuilder::new();
            for (member, score) in entries {
                builder.member(member);
                builder.score(score);
            }
            builder.finish(&limits)
        };
        let mixed = || rising.iter().rev().skip(count / 2).chain(rising.iter().rev().take(count / 2));
        for order in 0..3 {
            let set = match order {
                0 => build(&mut rising.iter().rev().copied()),
                1 => build(&mut rising.iter().copied()),
                _ => build(&mut mixed().copied()),
            };
            let mut set = set.expect("nothing is twice");
            let context = format!("{count} in order {order}");
            assert_equal(&set, &model, &plan, &mut random, &context);
            let is_small = count <= limits.sorted_set_entries_max && count < 8;
            assert_eq!(set.encoding(), if is_small { "listpack" } else { "skiplist" }, "{context}");
            for (member, _) in rising.iter().step_by(3) {
                assert!(set.remove(member).is_some(), "{context}");
            }
        }
        // Once more with another score, near its first place and at the end.
        for at in (count > 2).then(|| [count - 1, count / 2, 0]).into_iter().flatten() {
            let (member, score) = rising[at];
            for lower in [score, score - 1e-9, -1e9] {
                let mut entries: Vec<_> = rising.iter().rev().copied().collect();
                entries.push((member, lower));
                entries.sort_by(|one, two| two.1.total_cmp(&one.1).then_with(|| two.0.cmp(one.0)));
                assert!(build(&mut entries.into_iter()).is_none(), "{count}: {at}");
            }
        }
    }
}

#[test]
fn runs_have_what_entries_have() {
    let limits = EncodingLimits::default();
    let mut set = SortedSet::new();
    for number in 0..2000_u32 {
        let member = "m".repeat(1 + number as usize % 300) + &number.to_string();
        set.insert(member.as_bytes(), f64::from(number % 97) / 7.0, &limits);
        if number % 211 != 3 {
            continue;
        }
        for ranks in [0..set.len(), 1..set.len() / 2, set.len() / 3..set.len() - 1, 2..2] {
            let (mut found, mut members) = (Vec::new(), set.range(ranks.clone()));
            while let Some(run) = members.next_run() {
                let (mut rest, scores) = (run.members(), run.scores());
                for (length, score) in run.lengths().zip(scores) {
                    let (member, after) = rest.split_at(length);
                    found.push((member.to_vec(), score));
                    rest = after;
                }
                assert!(rest.is_empty());
                if let Some(lengths) = run.short_lengths() {
                    assert!(lengths.iter().map(|&length| usize::from(length)).eq(run.lengths()));
                }
            }
            assert!(found.into_iter().eq(set.range(ranks).map(|(member, score)| (member.to_vec(), score))));
        }
    }
}
