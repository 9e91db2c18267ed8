//! A run of neighbouring samples, compressed.
//!
//! ```text
//! words: | time stamps, packed | values |
//! ```
//!
//! Time stamps are kept as what each is off a line from the first to the last, or as their distances,
//! whichever takes fewer bits. On a line, a time is read and looked for without those before it.
//!
//! Encoding is exact: what is read back has the same bits. Both directions are linear.

use std::ops::Range;

use super::packed::{Frame, SIGN, pack, unpack};
use super::values::Values;
use super::{Sample, class_size};

/// Times that are this far apart lie on no line.
const LINE_SPAN_MAX: u64 = 1 << 60;

/// What is known of samples without reading them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The number of samples, not 0.
    pub count: u32,
    /// Of these, those that are NaN. If there are any, the values below are not to be used.
    pub nans: u32,
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
    #[inline]
    pub fn of(samples: &[Sample]) -> Option<Summary> {
        let (&first, &last) = (samples.first()?, samples.last()?);
        let mut summary = Summary {
            count: samples.len() as u32,
            nans: 0,
            first,
            last,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            sum: 0.0,
        };
        for sample in samples {
            summary.nans += u32::from(sample.value.is_nan());
            // No comparison with NaN is true.
            summary.min = if sample.value < summary.min { sample.value } else { summary.min };
            summary.max = if sample.value > summary.max { sample.value } else { summary.max };
            summary.sum += sample.value;
        }
        if summary.nans == summary.count {
            (summary.min, summary.max) = (first.value, first.value);
        }
        Some(summary)
    }

    /// How far samples are from each other on a line from the first to the last; `None` if none is drawn.
    fn step(&self) -> Option<u64> {
        let (first, last) = (self.first.time, self.last.time);
        let gaps = u64::from(self.count) - 1;
        let is_near = i64::try_from(last).is_ok() && last - first < LINE_SPAN_MAX;
        is_near.then(|| (last - first + gaps / 2).checked_div(gaps).unwrap_or(1))
    }
}

/// A compressed run of samples in the order of time. Not empty.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) summary: Summary,
    /// Of the distances from the line, or of those from one to the next.
    times: Frame,
    is_on_line: bool,
    values: Values,
    words: Box<[u64]>,
}

// Together with the counts of references it fills an allocation of 128 bytes.
const _: () = assert!(size_of::<Chunk>() == 112);

impl Chunk {
    /// That of samples, no more than 65535; `None` if there is none.
    pub(super) fn new(samples: &[Sample]) -> Option<Chunk> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has been found to have the instructions.
            return unsafe { Self::pack_avx2(samples) };
        }
        Self::pack(samples)
    }

    /// [`Chunk::pack`] with loops that look at several samples at once.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn pack_avx2(samples: &[Sample]) -> Option<Chunk> {
        Self::pack(samples)
    }

    #[inline(always)]
    fn pack(samples: &[Sample]) -> Option<Chunk> {
        let summary = Summary::of(samples)?;
        let mut words = Vec::new();
        let distances: Vec<u64> = samples.windows(2).map(|pair| pair[1].time - pair[0].time).collect();
        let mut times = Frame::of(&distances);
        let line: Option<Vec<u64>> = summary.step().map(|step| {
            let line = Line { first: summary.first.time, step, frame: Frame::default(), words: &[] };
            let on_line = samples.iter().zip(0..).map(|(sample, index)| line.off(sample.time, index));
            on_line.collect()
        });
        let line = line.map(|line| (Frame::of_all(&line), line));
        let line = line.filter(|(frame, _)| frame.words(samples.len()) <= times.words(distances.len()));
        match &line {
            Some((frame, line)) => {
                times = frame.with_base(SIGN);
                pack(*frame, line, &mut words);
            }
            None => pack(times, &distances, &mut words),
        }
        let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
        let values = Values::pack(&values, &mut words);
        let is_on_line = line.is_some();
        Some(Chunk { summary, times, is_on_line, values, words: words.into_boxed_slice() })
    }

    pub(super) fn len(&self) -> usize {
        self.summary.count as usize
    }

    /// Bytes of the allocation that it has beside its own.
    pub(super) fn bytes(&self) -> usize {
        8 * self.words.len()
    }

    /// How many samples like these, up to `count`, fill their allocation best.
    pub(super) fn fitting(&self, count: usize) -> usize {
        /// Bytes below which there is little to win.
        const BYTES_MIN: usize = 256;
        let per_sample = self.bytes() as f64 / f64::from(self.summary.count);
        let bytes = (per_sample * count as f64) as usize;
        if bytes < BYTES_MIN || class_size(bytes) - bytes < bytes / 64 {
            return count;
        }
        // Sizes of allocations are four between one power of two and the next.
        let spacing = (bytes.next_power_of_two() / 8).max(1);
        let lower = bytes / spacing * spacing;
        // The last word is not full.
        ((lower.saturating_sub(16) as f64 / per_sample) as usize).clamp(count / 2, count)
    }

    /// The words of the time stamps, and of the values.
    fn parts(&self) -> (&[u64], &[u64]) {
        let count = if self.is_on_line { self.len() } else { self.len() - 1 };
        self.words.split_at(self.times.words(count))
    }

    /// Its time stamps; those on no line are put into `times`.
    pub(super) fn stamps<'s>(&'s self, times: &'s mut Vec<u64>) -> Stamps<'s> {
        match self.summary.step().filter(|_| self.is_on_line) {
            Some(step) => {
                let words = self.parts().0;
                let line = Line { first: self.summary.first.time, step, frame: self.times, words };
                Stamps::Line(line, self.summary.last.time)
            }
            None => {
                times.clear();
                self.read_times(times);
                Stamps::Listed(times)
            }
        }
    }

    /// Appends its times.
    fn read_times(&self, times: &mut Vec<u64>) {
        let (start, count) = (times.len(), self.len());
        let words = self.parts().0;
        let mut time = self.summary.first.time;
        if let Some(step) = self.summary.step().filter(|_| self.is_on_line) {
            times.resize(start + count, 0);
            unpack(self.times, words, &mut times[start..]);
            for place in &mut times[start..] {
                *place = time.wrapping_add(*place);
                time = time.wrapping_add(step);
            }
            return;
        }
        times.resize(start + count, time);
        unpack(self.times, words, &mut times[start + 1..]);
        for distance in &mut times[start + 1..] {
            time = time.wrapping_add(*distance);
            *distance = time;
        }
    }

    /// Puts its values in the place of others.
    pub(super) fn read_values(&self, values: &mut Vec<f64>) {
        values.resize(self.len(), 0.0);
        self.values.read(self.parts().1, values);
    }

    /// Appends its samples.
    pub(super) fn read_samples(&self, out: &mut Vec<Sample>) {
        let (mut times, mut values) = (Vec::with_capacity(self.len()), Vec::with_capacity(self.len()));
        self.read_times(&mut times);
        self.read_values(&mut values);
        out.extend(std::iter::zip(times, values).map(|(time, value)| Sample { time, value }));
    }
}

/// Times near a line.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    first: u64,
    /// From a sample to the next, not 0.
    step: u64,
    frame: Frame,
    words: &'a [u64],
}

impl Line<'_> {
    /// How much later a time is than on the line, in the order of unsigned numbers.
    fn off(&self, time: u64, index: u64) -> u64 {
        time.wrapping_sub(self.first.wrapping_add(index * self.step)) ^ SIGN
    }

    #[inline]
    fn time_at(&self, index: usize) -> u64 {
        let on_line = self.first.wrapping_add((index as u64).wrapping_mul(self.step));
        on_line.wrapping_add(self.frame.value_at(index, self.words))
    }

    /// The first index in a range whose time is not before `time`, or its end. Looks only at those which the
    /// line leaves in doubt.
    #[inline]
    fn position(&self, range: Range<usize>, time: u64) -> usize {
        let place = |distance: i64| {
            let step = self.step.cast_signed();
            let index = distance.max(0).saturating_add(step - 1) / step;
            (index as usize).clamp(range.start, range.end)
        };
        let distance = time.cast_signed() - self.first.cast_signed() - self.frame.base().cast_signed();
        let end = place(distance);
        let mut from = place(distance - self.frame.span().cast_signed());
        let mut to = end;
        while from < to {
            let middle = from.midpoint(to);
            if self.time_at(middle) < time {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }
}

/// Times in their order.
pub(super) enum Stamps<'a> {
    /// Near a line, with the latest.
    Line(Line<'a>, u64),
    /// One after the other.
    Listed(&'a [u64]),
}

impl Stamps<'_> {
    /// The time at an index.
    #[inline]
    pub(super) fn at(&self, index: usize) -> u64 {
        match self {
            Stamps::Line(line, _) => line.time_at(index),
            Stamps::Listed(times) => times[index],
        }
    }

    /// The first index in a range whose time is not before `time`, or its end. Costs the logarithm of the
    /// distance at most.
    #[inline]
    pub(super) fn position(&self, range: Range<usize>, time: u64) -> usize {
        match self {
            Stamps::Line(_, last) if time > *last => range.end,
            Stamps::Line(line, _) if time <= line.first => range.start,
            Stamps::Line(line, _) => line.position(range, time),
            Stamps::Listed(times) => range.start + count_before(&times[range], time),
        }
    }
}

/// The number of times that are before `end`, of times in their order. Costs the logarithm of that number.
fn count_before(times: &[u64], end: u64) -> usize {
    if times.first().is_none_or(|&time| time >= end) {
        return 0;
    }
    let mut step = 1;
    while times.get(step).is_some_and(|&time| time < end) {
        step *= 2;
    }
    let (from, to) = (step / 2, step.min(times.len()));
    from + times[from..to].partition_point(|&time| time < end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::values::power_of_two;
    use crate::test_random::Random;

    /// Bits for each value, without those of time stamps.
    fn check(values: impl Iterator<Item = f64>) -> f64 {
        let samples: Vec<Sample> = values
            .zip(0..)
            .map(|(value, index)| Sample { time: 1_700_000_000_000 + index * 1000, value })
            .collect();
        let chunk = Chunk::new(&samples).expect("there are samples");
        let mut read = Vec::new();
        chunk.read_samples(&mut read);
        let bits = |list: &[Sample]| -> Vec<(u64, u64)> {
            list.iter().map(|sample| (sample.time, sample.value.to_bits())).collect()
        };
        assert_eq!(bits(&read), bits(&samples));
        8.0 * chunk.bytes() as f64 / samples.len() as f64
    }

    #[test]
    fn extremes_are_those_of_numbers() {
        let extremes = |values: &[f64]| {
            let sample = |(time, &value)| Sample { time: time as u64, value };
            let samples: Vec<Sample> = values.iter().enumerate().map(sample).collect();
            let summary = Chunk::new(&samples).expect("there are samples").summary;
            (summary.nans, summary.min.to_bits(), summary.max.to_bits())
        };
        let bits = |nans, min: f64, max: f64| (nans, min.to_bits(), max.to_bits());
        assert_eq!(extremes(&[f64::NAN, 2.0, 1.0]), bits(1, 1.0, 2.0));
        assert_eq!(extremes(&[-3.0, f64::NAN, f64::NAN]), bits(2, -3.0, -3.0));
        assert_eq!(extremes(&[f64::NAN; 3]), bits(3, f64::NAN, f64::NAN));
        let infinite = [f64::INFINITY, f64::NEG_INFINITY];
        assert_eq!(extremes(&infinite), bits(0, f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!(extremes(&infinite[..1]), bits(0, f64::INFINITY, f64::INFINITY));
    }

    #[test]
    fn values_of_all_kinds_read_back() {
        let mut random = Random::new(1);
        assert!(check((0..512).map(|_| random.below(1000) as f64 / 10.0)) < 10.5);
        assert!(check((0..512).map(|_| (random.below(100_000) as f64 - 5e4) / 100.0)) < 17.5);
        assert!(check((0..512).map(f64::from)) < 1.0);
        assert!(check((0..512).map(|_| random.next() as f64 / u64::MAX as f64)) < 60.0);
        assert!(check((0..512).map(|_| (random.next() >> 11) as f64 * power_of_two(-53))) < 54.5);
        // Those of either sign, zeros, and one with more places than those that are looked at first.
        let signed = |random: u64| (random >> 44).cast_signed() as f64 - 524_288.0;
        assert!(check((0..512).map(|_| signed(random.next()) * power_of_two(-37))) < 22.0);
        assert!(check((0..512).map(|index| if index % 3 == 0 { 0.0 } else { power_of_two(-30) })) < 10.0);
        let longer = |index| if index == 77 { 5.0 * power_of_two(-43) } else { signed(index) };
        assert!(check((0..512).map(|index| longer(index << 44) * power_of_two(-20))) < 60.0);
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
        Chunk::new(&samples).expect("there are samples").read_samples(&mut read);
        assert_eq!(read, samples);
    }
}
