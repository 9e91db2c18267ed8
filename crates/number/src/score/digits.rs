//! The digits that Redis prints for a score: Grisu2 (Florian Loitsch, "Printing Floating-Point Numbers
//! Quickly and Accurately with Integers", PLDI 2010), with powers of ten eight apart.
//!
//! Grisu2 works in 64 bits, so it must leave out what lies within a unit of the rounding interval's ends.
//! Its digits always read back as the same value, but about once in a thousand values they are not the
//! shortest or not the closest: Redis prints 94.179195 as `94.17919500000001` and 1e23 as
//! `99999999999999990000000`. The same digits need the same algorithm, down to the power of ten chosen;
//! [`crate::write_f64`] is the one that is always shortest.

use super::powers::{EXPONENT_STEP, FIRST_EXPONENT, POWERS};

const FRACTION_BITS: u32 = 52;
const HIDDEN_BIT: u64 = 1 << FRACTION_BITS;

/// Powers of ten that scale a remainder; the fraction of a double never needs more.
static TENS: [u64; 20] = {
    let mut tens = [1u64; 20];
    let mut index = 1;
    while index < 20 {
        tens[index] = tens[index - 1] * 10;
        index += 1;
    }
    tens
};

/// The high half of a product, rounded to nearest.
#[inline]
fn multiply(left: u64, right: u64) -> u64 {
    ((u128::from(left) * u128::from(right) + (1 << 63)) >> 64) as u64
}

/// The power of ten that brings a number with this binary exponent into the range -60 to -32, and its
/// exponents: the significand, the binary exponent and the decimal exponent.
#[inline]
fn scaling_power(exponent: i32) -> (u64, i32, i32) {
    // log10(2) in 2^-20ths; the estimate is corrected below where it is one off.
    let estimate = ((-(exponent + 87) * 315_653) >> 20) - FIRST_EXPONENT;
    let mut index = (estimate / EXPONENT_STEP).clamp(0, POWERS.len() as i32 - 1);
    loop {
        let (significand, binary) = POWERS[index as usize];
        let scaled = exponent + i32::from(binary) + 64;
        let step = i32::from(scaled < -60) - i32::from(scaled > -32);
        let next = index + step;
        if step == 0 || next < 0 || next >= POWERS.len() as i32 {
            return (significand, i32::from(binary), FIRST_EXPONENT + index * EXPONENT_STEP);
        }
        index = next;
    }
}

/// The digits of a finite value above zero as an integer, and the exponent of ten that it is to be
/// multiplied by.
pub(super) fn digits(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let fraction = bits & (HIDDEN_BIT - 1);
    let field = (bits >> FRACTION_BITS & 0x7ff) as i32;
    let (fraction, exponent) =
        if field == 0 { (fraction, -1074) } else { (fraction | HIDDEN_BIT, field - 1075) };

    // The value and the middles between it and its neighbours, all with the exponent that normalises the
    // upper one.
    let shift = (2 * fraction + 1).leading_zeros();
    let top_exponent = exponent - 1 - shift as i32;
    let upper = (2 * fraction + 1) << shift;
    let middle = (2 * fraction) << shift;
    let lower =
        if fraction == HIDDEN_BIT { (4 * fraction - 1) << (shift - 1) } else { (2 * fraction - 1) << shift };

    let (power, power_exponent, decimal_exponent) = scaling_power(top_exponent);
    let one_shift = (-(top_exponent + power_exponent + 64)) as u32;
    let upper = multiply(upper, power) - 1;
    let lower = multiply(lower, power) + 1;
    let middle = multiply(middle, power);
    let (digits, kappa) = generate(upper, upper - lower, upper - middle, one_shift);
    (digits, kappa - decimal_exponent)
}

/// The shortest prefix of `upper` (a fixed-point number with `one_shift` fraction bits) that stays within
/// `delta` of it, moved towards the value, which lies `distance` below; and the exponent of its last digit.
#[inline]
fn generate(upper: u64, delta: u64, distance: u64, one_shift: u32) -> (u64, i32) {
    let one = 1u64 << one_shift;
    let integer = upper >> one_shift;
    let mut fraction = upper & (one - 1);
    if fraction <= delta {
        // The integer part may be truncated: find the largest power of ten that leaves little enough.
        let mut kappa = crate::integer::digit_count(integer);
        while kappa > 0 {
            kappa -= 1;
            let power = TENS[kappa];
            let remainder = ((integer % power) << one_shift) + fraction;
            if remainder <= delta {
                let digits = integer / power;
                return (towards(digits, delta, remainder, power << one_shift, distance), kappa as i32);
            }
        }
    }
    let mut digits = integer;
    let mut delta = delta;
    let mut kappa = 0usize;
    loop {
        fraction *= 10;
        delta *= 10;
        kappa += 1;
        digits = digits * 10 + (fraction >> one_shift);
        fraction &= one - 1;
        if fraction < delta {
            let distance = distance.wrapping_mul(TENS[kappa.min(19)]);
            return (towards(digits, delta, fraction, one, distance), -(kappa as i32));
        }
    }
}

/// Lowers the last digit while that brings the number closer to the value and keeps it inside the interval.
#[inline]
fn towards(mut digits: u64, delta: u64, mut remainder: u64, unit: u64, distance: u64) -> u64 {
    while remainder < distance
        && delta - remainder >= unit
        && (remainder + unit < distance || distance - remainder > remainder + unit - distance)
    {
        digits -= 1;
        remainder += unit;
    }
    digits
}
