//! What is in a block, to read.

use mantissa_number::INTEGER_TEXT_MAX;

use super::element::{self, Encoded, decode, external_bytes, span, spans};
use crate::listpack::Element;

/// How the items of a block look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Form {
    /// Elements of an item: 1 to 3.
    pub(super) stride: u8,
    /// Whether each item has a tag.
    pub(super) has_tags: bool,
}

impl Form {
    /// Items of `stride` elements, to be found by walking.
    pub(crate) const fn plain(stride: u8) -> Form {
        Form { stride, has_tags: false }
    }

    /// Items of `stride` elements, to be found by their tags.
    pub(super) const fn tagged(stride: u8) -> Form {
        Form { stride, has_tags: true }
    }

    pub(crate) const fn stride(self) -> usize {
        self.stride as usize
    }
}

/// Where an item is in its block, until that is changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Position {
    pub(super) item: usize,
    /// Of its first element in the data.
    pub(super) offset: usize,
}

impl Position {
    /// Of the first item.
    pub(crate) const FIRST: Position = Position { item: 0, offset: 0 };
}

/// An item: its first element, and the others as far as it has them.
#[derive(Clone, Copy)]
pub(crate) struct Item<'a> {
    /// The member or field.
    pub(crate) key: Element<'a>,
    /// The value; the integer 0 if items have none.
    pub(crate) value: Element<'a>,
    /// When it expires, a Unix time in ms; 0 if never.
    pub(crate) expiry: i64,
}

impl Item<'_> {
    /// When it expires, if it does.
    #[inline]
    pub(crate) fn expiry(&self) -> Option<i64> {
        (self.expiry != 0).then_some(self.expiry)
    }
}

/// A borrowed block.
///
/// Invariant: the codes and the data are those of a block that stays as it is for as long as the lifetime. If
/// items have tags, there is a multiple of eight of these, the first as many as items being theirs.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    form: Form,
    tags: &'a [u8],
    codes: &'a [u8],
    data: &'a [u8],
}

/// The bytes of `word` that are zero, as the high bits of these bytes.
#[inline]
fn zero_bytes(word: u64) -> u64 {
    const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    !(((word & LOW_BITS) + LOW_BITS) | word) & !LOW_BITS
}

impl<'a> View<'a> {
    /// # Safety
    /// See the invariant.
    #[inline]
    pub(super) unsafe fn new(form: Form, tags: &'a [u8], codes: &'a [u8], data: &'a [u8]) -> View<'a> {
        View { form, tags, codes, data }
    }

    /// The number of items.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self.form.stride {
            1 => self.codes.len(),
            2 => self.codes.len() / 2,
            _ => self.codes.len() / 3,
        }
    }

    #[inline]
    pub(super) fn form(&self) -> Form {
        self.form
    }

    pub(super) fn tags(&self) -> &'a [u8] {
        self.tags
    }

    pub(super) fn codes(&self) -> &'a [u8] {
        self.codes
    }

    #[inline]
    pub(crate) fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Bytes of tags, codes and elements.
    #[inline]
    pub(super) fn content_bytes(&self) -> usize {
        let tags = if self.form.has_tags { self.len() } else { 0 };
        tags + self.codes.len() + self.data.len()
    }

    /// Bytes of tag, codes and elements of one item.
    #[inline]
    pub(super) fn content_bytes_of(&self, at: Position) -> usize {
        usize::from(self.form.has_tags) + self.form.stride() + self.next(at).offset - at.offset
    }

    /// Bytes of the texts that have allocations of their own.
    pub(crate) fn external_bytes(&self) -> usize {
        // SAFETY: the invariant.
        unsafe { external_bytes(self.codes, self.data) }
    }

    /// Whether the first element of the first item is a text, and not that of an integer.
    pub(crate) fn starts_with_text(&self) -> bool {
        self.codes.first().is_some_and(|&code| !element::is_integer(code))
    }

    /// Whether the codes show that no element has a text of more than `text_bytes_max` bytes.
    pub(crate) fn has_texts_within(&self, text_bytes_max: usize) -> bool {
        self.codes.iter().all(|&code| match element::is_integer(code) {
            true => text_bytes_max >= INTEGER_TEXT_MAX,
            false => usize::from(code) <= text_bytes_max.min(element::INLINE_BYTES_MAX),
        })
    }

    /// Bytes of those of one item.
    #[inline]
    pub(super) fn external_bytes_of(&self, at: Position) -> usize {
        // SAFETY: the invariant; a position is that of an item.
        unsafe { external_bytes(self.codes_of(at.item), &self.data[at.offset..]) }
    }

    /// Whether there is an item at a position.
    #[inline]
    pub(crate) fn has(&self, at: Position) -> bool {
        at.item < self.len()
    }

    /// The codes of an item.
    #[inline]
    pub(super) fn codes_of(&self, item: usize) -> &'a [u8] {
        let stride = self.form.stride();
        &self.codes[item * stride..(item + 1) * stride]
    }

    /// Where an item is. Costs O(n / 8).
    #[inline]
    pub(crate) fn position(&self, item: usize) -> Position {
        Position { item, offset: spans(self.codes, item * self.form.stride()) }
    }

    /// The position after one.
    #[inline]
    pub(crate) fn next(&self, at: Position) -> Position {
        let spans = self.codes_of(at.item).iter().map(|&code| span(code)).sum::<usize>();
        Position { item: at.item + 1, offset: at.offset + spans }
    }

    /// The item at a position.
    #[inline]
    pub(crate) fn item(&self, at: Position) -> Item<'a> {
        read_item(self.codes_of(at.item), &self.data[at.offset..])
    }

    /// The hash of the first element of the item at a position.
    #[inline]
    pub(super) fn hash(&self, at: Position) -> u64 {
        let code = self.codes_of(at.item)[0];
        // SAFETY: the invariant.
        unsafe { element::hash_of(code, &self.data[at.offset..at.offset + span(code)]) }
    }

    #[inline]
    fn is_at(&self, at: Position, key: &Encoded<'_>) -> bool {
        // SAFETY: the caller has compared the codes; the invariant.
        unsafe { key.equals(&self.data[at.offset..at.offset + key.span()]) }
    }

    /// Where the item is whose first element is `key`; `tag` is the item's, if items have tags.
    #[inline(always)]
    pub(crate) fn find(&self, key: &Encoded<'_>, tag: u8) -> Option<Position> {
        match self.form {
            Form { has_tags: true, .. } => self.find_tagged(key, tag),
            Form { stride: 1, .. } => self.walk::<1>(key),
            Form { stride: 2, .. } => self.walk::<2>(key),
            _ => self.walk::<3>(key),
        }
    }

    fn find_tagged(&self, key: &Encoded<'_>, tag: u8) -> Option<Position> {
        const EACH_BYTE: u64 = 0x0101_0101_0101_0101;
        let stride = self.form.stride();
        let check = |item: usize| {
            // Beyond the items there are more tags, which say nothing.
            if self.codes.get(item * stride) != Some(&key.code()) {
                return None;
            }
            let at = self.position(item);
            self.is_at(at, key).then_some(at)
        };
        for (number, word) in self.tags.as_chunks::<8>().0.iter().enumerate() {
            let mut found = zero_bytes(u64::from_le_bytes(*word) ^ (EACH_BYTE * u64::from(tag)));
            while found != 0 {
                let at = check(number * 8 + found.trailing_zeros() as usize / 8);
                if at.is_some() {
                    return at;
                }
                found &= found - 1;
            }
        }
        None
    }

    fn walk<const STRIDE: usize>(&self, key: &Encoded<'_>) -> Option<Position> {
        let code = key.code();
        let mut offset = 0;
        for (item, codes) in self.codes.as_chunks::<STRIDE>().0.iter().enumerate() {
            let at = Position { item, offset };
            if codes[0] == code && self.is_at(at, key) {
                return Some(at);
            }
            offset += codes.iter().map(|&code| span(code)).sum::<usize>();
        }
        None
    }

    /// Visits the first elements of the items whose marks are set, until `visit` returns false; there are as
    /// many marks as items. Says whether all were visited. Of the other items only the lengths are read.
    #[inline]
    pub(crate) fn visit_marked(&self, marks: &[bool], mut visit: impl FnMut(Element<'a>) -> bool) -> bool {
        let mut rest = self.data;
        for (codes, is_marked) in self.codes.chunks_exact(self.form.stride()).zip(marks) {
            if *is_marked && !visit(read_element(codes, rest, 0).0) {
                return false;
            }
            rest = &rest[codes.iter().map(|&code| span(code)).sum::<usize>()..];
        }
        true
    }

    /// All items in order.
    #[inline]
    pub(crate) fn items(&self) -> Items<'a> {
        Items { stride: self.form.stride(), codes: self.codes, data: self.data }
    }
}

/// Reads the item that has these codes from the start of its data, both of which a [`View`] has.
///
/// Always inline, with what it calls: as calls, HGETALL of 1,000 fields takes 1.37 times as long.
#[inline(always)]
fn read_item<'a>(codes: &[u8], data: &'a [u8]) -> Item<'a> {
    let (key, data) = read_element(codes, data, 0);
    let (value, data) = read_element(codes, data, 1);
    let expiry = match read_element(codes, data, 2).0 {
        Element::Integer(time) => time,
        Element::Bytes(_) => 0,
    };
    Item { key, value, expiry }
}

/// Reads the element that `codes` has at an index, and gives the data after it.
#[inline(always)]
fn read_element<'a>(codes: &[u8], data: &'a [u8], index: usize) -> (Element<'a>, &'a [u8]) {
    let Some(&code) = codes.get(index) else { return (Element::Integer(0), data) };
    let (bytes, after) = data.split_at(span(code));
    // SAFETY: the invariant of the view.
    (unsafe { decode(code, bytes) }, after)
}

/// The items of a block in order. See [`View::items`].
#[derive(Clone)]
pub(crate) struct Items<'a> {
    stride: usize,
    codes: &'a [u8],
    data: &'a [u8],
}

impl<'a> Items<'a> {
    /// Of no block.
    pub(super) fn none() -> Self {
        Items { stride: 1, codes: &[], data: &[] }
    }

    /// [`Iterator::fold`] where items have `STRIDE` codes.
    #[inline]
    fn fold_by<const STRIDE: usize, B, F: FnMut(B, Item<'a>) -> B>(self, init: B, mut f: F) -> B {
        let (mut result, mut data) = (init, self.data);
        for codes in self.codes.as_chunks::<STRIDE>().0 {
            result = f(result, read_item(codes, data));
            data = &data[codes.iter().map(|&code| span(code)).sum::<usize>()..];
        }
        result
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        let (codes, rest) =
            self.codes.split_at_checked(self.stride).filter(|(codes, _)| !codes.is_empty())?;
        let item = read_item(codes, self.data);
        self.codes = rest;
        self.data = &self.data[codes.iter().map(|&code| span(code)).sum::<usize>()..];
        Some(item)
    }

    #[inline]
    fn fold<B, F: FnMut(B, Item<'a>) -> B>(self, init: B, f: F) -> B {
        match self.stride {
            1 => self.fold_by::<1, B, F>(init, f),
            2 => self.fold_by::<2, B, F>(init, f),
            _ => self.fold_by::<3, B, F>(init, f),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.codes.len() / self.stride;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Items<'_> {}
