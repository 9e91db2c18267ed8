//! Running one request: whether it may run, which shards it locks, its handler, its commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mantissa_commands::spec::{BeginSearch, FindKeys, Flags, KeySpec, Traits};
use mantissa_commands::{
    Access, Blocking, DataHandler, Error, Locks, Mode, Outcome, TimeoutReply, find_keys, parse,
};
use mantissa_protocol::{Args, Protocol, Reply};
use mantissa_store::{KeyHash, Kind, LockedShards, ShardSet, Waiter};

use crate::client::{BlockedClient, Client, ReplyMode, flag};
use crate::commit::commit;
use crate::context::Context;
use crate::registry::{Command, Handler};
use crate::server::Server;
use crate::session::Session;
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
    client: &mut Client,
    (command, args): (Option<&'static Command>, Args<'_>),
    hint: Option<KeyHash>,
    reply: &mut Reply,
) -> Progress {
    let mut start = reply.len();
    let silent = client.reply_mode.is_silent();
    let mut unheard = silent.then(|| Reply::new(client.protocol).limited(UNHEARD_BYTES_MAX));
    let resolved = match command.map_or_else(|| context.resolve(args), Ok) {
        Ok(command) => {
            client.shared.last_command.store(command.index as u32 + 1, Ordering::Relaxed);
            make_room(context, client, reply);
            start = reply.len();
            admit(context, client, command, args).map(|()| command).map_err(|error| (Some(command), error))
        }
        Err(error) => Err((None, error)),
    };
    let command = match resolved {
        Ok(command) => command,
        Err(_) if is_http(args) => {
            warning!("A client spoke HTTP, maybe a page that tries to reach the server: it is closed");
            client.killed = true;
            return Progress::Done;
        }
        Err((command, error)) => {
            reject(context, client, command, error, unheard.as_mut().unwrap_or(reply));
            finish(context, client, None, args, (reply, start, unheard));
            return Progress::Done;
        }
    };
    let queues = client.transaction.is_some() && !command.info.traits.has(Traits::NOT_QUEUED);
    let stalls = context.server.aof.holds_writes();
    if stalls || context.server.pause.until_ms.load(Ordering::Relaxed) != 0 {
        let may_write = transaction::may_write(client, command);
        let is_paused = context.server.pauses(context.now_ms, may_write);
        if (stalls && may_write && !queues) || (is_paused && !command.info.traits.has(Traits::WHILE_PAUSED)) {
            return Progress::Postponed;
        }
    }
    if queues {
        transaction::queue(client, command, args, unheard.as_mut().unwrap_or(reply));
    } else {
        context.outbox.current = Some(client.shared.id);
        run(context, client, command, args, hint, unheard.as_mut().unwrap_or(reply));
        context.outbox.current = None;
        context.outbox.command_ended();
    }
    finish(context, client, Some(command), args, (reply, start, unheard));
    Progress::Done
}

/// Evicts keys if memory is full. What that has the client be told comes before the reply.
#[inline]
fn make_room(context: &mut Context, client: &Client, reply: &mut Reply) {
    context.out_of_memory = eviction::relieve(context);
    if context.outbox.has_local() {
        context.outbox.take_for(client.conn).iter().for_each(|bytes| reply.raw(bytes));
    }
}

/// Completes the reply that begins at `start` with what is for the same client beside it. `unheard` is the
/// reply of a client that had none coming.
#[inline]
fn finish(
    context: &mut Context,
    client: &mut Client,
    command: Option<&'static Command>,
    args: Args<'_>,
    (reply, start, unheard): (&mut Reply, usize, Option<Reply>),
) {
    finish_reply(client, reply, unheard);
    if client.shared.has(flag::TRACKING) {
        tracking::command_ended(context, client, command);
    }
    if context.outbox.has_local() {
        let messages = context.outbox.take_for(client.conn);
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
fn admit(context: &Context, client: &Client, command: &'static Command, args: Args<'_>) -> Outcome {
    let info = command.info;
    if !info.accepts(args.len()) {
        return Err(Error::arity(&command.name));
    }
    if !client.authenticated && !info.flags.has(Flags::NO_AUTH) && context.server.acl.needs_login() {
        return Err(Error::fixed("NOAUTH Authentication required."));
    }
    if client.transaction.is_some() && info.flags.has(Flags::NO_MULTI) {
        return Err(Error::fixed("ERR Command not allowed inside a transaction"));
    }
    if !client.user.is_unrestricted() {
        acl::admit(context, client, command, args)?;
    }
    if context.out_of_memory && eviction::may_need_memory(context.server, client, command, args) {
        return Err(eviction::OUT_OF_MEMORY);
    }
    if client.protocol == Protocol::Resp2
        && client.is_subscribed()
        && !command.info.traits.has(Traits::WHILE_SUBSCRIBED)
    {
        return Err(Error::new(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
             allowed in \
             this context",
            command.name
        )));
    }
    let persistence = &context.server.persistence;
    if persistence.loading.load(Ordering::Relaxed) && !info.flags.has(Flags::LOADING) {
        return Err(LOADING);
    }
    if context.server.scripting.is_busy() && !info.flags.has(Flags::ALLOW_BUSY) {
        // Of the rest, commands on keys run if a slow script does not hold their shards.
        let is_by_keys = matches!(command.handler, Some(Handler::Data(_))) && info.locks == Locks::Keys;
        if !is_by_keys {
            return Err(context.server.scripting.busy_error());
        }
    }
    check_disk(context, command)
}

/// Refuses writes while the log can not be written, and while dumps fail, if the configuration says so.
pub fn check_disk(context: &Context, command: &Command) -> Outcome {
    let (persistence, info) = (&context.server.persistence, command.info);
    if info.flags.has(Flags::WRITE) {
        aof::write_refusal(context.server)?;
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
    client: &mut Client,
    command: Option<&'static Command>,
    mut error: Error,
    reply: &mut Reply,
) {
    if command.is_some_and(|command| command.info.traits.has(Traits::RUNS_QUEUE)) {
        transaction::end(context, client);
        let reason = error.text().trim_start_matches("ERR ").to_owned();
        error = Error::new(format!("EXECABORT Transaction discarded because of: {reason}"));
    } else if let Some(transaction) = &mut client.transaction {
        transaction.aborted = true;
    }
    calls::rejected(context, command, &error);
    reply.error_bytes(error.bytes());
}

/// Applies CLIENT REPLY after a command. `unheard` is the reply of a client that had none coming. It is sent
/// if the command has changed that.
#[inline]
fn finish_reply(client: &mut Client, reply: &mut Reply, unheard: Option<Reply>) {
    if let Some(unheard) = unheard {
        reply.set_protocol(unheard.protocol());
        if client.reply_mode == ReplyMode::On {
            reply.append(&unheard);
        }
    }
    match client.reply_mode {
        ReplyMode::On | ReplyMode::Off => {}
        ReplyMode::SkipNext => client.reply_mode = ReplyMode::Skip,
        // Who waits gets the reply that is skipped later.
        ReplyMode::Skip if client.blocked.is_some() => {}
        ReplyMode::Skip => client.reply_mode = ReplyMode::On,
    }
}

/// Runs a command that may run, with its statistics.
fn run(
    context: &mut Context,
    client: &mut Client,
    command: &'static Command,
    args: Args<'_>,
    hint: Option<KeyHash>,
    reply: &mut Reply,
) {
    let start = reply.len();
    let sweep = if sweeps(command) { Some(context.server.scripting.begin_sweep()) } else { None };
    let refusal =
        if client.user.is_unrestricted() { Ok(()) } else { acl::check_options(client, command, args) };
    let outcome = match command.handler {
        _ if matches!(sweep, Some(Err(_))) => Err(context.server.scripting.busy_error()),
        _ if refusal.is_err() => refusal,
        Some(Handler::Data(handler)) => run_data(context, client, command, handler, args, hint, reply),
        Some(Handler::Server(handler)) => {
            let mut session = Session { context, client, access: None };
            handler(&mut session, args, reply)
        }
        None => Err(Error::arity(&command.name)),
    };
    drop(sweep);
    if context.server.monitor_count.load(Ordering::Relaxed) > 0 {
        monitor::show(context, client, command, args);
    }
    if let Err(error) = &outcome {
        reply.truncate(start);
        reply.error_bytes(error.bytes());
    }
    match &client.blocked {
        None => calls::ended(context, client, (command, args), &outcome),
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
    client: &mut Client,
    command: &'static Command,
    handler: DataHandler,
    args: Args<'_>,
    hint: Option<KeyHash>,
    reply: &mut Reply,
) -> Outcome {
    let server = context.server;
    let may_write = command.info.flags.has(Flags::WRITE);
    let only_key = if has_one_key(command) { args.get(1) } else { None };
    let hint = only_key.map(|key| (key, hint.unwrap_or_else(|| server.keyspace.hash(key))));
    let locked = match hint {
        Some((_, hash)) => lock_one(server, server.keyspace.shard_of(hash), may_write)?,
        None => lock(server, shards_of(server, command, args), may_write)?,
    };
    let Context { live, now_ms, random_state, collected, outbox, .. } = context;
    let mode = Mode { may_block: true, serving: false, no_touch: client.no_touch };
    let mut access =
        Access::new(locked, client.database, *now_ms, &live.settings, mode, random_state, collected);
    if let Some((key, hash)) = hint {
        access.hint(key, hash);
    }
    let outcome = handler(&mut access, args, reply);
    if access.wants_to_wait() {
        block(server, client, command, args, &mut access);
    }
    let sweeps = command.info.locks == Locks::Sweep;
    let expired = if sweeps { access.take_expired_elsewhere() } else { Vec::new() };
    let trash = commit(server, outbox, &mut access, Some((client.database, args)), true);
    if sweeps && server.aof.holds_replies() {
        outbox.needs = server.aof.log.end();
    }
    if client.remembers_reads() {
        let keys_max = live.config.tracking_table_max_keys;
        tracking::remember(outbox, &mut access, &client.shared, command, args, keys_max);
    }
    drop(access);
    server.free(trash);
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
pub fn shards_of(server: &Server, command: &Command, args: Args<'_>) -> ShardSet {
    match command.info.locks {
        Locks::Nothing | Locks::Sweep => ShardSet::EMPTY,
        Locks::All => server.keyspace.all_shards(),
        Locks::Keys => {
            let mut shards = ShardSet::EMPTY;
            for position in find_keys(command.info, args).unwrap_or_default() {
                shards.insert(server.keyspace.shard_of(server.keyspace.hash(args.at(position.index))));
            }
            shards
        }
    }
}

/// Locks one shard, like [`lock`].
#[inline]
fn lock_one(server: &'static Server, index: usize, may_write: bool) -> Outcome<LockedShards<'static>> {
    match server.keyspace.try_lock_one(index) {
        Some(locked) if !may_write || locked.shard(index).is_some_and(|shard| !shard.has_waiters()) => {
            Ok(locked)
        }
        locked => {
            drop(locked);
            lock(server, ShardSet::one(index), may_write)
        }
    }
}

/// Locks the shards, and for a write those too that serving the clients blocked on their keys may need. Fails
/// if a slow script holds one of them.
pub fn lock(server: &'static Server, wanted: ShardSet, may_write: bool) -> Outcome<LockedShards<'static>> {
    let mut set = wanted;
    loop {
        let locked = match server.keyspace.try_lock(set) {
            Ok(locked) => locked,
            Err(_) => wait_for_shards(server, set)?,
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
fn wait_for_shards(server: &'static Server, set: ShardSet) -> Outcome<LockedShards<'static>> {
    const COUNTED_MAX: Duration = Duration::from_millis(1);
    let began = Instant::now();
    let locked = server.scripting.wait_for_shards(server, set);
    let waited = began.elapsed().min(COUNTED_MAX).as_nanos() as u64;
    server.stats.shard_wait_ns.fetch_add(waited, Ordering::Relaxed);
    locked
}

/// Files a client under the keys that it wants to wait for, whose shards are locked.
fn block(
    server: &'static Server,
    client: &mut Client,
    command: &'static Command,
    args: Args<'_>,
    access: &mut Access<'_>,
) {
    let Some(mut blocking) = access.take_blocking() else { return };
    let instead = blocking.instead.take();
    let ticket = server.next_ticket();
    let blocked = Arc::new(BlockedClient {
        client: Arc::clone(&client.shared),
        user: Arc::clone(&client.user),
        command,
        args: instead.unwrap_or_else(|| args.to_owned()),
        database: access.database(),
        protocol: client.protocol,
        remembers_reads: client.remembers_reads(),
        ticket,
        blocking,
        spent_ns: AtomicU64::new(0),
        waiting: parking_lot::Mutex::new(true),
    });
    for key in &blocked.blocking.keys {
        let index = server.keyspace.shard_of(server.keyspace.hash(key));
        let Blocking { kind, shards, on_loss, .. } = blocked.blocking;
        let waiter = Waiter { client: client.shared.id, kind, shards, on_loss };
        if let Some(shard) = access.locked_mut().shard_mut(index) {
            shard.wait(blocked.database, key, ticket, waiter);
        }
    }
    wait(server, client, blocked);
}

/// What a client waits for that waits for no key, in the command with these arguments.
pub fn waiting_without_keys(
    server: &'static Server,
    client: &Client,
    args: Args<'_>,
    deadline: Option<i64>,
    on_timeout: TimeoutReply,
) -> Outcome<Arc<BlockedClient>> {
    Ok(Arc::new(BlockedClient {
        client: Arc::clone(&client.shared),
        user: Arc::clone(&client.user),
        command: server.registry.resolve(args)?,
        args: args.to_owned(),
        database: client.database,
        protocol: client.protocol,
        remembers_reads: false,
        ticket: server.next_ticket(),
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
pub fn wait(server: &'static Server, client: &mut Client, blocked: Arc<BlockedClient>) {
    server.blocked.lock().insert(client.shared.id, Arc::clone(&blocked));
    client.shared.mark(flag::BLOCKED, true);
    client.blocked = Some(blocked);
}

/// Takes a client that no longer waits out of all queues. No shard may be locked.
pub fn stop_waiting(server: &'static Server, blocked: &Arc<BlockedClient>) {
    server.blocked.lock().remove(&blocked.client.id);
    for key in &blocked.blocking.keys {
        let index = server.keyspace.shard_of(server.keyspace.hash(key));
        match lock(server, ShardSet::one(index), false) {
            Ok(mut locked) => {
                if let Some(shard) = locked.shard_mut(index) {
                    shard.stop_waiting(blocked.database, key, blocked.ticket);
                }
            }
            Err(_busy) => {
                let blocked = Arc::clone(blocked);
                return server.scripting.postpone(move |server| stop_waiting(server, &blocked));
            }
        }
    }
}
