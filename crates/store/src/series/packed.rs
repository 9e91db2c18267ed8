//! Integers of few bits, back to back in words, less a base; those that do not fit are exceptions.
//!
//! ```text
//! words: | value 0, value 1, ... of `width` bits, from the lowest bit on | exceptions |
//! exception: | index (u64) | value less base (u64) |
//! ```
//!
//! The width is the one that takes the fewest bits, exceptions included. Reading costs a load a value
//! that need not be aligned, or two beyond 57 bits.

/// Bits of an exception.
const EXCEPTION_BITS: usize = 128;

/// Changes the order of signed numbers to that of unsigned ones.
pub(super) const SIGN: u64 = 1 << 63;

/// What has to be known to read the words back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, packed(4))]
pub(super) struct Frame {
    /// Subtracted from each value.
    base: u64,
    exceptions: u16,
    /// Bits of a value.
    width: u8,
}

const _: () = assert!(size_of::<Frame>() == 12);

impl Frame {
    /// The base, and the width with the fewest bits, of no more than 65535 values.
    pub(super) fn of(values: &[u64]) -> Frame {
        let Some(&base) = values.iter().min() else { return Frame::default() };
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
        Frame { base, width: best.1, exceptions: best.2 }
    }

    /// The same without exceptions.
    pub(super) fn of_all(values: &[u64]) -> Frame {
        let Some(&base) = values.iter().min() else { return Frame::default() };
        let most = values.iter().max().map_or(0, |most| most - base);
        Frame { base, width: (64 - most.leading_zeros()) as u8, exceptions: 0 }
    }

    /// The same, of values that are larger by `base` than those packed.
    pub(super) fn with_base(self, base: u64) -> Frame {
        Frame { base: self.base.wrapping_add(base), ..self }
    }

    /// Words that `count` values take.
    pub(super) fn words(self, count: usize) -> usize {
        packed_words(count, self.width) + 2 * usize::from(self.exceptions)
    }

    /// The least value.
    pub(super) fn base(self) -> u64 {
        self.base
    }

    /// Whether values are further from the base than the width says.
    pub(super) fn has_exceptions(self) -> bool {
        self.exceptions > 0
    }

    /// No value that is no exception is further from the base.
    pub(super) fn span(self) -> u64 {
        mask(self.width)
    }

    /// The value at an index, where there are no exceptions.
    #[inline]
    pub(super) fn value_at(self, index: usize, words: &[u64]) -> u64 {
        let width = usize::from(self.width);
        if width == 0 {
            return self.base;
        }
        let (word, shift) = (index * width / 64, index * width % 64);
        let mut value = words[word] >> shift;
        if shift + width > 64 {
            value |= words[word + 1] << (64 - shift);
        }
        (value & mask(self.width)).wrapping_add(self.base)
    }
}

fn packed_words(count: usize, width: u8) -> usize {
    (count * usize::from(width)).div_ceil(64)
}

#[inline]
fn mask(width: u8) -> u64 {
    if width == 64 { u64::MAX } else { (1 << width) - 1 }
}

/// Appends the values, whose frame this is.
pub(super) fn pack(frame: Frame, values: &[u64], words: &mut Vec<u64>) {
    let (start, width, mask) = (words.len(), usize::from(frame.width), mask(frame.width));
    let (mut exceptions, base) = (Vec::new(), frame.base);
    // What is not in `words` yet: so many bits of a word.
    let (mut word, mut filled) = (0, 0);
    for (index, &value) in values.iter().enumerate() {
        let mut value = value.wrapping_sub(base);
        if value > mask {
            exceptions.extend([index as u64, value]);
            value = 0;
        }
        word |= value << filled;
        filled += width;
        if filled >= 64 {
            words.push(word);
            filled -= 64;
            word = if filled == 0 { 0 } else { value >> (width - filled) };
        }
    }
    if filled > 0 {
        words.push(word);
    }
    debug_assert_eq!(words.len() - start, packed_words(values.len(), frame.width));
    words.extend(exceptions);
}

/// What is made of a value that is read. Builds without optimisation across units leave closures calls.
pub(super) trait Form: Copy {
    type Value: Copy;

    fn of(self, value: u64) -> Self::Value;
}

/// The value as it is.
#[derive(Clone, Copy)]
pub(super) struct Plain;

impl Form for Plain {
    type Value = u64;

    #[inline(always)]
    fn of(self, value: u64) -> u64 {
        value
    }
}

/// Appends what a form makes of the `count` values that [`pack`] has put into these words.
#[inline(always)]
pub(super) fn unpack<F: Form>(frame: Frame, count: usize, words: &[u64], out: &mut Vec<F::Value>, form: F) {
    let start = out.len();
    out.resize(start + count, form.of(frame.base));
    let all = &mut out[start..];
    let plain = Frame { exceptions: 0, ..frame };
    if frame.width > 0 {
        let direct = unpack_direct(frame, words, all, form);
        for (index, place) in all.iter_mut().enumerate().skip(direct) {
            *place = form.of(plain.value_at(index, words));
        }
    }
    let packed = packed_words(count, frame.width);
    for exception in words[packed..packed + 2 * usize::from(frame.exceptions)].chunks_exact(2) {
        all[exception[0] as usize] = form.of(exception[1].wrapping_add(frame.base));
    }
}

/// Reads values from the first on as long as eight bytes from the byte where a value begins hold it and are
/// there. Returns how many these are.
#[inline(always)]
fn unpack_direct<F: Form>(frame: Frame, words: &[u64], out: &mut [F::Value], form: F) -> usize {
    /// With up to 7 bits of the value before, these fit in 64.
    const WIDTH_MAX: usize = 57;
    let (width, mask, base) = (usize::from(frame.width), mask(frame.width), frame.base);
    let bytes = size_of_val(words);
    if cfg!(target_endian = "big") || width > WIDTH_MAX || bytes < size_of::<u64>() {
        return 0;
    }
    let bit_max = 8 * (bytes - size_of::<u64>()) + 7;
    let direct = out.len().min(bit_max / width + 1);
    debug_assert!(direct.saturating_sub(1) * width / 8 + size_of::<u64>() <= bytes);
    let start: *const u8 = words.as_ptr().cast();
    let mut bit = 0_usize;
    for place in &mut out[..direct] {
        // SAFETY: `bit` is at most `bit_max`, so the eight bytes from its own on lie in `words`.
        let word = unsafe { start.wrapping_add(bit / 8).cast::<u64>().read_unaligned() };
        *place = form.of((word >> (bit % 8) & mask).wrapping_add(base));
        bit = bit.wrapping_add(width);
    }
    direct
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
                let frame = Frame::of(&values);
                pack(frame, &values, &mut words);
                assert_eq!(words.len(), 3 + frame.words(count));
                let mut read = vec![9];
                unpack(frame, count, &words[3..], &mut read, Plain);
                assert_eq!(read[1..], values);
                let (frame, mut words) = (Frame::of_all(&values), Vec::new());
                pack(frame, &values, &mut words);
                assert_eq!(words.len(), frame.words(count));
                let read: Vec<u64> = (0..count).map(|index| frame.value_at(index, &words)).collect();
                assert_eq!(read, values);
            }
        }
    }

    #[test]
    fn an_outlier_does_not_widen_all() {
        let mut values = vec![1000; 512];
        values[100] = 1 << 40;
        let (frame, mut words) = (Frame::of(&values), Vec::new());
        pack(frame, &values, &mut words);
        assert_eq!(frame, Frame { base: 1000, width: 0, exceptions: 1 });
        assert_eq!(words.len(), 2);
    }
}
