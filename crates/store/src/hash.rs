//! Hashes, whose fields may expire, behind eight bytes.
//!
//! | encoding | form |
//! | --- | --- |
//! | `listpack` | a [`Block`] of fields and values, in the order in which the fields came |
//! | `listpackex` | the same with expiries, by rising expiry ([`with_expiry`]) |
//! | `hashtable` | [`fields`]: a hash table of blocks, and the order of the expiries if there are some |
//!
//! Forms change when Redis changes the encoding: at the thresholds of [`EncodingLimits`], and never back.
//!
//! # Bytes
//!
//! - `listpack`: 8, and 2 for each field beside the texts of field and value, or their integers in the least
//!   width. Ten fields of 6 and 16 bytes are a block of 8 + 10 * (6 + 16 + 2) = 248 bytes.
//! - `listpackex`: the same, 7 for each expiry, and 16.
//! - `hashtable`: 3 for each field beside field and value (its tag and codes), and for each bucket of 224 to
//!   900 bytes of them a pointer of 8, a header of 8, and what rounding up to a size class leaves free:
//!   fields and values of 16 bytes take 35 and at most 5 more. An expiry adds 7, 17 to 25 in the order of
//!   expiries, and 1 for each field that shares the bucket with it.
//!
//! # Clones
//!
//! A clone shares all blocks and costs the same at any size; what is changed later is copied then, block by
//! block.
//!
//! An expired field stays until it is removed ([`Hash::remove_expired`]); readers look at
//! the expiries.

mod fields;
mod order;
#[cfg(test)]
mod tests;
mod with_expiry;

use std::collections::HashSet;
use std::fmt;

use mantissa_memory::tagged_ptr::{OwnerMut, Thin};
use mantissa_memory::{TaggedPtr, allocator};
use mantissa_number::{format_i64, integer_text_length};

use crate::EncodingLimits;
use crate::listpack::{CheckedElements, Element, ListpackError};
use crate::packed::{self, Block, Encoded, Form, Item, Items, View};
use crate::sample;
use crate::{Ahead, Collection};
use fields::Fields;
use with_expiry::WithExpiry;

/// A field, its value, and its expiry (Unix time in ms) if it has one.
pub type Field<'a> = (Element<'a>, Element<'a>, Option<i64>);

/// What becomes of a field. See [`Hash::change_field`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldChange {
    /// It stays as it is.
    Keep,
    /// It goes.
    Remove,
    /// It expires at this Unix time in ms above 0, or not any more.
    Expire(Option<i64>),
}

/// Representations, as the pointer's tag.
const LISTPACK: usize = 0;
const WITH_EXPIRY: usize = 1;
const TABLE: usize = 2;

/// Bytes of a packed form beyond which it becomes a table whatever the thresholds say.
const PACKED_BYTES_MAX: usize = 1 << 30;

/// How fields look in the form `listpack`.
const PAIR: Form = Form::plain(2);

/// A map from byte strings to byte strings, each with an expiry of its own if it has one.
#[repr(transparent)]
pub struct Hash(TaggedPtr);

const _: () = assert!(size_of::<Hash>() == 8);

// SAFETY: a hash owns what its pointer leads to, all of which can be sent to and shared with other threads.
unsafe impl Send for Hash {}
// SAFETY: as above.
unsafe impl Sync for Hash {}

/// A borrowed hash.
#[derive(Clone, Copy)]
enum Body<'a> {
    Packed(View<'a>),
    WithExpiry(&'a WithExpiry),
    Table(&'a Fields),
}

/// A hash to change.
enum BodyMut<'a> {
    Packed(OwnerMut<'a, Block>),
    WithExpiry(&'a mut WithExpiry),
    Table(&'a mut Fields),
}

impl Default for Hash {
    fn default() -> Self {
        Hash::of(Block::EMPTY, LISTPACK)
    }
}

impl Clone for Hash {
    fn clone(&self) -> Self {
        // SAFETY: the tag tells what the pointer was made of, and the hash is borrowed.
        unsafe {
            match self.0.tag() {
                LISTPACK => Hash::of(Block::clone(&self.0.peek()), LISTPACK),
                WITH_EXPIRY => Hash::of(Box::new(self.0.boxed::<WithExpiry>().clone()), WITH_EXPIRY),
                _ => Hash::of(Box::new(self.0.boxed::<Fields>().clone()), TABLE),
            }
        }
    }
}

impl Drop for Hash {
    fn drop(&mut self) {
        // SAFETY: the tag tells what the pointer was made of, and it is not used any more.
        unsafe {
            match self.0.tag() {
                LISTPACK => drop(self.0.take::<Block>()),
                WITH_EXPIRY => drop(self.0.take::<Box<WithExpiry>>()),
                _ => drop(self.0.take::<Box<Fields>>()),
            }
        }
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |element: Element<'_>| element.to_vec().escape_ascii().to_string();
        let entries = self.iter().map(|(field, value, expiry)| (text(field), (text(value), expiry)));
        formatter.debug_map().entries(entries).finish()
    }
}

const DUPLICATE: ListpackError = refused("hash has a field twice");

/// What is wrong with a listpack as a whole.
const fn refused(reason: &'static str) -> ListpackError {
    ListpackError { at: 0, reason }
}

#[inline]
fn field_of(item: Item<'_>) -> Field<'_> {
    (item.key, item.value, item.expiry())
}

impl Hash {
    /// An empty hash.
    pub fn new() -> Self {
        Self::default()
    }

    /// The hash of the fields and values of a listpack, which is checked. It stays packed unless it has more
    /// fields than the limits allow, however long they are.
    pub fn from_listpack(listpack: &[u8], limits: &EncodingLimits) -> Result<Self, ListpackError> {
        const UNPAIRED: ListpackError = refused("packed elements do not come in pairs");
        let mut gathered = packed::Gathered::new();
        if !packed::gather(listpack, &mut gathered)? {
            let mut elements = CheckedElements::new(listpack)?;
            let mut hash = Hash::new();
            let limits = EncodingLimits { hash_value_bytes_max: usize::MAX, ..limits.clone() };
            let (mut field_text, mut value_text) = Default::default();
            while let Some(field) = elements.next() {
                let field = field?;
                let value = elements.next().ok_or(UNPAIRED)??;
                if !hash.set(field.text(&mut field_text), value.text(&mut value_text), &limits) {
                    return Err(DUPLICATE);
                }
            }
            return Ok(hash);
        }
        if !gathered.len().is_multiple_of(PAIR.stride()) {
            return Err(UNPAIRED);
        }
        let mut hash = Hash::of(packed::block_of(PAIR, &gathered).ok_or(DUPLICATE)?, LISTPACK);
        if hash.len() > limits.hash_entries_max {
            hash.make_table();
        }
        Ok(hash)
    }

    /// The hash of fields, values and expiries in a listpack, which is checked: they come by rising expiry up
    /// to `expiry_max`, and those without one (0) last. It stays packed as above.
    pub fn from_listpack_with_expiry(
        listpack: &[u8],
        expiry_max: i64,
        limits: &EncodingLimits,
    ) -> Result<Self, ListpackError> {
        const INCOMPLETE: ListpackError = refused("packed elements do not come in threes");
        const BAD_EXPIRY: ListpackError = refused("hash has a field with an impossible expiry");
        const OUT_OF_ORDER: ListpackError = refused("hash has its fields out of the order of their expiries");
        let mut previous = 0;
        let mut check = |expiry: Option<i64>| {
            let expiry = expiry.filter(|expiry| (0..=expiry_max).contains(expiry)).ok_or(BAD_EXPIRY)?;
            let before = std::mem::replace(&mut previous, if expiry == 0 { i64::MAX } else { expiry });
            if previous < before { Err(OUT_OF_ORDER) } else { Ok((expiry != 0).then_some(expiry)) }
        };
        let mut gathered = packed::Gathered::new();
        if packed::gather(listpack, &mut gathered)? {
            for field in gathered.chunks(3) {
                let [_, _, expiry] = field else { return Err(INCOMPLETE) };
                check(expiry.as_integer())?;
            }
            let fields = WithExpiry::of(&gathered).ok_or(DUPLICATE)?;
            let mut hash = Hash::of(Box::new(fields), WITH_EXPIRY);
            if hash.len() > limits.hash_entries_max {
                hash.make_table();
            }
            return Ok(hash);
        }
        let mut elements = CheckedElements::new(listpack)?;
        let mut hash = Hash::new();
        let limits = EncodingLimits { hash_value_bytes_max: usize::MAX, ..limits.clone() };
        let (mut field_text, mut value_text) = Default::default();
        while let Some(field) = elements.next() {
            let field = field?;
            let value = elements.next().ok_or(INCOMPLETE)??;
            let expiry = check(elements.next().ok_or(INCOMPLETE)??.integer())?;
            if !hash.append(field.text(&mut field_text), value.text(&mut value_text), expiry, &limits) {
                return Err(DUPLICATE);
            }
        }
        Ok(hash)
    }

    fn of<T: Thin>(owner: T, tag: usize) -> Self {
        Hash(TaggedPtr::new(owner, tag))
    }

    #[inline]
    fn body(&self) -> Body<'_> {
        // SAFETY: the tag tells what the pointer was made of; what is read stays as long as the hash is
        // borrowed.
        unsafe {
            match self.0.tag() {
                LISTPACK => Body::Packed(self.0.peek::<Block>().view_unbound()),
                WITH_EXPIRY => Body::WithExpiry(self.0.boxed()),
                _ => Body::Table(self.0.boxed()),
            }
        }
    }

    #[inline]
    fn body_mut(&mut self) -> BodyMut<'_> {
        // SAFETY: the tag tells what the pointer was made of.
        unsafe {
            match self.0.tag() {
                LISTPACK => BodyMut::Packed(self.0.peek_mut()),
                WITH_EXPIRY => BodyMut::WithExpiry(self.0.boxed_mut()),
                _ => BodyMut::Table(self.0.boxed_mut()),
            }
        }
    }

    /// What is in the block of a packed form.
    #[inline]
    fn packed(&self) -> Option<View<'_>> {
        match self.body() {
            Body::Packed(view) => Some(view),
            Body::WithExpiry(fields) => Some(fields.block.view()),
            Body::Table(_) => None,
        }
    }

    /// The number of fields, expired ones that have not been removed included.
    #[inline]
    pub fn len(&self) -> usize {
        match self.body() {
            Body::Packed(packed) => packed.len(),
            Body::WithExpiry(fields) => fields.block.len(),
            Body::Table(fields) => fields.table.len(),
        }
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Has `visit` called with all fields. Memory that is not shared is given back on the way, and writers
    /// of a clone copy nothing of what has been visited.
    pub fn into_each(mut self, visit: &mut dyn FnMut(Field<'_>)) {
        if self.0.tag() != TABLE {
            return self.iter().for_each(visit);
        }
        // SAFETY: the tag tells what the pointer was made of.
        let fields = unsafe { self.0.boxed_mut::<Fields>() };
        fields.table.give_up_each(|item| visit(field_of(item)));
    }

    /// The name that OBJECT ENCODING replies.
    pub fn encoding(&self) -> &'static str {
        match self.body() {
            Body::Packed(_) => "listpack",
            Body::WithExpiry(_) => "listpackex",
            Body::Table(_) => "hashtable",
        }
    }

    /// Gives up the packed encodings if `new_fields` fields, or one field or value of `longest_bytes` bytes,
    /// cannot fit.
    pub fn expect(&mut self, new_fields: usize, longest_bytes: usize, limits: &EncodingLimits) {
        if new_fields > limits.hash_entries_max || longest_bytes > limits.hash_value_bytes_max {
            self.make_table();
        }
    }

    /// Prepares a hash of the encoding `hashtable` for `fields` fields in all, those that it has being
    /// typical.
    pub fn prepare(&mut self, fields: usize) {
        if let BodyMut::Table(table) = self.body_mut() {
            table.table.prepare(fields);
        }
    }

    /// Goes to an encoding whose fields can expire.
    pub fn expect_expiries(&mut self) {
        let pairs = match self.body_mut() {
            BodyMut::Packed(mut packed) => std::mem::replace(&mut *packed, Block::EMPTY),
            _ => return,
        };
        *self = Hash::of(Box::new(WithExpiry::new(pairs)), WITH_EXPIRY);
    }

    /// Gives a field a value and no expiry. True if the field is new.
    pub fn set(&mut self, field: &[u8], value: &[u8], limits: &EncodingLimits) -> bool {
        self.put(field, value, false, limits)
    }

    /// Gives a field a value and leaves its expiry as it is. True if the field is new.
    pub fn set_keeping_expiry(&mut self, field: &[u8], value: &[u8], limits: &EncodingLimits) -> bool {
        self.put(field, value, true, limits)
    }

    /// Gives a field a value and an expiry, a Unix time in ms above 0. True if the field is new.
    pub fn set_with_expiry(
        &mut self,
        field: &[u8],
        value: &[u8],
        expiry: i64,
        limits: &EncodingLimits,
    ) -> bool {
        self.expect(0, field.len().max(value.len()), limits);
        if let BodyMut::Table(fields) = self.body_mut() {
            return fields.put_with_expiry(&Encoded::new(field), &Encoded::new(value), expiry);
        }
        let is_new = self.set(field, value, limits);
        self.set_expiry(field, Some(expiry));
        is_new
    }

    /// Adds a field, whose expiry is not before that of any other, behind those with the same expiry; false
    /// if it is there already. For files, which have fields in this order. The encoding is one whose fields
    /// can expire from then on.
    pub fn append(
        &mut self,
        field: &[u8],
        value: &[u8],
        expiry: Option<i64>,
        limits: &EncodingLimits,
    ) -> bool {
        self.expect(0, field.len().max(value.len()), limits);
        self.expect_expiries();
        let (key, value) = (Encoded::new(field), Encoded::new(value));
        let (len, bytes) = match self.body_mut() {
            BodyMut::WithExpiry(fields) if fields.block.view().find(&key, 0).is_none() => {
                fields.append(&key, &value, expiry);
                (fields.block.len(), fields.block.heap_bytes())
            }
            BodyMut::Table(fields) if fields.get(&key).is_none() => {
                fields.add(&key, &value, expiry);
                return true;
            }
            _ => return false,
        };
        if len > limits.hash_entries_max || bytes > PACKED_BYTES_MAX {
            self.make_table();
        }
        true
    }

    /// Lets `change` make an integer of the value of a field, or of none where the field is not there, which
    /// becomes its value; the expiry stays. After an error everything is as it was.
    pub fn update_integer<E>(
        &mut self,
        field: &[u8],
        limits: &EncodingLimits,
        change: impl FnOnce(Option<Element<'_>>) -> Result<i64, E>,
    ) -> Result<(), E> {
        let key = Encoded::new(field);
        let mut body = self.body_mut();
        let block: &mut Block = match &mut body {
            BodyMut::Table(fields) => return fields.update_integer(&key, change),
            BodyMut::WithExpiry(fields) => &mut fields.block,
            BodyMut::Packed(packed) => packed,
        };
        let found = block.view().find(&key, 0);
        let integer = change(found.map(|position| block.view().item(position).value))?;
        let value = Encoded::integer(integer);
        match found {
            Some(position) if integer_text_length(integer) <= limits.hash_value_bytes_max => {
                block.replace(position, 1, &value);
            }
            _ => {
                drop(body);
                self.set_keeping_expiry(field, format_i64(&mut [0; 20], integer), limits);
            }
        }
        Ok(())
    }

    fn put(&mut self, field: &[u8], value: &[u8], keep: bool, limits: &EncodingLimits) -> bool {
        self.expect(0, field.len().max(value.len()), limits);
        let (field, value) = (Encoded::new(field), Encoded::new(value));
        let (is_new, len, bytes) = match self.body_mut() {
            BodyMut::Table(fields) => return fields.put(&field, &value, keep),
            BodyMut::WithExpiry(fields) => {
                let is_new = fields.put(&field, &value, keep);
                (is_new, fields.block.len(), fields.block.heap_bytes())
            }
            BodyMut::Packed(mut packed) => {
                let found = packed.view().find(&field, 0);
                match found {
                    Some(position) => packed.replace(position, 1, &value),
                    None => packed.push(PAIR, 0, &[field, value], 0),
                }
                (found.is_none(), packed.len(), packed.heap_bytes())
            }
        };
        if len > limits.hash_entries_max || bytes > PACKED_BYTES_MAX {
            self.make_table();
        }
        is_new
    }

    fn make_table(&mut self) {
        if matches!(self.body(), Body::Table(_)) {
            return;
        }
        let mut fields = Box::new(Fields::new());
        for (field, value, expiry) in self.iter() {
            fields.add(&Encoded::of(field), &Encoded::of(value), expiry);
        }
        fields.tracked = self.tracked_expiry();
        *self = Hash::of(fields, TABLE);
    }

    /// Fetches ahead what looking for a field will look at, if the hash is larger than the caches; false if
    /// it is not.
    pub fn fetch_ahead(&self, field: &[u8]) -> bool {
        match self.body() {
            Body::Table(fields) => fields.table.fetch_ahead(Encoded::new(field).hash()),
            _ => false,
        }
    }

    /// The value of a field and its expiry.
    pub fn get(&self, field: &[u8]) -> Option<(Element<'_>, Option<i64>)> {
        let field = Encoded::new(field);
        let item = match self.body() {
            Body::Packed(view) => view.item(view.find(&field, 0)?),
            Body::WithExpiry(fields) => {
                let view = fields.block.view();
                view.item(view.find(&field, 0)?)
            }
            Body::Table(fields) => fields.get(&field)?,
        };
        Some((item.value, item.expiry()))
    }

    /// Removes a field; false if it is not there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        let field = Encoded::new(field);
        let remove_from = |block: &mut Block| {
            let found = block.view().find(&field, 0);
            found.into_iter().for_each(|position| block.remove(position));
            found.is_some()
        };
        match self.body_mut() {
            BodyMut::Packed(mut packed) => remove_from(&mut packed),
            BodyMut::WithExpiry(fields) => remove_from(&mut fields.block),
            BodyMut::Table(fields) => fields.remove(&field),
        }
    }

    /// Sets or removes the expiry of a field, a Unix time in ms above 0; false if the field is not there.
    pub fn set_expiry(&mut self, field: &[u8], expiry: Option<i64>) -> bool {
        if expiry.is_some() {
            self.expect_expiries();
        }
        let field = Encoded::new(field);
        match self.body_mut() {
            BodyMut::Packed(packed) => packed.view().find(&field, 0).is_some(),
            BodyMut::WithExpiry(fields) => fields.set_expiry(&field, expiry),
            BodyMut::Table(fields) => fields.set_expiry(&field, expiry),
        }
    }

    /// Lets `decide` say what becomes of a field, knowing its value and its expiry, and returns what it says
    /// beside; `None` if the field is not there.
    pub fn change_field<R>(
        &mut self,
        field: &[u8],
        decide: impl FnOnce(Element<'_>, Option<i64>) -> (FieldChange, R),
    ) -> Option<R> {
        let key = Encoded::new(field);
        let mut body = self.body_mut();
        let block: &mut Block = match &mut body {
            BodyMut::Table(fields) => return fields.change_field(&key, decide),
            BodyMut::WithExpiry(fields) => &mut fields.block,
            BodyMut::Packed(packed) => packed,
        };
        let position = block.view().find(&key, 0)?;
        let item = block.view().item(position);
        let (change, result) = decide(item.value, item.expiry());
        match change {
            FieldChange::Keep => {}
            FieldChange::Remove => block.remove(position),
            FieldChange::Expire(expiry) => {
                drop(body);
                self.set_expiry(field, expiry);
            }
        }
        Some(result)
    }

    /// When the first of the fields expires, a Unix time in ms; `None` if none does.
    pub fn earliest_expiry(&self) -> Option<i64> {
        match self.body() {
            Body::Packed(_) => None,
            Body::WithExpiry(fields) => fields.earliest_expiry(),
            Body::Table(fields) => fields.earliest_expiry(),
        }
    }

    /// The number of expired fields that have not been removed. O(log n).
    pub fn expired_len(&self, now_ms: i64) -> usize {
        match self.body() {
            Body::Packed(_) => 0,
            Body::WithExpiry(fields) => fields.expired_len(now_ms),
            Body::Table(fields) => fields.expired_len(now_ms),
        }
    }

    /// Whether there are fields and all of them have expired.
    pub fn all_expired(&self, now_ms: i64) -> bool {
        match self.body() {
            Body::Packed(_) => false,
            Body::WithExpiry(fields) => fields.all_expired(now_ms),
            Body::Table(fields) => fields.all_expired(now_ms),
        }
    }

    /// When all fields have expired, a Unix time in ms; `None` if some never do.
    pub fn all_expired_from(&self) -> Option<i64> {
        match self.body() {
            Body::Packed(_) => None,
            Body::WithExpiry(fields) => fields.all_expired_from(),
            Body::Table(fields) => fields.all_expired_from(),
        }
    }

    /// The number of unexpired fields.
    pub fn unexpired_len(&self, now_ms: i64) -> usize {
        self.len() - self.expired_len(now_ms)
    }

    /// Removes up to `limit` expired fields, the earliest expiry first, shows each to `visit`, and returns
    /// their number.
    pub fn remove_expired(&mut self, now_ms: i64, limit: usize, mut visit: impl FnMut(&[u8])) -> usize {
        for count in 0..limit {
            match self.body_mut() {
                BodyMut::Packed(_) => return count,
                BodyMut::WithExpiry(fields) => match fields.take_expired(now_ms) {
                    Some(field) => visit(&field),
                    None => return count,
                },
                BodyMut::Table(fields) => match fields.take_expired(now_ms) {
                    Some(field) => visit(&field),
                    None => return count,
                },
            }
        }
        limit
    }

    /// Whether it is on the list of hashes with expiries although none of its fields has one.
    #[inline]
    pub fn is_tracked_in_vain(&self) -> bool {
        match self.body() {
            Body::Packed(_) => false,
            Body::WithExpiry(fields) => fields.tracked().is_some() && fields.earliest_expiry().is_none(),
            Body::Table(fields) => fields.tracked.is_some() && fields.earliest_expiry().is_none(),
        }
    }

    /// The expiry under which this hash is on the list of hashes with expiries; `None` if it is not. The
    /// hash only keeps it for the owner of the list. A clone is on no list.
    pub fn tracked_expiry(&self) -> Option<i64> {
        match self.body() {
            Body::Packed(_) => None,
            Body::WithExpiry(fields) => fields.tracked(),
            Body::Table(fields) => fields.tracked,
        }
    }

    /// Remembers under which expiry the hash is on the list. `Some` only if a field has an expiry.
    pub fn set_tracked_expiry(&mut self, expiry: Option<i64>) {
        match self.body_mut() {
            BodyMut::Packed(_) => debug_assert!(expiry.is_none()),
            BodyMut::WithExpiry(fields) => fields.set_tracked(expiry),
            BodyMut::Table(fields) => fields.tracked = expiry,
        }
    }

    /// A field picked at random, all with equal probability, expired or not. `random` returns uniform
    /// numbers.
    pub fn random(&self, mut random: impl FnMut() -> u64) -> Option<Field<'_>> {
        match self.body() {
            Body::Table(fields) => {
                fields.table.random(random).map(|place| field_of(fields.table.item(place)))
            }
            _ if self.is_empty() => None,
            _ => self.packed().map(|view| {
                let item = sample::below(random(), view.len());
                field_of(view.item(view.position(item)))
            }),
        }
    }

    /// Visits `count` fields, each picked at random among all unexpired ones, as long as `visit` returns
    /// true.
    pub fn pick(
        &self,
        count: usize,
        now_ms: i64,
        mut random: impl FnMut() -> u64,
        mut visit: impl FnMut(Field<'_>) -> bool,
    ) {
        let Some(view) = self.packed() else {
            let Body::Table(fields) = self.body() else { return };
            let expiring = fields.expiring(now_ms);
            for _ in 0..count {
                let place = fields.random_unexpired(&expiring, now_ms, &mut random);
                if !place.is_some_and(|place| visit(field_of(fields.table.item(place)))) {
                    return;
                }
            }
            return;
        };
        // By rising expiry, so those that have expired are the first.
        let expired = self.expired_len(now_ms);
        if expired == view.len() {
            return;
        }
        for _ in 0..count {
            let item = expired + sample::below(random(), view.len() - expired);
            if !visit(field_of(view.item(view.position(item)))) {
                return;
            }
        }
    }

    /// Visits `count` different unexpired fields, picked at random, or all if there are no more.
    pub fn sample(
        &self,
        count: usize,
        now_ms: i64,
        mut random: impl FnMut() -> u64,
        mut visit: impl FnMut(Field<'_>),
    ) {
        let unexpired = self.unexpired_len(now_ms);
        match self.body() {
            Body::Table(fields) if count < unexpired / 3 => {
                let expiring = fields.expiring(now_ms);
                let mut seen = HashSet::with_capacity(count);
                while seen.len() < count {
                    let place = fields.random_unexpired(&expiring, now_ms, &mut random);
                    let Some(place) = place else { return };
                    if seen.insert(place) {
                        visit(field_of(fields.table.item(place)));
                    }
                }
            }
            Body::Table(fields) if fields.without_expiry_len() == 0 => {
                let places = fields.expiring(now_ms).filter_map(|index| fields.in_order(index));
                let items = places.map(|place| field_of(fields.table.item(place)));
                sample::select(items, unexpired, count, random, visit);
            }
            _ => sample::select(self.unexpired(now_ms), unexpired, count, random, visit),
        }
    }

    /// Visits a part of the fields, expired or not, and returns the cursor of the next part; 0 starts, and 0
    /// returned ends an iteration. What is there throughout is visited at least once ([`packed::Buckets`]
    /// says why).
    pub fn scan(&self, cursor: u64, mut visit: impl FnMut(Field<'_>)) -> u64 {
        match self.body() {
            Body::Table(fields) => fields.table.scan(cursor, |item| visit(field_of(item))),
            _ => {
                self.iter().for_each(visit);
                0
            }
        }
    }

    /// The number of buckets of a `hashtable`, in whose order its fields come: see [`crate::bucket_of`].
    pub fn buckets(&self) -> Option<usize> {
        match self.body() {
            Body::Table(fields) => Some(fields.table.block_count()),
            _ => None,
        }
    }

    /// All fields with their values and expiries, whether or not they have expired.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Field<'_>> {
        match self.body() {
            Body::Packed(packed) => Iter::Packed(packed.items()),
            Body::WithExpiry(fields) => Iter::Packed(fields.block.view().items()),
            Body::Table(fields) => Iter::Table(fields.table.iter()),
        }
    }

    /// All unexpired fields, with their values and expiries.
    pub fn unexpired(&self, now_ms: i64) -> impl Iterator<Item = Field<'_>> {
        self.iter().filter(move |(_, _, expiry)| expiry.is_none_or(|time| time > now_ms))
    }

    /// Bytes taken, those that are shared with clones included.
    pub fn memory_usage(&self) -> usize {
        let of_block = |block: &Block| block.heap_bytes() + block.view().external_bytes();
        let body = match self.body() {
            Body::Packed(_) => {
                // SAFETY: the tag tells what the pointer was made of.
                let block = unsafe { self.0.peek::<Block>() };
                of_block(&block)
            }
            Body::WithExpiry(fields) => {
                of_block(&fields.block) + allocator::class_size(size_of::<WithExpiry>())
            }
            Body::Table(fields) => fields.memory_usage(),
        };
        body + allocator::class_size(size_of::<Hash>())
    }

    /// Moves a slice of what is better placed elsewhere, so that memory can be given back. True if there are
    /// more slices (see [`slab::parts_of_slice`]).
    pub fn compact(&mut self, slice: usize) -> bool {
        match self.body_mut() {
            BodyMut::Packed(mut packed) => packed.compact(),
            BodyMut::WithExpiry(fields) => fields.block.compact(),
            BodyMut::Table(fields) => return fields.table.compact(slice),
        }
        false
    }
}

impl Collection for Hash {
    fn element_count(&self) -> u64 {
        self.len() as u64
    }

    fn encoding(&self) -> &'static str {
        Hash::encoding(self)
    }

    fn memory_usage(&self) -> usize {
        Hash::memory_usage(self)
    }

    fn free_effort(&self) -> usize {
        if self.is_large_form() { self.len() } else { 1 }
    }

    fn redis_free_effort(&self, max: usize) -> usize {
        self.hash_table_len().map_or(1, |len| len.min(max + 1))
    }

    fn is_large_form(&self) -> bool {
        self.encoding() == "hashtable"
    }

    fn compact(&mut self, slice: usize) -> bool {
        Hash::compact(self, slice)
    }

    fn prefetch(&self, commands: &[Ahead<'_>]) -> bool {
        commands.iter().all(|command| self.fetch_ahead(command.arguments[0]))
    }

    fn hash_table_len(&self) -> Option<usize> {
        (self.encoding() == "hashtable").then(|| self.len())
    }
}

enum Iter<'a> {
    Packed(Items<'a>),
    Table(packed::Iter<'a>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = Field<'a>;

    #[inline]
    fn next(&mut self) -> Option<Field<'a>> {
        match self {
            Iter::Packed(iter) => iter.next().map(field_of),
            Iter::Table(iter) => iter.next().map(field_of),
        }
    }

    #[inline]
    fn fold<B, F: FnMut(B, Field<'a>) -> B>(self, init: B, f: F) -> B {
        match self {
            Iter::Packed(iter) => iter.map(field_of).fold(init, f),
            Iter::Table(iter) => iter.map(field_of).fold(init, f),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Iter::Packed(iter) => iter.size_hint(),
            Iter::Table(iter) => iter.size_hint(),
        }
    }
}

impl ExactSizeIterator for Iter<'_> {}
