//! The commit: everything that a write causes, in one place, while its shards are still locked.
//!
//! In this order: removal of keys that lookups found expired; the commands for the log; WATCH marks; messages
//! to clients that hold copies of changed keys; keyspace notifications; service of clients that were blocked
//! on keys that came into being. Serving runs the blocked command, whose own effects are committed in turn.
//! What all of them have for the log goes there as one unit, at the end.

use std::sync::atomic::Ordering;

use mantissa_sys::clock;

use mantissa_commands::{
    Access, Counts, Effects, Event, EventClass, ExpiredFields, LazyFree, LogChoice, Mode,
};
use mantissa_persist::log::{Lsn, Unit};
use mantissa_protocol::{Args, Reply};

use crate::context::Outbox;
use crate::engine::Engine;
use crate::host::Message;
use crate::invocation::Handler;
use crate::own_expiry;
use crate::pubsub::Scope;
use crate::session::{BlockedClient, Served, flag};
use crate::tier::fetch;
use crate::{admission, persistence, stats, tracking};
use mantissa_sys::clock::unix_ms;
use mantissa_sys::simulation::{self, Fault};

/// A command that has run, for the log: its database and arguments. None for what the engine does by itself.
pub type LoggedCommand<'a> = Option<(usize, Args<'a>)>;

/// Commits the effects that are collected in `access`. Returns the values to free once no shard is locked.
///
/// Within a transaction or script `ends` is false: blocked clients are served, and the log is appended to, at
/// its end. Until then keys that blocked clients wait for are kept in `access`.
pub fn commit(
    engine: &Engine,
    outbox: &mut Outbox,
    access: &mut Access<'_>,
    command: LoggedCommand<'_>,
    ends: bool,
) -> Option<LazyFree> {
    if let Some(counts) = access.take_counts() {
        settle_counts(engine, outbox.worker(), counts);
        if access.logs() {
            if let (true, Some((database, args))) = (counts.dirty > 0, command) {
                note_own_write(engine, outbox, access, (database, args));
                if ends && append_request(engine, outbox, access, (database, args)) {
                    return None;
                }
                outbox.unit.push_request(database, args);
            }
            if ends {
                append(engine, outbox, access);
            }
        }
        return None;
    }
    let mut effects = access.take_effects();
    let mut to_free = std::mem::take(&mut effects.to_free);
    let mut ready = apply(engine, outbox, access, effects, command, &mut to_free);
    if !ends {
        access.keep_ready(ready);
        return to_free.if_any();
    }
    let mut next = 0;
    if !ready.is_empty() {
        // A transaction or script may have run so long that keys have expired meanwhile.
        access.advance_clock(unix_ms());
    }
    while next < ready.len() {
        let (database, key) = ready[next].clone();
        next += 1;
        let more = serve_key(engine, outbox, access, database, &key, &mut to_free);
        ready.extend(more);
    }
    if access.logs() {
        append(engine, outbox, access);
    }
    to_free.if_any()
}

/// Notes what a client of a replica has written, and not its primary.
#[inline]
fn note_own_write(
    engine: &Engine,
    outbox: &Outbox,
    access: &mut Access<'_>,
    (database, args): (usize, Args<'_>),
) {
    if engine.replication.is_replica() && outbox.worker() != engine.link_number() {
        own_expiry::note(engine, access, database, args);
    }
}

/// Commits effects, but serves no blocked client. Returns the keys that blocked clients may wait for.
fn apply(
    engine: &Engine,
    outbox: &mut Outbox,
    access: &mut Access<'_>,
    mut effects: Effects,
    command: LoggedCommand<'_>,
    to_free: &mut LazyFree,
) -> Vec<(usize, Box<[u8]>)> {
    if !effects.expired.is_empty() {
        // What writes is logged behind the removal of what it found expired: where the log is replayed,
        // nothing expires by itself. What only reads causes no write while writes are paused.
        let only_reads = effects.dirty == 0 && !matches!(effects.log, LogChoice::Instead(_));
        match only_reads && access.keyspace().pauses_expiry() {
            true => effects.expired.clear(),
            false => effects = remove_expired(access, effects, to_free),
        }
    }
    if access.logs() {
        note(&mut outbox.unit, access.database(), &effects, command);
    }
    if let Some(command) = command.filter(|_| effects.dirty > 0) {
        note_own_write(engine, outbox, access, command);
    }
    let counts = Counts { dirty: effects.dirty, hits: effects.hits, misses: effects.misses };
    settle_counts(engine, outbox.worker(), counts);
    if effects.flushed {
        tracking::invalidate_all(outbox);
    }
    if effects.emptied {
        persistence::note_flush(engine);
        to_free.emptied = true;
    }
    tell_of_changes(outbox, access, &effects.changed_by_expiry, true);
    tell_of_changes(outbox, access, &effects.changed, false);
    let notify = access.settings().notify;
    for event in &effects.events {
        publish_event(engine, outbox, notify, event);
    }
    let counters = &engine.stats.workers[outbox.worker()];
    let counts = [
        (&counters.expired_keys, effects.expired_count),
        (&counters.expired_fields, effects.expired_fields_count),
    ];
    counts
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .for_each(|(counter, count)| stats::add(counter, count));
    effects.ready
}

/// Adds the commands to the log's unit that have these effects when the log is loaded.
fn note(unit: &mut Unit, database: usize, effects: &Effects, command: LoggedCommand<'_>) {
    for ExpiredFields { database, key, fields } in &effects.removed_fields {
        let words: Vec<&[u8]> =
            [&b"HDEL"[..], key].into_iter().chain(fields.iter().map(AsRef::as_ref)).collect();
        unit.push(*database, words);
    }
    for (database, key, name) in &effects.removed_expired {
        if simulation::has_fault(Fault::UnloggedRemoval) {
            break;
        }
        unit.push(*database, [*name, &key[..]]);
    }
    match (&effects.log, command) {
        (LogChoice::Instead(commands), _) => {
            let database = command.map_or(database, |(database, _)| database);
            commands.iter().for_each(|args| unit.push(database, args.as_args()));
        }
        (LogChoice::Verbatim, Some((database, args))) if effects.dirty > 0 => {
            unit.push_request(database, args);
        }
        _ => {}
    }
}

/// Marks the WATCHes of changed keys and invalidates the copies that clients hold. `expired`: the keys were
/// removed because they had expired; otherwise the present client has changed them.
fn tell_of_changes(
    outbox: &mut Outbox,
    access: &mut Access<'_>,
    changed: &[(usize, Box<[u8]>)],
    expired: bool,
) {
    let by = outbox.current.filter(|_| !expired);
    let keyspace = access.keyspace();
    for (database, key) in changed {
        let hash = keyspace.hash(key);
        let Some(shard) = access.locked_mut().shard_mut(keyspace.shard_of(hash)) else { continue };
        match expired {
            true => shard.mark_expired(*database, key),
            false if simulation::has_fault(Fault::UnmarkedWatch) => {}
            false => shard.mark_watchers(*database, key),
        }
        if !shard.tracked.is_empty()
            && let Some(holders) = shard.tracked.take(hash, key)
        {
            tracking::invalidate(outbox, key, &holders, by);
        }
        if keyspace.tracked().notes_all() {
            outbox.note_changed(key, by);
        }
    }
}

#[inline]
fn settle_counts(engine: &Engine, worker: usize, counts: Counts) {
    if counts.dirty > 0 {
        engine.persistence.dirty.add(worker, counts.dirty);
    }
    let counters = &engine.stats.workers[worker];
    if counts.hits > 0 {
        stats::add(&counters.keyspace_hits, counts.hits);
    }
    if counts.misses > 0 {
        stats::add(&counters.keyspace_misses, counts.misses);
    }
}

/// Removes the keys that lookups found expired, and merges what that causes before what the command caused.
fn remove_expired(access: &mut Access<'_>, mut effects: Effects, to_free: &mut LazyFree) -> Effects {
    let current = access.database();
    for (database, key) in std::mem::take(&mut effects.expired) {
        access.select(database);
        access.remove_if_expired(&key);
    }
    access.select(current);
    let mut removal = access.take_effects();
    to_free.entries.append(&mut removal.to_free.entries);
    removal.events.append(&mut effects.events);
    effects.changed.append(&mut removal.changed);
    effects.events = removal.events;
    effects.changed_by_expiry.append(&mut removal.changed_by_expiry);
    effects.ready.append(&mut removal.ready);
    effects.removed_expired.append(&mut removal.removed_expired);
    effects.expired_count += removal.expired_count;
    effects.expired_fields_count += removal.expired_fields_count;
    effects
}

fn publish_event(engine: &Engine, outbox: &mut Outbox, notify: u32, event: &Event) {
    if !engine.pubsub.has_subscribers() {
        return;
    }
    let mut send = |target, bytes| outbox.push(target, bytes);
    if notify & EventClass::KEYSPACE.0 != 0 {
        let channel = [format!("__keyspace@{}__:", event.database).as_bytes(), &event.key].concat();
        engine.pubsub.publish(Scope::Channel, &channel, event.name.as_bytes(), &mut send);
    }
    if notify & EventClass::KEYEVENT.0 != 0 {
        let channel = format!("__keyevent@{}__:{}", event.database, event.name);
        engine.pubsub.publish(Scope::Channel, channel.as_bytes(), &event.key, &mut send);
    }
}

/// Appends the unit to the log. `access` has the shards locked that it is about.
fn append(engine: &Engine, outbox: &mut Outbox, access: &mut Access<'_>) {
    if simulation::has_fault(Fault::LateLog) {
        return;
    }
    if engine.replication.is_replica() || outbox.is_cut {
        // A replica's log is its primary's stream: what its own clients write is not in it.
        outbox.unit.clear();
        outbox.is_cut = false;
    }
    if !outbox.unit.is_empty() {
        let lsn = engine.log.append(&mut outbox.unit, access.clock_ms() / 1000);
        note_appended(engine, outbox, access, lsn);
    } else if outbox.holds_replies() {
        outbox.required_lsn = outbox.required_lsn.max(access.locked_mut().logged_at());
        outbox.send_waiting();
    }
}

/// Appends a command as a unit of its own if that takes no more than a copy of the client's bytes. False if
/// it is still to be appended.
#[inline]
fn append_request(
    engine: &Engine,
    outbox: &mut Outbox,
    access: &mut Access<'_>,
    (database, args): (usize, Args<'_>),
) -> bool {
    if !outbox.unit.takes_first() || engine.replication.is_replica() || simulation::has_fault(Fault::LateLog)
    {
        return false;
    }
    let append = |command| engine.log.append_encoded(database, command, access.clock_ms() / 1000);
    let Some(lsn) = args.encoded().and_then(append) else { return false };
    note_appended(engine, outbox, access, lsn);
    true
}

/// Notes the LSN behind what the present command has appended.
#[inline]
fn note_appended(engine: &Engine, outbox: &mut Outbox, access: &mut Access<'_>, lsn: Lsn) {
    outbox.note_logged(lsn);
    if engine.aof.holds_replies() {
        access.locked_mut().note_logged(lsn);
        if outbox.holds_replies() {
            outbox.required_lsn = lsn;
        }
    }
    outbox.send_waiting();
}

/// Serves the clients that are blocked on a key, first come, first served, while it has elements for them.
/// Returns the keys that this made ready for others.
fn serve_key(
    engine: &Engine,
    outbox: &mut Outbox,
    access: &mut Access<'_>,
    database: usize,
    key: &[u8],
    to_free: &mut LazyFree,
) -> Vec<(usize, Box<[u8]>)> {
    let index = access.keyspace().shard_of(access.keyspace().hash(key));
    let current = access.database();
    let mut ready = Vec::new();
    let mut after = 0;
    access.select(database);
    if access.remove_if_expired(key) {
        let effects = access.take_effects();
        ready.extend(apply(engine, outbox, access, effects, None, to_free));
    }
    loop {
        let kind = access.kind(key);
        let Some(shard) = access.locked_mut().shard_mut(index) else { break };
        if kind.is_none() && !shard.has_loss_waiters(database, key) {
            break;
        }
        let Some((ticket, waiter)) = shard.next_waiter(database, key, after) else { break };
        after = ticket;
        if kind != Some(waiter.kind) && !waiter.on_loss {
            continue;
        }
        let blocked = engine.blocked.lock().get(&waiter.client).cloned();
        let Some(blocked) = blocked.filter(|blocked| blocked.ticket == ticket) else {
            shard.stop_waiting(database, key, ticket);
            continue;
        };
        if let Some(mut effects) = serve_client(engine, outbox, access, &blocked) {
            to_free.append(std::mem::take(&mut effects.to_free));
            let by = outbox.current.replace(blocked.session.id);
            let command = Some((blocked.database, blocked.args.as_args()));
            ready.extend(apply(engine, outbox, access, effects, command, to_free));
            outbox.current = by;
            if blocked.remembers_reads && blocked.session.has(flag::TRACKING) {
                let keys_max = engine.active_config().config.tracking_table_max_keys;
                let (session, command) = (&blocked.session, blocked.command);
                tracking::remember(outbox, access, session, command, blocked.args.as_args(), keys_max);
            }
            if let Some(shard) = access.locked_mut().shard_mut(index) {
                shard.stop_waiting(database, key, ticket);
            }
            engine.blocked.lock().remove(&blocked.session.id);
        }
    }
    access.select(current);
    ready
}

/// Runs a blocked client's command again. If it no longer blocks, sends its reply and returns its effects.
fn serve_client(
    engine: &Engine,
    outbox: &mut Outbox,
    access: &mut Access<'_>,
    blocked: &BlockedClient,
) -> Option<Effects> {
    let mut waiting = blocked.waiting.lock();
    let Some(Handler::Data(handler)) = blocked.command.handler else { return None };
    if !*waiting {
        return None;
    }
    let mut reply = Reply::new(blocked.protocol);
    let mut effects = Effects::default();
    let began = clock::now();
    let mut outcome = admission::of_waiting(engine, blocked);
    let is_rejected = outcome.is_err();
    if !is_rejected {
        let mode = access.mode();
        access.set_mode(Mode { may_block: true, serving: true, no_touch: false, ..Mode::default() });
        outcome = fetch::bring(engine, access, blocked.command, blocked.args.as_args())
            .and_then(|()| handler(access, blocked.args.as_args(), &mut reply));
        access.set_mode(mode);
        effects = access.take_effects();
    }
    if let Some(blocking) = effects.blocking.take().filter(|_| outcome.is_ok()) {
        if let Some(at_ms) = blocking.again_at_ms {
            blocked.again_wanted_ms.store(at_ms, Ordering::Relaxed);
        }
        return None;
    }
    if let Err(error) = outcome {
        reply.truncate(0);
        reply.error_bytes(error.bytes());
    }
    *waiting = false;
    let target = *blocked.session.target.lock();
    let spent_ns = clock::since(began).as_nanos() as u64;
    let served = Served { reply: reply.into_bytes(), spent_ns, is_rejected, ends_session: false };
    outbox.send_served(target.worker, Message::Unblock(target.conn, served));
    Some(effects)
}
