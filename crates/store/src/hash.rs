//! Hashes, whose fields may expire.
//!
//! | encoding | form |
//! | --- | --- |
//! | `listpack` | fields and values back to back, in the order in which the fields came |
//! | `listpackex` | the same with expiries, by rising expiry |
//! | `hashtable` | a [`crate::Table`] of pairs, an allocation each; expiring ones also in an ordered set |
//!
//! Forms change when Redis changes the encoding: at the thresholds of [`EncodingLimits`], and never back.
//!
//! Bytes per field of a large hash: 12.8 to 14 for the table, and field, value and 3 rounded up to a size
//! class. An expiry adds 8 there and about 24 in the ordered set; hashes without expiries pay nothing for
//! them.
//!
//! A field whose time has passed stays until it is removed ([`Hash::remove_expired`]); whoever reads looks at
//! the expiries.

mod expiring;
mod pair;
mod pairs;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;

use mantissa_number::INTEGER_TEXT_MAX;

use crate::listpack::Element;
use crate::set::packed::{Needle, Packed, PackedIter};
use crate::set::sample;
use crate::{EncodingLimits, allocator};
use expiring::{Expiring, Triples};
use pair::Pair;
use pairs::Pairs;

/// A field, its value, and its expiry (Unix time in ms) if it has one.
pub type Field<'a> = (Element<'a>, Element<'a>, Option<i64>);

#[derive(Clone)]
enum Body {
    Packed(Packed),
    Expiring(Box<Expiring>),
    Table(Box<Pairs>),
}

/// A map from byte strings to byte strings, each with an expiry of its own if it has one.
#[derive(Clone)]
pub struct Hash(Body);

impl Default for Hash {
    fn default() -> Self {
        Hash(Body::Packed(Packed::default()))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |element: Element<'_>| element.to_vec().escape_ascii().to_string();
        let entries = self.iter().map(|(field, value, expiry)| (text(field), (text(value), expiry)));
        formatter.debug_map().entries(entries).finish()
    }
}

fn field_of(pair: &Pair) -> Field<'_> {
    (Element::Bytes(pair.field()), Element::Bytes(pair.value()), pair.expiry())
}

impl Hash {
    /// An empty hash.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of fields, expired ones that have not been removed included.
    pub fn len(&self) -> usize {
        match &self.0 {
            Body::Packed(packed) => packed.len() / 2,
            Body::Expiring(expiring) => expiring.len(),
            Body::Table(pairs) => pairs.table.len(),
        }
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name that OBJECT ENCODING replies.
    pub fn encoding(&self) -> &'static str {
        match &self.0 {
            Body::Packed(_) => "listpack",
            Body::Expiring(_) => "listpackex",
            Body::Table(_) => "hashtable",
        }
    }

    /// Gives up the packed encodings if so many new fields, or one field or value of so many bytes, cannot
    /// fit.
    pub fn expect(&mut self, new_fields: usize, longest_bytes: usize, limits: &EncodingLimits) {
        if new_fields > limits.hash_entries_max || longest_bytes > limits.hash_value_bytes_max {
            self.make_table();
        }
    }

    /// Goes to an encoding whose fields can expire.
    pub fn expect_expiries(&mut self) {
        let Body::Packed(packed) = &self.0 else { return };
        let mut expiring = Box::<Expiring>::default();
        let mut iter = packed.iter();
        while let (Some(field), Some(value)) = (iter.next(), iter.next()) {
            let (mut field_digits, mut value_digits) = ([0; INTEGER_TEXT_MAX], [0; INTEGER_TEXT_MAX]);
            expiring.push(field.text(&mut field_digits), value.text(&mut value_digits));
        }
        self.0 = Body::Expiring(expiring);
    }

    /// Gives a field a value and no expiry. True if the field is new.
    pub fn set(&mut self, field: &[u8], value: &[u8], limits: &EncodingLimits) -> bool {
        self.put(field, value, false, limits)
    }

    /// Gives a field a value and leaves its expiry as it is. True if the field is new.
    pub fn set_keeping_expiry(&mut self, field: &[u8], value: &[u8], limits: &EncodingLimits) -> bool {
        self.put(field, value, true, limits)
    }

    fn put(&mut self, field: &[u8], value: &[u8], keep: bool, limits: &EncodingLimits) -> bool {
        self.expect(0, field.len().max(value.len()), limits);
        let is_new = match &mut self.0 {
            Body::Table(pairs) => return pairs.put(field, value, keep),
            Body::Expiring(expiring) => expiring.put(field, value, keep),
            Body::Packed(packed) => match packed.find(&Needle::new(field), 2) {
                Some(position) => {
                    let position = packed.skip(position, 1);
                    packed.replace(position, value);
                    false
                }
                None => {
                    packed.push(field);
                    packed.push(value);
                    true
                }
            },
        };
        if self.len() > limits.hash_entries_max {
            self.make_table();
        }
        is_new
    }

    fn make_table(&mut self) {
        if matches!(self.0, Body::Table(_)) {
            return;
        }
        let mut pairs = Box::<Pairs>::default();
        for (field, value, expiry) in self.iter() {
            let (mut field_digits, mut value_digits) = ([0; INTEGER_TEXT_MAX], [0; INTEGER_TEXT_MAX]);
            pairs.add(Pair::new(field.text(&mut field_digits), value.text(&mut value_digits), expiry));
        }
        pairs.tracked = self.tracked_expiry();
        self.0 = Body::Table(pairs);
    }

    /// The value of a field and its expiry.
    pub fn get(&self, field: &[u8]) -> Option<(Element<'_>, Option<i64>)> {
        match &self.0 {
            Body::Packed(packed) => {
                let position = packed.find(&Needle::new(field), 2)?;
                packed.iter_from(position).nth(1).map(|value| (value, None))
            }
            Body::Expiring(expiring) => expiring.get(field),
            Body::Table(pairs) => pairs.get(field).map(|pair| (Element::Bytes(pair.value()), pair.expiry())),
        }
    }

    /// Removes a field; false if it is not there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        match &mut self.0 {
            Body::Packed(packed) => {
                let found = packed.find(&Needle::new(field), 2);
                if let Some(position) = found {
                    packed.remove(position, 2);
                }
                found.is_some()
            }
            Body::Expiring(expiring) => expiring.remove(field),
            Body::Table(pairs) => pairs.remove(field),
        }
    }

    /// Sets or removes the expiry of a field, a Unix time in ms above 0; false if the field is not there.
    pub fn set_expiry(&mut self, field: &[u8], expiry: Option<i64>) -> bool {
        if expiry.is_some() {
            self.expect_expiries();
        }
        match &mut self.0 {
            Body::Packed(packed) => packed.find(&Needle::new(field), 2).is_some(),
            Body::Expiring(expiring) => expiring.set_expiry(field, expiry),
            Body::Table(pairs) => pairs.set_expiry(field, expiry),
        }
    }

    /// When the first of the fields expires, a Unix time in ms; `None` if none does.
    pub fn earliest_expiry(&self) -> Option<i64> {
        match &self.0 {
            Body::Packed(_) => None,
            Body::Expiring(expiring) => expiring.earliest_expiry(),
            Body::Table(pairs) => pairs.earliest_expiry(),
        }
    }

    /// The number of fields whose time has passed and that have not been removed. Costs O(1) for each of
    /// them.
    pub fn expired_len(&self, now_ms: i64) -> usize {
        match &self.0 {
            Body::Packed(_) => 0,
            Body::Expiring(expiring) => expiring.expired_len(now_ms),
            Body::Table(pairs) => pairs.expired_len(now_ms),
        }
    }

    /// Whether there are fields and the time of all of them has passed.
    pub fn is_spent(&self, now_ms: i64) -> bool {
        match &self.0 {
            Body::Packed(_) => false,
            Body::Expiring(expiring) => expiring.is_spent(now_ms),
            Body::Table(pairs) => pairs.is_spent(now_ms),
        }
    }

    /// The number of fields whose time has not passed.
    pub fn live_len(&self, now_ms: i64) -> usize {
        self.len() - self.expired_len(now_ms)
    }

    /// Removes up to `limit` fields whose time has passed, the earliest first, shows each to `visit`, and
    /// returns their number.
    pub fn remove_expired(&mut self, now_ms: i64, limit: usize, mut visit: impl FnMut(&[u8])) -> usize {
        for count in 0..limit {
            match &mut self.0 {
                Body::Packed(_) => return count,
                Body::Expiring(expiring) => match expiring.take_expired(now_ms) {
                    Some(field) => visit(&field),
                    None => return count,
                },
                Body::Table(pairs) => match pairs.take_expired(now_ms) {
                    Some(pair) => visit(pair.field()),
                    None => return count,
                },
            }
        }
        limit
    }

    /// The expiry under which whoever removes expired fields has this hash on a list; `None` if on none. The
    /// hash only keeps it for the owner of the list. A clone is on no list.
    pub fn tracked_expiry(&self) -> Option<i64> {
        match &self.0 {
            Body::Packed(_) => None,
            Body::Expiring(expiring) => expiring.tracked,
            Body::Table(pairs) => pairs.tracked,
        }
    }

    /// Remembers under which expiry the hash is on the list. `Some` only for one that has an expiring field.
    pub fn set_tracked_expiry(&mut self, expiry: Option<i64>) {
        match &mut self.0 {
            Body::Packed(_) => debug_assert!(expiry.is_none()),
            Body::Expiring(expiring) => expiring.tracked = expiry,
            Body::Table(pairs) => pairs.tracked = expiry,
        }
    }

    /// A field picked at random, all with equal probability, expired or not. `random` returns uniform
    /// numbers.
    pub fn random(&self, mut random: impl FnMut() -> u64) -> Option<Field<'_>> {
        match &self.0 {
            Body::Table(pairs) => pairs.table.random(random).map(field_of),
            _ if self.is_empty() => None,
            _ => self.iter().nth(sample::below(random(), self.len())),
        }
    }

    /// Visits `count` fields picked at random, each time from all that live.
    pub fn pick(
        &self,
        count: usize,
        now_ms: i64,
        mut random: impl FnMut() -> u64,
        mut visit: impl FnMut(Field<'_>),
    ) {
        let expired = self.expired_len(now_ms);
        if expired == self.len() {
            return;
        }
        if let (Body::Table(pairs), true) = (&self.0, expired <= self.len() / 2) {
            for _ in 0..count {
                let is_live = |pair: &&Pair| pair.expiry().is_none_or(|time| time > now_ms);
                let pick = std::iter::from_fn(|| pairs.table.random(&mut random)).find(is_live);
                pick.into_iter().for_each(|pair| visit(field_of(pair)));
            }
            return;
        }
        let live: Vec<Field<'_>> = self.live(now_ms).collect();
        (0..count).for_each(|_| visit(live[sample::below(random(), live.len())]));
    }

    /// Visits `count` different fields that live, picked at random, or all if there are no more.
    pub fn sample(
        &self,
        count: usize,
        now_ms: i64,
        mut random: impl FnMut() -> u64,
        mut visit: impl FnMut(Field<'_>),
    ) {
        let live = self.live_len(now_ms);
        match &self.0 {
            Body::Table(pairs) if count < live / 3 && live > self.len() / 2 => {
                let mut seen = HashSet::with_capacity(count);
                while seen.len() < count {
                    let Some(pair) = pairs.table.random(&mut random) else { return };
                    let is_live = pair.expiry().is_none_or(|time| time > now_ms);
                    if is_live && seen.insert(std::ptr::from_ref(pair).addr()) {
                        visit(field_of(pair));
                    }
                }
            }
            _ => sample::select(self.live(now_ms), live, count, random, visit),
        }
    }

    /// Visits a part of the fields, expired or not, and returns the cursor of the next part; 0 starts, and 0
    /// returned ends an iteration. What is there throughout is visited at least once.
    pub fn scan(&self, cursor: u64, mut visit: impl FnMut(Field<'_>)) -> u64 {
        match &self.0 {
            Body::Table(pairs) => pairs.table.scan(cursor, |pair| visit(field_of(pair))),
            _ => {
                self.iter().for_each(visit);
                0
            }
        }
    }

    /// All fields with their values and expiries, whether or not they have expired.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Field<'_>> {
        match &self.0 {
            Body::Packed(packed) => Iter::Packed(packed.iter()),
            Body::Expiring(expiring) => Iter::Expiring(expiring.iter()),
            Body::Table(pairs) => Iter::Table(pairs.table.iter()),
        }
    }

    /// All fields whose time has not passed, with their values and expiries.
    pub fn live(&self, now_ms: i64) -> impl Iterator<Item = Field<'_>> {
        self.iter().filter(move |(_, _, expiry)| expiry.is_none_or(|time| time > now_ms))
    }

    /// Bytes taken.
    pub fn memory_usage(&self) -> usize {
        let body = match &self.0 {
            Body::Packed(packed) => packed.memory_usage(),
            Body::Expiring(expiring) => {
                expiring.memory_usage() + allocator::class_size(size_of::<Expiring>())
            }
            Body::Table(pairs) => pairs.memory_usage(),
        };
        body + allocator::class_size(size_of::<Hash>())
    }
}

enum Iter<'a> {
    Packed(PackedIter<'a>),
    Expiring(Triples<'a>),
    Table(crate::table::Iter<'a, Pair>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = Field<'a>;

    #[inline]
    fn next(&mut self) -> Option<Field<'a>> {
        match self {
            Iter::Packed(iter) => Some((iter.next()?, iter.next()?, None)),
            Iter::Expiring(iter) => iter.next(),
            Iter::Table(iter) => iter.next().map(field_of),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Iter::Packed(iter) => (iter.size_hint().0 / 2, Some(iter.size_hint().0 / 2)),
            Iter::Expiring(iter) => iter.size_hint(),
            Iter::Table(iter) => iter.size_hint(),
        }
    }
}

impl ExactSizeIterator for Iter<'_> {}
