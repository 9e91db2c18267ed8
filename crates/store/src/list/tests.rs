//! Lists against a `VecDeque`, with every operation.

use std::collections::VecDeque;

use super::*;
use crate::listpack::Listpack;
use crate::test_random::Random;
use crate::types::Sample;

impl Sample for List {
    fn add_sample(&mut self, text: &[u8], limits: &EncodingLimits) {
        self.push_front(text, limits);
    }

    fn remove_sample(&mut self, _: &[u8]) {
        self.remove(0, self.len().min(1));
    }
}

fn random_element(random: &mut Random) -> Vec<u8> {
    match random.below(40) {
        0 => vec![b'L'; 5000 + random.below(9000)],
        1..4 => vec![b'm'; random.below(700)],
        4..14 => (random.below(1 << 40) as i64 - (1 << 39)).to_string().into_bytes(),
        14..20 => random.below(4).to_string().into_bytes(),
        _ => vec![b'a' + random.below(3) as u8; random.below(12)],
    }
}

fn assert_equal(list: &List, model: &VecDeque<Vec<u8>>, random: &mut Random, context: &str) {
    assert_eq!(list.len(), model.len(), "{context}");
    let (from, to) = (random.below(model.len() + 1), random.below(model.len() + 1));
    let mut range = list.range(from, to);
    let mut expected = model.range(from.min(to)..to);
    assert_eq!(range.len(), expected.len());
    let mut steps = 0;
    loop {
        let (ours, theirs) = match random.below(2) {
            0 => (range.next(), expected.next()),
            _ => (range.next_back(), expected.next_back()),
        };
        assert_eq!(ours.map(|element| element.to_vec()).as_ref(), theirs, "{context}");
        steps += 1;
        if theirs.is_none() || steps > 300 {
            break;
        }
    }
    let at = random.below(model.len() + 2);
    assert_eq!(list.get(at).map(|element| element.to_vec()).as_ref(), model.get(at), "{context}");
}

/// The list as a dump brings it back, node by node.
fn reloaded(list: &List, limits: &EncodingLimits) -> List {
    assert_eq!(list.node_count(), list.nodes().count());
    let mut copy = List::new();
    for node in list.nodes() {
        match node {
            ListNode::Plain(element) => copy.push_plain(element),
            ListNode::Packed(elements) => {
                let mut listpack = Listpack::new();
                listpack.extend(elements);
                let bytes = listpack.as_bytes();
                match list.node_count() {
                    1 => copy = List::from_listpack(bytes, limits).expect("a node is a valid listpack"),
                    _ => copy.push_listpack(bytes).expect("a node is a valid listpack"),
                }
            }
        }
    }
    copy.settle(limits);
    copy
}

fn step(
    list: &mut List,
    model: &mut VecDeque<Vec<u8>>,
    random: &mut Random,
    growing: bool,
    limits: &EncodingLimits,
) {
    let element = random_element(random);
    let len = model.len();
    match random.below(if growing { 14 } else { 28 }) {
        0..3 => (list.push_front(&element, limits), model.push_front(element)).1,
        3..6 => (list.push_back(&element, limits), model.push_back(element)).1,
        6 => {
            let many: Vec<Vec<u8>> = (0..random.below(60)).map(|_| random_element(random)).collect();
            list.extend(ListEnd::Head, many.iter().map(|element| &element[..]), limits);
            many.into_iter().for_each(|element| model.push_front(element));
        }
        7..10 if len > 0 => {
            let (index, after) = (random.below(len), random.below(2) == 1);
            list.insert(index, after, &element, limits);
            model.insert(index + usize::from(after), element);
        }
        10 if len > 0 => {
            let index = random.below(len);
            list.set(index, &element, limits);
            model[index] = element;
        }
        11 => {
            let end = if random.below(2) == 0 { ListEnd::Head } else { ListEnd::Tail };
            let count_max = if random.below(3) == 0 { usize::MAX } else { random.below(4) };
            let mut places: Vec<usize> = (0..len).filter(|&at| model[at] == element).collect();
            assert_eq!(list.position(Sought::new(&element)), places.first().copied());
            if end == ListEnd::Tail {
                places.reverse();
            }
            places.truncate(count_max);
            assert_eq!(list.remove_equal(end, count_max, Sought::new(&element)), places.len());
            places.sort_unstable_by(|left, right| right.cmp(left));
            places.into_iter().for_each(|at| drop(model.remove(at)));
        }
        12 => {
            *list = reloaded(list, limits);
        }
        _ => {
            let from = random.below(len + 1);
            let span = if random.below(50) == 0 { len / 2 } else { random.below(6) };
            list.remove(from, from + span);
            model.drain(from..(from + span).min(len));
            list.shrink(limits);
        }
    }
}

#[test]
fn behaves_like_a_deque() {
    for (seed, node_size) in (0..).zip([-2, -5, 3, 0, 128]) {
        let limits = EncodingLimits { list_node_size: node_size, ..EncodingLimits::default() };
        let mut random = Random::new(seed);
        let (mut list, mut model) = (List::new(), VecDeque::new());
        for round in 0..1200 {
            step(&mut list, &mut model, &mut random, (round / 400) % 2 == 0, &limits);
            assert_equal(&list, &model, &mut random, &format!("seed {seed} round {round}"));
        }
    }
}

#[test]
fn an_element_costs_few_bytes() {
    let limits = EncodingLimits::default();
    let (mut list, mut reversed) = (List::new(), List::new());
    for index in 0..60_000 {
        let element = format!("element:{index:08}");
        list.push_back(element.as_bytes(), &limits);
        reversed.push_front(element.as_bytes(), &limits);
        if index > 5_000 && index % 10_000 == 0 {
            // Sixteen bytes of payload, one of its code.
            let per_element = |list: &List| list.memory_usage() as f64 / f64::from(index);
            assert!((17.0..18.0).contains(&per_element(&list)), "{}", per_element(&list));
            assert!((17.0..18.0).contains(&per_element(&reversed)), "{}", per_element(&reversed));
        }
    }
}

#[test]
fn clones_stay_as_they_were() {
    for (seed, node_size) in (0..).zip([-2, -1, 50]) {
        let limits = EncodingLimits { list_node_size: node_size, ..EncodingLimits::default() };
        let mut random = Random::new(seed);
        let (mut list, mut model) = (List::new(), VecDeque::new());
        let mut held: Vec<(List, VecDeque<Vec<u8>>)> = Vec::new();
        for round in 0..800 {
            step(&mut list, &mut model, &mut random, (round / 400) % 2 == 0, &limits);
            if random.below(60) == 0 {
                held.push((list.clone(), model.clone()));
            }
            if held.len() > 5 {
                let (clone, model) = held.remove(0);
                assert!(clone.iter().map(|element| element.to_vec()).eq(model), "seed {seed}");
                std::thread::spawn(move || drop(clone)).join().expect("dropping does not panic");
            }
        }
        for (clone, model) in held {
            assert!(clone.iter().map(|element| element.to_vec()).eq(model), "seed {seed}");
        }
    }
}
