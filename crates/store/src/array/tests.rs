//! Arrays beside a standard map.

use std::collections::BTreeMap;

use super::*;
use crate::test_random::Random;

type Model = BTreeMap<u64, Vec<u8>>;

fn contents(array: &Array) -> Model {
    let mut model = Model::new();
    array.visit(0, INDEX_END, |index, element| {
        model.insert(index, element.text(&mut [0; ELEMENT_TEXT_MAX]).to_vec());
        true
    });
    model
}

/// What is counted is what there is.
fn check(array: &Array) {
    let Borrowed::Large(body) = array.body.get() else { return };
    let mut again = Body::default();
    for block in body.blocks.iter() {
        assert!(block.len() > 0);
        block.check();
        again.account(block);
    }
    assert_eq!((body.count, body.texts, body.block_bytes), (again.count, again.texts, again.block_bytes));
}

fn set(array: &mut Array, index: u64, text: &[u8]) -> bool {
    array.set(index, Element::of(text))
}

#[test]
fn a_huge_index_takes_what_any_other_does() {
    let mut array = Array::new();
    for index in [0, 1 << 63, INDEX_END - 1] {
        assert!(set(&mut array, index, b"x"));
    }
    assert!(!array.is_large_form() && array.memory_usage() <= 96, "{}", array.memory_usage());
    assert_eq!((array.count(), array.len()), (3, INDEX_END));
    for number in 0..100 {
        set(&mut array, (1 << 62) + number * (1 << 40), b"a text of some length");
    }
    assert!(array.is_large_form() && array.memory_usage() < 40_000, "{}", array.memory_usage());
    assert_eq!((array.count(), array.len()), (103, INDEX_END));
    let (count, rest) = array.remove_range(1, INDEX_END);
    assert_eq!((count, rest.count(), array.count(), array.len()), (102, 102, 1, 1));
    check(&array);
}

#[test]
fn numbers_take_eight_bytes() {
    let mut array = Array::new();
    for index in 0..100_000 {
        set(&mut array, index, (index * 7).to_string().as_bytes());
    }
    check(&array);
    let bytes = array.memory_usage() as f64 / 100_000.0;
    assert!(bytes < 10.0, "{bytes} bytes of an element");
}

#[test]
fn a_small_array_becomes_a_large_one_and_keeps_its_cursor() {
    let mut array = Array::new();
    array.set_cursor(Some(7));
    assert_eq!((array.cursor(), array.count(), array.len()), (Some(7), 0, 0));
    for index in 0..=small::ELEMENTS_MAX as u64 {
        assert!(!array.is_large_form());
        set(&mut array, index * 3, b"1.5");
    }
    assert!(array.is_large_form());
    assert_eq!(array.cursor(), Some(7));
    array.set_cursor(None);
    assert_eq!(array.cursor(), None);
    let mut array = Array::new();
    set(&mut array, 5, &[b'x'; 1000]);
    assert!(array.is_large_form());
}

#[test]
fn slices_are_those_of_redis() {
    let mut array = Array::new();
    let mut facts = Vec::new();
    for index in [3, 5, 4095, 4096, 1 << 40] {
        set(&mut array, index, b"x");
    }
    array.visit_slices(|slice| facts.push((slice.id, slice.count, slice.span)));
    assert_eq!(facts, [(0, 3, 4093), (1, 1, 1), (1 << 28, 1, 1)]);
    assert_eq!((array.redis_free_effort(64), array.redis_free_effort(1)), (3, 2));
    for index in 0..100 {
        set(&mut array, 100 + index, b"x");
    }
    assert_eq!((array.redis_free_effort(64), array.redis_free_effort(1)), (3, 2));
}

#[test]
fn does_as_a_sorted_map_does_and_clones_stay() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let (mut array, mut model) = (Array::new(), Model::new());
        let mut clones: Vec<(Array, Model)> = Vec::new();
        let span = [40, 700, 40_000, u64::MAX][random.below(4)];
        for round in 0..1500 {
            let index = random.next() % span;
            let text = match random.below(5) {
                0 => (random.next() as i64 >> random.below(64)).to_string().into_bytes(),
                1 => format!("{}.{}", random.below(100), random.below(1000)).into_bytes(),
                2 => vec![b's'; random.below(9)],
                _ => vec![b't'; random.below(90)],
            };
            match random.below(12) {
                0..7 => assert_eq!(set(&mut array, index, &text), model.insert(index, text).is_none()),
                7 => assert_eq!(array.remove(index), model.remove(&index).is_some()),
                8 if round % 7 == 0 => {
                    let to = index.saturating_add(random.next() % (span / 4 + 1));
                    let (count, rest) = array.remove_range(index, to);
                    let kept = |at: &u64| !(index..=to).contains(at);
                    let before = model.len();
                    model.retain(|at, _| kept(at));
                    assert_eq!(count as usize, before - model.len());
                    assert!(rest.count() <= count);
                    check(&rest);
                }
                9 if clones.len() < 4 => clones.push((array.clone(), model.clone())),
                10 if clones.len() > 2 => {
                    let (clone, model) = clones.remove(0);
                    assert_eq!(contents(&clone), model);
                }
                _ => {
                    let to = random.next() % span;
                    let mut expected: Vec<u64> =
                        model.range(index.min(to)..=index.max(to)).map(|(at, _)| *at).collect();
                    assert_eq!(array.count_in(index, to), expected.len() as u64);
                    if index > to {
                        expected.reverse();
                    }
                    let mut seen = Vec::new();
                    array.visit(index, to, |at, _| {
                        seen.push(at);
                        true
                    });
                    assert_eq!(seen, expected);
                }
            }
            let found = array.get(index).map(|element| element.text(&mut [0; ELEMENT_TEXT_MAX]).to_vec());
            assert_eq!(found.as_ref(), model.get(&index));
            assert_eq!(array.count(), model.len() as u64);
            assert_eq!(array.len(), model.last_key_value().map_or(0, |(at, _)| at + 1));
        }
        check(&array);
        assert_eq!(contents(&array), model);
        let mut given_up = Model::new();
        array.into_each(&mut |index, element| {
            given_up.insert(index, element.text(&mut [0; ELEMENT_TEXT_MAX]).to_vec());
        });
        assert_eq!(given_up, model);
        clones.iter().for_each(|(clone, model)| assert_eq!(&contents(clone), model));
    }
}

impl crate::types::Sample for Array {
    fn add_sample(&mut self, text: &[u8], _: &crate::EncodingLimits) {
        self.set(index_of(text), Element::of(text));
    }

    fn remove_sample(&mut self, text: &[u8]) {
        self.remove(index_of(text));
    }
}

/// An index that hardly another text has.
fn index_of(text: &[u8]) -> u64 {
    text.iter().fold(0, |hash: u64, &byte| hash.wrapping_mul(0x100_0000_01B3).wrapping_add(u64::from(byte)))
        >> 8
}
