//! A segment of a list: [`SharedBytes`] with elements packed back to back.
//!
//! ```text
//! | header | n (u32) | data bytes (u32) | listpack bytes (u32) | data -> ... free ... <- n codes |
//! ```
//!
//! An element is a code of one byte and its data:
//!
//! | code | data | what it is |
//! | --- | --- | --- |
//! | 0 to 191 | as many bytes | text |
//! | 192 to 199 | 1 to 8 bytes, little-endian | integer |
//! | 200 to 254 | | integer 0 to 54 |
//! | 255 | length (u32), bytes, length (u32) | longer text |
//!
//! The codes stand apart from the data, last one first, so that a walk goes both ways and adding at the tail
//! moves nothing. A segment of a large list takes at most 1,024 bytes, a size class of which nothing is lost:
//! 59 elements of 16 bytes cost 17.4 bytes each. `listpack bytes` is what the elements would take as a
//! listpack, by which lists are measured as in Redis.

use std::ops::Range;

use mantissa_memory::SharedBytes;

use crate::listpack::{self, Element};

/// Bytes of the payload before the data.
const DATA: usize = 12;
/// Most bytes of the payload of a segment of a large list that has more than one element.
pub(super) const SEGMENT_BYTES_MAX: usize = 1024 - SharedBytes::HEADER_BYTES;

const TEXT_BYTES_MAX: usize = 191;
const INTEGER: u8 = 192;
const SMALL: u8 = 200;
const SMALL_MAX: i64 = 54;
const LONG: u8 = 255;
const LENGTH_BYTES: usize = 4;

/// Bytes of data of each code; those of a longer text are in the data.
const SPANS: [u8; 256] = {
    let mut spans = [0; 256];
    let mut code = 0;
    while code < 256 {
        spans[code] = match code {
            0..=TEXT_BYTES_MAX => code as u8,
            192..200 => (code - 191) as u8,
            _ => 0,
        };
        code += 1;
    }
    spans
};

/// An element as it is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encoded<'a> {
    code: u8,
    text: &'a [u8],
    integer: [u8; 8],
    listpack_bytes: usize,
}

impl<'a> Encoded<'a> {
    /// How a text is stored.
    #[inline]
    pub fn new(text: &'a [u8]) -> Self {
        match mantissa_number::parse_i64(text) {
            Some(integer) => Self::of(Element::Integer(integer)),
            None => Self::of(Element::Bytes(text)),
        }
    }

    /// How an element is stored; its bytes are not the text of an integer.
    #[inline]
    pub fn of(element: Element<'a>) -> Self {
        match element {
            Element::Integer(integer) => {
                // The bits that differ from the sign, and one for the sign.
                let bits = 65 - (integer ^ (integer >> 63)).leading_zeros();
                let code = match integer {
                    0..=SMALL_MAX => SMALL + integer as u8,
                    _ => INTEGER + (bits.div_ceil(8) - 1) as u8,
                };
                let listpack_bytes = listpack::integer_element_bytes(integer);
                Encoded { code, text: &[], integer: integer.to_le_bytes(), listpack_bytes }
            }
            Element::Bytes(text) => {
                let code = if text.len() <= TEXT_BYTES_MAX { text.len() as u8 } else { LONG };
                Encoded { code, text, integer: [0; 8], listpack_bytes: listpack::text_element_bytes(text) }
            }
        }
    }

    fn data_bytes(&self) -> usize {
        if self.code == LONG {
            self.text.len() + 2 * LENGTH_BYTES
        } else {
            usize::from(SPANS[usize::from(self.code)])
        }
    }

    fn write(&self, out: &mut [u8]) {
        match self.code {
            LONG => {
                let length = u32::try_from(self.text.len()).expect("a text of 4 GiB has a node of its own");
                let (first, rest) = out.split_at_mut(LENGTH_BYTES);
                let (text, last) = rest.split_at_mut(self.text.len());
                first.copy_from_slice(&length.to_le_bytes());
                text.copy_from_slice(self.text);
                last.copy_from_slice(&length.to_le_bytes());
            }
            INTEGER.. => out.copy_from_slice(&self.integer[..out.len()]),
            _ => out.copy_from_slice(self.text),
        }
    }
}

/// The payload of a segment, to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    payload: &'a [u8],
    count: usize,
    data_bytes: usize,
    listpack_bytes: usize,
}

#[inline]
fn number_at(payload: &[u8], at: usize) -> usize {
    payload[at..].first_chunk().map_or(0, |&raw| u32::from_le_bytes(raw) as usize)
}

impl<'a> View<'a> {
    /// The segment with this payload.
    #[inline]
    pub fn new(payload: &'a [u8]) -> Self {
        if payload.len() < DATA {
            return View { payload, count: 0, data_bytes: 0, listpack_bytes: 0 };
        }
        View {
            payload,
            count: number_at(payload, 0),
            data_bytes: number_at(payload, 4),
            listpack_bytes: number_at(payload, 8),
        }
    }

    /// The number of elements.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes that the elements would take as a listpack, its header and end mark not counted.
    #[inline]
    pub fn listpack_bytes(&self) -> usize {
        self.listpack_bytes
    }

    /// Bytes of the payload that are needed.
    #[inline]
    pub fn size(&self) -> usize {
        DATA + self.data_bytes + self.count
    }

    #[inline]
    fn code(&self, index: usize) -> u8 {
        self.payload[self.payload.len() - 1 - index]
    }

    /// Bytes of the data of the element at `index`, which starts at `at`.
    #[inline]
    fn span(&self, index: usize, at: usize) -> usize {
        match self.code(index) {
            LONG => number_at(self.payload, DATA + at) + 2 * LENGTH_BYTES,
            code => usize::from(SPANS[usize::from(code)]),
        }
    }

    /// The same of the element before a place.
    #[inline]
    fn span_before(&self, index: usize, end: usize) -> usize {
        match self.code(index) {
            LONG => number_at(self.payload, DATA + end - LENGTH_BYTES) + 2 * LENGTH_BYTES,
            code => usize::from(SPANS[usize::from(code)]),
        }
    }

    /// Where the data of the element at `index` starts; the end if `index` is the count.
    #[inline]
    fn position(&self, index: usize) -> usize {
        if index <= self.count / 2 {
            (0..index).fold(0, |at, index| at + self.span(index, at))
        } else {
            (index..self.count).rev().fold(self.data_bytes, |end, index| end - self.span_before(index, end))
        }
    }

    /// The element at `index`, whose data is this.
    #[inline]
    fn decode(&self, index: usize, data: Range<usize>) -> Element<'a> {
        let data = &self.payload[DATA + data.start..DATA + data.end];
        match self.code(index) {
            LONG => Element::Bytes(&data[LENGTH_BYTES..data.len() - LENGTH_BYTES]),
            code @ SMALL.. => Element::Integer(i64::from(code - SMALL)),
            INTEGER.. => {
                let is_negative = data.last().is_some_and(|last| last & 0x80 != 0);
                let mut wide = if is_negative { [0xff; 8] } else { [0; 8] };
                wide[..data.len()].copy_from_slice(data);
                Element::Integer(i64::from_le_bytes(wide))
            }
            _ => Element::Bytes(data),
        }
    }

    /// A cursor before the element at `index`, or at the end if `index` is the count.
    #[inline]
    pub fn cursor(self, index: usize) -> Cursor<'a> {
        Cursor { view: self, index, at: self.position(index) }
    }
}

/// A place between elements of a segment, moving both ways.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    view: View<'a>,
    index: usize,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The element after the place.
    #[inline]
    pub fn next(&mut self) -> Option<Element<'a>> {
        if self.index == self.view.count {
            return None;
        }
        let start = self.at;
        self.at += self.view.span(self.index, start);
        self.index += 1;
        Some(self.view.decode(self.index - 1, start..self.at))
    }

    /// The element before the place.
    #[inline]
    pub fn next_back(&mut self) -> Option<Element<'a>> {
        self.index = self.index.checked_sub(1)?;
        let end = self.at;
        self.at -= self.view.span_before(self.index, end);
        Some(self.view.decode(self.index, self.at..end))
    }
}

/// Packed elements, shared between clones. Without elements it has no allocation.
#[derive(Clone, Debug, Default)]
#[repr(transparent)]
pub(super) struct Segment {
    bytes: SharedBytes,
}

impl Segment {
    /// The segment that [`Segment::into_bytes`] took apart.
    pub fn from_bytes(bytes: SharedBytes) -> Self {
        Segment { bytes }
    }

    /// Its bytes.
    pub fn into_bytes(self) -> SharedBytes {
        self.bytes
    }

    /// Moves to another place if that lets memory be given back.
    pub fn compact(&mut self) {
        self.bytes.compact();
    }

    /// Bytes of its allocation.
    pub fn memory_usage(&self) -> usize {
        self.bytes.memory_usage()
    }

    /// The segment, to read.
    #[inline]
    pub fn view(&self) -> View<'_> {
        View::new(self.bytes.payload())
    }

    /// Whether an element more leaves the payload within [`SEGMENT_BYTES_MAX`].
    #[inline]
    pub fn fits(&self, element: &Encoded<'_>) -> bool {
        self.view().size() + element.data_bytes() < SEGMENT_BYTES_MAX
    }

    /// Puts an element, or none, in the place of those from `from` up to but not including `to`. With
    /// `with_spare`, a segment that must grow gets spare capacity.
    pub fn splice(&mut self, from: usize, to: usize, added: Option<&Encoded<'_>>, with_spare: bool) {
        let view = self.view();
        let start = view.position(from);
        let (mut end, mut gone) = (start, 0);
        for index in from..to {
            let span = view.span(index, end);
            gone += Encoded::of(view.decode(index, end..end + span)).listpack_bytes;
            end += span;
        }
        let added_bytes = added.map_or(0, Encoded::data_bytes);
        let added_count = usize::from(added.is_some());
        let new = View {
            payload: &[],
            count: view.count - (to - from) + added_count,
            data_bytes: view.data_bytes - (end - start) + added_bytes,
            listpack_bytes: view.listpack_bytes - gone + added.map_or(0, |added| added.listpack_bytes),
        };
        let (old_count, old_data, old_len) = (view.count, view.data_bytes, view.payload.len());
        let (head, needed) = (header_of(&new), new.size());
        let new_count = new.count;
        let is_wasteful = old_len > 2 * needed + 64;
        if needed > old_len || is_wasteful || self.bytes.is_shared() {
            let capacity = if with_spare { (2 * old_len).min(SEGMENT_BYTES_MAX) } else { 0 };
            let mut bytes = SharedBytes::zeroed(if is_wasteful { needed } else { needed.max(capacity) });
            if let Some(payload) = bytes.payload_mut() {
                let (old, len) = (self.bytes.payload(), payload.len());
                payload[DATA..DATA + start]
                    .copy_from_slice(&old[DATA.min(old_len)..(DATA + start).min(old_len)]);
                let tail = DATA + start + added_bytes;
                payload[tail..tail + old_data - end]
                    .copy_from_slice(&old[(DATA + end).min(old_len)..][..old_data - end]);
                payload[len - from..].copy_from_slice(&old[old_len - from..]);
                let codes = &old[old_len - old_count..old_len - to];
                payload[len - new_count..][..codes.len()].copy_from_slice(codes);
            }
            self.bytes = bytes;
        } else if let Some(payload) = self.bytes.payload_mut() {
            payload.copy_within(DATA + end..DATA + old_data, DATA + start + added_bytes);
            payload.copy_within(old_len - old_count..old_len - to, old_len - new_count);
        }
        if let Some(payload) = self.bytes.payload_mut() {
            payload[..DATA].copy_from_slice(&head);
            if let Some(added) = added {
                let code = payload.len() - 1 - from;
                payload[code] = added.code;
                added.write(&mut payload[DATA + start..DATA + start + added_bytes]);
            }
        }
        if new_count == 0 {
            self.bytes = SharedBytes::default();
        }
    }

    /// Gives back memory that is not used.
    pub fn trim(&mut self) {
        if SharedBytes::allocation_bytes(self.view().size()) < self.memory_usage() {
            *self = self.part(0, self.view().count());
        }
    }

    /// A segment of the elements from `from` up to but not including `to`.
    pub fn part(&self, from: usize, to: usize) -> Segment {
        let view = self.view();
        let (start, end) = (view.position(from), view.position(to));
        if from >= to {
            return Segment::default();
        }
        let mut cursor = view.cursor(from);
        let elements = (from..to).map_while(|_| cursor.next());
        let listpack_bytes = elements.map(|element| Encoded::of(element).listpack_bytes).sum();
        let part = View { payload: &[], count: to - from, data_bytes: end - start, listpack_bytes };
        let mut bytes = SharedBytes::zeroed(part.size());
        if let Some(payload) = bytes.payload_mut() {
            let (old, len) = (view.payload, payload.len());
            payload[..DATA].copy_from_slice(&header_of(&part));
            payload[DATA..DATA + end - start].copy_from_slice(&old[DATA + start..DATA + end]);
            payload[len - part.count..].copy_from_slice(&old[old.len() - to..old.len() - from]);
        }
        Segment { bytes }
    }

    /// The elements of segments, in one.
    pub fn join(segments: &[Segment]) -> Segment {
        let views = || segments.iter().map(Segment::view);
        let sum = views().fold(View::new(&[]), |sum, view| View {
            payload: &[],
            count: sum.count + view.count,
            data_bytes: sum.data_bytes + view.data_bytes,
            listpack_bytes: sum.listpack_bytes + view.listpack_bytes,
        });
        if sum.count == 0 {
            return Segment::default();
        }
        let mut bytes = SharedBytes::zeroed(sum.size());
        if let Some(payload) = bytes.payload_mut() {
            payload[..DATA].copy_from_slice(&header_of(&sum));
            let (mut at, mut codes) = (DATA, payload.len());
            for view in views() {
                let old = view.payload;
                payload[at..at + view.data_bytes].copy_from_slice(&old[DATA..DATA + view.data_bytes]);
                at += view.data_bytes;
                codes -= view.count;
                payload[codes..codes + view.count].copy_from_slice(&old[old.len() - view.count..]);
            }
        }
        Segment { bytes }
    }
}

fn header_of(view: &View<'_>) -> [u8; DATA] {
    let mut head = [0; DATA];
    for (raw, number) in
        head.as_chunks_mut::<4>().0.iter_mut().zip([view.count, view.data_bytes, view.listpack_bytes])
    {
        let number = u32::try_from(number).expect("an element of 4 GiB has a node of its own");
        *raw = number.to_le_bytes();
    }
    head
}
