//! Whether bytes are UTF-8.
//!
//! With AVX2 32 bytes are looked at together, and ASCII costs a test of its top bits: see "Validating UTF-8
//! in less than one instruction per byte" by Keiser and Lemire (2021), whose tables these are.

/// Shorter texts are left to the standard library.
#[cfg(target_arch = "x86_64")]
const SHORT: usize = 64;

/// Whether all of a text is UTF-8.
#[inline]
pub(super) fn is_valid(text: &[u8]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if text.len() >= SHORT && is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::is_valid(text) };
    }
    std::str::from_utf8(text).is_ok()
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    /// Bytes of a block.
    const BLOCK: usize = 32;

    // What two bytes next to each other may be, each a bit. They are in error if a bit is in the entries of
    // all three tables.
    /// A first byte, or ASCII, where a continuation is to follow.
    const TOO_SHORT: u8 = 1 << 0;
    /// A continuation behind ASCII.
    const TOO_LONG: u8 = 1 << 1;
    /// Three bytes for what two can have.
    const OVERLONG_3: u8 = 1 << 2;
    /// Beyond U+10FFFF.
    const TOO_LARGE: u8 = 1 << 3;
    const SURROGATE: u8 = 1 << 4;
    /// Two bytes for what one can have.
    const OVERLONG_2: u8 = 1 << 5;
    /// Beyond U+13FFFF.
    const TOO_LARGE_1000: u8 = 1 << 6;
    /// Four bytes for what three can have.
    const OVERLONG_4: u8 = 1 << 6;
    /// Two continuations: an error unless a longer sequence has come before.
    const TWO_CONTINUATIONS: u8 = 1 << 7;
    const CARRY: u8 = TOO_SHORT | TOO_LONG | TWO_CONTINUATIONS;

    /// By the upper four bits of the first byte.
    const FIRST_HIGH: [u8; 16] = [
        TOO_LONG,
        TOO_LONG,
        TOO_LONG,
        TOO_LONG,
        TOO_LONG,
        TOO_LONG,
        TOO_LONG,
        TOO_LONG,
        TWO_CONTINUATIONS,
        TWO_CONTINUATIONS,
        TWO_CONTINUATIONS,
        TWO_CONTINUATIONS,
        TOO_SHORT | OVERLONG_2,
        TOO_SHORT,
        TOO_SHORT | OVERLONG_3 | SURROGATE,
        TOO_SHORT | TOO_LARGE | TOO_LARGE_1000 | OVERLONG_4,
    ];
    /// By the lower four bits of the first byte.
    const FIRST_LOW: [u8; 16] = [
        CARRY | OVERLONG_3 | OVERLONG_2 | OVERLONG_4,
        CARRY | OVERLONG_2,
        CARRY,
        CARRY,
        CARRY | TOO_LARGE,
        CARRY | TOO_LARGE | TOO_LARGE_1000,
        CARRY | TOO_LARGE | TOO_LARGE_1000,
        CARRY | TOO_LARGE | TOO_LARGE_1000,
        CARRY | TOO_LARGE | TOO_LARGE_1000,
        CARRY | TOO_LARGE | TOO_LARGE_1000,
        CARRY | TOO_LARGE | TOO_LARGE_1000,
        CARRY | TOO_LARGE | TOO_LARGE_1000,
        CARRY | TOO_LARGE | TOO_LARGE_1000,
        CARRY | TOO_LARGE | TOO_LARGE_1000 | SURROGATE,
        CARRY | TOO_LARGE | TOO_LARGE_1000,
        CARRY | TOO_LARGE | TOO_LARGE_1000,
    ];
    const CONTINUATION: u8 = TOO_LONG | OVERLONG_2 | TWO_CONTINUATIONS;
    /// By the upper four bits of the second byte.
    const SECOND_HIGH: [u8; 16] = [
        TOO_SHORT,
        TOO_SHORT,
        TOO_SHORT,
        TOO_SHORT,
        TOO_SHORT,
        TOO_SHORT,
        TOO_SHORT,
        TOO_SHORT,
        CONTINUATION | OVERLONG_3 | TOO_LARGE_1000 | OVERLONG_4,
        CONTINUATION | OVERLONG_3 | TOO_LARGE,
        CONTINUATION | SURROGATE | TOO_LARGE,
        CONTINUATION | SURROGATE | TOO_LARGE,
        TOO_SHORT,
        TOO_SHORT,
        TOO_SHORT,
        TOO_SHORT,
    ];

    #[target_feature(enable = "avx2")]
    fn table(entries: &[u8; 16]) -> __m256i {
        // SAFETY: the load reads the 16 bytes.
        _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(entries.as_ptr().cast()) })
    }

    /// What is wrong in a block behind another: bytes that are not zero.
    #[target_feature(enable = "avx2")]
    fn errors(block: __m256i, before: __m256i) -> __m256i {
        let halves = _mm256_permute2x128_si256::<0x21>(before, block);
        let one_before = _mm256_alignr_epi8::<15>(block, halves);
        let two_before = _mm256_alignr_epi8::<14>(block, halves);
        let three_before = _mm256_alignr_epi8::<13>(block, halves);
        let low = _mm256_set1_epi8(0x0f);
        let high = |bytes| _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), low);
        let special = _mm256_and_si256(
            _mm256_and_si256(
                _mm256_shuffle_epi8(table(&FIRST_HIGH), high(one_before)),
                _mm256_shuffle_epi8(table(&FIRST_LOW), _mm256_and_si256(one_before, low)),
            ),
            _mm256_shuffle_epi8(table(&SECOND_HIGH), high(block)),
        );
        // The top bit of what has to be the third or fourth byte of a sequence.
        let third = _mm256_subs_epu8(two_before, _mm256_set1_epi8((0xe0_u8 - 0x80).cast_signed()));
        let fourth = _mm256_subs_epu8(three_before, _mm256_set1_epi8((0xf0_u8 - 0x80).cast_signed()));
        let later = _mm256_and_si256(_mm256_or_si256(third, fourth), _mm256_set1_epi8(i8::MIN));
        _mm256_xor_si256(later, special)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn is_valid(text: &[u8]) -> bool {
        let (blocks, rest) = text.as_chunks::<BLOCK>();
        let mut last = [0; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        let mut before = _mm256_setzero_si256();
        let mut wrong = before;
        let mut is_ascii_before = true;
        // Zeros behind the text end what it leaves open.
        for block in blocks.iter().chain([&last, &[0; BLOCK]]) {
            // SAFETY: the load reads the 32 bytes of the block.
            let block = unsafe { _mm256_loadu_si256(block.as_ptr().cast()) };
            let is_ascii = _mm256_movemask_epi8(block) == 0;
            if !(is_ascii && is_ascii_before) {
                wrong = _mm256_or_si256(wrong, errors(block, before));
            }
            (before, is_ascii_before) = (block, is_ascii);
        }
        _mm256_testz_si256(wrong, wrong) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::is_valid;
    use crate::test_random::Random;

    /// Sequences at the bounds of what is allowed, and beyond them.
    const PIECES: [&[u8]; 24] = [
        b"a",
        b"abcdefghijklmnopqrstuvwxyzabcdefghijklmnop",
        b"\x7f",
        b"\xc2\x80",
        b"\xdf\xbf",
        b"\xe0\xa0\x80",
        b"\xed\x9f\xbf",
        b"\xee\x80\x80",
        b"\xef\xbf\xbf",
        b"\xf0\x90\x80\x80",
        b"\xf4\x8f\xbf\xbf",
        b"\xf1\x80\x80\x80",
        b"\x80",
        b"\xbf",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xff",
        b"\xe2\x82",
        b"\xf0\x9f\x98",
    ];
    /// The first of these are UTF-8.
    const VALID: usize = 12;

    #[test]
    fn it_says_what_the_standard_library_says() {
        let mut random = Random::new(8);
        for round in 0..30_000 {
            let mut text = Vec::new();
            for _ in 0..random.below(40) {
                text.extend_from_slice(PIECES[random.below(VALID)]);
            }
            if round % 2 == 1 {
                let piece = PIECES[random.below(PIECES.len())];
                let at = random.below(text.len() + 1);
                text.splice(at..at, piece.iter().copied());
            }
            if round % 4 == 3 && !text.is_empty() {
                let at = random.below(text.len());
                text[at] = random.next() as u8;
            }
            if round % 5 == 4 {
                text.truncate(random.below(text.len() + 1));
            }
            assert_eq!(is_valid(&text), std::str::from_utf8(&text).is_ok(), "{text:x?}");
        }
    }

    #[test]
    fn every_two_bytes_at_a_bound_of_blocks_are_told_apart() {
        for at in [30, 31, 63, 94, 126] {
            for first in 0..=u8::MAX {
                for second in (0..=u8::MAX).step_by(if at == 31 { 1 } else { 15 }) {
                    let mut text = [b'x'; 128];
                    (text[at], text[at + 1]) = (first, second);
                    assert_eq!(is_valid(&text), std::str::from_utf8(&text).is_ok(), "{first:x} {second:x}");
                }
            }
        }
    }
}
