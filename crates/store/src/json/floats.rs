//! Types of floating-point numbers to which the elements of an array are rounded (`FPHA` of JSON.SET).
//!
//! A rounded number is kept as the double closest to the decimal that RedisJSON prints: of those that are
//! the same binary32 the shortest.

use mantissa_number::{FloatText, format_f32, parse_f64};

/// A type of floating-point numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatType {
    /// IEEE 754's binary16.
    Half,
    /// The upper half of a binary32.
    BFloat,
    /// IEEE 754's binary32.
    Single,
    /// IEEE 754's binary64.
    Double,
}

impl FloatType {
    /// The type that a word names, in any case.
    pub fn named(word: &[u8]) -> Option<FloatType> {
        const NAMES: [(&[u8], FloatType); 4] = [
            (b"FP16", FloatType::Half),
            (b"BF16", FloatType::BFloat),
            (b"FP32", FloatType::Single),
            (b"FP64", FloatType::Double),
        ];
        NAMES.iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|&(_, named)| named)
    }

    /// What is said of a number that is beyond the type.
    pub(super) fn out_of_range(self) -> &'static str {
        match self {
            FloatType::Half => "value out of range for FP16",
            FloatType::BFloat => "value out of range for BF16",
            FloatType::Single => "value out of range for FP32",
            FloatType::Double => "value out of range for FP64",
        }
    }

    /// Rounds a finite number to the closest of the type, of two the even one. `None` if that is infinite.
    pub(super) fn round(self, value: f64) -> Option<f64> {
        let single = match self {
            FloatType::Half => HALF.round(value)?,
            FloatType::BFloat => BFLOAT.round(value)?,
            FloatType::Single => value as f32,
            FloatType::Double => return Some(value),
        };
        let mut text = FloatText::default();
        single.is_finite().then(|| parse_f64(format_f32(&mut text, single).as_bytes()))?
    }
}

/// A type of 16 bits, all of whose numbers are binary32.
struct Short {
    /// Bits of a significand, the first one included.
    bits: i32,
    /// The exponent of the smallest normal number.
    exponent_min: i32,
    /// The largest number.
    max: f32,
}

const HALF: Short = Short { bits: 11, exponent_min: -14, max: 65504.0 };
/// The largest is 0x7f7f.
const BFLOAT: Short = Short { bits: 8, exponent_min: -126, max: f32::from_bits(0x7f7f_0000) };

impl Short {
    fn round(&self, value: f64) -> Option<f32> {
        let exponent = (value.to_bits() >> 52 & 0x7ff) as i32 - 1023;
        // The distance of numbers of the type here, a power of two: dividing by it is exact.
        let step_exponent = exponent.max(self.exponent_min) - (self.bits - 1);
        let step = f64::from_bits(((step_exponent + 1023) as u64) << 52);
        let rounded = (value / step).round_ties_even() * step;
        (rounded.abs() <= f64::from(self.max)).then_some(rounded as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of these 16 bits, if it is finite.
    fn half(bits: u16) -> Option<f64> {
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
        let magnitude = match exponent {
            31 => return None,
            0 => fraction * 2_f64.powi(-24),
            _ => (1024.0 + fraction) * 2_f64.powi(exponent - 25),
        };
        Some(if bits >> 15 == 0 { magnitude } else { -magnitude })
    }

    fn bfloat(bits: u16) -> Option<f64> {
        Some(f64::from(f32::from_bits(u32::from(bits) << 16))).filter(|value| value.is_finite())
    }

    #[test]
    fn every_number_of_16_bits_stays() {
        for (short, number) in [(HALF, half as fn(u16) -> Option<f64>), (BFLOAT, bfloat)] {
            for value in (0..=u16::MAX).filter_map(number) {
                let rounded = short.round(value).map(f64::from);
                assert_eq!(rounded.map(f64::to_bits), Some(value.to_bits()), "{value:e}");
            }
        }
    }

    #[test]
    fn numbers_between_two_of_16_bits_go_to_the_closer_and_then_to_the_even_one() {
        for (short, number) in [(HALF, half as fn(u16) -> Option<f64>), (BFLOAT, bfloat)] {
            for bits in 0..0x7fff_u16 {
                let (Some(low), Some(high)) = (number(bits), number(bits + 1)) else { continue };
                let middle = low / 2.0 + high / 2.0;
                let even = if bits % 2 == 0 { low } else { high };
                let round = |value| short.round(value).map(f64::from);
                assert_eq!(round(middle), Some(even));
                assert_eq!(round(middle.next_down()), Some(low));
                assert_eq!(round(middle.next_up()), Some(high));
                assert_eq!(round(-middle), Some(-even));
            }
        }
    }

    #[test]
    fn what_rounds_to_infinity_is_out_of_range() {
        let bounds = [
            (FloatType::Half, 65504.0, 65520.0),
            (FloatType::BFloat, 3.3895314e38, f64::from(f32::from_bits(0x7f7f_8000))),
            (FloatType::Single, 3.4028235e38, 2_f64.powi(128) - 2_f64.powi(103)),
        ];
        for (kind, max, beyond) in bounds {
            assert_eq!(kind.round(max), Some(max), "{kind:?}");
            assert!(kind.round(f64::next_down(beyond)).is_some(), "{kind:?}");
            assert_eq!(kind.round(beyond), None, "{kind:?}");
            assert_eq!(kind.round(-beyond), None, "{kind:?}");
        }
        assert_eq!(FloatType::Double.round(f64::MAX), Some(f64::MAX));
    }

    #[test]
    fn numbers_have_the_digits_of_a_binary32() {
        for (kind, value, expected) in [
            (FloatType::Half, 0.1, 0.099975586),
            (FloatType::Half, 0.5, 0.5),
            (FloatType::Half, 1e-9, 0.0),
            (FloatType::BFloat, 0.1, 0.100097656),
            (FloatType::BFloat, 1e38, 9.96921e37),
            (FloatType::Single, 0.1, 0.1),
            (FloatType::Single, 1.0 / 3.0, 0.33333334),
            (FloatType::Single, 16_777_217.0, 16_777_216.0),
            (FloatType::Double, 1.0 / 3.0, 1.0 / 3.0),
        ] {
            assert_eq!(kind.round(value), Some(expected), "{kind:?} {value}");
        }
    }
}
