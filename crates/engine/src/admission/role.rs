//! What a replica refuses: writes of its clients, and reads while its data are stale.

use mantissa_commands::slots::slot_of;
use mantissa_commands::spec::{Flags, Traits};
use mantissa_commands::{Error, Outcome, find_keys};
use mantissa_config::Config;
use mantissa_protocol::Args;

use super::{is_write, write_refusal};
use crate::context::Context;
use crate::engine::Engine;
use crate::invocation::Command;
use crate::session::{Session, SharedSession, flag};
use crate::state::failover::FailoverState;
use crate::state::replication::Address;

/// The refusal of writes on a replica.
pub const READ_ONLY: Error = Error::fixed("READONLY You can't write against a read only replica.");
/// No reply: the request waits until it is known who leads.
pub const AWAITS_ROLE: Error = Error::fixed("REDIRECT");
const STALE: Error =
    Error::fixed("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.");

/// Whether a request may run on a server of this role. Only a replica refuses any.
#[inline]
pub fn of_request(context: &Context, session: &Session, command: &Command, args: Args<'_>) -> Outcome {
    match context.engine.replication.is_replica() {
        false => Ok(()),
        true => on_replica(context, session, command, args),
    }
}

#[cold]
fn on_replica(context: &Context, session: &Session, command: &Command, args: Args<'_>) -> Outcome {
    if obeys(session) {
        return Ok(());
    }
    if Redirection::may_be(&context.active.config, &session.shared) {
        redirect(context, session, command, args)?;
    }
    let refuses = |command: &Command, args: Args<'_>| {
        if is_read_only(context) && is_write(context.engine, command, args) {
            return Err(READ_ONLY);
        }
        let script = context.engine.scripting.flags_of(command.info, args);
        let allows_stale = script.is_none_or(|flags| !flags.undeclared && flags.allow_stale);
        match is_stale(context) && !(allows_stale && command.info.flags.has(Flags::STALE)) {
            true => Err(STALE),
            false => Ok(()),
        }
    };
    match &session.transaction {
        Some(transaction) if command.info.traits.has(Traits::RUNS_QUEUE) => {
            transaction.queue.iter().try_for_each(|queued| refuses(queued.command, queued.args.as_args()))
        }
        _ => refuses(command, args),
    }
}

/// Sends a client that follows to the primary, unless it asks for no data.
fn redirect(context: &Context, session: &Session, command: &Command, args: Args<'_>) -> Outcome {
    let (engine, config) = (context.engine, &context.active.config);
    let sent =
        |command: &Command, args: Args<'_>| Redirection::of(engine, config, &session.shared, command, args);
    let redirection = match &session.transaction {
        Some(transaction) if command.info.traits.has(Traits::RUNS_QUEUE) => {
            transaction.queue.iter().find_map(|queued| sent(queued.command, queued.args.as_args()))
        }
        _ => sent(command, args),
    };
    let Some(redirection) = redirection else { return Ok(()) };
    // The target may be a replica yet, and would send the client back.
    if engine.replication.failover.state() == FailoverState::InProgress {
        return Err(AWAITS_ROLE);
    }
    engine.keyspace.release_kept();
    let primary = engine.replication.primary.lock().clone();
    primary.map_or(Ok(()), |address| Err(redirection.error(engine, &address)))
}

/// How a replica sends a client to its primary.
#[derive(Clone, Copy, Debug)]
pub enum Redirection {
    /// Of a client of a cluster: the slot of the first key.
    Moved(u16),
    /// Of a client that has said that it follows.
    Redirect,
}

impl Redirection {
    /// Whether a client follows to the primary: one of a cluster, or one that has said so (CLIENT CAPA
    /// REDIRECT).
    pub fn may_be(config: &Config, client: &SharedSession) -> bool {
        config.cluster_emulated || client.has(flag::REDIRECTED)
    }

    /// How a client is sent to the primary for this; `None` if it is not. It follows, and writes, or reads
    /// without READONLY.
    pub fn of(
        engine: &Engine,
        config: &Config,
        client: &SharedSession,
        command: &Command,
        args: Args<'_>,
    ) -> Option<Redirection> {
        let may_read = client.has(flag::READONLY);
        if config.cluster_emulated {
            if may_read && !is_write(engine, command, args) {
                return None;
            }
            let keys = find_keys(command.info, args).unwrap_or_default();
            return keys.first().map(|key| Redirection::Moved(slot_of(args.at(key.index))));
        }
        let reads = || command.info.flags.has(Flags::READONLY) && !may_read;
        let is_sent = client.has(flag::REDIRECTED) && (reads() || is_write(engine, command, args));
        is_sent.then_some(Redirection::Redirect)
    }

    /// The error that names the primary.
    pub fn error(self, engine: &Engine, primary: &Address) -> Error {
        match self {
            Redirection::Moved(slot) => {
                let Address { host, port } = engine.replication.link.endpoint(primary);
                Error::new(format!("MOVED {slot} {host}:{port}"))
            }
            Redirection::Redirect => Error::new(format!("REDIRECT {}:{}", primary.host, primary.port)),
        }
    }

    /// Whether an error is of [`Redirection::error`].
    pub fn is_error(error: &Error) -> bool {
        [&b"REDIRECT "[..], b"MOVED "].iter().any(|start| error.bytes().starts_with(start))
    }
}

/// Whether a command that a script calls may run on a server of this role.
pub fn in_script(context: &Context, session: &Session, command: &Command) -> Outcome {
    if !context.engine.replication.is_replica() || obeys(session) {
        return Ok(());
    }
    if is_stale(context) && !command.info.flags.has(Flags::STALE) {
        return Err(Error::fixed("ERR Can not execute the command on a stale replica"));
    }
    match is_read_only(context) && command.info.flags.has(Flags::WRITE) {
        true => Err(READ_ONLY),
        false => Ok(()),
    }
}

/// Whether the disk or the number of replicas keeps the writes of a transaction from running.
pub fn of_transaction(context: &Context, session: &Session) -> Outcome {
    let queue = session.transaction.as_ref().map(|transaction| &transaction.queue[..]).unwrap_or_default();
    let engine = context.engine;
    match queue.iter().any(|queued| is_write(engine, queued.command, queued.args.as_args())) {
        true => write_refusal(context.engine, &context.active.config),
        false => Ok(()),
    }
}

/// Whether everything that the session asks for is done: it is the primary.
fn obeys(session: &Session) -> bool {
    session.shared.has(flag::PRIMARY)
}

fn is_read_only(context: &Context) -> bool {
    context.active.config.replica_read_only
}

fn is_stale(context: &Context) -> bool {
    !context.active.config.replica_serve_stale_data && !context.engine.replication.link.is_up()
}
