//! The registration table of sets.

use super::{combine, pick};
use crate::access::selected::{count_of, named_of};
use crate::packed::packs_text;
use crate::spec::{Categories, Flags, Group, KeyFlags, KeySpec};
use crate::{DataSpec, long_reads};

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("sadd", -3, super::sadd, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .categories(Categories::SET)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::INSERT))])
        .docs(
            Group::Set,
            "1.0.0",
            "O(N) for N members",
            "Adds members to a set, which is created if need be.",
        )
        .history(&[("2.4.0", "Several members in one call.")])
        .arguments("key:key#0 member:string*"),
    DataSpec::new("srem", -3, super::srem, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::SET)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::DELETE))])
        .docs(
            Group::Set,
            "1.0.0",
            "O(N) for N members",
            "Takes members out of a set, which goes with its last one.",
        )
        .history(&[("2.4.0", "Several members in one call.")])
        .arguments("key:key#0 member:string*"),
    DataSpec::new("sismember", 3, super::sismember, Flags::READONLY.or(Flags::FAST))
        .elements_of(named_of)
        .categories(Categories::SET)
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .docs(Group::Set, "1.0.0", "O(1)", "Tells whether a set has a member.")
        .arguments("key:key#0 member:string"),
    DataSpec::new("smismember", -3, super::smismember, Flags::READONLY.or(Flags::FAST))
        .elements_of(named_of)
        .packed(packs_text!(super::smismember))
        .categories(Categories::SET)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::Set,
            "6.2.0",
            "O(N) for N members asked for",
            "Tells of several values whether a set has them as members.",
        )
        .arguments("key:key#0 member:string*"),
    DataSpec::new("smembers", 2, super::smembers, Flags::READONLY)
        .reads_much(long_reads::always)
        .packed(packs_text!(super::smembers))
        .categories(Categories::SET)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::Set, "1.0.0", "O(N) for a set of N members", "Lists the members of a set.")
        .tips(&["nondeterministic_output_order"])
        .arguments("key:key#0"),
    DataSpec::new("scard", 2, super::scard, Flags::READONLY.or(Flags::FAST))
        .elements_of(count_of)
        .packed(packs_text!(super::scard))
        .categories(Categories::SET)
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .docs(Group::Set, "1.0.0", "O(1)", "Counts the members of a set.")
        .arguments("key:key#0"),
    DataSpec::new("spop", -2, pick::spop, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::SET)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE))])
        .docs(Group::Set, "1.0.0", "O(1), or O(N) with a count of N", "Takes members out of a set at random.")
        .history(&[("3.2.0", "Count.")])
        .tips(&["nondeterministic_output"])
        .arguments("key:key#0 count:integer?<3.2.0"),
    DataSpec::new("srandmember", -2, pick::srandmember, Flags::READONLY)
        .reads_much(long_reads::many_picks)
        .categories(Categories::SET)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::Set,
            "1.0.0",
            "O(1), or O(N) with a count of N or -N",
            "Picks members of a set at random and leaves them there.",
        )
        .history(&[("2.6.0", "Count.")])
        .tips(&["nondeterministic_output"])
        .arguments("key:key#0 count:integer?<2.6.0"),
    DataSpec::new("smove", 4, super::smove, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::SET)
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE)),
            KeySpec::one(2, KeyFlags::RW.or(KeyFlags::INSERT)),
        ])
        .docs(Group::Set, "1.0.0", "O(1)", "Takes a member out of one set and adds it to another.")
        .arguments("source:key#0 destination:key#1 member:string"),
    DataSpec::new("sinter", -2, combine::sinter, Flags::READONLY)
        .reads_much(long_reads::always)
        .categories(Categories::SET)
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::Set,
            "1.0.0",
            "O(N*M) for M sets, the smallest having N members",
            "Lists the members that all of the sets have.",
        )
        .tips(&["nondeterministic_output_order"])
        .arguments("key:key#0*"),
    DataSpec::new("sinterstore", -3, combine::sinterstore, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::SET)
        .keys(&[
            KeySpec::one(1, KeyFlags::OW.or(KeyFlags::UPDATE)),
            KeySpec::range(2, -1, 1, KeyFlags::RO.or(KeyFlags::ACCESS)),
        ])
        .docs(
            Group::Set,
            "1.0.0",
            "O(N*M) for M sets, the smallest having N members",
            "Makes a key the set of the members that all of the sets have.",
        )
        .arguments("destination:key#0 key:key#1*"),
    DataSpec::new("sintercard", -3, combine::sintercard, Flags::READONLY.or(Flags::MOVABLE_KEYS))
        .reads_much(long_reads::always)
        .categories(Categories::SET)
        .keys(&[KeySpec::counted(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::Set,
            "7.0.0",
            "O(N*M) for M sets, the smallest having N members",
            "Counts the members that all of the sets have.",
        )
        .arguments("numkeys:integer key:key#0* limit:integer@LIMIT?"),
    DataSpec::new("sunioncard", -3, combine::sunioncard, Flags::READONLY.or(Flags::MOVABLE_KEYS))
        .reads_much(long_reads::always)
        .categories(Categories::SET)
        .keys(&[KeySpec::counted(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::Set,
            "8.10.0",
            "O(N) for N members in all the sets",
            "Counts the members that any of the sets has.",
        )
        .arguments("numkeys:integer key:key#0* approx:pure-token@APPROX? limit:integer@LIMIT?"),
    DataSpec::new("sdiffcard", -3, combine::sdiffcard, Flags::READONLY.or(Flags::MOVABLE_KEYS))
        .reads_much(long_reads::always)
        .categories(Categories::SET)
        .keys(&[KeySpec::counted(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::Set,
            "8.10.0",
            "O(N) for N members in all the sets",
            "Counts the members of the first set that none of the others has.",
        )
        .arguments("numkeys:integer key:key#0* limit:integer@LIMIT?"),
    DataSpec::new("sunion", -2, combine::sunion, Flags::READONLY)
        .reads_much(long_reads::always)
        .categories(Categories::SET)
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::Set,
            "1.0.0",
            "O(N) for N members in all the sets",
            "Lists the members that any of the sets has.",
        )
        .tips(&["nondeterministic_output_order"])
        .arguments("key:key#0*"),
    DataSpec::new("sunionstore", -3, combine::sunionstore, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::SET)
        .keys(&[
            KeySpec::one(1, KeyFlags::OW.or(KeyFlags::UPDATE)),
            KeySpec::range(2, -1, 1, KeyFlags::RO.or(KeyFlags::ACCESS)),
        ])
        .docs(
            Group::Set,
            "1.0.0",
            "O(N) for N members in all the sets",
            "Makes a key the set of the members that any of the sets has.",
        )
        .arguments("destination:key#0 key:key#1*"),
    DataSpec::new("sdiff", -2, combine::sdiff, Flags::READONLY)
        .reads_much(long_reads::always)
        .categories(Categories::SET)
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::Set,
            "1.0.0",
            "O(N) for N members in all the sets",
            "Lists the members that the first set has and none of the others.",
        )
        .tips(&["nondeterministic_output_order"])
        .arguments("key:key#0*"),
    DataSpec::new("sdiffstore", -3, combine::sdiffstore, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::SET)
        .keys(&[
            KeySpec::one(1, KeyFlags::OW.or(KeyFlags::UPDATE)),
            KeySpec::range(2, -1, 1, KeyFlags::RO.or(KeyFlags::ACCESS)),
        ])
        .docs(
            Group::Set,
            "1.0.0",
            "O(N) for N members in all the sets",
            "Makes a key the set of the members that the first set has and none of the others.",
        )
        .arguments("destination:key#0 key:key#1*"),
    DataSpec::new("sscan", -3, super::sscan, Flags::READONLY)
        .categories(Categories::SET)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .reads_much(long_reads::many_scanned)
        .docs(
            Group::Set,
            "2.8.0",
            "O(1) a call, O(N) for the N members of a whole iteration",
            "Lists the members of a set step by step.",
        )
        .tips(&["nondeterministic_output"])
        .arguments("key:key#0 cursor:integer pattern:pattern@MATCH? count:integer@COUNT?"),
];
