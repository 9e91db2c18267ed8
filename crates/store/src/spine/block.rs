//! Reference-counted blocks of bytes: what packed nodes are made of.
//!
//! ```text
//! | references (u32) | size / 8 (u32) | payload ...                          |
//!   ^ 0                ^ 4              ^ 8                                   ^ size, a size class
//! ```
//!
//! Clones share a block; whoever is its only holder may change it. A holder may live on another thread: the
//! count is atomic. A block knows its size, so that nothing else needs to be stored beside the pointer.

use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::slab;

/// Bytes before the payload.
pub(crate) const HEADER_BYTES: usize = 8;
/// More references than this mean that some were forgotten.
const REFERENCES_MAX: u32 = u32::MAX / 2;

#[repr(C, align(8))]
struct Header {
    references: AtomicU32,
    units: u32,
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES && align_of::<Header>() == 8);
const _: () = assert!(size_of::<Block>() == 8 && size_of::<Option<NonNull<u8>>>() == 8);

/// See the module's description. The empty block has no payload and takes no memory.
#[derive(Default)]
#[repr(transparent)]
pub(crate) struct Block {
    start: Option<NonNull<Header>>,
}

// SAFETY: a block is bytes and an atomic count; its holder may be any thread.
unsafe impl Send for Block {}
// SAFETY: shared access only reads the payload and changes the count atomically.
unsafe impl Sync for Block {}

impl fmt::Debug for Block {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Block({} bytes)", self.payload().len())
    }
}

/// Bytes of the allocation for a payload of so many bytes.
#[inline]
pub(crate) fn class_size(payload: usize) -> usize {
    slab::class_size(HEADER_BYTES + payload)
}

/// Bytes of the allocation of the block with this payload.
pub(crate) fn memory_usage(payload: &[u8]) -> usize {
    if payload.is_empty() { 0 } else { HEADER_BYTES + payload.len() }
}

impl Block {
    /// A block with room for a payload of so many bytes, all of which are zero.
    pub fn zeroed(payload: usize) -> Block {
        let size = class_size(payload);
        let units = u32::try_from(size / 8).expect("a block is below 32 GiB");
        let start = slab::alloc(size).cast::<Header>();
        // SAFETY: the allocation is ours, aligned to 8 and `size` bytes long.
        unsafe {
            start.write(Header { references: AtomicU32::new(1), units });
            start.add(1).cast::<u8>().write_bytes(0, size - HEADER_BYTES);
        }
        Block { start: Some(start) }
    }

    /// A block whose payload begins with these parts, one after the other; the rest is zero.
    pub fn joined(parts: &[&[u8]]) -> Block {
        let payload: usize = parts.iter().map(|part| part.len()).sum();
        let size = class_size(payload);
        let units = u32::try_from(size / 8).expect("a block is below 32 GiB");
        let start = slab::alloc(size).cast::<Header>();
        // SAFETY: the allocation is ours, aligned to 8 and `size` bytes long, which is room for the header
        // and all parts; nobody else refers to it.
        unsafe {
            start.write(Header { references: AtomicU32::new(1), units });
            let mut at = start.add(1).cast::<u8>();
            for part in parts {
                match part {
                    [byte] => at.write(*byte),
                    _ => at.copy_from_nonoverlapping(NonNull::from(*part).cast(), part.len()),
                }
                at = at.add(part.len());
            }
            at.write_bytes(0, size - HEADER_BYTES - payload);
        }
        Block { start: Some(start) }
    }

    #[inline]
    fn header(&self) -> Option<&Header> {
        // SAFETY: the pointer leads to a live header for as long as this holder lives.
        self.start.map(|start| unsafe { start.as_ref() })
    }

    /// The payload: at least as long as asked for.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let (Some(start), Some(header)) = (self.start, self.header()) else { return &[] };
        let len = header.units as usize * 8 - HEADER_BYTES;
        // SAFETY: the allocation has `len` initialised bytes behind its header, and nobody writes to them
        // while this borrow lasts: writing takes an exclusive borrow of the only holder.
        unsafe { std::slice::from_raw_parts(start.add(1).cast::<u8>().as_ptr(), len) }
    }

    /// The payload, to change; `None` if there are other holders, or no payload.
    #[inline]
    pub fn payload_mut(&mut self) -> Option<&mut [u8]> {
        let (start, header) = (self.start?, self.header()?);
        if header.references.load(Ordering::Acquire) != 1 {
            return None;
        }
        let len = header.units as usize * 8 - HEADER_BYTES;
        // SAFETY: as in `payload`; the borrow is exclusive and there is no other holder.
        unsafe { Some(std::slice::from_raw_parts_mut(start.add(1).cast::<u8>().as_ptr(), len)) }
    }

    /// Where the block lies; null for the empty one.
    #[inline]
    pub fn address(&self) -> *const u8 {
        self.start.map_or(std::ptr::null(), |start| start.as_ptr().cast())
    }

    /// Whether there is another holder.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.header().is_some_and(|header| header.references.load(Ordering::Acquire) != 1)
    }

    /// Bytes of the allocation.
    #[inline]
    pub fn memory_usage(&self) -> usize {
        self.header().map_or(0, |header| header.units as usize * 8)
    }

    /// Moves to another place if that lets memory be given back.
    pub fn compact(&mut self) {
        let (Some(start), false) = (self.start, self.is_shared()) else { return };
        // SAFETY: the block has this size, and there is no other holder.
        let moved = unsafe { slab::relocate(start.cast(), self.memory_usage()) };
        self.start = moved.map_or(self.start, |moved| Some(moved.cast()));
    }

    /// Gives up the holder without giving up its reference.
    pub fn into_raw(self) -> Option<NonNull<u8>> {
        let start = self.start;
        std::mem::forget(self);
        start.map(NonNull::cast)
    }

    /// The holder that [`Block::into_raw`] gave up.
    ///
    /// # Safety
    /// `start` comes from `into_raw`, and no other holder is made of it.
    pub unsafe fn from_raw(start: Option<NonNull<u8>>) -> Block {
        Block { start: start.map(NonNull::cast) }
    }
}

impl Clone for Block {
    #[inline]
    fn clone(&self) -> Self {
        if let Some(header) = self.header()
            && header.references.fetch_add(1, Ordering::Relaxed) > REFERENCES_MAX
        {
            std::process::abort();
        }
        Block { start: self.start }
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        let (Some(start), Some(header)) = (self.start, self.header()) else { return };
        let size = header.units as usize * 8;
        // The only holder stays the only one: nobody else could make another.
        let is_only = header.references.load(Ordering::Acquire) == 1;
        if is_only || header.references.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: this was the last holder; the allocation has this size.
            unsafe { slab::dealloc(start.cast(), size) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_until_one_is_left() {
        let mut block = Block::zeroed(20);
        assert!(block.payload().len() >= 20 && block.payload().iter().all(|&byte| byte == 0));
        block.payload_mut().expect("one holder")[3] = 7;
        let other = block.clone();
        assert!(block.is_shared() && block.payload_mut().is_none());
        assert_eq!(other.payload()[3], 7);
        std::thread::spawn(move || drop(other)).join().expect("no panic");
        assert!(block.payload_mut().is_some());
        // SAFETY: the raw pointer comes from `into_raw` just now.
        let block = unsafe { Block::from_raw(block.into_raw()) };
        assert_eq!(block.memory_usage(), class_size(20));
        let mut empty = Block::default();
        assert!(empty.payload().is_empty() && empty.payload_mut().is_none() && empty.memory_usage() == 0);
    }
}
