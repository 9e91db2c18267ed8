//! Decimal integers, read and printed.
//!
//! The grammar is the strict one that Redis applies wherever it decides whether a string is an integer: an
//! optional minus, then digits without a leading zero; `-0`, `+1`, ` 1` and the empty string are not
//! integers. A string is accepted exactly if printing its value gives the same bytes again, so a value may
//! be stored as an integer and nobody can tell.
//!
//! These few functions are native Rust, not calls into the C header, because they are shorter than a call
//! that the compiler cannot inline; the shared vectors in `number/vectors` hold both to the same answers.

/// The most bytes that a 64-bit integer takes as text: `-9223372036854775808` and `18446744073709551615`.
pub const INTEGER_TEXT_MAX: usize = 20;

/// Reads the whole input as an `i64`; `None` if it is not the canonical text of one.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match text {
        [b'-', digits @ ..] => match parse_u64(digits)? {
            0 => None,
            magnitude if magnitude <= 1 << 63 => Some((magnitude as i64).wrapping_neg()),
            _ => None,
        },
        digits => i64::try_from(parse_u64(digits)?).ok(),
    }
}

/// Reads the whole input as a `u64`; `None` if it is not the canonical text of one.
#[inline]
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    let (&first, rest) = text.split_first()?;
    let first = first.wrapping_sub(b'0');
    if first > 9 || (first == 0 && !rest.is_empty()) || rest.len() >= INTEGER_TEXT_MAX {
        return None;
    }
    let mut value = u64::from(first);
    let mut rest = rest;
    while let Some((chunk, tail)) = rest.split_first_chunk::<8>() {
        let digits = parse_eight_digits(u64::from_le_bytes(*chunk))?;
        value = value.checked_mul(100_000_000)?.checked_add(digits)?;
        rest = tail;
    }
    for &byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// The value of eight ASCII digits packed with the first in the lowest byte; `None` if any is not a digit.
#[inline]
fn parse_eight_digits(word: u64) -> Option<u64> {
    const HIGH_NIBBLES: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    let above_nine = word.wrapping_add(0x0606_0606_0606_0606);
    if (word & HIGH_NIBBLES) != ZEROS || (above_nine & HIGH_NIBBLES) != ZEROS {
        return None;
    }
    Some(digits_value(word - ZEROS))
}

/// The value of eight digits, one a byte, the first in the lowest.
///
/// Three multiplications join neighbours: digits to pairs, pairs to fours, fours to eight.
#[inline]
pub(crate) fn digits_value(digits: u64) -> u64 {
    let pairs = (digits.wrapping_mul(1 + (10 << 8)) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(1 + (100 << 16)) >> 16) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(1 + (10_000 << 32)) >> 32
}

/// The value of the decimal digits that eight bytes begin with, and how many these are.
#[inline]
pub fn leading_digits(bytes: [u8; 8]) -> (u64, usize) {
    const LOW_SEVEN: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let word = u64::from_le_bytes(bytes) ^ 0x3030_3030_3030_3030;
    // The top bit of every byte that is not a digit.
    let other = (((word & LOW_SEVEN) + 0x7676_7676_7676_7676) | word) & !LOW_SEVEN;
    let count = other.trailing_zeros() / 8;
    let value = digits_value(word.checked_shl(64 - 8 * count).unwrap_or(0));
    (value, count as usize)
}

/// How many decimal digits `value` has; zero has one.
#[inline]
pub(crate) fn digit_count(value: u64) -> usize {
    static POWERS: [u64; 20] = {
        let mut powers = [0u64; 20];
        let mut power = 1u64;
        let mut index = 1;
        while index < 20 {
            power *= 10;
            powers[index] = power;
            index += 1;
        }
        powers
    };
    // log10(2) is a little under 1233 / 4096, so this estimate is right or one too high.
    let estimate = ((64 - (value | 1).leading_zeros() as usize) * 1233) >> 12;
    estimate + usize::from(value >= POWERS[estimate])
}

/// The length of the text of `value`, without printing it.
#[inline]
pub fn integer_text_length(value: i64) -> usize {
    usize::from(value < 0) + digit_count(value.unsigned_abs())
}

/// One more than the largest number of eight digits.
const EIGHT_DIGITS: u64 = 100_000_000;

/// The eight decimal digits of a value below 10^8 as numbers, the first in the lowest byte.
#[inline]
const fn eight_digits(value: u64) -> u64 {
    // Pairs of lanes are split side by side: each division is a product whose quotient is exact in its range.
    let (high, low) = (value / 10_000, value % 10_000);
    let fours = high | low << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | (fours - 100 * hundreds) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (pairs - 10 * tens) << 8
}

/// Eight digits that are zero.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The last eight decimal digits of a value, with leading zeros.
#[inline]
pub fn last_eight_digits(value: u64) -> [u8; 8] {
    (eight_digits(value % EIGHT_DIGITS) | ZEROS).to_le_bytes()
}

/// Writes the text of a value below 10^8 at `at`, and returns where it ends. Eight bytes change.
#[inline]
fn put_first(buffer: &mut [u8; INTEGER_TEXT_MAX], at: usize, value: u64) -> usize {
    // The length is known before the digits are.
    let count = digit_count(value);
    put_eight(buffer, at, (eight_digits(value) | ZEROS) >> (64 - 8 * count));
    at + count
}

#[inline]
fn put_eight(buffer: &mut [u8; INTEGER_TEXT_MAX], at: usize, text: u64) {
    if let Some(eight) = buffer[at.min(INTEGER_TEXT_MAX)..].first_chunk_mut::<8>() {
        *eight = text.to_le_bytes();
    }
}

/// Writes the text of a value at `at`, which is 1 at most, and of a value above [`i64::MAX`] 0. Returns
/// where it ends.
#[inline(always)]
fn put_digits(buffer: &mut [u8; INTEGER_TEXT_MAX], at: usize, value: u64) -> usize {
    if value < EIGHT_DIGITS { put_first(buffer, at, value) } else { put_long(buffer, at, value) }
}

/// The same of a value of more than eight digits.
#[inline(never)]
fn put_long(buffer: &mut [u8; INTEGER_TEXT_MAX], at: usize, value: u64) -> usize {
    let (high, low) = (value / EIGHT_DIGITS, value % EIGHT_DIGITS);
    let at = if high < EIGHT_DIGITS {
        put_first(buffer, at, high)
    } else {
        let at = put_first(buffer, at, high / EIGHT_DIGITS);
        put_eight(buffer, at, eight_digits(high % EIGHT_DIGITS) | ZEROS);
        at + 8
    };
    put_eight(buffer, at, eight_digits(low) | ZEROS);
    at + 8
}

/// Prints `value` into `buffer` and returns the text, which starts at the buffer's first byte.
#[inline]
pub fn format_u64(buffer: &mut [u8; INTEGER_TEXT_MAX], value: u64) -> &[u8] {
    let end = put_digits(buffer, 0, value);
    &buffer[..end.min(INTEGER_TEXT_MAX)]
}

/// Prints `value` into `buffer` and returns the text, which starts at the buffer's first byte.
#[inline]
pub fn format_i64(buffer: &mut [u8; INTEGER_TEXT_MAX], value: i64) -> &[u8] {
    buffer[0] = b'-';
    let end = put_digits(buffer, usize::from(value < 0), value.unsigned_abs());
    &buffer[..end.min(INTEGER_TEXT_MAX)]
}

/// Appends the text of `value` to `out`.
#[inline]
pub fn write_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(format_u64(&mut [0; INTEGER_TEXT_MAX], value));
}

/// Appends the text of `value` to `out`.
#[inline]
pub fn write_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(format_i64(&mut [0; INTEGER_TEXT_MAX], value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_canonical_text_only() {
        for text in ["", "-", "+1", " 1", "1 ", "01", "-0", "-01", "00", "1a", "1.0", "0x1", "--1", "1\0"] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
        for text in
            ["9223372036854775808", "-9223372036854775809", "99999999999999999999", "100000000000000000000"]
        {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
        for text in
            ["18446744073709551616", "28446744073709551615", "111111111111111111111", "-1", "12345678/", ":"]
        {
            assert_eq!(parse_u64(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn leading_digits_end_at_any_other_byte() {
        for count in 0..=8 {
            for other in (0..=u8::MAX).filter(|byte| !byte.is_ascii_digit()) {
                let mut bytes = *b"98765432";
                if let Some(byte) = bytes.get_mut(count) {
                    *byte = other;
                }
                let value = bytes[..count].iter().fold(0, |value, byte| value * 10 + u64::from(byte - b'0'));
                assert_eq!(leading_digits(bytes), (value, count), "{bytes:?}");
            }
        }
    }

    #[test]
    fn every_length_and_both_ends_go_round() {
        let mut values = vec![0u64, 9, 10, u64::MAX, u64::MAX - 1, i64::MAX as u64, 1 << 63];
        let mut power = 1u64;
        for _ in 0..19 {
            values.extend([power - 1, power, power + 1, power * 9]);
            power = power.saturating_mul(10);
        }
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for index in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            values.push(state >> (index % 64));
        }
        for value in values {
            let expected = value.to_string();
            assert_eq!(format_u64(&mut [0; 20], value), expected.as_bytes());
            assert_eq!(last_eight_digits(value), *format!("{:08}", value % 100_000_000).as_bytes());
            assert_eq!(parse_u64(expected.as_bytes()), Some(value));
            let signed = value as i64;
            let expected = signed.to_string();
            assert_eq!(format_i64(&mut [0; 20], signed), expected.as_bytes());
            assert_eq!(parse_i64(expected.as_bytes()), Some(signed));
            assert_eq!(integer_text_length(signed), expected.len());
        }
    }
}
