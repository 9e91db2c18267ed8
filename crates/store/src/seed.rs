//! The seeds of the hashes: random in each process, so that clients cannot construct collisions.

use std::sync::OnceLock;

use foldhash::{SharedSeed, fast, quality};
use mantissa_sys::simulation;

/// The seed that a measurement has asked for.
static FIXED: OnceLock<u64> = OnceLock::new();

/// Has all hashes of this process be the same in every run, so that counts of instructions can be compared.
/// To be called before the first keyspace is made; later it has no effect. Not for a server: its clients
/// could foresee collisions.
#[doc(hidden)]
pub fn fix_hash_seed(seed: u64) {
    FIXED.get_or_init(|| seed);
}

/// The seed to use, if it is not to be random: of a measurement, or of a simulation, which hashes alike in
/// every run.
fn fixed() -> Option<u64> {
    FIXED.get().copied().or_else(|| simulation::is_active().then_some(1))
}

/// A seed of this process for hashes all of whose bits are used.
pub(crate) fn quality() -> quality::SeedableRandomState {
    match fixed() {
        None => quality::SeedableRandomState::random(),
        Some(seed) => quality::SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()),
    }
}

/// A seed of this process for hashes that a table mixes further.
pub(crate) fn fast() -> fast::SeedableRandomState {
    match fixed() {
        None => fast::SeedableRandomState::random(),
        Some(seed) => fast::SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()),
    }
}
