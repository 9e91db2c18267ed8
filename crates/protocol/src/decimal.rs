//! Lengths and integers as the protocol writes them: decimal, with no sign but `-`, no leading zeros, no spaces.

/// The most bytes that an `i64` takes in decimal.
pub(crate) const INTEGER_SIZE_MAX: usize = 20;

/// Parses all of `text`. `None` if it is empty, out of range, or not in the one form that Redis accepts:
/// `0`, or an optional `-` followed by digits of which the first is not zero.
pub(crate) fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [] => return None,
        [b'0'] => return if negative { None } else { Some(0) },
        [b'0', ..] => return None,
        _ if digits.len() >= INTEGER_SIZE_MAX => return None,
        _ => {}
    }
    let mut magnitude: u64 = 0;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // Nineteen digits stay below 2^64.
        magnitude = magnitude * 10 + u64::from(digit);
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// The decimal text of a number, held in place.
pub(crate) struct Digits {
    bytes: [u8; INTEGER_SIZE_MAX],
    start: usize,
}

impl Digits {
    /// The text of `value`.
    pub(crate) fn new(value: i64) -> Self {
        let mut digits = Self::unsigned(value.unsigned_abs());
        if value < 0 {
            digits.start -= 1;
            digits.bytes[digits.start] = b'-';
        }
        digits
    }

    /// The text of `value`.
    pub(crate) fn unsigned(mut value: u64) -> Self {
        let mut bytes = [0; INTEGER_SIZE_MAX];
        let mut start = INTEGER_SIZE_MAX;
        loop {
            start -= 1;
            bytes[start] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                return Digits { bytes, start };
            }
        }
    }

    /// The text.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_form() {
        for value in [0, 1, -1, 9, 10, -10, 99, 100, i64::MAX, i64::MIN, 1 << 53] {
            let text = value.to_string();
            assert_eq!(parse_integer(text.as_bytes()), Some(value));
            assert_eq!(Digits::new(value).as_bytes(), text.as_bytes());
        }
        assert_eq!(Digits::unsigned(u64::MAX).as_bytes(), u64::MAX.to_string().as_bytes());
        let wrong = ["", "-", "+1", "01", "-0", "-01", "00", " 1", "1 ", "1a", "9223372036854775808"];
        for text in wrong.iter().chain(&["-9223372036854775809", "99999999999999999999", "\u{0}"]) {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
        }
    }
}
