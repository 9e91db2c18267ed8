//! Listpacks: the packed list of byte strings and integers that Redis uses in memory, in dumps and in
//! streams.
//!
//! ```text
//! +-------------+-----------+---------+-- ... --+---------+------+
//! | total bytes | elements  | element |         | element | 0xff |
//! |   u32 LE    |  u16 LE   |         |         |         |      |
//! +-------------+-----------+---------+-- ... --+---------+------+
//!
//! element = encoding byte, more length or integer bytes, payload, then the length of all that, written so
//! that it can be read from the right ("back length", one to five bytes of seven bits)
//! ```
//!
//! | first byte | what follows | what it is |
//! | --- | --- | --- |
//! | `0xxxxxxx` | | integer 0 to 127 |
//! | `10xxxxxx` | x bytes | string of up to 63 bytes |
//! | `110xxxxx` | 1 byte | integer of 13 bits |
//! | `1110xxxx` | 1 byte, string | string of up to 4,095 bytes |
//! | `11110000` | u32, string | longer string |
//! | `11110001` to `11110100` | 2, 3, 4, 8 bytes | integer, little-endian |
//!
//! The element count saturates at 65,535, which then means "count them". Costs: one to eleven bytes beside
//! the payload. Reading is bounds-checked throughout: bytes that are no listpack give errors or end the
//! iteration, never a panic.

use std::fmt;

use mantissa_number::{INTEGER_TEXT_MAX, format_i64, parse_i64};

use crate::short_text::{copy_short, signed};

/// Bytes before the first element.
pub const HEADER_BYTES: usize = 6;
/// The byte after the last element.
const END: u8 = 0xff;
/// Strings of fewer bytes have their length in their first byte.
const SHORT_TEXT_END: usize = 64;
/// Bytes of the largest integer as an element, its length included.
const INTEGER_BYTES_MAX: usize = 10;
/// Bytes that are reserved for many elements.
const APPENDED_BYTES: usize = 512;
/// The count in the header that means "more than can be told here".
const COUNT_UNKNOWN: u16 = u16::MAX;

/// One element: what is stored as an integer stays one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element<'a> {
    /// Stored as an integer; it stands for its decimal text.
    Integer(i64),
    /// Stored as bytes.
    Bytes(&'a [u8]),
}

/// A buffer for the decimal text of one integer element.
pub type IntegerText = [u8; INTEGER_TEXT_MAX];

impl<'a> Element<'a> {
    /// The text that the element stands for; an integer is printed into `scratch`.
    pub fn text<'b>(&self, scratch: &'b mut IntegerText) -> &'b [u8]
    where
        'a: 'b,
    {
        match *self {
            Element::Bytes(bytes) => bytes,
            Element::Integer(value) => format_i64(scratch, value),
        }
    }

    /// The text as an owned string.
    pub fn to_vec(&self) -> Vec<u8> {
        self.text(&mut [0; INTEGER_TEXT_MAX]).to_vec()
    }

    /// The integer that the element holds; text that looks like one counts too.
    pub fn integer(&self) -> Option<i64> {
        match *self {
            Element::Integer(value) => Some(value),
            Element::Bytes(bytes) => parse_i64(bytes),
        }
    }
}

/// Why bytes are no listpack: where, counted from its start, and what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListpackError {
    /// Position in the bytes of the listpack.
    pub at: usize,
    /// What is wrong there.
    pub reason: &'static str,
}

impl fmt::Display for ListpackError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "listpack byte {}: {}", self.at, self.reason)
    }
}

/// Checks every byte that is not payload, in one pass, and returns the number of elements.
pub fn validate(bytes: &[u8]) -> Result<usize, ListpackError> {
    let mut elements = CheckedElements::new(bytes)?;
    while elements.next().transpose()?.is_some() {}
    Ok(elements.count)
}

/// Walks the elements of bytes that need not be a listpack, and checks every byte that is not payload on the
/// way: an error is the last that it yields, and says that they are none.
pub struct CheckedElements<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The number of elements so far.
    count: usize,
}

impl<'a> CheckedElements<'a> {
    /// Starts at the first element, if the header is sound.
    pub fn new(bytes: &'a [u8]) -> Result<Self, ListpackError> {
        let fail = |reason| Err(ListpackError { at: 0, reason });
        if bytes.len() < HEADER_BYTES + 1 {
            return fail("shorter than its header");
        }
        if usize::try_from(u32_at(bytes, 0)) != Ok(bytes.len()) {
            return fail("its length differs from the one in its header");
        }
        Ok(CheckedElements { bytes, at: HEADER_BYTES, count: 0 })
    }

    /// The element at the place, and the place after it.
    #[inline]
    fn element(&self) -> Result<(Element<'a>, usize), ListpackError> {
        let (bytes, at) = (self.bytes, self.at);
        let fail = |at, reason| Err(ListpackError { at, reason });
        let Some((element, length)) = decode(&bytes[at..]) else {
            return fail(at, "broken element");
        };
        let next = at + length + back_length_bytes(length);
        if next >= bytes.len() {
            return fail(at, "element past the end");
        }
        // Most lengths take one byte.
        let back = &bytes[at + length..next];
        if (back.len() > 1 || usize::from(back[0]) != length) && read_back_length(back) != length {
            return fail(at + length, "back length differs from the element's length");
        }
        Ok((element, next))
    }

    /// Checks what comes after the last element.
    fn end(&self) -> Result<(), ListpackError> {
        let fail = |at, reason| Err(ListpackError { at, reason });
        if self.at + 1 != self.bytes.len() {
            return fail(self.at, "end mark before the end");
        }
        let stated = u16::from_le_bytes([self.bytes[4], self.bytes[5]]);
        if stated != COUNT_UNKNOWN && usize::from(stated) != self.count {
            return fail(4, "element count differs from the one in its header");
        }
        Ok(())
    }
}

impl<'a> Iterator for CheckedElements<'a> {
    type Item = Result<Element<'a>, ListpackError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let is_end = *self.bytes.get(self.at)? == END;
        let step = if is_end { self.end().map(|()| None) } else { self.element().map(Some) };
        match step {
            Ok(Some((element, next))) => {
                (self.at, self.count) = (next, self.count + 1);
                Some(Ok(element))
            }
            Ok(None) => {
                self.at = self.bytes.len();
                None
            }
            Err(error) => {
                self.at = self.bytes.len();
                Some(Err(error))
            }
        }
    }
}

/// Walks the elements of a listpack. Bytes that were not validated end the walk early.
#[derive(Clone)]
pub struct Elements<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Elements<'a> {
    /// Starts at the first element.
    pub fn new(bytes: &'a [u8]) -> Self {
        Elements { bytes, at: HEADER_BYTES }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let (element, length) = decode(self.bytes.get(self.at..)?)?;
        self.at += length + back_length_bytes(length);
        Some(element)
    }
}

/// Decodes the element at the start of `bytes` and returns it with its length, the back length not included.
#[inline]
pub(crate) fn decode(bytes: &[u8]) -> Option<(Element<'_>, usize)> {
    let first = *bytes.first()?;
    let string = |header: usize, length: usize| {
        let end = header.checked_add(length)?;
        Some((Element::Bytes(bytes.get(header..end)?), end))
    };
    let integer = |width: usize| Some((Element::Integer(signed(&bytes[1..], width)?), 1 + width));
    match first {
        0x00..=0x7f => Some((Element::Integer(i64::from(first)), 1)),
        0x80..=0xbf => string(1, usize::from(first & 0x3f)),
        0xc0..=0xdf => {
            let raw = (u16::from(first & 0x1f) << 8) | u16::from(*bytes.get(1)?);
            let value = i64::from(raw);
            Some((Element::Integer(if raw >= 1 << 12 { value - (1 << 13) } else { value }), 2))
        }
        0xe0..=0xef => string(2, (usize::from(first & 0x0f) << 8) | usize::from(*bytes.get(1)?)),
        0xf0 => string(5, usize::try_from(u32_at(bytes.get(..5)?, 1)).ok()?),
        0xf1 => integer(2),
        0xf2 => integer(3),
        0xf3 => integer(4),
        0xf4 => integer(8),
        _ => None,
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// How many bytes the back length of an element of `length` bytes takes. The uneven bounds are the format's
/// own.
fn back_length_bytes(length: usize) -> usize {
    match length {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

fn read_back_length(bytes: &[u8]) -> usize {
    let first_is_open = bytes.first().is_some_and(|first| first & 0x80 == 0);
    let others_continue = bytes.iter().skip(1).all(|byte| byte & 0x80 != 0);
    if !first_is_open || !others_continue {
        return 0;
    }
    bytes.iter().fold(0, |sum, byte| (sum << 7) | usize::from(byte & 0x7f))
}

#[inline]
fn write_back_length(length: usize, out: &mut Vec<u8>) {
    let count = back_length_bytes(length);
    if count == 1 {
        return out.push(length as u8);
    }
    for index in 0..count {
        let bits = (length >> (7 * (count - 1 - index))) & 0x7f;
        // `bits` has seven bits, so it fits a byte.
        out.push(bits as u8 | if index == 0 { 0 } else { 0x80 });
    }
}

/// A listpack that is being built or edited; its bytes are a whole listpack at all times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listpack {
    bytes: Vec<u8>,
}

impl Default for Listpack {
    fn default() -> Self {
        Self::new()
    }
}

impl Listpack {
    /// An empty listpack.
    pub fn new() -> Self {
        let mut listpack = Listpack { bytes: vec![0; HEADER_BYTES] };
        listpack.close(0);
        listpack
    }

    /// An empty listpack with room for one of so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut listpack = Listpack { bytes: Vec::with_capacity(bytes.max(HEADER_BYTES + 1)) };
        listpack.bytes.resize(HEADER_BYTES, 0);
        listpack.close(0);
        listpack
    }

    /// The listpack as stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Gives up the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Empties it and keeps its allocation.
    pub fn clear(&mut self) {
        self.bytes.truncate(HEADER_BYTES);
        self.close(0);
    }

    /// True when there is no element.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == HEADER_BYTES + 1
    }

    /// Bytes that the allocation holds.
    pub fn capacity_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Gives back memory that is not used.
    pub fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Appends a string, as an integer where it is the text of one.
    pub fn push(&mut self, text: &[u8]) {
        self.append_all(|out| out.text(text));
    }

    /// Appends elements; see [`Listpack::push`].
    pub fn extend<'e>(&mut self, elements: impl Iterator<Item = Element<'e>>) {
        self.append_all(|out| elements.for_each(|element| out.element(element)));
    }

    /// Appends what `write` is called with takes in. Costs less than appending one after the other.
    pub fn append_all(&mut self, write: impl FnOnce(&mut Appender<'_>)) {
        let count = usize::from(u16::from_le_bytes([self.bytes[4], self.bytes[5]]));
        self.bytes.pop();
        let mut appender = Appender { at: self.bytes.len(), bytes: &mut self.bytes, count };
        write(&mut appender);
        appender.set_len();
        let count = appender.count;
        self.close(u16::try_from(count).unwrap_or(COUNT_UNKNOWN));
    }

    /// Replaces the element that starts at `position` by an integer and returns by how many bytes the rest
    /// moved. Nothing happens where no element starts there.
    pub fn replace_with_integer(&mut self, position: usize, value: i64) -> isize {
        let Some((_, length)) = self.bytes.get(position..).and_then(decode) else {
            return 0;
        };
        let old_end = position + length + back_length_bytes(length);
        let mut new = Listpack::new();
        new.append_all(|out| out.integer(value));
        let new = &new.bytes[HEADER_BYTES..new.bytes.len() - 1];
        let moved = new.len() as isize - (old_end - position) as isize;
        self.bytes.splice(position..old_end, new.iter().copied());
        self.set_total();
        moved
    }

    fn close(&mut self, count: u16) {
        self.bytes.push(END);
        self.bytes[4..6].copy_from_slice(&count.to_le_bytes());
        self.set_total();
    }

    fn set_total(&mut self) {
        debug_assert!(u32::try_from(self.bytes.len()).is_ok(), "a listpack stays below 4 GiB");
        let total = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&total.to_le_bytes());
    }
}

/// Takes elements for a listpack, whose header is written after the last one.
pub struct Appender<'l> {
    bytes: &'l mut Vec<u8>,
    /// Where the next element goes. The length of the vector is set to it at the end.
    at: usize,
    /// The number of elements.
    count: usize,
}

impl Appender<'_> {
    /// Appends an element.
    #[inline]
    pub fn element(&mut self, element: Element<'_>) {
        match element {
            Element::Integer(value) => self.integer(value),
            Element::Bytes(text) => self.text(text),
        }
    }

    /// Appends a string, as an integer where it is the text of one.
    #[inline]
    pub fn text(&mut self, text: &[u8]) {
        match parse_i64(text) {
            Some(value) => self.integer(value),
            None => self.other_text(text),
        }
    }

    /// Appends a string that is not the text of an integer.
    #[inline]
    pub fn other_text(&mut self, text: &[u8]) {
        debug_assert_eq!(parse_i64(text), None);
        self.count += 1;
        let len = text.len();
        if len >= SHORT_TEXT_END {
            return self.long_text(text);
        }
        let to = self.room(SHORT_TEXT_END + 1);
        // SAFETY: there is room for a text of 63 bytes, the byte before it and the one behind it.
        unsafe {
            to.write(0x80 | len as u8);
            copy_short(text, to.add(1));
            to.add(1 + len).write(1 + len as u8);
        }
        self.at += len + 2;
    }

    /// Appends an integer.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        self.count += 1;
        let to = self.room(INTEGER_BYTES_MAX);
        // SAFETY: there is room for the largest integer, which takes no less than what is written here.
        unsafe {
            match value {
                // Each with its length behind it.
                0..=0x7f => {
                    to.cast::<[u8; 2]>().write_unaligned([value as u8, 1]);
                    self.at += 2;
                }
                -4096..=4095 => {
                    let raw = value.to_le_bytes();
                    to.cast::<[u8; 4]>().write_unaligned([0xc0 | (raw[1] & 0x1f), raw[0], 2, 0]);
                    self.at += 3;
                }
                _ => {
                    let len = integer_bytes(value);
                    to.write(if len == 9 { 0xf4 } else { 0xf1 + (len as u8 - 3) });
                    to.add(1).cast::<[u8; 8]>().write_unaligned(value.to_le_bytes());
                    to.add(len).write(len as u8);
                    self.at += len + 1;
                }
            }
        }
    }

    #[inline(never)]
    fn long_text(&mut self, text: &[u8]) {
        self.set_len();
        let (start, raw) = (self.at, (text.len() as u32).to_le_bytes());
        match text.len() {
            ..4096 => self.bytes.extend_from_slice(&[0xe0 | raw[1], raw[0]]),
            _ => {
                self.bytes.push(0xf0);
                self.bytes.extend_from_slice(&raw);
            }
        }
        self.bytes.extend_from_slice(text);
        write_back_length(self.bytes.len() - start, self.bytes);
        self.at = self.bytes.len();
    }

    /// Where the next element goes, with room for so many bytes.
    #[inline(always)]
    fn room(&mut self, needed: usize) -> *mut u8 {
        debug_assert!(self.at <= self.bytes.capacity());
        if self.bytes.capacity() - self.at < needed {
            self.set_len();
            self.bytes.reserve(needed.max(APPENDED_BYTES));
        }
        // SAFETY: `at` lies in the vector, or at its end.
        unsafe { self.bytes.as_mut_ptr().add(self.at) }
    }

    #[inline]
    fn set_len(&mut self) {
        // SAFETY: all bytes up to `at` have been written, to room that the vector has.
        unsafe { self.bytes.set_len(self.at.min(self.bytes.capacity())) }
    }
}

/// Bytes that `text` would take as an element, back length included.
pub fn element_bytes(text: &[u8]) -> usize {
    match parse_i64(text) {
        Some(value) => integer_element_bytes(value),
        None => text_element_bytes(text.len()),
    }
}

/// Bytes that an integer takes as an element, back length included.
pub(crate) fn integer_element_bytes(value: i64) -> usize {
    // At most nine bytes, whose length takes one more.
    integer_bytes(value) + 1
}

/// Bytes that a text of `len` bytes, which is not that of an integer, takes as an element, back length
/// included.
pub(crate) fn text_element_bytes(len: usize) -> usize {
    let length = match len {
        0..SHORT_TEXT_END => 1 + len,
        SHORT_TEXT_END..4096 => 2 + len,
        _ => 5 + len,
    };
    length + back_length_bytes(length)
}

fn integer_bytes(value: i64) -> usize {
    match value {
        0..=127 => 1,
        -4096..=4095 => 2,
        -0x8000..=0x7fff => 3,
        -0x80_0000..=0x7f_ffff => 4,
        -0x8000_0000..=0x7fff_ffff => 5,
        _ => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_reads_back() {
        let mut integers = vec![0, 127, 128, -1, 4095, -4096, 4096, -4097, 32767, -32768, 32768, -32769];
        integers.extend([0x7f_ffff, -0x80_0000, 0x80_0000, i64::from(i32::MAX), i64::from(i32::MIN)]);
        integers.extend([i64::from(i32::MAX) + 1, i64::MAX, i64::MIN]);
        let lengths =
            [0, 1, 63, 64, 125, 126, 127, 4095, 4096, 16_376, 16_377, 16_378, 16_379, 70_000, 2_097_146];
        let mut listpack = Listpack::new();
        for &value in &integers {
            listpack.push(value.to_string().as_bytes());
        }
        for length in lengths {
            listpack.push(&vec![b'x'; length]);
        }
        assert_eq!(validate(listpack.as_bytes()), Ok(integers.len() + lengths.len()));
        let mut elements = Elements::new(listpack.as_bytes());
        for value in integers {
            assert_eq!(elements.next(), Some(Element::Integer(value)));
        }
        for length in lengths {
            assert_eq!(elements.next(), Some(Element::Bytes(&vec![b'x'; length])));
        }
        assert_eq!(elements.next(), None);
    }

    #[test]
    fn many_at_once_are_as_one_after_the_other() {
        let texts: Vec<Vec<u8>> = (0..400_usize)
            .map(|number| match number % 3 {
                0 => vec![b'x'; number * 3],
                1 => (number * number).to_string().into_bytes(),
                _ => format!("-{number}").into_bytes(),
            })
            .collect();
        let (mut one, mut many) = (Listpack::new(), Listpack::new());
        texts.iter().for_each(|text| one.push(text));
        let (first, rest) = texts.split_at(7);
        many.extend(first.iter().map(|text| Element::Bytes(text)));
        many.append_all(|out| rest.iter().for_each(|text| out.text(text)));
        assert_eq!(one, many);
        assert_eq!(validate(many.as_bytes()), Ok(texts.len()));
    }

    #[test]
    fn replacing_moves_the_rest() {
        let mut listpack = Listpack::new();
        listpack.push(b"1");
        listpack.push(b"tail");
        assert_eq!(listpack.replace_with_integer(HEADER_BYTES, 1000), 1);
        assert_eq!(listpack.replace_with_integer(HEADER_BYTES, i64::MIN), 7);
        assert_eq!(validate(listpack.as_bytes()), Ok(2));
        let elements: Vec<_> = Elements::new(listpack.as_bytes()).collect();
        assert_eq!(elements, [Element::Integer(i64::MIN), Element::Bytes(b"tail")]);
    }

    #[test]
    fn damage_is_found_and_never_panics() {
        let mut listpack = Listpack::new();
        for text in ["a", "300", "a longer string", "-7"] {
            listpack.push(text.as_bytes());
        }
        let good = listpack.into_bytes();
        for length in 0..good.len() {
            assert!(validate(&good[..length]).is_err());
            Elements::new(&good[..length]).count();
        }
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let _ = validate(&bad);
            Elements::new(&bad).count();
        }
    }

    #[test]
    fn sizes_are_as_predicted() {
        for text in ["5", "-5", "70000", "abc", "99999999999"] {
            let mut listpack = Listpack::new();
            listpack.push(text.as_bytes());
            assert_eq!(listpack.as_bytes().len(), HEADER_BYTES + 1 + element_bytes(text.as_bytes()));
        }
    }
}
