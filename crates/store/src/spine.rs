//! The order of the nodes of a large collection: a B+ tree over numbered nodes, with the number of elements
//! below each branch.
//!
//! Lists and sorted sets keep their elements in packed nodes of a few KB and leave to a spine which node
//! comes after which. The spine finds the node of the n-th element, the rank of a node's first element, and
//! the last node whose first element lies before a bound, each in O(log nodes). Nodes have numbers that stay
//! the same while they live, so an index may refer to them; the nodes themselves lie with the owner.
//!
//! Each child of a branch carries a key of type `K`, which the owner keeps equal to something about the
//! first element below it (a sorted set: its score), so that most searches need not look into nodes.
//!
//! # Invariants
//!
//! - All children of a branch have the same height. A branch has between one and [`FANOUT`] children.
//! - `Child::count` is the sum of the counts of the nodes below, `Child::key` the key of the first of them.
//! - `Link::previous` and `Link::next` chain the nodes in order.
//!
//! Bytes per node: 12 for the link, 24 (16 without a key) for its place in a branch, filled by two thirds or
//! more.

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

#[derive(Clone, Debug)]
struct Child<K> {
    count: usize,
    id: u32,
    key: K,
}

#[derive(Clone, Debug)]
struct Branch<K> {
    parent: u32,
    /// 0 if the children are nodes.
    level: u32,
    children: Vec<Child<K>>,
}

impl<K> Branch<K> {
    #[inline]
    fn position(&self, id: u32) -> usize {
        let at = self.children.iter().position(|child| child.id == id);
        at.expect("a node or branch is a child of its parent")
    }

    fn count(&self) -> usize {
        self.children.iter().map(|child| child.count).sum()
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    parent: u32,
    previous: NodeId,
    next: NodeId,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct Spine<K> {
    branches: Vec<Branch<K>>,
    free_branches: Vec<u32>,
    links: Vec<Link>,
    free_nodes: Vec<NodeId>,
    root: u32,
    first: NodeId,
    last: NodeId,
    total: usize,
}

fn some(id: u32) -> Option<NodeId> {
    (id != NONE).then_some(id)
}

impl<K: Copy> Spine<K> {
    /// No node.
    pub fn new() -> Self {
        Spine {
            branches: Vec::new(),
            free_branches: Vec::new(),
            links: Vec::new(),
            free_nodes: Vec::new(),
            root: NONE,
            first: NONE,
            last: NONE,
            total: 0,
        }
    }

    /// The spine of nodes with these counts and keys, which get the numbers 0, 1, 2 ... in O(nodes).
    pub fn build(nodes: impl Iterator<Item = (usize, K)>) -> Self {
        let mut spine = Spine::new();
        let mut row: Vec<Child<K>> = Vec::new();
        for (id, (count, key)) in (0..).zip(nodes) {
            row.push(Child { count, id, key });
            spine.total += count;
            let previous = if id == 0 { NONE } else { id - 1 };
            spine.links.push(Link { parent: NONE, previous, next: id + 1 });
        }
        let Some(last) = spine.links.last_mut() else { return spine };
        last.next = NONE;
        spine.first = 0;
        spine.last = (row.len() - 1) as NodeId;
        let mut level = 0;
        loop {
            let mut above = Vec::with_capacity(row.len() / BUILT + 1);
            let mut rest = row.into_iter().peekable();
            while rest.peek().is_some() {
                let children: Vec<Child<K>> = rest.by_ref().take(BUILT).collect();
                let (count, key) = (children.iter().map(|child| child.count).sum(), children[0].key);
                let id = spine.new_branch(level, children);
                above.push(Child { count, id, key });
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
    #[inline]
    pub fn next(&self, id: NodeId) -> Option<NodeId> {
        some(self.links[id as usize].next)
    }

    /// The node before another.
    #[inline]
    pub fn previous(&self, id: NodeId) -> Option<NodeId> {
        some(self.links[id as usize].previous)
    }

    /// The sum of the counts of all nodes before this one.
    pub fn rank(&self, id: NodeId) -> usize {
        let mut rank = 0;
        let (mut child, mut at) = (id, self.links[id as usize].parent);
        while at != NONE {
            let branch = &self.branches[at as usize];
            rank +=
                branch.children.iter().take_while(|other| other.id != child).map(|c| c.count).sum::<usize>();
            (child, at) = (at, branch.parent);
        }
        rank
    }

    /// The node that holds the element at a place, and the element's place in the node.
    pub fn find(&self, index: usize) -> Option<(NodeId, usize)> {
        if index >= self.total {
            return None;
        }
        let (mut at, mut rest) = (self.root, index);
        loop {
            let branch = &self.branches[at as usize];
            let child = branch.children.iter().find(|child| {
                let found = rest < child.count;
                rest -= if found { 0 } else { child.count };
                found
            })?;
            if branch.level == 0 {
                return Some((child.id, rest));
            }
            at = child.id;
        }
    }

    /// The last node whose first element lies before a bound, with the sum of the counts before it.
    /// `is_before` is asked about first elements: it gets the key and a function that returns the node. It
    /// must hold for a beginning of the sequence.
    pub fn last_before(
        &self,
        mut is_before: impl FnMut(K, &dyn Fn() -> NodeId) -> bool,
    ) -> Option<(NodeId, usize)> {
        let (mut at, mut rank) = (some(self.root)?, 0);
        loop {
            let branch = &self.branches[at as usize];
            let found = branch.children.partition_point(|child| {
                let first_node = || self.first_below(branch.level, child.id);
                is_before(child.key, &first_node)
            });
            let found = found.checked_sub(1)?;
            rank += branch.children[..found].iter().map(|child| child.count).sum::<usize>();
            let child = &branch.children[found];
            if branch.level == 0 {
                return Some((child.id, rank));
            }
            at = child.id;
        }
    }

    fn first_below(&self, level: u32, id: u32) -> NodeId {
        (0..level).fold(id, |id, _| self.branches[id as usize].children[0].id)
    }

    /// Says how many elements a node has now, and its key.
    pub fn set(&mut self, id: NodeId, count: usize, key: K) {
        let (mut child, mut at) = (id, self.links[id as usize].parent);
        let mut delta = None;
        let mut is_first = true;
        while at != NONE {
            let branch = &mut self.branches[at as usize];
            let position = branch.position(child);
            let place = &mut branch.children[position];
            let delta = *delta.get_or_insert(count.wrapping_sub(place.count));
            place.count = place.count.wrapping_add(delta);
            if is_first {
                place.key = key;
            }
            is_first &= position == 0;
            if child == id && at == self.links[id as usize].parent {
                self.total = self.total.wrapping_add(delta);
            }
            if delta == 0 && !is_first {
                return;
            }
            (child, at) = (at, branch.parent);
        }
    }

    /// Adds a node after another one, or as the first.
    pub fn insert_after(&mut self, previous: Option<NodeId>, count: usize, key: K) -> NodeId {
        let id = self.new_node();
        let next = match previous {
            Some(previous) => self.links[previous as usize].next,
            None => self.first,
        };
        let neighbour = previous.unwrap_or(next);
        let parent = if neighbour == NONE {
            self.root = self.new_branch(0, Vec::new());
            self.root
        } else {
            self.links[neighbour as usize].parent
        };
        self.links[id as usize] = Link { parent, previous: previous.unwrap_or(NONE), next };
        match previous {
            Some(previous) => self.links[previous as usize].next = id,
            None => self.first = id,
        }
        match some(next) {
            Some(next) => self.links[next as usize].previous = id,
            None => self.last = id,
        }
        let branch = &mut self.branches[parent as usize];
        let position = previous.map_or(0, |previous| branch.position(previous) + 1);
        branch.children.insert(position, Child { count: 0, id, key });
        self.split_if_full(parent, position);
        self.set(id, count, key);
        id
    }

    /// Takes a node away.
    pub fn remove(&mut self, id: NodeId) {
        let Link { parent, previous, next } = self.links[id as usize];
        let branch = &self.branches[parent as usize];
        let key = branch.children[branch.position(id)].key;
        self.set(id, 0, key);
        match some(previous) {
            Some(previous) => self.links[previous as usize].next = next,
            None => self.first = next,
        }
        match some(next) {
            Some(next) => self.links[next as usize].previous = previous,
            None => self.last = previous,
        }
        self.free_nodes.push(id);
        self.remove_child(parent, id);
        if self.free_nodes.len() == self.links.len() {
            *self = Spine::new();
        }
    }

    /// Bytes taken, the spine itself not included.
    pub fn memory_usage(&self) -> usize {
        let children: usize =
            self.branches.iter().map(|branch| branch.children.capacity() * size_of::<Child<K>>()).sum();
        children
            + self.branches.capacity() * size_of::<Branch<K>>()
            + self.links.capacity() * size_of::<Link>()
            + (self.free_branches.capacity() + self.free_nodes.capacity()) * size_of::<u32>()
    }

    fn new_node(&mut self) -> NodeId {
        self.free_nodes.pop().unwrap_or_else(|| {
            let id = u32::try_from(self.links.len()).ok().filter(|&id| id != NONE);
            self.links.push(Link { parent: NONE, previous: NONE, next: NONE });
            id.expect("four billion nodes take more memory than there is")
        })
    }

    fn new_branch(&mut self, level: u32, children: Vec<Child<K>>) -> u32 {
        let branch = Branch { parent: NONE, level, children };
        let at = match self.free_branches.pop() {
            Some(at) => {
                self.branches[at as usize] = branch;
                at
            }
            None => {
                self.branches.push(branch);
                (self.branches.len() - 1) as u32
            }
        };
        self.adopt(at, 0);
        at
    }

    /// Makes a branch the parent of its children from a position on.
    fn adopt(&mut self, at: u32, from: usize) {
        let level = self.branches[at as usize].level;
        for position in from..self.branches[at as usize].children.len() {
            let id = self.branches[at as usize].children[position].id as usize;
            match level {
                0 => self.links[id].parent = at,
                _ => self.branches[id].parent = at,
            }
        }
    }

    /// Splits a branch that has just got one child too many, at `position`, and those above it where they
    /// fill up.
    fn split_if_full(&mut self, mut at: u32, mut position: usize) {
        while self.branches[at as usize].children.len() > FANOUT {
            let branch = &mut self.branches[at as usize];
            // Growth at an end leaves full branches behind.
            let middle = match position {
                0 => 1,
                FANOUT => FANOUT,
                _ => branch.children.len() / 2,
            };
            let right = branch.children.split_off(middle);
            let (level, parent) = (branch.level, branch.parent);
            let left_count = branch.count();
            let left_key = branch.children[0].key;
            let right_count = right.iter().map(|child| child.count).sum();
            let right_key = right[0].key;
            let right = self.new_branch(level, right);
            let right_child = Child { count: right_count, id: right, key: right_key };
            if parent == NONE {
                let left_child = Child { count: left_count, id: at, key: left_key };
                self.root = self.new_branch(level + 1, vec![left_child, right_child]);
                return;
            }
            let above = &mut self.branches[parent as usize];
            position = above.position(at) + 1;
            above.children[position - 1].count = left_count;
            above.children.insert(position, right_child);
            self.branches[right as usize].parent = parent;
            at = parent;
        }
    }

    /// Takes a child out of a branch; branches that become empty go, small ones merge.
    fn remove_child(&mut self, mut at: u32, mut id: u32) {
        loop {
            let branch = &mut self.branches[at as usize];
            let position = branch.position(id);
            branch.children.remove(position);
            let parent = branch.parent;
            if branch.children.is_empty() {
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
        while let Branch { level: 1.., children, .. } = &self.branches[self.root as usize]
            && let [only] = &children[..]
        {
            let only = only.id;
            let old = std::mem::replace(&mut self.root, only);
            self.branches[only as usize].parent = NONE;
            self.free_branch(old);
        }
    }

    /// Carries the key of a branch's first child up.
    fn renew_key(&mut self, mut at: u32) {
        let key = self.branches[at as usize].children[0].key;
        loop {
            let parent = self.branches[at as usize].parent;
            let Some(above) = self.branches.get_mut(parent as usize) else { return };
            let position = above.position(at);
            above.children[position].key = key;
            if position != 0 {
                return;
            }
            at = parent;
        }
    }

    /// Moves the children of a small branch and those of a neighbour together. Returns the parent of both
    /// and the branch that is to be taken out of it; its count has been given to the other.
    fn merge_with_neighbour(&mut self, at: u32) -> Option<(u32, u32)> {
        let branch = &self.branches[at as usize];
        let len = branch.children.len();
        if len >= FANOUT_MIN {
            return None;
        }
        let above = self.branches.get(branch.parent as usize)?;
        let parent = branch.parent;
        let position = above.position(at);
        let fits = |child: &&Child<K>| self.branches[child.id as usize].children.len() + len <= MERGED_MAX;
        let right = above.children.get(position + 1).filter(fits).map(|_| position);
        let left = position.checked_sub(1).filter(|&left| fits(&&above.children[left]));
        let left = right.or(left)?;
        let (kept, gone) = (above.children[left].id, above.children[left + 1].id);
        let moved = std::mem::take(&mut self.branches[gone as usize].children);
        let from = self.branches[kept as usize].children.len();
        self.branches[kept as usize].children.extend(moved);
        self.adopt(kept, from);
        let above = &mut self.branches[parent as usize];
        above.children[left].count += std::mem::take(&mut above.children[left + 1].count);
        self.free_branch(gone);
        Some((parent, gone))
    }

    fn free_branch(&mut self, at: u32) {
        self.branches[at as usize].children = Vec::new();
        self.free_branches.push(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                    0 => spine.links[id as usize].parent,
                    _ => spine.branches[id as usize].parent,
                };
                if parent == NONE {
                    assert_eq!((id, row.len()), (spine.root, 1));
                    return order;
                }
                let branch = &spine.branches[parent as usize];
                assert!(branch.level == level && branch.children.len() <= FANOUT);
                let (own, others) = rest.split_at(branch.children.len());
                let children: Vec<_> = branch.children.iter().map(|c| (c.id, c.count, c.key)).collect();
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
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut random = |bound: usize| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) as usize % bound
            };
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
