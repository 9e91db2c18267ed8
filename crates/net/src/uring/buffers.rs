//! The buffers that the kernel receives into: a ring of them, shared with the kernel.
//!
//! The ring holds the buffers that the kernel may use next. A receive takes one out, and [`RingBuffer`], the
//! loan of it, puts it back when it is dropped. Consecutive buffers start in different cache sets: with a
//! plain power of two between them, the first lines of all buffers, the only ones that short requests touch,
//! would fight for a few sets.
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

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

/// The number of buffers at most; a power of two.
pub(crate) const BUFFERS: u16 = 256;
/// The number of buffers in use at the start.
const BUFFERS_FIRST: u16 = 32;
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
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: asks for fresh memory anywhere.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A child process has no use for it, and must not share pages that the kernel has pinned.
        // SAFETY: the range has just been mapped.
        unsafe { libc::madvise(start, len, libc::MADV_DONTFORK) };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and nobody else unmaps it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The ring of buffers. `tail` counts the buffers ever put in; the kernel sees it modulo 2^16.
struct Region {
    entries: Mapping,
    data: Mapping,
    tail: Cell<u16>,
}

impl Region {
    fn address(&self, id: u16) -> NonNull<u8> {
        debug_assert!(id < BUFFERS);
        // SAFETY: `data` has room for `BUFFERS` strides and `id` is below that.
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
        // SAFETY: the tail lies in the first entry, is aligned, and is accessed atomically by the kernel and
        // us.
        let shared = unsafe { &*BufRingEntry::tail(entries.as_ptr()).cast::<AtomicU16>() };
        shared.store(next, Ordering::Release);
    }
}

/// The buffers of a driver, registered with its ring. To be dropped after the ring.
pub(crate) struct Buffers {
    region: Rc<Region>,
    /// The buffers that are in use: these take turns. The fewer they are, the warmer.
    used: u16,
}

impl Buffers {
    pub(crate) fn register(ring: &IoUring) -> io::Result<Buffers> {
        let entries = Mapping::new(ENTRIES_BYTES)?;
        let data = Mapping::new(usize::from(BUFFERS) * STRIDE)?;
        let region = Rc::new(Region { entries, data, tail: Cell::new(0) });
        let address = region.entries.start.as_ptr() as u64;
        // SAFETY: the entries stay mapped until the ring is gone: `Buffers` is dropped after it.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, BUFFERS, GROUP, 0)? };
        let mut buffers = Buffers { region, used: 0 };
        buffers.add(BUFFERS_FIRST);
        Ok(buffers)
    }

    fn add(&mut self, count: u16) {
        let used = BUFFERS.min(self.used + count);
        (self.used..used).for_each(|id| self.region.provide(id));
        self.used = used;
    }

    /// The kernel has run out of buffers: doubles the number of those in use, as far as there are more.
    pub(crate) fn grow(&mut self) {
        self.add(self.used);
    }

    /// The loan of a buffer that a completion has named, with `len` bytes in it.
    ///
    /// # Safety The kernel has written `len` bytes into the buffer and taken it out of the ring, and there is
    /// no other loan of it.
    pub(crate) unsafe fn lend(&self, id: u16, len: usize) -> RingBuffer {
        debug_assert!(id < BUFFERS && len <= BUFFER_BYTES);
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
        self.region.provide(self.id);
    }
}
