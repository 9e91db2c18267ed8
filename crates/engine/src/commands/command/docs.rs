//! What COMMAND DOCS says of a command.

use mantissa_commands::arguments;
use mantissa_protocol::Reply;

use crate::invocation::Command;

fn text(reply: &mut Reply, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

/// Writes the documentation of a command with its subcommands: a map.
pub(super) fn write(reply: &mut Reply, command: &Command) {
    let info = command.info;
    let deferred = reply.defer();
    let mut pairs = 3;
    text(reply, "summary", info.summary);
    text(reply, "since", info.since);
    text(reply, "group", info.group.name());
    if !info.complexity.is_empty() {
        text(reply, "complexity", info.complexity);
        pairs += 1;
    }
    if let Some(module) = info.module() {
        text(reply, "module", module);
        pairs += 1;
    }
    let flags = [(info.deprecated.is_some(), "deprecated"), (info.internal, "syscmd")];
    let flags: Vec<&str> = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
    if !flags.is_empty() {
        reply.bulk(b"doc_flags");
        reply.set(flags.len());
        flags.iter().for_each(|name| reply.simple(name));
        pairs += 1;
    }
    if let Some((since, instead)) = info.deprecated {
        text(reply, "deprecated_since", since);
        text(reply, "replaced_by", instead);
        pairs += 2;
    }
    if !info.history.is_empty() {
        reply.bulk(b"history");
        reply.set(info.history.len());
        for (version, change) in info.history {
            reply.array(2);
            reply.bulk(version.as_bytes());
            reply.bulk(change.as_bytes());
        }
        pairs += 1;
    }
    // A unit test parses the arguments of every command.
    let described = arguments::parse(info.arguments).unwrap_or_default();
    if !described.is_empty() {
        reply.bulk(b"arguments");
        arguments::write(reply, &described);
        pairs += 1;
    }
    if !command.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(command.subcommands.len());
        for subcommand in &command.subcommands {
            reply.bulk(subcommand.name.as_bytes());
            write(reply, subcommand);
        }
        pairs += 1;
    }
    reply.finish_map(deferred, pairs);
}
