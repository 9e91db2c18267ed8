//! A sample of the keys with an expiry, for finding some of them fast where few keys have one.
//!
//! There is no index of the keys with an expiry. Policies that evict only such keys find them by looking at
//! random entries where they are common. Where they are rare, this sample helps: a direct-mapped array of
//! [`SLOTS`] key hashes for a database's part of a shard. A key is noted when it gets an expiry, and when a
//! walk comes across it; a later one with the same slot takes its place. So a small number of such keys is
//! known nearly completely, and of a large number there is always a sample. What is noted may be out of date:
//! the reader looks the key up, and removes it from the sample if it is gone or has no expiry any more.
//!
//! 4 KiB for a database's part of a shard, only while a policy needs it.

use crate::key_hash::KeyHash;

/// Hashes that are kept: a power of two.
const SLOTS: usize = 512;

/// Hashes of some of the keys that have an expiry.
pub(crate) struct ExpirySample(Box<[u64; SLOTS]>);

impl ExpirySample {
    /// An empty sample.
    pub fn new() -> Self {
        ExpirySample(Box::new([0; SLOTS]))
    }

    /// Notes a key with an expiry.
    #[inline]
    pub fn note(&mut self, hash: KeyHash) {
        self.0[Self::slot(hash)] = hash.0;
    }

    /// Forgets a key.
    pub fn forget(&mut self, hash: KeyHash) {
        let slot = &mut self.0[Self::slot(hash)];
        if *slot == hash.0 {
            *slot = 0;
        }
    }

    /// The first noted key from a place on that `random` chooses.
    pub fn pick(&self, random: u64) -> Option<KeyHash> {
        let first = random as usize % SLOTS;
        let slots = self.0[first..].iter().chain(&self.0[..first]);
        slots.copied().find(|&hash| hash != 0).map(KeyHash)
    }

    /// Neither the bits that choose the bucket of small tables nor those that choose the shard.
    #[inline]
    fn slot(hash: KeyHash) -> usize {
        (hash.0 >> 24) as usize % SLOTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_keys_are_known_and_forgotten_keys_are_not_picked() {
        let mut sample = ExpirySample::new();
        assert_eq!(sample.pick(7), None);
        let hashes: Vec<_> = (1..=5_u64).map(|number| KeyHash(number << 24 | 1)).collect();
        hashes.iter().for_each(|&hash| sample.note(hash));
        let picked: std::collections::BTreeSet<_> =
            (0..SLOTS as u64).filter_map(|random| sample.pick(random)).map(|hash| hash.0).collect();
        assert_eq!(picked.len(), 5);
        hashes.iter().for_each(|&hash| sample.forget(hash));
        assert_eq!(sample.pick(7), None);
    }
}
