//! The allocator of the server, and the exact sum of what it has handed out.
//!
//! Memory comes from jemalloc. Every allocation is counted with the size of the size class that serves it, so
//! [`allocated_bytes`] is what jemalloc itself would report, without asking it. Each thread counts in one of
//! a few cache lines of its own, so that counting costs no sharing between cores.
//!
//! On Linux, an allocation of [`MAPPED_FROM`] bytes and more is a mapping of its own (see `mappings`), and
//! its class is its number of pages.
//!
//! With the feature `whole_allocations`, memory comes from the system's allocator, and slabs
//! ([`crate::slab`]) are not used: tools that watch memory then see each allocation for itself.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

#[cfg(feature = "whole_allocations")]
use std::alloc::System as Jemalloc;
#[cfg(not(feature = "whole_allocations"))]
use tikv_jemallocator::Jemalloc;

use crate::mappings;

const COUNTER_COUNT: usize = 64;
/// Those that threads take in turn. In tests the last one is for a thread that compares what it counts.
const SHARED_COUNTERS: usize = if cfg!(test) { COUNTER_COUNT - 1 } else { COUNTER_COUNT };

/// Bytes from which on allocations are mappings of their own, where there are such. jemalloc keeps no pages
/// of so large ones for the next, so each is new to the kernel anyway.
const MAPPED_FROM: usize = 8 << 20;

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

/// The bytes that serve `size` bytes: a size class of jemalloc, or the pages of a mapping.
pub const fn class_size(size: usize) -> usize {
    if mappings::ARE_USED && size >= MAPPED_FROM { mappings::rounded(size) } else { heap_class_size(size) }
}

/// The size of the jemalloc size class that serves `size` bytes: multiples of 16 up to 128 (and 8), then four
/// classes for each doubling.
#[inline]
const fn heap_class_size(size: usize) -> usize {
    if size <= 8 {
        8
    } else if size <= 128 {
        (size + 15) & !15
    } else {
        let step = 1 << ((size - 1).ilog2() - 2);
        size.saturating_add(step - 1) & !(step - 1)
    }
}

/// The size class of a layout that jemalloc serves. Alignments beyond 16 are served from the class of the
/// size rounded up to the alignment.
#[inline]
fn heap_class_of(layout: Layout) -> i64 {
    heap_class_size(if layout.align() > 16 { layout.pad_to_align().size() } else { layout.size() }) as i64
}

/// The bytes that serve a layout.
fn class_of(layout: Layout) -> i64 {
    if is_mapped(layout) { mappings::rounded(layout.size()) as i64 } else { heap_class_of(layout) }
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
            let index = NEXT_COUNTER.fetch_add(1, Ordering::Relaxed) % SHARED_COUNTERS;
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

/// Whether allocations of so many bytes are not all jemalloc's.
#[inline]
fn is_large(size: usize) -> bool {
    mappings::ARE_USED && size >= MAPPED_FROM
}

/// Whether a layout is served by a mapping of its own.
fn is_mapped(layout: Layout) -> bool {
    is_large(layout.size()) && layout.align() <= mappings::PAGE_BYTES
}

fn address_of(mapping: Option<NonNull<u8>>) -> *mut u8 {
    mapping.map_or(std::ptr::null_mut(), NonNull::as_ptr)
}

/// # Safety
/// As of [`GlobalAlloc::alloc_zeroed`].
#[cold]
unsafe fn alloc_large(layout: Layout, is_zeroed: bool) -> *mut u8 {
    let memory = if is_mapped(layout) {
        address_of(mappings::map(layout.size()))
    } else if is_zeroed {
        // SAFETY: the caller's promises are jemalloc's.
        unsafe { Jemalloc.alloc_zeroed(layout) }
    } else {
        // SAFETY: as above.
        unsafe { Jemalloc.alloc(layout) }
    };
    if !memory.is_null() {
        count(class_of(layout));
    }
    memory
}

/// # Safety
/// As of [`GlobalAlloc::dealloc`].
#[cold]
unsafe fn dealloc_large(memory: *mut u8, layout: Layout) {
    count(-class_of(layout));
    if is_mapped(layout) {
        // SAFETY: it was mapped with this layout, and the caller uses it no more.
        return unsafe { mappings::unmap(memory, layout.size()) };
    }
    // SAFETY: the caller's promises are jemalloc's.
    unsafe { Jemalloc.dealloc(memory, layout) }
}

/// # Safety
/// As of [`GlobalAlloc::realloc`].
#[cold]
unsafe fn realloc_large(memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    let Ok(new) = Layout::from_size_align(size, layout.align()) else { return std::ptr::null_mut() };
    if is_mapped(layout) && is_mapped(new) {
        // SAFETY: it was mapped with this layout.
        let resized = address_of(unsafe { mappings::resize(memory, layout.size(), size) });
        if !resized.is_null() {
            count(class_of(new) - class_of(layout));
        }
        return resized;
    }
    if !is_mapped(layout) && !is_mapped(new) {
        // SAFETY: the caller's promises are jemalloc's.
        let resized = unsafe { Jemalloc.realloc(memory, layout, size) };
        if !resized.is_null() {
            count(class_of(new) - class_of(layout));
        }
        return resized;
    }
    // SAFETY: the size is not zero.
    let moved = unsafe { CountingAllocator.alloc(new) };
    if !moved.is_null() {
        // SAFETY: both have at least as many bytes, and the new one lies apart.
        unsafe { std::ptr::copy_nonoverlapping(memory, moved, layout.size().min(size)) };
        // SAFETY: the caller's promises; it is not used any more.
        unsafe { CountingAllocator.dealloc(memory, layout) };
    }
    moved
}

// SAFETY: every call is passed on unchanged to jemalloc, or to `mappings` for the layouts that `is_mapped`
// says, which are the same when they come back; counting touches only atomics and a const thread-local.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout.size()) {
            // SAFETY: the caller's promises.
            return unsafe { alloc_large(layout, false) };
        }
        count(heap_class_of(layout));
        // SAFETY: the caller's promises are jemalloc's.
        unsafe { Jemalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout.size()) {
            // SAFETY: the caller's promises.
            return unsafe { alloc_large(layout, true) };
        }
        count(heap_class_of(layout));
        // SAFETY: the caller's promises are jemalloc's.
        unsafe { Jemalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if is_large(layout.size()) {
            // SAFETY: the caller's promises.
            return unsafe { dealloc_large(memory, layout) };
        }
        count(-heap_class_of(layout));
        // SAFETY: the caller's promises are jemalloc's.
        unsafe { Jemalloc.dealloc(memory, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_large(layout.size().max(size)) {
            // SAFETY: the caller's promises.
            return unsafe { realloc_large(memory, layout, size) };
        }
        let new = Layout::from_size_align(size, layout.align()).map_or(0, heap_class_of);
        count(new - heap_class_of(layout));
        // SAFETY: the caller's promises are jemalloc's.
        unsafe { Jemalloc.realloc(memory, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc, Layout};

    use super::{CountingAllocator, MAPPED_FROM, class_of, class_size, thread_bytes};
    use crate::test_random::Random;

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

    const PART_BYTES: usize = 4093;

    /// What the bytes of a part of an allocation are, when it has been filled for the given number of times.
    fn byte_of(part: usize, round: usize) -> u8 {
        (part + round) as u8
    }

    #[test]
    fn large_allocations_keep_their_bytes_whatever_size_they_get() {
        super::COUNTER.with(|counter| counter.set(super::SHARED_COUNTERS));
        let mut random = Random::new(11);
        for align in [1, 16, 64, 4096, 8192] {
            let before = thread_bytes();
            let mut size = 100;
            let layout = |size| Layout::from_size_align(size, align).expect("it is small");
            // SAFETY: the layout has a size.
            let mut memory = unsafe { CountingAllocator.alloc(layout(size)) };
            let mut filled = 0;
            for round in 0..40 {
                let next = match random.below(4) {
                    0 => random.below(100_000) + 1,
                    1 => MAPPED_FROM - 2 + random.below(4),
                    _ => random.below(4 * MAPPED_FROM) + 1,
                };
                // SAFETY: the allocation has `size` bytes in this layout, and the result takes its place.
                memory = unsafe { CountingAllocator.realloc(memory, layout(size), next) };
                assert!(!memory.is_null() && memory.addr().is_multiple_of(align));
                // SAFETY: it has `next` bytes; those up to `filled` have been written.
                let bytes = unsafe { std::slice::from_raw_parts_mut(memory, next) };
                let kept = filled.min(next);
                let is_kept = |at: usize| bytes[at] == byte_of(at / PART_BYTES, round);
                assert!((0..kept).step_by(977).all(is_kept), "round {round}");
                let parts = bytes.chunks_mut(PART_BYTES).enumerate();
                parts.for_each(|(number, part)| part.fill(byte_of(number, round + 1)));
                (size, filled) = (next, next);
                assert_eq!(thread_bytes() - before, class_of(layout(size)));
            }
            // SAFETY: it is not used any more.
            unsafe { CountingAllocator.dealloc(memory, layout(size)) };
            assert_eq!(thread_bytes(), before);
        }
    }

    #[test]
    fn zeroed_allocations_are_zero() {
        let layout = Layout::from_size_align(MAPPED_FROM + 5, 8).expect("it is small");
        for _ in 0..3 {
            // SAFETY: the layout has a size.
            let memory = unsafe { CountingAllocator.alloc_zeroed(layout) };
            // SAFETY: it has so many bytes, which are zero.
            let bytes = unsafe { std::slice::from_raw_parts_mut(memory, layout.size()) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(1);
            // SAFETY: it is not used any more.
            unsafe { CountingAllocator.dealloc(memory, layout) };
        }
    }
}
