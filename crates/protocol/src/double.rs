//! Doubles as a client reads them.

use mantissa_number::parse_f64;

/// The double that all of `text` stands for: `inf`, `-inf`, `nan` or `-nan` in any case, or a finite decimal
/// number with an optional sign, fraction and exponent. No spaces, no hexadecimal, and nothing that
/// overflows.
pub fn parse_double(text: &[u8]) -> Option<f64> {
    let (negative, magnitude) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let special = if magnitude.eq_ignore_ascii_case(b"inf") {
        f64::INFINITY
    } else if magnitude.eq_ignore_ascii_case(b"nan") {
        f64::NAN
    } else {
        return parse_finite(text);
    };
    Some(if negative { -special } else { special })
}

fn parse_finite(text: &[u8]) -> Option<f64> {
    if !text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) {
        return None;
    }
    parse_f64(text).filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_parsed_strictly() {
        for (text, value) in
            [("3.25", 3.25), ("-0", -0.0), ("1e3", 1000.0), ("+1", 1.0), ("5", 5.0), ("1E-2", 0.01)]
        {
            let parsed = parse_double(text.as_bytes()).expect(text);
            assert_eq!(parsed.to_bits(), f64::to_bits(value), "{text}");
        }
        assert_eq!(parse_double(b"-inf"), Some(f64::NEG_INFINITY));
        assert_eq!(parse_double(b"Inf"), Some(f64::INFINITY));
        assert!(parse_double(b"nan").is_some_and(f64::is_nan));
        assert!(parse_double(b"-NaN").is_some_and(f64::is_nan));
        let wrong = [
            "", "-", " 1", "1 ", "0x10", "1\u{0}", "1e999", "-1e999", "infinity", "+inf", "1,5", "1.5.2",
            "e5",
        ];
        for text in wrong {
            assert_eq!(parse_double(text.as_bytes()), None, "{text:?}");
        }
    }
}
