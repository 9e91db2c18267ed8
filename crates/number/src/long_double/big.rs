//! Just enough big-integer arithmetic to read and print extended numbers exactly.

use std::cmp::Ordering;

/// The largest power of ten in a limb, and its exponent.
const LIMB_POWER: u64 = 10u64.pow(19);
const LIMB_DIGITS: usize = 19;
/// The exponent of the largest power of five in a limb.
const LIMB_FIVES: u32 = 27;

/// A non-negative integer: 64-bit limbs, the lowest first, no zero limb at the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BigInteger {
    limbs: Vec<u64>,
}

impl BigInteger {
    pub(super) fn from_u64(value: u64) -> BigInteger {
        BigInteger { limbs: if value == 0 { Vec::new() } else { vec![value] } }
    }

    /// The integer that ASCII digits spell.
    pub(super) fn from_digits(digits: impl Iterator<Item = u8>) -> BigInteger {
        let mut integer = BigInteger { limbs: Vec::new() };
        let (mut chunk, mut scale) = (0u64, 1u64);
        for digit in digits {
            if scale == LIMB_POWER {
                integer.multiply_add(scale, chunk);
                (chunk, scale) = (0, 1);
            }
            chunk = chunk * 10 + u64::from(digit - b'0');
            scale *= 10;
        }
        integer.multiply_add(scale, chunk);
        integer
    }

    fn multiply_add(&mut self, factor: u64, addend: u64) {
        let mut carry = addend;
        for limb in &mut self.limbs {
            let product = u128::from(*limb) * u128::from(factor) + u128::from(carry);
            *limb = product as u64;
            carry = (product >> 64) as u64;
        }
        if carry != 0 {
            self.limbs.push(carry);
        }
    }

    pub(super) fn times_power_of_ten(mut self, exponent: u32) -> BigInteger {
        let mut left = exponent as usize;
        while left >= LIMB_DIGITS {
            self.multiply_add(LIMB_POWER, 0);
            left -= LIMB_DIGITS;
        }
        self.multiply_add(10u64.pow(left as u32), 0);
        self
    }

    pub(super) fn times_power_of_five(mut self, exponent: u32) -> BigInteger {
        let mut left = exponent;
        while left >= LIMB_FIVES {
            self.multiply_add(5u64.pow(LIMB_FIVES), 0);
            left -= LIMB_FIVES;
        }
        self.multiply_add(5u64.pow(left), 0);
        self
    }

    pub(super) fn shifted_left(mut self, count: usize) -> BigInteger {
        let bits = count % 64;
        if bits != 0 {
            let mut carry = 0;
            for limb in &mut self.limbs {
                let shifted = *limb << bits | carry;
                carry = *limb >> (64 - bits);
                *limb = shifted;
            }
            if carry != 0 {
                self.limbs.push(carry);
            }
        }
        if !self.limbs.is_empty() {
            self.limbs.splice(0..0, std::iter::repeat_n(0, count / 64));
        }
        self
    }

    fn bit_length(&self) -> usize {
        self.limbs.last().map_or(0, |top| self.limbs.len() * 64 - top.leading_zeros() as usize)
    }

    /// The top limbs as a 128-bit number, the exponent of its lowest bit, and whether non-zero bits lie
    /// below.
    pub(super) fn top_bits(&self) -> (u128, i32, bool) {
        let rest = self.limbs.len().saturating_sub(3);
        let limb = |index: usize| u128::from(self.limbs.get(rest + index).copied().unwrap_or(0));
        let low_bits = self.limbs[..rest].iter().any(|&limb| limb != 0);
        if self.limbs.len() <= 2 {
            return (limb(1) << 64 | limb(0), 0, false);
        }
        // Three limbs are truncated to 128 bits that start with a one, so that rounding sees at least 65.
        let shift = limb(2).leading_zeros() - 64;
        let top = (limb(2) << 64 | limb(1)) << shift | (limb(0) << shift) >> 64;
        let dropped = (limb(0) << shift) as u64;
        (top, (rest as i32 + 1) * 64 - shift as i32, low_bits || dropped != 0)
    }

    /// `self / divisor` as 67 bits of quotient, the exponent of the lowest, and whether anything remains.
    pub(super) fn quotient_bits(self, divisor: BigInteger) -> (u128, i32, bool) {
        // Align so that the quotient lies between one half and two; then long division, a bit a step.
        let difference = divisor.bit_length() as i32 - self.bit_length() as i32;
        let (mut dividend, divisor) = if difference >= 0 {
            (self.shifted_left(difference as usize), divisor)
        } else {
            (self, divisor.shifted_left(difference.unsigned_abs() as usize))
        };
        const STEPS: i32 = 68;
        let mut quotient = 0u128;
        for _ in 0..STEPS {
            quotient <<= 1;
            if dividend.compare(&divisor) != Ordering::Less {
                dividend.subtract(&divisor);
                quotient |= 1;
            }
            dividend = dividend.shifted_left(1);
        }
        (quotient, -difference - (STEPS - 1), !dividend.limbs.is_empty())
    }

    fn compare(&self, other: &BigInteger) -> Ordering {
        let by_length = self.limbs.len().cmp(&other.limbs.len());
        by_length.then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev()))
    }

    /// Subtracts `other`, which is not greater.
    fn subtract(&mut self, other: &BigInteger) {
        debug_assert!(self.compare(other) != Ordering::Less);
        let mut borrow = false;
        for (index, limb) in self.limbs.iter_mut().enumerate() {
            let (difference, under) = limb.overflowing_sub(other.limbs.get(index).copied().unwrap_or(0));
            let (difference, under_borrow) = difference.overflowing_sub(u64::from(borrow));
            *limb = difference;
            borrow = under || under_borrow;
        }
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }

    /// Appends the decimal digits.
    pub(super) fn write(mut self, out: &mut Vec<u8>) {
        let mut chunks = Vec::new();
        while !self.limbs.is_empty() {
            let mut remainder = 0u128;
            for limb in self.limbs.iter_mut().rev() {
                let dividend = remainder << 64 | u128::from(*limb);
                *limb = (dividend / u128::from(LIMB_POWER)) as u64;
                remainder = dividend % u128::from(LIMB_POWER);
            }
            while self.limbs.last() == Some(&0) {
                self.limbs.pop();
            }
            chunks.push(remainder as u64);
        }
        crate::integer::write_u64(out, chunks.pop().unwrap_or(0));
        for chunk in chunks.into_iter().rev() {
            let mut buffer = [0; crate::integer::INTEGER_TEXT_MAX];
            let digits = crate::integer::format_u64(&mut buffer, chunk);
            out.resize(out.len() + LIMB_DIGITS - digits.len(), b'0');
            out.extend_from_slice(digits);
        }
    }
}
