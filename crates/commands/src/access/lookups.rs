//! Lookups that do not count, or do not mark a key as used, where [`Access::read`] does. What a change of a
//! key causes beside its count.

use mantissa_store::{Collection, Entry};

use super::{Access, Toucher};
use crate::error::{Error, Outcome};
use crate::settings::AccessClock;

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

    /// Sets the clock of a key that has been changed, where that is what the clock tells.
    #[cold]
    pub(super) fn mark_modified(&self, key: &[u8]) {
        let hash = self.hash(key);
        let shard = self.locked.shard(self.locked.keyspace().shard_of(hash));
        let database = shard.and_then(|shard| shard.databases.get(self.database));
        if let Some(entry) = database.and_then(|database| database.get(hash, key)) {
            let clock = Some(AccessClock::LeastRecentlyUsed);
            Toucher { clock, now_ms: self.clock_ms }.touch(entry);
        }
    }

    /// Notes a change for clients that watch the key, may hold a copy or wait for it to grow.
    #[cold]
    pub(super) fn note_change(&mut self, key: &[u8], shard: usize) {
        let shard = self.locked.shard(shard);
        let grows = shard.is_some_and(|shard| shard.has_growth_waiters(self.database, key));
        let effects = self.collected.effects();
        effects.changed.push((self.database, key.into()));
        if grows {
            effects.ready.push((self.database, key.into()));
        }
    }
}
