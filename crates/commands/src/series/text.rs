//! Values as the module prints them.

use mantissa_number::FloatText;
use mantissa_protocol::Reply;
use mantissa_store::series::Sample;

/// The highest power of ten that is printed with zeros at its end.
const PLAIN_EXPONENT_MAX: usize = 15;

/// Writes a value: in RESP3 a double, else a simple string of its shortest digits.
pub(super) fn write_value(reply: &mut Reply, value: f64) {
    if reply.is_resp3() {
        return reply.double(value);
    }
    if PLAIN.contains(&value.abs()) {
        return reply.simple(mantissa_number::format_f64(&mut FloatText::default(), value));
    }
    if value == 0.0 {
        return reply.simple(if value.is_sign_negative() { "-0" } else { "0" });
    }
    match write_fraction(reply, value) {
        Some(()) => {}
        None => reply.simple(&text_of(value)),
    }
}

/// Writes a value below 1 whose usual text has no exponent, such as 0.012, which the module prints as 1.2E-2.
/// `None` if it is another one.
fn write_fraction(reply: &mut Reply, value: f64) -> Option<()> {
    const ROOM: usize = mantissa_number::FLOAT_TEXT_MAX + 8;
    let mut buffer = FloatText::default();
    let text = mantissa_number::format_f64(&mut buffer, value).as_bytes();
    let (sign, text) = match text.strip_prefix(b"-") {
        Some(rest) => (&b"-"[..], rest),
        None => (&b""[..], text),
    };
    let decimals = text.strip_prefix(b"0.").filter(|text| text.iter().all(u8::is_ascii_digit))?;
    let zeros = decimals.iter().take_while(|&&digit| digit == b'0').count();
    let (first, others) = decimals[zeros..].split_first()?;
    let (point, exponent) = (if others.is_empty() { &b""[..] } else { b"." }, zeros + 1);
    let exponent = [b'0' + (exponent / 10) as u8, b'0' + (exponent % 10) as u8];
    let exponent = if zeros + 1 < 10 { &exponent[1..] } else { &exponent };
    let (mut row, mut len) = ([0; ROOM], 0);
    for part in [b"+", sign, &[*first], point, others, b"E-", exponent, b"\r\n"] {
        row.get_mut(len..len + part.len())?.copy_from_slice(part);
        len += part.len();
    }
    reply.raw_start(&row, len);
    Some(())
}

/// Writes samples one after the other. Times of ten seconds have the same first digits, which are kept.
pub(super) struct Rows {
    /// All digits of the latest time but the last ones, which rows begin with.
    head: u64,
    head_end: usize,
    /// What a row begins with.
    text: [u8; ROW_BYTES],
}

/// Digits at the end of a time that are written anew for each.
const TAIL: u64 = 10_000;
const ROW_START: &[u8; 5] = b"*2\r\n:";
/// Of a time of 19 digits, and what printing a value may write to.
const ROW_BYTES: usize = 80;
const _: () = assert!(ROW_START.len() + 19 + 3 + mantissa_number::FLOAT_TEXT_MAX + 8 <= ROW_BYTES);
/// Values whose text is the usual one.
const PLAIN: std::ops::Range<f64> = 1.0..1e15;
/// Values whose text has an exponent from -1 to -4.
const FRACTIONS: std::ops::Range<f64> = 1e-4..1.0;
/// The numbers below 100 as two digits.
const PAIRS: [[u8; 2]; 100] = {
    let (mut pairs, mut number) = ([[0; 2]; 100], 0);
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

impl Rows {
    pub(super) fn new() -> Self {
        let mut text = [0; ROW_BYTES];
        text[..ROW_START.len()].copy_from_slice(ROW_START);
        Rows { head: 0, head_end: 0, text }
    }

    /// Writes a time and its value.
    #[inline]
    pub(super) fn write(&mut self, reply: &mut Reply, sample: Sample) {
        let Sample { time, value } = sample;
        let (head, tail) = (time / TAIL, (time % TAIL) as usize);
        let is_plain = PLAIN.contains(&value.abs()) || value.to_bits() == 0;
        let is_usual = (is_plain || FRACTIONS.contains(&value)) && head > 0;
        if reply.is_resp3() || !is_usual || i64::try_from(time).is_err() {
            return super::write_sample(reply, sample);
        }
        if head != self.head {
            self.set_head(head);
        }
        let ([a, b], [c, d]) = (PAIRS[tail / 100], PAIRS[tail % 100]);
        let (at, time) = (self.head_end, [a, b, c, d, b'\r', b'\n', b'+']);
        reply.raw_edited(&self.text, |row| {
            let end =
                if is_plain { print(row, at + time.len(), value) } else { print_fraction(row, at, value) };
            row[at..at + time.len()].copy_from_slice(&time);
            end
        });
    }

    #[cold]
    fn set_head(&mut self, head: u64) {
        let mut buffer = [0; mantissa_number::INTEGER_TEXT_MAX];
        let text = mantissa_number::format_u64(&mut buffer, head);
        self.head_end = ROW_START.len() + text.len();
        self.text[ROW_START.len()..self.head_end].copy_from_slice(text);
        self.head = head;
    }
}

/// Prints a value and the end of a line, and returns where that ends.
#[inline]
fn print(row: &mut [u8; ROW_BYTES], at: usize, value: f64) -> usize {
    let Some(place) = row[at..].first_chunk_mut() else { return 0 };
    let end = at + mantissa_number::print_f64(place, value);
    row[end..end + 2].copy_from_slice(b"\r\n");
    end + 2
}

/// The same of one of [`FRACTIONS`], behind the seven bytes from `at` on, which may change.
#[inline]
fn print_fraction(row: &mut [u8; ROW_BYTES], at: usize, value: f64) -> usize {
    let zeros = usize::from(value < 0.1) + usize::from(value < 0.01) + usize::from(value < 0.001);
    // Of 0.0123 the digits behind the zeros stay where they are.
    let start = at + 6 - zeros;
    let Some(place) = row[start..].first_chunk_mut() else { return 0 };
    let end = start + mantissa_number::print_f64(place, value);
    // A single digit has no point behind it.
    let end = end - usize::from(end == at + 9);
    row[at + 7] = row[at + 8];
    row[at + 8] = b'.';
    row[end..end + 5].copy_from_slice(&[b'E', b'-', b'1' + zeros as u8, b'\r', b'\n']);
    end + 5
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
#[inline]
pub(super) fn value_of(text: &[u8]) -> Option<f64> {
    short_decimal(text).or_else(|| longer_value_of(text))
}

#[inline(never)]
fn longer_value_of(text: &[u8]) -> Option<f64> {
    decimal(text).or_else(|| long_value_of(text))
}

/// The same of a text that is nothing but up to 15 digits, with a point or without, as most are: both the
/// integer of the digits and the power of ten are exact, so their quotient is rounded once.
#[inline]
fn short_decimal(text: &[u8]) -> Option<f64> {
    const LEN_MAX: usize = 15;
    const POWERS: [f64; 16] =
        [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let (is_negative, digits) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        _ => (false, text),
    };
    // Zeros before other digits end a number, and the point stands between digits.
    let starts_well = match digits {
        [b'0', rest @ ..] => matches!(rest, [] | [b'.', ..]),
        [first, ..] => first.is_ascii_digit(),
        [] => false,
    };
    if !starts_well || digits.len() > LEN_MAX || !digits.last()?.is_ascii_digit() {
        return None;
    }
    let (mut integer, mut point) = (0_u64, None);
    for (index, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => integer = 10 * integer + u64::from(byte - b'0'),
            b'.' if point.is_none() => point = Some(digits.len() - 1 - index),
            _ => return None,
        }
    }
    let value = integer as f64 / POWERS[point.unwrap_or(0)];
    Some(if is_negative { -value } else { value })
}

/// The same of a longer text of digits, with a point or without.
#[inline]
fn decimal(text: &[u8]) -> Option<f64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    // Zeros before other digits end a number, and the point stands between digits.
    let starts_well = match digits {
        [b'0', rest @ ..] => matches!(rest, [] | [b'.', ..]),
        [first, ..] => first.is_ascii_digit(),
        [] => false,
    };
    if !starts_well || !digits.last()?.is_ascii_digit() || has_letters(digits) {
        return None;
    }
    // A sign among the digits is no number without a letter before it.
    mantissa_number::parse_f64(text).filter(|value| value.is_finite())
}

/// Whether there are bytes above the digits.
#[inline]
fn has_letters(text: &[u8]) -> bool {
    const SIZE: usize = size_of::<u64>();
    /// What lifts the first byte above the digits to 0x80.
    const LIFT: u64 = 0x4646_4646_4646_4646;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let lifted = |bytes: [u8; SIZE]| {
        let word = u64::from_ne_bytes(bytes);
        ((word & !HIGH) + LIFT) | word
    };
    let Some(last) = text.last_chunk() else { return text.iter().any(|&byte| byte > b'9') };
    let words = text.as_chunks::<SIZE>().0.iter();
    words.fold(lifted(*last), |all, &bytes| all | lifted(bytes)) & HIGH != 0
}

fn long_value_of(text: &[u8]) -> Option<f64> {
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

/// The value of a sample: such a number, or NaN.
pub(super) fn number_of(text: &[u8]) -> Option<f64> {
    if text.eq_ignore_ascii_case(b"nan") { Some(f64::NAN) } else { value_of(text) }
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
    fn fractions_have_the_text_of_all_values() {
        let mut random = 1_u64;
        for step in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let value = match step % 3 {
                0 => (random >> 11) as f64 / (1_u64 << 53) as f64,
                1 => -((random >> 50) as f64) / [1e4, 1e7, 1e12, 1e20][step / 3 % 4],
                _ => f64::from_bits(random >> 2),
            };
            let mut reply = Reply::new(mantissa_protocol::Protocol::Resp2);
            write_value(&mut reply, value);
            let wanted = format!("+{}\r\n", text_of(value));
            assert_eq!(String::from_utf8_lossy(reply.as_bytes()), wanted);
        }
    }

    #[test]
    fn rows_are_samples() {
        let mut random = 1_u64;
        let (mut rows, mut time) = (Rows::new(), 0_u64);
        let [mut found, mut wanted] = [0, 0].map(|_| Reply::new(mantissa_protocol::Protocol::Resp2));
        for step in 0..2000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            time = time.saturating_add(random >> (63 - step % 60));
            let value = match step % 4 {
                0 => (random >> 11) as f64 / (1_u64 << 53) as f64,
                1 => (random >> 60) as f64 / [10.0, 100.0, 1000.0, 1e4, 1e5][step / 4 % 5],
                _ => (random >> 40) as f64 / 100.0,
            };
            let sample = Sample { time, value };
            rows.write(&mut found, sample);
            super::super::write_sample(&mut wanted, sample);
        }
        assert_eq!(found.as_bytes(), wanted.as_bytes());
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

    #[test]
    fn short_decimals_are_read_as_all_numbers() {
        let mut random = 1_u64;
        let letters = b"0123456789..-e";
        for _ in 0..200_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mut rest = random >> 8;
            let mut text = Vec::new();
            for _ in 0..random >> 59 {
                text.push(letters[(rest % letters.len() as u64) as usize]);
                rest /= letters.len() as u64;
            }
            let wanted = long_value_of(&text).map(f64::to_bits);
            for found in [short_decimal(&text), decimal(&text)] {
                let is_wanted = found.is_none() || found.map(f64::to_bits) == wanted;
                assert!(is_wanted, "{}", String::from_utf8_lossy(&text));
            }
        }
        for text in ["-0", "0.1", "1234567890.1234", "-7", "123456789012345", "0.00000000001"] {
            let found = short_decimal(text.as_bytes()).map(f64::to_bits);
            assert_eq!(found, text.parse().ok().map(f64::to_bits), "{text}");
        }
    }
}
