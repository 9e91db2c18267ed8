//! Reference-counted bytes: what packed nodes are made of.
//!
//! ```text
//! | references (u32) | size / 8 (u32) | payload ...                          |
//!   ^ 0                ^ 4              ^ 8                                   ^ size, a size class
//! ```
//!
//! Clones share the allocation. The holder of the only reference may change it; holders may live on different
//! threads. The allocation knows its size, so nothing is stored beside the pointer.

use std::fmt;
use std::ptr::NonNull;

use crate::ref_count::RefCount;
use crate::slab;
use crate::tagged_ptr::Thin;

#[repr(C, align(8))]
struct Header {
    references: RefCount,
    units: u32,
}

const _: () = assert!(size_of::<Header>() == SharedBytes::HEADER_BYTES && align_of::<Header>() == 8);
const _: () = assert!(size_of::<SharedBytes>() == 8 && size_of::<Option<NonNull<u8>>>() == 8);

/// A reference to bytes that are shared with its clones. Empty ones take no memory.
#[derive(Default)]
#[repr(transparent)]
pub struct SharedBytes {
    start: Option<NonNull<Header>>,
}

// SAFETY: bytes and an atomic count; the holder may be any thread.
unsafe impl Send for SharedBytes {}
// SAFETY: shared access only reads the payload and changes the count atomically.
unsafe impl Sync for SharedBytes {}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SharedBytes({} bytes)", self.payload().len())
    }
}

impl SharedBytes {
    /// Bytes before the payload.
    pub const HEADER_BYTES: usize = 8;

    /// Bytes of the allocation for a payload of this size.
    #[inline]
    pub fn allocation_bytes(payload: usize) -> usize {
        slab::class_size(Self::HEADER_BYTES + payload)
    }

    /// Bytes of the allocation that has this payload.
    pub fn allocation_of(payload: &[u8]) -> usize {
        if payload.is_empty() { 0 } else { Self::HEADER_BYTES + payload.len() }
    }

    /// A payload of at least this number of bytes, all of which are zero.
    pub fn zeroed(payload: usize) -> SharedBytes {
        let size = Self::allocation_bytes(payload);
        let units = u32::try_from(size / 8).expect("a packed node is below 32 GiB");
        let start = slab::alloc(size).cast::<Header>();
        // SAFETY: the allocation is ours, aligned to 8 and `size` bytes long.
        unsafe {
            start.write(Header { references: RefCount::new(), units });
            start.add(1).cast::<u8>().write_bytes(0, size - Self::HEADER_BYTES);
        }
        SharedBytes { start: Some(start) }
    }

    /// A payload that begins with these parts, one after the other; the rest is zero.
    pub fn joined(parts: &[&[u8]]) -> SharedBytes {
        let payload: usize = parts.iter().map(|part| part.len()).sum();
        let size = Self::allocation_bytes(payload);
        let units = u32::try_from(size / 8).expect("a packed node is below 32 GiB");
        let start = slab::alloc(size).cast::<Header>();
        // SAFETY: the allocation is ours, aligned to 8 and `size` bytes long, which is enough for the header
        // and all parts; nobody else refers to it.
        unsafe {
            start.write(Header { references: RefCount::new(), units });
            let mut at = start.add(1).cast::<u8>();
            for part in parts {
                match part {
                    [byte] => at.write(*byte),
                    _ => at.copy_from_nonoverlapping(NonNull::from(*part).cast(), part.len()),
                }
                at = at.add(part.len());
            }
            at.write_bytes(0, size - Self::HEADER_BYTES - payload);
        }
        SharedBytes { start: Some(start) }
    }

    #[inline]
    fn header(&self) -> Option<&Header> {
        // SAFETY: the pointer leads to a live header for as long as this holder lives.
        self.start.map(|start| unsafe { start.as_ref() })
    }

    /// The payload. It may be longer than what was asked for.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let (Some(start), Some(header)) = (self.start, self.header()) else { return &[] };
        let len = header.units as usize * 8 - Self::HEADER_BYTES;
        // SAFETY: the allocation has `len` initialised bytes behind its header, and nobody writes to them
        // while this borrow lasts: writing takes an exclusive borrow of the only holder.
        unsafe { std::slice::from_raw_parts(start.add(1).cast::<u8>().as_ptr(), len) }
    }

    /// The payload, to change; `None` if there are other references, or no payload.
    #[inline]
    pub fn payload_mut(&mut self) -> Option<&mut [u8]> {
        let (start, header) = (self.start?, self.header()?);
        if !header.references.is_unique() {
            return None;
        }
        let len = header.units as usize * 8 - Self::HEADER_BYTES;
        // SAFETY: as in `payload`; the borrow is exclusive and there is no other holder.
        unsafe { Some(std::slice::from_raw_parts_mut(start.add(1).cast::<u8>().as_ptr(), len)) }
    }

    /// Where the payload begins; `None` if it is empty.
    #[inline]
    pub fn payload_start(&self) -> Option<NonNull<u8>> {
        // SAFETY: the payload follows the header within the allocation.
        self.start.map(|start| unsafe { start.add(1).cast() })
    }

    /// The same of a payload that may be changed; `None` if there are other references, too.
    #[inline]
    pub fn own_payload_start(&mut self) -> Option<NonNull<u8>> {
        if self.is_shared() { None } else { self.payload_start() }
    }

    /// The address of the allocation; null if it is empty.
    #[inline]
    pub fn address(&self) -> *const u8 {
        self.start.map_or(std::ptr::null(), |start| start.as_ptr().cast())
    }

    /// Whether there are other references.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.header().is_some_and(|header| !header.references.is_unique())
    }

    /// Bytes of the allocation.
    #[inline]
    pub fn memory_usage(&self) -> usize {
        self.header().map_or(0, |header| header.units as usize * 8)
    }

    /// Moves to another slab if that helps to empty this one (see [`slab::relocate`]).
    pub fn compact(&mut self) {
        let (Some(start), false) = (self.start, self.is_shared()) else { return };
        // SAFETY: the allocation has this size, and there is no other holder.
        let moved = unsafe { slab::relocate(start.cast(), self.memory_usage()) };
        self.start = moved.map_or(self.start, |moved| Some(moved.cast()));
    }
}

// SAFETY: the allocation is aligned to eight, or there is none and the pointer is null.
unsafe impl Thin for SharedBytes {
    #[inline]
    fn into_raw(self) -> *mut u8 {
        let start = self.start;
        std::mem::forget(self);
        start.map_or(std::ptr::null_mut(), |start| start.as_ptr().cast())
    }

    #[inline]
    unsafe fn from_raw(raw: *mut u8) -> SharedBytes {
        SharedBytes { start: NonNull::new(raw.cast()) }
    }
}

impl Clone for SharedBytes {
    #[inline]
    fn clone(&self) -> Self {
        if let Some(header) = self.header() {
            header.references.retain();
        }
        SharedBytes { start: self.start }
    }
}

impl Drop for SharedBytes {
    #[inline]
    fn drop(&mut self) {
        let (Some(start), Some(header)) = (self.start, self.header()) else { return };
        let size = header.units as usize * 8;
        if header.references.release() {
            // SAFETY: this was the last reference; the allocation has this size.
            unsafe { slab::dealloc(start.cast(), size) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_until_one_is_left() {
        let mut bytes = SharedBytes::zeroed(20);
        assert!(bytes.payload().len() >= 20 && bytes.payload().iter().all(|&byte| byte == 0));
        bytes.payload_mut().expect("one holder")[3] = 7;
        let other = bytes.clone();
        assert!(bytes.is_shared() && bytes.payload_mut().is_none());
        assert_eq!(other.payload()[3], 7);
        std::thread::spawn(move || drop(other)).join().expect("no panic");
        assert!(bytes.payload_mut().is_some());
        // SAFETY: the raw pointer comes from `into_raw` just now.
        let bytes = unsafe { SharedBytes::from_raw(bytes.into_raw()) };
        assert_eq!(bytes.memory_usage(), SharedBytes::allocation_bytes(20));
        let mut empty = SharedBytes::default();
        assert!(empty.payload().is_empty() && empty.payload_mut().is_none() && empty.memory_usage() == 0);
    }
}
