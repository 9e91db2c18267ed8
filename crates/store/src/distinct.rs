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
}
