//! Bytes looked through and written in one pass, 16 at a time.
//!
//! The place of the next byte is handed on by value, so that it stays in a register: the length of a vector
//! behind a reference is read and written for every piece.

/// Bytes of one step.
pub(super) const STEP: usize = 16;

/// How many bytes of a step come before one that ends a string or needs an escape: a quote, a backslash, a
/// control character.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn plain_of_step(chunk: &[u8; STEP]) -> usize {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    // SAFETY: SSE2 is part of x86-64, and the load reads the 16 bytes of the chunk.
    let special = unsafe {
        let bytes = _mm_loadu_si128(chunk.as_ptr().cast());
        let quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"'.cast_signed()));
        let escapes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\'.cast_signed()));
        let controls = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quotes, escapes), controls)).cast_unsigned()
    };
    (special | 1 << STEP).trailing_zeros() as usize
}

/// How many bytes of a step come before one that ends a string or needs an escape: a quote, a backslash, a
/// control character.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) fn plain_of_step(chunk: &[u8; STEP]) -> usize {
    const ONES: u128 = u128::MAX / 0xff;
    const TOPS: u128 = ONES << 7;
    let bytes = u128::from_le_bytes(*chunk);
    // A borrow marks bytes above the first that is special wrongly, never one below it.
    let zero_bytes = |word: u128| word.wrapping_sub(ONES) & !word & TOPS;
    let controls = bytes.wrapping_sub(ONES * 0x20) & !bytes & TOPS;
    let (quotes, escapes) = (zero_bytes(bytes ^ (ONES * 0x22)), zero_bytes(bytes ^ (ONES * 0x5c)));
    (quotes | escapes | controls).trailing_zeros() as usize / 8
}

/// Whether a byte ends a string or needs an escape.
#[inline]
pub(super) fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | ..0x20)
}

/// How many bytes of a text come before one that ends a string or needs an escape.
pub(super) fn plain_bytes(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = text[at..].first_chunk::<STEP>() {
        let plain = plain_of_step(chunk);
        at += plain;
        if plain < STEP {
            return at;
        }
    }
    at + text[at..].iter().position(|&byte| is_special(byte)).unwrap_or(text.len() - at)
}

/// Where the next byte of a [`Sink`] goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(usize);

/// A vector to which bytes are appended. Its length is what it was until [`Sink::finish`].
pub(super) struct Sink<'v>(&'v mut Vec<u8>);

impl<'v> Sink<'v> {
    /// Goes on behind what the vector holds.
    #[inline]
    pub fn new(out: &'v mut Vec<u8>) -> (Self, Place) {
        let place = Place(out.len());
        (Sink(out), place)
    }

    /// Ends the vector at this place, to which all has been written.
    #[inline]
    pub fn finish(self, Place(len): Place) {
        debug_assert!(len <= self.0.capacity());
        // SAFETY: places come of writing, so the bytes up to this one are there and have been written.
        unsafe { self.0.set_len(len.min(self.0.capacity())) }
    }

    /// Bytes before a place.
    #[inline(always)]
    pub fn len(&self, Place(len): Place) -> usize {
        len
    }

    /// What has been written before a place.
    #[inline]
    pub fn written(&mut self, Place(len): Place) -> &mut [u8] {
        debug_assert!(len <= self.0.capacity());
        // SAFETY: places come of writing, so the bytes up to this one are there and have been written.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr(), len.min(self.0.capacity())) }
    }

    /// The place so many bytes before another.
    #[inline]
    pub fn back(&self, Place(len): Place, count: usize) -> Place {
        Place(len.saturating_sub(count))
    }

    /// Writes the first `count` bytes of `chunk`, at most all, by one store of its size. Returns the place
    /// behind them.
    #[inline(always)]
    pub fn put<const N: usize>(&mut self, Place(len): Place, chunk: &[u8; N], count: usize) -> Place {
        if self.0.capacity() < len + N {
            self.grow(len, N);
        }
        // SAFETY: the room has N bytes at least behind `len`, all of which the chunk writes.
        unsafe { self.0.as_mut_ptr().add(len).cast::<[u8; N]>().write_unaligned(*chunk) }
        Place(len + count.min(N))
    }

    /// Writes `before`, the first `len` bytes of `text`, at most all, and `behind`. It takes less time if
    /// 15 more can be read.
    #[inline(always)]
    pub fn text_between(
        &mut self,
        Place(at): Place,
        before: u8,
        (text, len): (&[u8], usize),
        behind: [u8; 2],
    ) -> Place {
        /// Longer texts are copied by a call.
        const CALL_MIN: usize = 128;
        let len = len.min(text.len());
        let needed = len + STEP + 3;
        if self.0.capacity() < at + needed {
            self.grow(at, needed);
        }
        let steps = len.div_ceil(STEP);
        // SAFETY: the room has 19 bytes more than the text behind `at`. Its whole steps are read where they
        // all lie in the text, and otherwise the text alone; the bytes behind it are written last.
        unsafe {
            let to = self.0.as_mut_ptr().add(at);
            to.write(before);
            let (to, from) = (to.add(1), text.as_ptr());
            if len < CALL_MIN && steps * STEP <= text.len() {
                for step in 0..steps {
                    let chunk = from.add(step * STEP).cast::<[u8; STEP]>().read_unaligned();
                    to.add(step * STEP).cast::<[u8; STEP]>().write_unaligned(chunk);
                }
            } else {
                to.copy_from_nonoverlapping(from, len);
            }
            to.add(len).cast::<[u8; 2]>().write_unaligned(behind);
        }
        Place(at + len + 3)
    }

    /// Writes one byte.
    #[inline(always)]
    pub fn byte(&mut self, place: Place, byte: u8) -> Place {
        self.put(place, &[byte], 1)
    }

    /// Writes bytes.
    #[inline]
    pub fn all(&mut self, Place(len): Place, bytes: &[u8]) -> Place {
        if self.0.capacity() < len + bytes.len() {
            self.grow(len, bytes.len());
        }
        // SAFETY: the room has as many bytes behind `len`; what is borrowed shared lies elsewhere.
        unsafe { self.0.as_mut_ptr().add(len).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
        Place(len + bytes.len())
    }

    /// Writes `bytes[at..end]` up to a byte that ends a string or needs an escape. Returns where that stands,
    /// or `end`. Bytes behind `end` may be read.
    #[inline(always)]
    pub fn plain(&mut self, mut place: Place, bytes: &[u8], mut at: usize, end: usize) -> (usize, Place) {
        while at < end {
            let Some(chunk) = bytes[at..].first_chunk::<STEP>() else {
                return self.plain_rest(place, &bytes[..end], at);
            };
            let plain = plain_of_step(chunk);
            let count = plain.min(end - at);
            place = self.put(place, chunk, count);
            at += count;
            if count < STEP {
                break;
            }
        }
        (at, place)
    }

    /// The same where fewer than 16 bytes can be read.
    #[inline(never)]
    fn plain_rest(&mut self, place: Place, bytes: &[u8], at: usize) -> (usize, Place) {
        let rest = &bytes[at..];
        let plain = rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len());
        (at + plain, self.all(place, &rest[..plain]))
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, len: usize, bytes: usize) {
        debug_assert!(len <= self.0.capacity());
        let before = self.0.len();
        // SAFETY: places come of writing, so the bytes up to this one are there and have been written.
        unsafe { self.0.set_len(len.min(self.0.capacity())) }
        self.0.reserve(bytes);
        self.0.truncate(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_in_every_place_is_told_apart() {
        for byte in 0..=u8::MAX {
            for place in 0..40 {
                let mut bytes = vec![b'a'; 40];
                bytes[place] = byte;
                for (at, end) in [(0, 40), (1, 39), (0, 17), (20, 40), (3, 19), (7, 8), (9, 9)] {
                    let mut out = vec![1, 2, 3];
                    let (mut sink, first) = Sink::new(&mut out);
                    let (stopped, last) = sink.plain(first, &bytes, at, end);
                    sink.finish(last);
                    let plain = bytes[at..end].iter().position(|&byte| is_special(byte)).unwrap_or(end - at);
                    let context = format!("{byte} at {place} in {at}..{end}");
                    assert_eq!((&out[3..], stopped), (&bytes[at..at + plain], at + plain), "{context}");
                    assert_eq!(plain_bytes(&bytes[at..end]), plain, "{context}");
                }
            }
        }
    }
}
