//! Values that lie on disk: what an entry keeps of one, and where it is.
//!
//! ```text
//! byte 0   link: the segment; with bit 1 set, the segment and some facts of the value;
//!          with bit 0 set, such a link and the value                            8 bytes
//! byte 8   place, from bit 0 on: offset in the segment / 8 (21 bits), length (32),
//!          kind (5), encoding (4), written in place (1), one bit unused         8 bytes
//! ```
//!
//! A value that is looked at is read and stays in memory beside its record on disk, until
//! [`ColdSlot::forget`]
//! drops it: a value that was only read need not be written again. A change takes the value out of the
//! entry's
//! slot and gives the record up.
//!
//! Invariants: a record is not changed while a [`Cold`] or a slot names it; a segment counts the bytes of the
//! records that are named, and tells its file when none is.
//!
//! The records of long strings and of large collections have blocks with a checksum each
//! ([`Place::block_bytes`]), so a [`Part`] of them can be read.
//!
//! Of some values more is kept in memory than their place: see [`Kept`].
//!
//! Cost: 16 bytes where a collection has a handle of 8.

mod kept;
mod part;

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use mantissa_memory::allocator;

use crate::types::Collection;
use crate::value::{Kind, Value, ValueRef};
use crate::with_value;
pub use kept::{FieldTimes, Kept, SeriesFacts};
pub use part::{Elements, Interval, Part, Scores, Selected};

/// The unit of offsets, in bytes.
pub const ALIGNMENT: usize = 8;
/// Bytes of a block beside its part of the value: a checksum.
pub const HEADER_BYTES: usize = 8;
/// Bytes of a block of a record that has several, its header included. The last one is shorter.
pub const BLOCK_BYTES: usize = 4096;
/// Bytes of the value in such a block.
pub const BLOCK_TEXT_BYTES: usize = BLOCK_BYTES - HEADER_BYTES;
/// Strings of at least so many bytes are long: a shorter one takes about as long to read as one block.
pub const LONG_TEXT_BYTES: usize = 16 << 10;
/// Collections of more bytes have records of several blocks too: they are read block by block.
pub const ONE_BLOCK_BYTES_MAX: usize = 8 << 20;
/// Longest value in a record, in bytes.
pub const RECORD_BYTES_MAX: usize = (1 << LEN_BITS) - 1;
/// Longest segment, in bytes.
pub const SEGMENT_BYTES_MAX: usize = (1 << OFFSET_BITS) * ALIGNMENT;

const OFFSET_BITS: u32 = 21;
const LEN_BITS: u32 = 32;
const KIND_BITS: u32 = 5;
const ENCODING_BITS: u32 = 4;
const KIND_SHIFT: u32 = OFFSET_BITS + LEN_BITS;
const ENCODING_SHIFT: u32 = KIND_SHIFT + KIND_BITS;
const WRITTEN_SHIFT: u32 = ENCODING_SHIFT + ENCODING_BITS;

const _: () = assert!(WRITTEN_SHIFT < u64::BITS - 1);
const _: () = assert!(ENCODINGS.len() <= 1 << ENCODING_BITS && Kind::ALL.len() <= 1 << KIND_BITS);

/// The bit of a link that says that the value is in memory too.
const IN_MEMORY: usize = 1;
/// The bit of a link that says that more of the value is kept than its place.
const WITH_FACTS: usize = 2;

/// The encodings that OBJECT ENCODING can tell of a collection on disk, by their number in a place.
const ENCODINGS: [&str; 9] = [
    "raw",
    "listpack",
    "listpackex",
    "quicklist",
    "intset",
    "hashtable",
    "skiplist",
    "stream",
    "sliced-array",
];

/// Where the records of segments are.
pub trait RecordFile: Send + Sync {
    /// Reads a value. The error is a sentence for the log and the client.
    fn read(&self, segment: u32, place: Place) -> Result<Value, String>;

    /// Reads these bytes of a string, which are whole blocks of it ([`Place::blocks_of`]).
    fn read_part(&self, segment: u32, place: Place, range: Range<usize>) -> Result<Vec<u8>, String>;

    /// Whether it may find single elements of a collection.
    fn finds_elements(&self) -> bool {
        false
    }

    /// About how many bytes have to be read for some elements of a collection. `None` if all of it is better
    /// read.
    fn bytes_of_elements(&self, _place: Place, _elements: &Elements) -> Option<usize> {
        None
    }

    /// Reads some elements of a collection, and others as it comes. `None` if all of it has to be read.
    fn read_elements(&self, _: u32, _: Place, _elements: &Elements) -> Result<Option<Selected>, String> {
        Ok(None)
    }

    /// Nothing in a segment is named any more.
    fn release(&self, segment: u32);
}

/// A part of a file, with the records that were written together.
pub struct Segment {
    number: u32,
    file: Arc<dyn RecordFile>,
    named_bytes: AtomicU64,
    named_count: AtomicU64,
}

impl Segment {
    /// A segment of a file, with its number there.
    pub fn new(number: u32, file: Arc<dyn RecordFile>) -> Arc<Segment> {
        Arc::new(Segment { number, file, named_bytes: AtomicU64::new(0), named_count: AtomicU64::new(0) })
    }

    /// Its number in its file.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its file.
    pub fn file(&self) -> &dyn RecordFile {
        &*self.file
    }

    /// Bytes of the records that are named.
    pub fn named_bytes(&self) -> u64 {
        self.named_bytes.load(Ordering::Relaxed)
    }

    /// Records that are named, each as often as it is.
    pub fn named_count(&self) -> u64 {
        self.named_count.load(Ordering::Relaxed)
    }

    fn name(&self, place: Place) {
        self.named_bytes.fetch_add(place.record_bytes() as u64, Ordering::Relaxed);
        self.named_count.fetch_add(1, Ordering::Relaxed);
    }

    fn unname(&self, place: Place) {
        self.named_bytes.fetch_sub(place.record_bytes() as u64, Ordering::Relaxed);
        self.named_count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.file.release(self.number);
    }
}

/// Where a value lies in its segment, and what is known of it without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place(u64);

/// Names a record of a file among those that a [`Cold`] names: its segment's number and its place.
pub type RecordId = (u32, Place);

impl Place {
    /// A record with `len` bytes of a value at `offset`, which is a multiple of [`ALIGNMENT`]. `None` if the
    /// numbers are
    /// too large, or if the encoding has no number.
    pub fn new(offset: usize, len: usize, facts: ValueFacts) -> Option<Place> {
        debug_assert!(offset.is_multiple_of(ALIGNMENT));
        let units = offset / ALIGNMENT;
        if units >= 1 << OFFSET_BITS || len > RECORD_BYTES_MAX {
            return None;
        }
        let encoding = match facts.kind {
            Kind::String => 0,
            _ => ENCODINGS.iter().position(|name| *name == facts.encoding)?,
        };
        Some(Place(
            units as u64
                | (len as u64) << OFFSET_BITS
                | (facts.kind as u64) << KIND_SHIFT
                | (encoding as u64) << ENCODING_SHIFT
                | u64::from(facts.is_written) << WRITTEN_SHIFT,
        ))
    }

    /// The same value at another offset.
    pub fn moved(self, offset: usize) -> Place {
        debug_assert!(offset.is_multiple_of(ALIGNMENT) && offset < SEGMENT_BYTES_MAX);
        Place(self.0 >> OFFSET_BITS << OFFSET_BITS | (offset / ALIGNMENT) as u64)
    }

    /// Offset in the segment, in bytes.
    pub fn offset(self) -> usize {
        self.bits(0, OFFSET_BITS) * ALIGNMENT
    }

    /// Length of the value in the record, in bytes: for a string, that of its text.
    pub fn len(self) -> usize {
        self.bits(OFFSET_BITS, LEN_BITS)
    }

    /// Whether the value has no bytes.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Bytes from the beginning of the record to that of the next.
    pub fn record_bytes(self) -> usize {
        let blocks = self.len().div_ceil(self.block_bytes() - HEADER_BYTES).max(1);
        (blocks * HEADER_BYTES + self.len()).next_multiple_of(ALIGNMENT)
    }

    /// Bytes of a block of the record, its header included: the whole record is one unless the value is a
    /// long string or a large collection.
    pub fn block_bytes(self) -> usize {
        let has_blocks = match self.kind() {
            Kind::String => self.len() >= LONG_TEXT_BYTES,
            _ => self.len() > ONE_BLOCK_BYTES_MAX,
        };
        if has_blocks { BLOCK_BYTES } else { HEADER_BYTES + self.len().max(1) }
    }

    /// The bytes of the value in the blocks that have these bytes. `None` if that is more than half of it:
    /// then all of it is to be read. `range` lies in the value and is not empty.
    pub fn blocks_of(self, range: Range<usize>) -> Option<Range<usize>> {
        debug_assert!(range.start < range.end && range.end <= self.len());
        let part_bytes = self.block_bytes() - HEADER_BYTES;
        let start = range.start / part_bytes * part_bytes;
        let end = range.end.next_multiple_of(part_bytes).min(self.len());
        (end - start <= self.len() / 2).then_some(start..end)
    }

    /// The type of the value.
    pub fn kind(self) -> Kind {
        let code = self.bits(KIND_SHIFT, KIND_BITS) as u8;
        Kind::ALL.into_iter().find(|kind| *kind as u8 == code).unwrap_or(Kind::String)
    }

    /// What OBJECT ENCODING says of a collection.
    pub fn encoding(self) -> &'static str {
        ENCODINGS.get(self.bits(ENCODING_SHIFT, ENCODING_BITS)).copied().unwrap_or(ENCODINGS[0])
    }

    /// Whether a string has been written in place.
    pub fn is_written(self) -> bool {
        self.bits(WRITTEN_SHIFT, 1) != 0
    }

    fn bits(self, shift: u32, count: u32) -> usize {
        (self.0 >> shift) as usize & ((1 << count) - 1)
    }
}

/// What is kept in memory of a value beside its place.
#[derive(Clone, Copy, Debug)]
pub struct ValueFacts {
    /// Its type.
    pub kind: Kind,
    /// What OBJECT ENCODING says of it, if it is a collection.
    pub encoding: &'static str,
    /// Whether it is a string that has been written in place.
    pub is_written: bool,
}

/// A value on disk: names its record as long as it lives.
pub struct Cold {
    segment: Arc<Segment>,
    place: Place,
}

impl Cold {
    /// The record at a place.
    pub fn new(segment: Arc<Segment>, place: Place) -> Cold {
        segment.name(place);
        Cold { segment, place }
    }

    /// The segment.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// The place in it.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Which record it is.
    pub fn id(&self) -> RecordId {
        (self.segment.number, self.place)
    }

    /// Reads the value. The error is a sentence.
    pub fn read(&self) -> Result<Value, String> {
        self.segment.file.read(self.segment.number, self.place)
    }

    /// Reads these bytes of a string, which are whole blocks of it ([`Place::blocks_of`]).
    pub fn read_part(&self, range: Range<usize>) -> Result<Part, String> {
        let bytes = self.segment.file.read_part(self.segment.number, self.place, range.clone())?;
        Ok(Part::of_bytes(self.clone(), range.start, bytes))
    }

    /// Whether single elements of the collection may be found.
    pub fn finds_elements(&self) -> bool {
        self.segment.file.finds_elements()
    }

    /// About how many bytes have to be read for some elements of a collection. `None` if all of it is better
    /// read.
    pub fn bytes_of_elements(&self, elements: &Elements) -> Option<usize> {
        self.segment.file.bytes_of_elements(self.place, elements)
    }

    /// Reads some elements of a collection. `None` if all of it has to be read.
    pub fn read_elements(&self, elements: &Elements) -> Result<Option<Part>, String> {
        let selected = self.segment.file.read_elements(self.segment.number, self.place, elements)?;
        Ok(selected.map(|selected| Part::of_elements(self.clone(), elements.clone(), selected)))
    }

    /// Whether both are the same record.
    pub fn is_same(&self, other: &Cold) -> bool {
        Arc::ptr_eq(&self.segment, &other.segment) && self.place == other.place
    }
}

impl Clone for Cold {
    fn clone(&self) -> Cold {
        Cold::new(Arc::clone(&self.segment), self.place)
    }
}

impl Drop for Cold {
    fn drop(&mut self) {
        self.segment.unname(self.place);
    }
}

impl fmt::Debug for Cold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Cold({}, {:?})", self.segment.number, self.place)
    }
}

/// A value that is on disk and in memory.
struct Both {
    /// The link without the value, which belongs to this.
    link: *mut u8,
    value: Value,
}

/// A segment with what is kept of a value there.
struct Noted {
    /// Of an `Arc`, which belongs to this.
    segment: *const Segment,
    kept: Kept,
}

/// What an entry has in the place of its value, drawn in the [module](self).
#[repr(C)]
pub(crate) struct ColdSlot {
    link: AtomicPtr<u8>,
    place: Place,
}

const _: () = assert!(size_of::<ColdSlot>() == 16 && align_of::<ColdSlot>() == 8);
const LINK_BITS: usize = IN_MEMORY | WITH_FACTS;
const _: () = assert!(align_of::<Segment>() > LINK_BITS && align_of::<Both>() > LINK_BITS);
const _: () = assert!(align_of::<Noted>() > LINK_BITS);

// SAFETY: a slot owns the segment's count, the value and what is kept of it, which are Send and Sync; the
// link changes once under shared access, to one that includes it, by compare and exchange.
unsafe impl Send for ColdSlot {}
// SAFETY: as above.
unsafe impl Sync for ColdSlot {}

impl ColdSlot {
    /// A slot that names a record, with what is to be kept of its value.
    pub fn new(cold: Cold, kept: Option<Kept>) -> ColdSlot {
        let cold = ManuallyDrop::new(cold);
        // SAFETY: `cold` is not used any more: its count goes over to the slot.
        let segment = Arc::into_raw(unsafe { std::ptr::read(&raw const cold.segment) });
        let link = match kept {
            None => segment.cast_mut().cast(),
            Some(kept) => {
                let noted = Box::into_raw(Box::new(Noted { segment, kept }));
                noted.cast::<u8>().map_addr(|addr| addr | WITH_FACTS)
            }
        };
        ColdSlot { link: AtomicPtr::new(link), place: cold.place }
    }

    /// The place of the record.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Whether the value is in memory too.
    pub fn is_in_memory(&self) -> bool {
        self.link.load(Ordering::Acquire).addr() & IN_MEMORY != 0
    }

    /// What is in memory, if it is.
    fn both(&self) -> Option<&Both> {
        let link = self.link.load(Ordering::Acquire);
        // SAFETY: the bit says that the address is that of a Both, which stays until the slot is borrowed
        // exclusively.
        (link.addr() & IN_MEMORY != 0)
            .then(|| unsafe { &*link.map_addr(|addr| addr & !IN_MEMORY).cast::<Both>() })
    }

    /// The link without the value.
    fn bare_link(&self) -> *mut u8 {
        let link = self.link.load(Ordering::Acquire);
        if link.addr() & IN_MEMORY == 0 {
            return link;
        }
        // SAFETY: as in `both`.
        unsafe { (*link.map_addr(|addr| addr & !IN_MEMORY).cast::<Both>()).link }
    }

    /// What a link without a value leads to, if that is more than a segment. It stays until the slot is
    /// dropped.
    fn noted_place(&self) -> Option<*mut Noted> {
        let link = self.bare_link();
        (link.addr() & WITH_FACTS != 0).then(|| link.map_addr(|addr| addr & !WITH_FACTS).cast::<Noted>())
    }

    fn noted(&self) -> Option<&Noted> {
        // SAFETY: it is there, and changed under an exclusive borrow only.
        self.noted_place().map(|noted| unsafe { &*noted })
    }

    /// What is kept of the value beside its place, to change.
    pub fn kept_mut(&mut self) -> Option<&mut Kept> {
        // SAFETY: it is there, and the borrow is exclusive.
        self.noted_place().map(|noted| unsafe { &mut (*noted).kept })
    }

    /// Bytes that it takes to keep something of a value, with so many of texts.
    pub fn kept_bytes(text_len: usize) -> usize {
        allocator::class_size(size_of::<Noted>()) + allocator::class_size(text_len)
    }

    /// What is kept of the value beside its place.
    pub fn kept(&self) -> Option<&Kept> {
        Some(&self.noted()?.kept)
    }

    /// Another name of the record.
    pub fn cold(&self) -> Cold {
        let segment: *const Segment = match self.noted() {
            Some(noted) => noted.segment,
            None => self.bare_link().cast(),
        };
        // SAFETY: the slot holds a count of this Arc, so it lives; another count is taken of it.
        let segment = unsafe {
            Arc::increment_strong_count(segment);
            Arc::from_raw(segment)
        };
        Cold::new(segment, self.place)
    }

    /// The value, which is read from the disk unless it is in memory.
    ///
    /// # Panics
    /// If it can not be read. Callers that can report an error call [`crate::Entry::bring`] first.
    pub fn value(&self) -> ValueRef<'_> {
        if let Some(both) = self.both() {
            return both.value.borrow();
        }
        match self.cold().read() {
            Ok(value) => self.keep(value),
            Err(reason) => panic!("{reason}"),
        }
        self.both().expect("a value has just been kept").value.borrow()
    }

    /// Keeps the value of the record in memory too.
    pub fn keep(&self, value: Value) {
        let link = self.link.load(Ordering::Acquire);
        if link.addr() & IN_MEMORY != 0 {
            return;
        }
        let both = Box::into_raw(Box::new(Both { link, value }));
        let tagged = both.cast::<u8>().map_addr(|addr| addr | IN_MEMORY);
        if self.link.compare_exchange(link, tagged, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: nobody else has the box; dropping it leaves the link, a raw pointer, alone.
            drop(unsafe { Box::from_raw(both) });
        }
    }

    /// Takes the value out of memory, where its record stays. `None` if it is not in memory.
    pub fn forget(&mut self) -> Option<Value> {
        let link = *self.link.get_mut();
        if link.addr() & IN_MEMORY == 0 {
            return None;
        }
        // SAFETY: the bit says what it is; the borrow is exclusive, so nobody looks at it.
        let both = unsafe { Box::from_raw(link.map_addr(|addr| addr & !IN_MEMORY).cast::<Both>()) };
        *self.link.get_mut() = both.link;
        Some(both.value)
    }

    /// Bytes of what is in memory, size classes included.
    pub fn memory_usage(&self) -> usize {
        let noted = self.kept().map_or(0, |kept| ColdSlot::kept_bytes(kept.text_len()));
        let Some(both) = self.both() else { return noted };
        let value = match &both.value {
            Value::String(text) => allocator::class_size(text.capacity()),
            value => with_value!(value.borrow(), _ => 0, value => Collection::memory_usage(value)),
        };
        noted + allocator::class_size(size_of::<Both>()) + value
    }
}

impl Drop for ColdSlot {
    fn drop(&mut self) {
        drop(self.forget());
        let link = *self.link.get_mut();
        let segment: *const Segment = if link.addr() & WITH_FACTS == 0 {
            link.cast()
        } else {
            // SAFETY: the bit says what it is, and the slot owns it.
            unsafe { Box::from_raw(link.map_addr(|addr| addr & !WITH_FACTS).cast::<Noted>()) }.segment
        };
        // SAFETY: the slot owns a count of the segment.
        let segment = unsafe { Arc::from_raw(segment) };
        segment.unname(self.place);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::HashMap;

    use parking_lot::Mutex;

    use super::*;
    use crate::{EncodingLimits, Entry, Hash, StringRef};

    /// Values by their segment and offset; those that are missing can not be read.
    #[derive(Default)]
    pub struct Values {
        kept: Mutex<HashMap<(u32, usize), Value>>,
        released: Mutex<Vec<u32>>,
    }

    impl RecordFile for Values {
        fn read(&self, segment: u32, place: Place) -> Result<Value, String> {
            let value = self.kept.lock().get(&(segment, place.offset())).cloned();
            value.ok_or_else(|| "it is not there".to_owned())
        }

        fn read_part(&self, segment: u32, place: Place, range: Range<usize>) -> Result<Vec<u8>, String> {
            match self.read(segment, place)? {
                Value::String(text) => Ok(text[range].to_vec()),
                _ => Err("it is no string".to_owned()),
            }
        }

        fn release(&self, segment: u32) {
            self.released.lock().push(segment);
        }
    }

    pub fn cold_entry(file: &Arc<Values>, segment: &Arc<Segment>, offset: usize, mut entry: Entry) -> Entry {
        let facts = entry.cold_facts().expect("it can be on disk");
        file.kept.lock().insert((segment.number(), offset), entry.value().to_value());
        let len = entry.as_string().map_or(100, StringRef::len);
        let place = Place::new(offset, len, facts).expect("it fits");
        entry.cool(Cold::new(Arc::clone(segment), place));
        entry
    }

    #[test]
    fn an_entry_on_disk_tells_what_it_told_in_memory() {
        let file = Arc::<Values>::default();
        let segment = Segment::new(7, file.clone());
        let text = vec![b'x'; 5_000];
        let mut hash = Hash::new();
        hash.set(b"field", b"value", &EncodingLimits::default());
        let entries = [
            Entry::string(b"short", b"a text", Some(5), 1),
            Entry::string(b"long", &text, None, 2),
            Entry::new(b"hash", Value::Hash(hash), Some(9), 3),
        ];
        for (index, before) in entries.into_iter().enumerate() {
            let told = |entry: &Entry| (entry.kind(), entry.expiry(), entry.clock(), entry.encoding());
            let expected = (told(&before), before.string_len(), format!("{:?}", before.value()));
            let mut entry = cold_entry(&file, &segment, index * 8192, before);
            assert!(entry.is_cold() && !entry.is_in_memory());
            assert_eq!((told(&entry), entry.string_len()), (expected.0, expected.1));
            entry.set_expiry(Some(77));
            entry.set_expiry(expected.0.1);
            let image = entry.image();
            assert!(image.is_cold());
            let entry = entry.renamed(b"another key");
            assert!(!entry.is_in_memory());
            assert_eq!(format!("{:?}", entry.value()), expected.2);
            assert!(entry.is_in_memory() && !image.is_in_memory());
            assert_eq!((told(&entry), entry.string_len()), (expected.0, expected.1));
            assert!(!entry.duplicate(b"copy", None).is_cold());
            assert_eq!(format!("{:?}", image.into_value().kind()), format!("{:?}", entry.kind()));
            assert!(segment.named_count() == 1);
            drop(entry);
            assert!(segment.named_count() == 0 && segment.named_bytes() == 0);
        }
        drop(segment);
        assert_eq!(*file.released.lock(), [7]);
    }

    #[test]
    fn a_change_gives_the_record_up_and_a_value_that_was_only_read_does_not() {
        let file = Arc::<Values>::default();
        let segment = Segment::new(1, file.clone());
        let mut entry = cold_entry(&file, &segment, 0, Entry::string(b"key", b"before", None, 0));
        let shell = entry.memory_usage();
        assert_eq!(entry.as_string(), Some(StringRef::Bytes(b"before")));
        assert!(entry.memory_usage() > shell);
        assert!(entry.take_copy().is_some());
        assert!(entry.take_copy().is_none() && entry.memory_usage() == shell);
        entry.text_mut().expect("a string").append(b" and after");
        assert!(!entry.is_cold() && segment.named_count() == 0);
        assert_eq!(entry.as_string(), Some(StringRef::Bytes(b"before and after")));

        let mut entry = cold_entry(&file, &segment, 0, Entry::string(b"key", b"before", None, 0));
        entry.set_integer(5);
        assert!(!entry.is_cold() && segment.named_count() == 0);

        let mut hash = Hash::new();
        hash.set(b"field", b"value", &EncodingLimits::default());
        let mut entry = cold_entry(&file, &segment, 8, Entry::new(b"hash", Value::Hash(hash), None, 0));
        assert!(entry.collection_mut().is_some());
        assert!(!entry.is_cold() && segment.named_count() == 0);
    }

    #[test]
    fn what_is_in_memory_too_takes_as_long_to_free() {
        let file = Arc::<Values>::default();
        let segment = Segment::new(1, file.clone());
        let mut hash = Hash::new();
        (0..2_000).for_each(|number| {
            hash.set(format!("field:{number}").as_bytes(), b"value", &EncodingLimits::default());
        });
        let entry = Entry::new(b"hash", Value::Hash(hash), None, 0);
        let effort = entry.free_effort();
        let entry = cold_entry(&file, &segment, 0, entry);
        assert!(effort > 1 && entry.free_effort() == 1);
        entry.bring().expect("it is there");
        assert_eq!(entry.free_effort(), effort);
    }

    #[test]
    fn a_part_is_of_the_record_that_it_was_read_from() {
        let file = Arc::<Values>::default();
        let segment = Segment::new(1, file.clone());
        let text: Vec<u8> = (0..100_000_usize).map(|at| (at / 100) as u8).collect();
        let mut entry = cold_entry(&file, &segment, 0, Entry::string(b"key", &text, None, 0));
        let cold = entry.cold().expect("it is on disk");
        let blocks = cold.place().blocks_of(5_000..5_100).expect("a part");
        assert_eq!(blocks, BLOCK_TEXT_BYTES..2 * BLOCK_TEXT_BYTES);
        let part = cold.read_part(blocks).expect("it is there");
        drop(cold);
        assert_eq!(entry.bytes_of(&part, 5_000..5_100), Some(&text[5_000..5_100]));
        assert_eq!(entry.bytes_of(&part, 4_000..5_000), None, "it begins behind that");
        assert_eq!(entry.bytes_of(&part, 8_000..8_200), None, "it ends before that");
        assert!(!entry.is_in_memory());
        let again = entry.duplicate(b"key", None);
        let renamed = cold_entry(&file, &segment, 200_000, again);
        assert_eq!(renamed.bytes_of(&part, 5_000..5_100), None, "an equal value in another record");
        entry.text_mut().expect("a string").append(b"more");
        assert_eq!(entry.bytes_of(&part, 5_000..5_100), None);
        drop((entry, renamed));
        assert_eq!(segment.named_count(), 1, "the part keeps the record");
        drop(part);
        assert_eq!(segment.named_count(), 0);
    }

    #[test]
    fn blocks_are_found_by_the_bytes_in_them() {
        let facts = ValueFacts { kind: Kind::String, encoding: "raw", is_written: false };
        let place = |len| Place::new(0, len, facts).expect("it fits");
        assert_eq!(place(LONG_TEXT_BYTES - 1).blocks_of(0..1), None, "a record of one block");
        assert_eq!(place(1_000).record_bytes(), 1_008);
        assert_eq!(place(0).record_bytes(), 8);
        let long = place(LONG_TEXT_BYTES);
        assert_eq!(long.blocks_of(0..1), Some(0..BLOCK_TEXT_BYTES));
        assert_eq!(long.blocks_of(BLOCK_TEXT_BYTES - 1..BLOCK_TEXT_BYTES + 1), Some(0..2 * BLOCK_TEXT_BYTES));
        assert_eq!(long.blocks_of(0..2 * BLOCK_TEXT_BYTES + 1), None, "more than half");
        assert_eq!(
            long.blocks_of(LONG_TEXT_BYTES - 1..LONG_TEXT_BYTES),
            Some(4 * BLOCK_TEXT_BYTES..LONG_TEXT_BYTES)
        );
        assert_eq!(long.record_bytes(), 5 * HEADER_BYTES + LONG_TEXT_BYTES);
        let packed = ValueFacts { kind: Kind::List, encoding: "listpack", is_written: false };
        let packed = Place::new(0, LONG_TEXT_BYTES, packed).expect("it fits");
        assert_eq!(packed.record_bytes(), HEADER_BYTES + LONG_TEXT_BYTES);
        let large = ValueFacts { kind: Kind::List, encoding: "quicklist", is_written: false };
        let large = |len| Place::new(0, len, large).expect("it fits");
        assert_eq!(large(ONE_BLOCK_BYTES_MAX).record_bytes(), HEADER_BYTES + ONE_BLOCK_BYTES_MAX);
        assert_eq!(large(10_000 * BLOCK_TEXT_BYTES).record_bytes(), 10_000 * BLOCK_BYTES);
    }

    #[test]
    fn many_threads_may_look_at_one_value() {
        let file = Arc::<Values>::default();
        let segment = Segment::new(1, file.clone());
        let entry = cold_entry(&file, &segment, 0, Entry::string(b"key", b"a value", None, 0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(entry.as_string(), Some(StringRef::Bytes(b"a value"))));
            }
        });
        drop(entry);
        assert_eq!(segment.named_count(), 0);
    }

    #[test]
    fn places_keep_what_they_are_given() {
        for kind in Kind::ALL {
            for (offset, len, is_written) in
                [(0, 0, false), (SEGMENT_BYTES_MAX - 8, RECORD_BYTES_MAX, true), (64, 77, true)]
            {
                let encoding = if kind == Kind::String { "embstr" } else { "listpack" };
                let place = Place::new(offset, len, ValueFacts { kind, encoding, is_written });
                let place = place.expect("it fits");
                assert_eq!((place.offset(), place.len()), (offset, len));
                assert_eq!((place.kind(), place.is_written()), (kind, is_written));
                assert_eq!(place.moved(8).offset(), 8);
                assert_eq!((place.moved(8).len(), place.moved(8).kind()), (len, kind));
            }
        }
        let facts = ValueFacts { kind: Kind::List, encoding: "listpack", is_written: false };
        assert!(Place::new(SEGMENT_BYTES_MAX, 0, facts).is_none());
        assert!(Place::new(0, RECORD_BYTES_MAX + 1, facts).is_none());
        assert!(Place::new(0, 1, ValueFacts { encoding: "unheard of", ..facts }).is_none());
    }
}
