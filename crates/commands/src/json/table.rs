//! The registration table of JSON.

use super::{array, debug, get, query, scalar, set};
use crate::module_rows::{CHANGED_KEY, CHANGES, READ, READ_KEY, READS, SHRINK, WRITE};
use crate::spec::{BeginSearch, Categories, FindKeys, Flags, Group, KeyPosition, KeyPositions, KeySpec};
use crate::{DataHandler, DataSpec, long_reads};
use mantissa_protocol::Args;

const READS_SECOND: &[KeySpec] = &[KeySpec::one(2, READS)];
const EVERY_THIRD: &[KeySpec] =
    &[KeySpec::other(BeginSearch::Index(1), FindKeys::Range { last: -1, step: 3, limit: 0 }, CHANGES)];

/// The keys of JSON.MGET, of which its specification has the first one only.
fn all_but_last(args: Args<'_>, keys: &mut KeyPositions) {
    keys.clear();
    keys.extend((1..args.len().saturating_sub(1)).map(|index| KeyPosition { index, flags: READS }));
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
        WRITE,
        CHANGED_KEY,
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
        READ,
        READ_KEY,
        ("1.0.0", "O(N) for N bytes", "Prints values of a document."),
        "key:key#0 indent:string@INDENT? newline:string@NEWLINE? space:string@SPACE? path:string?*",
    )
    .reads_much(long_reads::wide_paths),
    row(
        "json.mget",
        get::mget,
        READ,
        READ_KEY,
        ("1.0.0", "O(N) for N bytes", "Prints the same values of several documents."),
        "key:key#0* path:string",
    )
    .more_keys(all_but_last),
    row(
        "json.mset",
        set::mset,
        WRITE,
        EVERY_THIRD,
        ("2.6.0", "O(K*(M+N)) for K keys", "Puts values into several documents at once."),
        "triplet:block(key:key#0 path:string value:string)*",
    ),
    row(
        "json.merge",
        set::merge,
        WRITE,
        CHANGED_KEY,
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
        SHRINK,
        CHANGED_KEY,
        ("1.0.0", "O(N) for N bytes", "Removes values from a document, or all of it."),
        "key:key#0 path:string?",
    ),
    row(
        "json.forget",
        set::del,
        SHRINK,
        CHANGED_KEY,
        ("1.0.0", "O(N) for N bytes", "Does what JSON.DEL does."),
        "key:key#0 path:string?",
    ),
    row(
        "json.type",
        query::type_of,
        READ,
        READ_KEY,
        ("1.0.0", "O(N) for N bytes searched", "Tells the types of values."),
        "key:key#0 path:string?",
    ),
    row(
        "json.numincrby",
        scalar::numincrby,
        SHRINK,
        CHANGED_KEY,
        ("1.0.0", "O(N) for N bytes searched", "Adds to numbers."),
        "key:key#0 path:string value:double",
    ),
    row(
        "json.nummultby",
        scalar::nummultby,
        SHRINK,
        CHANGED_KEY,
        ("1.0.0", "O(N) for N bytes searched", "Multiplies numbers."),
        "key:key#0 path:string value:double",
    ),
    row(
        "json.numpowby",
        scalar::numpowby,
        SHRINK,
        CHANGED_KEY,
        ("1.0.0", "O(N) for N bytes searched", "Raises numbers to a power."),
        "key:key#0 path:string value:double",
    ),
    row(
        "json.strappend",
        scalar::strappend,
        WRITE,
        CHANGED_KEY,
        ("1.0.0", "O(N) for N bytes searched", "Appends to strings."),
        "key:key#0 path:string? value:string",
    ),
    row(
        "json.strlen",
        query::strlen,
        READ,
        READ_KEY,
        ("1.0.0", "O(N) for N bytes searched", "Counts the bytes of strings."),
        "key:key#0 path:string?",
    ),
    row(
        "json.toggle",
        scalar::toggle,
        WRITE,
        CHANGED_KEY,
        ("2.0.0", "O(N) for N bytes searched", "Makes true false, and false true."),
        "key:key#0 path:string",
    ),
    row(
        "json.clear",
        scalar::clear,
        SHRINK,
        CHANGED_KEY,
        ("2.0.0", "O(N) for N bytes searched", "Empties arrays and objects, and sets numbers to 0."),
        "key:key#0 path:string?",
    ),
    row(
        "json.arrappend",
        array::arrappend,
        WRITE,
        CHANGED_KEY,
        ("1.0.0", "O(N) for N bytes searched", "Adds values at the end of arrays."),
        "key:key#0 path:string value:string*",
    ),
    row(
        "json.arrindex",
        array::arrindex,
        READ,
        READ_KEY,
        ("1.0.0", "O(N) for N bytes searched", "Finds a value in arrays."),
        "key:key#0 path:string value:string range:block(start:integer stop:integer?)?",
    ),
    row(
        "json.arrinsert",
        array::arrinsert,
        WRITE,
        CHANGED_KEY,
        ("1.0.0", "O(N) for N bytes searched", "Adds values to arrays before an index."),
        "key:key#0 path:string index:integer value:string*",
    ),
    row(
        "json.arrlen",
        array::arrlen,
        READ,
        READ_KEY,
        ("1.0.0", "O(N) for N bytes searched", "Counts the elements of arrays."),
        "key:key#0 path:string?",
    ),
    row(
        "json.arrpop",
        array::arrpop,
        SHRINK,
        CHANGED_KEY,
        ("1.0.0", "O(N) for N bytes searched", "Removes an element from arrays and prints it."),
        "key:key#0 path:block(path:string index:integer?)?",
    ),
    row(
        "json.arrtrim",
        array::arrtrim,
        SHRINK,
        CHANGED_KEY,
        ("1.0.0", "O(N) for N bytes searched", "Leaves a range of the elements of arrays."),
        "key:key#0 path:string start:integer stop:integer",
    ),
    row(
        "json.objkeys",
        query::objkeys,
        READ,
        READ_KEY,
        ("1.0.0", "O(N) for N bytes searched", "Lists the keys of objects."),
        "key:key#0 path:string?",
    ),
    row(
        "json.objlen",
        query::objlen,
        READ,
        READ_KEY,
        ("1.0.0", "O(N) for N bytes searched", "Counts the members of objects."),
        "key:key#0 path:string?",
    ),
    row(
        "json.resp",
        query::resp,
        READ,
        READ_KEY,
        ("1.0.0", "O(N) for N bytes", "Replies values in the types of the protocol."),
        "key:key#0 path:string?",
    ),
    row(
        "json.debug",
        debug::debug,
        READ,
        READS_SECOND,
        ("1.0.0", "O(N) for N bytes searched", "Tells how much memory values take."),
        "subcommand:oneof(memory:block(key:key#0 path:string?)@MEMORY help:pure-token@HELP)",
    ),
];
