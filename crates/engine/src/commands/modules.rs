//! MODULE, as on a server that has some of Redis's modules built in and can load none.

use mantissa_commands::spec::{Flags, Group};
use mantissa_commands::{Error, Locks, Outcome};
use mantissa_protocol::{Args, Reply};

use crate::admission;
use crate::invocation::{EngineSpec, Invocation};
use crate::warning;

/// A module of Redis's whose commands and types are here: its name, and the version that is told.
pub(super) struct BuiltIn(&'static str, i64);

/// All of them, in the order in which they are told.
pub(super) const BUILT_IN: &[BuiltIn] = &[
    BuiltIn("timeseries", 11_202),
    BuiltIn("bf", 20_802),
    BuiltIn("vectorset", 1),
    BuiltIn("ReJSON", 20_803),
];

fn list(_session: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    write_list(reply);
    Ok(())
}

/// Writes what MODULE LIST and HELLO tell.
pub(super) fn write_list(reply: &mut Reply) {
    reply.array(BUILT_IN.len());
    for BuiltIn(name, version) in BUILT_IN {
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(name.as_bytes());
        reply.bulk(b"ver");
        reply.integer(*version);
        reply.bulk(b"path");
        reply.bulk(b"");
        reply.bulk(b"args");
        reply.array(0);
    }
}

/// What INFO tells of each: its name and its line.
pub(super) fn facts() -> impl Iterator<Item = (&'static str, String)> {
    const OPTIONS: &str = "handle-io-errors|handle-repl-async-load";
    BUILT_IN.iter().map(|BuiltIn(name, version)| {
        (
            "module",
            format!("name={name},ver={version},api=1,filters=0,usedby=[],using=[],options=[{OPTIONS}]"),
        )
    })
}

/// Refuses those whom `enable-module-command` does not allow it.
fn admit(invocation: &Invocation<'_, '_, '_>) -> Outcome {
    admission::of_protected(invocation.context, invocation.session, false)
}

fn load(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, _reply: &mut Reply) -> Outcome {
    admit(invocation)?;
    warning!("Module {} failed to load: this server has no modules", String::from_utf8_lossy(args.at(2)));
    Err(Error::fixed("ERR Error loading the extension. Please check the server logs."))
}

fn unload(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, _reply: &mut Reply) -> Outcome {
    admit(invocation)?;
    Err(Error::fixed("ERR Error unloading module: no such module with that name"))
}

fn help(_session: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    super::write_help(
        reply,
        "MODULE",
        &[
            ("LIST", "The modules that are built in."),
            ("LOAD <path> [<arg> ...]", "Loads a module, which this server can not."),
            (
                "LOADEX <path> [[CONFIG NAME VALUE] [CONFIG NAME VALUE]] [ARGS ...]",
                "Loads a module with settings, which this server can not.",
            ),
            ("UNLOAD <name>", "Removes a module."),
        ],
    );
    Ok(())
}

const CHANGES: Flags = Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::NO_ASYNC_LOADING).or(Flags::PROTECTED);

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[EngineSpec::container("module", -2, Flags::NONE)
    .docs(Group::Server, "4.0.0", "Depends on the subcommand", "Looks after modules.")
    .subcommands(&[
        EngineSpec::new("list", 2, list, Flags::ADMIN.or(Flags::NOSCRIPT))
            .locks(Locks::Nothing)
            .docs(Group::Server, "4.0.0", "O(N), N being the modules", "Lists modules.")
            .tips(&["nondeterministic_output_order"]),
        EngineSpec::new("load", -3, load, CHANGES)
            .locks(Locks::Nothing)
            .docs(Group::Server, "4.0.0", "O(1)", "Loads a module.")
            .arguments("path:string arg:string?*"),
        EngineSpec::new("loadex", -3, load, CHANGES)
            .locks(Locks::Nothing)
            .docs(Group::Server, "7.0.0", "O(1)", "Loads a module with settings.")
            .arguments("path:string configs:block(name:string value:string)@CONFIG?** args:string@ARGS?*"),
        EngineSpec::new("unload", 3, unload, CHANGES)
            .locks(Locks::Nothing)
            .docs(Group::Server, "4.0.0", "O(1)", "Removes a module.")
            .arguments("name:string"),
        EngineSpec::new("help", 2, help, Flags::LOADING.or(Flags::STALE)).locks(Locks::Nothing).docs(
            Group::Server,
            "5.0.0",
            "O(1)",
            "Explains the subcommands of MODULE.",
        ),
    ])];
