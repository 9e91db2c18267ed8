//! Small allocations in fine sizes, packed into slabs that can be emptied.
//!
//! A general allocator rounds 257 bytes up to 320, and keeps a page as long as one allocation is left in it.
//! Entries and small collections are most of a keyspace's memory, so they come from here: cells in steps of 8
//! bytes up to 256, of 16 up to 512, of 32 up to 1,024. Larger sizes go to the global allocator, except those
//! from 28 to 32 KB, which lie in huge pages as slabs do.
//!
//! ```text
//! slab of 8, 16 or 32 KB (for cells up to 256, 512, 1,024 bytes), aligned to its size
//! byte 0    header (32 bytes): neighbours in its list, arena, class, number of live cells, free cells
//! byte 32   cells; a free one holds the number of the next free one in its first two bytes
//! ```
//!
//! Loss: at most 7 bytes of 256 by rounding, 32 bytes of header, and the rest that is too short for a cell:
//! at most 4 in 100 of a slab.
//!
//! Each thread allocates from one of [`ARENA_COUNT`] arenas, each behind a lock of its own which is hardly
//! ever contended; a cell goes back to the arena that it came from, from any thread.
//!
//! # Compaction
//!
//! [`begin_compaction`] chooses slabs to empty, for each arena and size: the emptiest ones whose cells fit
//! into the others. New cells are no longer allocated in them. The owners of cells then call [`relocate`] for
//! each, which moves those in a chosen slab. A slab whose last cell is moved is freed at once.
//! [`end_compaction`] returns the slabs that have not become empty to ordinary use.

mod chunks;

use std::alloc::{Layout, handle_alloc_error};
use std::cell::Cell;
use std::mem::size_of;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::allocator;

/// Largest size, in bytes, that is served from slabs.
pub const CELL_BYTES_MAX: usize = 1024;
/// Threads share arenas beyond this number.
const ARENA_COUNT: usize = 64;
const CLASS_COUNT: usize = 64;
/// The end of a list of free cells.
const NO_CELL: u16 = u16::MAX;
/// Compaction leaves a size alone while fewer of its slabs than this in a hundred could go.
const SPARE_PERCENT_MIN: usize = 3;
/// A compaction is worth its time if it frees at least one byte in this number.
pub const WORTHWHILE: usize = 64;
/// Slabs that are inspected before an arena's lock is released.
const SLABS_PER_LOCK: usize = 256;
/// Calls of [`purge`] during which memory must be unused before it goes back to the system.
const PURGES_IDLE: u8 = 4;

#[repr(C)]
struct Header {
    next: *mut Header,
    previous: *mut Header,
    arena: u16,
    class: u8,
    /// Chosen by compaction: in the ring of such slabs instead of that of slabs with free cells.
    draining: AtomicBool,
    /// Had no live cell at the last [`purge`].
    was_empty: bool,
    /// The memory from `was_untouched` on has gone back to the system.
    rest_is_gone: bool,
    live: u16,
    capacity: u16,
    /// Cells from this number on have never been used.
    untouched: u16,
    /// The first free cell of those that have.
    free: u16,
    /// `untouched` at the last [`purge`].
    was_untouched: u16,
}

const HEADER_BYTES: usize = 32;
const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);
const _: () = assert!(class_of(CELL_BYTES_MAX) == CLASS_COUNT - 1 && class_of(1) == 0);

/// The slabs of one size in one arena.
#[derive(Clone, Copy)]
struct Class {
    /// Slabs with free cells, in a ring.
    open: *mut Header,
    /// Slabs that compaction empties, in a ring.
    draining: *mut Header,
    slabs: usize,
    live: usize,
}

struct Arena([Class; CLASS_COUNT]);

// SAFETY: the slabs behind the pointers belong to the arena and are reached under its lock only.
unsafe impl Send for Arena {}

static ARENAS: [Mutex<Arena>; ARENA_COUNT] = {
    const EMPTY: Class = Class { open: null_mut(), draining: null_mut(), slabs: 0, live: 0 };
    [const { Mutex::new(Arena([EMPTY; CLASS_COUNT])) }; ARENA_COUNT]
};
static NEXT_ARENA: AtomicUsize = AtomicUsize::new(0);
/// Bytes of all slabs and pages.
static HELD: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static ARENA: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The index of the class that serves `size` bytes, which is at most [`CELL_BYTES_MAX`].
const fn class_of(size: usize) -> usize {
    if size <= 8 {
        0
    } else if size <= 256 {
        (size - 1) / 8
    } else if size <= 512 {
        32 + (size - 257) / 16
    } else {
        48 + (size - 513) / 32
    }
}

const fn cell_bytes(class: usize) -> usize {
    match class {
        0..32 => (class + 1) * 8,
        32..48 => 256 + (class - 31) * 16,
        _ => 512 + (class - 47) * 32,
    }
}

const fn slab_bytes(class: usize) -> usize {
    match class {
        0..32 => 8 << 10,
        32..48 => 16 << 10,
        _ => 32 << 10,
    }
}

/// Cells in a slab of a class.
const fn capacity(class: usize) -> usize {
    (slab_bytes(class) - HEADER_BYTES) / cell_bytes(class)
}

/// Bytes taken by an allocation of `size` bytes.
pub const fn class_size(size: usize) -> usize {
    if size <= CELL_BYTES_MAX { cell_bytes(class_of(size)) } else { allocator::class_size(size) }
}

/// Bytes of all slabs, pages and runs, used or not. What [`allocator::allocated_bytes`] counts of slabs is
/// the cells in use.
pub fn held_bytes() -> usize {
    usize::try_from(HELD.load(Ordering::Relaxed)).unwrap_or(0)
}

/// The same, and free memory that has not gone back to the system.
pub fn resident_bytes() -> usize {
    held_bytes() + chunks::dirty_bytes()
}

/// How full slabs are, as text: a line for each size of cells that is in use.
pub fn report() -> String {
    let mut text = String::from("cell bytes      slabs      cells in use   filled to\n");
    for class in 0..CLASS_COUNT {
        let states = arenas_in_use().iter().map(|arena| arena.lock().0[class]);
        let (slabs, live) = states.fold((0, 0), |sum, state| (sum.0 + state.slabs, sum.1 + state.live));
        if slabs > 0 {
            let (bytes, percent) = (cell_bytes(class), live * 100 / (slabs * capacity(class)));
            text += &format!("{bytes:10} {slabs:10} {live:17} {percent:9} %\n");
        }
    }
    let free_bytes = chunks::dirty_bytes();
    text + &format!("{} bytes of slabs and pages, {free_bytes} bytes free and kept\n", held_bytes())
}

/// Gives memory back to the system that has been unused for some calls: slabs without a live cell, the cells
/// of a slab that were never used, and free units. To be called about once a second.
pub fn purge() {
    purge_idle(PURGES_IDLE);
}

/// Gives all unused memory back to the system at once.
pub fn purge_all() {
    chunks::give_ready_back();
    purge_idle(0);
}

fn purge_idle(idle_calls: u8) {
    for arena in arenas_in_use() {
        let with_free_cells = {
            let arena = arena.lock();
            Classes::of(|class| !arena.0[class].open.is_null())
        };
        with_free_cells.for_each(|class| arena.lock().0[class].give_idle_back(class));
    }
    chunks::purge(idle_calls);
}

/// Allocates chunks ahead for as much growth as there was since the last call. To be called a few times a
/// second, with nothing locked.
pub fn prepare() {
    chunks::prepare();
}

/// Replaces a call of [`prepare`] when growth ends, or when no lock is held while memory is allocated.
pub fn forget_growth() {
    chunks::forget_growth();
}

/// Memory for `size` bytes, aligned to eight. It must be freed with [`dealloc`].
#[inline]
pub fn alloc(size: usize) -> NonNull<u8> {
    if size > CELL_BYTES_MAX || cfg!(feature = "whole_allocations") {
        return alloc_large(size);
    }
    let index = ARENA.with(|arena| {
        if arena.get() == usize::MAX {
            arena.set(NEXT_ARENA.fetch_add(1, Ordering::Relaxed) % ARENA_COUNT);
        }
        arena.get()
    });
    let class = class_of(size);
    allocator::count(cell_bytes(class) as i64);
    ARENAS[index].lock().take(index, class)
}

/// Gives memory back.
///
/// # Safety
/// `memory` came from this module with the same `size`, and is not used any more.
#[inline]
pub unsafe fn dealloc(memory: NonNull<u8>, size: usize) {
    if size > CELL_BYTES_MAX || cfg!(feature = "whole_allocations") {
        // SAFETY: the caller's promise.
        return unsafe { dealloc_large(memory, size) };
    }
    let class = class_of(size);
    allocator::count(-(cell_bytes(class) as i64));
    // SAFETY: a live cell of this class, by the caller's promise.
    unsafe {
        let header = header_of(memory, class);
        ARENAS[usize::from((*header).arena)].lock().give_back(header, memory, class);
    }
}

/// Memory of another size with the same beginning; the old memory must not be used any more.
///
/// # Safety
/// `memory` came from this module with the size `old`.
pub unsafe fn realloc(memory: NonNull<u8>, old: usize, new: usize) -> NonNull<u8> {
    let in_slabs = |size| size <= CELL_BYTES_MAX && !cfg!(feature = "whole_allocations");
    if in_slabs(old) && in_slabs(new) && class_of(old) == class_of(new) {
        return memory;
    }
    if takes_run(old) && takes_run(new) {
        return memory;
    }
    let is_global = |size| !in_slabs(size) && !takes_run(size);
    if is_global(old) && is_global(new) {
        // SAFETY: the caller's promise; both sizes are served by the global allocator.
        let moved =
            unsafe { std::alloc::realloc(memory.as_ptr(), large_layout(old), large_layout(new).size()) };
        return NonNull::new(moved).unwrap_or_else(|| handle_alloc_error(large_layout(new)));
    }
    let moved = alloc(new);
    // SAFETY: two allocations of at least this length; the old one is given back once.
    unsafe {
        std::ptr::copy_nonoverlapping(memory.as_ptr(), moved.as_ptr(), old.min(new));
        dealloc(memory, old);
    }
    moved
}

/// Bytes of what [`alloc_page`] returns.
pub const PAGE_BYTES: usize = chunks::UNIT_BYTES;

/// [`PAGE_BYTES`] aligned to their size, in a huge page where the system has them. For hash tables, whose
/// accesses are spread over all of their memory. Contents are undefined. To be freed with [`dealloc_page`].
pub fn alloc_page() -> NonNull<u8> {
    if cfg!(feature = "whole_allocations") {
        let layout = page_layout();
        // SAFETY: the layout is not empty.
        let memory = unsafe { std::alloc::alloc(layout) };
        return NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout));
    }
    take_units(1)
}

/// So many units, which no slab lies in.
fn take_units(units: usize) -> NonNull<u8> {
    let bytes = (units * chunks::UNIT_BYTES) as i64;
    allocator::count(bytes);
    HELD.fetch_add(bytes, Ordering::Relaxed);
    chunks::take(units)
}

/// Gives them back.
///
/// # Safety
/// They came from [`take_units`] with the same number and are not used any more.
unsafe fn give_units_back(memory: NonNull<u8>, units: usize) {
    let bytes = (units * chunks::UNIT_BYTES) as i64;
    allocator::count(-bytes);
    HELD.fetch_sub(bytes, Ordering::Relaxed);
    // SAFETY: the caller's promise.
    unsafe { chunks::give_back(memory, units) };
}

/// Gives a page back.
///
/// # Safety
/// `page` came from [`alloc_page`] and is not used any more.
pub unsafe fn dealloc_page(page: NonNull<u8>) {
    // SAFETY: the caller's promise.
    unsafe {
        if cfg!(feature = "whole_allocations") {
            return std::alloc::dealloc(page.as_ptr(), page_layout());
        }
        give_units_back(page, 1);
    }
}

fn page_layout() -> Layout {
    Layout::from_size_align(PAGE_BYTES, PAGE_BYTES).expect("a power of two")
}

/// Moves an allocation out of a slab that is being emptied; `None` if it may stay where it is. The old memory
/// must not be used once it has moved.
///
/// # Safety
/// `memory` came from this module with the same `size`, and nobody else refers to it.
pub unsafe fn relocate(memory: NonNull<u8>, size: usize) -> Option<NonNull<u8>> {
    if size > CELL_BYTES_MAX || cfg!(feature = "whole_allocations") {
        return None;
    }
    let class = class_of(size);
    // SAFETY: a live cell of this class, by the caller's promise; its slab stays while the cell lives.
    unsafe {
        let header = header_of(memory, class);
        if !(*header).draining.load(Ordering::Relaxed) {
            return None;
        }
        let index = usize::from((*header).arena);
        let mut arena = ARENAS[index].lock();
        let moved = arena.take(index, class);
        std::ptr::copy_nonoverlapping(memory.as_ptr(), moved.as_ptr(), size);
        arena.give_back(header, memory, class);
        Some(moved)
    }
}

/// Chooses the slabs to empty. Returns the number of their live cells; 0 if less than one in [`WORTHWHILE`]
/// bytes would be freed. Counts only sizes of which at least `spare_percent` (3 or more) in a hundred slabs
/// can be freed. One compaction at a time. An arena is locked for a few hundred slabs at most.
pub fn begin_compaction(spare_percent: usize) -> usize {
    let spare_percent = spare_percent.max(SPARE_PERCENT_MIN);
    let spare_bytes = |arena: &Mutex<Arena>| {
        let arena = arena.lock();
        (0..CLASS_COUNT).map(|class| arena.spare(class, spare_percent) * slab_bytes(class)).sum::<usize>()
    };
    if arenas_in_use().iter().map(spare_bytes).sum::<usize>() < held_bytes() / WORTHWHILE {
        return 0;
    }
    let mut cells = 0;
    for arena in arenas_in_use() {
        let worthwhile = {
            let arena = arena.lock();
            Classes::of(|class| arena.spare(class, spare_percent) > 0)
        };
        cells += worthwhile.map(|class| choose_slabs(arena, class, spare_percent)).sum::<usize>();
    }
    cells
}

/// The arenas that threads have been assigned to so far.
fn arenas_in_use() -> &'static [Mutex<Arena>] {
    &ARENAS[..NEXT_ARENA.load(Ordering::Relaxed).min(ARENA_COUNT)]
}

/// Some classes, one bit for each.
struct Classes(u64);

const _: () = assert!(CLASS_COUNT == u64::BITS as usize);

impl Classes {
    fn of(mut is_one: impl FnMut(usize) -> bool) -> Self {
        Classes((0..CLASS_COUNT).fold(0, |bits, class| bits | u64::from(is_one(class)) << class))
    }
}

impl Iterator for Classes {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let class = (self.0 != 0).then_some(self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(class)
    }
}

/// Chooses slabs of one class, in two rounds: first those emptier than the mean, then all that are less than
/// 90 % full.
fn choose_slabs(arena: &Mutex<Arena>, class: usize, spare_percent: usize) -> usize {
    let (spare, slabs, mean) = {
        let arena = arena.lock();
        let state = &arena.0[class];
        (arena.spare(class, spare_percent), state.slabs, state.live / state.slabs.max(1))
    };
    let (mut chosen, mut cells) = (0, 0);
    for live_max in [mean, capacity(class) * 9 / 10] {
        let mut left = slabs;
        while left > 0 && chosen < spare {
            let steps = left.min(SLABS_PER_LOCK);
            let (more, more_cells) = arena.lock().choose(class, steps, live_max, spare - chosen);
            chosen += more;
            cells += more_cells;
            left -= steps;
        }
    }
    cells
}

/// Parts of a large collection in a slice.
const PARTS_PER_SLICE: usize = 128;

/// The range of parts that make up a slice, of a collection with `len` parts. Collections are compacted a
/// slice at a time, so that a shard is locked for one slice only.
pub fn parts_of_slice(len: usize, slice: usize) -> std::ops::Range<usize> {
    let start = slice.saturating_mul(PARTS_PER_SLICE).min(len);
    start..len.min(start + PARTS_PER_SLICE)
}

/// Puts slabs that compaction has not emptied back to use.
pub fn end_compaction() {
    for arena in arenas_in_use() {
        let chosen = {
            let arena = arena.lock();
            Classes::of(|class| !arena.0[class].draining.is_null())
        };
        for class in chosen {
            while arena.lock().forget_choice(class, SLABS_PER_LOCK) {}
        }
    }
}

impl Arena {
    #[inline]
    fn take(&mut self, index: usize, class: usize) -> NonNull<u8> {
        let state = &mut self.0[class];
        if state.open.is_null() {
            state.open_slab(index, class);
        }
        state.live += 1;
        let header = state.open;
        // SAFETY: slabs on the list are live and have free cells; cells lie inside them.
        unsafe {
            let slab = &mut *header;
            let number = if slab.free == NO_CELL {
                slab.untouched += 1;
                slab.untouched - 1
            } else {
                slab.free
            };
            let cell = header.cast::<u8>().add(HEADER_BYTES + usize::from(number) * cell_bytes(class));
            if number == slab.free {
                slab.free = cell.cast::<u16>().read();
            }
            slab.live += 1;
            if slab.live == slab.capacity {
                unlink(&mut state.open, header);
            }
            NonNull::new_unchecked(cell)
        }
    }

    /// # Safety
    /// `cell` is a live cell of the slab `header` of this arena and class.
    unsafe fn give_back(&mut self, header: *mut Header, cell: NonNull<u8>, class: usize) {
        let state = &mut self.0[class];
        state.live -= 1;
        // SAFETY: the caller's promise, and the arena is locked.
        unsafe {
            let slab = &mut *header;
            let offset = cell.as_ptr().addr() - header.addr() - HEADER_BYTES;
            cell.as_ptr().cast::<u16>().write(slab.free);
            slab.free = (offset / cell_bytes(class)) as u16;
            let was_full = slab.live == slab.capacity;
            slab.live -= 1;
            let draining = slab.draining.load(Ordering::Relaxed);
            if was_full {
                link(&mut state.open, header);
            }
            if slab.live == 0 {
                if draining {
                    unlink(&mut state.draining, header);
                    state.close_slab(header, class);
                } else if slab.next != header {
                    unlink(&mut state.open, header);
                    state.close_slab(header, class);
                }
            }
        }
    }

    /// The number of slabs of a class that compaction can free; 0 if it is below `spare_percent`.
    fn spare(&self, class: usize, spare_percent: usize) -> usize {
        let state = &self.0[class];
        let spare = state.slabs.saturating_sub(state.live.div_ceil(capacity(class)));
        if spare * 100 < state.slabs * spare_percent { 0 } else { spare }
    }

    /// Inspects up to `steps` slabs with free cells. Those with at most `live_max` live cells are chosen, up
    /// to `wanted`; the others go to the end of the ring. Returns the numbers of chosen slabs and of their
    /// cells.
    fn choose(&mut self, class: usize, steps: usize, live_max: usize, wanted: usize) -> (usize, usize) {
        let state = &mut self.0[class];
        let (mut slabs, mut cells) = (0, 0);
        for _ in 0..steps {
            let slab = state.open;
            if slab.is_null() || slabs == wanted {
                break;
            }
            // SAFETY: slabs on the list are live, and the arena is locked.
            unsafe {
                let live = usize::from((*slab).live);
                if live > live_max {
                    state.open = (*slab).next;
                    continue;
                }
                unlink(&mut state.open, slab);
                if live == 0 {
                    state.close_slab(slab, class);
                } else {
                    (*slab).draining.store(true, Ordering::Relaxed);
                    link(&mut state.draining, slab);
                }
                slabs += 1;
                cells += live;
            }
        }
        (slabs, cells)
    }

    /// Returns up to `steps` chosen slabs to ordinary use; false when none is left.
    fn forget_choice(&mut self, class: usize, steps: usize) -> bool {
        let state = &mut self.0[class];
        for _ in 0..steps {
            let slab = state.draining;
            if slab.is_null() {
                return false;
            }
            // SAFETY: slabs on the list are live, and the arena is locked.
            unsafe {
                unlink(&mut state.draining, slab);
                (*slab).draining.store(false, Ordering::Relaxed);
                link(&mut state.open, slab);
            }
        }
        true
    }
}

impl Class {
    #[cold]
    fn open_slab(&mut self, index: usize, class: usize) {
        let header = chunks::take(slab_bytes(class) / chunks::UNIT_BYTES).cast::<Header>().as_ptr();
        // SAFETY: the slab is ours, and the header lies inside it.
        unsafe {
            header.write(Header {
                next: null_mut(),
                previous: null_mut(),
                arena: index as u16,
                class: class as u8,
                draining: AtomicBool::new(false),
                was_empty: false,
                rest_is_gone: false,
                live: 0,
                capacity: capacity(class) as u16,
                untouched: 0,
                free: NO_CELL,
                was_untouched: 0,
            });
            link(&mut self.open, header);
        }
        self.slabs += 1;
        HELD.fetch_add(slab_bytes(class) as i64, Ordering::Relaxed);
    }

    /// Frees the one empty slab that a class keeps, if it was empty at the last call as well. Otherwise gives
    /// its cells that were never used back to the system, if none of them was taken since the last call.
    fn give_idle_back(&mut self, class: usize) {
        if self.open.is_null() {
            return;
        }
        // SAFETY: slabs on the list are live, and the arena is locked, of which this class is a part.
        unsafe {
            // An empty slab, or the one opened last, was alone in the ring. New slabs are linked before it.
            let header = (*self.open).previous;
            let slab = &mut *header;
            let is_empty = slab.live == 0;
            if is_empty && slab.was_empty {
                unlink(&mut self.open, header);
                self.close_slab(header, class);
                return;
            }
            slab.was_empty = is_empty;
            if slab.was_untouched != slab.untouched {
                slab.was_untouched = slab.untouched;
                slab.rest_is_gone = false;
            } else if !slab.rest_is_gone {
                let used = HEADER_BYTES + usize::from(slab.untouched) * cell_bytes(class);
                let rest = NonNull::new_unchecked(header.cast::<u8>().add(used));
                slab.rest_is_gone = chunks::discard_rest(rest, slab_bytes(class) - used);
            }
        }
    }

    /// # Safety
    /// The slab is on no list and has no live cell.
    unsafe fn close_slab(&mut self, header: *mut Header, class: usize) {
        self.slabs -= 1;
        HELD.fetch_sub(slab_bytes(class) as i64, Ordering::Relaxed);
        // SAFETY: the caller's promise; `open_slab` took as many units.
        unsafe {
            debug_assert_eq!(usize::from((*header).class), class, "cells are given back with their size");
            let slab = NonNull::new_unchecked(header).cast();
            chunks::give_back(slab, slab_bytes(class) / chunks::UNIT_BYTES);
        }
    }
}

/// # Safety
/// `slab` is live and on no list; `head` begins a ring of live slabs.
unsafe fn link(head: &mut *mut Header, slab: *mut Header) {
    // SAFETY: the caller's promise.
    unsafe {
        let next = if head.is_null() { slab } else { *head };
        let previous = if head.is_null() { slab } else { (*next).previous };
        (*slab).next = next;
        (*slab).previous = previous;
        (*previous).next = slab;
        (*next).previous = slab;
    }
    *head = slab;
}

/// # Safety
/// `slab` is in the ring that `head` begins.
unsafe fn unlink(head: &mut *mut Header, slab: *mut Header) {
    // SAFETY: the caller's promise.
    unsafe {
        let (next, previous) = ((*slab).next, (*slab).previous);
        if next == slab {
            *head = null_mut();
            return;
        }
        (*previous).next = next;
        (*next).previous = previous;
        if *head == slab {
            *head = next;
        }
    }
}

/// The slab that a cell lies in.
#[inline]
fn header_of(cell: NonNull<u8>, class: usize) -> *mut Header {
    cell.as_ptr().map_addr(|address| address & !(slab_bytes(class) - 1)).cast()
}

fn large_layout(size: usize) -> Layout {
    Layout::from_size_align(size.max(1), 8).expect("no allocation exceeds half of the address space")
}

/// Units of the largest run in a chunk.
const RUN_UNITS: usize = 4;
/// Their bytes.
pub const RUN_BYTES: usize = RUN_UNITS * chunks::UNIT_BYTES;

/// Whether a size takes such a run. The global allocator would take as many bytes, but not in a huge page.
const fn takes_run(size: usize) -> bool {
    size > RUN_BYTES / 8 * 7 && size <= RUN_BYTES && !cfg!(feature = "whole_allocations")
}

#[cold]
fn alloc_large(size: usize) -> NonNull<u8> {
    if takes_run(size) {
        return take_units(RUN_UNITS);
    }
    let layout = large_layout(size);
    // SAFETY: the layout is not empty.
    let memory = unsafe { std::alloc::alloc(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

/// # Safety
/// `memory` came from [`alloc_large`] with the same `size` and is not used any more.
#[cold]
unsafe fn dealloc_large(memory: NonNull<u8>, size: usize) {
    // SAFETY: the caller's promise; the layout is that of `alloc_large`.
    unsafe {
        if takes_run(size) {
            give_units_back(memory, RUN_UNITS);
        } else {
            std::alloc::dealloc(memory.as_ptr(), large_layout(size));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_their_sizes_in_fine_steps() {
        for size in 1..=CELL_BYTES_MAX {
            let (class, bytes) = (class_of(size), class_size(size));
            assert!(bytes >= size && bytes - size < 32 && bytes.is_multiple_of(8), "{size}: {bytes}");
            assert!(class == 0 || cell_bytes(class - 1) < size, "{size}");
            let cells = (slab_bytes(class) - HEADER_BYTES) / bytes;
            assert!(cells * bytes * 100 >= slab_bytes(class) * 96 || size > 960, "{size}: {cells} cells");
        }
        assert_eq!(class_size(CELL_BYTES_MAX + 1), allocator::class_size(CELL_BYTES_MAX + 1));
        for size in (CELL_BYTES_MAX + 1..=2 * RUN_BYTES).filter(|&size| takes_run(size)) {
            assert_eq!(class_size(size), RUN_BYTES, "{size}");
        }
    }

    /// Mostly sizes of cells, at times one about that of a run.
    fn random_size(mut random: impl FnMut() -> usize) -> usize {
        match random() % 16 {
            0 => RUN_BYTES * 3 / 4 + random() % (RUN_BYTES / 2),
            _ => 1 + random() % 1200,
        }
    }

    /// Cells with a pattern that tells a mix-up.
    struct Filled(NonNull<u8>, usize, u8);

    impl Filled {
        fn new(size: usize, byte: u8) -> Self {
            let memory = alloc(size);
            // SAFETY: `size` bytes were allocated.
            unsafe { memory.as_ptr().write_bytes(byte, size) };
            Filled(memory, size, byte)
        }

        fn check(&self) {
            // SAFETY: `size` bytes, all written.
            let bytes = unsafe { std::slice::from_raw_parts(self.0.as_ptr(), self.1) };
            assert!(bytes.iter().all(|byte| *byte == self.2));
            assert_eq!(self.0.as_ptr().addr() % 8, 0);
        }

        fn free(self) {
            self.check();
            // SAFETY: allocated with this size, and given back once.
            unsafe { dealloc(self.0, self.1) };
        }
    }

    // SAFETY: it owns its memory.
    unsafe impl Send for Filled {}

    fn random_numbers(seed: u64) -> impl FnMut() -> usize {
        let mut random = crate::test_random::random_numbers(seed);
        move || random() as usize
    }

    #[test]
    fn cells_do_not_overlap_and_move_with_their_contents() {
        let mut random = random_numbers(5);
        let mut cells: Vec<Filled> = Vec::new();
        for step in 0..60_000 {
            match random() % 5 {
                0 | 1 => cells.push(Filled::new(random_size(&mut random), step as u8)),
                2 | 3 if !cells.is_empty() => cells.swap_remove(random() % cells.len()).free(),
                _ if !cells.is_empty() => {
                    let index = random() % cells.len();
                    let (cell, new) = (&mut cells[index], random_size(&mut random));
                    cell.check();
                    // SAFETY: allocated with this size; the old pointer is replaced.
                    unsafe {
                        cell.0 = realloc(cell.0, cell.1, new);
                        let kept = std::slice::from_raw_parts(cell.0.as_ptr(), cell.1.min(new));
                        assert!(kept.iter().all(|byte| *byte == cell.2));
                        cell.0.as_ptr().write_bytes(cell.2, new);
                    }
                    cell.1 = new;
                }
                _ => {}
            }
        }
        cells.into_iter().for_each(Filled::free);
    }

    #[cfg(not(feature = "whole_allocations"))]
    #[test]
    fn compaction_gives_the_memory_of_sparse_slabs_back() {
        // A size that no other test uses, and enough of it to dwarf the rest.
        const SIZE: usize = 248;
        let class = class_of(SIZE);
        let slabs = || ARENAS.iter().map(|arena| arena.lock().0[class].slabs).sum::<usize>();
        let mut cells: Vec<Filled> = (0..50_000).map(|number| Filled::new(SIZE, number as u8)).collect();
        let before = slabs();
        let mut random = random_numbers(9);
        for _ in 0..45_000 {
            cells.swap_remove(random() % cells.len()).free();
        }
        assert!(slabs() * 10 > before * 8, "random deletions leave nearly every slab in use");
        assert!(begin_compaction(0) > 0);
        for cell in &mut cells {
            // SAFETY: allocated with this size; the pointer is replaced if it moved.
            if let Some(moved) = unsafe { relocate(cell.0, cell.1) } {
                cell.0 = moved;
            }
            cell.check();
        }
        end_compaction();
        assert!(slabs() * 8 < before, "{} of {before} slabs are left", slabs());
        cells.into_iter().for_each(Filled::free);
    }

    #[test]
    fn cells_go_back_from_any_thread() {
        let (sender, receiver) = std::sync::mpsc::sync_channel::<Filled>(100);
        std::thread::scope(|scope| {
            for seed in 0..2 {
                let sender = sender.clone();
                scope.spawn(move || {
                    let mut random = random_numbers(seed);
                    for number in 0..20_000 {
                        sender.send(Filled::new(1 + random() % 64, number as u8)).expect("it is received");
                    }
                });
            }
            drop(sender);
            scope.spawn(move || receiver.into_iter().for_each(Filled::free));
        });
    }
}
