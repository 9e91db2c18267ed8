//! Sorted sets.
//!
//! Members are ordered by score and, where scores are equal, by their bytes. A small set is one leaf:
//! scores, tags and members in a single allocation. A large one is a B+ tree of such leaves with the number
//! of members below each branch, and an index from members to leaves. A member's score costs O(1), its rank,
//! a change, and the start of a range by rank, score or member O(log n), each further member of a range
//! O(1), in both directions.
//!
//! The name that OBJECT ENCODING replies follows Redis's thresholds and is apart from the form in memory:
//! `skiplist` once a threshold was passed, also if few members are left.
//!
//! No score is NaN. As in Redis, a negative zero is kept as one only while the encoding is `skiplist`.

mod ahead;
mod boundary;
mod bulk;
mod leaf;
mod tree;

use std::fmt;
use std::ops::Range;

use smallvec::SmallVec;

use crate::member_index::hash_of;
use crate::{Ahead, Collection, EncodingLimits};
pub use boundary::Boundary;
pub use bulk::SortedSetBuilder;
pub use leaf::Run;
use leaf::{Cursor, ENTRY_BYTES_MAX, Leaf, View};
use mantissa_memory::small_or_large::{Borrowed, Owned};
use mantissa_memory::{NodeId, SharedBytes, SmallOrLarge};
use tree::{Place, Tree, tag_of};

/// Most entries of a set that is one leaf.
const PACKED_ENTRIES_MAX: usize = 128;
/// Most bytes of a set that is one leaf and has more than one entry.
const PACKED_BYTES_MAX: usize = 8192;
/// A tree with this many members that are in one leaf becomes that leaf.
const UNTREED_ENTRIES: usize = 16;

/// A set of byte strings with a score each. Its flag says that Redis would not use a listpack.
#[derive(Clone)]
#[repr(transparent)]
pub struct SortedSet {
    body: SmallOrLarge<Tree>,
}

const _: () = assert!(size_of::<SortedSet>() == 8);

impl Default for SortedSet {
    fn default() -> Self {
        SortedSet { body: SmallOrLarge::new() }
    }
}

impl fmt::Debug for SortedSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_map()
            .entries(self.iter().map(|(member, score)| (member.escape_ascii().to_string(), score)))
            .finish()
    }
}

impl SortedSet {
    /// An empty sorted set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The set of these members, which are distinct, in any order, and their scores. Costs one sort, and
    /// O(n) if they are in order already.
    pub fn from_entries(mut entries: Vec<(&[u8], f64)>, limits: &EncodingLimits) -> Self {
        let is_listpack = entries.len() <= limits.sorted_set_entries_max
            && entries.iter().all(|(member, _)| member.len() <= limits.sorted_set_value_bytes_max);
        for (_, score) in &mut entries {
            debug_assert!(!score.is_nan());
            *score = if is_listpack { *score + 0.0 } else { *score };
        }
        entries.sort_unstable_by(|one, two| {
            let scores = one.1.partial_cmp(&two.1).unwrap_or(std::cmp::Ordering::Equal);
            scores.then_with(|| one.0.cmp(two.0))
        });
        let bytes: usize = entries.iter().map(|(member, _)| ENTRY_BYTES_MAX + member.len()).sum();
        let is_small = entries.len() <= PACKED_ENTRIES_MAX && bytes <= PACKED_BYTES_MAX;
        let tagged = entries.iter().map(|&(member, score)| (member, score, tag_of(hash_of(member))));
        let mut set = SortedSet::new();
        set.body.put(match is_small {
            true => Owned::Small(Leaf::build(tagged).into_bytes()),
            false => Owned::Large(Box::new(Tree::build(&entries))),
        });
        set.set_listpack(is_listpack);
        set
    }

    /// The number of members.
    #[inline]
    pub fn len(&self) -> usize {
        match self.body.get() {
            Borrowed::Small(payload) => View::new(payload).len(),
            Borrowed::Large(tree) => tree.len(),
        }
    }

    #[inline]
    fn is_listpack(&self) -> bool {
        !self.body.flag()
    }

    #[inline]
    fn set_listpack(&mut self, is_listpack: bool) {
        self.body.set_flag(!is_listpack);
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fetches ahead what finding these members, and giving them these scores, will look at, if the set is
    /// larger than the caches; false if it is not. Changes nothing: a wrong guess costs time only.
    pub fn fetch_ahead(&self, aims: &[(&[u8], Option<f64>)]) -> bool {
        match self.body.get() {
            Borrowed::Large(tree) if tree.is_far() => {
                tree.fetch_ahead(aims);
                true
            }
            _ => false,
        }
    }

    /// Has `visit` called with all members and scores from the highest to the lowest. Memory that is not
    /// shared is given back on the way, and writers of a clone copy nothing of what has been visited.
    pub fn into_each_reversed(mut self, visit: &mut dyn FnMut(&[u8], f64)) {
        match self.body.take() {
            Owned::Large(tree) => tree.into_each_reversed(visit),
            small => {
                self.body.put(small);
                self.iter().rev().for_each(|(member, score)| visit(member, score));
            }
        }
    }

    /// The name that OBJECT ENCODING replies.
    pub fn encoding(&self) -> &'static str {
        if self.is_listpack() { "listpack" } else { "skiplist" }
    }

    /// Passes to the encoding `skiplist` if `len` members, or one of `member_bytes` bytes, would need it.
    pub fn expect(&mut self, len: usize, member_bytes: usize, limits: &EncodingLimits) {
        let is_small =
            len <= limits.sorted_set_entries_max && member_bytes <= limits.sorted_set_value_bytes_max;
        self.set_listpack(self.is_listpack() && is_small);
    }

    /// Goes back to the encoding `listpack` if all members fit it.
    pub fn settle(&mut self, limits: &EncodingLimits) {
        let fits = |(member, _): (&[u8], f64)| member.len() <= limits.sorted_set_value_bytes_max;
        if !self.is_listpack() && self.len() <= limits.sorted_set_entries_max && self.iter().all(fits) {
            let entries = self.iter().map(|(member, score)| (member.to_vec(), score)).collect::<Vec<_>>();
            let entries = entries.iter().map(|(member, score)| (&member[..], *score)).collect();
            *self = SortedSet::from_entries(entries, limits);
        }
    }

    /// Gives a member a score, which must not be NaN. True if the member is new.
    pub fn insert(&mut self, member: &[u8], score: f64, limits: &EncodingLimits) -> bool {
        self.update(member, limits, |_| Some(score)).is_none()
    }

    /// Lets `decide` choose the new score of a member, knowing the old one if the member is there; `None`
    /// leaves things as they are. Returns the old score.
    pub fn update(
        &mut self,
        member: &[u8],
        limits: &EncodingLimits,
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> Option<f64> {
        let hash = hash_of(member);
        let found = self.find(member, hash);
        let old = found.map(|(_, score)| score);
        let Some(new) = decide(old) else { return old };
        debug_assert!(!new.is_nan());
        if old == Some(new) {
            return old;
        }
        match found {
            Some((place, _)) => {
                let new = if self.is_listpack() { new + 0.0 } else { new };
                self.set_score(place, member, new, hash);
            }
            None => {
                self.expect(self.len() + 1, member.len(), limits);
                let new = if self.is_listpack() { new + 0.0 } else { new };
                self.add(member, new, hash);
            }
        }
        old
    }

    /// The score of a member.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        let (_, score) = self.find(member, hash_of(member))?;
        Some(score)
    }

    /// The number of members before one, and its score.
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let (place, score) = self.find(member, hash_of(member))?;
        let rank = match self.body.get() {
            Borrowed::Small(_) => place.slot,
            Borrowed::Large(tree) => tree.rank(place),
        };
        Some((rank, score))
    }

    /// Removes a member and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let hash = hash_of(member);
        let (place, score) = self.find(member, hash)?;
        match self.body.large_mut() {
            None => self.change_packed(|leaf| leaf.remove(place.slot..place.slot + 1)),
            Some(tree) => tree.remove(place, hash),
        }
        self.untree();
        Some(score)
    }

    /// Removes the members of these ranks.
    pub fn remove_ranks(&mut self, ranks: Range<usize>) {
        let end = ranks.end.min(self.len());
        let ranks = ranks.start.min(end)..end;
        match self.body.large_mut() {
            None => self.change_packed(|leaf| leaf.remove(ranks)),
            Some(tree) => tree.remove_ranks(ranks),
        }
        self.untree();
    }

    /// The number of members before a boundary.
    pub fn count_before(&self, boundary: Boundary<'_>) -> usize {
        match (boundary, self.body.get()) {
            (Boundary::Start, _) => 0,
            (Boundary::End, _) => self.len(),
            (boundary, Borrowed::Small(payload)) => View::new(payload).count_before(boundary),
            (boundary, Borrowed::Large(tree)) => tree.count_before(boundary),
        }
    }

    /// The ranks of the members between two boundaries.
    pub fn ranks_between(&self, low: Boundary<'_>, high: Boundary<'_>) -> Range<usize> {
        let members = self.between(low, high);
        members.from..members.to
    }

    /// The members between two boundaries with their scores, in order.
    pub fn between(&self, low: Boundary<'_>, high: Boundary<'_>) -> Iter<'_> {
        if let Borrowed::Large(tree) = self.body.get()
            && low != Boundary::End
            && high != Boundary::End
        {
            let ends = tree.between(low, high);
            let [(from, first), (to, end)] = ends.unwrap_or_default();
            return Iter { first: Some(first), end: Some(end), ..self.range(from..to) };
        }
        let from = self.count_before(low);
        self.range(from..self.count_before(high).max(from))
    }

    /// The member of a rank with its score.
    pub fn get(&self, rank: usize) -> Option<(&[u8], f64)> {
        let place = match self.body.get() {
            Borrowed::Small(payload) => {
                (rank < View::new(payload).len()).then_some(Place { leaf: 0, slot: rank })
            }
            Borrowed::Large(tree) => tree.at(rank),
        }?;
        Some(self.leaf(place).entry(place.slot))
    }

    /// All members with their scores, in order.
    pub fn iter(&self) -> Iter<'_> {
        self.range(0..self.len())
    }

    /// The members of these ranks with their scores, in order.
    pub fn range(&self, ranks: Range<usize>) -> Iter<'_> {
        let to = ranks.end.min(self.len());
        Iter { set: self, front: None, back: None, first: None, end: None, from: ranks.start.min(to), to }
    }

    /// Visits a part of the members, about `wanted` or fewer where there are many, and returns the cursor of
    /// the next part; 0 starts, and 0 returned ends an iteration.
    pub fn scan(&self, cursor: u64, wanted: usize, mut visit: impl FnMut(&[u8], f64)) -> u64 {
        match self.body.get() {
            Borrowed::Large(tree) if !self.is_listpack() => tree.scan(cursor, wanted, visit),
            _ => {
                self.iter().for_each(|(member, score)| visit(member, score));
                0
            }
        }
    }

    /// Bytes taken, the structure itself not included.
    pub fn memory_usage(&self) -> usize {
        match self.body.get() {
            Borrowed::Small(payload) => SharedBytes::allocation_of(payload),
            Borrowed::Large(tree) => tree.memory_usage(),
        }
    }

    /// Moves a slice of what is better placed elsewhere, so that memory can be given back. True if there are
    /// more slices (see [`slab::parts_of_slice`]).
    pub fn compact(&mut self, slice: usize) -> bool {
        match self.body.large_mut() {
            None => {
                self.change_packed(Leaf::compact);
                false
            }
            Some(tree) => tree.compact(slice),
        }
    }

    /// Where a member is, and its score.
    #[inline]
    fn find(&self, member: &[u8], hash: u64) -> Option<(Place, f64)> {
        match self.body.get() {
            Borrowed::Small(payload) => {
                let leaf = View::new(payload);
                leaf.find(member, tag_of(hash)).map(|slot| (Place { leaf: 0, slot }, leaf.score(slot)))
            }
            Borrowed::Large(tree) => tree.find(member, hash),
        }
    }

    #[inline]
    fn leaf(&self, place: Place) -> View<'_> {
        match self.body.get() {
            Borrowed::Small(payload) => View::new(payload),
            Borrowed::Large(tree) => tree.leaf(place.leaf),
        }
    }

    /// Changes the leaf that the whole set is.
    #[inline]
    fn change_packed<R>(&mut self, change: impl FnOnce(&mut Leaf) -> R) -> R {
        let mut leaf = match self.body.take() {
            Owned::Small(bytes) => Leaf::from_bytes(bytes),
            Owned::Large(_) => unreachable!("the caller has seen that the set is one leaf"),
        };
        let result = change(&mut leaf);
        self.body.put(Owned::Small(leaf.into_bytes()));
        result
    }

    fn add(&mut self, member: &[u8], score: f64, hash: u64) {
        if let Borrowed::Small(payload) = self.body.get() {
            let leaf = View::new(payload);
            let slot = leaf.count_before(Boundary::BelowEntry(score, member));
            let bytes_max = if leaf.len() == 0 { usize::MAX } else { PACKED_BYTES_MAX };
            if leaf.len() < PACKED_ENTRIES_MAX
                && self.change_packed(|leaf| leaf.insert(slot, member, score, tag_of(hash), bytes_max))
            {
                return;
            }
            let tree = Tree::build(&self.iter().collect::<Vec<_>>());
            self.body.put(Owned::Large(Box::new(tree)));
        }
        if let Some(tree) = self.body.large_mut() {
            tree.insert(member, score, hash);
        }
    }

    fn set_score(&mut self, place: Place, member: &[u8], score: f64, hash: u64) {
        if let Some(tree) = self.body.large_mut() {
            return tree.set_score(place, member, score, hash);
        }
        self.change_packed(|leaf| {
            let slot = leaf.view().count_before(Boundary::BelowEntry(score, member));
            // The old entry counts as before the boundary if it is.
            if slot == place.slot || slot == place.slot + 1 {
                leaf.set_score(place.slot, score);
            } else {
                leaf.remove(place.slot..place.slot + 1);
                let slot = if slot > place.slot { slot - 1 } else { slot };
                leaf.insert(slot, member, score, tag_of(hash), usize::MAX);
            }
        });
    }

    /// Gives the tree up where few members are left. One that was large is kept: see
    /// [`SortedSet::take_rest`].
    fn untree(&mut self) {
        if let Some((leaf, false)) = self.only_leaf() {
            self.body.put(Owned::Small(leaf.into_bytes()));
        }
    }

    /// What was made for the many members that are gone, where few are left: it is to be freed where
    /// nobody waits for that, since it takes half a millisecond for each million that there were.
    pub fn take_rest(&mut self) -> Option<SortedSet> {
        let (leaf, _) = self.only_leaf()?;
        let mut rest = SortedSet::new();
        rest.body.put(self.body.take());
        self.body.put(Owned::Small(leaf.into_bytes()));
        Some(rest)
    }

    /// The leaf of a tree with so few members that it had better be that leaf, and whether the tree was
    /// large.
    fn only_leaf(&self) -> Option<(Leaf, bool)> {
        let Borrowed::Large(tree) = self.body.get() else { return None };
        let is_small = tree.len() <= UNTREED_ENTRIES && (tree.len() == 0 || tree.has_one_leaf());
        is_small.then(|| (tree.first_leaf().unwrap_or_default(), tree.has_large_tables()))
    }
}

impl Collection for SortedSet {
    fn element_count(&self) -> u64 {
        self.len() as u64
    }

    fn encoding(&self) -> &'static str {
        SortedSet::encoding(self)
    }

    fn memory_usage(&self) -> usize {
        SortedSet::memory_usage(self)
    }

    fn free_effort(&self) -> usize {
        if self.is_large_form() { self.len() } else { 1 }
    }

    fn redis_free_effort(&self, max: usize) -> usize {
        self.hash_table_len().map_or(1, |len| len.min(max + 1))
    }

    fn is_large_form(&self) -> bool {
        self.encoding() != "listpack"
    }

    fn compact(&mut self, slice: usize) -> bool {
        SortedSet::compact(self, slice)
    }

    fn prefetch(&self, commands: &[Ahead<'_>]) -> bool {
        let aims: SmallVec<[_; 64]> = commands.iter().map(Ahead::aim).collect();
        self.fetch_ahead(&aims)
    }

    fn hash_table_len(&self) -> Option<usize> {
        (self.encoding() == "skiplist").then(|| self.len())
    }
}

/// Members of a sorted set with their scores, from both ends; see [`SortedSet::range`].
#[derive(Clone)]
pub struct Iter<'a> {
    set: &'a SortedSet,
    front: Option<(NodeId, Cursor<'a>)>,
    back: Option<(NodeId, Cursor<'a>)>,
    /// Where the first member is, and the end, as far as they are known before a step.
    first: Option<Place>,
    end: Option<Place>,
    from: usize,
    to: usize,
}

impl<'a> Iter<'a> {
    /// Those of its members at these places among them, where no step has been made.
    pub fn part(mut self, places: Range<usize>) -> Self {
        let to = self.from + places.end.min(self.len());
        let from = (self.from + places.start).min(to);
        self.first = self.first.filter(|_| from == self.from);
        self.end = self.end.filter(|_| to == self.to);
        (self.from, self.to) = (from, to);
        self
    }

    /// The next members that lie together, column by column, in the forward direction.
    pub fn next_run(&mut self) -> Option<Run<'a>> {
        if self.front.is_none() && self.from < self.to {
            self.front = self.start(self.from, self.first);
        }
        while self.from < self.to {
            let (id, cursor) = self.front.as_mut()?;
            let run = cursor.next_run(self.to - self.from);
            if !run.is_empty() {
                self.from += run.len();
                return Some(run);
            }
            let id = *id;
            self.front = self.next_leaf(id);
        }
        None
    }

    /// A cursor before the entry of a rank, whose place may be known.
    #[cold]
    fn start(&self, rank: usize, place: Option<Place>) -> Option<(NodeId, Cursor<'a>)> {
        match self.set.body.get() {
            Borrowed::Small(payload) => Some((0, View::new(payload).cursor(rank))),
            Borrowed::Large(tree) => {
                let place = place.or_else(|| tree.at(rank))?;
                Some((place.leaf, tree.leaf(place.leaf).cursor(place.slot)))
            }
        }
    }

    #[cold]
    fn next_leaf(&self, id: NodeId) -> Option<(NodeId, Cursor<'a>)> {
        let Borrowed::Large(tree) = self.set.body.get() else { return None };
        tree.next(id)
    }

    #[cold]
    fn previous_leaf(&self, id: NodeId) -> Option<(NodeId, Cursor<'a>)> {
        let Borrowed::Large(tree) = self.set.body.get() else { return None };
        tree.previous(id)
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.from == self.to {
            return None;
        }
        if self.front.is_none() {
            self.front = self.start(self.from, self.first);
        }
        self.from += 1;
        let (id, cursor) = self.front.as_mut()?;
        if let Some(entry) = cursor.next() {
            return Some(entry);
        }
        let id = *id;
        self.front = self.next_leaf(id);
        self.front.as_mut()?.1.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.to - self.from, Some(self.to - self.from))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.from == self.to {
            return None;
        }
        if self.back.is_none() {
            self.back = match self.end {
                Some(end) => self.start(self.to, Some(end)),
                // The entry before the end lies in a leaf, the end may not.
                None => {
                    let mut back = self.start(self.to - 1, None)?;
                    back.1.next();
                    Some(back)
                }
            };
        }
        self.to -= 1;
        let (id, cursor) = self.back.as_mut()?;
        if let Some(entry) = cursor.next_back() {
            return Some(entry);
        }
        let id = *id;
        self.back = self.previous_leaf(id);
        self.back.as_mut()?.1.next_back()
    }
}

impl ExactSizeIterator for Iter<'_> {}

#[cfg(test)]
mod tests;
