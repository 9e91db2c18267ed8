//! Integers of few bits, back to back in words, less a base; those that do not fit are exceptions.
//!
//! ```text
//! words: | value 0, value 1, ... of `width` bits, from the lowest bit on | exceptions |
//! exception: | index (u64) | value less base (u64) |
//! ```
//!
//! The width is the one that takes the fewest bits, exceptions included. Reading costs a load a value
//! that need not be aligned, or two beyond 57 bits.

/// With up to 7 bits of the value before, so many fit in 64.
const DIRECT_WIDTH_MAX: usize = 57;

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
    #[inline(always)]
    pub(super) fn of(values: &[u64]) -> Frame {
        let all = Self::of_all(values);
        let (base, mut width, mut best) = (all.base, all.width, all);
        let mut best_bits = values.len() * usize::from(width);
        while width > 0 {
            // Those of the largest width become exceptions. The next width is that of the others.
            let limit = 1 << (width - 1);
            let (mut above, mut others) = (0_u64, 0);
            for value in values {
                let value = value - base;
                above += u64::from(value >= limit);
                others |= if value >= limit { 0 } else { value };
            }
            let exceptions = above as usize * EXCEPTION_BITS;
            if exceptions >= best_bits {
                break;
            }
            width = bits_of(others);
            let bits = values.len() * usize::from(width) + exceptions;
            if bits < best_bits {
                (best_bits, best) = (bits, Frame { base, width, exceptions: above as u16 });
            }
        }
        best
    }

    /// The same without exceptions.
    #[inline(always)]
    pub(super) fn of_all(values: &[u64]) -> Frame {
        if values.is_empty() {
            return Frame::default();
        }
        let base = values.iter().copied().fold(u64::MAX, u64::min);
        let all = values.iter().fold(0, |all, value| all | (value - base));
        Frame { base, width: bits_of(all), exceptions: 0 }
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

    /// No value that is no exception is further from the base.
    pub(super) fn span(self) -> u64 {
        mask(self.width)
    }

    /// Signed integers between which all values are; `None` if there are exceptions, or too many bits.
    pub(super) fn bounds(self) -> Option<(u64, u64)> {
        let is_near = self.exceptions == 0 && self.span() < SIGN;
        let most = self.base.cast_signed().checked_add(self.span().cast_signed());
        Some((self.base, most?.cast_unsigned())).filter(|_| is_near)
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

/// Bits of a value from the lowest to the highest that is set.
fn bits_of(value: u64) -> u8 {
    (u64::BITS - value.leading_zeros()) as u8
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
    if frame.width == 0 && frame.exceptions == 0 {
        return;
    }
    let (start, width, mask) = (words.len(), usize::from(frame.width), mask(frame.width));
    words.reserve(frame.words(values.len()));
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

/// Fills `out` with the values that [`pack`] has put into these words.
pub(super) fn unpack(frame: Frame, words: &[u64], out: &mut [u64]) {
    let plain = Frame { exceptions: 0, ..frame };
    if frame.width == 0 {
        out.fill(frame.base);
    } else {
        let mut done = 0;
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has been found to have the instructions.
            done = unsafe { avx2::unpack_groups(frame, words, out) };
        }
        done += unpack_direct(frame, words, done, &mut out[done..]);
        for (index, place) in out.iter_mut().enumerate().skip(done) {
            *place = plain.value_at(index, words);
        }
    }
    let packed = packed_words(out.len(), frame.width);
    for exception in words[packed..packed + 2 * usize::from(frame.exceptions)].chunks_exact(2) {
        out[exception[0] as usize] = exception[1].wrapping_add(frame.base);
    }
}

/// Reads values from the index `first` on as long as eight bytes from the byte where a value begins hold it
/// and are there. Returns how many these are.
fn unpack_direct(frame: Frame, words: &[u64], first: usize, out: &mut [u64]) -> usize {
    let (width, mask, base) = (usize::from(frame.width), mask(frame.width), frame.base);
    let bytes = size_of_val(words);
    if cfg!(target_endian = "big") || width > DIRECT_WIDTH_MAX || bytes < size_of::<u64>() {
        return 0;
    }
    let bit_max = 8 * (bytes - size_of::<u64>()) + 7;
    let direct = out.len().min((bit_max / width + 1).saturating_sub(first));
    debug_assert!(direct == 0 || (first + direct - 1) * width / 8 + size_of::<u64>() <= bytes);
    let start: *const u8 = words.as_ptr().cast();
    let mut bit = first * width;
    for place in &mut out[..direct] {
        // SAFETY: `bit` is at most `bit_max`, so the eight bytes from its own on lie in `words`.
        let word = unsafe { start.wrapping_add(bit / 8).cast::<u64>().read_unaligned() };
        *place = (word >> (bit % 8) & mask).wrapping_add(base);
        bit = bit.wrapping_add(width);
    }
    direct
}

/// Eight values at a time with AVX2.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{DIRECT_WIDTH_MAX, Frame, mask};

    /// Values of a group. They take `width` bytes, so all groups have their values at the same bits.
    const GROUP: usize = 8;

    /// Where the values of a group lie. A pair of them is in the 16 bytes from the byte where its first
    /// begins.
    #[repr(align(32))]
    struct Places {
        /// Selects the eight bytes of each value from those of its pair.
        bytes: [[u8; 32]; 2],
        /// Bits below each value in its eight bytes.
        shifts: [[u64; 4]; 2],
        /// The first byte of each pair.
        pairs: [usize; GROUP / 2],
    }

    impl Places {
        const fn of(width: usize) -> Places {
            let mut places = Places { bytes: [[0; 32]; 2], shifts: [[0; 4]; 2], pairs: [0; GROUP / 2] };
            let mut value = 0;
            while value < GROUP {
                let (pair, bit) = (value / 2, value * width);
                if value.is_multiple_of(2) {
                    places.pairs[pair] = bit / 8;
                }
                let from = bit / 8 - places.pairs[pair];
                let mut byte = 0;
                while byte < 8 {
                    places.bytes[value / 4][value % 4 * 8 + byte] = (from + byte) as u8;
                    byte += 1;
                }
                places.shifts[value / 4][value % 4] = (bit % 8) as u64;
                value += 1;
            }
            places
        }
    }

    static PLACES: [Places; DIRECT_WIDTH_MAX + 1] = {
        let mut all = [const { Places::of(0) }; DIRECT_WIDTH_MAX + 1];
        let mut width = 1;
        while width <= DIRECT_WIDTH_MAX {
            all[width] = Places::of(width);
            width += 1;
        }
        all
    };

    /// Reads values from the first on as long as the bytes of whole groups are there. Returns how many these
    /// are.
    #[target_feature(enable = "avx2")]
    pub(super) fn unpack_groups(frame: Frame, words: &[u64], out: &mut [u64]) -> usize {
        let width = usize::from(frame.width);
        let Some(Places { bytes, shifts, pairs }) = PLACES.get(width) else { return 0 };
        let from_last_pair = size_of_val(words).checked_sub(pairs[GROUP / 2 - 1] + size_of::<__m128i>());
        let Some(spare) = from_last_pair.filter(|_| width > 0) else { return 0 };
        let groups = (out.len() / GROUP).min(spare / width + 1);
        // SAFETY: arrays of 32 bytes.
        let load = |from: *const u8| unsafe { _mm256_loadu_si256(from.cast()) };
        let select = bytes.each_ref().map(|bytes| load(bytes.as_ptr()));
        let shift = shifts.each_ref().map(|shifts| load(shifts.as_ptr().cast()));
        let (mask, base) = (mask(frame.width).cast_signed(), frame.base.cast_signed());
        let (mask, base) = (_mm256_set1_epi64x(mask), _mm256_set1_epi64x(base));
        let mut group: *const u8 = words.as_ptr().cast();
        for places in out[..groups * GROUP].chunks_exact_mut(GROUP) {
            for half in 0..2 {
                // SAFETY: `group` is at most `spare` bytes from the first, so that the 16 bytes of its last
                // pair lie in `words`; half of `places` has 32 bytes.
                unsafe {
                    let low = _mm_loadu_si128(group.add(pairs[2 * half]).cast());
                    let high = _mm_loadu_si128(group.add(pairs[2 * half + 1]).cast());
                    let each = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), select[half]);
                    let values = _mm256_and_si256(_mm256_srlv_epi64(each, shift[half]), mask);
                    let place = places.as_mut_ptr().add(4 * half);
                    _mm256_storeu_si256(place.cast(), _mm256_add_epi64(values, base));
                }
            }
            group = group.wrapping_add(width);
        }
        groups * GROUP
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
            for count in (0..20).chain([63, 64, 65, 500]) {
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
                let mut read = vec![9; count];
                unpack(frame, &words[3..], &mut read);
                assert_eq!(read, values);
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
