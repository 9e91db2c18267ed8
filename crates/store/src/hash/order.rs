//! The order in which the fields of a large hash expire: a sorted set of pairs of an expiry and a field's
//! hash, in packed blocks under a counted tree.
//!
//! A change, a search, and counting the pairs before a time cost O(log n). A clone costs O(1) and shares
//! everything; a change copies the block that it touches. A pair takes 16 bytes, in blocks that are two
//! thirds full if times come at random, and full if they come in their order.

use std::cmp::Ordering;

use mantissa_memory::{CountedTree, CowSlice, CowVec, NodeId};

/// An expiry, Unix time in ms, and the hash of a field.
pub(super) type Pair = (i64, u64);

/// Most pairs of a block, which has 1 KB then.
const BLOCK_PAIRS: usize = 63;
/// A block of fewer pairs joins its neighbour, if both together leave room.
const SPARSE_PAIRS: usize = BLOCK_PAIRS / 4;
const JOINED_PAIRS_MAX: usize = BLOCK_PAIRS / 4 * 3;

/// Pairs in order, none of them twice.
///
/// `tree` has for each block the number of its pairs and the first of them; no block in it is empty.
#[derive(Clone, Default)]
pub(super) struct Order {
    tree: CountedTree<Pair>,
    blocks: CowVec<CowSlice<Pair>>,
}

impl Order {
    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.tree.total()
    }

    /// The first pair.
    pub fn first(&self) -> Option<Pair> {
        self.tree.first_key()
    }

    /// The last pair.
    pub fn last(&self) -> Option<Pair> {
        self.tree.last().and_then(|id| self.block(id).last().copied())
    }

    /// The pair with so many before it.
    pub fn at(&self, index: usize) -> Option<Pair> {
        let (id, inner) = self.tree.find(index)?;
        self.block(id).get(inner).copied()
    }

    /// The number of pairs with a time up to this one.
    pub fn count_up_to(&self, time: i64) -> usize {
        let order = |key: Pair| if key.0 <= time { Ordering::Less } else { Ordering::Greater };
        let found = self.tree.last_before_and_rank(order, &[], |_| false);
        found.map_or(0, |(id, rank)| rank + self.block(id).partition_point(|pair| pair.0 <= time))
    }

    /// Adds a pair, unless it is there.
    pub fn insert(&mut self, pair: Pair) {
        let Some((id, path)) = self.tree.last_before(before(pair), &[], |_| false) else {
            let id = self.tree.insert_after(None, 1, pair);
            return self.put(id, std::iter::once(pair).collect());
        };
        let block = self.block(id);
        let len = block.len();
        let Err(place) = block.binary_search(&pair) else { return };
        if len < BLOCK_PAIRS {
            self.blocks.get_mut(id as usize).insert(place, pair);
            match place {
                0 => self.tree.set(id, len + 1, pair),
                _ => self.tree.increment(&path),
            }
            return;
        }
        // What comes behind all others fills blocks, as more will come there.
        let is_last = place == len && self.tree.last() == Some(id);
        let middle = if is_last { len } else { len / 2 };
        let block = self.blocks.get_mut(id as usize);
        let mut tail = if is_last { CowSlice::default() } else { block.split_off(middle) };
        if place > middle || is_last {
            tail.insert(place - middle, pair);
        } else {
            block.insert(place, pair);
        }
        let (len, first) = (block.as_slice().len(), block.as_slice()[0]);
        self.tree.set(id, len, first);
        let new = self.tree.insert_after(Some(id), tail.as_slice().len(), tail.as_slice()[0]);
        self.put(new, tail);
    }

    /// Removes a pair, if it is there.
    pub fn remove(&mut self, pair: Pair) {
        let Some((id, _)) = self.tree.last_before(before(pair), &[], |_| false) else { return };
        let Ok(place) = self.block(id).binary_search(&pair) else { return };
        let block = self.blocks.get_mut(id as usize);
        block.remove(place);
        let (len, first) = (block.as_slice().len(), block.as_slice().first().copied());
        let Some(first) = first else { return self.free(id) };
        self.tree.set(id, len, first);
        if len < SPARSE_PAIRS {
            let (previous, next) = (self.tree.previous(id), self.tree.next(id));
            if let Some(next) = next.filter(|&next| self.block(next).len() + len <= JOINED_PAIRS_MAX) {
                self.join(id, next);
            } else if let Some(previous) = previous
                && self.block(previous).len() + len <= JOINED_PAIRS_MAX
            {
                self.join(previous, id);
            }
        }
    }

    /// Bytes of its allocations, about: those of the blocks are estimated.
    pub fn memory_usage(&self) -> usize {
        self.tree.memory_usage() + self.blocks.memory_usage() + self.len() * size_of::<Pair>() * 5 / 4
    }

    fn block(&self, id: NodeId) -> &[Pair] {
        self.blocks.get(id as usize).as_slice()
    }

    fn put(&mut self, id: NodeId, block: CowSlice<Pair>) {
        if self.blocks.len() == id as usize {
            self.blocks.push(block);
        } else {
            *self.blocks.get_mut(id as usize) = block;
        }
    }

    /// Moves the pairs of the block behind another into that.
    fn join(&mut self, id: NodeId, next: NodeId) {
        let tail = std::mem::take(self.blocks.get_mut(next as usize));
        self.free(next);
        let block = self.blocks.get_mut(id as usize);
        block.extend_from_slice(tail.as_slice());
        let (len, first) = (block.as_slice().len(), block.as_slice()[0]);
        self.tree.set(id, len, first);
    }

    fn free(&mut self, id: NodeId) {
        self.tree.remove(id);
        if self.tree.first().is_none() {
            self.blocks = CowVec::new();
        }
    }
}

/// Compares the first pairs of blocks with a pair: that block may hold it which begins with it.
fn before(pair: Pair) -> impl Fn(Pair) -> Ordering {
    move |key| if key <= pair { Ordering::Less } else { Ordering::Greater }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::random_numbers;
    use std::collections::BTreeSet;

    fn check(order: &Order, model: &BTreeSet<Pair>) {
        assert_eq!(order.len(), model.len());
        assert_eq!((order.first(), order.last()), (model.first().copied(), model.last().copied()));
        for (index, pair) in model.iter().enumerate() {
            assert_eq!(order.at(index), Some(*pair));
        }
        assert_eq!(order.at(model.len()), None);
        assert!(order.tree.node_count() <= 2 + model.len() / (BLOCK_PAIRS / 8), "{} blocks", model.len());
    }

    #[test]
    fn behaves_like_a_sorted_set_and_clones_stay() {
        for seed in 0..6 {
            let mut random = random_numbers(seed);
            let (mut order, mut model) = (Order::default(), BTreeSet::new());
            let mut clone = (order.clone(), model.clone());
            let times = [3, 100, 100_000][seed as usize % 3];
            for round in 0..20_000_u64 {
                let pair = ((random() % times) as i64, random() % 1000);
                if random() % 8 < if (round / 5_000).is_multiple_of(2) { 6 } else { 1 } {
                    order.insert(pair);
                    model.insert(pair);
                } else {
                    let near = model.range(pair..).next().copied().unwrap_or(pair);
                    order.remove(near);
                    model.remove(&near);
                }
                if round % 1_000 == 0 {
                    check(&order, &model);
                    check(&clone.0, &clone.1);
                    clone = (order.clone(), model.clone());
                }
                let before = model.range(..=(pair.0, u64::MAX)).count();
                assert_eq!(order.count_up_to(pair.0), before, "seed {seed}, round {round}");
            }
            while let Some(pair) = order.first() {
                order.remove(pair);
                assert_eq!(model.pop_first(), Some(pair));
            }
            check(&order, &model);
        }
    }

    #[test]
    fn what_comes_in_order_fills_blocks() {
        let mut order = Order::default();
        (0..63_000).for_each(|time| order.insert((time, 1)));
        assert_eq!((order.tree.node_count(), order.count_up_to(999)), (1_000, 1_000));
    }
}
