//! Streams: entries in the order of their identifiers, with consumer groups.
//!
//! A stream is a tree of [`Node`]s, each a packed run of up to a hundred neighbouring entries. What an entry
//! costs, for two decimals of four digits and identifiers that the server makes:
//!
//! ```text
//! form and identifier   1      (3 where the time has moved on by more than 15 ms)
//! values                6      three bytes each
//! its node's share      1.5    head, counts and place in the tree, over a hundred entries
//! ```
//!
//! A node splits exactly where it does in Redis, and keeps deleted entries as Redis does, so that approximate
//! trimming and dumps are the same.
//!
//! Invariants: the nodes' identifier ranges are disjoint and in order; no node is without live entries;
//! `length` is their sum; no entry is above `last_id`. Looking up, appending and deleting an entry is O(log
//! nodes) and one node; a walk is linear in what it yields and in the deleted entries of the nodes that it
//! meets; trimming is linear in the nodes that go.

mod consumers;
mod count;
mod dump;
mod group;
mod id_map;
mod later;
mod node;
mod producers;
mod text;
mod trim;
mod walk;

use crate::Collection;
use crate::listpack::ListpackError;
pub use count::Extent;
pub use group::{Consumer, ConsumerId, Group, Pending};
pub use id_map::IdMap;
pub use later::StreamLevel;
pub use node::{Fields, Node};
pub use producers::{Producer, ProducerLimits, Producers, Sent};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
pub use text::{NUMBER_TEXT_MAX, Text};
pub use trim::{References, Referrers, Trim, TrimTo};
pub use walk::{StreamEntries, StreamEntriesReversed};

use mantissa_memory::CowMap;
use mantissa_memory::slab;

/// Most bytes of an entry's fields and values.
pub const ENTRY_BYTES_MAX: usize = 1 << 30;

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

/// A stream. Its clones share nodes and groups until one of them changes these: a node is then copied alone,
/// of a group the consumer and the short run of pending entries that change.
#[derive(Clone, Default, Debug)]
#[repr(transparent)]
pub struct Stream {
    body: Box<StreamBody>,
}

const _: () = assert!(size_of::<Stream>() == 8);

/// What a stream consists of.
#[derive(Clone, Default, Debug)]
pub struct StreamBody {
    nodes: CowMap<StreamId, Arc<Node>>,
    groups: BTreeMap<Box<[u8]>, Arc<Group>>,
    /// What producers have sent, once there was one.
    producers: Option<Box<Producers>>,
    length: u64,
    /// The identifier of the newest entry ever added, which may be gone.
    pub last_id: StreamId,
    /// The largest identifier that was deleted by name.
    pub max_deleted_id: StreamId,
    /// How many entries were ever added.
    pub entries_added: u64,
}

impl Deref for Stream {
    type Target = StreamBody;

    fn deref(&self) -> &StreamBody {
        &self.body
    }
}

impl DerefMut for Stream {
    fn deref_mut(&mut self) -> &mut StreamBody {
        &mut self.body
    }
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
        self.nodes.iter().map(|node| &**node)
    }

    /// Nodes, pending entries and names of producers, which is what freeing the stream takes.
    pub(crate) fn parts_len(&self) -> usize {
        let names = self.producers.as_ref().map_or(0, |producers| producers.names_len());
        self.nodes.len() + self.groups.values().map(|group| group.pending().len()).sum::<usize>() + names
    }

    /// The version of Redis that it takes to know all of the stream. O(groups).
    pub fn level(&self) -> StreamLevel {
        match self.groups.values().any(|group| group.given_back_len() > 0) {
            true => StreamLevel::GivenBack,
            false if self.producers.is_some() => StreamLevel::Producers,
            false => StreamLevel::Usual,
        }
    }

    /// What producers have sent, if there ever was one.
    pub fn producers(&self) -> Option<&Producers> {
        self.producers.as_deref()
    }

    /// The same, to change.
    pub fn producers_mut(&mut self) -> Option<&mut Producers> {
        self.producers.as_deref_mut()
    }

    /// The same, with these limits where there were none.
    pub fn producers_or_new(&mut self, limits: ProducerLimits) -> &mut Producers {
        StreamLevel::Producers.note();
        self.producers.get_or_insert_with(|| Box::new(Producers::new(limits)))
    }

    /// Sets what producers have sent, from a file.
    pub fn set_producers(&mut self, producers: Producers) {
        StreamLevel::Producers.note();
        self.producers = Some(Box::new(producers));
    }

    /// Sets the limits for producers and forgets what these have sent. Returns what is to be freed.
    pub fn limit_producers(&mut self, limits: ProducerLimits) -> Stream {
        let mut gone = Stream::new();
        let before = self.producers_or_new(limits).begin_anew(limits);
        gone.producers = Some(Box::new(before));
        gone
    }

    /// The groups by name.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (&[u8], &Group)> {
        self.groups.iter().map(|(name, group)| (&**name, &**group))
    }

    /// The group of that name.
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name).map(|group| &**group)
    }

    /// The group of that name, to be changed.
    pub fn group_mut(&mut self, name: &[u8]) -> Option<&mut Group> {
        self.groups.get_mut(name).map(Arc::make_mut)
    }

    /// Adds a group. False, and nothing done, where the name is taken.
    pub fn add_group(&mut self, name: &[u8], group: Group) -> bool {
        match self.groups.entry(name.into()) {
            Entry::Vacant(vacant) => {
                vacant.insert(Arc::new(group));
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// Removes a group and returns it.
    pub fn remove_group(&mut self, name: &[u8]) -> Option<Group> {
        self.groups.remove(name).map(Arc::unwrap_or_clone)
    }

    /// Appends an entry. False, and nothing done, unless `id` is above `last_id`.
    pub fn append(&mut self, id: StreamId, fields: &[(&[u8], &[u8])], limits: NodeLimits) -> bool {
        if id <= self.last_id {
            return false;
        }
        let payload_bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        match self.nodes.last_mut() {
            Some(last) if last.fits(payload_bytes, limits) => Arc::make_mut(last).append(id, fields),
            last => {
                if let Some(last) = last {
                    Arc::make_mut(last).shrink();
                }
                self.nodes.push(id, Arc::new(Node::new(id, fields)));
            }
        }
        self.length += 1;
        self.entries_added += 1;
        self.last_id = id;
        true
    }

    /// Deletes entry `id`; false where there is none. `max_deleted_id` rises to it.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let Some(node) = self.nodes.floor_mut(id).filter(|node| node.contains(id)) else {
            return false;
        };
        let node = Arc::make_mut(node);
        node.delete(id);
        if node.live() == 0 {
            self.nodes.remove_floor(id);
        }
        self.length -= 1;
        self.max_deleted_id = self.max_deleted_id.max(id);
        true
    }

    /// Adds a node from a dump; they come in order. Its entries count as part of the stream, while `last_id`
    /// and the other numbers are the caller's to set.
    pub fn push_node(&mut self, node: Node) -> Result<(), StreamError> {
        if self.nodes.last().is_some_and(|last| node.first() <= last.last()) {
            return Err(StreamError::Inconsistent("nodes out of order"));
        }
        self.length += node.live() as u64;
        self.nodes.push(node.first(), Arc::new(node));
        Ok(())
    }

    /// Takes the first node out of a stream that is given up node by node: its numbers stay what they were.
    pub fn give_up_first_node(&mut self) -> Option<Arc<Node>> {
        self.nodes.pop_first()
    }

    /// The entry with that identifier.
    pub fn get(&self, id: StreamId) -> Option<StreamEntry<'_>> {
        self.range(id, id).next()
    }

    /// The oldest live entry's identifier, or 0-0 without entries.
    pub fn first_id(&self) -> StreamId {
        self.entries().next().map_or(StreamId::MIN, |entry| entry.id)
    }

    /// The newest live entry's identifier, or 0-0 without entries.
    pub fn newest_id(&self) -> StreamId {
        self.range_reversed(StreamId::MIN, StreamId::MAX).next().map_or(StreamId::MIN, |entry| entry.id)
    }

    /// Whether there is a live entry of that identifier.
    pub fn contains(&self, id: StreamId) -> bool {
        self.get(id).is_some()
    }

    /// Bytes that the stream takes beside its own struct. O(nodes).
    pub fn memory_usage(&self) -> usize {
        // An `Arc` has two counts beside its value.
        let node_bytes = slab::class_size(size_of::<Node>() + 16);
        let nodes: usize = self.nodes.iter().map(|node| node.memory_usage() + node_bytes).sum();
        let groups =
            self.groups.iter().map(|(name, group)| name.len() + size_of::<Group>() + group.memory_usage());
        let producers = self.producers.as_ref().map_or(0, |producers| producers.memory_usage());
        nodes + self.nodes.memory_usage() + size_of::<StreamBody>() + groups.sum::<usize>() + producers
    }
}

impl Collection for Stream {
    fn element_count(&self) -> u64 {
        self.len()
    }

    fn encoding(&self) -> &'static str {
        "stream"
    }

    fn memory_usage(&self) -> usize {
        Stream::memory_usage(self)
    }

    fn free_effort(&self) -> usize {
        self.parts_len()
    }

    fn redis_free_effort(&self, max: usize) -> usize {
        self.parts_len().min(max + 1)
    }

    fn is_large_form(&self) -> bool {
        true
    }
}

impl Node {
    fn fits(&self, payload_bytes: usize, limits: NodeLimits) -> bool {
        let bytes_max =
            if limits.bytes_max == 0 { NODE_BYTES_MAX } else { limits.bytes_max.min(NODE_BYTES_MAX) };
        let full_bytes = self.listpack_bytes().saturating_add(payload_bytes) >= bytes_max;
        let full_entries = limits.entries_max > 0 && self.live() + self.deleted() >= limits.entries_max;
        !full_bytes && !full_entries
    }
}

#[cfg(test)]
mod tests;
