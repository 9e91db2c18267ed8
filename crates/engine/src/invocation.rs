//! What a command of the server has at hand: its client, its worker's context, and the keyspace where it
//! needs it.

use mantissa_commands::{Access, Mode};
use mantissa_protocol::Reply;
use mantissa_store::{LockedShards, ShardSet};

use crate::commit::{Command, commit};
use crate::context::Context;
use crate::engine::Engine;
use crate::session::Session;

/// The session, the thread's context and the keyspace of a command that runs.
pub struct Invocation<'s, 'k, 'e> {
    /// The worker's context.
    pub context: &'s mut Context<'e>,
    /// The client.
    pub session: &'s mut Session,
    /// Inside EXEC: the transaction's view of the keyspace, whose locks are held.
    pub access: Option<&'s mut Access<'k>>,
}

impl<'e> Invocation<'_, '_, 'e> {
    /// The engine.
    pub fn engine(&self) -> &'e Engine {
        self.context.engine
    }

    /// Whether the command runs inside EXEC.
    pub fn in_transaction(&self) -> bool {
        self.access.is_some()
    }

    /// Writes a message that belongs to the reply. A client without replies gets it all the same.
    pub fn push(&mut self, reply: &mut Reply, write: impl FnOnce(&mut Reply)) {
        if !self.session.reply_mode.is_silent() {
            return write(reply);
        }
        let mut message = Reply::new(self.session.protocol);
        write(&mut message);
        let target = *self.session.shared.target.lock();
        self.context.outbox.push(target, message.into_bytes().into());
    }

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
    command: Command<'_>,
    database: usize,
    shards: ShardSet,
    work: impl FnOnce(&mut Access<'_>) -> R,
) -> R {
    let locked = context.engine.keyspace.lock(shards);
    with_locked(context, command, database, locked, work)
}

/// The same with one shard, for what the server does by itself, key by key. Nothing if the shard is in use: a
/// script may hold it for long.
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

fn with_locked<R>(
    context: &mut Context,
    command: Command<'_>,
    database: usize,
    locked: LockedShards<'_>,
    work: impl FnOnce(&mut Access<'_>) -> R,
) -> R {
    let engine = context.engine;
    let Context { live, now_ms, random_state, collected, outbox, .. } = context;
    let mode = Mode::default();
    let mut access = Access::new(locked, database, *now_ms, &live.settings, mode, random_state, collected);
    let result = work(&mut access);
    let to_free = commit(engine, outbox, &mut access, command, true);
    drop(access);
    engine.free(to_free);
    result
}
