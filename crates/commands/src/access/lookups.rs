//! Lookups that do not count, or do not mark a key as used, where [`Access::read`] does.

use mantissa_store::{Collection, Entry};

use super::Access;
use crate::error::{Error, Outcome};

impl Access<'_> {
    /// The unexpired entry of a key, for OBJECT: counts the lookup, but does not mark the key as used, and a
    /// missing key is no event.
    pub fn read_silently(&self, key: &[u8]) -> Option<&Entry> {
        let entry = self.peek(key);
        if entry.is_some() {
            self.collected.hit()
        } else {
            self.collected.miss()
        }
        entry
    }

    /// The collection of a type at a key, to look at by a command that writes: marks the key as used, but
    /// counts no lookup.
    pub fn collection_to_write<T: Collection>(&self, key: &[u8]) -> Outcome<Option<&T>> {
        let Some(entry) = self.peek(key) else { return Ok(None) };
        self.toucher().touch(entry);
        T::of(self.value_of(entry)).map(Some).ok_or(Error::WRONG_TYPE)
    }
}
