//! A collection behind eight bytes: one packed block while it is small, a structure of its own when large.
//!
//! ```text
//! pointer, aligned to 8 | flag (bit 1) | large (bit 0)
//! ```
//!
//! Without bit 0 the pointer is that of a block, null for the empty one; with it, that of a boxed `L`. The
//! flag is the owner's.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::block::Block;

const LARGE: usize = 1;
const FLAG: usize = 2;
const MARKS: usize = LARGE | FLAG;

/// See the module's description.
#[repr(transparent)]
pub(crate) struct Handle<L> {
    pointer: *mut u8,
    large: PhantomData<Box<L>>,
}

/// What a handle holds, borrowed.
pub(crate) enum Held<'a, L> {
    /// The payload of the block.
    Small(&'a [u8]),
    /// The large structure.
    Large(&'a L),
}

/// What a handle holds, taken out.
pub(crate) enum Taken<L> {
    /// The block.
    Small(Block),
    /// The large structure.
    Large(Box<L>),
}

const _: () = assert!(size_of::<Handle<u64>>() == 8);

// SAFETY: the handle owns what it points to: a block, which any thread may hold, or a boxed `L`.
unsafe impl<L: Send> Send for Handle<L> {}
// SAFETY: as above.
unsafe impl<L: Sync> Sync for Handle<L> {}

impl<L> Handle<L> {
    const LARGE_FITS: () = assert!(align_of::<L>() == 8);

    /// The handle of an empty block. Allocates nothing.
    pub const fn new() -> Self {
        let () = Self::LARGE_FITS;
        Handle { pointer: std::ptr::null_mut(), large: PhantomData }
    }

    /// The owner's flag; false at first.
    #[inline]
    pub fn flag(&self) -> bool {
        self.pointer.addr() & FLAG != 0
    }

    /// Sets the owner's flag.
    #[inline]
    pub fn set_flag(&mut self, flag: bool) {
        self.pointer = self.pointer.map_addr(|address| address & !FLAG | if flag { FLAG } else { 0 });
    }

    #[inline]
    fn is_large(&self) -> bool {
        self.pointer.addr() & LARGE != 0
    }

    #[inline]
    fn untagged(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.pointer.map_addr(|address| address & !MARKS))
    }

    /// What the handle holds.
    #[inline]
    pub fn get(&self) -> Held<'_, L> {
        match self.untagged() {
            // SAFETY: the mark says that the pointer is that of a live, boxed `L`, which this handle owns.
            Some(pointer) if self.is_large() => Held::Large(unsafe { pointer.cast().as_ref() }),
            pointer => {
                // SAFETY: without the mark, the pointer is that of a block that this handle owns; the copy of
                // its holder is not dropped.
                let block = ManuallyDrop::new(unsafe { Block::from_raw(pointer) });
                // SAFETY: the payload stays where it is while the handle is borrowed.
                Held::Small(unsafe { &*std::ptr::from_ref(block.payload()) })
            }
        }
    }

    /// The large structure, to change.
    #[inline]
    pub fn large_mut(&mut self) -> Option<&mut L> {
        // SAFETY: as in `get`, and the borrow is exclusive.
        self.untagged().filter(|_| self.is_large()).map(|pointer| unsafe { pointer.cast().as_mut() })
    }

    /// The block, shared with this handle, if it holds one.
    pub fn share_block(&self) -> Option<Block> {
        if self.is_large() {
            return None;
        }
        // SAFETY: as in `get`: the holder is this handle's and is not dropped; the clone is another one.
        let block = ManuallyDrop::new(unsafe { Block::from_raw(self.untagged()) });
        Some(Block::clone(&block))
    }

    /// Takes what the handle holds and leaves an empty block. The flag stays.
    #[inline]
    pub fn take(&mut self) -> Taken<L> {
        let (pointer, is_large) = (self.untagged(), self.is_large());
        let flag = self.flag();
        self.pointer = std::ptr::null_mut();
        self.set_flag(flag);
        match pointer {
            // SAFETY: the pointer was made by `Box::into_raw`, and the handle has forgotten it.
            Some(pointer) if is_large => Taken::Large(unsafe { Box::from_raw(pointer.cast().as_ptr()) }),
            // SAFETY: the pointer was made by `Block::into_raw`, and the handle has forgotten it.
            pointer => Taken::Small(unsafe { Block::from_raw(pointer) }),
        }
    }

    /// Puts something in the place of what the handle holds. The flag stays.
    #[inline]
    pub fn put(&mut self, held: Taken<L>) {
        let flag = self.flag();
        drop(self.take());
        self.pointer = match held {
            Taken::Small(block) => block.into_raw().map_or(std::ptr::null_mut(), NonNull::as_ptr),
            Taken::Large(large) => Box::into_raw(large).cast::<u8>().map_addr(|address| address | LARGE),
        };
        self.set_flag(flag);
    }
}

impl<L> Drop for Handle<L> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<L: Clone> Clone for Handle<L> {
    /// Shares a block, and clones a large structure.
    fn clone(&self) -> Self {
        let mut copy = Handle::new();
        match self.get() {
            Held::Large(large) => copy.put(Taken::Large(Box::new(large.clone()))),
            Held::Small(_) => copy.put(Taken::Small(self.share_block().unwrap_or_default())),
        }
        copy.set_flag(self.flag());
        copy
    }
}
