//! Nodes as dumps hold them, which is how Redis keeps them in memory: a listpack.
//!
//! ```text
//! head:   live entries, deleted entries, count of fields, their names, 0
//! entry:  flags, ms - node's ms, seq - node's seq, [ count of fields, { name, value } ] or { value },
//!         number of elements before this one
//! ```
//!
//! Flag 1 marks a deleted entry, flag 2 one that has the fields of the head. Reading and writing are linear.

use super::node::Node;
use super::text::{NUMBER_TEXT_MAX, Text};
use super::{StreamError, StreamId};
use crate::listpack::{Appender, CheckedElements, Element, Listpack};

const FLAG_DELETED: i64 = 1;
const FLAG_SAME_FIELDS: i64 = 2;

fn text(element: Element<'_>) -> Text<'_> {
    match element {
        Element::Integer(number) => Text::Integer(number),
        Element::Bytes(bytes) => Text::new(bytes),
    }
}

#[inline]
fn append(out: &mut Appender<'_>, text: &Text<'_>) {
    match text {
        Text::Integer(number) => out.integer(*number),
        other => out.other_text(other.bytes(&mut [0; NUMBER_TEXT_MAX])),
    }
}

/// Elements of an entry before its size.
fn entry_size(same_fields: bool, field_count: usize) -> Option<usize> {
    if same_fields { field_count.checked_add(3) } else { field_count.checked_mul(2)?.checked_add(4) }
}

impl Node {
    /// The node as dumps hold it.
    pub fn to_listpack(&self) -> Vec<u8> {
        let mut listpack = Listpack::with_capacity(self.listpack_bytes() + ROOM_BYTES);
        listpack.append_all(|out| self.append_to(out));
        listpack.into_bytes()
    }

    fn append_to(&self, out: &mut Appender<'_>) {
        let mut entries = self.entries();
        let head = entries.head_fields();
        out.integer(self.live() as i64);
        out.integer(self.deleted() as i64);
        out.integer(head.len() as i64);
        head.for_each(|name| append(out, &name));
        out.integer(0);
        while let Some(entry) = entries.start() {
            let same = entry.has_head_fields;
            let deleted = if entry.deleted { FLAG_DELETED } else { 0 };
            out.integer(deleted | if same { FLAG_SAME_FIELDS } else { 0 });
            out.integer(entry.id.ms.wrapping_sub(self.first().ms) as i64);
            out.integer(entry.id.seq.wrapping_sub(self.first().seq) as i64);
            if !same {
                out.integer(entry.count as i64);
            }
            for _ in 0..entry.texts().unwrap_or(0) {
                match entries.text() {
                    Some(text) => append(out, &text),
                    None => debug_assert!(false, "a node ends with an entry"),
                }
            }
            out.integer(entry_size(same, entry.count).map_or(0, |size| size as i64));
        }
    }

    /// Reads a node as it stands in a dump, every invariant checked in one pass.
    pub fn from_listpack(first: StreamId, bytes: &[u8]) -> Result<Self, StreamError> {
        let mut source = Source(CheckedElements::new(bytes).map_err(StreamError::Listpack)?);
        let (counts, head) = source.head()?;
        let head_count = head.len();
        let mut node = Node::open(first, head.into_iter());
        // Texts take no more bytes than as elements.
        node.reserve(bytes.len());
        while let Some(flags) = source.next()? {
            read_entry(&mut node, &mut source, flags, head_count)?;
        }
        if node.live() == 0 {
            return Err(StreamError::Node("node without live entries"));
        }
        if (node.live() as u64, node.deleted() as u64) != counts {
            return Err(StreamError::Node("entry counts differ from those in its head"));
        }
        node.shrink();
        Ok(node)
    }
}

/// Bytes that a listpack being written has room for beyond its own, so that it does not grow for the last
/// element.
const ROOM_BYTES: usize = 80;

const BROKEN_HEAD: StreamError = StreamError::Node("head of the node is broken");
const BROKEN_ENTRY: StreamError = StreamError::Node("broken entry");

/// The elements of a node, checked as they are read.
struct Source<'a>(CheckedElements<'a>);

impl<'a> Source<'a> {
    /// The next element, or none where the listpack ends.
    #[inline]
    fn next(&mut self) -> Result<Option<Element<'a>>, StreamError> {
        self.0.next().transpose().map_err(StreamError::Listpack)
    }

    /// The next element, which must be there.
    #[inline]
    fn text(&mut self) -> Result<Text<'a>, StreamError> {
        self.next()?.map(text).ok_or(BROKEN_ENTRY)
    }

    /// The next element, which must be an integer.
    #[inline]
    fn integer(&mut self) -> Result<i64, StreamError> {
        integer(self.next()?)
    }

    fn count(&mut self) -> Result<usize, StreamError> {
        usize::try_from(self.integer()?).map_err(|_| BROKEN_ENTRY)
    }

    /// How many entries live and are deleted, and the names.
    fn head(&mut self) -> Result<((u64, u64), Vec<Text<'a>>), StreamError> {
        let mut counts = || self.count().map(|count| count as u64).map_err(in_head);
        let counts = (counts()?, counts()?);
        let mut names = Vec::new();
        for _ in 0..self.count().map_err(in_head)? {
            names.push(self.text().map_err(in_head)?);
        }
        if self.integer().map_err(in_head)? != 0 {
            return Err(BROKEN_HEAD);
        }
        Ok((counts, names))
    }
}

fn in_head(error: StreamError) -> StreamError {
    if error == BROKEN_ENTRY { BROKEN_HEAD } else { error }
}

#[inline]
fn integer(element: Option<Element<'_>>) -> Result<i64, StreamError> {
    match element {
        Some(Element::Integer(value)) => Ok(value),
        _ => Err(BROKEN_ENTRY),
    }
}

fn read_entry(
    node: &mut Node,
    source: &mut Source<'_>,
    flags: Element<'_>,
    head_count: usize,
) -> Result<(), StreamError> {
    let first = node.first();
    let (flags, ms, seq) = (integer(Some(flags))?, source.integer()?, source.integer()?);
    let id = StreamId { ms: first.ms.wrapping_add(ms as u64), seq: first.seq.wrapping_add(seq as u64) };
    let is_first = node.live() + node.deleted() == 0;
    if is_first && id != first {
        return Err(StreamError::Node("first entry is not the node's"));
    }
    if !is_first && id <= node.last() {
        return Err(StreamError::Node("entries out of order"));
    }
    let same = flags & FLAG_SAME_FIELDS != 0;
    let count = if same { head_count } else { source.count()? };
    let size = entry_size(same, count).ok_or(BROKEN_ENTRY)?;
    node.open_entry(id, same, flags & FLAG_DELETED != 0, count);
    for _ in 0..if same { count } else { 2 * count } {
        node.push_text(&source.text()?);
    }
    if source.count()? != size {
        return Err(BROKEN_ENTRY);
    }
    Ok(())
}
