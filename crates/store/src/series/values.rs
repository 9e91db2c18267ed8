//! The values of a chunk, compressed.
//!
//! ```text
//! words: | values, packed | exceptional values: index, bits |
//!        of differences, the integer before the first comes before the packed ones
//! ```
//!
//! Values that were decimals are kept as the integers that they are with the point moved: v = i / 10^e, for
//! the smallest e with which that is exact. Of these, or of their differences, the smaller is packed. The
//! few values that are no such decimal are exceptions. If they are many, the same is tried with powers of
//! two, or else the bits of all doubles are packed, the sign in the lowest place. (ALP by Afroozeh, Kuffo
//! and Boncz, SIGMOD 2024, has the idea.)
//!
//! Encoding is exact: what is read back has the same bits. Both directions are linear.

use super::packed::{Frame, SIGN, pack, unpack};

/// Powers of ten by which an integer is divided exactly rounded.
const POWERS: [f64; 16] =
    [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
/// Integers up to this are doubles exactly.
const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;
/// 2^52 + 2^51: in doubles of this size the last bit of the fraction is 1.
const MAGIC: f64 = 6_755_399_441_055_744.0;
/// Integers from -2^51 up to here can be added to the bits of that.
const SMALL: u64 = 1 << 51;
/// One value in this number may be an exception.
const EXCEPTION_ONE_IN: usize = 8;
/// Values that are looked at to find the exponent.
const PROBES: usize = 16;

/// How values are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Integers, to be divided by this power of ten.
    Decimal(u8),
    /// Differences of such integers.
    DecimalDelta(u8),
    /// Integers, to be divided by this power of two.
    Binary(u16),
    /// The bits of doubles.
    Bits,
}

/// What has to be known to read the words back.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(2))]
pub(super) struct Values {
    frame: Frame,
    form: Form,
    exceptions: u16,
}

impl Values {
    /// Appends the words of values, of which there is at least one.
    #[inline(always)]
    pub(super) fn pack(values: &[f64], words: &mut Vec<u64>) -> Values {
        // No closures: what they do would be compiled without the instructions of the caller.
        if let Some(exponent) = exponent_of(values)
            && let Some(packed) = pack_decimals(values, exponent, words)
        {
            return packed;
        }
        let bits: Vec<u64> = values.iter().map(|value| value.to_bits().rotate_left(1)).collect();
        let frame = Frame::of(&bits);
        if let Some(packed) = pack_binary(values, frame.words(values.len()), words) {
            return packed;
        }
        pack(frame, &bits, words);
        Values { frame, form: Form::Bits, exceptions: 0 }
    }

    /// Fills `out` with the values of these words, of which there are as many.
    pub(super) fn read(&self, words: &[u64], out: &mut [f64]) {
        let (words, exceptions) = words.split_at(words.len() - 2 * usize::from(self.exceptions));
        match self.form {
            Form::Decimal(exponent) => {
                unpack(self.frame, words, bits_of(out));
                let are_small =
                    self.frame.bounds().is_some_and(|(least, most)| is_small(least) && is_small(most));
                divide(out, POWERS[usize::from(exponent)], are_small);
            }
            Form::DecimalDelta(exponent) => {
                let (mut integer, mut beyond) = (words[0], 0);
                // To add the sign to all is to change it.
                unpack(self.frame.with_base(SIGN), &words[1..], bits_of(out));
                for difference in bits_of(out) {
                    integer = integer.wrapping_add(*difference);
                    beyond |= integer.wrapping_add(SMALL);
                    *difference = integer;
                }
                divide(out, POWERS[usize::from(exponent)], beyond < 2 * SMALL);
            }
            Form::Binary(shift) => {
                unpack(self.frame, words, bits_of(out));
                let unit = power_of_two(-i32::from(shift));
                for value in &mut *out {
                    *value = value.to_bits().cast_signed() as f64 * unit;
                }
            }
            Form::Bits => {
                unpack(self.frame, words, bits_of(out));
                bits_of(out).iter_mut().for_each(|bits| *bits = bits.rotate_right(1));
            }
        }
        for exception in exceptions.chunks_exact(2) {
            out[exception[0] as usize] = f64::from_bits(exception[1]);
        }
    }
}

/// Doubles as their bits.
fn bits_of(values: &mut [f64]) -> &mut [u64] {
    const { assert!(size_of::<f64>() == size_of::<u64>() && align_of::<f64>() == align_of::<u64>()) };
    // SAFETY: both have the same size and alignment, and every pattern of bits is a value of either.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), values.len()) }
}

/// Whether a signed integer is from -2^51 to below 2^51.
fn is_small(integer: u64) -> bool {
    integer.wrapping_add(SMALL) < 2 * SMALL
}

/// Replaces signed integers, the bits of values, by what they are divided by a power of ten. `are_small` says
/// that all are from -2^51 to below 2^51.
fn divide(values: &mut [f64], power: f64, are_small: bool) {
    debug_assert!(!are_small || values.iter().all(|value| is_small(value.to_bits())));
    if !are_small {
        for value in values {
            *value = value.to_bits().cast_signed() as f64 / power;
        }
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has been found to have the instructions.
        return unsafe { divide_small_fma(values, power) };
    }
    for value in values {
        *value = small_integer(value.to_bits()) / power;
    }
}

/// An integer from -2^51 to 2^51. Processors without AVX-512 convert integers one by one, but add several
/// doubles at once.
#[inline(always)]
fn small_integer(integer: u64) -> f64 {
    f64::from_bits(MAGIC.to_bits().wrapping_add(integer)) - MAGIC
}

/// [`divide`] of integers from -2^51 to 2^51, with products in place of quotients, which take several times
/// as long.
///
/// A quotient q of a / b that is off by 1.5 of its last place at most is made better twice by the exact rest
/// a - q b times the reciprocal. The first time that leaves less than 1 of the last place; then the second
/// time has the quotient correctly rounded (Markstein, Computation of elementary functions on the IBM RISC
/// System/6000 processor, 1990).
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn divide_small_fma(values: &mut [f64], power: f64) {
    let reciprocal = 1.0 / power;
    for value in values {
        let integer = small_integer(value.to_bits());
        let better = |quotient: f64| (-quotient).mul_add(power, integer).mul_add(reciprocal, quotient);
        *value = better(better(integer * reciprocal));
    }
}

/// The integer that a value is with the point moved by `exponent` places, if that is exact.
#[inline(always)]
fn integer_of(value: f64, power: f64) -> Option<i64> {
    let product = value * power;
    // Adding and subtracting rounds numbers of this size to integers.
    let is_small = product.abs() < SMALL as f64;
    let integer = if is_small { product + MAGIC - MAGIC } else { product.round() };
    let whole = integer as i64;
    let is_exact = integer.abs() <= INTEGER_MAX && (whole as f64 / power).to_bits() == value.to_bits();
    is_exact.then_some(whole)
}

/// The smallest exponent that suits most of some values.
#[inline(always)]
fn exponent_of(values: &[f64]) -> Option<u8> {
    let step = values.len().div_ceil(PROBES);
    let probes: Vec<f64> = values.iter().step_by(step).copied().collect();
    let unfit_max = probes.len() / EXCEPTION_ONE_IN;
    let suits = |power: f64| {
        let mut unfit = probes.iter().filter(|&&value| integer_of(value, power).is_none());
        unfit.nth(unfit_max).is_none()
    };
    POWERS.iter().position(|&power| suits(power)).map(|exponent| exponent as u8)
}

/// 2 to a power from -1022 to 1023.
pub(super) fn power_of_two(power: i32) -> f64 {
    f64::from_bits(((1023 + power) as u64) << 52)
}

/// Packs the integers that the values are with the binary point moved, such as random numbers below 1. `None`
/// if these are too large, or take as many words as is given.
#[inline(always)]
fn pack_binary(values: &[f64], words_max: usize, words: &mut Vec<u64>) -> Option<Values> {
    // Some values tell the places of all most of the time.
    let mut shift = most_places(values.iter().step_by(values.len().div_ceil(PROBES)))?;
    let mut integers = binary_integers(values, shift);
    if integers.is_none() {
        shift = most_places(values.iter())?;
        integers = binary_integers(values, shift);
    }
    let integers = integers?;
    let (base, from_base) = from_least(&integers);
    let frame = Frame::of(&from_base);
    if frame.words(values.len()) >= words_max {
        return None;
    }
    pack(frame, &from_base, words);
    Some(Values { frame: frame.with_base(base), form: Form::Binary(shift as u16), exceptions: 0 })
}

/// The most bits behind the binary point of some values, if a shift can be that many.
#[inline(always)]
fn most_places<'v>(values: impl Iterator<Item = &'v f64>) -> Option<i32> {
    const SHIFT_MAX: i32 = 1022;
    values.map(|&value| places_of(value)).max().filter(|shift| (0..=SHIFT_MAX).contains(shift))
}

/// The integers that the values are with the binary point moved by `shift` places, if all are such integers
/// of up to 53 bits. Made of the bits, since AVX2 converts no doubles to integers of 64 bits.
#[inline(always)]
fn binary_integers(values: &[f64], shift: i32) -> Option<Vec<i64>> {
    const FRACTION_BITS: u32 = 52;
    // With this exponent the fraction's last bit is the integer's.
    let whole = (1023 + FRACTION_BITS as i32 - shift) as u64;
    let (mut integers, mut differing) = (vec![0_i64; values.len()], 0);
    for (place, value) in integers.iter_mut().zip(values) {
        let bits = value.to_bits();
        let exponent = bits >> FRACTION_BITS & 0x7FF;
        let is_zero = u64::from(bits == 0);
        let fraction = (bits & ((1 << FRACTION_BITS) - 1)) | (1 - is_zero) << FRACTION_BITS;
        let cut = whole.wrapping_sub(exponent);
        let integer = fraction >> (cut & 63);
        let is_unfit = u64::from(cut > 63) & (1 - is_zero) | u64::from(exponent == 0) & (1 - is_zero);
        differing |= (integer << (cut & 63)) ^ fraction | is_unfit;
        let sign = (bits >> 63).cast_signed();
        *place = (integer.cast_signed() ^ -sign) + sign;
    }
    (differing == 0).then_some(integers)
}

/// The least of integers, and what all are more than that. So their order needs no change.
#[inline(always)]
fn from_least(integers: &[i64]) -> (u64, Vec<u64>) {
    let least = integers.iter().copied().fold(i64::MAX, i64::min);
    let from_least = integers.iter().map(|&integer| integer.wrapping_sub(least).cast_unsigned());
    (least.cast_unsigned(), from_least.collect())
}

/// Bits behind the binary point.
#[inline(always)]
fn places_of(value: f64) -> i32 {
    const FRACTION_BITS: i32 = 52;
    let bits = value.to_bits();
    if bits == 0 {
        return 0;
    }
    let exponent = (bits >> FRACTION_BITS & 0x7FF) as i32;
    let fraction_zeros = (bits << 12 >> 12 | 1 << FRACTION_BITS).trailing_zeros() as i32;
    (FRACTION_BITS - fraction_zeros - (exponent - 1023)).max(0)
}

/// The integers that values are with the point moved, if that is exact and none is large.
#[inline(always)]
fn small_integers(values: &[f64], power: f64) -> Option<Vec<i64>> {
    let (mut integers, mut differing) = (vec![0; values.len()], 0);
    for (place, &value) in integers.iter_mut().zip(values) {
        let product = value * power;
        let integer = product + MAGIC - MAGIC;
        let is_large = u64::from(product.abs() < SMALL as f64) ^ 1;
        differing |= ((integer / power).to_bits() ^ value.to_bits()) | is_large;
        *place = (integer + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()).cast_signed();
    }
    (differing == 0).then_some(integers)
}

/// The same where some values are no such decimals: the integer before stands for one, and its index and bits
/// follow. `None` if they are too many.
fn integers_but_exceptions(values: &[f64], power: f64) -> Option<(Vec<i64>, Vec<u64>)> {
    let mut last = values.iter().find_map(|&value| integer_of(value, power))?;
    let (mut integers, mut exceptions) = (Vec::with_capacity(values.len()), Vec::new());
    for (index, &value) in values.iter().enumerate() {
        match integer_of(value, power) {
            Some(integer) => last = integer,
            None => exceptions.extend([index as u64, value.to_bits()]),
        }
        integers.push(last);
    }
    (exceptions.len() / 2 <= values.len() / EXCEPTION_ONE_IN).then_some((integers, exceptions))
}

/// `None`, and nothing packed, if too many values are no such decimals.
#[inline(always)]
fn pack_decimals(values: &[f64], exponent: u8, words: &mut Vec<u64>) -> Option<Values> {
    let (count, power) = (values.len(), POWERS[usize::from(exponent)]);
    let (integers, mut exceptions) = match small_integers(values, power) {
        Some(integers) => (integers, Vec::new()),
        None => integers_but_exceptions(values, power)?,
    };
    // The first integer is told by one that is as far before it as it is before the second.
    let first = integers.get(1).map_or(0, |second| second.wrapping_sub(integers[0])).cast_unsigned();
    let difference_of = |pair: &[i64]| pair[1].wrapping_sub(pair[0]).cast_unsigned() ^ SIGN;
    let mut differences = Vec::with_capacity(count);
    differences.push(first ^ SIGN);
    differences.extend(integers.windows(2).map(difference_of));
    let (base, from_base) = from_least(&integers);
    let (plain, delta) = (Frame::of(&from_base), Frame::of(&differences));
    let (form, frame) = if delta.words(count) + 1 < plain.words(count) {
        words.push(integers[0].cast_unsigned().wrapping_sub(first));
        pack(delta, &differences, words);
        (Form::DecimalDelta(exponent), delta)
    } else {
        pack(plain, &from_base, words);
        (Form::Decimal(exponent), plain.with_base(base))
    };
    let exceptional = exceptions.len() / 2;
    words.append(&mut exceptions);
    Some(Values { frame, form, exceptions: exceptional as u16 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;

    #[test]
    fn quotients_are_correctly_rounded() {
        let mut random = Random::new(5);
        for power in POWERS {
            // Integers of all sizes, and those next to them, whose quotients lie near the middle of two
            // doubles now and then.
            let integers: Vec<i64> = (0..20_000)
                .map(|_| (random.next() >> (13 + random.below(51))).cast_signed())
                .flat_map(|integer| [integer, -integer, integer + 1, -integer - 1])
                .chain([-(1 << 51), (1 << 51) - 1, (1 << 51) - 2])
                .map(|integer: i64| integer.clamp(-(1 << 51), (1 << 51) - 1))
                .collect();
            let mut values: Vec<f64> =
                integers.iter().map(|&one| f64::from_bits(one.cast_unsigned())).collect();
            let mut others = values.clone();
            divide(&mut values, power, true);
            divide(&mut others, power, false);
            for ((integer, value), other) in integers.into_iter().zip(values).zip(others) {
                assert_eq!(value.to_bits(), (integer as f64 / power).to_bits(), "{integer} / {power}");
                assert_eq!(value.to_bits(), other.to_bits());
            }
        }
    }
}
