//! Vector sets against maps, and what a file may bring.

use std::collections::BTreeMap;

use super::*;
use crate::test_random::Random;
use crate::types::Sample;

impl Sample for VectorSet {
    fn add_sample(&mut self, text: &[u8], _: &crate::EncodingLimits) {
        if self.dimension() == 0 {
            *self = VectorSet::new(options(3, Quantization::Q8, 4));
        }
        let vector = (0..3).map(|index| f32::from(text.get(index).copied().unwrap_or(1)) - 60.0).collect();
        self.set(text, &self.target(vector), 10);
    }

    fn remove_sample(&mut self, text: &[u8]) {
        if let Some(element) = self.find(text) {
            self.remove(element);
        }
    }
}

pub(super) fn options(dimension: u32, quantization: Quantization, links: u32) -> VectorSetOptions {
    VectorSetOptions { dimension, quantization, links, projection: None }
}

/// A vector near one of so many centres.
pub(super) fn clustered(random: &mut Random, dimension: usize, centres: u64) -> Vec<f32> {
    let centre = random.next() % centres;
    (0..dimension as u64)
        .map(|index| {
            let base = (centre * 31 + index).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            base as f32 / (1 << 23) as f32 - 1.0 + (random.next() % 1000) as f32 / 1500.0
        })
        .collect()
}

fn search(ef: usize, count: usize) -> Search<'static> {
    Search { count, ef, filter: None, expanded_max: usize::MAX }
}

fn check(set: &VectorSet, model: &BTreeMap<Vec<u8>, (Vec<f32>, Vec<u8>)>) {
    set.body.graph.check();
    let names: Vec<&[u8]> = set.from_rank(0).map(|element| set.name(element)).collect();
    assert!(names.iter().copied().eq(model.keys().map(Vec::as_slice)));
    assert_eq!((set.len(), set.elements().count()), (model.len(), model.len()));
    let mut text_bytes = 0;
    for (rank, (name, (vector, attribute))) in model.iter().enumerate() {
        let element = set.find(name).expect("it is there");
        assert_eq!((set.name(element), set.attribute(element)), (&name[..], &attribute[..]));
        assert_eq!((set.rank(name), set.at_rank(rank)), (rank, Some(element)));
        assert_eq!(set.body.graph.rows().get(element)[1..], set.target(vector.clone()).0[1..]);
        text_bytes += set.body.elements.get(element as usize).text.0.memory_usage();
    }
    assert_eq!(text_bytes, set.body.text_bytes);
    let with = model.values().filter(|(_, attribute)| !attribute.is_empty()).count();
    assert_eq!(set.attribute_count(), with);
}

#[test]
fn random_changes_are_those_of_a_map_and_clones_stay() {
    for (seed, quantization) in
        [(1, Quantization::Q8), (2, Quantization::None), (3, Quantization::Binary), (4, Quantization::Q8)]
    {
        let mut random = Random::new(seed);
        let mut set = VectorSet::new(options(24, quantization, 4));
        let (mut model, mut clones) = (BTreeMap::new(), Vec::new());
        for step in 0..3000 {
            let grows = step % 1000 < 600;
            let name = format!("element:{}", random.next() % 400).into_bytes();
            match random.next() % 10 {
                0..=5 if grows => {
                    let vector = clustered(&mut random, 24, 8);
                    let is_new = set.set(&name, &set.target(vector.clone()), 20);
                    assert_eq!(is_new, !model.contains_key(&name));
                    model.entry(name).or_insert((Vec::new(), Vec::new())).0 = vector;
                }
                6 | 7 => {
                    if let (Some(element), Some(entry)) = (set.find(&name), model.get_mut(&name)) {
                        entry.1 = vec![b'x'; (random.next() % 40) as usize];
                        set.set_attribute(element, &entry.1);
                    }
                }
                8 if random.next().is_multiple_of(50) => clones.push((set.clone(), model.clone())),
                _ => {
                    let found = set.find(&name);
                    assert_eq!(found.is_some(), model.remove(&name).is_some());
                    found.into_iter().for_each(|element| set.remove(element));
                }
            }
            if step % 250 == 0 {
                check(&set, &model);
            }
        }
        check(&set, &model);
        clones.iter().for_each(|(set, model)| check(set, model));
        let many = set.memory_usage();
        for (index, name) in model.keys().enumerate() {
            set.remove(set.find(name).expect("it is there"));
            // Besides small parts, it takes what its elements take.
            let most = 6000 + 2 * many * set.len() / model.len();
            assert!(set.memory_usage() < most, "{} after {index} of {}", set.memory_usage(), model.len());
        }
        check(&set, &BTreeMap::new());
        assert!(set.is_empty() && set.body.graph.entry().is_none());
    }
}

fn filled(len: usize, dimension: u32, quantization: Quantization) -> VectorSet {
    let mut random = Random::new(9);
    let mut set = VectorSet::new(options(dimension, quantization, 16));
    for index in 0..len {
        let vector = clustered(&mut random, dimension as usize, 8);
        set.set(format!("{index}").as_bytes(), &set.target(vector), 200);
    }
    set
}

fn recall(set: &VectorSet, ef: usize) -> f64 {
    let mut random = Random::new(10);
    let mut found = 0;
    for _ in 0..50 {
        let target = set.target(clustered(&mut random, set.dimension() as usize, 8));
        let exact = set.search_all(&target, 10, |_| true);
        let worst = exact.last().map_or(2.0, |last| last.distance);
        let approximate = set.search(&target, search(ef, 10));
        assert!(approximate.is_sorted_by(|one, other| one.distance <= other.distance));
        found += approximate.iter().filter(|near| near.distance <= worst).count();
    }
    found as f64 / 500.0
}

#[test]
fn searches_find_nearly_all_of_the_nearest_also_after_removals() {
    for quantization in [Quantization::Q8, Quantization::None] {
        let mut set = filled(1500, 32, quantization);
        assert!(recall(&set, 100) > 0.98, "{}", recall(&set, 100));
        for index in (0..1500).filter(|index| index % 3 != 0) {
            set.remove(set.find(format!("{index}").as_bytes()).expect("it is there"));
        }
        assert!(recall(&set, 100) > 0.97, "{}", recall(&set, 100));
        let target = set.target(vec![1.0; 32]);
        let mut odd = |element: u32| element % 2 == 1;
        let filtered = Search { filter: Some(&mut odd), ..search(100, 10) };
        let found = set.search(&target, filtered);
        assert!(found.len() == 10 && found.iter().all(|near| near.element % 2 == 1));
    }
}

#[test]
fn searches_find_the_right_one_of_many_clusters() {
    let mut random = Random::new(11);
    let mut set = VectorSet::new(options(32, Quantization::Q8, LINKS_MIN));
    for index in 0..3000 {
        let vector = clustered(&mut random, 32, 100);
        set.set(format!("{index}").as_bytes(), &set.target(vector), 100);
    }
    let is_lost = |_: &u32| {
        let target = set.target(clustered(&mut random, 32, 100));
        let tenth = set.search_all(&target, 10, |_| true)[9].distance;
        set.search(&target, search(20, 10)).iter().all(|near| near.distance > tenth)
    };
    let lost = (0..300).filter(is_lost).count();
    assert!(lost <= 3, "{lost} of 300 searches ended elsewhere");
}

#[test]
fn the_same_steps_make_the_same_graph() {
    let (one, other) = (filled(300, 16, Quantization::Q8), filled(300, 16, Quantization::Q8));
    for element in one.elements() {
        for level in 0..=one.level(element) {
            assert!(one.neighbours(element, level).eq(other.neighbours(element, level)));
        }
    }
}

#[test]
fn strange_vectors_are_at_distances() {
    for quantization in [Quantization::Q8, Quantization::None, Quantization::Binary] {
        let mut set = VectorSet::new(options(3, quantization, 4));
        let odd = [[f32::NAN, 1.0, 2.0], [f32::INFINITY, 1.0, 2.0], [0.0; 3], [f32::MAX; 3], [1e-45; 3]];
        for round in 0..20 {
            for (index, vector) in odd.iter().enumerate() {
                set.set(&[index as u8, round], &set.target(vector.to_vec()), 10);
            }
        }
        for vector in odd {
            let target = set.target(vector.to_vec());
            assert_eq!(set.search_all(&target, 100, |_| true).len(), 100);
            let found = set.search(&target, search(200, 100)).len();
            assert!(found > 50, "{quantization:?} {found} {vector:?}");
        }
        set.elements().rev().for_each(|element| set.remove(element));
        assert!(set.is_empty());
    }
}

/// Name, vector, range and length, place, and links of an element, as a file has them.
type Part = (Vec<u8>, Vec<u8>, (f32, f32), u64, Vec<Vec<u64>>);

/// Everything about a set, as a file has it.
fn unloaded(set: &VectorSet) -> Vec<Part> {
    let each = set.elements().map(|element| {
        let mut vector = Vec::new();
        set.put_vector_bytes(element, &mut vector);
        let uids = |level| set.neighbours(element, level).map(|near| set.uid(near.element)).collect();
        let links = (0..=set.level(element)).map(uids).collect();
        (set.name(element).to_vec(), vector, set.range_and_length(element), set.uid(element), links)
    });
    each.collect()
}

#[test]
fn a_set_that_is_loaded_is_the_same_and_damage_is_refused() {
    let set = filled(200, 20, Quantization::Q8);
    let parts = unloaded(&set);
    let load = |parts: &[Part]| {
        let mut builder = VectorSetBuilder::new(options(20, Quantization::Q8, 16), parts.len() as u64);
        for (name, vector, (range, length), uid, links) in parts {
            let (range, length, uid) = (*range, *length, *uid);
            builder.push(LoadedElement { name, attribute: b"", vector, range, length, uid, links })?;
        }
        builder.finish()
    };
    let loaded = load(&parts).expect("it is whole");
    loaded.body.graph.check();
    for (name, vector, head, uid, links) in &parts {
        let element = loaded.find(name).expect("it is there");
        let mut bytes = Vec::new();
        loaded.put_vector_bytes(element, &mut bytes);
        assert_eq!((&bytes, loaded.range_and_length(element), loaded.uid(element)), (vector, *head, *uid));
        for (level, links) in links.iter().enumerate() {
            let found = loaded.neighbours(element, level as u8).map(|near| loaded.uid(near.element));
            assert!(found.eq(links.iter().copied()));
        }
    }
    assert_eq!((loaded.last_uid(), loaded.top_level()), (set.last_uid(), set.top_level()));
    type Damage = fn(&mut [Part]);
    let damages: [Damage; 9] = [
        |parts| parts[3].0 = parts[4].0.clone(),
        |parts| _ = parts[3].1.pop(),
        |parts| parts[3].3 = parts[4].3,
        |parts| parts[3].3 = u64::MAX,
        |parts| parts[3].4[0][0] = 1 << 40,
        |parts| parts[3].4[0][0] = parts[3].3,
        |parts| parts[3].4[0][0] = parts[3].4[0][1],
        |parts| parts[3].4 = Vec::new(),
        |parts| parts[3].4.resize(17, Vec::new()),
    ];
    for (index, damage) in damages.into_iter().enumerate() {
        let mut damaged = parts.clone();
        damage(&mut damaged);
        assert!(load(&damaged).is_err(), "{index}");
    }
    // A link that the other side lacks is left out.
    let mut damaged = parts.clone();
    let lost = damaged[3].4[0].pop().expect("it has links");
    let one_sided = load(&damaged).expect("the rest is whole");
    one_sided.body.graph.check();
    let other = parts.iter().find(|part| part.3 == lost).expect("it is there");
    assert_eq!(one_sided.neighbours(one_sided.find(&other.0).expect("there"), 0).len(), other.4[0].len() - 1);
}

#[test]
fn a_projection_keeps_angles_about() {
    let projection = Projection::new(4, 2);
    assert_eq!(projection.apply(&[1.0, 2.0, 3.0, 4.0]), [5.0, -1.0]);
    let mut bytes = Vec::new();
    projection.put_bytes(&mut bytes);
    assert_eq!(Projection::from_bytes(4, 2, &bytes), Some(projection));
    assert_eq!(Projection::from_bytes(4, 3, &bytes), None);
    assert_eq!(Projection::from_bytes(0, 2, b""), None);
    assert_eq!(Projection::from_bytes(u32::MAX, u32::MAX, b""), None);
}
