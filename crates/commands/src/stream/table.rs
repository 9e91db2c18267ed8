//! The registration table of streams, without those that concern groups.

use super::add::{xadd, xsetid};
use super::delete::{xdel, xdelex};
use super::info;
use super::producers::{xcfgset, xidmprecord};
use super::range::{
    entries_of_xrange, entries_of_xrevrange, pack_xrange, pack_xrevrange, xlen, xrange, xrevrange,
};
use super::read::xread;
use super::trim::xtrim;
use crate::access::selected::count_of;
use crate::packed::{packs, packs_text};
use crate::spec::{BeginSearch, Categories, FindKeys, Flags, Group, KeyFlags, KeySpec, Locks};
use crate::{DataSpec, long_reads};

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("xadd", -5, xadd, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .categories(Categories::STREAM)
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE)).notes("Not an insertion alone: it may trim.")
        ])
        .docs(
            Group::Stream,
            "5.0.0",
            "O(1), and O(N) for N entries that trimming removes",
            "Appends an entry to a stream, creating the stream if need be.",
        )
        .history(&[
            ("6.2.0", "Has the options NOMKSTREAM, MINID and LIMIT."),
            ("7.0.0", "Takes an ID of the form `<ms>-*`."),
            ("8.2.0", "Has the options KEEPREF, DELREF and ACKED."),
        ])
        .tips(&["nondeterministic_output"])
        .arguments(
            "key:key#0 nomkstream:pure-token@NOMKSTREAM?<6.2.0 \
             condition:oneof(keepref:pure-token@KEEPREF delref:pure-token@DELREF \
             acked:pure-token@ACKED)? trim:block(strategy:oneof(maxlen:pure-token@MAXLEN \
             minid:pure-token@MINID<6.2.0) operator:oneof(equal:pure-token@= \
             approximately:pure-token@~)? threshold:string count:integer@LIMIT?<6.2.0)? \
             id-selector:oneof(auto-id:pure-token@* id:string) data:block(field:string \
             value:string)*",
        ),
    DataSpec::new("xcfgset", -2, xcfgset, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::STREAM)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(
            Group::Stream,
            "8.6.0",
            "O(1), and O(N) in the background for N entries of producers that are forgotten",
            "Sets for how long a stream knows what producers have sent, and for how many entries of each.",
        )
        .arguments("key:key#0 duration:integer@IDMP-DURATION? maxsize:integer@IDMP-MAXSIZE?"),
    DataSpec::new("xidmprecord", 5, xidmprecord, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .categories(Categories::STREAM)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(
            Group::Stream,
            "8.6.2",
            "O(log(N)) for N entries",
            "Notes that an entry is what a producer has sent under a name; for files.",
        )
        .arguments("key:key#0 pid:string iid:string stream-id:string"),
    DataSpec::new("xtrim", -4, xtrim, Flags::WRITE)
        .categories(Categories::STREAM)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::DELETE))])
        .docs(
            Group::Stream,
            "5.0.0",
            "O(N) for N removed entries, whole nodes of them at a time",
            "Removes the oldest entries of a stream.",
        )
        .history(&[
            ("6.2.0", "Has the options MINID and LIMIT."),
            ("8.2.0", "Has the options KEEPREF, DELREF and ACKED."),
        ])
        .tips(&["nondeterministic_output"])
        .arguments(
            "key:key#0 trim:block(strategy:oneof(maxlen:pure-token@MAXLEN \
             minid:pure-token@MINID<6.2.0) operator:oneof(equal:pure-token@= \
             approximately:pure-token@~)? threshold:string count:integer@LIMIT?<6.2.0 \
             condition:oneof(keepref:pure-token@KEEPREF delref:pure-token@DELREF \
             acked:pure-token@ACKED)?)",
        ),
    DataSpec::new("xlen", 2, xlen, Flags::READONLY.or(Flags::FAST))
        .elements_of(count_of)
        .packed(packs_text!(xlen))
        .categories(Categories::STREAM)
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .docs(Group::Stream, "5.0.0", "O(1)", "Tells how many entries a stream has.")
        .arguments("key:key#0"),
    DataSpec::new("xrange", -4, xrange, Flags::READONLY)
        .elements_of(entries_of_xrange)
        .reads_much(long_reads::no_limit)
        .packed(packs!(pack_xrange))
        .categories(Categories::STREAM)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::Stream,
            "5.0.0",
            "O(log(M)+N) for N returned entries of a stream of M",
            "Returns the entries between two IDs.",
        )
        .history(&[("6.2.0", "An ID after `(` is left out itself.")])
        .arguments("key:key#0 start:string end:string count:integer@COUNT?"),
    DataSpec::new("xrevrange", -4, xrevrange, Flags::READONLY)
        .elements_of(entries_of_xrevrange)
        .reads_much(long_reads::no_limit)
        .packed(packs!(pack_xrevrange))
        .categories(Categories::STREAM)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::Stream,
            "5.0.0",
            "O(log(M)+N) for N returned entries of a stream of M",
            "Returns the entries between two IDs, the newest first.",
        )
        .history(&[("6.2.0", "An ID after `(` is left out itself.")])
        .arguments("key:key#0 end:string start:string count:integer@COUNT?"),
    DataSpec::new("xdel", -3, xdel, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::STREAM)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::DELETE))])
        .docs(Group::Stream, "5.0.0", "O(N*log(M)) for N IDs in a stream of M entries", "Deletes entries.")
        .arguments("key:key#0 id:string*"),
    DataSpec::new("xdelex", -5, xdelex, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::STREAM)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::DELETE))])
        .docs(
            Group::Stream,
            "8.2.0",
            "O(N*log(M)) for N IDs in a stream of M entries",
            "Deletes entries, with a choice of what becomes of them where they are pending.",
        )
        .arguments(
            "key:key#0 condition:oneof(keepref:pure-token@KEEPREF delref:pure-token@DELREF \
             acked:pure-token@ACKED)? ids:block(numids:integer id:string*)@IDS",
        ),
    DataSpec::new("xread", -4, xread, Flags::READONLY.or(Flags::BLOCKING).or(Flags::MOVABLE_KEYS))
        .categories(Categories::STREAM)
        .keys(&[KeySpec::other(
            BeginSearch::Keyword("STREAMS", 1),
            FindKeys::Range { last: -1, step: 1, limit: 2 },
            KeyFlags::RO.or(KeyFlags::ACCESS),
        )])
        .docs(
            Group::Stream,
            "5.0.0",
            "O(log(M)+N) for each stream of M entries, N of which are returned",
            "Returns what streams hold after given IDs, and can wait for it.",
        )
        .arguments(
            "count:integer@COUNT? milliseconds:integer@BLOCK? streams:block(key:key#0* \
             id:string*)@STREAMS",
        ),
    DataSpec::container("xinfo", -2, Flags::NONE)
        .docs(
            Group::Stream,
            "5.0.0",
            "Depends on the subcommand.",
            "Looks into streams, groups and consumers.",
        )
        .subcommands(&[
            DataSpec::new("help", 2, info::help, Flags::LOADING.or(Flags::STALE))
                .locks(Locks::Nothing)
                .categories(Categories::STREAM)
                .docs(Group::Stream, "5.0.0", "O(1)", "Lists the subcommands."),
            DataSpec::new("groups", 3, info::groups, Flags::READONLY)
                .categories(Categories::STREAM)
                .keys(&[KeySpec::one(2, KeyFlags::RO.or(KeyFlags::ACCESS))])
                .docs(Group::Stream, "5.0.0", "O(N) for N groups", "Lists the consumer groups of a stream.")
                .history(&[("7.0.0", "Replies also the fields `entries-read` and `lag`.")])
                .arguments("key:key#0"),
            DataSpec::new("stream", -3, info::stream, Flags::READONLY)
                .categories(Categories::STREAM)
                .keys(&[KeySpec::one(2, KeyFlags::RO.or(KeyFlags::ACCESS))])
                .docs(
                    Group::Stream,
                    "5.0.0",
                    "O(N) for N nodes of the stream; FULL adds what is shown",
                    "Describes a stream.",
                )
                .history(&[
                    ("6.0.0", "Has the option FULL."),
                    (
                        "7.0.0",
                        "Replies also more numbers of the stream, and of groups `entries-read` and `lag`.",
                    ),
                    ("7.2.0", "Replies also `active-time`; `seen-time` means the last attempt."),
                ])
                .arguments("key:key#0 full-block:block(full:pure-token@FULL count:integer@COUNT?)?"),
            DataSpec::new("consumers", 4, info::consumers, Flags::READONLY)
                .categories(Categories::STREAM)
                .keys(&[KeySpec::one(2, KeyFlags::RO.or(KeyFlags::ACCESS))])
                .docs(Group::Stream, "5.0.0", "O(N) for N consumers", "Lists the consumers of a group.")
                .history(&[("7.2.0", "Replies also `inactive`; `idle` means since the last attempt.")])
                .tips(&["nondeterministic_output"])
                .arguments("key:key#0 group:string"),
        ]),
    DataSpec::new("xsetid", -3, xsetid, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .categories(Categories::STREAM)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(
            Group::Stream,
            "5.0.0",
            "O(log(N)) for a stream of N entries",
            "Sets the numbers that a stream keeps of itself; for replication.",
        )
        .history(&[("7.0.0", "Has the options ENTRIESADDED and MAXDELETEDID.")])
        .arguments(
            "key:key#0 last-id:string entries-added:integer@ENTRIESADDED?<7.0.0 \
             max-deleted-id:string@MAXDELETEDID?<7.0.0",
        ),
];
