//! The elements of a vector set in the order of their names' bytes.
//!
//! Leaves of up to [`LEAF_MAX`] numbers of elements, in the order that a counted tree keeps. The names lie
//! with the elements, so every function is given what finds the name of a number. Finding, adding and
//! removing a name are O(log n), as is finding the n-th. About six bytes an element. A clone costs O(1).

use std::cmp::Ordering;

use mantissa_memory::{CountedTree, CowSlice, CowVec, NodeId};

/// Most elements of a leaf.
const LEAF_MAX: usize = 64;
/// Two neighbours with fewer elements than this together become one.
const MERGED_MAX: usize = LEAF_MAX / 2;

/// The order of the elements.
#[derive(Clone, Debug)]
pub(super) struct Names {
    tree: CountedTree<()>,
    leaves: CowVec<CowSlice<u32>>,
}

impl Default for Names {
    fn default() -> Self {
        Names { tree: CountedTree::new(), leaves: CowVec::new() }
    }
}

impl Names {
    /// All these elements, whose names rise.
    pub fn build(elements: &[u32]) -> Self {
        let mut names = Names::default();
        for part in elements.chunks(LEAF_MAX * 3 / 4) {
            names.add_leaf(names.tree.last(), part.iter().copied().collect());
        }
        names
    }

    fn leaf(&self, id: NodeId) -> &[u32] {
        self.leaves.get(id as usize).as_slice()
    }

    /// The leaf that a name belongs in, where it is there or would be, and whether it is there.
    fn place<'n>(&self, name: &[u8], name_of: impl Fn(u32) -> &'n [u8]) -> Option<(NodeId, usize, bool)> {
        let is_before = |id: NodeId| self.leaf(id).first().is_some_and(|&first| name_of(first) <= name);
        let (id, _) = self.tree.last_before_and_rank(|()| Ordering::Equal, b"", is_before)?;
        let found = self.leaf(id).binary_search_by(|&element| name_of(element).cmp(name));
        Some((id, found.unwrap_or_else(|at| at), found.is_ok()))
    }

    /// The element of that name.
    pub fn find<'n>(&self, name: &[u8], name_of: impl Fn(u32) -> &'n [u8]) -> Option<u32> {
        let (id, at, is_there) = self.place(name, name_of)?;
        is_there.then(|| self.leaf(id)[at])
    }

    /// How many names come before this one.
    pub fn rank<'n>(&self, name: &[u8], name_of: impl Fn(u32) -> &'n [u8]) -> usize {
        self.place(name, name_of).map_or(0, |(id, at, _)| self.tree.rank(id) + at)
    }

    /// The element with so many names before it.
    pub fn at(&self, rank: usize) -> Option<u32> {
        let (id, at) = self.tree.find(rank)?;
        self.leaf(id).get(at).copied()
    }

    /// The elements from the one with so many names before it on.
    pub fn from(&self, rank: usize) -> impl Iterator<Item = u32> {
        let start = self.tree.find(rank);
        let leaves = std::iter::successors(start.map(|(id, _)| id), |&id| self.tree.next(id));
        let skipped = start.map_or(0, |(_, at)| at);
        leaves.flat_map(|id| self.leaf(id).iter().copied()).skip(skipped)
    }

    /// Adds an element whose name is not there yet.
    pub fn insert<'n>(&mut self, element: u32, name: &[u8], name_of: impl Fn(u32) -> &'n [u8]) {
        let Some((id, at, _)) = self.place(name, name_of) else {
            self.add_leaf(None, std::iter::once(element).collect());
            return;
        };
        let leaf = self.leaves.get_mut(id as usize);
        leaf.insert(at, element);
        let len = leaf.as_slice().len();
        if len > LEAF_MAX {
            // Names that come in order leave full leaves behind.
            let kept = if at + 1 == len { len - 1 } else { len / 2 };
            let tail = leaf.split_off(kept);
            self.recount(id);
            self.add_leaf(Some(id), tail);
        } else {
            self.recount(id);
        }
    }

    /// Gives an element of this name another number.
    pub fn renumber<'n>(&mut self, name: &[u8], element: u32, name_of: impl Fn(u32) -> &'n [u8]) {
        if let Some((id, at, true)) = self.place(name, name_of) {
            self.leaves.get_mut(id as usize).as_mut_slice()[at] = element;
        }
    }

    /// Removes an element.
    pub fn remove<'n>(&mut self, name: &[u8], name_of: impl Fn(u32) -> &'n [u8]) {
        let Some((id, at, true)) = self.place(name, name_of) else { return };
        self.leaves.get_mut(id as usize).remove(at);
        let len = self.leaf(id).len();
        let neighbour = self.tree.previous(id).filter(|&other| self.leaf(other).len() + len < MERGED_MAX);
        if len == 0 || neighbour.is_some() {
            let rest = std::mem::take(self.leaves.get_mut(id as usize));
            if let Some(neighbour) = neighbour {
                self.leaves.get_mut(neighbour as usize).extend_from_slice(rest.as_slice());
                self.recount(neighbour);
            }
            self.tree.remove(id);
        } else {
            self.recount(id);
        }
    }

    fn recount(&mut self, id: NodeId) {
        self.tree.set(id, self.leaf(id).len(), ());
    }

    fn add_leaf(&mut self, previous: Option<NodeId>, leaf: CowSlice<u32>) {
        let id = self.tree.insert_after(previous, leaf.as_slice().len(), ()) as usize;
        if id == self.leaves.len() {
            self.leaves.push(leaf);
        } else {
            *self.leaves.get_mut(id) = leaf;
        }
    }

    /// Bytes taken. O(leaves).
    pub fn memory_usage(&self) -> usize {
        let leaves: usize = self.tree.iter().map(|id| self.leaves.get(id as usize).memory_usage()).sum();
        leaves + self.tree.memory_usage() + self.leaves.memory_usage()
    }
}
