//! The registration table of JSON.

use super::{array, debug, get, query, scalar, set};
use crate::spec::{
    BeginSearch, Categories, FindKeys, Flags, Group, KeyFlags, KeyPosition, KeyPositions, KeySpec,
};
use crate::{DataHandler, DataSpec};
use mantissa_protocol::Args;

const READS: Flags = Flags::READONLY.or(Flags::MODULE);
const CHANGES: Flags = Flags::WRITE.or(Flags::MODULE);
const GROWS: Flags = CHANGES.or(Flags::DENYOOM);
const READ: KeyFlags = KeyFlags::RO.or(KeyFlags::ACCESS);
const WRITTEN: KeyFlags = KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE);
const READS_FIRST: &[KeySpec] = &[KeySpec::one(1, READ)];
const WRITES_FIRST: &[KeySpec] = &[KeySpec::one(1, WRITTEN)];
const READS_SECOND: &[KeySpec] = &[KeySpec::one(2, READ)];
const EVERY_THIRD: &[KeySpec] =
    &[KeySpec::other(BeginSearch::Index(1), FindKeys::Range { last: -1, step: 3, limit: 0 }, WRITTEN)];

/// The keys of JSON.MGET, of which its specification has the first one only.
fn all_but_last(args: Args<'_>, keys: &mut KeyPositions) {
    keys.clear();
    keys.extend((1..args.len().saturating_sub(1)).map(|index| KeyPosition { index, flags: READ }));
}

const fn row(
    name: &'static str,
    handler: DataHandler,
    flags: Flags,
    keys: &'static [KeySpec],
    (since, complexity, summary): (&'static str, &'static str, &'static str),
    arguments: &'static str,
) -> DataSpec {
    DataSpec::new(name, -1, handler, flags)
        .categories(Categories::JSON)
        .keys(keys)
        .docs(Group::Module, since, complexity, summary)
        .arguments(arguments)
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    row(
        "json.set",
        set::set,
        GROWS,
        WRITES_FIRST,
        (
            "1.0.0",
            "O(M+N) for a path of M matches and a value of N bytes",
            "Puts a value into a document, which is created if the path is its root.",
        ),
        "key:key#0 path:string value:string condition:oneof(nx:pure-token@NX xx:pure-token@XX)?",
    ),
    row(
        "json.get",
        get::get,
        READS,
        READS_FIRST,
        ("1.0.0", "O(N) for N bytes", "Prints values of a document."),
        "key:key#0 indent:string@INDENT? newline:string@NEWLINE? space:string@SPACE? path:string?*",
    ),
    row(
        "json.mget",
        get::mget,
        READS,
        READS_FIRST,
        ("1.0.0", "O(N) for N bytes", "Prints the same values of several documents."),
        "key:key#0* path:string",
    )
    .more_keys(all_but_last),
    row(
        "json.mset",
        set::mset,
        GROWS,
        EVERY_THIRD,
        ("2.6.0", "O(K*(M+N)) for K keys", "Puts values into several documents at once."),
        "triplet:block(key:key#0 path:string value:string)*",
    ),
    row(
        "json.merge",
        set::merge,
        GROWS,
        WRITES_FIRST,
        (
            "2.6.0",
            "O(M+N) for a path of M matches and a value of N bytes",
            "Merges a value into a document, as RFC 7396 has it.",
        ),
        "key:key#0 path:string value:string",
    ),
    row(
        "json.del",
        set::del,
        CHANGES,
        WRITES_FIRST,
        ("1.0.0", "O(N) for N bytes", "Removes values from a document, or all of it."),
        "key:key#0 path:string?",
    ),
    row(
        "json.forget",
        set::del,
        CHANGES,
        WRITES_FIRST,
        ("1.0.0", "O(N) for N bytes", "Does what JSON.DEL does."),
        "key:key#0 path:string?",
    ),
    row(
        "json.type",
        query::type_of,
        READS,
        READS_FIRST,
        ("1.0.0", "O(N) for N bytes searched", "Tells the types of values."),
        "key:key#0 path:string?",
    ),
    row(
        "json.numincrby",
        scalar::numincrby,
        CHANGES,
        WRITES_FIRST,
        ("1.0.0", "O(N) for N bytes searched", "Adds to numbers."),
        "key:key#0 path:string value:double",
    ),
    row(
        "json.nummultby",
        scalar::nummultby,
        CHANGES,
        WRITES_FIRST,
        ("1.0.0", "O(N) for N bytes searched", "Multiplies numbers."),
        "key:key#0 path:string value:double",
    ),
    row(
        "json.strappend",
        scalar::strappend,
        GROWS,
        WRITES_FIRST,
        ("1.0.0", "O(N) for N bytes searched", "Appends to strings."),
        "key:key#0 path:string? value:string",
    ),
    row(
        "json.strlen",
        query::strlen,
        READS,
        READS_FIRST,
        ("1.0.0", "O(N) for N bytes searched", "Counts the bytes of strings."),
        "key:key#0 path:string?",
    ),
    row(
        "json.toggle",
        scalar::toggle,
        GROWS,
        WRITES_FIRST,
        ("2.0.0", "O(N) for N bytes searched", "Makes true false, and false true."),
        "key:key#0 path:string",
    ),
    row(
        "json.clear",
        scalar::clear,
        CHANGES,
        WRITES_FIRST,
        ("2.0.0", "O(N) for N bytes searched", "Empties arrays and objects, and sets numbers to 0."),
        "key:key#0 path:string?",
    ),
    row(
        "json.arrappend",
        array::arrappend,
        GROWS,
        WRITES_FIRST,
        ("1.0.0", "O(N) for N bytes searched", "Adds values at the end of arrays."),
        "key:key#0 path:string value:string*",
    ),
    row(
        "json.arrindex",
        array::arrindex,
        READS,
        READS_FIRST,
        ("1.0.0", "O(N) for N bytes searched", "Finds a value in arrays."),
        "key:key#0 path:string value:string range:block(start:integer stop:integer?)?",
    ),
    row(
        "json.arrinsert",
        array::arrinsert,
        GROWS,
        WRITES_FIRST,
        ("1.0.0", "O(N) for N bytes searched", "Adds values to arrays before an index."),
        "key:key#0 path:string index:integer value:string*",
    ),
    row(
        "json.arrlen",
        array::arrlen,
        READS,
        READS_FIRST,
        ("1.0.0", "O(N) for N bytes searched", "Counts the elements of arrays."),
        "key:key#0 path:string?",
    ),
    row(
        "json.arrpop",
        array::arrpop,
        CHANGES,
        WRITES_FIRST,
        ("1.0.0", "O(N) for N bytes searched", "Removes an element from arrays and prints it."),
        "key:key#0 path:block(path:string index:integer?)?",
    ),
    row(
        "json.arrtrim",
        array::arrtrim,
        CHANGES,
        WRITES_FIRST,
        ("1.0.0", "O(N) for N bytes searched", "Leaves a range of the elements of arrays."),
        "key:key#0 path:string start:integer stop:integer",
    ),
    row(
        "json.objkeys",
        query::objkeys,
        READS,
        READS_FIRST,
        ("1.0.0", "O(N) for N bytes searched", "Lists the keys of objects."),
        "key:key#0 path:string?",
    ),
    row(
        "json.objlen",
        query::objlen,
        READS,
        READS_FIRST,
        ("1.0.0", "O(N) for N bytes searched", "Counts the members of objects."),
        "key:key#0 path:string?",
    ),
    row(
        "json.resp",
        query::resp,
        READS,
        READS_FIRST,
        ("1.0.0", "O(N) for N bytes", "Replies values in the types of the protocol."),
        "key:key#0 path:string?",
    ),
    row(
        "json.debug",
        debug::debug,
        READS,
        READS_SECOND,
        ("1.0.0", "O(N) for N bytes searched", "Tells how much memory values take."),
        "subcommand:oneof(memory:block(key:key#0 path:string?)@MEMORY help:pure-token@HELP)",
    ),
];
