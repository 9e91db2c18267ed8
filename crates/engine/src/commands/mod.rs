//! The engine's own commands, one file per family, each ending in its registration table.

mod acl;
mod archive;
mod backup;
mod client_commands;
mod cluster;
mod command;
mod config;
pub(crate) mod connection;
mod debug;
mod dump;
mod failover;
mod himport;
pub(crate) mod info;
mod introspection;
mod jobs;
mod json_query;
mod key_reports;
mod memory;
mod migrate;
mod modules;
mod persistence;
mod pubsub;
mod replicaof;
mod replication;
mod scripting;
mod serving;
pub(crate) mod tickets;
mod transactions;
mod upgrade;

pub use crate::client_figures::ClientFigures;
pub use crate::version::REDIS_VERSION;
pub use client_commands::kill_all;
pub use info::write_all as write_info;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_commands::{DataSpec, Error};
use mantissa_protocol::{Args, Reply};

use crate::context::Context;
use crate::invocation::EngineSpec;
use crate::session::{Session, flag};

/// Up to this argument secrets are looked for among options: further than all options take, some of them
/// given again and again. For all arguments it would take a time in proportion to the square of their number.
const OPTIONS_END: usize = 64;

/// Tables of commands on data that need a crate which the commands crate does not know.
pub const DATA_FAMILIES: &[&[DataSpec]] = &[dump::COMMANDS];

/// All tables of engine commands.
pub const FAMILIES: &[&[EngineSpec]] = &[
    acl::COMMANDS,
    archive::COMMANDS,
    backup::COMMANDS,
    client_commands::COMMANDS,
    cluster::COMMANDS,
    command::COMMANDS,
    config::COMMANDS,
    connection::COMMANDS,
    debug::COMMANDS,
    himport::COMMANDS,
    info::COMMANDS,
    introspection::COMMANDS,
    jobs::COMMANDS,
    json_query::COMMANDS,
    key_reports::COMMANDS,
    memory::COMMANDS,
    migrate::COMMANDS,
    modules::COMMANDS,
    persistence::COMMANDS,
    pubsub::COMMANDS,
    replication::COMMANDS,
    scripting::COMMANDS,
    transactions::COMMANDS,
    tickets::COMMANDS,
    upgrade::COMMANDS,
];

/// Takes a client out of everything that it has joined: subscriptions, MONITOR and tracking.
pub fn leave_everything(context: &Context, session: &mut Session) {
    let engine = context.engine;
    crate::tracking::turn_off(engine, session);
    if let Some(subscriptions) = session.subscriptions.take() {
        pubsub::forget(engine, session.shared.id, &subscriptions);
    }
    if session.shared.has(flag::MONITOR) {
        let mut monitors = engine.monitors.write();
        monitors.retain(|monitor| !Arc::ptr_eq(monitor, &session.shared));
        engine.monitor_count.store(monitors.len(), Ordering::Relaxed);
        session.shared.mark(flag::MONITOR, false);
    }
}

/// The error for a subcommand that is not there or has the wrong number of arguments.
fn wrong_subcommand(args: Args<'_>) -> Error {
    let container = String::from_utf8_lossy(args.at(0)).to_uppercase();
    let before = "ERR unknown subcommand or wrong number of arguments for '";
    Error::quoting(before, args.get(1).unwrap_or_default(), &format!("'. Try {container} HELP."))
}

/// Writes the reply of a HELP subcommand: each subcommand's usage and, indented, what it does.
fn write_help(reply: &mut Reply, command: &str, lines: &[(&str, &str)]) {
    reply.array(lines.len() * 2 + 3);
    reply.simple(&format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for (usage, meaning) in lines {
        reply.simple(usage);
        reply.simple(&format!("    {meaning}"));
    }
    reply.simple("HELP");
    reply.simple("    Shows this text.");
}
