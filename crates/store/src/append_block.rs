//! A block of bytes that is filled from front to back by several threads at once, and read by many.
//!
//! ```text
//! | filled: may be read | reserved: being filled, in any order | free |
//! 0                   filled                              reserved  capacity
//! ```
//!
//! One [`BlockWriter`] gives out ranges, one behind the other. The thread that has a [`Reservation`] copies
//! its bytes without any lock and then marks the range filled. These hold:
//!
//! - ranges of two reservations never overlap, and no reader reads beyond `filled`;
//! - `filled` only grows, always from the end of one reservation to the end of another: it passes a range
//!   when that range, and all before it, are filled;
//! - a range that is filled before one in front of it is noted in `early`; the thread that fills the one in
//!   front passes both. So a thread never waits for another one to finish its copy.
//!
//! A reservation costs one compare-and-swap; bytes that are appended at once mostly cost none.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mantissa_memory::{CACHE_LINE_BYTES, prefetch_lines};

/// Bytes of all blocks.
static HELD: AtomicI64 = AtomicI64::new(0);

/// Bytes that all blocks of the process take.
pub fn held_bytes() -> i64 {
    HELD.load(Ordering::Relaxed)
}

/// A block that several threads fill and many read.
pub struct AppendBlock {
    /// All bytes before this offset are filled.
    filled: AtomicUsize,
    /// `early` is not empty.
    has_early: AtomicBool,
    /// Ranges that were filled before all bytes in front of them.
    early: Mutex<Vec<Range<usize>>>,
    bytes: Box<[UnsafeCell<MaybeUninit<u8>>]>,
}

// SAFETY: a byte is written by the one reservation that it belongs to, and read only when `filled` has passed
// it, which happens after the write: `filled` is changed with release and read with acquire ordering.
unsafe impl Sync for AppendBlock {}

impl AppendBlock {
    fn new(capacity: usize) -> Self {
        let bytes: Box<[MaybeUninit<u8>]> = Box::new_uninit_slice(capacity);
        let raw = Box::into_raw(bytes) as *mut [UnsafeCell<MaybeUninit<u8>>];
        // SAFETY: it comes from a box, and `UnsafeCell` has the layout of what is in it.
        let bytes = unsafe { Box::from_raw(raw) };
        HELD.fetch_add(capacity as i64, Ordering::Relaxed);
        AppendBlock {
            filled: AtomicUsize::new(0),
            has_early: AtomicBool::new(false),
            early: Mutex::default(),
            bytes,
        }
    }

    /// The offset before which all bytes are filled. It is the end of a reservation.
    #[inline]
    pub fn filled(&self) -> usize {
        // Sequentially consistent: a reader that announces its sleep before it looks here is seen by whoever
        // fills after that.
        self.filled.load(Ordering::SeqCst)
    }

    /// Filled bytes. Panics if some of them are not.
    #[inline]
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.filled(), "bytes that are not filled yet");
        // SAFETY: the range lies before `filled`, so it is within the block, was written, and is not written
        // again before the block is free of references.
        unsafe {
            let start = UnsafeCell::raw_get(self.bytes.as_ptr()).add(range.start);
            slice::from_raw_parts(start.cast::<u8>().cast_const(), range.len())
        }
    }

    /// Copies bytes to `start`.
    ///
    /// # Safety
    ///
    /// The range must be within the block, and belong to a reservation of the caller that is not yet filled.
    unsafe fn copy_in(&self, start: usize, bytes: &[u8]) {
        debug_assert!(start >= self.filled() && start + bytes.len() <= self.bytes.len());
        // SAFETY: as promised nobody else writes there, and nobody reads there before it is marked filled.
        unsafe {
            let start = UnsafeCell::raw_get(self.bytes.as_ptr()).add(start);
            ptr::copy_nonoverlapping(bytes.as_ptr(), start.cast::<u8>(), bytes.len());
        }
    }

    /// Lets `filled` pass a range that was written, now or when all before it is.
    #[inline]
    fn mark_filled(&self, range: Range<usize>) {
        let Range { start, end } = range;
        if self.filled.compare_exchange(start, end, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            let mut early = self.locked_early();
            early.push(start..end);
            self.has_early.store(true, Ordering::SeqCst);
            self.pass_early(&mut early);
        } else if self.has_early.load(Ordering::SeqCst) {
            // Either this thread sees that the other one has noted its range, or that one, which looks at
            // `filled` after noting it, sees that it comes next.
            self.pass_early(&mut self.locked_early());
        }
    }

    #[cold]
    fn pass_early(&self, early: &mut Vec<Range<usize>>) {
        while let Some(at) = early.iter().position(|range| range.start == self.filled()) {
            // Nobody else changes it now: the only range that begins here is this one.
            self.filled.store(early.swap_remove(at).end, Ordering::SeqCst);
        }
        self.has_early.store(!early.is_empty(), Ordering::SeqCst);
    }

    fn locked_early(&self) -> MutexGuard<'_, Vec<Range<usize>>> {
        self.early.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AppendBlock {
    fn drop(&mut self) {
        HELD.fetch_sub(self.bytes.len() as i64, Ordering::Relaxed);
    }
}

/// The one that gives out the ranges of a block.
pub struct BlockWriter {
    block: Arc<AppendBlock>,
    reserved: usize,
}

impl BlockWriter {
    /// A new block.
    pub fn new(capacity: usize) -> Self {
        BlockWriter { block: Arc::new(AppendBlock::new(capacity)), reserved: 0 }
    }

    /// Begins again with a block. Returns the block if there are other references to it.
    pub fn reuse(mut block: Arc<AppendBlock>) -> Result<Self, Arc<AppendBlock>> {
        match Arc::get_mut(&mut block) {
            Some(own) => {
                *own.filled.get_mut() = 0;
                debug_assert!(!*own.has_early.get_mut(), "a reservation refers to its block");
                Ok(BlockWriter { block, reserved: 0 })
            }
            None => Err(block),
        }
    }

    /// The block.
    pub fn block(&self) -> &Arc<AppendBlock> {
        &self.block
    }

    /// The offset of the next range.
    #[inline]
    pub fn reserved(&self) -> usize {
        self.reserved
    }

    /// Bytes that are free.
    #[inline]
    pub fn free_bytes(&self) -> usize {
        self.block.bytes.len() - self.reserved
    }

    /// Reserves the next range, of at least one byte, and fills it. Panics if it does not fit.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) {
        let range = self.next_range(bytes.len());
        // SAFETY: the range was reserved just now.
        unsafe { self.block.copy_in(range.start, bytes) };
        if self.block.filled() == range.start {
            // No range begins behind it yet, so nobody else changes `filled`, and none in `early` waits.
            self.block.filled.store(range.end, Ordering::Release);
        } else {
            self.block.mark_filled(range);
        }
        self.prefetch_next(bytes.len());
    }

    /// Fetches the cache lines that a range of so many bytes will be copied to next: marking it filled waits
    /// for them.
    #[inline]
    fn prefetch_next(&self, bytes: usize) {
        let start: *const u8 = self.block.bytes.as_ptr().cast();
        prefetch_lines(start.wrapping_add(self.reserved), 0..bytes + CACHE_LINE_BYTES);
    }

    /// Reserves the next range, of at least one byte. Panics if it does not fit.
    pub fn reserve(&mut self, bytes: usize) -> Reservation {
        let range = self.next_range(bytes);
        Reservation { block: Arc::clone(&self.block), range, is_copied: false }
    }

    #[inline]
    fn next_range(&mut self, bytes: usize) -> Range<usize> {
        assert!((1..=self.free_bytes()).contains(&bytes), "a range of a block has a byte and fits");
        let start = self.reserved;
        self.reserved += bytes;
        start..self.reserved
    }
}

/// A range of a block that its holder is to fill. What is dropped unfilled is filled with zeros, so that
/// those behind it can be read.
pub struct Reservation {
    block: Arc<AppendBlock>,
    range: Range<usize>,
    is_copied: bool,
}

impl Reservation {
    /// Fills the range. Panics if the bytes are not as many as were reserved.
    pub fn fill(mut self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.range.len(), "as many bytes as were reserved");
        // SAFETY: the range is this reservation's own.
        unsafe { self.block.copy_in(self.range.start, bytes) };
        self.is_copied = true;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.is_copied {
            // SAFETY: the range is this reservation's own.
            unsafe { self.block.copy_in(self.range.start, &vec![0; self.range.len()]) };
        }
        self.block.mark_filled(self.range.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn ranges_are_readable_when_all_before_them_are_filled() {
        let mut writer = BlockWriter::new(20);
        let block = Arc::clone(writer.block());
        writer.append(b"one");
        let (second, third) = (writer.reserve(3), writer.reserve(5));
        writer.append(b"end");
        assert_eq!((writer.reserved(), writer.free_bytes(), block.filled()), (14, 6, 3));
        third.fill(b"three");
        assert_eq!(block.bytes(0..block.filled()), b"one");
        second.fill(b"two");
        assert_eq!(block.bytes(0..block.filled()), b"onetwothreeend");
        drop(writer.reserve(2));
        assert_eq!(block.bytes(14..16), [0, 0]);
        let Err(block) = BlockWriter::reuse(block) else { panic!("the writer refers to it") };
        drop(writer);
        let Ok(mut writer) = BlockWriter::reuse(block) else { panic!("nobody else refers to it") };
        writer.append(b"again");
        assert_eq!((writer.block().bytes(0..5), writer.free_bytes()), (&b"again"[..], 15));
    }

    #[test]
    fn all_orders_of_filling_end_with_everything_filled() {
        for order in 0..5 * 4 * 3 * 2 {
            let mut writer = BlockWriter::new(15);
            let block = Arc::clone(writer.block());
            let mut reserved: Vec<_> = (1..=5).map(|bytes| (bytes, writer.reserve(bytes))).collect();
            let (mut choice, mut is_filled) = (order, [false; 5]);
            while !reserved.is_empty() {
                let (bytes, range) = reserved.swap_remove(choice % reserved.len());
                choice /= reserved.len() + 1;
                range.fill(&vec![bytes as u8; bytes]);
                is_filled[bytes - 1] = true;
                let prefix = is_filled.iter().take_while(|&&is_filled| is_filled).count();
                assert_eq!(block.filled(), prefix * (prefix + 1) / 2);
            }
            assert_eq!(block.bytes(0..15), [1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5]);
        }
    }

    #[test]
    #[should_panic(expected = "not filled")]
    fn what_is_not_filled_is_not_read() {
        let mut writer = BlockWriter::new(8);
        let _unfilled = writer.reserve(4);
        writer.block().bytes(0..1);
    }

    #[test]
    fn threads_fill_one_block() {
        const ROUNDS: usize = if cfg!(miri) { 3 } else { 300 };
        const THREADS: usize = 3;
        for round in 0..ROUNDS {
            let writer = Mutex::new(BlockWriter::new(4096));
            let block = Arc::clone(writer.lock().expect("nobody panics").block());
            let (sender, receiver) = mpsc::channel();
            thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (writer, sender) = (&writer, sender.clone());
                    scope.spawn(move || {
                        for number in 0.. {
                            let bytes = 1 + (number * 7 + thread + round) % 40;
                            let mut writer = writer.lock().expect("nobody panics");
                            if writer.free_bytes() < bytes {
                                return;
                            }
                            let start = writer.reserved();
                            let range = writer.reserve(bytes);
                            drop(writer);
                            range.fill(&vec![start as u8; bytes]);
                            sender.send(start..start + bytes).expect("the other end is there");
                        }
                    });
                }
                drop(sender);
                let mut seen = 0;
                while seen < 4000 {
                    let filled = block.filled();
                    assert!(filled >= seen);
                    // What can be read is what was written: it does not change any more.
                    let before = block.bytes(seen..filled).to_vec();
                    thread::yield_now();
                    assert_eq!(block.bytes(seen..filled), before);
                    seen = filled;
                }
            });
            let mut ranges: Vec<_> = receiver.iter().collect();
            ranges.sort_by_key(|range| range.start);
            for range in &ranges {
                assert!(block.bytes(range.clone()).iter().all(|&byte| byte == range.start as u8));
            }
            assert_eq!(block.filled(), ranges.last().map_or(0, |range| range.end));
        }
    }
}
