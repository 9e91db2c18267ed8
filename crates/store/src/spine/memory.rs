//! Where blocks and chunks get their memory.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

pub(crate) use crate::allocator::class_size;

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("an allocation is below half of the address space")
}

/// Memory of a size class, aligned to 8.
pub(crate) fn alloc(size: usize) -> NonNull<u8> {
    let layout = layout(size);
    // SAFETY: every size class has at least eight bytes.
    let memory = unsafe { std::alloc::alloc(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Gives memory back.
///
/// # Safety
/// `memory` comes from [`alloc`] with the same size, and is not used any more.
pub(crate) unsafe fn dealloc(memory: NonNull<u8>, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::alloc::dealloc(memory.as_ptr(), layout(size)) };
}

/// Whether moving an allocation to another place would let memory be given back.
pub(crate) fn should_move(_memory: NonNull<u8>, _size: usize) -> bool {
    false
}
