//! The text forms of doubles in Redis: scores, range bounds, coordinates and RESP3 doubles.
//!
//! Reading differs by place. An argument that is a score or an increment ([`parse_score`]) may be
//! hexadecimal, and an overflow or an underflow to zero is refused. A range bound ([`parse_score_bound`])
//! may not be hexadecimal, ends at the first NUL, may be empty (zero), and saturates.
//!
//! Printing is the same everywhere: an integral value within 2^62 as an integer, any other with Redis's
//! digits (see [`digits`]), laid out in place where that is short and as `1.5e-7` where it is not.

use crate::decimal::{Scanned, scan, scan_hexadecimal};
use crate::float::parse_f64;
use crate::integer::{INTEGER_TEXT_MAX, format_i64};

mod digits;
mod powers;

/// The bytes that a buffer for the text of a score has; the text itself takes at most 25.
pub const SCORE_TEXT_MAX: usize = crate::header::FLOAT_BUFFER;

/// Reads a score, an increment or a weight: `None` where Redis says `value is not a valid float`.
///
/// Decimal or hexadecimal, with an optional sign, or an infinity in any case; never a NaN, a space or a
/// NUL. A number that is not zero but rounds to zero is refused, as is a finite one that rounds to
/// infinity.
#[inline]
pub fn parse_score(text: &[u8]) -> Option<f64> {
    match parse_f64(text) {
        Some(value) if value.is_finite() && value != 0.0 => Some(value),
        _ => parse_unusual_score(text),
    }
}

#[cold]
fn parse_unusual_score(text: &[u8]) -> Option<f64> {
    match scan(text)? {
        Scanned::Infinity(negative) => Some(if negative { f64::NEG_INFINITY } else { f64::INFINITY }),
        Scanned::Decimal(parts) if parts.is_zero() => Some(if parts.negative { -0.0 } else { 0.0 }),
        Scanned::Decimal(_) => None,
        Scanned::Hexadecimal(negative, digits) => {
            let parts = scan_hexadecimal(digits)?;
            let magnitude = round_binary(parts.significand, parts.exponent, parts.inexact);
            let is_in_range = magnitude.is_finite() && (magnitude != 0.0 || parts.significand == 0);
            is_in_range.then_some(if negative { -magnitude } else { magnitude })
        }
    }
}

/// Reads what stands behind the `0x` of a hexadecimal number as C's `strtod` does: digits with at most one
/// point, then an optional binary exponent. What is too large or too small becomes an infinity or zero.
pub fn parse_hexadecimal(text: &[u8]) -> Option<f64> {
    let parts = scan_hexadecimal(text)?;
    Some(round_binary(parts.significand, parts.exponent, parts.inexact))
}

/// `significand * 2^exponent` rounded to the nearest double, ties to even; `inexact` says that non-zero
/// bits follow. An infinity if it overflows, zero if it underflows.
///
/// Where bits follow, the significand has at least 125 bits, so they lie below the half.
fn round_binary(significand: u128, exponent: i64, inexact: bool) -> f64 {
    if significand == 0 {
        return 0.0;
    }
    let shift = i64::from(significand.leading_zeros());
    let significand = significand << shift;
    let top = exponent - shift + 127;
    if top > 1023 {
        return f64::INFINITY;
    }
    // Bits to drop from the 128: 75 for a normal number, more where the exponent reaches the subnormal range.
    let dropped = 75 + (-1022 - top).max(0);
    let (kept, remainder, half) = match dropped {
        75..=127 => {
            ((significand >> dropped) as u64, significand & ((1 << dropped) - 1), 1u128 << (dropped - 1))
        }
        128 => (0, significand, 1u128 << 127),
        _ => return 0.0,
    };
    let rounded = kept + u64::from(remainder > half || (remainder == half && (inexact || kept & 1 == 1)));
    // Adding the fields lets a carry out of the fraction raise the exponent, up to infinity.
    let exponent_field = (top + 1022).max(0) as u64;
    f64::from_bits((exponent_field << 52) + rounded)
}

/// Reads the number of a range bound, after any `(`: `None` where Redis says `min or max is not a float`.
///
/// The text ends at its first NUL, the empty text is zero, and what is too large or too small becomes an
/// infinity or zero; a NaN or a hexadecimal number is refused.
#[inline]
pub fn parse_score_bound(text: &[u8]) -> Option<f64> {
    match parse_f64(text) {
        Some(value) if !value.is_nan() => Some(value),
        _ => parse_terminated_bound(text),
    }
}

#[cold]
fn parse_terminated_bound(text: &[u8]) -> Option<f64> {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    if end == 0 { Some(0.0) } else { parse_f64(&text[..end]).filter(|value| !value.is_nan()) }
}

/// The largest magnitude that is printed as an integer whenever it is integral: 2^62.
const INTEGER_LIMIT: f64 = (1u64 << 62) as f64;

/// Prints `value` as Redis prints a score into `buffer` and returns the text.
#[inline]
pub fn format_score(buffer: &mut [u8; SCORE_TEXT_MAX], value: f64) -> &[u8] {
    let integer = value as i64;
    if value.abs() <= INTEGER_LIMIT && integer as f64 == value && (integer != 0 || value.is_sign_positive()) {
        let mut digits = [0; INTEGER_TEXT_MAX];
        let text = format_i64(&mut digits, integer);
        let length = text.len();
        buffer[..length].copy_from_slice(text);
        return &buffer[..length];
    }
    match crate::header::try_format_score(buffer, value) {
        Some(length) => &buffer[..length],
        None => format_other_score(buffer, value),
    }
}

/// Prints what needs Redis's own digits, and what has none.
#[cold]
fn format_other_score(buffer: &mut [u8; SCORE_TEXT_MAX], value: f64) -> &[u8] {
    let special: &[u8] = match value {
        _ if value.is_nan() => b"nan",
        f64::INFINITY => b"inf",
        f64::NEG_INFINITY => b"-inf",
        0.0 => b"-0",
        _ => return lay_out(buffer, value),
    };
    buffer[..special.len()].copy_from_slice(special);
    &buffer[..special.len()]
}

/// A text under construction in a score's buffer; it never grows past it.
struct Text<'a> {
    buffer: &'a mut [u8; SCORE_TEXT_MAX],
    length: usize,
}

impl<'a> Text<'a> {
    fn push(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if let Some(target) = self.buffer.get_mut(self.length..end) {
            target.copy_from_slice(bytes);
            self.length = end;
        }
    }

    fn push_zeros(&mut self, count: usize) {
        self.push(&[b'0'; SCORE_TEXT_MAX][..count.min(SCORE_TEXT_MAX)]);
    }

    fn finish(self) -> &'a [u8] {
        let Text { buffer, length } = self;
        &buffer[..length]
    }
}

/// Lays out the shortest digits of a finite, non-zero value.
fn lay_out(buffer: &mut [u8; SCORE_TEXT_MAX], value: f64) -> &[u8] {
    let (digits, exponent) = digits::digits(value.abs());
    let mut integer = [0; INTEGER_TEXT_MAX];
    let digits = crate::integer::format_u64(&mut integer, digits);
    let count = digits.len() as i32;
    // The value is d.ddd times ten to this.
    let leading = exponent + count - 1;
    let mut text = Text { buffer, length: 0 };
    if value < 0.0 {
        text.push(b"-");
    }
    if exponent >= 0 && leading < count + 7 {
        text.push(digits);
        text.push_zeros(exponent as usize);
    } else if exponent < 0 && (exponent > -7 || leading.abs() < 4) {
        if leading < 0 {
            text.push(b"0.");
            text.push_zeros((-leading - 1) as usize);
            text.push(digits);
        } else {
            let (whole, fraction) = digits.split_at((leading + 1) as usize);
            text.push(whole);
            text.push(b".");
            text.push(fraction);
        }
    } else {
        let (first, rest) = digits.split_at(1);
        text.push(first);
        if !rest.is_empty() {
            text.push(b".");
            text.push(rest);
        }
        text.push(if leading < 0 { b"e-" } else { b"e+" });
        text.push(crate::integer::format_u64(&mut [0; INTEGER_TEXT_MAX], u64::from(leading.unsigned_abs())));
    }
    text.finish()
}

/// Appends `value` with the digits of [`write_score`] where those are not an integer's: every value by its
/// shortest digits, so `1e+17` where `write_score` gives `100000000000000000`. DEBUG DIGEST hashes scores
/// in this form.
pub fn write_score_digits(out: &mut Vec<u8>, value: f64) {
    if value == 0.0 && value.is_sign_positive() {
        return out.push(b'0');
    }
    out.extend_from_slice(format_other_score(&mut [0; SCORE_TEXT_MAX], value));
}

/// Appends `value` as Redis prints a score: in ZSCORE, in RESP3 doubles (after the comma) and in GEOPOS.
#[inline]
pub fn write_score(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(format_score(&mut [0; SCORE_TEXT_MAX], value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_redis_reads_as_a_score() {
        let accepted: [(&[u8], f64); 26] = [
            (b"0x1p3", 8.0),
            (b"0x10", 16.0),
            (b"-0x1.8p1", -3.0),
            (b"+inf", f64::INFINITY),
            (b"-INF", f64::NEG_INFINITY),
            (b"+Infinity", f64::INFINITY),
            (b".5", 0.5),
            (b"5.", 5.0),
            (b"+5", 5.0),
            (b"0x.8", 0.5),
            (b"4.9e-324", 5e-324),
            (b"1e-320", 1e-320),
            (b"0x1p-1074", 5e-324),
            (b"0x1.fffffffffffff8p0", 2.0),
            (b"0X1P+3", 8.0),
            (b"0x1.", 1.0),
            (b"0e999999", 0.0),
            (b"0e-99999999999999999999", 0.0),
            (b"1.e5", 1e5),
            (b".5e1", 5.0),
            (b"0001.5000", 1.5),
            (b"0x0", 0.0),
            (b"0x0p99999999999", 0.0),
            (b"0x1.8e1", 1.554931640625),
            (b"1.7976931348623158e308", f64::MAX),
            (b"1e-5", 1e-5),
        ];
        for (text, value) in accepted {
            assert_eq!(parse_score(text), Some(value), "{}", text.escape_ascii());
        }
        let refused: [&[u8]; 30] = [
            b"",
            b" 1",
            b"1 ",
            b"\t1",
            b"nan",
            b"-nan",
            b"NaN(12)",
            b"1e400",
            b"-1e400",
            b"1e-400",
            b".",
            b"1\0",
            b"\x001",
            b"++5",
            b"1e",
            b"1e+",
            b"0x",
            b"0xg",
            b"1d5",
            b"2e-324",
            b"infi",
            b"1,5",
            b"0x1p-1075",
            b"0x1p1024",
            b"0x1p",
            b"0x.p1",
            b"+",
            b".e5",
            b"1e5.5",
            b"1.7976931348623159e308",
        ];
        for text in refused {
            assert_eq!(parse_score(text), None, "{}", text.escape_ascii());
        }
        assert!(parse_score(b"-0").is_some_and(|zero| zero == 0.0 && zero.is_sign_negative()));
    }

    #[test]
    fn reads_what_redis_reads_as_a_bound() {
        let accepted: [(&[u8], f64); 9] = [
            (b"", 0.0),
            (b"1e400", f64::INFINITY),
            (b"-1e400", f64::NEG_INFINITY),
            (b"1e-400", 0.0),
            (b"1\x002", 1.0),
            (b"\x001", 0.0),
            (b"+.5", 0.5),
            (b"infinity", f64::INFINITY),
            (b"1\0\0", 1.0),
        ];
        for (text, value) in accepted {
            assert_eq!(parse_score_bound(text), Some(value), "{}", text.escape_ascii());
        }
        let refused: [&[u8]; 9] = [b"0x10", b" 1", b"1 ", b"nan", b"nan\0", b"x\0", b".", b"(1", b"1e"];
        for text in refused {
            assert_eq!(parse_score_bound(text), None, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn prints_the_layout_of_redis() {
        let expected = [
            (3.0, "3"),
            (-0.0, "-0"),
            (0.0, "0"),
            (2.75, "2.75"),
            (1e18, "1000000000000000000"),
            (1e19, "1e+19"),
            (1e20, "1e+20"),
            (123456789012345678.0, "123456789012345680"),
            (1234567890123456789.0, "1234567890123456768"),
            (12345678901234567890.0, "12345678901234567000"),
            (9223372036854775807.0, "9223372036854776000"),
            (0.000001, "0.000001"),
            (1e-7, "1e-7"),
            (1.5e-5, "0.000015"),
            (1.5e-6, "1.5e-6"),
            (1.2345678901234567e-5, "1.2345678901234568e-5"),
            (0.00012345678901234567, "1.2345678901234567e-4"),
            (0.0012345678901234567, "0.0012345678901234567"),
            (-1.7976931348623157e308, "-1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (0.001234567, "0.001234567"),
            (1.23e-7, "1.23e-7"),
            (94.179195, "94.17919500000001"),
            (1e23, "99999999999999990000000"),
            (8.41e21, "8409999999999999000000"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ];
        for (value, text) in expected {
            let mut out = Vec::new();
            write_score(&mut out, value);
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
    }

    /// The quick way never differs from Redis's own algorithm, and is nearly always open.
    #[test]
    fn the_quick_way_prints_the_same_digits() {
        let mut state = 20_260_601u64;
        let (mut quick, mut total) = (0, 0);
        for index in 0..300_000u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bits = state ^ state >> 29;
            let value = match index % 3 {
                0 => f64::from_bits(bits),
                1 => (bits >> 20) as f64 / 10f64.powi(2 + index as i32 % 9),
                _ => (bits >> 11) as f64 / (1u64 << 53) as f64,
            };
            if !value.is_finite() || value == 0.0 {
                continue;
            }
            total += 1;
            let mut buffer = [0; SCORE_TEXT_MAX];
            if let Some(length) = crate::header::try_format_score(&mut buffer, value) {
                quick += 1;
                let mut exact = [0; SCORE_TEXT_MAX];
                assert_eq!(&buffer[..length], lay_out(&mut exact, value), "{value:e}");
            }
        }
        assert!(quick * 10 > total * 9, "{quick} of {total}");
    }
}
