//! A counted B+ tree: the order of the nodes of a large collection, with the number of elements below each
//! branch.
//!
//! Lists, sorted sets and streams keep their elements in packed nodes, which lie with the owner in a
//! [`CowVec`]. The tree keeps the order of these nodes. It finds the node of the n-th element, the rank of a
//! node's first element, and the last node whose first element lies before a bound, each in O(log nodes). A
//! step to the next node is O(1) amortised. A node has the same number as long as it lives, so that an index
//! may refer to it.
//!
//! Each child of a branch has a key of type `K`, which the owner keeps equal to a property of the first
//! element below the child (in a sorted set, its score). Most searches then look into no node.
//!
//! A clone costs O(1): it shares everything. A change then copies the branches that it touches and the chunks
//! that lead to them.
//!
//! # Hints
//!
//! A tree with `HINTED` also tells elements with equal keys apart, which are ordered by a text. In a branch
//! whose children all have one key, the branch stores a prefix that the texts of their first elements share,
//! and each child its hint: the four bytes of its text after the prefix. A search compares hints and looks
//! into a node only where they are equal. A change notes the branches whose hints have become stale;
//! [`CountedTree::refresh_hints`] computes these anew, and must be called after each change.
//!
//! # Invariants
//!
//! - All children of a branch have the same height. A branch has between one and [`FANOUT`] children.
//! - `Child::count` is the sum of the counts of the nodes below, `Child::key` the key of the first of them.
//! - In a branch with hints all children but the first have the same key. A child's hint, behind
//!   `Branch::prefix`, stands for a text above the texts of all elements before the child, and not above
//!   those below it. It need not be the text of the first element, which may have been removed. A search
//!   never reads the first child's hint and key.
//! - `parents` has the branch that a node is in. For a free number it has the next free number. The same
//!   holds for `Branch::parent`.
//!
//! Bytes per node: 4 for its parent, 24 (16 without a key) for its place in a branch; for a branch 24, its
//! prefix, and the places not in use.

use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::cow_slice::CowSlice;
use crate::cow_vec::CowVec;

/// The number of a node.
pub type NodeId = u32;

/// No node, no branch.
const NONE: u32 = u32::MAX;
/// Most children of a branch.
const FANOUT: usize = 32;
/// Below this number of children a branch looks for a neighbour to merge with.
const FANOUT_MIN: usize = FANOUT / 4;
/// Most children of a merged branch.
const MERGED_MAX: usize = FANOUT * 3 / 4;
/// Children of a branch that is built in bulk.
const BUILT: usize = FANOUT * 7 / 8;

/// Most bytes of a prefix.
const PREFIX_MAX: usize = 255;

#[derive(Clone, Copy, Debug)]
struct Child<K> {
    count: usize,
    id: u32,
    hint: u32,
    key: K,
}

const _: () = assert!(size_of::<Child<()>>() == 16 && size_of::<Child<f64>>() == 24);

#[derive(Clone, Debug)]
struct Branch<K: Copy> {
    children: CowSlice<Child<K>>,
    /// The first bytes of all texts that hints stand for.
    prefix: CowSlice<u8>,
    parent: u32,
    /// 0 if the children are nodes.
    level: u16,
    is_hinted: bool,
}

const _: () = assert!(size_of::<Branch<f64>>() == 24);

/// The hint of a text whose bytes after the prefix are `rest`. Hints that differ are ordered as their texts
/// are.
#[inline]
fn hint_of(rest: &[u8]) -> u32 {
    u32::from_be_bytes(rest.first_chunk().copied().unwrap_or_else(|| {
        let mut padded = [0; 4];
        padded[..rest.len()].copy_from_slice(rest);
        padded
    }))
}

impl<K: Copy> Branch<K> {
    #[inline]
    fn children(&self) -> &[Child<K>] {
        self.children.as_slice()
    }

    #[inline]
    fn position(&self, id: u32) -> usize {
        position_of(self.children(), id)
    }

    /// The child that holds the element at an index, and the index below that child. The branch has `count`
    /// elements; the search starts from the nearer end.
    #[inline]
    fn find(&self, index: usize, count: usize) -> Option<(&Child<K>, usize)> {
        if index < count / 2 {
            let mut rest = index;
            let found = self.children().iter().find(|child| {
                let is_here = rest < child.count;
                rest -= if is_here { 0 } else { child.count };
                is_here
            });
            return found.map(|child| (child, rest));
        }
        let mut start = count;
        let found = self.children().iter().rev().find(|child| {
            start -= child.count;
            start <= index
        });
        found.map(|child| (child, index - start))
    }

    fn count(&self) -> usize {
        self.children().iter().map(|child| child.count).sum()
    }

    /// The number of children after the first whose text is below `text`. `is_before` is called for children
    /// whose hint is equal.
    #[inline]
    fn count_before(&self, text: &[u8], is_before: impl Fn(&Child<K>) -> bool) -> usize {
        let (prefix, rest) = (self.prefix.as_slice(), &self.children()[1..]);
        let (start, end) = text.split_at(prefix.len().min(text.len()));
        match start.cmp(prefix) {
            Ordering::Less => 0,
            Ordering::Greater => rest.len(),
            Ordering::Equal => {
                let hint = hint_of(end);
                // All hints are compared: no branch to mispredict.
                let below = rest.iter().filter(|child| child.hint < hint).count();
                let equal = rest[below..].iter().take_while(|child| child.hint == hint).count();
                below + rest[below..below + equal].partition_point(is_before)
            }
        }
    }
}

/// The position of a node or branch among the children of its parent.
#[inline]
fn position_of<K>(children: &[Child<K>], id: u32) -> usize {
    // Most changes are at the end.
    if children.last().is_some_and(|last| last.id == id) {
        return children.len() - 1;
    }
    let at = children.iter().position(|child| child.id == id);
    at.expect("a node or branch is a child of its parent")
}

/// The path from the root to a node: branches, each with the position of the next step among its children.
#[derive(Debug, Default)]
pub struct Path {
    steps: SmallVec<[(u32, u32); 4]>,
}

/// The order of numbered nodes, with a count of elements and a key for each. See the [module](self).
#[derive(Clone, Debug)]
pub struct CountedTree<K: Copy, const HINTED: bool = false> {
    branches: CowVec<Branch<K>>,
    parents: CowVec<u32>,
    free_branch: u32,
    free_node: NodeId,
    root: u32,
    first: NodeId,
    last: NodeId,
    /// Nodes in use.
    nodes: usize,
    total: usize,
    /// Branches whose hints are stale, with repetitions. Empty after `refresh_hints`.
    stale: SmallVec<[u32; 4]>,
}

fn some(id: u32) -> Option<NodeId> {
    (id != NONE).then_some(id)
}

impl<K: Copy + PartialEq, const HINTED: bool> Default for CountedTree<K, HINTED> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Copy + PartialEq, const HINTED: bool> CountedTree<K, HINTED> {
    /// A tree without nodes.
    pub fn new() -> Self {
        CountedTree {
            branches: CowVec::new(),
            parents: CowVec::new(),
            free_branch: NONE,
            free_node: NONE,
            root: NONE,
            first: NONE,
            last: NONE,
            nodes: 0,
            total: 0,
            stale: SmallVec::new(),
        }
    }

    /// The tree of nodes with these counts and keys, which get the numbers 0, 1, 2 ... O(nodes).
    pub fn build(nodes: impl Iterator<Item = (usize, K)>) -> Self {
        let mut tree = CountedTree::new();
        let mut row: Vec<Child<K>> = Vec::new();
        for (id, (count, key)) in (0..).zip(nodes) {
            row.push(Child { count, id, hint: 0, key });
            tree.total += count;
            tree.parents.push(NONE);
        }
        if row.is_empty() {
            return tree;
        }
        tree.nodes = row.len();
        tree.first = 0;
        tree.last = (row.len() - 1) as NodeId;
        let mut level = 0;
        loop {
            let mut above = Vec::with_capacity(row.len() / BUILT + 1);
            for children in row.chunks(BUILT) {
                let (count, key) = (children.iter().map(|child| child.count).sum(), children[0].key);
                let id = tree.new_branch(level, children.iter().copied().collect());
                above.push(Child { count, id, hint: 0, key });
            }
            if let [only] = &above[..] {
                tree.root = only.id;
                return tree;
            }
            row = above;
            level += 1;
        }
    }

    /// The sum of all counts.
    #[inline]
    pub fn total(&self) -> usize {
        self.total
    }

    /// The number of nodes.
    #[inline]
    pub fn node_count(&self) -> usize {
        self.nodes
    }

    /// The first node.
    #[inline]
    pub fn first(&self) -> Option<NodeId> {
        some(self.first)
    }

    /// The last node.
    #[inline]
    pub fn last(&self) -> Option<NodeId> {
        some(self.last)
    }

    /// The node after another.
    pub fn next(&self, id: NodeId) -> Option<NodeId> {
        let (mut child, mut at) = (id, self.parent(id));
        while at != NONE {
            let branch = self.branch(at);
            if let Some(next) = branch.children().get(branch.position(child) + 1) {
                return Some(self.first_below(branch.level, next.id));
            }
            (child, at) = (at, branch.parent);
        }
        None
    }

    /// The node before another.
    pub fn previous(&self, id: NodeId) -> Option<NodeId> {
        let (mut child, mut at) = (id, self.parent(id));
        while at != NONE {
            let branch = self.branch(at);
            if let Some(position) = branch.position(child).checked_sub(1) {
                let mut found = branch.children()[position].id;
                for _ in 0..branch.level {
                    found = self.branch(found).children().last().map_or(NONE, |child| child.id);
                }
                return some(found);
            }
            (child, at) = (at, branch.parent);
        }
        None
    }

    /// The nodes in order.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> {
        std::iter::successors(self.first(), |&id| self.next(id))
    }

    /// The sum of the counts of all nodes before this one.
    pub fn rank(&self, id: NodeId) -> usize {
        let mut rank = 0;
        let (mut child, mut at) = (id, self.parent(id));
        while at != NONE {
            let branch = self.branch(at);
            rank += branch
                .children()
                .iter()
                .take_while(|other| other.id != child)
                .map(|c| c.count)
                .sum::<usize>();
            (child, at) = (at, branch.parent);
        }
        rank
    }

    /// The node that holds the element at an index, and the index in the node.
    pub fn find(&self, index: usize) -> Option<(NodeId, usize)> {
        if index >= self.total {
            return None;
        }
        let (mut at, mut rest, mut count) = (self.root, index, self.total);
        loop {
            let branch = self.branch(at);
            let (child, below) = branch.find(rest, count)?;
            if branch.level == 0 {
                return Some((child.id, below));
            }
            (at, rest, count) = (child.id, below, child.count);
        }
    }

    /// The last node whose first element lies before a bound, or the first node if there is none, and the
    /// path to it. `None` if there are no nodes. `order` compares a key with that of the bound. If they are
    /// equal, the bound's text is compared with the hint, and if that is equal too, `is_before` is called
    /// with the node. Each of them must be monotone: what lies before the bound is a prefix of the nodes.
    pub fn last_before(
        &self,
        order: impl Fn(K) -> Ordering,
        text: &[u8],
        is_before: impl Fn(NodeId) -> bool,
    ) -> Option<(NodeId, Path)> {
        let mut path = Path::default();
        let id = self.descend(order, text, is_before, |at, _, found| path.steps.push((at, found as u32)))?;
        Some((id, path))
    }

    /// The same with the sum of the counts before that node in place of the path.
    pub fn last_before_and_rank(
        &self,
        order: impl Fn(K) -> Ordering,
        text: &[u8],
        is_before: impl Fn(NodeId) -> bool,
    ) -> Option<(NodeId, usize)> {
        let mut rank = 0;
        let add = |_, children: &[Child<K>], found: usize| {
            rank += children[..found].iter().map(|child| child.count).sum::<usize>();
        };
        let id = self.descend(order, text, is_before, add)?;
        Some((id, rank))
    }

    #[inline]
    fn descend(
        &self,
        order: impl Fn(K) -> Ordering,
        text: &[u8],
        is_before: impl Fn(NodeId) -> bool,
        mut visit: impl FnMut(u32, &[Child<K>], usize),
    ) -> Option<NodeId> {
        let mut at = some(self.root)?;
        loop {
            let branch = self.branch(at);
            let children = branch.children();
            let (_, rest) = children.split_first()?;
            let is_before = |child: &Child<K>| is_before(self.first_below(branch.level, child.id));
            let found = if HINTED && branch.is_hinted {
                match rest.first().map_or(Ordering::Greater, |child| order(child.key)) {
                    Ordering::Less => rest.len(),
                    Ordering::Equal => branch.count_before(text, is_before),
                    Ordering::Greater => 0,
                }
            } else {
                let below = rest.partition_point(|child| order(child.key).is_lt());
                match rest.get(below).is_some_and(|child| order(child.key).is_eq()) {
                    true => {
                        let equal = &rest[below..];
                        let equal = &equal[..equal.partition_point(|child| order(child.key).is_eq())];
                        below + equal.partition_point(is_before)
                    }
                    false => below,
                }
            };
            visit(at, children, found);
            let child = &children[found];
            if branch.level == 0 {
                return Some(child.id);
            }
            at = child.id;
        }
    }

    /// Prefetches the lowest branch on the path to the last node whose key lies before a bound, and returns
    /// it. `order` never returns `Equal`.
    pub fn prefetch_lowest(&self, order: impl Fn(K) -> Ordering) -> Option<u32> {
        let mut at = some(self.root)?;
        for _ in 0..self.branch(at).level {
            at = self.child_before(at, &order)?;
        }
        self.branches.prefetch(at as usize);
        Some(at)
    }

    /// The child of a branch that leads to the last node whose key lies before a bound.
    pub fn child_before(&self, at: u32, order: impl Fn(K) -> Ordering) -> Option<u32> {
        let children = self.branch(at).children();
        let rest = children.get(1..)?;
        Some(children[rest.partition_point(|child| order(child.key).is_lt())].id)
    }

    /// Prefetches the children of a branch.
    #[inline]
    pub fn prefetch_children(&self, at: u32) {
        self.branch(at).children.prefetch(FANOUT * size_of::<Child<K>>());
    }

    /// Prefetches the number of the branch that a node is in.
    #[inline]
    pub fn prefetch_parent_number(&self, id: NodeId) {
        self.parents.prefetch(id as usize);
    }

    /// Prefetches the branch that a node is in.
    #[inline]
    pub fn prefetch_parent(&self, id: NodeId) {
        some(self.parent(id)).into_iter().for_each(|at| self.branches.prefetch(at as usize));
    }

    /// Prefetches the children of the branch that a node is in.
    #[inline]
    pub fn prefetch_siblings(&self, id: NodeId) {
        some(self.parent(id)).into_iter().for_each(|at| self.prefetch_children(at));
    }

    /// The key of the first node.
    pub fn first_key(&self) -> Option<K> {
        let branch = self.branch(some(self.root)?);
        branch.children().first().map(|child| child.key)
    }

    /// Computes the stale hints anew. `text_of` is the text of a node's first element.
    #[inline]
    pub fn refresh_hints<'t>(&mut self, text_of: impl Fn(NodeId) -> &'t [u8]) {
        if HINTED && !self.stale.is_empty() {
            for at in std::mem::take(&mut self.stale) {
                self.make_hints(at, &text_of);
            }
        }
    }

    /// Computes the hints of a branch, if its children have one key.
    #[cold]
    fn make_hints<'t>(&mut self, at: u32, text_of: impl Fn(NodeId) -> &'t [u8]) {
        let branch = self.branch(at);
        let Some((_, rest @ [first, ..])) = branch.children().split_first() else { return };
        if branch.is_hinted || rest.last().is_none_or(|last| last.key != first.key) {
            return;
        }
        let texts = rest.iter().map(|child| text_of(self.first_below(branch.level, child.id)));
        let texts: SmallVec<[&[u8]; FANOUT]> = texts.collect();
        // What the first and the last of them share, all share: they are in order.
        let ends = texts[0].iter().zip(texts[texts.len() - 1]).take(PREFIX_MAX);
        let shared = ends.take_while(|(one, other)| one == other).count();
        let branch = self.branch_mut(at);
        if branch.prefix.as_slice() != &texts[0][..shared] {
            branch.prefix = texts[0][..shared].iter().copied().collect();
        }
        let children = branch.children.as_mut_slice()[1..].iter_mut();
        children.zip(&texts).for_each(|(child, text)| child.hint = hint_of(&text[shared..]));
        branch.is_hinted = true;
    }

    /// Asserts the invariants of hints. `ends_of` are the texts of a node's first and last
    /// elements, and the key of the last. O(nodes): for tests.
    pub fn check_hints<'t>(&self, ends_of: impl Fn(NodeId) -> (&'t [u8], &'t [u8], K)) {
        assert!(self.stale.is_empty());
        for at in 0..self.branches.len() as u32 {
            let branch = self.branch(at);
            let (prefix, rest) = (branch.prefix.as_slice(), branch.children().get(1..).unwrap_or(&[]));
            for child in rest.iter().filter(|_| branch.is_hinted) {
                assert!(child.key == rest[0].key);
                let first = self.first_below(branch.level, child.id);
                let place = |text: &[u8]| {
                    let (start, end) = text.split_at(prefix.len().min(text.len()));
                    start.cmp(prefix).then(hint_of(end).cmp(&child.hint))
                };
                let last_before = self.previous(first).map(&ends_of).filter(|&(_, _, key)| key == child.key);
                assert!(last_before.is_none_or(|(_, text, _)| place(text).is_le()));
                assert!(place(ends_of(first).0).is_ge());
            }
        }
    }

    /// Marks the hints stale that separate a node from the one before it. To be called when an element that
    /// lies in the node, or to which a search leads through it, goes to the node before.
    pub fn invalidate_start(&mut self, id: NodeId) {
        let (mut child, mut at) = (id, self.parent(id));
        while at != NONE {
            let branch = self.branch(at);
            if branch.position(child) != 0 {
                return self.invalidate(at);
            }
            (child, at) = (at, branch.parent);
        }
    }

    /// Marks the hints of a branch as stale.
    #[inline]
    fn invalidate(&mut self, at: u32) {
        if HINTED {
            self.branch_mut(at).is_hinted = false;
            self.stale.push(at);
        }
    }

    #[inline]
    fn first_below(&self, level: u16, id: u32) -> NodeId {
        (0..level).fold(id, |id, _| self.branch(id).children().first().map_or(NONE, |child| child.id))
    }

    #[inline]
    fn parent(&self, id: NodeId) -> u32 {
        *self.parents.get(id as usize)
    }

    #[inline]
    fn branch(&self, at: u32) -> &Branch<K> {
        self.branches.get(at as usize)
    }

    #[inline]
    fn branch_mut(&mut self, at: u32) -> &mut Branch<K> {
        self.branches.get_mut(at as usize)
    }

    /// Sets the number of elements and the key of a node.
    pub fn set(&mut self, id: NodeId, count: usize, key: K) {
        let (mut child, mut at) = (id, self.parent(id));
        let mut delta = None;
        let mut is_first = true;
        while at != NONE {
            let branch = self.branches.get_mut(at as usize);
            let children = branch.children.as_mut_slice();
            let position = position_of(children, child);
            let place = &mut children[position];
            let is_lowest = delta.is_none();
            let delta = *delta.get_or_insert(count.wrapping_sub(place.count));
            place.count = place.count.wrapping_add(delta);
            let is_stale = is_first && position != 0 && place.key != key;
            if is_first {
                place.key = key;
            }
            is_first &= position == 0;
            let above = branch.parent;
            if is_stale {
                self.invalidate(at);
            }
            (child, at) = (at, above);
            if is_lowest {
                self.total = self.total.wrapping_add(delta);
            }
            if delta == 0 && !is_first {
                return;
            }
        }
    }

    /// Counts one more element in the node at the end of a path; its key stays. The tree must not have
    /// changed since the path was found.
    pub fn increment(&mut self, path: &Path) {
        for &(at, position) in &path.steps {
            let branch = self.branches.get_mut(at as usize);
            branch.children.as_mut_slice()[position as usize].count += 1;
        }
        self.total += 1;
    }

    /// Adds a node after another one, or as the first.
    pub fn insert_after(&mut self, previous: Option<NodeId>, count: usize, key: K) -> NodeId {
        let id = self.new_node();
        let neighbour = previous.unwrap_or(self.first);
        let parent = if neighbour == NONE {
            self.root = self.new_branch(0, CowSlice::default());
            self.root
        } else {
            self.parent(neighbour)
        };
        *self.parents.get_mut(id as usize) = parent;
        if previous.is_none() {
            self.first = id;
        }
        if previous.unwrap_or(NONE) == self.last {
            self.last = id;
        }
        let branch = self.branch_mut(parent);
        let position = previous.map_or(0, |previous| branch.position(previous) + 1);
        branch.children.insert(position, Child { count: 0, id, hint: 0, key });
        self.invalidate(parent);
        self.split_if_full(parent, position);
        self.set(id, count, key);
        id
    }

    /// Removes a node. Its number becomes free.
    pub fn remove(&mut self, id: NodeId) {
        if self.first == id {
            self.first = self.next(id).unwrap_or(NONE);
        }
        if self.last == id {
            self.last = self.previous(id).unwrap_or(NONE);
        }
        let parent = self.parent(id);
        let branch = self.branch(parent);
        let key = branch.children()[branch.position(id)].key;
        self.set(id, 0, key);
        self.remove_child(parent, id);
        *self.parents.get_mut(id as usize) = self.free_node;
        self.free_node = id;
        self.nodes -= 1;
        if self.nodes == 0 {
            *self = CountedTree::new();
        }
    }

    /// Bytes of its allocations. O(branches).
    pub fn memory_usage(&self) -> usize {
        let branches = (0..self.branches.len()).map(|at| {
            let branch = self.branches.get(at);
            branch.children.memory_usage() + branch.prefix.memory_usage()
        });
        branches.sum::<usize>() + self.branches.memory_usage() + self.parents.memory_usage()
    }

    fn new_node(&mut self) -> NodeId {
        self.nodes += 1;
        if let Some(id) = some(self.free_node) {
            self.free_node = self.parent(id);
            return id;
        }
        let id = u32::try_from(self.parents.len()).ok().filter(|&id| id != NONE);
        self.parents.push(NONE);
        id.expect("four billion nodes take more memory than there is")
    }

    fn new_branch(&mut self, level: u16, children: CowSlice<Child<K>>) -> u32 {
        let branch = Branch { children, prefix: CowSlice::default(), parent: NONE, level, is_hinted: false };
        let at = match some(self.free_branch) {
            Some(at) => {
                let old = std::mem::replace(self.branch_mut(at), branch);
                self.free_branch = old.parent;
                at
            }
            None => {
                self.branches.push(branch);
                (self.branches.len() - 1) as u32
            }
        };
        self.adopt(at, 0);
        self.invalidate(at);
        at
    }

    /// Sets the parent of a branch's children from a position on.
    fn adopt(&mut self, at: u32, from: usize) {
        let level = self.branch(at).level;
        for position in from..self.branch(at).children().len() {
            let id = self.branch(at).children()[position].id;
            match level {
                0 => *self.parents.get_mut(id as usize) = at,
                _ => self.branch_mut(id).parent = at,
            }
        }
    }

    /// Splits a branch that has just got one child too many, at `position`, and then branches above that have
    /// become too full. A split at an end of the branch leaves a nearly full one behind, so that trees which
    /// grow at an end are dense. It moves some children as well, so that adding and removing one child there
    /// in turns does not split and merge each time.
    fn split_if_full(&mut self, mut at: u32, mut position: usize) {
        while self.branch(at).children().len() > FANOUT {
            let branch = self.branch_mut(at);
            let (level, parent, is_head) = (branch.level, branch.parent, position == 0);
            let middle = match position {
                0 => FANOUT_MIN,
                FANOUT => FANOUT + 1 - FANOUT_MIN,
                _ => branch.children().len() / 2,
            };
            let mut moved = branch.children.split_off(middle);
            if is_head {
                std::mem::swap(&mut branch.children, &mut moved);
            }
            let kept = self.child_of(at);
            let new = self.new_branch(level, moved);
            let new = self.child_of(new);
            if parent == NONE {
                let children = if is_head { [new, kept] } else { [kept, new] };
                self.root = self.new_branch(level + 1, children.into_iter().collect());
                return;
            }
            let above = self.branch_mut(parent);
            let old = above.position(at);
            above.children.as_mut_slice()[old] = kept;
            position = old + usize::from(!is_head);
            above.children.insert(position, new);
            self.branch_mut(new.id).parent = parent;
            self.invalidate(parent);
            at = parent;
        }
    }

    /// A branch as a child of the one above.
    fn child_of(&self, at: u32) -> Child<K> {
        let branch = self.branch(at);
        Child { count: branch.count(), id: at, hint: 0, key: branch.children()[0].key }
    }

    /// Removes a child from a branch. Empty branches are removed, small ones merged.
    fn remove_child(&mut self, mut at: u32, mut id: u32) {
        loop {
            let branch = self.branch_mut(at);
            let position = branch.position(id);
            branch.children.remove(position);
            let parent = branch.parent;
            if branch.children().is_empty() {
                self.free_branch(at);
                if parent == NONE {
                    self.root = NONE;
                    return;
                }
                (at, id) = (parent, at);
                continue;
            }
            if position == 0 {
                self.renew_key(at);
            }
            match self.merge_with_neighbour(at) {
                Some(above) => (at, id) = above,
                None => break,
            }
        }
        while let Branch { level: 1.., children, .. } = self.branch(self.root)
            && let [only] = children.as_slice()
        {
            let only = only.id;
            let old = std::mem::replace(&mut self.root, only);
            self.branch_mut(only).parent = NONE;
            self.free_branch(old);
        }
    }

    /// Copies the key of a branch's first child into the branches above.
    fn renew_key(&mut self, mut at: u32) {
        let key = self.branch(at).children()[0].key;
        while let Some(parent) = some(self.branch(at).parent) {
            let above = self.branch_mut(parent);
            let position = above.position(at);
            let place = &mut above.children.as_mut_slice()[position];
            place.key = key;
            if position != 0 {
                // Elements of the removed child may be before this branch now.
                self.invalidate(parent);
                return;
            }
            at = parent;
        }
    }

    /// Merges a small branch with a neighbour, if the children of both fit. Returns the parent of both and
    /// the branch that the caller must remove from it; its count is already part of the other's.
    fn merge_with_neighbour(&mut self, at: u32) -> Option<(u32, u32)> {
        let branch = self.branch(at);
        let len = branch.children().len();
        if len >= FANOUT_MIN {
            return None;
        }
        let parent = some(branch.parent)?;
        let siblings = self.branch(parent).children();
        let position = self.branch(parent).position(at);
        let fits = |child: &&Child<K>| self.branch(child.id).children().len() + len <= MERGED_MAX;
        let right = siblings.get(position + 1).filter(fits).map(|_| position);
        let left = position.checked_sub(1).filter(|&left| fits(&&siblings[left]));
        let left = right.or(left)?;
        let (kept, gone) = (siblings[left].id, siblings[left + 1].id);
        let moved = std::mem::take(&mut self.branch_mut(gone).children);
        let from = self.branch(kept).children().len();
        self.branch_mut(kept).children.extend_from_slice(moved.as_slice());
        self.adopt(kept, from);
        self.invalidate(kept);
        let siblings = self.branch_mut(parent).children.as_mut_slice();
        siblings[left].count += std::mem::take(&mut siblings[left + 1].count);
        self.free_branch(gone);
        Some((parent, gone))
    }

    fn free_branch(&mut self, at: u32) {
        let next = std::mem::replace(&mut self.free_branch, at);
        let branch = self.branch_mut(at);
        branch.children = CowSlice::default();
        branch.prefix = CowSlice::default();
        branch.parent = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;

    /// Checks every invariant and returns the nodes in order.
    fn check(tree: &CountedTree<u64>, count_of: &[usize], key_of: &[u64]) -> Vec<NodeId> {
        let mut order = Vec::new();
        let mut at = tree.first();
        while let Some(id) = at {
            assert_eq!(tree.next(id).map_or(tree.last(), |next| tree.previous(next)), Some(id));
            order.push(id);
            at = tree.next(id);
        }
        let mut row: Vec<(u32, usize, u64)> =
            order.iter().map(|&id| (id, count_of[id as usize], key_of[id as usize])).collect();
        let mut level = 0;
        assert_eq!(tree.total(), row.iter().map(|node| node.1).sum::<usize>());
        while !row.is_empty() {
            let mut above: Vec<(u32, usize, u64)> = Vec::new();
            let mut rest = &row[..];
            while let Some(&(id, ..)) = rest.first() {
                let parent = match level {
                    0 => tree.parent(id),
                    _ => tree.branch(id).parent,
                };
                if parent == NONE {
                    assert_eq!((id, row.len()), (tree.root, 1));
                    return order;
                }
                let branch = tree.branch(parent);
                assert!(branch.level == level && branch.children().len() <= FANOUT);
                let (own, others) = rest.split_at(branch.children().len());
                let children: Vec<_> = branch.children().iter().map(|c| (c.id, c.count, c.key)).collect();
                assert_eq!(children, own);
                above.push((parent, branch.count(), own[0].2));
                rest = others;
            }
            row = above;
            level += 1;
        }
        order
    }

    #[test]
    fn keeps_order_counts_and_keys() {
        for seed in 0..8_u64 {
            let mut numbers = Random::new(seed);
            let mut random = |bound: usize| numbers.below(bound);
            let initial = random(3) * 700;
            let mut tree = CountedTree::build((0..initial).map(|id| (id % 5 + 1, id as u64)));
            let mut order: Vec<NodeId> = (0..initial as NodeId).collect();
            let mut counts: Vec<usize> = (0..initial).map(|id| id % 5 + 1).collect();
            let mut keys: Vec<u64> = (0..initial as u64).collect();
            for round in 0..4000 {
                let growing = (round / 1000) % 2 == 0;
                let place = match random(8) {
                    0 => 0,
                    1 => order.len(),
                    _ => random(order.len() + 1),
                };
                let (count, key) = (random(9) + 1, random(1000) as u64);
                if random(10) < if growing { 7 } else { 2 } {
                    let id = tree.insert_after(place.checked_sub(1).map(|at| order[at]), count, key);
                    order.insert(place, id);
                    counts.resize(counts.len().max(id as usize + 1), 0);
                    keys.resize(counts.len(), 0);
                    (counts[id as usize], keys[id as usize]) = (count, key);
                } else if let Some(&id) = order.get(place) {
                    if random(10) < 7 {
                        tree.remove(id);
                        order.remove(place);
                    } else {
                        tree.set(id, count, key);
                        (counts[id as usize], keys[id as usize]) = (count, key);
                    }
                }
                if round % 50 == 0 {
                    assert_eq!(check(&tree, &counts, &keys), order, "seed {seed}");
                }
                if let Some(&id) = order.get(place) {
                    let rank: usize = order[..place].iter().map(|&id| counts[id as usize]).sum();
                    assert_eq!(tree.rank(id), rank);
                    assert_eq!(tree.find(rank), Some((id, 0)));
                }
            }
            for id in order {
                tree.remove(id);
            }
            assert_eq!((tree.first(), tree.find(0), tree.total()), (None, None, 0));
        }
    }
}
