//! Series beside a map, for chunk sizes small enough that samples move between chunks.

use super::*;
use crate::test_random::Random;
use std::collections::BTreeMap;

fn samples_of(series: &Series, from: u64, to: u64) -> Vec<(u64, f64)> {
    let mut all = Vec::new();
    series.visit(from, to, |piece| {
        all.extend(piece.iter().map(|sample| (sample.time, sample.value)));
        true
    });
    all
}

fn check(series: &Series, model: &BTreeMap<u64, f64>, times: usize, random: &mut Random) {
    assert_eq!(series.len(), model.len() as u64);
    let (from, to) = (random.below(times) as u64, random.below(times) as u64);
    let expected: Vec<(u64, f64)> = if from <= to {
        model.range(from..=to).map(|(&time, &value)| (time, value)).collect()
    } else {
        vec![]
    };
    assert_eq!(samples_of(series, from, to), expected);
    assert_eq!(series.last().map(|last| last.time), model.keys().next_back().copied());
    assert_eq!(series.count(from, to), expected.len() as u64);
    let first = model.range(from..).next().map(|(&time, _)| time);
    assert_eq!(series.first_from(from).map(|sample| sample.time), first);
    let before = model.range(..from).next_back().map(|(&time, _)| time);
    assert_eq!(series.last_before(from).map(|sample| sample.time), before);
}

/// Changes a series and a map alike, of times below `times`, and compares them one time in `check_one_in`.
fn check_changes(seed: usize, chunk_bytes: u64, changes: usize, check_one_in: usize) {
    let mut random = Random::new(seed as u64);
    let times = 5 * changes;
    let mut series = Series::new(Options { chunk_bytes, ..Options::default() });
    let mut model = BTreeMap::new();
    for _ in 0..changes {
        let time = match random.below(3) {
            0 => random.below(times) as u64,
            _ => model.keys().next_back().map_or(0, |last| last + 1 + random.below(4) as u64),
        };
        let value = random.below(500) as f64 / 10.0;
        let (policy, _) = DuplicatePolicy::ALL[random.below(6)];
        let copy = (random.below(20 * check_one_in) == 0).then(|| (series.clone(), model.clone()));
        let result = series.add(Sample { time, value }, policy);
        match model.get(&time).copied() {
            None => {
                assert_eq!(result, Ok(()));
                model.insert(time, value);
            }
            Some(old) => match policy.merge(old, value) {
                Ok(value) => {
                    assert_eq!(result, Ok(()));
                    model.insert(time, value);
                }
                Err(refusal) => assert_eq!(result, Err(refusal)),
            },
        }
        if random.below(30 * check_one_in) == 0 {
            let (from, to) = (random.below(times) as u64, random.below(times) as u64);
            let before = model.len();
            model.retain(|&time, _| time < from || time > to);
            assert_eq!(series.remove(from, to), (before - model.len()) as u64);
        }
        if random.below(check_one_in) == 0 {
            check(&series, &model, times, &mut random);
        }
        if let Some((series, model)) = copy {
            check(&series, &model, times, &mut random);
        }
    }
    check(&series, &model, times, &mut random);
}

#[test]
fn a_series_is_a_map_from_times_to_values() {
    (0..40).for_each(|seed| check_changes(seed, 128, 600, 1));
    // Here small chunks become full ones.
    (0..4).for_each(|seed| check_changes(seed, 1024, 5000, 100));
}

#[test]
fn no_length_takes_much_memory() {
    let mut random = Random::new(1);
    let mut series = Series::new(Options::default());
    for count in 1..20_000 {
        let sample = Sample { time: 1000 * count, value: random.below(1000) as f64 / 10.0 };
        series.add(sample, DuplicatePolicy::Block).expect("is later");
        // Values of 10 bits, stamps of none; open samples, and the heads of small chunks.
        let most = 4800 + count * 14 / 10;
        assert!(series.memory_usage() as u64 <= most, "{count}: {}", series.memory_usage());
    }
    let full = series.0.chunks.iter().filter(|chunk| chunk.len() > OPEN_MAX).count();
    assert!((9..=12).contains(&full), "{full}");
}

#[test]
fn samples_older_than_retention_are_refused_and_go() {
    let mut series = Series::new(Options { chunk_bytes: 128, retention_ms: 100, ..Options::default() });
    for time in 0..1000 {
        series.add(Sample { time, value: 1.0 }, DuplicatePolicy::Block).expect("is later");
    }
    assert!(series.len() < 160, "{}", series.len());
    assert_eq!(series.count(series.oldest_kept(), u64::MAX), 101);
    let old = series.add(Sample { time: 898, value: 1.0 }, DuplicatePolicy::Last);
    assert_eq!(old, Err(Refusal::Old));
}

#[test]
fn buckets_are_those_of_single_samples() {
    for (aggregation, name) in Aggregation::ALL {
        let mut random = Random::new(aggregation as u64);
        let mut series = Series::new(Options { chunk_bytes: 128, ..Options::default() });
        let mut time = 0;
        for _ in 0..500 {
            time += 1 + random.below(20) as u64;
            let value = random.below(100) as f64;
            series.add(Sample { time, value }, DuplicatePolicy::Block).expect("is later");
        }
        for duration in [1, 7, 100, 1000, 100_000] {
            let (from_time, to_time, align) =
                (random.below(2000) as u64, 2000 + random.below(4000) as u64, 3);
            let (with_empty, is_reversed) = (random.below(2) == 0, random.below(2) == 0);
            let aggregations = [aggregation].into();
            let buckets = Buckets { aggregations, duration, align, with_empty, is_reversed };
            let run = |wants: Option<&dyn Fn(&Sample) -> bool>| {
                let mut all = Vec::new();
                buckets.of(
                    &series,
                    Asked { wants, ..Asked::all((from_time, to_time)) },
                    &mut |start, values| {
                        all.push((start, values[0].to_bits()));
                        true
                    },
                );
                all
            };
            let all = run(None);
            assert_eq!(all, run(Some(&|_| true)), "{name} {duration}");
            let mut starts: Vec<i64> = samples_of(&series, from_time, to_time)
                .iter()
                .map(|&(time, _)| bucket_start(time, duration, align))
                .collect();
            starts.dedup();
            if with_empty {
                let (mut from, mut to) = (starts[0], starts[starts.len() - 1]);
                if aggregation == Aggregation::Twa {
                    if series.last_before(from_time).is_some() {
                        from = bucket_start(from_time, duration, align);
                    }
                    if series.first_from(to_time + 1).is_some() {
                        to = bucket_start(to_time, duration, align);
                    }
                }
                starts = (from..=to).step_by(duration as usize).collect();
            }
            if is_reversed {
                starts.reverse();
            }
            assert_eq!(all.iter().map(|&(start, _)| start).collect::<Vec<_>>(), starts);
        }
    }
}

#[test]
fn the_last_bucket_has_the_largest_time() {
    const MAX: u64 = i64::MAX as u64;
    let mut series = Series::new(Options::default());
    for (time, value) in [(5, 3.0), (MAX - 1, 7.0), (MAX, 1.0)] {
        series.add(Sample { time, value }, DuplicatePolicy::Block).expect("is later");
    }
    for (aggregation, _) in Aggregation::ALL {
        for (with_empty, is_reversed) in [(false, false), (false, true), (true, false), (true, true)] {
            let aggregations: [Box<[Aggregation]>; 2] =
                [[aggregation].into(), [aggregation, Aggregation::Twa].into()];
            for aggregations in aggregations {
                let buckets = Buckets { aggregations, duration: 10, align: 0, with_empty, is_reversed };
                let from = if with_empty { MAX - 25 } else { 0 };
                let mut starts = Vec::new();
                buckets.of(&series, Asked::all((from, MAX)), &mut |start, _| {
                    starts.push(start);
                    true
                });
                starts.sort_unstable();
                let last = i64::MAX / 10 * 10;
                assert_eq!(starts.last(), Some(&last));
                assert!(with_empty || starts == [0, last], "{starts:?}");
            }
        }
    }
}

#[test]
fn late_samples_behind_one_of_the_future_become_chunks() {
    const LATE: u64 = 6000;
    let mut random = Random::new(3);
    let value_of = |time: u64| (time * 7 % 1000) as f64 / 10.0;
    for order in 0..3 {
        let mut series = Series::new(Options::default());
        let mut add = |time| {
            let added = series.add(Sample { time, value: value_of(time) }, DuplicatePolicy::Last);
            assert_eq!(added, Ok(()));
        };
        add(10 * LATE);
        let mut times = BTreeMap::new();
        for index in 0..LATE {
            let time = match order {
                0 => index,
                1 => LATE - index,
                _ => random.below(LATE as usize) as u64,
            };
            add(time);
            times.insert(time, ());
        }
        add(11 * LATE);
        times.extend([(10 * LATE, ()), (11 * LATE, ())]);
        let expected: Vec<(u64, f64)> = times.keys().map(|&time| (time, value_of(time))).collect();
        assert!(samples_of(&series, 0, u64::MAX) == expected, "order {order}");
        assert!(series.0.open.len() < 2 * OPEN_MAX, "{}", series.0.open.len());
        assert!(series.memory_usage() < 3000 + 4 * times.len(), "{order}: {}", series.memory_usage());
    }
}

impl crate::types::Sample for Series {
    fn add_sample(&mut self, text: &[u8], _: &crate::EncodingLimits) {
        let sample = Sample { time: time_of(text), value: text.len() as f64 };
        self.add(sample, DuplicatePolicy::Last).expect("nothing is too old");
    }

    fn remove_sample(&mut self, text: &[u8]) {
        self.remove(time_of(text), time_of(text));
    }
}

/// A time that hardly another text has.
fn time_of(text: &[u8]) -> u64 {
    text.iter().fold(0, |hash: u64, &byte| hash.wrapping_mul(0x100_0000_01B3).wrapping_add(u64::from(byte)))
        >> 8
}
