//! The texts of a stream, fields and values, in few bytes and without loss.
//!
//! | first byte | what follows | what it is |
//! | --- | --- | --- |
//! | `00` to `5f` | | integer 0 to 95 |
//! | `60` to `9f` | 0 to 63 bytes | short text |
//! | `a0` | LEB128 length, bytes | longer text |
//! | `a8` to `af` | 1 to 8 bytes | integer, two's complement, little-endian |
//! | `b0` to `ef` | 1 to 8 bytes | decimal: an integer as above, 1 to 8 of whose digits follow the point |
//!
//! A text becomes a number only if it is the one form in which that number is printed, so `007`, `1.` and
//! `-0.0` stay texts; the encoding of a text is unique. `21.53` takes three bytes.

use mantissa_number::{
    INTEGER_TEXT_MAX, format_i64, format_u64, integer_text_length, last_eight_digits, parse_i64,
};

use crate::short_text::signed;

/// The size of a buffer for the text of one number.
pub const NUMBER_TEXT_MAX: usize = 32;

const INTEGER_SMALL_MAX: i64 = 0x5f;
const SHORT: u8 = 0x60;
const SHORT_BYTES_MAX: usize = 63;
const LONG: u8 = 0xa0;
const INTEGER: u8 = 0xa8;
const DECIMAL: u8 = 0xb0;
const DECIMAL_END: u8 = 0xf0;
/// Most digits behind a decimal's point.
const SCALE_MAX: usize = 8;
/// Most digits of a decimal; as many always fit an `i64`.
const DECIMAL_DIGITS_MAX: usize = 18;

/// A field or a value as it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Text<'a> {
    /// The decimal form of an integer.
    Integer(i64),
    /// The digits of a decimal without its point, and how many stand behind that.
    Decimal(i64, u8),
    /// Any bytes.
    Bytes(&'a [u8]),
}

impl<'a> Text<'a> {
    /// How `text` is stored.
    pub fn new(text: &'a [u8]) -> Self {
        match parse_i64(text) {
            Some(number) => Text::Integer(number),
            None => decimal(text).unwrap_or(Text::Bytes(text)),
        }
    }

    /// The text itself; a number is printed into `scratch`.
    pub fn bytes<'b>(&self, scratch: &'b mut [u8; NUMBER_TEXT_MAX]) -> &'b [u8]
    where
        'a: 'b,
    {
        match *self {
            Text::Bytes(bytes) => bytes,
            Text::Integer(number) => {
                let mut digits = [0; INTEGER_TEXT_MAX];
                let digits = format_i64(&mut digits, number);
                scratch[..digits.len()].copy_from_slice(digits);
                &scratch[..digits.len()]
            }
            Text::Decimal(number, scale) => print_decimal(number, usize::from(scale), scratch),
        }
    }

    /// Bytes of the text itself.
    pub(super) fn text_bytes(&self) -> usize {
        match *self {
            Text::Bytes(bytes) => bytes.len(),
            Text::Integer(number) => integer_text_length(number),
            // At least one digit stands before the point.
            Text::Decimal(number, scale) => {
                1 + integer_text_length(number).max(usize::from(number < 0) + 1 + usize::from(scale))
            }
        }
    }

    /// The text as an owned string.
    pub fn to_vec(&self) -> Vec<u8> {
        self.bytes(&mut [0; NUMBER_TEXT_MAX]).to_vec()
    }

    /// Appends the stored form.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Text::Integer(number @ 0..=INTEGER_SMALL_MAX) => out.push(number as u8),
            Text::Integer(number) => write_integer(INTEGER, number, out),
            Text::Decimal(number, scale) => write_integer(DECIMAL + (scale - 1) * 8, number, out),
            Text::Bytes(bytes) => {
                if bytes.len() <= SHORT_BYTES_MAX {
                    out.push(SHORT + bytes.len() as u8);
                } else {
                    out.push(LONG);
                    write_varint(bytes.len() as u64, out);
                }
                out.extend_from_slice(bytes);
            }
        }
    }
}

/// What the decimals of a scale divide by.
const SCALES: [u64; SCALE_MAX + 1] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

fn print_decimal(number: i64, scale: usize, scratch: &mut [u8; NUMBER_TEXT_MAX]) -> &[u8] {
    let (magnitude, scale) = (number.unsigned_abs(), scale.min(SCALE_MAX));
    let (whole, decimals) = (magnitude / SCALES[scale], magnitude % SCALES[scale]);
    // It is written over where there is no minus.
    scratch[0] = b'-';
    let sign = usize::from(number < 0);
    let room = scratch[sign..].first_chunk_mut();
    let point = sign + room.map_or(0, |room| format_u64(room, whole).len());
    let digits = u64::from_le_bytes(last_eight_digits(decimals)) >> (64 - 8 * scale);
    if let Some(behind) = scratch[point..].first_chunk_mut::<{ 1 + SCALE_MAX }>() {
        behind[0] = b'.';
        behind[1..].copy_from_slice(&digits.to_le_bytes());
    }
    &scratch[..point + 1 + scale]
}

/// `text` as a decimal, if that prints as `text`.
fn decimal(text: &[u8]) -> Option<Text<'_>> {
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits.len() > DECIMAL_DIGITS_MAX + 1 || !digits.first()?.is_ascii_digit() {
        return None;
    }
    let point = digits.iter().position(|&byte| byte == b'.')?;
    let scale = digits.len() - point - 1;
    let leading_zero = point > 1 && digits[0] == b'0';
    if !(1..=SCALE_MAX).contains(&scale) || leading_zero {
        return None;
    }
    let mut number = 0i64;
    for byte in digits[..point].iter().chain(&digits[point + 1..]) {
        number = number * 10 + i64::from(byte.checked_sub(b'0').filter(|digit| *digit < 10)?);
    }
    let negative_zero = is_negative && number == 0;
    (!negative_zero).then_some(Text::Decimal(if is_negative { -number } else { number }, scale as u8))
}

fn write_integer(tag: u8, number: i64, out: &mut Vec<u8>) {
    let significant = 65 - if number < 0 { number.leading_ones() } else { number.leading_zeros() };
    let width = significant.div_ceil(8) as usize;
    let mut bytes = [tag + width as u8 - 1; 9];
    bytes[1..].copy_from_slice(&number.to_le_bytes());
    // A copy of a fixed size is a store.
    let end = out.len() + 1 + width;
    out.extend_from_slice(&bytes);
    out.truncate(end);
}

/// Reads texts and LEB128 numbers from the bytes of a node; `None` where they end.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Reader { bytes, at }
    }

    /// Whether it is at the same place of the same node as another.
    pub(super) fn is_at(&self, other: &Reader<'_>) -> bool {
        std::ptr::eq(self.bytes, other.bytes) && self.at == other.at
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    #[inline]
    fn integer(&mut self, width: usize) -> Option<i64> {
        let integer = signed(&self.bytes[self.at..], width)?;
        self.at += width;
        Some(integer)
    }

    #[inline]
    pub(super) fn text(&mut self) -> Option<Text<'a>> {
        let tag = self.byte()?;
        match tag {
            ..SHORT => Some(Text::Integer(i64::from(tag))),
            SHORT..LONG => Some(Text::Bytes(self.take(usize::from(tag - SHORT))?)),
            LONG => {
                let len = usize::try_from(self.varint()?).ok()?;
                Some(Text::Bytes(self.take(len)?))
            }
            INTEGER..DECIMAL => Some(Text::Integer(self.integer(usize::from(tag - INTEGER) + 1)?)),
            DECIMAL..DECIMAL_END => {
                let form = tag - DECIMAL;
                Some(Text::Decimal(self.integer(usize::from(form % 8) + 1)?, form / 8 + 1))
            }
            _ => None,
        }
    }

    /// Steps over texts.
    pub(super) fn skip(&mut self, count: usize) -> Option<()> {
        for _ in 0..count {
            let tag = self.byte()?;
            let len = match tag {
                ..SHORT => 0,
                SHORT..LONG => usize::from(tag - SHORT),
                LONG => usize::try_from(self.varint()?).ok()?,
                _ => usize::from(tag % 8) + 1,
            };
            self.take(len)?;
        }
        Some(())
    }
}

/// Appends a number in LEB128.
pub(super) fn write_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Text::new(text).write(&mut out);
        out
    }

    fn check(text: &[u8]) {
        let bytes = stored(text);
        assert_eq!(Text::new(text).text_bytes(), text.len());
        let mut reader = Reader::new(&bytes, 0);
        assert_eq!(reader.text().map(|found| found.to_vec()).as_deref(), Some(text));
        assert_eq!(reader.position(), bytes.len());
        let mut reader = Reader::new(&bytes, 0);
        assert_eq!(reader.skip(1), Some(()));
        assert_eq!(reader.position(), bytes.len());
        for len in 0..bytes.len() {
            assert!(Reader::new(&bytes[..len], 0).text().is_none());
        }
    }

    #[test]
    fn every_text_reads_back() {
        let odd = [
            "",
            "-",
            ".",
            "-.",
            "0",
            "-0",
            "00",
            "95",
            "96",
            "-1",
            "127",
            "128",
            "32768",
            "-32769",
            "0.0",
            "-0.0",
            "0.5",
            "-0.5",
            "0.05",
            "00.5",
            ".5",
            "5.",
            "1.50",
            "21.53",
            "-21.53",
            "1e5",
            "1.2.3",
            "1.12345678",
            "1.123456789",
            "0.00000001",
            "1234567890.12345678",
            "12345678901.12345678",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "+1",
            " 1",
            "1.5 ",
            "--1.5",
            "abc",
            "-1.-5",
            "1.-5",
        ];
        odd.iter().for_each(|text| check(text.as_bytes()));
        [0, 1, 63, 64, 127, 128, 20_000].iter().for_each(|&len| check(&vec![b'x'; len]));
    }

    #[test]
    fn numbers_are_small() {
        let sizes = [("7", 1), ("-7", 2), ("300", 3), ("21.53", 3), ("45.1", 3), ("-0.5", 2), ("abc", 4)];
        for (text, size) in sizes {
            assert_eq!(stored(text.as_bytes()).len(), size, "{text}");
        }
    }
}
