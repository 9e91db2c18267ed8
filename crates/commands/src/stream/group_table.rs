//! The registration table of streams, of those that concern groups.

use super::claim::{xautoclaim, xclaim};
use super::delete::xackdel;
use super::give_back::xnack;
use super::group::{self, xack};
use super::pending::xpending;
use super::read::xreadgroup;
use crate::DataSpec;
use crate::spec::{BeginSearch, Categories, FindKeys, Flags, Group, KeyFlags, KeySpec, Locks};

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::container("xgroup", -2, Flags::NONE)
        .docs(
            Group::Stream,
            "5.0.0",
            "Depends on the subcommand.",
            "Manages the consumer groups of a stream.",
        )
        .subcommands(&[
            DataSpec::new("create", -5, group::create, Flags::WRITE.or(Flags::DENYOOM))
                .categories(Categories::STREAM)
                .keys(&[KeySpec::one(2, KeyFlags::RW.or(KeyFlags::INSERT))])
                .docs(Group::Stream, "5.0.0", "O(log(N)) for N groups", "Makes a consumer group.")
                .history(&[("7.0.0", "Has the option ENTRIESREAD.")])
                .arguments(
                    "key:key#0 group:string id-selector:oneof(id:string new-id:pure-token@$) \
                     mkstream:pure-token@MKSTREAM? entriesread:integer@ENTRIESREAD?^entries-read",
                ),
            DataSpec::new("setid", -5, group::set_id, Flags::WRITE)
                .categories(Categories::STREAM)
                .keys(&[KeySpec::one(2, KeyFlags::RW.or(KeyFlags::UPDATE))])
                .docs(
                    Group::Stream,
                    "5.0.0",
                    "O(log(N)) for N groups",
                    "Moves a consumer group to another place in its stream.",
                )
                .history(&[("7.0.0", "Has the option ENTRIESREAD.")])
                .arguments(
                    "key:key#0 group:string id-selector:oneof(id:string new-id:pure-token@$) \
                     entriesread:integer@ENTRIESREAD?^entries-read",
                ),
            DataSpec::new("createconsumer", 5, group::create_consumer, Flags::WRITE.or(Flags::DENYOOM))
                .categories(Categories::STREAM)
                .keys(&[KeySpec::one(2, KeyFlags::RW.or(KeyFlags::INSERT))])
                .docs(Group::Stream, "6.2.0", "O(log(N)) for N consumers", "Makes a consumer in a group.")
                .arguments("key:key#0 group:string consumer:string"),
            DataSpec::new("help", 2, group::help, Flags::LOADING.or(Flags::STALE))
                .locks(Locks::Nothing)
                .categories(Categories::STREAM)
                .docs(Group::Stream, "5.0.0", "O(1)", "Lists the subcommands."),
            DataSpec::new("destroy", 4, group::destroy, Flags::WRITE)
                .categories(Categories::STREAM)
                .keys(&[KeySpec::one(2, KeyFlags::RW.or(KeyFlags::DELETE))])
                .docs(Group::Stream, "5.0.0", "O(N) for N pending entries", "Removes a consumer group.")
                .arguments("key:key#0 group:string"),
            DataSpec::new("delconsumer", 5, group::delete_consumer, Flags::WRITE)
                .categories(Categories::STREAM)
                .keys(&[KeySpec::one(2, KeyFlags::RW.or(KeyFlags::DELETE))])
                .docs(
                    Group::Stream,
                    "5.0.0",
                    "O(N*log(M)) for N entries of the consumer, of M pending ones",
                    "Removes a consumer, with what is pending for it.",
                )
                .arguments("key:key#0 group:string consumer:string"),
        ]),
    DataSpec::new("xreadgroup", -7, xreadgroup, Flags::WRITE.or(Flags::BLOCKING).or(Flags::MOVABLE_KEYS))
        .categories(Categories::STREAM)
        .keys(&[KeySpec::other(
            BeginSearch::Keyword("STREAMS", 4),
            FindKeys::Range { last: -1, step: 1, limit: 2 },
            KeyFlags::RO.or(KeyFlags::ACCESS),
        )])
        .docs(
            Group::Stream,
            "5.0.0",
            "O(N*log(M)) for N entries delivered to a group with M pending ones",
            "Delivers entries to a consumer of a group, or shows it those it has; can wait.",
        )
        .arguments(
            "group-block:block(group:string consumer:string)@GROUP count:integer@COUNT? \
             milliseconds:integer@BLOCK? noack:pure-token@NOACK? streams:block(key:key#0* \
             id:string*)@STREAMS",
        ),
    DataSpec::new("xack", -4, xack, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::STREAM)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(
            Group::Stream,
            "5.0.0",
            "O(N*log(M)) for N IDs and M pending entries",
            "Takes entries off the list of those that a group has yet to acknowledge.",
        )
        .arguments("key:key#0 group:string id:string*"),
    DataSpec::new("xackdel", -6, xackdel, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::STREAM)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE).or(KeyFlags::DELETE))])
        .docs(
            Group::Stream,
            "8.2.0",
            "O(N*log(M)) for N IDs and M pending entries",
            "Acknowledges entries for a group and deletes them.",
        )
        .arguments(
            "key:key#0 group:string condition:oneof(keepref:pure-token@KEEPREF \
             delref:pure-token@DELREF acked:pure-token@ACKED)? ids:block(numids:integer \
             id:string*)@IDS",
        ),
    DataSpec::new("xnack", -7, xnack, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::STREAM)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(
            Group::Stream,
            "8.8.0",
            "O(N*log(M)) for N IDs and M pending entries",
            "Gives pending entries of a group back, for any consumer to take at once.",
        )
        .arguments(
            "key:key#0 group:string mode:oneof(silent:pure-token@SILENT fail:pure-token@FAIL \
             fatal:pure-token@FATAL) ids:block(numids:integer id:string*)@IDS \
             count:integer@RETRYCOUNT? force:pure-token@FORCE?",
        ),
    DataSpec::new("xpending", -3, xpending, Flags::READONLY)
        .categories(Categories::STREAM)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::Stream,
            "5.0.0",
            "O(log(M)+N) for N of M pending entries; the summary O(N) for N consumers",
            "Shows what a group has delivered and nobody has acknowledged.",
        )
        .history(&[("6.2.0", "Has the option IDLE; an ID after `(` is left out itself.")])
        .tips(&["nondeterministic_output"])
        .arguments(
            "key:key#0 group:string filters:block(min-idle-time:integer@IDLE?<6.2.0 \
             start:string end:string count:integer consumer:string?)?",
        ),
    DataSpec::new("xclaim", -6, xclaim, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::STREAM)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(
            Group::Stream,
            "5.0.0",
            "O(N*log(M)) for N IDs and M pending entries",
            "Makes a consumer the holder of pending entries.",
        )
        .tips(&["nondeterministic_output"])
        .arguments(
            "key:key#0 group:string consumer:string min-idle-time:string id:string* \
             ms:integer@IDLE? unix-time-milliseconds:unix-time@TIME? \
             count:integer@RETRYCOUNT? force:pure-token@FORCE? justid:pure-token@JUSTID? \
             lastid:string@LASTID?",
        ),
    DataSpec::new("xautoclaim", -6, xautoclaim, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::STREAM)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::DELETE))])
        .docs(
            Group::Stream,
            "6.2.0",
            "O(N*log(M)) for N of M pending entries looked at",
            "Makes a consumer the holder of entries that have been pending for some time.",
        )
        .history(&[("7.0.0", "Replies also which entries were gone and are no longer pending.")])
        .tips(&["nondeterministic_output"])
        .arguments(
            "key:key#0 group:string consumer:string min-idle-time:string start:string \
             count:integer@COUNT? justid:pure-token@JUSTID?",
        ),
];
