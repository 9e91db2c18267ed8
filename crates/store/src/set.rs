//! Sets.
//!
//! | encoding | form |
//! | --- | --- |
//! | `intset` | a sorted array of integers |
//! | `listpack` | the members back to back, in the order in which they came |
//! | `hashtable` | a [`Table`] of members: up to seven bytes in place, longer ones an allocation each |
//!
//! Forms change when Redis changes the encoding: at the thresholds of [`EncodingLimits`], and never back but
//! where an operation makes a new set.
//!
//! Bytes per member of a large set: 12.8 to 14 for the table, and if it is no integer of 63 bits and longer
//! than seven bytes, its length and one, rounded up to a size class.

mod integers;
pub(crate) mod member;
pub(crate) mod packed;
pub(crate) mod sample;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;

use mantissa_number::{INTEGER_TEXT_MAX, integer_text_length, parse_i64};

use crate::listpack::Element;
use crate::table::Table;
use crate::{EncodingLimits, allocator};
use integers::Integers;
use member::{Member, element_of, hash_of};
use packed::{Needle, Packed};

/// A table of members.
#[derive(Default)]
struct Members {
    table: Table<Member>,
    /// Bytes of the members' own allocations.
    heap_bytes: usize,
}

impl Members {
    fn contains(&self, member: &[u8]) -> bool {
        let element = element_of(member);
        self.table.get(hash_of(element), |other| other.element() == element).is_some()
    }

    fn add(&mut self, member: &[u8]) -> bool {
        let element = element_of(member);
        let (item, is_new) = self.table.get_or_insert_with(
            hash_of(element),
            |other| other.element() == element,
            || Member::new(element),
            |other| hash_of(other.element()),
        );
        if is_new {
            self.heap_bytes += item.heap_bytes();
        }
        is_new
    }

    fn remove(&mut self, member: &[u8]) -> bool {
        let element = element_of(member);
        let removed = self.table.remove(
            hash_of(element),
            |other| other.element() == element,
            |other| hash_of(other.element()),
        );
        if let Some(member) = &removed {
            self.heap_bytes -= member.heap_bytes();
        }
        removed.is_some()
    }
}

enum Body {
    Integers(Integers),
    Packed(Packed),
    Table(Box<Members>),
}

/// A set of byte strings.
pub struct Set(Body);

impl Default for Set {
    fn default() -> Self {
        Set(Body::Integers(Integers::default()))
    }
}

impl Clone for Set {
    fn clone(&self) -> Self {
        Set(match &self.0 {
            Body::Integers(integers) => Body::Integers(integers.clone()),
            Body::Packed(packed) => Body::Packed(packed.clone()),
            Body::Table(members) => {
                let mut table = Table::new();
                for member in members.table.iter() {
                    let hash = hash_of(member.element());
                    table.insert(hash, member.clone(), |other| hash_of(other.element()));
                }
                Body::Table(Box::new(Members { table, heap_bytes: members.heap_bytes }))
            }
        })
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
        Set(Body::Packed(Packed::default()))
    }

    /// An empty set in the encoding `hashtable`.
    pub fn new_hashtable() -> Self {
        Set(Body::Table(Box::default()))
    }

    /// The number of members.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Body::Integers(integers) => integers.len(),
            Body::Packed(packed) => packed.len(),
            Body::Table(members) => members.table.len(),
        }
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name that OBJECT ENCODING replies.
    pub fn encoding(&self) -> &'static str {
        match &self.0 {
            Body::Integers(_) => "intset",
            Body::Packed(_) => "listpack",
            Body::Table(_) => "hashtable",
        }
    }

    /// Prepares for `count` members that will be added, the first of them being `first`. Chooses the encoding
    /// of an empty set, and gives up the packed ones where so many could never fit.
    pub fn expect(&mut self, first: &[u8], count: usize, limits: &EncodingLimits) {
        let max = if self.is_empty() {
            if parse_i64(first).is_some() && count <= limits.set_intset_entries_max {
                return self.0 = Body::Integers(Integers::default());
            }
            self.0 = Body::Packed(Packed::default());
            limits.set_listpack_entries_max
        } else {
            match &self.0 {
                Body::Integers(_) => limits.set_intset_entries_max,
                Body::Packed(_) => limits.set_listpack_entries_max,
                Body::Table(_) => return,
            }
        };
        if count > max {
            self.make_table();
        }
    }

    /// Adds a member; false if it is there already.
    pub fn add(&mut self, member: &[u8], limits: &EncodingLimits) -> bool {
        match &mut self.0 {
            Body::Table(members) => members.add(member),
            Body::Packed(packed) => {
                if packed.find(&Needle::new(member), 1).is_some() {
                    return false;
                }
                if packed.len() < limits.set_listpack_entries_max
                    && member.len() <= limits.set_listpack_value_bytes_max
                {
                    packed.push(member);
                    return true;
                }
                self.make_table().add(member)
            }
            Body::Integers(integers) => match parse_i64(member) {
                Some(integer) => {
                    let is_new = integers.add(integer);
                    if integers.len() > limits.set_intset_entries_max {
                        self.make_table();
                    }
                    is_new
                }
                None => self.add_text_to_integers(member, limits),
            },
        }
    }

    fn add_text_to_integers(&mut self, member: &[u8], limits: &EncodingLimits) -> bool {
        let Body::Integers(integers) = &self.0 else { return self.add(member, limits) };
        let len = integers.len();
        let longest = match len {
            0 => 0,
            _ => integer_text_length(integers.get(0)).max(integer_text_length(integers.get(len - 1))),
        };
        if len < limits.set_listpack_entries_max
            && member.len().max(longest) <= limits.set_listpack_value_bytes_max
        {
            let mut packed = Packed::default();
            self.iter().for_each(|member| packed.push(member.text(&mut [0; INTEGER_TEXT_MAX])));
            packed.push(member);
            self.0 = Body::Packed(packed);
            true
        } else {
            self.make_table().add(member)
        }
    }

    fn make_table(&mut self) -> &mut Members {
        if !matches!(self.0, Body::Table(_)) {
            let mut members = Box::<Members>::default();
            for member in self.iter() {
                members.add(member.text(&mut [0; INTEGER_TEXT_MAX]));
            }
            self.0 = Body::Table(members);
        }
        match &mut self.0 {
            Body::Table(members) => members,
            _ => unreachable!("it has been made one above"),
        }
    }

    /// Goes to the encoding `intset` if it may have so many members. All of them must be integers.
    pub fn make_intset(&mut self, limits: &EncodingLimits) {
        if self.len() > limits.set_intset_entries_max || matches!(self.0, Body::Integers(_)) {
            return;
        }
        let mut sorted: Vec<i64> = self.iter().filter_map(|member| member.integer()).collect();
        sorted.sort_unstable();
        let mut integers = Integers::default();
        sorted.into_iter().for_each(|integer| {
            integers.add(integer);
        });
        self.0 = Body::Integers(integers);
    }

    /// Whether a member is there.
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.0 {
            Body::Integers(integers) => parse_i64(member).is_some_and(|integer| integers.contains(integer)),
            Body::Packed(packed) => packed.find(&Needle::new(member), 1).is_some(),
            Body::Table(members) => members.contains(member),
        }
    }

    /// Removes a member; false if it is not there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.0 {
            Body::Integers(integers) => parse_i64(member).is_some_and(|integer| integers.remove(integer)),
            Body::Packed(packed) => match packed.find(&Needle::new(member), 1) {
                Some(position) => {
                    packed.remove(position, 1);
                    true
                }
                None => false,
            },
            Body::Table(members) => members.remove(member),
        }
    }

    /// A member picked at random, all with equal probability. `random` returns uniform numbers.
    pub fn random(&self, mut random: impl FnMut() -> u64) -> Option<Element<'_>> {
        match &self.0 {
            _ if self.is_empty() => None,
            Body::Integers(integers) => {
                Some(Element::Integer(integers.get(sample::below(random(), integers.len()))))
            }
            Body::Packed(packed) => packed.iter().nth(sample::below(random(), packed.len())),
            Body::Table(members) => members.table.random(random).map(Member::element),
        }
    }

    /// Removes a member picked at random and returns it.
    pub fn pop(&mut self, random: impl FnMut() -> u64) -> Option<Vec<u8>> {
        let member = self.random(random)?.to_vec();
        self.remove(&member);
        Some(member)
    }

    /// Visits `count` members picked at random, each time from all of them.
    pub fn pick(&self, count: usize, mut random: impl FnMut() -> u64, mut visit: impl FnMut(Element<'_>)) {
        if let Body::Packed(packed) = &self.0 {
            let members: Vec<Element<'_>> = packed.iter().collect();
            if !members.is_empty() {
                (0..count).for_each(|_| visit(members[sample::below(random(), members.len())]));
            }
            return;
        }
        for _ in 0..count {
            let Some(member) = self.random(&mut random) else { return };
            visit(member);
        }
    }

    /// Visits `count` different members picked at random, or all if there are no more.
    pub fn sample(&self, count: usize, mut random: impl FnMut() -> u64, mut visit: impl FnMut(Element<'_>)) {
        match &self.0 {
            Body::Table(members) if count < members.table.len() / 3 => {
                let mut seen = HashSet::with_capacity(count);
                while seen.len() < count {
                    let Some(member) = members.table.random(&mut random) else { return };
                    if seen.insert(std::ptr::from_ref(member).addr()) {
                        visit(member.element());
                    }
                }
            }
            _ => sample::select(self.iter(), self.len(), count, random, visit),
        }
    }

    /// Visits a part of the members and returns the cursor of the next part; 0 starts, and 0 returned ends an
    /// iteration. Who is a member throughout is visited at least once.
    pub fn scan(&self, cursor: u64, mut visit: impl FnMut(Element<'_>)) -> u64 {
        match &self.0 {
            Body::Table(members) => members.table.scan(cursor, |member| visit(member.element())),
            _ => {
                self.iter().for_each(visit);
                0
            }
        }
    }

    /// All members; those that are stored as integers come as such.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Element<'_>> {
        match &self.0 {
            Body::Integers(integers) => Iter::Integers(integers, 0),
            Body::Packed(packed) => Iter::Packed(packed.iter()),
            Body::Table(members) => Iter::Table(members.table.iter()),
        }
    }

    /// Bytes taken.
    pub fn memory_usage(&self) -> usize {
        let body = match &self.0 {
            Body::Integers(integers) => integers.memory_usage(),
            Body::Packed(packed) => packed.memory_usage(),
            Body::Table(members) => {
                members.table.memory_usage()
                    + members.heap_bytes
                    + allocator::class_size(size_of::<Members>())
            }
        };
        body + allocator::class_size(size_of::<Set>())
    }
}

enum Iter<'a> {
    Integers(&'a Integers, usize),
    Packed(packed::PackedIter<'a>),
    Table(crate::table::Iter<'a, Member>),
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
            Iter::Packed(iter) => iter.next(),
            Iter::Table(iter) => iter.next().map(Member::element),
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
