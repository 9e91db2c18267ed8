//! The check of whole blocks with AVX2. The names of errors are those of the paper.

use std::arch::x86_64::*;

const BLOCK_BYTES: usize = 32;
/// Texts shorter than this are left to the standard library.
pub(super) const BYTES_MIN: usize = 2 * BLOCK_BYTES;

/// A leading byte where a continuation belongs, or a continuation too few.
const TOO_SHORT: u8 = 1 << 0;
/// A continuation behind ASCII.
const TOO_LONG: u8 = 1 << 1;
/// Three bytes for what needs two.
const OVERLONG_3: u8 = 1 << 2;
/// Beyond U+10FFFF, second byte 0x90 and more.
const TOO_LARGE: u8 = 1 << 3;
/// U+D800 to U+DFFF.
const SURROGATE: u8 = 1 << 4;
/// Two bytes for what needs one.
const OVERLONG_2: u8 = 1 << 5;
/// Beyond U+10FFFF, second byte 0x80 to 0x8f. Shares its bit with [`OVERLONG_4`], four bytes for what needs
/// three: their first bytes differ.
const TOO_LARGE_1000: u8 = 1 << 6;
const OVERLONG_4: u8 = 1 << 6;
/// Two continuations, right only as the last of three or four bytes.
const TWO_CONTS: u8 = 1 << 7;
/// The errors that the low half of the first byte does not decide.
const CARRY: u8 = TOO_SHORT | TOO_LONG | TWO_CONTS;

const FIRST_HIGH: [u8; 16] = {
    let mut table = [TOO_LONG; 16];
    (table[0x8], table[0x9], table[0xa], table[0xb]) = (TWO_CONTS, TWO_CONTS, TWO_CONTS, TWO_CONTS);
    table[0xc] = TOO_SHORT | OVERLONG_2;
    table[0xd] = TOO_SHORT;
    table[0xe] = TOO_SHORT | OVERLONG_3 | SURROGATE;
    table[0xf] = TOO_SHORT | TOO_LARGE | TOO_LARGE_1000 | OVERLONG_4;
    table
};

const FIRST_LOW: [u8; 16] = {
    let mut table = [CARRY | TOO_LARGE | TOO_LARGE_1000; 16];
    table[0x0] = CARRY | OVERLONG_2 | OVERLONG_3 | OVERLONG_4;
    table[0x1] = CARRY | OVERLONG_2;
    table[0x2] = CARRY;
    table[0x3] = CARRY;
    table[0x4] = CARRY | TOO_LARGE;
    table[0xd] |= SURROGATE;
    table
};

const SECOND_HIGH: [u8; 16] = {
    let mut table = [TOO_SHORT; 16];
    let any = TOO_LONG | OVERLONG_2 | TWO_CONTS;
    table[0x8] = any | OVERLONG_3 | TOO_LARGE_1000 | OVERLONG_4;
    table[0x9] = any | OVERLONG_3 | TOO_LARGE;
    table[0xa] = any | SURROGATE | TOO_LARGE;
    table[0xb] = any | SURROGATE | TOO_LARGE;
    table
};

/// Checks the whole blocks of a text that begins with a character: how many bytes they are, or none if they
/// are invalid. A character that the last block does not finish is no error.
#[target_feature(enable = "avx2")]
pub(super) fn check_blocks(bytes: &[u8]) -> Option<usize> {
    let (blocks, _) = bytes.as_chunks::<BLOCK_BYTES>();
    let mut previous = _mm256_setzero_si256();
    let mut errors = _mm256_setzero_si256();
    for block in blocks {
        // SAFETY: a block has 32 bytes, and this load needs no alignment.
        let input = unsafe { _mm256_loadu_si256(block.as_ptr().cast()) };
        let is_ascii = _mm256_movemask_epi8(_mm256_or_si256(input, last_bytes(previous))) == 0;
        if !is_ascii {
            errors = _mm256_or_si256(errors, block_errors(input, previous));
        }
        previous = input;
    }
    (_mm256_testz_si256(errors, errors) == 1).then_some(blocks.len() * BLOCK_BYTES)
}

/// The last three bytes, which may belong to a character of the next block; zeros for the others.
#[target_feature(enable = "avx2")]
fn last_bytes(block: __m256i) -> __m256i {
    let kept = _mm256_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0xffff_ff00_u32 as i32);
    _mm256_and_si256(block, kept)
}

/// A bit in each place where a pair of bytes is wrong, or the number of continuations is.
#[target_feature(enable = "avx2")]
fn block_errors(input: __m256i, previous: __m256i) -> __m256i {
    // The upper half of the previous block and the lower one of this, for shifts across the halves.
    let between = _mm256_permute2x128_si256::<0x21>(previous, input);
    let before_1 = _mm256_alignr_epi8::<15>(input, between);
    let before_2 = _mm256_alignr_epi8::<14>(input, between);
    let before_3 = _mm256_alignr_epi8::<13>(input, between);
    let pairs = _mm256_and_si256(
        _mm256_and_si256(look_up(&FIRST_HIGH, high(before_1)), look_up(&FIRST_LOW, low(before_1))),
        look_up(&SECOND_HIGH, high(input)),
    );
    // The top bit is set where a byte 0xe0 and more stands two places before, or 0xf0 and more three.
    let third = _mm256_subs_epu8(before_2, _mm256_set1_epi8(0xe0_u8.wrapping_sub(0x80) as i8));
    let fourth = _mm256_subs_epu8(before_3, _mm256_set1_epi8(0xf0_u8.wrapping_sub(0x80) as i8));
    let continues = _mm256_and_si256(_mm256_or_si256(third, fourth), _mm256_set1_epi8(0x80_u8 as i8));
    _mm256_xor_si256(continues, pairs)
}

#[target_feature(enable = "avx2")]
fn high(bytes: __m256i) -> __m256i {
    low(_mm256_srli_epi16::<4>(bytes))
}

#[target_feature(enable = "avx2")]
fn low(bytes: __m256i) -> __m256i {
    _mm256_and_si256(bytes, _mm256_set1_epi8(0xf))
}

#[target_feature(enable = "avx2")]
fn look_up(table: &[u8; 16], indexes: __m256i) -> __m256i {
    // SAFETY: the table has 16 bytes, and this load needs no alignment.
    let table = unsafe { _mm_loadu_si128(table.as_ptr().cast()) };
    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), indexes)
}
