//! Doubles and floats, read and printed.
//!
//! Reading takes the general decimal format of C++17's `from_chars` with an optional sign of either kind in front, and
//! `inf`, `infinity` and `nan` in any case. It is correctly rounded (to nearest, ties to even) for every input, however long;
//! what is too large becomes an infinity and what is too small a zero.
//!
//! Printing gives the shortest digits that read back as the same value, and among those the closest. Values from 1e-5 up
//! to 1e17 are laid out in place (`0.00001`, `12.5`, `3`), others with an exponent (`1.5e-7`, `1e+20`).

use crate::header;

/// The bytes that a buffer for the text of a double has; the text itself takes at most 25.
pub const FLOAT_TEXT_MAX: usize = header::FLOAT_BUFFER;

/// Reads the whole input as a double; `None` if it is not a number.
#[inline]
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    header::parse_f64(text)
}

/// Reads the whole input as a float, rounded once from the decimal text; `None` if it is not a number.
#[inline]
pub fn parse_f32(text: &[u8]) -> Option<f32> {
    header::parse_f32(text)
}

/// Prints `value` into `buffer` and returns the text.
#[inline]
pub fn format_f64(buffer: &mut [u8; FLOAT_TEXT_MAX], value: f64) -> &[u8] {
    header::format_f64(buffer, value)
}

/// Prints `value` into `buffer` and returns the text: the shortest among floats, so `0.1` and not the double's digits.
#[inline]
pub fn format_f32(buffer: &mut [u8; FLOAT_TEXT_MAX], value: f32) -> &[u8] {
    header::format_f32(buffer, value)
}

/// Appends the shortest text of `value` to `out`.
#[inline]
pub fn write_f64(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(format_f64(&mut [0; FLOAT_TEXT_MAX], value));
}

/// Appends the shortest text of `value` to `out`; shortest among floats.
#[inline]
pub fn write_f32(out: &mut Vec<u8>, value: f32) {
    out.extend_from_slice(format_f32(&mut [0; FLOAT_TEXT_MAX], value));
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
