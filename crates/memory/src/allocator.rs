//! The allocator of the server, and the exact sum of what it has handed out.
//!
//! Memory comes from jemalloc. Every allocation is counted with the size of the size class that serves it, so
//! [`allocated_bytes`] is what jemalloc itself would report, without asking it. Each thread counts in one of
//! a few cache lines of its own, so that counting costs no sharing between cores.
//!
//! With the feature `whole_allocations`, memory comes from the system's allocator, and slabs
//! ([`crate::slab`]) are not used: tools that watch memory then see each allocation for itself.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

#[cfg(feature = "whole_allocations")]
use std::alloc::System as Jemalloc;
#[cfg(not(feature = "whole_allocations"))]
use tikv_jemallocator::Jemalloc;

const COUNTER_COUNT: usize = 64;

#[repr(align(128))]
struct Counter(AtomicI64);

static COUNTERS: [Counter; COUNTER_COUNT] = [const { Counter(AtomicI64::new(0)) }; COUNTER_COUNT];
static NEXT_COUNTER: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static COUNTER: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// jemalloc, counted. A program makes it its `#[global_allocator]`.
pub struct CountingAllocator;

/// The allocator's name and version.
pub const NAME: &str = if cfg!(feature = "whole_allocations") { "libc" } else { "jemalloc-5.3.1" };

/// Bytes handed out and not given back, over all threads, each allocation with its whole size class.
pub fn allocated_bytes() -> usize {
    // A counter that a thread takes after this load is part of the next sum.
    let used = NEXT_COUNTER.load(Ordering::Relaxed).min(COUNTER_COUNT);
    let sum: i64 = COUNTERS[..used].iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum();
    usize::try_from(sum).unwrap_or(0)
}

/// Bytes that this thread and those that share its counter have allocated, less what they have freed.
/// Negative if they freed what others allocated. Costs one load; the difference of two calls is what was
/// allocated between.
#[inline]
pub fn thread_bytes() -> i64 {
    COUNTERS[counter_index()].0.load(Ordering::Relaxed)
}

/// Whether [`CountingAllocator`] is the program's allocator, so that [`allocated_bytes`] has all of its
/// memory and not only that of slabs.
pub fn counts_everything() -> bool {
    static COUNTS: OnceLock<bool> = OnceLock::new();
    *COUNTS.get_or_init(|| {
        const BYTES: usize = 64 << 10;
        let before = thread_bytes();
        let memory = std::hint::black_box(vec![1u8; BYTES]);
        let counted = thread_bytes() - before;
        drop(memory);
        counted >= BYTES as i64
    })
}

/// The size of the jemalloc size class that serves `size` bytes: multiples of 16 up to 128 (and 8), then four
/// classes for each doubling.
pub const fn class_size(size: usize) -> usize {
    if size <= 8 {
        8
    } else if size <= 128 {
        (size + 15) & !15
    } else {
        let step = 1 << ((size - 1).ilog2() - 2);
        size.saturating_add(step - 1) & !(step - 1)
    }
}

/// The size class of a layout. Alignments beyond 16 are served from the class of the size rounded up to the
/// alignment.
#[inline]
fn class_of(layout: Layout) -> i64 {
    class_size(if layout.align() > 16 { layout.pad_to_align().size() } else { layout.size() }) as i64
}

/// The counter of this thread.
#[inline]
fn counter_index() -> usize {
    COUNTER
        .try_with(|cell| {
            let index = cell.get();
            if index != usize::MAX {
                return index;
            }
            let index = NEXT_COUNTER.fetch_add(1, Ordering::Relaxed) % COUNTER_COUNT;
            cell.set(index);
            index
        })
        .unwrap_or(0)
}

/// Counts allocated bytes; freed ones are negative.
#[inline]
pub(crate) fn count(bytes: i64) {
    COUNTERS[counter_index()].0.fetch_add(bytes, Ordering::Relaxed);
}

// SAFETY: every call is passed on to jemalloc unchanged; counting touches only atomics and a const
// thread-local.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(class_of(layout));
        // SAFETY: the caller's promises are jemalloc's.
        unsafe { Jemalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(class_of(layout));
        // SAFETY: the caller's promises are jemalloc's.
        unsafe { Jemalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-class_of(layout));
        // SAFETY: the caller's promises are jemalloc's.
        unsafe { Jemalloc.dealloc(memory, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let new = Layout::from_size_align(size, layout.align()).map_or(0, class_of);
        count(new - class_of(layout));
        // SAFETY: the caller's promises are jemalloc's.
        unsafe { Jemalloc.realloc(memory, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::class_size;

    #[test]
    fn class_sizes_are_jemallocs() {
        let pairs =
            [(1, 8), (8, 8), (9, 16), (17, 32), (128, 128), (129, 160), (160, 160), (161, 192), (257, 320)];
        for (size, class) in pairs {
            assert_eq!(class_size(size), class, "{size}");
        }
        assert_eq!(class_size(4097), 5120);
        assert_eq!(class_size(1 << 20), 1 << 20);
        assert_eq!(class_size((1 << 20) + 1), (1 << 20) + (1 << 18));
    }
}
