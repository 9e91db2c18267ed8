//! ACL: users, what they may do, and who was refused.

mod disconnected;

use mantissa_commands::spec::{Categories, Flags, Group};
use mantissa_commands::{Error, Locks, Outcome, parse};
use mantissa_protocol::{Args, Reply};

use super::kill_all;
use crate::acl::Selector;
use crate::admission;
use crate::invocation::{EngineHandler, EngineSpec, Invocation, Registry};
use crate::scripting::source::hexadecimal;
use disconnected::to_disconnect;

/// Bits of a password of GENPASS where no number is given.
const PASSWORD_BITS: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4096;
/// Entries of LOG where no number is given.
const LOG_ENTRIES: i64 = 10;

fn cat(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let Some(name) = args.get(2) else {
        reply.array(Categories::ALL.len());
        Categories::ALL.iter().for_each(|(_, name)| reply.bulk(name.as_bytes()));
        return Ok(());
    };
    if args.len() > 3 {
        return Err(super::wrong_subcommand(args));
    }
    let category = Categories::ALL.iter().find(|(_, other)| parse::is(name, other));
    let (category, _) = category.ok_or_else(|| Error::quoting("ERR Unknown category '", name, "'"))?;
    let names = commands_of(invocation.engine().registry, *category);
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name.as_bytes()));
    Ok(())
}

fn commands_of(registry: &'static Registry, category: Categories) -> Vec<&'static str> {
    let every =
        registry.registered().flat_map(|command| std::iter::once(command).chain(&command.subcommands));
    let members = every.filter(|command| command.info.categories().has(category));
    members.map(|command| command.registered_name()).collect()
}

fn deluser(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let engine = invocation.engine();
    let names = args.from(2);
    let changes = engine.acl.delete_users(names.iter())?;
    let (count, disconnected) = (changes.users.len(), to_disconnect(engine, &changes));
    drop(changes);
    kill_all(invocation, &disconnected);
    reply.integer(count as i64);
    Ok(())
}

fn dryrun(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let engine = invocation.engine();
    let user = engine.acl.user(args.at(2));
    let user = user.ok_or_else(|| Error::quoting("ERR User '", args.at(2), "' not found"))?;
    let call = args.from(3);
    let command = match engine.registry.lookup(call.at(0)) {
        Some(container) if container.subcommands.is_empty() || call.len() < 2 => Some(container),
        Some(_) => engine.registry.resolve(call).ok(),
        None => None,
    };
    let command = command.ok_or_else(|| Error::quoting("ERR Command '", call.at(0), "' not found"))?;
    if !command.info.accepts(call.len()) {
        return Err(Error::arity(command.registered_name()));
    }
    match admission::try_run(&user, command, call, invocation.session.database) {
        Ok(()) => reply.ok(),
        Err(reason) => reply.bulk(&reason),
    }
    Ok(())
}

fn genpass(_session: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() > 3 {
        return Err(super::wrong_subcommand(args));
    }
    let bits = args.get(2).map_or(Ok(PASSWORD_BITS), parse::integer)?;
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(Error::fixed(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number \
             up to 4096",
        ));
    }
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    getrandom::fill(&mut bytes).map_err(|error| Error::new(format!("ERR No random numbers: {error}")))?;
    reply.bulk(&hexadecimal(&bytes).as_bytes()[..digits]);
    Ok(())
}

fn getuser(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let Some(user) = invocation.engine().acl.user(args.at(2)) else {
        reply.null();
        return Ok(());
    };
    let rights = user.rights();
    let flags = rights.flags();
    reply.map(3 + selector_pairs(&rights.root));
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(rights.passwords.len());
    rights.passwords.iter().for_each(|password| reply.bulk(password.digest().as_bytes()));
    write_selector(&rights.root, reply);
    reply.bulk(b"selectors");
    reply.array(rights.selectors.len());
    for selector in &rights.selectors {
        reply.map(selector_pairs(selector));
        write_selector(selector, reply);
    }
    Ok(())
}

/// The pairs of a selector: the databases are among them if it does not allow all, as in Valkey.
fn selector_pairs(selector: &Selector) -> usize {
    3 + usize::from(selector.describe_databases().is_some())
}

/// Writes the pairs that describe a selector.
fn write_selector(selector: &Selector, reply: &mut Reply) {
    reply.bulk(b"commands");
    reply.bulk(&selector.describe_commands());
    reply.bulk(b"keys");
    reply.bulk(&selector.describe_keys());
    reply.bulk(b"channels");
    reply.bulk(&selector.describe_channels());
    if let Some(databases) = selector.describe_databases() {
        reply.bulk(b"databases");
        reply.bulk(&databases);
    }
}

fn list(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = invocation.engine().acl.lines();
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.bulk(line));
    Ok(())
}

fn load(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let engine = invocation.engine();
    let disconnected = to_disconnect(
        engine,
        &engine.acl.load(engine.registry, &engine.active_config().config, &*engine.storage)?,
    );
    kill_all(invocation, &disconnected);
    reply.ok();
    Ok(())
}

fn log(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() > 3 {
        return Err(super::wrong_subcommand(args));
    }
    let log = &invocation.engine().acl.log;
    if args.get(2).is_some_and(|word| parse::is(word, "RESET")) {
        log.clear();
        reply.ok();
        return Ok(());
    }
    let count = args.get(2).map_or(Ok(LOG_ENTRIES), parse::integer)?;
    log.reply(usize::try_from(count).unwrap_or(0), invocation.context.now_ms, reply);
    Ok(())
}

fn save(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let engine = invocation.engine();
    engine.acl.save(&engine.active_config().config, &*engine.storage)?;
    reply.ok();
    Ok(())
}

fn setuser(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let engine = invocation.engine();
    let modifiers: Vec<&[u8]> = args.from(3).iter().collect();
    let active = engine.active_config();
    let changes = engine.acl.set_user(engine.registry, &active.config, args.at(2), &modifiers)?;
    let disconnected = to_disconnect(engine, &changes);
    drop(changes);
    kill_all(invocation, &disconnected);
    reply.ok();
    Ok(())
}

fn users(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let users = invocation.engine().acl.users();
    reply.array(users.len());
    users.iter().for_each(|user| reply.bulk(&user.name));
    Ok(())
}

fn whoami(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.bulk(&invocation.session.user.name);
    Ok(())
}

fn help(_session: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    super::write_help(
        reply,
        "ACL",
        &[
            ("CAT [<category>]", "The categories of commands, or the commands of one."),
            ("DELUSER <username> [<username> ...]", "Deletes users and disconnects their clients."),
            (
                "DRYRUN <username> <command> [<arg> ...]",
                "Whether a user may run a command, which is not run.",
            ),
            ("GENPASS [<bits>]", "A password of random hexadecimal digits, of 256 bits or as many as asked."),
            ("GETUSER <username>", "What a user may do and how it logs in."),
            ("LIST", "All users with their rules, as they stand in a file."),
            ("LOAD", "Reads the users from the ACL file, in the place of the present ones."),
            ("LOG [<count>|RESET]", "The last refusals, newest first, or forgets them."),
            ("SAVE", "Writes the users into the ACL file."),
            ("SETUSER <username> [<rule> ...]", "Changes a user by rules, or makes a new one."),
            ("USERS", "The names of all users."),
            ("WHOAMI", "The name of the user of this connection."),
        ],
    );
    Ok(())
}

const ANYBODY: Flags = Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE);
const ADMIN: Flags = ANYBODY.or(Flags::ADMIN);
const ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

const fn subcommand(name: &'static str, arity: i32, handler: EngineHandler, flags: Flags) -> EngineSpec {
    EngineSpec::new(name, arity, handler, flags).locks(Locks::Nothing)
}

const SUBCOMMANDS: &[EngineSpec] = &[
    subcommand("log", -2, log, ADMIN)
        .docs(Group::Server, "6.0.0", "O(N), N being the entries returned", "Shows who was refused what.")
        .history(&[("7.2.0", "Entries have a number and the times of their first and last event.")])
        .arguments("operation:oneof(count:integer reset:pure-token@RESET)?"),
    subcommand("load", 2, load, ADMIN).docs(
        Group::Server,
        "6.0.0",
        "O(N), N being the users",
        "Reads all users anew from the ACL file.",
    ),
    subcommand("deluser", -3, deluser, ADMIN)
        .secrets(|_, index| index >= 2)
        .docs(
            Group::Server,
            "6.0.0",
            "O(N), N being the connected clients",
            "Deletes users and disconnects their clients.",
        )
        .tips(ALL_NODES)
        .arguments("username:string*"),
    subcommand("list", 2, list, ADMIN).docs(
        Group::Server,
        "6.0.0",
        "O(N), N being the users",
        "Shows all users in the form of the ACL file.",
    ),
    subcommand("setuser", -3, setuser, ADMIN)
        .secrets(|_, index| index >= 2)
        .docs(Group::Server, "6.0.0", "O(N), N being the rules", "Makes a user or changes what it may do.")
        .history(&[
            ("6.2.0", "Rules can name pub/sub channels."),
            ("7.0.0", "Rules can tell reading keys from writing them, and come in selectors."),
        ])
        .tips(ALL_NODES)
        .arguments("username:string rule:string?*"),
    subcommand("genpass", -2, genpass, ANYBODY)
        .docs(Group::Server, "6.0.0", "O(1)", "Makes up a random password.")
        .arguments("bits:integer?"),
    subcommand("cat", -2, cat, ANYBODY)
        .docs(
            Group::Server,
            "6.0.0",
            "O(N), N being the commands of the server",
            "Lists categories, or the commands of one.",
        )
        .arguments("category:string?"),
    subcommand("getuser", 3, getuser, ADMIN)
        .secrets(|_, index| index >= 2)
        .docs(Group::Server, "6.0.0", "O(N), N being the rules of the user", "Shows what a user may do.")
        .history(&[
            ("6.2.0", "Shows pub/sub channels."),
            ("7.0.0", "Shows selectors; keys and channels are shown as rules."),
        ])
        .arguments("username:string"),
    subcommand("dryrun", -4, dryrun, ADMIN)
        .docs(Group::Server, "7.0.0", "O(1)", "Tells whether a user might run a command.")
        .arguments("username:string command:string arg:string?*"),
    subcommand("help", 2, help, Flags::LOADING.or(Flags::STALE)).docs(
        Group::Server,
        "6.0.0",
        "O(1)",
        "Lists the subcommands.",
    ),
    subcommand("save", 2, save, ADMIN)
        .docs(Group::Server, "6.0.0", "O(N), N being the users", "Writes all users into the ACL file.")
        .tips(ALL_NODES),
    subcommand("whoami", 2, whoami, ANYBODY).docs(
        Group::Server,
        "6.0.0",
        "O(1)",
        "Tells who this connection has logged in as.",
    ),
    subcommand("users", 2, users, ADMIN).docs(
        Group::Server,
        "6.0.0",
        "O(N), N being the users",
        "Lists the names of users.",
    ),
];

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[EngineSpec::container("acl", -2, Flags::NONE)
    .docs(Group::Server, "6.0.0", "Depends on the subcommand", "Manages users and what they may do.")
    .subcommands(SUBCOMMANDS)];
