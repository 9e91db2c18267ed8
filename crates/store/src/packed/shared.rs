//! An array of blocks that can be cloned at once, whatever its length.
//!
//! Two levels: chunks of up to [`CHUNK_BLOCKS`] blocks under an array of chunks, both counted by reference.
//! A clone counts the upper array once more. Who writes makes the upper array, the chunk, and then the block
//! its own, each of which costs one load if nobody else refers to it. For 10 million members that is at most
//! some 700 chunks and 512 blocks, once for each clone and chunk.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use super::block::Block;
use crate::allocator::class_size;

/// Blocks in a chunk.
const CHUNK_BLOCKS: usize = 512;
/// Blocks that a new chunk has room for.
const CHUNK_BLOCKS_MIN: usize = 4;

struct Counted<T> {
    references: AtomicUsize,
    value: T,
}

/// A value that several owners share, each of whom can make it its own.
struct Shared<T>(NonNull<Counted<T>>);

// SAFETY: as for `Arc`: the value is shared between threads, and dropped by whichever lets go last.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn new(value: T) -> Shared<T> {
        Shared(NonNull::from(Box::leak(Box::new(Counted { references: AtomicUsize::new(1), value }))))
    }

    #[inline]
    fn counted(&self) -> &Counted<T> {
        // SAFETY: it lives for as long as there are owners.
        unsafe { self.0.as_ref() }
    }

    /// The value, to change; a copy of it that takes its place if there are other owners.
    #[inline]
    fn make_mut(&mut self) -> &mut T
    where
        T: Clone,
    {
        // The order makes what others did with it before they left happen before what comes.
        if self.counted().references.load(Ordering::Acquire) != 1 {
            *self = Shared::new(self.counted().value.clone());
        }
        // SAFETY: the only owner is borrowed exclusively.
        unsafe { &mut (*self.0.as_ptr()).value }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.counted().value
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        // Who clones is an owner, so nothing has to be ordered. There is no memory for enough owners to
        // overflow the count.
        self.counted().references.fetch_add(1, Ordering::Relaxed);
        Shared(self.0)
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        if self.counted().references.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: made by `Box::leak`, and the last owner lets go.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

/// See the module's description.
///
/// Invariant: all chunks but the last have `CHUNK_BLOCKS` blocks, and the last has at least one.
#[derive(Clone)]
pub(super) struct Blocks {
    chunks: Shared<Vec<Shared<Vec<Block>>>>,
    len: usize,
}

impl Blocks {
    pub(super) fn new() -> Blocks {
        Blocks { chunks: Shared::new(Vec::new()), len: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The block at an index below the length.
    #[inline]
    pub(super) fn get(&self, index: usize) -> &Block {
        &self.chunks[index / CHUNK_BLOCKS][index % CHUNK_BLOCKS]
    }

    /// The block at an index below the length, to change.
    #[inline]
    pub(super) fn get_mut(&mut self, index: usize) -> &mut Block {
        &mut self.chunks.make_mut()[index / CHUNK_BLOCKS].make_mut()[index % CHUNK_BLOCKS]
    }

    pub(super) fn push(&mut self, block: Block) {
        let chunks = self.chunks.make_mut();
        if self.len.is_multiple_of(CHUNK_BLOCKS) {
            let capacity = if self.len == 0 { CHUNK_BLOCKS_MIN } else { CHUNK_BLOCKS };
            chunks.push(Shared::new(Vec::with_capacity(capacity)));
        }
        let chunk = chunks.last_mut().expect("one has been added if there was none").make_mut();
        if chunk.len() == chunk.capacity() {
            let bytes = class_size((chunk.len() + 1) * size_of::<Block>());
            chunk.reserve_exact((bytes / size_of::<Block>()).min(CHUNK_BLOCKS) - chunk.len());
        }
        chunk.push(block);
        self.len += 1;
    }

    pub(super) fn pop(&mut self) -> Option<Block> {
        let chunks = self.chunks.make_mut();
        let chunk = chunks.last_mut()?.make_mut();
        let block = chunk.pop()?;
        self.len -= 1;
        if chunk.is_empty() {
            chunks.pop();
            if chunks.len() < chunks.capacity() / 4 {
                chunks.shrink_to(chunks.len() * 2);
            }
        } else if chunk.len() < chunk.capacity() / 4 {
            chunk.shrink_to(chunk.len() * 2);
        }
        Some(block)
    }

    /// Bytes of the array itself, without the blocks. Costs O(chunks).
    pub(super) fn memory_usage(&self) -> usize {
        let array_bytes = |capacity: usize| if capacity == 0 { 0 } else { class_size(capacity * 8) };
        let counted = class_size(size_of::<Counted<Vec<Block>>>());
        let chunks = self.chunks.iter().map(|chunk| array_bytes(chunk.capacity()) + counted);
        chunks.sum::<usize>() + array_bytes(self.chunks.capacity()) + counted
    }
}
