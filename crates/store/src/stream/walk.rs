//! Walking a stream's entries, forwards and backwards.

use super::node::RawEntries;
use super::{Node, Stream, StreamEntry, StreamId};
use std::sync::Arc;

use mantissa_memory::cow_map::Values;

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
        let nodes = self.nodes_between(start, end);
        StreamEntriesReversed { nodes, begun: None, node: Vec::new(), start, end }
    }

    /// The nodes that may hold entries from `start` to `end`.
    fn nodes_between(&self, start: StreamId, end: StreamId) -> Values<'_, StreamId, Arc<Node>> {
        self.nodes.between(start, end)
    }
}

/// Live entries in order.
#[derive(Clone)]
pub struct StreamEntries<'a> {
    nodes: Values<'a, StreamId, Arc<Node>>,
    node: Option<RawEntries<'a>>,
    start: StreamId,
    end: StreamId,
}

impl<'a> Iterator for StreamEntries<'a> {
    type Item = StreamEntry<'a>;

    fn next(&mut self) -> Option<StreamEntry<'a>> {
        loop {
            let Some(entries) = &mut self.node else {
                self.node = Some(self.nodes.next()?.entries());
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
    nodes: Values<'a, StreamId, Arc<Node>>,
    /// A node whose last entry has come: who wants no more does not pay for the others.
    begun: Option<&'a Node>,
    /// Entries of a node that are to come, the next one last.
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
            let node = match self.begun.take() {
                Some(node) => node,
                None => {
                    let node = self.nodes.next_back()?;
                    let is_wanted = (self.start..=self.end).contains(&node.last());
                    if let Some(last) = node.last_entry().filter(|_| is_wanted) {
                        self.end = last.id.previous()?;
                        self.begun = Some(node);
                        return Some(StreamEntry { id: last.id, fields: last.fields });
                    }
                    node
                }
            };
            let wanted = node.entries().take_while(|entry| entry.id <= self.end);
            let wanted = wanted.filter(|entry| !entry.deleted && entry.id >= self.start);
            self.node.extend(wanted.map(|entry| StreamEntry { id: entry.id, fields: entry.fields }));
        }
    }
}
