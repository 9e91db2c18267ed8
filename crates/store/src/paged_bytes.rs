//! A fixed number of bytes, for filters: pages that clones share until they change.
//!
//! A clone costs O(1). A change copies the page that it touches where that is shared, and what leads there. A
//! page that was never written to is all zeros and takes no memory but its place, eight bytes of
//! [`PAGE_BYTES`].

use mantissa_memory::{CowVec, SharedBytes};

/// Bytes of a page: with its header the allocation is a power of two.
pub(crate) const PAGE_BYTES: usize = (64 << 10) - SharedBytes::HEADER_BYTES;

/// More bytes than these are worth fetching ahead.
const LARGE_BYTES: usize = 256 << 10;

/// Zeroed bytes whose number does not change.
#[derive(Clone, Default, Debug)]
pub(crate) struct PagedBytes {
    pages: CowVec<SharedBytes>,
    len: usize,
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
        debug_assert!(at < self.len);
        self.pages.get(at / PAGE_BYTES).payload().get(at % PAGE_BYTES).copied().unwrap_or(0)
    }

    /// The byte at a place below the length, to change.
    #[inline]
    pub fn get_mut(&mut self, at: usize) -> &mut u8 {
        debug_assert!(at < self.len);
        &mut self.page_mut(at / PAGE_BYTES)[at % PAGE_BYTES]
    }

    /// The `N` bytes from a multiple of `N` on, which is 4 or 8; the last of them is below the length.
    #[inline]
    pub fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        const { assert!(PAGE_BYTES.is_multiple_of(N)) };
        debug_assert!(at.is_multiple_of(N) && at + N <= self.len);
        let page = self.pages.get(at / PAGE_BYTES).payload();
        page.get(at % PAGE_BYTES..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or([0; N])
    }

    /// The same to change.
    #[inline]
    pub fn array_mut<const N: usize>(&mut self, at: usize) -> &mut [u8; N] {
        const { assert!(PAGE_BYTES.is_multiple_of(N)) };
        debug_assert!(at.is_multiple_of(N) && at + N <= self.len);
        let bytes = self.page_mut(at / PAGE_BYTES)[at % PAGE_BYTES..].first_chunk_mut();
        bytes.expect("a page ends at a multiple of what is asked for")
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
        debug_assert_eq!(self.len, other.len);
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

/// Makes a page that has no memory of its own one that has.
#[cold]
fn make_own(page: &mut SharedBytes, len: usize) {
    *page = match page.payload() {
        [] => SharedBytes::zeroed(len),
        payload => SharedBytes::joined(&[payload]),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_a_vector_and_clones_keep_theirs() {
        for len in [1, 8, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 1, 5 * PAGE_BYTES + 77] {
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
    fn zeros_take_no_memory() {
        let mut bytes = PagedBytes::zeroed(1 << 30);
        assert!(bytes.memory_usage() < 1 << 20);
        bytes.write(1 << 29, &[0; 100_000]);
        assert!(bytes.memory_usage() < 1 << 20 && bytes.get(1 << 29) == 0);
    }
}
