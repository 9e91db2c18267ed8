//! Statistics of the allocator, and free pages that go back to the system.
//!
//! [`crate::allocator::allocated_bytes`] counts what is used; this is about the pages that hold it. jemalloc
//! keeps free pages for a while and gives some back at each allocation or release. In an idle process nothing
//! calls it, so [`tick`] must be called now and then.

use std::ffi::{CStr, c_char, c_void};
use std::mem::size_of;
use std::ptr::null_mut;

#[cfg(not(feature = "whole_allocations"))]
use tikv_jemalloc_sys as jemalloc;

use crate::mappings::mapped_bytes;
use crate::slab;

/// Replaces jemalloc where memory comes from the system's allocator: there are no statistics.
#[cfg(feature = "whole_allocations")]
mod jemalloc {
    use std::ffi::{c_char, c_int, c_void};

    pub(super) unsafe fn mallctl(
        _name: *const c_char,
        _old: *mut c_void,
        _old_len: *mut usize,
        _new: *mut c_void,
        _new_len: usize,
    ) -> c_int {
        libc::ENOENT
    }

    pub(super) unsafe fn malloc_stats_print(
        write: Option<unsafe extern "C" fn(*mut c_void, *const c_char)>,
        target: *mut c_void,
        _options: *const c_char,
    ) {
        if let Some(write) = write {
            // SAFETY: the caller's promise is that `write` takes this target and a text that ends in a NUL.
            unsafe { write(target, c"Stats not supported for the current allocator".as_ptr()) };
        }
    }
}

/// The longest report.
const REPORT_BYTES_MAX: usize = 256 << 10;

/// Where the allocator's memory is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapFigures {
    /// Pages that hold allocations.
    pub active: u64,
    /// Pages in memory: active ones, free ones that are kept, and the allocator's own.
    pub resident: u64,
    /// Free pages that the system may take back when it wants to.
    pub muzzy: u64,
    /// Pages that have been given back while their addresses are kept.
    pub retained: u64,
    /// What the allocator keeps for itself.
    pub metadata: u64,
}

impl HeapFigures {
    /// Reads the statistics. `None` if the allocator is built without them.
    pub fn collect() -> Option<HeapFigures> {
        refresh();
        let page = read::<usize>(c"arenas.page")? as u64;
        Some(HeapFigures {
            active: (read::<usize>(c"stats.active")? + slab::held_bytes() + mapped_bytes()) as u64,
            resident: (read::<usize>(c"stats.resident")? + slab::resident_bytes() + mapped_bytes()) as u64,
            // 4096 stands for all arenas.
            muzzy: read::<usize>(c"stats.arenas.4096.pmuzzy")? as u64 * page,
            retained: read::<usize>(c"stats.retained")? as u64,
            metadata: read::<usize>(c"stats.metadata")? as u64,
        })
    }
}

/// Gives free pages back to the system that have been free for some seconds.
pub fn tick() {
    call(c"arena.4096.decay");
}

/// Gives all free pages back at once.
pub fn give_back() {
    slab::purge_all();
    call(c"arena.4096.purge");
}

/// The allocator's own report, as text.
pub fn report() -> String {
    /// Appends a part of the text to the bytes at `target`, as far as its capacity goes: nothing may be
    /// allocated here.
    unsafe extern "C" fn append(target: *mut c_void, text: *const c_char) {
        // SAFETY: `target` is the Vec passed below, alive and used by nobody else during the call; the text
        // ends in a NUL.
        let (bytes, text) = unsafe { (&mut *target.cast::<Vec<u8>>(), CStr::from_ptr(text).to_bytes()) };
        let spare = bytes.capacity() - bytes.len();
        bytes.extend_from_slice(&text[..text.len().min(spare)]);
    }
    let mut bytes = Vec::<u8>::with_capacity(REPORT_BYTES_MAX);
    refresh();
    // SAFETY: the options are a NUL-terminated text; `append` gets the address of `bytes`, which outlives the
    // call.
    unsafe { jemalloc::malloc_stats_print(Some(append), (&raw mut bytes).cast(), c"bla".as_ptr()) };
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Updates the statistics: jemalloc caches them.
fn refresh() {
    let mut epoch = 1_u64;
    let mut size = size_of::<u64>();
    let place = (&raw mut epoch).cast::<c_void>();
    // SAFETY: `epoch` is a 64-bit number, read and written, and lives during the call.
    let _unknown_without_statistics =
        unsafe { jemalloc::mallctl(c"epoch".as_ptr(), place, &raw mut size, place, size_of::<u64>()) };
}

/// The value under a name, `None` if there is none of this size.
fn read<T: Copy + Default>(name: &CStr) -> Option<T> {
    let mut value = T::default();
    let mut size = size_of::<T>();
    // SAFETY: the name ends in a NUL; `value` has `size` bytes, and any bytes are a valid number.
    let result =
        unsafe { jemalloc::mallctl(name.as_ptr(), (&raw mut value).cast(), &raw mut size, null_mut(), 0) };
    (result == 0 && size == size_of::<T>()).then_some(value)
}

/// Calls an action of the allocator that takes no argument.
fn call(name: &CStr) {
    // SAFETY: the name ends in a NUL; nothing is read or written.
    let _done_or_unknown = unsafe { jemalloc::mallctl(name.as_ptr(), null_mut(), null_mut(), null_mut(), 0) };
}

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc, Layout};

    use super::*;
    use crate::allocator::CountingAllocator;

    #[test]
    fn pages_are_given_back() {
        // Each is below what is a mapping of its own.
        let layout = Layout::from_size_align(1 << 20, 8).expect("it is small");
        // SAFETY: the layout has a size.
        let parts: Vec<*mut u8> = (0..64).map(|_| unsafe { CountingAllocator.alloc(layout) }).collect();
        for &part in &parts {
            assert!(!part.is_null());
            // SAFETY: it has so many bytes.
            unsafe { part.write_bytes(1, layout.size()) };
        }
        refresh();
        let resident = || read::<usize>(c"stats.resident");
        let figures = HeapFigures::collect();
        assert!(figures.is_none_or(|figures| figures.active > 0 && figures.resident >= figures.active));
        let before = resident();
        // SAFETY: they were allocated with this layout, and nobody uses them any more.
        parts.into_iter().for_each(|part| unsafe { CountingAllocator.dealloc(part, layout) });
        tick();
        give_back();
        refresh();
        if let (Some(before), Some(after)) = (before, resident()) {
            assert!(after < before, "{after} bytes are resident, and were {before}");
        }
        assert!(report().contains(if cfg!(feature = "whole_allocations") {
            "not supported"
        } else {
            "jemalloc"
        }));
    }
}
