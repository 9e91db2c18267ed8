//! The grammar of a decimal number, scanned once for the readers that need its parts.

/// The parts of a decimal number: its value is `digits` (the integer made of the integer and fraction
/// digits) times ten to the `exponent`.
pub(crate) struct DecimalParts<'a> {
    /// Whether a minus stands in front.
    pub negative: bool,
    /// The digits before the point.
    pub integer: &'a [u8],
    /// The digits after the point.
    pub fraction: &'a [u8],
    /// The exponent as written, held within plus and minus 2^40.
    pub written_exponent: i64,
}

/// What a text says.
pub(crate) enum Scanned<'a> {
    /// A decimal number.
    Decimal(DecimalParts<'a>),
    /// `inf` or `infinity`, in any case; `true` if negative.
    Infinity(bool),
    /// A hexadecimal number: the sign, and what follows `0x`.
    Hexadecimal(bool, &'a [u8]),
}

const EXPONENT_BOUND: i64 = 1 << 40;

/// Splits a sign off: whether it is a minus, and the rest.
pub(crate) fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    }
}

fn split_digits(text: &[u8], is_digit: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|&byte| !is_digit(byte)).unwrap_or(text.len()))
}

/// Reads an optional exponent that starts with `letter` (lower case) and takes the whole rest.
fn scan_exponent(text: &[u8], letter: u8) -> Option<i64> {
    let Some((&first, rest)) = text.split_first() else { return Some(0) };
    if first | 0x20 != letter {
        return None;
    }
    let (negative, digits) = split_sign(rest);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude =
        digits.iter().fold(0i64, |value, &byte| (value * 10 + i64::from(byte - b'0')).min(EXPONENT_BOUND));
    Some(if negative { -magnitude } else { magnitude })
}

/// Scans the whole text; `None` if it is not a number (a NaN is not one).
pub(crate) fn scan(text: &[u8]) -> Option<Scanned<'_>> {
    let (negative, rest) = split_sign(text);
    if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
        return Some(Scanned::Infinity(negative));
    }
    if let [b'0', b'x' | b'X', hexadecimal @ ..] = rest {
        return Some(Scanned::Hexadecimal(negative, hexadecimal));
    }
    let (integer, rest) = split_digits(rest, |byte| byte.is_ascii_digit());
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => split_digits(rest, |byte| byte.is_ascii_digit()),
        rest => (&rest[..0], rest),
    };
    if integer.is_empty() && fraction.is_empty() {
        return None;
    }
    let written_exponent = scan_exponent(rest, b'e')?;
    Some(Scanned::Decimal(DecimalParts { negative, integer, fraction, written_exponent }))
}

/// A hexadecimal number as `significand` times two to the `exponent`, and whether non-zero bits were
/// dropped below.
pub(crate) struct HexadecimalParts {
    pub significand: u128,
    pub exponent: i64,
    pub inexact: bool,
}

/// Scans what follows `0x`: hexadecimal digits with at most one point, then an optional binary exponent.
pub(crate) fn scan_hexadecimal(text: &[u8]) -> Option<HexadecimalParts> {
    let (integer, rest) = split_digits(text, |byte| byte.is_ascii_hexdigit());
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => split_digits(rest, |byte| byte.is_ascii_hexdigit()),
        rest => (&rest[..0], rest),
    };
    if integer.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut parts = HexadecimalParts { significand: 0, exponent: scan_exponent(rest, b'p')?, inexact: false };
    parts.exponent -= 4 * fraction.len() as i64;
    for &byte in integer.iter().chain(fraction) {
        let digit = u128::from((byte as char).to_digit(16)?);
        if parts.significand >> 124 == 0 {
            parts.significand = parts.significand << 4 | digit;
        } else {
            parts.inexact |= digit != 0;
            parts.exponent += 4;
        }
    }
    Some(parts)
}

impl DecimalParts<'_> {
    /// Whether every digit is a zero.
    pub fn is_zero(&self) -> bool {
        self.integer.iter().chain(self.fraction).all(|&byte| byte == b'0')
    }
}
