//! The line of figures that CLIENT LIST, CLIENT INFO and ACL LOG show of a client.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::engine::Engine;
use crate::invocation::Registry;
use crate::session::{BlockedClient, SharedSession, flag};

/// What a line needs beside the client itself: the commands, and the arguments of blocked ones. Made once for
/// all lines.
pub struct ClientFigures {
    registry: &'static Registry,
    blocked_argument_bytes: HashMap<u64, usize>,
}

impl ClientFigures {
    /// What the line of one client needs.
    pub fn of(engine: &Engine, session: u64) -> Self {
        let bytes = engine.blocked.lock().get(&session).map(|blocked| (session, blocked.args.memory_usage()));
        ClientFigures { registry: engine.registry, blocked_argument_bytes: bytes.into_iter().collect() }
    }

    /// What all lines need.
    pub fn new(engine: &Engine) -> Self {
        let blocked = engine.blocked.lock();
        let bytes = |(id, blocked): (&u64, &Arc<BlockedClient>)| (*id, blocked.args.memory_usage());
        ClientFigures {
            registry: engine.registry,
            blocked_argument_bytes: blocked.iter().map(bytes).collect(),
        }
    }

    /// The name of a client's last command.
    pub fn last_command(&self, session: &SharedSession) -> &'static str {
        let last_command = count(&session.last_command) as usize;
        let command = last_command.checked_sub(1).and_then(|index| self.registry.at_index(index));
        command.map_or("NULL", |command| command.registered_name())
    }

    /// Appends the line of a client, with its end.
    pub fn write_line(&self, out: &mut Vec<u8>, session: &SharedSession, now_ms: i64) {
        let seconds_since = |then_ms: i64| (now_ms - then_ms).max(0) / 1000;
        let identity = session.identity.lock().clone();
        let unsent = get(&session.output_bytes);
        let command = self.last_command(session);
        let worker = session.target.lock().worker;
        let head = format!(
            "id={} addr={} laddr={} fd={} name=",
            session.id,
            session.peer.remote_text(),
            session.peer.local_text(),
            session.descriptor
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&identity.name);
        let middle = format!(
            " age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} watch={} qbuf={} qbuf-free={} \
             argv-mem={} multi-mem={} rbs=0 rbp=0 obl=0 oll={} omem={unsent} tot-mem={} events={} \
             cmd={command} user=",
            seconds_since(session.connected_ms),
            seconds_since(session.active_ms.load(Ordering::Relaxed)),
            letters(session),
            count(&session.database),
            count(&session.channel_count),
            count(&session.pattern_count),
            count(&session.shard_channel_count),
            i64::from(count(&session.queued_plus_1)) - 1,
            count(&session.watched_count),
            get(&session.query_bytes),
            get(&session.query_free_bytes),
            self.blocked_argument_bytes.get(&session.id).copied().unwrap_or(0),
            get(&session.transaction_bytes) + get(&session.watched_bytes),
            u32::from(unsent > 0),
            get(&session.memory_bytes),
            if unsent > 0 { "rw" } else { "r" },
        );
        out.extend_from_slice(middle.as_bytes());
        out.extend_from_slice(&session.user.lock().name);
        let replies =
            format!(" redir={} resp={} lib-name=", session.redirect_shown(), count(&session.protocol));
        out.extend_from_slice(replies.as_bytes());
        out.extend_from_slice(&identity.library_name);
        out.extend_from_slice(b" lib-ver=");
        out.extend_from_slice(&identity.library_version);
        let tail = format!(
            " io-thread={worker} tot-net-in={} tot-net-out={} tot-cmds={}{}\n",
            get(&session.received_bytes),
            get(&session.sent_bytes),
            get(&session.command_count),
            // Valkey's, only for clients that Redis does not have.
            if session.has(flag::REDIRECTED) { " capa=r" } else { "" },
        );
        out.extend_from_slice(tail.as_bytes());
    }
}

fn get(figure: &AtomicU64) -> u64 {
    figure.load(Ordering::Relaxed)
}

fn count(figure: &AtomicU32) -> u32 {
    figure.load(Ordering::Relaxed)
}

/// The letters of a client's state, `flags=` of CLIENT LIST.
pub fn letters(session: &SharedSession) -> String {
    let is_dirty = session.watch_dirty.lock().as_ref().is_some_and(|dirty| dirty.load(Ordering::Relaxed));
    let all = [
        (session.has(flag::MONITOR), 'O'),
        (session.has(flag::REPLICA), 'S'),
        (session.has(flag::PRIMARY), 'M'),
        (session.has(flag::PUBSUB), 'P'),
        (session.has(flag::MULTI), 'x'),
        (session.has(flag::BLOCKED), 'b'),
        (session.has(flag::TRACKING), 't'),
        (session.has(flag::TRACKING_BROKEN), 'R'),
        (session.has(flag::TRACKING_BROADCAST), 'B'),
        (is_dirty, 'd'),
        (session.has(flag::UNIX), 'U'),
        (session.has(flag::READONLY), 'r'),
        (session.has(flag::NO_EVICT), 'e'),
        (session.has(flag::NO_TOUCH), 'T'),
    ];
    let letters: String = all.iter().filter(|(set, _)| *set).map(|(_, letter)| *letter).collect();
    if letters.is_empty() { "N".to_owned() } else { letters }
}
