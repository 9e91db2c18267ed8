//! A sorted array of integers of the least width (1 to 8 bytes) that has held them all, in one allocation.
//!
//! ```text
//! byte 0  allocation's size in bytes, a multiple of 8; its three lowest bits: width - 1 (u32)
//! byte 4  number of integers (u32)
//! byte 8  the integers, little-endian, rising
//! ```
//!
//! Bytes: 8, and the width for each, rounded up to a size class. Finding costs O(log n), adding and removing
//! move what follows.

use std::cmp::{Ordering, max};
use std::mem::{ManuallyDrop, forget};
use std::ptr::NonNull;

use mantissa_memory::slab;
use mantissa_memory::tagged_ptr::Thin;

use crate::packed::{decode_integer, width_of};

const HEADER: usize = 8;
const COUNT_AT: usize = 4;
const WIDTH_MASK: u32 = 7;
/// More integers are never kept in this form, so that sizes fit the header.
pub(super) const INTEGERS_MAX: usize = 1 << 28;

const _: () = assert!(slab::class_size(HEADER + (INTEGERS_MAX + 1) * 8) < u32::MAX as usize);
const _: () = assert!(size_of::<Integers>() == 8 && cfg!(target_endian = "little"));

/// A sorted array of integers. Without integers it has no allocation.
pub(super) struct Integers(*mut u8);

// SAFETY: it owns what it points to, and changes it only when borrowed exclusively.
unsafe impl Send for Integers {}
// SAFETY: as above.
unsafe impl Sync for Integers {}

// SAFETY: allocations are aligned to eight, or null.
unsafe impl Thin for Integers {
    fn into_raw(self) -> *mut u8 {
        let raw = self.0;
        forget(self);
        raw
    }

    unsafe fn from_raw(raw: *mut u8) -> Self {
        Integers(raw)
    }
}

/// The header's fields.
#[derive(Clone, Copy)]
struct Shape {
    capacity: usize,
    width: usize,
    len: usize,
}

impl Shape {
    fn size(self) -> usize {
        HEADER + self.len * self.width
    }
}

impl Integers {
    /// Without integers.
    pub(super) const EMPTY: Integers = Integers(std::ptr::null_mut());

    /// Of integers that rise.
    pub(super) fn of_rising(rising: &[i64]) -> Integers {
        let (Some(&first), Some(&last)) = (rising.first(), rising.last()) else { return Integers::EMPTY };
        debug_assert!(rising.is_sorted() && rising.len() <= INTEGERS_MAX);
        let width = max(1, max(width_of(first), width_of(last)));
        let capacity = slab::class_size(HEADER + rising.len() * width);
        let mut integers = Integers(slab::alloc(capacity).as_ptr());
        // SAFETY: the allocation is large enough for the header and as many integers of the width.
        unsafe {
            let target = integers.0.add(HEADER);
            for (index, integer) in rising.iter().enumerate() {
                let bytes = integer.to_le_bytes();
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.add(index * width), width);
            }
            integers.write_shape(Shape { capacity, width, len: rising.len() });
        }
        integers
    }

    #[inline]
    fn shape(&self) -> Shape {
        let Some(start) = NonNull::new(self.0) else { return Shape { capacity: 0, width: 1, len: 0 } };
        // SAFETY: the allocation starts with the header.
        let [sizes, len] = unsafe { start.cast::<[u32; 2]>().read() };
        Shape {
            capacity: (sizes & !WIDTH_MASK) as usize,
            width: (sizes & WIDTH_MASK) as usize + 1,
            len: len as usize,
        }
    }

    /// # Safety
    /// The allocation has this shape's capacity.
    unsafe fn write_shape(&mut self, shape: Shape) {
        debug_assert!(shape.size() <= shape.capacity && (1..=8).contains(&shape.width));
        // The capacity is a multiple of eight below 4 GiB, as is asserted for the largest number.
        let sizes = shape.capacity as u32 | (shape.width as u32 - 1);
        // SAFETY: the caller's promise.
        unsafe { self.0.cast::<[u32; 2]>().write([sizes, shape.len as u32]) };
    }

    /// The number of integers.
    #[inline]
    pub(super) fn len(&self) -> usize {
        // SAFETY: the allocation starts with the header.
        if self.0.is_null() { 0 } else { unsafe { self.0.add(COUNT_AT).cast::<u32>().read() as usize } }
    }

    /// Bytes of the allocation.
    pub(super) fn memory_usage(&self) -> usize {
        self.shape().capacity
    }

    /// The integers, for as long as the caller says.
    ///
    /// # Safety
    /// They stay alive and unchanged for that time.
    #[inline]
    pub(super) unsafe fn view_unbound<'a>(&self) -> Sorted<'a> {
        let shape = self.shape();
        if shape.len == 0 {
            return Sorted { bytes: &[], width: 1 };
        }
        // SAFETY: the integers lie behind the header.
        let bytes = unsafe { std::slice::from_raw_parts(self.0.add(HEADER), shape.size() - HEADER) };
        Sorted { bytes, width: shape.width }
    }

    /// The integers.
    #[inline]
    pub(super) fn view(&self) -> Sorted<'_> {
        // SAFETY: they are borrowed for as long as the result.
        unsafe { self.view_unbound() }
    }

    /// False if it is there already.
    pub(super) fn add(&mut self, integer: i64) -> bool {
        let Err(index) = self.view().find(integer) else { return false };
        let old = self.shape();
        let width = max(old.width, width_of(integer));
        let wanted = HEADER + (old.len + 1) * width;
        if width > old.width || wanted > old.capacity {
            self.resize(slab::class_size(wanted), width);
        }
        // SAFETY: the capacity allows one more, and the integers after the new one lie in the allocation.
        unsafe {
            let at = self.0.add(HEADER + index * width);
            std::ptr::copy(at, at.add(width), (old.len - index) * width);
            std::ptr::copy_nonoverlapping(integer.to_le_bytes().as_ptr(), at, width);
            self.write_shape(Shape { len: old.len + 1, ..self.shape() });
        }
        true
    }

    /// False if it is not there.
    pub(super) fn remove(&mut self, integer: i64) -> bool {
        let Ok(index) = self.view().find(integer) else { return false };
        let old = self.shape();
        // SAFETY: the integers after the one that goes lie in the allocation.
        unsafe {
            let at = self.0.add(HEADER + index * old.width);
            std::ptr::copy(at.add(old.width), at, (old.len - index - 1) * old.width);
            self.write_shape(Shape { len: old.len - 1, ..old });
        }
        let capacity = slab::class_size(HEADER + (old.len - 1) * old.width);
        if old.len == 1 {
            *self = Integers::EMPTY;
        } else if capacity < old.capacity - old.capacity / 4 {
            self.resize(capacity, old.width);
        }
        true
    }

    /// Moves the integers to an allocation of another size, at least as wide, which they fit.
    fn resize(&mut self, capacity: usize, width: usize) {
        let view = self.view();
        let mut resized = Integers(slab::alloc(capacity).as_ptr());
        // SAFETY: as many integers of the width fit, behind the header.
        unsafe {
            let target = resized.0.add(HEADER);
            if width == view.width {
                std::ptr::copy_nonoverlapping(view.bytes.as_ptr(), target, view.bytes.len());
            } else {
                for index in 0..view.len() {
                    let integer = view.get(index).to_le_bytes();
                    std::ptr::copy_nonoverlapping(integer.as_ptr(), target.add(index * width), width);
                }
            }
            resized.write_shape(Shape { capacity, width, len: view.len() });
        }
        *self = resized;
    }

    /// Moves the allocation if that lets others be given back.
    pub(super) fn compact(&mut self) {
        let Some(start) = NonNull::new(self.0) else { return };
        // SAFETY: the allocation has this size, and belongs to this owner alone.
        if let Some(moved) = unsafe { slab::relocate(start, self.shape().capacity) } {
            self.0 = moved.as_ptr();
        }
    }
}

impl Clone for Integers {
    fn clone(&self) -> Self {
        let shape = self.shape();
        let mut copy = ManuallyDrop::new(Integers::EMPTY);
        if shape.len > 0 {
            copy.0 = slab::alloc(shape.capacity).as_ptr();
            // SAFETY: the new allocation is as large as the old one.
            unsafe { std::ptr::copy_nonoverlapping(self.0, copy.0, shape.size()) };
        }
        ManuallyDrop::into_inner(copy)
    }
}

impl Drop for Integers {
    fn drop(&mut self) {
        if let Some(start) = NonNull::new(self.0) {
            // SAFETY: the allocation has this size, and is not used any more.
            unsafe { slab::dealloc(start, self.shape().capacity) };
        }
    }
}

/// Borrowed [`Integers`].
#[derive(Clone, Copy)]
pub(super) struct Sorted<'a> {
    bytes: &'a [u8],
    width: usize,
}

impl Sorted<'_> {
    /// The number of integers.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bytes.len() / self.width
    }

    /// The integer at an index, which must be below the length.
    #[inline]
    pub(super) fn get(&self, index: usize) -> i64 {
        decode_integer(&self.bytes[index * self.width..(index + 1) * self.width])
    }

    /// Whether an integer is there.
    #[inline]
    pub(super) fn contains(&self, integer: i64) -> bool {
        self.find(integer).is_ok()
    }

    /// The index of the first integer that is not less than one, from an index before which all are less.
    /// Costs O(log steps).
    #[inline]
    pub(super) fn seek(&self, from: usize, integer: i64) -> usize {
        let len = self.len();
        let (mut low, mut step) = (from, 1);
        while low < len {
            let probe = (low + step).min(len) - 1;
            if self.get(probe) >= integer {
                return self.first_from(low, probe, integer);
            }
            low = probe + 1;
            step *= 2;
        }
        len
    }

    /// The index of the first integer that is not less than one: from `low` up to `high`.
    #[inline]
    fn first_from(&self, mut low: usize, mut high: usize, integer: i64) -> usize {
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle) < integer {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// The index of an integer, or the one at which it would have to stand.
    fn find(&self, integer: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).cmp(&integer) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }
}
