//! The kernels for processors of the x86 family: compiled for AVX2 and AVX-512. SSE2 is what the
//! portable ones are compiled for.

use super::Kernels;
use std::arch::x86_64::*;

/// Adds what this processor can run, the fastest last.
pub(super) fn add_to(all: &mut Vec<Kernels>) {
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
        all.push(Kernels {
            name: "avx2",
            // SAFETY: this and the two below: the processor has been found to have the instructions.
            dot_f32: |left, right| unsafe { dot_f32_avx2(left, right) },
            // SAFETY: as above.
            dot_i8: |left, right| unsafe { dot_i8_avx2(left, right) },
            // SAFETY: as above.
            hamming: |left, right| unsafe { hamming_avx2(left, right) },
        });
    }
    if is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vnni")
        && is_x86_feature_detected!("avx512vpopcntdq")
    {
        all.push(Kernels {
            name: "avx512",
            // SAFETY: this and the two below: the processor has been found to have the instructions.
            dot_f32: |left, right| unsafe { dot_f32_avx512(left, right) },
            // SAFETY: as above.
            dot_i8: |left, right| unsafe { dot_i8_avx512(left, right) },
            // SAFETY: as above.
            hamming: |left, right| unsafe { hamming_avx512(left, right) },
        });
    }
}

#[target_feature(enable = "avx2")]
fn dot_f32_avx2(left: &[f32], right: &[f32]) -> f32 {
    super::dot_f32(left, right)
}

#[target_feature(enable = "avx512f")]
fn dot_f32_avx512(left: &[f32], right: &[f32]) -> f32 {
    super::dot_f32(left, right)
}

#[target_feature(enable = "avx2,popcnt")]
fn hamming_avx2(left: &[u64], right: &[u64]) -> u32 {
    super::hamming(left, right)
}

#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn hamming_avx512(left: &[u64], right: &[u64]) -> u32 {
    super::hamming(left, right)
}

/// The signs of one side go to the other, because the instruction takes unsigned bytes on one side. Two
/// products of 127 * 127 fit in the 16 bits that it adds them in.
#[target_feature(enable = "avx2")]
fn dot_i8_avx2(left: &[i8], right: &[i8]) -> i32 {
    let len = left.len().min(right.len());
    let (left_chunks, left_rest) = left[..len].as_chunks::<32>();
    let (right_chunks, right_rest) = right[..len].as_chunks::<32>();
    let ones = _mm256_set1_epi16(1);
    let mut sums = _mm256_setzero_si256();
    for (left, right) in left_chunks.iter().zip(right_chunks) {
        // SAFETY: both arrays have 32 bytes, and the loads need no alignment.
        let (left, right) =
            unsafe { (_mm256_loadu_si256(left.as_ptr().cast()), _mm256_loadu_si256(right.as_ptr().cast())) };
        let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(left), _mm256_sign_epi8(right, left));
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, ones));
    }
    let halves = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
    let quarters = _mm_add_epi32(halves, _mm_shuffle_epi32::<0b01_00_11_10>(halves));
    let eighths = _mm_add_epi32(quarters, _mm_shuffle_epi32::<0b10_11_00_01>(quarters));
    _mm_cvtsi128_si32(eighths).wrapping_add(super::dot_i8(left_rest, right_rest))
}

/// One side is made unsigned by adding 128 to each of its bytes. The products with 128 are subtracted in the
/// end.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn dot_i8_avx512(left: &[i8], right: &[i8]) -> i32 {
    const BYTES: usize = 64;
    let len = left.len().min(right.len());
    let top = _mm512_set1_epi8(-128);
    let (mut sums, mut extra) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    let mut at = 0;
    while at + BYTES <= len {
        // SAFETY: 64 bytes from `at` on are within both slices, and the loads need no alignment.
        let (left, right) = unsafe {
            (
                _mm512_loadu_si512(left.as_ptr().add(at).cast()),
                _mm512_loadu_si512(right.as_ptr().add(at).cast()),
            )
        };
        sums = _mm512_dpbusd_epi32(sums, _mm512_xor_si512(left, top), right);
        extra = _mm512_dpbusd_epi32(extra, top, right);
        at += BYTES;
    }
    if at < len {
        let mask = u64::MAX >> (BYTES - (len - at));
        // SAFETY: bytes outside the mask, which covers those before `len`, are not read.
        let (left, right) = unsafe {
            (
                _mm512_maskz_loadu_epi8(mask, left.as_ptr().add(at)),
                _mm512_maskz_loadu_epi8(mask, right.as_ptr().add(at)),
            )
        };
        sums = _mm512_dpbusd_epi32(sums, _mm512_xor_si512(left, top), right);
        extra = _mm512_dpbusd_epi32(extra, top, right);
    }
    _mm512_reduce_add_epi32(_mm512_sub_epi32(sums, extra))
}
