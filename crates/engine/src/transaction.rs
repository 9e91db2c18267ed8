//! MULTI, EXEC, DISCARD, WATCH, UNWATCH: queued commands that run as one, over any keys.
//!
//! EXEC locks the union of the shards of all queued commands (all shards, if those of one cannot be told) and
//! runs them one after the other under that one set of locks: no client sees a state in between, whatever the
//! keys.
//!
//! A command may turn out to need values on disk of keys that it has not named. As long as all commands
//! before it only read data or are SELECT, EXEC releases its locks then, and begins anew once the values have
//! been read ([`Rerun`]); what has been counted and shown is not counted and shown again. Behind other
//! commands, and where it has begun anew too often, they are read with the locks held.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_commands::spec::{Flags, Traits};
use mantissa_commands::{Access, Error, Outcome, parse};
use mantissa_protocol::{Args, Reply};
use mantissa_store::series::are_there_links;
use mantissa_store::{Entry, KeyHash, Shard, ShardSet};
use mantissa_sys::simulation::{self, Fault};

use crate::call::{self, Call, Record};
use crate::context::Context;
use crate::engine::Engine;
use crate::invocation::{Command, Handler, Invocation};
use crate::locking::{Wanted, lock, want_held};
use crate::session::{Queued, Rerun, Session, Transaction, Watching, flag};
use crate::{admission, calls};

/// Whether running the command may write: for EXEC, whether any queued command may.
pub fn may_write(engine: &Engine, session: &Session, command: &Command, args: Args<'_>) -> bool {
    match &session.transaction {
        Some(transaction) if command.info.traits.has(Traits::RUNS_QUEUE) => transaction
            .queue
            .iter()
            .any(|queued| admission::may_replicate(engine, queued.command, queued.args.as_args())),
        _ => admission::may_replicate(engine, command, args),
    }
}

/// Queues a command inside MULTI.
pub fn queue(session: &mut Session, command: &'static Command, args: Args<'_>, reply: &mut Reply) {
    let Some(transaction) = &mut session.transaction else { return };
    let args = args.to_owned();
    transaction.argument_bytes += args.as_args().iter().map(<[u8]>::len).sum::<usize>();
    transaction.bytes += size_of::<Queued>() + args.memory_usage();
    transaction.queue.push(Queued { command, args });
    session.shared.queued_plus_1.store(transaction.queue.len() as u32 + 1, Ordering::Relaxed);
    session.shared.transaction_bytes.store(transaction.bytes as u64, Ordering::Relaxed);
    reply.simple("QUEUED");
}

/// MULTI.
pub fn multi(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    if invocation.session.transaction.is_some() {
        return Err(Error::fixed("ERR MULTI calls can not be nested"));
    }
    invocation.session.transaction = Some(Box::<Transaction>::default());
    invocation.session.shared.queued_plus_1.store(1, Ordering::Relaxed);
    invocation.session.shared.mark(flag::MULTI, true);
    reply.ok();
    Ok(())
}

/// DISCARD.
pub fn discard(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    if invocation.session.transaction.is_none() {
        return Err(Error::fixed("ERR DISCARD without MULTI"));
    }
    end(invocation.context, invocation.session);
    reply.ok();
    Ok(())
}

/// Leaves MULTI, if inside, and forgets all watched keys.
pub fn end(context: &Context, session: &mut Session) {
    session.transaction = None;
    session.shared.queued_plus_1.store(0, Ordering::Relaxed);
    session.shared.transaction_bytes.store(0, Ordering::Relaxed);
    session.shared.mark(flag::MULTI, false);
    unwatch_all(context, session);
}

/// EXEC.
pub fn exec(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let Some(transaction) = invocation.session.transaction.take() else {
        return Err(Error::fixed("ERR EXEC without MULTI"));
    };
    if transaction.aborted {
        end(invocation.context, invocation.session);
        return Err(Error::fixed("EXECABORT Transaction discarded because of previous errors."));
    }
    invocation.context.unit_time_us = None;
    let outcome = run_all(invocation.context, invocation.session, &transaction, reply);
    if invocation.session.rerun.has_unread() {
        invocation.session.transaction = Some(transaction);
        return outcome;
    }
    end(invocation.context, invocation.session);
    outcome
}

/// What a transaction needs locked.
fn wanted_by_all(context: &Context, session: &Session, transaction: &Transaction) -> Wanted {
    let engine = context.engine;
    let mut wanted = Wanted::default();
    for queued in &transaction.queue {
        want_held(engine, queued.command, queued.args.as_args(), &mut wanted);
    }
    for (_, key) in session.watching.iter().flat_map(|watching| &watching.keys) {
        wanted.shards.insert(engine.keyspace.shard_of(engine.keyspace.hash(key)));
    }
    wanted
}

fn run_all(
    context: &mut Context,
    session: &mut Session,
    transaction: &Transaction,
    reply: &mut Reply,
) -> Outcome {
    let had_links = are_there_links();
    let wanted = wanted_by_all(context, session, transaction);
    let writes = transaction.queue.iter().any(|queued| queued.command.info.flags.has(Flags::WRITE));
    if simulation::has_fault(Fault::SplitTransaction) {
        return run_apart(context, session, transaction, &wanted, reply);
    }
    let is_done = call::with_held(context, session, &wanted, writes, |context, session, access| {
        if !had_links && are_there_links() {
            return false;
        }
        if is_dirty(session, access) {
            reply.null_array();
            return true;
        }
        reply.array(transaction.queue.len());
        run_queue(context, session, access, &transaction.queue, reply);
        true
    })?;
    // The first link of all was made meanwhile, and the shards may not be all that are needed.
    if is_done { Ok(()) } else { run_all(context, session, transaction, reply) }
}

/// Runs the commands of a queue, or leaves all of them to be run again, with nothing changed.
fn run_queue(
    context: &mut Context,
    session: &mut Session,
    access: &mut Access<'_>,
    queue: &[Queued],
    reply: &mut Reply,
) {
    // A script among them has calls of its own.
    let (database, called) = (session.database, std::mem::take(&mut session.rerun.called));
    let mut may_leave = session.rerun.is_possible() && session.rerun.count < Rerun::TRANSACTION_COUNT_MAX;
    for (index, queued) in queue.iter().enumerate() {
        access.set_place(index);
        access.leave_unread(may_leave && matches!(queued.command.handler, Some(Handler::Data(_))));
        run_one(context, session, access, (queued, index >= called), reply);
        if session.rerun.has_unread() {
            session.select(database);
            session.rerun.called = called.max(index);
            return;
        }
        may_leave = may_leave && is_repeatable(queued);
    }
    access.leave_unread(false);
}

/// Whether a command has no effect beyond its reply but which database is selected.
fn is_repeatable(queued: &Queued) -> bool {
    let flags = queued.command.info.flags;
    match queued.command.handler {
        Some(Handler::Data(_)) => !(flags.has(Flags::WRITE) || flags.has(Flags::MAY_REPLICATE)),
        _ => parse::is(queued.args.as_args().at(0), "SELECT"),
    }
}

/// Runs each command under locks of its own: [`Fault::SplitTransaction`].
fn run_apart(
    context: &mut Context,
    session: &mut Session,
    transaction: &Transaction,
    wanted: &Wanted,
    reply: &mut Reply,
) -> Outcome {
    if call::with_held(context, session, wanted, true, |_, session, access| is_dirty(session, access))? {
        reply.null_array();
        return Ok(());
    }
    reply.array(transaction.queue.len());
    transaction.queue.iter().try_for_each(|queued| {
        call::with_held(context, session, wanted, true, |context, session, access| {
            run_one(context, session, access, (queued, true), reply);
        })
    })
}

/// Whether a watched key has changed, or has expired since it was watched.
fn is_dirty(session: &Session, access: &mut Access<'_>) -> bool {
    let Some(watching) = &session.watching else { return false };
    let (keyspace, now_ms) = (access.keyspace(), access.now_ms());
    let mut has_expired_since = |database: usize, key: &[u8]| {
        let hash = keyspace.hash(key);
        let shard = access.locked_mut().shard(keyspace.shard_of(hash));
        shard.is_some_and(|shard| {
            has_expired(shard, database, (hash, key), now_ms)
                && !shard.watches_expired(database, key, &watching.dirty)
        })
    };
    watching.dirty.load(Ordering::Acquire)
        || watching.keys.iter().any(|(database, key)| has_expired_since(*database, key))
}

/// Whether a key exists and has expired.
fn has_expired(shard: &Shard, database: usize, (hash, key): (KeyHash, &[u8]), now_ms: i64) -> bool {
    let entry = shard.databases[database].get(hash, key);
    entry.and_then(Entry::expiry).is_some_and(|time| time <= now_ms)
}

fn run_one(
    context: &mut Context,
    session: &mut Session,
    access: &mut Access<'_>,
    (queued, is_counted): (&Queued, bool),
    reply: &mut Reply,
) {
    let start = reply.len();
    let args = queued.args.as_args();
    if let Err(error) = admission::of_queued(context, session, queued.command, args, is_counted) {
        if is_counted {
            calls::rejected(context, None, &error);
        }
        return reply.error_bytes(error.bytes());
    }
    let record = Record { is_logged: true, is_counted };
    let outcome = call::run_held(context, session, access, Call::new(queued.command, args), record, reply);
    call::write_outcome(reply, start, &outcome);
}

/// WATCH.
pub fn watch(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if invocation.session.transaction.is_some() {
        return Err(Error::fixed("ERR WATCH inside MULTI is not allowed"));
    }
    let database = invocation.session.database;
    let mut watching = invocation.session.watching.take().unwrap_or_default();
    let mut outcome = Ok(());
    if !watching.dirty.load(Ordering::Acquire) {
        for key in args.from(1) {
            if !watching.keys.contains(&(database, Box::from(key))) {
                outcome = outcome.and_then(|()| watch_key(invocation, &mut watching, key));
            }
        }
    }
    invocation.session.shared.watched_count.store(watching.keys.len() as u32, Ordering::Relaxed);
    *invocation.session.shared.watch_dirty.lock() = Some(Arc::clone(&watching.dirty));
    invocation.session.watching = Some(watching);
    outcome?;
    reply.ok();
    Ok(())
}

fn watch_key(invocation: &mut Invocation<'_, '_, '_>, watching: &mut Watching, key: &[u8]) -> Outcome {
    let engine = invocation.engine();
    let hash = engine.keyspace.hash(key);
    let index = engine.keyspace.shard_of(hash);
    let database = invocation.session.database;
    let mut locked = lock(engine, ShardSet::one(index), false)?;
    if let Some(shard) = locked.shard_mut(index) {
        let expired = has_expired(shard, database, (hash, key), invocation.context.now_ms);
        shard.watch(database, key, Arc::clone(&watching.dirty), expired);
        watching.keys.insert((database, key.into()));
        let bytes = (size_of::<(usize, Box<[u8]>)>() + key.len()) as u64;
        invocation.session.shared.watched_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
    Ok(())
}

/// UNWATCH.
pub fn unwatch(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    // Inside EXEC the watched keys have been checked; they are forgotten when it ends.
    if !invocation.in_transaction() {
        unwatch_all(invocation.context, invocation.session);
    }
    reply.ok();
    Ok(())
}

/// Forgets all watched keys. No shard may be locked.
pub fn unwatch_all(context: &Context, session: &mut Session) {
    let Some(watching) = session.watching.take() else { return };
    forget_watched(context.engine, *watching);
    session.shared.watched_count.store(0, Ordering::Relaxed);
    session.shared.watched_bytes.store(0, Ordering::Relaxed);
    *session.shared.watch_dirty.lock() = None;
}

/// Takes watched keys out of their shards, later if a slow script holds one of them.
fn forget_watched(engine: &Engine, watching: Watching) {
    for (database, key) in &watching.keys {
        let index = engine.keyspace.shard_of(engine.keyspace.hash(key));
        let Ok(mut locked) = lock(engine, ShardSet::one(index), false) else {
            return engine.postpone(move |engine| forget_watched(engine, watching));
        };
        if let Some(shard) = locked.shard_mut(index) {
            shard.unwatch(*database, key, &watching.dirty);
        }
    }
}
