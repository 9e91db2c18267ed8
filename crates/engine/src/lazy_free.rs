//! Freeing what commands have removed.

use mantissa_commands::LazyFree;

use crate::engine::Engine;
use crate::persistence;

/// Frees what commands have left, here if it is little, else in the background. What was flushed is saved as
/// such first. No shard may be locked.
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
