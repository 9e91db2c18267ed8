//! A map from identifiers, or other small keys, in order, in short sorted runs that its clones share.
//!
//! A clone costs O(1); every operation on one key O(log n) and one run, and a change while a clone
//! lives copies no more than that; a step in order O(1) amortised. An entry takes its own size and what is
//! free at the end of its run: little where keys are added in order, up to half where they are not or
//! some have gone. A map of one run has no tree.
//!
//! Invariants: no run is empty or longer than [`RUN_MAX`]; a run's key in the tree is at most its first
//! key and above the last one of the run before.

use super::StreamId;
use crate::room::make_room;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use mantissa_memory::{CowMap, allocator, slab};

/// Most entries of a run.
const RUN_MAX: usize = 64;
/// A run of no more entries joins a neighbour, if both fit in one run.
const RUN_SMALL: usize = RUN_MAX / 4;

type Run<K, V> = Arc<Vec<(K, V)>>;

type Tree<K, V> = CowMap<K, Run<K, V>>;

/// An ordered map from identifiers to small values.
pub type IdMap<V> = RunMap<StreamId, V>;

/// An ordered map from small keys to small values.
#[derive(Clone, Debug)]
pub struct RunMap<K: Copy, V: Copy> {
    runs: Runs<K, V>,
    length: usize,
}

#[derive(Clone, Debug)]
enum Runs<K: Copy, V: Copy> {
    /// At most one.
    One(Option<Run<K, V>>),
    Many(Box<Tree<K, V>>),
}

impl<K: Copy + Ord, V: Copy> Runs<K, V> {
    fn one(&self) -> Option<&Run<K, V>> {
        if let Runs::One(run) = self { run.as_ref() } else { None }
    }

    fn many(&self) -> Option<&Tree<K, V>> {
        if let Runs::Many(tree) = self { Some(tree) } else { None }
    }

    fn iter(&self) -> impl Iterator<Item = &Run<K, V>> + Clone {
        self.one().into_iter().chain(self.many().into_iter().flat_map(|tree| tree.iter()))
    }

    /// The runs that may have keys from one to another.
    fn between(&self, from: K, to: K) -> impl Iterator<Item = &Run<K, V>> {
        let many = self.many().into_iter().flat_map(move |tree| tree.between(from, to));
        self.one().into_iter().chain(many)
    }
}

impl<K: Copy + Ord, V: Copy> Default for RunMap<K, V> {
    fn default() -> Self {
        RunMap { runs: Runs::One(None), length: 0 }
    }
}

impl<K: Copy + Ord, V: Copy> RunMap<K, V> {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True where there is no entry.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// What belongs to `id`.
    pub fn get(&self, id: K) -> Option<V> {
        let run = self.runs.between(id, id).next()?;
        let at = position(run, id).ok()?;
        run.get(at).map(|(_, value)| *value)
    }

    /// Whether `id` is there.
    pub fn contains(&self, id: K) -> bool {
        self.get(id).is_some()
    }

    /// The entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (K, V)> + Clone {
        self.runs.iter().flat_map(|run| run.iter().copied())
    }

    /// The entries from one key to another, in order.
    pub fn span(&self, from: K, to: K) -> impl Iterator<Item = (K, V)> {
        let runs = if from <= to { Some(self.runs.between(from, to)) } else { None };
        let entries = runs.into_iter().flatten().flat_map(|run| run.iter().copied());
        entries.skip_while(move |(key, _)| *key < from).take_while(move |(key, _)| *key <= to)
    }

    /// Sets what belongs to `id`, and returns what did before.
    pub fn insert(&mut self, id: K, value: V) -> Option<V> {
        let tree = match &mut self.runs {
            Runs::One(Some(run)) if run.len() < RUN_MAX => {
                let before = set_in(Arc::make_mut(run), id, value);
                self.length += usize::from(before.is_none());
                return before;
            }
            Runs::One(run) => {
                let Some(run) = run.take() else {
                    self.runs = Runs::One(Some(Arc::new(vec![(id, value)])));
                    self.length = 1;
                    return None;
                };
                let mut tree = Tree::default();
                tree.push(run.first().map_or(id, |(first, _)| *first), run);
                self.runs = Runs::Many(Box::new(tree));
                return self.insert(id, value);
            }
            Runs::Many(tree) => tree,
        };
        let before = insert_in_tree(tree, id, value);
        self.length += usize::from(before.is_none());
        before
    }

    /// Takes `id` out, and returns what belonged to it.
    pub fn remove(&mut self, id: K) -> Option<V> {
        match &mut self.runs {
            Runs::One(place) => {
                let run = place.as_mut()?;
                let at = position(run, id).ok()?;
                let value = take_from(Arc::make_mut(run), at);
                self.length -= 1;
                if run.is_empty() {
                    *place = None;
                }
                Some(value)
            }
            Runs::Many(tree) => {
                let value = remove_from_tree(tree, id)?;
                self.length -= 1;
                if self.length <= RUN_MAX / 2 && tree.len() <= 1 {
                    self.runs = Runs::One(tree.first().cloned());
                }
                Some(value)
            }
        }
    }

    /// Bytes taken, the map itself not included. O(runs).
    pub fn memory_usage(&self) -> usize {
        let entry_bytes = size_of::<(K, V)>();
        let run_bytes = |run: &Run<K, V>| {
            allocator::class_size(run.capacity() * entry_bytes)
                + allocator::class_size(size_of::<Vec<V>>() + 16)
        };
        let tree = |tree: &Tree<K, V>| slab::class_size(size_of::<Tree<K, V>>()) + tree.memory_usage();
        self.runs.many().map_or(0, tree) + self.runs.iter().map(run_bytes).sum::<usize>()
    }
}

impl<V: Copy> IdMap<V> {
    /// The identifiers in order.
    pub fn ids(&self) -> impl Iterator<Item = StreamId> + Clone {
        self.iter().map(|(id, _)| id)
    }

    /// The smallest identifier.
    pub fn first_id(&self) -> Option<StreamId> {
        let run = self.runs.one().or_else(|| self.runs.many()?.first())?;
        run.first().map(|(id, _)| *id)
    }

    /// The largest identifier.
    pub fn last_id(&self) -> Option<StreamId> {
        let run = self.runs.one().or_else(|| self.runs.many()?.last())?;
        run.last().map(|(id, _)| *id)
    }

    /// The entries within bounds, in order.
    pub fn range(&self, bounds: impl RangeBounds<StreamId>) -> impl Iterator<Item = (StreamId, V)> {
        let from = match bounds.start_bound() {
            Bound::Included(&id) => Some(id),
            Bound::Excluded(&id) => id.next(),
            Bound::Unbounded => Some(StreamId::MIN),
        };
        let to = match bounds.end_bound() {
            Bound::Included(&id) => Some(id),
            Bound::Excluded(&id) => id.previous(),
            Bound::Unbounded => Some(StreamId::MAX),
        };
        let interval = from.zip(to).filter(|(from, to)| from <= to);
        interval.into_iter().flat_map(move |(from, to)| self.span(from, to))
    }
}

/// Sets what belongs to `id` in a run that is not full.
fn set_in<K: Copy + Ord, V: Copy>(run: &mut Vec<(K, V)>, id: K, value: V) -> Option<V> {
    match position(run, id) {
        Ok(at) => run.get_mut(at).map(|entry| std::mem::replace(&mut entry.1, value)),
        Err(at) => {
            make_room(run, RUN_MAX);
            run.insert(at, (id, value));
            None
        }
    }
}

/// Takes out the entry at a place.
fn take_from<K, V: Copy>(run: &mut Vec<(K, V)>, at: usize) -> V {
    let (_, value) = run.remove(at);
    if run.len() <= run.capacity() / 2 {
        run.shrink_to_fit();
    }
    value
}

fn insert_in_tree<K: Copy + Ord, V: Copy>(tree: &mut Tree<K, V>, id: K, value: V) -> Option<V> {
    let Some(node) = tree.floor_or_first(id) else {
        tree.push(id, Arc::new(vec![(id, value)]));
        return None;
    };
    let is_last = tree.after(node).is_none();
    let run = tree.at_mut(node).map(Arc::make_mut)?;
    if run.len() < RUN_MAX {
        return set_in(run, id, value);
    }
    let at = match position(run, id) {
        Ok(at) => return run.get_mut(at).map(|entry| std::mem::replace(&mut entry.1, value)),
        Err(at) => at,
    };
    if is_last && at == RUN_MAX {
        tree.push(id, Arc::new(vec![(id, value)]));
    } else {
        let mut upper = run.split_off(RUN_MAX / 2);
        if at <= RUN_MAX / 2 {
            run.insert(at, (id, value));
        } else {
            upper.insert(at - RUN_MAX / 2, (id, value));
        }
        let first = upper.first().map_or(id, |(id, _)| *id);
        tree.insert_after(node, first, Arc::new(upper));
    }
    None
}

fn remove_from_tree<K: Copy + Ord, V: Copy>(tree: &mut Tree<K, V>, id: K) -> Option<V> {
    let node = tree.floor_node(id)?;
    let at = tree.at(node).and_then(|run| position(run, id).ok())?;
    let run = tree.at_mut(node).map(Arc::make_mut)?;
    let value = take_from(run, at);
    if run.is_empty() {
        tree.remove_at(node);
    } else if run.len() <= RUN_SMALL
        && !join_next(tree, node)
        && let Some(before) = tree.before(node)
    {
        join_next(tree, before);
    }
    Some(value)
}

/// Joins a run with the next, if both fit in one. False if not.
fn join_next<K: Copy + Ord, V: Copy>(tree: &mut Tree<K, V>, node: u32) -> bool {
    let length = |node| tree.at(node).map_or(RUN_MAX, |run| run.len());
    let Some(next) = tree.after(node) else { return false };
    if length(node) + length(next) > RUN_MAX * 3 / 4 {
        return false;
    }
    let Some(upper) = tree.remove_at(next) else { return false };
    if let Some(run) = tree.at_mut(node) {
        Arc::make_mut(run).extend_from_slice(&upper);
    }
    true
}

/// Where in a run `id` is or belongs.
fn position<K: Copy + Ord, V>(run: &[(K, V)], id: K) -> Result<usize, usize> {
    run.binary_search_by_key(&id, |(id, _)| *id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;
    use std::collections::BTreeMap;

    fn check(map: &IdMap<u64>, model: &BTreeMap<StreamId, u64>) {
        assert!(map.iter().eq(model.iter().map(|(&id, &value)| (id, value))));
        assert_eq!(map.len(), model.len());
        assert_eq!(map.first_id(), model.keys().next().copied());
        assert_eq!(map.last_id(), model.keys().next_back().copied());
        let runs: Vec<&Run<StreamId, u64>> = map.runs.iter().collect();
        assert!(runs.iter().all(|run| (1..=RUN_MAX).contains(&run.len()) && run.capacity() <= RUN_MAX));
    }

    #[test]
    fn behaves_like_a_sorted_map_and_clones_stay() {
        let seed = 11;
        let mut numbers = Random::new(seed);
        let mut random = |bound: u64| numbers.next() % bound;
        let (mut map, mut model) = (IdMap::default(), BTreeMap::new());
        let mut clones: Vec<(IdMap<u64>, BTreeMap<StreamId, u64>)> = Vec::new();
        for round in 0..40_000 {
            let shrinks = round / 5000 % 2 == 1;
            let id = StreamId { ms: random(60), seq: random(60) };
            match random(10) {
                0 if round % 50 == 0 => clones.push((map.clone(), model.clone())),
                0..3 => {
                    let id = model.keys().next_back().and_then(|last: &StreamId| last.next()).unwrap_or(id);
                    assert_eq!(map.insert(id, round), model.insert(id, round), "seed {seed}, round {round}");
                }
                3..5 if !shrinks => {
                    assert_eq!(map.insert(id, round), model.insert(id, round), "seed {seed}, round {round}");
                }
                5 => {
                    let first = model.keys().next().copied().unwrap_or(id);
                    assert_eq!(map.remove(first), model.remove(&first), "seed {seed}, round {round}");
                }
                _ => {
                    let id = model.range(id..).next().map_or(id, |(&id, _)| id);
                    assert_eq!(map.remove(id), model.remove(&id), "seed {seed}, round {round}");
                }
            }
            let (from, to) = (id, StreamId { ms: random(60), seq: random(60) });
            assert_eq!(map.get(id), model.get(&id).copied());
            if from <= to && round % 7 == 0 {
                assert!(map.range(from..=to).eq(model.range(from..=to).map(|(&id, &value)| (id, value))));
                assert!(map.range(from..).eq(model.range(from..).map(|(&id, &value)| (id, value))));
                assert!(map.range(..to).eq(model.range(..to).map(|(&id, &value)| (id, value))));
            } else if from > to {
                assert_eq!(map.range(from..=to).count(), 0);
            }
            if round % 100 == 0 {
                check(&map, &model);
            }
            if clones.len() > 3 {
                let (clone, model) = clones.remove(0);
                check(&clone, &model);
            }
        }
    }

    #[test]
    fn runs_that_are_emptied_at_random_join() {
        let seed = 5;
        let mut numbers = Random::new(seed);
        let mut map = IdMap::default();
        let mut ids: Vec<StreamId> = (0..20_000).map(|seq| StreamId { ms: 1, seq }).collect();
        ids.iter().for_each(|&id| assert_eq!(map.insert(id, 0), None));
        assert_eq!(map.runs.iter().count(), ids.len().div_ceil(RUN_MAX));
        while ids.len() > 2000 {
            let id = ids.swap_remove((numbers.next() % ids.len() as u64) as usize);
            assert_eq!(map.remove(id), Some(0));
        }
        assert!(
            map.runs.iter().count() < ids.len() / RUN_SMALL,
            "{} runs, seed {seed}",
            map.runs.iter().count()
        );
        let capacity: usize = map.runs.iter().map(|run| run.capacity()).sum();
        assert!(capacity <= 2 * ids.len(), "capacity {capacity}, seed {seed}");
    }
}
