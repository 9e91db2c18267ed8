//! Doubles and floats, read and printed.
//!
//! Reading takes the general decimal format of C++17's `from_chars` with an optional sign of either kind in front, and
//! `inf`, `infinity` and `nan` in any case. It is correctly rounded (to nearest, ties to even) for every input, however long;
//! what is too large becomes an infinity and what is too small a zero.
//!
//! Printing gives the shortest digits that read back as the same value, and among those the closest. Values from 1e-5 up
//! to 1e17 are laid out in place (`0.00001`, `12.5`, `3`), others with an exponent (`1.5e-7`, `1e+20`).

use crate::integer::{INTEGER_TEXT_MAX, format_u64};

/// The most bytes that the shortest text of a double takes, rounded up.
pub const FLOAT_TEXT_MAX: usize = 32;

/// Reads the whole input as a double; `None` if it is not a number.
#[inline]
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads the whole input as a float, rounded once from the decimal text; `None` if it is not a number.
#[inline]
pub fn parse_f32(text: &[u8]) -> Option<f32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The shortest digits of a finite positive value, without trailing zeros: the value is `digits * 10^exponent`.
pub(crate) fn shortest_digits(value: f64) -> (u64, i32) {
    split_scientific(&format!("{value:e}"))
}

/// Splits `d.ddde±x` into all its digits and the exponent of the last one.
fn split_scientific(text: &str) -> (u64, i32) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let fraction_length = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len() as i32);
    let digits = mantissa
        .bytes()
        .filter(u8::is_ascii_digit)
        .fold(0, |value, byte| value * 10 + u64::from(byte - b'0'));
    (digits, exponent.parse::<i32>().unwrap_or(0) - fraction_length)
}

/// Prints `value` into `buffer` and returns the text.
pub fn format_f64(buffer: &mut [u8; FLOAT_TEXT_MAX], value: f64) -> &[u8] {
    let digits = if value.is_finite() && value != 0.0 { shortest_digits(value.abs()) } else { (0, 0) };
    lay_out(buffer, value, digits)
}

fn lay_out(buffer: &mut [u8; FLOAT_TEXT_MAX], value: f64, (digits, exponent): (u64, i32)) -> &[u8] {
    let mut text = Vec::with_capacity(FLOAT_TEXT_MAX);
    if value.is_sign_negative() {
        text.push(b'-');
    }
    let mut integer = [0; INTEGER_TEXT_MAX];
    let digits = format_u64(&mut integer, digits);
    let leading = exponent + digits.len() as i32 - 1;
    if value.is_nan() {
        text = b"nan".to_vec();
    } else if value.is_infinite() {
        text.extend_from_slice(b"inf");
    } else if !(-5..17).contains(&leading) {
        let (first, rest) = digits.split_at(1);
        text.extend_from_slice(first);
        if !rest.is_empty() {
            text.push(b'.');
            text.extend_from_slice(rest);
        }
        text.extend_from_slice(if leading < 0 { b"e-" } else { b"e+" });
        text.extend_from_slice(format_u64(&mut [0; INTEGER_TEXT_MAX], u64::from(leading.unsigned_abs())));
    } else if leading < 0 {
        text.extend_from_slice(b"0.");
        text.resize(text.len() + (-leading - 1) as usize, b'0');
        text.extend_from_slice(digits);
    } else if exponent >= 0 {
        text.extend_from_slice(digits);
        text.resize(text.len() + exponent as usize, b'0');
    } else {
        let (whole, fraction) = digits.split_at((leading + 1) as usize);
        text.extend_from_slice(whole);
        text.push(b'.');
        text.extend_from_slice(fraction);
    }
    let length = text.len().min(FLOAT_TEXT_MAX);
    buffer[..length].copy_from_slice(&text[..length]);
    &buffer[..length]
}

/// Appends the shortest text of `value` to `out`.
#[inline]
pub fn write_f64(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(format_f64(&mut [0; FLOAT_TEXT_MAX], value));
}

/// Appends the shortest text of `value` to `out`; shortest among floats, so `0.1` and not the double's digits.
#[inline]
pub fn write_f32(out: &mut Vec<u8>, value: f32) {
    let digits = if value.is_finite() && value != 0.0 {
        split_scientific(&format!("{:e}", value.abs()))
    } else {
        (0, 0)
    };
    out.extend_from_slice(lay_out(&mut [0; FLOAT_TEXT_MAX], f64::from(value), digits));
}

/// Appends `value` with exactly `decimals` digits after the point, rounded from the exact value, ties to even.
///
/// This is what GEODIST (4 decimals) and the ratios of INFO (2 decimals) print. Costs as much as the text is long.
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
}
