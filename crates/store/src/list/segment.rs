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
use smallvec::SmallVec;

use super::ListEnd;
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
                Encoded {
                    code,
                    text,
                    integer: [0; 8],
                    listpack_bytes: listpack::text_element_bytes(text.len()),
                }
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

    /// Appends the data.
    #[inline]
    fn append(&self, out: &mut Vec<u8>) {
        match self.code {
            LONG => {
                let start = out.len();
                out.resize(start + self.data_bytes(), 0);
                self.write(&mut out[start..]);
            }
            INTEGER.. => out.extend_from_slice(&self.integer[..self.data_bytes()]),
            _ => out.extend_from_slice(self.text),
        }
    }

    /// Whether the element with the same code whose data starts with `data` is the same.
    #[inline]
    fn is_at(&self, data: &[u8]) -> bool {
        match self.code {
            LONG => number_at(data, 0) == self.text.len() && data[LENGTH_BYTES..].starts_with(self.text),
            INTEGER.. => data.starts_with(&self.integer[..self.data_bytes()]),
            _ => data.starts_with(self.text),
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

    /// The first element equal to one, from the element at `index` on, whose data starts at `at`: its index
    /// and where its data starts.
    #[inline]
    pub fn find(&self, (index, mut at): (usize, usize), sought: &Encoded<'_>) -> Option<(usize, usize)> {
        let data = self.payload.get(DATA..DATA + self.data_bytes)?;
        let codes = &self.payload[self.payload.len() - self.count..self.payload.len() - index];
        for (steps, &code) in codes.iter().rev().enumerate() {
            if code == sought.code && sought.is_at(&data[at..]) {
                return Some((index + steps, at));
            }
            at += match code {
                LONG => number_at(data, at) + 2 * LENGTH_BYTES,
                code => usize::from(SPANS[usize::from(code)]),
            };
        }
        None
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

    /// Removes up to `count_max` elements equal to one, the first ones seen from an end; returns how many.
    pub fn remove_equal(&mut self, end: ListEnd, count_max: usize, sought: &Encoded<'_>) -> usize {
        let view = self.view();
        let span = sought.data_bytes();
        let mut found: SmallVec<[(usize, usize); 8]> = SmallVec::new();
        let mut from = (0, 0);
        while (end == ListEnd::Tail || found.len() < count_max)
            && let Some((index, at)) = view.find(from, sought)
        {
            found.push((index, at));
            from = (index + 1, at + span);
        }
        let gone = match end {
            ListEnd::Head => &found[..],
            ListEnd::Tail => &found[found.len().saturating_sub(count_max)..],
        };
        match gone {
            [] => {}
            [(index, _)] => self.splice(*index, index + 1, None, false),
            _ => *self = self.without(gone, sought),
        }
        gone.len()
    }

    /// The elements but for some that are equal to one, of which the indexes, which rise, and the places of
    /// their data are given.
    fn without(&self, gone: &[(usize, usize)], element: &Encoded<'_>) -> Segment {
        let (view, span) = (self.view(), element.data_bytes());
        let kept = View {
            payload: &[],
            count: view.count - gone.len(),
            data_bytes: view.data_bytes - gone.len() * span,
            listpack_bytes: view.listpack_bytes - gone.len() * element.listpack_bytes,
        };
        if kept.count == 0 {
            return Segment::default();
        }
        let mut bytes = SharedBytes::zeroed(kept.size());
        if let Some(payload) = bytes.payload_mut() {
            let old = view.payload;
            let (mut data, mut codes) = (DATA, payload.len());
            let (mut index, mut at) = (0, 0);
            payload[..DATA].copy_from_slice(&header_of(&kept));
            for &(next, next_at) in gone.iter().chain([&(view.count, view.data_bytes)]) {
                let (count, len) = (next - index, next_at - at);
                payload[data..data + len].copy_from_slice(&old[DATA + at..DATA + next_at]);
                payload[codes - count..codes].copy_from_slice(&old[old.len() - next..old.len() - index]);
                (data, codes) = (data + len, codes - count);
                (index, at) = (next + 1, next_at + span);
            }
        }
        Segment { bytes }
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

/// Makes segments of elements in order. Between two segments it keeps its memory.
#[derive(Debug)]
pub(super) struct Builder {
    data: Vec<u8>,
    codes: Vec<u8>,
    listpack_bytes: usize,
}

impl Builder {
    /// A builder without elements.
    pub fn new() -> Self {
        let (data, codes) =
            (Vec::with_capacity(SEGMENT_BYTES_MAX), Vec::with_capacity(SEGMENT_BYTES_MAX / 8));
        Builder { data, codes, listpack_bytes: 0 }
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// Whether an element more leaves the payload within [`SEGMENT_BYTES_MAX`].
    #[inline]
    pub fn fits(&self, element: &Encoded<'_>) -> bool {
        DATA + self.data.len() + self.codes.len() + element.data_bytes() < SEGMENT_BYTES_MAX
    }

    /// Adds an element.
    #[inline]
    pub fn push(&mut self, element: &Encoded<'_>) {
        self.codes.push(element.code);
        element.append(&mut self.data);
        self.listpack_bytes += element.listpack_bytes;
    }

    /// The segment of the elements added since the last one.
    pub fn finish(&mut self) -> Segment {
        if self.codes.is_empty() {
            return Segment::default();
        }
        let built = View {
            payload: &[],
            count: self.codes.len(),
            data_bytes: self.data.len(),
            listpack_bytes: self.listpack_bytes,
        };
        let mut bytes = SharedBytes::zeroed(built.size());
        if let Some(payload) = bytes.payload_mut() {
            let codes = payload.len() - built.count;
            payload[..DATA].copy_from_slice(&header_of(&built));
            payload[DATA..DATA + built.data_bytes].copy_from_slice(&self.data);
            self.codes.reverse();
            payload[codes..].copy_from_slice(&self.codes);
        }
        self.data.clear();
        self.codes.clear();
        self.listpack_bytes = 0;
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
