//! CLIENT LIST and CLIENT INFO: one line of figures for each client.

use std::sync::Arc;

use mantissa_commands::{Error, Outcome, parse};
use mantissa_protocol::{Args, Reply};

use crate::client_figures::ClientFigures;
use crate::invocation::Invocation;
use crate::session::{SharedSession, flag};

/// The classes of clients that TYPE tells apart.
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
    pub fn of(session: &SharedSession) -> Kind {
        match () {
            () if session.has(flag::PRIMARY) => Kind::Master,
            () if session.has(flag::REPLICA) => Kind::Replica,
            () if session.has(flag::PUBSUB) => Kind::PubSub,
            () => Kind::Normal,
        }
    }
}

pub(super) fn info(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut line = Vec::new();
    let figures = ClientFigures::of(invocation.engine(), invocation.session.shared.id);
    figures.write_line(&mut line, &invocation.session.shared, invocation.context.now_ms);
    reply.verbatim("txt", &line);
    Ok(())
}

pub(super) fn list(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let engine = invocation.engine();
    let clients = engine.clients.read();
    let chosen: Vec<Arc<SharedSession>> = match args.get(2) {
        None => clients.values().cloned().collect(),
        Some(option) if parse::is(option, "TYPE") && args.len() == 4 => {
            let kind = Kind::parse(args.at(3))?;
            clients.values().filter(|session| Kind::of(session) == kind).cloned().collect()
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
    let figures = ClientFigures::new(engine);
    let mut lines = Vec::new();
    for session in chosen {
        figures.write_line(&mut lines, &session, invocation.context.now_ms);
    }
    reply.verbatim("txt", &lines);
    Ok(())
}
