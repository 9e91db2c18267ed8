//! The registration table of arrays.

use super::aggregate::arop;
use super::change::{ardel, ardelrange, armset, arseek, arset};
use super::insert::{arinsert, arring};
use super::query::{arcount, arget, argetrange, arinfo, arlastitems, arlen, armget, arnext, arscan};
use super::search::argrep;
use crate::spec::{Categories, Flags, Group, KeyFlags, KeySpec};
use crate::{DataHandler, DataSpec, long_reads};

const SINCE: &str = "8.8.0";
const WRITES: Flags = Flags::WRITE.or(Flags::DENYOOM);
const READ: KeySpec = KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS));
const UPDATE: KeySpec = KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE));
const DELETE: KeySpec = KeySpec::one(1, KeyFlags::RW.or(KeyFlags::DELETE));

const fn row(name: &'static str, arity: i32, handler: DataHandler, flags: Flags) -> DataSpec {
    DataSpec::new(name, arity, handler, flags).categories(Categories::ARRAY)
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    row("arset", -4, arset, WRITES.or(Flags::FAST))
        .keys(&[UPDATE])
        .docs(Group::Array, SINCE, "O(N) for N values", "Puts values into an array from an index on.")
        .arguments("key:key#0 index:integer value:string*"),
    row("armset", -4, armset, WRITES.or(Flags::FAST))
        .keys(&[UPDATE])
        .docs(Group::Array, SINCE, "O(N) for N values", "Puts values into an array, each at its own index.")
        .arguments("key:key#0 data:block(index:integer value:string)*"),
    row("arget", 3, arget, Flags::READONLY.or(Flags::FAST))
        .keys(&[READ])
        .docs(Group::Array, SINCE, "O(1)", "Reads the element at an index of an array.")
        .arguments("key:key#0 index:integer"),
    row("armget", -3, armget, Flags::READONLY.or(Flags::FAST))
        .keys(&[READ])
        .docs(Group::Array, SINCE, "O(N) for N indexes", "Reads the elements at several indexes of an array.")
        .arguments("key:key#0 index:integer*"),
    row("argetrange", 4, argetrange, Flags::READONLY)
        .reads_much(long_reads::many_indexes)
        .keys(&[READ])
        .docs(
            Group::Array,
            SINCE,
            "O(N) for N indexes",
            "Reads all from one index of an array to another, null where it is empty.",
        )
        .arguments("key:key#0 start:integer end:integer"),
    row("arscan", -4, arscan, Flags::READONLY)
        .reads_much(long_reads::many_indexes)
        .keys(&[READ])
        .docs(
            Group::Array,
            SINCE,
            "O(N) for N elements in the range",
            "Lists the elements from one index of an array to another, each with its index.",
        )
        .arguments("key:key#0 start:integer end:integer limit:integer@LIMIT?"),
    row("arlen", 2, arlen, Flags::READONLY.or(Flags::FAST))
        .keys(&[READ])
        .docs(Group::Array, SINCE, "O(1)", "Tells the highest index of an array's elements, plus 1.")
        .arguments("key:key#0"),
    row("arcount", 2, arcount, Flags::READONLY.or(Flags::FAST))
        .keys(&[READ])
        .docs(Group::Array, SINCE, "O(1)", "Tells how many elements an array has.")
        .arguments("key:key#0"),
    row("ardel", -3, ardel, Flags::WRITE.or(Flags::FAST))
        .keys(&[DELETE])
        .docs(Group::Array, SINCE, "O(N) for N indexes", "Removes elements of an array by their indexes.")
        .arguments("key:key#0 index:integer*"),
    row("ardelrange", -4, ardelrange, Flags::WRITE)
        .keys(&[DELETE])
        .docs(
            Group::Array,
            SINCE,
            "O(N) for N elements in the ranges",
            "Removes the elements of an array in one range of indexes or more.",
        )
        .arguments("key:key#0 range:block(start:integer end:integer)*"),
    row("arinsert", -3, arinsert, WRITES.or(Flags::FAST))
        .keys(&[UPDATE])
        .docs(
            Group::Array,
            SINCE,
            "O(N) for N values",
            "Puts values into an array behind the last one that was inserted.",
        )
        .arguments("key:key#0 value:string*"),
    row("arring", -4, arring, WRITES)
        .keys(&[UPDATE])
        .docs(
            Group::Array,
            SINCE,
            "O(N) for N values, and as many elements as the ring keeps if its size is another one",
            "Puts values into an array that begins anew at a size, so that the latest ones stay.",
        )
        .arguments("key:key#0 size:integer value:string*"),
    row("arnext", 2, arnext, Flags::READONLY.or(Flags::FAST))
        .keys(&[READ])
        .docs(Group::Array, SINCE, "O(1)", "Tells the index at which ARINSERT goes on.")
        .arguments("key:key#0"),
    row("arseek", 3, arseek, Flags::WRITE.or(Flags::FAST))
        .keys(&[UPDATE])
        .docs(Group::Array, SINCE, "O(1)", "Sets the index at which ARINSERT and ARRING go on.")
        .arguments("key:key#0 index:integer"),
    row("arlastitems", -3, arlastitems, Flags::READONLY)
        .reads_much(long_reads::many_items)
        .keys(&[READ])
        .docs(
            Group::Array,
            SINCE,
            "O(N) for N items",
            "Reads what was inserted into an array last, null where it is empty.",
        )
        .arguments("key:key#0 count:integer rev:pure-token@REV?"),
    row("arinfo", -2, arinfo, Flags::READONLY)
        .reads_much(long_reads::always)
        .keys(&[READ])
        .docs(
            Group::Array,
            SINCE,
            "O(N) for N elements",
            "Tells how large an array is and how it is laid out.",
        )
        .arguments("key:key#0 full:pure-token@FULL?"),
    row("argrep", -6, argrep, Flags::READONLY)
        .reads_much(long_reads::always)
        .keys(&[READ])
        .docs(
            Group::Array,
            SINCE,
            "O(N*C) for N elements in the range and predicates that take C for one",
            "Searches a range of an array for texts, globs and regular expressions.",
        )
        .arguments(
            "key:key#0 start:string end:string predicate:oneof(\
             exact:block(exact:pure-token@EXACT string:string) \
             match:block(match:pure-token@MATCH string:string) \
             glob:block(glob:pure-token@GLOB pattern:string) \
             re:block(re:pure-token@RE pattern:string))* \
             options:oneof(and:pure-token@AND or:pure-token@OR limit:integer@LIMIT \
             withvalues:pure-token@WITHVALUES nocase:pure-token@NOCASE)?*",
        ),
    row("arop", -5, arop, Flags::READONLY)
        .reads_much(long_reads::many_indexes)
        .keys(&[READ])
        .docs(
            Group::Array,
            SINCE,
            "O(N) for N elements in the range",
            "Makes one value of the elements in a range of an array.",
        )
        .arguments(
            "key:key#0 start:integer end:integer operation:oneof(sum:pure-token@SUM min:pure-token@MIN \
             max:pure-token@MAX and:pure-token@AND or:pure-token@OR xor:pure-token@XOR \
             match:block(match:pure-token@MATCH value:string) used:pure-token@USED)",
        ),
];
