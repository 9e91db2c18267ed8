//! The packed form of JSON values: a compact encoding in document order.
//!
//! | tag | value | bytes behind it |
//! | --- | --- | --- |
//! | 0, 1, 2 | null, false, true | |
//! | 3..=6 | integer | 1, 2, 4 or 8, little-endian, signed |
//! | 7 | integer above 2^63 - 1 | 8 |
//! | 8 | double | 8 |
//! | 9..=12 | double: integer / 10^scale | the scale, then 1, 2, 4 or 8 as above |
//! | 13..=15 | string | length (1, 2 or 4), text |
//! | 16, 20 | empty array, empty object | |
//! | 17..=19 | array | bytes and count of elements (1, 2 or 4 each), elements |
//! | 21..=23 | object | the same; each member is a string and a value |
//! | 24..=26 | string with a quote, a backslash or a control character | length (1, 2 or 4), text |
//! | 27 | double that is a binary32 | 4 |
//! | 32..=127 | integer from -16 to 79 | |
//! | 128..=255 | string of up to 127 bytes | text |
//!
//! Every number and every string has one encoding, the shortest, so equal ones of a kind have equal bytes.
//! The texts of the strings that need no escape are copied when they are printed. Stepping over a value
//! costs O(1).
//!
//! Lengths and counts have four bytes at most, so a whole value has [`super::BYTES_MAX`] bytes at most. Bytes
//! beyond that may be written, with wrong headers: they are counted and refused before anything reads them.

use super::plain::{self, Place, Sink};

pub(super) const NULL: u8 = 0;
pub(super) const FALSE: u8 = 1;
pub(super) const TRUE: u8 = 2;
pub(super) const INT_8: u8 = 3;
const INT_16: u8 = 4;
const INT_32: u8 = 5;
pub(super) const INT_64: u8 = 6;
const UNSIGNED: u8 = 7;
const DOUBLE: u8 = 8;
pub(super) const DECIMAL_8: u8 = 9;
const DECIMAL_16: u8 = 10;
const DECIMAL_32: u8 = 11;
pub(super) const DECIMAL_64: u8 = 12;
const SINGLE: u8 = 27;
/// The tags of strings that are not short.
pub(super) const STRING_8: u8 = 13;
const STRING_16: u8 = 14;
pub(super) const STRING_32: u8 = 15;
/// The tags of strings of which a byte needs an escape in JSON text.
pub(super) const ESCAPED_8: u8 = 24;
const ESCAPED_16: u8 = 25;
pub(super) const ESCAPED_32: u8 = 26;
/// The tag of an empty array; with 1, 2 or 3 added that of an array with fields of 1, 2 or 4 bytes.
pub(super) const ARRAY: u8 = 16;
/// The same of objects.
pub(super) const OBJECT: u8 = 20;
/// The first and the last tag of containers that are not the empty array.
pub(super) const FIRST_CONTAINER: u8 = ARRAY + 1;
pub(super) const LAST_CONTAINER: u8 = OBJECT + 3;
/// The tag of the smallest of the integers that a tag holds.
pub(super) const SMALL: u8 = 32;
pub(super) const SMALL_MIN: i64 = -16;
/// The number of integers that a tag holds.
pub(super) const SMALL_COUNT: usize = 96;
const SMALL_MAX: i64 = 79;
/// The tag of an empty string; with 1 to 127 added that of one of so many bytes.
pub(super) const SHORT_STRING: u8 = 128;
pub(super) const SHORT_STRING_MAX: usize = 127;

/// Bytes of the shortest header of a container that has elements.
pub(super) const HEADER_MIN: usize = 3;

/// Decimal scales that are tried, and what they divide by. Such a power and an integer below 2^53 are exact,
/// so their quotient is the double closest to the decimal number.
const POWERS: [f64; 13] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12];
/// Integers that are encoded with a scale are no larger.
const DECIMAL_MAX: f64 = (1_u64 << 31) as f64;

/// A number of a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer.
    Integer(i64),
    /// An integer above [`i64::MAX`].
    Unsigned(u64),
    /// A double.
    Double(f64),
}

impl Number {
    /// The closest double.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Integer(value) => value as f64,
            Number::Unsigned(value) => value as f64,
            Number::Double(value) => value,
        }
    }
}

#[inline(always)]
fn unsigned(bytes: &[u8], width: usize) -> usize {
    match width {
        1 => usize::from(bytes[0]),
        2 => usize::from(u16::from_le_bytes([bytes[0], bytes[1]])),
        _ => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize,
    }
}

#[inline]
fn eight(bytes: &[u8]) -> [u8; 8] {
    bytes.first_chunk::<8>().copied().unwrap_or_default()
}

#[inline(always)]
fn signed(bytes: &[u8], width: usize) -> i64 {
    match width {
        1 => i64::from(bytes[0].cast_signed()),
        2 => i64::from(i16::from_le_bytes([bytes[0], bytes[1]])),
        4 => i64::from(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        _ => i64::from_le_bytes(eight(bytes)),
    }
}

/// The signed value that begins at `at`, of 1, 2, 4 or 8 bytes as the logarithm of their number says, and
/// where it ends.
#[inline(always)]
pub(super) fn signed_at(bytes: &[u8], at: usize, width: u8) -> (i64, usize) {
    let size = 1_usize << (width & 3);
    let Some(word) = bytes[at..].first_chunk::<8>() else {
        return (signed(&bytes[at..], size), at + size);
    };
    let unused = 64 - 8 * size;
    ((u64::from_le_bytes(*word) << unused).cast_signed() >> unused, at + size)
}

/// Where the children of the container that begins at `at` begin and end.
#[inline(always)]
pub(super) fn body_at(bytes: &[u8], at: usize) -> (usize, usize) {
    if bytes[at] & 3 == 1 {
        return (at + HEADER_MIN, at + HEADER_MIN + usize::from(bytes[at + 1]));
    }
    let header = Header::read(&bytes[at..]);
    (at + header.size, at + header.size + header.body)
}

/// The header of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes of the header itself.
    pub size: usize,
    /// Bytes of what follows.
    pub body: usize,
    /// The number of elements or members.
    pub count: usize,
}

impl Header {
    /// That of the container which begins here.
    #[inline]
    pub fn read(bytes: &[u8]) -> Header {
        match bytes[0] & 3 {
            0 => Header { size: 1, body: 0, count: 0 },
            width => {
                let width = 1 << (width - 1);
                let fields = &bytes[1..];
                let (body, count) = (unsigned(fields, width), unsigned(&fields[width..], width));
                Header { size: 1 + 2 * width, body, count }
            }
        }
    }

    /// The header of a container with such contents, of a value of [`super::BYTES_MAX`] bytes at most.
    pub fn new(kind: u8, body: usize, count: usize) -> (Header, [u8; 9]) {
        let mut bytes = [kind; 9];
        let size = match (count, body) {
            (0, _) => 1,
            (_, 0..=0xff) => {
                bytes[..3].copy_from_slice(&[kind + 1, body as u8, count as u8]);
                3
            }
            (_, 0..=0xffff) => {
                bytes[0] = kind + 2;
                bytes[1..3].copy_from_slice(&(body as u16).to_le_bytes());
                bytes[3..5].copy_from_slice(&(count as u16).to_le_bytes());
                5
            }
            _ => {
                bytes[0] = kind + 3;
                bytes[1..5].copy_from_slice(&four_bytes(body).to_le_bytes());
                bytes[5..9].copy_from_slice(&four_bytes(count).to_le_bytes());
                9
            }
        };
        (Header { size, body, count }, bytes)
    }
}

/// A length or a count in a value of [`super::BYTES_MAX`] bytes at most. In a larger one, which is refused,
/// it is wrong.
#[inline(always)]
pub(super) fn four_bytes(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Whether the value is an array or an object: [`ARRAY`], [`OBJECT`], or none of both.
#[inline]
pub(super) fn container(bytes: &[u8]) -> Option<u8> {
    (ARRAY..OBJECT + 4).contains(&bytes[0]).then_some(bytes[0] & !3)
}

/// Bytes of the value that begins here.
#[inline]
pub(super) fn size(bytes: &[u8]) -> usize {
    match bytes[0] {
        tag @ SHORT_STRING.. => 1 + usize::from(tag - SHORT_STRING),
        SMALL.. | NULL..=TRUE | 28..SMALL => 1,
        INT_8 => 2,
        INT_16 => 3,
        INT_32 | SINGLE => 5,
        INT_64 | UNSIGNED | DOUBLE => 9,
        DECIMAL_8 => 3,
        DECIMAL_16 => 4,
        DECIMAL_32 => 6,
        DECIMAL_64 => 10,
        STRING_8 | ESCAPED_8 => 2 + unsigned(&bytes[1..], 1),
        STRING_16 | ESCAPED_16 => 3 + unsigned(&bytes[1..], 2),
        STRING_32 | ESCAPED_32 => 5 + unsigned(&bytes[1..], 4),
        ARRAY..ESCAPED_8 => {
            let header = Header::read(bytes);
            header.size + header.body
        }
    }
}

/// The string that begins here; empty if it is none.
#[inline]
pub(super) fn string(bytes: &[u8]) -> &[u8] {
    &bytes[string_range(bytes)]
}

/// Whether a string begins here.
#[inline]
pub(super) fn is_string(bytes: &[u8]) -> bool {
    matches!(bytes[0], SHORT_STRING..|STRING_8..=STRING_32| ESCAPED_8..=ESCAPED_32)
}

/// The number that begins here, if it is one.
#[inline]
pub(super) fn number(bytes: &[u8]) -> Option<Number> {
    Some(match bytes[0] {
        tag @ SMALL..SHORT_STRING => Number::Integer(i64::from(tag - SMALL) + SMALL_MIN),
        INT_8 => Number::Integer(signed(&bytes[1..], 1)),
        INT_16 => Number::Integer(signed(&bytes[1..], 2)),
        INT_32 => Number::Integer(signed(&bytes[1..], 4)),
        INT_64 => Number::Integer(signed(&bytes[1..], 8)),
        UNSIGNED => Number::Unsigned(u64::from_le_bytes(eight(&bytes[1..]))),
        DOUBLE => Number::Double(f64::from_le_bytes(eight(&bytes[1..]))),
        SINGLE => Number::Double(f64::from(f32::from_bits(unsigned(&bytes[1..], 4) as u32))),
        _ => {
            let (integer, scale) = decimal(bytes)?;
            Number::Double(integer as f64 / POWERS[scale % POWERS.len()])
        }
    })
}

/// The encoding of a number, held in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NumberBytes {
    pub tag: u8,
    /// The bytes behind the tag.
    pub rest: [u8; 8],
    /// How many of them there are.
    pub len: usize,
}

impl NumberBytes {
    /// The tag of a kind for one byte, and the value in the fewest of 1, 2, 4 and 8 bytes.
    #[inline(always)]
    fn signed(tag: u8, value: i64) -> NumberBytes {
        let step = width_step(value);
        NumberBytes { tag: tag + step, rest: value.to_le_bytes(), len: 1 << step }
    }

    fn eight(tag: u8, rest: [u8; 8]) -> NumberBytes {
        NumberBytes { tag, rest, len: 8 }
    }
}

/// The logarithm of the bytes that a signed value takes: of 1, 2, 4 and 8 the fewest.
#[inline(always)]
fn width_step(value: i64) -> u8 {
    let bits = 65 - (value ^ value >> 63).leading_zeros();
    u8::from(bits > 8) + u8::from(bits > 16) + u8::from(bits > 32)
}

/// The encoding of an integer.
#[inline(always)]
pub(super) fn integer_bytes(value: i64) -> NumberBytes {
    match value {
        SMALL_MIN..=SMALL_MAX => NumberBytes { tag: SMALL + (value - SMALL_MIN) as u8, rest: [0; 8], len: 0 },
        _ => NumberBytes::signed(INT_8, value),
    }
}

/// The encoding of a number. A double must be finite.
pub(super) fn number_bytes(value: Number) -> NumberBytes {
    match value {
        Number::Integer(value) => integer_bytes(value),
        Number::Unsigned(value) => match i64::try_from(value) {
            Ok(value) => integer_bytes(value),
            Err(_) => NumberBytes::eight(UNSIGNED, value.to_le_bytes()),
        },
        Number::Double(value) => double_bytes(value),
    }
}

/// Appends a number. A double must be finite.
pub(super) fn put_number(value: Number, out: &mut Vec<u8>) {
    let NumberBytes { tag, rest, len } = number_bytes(value);
    out.push(tag);
    out.extend_from_slice(&rest[..len]);
}

fn double_bytes(value: f64) -> NumberBytes {
    // More bytes than four are no fewer than those of the double. What an integer and a smaller scale give,
    // an integer and this scale give too.
    let scale = POWERS.iter().rposition(|power| (value * power).abs() <= DECIMAL_MAX);
    // The negative zero has no integer.
    if let Some(mut scale) = scale.filter(|_| value != 0.0 || value.is_sign_positive()) {
        let scaled = value * POWERS[scale];
        let mut integer = (scaled + 0.5_f64.copysign(scaled)) as i64;
        if integer as f64 / POWERS[scale] == value {
            while scale > 0 && integer % 10 == 0 {
                (integer, scale) = (integer / 10, scale - 1);
            }
            if let Some(bytes) = decimal_bytes(integer, scale) {
                return bytes;
            }
        }
    }
    let single = value as f32;
    if f64::from(single) == value {
        let rest = u64::from(single.to_bits()).to_le_bytes();
        return NumberBytes { tag: SINGLE, rest, len: 4 };
    }
    NumberBytes::eight(DOUBLE, value.to_le_bytes())
}

/// The encoding of the double that is closest to `integer` / 10^`scale`, where that has one with a scale. The
/// scale must be the smallest that gives this double.
#[inline(always)]
pub(super) fn decimal_bytes(integer: i64, scale: usize) -> Option<NumberBytes> {
    let has_encoding = scale < POWERS.len() && i32::try_from(integer).is_ok();
    let step = width_step(integer);
    let rest = (integer << 8 | scale as i64).to_le_bytes();
    has_encoding.then_some(NumberBytes { tag: DECIMAL_8 + step, rest, len: 1 + (1 << step) })
}

/// The integer and the scale of a double that is encoded with them.
#[inline]
pub(super) fn decimal(bytes: &[u8]) -> Option<(i64, usize)> {
    let width = match bytes[0] {
        DECIMAL_8 => 1,
        DECIMAL_16 => 2,
        DECIMAL_32 => 4,
        DECIMAL_64 => 8,
        _ => return None,
    };
    Some((signed(&bytes[2..], width), usize::from(bytes[1])))
}

/// What stands before a string of so many bytes, and how many bytes of it.
#[inline]
pub(super) fn string_header(len: usize, is_escaped: bool) -> ([u8; 5], usize) {
    let [a, b, c, d] = four_bytes(len).to_le_bytes();
    let step = if is_escaped { ESCAPED_8 - STRING_8 } else { 0 };
    if len <= SHORT_STRING_MAX && !is_escaped {
        ([SHORT_STRING + a, 0, 0, 0, 0], 1)
    } else if len <= 0xff {
        ([STRING_8 + step, a, 0, 0, 0], 2)
    } else if len <= 0xffff {
        ([STRING_16 + step, a, b, 0, 0], 3)
    } else {
        ([STRING_32 + step, a, b, c, d], 5)
    }
}

/// Appends a string.
pub(super) fn put_string(text: &[u8], out: &mut Vec<u8>) {
    let (header, size) = string_header(text.len(), plain::plain_bytes(text) < text.len());
    out.extend_from_slice(&header[..size]);
    out.extend_from_slice(text);
}

/// Where the text of the string that begins here stands.
#[inline]
pub(super) fn string_range(bytes: &[u8]) -> std::ops::Range<usize> {
    match bytes[0] {
        tag @ SHORT_STRING.. => 1..1 + usize::from(tag - SHORT_STRING),
        STRING_8 | ESCAPED_8 => 2..2 + unsigned(&bytes[1..], 1),
        STRING_16 | ESCAPED_16 => 3..3 + unsigned(&bytes[1..], 2),
        STRING_32 | ESCAPED_32 => 5..5 + unsigned(&bytes[1..], 4),
        _ => 0..0,
    }
}

/// Begins a container. Returns where, for [`end`].
#[inline]
pub(super) fn begin(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_MIN]);
    start
}

/// Ends a container of [`ARRAY`] or [`OBJECT`] with this number of elements. If it is large its contents are
/// moved, to make room for a longer header.
pub(super) fn end(start: usize, kind: u8, count: usize, out: &mut Vec<u8>) {
    let (mut sink, place) = Sink::new(out);
    let (place, _) = end_in(&mut sink, start, HEADER_MIN, (kind, count), place);
    sink.finish(place);
}

/// [`begin`]: the place behind a header of so many bytes, 9 at most, which is yet to be written.
#[inline(always)]
pub(super) fn begin_in(sink: &mut Sink<'_>, size: usize, place: Place) -> Place {
    sink.put(place, &[0; 9], size)
}

/// [`end`], where `before` bytes have been left for the header. Returns the bytes that it has as well.
#[inline(always)]
pub(super) fn end_in(
    sink: &mut Sink<'_>,
    start: usize,
    before: usize,
    (kind, count): (u8, usize),
    place: Place,
) -> (Place, usize) {
    let body = sink.len(place) - start - before;
    if let (HEADER_MIN, Ok(short), 1..) = (before, u8::try_from(body), count) {
        sink.written(place)[start..start + HEADER_MIN].copy_from_slice(&[kind + 1, short, count as u8]);
        return (place, HEADER_MIN);
    }
    end_large(sink, start, before, Header::new(kind, body, count), place)
}

#[inline(never)]
fn end_large(
    sink: &mut Sink<'_>,
    start: usize,
    before: usize,
    (header, bytes): (Header, [u8; 9]),
    place: Place,
) -> (Place, usize) {
    let body = start + before..start + before + header.body;
    let added = header.size.saturating_sub(before);
    let place = sink.put(place, &[0; 8], added);
    let written = sink.written(place);
    if header.size != before {
        written.copy_within(body, start + header.size);
    }
    written[start..start + header.size].copy_from_slice(&bytes[..header.size]);
    (sink.back(place, before.saturating_sub(header.size)), header.size)
}
