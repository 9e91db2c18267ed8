//! Hints to the processor to fetch memory into its cache before it is read.

use std::ops::Range;

/// Bytes of a cache line.
pub const CACHE_LINE_BYTES: usize = 64;

/// Asks the processor to bring the cache lines near that begin in a range of bytes behind an address, if that
/// is the beginning of one.
#[inline(always)]
pub fn prefetch_lines(start: *const u8, bytes: Range<usize>) {
    bytes.step_by(CACHE_LINE_BYTES).for_each(|at| prefetch(start.wrapping_add(at)));
}

/// Asks the processor to bring a cache line near. Any address is fine; nothing is read.
#[inline]
pub fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect on memory and cannot fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
