//! Keys as a tree of prefixes, up to and including a delimiter, with exact counts.
//!
//! A prefix is counted from its first key on or never: while memory lasts every new one gets a node, and then
//! what has none counts for its parent alone. So counts are exact. As keys come in the order of their hashes,
//! the prefixes with many keys come first: of those with one key in a thousand, none is missed in practice.
//! Of the keys that end at a node those are kept that come first in the order that is asked for.
//!
//! Levels below the first have memory of their own, so that they take none from it. A node there whose
//! children did not all find a place is shown without children.
//!
//! A tree takes [`BUDGET_BYTES`] and [`BELOW_BYTES`] at most, about.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use mantissa_protocol::Reply;

use super::tally::{Fact, Tally};

/// Memory for nodes and keys of the first level, and for those below it.
const BUDGET_BYTES: usize = 32 << 20;
const BELOW_BYTES: usize = 16 << 20;
/// The part of it that keys leave for nodes.
const NODES_SHARE: usize = 2;
/// What a node or key takes beside its name.
const NODE_BYTES: usize = 256;
const LEAF_BYTES: usize = 80;
/// Longer prefixes and keys are counted in sums only.
const NAME_BYTES_MAX: usize = 64 << 10;

/// In which order children come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Most keys first.
    Keys,
    /// Most bytes first.
    Bytes,
    /// By name.
    Name,
}

/// What is to be shown.
pub struct Shape {
    /// What ends a prefix; not empty.
    pub delimiter: Box<[u8]>,
    /// Levels below the first prefix; at 0 keys only, however long their names are.
    pub depth: usize,
    /// Their order.
    pub order: Order,
    /// Children that are skipped, on the first level.
    pub offset: usize,
    /// Children that are shown of each node.
    pub limit: usize,
    /// The same of nodes below the first level.
    pub below: usize,
}

/// Memory for a part of the tree.
struct Budget {
    left: usize,
    /// What keys leave for nodes.
    reserved: usize,
}

impl Budget {
    fn new(bytes: usize) -> Self {
        Budget { left: bytes, reserved: bytes / NODES_SHARE }
    }

    fn take_for_node(&mut self, cost: usize) -> bool {
        let fits = cost <= self.left;
        self.left -= if fits { cost } else { 0 };
        fits
    }

    fn has_for_leaf(&self, cost: usize) -> bool {
        self.left >= cost + self.reserved
    }
}

/// A key that is shown. The greatest is the one that comes last.
#[derive(PartialEq, Eq)]
struct Leaf {
    /// The most bytes first, where the order is not that of names.
    rank: Option<Reverse<u64>>,
    name: Box<[u8]>,
    fact: Fact,
}

impl Ord for Leaf {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank).then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for Leaf {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Default)]
struct Node {
    tally: Tally,
    children: HashMap<Box<[u8]>, Node>,
    leaves: BinaryHeap<Leaf>,
    /// No further leaf may be added, since one has been left out.
    is_full: bool,
    /// Keys below it are in none of its children or leaves, for want of memory.
    lacks_some: bool,
}

/// The keys below a prefix.
pub struct Tree {
    shape: Shape,
    /// The length of the first prefix.
    start: usize,
    root: Node,
    /// Of the first level, and of those below.
    budgets: [Budget; 2],
}

impl Tree {
    /// An empty one of the keys that begin with a prefix of this length.
    pub fn new(shape: Shape, start: usize) -> Self {
        let budgets = [Budget::new(BUDGET_BYTES), Budget::new(BELOW_BYTES)];
        Tree { shape, start, root: Node::default(), budgets }
    }

    /// Counts a key.
    pub fn add(&mut self, key: &[u8], fact: Fact) {
        let Tree { shape, start, root, budgets } = self;
        let [first, below] = budgets;
        let (mut node, mut start) = (root, *start);
        let (mut budget, mut leaves_max) = (first, shape.offset.saturating_add(shape.limit));
        node.tally.add(fact);
        for _ in 0..shape.depth {
            let Some(at) = find(&key[start..], &shape.delimiter) else {
                return node.add_leaf(key, fact, (shape.order, leaves_max), budget);
            };
            start += at + shape.delimiter.len();
            let name = &key[..start];
            if !node.children.contains_key(name) {
                if name.len() > NAME_BYTES_MAX || !budget.take_for_node(NODE_BYTES + name.len()) {
                    node.lacks_some = true;
                    return;
                }
                node.children.insert(name.into(), Node::default());
            }
            let Some(child) = node.children.get_mut(name) else { return };
            node = child;
            node.tally.add(fact);
            (budget, leaves_max) = (&mut *below, shape.below);
        }
        if shape.depth == 0 {
            node.add_leaf(key, fact, (shape.order, leaves_max), budget);
        }
    }

    /// Writes it as pairs of a map: those of the tally, `children`, `children-known` and `other`.
    pub fn write(&self, reply: &mut Reply) {
        self.root.write(&self.shape, self.shape.offset, 0, reply);
    }

    /// The pairs that [`Tree::write`] writes.
    pub const PAIRS: usize = Tally::PAIRS + 3;
}

impl Node {
    fn add_leaf(&mut self, key: &[u8], fact: Fact, (order, leaves_max): (Order, usize), budget: &mut Budget) {
        if key.len() > NAME_BYTES_MAX {
            self.lacks_some = true;
            return;
        }
        let rank = (order != Order::Name).then_some(Reverse(fact.bytes));
        let cost = LEAF_BYTES + key.len();
        if !self.is_full && self.leaves.len() < leaves_max && budget.has_for_leaf(cost) {
            budget.left -= cost;
            return self.leaves.push(Leaf { rank, name: key.into(), fact });
        }
        self.is_full = true;
        self.lacks_some |= self.leaves.is_empty();
        let comes_last = |last: &Leaf| (rank, key) >= (last.rank, &last.name[..]);
        if self.leaves.peek().is_none_or(comes_last) {
            return;
        }
        while let Some(last) = self.leaves.pop() {
            budget.left += LEAF_BYTES + last.name.len();
            if budget.has_for_leaf(cost) {
                break;
            }
        }
        if budget.has_for_leaf(cost) {
            budget.left -= cost;
            self.leaves.push(Leaf { rank, name: key.into(), fact });
        }
    }

    fn write(&self, shape: &Shape, offset: usize, level: usize, reply: &mut Reply) {
        self.tally.write(reply);
        let mut rows: Vec<Row<'_>> =
            self.children.iter().map(|(name, node)| Row::Prefix(name, node)).collect();
        rows.extend(self.leaves.iter().map(Row::Key));
        rows.sort_unstable_by(|one, other| one.compare(other, shape.order));
        let known = rows.len();
        let limit = if level == 0 { shape.limit } else { shape.below };
        let shown: Vec<_> = rows.into_iter().skip(offset).take(limit).collect();
        let mut other = self.tally.clone();
        reply.bulk(b"children");
        reply.array(shown.len());
        for row in shown {
            other.subtract(&row.tally());
            row.write(shape, level, reply);
        }
        reply.bulk(b"children-known");
        reply.integer(known as i64);
        reply.bulk(b"other");
        reply.map(Tally::PAIRS);
        other.write(reply);
    }
}

/// A child of a node.
enum Row<'t> {
    Prefix(&'t [u8], &'t Node),
    Key(&'t Leaf),
}

impl Row<'_> {
    fn name(&self) -> &[u8] {
        match self {
            Row::Prefix(name, _) => name,
            Row::Key(leaf) => &leaf.name,
        }
    }

    fn size(&self) -> (u64, u64) {
        match self {
            Row::Prefix(_, node) => (node.tally.keys, node.tally.bytes),
            Row::Key(leaf) => (1, leaf.fact.bytes),
        }
    }

    fn compare(&self, other: &Row<'_>, order: Order) -> Ordering {
        let ((keys, bytes), (other_keys, other_bytes)) = (self.size(), other.size());
        let by_size = match order {
            Order::Keys => (other_keys, other_bytes).cmp(&(keys, bytes)),
            Order::Bytes => other_bytes.cmp(&bytes),
            Order::Name => Ordering::Equal,
        };
        by_size.then_with(|| self.name().cmp(other.name()))
    }

    fn tally(&self) -> Tally {
        match self {
            Row::Prefix(_, node) => node.tally.clone(),
            Row::Key(leaf) => {
                let mut tally = Tally::default();
                tally.add(leaf.fact);
                tally
            }
        }
    }

    fn write(&self, shape: &Shape, level: usize, reply: &mut Reply) {
        let expanded = match self {
            Row::Prefix(_, node) if level + 1 < shape.depth && !node.lacks_some => Some(*node),
            _ => None,
        };
        reply.map(2 + if expanded.is_some() { Tree::PAIRS } else { Tally::PAIRS });
        reply.bulk(b"name");
        reply.bulk(self.name());
        reply.bulk(b"kind");
        reply.bulk(if matches!(self, Row::Key(_)) { b"key" } else { b"prefix" });
        match expanded {
            Some(node) => node.write(shape, 0, level + 1, reply),
            None => self.tally().write(reply),
        }
    }
}

/// Where `needle`, which is not empty, first is in `text`.
fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    match needle {
        [byte] => text.iter().position(|other| other == byte),
        _ => text.windows(needle.len()).position(|part| part == needle),
    }
}
