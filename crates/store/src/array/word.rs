//! What an element takes in its slot: eight bytes.
//!
//! ```text
//! bits 0, 1   the rest
//! 0           a text of its block: its number + 1 (62 bits)
//! 1           an integer of 62 bits
//! 2           a double whose lowest two bits are zeros
//! 3           a text of up to seven bytes: length (bits 2 to 4), bytes 1 to 7
//! ```
//!
//! A text becomes a number only if the number is written as that text again. These are the classes that Redis
//! has, so that its dumps and those of this server say the same of the same data.

use mantissa_memory::SharedBytes;
use mantissa_number::binary::{read_varint, write_varint};
use mantissa_number::{INTEGER_TEXT_MAX, SCORE_TEXT_MAX, format_i64, format_score, parse_f64, parse_i64};

const TAG: u64 = 3;
const TEXT: u64 = 0;
const INTEGER: u64 = 1;
const DOUBLE: u64 = 2;
const SHORT: u64 = 3;
/// Bits of a tag.
const TAG_BITS: u32 = 2;
/// Longest text that lies in the slot.
const SHORT_MAX: usize = 7;
/// What a double that has no fraction is written with.
const NO_FRACTION: &[u8] = b".0";
/// Integers that have 62 bits.
const INTEGERS: std::ops::RangeInclusive<i64> = -(1 << 61)..=(1 << 61) - 1;

/// Bytes of the longest text of an element that is no text.
pub const ELEMENT_TEXT_MAX: usize = SCORE_TEXT_MAX + NO_FRACTION.len();
const _: () = assert!(ELEMENT_TEXT_MAX >= INTEGER_TEXT_MAX);

/// Room for the text of an element that is no text.
pub type ElementText = [u8; ELEMENT_TEXT_MAX];

/// An element of an array.
#[derive(Clone, Copy, Debug)]
pub enum Element<'a> {
    /// An integer of 62 bits.
    Integer(i64),
    /// A double.
    Double(f64),
    /// A text of up to seven bytes.
    Short(ShortText),
    /// A longer text.
    Text(&'a [u8]),
}

/// A text of up to seven bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortText([u8; 8]);

impl ShortText {
    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        let len = usize::from(self.0[0] >> TAG_BITS);
        &self.0[1..][..len.min(SHORT_MAX)]
    }
}

impl<'a> Element<'a> {
    /// The element that a text is stored as.
    pub fn of(text: &'a [u8]) -> Self {
        if let Some(integer) = parse_i64(text).filter(|integer| INTEGERS.contains(integer)) {
            Element::Integer(integer)
        } else if let Some(double) = double_of(text) {
            Element::Double(double)
        } else {
            Element::of_bytes(text)
        }
    }

    /// The element that has these bytes and is no number.
    pub fn of_bytes(bytes: &'a [u8]) -> Self {
        if bytes.len() > SHORT_MAX {
            return Element::Text(bytes);
        }
        let mut short = [0; 8];
        short[0] = SHORT as u8 | (bytes.len() as u8) << TAG_BITS;
        short[1..][..bytes.len()].copy_from_slice(bytes);
        Element::Short(ShortText(short))
    }

    /// The integer, if it has 62 bits.
    pub fn of_integer(integer: i64) -> Option<Self> {
        INTEGERS.contains(&integer).then_some(Element::Integer(integer))
    }

    /// The double, without its lowest two bits.
    pub fn of_double(double: f64) -> Self {
        Element::Double(f64::from_bits(double.to_bits() & !TAG))
    }

    /// The text that it stands for; a number is printed into `scratch`.
    #[inline]
    pub fn text<'s>(&'s self, scratch: &'s mut ElementText) -> &'s [u8] {
        match self {
            Element::Text(text) => text,
            Element::Short(short) => short.as_bytes(),
            Element::Double(double) => write_double(*double, scratch),
            Element::Integer(integer) => {
                let mut digits = [0; INTEGER_TEXT_MAX];
                let text = format_i64(&mut digits, *integer);
                let out = &mut scratch[..text.len()];
                out.copy_from_slice(text);
                out
            }
        }
    }
}

/// The double that is written as this text, if its lowest two bits are zeros.
fn double_of(text: &[u8]) -> Option<f64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_decimal = digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    if !is_decimal
        || text.len() > ELEMENT_TEXT_MAX
        || digits.iter().filter(|byte| **byte == b'.').count() != 1
    {
        return None;
    }
    let double = parse_f64(text).filter(|double| double.is_finite() && double.to_bits() & TAG == 0)?;
    (write_double(double, &mut [0; ELEMENT_TEXT_MAX]) == text).then_some(double)
}

/// The text of a double: the shortest one that is read as this double, with a fraction or an exponent.
fn write_double(double: f64, scratch: &mut ElementText) -> &[u8] {
    let mut digits = [0; SCORE_TEXT_MAX];
    let text = format_score(&mut digits, double);
    let len = text.len();
    scratch[..len].copy_from_slice(text);
    let is_plain = double.is_finite() && !text.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    let fraction = if is_plain { NO_FRACTION } else { b"" };
    scratch[len..][..fraction.len()].copy_from_slice(fraction);
    &scratch[..len + fraction.len()]
}

/// What lies in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(u64);

impl Word {
    /// The word of an element; `None` for a longer text.
    #[inline]
    pub fn of(element: Element<'_>) -> Option<Word> {
        Some(Word(match element {
            Element::Integer(integer) => (integer as u64) << TAG_BITS | INTEGER,
            Element::Double(double) => double.to_bits() & !TAG | DOUBLE,
            Element::Short(short) => u64::from_le_bytes(short.0),
            Element::Text(_) => return None,
        }))
    }

    /// The word of a text of its block.
    #[inline]
    pub fn of_text(number: usize) -> Word {
        Word((number as u64 + 1) << TAG_BITS | TEXT)
    }

    /// The number of the text, if it is one.
    #[inline]
    pub fn text_number(self) -> Option<usize> {
        (self.0 & TAG == TEXT).then(|| (self.0 >> TAG_BITS) as usize - 1)
    }

    /// The element, whose text, if it is one, `text_of` finds.
    #[inline]
    pub fn element<'a>(self, text_of: impl FnOnce(usize) -> &'a [u8]) -> Element<'a> {
        match self.0 & TAG {
            INTEGER => Element::Integer(self.0 as i64 >> TAG_BITS),
            DOUBLE => Element::Double(f64::from_bits(self.0 & !TAG)),
            SHORT => Element::Short(ShortText(self.0.to_le_bytes())),
            _ => Element::Text(text_of((self.0 >> TAG_BITS) as usize - 1)),
        }
    }
}

/// A text with its length before it.
pub(super) fn pack(text: &[u8]) -> SharedBytes {
    let mut length = Vec::with_capacity(9);
    write_varint(&mut length, text.len() as u64);
    SharedBytes::joined(&[&length, text])
}

/// The text that [`pack`] has packed.
#[inline]
pub(super) fn unpack(bytes: &SharedBytes) -> &[u8] {
    let payload = bytes.payload();
    let (len, start) = read_varint(payload).unwrap_or_default();
    payload.get(start..).and_then(|rest| rest.get(..len as usize)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> char {
        let element = Element::of(text.as_bytes());
        assert_eq!(element.text(&mut [0; ELEMENT_TEXT_MAX]), text.as_bytes());
        if let Some(word) = Word::of(element) {
            let again = word.element(|_| unreachable!());
            assert_eq!(again.text(&mut [0; ELEMENT_TEXT_MAX]), text.as_bytes());
            assert_eq!(word.text_number(), None);
        }
        match element {
            Element::Integer(_) => 'i',
            Element::Double(_) => 'd',
            Element::Short(_) => 's',
            Element::Text(_) => 't',
        }
    }

    #[test]
    fn a_text_becomes_a_number_only_if_that_is_written_alike() {
        for integer in ["0", "-1", "12345678", "2305843009213693951", "-2305843009213693952"] {
            assert_eq!(class(integer), 'i', "{integer}");
        }
        for double in ["0.5", "-0.0", "1.0", "-2.25", "1024.125", "-0.5", "100000000000000000.0"] {
            assert_eq!(class(double), 'd', "{double}");
        }
        for short in [
            "", "a", "seven b", "007", "+1", "-", ".", "-.", "1.", ".5", "1.50", "1e3", "0.1", "-00.0",
            "1..2",
        ] {
            assert_eq!(class(short), 's', "{short}");
        }
        for text in ["eight by", "2305843009213693952", "-2305843009213693953", "9223372036854775808"] {
            assert_eq!(class(text), 't', "{text}");
        }
        assert_eq!(class(&"1".repeat(400)), 't');
        assert_eq!(class(&format!("0.{}", "1".repeat(400))), 't');
    }

    #[test]
    fn doubles_from_elsewhere_are_written_whatever_they_are() {
        for double in [f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, -0.0, 1e300, 5e-324] {
            let element = Element::of_double(double);
            let word = Word::of(element).expect("it has a word");
            let Element::Double(again) = word.element(|_| unreachable!()) else { panic!("{double}") };
            assert_eq!(again.to_bits(), double.to_bits() & !TAG);
            assert!(!element.text(&mut [0; ELEMENT_TEXT_MAX]).is_empty());
        }
        assert_eq!(Element::of_double(f64::INFINITY).text(&mut [0; ELEMENT_TEXT_MAX]), b"inf");
        assert!(!Element::of_double(f64::NAN).text(&mut [0; ELEMENT_TEXT_MAX]).is_empty());
    }

    #[test]
    fn packed_texts_are_unpacked() {
        for len in [0, 1, 8, 127, 128, 20_000] {
            let text = vec![b'x'; len];
            assert_eq!(unpack(&pack(&text)), text);
        }
        assert_eq!(Word::of_text(255).text_number(), Some(255));
    }
}
