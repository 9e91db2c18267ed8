//! The reference count of everything that clones share.
//!
//! A count lies in the header of a shared allocation. A reference is a right to read the allocation and to
//! clone the reference; dropping the last one frees the allocation. The holder of the only reference may also
//! write.
//!
//! # Memory order
//!
//! - [`RefCount::retain`] is relaxed. The caller has a reference, so the allocation is alive and stays alive
//!   until that reference is released. The new reference reaches another thread only by a channel, a lock or
//!   the like, which orders what came before.
//! - [`RefCount::release`] decrements with release order. So all that a holder did with the allocation
//!   happens before its decrement.
//! - A holder that decrements to zero, or finds that its reference is the only one ([`RefCount::is_unique`]),
//!   has acquire order. It reads a value that is part of the release sequence of every earlier decrement. So
//!   all that former holders did happens before it writes or frees.
//!
//! A count of one cannot change under the holder of that reference: only a holder can clone. So `release`
//! with a count of one needs no decrement. That spares the common case, no sharing, an atomic
//! read-modify-write.
//!
//! # Overflow
//!
//! Counts are used up to half of their range. [`RefCount::retain`] aborts the process beyond: that many
//! references can only exist if some were forgotten. [`RefCount::try_retain`] refuses instead, for counts of
//! 16 bits, which correct programs can exhaust. The other half keeps the count from wrapping while several
//! threads find it full at once: each adds one before it sees that.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicUsize, Ordering, fence};

/// The atomic integers that a [`RefCount`] can be: 16, 32 bits or those of an address.
pub trait Width: sealed::Width {}

mod sealed {
    use std::sync::atomic::Ordering;

    pub trait Width {
        const HALF: usize;
        fn with(count: usize) -> Self;
        fn load(&self) -> usize;
        /// The count before.
        fn increment(&self) -> usize;
        /// The count before.
        fn decrement(&self, order: Ordering) -> usize;
    }
}

macro_rules! widths {
    ($($atomic:ty: $integer:ty),*) => {$(
        impl Width for $atomic {}

        impl sealed::Width for $atomic {
            const HALF: usize = (<$integer>::MAX / 2) as usize;

            #[inline(always)]
            fn with(count: usize) -> Self {
                <$atomic>::new(count as $integer)
            }

            #[inline(always)]
            fn load(&self) -> usize {
                self.load(Ordering::Acquire) as usize
            }

            #[inline(always)]
            fn increment(&self) -> usize {
                self.fetch_add(1, Ordering::Relaxed) as usize
            }

            #[inline(always)]
            fn decrement(&self, order: Ordering) -> usize {
                self.fetch_sub(1, order) as usize
            }
        }
    )*};
}

widths!(AtomicU16: u16, AtomicU32: u32, AtomicUsize: usize);

/// The number of references to an allocation. It has the size and alignment of `W`.
#[repr(transparent)]
pub struct RefCount<W = AtomicU32>(W);

const _: () = assert!(size_of::<RefCount>() == 4 && align_of::<RefCount>() == 4);
const _: () = assert!(size_of::<RefCount<AtomicU16>>() == 2 && size_of::<RefCount<AtomicUsize>>() == 8);

impl<W: Width> Default for RefCount<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W: Width> RefCount<W> {
    /// The count of an allocation with one reference.
    #[inline]
    pub fn new() -> Self {
        RefCount(W::with(1))
    }

    /// The count of an allocation with this number of references.
    #[cfg(test)]
    pub(crate) fn of(references: usize) -> Self {
        RefCount(W::with(references))
    }

    /// Whether the caller's reference is the only one. Then the caller may write, as long as nobody can clone
    /// the reference meanwhile, which an exclusive borrow of it ensures.
    #[inline]
    pub fn is_unique(&self) -> bool {
        scheduling_point();
        self.0.load() == 1
    }

    /// Counts one more reference. Aborts the process if there are more than half of the range.
    #[inline]
    pub fn retain(&self) {
        scheduling_point();
        if self.0.increment() > W::HALF {
            std::process::abort();
        }
    }

    /// Counts one more reference, unless there are half of the range; false then.
    #[inline]
    #[must_use]
    pub fn try_retain(&self) -> bool {
        scheduling_point();
        if self.0.increment() >= W::HALF {
            // The caller has a reference: this is not the last one, and nothing has to be ordered.
            self.0.decrement(Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Gives up the caller's reference. True if it was the last one: the caller is alone with the allocation
    /// then and must free it.
    #[inline]
    #[must_use]
    pub fn release(&self) -> bool {
        if self.is_unique() {
            return true;
        }
        scheduling_point();
        if self.0.decrement(Ordering::Release) != 1 {
            return false;
        }
        fence(Ordering::Acquire);
        true
    }
}

/// Before each access to a count in tests that run under shuttle: lets another thread go first.
#[inline(always)]
fn scheduling_point() {
    #[cfg(test)]
    if shuttle::current::try_get_current_task().is_some() {
        // As shuttle's own atomics do: a switch without a hint to the scheduler.
        shuttle::thread::sleep(std::time::Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts<W: Width>() {
        let count = RefCount::<W>::new();
        assert!(count.is_unique());
        count.retain();
        assert!(count.try_retain() && !count.is_unique());
        assert!(!count.release() && !count.release());
        assert!(count.is_unique() && count.release());
    }

    #[test]
    fn the_last_release_is_told() {
        counts::<AtomicU16>();
        counts::<AtomicU32>();
        counts::<AtomicUsize>();
    }

    #[test]
    fn a_full_count_refuses() {
        let half = usize::from(u16::MAX / 2);
        let count = RefCount(AtomicU16::new(1));
        for _ in 1..half {
            assert!(count.try_retain());
        }
        assert!(!count.try_retain() && !count.try_retain());
        assert!(!count.release());
        assert!(count.try_retain() && !count.try_retain());
        assert_eq!(usize::from(count.0.into_inner()), half);
    }
}
