//! Kernels over vectors of numbers: dot products and distances between bits.
//!
//! | kernel | numbers | result |
//! | --- | --- | --- |
//! | [`Kernels::dot_f32`] | binary32 | the same bits on every processor, see below |
//! | [`Kernels::dot_i8`] | signed bytes within ±127 | exact, for up to [`DOT_I8_LEN_MAX`] numbers |
//! | [`Kernels::hamming`] | bits in words of 64 | exact |
//!
//! Each is written once and compiled for several instruction sets, or has a form of its own where the
//! processor has an instruction for it. [`Kernels::get`] chooses when it is called first. Servers on
//! different processors must come to the same graph from the same commands, so no result depends on that:
//! products of binary32 are rounded before they are added, number `i` is added to sum `i % LANES` in rising
//! order, and the sums are added in pairs. The error is at most `(n / LANES + 6) * 2^-24` times the sum of
//! the products' magnitudes.
//!
//! Two slices of different lengths count as far as the shorter one reaches. An empty product is 0.

#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::LazyLock;

/// Independent sums of a dot product: four registers of 256 bits.
const LANES: usize = 32;

/// More products of signed bytes may leave the range of 32 bits.
pub const DOT_I8_LEN_MAX: usize = (i32::MAX / (128 * 128)) as usize;

/// The functions for this processor.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    /// The instruction set that was chosen.
    pub name: &'static str,
    dot_f32: fn(&[f32], &[f32]) -> f32,
    dot_i8: fn(&[i8], &[i8]) -> i32,
    hamming: fn(&[u64], &[u64]) -> u32,
}

static CHOSEN: LazyLock<Kernels> = LazyLock::new(|| Kernels::all().pop().unwrap_or(PORTABLE));

const PORTABLE: Kernels = Kernels {
    name: "portable",
    dot_f32: |left, right| dot_f32(left, right),
    dot_i8: |left, right| dot_i8(left, right),
    hamming: |left, right| hamming(left, right),
};

impl Kernels {
    /// The fastest that this processor can run.
    #[inline]
    pub fn get() -> &'static Kernels {
        &CHOSEN
    }

    /// All that this processor can run, the fastest last.
    pub fn all() -> Vec<Kernels> {
        let mut all = vec![PORTABLE];
        #[cfg(target_arch = "x86_64")]
        x86::add_to(&mut all);
        all
    }

    /// The sum of the products.
    #[inline]
    pub fn dot_f32(&self, left: &[f32], right: &[f32]) -> f32 {
        (self.dot_f32)(left, right)
    }

    /// The sum of the products of up to [`DOT_I8_LEN_MAX`] numbers from -127 to 127; it wraps around beyond.
    #[inline]
    pub fn dot_i8(&self, left: &[i8], right: &[i8]) -> i32 {
        (self.dot_i8)(left, right)
    }

    /// The number of bits that differ.
    #[inline]
    pub fn hamming(&self, left: &[u64], right: &[u64]) -> u32 {
        (self.hamming)(left, right)
    }
}

#[inline(always)]
fn dot_f32(left: &[f32], right: &[f32]) -> f32 {
    let len = left.len().min(right.len());
    let (left, right) = (&left[..len], &right[..len]);
    let mut sums = [0.0f32; LANES];
    let (left_chunks, left_rest) = left.as_chunks::<LANES>();
    let (right_chunks, right_rest) = right.as_chunks::<LANES>();
    for (left, right) in left_chunks.iter().zip(right_chunks) {
        for lane in 0..LANES {
            sums[lane] += left[lane] * right[lane];
        }
    }
    for (lane, (left, right)) in left_rest.iter().zip(right_rest).enumerate() {
        sums[lane] += left * right;
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

#[inline(always)]
fn dot_i8(left: &[i8], right: &[i8]) -> i32 {
    let pairs = left.iter().zip(right);
    pairs.map(|(&left, &right)| i32::from(left) * i32::from(right)).fold(0, i32::wrapping_add)
}

#[inline(always)]
fn hamming(left: &[u64], right: &[u64]) -> u32 {
    left.iter().zip(right).map(|(left, right)| (left ^ right).count_ones()).sum()
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

/// Appends one bit for each number, set where it is above 0, in words of 64.
pub fn quantise_bits(vector: &[f32], out: &mut Vec<u64>) {
    out.extend(vector.chunks(64).map(|chunk| {
        chunk.iter().enumerate().fold(0, |word, (bit, value)| word | u64::from(*value > 0.0) << bit)
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    #[test]
    fn every_variant_gives_the_same_result() {
        let mut state = 7;
        for len in (0..200).chain([300, 511, 512, 1000, 1536, 4096]) {
            let mut floats = || (0..len).map(|_| random(&mut state) as f32 / 1e9 - 1.0).collect::<Vec<_>>();
            let (left, right) = (floats(), floats());
            let mut bytes = || (0..len).map(|_| (random(&mut state) % 255) as i8 | 1).collect::<Vec<_>>();
            let (small, other) = (bytes(), bytes());
            let words: Vec<u64> = (0..len).map(|_| random(&mut state) * 0x1_0000_0001).collect();
            let masks: Vec<u64> = (0..len).map(|_| random(&mut state) * 0x1_0000_0001).collect();
            let exact: f64 = left.iter().zip(&right).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            let sum: f64 = left.iter().zip(&right).map(|(a, b)| f64::from((a * b).abs())).sum();
            for kernels in Kernels::all() {
                let dot = kernels.dot_f32(&left, &right);
                assert_eq!(dot.to_bits(), PORTABLE.dot_f32(&left, &right).to_bits(), "{}", kernels.name);
                let bound = (len as f64 / LANES as f64 + 6.0) * 2f64.powi(-24) * sum;
                assert!((f64::from(dot) - exact).abs() <= bound, "{len} {}", kernels.name);
                assert_eq!(
                    kernels.dot_i8(&small, &other),
                    PORTABLE.dot_i8(&small, &other),
                    "{}",
                    kernels.name
                );
                assert_eq!(kernels.hamming(&words, &masks), PORTABLE.hamming(&words, &masks));
                if len > 0 {
                    // Neither aligned nor of one length.
                    let (from, to) = (&small[1..], &other[..len - 1]);
                    assert_eq!(kernels.dot_i8(from, to), PORTABLE.dot_i8(from, to));
                    let (from, to) = (&left[1..], &right);
                    assert_eq!(kernels.dot_f32(from, to).to_bits(), PORTABLE.dot_f32(from, to).to_bits());
                }
            }
        }
    }

    #[test]
    fn the_largest_products_of_bytes_are_exact() {
        let most = vec![127i8; DOT_I8_LEN_MAX];
        let least = vec![-127i8; DOT_I8_LEN_MAX];
        for kernels in Kernels::all() {
            assert_eq!(kernels.dot_i8(&most, &most), 127 * 127 * DOT_I8_LEN_MAX as i32);
            assert_eq!(kernels.dot_i8(&most, &least), -127 * 127 * DOT_I8_LEN_MAX as i32, "{}", kernels.name);
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
        quantise_bits(&[1.0, -2.0, 0.0, 3.0, f32::NAN], &mut bits);
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
