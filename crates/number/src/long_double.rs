//! The arithmetic of INCRBYFLOAT and HINCRBYFLOAT: 80-bit extended precision, in software.
//!
//! Redis computes these commands in the C type `long double`, which on x86 is the 80-bit extended format: a
//! 64-bit significand and a 15-bit exponent. Its results are part of the contract (`0.1 + 0.2` prints `0.3`
//! there, not `0.30000000000000004`), so this module computes the same on every platform: reading is
//! correctly rounded to 64 bits, addition rounds to nearest with ties to even, printing is exact with 17
//! decimals, trailing zeros dropped.
//!
//! A finite value is `significand * 2^exponent`. Invariants: the significand's top bit is set unless the
//! exponent is [`EXPONENT_MIN`] (a subnormal number) or the value is zero, which has significand 0 and
//! exponent [`EXPONENT_MIN`].
//!
//! Costs: numbers of up to 19 digits with a small exponent are read in a few dozen nanoseconds, and values
//! below 2^64 are printed so; longer ones take big-integer work, quadratic in the length, which is bounded
//! by [`TEXT_MAX`].

use crate::decimal::{DecimalParts, Scanned, scan, scan_hexadecimal};
use crate::integer::write_u64;
use std::cmp::Ordering;

mod big;

use big::BigInteger;

/// Texts of this many bytes or more are not numbers, as in Redis.
pub const TEXT_MAX: usize = 5 * 1024;

/// The exponent of the lowest bit of the smallest numbers.
const EXPONENT_MIN: i32 = -16445;
/// The exponent of the lowest bit of the largest numbers.
const EXPONENT_MAX: i32 = 16320;
/// No finite value has more digits before its point than this.
const INTEGER_DIGITS_MAX: i64 = 4933;
/// Everything below ten to the minus this rounds to zero.
const FRACTION_ZEROS_MAX: i64 = 4951;

const DECIMALS: u32 = 17;
const DECIMAL_SCALE: u64 = 10u64.pow(DECIMALS);

/// Digits that [`LongDouble::write_significant`] writes.
const SIGNIFICANT: usize = 17;
const SIGNIFICANT_I32: i32 = SIGNIFICANT as i32;

/// A number in 80-bit extended precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDouble {
    class: Class,
    negative: bool,
    exponent: i32,
    significand: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Finite,
    Infinite,
    NotANumber,
}

impl LongDouble {
    /// Reads the whole text as INCRBYFLOAT does: `None` where Redis says that it is not a valid float.
    ///
    /// Decimal or hexadecimal, with an optional sign, or an infinity; no NaN, no spaces, fewer than
    /// [`TEXT_MAX`] bytes. What rounds to infinity, or to zero without being zero, is refused.
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() >= TEXT_MAX {
            return None;
        }
        let value = match scan(text)? {
            Scanned::Infinity(negative) => return Some(LongDouble::infinity(negative)),
            Scanned::Decimal(parts) => {
                let value = round_decimal(&parts)?;
                if value.is_zero() && !parts.is_zero() {
                    return None;
                }
                value
            }
            Scanned::Hexadecimal(negative, digits) => {
                let parts = scan_hexadecimal(digits)?;
                let exponent = parts.exponent.clamp(-100_000, 100_000) as i32;
                let value = LongDouble::round(negative, parts.significand, exponent, parts.inexact);
                if value.is_zero() && parts.significand != 0 {
                    return None;
                }
                value
            }
        };
        (!value.is_infinite()).then_some(value)
    }

    /// The value of an integer, exactly.
    pub fn from_i64(value: i64) -> LongDouble {
        LongDouble::round(value < 0, u128::from(value.unsigned_abs()), 0, false)
    }

    /// The value of a double, exactly.
    pub fn from_f64(value: f64) -> LongDouble {
        let negative = value.is_sign_negative();
        if value.is_nan() {
            return LongDouble::NAN;
        }
        if value.is_infinite() {
            return LongDouble::infinity(negative);
        }
        let bits = value.to_bits();
        let fraction = bits & ((1 << 52) - 1);
        match (bits >> 52 & 0x7ff) as i32 {
            0 => LongDouble::round(negative, u128::from(fraction), -1074, false),
            field => LongDouble::round(negative, u128::from(fraction | 1 << 52), field - 1075, false),
        }
    }

    /// Zero.
    pub const ZERO: LongDouble =
        LongDouble { class: Class::Finite, negative: false, exponent: EXPONENT_MIN, significand: 0 };

    /// The largest finite number.
    pub const LARGEST: LongDouble =
        LongDouble { class: Class::Finite, negative: false, exponent: EXPONENT_MAX, significand: u64::MAX };

    /// The least finite number.
    pub const LEAST: LongDouble = LongDouble { negative: true, ..LongDouble::LARGEST };

    const NAN: LongDouble =
        LongDouble { class: Class::NotANumber, negative: false, exponent: EXPONENT_MIN, significand: 0 };

    fn infinity(negative: bool) -> LongDouble {
        LongDouble { class: Class::Infinite, negative, exponent: EXPONENT_MIN, significand: 0 }
    }

    fn zero(negative: bool) -> LongDouble {
        LongDouble { negative, ..LongDouble::ZERO }
    }

    /// Whether this is not a number.
    pub fn is_nan(self) -> bool {
        self.class == Class::NotANumber
    }

    /// Whether this is an infinity.
    pub fn is_infinite(self) -> bool {
        self.class == Class::Infinite
    }

    /// Whether this is less than the other one. Zeros of both signs are the same; what is not a number is not
    /// less than anything, and nothing is less than it.
    pub fn is_less_than(self, other: LongDouble) -> bool {
        if self.is_nan() || other.is_nan() || self.is_zero() && other.is_zero() {
            return false;
        }
        // Significands of one exponent compare as they are: all but subnormal ones have the top bit.
        let size = |number: LongDouble| (number.is_infinite(), number.exponent, number.significand);
        match (self.negative, other.negative) {
            (false, false) => size(self) < size(other),
            (true, true) => size(other) < size(self),
            (is_negative, _) => is_negative,
        }
    }

    fn is_zero(self) -> bool {
        self.class == Class::Finite && self.significand == 0
    }

    /// `significand * 2^exponent`, and a little more where `sticky`, rounded to nearest with ties to even.
    ///
    /// `sticky` needs a significand of at least 66 bits, so that what it stands for lies below the half.
    fn round(negative: bool, significand: u128, exponent: i32, sticky: bool) -> LongDouble {
        debug_assert!(!sticky || significand >> 65 != 0);
        if significand == 0 {
            return LongDouble::zero(negative);
        }
        let shift = significand.leading_zeros() as i32;
        let wide = significand << shift;
        // Keep the top 64 bits, fewer where the number is subnormal.
        let low_exponent = exponent - shift + 64;
        let dropped = 64 + (EXPONENT_MIN - low_exponent).max(0);
        let mut low_exponent = low_exponent.max(EXPONENT_MIN);
        let (kept, remainder, half) = match dropped {
            64..=127 => ((wide >> dropped) as u64, wide & ((1 << dropped) - 1), 1u128 << (dropped - 1)),
            128 => (0, wide, 1u128 << 127),
            _ => return LongDouble::zero(negative),
        };
        let up = remainder > half || (remainder == half && (sticky || kept & 1 == 1));
        let mut kept = kept;
        if up {
            kept = kept.wrapping_add(1);
            if kept == 0 {
                kept = 1 << 63;
                low_exponent += 1;
            }
        }
        if low_exponent > EXPONENT_MAX {
            return LongDouble::infinity(negative);
        }
        if kept == 0 {
            return LongDouble::zero(negative);
        }
        LongDouble { class: Class::Finite, negative, exponent: low_exponent, significand: kept }
    }

    fn add_finite(self, other: LongDouble) -> LongDouble {
        if self.is_zero() && other.is_zero() {
            return LongDouble::zero(self.negative && other.negative);
        }
        // A zero has the lowest exponent, so it is never the one with the higher.
        let (high, low) = if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        let distance = (high.exponent - low.exponent) as u32;
        let above = u128::from(high.significand) << 63;
        let aligned = u128::from(low.significand) << 63;
        let (below, sticky) = match distance {
            0 => (aligned, false),
            1..=127 => (aligned >> distance, aligned & ((1 << distance) - 1) != 0),
            _ => (0, low.significand != 0),
        };
        let exponent = high.exponent - 63;
        if high.negative == low.negative {
            return LongDouble::round(high.negative, above + below, exponent, sticky);
        }
        if above == below && !sticky {
            return LongDouble::zero(false);
        }
        if above >= below {
            // With bits lost below, the difference is a little less than this one, so a little more than
            // one lower.
            return LongDouble::round(high.negative, above - below - u128::from(sticky), exponent, sticky);
        }
        // Only a subnormal `high` can be smaller than `low`, and then both share the lowest exponent.
        LongDouble::round(low.negative, below - above, exponent, false)
    }

    /// Without its fraction, if what it is lies between the least and the greatest 64-bit integer.
    pub fn truncated(self) -> Option<i64> {
        if self.class != Class::Finite {
            return None;
        }
        let shift = self.exponent.unsigned_abs();
        let (integer, has_fraction) = if self.exponent >= 0 {
            let is_too_large = self.significand != 0 && shift >= u64::BITS;
            (if is_too_large { u128::MAX } else { u128::from(self.significand) << shift.min(64) }, false)
        } else if shift >= u64::BITS {
            (0, self.significand != 0)
        } else {
            (u128::from(self.significand >> shift), self.significand & ((1 << shift) - 1) != 0)
        };
        let most = if self.negative { 1 << 63 } else { (1 << 63) - 1 };
        if integer > most || integer == most && has_fraction {
            return None;
        }
        Some(if self.negative { (integer as u64).wrapping_neg() as i64 } else { integer as i64 })
    }

    /// Appends the text that `%.17Lg` of C gives: 17 significant digits without zeros at their end, with an
    /// exponent where that is below -4 or above 16; `inf`, `-inf` or `nan` where it is not finite.
    pub fn write_significant(self, out: &mut Vec<u8>) {
        if self.class != Class::Finite {
            return self.write(out);
        }
        if self.negative {
            out.push(b'-');
        }
        if self.is_zero() {
            return out.push(b'0');
        }
        let significand = BigInteger::from_u64(self.significand);
        // The digits of an integer, and where its point stands before the last of them.
        let (integer, decimals) = if self.exponent >= 0 {
            (significand.shifted_left(self.exponent as usize), 0)
        } else {
            let decimals = self.exponent.unsigned_abs();
            (significand.times_power_of_five(decimals), decimals as i32)
        };
        let mut digits = Vec::new();
        integer.write(&mut digits);
        let mut exponent = digits.len() as i32 - 1 - decimals;
        if digits.len() > SIGNIFICANT {
            let rest = digits.split_off(SIGNIFICANT);
            let half = rest[0].cmp(&b'5').then(if rest[1..].iter().any(|&digit| digit != b'0') {
                Ordering::Greater
            } else {
                Ordering::Equal
            });
            let is_odd = digits[SIGNIFICANT - 1] % 2 == 1;
            if half == Ordering::Greater || half == Ordering::Equal && is_odd {
                exponent += i32::from(carry(&mut digits));
            }
        }
        let length = digits.iter().rposition(|&digit| digit != b'0').map_or(1, |last| last + 1);
        write_significant_digits(&digits[..length], exponent, out);
    }

    /// Appends the text that Redis gives: plain decimal notation, rounded to 17 decimals, no trailing
    /// zeros, no minus before a zero; `inf`, `-inf` or `nan` where it is not finite.
    pub fn write(self, out: &mut Vec<u8>) {
        match self.class {
            Class::NotANumber => return out.extend_from_slice(b"nan"),
            Class::Infinite => return out.extend_from_slice(if self.negative { b"-inf" } else { b"inf" }),
            Class::Finite => {}
        }
        if self.exponent > 0 {
            if self.negative {
                out.push(b'-');
            }
            return BigInteger::from_u64(self.significand).shifted_left(self.exponent as usize).write(out);
        }
        let scaled = u128::from(self.significand) * u128::from(DECIMAL_SCALE);
        let rounded = shift_right_rounded(scaled, self.exponent.unsigned_abs());
        if rounded == 0 {
            return out.push(b'0');
        }
        if self.negative {
            out.push(b'-');
        }
        // The quotient is below 2^64 because the value is.
        write_u64(out, (rounded / u128::from(DECIMAL_SCALE)) as u64);
        let mut fraction = (rounded % u128::from(DECIMAL_SCALE)) as u64;
        if fraction != 0 {
            let mut digits = [b'0'; DECIMALS as usize];
            for digit in digits.iter_mut().rev() {
                *digit = b'0' + (fraction % 10) as u8;
                fraction /= 10;
            }
            let length = digits.iter().rposition(|&digit| digit != b'0').map_or(0, |last| last + 1);
            out.push(b'.');
            out.extend_from_slice(&digits[..length]);
        }
    }
}

/// The sum, rounded to nearest with ties to even; infinities of opposite signs give NaN.
impl std::ops::Add for LongDouble {
    type Output = LongDouble;

    fn add(self, other: LongDouble) -> LongDouble {
        match (self.class, other.class) {
            (Class::Finite, Class::Finite) => self.add_finite(other),
            (Class::NotANumber, _) | (_, Class::NotANumber) => LongDouble::NAN,
            (Class::Infinite, Class::Infinite) if self.negative != other.negative => LongDouble::NAN,
            (Class::Infinite, _) => self,
            _ => other,
        }
    }
}

impl std::ops::Neg for LongDouble {
    type Output = LongDouble;

    fn neg(self) -> LongDouble {
        LongDouble { negative: !self.negative, ..self }
    }
}

fn shift_right_rounded(value: u128, count: u32) -> u128 {
    match count {
        0 => value,
        1..=127 => {
            let kept = value >> count;
            let remainder = value & ((1 << count) - 1);
            let half = 1u128 << (count - 1);
            kept + u128::from(remainder > half || (remainder == half && kept & 1 == 1))
        }
        // Products of a 64-bit and a 57-bit number stay under half of 2^128.
        _ => 0,
    }
}

/// Adds one to the last of these digits. Whether they have become a one and zeros.
fn carry(digits: &mut [u8]) -> bool {
    for digit in digits.iter_mut().rev() {
        if *digit != b'9' {
            *digit += 1;
            return false;
        }
        *digit = b'0';
    }
    digits[0] = b'1';
    true
}

/// Appends the digits of a number, the first of which has this exponent.
fn write_significant_digits(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    let zeros = |count: usize| std::iter::repeat_n(b'0', count);
    match exponent {
        -4..0 => {
            out.extend_from_slice(b"0.");
            out.extend(zeros(exponent.unsigned_abs() as usize - 1));
            out.extend_from_slice(digits);
        }
        0..SIGNIFICANT_I32 => {
            let whole = exponent as usize + 1;
            let (before, after) = digits.split_at(whole.min(digits.len()));
            out.extend_from_slice(before);
            out.extend(zeros(whole - before.len()));
            if !after.is_empty() {
                out.push(b'.');
                out.extend_from_slice(after);
            }
        }
        _ => {
            out.push(digits[0]);
            if digits.len() > 1 {
                out.push(b'.');
                out.extend_from_slice(&digits[1..]);
            }
            let sign = if exponent < 0 { '-' } else { '+' };
            out.extend_from_slice(format!("e{sign}{:02}", exponent.unsigned_abs()).as_bytes());
        }
    }
}

/// The nearest value to a decimal number; an infinity or a zero where it is out of range.
fn round_decimal(parts: &DecimalParts<'_>) -> Option<LongDouble> {
    let digits = || parts.integer.iter().chain(parts.fraction).copied();
    let leading_zeros = digits().take_while(|&digit| digit == b'0').count();
    let total = parts.integer.len() + parts.fraction.len();
    let trailing_zeros = digits().rev().take_while(|&digit| digit == b'0').count().min(total - leading_zeros);
    let count = total - leading_zeros - trailing_zeros;
    if count == 0 {
        return Some(LongDouble::zero(parts.negative));
    }
    let significant = || digits().skip(leading_zeros).take(count);
    let exponent = parts.written_exponent - parts.fraction.len() as i64 + trailing_zeros as i64;
    if exponent + count as i64 > INTEGER_DIGITS_MAX {
        return Some(LongDouble::infinity(parts.negative));
    }
    if exponent + (count as i64) < -FRACTION_ZEROS_MAX {
        return Some(LongDouble::zero(parts.negative));
    }
    let exponent = i32::try_from(exponent).ok()?;
    if count <= 19 && (-18..=19).contains(&exponent) {
        let integer = significant().fold(0u64, |value, digit| value * 10 + u64::from(digit - b'0'));
        return Some(round_short(parts.negative, integer, exponent));
    }
    let integer = BigInteger::from_digits(significant());
    Some(if exponent >= 0 {
        let (top, shift, sticky) = integer.times_power_of_ten(exponent as u32).top_bits();
        LongDouble::round(parts.negative, top, shift, sticky)
    } else {
        let divisor = BigInteger::from_u64(1).times_power_of_ten(exponent.unsigned_abs());
        let (quotient, shift, sticky) = integer.quotient_bits(divisor);
        LongDouble::round(parts.negative, quotient, shift, sticky)
    })
}

/// `integer * 10^exponent` where both the integer and the power fit in 64 bits: one wide multiplication or
/// division.
fn round_short(negative: bool, integer: u64, exponent: i32) -> LongDouble {
    let power = u128::from(10u64.pow(exponent.unsigned_abs()));
    if exponent >= 0 {
        return LongDouble::round(negative, u128::from(integer) * power, 0, false);
    }
    // A 128-bit dividend over a divisor under 2^60 leaves 68 bits: enough to round with what remains.
    let shift = u128::from(integer).leading_zeros();
    let dividend = u128::from(integer) << shift;
    LongDouble::round(negative, dividend / power, -(shift as i32), dividend % power != 0)
}

#[cfg(test)]
mod tests;
