//! Running a command. All callers take the same steps:
//!
//! | step | a client's request | in a transaction or script | from a log |
//! | --- | --- | --- | --- |
//! | [admission](crate::admission) | `of_request` | `of_queued`, `of_script` | only the number of arguments |
//! | locks | the call's own | those of the transaction or script | its own, or those of the load |
//! | handler | [`invoke`] | [`invoke`] | [`invoke`] |
//! | [commit](crate::commit) | at once | at once; the log and blocked clients at the end | at once |
//! | [accounting](crate::calls) | when it ends | when it ends | none |
//!
//! A request that may [read much](mantissa_commands::spec::Info::reads_much) leaves its handler where that
//! meets a large value. What the lookup has caused is committed, the shard unlocked, and the handler runs
//! again on an image of the value. In transactions and scripts it runs under their locks. A caller that sends
//! the reply while it is being written runs that part itself ([`read_left_image`]).
//!
//! A request that has long to search before it changes a value [leaves that](mantissa_commands::Work) in the
//! same way. It is done on the image, and the request [begins anew](crate::execute), with its admission.
//!
//! A request that turns out to need values on disk ends before it has changed anything, and is run again from
//! its beginning once they have been read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_commands::spec::{Flags, Traits};
use mantissa_commands::{
    Access, CARRIED_AT, Collected, DataHandler, Error, Lent, Locks, Mode, Outcome, find_keys,
};
use mantissa_protocol::{Args, Reply};
use mantissa_store::{Entry, KeyHash, LockedShards};
use mantissa_sys::{QuickInstant, simulation};

use crate::commit::commit;
use crate::context::Context;
use crate::engine::Engine;
use crate::image::Image;
use crate::invocation::{Command, Handler, Invocation};
use crate::locking::{Wanted, lock, lock_keys, lock_linked, lock_one, lock_wanted};
use crate::session::Session;
use crate::state::tier::PartRead;
use crate::tier::fetch;
use crate::{admission, blocking, calls, expiry, lazy_free, monitor, nested_loop, tracking};

/// A command with its arguments.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The command.
    pub command: &'static Command,
    /// Its arguments, with its name.
    pub args: Args<'a>,
    /// The hash of its first key, if that has been computed.
    pub hash: Option<KeyHash>,
}

impl<'a> Call<'a> {
    /// A call of a command.
    pub fn new(command: &'static Command, args: Args<'a>) -> Self {
        Call { command, args, hash: None }
    }

    /// Whether the command visits shards other than those of its keys. It must not run beside a slow script.
    fn sweeps(&self) -> bool {
        self.command.info.locks == Locks::Sweep || self.command.info.traits.has(Traits::WAITS_FOR_SHARDS)
    }
}

/// How a call of a transaction or a script is recorded.
#[derive(Clone, Copy)]
pub struct Record {
    /// Its changes are appended to the log.
    pub is_logged: bool,
    /// It is counted and shown to monitors. False when a script that was restarted repeats a call.
    pub is_counted: bool,
}

/// Runs a client's request that has been admitted, and replies, unless it is to be run again
/// ([`crate::session::Rerun`]), was put off, or has left an image.
pub fn run_request(context: &mut Context, session: &mut Session, call: Call<'_>, reply: &mut Reply) {
    let (start, logged_lsn) = (reply.len(), context.outbox.logged_lsn);
    let sweep = if call.sweeps() { Some(context.engine.scripting.begin_sweep()) } else { None };
    let outcome = match sweep {
        Some(Err(_)) => Err(context.engine.scripting.busy_error()),
        _ => invoke(context, session, call, None, reply),
    };
    drop(sweep);
    if session.rerun.is_noted && session.rerun.has_unread() {
        context.image = None;
        return;
    }
    if context.outbox.logged_lsn != logged_lsn {
        session.logged_lsn = context.outbox.logged_lsn;
    }
    if context.image.is_none() {
        request_ended(context, session, call, &outcome, (reply, start));
    }
}

/// Ends a request that has left an image: reads it, and replies. Returns its command, and false if it has
/// failed when a part of the reply had left.
pub fn read_left_image(
    context: &mut Context,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut Reply,
) -> Option<(&'static Command, bool)> {
    let image = context.image.take()?;
    let command = context.resolve(args).ok()?;
    let Some(Handler::Data(handler)) = command.handler else { return None };
    let (start, served_ns) = (reply.len(), nested_loop::served_ns());
    let outcome = read_image(context, session, args, handler, image, reply);
    // Time for others is none of its own.
    context.command_began = context.command_began.later_by(nested_loop::served_ns() - served_ns);
    let is_whole = outcome.is_ok() || !reply.has_streamed();
    request_ended(context, session, Call::new(command, args), &outcome, (reply, start));
    Some((command, is_whole))
}

/// What follows when a request has run.
#[inline]
fn request_ended(
    context: &mut Context,
    session: &mut Session,
    call: Call<'_>,
    outcome: &Outcome,
    (reply, start): (&mut Reply, usize),
) {
    show(context, session, call);
    write_outcome(reply, start, outcome);
    match &session.blocked {
        None => {
            calls::ended(context, session, (call.command, call.args), outcome);
            // A reply that has become too long is gone.
            let bytes = reply.written().saturating_sub(start);
            calls::replied(context, session, (call.command, call.args), bytes);
        }
        Some(blocked) => calls::waits(context, blocked),
    }
}

/// Runs an admitted call of a transaction or a script under the locks of `access`. An error is for the caller
/// to reply. If the call has left values to be read ([`Access::leave_unread`]), the session's request is to
/// begin anew, and the call is not recorded.
pub fn run_held(
    context: &mut Context,
    session: &mut Session,
    access: &mut Access<'_>,
    call: Call<'_>,
    record: Record,
    reply: &mut Reply,
) -> Outcome {
    access.select(session.database);
    let mut outcome = invoke(context, session, call, Some(access), reply);
    if access.leaves_unread() {
        outcome = fetch::take_unread(context.engine, session, access, outcome);
        if session.rerun.has_unread() {
            return outcome;
        }
    }
    if record.is_counted {
        show(context, session, call);
    } else {
        access.forget_lookups();
    }
    if !record.is_logged {
        access.discard_log();
    }
    commit_held(context, session, access, call);
    if record.is_counted {
        calls::ended(context, session, (call.command, call.args), &outcome);
    } else {
        // Its time is no part of the next call's.
        (context.has_failed, context.command_began) = (false, QuickInstant::now());
    }
    outcome
}

/// Runs a command of the log while it is loaded. Nothing is counted or logged.
pub fn replay(
    context: &mut Context,
    session: &mut Session,
    access: Option<&mut Access<'_>>,
    call: Call<'_>,
) -> Outcome {
    let mut reply = Reply::new(session.protocol);
    let Some(access) = access else { return invoke(context, session, call, None, &mut reply) };
    access.select(session.database);
    let outcome = invoke(context, session, call, Some(access), &mut reply);
    let to_free = commit(context.engine, &mut context.outbox, access, None, true);
    lazy_free::free(context.engine, to_free);
    outcome
}

/// Runs the handler of a call. Without `access`, a handler on data first locks the shards of its keys, and
/// its changes are committed.
pub fn invoke(
    context: &mut Context,
    session: &mut Session,
    call: Call<'_>,
    access: Option<&mut Access<'_>>,
    reply: &mut Reply,
) -> Outcome {
    if !session.user.is_unrestricted() {
        admission::check_options(session, call.command, call.args)?;
    }
    match (call.command.handler, access) {
        (Some(Handler::Data(handler)), None) => run_data(context, session, call, handler, reply),
        (Some(Handler::Data(handler)), Some(access)) => {
            fetch::bring(context.engine, access, call.command, call.args)?;
            let outcome = handler(access, call.args, reply);
            outcome_of_found(session, call, access, outcome)
        }
        (Some(Handler::Engine(handler)), access) => {
            handler(&mut Invocation { context, session, access }, call.args, reply)
        }
        (None, _) => Err(Error::arity(&call.command.name)),
    }
}

/// Runs a handler on data for a command of the engine, which has added to the arguments what its session
/// knows. The keys are where they were among the arguments.
pub fn run_on_data(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    handler: DataHandler,
    reply: &mut Reply,
) -> Outcome {
    let command = invocation.context.resolve(args)?;
    match &mut invocation.access {
        None => run_data(invocation.context, invocation.session, Call::new(command, args), handler, reply),
        Some(access) => {
            fetch::bring(invocation.context.engine, access, command, args)?;
            handler(access, args, reply)
        }
    }
}

/// Locks the shards of a command, given the hash of its only key.
#[inline]
fn lock_for<'e>(
    engine: &'e Engine,
    database: usize,
    (command, args): (&Command, Args<'_>),
    only_key: Option<KeyHash>,
) -> Outcome<LockedShards<'e>> {
    let may_write = command.info.flags.has(Flags::WRITE);
    let locked = match only_key {
        Some(hash) => lock_one(engine, engine.keyspace.shard_of(hash), may_write)?,
        None => lock_keys(engine, database, (command, args), may_write)?,
    };
    if !command.info.traits.has(Traits::FOLLOWS_LINKS) {
        return Ok(locked);
    }
    let again = |shards| lock(engine, shards, may_write);
    lock_linked(engine, locked, (command, args, database), again)
}

/// Runs a command on data that locks its own shards.
fn run_data(
    context: &mut Context,
    session: &mut Session,
    call: Call<'_>,
    handler: DataHandler,
    reply: &mut Reply,
) -> Outcome {
    let Call { command, args, hash } = call;
    let engine = context.engine;
    let only_key = if command.has_one_key { args.get(1) } else { None };
    let hint = only_key.map(|key| (key, hash.unwrap_or_else(|| engine.keyspace.hash(key))));
    let locked = lock_for(engine, session.database, (command, args), hint.map(|(_, hash)| hash))?;
    let keeps_lock = std::mem::take(&mut context.keeps_lock) && command.info.flags.has(Flags::FAST);
    let is_replayed = context.is_loading;
    let read = session.rerun.is_noted.then(|| (session.part.take(), session.rerun.lent.take()));
    let Context { active, now_ms, random_state, collected, outbox, puts_off_images, .. } = context;
    let mode = mode_of_request(session, call, is_replayed);
    let start = reply.len();
    let mut access =
        Access::new(locked, session.database, *now_ms, &active.settings, mode, random_state, collected);
    if is_replayed {
        access.begin_loading();
    }
    if let Some((key, hash)) = hint {
        access.hint(key, hash);
    }
    if let Some((part, lent)) = &read {
        access.lend_part(part.as_ref().and_then(|part| part.part()));
        access.lend_values(lent.as_deref());
    }
    let brought = fetch::bring(engine, &access, command, args);
    let outcome = brought.and_then(|()| handler(&mut access, args, reply));
    let mut outcome = outcome_of_found(session, call, &mut access, outcome);
    if session.rerun.is_noted {
        outcome = fetch::take_unread(engine, session, &mut access, outcome);
    }
    if access.wants_to_wait() {
        blocking::block(engine, session, command, args, &mut access);
    }
    let image = match access.wants_image() {
        true => image(engine, &mut access, call, read.as_ref(), *puts_off_images),
        false => None,
    };
    let sweeps = command.info.locks == Locks::Sweep;
    let expired = sweeps.then(|| access.take_expired_elsewhere());
    let logged = if is_replayed { None } else { Some((session.database, args)) };
    let to_free = commit(engine, outbox, &mut access, logged, true);
    if sweeps && outbox.holds_replies() {
        outbox.required_lsn = engine.log.end();
    }
    if session.remembers_reads() {
        let keys_max = active.config.tracking_table_max_keys;
        tracking::remember(outbox, &mut access, &session.shared, command, args, keys_max);
    }
    if keeps_lock && image.is_none() {
        access.locked_mut().keep();
        context.has_kept_lock = true;
    }
    drop(access);
    session.rerun.lent = read.and_then(|(_, lent)| lent);
    lazy_free::free(engine, to_free);
    if let Some(expired) = expired.filter(|expired| !expired.is_empty()) {
        expiry::remove(context, expired);
    }
    let Some(image) = image else { return outcome };
    reply.truncate(start);
    read_or_leave(context, session, args, handler, image, reply)
}

#[inline]
fn mode_of_request(session: &Session, call: Call<'_>, is_replayed: bool) -> Mode {
    Mode {
        may_block: !is_replayed,
        serving: false,
        no_touch: session.no_touch,
        leaves_large: call.command.info.reads_much.is_some() && reads_much(call.command, call.args),
    }
}

/// Whether a call, also one that another command carries, may read much of a value.
pub(crate) fn reads_much(command: &Command, args: Args<'_>) -> bool {
    let own = if command.carries.is_some() { args.from(CARRIED_AT) } else { args };
    command.info.reads_much.is_some_and(|reads_much| reads_much(own))
}

/// What was read from disk before a request runs: a part of the value at its only key, and whole values.
type ReadBefore = (Option<Arc<PartRead>>, Option<Box<Lent>>);

/// Images of the values at the keys of a call, with what was read of the only one if it is on disk.
#[cold]
fn image(
    engine: &Engine,
    access: &mut Access<'_>,
    call: Call<'_>,
    read: Option<&ReadBefore>,
    puts_off: bool,
) -> Option<Image> {
    let (work, has_long_reply) = (access.take_work(), access.has_long_reply());
    let positions = find_keys(call.command.info, call.args).ok()?;
    let mut keys = positions.into_iter().map(|position| call.args.at(position.index));
    let entry = keys.find_map(|key| access.peek(key))?.image();
    let mut others: Vec<Entry> = keys.filter_map(|key| access.peek(key)).map(Entry::image).collect();
    others.sort_unstable_by(|one, other| one.key().cmp(other.key()));
    let read = read
        .and_then(|(part, _)| part.as_ref())
        .filter(|read| read.part().is_some_and(|part| entry.selected_in(part).is_some()))
        .cloned();
    let freed = engine.freed_large.load(Ordering::Relaxed);
    let is_put_off = puts_off && work.is_none();
    if is_put_off {
        access.forget_lookups();
    }
    Some(Image { entry, others, read, freed, work, has_long_reply, is_put_off })
}

/// Frees an image.
fn free(image: Image, engine: &Engine) {
    if engine.freed_large.load(Ordering::Relaxed) != image.freed {
        // The value may have been removed, so that all of it is freed with the image.
        engine.free_image(image.entry);
        image.others.into_iter().for_each(|entry| engine.free_image(entry));
    }
}

/// Whether the request was put off, and is to run again later.
#[cold]
pub fn take_put_off(context: &mut Context) -> bool {
    let image = context.image.take_if(|image| image.is_put_off);
    let is_put_off = image.is_some();
    image.into_iter().for_each(|image| free(image, context.engine));
    is_put_off
}

/// Does the work that a request has left, if it has. It is to run again then.
#[cold]
pub fn do_work(context: &mut Context) -> bool {
    let Some(mut image) = context.image.take_if(|image| image.work.is_some()) else { return false };
    let done = image.work.take().map(|work| work(&image.entry));
    context.collected.set_work_done(done);
    free(image, context.engine);
    // Time has gone by, and others may have come to wait.
    simulation::yield_point();
    context.refresh();
    true
}

/// Runs a handler on an image, or leaves that to the caller of [`read_left_image`].
#[cold]
fn read_or_leave(
    context: &mut Context,
    session: &Session,
    args: Args<'_>,
    handler: DataHandler,
    image: Image,
    reply: &mut Reply,
) -> Outcome {
    if image.is_put_off || image.work.is_some() || (context.leaves_images && !session.reply_mode.is_silent())
    {
        context.image = Some(image);
        return Ok(());
    }
    read_image(context, session, args, handler, image, reply)
}

/// Runs a handler on an image. The lookup has been counted, and the key marked as used.
#[cold]
fn read_image(
    context: &mut Context,
    session: &Session,
    args: Args<'_>,
    handler: DataHandler,
    image: Image,
    reply: &mut Reply,
) -> Outcome {
    let engine = context.engine;
    let mut collected = Collected::default();
    let Context { active, now_ms, random_state, .. } = context;
    let at = (session.database, *now_ms);
    let (settings, images) = (&active.settings, image.images());
    let mut access = Access::of_images(&images, &engine.keyspace, at, settings, random_state, &mut collected);
    access.lend_part(image.part());
    let outcome = image.bring().map_err(Error::unreadable).and_then(|()| handler(&mut access, args, reply));
    drop(access);
    free(image, engine);
    outcome
}

/// The outcome of a command, given that its client may use the keys that it has found by labels. If not, none
/// of them is read.
fn outcome_of_found(session: &Session, call: Call<'_>, access: &mut Access<'_>, outcome: Outcome) -> Outcome {
    if !call.command.info.traits.has(Traits::READS_BY_LABEL) {
        return outcome;
    }
    let checked = admission::check_found(session, call.command, call.args, &access.take_found());
    match checked.is_err() && (outcome.is_ok() || access.take_unread().is_some()) {
        true => checked,
        false => outcome,
    }
}

/// Locks these shards and runs `work`: the calls of a transaction or a script. Then ends the commit of their
/// changes. `may_write` says whether any of the calls may write. Fails before it runs anything if a slow
/// script holds one of the shards.
pub fn with_held<R>(
    context: &mut Context,
    session: &mut Session,
    wanted: &Wanted,
    may_write: bool,
    work: impl FnOnce(&mut Context, &mut Session, &mut Access<'_>) -> R,
) -> Outcome<R> {
    let engine = context.engine;
    let locked = lock_wanted(engine, session.database, wanted, may_write)?;
    let active = Arc::clone(&context.active);
    let (mut random_state, mut collected) = (context.random_state, Collected::default());
    let mode = Mode { may_block: false, serving: false, no_touch: session.no_touch, ..Mode::default() };
    let (database, now_ms) = (session.database, context.now_ms);
    let (settings, random, collected) = (&active.settings, &mut random_state, &mut collected);
    let lent = session.rerun.lent.take();
    let mut access = Access::new(locked, database, now_ms, settings, mode, random, collected);
    access.lend_values(lent.as_deref());
    let result = work(context, session, &mut access);
    access.select(session.database);
    let to_free = commit(engine, &mut context.outbox, &mut access, None, true);
    drop(access);
    session.rerun.lent = lent;
    context.random_state = random_state;
    lazy_free::free(engine, to_free);
    Ok(result)
}

/// Commits the effects of one call of a transaction or script. The log and blocked clients wait for the end.
fn commit_held(context: &mut Context, session: &Session, access: &mut Access<'_>, call: Call<'_>) {
    let (engine, outbox) = (context.engine, &mut context.outbox);
    let to_free = commit(engine, outbox, access, Some((session.database, call.args)), false);
    access.keep_lazy_free(to_free);
    if session.remembers_reads() {
        let keys_max = context.active.config.tracking_table_max_keys;
        tracking::remember(outbox, access, &session.shared, call.command, call.args, keys_max);
    }
}

/// Shows a call to monitors.
#[inline]
pub(crate) fn show(context: &mut Context, session: &Session, call: Call<'_>) {
    if context.engine.monitor_count.load(Ordering::Relaxed) > 0 {
        monitor::show(context, session, call.command, call.args);
    }
}

/// If the call failed, replaces what it has replied from `start` on by its error.
#[inline]
pub fn write_outcome(reply: &mut Reply, start: usize, outcome: &Outcome) {
    if let Err(error) = outcome {
        reply.truncate(start);
        reply.error_bytes(error.bytes());
    }
}
