//! A fixed number of bytes, for filters: pages that clones share until they change.
//!
//! A clone costs O(1). A change copies the page that it touches where that is shared, and what leads there. A
//! page that was never written to is all zeros and takes no memory but its place, eight bytes of
//! [`PAGE_BYTES`].

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;

use mantissa_memory::{CowVec, SharedBytes};

/// Bytes of a page: with its header the allocation is a power of two.
pub(crate) const PAGE_BYTES: usize = (64 << 10) - SharedBytes::HEADER_BYTES;

/// More bytes than these are worth fetching ahead.
const LARGE_BYTES: usize = 256 << 10;

/// What a void page is read as.
static ZEROS: [u64; 1] = [0];

/// Zeroed bytes whose number does not change.
#[derive(Clone, Default, Debug)]
pub(crate) struct PagedBytes {
    /// A page that is not void has all bytes below the length that lie in it.
    pages: CowVec<SharedBytes>,
    len: usize,
}

/// A number in the bytes, in the order of bytes of the machine.
///
/// # Safety
/// Every pattern of bits is one. Its size is a power of two up to 8, and its alignment no more than that.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: a plain number.
unsafe impl Plain for u8 {}
// SAFETY: a plain number.
unsafe impl Plain for u32 {}
// SAFETY: a plain number.
unsafe impl Plain for u64 {}

/// Bytes to change in any order. A page is made the holder's own where it is looked at, and stays in place.
pub(crate) struct OwnBytes<'a> {
    pages: Pages<'a>,
    len: usize,
    /// The cells that are given out, with which it stays on its thread.
    cells: PhantomData<&'a Cell<u8>>,
}

enum Pages<'a> {
    /// All of them.
    Few(&'a mut [SharedBytes]),
    Many(&'a mut CowVec<SharedBytes>),
}

impl<'a> OwnBytes<'a> {
    /// The number at a multiple of its size; all of it lies below the length.
    #[inline]
    pub fn cell<T: Plain>(&mut self, at: usize) -> &'a Cell<T> {
        check::<T>(at, self.len);
        let index = at / PAGE_BYTES;
        let page = match &mut self.pages {
            Pages::Few(pages) => &mut pages[index],
            Pages::Many(pages) => pages.get_mut(index),
        };
        let start = match page.own_payload_start() {
            Some(start) => start,
            None => make_own(page, (self.len - index * PAGE_BYTES).min(PAGE_BYTES)),
        };
        // SAFETY: the number lies within the page (`check`), which nobody else refers to; while the bytes are
        // borrowed none can be cloned, and none that is the holder's own is replaced. All that is given out
        // are cells.
        unsafe { start.add(at % PAGE_BYTES).cast().as_ref() }
    }
}

/// A number of this type begins at a multiple of its size, and all of it lies below the length. So it lies
/// within one page.
#[inline]
fn check<T: Plain>(at: usize, len: usize) {
    const { assert!(PAGE_BYTES.is_multiple_of(8) && SharedBytes::HEADER_BYTES.is_multiple_of(8)) };
    assert!(at.is_multiple_of(size_of::<T>()) && at < len && len - at >= size_of::<T>());
}

impl PagedBytes {
    /// So many zeros. Costs O(log pages), in time and memory.
    pub fn zeroed(len: usize) -> Self {
        PagedBytes { pages: CowVec::filled(len.div_ceil(PAGE_BYTES), &SharedBytes::default()), len }
    }

    /// How many bytes there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The byte at a place below the length.
    #[inline]
    pub fn get(&self, at: usize) -> u8 {
        *self.number(at)
    }

    /// The number at a multiple of its size; all of it lies below the length.
    #[inline]
    pub fn number<T: Plain>(&self, at: usize) -> &T {
        check::<T>(at, self.len);
        let index = at / PAGE_BYTES;
        let page = match self.pages.only_chunk() {
            Some(pages) => &pages[index],
            None => self.pages.get(index),
        };
        let place = match page.payload_start() {
            // SAFETY: the place lies within the page (`check`).
            Some(start) => unsafe { start.add(at % PAGE_BYTES) },
            None => NonNull::from(&ZEROS).cast(),
        };
        // SAFETY: the number lies within the page, which does not change while the bytes are borrowed; or it
        // is the beginning of the zeros.
        unsafe { place.cast().as_ref() }
    }

    /// All bytes, to change.
    #[inline]
    pub fn own(&mut self) -> OwnBytes<'_> {
        let len = self.len;
        let pages = if self.pages.only_chunk().is_some() {
            Pages::Few(self.pages.only_chunk_mut().unwrap_or_default())
        } else {
            Pages::Many(&mut self.pages)
        };
        OwnBytes { pages, len, cells: PhantomData }
    }

    /// The byte at a place below the length, to change.
    #[inline]
    pub fn get_mut(&mut self, at: usize) -> &mut u8 {
        debug_assert!(at < self.len);
        &mut self.page_mut(at / PAGE_BYTES)[at % PAGE_BYTES]
    }

    /// The bytes of a page, which may be more than are there; none if they are zeros that take no memory.
    #[inline]
    pub fn page(&self, index: usize) -> &[u8] {
        self.pages.get(index).payload()
    }

    /// All bytes, if they lie in one page; none if they are zeros that take no memory.
    #[inline]
    pub fn only_page(&self) -> Option<&[u8]> {
        (self.pages.len() == 1).then(|| self.pages.get(0).payload())
    }

    /// All bytes to change, if they lie in one page.
    #[inline]
    pub fn only_page_mut(&mut self) -> Option<&mut [u8]> {
        (self.pages.len() == 1).then(|| self.page_mut(0))
    }

    /// Appends the bytes of a range within the length.
    pub fn append_to(&self, mut from: usize, to: usize, out: &mut Vec<u8>) {
        while from < to {
            let start = from % PAGE_BYTES;
            let count = (PAGE_BYTES - start).min(to - from);
            match self.pages.get(from / PAGE_BYTES).payload() {
                [] => out.resize(out.len() + count, 0),
                page => out.extend_from_slice(&page[start..start + count]),
            }
            from += count;
        }
    }

    /// Puts bytes in the place of those from `at` on; the caller has seen that they fit. Zeros that meet a
    /// page of zeros take no memory.
    pub fn write(&mut self, mut at: usize, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let start = at % PAGE_BYTES;
            let (part, rest) = bytes.split_at((PAGE_BYTES - start).min(bytes.len()));
            let is_void = self.pages.get(at / PAGE_BYTES).payload().is_empty();
            if !is_void || part.iter().any(|&byte| byte != 0) {
                self.page_mut(at / PAGE_BYTES)[start..start + part.len()].copy_from_slice(part);
            }
            (at, bytes) = (at + part.len(), rest);
        }
    }

    /// Sets all bits that are set in another of the same length. Pages that only the other has are shared.
    pub fn unite(&mut self, other: &PagedBytes) {
        assert_eq!(self.len, other.len, "a page has all bytes below the length");
        for index in 0..self.pages.len() {
            let (mine, theirs) = (self.pages.get(index), other.pages.get(index));
            if theirs.payload().is_empty() || mine.address() == theirs.address() {
                continue;
            }
            if mine.payload().is_empty() {
                *self.pages.get_mut(index) = theirs.clone();
                continue;
            }
            let theirs = theirs.payload();
            self.page_mut(index).iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine |= theirs);
        }
    }

    /// The first place from `from` on that does not hold a zero. Pages of zeros that take no memory are
    /// stepped over whole.
    pub fn next_set(&self, from: usize) -> Option<usize> {
        let mut at = from;
        while at < self.len {
            let start = at % PAGE_BYTES;
            let page = self.pages.get(at / PAGE_BYTES).payload();
            if let Some(index) = page.iter().skip(start).position(|&byte| byte != 0) {
                return Some(at + index);
            }
            at += PAGE_BYTES - start;
        }
        None
    }

    /// Bytes taken, the structure itself not included. O(pages).
    pub fn memory_usage(&self) -> usize {
        let pages = (0..self.pages.len()).map(|index| self.pages.get(index).memory_usage());
        self.pages.memory_usage() + pages.sum::<usize>()
    }

    /// The number of pages.
    pub fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// A page that nobody else refers to.
    #[inline]
    fn page_mut(&mut self, index: usize) -> &mut [u8] {
        let page = self.pages.get_mut(index);
        if page.payload_mut().is_none() {
            make_own(page, (self.len - index * PAGE_BYTES).min(PAGE_BYTES));
        }
        page.payload_mut().expect("the page is no one else's and has a payload")
    }

    /// Fetches a byte ahead of its use.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        debug_assert!(at < self.len);
        let page = self.pages.get(at / PAGE_BYTES);
        mantissa_memory::prefetch(page.address().wrapping_add(SharedBytes::HEADER_BYTES + at % PAGE_BYTES));
    }

    /// Whether there is more than the caches near a core hold for long.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.len > LARGE_BYTES
    }
}

/// Makes a page that has no memory of its own one that has, and returns where that begins.
#[cold]
fn make_own(page: &mut SharedBytes, len: usize) -> NonNull<u8> {
    *page = match page.payload() {
        [] => SharedBytes::zeroed(len),
        payload => SharedBytes::joined(&[payload]),
    };
    page.own_payload_start().expect("the page is new and has a payload")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_a_vector_and_clones_keep_theirs() {
        // Also more pages than a chunk of their tree has.
        for len in [1, 8, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 1, 5 * PAGE_BYTES + 77, 70 * PAGE_BYTES] {
            let (mut bytes, mut model) = (PagedBytes::zeroed(len), vec![0u8; len]);
            let mut state = len as u64;
            let mut kept = Vec::new();
            for round in 0..300 {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                let at = (state >> 33) as usize % len;
                match round % 5 {
                    0 => {
                        let count = ((state >> 20) as usize % (2 * PAGE_BYTES)).min(len - at);
                        let data: Vec<u8> = (0..count).map(|index| (index % 251) as u8).collect();
                        bytes.write(at, &data);
                        model[at..at + count].copy_from_slice(&data);
                    }
                    1 if round % 50 == 1 => kept.push((bytes.clone(), model.clone())),
                    2 | 3 if len >= 8 => {
                        // A whole number, and a byte of it, at hand together.
                        let start = at.min(len - 8) & !7;
                        let mut own = bytes.own();
                        let (number, byte) = (own.cell::<u64>(start), own.cell::<u8>(start + at % 8));
                        assert_eq!(number.get().to_ne_bytes(), model[start..start + 8]);
                        number.set(number.get() ^ (state & 0xffff_ffff).to_le());
                        byte.set(byte.get() ^ 0x33);
                        let changes = (state as u32).to_le_bytes();
                        model[start..].iter_mut().zip(changes).for_each(|(byte, change)| *byte ^= change);
                        model[start + at % 8] ^= 0x33;
                        assert_eq!(bytes.number::<u32>(start).to_ne_bytes(), model[start..start + 4]);
                    }
                    _ => {
                        *bytes.get_mut(at) ^= 0x5a;
                        model[at] ^= 0x5a;
                    }
                }
                assert_eq!(bytes.get(at), model[at]);
            }
            for (bytes, model) in kept.into_iter().chain([(bytes, model)]) {
                let mut out = Vec::new();
                bytes.append_to(len / 3, len, &mut out);
                bytes.append_to(0, len / 3, &mut out);
                let set = |from: usize| model[from..].iter().position(|&byte| byte != 0).map(|at| from + at);
                assert_eq!([0, len / 2].map(|from| bytes.next_set(from)), [0, len / 2].map(set));
                assert!(out == [&model[len / 3..], &model[..len / 3]].concat());
            }
        }
    }

    #[test]
    #[should_panic(expected = "at < len")]
    fn a_number_beyond_the_end_is_refused() {
        PagedBytes::zeroed(12).number::<u64>(8);
    }

    #[test]
    fn zeros_take_no_memory() {
        let mut bytes = PagedBytes::zeroed(1 << 30);
        assert!(bytes.memory_usage() < 1 << 20);
        bytes.write(1 << 29, &[0; 100_000]);
        assert!(bytes.memory_usage() < 1 << 20 && bytes.get(1 << 29) == 0);
    }
}
