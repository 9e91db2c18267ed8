//! The buffers that the kernel receives into: a ring of them, shared with the kernel.
//!
//! The ring holds the buffers that the kernel may use next. A receive takes one out, and [`RingBuffer`],
//! the loan of it, puts it back when it is dropped. Consecutive buffers start in different cache sets: with
//! a plain power of two between them, the first lines of all buffers, the only ones that short requests
//! touch, would fight for a few sets.
//!
//! The number of buffers in the ring follows the load. It doubles when several connections of one iteration
//! found none. It is halved after some seconds without such a shortage. One connection alone that finds
//! none is no shortage: it would use up any number. If half as many turn out to be too few, the next
//! attempt comes later, so that a steady load is not disturbed again and again. A buffer leaves the ring
//! when its loan ends, and its memory goes back to the system.
//!
//! ```text
//! entries:  16 bytes each: address, length, id, (tail of the ring in the first entry's last two bytes)
//! data:     | buffer 0, 16 KiB | 192 bytes | buffer 1, 16 KiB | 192 bytes | ...
//! ```

use std::cell::Cell;
use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use mantissa_sys::process;

/// The number of buffers at most; a power of two.
pub(crate) const BUFFERS: u16 = 256;
/// The number of buffers in use at the start, and at least.
const BUFFERS_FIRST: u16 = 32;
/// Buffers for each connection that may find none without that being a shortage.
const FLOODS_PART: u16 = 8;
/// After so long without a shortage half as many buffers will do; the longest time that this grows to.
const CALM_MIN: Duration = Duration::from_secs(2);
const CALM_MAX: Duration = Duration::from_secs(3600);
/// Loans between two looks at the clock.
const LOANS_PER_LOOK: u32 = 512;
/// The bytes of a buffer.
pub(crate) const BUFFER_BYTES: usize = 16 * 1024;
const STRIDE: usize = BUFFER_BYTES + 192;
/// The only group of buffers in a ring.
pub(crate) const GROUP: u16 = 0;

const ENTRIES_BYTES: usize = BUFFERS as usize * size_of::<BufRingEntry>();

const _: () = assert!(BUFFERS.is_power_of_two());
const _: () = assert!(size_of::<BufRingEntry>() == 16);

/// Memory mapped for the kernel and for us.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Mapping {
    fn new(len: usize) -> io::Result<Mapping> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: asks for fresh memory anywhere.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, protection, MapFlags::PRIVATE)? };
        // A child process has no use for it, and must not share pages that the kernel has pinned.
        // SAFETY: the range has just been mapped.
        let _ = unsafe { madvise(start, len, Advice::LinuxDontFork) };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and nobody else unmaps it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The ring of buffers.
struct Region {
    entries: Mapping,
    data: Mapping,
    /// The buffers ever put in; the kernel sees it modulo 2^16.
    tail: Cell<u16>,
    /// The buffers from this one on are not to be put in.
    limit: Cell<u16>,
    /// One bit for each buffer: whether it is in the ring or lent.
    circulating: Cell<[u64; BUFFERS as usize / 64]>,
    page_bytes: usize,
}

impl Region {
    fn address(&self, id: u16) -> NonNull<u8> {
        debug_assert!(id < BUFFERS);
        // SAFETY: `data` has `BUFFERS` strides and `id` is below that.
        unsafe { self.data.start.add(usize::from(id % BUFFERS) * STRIDE) }
    }

    /// Puts a buffer into the ring: from here on the kernel may write to it.
    fn provide(&self, id: u16) {
        let tail = self.tail.get();
        let entries = self.entries.start.cast::<BufRingEntry>();
        // SAFETY: the index is below `BUFFERS`; the kernel reads an entry only when the tail has passed it,
        // and there are no more buffers than entries, so it is done with what this entry held before.
        let entry = unsafe { entries.add(usize::from(tail & (BUFFERS - 1))).as_mut() };
        entry.set_addr(self.address(id).as_ptr() as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(id);
        let next = tail.wrapping_add(1);
        self.tail.set(next);
        // SAFETY: the tail lies in the first entry, is aligned, and is accessed atomically by the kernel
        // and us.
        let shared = unsafe { &*BufRingEntry::tail(entries.as_ptr()).cast::<AtomicU16>() };
        shared.store(next, Ordering::Release);
    }

    fn is_circulating(&self, id: u16) -> bool {
        id < BUFFERS && self.circulating.get()[usize::from(id / 64)] & 1 << (id % 64) != 0
    }

    fn set_circulating(&self, id: u16, circulates: bool) {
        let mut bits = self.circulating.get();
        let (word, bit) = (&mut bits[usize::from(id / 64)], 1 << (id % 64));
        *word = if circulates { *word | bit } else { *word & !bit };
        self.circulating.set(bits);
    }

    /// Takes a buffer that has been lent into the ring again, or out of circulation if there are too many.
    fn take_back(&self, id: u16) {
        if id < self.limit.get() {
            self.provide(id);
        } else {
            self.retire(id);
        }
    }

    /// Gives the memory of a buffer that is neither lent nor in the ring back to the system: its pages, but
    /// for one that holds a part of a neighbour in circulation.
    #[cold]
    fn retire(&self, id: u16) {
        self.set_circulating(id, false);
        if self.page_bytes > BUFFER_BYTES {
            return;
        }
        let start = usize::from(id) * STRIDE;
        let first = match id.checked_sub(1).is_some_and(|before| self.is_circulating(before)) {
            true => start.next_multiple_of(self.page_bytes),
            false => start / self.page_bytes * self.page_bytes,
        };
        let end = match self.is_circulating(id + 1) {
            true => (start + STRIDE) / self.page_bytes * self.page_bytes,
            false => (start + STRIDE).next_multiple_of(self.page_bytes).min(self.data.len),
        };
        if first < end {
            // SAFETY: whole pages within the mapping, in which there are only buffers that nobody uses
            // before they are put in again, as empty ones. A buffer is longer than a page: none but the
            // neighbours share pages with it.
            unsafe {
                let memory = self.data.start.add(first).cast().as_ptr();
                let _ = madvise(memory, end - first, Advice::LinuxDontNeed);
            }
        }
    }
}

const _: () = assert!(BUFFERS.is_multiple_of(64));

/// The buffers of a driver, registered with its ring. To be dropped after the ring.
pub(crate) struct Buffers {
    region: Rc<Region>,
    /// When there last was a shortage, or the number of buffers has changed.
    calm_since: Cell<Instant>,
    /// How long it has to be calm for fewer to be enough.
    calm_needed: Cell<Duration>,
    /// The last change was to fewer.
    has_shrunk: Cell<bool>,
    loans: Cell<u32>,
}

impl Buffers {
    pub(crate) fn register(ring: &IoUring) -> io::Result<Buffers> {
        let entries = Mapping::new(ENTRIES_BYTES)?;
        let data = Mapping::new(usize::from(BUFFERS) * STRIDE)?;
        let region = Rc::new(Region {
            entries,
            data,
            tail: Cell::new(0),
            limit: Cell::new(0),
            circulating: Cell::default(),
            page_bytes: process::page_bytes(),
        });
        let address = region.entries.start.as_ptr() as u64;
        // SAFETY: the entries stay mapped until the ring is gone: `Buffers` is dropped after it.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, BUFFERS, GROUP, 0)? };
        let buffers = Buffers {
            region,
            calm_since: Cell::new(Instant::now()),
            calm_needed: Cell::new(CALM_MIN),
            has_shrunk: Cell::new(false),
            loans: Cell::new(0),
        };
        buffers.circulate(BUFFERS_FIRST);
        Ok(buffers)
    }

    /// Sets the number of buffers in circulation. Fewer buffers stay in the cache.
    fn circulate(&self, count: u16) {
        let region = &*self.region;
        region.limit.set(count.min(BUFFERS));
        for id in (0..region.limit.get()).filter(|id| !region.is_circulating(*id)) {
            region.set_circulating(id, true);
            region.provide(id);
        }
        self.calm_since.set(Instant::now());
    }

    /// `starved` connections found no buffer in an iteration. More than an eighth of the buffers in use is
    /// a shortage: their number is doubled, up to `BUFFERS`.
    pub(crate) fn grow(&self, starved: u16) {
        let limit = self.region.limit.get();
        if starved <= limit / FLOODS_PART {
            return;
        }
        if self.has_shrunk.replace(false) {
            self.calm_needed.set((2 * self.calm_needed.get()).min(CALM_MAX));
        }
        self.circulate(limit.saturating_mul(2));
    }

    /// After some time without a shortage, takes half of the buffers out of use, as their loans end.
    #[cold]
    fn shrink_if_calm(&self) {
        let limit = self.region.limit.get();
        if limit > BUFFERS_FIRST && self.calm_since.get().elapsed() >= self.calm_needed.get() {
            self.has_shrunk.set(true);
            self.circulate(limit / 2);
        }
    }

    /// The loan of a buffer that a completion has named, with `len` bytes in it.
    ///
    /// # Safety The kernel has written `len` bytes into the buffer and taken it out of the ring, and there
    /// is no other loan of it.
    pub(crate) unsafe fn lend(&self, id: u16, len: usize) -> RingBuffer {
        debug_assert!(self.region.is_circulating(id) && len <= BUFFER_BYTES);
        self.loans.set(self.loans.get().wrapping_add(1));
        if self.loans.get().is_multiple_of(LOANS_PER_LOOK) {
            self.shrink_if_calm();
        }
        RingBuffer { region: self.region.clone(), id, start: 0, len: len.min(BUFFER_BYTES) }
    }

    /// The bytes of a buffer that is yet to be lent.
    ///
    /// # Safety The kernel has written `len` bytes into the buffer and taken it out of the ring.
    pub(crate) unsafe fn view(&self, id: u16, len: usize) -> &[u8] {
        debug_assert!(id < BUFFERS && len <= BUFFER_BYTES);
        // SAFETY: as promised; it is provided again only after a loan, which needs `self` to be free.
        unsafe { std::slice::from_raw_parts(self.region.address(id).as_ptr(), len.min(BUFFER_BYTES)) }
    }

    /// Keeps the memory for good, for a kernel that could not be made to let go of it.
    pub(crate) fn leak(&self) {
        std::mem::forget(self.region.clone());
    }
}

/// A buffer that the kernel has filled and given away until this is dropped.
pub(crate) struct RingBuffer {
    region: Rc<Region>,
    id: u16,
    start: usize,
    len: usize,
}

impl RingBuffer {
    /// Leaves out the first `count` bytes.
    pub(crate) fn skip(&mut self, count: usize) {
        self.start = self.len.min(self.start + count);
    }
}

impl Deref for RingBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let bytes = self.region.address(self.id);
        // SAFETY: as `lend` demands, the kernel has written `len` bytes here, and it does not touch the
        // buffer until it is provided again, which `drop` does.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), self.len) };
        &bytes[self.start..]
    }
}

impl Drop for RingBuffer {
    fn drop(&mut self) {
        self.region.take_back(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uring::ring::Ring;

    /// What the kernel does with the ring: takes the buffers in their order and writes to them.
    struct Kernel<'a> {
        buffers: &'a Buffers,
        head: u16,
    }

    impl Kernel<'_> {
        fn waiting(&self) -> u16 {
            self.buffers.region.tail.get().wrapping_sub(self.head)
        }

        fn take(&mut self) -> RingBuffer {
            assert!(self.waiting() > 0, "the ring is empty");
            let region = &self.buffers.region;
            // SAFETY: the index is below `BUFFERS`.
            let entry = unsafe {
                region.entries.start.cast::<BufRingEntry>().add(usize::from(self.head % BUFFERS)).as_ref()
            };
            self.head = self.head.wrapping_add(1);
            let id = entry.bid();
            // SAFETY: the real kernel is given nothing to receive; the bytes are written here.
            unsafe {
                region.address(id).as_ptr().write_bytes(id as u8, BUFFER_BYTES);
                self.buffers.lend(id, BUFFER_BYTES)
            }
        }
    }

    fn resident_pages(region: &Region) -> usize {
        let mut pages = vec![0; region.data.len.div_ceil(region.page_bytes)];
        // SAFETY: the mapping is asked about, and there is a byte for each page of it.
        let answer =
            unsafe { libc::mincore(region.data.start.as_ptr().cast(), region.data.len, pages.as_mut_ptr()) };
        assert_eq!(answer, 0);
        pages.iter().filter(|page| **page & 1 != 0).count()
    }

    #[test]
    fn buffers_come_with_a_shortage_and_go_in_calm() {
        let Ok(ring) = Ring::new() else { return };
        let Ok(buffers) = Buffers::register(ring.inner()) else { return };
        let mut kernel = Kernel { buffers: &buffers, head: 0 };
        buffers.grow(BUFFERS_FIRST / FLOODS_PART);
        assert_eq!(buffers.region.limit.get(), BUFFERS_FIRST, "some that flood the server are no shortage");
        for round in 0..3 {
            // Nothing is calm in an hour that has just begun.
            buffers.calm_needed.set(CALM_MAX);
            let mut lent = Vec::new();
            while kernel.waiting() > 0 || buffers.region.limit.get() < BUFFERS {
                if kernel.waiting() == 0 {
                    buffers.grow(buffers.region.limit.get());
                }
                lent.push(kernel.take());
            }
            assert_eq!(lent.len(), usize::from(BUFFERS), "round {round}: each is there once");
            let mut ids: Vec<_> = lent.iter().map(|buffer| buffer.id).collect();
            ids.sort_unstable();
            assert!(ids.iter().copied().eq(0..BUFFERS));
            drop(lent);
            let pages_before = resident_pages(&buffers.region);
            (0..5 * LOANS_PER_LOOK).for_each(|_| drop(kernel.take()));
            assert_eq!(buffers.region.limit.get(), BUFFERS, "it has not been calm for long");
            buffers.calm_needed.set(Duration::ZERO);
            // One is kept for long, and is whole at the end.
            let mut kept = kernel.take();
            while kept.id < 2 * BUFFERS_FIRST {
                kept = kernel.take();
            }
            for _ in 0..5 * LOANS_PER_LOOK {
                let buffer = kernel.take();
                assert!(buffer.iter().all(|byte| *byte == buffer.id as u8));
            }
            assert_eq!(buffers.region.limit.get(), BUFFERS_FIRST);
            assert_eq!(kernel.waiting(), BUFFERS_FIRST);
            assert!(kept.len() == BUFFER_BYTES && kept.iter().all(|byte| *byte == kept.id as u8));
            drop(kept);
            assert_eq!(kernel.waiting(), BUFFERS_FIRST, "what is too many does not come back");
            let pages = resident_pages(&buffers.region);
            assert!(pages <= pages_before / 6, "{pages} of {pages_before} pages are left");
        }
    }
}
