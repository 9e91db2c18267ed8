//! A shard: the part of every database whose keys hash to it, with the watchers and waiters of its keys.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;

use crate::ahead::Ahead;
use crate::deadlines::Deadlines;
use crate::entry::Entry;
use crate::key_hash::{KeyHash, KeyHasher};
use crate::label_index::LabelIndex;
use crate::series::Label;
use crate::shard_set::ShardSet;
use crate::snapshot::Part;
use crate::snapshot::moving::Moving;
use crate::table::{Found, Table};
use crate::tracked::{TrackedKeys, TrackedTotals};
use crate::value::{Kind, ValueMut, ValueRef};
use crate::{Collection, with_value};

/// One database's entries in one shard.
pub struct Database {
    pub(crate) table: Table<Entry>,
    pub(crate) hasher: KeyHasher,
    expiries: Expiries,
    pub(crate) observers: Observers,
    /// The hash after which the walk goes on that looks for expired fields.
    pub fields_cursor: Option<ListedHash>,
}

/// A hash with fields that have an expiry: the one under which it is listed, a Unix time in ms, and its key.
pub type ListedHash = (i64, Box<[u8]>);

/// Counts and indexes of a database's entries: those with an expiry, and series with labels.
#[derive(Default)]
struct Expiries {
    /// Entries with an expiry.
    keys: usize,
    /// The keys of hashes with fields that have an expiry, with the expiry under which each is here
    /// ([`crate::Hash::tracked_expiry`]): not after that of any of its fields.
    hashes: BTreeSet<ListedHash>,
    /// The keys of streams with producers, each with a time that is not after the one at which there is
    /// something to forget ([`crate::stream::Producers`]). Some may be gone, or on disk.
    streams: BTreeSet<(i64, Box<[u8]>)>,
    /// Series by their labels.
    labels: LabelIndex,
    /// Which parts of the table to look at for expired keys, and for keys with an expiry.
    deadlines: Deadlines,
}

impl Expiries {
    /// Counts an entry that has been added.
    #[inline]
    fn enter(&mut self, hash: KeyHash, entry: &mut Entry) {
        if let Some(expiry) = entry.expiry() {
            self.keys += 1;
            self.deadlines.note(hash, expiry);
        }
        self.track(entry);
        if entry.is_stream() {
            self.list_stream(entry, true);
        }
        self.labels.add(entry);
    }

    /// Uncounts an entry that is removed.
    #[inline]
    fn leave(&mut self, entry: &mut Entry) {
        self.keys -= usize::from(entry.expiry().is_some());
        if entry.is_hash() {
            self.track_as(entry, None);
        }
        if entry.is_cold() {
            self.list_cold(entry, false);
        }
        if entry.is_stream() {
            self.list_stream(entry, false);
        }
        self.labels.remove(entry);
    }

    /// Lists a stream under the time at which its producers have something to forget, or removes it from the
    /// list.
    fn list_stream(&mut self, entry: &mut Entry, is_listed: bool) {
        let Some(ValueMut::Stream(stream)) = entry.collection_mut() else { return };
        let Some(producers) = stream.producers_mut() else { return };
        let time = producers.next_forgotten_ms().filter(|_| is_listed);
        let before = std::mem::replace(&mut producers.listed, time);
        if before == time {
            // A copy of a listed stream is not listed itself.
            if let Some(time) = time {
                self.streams.insert((time, entry.key().into()));
            }
            return;
        }
        if let Some(time) = before {
            self.streams.remove(&(time, entry.key().into()));
        }
        if let Some(time) = time {
            self.streams.insert((time, entry.key().into()));
        }
    }

    /// Updates the counts after a key's expiry has been set or removed.
    #[inline]
    fn expiry_changed(&mut self, hash: KeyHash, before: Option<i64>, after: Option<i64>) {
        self.keys = self.keys + usize::from(after.is_some()) - usize::from(before.is_some());
        if let Some(expiry) = after {
            self.deadlines.note(hash, expiry);
        }
    }

    /// Lists a hash, in memory or on disk, under the earliest expiry of its fields, or removes it from the
    /// list if they have none.
    #[inline]
    fn track(&mut self, entry: &mut Entry) {
        if entry.is_hash() {
            self.track_hash(entry);
        } else if entry.is_cold() {
            self.list_cold(entry, true);
        }
    }

    fn track_hash(&mut self, entry: &mut Entry) {
        let expiry = match entry.value() {
            ValueRef::Hash(hash) => hash.earliest_expiry(),
            _ => None,
        };
        self.track_as(entry, expiry);
    }

    /// Lists a hash on disk under the earliest expiry of its fields, or removes it from the list.
    fn list_cold(&mut self, entry: &mut Entry, is_listed: bool) {
        let Some(times) = entry.cold_field_times_mut() else { return };
        let expiry = times.earliest.filter(|_| is_listed);
        let before = std::mem::replace(&mut times.listed, expiry);
        if let Some(time) = before {
            self.hashes.remove(&(time, entry.key().into()));
        }
        if let Some(time) = expiry {
            self.hashes.insert((time, entry.key().into()));
        }
    }

    fn track_as(&mut self, entry: &mut Entry, expiry: Option<i64>) {
        let Some(ValueMut::Hash(hash)) = entry.collection_mut() else { return };
        let before = hash.tracked_expiry();
        if before == expiry {
            return;
        }
        hash.set_tracked_expiry(expiry);
        if let Some(time) = before {
            self.hashes.remove(&(time, entry.key().into()));
        }
        if let Some(time) = expiry {
            self.hashes.insert((time, entry.key().into()));
        }
    }
}

/// An unexpired entry of a database, to change.
pub struct UnexpiredEntry<'a> {
    hash: KeyHash,
    entry: &'a mut Entry,
    expiries: &'a mut Expiries,
}

impl<'a> UnexpiredEntry<'a> {
    /// Sets or removes the expiry (Unix time in ms).
    pub fn set_expiry(&mut self, expiry: Option<i64>) {
        let before = self.entry.expiry();
        self.entry.set_expiry(expiry);
        self.expiries.expiry_changed(self.hash, before, expiry);
    }

    /// Puts another entry with the same key in its place, and returns the old one.
    pub fn replace(&mut self, entry: Entry) -> Entry {
        debug_assert_eq!(self.entry.key(), entry.key());
        let mut entry = entry;
        entry.set_mark(self.entry.mark());
        self.expiries.leave(self.entry);
        let old = std::mem::replace(self.entry, entry);
        self.expiries.enter(self.hash, self.entry);
        old
    }

    /// The entry for as long as the database is borrowed.
    #[inline]
    pub fn into_mut(self) -> &'a mut Entry {
        self.entry
    }
}

impl Deref for UnexpiredEntry<'_> {
    type Target = Entry;

    #[inline]
    fn deref(&self) -> &Entry {
        self.entry
    }
}

impl DerefMut for UnexpiredEntry<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Entry {
        self.entry
    }
}

/// What [`Database::find_unexpired`] found.
pub enum Lookup<'a> {
    /// An unexpired entry.
    Unexpired(UnexpiredEntry<'a>),
    /// An expired entry, which has been removed.
    Expired(Entry),
    /// Nothing.
    Missing,
}

/// What was in the place that [`Database::unexpired_or_insert`] returns.
pub enum Before {
    /// An unexpired entry: the one returned.
    Unexpired,
    /// An expired entry, which has been removed; the one returned is new.
    Expired(Entry),
    /// Nothing; the entry returned is new.
    Missing,
}

/// Those who have to know what changes.
#[derive(Default)]
pub(crate) struct Observers {
    /// The mark of entries that are delivered to the snapshot under way, or do not belong to it: see
    /// [`crate::snapshot`].
    pub epoch: bool,
    /// The snapshot under way, if this database has a part in it.
    pub snapshot: Option<Box<Part>>,
    /// Values that are going to disk.
    pub moving: Moving,
}

impl Observers {
    /// To be called before an entry is changed, or after it has been removed. The snapshot under way gets an
    /// image of it.
    #[inline]
    fn note_change(&mut self, entry: &mut Entry) {
        if self.snapshot.is_some() || !self.moving.is_empty() {
            self.tell(entry);
        }
    }

    #[inline(never)]
    fn tell(&mut self, entry: &mut Entry) {
        if let Some(part) = &mut self.snapshot
            && entry.mark() != self.epoch
        {
            part.hand_over(entry);
            entry.set_mark(self.epoch);
        }
        self.moving.note_change(entry);
    }
}

impl Database {
    /// An empty database.
    pub fn new(hasher: KeyHasher) -> Self {
        Database {
            table: Table::new(),
            hasher,
            expiries: Expiries::default(),
            observers: Observers::default(),
            fields_cursor: None,
        }
    }

    /// Prepares for `keys` keys, if there is none yet.
    pub fn reserve(&mut self, keys: usize) {
        self.table.reserve(keys);
    }

    /// Gives up memory that was reserved for keys that did not come, a part at a time: at most so many
    /// buckets. True if there is more.
    pub fn shrink_to_fit(&mut self, buckets_max: usize) -> bool {
        let hasher = self.hasher;
        self.table.shrink_to_fit(buckets_max, move |entry| hasher.hash(entry.key()).0)
    }

    /// The number of keys, including expired ones that have not been removed.
    #[inline]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The number of keys with an expiry.
    #[inline]
    pub fn with_expiry_len(&self) -> usize {
        self.expiries.keys
    }

    /// Whether keys or fields have an expiry, or had one when they were last looked through.
    #[inline]
    pub fn has_expiries(&self) -> bool {
        let Expiries { keys, hashes, .. } = &self.expiries;
        *keys > 0 || !hashes.is_empty() || self.fields_cursor.is_some()
    }

    /// The number of hashes with fields that have an expiry.
    pub fn hashes_with_expiry_len(&self) -> usize {
        self.expiries.hashes.len()
    }

    /// Whether a hash may have an expired field.
    #[inline]
    pub fn may_have_expired_fields(&self, now_ms: i64) -> bool {
        self.expiries.hashes.first().is_some_and(|&(time, _)| time <= now_ms)
    }

    /// The keys of the hashes that may have expired fields, each with the expiry under which it is listed,
    /// the earliest first, from [`Database::fields_cursor`] on.
    pub fn hashes_with_expired_fields(&self, now_ms: i64) -> impl Iterator<Item = &ListedHash> {
        let from = self.fields_cursor.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let listed = self.expiries.hashes.range((from, Bound::Unbounded));
        listed.take_while(move |(time, _)| *time <= now_ms)
    }

    /// To be called when the expiries of a hash's fields have changed.
    pub fn track_fields(&mut self, hash: KeyHash, key: &[u8]) {
        if let Some(entry) = self.table.get_mut(hash.0, |entry| entry.key() == key) {
            self.expiries.track(entry);
        }
    }

    /// To be called when producers of a stream have sent something.
    pub fn track_producers(&mut self, hash: KeyHash, key: &[u8]) {
        if let Some(entry) = self.table.get_mut(hash.0, |entry| entry.key() == key)
            && entry.is_stream()
        {
            self.expiries.list_stream(entry, true);
        }
    }

    /// Has streams forget up to about `max` names that producers have used so long before `now_ms`, a Unix
    /// time in ms, that they are not known any more. Returns how many that were, and streams that had none.
    pub fn forget_sent(&mut self, now_ms: i64, max: usize) -> usize {
        let mut count = 0;
        while count < max {
            if self.expiries.streams.first().is_none_or(|(time, _)| *time > now_ms) {
                break;
            }
            let Some((_, key)) = self.expiries.streams.pop_first() else { break };
            let hash = self.hasher.hash(&key);
            count += 1;
            let Some(entry) = self.table.get_mut(hash.0, |entry| entry.key() == &*key) else { continue };
            if !entry.is_stream() {
                continue;
            }
            self.observers.note_change(entry);
            if let Some(ValueMut::Stream(stream)) = entry.collection_mut()
                && let Some(producers) = stream.producers_mut()
            {
                count += producers.forget(now_ms, max - count);
                self.expiries.list_stream(entry, true);
            }
        }
        count
    }

    /// The series that have labels.
    pub fn labels(&self) -> &LabelIndex {
        &self.expiries.labels
    }

    /// Gives a series other labels.
    pub fn set_labels(&mut self, hash: KeyHash, key: &[u8], labels: Box<[Label]>) {
        let Some(entry) = self.table.get_mut(hash.0, |entry| entry.key() == key) else { return };
        self.observers.note_change(entry);
        self.expiries.labels.remove(entry);
        if let Some(ValueMut::Series(series)) = entry.collection_mut() {
            series.options_mut().labels = labels;
        }
        self.expiries.labels.add(entry);
    }

    /// The entry of a key, whether or not it has expired.
    #[inline]
    pub fn get(&self, hash: KeyHash, key: &[u8]) -> Option<&Entry> {
        self.table.get(hash.0, |entry| entry.key() == key)
    }

    /// The entry of a key, to change. Its expiry is changed through [`Database::set_expiry`] only.
    #[inline]
    pub fn get_mut(&mut self, hash: KeyHash, key: &[u8]) -> Option<&mut Entry> {
        let entry = self.table.get_mut(hash.0, |entry| entry.key() == key)?;
        self.observers.note_change(entry);
        Some(entry)
    }

    /// The entry of a key, to change. One that has expired at `now_ms` (Unix time in ms) is removed. One
    /// lookup.
    #[inline]
    pub fn find_unexpired(&mut self, hash: KeyHash, key: &[u8], now_ms: i64) -> Lookup<'_> {
        let hasher = self.hasher;
        let found = self.table.get_or_take(
            hash.0,
            |entry| entry.key() == key,
            |entry| entry.has_expired(now_ms),
            move |entry| hasher.hash(entry.key()).0,
        );
        match found {
            Found::Kept(entry) => {
                self.observers.note_change(entry);
                Lookup::Unexpired(UnexpiredEntry { hash, entry, expiries: &mut self.expiries })
            }
            Found::Taken(mut entry) => {
                self.observers.note_change(&mut entry);
                self.expiries.leave(&mut entry);
                Lookup::Expired(entry)
            }
            Found::Missing => Lookup::Missing,
        }
    }

    /// The entry of a key, to change, or the new one that `make` returns where there is none or one that
    /// has expired at `now_ms` (Unix time in ms); and what was there. The new entry must have the same
    /// key. One lookup.
    #[inline]
    pub fn unexpired_or_insert(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        now_ms: i64,
        make: impl Fn() -> Entry,
    ) -> (UnexpiredEntry<'_>, Before) {
        let (hasher, epoch) = (self.hasher, self.observers.epoch);
        let make = || {
            let mut entry = make();
            entry.set_mark(epoch);
            entry
        };
        let (entry, is_new) = self.table.get_or_insert_with(
            hash.0,
            |entry| entry.key() == key,
            &make,
            move |entry| hasher.hash(entry.key()).0,
        );
        let mut before = if is_new { Before::Missing } else { Before::Unexpired };
        self.observers.note_change(entry);
        if !is_new && entry.has_expired(now_ms) {
            self.expiries.leave(entry);
            before = Before::Expired(std::mem::replace(entry, make()));
        }
        if !matches!(before, Before::Unexpired) {
            self.expiries.enter(hash, entry);
        }
        (UnexpiredEntry { hash, entry, expiries: &mut self.expiries }, before)
    }

    /// Adds an entry whose key is not there.
    pub fn insert(&mut self, hash: KeyHash, entry: Entry) -> &mut Entry {
        debug_assert!(self.get(hash, entry.key()).is_none());
        let mut entry = entry;
        entry.set_mark(self.observers.epoch);
        self.expiries.enter(hash, &mut entry);
        let hasher = self.hasher;
        self.table.insert(hash.0, entry, move |entry| hasher.hash(entry.key()).0)
    }

    /// Adds an entry, or returns it where its key is there already.
    pub fn insert_new(&mut self, hash: KeyHash, entry: Entry) -> Option<Entry> {
        if self.get(hash, entry.key()).is_some() {
            return Some(entry);
        }
        self.insert(hash, entry);
        None
    }

    /// Removes and returns the entry of a key.
    pub fn remove(&mut self, hash: KeyHash, key: &[u8]) -> Option<Entry> {
        let hasher = self.hasher;
        let mut removed =
            self.table.remove(hash.0, |entry| entry.key() == key, move |entry| hasher.hash(entry.key()).0);
        if let Some(entry) = &mut removed {
            self.observers.note_change(entry);
            self.expiries.leave(entry);
        }
        removed
    }

    /// Sets or removes the expiry of a key; false if the key is not there.
    pub fn set_expiry(&mut self, hash: KeyHash, key: &[u8], expiry: Option<i64>) -> bool {
        let Some(entry) = self.table.get_mut(hash.0, |entry| entry.key() == key) else { return false };
        self.observers.note_change(entry);
        let before = entry.expiry();
        entry.set_expiry(expiry);
        self.expiries.expiry_changed(hash, before, expiry);
        true
    }

    /// Has [`Database::visit_due`] visit a key with an expiry again.
    pub fn note_expiry(&mut self, hash: KeyHash, key: &[u8]) {
        if let Some(expiry) = self.get(hash, key).and_then(Entry::expiry) {
            self.expiries.deadlines.note(hash, expiry);
        }
    }

    /// Visits a part of the entries; see [`Table::scan`].
    pub fn scan(&self, cursor: u64, visit: impl FnMut(&Entry)) -> u64 {
        self.table.scan(cursor, visit)
    }

    /// Moves what a part of the entries has in sparsely used memory (see [`slab::begin_compaction`]),
    /// and returns the cursor of the next part, as [`Table::scan`] does. Large collections come in slices:
    /// the cursor stays, and the number of the slice rises, until the last one of all has been visited.
    /// Both start at 0, and are 0 at the end.
    pub fn compact(&mut self, cursor: u64, slice: usize) -> (u64, usize) {
        let mut has_more = false;
        let next = self.table.scan_mut(cursor, |entry| has_more |= entry.compact(slice));
        if has_more { (cursor, slice + 1) } else { (next, 0) }
    }

    /// All entries, in no particular order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.table.iter()
    }

    /// An entry picked with equal probability.
    pub fn random(&self, random: impl FnMut() -> u64) -> Option<&Entry> {
        self.table.random(random)
    }

    /// Visits the entries of a bucket that `random` chooses: a few, none or up to about fourteen.
    pub fn sample(&self, random: u64, visit: impl FnMut(&Entry)) {
        self.table.scan(random, visit);
    }

    /// The entry of a key of which only the hash is known.
    pub fn get_hashed(&self, hash: KeyHash) -> Option<&Entry> {
        self.table.get(hash.0, |entry| self.hasher.hash(entry.key()) == hash)
    }

    /// Changes how the value of the key with this hash is kept, which must stay the same: a snapshot that is
    /// under way is not told.
    pub fn keep_otherwise<R>(
        &mut self,
        hash: KeyHash,
        is_key: impl Fn(&Entry) -> bool,
        change: impl FnOnce(&mut Entry) -> R,
    ) -> Option<R> {
        let hasher = self.hasher;
        let found = self.table.get_mut(hash.0, |entry| is_key(entry) && hasher.hash(entry.key()) == hash);
        found.map(change)
    }

    /// Visits the next of the small parts of the table in which a key may have expired at `now_ms` (Unix time
    /// in ms), all of its entries. False if there is none. The visitor returns whether the entry will be
    /// removed; one with an expiry that will not is visited again at that time, or soon if it has passed.
    pub fn visit_due(&mut self, now_ms: i64, mut visit: impl FnMut(&Entry) -> bool) -> bool {
        let deadlines = &mut self.expiries.deadlines;
        deadlines.fit(self.table.bucket_count());
        let Some(group) = deadlines.next_due(now_ms) else { return false };
        let mut earliest: Option<i64> = None;
        self.scan_group(group, 0, |entry| {
            if let (false, Some(expiry)) = (visit(entry), entry.expiry()) {
                earliest = Some(earliest.map_or(expiry, |earliest| earliest.min(expiry)));
            }
            true
        });
        self.expiries.deadlines.settle(group, earliest);
        true
    }

    /// Whether parts of the table that [`Database::visit_due`] chooses may have nothing that has expired,
    /// because the table has grown.
    pub fn visits_in_vain(&self) -> bool {
        self.expiries.deadlines.is_split()
    }

    /// Visits entries with an expiry of a part of the table that `random` chooses, about `wanted` of them if
    /// the part has so many. Such parts are found as fast where few keys have an expiry.
    pub fn sample_with_expiry(&self, random: u64, wanted: usize, visit: impl FnMut(&Entry)) {
        if let Some(group) = self.expiries.deadlines.random(random) {
            self.sample_group((group, random), wanted, visit);
        }
    }

    /// The same; a part of which no key has an expiry any more is not chosen again.
    pub fn draw_with_expiry(&mut self, random: u64, wanted: usize, visit: impl FnMut(&Entry)) {
        self.expiries.deadlines.fit(self.table.bucket_count());
        let Some(group) = self.expiries.deadlines.random(random) else { return };
        if self.sample_group((group, random), wanted, visit) == 0 {
            self.expiries.deadlines.settle(group, None);
        }
    }

    /// Visits entries of a group with an expiry, from a place that `random` chooses, and returns how many.
    fn sample_group(
        &self,
        (group, random): (usize, u64),
        wanted: usize,
        mut visit: impl FnMut(&Entry),
    ) -> usize {
        let mut found = 0;
        self.scan_group(group, random, |entry| {
            if entry.expiry().is_some() {
                found += 1;
                visit(entry);
            }
            found < wanted
        });
        found
    }

    /// Visits the entries of a group of [`Deadlines`] from a place that `random` chooses, until the visitor
    /// returns false for the last one of a step.
    fn scan_group(&self, group: usize, random: u64, mut visit: impl FnMut(&Entry) -> bool) {
        let Some(level) = self.table.bucket_count().checked_ilog2() else { return };
        let groups = self.expiries.deadlines.len() as u64;
        let mask = (1_u64 << level) - 1;
        let begin = group as u64 & mask;
        let first = (begin | random.wrapping_mul(groups)) & mask;
        let mut cursor = first;
        loop {
            let mut goes_on = true;
            cursor = self.table.scan(cursor, |entry| goes_on = visit(entry));
            // The cursors of a group follow one another: they differ in their high bits, which change first.
            if cursor == 0 || cursor & (groups - 1) != begin {
                cursor = begin;
            }
            if !goes_on || cursor == first {
                return;
            }
        }
    }

    /// Fetches the bucket of a key ahead of its use.
    #[inline]
    pub fn prefetch_bucket(&self, hash: KeyHash) {
        self.table.prefetch(hash.0);
    }

    /// Fetches the entry of a key ahead of its use; its bucket should be near already.
    #[inline]
    pub fn prefetch_entry(&self, hash: KeyHash) {
        if let Some(entry) = self.candidate(hash) {
            entry.prefetch();
        }
    }

    /// The entry that a key with this hash very likely has, if there is one.
    #[inline]
    pub(crate) fn candidate(&self, hash: KeyHash) -> Option<&Entry> {
        self.table.candidate(hash.0)
    }

    /// Fetches for commands with the same key. Whether it is that of a large collection.
    pub(crate) fn fetch_ahead(&self, commands: &[Ahead<'_>]) -> bool {
        let entry = commands.first().and_then(|command| self.candidate(command.key));
        entry.is_some_and(|entry| {
            entry.is_in_memory()
                && with_value!(entry.value(), _ => false, value => Collection::prefetch(value, commands))
        })
    }

    /// Bytes that the table takes, without its entries.
    pub fn table_bytes(&self) -> usize {
        self.table.memory_usage()
    }

    /// The number of buckets of the table.
    pub fn bucket_count(&self) -> usize {
        self.table.bucket_count()
    }
}

/// A key in a database, to which watchers and waiters belong.
pub type DatabaseKey = (usize, Box<[u8]>);

/// A client that waits for keys. Its keys share it: the set of shards is large.
#[derive(Debug)]
pub struct Waiter {
    /// The client, in the server's numbering.
    pub client: u64,
    /// The type of value that the client waits for.
    pub kind: Kind,
    /// The shards that serving the client may write to, those of its keys included.
    pub shards: ShardSet,
    /// Whether the client is served as well when the key is gone or holds another type.
    pub on_loss: bool,
    /// Whether the client is tried again whenever the key changes.
    pub on_growth: bool,
}

/// A client that watches a key.
struct Watcher {
    /// To be set when the key changes.
    flag: Arc<AtomicBool>,
    /// The key had expired when it was first watched, and is still there: its removal is no change.
    has_expired: bool,
}

impl Watcher {
    fn mark(&self) {
        self.flag.store(true, Ordering::Release);
    }
}

/// Keys with how many waiters of a kind they have, at least one.
type Counted = HashMap<DatabaseKey, usize, foldhash::fast::RandomState>;

fn count_down(counted: &mut Counted, place: &DatabaseKey) {
    if let Some(count) = counted.get_mut(place) {
        *count -= 1;
        if *count == 0 {
            counted.remove(place);
        }
    }
}

/// Everything that one lock protects.
pub struct Shard {
    /// One per database number.
    pub databases: Vec<Database>,
    /// Keys of which clients may hold copies.
    pub tracked: TrackedKeys,
    /// See [`crate::LockedShards::note_logged`].
    pub(crate) logged_at: u64,
    watchers: HashMap<DatabaseKey, Vec<Watcher>, foldhash::fast::RandomState>,
    waiters: HashMap<DatabaseKey, BTreeMap<u64, Arc<Waiter>>, foldhash::fast::RandomState>,
    /// How many of a key's waiters are served when it is gone, where there are some.
    loss_waiters: Counted,
    /// How many of a key's waiters are tried again when it changes, where there are some.
    growth_waiters: Counted,
    /// The number of waiters with several shards.
    wide_waiter_count: usize,
    /// Covers the union of `Waiter::shards` over those; empty if there is none.
    waiter_shards: ShardSet,
}

impl Shard {
    /// An empty shard.
    pub fn new(database_count: usize, hasher: KeyHasher, totals: Arc<TrackedTotals>) -> Self {
        Shard {
            databases: (0..database_count).map(|_| Database::new(hasher)).collect(),
            tracked: TrackedKeys::new(hasher, totals),
            logged_at: 0,
            watchers: HashMap::default(),
            waiters: HashMap::default(),
            loss_waiters: HashMap::default(),
            growth_waiters: HashMap::default(),
            wide_waiter_count: 0,
            waiter_shards: ShardSet::EMPTY,
        }
    }

    /// Adds a flag to be set when the key changes. `has_expired`: the key is there and has expired.
    pub fn watch(&mut self, database: usize, key: &[u8], flag: Arc<AtomicBool>, has_expired: bool) {
        let watcher = Watcher { flag, has_expired };
        self.watchers.entry((database, key.into())).or_default().push(watcher);
    }

    /// Whether the key had expired when it was first watched with this flag.
    pub fn watches_expired(&self, database: usize, key: &[u8], flag: &Arc<AtomicBool>) -> bool {
        let watchers = self.watchers.get(&(database, Box::<[u8]>::from(key))).into_iter().flatten();
        watchers.into_iter().any(|watcher| watcher.has_expired && Arc::ptr_eq(&watcher.flag, flag))
    }

    /// Removes a flag.
    pub fn unwatch(&mut self, database: usize, key: &[u8], flag: &Arc<AtomicBool>) {
        let place = (database, key.into());
        if let Some(flags) = self.watchers.get_mut(&place) {
            flags.retain(|other| !Arc::ptr_eq(&other.flag, flag));
            if flags.is_empty() {
                self.watchers.remove(&place);
            }
        }
    }

    /// Whether any key of the shard is watched.
    #[inline]
    pub fn has_watchers(&self) -> bool {
        !self.watchers.is_empty()
    }

    /// Whether changes of the shard's keys have to be noted: a client watches one of them, may hold a copy or
    /// waits for one to grow.
    #[inline]
    pub fn wants_changes(&self) -> bool {
        self.has_watchers() || self.tracked.wants_changes() || !self.growth_waiters.is_empty()
    }

    /// Sets the flags of the clients that watch the key.
    pub fn mark_watchers(&self, database: usize, key: &[u8]) {
        if let Some(flags) = self.watchers.get(&(database, Box::<[u8]>::from(key))) {
            flags.iter().for_each(Watcher::mark);
        }
    }

    /// The same for a key that has been removed because it had expired.
    pub fn mark_expired(&mut self, database: usize, key: &[u8]) {
        self.mark_swept(database, key, true, None);
    }

    /// The same for a key whose database has been emptied or replaced by another. `was_there` says whether
    /// the key was there before, `after` whether it is there now, and if so whether it has expired.
    pub fn mark_swept(&mut self, database: usize, key: &[u8], was_there: bool, after: Option<bool>) {
        let watchers = self.watchers.get_mut(&(database, Box::<[u8]>::from(key)));
        for watcher in watchers.into_iter().flatten() {
            match after {
                None if watcher.has_expired => watcher.has_expired = false,
                Some(true) if watcher.has_expired || !was_there => watcher.has_expired = true,
                None if !was_there => {}
                _ => watcher.mark(),
            }
        }
    }

    /// The watched keys of one database.
    pub fn watched_keys(&self, database: usize) -> Vec<Box<[u8]>> {
        let keys = self.watchers.keys().filter(|(number, _)| *number == database);
        keys.map(|(_, key)| key.clone()).collect()
    }

    /// Adds a waiter for the key, unless it waits for that already: a command may name a key twice. Waiters
    /// are served in the order of their tickets, which grow.
    pub fn wait(&mut self, database: usize, key: &[u8], ticket: u64, waiter: Arc<Waiter>) {
        let queue = self.waiters.entry((database, key.into())).or_default();
        if queue.contains_key(&ticket) {
            return;
        }
        if waiter.shards.count() > 1 {
            self.wide_waiter_count += 1;
            self.waiter_shards = self.waiter_shards.union(waiter.shards);
        }
        if waiter.on_loss {
            *self.loss_waiters.entry((database, key.into())).or_default() += 1;
        }
        if waiter.on_growth {
            *self.growth_waiters.entry((database, key.into())).or_default() += 1;
        }
        queue.insert(ticket, waiter);
    }

    /// Removes a waiter from the key's queue.
    pub fn stop_waiting(&mut self, database: usize, key: &[u8], ticket: u64) {
        let place = (database, key.into());
        let Some(queue) = self.waiters.get_mut(&place) else { return };
        let Some(waiter) = queue.remove(&ticket) else { return };
        if queue.is_empty() {
            self.waiters.remove(&place);
        }
        if waiter.on_loss {
            count_down(&mut self.loss_waiters, &place);
        }
        if waiter.on_growth {
            count_down(&mut self.growth_waiters, &place);
        }
        if waiter.shards.count() > 1 {
            self.wide_waiter_count -= 1;
            if self.wide_waiter_count == 0 {
                self.waiter_shards = ShardSet::EMPTY;
            }
        }
    }

    /// Whether a client waits for a key of the shard.
    #[inline]
    pub fn has_waiters(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// The first to wait for the key after the holder of a ticket, with its ticket. Tickets start at 1.
    pub fn next_waiter(&self, database: usize, key: &[u8], after: u64) -> Option<(u64, &Waiter)> {
        let queue = self.waiters.get(&(database, Box::<[u8]>::from(key)))?;
        queue.range(after + 1..).next().map(|(&ticket, waiter)| (ticket, &**waiter))
    }

    /// Whether one of those who wait for the key is served when it is gone.
    pub fn has_loss_waiters(&self, database: usize, key: &[u8]) -> bool {
        self.loss_waiters.contains_key(&(database, Box::<[u8]>::from(key)))
    }

    /// Whether one of those who wait for the key is tried again when it changes.
    pub fn has_growth_waiters(&self, database: usize, key: &[u8]) -> bool {
        !self.growth_waiters.is_empty()
            && self.growth_waiters.contains_key(&(database, Box::<[u8]>::from(key)))
    }

    /// The keys of one database that clients wait for.
    pub fn awaited_keys(&self, database: usize) -> Vec<Box<[u8]>> {
        let keys = self.waiters.keys().filter(|(number, _)| *number == database);
        keys.map(|(_, key)| key.clone()).collect()
    }

    /// The number of keys that clients wait for.
    pub fn awaited_len(&self) -> usize {
        self.waiters.len()
    }

    /// The shards that serving this shard's waiters may write to, if more than this one (or a superset of
    /// them).
    #[inline]
    pub fn waiter_shards(&self) -> ShardSet {
        self.waiter_shards
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_named_twice_is_waited_for_once() {
        let mut shard = Shard::new(1, KeyHasher::of_this_run(), Arc::default());
        let shards = ShardSet::first(2);
        let waiter =
            Arc::new(Waiter { client: 1, kind: Kind::Stream, shards, on_loss: true, on_growth: true });
        for _ in 0..2 {
            shard.wait(0, b"key", 1, Arc::clone(&waiter));
        }
        assert!(shard.has_loss_waiters(0, b"key") && shard.waiter_shards().covers(shards));
        for _ in 0..2 {
            shard.stop_waiting(0, b"key", 1);
        }
        assert!(
            !shard.has_waiters() && !shard.has_loss_waiters(0, b"key") && shard.waiter_shards().is_empty()
        );
    }
}
