//! Values on disk: a file of segments that belongs to the running process.
//!
//! ```text
//! file     segments of 16 MiB, each free or in use
//! segment  records, each beginning at a multiple of 8 bytes
//! record   blocks | zeros up to the next record
//! block    checksum (8 bytes LE) | part of the value
//! value    of a string its bytes, of a collection its form and value as in an RDB file, or as in [`exact`]
//! ```
//!
//! A record is one block, but for that of a string of 16 KiB or more, whose blocks have 4096 bytes each: so
//! a part of it can be read and checked ([`RecordFile::read_part`]). What is longer than a segment has slots
//! of its own ([`long`]), and so has a collection of more than 8 MiB. A checksum is the CRC-64 of the part
//! and of where the block begins, so a block that the disk brings from elsewhere is noticed too. Nothing is
//! synced: RDB and append-only files have the data, and what is here is gone with the process.
//!
//! [`TierFile::append`] adds records to the open segment, in memory; one thread, [`TierFile::write_until`],
//! writes them in chunks of [`CHUNK_BYTES`] or more. A record can be read at once: until its chunk is in the
//! file it is read from memory. If a chunk can not be written it stays in memory and is tried again; nothing
//! is appended meanwhile.
//!
//! A segment of which no record is named any more is free again once the disk space under it has been given
//! back, which the same thread does after all writes before it. Segments that are mostly unused are emptied
//! by [`TierFile::copy_record`], which the engine calls for what is left in them.

mod elements;
mod exact;
mod long;
#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use mantissa_store::cold::{
    BLOCK_BYTES, BLOCK_TEXT_BYTES, Cold, HEADER_BYTES, ONE_BLOCK_BYTES_MAX, Place, RECORD_BYTES_MAX,
    RecordFile, Segment, ValueFacts,
};
use mantissa_store::snapshot::Image;
use mantissa_store::{EncodingLimits, Entry, Kind, Move, StringRef, TextImage, Value};
use mantissa_sys::clock;

use crate::format::{Checksum, Dialect};
use crate::source::Source;
use crate::storage::ScratchFile;
use crate::types::{Outcome, read_value};
use crate::write::{Encoder, Spill, WriteOptions};
use elements::Marker;
use long::LongWriter;

/// Bytes of a segment.
pub const SEGMENT_BYTES: usize = 16 << 20;
/// Bytes that are written at once, at least.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes that may wait to be written. Beyond that nothing is appended.
const WAITING_BYTES_MAX: usize = 8 << 20;
/// Longest string whose record is in a segment with others, in bytes: one that fills it.
pub const TEXT_BYTES_MAX: usize = SEGMENT_BYTES / BLOCK_BYTES * BLOCK_TEXT_BYTES;
/// How long a failed write waits for the next attempt.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// Records of large values leave one slot in so many to others, and one at least.
const KEPT_PART: usize = 16;
/// How long a large value that could not be written tells how much room the disk has.
const DISK_FULL_LASTS: Duration = Duration::from_secs(60);
/// Segments of whose records fewer than this share of the bytes is named are worth emptying.
const SPARSE_PART: u64 = 2;
/// A file of fewer slots is emptied of those that are used to less than three quarters when it is full.
const TIGHT_SLOTS: u64 = 64;

/// Limits that a collection of one element exceeds; a list does from the second on.
const ALWAYS_LARGE: EncodingLimits = EncodingLimits {
    hash_entries_max: 0,
    hash_value_bytes_max: 0,
    list_node_size: 1,
    list_compress_depth: 0,
    set_intset_entries_max: 0,
    set_listpack_entries_max: 0,
    set_listpack_value_bytes_max: 0,
    sorted_set_entries_max: 0,
    sorted_set_value_bytes_max: 0,
    stream_node_bytes_max: 0,
    stream_node_entries_max: 0,
};
/// Limits that none exceeds.
const ALWAYS_PACKED: EncodingLimits = EncodingLimits {
    hash_entries_max: usize::MAX,
    hash_value_bytes_max: usize::MAX,
    list_node_size: i64::MAX,
    list_compress_depth: 0,
    set_intset_entries_max: usize::MAX,
    set_listpack_entries_max: usize::MAX,
    set_listpack_value_bytes_max: usize::MAX,
    sorted_set_entries_max: usize::MAX,
    sorted_set_value_bytes_max: usize::MAX,
    stream_node_bytes_max: 0,
    stream_node_entries_max: 0,
};

const _: () = assert!(ONE_BLOCK_BYTES_MAX <= TEXT_BYTES_MAX && TEXT_BYTES_MAX <= RECORD_BYTES_MAX);
const _: () = assert!(SEGMENT_BYTES <= mantissa_store::cold::SEGMENT_BYTES_MAX);

/// Why a value stays in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Its type, its size, or the disk has no room for one so large: nothing follows for others.
    Unfit,
    /// The disk is slower than what comes: later.
    Behind,
    /// The file has its largest size, or can not be written.
    Full,
}

/// What a record is appended for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    /// A value that goes to disk.
    Value,
    /// Moving what is left of a sparse segment, which frees more slots than it takes. It may take one beyond
    /// the limit, or beyond what was in use when that was lowered: else a file that is full could not be
    /// cleaned.
    Cleaning,
}

/// What a thread needs to make records of values.
pub struct RecordEncoder {
    encoder: Encoder<'static>,
    /// A collection as in an RDB file.
    value: Vec<u8>,
    /// A record, made by [`put_record`].
    record: Vec<u8>,
}

impl RecordEncoder {
    /// Gives the memory up that a large value took.
    fn give_up(&mut self) {
        for bytes in [&mut self.value, &mut self.record] {
            bytes.clear();
            bytes.shrink_to(CHUNK_BYTES);
        }
    }
}

impl Default for RecordEncoder {
    fn default() -> Self {
        let options = WriteOptions { compress: false, ..WriteOptions::default() };
        RecordEncoder { encoder: Encoder::new(options, None), value: Vec::new(), record: Vec::new() }
    }
}

/// What INFO shows of the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct TierFigures {
    /// Values whose record is named, by an entry or a snapshot.
    pub values: u64,
    /// Bytes of their records.
    pub value_bytes: u64,
    /// Bytes of the segments and slots in use, those included whose space is about to be given back.
    pub used_bytes: u64,
    /// Bytes that wait to be written.
    pub waiting_bytes: u64,
    /// Records that were written, and their bytes.
    pub written: u64,
    /// Bytes of those.
    pub written_bytes: u64,
    /// Values that were read.
    pub reads: u64,
    /// Parts of values that were read.
    pub part_reads: u64,
    /// Bytes of the blocks of both.
    pub read_bytes: u64,
    /// Reads that failed, and records that were damaged.
    pub read_errors: u64,
    /// Writes that failed.
    pub write_errors: u64,
}

/// The file of the values on disk.
pub struct TierFile {
    file: Box<dyn ScratchFile>,
    itself: Weak<TierFile>,
    segments_max: AtomicU64,
    state: Mutex<State>,
    /// The writer has something to do.
    has_work: Condvar,
    written: AtomicU64,
    written_bytes: AtomicU64,
    reads: AtomicU64,
    part_reads: AtomicU64,
    read_bytes: AtomicU64,
    read_errors: AtomicU64,
    write_errors: AtomicU64,
}

#[derive(Default)]
struct State {
    open: Option<Open>,
    /// What the writer has to do, in this order.
    work: VecDeque<Work>,
    /// Bytes of the chunks among it.
    waiting_bytes: usize,
    /// Segments that are free, and the number of those that were ever used.
    free: Vec<u32>,
    used_ever: u32,
    /// Segments that are being given back.
    discarding: usize,
    /// The most slots that cleaning may come to.
    cleaning_max: u64,
    /// All full segments in use, and some that are not any more.
    segments: Vec<Full>,
    /// Records that have slots of their own.
    longs: Vec<Full>,
    /// Slots for which there was room when a large value could not be written, and when that was.
    disk_full: Option<(usize, Instant)>,
    /// What the writer has to tell of that.
    long_failure: Option<io::Error>,
    /// The last write has failed.
    is_failing: bool,
}

/// The segment that is being filled.
struct Open {
    segment: Arc<Segment>,
    /// Records that are not among the work yet.
    chunk: Chunk,
}

/// A segment that no record is added to.
struct Full {
    segment: Weak<Segment>,
    /// Bytes of its records. A long one may have left much of the segment before it unused.
    bytes: usize,
    /// When the last record was added.
    since: Instant,
}

impl Full {
    fn new(segment: &Arc<Segment>, bytes: usize) -> Full {
        Full { segment: Arc::downgrade(segment), bytes, since: clock::now() }
    }

    /// The segment, if it is in use, and the bytes of its records.
    fn upgrade(&self) -> Option<(Arc<Segment>, u64)> {
        Some((self.segment.upgrade()?, self.bytes as u64))
    }
}

/// Records one after the other.
struct Chunk {
    segment: u32,
    /// Where it begins in its segment.
    offset: usize,
    bytes: Vec<u8>,
}

enum Work {
    Write(Arc<Chunk>),
    Discard(u32),
}

impl Chunk {
    fn new(segment: u32, offset: usize) -> Chunk {
        Chunk { segment, offset, bytes: Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4) }
    }

    /// The bytes at a place, if they are in this chunk.
    fn part(&self, segment: u32, offset: usize, len: usize) -> Option<&[u8]> {
        if self.segment != segment {
            return None;
        }
        self.bytes.get(offset.checked_sub(self.offset)?..)?.get(..len)
    }

    fn end(&self) -> usize {
        self.offset + self.bytes.len()
    }
}

impl State {
    /// Slots that are not free.
    fn slots_in_use(&self) -> usize {
        self.used_ever as usize - self.free.len()
    }

    /// Why nothing can be appended, if so.
    fn refusal(&self) -> Option<Refusal> {
        match self {
            State { is_failing: true, .. } => Some(Refusal::Full),
            State { waiting_bytes: WAITING_BYTES_MAX.., .. } => Some(Refusal::Behind),
            _ => None,
        }
    }
}

impl TierFile {
    /// An empty file of at most `bytes_max` bytes, which are rounded down to segments.
    pub fn new(file: Box<dyn ScratchFile>, bytes_max: u64) -> Arc<TierFile> {
        Arc::new_cyclic(|itself| TierFile {
            file,
            itself: Weak::clone(itself),
            segments_max: AtomicU64::new(bytes_max / SEGMENT_BYTES as u64),
            state: Mutex::default(),
            has_work: Condvar::new(),
            written: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            part_reads: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            read_errors: AtomicU64::new(0),
            write_errors: AtomicU64::new(0),
        })
    }

    /// Changes the largest size.
    pub fn configure(&self, bytes_max: u64) {
        self.segments_max.store(bytes_max / SEGMENT_BYTES as u64, Ordering::Relaxed);
        let mut state = self.state();
        state.cleaning_max = state.slots_in_use() as u64 + 1;
    }

    /// Adds the value of an entry, which stays as it is.
    pub fn append(&self, encoder: &mut RecordEncoder, entry: &Entry) -> Result<Cold, Refusal> {
        self.refusal().map_or(Ok(()), Err)?;
        let facts = entry.cold_facts().ok_or(Refusal::Unfit)?;
        let RecordEncoder { encoder, value, record } = encoder;
        value.clear();
        let mut digits = [0; 20];
        let bytes = bytes_of(entry, &mut digits, encoder, value);
        self.append_bytes(record, bytes, facts)
    }

    /// Adds a value of which there is an image, and which takes so many bytes in memory. `is_over` says that
    /// nobody wants it any more.
    pub fn append_image(
        &self,
        encoder: &mut RecordEncoder,
        (from, bytes): (&mut Move, usize),
        is_over: &dyn Fn() -> bool,
    ) -> Result<Cold, Refusal> {
        self.refusal().map_or(Ok(()), Err)?;
        let token = from.token();
        let is_over = || token.is_outdated() || is_over();
        let facts = from.facts;
        let appended = match &mut from.image {
            Image::Entry(entry) => return self.append_large(encoder, (entry, bytes), &is_over),
            Image::Text { text, .. } if text.byte_len() > TEXT_BYTES_MAX => {
                self.append_long_text(encoder, text, (facts, &is_over))
            }
            Image::Text { text, .. } => {
                encoder.value.clear();
                while text.read(&mut encoder.value) {}
                self.append_bytes(&mut encoder.record, &encoder.value, facts)
            }
        };
        encoder.give_up();
        appended
    }

    fn append_long_text(
        &self,
        encoder: &mut RecordEncoder,
        text: &mut TextImage,
        (facts, is_over): (ValueFacts, &dyn Fn() -> bool),
    ) -> Result<Cold, Refusal> {
        let mut writer = self.begin_long(text.byte_len(), is_over)?;
        encoder.value.clear();
        while text.read(&mut encoder.value) && writer.add(&encoder.value) {
            encoder.value.clear();
        }
        writer.finish(facts, None)
    }

    /// Adds the value of an entry, however large it is: it takes so many bytes in memory. `is_over` says that
    /// nobody wants it any more.
    pub fn append_large(
        &self,
        encoder: &mut RecordEncoder,
        (entry, bytes): (&Entry, usize),
        is_over: &dyn Fn() -> bool,
    ) -> Result<Cold, Refusal> {
        self.refusal().map_or(Ok(()), Err)?;
        let facts = entry.cold_facts().ok_or(Refusal::Unfit)?;
        let appended = match entry.as_string() {
            Some(StringRef::Bytes(text)) if text.len() > TEXT_BYTES_MAX => {
                let mut writer = self.begin_long(text.len(), is_over)?;
                writer.add(text);
                writer.finish(facts, None)
            }
            Some(text) => self.append_bytes(&mut encoder.record, text.text(&mut [0; 20]), facts),
            None => self.append_collection(encoder, (entry, bytes), (facts, is_over)),
        };
        encoder.give_up();
        appended
    }

    fn append_collection(
        &self,
        encoder: &mut RecordEncoder,
        (entry, bytes): (&Entry, usize),
        (facts, is_over): (ValueFacts, &dyn Fn() -> bool),
    ) -> Result<Cold, Refusal> {
        if bytes > ONE_BLOCK_BYTES_MAX {
            self.check_slots(bytes)?;
        }
        let RecordEncoder { encoder, value, record } = encoder;
        value.clear();
        let mut long = None;
        let mut marker = Marker::new(entry.value());
        let mut begin = || self.begin_long(bytes, is_over);
        put_collection(entry, encoder, value, &mut |value| {
            if let Some(marker) = &mut marker {
                marker.look(value);
            }
            if long.is_none() && value.len() <= ONE_BLOCK_BYTES_MAX {
                return true;
            }
            let Ok(writer) = long.get_or_insert_with(&mut begin) else {
                value.clear();
                return false;
            };
            if value.len() < CHUNK_BYTES {
                return true;
            }
            let goes_on = writer.add(value);
            if let Some(marker) = &mut marker {
                marker.hand_on(value.len());
            }
            value.clear();
            goes_on
        });
        if long.is_none() && value.len() <= ONE_BLOCK_BYTES_MAX {
            return self.append_bytes(record, value, facts);
        }
        let mut writer = long.unwrap_or_else(begin)?;
        writer.add(value);
        writer.finish(facts, marker)
    }

    /// Begins the record of a value with so many bytes in memory.
    fn begin_long<'a>(&self, bytes: usize, is_over: &'a dyn Fn() -> bool) -> Result<LongWriter<'a>, Refusal> {
        self.check_slots(bytes)?;
        Ok(LongWriter::new(self.itself.upgrade().ok_or(Refusal::Unfit)?, is_over))
    }

    /// Whether there are enough slots for the record of a value with so many bytes in memory. That of a
    /// string needs so many slots, that of a collection hardly more.
    fn check_slots(&self, bytes: usize) -> Result<(), Refusal> {
        let needed = bytes.div_ceil(TEXT_BYTES_MAX).max(1);
        if needed <= self.slots_for_long(&self.state()) { Ok(()) } else { Err(Refusal::Unfit) }
    }

    /// Slots that the records of large values may take. Some are left to small values, and none can be had
    /// that a full disk has not got.
    fn slots_for_long(&self, state: &State) -> usize {
        let slots_max = self.slots_max().min(u64::from(u32::MAX)) as usize;
        let left = slots_max.saturating_sub(state.slots_in_use());
        let left = left.saturating_sub((slots_max / KEPT_PART).max(1));
        match state.disk_full {
            Some((slots, since)) if clock::since(since) < DISK_FULL_LASTS => {
                left.min(slots.saturating_sub(state.slots_in_use()))
            }
            _ => left,
        }
    }

    /// Takes a slot for the record of a large value.
    fn take_long_slot(&self) -> Option<u32> {
        let mut state = self.state();
        if self.slots_for_long(&state) > 0 { self.take_slot(&mut state, For::Value) } else { None }
    }

    /// Notes that a large value could not be written: the disk has no more than what is in use.
    fn note_long_failure(&self, error: io::Error) {
        self.write_errors.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        state.disk_full = Some((state.slots_in_use().saturating_sub(1), clock::now()));
        state.long_failure = Some(error);
        self.has_work.notify_one();
    }

    /// Why nothing can be appended, if so: [`Refusal::Full`] while writing fails.
    pub fn refusal(&self) -> Option<Refusal> {
        self.state().refusal()
    }

    /// Adds a value.
    fn append_bytes(&self, record: &mut Vec<u8>, bytes: &[u8], facts: ValueFacts) -> Result<Cold, Refusal> {
        let place = Place::new(0, bytes.len(), facts).filter(|place| !is_long(*place));
        let place = place.ok_or(Refusal::Unfit)?;
        put_record(place, bytes, record);
        self.append_record(record, place, For::Value)
    }

    /// Copies the record of a value on disk to the open segment. One with slots of its own stays.
    pub fn copy_record(&self, cold: &Cold) -> Result<Cold, Refusal> {
        let place = cold.place();
        if is_long(place) {
            return Err(Refusal::Unfit);
        }
        self.refusal().map_or(Ok(()), Err)?;
        let bytes = self.bytes(cold.segment().number(), place, 0..place.len()).map_err(|_| Refusal::Unfit)?;
        let mut record = Vec::new();
        put_record(place, &bytes, &mut record);
        self.append_record(&mut record, place, For::Cleaning)
    }

    /// Adds a record that [`put_record`] has made, and takes its buffer if it is long.
    fn append_record(&self, record: &mut Vec<u8>, place: Place, what_for: For) -> Result<Cold, Refusal> {
        // Dropped after the lock: if nothing of it is named, that frees it.
        let mut _sealed = None;
        let mut state = self.state();
        match state.refusal() {
            None => {}
            // A large value was begun before the disk was behind.
            Some(Refusal::Behind) if record.len() >= CHUNK_BYTES => {}
            Some(refusal) => return Err(refusal),
        }
        if what_for == For::Value && state.slots_in_use() as u64 > self.slots_max() {
            return Err(Refusal::Full);
        }
        if state.open.as_ref().is_none_or(|open| open.chunk.end() + record.len() > SEGMENT_BYTES) {
            let open = self.open_segment(&mut state, what_for);
            if open.is_err() && record.len() >= CHUNK_BYTES {
                // What is smaller may still have room in the open segment.
                return Err(Refusal::Unfit);
            }
            _sealed = self.seal(&mut state);
            state.open = Some(open?);
        }
        let Some(open) = &mut state.open else { return Err(Refusal::Full) };
        let (segment, offset) = (open.chunk.segment, open.chunk.end());
        let (place, record_bytes) = (place.moved(offset), record.len());
        stamp_record(record, segment, place);
        let cold = Cold::new(Arc::clone(&open.segment), place);
        let is_long = record_bytes >= CHUNK_BYTES;
        let mut waiting = None;
        if !is_long {
            open.chunk.bytes.extend_from_slice(record);
        }
        if is_long || open.chunk.bytes.len() >= CHUNK_BYTES {
            let next = Chunk::new(segment, offset + record_bytes);
            waiting = Some(std::mem::replace(&mut open.chunk, next));
        }
        if let Some(chunk) = waiting {
            self.pass_on(&mut state, chunk);
        }
        if is_long {
            self.pass_on(&mut state, Chunk { segment, offset, bytes: std::mem::take(record) });
        }
        drop(state);
        self.written.fetch_add(1, Ordering::Relaxed);
        self.written_bytes.fetch_add(record_bytes as u64, Ordering::Relaxed);
        Ok(cold)
    }

    /// Has the writer write what there is of the open segment, and opens no other. The segment is to be
    /// dropped with the state unlocked.
    fn seal(&self, state: &mut State) -> Option<Arc<Segment>> {
        let Open { segment, chunk } = state.open.take()?;
        state.segments.push(Full::new(&segment, chunk.end()));
        self.pass_on(state, chunk);
        Some(segment)
    }

    /// Hands a chunk to the writer.
    fn pass_on(&self, state: &mut State, chunk: Chunk) {
        if !chunk.bytes.is_empty() {
            state.waiting_bytes += chunk.bytes.len();
            state.work.push_back(Work::Write(Arc::new(chunk)));
            self.has_work.notify_one();
        }
    }

    fn open_segment(&self, state: &mut State, what_for: For) -> Result<Open, Refusal> {
        let number = self.take_slot(state, what_for).ok_or(Refusal::Full)?;
        let Some(itself) = self.itself.upgrade() else { return Err(Refusal::Full) };
        Ok(Open { segment: Segment::new(number, itself), chunk: Chunk::new(number, 0) })
    }

    /// A place of a segment in the file that is free from now on no more. `None` if as many as may be are in
    /// use.
    fn take_slot(&self, state: &mut State, what_for: For) -> Option<u32> {
        let (in_use, most) = (state.slots_in_use() as u64, self.slots_max());
        let may_take = match what_for {
            For::Value => in_use < most,
            For::Cleaning => in_use < state.cleaning_max.max(most),
        };
        if !may_take {
            return None;
        }
        state.free.pop().or_else(|| {
            let next = state.used_ever;
            state.used_ever = next.checked_add(1)?;
            Some(next)
        })
    }

    /// Frees slots of which nothing is named any more, once their disk space has been given back.
    fn give_back(&self, slots: &[u32]) {
        self.state().work.extend(slots.iter().map(|slot| Work::Discard(*slot)));
        self.has_work.notify_one();
    }

    /// Writes what there is to write until `is_over`, which it looks at ten times a second. Calls `drained`
    /// when values can be appended again after [`Refusal::Behind`], and `failed` with an error once when
    /// writing begins to fail, and for each large value that could not be written.
    pub fn write_until(
        &self,
        is_over: impl Fn() -> bool,
        mut drained: impl FnMut(),
        mut failed: impl FnMut(&io::Error),
    ) {
        while !is_over() {
            let mut state = self.state();
            if let Some(error) = state.long_failure.take() {
                drop(state);
                failed(&error);
                continue;
            }
            let Some(work) = state.work.pop_front() else {
                let waited = self.has_work.wait_timeout(state, RETRY_AFTER);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
                continue;
            };
            match work {
                Work::Write(chunk) => {
                    // It stays where readers find it until it is in the file.
                    state.work.push_front(Work::Write(Arc::clone(&chunk)));
                    drop(state);
                    let at = position(chunk.segment, chunk.offset);
                    let outcome = self.file.write_at(&chunk.bytes, at);
                    let mut state = self.state();
                    let was_failing = state.is_failing;
                    state.is_failing = outcome.is_err();
                    match outcome {
                        Ok(()) => {
                            let was_behind = state.waiting_bytes >= WAITING_BYTES_MAX;
                            state.work.pop_front();
                            state.waiting_bytes -= chunk.bytes.len();
                            let is_behind = state.waiting_bytes >= WAITING_BYTES_MAX;
                            drop(state);
                            if was_behind && !is_behind || was_failing {
                                drained();
                            }
                        }
                        Err(error) => {
                            drop(state);
                            self.write_errors.fetch_add(1, Ordering::Relaxed);
                            if !was_failing {
                                failed(&error);
                            }
                            // A full disk gets room of it.
                            if self.discard_waiting() {
                                drained();
                            } else {
                                std::thread::sleep(RETRY_AFTER);
                            }
                        }
                    }
                }
                Work::Discard(number) => {
                    state.discarding += 1;
                    drop(state);
                    self.discard(number);
                }
            }
        }
    }

    /// Gives back the disk space of a slot, which is free from then on.
    fn discard(&self, number: u32) {
        // Where the space can not be given back it is only used again.
        let _ = self.file.discard(position(number, 0), SEGMENT_BYTES as u64);
        let mut state = self.state();
        state.free.push(number);
        state.discarding -= 1;
    }

    /// Frees the slots that wait for it, ahead of what is to be written. What is to be written to them is
    /// named by nobody any more, and is not written: it all waits ahead of what frees them. True if nothing
    /// is left to be written: then nothing is known of the disk any more.
    fn discard_waiting(&self) -> bool {
        let mut state = self.state();
        let discarded = |work: &Work| match work {
            Work::Discard(number) => Some(*number),
            Work::Write(_) => None,
        };
        let numbers: HashSet<u32> = state.work.iter().filter_map(discarded).collect();
        let mut dropped_bytes = 0;
        state.work.retain(|work| match work {
            Work::Discard(_) => false,
            Work::Write(chunk) => {
                let is_dropped = numbers.contains(&chunk.segment);
                dropped_bytes += if is_dropped { chunk.bytes.len() } else { 0 };
                !is_dropped
            }
        });
        state.waiting_bytes -= dropped_bytes;
        let is_done = state.work.is_empty();
        state.is_failing &= !is_done;
        state.discarding += numbers.len();
        drop(state);
        numbers.into_iter().for_each(|number| self.discard(number));
        is_done
    }

    /// Bytes of a value that begin and end where blocks do, checked.
    fn bytes(&self, segment: u32, place: Place, range: Range<usize>) -> Result<Vec<u8>, String> {
        let block_bytes = place.block_bytes();
        let part_bytes = block_bytes - HEADER_BYTES;
        debug_assert!(range.start.is_multiple_of(part_bytes) && range.end <= place.len());
        debug_assert!(range.end == place.len() || range.end.is_multiple_of(part_bytes));
        let blocks = range.len().div_ceil(part_bytes).max(1);
        let offset = place.offset() + range.start / part_bytes * block_bytes;
        let mut read = vec![0; blocks * HEADER_BYTES + range.len()];
        self.read_bytes.fetch_add(read.len() as u64, Ordering::Relaxed);
        if !self.read_waiting(segment, offset, &mut read) {
            let outcome = self.file.read_at(&mut read, position(segment, offset));
            outcome.map_err(|error| self.unreadable(&error))?;
        }
        self.join_blocks(&mut read, block_bytes, (segment, offset))?;
        read.truncate(range.len());
        Ok(read)
    }

    /// Checks blocks that lie at a place, and moves their parts together, over the headers.
    fn join_blocks(
        &self,
        read: &mut [u8],
        block_bytes: usize,
        (segment, offset): (u32, usize),
    ) -> Result<(), String> {
        for (block, start) in (0..read.len()).step_by(block_bytes).enumerate() {
            let end = read.len().min(start + block_bytes);
            let (header, part) = read[start..end].split_at(HEADER_BYTES);
            let stored = header.try_into().map_or(0, u64::from_le_bytes);
            if stored != Checksum::of(part) ^ salt(segment, offset + start) {
                return Err(self.unreadable(&"its checksum is wrong"));
            }
            read.copy_within(start + HEADER_BYTES..end, block * (block_bytes - HEADER_BYTES));
        }
        Ok(())
    }

    /// Reads what is not in the file yet. False if it is.
    fn read_waiting(&self, segment: u32, offset: usize, record: &mut [u8]) -> bool {
        let state = self.state();
        let open = state.open.iter().map(|open| &open.chunk);
        let waiting = state.work.iter().filter_map(|work| match work {
            Work::Write(chunk) => Some(&**chunk),
            Work::Discard(_) => None,
        });
        let part = open.chain(waiting).find_map(|chunk| chunk.part(segment, offset, record.len()));
        part.inspect(|part| record.copy_from_slice(part)).is_some()
    }

    fn unreadable(&self, reason: &dyn std::fmt::Display) -> String {
        self.read_errors.fetch_add(1, Ordering::Relaxed);
        format!("the value could not be read from disk: {reason}")
    }

    /// Segments of whose records less than half is named, or three quarters in a small file that is full, if
    /// enough space is lost to them: those that are worth emptying, the sparsest first, and no more of them
    /// than there is room for what is left in them.
    pub fn sparse_segments(&self) -> Vec<u32> {
        let mut state = self.state();
        state.segments.retain(|full| full.segment.strong_count() > 0);
        let segments: Vec<_> = state.segments.iter().filter_map(Full::upgrade).collect();
        let is_full = state.slots_in_use() as u64 >= self.slots_max();
        drop(state);
        let named: u64 = segments.iter().map(|(segment, _)| segment.named_bytes()).sum();
        let used: u64 = segments.iter().map(|(_, bytes)| bytes).sum();
        // A small file that is full is cleaned further: at most three bytes are written for each gained.
        let is_tight = is_full && self.slots_max() < TIGHT_SLOTS;
        let may_lose = match is_tight {
            true => named / 4 + SEGMENT_BYTES as u64,
            false => named / 2 + 2 * SEGMENT_BYTES as u64,
        };
        if used <= named + may_lose {
            return Vec::new();
        }
        let named = |(segment, bytes): &(Arc<Segment>, u64)| {
            let named = segment.named_bytes();
            let most = if is_tight { bytes / 4 * 3 } else { bytes / SPARSE_PART };
            (named < most).then_some((named, segment.number()))
        };
        let mut sparse: Vec<(u64, u32)> = segments.iter().filter_map(named).collect();
        sparse.sort_unstable();
        let mut state = self.state();
        let in_use = state.slots_in_use() as u64;
        // After a limit was lowered it comes down with what is in use.
        state.cleaning_max = (self.slots_max() + 1).max(state.cleaning_max.min(in_use + 1));
        let slots = state.cleaning_max.saturating_sub(in_use);
        let begun = state.open.as_ref().map_or(SEGMENT_BYTES, |open| open.chunk.end());
        drop(state);
        // What does not fit at the end of a slot goes to the next, so two slots hold at least what one has.
        let mut room = match slots {
            0 => (SEGMENT_BYTES - begun) as u64,
            _ => slots.div_ceil(2) * SEGMENT_BYTES as u64,
        };
        let fits = |&(named, _): &(u64, u32)| {
            let fits = named <= room;
            room = room.saturating_sub(named);
            fits
        };
        sparse.into_iter().take_while(fits).map(|(_, number)| number).collect()
    }

    /// Slots that values may still take, or may once those that wait for it have been given back. `None`
    /// while writing fails.
    pub fn free_slots(&self) -> Option<u64> {
        let state = self.state();
        let waiting = state.work.iter().filter(|work| matches!(work, Work::Discard(_))).count();
        let in_use = (state.slots_in_use() - waiting - state.discarding) as u64;
        (!state.is_failing).then(|| self.slots_max().saturating_sub(in_use))
    }

    /// The most slots that values may take.
    pub fn slots_max(&self) -> u64 {
        self.segments_max.load(Ordering::Relaxed)
    }

    /// The segments that were filled first and take so many slots or more together, unless all take less, and
    /// when they were full.
    pub fn oldest_segments(&self, slots: u64) -> Vec<(Arc<Segment>, Instant)> {
        let mut state = self.state();
        state.segments.retain(|full| full.segment.strong_count() > 0);
        state.longs.retain(|full| full.segment.strong_count() > 0);
        let of_both = state.segments.iter().chain(&state.longs);
        let mut full: Vec<_> = of_both
            .filter_map(|full| Some((full.since, full.upgrade()?)))
            .map(|(since, (segment, bytes))| (since, segment, bytes.div_ceil(SEGMENT_BYTES as u64)))
            .collect();
        drop(state);
        full.sort_unstable_by_key(|(since, ..)| *since);
        let mut taken = 0;
        let is_wanted = |(_, _, of_one): &(Instant, Arc<Segment>, u64)| {
            let is_wanted = taken < slots;
            taken += of_one;
            is_wanted
        };
        full.into_iter().take_while(is_wanted).map(|(since, segment, _)| (segment, since)).collect()
    }

    /// Whether so much waits to be written that nothing is appended until some of it has been. False while
    /// writing fails: that may never end.
    pub fn is_behind(&self) -> bool {
        self.state().refusal() == Some(Refusal::Behind)
    }

    /// Bytes in memory that are freed once they have been written; 0 while writing fails.
    pub fn waiting_bytes(&self) -> usize {
        let state = self.state();
        if state.is_failing { 0 } else { state.waiting_bytes }
    }

    /// What INFO shows.
    pub fn figures(&self) -> TierFigures {
        let state = self.state();
        let open = state.open.iter().map(|open| Arc::clone(&open.segment));
        let full = state.segments.iter().filter_map(|full| full.segment.upgrade());
        let mut segments: Vec<_> = full.chain(open).collect();
        segments.extend(state.longs.iter().filter_map(|long| long.segment.upgrade()));
        let slots = state.slots_in_use();
        let waiting = state.waiting_bytes + state.open.as_ref().map_or(0, |open| open.chunk.bytes.len());
        drop(state);
        TierFigures {
            values: segments.iter().map(|segment| segment.named_count()).sum(),
            value_bytes: segments.iter().map(|segment| segment.named_bytes()).sum(),
            used_bytes: (slots * SEGMENT_BYTES) as u64,
            waiting_bytes: waiting as u64,
            written: self.written.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            reads: self.reads.load(Ordering::Relaxed),
            part_reads: self.part_reads.load(Ordering::Relaxed),
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            read_errors: self.read_errors.load(Ordering::Relaxed),
            write_errors: self.write_errors.load(Ordering::Relaxed),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecordFile for TierFile {
    fn read(&self, segment: u32, place: Place) -> Result<Value, String> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let bytes = self.bytes(segment, place, 0..place.len())?;
        if place.kind() == Kind::String {
            return Ok(Value::String(bytes));
        }
        let value = decode(&mut Source::from_bytes(bytes), place);
        value.ok_or_else(|| self.unreadable(&"it is damaged"))
    }

    fn read_part(&self, segment: u32, place: Place, range: Range<usize>) -> Result<Vec<u8>, String> {
        self.part_reads.fetch_add(1, Ordering::Relaxed);
        self.bytes(segment, place, range)
    }

    fn release(&self, segment: u32) {
        self.give_back(&[segment]);
    }
}

/// The bytes of a value in its record; those of a collection are appended to `value`.
fn bytes_of<'a>(
    entry: &'a Entry,
    digits: &'a mut [u8; 20],
    encoder: &mut Encoder<'static>,
    value: &'a mut Vec<u8>,
) -> &'a [u8] {
    match entry.as_string() {
        Some(text) => text.text(digits),
        None => {
            put_collection(entry, encoder, value, &mut |_| true);
            value
        }
    }
}

/// Appends the bytes of a collection in its record, and calls `spill` now and then.
fn put_collection(entry: &Entry, encoder: &mut Encoder<'static>, value: &mut Vec<u8>, spill: Spill<'_>) {
    match exact::is_for(entry.kind()) {
        true => exact::put(entry.value(), encoder, value, spill),
        false => encoder.spilled_value(entry.value(), value, spill),
    }
}

/// Reads a collection from the bytes in its record. `None` if they are damaged, or can not be read.
fn decode<R: io::Read>(source: &mut Source<R>, place: Place) -> Option<Value> {
    if exact::is_for(place.kind()) {
        return exact::read(source, place.kind()).ok().flatten();
    }
    let form = Dialect::Redis.form(source.byte().ok()?);
    match read_value(source, form, limits_of(place)) {
        Ok(Outcome::Value(value)) if value.kind() == place.kind() => Some(value),
        _ => None,
    }
}

/// Whether the record of a value has slots of its own.
fn is_long(place: Place) -> bool {
    place.len() > if place.kind() == Kind::String { TEXT_BYTES_MAX } else { ONE_BLOCK_BYTES_MAX }
}

/// Limits with which a value is read in the encoding that it had, whatever it has become small or large by.
fn limits_of(place: Place) -> &'static EncodingLimits {
    match place.encoding() {
        "hashtable" | "quicklist" | "skiplist" => &ALWAYS_LARGE,
        _ => &ALWAYS_PACKED,
    }
}

/// Where a place in a segment is in the file.
fn position(segment: u32, offset: usize) -> u64 {
    u64::from(segment) * SEGMENT_BYTES as u64 + offset as u64
}

/// Makes the record of a value, as if it began at 0 and its checksums did not depend on that.
fn put_record(place: Place, value: &[u8], record: &mut Vec<u8>) {
    record.clear();
    record.reserve_exact(place.record_bytes());
    let part_bytes = place.block_bytes() - HEADER_BYTES;
    for part in value.chunks(part_bytes) {
        record.extend_from_slice(&Checksum::of(part).to_le_bytes());
        record.extend_from_slice(part);
    }
    if value.is_empty() {
        record.extend_from_slice(&Checksum::of(value).to_le_bytes());
    }
    record.resize(place.record_bytes(), 0);
}

/// Makes the checksums of a record those of its place.
fn stamp_record(record: &mut [u8], segment: u32, place: Place) {
    let block_bytes = place.block_bytes();
    let blocks = place.len().div_ceil(block_bytes - HEADER_BYTES).max(1);
    for block in 0..blocks {
        let start = block * block_bytes;
        let salt = salt(segment, place.offset() + start).to_le_bytes();
        record[start..start + HEADER_BYTES].iter_mut().zip(salt).for_each(|(byte, salt)| *byte ^= salt);
    }
}

/// What a block's place contributes to its checksum.
fn salt(segment: u32, offset: usize) -> u64 {
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    position(segment, offset).wrapping_add(1).wrapping_mul(SPREAD)
}
