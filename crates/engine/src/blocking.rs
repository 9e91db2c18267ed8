//! Blocking commands: blocking, unblocking and timeouts of clients.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use mantissa_commands::{Access, Blocking, Collected, Mode, Outcome, TimeoutReply};
use mantissa_persist::log::Lsn;
use mantissa_protocol::{Args, Reply};
use mantissa_store::{Kind, ShardSet, Waiter};
use mantissa_sys::clock;

use crate::admission::{self, Redirection};
use crate::calls;
use crate::context::Context;
use crate::engine::Engine;
use crate::host::{Completion, Message};
use crate::invocation::{Command, Handler};
use crate::locking::lock;
use crate::session::{BlockedClient, ReplyMode, Served, Session, flag};
use crate::shard_access;
use crate::state::replication::Address;
use crate::tier::fetch;

/// Never, as a time in ms.
const NEVER_MS: i64 = i64::MAX;
/// Time until a command that could not be run again is tried once more.
const BUSY_MS: i64 = 10;
/// Least time between two runs of a command that waits for time to pass, in ms.
const AGAIN_MS: i64 = 10;

/// The blocked clients of a worker by the times at which something is to be done about them.
#[derive(Default)]
pub struct Deadlines {
    /// When their time is up, soonest first.
    ends: BTreeSet<(i64, u64)>,
    /// When their commands are to be run again, soonest first.
    again: BTreeSet<(i64, u64)>,
}

/// Counts a command in [`Engine::under_way`] while it lives.
pub struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    /// Begins to count.
    pub fn begin(engine: &Engine) -> UnderWay {
        engine.under_way.fetch_add(1, Ordering::AcqRel);
        UnderWay(Arc::clone(&engine.under_way))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Unblocks a client with this reply. False if it is no longer blocked. Its worker gets a message and calls
/// [`end_waiting`].
pub fn release(engine: &Engine, blocked: &BlockedClient, reply: Vec<u8>) -> bool {
    end_with(engine, blocked, Served::without_run(reply))
}

/// The same, with a reply that waits until the log is confirmed up to this LSN.
pub fn release_after(engine: &Engine, blocked: &BlockedClient, reply: Vec<u8>, lsn: Lsn) -> bool {
    end_after(engine, blocked, Served::without_run(reply), lsn)
}

fn end_with(engine: &Engine, blocked: &BlockedClient, served: Served) -> bool {
    end_after(engine, blocked, served, 0)
}

fn end_after(engine: &Engine, blocked: &BlockedClient, served: Served, lsn: Lsn) -> bool {
    let mut waiting = blocked.waiting.lock();
    if !std::mem::replace(&mut *waiting, false) {
        return false;
    }
    let target = *blocked.session.target.lock();
    engine.send_after(target.worker, Message::Unblock(target.conn, served), lsn);
    true
}

/// Writes the reply of WAIT, or of WAITAOF where `of_disks`: who has everything before an LSN.
pub fn write_confirmations(engine: &Engine, lsn: u64, of_disks: bool, reply: &mut Reply) {
    let replicas = engine.replication.confirming(lsn, of_disks) as i64;
    if of_disks {
        reply.array(2);
        reply.integer(i64::from(engine.aof.is_durable(lsn)));
    }
    reply.integer(replicas);
}

/// The reply of a blocked command that has timed out.
pub fn timeout_reply(engine: &Engine, blocked: &BlockedClient) -> Vec<u8> {
    let mut reply = Reply::new(blocked.protocol);
    match blocked.blocking.on_timeout {
        TimeoutReply::Confirmations { lsn } => {
            write_confirmations(engine, lsn, true, &mut reply);
        }
        TimeoutReply::Acknowledgements { lsn } => write_confirmations(engine, lsn, false, &mut reply),
        on_timeout => on_timeout.write(&mut reply),
    }
    reply.into_bytes()
}

/// The reply of a blocked command that is run once more without waiting. No shard may be locked.
fn reply_so_far(context: &Context, blocked: &BlockedClient) -> Vec<u8> {
    let engine = context.engine;
    let (Some(Handler::Data(handler)), Ok(locked)) =
        (blocked.command.handler, lock(engine, blocked.blocking.shards, false))
    else {
        return timeout_reply(engine, blocked);
    };
    let mode = Mode { may_block: false, serving: true, no_touch: true, ..Mode::default() };
    let (mut random, mut collected) = (0, Collected::default());
    let settings = &context.active.settings;
    let (database, now_ms) = (blocked.database, context.now_ms);
    let mut access = Access::new(locked, database, now_ms, settings, mode, &mut random, &mut collected);
    let mut reply = Reply::new(blocked.protocol);
    let outcome = admission::of_waiting(engine, blocked)
        .and_then(|()| fetch::bring(engine, &access, blocked.command, blocked.args.as_args()))
        .and_then(|()| handler(&mut access, blocked.args.as_args(), &mut reply));
    if let Err(error) = outcome {
        reply.truncate(0);
        reply.error_bytes(error.bytes());
    }
    reply.into_bytes()
}

/// Blocks a client on the keys of its command, whose shards are locked.
pub fn block(
    engine: &Engine,
    session: &mut Session,
    command: &'static Command,
    args: Args<'_>,
    access: &mut Access<'_>,
) {
    let Some(mut blocking) = access.take_blocking() else { return };
    let (instead, again_at_ms) = (blocking.instead.take(), blocking.again_at_ms.unwrap_or(NEVER_MS));
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
        since_ms: access.now_ms(),
        blocking,
        again_at_ms: AtomicI64::new(again_at_ms),
        again_wanted_ms: AtomicI64::new(again_at_ms),
        spent_ns: AtomicU64::new(0),
        waiting: parking_lot::Mutex::new(true),
    });
    let Blocking { kind, shards, on_loss, on_growth, .. } = blocked.blocking;
    let waiter = Arc::new(Waiter { client: session.shared.id, kind, shards, on_loss, on_growth });
    for key in &blocked.blocking.keys {
        let index = engine.keyspace.shard_of(engine.keyspace.hash(key));
        if let Some(shard) = access.locked_mut().shard_mut(index) {
            shard.wait(blocked.database, key, ticket, Arc::clone(&waiter));
        }
    }
    wait(engine, session, blocked);
}

/// A blocked client that waits for something other than a key, in the command with these arguments.
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
        since_ms: clock::unix_ms(),
        blocking: Blocking {
            kind: Kind::String,
            keys: Vec::new(),
            deadline,
            on_timeout,
            shards: ShardSet::EMPTY,
            on_loss: false,
            on_growth: false,
            again_at_ms: None,
            instead: None,
        },
        again_at_ms: AtomicI64::new(NEVER_MS),
        again_wanted_ms: AtomicI64::new(NEVER_MS),
        spent_ns: AtomicU64::new(0),
        waiting: parking_lot::Mutex::new(true),
    }))
}

/// Blocks a session.
pub fn wait(engine: &Engine, session: &mut Session, blocked: Arc<BlockedClient>) {
    engine.blocked.lock().insert(session.shared.id, Arc::clone(&blocked));
    session.shared.mark(flag::BLOCKED, true);
    session.blocked = Some(blocked);
}

/// Unblocks all clients, and disconnects them: the server has become a replica, and what they wait for may
/// never come. Those whose command another thread runs stay. Of clients that are redirected, those that wait
/// for a key stay connected, and those that may wait for it on a replica go on waiting.
pub fn release_all_for_role_change(engine: &Engine, primary: &Address) {
    const REASON: &str = "UNBLOCKED force unblock from blocking operation, instance state changed \
                          (master -> replica?)";
    let all: Vec<_> = engine.blocked.lock().values().cloned().collect();
    let config = &engine.active_config().config;
    for blocked in all.iter().filter(|blocked| !blocked.waits_for_work()) {
        let mut error = Reply::new(blocked.protocol);
        let (client, args) = (&blocked.session, blocked.args.as_args());
        let follows = Redirection::may_be(config, client) && !blocked.blocking.keys.is_empty();
        if !follows {
            error.error(REASON);
        } else if let Some(sent) = Redirection::of(engine, config, client, blocked.command, args) {
            error.error_bytes(sent.error(engine, primary).bytes());
        } else {
            continue;
        }
        let served = Served { ends_session: !follows, ..Served::without_run(error.into_bytes()) };
        end_with(engine, blocked, served);
    }
}

/// Removes a client from the queues of its keys. No shard may be locked.
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
                return engine.postpone(move |engine| stop_waiting(engine, &blocked));
            }
        }
    }
}

/// Unblocks a session that has been served, has timed out or was unblocked. Returns `None` if it is not
/// blocked, `Some(None)` if it has turned replies off, and else its reply.
pub fn end_waiting(
    context: &mut Context,
    session: &mut Session,
    deadlines: &mut Deadlines,
    served: Served,
) -> Option<Option<Vec<u8>>> {
    let blocked = session.blocked.take()?;
    session.shared.mark(flag::BLOCKED, false);
    session.closing |= served.ends_session;
    let is_silent = session.reply_mode != ReplyMode::On;
    if session.reply_mode == ReplyMode::Skip {
        session.reply_mode = ReplyMode::On;
    }
    calls::ended_waiting(context, session, &blocked, &served);
    deadlines.remove(&blocked);
    stop_waiting(context.engine, &blocked);
    Some((!is_silent).then_some(served.reply))
}

/// Runs the rest of a command whose session waited for another thread, even if the session has ended. Returns
/// the outcome if the session is still blocked. Its reply must wait until the log is confirmed up to
/// `outbox.required_lsn`.
pub fn complete(context: &mut Context, blocked: &BlockedClient, work: Completion) -> Option<Served> {
    context.refresh();
    context.outbox.required_lsn = 0;
    let began = clock::now();
    let reply = work(context);
    let spent_ns = clock::since(began).as_nanos() as u64;
    let waited = std::mem::replace(&mut *blocked.waiting.lock(), false);
    waited.then_some(Served { reply, spent_ns, is_rejected: false, ends_session: false })
}

/// Runs the command of a blocked client again, as after a change of its keys, and those of others that wait
/// for these. Returns when to do so next if the client still waits. No shard may be locked.
fn run_again(context: &mut Context, blocked: &BlockedClient) -> Option<i64> {
    let engine = context.engine;
    let busy = Some(context.now_ms.saturating_add(BUSY_MS));
    if engine.pauses(context.now_ms, true) {
        return busy;
    }
    let Ok(locked) = lock(engine, blocked.blocking.shards, true) else { return busy };
    shard_access::with_locked(context, None, blocked.database, locked, |access| {
        blocked.blocking.keys.iter().for_each(|key| access.signal(key));
    });
    let next_ms =
        blocked.again_wanted_ms.load(Ordering::Relaxed).max(context.now_ms.saturating_add(AGAIN_MS));
    blocked.waiting.lock().then_some(next_ms)
}

impl Deadlines {
    /// Adds a client that has blocked.
    pub fn add(&mut self, blocked: &BlockedClient) {
        if let Some(deadline) = blocked.blocking.deadline {
            self.ends.insert((deadline, blocked.session.id));
        }
        self.add_again(blocked);
    }

    /// Removes a client that is no longer blocked.
    pub fn remove(&mut self, blocked: &BlockedClient) {
        if let Some(deadline) = blocked.blocking.deadline {
            self.ends.remove(&(deadline, blocked.session.id));
        }
        if !self.again.is_empty() {
            self.again.remove(&(blocked.again_at_ms.load(Ordering::Relaxed), blocked.session.id));
        }
    }

    fn add_again(&mut self, blocked: &BlockedClient) {
        let at_ms = blocked.again_at_ms.load(Ordering::Relaxed);
        if at_ms != NEVER_MS {
            self.again.insert((at_ms, blocked.session.id));
        }
    }

    /// The soonest of these times, Unix time in ms.
    pub fn first(&self) -> Option<i64> {
        let times = [self.ends.first(), self.again.first()];
        times.into_iter().flatten().map(|(at_ms, _)| *at_ms).min()
    }

    /// Runs the commands again whose time has come, and unblocks the clients whose deadline has passed.
    pub fn expire(&mut self, context: &mut Context) {
        while let Some(&(at_ms, session)) = self.again.first() {
            if at_ms > context.now_ms {
                break;
            }
            self.again.pop_first();
            let blocked = context.engine.blocked.lock().get(&session).map(Arc::clone);
            let is_due = |blocked: &Arc<BlockedClient>| blocked.again_at_ms.load(Ordering::Relaxed) == at_ms;
            let Some(blocked) = blocked.filter(is_due) else { continue };
            let wanted_ms = blocked.again_wanted_ms.load(Ordering::Relaxed);
            // Another client that waits for the same key may have had all of them run meanwhile.
            let next_ms = match wanted_ms > context.now_ms {
                true => Some(wanted_ms),
                false => run_again(context, &blocked),
            };
            if let Some(next_ms) = next_ms {
                blocked.again_at_ms.store(next_ms, Ordering::Relaxed);
                self.add_again(&blocked);
            }
        }
        while let Some(&(deadline, session)) = self.ends.first() {
            if deadline > context.now_ms {
                return;
            }
            self.ends.pop_first();
            let blocked = context.engine.blocked.lock().get(&session).map(Arc::clone);
            if let Some(blocked) = blocked.filter(|blocked| blocked.blocking.deadline == Some(deadline)) {
                let reply = match blocked.blocking.on_timeout {
                    TimeoutReply::Run => reply_so_far(context, &blocked),
                    _ => timeout_reply(context.engine, &blocked),
                };
                release(context.engine, &blocked, reply);
            }
        }
    }
}
