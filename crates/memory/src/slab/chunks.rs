//! Where slabs lie: chunks of 2 MB straight from the system, one huge page each.
//!
//! A chunk is 256 units of 8 KB; a slab takes one, two or four, aligned to its size. Slabs go to the first
//! chunk with free units, so that the last chunks become empty: an empty chunk goes back to the system. Free
//! units of a chunk in use are reused without a page fault. [`purge`] gives them back to the system, if there
//! are many, once no slab was put into the chunk for some calls.
//!
//! At the first access to a chunk the system clears a huge page, perhaps after it has moved others to make
//! one: that takes up to milliseconds. While memory grows, [`prepare`] touches as many chunks ahead as were
//! used since its last call, so that this seldom happens while a lock is held. Where memory shrinks and grows
//! again, as from one snapshot to the next, some of the empty chunks are kept.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;

use parking_lot::Mutex;

pub(super) const UNIT_BYTES: usize = 8 << 10;
const CHUNK_BYTES: usize = 2 << 20;
const WORDS: usize = CHUNK_BYTES / UNIT_BYTES / 64;
/// Empty chunks that are kept.
const SPARE_CHUNKS: usize = 1;
/// A chunk keeps its huge page while fewer of its units than this are free: 1/16 of it.
const PURGED_UNITS_MIN: usize = 16;

/// One bit for each unit.
type Units = [u64; WORDS];

struct Chunk {
    base: NonNull<u8>,
    free: Units,
    /// Free units whose memory the system may still hold.
    dirty: Units,
    /// Whether the system is asked to use a huge page. Not while units are given back: the system would move
    /// the rest into a new huge page, with memory for all units.
    is_huge: bool,
    /// Calls of [`purge`] since a slab was put into it.
    idle_calls: u8,
}

struct Chunks {
    /// By rising address.
    chunks: Vec<Chunk>,
    /// For slabs of one, two and four units: no chunk before this number has enough free units.
    first_with_free: [usize; 3],
    /// Chunks that are wholly free.
    empty: usize,
}

// SAFETY: the memory behind the pointers belongs to the chunks, which are reached under the lock only.
unsafe impl Send for Chunks {}

static CHUNKS: Mutex<Chunks> = Mutex::new(Chunks { chunks: Vec::new(), first_with_free: [0; 3], empty: 0 });

/// Chunks that were touched ahead and are not in use yet.
struct Ready {
    chunks: Vec<NonNull<u8>>,
    /// Chunks taken since the last call of [`prepare`].
    taken: usize,
    /// Calls of [`prepare`] since one was taken.
    idle_calls: usize,
}

// SAFETY: the memory belongs to nobody else.
unsafe impl Send for Ready {}

static READY: Mutex<Ready> = Mutex::new(Ready { chunks: Vec::new(), taken: 0, idle_calls: 0 });
/// Maximum number of chunks kept ready.
const READY_MAX: usize = 32;
/// Chunks in use for each empty chunk that is kept ready.
const READY_PART: usize = 16;
/// Calls of [`prepare`] after which unused chunks are given back.
const IDLE_CALLS_MAX: usize = 30;

/// The positions at which a run of `units` aligned units may begin.
const fn starts(units: usize) -> u64 {
    match units {
        1 => u64::MAX,
        2 => 0x5555_5555_5555_5555,
        _ => 0x1111_1111_1111_1111,
    }
}

fn size_index(units: usize) -> usize {
    units.trailing_zeros() as usize
}

/// `units` bits from `start` on.
fn run(units: usize, start: usize) -> (usize, u64) {
    (start / 64, ((1 << units) - 1) << (start % 64))
}

/// How many units these are.
fn count(units: &Units) -> usize {
    units.iter().map(|word| word.count_ones() as usize).sum()
}

impl Chunk {
    fn find(&self, units: usize) -> Option<usize> {
        self.free.iter().enumerate().find_map(|(number, &word)| {
            let mut fits = word & starts(units);
            for unit in 1..units {
                fits &= word >> unit;
            }
            (fits != 0).then(|| number * 64 + fits.trailing_zeros() as usize)
        })
    }

    fn is_empty(&self) -> bool {
        self.free == [u64::MAX; WORDS]
    }

    fn advise_huge(&mut self, is_huge: bool) {
        self.is_huge = is_huge;
        advise_huge(self.base, is_huge);
    }

    /// Gives free units back to the system, if no slab was put into it for `idle_calls` calls.
    fn purge(&mut self, idle_calls: u8) {
        if self.idle_calls < idle_calls {
            self.idle_calls += 1;
            return;
        }
        if self.is_huge {
            if count(&self.free) < PURGED_UNITS_MIN {
                return;
            }
            // What has never been used lies in the huge page as well.
            self.advise_huge(false);
            self.dirty = self.free;
        }
        for word in 0..WORDS {
            let mut bits = std::mem::take(&mut self.dirty[word]);
            while bits != 0 {
                let start = bits.trailing_zeros();
                let len = (bits >> start).trailing_ones();
                let offset = (word * 64 + start as usize) * UNIT_BYTES;
                // SAFETY: these units of the chunk are free: nobody uses them, and whoever takes them expects
                // nothing of their contents.
                unsafe { discard(self.base.add(offset), len as usize * UNIT_BYTES) };
                bits &= u64::MAX.checked_shl(start + len).unwrap_or(0);
            }
        }
    }
}

/// Tells the system whether a chunk should be one huge page.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "only Linux can be told"))]
fn advise_huge(base: NonNull<u8>, is_huge: bool) {
    #[cfg(target_os = "linux")]
    // SAFETY: advice on memory that is ours; it changes nothing of its contents.
    unsafe {
        let advice = if is_huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        libc::madvise(base.as_ptr().cast(), CHUNK_BYTES, advice);
    }
}

impl Chunks {
    fn take(&mut self, units: usize) -> NonNull<u8> {
        let size = size_index(units);
        for number in self.first_with_free[size]..self.chunks.len() {
            let chunk = &mut self.chunks[number];
            if let Some(start) = chunk.find(units) {
                self.empty -= usize::from(chunk.is_empty());
                let (word, bits) = run(units, start);
                chunk.free[word] &= !bits;
                chunk.dirty[word] &= !bits;
                chunk.idle_calls = 0;
                if !chunk.is_huge && chunk.free == [0; WORDS] {
                    chunk.advise_huge(true);
                }
                self.first_with_free[size] = number;
                // SAFETY: the run lies inside the chunk.
                return unsafe { chunk.base.add(start * UNIT_BYTES) };
            }
        }
        self.add();
        self.take(units)
    }

    fn add(&mut self) {
        let base = take_ready().unwrap_or_else(map);
        let number = self.chunks.partition_point(|chunk| chunk.base < base);
        let mut chunk =
            Chunk { base, free: [u64::MAX; WORDS], dirty: [0; WORDS], is_huge: false, idle_calls: 0 };
        chunk.advise_huge(true);
        self.chunks.insert(number, chunk);
        self.empty += 1;
        self.first_with_free.iter_mut().for_each(|first| *first = (*first).min(number));
    }

    fn give_back(&mut self, memory: NonNull<u8>, units: usize) {
        let number = self.chunks.partition_point(|chunk| chunk.base <= memory) - 1;
        let chunk = &mut self.chunks[number];
        let start = (memory.addr().get() - chunk.base.addr().get()) / UNIT_BYTES;
        let (word, bits) = run(units, start);
        debug_assert!(chunk.free[word] & bits == 0, "slabs are given back once");
        chunk.free[word] |= bits;
        chunk.dirty[word] |= bits;
        self.first_with_free.iter_mut().for_each(|first| *first = (*first).min(number));
        if self.chunks[number].is_empty() {
            if self.empty >= SPARE_CHUNKS {
                let chunk = self.chunks.remove(number);
                if !(chunk.is_huge && keep_ready(chunk.base, self.chunks.len() / READY_PART)) {
                    unmap(chunk.base);
                }
            } else {
                self.empty += 1;
            }
        }
    }
}

/// Memory for a slab of one, two or four units, aligned to its size.
pub(super) fn take(units: usize) -> NonNull<u8> {
    CHUNKS.lock().take(units)
}

/// Gives back what [`take`] returned for as many units.
///
/// # Safety
/// Nobody uses the memory any more.
pub(super) unsafe fn give_back(memory: NonNull<u8>, units: usize) {
    CHUNKS.lock().give_back(memory, units);
}

fn take_ready() -> Option<NonNull<u8>> {
    let mut ready = READY.lock();
    ready.taken += 1;
    ready.chunks.pop()
}

/// Keeps a chunk ready if some have been taken lately and fewer than `count_max` are. False if not.
fn keep_ready(base: NonNull<u8>, count_max: usize) -> bool {
    let mut ready = READY.lock();
    let is_kept = ready.chunks.len() < count_max.min(READY_MAX) && ready.idle_calls <= IDLE_CALLS_MAX;
    if is_kept {
        ready.chunks.push(base);
    }
    is_kept
}

/// Keeps one chunk more ready than were taken since the last call. If none was taken in many calls, frees
/// one.
pub(super) fn prepare() {
    let (wanted, superfluous) = {
        let mut ready = READY.lock();
        let taken = std::mem::take(&mut ready.taken);
        ready.idle_calls = if taken > 0 { 0 } else { ready.idle_calls + 1 };
        let wanted = if taken > 0 { (taken + 1).min(READY_MAX) } else { 0 };
        (wanted, if ready.idle_calls > IDLE_CALLS_MAX { ready.chunks.pop() } else { None })
    };
    if let Some(base) = superfluous {
        unmap(base);
    }
    while READY.lock().chunks.len() < wanted {
        let base = map();
        advise_huge(base, true);
        // SAFETY: the chunk is mapped, and nobody else knows of it yet.
        unsafe { base.write_volatile(0) };
        READY.lock().chunks.push(base);
    }
}

/// Excludes the chunks taken so far from the next call of [`prepare`].
pub(super) fn forget_growth() {
    READY.lock().taken = 0;
}

/// Frees the chunks that are kept ready.
pub(super) fn give_ready_back() {
    let ready = std::mem::take(&mut READY.lock().chunks);
    ready.into_iter().for_each(unmap);
}

/// Bytes that are free and may still be in memory.
pub(super) fn dirty_bytes() -> usize {
    let ready_bytes = READY.lock().chunks.len() * CHUNK_BYTES;
    let chunks = CHUNKS.lock();
    chunks.chunks.iter().map(|chunk| count(&chunk.dirty)).sum::<usize>() * UNIT_BYTES + ready_bytes
}

/// Gives free units back to the system, of chunks into which no slab was put for `idle_calls` calls. Locks
/// for one chunk at a time.
pub(super) fn purge(idle_calls: u8) {
    let mut next = 0;
    while let Some(chunk) = CHUNKS.lock().chunks.get_mut(next) {
        chunk.purge(idle_calls);
        next += 1;
    }
}

/// Gives the memory at the end of a slab back to the system, unless it is in a huge page. False if it is.
///
/// # Safety
/// All of it lies in a slab that is in use and stays so during the call; nobody uses it, or expects anything
/// of its contents.
pub(super) unsafe fn discard_rest(memory: NonNull<u8>, bytes: usize) -> bool {
    let is_huge = {
        let chunks = CHUNKS.lock();
        let behind = chunks.chunks.partition_point(|chunk| chunk.base <= memory);
        behind.checked_sub(1).is_none_or(|number| chunks.chunks[number].is_huge)
    };
    if !is_huge {
        // SAFETY: the caller's promise.
        unsafe { discard(memory, bytes) };
    }
    !is_huge
}

/// Gives the whole pages of some memory back to the system.
///
/// # Safety
/// The memory is part of a chunk; nobody uses it, or expects anything of its contents.
unsafe fn discard(memory: NonNull<u8>, bytes: usize) {
    static PAGE_BYTES: OnceLock<usize> = OnceLock::new();
    // SAFETY: takes a number.
    let page_bytes = *PAGE_BYTES
        .get_or_init(|| usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(CHUNK_BYTES));
    let before = memory.addr().get().next_multiple_of(page_bytes) - memory.addr().get();
    let whole = bytes.saturating_sub(before) / page_bytes * page_bytes;
    if whole > 0 {
        // SAFETY: whole pages within the caller's memory.
        unsafe { libc::madvise(memory.as_ptr().add(before).cast(), whole, libc::MADV_DONTNEED) };
    }
}

/// A new chunk.
fn map() -> NonNull<u8> {
    let layout = Layout::from_size_align(CHUNK_BYTES, CHUNK_BYTES).expect("a power of two");
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: anonymous memory at an address that the system chooses; what lies before and behind the aligned
    // part goes back at once.
    unsafe {
        let memory = libc::mmap(null_mut(), 2 * CHUNK_BYTES, protection, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            handle_alloc_error(layout);
        }
        let memory = memory.cast::<u8>();
        let before = memory.align_offset(CHUNK_BYTES);
        let base = memory.add(before);
        if before > 0 {
            libc::munmap(memory.cast(), before);
        }
        libc::munmap(base.add(CHUNK_BYTES).cast(), CHUNK_BYTES - before);
        NonNull::new(base).unwrap_or_else(|| handle_alloc_error(layout))
    }
}

fn unmap(base: NonNull<u8>) {
    // SAFETY: a chunk that nobody uses any more.
    unsafe { libc::munmap(base.as_ptr().cast(), CHUNK_BYTES) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;

    #[test]
    fn runs_are_aligned_and_apart() {
        let mut chunks = Chunks { chunks: Vec::new(), first_with_free: [0; 3], empty: 0 };
        let mut numbers = Random::new(1);
        let mut random = move || numbers.below(usize::MAX);
        let mut taken: Vec<(NonNull<u8>, usize)> = Vec::new();
        for round in 0..20_000 {
            if random() % 5 < if round / 4_000 % 2 == 0 { 4 } else { 1 } {
                let units = 1 << (random() % 3);
                let memory = chunks.take(units);
                assert!(memory.addr().get().is_multiple_of(units * UNIT_BYTES));
                // SAFETY: the memory is ours.
                unsafe { memory.as_ptr().cast::<usize>().write(taken.len()) };
                taken.push((memory, units));
            } else if !taken.is_empty() {
                let (memory, units) = taken.swap_remove(random() % taken.len());
                chunks.give_back(memory, units);
            }
            let used: usize = taken.iter().map(|(_, units)| units).sum();
            let free: u32 = chunks.chunks.iter().flat_map(|chunk| chunk.free).map(u64::count_ones).sum();
            assert_eq!(used + free as usize, chunks.chunks.len() * WORDS * 64);
            let empty = chunks.chunks.iter().filter(|chunk| chunk.is_empty()).count();
            assert!(empty == chunks.empty && empty <= 1 + SPARE_CHUNKS, "round {round}");
        }
        let mut places: Vec<(usize, usize)> =
            taken.iter().map(|(memory, units)| (memory.addr().get(), units * UNIT_BYTES)).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        taken.into_iter().for_each(|(memory, units)| chunks.give_back(memory, units));
        assert!(chunks.chunks.len() <= SPARE_CHUNKS);
        chunks.chunks.drain(..).for_each(|chunk| unmap(chunk.base));
    }

    #[test]
    fn a_chunk_keeps_its_huge_page_until_much_of_it_is_free() {
        let mut chunks = Chunks { chunks: Vec::new(), first_with_free: [0; 3], empty: 0 };
        let mut runs: Vec<NonNull<u8>> = (0..64).map(|_| chunks.take(4)).collect();
        assert_eq!(chunks.chunks.len(), 1);
        for free in 0..64 {
            assert_eq!(chunks.chunks[0].is_huge, free < 4, "{free} runs are free");
            if let Some(run) = runs.pop() {
                chunks.give_back(run, 4);
            }
            (0..3).for_each(|_| chunks.chunks[0].purge(2));
        }
        unmap(chunks.chunks[0].base);
    }
}
