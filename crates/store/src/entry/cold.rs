//! Entries whose value is on disk: see [`crate::cold`].

use std::ops::Range;

use super::{COLD, EMBEDDED_BYTES_MAX, Entry, Payload, SHAPE_SHIFT, Shape, WRITTEN_BIT};
use crate::cold::{
    Cold, ColdSlot, Elements, FieldTimes, Kept, Part, Place, Selected, SeriesFacts, ValueFacts,
};
use crate::text::{CHUNK_BYTES, Text};
use crate::value::{Kind, StringRef, Value, ValueMut, ValueRef};

impl Entry {
    /// The slot of a value on disk.
    #[inline]
    pub(super) fn cold_slot(&self) -> Option<&ColdSlot> {
        // SAFETY: the meta word says what lies there; it lives as long as the borrow.
        self.is_cold().then(|| unsafe { &*self.value_place().cast::<ColdSlot>() })
    }

    /// Whether the value is on disk, and perhaps in memory too.
    #[inline]
    pub fn is_cold(&self) -> bool {
        self.meta() >> SHAPE_SHIFT == COLD
    }

    /// Whether the value is in memory.
    #[inline]
    pub fn is_in_memory(&self) -> bool {
        self.cold_slot().is_none_or(ColdSlot::is_in_memory)
    }

    /// The record of a value on disk.
    pub fn cold(&self) -> Option<Cold> {
        self.cold_slot().map(ColdSlot::cold)
    }

    /// The record of a value that is on disk and not in memory.
    pub fn cold_only(&self) -> Option<Cold> {
        self.cold_slot().filter(|slot| !slot.is_in_memory()).map(ColdSlot::cold)
    }

    /// Where the record of a value on disk lies in its segment.
    pub fn cold_place(&self) -> Option<Place> {
        self.cold_slot().map(ColdSlot::place)
    }

    /// What is kept in memory of the value when it goes to disk. `None` if it must stay: a number in the
    /// entry, or one whose record would not be quite the same.
    pub fn cold_facts(&self) -> Option<ValueFacts> {
        let kind = self.kind();
        let may_go = match self.shape() {
            Shape::Integer => false,
            Shape::Embedded | Shape::Large => true,
            Shape::Collection if self.is_cold() => false,
            Shape::Collection => match self.value() {
                ValueRef::TopK(sketch) => !sketch.has_nameless_item(),
                _ => true,
            },
        };
        let is_written = self.written_bit() != 0;
        may_go.then(|| ValueFacts { kind, encoding: self.encoding(), is_written })
    }

    /// Bytes that would stay in memory of a value, beside its place, if it went to disk.
    pub fn bytes_kept_on_disk(&self) -> usize {
        Kept::bytes_of(self.value()).map_or(0, ColdSlot::kept_bytes)
    }

    fn cold_slot_mut(&mut self) -> Option<&mut ColdSlot> {
        // SAFETY: the meta word says that a slot lies there; the borrow is exclusive.
        self.is_cold().then(|| unsafe { &mut *self.value_place().cast::<ColdSlot>() })
    }

    /// Whether some fields of a hash on disk have expired.
    pub fn has_expired_fields_on_disk(&self, now_ms: i64) -> bool {
        self.cold_field_times().and_then(|times| times.earliest).is_some_and(|time| time <= now_ms)
    }

    /// What is kept of a value on disk beside its place.
    fn kept(&self) -> Option<&Kept> {
        self.cold_slot()?.kept()
    }

    /// When fields of a hash on disk expire, if some may.
    fn cold_field_times(&self) -> Option<&FieldTimes> {
        match self.kept()? {
            Kept::Fields(times) => Some(times),
            Kept::Series(_) => None,
        }
    }

    /// The same, to change.
    pub(crate) fn cold_field_times_mut(&mut self) -> Option<&mut FieldTimes> {
        match self.cold_slot_mut()?.kept_mut()? {
            Kept::Fields(times) => Some(times),
            Kept::Series(_) => None,
        }
    }

    /// The number of fields of a hash on disk if all of them have expired, else 0.
    pub(super) fn cold_expired_fields(&self, now_ms: i64) -> usize {
        self.cold_field_times().map_or(0, |times| times.expired_len(now_ms))
    }

    /// What is kept of a time series on disk.
    fn cold_series(&self) -> Option<&SeriesFacts> {
        match self.kept()? {
            Kept::Series(facts) => Some(facts),
            Kept::Fields(_) => None,
        }
    }

    /// Names and values of the labels of a time series, which is not read from disk for that.
    pub fn series_labels(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let in_memory = self.series().map(|series| &*series.options().labels).unwrap_or_default();
        let on_disk = self.cold_series().into_iter().flat_map(SeriesFacts::labels);
        in_memory.iter().map(|(name, value)| (&**name, &**value)).chain(on_disk)
    }

    /// The key of the series whose buckets a time series has.
    pub fn series_source(&self) -> Option<&[u8]> {
        match self.series() {
            Some(series) => series.source(),
            None => self.cold_series()?.source(),
        }
    }

    /// The keys of the series that have the buckets of a time series.
    pub fn series_destinations(&self) -> impl Iterator<Item = &[u8]> {
        let rules = self.series().map(|series| series.rules()).unwrap_or_default();
        let on_disk = self.cold_series().into_iter().flat_map(SeriesFacts::destinations);
        rules.iter().map(|rule| &*rule.destination).chain(on_disk)
    }

    /// Whether the value is a long string of which an image is being read.
    pub(crate) fn is_shared_text(&mut self) -> bool {
        self.is_long_text() && self.large_text().is_some_and(Text::is_shared)
    }

    /// Puts the record of the value in its place, which has the same value.
    pub fn cool(&mut self, cold: Cold) {
        debug_assert_eq!(cold.place().kind(), self.kind());
        let kept = if self.is_cold() { self.kept().cloned() } else { Kept::of(self.value()) };
        self.rebuild(self.expiry(), Payload::Cold(ColdSlot::new(cold, kept)));
    }

    /// The same; the value stays in memory too.
    pub fn cool_beside(&mut self, cold: Cold) {
        debug_assert!(!self.is_cold() && cold.place().kind() == self.kind());
        let kept = Kept::of(self.value());
        let payload = Payload::Cold(ColdSlot::new(cold, kept));
        let mut cooled = Self::build(self.key(), payload, self.expiry(), self.clock());
        cooled.set_mark(self.mark());
        let value = std::mem::replace(self, cooled).into_value();
        if let Some(slot) = self.cold_slot() {
            slot.keep(value);
        }
    }

    /// Whether the value is in this record.
    pub fn is_in_record(&self, cold: &Cold) -> bool {
        self.cold_slot().is_some_and(|slot| slot.cold().is_same(cold))
    }

    /// Bytes of the string, if its value is in the record that a part is of, and they are in that part.
    pub fn bytes_of<'p>(&self, part: &'p Part, range: Range<usize>) -> Option<&'p [u8]> {
        part.bytes(range).filter(|_| self.is_in_record(part.cold()))
    }

    /// The elements of a collection that a part has, if the collection is in the record that it is of, and
    /// not in memory.
    pub fn selected_in<'p>(&self, part: &'p Part) -> Option<(&'p Elements, &'p Selected)> {
        let elements = part.elements()?;
        let slot = self.cold_slot().filter(|slot| !slot.is_in_memory())?;
        slot.cold().is_same(part.cold()).then_some(elements)
    }

    /// Takes the value of a record, which another thread has read, to keep it in memory too. It is left where
    /// it is if the value is not in that record any more, or in memory already: freeing it may take long.
    pub fn keep_copy(&mut self, cold: &Cold, value: &mut Option<Value>) {
        let slot = self.cold_slot().filter(|slot| !slot.is_in_memory() && slot.cold().is_same(cold));
        if let (Some(slot), Some(value)) = (slot, slot.and_then(|_| value.take())) {
            slot.keep(value);
        }
    }

    /// Names another record of the same value. False if it is not in the record `from` any more.
    pub fn move_record(&mut self, from: &Cold, to: Cold) -> bool {
        let is_there = self.is_in_record(from);
        if is_there {
            let copy = self.take_copy();
            self.cool(to);
            if let (Some(value), Some(slot)) = (copy, self.cold_slot()) {
                slot.keep(value);
            }
        }
        is_there
    }

    /// Gives this record of a value up if the value is in memory too.
    pub fn leave_record(&mut self, cold: &Cold) {
        if self.is_in_memory() && self.is_in_record(cold) {
            self.warm();
        }
    }

    /// Reads a value that is only on disk, so that it is in memory too. The error is a sentence.
    pub fn bring(&self) -> Result<(), String> {
        if let Some(slot) = self.cold_slot().filter(|slot| !slot.is_in_memory()) {
            slot.keep(slot.cold().read()?);
        }
        Ok(())
    }

    /// Has `look` see the value, which is not kept in memory if it has to be read. The error is a sentence.
    pub fn look_at<R>(&self, look: impl FnOnce(ValueRef<'_>) -> R) -> Result<R, String> {
        match self.cold_only() {
            Some(cold) => cold.read().map(|value| look(value.borrow())),
            None => Ok(look(self.value())),
        }
    }

    /// Takes a value that is on disk out of memory. `None` if it was not in both. Freeing it may take long.
    pub fn take_copy(&mut self) -> Option<Value> {
        self.cold_slot_mut()?.forget()
    }

    /// The value, taken out of memory or read from disk. Its record stays.
    pub(super) fn take_value(&mut self) -> Value {
        if let Some(slot) = self.cold_slot() {
            slot.value();
        }
        match self.take_copy() {
            Some(value) => value,
            None => self.value().to_value(),
        }
    }

    /// Gives the record of a value on disk up and keeps the value in memory, which is to be changed.
    #[cold]
    pub(super) fn warm(&mut self) {
        let mut value = self.take_value();
        if let Some(kept) = self.kept() {
            kept.restore(&mut value);
        }
        let is_written = self.cold_place().is_some_and(Place::is_written);
        let payload = match value {
            Value::Integer(number) => Payload::Integer(number),
            Value::String(bytes) if bytes.len() > EMBEDDED_BYTES_MAX => Payload::Large(bytes.into()),
            Value::String(bytes) => {
                self.rebuild(self.expiry(), Payload::Embedded(&bytes));
                return self.restore_written(is_written);
            }
            collection => return self.rebuild(self.expiry(), Payload::Collection(collection)),
        };
        self.rebuild(self.expiry(), payload);
        self.restore_written(is_written);
    }

    /// The collection of a value on disk, to change; `None` for a string.
    #[cold]
    pub(super) fn warm_collection(&mut self) -> Option<ValueMut<'_>> {
        if self.kind() == Kind::String {
            return None;
        }
        self.warm();
        self.collection_mut()
    }

    fn restore_written(&mut self, is_written: bool) {
        if is_written {
            self.change_meta(|meta| meta | WRITTEN_BIT);
        }
    }

    /// The length of a string, which is not read from disk for that; `None` if the value is none.
    pub fn string_len(&self) -> Option<usize> {
        match self.cold_place() {
            Some(place) => (place.kind() == Kind::String).then(|| place.len()),
            None => self.as_string().map(StringRef::len),
        }
    }

    /// The length of a string that is on disk and not in memory.
    pub fn cold_text_len(&self) -> Option<usize> {
        let slot = self.cold_slot().filter(|slot| !slot.is_in_memory())?;
        (slot.place().kind() == Kind::String).then(|| slot.place().len())
    }

    /// The number of elements, or of bytes of a string; `None` if it would have to be read from disk.
    pub fn element_count(&self) -> Option<u64> {
        match self.string_len() {
            Some(len) => Some(len as u64),
            None => self.is_in_memory().then(|| self.value().element_count()),
        }
    }

    /// Whether an image of the value is another name of its record: if it is on disk only, or a string that
    /// would take long to copy.
    pub fn has_image_on_disk(&self) -> bool {
        self.is_cold() && (!self.is_in_memory() || self.string_len().is_some_and(|len| len > CHUNK_BYTES))
    }

    /// A copy for a snapshot.
    pub fn image(&self) -> Entry {
        match self.cold().filter(|_| self.has_image_on_disk()) {
            Some(cold) => {
                let payload = Payload::Cold(ColdSlot::new(cold, self.kept().cloned()));
                Self::build(self.key(), payload, self.expiry(), self.clock())
            }
            None => self.duplicate(self.key(), self.expiry()),
        }
    }
}
