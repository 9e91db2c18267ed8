//! A large sorted set: leaves in the order that a counted tree keeps, and an index from members to leaves.
//!
//! The tree knows the score of each leaf's first entry, so that a search looks into leaves only where
//! scores are equal. Finding a member costs one bucket of the index and one leaf, its rank the way up from
//! there. When entries move to another leaf, their index items are rewritten.
//!
//! Everything is shared between clones, which therefore cost O(1); a change copies the leaf, the bucket, and
//! what leads to them, as far as that is shared.
//!
//! Bytes per member, for 19-byte members with random fractions as scores, in random order:
//!
//! ```text
//! member, length, tag     21
//! score                    5.5   its offset in the leaf
//! leaf                     1.5   header and base, and the slack of its size class, over 25 members
//! tree and leaf's place   1.6   40 bytes for a leaf
//! index                    8
//! ```
//!
//! Leaves filled in random order are filled by 70%, in rising or falling order and in bulk by 7/8.

use std::cmp::Ordering;
use std::ops::Range;

use mantissa_memory::counted_tree::Path;
use mantissa_memory::slab;
use mantissa_memory::{CountedTree, CowVec, NodeId, SharedBytes};
use smallvec::SmallVec;

use super::boundary::Boundary;
use super::leaf::{Cursor, ENTRY_BYTES_MAX, Leaf, SLACK_MAX, View};
use crate::member_index::{Index, Item, hash_of};

/// Most entries of a leaf.
const LEAF_ENTRIES_MAX: usize = 128;
/// Most bytes of the payload of a leaf with more than one entry.
const LEAF_BYTES_MAX: usize = 1024 - SharedBytes::HEADER_BYTES;
/// Most entries and bytes of a leaf that is made in bulk or filled at an end of the set: the rest is for
/// the first entries that come between its own.
const FILLED_ENTRIES_MAX: usize = LEAF_ENTRIES_MAX * 7 / 8;
const FILLED_BYTES_MAX: usize = LEAF_BYTES_MAX * 15 / 16;
/// Below this number of bytes a leaf looks for a neighbour to merge with.
const LEAF_BYTES_MIN: usize = LEAF_BYTES_MAX / 4;
/// Most entries and bytes of two leaves that are merged.
const MERGED_ENTRIES_MAX: usize = LEAF_ENTRIES_MAX / 2;
const MERGED_BYTES_MAX: usize = LEAF_BYTES_MAX / 2;
/// Leaves from which on they are fetched ahead: fewer of them stay in the caches anyway.
const FETCHED_FROM: usize = 1024;
/// The places of this number of leaves are freed in some ten microseconds.
const QUICKLY_FREED_LEAVES_MAX: usize = 4096;
/// A member of this size is not moved along when a leaf is split for it.
const BULKY_BYTES: usize = LEAF_BYTES_MAX / 4;

const _: () = assert!(2 * LEAF_BYTES_MIN > LEAF_BYTES_MIN + SharedBytes::HEADER_BYTES + SLACK_MAX + 32);

/// The byte of a member's hash that its leaf keeps, out of the half that the index has.
#[inline]
pub(super) fn tag_of(hash: u64) -> u8 {
    (hash >> 24) as u8
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub leaf: NodeId,
    pub slot: usize,
}

/// Leaves in order, with an index of their members. A clone costs O(1).
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) tree: CountedTree<f64, true>,
    pub(super) leaves: CowVec<Leaf>,
    pub(super) index: Index,
    leaf_bytes: usize,
}

/// How many of these entries (bytes of the member, score), from the first on, a leaf is made of; one or more.
pub(super) fn fitting(entries: impl Iterator<Item = (usize, f64)>) -> usize {
    Leaf::fitting(entries, FILLED_BYTES_MAX, FILLED_ENTRIES_MAX)
}

/// Adds a leaf of these entries, which are in order, and what the index is to say of them.
pub(super) fn add_leaf<'e>(
    leaves: &mut Vec<Leaf>,
    items: &mut Vec<Item>,
    entries: impl Iterator<Item = (&'e [u8], f64)> + Clone,
) {
    let (first, leaf) = (items.len(), leaves.len() as NodeId);
    items.extend(entries.clone().map(|(member, _)| Item { hash: hash_of(member) as u32, part: leaf }));
    let tags = items[first..].iter().map(|item| tag_of(item.hash.into()));
    leaves.push(Leaf::build(entries.zip(tags).map(|((member, score), tag)| (member, score, tag))));
}

impl Tree {
    /// The tree of entries that are in order and distinct, in O(members).
    pub fn build(entries: &[(&[u8], f64)]) -> Self {
        let (mut leaves, mut items) = (Vec::new(), Vec::with_capacity(entries.len()));
        let mut rest = entries;
        while !rest.is_empty() {
            let (own, others) =
                rest.split_at(fitting(rest.iter().map(|&(member, score)| (member.len(), score))));
            add_leaf(&mut leaves, &mut items, own.iter().copied());
            rest = others;
        }
        Tree::of_leaves(leaves.into_iter(), &items).expect("the entries are distinct")
    }

    /// The tree of these leaves, in O(members); `None` if a member is there twice. `items` says of every
    /// member in which of them it is.
    pub fn of_leaves(own: impl Iterator<Item = Leaf>, items: &[Item]) -> Option<Self> {
        let (mut leaves, mut leaf_bytes) = (CowVec::new(), 0);
        for leaf in own {
            leaf_bytes += leaf.memory_usage();
            leaves.push(leaf);
        }
        let heads = (0..leaves.len()).map(|id| leaves.get(id).view()).map(|leaf| (leaf.len(), leaf.score(0)));
        let mut tree = CountedTree::build(heads);
        tree.refresh_hints(|id| leaves.get(id as usize).view().first_member());
        let index = Index::build(items, |hash, one, other| {
            let of_leaf = |id: NodeId| leaves.get(id as usize).view().members().map(|(member, _)| member);
            let others = (one != other).then(|| of_leaf(other)).into_iter().flatten();
            let both = of_leaf(one).chain(others);
            let mut members: SmallVec<[&[u8]; 4]> =
                both.filter(|member| hash_of(member) as u32 == hash).collect();
            members.sort_unstable();
            members.windows(2).any(|pair| pair[0] == pair[1])
        })?;
        Some(Tree { tree, leaves, index, leaf_bytes })
    }

    /// The number of members.
    #[inline]
    pub fn len(&self) -> usize {
        self.tree.total()
    }

    /// Bytes taken, the structure itself included.
    pub fn memory_usage(&self) -> usize {
        self.leaf_bytes
            + self.leaves.memory_usage()
            + self.tree.memory_usage()
            + self.index.memory_usage()
            + size_of::<Self>()
    }

    /// Whether all members are in one leaf.
    pub fn has_one_leaf(&self) -> bool {
        self.tree.node_count() == 1
    }

    /// Whether freeing the tables of its leaves takes long.
    pub fn has_large_tables(&self) -> bool {
        self.leaves.len() > QUICKLY_FREED_LEAVES_MAX
    }

    /// The first leaf, shared with the tree.
    pub fn first_leaf(&self) -> Option<Leaf> {
        self.tree.first().map(|first| self.leaves.get(first as usize).clone())
    }

    /// A leaf.
    #[inline]
    pub fn leaf(&self, id: NodeId) -> View<'_> {
        self.leaves.get(id as usize).view()
    }

    /// The leaf after another, with a cursor at its start.
    pub fn next(&self, id: NodeId) -> Option<(NodeId, Cursor<'_>)> {
        let id = self.tree.next(id)?;
        Some((id, self.leaf(id).cursor(0)))
    }

    /// The leaf before another, with a cursor at its end.
    pub fn previous(&self, id: NodeId) -> Option<(NodeId, Cursor<'_>)> {
        let id = self.tree.previous(id)?;
        let leaf = self.leaf(id);
        Some((id, leaf.cursor(leaf.len())))
    }

    /// Has `visit` called with all entries from the last to the first, giving up each leaf as soon as it has
    /// been read.
    pub fn into_each_reversed(self, visit: &mut dyn FnMut(&[u8], f64)) {
        let Tree { tree, mut leaves, index, .. } = self;
        drop(index);
        let mut at = tree.last();
        while let Some(id) = at {
            let leaf = std::mem::take(leaves.get_mut(id as usize));
            let view = leaf.view();
            let mut cursor = view.cursor(view.len());
            while let Some((member, score)) = cursor.next_back() {
                visit(member, score);
            }
            at = tree.previous(id);
        }
    }

    /// Where a member is, and its score; `hash` is its hash.
    #[inline]
    pub fn find(&self, member: &[u8], hash: u64) -> Option<(Place, f64)> {
        self.index.find(hash, |leaf| {
            let view = self.leaf(leaf);
            view.find(member, tag_of(hash)).map(|slot| (Place { leaf, slot }, view.score(slot)))
        })
    }

    /// The number of members before an entry.
    pub fn rank(&self, place: Place) -> usize {
        self.tree.rank(place.leaf) + place.slot
    }

    /// The entry of a rank.
    #[inline]
    pub fn at(&self, rank: usize) -> Option<Place> {
        self.tree.find(rank).map(|(leaf, slot)| Place { leaf, slot })
    }

    /// The number of members before a boundary.
    pub fn count_before(&self, boundary: Boundary<'_>) -> usize {
        match self.leaf_before(boundary) {
            Some((id, rank)) => rank + self.leaf(id).count_before(boundary),
            None => 0,
        }
    }

    /// Where the members between two boundaries begin and end, each with the number of members before it.
    pub fn between(&self, low: Boundary<'_>, high: Boundary<'_>) -> Option<[(usize, Place); 2]> {
        let (id, rank) = self.leaf_before(low)?;
        let leaf = self.leaf(id);
        let in_leaf = |slot| (rank + slot, Place { leaf: id, slot });
        let first = in_leaf(leaf.count_before(low));
        let last = leaf.len() - 1;
        let end = if !high.is_after(leaf.score(last), || leaf.member(last)) {
            in_leaf(leaf.count_before(high))
        } else if self.tree.next(id).is_none_or(|next| !self.starts_before(next, high)) {
            in_leaf(leaf.len())
        } else {
            let (id, rank) = self.leaf_before(high)?;
            let slot = self.leaf(id).count_before(high);
            (rank + slot, Place { leaf: id, slot })
        };
        Some([first, if end.0 < first.0 { first } else { end }])
    }

    /// Adds a member that is not there.
    pub fn insert(&mut self, member: &[u8], score: f64, hash: u64) {
        let leaf = self.insert_in_order(member, score, hash);
        self.index.insert(hash, leaf);
        self.refresh_hints();
    }

    /// Puts an entry where it belongs and returns its leaf. The index is the caller's to tell.
    fn insert_in_order(&mut self, member: &[u8], score: f64, hash: u64) -> NodeId {
        let boundary = Boundary::BelowEntry(score, member);
        let at_end = self.tree.last().filter(|&last| self.starts_before(last, boundary));
        // Written out for this kind of boundary, so that scores are compared without asking which one it is.
        let order = |other: f64| match other == score {
            true => Ordering::Equal,
            false if other < score => Ordering::Less,
            false => Ordering::Greater,
        };
        let is_before = |id| self.leaf(id).first_member() < member;
        let found = match at_end {
            Some(id) => Some((id, None)),
            None => self.tree.last_before(order, member, is_before).map(|(id, path)| (id, Some(path))),
        };
        match found {
            Some((id, path)) => {
                if self.is_far() {
                    self.leaves.get(id as usize).prefetch();
                }
                let slot = self.leaf(id).count_before(boundary);
                self.insert_near(id, slot, path, member, score, tag_of(hash))
            }
            None => self.add_leaf_after(None, leaf_of(member, score, tag_of(hash))),
        }
    }

    /// Gives an entry, of which member and hash are known, another score.
    pub fn set_score(&mut self, place: Place, member: &[u8], score: f64, hash: u64) {
        let id = place.leaf;
        let leaf = self.leaf(id);
        let boundary = Boundary::BelowEntry(score, member);
        let is_before = |(member, score): (&'_ [u8], f64)| boundary.is_after(score, || member);
        let is_before_slot = |slot| boundary.is_after(leaf.score(slot), || leaf.member(slot));
        let stays_after = match place.slot.checked_sub(1) {
            Some(slot) => is_before_slot(slot),
            None => self.previous(id).and_then(|(_, mut cursor)| cursor.next_back()).is_none_or(is_before),
        };
        let stays_before = || match place.slot + 1 {
            slot if slot < leaf.len() => !is_before_slot(slot),
            _ => self.next(id).and_then(|(_, mut cursor)| cursor.next()).is_none_or(|next| !is_before(next)),
        };
        if stays_after && stays_before() {
            let is_last = place.slot + 1 == leaf.len();
            let next = if is_last { self.tree.next(id) } else { None };
            self.change(id, |leaf| leaf.set_score(place.slot, score));
            // No search has told that the member is before what the hint of the next leaf stands for.
            if let Some(next) = next.filter(|&next| self.leaf(next).score(0) == score) {
                self.tree.invalidate_start(next);
            }
            // Another form may have made it too large.
            let leaf = self.leaf(id);
            if leaf.len() > 1 && leaf.size() > LEAF_BYTES_MAX {
                self.split(id, leaf.len() / 2);
            }
        } else {
            self.take_out(id, place.slot..place.slot + 1);
            let new = self.insert_in_order(member, score, hash);
            if new != id {
                self.index.set(hash, id, new);
            }
        }
        self.refresh_hints();
    }

    /// Removes an entry, of which the hash is known.
    pub fn remove(&mut self, place: Place, hash: u64) {
        self.index.remove(hash, place.leaf);
        self.take_out(place.leaf, place.slot..place.slot + 1);
        self.refresh_hints();
    }

    /// Removes the entries of these ranks, leaf by leaf.
    pub fn remove_ranks(&mut self, ranks: Range<usize>) {
        let mut left = ranks.len();
        while left > 0 {
            let Some(Place { leaf, slot }) = self.at(ranks.start) else { break };
            let taken = left.min(self.leaf(leaf).len() - slot);
            self.remove_in(leaf, slot..slot + taken);
            left -= taken;
        }
        self.refresh_hints();
    }

    /// Visits a part of the members, about `wanted` or fewer; see [`Index::scan`].
    pub fn scan(&self, cursor: u64, wanted: usize, mut visit: impl FnMut(&[u8], f64)) -> u64 {
        self.index.scan(cursor, wanted, |hash, leaf| {
            let leaf = self.leaf(leaf);
            leaf.find_by(tag_of(u64::from(hash)), |slot| {
                let member = leaf.member(slot);
                if hash_of(member) as u32 == hash {
                    visit(member, leaf.score(slot));
                }
                // There may be others with the same half of a hash.
                false
            });
        })
    }

    /// Checks the hints of the tree.
    #[cfg(test)]
    pub fn check_hints(&self) {
        self.tree.check_hints(|id| {
            let leaf = self.leaf(id);
            let last = leaf.len() - 1;
            (leaf.first_member(), leaf.member(last), leaf.score(last))
        });
    }

    /// Whether the first entry of a leaf is before a boundary.
    #[inline]
    fn starts_before(&self, id: NodeId, boundary: Boundary<'_>) -> bool {
        let leaf = self.leaf(id);
        boundary.is_after(leaf.score(0), || leaf.first_member())
    }

    /// The leaf in which a boundary is, or before which, with the number of members before that leaf.
    fn leaf_before(&self, boundary: Boundary<'_>) -> Option<(NodeId, usize)> {
        // Members are often added, and looked for, at the end.
        let last = self.tree.last()?;
        if self.starts_before(last, boundary) {
            return Some((last, self.len() - self.leaf(last).len()));
        }
        let first_member = |id| self.leaf(id).first_member();
        // Written out where it matters, so that nothing is asked on the way which kind of boundary it is.
        match boundary {
            Boundary::BelowMember(bound) => {
                self.tree.last_before_and_rank(|_| Ordering::Equal, bound, |id| first_member(id) < bound)
            }
            Boundary::AboveMember(bound) => {
                self.tree.last_before_and_rank(|_| Ordering::Equal, bound, |id| first_member(id) <= bound)
            }
            Boundary::BelowScore(bound) => {
                self.tree.last_before_and_rank(|score| before_if(score < bound), b"", |_| false)
            }
            Boundary::AboveScore(bound) => {
                self.tree.last_before_and_rank(|score| before_if(score <= bound), b"", |_| false)
            }
            _ => {
                let is_before = |id| self.starts_before(id, boundary);
                self.tree.last_before_and_rank(|score| boundary.order(score), boundary.member(), is_before)
            }
        }
    }

    /// Adds an entry at a place of a leaf, to which `path` leads if it is known, splitting it
    /// where it is full. Returns the leaf that the entry came to.
    fn insert_near(
        &mut self,
        mut id: NodeId,
        mut slot: usize,
        mut path: Option<Path>,
        member: &[u8],
        score: f64,
        tag: u8,
    ) -> NodeId {
        loop {
            let len = self.leaf(id).len();
            let is_last = slot == len && self.tree.last() == Some(id);
            let is_first = slot == 0 && self.tree.first() == Some(id);
            let (entries_max, bytes_max) = match is_last || is_first {
                true => (FILLED_ENTRIES_MAX, FILLED_BYTES_MAX),
                false => (LEAF_ENTRIES_MAX, LEAF_BYTES_MAX),
            };
            if len < entries_max
                && self.change_leaf(id, |leaf| leaf.insert(slot, member, score, tag, bytes_max))
            {
                match path {
                    Some(path) if slot > 0 => self.tree.increment(&path),
                    _ => self.update_tree(id),
                }
                return id;
            }
            path = None;
            let is_bulky = len == 1 || member.len() >= BULKY_BYTES;
            if is_last || (slot == len && is_bulky) {
                return self.add_leaf_after(Some(id), leaf_of(member, score, tag));
            }
            if is_first || (slot == 0 && is_bulky) {
                self.tree.invalidate_start(id);
                return self.add_leaf_after(self.tree.previous(id), leaf_of(member, score, tag));
            }
            let middle = if is_bulky { slot } else { len / 2 };
            let tail = self.split(id, middle);
            if slot > middle {
                (id, slot) = (tail, slot - middle);
            }
        }
    }

    /// Changes a leaf that does not become empty, and updates its count and score in the tree.
    #[inline]
    fn change<R>(&mut self, id: NodeId, change: impl FnOnce(&mut Leaf) -> R) -> R {
        let (result, len, score) = self.change_leaf(id, |leaf| {
            let result = change(leaf);
            let view = leaf.view();
            (result, view.len(), view.score(0))
        });
        self.tree.set(id, len, score);
        result
    }

    /// Changes a leaf without updating the tree.
    #[inline]
    fn change_leaf<R>(&mut self, id: NodeId, change: impl FnOnce(&mut Leaf) -> R) -> R {
        let leaf = self.leaves.get_mut(id as usize);
        self.leaf_bytes -= leaf.memory_usage();
        let result = change(leaf);
        self.leaf_bytes += leaf.memory_usage();
        result
    }

    /// Updates a leaf's count and score in the tree.
    #[inline]
    fn update_tree(&mut self, id: NodeId) {
        let leaf = self.leaves.get(id as usize).view();
        self.tree.set(id, leaf.len(), leaf.score(0));
    }

    /// Refreshes the stale hints of the tree: at the end of each change.
    #[inline]
    fn refresh_hints(&mut self) {
        self.tree.refresh_hints(|id| self.leaves.get(id as usize).view().first_member());
    }

    fn add_leaf_after(&mut self, previous: Option<NodeId>, leaf: Leaf) -> NodeId {
        let id = self.tree.insert_after(previous, leaf.view().len(), leaf.view().score(0));
        self.leaf_bytes += leaf.memory_usage();
        if self.leaves.len() == id as usize {
            self.leaves.push(leaf);
        } else {
            *self.leaves.get_mut(id as usize) = leaf;
        }
        id
    }

    /// Moves the entries from `slot` on into a new leaf.
    fn split(&mut self, id: NodeId, slot: usize) -> NodeId {
        let tail = self.change(id, |leaf| leaf.split_off(slot));
        let new = self.add_leaf_after(Some(id), tail);
        self.reindex(new, 0, id);
        new
    }

    /// Makes the index items of a leaf's entries from `slot` on, which were those of another leaf, its own.
    fn reindex(&mut self, id: NodeId, slot: usize, from: NodeId) {
        let is_far = self.is_far();
        let leaf = self.leaves.get(id as usize).view();
        let mut cursor = leaf.cursor(slot);
        let mut hashes = [0; LEAF_ENTRIES_MAX];
        let mut moved = 0;
        for hash in &mut hashes {
            let Some((member, _)) = cursor.next() else { break };
            *hash = hash_of(member);
            if is_far {
                self.index.prefetch(*hash);
            }
            moved += 1;
        }
        debug_assert_eq!(moved, leaf.len() - slot);
        for &hash in &hashes[..moved] {
            self.index.set(hash, from, id);
        }
    }

    fn remove_in(&mut self, id: NodeId, slots: Range<usize>) {
        let leaf = self.leaves.get(id as usize).view();
        if self.is_far() && slots.len() > 1 {
            let members = leaf.members().skip(slots.start).take(slots.len());
            members.for_each(|(member, _)| self.index.prefetch(hash_of(member)));
        }
        let mut cursor = leaf.cursor(slots.start);
        for _ in slots.clone() {
            let Some((member, _)) = cursor.next() else { break };
            self.index.remove(hash_of(member), id);
        }
        self.take_out(id, slots);
    }

    /// Whether there is more than the caches hold.
    #[inline]
    pub fn is_far(&self) -> bool {
        self.tree.node_count() >= FETCHED_FROM
    }

    /// Takes entries out of a leaf. The index is the caller's to tell.
    fn take_out(&mut self, id: NodeId, slots: Range<usize>) {
        if slots.len() == self.leaf(id).len() {
            self.drop_leaf(id);
            return;
        }
        let is_small = self.change(id, |leaf| {
            leaf.remove(slots);
            // A leaf in a large allocation has a use for it.
            leaf.memory_usage() < 2 * LEAF_BYTES_MIN && leaf.view().size() < LEAF_BYTES_MIN
        });
        if is_small {
            self.merge_with_neighbour(id);
        }
    }

    fn drop_leaf(&mut self, id: NodeId) -> Leaf {
        self.tree.remove(id);
        let leaf = std::mem::take(self.leaves.get_mut(id as usize));
        self.leaf_bytes -= leaf.memory_usage();
        if self.tree.node_count() == 0 {
            self.leaves = CowVec::new();
        }
        leaf
    }

    /// Merges a small leaf with a neighbour if both together are far from full.
    fn merge_with_neighbour(&mut self, id: NodeId) {
        let fits = |&other: &NodeId| {
            let (one, two) = (self.leaf(id), self.leaf(other));
            // Scores may take more bytes together than apart; a leaf that gets too large by that splits when
            // it gets another entry.
            one.len() + two.len() <= MERGED_ENTRIES_MAX && one.size() + two.size() <= MERGED_BYTES_MAX
        };
        let (left, right) = if let Some(next) = self.tree.next(id).filter(fits) {
            (id, next)
        } else if let Some(previous) = self.tree.previous(id).filter(fits) {
            (previous, id)
        } else {
            return;
        };
        let slot = self.leaf(left).len();
        let moved = self.drop_leaf(right);
        self.change(left, |leaf| leaf.append(&moved));
        self.reindex(left, slot, right);
    }

    /// Moves the leaves and buckets of a slice where that lets memory be given back, unless clones share
    /// them. True if there are more slices (see [`slab::parts_of_slice`]).
    pub fn compact(&mut self, slice: usize) -> bool {
        if self.leaves.is_shared() {
            return false;
        }
        let parts = slab::parts_of_slice(self.leaves.len(), slice);
        let has_more = parts.end < self.leaves.len();
        parts.for_each(|id| self.leaves.get_mut(id).compact());
        self.index.compact(slice) || has_more
    }
}

#[inline]
fn before_if(is_before: bool) -> Ordering {
    if is_before { Ordering::Less } else { Ordering::Greater }
}

fn leaf_of(member: &[u8], score: f64, tag: u8) -> Leaf {
    Leaf::build(std::iter::once((member, score, tag)))
}

const _: () = assert!(LEAF_BYTES_MAX > 4 * (ENTRY_BYTES_MAX + 20));
