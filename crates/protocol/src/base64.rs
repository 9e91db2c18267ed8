//! Base64 with padding, as RFC 4648 has it.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends bytes to a text.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len().div_ceil(3) * 4);
    let letter = |bits: u32| LETTERS[(bits & 63) as usize];
    for group in bytes.chunks(3) {
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        let letters = [letter(bits >> 18), letter(bits >> 12), letter(bits >> 6), letter(bits)];
        out.extend_from_slice(&letters[..=group.len()]);
        out.extend_from_slice(&b"=="[..3 - group.len()]);
    }
}

/// The bytes of a text. Nothing if it is none, or has bits that stand for nothing.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take(2).take_while(|&&byte| byte == b'=').count();
    let letters = &text[..text.len() - padding];
    let (mut out, mut bits, mut count) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0);
    for &byte in letters {
        let value = LETTERS.iter().position(|&letter| letter == byte)?;
        (bits, count) = (bits << 6 | value as u32, count + 6);
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    (bits == 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_agree_with_the_standard() {
        let examples = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
        ];
        for (plain, text) in examples {
            let mut out = Vec::new();
            encode(plain.as_bytes(), &mut out);
            assert_eq!((&out[..], decode(text.as_bytes())), (text.as_bytes(), Some(plain.into())));
        }
        let all: Vec<u8> = (0..=255).collect();
        let mut text = Vec::new();
        encode(&all, &mut text);
        assert_eq!(decode(&text), Some(all));
        for text in ["Z", "Zg", "Zg=", "Zh==", "Z===", "====", "Zg==Zg==", "Z g=", "Zm9*"] {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }
}
