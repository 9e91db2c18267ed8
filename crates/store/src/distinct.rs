//! Whether all of many keys differ.

use std::collections::HashSet;
use std::hash::Hash;

use smallvec::SmallVec;

/// Most items of which each is compared with each.
const COMPARED_MAX: usize = 24;

/// Whether the keys of all items differ. Equal keys have equal fingerprints and hashes, so these tell it
/// where all of them differ, as they nearly always do; only otherwise keys are compared. Costs O(n log n).
pub(crate) fn all_differ<T: Copy, K: Eq + Hash>(
    items: impl ExactSizeIterator<Item = T> + Clone,
    fingerprint_of: impl Fn(T) -> u32,
    hash_of: impl Fn(T) -> u64,
    key_of: impl Fn(T) -> K,
) -> bool {
    if items.len() <= COMPARED_MAX {
        return few_differ(items, fingerprint_of, key_of);
    }
    let mut hashes: SmallVec<[u64; 128]> = items.clone().map(hash_of).collect();
    hashes.sort_unstable();
    let mut seen = HashSet::new();
    hashes.windows(2).all(|pair| pair[0] != pair[1]) || items.map(key_of).all(|key| seen.insert(key))
}

fn few_differ<T: Copy, K: Eq>(
    items: impl Iterator<Item = T> + Clone,
    fingerprint_of: impl Fn(T) -> u32,
    key_of: impl Fn(T) -> K,
) -> bool {
    let mut fingerprints = [0; COMPARED_MAX];
    for (index, item) in items.clone().enumerate() {
        let fingerprint = fingerprint_of(item);
        // Whole steps whatever the index is no branch; behind it are zeros.
        let same = fingerprints.iter().filter(|&&other| other == fingerprint).count();
        if same > 0 && items.clone().take(index).any(|other| key_of(other) == key_of(item)) {
            return false;
        }
        fingerprints[index] = fingerprint;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_decide_where_hashes_do_not() {
        let hash = |key: &u64, modulus: u64| *key % modulus;
        let differ = |keys: &[u64], modulus: u64| {
            let fingerprint = |key: &u64| hash(key, modulus) as u32;
            all_differ(keys.iter(), fingerprint, |key| hash(key, modulus), |key| *key)
        };
        for modulus in [1, 3, u64::MAX] {
            assert!(differ(&[], modulus) && differ(&[4], modulus));
            assert!(differ(&[1, 4, 2, 7], modulus));
            assert!(!differ(&[1, 4, 2, 4], modulus));
            let mut many: Vec<u64> = (0..100).collect();
            assert!(differ(&many, modulus));
            many[70] = 3;
            assert!(!differ(&many, modulus));
        }
    }

    #[test]
    fn few_keys_decide_where_fingerprints_do_not() {
        for modulus in [1, 3, u32::MAX] {
            let differ = |keys: &[u32]| few_differ(keys.iter(), |key| *key % modulus, |key| *key);
            assert!(differ(&[]) && differ(&[4]) && differ(&[0, 1, 2]));
            let mut keys: Vec<u32> = (0..COMPARED_MAX as u32).collect();
            assert!(differ(&keys));
            for index in 1..COMPARED_MAX {
                keys[index] = keys[index / 2];
                assert!(!differ(&keys));
                keys[index] = index as u32;
            }
        }
    }
}
