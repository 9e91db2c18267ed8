//! The hashes of keys.

use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

use foldhash::quality::SeedableRandomState;

use crate::seed;

/// The hash of a key. The high bits choose the shard, the low ones the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyHash(pub u64);

/// The seed of all hashes. Clients cannot know it, and so cannot construct collisions.
static SEED: OnceLock<SeedableRandomState> = OnceLock::new();

/// Hashes keys.
#[derive(Clone, Copy)]
pub struct KeyHasher(&'static SeedableRandomState);

impl KeyHasher {
    /// The hasher of this program: all its keyspaces hash alike, and those of no other run do.
    pub(crate) fn of_this_run() -> Self {
        KeyHasher(SEED.get_or_init(seed::quality))
    }

    /// The hash of a key.
    #[inline]
    pub fn hash(self, key: &[u8]) -> KeyHash {
        let mut hasher = self.0.build_hasher();
        hasher.write(key);
        KeyHash(hasher.finish())
    }
}
