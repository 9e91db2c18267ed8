//! An entry: one key with its value, expiry and access clock, behind a pointer of eight bytes.
//!
//! ```text
//! byte 0   meta: access clock (24 bits), expiry present (1), shape (2), detail (5)
//! byte 4   length of the key, or 255
//! byte 5   a short string: length (2 bytes)
//!          an integer: its lowest `width` bytes (1 to 8)
//! byte 8   a long string: [`Text`] (24 bytes)
//!          a collection: its handle (8 bytes)
//!          a value on disk: its slot (16 bytes), from [`crate::cold`]
//! then     expiry, Unix time in ms (8 bytes, only if present)
//!          length of the key (4 bytes, only if 255 or more)
//!          key
//!          a short string
//!
//! shape    detail
//! 0, 2     a short, a long string: written as text (1 bit), 0 (4)
//! 1        an integer: written as text (1 bit), 0 (1), width - 1 (3)
//! 3        a collection: the code of its type (5), from the table of [`crate::types`]
//! 3        a value on disk: 31 (5)
//! ```
//!
//! The detail can name 30 types of collections.
//!
//! Bytes per key: for a short string 7 + key + value, for an integer 6 to 13 + key, for anything else 16 to
//! 32 + key; 8 more with an expiry; for a value on disk 24 + key. The sum is rounded up to the steps of
//! [`crate::slab`].

mod cold;
#[cfg(test)]
mod tests;

use std::fmt;
use std::mem::{ManuallyDrop, align_of, size_of};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use mantissa_memory::allocator;
use mantissa_memory::slab;
use mantissa_memory::{CACHE_LINE_BYTES, prefetch, prefetch_lines};

use crate::cold::{ColdSlot, Place};
use crate::text::{CHUNK_BYTES, Text, TextImage};
use crate::types::Collection;
use crate::value::{Kind, StringRef, Value, ValueMut, ValueRef};
use crate::{value_types, with_value, with_value_mut};

/// Longest string that is kept inside the entry. A longer one has an allocation of its own, so that it can
/// grow and move.
const EMBEDDED_BYTES_MAX: usize = 4096;
/// Bytes of an entry that are fetched ahead: a key with a short value. Fetching the line of the last of them
/// too saves 5 % of a SET and 2 % of a GET of 128 bytes (a million keys, pipelines of 32).
const FETCHED_BYTES: usize = 3 * CACHE_LINE_BYTES;
/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = u32::MAX as usize;

const CLOCK_MASK: u32 = (1 << 24) - 1;
const EXPIRY_BIT: u32 = 1 << 24;
const SHAPE_SHIFT: u32 = 25;
/// Of a string.
const WRITTEN_BIT: u32 = 1 << DETAIL_SHIFT;
const DETAIL_SHIFT: u32 = 27;
/// Of an integer.
const WIDTH_SHIFT: u32 = 29;
/// The shape and the detail of a hash.
const HASH: u32 = meta_of(Shape::Collection, Kind::Hash as u32) >> SHAPE_SHIFT;
/// The code of a value on disk.
const COLD_CODE: u32 = 31;
/// The shape and the detail of such a value.
const COLD: u32 = meta_of(Shape::Collection, COLD_CODE) >> SHAPE_SHIFT;
/// Those of a time series.
const SERIES: u32 = meta_of(Shape::Collection, Kind::Series as u32) >> SHAPE_SHIFT;
/// Those of a stream.
const STREAM: u32 = meta_of(Shape::Collection, Kind::Stream as u32) >> SHAPE_SHIFT;
/// Where the value's fixed part begins if it needs no alignment.
const PACKED_OFFSET: usize = 5;
/// Where it begins if it is a pointer or begins with one.
const ALIGNED_OFFSET: usize = 8;
const EXPIRY_BYTES: usize = 8;
/// Bytes of a copy of a collection, for [`Entry::image_bytes`].
const HANDLE_COPY_BYTES: usize = 128;
/// The value of byte 4 for a longer key.
const LONG_KEY: u8 = 255;
const LONG_KEY_BYTES: usize = 4;

/// The forms of the value in the entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Embedded = 0,
    Integer = 1,
    Large = 2,
    Collection = 3,
}

impl Shape {
    #[inline]
    const fn of(meta: u32) -> Shape {
        match meta >> SHAPE_SHIFT & 3 {
            0 => Shape::Embedded,
            1 => Shape::Integer,
            2 => Shape::Large,
            _ => Shape::Collection,
        }
    }

    /// Where the value's fixed part begins.
    #[inline]
    const fn value_offset(self) -> usize {
        match self {
            Shape::Embedded | Shape::Integer => PACKED_OFFSET,
            Shape::Large | Shape::Collection => ALIGNED_OFFSET,
        }
    }
}

/// A meta word but for its clock and the bit of the expiry.
const fn meta_of(shape: Shape, detail: u32) -> u32 {
    (shape as u32) << SHAPE_SHIFT | detail << DETAIL_SHIFT
}

/// The bytes of an entry before its key, but for the long form of the key's length.
const fn header_bytes(meta: u32) -> usize {
    let shape = Shape::of(meta);
    let value = match shape {
        Shape::Embedded => size_of::<u16>(),
        Shape::Integer => (meta >> WIDTH_SHIFT) as usize + 1,
        Shape::Large => size_of::<Text>(),
        Shape::Collection if meta >> SHAPE_SHIFT & 0x7F == COLD => size_of::<ColdSlot>(),
        Shape::Collection => size_of::<*const ()>(),
    };
    shape.value_offset() + value + if meta & EXPIRY_BIT != 0 { EXPIRY_BYTES } else { 0 }
}

/// [`header_bytes`] by the meta word's highest byte.
static HEADER_BYTES: [u8; 256] = {
    let mut table = [0; 256];
    let mut high = 0;
    while high < 256 {
        table[high] = header_bytes((high as u32) << 24) as u8;
        high += 1;
    }
    table
};

const _: () = assert!(align_of::<Text>() == 8 && size_of::<Text>() == 24 && size_of::<Entry>() == 8);
const _: () = assert!(EMBEDDED_BYTES_MAX <= u16::MAX as usize && cfg!(target_endian = "little"));

enum Payload<'a> {
    Embedded(&'a [u8]),
    Integer(i64),
    Large(Text),
    Collection(Value),
    Cold(ColdSlot),
}

/// A key with its value. The layout is drawn in the [module](self). The pointer carries a mark, which belongs
/// to the entry's database:
///
/// ```text
/// pointer, aligned to 8 | mark (bit 0)
/// ```
pub struct Entry(NonNull<u8>);

/// The bit of the pointer that is the mark.
const MARK: usize = 1;

// SAFETY: an entry owns what it points to, and all of that is Send.
unsafe impl Send for Entry {}
// SAFETY: shared access changes nothing but the access clock, which is atomic.
unsafe impl Sync for Entry {}

impl Entry {
    /// A new entry. `expiry` is a Unix time in ms; `clock` the access clock, of which 24 bits are kept.
    ///
    /// # Panics
    /// If the key is longer than [`KEY_BYTES_MAX`]; [`crate::Database::insert`]'s callers check that first.
    pub fn new(key: &[u8], value: Value, expiry: Option<i64>, clock: u32) -> Entry {
        match value {
            Value::Integer(number) => Self::build(key, Payload::Integer(number), expiry, clock),
            Value::String(bytes) if bytes.len() > EMBEDDED_BYTES_MAX => {
                Self::build(key, Payload::Large(bytes.into()), expiry, clock)
            }
            Value::String(bytes) => Self::string(key, &bytes, expiry, clock),
            collection => Self::build(key, Payload::Collection(collection), expiry, clock),
        }
    }

    /// A new entry that holds a string, or an integer if `text` is the canonical form of one.
    pub fn string(key: &[u8], text: &[u8], expiry: Option<i64>, clock: u32) -> Entry {
        if let Some(number) = canonical_integer(text) {
            Self::build(key, Payload::Integer(number), expiry, clock)
        } else if text.len() > EMBEDDED_BYTES_MAX {
            Self::build(key, Payload::Large(text.to_vec().into()), expiry, clock)
        } else {
            Self::build(key, Payload::Embedded(text), expiry, clock)
        }
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        let (offset, len) = self.key_place();
        // SAFETY: the key's bytes lie at this offset for as long as the entry is not rebuilt, which needs
        // `&mut`.
        unsafe { std::slice::from_raw_parts(self.memory().add(offset), len) }
    }

    /// The type of the value.
    #[inline]
    pub fn kind(&self) -> Kind {
        let meta = self.meta();
        match Shape::of(meta) {
            Shape::Embedded | Shape::Integer | Shape::Large => Kind::String,
            Shape::Collection => match self.cold_slot() {
                Some(slot) => slot.place().kind(),
                None => kind_of(meta >> DETAIL_SHIFT),
            },
        }
    }

    /// Whether the value is a hash, whose fields can expire.
    #[inline]
    pub(crate) fn is_hash(&self) -> bool {
        self.meta() >> SHAPE_SHIFT == HASH
    }

    /// Whether the value is a stream in memory, which may have producers.
    #[inline]
    pub(crate) fn is_stream(&self) -> bool {
        self.meta() >> SHAPE_SHIFT == STREAM
    }

    /// The series, whose labels are indexed, if the value is one and not on disk.
    #[inline]
    pub(crate) fn series(&self) -> Option<&crate::Series> {
        if self.meta() >> SHAPE_SHIFT != SERIES {
            return None;
        }
        crate::ValueType::of(self.value())
    }

    /// Whether the value may be a series, whose labels are indexed.
    #[inline]
    pub(crate) fn may_have_labels(&self) -> bool {
        matches!(self.meta() >> SHAPE_SHIFT, SERIES | COLD)
    }

    /// When the key expires, as a Unix time in ms.
    #[inline]
    pub fn expiry(&self) -> Option<i64> {
        // SAFETY: the bit says that the field is there.
        (self.meta() & EXPIRY_BIT != 0).then(|| unsafe { self.expiry_place().read_unaligned() })
    }

    /// Whether the entry has expired at `now_ms` (Unix time in ms), or all fields of the hash that it holds.
    #[inline]
    pub fn has_expired(&self, now_ms: i64) -> bool {
        self.expiry().is_some_and(|time| time <= now_ms) || self.expired_fields(now_ms) > 0
    }

    /// The number of fields of a hash if all of them have expired, else 0.
    #[inline]
    pub fn expired_fields(&self, now_ms: i64) -> usize {
        if !self.is_hash() {
            return if self.is_cold() { self.cold_expired_fields(now_ms) } else { 0 };
        }
        match self.value() {
            ValueRef::Hash(hash) if hash.all_expired(now_ms) => hash.len(),
            _ => 0,
        }
    }

    /// The access clock: 24 bits whose meaning the eviction policy gives.
    #[inline]
    pub fn clock(&self) -> u32 {
        self.meta() & CLOCK_MASK
    }

    /// Sets the access clock. Needs no exclusive borrow: readers of a key mark it as used.
    #[inline]
    pub fn set_clock(&self, clock: u32) {
        let meta = (self.meta() & !CLOCK_MASK) | (clock & CLOCK_MASK);
        self.meta_cell().store(meta, Ordering::Relaxed);
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> ValueRef<'_> {
        let meta = self.meta();
        let place = self.value_place();
        // SAFETY: the meta word says what lies there; it lives as long as the borrow.
        unsafe {
            match Shape::of(meta) {
                Shape::Embedded => ValueRef::String(StringRef::Bytes(self.embedded())),
                Shape::Integer => ValueRef::String(StringRef::Integer(self.integer())),
                Shape::Large => ValueRef::String(StringRef::Bytes(&*place.cast::<Text>())),
                Shape::Collection if meta >> SHAPE_SHIFT == COLD => (*place.cast::<ColdSlot>()).value(),
                Shape::Collection => collection_ref(meta >> DETAIL_SHIFT, place),
            }
        }
    }

    /// The value if it is a string.
    #[inline]
    pub fn as_string(&self) -> Option<StringRef<'_>> {
        match self.value() {
            ValueRef::String(text) => Some(text),
            _ => None,
        }
    }

    /// The collection, to change; `None` for a string.
    #[inline]
    pub fn collection_mut(&mut self) -> Option<ValueMut<'_>> {
        let (meta, place) = (self.meta(), self.value_place());
        // SAFETY: as in `value`, and the borrow is exclusive.
        unsafe {
            match Shape::of(meta) {
                Shape::Embedded | Shape::Integer | Shape::Large => None,
                Shape::Collection if meta >> SHAPE_SHIFT == COLD => self.warm_collection(),
                Shape::Collection => Some(collection_mut(meta >> DETAIL_SHIFT, place)),
            }
        }
    }

    /// The name of the encoding in OBJECT ENCODING.
    pub fn encoding(&self) -> &'static str {
        match self.cold_place() {
            Some(place) if place.kind() != Kind::String => return place.encoding(),
            Some(_) => return self.string_encoding().unwrap_or("raw"),
            None => {}
        }
        with_value!(
            self.value(),
            _ => self.string_encoding().unwrap_or("raw"),
            value => Collection::encoding(value),
        )
    }

    /// How OBJECT ENCODING calls the string, `None` if the value is none. Redis packs a text into the object
    /// of its key while both are short, unless it has been written in place (APPEND, SETRANGE, SETBIT); and
    /// the result of INCRBYFLOAT stays a text even where it is an integer.
    pub fn string_encoding(&self) -> Option<&'static str> {
        const REDIS_PACKED_BYTES_MAX: usize = 41;
        let is_written = match self.cold_place() {
            Some(place) => place.is_written(),
            None => self.meta() & WRITTEN_BIT != 0,
        };
        let text_len = self.string_len()?;
        let is_integer = self.shape() == Shape::Integer;
        let fits = || {
            let expiry_bytes = if self.expiry().is_some() { 8 } else { 0 };
            self.key_place().1 + text_len + expiry_bytes <= REDIS_PACKED_BYTES_MAX
        };
        Some(match is_integer {
            true if !is_written => "int",
            false if is_written => "raw",
            _ if fits() => "embstr",
            _ => "raw",
        })
    }

    /// Makes OBJECT ENCODING call an integer a text, until it is set again.
    pub fn mark_as_text(&mut self) {
        if self.shape() == Shape::Integer {
            self.change_meta(|meta| meta | WRITTEN_BIT);
        }
    }

    /// Replaces the value by a string (or the integer it is the text of). Key, expiry and clock stay.
    pub fn set_string(&mut self, text: &[u8]) {
        if let Some(number) = canonical_integer(text) {
            return self.set_integer(number);
        }
        if self.shape() == Shape::Embedded && text.len() <= EMBEDDED_BYTES_MAX {
            self.resize_embedded(text.len());
            let (key_offset, key_len) = self.key_place();
            // SAFETY: the allocation is now large enough for `text` behind the key; `text` cannot overlap it,
            // being borrowed apart from `self`.
            unsafe {
                let value = self.memory().add(key_offset + key_len);
                std::ptr::copy_nonoverlapping(text.as_ptr(), value, text.len());
            }
            self.change_meta(|meta| meta & !WRITTEN_BIT);
        } else if self.shape() == Shape::Large && text.len() > EMBEDDED_BYTES_MAX {
            // SAFETY: the shape says that a Text lies there; the borrow is exclusive.
            unsafe { &mut *self.value_place().cast::<Text>() }.set(text);
            self.change_meta(|meta| meta & !WRITTEN_BIT);
        } else if text.len() > EMBEDDED_BYTES_MAX {
            self.rebuild(self.expiry(), Payload::Large(text.to_vec().into()));
        } else {
            self.rebuild(self.expiry(), Payload::Embedded(text));
        }
    }

    /// Replaces the value by an integer. Key, expiry and clock stay.
    pub fn set_integer(&mut self, number: i64) {
        if self.shape() == Shape::Integer && width_of(number) <= self.width() {
            // SAFETY: an integer of that width lies there, which is narrower than eight bytes.
            unsafe { self.write_integer(number) };
            self.change_meta(|meta| meta & !WRITTEN_BIT);
        } else {
            self.rebuild(self.expiry(), Payload::Integer(number));
        }
    }

    /// Replaces the value. Key, expiry and clock stay.
    pub fn set_value(&mut self, value: Value) {
        match value {
            Value::Integer(number) => self.set_integer(number),
            Value::String(bytes) if bytes.len() > EMBEDDED_BYTES_MAX => {
                self.rebuild(self.expiry(), Payload::Large(bytes.into()));
            }
            Value::String(bytes) => self.set_string(&bytes),
            collection => self.rebuild(self.expiry(), Payload::Collection(collection)),
        }
    }

    /// The string's text, to change in place and to let grow; `None` if the value is no string. An integer
    /// becomes text.
    pub fn text_mut(&mut self) -> Option<&mut Text> {
        if self.is_cold() && self.kind() == Kind::String {
            self.warm();
        }
        if self.shape() == Shape::Collection {
            return None;
        }
        if self.shape() != Shape::Large {
            let bytes = self.as_string().map(StringRef::to_vec).unwrap_or_default();
            self.rebuild(self.expiry(), Payload::Large(bytes.into()));
        }
        self.change_meta(|meta| meta | WRITTEN_BIT);
        // SAFETY: the shape is `Large`, so a Text lies there; the borrow is exclusive.
        Some(unsafe { &mut *self.value_place().cast::<Text>() })
    }

    /// An image of the value, if it is a string that is long enough to be better shared than copied.
    pub(crate) fn share_text(&mut self) -> Option<TextImage> {
        if !self.is_long_text() {
            return None;
        }
        self.large_text().map(Text::share)
    }

    /// The text of a string that has an allocation of its own.
    fn large_text(&mut self) -> Option<&mut Text> {
        // SAFETY: the shape says that a Text lies there; the borrow is exclusive.
        (self.shape() == Shape::Large).then(|| unsafe { &mut *self.value_place().cast::<Text>() })
    }

    /// Whether the value is a string of more than one chunk.
    pub(crate) fn is_long_text(&self) -> bool {
        self.shape() == Shape::Large && self.as_string().is_some_and(|text| text.len() > CHUNK_BYTES)
    }

    /// Sets or removes the expiry.
    pub fn set_expiry(&mut self, expiry: Option<i64>) {
        match (expiry, self.meta() & EXPIRY_BIT != 0) {
            // SAFETY: the bit says that the field is there.
            (Some(time), true) => unsafe { self.expiry_place().write_unaligned(time) },
            (None, false) => {}
            _ => {
                // SAFETY: the old shell is freed without its payload, which has moved.
                unsafe {
                    let mut rebuilt = self.moved(self.key(), expiry);
                    rebuilt.set_mark(self.mark());
                    let old = ManuallyDrop::new(std::mem::replace(self, rebuilt));
                    slab::dealloc(old.cell(), old.size());
                }
            }
        }
    }

    /// The entry under another key, which must not be longer than [`KEY_BYTES_MAX`].
    pub fn renamed(self, key: &[u8]) -> Entry {
        let old = ManuallyDrop::new(self);
        // SAFETY: the old shell is freed without its payload, which has moved.
        unsafe {
            let renamed = old.moved(key, old.expiry());
            slab::dealloc(old.cell(), old.size());
            renamed
        }
    }

    /// The value, taken out of the entry.
    pub fn into_value(mut self) -> Value {
        if self.is_cold() {
            return self.take_value();
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: the payload is moved out once, then the shell is freed without dropping it.
        unsafe {
            let value = match this.shape() {
                Shape::Embedded | Shape::Integer => this.value().to_value(),
                Shape::Large => Value::String(this.value_place().cast::<Text>().read().into()),
                Shape::Collection => take_collection(this.meta() >> DETAIL_SHIFT, this.value_place()),
            };
            slab::dealloc(this.cell(), this.size());
            value
        }
    }

    /// A copy under another key. Costs as much as the value is large.
    pub fn duplicate(&self, key: &[u8], expiry: Option<i64>) -> Entry {
        let payload = match (self.shape(), self.value()) {
            (Shape::Large, ValueRef::String(StringRef::Bytes(bytes))) => {
                Payload::Large(bytes.to_vec().into())
            }
            (Shape::Collection, ValueRef::String(StringRef::Bytes(bytes)))
                if bytes.len() > EMBEDDED_BYTES_MAX =>
            {
                Payload::Large(bytes.to_vec().into())
            }
            (_, ValueRef::String(StringRef::Bytes(bytes))) => Payload::Embedded(bytes),
            (_, ValueRef::String(StringRef::Integer(number))) => Payload::Integer(number),
            (_, collection) => Payload::Collection(collection.to_value()),
        };
        let copy = Self::build(key, payload, expiry, self.clock());
        let is_written = self.written_bit() != 0 || self.cold_place().is_some_and(Place::is_written);
        if is_written {
            copy.change_meta(|meta| meta | WRITTEN_BIT);
        }
        copy
    }

    /// The same value and clock in a new shell with another key or expiry.
    ///
    /// # Safety
    /// The payload moves: this entry's shell must then be freed without dropping it.
    unsafe fn moved(&self, key: &[u8], expiry: Option<i64>) -> Entry {
        // SAFETY: the shape says what lies in the entry.
        let payload = unsafe {
            match self.shape() {
                Shape::Embedded => Payload::Embedded(self.embedded()),
                Shape::Integer => Payload::Integer(self.integer()),
                Shape::Large => Payload::Large(self.value_place().cast::<Text>().read()),
                Shape::Collection if self.is_cold() => {
                    Payload::Cold(self.value_place().cast::<ColdSlot>().read())
                }
                Shape::Collection => {
                    Payload::Collection(take_collection(self.meta() >> DETAIL_SHIFT, self.value_place()))
                }
            }
        };
        let moved = Self::build(key, payload, expiry, self.clock());
        moved.change_meta(|meta| meta | self.written_bit());
        moved
    }

    /// The bit that says that a string has been written in place; 0 for a collection.
    fn written_bit(&self) -> u32 {
        if self.shape() == Shape::Collection { 0 } else { self.meta() & WRITTEN_BIT }
    }

    /// Bytes that the entry takes: its allocation and what it owns, size classes included.
    pub fn memory_usage(&self) -> usize {
        if let Some(slot) = self.cold_slot() {
            return slab::class_size(self.size()) + slot.memory_usage();
        }
        let value = with_value!(
            self.value(),
            _ => self.text_memory_usage(),
            value => Collection::memory_usage(value),
        );
        slab::class_size(self.size()) + value
    }

    /// Bytes of a string beside the entry's allocation.
    fn text_memory_usage(&self) -> usize {
        if self.shape() != Shape::Large {
            return 0;
        }
        // SAFETY: the shape says that a Text lies there.
        allocator::class_size(unsafe { (*self.value_place().cast::<Text>()).capacity() })
    }

    /// About how many allocations freeing the entry takes; used to decide whether to do it in the background.
    pub fn free_effort(&self) -> usize {
        if !self.is_in_memory() {
            return 1;
        }
        with_value!(self.value(), _ => 1, value => Collection::free_effort(value))
    }

    /// Whether its value is large enough to be encoded without a lock: a collection in the form for large
    /// ones, or a string that is better shared than copied.
    pub fn is_large(&self) -> bool {
        const ELEMENTS_MAX: usize = 1024;
        if self.is_cold() {
            return false;
        }
        self.free_effort() > ELEMENTS_MAX
            || with_value!(
                self.value(),
                _ => self.is_long_text(),
                value => Collection::is_large_form(value) || value.element_count() > ELEMENTS_MAX as u64,
            )
    }

    /// About how many bytes an image allocates: the whole of a string of one chunk, of anything larger only
    /// what is not shared.
    pub(crate) fn image_bytes(&self) -> usize {
        let shell = slab::class_size(self.size());
        if self.is_cold() {
            return self.memory_usage();
        }
        match self.value() {
            ValueRef::String(StringRef::Bytes(bytes)) if !self.is_long_text() => {
                shell + if self.shape() == Shape::Large { bytes.len() } else { 0 }
            }
            ValueRef::String(StringRef::Integer(_)) => shell,
            _ => shell + HANDLE_COPY_BYTES,
        }
    }

    /// The address of the entry's memory.
    pub fn address(&self) -> *const u8 {
        self.memory()
    }

    /// Fetches the entry ahead of its use: the lines of its first [`FETCHED_BYTES`], wherever they begin.
    #[inline]
    pub fn prefetch(&self) {
        prefetch_lines(self.memory(), 0..FETCHED_BYTES);
        prefetch(self.memory().wrapping_add(FETCHED_BYTES - 1));
    }

    /// Moves what lies in sparsely used memory (see [`slab::begin_compaction`]); of a large collection, a
    /// slice. True if it has more slices.
    pub fn compact(&mut self, slice: usize) -> bool {
        // SAFETY: the entry owns its memory and is borrowed exclusively; nothing in it points into it.
        if let Some(moved) = unsafe { slab::relocate(self.cell(), self.size()) } {
            self.set_memory(moved);
        }
        if self.is_cold() {
            return false;
        }
        let Some(value) = self.collection_mut() else { return false };
        with_value_mut!(value, value => Collection::compact(value, slice))
    }

    fn build(key: &[u8], payload: Payload<'_>, expiry: Option<i64>, clock: u32) -> Entry {
        assert!(key.len() <= KEY_BYTES_MAX, "keys are checked against KEY_BYTES_MAX before they are stored");
        let (kind_of_value, value_len) = match &payload {
            Payload::Embedded(text) => (meta_of(Shape::Embedded, 0), text.len()),
            Payload::Integer(number) => {
                (meta_of(Shape::Integer, 0) | (width_of(*number) as u32 - 1) << WIDTH_SHIFT, 0)
            }
            Payload::Large(_) => (meta_of(Shape::Large, 0), 0),
            Payload::Collection(value) => (meta_of(Shape::Collection, value.kind() as u32), 0),
            Payload::Cold(_) => (meta_of(Shape::Collection, COLD_CODE), 0),
        };
        let meta = clock & CLOCK_MASK | kind_of_value | if expiry.is_some() { EXPIRY_BIT } else { 0 };
        let is_long = key.len() >= usize::from(LONG_KEY);
        let key_offset = header_bytes(meta) + if is_long { LONG_KEY_BYTES } else { 0 };
        let entry = ManuallyDrop::new(Entry(slab::alloc(key_offset + key.len() + value_len)));
        let memory = entry.memory();
        // SAFETY: every field lies inside the allocation, as drawn above; the meta word and the values at
        // `ALIGNED_OFFSET` are aligned.
        unsafe {
            memory.cast::<u32>().write(meta);
            if is_long {
                memory.add(4).write(LONG_KEY);
                let place = memory.add(key_offset - LONG_KEY_BYTES).cast::<u32>();
                place.write_unaligned(key.len() as u32);
            } else {
                memory.add(4).write(key.len() as u8);
            }
            if let Some(time) = expiry {
                entry.expiry_place().write_unaligned(time);
            }
            std::ptr::copy_nonoverlapping(key.as_ptr(), memory.add(key_offset), key.len());
            let place = entry.value_place();
            match payload {
                Payload::Embedded(text) => {
                    place.cast::<u16>().write_unaligned(text.len() as u16);
                    let value = memory.add(key_offset + key.len());
                    std::ptr::copy_nonoverlapping(text.as_ptr(), value, text.len());
                }
                Payload::Integer(number) => entry.write_integer(number),
                Payload::Large(bytes) => place.cast::<Text>().write(bytes),
                Payload::Collection(value) => write_collection(value, place),
                Payload::Cold(slot) => place.cast::<ColdSlot>().write(slot),
            }
        }
        ManuallyDrop::into_inner(entry)
    }

    /// Builds the entry anew with another payload, dropping the old value.
    fn rebuild(&mut self, expiry: Option<i64>, payload: Payload<'_>) {
        let mut rebuilt = Self::build(self.key(), payload, expiry, self.clock());
        rebuilt.set_mark(self.mark());
        drop(std::mem::replace(self, rebuilt));
    }

    /// Makes an embedded string `len` bytes long; the bytes are then to be written.
    fn resize_embedded(&mut self, len: usize) {
        let old = self.size();
        let value = self.embedded().len();
        if value == len {
            return;
        }
        // SAFETY: the entry is embedded: its value part is the length, from which the size derives.
        unsafe {
            let memory = slab::realloc(self.cell(), old, old - value + len);
            self.set_memory(memory);
            self.value_place().cast::<u16>().write_unaligned(len as u16);
        }
    }

    /// The database's mark; see [`crate::snapshot`]. False at first; every change of the entry keeps it.
    #[inline]
    pub(crate) fn mark(&self) -> bool {
        self.0.addr().get() & MARK != 0
    }

    /// Sets the mark.
    #[inline]
    pub(crate) fn set_mark(&mut self, mark: bool) {
        let marked = self.memory().map_addr(|address| address | usize::from(mark));
        // SAFETY: the address is that of an allocation, perhaps with a low bit set: it is not null.
        self.0 = unsafe { NonNull::new_unchecked(marked) };
    }

    /// Takes another allocation, under the same mark.
    #[inline]
    fn set_memory(&mut self, memory: NonNull<u8>) {
        let mark = self.mark();
        self.0 = memory;
        self.set_mark(mark);
    }

    /// Where the entry lies.
    #[inline]
    fn memory(&self) -> *mut u8 {
        self.0.as_ptr().map_addr(|address| address & !MARK)
    }

    /// The same, as the slabs want it.
    #[inline]
    fn cell(&self) -> NonNull<u8> {
        // SAFETY: the address is that of an allocation.
        unsafe { NonNull::new_unchecked(self.memory()) }
    }

    #[inline]
    fn meta_cell(&self) -> &AtomicU32 {
        // SAFETY: the first four bytes are the meta word, aligned to eight, and only ever accessed as this
        // atomic.
        unsafe { AtomicU32::from_ptr(self.memory().cast()) }
    }

    #[inline]
    fn meta(&self) -> u32 {
        self.meta_cell().load(Ordering::Relaxed)
    }

    fn change_meta(&self, change: impl FnOnce(u32) -> u32) {
        self.meta_cell().store(change(self.meta()), Ordering::Relaxed);
    }

    #[inline]
    fn shape(&self) -> Shape {
        Shape::of(self.meta())
    }

    /// The bytes of an integer.
    #[inline]
    fn width(&self) -> usize {
        (self.meta() >> WIDTH_SHIFT) as usize + 1
    }

    /// Where the key begins, and its length.
    #[inline]
    fn key_place(&self) -> (usize, usize) {
        let start = usize::from(HEADER_BYTES[(self.meta() >> 24) as usize]);
        // SAFETY: byte 4 is the key's length, or says that it lies before the key.
        unsafe {
            match self.memory().add(4).read() {
                LONG_KEY => {
                    let len = self.memory().add(start).cast::<u32>().read_unaligned();
                    (start + LONG_KEY_BYTES, len as usize)
                }
                len => (start, usize::from(len)),
            }
        }
    }

    /// Where the value's fixed part begins.
    #[inline]
    fn value_place(&self) -> *mut u8 {
        // SAFETY: every entry is at least as long as its header.
        unsafe { self.memory().add(self.shape().value_offset()) }
    }

    /// Where the expiry lies, if there is one: at the end of the header.
    #[inline]
    fn expiry_place(&self) -> *mut i64 {
        let end = usize::from(HEADER_BYTES[(self.meta() >> 24) as usize]);
        // SAFETY: every entry is at least as long as its header.
        unsafe { self.memory().add(end - EXPIRY_BYTES).cast() }
    }

    /// The text of an entry of the shape `Embedded`.
    #[inline]
    fn embedded(&self) -> &[u8] {
        debug_assert!(self.shape() == Shape::Embedded);
        let (key_offset, key_len) = self.key_place();
        // SAFETY: the value part is the length; that many bytes follow the key.
        unsafe {
            let len = self.value_place().cast::<u16>().read_unaligned();
            std::slice::from_raw_parts(self.memory().add(key_offset + key_len), usize::from(len))
        }
    }

    /// The number of an entry of the shape `Integer`. Its bytes are read together with some of the header
    /// before them, which are then shifted out.
    #[inline]
    fn integer(&self) -> i64 {
        debug_assert!(self.shape() == Shape::Integer);
        let width = self.width();
        let end = PACKED_OFFSET + width;
        // SAFETY: the bytes read lie between the beginning of the entry and the end of the integer.
        unsafe {
            if width <= 4 {
                let bytes = self.memory().add(end - 4).cast::<i32>().read_unaligned();
                i64::from(bytes >> (32 - 8 * width))
            } else {
                self.memory().add(end - 8).cast::<i64>().read_unaligned() >> (64 - 8 * width)
            }
        }
    }

    /// # Safety
    /// The entry has the shape `Integer` and a width that the number fits in.
    #[inline]
    unsafe fn write_integer(&self, number: i64) {
        // SAFETY: `width` bytes lie there, by the caller's promise.
        unsafe {
            std::ptr::copy_nonoverlapping(number.to_le_bytes().as_ptr(), self.value_place(), self.width());
        }
    }

    /// The size of the allocation.
    fn size(&self) -> usize {
        let (key_offset, key_len) = self.key_place();
        let value_len = if self.shape() == Shape::Embedded { self.embedded().len() } else { 0 };
        key_offset + key_len + value_len
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let size = self.size();
        // SAFETY: what the entry owns is dropped once, then its memory given back with its size.
        unsafe {
            match self.shape() {
                Shape::Embedded | Shape::Integer => {}
                Shape::Large => self.value_place().cast::<Text>().drop_in_place(),
                Shape::Collection if self.is_cold() => {
                    self.value_place().cast::<ColdSlot>().drop_in_place();
                }
                Shape::Collection => {
                    drop(take_collection(self.meta() >> DETAIL_SHIFT, self.value_place()));
                }
            }
            slab::dealloc(self.cell(), size);
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = String::from_utf8_lossy(self.key()).into_owned();
        match self.cold() {
            Some(cold) => formatter.debug_struct("Entry").field("key", &key).field("cold", &cold).finish(),
            None => formatter.debug_struct("Entry").field("key", &key).field("value", &self.value()).finish(),
        }
    }
}

/// The least number of bytes that hold the integer.
#[inline]
const fn width_of(number: i64) -> usize {
    let magnitude = if number < 0 { !number } else { number };
    (64 - magnitude.leading_zeros() as usize) / 8 + 1
}

/// The integer that `text` is the canonical form of, if any.
#[inline]
pub fn canonical_integer(text: &[u8]) -> Option<i64> {
    match text {
        [] => None,
        [b'0'..=b'9' | b'-', ..] if text.len() <= 20 => mantissa_number::parse_i64(text),
        _ => None,
    }
}

/// Declares how the handles of the table's types lie in entries.
macro_rules! declare_casts {
    ([] $($(#[$doc:meta])* $kind:ident = $code:literal $row:tt)*) => {
        $(const _: () = assert!(
            size_of::<crate::$kind>() == 8
                && align_of::<crate::$kind>() <= 8
                && 1 <= $code
                && $code < COLD_CODE
        );)*

        /// The type of a collection with this code.
        #[inline]
        const fn kind_of(code: u32) -> Kind {
            match code {
                $($code => Kind::$kind,)*
                _ => panic!("every code has a row"),
            }
        }

        /// The collection at a place.
        ///
        /// # Safety
        /// The handle of a collection with this code lies there for `'a`, and nobody changes it meanwhile.
        #[inline]
        unsafe fn collection_ref<'a>(code: u32, place: *const u8) -> ValueRef<'a> {
            // SAFETY: the caller's promise.
            unsafe {
                match code {
                    $($code => ValueRef::$kind(&*place.cast()),)*
                    _ => unreachable!("every code has a row"),
                }
            }
        }

        /// The collection at a place, to change.
        ///
        /// # Safety
        /// The handle of a collection with this code lies there for `'a`, and nobody else looks at it
        /// meanwhile.
        #[inline]
        unsafe fn collection_mut<'a>(code: u32, place: *mut u8) -> ValueMut<'a> {
            // SAFETY: the caller's promise.
            unsafe {
                match code {
                    $($code => ValueMut::$kind(&mut *place.cast()),)*
                    _ => unreachable!("every code has a row"),
                }
            }
        }

        /// Moves a collection's handle out of an entry.
        ///
        /// # Safety
        /// The handle of a collection with this code lies there, and is not used there any more.
        unsafe fn take_collection(code: u32, place: *mut u8) -> Value {
            // SAFETY: the caller's promise.
            unsafe {
                match code {
                    $($code => Value::$kind(place.cast::<crate::$kind>().read()),)*
                    _ => unreachable!("every code has a row"),
                }
            }
        }

        /// Moves a collection's handle into an entry.
        ///
        /// # Safety
        /// `place` is where an entry keeps the handle of a collection.
        unsafe fn write_collection(value: Value, place: *mut u8) {
            // SAFETY: every handle has eight bytes, as asserted above.
            unsafe {
                match value {
                    $(Value::$kind(value) => place.cast::<crate::$kind>().write(value),)*
                    Value::String(_) | Value::Integer(_) => unreachable!("strings have shapes of their own"),
                }
            }
        }
    };
}

value_types! { [declare_casts] [] }
