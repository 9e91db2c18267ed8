//! Work on the keyspace outside of a call: locks shards, runs the work and commits its changes.

use mantissa_commands::{Access, Mode};
use mantissa_store::{LockedShards, ShardSet};

use crate::commit::{LoggedCommand, commit};
use crate::context::Context;
use crate::invocation::Invocation;
use crate::lazy_free;

impl Invocation<'_, '_, '_> {
    /// Runs `work` with a view of these shards: the transaction's inside EXEC, else one locked for just that.
    /// What it changes is committed.
    pub fn with_access<R>(&mut self, shards: ShardSet, work: impl FnOnce(&mut Access<'_>) -> R) -> R {
        if let Some(access) = &mut self.access {
            return work(access);
        }
        with_shards(self.context, None, self.session.database, shards, work)
    }
}

/// Runs `work` with a view of these shards, locked for just that. What it changes is committed, as done by
/// `command`.
pub fn with_shards<R>(
    context: &mut Context,
    command: LoggedCommand<'_>,
    database: usize,
    shards: ShardSet,
    work: impl FnOnce(&mut Access<'_>) -> R,
) -> R {
    let locked = context.engine.keyspace.lock(shards);
    with_locked(context, command, database, locked, work)
}

/// The same with one shard, for what the engine does by itself, such as expiry. `None` if the shard is
/// locked: a script may hold it for long.
pub fn try_with_shard<R>(
    context: &mut Context,
    shard: usize,
    database: usize,
    work: impl FnOnce(&mut Access<'_>) -> R,
) -> Option<R> {
    let locked = context.engine.keyspace.try_lock(ShardSet::one(shard)).ok()?;
    context.outbox.unit.loosen();
    Some(with_locked(context, None, database, locked, work))
}

/// Runs `work` with a view of locked shards. What it changes is committed, as done by `command`.
pub fn with_locked<R>(
    context: &mut Context,
    command: LoggedCommand<'_>,
    database: usize,
    locked: LockedShards<'_>,
    work: impl FnOnce(&mut Access<'_>) -> R,
) -> R {
    let engine = context.engine;
    let Context { active, now_ms, random_state, collected, outbox, .. } = context;
    let mode = Mode::default();
    let mut access = Access::new(locked, database, *now_ms, &active.settings, mode, random_state, collected);
    let result = work(&mut access);
    let to_free = commit(engine, outbox, &mut access, command, true);
    drop(access);
    lazy_free::free(engine, to_free);
    result
}
