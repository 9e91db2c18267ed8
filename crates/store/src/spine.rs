//! The order of the nodes of a large collection: a B+ tree over numbered nodes, with the number of elements
//! below each branch.
//!
//! Lists, sorted sets and streams keep their elements in packed nodes and leave to a spine which node comes
//! after which. The spine finds the node of the n-th element, the rank of a node's first element, and the
//! last node whose first element lies before a bound, each in O(log nodes), and steps from node to node.
//! Nodes have numbers that stay the same while they live, so an index may refer to them; the nodes
//! themselves lie with the owner, in a [`SharedVec`].
//!
//! Each child of a branch carries a key of type `K`, which the owner keeps equal to something about the
//! first element below it (a sorted set: its score), so that most searches need not look into nodes.
//!
//! A spine with hints does so where keys are equal as well, and texts decide. A branch whose children all
//! have one key knows how many bytes the texts of their first elements share at least, and which, and of each
//! the four bytes after that. These tell most neighbours apart, however long and alike texts are, and a node
//! is looked into only where they do not. Changes note the branches whose hints they make void;
//! [`Spine::settle`] then makes them anew.
//!
//! A clone costs O(1): it shares everything. A change then copies what leads to the branches that it
//! touches.
//!
//! # Invariants
//!
//! - All children of a branch have the same height. A branch has between one and [`FANOUT`] children.
//! - `Child::count` is the sum of the counts of the nodes below, `Child::key` the key of the first of them.
//! - In a branch that is hinted all children but the first have the same key. A child's hint stands for a
//!   text that begins with `Branch::prefix`, is above the texts of all elements before the child, and not
//!   above those below it. It need not be that of the first element, which may have gone. The first child's
//!   hint and key have no part in a search: whatever is not further on is there.
//! - `parents` says in which branch a node is; for a number that is free, which one is free after it. The
//!   same holds for `Branch::parent`.
//!
//! Bytes per node: 4 for its parent, 24 (16 without a key) for its place in a branch; for a branch 24, its
//! prefix, and the places not in use.

mod block;
mod handle;
mod shared_map;
mod shared_slice;
mod shared_vec;

use std::cmp::Ordering;

use smallvec::SmallVec;

pub(crate) use block::{
    Block, HEADER_BYTES as BLOCK_HEADER_BYTES, class_size as block_class_size,
    memory_usage as block_memory_usage,
};
pub(crate) use handle::{Handle, Held, Taken};
pub(crate) use shared_map::{SharedMap, Values};
use shared_slice::SharedSlice;
pub(crate) use shared_vec::SharedVec;

/// The number of a node.
pub(crate) type NodeId = u32;

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
    children: SharedSlice<Child<K>>,
    /// What the texts that hints stand for begin with.
    prefix: SharedSlice<u8>,
    parent: u32,
    /// 0 if the children are nodes.
    level: u16,
    is_hinted: bool,
}

const _: () = assert!(size_of::<Branch<f64>>() == 24);

/// The hint of a text, of which this is what follows the prefix: texts whose hints differ have their order.
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

    /// The child that holds the element at a place, and its place below that child. The branch has `count`
    /// elements, which are counted from the nearer end.
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

    /// The number of children after the first that a text is not before, as far as hints tell; where they do
    /// not, `is_before` is asked.
    #[inline]
    fn count_before(&self, text: &[u8], is_before: impl Fn(&Child<K>) -> bool) -> usize {
        let (prefix, rest) = (self.prefix.as_slice(), &self.children()[1..]);
        let (start, end) = text.split_at(prefix.len().min(text.len()));
        match start.cmp(prefix) {
            Ordering::Less => 0,
            Ordering::Greater => rest.len(),
            Ordering::Equal => {
                let hint = hint_of(end);
                // All are looked at, which takes no branch that nobody could foresee.
                let below = rest.iter().filter(|child| child.hint < hint).count();
                let equal = rest[below..].iter().take_while(|child| child.hint == hint).count();
                below + rest[below..below + equal].partition_point(is_before)
            }
        }
    }
}

/// The place of a node or branch among the children of its parent.
#[inline]
fn position_of<K>(children: &[Child<K>], id: u32) -> usize {
    // Much of what happens, happens at the end.
    if children.last().is_some_and(|last| last.id == id) {
        return children.len() - 1;
    }
    let at = children.iter().position(|child| child.id == id);
    at.expect("a node or branch is a child of its parent")
}

/// The way from the root to a node: branches, each with the position of the child that leads on.
#[derive(Debug, Default)]
pub(crate) struct Way {
    steps: SmallVec<[(u32, u32); 4]>,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct Spine<K: Copy, const HINTED: bool = false> {
    branches: SharedVec<Branch<K>>,
    parents: SharedVec<u32>,
    free_branch: u32,
    free_node: NodeId,
    root: u32,
    first: NodeId,
    last: NodeId,
    /// Nodes in use.
    nodes: usize,
    total: usize,
    /// Branches whose hints are to be made, some of them perhaps twice; empty once the owner has settled.
    stale: SmallVec<[u32; 4]>,
}

fn some(id: u32) -> Option<NodeId> {
    (id != NONE).then_some(id)
}

impl<K: Copy + PartialEq, const HINTED: bool> Spine<K, HINTED> {
    /// No node.
    pub fn new() -> Self {
        Spine {
            branches: SharedVec::new(),
            parents: SharedVec::new(),
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

    /// The spine of nodes with these counts and keys, which get the numbers 0, 1, 2 ... in O(nodes).
    pub fn build(nodes: impl Iterator<Item = (usize, K)>) -> Self {
        let mut spine = Spine::new();
        let mut row: Vec<Child<K>> = Vec::new();
        for (id, (count, key)) in (0..).zip(nodes) {
            row.push(Child { count, id, hint: 0, key });
            spine.total += count;
            spine.parents.push(NONE);
        }
        if row.is_empty() {
            return spine;
        }
        spine.nodes = row.len();
        spine.first = 0;
        spine.last = (row.len() - 1) as NodeId;
        let mut level = 0;
        loop {
            let mut above = Vec::with_capacity(row.len() / BUILT + 1);
            for children in row.chunks(BUILT) {
                let (count, key) = (children.iter().map(|child| child.count).sum(), children[0].key);
                let id = spine.new_branch(level, children.iter().copied().collect());
                above.push(Child { count, id, hint: 0, key });
            }
            if let [only] = &above[..] {
                spine.root = only.id;
                return spine;
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

    /// The node that holds the element at a place, and the element's place in the node.
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
    /// way to it; `None` of no nodes. `order` says how a key compares with that of the bound. Where they are
    /// equal, the bound's text is compared with hints, and `is_before` asked about nodes that these do not
    /// tell. All must agree with the sequence: what lies before the bound is its beginning.
    pub fn last_before(
        &self,
        order: impl Fn(K) -> Ordering,
        text: &[u8],
        is_before: impl Fn(NodeId) -> bool,
    ) -> Option<(NodeId, Way)> {
        let mut way = Way::default();
        let id = self.descend(order, text, is_before, |at, _, found| way.steps.push((at, found as u32)))?;
        Some((id, way))
    }

    /// The same without the way, but with the sum of the counts before that node.
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

    /// The lowest branch on the way to the last node whose key lies before a bound, which the processor is
    /// asked to fetch. `order` never says that keys are equal.
    pub fn fetch_lowest(&self, order: impl Fn(K) -> Ordering) -> Option<u32> {
        let mut at = some(self.root)?;
        for _ in 0..self.branch(at).level {
            at = self.chosen_of(at, &order)?;
        }
        self.branches.prefetch(at as usize);
        Some(at)
    }

    /// The child of a branch below which the last node is whose key lies before a bound.
    pub fn chosen_of(&self, at: u32, order: impl Fn(K) -> Ordering) -> Option<u32> {
        let children = self.branch(at).children();
        let rest = children.get(1..)?;
        Some(children[rest.partition_point(|child| order(child.key).is_lt())].id)
    }

    /// Asks the processor to fetch the children of a branch.
    #[inline]
    pub fn fetch_children(&self, at: u32) {
        self.branch(at).children.prefetch(FANOUT * size_of::<Child<K>>());
    }

    /// Asks the processor to fetch what tells in which branch a node is.
    #[inline]
    pub fn fetch_place(&self, id: NodeId) {
        self.parents.prefetch(id as usize);
    }

    /// Asks the processor to fetch the branch that a node is in.
    #[inline]
    pub fn fetch_parent(&self, id: NodeId) {
        some(self.parent(id)).into_iter().for_each(|at| self.branches.prefetch(at as usize));
    }

    /// Asks the processor to fetch the children of the branch that a node is in.
    #[inline]
    pub fn fetch_siblings(&self, id: NodeId) {
        some(self.parent(id)).into_iter().for_each(|at| self.fetch_children(at));
    }

    /// The key of the first node.
    pub fn first_key(&self) -> Option<K> {
        let branch = self.branch(some(self.root)?);
        branch.children().first().map(|child| child.key)
    }

    /// Makes the hints that changes have made void. `text_of` is the text of a node's first element.
    #[inline]
    pub fn settle<'t>(&mut self, text_of: impl Fn(NodeId) -> &'t [u8]) {
        if HINTED && !self.stale.is_empty() {
            for at in std::mem::take(&mut self.stale) {
                self.make_hints(at, &text_of);
            }
        }
    }

    /// Makes the hints of a branch, if its children have one key.
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

    /// Checks what the module's description says of hints. `ends_of` are the texts of a node's first and last
    /// elements, and the key of the last.
    #[cfg(test)]
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

    /// Says that an element which was below a node, or was put there by a search, goes before it.
    pub fn touch_start(&mut self, id: NodeId) {
        let (mut child, mut at) = (id, self.parent(id));
        while at != NONE {
            let branch = self.branch(at);
            if branch.position(child) != 0 {
                return self.touch(at);
            }
            (child, at) = (at, branch.parent);
        }
    }

    /// Notes that the hints of a branch do not hold any more.
    #[inline]
    fn touch(&mut self, at: u32) {
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

    /// Says how many elements a node has now, and its key.
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
            let is_void = is_first && position != 0 && place.key != key;
            if is_first {
                place.key = key;
            }
            is_first &= position == 0;
            let above = branch.parent;
            if is_void {
                self.touch(at);
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

    /// Says that the node at the end of a way has one more element, and the key that it had. Nothing may have
    /// changed since the way was found.
    pub fn count_one(&mut self, way: &Way) {
        for &(at, position) in &way.steps {
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
            self.root = self.new_branch(0, SharedSlice::default());
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
        self.touch(parent);
        self.split_if_full(parent, position);
        self.set(id, count, key);
        id
    }

    /// Takes a node away.
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
            *self = Spine::new();
        }
    }

    /// Bytes taken, the spine itself not included. O(branches).
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

    fn new_branch(&mut self, level: u16, children: SharedSlice<Child<K>>) -> u32 {
        let branch =
            Branch { children, prefix: SharedSlice::default(), parent: NONE, level, is_hinted: false };
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
        self.touch(at);
        at
    }

    /// Makes a branch the parent of its children from a position on.
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

    /// Splits a branch that has just got one child too many, at `position`, and those above it where they
    /// fill up. Growth at an end leaves nearly full branches behind, but takes some children along, so that a
    /// child that comes and goes there does not make and unmake a branch each time.
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
            self.touch(parent);
            at = parent;
        }
    }

    /// A branch as a child of the one above.
    fn child_of(&self, at: u32) -> Child<K> {
        let branch = self.branch(at);
        Child { count: branch.count(), id: at, hint: 0, key: branch.children()[0].key }
    }

    /// Takes a child out of a branch; branches that become empty go, small ones merge.
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

    /// Carries the key of a branch's first child up.
    fn renew_key(&mut self, mut at: u32) {
        let key = self.branch(at).children()[0].key;
        while let Some(parent) = some(self.branch(at).parent) {
            let above = self.branch_mut(parent);
            let position = above.position(at);
            let place = &mut above.children.as_mut_slice()[position];
            place.key = key;
            if position != 0 {
                // The elements of the child that has gone may be before this branch now.
                self.touch(parent);
                return;
            }
            at = parent;
        }
    }

    /// Moves the children of a small branch and those of a neighbour together. Returns the parent of both
    /// and the branch that is to be taken out of it; its count has been given to the other.
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
        self.touch(kept);
        let siblings = self.branch_mut(parent).children.as_mut_slice();
        siblings[left].count += std::mem::take(&mut siblings[left + 1].count);
        self.free_branch(gone);
        Some((parent, gone))
    }

    fn free_branch(&mut self, at: u32) {
        let next = std::mem::replace(&mut self.free_branch, at);
        let branch = self.branch_mut(at);
        branch.children = SharedSlice::default();
        branch.prefix = SharedSlice::default();
        branch.parent = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;

    /// Checks every invariant and returns the nodes in order.
    fn check(spine: &Spine<u64>, count_of: &[usize], key_of: &[u64]) -> Vec<NodeId> {
        let mut order = Vec::new();
        let mut at = spine.first();
        while let Some(id) = at {
            assert_eq!(spine.next(id).map_or(spine.last(), |next| spine.previous(next)), Some(id));
            order.push(id);
            at = spine.next(id);
        }
        let mut row: Vec<(u32, usize, u64)> =
            order.iter().map(|&id| (id, count_of[id as usize], key_of[id as usize])).collect();
        let mut level = 0;
        assert_eq!(spine.total(), row.iter().map(|node| node.1).sum::<usize>());
        while !row.is_empty() {
            let mut above: Vec<(u32, usize, u64)> = Vec::new();
            let mut rest = &row[..];
            while let Some(&(id, ..)) = rest.first() {
                let parent = match level {
                    0 => spine.parent(id),
                    _ => spine.branch(id).parent,
                };
                if parent == NONE {
                    assert_eq!((id, row.len()), (spine.root, 1));
                    return order;
                }
                let branch = spine.branch(parent);
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
            let mut spine = Spine::build((0..initial).map(|id| (id % 5 + 1, id as u64)));
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
                    let id = spine.insert_after(place.checked_sub(1).map(|at| order[at]), count, key);
                    order.insert(place, id);
                    counts.resize(counts.len().max(id as usize + 1), 0);
                    keys.resize(counts.len(), 0);
                    (counts[id as usize], keys[id as usize]) = (count, key);
                } else if let Some(&id) = order.get(place) {
                    if random(10) < 7 {
                        spine.remove(id);
                        order.remove(place);
                    } else {
                        spine.set(id, count, key);
                        (counts[id as usize], keys[id as usize]) = (count, key);
                    }
                }
                if round % 50 == 0 {
                    assert_eq!(check(&spine, &counts, &keys), order, "seed {seed}");
                }
                if let Some(&id) = order.get(place) {
                    let rank: usize = order[..place].iter().map(|&id| counts[id as usize]).sum();
                    assert_eq!(spine.rank(id), rank);
                    assert_eq!(spine.find(rank), Some((id, 0)));
                }
            }
            for id in order {
                spine.remove(id);
            }
            assert_eq!((spine.first(), spine.find(0), spine.total()), (None, None, 0));
        }
    }
}
