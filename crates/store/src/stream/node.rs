//! A node of a stream: up to some thousand bytes of neighbouring entries in one listpack, laid out as in
//! dumps.
//!
//! ```text
//! head:   live | deleted | field count | field ... | 0
//! entry:  flags | ms - first ms | seq - first seq | (field count | field value ...)  or  (value ...) | size
//! ```
//!
//! The second form of an entry stands for one with exactly the fields of the head. `size` counts the elements
//! of the entry before it, so that it can be read from the right. A deleted entry keeps its place and gets a
//! flag.
//!
//! Invariants: identifiers rise strictly within the node; `live` is never 0; the first entry, deleted or not,
//! has the node's own identifier.

use super::{StreamError, StreamId};
use crate::listpack::{Element, Elements, HEADER_BYTES, Listpack};

/// The entry is gone.
const FLAG_DELETED: i64 = 1;
/// The entry has the fields of the node's head.
const FLAG_SAME_FIELDS: i64 = 2;

/// Neighbouring entries of a stream.
#[derive(Clone, Debug)]
pub struct Node {
    first: StreamId,
    listpack: Listpack,
}

/// One live or deleted entry as found in a node.
#[derive(Clone)]
pub(super) struct RawEntry<'a> {
    pub(super) id: StreamId,
    pub(super) deleted: bool,
    pub(super) fields: Fields<'a>,
    flags: i64,
    flags_position: usize,
}

/// The fields and values of one entry, in the order they were added.
#[derive(Clone)]
pub struct Fields<'a> {
    /// Where the names come from if the entry has those of the head.
    names: Option<Elements<'a>>,
    rest: Elements<'a>,
    left: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Element<'a>, Element<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let name = match &mut self.names {
            Some(names) => names.next()?,
            None => self.rest.next()?,
        };
        Some((name, self.rest.next()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Fields<'_> {}

/// Walks the entries of a node, deleted ones included.
#[derive(Clone)]
pub(super) struct RawEntries<'a> {
    first: StreamId,
    head_fields: Elements<'a>,
    head_field_count: usize,
    at: Elements<'a>,
}

impl<'a> Iterator for RawEntries<'a> {
    type Item = RawEntry<'a>;

    fn next(&mut self) -> Option<RawEntry<'a>> {
        let flags_position = self.at.position();
        let flags = self.at.next_integer()?;
        let ms = self.first.ms.wrapping_add(self.at.next_integer()? as u64);
        let seq = self.first.seq.wrapping_add(self.at.next_integer()? as u64);
        let same = flags & FLAG_SAME_FIELDS != 0;
        let left =
            if same { self.head_field_count } else { usize::try_from(self.at.next_integer()?).ok()? };
        let names = same.then(|| self.head_fields.clone());
        let fields = Fields { names, rest: self.at.clone(), left };
        self.at.skip_elements(if same { left } else { left.checked_mul(2)? })?;
        let size = self.at.next_integer()?;
        if usize::try_from(size).ok()? != entry_size(same, left)? {
            return None;
        }
        let deleted = flags & FLAG_DELETED != 0;
        Some(RawEntry { id: StreamId { ms, seq }, deleted, fields, flags, flags_position })
    }
}

/// Elements of an entry before its size.
fn entry_size(same_fields: bool, field_count: usize) -> Option<usize> {
    if same_fields { field_count.checked_add(3) } else { field_count.checked_mul(2)?.checked_add(4) }
}

impl Node {
    /// A node that holds the one entry `id`, whose fields become those of the head.
    pub(super) fn new(id: StreamId, fields: &[(&[u8], &[u8])]) -> Self {
        let mut listpack = Listpack::new();
        listpack.push_integer(0);
        listpack.push_integer(0);
        listpack.push_integer(fields.len() as i64);
        for (name, _) in fields {
            listpack.push(name);
        }
        listpack.push_integer(0);
        let mut node = Node { first: id, listpack };
        node.append(id, fields);
        node
    }

    /// Takes over a node as it stands in a dump, every invariant checked in one pass.
    pub fn from_listpack(first: StreamId, bytes: Vec<u8>) -> Result<Self, StreamError> {
        let listpack = Listpack::from_bytes(bytes).map_err(StreamError::Listpack)?;
        let node = Node { first, listpack };
        let broken = || StreamError::Node("head of the node is broken");
        let (live, deleted, mut entries) = node.open().ok_or_else(broken)?;
        if live == 0 {
            return Err(StreamError::Node("node without live entries"));
        }
        let (mut live_found, mut deleted_found) = (0usize, 0usize);
        let mut previous = None;
        for entry in entries.by_ref() {
            if previous.is_some_and(|previous| entry.id <= previous) {
                return Err(StreamError::Node("entries out of order"));
            }
            if previous.is_none() && entry.id != first {
                return Err(StreamError::Node("first entry is not the node's"));
            }
            previous = Some(entry.id);
            if entry.deleted { deleted_found += 1 } else { live_found += 1 }
        }
        if entries.at.position() + 1 != node.listpack.as_bytes().len() {
            return Err(StreamError::Node("broken entry"));
        }
        if (live_found, deleted_found) != (live, deleted) {
            return Err(StreamError::Node("entry counts differ from those in its head"));
        }
        Ok(node)
    }

    /// The identifier that the node is known by: that of its first entry, deleted or not.
    pub fn first(&self) -> StreamId {
        self.first
    }

    /// The node as stored, which is also its form in a dump.
    pub fn listpack_bytes(&self) -> &[u8] {
        self.listpack.as_bytes()
    }

    /// Live and deleted entries.
    pub(super) fn counts(&self) -> (usize, usize) {
        let mut elements = Elements::new(self.listpack.as_bytes());
        let mut next = || usize::try_from(elements.next_integer()?).ok();
        (next().unwrap_or(0), next().unwrap_or(0))
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.listpack.capacity_bytes()
    }

    pub(super) fn shrink(&mut self) {
        self.listpack.shrink();
    }

    /// The entries, deleted ones included.
    pub(super) fn entries(&self) -> RawEntries<'_> {
        match self.open() {
            Some((_, _, entries)) => entries,
            // Unreachable for a node that was built or validated; an empty walk is the harmless answer.
            None => RawEntries {
                first: self.first,
                head_fields: Elements::starting_at(&[], 0),
                head_field_count: 0,
                at: Elements::starting_at(&[], 0),
            },
        }
    }

    fn open(&self) -> Option<(usize, usize, RawEntries<'_>)> {
        let mut elements = Elements::new(self.listpack.as_bytes());
        let live = usize::try_from(elements.next_integer()?).ok()?;
        let deleted = usize::try_from(elements.next_integer()?).ok()?;
        let head_field_count = usize::try_from(elements.next_integer()?).ok()?;
        let head_fields = elements.clone();
        elements.skip_elements(head_field_count)?;
        if elements.next_integer()? != 0 {
            return None;
        }
        Some((live, deleted, RawEntries { first: self.first, head_fields, head_field_count, at: elements }))
    }

    /// Appends an entry; `id` is above all others of the node.
    pub(super) fn append(&mut self, id: StreamId, fields: &[(&[u8], &[u8])]) {
        let same = self.has_head_fields(fields);
        self.listpack.push_integer(if same { FLAG_SAME_FIELDS } else { 0 });
        self.listpack.push_integer(id.ms.wrapping_sub(self.first.ms) as i64);
        self.listpack.push_integer(id.seq.wrapping_sub(self.first.seq) as i64);
        if !same {
            self.listpack.push_integer(fields.len() as i64);
        }
        for (name, value) in fields {
            if !same {
                self.listpack.push(name);
            }
            self.listpack.push(value);
        }
        let size = if same { fields.len() + 3 } else { 2 * fields.len() + 4 };
        self.listpack.push_integer(size as i64);
        self.change_counts(1, 0);
    }

    fn has_head_fields(&self, fields: &[(&[u8], &[u8])]) -> bool {
        let entries = self.entries();
        let mut scratch = [0; 20];
        entries.head_field_count == fields.len()
            && entries.head_fields.zip(fields).all(|(head, (name, _))| head.text(&mut scratch) == *name)
    }

    /// Marks entry `id` deleted. False where there is no such live entry.
    pub(super) fn delete(&mut self, id: StreamId) -> bool {
        let found = self.entries().take_while(|entry| entry.id <= id).find(|entry| entry.id == id);
        let Some((flags, position)) =
            found.filter(|entry| !entry.deleted).map(|entry| (entry.flags, entry.flags_position))
        else {
            return false;
        };
        self.listpack.replace_with_integer(position, flags | FLAG_DELETED);
        self.change_counts(-1, 1);
        true
    }

    fn change_counts(&mut self, live_change: i64, deleted_change: i64) {
        let (live, deleted) = self.counts();
        self.listpack.replace_with_integer(HEADER_BYTES, live as i64 + live_change);
        if deleted_change != 0 {
            // The first element has at least the encoding byte and the back length.
            let mut elements = Elements::new(self.listpack.as_bytes());
            elements.next();
            self.listpack.replace_with_integer(elements.position(), deleted as i64 + deleted_change);
        }
    }
}
