//! Sums, extremes, products and distances of vectors of numbers, signs, and bits counted: the safe face of
//! `number/mantissa_kernels.h`, whose header says what each gives, in which order and with which error.
//!
//! [`Kernels::get`] has the fastest functions for this processor. Servers on different processors must come
//! to the same graph from the same commands, so results do not depend on that: those of integers and bits
//! are exact, those of binary64 and binary32 have the same bits at every level. Only sums of bfloat16
//! differ, within their bound, where the processor has instructions for them.
//!
//! Two slices of different lengths count as far as the shorter one reaches.

use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::sync::LazyLock;

/// `mn_kernels`: the functions of a level.
#[repr(C)]
struct Table {
    name: *const c_char,
    sum_f64: One<f64, f64>,
    sum_f32: One<f32, f32>,
    sum_bf16: One<u16, f32>,
    sum_i8: One<i8, i64>,
    min_f64: One<f64, f64>,
    min_f32: One<f32, f32>,
    min_bf16: One<u16, f32>,
    min_i8: One<i8, i8>,
    max_f64: One<f64, f64>,
    max_f32: One<f32, f32>,
    max_bf16: One<u16, f32>,
    max_i8: One<i8, i8>,
    dot_f64: Two<f64, f64>,
    dot_f32: Two<f32, f32>,
    dot_bf16: Two<u16, f32>,
    dot_i8: Two<i8, i64>,
    dot_bits: Two<c_void, u64>,
    squared_distance_f64: Two<f64, f64>,
    squared_distance_f32: Two<f32, f32>,
    squared_distance_bf16: Two<u16, f32>,
    squared_distance_i8: Two<i8, i64>,
    hamming: Two<c_void, u64>,
    cosine_f64: Two<f64, f64>,
    cosine_f32: Two<f32, f64>,
    cosine_bf16: Two<u16, f64>,
    cosine_i8: Two<i8, f64>,
    cosine_bits: Two<c_void, f64>,
    sign_f64: Signs<f64>,
    sign_f32: Signs<f32>,
    sign_bf16: Signs<u16>,
    sign_i8: Signs<i8>,
    popcount: One<c_void, u64>,
}

type One<Number, Answer> = unsafe extern "C" fn(*const Number, usize) -> Answer;
type Two<Number, Answer> = unsafe extern "C" fn(*const Number, *const Number, usize) -> Answer;
type Signs<Number> = unsafe extern "C" fn(*mut u64, *const Number, usize);

/// `MN_KERNELS_MAX`.
const LEVELS_MAX: usize = 5;

unsafe extern "C" {
    fn mn_all_kernels(out: *mut *const Table) -> usize;
}

/// The functions of one level, that is, for an instruction set.
#[derive(Clone, Copy)]
pub struct Kernels(&'static Table);

// SAFETY: the table is constant.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

static CHOSEN: LazyLock<Kernels> =
    LazyLock::new(|| *Kernels::all().last().expect("the portable level is always there"));

macro_rules! of_one {
    ($($(#[$doc:meta])* $function:ident($number:ty) -> $answer:ty;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $function(&self, values: &[$number]) -> $answer {
            // SAFETY: the function reads so many numbers from there on.
            unsafe { (self.0.$function)(values.as_ptr().cast(), values.len()) }
        }
    )*};
}

macro_rules! of_two {
    ($($(#[$doc:meta])* $function:ident($number:ty) -> $answer:ty;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $function(&self, left: &[$number], right: &[$number]) -> $answer {
            let count = left.len().min(right.len());
            // SAFETY: the function reads so many numbers of both sides, which have them.
            unsafe { (self.0.$function)(left.as_ptr(), right.as_ptr(), count) }
        }
    )*};
}

macro_rules! of_bits {
    ($($(#[$doc:meta])* $function:ident -> $answer:ty;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $function(&self, left: &[u64], right: &[u64]) -> $answer {
            let size = left.len().min(right.len()) * size_of::<u64>();
            // SAFETY: the function reads so many bytes of both sides, which have them.
            unsafe { (self.0.$function)(left.as_ptr().cast(), right.as_ptr().cast(), size) }
        }
    )*};
}

macro_rules! of_signs {
    ($($(#[$doc:meta])* $function:ident($number:ty);)*) => {$(
        $(#[$doc])*
        pub fn $function(&self, values: &[$number], out: &mut Vec<u64>) {
            let words = values.len().div_ceil(64);
            out.reserve(words);
            // SAFETY: the reserved capacity takes the words, which the function fills before the length
            // counts them; the vector is borrowed mutably, so it does not overlap `values`.
            unsafe {
                (self.0.$function)(out.as_mut_ptr().add(out.len()), values.as_ptr(), values.len());
                out.set_len(out.len() + words);
            }
        }
    )*};
}

impl Kernels {
    /// The fastest that this processor can run.
    #[inline]
    pub fn get() -> Kernels {
        *CHOSEN
    }

    /// All that this processor can run, the fastest last.
    pub fn all() -> Vec<Kernels> {
        let mut tables = [std::ptr::null(); LEVELS_MAX];
        // SAFETY: there is room for as many tables as there can be.
        let count = unsafe { mn_all_kernels(tables.as_mut_ptr()) };
        debug_assert!(count <= LEVELS_MAX);
        // SAFETY: the first ones point to tables that are constant.
        tables[..count].iter().map(|table| Kernels(unsafe { &**table })).collect()
    }

    /// The instruction set.
    pub fn name(&self) -> &'static str {
        // SAFETY: names are constant texts, and end with a NUL.
        unsafe { CStr::from_ptr(self.0.name) }.to_str().unwrap_or_default()
    }

    of_one! {
        /// The sum, added in blocks and pairs.
        sum_f64(f64) -> f64;
        /// The sum, added in blocks and pairs.
        sum_f32(f32) -> f32;
        /// The sum of bfloat16.
        sum_bf16(u16) -> f32;
        /// The sum.
        sum_i8(i8) -> i64;
        /// The least number, NaNs left out; infinity if there is none.
        min_f64(f64) -> f64;
        /// The least number, NaNs left out; infinity if there is none.
        min_f32(f32) -> f32;
        /// The least bfloat16, NaNs left out; infinity if there is none.
        min_bf16(u16) -> f32;
        /// The least number; 127 if there is none.
        min_i8(i8) -> i8;
        /// The greatest number, NaNs left out; -infinity if there is none.
        max_f64(f64) -> f64;
        /// The greatest number, NaNs left out; -infinity if there is none.
        max_f32(f32) -> f32;
        /// The greatest bfloat16, NaNs left out; -infinity if there is none.
        max_bf16(u16) -> f32;
        /// The greatest number; -128 if there is none.
        max_i8(i8) -> i8;
        /// The number of bits that are set.
        popcount(u8) -> u64;
    }

    of_two! {
        /// The sum of the products.
        dot_f64(f64) -> f64;
        /// The sum of the products.
        dot_f32(f32) -> f32;
        /// The sum of the products of bfloat16.
        dot_bf16(u16) -> f32;
        /// The sum of the products.
        dot_i8(i8) -> i64;
        /// The sum of the squares of the differences.
        squared_distance_f64(f64) -> f64;
        /// The sum of the squares of the differences.
        squared_distance_f32(f32) -> f32;
        /// The sum of the squares of the differences of bfloat16.
        squared_distance_bf16(u16) -> f32;
        /// The sum of the squares of the differences.
        squared_distance_i8(i8) -> i64;
        /// The cosine of the angle, from -1 to 1; 0 if a side is all zeros.
        cosine_f64(f64) -> f64;
        /// The cosine of the angle, from -1 to 1; 0 if a side is all zeros.
        cosine_f32(f32) -> f64;
        /// The cosine of the angle of bfloat16, from -1 to 1; 0 if a side is all zeros.
        cosine_bf16(u16) -> f64;
        /// The cosine of the angle, from -1 to 1; 0 if a side is all zeros.
        cosine_i8(i8) -> f64;
    }

    of_bits! {
        /// The number of bits that are set on both sides.
        dot_bits -> u64;
        /// The number of bits that differ.
        hamming -> u64;
        /// The cosine of the angle between vectors of bits; 0 if a side has none set.
        cosine_bits -> f64;
    }

    of_signs! {
        /// Appends one bit for each number, set where it is above 0, in words of 64.
        sign_f64(f64);
        /// Appends one bit for each number, set where it is above 0, in words of 64.
        sign_f32(f32);
        /// Appends one bit for each bfloat16, set where it is above 0, in words of 64.
        sign_bf16(u16);
        /// Appends one bit for each number, set where it is above 0, in words of 64.
        sign_i8(i8);
    }
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kernels").field(&self.name()).finish()
    }
}

/// Divides a vector by its length, which is returned. One of zeros stays as it is, with length 1. The length
/// is the root of the sum of squares, added in fours and then in order, as redis-server does.
pub fn normalise(vector: &mut [f32]) -> f32 {
    let (fours, rest) = vector.as_chunks::<4>();
    let of_fours = fours.iter().fold(0.0f32, |sum, [a, b, c, d]| sum + (a * a + b * b + c * c + d * d));
    let length = rest.iter().fold(of_fours, |sum, value| sum + value * value).sqrt();
    if length == 0.0 {
        return 1.0;
    }
    vector.iter_mut().for_each(|value| *value /= length);
    length
}

/// A dot product of which the sum is rounded exactly as redis-server does it: slower than
/// [`Kernels::dot_f32`], for results that are shown.
pub fn dot_f32_in_fours(left: &[f32], right: &[f32]) -> f32 {
    let (left_eights, left_rest) = left.as_chunks::<8>();
    let (right_eights, right_rest) = right.as_chunks::<8>();
    let (mut low, mut high) = (0.0f32, 0.0f32);
    for (l, r) in left_eights.iter().zip(right_eights) {
        low += l[0] * r[0] + l[1] * r[1] + l[2] * r[2] + l[3] * r[3];
        high += l[4] * r[4] + l[5] * r[5] + l[6] * r[6] + l[7] * r[7];
    }
    left_rest.iter().zip(right_rest).for_each(|(left, right)| low += left * right);
    low + high
}

/// Appends a vector as signed bytes, 127 standing for the largest magnitude, which is returned. One of zeros,
/// or without finite numbers, becomes zeros with magnitude 0.
pub fn quantise_i8(vector: &[f32], out: &mut Vec<i8>) -> f32 {
    let range = vector
        .iter()
        .map(|value| value.abs())
        .fold(0.0f32, |most, value| if value > most { value } else { most });
    let scale = if range == 0.0 { 0.0 } else { 127.0 / range };
    // A cast of NaN is 0, and one of what is beyond the range its end.
    out.extend(vector.iter().map(|value| ((value * scale).round() as i8).max(-127)));
    range
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    /// The C test compares more; this one goes through the Rust face.
    #[test]
    fn every_level_gives_the_same_result() {
        let mut state = 7;
        let all = Kernels::all();
        let portable = all[0];
        assert_eq!(portable.name(), "portable");
        assert_eq!(Kernels::get().name(), all[all.len() - 1].name());
        for len in (0..200).chain([300, 511, 512, 1000, 1536, 4096, 5000]) {
            let mut floats = || (0..len).map(|_| random(&mut state) as f32 / 1e9 - 1.0).collect::<Vec<_>>();
            let (left, right) = (floats(), floats());
            let wide = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
            let (left_wide, right_wide) = (wide(&left), wide(&right));
            let mut bytes = || (0..len).map(|_| random(&mut state) as i8).collect::<Vec<_>>();
            let (small, other) = (bytes(), bytes());
            let words: Vec<u64> = (0..len).map(|_| random(&mut state) * 0x1_0000_0001).collect();
            let masks: Vec<u64> = (0..len).map(|_| random(&mut state) * 0x1_0000_0001).collect();
            let exact: f64 = left_wide.iter().zip(&right_wide).map(|(a, b)| a * b).sum();
            let sum: f64 = left_wide.iter().zip(&right_wide).map(|(a, b)| (a * b).abs()).sum();
            let dot_i8: i64 = small.iter().zip(&other).map(|(a, b)| i64::from(*a) * i64::from(*b)).sum();
            let differing: u32 = words.iter().zip(&masks).map(|(a, b)| (a ^ b).count_ones()).sum();
            let least = left_wide.iter().copied().fold(f64::INFINITY, f64::min);
            for kernels in &all {
                let dot = kernels.dot_f32(&left, &right);
                assert_eq!(dot.to_bits(), portable.dot_f32(&left, &right).to_bits(), "{kernels:?}");
                let bound = (128.0 + 5.0 + 1.0 + 1.0) * 2f64.powi(-24) * sum;
                assert!((f64::from(dot) - exact).abs() <= bound, "{len} {kernels:?}");
                let dot = kernels.dot_f64(&left_wide, &right_wide);
                assert_eq!(dot.to_bits(), portable.dot_f64(&left_wide, &right_wide).to_bits(), "{kernels:?}");
                assert_eq!(kernels.min_f64(&left_wide), least, "{kernels:?}");
                assert_eq!(kernels.dot_i8(&small, &other), dot_i8, "{kernels:?}");
                assert_eq!(kernels.hamming(&words, &masks), u64::from(differing), "{kernels:?}");
                if len > 0 {
                    // Neither aligned nor of one length.
                    let (from, to) = (&small[1..], &other[..len - 1]);
                    assert_eq!(kernels.dot_i8(from, &other), portable.dot_i8(from, to));
                    let (from, to) = (&left[1..], &right);
                    assert_eq!(kernels.dot_f32(from, to).to_bits(), portable.dot_f32(from, to).to_bits());
                }
            }
        }
    }

    #[test]
    fn vectors_are_normalised_and_quantised() {
        let mut vector = [1.0, 2.0, 3.0];
        assert_eq!(normalise(&mut vector), 14f32.sqrt());
        let mut bytes = Vec::new();
        assert_eq!(quantise_i8(&vector, &mut bytes), vector[2]);
        assert_eq!(bytes, [42, 85, 127]);
        let mut bits = Vec::new();
        Kernels::get().sign_f32(&[1.0, -2.0, 0.0, 3.0, f32::NAN], &mut bits);
        assert_eq!(bits, [0b1001]);
        let mut zeros = [0.0; 3];
        assert_eq!(normalise(&mut zeros), 1.0);
        let mut odd = [f32::INFINITY, 2.0, 3.0];
        assert_eq!(normalise(&mut odd), f32::INFINITY);
        bytes.clear();
        assert_eq!(quantise_i8(&odd, &mut bytes), 0.0);
        assert_eq!(bytes, [0; 3]);
    }
}
