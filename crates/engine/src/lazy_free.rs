//! Freeing what commands have removed.

use mantissa_commands::LazyFree;

use crate::engine::Engine;
use crate::persistence;

/// Frees removed values: small ones at once, large ones in the background. After a FLUSHALL a dump of the
/// empty keyspace is written first. No shard may be locked.
#[inline]
pub fn free(engine: &Engine, to_free: Option<LazyFree>) {
    if let Some(to_free) = to_free {
        free_all(engine, to_free);
    }
}

fn free_all(engine: &Engine, to_free: LazyFree) {
    if to_free.emptied {
        persistence::save_flush(engine);
    }
    engine.free_values(to_free);
}
