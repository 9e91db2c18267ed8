//! A short sequence of strings in one allocation, for small sets and hashes.
//!
//! The elements lie back to back in the encoding of a listpack ([`crate::listpack`]) without its header and
//! end. What is the text of an integer is stored as one, so that every text has exactly one encoding: looking
//! for it compares bytes and decodes nothing.
//!
//! Bytes per element: two beside the text, up to 63 bytes of it; the allocation grows by size classes.

use smallvec::SmallVec;

use crate::allocator::class_size;
use crate::listpack::{Element, decode, element_span, write_element};

/// The encoding of a text, to look for.
pub(crate) struct Needle(SmallVec<[u8; 96]>);

impl Needle {
    pub(crate) fn new(text: &[u8]) -> Needle {
        let mut bytes = Vec::with_capacity(text.len() + 12);
        write_element(text, &mut bytes);
        Needle(SmallVec::from_vec(bytes))
    }
}

/// See the module's description.
#[derive(Clone, Default)]
pub(crate) struct Packed {
    bytes: Vec<u8>,
    count: u32,
}

impl Packed {
    /// The number of elements.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count as usize
    }

    /// Bytes of the allocation.
    pub(crate) fn memory_usage(&self) -> usize {
        if self.bytes.capacity() == 0 { 0 } else { class_size(self.bytes.capacity()) }
    }

    /// All elements.
    #[inline]
    pub(crate) fn iter(&self) -> PackedIter<'_> {
        PackedIter { bytes: &self.bytes, at: 0, left: self.count as usize }
    }

    /// The elements from a position on.
    #[inline]
    pub(crate) fn iter_from(&self, position: usize) -> PackedIter<'_> {
        PackedIter { bytes: &self.bytes, at: position, left: self.count as usize }
    }

    /// The position of an element, looking at every `stride`th.
    pub(crate) fn find(&self, needle: &Needle, stride: usize) -> Option<usize> {
        let mut at = 0;
        while let Some(rest) = self.bytes.get(at..).filter(|rest| !rest.is_empty()) {
            if rest.starts_with(&needle.0) {
                return Some(at);
            }
            at = self.skip(at, stride);
        }
        None
    }

    /// The position `count` elements after a position.
    #[inline]
    pub(crate) fn skip(&self, mut position: usize, count: usize) -> usize {
        for _ in 0..count {
            let span = self.bytes.get(position..).map_or(0, element_span);
            debug_assert!(span > 0, "an element starts there");
            position = if span == 0 { self.bytes.len() } else { position + span };
        }
        position
    }

    /// Adds an element at the end.
    pub(crate) fn push(&mut self, text: &[u8]) {
        self.make_room(text.len() + 12);
        write_element(text, &mut self.bytes);
        self.count += 1;
    }

    /// Adds elements before the one at a position.
    pub(crate) fn insert(&mut self, position: usize, texts: &[&[u8]]) {
        let mut encoded = Vec::with_capacity(texts.iter().map(|text| text.len() + 12).sum());
        texts.iter().for_each(|text| write_element(text, &mut encoded));
        self.make_room(encoded.len());
        self.bytes.splice(position..position, encoded);
        self.count += texts.len() as u32;
    }

    /// Puts another element in the place of the one at a position.
    pub(crate) fn replace(&mut self, position: usize, text: &[u8]) {
        let end = self.skip(position, 1);
        let Needle(encoded) = Needle::new(text);
        if encoded.len() == end - position {
            self.bytes[position..end].copy_from_slice(&encoded);
        } else {
            self.make_room(encoded.len());
            self.bytes.splice(position..end, encoded);
        }
    }

    /// Removes `count` elements from a position on.
    pub(crate) fn remove(&mut self, position: usize, count: usize) {
        let end = self.skip(position, count);
        self.bytes.drain(position..end);
        self.count -= count as u32;
        if self.bytes.len() < self.bytes.capacity() / 2 {
            self.bytes.shrink_to(class_size(self.bytes.len()));
        }
    }

    fn make_room(&mut self, additional: usize) {
        let wanted = self.bytes.len() + additional;
        if wanted > self.bytes.capacity() {
            self.bytes.reserve_exact(class_size(wanted) - self.bytes.len());
        }
    }
}

/// The elements of a [`Packed`] in order.
#[derive(Clone)]
pub(crate) struct PackedIter<'a> {
    bytes: &'a [u8],
    at: usize,
    left: usize,
}

impl PackedIter<'_> {
    /// Where the next element starts.
    pub(crate) fn position(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for PackedIter<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        let rest = self.bytes.get(self.at..)?;
        let (element, _) = decode(rest)?;
        self.at += element_span(rest);
        self.left = self.left.saturating_sub(1);
        Some(element)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}
