//! COMMAND and its subcommands: the command table, for clients. All of it is derived from the registration
//! tables.

mod docs;
mod table;

use mantissa_commands::spec::{Categories, Flags, Group};
use mantissa_commands::{Error, Locks, Outcome, find_keys, glob, key_flags, parse};
use mantissa_protocol::{Args, Reply};

use crate::invocation::{Command, EngineSpec, Invocation, Registry};

/// All commands with their subcommands.
fn every(registry: &'static Registry) -> impl Iterator<Item = &'static Command> {
    registry.iter().flat_map(|command| std::iter::once(command).chain(&command.subcommands))
}

/// The command of a name such as `get` or `client|list`.
fn named(registry: &'static Registry, name: &[u8]) -> Option<&'static Command> {
    let Some(bar) = name.iter().position(|&byte| byte == b'|') else { return registry.lookup(name) };
    registry.lookup(&name[..bar])?.subcommand(&name[bar + 1..])
}

fn all(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let commands: Vec<&Command> = invocation.engine().registry.iter().collect();
    reply.array(commands.len());
    commands.into_iter().for_each(|command| table::write(reply, command));
    Ok(())
}

fn count(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.integer(invocation.engine().registry.iter().count() as i64);
    Ok(())
}

fn info(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let names = args.from(2);
    if names.is_empty() {
        return all(invocation, args, reply);
    }
    reply.array(names.len());
    for name in names {
        match named(invocation.engine().registry, name) {
            Some(command) => table::write(reply, command),
            None => reply.null(),
        }
    }
    Ok(())
}

fn docs(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let registry = invocation.engine().registry;
    let names = args.from(2);
    let commands: Vec<&Command> = if names.is_empty() {
        registry.iter().collect()
    } else {
        names.iter().filter_map(|name| named(registry, name)).collect()
    };
    reply.map(commands.len());
    for command in commands {
        reply.bulk(command.name.as_bytes());
        docs::write(reply, command);
    }
    Ok(())
}

fn list(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let is_listed: Box<dyn Fn(&&Command) -> bool> = match args.len() {
        2 => Box::new(|_| true),
        5 if parse::is(args.at(2), "FILTERBY") => filter(args.at(3), args.at(4))?,
        _ => return Err(Error::SYNTAX),
    };
    let commands: Vec<&Command> = every(invocation.engine().registry).filter(is_listed).collect();
    reply.array(commands.len());
    commands.into_iter().for_each(|command| reply.bulk(command.name.as_bytes()));
    Ok(())
}

/// Says which commands are wanted.
type Filter<'a> = Box<dyn Fn(&&Command) -> bool + 'a>;

/// The commands that FILTERBY asks for.
fn filter<'a>(by: &[u8], value: &'a [u8]) -> Outcome<Filter<'a>> {
    if parse::is(by, "MODULE") {
        let is_from =
            move |command: &&Command| command.info.module().is_some_and(|name| value == name.as_bytes());
        return Ok(Box::new(is_from));
    }
    if parse::is(by, "ACLCAT") {
        let wanted = Categories::ALL.iter().find(|(_, name)| parse::is(value, name)).map(|(bit, _)| *bit);
        return Ok(Box::new(move |command| {
            wanted.is_some_and(|category| command.info.categories().has(category))
        }));
    }
    if parse::is(by, "PATTERN") {
        return Ok(Box::new(|command| glob::matches_with(value, command.name.as_bytes(), true)));
    }
    Err(Error::SYNTAX)
}

/// The command that the arguments from 2 on call, and whether it can have keys and accepts their number.
fn called(invocation: &Invocation<'_, '_, '_>, args: Args<'_>) -> Outcome<&'static Command> {
    let call = args.from(2);
    let found = invocation.engine().registry.resolve(call);
    let command = found.map_err(|_| Error::fixed("ERR Invalid command specified"))?;
    let is_key =
        |flags: mantissa_commands::spec::KeyFlags| !flags.has(mantissa_commands::spec::KeyFlags::NOT_KEY);
    if !command.info.keys.iter().any(|spec| is_key(spec.flags)) {
        return Err(Error::fixed("ERR The command has no key arguments"));
    }
    if !command.info.accepts(call.len()) {
        return Err(Error::fixed("ERR Invalid number of arguments specified for command"));
    }
    Ok(command)
}

fn reply_keys(
    invocation: &Invocation<'_, '_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    with_flags: bool,
) -> Outcome {
    let command = called(invocation, args)?;
    let call = args.from(2);
    let keys = find_keys(command.info, call).unwrap_or_default();
    if keys.is_empty() && !command.info.flags.has(Flags::NO_MANDATORY_KEYS) {
        return Err(Error::fixed("ERR Invalid arguments specified for command"));
    }
    reply.array(keys.len());
    for key in keys {
        if !with_flags {
            reply.bulk(call.at(key.index));
            continue;
        }
        let flags: Vec<&str> = key_flags(command.info, &key, call).names().collect();
        reply.array(2);
        reply.bulk(call.at(key.index));
        reply.set(flags.len());
        flags.into_iter().for_each(|name| reply.simple(name));
    }
    Ok(())
}

fn getkeys(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply_keys(invocation, args, reply, false)
}

fn getkeysandflags(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply_keys(invocation, args, reply, true)
}

fn help(_session: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    super::write_help(
        reply,
        "COMMAND",
        &[
            ("(no subcommand)", "What there is to know of all commands to call them."),
            ("COUNT", "The number of commands."),
            ("DOCS [<name> ...]", "What commands do and which arguments they take."),
            ("GETKEYS <command> [<argument> ...]", "The keys of a call."),
            ("GETKEYSANDFLAGS <command> [<argument> ...]", "The keys of a call, and what it does with them."),
            ("INFO [<name> ...]", "What there is to know of commands to call them."),
            ("LIST [FILTERBY (MODULE|ACLCAT|PATTERN) <value>]", "The names of commands."),
        ],
    );
    Ok(())
}

const ANY_TIME: Flags = Flags::LOADING.or(Flags::STALE);
const UNORDERED: &[&str] = &["nondeterministic_output_order"];

const fn subcommand(name: &'static str, arity: i32, handler: crate::invocation::EngineHandler) -> EngineSpec {
    EngineSpec::new(name, arity, handler, ANY_TIME).locks(Locks::Nothing).categories(Categories::CONNECTION)
}

const SUBCOMMANDS: &[EngineSpec] = &[
    subcommand("info", -2, info)
        .docs(Group::Server, "2.8.13", "O(N), N being the commands", "Shows how commands are called.")
        .history(&[("7.0.0", "Without a name it shows all commands.")])
        .tips(UNORDERED)
        .arguments("command-name:string?*"),
    subcommand("help", 2, help).docs(Group::Server, "5.0.0", "O(1)", "Lists the subcommands."),
    subcommand("docs", -2, docs)
        .docs(Group::Server, "7.0.0", "O(N), N being the commands", "Shows what commands do.")
        .tips(UNORDERED)
        .arguments("command-name:string?*"),
    subcommand("getkeys", -3, getkeys)
        .docs(Group::Server, "2.8.13", "O(N), N being the arguments", "Finds the keys of a call.")
        .arguments("command:string arg:string?*"),
    subcommand("list", -2, list)
        .docs(Group::Server, "7.0.0", "O(N), N being the commands", "Lists the names of commands.")
        .tips(UNORDERED)
        .arguments(
            "filterby:oneof(module-name:string@MODULE category:string@ACLCAT \
             pattern:pattern@PATTERN)@FILTERBY?",
        ),
    subcommand("count", 2, count).docs(Group::Server, "2.8.13", "O(1)", "Counts the commands."),
    subcommand("getkeysandflags", -3, getkeysandflags)
        .docs(
            Group::Server,
            "7.0.0",
            "O(N), N being the arguments",
            "Finds the keys of a call and what it does with them.",
        )
        .arguments("command:string arg:string?*"),
];

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[EngineSpec::new("command", -1, all, ANY_TIME)
    .locks(Locks::Nothing)
    .categories(Categories::CONNECTION)
    .docs(Group::Server, "2.8.13", "O(N), N being the commands", "Shows the commands of the server.")
    .tips(UNORDERED)
    .subcommands(SUBCOMMANDS)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_every_command_follow_the_notation() {
        let registry = Box::leak(Box::new(crate::registry::build(&[]).expect("no command is renamed")));
        for command in every(registry) {
            let parsed = mantissa_commands::arguments::parse(command.info.arguments);
            assert!(parsed.is_ok(), "{}: {parsed:?}", command.name);
            let indexes = parsed.iter().flatten().filter_map(|argument| argument.key_spec);
            for index in indexes {
                assert!((index as usize) < command.info.keys.len(), "{}", command.name);
            }
        }
    }
}
