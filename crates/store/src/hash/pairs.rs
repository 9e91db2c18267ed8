//! The large form of a hash: a table of pairs, and those that expire in the order in which they do.

use std::collections::BTreeSet;

use super::pair::{Pair, PairPlace};
use crate::allocator::class_size;
use crate::set::member::hash_bytes;
use crate::table::Table;

/// Estimated bytes that the order of expiries takes for each: 16 in nodes that are two thirds full.
const EXPIRY_ORDER_BYTES: usize = 24;

/// See the module's description.
///
/// Invariant: `expiries` holds exactly the pairs of `table` that have an expiry, each with it and its place.
#[derive(Default)]
pub(super) struct Pairs {
    pub(super) table: Table<Pair>,
    expiries: BTreeSet<(i64, PairPlace)>,
    /// Bytes of the pairs' allocations.
    heap_bytes: usize,
    /// See [`super::Hash::tracked_expiry`].
    pub(super) tracked: Option<i64>,
}

fn hash_of(pair: &Pair) -> u64 {
    hash_bytes(pair.field())
}

impl Pairs {
    pub(super) fn get(&self, field: &[u8]) -> Option<&Pair> {
        self.table.get(hash_bytes(field), |pair| pair.field() == field)
    }

    /// Gives a field a value; a field that is there keeps its expiry if `keep` is set. True if the field is
    /// new.
    pub(super) fn put(&mut self, field: &[u8], value: &[u8], keep: bool) -> bool {
        let make = || Pair::new(field, value, None);
        let equal = |pair: &Pair| pair.field() == field;
        let (pair, is_new) = self.table.get_or_insert_with(hash_bytes(field), equal, make, hash_of);
        if is_new {
            self.heap_bytes += pair.heap_bytes();
            return true;
        }
        let expiry = pair.expiry();
        self.heap_bytes -= pair.heap_bytes();
        if let Some(time) = expiry {
            self.expiries.remove(&(time, pair.place()));
        }
        if expiry.is_some() && !keep {
            *pair = make();
        } else {
            pair.set_value(value);
            if let Some(time) = expiry {
                self.expiries.insert((time, pair.place()));
            }
        }
        self.heap_bytes += pair.heap_bytes();
        false
    }

    /// Sets or removes the expiry of a field; false if the field is not there.
    pub(super) fn set_expiry(&mut self, field: &[u8], expiry: Option<i64>) -> bool {
        let Some(pair) = self.table.get_mut(hash_bytes(field), |pair| pair.field() == field) else {
            return false;
        };
        self.heap_bytes -= pair.heap_bytes();
        if let Some(time) = pair.expiry() {
            self.expiries.remove(&(time, pair.place()));
        }
        pair.set_expiry(expiry);
        if let Some(time) = expiry {
            self.expiries.insert((time, pair.place()));
        }
        self.heap_bytes += pair.heap_bytes();
        true
    }

    pub(super) fn remove(&mut self, field: &[u8]) -> bool {
        let removed = self.table.remove(hash_bytes(field), |pair| pair.field() == field, hash_of);
        let Some(pair) = removed else { return false };
        self.heap_bytes -= pair.heap_bytes();
        if let Some(time) = pair.expiry() {
            self.expiries.remove(&(time, pair.place()));
        }
        true
    }

    /// Adds a pair that is not there yet.
    pub(super) fn add(&mut self, pair: Pair) {
        self.heap_bytes += pair.heap_bytes();
        if let Some(time) = pair.expiry() {
            self.expiries.insert((time, pair.place()));
        }
        self.table.insert(hash_of(&pair), pair, hash_of);
    }

    pub(super) fn earliest_expiry(&self) -> Option<i64> {
        self.expiries.first().map(|&(time, _)| time)
    }

    /// The number of fields whose time has passed. Costs O(1) for each.
    pub(super) fn expired_len(&self, now_ms: i64) -> usize {
        self.expiries.iter().take_while(|&&(time, _)| time <= now_ms).count()
    }

    pub(super) fn is_spent(&self, now_ms: i64) -> bool {
        let has_passed = |place: Option<&(i64, PairPlace)>| place.is_some_and(|(time, _)| *time <= now_ms);
        has_passed(self.expiries.first())
            && self.expiries.len() == self.table.len()
            && has_passed(self.expiries.last())
    }

    /// Takes out the field whose time passed first, if it has.
    pub(super) fn take_expired(&mut self, now_ms: i64) -> Option<Pair> {
        let &(time, place) = self.expiries.first()?;
        if time > now_ms {
            return None;
        }
        self.expiries.pop_first();
        // SAFETY: by the invariant the pair is in the table, where it stays until the hash is computed.
        let hash = hash_bytes(unsafe { place.field() });
        let pair = self.table.remove(hash, |pair| pair.place() == place, hash_of)?;
        self.heap_bytes -= pair.heap_bytes();
        Some(pair)
    }

    pub(super) fn memory_usage(&self) -> usize {
        let expiries = self.expiries.len() * EXPIRY_ORDER_BYTES;
        self.table.memory_usage() + self.heap_bytes + expiries + class_size(size_of::<Self>())
    }
}

impl Clone for Pairs {
    fn clone(&self) -> Self {
        let mut pairs = Pairs::default();
        self.table.iter().for_each(|pair| pairs.add(pair.clone()));
        pairs
    }
}
