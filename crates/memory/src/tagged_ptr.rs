//! A pointer of eight bytes whose lowest three bits tell what it points to.
//!
//! The addresses of allocations are multiples of eight, so these bits are free. A collection with several
//! representations needs no more than this: the tag tells the representation, the pointer leads to it.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

/// The bits of an address that hold the tag.
const TAG_MASK: usize = 7;

/// An owner that is a pointer, aligned to eight or null: what a [`TaggedPtr`] can hold.
///
/// # Safety
/// The pointer's lowest three bits are zero, and `from_raw(into_raw(x))` is `x`.
pub unsafe trait Thin {
    /// Gives up the owner for its pointer.
    fn into_raw(self) -> *mut u8;

    /// The owner of a pointer.
    ///
    /// # Safety
    /// The pointer came from `into_raw`. It is made an owner only once, or the owners beyond one are neither
    /// dropped nor used once the one has changed.
    unsafe fn from_raw(raw: *mut u8) -> Self;
}

// SAFETY: the alignment is checked at compile time.
unsafe impl<T> Thin for Box<T> {
    #[inline]
    fn into_raw(self) -> *mut u8 {
        const { assert!(align_of::<T>() >= 8) };
        Box::into_raw(self).cast()
    }

    #[inline]
    unsafe fn from_raw(raw: *mut u8) -> Box<T> {
        // SAFETY: the caller's promise.
        unsafe { Box::from_raw(raw.cast()) }
    }
}

/// A pointer with a tag of 0 to 7. Dropping it does not drop what it points to: only its user knows the type.
#[repr(transparent)]
pub struct TaggedPtr(*mut u8);

const _: () = assert!(size_of::<TaggedPtr>() == 8);

impl TaggedPtr {
    /// The null pointer with tag 0. Only a [`Thin`] type that can be null may be read from it.
    pub const NULL: TaggedPtr = TaggedPtr(std::ptr::null_mut());

    /// The pointer of an owner, with a tag of 0 to 7.
    #[inline]
    pub fn new<T: Thin>(owner: T, tag: usize) -> TaggedPtr {
        debug_assert!(tag <= TAG_MASK);
        TaggedPtr(owner.into_raw().map_addr(|address| address | tag))
    }

    /// The tag.
    #[inline]
    pub fn tag(&self) -> usize {
        self.0.addr() & TAG_MASK
    }

    /// Gives the pointer another tag of 0 to 7.
    #[inline]
    pub fn set_tag(&mut self, tag: usize) {
        debug_assert!(tag <= TAG_MASK);
        self.0 = self.0.map_addr(|address| address & !TAG_MASK | tag);
    }

    #[inline]
    fn raw(&self) -> *mut u8 {
        self.0.map_addr(|address| address & !TAG_MASK)
    }

    /// What a box holds.
    ///
    /// # Safety
    /// The pointer was made of a `Box<T>`.
    #[inline]
    pub unsafe fn boxed<T>(&self) -> &T {
        // SAFETY: the caller's promise; the box is borrowed with the pointer.
        unsafe { &*self.raw().cast::<T>() }
    }

    /// What a box holds, to change.
    ///
    /// # Safety
    /// The pointer was made of a `Box<T>`.
    #[inline]
    pub unsafe fn boxed_mut<T>(&mut self) -> &mut T {
        // SAFETY: the caller's promise; the box is borrowed exclusively with the pointer.
        unsafe { &mut *self.raw().cast::<T>() }
    }

    /// The owner, to read. It must be used only while the pointer is borrowed.
    ///
    /// # Safety
    /// The pointer was made of a `T`.
    #[inline]
    pub unsafe fn peek<T: Thin>(&self) -> ManuallyDrop<T> {
        // SAFETY: the caller's promise; the second owner is only read and not dropped.
        ManuallyDrop::new(unsafe { T::from_raw(self.raw()) })
    }

    /// The owner, to change.
    ///
    /// # Safety
    /// The pointer was made of a `T`.
    #[inline]
    pub unsafe fn peek_mut<T: Thin>(&mut self) -> OwnerMut<'_, T> {
        let tag = self.tag();
        // SAFETY: the caller's promise; the pointer is borrowed until the owner is put back.
        let owner = ManuallyDrop::new(unsafe { T::from_raw(self.raw()) });
        OwnerMut { owner, tag, home: &mut self.0, borrow: PhantomData }
    }

    /// Takes the owner out.
    ///
    /// # Safety
    /// The pointer was made of a `T` and is not used any more.
    #[inline]
    pub unsafe fn take<T: Thin>(&mut self) -> T {
        // SAFETY: the caller's promise.
        unsafe { T::from_raw(self.raw()) }
    }
}

/// The owner behind a pointer while it is changed. Dropping this puts it back.
pub struct OwnerMut<'a, T: Thin> {
    owner: ManuallyDrop<T>,
    tag: usize,
    home: &'a mut *mut u8,
    borrow: PhantomData<&'a mut T>,
}

impl<T: Thin> Deref for OwnerMut<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.owner
    }
}

impl<T: Thin> DerefMut for OwnerMut<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.owner
    }
}

impl<T: Thin> Drop for OwnerMut<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the owner is taken out once, and not used after.
        let owner = unsafe { ManuallyDrop::take(&mut self.owner) };
        *self.home = owner.into_raw().map_addr(|address| address | self.tag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_bytes::SharedBytes;

    #[test]
    fn owners_come_back_with_their_tag() {
        let mut pointer = TaggedPtr::new(Box::new(41_u64), 5);
        // SAFETY: the pointer was made of a `Box<u64>` and is not used after `take`.
        unsafe {
            *pointer.boxed_mut::<u64>() += 1;
            assert_eq!((*pointer.boxed::<u64>(), pointer.tag()), (42, 5));
            **pointer.peek_mut::<Box<u64>>() = 7;
            pointer.set_tag(pointer.tag() ^ 1);
            assert_eq!((**pointer.peek::<Box<u64>>(), pointer.tag()), (7, 4));
            assert_eq!(*pointer.take::<Box<u64>>(), 7);
        }
        let mut empty = TaggedPtr::NULL;
        empty.set_tag(2);
        // SAFETY: shared bytes can be null; the pointer is not used any more.
        let bytes = unsafe { empty.take::<SharedBytes>() };
        assert!(bytes.payload().is_empty() && empty.tag() == 2);
    }
}
