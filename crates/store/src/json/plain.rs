//! Strings are looked through and copied in one pass, 16 bytes at a time.

/// Bytes of one step.
const STEP: usize = 16;

/// What the first bytes of a step are.
#[derive(Clone, Copy)]
struct Look {
    /// How many come before one that ends a string or needs an escape: a quote, a backslash, a control
    /// character.
    plain: usize,
    /// Whether one of these is beyond ASCII.
    is_beyond_ascii: bool,
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn look(chunk: &[u8; STEP]) -> Look {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    // SAFETY: SSE2 is part of x86-64, and the load reads the 16 bytes of the chunk.
    let (special, high) = unsafe {
        let bytes = _mm_loadu_si128(chunk.as_ptr().cast());
        let quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"'.cast_signed()));
        let escapes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\'.cast_signed()));
        let controls = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        let special = _mm_or_si128(_mm_or_si128(quotes, escapes), controls);
        (_mm_movemask_epi8(special).cast_unsigned(), _mm_movemask_epi8(bytes).cast_unsigned())
    };
    let end = special | 1 << STEP;
    Look { plain: end.trailing_zeros() as usize, is_beyond_ascii: high & (end - 1) & !end != 0 }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn look(chunk: &[u8; STEP]) -> Look {
    const ONES: u128 = u128::MAX / 0xff;
    const TOPS: u128 = ONES << 7;
    let bytes = u128::from_le_bytes(*chunk);
    // A borrow marks bytes above the first that is special wrongly, never one below it.
    let zero_bytes = |word: u128| word.wrapping_sub(ONES) & !word & TOPS;
    let controls = bytes.wrapping_sub(ONES * 0x20) & !bytes & TOPS;
    let (quotes, escapes) = (zero_bytes(bytes ^ (ONES * 0x22)), zero_bytes(bytes ^ (ONES * 0x5c)));
    let special = quotes | escapes | controls;
    let plain = special.trailing_zeros() as usize / 8;
    let before = 1_u128.checked_shl(8 * plain as u32).unwrap_or(0).wrapping_sub(1);
    Look { plain, is_beyond_ascii: bytes & TOPS & before != 0 }
}

/// Appends `bytes[at..end]` up to a byte that ends a string or needs an escape: a quote, a backslash, a
/// control character. Returns where that stands, or `end`, and whether a byte before it is beyond ASCII.
/// Bytes behind `end` may be read.
#[inline(always)]
pub(super) fn append(bytes: &[u8], mut at: usize, end: usize, out: &mut Vec<u8>) -> (usize, bool) {
    let mut is_beyond_ascii = false;
    while at < end {
        let Some(chunk) = bytes[at..].first_chunk::<STEP>() else {
            return append_rest(&bytes[..end], at, out, is_beyond_ascii);
        };
        let look = look(chunk);
        let count = look.plain.min(end - at);
        out.reserve(STEP);
        // SAFETY: the spare room has 16 bytes at least, all of which the chunk writes; `count` is no more.
        unsafe {
            let len = out.len();
            out.as_mut_ptr().add(len).cast::<[u8; STEP]>().write_unaligned(*chunk);
            out.set_len(len + count);
        }
        is_beyond_ascii |= look.is_beyond_ascii;
        at += count;
        if count < STEP {
            break;
        }
    }
    (at, is_beyond_ascii)
}

/// The same where fewer than 16 bytes can be read.
#[cold]
fn append_rest(bytes: &[u8], at: usize, out: &mut Vec<u8>, mut is_beyond_ascii: bool) -> (usize, bool) {
    let rest = &bytes[at..];
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..0x20);
    let plain = rest.iter().position(is_special).unwrap_or(rest.len());
    out.extend_from_slice(&rest[..plain]);
    is_beyond_ascii |= !rest[..plain].is_ascii();
    (at + plain, is_beyond_ascii)
}

#[cfg(test)]
mod tests {
    use super::append;

    /// What [`append`] is to do.
    fn model(bytes: &[u8], at: usize, end: usize) -> (Vec<u8>, usize, bool) {
        let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..0x20);
        let plain = bytes[at..end].iter().position(is_special).unwrap_or(end - at);
        let copied = bytes[at..at + plain].to_vec();
        let is_beyond_ascii = !copied.is_ascii();
        (copied, at + plain, is_beyond_ascii)
    }

    #[test]
    fn every_byte_in_every_place_is_told_apart() {
        for byte in 0..=u8::MAX {
            for place in 0..40 {
                let mut bytes = vec![b'a'; 40];
                bytes[place] = byte;
                for (at, end) in [(0, 40), (1, 39), (0, 17), (20, 40), (3, 19), (7, 8), (9, 9)] {
                    let mut out = vec![1, 2, 3];
                    let (stopped, is_beyond_ascii) = append(&bytes, at, end, &mut out);
                    let (copied, expected, is_expected) = model(&bytes, at, end);
                    let context = format!("{byte} at {place} in {at}..{end}");
                    assert_eq!((&out[3..], stopped), (copied.as_slice(), expected), "{context}");
                    // What stands behind `end` may count.
                    assert!(is_beyond_ascii || !is_expected, "{context}");
                    assert!(is_expected || !is_beyond_ascii || place >= end, "{context}");
                }
            }
        }
    }
}
