//! Planned insertions against those that are made at once.

use super::tests::{clustered, options};
use super::*;
use crate::test_random::Random;

/// All that follows from the changes of a set.
fn state(set: &VectorSet) -> impl PartialEq + fmt::Debug {
    let Body { graph, elements, free, last_uid, .. } = &*set.body;
    let links = |element| -> Vec<Vec<u32>> {
        (0..=graph.level(element)).map(|level| graph.links(element, level).to_vec()).collect()
    };
    let numbers = 0..elements.len() as u32;
    let free: Vec<u32> = (0..free.len()).map(|index| *free.get(index)).collect();
    let elements: Vec<_> = numbers
        .map(|element| {
            (set.name(element).to_vec(), set.uid(element), graph.rows().get(element).to_vec(), links(element))
        })
        .collect();
    (elements, free, *last_uid, graph.entry(), set.len())
}

/// Vectors that are close together, and vectors of which many are equal or equally far.
fn vector(random: &mut Random, has_ties: bool) -> Vec<f32> {
    match has_ties {
        true => (0..3).map(|_| (random.next() % 5) as f32 - 2.0).collect(),
        false => clustered(random, 16, 12),
    }
}

/// Makes several plans at a time, and applies them in any order with other changes between. Returns how many
/// were applied and how many were void.
fn run(seed: u64, links: u32, ef: usize, has_ties: bool) -> (usize, usize) {
    let mut random = Random::new(seed);
    let dimension = if has_ties { 3 } else { 16 };
    let quantization = [Quantization::Q8, Quantization::None][(seed % 2) as usize];
    let mut set = VectorSet::new(options(dimension, quantization, links));
    let mut alone = set.clone();
    let (mut pending, mut counts): (Vec<(Vec<u8>, Target, Plan)>, _) = (Vec::new(), (0, 0));
    for step in 0..4000 {
        let name = format!("{step}").into_bytes();
        let target = set.target(vector(&mut random, has_ties));
        match random.next() % 100 {
            0..=54 if set.len() > 10 => {
                let plan = set.draft().plan(&target, ef).expect("the set is not empty");
                pending.push((name, target, plan));
            }
            0..=97 => {
                set.set(&name, &target, ef);
                alone.set(&name, &target, ef);
            }
            98 => {
                if let Some(element) = set.at_rank((random.next() % 1000) as usize % set.len().max(1)) {
                    set.remove(element);
                    alone.remove(element);
                }
            }
            _ => {
                let name = set.at_rank(0).map(|element| set.name(element).to_vec()).unwrap_or_default();
                set.set(&name, &target, ef);
                alone.set(&name, &target, ef);
            }
        }
        if pending.len() > (random.next() % 6) as usize {
            let (name, target, plan) = pending.swap_remove((random.next() % pending.len() as u64) as usize);
            match set.add_planned(&name, &target, plan) {
                true => counts.0 += 1,
                false => {
                    counts.1 += 1;
                    set.set(&name, &target, ef);
                }
            }
            alone.set(&name, &target, ef);
        }
        if step % 500 == 0 {
            assert_eq!(state(&set), state(&alone), "seed {seed}, step {step}");
        }
    }
    set.body.graph.check(|element| set.body.elements.get(element as usize).text.is_there());
    assert_eq!(state(&set), state(&alone), "seed {seed}");
    counts
}

#[test]
fn planned_insertions_do_what_insertions_alone_do() {
    let mut counts = [(0, 0); 2];
    for seed in 0..12 {
        for (has_ties, sum) in [false, true].into_iter().zip(&mut counts) {
            let (applied, void) = run(seed, 4 + seed as u32 % 3 * 4, 5 + seed as usize * 3, has_ties);
            *sum = (sum.0 + applied, sum.1 + void);
        }
    }
    for (applied, void) in counts {
        assert!(applied > 3000 && void > 3000, "{counts:?}");
    }
}

#[test]
fn a_plan_for_another_set_is_void() {
    let mut random = Random::new(1);
    let mut set = VectorSet::new(options(16, Quantization::Q8, 4));
    for index in 0..50 {
        let target = set.target(vector(&mut random, false));
        set.set(format!("{index}").as_bytes(), &target, 20);
    }
    let target = set.target(vector(&mut random, false));
    let plan = |set: &mut VectorSet| set.draft().plan(&target, 20).expect("the set is not empty");
    let mut plans: Vec<Plan> = (0..4).map(|_| plan(&mut set)).collect();
    let mut next = || plans.pop().expect("there are enough");
    let mut copy = set.clone();
    assert!(!copy.add_planned(b"new", &target, next()));
    _ = copy.draft();
    assert!(!copy.add_planned(b"new", &target, next()) && copy.find(b"new").is_none() && copy.len() == 50);
    assert!(set.add_planned(b"new", &target, next()) && set.find(b"new").is_some());
    // A plan on the set as it is now may be applied, one before a removal not.
    let third = plan(&mut set);
    set.remove(set.find(b"7").expect("it is there"));
    assert!(!set.add_planned(b"newer", &target, next()) && !set.add_planned(b"newer", &target, third));
}
