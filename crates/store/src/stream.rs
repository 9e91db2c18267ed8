//! Streams: entries in the order of their identifiers, with consumer groups.
//!
//! A stream is a tree of [`Node`]s, each a listpack of neighbouring entries as dumps have it, so that a load
//! and a save copy nodes as they are and a node splits exactly where it does in Redis. An entry with the same
//! fields as its node's first costs its values, one to eleven bytes each for their framing, and about six
//! bytes for itself; a node costs about 80 bytes on top, spread over up to a hundred entries.
//!
//! Invariants: the nodes' identifier ranges are disjoint and in order; no node is without live entries;
//! `length` is their sum; no entry is above `last_id`. Looking up, appending and deleting an entry is O(log
//! nodes) and one node; a walk is linear in what it yields and in the deleted entries of the nodes that it
//! meets.

mod group;
mod node;

use crate::listpack::ListpackError;
pub use group::{Consumer, ConsumerId, Group, Pending};
use node::RawEntries;
pub use node::{Fields, Node};
use std::collections::BTreeMap;
use std::collections::btree_map::{self, Entry};
use std::fmt;

/// The bound on a node where none is configured. No entry is larger, so a node stays below two of these.
const NODE_BYTES_MAX: usize = 1 << 30;

/// Identifies an entry: the time it was added and a number within that millisecond.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct StreamId {
    /// Unix time in milliseconds, or whatever the client chose.
    pub ms: u64,
    /// Position within that millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The smallest identifier; no entry has it.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The largest identifier.
    pub const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    /// The identifier right after this one.
    pub fn next(self) -> Option<StreamId> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The identifier right before this one.
    pub fn previous(self) -> Option<StreamId> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    /// Both numbers as big-endian bytes, whose order is that of the identifiers.
    pub fn to_be_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.ms.to_be_bytes());
        bytes[8..].copy_from_slice(&self.seq.to_be_bytes());
        bytes
    }

    /// The reverse of [`StreamId::to_be_bytes`].
    pub fn from_be_bytes(bytes: [u8; 16]) -> Self {
        let number = u128::from_be_bytes(bytes);
        StreamId { ms: (number >> 64) as u64, seq: number as u64 }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.ms, self.seq)
    }
}

/// Why parts do not make a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamError {
    /// A node is no listpack.
    Listpack(ListpackError),
    /// A node is a listpack but no node.
    Node(&'static str),
    /// The parts do not fit together.
    Inconsistent(&'static str),
}

impl fmt::Display for StreamError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamError::Listpack(error) => write!(formatter, "stream node: {error}"),
            StreamError::Node(reason) => write!(formatter, "stream node: {reason}"),
            StreamError::Inconsistent(reason) => write!(formatter, "stream: {reason}"),
        }
    }
}

/// When a node is full, as configured by `stream-node-max-bytes` and `stream-node-max-entries`; 0 means no
/// bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeLimits {
    /// Bytes of the listpack.
    pub bytes_max: usize,
    /// Entries, deleted ones included.
    pub entries_max: usize,
}

impl Default for NodeLimits {
    fn default() -> Self {
        NodeLimits { bytes_max: 4096, entries_max: 100 }
    }
}

/// A stream.
#[derive(Clone, Default, Debug)]
pub struct Stream {
    nodes: BTreeMap<StreamId, Node>,
    groups: BTreeMap<Box<[u8]>, Group>,
    length: u64,
    /// The identifier of the newest entry ever added, which may be gone.
    pub last_id: StreamId,
    /// The largest identifier that was deleted by name.
    pub max_deleted_id: StreamId,
    /// How many entries were ever added.
    pub entries_added: u64,
}

/// One entry.
#[derive(Clone)]
pub struct StreamEntry<'a> {
    /// Its identifier.
    pub id: StreamId,
    /// Its fields and values.
    pub fields: Fields<'a>,
}

impl Stream {
    /// An empty stream.
    pub fn new() -> Self {
        Stream::default()
    }

    /// Live entries.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// True when there is no live entry; a stream without entries still exists.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The nodes in order.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Node> {
        self.nodes.values()
    }

    /// The groups by name.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (&[u8], &Group)> {
        self.groups.iter().map(|(name, group)| (&**name, group))
    }

    /// The group of that name.
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name)
    }

    /// The group of that name, to be changed.
    pub fn group_mut(&mut self, name: &[u8]) -> Option<&mut Group> {
        self.groups.get_mut(name)
    }

    /// Adds a group. False, and nothing done, where the name is taken.
    pub fn add_group(&mut self, name: &[u8], group: Group) -> bool {
        match self.groups.entry(name.into()) {
            Entry::Vacant(vacant) => {
                vacant.insert(group);
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// Removes a group and returns it.
    pub fn remove_group(&mut self, name: &[u8]) -> Option<Group> {
        self.groups.remove(name)
    }

    /// Appends an entry. False, and nothing done, unless `id` is above `last_id`.
    pub fn append(&mut self, id: StreamId, fields: &[(&[u8], &[u8])], limits: NodeLimits) -> bool {
        if id <= self.last_id {
            return false;
        }
        let payload_bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        match self.nodes.last_entry() {
            Some(mut last) if last.get().has_room(payload_bytes, limits) => last.get_mut().append(id, fields),
            last => {
                if let Some(mut last) = last {
                    last.get_mut().shrink();
                }
                self.nodes.insert(id, Node::new(id, fields));
            }
        }
        self.length += 1;
        self.entries_added += 1;
        self.last_id = id;
        true
    }

    /// Deletes entry `id`; false where there is none. `max_deleted_id` rises to it.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let Some((&first, node)) = self.nodes.range_mut(..=id).next_back() else {
            return false;
        };
        if !node.delete(id) {
            return false;
        }
        if node.counts().0 == 0 {
            self.nodes.remove(&first);
        }
        self.length -= 1;
        self.max_deleted_id = self.max_deleted_id.max(id);
        true
    }

    /// Adds a node from a dump; they come in order. Its entries count as part of the stream, while `last_id`
    /// and the other numbers are the caller's to set.
    pub fn push_node(&mut self, node: Node) -> Result<(), StreamError> {
        if let Some(last) = self.nodes.values().next_back() {
            let end = last.entries().last().map_or(last.first(), |entry| entry.id);
            if node.first() <= end {
                return Err(StreamError::Inconsistent("nodes out of order"));
            }
        }
        self.length += node.counts().0 as u64;
        self.nodes.insert(node.first(), node);
        Ok(())
    }

    /// The entry with that identifier.
    pub fn get(&self, id: StreamId) -> Option<StreamEntry<'_>> {
        self.range(id, id).next()
    }

    /// The oldest live entry's identifier, or 0-0 without entries.
    pub fn first_id(&self) -> StreamId {
        self.entries().next().map_or(StreamId::MIN, |entry| entry.id)
    }

    /// The live entries in order.
    pub fn entries(&self) -> StreamEntries<'_> {
        self.range(StreamId::MIN, StreamId::MAX)
    }

    /// The live entries from `start` to `end`, both included, in order.
    pub fn range(&self, start: StreamId, end: StreamId) -> StreamEntries<'_> {
        if start > end {
            return StreamEntries {
                nodes: self.nodes.range(StreamId::MIN..StreamId::MIN),
                node: None,
                start,
                end,
            };
        }
        let from = self.nodes.range(..=start).next_back().map_or(start, |(first, _)| *first);
        StreamEntries { nodes: self.nodes.range(from..=end), node: None, start, end }
    }

    /// The live entries from `end` down to `start`, both included.
    pub fn range_reversed(&self, start: StreamId, end: StreamId) -> StreamEntriesReversed<'_> {
        if start > end {
            let nodes = self.nodes.range(StreamId::MIN..StreamId::MIN);
            return StreamEntriesReversed { nodes, node: Vec::new(), start, end };
        }
        let from = self.nodes.range(..=start).next_back().map_or(start, |(first, _)| *first);
        StreamEntriesReversed { nodes: self.nodes.range(from..=end), node: Vec::new(), start, end }
    }

    /// How many entries were added up to and including `id`, where the numbers that are kept allow to tell.
    pub fn entries_read_at(&self, id: StreamId) -> Option<u64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        if self.is_empty() && id <= self.last_id {
            return Some(self.entries_added);
        }
        if id == self.last_id {
            return Some(self.entries_added);
        }
        let first = self.first_id();
        let hole = self.max_deleted_id != StreamId::MIN && self.max_deleted_id >= first;
        if id > self.last_id || hole || id > first {
            return None;
        }
        let before_first = self.entries_added.saturating_sub(self.length);
        Some(before_first + u64::from(id == first))
    }

    /// Bytes that the stream takes beside its own struct, with the tree's share estimated.
    pub fn memory_usage(&self) -> usize {
        let tree_bytes = size_of::<StreamId>() + size_of::<Node>();
        let nodes: usize = self.nodes.values().map(|node| node.memory_usage() + tree_bytes).sum();
        let groups =
            self.groups.iter().map(|(name, group)| name.len() + size_of::<Group>() + group.memory_usage());
        nodes + groups.sum::<usize>()
    }
}

impl Node {
    fn has_room(&self, payload_bytes: usize, limits: NodeLimits) -> bool {
        let (live, deleted) = self.counts();
        let bytes_max =
            if limits.bytes_max == 0 { NODE_BYTES_MAX } else { limits.bytes_max.min(NODE_BYTES_MAX) };
        let full_bytes = self.listpack_bytes().len().saturating_add(payload_bytes) >= bytes_max;
        let full_entries = limits.entries_max > 0 && live + deleted >= limits.entries_max;
        !full_bytes && !full_entries
    }
}

/// Live entries in order.
#[derive(Clone)]
pub struct StreamEntries<'a> {
    nodes: btree_map::Range<'a, StreamId, Node>,
    node: Option<RawEntries<'a>>,
    start: StreamId,
    end: StreamId,
}

impl<'a> Iterator for StreamEntries<'a> {
    type Item = StreamEntry<'a>;

    fn next(&mut self) -> Option<StreamEntry<'a>> {
        loop {
            let Some(entries) = &mut self.node else {
                self.node = Some(self.nodes.next()?.1.entries());
                continue;
            };
            match entries.next() {
                Some(entry) if entry.id > self.end => return None,
                Some(entry) if entry.deleted || entry.id < self.start => {}
                Some(entry) => return Some(StreamEntry { id: entry.id, fields: entry.fields }),
                None => self.node = None,
            }
        }
    }
}

/// Live entries from the newest down.
#[derive(Clone)]
pub struct StreamEntriesReversed<'a> {
    nodes: btree_map::Range<'a, StreamId, Node>,
    node: Vec<StreamEntry<'a>>,
    start: StreamId,
    end: StreamId,
}

impl<'a> Iterator for StreamEntriesReversed<'a> {
    type Item = StreamEntry<'a>;

    fn next(&mut self) -> Option<StreamEntry<'a>> {
        loop {
            if let Some(entry) = self.node.pop() {
                return Some(entry);
            }
            let raw = self.nodes.next_back()?.1.entries();
            let wanted = raw.take_while(|entry| entry.id <= self.end);
            let wanted = wanted.filter(|entry| !entry.deleted && entry.id >= self.start);
            self.node.extend(wanted.map(|entry| StreamEntry { id: entry.id, fields: entry.fields }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn id(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;
    type Model = BTreeMap<StreamId, Pairs>;

    fn contents<'a>(entries: impl Iterator<Item = StreamEntry<'a>>) -> Vec<(StreamId, Pairs)> {
        let pairs =
            |fields: Fields<'_>| fields.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
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
                assert_eq!(
                    contents(stream.range_reversed(start, end)),
                    expected,
                    "seed {seed} {start} {end}"
                );
            }
        }
    }

    #[test]
    fn nodes_survive_being_taken_apart() {
        let (stream, model) = random_stream(99);
        let mut copy = Stream::new();
        for node in stream.nodes() {
            let node =
                Node::from_listpack(node.first(), node.listpack_bytes().to_vec()).expect("a valid node");
            copy.push_node(node).expect("in order");
        }
        assert_eq!(copy.len(), model.len() as u64);
        assert_eq!(contents(copy.entries()), model.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn damaged_nodes_are_refused_or_harmless() {
        let (stream, _) = random_stream(3);
        let node = stream.nodes().next().expect("there are nodes");
        let good = node.listpack_bytes();
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
}
