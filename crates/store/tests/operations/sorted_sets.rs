//! Sorted sets against a standard map and a sorted vector.

use std::collections::BTreeMap;

use mantissa_store::{Boundary, SortedSet};

use super::{Choices, Clones};

/// Most members that one operation adds.
const RUN_MAX: usize = 150;

type Model = BTreeMap<Vec<u8>, f64>;
type IsBefore<'a> = dyn Fn(&(&[u8], f64)) -> bool + 'a;

fn sorted(model: &Model) -> Vec<(&[u8], f64)> {
    let mut all: Vec<(&[u8], f64)> = model.iter().map(|(member, &score)| (&member[..], score)).collect();
    all.sort_by(|one, two| one.1.total_cmp(&two.1).then_with(|| one.0.cmp(two.0)));
    all
}

/// A score of which there are few, so that many members share one.
fn score(choice: u8) -> f64 {
    match choice {
        0 => f64::NEG_INFINITY,
        255 => f64::INFINITY,
        1..40 => f64::from(choice),
        _ => f64::from(choice) / 7.0 - 20.0,
    }
}

fn check(set: &SortedSet, model: &Model) {
    let all = sorted(model);
    assert_eq!(set.len(), all.len());
    assert!(set.iter().eq(all.iter().copied()));
    assert!(set.iter().rev().eq(all.iter().rev().copied()));
    for (rank, &(member, score)) in all.iter().enumerate().step_by(1 + all.len() / 200) {
        assert_eq!(set.rank(member), Some((rank, score)));
    }
    let mut scanned = Model::new();
    let mut cursor = 0;
    loop {
        cursor = set.scan(cursor, 10, |member, score| _ = scanned.insert(member.to_vec(), score));
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(&scanned, model);
}

/// Compares what lies between two places.
fn check_cuts(set: &SortedSet, model: &Model, bound: f64, member: &[u8]) {
    let all = sorted(model);
    let count = |is_before: &IsBefore<'_>| all.iter().filter(|entry| is_before(entry)).count();
    let below = set.count_before(Boundary::BelowScore(bound));
    let above = set.count_before(Boundary::AboveScore(bound));
    assert_eq!(below, count(&|entry| entry.1 < bound));
    assert_eq!(above, count(&|entry| entry.1 <= bound));
    let within = set.count_before(Boundary::BelowEntry(bound, member));
    assert_eq!(within, count(&|entry| entry.1 < bound || (entry.1 == bound && entry.0 < member)));
    assert!(set.range(below..above).eq(all[below..above].iter().copied()));
    assert!(set.range(within..above).rev().eq(all[within..above].iter().rev().copied()));
    assert_eq!(set.get(above), all.get(above).copied());
    assert_eq!((set.count_before(Boundary::Start), set.count_before(Boundary::End)), (0, all.len()));
}

/// Does to a sorted set and some clones of it what the bytes say.
pub fn sorted_set_operations(data: &[u8]) {
    let mut choices = Choices(data);
    let Some(limits) = choices.limits() else { return };
    let mut sets = Clones::<SortedSet, Model>::new();
    while let (Some(operation), Some(text), Some(choice)) = (choices.next(), choices.text(), choices.next()) {
        let (set, model) = sets.chosen(operation);
        match operation % 16 {
            0..5 => {
                assert_eq!(
                    set.insert(&text, score(choice), &limits),
                    model.insert(text, score(choice)).is_none()
                );
            }
            5 => {
                for number in 0..usize::from(choice) * RUN_MAX / 255 {
                    let (member, score) = (format!("run:{choice}:{number}"), score((number % 97) as u8));
                    set.insert(member.as_bytes(), score, &limits);
                    model.insert(member.into_bytes(), score);
                }
            }
            6 => {
                let old = set.update(&text, &limits, |old| old.map(|old| old + 0.25));
                assert_eq!(old, model.get(&text).copied());
                model.entry(text).and_modify(|score| *score += 0.25);
            }
            7..9 => assert_eq!(set.remove(&text), model.remove(&text)),
            9 => {
                let Some(from) = choices.number() else { break };
                let from = from % (model.len() + 1);
                let ranks = from..from + usize::from(choice);
                let gone: Vec<Vec<u8>> =
                    set.range(ranks.clone()).map(|(member, _)| member.to_vec()).collect();
                set.remove_ranks(ranks.clone());
                assert_eq!(gone.len(), ranks.end.min(model.len()) - from);
                assert!(gone.iter().all(|member| model.remove(member).is_some()));
            }
            10 => assert_eq!(set.score(&text), model.get(&text).copied()),
            11 => check_cuts(set, model, score(choice), &text),
            12 => {
                *set = SortedSet::from_entries(
                    model.iter().map(|(member, &score)| (&member[..], score)).collect(),
                    &limits,
                );
                set.settle(&limits);
            }
            13 => check(set, model),
            14 => _ = set.compact(0),
            _ => sets.clone_chosen(operation, check),
        }
    }
    sets.check(check);
    for (set, model) in sets.0 {
        let mut rest = sorted(&model);
        set.into_each_reversed(&mut |member, score| assert_eq!(rest.pop(), Some((member, score))));
        assert!(rest.is_empty());
    }
}
