//! A large sorted set: leaves in the order that a spine keeps, and an index from members to leaves.
//!
//! The spine knows the score of each leaf's first entry, so that a search looks into leaves only where
//! scores are equal. The index is a table of eight bytes an entry: the leaf's number and 32 bits of the
//! member's hash. Finding a member costs one bucket and one leaf, its rank the way up from there. When
//! entries move to another leaf, their index items are rewritten.
//!
//! Bytes per member: 11 beside the member's own in its leaf, 12.8 in the index, and about 2 for leaf, link
//! and branch; leaves filled in random order are filled by 70%, in rising or falling order by 100%.

use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::LazyLock;

use super::cut::Cut;
use super::leaf::{ENTRY_BYTES, Leaf};
use crate::spine::{NodeId, Spine};
use crate::table::Table;

/// Most entries of a leaf.
const LEAF_ENTRIES_MAX: usize = 64;
/// Most bytes of a leaf with more than one entry.
const LEAF_BYTES_MAX: usize = 4096;
/// Below this number of entries a leaf looks for a neighbour to merge with.
const LEAF_ENTRIES_MIN: usize = LEAF_ENTRIES_MAX / 4;
/// A member of this size is not moved along when a leaf is split for it.
const BULKY_BYTES: usize = LEAF_BYTES_MAX / 4;

/// The hash of a member.
#[inline]
pub(super) fn hash_of(member: &[u8]) -> u64 {
    static SEED: LazyLock<foldhash::fast::RandomState> = LazyLock::new(Default::default);
    let mut hasher = SEED.build_hasher();
    hasher.write(member);
    hasher.finish()
}

/// The byte of a member's hash that its leaf keeps.
#[inline]
pub(super) fn tag_of(hash: u64) -> u8 {
    (hash >> 24) as u8
}

/// An item of the index: the leaf's number in the high half, the low half of the member's hash in the low
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item(u64);

impl Item {
    #[inline]
    fn new(leaf: NodeId, hash: u64) -> Self {
        Item(u64::from(leaf) << 32 | hash & 0xFFFF_FFFF)
    }

    #[inline]
    fn leaf(self) -> NodeId {
        (self.0 >> 32) as NodeId
    }

    /// The low half of the hash, which is the part that tells the bucket.
    #[inline]
    fn hash(&self) -> u64 {
        self.0 & 0xFFFF_FFFF
    }
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub leaf: NodeId,
    pub slot: usize,
}

/// See the module's description.
pub(super) struct Tree {
    spine: Spine<f64>,
    leaves: Vec<Leaf>,
    index: Table<Item>,
}

impl Clone for Tree {
    fn clone(&self) -> Self {
        let mut index = Table::new();
        for (id, leaf) in self.leaves.iter().enumerate() {
            index_leaf(&mut index, id as NodeId, leaf);
        }
        Tree { spine: self.spine.clone(), leaves: self.leaves.clone(), index }
    }
}

fn index_leaf(index: &mut Table<Item>, id: NodeId, leaf: &Leaf) {
    for slot in 0..leaf.len() {
        let hash = hash_of(leaf.member(slot));
        index.insert(hash, Item::new(id, hash), Item::hash);
    }
}

impl Tree {
    /// The tree of entries that are in order, in O(members).
    pub fn build<'e>(entries: &[(&'e [u8], f64)]) -> Self {
        let mut leaves = Vec::with_capacity(entries.len() / LEAF_ENTRIES_MAX + 1);
        let mut rest = entries;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(member, _): &&(&'e [u8], f64)| {
                bytes += ENTRY_BYTES + member.len();
                bytes <= LEAF_BYTES_MAX
            };
            let count = rest.iter().take(LEAF_ENTRIES_MAX).take_while(fits).count().max(1);
            let (own, others) = rest.split_at(count);
            leaves.push(Leaf::build(
                own.iter().map(|&(member, score)| (member, score, tag_of(hash_of(member)))),
            ));
            rest = others;
        }
        let spine = Spine::build(leaves.iter().map(|leaf| (leaf.len(), leaf.score(0))));
        let mut tree = Tree { spine, leaves, index: Table::new() };
        for (id, leaf) in tree.leaves.iter().enumerate() {
            index_leaf(&mut tree.index, id as NodeId, leaf);
        }
        tree
    }

    /// The number of members.
    #[inline]
    pub fn len(&self) -> usize {
        self.spine.total()
    }

    /// Bytes taken, the structure itself included.
    pub fn memory_usage(&self) -> usize {
        let leaves: usize = self.leaves.iter().map(Leaf::memory_usage).sum();
        leaves
            + self.leaves.capacity() * size_of::<Leaf>()
            + self.spine.memory_usage()
            + self.index.memory_usage()
            + size_of::<Self>()
    }

    /// Whether all members are in one leaf.
    pub fn has_one_leaf(&self) -> bool {
        self.spine.first().is_some() && self.spine.first() == self.spine.last()
    }

    /// Takes the first leaf out; the tree is of no use any more.
    pub fn take_only_leaf(&mut self) -> Option<Leaf> {
        let first = self.spine.first()?;
        Some(std::mem::take(&mut self.leaves[first as usize]))
    }

    /// A leaf.
    #[inline]
    pub fn leaf(&self, id: NodeId) -> &Leaf {
        &self.leaves[id as usize]
    }

    /// The leaf after another.
    #[inline]
    pub fn next(&self, id: NodeId) -> Option<NodeId> {
        self.spine.next(id)
    }

    /// The leaf before another.
    #[inline]
    pub fn previous(&self, id: NodeId) -> Option<NodeId> {
        self.spine.previous(id)
    }

    /// Where a member is; `hash` is its hash.
    #[inline]
    pub fn find(&self, member: &[u8], hash: u64) -> Option<Place> {
        let mut found = None;
        self.index.get(hash, |item| {
            if item.hash() != hash & 0xFFFF_FFFF {
                return false;
            }
            let slot = self.leaf(item.leaf()).find(member, tag_of(hash));
            found = slot.map(|slot| Place { leaf: item.leaf(), slot });
            slot.is_some()
        });
        found
    }

    /// The number of members before an entry.
    pub fn rank(&self, place: Place) -> usize {
        self.spine.rank(place.leaf) + place.slot
    }

    /// The entry of a rank.
    #[inline]
    pub fn at(&self, rank: usize) -> Option<Place> {
        self.spine.find(rank).map(|(leaf, slot)| Place { leaf, slot })
    }

    /// The number of members before a cut.
    pub fn count_before(&self, cut: Cut<'_>) -> usize {
        match self.leaf_before(cut) {
            Some((id, rank)) => rank + self.leaf(id).count_before(cut),
            None => 0,
        }
    }

    /// Adds a member that is not there.
    pub fn insert(&mut self, member: &[u8], score: f64, hash: u64) {
        let cut = Cut::BelowEntry(score, member);
        let found = self.leaf_before(cut).map(|(id, _)| id).or(self.spine.first());
        let leaf = match found {
            Some(id) => self.insert_near(id, self.leaf(id).count_before(cut), member, score, tag_of(hash)),
            None => self.add_leaf_after(None, leaf_of(member, score, tag_of(hash))),
        };
        self.index.insert(hash, Item::new(leaf, hash), Item::hash);
    }

    /// Gives an entry another score.
    pub fn set_score(&mut self, place: Place, score: f64, hash: u64) {
        let id = place.leaf;
        let before = match place.slot.checked_sub(1) {
            Some(slot) => Some(self.leaf(id).entry(slot)),
            None => self.previous(id).map(|id| self.leaf(id).entry(self.leaf(id).len() - 1)),
        };
        let after = match place.slot + 1 {
            slot if slot < self.leaf(id).len() => Some(self.leaf(id).entry(slot)),
            _ => self.next(id).map(|id| self.leaf(id).entry(0)),
        };
        let member = self.leaf(id).member(place.slot);
        let cut = Cut::BelowEntry(score, member);
        let is_after = |(member, score): (&'_ [u8], f64)| cut.is_after(score, || member);
        if before.is_none_or(is_after) && after.is_none_or(|entry| !is_after(entry)) {
            self.leaves[id as usize].set_score(place.slot, score);
            self.refresh(id);
        } else {
            let member = member.to_vec();
            self.remove(place);
            self.insert(&member, score, hash);
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, place: Place) {
        self.remove_in(place.leaf, place.slot..place.slot + 1);
    }

    /// Removes the entries of these ranks, leaf by leaf.
    pub fn remove_ranks(&mut self, ranks: Range<usize>) {
        let mut left = ranks.len();
        while left > 0 {
            let Some(Place { leaf, slot }) = self.at(ranks.start) else { return };
            let taken = left.min(self.leaf(leaf).len() - slot);
            self.remove_in(leaf, slot..slot + taken);
            left -= taken;
        }
    }

    /// Visits a part of the members; see [`Table::scan`].
    pub fn scan(&self, cursor: u64, mut visit: impl FnMut(&[u8], f64)) -> u64 {
        self.index.scan(cursor, |item| {
            let leaf = self.leaf(item.leaf());
            for (slot, &tag) in leaf.tags().iter().enumerate() {
                let (member, score) = leaf.entry(slot);
                if tag == tag_of(item.hash()) && hash_of(member) & 0xFFFF_FFFF == item.hash() {
                    visit(member, score);
                }
            }
        })
    }

    /// The last leaf whose first entry is before a cut, with the number of members before that leaf.
    fn leaf_before(&self, cut: Cut<'_>) -> Option<(NodeId, usize)> {
        self.spine.last_before(|score, leaf| cut.is_after(score, || self.leaf(leaf()).member(0)))
    }

    /// Adds an entry at a place of a leaf, making room where there is none. Returns the leaf that it came to.
    fn insert_near(&mut self, mut id: NodeId, mut slot: usize, member: &[u8], score: f64, tag: u8) -> NodeId {
        loop {
            let leaf = &mut self.leaves[id as usize];
            let len = leaf.len();
            if len < LEAF_ENTRIES_MAX && leaf.size() + ENTRY_BYTES + member.len() <= LEAF_BYTES_MAX {
                leaf.insert(slot, member, score, tag);
                self.refresh(id);
                return id;
            }
            let is_bulky = len == 1 || member.len() >= BULKY_BYTES;
            if slot == len && (is_bulky || self.spine.last() == Some(id)) {
                return self.add_leaf_after(Some(id), leaf_of(member, score, tag));
            }
            if slot == 0 && (is_bulky || self.spine.first() == Some(id)) {
                return self.add_leaf_after(self.spine.previous(id), leaf_of(member, score, tag));
            }
            let middle = if is_bulky { slot } else { len / 2 };
            let tail = self.split(id, middle);
            if slot > middle {
                (id, slot) = (tail, slot - middle);
            }
        }
    }

    fn add_leaf_after(&mut self, previous: Option<NodeId>, leaf: Leaf) -> NodeId {
        let id = self.spine.insert_after(previous, leaf.len(), leaf.score(0));
        if self.leaves.len() <= id as usize {
            self.leaves.resize_with(id as usize + 1, Leaf::default);
        }
        self.leaves[id as usize] = leaf;
        id
    }

    /// Moves the entries from `slot` on into a new leaf.
    fn split(&mut self, id: NodeId, slot: usize) -> NodeId {
        let tail = self.leaves[id as usize].split_off(slot);
        self.refresh(id);
        let new = self.add_leaf_after(Some(id), tail);
        self.reindex(new, 0, id);
        new
    }

    /// Makes the index items of a leaf's entries from `slot` on, which were those of another leaf, its own.
    fn reindex(&mut self, id: NodeId, slot: usize, from: NodeId) {
        let leaf = &self.leaves[id as usize];
        let mut hashes = [0; LEAF_ENTRIES_MAX];
        let moved = leaf.len() - slot;
        for (place, hash) in hashes[..moved].iter_mut().enumerate() {
            *hash = hash_of(leaf.member(slot + place));
            self.index.prefetch(*hash);
        }
        for &hash in &hashes[..moved] {
            let old = Item::new(from, hash);
            if let Some(item) = self.index.get_mut(hash, |item| *item == old) {
                *item = Item::new(id, hash);
            }
        }
    }

    /// Tells the spine about a leaf that has changed.
    #[inline]
    fn refresh(&mut self, id: NodeId) {
        let leaf = &self.leaves[id as usize];
        self.spine.set(id, leaf.len(), leaf.score(0));
    }

    fn remove_in(&mut self, id: NodeId, slots: Range<usize>) {
        let leaf = &self.leaves[id as usize];
        for slot in slots.clone() {
            let hash = hash_of(leaf.member(slot));
            let item = Item::new(id, hash);
            self.index.remove(hash, |other| *other == item, Item::hash);
        }
        if slots.len() == leaf.len() {
            self.drop_leaf(id);
            return;
        }
        self.leaves[id as usize].remove(slots);
        self.refresh(id);
        if self.leaf(id).len() < LEAF_ENTRIES_MIN {
            self.merge_with_neighbour(id);
        }
    }

    fn drop_leaf(&mut self, id: NodeId) {
        self.spine.remove(id);
        self.leaves[id as usize] = Leaf::default();
        if self.spine.first().is_none() {
            self.leaves = Vec::new();
        }
    }

    /// Moves the entries of a small leaf and those of a neighbour together if there is room to spare.
    fn merge_with_neighbour(&mut self, id: NodeId) {
        let fits = |&other: &NodeId| {
            let (one, two) = (self.leaf(id), self.leaf(other));
            one.len() + two.len() <= LEAF_ENTRIES_MAX * 3 / 4
                && one.size() + two.size() <= LEAF_BYTES_MAX * 3 / 4
        };
        let (left, right) = if let Some(next) = self.next(id).filter(fits) {
            (id, next)
        } else if let Some(previous) = self.previous(id).filter(fits) {
            (previous, id)
        } else {
            return;
        };
        let moved = std::mem::take(&mut self.leaves[right as usize]);
        let slot = self.leaf(left).len();
        self.leaves[left as usize].append(&moved);
        self.drop_leaf(right);
        self.refresh(left);
        self.reindex(left, slot, right);
    }
}

fn leaf_of(member: &[u8], score: f64, tag: u8) -> Leaf {
    let mut leaf = Leaf::with_capacity(ENTRY_BYTES + member.len());
    leaf.insert(0, member, score, tag);
    leaf
}
