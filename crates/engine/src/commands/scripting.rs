//! The registration of the commands that run scripts.

use mantissa_commands::Outcome;
use mantissa_commands::spec::{Categories, Flags, Group, InStream, KeySpec, ScriptSource};
use mantissa_protocol::{Args, Reply};

use crate::eval::{self, READS, READS_AND_WRITES, functions};
use crate::invocation::{EngineSpec, Invocation};

fn script_help(_session: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    super::write_help(
        reply,
        "SCRIPT",
        &[
            ("DEBUG (YES|SYNC|NO)", "Would set the mode of a debugger; there is none."),
            ("EXISTS <sha1> [<sha1> ...]", "Tells for each digest whether its script is cached."),
            ("FLUSH [ASYNC|SYNC]", "Forgets all cached scripts."),
            ("KILL", "Ends the script that has run for longest, if it has not written."),
            ("LOAD <script>", "Caches a script without running it and returns its digest."),
            ("SHOW <sha1>", "Returns the cached script with this digest."),
        ],
    );
    Ok(())
}

fn function_help(_session: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    super::write_help(
        reply,
        "FUNCTION",
        &[
            ("LOAD [REPLACE] <code>", "Adds a library, in the place of one of that name if REPLACE says so."),
            ("DELETE <library>", "Removes a library and its functions."),
            (
                "LIST [LIBRARYNAME <pattern>] [WITHCODE]",
                "Describes the libraries, or those that fit a pattern.",
            ),
            ("STATS", "Tells what function runs, and how many there are."),
            ("KILL", "Ends the function that has run for longest, if it has not written."),
            ("FLUSH [ASYNC|SYNC]", "Removes all libraries."),
            ("DUMP", "Returns all libraries as a payload for RESTORE."),
            ("RESTORE <payload> [FLUSH|APPEND|REPLACE]", "Adds the libraries of a payload."),
        ],
    );
    Ok(())
}

const RUN: Flags = Flags::NOSCRIPT
    .or(Flags::STALE)
    .or(Flags::SKIP_MONITOR)
    .or(Flags::NO_MANDATORY_KEYS)
    .or(Flags::MAY_REPLICATE);
const RUN_READ_ONLY: Flags =
    Flags::READONLY.or(Flags::NOSCRIPT).or(Flags::STALE).or(Flags::SKIP_MONITOR).or(Flags::NO_MANDATORY_KEYS);
const CHANGE: Flags = Flags::WRITE.or(Flags::NOSCRIPT);
const COST: &str = "That of the script";

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[
    EngineSpec::new("eval", -3, eval::eval, RUN)
        .runs(ScriptSource::Text)
        .categories(Categories::SCRIPTING)
        .keys(&[KeySpec::counted(2, READS_AND_WRITES).notes("What a script does with its keys is unknown.")])
        .docs(Group::Scripting, "2.6.0", COST, "Runs a Lua script.")
        .arguments("script:string numkeys:integer key:key#0?* arg:string?*"),
    EngineSpec::new("evalsha", -3, eval::evalsha, RUN)
        .runs(ScriptSource::Digest)
        .categories(Categories::SCRIPTING)
        .keys(&[KeySpec::counted(2, READS_AND_WRITES)])
        .docs(Group::Scripting, "2.6.0", COST, "Runs a cached Lua script, named by its digest.")
        .arguments("sha1:string numkeys:integer key:key#0?* arg:string?*"),
    EngineSpec::new("eval_ro", -3, eval::eval_ro, RUN_READ_ONLY)
        .runs(ScriptSource::Text)
        .categories(Categories::SCRIPTING)
        .keys(&[KeySpec::counted(2, READS).notes("What a script does with its keys is unknown.")])
        .docs(Group::Scripting, "7.0.0", COST, "Runs a Lua script that must not write.")
        .arguments("script:string numkeys:integer key:key#0?* arg:string?*"),
    EngineSpec::new("evalsha_ro", -3, eval::evalsha_ro, RUN_READ_ONLY)
        .runs(ScriptSource::Digest)
        .categories(Categories::SCRIPTING)
        .keys(&[KeySpec::counted(2, READS)])
        .docs(Group::Scripting, "7.0.0", COST, "Runs a cached Lua script that must not write.")
        .arguments("sha1:string numkeys:integer key:key#0?* arg:string?*"),
    EngineSpec::container("script", -2, Flags::NONE)
        .docs(Group::Scripting, "2.6.0", "That of the subcommand", "Looks after cached scripts.")
        .subcommands(&[
            EngineSpec::new("load", 3, eval::script_load, Flags::NOSCRIPT.or(Flags::STALE))
                .in_stream(InStream::Runs)
                .categories(Categories::SCRIPTING)
                .docs(Group::Scripting, "2.6.0", "O(N), N being the script's bytes", "Caches a script.")
                .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                .arguments("script:string"),
            EngineSpec::new("flush", -2, eval::script_flush, Flags::NOSCRIPT)
                .in_stream(InStream::Runs)
                .categories(Categories::SCRIPTING)
                .docs(Group::Scripting, "2.6.0", "O(N), N being the scripts", "Forgets all cached scripts.")
                .history(&[("6.2.0", "ASYNC and SYNC were added.")])
                .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                .arguments("flush-type:oneof(async:pure-token@ASYNC sync:pure-token@SYNC)?<6.2.0"),
            EngineSpec::new("help", 2, script_help, Flags::LOADING.or(Flags::STALE))
                .categories(Categories::SCRIPTING)
                .docs(Group::Scripting, "5.0.0", "O(1)", "Explains the subcommands of SCRIPT."),
            EngineSpec::new("kill", 2, eval::script_kill, Flags::NOSCRIPT.or(Flags::ALLOW_BUSY))
                .categories(Categories::SCRIPTING)
                .docs(Group::Scripting, "2.6.0", "O(1)", "Ends a running script that has not written.")
                .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
            EngineSpec::new("exists", -3, eval::script_exists, Flags::NOSCRIPT)
                .categories(Categories::SCRIPTING)
                .docs(
                    Group::Scripting,
                    "2.6.0",
                    "O(N), N being the digests",
                    "Tells which scripts are cached.",
                )
                .tips(&["request_policy:all_shards", "response_policy:agg_logical_and"])
                .arguments("sha1:string*"),
            EngineSpec::new("show", 3, eval::script_show, Flags::NOSCRIPT.or(Flags::STALE))
                .categories(Categories::SCRIPTING)
                .docs(
                    Group::Scripting,
                    "8.0.0",
                    "O(N), N being the script's bytes",
                    "Returns a cached script.",
                )
                .arguments("sha1:string"),
            EngineSpec::new("debug", 3, eval::script_debug, Flags::NOSCRIPT)
                .categories(Categories::SCRIPTING)
                .docs(Group::Scripting, "3.2.0", "O(1)", "Refused: there is no debugger.")
                .arguments("mode:oneof(yes:pure-token@YES sync:pure-token@SYNC no:pure-token@NO)"),
        ]),
    EngineSpec::container("function", -2, Flags::NONE)
        .docs(Group::Scripting, "7.0.0", "That of the subcommand", "Looks after libraries of functions.")
        .subcommands(&[
            EngineSpec::new("load", -3, functions::load, CHANGE.or(Flags::DENYOOM))
                .categories(Categories::SCRIPTING)
                .docs(Group::Scripting, "7.0.0", "That of the library's code", "Adds a library.")
                .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
                .arguments("replace:pure-token@REPLACE? function-code:string"),
            EngineSpec::new("flush", -2, functions::flush, CHANGE)
                .categories(Categories::SCRIPTING)
                .docs(Group::Scripting, "7.0.0", "O(N), N being the functions", "Removes all libraries.")
                .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
                .arguments("flush-type:oneof(async:pure-token@ASYNC sync:pure-token@SYNC)?"),
            EngineSpec::new("delete", 3, functions::delete, CHANGE)
                .categories(Categories::SCRIPTING)
                .docs(Group::Scripting, "7.0.0", "O(1)", "Removes a library.")
                .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
                .arguments("library-name:string"),
            EngineSpec::new("stats", 2, functions::stats, Flags::NOSCRIPT.or(Flags::ALLOW_BUSY))
                .categories(Categories::SCRIPTING)
                .docs(Group::Scripting, "7.0.0", "O(1)", "Tells what function runs.")
                .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]),
            EngineSpec::new("restore", -3, functions::restore, CHANGE.or(Flags::DENYOOM))
                .categories(Categories::SCRIPTING)
                .docs(
                    Group::Scripting,
                    "7.0.0",
                    "That of the libraries' code",
                    "Adds libraries from a payload.",
                )
                .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
                .arguments(
                    "serialized-value:string policy:oneof(flush:pure-token@FLUSH append:pure-token@APPEND \
                     replace:pure-token@REPLACE)?",
                ),
            EngineSpec::new("list", -2, functions::list, Flags::NOSCRIPT)
                .categories(Categories::SCRIPTING)
                .docs(Group::Scripting, "7.0.0", "O(N), N being the functions", "Describes the libraries.")
                .tips(&["nondeterministic_output_order"])
                .arguments("library-name-pattern:string@LIBRARYNAME? withcode:pure-token@WITHCODE?"),
            EngineSpec::new("dump", 2, functions::dump, Flags::NOSCRIPT)
                .categories(Categories::SCRIPTING)
                .docs(Group::Scripting, "7.0.0", "O(N), N being the functions", "Packs all libraries."),
            EngineSpec::new("help", 2, function_help, Flags::LOADING.or(Flags::STALE))
                .categories(Categories::SCRIPTING)
                .docs(Group::Scripting, "7.0.0", "O(1)", "Explains the subcommands of FUNCTION."),
            EngineSpec::new("kill", 2, functions::kill, Flags::NOSCRIPT.or(Flags::ALLOW_BUSY))
                .categories(Categories::SCRIPTING)
                .docs(Group::Scripting, "7.0.0", "O(1)", "Ends a running function that has not written.")
                .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
        ]),
    EngineSpec::new("fcall", -3, functions::fcall, RUN)
        .runs(ScriptSource::Function)
        .categories(Categories::SCRIPTING)
        .keys(
            &[KeySpec::counted(2, READS_AND_WRITES).notes("What a function does with its keys is unknown.")],
        )
        .docs(Group::Scripting, "7.0.0", "That of the function", "Calls a function.")
        .arguments("function:string numkeys:integer key:key#0?* arg:string?*"),
    EngineSpec::new("fcall_ro", -3, functions::fcall_ro, RUN_READ_ONLY)
        .runs(ScriptSource::Function)
        .categories(Categories::SCRIPTING)
        .keys(&[KeySpec::counted(2, READS).notes("What a function does with its keys is unknown.")])
        .docs(Group::Scripting, "7.0.0", "That of the function", "Calls a function that must not write.")
        .arguments("function:string numkeys:integer key:key#0?* arg:string?*"),
];
