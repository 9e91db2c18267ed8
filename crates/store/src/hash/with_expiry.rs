//! The packed form of a hash whose fields may expire: field, value and expiry in threes, by rising expiry and
//! those without one (0) last. Of equal expiries the one that was set last stands first.

use smallvec::SmallVec;

use crate::listpack::Element;
use crate::packed::{self, Block, Encoded, Form, Item, Position};

/// How fields look.
const FIELD: Form = Form::plain(3);

/// Fields with expiries in one block. 16 bytes, as an allocation of its own.
pub(super) struct WithExpiry {
    pub(super) block: Block,
    /// See [`super::Hash::tracked_expiry`].
    tracked: i64,
}

/// The value of `tracked` that stands for none.
const NOT_TRACKED: i64 = i64::MIN;

const _: () = assert!(size_of::<WithExpiry>() == 16);

impl Clone for WithExpiry {
    fn clone(&self) -> Self {
        WithExpiry { block: self.block.clone(), tracked: NOT_TRACKED }
    }
}

impl WithExpiry {
    /// The fields of a block of pairs, none of which expires.
    pub(super) fn new(mut pairs: Block) -> Self {
        pairs.widen_items();
        WithExpiry { block: pairs, tracked: NOT_TRACKED }
    }

    /// Fields, values and expiries in order; `None` if a field comes twice.
    pub(super) fn of(elements: &[Encoded<'_>]) -> Option<Self> {
        Some(WithExpiry { block: packed::block_of(FIELD, elements)?, tracked: NOT_TRACKED })
    }

    pub(super) fn tracked(&self) -> Option<i64> {
        (self.tracked != NOT_TRACKED).then_some(self.tracked)
    }

    pub(super) fn set_tracked(&mut self, expiry: Option<i64>) {
        self.tracked = expiry.unwrap_or(NOT_TRACKED);
    }

    /// Gives a field a value; a field that is there keeps its expiry if `keep` is set. True if the field is
    /// new.
    pub(super) fn put(&mut self, field: &Encoded<'_>, value: &Encoded<'_>, keep: bool) -> bool {
        let Some(position) = self.block.view().find(field, 0) else {
            self.push(field, value);
            return true;
        };
        if self.block.view().item(position).expiry != 0 && !keep {
            self.block.remove(position);
            self.push(field, value);
        } else {
            self.block.replace(position, 1, value);
        }
        false
    }

    /// Adds a field that is not there and expires no earlier than any other.
    pub(super) fn append(&mut self, field: &Encoded<'_>, value: &Encoded<'_>, expiry: Option<i64>) {
        self.block.push(FIELD, 0, &[*field, *value, Encoded::integer(expiry.unwrap_or(0))], 0);
    }

    /// Adds a field that is not there and does not expire.
    fn push(&mut self, field: &Encoded<'_>, value: &Encoded<'_>) {
        self.block.push(FIELD, 0, &[*field, *value, Encoded::ZERO], 0);
    }

    pub(super) fn set_expiry(&mut self, field: &Encoded<'_>, expiry: Option<i64>) -> bool {
        let Some(position) = self.block.view().find(field, 0) else { return false };
        let mut text: SmallVec<[u8; 64]> = SmallVec::new();
        let value = match self.block.view().item(position).value {
            Element::Integer(integer) => Encoded::integer(integer),
            Element::Bytes(bytes) => {
                text.extend_from_slice(bytes);
                Encoded::new(&text)
            }
        };
        self.block.remove(position);
        match expiry {
            None => self.push(field, &value),
            Some(time) => {
                let place = self.place_of(time);
                self.block.insert(FIELD, place, 0, &[*field, value, Encoded::integer(time)], 0);
            }
        }
        true
    }

    pub(super) fn earliest_expiry(&self) -> Option<i64> {
        self.items().next().and_then(|item| item.expiry())
    }

    pub(super) fn expired_len(&self, now_ms: i64) -> usize {
        self.items().take_while(|item| item.expiry().is_some_and(|time| time <= now_ms)).count()
    }

    pub(super) fn all_expired(&self, now_ms: i64) -> bool {
        self.earliest_expiry().is_some_and(|time| time <= now_ms)
            && self.expired_len(now_ms) == self.block.len()
    }

    /// When all fields have expired; `None` if some never do.
    pub(super) fn all_expired_from(&self) -> Option<i64> {
        self.items().try_fold(None, |_, item| item.expiry().map(Some)).flatten()
    }

    /// Removes and returns the field with the earliest expiry, if it has expired.
    pub(super) fn take_expired(&mut self, now_ms: i64) -> Option<Vec<u8>> {
        let item = self.items().next()?;
        item.expiry().filter(|&time| time <= now_ms)?;
        let field = item.key.to_vec();
        self.block.remove(Position::FIRST);
        Some(field)
    }

    fn items(&self) -> impl Iterator<Item = Item<'_>> {
        self.block.view().items()
    }

    /// Where a field with this expiry belongs.
    fn place_of(&self, time: i64) -> Position {
        let view = self.block.view();
        let mut position = Position::FIRST;
        while view.has(position) && view.item(position).expiry().is_some_and(|other| other < time) {
            position = view.next(position);
        }
        position
    }
}
