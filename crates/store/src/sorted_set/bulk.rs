//! Sorted sets made at once of all their members.

use std::cmp::Ordering;

use mantissa_memory::NodeId;

use super::leaf::Leaf;
use super::tree::{Tree, add_leaf, fitting};
use super::{Owned, SortedSet};
use crate::EncodingLimits;
use crate::distinct::all_differ;
use crate::member_index::{Item, hash_of};
use crate::short_text::fingerprint;

/// Entries that wait before leaves are made of them, and bytes of their members.
const WAITING_MAX: usize = 1 << 10;
const WAITING_BYTES_MAX: usize = 64 << 10;

/// Makes a sorted set of members that come one by one, in any order. As long as they come from the highest to
/// the lowest, which is the order that files have, they are packed into leaves as they come, and nothing else
/// is kept of them but eight bytes for the index.
#[derive(Default)]
pub struct SortedSetBuilder {
    /// The members that wait, back to back.
    members: Vec<u8>,
    /// Where each of them ends, and its score.
    waiting: Vec<(usize, f64)>,
    /// What came before, from the highest to the lowest.
    leaves: Vec<Leaf>,
    /// What the index is to say of the members of `leaves`.
    items: Vec<Item>,
    /// Bytes of the longest member.
    longest: usize,
    is_out_of_order: bool,
}

/// The order of entries.
fn compare(one: (&[u8], f64), other: (&[u8], f64)) -> Ordering {
    let scores = one.1.partial_cmp(&other.1).unwrap_or(Ordering::Equal);
    scores.then_with(|| one.0.cmp(other.0))
}

/// One of the entries that wait.
#[inline]
fn entry_of<'m>(members: &'m [u8], waiting: &[(usize, f64)], number: usize) -> (&'m [u8], f64) {
    let start = if number == 0 { 0 } else { waiting[number - 1].0 };
    let (end, score) = waiting[number];
    (&members[start..end], score)
}

impl SortedSetBuilder {
    /// A builder of an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with room for so many members, which have so many bytes together.
    pub fn with_capacity(members: usize, bytes: usize) -> Self {
        let mut builder = Self::default();
        builder.members.reserve_exact(bytes.min(WAITING_BYTES_MAX));
        builder.waiting.reserve_exact(members.min(WAITING_MAX));
        builder
    }

    /// Adds a member, whose score is then to be told.
    pub fn member(&mut self, member: &[u8]) {
        self.members.extend_from_slice(member);
    }

    /// Tells the score of the member that was added last; it must not be NaN.
    pub fn score(&mut self, score: f64) {
        debug_assert!(!score.is_nan());
        self.waiting.push((self.members.len(), score));
        let last = self.waiting.len() - 1;
        self.longest = self.longest.max(self.entry(last).0.len());
        if last > 0 && compare(self.entry(last), self.entry(last - 1)) != Ordering::Less {
            self.is_out_of_order = true;
        }
        if self.waiting.len() >= WAITING_MAX || self.members.len() >= WAITING_BYTES_MAX {
            self.pack(false);
        }
    }

    /// One of the entries that wait.
    #[inline]
    fn entry(&self, number: usize) -> (&[u8], f64) {
        entry_of(&self.members, &self.waiting, number)
    }

    /// Makes leaves of what waits, as long as they become full; of all of it at the end.
    fn pack(&mut self, is_end: bool) {
        if self.is_out_of_order {
            return;
        }
        let mut taken = 0;
        while taken < self.waiting.len() {
            let sizes = (taken..self.waiting.len()).map(|number| self.entry(number));
            let count = fitting(sizes.map(|(member, score)| (member.len(), score)));
            if taken + count == self.waiting.len() && !is_end {
                break;
            }
            let SortedSetBuilder { members, waiting, leaves, items, .. } = self;
            let entries = (taken..taken + count).rev().map(|number| entry_of(members, waiting, number));
            add_leaf(leaves, items, entries);
            taken += count;
        }
        if taken > 0 {
            let bytes = self.waiting[taken - 1].0;
            self.members.drain(..bytes);
            self.waiting.drain(..taken);
            self.waiting.iter_mut().for_each(|(end, _)| *end -= bytes);
        }
    }

    /// The set; `None` if a member came twice.
    pub fn finish(mut self, limits: &EncodingLimits) -> Option<SortedSet> {
        let len = self.items.len() + self.waiting.len();
        let is_listpack =
            len <= limits.sorted_set_entries_max && self.longest <= limits.sorted_set_value_bytes_max;
        if self.leaves.is_empty() || self.is_out_of_order || is_listpack {
            return self.sorted(limits);
        }
        self.pack(true);
        let last = self.leaves.len() as NodeId - 1;
        self.items.iter_mut().for_each(|item| item.part = last - item.part);
        let tree = Tree::of_leaves(self.leaves.into_iter().rev(), &self.items)?;
        let mut set = SortedSet::new();
        set.body.put(Owned::Large(Box::new(tree)));
        set.set_listpack(false);
        Some(set)
    }

    /// The set of members in whatever order.
    fn sorted(&self, limits: &EncodingLimits) -> Option<SortedSet> {
        let mut entries: Vec<(&[u8], f64)> = Vec::with_capacity(self.items.len() + self.waiting.len());
        for leaf in &self.leaves {
            let view = leaf.view();
            entries.extend((0..view.len()).rev().map(|slot| view.entry(slot)));
        }
        entries.extend((0..self.waiting.len()).map(|number| self.entry(number)));
        let members = entries.iter().map(|&(member, _)| member);
        let differ = all_differ(members, fingerprint, hash_of, |member| member);
        differ.then(|| SortedSet::from_entries(entries, limits))
    }
}
