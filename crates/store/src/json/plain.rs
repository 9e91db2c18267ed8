//! Strings are looked through and copied in one pass, 16 bytes at a time.

/// Bytes of one step.
pub(super) const STEP: usize = 16;

/// What the first bytes of a step are.
#[derive(Clone, Copy)]
pub(super) struct Look {
    /// How many come before one that ends a string or needs an escape: a quote, a backslash, a control
    /// character.
    pub plain: usize,
    /// Whether one of these is beyond ASCII.
    pub is_beyond_ascii: bool,
}

/// Looks at a step.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn look(chunk: &[u8; STEP]) -> Look {
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

/// Looks at a step.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) fn look(chunk: &[u8; STEP]) -> Look {
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

/// Appends the first `count` bytes of `chunk`, at most all, by one store of its size.
#[inline(always)]
pub(super) fn push<const N: usize>(out: &mut Vec<u8>, chunk: &[u8; N], count: usize) {
    out.reserve(N);
    // SAFETY: the spare room has N bytes at least, all of which the chunk writes; no more of them count.
    unsafe {
        let len = out.len();
        out.as_mut_ptr().add(len).cast::<[u8; N]>().write_unaligned(*chunk);
        out.set_len(len + count.min(N));
    }
}

/// Appends `before`, the first `count` bytes of `chunk`, at most all, and `behind`.
#[inline(always)]
pub(super) fn push_between<const N: usize>(
    out: &mut Vec<u8>,
    before: u8,
    (chunk, count): (&[u8; N], usize),
    behind: [u8; 2],
) {
    let count = count.min(N);
    out.reserve(N + 3);
    // SAFETY: the spare room has N + 3 bytes at least. The first 1 + N of them are written, and then the two
    // from 1 + `count` on, so all that count are.
    unsafe {
        let len = out.len();
        let to = out.as_mut_ptr().add(len);
        to.write(before);
        to.add(1).cast::<[u8; N]>().write_unaligned(*chunk);
        to.add(1 + count).cast::<[u8; 2]>().write_unaligned(behind);
        out.set_len(len + 3 + count);
    }
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
        push(out, chunk, count);
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
