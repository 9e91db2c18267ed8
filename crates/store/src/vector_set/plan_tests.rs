//! Planned insertions against those that are made at once.

use super::tests::{clustered, options};
use super::*;
use crate::test_random::Random;

/// All that follows from the changes of a set.
fn state(set: &VectorSet) -> impl PartialEq + fmt::Debug {
    let Body { graph, elements, last_uid, .. } = &*set.body;
    let links = |element| -> Vec<Vec<u32>> {
        (0..=graph.level(element)).map(|level| graph.links(element, level).to_vec()).collect()
    };
    let numbers = 0..elements.len() as u32;
    let elements: Vec<_> = numbers
        .map(|element| {
            (set.name(element).to_vec(), set.uid(element), graph.rows().get(element).to_vec(), links(element))
        })
        .collect();
    (elements, *last_uid, graph.entry(), set.len())
}

/// Which vectors there are.
#[derive(Clone, Copy, PartialEq)]
enum Vectors {
    /// Close together.
    Clustered,
    /// Many are equal or equally far.
    WithTies,
    /// The distances of some from others are not numbers.
    WithNan,
}

impl Vectors {
    fn dimension(self) -> u32 {
        if self == Vectors::WithTies { 3 } else { 16 }
    }

    fn next(self, random: &mut Random) -> Vec<f32> {
        match self {
            Vectors::WithTies => (0..3).map(|_| (random.next() % 5) as f32 - 2.0).collect(),
            Vectors::WithNan if random.next().is_multiple_of(40) => {
                let mut vector = clustered(random, 16, 12);
                vector[3] = [f32::NAN, f32::INFINITY, f32::MAX][(random.next() % 3) as usize];
                vector
            }
            _ => clustered(random, 16, 12),
        }
    }
}

/// A plan on the set as it is, if one can be made.
fn plan(set: &mut VectorSet, target: &Target, ef: usize) -> Option<Plan> {
    let draft = set.draft(ef)?;
    draft.plan(&set.clone(), target, ef)
}

/// Makes several plans at a time, and applies them in any order with other changes between. Returns how many
/// were applied and how many were void.
fn run(seed: u64, links: u32, ef: usize, vectors: Vectors) -> (usize, usize) {
    let mut random = Random::new(seed);
    let quantization = [Quantization::Q8, Quantization::None][(seed % 2) as usize];
    let mut set = VectorSet::new(options(vectors.dimension(), quantization, links));
    let mut alone = set.clone();
    let (mut pending, mut counts): (Vec<(Vec<u8>, Target, Plan)>, _) = (Vec::new(), (0, 0));
    for step in 0..1500 {
        let name = format!("{step}").into_bytes();
        let target = set.target(vectors.next(&mut random));
        match random.next() % 100 {
            0..=54 if set.len() > 10 => {
                pending.extend(plan(&mut set, &target, ef).map(|plan| (name, target, plan)));
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
        if !pending.is_empty() && pending.len() > (random.next() % 6) as usize {
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
    set.body.graph.check();
    assert_eq!(state(&set), state(&alone), "seed {seed}");
    counts
}

#[test]
fn planned_insertions_do_what_insertions_alone_do() {
    let mut counts = [(0, 0); 3];
    for seed in 0..4 {
        let kinds = [Vectors::Clustered, Vectors::WithTies, Vectors::WithNan];
        for (vectors, sum) in kinds.into_iter().zip(&mut counts) {
            let (applied, void) = run(seed, 4 + seed as u32 % 3 * 4, 5 + seed as usize * 3, vectors);
            *sum = (sum.0 + applied, sum.1 + void);
        }
    }
    for (applied, void) in counts {
        assert!(applied > 200 && void > 200, "{counts:?}");
    }
}

#[test]
fn a_plan_for_another_set_is_void() {
    let mut random = Random::new(1);
    let mut set = VectorSet::new(options(16, Quantization::Q8, 4));
    for index in 0..50 {
        let target = set.target(Vectors::Clustered.next(&mut random));
        set.set(format!("{index}").as_bytes(), &target, 20);
    }
    let target = set.target(Vectors::Clustered.next(&mut random));
    let plan = |set: &mut VectorSet| plan(set, &target, 20).expect("it can be planned");
    let mut plans: Vec<Plan> = (0..4).map(|_| plan(&mut set)).collect();
    let mut next = || plans.pop().expect("there are enough");
    let mut copy = set.clone();
    assert!(!copy.add_planned(b"new", &target, next()));
    _ = copy.draft(20);
    assert!(!copy.add_planned(b"new", &target, next()) && copy.find(b"new").is_none() && copy.len() == 50);
    assert!(set.add_planned(b"new", &target, next()) && set.find(b"new").is_some());
    // A plan on the set as it is now may be applied, one before a removal not.
    let third = plan(&mut set);
    set.remove(set.find(b"7").expect("it is there"));
    assert!(!set.add_planned(b"newer", &target, next()) && !set.add_planned(b"newer", &target, third));
}

/// A set of so many elements with M = 16 of vectors of a kind.
fn filled(random: &mut Random, len: usize, vectors: Vectors) -> VectorSet {
    let mut set = VectorSet::new(options(vectors.dimension(), Quantization::Q8, 16));
    for index in 0..len {
        let target = set.target(vectors.next(random));
        set.set(format!("{index}").as_bytes(), &target, 20);
    }
    set
}

#[test]
fn plans_stay_open_whatever_has_changed_before_them() {
    let mut random = Random::new(2);
    let mut set = filled(&mut random, 2000, Vectors::Clustered);
    let (mut open, mut applied) = (Vec::new(), 0);
    for index in 0..1000 {
        // There is an open plan all the time. None is open for more than a few insertions.
        let target = set.target(Vectors::Clustered.next(&mut random));
        let plan = plan(&mut set, &target, 20).expect("it can be planned");
        open.push((format!("new:{index}"), target, plan));
        if open.len() > 3 {
            let (name, target, plan) = open.remove(0);
            match set.add_planned(name.as_bytes(), &target, plan) {
                true => applied += 1,
                false => _ = set.set(name.as_bytes(), &target, 20),
            }
        }
        assert!(set.body.graph.journal.change_count() <= 4 * 2 * 3 * 16, "insertion {index}");
    }
    // Void are those whose neighbours have changed, or whose number has led to another level.
    assert!(applied > 500, "{applied}");
}

/// A plan. Where no other plans are open only some insertions get one.
fn planned(set: &mut VectorSet, target: &Target) -> Plan {
    (0..16).find_map(|_| plan(set, target, 20)).expect("it can be planned")
}

#[test]
fn few_insertions_are_planned_of_one_client_alone() {
    let mut random = Random::new(7);
    let mut set = filled(&mut random, 500, Vectors::Clustered);
    let mut add = |set: &mut VectorSet, name: &str| {
        let target = set.target(Vectors::Clustered.next(&mut random));
        let plan = plan(set, &target, 20);
        let is_planned = plan.is_some();
        if !plan.is_some_and(|plan| set.add_planned(name.as_bytes(), &target, plan)) {
            set.set(name.as_bytes(), &target, 20);
        }
        is_planned
    };
    let count = (0..200).filter(|index| add(&mut set, &format!("alone:{index}"))).count();
    assert!((16 + 20..16 + 28).contains(&count), "{count}");
    // While another plan is open, all are.
    let target = set.target(vec![1.0; 16]);
    let _open = planned(&mut set, &target);
    assert!((0..10).all(|index| add(&mut set, &format!("beside:{index}"))));
}

#[test]
fn a_plan_that_stays_open_does_not_keep_all_changes() {
    let mut random = Random::new(3);
    let mut set = filled(&mut random, 500, Vectors::Clustered);
    let target = set.target(Vectors::Clustered.next(&mut random));
    let old = planned(&mut set, &target);
    let mut most = 0;
    for index in 0..200 {
        let target = set.target(Vectors::Clustered.next(&mut random));
        let plan = planned(&mut set, &target);
        let name = format!("new:{index}");
        let is_planned = set.add_planned(name.as_bytes(), &target, plan);
        if !is_planned {
            set.set(name.as_bytes(), &target, 20);
        }
        most = most.max(set.body.graph.journal.change_count());
    }
    assert!(most <= 2 * 16 * 16, "{most}");
    assert!(!set.add_planned(b"old", &target, old));
    // What nobody applies any more keeps none.
    let dropped = planned(&mut set, &target);
    drop(dropped);
    let last = planned(&mut set, &target);
    assert_eq!(set.body.graph.journal.change_count(), 0);
    assert!(set.add_planned(b"last", &target, last));
}

#[test]
fn no_plan_is_made_where_a_distance_is_not_a_number() {
    let mut random = Random::new(5);
    let mut set = VectorSet::new(options(16, Quantization::None, 16));
    for index in 0..100 {
        let target = set.target(Vectors::Clustered.next(&mut random));
        set.set(format!("{index}").as_bytes(), &target, 20);
    }
    let target = set.target(Vectors::Clustered.next(&mut random));
    let strange = set.target(vec![f32::NAN; 16]);
    assert!(plan(&mut set, &target, 20).is_some() && plan(&mut set, &strange, 20).is_none());
    set.set(b"strange", &strange, 20);
    let number = set.find(b"strange").expect("it is there");
    let links = set.links(number, 0).to_vec();
    let near = set.body.graph.rows().get(links[0]).to_vec();
    assert!(plan(&mut set, &Target(near), 90).is_none());
}

#[test]
fn no_plan_is_made_that_any_change_makes_void() {
    let mut random = Random::new(4);
    let mut set = filled(&mut random, 100, Vectors::Clustered);
    assert!(set.draft(99).is_some() && set.draft(100).is_none());
    // All are equally far: plans are void as soon as another has been added. No more are made for a while.
    let mut set = VectorSet::new(options(3, Quantization::None, 4));
    let target = set.target(vec![1.0, 0.0, 0.0]);
    (0..300).for_each(|index| _ = set.set(format!("{index}").as_bytes(), &target, 20));
    let mut made = 0;
    for index in 0..200 {
        let plan = plan(&mut set, &target, 20);
        set.set(format!("between:{index}").as_bytes(), &target, 20);
        if let Some(plan) = plan {
            made += 1;
            assert!(!set.add_planned(format!("new:{index}").as_bytes(), &target, plan));
        }
    }
    assert!((1..20).contains(&made), "{made}");
}

#[test]
fn a_plan_that_is_stalled_does_not_mislead_others() {
    let mut random = Random::new(6);
    let mut set = filled(&mut random, 500, Vectors::Clustered);
    let target = set.target(Vectors::Clustered.next(&mut random));
    let _stalled = plan(&mut set, &target, 20);
    for index in 0..300 {
        let target = set.target(Vectors::Clustered.next(&mut random));
        let plan = planned(&mut set, &target);
        // The first ones expect that the stalled one comes first.
        let is_applied = set.add_planned(format!("new:{index}").as_bytes(), &target, plan);
        assert!(is_applied || index < 2, "{index}");
        if !is_applied {
            set.set(format!("new:{index}").as_bytes(), &target, 20);
        }
    }
}
