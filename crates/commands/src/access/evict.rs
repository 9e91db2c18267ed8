//! Removing a key by eviction.

use mantissa_store::{Entry, KeyHash, Shard};

use super::{Access, note_lost};
use crate::effects::{Event, EventClass, removal};

impl Access<'_> {
    /// Removes the key with this hash from the database in use, saying that it was evicted; its value is
    /// freed after the commit. False if it is not there, or if `is_wanted` does not hold for it.
    pub fn evict(&mut self, hash: KeyHash, is_wanted: impl FnOnce(&Entry) -> bool) -> bool {
        let index = self.locked.keyspace().shard_of(hash);
        let number = self.database;
        let Some(shard) = self.locked.shard_mut(index) else { return false };
        let Some(database) = shard.databases.get_mut(number) else { return false };
        let Some(entry) = database.get_hashed(hash).filter(|entry| is_wanted(entry)) else { return false };
        let key: Box<[u8]> = entry.key().into();
        let Some(entry) = database.remove(hash, &key) else { return false };
        if self.locked.shard(index).is_some_and(Shard::wants_changes) {
            self.collected.effects().changed.push((number, key.clone()));
        }
        if self.settings.notify & EventClass::EVICTED.0 != 0 {
            let (class, key) = (EventClass::EVICTED, key.clone());
            self.collected.effects().events.push(Event { class, name: "evicted", database: number, key });
        }
        if self.is_logged {
            self.collected.effects().removed_expired.push((
                number,
                key,
                removal(self.settings.lazy_eviction),
            ));
        }
        note_lost(self.collected, number, true, &entry);
        self.collected.free_later_as(self.settings.lazy_eviction, entry);
        true
    }
}
