//! Integers of few bits, back to back in words, less a base; those that do not fit are exceptions.
//!
//! ```text
//! words: | value 0, value 1, ... of `width` bits, from the lowest bit on | exceptions |
//! exception: | index (u64) | value less base (u64) |
//! ```
//!
//! The width is the one that takes the fewest bits, exceptions included. Reading costs two loads a value.

/// Bits of an exception.
const EXCEPTION_BITS: usize = 128;

/// What has to be known to read the words back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    /// Subtracted from each value.
    base: u64,
    /// Bits of a value.
    width: u8,
    exceptions: u16,
}

impl Frame {
    /// The same, of values that are larger by `base` than those packed.
    pub(super) fn with_base(self, base: u64) -> Frame {
        Frame { base: self.base.wrapping_add(base), ..self }
    }

    /// Words that `count` values take.
    pub(super) fn words(self, count: usize) -> usize {
        packed_words(count, self.width) + 2 * usize::from(self.exceptions)
    }
}

fn packed_words(count: usize, width: u8) -> usize {
    (count * usize::from(width)).div_ceil(64)
}

fn mask(width: u8) -> u64 {
    if width == 64 { u64::MAX } else { (1 << width) - 1 }
}

/// Appends the values, no more than 65535 of them.
pub(super) fn pack(values: &[u64], words: &mut Vec<u64>) -> Frame {
    let Some(frame) = frame_of(values) else { return Frame::default() };
    let (start, width) = (words.len(), usize::from(frame.width));
    words.resize(start + packed_words(values.len(), frame.width), 0);
    let mut exceptions = Vec::new();
    for (index, &value) in values.iter().enumerate() {
        let mut value = value.wrapping_sub(frame.base);
        if value > mask(frame.width) {
            exceptions.extend([index as u64, value]);
            value = 0;
        }
        if width > 0 {
            let bit = index * width;
            let (word, shift) = (start + bit / 64, bit % 64);
            words[word] |= value << shift;
            if shift + width > 64 {
                words[word + 1] |= value >> (64 - shift);
            }
        }
    }
    words.extend(exceptions);
    frame
}

/// The base, and the width with the fewest bits; `None` for no values.
fn frame_of(values: &[u64]) -> Option<Frame> {
    let base = *values.iter().min()?;
    let mut of_width = [0_usize; 65];
    values.iter().for_each(|value| of_width[64 - (value - base).leading_zeros() as usize] += 1);
    let mut best = (usize::MAX, 0_u8, 0_u16);
    let mut above = 0;
    for width in (0..=64_u8).rev() {
        let bits = values.len() * usize::from(width) + above * EXCEPTION_BITS;
        if bits < best.0 {
            best = (bits, width, above as u16);
        }
        above += of_width[usize::from(width)];
    }
    Some(Frame { base, width: best.1, exceptions: best.2 })
}

/// Appends the `count` values that [`pack`] has put into these words.
pub(super) fn unpack(frame: Frame, count: usize, words: &[u64], out: &mut Vec<u64>) {
    let start = out.len();
    let (width, mask) = (usize::from(frame.width), mask(frame.width));
    let packed = packed_words(count, frame.width);
    if width == 0 {
        out.resize(start + count, frame.base);
    } else {
        out.extend((0..count).map(|index| {
            let bit = index * width;
            let (word, shift) = (bit / 64, bit % 64);
            let mut value = words[word] >> shift;
            if shift + width > 64 {
                value |= words[word + 1] << (64 - shift);
            }
            (value & mask).wrapping_add(frame.base)
        }));
    }
    for exception in words[packed..packed + 2 * usize::from(frame.exceptions)].chunks_exact(2) {
        out[start + exception[0] as usize] = exception[1].wrapping_add(frame.base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::random_numbers;

    #[test]
    fn values_of_every_width_read_back() {
        let mut random = random_numbers(3);
        for width in 0..=64_u8 {
            for count in [0, 1, 2, 63, 64, 65, 500] {
                let mut values: Vec<u64> =
                    (0..count).map(|_| (random() & mask(width)).wrapping_add(1 << 63)).collect();
                if count > 60 {
                    values[7] = random();
                    values[50] = 0;
                }
                let mut words = vec![1, 2, 3];
                let frame = pack(&values, &mut words);
                assert_eq!(words.len(), 3 + frame.words(count));
                let mut read = vec![9];
                unpack(frame, count, &words[3..], &mut read);
                assert_eq!(read[1..], values);
            }
        }
    }

    #[test]
    fn an_outlier_does_not_widen_all() {
        let mut values = vec![1000; 512];
        values[100] = 1 << 40;
        let mut words = Vec::new();
        assert_eq!(pack(&values, &mut words), Frame { base: 1000, width: 0, exceptions: 1 });
        assert_eq!(words.len(), 2);
    }
}
