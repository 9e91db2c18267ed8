//! Reading what a request needs before it runs.
//!
//! A request whose keys have values on disk is held back, as CLIENT PAUSE holds requests back, and its values
//! are read by other threads without any lock. When all are in memory its worker executes it from its
//! beginning. A value may have left memory again by then: after [`FETCHES_MAX`] attempts the request runs all
//! the same and reads what is missing itself.
//!
//! Requests that need the same value share one read. A value that can not be read is an error for those who
//! need it, and is tried again after a second.

use std::sync::atomic::Ordering;

use mantissa_commands::spec::{KeyFlags, Traits};
use mantissa_commands::{Access, Error, Outcome, find_keys, key_flags};
use mantissa_protocol::Args;
use mantissa_store::cold::Cold;
use mantissa_store::{Entry, ShardSet};

use super::offload;
use crate::context::Context;
use crate::engine::Engine;
use crate::host::Message;
use crate::invocation::Command;
use crate::locking::lock_one;
use crate::session::Session;
use crate::state::tier::{Key, Read};
use crate::warning;

/// How often a request waits for values.
const FETCHES_MAX: u32 = 4;

/// Whether a request can run.
pub enum Ready {
    /// It can.
    Now,
    /// Its session gets [`Message::Retry`] or [`Message::Resume`] when it can.
    Later,
    /// A value that it needs can not be read.
    Never(Error),
}

/// Sees to it that the values that a request needs are in memory, and that there is room for what it writes.
pub fn prepare(context: &mut Context, session: &mut Session, (command, args): (&Command, Args<'_>)) -> Ready {
    let engine = context.engine;
    let info = command.info;
    if info.flags.has(mantissa_commands::spec::Flags::DENYOOM)
        && offload::has_to_wait(engine, context.active.config.maxmemory)
    {
        return Ready::Later;
    }
    let mut missing = Vec::new();
    if info.traits.has(Traits::RUNS_QUEUE) {
        for queued in session.transaction.iter().flat_map(|transaction| &transaction.queue) {
            find_missing(context, session.database, queued.command, queued.args.as_args(), &mut missing);
        }
    } else {
        find_missing(context, session.database, command, args, &mut missing);
    }
    if missing.is_empty() || session.fetches >= FETCHES_MAX {
        session.fetches = 0;
        return Ready::Now;
    }
    if let Some(reason) = engine.tier.reads.failure(&missing) {
        session.fetches = 0;
        return Ready::Never(unreadable(reason));
    }
    session.fetches += 1;
    missing.sort_by_key(|(key, _)| (key.0, key.1.0));
    missing.dedup_by_key(|(key, _)| *key);
    engine.tier.reads.add(&session.shared, missing);
    Ready::Later
}

/// Has `visit` see the keys of a command whose values it needs.
fn visit_needed<'a, E>(
    command: &Command,
    args: Args<'a>,
    mut visit: impl FnMut(&'a [u8]) -> Result<(), E>,
) -> Result<(), E> {
    if command.info.traits.has(Traits::LEAVES_VALUES) {
        return Ok(());
    }
    for position in find_keys(command.info, args).unwrap_or_default() {
        let flags = key_flags(command.info, &position, args);
        let is_replaced = flags.has(KeyFlags::OW) || flags.has(KeyFlags::RM);
        if !is_replaced || flags.has(KeyFlags::ACCESS) {
            visit(args.at(position.index))?;
        }
    }
    Ok(())
}

/// Reads what a command needs and nobody has read ahead of it, with its shards locked. An error says that a
/// value can not be read: then the command is not to run.
#[inline]
pub fn bring(engine: &Engine, access: &Access<'_>, command: &Command, args: Args<'_>) -> Outcome {
    if engine.tier.is_used() { bring_all(access, command, args) } else { Ok(()) }
}

fn bring_all(access: &Access<'_>, command: &Command, args: Args<'_>) -> Outcome {
    visit_needed(command, args, |key| {
        let brought =
            if access.is_locked(key) { access.peek(key).map_or(Ok(()), Entry::bring) } else { Ok(()) };
        brought.map_err(unreadable)
    })
}

/// The error that says why a value can not be read.
fn unreadable(reason: String) -> Error {
    Error::new(format!("ERR {reason}"))
}

/// Adds the keys of a command whose values it needs and that are not in memory.
fn find_missing(
    context: &Context,
    database: usize,
    command: &Command,
    args: Args<'_>,
    missing: &mut Vec<(Key, Cold)>,
) {
    let engine = context.engine;
    // An error is that a slow script has the shard: the call itself says so.
    let _ = visit_needed(command, args, |key| {
        let hash = engine.keyspace.hash(key);
        let index = engine.keyspace.shard_of(hash);
        let locked = lock_one(engine, index, false)?;
        let entry = locked.shard(index).and_then(|shard| shard.databases.get(database)?.get(hash, key));
        let entry = entry.filter(|entry| !entry.has_expired(context.now_ms));
        missing.extend(entry.and_then(Entry::cold_only).map(|cold| ((database, hash), cold)));
        Outcome::Ok(())
    });
}

/// Reads values until the engine ends.
pub fn read_all(engine: &Engine) {
    let reads = &engine.tier.reads;
    while !engine.stopping.load(Ordering::Relaxed) {
        let Some(read) = reads.next() else { continue };
        let failure = bring_copy(engine, &read).err();
        if let Some(reason) = &failure {
            warning!("A value can't be used until it can be read: {reason}");
        }
        for session in reads.end(&read, failure) {
            let target = *session.target.lock();
            engine.send(target.worker, Message::Retry(target.conn));
        }
    }
}

/// Reads a value and puts it beside its record, if the key still has that.
fn bring_copy(engine: &Engine, read: &Read) -> Result<(), String> {
    let value = read.cold.read()?;
    let (database, hash) = read.key;
    let index = engine.keyspace.shard_of(hash);
    let give_up = || engine.stopping.load(Ordering::Relaxed);
    let set = ShardSet::one(index);
    let locked = engine.keyspace.try_lock(set).ok().or_else(|| engine.keyspace.lock_unless(set, give_up));
    let Some(mut locked) = locked else { return Ok(()) };
    let database = locked.shard_mut(index).and_then(|shard| shard.databases.get_mut(database));
    if let Some(database) = database {
        database.keep_otherwise(hash, |_| true, |entry| entry.keep_copy(&read.cold, value));
    }
    Ok(())
}
