//! Client-side caching: which clients hold copies of what, and the messages that make copies invalid.
//!
//! In the default mode the keys that a client reads are noted in their shards
//! ([`mantissa_store::TrackedKeys`]), under the locks of the read, so that no change can slip in between. The
//! commit of the first change of such a key sends one message to each of its holders and forgets it. In the
//! broadcasting mode nothing is noted: the changes of all keys with one of the client's prefixes are told,
//! those of one event-loop iteration of a worker together.
//!
//! A message never comes before the reply of the read that caused it: both leave through the client's worker,
//! and the reply does so first. One about a change of the client's own comes after the reply of that change.
//!
//! While no client tracks keys, a read costs the test of a flag of its client, and a write that of its shard
//! and one of the keyspace. Tracking costs time for clients that track and for writes of keys that they
//! hold; there is no lock beside those that a command takes anyway. The number of keys is bounded by
//! `tracking-table-max-keys`: keys that are dropped are told as if they had changed.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_commands::spec::{Flags, Traits};
use mantissa_commands::{Access, find_keys};
use mantissa_protocol::{Args, Protocol, Reply};
use mantissa_store::{Holders, ShardSet};

use crate::context::{Context, Outbox};
use crate::engine::Engine;
use crate::invocation::Command;
use crate::session::{Session, SharedSession, flag};

/// The channel on which clients that speak RESP2 get the messages of others.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// Keys that are dropped at most after a command, or in one round of the background, if there are too many.
const DROPPED_MAX: usize = 1000;

/// Connected clients by number.
type Clients = BTreeMap<u64, Arc<SharedSession>>;

/// What CLIENT TRACKING ON asks for.
#[derive(Clone, Copy)]
pub struct Mode {
    /// Bits of [`flag`].
    pub flags: u32,
    /// The client that gets the messages; 0 for the client itself.
    pub redirect: u64,
}

/// Turns tracking on for a client, or changes how.
pub fn turn_on(engine: &Engine, session: &mut Session, mode: Mode, prefixes: &[&[u8]]) {
    let shared = &session.shared;
    if !shared.has(flag::TRACKING) {
        engine.tracking.client_count.fetch_add(1, Ordering::Relaxed);
    }
    shared.mark(flag::ALL_TRACKING, false);
    shared.redirect.store(mode.redirect, Ordering::Relaxed);
    if let Some(receiver) = engine.clients.read().get(&mode.redirect) {
        receiver.mark(flag::GETS_MESSAGES, true);
    }
    let tracker = session.tracker.get_or_insert_default();
    if mode.flags & flag::TRACKING_BROADCAST != 0 {
        let mut known = engine.tracking.prefixes.write();
        let all: &[&[u8]] = if prefixes.is_empty() { &[b""] } else { prefixes };
        for &prefix in all {
            if tracker.prefixes.insert(prefix.into()) {
                let bytes = 2 * (size_of::<Box<[u8]>>() + prefix.len());
                shared.prefix_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            known.entry(prefix.into()).or_default().insert(shared.id);
        }
        engine.keyspace.tracked().note_all(true);
    }
    shared.mark(flag::TRACKING | mode.flags, true);
}

/// Turns tracking off for a client, if it is on.
pub fn turn_off(engine: &Engine, session: &mut Session) {
    let Some(tracker) = session.tracker.take() else { return };
    let shared = &session.shared;
    if shared.has(flag::TRACKING) {
        engine.tracking.client_count.fetch_sub(1, Ordering::Relaxed);
    }
    shared.mark(flag::ALL_TRACKING, false);
    shared.redirect.store(0, Ordering::Relaxed);
    shared.prefix_bytes.store(0, Ordering::Relaxed);
    if tracker.prefixes.is_empty() {
        return;
    }
    let mut known = engine.tracking.prefixes.write();
    for prefix in &tracker.prefixes {
        if let Some(clients) = known.get_mut(prefix) {
            clients.remove(&shared.id);
            if clients.is_empty() {
                known.remove(prefix);
            }
        }
    }
    engine.keyspace.tracked().note_all(!known.is_empty());
}

/// Notes the keys that a client's command has read. Their shards are still locked. `keys_max` is
/// `tracking-table-max-keys`.
#[cold]
pub fn remember(
    outbox: &mut Outbox,
    access: &mut Access<'_>,
    session: &SharedSession,
    command: &Command,
    args: Args<'_>,
    keys_max: usize,
) {
    if !command.info.flags.has(Flags::READONLY) || command.info.script.is_some() {
        return;
    }
    let (keyspace, engine) = (access.keyspace(), outbox.engine());
    let is_there = |id: u64| engine.clients.read().get(&id).is_some_and(|other| remembers(other));
    let mut random = random_numbers(access.random());
    for position in find_keys(command.info, args).unwrap_or_default() {
        let key = args.at(position.index);
        let hash = keyspace.hash(key);
        let Some(shard) = access.locked_mut().shard_mut(keyspace.shard_of(hash)) else { continue };
        shard.tracked.add(hash, key, session.id, is_there);
        // Two are dropped for each that is added, so that the number falls to a bound that was lowered.
        for _ in 0..2 {
            if keys_max > 0 && keyspace.tracked().keys() > keys_max {
                let dropped = shard.tracked.take_random(Some(key), &mut random);
                dropped.into_iter().for_each(|(key, holders)| invalidate(outbox, &key, &holders, None));
            }
        }
    }
}

fn random_numbers(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ (state >> 32)
    }
}

/// Whether reads of a client may be noted.
fn remembers(session: &SharedSession) -> bool {
    session.has(flag::TRACKING) && !session.has(flag::TRACKING_BROADCAST)
}

/// To be called after a command of a client with tracking. CLIENT CACHING counts for one command; surplus
/// keys are dropped. No shard is locked.
#[cold]
pub fn command_ended(context: &mut Context, session: &mut Session, command: Option<&Command>) {
    let keeps = command.is_some_and(|command| command.info.traits.has(Traits::KEEPS_CACHING));
    if let Some(tracker) = &mut session.tracker
        && session.transaction.is_none()
        && !keeps
    {
        tracker.caching = None;
    }
    drop_surplus(context);
}

/// Drops keys if there are more than `tracking-table-max-keys`, a bounded number of them. Shards that are in
/// use are left alone.
pub fn drop_surplus(context: &mut Context) {
    let engine = context.engine;
    let (keys_max, tracked) = (context.active.config.tracking_table_max_keys, engine.keyspace.tracked());
    if keys_max == 0 || tracked.keys() <= keys_max {
        return;
    }
    let mut random = random_numbers(context.random_state);
    context.random_state = random();
    let shard_count = engine.keyspace.shard_count();
    let first = context.random_state as usize % shard_count;
    let mut dropped = 0;
    for index in (0..shard_count).map(|step| (first + step) % shard_count) {
        let Ok(mut locked) = engine.keyspace.try_lock(ShardSet::one(index)) else { continue };
        let Some(shard) = locked.shard_mut(index) else { continue };
        let share = shard.tracked.len().div_ceil(4);
        for _ in 0..share {
            if tracked.keys() <= keys_max || dropped >= DROPPED_MAX {
                return;
            }
            let Some((key, holders)) = shard.tracked.take_random(None, &mut random) else { break };
            dropped += 1;
            invalidate(&mut context.outbox, &key, &holders, None);
        }
    }
}

/// Sends an invalidation message for a key to its holders. `by` is the client that changed it. The key's
/// shard is locked.
#[cold]
pub fn invalidate(outbox: &mut Outbox, key: &[u8], holders: &Holders, by: Option<u64>) {
    let clients = outbox.engine().clients.read();
    let keys = [key];
    let mut notice = Notice::new(Some(&keys));
    holders.for_each(|id| {
        let Some(session) = clients.get(&id).filter(|session| remembers(session)) else { return };
        if by != Some(id) || !session.has(flag::TRACKING_NO_LOOP) {
            notice.send(outbox, &clients, session);
        }
    });
}

/// Invalidates all keys, for all clients.
#[cold]
pub fn invalidate_all(outbox: &mut Outbox) {
    let engine = outbox.engine();
    if engine.tracking.client_count() == 0 {
        return;
    }
    let clients = engine.clients.read();
    let mut notice = Notice::new(None);
    for session in clients.values().filter(|session| session.has(flag::TRACKING)) {
        notice.send(outbox, &clients, session);
    }
}

/// Sends the keys that have changed since the last call to the clients in broadcasting mode.
#[cold]
pub fn broadcast(outbox: &mut Outbox) {
    let changed = outbox.take_changed();
    let engine = outbox.engine();
    let (prefixes, clients) = (engine.tracking.prefixes.read(), engine.clients.read());
    for (prefix, ids) in prefixes.iter() {
        let from = (Bound::Included(&**prefix), Bound::Unbounded);
        let told = || {
            let keys = changed.range::<[u8], _>(from);
            keys.take_while(|(key, _)| key.starts_with(prefix)).map(|(key, by)| (&**key, *by))
        };
        let all: Vec<&[u8]> = told().map(|(key, _)| key).collect();
        if all.is_empty() {
            continue;
        }
        let mut notice = Notice::new(Some(&all));
        for &id in ids {
            let Some(session) = clients.get(&id).filter(|session| session.has(flag::TRACKING_BROADCAST))
            else {
                continue;
            };
            if !session.has(flag::TRACKING_NO_LOOP) {
                notice.send(outbox, &clients, session);
                continue;
            }
            let others: Vec<&[u8]> = told().filter(|(_, by)| *by != Some(id)).map(|(key, _)| key).collect();
            if !others.is_empty() {
                Notice::new(Some(&others)).send(outbox, &clients, session);
            }
        }
    }
}

/// The message that copies of keys are invalid, encoded at most once for each form that it takes.
struct Notice<'a> {
    /// `None` means all keys.
    keys: Option<&'a [&'a [u8]]>,
    push: Option<Arc<[u8]>>,
    publication: Option<Arc<[u8]>>,
}

impl<'a> Notice<'a> {
    fn new(keys: Option<&'a [&'a [u8]]>) -> Self {
        Notice { keys, push: None, publication: None }
    }

    /// Sends it to a client that tracks, or to the one in its place. One that can take no messages gets none.
    fn send(&mut self, outbox: &mut Outbox, clients: &Clients, session: &SharedSession) {
        let redirect = session.redirect.load(Ordering::Relaxed);
        let receiver = match redirect {
            0 => Some(session),
            id => clients.get(&id).map(|receiver| &**receiver),
        };
        match receiver {
            None => {
                session.mark(flag::TRACKING_BROKEN, true);
                if is_resp3(session) {
                    let mut message = Reply::new(Protocol::Resp3);
                    message.push(2);
                    message.bulk(b"tracking-redir-broken");
                    message.integer(redirect as i64);
                    outbox.push_behind(session, message.into_bytes().into());
                }
            }
            Some(receiver) if is_resp3(receiver) => {
                let keys = self.keys;
                let bytes = self.push.get_or_insert_with(|| encode(Protocol::Resp3, &[b"invalidate"], keys));
                outbox.push_behind(receiver, Arc::clone(bytes));
            }
            Some(receiver) if redirect != 0 && receiver.has(flag::PUBSUB) => {
                let keys = self.keys;
                let encoded = || encode(Protocol::Resp2, &[b"message", CHANNEL], keys);
                outbox.push_behind(receiver, Arc::clone(self.publication.get_or_insert_with(encoded)));
            }
            Some(_) => {}
        }
    }
}

fn encode(protocol: Protocol, words: &[&[u8]], keys: Option<&[&[u8]]>) -> Arc<[u8]> {
    let mut message = Reply::new(protocol);
    message.push(words.len() + 1);
    words.iter().for_each(|word| message.bulk(word));
    match keys {
        Some(keys) => {
            message.array(keys.len());
            keys.iter().for_each(|key| message.bulk(key));
        }
        None => message.null(),
    }
    message.into_bytes().into()
}

fn is_resp3(session: &SharedSession) -> bool {
    session.protocol.load(Ordering::Relaxed) == 3
}
