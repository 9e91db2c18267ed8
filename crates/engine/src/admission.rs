//! Whether a call may run: one list of checks for each way in which calls come.
//!
//! A request of a client passes [`of_request`] when it comes in. If it is queued in a transaction it passes
//! [`of_queued`] when that runs, since rights may have changed. A command that a script calls passes
//! [`of_script`]. A client that is blocked passes [`of_waiting`] before it is served. A log that is loaded
//! holds what was admitted before.

mod rights;
mod role;

use std::sync::atomic::Ordering;

use mantissa_commands::spec::{Flags, Traits};
use mantissa_commands::{Error, Locks, Outcome};
use mantissa_protocol::{Args, Protocol};

use crate::context::Context;
use crate::engine::Engine;
use crate::invocation::{Command, Handler};
use crate::session::{BlockedClient, Session, flag};
use mantissa_config::Config;

pub use rights::{check_found, check_options, note_failed_login, try_run};
pub use role::{AWAITS_ROLE, READ_ONLY, Redirection};

/// The refusal of commands that may need memory when there is none.
pub const OUT_OF_MEMORY: Error = Error::fixed("OOM command not allowed when used memory > 'maxmemory'.");
/// The refusal of commands on data while files are loaded.
pub const LOADING: Error = Error::fixed("LOADING Redis is loading the dataset in memory");

/// Whether a client's request may run or be queued now; the error to reply if not.
pub fn of_request(
    context: &Context,
    session: &Session,
    command: &'static Command,
    args: Args<'_>,
) -> Outcome {
    let info = command.info;
    if !info.accepts(args.len()) {
        return Err(Error::arity(&command.name));
    }
    if !session.authenticated && !info.flags.has(Flags::NO_AUTH) && context.engine.acl.needs_login() {
        return Err(Error::fixed("NOAUTH Authentication required."));
    }
    if session.transaction.is_some() {
        if info.flags.has(Flags::NO_MULTI) {
            return Err(Error::fixed("ERR Command not allowed inside a transaction"));
        }
        if info.flags.has(Flags::PROTECTED) {
            of_protected(context, session, info.traits.has(Traits::DEBUGS))?;
        }
    }
    if !session.user.is_unrestricted() {
        rights::admit(context, session, command, args)?;
    }
    if context.out_of_memory && may_need_memory(context.engine, session, command, args) {
        return Err(OUT_OF_MEMORY);
    }
    role::of_request(context, session, command, args)?;
    if session.protocol == Protocol::Resp2
        && session.is_subscribed()
        && !command.info.traits.has(Traits::WHILE_SUBSCRIBED)
    {
        return Err(Error::new(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
             allowed in \
             this context",
            command.shown_name()
        )));
    }
    let persistence = &context.engine.persistence;
    if persistence.loading.load(Ordering::Relaxed) && !info.flags.has(Flags::LOADING) {
        return Err(LOADING);
    }
    if context.engine.scripting.is_busy() && !info.flags.has(Flags::ALLOW_BUSY) {
        // Of the rest, commands on keys run if a slow script does not hold their shards. Transactions do not.
        let is_by_keys = matches!(command.handler, Some(Handler::Data(_))) && info.locks == Locks::Keys;
        if !is_by_keys || session.transaction.is_some() {
            return Err(context.engine.scripting.busy_error());
        }
    }
    if session.shared.has(flag::MONITOR) {
        refuse_monitor(command)?;
    }
    if info.traits.has(Traits::RUNS_QUEUE) {
        return role::of_transaction(context, session);
    }
    if info.traits.has(Traits::TELLS_HEALTH) {
        disk_refusal(context.engine, &context.active.config)?;
    }
    check_disk(context, command, args)
}

/// Whether the client may run DEBUG, or MODULE. The handlers ask; in a transaction these commands are refused
/// before they are queued.
pub fn of_protected(context: &Context, session: &Session, debugs: bool) -> Outcome {
    let config = &context.active.config;
    let (allowed, name) = match debugs {
        true => (config.enable_debug_command, "debug"),
        false => (config.enable_module_command, "module"),
    };
    if allowed.allows(session.shared.peer.is_loopback()) {
        return Ok(());
    }
    Err(Error::new(format!(
        "ERR {} command not allowed. If the enable-{name}-command option is set to \"local\", you can run it \
         from a local connection, otherwise you need to set this option in the configuration file, and then \
         restart the server.",
        name.to_ascii_uppercase()
    )))
}

/// Refuses what uses the keyspace to a client that monitors: Redis takes it for a replica.
#[cold]
fn refuse_monitor(command: &Command) -> Outcome {
    let refused = [Flags::READONLY, Flags::WRITE, Flags::MAY_REPLICATE];
    match refused.into_iter().any(|flag| command.info.flags.has(flag)) {
        true => Err(Error::fixed("ERR Replica can't interact with the keyspace")),
        false => Ok(()),
    }
}

/// Whether a script or function that declares its flags may write by these; none for other commands.
fn declares_writes(engine: &Engine, command: &Command, args: Args<'_>) -> Option<bool> {
    let flags = engine.scripting.flags_of(command.info, args)?;
    (!flags.undeclared).then_some(!flags.no_writes)
}

/// Whether a command is a write.
pub fn is_write(engine: &Engine, command: &Command, args: Args<'_>) -> bool {
    declares_writes(engine, command, args).unwrap_or_else(|| command.info.flags.has(Flags::WRITE))
}

/// Whether a command may write, or send what goes to replicas.
pub fn may_replicate(engine: &Engine, command: &Command, args: Args<'_>) -> bool {
    let flags = command.info.flags;
    declares_writes(engine, command, args)
        .unwrap_or_else(|| flags.has(Flags::WRITE) || flags.has(Flags::MAY_REPLICATE))
}

/// Whether a command is refused when memory is full and nothing can be evicted.
fn may_need_memory(engine: &Engine, session: &Session, command: &Command, args: Args<'_>) -> bool {
    any_of(session, command, args, |command, args| {
        command.info.flags.has(Flags::DENYOOM) || engine.scripting.needs_memory(command.info, args)
    })
}

/// Whether a command may add data: it waits while the disk is behind. So do scripts that do not say that they
/// only read, whatever they do when memory is full.
pub fn may_add(engine: &Engine, session: &Session, command: &Command, args: Args<'_>) -> bool {
    any_of(session, command, args, |command, args| {
        let (info, flags) = (command.info, command.info.flags);
        let may_write = || declares_writes(engine, command, args).unwrap_or(!flags.has(Flags::READONLY));
        flags.has(Flags::DENYOOM) || info.script.is_some() && may_write()
    })
}

/// Whether something holds for a command, or for one of those that it runs of a transaction.
fn any_of(
    session: &Session,
    command: &Command,
    args: Args<'_>,
    holds: impl Fn(&Command, Args<'_>) -> bool,
) -> bool {
    match &session.transaction {
        Some(transaction) if command.info.traits.has(Traits::RUNS_QUEUE) => {
            transaction.queue.iter().any(|queued| holds(queued.command, queued.args.as_args()))
        }
        _ => holds(command, args),
    }
}

/// Refuses writes while the log cannot be written, and, with `stop-writes-on-bgsave-error`, while dumps fail.
#[inline]
pub fn check_disk(context: &Context, command: &Command, args: Args<'_>) -> Outcome {
    if !command.info.flags.has(Flags::WRITE) && command.info.script.is_none() {
        return Ok(());
    }
    write_refusal(context.engine, &context.active.config)
        .or_else(|refusal| refuse_if_write(context, command, args, refusal))
}

#[cold]
fn refuse_if_write(context: &Context, command: &Command, args: Args<'_>, refusal: Error) -> Outcome {
    match is_write(context.engine, command, args) {
        true => Err(refusal),
        false => Ok(()),
    }
}

/// The refusal of writes while too few replicas keep up: `min-replicas-to-write`.
pub const TOO_FEW_REPLICAS: Error = Error::fixed("NOREPLICAS Not enough good replicas to write.");

/// Why writes are not accepted: the disk does not take them, or too few replicas do.
pub fn write_refusal(engine: &Engine, config: &Config) -> Outcome {
    disk_refusal(engine, config)?;
    match engine.replication.lacks(config.min_replicas_to_write, config.min_replicas_max_lag) {
        true => Err(TOO_FEW_REPLICAS),
        false => Ok(()),
    }
}

/// Why the disk keeps writes from being accepted; nothing if it does not.
pub fn disk_refusal(engine: &Engine, config: &Config) -> Outcome {
    engine.aof.write_refusal()?;
    if engine.persistence.last_save_failed.load(Ordering::Relaxed)
        && config.stop_writes_on_bgsave_error
        && !config.save_points.is_empty()
    {
        return Err(Error::fixed(
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to \
             disk. \
             Commands that may modify the data set are disabled, because this instance is configured to \
             report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). \
             Please check the \
             Redis logs for details about the RDB error.",
        ));
    }
    Ok(())
}

/// Whether a command that was queued may still run, when its transaction does.
/// A refusal is noted if `is_noted`.
pub fn of_queued(
    context: &Context,
    session: &Session,
    command: &Command,
    args: Args<'_>,
    is_noted: bool,
) -> Outcome {
    match session.user.is_unrestricted() {
        true => Ok(()),
        false => rights::admit_queued(context, session, command, args, is_noted),
    }
}

/// Whether a client that waits in a blocking command may still be served.
pub fn of_waiting(engine: &Engine, blocked: &BlockedClient) -> Outcome {
    match blocked.user.is_unrestricted() {
        true => Ok(()),
        false => rights::admit_waiting(engine, blocked),
    }
}

/// What a script is allowed.
#[derive(Clone, Copy)]
pub struct ScriptRights {
    /// It must not write.
    pub is_read_only: bool,
    /// It may call any command when memory is full.
    pub allows_oom: bool,
    /// It has called a command that writes.
    pub has_written: bool,
    /// A refusal is noted in the log of ACL.
    pub is_noted: bool,
}

/// Whether a script may call a command.
pub fn of_script(
    context: &Context,
    session: &Session,
    command: &Command,
    args: Args<'_>,
    rights: ScriptRights,
) -> Outcome {
    let info = command.info;
    if !info.accepts(args.len()) || command.handler.is_none() {
        return Err(Error::fixed("ERR Wrong number of args calling Redis command from script"));
    }
    let debugs = info.traits.has(Traits::DEBUGS) && context.engine.debug_in_scripts.load(Ordering::Relaxed);
    if info.flags.has(Flags::NOSCRIPT) && !debugs {
        return Err(Error::fixed("ERR This Redis command is not allowed from script"));
    }
    if !session.user.is_unrestricted() {
        rights::admit_in_script(context, session, command, args, rights.is_noted)?;
    }
    if rights.is_read_only && (info.flags.has(Flags::WRITE) || info.flags.has(Flags::MAY_REPLICATE)) {
        return Err(Error::fixed("ERR Write commands are not allowed from read-only scripts."));
    }
    role::in_script(context, session, command)?;
    let is_bounded = context.out_of_memory && !rights.allows_oom && !rights.has_written;
    if is_bounded && info.flags.has(Flags::DENYOOM) {
        return Err(OUT_OF_MEMORY);
    }
    match session.shared.has(flag::PRIMARY) {
        true => Ok(()),
        false => check_disk(context, command, args),
    }
}
