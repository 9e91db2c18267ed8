//! Streams against sorted maps, and what a dump may bring.

use super::*;
use crate::types::Sample;
use std::collections::BTreeMap;

impl Sample for Stream {
    fn add_sample(&mut self, text: &[u8], _: &crate::EncodingLimits) {
        let next = StreamId { ms: self.last_id.ms + 1, seq: 0 };
        self.append(next, &[(text, b"value")], NodeLimits { bytes_max: 4096, entries_max: 100 });
    }

    fn remove_sample(&mut self, _: &[u8]) {
        let first = self.first_id();
        self.delete(first);
    }
}

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
        let node = Node::from_listpack(node.first(), &node.to_listpack()).expect("a valid node");
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
        match Node::from_listpack(node.first(), &bad) {
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

/// Fields that are numbers, nearly numbers, and other texts.
fn odd_fields(numbers: &mut Numbers) -> Pairs {
    let value = |numbers: &mut Numbers| match numbers.below(6) {
        0 => format!("{}.{:02}", numbers.below(100), numbers.below(100)),
        1 => format!("-{}.{}", numbers.below(3), numbers.below(10)),
        2 => (numbers.below(1 << 33) as i64 - (1 << 32)).to_string(),
        3 => format!("0{}", numbers.below(100)),
        4 => "x".repeat(numbers.below(90) as usize),
        _ => String::new(),
    };
    let count = 1 + numbers.below(3);
    (0..count).map(|field| (format!("f{field}").into_bytes(), value(numbers).into_bytes())).collect()
}

fn append(stream: &mut Stream, id: StreamId, fields: &Pairs) {
    let views: Vec<_> = fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    assert!(stream.append(id, &views, NodeLimits { bytes_max: 400, entries_max: 6 }));
}

/// What trimming without regard to nodes leaves.
fn trim_model(model: &mut Model, trim: &Trim, mut stays: impl FnMut(StreamId) -> bool) {
    let mut excess = match trim.to {
        TrimTo::Length(length) => model.len().saturating_sub(length as usize),
        TrimTo::From(start) => model.range(..start).count(),
    };
    let ids: Vec<_> = match trim.to {
        TrimTo::Length(_) => model.keys().copied().collect(),
        TrimTo::From(start) => model.range(..start).map(|(id, _)| *id).collect(),
    };
    for id in ids {
        if excess > 0 && !stays(id) {
            model.remove(&id);
            excess -= 1;
        }
    }
}

#[test]
fn trimming_takes_the_oldest() {
    for seed in 0..60 {
        let mut numbers = Numbers(seed);
        let (mut stream, mut model) = (Stream::new(), Model::new());
        let mut last = id(1, 0);
        for step in 0..150 {
            last = id(last.ms + numbers.below(3), last.seq + 1);
            let fields = odd_fields(&mut numbers);
            append(&mut stream, last, &fields);
            model.insert(last, fields);
            if numbers.below(8) > 0 {
                continue;
            }
            let to = match numbers.below(2) {
                0 => TrimTo::Length(numbers.below(model.len() as u64 + 3)),
                _ => TrimTo::From(id(numbers.below(last.ms + 2), numbers.below(last.seq + 2))),
            };
            let whole_nodes = numbers.below(3) == 0;
            let trim = Trim { to, whole_nodes, limit: 0, references: References::Keep };
            let before = model.clone();
            trim_model(&mut model, &trim, |_| false);
            let (gone, _) = stream.trim(&trim);
            if whole_nodes {
                // Never more than asked for, always the oldest, and less than a node too little.
                assert!(before.len() - gone as usize >= model.len(), "seed {seed} step {step}");
                model = before.into_iter().skip(gone as usize).collect();
            } else {
                assert_eq!(gone as usize, before.len() - model.len(), "seed {seed} step {step}");
            }
            assert_eq!(contents(stream.entries()), Vec::from_iter(model.clone()), "seed {seed} step {step}");
            assert_eq!(stream.len(), model.len() as u64);
        }
    }
}

#[test]
fn trimming_heeds_pending_entries() {
    for seed in 0..40 {
        let mut numbers = Numbers(seed);
        let (mut stream, mut model) = (Stream::new(), Model::new());
        stream.add_group(b"g", Group::new(StreamId::MIN, Some(0)));
        for ms in 1..60 {
            let fields = odd_fields(&mut numbers);
            append(&mut stream, id(ms, 0), &fields);
            model.insert(id(ms, 0), fields);
        }
        let delivered = id(numbers.below(60), 0);
        let group = stream.group_mut(b"g").expect("the group is there");
        group.last_delivered = delivered;
        let consumer = group.add_consumer(b"c", 0, -1).expect("the name is free");
        for ms in (1..=delivered.ms).filter(|_| numbers.below(3) == 0) {
            group.assign(id(ms, 0), Pending { consumer, delivered_at_ms: 0, delivery_count: 1 });
        }
        let references = [References::Delete, References::Acknowledged][numbers.below(2) as usize];
        let to = TrimTo::Length(numbers.below(60));
        let trim = Trim { to, whole_nodes: false, limit: 0, references };
        let pending = group.pending().clone();
        let stays = |id| references == References::Acknowledged && (id > delivered || pending.contains(id));
        trim_model(&mut model, &trim, stays);
        stream.trim(&trim);
        assert_eq!(contents(stream.entries()), Vec::from_iter(model.clone()), "seed {seed}");
        let group = stream.group(b"g").expect("the group is there");
        let expected: Vec<_> = match references {
            References::Delete => pending.ids().filter(|id| model.contains_key(id)).collect(),
            _ => pending.ids().collect(),
        };
        assert_eq!(group.pending().ids().collect::<Vec<_>>(), expected, "seed {seed}");
    }
}

#[test]
fn a_node_knows_its_size_as_a_listpack() {
    for seed in 0..40 {
        let mut numbers = Numbers(seed);
        let mut stream = Stream::new();
        let mut last = id(numbers.below(1 << 50), numbers.below(1 << 50));
        for _ in 0..200 {
            last = match numbers.below(3) {
                0 => id(last.ms, last.seq + 1),
                1 => id(last.ms + 1 + numbers.below(40), 0),
                _ => id(last.ms + numbers.below(1 << 20), last.seq + 2),
            };
            append(&mut stream, last, &odd_fields(&mut numbers));
            if numbers.below(4) == 0 {
                stream.delete(last);
            }
        }
        for node in stream.nodes() {
            let listpack = node.to_listpack();
            assert_eq!(node.listpack_bytes(), listpack.len(), "seed {seed}");
            let copy = Node::from_listpack(node.first(), &listpack).expect("a valid node");
            assert_eq!(copy.to_listpack(), listpack, "seed {seed}");
        }
    }
}

#[test]
fn readings_of_sensors_take_eight_bytes() {
    let mut stream = Stream::new();
    let mut numbers = Numbers(1);
    for ms in 0..10_000 {
        let temperature = format!("{}.{:02}", numbers.below(40), numbers.below(100));
        let humidity = format!("{}.{}", numbers.below(100), numbers.below(10));
        let fields = [(&b"temp"[..], temperature.as_bytes()), (b"hum", humidity.as_bytes())];
        stream.append(id(1_700_000_000_000 + ms * 3, 0), &fields, NodeLimits::default());
    }
    let bytes_per_entry = stream.memory_usage() as f64 / 10_000.0;
    assert!((7.0..9.0).contains(&bytes_per_entry), "{bytes_per_entry}");
}

#[test]
fn radix_nodes_are_counted() {
    let with = |ids: &[(u64, u64)]| {
        let mut stream = Stream::new();
        let limits = NodeLimits { bytes_max: 0, entries_max: 1 };
        ids.iter().for_each(|&(ms, seq)| assert!(stream.append(id(ms, seq), &[(b"a", b"b")], limits)));
        stream.radix_node_count()
    };
    // Nothing: the root. One key: a run and a leaf. Two keys that differ in the last byte: a run, a fork, two
    // leaves. In the first byte: a fork, two runs, two leaves.
    assert_eq!(with(&[]), 1);
    assert_eq!(with(&[(5, 1)]), 2);
    assert_eq!(with(&[(5, 1), (5, 2)]), 4);
    assert_eq!(with(&[(5, 1), (1 << 63, 0)]), 5);
    assert_eq!(with(&[(1, 1), (1, 2), (2, 0)]), 8);
}
