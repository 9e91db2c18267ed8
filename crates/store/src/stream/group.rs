//! Consumer groups of a stream: where each group stands, what it delivered and who has it.
//!
//! A group owns the list of pending entries by identifier; each consumer owns the set of identifiers that it
//! holds. Invariant: the sets of the consumers are disjoint and their union is the list, and every pending
//! entry names the consumer whose set it is in. All changes go through [`Group`], which keeps it. Every
//! operation is O(log n).

use super::StreamId;
use std::collections::{BTreeMap, BTreeSet, btree_map};

/// Names a consumer within its group for as long as it lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ConsumerId(u64);

/// One delivered and not yet acknowledged entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pending {
    /// Who has it.
    pub consumer: ConsumerId,
    /// When it was last delivered, as unix time in milliseconds.
    pub delivered_at_ms: i64,
    /// How often it was delivered.
    pub delivery_count: u64,
}

/// A consumer of a group.
#[derive(Clone, Debug)]
pub struct Consumer {
    name: Box<[u8]>,
    /// When it last asked for anything, as unix time in milliseconds.
    pub seen_at_ms: i64,
    /// When it last got anything, as unix time in milliseconds; -1 for never.
    pub active_at_ms: i64,
    pending: BTreeSet<StreamId>,
}

impl Consumer {
    /// Its name, unique in the group.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The entries it holds, in order.
    pub fn pending(&self) -> &BTreeSet<StreamId> {
        &self.pending
    }
}

/// A consumer group.
#[derive(Clone, Default, Debug)]
pub struct Group {
    /// The last entry that was delivered to anybody.
    pub last_delivered: StreamId,
    /// How many entries were read up to it, where that is known.
    pub entries_read: Option<u64>,
    pending: BTreeMap<StreamId, Pending>,
    consumers: BTreeMap<ConsumerId, Consumer>,
    names: BTreeMap<Box<[u8]>, ConsumerId>,
    next_consumer: u64,
}

impl Group {
    /// A group that has delivered up to `last_delivered`.
    pub fn new(last_delivered: StreamId, entries_read: Option<u64>) -> Self {
        Group { last_delivered, entries_read, ..Group::default() }
    }

    /// The pending entries by identifier.
    pub fn pending(&self) -> &BTreeMap<StreamId, Pending> {
        &self.pending
    }

    /// The consumers by name.
    pub fn consumers(&self) -> impl ExactSizeIterator<Item = (ConsumerId, &Consumer)> {
        // A name in `names` always has its consumer in `consumers`; both change together below.
        self.names.values().map(|id| (*id, &self.consumers[id]))
    }

    /// The consumer of that name.
    pub fn find_consumer(&self, name: &[u8]) -> Option<ConsumerId> {
        self.names.get(name).copied()
    }

    /// The consumer with that identifier.
    pub fn consumer(&self, id: ConsumerId) -> Option<&Consumer> {
        self.consumers.get(&id)
    }

    /// Notes when a consumer was last seen.
    pub fn set_seen(&mut self, id: ConsumerId, seen_at_ms: i64) {
        if let Some(consumer) = self.consumers.get_mut(&id) {
            consumer.seen_at_ms = seen_at_ms;
        }
    }

    /// Notes when a consumer last got something.
    pub fn set_active(&mut self, id: ConsumerId, active_at_ms: i64) {
        if let Some(consumer) = self.consumers.get_mut(&id) {
            consumer.active_at_ms = active_at_ms;
        }
    }

    /// Adds a consumer; `None` where the name is taken.
    pub fn add_consumer(&mut self, name: &[u8], seen_at_ms: i64, active_at_ms: i64) -> Option<ConsumerId> {
        let btree_map::Entry::Vacant(vacant) = self.names.entry(name.into()) else {
            return None;
        };
        let id = ConsumerId(self.next_consumer);
        self.next_consumer += 1;
        vacant.insert(id);
        let consumer = Consumer { name: name.into(), seen_at_ms, active_at_ms, pending: BTreeSet::new() };
        self.consumers.insert(id, consumer);
        Some(id)
    }

    /// Removes a consumer with all it holds and returns how many entries that were.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let id = self.names.remove(name)?;
        let consumer = self.consumers.remove(&id)?;
        for entry in &consumer.pending {
            self.pending.remove(entry);
        }
        Some(consumer.pending.len())
    }

    /// Makes `pending.consumer` the holder of `id`, whoever held it before. False where there is no such
    /// consumer.
    pub fn assign(&mut self, id: StreamId, pending: Pending) -> bool {
        let Some(consumer) = self.consumers.get_mut(&pending.consumer) else {
            return false;
        };
        consumer.pending.insert(id);
        if let Some(before) = self.pending.insert(id, pending)
            && before.consumer != pending.consumer
            && let Some(consumer) = self.consumers.get_mut(&before.consumer)
        {
            consumer.pending.remove(&id);
        }
        true
    }

    /// Takes `id` off the pending entries; what it was, if it was one.
    pub fn acknowledge(&mut self, id: StreamId) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        if let Some(consumer) = self.consumers.get_mut(&pending.consumer) {
            consumer.pending.remove(&id);
        }
        Some(pending)
    }

    pub(super) fn memory_usage(&self) -> usize {
        let names: usize = self.names.keys().map(|name| 2 * name.len()).sum();
        let consumers =
            self.consumers.len() * (size_of::<Consumer>() + 2 * size_of::<(Box<[u8]>, ConsumerId)>());
        let pending = self.pending.len() * (2 * size_of::<StreamId>() + size_of::<Pending>());
        names + consumers + pending
    }
}
