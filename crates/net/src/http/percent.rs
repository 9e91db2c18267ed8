//! Percent-encoding, as RFC 3986 has it.

/// Decodes a part of a path or query. Nothing if a percent sign is followed by other than two hexadecimal
/// digits. `plus_is_space` is true for queries.
///
/// Runs of bytes that stand for themselves are found eight at a time and copied as a whole.
pub fn decode(text: &[u8], plus_is_space: bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        let plain = plain_len(rest, plus_is_space);
        out.extend_from_slice(&rest[..plain]);
        match &rest[plain..] {
            [] => return Some(out),
            [b'+', tail @ ..] => {
                out.push(b' ');
                rest = tail;
            }
            [_, high, low, tail @ ..] => {
                out.push(digit(*high)? << 4 | digit(*low)?);
                rest = tail;
            }
            _ => return None,
        }
    }
}

/// The number of bytes before the first one that stands for another.
fn plain_len(text: &[u8], plus_is_space: bool) -> usize {
    let other = if plus_is_space { b'+' } else { b'%' };
    let is_special = |byte: u8| byte == b'%' || byte == other;
    let words = text.chunks_exact(8);
    let mut at = 0;
    for word in words {
        let bytes = u64::from_le_bytes(word.try_into().unwrap_or_default());
        let found = zero_bytes(bytes ^ repeat(b'%')) | zero_bytes(bytes ^ repeat(other));
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + text[at..].iter().position(|&byte| is_special(byte)).unwrap_or(text.len() - at)
}

const fn repeat(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Sets the high bit of each byte that is zero; of the bytes above the first of them it may err.
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(repeat(1)) & !word & repeat(0x80)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_decoded() {
        for (text, plain) in [
            ("", &b""[..]),
            ("key", b"key"),
            ("a%20b%2Fc%2fd", b"a b/c/d"),
            ("%00%ff", b"\0\xff"),
            ("long-enough-for-words%3A+and%25", b"long-enough-for-words:+and%"),
        ] {
            assert_eq!(decode(text.as_bytes(), false).as_deref(), Some(plain), "{text}");
        }
        assert_eq!(decode(b"a+b%2B", true).as_deref(), Some(&b"a b+"[..]));
        for text in ["%", "%1", "%g0", "%0g", "a%%20", "%+1", "12345678%"] {
            assert_eq!(decode(text.as_bytes(), false), None, "{text}");
        }
    }

    #[test]
    fn every_byte_survives_at_every_place() {
        for shift in 0..17 {
            for byte in 0..=255_u8 {
                let mut text = vec![b'x'; shift];
                text.extend_from_slice(format!("%{byte:02X}tail").as_bytes());
                let mut plain = vec![b'x'; shift];
                plain.push(byte);
                plain.extend_from_slice(b"tail");
                assert_eq!(decode(&text, true), Some(plain));
            }
        }
    }
}
