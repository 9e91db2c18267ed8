//! Large allocations, each a mapping of its own.
//!
//! A mapping grows by moving its pages to other addresses, not their contents, so a buffer that doubles from
//! 8 MB on copies nothing; and what is freed is the system's again at once. No huge pages are asked for: SET
//! of 200 MB to memory that no process had used before took 0.7 s of processor time in huge pages and 0.25 in
//! small ones, on a virtual machine whose host provides memory as it is touched.

use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg(all(target_os = "linux", not(feature = "whole_allocations")))]
pub(crate) use linux::{map, resize, unmap};
#[cfg(not(all(target_os = "linux", not(feature = "whole_allocations"))))]
pub(crate) use none::{map, resize, unmap};

/// Whether there are any: Linux can move pages.
pub(crate) const ARE_USED: bool = cfg!(all(target_os = "linux", not(feature = "whole_allocations")));
/// What lengths are rounded up to, and the largest alignment that is promised. The kernel rounds up to its
/// own pages where those are larger.
pub(crate) const PAGE_BYTES: usize = 4 << 10;

/// Bytes of all mappings.
static MAPPED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Bytes of all mappings.
pub(crate) fn mapped_bytes() -> usize {
    MAPPED_BYTES.load(Ordering::Relaxed)
}

/// The bytes of the mapping for an allocation.
pub(crate) const fn rounded(bytes: usize) -> usize {
    bytes.saturating_add(PAGE_BYTES - 1) & !(PAGE_BYTES - 1)
}

#[cfg(all(target_os = "linux", not(feature = "whole_allocations")))]
mod linux {
    use std::ptr::{NonNull, null_mut};

    use super::*;

    /// A new mapping, all zero.
    pub(crate) fn map(bytes: usize) -> Option<NonNull<u8>> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: asks for a new mapping at an address that the system chooses.
        let mapping = unsafe { libc::mmap(null_mut(), rounded(bytes), protection, flags, -1, 0) };
        if mapping == libc::MAP_FAILED {
            return None;
        }
        MAPPED_BYTES.fetch_add(rounded(bytes), Ordering::Relaxed);
        NonNull::new(mapping.cast())
    }

    /// Ends a mapping.
    ///
    /// # Safety
    /// It comes from [`map`] or [`resize`] with this number of bytes, and nobody uses it any more.
    pub(crate) unsafe fn unmap(start: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise. It fails only where the kernel has no room to split a mapping; then
        // the memory stays what it is.
        let _ = unsafe { libc::munmap(start.cast(), rounded(bytes)) };
        MAPPED_BYTES.fetch_sub(rounded(bytes), Ordering::Relaxed);
    }

    /// Gives a mapping another size, and perhaps another place; the bytes that it has then and had before
    /// stay.
    /// `None` if there is no memory: then it is as it was.
    ///
    /// # Safety
    /// It comes from [`map`] or [`resize`] with `old` bytes. If the result is some, that takes its place.
    pub(crate) unsafe fn resize(start: *mut u8, old: usize, new: usize) -> Option<NonNull<u8>> {
        let (old_len, new_len) = (rounded(old), rounded(new));
        // SAFETY: the mapping is the caller's, who uses only the result if it is some.
        let resized = unsafe { libc::mremap(start.cast(), old_len, new_len, libc::MREMAP_MAYMOVE) };
        if resized == libc::MAP_FAILED {
            return None;
        }
        MAPPED_BYTES.fetch_add(new_len, Ordering::Relaxed);
        MAPPED_BYTES.fetch_sub(old_len, Ordering::Relaxed);
        NonNull::new(resized.cast())
    }
}

#[cfg(not(all(target_os = "linux", not(feature = "whole_allocations"))))]
mod none {
    use std::ptr::NonNull;

    pub(crate) fn map(_bytes: usize) -> Option<NonNull<u8>> {
        None
    }

    pub(crate) unsafe fn unmap(_start: *mut u8, _bytes: usize) {}

    pub(crate) unsafe fn resize(_start: *mut u8, _old: usize, _new: usize) -> Option<NonNull<u8>> {
        None
    }
}
