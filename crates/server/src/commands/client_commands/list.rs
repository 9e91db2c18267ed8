//! CLIENT LIST and CLIENT INFO: one line of figures for each client.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use mantissa_commands::{Error, Outcome, parse};
use mantissa_protocol::{Args, Reply};

use crate::client::{ClientShared, flag};
use crate::registry::{Command, Registry};
use crate::server::Server;
use crate::session::Session;

/// The classes of clients that TYPE tells apart. There are no masters and replicas so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any that is none of the others.
    Normal,
    /// The connection to a master.
    Master,
    /// The connection of a replica.
    Replica,
    /// Subscribed to something.
    PubSub,
}

impl Kind {
    /// The class that an argument names.
    pub fn parse(name: &[u8]) -> Outcome<Kind> {
        Ok(match &name.to_ascii_lowercase()[..] {
            b"normal" => Kind::Normal,
            b"master" => Kind::Master,
            b"replica" | b"slave" => Kind::Replica,
            b"pubsub" => Kind::PubSub,
            _ => return Err(Error::quoting("ERR Unknown client type '", name, "'")),
        })
    }

    /// The class of a client.
    pub fn of(client: &ClientShared) -> Kind {
        if client.has(flag::PUBSUB) { Kind::PubSub } else { Kind::Normal }
    }
}

/// What a line needs beside the client itself: the names of commands by index, and the arguments of blocked
/// commands. Made once for all lines.
pub struct ClientFigures {
    command_names: &'static [&'static str],
    blocked_argument_bytes: HashMap<u64, usize>,
}

impl ClientFigures {
    /// What the line of one client needs.
    pub fn of(server: &'static Server, client: u64) -> Self {
        let bytes = server.blocked.lock().get(&client).map(|blocked| (client, blocked.args.memory_usage()));
        ClientFigures {
            command_names: command_names(&server.registry),
            blocked_argument_bytes: bytes.into_iter().collect(),
        }
    }

    /// What all lines need.
    pub fn new(server: &'static Server) -> Self {
        let blocked = server.blocked.lock();
        let bytes =
            |(id, blocked): (&u64, &Arc<crate::client::BlockedClient>)| (*id, blocked.args.memory_usage());
        ClientFigures {
            command_names: command_names(&server.registry),
            blocked_argument_bytes: blocked.iter().map(bytes).collect(),
        }
    }

    /// Appends the line of a client, with its end.
    pub fn write_line(&self, out: &mut Vec<u8>, client: &ClientShared, now_ms: i64) {
        let seconds_since = |then_ms: i64| (now_ms - then_ms).max(0) / 1000;
        let identity = client.identity.lock().clone();
        let unsent = get(&client.output_bytes);
        let last_command = count(&client.last_command) as usize;
        let command = self.command_names.get(last_command.wrapping_sub(1)).copied().unwrap_or("NULL");
        let worker = client.target.lock().worker;
        let head = format!(
            "id={} addr={} laddr={} fd={} name=",
            client.id,
            client.peer.remote_text(),
            client.peer.local_text(),
            client.descriptor
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&identity.name);
        let middle = format!(
            " age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} watch={} qbuf={} qbuf-free={} \
             argv-mem={} multi-mem={} rbs=0 rbp=0 obl=0 oll={} omem={unsent} tot-mem={} events={} \
             cmd={command} user=",
            seconds_since(client.connected_ms),
            seconds_since(client.active_ms.load(Ordering::Relaxed)),
            letters(client),
            count(&client.database),
            count(&client.channel_count),
            count(&client.pattern_count),
            count(&client.shard_channel_count),
            i64::from(count(&client.queued_plus_1)) - 1,
            count(&client.watched_count),
            get(&client.query_bytes),
            get(&client.query_free_bytes),
            self.blocked_argument_bytes.get(&client.id).copied().unwrap_or(0),
            get(&client.transaction_bytes) + get(&client.watched_bytes),
            u32::from(unsent > 0),
            get(&client.memory_bytes),
            if unsent > 0 { "rw" } else { "r" },
        );
        out.extend_from_slice(middle.as_bytes());
        out.extend_from_slice(&client.user.lock().name);
        let replies =
            format!(" redir={} resp={} lib-name=", client.redirect_shown(), count(&client.protocol));
        out.extend_from_slice(replies.as_bytes());
        out.extend_from_slice(&identity.library_name);
        out.extend_from_slice(b" lib-ver=");
        out.extend_from_slice(&identity.library_version);
        let tail = format!(
            " io-thread={worker} tot-net-in={} tot-net-out={} tot-cmds={}\n",
            get(&client.received_bytes),
            get(&client.sent_bytes),
            get(&client.command_count),
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

/// The full names of all commands, by index; empty where none has the index.
fn command_names(registry: &'static Registry) -> &'static [&'static str] {
    static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();
    NAMES.get_or_init(|| collect_names(registry))
}

fn collect_names(registry: &'static Registry) -> Vec<&'static str> {
    let mut names = vec![""; registry.index_count()];
    let mut add = |command: &'static Command| {
        if let Some(name) = names.get_mut(command.index) {
            *name = &command.name;
        }
    };
    for command in registry.iter() {
        add(command);
        command.subcommands.iter().for_each(&mut add);
    }
    names
}

/// The letters of a client's state.
fn letters(client: &ClientShared) -> String {
    let is_dirty = client.watch_dirty.lock().as_ref().is_some_and(|dirty| dirty.load(Ordering::Relaxed));
    let all = [
        (client.has(flag::MONITOR), 'O'),
        (client.has(flag::PUBSUB), 'P'),
        (client.has(flag::MULTI), 'x'),
        (client.has(flag::BLOCKED), 'b'),
        (client.has(flag::TRACKING), 't'),
        (client.has(flag::TRACKING_BROKEN), 'R'),
        (client.has(flag::TRACKING_BROADCAST), 'B'),
        (is_dirty, 'd'),
        (client.has(flag::UNIX), 'U'),
        (client.has(flag::NO_EVICT), 'e'),
        (client.has(flag::NO_TOUCH), 'T'),
    ];
    let letters: String = all.iter().filter(|(set, _)| *set).map(|(_, letter)| *letter).collect();
    if letters.is_empty() { "N".to_owned() } else { letters }
}

pub(super) fn info(session: &mut Session<'_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut line = Vec::new();
    let figures = ClientFigures::of(session.server(), session.client.shared.id);
    figures.write_line(&mut line, &session.client.shared, session.context.now_ms);
    reply.verbatim("txt", &line);
    Ok(())
}

pub(super) fn list(session: &mut Session<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let server = session.server();
    let clients = server.clients.read();
    let chosen: Vec<Arc<ClientShared>> = match args.get(2) {
        None => clients.values().cloned().collect(),
        Some(option) if parse::is(option, "TYPE") && args.len() == 4 => {
            let kind = Kind::parse(args.at(3))?;
            clients.values().filter(|client| Kind::of(client) == kind).cloned().collect()
        }
        Some(option) if parse::is(option, "ID") && args.len() > 3 => {
            let mut chosen = Vec::new();
            for id in args.from(3) {
                let id = parse::integer_or(id, "ERR Invalid client ID")?;
                chosen.extend(u64::try_from(id).ok().and_then(|id| clients.get(&id)).cloned());
            }
            chosen
        }
        Some(_) => return Err(Error::SYNTAX),
    };
    drop(clients);
    let figures = ClientFigures::new(server);
    let mut lines = Vec::new();
    for client in chosen {
        figures.write_line(&mut lines, &client, session.context.now_ms);
    }
    reply.verbatim("txt", &lines);
    Ok(())
}
