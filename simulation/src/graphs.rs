//! What an engine holds, with the links of vector sets, which the digest of DEBUG DIGEST leaves out: nodes
//! that have come to the same data have also come to the same graphs.

use std::hash::{DefaultHasher, Hash, Hasher};

use mantissa_persist::digest::digest_keyspace;
use mantissa_store::{LockedShards, ValueRef, VectorSet};

/// The digest of all data and links.
pub fn digest(shards: &mut LockedShards<'_>) -> [u8; 20] {
    let mut digest = digest_keyspace(shards);
    let (mut sum, keyspace) = (0_u64, shards.keyspace());
    for (database, shard) in (0..keyspace.database_count())
        .flat_map(|database| (0..keyspace.shard_count()).map(move |shard| (database, shard)))
    {
        shards.visit(shard, |shard| {
            for entry in shard.databases[database].iter() {
                if let ValueRef::VectorSet(set) = entry.value() {
                    sum = sum.wrapping_add(of_set(database, entry.key(), set));
                }
            }
        });
    }
    digest.iter_mut().zip(sum.to_le_bytes()).for_each(|(byte, other)| *byte ^= other);
    digest
}

/// A number for the links of a set: of all elements by their names, on each level, in their order.
fn of_set(database: usize, key: &[u8], set: &VectorSet) -> u64 {
    let mut hasher = DefaultHasher::new();
    (database, key, set.len()).hash(&mut hasher);
    for element in (0..set.len()).filter_map(|rank| set.at_rank(rank)) {
        set.name(element).hash(&mut hasher);
        for level in 0..=set.level(element) {
            let names = set.neighbours(element, level).map(|other| set.name(other.element));
            names.for_each(|name| name.hash(&mut hasher));
            level.hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mantissa_store::vector_set::{Quantization, VectorSetOptions};

    #[test]
    fn sets_of_the_same_elements_and_other_links_differ() {
        let number_of = |removed: &[u32]| {
            let quantization = Quantization::None;
            let mut set =
                VectorSet::new(VectorSetOptions { dimension: 3, quantization, links: 4, projection: None });
            let add = |set: &mut VectorSet, element: u32| {
                let vector = [element % 7, element % 5, element % 11].map(|number| number as f32 + 1.0);
                set.set(element.to_string().as_bytes(), &set.target(vector.to_vec()), 10);
            };
            (0..100).for_each(|element| add(&mut set, element));
            for &element in removed {
                let found = set.find(element.to_string().as_bytes()).expect("it is there");
                set.remove(found);
                add(&mut set, element);
            }
            of_set(0, b"key", &set)
        };
        assert_eq!(number_of(&[]), number_of(&[]));
        assert_eq!(number_of(&[3, 50]), number_of(&[3, 50]));
        assert_ne!(number_of(&[]), number_of(&[3, 50]));
    }
}
