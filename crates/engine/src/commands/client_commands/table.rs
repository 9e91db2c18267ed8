//! The registration table of CLIENT.

use mantissa_commands::Locks;
use mantissa_commands::spec::{Categories, Flags, Group, Traits};

use super::{control, list, tracking};
use crate::invocation::EngineSpec;

const ANY_TIME: Flags = Flags::LOADING.or(Flags::STALE);
const OWN: Flags = Flags::NOSCRIPT.or(ANY_TIME);
const ADMIN: Flags = Flags::ADMIN.or(OWN);
const ON_ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];
const VARYING: &[&str] = &["nondeterministic_output"];

const fn subcommand(
    name: &'static str,
    arity: i32,
    handler: crate::invocation::EngineHandler,
    flags: Flags,
) -> EngineSpec {
    EngineSpec::new(name, arity, handler, flags)
        .traits(Traits::KEEPS_CACHING)
        .categories(Categories::CONNECTION)
        .locks(Locks::Nothing)
}

const SUBCOMMANDS: &[EngineSpec] = &[
    subcommand("setinfo", 4, super::setinfo, OWN)
        .docs(Group::Connection, "7.2.0", "O(1)", "Tells the server which client library is in use.")
        .tips(ON_ALL_NODES)
        .arguments("attr:oneof(libname:string@LIB-NAME libver:string@LIB-VER)"),
    subcommand("capa", -3, super::capa, OWN.or(Flags::ALLOW_BUSY))
        .docs(Group::Connection, "8.0.0", "O(1)", "Tells the server what the client can do.")
        .arguments("capability:string*"),
    subcommand("caching", 3, tracking::caching, OWN)
        .docs(Group::Connection, "6.0.0", "O(1)", "Says whether the next command's keys are tracked.")
        .arguments("mode:oneof(yes:pure-token@YES no:pure-token@NO)"),
    subcommand("no-evict", 3, super::no_evict, ADMIN)
        .docs(Group::Connection, "7.0.0", "O(1)", "Exempts the connection from closing for memory.")
        .arguments("enabled:oneof(on:pure-token@ON off:pure-token@OFF)"),
    subcommand("info", 2, list::info, OWN)
        .docs(Group::Connection, "6.2.0", "O(1)", "Shows what the server knows of the connection.")
        .tips(VARYING),
    subcommand("trackinginfo", 2, tracking::trackinginfo, OWN).docs(
        Group::Connection,
        "6.2.0",
        "O(1)",
        "Shows how the connection tracks keys for its cache.",
    ),
    subcommand("tracking", -3, tracking::tracking, OWN)
        .docs(
            Group::Connection,
            "6.0.0",
            "O(1), plus what the options cost",
            "Turns invalidations for the client's cache on or off.",
        )
        .arguments(
            "status:oneof(on:pure-token@ON off:pure-token@OFF) client-id:integer@REDIRECT? \
                 prefix:string@PREFIX?** bcast:pure-token@BCAST? optin:pure-token@OPTIN? \
                 optout:pure-token@OPTOUT? noloop:pure-token@NOLOOP?",
        ),
    subcommand("help", 2, super::help, ANY_TIME).docs(
        Group::Connection,
        "5.0.0",
        "O(1)",
        "Lists the subcommands.",
    ),
    subcommand("setname", 3, super::setname, OWN)
        .docs(Group::Connection, "2.6.9", "O(1)", "Names the connection.")
        .tips(ON_ALL_NODES)
        .arguments("connection-name:string"),
    subcommand("getname", 2, super::getname, OWN).docs(
        Group::Connection,
        "2.6.9",
        "O(1)",
        "Tells the connection's name.",
    ),
    subcommand("reply", 3, super::reply_mode, OWN)
        .docs(Group::Connection, "3.2.0", "O(1)", "Says whether the connection gets replies.")
        .arguments("action:oneof(on:pure-token@ON off:pure-token@OFF skip:pure-token@SKIP)"),
    subcommand("no-touch", 3, super::no_touch, OWN)
        .docs(
            Group::Connection,
            "7.2.0",
            "O(1)",
            "Says whether the connection's commands count as use of their keys.",
        )
        .arguments("enabled:oneof(on:pure-token@ON off:pure-token@OFF)"),
    subcommand("id", 2, super::id, OWN).docs(
        Group::Connection,
        "5.0.0",
        "O(1)",
        "Tells the connection's number.",
    ),
    subcommand("getredir", 2, tracking::getredir, OWN).docs(
        Group::Connection,
        "6.0.0",
        "O(1)",
        "Tells which client gets the connection's invalidations.",
    ),
    subcommand("unpause", 2, control::unpause, ADMIN).traits(Traits::WHILE_PAUSED).docs(
        Group::Connection,
        "6.2.0",
        "O(N), N being the clients held back",
        "Ends a pause before its time.",
    ),
    subcommand("pause", -3, control::pause, ADMIN)
        .docs(Group::Connection, "3.0.0", "O(1)", "Holds back writes, or all commands, for some time.")
        .history(&[("6.2.0", "The mode, with which reads go on.")])
        .arguments("timeout:integer mode:oneof(write:pure-token@WRITE all:pure-token@ALL)?<6.2.0"),
    subcommand("list", -2, list::list, ADMIN)
        .docs(Group::Connection, "2.4.0", "O(N), N being the clients", "Shows what is known of clients.")
        .history(&[
            ("2.8.12", "Clients have numbers, shown as `id`."),
            ("5.0.0", "The filter by type."),
            ("6.0.0", "Shows the `user`."),
            ("6.2.0", "Shows `argv-mem`, `tot-mem`, `laddr` and `redir`; the filter by number."),
            ("7.0.0", "Shows `resp`, `multi-mem`, `rbs` and `rbp`."),
            ("7.0.3", "Shows `ssub`."),
            ("7.2.0", "Shows `lib-name` and `lib-ver`."),
            ("7.4.0", "Shows `watch`."),
            ("8.0.0", "Shows `io-thread`."),
        ])
        .tips(VARYING)
        .arguments(
            "client-type:oneof(normal:pure-token@NORMAL master:pure-token@MASTER \
                 replica:pure-token@REPLICA pubsub:pure-token@PUBSUB)@TYPE?<5.0.0 \
                 client-id:integer@ID?*<6.2.0",
        ),
    subcommand("unblock", -3, control::unblock, ADMIN)
        .docs(
            Group::Connection,
            "5.0.0",
            "O(log N), N being the clients",
            "Ends the waiting of a client in a blocking command.",
        )
        .arguments(
            "client-id:integer unblock-type:oneof(timeout:pure-token@TIMEOUT error:pure-token@ERROR)?",
        ),
    subcommand("kill", -3, control::kill, ADMIN)
        .docs(Group::Connection, "2.4.0", "O(N), N being the clients", "Closes connections.")
        .history(&[
            ("2.8.12", "Filters in place of one address."),
            ("2.8.12", "The filter by number."),
            ("3.2.0", "The type `master`."),
            ("5.0.0", "The type `replica`, so far called `slave`, which still works."),
            ("6.2.0", "The filter by the server's end, `LADDR`."),
            ("7.4.0", "The filter by age, `MAXAGE`."),
        ])
        .arguments(
            "filter:oneof(old-format:string^ip:port!2.8.12 new-format:oneof(client-id:integer@ID?<2.8.12 \
                 client-type:oneof(normal:pure-token@NORMAL master:pure-token@MASTER<3.2.0 \
                 slave:pure-token@SLAVE replica:pure-token@REPLICA<5.0.0 \
                 pubsub:pure-token@PUBSUB)@TYPE?<2.8.12 username:string@USER? \
                 addr:string@ADDR?^ip:port laddr:string@LADDR?^ip:port<6.2.0 \
                 skipme:oneof(yes:pure-token@YES no:pure-token@NO)@SKIPME? maxage:integer@MAXAGE?<7.4.0)*)",
        ),
];

/// The registration table.
pub(in crate::commands) const COMMANDS: &[EngineSpec] = &[EngineSpec::container("client", -2, Flags::NONE)
    .docs(
        Group::Connection,
        "2.4.0",
        "Depends on the subcommand",
        "Shows and steers the clients of the server.",
    )
    .subcommands(SUBCOMMANDS)];
