//! Values as the module prints them.

use mantissa_number::FloatText;
use mantissa_protocol::Reply;

/// The highest power of ten that is printed with zeros at its end.
const PLAIN_EXPONENT_MAX: usize = 15;

/// Writes a value: in RESP3 a double, else a simple string of its shortest digits.
pub(super) fn write_value(reply: &mut Reply, value: f64) {
    if reply.is_resp3() {
        return reply.double(value);
    }
    // Between these the usual text is the same.
    if (1.0..1e15).contains(&value.abs()) {
        return reply.simple(mantissa_number::format_f64(&mut FloatText::default(), value));
    }
    reply.simple(&text_of(value));
}

/// The shortest digits that stand for the value; without an exponent where there are digits up to the point.
fn text_of(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-Infinity" } else { "Infinity" }.to_owned();
    }
    let text = format!("{value:E}");
    let (mantissa, exponent) = text.split_once('E').unwrap_or((&text, "0"));
    let Some(exponent) = exponent.parse::<usize>().ok() else { return text };
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let count = digits.len();
    if count > exponent + 1 {
        format!("{sign}{}.{}", &digits[..=exponent], &digits[exponent + 1..])
    } else if exponent <= PLAIN_EXPONENT_MAX || count == exponent + 1 {
        format!("{sign}{digits}{}", "0".repeat(exponent + 1 - count))
    } else {
        text
    }
}

/// The number that a text begins with, as the module reads it: what may follow a number of JSON is passed
/// over.
pub(super) fn value_of(text: &[u8]) -> Option<f64> {
    let digits_from = |at: usize| text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let start = usize::from(text.first() == Some(&b'-'));
    let whole = digits_from(start);
    let mut end = start + if text.get(start) == Some(&b'0') { 1 } else { whole };
    if whole == 0 || whole > 1 && text[start] == b'0' {
        return None;
    }
    if text.get(end) == Some(&b'.') {
        let count = digits_from(end + 1);
        if count == 0 {
            return None;
        }
        end += 1 + count;
    }
    if text.get(end).is_some_and(|byte| matches!(byte, b'e' | b'E')) {
        let sign = usize::from(text.get(end + 1).is_some_and(|byte| matches!(byte, b'+' | b'-')));
        let count = digits_from(end + 1 + sign);
        if count == 0 {
            return None;
        }
        end += 1 + sign + count;
    }
    mantissa_number::parse_f64(&text[..end]).filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_text_of_the_module() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.5, "5E-1"),
            (0.012, "1.2E-2"),
            (1e15, "1000000000000000"),
            (1.2e15, "1200000000000000"),
            (1e16, "1E16"),
            (1.2e16, "1.2E16"),
            (12345678901234568.0, "12345678901234568"),
            (1.2345678901234568e17, "1.2345678901234568E17"),
            (1.234567890123456e16, "1.234567890123456E16"),
            (-12345.678, "-12345.678"),
            (5e-324, "5E-324"),
            (f64::NAN, "NaN"),
            (99.99, "99.99"),
        ] {
            assert_eq!(text_of(value), text);
            let mut reply = Reply::new(mantissa_protocol::Protocol::Resp2);
            write_value(&mut reply, value);
            assert_eq!(reply.as_bytes(), format!("+{text}\r\n").as_bytes());
        }
    }

    #[test]
    fn numbers_are_read_as_the_module_reads_them() {
        for (text, value) in [
            ("1.5", Some(1.5)),
            ("-0.25e2x", Some(-25.0)),
            ("0x10", Some(0.0)),
            ("1 ", Some(1.0)),
            ("+1", None),
            (".5", None),
            ("5.", None),
            ("1e", None),
            ("", None),
            ("-", None),
            ("1e400", None),
            ("nan", None),
        ] {
            assert_eq!(value_of(text.as_bytes()), value, "{text}");
        }
    }
}
