//! Reading what a request needs before it runs.
//!
//! A request whose keys have values on disk is held back, as CLIENT PAUSE holds requests back, and its values
//! are read by other threads without any lock. When all are in memory its worker executes it from its
//! beginning. A value may have left memory again by then: after [`FETCHES_MAX`] attempts the request runs all
//! the same and reads what is missing itself.
//!
//! Requests that need the same value share one read. A value that can not be read is an error for those who
//! need it, and is tried again after a second.
//!
//! A command that reads a part of a string ([`mantissa_commands::Info::part_of`]) waits for that part alone.
//! So does one that reads some elements of a collection ([`mantissa_commands::Info::elements_of`]), where the
//! file finds these. The part goes to the session, which lends it to the command; the value stays where it
//! is. It is of one record: if the value is not in that any more when the request runs again, the request
//! begins anew. Transactions and scripts read values whole.
//!
//! Some keys are found by running: those that a script does not declare, and those of SORT's patterns. A run
//! that meets such a value on disk ends, if it has changed nothing yet, and begins anew once the value has
//! been read ([`Rerun`]), [`Rerun::COUNT_MAX`] times at most. So do commands that find time series by their
//! labels, and transactions with such commands. Where these need many series, they are read for the request
//! alone ([`Batch`]): the reading thread takes from each what the command asks for, and memory need not have
//! room for more.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_commands::spec::{KeyFlags, Traits};
use mantissa_commands::{
    Access, AccessClock, Error, Outcome, Unread, find_keys, key_flags, parse, restored_clock,
};
use mantissa_protocol::Args;
use mantissa_store::cold::Cold;
use mantissa_store::{Entry, KeyHash, ShardSet};
use mantissa_sys::clock::unix_ms;

use super::offload;
use crate::admission;
use crate::context::Context;
use crate::engine::Engine;
use crate::host::Message;
use crate::invocation::Command;
use crate::locking::lock_one;
use crate::memory_limit::Lease;
use crate::session::{Rerun, Session};
use crate::state::tier::{Asked, Batch, BatchState, Key, PartRead, Read, Waiter};
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
    // Others than the readers have requests tried again too.
    if session.waiting.as_ref().is_some_and(|waiting| waiting.is_waiting()) && !engine.scripting.is_busy() {
        return Ready::Later;
    }
    session.waiting = None;
    if let Some((batch, _)) = session.rerun.batch.take() {
        let lent = session.rerun.lent.get_or_insert_default();
        match batch.collect(lent) {
            Ok(lease) => session.rerun.leases.push(lease),
            // The other commands of a transaction run.
            Err(error) if command.info.traits.has(Traits::RUNS_QUEUE) => lent.refuse(batch.place(), error),
            Err(error) => {
                session.rerun = Rerun::default();
                return Ready::Never(error);
            }
        }
    }
    let info = command.info;
    let now_ms = context.now_ms;
    if offload::has_to_wait(engine, context.active.config.maxmemory)
        && admission::may_add(engine, session, command, args)
    {
        return Ready::Later;
    }
    match find_missing_part(context, session, command, args) {
        Missing::Nothing => {
            (session.fetches, session.part) = (0, None);
            return Ready::Now;
        }
        Missing::Part(missing, bytes) => {
            if let Some(ready) = prepare_part(context, session, missing, bytes) {
                return ready;
            }
        }
        Missing::Any => {}
    }
    session.part = None;
    let mut missing = Vec::new();
    if info.traits.has(Traits::RUNS_QUEUE) {
        let mut database = session.database;
        for queued in session.transaction.iter().flat_map(|transaction| &transaction.queue) {
            let args = queued.args.as_args();
            database = database_after(args, database);
            find_missing(engine, (database, now_ms), queued.command, args, &mut missing);
        }
    } else {
        find_missing(engine, (session.database, now_ms), command, args, &mut missing);
    }
    if missing.is_empty() || session.fetches >= FETCHES_MAX {
        session.fetches = 0;
        return Ready::Now;
    }
    if let Some(reason) = engine.tier.reads.failure(&missing) {
        return Ready::Never(Error::unreadable(reason));
    }
    session.fetches += 1;
    read(context, session, missing);
    Ready::Later
}

/// Sees to it that the session gets a part of a record, of about so many bytes. `None` if all of it has to be
/// read.
fn prepare_part(
    context: &Context,
    session: &mut Session,
    (cold, asked): (Cold, Asked),
    bytes: usize,
) -> Option<Ready> {
    let reads = &context.engine.tier.reads;
    let failure = match session.part.as_ref().filter(|part| part.is_of(&cold, &asked)) {
        Some(part) => match part.outcome() {
            None => return Some(Ready::Later),
            Some(Ok(None)) => return None,
            Some(Ok(Some(_))) => {
                session.fetches = 0;
                return Some(Ready::Now);
            }
            Some(Err(reason)) => Some(reason.to_owned()),
        },
        None => reads.part_failure(&cold, &asked),
    };
    if let Some(reason) = failure {
        return Some(Ready::Never(Error::unreadable(reason)));
    }
    if bytes == 0 {
        // The disk has nothing to do.
        let part = PartRead::new((cold, asked), bytes);
        let is_there = part.run().is_ok() && part.part().is_some();
        (session.fetches, session.part) = (0, Some(part));
        return is_there.then_some(Ready::Now);
    }
    if session.fetches >= FETCHES_MAX {
        (session.fetches, session.part) = (0, None);
        return Some(Ready::Now);
    }
    session.fetches += 1;
    session.part = Some(reads.add_part(&session.shared, (cold, asked), bytes));
    Some(Ready::Later)
}

/// What a request needs of values that are not in memory.
enum Missing {
    /// Nothing.
    Nothing,
    /// A part of the value at its only key, of about so many bytes.
    Part((Cold, Asked), usize),
    /// Whole values, if any.
    Any,
}

/// The part of the value at a command's key that it needs, where it needs no more.
fn find_missing_part(context: &Context, session: &Session, command: &Command, args: Args<'_>) -> Missing {
    let (part_of, elements_of) = (command.info.part_of, command.info.elements_of);
    let Some(key) = args.get(1).filter(|_| part_of.is_some() || elements_of.is_some()) else {
        return Missing::Any;
    };
    let (engine, settings) = (context.engine, &context.active.settings);
    let missing = with_entry(engine, session.database, (engine.keyspace.hash(key), key), |entry| {
        let cold = entry.cold_only().filter(|_| !entry.has_expired(context.now_ms))?;
        let text = part_of.zip(entry.cold_text_len());
        let Some((part_of, len)) = text else { return Some((cold, None)) };
        Some((cold, part_of(args, settings, len as u64)))
    });
    let Ok(Some(Some((cold, range)))) = missing else { return Missing::Nothing };
    let part = match range {
        Some(range) if range.is_empty() => return Missing::Nothing,
        Some(range) => {
            let range = cold.place().blocks_of(range.start as usize..range.end as usize);
            range.map(|range| (range.len(), Asked::Bytes(range)))
        }
        None => elements_of.filter(|_| cold.finds_elements()).and_then(|elements_of| {
            let elements = elements_of(args)?;
            Some((cold.bytes_of_elements(&elements)?, Asked::Elements(elements)))
        }),
    };
    part.map_or(Missing::Any, |(bytes, asked)| Missing::Part((cold, asked), bytes))
}

/// The database that is selected once a command has run in `database`, if it is one that is there.
pub fn database_after(args: Args<'_>, database: usize) -> usize {
    let number = args.get(1).filter(|_| parse::is(args.at(0), "SELECT")).and_then(mantissa_number::parse_i64);
    number.and_then(|number| usize::try_from(number).ok()).unwrap_or(database)
}

/// Has `visit` see the keys of a command whose values it needs.
pub(super) fn visit_needed<'a, E>(
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
    if let (Some(part_of), Some(key)) = (command.info.part_of, args.get(1))
        && access.has_part(key, |len| part_of(args, access.settings(), len))
    {
        return Ok(());
    }
    if let (Some(elements_of), Some(key)) = (command.info.elements_of, args.get(1))
        && access.has_elements(key, || elements_of(args))
    {
        return Ok(());
    }
    visit_needed(command, args, |key| {
        let brought =
            if access.is_locked(key) { access.peek(key).map_or(Ok(()), Entry::bring) } else { Ok(()) };
        brought.map_err(Error::unreadable)?;
        // On a replica nothing that a command leads to may fail.
        if access.is_applied() && command.info.traits.has(Traits::FOLLOWS_LINKS) && access.is_locked(key) {
            mantissa_commands::bring_links_of(access, key)?;
        }
        Ok(())
    })
}

/// Adds the keys of a command whose values it needs and that are not in memory.
fn find_missing(
    engine: &Engine,
    (database, now_ms): (usize, i64),
    command: &Command,
    args: Args<'_>,
    missing: &mut Vec<(Key, Cold)>,
) {
    // An error is that a slow script has the shard: the call itself says so.
    let _ = visit_needed(command, args, |key| {
        let hash = engine.keyspace.hash(key);
        let entry_of = |entry: &Entry| if entry.has_expired(now_ms) { None } else { entry.cold_only() };
        let cold = with_entry(engine, database, (hash, key), entry_of)?;
        missing.extend(cold.flatten().map(|cold| ((database, hash), cold)));
        Outcome::Ok(())
    });
}

/// Has `see` see the entry of a key with its shard locked. `None` if there is no such key; an error says that
/// a slow script has the shard.
pub(super) fn with_entry<R>(
    engine: &Engine,
    database: usize,
    (hash, key): (KeyHash, &[u8]),
    see: impl FnOnce(&Entry) -> R,
) -> Outcome<Option<R>> {
    let index = engine.keyspace.shard_of(hash);
    let locked = lock_one(engine, index, false)?;
    let entry = locked.shard(index).and_then(|shard| shard.databases.get(database)?.get(hash, key));
    Ok(entry.map(see))
}

/// The values that a command of a script needs and that are not in memory, if they can be read before the
/// script runs again.
pub fn find_unread(engine: &Engine, access: &Access<'_>, command: &Command, args: Args<'_>) -> Vec<Unread> {
    let mut unread = Vec::new();
    let _: Outcome = visit_needed(command, args, |key| {
        let entry = if access.is_locked(key) { access.peek(key) } else { None };
        let key = (access.database(), engine.keyspace.hash(key));
        unread.extend(entry.and_then(Entry::cold_only).map(|cold| (key, cold)));
        Ok(())
    });
    if engine.tier.reads.failure(&unread).is_some() {
        unread.clear();
    }
    unread
}

/// Has the session's request begin anew once the values have been read that it turned out to need, if it did.
/// An error says why one can not be read.
#[cold]
pub fn take_unread(
    engine: &Engine,
    session: &mut Session,
    access: &mut Access<'_>,
    outcome: Outcome,
) -> Outcome {
    let Some((unread, for_request)) = access.take_unread() else { return outcome };
    if let Some(reason) = engine.tier.reads.failure(&unread) {
        return Err(Error::unreadable(reason));
    }
    (session.rerun.unread, session.rerun.for_request) = (unread, for_request);
    Ok(())
}

/// Lets the session's request end to begin anew, if it has not done so too often.
#[cold]
pub fn allow_rerun(context: &mut Context, session: &mut Session) {
    session.rerun.is_noted = true;
    context.collected.leaves_unread = session.rerun.is_possible();
}

/// Whether the session's request has ended to begin anew, which it does when [`Message::Retry`] comes.
#[cold]
pub fn is_to_rerun(context: &mut Context, session: &mut Session) -> bool {
    context.collected.leaves_unread = false;
    if !session.rerun.has_unread() {
        session.rerun = Rerun::default();
        return false;
    }
    let unread = std::mem::take(&mut session.rerun.unread);
    let for_request = session.rerun.for_request.take();
    session.rerun.is_noted = false;
    session.rerun.count += 1;
    if let Some(for_request) = for_request {
        let readers = context.active.config.tier_threads.div_ceil(2) as usize;
        let (request, lease) = (Arc::new(()), Lease::new(&context.engine.pressure));
        let batch = Batch::new(for_request, lease, &request, readers);
        session.waiting = Some(context.engine.tier.reads.add_batch(&session.shared, &batch, readers));
        session.rerun.batch = Some((batch, request));
    } else {
        read(context, session, unread);
    }
    true
}

/// Has values read for the session's request.
fn read(context: &Context, session: &mut Session, unread: Vec<Unread>) {
    let waiter = Waiter::Request(Arc::clone(&session.shared));
    session.waiting = Some(context.engine.tier.reads.add(waiter, unread));
}

/// Reads values until the engine ends.
pub fn read_all(engine: &Engine) {
    let reads = &engine.tier.reads;
    while !engine.stopping.load(Ordering::Relaxed) {
        let Some(read) = reads.next() else { continue };
        // What panics has failed: nobody may wait for it for ever.
        let run = |work: &dyn Fn() -> Result<(), String>| {
            let outcome = std::panic::catch_unwind(AssertUnwindSafe(work));
            outcome.unwrap_or_else(|_| Err("reading it has panicked".to_owned()))
        };
        let outcome = match &read {
            Read::Value(key, cold) => run(&|| bring_copy(engine, *key, cold)),
            // It goes to those who wait for it.
            Read::Part(part) => run(&|| part.run()).inspect_err(|reason| part.fail(reason)),
            Read::Batch(batch) => match batch.read_some() {
                BatchState::Read => Ok(()),
                BatchState::LeftToOthers => continue,
                BatchState::Unfinished => {
                    reads.go_on(read);
                    continue;
                }
            },
        };
        let failure = outcome.err();
        if let Some(reason) = failure.as_ref().filter(|_| reads.warns()) {
            warning!("A value can't be used until it can be read: {reason}");
        }
        for waiting in reads.end(&read, failure) {
            match &waiting.waiter {
                Waiter::Request(session) => {
                    let target = *session.target.lock();
                    engine.send(target.worker, Message::Retry(target.conn));
                }
                Waiter::Thread(thread) => thread.unpark(),
            }
        }
    }
}

/// Reads a value and puts it beside its record, if the key still has that.
fn bring_copy(engine: &Engine, (database, hash): Key, cold: &Cold) -> Result<(), String> {
    // What is left of it is freed with nothing locked.
    let mut value = Some(cold.read()?);
    let index = engine.keyspace.shard_of(hash);
    let clock = engine.active_config().settings.access_clock;
    let give_up = || engine.stopping.load(Ordering::Relaxed);
    let locked = engine.keyspace.lock_or_give_up(ShardSet::one(index), give_up);
    let Some(mut locked) = locked else { return Ok(()) };
    let database = locked.shard_mut(index).and_then(|shard| shard.databases.get_mut(database));
    if let Some(database) = database {
        database.keep_otherwise(
            hash,
            |_| true,
            |entry| {
                entry.keep_copy(cold, &mut value);
                // It is not to leave memory again before the request runs, which touches it too.
                if value.is_none() && matches!(clock, AccessClock::LeastRecentlyUsed) {
                    entry.set_clock(restored_clock(clock, Some(0), None, unix_ms()));
                }
            },
        );
    }
    Ok(())
}
