//! Commands of a log that are run again: of an append-only file that is loaded, or of the stream of the
//! primary that this server follows. Nobody is asked whether they may run, and nothing expires meanwhile:
//! what has expired is removed by a command of the log.

use std::sync::Arc;

use mantissa_commands::Error;
use mantissa_config::PropagationError;
use mantissa_protocol::Args;

use crate::acl;
use crate::context::Context;
use crate::host::{ConnId, Peer, Target};
use crate::invocation::Command;
use crate::session::{Session, SharedSession};
use crate::{stats, warning};

/// Where a log comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An append-only file.
    File,
    /// The primary that this server follows.
    Primary,
}

/// A session for the commands of a log, whose user may do everything.
pub fn session(context: &Context) -> Session {
    let user = acl::superuser(context.engine.registry, &context.active.config);
    let shared = SharedSession::new(0, Peer::Embedded, -1, context.now_ms, Target::NOWHERE, &user);
    Session::new(Arc::new(shared), ConnId::NONE, true)
}

/// The command that a request of a log calls; the reason if there is none, or it cannot run like this.
#[inline]
pub fn command_of(context: &mut Context, args: Args<'_>) -> Result<&'static Command, String> {
    let command = context.resolve(args).or_else(|error| by_original_name(context, args, error));
    let command = command.map_err(|_| {
        let name = String::from_utf8_lossy(args.get(0).unwrap_or_default()).into_owned();
        format!("unknown command '{name}'")
    })?;
    if !command.info.accepts(args.len()) {
        return Err(format!("wrong number of arguments for '{}'", command.name));
    }
    if command.handler.is_none() {
        return Err(format!("'{}' is no command by itself", command.name));
    }
    Ok(command)
}

/// What a server logs by itself has the names that commands have without `rename-command`.
#[cold]
fn by_original_name(context: &Context, args: Args<'_>, error: Error) -> Result<&'static Command, Error> {
    match context.active.config.rename_commands.is_empty() {
        true => Err(error),
        false => context.engine.original_registry.resolve(args),
    }
}

/// Does about a command that failed what `propagation-error-behavior` says: an error is the end.
#[cold]
pub fn note_failure(context: &Context, origin: Origin, command: &str, error: &str) -> Result<(), String> {
    let (from, to) = match origin {
        Origin::File => ("AOF-loading-client", "server"),
        Origin::Primary => ("replica", "master"),
    };
    warning!(
        "== CRITICAL == This {from} is sending an error to its {to}: '-{error}' after processing the command \
         '{command}'"
    );
    stats::add(&context.engine.stats.workers[context.worker].unexpected_error_replies, 1);
    let config = &context.active.config;
    let is_end = match (config.propagation_error_behavior, origin) {
        (PropagationError::Ignore, _) | (PropagationError::PanicOnReplicas, Origin::File) => false,
        (PropagationError::Panic, Origin::File) => true,
        (_, Origin::Primary) => config.replica_read_only,
    };
    match is_end {
        false => Ok(()),
        true => Err(format!(
            "This {from} panicked sending an error to its {to} after processing the command '{command}'"
        )),
    }
}
