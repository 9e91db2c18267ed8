//! A node of a list: elements packed back to back in listpack form, with room at both ends.
//!
//! ```text
//! bytes   | room at the head | element | element | ... | room at the tail (capacity of the vector) |
//!           ^ 0                ^ start                    ^ len
//! ```
//!
//! An element is what [`crate::listpack`] describes, so that a node is saved and loaded by copying, and its
//! size counts as Redis counts it: the elements and seven bytes. Header and end mark are not kept. A *plain*
//! node holds one large element as it is.
//!
//! Adding and taking at both ends costs O(1) amortised; at an index, a walk from the nearer end and one move
//! of what follows.

use crate::allocator::class_size;
use crate::listpack::{self, Element, HEADER_BYTES, element_span, element_span_before};

/// `Node::start` of a plain node.
const PLAIN: u32 = u32::MAX;
/// Bytes of a listpack beside its elements.
pub(super) const FRAME_BYTES: usize = HEADER_BYTES + 1;
/// Up to this size making room at the head is not worth its bytes: the elements are moved each time.
const MOVED_BYTES_MAX: usize = 256;
/// Most room that is made at the head at once.
const HEAD_ROOM_MAX: usize = 1024;

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    bytes: Vec<u8>,
    start: u32,
    count: u32,
}

impl Node {
    /// A node with one large element.
    pub fn plain(element: &[u8]) -> Node {
        Node { bytes: element.to_vec(), start: PLAIN, count: 1 }
    }

    /// A node with one element.
    pub fn with(element: &[u8]) -> Node {
        let mut node = Node::default();
        node.push_back(element);
        node
    }

    /// The node with the elements of a listpack that has been validated and counted.
    pub fn from_listpack(mut bytes: Vec<u8>, count: usize) -> Node {
        bytes.pop();
        let start = bytes.len().min(HEADER_BYTES) as u32;
        let mut node = Node { bytes, start, count: count as u32 };
        node.bytes.drain(..node.start as usize);
        node.start = 0;
        node
    }

    /// Whether the node holds one large element as it is.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.start == PLAIN
    }

    /// The number of elements.
    #[inline]
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// The size as Redis counts it.
    #[inline]
    pub fn size(&self) -> usize {
        if self.is_plain() { self.bytes.len() } else { self.packed().len() + FRAME_BYTES }
    }

    /// Bytes of its allocation.
    pub fn memory_usage(&self) -> usize {
        if self.bytes.capacity() == 0 { 0 } else { class_size(self.bytes.capacity()) }
    }

    /// The elements in listpack form, or the bytes of the large one.
    #[inline]
    pub fn packed(&self) -> &[u8] {
        &self.bytes[self.head()..]
    }

    #[inline]
    fn head(&self) -> usize {
        if self.is_plain() { 0 } else { self.start as usize }
    }

    /// Adds an element at the tail.
    #[inline]
    pub fn push_back(&mut self, element: &[u8]) {
        debug_assert!(!self.is_plain());
        self.append_raw(element);
        self.count += 1;
    }

    /// Adds an element at the head.
    pub fn push_front(&mut self, element: &[u8]) {
        debug_assert!(!self.is_plain());
        let (start, old_len) = (self.start as usize, self.bytes.len());
        let added = self.append_raw(element);
        self.count += 1;
        if start >= added {
            self.bytes.copy_within(old_len.., start - added);
            self.bytes.truncate(old_len);
            self.start -= added as u32;
            return;
        }
        self.bytes[start..].rotate_right(added);
        let size = old_len - start + added;
        if size > MOVED_BYTES_MAX {
            let room = (size / 4).min(HEAD_ROOM_MAX).max(start);
            self.reserve(room - start);
            self.bytes.resize(room + size, 0);
            self.bytes.copy_within(start..start + size, room);
            self.start = room as u32;
        }
    }

    /// Adds an element before the one at `index`, or at the tail if `index` is the count.
    pub fn insert(&mut self, index: usize, element: &[u8]) {
        match index {
            0 => self.push_front(element),
            _ => {
                let at = self.position(index);
                let added = self.append_raw(element);
                self.bytes[at..].rotate_right(added);
                self.count += 1;
            }
        }
    }

    /// Puts an element in the place of the one at `index`.
    pub fn replace(&mut self, index: usize, element: &[u8]) {
        let at = self.position(index);
        let old = element_span(&self.bytes[at..]);
        let added = self.append_raw(element);
        if added == old {
            let from = self.bytes.len() - added;
            self.bytes.copy_within(from.., at);
            self.bytes.truncate(from);
        } else {
            self.bytes[at..].rotate_right(added);
            self.cut(at + added, at + added + old);
        }
    }

    /// Removes the elements from `from` up to but not including `to`.
    pub fn remove(&mut self, from: usize, to: usize) {
        let start = self.position(from);
        let end = match to - from {
            1 => start + element_span(&self.bytes[start..]),
            _ => self.position(to),
        };
        self.count -= (to - from) as u32;
        self.cut(start, end);
    }

    /// Takes the elements from `index` on into a node of their own.
    pub fn split_off(&mut self, index: usize) -> Node {
        let at = self.position(index);
        let tail = Node { bytes: self.bytes[at..].to_vec(), start: 0, count: self.count - index as u32 };
        self.count = index as u32;
        let end = self.bytes.len();
        self.cut(at, end);
        tail
    }

    /// Adds the elements of the node that follows this one.
    pub fn append(&mut self, next: &Node) {
        self.reserve(next.packed().len());
        self.bytes.extend_from_slice(next.packed());
        self.count += next.count;
    }

    /// Removes elements that `is_unwanted` holds for, but for the first `skip` of them. Asks in order.
    pub fn remove_if(&mut self, mut skip: usize, mut is_unwanted: impl FnMut(Element<'_>) -> bool) {
        let (mut read, mut write) = (self.start as usize, self.start as usize);
        while let Some((element, _)) = listpack::decode(&self.bytes[read..]) {
            let unwanted = is_unwanted(element) && {
                let is_skipped = skip > 0;
                skip = skip.saturating_sub(1);
                !is_skipped
            };
            let span = element_span(&self.bytes[read..]);
            if unwanted {
                self.count -= 1;
            } else {
                self.bytes.copy_within(read..read + span, write);
                write += span;
            }
            read += span;
        }
        let end = self.bytes.len();
        self.cut(write, end);
    }

    /// The element at `index`.
    pub fn get(&self, index: usize) -> Option<Element<'_>> {
        if index >= self.count() {
            return None;
        }
        self.cursor_at(index).next()
    }

    /// A cursor before the element at `index`, or at the end if `index` is the count.
    #[inline]
    pub fn cursor_at(&self, index: usize) -> Cursor<'_> {
        let at = match self.is_plain() {
            true if index > 0 => self.bytes.len(),
            true => 0,
            false => self.position(index),
        };
        Cursor { bytes: &self.bytes, at, is_plain: self.is_plain() }
    }

    /// Where the element at `index` starts; the end if `index` is the count.
    fn position(&self, index: usize) -> usize {
        let count = self.count();
        if index <= count / 2 {
            (0..index).fold(self.start as usize, |at, _| at + element_span(&self.bytes[at..]))
        } else {
            (index..count).fold(self.bytes.len(), |at, _| at - element_span_before(&self.bytes[..at]))
        }
    }

    /// Appends the bytes of an element without counting it; returns how many there are.
    #[inline]
    fn append_raw(&mut self, element: &[u8]) -> usize {
        let old_len = self.bytes.len();
        // An element takes at most ten bytes beside its payload; short ones that are integers, at most ten
        // in all.
        let needed = if element.len() < 64 { element.len() + 2 } else { element.len() + 10 };
        self.reserve(needed);
        listpack::write_element(element, &mut self.bytes);
        self.bytes.len() - old_len
    }

    #[inline]
    fn reserve(&mut self, additional: usize) {
        let needed = self.bytes.len() + additional;
        if needed > self.bytes.capacity() {
            self.bytes.reserve_exact(class_size(needed) - self.bytes.len());
        }
    }

    /// Takes out the bytes from `from` up to but not including `to`, and gives memory back where much is
    /// unused.
    fn cut(&mut self, from: usize, to: usize) {
        let len = self.bytes.len();
        if from == self.start as usize && to < len {
            self.start = to as u32;
            let rest = len - to;
            if to > rest + MOVED_BYTES_MAX {
                self.bytes.drain(..to);
                self.start = 0;
            }
        } else {
            self.bytes.copy_within(to.., from);
            self.bytes.truncate(len - (to - from));
            if self.count == 0 {
                self.bytes.clear();
                self.start = 0;
            }
        }
        if self.bytes.capacity() > 2 * self.bytes.len() + 64 {
            self.bytes.shrink_to(class_size(self.bytes.len()));
        }
    }
}

/// A place between elements of a node, moving both ways.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    is_plain: bool,
}

impl<'a> Cursor<'a> {
    /// The element after the place. The caller counts: at the end of the node there is none.
    #[inline]
    pub fn next(&mut self) -> Option<Element<'a>> {
        if self.is_plain {
            self.at = self.bytes.len();
            return Some(Element::Bytes(self.bytes));
        }
        let rest = &self.bytes[self.at..];
        let (element, _) = listpack::decode(rest)?;
        self.at += element_span(rest);
        Some(element)
    }

    /// The element before the place, of which there must be one.
    #[inline]
    pub fn next_back(&mut self) -> Option<Element<'a>> {
        if self.is_plain {
            self.at = 0;
            return Some(Element::Bytes(self.bytes));
        }
        self.at -= element_span_before(&self.bytes[..self.at]);
        Some(listpack::decode(&self.bytes[self.at..])?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaves_like_a_vector() {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut random = |bound: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as usize % bound
        };
        let mut node = Node::default();
        let mut model: Vec<Vec<u8>> = Vec::new();
        for round in 0..20_000 {
            let element = match random(4) {
                0 => random(1 << 20).to_string().into_bytes(),
                1 => vec![b'x'; random(200)],
                2 => format!("-{}", 1_u64 << random(63)).into_bytes(),
                _ => vec![b'0'; random(70)],
            };
            let place = random(model.len() + 1);
            let growing = (round / 500) % 2 == 0;
            match random(if growing { 6 } else { 12 }) {
                0 => (node.push_front(&element), model.insert(0, element)).1,
                1 => (node.push_back(&element), model.push(element)).1,
                2 | 3 => (node.insert(place, &element), model.insert(place, element)).1,
                4 if place < model.len() => {
                    node.replace(place, &element);
                    model[place] = element;
                }
                5 => {
                    let tail = node.split_off(place);
                    assert_eq!(tail.count(), model.len() - place);
                    node.append(&tail);
                }
                _ => {
                    let end = (place + random(3)).min(model.len());
                    node.remove(place, end);
                    model.drain(place..end);
                }
            }
            assert_eq!(node.count(), model.len(), "round {round}");
            let mut cursor = node.cursor_at(place.min(model.len()));
            for element in model.iter().skip(place) {
                assert_eq!(cursor.next().map(|element| element.to_vec()).as_ref(), Some(element));
            }
            for element in model.iter().rev() {
                assert_eq!(cursor.next_back().map(|element| element.to_vec()).as_ref(), Some(element));
            }
        }
    }
}
