//! Bytes looked through and written in one pass, 16 at a time.
//!
//! The place of the next byte is handed on by value, so that it stays in a register: the length of a vector
//! behind a reference is read and written for every piece.

/// Bytes of one step.
pub(super) const STEP: usize = 16;

/// A bit for each byte of a step that ends a string or needs an escape: a quote, a backslash, a control
/// character.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn special_of_step(chunk: &[u8; STEP]) -> u32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    // SAFETY: SSE2 is part of x86-64, and the load reads the 16 bytes of the chunk.
    unsafe {
        let bytes = _mm_loadu_si128(chunk.as_ptr().cast());
        let quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"'.cast_signed()));
        let escapes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\'.cast_signed()));
        let controls = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quotes, escapes), controls)).cast_unsigned()
    }
}

/// How many bytes of a step come before the first of these.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn plain_of_step(chunk: &[u8; STEP]) -> usize {
    (special_of_step(chunk) | 1 << STEP).trailing_zeros() as usize
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

/// The same of two steps side by side.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn plain_of_two(chunk: &[u8; 2 * STEP]) -> usize {
    let (low, high) = chunk.as_chunks::<STEP>().0.split_at(1);
    let special = special_of_step(&low[0]) | special_of_step(&high[0]) << STEP;
    (u64::from(special) | 1 << (2 * STEP)).trailing_zeros() as usize
}

/// The same of two steps side by side.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) fn plain_of_two(chunk: &[u8; 2 * STEP]) -> usize {
    let (low, high) = chunk.as_chunks::<STEP>().0.split_at(1);
    match plain_of_step(&low[0]) {
        STEP => STEP + plain_of_step(&high[0]),
        plain => plain,
    }
}

/// The `N` bytes at a place of a text, if there are as many.
#[inline(always)]
pub(super) fn chunk_at<const N: usize>(text: &[u8], at: usize) -> Option<&[u8; N]> {
    // SAFETY: the bytes lie in the text.
    (text.len() >= N && at <= text.len() - N).then(|| unsafe { &*text.as_ptr().add(at).cast::<[u8; N]>() })
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

/// For each byte the text of its escape, and the length of that in the last place.
pub(super) type EscapeTexts = [[u8; 8]; 256];

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

    /// Writes a quote, the first `len` bytes of `text`, at most all, a quote and `behind`. It takes less time
    /// if 31 more can be read.
    #[inline(always)]
    pub fn quoted(&mut self, Place(at): Place, (text, len): (&[u8], usize), behind: u8) -> Place {
        const TWO: usize = 2 * STEP;
        let len = len.min(text.len());
        let needed = len + TWO + 3;
        if self.0.capacity() < at + needed {
            self.grow(at, needed);
        }
        // SAFETY: the room has 35 bytes more than the text behind `at`. Two steps are read where they lie in
        // the text, and otherwise the text alone; the bytes behind it are written last.
        unsafe {
            let to = self.0.as_mut_ptr().add(at);
            to.write(b'"');
            let (to, from) = (to.add(1), text.as_ptr());
            // Most texts are short: two steps whatever the length are no branch.
            if len <= TWO && text.len() >= TWO {
                let chunk = from.cast::<[u8; TWO]>().read_unaligned();
                to.cast::<[u8; TWO]>().write_unaligned(chunk);
            } else {
                copy(to, from, len, text.len());
            }
            to.add(len).cast::<[u8; 2]>().write_unaligned([b'"', behind]);
        }
        Place(at + len + 3)
    }

    /// Writes a tag and the first `len` bytes of a chunk, at most all.
    #[inline(always)]
    pub fn tagged<const N: usize>(
        &mut self,
        Place(at): Place,
        tag: u8,
        chunk: &[u8; N],
        len: usize,
    ) -> Place {
        if self.0.capacity() < at + 1 + N {
            self.grow(at, 1 + N);
        }
        // SAFETY: the room has as many bytes as the tag and the chunk, all of which are written.
        unsafe {
            let to = self.0.as_mut_ptr().add(at);
            to.write(tag);
            to.add(1).cast::<[u8; N]>().write_unaligned(*chunk);
        }
        Place(at + 1 + len.min(N))
    }

    /// Gives a function bytes to write to, which are zeros, and keeps as many as it says. What it writes is
    /// not copied: reading several short writes back as one waits for all of them.
    #[inline(always)]
    pub fn with_room<const N: usize>(
        &mut self,
        Place(at): Place,
        write: impl FnOnce(&mut [u8; N]) -> usize,
    ) -> Place {
        if self.0.capacity() < at + N {
            self.grow(at, N);
        }
        // SAFETY: the room has N bytes at least behind `at`, which are written before they are borrowed.
        let room = unsafe {
            let room = self.0.as_mut_ptr().add(at).cast::<[u8; N]>();
            room.write([0; N]);
            &mut *room
        };
        Place(at + write(room).min(N))
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
            // A branch, so that the next step need not wait for the bytes of this one.
            if plain < STEP || end - at < STEP {
                let count = plain.min(end - at);
                return (at + count, self.put(place, chunk, count));
            }
            place = self.put(place, chunk, STEP);
            at += STEP;
        }
        (at, place)
    }

    /// Writes `bytes[at..end]` with the escapes that its bytes need. Bytes behind `end` may be read.
    #[inline]
    pub fn escaped(
        &mut self,
        mut place: Place,
        bytes: &[u8],
        mut at: usize,
        end: usize,
        texts: &EscapeTexts,
    ) -> Place {
        let end = end.min(bytes.len());
        loop {
            (at, place) = self.plain_up_to(place, bytes, at, end);
            if at >= end {
                return place;
            }
            let text = &texts[usize::from(bytes[at])];
            place = self.put(place, text, usize::from(text[7]));
            at += 1;
        }
    }

    /// [`Sink::plain`], with room for all bytes from the beginning. `end` lies in `bytes`.
    #[inline(always)]
    fn plain_up_to(&mut self, Place(len): Place, bytes: &[u8], at: usize, end: usize) -> (usize, Place) {
        let text = bytes.get(at..end).unwrap_or_default();
        let needed = text.len();
        if self.0.capacity() < len + needed {
            self.grow(len, needed);
        }
        let mut done = 0;
        // SAFETY: as many bytes are left to read, and the room has as many.
        unsafe {
            let (from, to) = (text.as_ptr(), self.0.as_mut_ptr().add(len));
            while done + STEP <= needed {
                let chunk = from.add(done).cast::<[u8; STEP]>().read_unaligned();
                to.add(done).cast::<[u8; STEP]>().write_unaligned(chunk);
                let plain = plain_of_step(&chunk);
                if plain < STEP {
                    return (at + done + plain, Place(len + done + plain));
                }
                done += STEP;
            }
        }
        self.plain(Place(len + done), bytes, at + done, end)
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

/// Copies `len` bytes. It takes less time if `readable` bytes, which are as many at least, have whole steps.
///
/// # Safety
///
/// So many bytes can be read at `from`, and whole steps with the bytes be written at `to`, which lies
/// elsewhere.
// A function of its own: as part of another it becomes one call of memcpy with what that copies itself.
#[inline(never)]
unsafe fn copy(to: *mut u8, from: *const u8, len: usize, readable: usize) {
    /// Longer texts are copied by a call.
    const CALL_MIN: usize = 128;
    debug_assert!(len <= readable);
    if len < CALL_MIN && len.next_multiple_of(STEP) <= readable {
        for step in (0..len).step_by(STEP) {
            // SAFETY: the step lies in what can be read and written.
            unsafe {
                let chunk = from.add(step).cast::<[u8; STEP]>().read_unaligned();
                to.add(step).cast::<[u8; STEP]>().write_unaligned(chunk);
            }
        }
    } else {
        // SAFETY: the bytes can be read and written.
        unsafe { to.copy_from_nonoverlapping(from, len) }
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
