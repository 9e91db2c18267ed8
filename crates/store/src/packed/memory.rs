//! Where blocks come from: memory aligned to eight bytes, whose size the owner remembers.

use std::alloc::{Layout, alloc as allocate, dealloc as deallocate, handle_alloc_error};
use std::ptr::NonNull;

pub(crate) use crate::allocator::class_size;

const ALIGNMENT: usize = 8;

fn layout_of(size: usize) -> Layout {
    Layout::from_size_align(size, ALIGNMENT).expect("blocks are shorter than half the address space")
}

/// Memory for `size` bytes, more than none.
pub(crate) fn alloc(size: usize) -> NonNull<u8> {
    debug_assert!(size > 0);
    let layout = layout_of(size);
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { allocate(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Gives memory back.
///
/// # Safety
/// It came from [`alloc`] with the same size and is not used any more.
pub(crate) unsafe fn dealloc(memory: NonNull<u8>, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { deallocate(memory.as_ptr(), layout_of(size)) }
}

/// Memory to which an allocation should move so that others can be given back; `None` if it may stay.
///
/// # Safety
/// It came from [`alloc`] with the same size, and nobody else refers to it.
pub(crate) unsafe fn relocate(_memory: NonNull<u8>, _size: usize) -> Option<NonNull<u8>> {
    None
}
