//! CLUSTER and what belongs to it. Without `cluster-emulated` a server answers as one with cluster support
//! disabled: always the same. Only READONLY and READWRITE have a meaning for clients that are redirected, as
//! in Valkey.

mod emulated;

use mantissa_commands::spec::{Categories, Flags, Group};
use mantissa_commands::{Error, Locks, Outcome};
use mantissa_protocol::{Args, Reply};

use crate::admission::Redirection;
use crate::invocation::{EngineHandler, EngineSpec, Invocation};
use crate::session::flag;

const DISABLED: Error = Error::fixed("ERR This instance has cluster support disabled");

/// READONLY, which means something to clients that are redirected.
fn readonly(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    set_readonly(invocation, true, reply)
}

/// READWRITE
fn readwrite(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    set_readonly(invocation, false, reply)
}

fn set_readonly(invocation: &mut Invocation<'_, '_, '_>, on: bool, reply: &mut Reply) -> Outcome {
    let client = &invocation.session.shared;
    if !Redirection::may_be(&invocation.context.active.config, client) {
        return Err(DISABLED);
    }
    client.mark(flag::READONLY, on);
    reply.ok();
    Ok(())
}

const ADMIN: Flags = Flags::ADMIN.or(Flags::STALE);
const CHANGES: Flags = ADMIN.or(Flags::NO_ASYNC_LOADING);
const ANY_TIME: Flags = Flags::LOADING.or(Flags::STALE);
const READS: Flags = Flags::STALE;
const VARIES: &[&str] = &["nondeterministic_output"];
const SLOTS: &str = "O(N) for N slots";
const NODES: &str = "O(N) for N nodes";
const RANGES: &str = "range:block(start-slot:integer end-slot:integer)*";

const fn row(
    handler: EngineHandler,
    (name, arity, flags, since): (&'static str, i32, Flags, &'static str),
    complexity: &'static str,
    summary: &'static str,
    arguments: &'static str,
) -> EngineSpec {
    EngineSpec::new(name, arity, handler, flags)
        .locks(Locks::Nothing)
        .docs(Group::Cluster, since, complexity, summary)
        .arguments(arguments)
}

const SUBCOMMANDS: &[EngineSpec] = &[
    row(
        emulated::fixed,
        ("addslotsrange", -4, CHANGES, "7.0.0"),
        SLOTS,
        "Gives a node ranges of slots.",
        RANGES,
    ),
    row(emulated::myshardid, ("myshardid", 2, READS, "7.2.0"), "O(1)", "Names the shard of the node.", "")
        .tips(VARIES),
    row(emulated::fixed, ("addslots", -3, CHANGES, "3.0.0"), SLOTS, "Gives a node slots.", "slot:integer*"),
    row(
        emulated::fixed,
        ("reset", -2, ADMIN.or(Flags::NOSCRIPT), "3.0.0"),
        NODES,
        "Makes the node forget its cluster.",
        "reset-type:oneof(hard:pure-token@HARD soft:pure-token@SOFT)?",
    ),
    row(emulated::info, ("info", 2, READS, "3.0.0"), "O(1)", "Tells the state of the cluster.", "")
        .tips(VARIES),
    row(
        emulated::fixed,
        ("failover", -2, CHANGES, "3.0.0"),
        "O(1)",
        "Has a replica take the place of its master.",
        "options:oneof(force:pure-token@FORCE takeover:pure-token@TAKEOVER)?",
    ),
    row(
        emulated::keys_of,
        ("getkeysinslot", 4, READS, "3.0.0"),
        "O(N) for N keys asked for",
        "Lists keys of a slot.",
        "slot:integer count:integer",
    )
    .tips(VARIES),
    row(
        emulated::fixed,
        ("forget", 3, CHANGES, "3.0.0"),
        "O(1)",
        "Strikes a node off the list.",
        "node-id:string",
    ),
    row(
        emulated::fixed,
        ("delslots", -3, CHANGES, "3.0.0"),
        SLOTS,
        "Takes slots from a node.",
        "slot:integer*",
    ),
    row(emulated::fixed, ("flushslots", 2, CHANGES, "3.0.0"), "O(1)", "Takes all slots from the node.", ""),
    row(emulated::list, ("nodes", 2, READS, "3.0.0"), NODES, "Lists the nodes as their file does.", "")
        .tips(VARIES),
    row(
        emulated::nothing,
        ("saveconfig", 2, CHANGES, "3.0.0"),
        "O(1)",
        "Writes the list of nodes to its file.",
        "",
    ),
    row(
        emulated::keyslot,
        ("keyslot", 3, READS, "3.0.0"),
        "O(N) for N bytes of the key",
        "Tells the slot of a key.",
        "key:string",
    ),
    row(emulated::links, ("links", 2, READS, "7.0.0"), NODES, "Lists the connections between nodes.", "")
        .tips(VARIES),
    row(
        emulated::fixed,
        ("meet", -4, CHANGES, "3.0.0"),
        "O(1)",
        "Makes another node known.",
        "ip:string port:integer cluster-bus-port:integer?<4.0.0",
    )
    .history(&[("4.0.0", "The port of the cluster's bus.")]),
    row(emulated::myid, ("myid", 2, READS, "3.0.0"), "O(1)", "Names the node.", ""),
    row(emulated::help, ("help", 2, ANY_TIME, "5.0.0"), "O(1)", "Lists the subcommands.", ""),
    row(
        emulated::failures,
        ("count-failure-reports", 3, ADMIN, "3.0.0"),
        "O(N) for N reports",
        "Counts who holds a node for failed.",
        "node-id:string",
    )
    .tips(VARIES),
    row(
        emulated::shards,
        ("shards", 2, ANY_TIME, "7.0.0"),
        NODES,
        "Lists the shards with their slots and nodes.",
        "",
    )
    .tips(VARIES),
    row(
        emulated::replicas,
        ("slaves", 3, ADMIN, "3.0.0"),
        NODES,
        "Lists the replicas of a master.",
        "node-id:string",
    )
    .deprecated("5.0.0", "`CLUSTER REPLICAS`")
    .tips(VARIES),
    row(
        emulated::fixed,
        ("setslot", -4, CHANGES, "3.0.0"),
        "O(1)",
        "Says whose a slot is, or where it moves.",
        "slot:integer subcommand:oneof(importing:string@IMPORTING^node-id \
         migrating:string@MIGRATING^node-id node:string@NODE^node-id stable:pure-token@STABLE)",
    ),
    row(
        emulated::count_keys,
        ("countkeysinslot", 3, READS, "3.0.0"),
        "O(1)",
        "Counts the keys of a slot.",
        "slot:integer",
    ),
    row(emulated::fixed, ("bumpepoch", 2, CHANGES, "3.0.0"), "O(1)", "Raises the epoch of the node.", "")
        .tips(VARIES),
    row(
        emulated::fixed,
        ("delslotsrange", -4, CHANGES, "7.0.0"),
        SLOTS,
        "Takes ranges of slots from a node.",
        RANGES,
    ),
    row(emulated::slots, ("slots", 2, ANY_TIME, "3.0.0"), NODES, "Lists the slots with their nodes.", "")
        .deprecated("7.0.0", "`CLUSTER SHARDS`")
        .history(&[("4.0.0", "Names of nodes."), ("7.0.0", "More about the network.")])
        .tips(VARIES),
    row(
        emulated::fixed,
        ("replicate", 3, CHANGES, "3.0.0"),
        "O(1)",
        "Makes the node a replica of a master.",
        "node-id:string",
    ),
    row(
        emulated::fixed,
        ("set-config-epoch", 3, CHANGES, "3.0.0"),
        "O(1)",
        "Sets the epoch of a new node.",
        "config-epoch:integer",
    ),
    row(
        emulated::replicas,
        ("replicas", 3, ADMIN, "5.0.0"),
        NODES,
        "Lists the replicas of a master.",
        "node-id:string",
    )
    .tips(VARIES),
    row(
        emulated::fixed,
        ("slot-stats", -4, ANY_TIME, "8.2.0"),
        "O(N) for N slots, O(N*log(N)) with ORDERBY",
        "Tells how slots are used.",
        "filter:oneof(slotsrange:block(start-slot:integer end-slot:integer)@SLOTSRANGE \
         orderby:block(metric:string limit:integer@LIMIT? order:oneof(asc:pure-token@ASC \
         desc:pure-token@DESC)?)@ORDERBY)",
    )
    .tips(&["nondeterministic_output", "request_policy:all_shards"]),
];

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[
    EngineSpec::container("cluster", -2, Flags::NONE)
        .docs(Group::Cluster, "3.0.0", "Depends on the subcommand", "Manages a cluster.")
        .subcommands(SUBCOMMANDS),
    row(
        readonly,
        ("readonly", 1, ANY_TIME.or(Flags::FAST), "3.0.0"),
        "O(1)",
        "Allows reads from a replica.",
        "",
    )
    .categories(Categories::CONNECTION),
    row(
        readwrite,
        ("readwrite", 1, ANY_TIME.or(Flags::FAST), "3.0.0"),
        "O(1)",
        "Ends what READONLY began.",
        "",
    )
    .categories(Categories::CONNECTION),
    row(
        emulated::nothing,
        ("asking", 1, Flags::FAST, "3.0.0"),
        "O(1)",
        "Says that an ASK is being followed.",
        "",
    )
    .categories(Categories::CONNECTION),
];
