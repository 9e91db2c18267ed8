//! A node of a stream: neighbouring entries, packed.
//!
//! ```text
//! head:   count of fields (LEB128), their names                  those of the entry that opened the node
//! entry:  form (1 byte), [ ms ], [ seq ], [ count, { name, value } ] or { value }
//!
//! form, bit 0     the entry is deleted
//!       bit 1     it has other fields than the head: their count and names come with it
//!       bits 2-3  its identifier:  0  the same ms and the next seq of the entry before
//!                                  1  a later ms, seq 0; bits 4-7 say by how much, or 0 and LEB128 follows
//!                                  2  LEB128: ms beyond the entry before; then the seq, or if the ms is the
//!                                     same, by how much it is beyond that of the entry before
//!                                  3  the identifier of the node
//! ```
//!
//! Texts are stored as [`super::text`] describes. An entry of two decimals of four digits takes seven bytes.
//!
//! Redis keeps such a node as a listpack, whose size decides when a node is full; dumps hold that form too.
//! So a node keeps count of the bytes that it would take there, and [`super::dump`] converts.
//!
//! Invariants: identifiers rise strictly within the node; `live` is never 0; the first entry, deleted or not,
//! has the node's own identifier; a deleted entry keeps its place.

use super::StreamId;
use super::text::{NUMBER_TEXT_MAX, Reader, Text, write_varint};
use crate::listpack;

const DELETED: u8 = 1;
const OTHER_FIELDS: u8 = 2;
const ID_SHIFT: u32 = 2;
const ID_NEXT: u8 = 0;
const ID_LATER: u8 = 1;
const ID_ANY: u8 = 2;
const ID_FIRST: u8 = 3;
const LATER_SHIFT: u32 = 4;
const LATER_MAX: u64 = 15;

/// Neighbouring entries of a stream.
#[derive(Clone, Debug)]
pub struct Node {
    first: StreamId,
    last: StreamId,
    bytes: Vec<u8>,
    live: u32,
    deleted: u32,
    /// Bytes as a listpack, without the two counts at its start.
    listpack_bytes: u32,
    /// Where the form of the last entry stands.
    last_position: u32,
}

/// One live or deleted entry as found in a node.
#[derive(Clone)]
pub(super) struct RawEntry<'a> {
    pub(super) id: StreamId,
    pub(super) deleted: bool,
    pub(super) fields: Fields<'a>,
    /// Where its form stands.
    position: usize,
}

/// The fields and values of one entry, in the order they were added.
#[derive(Clone)]
pub struct Fields<'a> {
    /// Where the names come from if the entry has those of the head.
    names: Option<Reader<'a>>,
    rest: Reader<'a>,
    left: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Text<'a>, Text<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let name = match &mut self.names {
            Some(names) => names.text()?,
            None => self.rest.text()?,
        };
        Some((name, self.rest.text()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Fields<'_> {}

impl Fields<'_> {
    /// Whether the fields have the same names, in the same order.
    pub fn has_names_of(&self, other: &Fields<'_>) -> bool {
        let are_of_one_head = match (&self.names, &other.names) {
            (Some(names), Some(others)) => names.is_at(others),
            _ => false,
        };
        let names = |fields: &Self| fields.clone().map(|(name, _)| name);
        self.left == other.left && (are_of_one_head || names(self).eq(other.clone().map(|(name, _)| name)))
    }
}

/// Walks the entries of a node, deleted ones included.
#[derive(Clone)]
pub(super) struct RawEntries<'a> {
    first: StreamId,
    previous: StreamId,
    head_fields: Reader<'a>,
    head_field_count: usize,
    at: Reader<'a>,
}

impl<'a> RawEntries<'a> {
    /// The names of the head.
    pub(super) fn head_fields(&self) -> impl ExactSizeIterator<Item = Text<'a>> {
        let mut names = self.head_fields.clone();
        (0..self.head_field_count).map(move |_| names.text().unwrap_or(Text::Bytes(b"")))
    }

    fn id(&mut self, form: u8) -> Option<StreamId> {
        let StreamId { ms, seq } = self.previous;
        let id = match (form >> ID_SHIFT) & 3 {
            ID_NEXT => StreamId { ms, seq: seq.wrapping_add(1) },
            ID_LATER => {
                let short = u64::from(form >> LATER_SHIFT);
                let beyond = if short == 0 { self.at.varint()? } else { short };
                StreamId { ms: ms.wrapping_add(beyond), seq: 0 }
            }
            ID_ANY => {
                let (beyond, number) = (self.at.varint()?, self.at.varint()?);
                let base = if beyond == 0 { seq } else { 0 };
                StreamId { ms: ms.wrapping_add(beyond), seq: base.wrapping_add(number) }
            }
            _ => self.first,
        };
        self.previous = id;
        Some(id)
    }
}

/// What stands before the texts of an entry.
pub(super) struct EntryStart {
    pub(super) id: StreamId,
    pub(super) deleted: bool,
    pub(super) has_head_fields: bool,
    /// The number of fields.
    pub(super) count: usize,
    /// Where its form stands.
    position: usize,
}

impl EntryStart {
    /// The number of texts that follow.
    pub(super) fn texts(&self) -> Option<usize> {
        if self.has_head_fields { Some(self.count) } else { self.count.checked_mul(2) }
    }
}

impl<'a> RawEntries<'a> {
    /// Steps to the texts of the next entry, all of which [`RawEntries::text`] must read before the next
    /// step.
    #[inline]
    pub(super) fn start(&mut self) -> Option<EntryStart> {
        let position = self.at.position();
        let form = self.at.byte()?;
        let id = self.id(form)?;
        let has_head_fields = form & OTHER_FIELDS == 0;
        let count =
            if has_head_fields { self.head_field_count } else { usize::try_from(self.at.varint()?).ok()? };
        Some(EntryStart { id, deleted: form & DELETED != 0, has_head_fields, count, position })
    }

    /// The next text of the entry.
    #[inline]
    pub(super) fn text(&mut self) -> Option<Text<'a>> {
        self.at.text()
    }
}

impl<'a> Iterator for RawEntries<'a> {
    type Item = RawEntry<'a>;

    fn next(&mut self) -> Option<RawEntry<'a>> {
        let start = self.start()?;
        let EntryStart { id, deleted, has_head_fields, count, position } = start;
        let names = has_head_fields.then(|| self.head_fields.clone());
        let fields = Fields { names, rest: self.at.clone(), left: count };
        self.at.skip(start.texts()?)?;
        Some(RawEntry { id, deleted, fields, position })
    }
}

/// Bytes of an integer as an element of a listpack.
fn integer_element_bytes(number: i64) -> u32 {
    listpack::integer_element_bytes(number) as u32
}

/// Bytes of a text as an element of a listpack.
fn element_bytes(text: &Text<'_>) -> u32 {
    match text {
        Text::Integer(number) => integer_element_bytes(*number),
        // A text is below 4 GiB: clients cannot send longer ones.
        other => listpack::text_element_bytes(other.text_bytes()) as u32,
    }
}

impl Node {
    /// A node without entries, of which some must follow at once; `names` become the fields of its head.
    pub(super) fn open<'a>(first: StreamId, names: impl ExactSizeIterator<Item = Text<'a>>) -> Self {
        let mut bytes = Vec::new();
        let count = names.len();
        write_varint(count as u64, &mut bytes);
        // A listpack's frame, the count of fields, and the mark after them.
        let mut listpack_bytes = listpack::HEADER_BYTES as u32 + 1 + integer_element_bytes(count as i64);
        listpack_bytes += integer_element_bytes(0);
        for name in names {
            name.write(&mut bytes);
            listpack_bytes = listpack_bytes.saturating_add(element_bytes(&name));
        }
        Node { first, last: first, bytes, live: 0, deleted: 0, listpack_bytes, last_position: 0 }
    }

    /// A node that holds the one entry `id`, whose fields become those of the head.
    pub(super) fn new(id: StreamId, fields: &[(&[u8], &[u8])]) -> Self {
        let mut node = Node::open(id, fields.iter().map(|(name, _)| Text::new(name)));
        node.append(id, fields);
        node
    }

    /// The identifier that the node is known by: that of its first entry, deleted or not.
    pub fn first(&self) -> StreamId {
        self.first
    }

    /// The identifier of its last entry, deleted or not.
    pub fn last(&self) -> StreamId {
        self.last
    }

    /// Live entries.
    pub fn live(&self) -> usize {
        self.live as usize
    }

    /// Entries that are deleted and keep their place.
    pub fn deleted(&self) -> usize {
        self.deleted as usize
    }

    /// Bytes that the node would take as a listpack.
    pub(super) fn listpack_bytes(&self) -> usize {
        let counts =
            integer_element_bytes(i64::from(self.live)) + integer_element_bytes(i64::from(self.deleted));
        self.listpack_bytes as usize + counts as usize
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve_exact(bytes);
    }

    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// The entries, deleted ones included.
    pub(super) fn entries(&self) -> RawEntries<'_> {
        let mut head = Reader::new(&self.bytes, 0);
        let head_field_count = head.varint().and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        let mut at = head.clone();
        // The head is whole: `open` wrote it.
        at.skip(head_field_count);
        RawEntries { first: self.first, previous: self.first, head_fields: head, head_field_count, at }
    }

    /// Appends an entry; `id` is above all others of the node, or the node's own if it has none.
    pub(super) fn append(&mut self, id: StreamId, fields: &[(&[u8], &[u8])]) {
        let head = self.entries();
        let mut scratch = [0; NUMBER_TEXT_MAX];
        let same = head.head_field_count == fields.len()
            && head.head_fields().zip(fields).all(|(name, field)| name.bytes(&mut scratch) == field.0);
        self.open_entry(id, same, false, fields.len());
        for (name, value) in fields {
            if !same {
                self.push_text(&Text::new(name));
            }
            self.push_text(&Text::new(value));
        }
    }

    /// Appends an entry without its texts: that many values, and before each its name if it has other fields
    /// than the head. [`Node::push_text`] appends them.
    pub(super) fn open_entry(&mut self, id: StreamId, has_head_fields: bool, is_deleted: bool, count: usize) {
        let flags = if is_deleted { DELETED } else { 0 } | if has_head_fields { 0 } else { OTHER_FIELDS };
        // A node stays below 2 GiB.
        self.last_position = self.bytes.len() as u32;
        self.write_id(flags, id);
        let ms = id.ms.wrapping_sub(self.first.ms) as i64;
        let seq = id.seq.wrapping_sub(self.first.seq) as i64;
        let elements = if has_head_fields { count + 3 } else { 2 * count + 4 };
        let mut size = integer_element_bytes(0) + integer_element_bytes(ms) + integer_element_bytes(seq);
        size += integer_element_bytes(elements as i64);
        if !has_head_fields {
            write_varint(count as u64, &mut self.bytes);
            size += integer_element_bytes(count as i64);
        }
        self.listpack_bytes = self.listpack_bytes.saturating_add(size);
        *(if is_deleted { &mut self.deleted } else { &mut self.live }) += 1;
        self.last = id;
    }

    /// Appends the next text of the last entry.
    #[inline]
    pub(super) fn push_text(&mut self, text: &Text<'_>) {
        text.write(&mut self.bytes);
        self.listpack_bytes = self.listpack_bytes.saturating_add(element_bytes(text));
    }

    fn write_id(&mut self, flags: u8, id: StreamId) {
        let form = |kind: u8| flags | kind << ID_SHIFT;
        let beyond = id.ms.wrapping_sub(self.last.ms);
        if self.live + self.deleted == 0 {
            self.bytes.push(form(ID_FIRST));
        } else if beyond == 0 && id.seq == self.last.seq.wrapping_add(1) {
            self.bytes.push(form(ID_NEXT));
        } else if beyond > 0 && id.seq == 0 {
            let short = if beyond <= LATER_MAX { beyond as u8 } else { 0 };
            self.bytes.push(form(ID_LATER) | short << LATER_SHIFT);
            if short == 0 {
                write_varint(beyond, &mut self.bytes);
            }
        } else {
            self.bytes.push(form(ID_ANY));
            write_varint(beyond, &mut self.bytes);
            let base = if beyond == 0 { self.last.seq } else { 0 };
            write_varint(id.seq.wrapping_sub(base), &mut self.bytes);
        }
    }

    /// The identifier of the first live entry.
    pub(super) fn first_live(&self) -> Option<StreamId> {
        self.entries().find(|entry| !entry.deleted).map(|entry| entry.id)
    }

    /// The last entry, unless it is deleted. O(its fields).
    pub(super) fn last_entry(&self) -> Option<RawEntry<'_>> {
        let mut entries = self.entries();
        entries.at = Reader::new(&self.bytes, self.last_position as usize);
        let last = entries.next().filter(|entry| !entry.deleted)?;
        Some(RawEntry { id: self.last, ..last })
    }

    /// Whether there is a live entry of that identifier.
    pub(super) fn contains(&self, id: StreamId) -> bool {
        let found = self.entries().take_while(|entry| entry.id <= id).find(|entry| entry.id == id);
        found.is_some_and(|entry| !entry.deleted)
    }

    /// Marks entry `id` deleted. False where there is no such live entry.
    pub(super) fn delete(&mut self, id: StreamId) -> bool {
        let found = self.entries().take_while(|entry| entry.id <= id).find(|entry| entry.id == id);
        match found.filter(|entry| !entry.deleted).map(|entry| entry.position) {
            Some(position) => {
                self.mark_deleted(position);
                true
            }
            None => false,
        }
    }

    /// Marks live entries deleted, from the first on, as `choose` says: `None` ends the walk. Returns how
    /// many.
    pub(super) fn delete_where(&mut self, mut choose: impl FnMut(StreamId) -> Option<bool>) -> usize {
        let mut chosen = Vec::new();
        for entry in self.entries().filter(|entry| !entry.deleted) {
            match choose(entry.id) {
                Some(true) => chosen.push(entry.position),
                Some(false) => {}
                None => break,
            }
        }
        chosen.iter().for_each(|&position| self.mark_deleted(position));
        chosen.len()
    }

    fn mark_deleted(&mut self, position: usize) {
        self.bytes[position] |= DELETED;
        self.live -= 1;
        self.deleted += 1;
    }
}
