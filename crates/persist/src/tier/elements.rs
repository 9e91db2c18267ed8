//! Finding elements in the record of a large collection, so that a command that asks for some of them reads
//! no more than the blocks around those.
//!
//! An [`ElementIndex`] is made while the record is, and stays in memory as long as it: a mark of 32 bytes for
//! each [`MARK_BYTES`] of the record. A mark stands between two elements and says what comes before it:
//!
//! | value | order in the record | what a mark says |
//! | --- | --- | --- |
//! | hash, set | buckets of the hash table | the bucket of the element behind it |
//! | list | as in the list, in nodes | the number of elements before it |
//! | sorted set | falling scores | the same, and the score of the element behind it |
//! | stream | rising identifiers, in nodes | the identifier that the node behind it begins with |
//!
//! Invariants: marks rise, in what they say and in their offsets. What comes before a mark is before what it
//! says, or in the same bucket; what comes behind is not.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use mantissa_store::cold::{Elements, Interval, Scores, Selected};
use mantissa_store::stream::{Node, Stream, StreamId};
use mantissa_store::{EncodingLimits, Hash, List, Set, SortedSet, Value, ValueRef, bucket_of};

use super::ALWAYS_LARGE;
use crate::format::{quicklist_container, value_type};
use crate::source::{LoadError, Source};
use crate::types::hash::{put_field, read_field};

/// Bytes between two marks, at least. Reading so many takes about as long as reading one block.
const MARK_BYTES: usize = 64 << 10;
/// A value of which so many bytes have to be read is read whole.
const WHOLE_PART: usize = 2;
/// The offset of the number of elements in a listpack, and the number that says that it is larger.
const COUNT_AT: usize = 4;
const COUNT_UNKNOWN: u16 = u16::MAX;
/// Bytes that the head of a value takes at most: its form, a time, and a number of elements.
const HEAD_BYTES_MAX: usize = 18;

/// A place between two elements.
#[derive(Clone, Copy)]
struct Mark {
    at: u128,
    /// Bytes of the record before it.
    offset: u32,
}

/// What a record's elements are ordered by.
#[derive(Clone, Copy)]
enum Order {
    /// The buckets of a hash's table. Expiries are distances from a time if there is one.
    Fields { buckets: usize, base_ms: Option<i64> },
    /// The buckets of a set's table.
    Members { buckets: usize },
    /// The places in a list.
    Nodes,
    /// The places in a sorted set, from the end on.
    Scored,
    /// Identifiers.
    Entries,
}

/// Where the elements of a record lie.
pub(super) struct ElementIndex {
    order: Order,
    len: u64,
    marks: Vec<Mark>,
    /// The scores of the elements behind the marks, in a sorted set.
    scores: Vec<f64>,
    /// Bytes of the record up to the end of the last element.
    end: usize,
}

/// Makes an index while the record is made.
pub(super) struct Marker {
    index: ElementIndex,
    /// What the next mark has to come behind, in bytes of the record.
    next_mark: usize,
    /// Bytes of the record that have been handed on.
    handed_on: usize,
    /// Where the elements begin that have not been looked at.
    start: Option<usize>,
    /// Elements before that, in lists and sorted sets.
    before: u64,
    /// Nodes of a stream that are still to come.
    nodes_left: usize,
    /// The bytes are not those that were expected: there will be no index.
    has_failed: bool,
}

impl Marker {
    /// Of a value that is about to be written. `None` if its elements are never looked for.
    pub fn new(value: ValueRef<'_>) -> Option<Marker> {
        let (order, len, nodes) = match value {
            ValueRef::Hash(hash) => {
                let (buckets, base_ms) = (hash.buckets()?, hash.earliest_expiry());
                (Order::Fields { buckets, base_ms }, hash.len() as u64, 0)
            }
            ValueRef::Set(set) => (Order::Members { buckets: set.buckets()? }, set.len() as u64, 0),
            ValueRef::List(list) => (Order::Nodes, list.len() as u64, 0),
            ValueRef::SortedSet(set) if set.encoding() == "skiplist" => (Order::Scored, set.len() as u64, 0),
            ValueRef::Stream(stream) => (Order::Entries, stream.len(), stream.nodes().len()),
            _ => return None,
        };
        let index = ElementIndex { order, len, marks: Vec::new(), scores: Vec::new(), end: 0 };
        Some(Marker {
            index,
            next_mark: MARK_BYTES,
            handed_on: 0,
            start: None,
            before: 0,
            nodes_left: nodes,
            has_failed: false,
        })
    }

    /// Looks at what has been added since the last call. `bytes` are those of the record that have not been
    /// handed on, and end where an element does.
    pub fn look(&mut self, bytes: &[u8]) {
        if self.has_failed || matches!(self.index.order, Order::Entries) && self.nodes_left == 0 {
            return;
        }
        if self.look_at(bytes).is_none() {
            self.has_failed = true;
        }
    }

    fn look_at(&mut self, bytes: &[u8]) -> Option<()> {
        let start = match self.start {
            Some(start) => start,
            None => self.index.order.head_bytes(bytes)?,
        };
        let added = bytes.get(start.checked_sub(self.handed_on)?..)?;
        if start >= self.next_mark && !added.is_empty() {
            let at = self.index.order.place_of(added, self.before)?;
            if matches!(self.index.order, Order::Scored) {
                self.index.scores.push(first_score(added)?);
            }
            self.index.marks.push(Mark { at, offset: u32::try_from(start).ok()? });
            self.next_mark = start + MARK_BYTES;
        }
        match self.index.order {
            Order::Nodes if !added.is_empty() => self.before += elements_of_node(added)?,
            Order::Scored => self.before += crate::write::ELEMENTS_PER_SPILL as u64,
            Order::Entries => self.nodes_left -= 1,
            _ => {}
        }
        let end = self.handed_on + bytes.len();
        (self.start, self.index.end) = (Some(end), end);
        Some(())
    }

    /// Notes that the bytes that were looked at have been handed on.
    pub fn hand_on(&mut self, bytes: usize) {
        self.handed_on += bytes;
    }

    /// The index of a record of so many bytes.
    pub fn finish(mut self, record_bytes: usize) -> Option<ElementIndex> {
        if !matches!(self.index.order, Order::Entries) {
            self.index.end = record_bytes;
        }
        self.index.marks.shrink_to_fit();
        self.index.scores.shrink_to_fit();
        (!self.has_failed && !self.index.marks.is_empty()).then_some(self.index)
    }
}

impl Order {
    /// A collection of the type, without elements.
    fn empty(self) -> Value {
        match self {
            Order::Fields { .. } => Value::Hash(Hash::new()),
            Order::Members { .. } => Value::Set(Set::new()),
            Order::Nodes => Value::List(List::new()),
            Order::Scored => Value::SortedSet(SortedSet::new()),
            Order::Entries => Value::Stream(Stream::new()),
        }
    }

    /// Bytes before the first element of a record that begins so.
    fn head_bytes(self, bytes: &[u8]) -> Option<usize> {
        let mut source = Source::from_bytes(bytes.get(..HEAD_BYTES_MAX.min(bytes.len()))?.to_vec());
        let form = source.byte().ok()?;
        let base_ms = match form {
            value_type::HASH_METADATA => Some(source.milliseconds().ok()?),
            _ => None,
        };
        let is_expected = match self {
            Order::Fields { base_ms: expected, .. } => {
                base_ms == expected && matches!(form, value_type::HASH | value_type::HASH_METADATA)
            }
            Order::Members { .. } => form == value_type::SET,
            Order::Nodes => form == value_type::LIST_QUICKLIST_2,
            Order::Scored => form == value_type::ZSET_2,
            Order::Entries => form == value_type::STREAM_LISTPACKS_3,
        };
        source.length().ok().filter(|_| is_expected)?;
        Some(source.offset() as usize)
    }

    /// What a mark before these elements says.
    fn place_of(self, bytes: &[u8], before: u64) -> Option<u128> {
        let mut source = Source::new(bytes, Some(bytes.len() as u64));
        Some(match self {
            Order::Fields { buckets, base_ms } => {
                let mut field = Vec::new();
                read_field(&mut source, base_ms, &mut field).ok()?;
                bucket_of(&field, buckets) as u128
            }
            Order::Members { buckets } => bucket_of(source.string().ok()?, buckets) as u128,
            Order::Nodes | Order::Scored => u128::from(before),
            Order::Entries => u128::from_be_bytes(source.string().ok()?.try_into().ok()?),
        })
    }
}

/// The score of the first of some elements of a sorted set.
fn first_score(bytes: &[u8]) -> Option<f64> {
    let mut source = Source::new(bytes, Some(bytes.len() as u64));
    source.string().ok()?;
    source.double().ok()
}

/// Takes a length from the beginning of bytes.
fn take_length(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    let (len, rest) = match first {
        0..=0x3f => (u64::from(first), rest),
        0x40..=0x7f => (u64::from(first & 0x3f) << 8 | u64::from(*rest.first()?), &rest[1..]),
        0x80 => (u64::from(u32::from_be_bytes(*rest.first_chunk()?)), rest.get(4..)?),
        0x81 => (u64::from_be_bytes(*rest.first_chunk()?), rest.get(8..)?),
        _ => return None,
    };
    *bytes = rest;
    Some(len)
}

/// The number of elements of a node of a list.
fn elements_of_node(mut bytes: &[u8]) -> Option<u64> {
    if take_length(&mut bytes)? == quicklist_container::PLAIN {
        return Some(1);
    }
    take_length(&mut bytes)?;
    let count = u16::from_le_bytes(*bytes.get(COUNT_AT..)?.first_chunk()?);
    (count != COUNT_UNKNOWN).then_some(u64::from(count))
}

/// Reads bytes of a record, which begin and end where elements do.
type ReadBytes<'r> = &'r dyn Fn(Range<usize>) -> Result<Vec<u8>, String>;

/// Why elements were not found.
pub(super) enum Failure {
    /// The disk says so.
    Unreadable(String),
    /// The bytes are not what they should be.
    Damaged,
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Failure::Unreadable(reason)
    }
}

impl From<LoadError> for Failure {
    fn from(_: LoadError) -> Self {
        Failure::Damaged
    }
}

impl ElementIndex {
    /// About how many bytes have to be read for some elements. `None` if all are better read.
    pub fn bytes_of(&self, elements: &Elements) -> Option<usize> {
        let bytes: usize = self.runs(elements)?.iter().map(|run| self.bytes_of_run(run).len()).sum();
        let bytes = match elements {
            Elements::Entries(Interval { count, .. }) | Elements::Scores(Scores { count, .. }) => {
                let mean = self.end as u64 / self.len.max(1) + 1;
                let likely = (*count as u64).saturating_mul(mean).saturating_add(2 * MARK_BYTES as u64);
                bytes.min(likely as usize)
            }
            _ => bytes,
        };
        (bytes <= self.end / WHOLE_PART).then_some(bytes)
    }

    /// Reads some elements. `None` if all of the value is needed.
    pub fn read(&self, elements: &Elements, read: ReadBytes<'_>) -> Result<Option<Selected>, Failure> {
        let Some(runs) = self.runs(elements) else { return Ok(None) };
        let (value, first) = match (self.order, elements) {
            (Order::Fields { base_ms, .. }, Elements::Named(names)) => {
                (self.read_fields(&runs, names, base_ms, read)?, 0)
            }
            (Order::Members { .. }, Elements::Named(names)) => (self.read_members(&runs, names, read)?, 0),
            (Order::Nodes, Elements::Places(..)) => self.read_nodes(&runs, read)?,
            (Order::Scored, Elements::Places(..)) => self.read_scored(&runs, None, read)?,
            (Order::Scored, Elements::Scores(scores)) => self.read_scored(&runs, Some(scores), read)?,
            (Order::Entries, Elements::Entries(interval)) => (self.read_entries(&runs, interval, read)?, 0),
            (order, _) => (order.empty(), 0),
        };
        Ok(Some(Selected { value, first, len: self.len }))
    }

    /// The runs of pieces that have some elements, in the order of the record. A piece lies between two
    /// marks. `None` if all of the value is needed. A value of another type than the elements has none of
    /// them.
    fn runs(&self, elements: &Elements) -> Option<Vec<Range<usize>>> {
        let up_to = |at: u128| self.marks.partition_point(|mark| mark.at <= at);
        match (self.order, elements) {
            // Which fields have expired is not known.
            (Order::Fields { base_ms: Some(_), .. }, Elements::Count) => None,
            (Order::Fields { buckets, .. } | Order::Members { buckets }, Elements::Named(names)) => {
                let pieces_of = |name: &[u8]| {
                    let bucket = bucket_of(name, buckets) as u128;
                    self.marks.partition_point(|mark| mark.at < bucket)..up_to(bucket) + 1
                };
                let mut runs: Vec<_> = names.iter().map(|name| pieces_of(name)).collect();
                runs.sort_unstable_by_key(|run| run.start);
                runs.dedup_by(|next, run| {
                    let joins = next.start <= run.end;
                    if joins {
                        run.end = run.end.max(next.end);
                    }
                    joins
                });
                Some(runs)
            }
            (Order::Nodes | Order::Scored, Elements::Places(from, to)) => {
                let places = self.places(*from, *to);
                if places.is_empty() {
                    return Some(Vec::new());
                }
                let places = match self.order {
                    Order::Scored => self.len - places.end..self.len - places.start,
                    _ => places,
                };
                let run = up_to(u128::from(places.start))..up_to(u128::from(places.end - 1)) + 1;
                Some(vec![run])
            }
            (Order::Scored, Elements::Scores(scores)) => {
                let first = self.scores.partition_point(|score| *score > scores.high());
                let last = self.scores.partition_point(|score| *score >= scores.low());
                let run = first..last + 1;
                Some(vec![run])
            }
            (Order::Entries, Elements::Entries(interval)) => {
                let at = |id: StreamId| u128::from_be_bytes(id.to_be_bytes());
                let run = up_to(at(interval.from))..up_to(at(interval.to)) + 1;
                Some(if interval.from <= interval.to { vec![run] } else { Vec::new() })
            }
            _ => Some(Vec::new()),
        }
    }

    /// The places from the beginning on that a range stands for.
    fn places(&self, from: i64, to: i64) -> Range<u64> {
        let len = i64::try_from(self.len).unwrap_or(i64::MAX);
        let place = |place: i64| if place < 0 { place.saturating_add(len) } else { place };
        let from = place(from).clamp(0, len);
        let to = place(to).saturating_add(1).clamp(from, len);
        from.cast_unsigned()..to.cast_unsigned()
    }

    /// Where the piece with a number begins in the record.
    fn start_of(&self, piece: usize) -> usize {
        match piece.checked_sub(1) {
            None => 0,
            Some(before) => self.marks.get(before).map_or(self.end, |mark| mark.offset as usize),
        }
    }

    fn bytes_of_run(&self, run: &Range<usize>) -> Range<usize> {
        self.start_of(run.start)..self.start_of(run.end)
    }

    /// The bytes of the elements of a run.
    fn source(
        &self,
        run: &Range<usize>,
        read: ReadBytes<'_>,
    ) -> Result<Source<'static, std::io::Empty>, Failure> {
        let mut bytes = read(self.bytes_of_run(run))?;
        if run.start == 0 {
            let head_bytes = self.order.head_bytes(&bytes).ok_or(Failure::Damaged)?;
            bytes.drain(..head_bytes);
        }
        Ok(Source::from_bytes(bytes))
    }

    fn read_fields(
        &self,
        runs: &[Range<usize>],
        names: &[Box<[u8]>],
        base_ms: Option<i64>,
        read: ReadBytes<'_>,
    ) -> Result<Value, Failure> {
        let names: HashSet<&[u8]> = names.iter().map(|name| &**name).collect();
        let (mut hash, mut field) = (Hash::new(), Vec::new());
        for run in runs {
            let mut source = self.source(run, read)?;
            while !source.at_end() {
                let expiry = read_field(&mut source, base_ms, &mut field)?;
                let value = source.string()?;
                if names.contains(&*field) {
                    put_field(&mut hash, &field, value, expiry, &EncodingLimits::default())
                        .map_err(|_| Failure::Damaged)?;
                }
            }
        }
        Ok(Value::Hash(hash))
    }

    fn read_members(
        &self,
        runs: &[Range<usize>],
        names: &[Box<[u8]>],
        read: ReadBytes<'_>,
    ) -> Result<Value, Failure> {
        let names: HashSet<&[u8]> = names.iter().map(|name| &**name).collect();
        let mut set = Set::new();
        for run in runs {
            let mut source = self.source(run, read)?;
            while !source.at_end() {
                let member = source.string()?;
                if names.contains(member) {
                    set.add(member, &EncodingLimits::default());
                }
            }
        }
        Ok(Value::Set(set))
    }

    fn read_nodes(&self, runs: &[Range<usize>], read: ReadBytes<'_>) -> Result<(Value, usize), Failure> {
        let mut list = List::new();
        for run in runs {
            let mut source = self.source(run, read)?;
            while !source.at_end() {
                let is_plain = source.length()? == quicklist_container::PLAIN;
                let bytes = source.string()?;
                match is_plain {
                    true => list.push_plain(bytes),
                    false => list.push_listpack(bytes).map_err(|_| Failure::Damaged)?,
                }
            }
        }
        let first = runs.first().map_or(0, |run| self.before(run.start));
        Ok((Value::List(list), first as usize))
    }

    /// The elements of some runs. If scores are given, of a run the pieces from one end on, until there are
    /// enough.
    fn read_scored(
        &self,
        runs: &[Range<usize>],
        scores: Option<&Scores>,
        read: ReadBytes<'_>,
    ) -> Result<(Value, usize), Failure> {
        let mut entries = Vec::new();
        let Some(run) = runs.first() else { return Ok((self.order.empty(), 0)) };
        let (mut first, mut found) = (run.start, 0);
        let is_rising = scores.is_some_and(|scores| !scores.is_reversed);
        for at in 0..run.len() {
            let piece = if is_rising { run.end - 1 - at } else { run.start + at };
            first = if is_rising || at == 0 { piece } else { first };
            let mut source = self.source(&(piece..piece + 1), read)?;
            while !source.at_end() {
                let member = source.string()?.to_vec();
                let score = source.double()?;
                let is_within = scores.is_some_and(|scores| score >= scores.low() && score <= scores.high());
                found += usize::from(is_within);
                entries.push((member, score));
            }
            if scores.is_some_and(|scores| found >= scores.count) {
                break;
            }
        }
        // The first piece has the highest places.
        let end = self.len - self.before(first);
        let first = end.checked_sub(entries.len() as u64).ok_or(Failure::Damaged)?;
        let entries = entries.iter().map(|(member, score)| (&**member, *score)).collect();
        Ok((Value::SortedSet(SortedSet::from_entries(entries, &ALWAYS_LARGE)), first as usize))
    }

    /// Elements before a piece of a list or sorted set.
    fn before(&self, piece: usize) -> u64 {
        piece.checked_sub(1).and_then(|before| self.marks.get(before)).map_or(0, |mark| mark.at as u64)
    }

    /// The entries of an interval, piece by piece until there are enough.
    fn read_entries(
        &self,
        runs: &[Range<usize>],
        interval: &Interval,
        read: ReadBytes<'_>,
    ) -> Result<Value, Failure> {
        let (mut groups, mut found) = (Vec::new(), 0);
        let pieces: Vec<usize> = runs.iter().flat_map(Clone::clone).collect();
        for at in 0..pieces.len() {
            let piece = if interval.is_reversed { pieces[pieces.len() - 1 - at] } else { pieces[at] };
            let mut source = self.source(&(piece..piece + 1), read)?;
            let mut nodes = Stream::new();
            while !source.at_end() {
                let first = source.string()?.try_into().map_err(|_| Failure::Damaged)?;
                let node = Node::from_listpack(StreamId::from_be_bytes(first), source.string()?);
                let pushed = node.and_then(|node| nodes.push_node(node));
                pushed.map_err(|_| Failure::Damaged)?;
            }
            found += nodes.range(interval.from, interval.to).take(interval.count - found).count();
            groups.push(nodes);
            if found >= interval.count {
                break;
            }
        }
        if interval.is_reversed {
            groups.reverse();
        }
        let mut stream = Stream::new();
        for mut group in groups {
            while let Some(node) = group.give_up_first_node() {
                let node = Arc::unwrap_or_clone(node);
                stream.push_node(node).map_err(|_| Failure::Damaged)?;
            }
        }
        Ok(Value::Stream(stream))
    }
}
