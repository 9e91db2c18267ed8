//! Consumer groups of a stream: the last delivered identifier of each group, and its pending entries with
//! their consumers.
//!
//! A group owns the list of pending entries by identifier; each consumer owns the set of identifiers that it
//! holds. Invariant: the sets of the consumers are disjoint and their union is the list without those entries
//! that were given back; every other one names the consumer whose set it is in. All changes go through
//! [`Group`], which keeps it. Every operation is O(log n), but for removing a consumer. A clone is O(1), and
//! a change while it lives copies a short run of pending entries and one consumer; a new or removed consumer
//! the names of all.
//!
//! A group from which idle entries were asked for keeps its pending entries by age as well: what that takes,
//! in time and memory, others save.

use super::consumers::Consumers;
use super::id_map::RunMap;
use super::{IdMap, StreamId, StreamLevel};

/// Names a consumer within its group for as long as it lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ConsumerId(u64);

impl ConsumerId {
    /// No consumer: that of entries that were given back.
    pub const NOBODY: ConsumerId = ConsumerId(u64::MAX);
}

/// One delivered and not yet acknowledged entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pending {
    /// The consumer that it was delivered to, or [`ConsumerId::NOBODY`].
    pub consumer: ConsumerId,
    /// When it was last delivered, as unix time in milliseconds; of an entry that was given back, its place
    /// in the order of these.
    pub delivered_at_ms: i64,
    /// How often it was delivered.
    pub delivery_count: u64,
}

impl Pending {
    /// Whether it was given back, and nobody has claimed it since.
    pub fn is_given_back(&self) -> bool {
        self.consumer == ConsumerId::NOBODY
    }

    /// When it was last delivered, as unix time in milliseconds; 0 if it was given back.
    pub fn last_delivery_ms(&self) -> i64 {
        if self.is_given_back() { 0 } else { self.delivered_at_ms }
    }

    /// The number of deliveries after one more. What has been given up for good stays so.
    pub fn delivery_count_after(&self) -> u64 {
        let count = self.delivery_count;
        if self.is_given_back() && count == Pending::DELIVERIES_MAX { count } else { count.saturating_add(1) }
    }

    /// The number of deliveries of an entry that is not to be delivered again.
    pub const DELIVERIES_MAX: u64 = i64::MAX as u64;
}

/// A consumer of a group.
#[derive(Clone, Debug)]
pub struct Consumer {
    id: ConsumerId,
    name: Box<[u8]>,
    /// When it last asked for anything, as unix time in milliseconds.
    pub seen_at_ms: i64,
    /// When it last got anything, as unix time in milliseconds; -1 for never.
    pub active_at_ms: i64,
    pending: IdMap<()>,
}

impl Consumer {
    pub(super) fn id(&self) -> ConsumerId {
        self.id
    }

    /// Its name, unique in the group.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The entries it holds, in order.
    pub fn pending(&self) -> &IdMap<()> {
        &self.pending
    }
}

/// A consumer group.
#[derive(Clone, Default, Debug)]
pub struct Group {
    /// The last entry that was delivered to a consumer.
    pub last_delivered: StreamId,
    /// How many entries were read up to it, where that is known.
    pub entries_read: Option<u64>,
    pending: IdMap<Pending>,
    consumers: Consumers,
    next_consumer: u64,
    given_back_len: usize,
    next_given_back: i64,
    ages: Option<Box<Ages>>,
}

/// Pending entries, those first that were given back, and then by the time of their delivery. Some that the
/// stream does not have any more are left out.
type Ages = RunMap<Age, ()>;

/// Whether somebody has it, since when, and its identifier.
type Age = (bool, i64, StreamId);

fn age(id: StreamId, pending: Pending) -> Age {
    (!pending.is_given_back(), pending.delivered_at_ms, id)
}

impl Group {
    /// A group that has delivered up to `last_delivered`.
    pub fn new(last_delivered: StreamId, entries_read: Option<u64>) -> Self {
        Group { last_delivered, entries_read, ..Group::default() }
    }

    /// The pending entries by identifier.
    pub fn pending(&self) -> &IdMap<Pending> {
        &self.pending
    }

    /// The consumers by name.
    pub fn consumers(&self) -> impl ExactSizeIterator<Item = (ConsumerId, &Consumer)> {
        self.consumers.iter()
    }

    /// The consumer of that name.
    pub fn find_consumer(&self, name: &[u8]) -> Option<ConsumerId> {
        self.consumers.find(name)
    }

    /// The consumer with that identifier.
    pub fn consumer(&self, id: ConsumerId) -> Option<&Consumer> {
        self.consumers.get(id)
    }

    /// Notes when a consumer was last seen.
    pub fn set_seen(&mut self, id: ConsumerId, seen_at_ms: i64) {
        if let Some(consumer) = self.consumers.get_mut(id) {
            consumer.seen_at_ms = seen_at_ms;
        }
    }

    /// Notes when a consumer last got something.
    pub fn set_active(&mut self, id: ConsumerId, active_at_ms: i64) {
        if let Some(consumer) = self.consumers.get_mut(id) {
            consumer.active_at_ms = active_at_ms;
        }
    }

    /// Adds a consumer; `None` where the name is taken.
    pub fn add_consumer(&mut self, name: &[u8], seen_at_ms: i64, active_at_ms: i64) -> Option<ConsumerId> {
        if self.consumers.find(name).is_some() {
            return None;
        }
        let id = ConsumerId(self.next_consumer);
        self.next_consumer += 1;
        let pending = IdMap::default();
        self.consumers.add(Consumer { id, name: name.into(), seen_at_ms, active_at_ms, pending });
        Some(id)
    }

    /// Removes a consumer with all it holds and returns how many entries that were.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let consumer = self.consumers.remove(name)?;
        for entry in consumer.pending.ids() {
            let pending = self.pending.remove(entry);
            self.note_change(entry, pending, None);
        }
        Some(consumer.pending.len())
    }

    /// Makes `pending.consumer` the holder of `id`, whoever held it before. False where there is no such
    /// consumer.
    pub fn assign(&mut self, id: StreamId, pending: Pending) -> bool {
        if self.consumer(pending.consumer).is_none() {
            return false;
        }
        let before = self.pending.insert(id, pending);
        self.note_change(id, before, Some(pending));
        let before = before.map(|before| before.consumer);
        if before == Some(pending.consumer) {
            return true;
        }
        if let Some(consumer) = before.and_then(|before| self.consumers.get_mut(before)) {
            consumer.pending.remove(id);
        }
        if let Some(consumer) = self.consumers.get_mut(pending.consumer) {
            consumer.pending.insert(id, ());
        }
        true
    }

    /// Makes `id` a pending entry of nobody, behind all others of nobody.
    pub fn give_back(&mut self, id: StreamId, delivery_count: u64) {
        let pending =
            Pending { consumer: ConsumerId::NOBODY, delivered_at_ms: self.next_given_back, delivery_count };
        self.next_given_back += 1;
        StreamLevel::GivenBack.note();
        let before = self.pending.insert(id, pending);
        self.note_change(id, before, Some(pending));
        if let Some(consumer) = before.and_then(|before| self.consumers.get_mut(before.consumer)) {
            consumer.pending.remove(id);
        }
    }

    /// The number of pending entries of nobody.
    pub fn given_back_len(&self) -> usize {
        self.given_back_len
    }

    /// The pending entries of nobody, in the order in which they were given back. O(pending entries), unless
    /// there is none.
    pub fn given_back(&self) -> Vec<(StreamId, Pending)> {
        if self.given_back_len == 0 {
            return Vec::new();
        }
        let mut all: Vec<_> = self.pending.iter().filter(|(_, pending)| pending.is_given_back()).collect();
        all.sort_unstable_by_key(|(_, pending)| pending.delivered_at_ms);
        all
    }

    /// Takes `id` off the pending entries; what it was, if it was one.
    pub fn acknowledge(&mut self, id: StreamId) -> Option<Pending> {
        let pending = self.pending.remove(id)?;
        self.note_change(id, Some(pending), None);
        if let Some(consumer) = self.consumers.get_mut(pending.consumer) {
            consumer.pending.remove(id);
        }
        Some(pending)
    }

    /// Keeps the pending entries by age from now on. O(n log n) the first time.
    pub fn keep_ages(&mut self) {
        if self.ages.is_none() {
            let mut all: Vec<_> = self.pending.iter().map(|(id, pending)| age(id, pending)).collect();
            all.sort_unstable();
            let mut ages = Ages::default();
            for age in all {
                ages.insert(age, ());
            }
            self.ages = Some(Box::new(ages));
        }
    }

    /// The pending entries where [`Group::keep_ages`] was called, without those of [`Group::forget_ages`]:
    /// those of nobody, and then those first that were delivered longest ago.
    pub fn by_age(&self) -> impl Iterator<Item = (StreamId, Pending)> {
        let ids = self.ages.iter().flat_map(|ages| ages.iter()).map(|((_, _, id), ())| id);
        ids.filter_map(|id| Some((id, self.pending.get(id)?)))
    }

    /// Leaves pending entries that the stream does not have any more out of [`Group::by_age`].
    pub fn forget_ages(&mut self, gone: &[StreamId]) {
        let Some(ages) = &mut self.ages else { return };
        for &id in gone {
            if let Some(pending) = self.pending.get(id) {
                ages.remove(age(id, pending));
            }
        }
    }

    /// Notes that a pending entry has come, gone or been delivered again.
    #[inline]
    fn note_change(&mut self, id: StreamId, before: Option<Pending>, after: Option<Pending>) {
        let is_given_back = |pending: Option<Pending>| pending.is_some_and(|pending| pending.is_given_back());
        self.given_back_len += usize::from(is_given_back(after));
        self.given_back_len -= usize::from(is_given_back(before));
        let Some(ages) = &mut self.ages else { return };
        if let Some(before) = before {
            ages.remove(age(id, before));
        }
        if let Some(after) = after {
            ages.insert(age(id, after), ());
        }
    }

    /// Bytes taken, the group itself not included. O(runs of pending entries).
    pub(super) fn memory_usage(&self) -> usize {
        let held: usize = self.consumers.iter().map(|(_, consumer)| consumer.pending.memory_usage()).sum();
        let ages = self.ages.as_ref().map_or(0, |ages| size_of::<Ages>() + ages.memory_usage());
        self.consumers.memory_usage() + held + self.pending.memory_usage() + ages
    }
}
