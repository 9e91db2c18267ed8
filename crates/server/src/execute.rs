//! Running one request: whether it may run, which shards it locks, its handler, its commit.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mantissa_commands::spec::{BeginSearch, FindKeys, Flags, KeySpec};
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
use crate::{acl, aof, eviction, hot_keys, monitor, stats, tracking, transaction, warning};

/// Commands that run at once inside MULTI instead of being queued.
const NOT_QUEUED: [&str; 6] = ["exec", "discard", "multi", "watch", "quit", "reset"];

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has been replied to.
    Done,
    /// CLIENT PAUSE holds it back: it is to be tried again later.
    Postponed,
}

/// Runs one request of a client. `hint` is the hash of its first key if that has been computed.
pub fn execute(
    context: &mut Context,
    client: &mut Client,
    args: Args<'_>,
    hint: Option<KeyHash>,
    reply: &mut Reply,
) -> Progress {
    let mut start = reply.len();
    let resolved = match context.resolve(args) {
        Ok(command) => {
            client.shared.last_command.store(command.index as u32 + 1, Ordering::Relaxed);
            make_room(context, client, reply);
            start = reply.len();
            admit(context, client, command, args).map(|()| command).inspect_err(|_| {
                stats::add(&context.server.stats.commands[context.worker][command.index].rejected, 1);
            })
        }
        Err(error) => Err(error),
    };
    let command = match resolved {
        Ok(command) => command,
        Err(_) if is_http(args) => {
            warning!("A client spoke HTTP, maybe a page that tries to reach the server: it is closed");
            client.killed = true;
            return Progress::Done;
        }
        Err(error) => {
            reject(context, client, args, error, reply);
            finish(context, client, None, args, reply, start);
            return Progress::Done;
        }
    };
    let queues = client.transaction.is_some() && !NOT_QUEUED.contains(&command.info.name);
    let stalls = context.server.aof.holds_writes();
    if !queues && (stalls || context.server.pause.until_ms.load(Ordering::Relaxed) != 0) {
        let may_write = transaction::may_write(client, command);
        let is_paused = context.server.pauses(context.now_ms, may_write);
        if (stalls && may_write) || (is_paused && command.name != "client|unpause") {
            return Progress::Postponed;
        }
    }
    if queues {
        transaction::queue(client, command, args, reply);
    } else {
        context.outbox.current = Some(client.shared.id);
        run(context, client, command, args, hint, reply);
        context.outbox.current = None;
    }
    finish(context, client, Some(command), args, reply, start);
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

/// Completes the reply that begins at `start` with what is for the same client beside it.
#[inline]
fn finish(
    context: &mut Context,
    client: &mut Client,
    command: Option<&'static Command>,
    args: Args<'_>,
    reply: &mut Reply,
    start: usize,
) {
    finish_reply(client, reply, start);
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
    let is_lazy = match args.get(1) {
        Some(option) => parse::is(option, "ASYNC"),
        None => context.live.config.lazyfree_lazy_user_flush,
    };
    matches!(command.info.name, "flushall" | "flushdb") && !is_lazy
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
    if client.protocol == Protocol::Resp2 && client.is_subscribed() && !allowed_while_subscribed(command) {
        return Err(Error::new(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
             allowed in \
             this context",
            command.name
        )));
    }
    let persistence = &context.server.persistence;
    if persistence.loading.load(Ordering::Relaxed) && !info.flags.has(Flags::LOADING) {
        return Err(Error::fixed("LOADING Redis is loading the dataset in memory"));
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

fn allowed_while_subscribed(command: &Command) -> bool {
    const ALLOWED: [&str; 9] = [
        "subscribe",
        "unsubscribe",
        "psubscribe",
        "punsubscribe",
        "ssubscribe",
        "sunsubscribe",
        "ping",
        "quit",
        "reset",
    ];
    ALLOWED.contains(&command.info.name)
}

/// Whether a line is one that an HTTP client sends.
fn is_http(args: Args<'_>) -> bool {
    parse::is(args.at(0), "POST") || parse::is(args.at(0), "Host:")
}

/// Replies an error to a request that does not run.
fn reject(context: &mut Context, client: &mut Client, args: Args<'_>, mut error: Error, reply: &mut Reply) {
    if parse::is(args.at(0), "EXEC") {
        transaction::end(context, client);
        let reason = error.text().trim_start_matches("ERR ").to_owned();
        error = Error::new(format!("EXECABORT Transaction discarded because of: {reason}"));
    } else if let Some(transaction) = &mut client.transaction {
        transaction.aborted = true;
    }
    context.server.stats.count_error(context.worker, &error.text());
    reply.error_bytes(error.bytes());
}

/// Applies CLIENT REPLY to what has been written since `start`.
fn finish_reply(client: &mut Client, reply: &mut Reply, start: usize) {
    match client.reply_mode {
        ReplyMode::On => {}
        ReplyMode::Off => reply.truncate(start),
        ReplyMode::SkipNext => client.reply_mode = ReplyMode::Skip,
        ReplyMode::Skip => {
            reply.truncate(start);
            // Who waits gets the reply that is skipped later.
            if client.blocked.is_none() {
                client.reply_mode = ReplyMode::On;
            }
        }
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
    // A script writes its error itself.
    let failed = outcome.is_err() || reply.as_bytes().get(start) == Some(&b'-');
    if let Err(error) = outcome {
        reply.truncate(start);
        reply.error_bytes(error.bytes());
        context.server.stats.count_error(context.worker, &error.text());
    }
    if client.blocked.is_none() {
        record(context, client, command, args, failed);
    }
}

/// Whether a command waits for shards other than those of its keys, and so for scripts that hold them.
fn sweeps(command: &Command) -> bool {
    const SWEEPING: [&str; 3] = ["debug", "memory", "save"];
    let container = || command.name.split('|').next().unwrap_or_default();
    command.info.locks == Locks::Sweep
        || (matches!(command.handler, Some(Handler::Server(_))) && SWEEPING.contains(&container()))
}

/// Counts a call that ends now and logs it if it was slow. It began when the one before it ended.
pub fn record(
    context: &mut Context,
    client: &Client,
    command: &'static Command,
    args: Args<'_>,
    failed: bool,
) {
    if context.sampler.is_chosen(&mut context.random_state) {
        hot_keys::note(context, client.database, command, args);
    }
    let now = Instant::now();
    let elapsed = now.duration_since(context.command_began).as_nanos() as u64;
    context.command_began = now;
    let server = context.server;
    stats::add(&server.stats.workers[context.worker].commands, 1);
    stats::add(&client.shared.command_count, 1);
    let counters = &server.stats.commands[context.worker][command.index];
    stats::add(&counters.calls, 1);
    stats::add(&counters.nanoseconds, elapsed);
    let config = &context.live.config;
    if config.latency_tracking {
        counters.histogram.get_or_init(Box::default).record(elapsed);
    }
    if config.latency_monitor_threshold_ms > 0 && elapsed / 1_000_000 >= config.latency_monitor_threshold_ms {
        let event = if command.info.flags.has(Flags::FAST) { "fast-command" } else { "command" };
        server.latency.lock().add(event, elapsed / 1_000_000, context.now_ms / 1000);
    }
    if failed {
        stats::add(&counters.failed, 1);
    }
    let threshold = config.slowlog_log_slower_than_us;
    if threshold >= 0 && elapsed / 1000 >= threshold as u64 && !command.info.flags.has(Flags::SKIP_SLOWLOG) {
        crate::commands::note_slow(context, client, command, args, elapsed / 1000);
    }
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
    let trash = commit(server, outbox, &mut access, Some((client.database, args)), true);
    if command.info.locks == Locks::Sweep && server.aof.holds_replies() {
        outbox.needs = server.aof.log.end();
    }
    if client.remembers_reads() {
        let keys_max = live.config.tracking_table_max_keys;
        tracking::remember(outbox, &mut access, &client.shared, command, args, keys_max);
    }
    drop(access);
    server.free(trash);
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
    let kind = match command.info.group {
        mantissa_commands::spec::Group::SortedSet => Kind::SortedSet,
        mantissa_commands::spec::Group::Stream => Kind::Stream,
        _ => Kind::List,
    };
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
        waiting: parking_lot::Mutex::new(true),
    });
    for key in &blocked.blocking.keys {
        let index = server.keyspace.shard_of(server.keyspace.hash(key));
        let Blocking { shards, on_loss, .. } = blocked.blocking;
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
            keys: Vec::new(),
            deadline,
            on_timeout,
            shards: ShardSet::EMPTY,
            on_loss: false,
            instead: None,
        },
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
