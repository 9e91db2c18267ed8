//! A short copy-on-write vector behind a pointer of eight bytes.
//!
//! ```text
//! | references (u32) | capacity (u16) | length (u16) | items ... |
//! ```
//!
//! Clones share the allocation; a change copies it if it is shared. The allocation is large enough for the
//! items up to the next size class, and for up to two more items after some were removed.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::prefetch_lines;
use crate::ref_count::RefCount;
use crate::slab;

#[repr(C, align(8))]
struct Header {
    references: RefCount,
    capacity: u16,
    len: u16,
}

const HEADER_BYTES: usize = 8;
const _: () = assert!(size_of::<Header>() == HEADER_BYTES && align_of::<Header>() == 8);
const _: () = assert!(size_of::<CowSlice<u64>>() == 8);

/// Spare capacity, in items, that a removal leaves at most.
const SPARE_MAX: usize = 2;

/// A vector of up to 65,535 plain items, which its clones share until they change.
pub struct CowSlice<T> {
    start: Option<NonNull<Header>>,
    items: PhantomData<T>,
}

// SAFETY: the items are plain data; the count of the holders, who may be on other threads, is atomic.
unsafe impl<T: Send + Sync> Send for CowSlice<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for CowSlice<T> {}

impl<T> Default for CowSlice<T> {
    fn default() -> Self {
        CowSlice { start: None, items: PhantomData }
    }
}

impl<T: fmt::Debug + Copy> fmt::Debug for CowSlice<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(formatter)
    }
}

impl<T: Copy> FromIterator<T> for CowSlice<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let items: Vec<T> = items.into_iter().collect();
        let mut slice = Self::default();
        slice.extend_from_slice(&items);
        slice
    }
}

/// Bytes of the allocation for this number of items.
const fn allocation<T>(capacity: usize) -> usize {
    slab::class_size(HEADER_BYTES + capacity * size_of::<T>())
}

impl<T: Copy> CowSlice<T> {
    const ITEM_FITS: () = assert!(align_of::<T>() <= 8 && size_of::<T>() > 0);

    /// The items.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        let Some(start) = self.start else { return &[] };
        // SAFETY: the first `len` items are initialised, and nobody writes to them while this borrow lasts.
        unsafe {
            let len = usize::from(start.as_ref().len);
            std::slice::from_raw_parts(start.add(1).cast::<T>().as_ptr(), len)
        }
    }

    /// Prefetches the first bytes of the allocation.
    #[inline]
    pub fn prefetch(&self, bytes: usize) {
        let start = self.start.map_or(std::ptr::null(), |start| start.as_ptr().cast_const().cast::<u8>());
        prefetch_lines(start, 0..bytes);
    }

    /// The items, to change.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        self.make_own();
        let Some(start) = self.start else { return &mut [] };
        // SAFETY: as in `as_slice`; there is no other holder, and the borrow is exclusive.
        unsafe {
            let len = usize::from(start.as_ref().len);
            std::slice::from_raw_parts_mut(start.add(1).cast::<T>().as_ptr(), len)
        }
    }

    /// Adds an item before the one at `index`.
    pub fn insert(&mut self, index: usize, item: T) {
        let len = self.as_slice().len();
        self.extend_from_slice(&[item]);
        self.as_mut_slice()[index..=len].rotate_right(1);
    }

    /// Removes the item at `index`.
    pub fn remove(&mut self, index: usize) {
        let len = self.as_slice().len();
        self.as_mut_slice().copy_within(index + 1.., index);
        self.truncate(len - 1);
    }

    /// Moves the items from `index` on into another slice.
    pub fn split_off(&mut self, index: usize) -> Self {
        let tail = self.as_slice()[index..].iter().copied().collect();
        self.truncate(index);
        tail
    }

    /// Adds items at the end.
    pub fn extend_from_slice(&mut self, items: &[T]) {
        let () = Self::ITEM_FITS;
        let old = self.as_slice();
        let len = old.len() + items.len();
        if items.is_empty() {
            return;
        }
        if len > self.capacity() || self.is_shared() {
            *self = Self::with_items(old, len);
        }
        if let Some(mut start) = self.start {
            let old = len - items.len();
            // SAFETY: the allocation is large enough for `len` items and is this holder's alone.
            unsafe {
                let end = start.add(1).cast::<T>().add(old);
                end.copy_from_nonoverlapping(NonNull::from(items).cast(), items.len());
                start.as_mut().len = len as u16;
            }
        }
    }

    /// Bytes of the allocation.
    pub fn memory_usage(&self) -> usize {
        if self.start.is_none() { 0 } else { allocation::<T>(self.capacity()) }
    }

    fn capacity(&self) -> usize {
        // SAFETY: the pointer leads to a live header.
        self.start.map_or(0, |start| usize::from(unsafe { start.as_ref().capacity }))
    }

    #[inline]
    fn is_shared(&self) -> bool {
        // SAFETY: the pointer leads to a live header.
        self.start.is_some_and(|start| unsafe { !start.as_ref().references.is_unique() })
    }

    #[inline]
    fn make_own(&mut self) {
        if self.is_shared() {
            self.copy();
        }
    }

    #[cold]
    fn copy(&mut self) {
        *self = Self::with_items(self.as_slice(), self.as_slice().len());
    }

    fn truncate(&mut self, len: usize) {
        if len == 0 {
            *self = Self::default();
        } else if self.is_shared() || allocation::<T>(len + SPARE_MAX) < self.memory_usage() {
            *self = Self::with_items(&self.as_slice()[..len], len);
        } else if let Some(mut start) = self.start {
            // SAFETY: the header is live and this holder's alone; items need no drop.
            unsafe { start.as_mut().len = len as u16 };
        }
    }

    /// A slice of these items with a capacity of `capacity` items.
    fn with_items(items: &[T], capacity: usize) -> Self {
        let size = allocation::<T>(capacity);
        let capacity = u16::try_from((size - HEADER_BYTES) / size_of::<T>());
        let capacity = capacity.expect("a branch has few children");
        let start = slab::alloc(size).cast::<Header>();
        // SAFETY: the allocation is ours and large enough for the header and `capacity` items, of which there
        // are at least as many as given.
        unsafe {
            start.write(Header { references: RefCount::new(), capacity, len: items.len() as u16 });
            start.add(1).cast::<T>().copy_from_nonoverlapping(NonNull::from(items).cast(), items.len());
        }
        CowSlice { start: Some(start), items: PhantomData }
    }
}

impl<T> Clone for CowSlice<T> {
    fn clone(&self) -> Self {
        if let Some(start) = self.start {
            // SAFETY: the pointer leads to a live header.
            unsafe { start.as_ref().references.retain() };
        }
        CowSlice { start: self.start, items: PhantomData }
    }
}

impl<T> Drop for CowSlice<T> {
    fn drop(&mut self) {
        let Some(start) = self.start else { return };
        // SAFETY: the pointer leads to a live header; after the last release nobody else has the allocation.
        unsafe {
            let size = allocation::<T>(usize::from(start.as_ref().capacity));
            if start.as_ref().references.release() {
                slab::dealloc(start.cast(), size);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;

    #[test]
    fn behaves_like_a_vector_and_clones_stay() {
        let mut numbers = Random::new(77);
        let mut random = |bound: usize| numbers.below(bound);
        let (mut slice, mut model) = (CowSlice::default(), Vec::new());
        let mut clones = Vec::new();
        for _ in 0..5000 {
            let item = (random(1 << 40), random(99) as u32);
            let at = random(model.len() + 1);
            match random(8) {
                0..3 if model.len() < 40 => {
                    slice.insert(at, item);
                    model.insert(at, item);
                }
                3 if at < model.len() => {
                    slice.as_mut_slice()[at] = item;
                    model[at] = item;
                }
                4 => assert_eq!(slice.split_off(at).as_slice(), model.split_off(at)),
                5 if model.len() < 40 => {
                    slice.extend_from_slice(&[item, item]);
                    model.extend([item, item]);
                }
                6 => clones.push((slice.clone(), model.clone())),
                _ if at < model.len() => {
                    slice.remove(at);
                    model.remove(at);
                }
                _ => {}
            }
            assert_eq!(slice.as_slice(), model);
            if clones.len() > 5 {
                let (clone, model) = clones.remove(0);
                assert_eq!(clone.as_slice(), model);
            }
        }
    }
}
