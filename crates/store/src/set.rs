//! Sets, behind eight bytes.
//!
//! | encoding | form |
//! | --- | --- |
//! | `intset` | a sorted array of integers ([`integers`] draws it) |
//! | `listpack` | a [`Block`] of the members, in the order in which they came |
//! | `hashtable` | [`Buckets`]: a hash table of blocks |
//!
//! Forms change when Redis changes the encoding: at the thresholds of [`EncodingLimits`], and never back but
//! where an operation makes a new set.
//!
//! # Bytes
//!
//! - `intset`: 8, and the least width that holds all integers for each.
//! - `listpack`: 8, and 1 for each member beside its text, or its integer in the least width.
//! - `hashtable`: 2 for each member (its tag and code), and for each bucket of 224 to 900 bytes of members a
//!   pointer of 8, a header of 8, and what rounding up to a size class leaves free. So a text of 19 bytes
//!   takes 21 and at most 3 more, an integer of 40 bits 7 and at most 1 more.
//!
//! # Clones
//!
//! A clone of one of the last two forms shares all blocks and costs the same at any size; what is changed
//! later is copied then, block by block. An `intset` is copied: it has few members.

mod among;
mod combine;
mod integers;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;

use mantissa_memory::tagged_ptr::Thin;
use mantissa_memory::{TaggedPtr, allocator};
use mantissa_number::integer_text_length;

use crate::EncodingLimits;
use crate::listpack::{CheckedElements, Element, ListpackError};
use crate::packed::{self, Block, Buckets, Encoded, Form, Items, View};
use crate::sample;
use crate::{Ahead, Collection};
pub use among::Presence;
use integers::{INTEGERS_MAX, Integers, Sorted};

/// Representations, as the pointer's tag.
const INTEGERS: usize = 0;
const LISTPACK: usize = 1;
const TABLE: usize = 2;

/// Bytes of a `listpack` beyond which it becomes a table whatever the thresholds say.
const LISTPACK_BYTES_MAX: usize = 1 << 30;

const MEMBER: Form = Form::plain(1);

/// A set of byte strings.
#[repr(transparent)]
pub struct Set(TaggedPtr);

const _: () = assert!(size_of::<Set>() == 8);

// SAFETY: a set owns what its pointer leads to, all of which can be sent to and shared with other threads.
unsafe impl Send for Set {}
// SAFETY: as above.
unsafe impl Sync for Set {}

/// A borrowed set.
#[derive(Clone, Copy)]
enum Body<'a> {
    Integers(Sorted<'a>),
    Packed(View<'a>),
    Table(&'a Buckets),
}

impl Default for Set {
    fn default() -> Self {
        Set(TaggedPtr::new(Integers::EMPTY, INTEGERS))
    }
}

impl Clone for Set {
    fn clone(&self) -> Self {
        // SAFETY: the tag tells what the pointer was made of, and the set is borrowed.
        unsafe {
            match self.0.tag() {
                INTEGERS => Set::of(Integers::clone(&self.0.peek()), INTEGERS),
                LISTPACK => Set::of(Block::clone(&self.0.peek()), LISTPACK),
                _ => Set::of(Box::new(self.0.boxed::<Buckets>().clone()), TABLE),
            }
        }
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        // SAFETY: the tag tells what the pointer was made of, and it is not used any more.
        unsafe {
            match self.0.tag() {
                INTEGERS => drop(self.0.take::<Integers>()),
                LISTPACK => drop(self.0.take::<Block>()),
                _ => drop(self.0.take::<Box<Buckets>>()),
            }
        }
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self.iter().map(|member| member.to_vec().escape_ascii().to_string());
        formatter.debug_set().entries(texts).finish()
    }
}

impl Set {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty set in the encoding `listpack`.
    pub fn new_listpack() -> Self {
        Set::of(Block::EMPTY, LISTPACK)
    }

    /// The set of the members in a listpack, which is checked. It stays packed unless it has more members
    /// than the limits allow, however long they are.
    pub fn from_listpack(listpack: &[u8], limits: &EncodingLimits) -> Result<Self, ListpackError> {
        const DUPLICATE: ListpackError = ListpackError { at: 0, reason: "set has a member twice" };
        let mut gathered = packed::Gathered::new();
        if !packed::gather(listpack, &mut gathered)? {
            let mut set = Set::new_listpack();
            let limits = EncodingLimits { set_listpack_value_bytes_max: usize::MAX, ..limits.clone() };
            for element in CheckedElements::new(listpack)? {
                if !set.add_element(element?, &limits) {
                    return Err(DUPLICATE);
                }
            }
            return Ok(set);
        }
        let mut set = Set::of(packed::block_of(MEMBER, &gathered).ok_or(DUPLICATE)?, LISTPACK);
        if set.len() > limits.set_listpack_entries_max {
            set.make_table();
        }
        Ok(set)
    }

    /// The set of integers that rise.
    pub fn from_rising(integers: &[i64], limits: &EncodingLimits) -> Self {
        if integers.len() <= limits.set_intset_entries_max.min(INTEGERS_MAX) {
            return Set::of(Integers::of_rising(integers), INTEGERS);
        }
        let mut set = Set::new();
        integers.iter().for_each(|&integer| _ = set.add_element(Element::Integer(integer), limits));
        set
    }

    /// An empty set in the encoding `hashtable`.
    pub fn new_hashtable() -> Self {
        Set::of(Box::new(Buckets::new()), TABLE)
    }

    fn of<T: Thin>(owner: T, tag: usize) -> Self {
        Set(TaggedPtr::new(owner, tag))
    }

    #[inline]
    fn body(&self) -> Body<'_> {
        // SAFETY: the tag tells what the pointer was made of; what is read stays as long as the set is
        // borrowed.
        unsafe {
            match self.0.tag() {
                INTEGERS => Body::Integers(self.0.peek::<Integers>().view_unbound()),
                LISTPACK => Body::Packed(self.0.peek::<Block>().view_unbound()),
                _ => Body::Table(self.0.boxed::<Buckets>()),
            }
        }
    }

    /// The number of members.
    #[inline]
    pub fn len(&self) -> usize {
        match self.body() {
            Body::Integers(integers) => integers.len(),
            Body::Packed(packed) => packed.len(),
            Body::Table(table) => table.len(),
        }
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Has `visit` called with all members. Memory that is not shared is given back on the way, and writers
    /// of a clone copy nothing of what has been visited.
    pub fn into_each(mut self, visit: &mut dyn FnMut(Element<'_>)) {
        if self.0.tag() != TABLE {
            return self.iter().for_each(visit);
        }
        // SAFETY: the tag tells what the pointer was made of.
        let table = unsafe { self.0.boxed_mut::<Buckets>() };
        table.give_up_each(|item| visit(item.key));
    }

    /// The name that OBJECT ENCODING replies.
    pub fn encoding(&self) -> &'static str {
        match self.body() {
            Body::Integers(_) => "intset",
            Body::Packed(_) => "listpack",
            Body::Table(_) => "hashtable",
        }
    }

    /// Prepares for `count` members that will be added, the first of them being `first`. Chooses the encoding
    /// of an empty set, and gives up the packed ones where `count` members could never fit.
    pub fn expect(&mut self, first: &[u8], count: usize, limits: &EncodingLimits) {
        let max = if self.is_empty() {
            if Encoded::new(first).as_integer().is_some() && count <= limits.set_intset_entries_max {
                return *self = Set::new();
            }
            *self = Set::new_listpack();
            limits.set_listpack_entries_max
        } else {
            match self.body() {
                Body::Integers(_) => limits.set_intset_entries_max,
                Body::Packed(_) => limits.set_listpack_entries_max,
                Body::Table(_) => return,
            }
        };
        if count > max {
            self.make_table();
        }
    }

    /// Prepares a set of the encoding `hashtable` for `members` members in all, those that it has being
    /// typical.
    pub fn prepare(&mut self, members: usize) {
        if self.0.tag() == TABLE {
            // SAFETY: the tag tells what the pointer was made of.
            unsafe { self.0.boxed_mut::<Buckets>() }.prepare(members);
        }
    }

    /// Adds a member; false if it is there already.
    pub fn add(&mut self, member: &[u8], limits: &EncodingLimits) -> bool {
        self.add_encoded(&Encoded::new(member), member.len(), limits)
    }

    /// Adds a member that another set has; false if it is there already.
    pub fn add_element(&mut self, member: Element<'_>, limits: &EncodingLimits) -> bool {
        let len = match member {
            Element::Integer(integer) => integer_text_length(integer),
            Element::Bytes(text) => text.len(),
        };
        self.add_encoded(&Encoded::of(member), len, limits)
    }

    /// Adds a member whose text has `text_len` bytes.
    fn add_encoded(&mut self, member: &Encoded<'_>, text_len: usize, limits: &EncodingLimits) -> bool {
        match self.0.tag() {
            INTEGERS => match member.as_integer() {
                Some(integer) => {
                    // SAFETY: the tag tells what the pointer was made of.
                    let mut integers = unsafe { self.0.peek_mut::<Integers>() };
                    let is_new = integers.add(integer);
                    let len = integers.len();
                    drop(integers);
                    if len > limits.set_intset_entries_max.min(INTEGERS_MAX) {
                        self.make_table();
                    }
                    is_new
                }
                None => self.add_text_to_integers(member, text_len, limits),
            },
            LISTPACK => {
                // SAFETY: the tag tells what the pointer was made of.
                let mut packed = unsafe { self.0.peek_mut::<Block>() };
                let view = packed.view();
                if view.find(member, 0).is_some() {
                    return false;
                }
                if view.len() < limits.set_listpack_entries_max
                    && text_len <= limits.set_listpack_value_bytes_max
                    && packed.heap_bytes() < LISTPACK_BYTES_MAX
                {
                    packed.push(MEMBER, 0, std::slice::from_ref(member), 0);
                    return true;
                }
                drop(packed);
                add_to_table(self.make_table(), member)
            }
            _ => add_to_table(self.make_table(), member),
        }
    }

    /// Adds a text to a set of integers, which gives that form up.
    fn add_text_to_integers(
        &mut self,
        member: &Encoded<'_>,
        text_len: usize,
        limits: &EncodingLimits,
    ) -> bool {
        let len = self.len();
        let longest = match self.body() {
            Body::Integers(integers) if len > 0 => {
                integer_text_length(integers.get(0)).max(integer_text_length(integers.get(len - 1)))
            }
            _ => 0,
        };
        if len < limits.set_listpack_entries_max
            && text_len.max(longest) <= limits.set_listpack_value_bytes_max
        {
            let mut packed = Block::EMPTY;
            self.iter().for_each(|member| packed.push(MEMBER, 0, &[Encoded::of(member)], 0));
            packed.push(MEMBER, 0, std::slice::from_ref(member), 0);
            *self = Set::of(packed, LISTPACK);
            true
        } else {
            add_to_table(self.make_table(), member)
        }
    }

    /// Goes to the encoding `hashtable`.
    #[inline]
    fn make_table(&mut self) -> &mut Buckets {
        if self.0.tag() != TABLE {
            self.convert_to_table();
        }
        // SAFETY: the form has been made sure of.
        unsafe { self.0.boxed_mut() }
    }

    #[cold]
    fn convert_to_table(&mut self) {
        let mut table = Box::new(Buckets::new());
        self.iter().for_each(|member| {
            let member = Encoded::of(member);
            table.insert(member.hash(), &[member]);
        });
        *self = Set::of(table, TABLE);
    }

    /// Goes to the encoding `intset` if the limits allow its length. All members must be integers.
    pub fn make_intset(&mut self, limits: &EncodingLimits) {
        let max = limits.set_intset_entries_max.min(INTEGERS_MAX);
        if self.len() > max || self.0.tag() == INTEGERS {
            return;
        }
        let mut sorted: Vec<i64> = self.iter().filter_map(|member| member.integer()).collect();
        sorted.sort_unstable();
        *self = Set::of(Integers::of_rising(&sorted), INTEGERS);
    }

    /// Whether a member is there.
    pub fn contains(&self, member: &[u8]) -> bool {
        self.contains_encoded(&Encoded::new(member))
    }

    /// Whether a member of another set is one here as well.
    pub fn contains_element(&self, member: Element<'_>) -> bool {
        self.contains_encoded(&Encoded::of(member))
    }

    /// Fetches ahead what looking for a member will look at, if the set is larger than the caches; false if
    /// it is not.
    pub fn fetch_ahead(&self, member: &[u8]) -> bool {
        match self.body() {
            Body::Table(table) => table.fetch_ahead(Encoded::new(member).hash()),
            _ => false,
        }
    }

    #[inline]
    fn contains_encoded(&self, member: &Encoded<'_>) -> bool {
        match self.body() {
            Body::Integers(integers) => member.as_integer().is_some_and(|integer| integers.contains(integer)),
            Body::Packed(packed) => packed.find(member, 0).is_some(),
            Body::Table(table) => table.find(member, member.hash()).is_some(),
        }
    }

    /// Removes a member; false if it is not there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        self.remove_encoded(&Encoded::new(member))
    }

    /// Removes a member that another set has; false if it is not there.
    pub fn remove_element(&mut self, member: Element<'_>) -> bool {
        self.remove_encoded(&Encoded::of(member))
    }

    fn remove_encoded(&mut self, member: &Encoded<'_>) -> bool {
        // SAFETY: the tag tells what the pointer was made of.
        unsafe {
            match self.0.tag() {
                INTEGERS => match member.as_integer() {
                    Some(integer) => self.0.peek_mut::<Integers>().remove(integer),
                    None => false,
                },
                LISTPACK => {
                    let mut packed = self.0.peek_mut::<Block>();
                    let found = packed.view().find(member, 0);
                    found.into_iter().for_each(|position| packed.remove(position));
                    found.is_some()
                }
                _ => {
                    let table = self.0.boxed_mut::<Buckets>();
                    let found = table.find(member, member.hash());
                    found.into_iter().for_each(|place| table.remove(place));
                    found.is_some()
                }
            }
        }
    }

    /// A member picked at random, all with equal probability. `random` returns uniform numbers.
    pub fn random(&self, mut random: impl FnMut() -> u64) -> Option<Element<'_>> {
        match self.body() {
            _ if self.is_empty() => None,
            Body::Integers(integers) => {
                Some(Element::Integer(integers.get(sample::below(random(), integers.len()))))
            }
            Body::Packed(packed) => {
                let position = packed.position(sample::below(random(), packed.len()));
                Some(packed.item(position).key)
            }
            Body::Table(table) => table.random(random).map(|place| table.item(place).key),
        }
    }

    /// Visits `count` members picked at random, each time from all of them, as long as `visit` returns true.
    pub fn pick(
        &self,
        count: usize,
        mut random: impl FnMut() -> u64,
        mut visit: impl FnMut(Element<'_>) -> bool,
    ) {
        for _ in 0..count {
            let Some(member) = self.random(&mut random) else { return };
            if !visit(member) {
                return;
            }
        }
    }

    /// Visits `count` different members picked at random, or all if there are no more.
    pub fn sample(&self, count: usize, mut random: impl FnMut() -> u64, mut visit: impl FnMut(Element<'_>)) {
        match self.body() {
            Body::Table(table) if count < table.len() / 3 => {
                let mut seen = HashSet::with_capacity(count);
                while seen.len() < count {
                    let Some(place) = table.random(&mut random) else { return };
                    if seen.insert(place) {
                        visit(table.item(place).key);
                    }
                }
            }
            _ => sample::select(self.iter(), self.len(), count, random, visit),
        }
    }

    /// Visits a part of the members and returns the cursor of the next part; 0 starts, and 0 returned ends an
    /// iteration. Who is a member throughout is visited at least once ([`Buckets`] says why).
    pub fn scan(&self, cursor: u64, mut visit: impl FnMut(Element<'_>)) -> u64 {
        match self.body() {
            Body::Table(table) => table.scan(cursor, |item| visit(item.key)),
            _ => {
                self.iter().for_each(visit);
                0
            }
        }
    }

    /// The number of buckets of a `hashtable`, in whose order its members come: see [`crate::bucket_of`].
    pub fn buckets(&self) -> Option<usize> {
        match self.body() {
            Body::Table(table) => Some(table.block_count()),
            _ => None,
        }
    }

    /// All members; those that are stored as integers come as such.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Element<'_>> {
        match self.body() {
            Body::Integers(integers) => Iter::Integers(integers, 0),
            Body::Packed(packed) => Iter::Packed(packed.items()),
            Body::Table(table) => Iter::Table(table.iter()),
        }
    }

    /// Bytes taken, those that are shared with clones included.
    pub fn memory_usage(&self) -> usize {
        // SAFETY: the tag tells what the pointer was made of.
        let body = unsafe {
            match self.0.tag() {
                INTEGERS => self.0.peek::<Integers>().memory_usage(),
                LISTPACK => {
                    let block = self.0.peek::<Block>();
                    block.heap_bytes() + block.view().external_bytes()
                }
                _ => {
                    let table = self.0.boxed::<Buckets>();
                    table.memory_usage() + allocator::class_size(size_of::<Buckets>())
                }
            }
        };
        body + allocator::class_size(size_of::<Set>())
    }

    /// Moves a slice of what is better placed elsewhere, so that memory can be given back. True if there are
    /// more slices (see [`slab::parts_of_slice`]).
    pub fn compact(&mut self, slice: usize) -> bool {
        // SAFETY: the tag tells what the pointer was made of.
        unsafe {
            match self.0.tag() {
                INTEGERS => self.0.peek_mut::<Integers>().compact(),
                LISTPACK => self.0.peek_mut::<Block>().compact(),
                _ => return self.0.boxed_mut::<Buckets>().compact(slice),
            }
        }
        false
    }
}

impl Collection for Set {
    fn element_count(&self) -> u64 {
        self.len() as u64
    }

    fn encoding(&self) -> &'static str {
        Set::encoding(self)
    }

    fn memory_usage(&self) -> usize {
        Set::memory_usage(self)
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
        Set::compact(self, slice)
    }

    fn prefetch(&self, commands: &[Ahead<'_>]) -> bool {
        commands.iter().all(|command| self.fetch_ahead(command.arguments[0]))
    }

    fn hash_table_len(&self) -> Option<usize> {
        (self.encoding() == "hashtable").then(|| self.len())
    }
}

/// Adds a member to a table; false if it is there already.
fn add_to_table(table: &mut Buckets, member: &Encoded<'_>) -> bool {
    let hash = member.hash();
    let is_new = table.find(member, hash).is_none();
    if is_new {
        table.insert(hash, std::slice::from_ref(member));
    }
    is_new
}

enum Iter<'a> {
    Integers(Sorted<'a>, usize),
    Packed(Items<'a>),
    Table(packed::Iter<'a>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        match self {
            Iter::Integers(integers, index) => {
                let integer = (*index < integers.len()).then(|| integers.get(*index));
                *index += 1;
                integer.map(Element::Integer)
            }
            Iter::Packed(iter) => iter.next().map(|item| item.key),
            Iter::Table(iter) => iter.next().map(|item| item.key),
        }
    }

    #[inline]
    fn fold<B, F: FnMut(B, Element<'a>) -> B>(self, init: B, mut f: F) -> B {
        match self {
            Iter::Integers(integers, from) => {
                (from..integers.len()).map(|index| Element::Integer(integers.get(index))).fold(init, f)
            }
            Iter::Packed(iter) => iter.fold(init, |result, item| f(result, item.key)),
            Iter::Table(iter) => iter.fold(init, |result, item| f(result, item.key)),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Iter::Integers(integers, index) => {
                let left = integers.len().saturating_sub(*index);
                (left, Some(left))
            }
            Iter::Packed(iter) => iter.size_hint(),
            Iter::Table(iter) => iter.size_hint(),
        }
    }
}

impl ExactSizeIterator for Iter<'_> {}
