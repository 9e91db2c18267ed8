//! The registration table of sorted sets.

use super::change::{zadd, zincrby, zrem};
use super::combine::{
    pack_zdiff, pack_zinter, pack_zunion, zdiff, zdiffstore, zinter, zintercard, zinterstore, zunion,
    zunionstore,
};
use super::pop::{bzmpop, bzpopmax, bzpopmin, pack_zpopmax, pack_zpopmin, zmpop, zpopmax, zpopmin};
use super::query::{pack_zmscore, pack_zscore, zcard, zmscore, zrandmember, zrank, zrevrank, zscore};
use super::range::{
    elements_of_zrange, elements_of_zrangebyscore, elements_of_zrevrange, elements_of_zrevrangebyscore,
    pack_zrange, pack_zrangebyscore, pack_zrevrange, pack_zrevrangebyscore, zcount, zlexcount, zrange,
    zrangebylex, zrangebyscore, zrangestore, zremrangebylex, zremrangebyrank, zremrangebyscore, zrevrange,
    zrevrangebylex, zrevrangebyscore,
};
use super::scan::zscan;
use crate::access::selected::count_of;
use crate::packed::{packs, packs_changed_fraction, packs_text};
use crate::spec::{Categories, Flags, Group, KeyFlags, KeySpec};
use crate::{DataSpec, long_reads};

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("zadd", -4, zadd, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(
            Group::SortedSet,
            "1.2.0",
            "O(M*log(N)) for M members added to a set of N",
            "Gives members their scores, creating the sorted set if need be.",
        )
        .history(&[
            ("2.4.0", "Takes several pairs."),
            ("3.0.2", "Has the options `XX`, `NX`, `CH` and `INCR`."),
            ("6.2.0", "Has the options `GT` and `LT`."),
        ])
        .arguments(
            "key:key#0 condition:oneof(nx:pure-token@NX xx:pure-token@XX)?<3.0.2 \
             comparison:oneof(gt:pure-token@GT lt:pure-token@LT)?<6.2.0 change:pure-token@CH?<3.0.2 \
             increment:pure-token@INCR?<3.0.2 data:block(score:double member:string)*",
        ),
    DataSpec::new("zincrby", 4, zincrby, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .packed(packs_changed_fraction!(zincrby))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE))])
        .docs(
            Group::SortedSet,
            "1.2.0",
            "O(log(N)) for a set of N members",
            "Adds a number to the score of a member.",
        )
        .arguments("key:key#0 increment:integer member:string"),
    DataSpec::new("zrem", -3, zrem, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::DELETE))])
        .docs(Group::SortedSet, "1.2.0", "O(M*log(N)) for M members of a set of N", "Removes members.")
        .history(&[("2.4.0", "Takes several members.")])
        .arguments("key:key#0 member:string*"),
    DataSpec::new("zscore", 3, zscore, Flags::READONLY.or(Flags::FAST))
        .packed(packs!(pack_zscore))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::SortedSet, "1.2.0", "O(1)", "Tells the score of a member.")
        .arguments("key:key#0 member:string"),
    DataSpec::new("zmscore", -3, zmscore, Flags::READONLY.or(Flags::FAST))
        .packed(packs!(pack_zmscore))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::SortedSet, "6.2.0", "O(M) for M members", "Tells the scores of several members.")
        .arguments("key:key#0 member:string*"),
    DataSpec::new("zcard", 2, zcard, Flags::READONLY.or(Flags::FAST))
        .elements_of(count_of)
        .packed(packs_text!(zcard))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .docs(Group::SortedSet, "1.2.0", "O(1)", "Tells how many members a sorted set has.")
        .arguments("key:key#0"),
    DataSpec::new("zcount", 4, zcount, Flags::READONLY.or(Flags::FAST))
        .packed(packs_text!(zcount))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::SortedSet,
            "2.0.0",
            "O(log(N)) for a set of N members",
            "Counts the members whose scores lie in a range.",
        )
        .arguments("key:key#0 min:double max:double"),
    DataSpec::new("zlexcount", 4, zlexcount, Flags::READONLY.or(Flags::FAST))
        .packed(packs_text!(zlexcount))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::SortedSet,
            "2.8.9",
            "O(log(N)) for a set of N members",
            "Counts the members between two members, where all scores are equal.",
        )
        .arguments("key:key#0 min:string max:string"),
    DataSpec::new("zrank", -3, zrank, Flags::READONLY.or(Flags::FAST))
        .packed(packs_text!(zrank))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::SortedSet,
            "2.0.0",
            "O(log(N)) for a set of N members",
            "Tells how many members have lower scores than a given one.",
        )
        .history(&[("7.2.0", "Has the option `WITHSCORE`.")])
        .arguments("key:key#0 member:string withscore:pure-token@WITHSCORE?"),
    DataSpec::new("zrevrank", -3, zrevrank, Flags::READONLY.or(Flags::FAST))
        .packed(packs_text!(zrevrank))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::SortedSet,
            "2.0.0",
            "O(log(N)) for a set of N members",
            "Tells how many members have higher scores than a given one.",
        )
        .history(&[("7.2.0", "Has the option `WITHSCORE`.")])
        .arguments("key:key#0 member:string withscore:pure-token@WITHSCORE?"),
    DataSpec::new("zrange", -4, zrange, Flags::READONLY)
        .elements_of(elements_of_zrange)
        .reads_much(long_reads::zrange)
        .packed(packs!(pack_zrange))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::SortedSet,
            "1.2.0",
            "O(log(N)+M) for M of N members",
            "Returns the members in a range of ranks, of scores, or of members.",
        )
        .history(&[("6.2.0", "Has the options `REV`, `BYSCORE`, `BYLEX` and `LIMIT`.")])
        .arguments(
            "key:key#0 start:string stop:string sortby:oneof(byscore:pure-token@BYSCORE \
             bylex:pure-token@BYLEX)?<6.2.0 rev:pure-token@REV?<6.2.0 limit:block(offset:integer \
             count:integer)@LIMIT?<6.2.0 withscores:pure-token@WITHSCORES?",
        ),
    DataSpec::new("zrangestore", -5, zrangestore, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::SORTEDSET)
        .keys(&[
            KeySpec::one(1, KeyFlags::OW.or(KeyFlags::UPDATE)),
            KeySpec::one(2, KeyFlags::RO.or(KeyFlags::ACCESS)),
        ])
        .docs(
            Group::SortedSet,
            "6.2.0",
            "O(log(N)+M) for M of N members",
            "Stores a range of one sorted set as another.",
        )
        .arguments(
            "dst:key#0 src:key#1 min:string max:string sortby:oneof(byscore:pure-token@BYSCORE \
             bylex:pure-token@BYLEX)? rev:pure-token@REV? limit:block(offset:integer \
             count:integer)@LIMIT?",
        ),
    DataSpec::new("zrevrange", -4, zrevrange, Flags::READONLY)
        .elements_of(elements_of_zrevrange)
        .reads_much(long_reads::many_ranks)
        .packed(packs!(pack_zrevrange))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::SortedSet,
            "1.2.0",
            "O(log(N)+M) for M of N members",
            "Returns the members in a range of ranks, highest score first.",
        )
        .deprecated("6.2.0", "`ZRANGE` with `REV`")
        .arguments("key:key#0 start:integer stop:integer withscores:pure-token@WITHSCORES?"),
    DataSpec::new("zrangebyscore", -4, zrangebyscore, Flags::READONLY)
        .elements_of(elements_of_zrangebyscore)
        .reads_much(long_reads::no_limit)
        .packed(packs!(pack_zrangebyscore))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::SortedSet,
            "1.0.5",
            "O(log(N)+M) for M of N members",
            "Returns the members whose scores lie in a range.",
        )
        .deprecated("6.2.0", "`ZRANGE` with `BYSCORE`")
        .history(&[("2.0.0", "Has the option `WITHSCORES`.")])
        .arguments(
            "key:key#0 min:double max:double withscores:pure-token@WITHSCORES?<2.0.0 \
             limit:block(offset:integer count:integer)@LIMIT?",
        ),
    DataSpec::new("zrevrangebyscore", -4, zrevrangebyscore, Flags::READONLY)
        .elements_of(elements_of_zrevrangebyscore)
        .reads_much(long_reads::no_limit)
        .packed(packs!(pack_zrevrangebyscore))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::SortedSet,
            "2.2.0",
            "O(log(N)+M) for M of N members",
            "Returns the members whose scores lie in a range, highest score first.",
        )
        .deprecated("6.2.0", "`ZRANGE` with `REV` and `BYSCORE`")
        .history(&[("2.1.6", "The ends may be exclusive.")])
        .arguments(
            "key:key#0 max:double min:double withscores:pure-token@WITHSCORES? \
             limit:block(offset:integer count:integer)@LIMIT?",
        ),
    DataSpec::new("zrangebylex", -4, zrangebylex, Flags::READONLY)
        .reads_much(long_reads::no_limit)
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::SortedSet,
            "2.8.9",
            "O(log(N)+M) for M of N members",
            "Returns the members between two members, where all scores are equal.",
        )
        .deprecated("6.2.0", "`ZRANGE` with `BYLEX`")
        .arguments("key:key#0 min:string max:string limit:block(offset:integer count:integer)@LIMIT?"),
    DataSpec::new("zrevrangebylex", -4, zrevrangebylex, Flags::READONLY)
        .reads_much(long_reads::no_limit)
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::SortedSet,
            "2.8.9",
            "O(log(N)+M) for M of N members",
            "Returns the members between two members in falling order, where all scores are equal.",
        )
        .deprecated("6.2.0", "`ZRANGE` with `REV` and `BYLEX`")
        .arguments("key:key#0 max:string min:string limit:block(offset:integer count:integer)@LIMIT?"),
    DataSpec::new("zremrangebyrank", 4, zremrangebyrank, Flags::WRITE)
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::DELETE))])
        .docs(
            Group::SortedSet,
            "2.0.0",
            "O(log(N)+M) for M of N members",
            "Removes the members in a range of ranks.",
        )
        .arguments("key:key#0 start:integer stop:integer"),
    DataSpec::new("zremrangebyscore", 4, zremrangebyscore, Flags::WRITE)
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::DELETE))])
        .docs(
            Group::SortedSet,
            "1.2.0",
            "O(log(N)+M) for M of N members",
            "Removes the members whose scores lie in a range.",
        )
        .arguments("key:key#0 min:double max:double"),
    DataSpec::new("zremrangebylex", 4, zremrangebylex, Flags::WRITE)
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::DELETE))])
        .docs(
            Group::SortedSet,
            "2.8.9",
            "O(log(N)+M) for M of N members",
            "Removes the members between two members, where all scores are equal.",
        )
        .arguments("key:key#0 min:string max:string"),
    DataSpec::new("zpopmin", -2, zpopmin, Flags::WRITE.or(Flags::FAST))
        .packed(packs!(pack_zpopmin))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE))])
        .docs(
            Group::SortedSet,
            "5.0.0",
            "O(log(N)+M) for M of N members taken",
            "Takes the members with the lowest scores.",
        )
        .arguments("key:key#0 count:integer?"),
    DataSpec::new("zpopmax", -2, zpopmax, Flags::WRITE.or(Flags::FAST))
        .packed(packs!(pack_zpopmax))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE))])
        .docs(
            Group::SortedSet,
            "5.0.0",
            "O(log(N)+M) for M of N members taken",
            "Takes the members with the highest scores.",
        )
        .arguments("key:key#0 count:integer?"),
    DataSpec::new("zmpop", -4, zmpop, Flags::WRITE.or(Flags::MOVABLE_KEYS))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::counted(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE))])
        .docs(
            Group::SortedSet,
            "7.0.0",
            "O(K)+O(log(N)+M) for K keys and M of N members taken",
            "Takes the lowest or highest members of the first sorted set that has any.",
        )
        .arguments(
            "numkeys:integer key:key#0* where:oneof(min:pure-token@MIN max:pure-token@MAX) \
             count:integer@COUNT?",
        ),
    DataSpec::new("zunion", -3, zunion, Flags::READONLY.or(Flags::MOVABLE_KEYS))
        .reads_much(long_reads::always)
        .packed(packs!(pack_zunion))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::counted(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::SortedSet,
            "6.2.0",
            "O(N)+O(M*log(M)) for N members in and M out",
            "Returns the members that any of several sets has.",
        )
        .arguments(
            "numkeys:integer key:key#0* weight:integer@WEIGHTS?* aggregate:oneof(sum:pure-token@SUM \
             min:pure-token@MIN max:pure-token@MAX)@AGGREGATE? withscores:pure-token@WITHSCORES?",
        ),
    DataSpec::new("zinter", -3, zinter, Flags::READONLY.or(Flags::MOVABLE_KEYS))
        .reads_much(long_reads::always)
        .packed(packs!(pack_zinter))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::counted(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::SortedSet,
            "6.2.0",
            "O(N*K)+O(M*log(M)) for K sets, the smallest of N members, and M out",
            "Returns the members that all of several sets have.",
        )
        .arguments(
            "numkeys:integer key:key#0* weight:integer@WEIGHTS?* aggregate:oneof(sum:pure-token@SUM \
             min:pure-token@MIN max:pure-token@MAX)@AGGREGATE? withscores:pure-token@WITHSCORES?",
        ),
    DataSpec::new("zdiff", -3, zdiff, Flags::READONLY.or(Flags::MOVABLE_KEYS))
        .reads_much(long_reads::always)
        .packed(packs!(pack_zdiff))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::counted(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::SortedSet,
            "6.2.0",
            "O(N*K)+O(M*log(M)) for K sets, the first of N members, and M out",
            "Returns the members of one set that no other one has.",
        )
        .arguments("numkeys:integer key:key#0* withscores:pure-token@WITHSCORES?"),
    DataSpec::new("zunionstore", -4, zunionstore, Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS))
        .categories(Categories::SORTEDSET)
        .keys(&[
            KeySpec::one(1, KeyFlags::OW.or(KeyFlags::UPDATE)),
            KeySpec::counted(2, KeyFlags::RO.or(KeyFlags::ACCESS)),
        ])
        .docs(
            Group::SortedSet,
            "2.0.0",
            "O(N)+O(M*log(M)) for N members in and M out",
            "Stores the members that any of several sets has.",
        )
        .arguments(
            "destination:key#0 numkeys:integer key:key#1* weight:integer@WEIGHTS?* \
             aggregate:oneof(sum:pure-token@SUM min:pure-token@MIN max:pure-token@MAX)@AGGREGATE?",
        ),
    DataSpec::new("zinterstore", -4, zinterstore, Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS))
        .categories(Categories::SORTEDSET)
        .keys(&[
            KeySpec::one(1, KeyFlags::OW.or(KeyFlags::UPDATE)),
            KeySpec::counted(2, KeyFlags::RO.or(KeyFlags::ACCESS)),
        ])
        .docs(
            Group::SortedSet,
            "2.0.0",
            "O(N*K)+O(M*log(M)) for K sets, the smallest of N members, and M out",
            "Stores the members that all of several sets have.",
        )
        .arguments(
            "destination:key#0 numkeys:integer key:key#1* weight:integer@WEIGHTS?* \
             aggregate:oneof(sum:pure-token@SUM min:pure-token@MIN max:pure-token@MAX)@AGGREGATE?",
        ),
    DataSpec::new("zdiffstore", -4, zdiffstore, Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS))
        .categories(Categories::SORTEDSET)
        .keys(&[
            KeySpec::one(1, KeyFlags::OW.or(KeyFlags::UPDATE)),
            KeySpec::counted(2, KeyFlags::RO.or(KeyFlags::ACCESS)),
        ])
        .docs(
            Group::SortedSet,
            "6.2.0",
            "O(N*K)+O(M*log(M)) for K sets, the first of N members, and M out",
            "Stores the members of one set that no other one has.",
        )
        .arguments("destination:key#0 numkeys:integer key:key#1*"),
    DataSpec::new("zintercard", -3, zintercard, Flags::READONLY.or(Flags::MOVABLE_KEYS))
        .reads_much(long_reads::always)
        .packed(packs_text!(zintercard))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::counted(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::SortedSet,
            "7.0.0",
            "O(N*K) for K sets, the smallest of N members",
            "Counts the members that all of several sets have.",
        )
        .arguments("numkeys:integer key:key#0* limit:integer@LIMIT?"),
    DataSpec::new("zrandmember", -2, zrandmember, Flags::READONLY)
        .reads_much(long_reads::many_picks)
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::SortedSet,
            "6.2.0",
            "O(M*log(N)) for M of N members",
            "Returns members picked at random.",
        )
        .tips(&["nondeterministic_output"])
        .arguments("key:key#0 options:block(count:integer withscores:pure-token@WITHSCORES?)?"),
    DataSpec::new("zscan", -3, zscan, Flags::READONLY)
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .reads_much(long_reads::many_scanned)
        .docs(
            Group::SortedSet,
            "2.8.0",
            "O(1) a call, O(N) for a whole iteration over N members",
            "Iterates over members and their scores.",
        )
        .tips(&["nondeterministic_output"])
        .arguments("key:key#0 cursor:integer pattern:pattern@MATCH? count:integer@COUNT?"),
    DataSpec::new("bzpopmin", -3, bzpopmin, Flags::WRITE.or(Flags::BLOCKING).or(Flags::FAST))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::range(1, -2, 1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE))])
        .docs(
            Group::SortedSet,
            "5.0.0",
            "O(log(N)) for a set of N members",
            "Takes the lowest member of the first sorted set that has one, waiting for it if need be.",
        )
        .history(&[("6.0.0", "The timeout may have a fraction.")])
        .arguments("key:key#0* timeout:double"),
    DataSpec::new("bzpopmax", -3, bzpopmax, Flags::WRITE.or(Flags::BLOCKING).or(Flags::FAST))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::range(1, -2, 1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE))])
        .docs(
            Group::SortedSet,
            "5.0.0",
            "O(log(N)) for a set of N members",
            "Takes the highest member of the first sorted set that has one, waiting for it if need be.",
        )
        .history(&[("6.0.0", "The timeout may have a fraction.")])
        .arguments("key:key#0* timeout:double"),
    DataSpec::new("bzmpop", -5, bzmpop, Flags::WRITE.or(Flags::BLOCKING).or(Flags::MOVABLE_KEYS))
        .categories(Categories::SORTEDSET)
        .keys(&[KeySpec::counted(2, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE))])
        .docs(
            Group::SortedSet,
            "7.0.0",
            "O(K)+O(log(N)+M) for K keys and M of N members taken",
            "Takes members like ZMPOP, waiting for some if need be.",
        )
        .arguments(
            "timeout:double numkeys:integer key:key#0* where:oneof(min:pure-token@MIN \
             max:pure-token@MAX) count:integer@COUNT?",
        ),
];
