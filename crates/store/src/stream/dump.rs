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
use crate::listpack::{Appender, Element, Elements, Listpack};

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
        let mut listpack = Listpack::new();
        listpack.append_all(|out| self.append_to(out));
        listpack.into_bytes()
    }

    fn append_to(&self, out: &mut Appender<'_>) {
        let entries = self.entries();
        let head = entries.head_fields();
        out.integer(self.live() as i64);
        out.integer(self.deleted() as i64);
        out.integer(head.len() as i64);
        head.for_each(|name| append(out, &name));
        out.integer(0);
        for entry in entries {
            let same = entry.has_head_fields;
            let deleted = if entry.deleted { FLAG_DELETED } else { 0 };
            out.integer(deleted | if same { FLAG_SAME_FIELDS } else { 0 });
            out.integer(entry.id.ms.wrapping_sub(self.first().ms) as i64);
            out.integer(entry.id.seq.wrapping_sub(self.first().seq) as i64);
            let count = entry.fields.len();
            if !same {
                out.integer(count as i64);
            }
            for (name, value) in entry.fields {
                if !same {
                    append(out, &name);
                }
                append(out, &value);
            }
            out.integer(entry_size(same, count).map_or(0, |size| size as i64));
        }
    }

    /// Reads a node as it stands in a dump, every invariant checked in one pass.
    pub fn from_listpack(first: StreamId, bytes: Vec<u8>) -> Result<Self, StreamError> {
        let listpack = Listpack::from_bytes(bytes).map_err(StreamError::Listpack)?;
        let bytes = listpack.as_bytes();
        let mut at = Elements::new(bytes);
        let (counts, head, head_count) =
            read_head(&mut at).ok_or(StreamError::Node("head of the node is broken"))?;
        let mut node =
            Node::open(first, head.clone().take(head_count).map(text).collect::<Vec<_>>().into_iter());
        while at.position() + 1 != bytes.len() {
            read_entry(&mut node, &mut at, &head, head_count)?;
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

/// Live and deleted entries, the names, how many.
fn read_head<'a>(at: &mut Elements<'a>) -> Option<((u64, u64), Elements<'a>, usize)> {
    let live = u64::try_from(at.next_integer()?).ok()?;
    let deleted = u64::try_from(at.next_integer()?).ok()?;
    let count = usize::try_from(at.next_integer()?).ok()?;
    let names = at.clone();
    at.skip_elements(count)?;
    (at.next_integer()? == 0).then_some(((live, deleted), names, count))
}

fn read_entry<'a>(
    node: &mut Node,
    at: &mut Elements<'a>,
    head: &Elements<'a>,
    head_count: usize,
) -> Result<(), StreamError> {
    let broken = || StreamError::Node("broken entry");
    let first = node.first();
    let mut integer = || at.next_integer().ok_or_else(broken);
    let (flags, ms, seq) = (integer()?, integer()?, integer()?);
    let id = StreamId { ms: first.ms.wrapping_add(ms as u64), seq: first.seq.wrapping_add(seq as u64) };
    let is_first = node.live() + node.deleted() == 0;
    if is_first && id != first {
        return Err(StreamError::Node("first entry is not the node's"));
    }
    if !is_first && id <= node.last() {
        return Err(StreamError::Node("entries out of order"));
    }
    let same = flags & FLAG_SAME_FIELDS != 0;
    let count = if same { head_count } else { usize::try_from(integer()?).map_err(|_| broken())? };
    let mut fields = Vec::new();
    let mut names = head.clone();
    for _ in 0..count {
        let name = if same { names.next() } else { at.next() };
        fields.push((text(name.ok_or_else(broken)?), text(at.next().ok_or_else(broken)?)));
    }
    let size = at.next_integer().and_then(|size| usize::try_from(size).ok());
    if size != entry_size(same, count) {
        return Err(broken());
    }
    node.append_texts(id, same, flags & FLAG_DELETED != 0, fields.into_iter());
    Ok(())
}
