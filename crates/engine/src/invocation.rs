//! What a command of the server has at hand: its client, its worker's context, and the keyspace where it
//! needs it.

use std::sync::Arc;

use mantissa_commands::{Access, Collected, Mode, Outcome};
use mantissa_protocol::{Args, Reply};
use mantissa_store::{LockedShards, ShardSet};

use crate::commit::{Command, commit};
use crate::context::Context;
use crate::engine::Engine;
use crate::session::Session;
use crate::{execute, registry, tracking};

/// See the module's description.
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
    let trash = commit(engine, outbox, &mut access, command, true);
    drop(access);
    engine.free(trash);
    result
}

/// Runs `work` with a view of these shards, locked for just that: the commands of a transaction or a script,
/// which take their client and context along. The commit of what they change ends here. `may_write` says
/// whether any of them may write. Fails, having run nothing, where a slow script holds one of the shards.
pub fn run_as_one<R>(
    context: &mut Context,
    session: &mut Session,
    shards: ShardSet,
    may_write: bool,
    work: impl FnOnce(&mut Context, &mut Session, &mut Access<'_>) -> R,
) -> Outcome<R> {
    let engine = context.engine;
    let locked = execute::lock(engine, shards, may_write)?;
    let live = Arc::clone(&context.live);
    let (mut random_state, mut collected) = (context.random_state, Collected::default());
    let mode = Mode { may_block: false, serving: false, no_touch: session.no_touch };
    let (database, now_ms) = (session.database, context.now_ms);
    let (settings, random, collected) = (&live.settings, &mut random_state, &mut collected);
    let mut access = Access::new(locked, database, now_ms, settings, mode, random, collected);
    let result = work(context, session, &mut access);
    access.select(session.database);
    let trash = commit(engine, &mut context.outbox, &mut access, None, true);
    drop(access);
    context.random_state = random_state;
    engine.free(trash);
    Ok(result)
}

/// Commits what one of those commands has caused, as far as that is not left to the end.
pub fn commit_one(
    context: &mut Context,
    session: &Session,
    access: &mut Access<'_>,
    (command, args): (&'static registry::Command, Args<'_>),
) {
    let (engine, outbox) = (context.engine, &mut context.outbox);
    let trash = commit(engine, outbox, access, Some((session.database, args)), false);
    access.keep_trash(trash);
    if session.remembers_reads() {
        let keys_max = context.live.config.tracking_table_max_keys;
        tracking::remember(outbox, access, &session.shared, command, args, keys_max);
    }
}
