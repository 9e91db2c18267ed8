//! Doubles and floats, read and printed.
//!
//! Reading takes the general decimal format of C++17's `from_chars` with an optional sign of either kind in
//! front, and `inf`, `infinity` and `nan` in any case. It is correctly rounded (to nearest, ties to even)
//! for every input, however long; what is too large becomes an infinity and what is too small a zero.
//!
//! Printing gives the shortest digits that read back as the same value, and among those the closest. Values
//! from 1e-5 up to 1e17 are laid out in place (`0.00001`, `12.5`, `3`), others with an exponent (`1.5e-7`,
//! `1e+20`).

use crate::header;
use crate::integer::{digits_value, parse_u64};
use std::mem::MaybeUninit;

/// A buffer for the text of a double or float, on the caller's stack; it costs nothing to make.
pub struct FloatText([MaybeUninit<u8>; header::FLOAT_BUFFER]);

impl FloatText {
    /// An empty one.
    #[inline]
    pub const fn new() -> Self {
        FloatText([MaybeUninit::uninit(); header::FLOAT_BUFFER])
    }
}

impl Default for FloatText {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads the whole input as a double; `None` if it is not a number.
#[inline]
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let negative = text.first() == Some(&b'-');
    let unsigned = &text[usize::from(negative)..];
    let quick = match unsigned.len() {
        1..=8 => parse_short(unsigned, negative),
        9..=15 if !negative => parse_u64(text).map(|integer| integer as f64),
        _ => None,
    };
    quick.or_else(|| header::parse_f64(text))
}

/// The powers of ten that fewer than eight decimals divide by.
const TENS: [f64; 8] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7];

/// Reads digits with at most one point among them in one to eight bytes; `None` for anything else, whether a
/// number or not. This is the header's way for short texts, which a call would cost half as much again.
#[inline]
fn parse_short(text: &[u8], negative: bool) -> Option<f64> {
    const LOW_SEVEN: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let count = text.len() as u32;
    let word = match (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << (8 * (count - 4))
        }
        _ => text.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    let word = word ^ 0x3030_3030_3030_3030;
    // The top bit of every byte that is not a digit.
    let other = (((word & LOW_SEVEN) + 0x7676_7676_7676_7676) | word) & !LOW_SEVEN;
    let whole = other.trailing_zeros() / 8;
    let (word, digits, decimals) = if whole == count {
        (word, whole, 0)
    } else {
        // The first other byte is to be the point, and the digits after it are to take the rest.
        let end = (other & (other - 1)).trailing_zeros() / 8;
        if end != count || count == 1 || (word >> (8 * whole)) as u8 != b'.' ^ b'0' {
            return None;
        }
        let integer = word & ((1 << (8 * whole)) - 1);
        (integer | word >> (8 * whole) >> 8 << (8 * whole), end - 1, end - 1 - whole)
    };
    if digits == 0 {
        return None;
    }
    let value = digits_value(word << (64 - 8 * digits)) as f64 / TENS[decimals as usize & 7];
    Some(if negative { -value } else { value })
}

/// Reads the whole input as a float, rounded once from the decimal text; `None` if it is not a number.
#[inline]
pub fn parse_f32(text: &[u8]) -> Option<f32> {
    header::parse_f32(text)
}

/// Prints `value` into `buffer` and returns the text.
#[inline]
pub fn format_f64(buffer: &mut FloatText, value: f64) -> &str {
    header::format_f64(&mut buffer.0, value)
}

/// Bytes that [`print_f64`] may write to.
pub const FLOAT_TEXT_MAX: usize = header::FLOAT_BUFFER;

/// Prints `value` at the start of `buffer` and returns the length of the text. What is behind it may change.
#[inline]
pub fn print_f64(buffer: &mut [u8; FLOAT_TEXT_MAX], value: f64) -> usize {
    header::print_f64(buffer, value)
}

/// Prints `value` into `buffer` and returns the text: the shortest among floats, so `0.1` and not the
/// double's digits.
#[inline]
pub fn format_f32(buffer: &mut FloatText, value: f32) -> &str {
    header::format_f32(&mut buffer.0, value)
}

/// Appends the shortest text of `value` to `out`.
#[inline]
pub fn write_f64(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(format_f64(&mut FloatText::new(), value).as_bytes());
}

/// Appends the shortest text of `value` to `out`; shortest among floats.
#[inline]
pub fn write_f32(out: &mut Vec<u8>, value: f32) {
    out.extend_from_slice(format_f32(&mut FloatText::new(), value).as_bytes());
}

/// Appends `value` with exactly `decimals` digits after the point, rounded from the exact value, ties to
/// even.
///
/// This is what GEODIST (4 decimals) and the ratios of INFO (2 decimals) print. Costs as much as the text
/// is long.
pub fn write_fixed(out: &mut Vec<u8>, value: f64, decimals: usize) {
    use std::io::Write;
    let text: &[u8] = match value {
        _ if value.is_nan() => b"nan",
        f64::INFINITY => b"inf",
        f64::NEG_INFINITY => b"-inf",
        _ => {
            let _infallible = write!(out, "{value:.decimals$}");
            return;
        }
    };
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(value: f64) -> String {
        let mut out = Vec::new();
        write_f64(&mut out, value);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn reads_the_whole_input_or_nothing() {
        for text in [
            "", ".", "-", "+", "e5", "1e", "1e+", " 1", "1 ", "1\0", "0x10", "1_0", "1,5", "infi", "--1",
            "+-1",
        ] {
            assert_eq!(parse_f64(text.as_bytes()), None, "{text:?}");
        }
        for (text, value) in
            [("5.", 5.0), (".5", 0.5), ("+1.5e-3", 0.0015), ("INF", f64::INFINITY), ("1E400", f64::INFINITY)]
        {
            assert_eq!(parse_f64(text.as_bytes()), Some(value), "{text:?}");
        }
        assert!(parse_f64(b"-nan").is_some_and(f64::is_nan));
        assert_eq!(parse_f32(b"16777217"), Some(16777216.0));
        assert_eq!(parse_f32(b"1e39"), Some(f32::INFINITY));
    }

    #[test]
    fn prints_the_general_layout() {
        let expected = [
            (0.0, "0"),
            (-0.0, "-0"),
            (12.5, "12.5"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e-5, "0.00001"),
            (1.5e-6, "1.5e-6"),
            (-1e23, "-1e+23"),
            (0.1, "0.1"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, text) in expected {
            assert_eq!(printed(value), text);
        }
        let mut out = Vec::new();
        write_f32(&mut out, 0.1);
        out.push(b' ');
        write_fixed(&mut out, 166274.15156960033, 4);
        assert_eq!(out, b"0.1 166274.1516");
    }

    /// Every text of up to six bytes from an alphabet of those that matter reads as the standard library
    /// reads it.
    #[test]
    fn short_texts_read_as_in_the_standard_library() {
        const ALPHABET: &[u8] = b"019.e-+";
        for length in 1..=6u32 {
            for index in 0..ALPHABET.len().pow(length) {
                let letter = |place: u32| ALPHABET[index / ALPHABET.len().pow(place) % ALPHABET.len()];
                let text: Vec<u8> = (0..length).map(letter).collect();
                let expected = std::str::from_utf8(&text).ok().and_then(|text| text.parse::<f64>().ok());
                assert_eq!(
                    parse_f64(&text).map(f64::to_bits),
                    expected.map(f64::to_bits),
                    "{}",
                    text.escape_ascii()
                );
            }
        }
    }

    #[test]
    fn short_decimals_and_integers_read_as_in_the_standard_library() {
        let mut state = 20_260_601u64;
        for index in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut text = (state >> 10 >> (index % 52)).to_string();
            if index % 3 != 0 {
                text.insert((state >> 20) as usize % (text.len() + 1), '.');
            }
            if index % 5 == 0 {
                text.insert(0, '-');
            }
            assert_eq!(parse_f64(text.as_bytes()), text.parse().ok(), "{text}");
        }
    }
}
