//! The line of figures that CLIENT LIST, CLIENT INFO and ACL LOG show of a client.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use mantissa_number::{write_i64, write_u64};

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
        let seconds_since = |then_ms: i64| (now_ms - then_ms).max(0).cast_unsigned() / 1000;
        let unsent = get(&session.output_bytes);
        let number = |out: &mut Vec<u8>, name: &str, value: u64| {
            out.extend_from_slice(name.as_bytes());
            write_u64(out, value);
        };
        let text = |out: &mut Vec<u8>, name: &str, value: &[u8]| {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(value);
        };
        number(out, "id=", session.id);
        text(out, " addr=", b"");
        session.peer.remote_text().append_to(out);
        text(out, " laddr=", b"");
        session.peer.local_text().append_to(out);
        text(out, " fd=", b"");
        write_i64(out, session.descriptor.into());
        text(out, " name=", &session.identity.lock().name);
        number(out, " age=", seconds_since(session.connected_ms));
        number(out, " idle=", seconds_since(session.active_ms.load(Ordering::Relaxed)));
        text(out, " flags=", b"");
        write_letters(out, session);
        number(out, " db=", count(&session.database).into());
        number(out, " sub=", count(&session.channel_count).into());
        number(out, " psub=", count(&session.pattern_count).into());
        number(out, " ssub=", count(&session.shard_channel_count).into());
        text(out, " multi=", b"");
        write_i64(out, i64::from(count(&session.queued_plus_1)) - 1);
        number(out, " watch=", count(&session.watched_count).into());
        number(out, " qbuf=", get(&session.query_bytes));
        number(out, " qbuf-free=", get(&session.query_free_bytes));
        let argument_bytes = self.blocked_argument_bytes.get(&session.id).copied().unwrap_or(0);
        number(out, " argv-mem=", argument_bytes as u64);
        number(out, " multi-mem=", get(&session.transaction_bytes) + get(&session.watched_bytes));
        number(out, " rbs=0 rbp=0 obl=0 oll=", u64::from(unsent > 0));
        number(out, " omem=", unsent);
        number(out, " tot-mem=", get(&session.memory_bytes));
        text(out, " events=", if unsent > 0 { b"rw" } else { b"r" });
        text(out, " cmd=", self.last_command(session).as_bytes());
        text(out, " user=", &session.user.lock().name);
        text(out, " redir=", b"");
        write_i64(out, session.redirect_shown());
        number(out, " resp=", count(&session.protocol).into());
        text(out, " lib-name=", &session.identity.lock().library_name);
        text(out, " lib-ver=", &session.identity.lock().library_version);
        number(out, " io-thread=", session.target.lock().worker as u64);
        number(out, " tot-net-in=", get(&session.received_bytes));
        number(out, " tot-net-out=", get(&session.sent_bytes));
        number(out, " tot-cmds=", get(&session.command_count));
        // Valkey's, only for clients that Redis does not have.
        text(out, if session.has(flag::REDIRECTED) { " capa=r" } else { "" }, b"\n");
    }
}

fn get(figure: &AtomicU64) -> u64 {
    figure.load(Ordering::Relaxed)
}

fn count(figure: &AtomicU32) -> u32 {
    figure.load(Ordering::Relaxed)
}

/// The letters of a client's state, `flags=` of CLIENT LIST.
pub fn letters(session: &SharedSession) -> Vec<u8> {
    let mut letters = Vec::new();
    write_letters(&mut letters, session);
    letters
}

fn write_letters(out: &mut Vec<u8>, session: &SharedSession) {
    let is_dirty = session.watch_dirty.lock().as_ref().is_some_and(|dirty| dirty.load(Ordering::Relaxed));
    let all = [
        (session.has(flag::MONITOR), b'O'),
        (session.has(flag::REPLICA), b'S'),
        (session.has(flag::PRIMARY), b'M'),
        (session.has(flag::PUBSUB), b'P'),
        (session.has(flag::MULTI), b'x'),
        (session.has(flag::BLOCKED), b'b'),
        (session.has(flag::TRACKING), b't'),
        (session.has(flag::TRACKING_BROKEN), b'R'),
        (session.has(flag::TRACKING_BROADCAST), b'B'),
        (is_dirty, b'd'),
        (session.has(flag::UNIX), b'U'),
        (session.has(flag::READONLY), b'r'),
        (session.has(flag::NO_EVICT), b'e'),
        (session.has(flag::NO_TOUCH), b'T'),
    ];
    let before = out.len();
    out.extend(all.iter().filter(|(set, _)| *set).map(|(_, letter)| *letter));
    if out.len() == before {
        out.push(b'N');
    }
}
