//! An ordered copy-on-write map: a [`CountedTree`] with one node for each entry, and the values in a
//! [`CowVec`].
//!
//! A clone costs O(1); finding, adding and removing O(log n); a step in order O(1) amortised. A change while
//! a clone lives copies up to 64 values, so values should be cheap to clone.

use std::cmp::Ordering;

use crate::counted_tree::{CountedTree, NodeId};
use crate::cow_vec::CowVec;

/// A map whose clones share its entries until they change.
#[derive(Clone, Debug)]
pub struct CowMap<K: Copy, V: Clone> {
    tree: CountedTree<K>,
    /// By node; `None` where a node is free.
    values: CowVec<Option<V>>,
}

impl<K: Copy + Ord, V: Clone> Default for CowMap<K, V> {
    fn default() -> Self {
        CowMap { tree: CountedTree::new(), values: CowVec::new() }
    }
}

impl<K: Copy + Ord, V: Clone> CowMap<K, V> {
    /// The map of these entries, whose keys rise, in O(n).
    pub fn build(entries: impl Iterator<Item = (K, V)>) -> Self {
        let (mut keys, mut values) = (Vec::new(), CowVec::new());
        for (key, value) in entries {
            keys.push((1, key));
            values.push(Some(value));
        }
        CowMap { tree: CountedTree::build(keys.into_iter()), values }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.tree.node_count()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of the first entry.
    pub fn first(&self) -> Option<&V> {
        self.value(self.tree.first()?)
    }

    /// The value of the last entry.
    pub fn last(&self) -> Option<&V> {
        self.value(self.tree.last()?)
    }

    /// The value of the first entry, to change.
    pub fn first_mut(&mut self) -> Option<&mut V> {
        let first = self.tree.first()?;
        self.values.get_mut(first as usize).as_mut()
    }

    /// The value of the last entry, to change.
    pub fn last_mut(&mut self) -> Option<&mut V> {
        let last = self.tree.last()?;
        self.values.get_mut(last as usize).as_mut()
    }

    /// The last value whose key is not above this one, to change.
    pub fn floor_mut(&mut self, key: K) -> Option<&mut V> {
        let (id, _) = self.floor(key)?;
        self.values.get_mut(id as usize).as_mut()
    }

    /// Adds an entry whose key is above all others.
    pub fn push(&mut self, key: K, value: V) {
        self.place(self.tree.last(), key, value);
    }

    /// Adds an entry whose key is not there.
    pub fn insert(&mut self, key: K, value: V) {
        self.place(self.floor_node(key), key, value);
    }

    /// Adds an entry after a node; its key is above that one's and below the next one's.
    pub fn insert_after(&mut self, node: NodeId, key: K, value: V) {
        self.place(Some(node), key, value);
    }

    fn place(&mut self, previous: Option<NodeId>, key: K, value: V) {
        let id = self.tree.insert_after(previous, 1, key) as usize;
        if id == self.values.len() {
            self.values.push(Some(value));
        } else {
            *self.values.get_mut(id) = Some(value);
        }
    }

    /// The node of the last entry whose key is not above this one.
    pub fn floor_node(&self, key: K) -> Option<NodeId> {
        self.floor(key).map(|(id, _)| id)
    }

    /// The same; or that of the first entry, which gets this key then.
    pub fn floor_or_first(&mut self, key: K) -> Option<NodeId> {
        if let Some((id, _)) = self.floor(key) {
            return Some(id);
        }
        let first = self.tree.first()?;
        self.tree.set(first, 1, key);
        Some(first)
    }

    /// The node of the first entry.
    pub fn first_node(&self) -> Option<NodeId> {
        self.tree.first()
    }

    /// The node before another.
    pub fn before(&self, node: NodeId) -> Option<NodeId> {
        self.tree.previous(node)
    }

    /// The node after another.
    pub fn after(&self, node: NodeId) -> Option<NodeId> {
        self.tree.next(node)
    }

    /// The value of a node.
    pub fn at(&self, node: NodeId) -> Option<&V> {
        self.value(node)
    }

    /// The value of a node, to change.
    pub fn at_mut(&mut self, node: NodeId) -> Option<&mut V> {
        self.values.get_mut(node as usize).as_mut()
    }

    /// Removes a node and returns its value.
    pub fn remove_at(&mut self, node: NodeId) -> Option<V> {
        self.remove(node)
    }

    /// Removes the last entry whose key is not above this one, and returns its value.
    pub fn remove_floor(&mut self, key: K) -> Option<V> {
        let (id, _) = self.floor(key)?;
        self.remove(id)
    }

    /// Removes the first entry and returns its value.
    pub fn pop_first(&mut self) -> Option<V> {
        self.remove(self.tree.first()?)
    }

    /// The values in order.
    pub fn iter(&self) -> Values<'_, K, V> {
        Values { map: self, front: self.tree.first(), back: self.tree.last(), left: self.len() }
    }

    /// The values from the last one whose key is not above `from` to the last one whose key is not above
    /// `to`, in order.
    pub fn between(&self, from: K, to: K) -> Values<'_, K, V> {
        let Some((back, last)) = self.floor(to).filter(|_| from <= to) else {
            return Values { map: self, front: None, back: None, left: 0 };
        };
        let (front, first) = self.floor(from).or(self.tree.first().map(|id| (id, 0))).unwrap_or((back, last));
        Values { map: self, front: Some(front), back: Some(back), left: last + 1 - first }
    }

    /// Has `change` called with each value in order until it returns false.
    pub fn change_each(&mut self, mut change: impl FnMut(&mut V) -> bool) {
        let mut at = self.tree.first();
        while let Some(id) = at {
            at = self.tree.next(id);
            if !self.values.get_mut(id as usize).as_mut().is_some_and(&mut change) {
                return;
            }
        }
    }

    /// Bytes taken, what the values refer to not included.
    pub fn memory_usage(&self) -> usize {
        self.tree.memory_usage() + self.values.memory_usage()
    }

    /// The last entry whose key is not above this one, and its rank.
    fn floor(&self, key: K) -> Option<(NodeId, usize)> {
        let order = |other| if other <= key { Ordering::Less } else { Ordering::Greater };
        self.tree.first_key().filter(|&first| first <= key)?;
        self.tree.last_before_and_rank(order, b"", |_| false)
    }

    fn value(&self, id: NodeId) -> Option<&V> {
        self.values.get(id as usize).as_ref()
    }

    fn remove(&mut self, id: NodeId) -> Option<V> {
        self.tree.remove(id);
        let value = self.values.get_mut(id as usize).take();
        if self.tree.node_count() == 0 {
            self.values = CowVec::new();
        }
        value
    }
}

/// Values of a map in order, from both ends.
pub struct Values<'a, K: Copy, V: Clone> {
    map: &'a CowMap<K, V>,
    front: Option<NodeId>,
    back: Option<NodeId>,
    left: usize,
}

impl<K: Copy, V: Clone> Clone for Values<'_, K, V> {
    fn clone(&self) -> Self {
        Values { ..*self }
    }
}

impl<'a, K: Copy + Ord, V: Clone> Iterator for Values<'a, K, V> {
    type Item = &'a V;

    fn next(&mut self) -> Option<&'a V> {
        self.left = self.left.checked_sub(1)?;
        let id = self.front?;
        if self.left > 0 {
            self.front = self.map.tree.next(id);
        }
        self.map.value(id)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K: Copy + Ord, V: Clone> DoubleEndedIterator for Values<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let id = self.back?;
        if self.left > 0 {
            self.back = self.map.tree.previous(id);
        }
        self.map.value(id)
    }
}

impl<K: Copy + Ord, V: Clone> ExactSizeIterator for Values<'_, K, V> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;
    use std::collections::BTreeMap;

    #[test]
    fn behaves_like_a_sorted_map_and_clones_stay() {
        let mut numbers = Random::new(9);
        let mut random = |bound: u64| numbers.next() % bound;
        let (mut map, mut model) = (CowMap::default(), BTreeMap::new());
        let mut clones: Vec<(CowMap<u64, u64>, BTreeMap<u64, u64>)> = Vec::new();
        let mut next = 5;
        for round in 0..8000 {
            let key = random(next + 10);
            let floor = model.range(..=key).next_back().map(|(&key, _)| key);
            match random(if round / 2000 % 2 == 0 { 5 } else { 9 }) {
                0..3 => {
                    next += 1 + random(3);
                    map.push(next, key);
                    model.insert(next, key);
                }
                3 => {
                    if let (Some(value), Some(floor)) = (map.floor_mut(key), floor) {
                        *value += 1;
                        model.entry(floor).and_modify(|value| *value += 1);
                    }
                }
                4 => assert_eq!(map.pop_first(), model.pop_first().map(|(_, value)| value)),
                5 => clones.push((map.clone(), model.clone())),
                _ => assert_eq!(map.remove_floor(key), floor.and_then(|floor| model.remove(&floor))),
            }
            let (from, to) = (random(next), random(next + 5));
            let start = model.range(..=from).next_back().map_or(0, |(&key, _)| key);
            let expected: Vec<u64> = model
                .iter()
                .filter(|(key, _)| **key >= start && **key <= to && from <= to)
                .map(|(_, &value)| value)
                .collect();
            assert!(map.between(from, to).eq(&expected), "round {round}");
            assert!(map.between(from, to).rev().eq(expected.iter().rev()), "round {round}");
            assert_eq!(
                (map.len(), map.first(), map.last()),
                (model.len(), model.values().next(), model.values().next_back())
            );
            if clones.len() > 4 {
                let (clone, model) = clones.remove(0);
                assert!(clone.iter().eq(model.values()), "round {round}");
            }
        }
        let built = CowMap::build(model.iter().map(|(&key, &value)| (key, value)));
        assert!(built.iter().eq(model.values()));
    }
}
