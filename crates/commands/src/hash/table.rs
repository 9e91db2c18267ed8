//! The registration table of hashes.

use super::{counter, expiry, fields, pick};
use crate::access::selected::{count_of, named_of};
use crate::packed::{packs, packs_changed_fraction, packs_text};
use crate::spec::{Categories, Flags, Group, KeyFlags, KeySpec};
use crate::{DataSpec, long_reads};

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("hset", -4, super::hset, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(Group::Hash, "2.0.0", "O(N) for N fields", "Gives fields of a hash their values.")
        .history(&[("4.0.0", "Several fields in one call.")])
        .arguments("key:key#0 data:block(field:string value:string)*"),
    DataSpec::new("hsetnx", 4, super::hsetnx, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::INSERT))])
        .docs(Group::Hash, "2.0.0", "O(1)", "Gives a field of a hash a value unless it has one.")
        .arguments("key:key#0 field:string value:string"),
    DataSpec::new("hmset", -4, super::hmset, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(Group::Hash, "2.0.0", "O(N) for N fields", "Gives fields of a hash their values.")
        .deprecated("4.0.0", "HSET with several fields")
        .arguments("key:key#0 data:block(field:string value:string)*"),
    DataSpec::new("hget", 3, super::hget, Flags::READONLY.or(Flags::FAST))
        .elements_of(named_of)
        .packed(packs!(super::pack_hget))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::Hash, "2.0.0", "O(1)", "Reads a field of a hash.")
        .arguments("key:key#0 field:string"),
    DataSpec::new("hmget", -3, super::hmget, Flags::READONLY.or(Flags::FAST))
        .elements_of(named_of)
        .packed(packs!(super::pack_hmget))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::Hash, "2.0.0", "O(N) for N fields asked for", "Reads several fields of a hash.")
        .arguments("key:key#0 field:string*"),
    DataSpec::new("hgetall", 2, super::hgetall, Flags::READONLY)
        .reads_much(long_reads::always)
        .packed(packs!(super::pack_hgetall))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::Hash,
            "2.0.0",
            "O(N) for a hash of N fields",
            "Lists the fields of a hash with their \
         values.",
        )
        .tips(&["nondeterministic_output_order"])
        .arguments("key:key#0"),
    DataSpec::new("hdel", -3, super::hdel, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::DELETE))])
        .docs(
            Group::Hash,
            "2.0.0",
            "O(N) for N fields",
            "Takes fields out of a hash, which goes with its \
         last one.",
        )
        .history(&[("2.4.0", "Several fields in one call.")])
        .arguments("key:key#0 field:string*"),
    DataSpec::new("hlen", 2, super::hlen, Flags::READONLY.or(Flags::FAST))
        .elements_of(count_of)
        .packed(packs_text!(super::hlen))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .docs(Group::Hash, "2.0.0", "O(1)", "Counts the fields of a hash.")
        .arguments("key:key#0"),
    DataSpec::new("hstrlen", 3, super::hstrlen, Flags::READONLY.or(Flags::FAST))
        .elements_of(named_of)
        .packed(packs_text!(super::hstrlen))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .docs(Group::Hash, "3.2.0", "O(1)", "Tells how long the value of a field is.")
        .arguments("key:key#0 field:string"),
    DataSpec::new("hexists", 3, super::hexists, Flags::READONLY.or(Flags::FAST))
        .elements_of(named_of)
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .docs(Group::Hash, "2.0.0", "O(1)", "Tells whether a hash has a field.")
        .arguments("key:key#0 field:string"),
    DataSpec::new("hkeys", 2, super::hkeys, Flags::READONLY)
        .reads_much(long_reads::always)
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::Hash, "2.0.0", "O(N) for a hash of N fields", "Lists the fields of a hash.")
        .tips(&["nondeterministic_output_order"])
        .arguments("key:key#0"),
    DataSpec::new("hvals", 2, super::hvals, Flags::READONLY)
        .reads_much(long_reads::always)
        .packed(packs!(super::pack_hvals))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::Hash, "2.0.0", "O(N) for a hash of N fields", "Lists the values of a hash.")
        .tips(&["nondeterministic_output_order"])
        .arguments("key:key#0"),
    DataSpec::new("hincrby", 4, counter::hincrby, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .packed(packs_text!(counter::hincrby))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE))])
        .docs(
            Group::Hash,
            "2.0.0",
            "O(1)",
            "Adds an integer to a field of a hash; a missing field counts as \
         0.",
        )
        .arguments("key:key#0 field:string increment:integer"),
    DataSpec::new("hincrbyfloat", 4, counter::hincrbyfloat, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .packed(packs_changed_fraction!(counter::hincrbyfloat))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE))])
        .docs(
            Group::Hash,
            "2.6.0",
            "O(1)",
            "Adds a decimal number to a field of a hash; a missing field \
         counts as 0.",
        )
        .arguments("key:key#0 field:string increment:double"),
    DataSpec::new("hrandfield", -2, pick::hrandfield, Flags::READONLY)
        .reads_much(long_reads::many_picks)
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::Hash, "6.2.0", "O(N) for N fields returned", "Picks fields of a hash at random.")
        .tips(&["nondeterministic_output"])
        .arguments("key:key#0 options:block(count:integer withvalues:pure-token@WITHVALUES?)?"),
    DataSpec::new("hscan", -3, pick::hscan, Flags::READONLY)
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .reads_much(long_reads::many_scanned)
        .docs(
            Group::Hash,
            "2.8.0",
            "O(1) a call, O(N) for the N fields of a whole iteration",
            "Lists the \
         fields of a hash step by step.",
        )
        .tips(&["nondeterministic_output"])
        .arguments(
            "key:key#0 cursor:integer pattern:pattern@MATCH? count:integer@COUNT? \
         novalues:pure-token@NOVALUES?",
        ),
    DataSpec::new("hexpire", -6, expiry::hexpire, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(Group::Hash, "7.4.0", "O(N) for N fields", "Lets fields of a hash expire in so many seconds.")
        .arguments(
            "key:key#0 seconds:integer condition:oneof(nx:pure-token@NX xx:pure-token@XX \
         gt:pure-token@GT lt:pure-token@LT)? fields:block(numfields:integer field:string*)@FIELDS",
        ),
    DataSpec::new("hpexpire", -6, expiry::hpexpire, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(
            Group::Hash,
            "7.4.0",
            "O(N) for N fields",
            "Lets fields of a hash expire in so many \
         milliseconds.",
        )
        .arguments(
            "key:key#0 milliseconds:integer condition:oneof(nx:pure-token@NX xx:pure-token@XX \
         gt:pure-token@GT lt:pure-token@LT)? fields:block(numfields:integer field:string*)@FIELDS",
        ),
    DataSpec::new("hexpireat", -6, expiry::hexpireat, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(
            Group::Hash,
            "7.4.0",
            "O(N) for N fields",
            "Lets fields of a hash expire at a Unix time in \
         seconds.",
        )
        .arguments(
            "key:key#0 unix-time-seconds:unix-time condition:oneof(nx:pure-token@NX xx:pure-token@XX \
         gt:pure-token@GT lt:pure-token@LT)? fields:block(numfields:integer field:string*)@FIELDS",
        ),
    DataSpec::new("hpexpireat", -6, expiry::hpexpireat, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(
            Group::Hash,
            "7.4.0",
            "O(N) for N fields",
            "Lets fields of a hash expire at a Unix time in \
         milliseconds.",
        )
        .arguments(
            "key:key#0 unix-time-milliseconds:unix-time condition:oneof(nx:pure-token@NX \
         xx:pure-token@XX gt:pure-token@GT lt:pure-token@LT)? fields:block(numfields:integer \
         field:string*)@FIELDS",
        ),
    DataSpec::new("httl", -5, expiry::httl, Flags::READONLY.or(Flags::FAST))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::Hash, "7.4.0", "O(N) for N fields", "Tells in how many seconds fields of a hash expire.")
        .tips(&["nondeterministic_output"])
        .arguments("key:key#0 fields:block(numfields:integer field:string*)@FIELDS"),
    DataSpec::new("hpttl", -5, expiry::hpttl, Flags::READONLY.or(Flags::FAST))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::Hash,
            "7.4.0",
            "O(N) for N fields",
            "Tells in how many milliseconds fields of a hash \
         expire.",
        )
        .tips(&["nondeterministic_output"])
        .arguments("key:key#0 fields:block(numfields:integer field:string*)@FIELDS"),
    DataSpec::new("hexpiretime", -5, expiry::hexpiretime, Flags::READONLY.or(Flags::FAST))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::Hash,
            "7.4.0",
            "O(N) for N fields",
            "Tells at which Unix time in seconds fields of a \
         hash expire.",
        )
        .arguments("key:key#0 fields:block(numfields:integer field:string*)@FIELDS"),
    DataSpec::new("hpexpiretime", -5, expiry::hpexpiretime, Flags::READONLY.or(Flags::FAST))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::Hash,
            "7.4.0",
            "O(N) for N fields",
            "Tells at which Unix time in milliseconds fields of \
         a hash expire.",
        )
        .arguments("key:key#0 fields:block(numfields:integer field:string*)@FIELDS"),
    DataSpec::new("hpersist", -5, expiry::hpersist, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(Group::Hash, "7.4.0", "O(N) for N fields", "Lets fields of a hash expire no more.")
        .arguments("key:key#0 fields:block(numfields:integer field:string*)@FIELDS"),
    DataSpec::new("hgetex", -5, fields::hgetex, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE)).notes(
            "Changes the \
         expiry",
        )])
        .docs(
            Group::Hash,
            "8.0.0",
            "O(N) for N fields",
            "Reads fields of a hash and sets or removes their \
         expiry.",
        )
        .arguments(
            "key:key#0 expiration:oneof(seconds:integer@EX milliseconds:integer@PX \
         unix-time-seconds:unix-time@EXAT unix-time-milliseconds:unix-time@PXAT \
         persist:pure-token@PERSIST)? fields:block(numfields:integer field:string*)@FIELDS",
        ),
    DataSpec::new("hsetex", -6, fields::hsetex, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(Group::Hash, "8.0.0", "O(N) for N fields", "Gives fields of a hash their values and an expiry.")
        .arguments(
            "key:key#0 condition:oneof(fnx:pure-token@FNX fxx:pure-token@FXX)? \
         expiration:oneof(seconds:integer@EX milliseconds:integer@PX unix-time-seconds:unix-time@EXAT \
         unix-time-milliseconds:unix-time@PXAT keepttl:pure-token@KEEPTTL)? fields:block(numfields:integer \
         data:block(field:string value:string)*)@FIELDS",
        ),
    DataSpec::new("hgetdel", -5, fields::hgetdel, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE))])
        .docs(Group::Hash, "8.0.0", "O(N) for N fields", "Reads fields of a hash and takes them out of it.")
        .arguments("key:key#0 fields:block(numfields:integer field:string*)@FIELDS"),
];
