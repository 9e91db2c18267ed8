//! Memory straight from the system, with huge pages or without: what measurements of memory work on.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The bytes of a huge page where the base page has 4 KiB.
const HUGE_BYTES: usize = 2 << 20;

/// Numbers in a mapping of their own, all zero at first, aligned to a huge page.
///
/// The system provides memory as it is written to.
pub struct Pages {
    mapping: NonNull<u8>,
    mapping_bytes: usize,
    start: NonNull<u64>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone and does not depend on a thread.
unsafe impl Send for Pages {}
// SAFETY: a shared reference gives only shared access to plain integers.
unsafe impl Sync for Pages {}

impl Pages {
    /// Memory for so many numbers. Whether huge pages are wished is a request; without kernel support it is
    /// lost silently.
    pub fn new(len: usize, huge: bool) -> io::Result<Pages> {
        let bytes = len.checked_mul(size_of::<u64>()).and_then(|bytes| bytes.checked_add(HUGE_BYTES));
        let mapping_bytes = bytes.ok_or(io::ErrorKind::OutOfMemory)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: asks for a new mapping at an address that the system chooses.
        let mapping = unsafe { libc::mmap(std::ptr::null_mut(), mapping_bytes, protection, flags, -1, 0) };
        if mapping == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        #[cfg(target_os = "linux")]
        {
            let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
            // SAFETY: the range is the mapping just made; the advice changes no contents.
            let _ = unsafe { libc::madvise(mapping, mapping_bytes, advice) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = huge;
        let mapping = NonNull::new(mapping.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let offset = mapping.addr().get().next_multiple_of(HUGE_BYTES) - mapping.addr().get();
        debug_assert!(offset + len * size_of::<u64>() <= mapping_bytes);
        // SAFETY: the offset is below HUGE_BYTES, by which the mapping is longer than the numbers.
        let start = unsafe { mapping.add(offset) }.cast::<u64>();
        Ok(Pages { mapping, mapping_bytes, start, len })
    }
}

impl Deref for Pages {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        // SAFETY: `len` numbers from `start` lie in the mapping, aligned; anonymous memory is zero at first.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and the reference to `self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        let _ = unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.mapping_bytes) };
    }
}

/// The shortest system call: asks for the parent's process id.
pub fn shortest_system_call() {
    std::hint::black_box(rustix::process::getppid());
}

/// The monotonic clock as of the last tick, in nanoseconds: what reading a clock costs without its counter.
pub fn coarse_clock_ns() -> i64 {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::MonotonicCoarse;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    rustix::time::clock_gettime(clock).tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_aligned_and_writable() {
        for (len, huge) in [(0, false), (1, true), (1 << 19, true), (100_000, false)] {
            let mut pages = Pages::new(len, huge).expect("there is memory");
            assert!(pages.as_ptr().addr().is_multiple_of(HUGE_BYTES));
            assert_eq!(pages.iter().max().copied().unwrap_or(0), 0);
            pages.fill(7);
            assert_eq!(pages.iter().sum::<u64>(), 7 * len as u64);
        }
        assert!(Pages::new(usize::MAX, false).is_err());
    }
}
