//! Values on disk: a file of segments that belongs to the running process.
//!
//! ```text
//! file     segments of 16 MiB, each free or in use
//! segment  records, each beginning at a multiple of 8 bytes
//! record   checksum (8 bytes LE) | value | zeros up to the next record
//! value    of a string its bytes, of a collection its form and value as in an RDB file
//! ```
//!
//! The checksum is the CRC-64 of the value and of where the record begins, so a record that the disk brings
//! from elsewhere is noticed too. Nothing is synced: RDB and append-only files have the data, and what is
//! here
//! is gone with the process.
//!
//! [`TierFile::append`] adds records to the open segment, in memory; one thread, [`TierFile::write_until`],
//! writes them in chunks of [`CHUNK_BYTES`]. A record can be read at once: until its chunk is in the file it
//! is
//! read from memory. If a chunk can not be written it stays in memory and is tried again; nothing is appended
//! meanwhile.
//!
//! A segment of which no record is named any more is free again once the disk space under it has been given
//! back, which the same thread does after all writes before it. Segments that are mostly unused are emptied
//! by
//! [`TierFile::copy_record`], which the engine calls for what is left in them.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use mantissa_store::cold::{Cold, HEADER_BYTES, Place, RECORD_BYTES_MAX, RecordFile, Segment};
use mantissa_store::{EncodingLimits, Entry, Kind, Value};

use crate::format::{Checksum, Dialect};
use crate::source::Source;
use crate::storage::ScratchFile;
use crate::types::{Outcome, read_value};
use crate::write::{Encoder, WriteOptions};

/// Bytes of a segment.
pub const SEGMENT_BYTES: usize = 16 << 20;
/// Bytes that are written at once, at least.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes that may wait to be written. Beyond that nothing is appended.
const WAITING_BYTES_MAX: usize = 8 << 20;
/// Longest value that goes to disk, in bytes: longer ones would take long to bring back.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// How long a failed write waits for the next attempt.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// Segments of which fewer than this share of the bytes is named are worth emptying.
const SPARSE_PART: u64 = 2;

const _: () = assert!(VALUE_BYTES_MAX <= RECORD_BYTES_MAX && VALUE_BYTES_MAX * 2 <= SEGMENT_BYTES);
const _: () = assert!(SEGMENT_BYTES <= mantissa_store::cold::SEGMENT_BYTES_MAX);

/// Why a value stays in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Its type or its size.
    Unfit,
    /// The disk is slower than what comes: later.
    Behind,
    /// The file has its largest size, or can not be written.
    Full,
}

/// What a thread needs to make records of values.
pub struct RecordEncoder {
    encoder: Encoder<'static>,
    bytes: Vec<u8>,
}

impl Default for RecordEncoder {
    fn default() -> Self {
        let options = WriteOptions { compress: false, ..WriteOptions::default() };
        RecordEncoder { encoder: Encoder::new(options, None), bytes: Vec::new() }
    }
}

/// What INFO shows of the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct TierFigures {
    /// Values whose record is named, by an entry or a snapshot.
    pub values: u64,
    /// Bytes of their records.
    pub value_bytes: u64,
    /// Bytes of the segments in use.
    pub used_bytes: u64,
    /// Bytes that wait to be written.
    pub waiting_bytes: u64,
    /// Records that were written, and their bytes.
    pub written: u64,
    /// Bytes of those.
    pub written_bytes: u64,
    /// Values that were read.
    pub reads: u64,
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
    limits: RwLock<EncodingLimits>,
    state: Mutex<State>,
    /// The writer has something to do.
    has_work: Condvar,
    written: AtomicU64,
    written_bytes: AtomicU64,
    reads: AtomicU64,
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
    /// All segments in use, and some that are not any more.
    segments: Vec<Weak<Segment>>,
    /// The last write has failed.
    is_failing: bool,
}

/// The segment that is being filled.
struct Open {
    segment: Arc<Segment>,
    /// Records that are not among the work yet.
    chunk: Chunk,
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

impl TierFile {
    /// An empty file of at most `bytes_max` bytes, which are rounded down to segments.
    pub fn new(file: Box<dyn ScratchFile>, bytes_max: u64, limits: EncodingLimits) -> Arc<TierFile> {
        Arc::new_cyclic(|itself| TierFile {
            file,
            itself: Weak::clone(itself),
            segments_max: AtomicU64::new(bytes_max / SEGMENT_BYTES as u64),
            limits: RwLock::new(limits),
            state: Mutex::default(),
            has_work: Condvar::new(),
            written: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            read_errors: AtomicU64::new(0),
            write_errors: AtomicU64::new(0),
        })
    }

    /// Changes the largest size and the limits of packed encodings.
    pub fn configure(&self, bytes_max: u64, limits: EncodingLimits) {
        self.segments_max.store(bytes_max / SEGMENT_BYTES as u64, Ordering::Relaxed);
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// Adds the value of an entry, which stays as it is.
    pub fn append(&self, encoder: &mut RecordEncoder, entry: &Entry) -> Result<Cold, Refusal> {
        let facts = entry.cold_facts().ok_or(Refusal::Unfit)?;
        encoder.bytes.clear();
        match entry.as_string() {
            Some(text) => encoder.bytes.extend_from_slice(text.text(&mut [0; 20])),
            None => encoder.encoder.typed_value(entry.value(), &mut encoder.bytes),
        }
        let place = Place::new(0, encoder.bytes.len(), facts).ok_or(Refusal::Unfit)?;
        if encoder.bytes.len() > VALUE_BYTES_MAX {
            return Err(Refusal::Unfit);
        }
        self.append_bytes(&encoder.bytes, place)
    }

    /// Copies the record of a value on disk to the open segment.
    pub fn copy_record(&self, cold: &Cold) -> Result<Cold, Refusal> {
        let bytes = self.bytes(cold.segment().number(), cold.place()).map_err(|_| Refusal::Unfit)?;
        self.append_bytes(&bytes, cold.place())
    }

    fn append_bytes(&self, bytes: &[u8], place: Place) -> Result<Cold, Refusal> {
        let checksum = Checksum::of(bytes);
        // Dropped after the lock: if nothing of it is named, that frees it.
        let mut _sealed = None;
        let mut state = self.state();
        if state.is_failing {
            return Err(Refusal::Full);
        }
        if state.waiting_bytes >= WAITING_BYTES_MAX {
            return Err(Refusal::Behind);
        }
        let record_bytes = place.record_bytes();
        if state.open.as_ref().is_none_or(|open| open.chunk.end() + record_bytes > SEGMENT_BYTES) {
            _sealed = self.seal(&mut state);
            let open = self.open_segment(&mut state)?;
            state.open = Some(open);
        }
        let Some(open) = &mut state.open else { return Err(Refusal::Full) };
        let place = place.moved(open.chunk.end());
        let chunk = &mut open.chunk;
        let end = chunk.bytes.len() + record_bytes;
        chunk.bytes.extend_from_slice(&stamp(checksum, chunk.segment, place).to_le_bytes());
        chunk.bytes.extend_from_slice(bytes);
        chunk.bytes.resize(end, 0);
        let cold = Cold::new(Arc::clone(&open.segment), place);
        self.written.fetch_add(1, Ordering::Relaxed);
        self.written_bytes.fetch_add(record_bytes as u64, Ordering::Relaxed);
        if end >= CHUNK_BYTES {
            let next = Chunk::new(chunk.segment, chunk.end());
            let full = std::mem::replace(chunk, next);
            self.pass_on(&mut state, full);
        }
        Ok(cold)
    }

    /// Has the writer write what there is of the open segment, and opens no other. The segment is to be
    /// dropped with the state unlocked.
    fn seal(&self, state: &mut State) -> Option<Arc<Segment>> {
        let Open { segment, chunk } = state.open.take()?;
        self.pass_on(state, chunk);
        state.segments.push(Arc::downgrade(&segment));
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

    fn open_segment(&self, state: &mut State) -> Result<Open, Refusal> {
        let number = match state.free.pop() {
            Some(number) => number,
            None if u64::from(state.used_ever) < self.segments_max.load(Ordering::Relaxed) => {
                state.used_ever += 1;
                state.used_ever - 1
            }
            None => return Err(Refusal::Full),
        };
        let Some(itself) = self.itself.upgrade() else { return Err(Refusal::Full) };
        Ok(Open { segment: Segment::new(number, itself), chunk: Chunk::new(number, 0) })
    }

    /// Writes what there is to write until `is_over`, which it looks at ten times a second. Calls `drained`
    /// when values can be appended again after [`Refusal::Behind`], and `failed` with an error once when
    /// writing begins to fail.
    pub fn write_until(
        &self,
        is_over: impl Fn() -> bool,
        mut drained: impl FnMut(),
        mut failed: impl FnMut(&io::Error),
    ) {
        while !is_over() {
            let mut state = self.state();
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
                            std::thread::sleep(RETRY_AFTER);
                        }
                    }
                }
                Work::Discard(number) => {
                    drop(state);
                    // Where the space can not be given back it is only used again.
                    let _ = self.file.discard(position(number, 0), SEGMENT_BYTES as u64);
                    self.state().free.push(number);
                }
            }
        }
    }

    /// The bytes of a value, checked.
    fn bytes(&self, segment: u32, place: Place) -> Result<Vec<u8>, String> {
        let mut record = vec![0; HEADER_BYTES + place.len()];
        if !self.read_waiting(segment, place.offset(), &mut record) {
            let at = position(segment, place.offset());
            self.file.read_at(&mut record, at).map_err(|error| self.unreadable(&error))?;
        }
        let value = record.split_off(HEADER_BYTES);
        let stored = record.try_into().map_or(0, u64::from_le_bytes);
        if stored != stamp(Checksum::of(&value), segment, place) {
            return Err(self.unreadable(&"its checksum is wrong"));
        }
        Ok(value)
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

    /// Segments of which less than half is named, if enough space is lost to them: those that are worth
    /// emptying.
    pub fn sparse_segments(&self) -> Vec<u32> {
        let mut state = self.state();
        state.segments.retain(|segment| segment.strong_count() > 0);
        let segments: Vec<_> = state.segments.iter().filter_map(Weak::upgrade).collect();
        drop(state);
        let segment_bytes = SEGMENT_BYTES as u64;
        let named: u64 = segments.iter().map(|segment| segment.named_bytes()).sum();
        if segments.len() as u64 * segment_bytes <= named + named / 2 + 2 * segment_bytes {
            return Vec::new();
        }
        let sparse = segments.iter().filter(|segment| segment.named_bytes() < segment_bytes / SPARSE_PART);
        sparse.map(|segment| segment.number()).collect()
    }

    /// Whether so much waits to be written that nothing is appended.
    pub fn is_behind(&self) -> bool {
        self.state().waiting_bytes >= WAITING_BYTES_MAX
    }

    /// What INFO shows.
    pub fn figures(&self) -> TierFigures {
        let state = self.state();
        let open = state.open.iter().map(|open| Arc::clone(&open.segment));
        let segments: Vec<_> = state.segments.iter().filter_map(Weak::upgrade).chain(open).collect();
        let waiting = state.waiting_bytes + state.open.as_ref().map_or(0, |open| open.chunk.bytes.len());
        drop(state);
        TierFigures {
            values: segments.iter().map(|segment| segment.named_count()).sum(),
            value_bytes: segments.iter().map(|segment| segment.named_bytes()).sum(),
            used_bytes: (segments.len() * SEGMENT_BYTES) as u64,
            waiting_bytes: waiting as u64,
            written: self.written.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            reads: self.reads.load(Ordering::Relaxed),
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
        let bytes = self.bytes(segment, place)?;
        if place.kind() == Kind::String {
            return Ok(Value::String(bytes));
        }
        let limits = self.limits.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut source = Source::from_bytes(bytes);
        let form = source.byte().map_err(|_| self.unreadable(&"it is damaged"))?;
        let form = Dialect::Redis.form(form);
        match read_value(&mut source, form, &limits) {
            Ok(Outcome::Value(value)) if value.kind() == place.kind() => Ok(value),
            _ => Err(self.unreadable(&"it is damaged")),
        }
    }

    fn release(&self, segment: u32) {
        self.state().work.push_back(Work::Discard(segment));
        self.has_work.notify_one();
    }
}

/// Where a place in a segment is in the file.
fn position(segment: u32, offset: usize) -> u64 {
    u64::from(segment) * SEGMENT_BYTES as u64 + offset as u64
}

/// The checksum of a record at its place, of that of its value.
fn stamp(checksum: u64, segment: u32, place: Place) -> u64 {
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    checksum ^ position(segment, place.offset()).wrapping_add(1).wrapping_mul(SPREAD)
}
