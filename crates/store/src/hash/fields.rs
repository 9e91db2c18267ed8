//! The large form of a hash: a table of fields with their values, and with their expiries where there are
//! some; and the order in which those expire.
//!
//! The order holds expiry and hash of each field that expires. Two fields with the same of both are one in
//! it, which the number of expired fields then misses; whoever takes an entry out looks for another such
//! field. A clone shares the table and the order.

use mantissa_memory::allocator::class_size;

use super::FieldChange;
use super::order::Order;
use crate::listpack::Element;
use crate::packed::{Buckets, Encoded, Item, Place};
use crate::sample;

/// A table of fields, and the order in which they expire.
pub(super) struct Fields {
    pub(super) table: Buckets,
    /// Expiry and hash of exactly the fields that have an expiry; `None` if no field has one.
    order: Option<Box<Order>>,
    /// The number of fields that have an expiry.
    with_expiry_len: usize,
    /// See [`super::Hash::tracked_expiry`].
    pub(super) tracked: Option<i64>,
}

impl Fields {
    pub(super) fn new() -> Fields {
        Fields { table: Buckets::new(), order: None, with_expiry_len: 0, tracked: None }
    }

    pub(super) fn get(&self, field: &Encoded<'_>) -> Option<Item<'_>> {
        self.table.find(field, field.hash()).map(|place| self.table.item(place))
    }

    /// Gives a field a value; a field that is there keeps its expiry if `keep` is set. True if the field is
    /// new.
    pub(super) fn put(&mut self, field: &Encoded<'_>, value: &Encoded<'_>, keep: bool) -> bool {
        let hash = field.hash();
        let Some(place) = self.table.find(field, hash) else {
            self.table.insert(hash, &[*field, *value]);
            return true;
        };
        if !keep && let Some(time) = self.table.item(place).expiry() {
            self.table.replace(place, 2, &Encoded::ZERO);
            self.forget(time, hash);
            if let Some(place) = self.table.find(field, hash) {
                self.table.replace(place, 1, value);
            }
        } else {
            self.table.replace(place, 1, value);
        }
        false
    }

    /// Gives a field a value and an expiry. True if the field is new.
    pub(super) fn put_with_expiry(&mut self, field: &Encoded<'_>, value: &Encoded<'_>, expiry: i64) -> bool {
        let hash = field.hash();
        let Some(place) = self.table.find(field, hash) else {
            self.add_hashed(field, hash, value, Some(expiry));
            return true;
        };
        self.table.replace(place, 1, value);
        // The bucket may have been split or merged.
        if let Some(place) = self.table.find(field, hash) {
            self.expire(place, hash, Some(expiry));
        }
        false
    }

    /// Gives a field the integer that `change` makes of its value.
    pub(super) fn update_integer<E>(
        &mut self,
        field: &Encoded<'_>,
        change: impl FnOnce(Option<Element<'_>>) -> Result<i64, E>,
    ) -> Result<(), E> {
        let hash = field.hash();
        let place = self.table.find(field, hash);
        let value = Encoded::integer(change(place.map(|place| self.table.item(place).value))?);
        match place {
            Some(place) => self.table.replace(place, 1, &value),
            None => self.table.insert(hash, &[*field, value]),
        }
        Ok(())
    }

    /// Lets `decide` say what becomes of a field, and returns what it says beside.
    pub(super) fn change_field<R>(
        &mut self,
        field: &Encoded<'_>,
        decide: impl FnOnce(Element<'_>, Option<i64>) -> (FieldChange, R),
    ) -> Option<R> {
        let hash = field.hash();
        let place = self.table.find(field, hash)?;
        let item = self.table.item(place);
        let (change, result) = decide(item.value, item.expiry());
        match change {
            FieldChange::Keep => {}
            FieldChange::Remove => self.take(place, hash),
            FieldChange::Expire(expiry) => self.expire(place, hash, expiry),
        }
        Some(result)
    }

    /// Sets or removes the expiry of a field; false if the field is not there.
    pub(super) fn set_expiry(&mut self, field: &Encoded<'_>, expiry: Option<i64>) -> bool {
        let hash = field.hash();
        let Some(place) = self.table.find(field, hash) else { return false };
        self.expire(place, hash, expiry);
        true
    }

    fn expire(&mut self, place: Place, hash: u64, expiry: Option<i64>) {
        let before = self.table.item(place).expiry();
        let after = expiry.filter(|&time| time != 0);
        if before == after {
            return;
        }
        self.table.replace(place, 2, &Encoded::integer(after.unwrap_or(0)));
        if let Some(time) = before {
            self.forget(time, hash);
        }
        if let Some(time) = after {
            self.remember(time, hash);
        }
    }

    pub(super) fn remove(&mut self, field: &Encoded<'_>) -> bool {
        let hash = field.hash();
        let Some(place) = self.table.find(field, hash) else { return false };
        self.take(place, hash);
        true
    }

    /// Adds a field that is not there yet.
    pub(super) fn add(&mut self, field: &Encoded<'_>, value: &Encoded<'_>, expiry: Option<i64>) {
        self.add_hashed(field, field.hash(), value, expiry);
    }

    fn add_hashed(&mut self, field: &Encoded<'_>, hash: u64, value: &Encoded<'_>, expiry: Option<i64>) {
        match expiry.filter(|&time| time != 0) {
            None => self.table.insert(hash, &[*field, *value]),
            Some(time) => {
                self.table.insert(hash, &[*field, *value, Encoded::integer(time)]);
                self.remember(time, hash);
            }
        }
    }

    fn take(&mut self, place: Place, hash: u64) {
        let expiry = self.table.item(place).expiry();
        self.table.remove(place);
        if let Some(time) = expiry {
            self.forget(time, hash);
        }
    }

    /// Takes note of an expiry that a field has got.
    fn remember(&mut self, time: i64, hash: u64) {
        self.with_expiry_len += 1;
        self.order.get_or_insert_default().insert((time, hash));
    }

    /// Takes note that a field has lost its expiry.
    fn forget(&mut self, time: i64, hash: u64) {
        self.with_expiry_len -= 1;
        let has_another = self.table.find_by(hash, |item| item.expiry == time).is_some();
        if self.with_expiry_len == 0 {
            self.order = None;
        } else if let Some(order) = self.order.as_mut().filter(|_| !has_another) {
            order.remove((time, hash));
        }
    }

    pub(super) fn earliest_expiry(&self) -> Option<i64> {
        self.order.as_ref()?.first().map(|(time, _)| time)
    }

    /// The number of expired fields. O(log n).
    pub(super) fn expired_len(&self, now_ms: i64) -> usize {
        let Some(order) = &self.order else { return 0 };
        match order.first() {
            Some((earliest, _)) if earliest <= now_ms => order.count_up_to(now_ms),
            _ => 0,
        }
    }

    pub(super) fn all_expired(&self, now_ms: i64) -> bool {
        self.all_expired_from().is_some_and(|time| time <= now_ms)
    }

    /// When all fields have expired; `None` if some never do.
    pub(super) fn all_expired_from(&self) -> Option<i64> {
        let all_expire = self.with_expiry_len > 0 && self.with_expiry_len == self.table.len();
        self.order.as_ref()?.last().filter(|_| all_expire).map(|(time, _)| time)
    }

    /// The number of fields that never expire.
    pub(super) fn without_expiry_len(&self) -> usize {
        self.table.len() - self.with_expiry_len
    }

    /// The number of fields that expire, but have not, and what the order has of them.
    pub(super) fn expiring(&self, now_ms: i64) -> std::ops::Range<usize> {
        self.expired_len(now_ms)..self.order.as_ref().map_or(0, |order| order.len())
    }

    /// The field at an index of the order.
    pub(super) fn in_order(&self, index: usize) -> Option<Place> {
        let (time, hash) = self.order.as_ref()?.at(index)?;
        self.table.find_by(hash, |item| item.expiry == time)
    }

    /// An unexpired field picked at random, all with equal probability. `expiring` is what [`Self::expiring`]
    /// returns for this time. Takes about as many draws as there are fields for each unexpired one, but few
    /// if all of these expire.
    pub(super) fn random_unexpired(
        &self,
        expiring: &std::ops::Range<usize>,
        now_ms: i64,
        random: &mut impl FnMut() -> u64,
    ) -> Option<Place> {
        let unexpired = expiring.len() + self.without_expiry_len();
        if unexpired == 0 {
            return None;
        }
        let most_have_expired = expiring.start > self.table.len() / 2;
        if most_have_expired {
            let pick = sample::below(random(), unexpired);
            if pick < expiring.len() {
                return self.in_order(expiring.start + pick);
            }
        }
        let is_wanted = |place: &Place| match self.table.item(*place).expiry() {
            Some(time) => !most_have_expired && time > now_ms,
            None => true,
        };
        std::iter::from_fn(|| self.table.random(&mut *random)).find(is_wanted)
    }

    /// Removes the field with the earliest expiry, if it has expired.
    pub(super) fn take_expired(&mut self, now_ms: i64) -> Option<Vec<u8>> {
        let (time, hash) = self.order.as_ref()?.first().filter(|&(time, _)| time <= now_ms)?;
        let place = self.table.find_by(hash, |item| item.expiry == time)?;
        let field = self.table.item(place).key.to_vec();
        self.take(place, hash);
        Some(field)
    }

    pub(super) fn memory_usage(&self) -> usize {
        let order =
            self.order.as_ref().map_or(0, |order| class_size(size_of::<Order>()) + order.memory_usage());
        self.table.memory_usage() + order + class_size(size_of::<Self>())
    }
}

impl Clone for Fields {
    fn clone(&self) -> Self {
        Fields {
            table: self.table.clone(),
            order: self.order.clone(),
            with_expiry_len: self.with_expiry_len,
            tracked: None,
        }
    }
}
