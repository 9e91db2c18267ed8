//! MONITOR: every command that runs, as it runs, to the clients that asked for it.

use std::io::Write;
use std::sync::Arc;

use mantissa_commands::spec::{Flags, Secrets};
use mantissa_protocol::{Args, put_quoted};

use crate::context::Context;
use crate::invocation::Command;
use crate::secrets::shown_arguments;
use crate::session::{Session, flag};
use mantissa_sys::clock::unix_us;

/// Shows a command to all monitors.
pub fn show(context: &mut Context, session: &Session, command: &Command, args: Args<'_>) {
    if command.info.flags.has(Flags::SKIP_MONITOR) || command.info.flags.has(Flags::ADMIN) {
        return;
    }
    show_as(context, session, command.info.secrets, args);
}

/// Shows a command that runs a script, which comes before those that the script calls.
pub fn show_always(context: &mut Context, session: &Session, args: Args<'_>) {
    show_as(context, session, None, args);
}

fn show_as(context: &mut Context, session: &Session, secrets: Option<Secrets>, args: Args<'_>) {
    let now_us = unix_us();
    let mut line = Vec::new();
    let (seconds, rest) = (now_us / 1_000_000, now_us % 1_000_000);
    let origin = match context.in_script {
        true => "lua".to_owned(),
        false => session.shared.peer.remote_text().to_string(),
    };
    let _to_memory = write!(line, "+{seconds}.{rest:06} [{} {origin}]", session.database);
    for argument in shown_arguments(secrets, args) {
        line.push(b' ');
        put_quoted(&mut line, argument);
    }
    line.extend_from_slice(b"\r\n");
    let line: Arc<[u8]> = line.into();
    let monitors = context.engine.monitors.read();
    for monitor in monitors.iter().filter(|monitor| !monitor.has(flag::SILENT)) {
        let target = *monitor.target.lock();
        context.outbox.push(target, Arc::clone(&line));
    }
}
