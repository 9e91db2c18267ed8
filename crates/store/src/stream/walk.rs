//! Walking a stream's entries, forwards and backwards.

use super::node::RawEntries;
use super::{Node, Stream, StreamEntry, StreamId};
use std::collections::btree_map;

impl Stream {
    /// The live entries in order.
    pub fn entries(&self) -> StreamEntries<'_> {
        self.range(StreamId::MIN, StreamId::MAX)
    }

    /// The live entries from `start` to `end`, both included, in order.
    pub fn range(&self, start: StreamId, end: StreamId) -> StreamEntries<'_> {
        StreamEntries { nodes: self.nodes_between(start, end), node: None, start, end }
    }

    /// The live entries from `end` down to `start`, both included.
    pub fn range_reversed(&self, start: StreamId, end: StreamId) -> StreamEntriesReversed<'_> {
        StreamEntriesReversed { nodes: self.nodes_between(start, end), node: Vec::new(), start, end }
    }

    /// The nodes that may hold entries from `start` to `end`.
    fn nodes_between(&self, start: StreamId, end: StreamId) -> btree_map::Range<'_, StreamId, Box<Node>> {
        if start > end {
            return self.nodes.range(StreamId::MIN..StreamId::MIN);
        }
        let from = self.nodes.range(..=start).next_back().map_or(start, |(first, _)| *first);
        self.nodes.range(from..=end)
    }
}

/// Live entries in order.
#[derive(Clone)]
pub struct StreamEntries<'a> {
    nodes: btree_map::Range<'a, StreamId, Box<Node>>,
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
    nodes: btree_map::Range<'a, StreamId, Box<Node>>,
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
