//! The registration table of lists.

use super::blocking::{blmove, blmpop, blpop, brpop, brpoplpush};
use super::change::{
    linsert, lmove, lmpop, lpop, lpush, lpushx, lrem, lset, ltrim, rpop, rpoplpush, rpush, rpushx,
};
use super::movem::{blmovem, lmovem};
use super::query::{element_of_lindex, elements_of_lrange, lindex, llen, lpos, lrange, pack_lrange};
use crate::access::selected::count_of;
use crate::packed::{packs, packs_text};
use crate::spec::{Categories, Flags, Group, KeyFlags, KeySpec};
use crate::{DataSpec, long_reads};

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("lpush", -3, lpush, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .categories(Categories::LIST)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::INSERT))])
        .docs(
            Group::List,
            "1.0.0",
            "O(N) for N new elements",
            "Adds elements before the first one of a list, creating the list if need be.",
        )
        .history(&[("2.4.0", "Takes several elements.")])
        .arguments("key:key#0 element:string*"),
    DataSpec::new("rpush", -3, rpush, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .categories(Categories::LIST)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::INSERT))])
        .docs(
            Group::List,
            "1.0.0",
            "O(N) for N new elements",
            "Adds elements after the last one of a list, creating the list if need be.",
        )
        .history(&[("2.4.0", "Takes several elements.")])
        .arguments("key:key#0 element:string*"),
    DataSpec::new("lpushx", -3, lpushx, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .categories(Categories::LIST)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::INSERT))])
        .docs(
            Group::List,
            "2.2.0",
            "O(N) for N new elements",
            "Adds elements before the first one of a list that is there already.",
        )
        .history(&[("4.0.0", "Takes several elements.")])
        .arguments("key:key#0 element:string*"),
    DataSpec::new("rpushx", -3, rpushx, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .categories(Categories::LIST)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::INSERT))])
        .docs(
            Group::List,
            "2.2.0",
            "O(N) for N new elements",
            "Adds elements after the last one of a list that is there already.",
        )
        .history(&[("4.0.0", "Takes several elements.")])
        .arguments("key:key#0 element:string*"),
    DataSpec::new("lpop", -2, lpop, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::LIST)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE))])
        .docs(
            Group::List,
            "1.0.0",
            "O(N) for N elements taken",
            "Takes elements from the start of a list and returns them.",
        )
        .history(&[("6.2.0", "Takes a `count`.")])
        .arguments("key:key#0 count:integer?<6.2.0"),
    DataSpec::new("rpop", -2, rpop, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::LIST)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE))])
        .docs(
            Group::List,
            "1.0.0",
            "O(N) for N elements taken",
            "Takes elements from the end of a list and returns them.",
        )
        .history(&[("6.2.0", "Takes a `count`.")])
        .arguments("key:key#0 count:integer?<6.2.0"),
    DataSpec::new("llen", 2, llen, Flags::READONLY.or(Flags::FAST))
        .elements_of(count_of)
        .packed(packs_text!(llen))
        .categories(Categories::LIST)
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .docs(Group::List, "1.0.0", "O(1)", "Tells how many elements a list has.")
        .arguments("key:key#0"),
    DataSpec::new("lrange", 4, lrange, Flags::READONLY)
        .elements_of(elements_of_lrange)
        .reads_much(long_reads::many_ranks)
        .packed(packs!(pack_lrange))
        .categories(Categories::LIST)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::List,
            "1.0.0",
            "O(log(L)+N) for N elements of a list of length L",
            "Returns the elements between two indexes.",
        )
        .arguments("key:key#0 start:integer stop:integer"),
    DataSpec::new("lindex", 3, lindex, Flags::READONLY)
        .elements_of(element_of_lindex)
        .packed(packs_text!(lindex))
        .categories(Categories::LIST)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::List, "1.0.0", "O(log(N)) for a list of length N", "Returns the element at an index.")
        .arguments("key:key#0 index:integer"),
    DataSpec::new("lset", 4, lset, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::LIST)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(Group::List, "1.0.0", "O(log(N)) for a list of length N", "Replaces the element at an index.")
        .arguments("key:key#0 index:integer element:string"),
    DataSpec::new("linsert", 5, linsert, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::LIST)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::INSERT))])
        .docs(
            Group::List,
            "2.2.0",
            "O(N) for N elements up to the pivot",
            "Adds an element next to the first one that equals a pivot.",
        )
        .arguments(
            "key:key#0 where:oneof(before:pure-token@BEFORE after:pure-token@AFTER) pivot:string \
             element:string",
        ),
    DataSpec::new("lrem", 4, lrem, Flags::WRITE)
        .categories(Categories::LIST)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::DELETE))])
        .docs(
            Group::List,
            "1.0.0",
            "O(N) for a list of length N",
            "Removes elements that equal a given one, counted from either end.",
        )
        .arguments("key:key#0 count:integer element:string"),
    DataSpec::new("ltrim", 4, ltrim, Flags::WRITE)
        .categories(Categories::LIST)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::DELETE))])
        .docs(
            Group::List,
            "1.0.0",
            "O(N) for N elements removed",
            "Keeps only the elements between two indexes.",
        )
        .arguments("key:key#0 start:integer stop:integer"),
    DataSpec::new("lpos", -3, lpos, Flags::READONLY)
        .reads_much(long_reads::always)
        .packed(packs_text!(lpos))
        .categories(Categories::LIST)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::List,
            "6.0.6",
            "O(N) for N elements looked at",
            "Finds the indexes of elements that equal a given one.",
        )
        .arguments(
            "key:key#0 element:string rank:integer@RANK? num-matches:integer@COUNT? len:integer@MAXLEN?",
        ),
    DataSpec::new("lmove", 5, lmove, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::LIST)
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE)),
            KeySpec::one(2, KeyFlags::RW.or(KeyFlags::INSERT)),
        ])
        .docs(
            Group::List,
            "6.2.0",
            "O(1)",
            "Takes an element from an end of one list, adds it to an end of another, and returns it.",
        )
        .arguments(
            "source:key#0 destination:key#1 wherefrom:oneof(left:pure-token@LEFT right:pure-token@RIGHT) \
             whereto:oneof(left:pure-token@LEFT right:pure-token@RIGHT)",
        ),
    DataSpec::new("lmovem", -5, lmovem, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::LIST)
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE)),
            KeySpec::one(2, KeyFlags::RW.or(KeyFlags::INSERT)),
        ])
        .docs(
            Group::List,
            "8.10.0",
            "O(N) for N elements moved",
            "Moves several elements from an end of one list to an end of another and returns them.",
        )
        .arguments(
            "source:key#0 destination:key#1 wherefrom:oneof(left:pure-token@LEFT right:pure-token@RIGHT) \
             whereto:oneof(left:pure-token@LEFT right:pure-token@RIGHT) \
             how-many:block(selector:oneof(count:integer@COUNT exactly:integer@EXACTLY) \
             ordering:oneof(obo:pure-token@OBO bulk:pure-token@BULK))?",
        ),
    DataSpec::new("rpoplpush", 3, rpoplpush, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::LIST)
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE)),
            KeySpec::one(2, KeyFlags::RW.or(KeyFlags::INSERT)),
        ])
        .docs(
            Group::List,
            "1.2.0",
            "O(1)",
            "Moves the last element of one list to the start of another and returns it.",
        )
        .deprecated("6.2.0", "`LMOVE` with `RIGHT` and `LEFT`")
        .arguments("source:key#0 destination:key#1"),
    DataSpec::new("lmpop", -4, lmpop, Flags::WRITE.or(Flags::MOVABLE_KEYS))
        .categories(Categories::LIST)
        .keys(&[KeySpec::counted(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE))])
        .docs(
            Group::List,
            "7.0.0",
            "O(K+N) for K keys and N elements taken",
            "Takes elements from an end of the first list that has any.",
        )
        .arguments(
            "numkeys:integer key:key#0* where:oneof(left:pure-token@LEFT right:pure-token@RIGHT) \
             count:integer@COUNT?",
        ),
    DataSpec::new("blpop", -3, blpop, Flags::WRITE.or(Flags::BLOCKING))
        .categories(Categories::LIST)
        .keys(&[KeySpec::range(1, -2, 1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE))])
        .docs(
            Group::List,
            "2.0.0",
            "O(K) for K keys",
            "Takes the first element of the first list that has one, waiting for it if need be.",
        )
        .history(&[("6.0.0", "The timeout may have a fraction.")])
        .arguments("key:key#0* timeout:double"),
    DataSpec::new("brpop", -3, brpop, Flags::WRITE.or(Flags::BLOCKING))
        .categories(Categories::LIST)
        .keys(&[KeySpec::range(1, -2, 1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE))])
        .docs(
            Group::List,
            "2.0.0",
            "O(K) for K keys",
            "Takes the last element of the first list that has one, waiting for it if need be.",
        )
        .history(&[("6.0.0", "The timeout may have a fraction.")])
        .arguments("key:key#0* timeout:double"),
    DataSpec::new("blmove", 6, blmove, Flags::WRITE.or(Flags::DENYOOM).or(Flags::BLOCKING))
        .categories(Categories::LIST)
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE)),
            KeySpec::one(2, KeyFlags::RW.or(KeyFlags::INSERT)),
        ])
        .docs(
            Group::List,
            "6.2.0",
            "O(1)",
            "Moves an element from list to list like LMOVE, waiting for one if need be.",
        )
        .arguments(
            "source:key#0 destination:key#1 wherefrom:oneof(left:pure-token@LEFT right:pure-token@RIGHT) \
             whereto:oneof(left:pure-token@LEFT right:pure-token@RIGHT) timeout:double",
        ),
    DataSpec::new("blmovem", -6, blmovem, Flags::WRITE.or(Flags::DENYOOM).or(Flags::BLOCKING))
        .categories(Categories::LIST)
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE)),
            KeySpec::one(2, KeyFlags::RW.or(KeyFlags::INSERT)),
        ])
        .docs(
            Group::List,
            "8.10.0",
            "O(N) for N elements moved",
            "Moves elements from list to list like LMOVEM, waiting for them if need be.",
        )
        .arguments(
            "source:key#0 destination:key#1 wherefrom:oneof(left:pure-token@LEFT right:pure-token@RIGHT) \
             whereto:oneof(left:pure-token@LEFT right:pure-token@RIGHT) timeout:double \
             how-many:block(selector:oneof(count:integer@COUNT exactly:integer@EXACTLY) \
             ordering:oneof(obo:pure-token@OBO bulk:pure-token@BULK))?",
        ),
    DataSpec::new("brpoplpush", 4, brpoplpush, Flags::WRITE.or(Flags::DENYOOM).or(Flags::BLOCKING))
        .categories(Categories::LIST)
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE)),
            KeySpec::one(2, KeyFlags::RW.or(KeyFlags::INSERT)),
        ])
        .docs(
            Group::List,
            "2.2.0",
            "O(1)",
            "Moves an element from list to list like RPOPLPUSH, waiting for one if need be.",
        )
        .deprecated("6.2.0", "`BLMOVE` with `RIGHT` and `LEFT`")
        .history(&[("6.0.0", "The timeout may have a fraction.")])
        .arguments("source:key#0 destination:key#1 timeout:double"),
    DataSpec::new("blmpop", -5, blmpop, Flags::WRITE.or(Flags::BLOCKING).or(Flags::MOVABLE_KEYS))
        .categories(Categories::LIST)
        .keys(&[KeySpec::counted(2, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE))])
        .docs(
            Group::List,
            "7.0.0",
            "O(K+N) for K keys and N elements taken",
            "Takes elements from the first list that has any like LMPOP, waiting if need be.",
        )
        .arguments(
            "timeout:double numkeys:integer key:key#0* where:oneof(left:pure-token@LEFT \
             right:pure-token@RIGHT) count:integer@COUNT?",
        ),
];
