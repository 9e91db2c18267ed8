//! A run of neighbouring samples, compressed.
//!
//! ```text
//! words: | distances of time stamps, packed | values, packed | exceptional values: index, bits |
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

use super::Sample;
use super::packed::{Frame, pack, unpack};

/// Powers of ten by which an integer is divided exactly rounded.
const POWERS: [f64; 16] =
    [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
/// Integers up to this are doubles exactly.
const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;
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

/// What is known of samples without reading them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The number of samples, not 0.
    pub count: u32,
    /// The earliest.
    pub first: Sample,
    /// The latest.
    pub last: Sample,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// The sum of the values, added in the order of time.
    pub sum: f64,
}

impl Summary {
    /// That of samples; `None` if there is none.
    pub fn of(samples: &[Sample]) -> Option<Summary> {
        let (&first, &last) = (samples.first()?, samples.last()?);
        let mut summary = Summary {
            count: samples.len() as u32,
            first,
            last,
            min: first.value,
            max: first.value,
            sum: 0.0,
        };
        for sample in samples {
            summary.min = summary.min.min(sample.value);
            summary.max = summary.max.max(sample.value);
            summary.sum += sample.value;
        }
        Some(summary)
    }
}

/// A compressed run of samples in the order of time. Not empty.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) summary: Summary,
    times: Frame,
    values: Frame,
    form: Form,
    exceptions: u16,
    words: Box<[u64]>,
}

impl Chunk {
    /// That of samples, no more than 65535; `None` if there is none.
    pub(super) fn new(samples: &[Sample]) -> Option<Chunk> {
        let summary = Summary::of(samples)?;
        let mut words = Vec::new();
        let distances: Vec<u64> = samples.windows(2).map(|pair| pair[1].time - pair[0].time).collect();
        let times = pack(&distances, &mut words);
        let (form, values, exceptions) = pack_values(samples, &mut words);
        Some(Chunk { summary, times, values, form, exceptions, words: words.into_boxed_slice() })
    }

    pub(super) fn len(&self) -> usize {
        self.summary.count as usize
    }

    /// Bytes of the allocation that it has beside its own.
    pub(super) fn bytes(&self) -> usize {
        8 * self.words.len()
    }

    /// Appends its samples.
    pub(super) fn read(&self, out: &mut Vec<Sample>) {
        let (start, count) = (out.len(), self.len());
        let mut numbers = Vec::with_capacity(count);
        unpack(self.times, count - 1, &self.words, &mut numbers);
        let mut time = self.summary.first.time;
        out.reserve(count);
        out.push(Sample { time, value: 0.0 });
        out.extend(numbers.iter().map(|distance| {
            time = time.wrapping_add(*distance);
            Sample { time, value: 0.0 }
        }));
        numbers.clear();
        let mut words = &self.words[self.times.words(count - 1)..];
        let samples = &mut out[start..];
        match self.form {
            Form::Decimal(exponent) => {
                unpack(self.values, count, words, &mut numbers);
                let power = POWERS[usize::from(exponent)];
                for (sample, integer) in samples.iter_mut().zip(&numbers) {
                    sample.value = integer.cast_signed() as f64 / power;
                }
            }
            Form::DecimalDelta(exponent) => {
                let mut integer = words[0];
                words = &words[1..];
                unpack(self.values, count, words, &mut numbers);
                let power = POWERS[usize::from(exponent)];
                for (sample, difference) in samples.iter_mut().zip(&numbers) {
                    integer = integer.wrapping_add(*difference ^ SIGN);
                    sample.value = integer.cast_signed() as f64 / power;
                }
            }
            Form::Binary(shift) => {
                unpack(self.values, count, words, &mut numbers);
                let unit = power_of_two(-i32::from(shift));
                for (sample, integer) in samples.iter_mut().zip(&numbers) {
                    sample.value = integer.cast_signed() as f64 * unit;
                }
            }
            Form::Bits => {
                unpack(self.values, count, words, &mut numbers);
                for (sample, bits) in samples.iter_mut().zip(&numbers) {
                    sample.value = f64::from_bits(bits.rotate_right(1));
                }
            }
        }
        let words = &words[self.values.words(count)..];
        for exception in words[..2 * usize::from(self.exceptions)].chunks_exact(2) {
            samples[exception[0] as usize].value = f64::from_bits(exception[1]);
        }
    }
}

/// Changes the order of signed numbers to that of unsigned ones.
const SIGN: u64 = 1 << 63;

/// The integer that a value is with the point moved by `exponent` places, if that is exact.
fn integer_of(value: f64, exponent: u8) -> Option<i64> {
    let power = POWERS[usize::from(exponent)];
    let integer = (value * power).round();
    let is_exact =
        integer.abs() <= INTEGER_MAX && (integer as i64 as f64 / power).to_bits() == value.to_bits();
    is_exact.then_some(integer as i64)
}

/// The smallest exponent that suits most of some values.
fn exponent_of(samples: &[Sample]) -> Option<u8> {
    let step = samples.len().div_ceil(PROBES);
    let probes: Vec<f64> = samples.iter().step_by(step).map(|sample| sample.value).collect();
    let needed = probes.len() - probes.len() / EXCEPTION_ONE_IN;
    (0..POWERS.len() as u8).find(|&exponent| {
        probes.iter().filter(|&&value| integer_of(value, exponent).is_some()).count() >= needed
    })
}

fn pack_values(samples: &[Sample], words: &mut Vec<u64>) -> (Form, Frame, u16) {
    exponent_of(samples).and_then(|exponent| pack_decimals(samples, exponent, words)).unwrap_or_else(|| {
        let bits: Vec<u64> = samples.iter().map(|sample| sample.value.to_bits().rotate_left(1)).collect();
        let mut as_bits = Vec::new();
        let frame = pack(&bits, &mut as_bits);
        let mut as_binary = Vec::new();
        let binary = pack_binary(samples, &mut as_binary).filter(|_| as_binary.len() < as_bits.len());
        words.append(if binary.is_some() { &mut as_binary } else { &mut as_bits });
        binary.unwrap_or((Form::Bits, frame, 0))
    })
}

/// 2 to a power from -1022 to 1023.
fn power_of_two(power: i32) -> f64 {
    f64::from_bits(((1023 + power) as u64) << 52)
}

/// Packs the integers that the values are with the binary point moved, such as random numbers below 1. `None`
/// if these are too large.
fn pack_binary(samples: &[Sample], words: &mut Vec<u64>) -> Option<(Form, Frame, u16)> {
    const SHIFT_MAX: i32 = 1022;
    let shift = samples.iter().map(|sample| places_of(sample.value)).max()?;
    let shift = Some(shift).filter(|shift| (0..=SHIFT_MAX).contains(shift))?;
    let (scale, unit) = (power_of_two(shift), power_of_two(-shift));
    let integer_of = |sample: &Sample| {
        let integer = sample.value * scale;
        let is_exact = integer.abs() <= INTEGER_MAX
            && (integer as i64 as f64 * unit).to_bits() == sample.value.to_bits();
        is_exact.then_some(integer as i64)
    };
    let integers: Vec<i64> = samples.iter().map(integer_of).collect::<Option<_>>()?;
    let base = integers.iter().copied().min()?;
    let from_base: Vec<u64> =
        integers.iter().map(|&integer| integer.wrapping_sub(base).cast_unsigned()).collect();
    let frame = pack(&from_base, words).with_base(base.cast_unsigned());
    Some((Form::Binary(shift as u16), frame, 0))
}

/// Bits behind the binary point.
fn places_of(value: f64) -> i32 {
    const FRACTION_BITS: i32 = 52;
    let bits = value.to_bits();
    let exponent = (bits >> FRACTION_BITS & 0x7FF) as i32;
    let fraction_zeros = (bits << 12 >> 12 | 1 << FRACTION_BITS).trailing_zeros() as i32;
    (FRACTION_BITS - fraction_zeros - (exponent - 1023)).max(0)
}

/// `None`, and nothing packed, if too many values are no such decimals.
fn pack_decimals(samples: &[Sample], exponent: u8, words: &mut Vec<u64>) -> Option<(Form, Frame, u16)> {
    let mut exceptions = Vec::new();
    let mut last = samples.iter().find_map(|sample| integer_of(sample.value, exponent))?;
    let mut integers = Vec::with_capacity(samples.len());
    for (index, sample) in samples.iter().enumerate() {
        match integer_of(sample.value, exponent) {
            Some(integer) => last = integer,
            None => exceptions.extend([index as u64, sample.value.to_bits()]),
        }
        integers.push(last);
    }
    if exceptions.len() / 2 > samples.len() / EXCEPTION_ONE_IN {
        return None;
    }
    let difference_of = |pair: &[i64]| pair[1].wrapping_sub(pair[0]).cast_unsigned() ^ SIGN;
    let mut differences: Vec<u64> = integers.windows(2).map(difference_of).collect();
    // The first integer is told by one that is as far before it as it is before the second.
    let first = differences.first().copied().unwrap_or(SIGN);
    differences.insert(0, first);
    let mut delta = vec![integers[0].cast_unsigned().wrapping_sub(first ^ SIGN)];
    let mut plain = Vec::new();
    // The base is the least of all, so the integers need no change of order: they are packed from there on.
    let base = integers.iter().copied().min().unwrap_or_default();
    let from_base: Vec<u64> =
        integers.iter().map(|&integer| integer.wrapping_sub(base).cast_unsigned()).collect();
    let plain_frame = pack(&from_base, &mut plain).with_base(base.cast_unsigned());
    let delta_frame = pack(&differences, &mut delta);
    let count = exceptions.len() / 2;
    let (form, frame) = if delta.len() < plain.len() {
        words.append(&mut delta);
        (Form::DecimalDelta(exponent), delta_frame)
    } else {
        words.append(&mut plain);
        (Form::Decimal(exponent), plain_frame)
    };
    words.append(&mut exceptions);
    Some((form, frame, count as u16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;

    /// Bits for each value, without those of time stamps.
    fn check(values: impl Iterator<Item = f64>) -> f64 {
        let samples: Vec<Sample> = values
            .zip(0..)
            .map(|(value, index)| Sample { time: 1_700_000_000_000 + index * 1000, value })
            .collect();
        let chunk = Chunk::new(&samples).expect("there are samples");
        let mut read = Vec::new();
        chunk.read(&mut read);
        let bits = |list: &[Sample]| -> Vec<(u64, u64)> {
            list.iter().map(|sample| (sample.time, sample.value.to_bits())).collect()
        };
        assert_eq!(bits(&read), bits(&samples));
        8.0 * chunk.bytes() as f64 / samples.len() as f64
    }

    #[test]
    fn values_of_all_kinds_read_back() {
        let mut random = Random::new(1);
        assert!(check((0..512).map(|_| random.below(1000) as f64 / 10.0)) < 10.5);
        assert!(check((0..512).map(|_| (random.below(100_000) as f64 - 5e4) / 100.0)) < 17.5);
        assert!(check((0..512).map(f64::from)) < 1.0);
        assert!(check((0..512).map(|_| random.next() as f64 / u64::MAX as f64)) < 60.0);
        assert!(check((0..512).map(|_| (random.next() >> 11) as f64 * power_of_two(-53))) < 54.5);
        check((0..512).map(|_| random.next() as f64 * power_of_two(-1000)));
        check((0..512).map(|_| f64::from_bits(random.next() >> 12)));
        assert!(check((0..512).map(|_| f64::from_bits(random.next()))) < 66.0);
        assert!(check((0..512).map(|index| if index % 64 == 5 { 1.0 / 3.0 } else { 2.5 })) < 3.0);
        for odd in [-0.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, 5e-324, f64::MAX, f64::MIN, 1e22] {
            check([odd].into_iter());
            check((0..100).map(|index| if index % 10 == 3 { odd } else { f64::from(index) / 8.0 }));
            check((0..100).map(|index| if index % 2 == 1 { odd } else { 0.3 }));
        }
        for count in 1..70 {
            check((0..count).map(|_| random.below(20) as f64 * 1e14));
            check((0..count).map(|index| 9_007_199_254_740_992.0 * if index % 2 == 0 { 1.0 } else { -1.0 }));
        }
    }

    #[test]
    fn time_stamps_of_all_kinds_read_back() {
        let mut random = Random::new(2);
        let mut time = 0;
        let samples: Vec<Sample> = (0..512)
            .map(|index| {
                time +=
                    1 + (random.next() >> random.below(64)).min((u64::MAX - time) / 1000) / (1 + index % 7);
                Sample { time, value: 1.0 }
            })
            .collect();
        let mut read = Vec::new();
        Chunk::new(&samples).expect("there are samples").read(&mut read);
        assert_eq!(read, samples);
    }
}
