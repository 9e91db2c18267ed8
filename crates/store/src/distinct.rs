//! Whether all of many keys differ.

use std::collections::HashSet;
use std::hash::Hash;

use smallvec::SmallVec;

/// Whether the keys of all items differ. Equal keys have equal hashes, so the hashes tell it where all of
/// them differ, as they nearly always do; only otherwise keys are compared. Costs O(n log n).
pub(crate) fn all_differ<T, K: Eq + Hash>(
    items: impl Iterator<Item = T> + Clone,
    hash_of: impl Fn(T) -> u64,
    key_of: impl Fn(T) -> K,
) -> bool {
    let mut hashes: SmallVec<[u64; 128]> = items.clone().map(hash_of).collect();
    hashes.sort_unstable();
    let mut seen = HashSet::new();
    hashes.windows(2).all(|pair| pair[0] != pair[1]) || items.map(key_of).all(|key| seen.insert(key))
}

/// Most items that [`few_differ`] takes.
pub(crate) const FEW: usize = 24;

/// The same of a few items, at most [`FEW`]: each is compared with each by a number that is the same where
/// their keys are the same.
pub(crate) fn few_differ<T: Copy>(
    items: impl Iterator<Item = T> + Clone,
    fingerprint_of: impl Fn(T) -> u32,
    are_same: impl Fn(T, T) -> bool,
) -> bool {
    let mut fingerprints = [0; FEW];
    for (index, item) in items.clone().enumerate() {
        let fingerprint = fingerprint_of(item);
        // Whole steps whatever the index is no branch; behind it are zeros.
        let same = fingerprints.iter().filter(|&&other| other == fingerprint).count();
        if same > 0 && items.clone().take(index).any(|other| are_same(other, item)) {
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
        let differ = |keys: &[u64], modulus: u64| all_differ(keys.iter(), |key| *key % modulus, |key| *key);
        for modulus in [1, 3, u64::MAX] {
            assert!(differ(&[], modulus) && differ(&[4], modulus));
            assert!(differ(&[1, 4, 2, 7], modulus));
            assert!(!differ(&[1, 4, 2, 4], modulus));
        }
    }

    #[test]
    fn few_keys_decide_where_fingerprints_do_not() {
        for modulus in [1, 3, u32::MAX] {
            let differ =
                |keys: &[u32]| few_differ(keys.iter(), |key| *key % modulus, |one, other| one == other);
            assert!(differ(&[]) && differ(&[4]) && differ(&[0, 1, 2]));
            let mut keys: Vec<u32> = (0..FEW as u32).collect();
            assert!(differ(&keys));
            for index in 1..FEW {
                keys[index] = keys[index / 2];
                assert!(!differ(&keys));
                keys[index] = index as u32;
            }
        }
    }
}
