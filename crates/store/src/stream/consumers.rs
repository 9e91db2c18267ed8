//! The consumers of a group, by name and by identifier.
//!
//! A few lie side by side; more have a tree by identifier and a map by name. Finding, adding and removing one
//! is O(log n). A clone is O(1); a new or removed consumer copies the names of all while it lives.
//!
//! Invariant: names and identifiers are each unique.

use std::collections::BTreeMap;
use std::sync::Arc;

use mantissa_memory::{CowMap, allocator, slab};

use super::group::{Consumer, ConsumerId};

/// Most consumers that lie side by side.
const FEW_MAX: usize = 16;

/// Why every name has its consumer.
const NAMED: &str = "names and consumers change together";

/// The consumers of a group.
#[derive(Clone, Debug)]
pub(super) enum Consumers {
    /// Up to [`FEW_MAX`], in the order of their names.
    Few(Vec<(ConsumerId, Arc<Consumer>)>),
    /// Any number.
    Many(Box<Many>),
}

#[derive(Clone, Default, Debug)]
pub(super) struct Many {
    by_id: CowMap<ConsumerId, Arc<Consumer>>,
    names: Arc<BTreeMap<Box<[u8]>, ConsumerId>>,
}

impl Default for Consumers {
    fn default() -> Self {
        Consumers::Few(Vec::new())
    }
}

impl Consumers {
    pub fn len(&self) -> usize {
        match self {
            Consumers::Few(few) => few.len(),
            Consumers::Many(many) => many.names.len(),
        }
    }

    /// All, in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (ConsumerId, &Consumer)> {
        let mut few = if let Consumers::Few(few) = self { few.iter() } else { [].iter() };
        let mut names = if let Consumers::Many(many) = self { Some(many.names.values()) } else { None };
        (0..self.len()).map(move |_| match names.as_mut().and_then(Iterator::next) {
            Some(id) => (*id, self.get(*id).expect(NAMED)),
            None => few.next().map(|(id, consumer)| (*id, &**consumer)).expect("there are as many"),
        })
    }

    /// The consumer of that name.
    pub fn find(&self, name: &[u8]) -> Option<ConsumerId> {
        match self {
            Consumers::Few(few) => place(few, name).ok().map(|at| few[at].0),
            Consumers::Many(many) => many.names.get(name).copied(),
        }
    }

    /// The consumer with that identifier.
    pub fn get(&self, id: ConsumerId) -> Option<&Consumer> {
        match self {
            Consumers::Few(few) => {
                few.iter().find(|(other, _)| *other == id).map(|(_, consumer)| &**consumer)
            }
            Consumers::Many(many) => {
                many.by_id.between(id, id).next().map(|consumer| &**consumer).filter(|found| found.id() == id)
            }
        }
    }

    /// The same, to change.
    pub fn get_mut(&mut self, id: ConsumerId) -> Option<&mut Consumer> {
        let found = match self {
            Consumers::Few(few) => {
                few.iter_mut().find(|(other, _)| *other == id).map(|(_, consumer)| consumer)
            }
            Consumers::Many(many) => many.by_id.floor_mut(id).filter(|found| found.id() == id),
        };
        found.map(Arc::make_mut)
    }

    /// Adds a consumer, whose name is new and whose identifier is above all others.
    pub fn add(&mut self, consumer: Consumer) {
        let id = consumer.id();
        if let Consumers::Few(few) = self {
            let Err(at) = place(few, consumer.name()) else { return };
            if few.len() < FEW_MAX {
                few.reserve_exact(1);
                few.insert(at, (id, Arc::new(consumer)));
                return;
            }
            let mut few = std::mem::take(few);
            few.sort_unstable_by_key(|(id, _)| *id);
            let mut many = Many::default();
            few.into_iter().for_each(|(id, consumer)| many.add(id, consumer));
            *self = Consumers::Many(Box::new(many));
        }
        if let Consumers::Many(many) = self {
            many.add(id, Arc::new(consumer));
        }
    }

    /// Takes a consumer out.
    pub fn remove(&mut self, name: &[u8]) -> Option<Arc<Consumer>> {
        let many = match self {
            Consumers::Few(few) => {
                let (_, consumer) = few.remove(place(few, name).ok()?);
                few.shrink_to_fit();
                return Some(consumer);
            }
            Consumers::Many(many) => many,
        };
        let id = Arc::make_mut(&mut many.names).remove(name)?;
        let removed = many.by_id.remove_floor(id);
        if many.names.len() <= FEW_MAX / 2 {
            let consumer = |id: &ConsumerId| Some((*id, Arc::clone(many.by_id.between(*id, *id).next()?)));
            *self = Consumers::Few(many.names.values().filter_map(consumer).collect());
        }
        removed
    }

    /// Bytes taken, the structure itself and what the consumers hold not included. O(consumers).
    pub fn memory_usage(&self) -> usize {
        let consumer_bytes = slab::class_size(size_of::<Consumer>() + 16);
        let names: usize = self.iter().map(|(_, consumer)| slab::class_size(consumer.name().len())).sum();
        let order = match self {
            Consumers::Few(few) => allocator::class_size(few.capacity() * size_of::<(ConsumerId, usize)>()),
            Consumers::Many(many) => {
                let entries = many.names.len() * size_of::<(Box<[u8]>, ConsumerId)>();
                size_of::<Many>() + many.by_id.memory_usage() + names + entries
            }
        };
        order + names + self.len() * consumer_bytes
    }
}

impl Many {
    fn add(&mut self, id: ConsumerId, consumer: Arc<Consumer>) {
        Arc::make_mut(&mut self.names).insert(consumer.name().into(), id);
        self.by_id.push(id, consumer);
    }
}

/// Where a name is among consumers in the order of their names, or belongs.
fn place(few: &[(ConsumerId, Arc<Consumer>)], name: &[u8]) -> Result<usize, usize> {
    few.binary_search_by(|(_, consumer)| consumer.name().cmp(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Group;
    use crate::stream::StreamId;
    use crate::test_random::Random;

    #[test]
    fn consumers_are_those_of_a_map_and_clones_keep_theirs() {
        let mut random = Random::new(17);
        let mut group = Group::new(StreamId::MIN, None);
        let mut model: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
        let mut kept: Vec<(Group, BTreeMap<Vec<u8>, i64>)> = Vec::new();
        for round in 0..20_000i64 {
            let name = format!("consumer {}", random.next() % 60).into_bytes();
            // There are few for a while, and then many.
            let removes = random.next() % 100 < if round / 1000 % 2 == 0 { 30 } else { 75 };
            let known = group.find_consumer(&name);
            assert_eq!(known.is_some(), model.contains_key(&name));
            match known {
                Some(_) if removes => {
                    assert_eq!(group.remove_consumer(&name), Some(0));
                    model.remove(&name);
                }
                Some(id) => {
                    group.set_seen(id, round);
                    model.insert(name, round);
                }
                None if removes => assert_eq!(group.remove_consumer(&name), None),
                None => {
                    let id = group.add_consumer(&name, round, -1).expect("the name is free");
                    assert_eq!(group.consumer(id).map(Consumer::name), Some(&*name));
                    model.insert(name, round);
                }
            }
            if round % 97 == 0 {
                kept.push((group.clone(), model.clone()));
            }
            if kept.len() > 3 || round % 97 == 1 {
                let (group, model) = kept.remove(0);
                let names = group.consumers().map(|(_, consumer)| (consumer.name(), consumer.seen_at_ms));
                assert!(names.eq(model.iter().map(|(name, seen)| (&**name, *seen))));
                assert_eq!(group.consumers().len(), model.len());
                for (id, consumer) in group.consumers() {
                    assert_eq!(group.consumer(id).map(Consumer::name), Some(consumer.name()));
                }
            }
        }
    }
}
