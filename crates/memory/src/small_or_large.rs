//! A collection behind eight bytes: packed bytes while it is small, a structure of its own when it is large.
//!
//! The pointer is a [`TaggedPtr`]: bit 0 of the tag says which of the two it leads to, bit 1 is the user's
//! flag. The empty collection is a null pointer to packed bytes and takes no memory.

use std::marker::PhantomData;

use crate::shared_bytes::SharedBytes;
use crate::tagged_ptr::TaggedPtr;

const LARGE: usize = 1;
const FLAG: usize = 2;

/// Packed bytes or a boxed `L`, with a flag that the user sets and reads.
#[repr(transparent)]
pub struct SmallOrLarge<L> {
    /// Made of [`SharedBytes`], or of a `Box<L>` if the tag has [`LARGE`].
    pointer: TaggedPtr,
    large: PhantomData<Box<L>>,
}

/// What a [`SmallOrLarge`] holds, borrowed.
pub enum Borrowed<'a, L> {
    /// The packed bytes.
    Small(&'a [u8]),
    /// The large structure.
    Large(&'a L),
}

/// What a [`SmallOrLarge`] holds, taken out.
pub enum Owned<L> {
    /// The packed bytes.
    Small(SharedBytes),
    /// The large structure.
    Large(Box<L>),
}

const _: () = assert!(size_of::<SmallOrLarge<u64>>() == 8);

// SAFETY: it owns what it points to: bytes, which any thread may hold, or a boxed `L`.
unsafe impl<L: Send> Send for SmallOrLarge<L> {}
// SAFETY: as above.
unsafe impl<L: Sync> Sync for SmallOrLarge<L> {}

impl<L> SmallOrLarge<L> {
    /// Small and empty, with the flag unset. Allocates nothing.
    pub const fn new() -> Self {
        SmallOrLarge { pointer: TaggedPtr::NULL, large: PhantomData }
    }

    /// The user's flag.
    #[inline]
    pub fn flag(&self) -> bool {
        self.pointer.tag() & FLAG != 0
    }

    /// Sets the user's flag.
    #[inline]
    pub fn set_flag(&mut self, flag: bool) {
        self.pointer.set_tag(self.pointer.tag() & !FLAG | if flag { FLAG } else { 0 });
    }

    #[inline]
    fn is_large(&self) -> bool {
        self.pointer.tag() & LARGE != 0
    }

    /// What it holds.
    #[inline]
    pub fn get(&self) -> Borrowed<'_, L> {
        if self.is_large() {
            // SAFETY: the tag says that the pointer was made of a `Box<L>`.
            return Borrowed::Large(unsafe { self.pointer.boxed() });
        }
        // SAFETY: the tag says that the pointer was made of `SharedBytes`.
        let bytes = unsafe { self.pointer.peek::<SharedBytes>() };
        // SAFETY: the payload stays where it is while `self` is borrowed.
        Borrowed::Small(unsafe { &*std::ptr::from_ref(bytes.payload()) })
    }

    /// The large structure, to change.
    #[inline]
    pub fn large_mut(&mut self) -> Option<&mut L> {
        // SAFETY: the tag says that the pointer was made of a `Box<L>`.
        if self.is_large() { Some(unsafe { self.pointer.boxed_mut() }) } else { None }
    }

    /// A clone of the packed bytes, if it is small.
    pub fn share_bytes(&self) -> Option<SharedBytes> {
        if self.is_large() {
            return None;
        }
        // SAFETY: the tag says that the pointer was made of `SharedBytes`.
        let bytes = unsafe { self.pointer.peek::<SharedBytes>() };
        Some(SharedBytes::clone(&bytes))
    }

    /// Takes what it holds and leaves it small and empty. The flag stays.
    #[inline]
    pub fn take(&mut self) -> Owned<L> {
        let tag = self.pointer.tag();
        let mut pointer = std::mem::replace(&mut self.pointer, TaggedPtr::NULL);
        self.pointer.set_tag(tag & FLAG);
        // SAFETY: the tag tells what the pointer was made of, and it is not used any more.
        unsafe { if tag & LARGE != 0 { Owned::Large(pointer.take()) } else { Owned::Small(pointer.take()) } }
    }

    /// Replaces what it holds. The flag stays.
    #[inline]
    pub fn put(&mut self, held: Owned<L>) {
        drop(self.take());
        let flag = self.pointer.tag();
        self.pointer = match held {
            Owned::Small(bytes) => TaggedPtr::new(bytes, flag),
            Owned::Large(large) => TaggedPtr::new(large, flag | LARGE),
        };
    }
}

impl<L> Default for SmallOrLarge<L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L> Drop for SmallOrLarge<L> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<L: Clone> Clone for SmallOrLarge<L> {
    /// Shares packed bytes, and clones a large structure.
    fn clone(&self) -> Self {
        let mut copy = SmallOrLarge::new();
        match self.get() {
            Borrowed::Large(large) => copy.put(Owned::Large(Box::new(large.clone()))),
            Borrowed::Small(_) => copy.put(Owned::Small(self.share_bytes().unwrap_or_default())),
        }
        copy.set_flag(self.flag());
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_outlives_what_is_held() {
        let mut body: SmallOrLarge<u64> = SmallOrLarge::new();
        assert!(!body.flag() && matches!(body.get(), Borrowed::Small([])) && body.large_mut().is_none());
        body.set_flag(true);
        body.put(Owned::Small(SharedBytes::joined(&[b"packed"])));
        assert!(body.flag() && matches!(body.get(), Borrowed::Small([b'p', ..])));
        let shared = body.share_bytes().expect("it is small");
        assert!(shared.is_shared());
        body.put(Owned::Large(Box::new(5)));
        assert!(body.flag() && !shared.is_shared() && body.share_bytes().is_none());
        let mut copy = body.clone();
        *copy.large_mut().expect("it is large") += 1;
        assert!(matches!((body.get(), copy.get()), (Borrowed::Large(5), Borrowed::Large(6))));
        assert!(copy.flag() && matches!(body.take(), Owned::Large(large) if *large == 5));
        assert!(body.flag() && matches!(body.get(), Borrowed::Small([])));
    }
}
