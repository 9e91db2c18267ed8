//! MONITOR: every command that runs, as it runs, to those who asked for it.

use std::io::Write;
use std::sync::Arc;

use mantissa_commands::spec::Flags;
use mantissa_protocol::Args;

use crate::client::Client;
use crate::context::{Context, unix_us};
use crate::registry::Command;

/// Shows a command to all monitors.
pub fn show(context: &mut Context, client: &Client, command: &Command, args: Args<'_>) {
    if command.info.flags.has(Flags::SKIP_MONITOR) || command.info.flags.has(Flags::ADMIN) {
        return;
    }
    show_as(context, client, command.registered_name(), args);
}

/// Shows a command that runs a script, which comes before those that the script calls.
pub fn show_always(context: &mut Context, client: &Client, args: Args<'_>) {
    show_as(context, client, "", args);
}

fn show_as(context: &mut Context, client: &Client, name: &str, args: Args<'_>) {
    let now_us = unix_us();
    let mut line = Vec::new();
    let (seconds, rest) = (now_us / 1_000_000, now_us % 1_000_000);
    let origin = match context.in_script {
        true => "lua".to_owned(),
        false => client.shared.peer.remote_text().to_string(),
    };
    let _to_memory = write!(line, "+{seconds}.{rest:06} [{} {origin}]", client.database);
    for argument in crate::commands::shown_arguments(name, args) {
        line.push(b' ');
        quote(&mut line, argument);
    }
    line.extend_from_slice(b"\r\n");
    let line: Arc<[u8]> = line.into();
    for monitor in context.server.monitors.read().iter() {
        let target = *monitor.target.lock();
        context.outbox.push(target, Arc::clone(&line));
    }
}

/// Appends a text in double quotes, with escapes for what is not printable ASCII.
pub fn quote(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    out.push(b'"');
}
