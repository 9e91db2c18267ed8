//! An entry: one key with its value, expiry and access clock, behind a pointer of eight bytes.
//!
//! ```text
//! byte 0   meta: access clock (24 bits), kind (3), expiry present (1), string form (2), written as text (1)
//! byte 4   length of the key
//! byte 8   expiry, Unix time in ms (only if present)
//! then     one payload:
//!            embedded string: length (u32), key, value
//!            integer:         i64, key
//!            large string:    Vec<u8>, key
//!            collection:      Box of it, key
//! ```
//!
//! Bytes per key for a short string: 8 + 4 + key + value, 8 more with an expiry, rounded up to the size
//! class.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::fmt;
use std::mem::{ManuallyDrop, align_of, size_of};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::allocator::class_size;
use crate::value::{Kind, StringRef, Value, ValueMut, ValueRef};

/// Longest string that is kept inside the entry. A longer one has an allocation of its own, so that it can
/// grow and move.
const EMBEDDED_BYTES_MAX: usize = 4096;
/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = u32::MAX as usize;

const CLOCK_MASK: u32 = (1 << 24) - 1;
const KIND_SHIFT: u32 = 24;
const EXPIRY_BIT: u32 = 1 << 27;
const FORM_SHIFT: u32 = 28;
const WRITTEN_BIT: u32 = 1 << 30;
const EXPIRY_OFFSET: usize = 8;

/// How the value lies in the entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Embedded = 0,
    Integer = 1,
    Large = 2,
    Collection = 3,
}

const _: () = assert!(align_of::<Vec<u8>>() == 8 && size_of::<Vec<u8>>() == 24 && size_of::<Entry>() == 8);

enum Payload<'a> {
    Embedded(&'a [u8]),
    Integer(i64),
    Large(Vec<u8>),
    Collection(Kind, NonNull<()>),
}

/// See the module's description.
pub struct Entry(NonNull<u8>);

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
                Self::build(key, Payload::Large(bytes), expiry, clock)
            }
            Value::String(bytes) => Self::string(key, &bytes, expiry, clock),
            collection => {
                let (kind, pointer) = into_pointer(collection);
                Self::build(key, Payload::Collection(kind, pointer), expiry, clock)
            }
        }
    }

    /// A new entry that holds a string, or an integer if `text` is the canonical form of one.
    pub fn string(key: &[u8], text: &[u8], expiry: Option<i64>, clock: u32) -> Entry {
        if let Some(number) = canonical_integer(text) {
            Self::build(key, Payload::Integer(number), expiry, clock)
        } else if text.len() > EMBEDDED_BYTES_MAX {
            Self::build(key, Payload::Large(text.to_vec()), expiry, clock)
        } else {
            Self::build(key, Payload::Embedded(text), expiry, clock)
        }
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        let offset = self.key_offset();
        // SAFETY: the key's bytes lie at this offset for as long as the entry is not rebuilt, which needs
        // `&mut`.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(offset), self.key_len()) }
    }

    /// The type of the value.
    #[inline]
    pub fn kind(&self) -> Kind {
        match (self.meta() >> KIND_SHIFT) & 7 {
            0 => Kind::String,
            1 => Kind::List,
            2 => Kind::Set,
            3 => Kind::SortedSet,
            4 => Kind::Hash,
            _ => Kind::Stream,
        }
    }

    /// When the key expires, as a Unix time in ms.
    #[inline]
    pub fn expiry(&self) -> Option<i64> {
        // SAFETY: the bit says that the field is there; it is aligned to eight.
        (self.meta() & EXPIRY_BIT != 0)
            .then(|| unsafe { self.0.as_ptr().add(EXPIRY_OFFSET).cast::<i64>().read() })
    }

    /// Whether it is there no more at `now_ms` (Unix time in ms): its time has passed, or that of all fields
    /// of the hash that it holds.
    #[inline]
    pub fn has_expired(&self, now_ms: i64) -> bool {
        self.expiry().is_some_and(|time| time <= now_ms) || self.spent_fields(now_ms) > 0
    }

    /// The number of fields if it holds a hash and the time of all of them has passed, else 0.
    #[inline]
    pub fn spent_fields(&self, now_ms: i64) -> usize {
        if self.kind() != Kind::Hash {
            return 0;
        }
        match self.value() {
            ValueRef::Hash(hash) if hash.is_spent(now_ms) => hash.len(),
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
        let payload = self.payload();
        // SAFETY: the form and kind say what lies in the payload; it lives as long as the borrow.
        unsafe {
            match self.form() {
                Form::Embedded => {
                    let len = payload.cast::<u32>().read() as usize;
                    let start = payload.add(4 + self.key_len());
                    ValueRef::String(StringRef::Bytes(std::slice::from_raw_parts(start, len)))
                }
                Form::Integer => ValueRef::String(StringRef::Integer(payload.cast::<i64>().read())),
                Form::Large => ValueRef::String(StringRef::Bytes(&*payload.cast::<Vec<u8>>())),
                Form::Collection => {
                    let pointer = payload.cast::<*const ()>().read();
                    match self.kind() {
                        Kind::List => ValueRef::List(&*pointer.cast()),
                        Kind::Set => ValueRef::Set(&*pointer.cast()),
                        Kind::SortedSet => ValueRef::SortedSet(&*pointer.cast()),
                        Kind::Hash => ValueRef::Hash(&*pointer.cast()),
                        Kind::Stream | Kind::String => ValueRef::Stream(&*pointer.cast()),
                    }
                }
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
        if self.form() != Form::Collection {
            return None;
        }
        // SAFETY: as in `value`, and the borrow is exclusive.
        unsafe {
            let pointer = self.payload().cast::<*mut ()>().read();
            Some(match self.kind() {
                Kind::List => ValueMut::List(&mut *pointer.cast()),
                Kind::Set => ValueMut::Set(&mut *pointer.cast()),
                Kind::SortedSet => ValueMut::SortedSet(&mut *pointer.cast()),
                Kind::Hash => ValueMut::Hash(&mut *pointer.cast()),
                Kind::Stream | Kind::String => ValueMut::Stream(&mut *pointer.cast()),
            })
        }
    }

    /// How OBJECT ENCODING calls the string, `None` if the value is none. Redis packs a text into the object
    /// of its key while both are short, unless it has been written in place (APPEND, SETRANGE, SETBIT); and
    /// the result of INCRBYFLOAT stays a text even where it is an integer.
    pub fn string_encoding(&self) -> Option<&'static str> {
        const REDIS_PACKED_BYTES_MAX: usize = 41;
        let is_written = self.meta() & WRITTEN_BIT != 0;
        let text = self.as_string()?;
        let fits = || {
            let expiry_bytes = if self.expiry().is_some() { 8 } else { 0 };
            self.key_len() + text.len() + expiry_bytes <= REDIS_PACKED_BYTES_MAX
        };
        Some(match text {
            StringRef::Integer(_) if !is_written => "int",
            StringRef::Bytes(_) if is_written => "raw",
            _ if fits() => "embstr",
            _ => "raw",
        })
    }

    /// Makes OBJECT ENCODING call an integer a text, until it is set again.
    pub fn mark_as_text(&mut self) {
        if self.form() == Form::Integer {
            self.change_meta(|meta| meta | WRITTEN_BIT);
        }
    }

    /// Replaces the value by a string (or the integer it is the text of). Key, expiry and clock stay.
    pub fn set_string(&mut self, text: &[u8]) {
        if let Some(number) = canonical_integer(text) {
            return self.set_integer(number);
        }
        if self.form() == Form::Embedded && text.len() <= EMBEDDED_BYTES_MAX {
            self.resize_embedded(text.len());
            // SAFETY: the allocation now has room for `text` behind the key; `text` cannot overlap it, being
            // borrowed apart from `self`.
            unsafe {
                let value = self.payload().add(4 + self.key_len());
                std::ptr::copy_nonoverlapping(text.as_ptr(), value, text.len());
            }
            self.change_meta(|meta| meta & !WRITTEN_BIT);
        } else if self.form() == Form::Large && text.len() > EMBEDDED_BYTES_MAX {
            // SAFETY: the form says that the payload is a Vec; the borrow is exclusive.
            let bytes = unsafe { &mut *self.payload().cast::<Vec<u8>>() };
            if (text.len()..=2 * text.len()).contains(&bytes.capacity()) {
                bytes.clear();
                bytes.extend_from_slice(text);
            } else {
                *bytes = text.to_vec();
            }
            self.change_meta(|meta| meta & !WRITTEN_BIT);
        } else if text.len() > EMBEDDED_BYTES_MAX {
            self.rebuild(self.expiry(), Payload::Large(text.to_vec()));
        } else {
            self.rebuild(self.expiry(), Payload::Embedded(text));
        }
    }

    /// Replaces the value by an integer. Key, expiry and clock stay.
    pub fn set_integer(&mut self, number: i64) {
        if self.form() == Form::Integer {
            // SAFETY: an integer's payload is eight aligned bytes.
            unsafe { self.payload().cast::<i64>().write(number) };
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
                self.rebuild(self.expiry(), Payload::Large(bytes));
            }
            Value::String(bytes) => self.set_string(&bytes),
            collection => {
                let (kind, pointer) = into_pointer(collection);
                self.rebuild(self.expiry(), Payload::Collection(kind, pointer));
            }
        }
    }

    /// The string's bytes, to change in place and to let grow; `None` if the value is no string. An integer
    /// becomes text.
    pub fn bytes_mut(&mut self) -> Option<&mut Vec<u8>> {
        if self.form() == Form::Collection {
            return None;
        }
        if self.form() != Form::Large {
            let bytes = self.as_string().map(StringRef::to_vec).unwrap_or_default();
            self.rebuild(self.expiry(), Payload::Large(bytes));
        }
        self.change_meta(|meta| meta | WRITTEN_BIT);
        // SAFETY: the form is `Large`, so the payload is a Vec; the borrow is exclusive.
        Some(unsafe { &mut *self.payload().cast::<Vec<u8>>() })
    }

    /// Sets or removes the expiry.
    pub fn set_expiry(&mut self, expiry: Option<i64>) {
        match (expiry, self.meta() & EXPIRY_BIT != 0) {
            // SAFETY: the bit says that the field is there.
            (Some(time), true) => unsafe { self.0.as_ptr().add(EXPIRY_OFFSET).cast::<i64>().write(time) },
            (None, false) => {}
            _ => {
                // SAFETY: the old shell is freed without its payload, which has moved.
                unsafe {
                    let rebuilt = self.moved(self.key(), expiry);
                    let old = ManuallyDrop::new(std::mem::replace(self, rebuilt));
                    dealloc(old.0.as_ptr(), old.layout());
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
            dealloc(old.0.as_ptr(), old.layout());
            renamed
        }
    }

    /// The value, taken out of the entry.
    pub fn into_value(self) -> Value {
        let this = ManuallyDrop::new(self);
        // SAFETY: the payload is moved out once, then the shell is freed without dropping it.
        unsafe {
            let value = match this.form() {
                Form::Embedded | Form::Integer => this.value().to_value(),
                Form::Large => Value::String(this.payload().cast::<Vec<u8>>().read()),
                Form::Collection => {
                    from_pointer(this.kind(), this.payload().cast::<NonNull<()>>().read().as_ptr())
                }
            };
            dealloc(this.0.as_ptr(), this.layout());
            value
        }
    }

    /// A copy under another key. Costs as much as the value is large.
    pub fn duplicate(&self, key: &[u8], expiry: Option<i64>) -> Entry {
        let payload = match (self.form(), self.value()) {
            (Form::Large, ValueRef::String(StringRef::Bytes(bytes))) => Payload::Large(bytes.to_vec()),
            (_, ValueRef::String(StringRef::Bytes(bytes))) => Payload::Embedded(bytes),
            (_, ValueRef::String(StringRef::Integer(number))) => Payload::Integer(number),
            (_, collection) => {
                let (kind, pointer) = into_pointer(collection.to_value());
                Payload::Collection(kind, pointer)
            }
        };
        let copy = Self::build(key, payload, expiry, self.clock());
        copy.change_meta(|meta| meta | self.meta() & WRITTEN_BIT);
        copy
    }

    /// The same value and clock in a new shell with another key or expiry.
    ///
    /// # Safety
    /// The payload moves: this entry's shell must then be freed without dropping it.
    unsafe fn moved(&self, key: &[u8], expiry: Option<i64>) -> Entry {
        // SAFETY: the form says what lies in the payload.
        let payload = unsafe {
            match self.form() {
                Form::Embedded => {
                    let len = self.payload().cast::<u32>().read() as usize;
                    let start = self.payload().add(4 + self.key_len());
                    Payload::Embedded(std::slice::from_raw_parts(start, len))
                }
                Form::Integer => Payload::Integer(self.payload().cast::<i64>().read()),
                Form::Large => Payload::Large(self.payload().cast::<Vec<u8>>().read()),
                Form::Collection => {
                    Payload::Collection(self.kind(), self.payload().cast::<NonNull<()>>().read())
                }
            }
        };
        let moved = Self::build(key, payload, expiry, self.clock());
        moved.change_meta(|meta| meta | self.meta() & WRITTEN_BIT);
        moved
    }

    /// Bytes that the entry takes: its allocation and what it owns, size classes included.
    pub fn memory_usage(&self) -> usize {
        let shell = class_size(self.layout().size());
        shell
            + match (self.form(), self.value()) {
                // SAFETY: the form says that the payload is a Vec.
                (Form::Large, _) => class_size(unsafe { (*self.payload().cast::<Vec<u8>>()).capacity() }),
                (_, ValueRef::String(_)) => 0,
                (_, ValueRef::List(list)) => list.memory_usage(),
                (_, ValueRef::Set(set)) => set.memory_usage(),
                (_, ValueRef::SortedSet(set)) => set.memory_usage(),
                (_, ValueRef::Hash(hash)) => hash.memory_usage(),
                (_, ValueRef::Stream(stream)) => stream.memory_usage(),
            }
    }

    /// About how many allocations freeing the entry takes; used to decide whether to do it in the background.
    pub fn free_effort(&self) -> usize {
        match self.value() {
            ValueRef::String(_) => 1,
            ValueRef::List(list) => list.len(),
            ValueRef::Set(set) => set.len(),
            ValueRef::SortedSet(set) => set.len(),
            ValueRef::Hash(hash) => hash.len(),
            ValueRef::Stream(stream) => stream.parts_len(),
        }
    }

    /// The address of the entry's memory, for prefetching.
    #[inline]
    pub fn address(&self) -> *const u8 {
        self.0.as_ptr()
    }

    fn build(key: &[u8], payload: Payload<'_>, expiry: Option<i64>, clock: u32) -> Entry {
        assert!(key.len() <= KEY_BYTES_MAX, "keys are checked against KEY_BYTES_MAX before they are stored");
        let (form, kind, value_len) = match &payload {
            Payload::Embedded(text) => (Form::Embedded, Kind::String, text.len()),
            Payload::Integer(_) => (Form::Integer, Kind::String, 0),
            Payload::Large(_) => (Form::Large, Kind::String, 0),
            Payload::Collection(kind, _) => (Form::Collection, *kind, 0),
        };
        let layout = layout_of(form, expiry.is_some(), key.len(), value_len);
        // SAFETY: the layout has at least eight bytes; every field written lies inside it, aligned as drawn
        // above.
        unsafe {
            let memory = alloc(layout);
            let Some(pointer) = NonNull::new(memory) else { handle_alloc_error(layout) };
            let meta = (clock & CLOCK_MASK)
                | (kind as u32) << KIND_SHIFT
                | if expiry.is_some() { EXPIRY_BIT } else { 0 }
                | (form as u32) << FORM_SHIFT;
            memory.cast::<u32>().write(meta);
            memory.add(4).cast::<u32>().write(key.len() as u32);
            if let Some(time) = expiry {
                memory.add(EXPIRY_OFFSET).cast::<i64>().write(time);
            }
            let entry = ManuallyDrop::new(Entry(pointer));
            let start = entry.payload();
            match payload {
                Payload::Embedded(text) => {
                    start.cast::<u32>().write(text.len() as u32);
                    let value = start.add(4 + key.len());
                    std::ptr::copy_nonoverlapping(text.as_ptr(), value, text.len());
                }
                Payload::Integer(number) => start.cast::<i64>().write(number),
                Payload::Large(bytes) => start.cast::<Vec<u8>>().write(bytes),
                Payload::Collection(_, pointer) => start.cast::<NonNull<()>>().write(pointer),
            }
            std::ptr::copy_nonoverlapping(key.as_ptr(), memory.add(entry.key_offset()), key.len());
            ManuallyDrop::into_inner(entry)
        }
    }

    /// Builds the entry anew with another payload, dropping the old value.
    fn rebuild(&mut self, expiry: Option<i64>, payload: Payload<'_>) {
        let rebuilt = Self::build(self.key(), payload, expiry, self.clock());
        drop(std::mem::replace(self, rebuilt));
    }

    /// Makes an embedded string `len` bytes long; the bytes are then to be written.
    fn resize_embedded(&mut self, len: usize) {
        let payload = self.payload();
        let old = self.layout();
        // SAFETY: the entry is embedded: its payload starts with the length, and the layout derives from it.
        unsafe {
            if payload.cast::<u32>().read() as usize == len {
                return;
            }
            let has_expiry = self.meta() & EXPIRY_BIT != 0;
            let new = layout_of(Form::Embedded, has_expiry, self.key_len(), len);
            let memory = realloc(self.0.as_ptr(), old, new.size());
            let Some(pointer) = NonNull::new(memory) else { handle_alloc_error(new) };
            self.0 = pointer;
            self.payload().cast::<u32>().write(len as u32);
        }
    }

    #[inline]
    fn meta_cell(&self) -> &AtomicU32 {
        // SAFETY: the first four bytes are the meta word, aligned to eight, and only ever accessed as this
        // atomic.
        unsafe { AtomicU32::from_ptr(self.0.as_ptr().cast()) }
    }

    #[inline]
    fn meta(&self) -> u32 {
        self.meta_cell().load(Ordering::Relaxed)
    }

    fn change_meta(&self, change: impl FnOnce(u32) -> u32) {
        self.meta_cell().store(change(self.meta()), Ordering::Relaxed);
    }

    #[inline]
    fn form(&self) -> Form {
        match (self.meta() >> FORM_SHIFT) & 3 {
            0 => Form::Embedded,
            1 => Form::Integer,
            2 => Form::Large,
            _ => Form::Collection,
        }
    }

    #[inline]
    fn key_len(&self) -> usize {
        // SAFETY: bytes 4 to 8 are the key's length.
        unsafe { self.0.as_ptr().add(4).cast::<u32>().read() as usize }
    }

    #[inline]
    fn payload(&self) -> *mut u8 {
        let offset = if self.meta() & EXPIRY_BIT != 0 { EXPIRY_OFFSET + 8 } else { EXPIRY_OFFSET };
        // SAFETY: every entry is at least as long as its header.
        unsafe { self.0.as_ptr().add(offset) }
    }

    #[inline]
    fn key_offset(&self) -> usize {
        header_size(self.form(), self.meta() & EXPIRY_BIT != 0)
    }

    fn layout(&self) -> Layout {
        let value_len = match self.form() {
            // SAFETY: an embedded string's payload starts with its length.
            Form::Embedded => unsafe { self.payload().cast::<u32>().read() as usize },
            _ => 0,
        };
        layout_of(self.form(), self.meta() & EXPIRY_BIT != 0, self.key_len(), value_len)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let layout = self.layout();
        // SAFETY: the payload is dropped once, then the shell freed with the layout it was allocated with.
        unsafe {
            match self.form() {
                Form::Embedded | Form::Integer => {}
                Form::Large => self.payload().cast::<Vec<u8>>().drop_in_place(),
                Form::Collection => drop(from_pointer(self.kind(), self.payload().cast::<*mut ()>().read())),
            }
            dealloc(self.0.as_ptr(), layout);
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = String::from_utf8_lossy(self.key()).into_owned();
        formatter.debug_struct("Entry").field("key", &key).field("value", &self.value()).finish()
    }
}

/// Bytes before the key.
#[inline]
fn header_size(form: Form, has_expiry: bool) -> usize {
    let payload = match form {
        Form::Embedded => 4,
        Form::Integer | Form::Collection => 8,
        Form::Large => size_of::<Vec<u8>>(),
    };
    EXPIRY_OFFSET + if has_expiry { 8 } else { 0 } + payload
}

fn layout_of(form: Form, has_expiry: bool, key_len: usize, value_len: usize) -> Layout {
    let size = header_size(form, has_expiry) + key_len + value_len;
    Layout::from_size_align(size, 8).expect("a key and an embedded value are far below the address space")
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

fn into_pointer(value: Value) -> (Kind, NonNull<()>) {
    fn leak<T>(boxed: Box<T>) -> NonNull<()> {
        NonNull::from(Box::leak(boxed)).cast()
    }
    let kind = value.kind();
    let pointer = match value {
        Value::List(list) => leak(list),
        Value::Set(set) => leak(set),
        Value::SortedSet(set) => leak(set),
        Value::Hash(hash) => leak(hash),
        Value::Stream(stream) => leak(stream),
        Value::String(_) | Value::Integer(_) => unreachable!("strings are stored without a box"),
    };
    (kind, pointer)
}

/// # Safety
/// `pointer` came from `into_pointer` with this kind, and is given back only once.
unsafe fn from_pointer(kind: Kind, pointer: *mut ()) -> Value {
    // SAFETY: the caller's promise.
    unsafe {
        match kind {
            Kind::List => Value::List(Box::from_raw(pointer.cast())),
            Kind::Set => Value::Set(Box::from_raw(pointer.cast())),
            Kind::SortedSet => Value::SortedSet(Box::from_raw(pointer.cast())),
            Kind::Hash => Value::Hash(Box::from_raw(pointer.cast())),
            Kind::Stream | Kind::String => Value::Stream(Box::from_raw(pointer.cast())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_encodings_as_redis_does() {
        let name = |entry: &Entry| entry.string_encoding();
        let mut entry = Entry::string(b"key", b"12", None, 0);
        assert_eq!(name(&entry), Some("int"));
        entry.mark_as_text();
        assert_eq!(name(&entry), Some("embstr"));
        entry.set_integer(5);
        assert_eq!(name(&entry), Some("int"));
        entry.bytes_mut().expect("a string").push(b'0');
        for entry in
            [&entry, &entry.duplicate(b"copy", Some(1)), &entry.duplicate(b"copy", None).renamed(b"x")]
        {
            assert_eq!(name(entry), Some("raw"));
            assert_eq!(entry.as_string(), Some(StringRef::Bytes(b"50")));
        }
        entry.set_string(&[b'a'; 38]);
        assert_eq!(name(&entry), Some("embstr"));
        entry.set_expiry(Some(1));
        assert_eq!(name(&entry), Some("raw"));
    }

    #[test]
    fn keeps_key_value_expiry_and_clock_through_every_change_of_form() {
        let long = vec![b'x'; 10_000];
        let mut entry = Entry::string(b"key", b"value", None, 77);
        for step in 0..200_u32 {
            let expiry = (step % 3 == 0).then_some(i64::from(step) * 1000);
            entry.set_expiry(expiry);
            let expected: Vec<u8> = match step % 7 {
                0 => b"12345".to_vec(),
                1 => long.clone(),
                2 => Vec::new(),
                3 => b"-9223372036854775808".to_vec(),
                4 => b"0123".to_vec(),
                5 => b"short".to_vec(),
                _ => {
                    let bytes = entry.bytes_mut().expect("a string");
                    bytes.extend_from_slice(b"++");
                    bytes.clone()
                }
            };
            if step % 7 < 6 {
                entry.set_string(&expected);
            }
            assert_eq!(entry.as_string().map(StringRef::to_vec), Some(expected));
            assert_eq!((entry.key(), entry.clock(), entry.expiry()), (&b"key"[..], 77, expiry));
        }
        entry.set_value(Value::List(Box::default()));
        entry.set_expiry(Some(5));
        entry.set_expiry(None);
        assert_eq!((entry.kind(), entry.key()), (Kind::List, &b"key"[..]));
        let copy = entry.duplicate(b"copy", Some(9));
        assert_eq!((copy.kind(), copy.key(), copy.expiry()), (Kind::List, &b"copy"[..], Some(9)));
        let entry = entry.renamed(b"other key");
        assert_eq!((entry.kind(), entry.key(), entry.clock()), (Kind::List, &b"other key"[..], 77));
        assert!(matches!(entry.into_value(), Value::List(_)));
    }
}
