//! Remainders by a number that is known ahead, in two multiplications.

/// What is divided by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Divisor {
    number: u64,
    /// 2 to the power of 64 less 1, divided by the number.
    reciprocal: u64,
}

impl Divisor {
    /// The number is 1 or more; of 0 there is no remainder.
    pub fn new(number: u64) -> Self {
        Divisor { number, reciprocal: u64::MAX.checked_div(number).unwrap_or(0) }
    }

    /// The remainder of a number.
    #[inline]
    pub fn remainder(self, dividend: u64) -> u64 {
        // The reciprocal is below 2^64 / number by 1 at most, so the product is below 2^64 * dividend /
        // number by less than 2^64: the quotient is right, or 1 too small.
        let quotient = ((u128::from(dividend) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = dividend.wrapping_sub(quotient.wrapping_mul(self.number));
        if rest >= self.number { rest.wrapping_sub(self.number) } else { rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_are_those_of_a_division() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            state ^ state >> 29
        };
        for round in 0..200_000 {
            let number = (next() >> (round % 64)).max(1);
            let near = number.wrapping_mul(next() >> (round % 63));
            let divisor = Divisor::new(number);
            for dividend in [0, 1, number - 1, number, u64::MAX, near, near.wrapping_sub(1), next()] {
                assert_eq!(divisor.remainder(dividend), dividend % number, "{dividend} by {number}");
            }
        }
        for number in [1, 2, 3, 1 << 32, (1 << 32) + 1, 1 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX] {
            let divisor = Divisor::new(number);
            for dividend in [0, 1, number - 1, number, number.wrapping_mul(2), u64::MAX - 1, u64::MAX] {
                assert_eq!(divisor.remainder(dividend), dividend % number, "{dividend} by {number}");
            }
        }
    }
}
