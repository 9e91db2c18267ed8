//! Work on whole shards and databases.

use std::ops::Range;

use mantissa_store::{Database, Hash, KeyHash, LockedShards, Shard, ValueMut};

use super::Access;
use crate::effects::ExpiredFields;

impl Access<'_> {
    /// The number of shards.
    pub fn shard_count(&self) -> usize {
        self.locked.keyspace().shard_count()
    }

    /// Runs `work` on one shard, locking it for just that if none is locked. For commands with
    /// [`crate::Locks::Sweep`].
    pub fn visit_shard<R>(&mut self, index: usize, work: impl FnOnce(&mut Shard) -> R) -> R {
        self.locked.visit(index, work)
    }

    /// Notes keys, each with its database, that a sweep has found expired.
    pub(crate) fn note_expired(&mut self, keys: Vec<(usize, Box<[u8]>)>) {
        let keyspace = self.locked.keyspace();
        if !keys.is_empty() && !keyspace.keeps_expired() && !keyspace.pauses_expiry() {
            self.collected.effects().expired.extend(keys);
        }
    }

    /// Takes the keys that were found expired in shards that are not locked: the commit can not remove them.
    pub fn take_expired_elsewhere(&mut self) -> Vec<(usize, Box<[u8]>)> {
        if self.collected.noted().is_none_or(|effects| effects.expired.is_empty()) {
            return Vec::new();
        }
        let locked = &self.locked;
        let is_elsewhere = |(_, key): &mut (usize, Box<[u8]>)| {
            let keyspace = locked.keyspace();
            locked.shard(keyspace.shard_of(keyspace.hash(key))).is_none()
        };
        self.collected.effects().expired.extract_if(.., is_elsewhere).collect()
    }

    /// The part of the database that a key is in, if it is locked, and the key's hash.
    fn database_of(&mut self, key: &[u8]) -> Option<(&mut Database, KeyHash)> {
        let hash = self.hash(key);
        let index = self.locked.keyspace().shard_of(hash);
        let shard = self.locked.shard_mut(index)?;
        Some((shard.databases.get_mut(self.database)?, hash))
    }

    /// The hash at a key, to change, without marking it as used; `None` if there is none.
    pub(crate) fn peek_hash_mut(&mut self, key: &[u8]) -> Option<&mut Hash> {
        let (database, hash) = self.database_of(key)?;
        match database.get_mut(hash, key)?.collection_mut() {
            Some(ValueMut::Hash(hash)) => Some(hash),
            _ => None,
        }
    }

    /// Whether the hash at a key may have expired fields. Costs no lookup of the key.
    #[inline]
    pub(crate) fn may_have_expired_fields(&self, key: &[u8]) -> bool {
        let index = self.locked.keyspace().shard_of(self.hash(key));
        let database = self.locked.shard(index).and_then(|shard| shard.databases.get(self.database));
        database.is_some_and(|database| database.may_have_expired_fields(self.now_ms))
    }

    /// To be called when fields of the hash at a key may expire earlier than before.
    pub(crate) fn track_fields(&mut self, key: &[u8]) {
        if let Some((database, hash)) = self.database_of(key) {
            database.track_fields(hash, key);
        }
    }

    /// To be called when producers of the stream at a key have sent something.
    pub(crate) fn track_producers(&mut self, key: &[u8]) {
        if let Some((database, hash)) = self.database_of(key) {
            database.track_producers(hash, key);
        }
    }

    /// Whether commands come from the primary that this server follows.
    pub fn is_applied(&self) -> bool {
        self.is_applied
    }

    /// Whether the command comes from a file, and not from a primary.
    pub fn is_loading_file(&self) -> bool {
        self.is_loading() && !self.is_applied
    }

    /// Counts fields as expired.
    pub(crate) fn count_expired_fields(&mut self, count: usize) {
        self.collected.effects().expired_fields_count += count as u64;
    }

    /// Says that fields were removed from a hash because they had expired.
    pub(crate) fn expired_fields(&mut self, key: &[u8], fields: Vec<Box<[u8]>>) {
        self.count_expired_fields(fields.len());
        if self.is_logged {
            let (database, key) = (self.database, key.into());
            self.collected.effects().removed_fields.push(ExpiredFields { database, key, fields });
        }
    }

    /// Takes all keys out of all databases, as FLUSHALL does, and returns how many there were.
    pub fn flush_all(&mut self, lazily: bool) -> u64 {
        let count = self.flush(0..self.database_count(), lazily);
        let is_loaded = self.is_loading_file();
        self.collected.effects().emptied |= !is_loaded;
        count
    }

    /// The same, without counting or logging a change: what is put in their place is known to the files.
    pub fn take_all(&mut self) {
        self.take_keys(0..self.database_count());
    }

    /// Takes all keys out of some databases and returns how many there were. Watchers of one of them are
    /// marked, and copies that clients hold are forgotten; what was taken is freed after the command. All
    /// shards must be locked, so that the log has the flush in its place among the writes. `lazily` says
    /// whether they count as freed in the background.
    pub fn flush(&mut self, databases: Range<usize>, lazily: bool) -> u64 {
        let count = self.take_keys(databases);
        if lazily {
            self.collected.effects().to_free.lazy_objects += count;
        }
        self.collected.dirty += count;
        count
    }

    fn take_keys(&mut self, databases: Range<usize>) -> u64 {
        let keyspace = self.locked.keyspace();
        let mut count = 0;
        for index in 0..keyspace.shard_count() {
            let Some(shard) = self.locked.shard_mut(index) else { continue };
            shard.tracked.clear();
            for number in databases.clone() {
                if shard.databases[number].is_empty() {
                    continue;
                }
                if shard.has_watchers() {
                    for key in shard.watched_keys(number) {
                        let was_there = shard.databases[number].get(keyspace.hash(&key), &key).is_some();
                        shard.mark_swept(number, &key, was_there, None);
                    }
                }
                let awaited = shard.awaited_keys(number).into_iter();
                self.collected.effects().ready.extend(awaited.map(|key| (number, key)));
                count += shard.databases[number].len() as u64;
                self.collected.effects().to_free.databases.extend(shard.databases[number].take());
            }
        }
        self.collected.effects().flushed = true;
        count
    }

    /// Exchanges all databases with those of another keyspace, without counting or logging a change. Watchers
    /// of a key that was or is there are marked, copies that clients hold are forgotten, and keys that
    /// clients wait for and that came or went become ready. All shards must be locked, and none of the
    /// other keyspace by this thread.
    pub fn exchange_all(&mut self, other: &mut LockedShards<'_>) {
        let keyspace = self.locked.keyspace();
        for index in 0..keyspace.shard_count() {
            let (Some(shard), Some(theirs)) = (self.locked.shard_mut(index), other.shard_mut(index)) else {
                continue;
            };
            shard.tracked.clear();
            std::mem::swap(&mut shard.databases, &mut theirs.databases);
            for number in 0..shard.databases.len() {
                for key in shard.watched_keys(number) {
                    let hash = keyspace.hash(&key);
                    let was_there = theirs.databases[number].get(hash, &key).is_some();
                    let entry = shard.databases[number].get(hash, &key);
                    let after = entry.map(|entry| entry.expiry().is_some_and(|time| time <= self.now_ms));
                    shard.mark_swept(number, &key, was_there, after);
                }
                let awaited = shard.awaited_keys(number).into_iter();
                let ready = awaited.filter(|key| {
                    let hash = keyspace.hash(key);
                    let is_in = |databases: &[Database]| databases[number].get(hash, key).is_some();
                    is_in(&shard.databases) || is_in(&theirs.databases)
                });
                self.collected.effects().ready.extend(ready.map(|key| (number, key)));
            }
        }
        self.collected.effects().flushed = true;
    }

    /// Exchanges two databases. Watchers of a key of either are marked, and keys that clients wait for
    /// and that came or went become ready. All shards must be locked.
    pub fn swap_databases(&mut self, first: usize, second: usize) {
        self.collected.dirty += 1;
        if first == second {
            return;
        }
        let keyspace = self.locked.keyspace();
        for index in 0..keyspace.shard_count() {
            let Some(shard) = self.locked.shard_mut(index) else { continue };
            shard.databases.swap(first, second);
            for (number, other) in [(first, second), (second, first)] {
                for key in shard.watched_keys(number) {
                    let hash = keyspace.hash(&key);
                    let was_there = shard.databases[other].get(hash, &key).is_some();
                    let entry = shard.databases[number].get(hash, &key);
                    let after = entry.map(|entry| entry.expiry().is_some_and(|time| time <= self.now_ms));
                    shard.mark_swept(number, &key, was_there, after);
                }
                let there = |number: usize, key: &[u8]| {
                    shard.databases[number].get(keyspace.hash(key), key).is_some()
                };
                let awaited = shard.awaited_keys(number).into_iter();
                let ready = awaited.filter(|key| there(first, key) || there(second, key));
                self.collected.effects().ready.extend(ready.map(|key| (number, key)));
            }
        }
    }
}
