//! CLIENT LIST and CLIENT INFO: one line of figures for each client.

use std::sync::Arc;

use mantissa_commands::{Error, Outcome, parse};
use mantissa_protocol::{Args, Reply};

use super::filters::Filters;
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
            b"master" | b"primary" => Kind::Master,
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
    let chosen = chosen(invocation, args)?;
    let figures = ClientFigures::new(invocation.engine());
    let mut lines = Vec::new();
    for session in chosen {
        figures.write_line(&mut lines, &session, invocation.context.now_ms);
    }
    reply.verbatim("txt", &lines);
    Ok(())
}

/// The clients that LIST shows.
fn chosen(invocation: &Invocation<'_, '_, '_>, args: Args<'_>) -> Outcome<Vec<Arc<SharedSession>>> {
    let engine = invocation.engine();
    match args.get(2) {
        Some(_) if args.len() == 3 => return Err(Error::SYNTAX),
        // No further filter is complete, and Redis does not look at the type.
        Some(option) if args.len() == 5 && parse::is(option, "TYPE") => return Err(Error::SYNTAX),
        Some(option) if parse::is(option, "ID") => {
            let ids: Vec<i64> = args.from(3).into_iter().map_while(|id| parse::integer(id).ok()).collect();
            match args.get(3 + ids.len()) {
                // As Redis has it: in the order given, also twice, and any number.
                None => {
                    let clients = engine.clients.read();
                    let known = |id| u64::try_from(id).ok().and_then(|id| clients.get(&id)).cloned();
                    return Ok(ids.into_iter().filter_map(known).collect());
                }
                Some(next) if !ids.is_empty() && Filters::is_name(next) => {}
                Some(_) => return Err(Error::fixed("ERR Invalid client ID")),
            }
        }
        _ => {}
    }
    let mut filters = Filters::all(true);
    filters.add(engine, args, 2)?;
    let (me, now_ms) = (invocation.session.shared.id, invocation.context.now_ms);
    let clients = engine.clients.read();
    Ok(clients.values().filter(|session| filters.pass(session, me, now_ms)).cloned().collect())
}
