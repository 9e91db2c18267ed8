//! The log of commits: all changes as RESP commands, in one total order, for several readers.
//!
//! A commit appends its commands as one [`Unit`] while its shards are locked. So for every key the order of
//! the log is the order of commits. A place in the log is an [`Lsn`], a byte offset in the stream of
//! commands; SELECT, MULTI and EXEC count. Every reader sees the same bytes at the same LSN.
//!
//! The bytes lie in reference-counted blocks of [`BLOCK_BYTES`]. A unit lies within one block. One above
//! [`COPIED_BYTES_MAX`] is not copied: its own buffer becomes a part of the log.
//!
//! ```text
//! segments:  | block 7, from 0 | buffer of a unit | block 7, from 900 | block 8, from 0 ...
//! LSN:      first                                                       ^ filled    ^ end
//! ```
//!
//! [`Log::append`] decides under one lock whether SELECT precedes the unit, and reserves its range in the
//! block. Units above [`COPIED_LOCKED_BYTES_MAX`] are copied after that lock is released. Smaller ones are
//! copied under it: that takes less time than counting a reference to the block and marking the range later.
//! Invariants:
//!
//! 1. `first <= a reader's LSN <= filled <= end`, and none of them ever shrinks. `filled` and `end` lie
//!    between two units: a reader sees a part of a unit only if it asks for a number of bytes.
//! 2. Bytes before `filled` do not change.
//! 3. When `append` returns, the unit's range is filled. It is before `filled` once all earlier appends have
//!    returned too. So units appended under locks that are free again can be read.
//! 4. A segment stays until all readers have read it and no [`Backlog`] keeps it. A [`Chunk`] that a reader
//!    has taken stays as long as the reader has it.
//! 5. The append that makes something readable is followed by a [`Log::kick`], which wakes sleeping readers.
//! 6. Without a reader or backlog nothing is kept, and `end` does not move.
//!
//! A replica appends what its primary has sent, byte by byte, as verbatim units ([`Unit::set_verbatim`]). So
//! its log has the bytes of its primary's, and the log never adds a SELECT to them.
//!
//! A segment holds units of one second only, so that a reader knows their time.

#[cfg(test)]
mod interleavings;
mod reader;
#[cfg(test)]
mod tests;
mod unit;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mantissa_store::allocator::{class_size, counts_everything};
use mantissa_store::append_block::{self, AppendBlock, BlockWriter, Reservation};

pub use reader::{Backlog, Chunk, Lost, NotKept, Reader, Start, Waker};
pub use unit::Unit;

/// A log sequence number: a byte offset in the stream of commands.
pub type Lsn = u64;

/// Bytes of a block: two of them stay in the second-level cache while one reader keeps up.
const BLOCK_BYTES: usize = 64 << 10;
/// A larger unit is not copied to a block. This also bounds the unused bytes at the end of a block.
const COPIED_BYTES_MAX: usize = 16 << 10;
/// A unit up to this is copied while the lock is held.
const COPIED_LOCKED_BYTES_MAX: usize = 1 << 10;
/// Maximum number of read blocks that are kept for reuse.
const SPARE_BLOCKS_MAX: usize = 16;
/// Why the id of a reader or backlog is always in the table.
const REGISTERED: &str = "it is registered until its handle is dropped";
/// Stands for "no reader sleeps": more units than are ever appended.
const NOBODY_SLEEPS: u64 = u64::MAX;

/// Where the bytes of a segment lie.
#[derive(Clone)]
enum Source {
    /// A block that several units are copied to.
    Block(Arc<AppendBlock>),
    /// The buffer of one unit.
    Unit(Arc<UnitBuffer>),
}

/// The buffer of a unit that is not copied.
struct UnitBuffer(Vec<u8>);

/// Bytes of all such buffers.
static UNIT_BUFFER_BYTES: AtomicI64 = AtomicI64::new(0);

impl UnitBuffer {
    fn new(bytes: Vec<u8>) -> UnitBuffer {
        UNIT_BUFFER_BYTES.fetch_add(class_size(bytes.capacity()) as i64, Ordering::Relaxed);
        UnitBuffer(bytes)
    }
}

impl Drop for UnitBuffer {
    fn drop(&mut self) {
        UNIT_BUFFER_BYTES.fetch_sub(class_size(self.0.capacity()) as i64, Ordering::Relaxed);
    }
}

/// A range of the log that is contiguous in memory. It ends where the next segment begins.
struct Segment {
    lsn: Lsn,
    /// When its units were appended, Unix time in s; 0 if unknown.
    time_s: i64,
    source: Source,
    /// The offset of its first byte in the source.
    offset: usize,
}

/// The log's record of a reader or a backlog.
struct Registered {
    id: u64,
    /// The next byte that it will read; for a backlog the first that it keeps.
    lsn: Lsn,
    /// For a backlog, the number of bytes that it keeps.
    keeps_bytes: Option<u64>,
    /// Maximum bytes that wait for the reader.
    bytes_max: u64,
    /// The number of bytes that waited when the reader was dropped for that.
    lost_bytes: Option<u64>,
    /// The number of appended units at which the sleeping reader is woken.
    wakes_at_units: u64,
    waker: Option<Waker>,
}

struct State {
    segments: VecDeque<Segment>,
    end: Lsn,
    /// The block that units are copied to.
    writer: Option<BlockWriter>,
    /// The last segment may grow: it ends where the block's next range begins.
    is_growing: bool,
    /// Blocks without segments. They can be filled again when no reader has a chunk of them.
    spares: Vec<Arc<AppendBlock>>,
    /// The database that the next command runs in when it is not preceded by SELECT; `None` if it must be.
    database: Option<usize>,
    time_s: i64,
    registered: Vec<Registered>,
    next_id: u64,
}

/// The log of commits.
pub struct Log {
    state: Mutex<State>,
    /// The LSN after everything that was appended.
    end: AtomicU64,
    /// Units appended.
    units: AtomicU64,
    /// The number of appended units at which the first sleeping reader is woken.
    wakes_at_units: AtomicU64,
    /// The number of bytes that backlogs keep.
    kept: AtomicU64,
}

impl Default for Log {
    fn default() -> Self {
        let state = State {
            segments: VecDeque::new(),
            end: 0,
            writer: None,
            is_growing: false,
            spares: Vec::new(),
            database: None,
            time_s: 0,
            registered: Vec::new(),
            next_id: 0,
        };
        Log {
            state: Mutex::new(state),
            end: AtomicU64::new(0),
            units: AtomicU64::new(0),
            wakes_at_units: AtomicU64::new(NOBODY_SLEEPS),
            kept: AtomicU64::new(0),
        }
    }
}

impl Log {
    /// The LSN after everything that was appended. Some of it may still be being copied.
    #[inline]
    pub fn end(&self) -> Lsn {
        self.end.load(Ordering::Acquire)
    }

    /// Bytes of memory that the log has beyond what backlogs keep: for readers that are slow, and for reuse.
    /// Who has a limit of memory does not count them: to evict keys would make the log grow.
    /// 0 where the program's allocator does not count them either.
    pub fn bytes_beyond_backlog(&self) -> u64 {
        if !counts_everything() {
            return 0;
        }
        let held = append_block::held_bytes() + UNIT_BUFFER_BYTES.load(Ordering::Relaxed);
        u64::try_from(held).unwrap_or(0).saturating_sub(self.kept.load(Ordering::Relaxed))
    }

    /// The number of units appended so far.
    #[inline]
    pub fn units(&self) -> u64 {
        self.units.load(Ordering::Relaxed)
    }

    /// Whether there is a reader or backlog.
    pub fn has_readers(&self) -> bool {
        !self.locked().registered.is_empty()
    }

    /// Appends a unit, which is empty afterwards, and returns the LSN behind it. The shards that it concerns
    /// must be locked. `now_s` is the Unix time in s, 0 if it does not matter. The caller calls
    /// [`Log::kick`] soon after.
    pub fn append(&self, unit: &mut Unit, now_s: i64) -> Lsn {
        let mut reservation = None;
        let end = self.reserve(unit, now_s, &mut reservation);
        #[cfg(test)]
        interleavings::switch();
        if let Some((reservation, start)) = reservation {
            reservation.fill(unit.bytes(start));
        }
        unit.clear();
        end
    }

    /// Appends a unit of one command whose bytes are given, as [`Log::append`] does. `None` if that takes
    /// more than a copy; then nothing has been done.
    #[inline]
    pub fn append_encoded(&self, database: usize, command: &[u8], now_s: i64) -> Option<Lsn> {
        let mut state = self.locked();
        if state.registered.is_empty() {
            return Some(state.end);
        }
        if state.database != Some(database) || command.len() > COPIED_LOCKED_BYTES_MAX {
            return None;
        }
        state.note_time(now_s);
        state.writer_for(command.len()).append(command);
        Some(self.note_unit(&mut state, command.len()))
    }

    /// Reserves the range of a unit. If the unit has not been copied yet, returns the reservation and the
    /// offset in the unit's buffer of the bytes to fill it with.
    #[inline]
    fn reserve(&self, unit: &mut Unit, now_s: i64, reservation: &mut Option<(Reservation, usize)>) -> Lsn {
        if unit.is_empty() {
            return self.end();
        }
        let mut start = unit.wrap();
        let mut state = self.locked();
        if state.registered.is_empty() {
            return state.end;
        }
        let (first_database, last_database) = unit.databases();
        if state.database != Some(first_database) && !unit.is_verbatim() {
            start = unit.select(start);
        }
        if !unit.is_neutral() {
            state.database = Some(last_database);
        }
        state.note_time(now_s);
        let bytes = unit.bytes(start).len();
        if bytes > COPIED_BYTES_MAX {
            state.push_segment(Source::Unit(Arc::new(UnitBuffer::new(unit.take_bytes()))), start);
            state.is_growing = false;
        } else {
            let writer = state.writer_for(bytes);
            if bytes <= COPIED_LOCKED_BYTES_MAX {
                writer.append(unit.bytes(start));
            } else {
                *reservation = Some((writer.reserve(bytes), start));
            }
        }
        let end = self.note_unit(&mut state, bytes);
        if bytes > COPIED_BYTES_MAX {
            // With a new block the segment is new anyway.
            state.give_up_slow_readers();
        }
        end
    }

    /// Notes that a unit of so many bytes has its place. Returns the LSN behind it.
    #[inline]
    fn note_unit(&self, state: &mut State, bytes: usize) -> Lsn {
        state.end += bytes as u64;
        self.end.store(state.end, Ordering::Release);
        self.units.store(self.units() + 1, Ordering::Release);
        state.end
    }

    /// Has SELECT precede the next unit, and returns the LSN of that unit: a reader that has read nothing
    /// before can begin there.
    pub fn restart(&self) -> Lsn {
        let mut state = self.locked();
        state.database = None;
        state.end
    }

    /// The database that is selected at the end: a reader that begins there must assume it. `None` if SELECT
    /// precedes the next unit, or the next unit begins with it.
    pub fn database(&self) -> Option<usize> {
        self.locked().database
    }

    /// Says which database is selected at the end, where what was appended before does not tell: a replica
    /// goes on with its primary's stream after a restart. Has an effect only with a reader or backlog.
    pub fn set_database(&self, database: Option<usize>) {
        let mut state = self.locked();
        if !state.registered.is_empty() {
            state.database = database;
        }
    }

    /// Wakes sleeping readers whose number of units has been reached. To be called after appending, once for
    /// several units that come together.
    #[inline]
    pub fn kick(&self) {
        if self.units.load(Ordering::SeqCst) >= self.wakes_at_units.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        let mut wakers = Vec::new();
        let mut state = self.locked();
        let units = self.units();
        for registered in state.registered.iter_mut().filter(|it| it.wakes_at_units <= units) {
            registered.wakes_at_units = NOBODY_SLEEPS;
            wakers.extend(registered.waker.clone());
        }
        self.note_sleepers(&state);
        drop(state);
        wakers.iter().for_each(|wake| wake());
    }

    fn note_sleepers(&self, state: &State) {
        let least = state.registered.iter().map(|registered| registered.wakes_at_units).min();
        self.wakes_at_units.store(least.unwrap_or(NOBODY_SLEEPS), Ordering::SeqCst);
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Begins a segment with the next unit if that comes in a later second.
    #[inline]
    fn note_time(&mut self, now_s: i64) {
        if now_s > self.time_s {
            self.time_s = now_s;
            self.is_growing = false;
        }
    }

    /// The first LSN that is kept.
    fn first(&self) -> Lsn {
        self.segments.front().map_or(self.end, |segment| segment.lsn)
    }

    fn push_segment(&mut self, source: Source, offset: usize) {
        self.segments.push_back(Segment { lsn: self.end, time_s: self.time_s, source, offset });
    }

    /// The writer of a block with enough free bytes for a unit, which becomes a part of the last segment.
    #[inline]
    fn writer_for(&mut self, bytes: usize) -> &mut BlockWriter {
        if !self.is_growing || self.writer.as_ref().is_none_or(|writer| writer.free_bytes() < bytes) {
            self.begin_segment(bytes);
        }
        self.writer.as_mut().expect("a segment that grows has a writer")
    }

    #[cold]
    fn begin_segment(&mut self, bytes: usize) {
        let writer = match self.writer.take() {
            Some(writer) if writer.free_bytes() >= bytes => writer,
            full => {
                drop(full);
                self.give_up_slow_readers();
                self.unused_block()
            }
        };
        self.push_segment(Source::Block(Arc::clone(writer.block())), writer.reserved());
        self.writer = Some(writer);
        self.is_growing = true;
    }

    fn unused_block(&mut self) -> BlockWriter {
        for at in 0..self.spares.len() {
            match BlockWriter::reuse(self.spares.swap_remove(at)) {
                Ok(writer) => return writer,
                Err(block) => {
                    // A reader still has a chunk of it.
                    self.spares.push(block);
                    let last = self.spares.len() - 1;
                    self.spares.swap(at, last);
                }
            }
        }
        BlockWriter::new(BLOCK_BYTES)
    }

    /// Drops readers that are too far behind.
    fn give_up_slow_readers(&mut self) {
        let end = self.end;
        for registered in self.registered.iter_mut().filter(|it| it.keeps_bytes.is_none()) {
            let behind = end - registered.lsn;
            if behind > registered.bytes_max && registered.lost_bytes.is_none() {
                registered.lost_bytes = Some(behind);
            }
        }
        self.drop_unneeded();
    }

    /// Drops segments that no reader or backlog needs.
    fn drop_unneeded(&mut self) {
        let end = self.end;
        let needed = self.registered.iter_mut().filter(|it| it.lost_bytes.is_none()).map(|registered| {
            if let Some(keeps_bytes) = registered.keeps_bytes {
                registered.lsn = registered.lsn.max(end.saturating_sub(keeps_bytes));
            }
            registered.lsn
        });
        let needed = needed.min().unwrap_or(end);
        while let Some(first) = self.segments.front() {
            let is_needed = match (self.segments.get(1), &first.source) {
                (Some(next), _) => next.lsn > needed,
                (None, Source::Unit(_)) => end > needed,
                // It may grow.
                (None, Source::Block(_)) => true,
            };
            if is_needed {
                return;
            }
            if let Some(Segment { source: Source::Block(block), .. }) = self.segments.pop_front() {
                self.retire(block);
            }
        }
    }

    /// Keeps a block for reuse, unless it still has segments.
    fn retire(&mut self, block: Arc<AppendBlock>) {
        // Segments of one block follow each other, with only units between them.
        let next = self.segments.iter().find_map(|segment| match &segment.source {
            Source::Block(block) => Some(block),
            Source::Unit(_) => None,
        });
        let next = next.or(self.writer.as_ref().map(BlockWriter::block));
        let is_used = next.is_some_and(|next| Arc::ptr_eq(next, &block));
        if !is_used && self.spares.len() < SPARE_BLOCKS_MAX {
            self.spares.push(block);
        }
    }

    fn find(&self, id: u64) -> &Registered {
        self.registered.iter().find(|registered| registered.id == id).expect(REGISTERED)
    }

    fn find_mut(&mut self, id: u64) -> &mut Registered {
        self.registered.iter_mut().find(|registered| registered.id == id).expect(REGISTERED)
    }

    /// The segments from the one that holds an LSN on, each with its end and the end of its filled bytes.
    fn segments_from(&self, lsn: Lsn) -> impl Iterator<Item = (&Segment, Lsn, Lsn)> {
        let first = self.segments.partition_point(|segment| segment.lsn <= lsn).saturating_sub(1);
        (first..self.segments.len()).map(|at| {
            let segment = &self.segments[at];
            let end = self.segments.get(at + 1).map_or(self.end, |next| next.lsn);
            let filled = match &segment.source {
                Source::Unit(_) => end,
                Source::Block(block) => {
                    end.min(segment.lsn + block.filled().saturating_sub(segment.offset) as u64)
                }
            };
            (segment, end, filled)
        })
    }
}
