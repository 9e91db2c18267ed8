//! Streams against sorted maps, and what a dump may bring.

use super::*;
use std::collections::BTreeMap;

fn id(ms: u64, seq: u64) -> StreamId {
    StreamId { ms, seq }
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;
type Model = BTreeMap<StreamId, Pairs>;

fn contents<'a>(entries: impl Iterator<Item = StreamEntry<'a>>) -> Vec<(StreamId, Pairs)> {
    let pairs = |fields: Fields<'_>| fields.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    entries.map(|entry| (entry.id, pairs(entry.fields))).collect()
}

/// A small generator of numbers, so that the test is the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn random_stream(seed: u64) -> (Stream, Model) {
    let mut numbers = Numbers(seed);
    let (mut stream, mut model) = (Stream::new(), Model::new());
    let limits = NodeLimits { bytes_max: 300, entries_max: 7 };
    let mut last = id(5, 0);
    for _ in 0..400 {
        last = id(last.ms + numbers.below(2) * numbers.below(1 << 40), last.seq + 1 + numbers.below(3));
        if numbers.below(10) == 0 {
            last = id(last.ms + 1, 0);
        }
        let fields: Vec<_> = (0..1 + numbers.below(3))
            .map(|field| {
                (format!("field{field}").into_bytes(), numbers.below(1 << 20).to_string().into_bytes())
            })
            .collect();
        let views: Vec<_> = fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        assert!(stream.append(last, &views, limits));
        model.insert(last, fields);
        if numbers.below(3) == 0 {
            let index = numbers.below(model.len() as u64) as usize;
            let gone = *model.keys().nth(index).expect("the index is below the length");
            model.remove(&gone);
            assert!(stream.delete(gone));
            assert!(!stream.delete(gone));
        }
    }
    (stream, model)
}

#[test]
fn behaves_like_a_sorted_map() {
    for seed in 0..20 {
        let (stream, model) = random_stream(seed);
        assert_eq!(stream.len(), model.len() as u64, "seed {seed}");
        let expected: Vec<_> = model.clone().into_iter().collect();
        assert_eq!(contents(stream.entries()), expected, "seed {seed}");
        let mut numbers = Numbers(seed);
        let ids: Vec<_> = model.keys().copied().collect();
        for _ in 0..50 {
            let mut bound = || {
                let near = ids[numbers.below(ids.len() as u64) as usize];
                [near, near.next().expect("far from the end"), near.previous().expect("not the first")]
                    [numbers.below(3) as usize]
            };
            let (start, end) = (bound(), bound());
            let mut expected: Vec<_> = model
                .iter()
                .filter(|(id, _)| **id >= start && **id <= end)
                .map(|(id, f)| (*id, f.clone()))
                .collect();
            assert_eq!(contents(stream.range(start, end)), expected, "seed {seed} {start} {end}");
            expected.reverse();
            assert_eq!(contents(stream.range_reversed(start, end)), expected, "seed {seed} {start} {end}");
        }
    }
}

#[test]
fn nodes_survive_being_taken_apart() {
    let (stream, model) = random_stream(99);
    let mut copy = Stream::new();
    for node in stream.nodes() {
        let node = Node::from_listpack(node.first(), node.to_listpack()).expect("a valid node");
        copy.push_node(node).expect("in order");
    }
    assert_eq!(copy.len(), model.len() as u64);
    assert_eq!(contents(copy.entries()), model.into_iter().collect::<Vec<_>>());
}

#[test]
fn damaged_nodes_are_refused_or_harmless() {
    let (stream, _) = random_stream(3);
    let node = stream.nodes().next().expect("there are nodes");
    let good = node.to_listpack();
    let mut refused = 0;
    for bit in 0..good.len() * 8 {
        let mut bad = good.to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        match Node::from_listpack(node.first(), bad) {
            Ok(mut node) => {
                let ids: Vec<_> = node.entries().map(|entry| entry.id).collect();
                assert!(ids.into_iter().any(|id| node.delete(id)));
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > good.len());
}

#[test]
fn identifiers_step_and_sort() {
    assert_eq!(id(1, u64::MAX).next(), Some(id(2, 0)));
    assert_eq!(id(2, 0).previous(), Some(id(1, u64::MAX)));
    assert_eq!((StreamId::MAX.next(), StreamId::MIN.previous()), (None, None));
    assert_eq!(StreamId::from_be_bytes(id(7, 9).to_be_bytes()), id(7, 9));
    assert_eq!(id(7, 9).to_string(), "7-9");
}

#[test]
fn groups_keep_their_lists_together() {
    let mut group = Group::new(StreamId::MIN, Some(0));
    let one = group.add_consumer(b"one", 1, -1).expect("free");
    let two = group.add_consumer(b"two", 1, -1).expect("free");
    assert_eq!(group.add_consumer(b"one", 1, -1), None);
    let pending = |consumer| Pending { consumer, delivered_at_ms: 5, delivery_count: 1 };
    assert!(group.assign(id(1, 0), pending(one)));
    assert!(group.assign(id(2, 0), pending(one)));
    assert!(group.assign(id(1, 0), pending(two)));
    assert_eq!(group.consumer(one).map(|consumer| consumer.pending().len()), Some(1));
    assert_eq!(group.acknowledge(id(1, 0)), Some(pending(two)));
    assert_eq!(group.consumer(two).map(|consumer| consumer.pending().len()), Some(0));
    assert_eq!(group.remove_consumer(b"one"), Some(1));
    assert!(group.pending().is_empty());
    assert!(!group.assign(id(3, 0), pending(one)));
}
