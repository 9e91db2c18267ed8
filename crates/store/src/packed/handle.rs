//! A pointer of eight bytes that says in its lowest bits what it points to.

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, forget};
use std::ops::{Deref, DerefMut};

use super::block::Block;

/// The bits of an address that tell the form.
const TAG_MASK: usize = 7;

/// What can be behind a handle: an owner that is a pointer, aligned to eight.
///
/// # Safety
/// The pointer's lowest three bits are zero, and `from_raw(into_raw(x))` is `x`.
pub(crate) unsafe trait Thin {
    /// Gives up the owner for its pointer.
    fn into_raw(self) -> *mut u8;

    /// The owner again.
    ///
    /// # Safety
    /// The pointer came from `into_raw`. It is made an owner only once, or the owners beyond one are neither
    /// dropped nor used once the one has changed.
    unsafe fn from_raw(raw: *mut u8) -> Self;
}

// SAFETY: blocks are aligned to eight, or null.
unsafe impl Thin for Block {
    fn into_raw(self) -> *mut u8 {
        let raw = self.address();
        forget(self);
        raw
    }

    unsafe fn from_raw(raw: *mut u8) -> Block {
        // SAFETY: the caller's promise.
        unsafe { Block::from_address(raw) }
    }
}

// SAFETY: checked at compile time.
unsafe impl<T> Thin for Box<T> {
    fn into_raw(self) -> *mut u8 {
        const { assert!(align_of::<T>() >= 8) };
        Box::into_raw(self).cast()
    }

    unsafe fn from_raw(raw: *mut u8) -> Box<T> {
        // SAFETY: the caller's promise.
        unsafe { Box::from_raw(raw.cast()) }
    }
}

/// See the module's description. It does not drop what it points to: who owns it does, as it knows the forms.
#[repr(transparent)]
pub(crate) struct Handle(*mut u8);

const _: () = assert!(size_of::<Handle>() == 8);

impl Handle {
    /// A handle of an owner, whose form is `tag` (0 to 7).
    #[inline]
    pub(crate) fn new<T: Thin>(owner: T, tag: usize) -> Handle {
        debug_assert!(tag <= TAG_MASK);
        Handle(owner.into_raw().map_addr(|address| address | tag))
    }

    /// The form.
    #[inline]
    pub(crate) fn tag(&self) -> usize {
        self.0.addr() & TAG_MASK
    }

    #[inline]
    fn raw(&self) -> *mut u8 {
        self.0.map_addr(|address| address & !TAG_MASK)
    }

    /// What a box holds.
    ///
    /// # Safety
    /// The handle was made of a `Box<T>`.
    #[inline]
    pub(crate) unsafe fn boxed<T>(&self) -> &T {
        // SAFETY: the caller's promise; the box is borrowed with the handle.
        unsafe { &*self.raw().cast::<T>() }
    }

    /// What a box holds, to change.
    ///
    /// # Safety
    /// The handle was made of a `Box<T>`.
    #[inline]
    pub(crate) unsafe fn boxed_mut<T>(&mut self) -> &mut T {
        // SAFETY: the caller's promise; the box is borrowed exclusively with the handle.
        unsafe { &mut *self.raw().cast::<T>() }
    }

    /// The owner, to read: it must be used only while the handle is borrowed.
    ///
    /// # Safety
    /// The handle was made of a `T`.
    #[inline]
    pub(crate) unsafe fn peek<T: Thin>(&self) -> ManuallyDrop<T> {
        // SAFETY: the caller's promise; the second owner is only read and not dropped.
        ManuallyDrop::new(unsafe { T::from_raw(self.raw()) })
    }

    /// The owner, to change.
    ///
    /// # Safety
    /// The handle was made of a `T`.
    #[inline]
    pub(crate) unsafe fn hold<T: Thin>(&mut self) -> Held<'_, T> {
        let tag = self.tag();
        // SAFETY: the caller's promise; the handle is borrowed until the owner is put back.
        let owner = ManuallyDrop::new(unsafe { T::from_raw(self.raw()) });
        Held { owner, tag, home: &mut self.0, borrow: PhantomData }
    }

    /// Drops the owner.
    ///
    /// # Safety
    /// The handle was made of a `T` and is not used any more.
    #[inline]
    pub(crate) unsafe fn release<T: Thin>(&mut self) {
        // SAFETY: the caller's promise.
        drop(unsafe { T::from_raw(self.raw()) });
    }
}

/// The owner behind a handle while it is changed; put back when this is dropped.
pub(crate) struct Held<'a, T: Thin> {
    owner: ManuallyDrop<T>,
    tag: usize,
    home: &'a mut *mut u8,
    borrow: PhantomData<&'a mut T>,
}

impl<T: Thin> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.owner
    }
}

impl<T: Thin> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.owner
    }
}

impl<T: Thin> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the owner is taken out once, and not used after.
        let owner = unsafe { ManuallyDrop::take(&mut self.owner) };
        *self.home = owner.into_raw().map_addr(|address| address | self.tag);
    }
}
