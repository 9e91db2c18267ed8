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
//! | 32..=127 | integer from -16 to 79 | |
//! | 128..=255 | string of up to 127 bytes | text |
//!
//! Every number has one encoding, the shortest, so equal numbers of a kind have equal bytes. Stepping over a
//! value costs O(1).

use super::plain;

pub(super) const NULL: u8 = 0;
pub(super) const FALSE: u8 = 1;
pub(super) const TRUE: u8 = 2;
const INT_8: u8 = 3;
const INT_16: u8 = 4;
const INT_32: u8 = 5;
const INT_64: u8 = 6;
const UNSIGNED: u8 = 7;
const DOUBLE: u8 = 8;
const DECIMAL_8: u8 = 9;
const DECIMAL_16: u8 = 10;
const DECIMAL_32: u8 = 11;
const DECIMAL_64: u8 = 12;
const STRING_8: u8 = 13;
const STRING_16: u8 = 14;
const STRING_32: u8 = 15;
/// The tag of an empty array; with 1, 2 or 3 added that of an array with fields of 1, 2 or 4 bytes.
pub(super) const ARRAY: u8 = 16;
/// The same of objects.
pub(super) const OBJECT: u8 = 20;
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
const HEADER_MIN: usize = 3;

/// Decimal scales that are tried, and what they divide by. Such a power and an integer below 2^53 are exact,
/// so their quotient is the double closest to the decimal number.
const POWERS: [f64; 10] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
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

fn unsigned(bytes: &[u8], width: usize) -> usize {
    match width {
        1 => usize::from(bytes[0]),
        2 => usize::from(u16::from_le_bytes([bytes[0], bytes[1]])),
        _ => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize,
    }
}

fn eight(bytes: &[u8]) -> [u8; 8] {
    bytes.first_chunk::<8>().copied().unwrap_or_default()
}

fn signed(bytes: &[u8], width: usize) -> i64 {
    match width {
        1 => i64::from(bytes[0].cast_signed()),
        2 => i64::from(i16::from_le_bytes([bytes[0], bytes[1]])),
        4 => i64::from(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        _ => i64::from_le_bytes(eight(bytes)),
    }
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

    /// The header of a container with such contents.
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
                bytes[1..5].copy_from_slice(&(body as u32).to_le_bytes());
                bytes[5..9].copy_from_slice(&(count as u32).to_le_bytes());
                9
            }
        };
        (Header { size, body, count }, bytes)
    }
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
        SMALL.. | NULL..=TRUE | 24..SMALL => 1,
        INT_8 => 2,
        INT_16 => 3,
        INT_32 => 5,
        INT_64 | UNSIGNED | DOUBLE => 9,
        DECIMAL_8 => 3,
        DECIMAL_16 => 4,
        DECIMAL_32 => 6,
        DECIMAL_64 => 10,
        STRING_8 => 2 + unsigned(&bytes[1..], 1),
        STRING_16 => 3 + unsigned(&bytes[1..], 2),
        STRING_32 => 5 + unsigned(&bytes[1..], 4),
        ARRAY..SMALL => {
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
    matches!(bytes[0], SHORT_STRING.. | STRING_8..=STRING_32)
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
        _ => {
            let (integer, scale) = decimal(bytes)?;
            Number::Double(integer as f64 / POWERS[scale % POWERS.len()])
        }
    })
}

/// Appends the shortest of the encodings of an integer, whose tag is `tag` for one byte.
fn put_signed(tag: u8, scale: Option<u8>, value: i64, out: &mut Vec<u8>) {
    let bits = 65 - (value ^ value >> 63).leading_zeros();
    let step = u8::from(bits > 8) + u8::from(bits > 16) + u8::from(bits > 32);
    let mut bytes = [tag + step; 10];
    let first = match scale {
        None => 1,
        Some(scale) => {
            bytes[1] = scale;
            2
        }
    };
    bytes[first..first + 8].copy_from_slice(&value.to_le_bytes());
    plain::push(out, &bytes, first + (1 << step));
}

/// Appends a number. A double must be finite.
pub(super) fn put_number(value: Number, out: &mut Vec<u8>) {
    match value {
        Number::Integer(value @ SMALL_MIN..=SMALL_MAX) => out.push(SMALL + (value - SMALL_MIN) as u8),
        Number::Integer(value) => put_signed(INT_8, None, value, out),
        Number::Unsigned(value) => match i64::try_from(value) {
            Ok(value) => put_number(Number::Integer(value), out),
            Err(_) => {
                out.push(UNSIGNED);
                out.extend_from_slice(&value.to_le_bytes());
            }
        },
        Number::Double(value) => put_double(value, out),
    }
}

fn put_double(value: f64, out: &mut Vec<u8>) {
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
            if put_decimal(integer, scale, out) {
                return;
            }
        }
    }
    out.push(DOUBLE);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends the double that is closest to `integer` / 10^`scale`, where that has an encoding with a scale. The
/// scale must be the smallest that gives this double.
#[inline]
pub(super) fn put_decimal(integer: i64, scale: usize, out: &mut Vec<u8>) -> bool {
    let has_encoding = scale < POWERS.len() && i32::try_from(integer).is_ok();
    if has_encoding {
        put_signed(DECIMAL_8, Some(scale as u8), integer, out);
    }
    has_encoding
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
fn string_header(len: usize) -> ([u8; 5], usize) {
    let [a, b, c, d] = (len as u32).to_le_bytes();
    if len <= SHORT_STRING_MAX {
        ([SHORT_STRING + a, 0, 0, 0, 0], 1)
    } else if len <= 0xff {
        ([STRING_8, a, 0, 0, 0], 2)
    } else if len <= 0xffff {
        ([STRING_16, a, b, 0, 0], 3)
    } else {
        ([STRING_32, a, b, c, d], 5)
    }
}

/// Appends a string.
#[inline]
pub(super) fn put_string(text: &[u8], out: &mut Vec<u8>) {
    let (header, size) = string_header(text.len());
    out.extend_from_slice(&header[..size]);
    out.extend_from_slice(text);
}

/// Begins a string. Returns where, for [`end_string`].
#[inline]
pub(super) fn begin_string(out: &mut Vec<u8>) -> usize {
    out.push(0);
    out.len() - 1
}

/// Ends a string whose text has been appended. If it is long its text is moved, to make room for a longer
/// header.
#[inline]
pub(super) fn end_string(start: usize, out: &mut Vec<u8>) {
    let len = out.len() - start - 1;
    if len <= SHORT_STRING_MAX {
        out[start] = SHORT_STRING + len as u8;
        return;
    }
    let (header, size) = string_header(len);
    out.extend_from_slice(&[0; 4][..size - 1]);
    out.copy_within(start + 1..start + 1 + len, start + size);
    out[start..start + size].copy_from_slice(&header[..size]);
}

/// Appends the string of the first `len` bytes of a chunk.
#[inline]
pub(super) fn put_short_string<const N: usize>(chunk: &[u8; N], len: usize, out: &mut Vec<u8>) {
    const { assert!(N <= SHORT_STRING_MAX) };
    out.push(SHORT_STRING + len as u8);
    plain::push(out, chunk, len);
}

/// Where the text of the string that begins here stands.
#[inline]
pub(super) fn string_range(bytes: &[u8]) -> std::ops::Range<usize> {
    match bytes[0] {
        tag @ SHORT_STRING.. => 1..1 + usize::from(tag - SHORT_STRING),
        STRING_8 => 2..2 + unsigned(&bytes[1..], 1),
        STRING_16 => 3..3 + unsigned(&bytes[1..], 2),
        STRING_32 => 5..5 + unsigned(&bytes[1..], 4),
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
#[inline]
pub(super) fn end(start: usize, kind: u8, count: usize, out: &mut Vec<u8>) {
    let body = out.len() - start - HEADER_MIN;
    if let (Ok(short), 1..) = (u8::try_from(body), count) {
        out[start..start + HEADER_MIN].copy_from_slice(&[kind + 1, short, count as u8]);
        return;
    }
    let (header, bytes) = Header::new(kind, body, count);
    if header.size > HEADER_MIN {
        let from = start + HEADER_MIN;
        out.extend_from_slice(&[0; 6][..header.size - HEADER_MIN]);
        out.copy_within(from..from + body, start + header.size);
    } else {
        out.truncate(start + header.size + body);
    }
    out[start..start + header.size].copy_from_slice(&bytes[..header.size]);
}
