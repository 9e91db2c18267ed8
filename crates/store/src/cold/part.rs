//! What is read of a value on disk for a command that needs no more of it. It belongs to whoever asked for it
//! and not to the entry. It names the record, so it stays a part of every entry that does.

use std::ops::Range;
use std::sync::Arc;

use super::Cold;
use crate::stream::StreamId;
use crate::types::Collection;
use crate::value::Value;
use crate::with_value;

/// Elements of a collection, as a command asks for them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Elements {
    /// None of them: how many there are.
    Count,
    /// Fields of a hash or members of a set.
    Named(Arc<[Box<[u8]>]>),
    /// Elements of a list or a sorted set from one place to another, both included. Negative places count
    /// from the end.
    Places(i64, i64),
    /// Elements of a sorted set by their scores.
    Scores(Scores),
    /// Entries of a stream.
    Entries(Interval),
}

/// Elements of a sorted set between two scores, both included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scores {
    /// The bits of the least score.
    low: u64,
    /// Those of the largest.
    high: u64,
    /// How many elements at most.
    pub count: usize,
    /// Whether the last ones are asked for if there are more.
    pub is_reversed: bool,
}

impl Scores {
    /// At most `count` elements between two scores: the first or the last ones.
    pub fn between(low: f64, high: f64, count: usize, is_reversed: bool) -> Scores {
        Scores { low: low.to_bits(), high: high.to_bits(), count, is_reversed }
    }

    /// The least score.
    pub fn low(&self) -> f64 {
        f64::from_bits(self.low)
    }

    /// The largest score.
    pub fn high(&self) -> f64 {
        f64::from_bits(self.high)
    }
}

/// Entries of a stream between two identifiers, both included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Interval {
    /// The least identifier.
    pub from: StreamId,
    /// The largest.
    pub to: StreamId,
    /// How many entries at most.
    pub count: usize,
    /// Whether the last ones are asked for if there are more.
    pub is_reversed: bool,
}

/// A collection of some elements of another, among them all that were asked for.
#[derive(Debug)]
pub struct Selected {
    /// The collection of those.
    pub value: Value,
    /// The place of the first of them in a list or sorted set.
    pub first: usize,
    /// The number of elements of the other.
    pub len: u64,
}

impl Selected {
    /// How many elements have been selected.
    pub fn count(&self) -> u64 {
        with_value!(self.value.borrow(), _ => 1, value => Collection::element_count(value))
    }
}

/// A part of a value on disk.
#[derive(Debug)]
pub struct Part {
    cold: Cold,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// Bytes of a string from an offset on.
    Bytes(usize, Vec<u8>),
    /// Elements of a collection.
    Elements(Elements, Selected),
}

impl Part {
    /// Bytes of a string that begin at `start`.
    pub(super) fn of_bytes(cold: Cold, start: usize, bytes: Vec<u8>) -> Part {
        Part { cold, content: Content::Bytes(start, bytes) }
    }

    /// Elements of a collection.
    pub(super) fn of_elements(cold: Cold, elements: Elements, selected: Selected) -> Part {
        Part { cold, content: Content::Elements(elements, selected) }
    }

    /// The record.
    pub fn cold(&self) -> &Cold {
        &self.cold
    }

    /// Bytes of the string. `None` if they are not in this part.
    pub fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        let Content::Bytes(first, bytes) = &self.content else { return None };
        bytes.get(range.start.checked_sub(*first)?..)?.get(..range.len())
    }

    /// The elements that it has, and how they were asked for.
    pub fn elements(&self) -> Option<(&Elements, &Selected)> {
        match &self.content {
            Content::Elements(elements, selected) => Some((elements, selected)),
            Content::Bytes(..) => None,
        }
    }

    /// Its bytes in memory.
    pub fn byte_len(&self) -> usize {
        match &self.content {
            Content::Bytes(_, bytes) => bytes.len(),
            Content::Elements(_, selected) => with_value!(
                selected.value.borrow(),
                text => text.len(),
                value => Collection::memory_usage(value),
            ),
        }
    }
}
