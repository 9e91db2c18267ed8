//! The packed form of small arrays.
//!
//! ```text
//! count      varint
//! cursor     varint: the last index that was inserted at, plus 1; 0 if there is none
//! elements   in the order of their indexes:
//!            varint: the indexes between it and the one before it; of the first one its index
//!            0: an integer follows, as a varint with its sign lowest
//!            1: a double follows (8 bytes)
//!            n: a text of n - 2 bytes follows
//! ```
//!
//! Reading an element looks at all before it. A change packs all anew.

use mantissa_memory::SharedBytes;
use mantissa_number::binary::{read_varint, write_varint};
use smallvec::SmallVec;

use super::word::Element;

/// Most elements of the form.
pub(super) const ELEMENTS_MAX: usize = 32;
/// Most bytes.
const BYTES_MAX: usize = 512;
/// Longest text.
const TEXT_MAX: usize = 128;
const INTEGER: u8 = 0;
const DOUBLE: u8 = 1;
const TEXT: u8 = 2;

/// Elements with their indexes.
pub(super) type Elements<'a> = SmallVec<[(u64, Element<'a>); 8]>;

/// Slices that they are in.
pub(super) type Slices = SmallVec<[u64; ELEMENTS_MAX]>;

/// What packed bytes hold.
#[derive(Clone)]
pub(super) struct Unpacked<'a> {
    left: usize,
    cursor: Option<u64>,
    next: u64,
    bytes: &'a [u8],
}

impl<'a> Unpacked<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        let mut unpacked = Unpacked { left: 0, cursor: None, next: 0, bytes };
        unpacked.left = unpacked.varint() as usize;
        unpacked.cursor = unpacked.varint().checked_sub(1);
        unpacked
    }

    /// The number of elements that are left.
    pub fn len(&self) -> usize {
        self.left
    }

    /// The last index that was inserted at.
    pub fn cursor(&self) -> Option<u64> {
        self.cursor
    }

    fn varint(&mut self) -> u64 {
        let (value, len) = read_varint(self.bytes).unwrap_or_default();
        self.take(len);
        value
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(len.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }
}

impl<'a> Iterator for Unpacked<'a> {
    type Item = (u64, Element<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let index = self.next + self.varint();
        self.next = index + 1;
        let element = match *self.take(1).first()? {
            INTEGER => {
                let value = self.varint();
                Element::Integer((value >> 1) as i64 ^ -((value & 1) as i64))
            }
            DOUBLE => Element::Double(f64::from_le_bytes(*self.take(8).first_chunk()?)),
            len => Element::of_bytes(self.take(usize::from(len - TEXT))),
        };
        Some((index, element))
    }
}

/// Packs elements whose indexes rise; `None` if they are too many or too large.
pub(super) fn pack(cursor: Option<u64>, elements: &[(u64, Element<'_>)]) -> Option<SharedBytes> {
    if elements.len() > ELEMENTS_MAX {
        return None;
    }
    let mut bytes = Vec::with_capacity(BYTES_MAX);
    write_varint(&mut bytes, elements.len() as u64);
    write_varint(&mut bytes, cursor.map_or(0, |cursor| cursor + 1));
    let mut next = 0;
    for (index, element) in elements {
        write_varint(&mut bytes, index - next);
        next = index + 1;
        match element {
            Element::Integer(integer) => {
                bytes.push(INTEGER);
                write_varint(&mut bytes, ((integer << 1) ^ (integer >> 63)) as u64);
            }
            Element::Double(double) => {
                bytes.push(DOUBLE);
                bytes.extend_from_slice(&double.to_le_bytes());
            }
            Element::Short(short) => put_text(short.as_bytes(), &mut bytes),
            Element::Text(text) if text.len() <= TEXT_MAX => put_text(text, &mut bytes),
            Element::Text(_) => return None,
        }
        if bytes.len() > BYTES_MAX {
            return None;
        }
    }
    Some(SharedBytes::joined(&[&bytes]))
}

fn put_text(text: &[u8], bytes: &mut Vec<u8>) {
    bytes.push(text.len() as u8 + TEXT);
    bytes.extend_from_slice(text);
}
