//! The packed form of a hash whose fields may expire: field, value and expiry in threes, by rising expiry and
//! those without one (0) last. Of equal expiries the one that was set last stands first.

use mantissa_number::{INTEGER_TEXT_MAX, format_i64};

use crate::listpack::Element;
use crate::set::packed::{Needle, Packed, PackedIter};

/// Elements of a field.
const STRIDE: usize = 3;

/// See the module's description.
#[derive(Default)]
pub(super) struct Expiring {
    packed: Packed,
    /// See [`super::Hash::tracked_expiry`].
    pub(super) tracked: Option<i64>,
}

impl Clone for Expiring {
    fn clone(&self) -> Self {
        Expiring { packed: self.packed.clone(), tracked: None }
    }
}

impl Expiring {
    pub(super) fn len(&self) -> usize {
        self.packed.len() / STRIDE
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.packed.memory_usage()
    }

    pub(super) fn get(&self, field: &[u8]) -> Option<(Element<'_>, Option<i64>)> {
        let position = self.packed.find(&Needle::new(field), STRIDE)?;
        self.at(position).map(|(_, value, expiry)| (value, expiry))
    }

    pub(super) fn iter(&self) -> Triples<'_> {
        Triples(self.packed.iter())
    }

    /// Gives a field a value; a field that is there keeps its expiry if `keep` is set. True if the field is
    /// new.
    pub(super) fn put(&mut self, field: &[u8], value: &[u8], keep: bool) -> bool {
        let Some(position) = self.packed.find(&Needle::new(field), STRIDE) else {
            self.push(field, value);
            return true;
        };
        let has_expiry = self.at(position).is_some_and(|(_, _, expiry)| expiry.is_some());
        if has_expiry && !keep {
            self.packed.remove(position, STRIDE);
            self.push(field, value);
        } else {
            let value_position = self.packed.skip(position, 1);
            self.packed.replace(value_position, value);
        }
        false
    }

    /// Adds a field that is not there and does not expire.
    pub(super) fn push(&mut self, field: &[u8], value: &[u8]) {
        [field, value, b"0"].into_iter().for_each(|text| self.packed.push(text));
    }

    pub(super) fn set_expiry(&mut self, field: &[u8], expiry: Option<i64>) -> bool {
        let Some(position) = self.packed.find(&Needle::new(field), STRIDE) else { return false };
        let Some((_, value, _)) = self.at(position) else { return false };
        let value = value.to_vec();
        self.packed.remove(position, STRIDE);
        match expiry {
            None => self.push(field, &value),
            Some(time) => {
                let place = self.place_of(time);
                let mut digits = [0; INTEGER_TEXT_MAX];
                self.packed.insert(place, &[field, &value, format_i64(&mut digits, time)]);
            }
        }
        true
    }

    pub(super) fn remove(&mut self, field: &[u8]) -> bool {
        let found = self.packed.find(&Needle::new(field), STRIDE);
        if let Some(position) = found {
            self.packed.remove(position, STRIDE);
        }
        found.is_some()
    }

    pub(super) fn earliest_expiry(&self) -> Option<i64> {
        self.iter().next().and_then(|(_, _, expiry)| expiry)
    }

    pub(super) fn expired_len(&self, now_ms: i64) -> usize {
        self.iter().take_while(|(_, _, expiry)| expiry.is_some_and(|time| time <= now_ms)).count()
    }

    pub(super) fn is_spent(&self, now_ms: i64) -> bool {
        self.earliest_expiry().is_some_and(|time| time <= now_ms) && self.expired_len(now_ms) == self.len()
    }

    /// Takes out the field whose time passed first, if it has, and returns it.
    pub(super) fn take_expired(&mut self, now_ms: i64) -> Option<Vec<u8>> {
        let (field, _, expiry) = self.iter().next()?;
        expiry.filter(|&time| time <= now_ms)?;
        let field = field.to_vec();
        self.packed.remove(0, STRIDE);
        Some(field)
    }

    fn at(&self, position: usize) -> Option<(Element<'_>, Element<'_>, Option<i64>)> {
        Triples(self.packed.iter_from(position)).next()
    }

    /// Where a field with this expiry belongs.
    fn place_of(&self, time: i64) -> usize {
        let mut triples = self.iter();
        loop {
            let position = triples.0.position();
            match triples.next() {
                Some((_, _, Some(other))) if other < time => {}
                _ => return position,
            }
        }
    }
}

/// The fields, values and expiries in order.
pub(super) struct Triples<'a>(PackedIter<'a>);

impl<'a> Iterator for Triples<'a> {
    type Item = (Element<'a>, Element<'a>, Option<i64>);

    fn next(&mut self) -> Option<Self::Item> {
        let (field, value) = (self.0.next()?, self.0.next()?);
        let expiry = self.0.next()?.integer().filter(|&time| time != 0);
        Some((field, value, expiry))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.0.size_hint().0 / STRIDE;
        (left, Some(left))
    }
}
