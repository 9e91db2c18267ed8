//! Running one request: whether it may run, which shards it locks, its handler, its commit.

use mantissa_sys::clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mantissa_commands::spec::{BeginSearch, FindKeys, Flags, KeySpec, Traits};
use mantissa_commands::{
    Access, Blocking, DataHandler, Error, Locks, Mode, Outcome, TimeoutReply, find_keys, parse,
};
use mantissa_protocol::{Args, Protocol, Reply};
use mantissa_store::{KeyHash, Kind, LockedShards, ShardSet, Waiter};

use crate::commit::commit;
use crate::context::Context;
use crate::engine::Engine;
use crate::invocation::Invocation;
use crate::registry::{Command, Handler};
use crate::session::{BlockedClient, ReplyMode, Session, flag};
use crate::{acl, aof, calls, eviction, expiry, monitor, tracking, transaction, warning};

/// The refusal of commands on data while these are loaded.
pub const LOADING: Error = Error::fixed("LOADING Redis is loading the dataset in memory");

/// Bytes of a reply that nobody gets that are kept while it is made.
const UNHEARD_BYTES_MAX: usize = 64 << 10;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has been replied to.
    Done,
    /// CLIENT PAUSE holds it back: it is to be tried again later.
    Postponed,
}

/// Runs one request of a client. `command` is what it calls, if that is known; `hint` is the hash of its
/// first key, if that has been computed.
pub fn execute(
    context: &mut Context,
    session: &mut Session,
    (command, args): (Option<&'static Command>, Args<'_>),
    hint: Option<KeyHash>,
    reply: &mut Reply,
) -> Progress {
    let mut start = reply.len();
    let silent = session.reply_mode.is_silent();
    let mut unheard = silent.then(|| Reply::new(session.protocol).limited(UNHEARD_BYTES_MAX));
    let resolved = match command.map_or_else(|| context.resolve(args), Ok) {
        Ok(command) => {
            session.shared.last_command.store(command.index as u32 + 1, Ordering::Relaxed);
            make_room(context, session, reply);
            start = reply.len();
            admit(context, session, command, args).map(|()| command).map_err(|error| (Some(command), error))
        }
        Err(error) => Err((None, error)),
    };
    let command = match resolved {
        Ok(command) => command,
        Err(_) if is_http(args) => {
            warning!("A client spoke HTTP, maybe a page that tries to reach the server: it is closed");
            session.killed = true;
            return Progress::Done;
        }
        Err((command, error)) => {
            reject(context, session, command, error, unheard.as_mut().unwrap_or(reply));
            finish(context, session, None, args, (reply, start, unheard));
            return Progress::Done;
        }
    };
    let queues = session.transaction.is_some() && !command.info.traits.has(Traits::NOT_QUEUED);
    let stalls = context.engine.aof.holds_writes();
    if stalls || context.engine.pause.until_ms.load(Ordering::Relaxed) != 0 {
        let may_write = transaction::may_write(session, command);
        let is_paused = context.engine.pauses(context.now_ms, may_write);
        if (stalls && may_write && !queues) || (is_paused && !command.info.traits.has(Traits::WHILE_PAUSED)) {
            return Progress::Postponed;
        }
    }
    if queues {
        transaction::queue(session, command, args, unheard.as_mut().unwrap_or(reply));
    } else {
        context.outbox.current = Some(session.shared.id);
        run(context, session, command, args, hint, unheard.as_mut().unwrap_or(reply));
        context.outbox.current = None;
        context.outbox.command_ended();
    }
    finish(context, session, Some(command), args, (reply, start, unheard));
    Progress::Done
}

/// Evicts keys if memory is full. What that has the client be told comes before the reply.
#[inline]
fn make_room(context: &mut Context, session: &Session, reply: &mut Reply) {
    context.out_of_memory = eviction::relieve(context);
    if context.outbox.has_local() {
        context.outbox.take_for(session.conn).iter().for_each(|bytes| reply.raw(bytes));
    }
}

/// Completes the reply that begins at `start` with what is for the same client beside it. `unheard` is the
/// reply of a client that had none coming.
#[inline]
fn finish(
    context: &mut Context,
    session: &mut Session,
    command: Option<&'static Command>,
    args: Args<'_>,
    (reply, start, unheard): (&mut Reply, usize, Option<Reply>),
) {
    finish_reply(session, reply, unheard);
    if session.shared.has(flag::TRACKING) {
        tracking::command_ended(context, session, command);
    }
    if context.outbox.has_local() {
        let messages = context.outbox.take_for(session.conn);
        let mut after = Vec::new();
        if !messages.is_empty() && command.is_some_and(|command| replies_last(context, command, args)) {
            after = reply.as_bytes().get(start..).unwrap_or_default().to_vec();
            reply.truncate(start);
        }
        messages.iter().for_each(|bytes| reply.raw(bytes));
        reply.raw(&after);
    }
}

/// Whether a command replies after what it causes others to be sent: one that flushes, unless it leaves the
/// work for later.
fn replies_last(context: &Context, command: &Command, args: Args<'_>) -> bool {
    command.info.traits.has(Traits::REPLIES_LAST) && !context.live.flushes_lazily(args.get(1))
}

/// Whether the client may run the command now; the error to reply if not.
fn admit(context: &Context, session: &Session, command: &'static Command, args: Args<'_>) -> Outcome {
    let info = command.info;
    if !info.accepts(args.len()) {
        return Err(Error::arity(&command.name));
    }
    if !session.authenticated && !info.flags.has(Flags::NO_AUTH) && context.engine.acl.needs_login() {
        return Err(Error::fixed("NOAUTH Authentication required."));
    }
    if session.transaction.is_some() && info.flags.has(Flags::NO_MULTI) {
        return Err(Error::fixed("ERR Command not allowed inside a transaction"));
    }
    if !session.user.is_unrestricted() {
        acl::admit(context, session, command, args)?;
    }
    if context.out_of_memory && eviction::may_need_memory(context.engine, session, command, args) {
        return Err(eviction::OUT_OF_MEMORY);
    }
    if session.protocol == Protocol::Resp2
        && session.is_subscribed()
        && !command.info.traits.has(Traits::WHILE_SUBSCRIBED)
    {
        return Err(Error::new(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
             allowed in \
             this context",
            command.name
        )));
    }
    let persistence = &context.engine.persistence;
    if persistence.loading.load(Ordering::Relaxed) && !info.flags.has(Flags::LOADING) {
        return Err(LOADING);
    }
    if context.engine.scripting.is_busy() && !info.flags.has(Flags::ALLOW_BUSY) {
        // Of the rest, commands on keys run if a slow script does not hold their shards.
        let is_by_keys = matches!(command.handler, Some(Handler::Data(_))) && info.locks == Locks::Keys;
        if !is_by_keys {
            return Err(context.engine.scripting.busy_error());
        }
    }
    check_disk(context, command)
}

/// Refuses writes while the log can not be written, and while dumps fail, if the configuration says so.
pub fn check_disk(context: &Context, command: &Command) -> Outcome {
    let (persistence, info) = (&context.engine.persistence, command.info);
    if info.flags.has(Flags::WRITE) {
        aof::write_refusal(context.engine)?;
    }
    if persistence.last_save_failed.load(Ordering::Relaxed)
        && info.flags.has(Flags::WRITE)
        && context.live.config.stop_writes_on_bgsave_error
        && !context.live.config.save_points.is_empty()
    {
        return Err(Error::fixed(
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to \
             disk. \
             Commands that may modify the data set are disabled, because this instance is configured to \
             report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). \
             Please check the \
             Redis logs for details about the RDB error.",
        ));
    }
    Ok(())
}

/// Whether a line is one that an HTTP client sends.
fn is_http(args: Args<'_>) -> bool {
    parse::is(args.at(0), "POST") || parse::is(args.at(0), "Host:")
}

/// Replies an error to a request that does not run.
fn reject(
    context: &mut Context,
    session: &mut Session,
    command: Option<&'static Command>,
    mut error: Error,
    reply: &mut Reply,
) {
    if command.is_some_and(|command| command.info.traits.has(Traits::RUNS_QUEUE)) {
        transaction::end(context, session);
        let reason = error.text().trim_start_matches("ERR ").to_owned();
        error = Error::new(format!("EXECABORT Transaction discarded because of: {reason}"));
    } else if let Some(transaction) = &mut session.transaction {
        transaction.aborted = true;
    }
    calls::rejected(context, command, &error);
    reply.error_bytes(error.bytes());
}

/// Applies CLIENT REPLY after a command. `unheard` is the reply of a client that had none coming. It is sent
/// if the command has changed that.
#[inline]
fn finish_reply(session: &mut Session, reply: &mut Reply, unheard: Option<Reply>) {
    if let Some(unheard) = unheard {
        reply.set_protocol(unheard.protocol());
        if session.reply_mode == ReplyMode::On {
            reply.append(&unheard);
        }
    }
    match session.reply_mode {
        ReplyMode::On | ReplyMode::Off => {}
        ReplyMode::SkipNext => session.reply_mode = ReplyMode::Skip,
        // Who waits gets the reply that is skipped later.
        ReplyMode::Skip if session.blocked.is_some() => {}
        ReplyMode::Skip => session.reply_mode = ReplyMode::On,
    }
}

/// Runs a command that may run, with its statistics.
fn run(
    context: &mut Context,
    session: &mut Session,
    command: &'static Command,
    args: Args<'_>,
    hint: Option<KeyHash>,
    reply: &mut Reply,
) {
    let start = reply.len();
    let sweep = if sweeps(command) { Some(context.engine.scripting.begin_sweep()) } else { None };
    let refusal =
        if session.user.is_unrestricted() { Ok(()) } else { acl::check_options(session, command, args) };
    let outcome = match command.handler {
        _ if matches!(sweep, Some(Err(_))) => Err(context.engine.scripting.busy_error()),
        _ if refusal.is_err() => refusal,
        Some(Handler::Data(handler)) => run_data(context, session, command, handler, args, hint, reply),
        Some(Handler::Engine(handler)) => {
            let mut invocation = Invocation { context, session, access: None };
            handler(&mut invocation, args, reply)
        }
        None => Err(Error::arity(&command.name)),
    };
    drop(sweep);
    if context.engine.monitor_count.load(Ordering::Relaxed) > 0 {
        monitor::show(context, session, command, args);
    }
    if let Err(error) = &outcome {
        reply.truncate(start);
        reply.error_bytes(error.bytes());
    }
    match &session.blocked {
        None => calls::ended(context, session, (command, args), &outcome),
        Some(blocked) => calls::waits(context, blocked),
    }
}

/// Whether a command waits for shards other than those of its keys, and so for scripts that hold them.
fn sweeps(command: &Command) -> bool {
    command.info.locks == Locks::Sweep || command.info.traits.has(Traits::WAITS_FOR_SHARDS)
}

/// Runs a command on data that locks its own shards.
fn run_data(
    context: &mut Context,
    session: &mut Session,
    command: &'static Command,
    handler: DataHandler,
    args: Args<'_>,
    hint: Option<KeyHash>,
    reply: &mut Reply,
) -> Outcome {
    let engine = context.engine;
    let may_write = command.info.flags.has(Flags::WRITE);
    let only_key = if has_one_key(command) { args.get(1) } else { None };
    let hint = only_key.map(|key| (key, hint.unwrap_or_else(|| engine.keyspace.hash(key))));
    let locked = match hint {
        Some((_, hash)) => lock_one(engine, engine.keyspace.shard_of(hash), may_write)?,
        None => lock(engine, shards_of(engine, command, args), may_write)?,
    };
    let Context { live, now_ms, random_state, collected, outbox, .. } = context;
    let mode = Mode { may_block: true, serving: false, no_touch: session.no_touch };
    let mut access =
        Access::new(locked, session.database, *now_ms, &live.settings, mode, random_state, collected);
    if let Some((key, hash)) = hint {
        access.hint(key, hash);
    }
    let outcome = handler(&mut access, args, reply);
    if access.wants_to_wait() {
        block(engine, session, command, args, &mut access);
    }
    let sweeps = command.info.locks == Locks::Sweep;
    let expired = if sweeps { access.take_expired_elsewhere() } else { Vec::new() };
    let trash = commit(engine, outbox, &mut access, Some((session.database, args)), true);
    if sweeps && engine.aof.holds_replies() {
        outbox.needs = engine.aof.log.end();
    }
    if session.remembers_reads() {
        let keys_max = live.config.tracking_table_max_keys;
        tracking::remember(outbox, &mut access, &session.shared, command, args, keys_max);
    }
    drop(access);
    engine.free(trash);
    if !expired.is_empty() {
        expiry::remove(context, expired);
    }
    outcome
}

/// Whether the command's only key is its first argument.
#[inline]
fn has_one_key(command: &Command) -> bool {
    let one = |spec: &KeySpec| {
        matches!((spec.begin, spec.find), (BeginSearch::Index(1), FindKeys::Range { last: 0, .. }))
    };
    command.info.locks == Locks::Keys && matches!(command.info.keys, [spec] if one(spec))
}

/// The shards that a command needs, as far as its arguments tell.
pub fn shards_of(engine: &Engine, command: &Command, args: Args<'_>) -> ShardSet {
    match command.info.locks {
        Locks::Nothing | Locks::Sweep => ShardSet::EMPTY,
        Locks::All => engine.keyspace.all_shards(),
        Locks::Keys => {
            let mut shards = ShardSet::EMPTY;
            for position in find_keys(command.info, args).unwrap_or_default() {
                shards.insert(engine.keyspace.shard_of(engine.keyspace.hash(args.at(position.index))));
            }
            shards
        }
    }
}

/// Locks one shard, like [`lock`].
#[inline]
fn lock_one(engine: &Engine, index: usize, may_write: bool) -> Outcome<LockedShards<'_>> {
    match engine.keyspace.try_lock_one(index) {
        Some(locked) if !may_write || locked.shard(index).is_some_and(|shard| !shard.has_waiters()) => {
            Ok(locked)
        }
        locked => {
            drop(locked);
            lock(engine, ShardSet::one(index), may_write)
        }
    }
}

/// Locks the shards, and for a write those too that serving the clients blocked on their keys may need. Fails
/// if a slow script holds one of them.
pub fn lock(engine: &Engine, wanted: ShardSet, may_write: bool) -> Outcome<LockedShards<'_>> {
    let mut set = wanted;
    loop {
        let locked = match engine.keyspace.try_lock(set) {
            Ok(locked) => locked,
            Err(_) => wait_for_shards(engine, set)?,
        };
        if !may_write {
            return Ok(locked);
        }
        let mut needed = set;
        set.for_each(|index| {
            if let Some(shard) = locked.shard(index) {
                needed = needed.union(shard.waiter_shards());
            }
        });
        if set.covers(needed) {
            return Ok(locked);
        }
        drop(locked);
        set = needed;
    }
}

/// Waits for shards that somebody holds. Of a wait as long as that for a slow script only the beginning
/// counts: fewer workers would not make it shorter.
#[cold]
fn wait_for_shards(engine: &Engine, set: ShardSet) -> Outcome<LockedShards<'_>> {
    const COUNTED_MAX: Duration = Duration::from_millis(1);
    let began = clock::now();
    let locked = engine.scripting.wait_for_shards(engine, set);
    let waited = clock::since(began).min(COUNTED_MAX).as_nanos() as u64;
    engine.stats.shard_wait_ns.fetch_add(waited, Ordering::Relaxed);
    locked
}

/// Files a client under the keys that it wants to wait for, whose shards are locked.
fn block(
    engine: &Engine,
    session: &mut Session,
    command: &'static Command,
    args: Args<'_>,
    access: &mut Access<'_>,
) {
    let Some(mut blocking) = access.take_blocking() else { return };
    let instead = blocking.instead.take();
    let ticket = engine.next_ticket();
    let blocked = Arc::new(BlockedClient {
        session: Arc::clone(&session.shared),
        user: Arc::clone(&session.user),
        command,
        args: instead.unwrap_or_else(|| args.to_owned()),
        database: access.database(),
        protocol: session.protocol,
        remembers_reads: session.remembers_reads(),
        ticket,
        blocking,
        spent_ns: AtomicU64::new(0),
        waiting: parking_lot::Mutex::new(true),
    });
    for key in &blocked.blocking.keys {
        let index = engine.keyspace.shard_of(engine.keyspace.hash(key));
        let Blocking { kind, shards, on_loss, .. } = blocked.blocking;
        let waiter = Waiter { client: session.shared.id, kind, shards, on_loss };
        if let Some(shard) = access.locked_mut().shard_mut(index) {
            shard.wait(blocked.database, key, ticket, waiter);
        }
    }
    wait(engine, session, blocked);
}

/// What a client waits for that waits for no key, in the command with these arguments.
pub fn waiting_without_keys(
    engine: &Engine,
    session: &Session,
    args: Args<'_>,
    deadline: Option<i64>,
    on_timeout: TimeoutReply,
) -> Outcome<Arc<BlockedClient>> {
    Ok(Arc::new(BlockedClient {
        session: Arc::clone(&session.shared),
        user: Arc::clone(&session.user),
        command: engine.registry.resolve(args)?,
        args: args.to_owned(),
        database: session.database,
        protocol: session.protocol,
        remembers_reads: false,
        ticket: engine.next_ticket(),
        blocking: Blocking {
            kind: Kind::String,
            keys: Vec::new(),
            deadline,
            on_timeout,
            shards: ShardSet::EMPTY,
            on_loss: false,
            instead: None,
        },
        spent_ns: AtomicU64::new(0),
        waiting: parking_lot::Mutex::new(true),
    }))
}

/// Has a client wait for what `blocked` says.
pub fn wait(engine: &Engine, session: &mut Session, blocked: Arc<BlockedClient>) {
    engine.blocked.lock().insert(session.shared.id, Arc::clone(&blocked));
    session.shared.mark(flag::BLOCKED, true);
    session.blocked = Some(blocked);
}

/// Takes a client that no longer waits out of all queues. No shard may be locked.
pub fn stop_waiting(engine: &Engine, blocked: &Arc<BlockedClient>) {
    engine.blocked.lock().remove(&blocked.session.id);
    for key in &blocked.blocking.keys {
        let index = engine.keyspace.shard_of(engine.keyspace.hash(key));
        match lock(engine, ShardSet::one(index), false) {
            Ok(mut locked) => {
                if let Some(shard) = locked.shard_mut(index) {
                    shard.stop_waiting(blocked.database, key, blocked.ticket);
                }
            }
            Err(_busy) => {
                let blocked = Arc::clone(blocked);
                return engine.scripting.postpone(move |engine| stop_waiting(engine, &blocked));
            }
        }
    }
}
