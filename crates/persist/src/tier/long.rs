//! Records of large values, which take several slots of the file.
//!
//! ```text
//! slot    the place of a segment in the file, 16 MiB: 4096 blocks
//! record  slots that need not be neighbours, in the order of the value
//! ```
//!
//! A record is the only one of its [`Segment`], whose number is that of its first slot, and all its blocks
//! have 4096 bytes. It is written by the thread that encodes the value ([`LongWriter`]), into slots that it
//! takes as it goes, and read block by block: neither holds more of the encoded value than [`STEP_BYTES`],
//! but for elements that are longer. A JSON document is one element.
//!
//! Invariants:
//! - A slot belongs to one [`Slots`] from when it is taken until that is dropped, and then goes through the
//!   writer's work, as segments do. So what is given up half-written leaves nothing behind.
//! - Nobody can name a record before all its blocks are in the file: reading looks nowhere else.
//! - A block's checksum covers where it lies in the file, so blocks of other slots are noticed.
//! - It is begun only if there are slots for all of it, by the bytes that the value takes in memory, and
//!   leaves some slots to small values.
//! - Writing ends at the first failure, when there are no more slots, and when `is_over` says so, which is
//!   asked once a slot. Then encoding ends too. Such an end is [`Refusal::Unfit`]: it says nothing of other
//!   values. After a failed write no larger value is begun for a while than the disk has shown to have room
//!   for.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mantissa_store::Value;
use mantissa_store::cold::{
    BLOCK_BYTES, BLOCK_TEXT_BYTES, Cold, Elements, HEADER_BYTES, Place, RecordFile, Segment, Selected,
    ValueFacts,
};

use super::elements::{ElementIndex, Failure, Marker};
use super::{Full, Refusal, SEGMENT_BYTES, TierFile, decode, position, salt};
use crate::format::Checksum;
use crate::source::Source;

/// Bytes that are written and read at once: some blocks of one slot.
const STEP_BYTES: usize = 64 * BLOCK_BYTES;
/// Bytes of the value in so many blocks.
const STEP_TEXT_BYTES: usize = 64 * BLOCK_TEXT_BYTES;

const _: () = assert!(SEGMENT_BYTES.is_multiple_of(STEP_BYTES));

/// Slots of a file, which gets them back in the end.
struct Slots {
    file: Arc<TierFile>,
    numbers: Vec<u32>,
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.file.give_back(&self.numbers);
    }
}

impl Slots {
    /// Where a block of the record lies: the slot and the offset in it. `None` if the record is shorter.
    fn place_of(&self, offset: usize) -> Option<(u32, usize)> {
        let slot = *self.numbers.get(offset / SEGMENT_BYTES)?;
        Some((slot, offset % SEGMENT_BYTES))
    }
}

/// Makes the record of a value that comes in parts.
pub(super) struct LongWriter<'a> {
    slots: Slots,
    /// Blocks that are to be written, the last of them perhaps unfinished. Their checksums are missing.
    blocks: Vec<u8>,
    /// Bytes of the value so far.
    len: usize,
    /// Bytes of the record that are in the file.
    written: usize,
    is_over: &'a dyn Fn() -> bool,
    /// It has been given up.
    is_given_up: bool,
}

impl<'a> LongWriter<'a> {
    /// Begins a record. Nothing is written any more once `is_over`.
    pub fn new(file: Arc<TierFile>, is_over: &'a dyn Fn() -> bool) -> Self {
        let slots = Slots { file, numbers: Vec::new() };
        let blocks = Vec::with_capacity(STEP_BYTES);
        LongWriter { slots, blocks, len: 0, written: 0, is_over, is_given_up: false }
    }

    /// Adds a part. False if the record has been given up.
    pub fn add(&mut self, mut part: &[u8]) -> bool {
        while !part.is_empty() && !self.is_given_up {
            let begun = self.blocks.len() % BLOCK_BYTES;
            if begun == 0 {
                self.blocks.extend_from_slice(&[0; HEADER_BYTES]);
            }
            let room = BLOCK_BYTES - begun.max(HEADER_BYTES);
            let (now, later) = part.split_at(room.min(part.len()));
            self.blocks.extend_from_slice(now);
            self.len += now.len();
            part = later;
            if self.blocks.len() == STEP_BYTES {
                self.flush();
            }
        }
        !self.is_given_up
    }

    /// Writes the end of the record, and has the file know it. A marker has looked at its elements.
    pub fn finish(mut self, facts: ValueFacts, marker: Option<Marker>) -> Result<Cold, Refusal> {
        if !self.blocks.is_empty() {
            self.flush();
        }
        let place = Place::new(0, self.len, facts).filter(|_| !self.is_given_up).ok_or(Refusal::Unfit)?;
        let &number = self.slots.numbers.first().ok_or(Refusal::Unfit)?;
        let file = Arc::clone(&self.slots.file);
        let index = marker.and_then(|marker| marker.finish(self.len));
        let record = LongRecord { slots: self.slots, index, part_bytes: AtomicUsize::new(0) };
        let segment = Segment::new(number, Arc::new(record));
        let mut state = file.state();
        state.longs.retain(|long| long.segment.strong_count() > 0);
        state.longs.push(Full::new(&segment, self.written));
        drop(state);
        file.written.fetch_add(1, Ordering::Relaxed);
        file.written_bytes.fetch_add(self.written as u64, Ordering::Relaxed);
        Ok(Cold::new(segment, place))
    }

    /// Writes the blocks that there are. If they can not be written, the slots are given back at once.
    fn flush(&mut self) {
        if self.write().is_none() {
            self.is_given_up = true;
            self.slots.file.give_back(&std::mem::take(&mut self.slots.numbers));
        }
        self.blocks.clear();
    }

    fn write(&mut self) -> Option<()> {
        let file = &self.slots.file;
        if self.written.is_multiple_of(SEGMENT_BYTES) {
            if (self.is_over)() {
                return None;
            }
            self.slots.numbers.push(file.take_long_slot()?);
        }
        let (slot, offset) = self.slots.place_of(self.written)?;
        for (number, block) in self.blocks.chunks_mut(BLOCK_BYTES).enumerate() {
            let (header, part) = block.split_at_mut(HEADER_BYTES);
            let checksum = Checksum::of(part) ^ salt(slot, offset + number * BLOCK_BYTES);
            header.copy_from_slice(&checksum.to_le_bytes());
        }
        if let Err(error) = file.file.write_at(&self.blocks, position(slot, offset)) {
            file.note_long_failure(error);
            return None;
        }
        self.written += self.blocks.len();
        Some(())
    }
}

/// The record of a large value.
struct LongRecord {
    slots: Slots,
    /// Where elements lie, if it is that of a collection in which they are looked for.
    index: Option<ElementIndex>,
    /// Bytes that have been read for single elements since the whole was. Once they are as many as the record
    /// has, the whole is to be read.
    part_bytes: AtomicUsize,
}

impl LongRecord {
    /// Appends the parts of some blocks, which lie in one slot, to `out`. `range` begins where a block does.
    fn read_step(&self, range: Range<usize>, out: &mut Vec<u8>) -> Result<(), String> {
        let file = &self.slots.file;
        let block = range.start / BLOCK_TEXT_BYTES;
        let place = self.slots.place_of(block * BLOCK_BYTES);
        let (slot, offset) = place.ok_or_else(|| file.unreadable(&"it is damaged"))?;
        let blocks = range.len().div_ceil(BLOCK_TEXT_BYTES);
        let start = out.len();
        out.resize(start + range.len() + blocks * HEADER_BYTES, 0);
        let read = &mut out[start..];
        file.read_bytes.fetch_add(read.len() as u64, Ordering::Relaxed);
        file.file.read_at(read, position(slot, offset)).map_err(|error| file.unreadable(&error))?;
        file.join_blocks(read, BLOCK_BYTES, (slot, offset))?;
        out.truncate(start + range.len());
        Ok(())
    }

    /// These bytes of the value, which begin and end where blocks do.
    fn bytes(&self, range: Range<usize>) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        out.reserve_exact(range.len() + BLOCK_BYTES);
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start / STEP_TEXT_BYTES * STEP_TEXT_BYTES + STEP_TEXT_BYTES);
            self.read_step(start..end, &mut out)?;
            start = end;
        }
        Ok(out)
    }
}

impl RecordFile for LongRecord {
    fn read(&self, _segment: u32, place: Place) -> Result<Value, String> {
        self.slots.file.reads.fetch_add(1, Ordering::Relaxed);
        self.part_bytes.store(0, Ordering::Relaxed);
        if place.kind() == mantissa_store::Kind::String {
            return self.bytes(0..place.len()).map(Value::String);
        }
        let mut reader =
            BlockReader { record: self, left: 0..place.len(), step: Vec::new(), taken: 0, failure: None };
        let value = decode(&mut Source::new(&mut reader, Some(place.len() as u64)).unchecked(), place);
        value.ok_or_else(|| reader.failure.unwrap_or_else(|| self.slots.file.unreadable(&"it is damaged")))
    }

    fn finds_elements(&self) -> bool {
        self.index.is_some()
    }

    fn bytes_of_elements(&self, place: Place, elements: &Elements) -> Option<usize> {
        let bytes = self.index.as_ref()?.bytes_of(elements)?;
        (bytes == 0 || self.part_bytes.load(Ordering::Relaxed) < place.len()).then_some(bytes)
    }

    fn read_elements(&self, _: u32, place: Place, elements: &Elements) -> Result<Option<Selected>, String> {
        let Some(index) = &self.index else { return Ok(None) };
        self.slots.file.part_reads.fetch_add(1, Ordering::Relaxed);
        let read = |range: Range<usize>| {
            self.part_bytes.fetch_add(range.len(), Ordering::Relaxed);
            let start = range.start / BLOCK_TEXT_BYTES * BLOCK_TEXT_BYTES;
            let end = range.end.next_multiple_of(BLOCK_TEXT_BYTES).min(place.len());
            let mut bytes = self.bytes(start..end)?;
            bytes.truncate(range.end - start);
            bytes.drain(..range.start - start);
            Ok(bytes)
        };
        index.read(elements, &read).map_err(|failure| match failure {
            Failure::Unreadable(reason) => reason,
            Failure::Damaged => self.slots.file.unreadable(&"it is damaged"),
        })
    }

    fn read_part(&self, _segment: u32, _place: Place, range: Range<usize>) -> Result<Vec<u8>, String> {
        self.slots.file.part_reads.fetch_add(1, Ordering::Relaxed);
        self.bytes(range)
    }

    /// Its slots are given back when it is dropped, right after this.
    fn release(&self, _segment: u32) {}
}

/// Yields the bytes of a value, each once its block has been checked.
struct BlockReader<'a> {
    record: &'a LongRecord,
    /// What has not been read.
    left: Range<usize>,
    /// What has been read, and how much of it has been yielded.
    step: Vec<u8>,
    taken: usize,
    failure: Option<String>,
}

impl BlockReader<'_> {
    fn read_next(&mut self) -> Result<(), String> {
        self.step.clear();
        self.taken = 0;
        let start = self.left.start;
        self.left.start = self.left.end.min(start + STEP_TEXT_BYTES);
        self.record.read_step(start..self.left.start, &mut self.step)
    }
}

impl Read for BlockReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.step.len()
            && !self.left.is_empty()
            && let Err(reason) = self.read_next()
        {
            // Nothing more is read of it.
            (self.failure, self.left.start) = (Some(reason), self.left.end);
            self.step.clear();
            return Err(io::ErrorKind::InvalidData.into());
        }
        let count = buffer.len().min(self.step.len() - self.taken);
        buffer[..count].copy_from_slice(&self.step[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}
