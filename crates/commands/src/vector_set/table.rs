//! The registration table of vector sets.

use super::{add, query, search};
use crate::module_rows::{CHANGED_KEY, READ_KEY};
use crate::spec::{Categories, Flags, Group};
use crate::{DataHandler, DataSpec, long_reads};

const fn row(
    name: &'static str,
    handler: DataHandler,
    flags: Flags,
    complexity: &'static str,
    summary: &'static str,
) -> DataSpec {
    let keys = if flags.has(Flags::WRITE) { CHANGED_KEY } else { READ_KEY };
    DataSpec::new(name, -1, handler, flags.or(Flags::MODULE))
        .categories(Categories::VECTORSET)
        .keys(keys)
        .docs(Group::Module, "8.0.0", complexity, summary)
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    row(
        "vadd",
        add::vadd,
        Flags::WRITE.or(Flags::DENYOOM),
        "O(log(N)) for a set of N elements",
        "Adds an element with its vector to a vector set, or gives it another vector.",
    )
    .arguments(
        "key:key#0 reduce:integer@REDUCE? format:oneof(fp32:string@FP32 values:block(num:integer@VALUES \
         number:double*)) element:string cas:pure-token@CAS? \
         quantization:oneof(noquant:pure-token@NOQUANT q8:pure-token@Q8 bin:pure-token@BIN)? \
         ef:integer@EF? attributes:string@SETATTR? numlinks:integer@M?",
    ),
    row(
        "vrem",
        add::vrem,
        Flags::WRITE,
        "O(log(N)) for a set of N elements",
        "Removes an element from a vector set, which goes with its last one.",
    )
    .arguments("key:key#0 element:string"),
    row(
        "vsim",
        search::vsim,
        Flags::READONLY,
        "O(log(N)) for a set of N elements, O(N) with TRUTH",
        "Finds the elements whose vectors are most similar to a vector or to an element's.",
    )
    .reads_much(long_reads::always)
    .arguments(
        "key:key#0 format:oneof(element:string@ELE fp32:string@FP32 values:block(num:integer@VALUES \
         number:double*)) withscores:pure-token@WITHSCORES? withattribs:pure-token@WITHATTRIBS? \
         count:integer@COUNT? epsilon:double@EPSILON? ef:integer@EF? filter:string@FILTER? \
         filter-ef:integer@FILTER-EF? truth:pure-token@TRUTH? nothread:pure-token@NOTHREAD?",
    ),
    row(
        "vcard",
        query::vcard,
        Flags::READONLY.or(Flags::FAST),
        "O(1)",
        "Counts the elements of a vector set.",
    )
    .arguments("key:key#0"),
    row(
        "vdim",
        query::vdim,
        Flags::READONLY.or(Flags::FAST),
        "O(1)",
        "Tells how many numbers the vectors of a vector set have.",
    )
    .arguments("key:key#0"),
    row(
        "vemb",
        query::vemb,
        Flags::READONLY.or(Flags::FAST),
        "O(D) for vectors of D numbers",
        "Gets the vector of an element of a vector set.",
    )
    .arguments("key:key#0 element:string raw:pure-token@RAW?"),
    row(
        "vgetattr",
        query::vgetattr,
        Flags::READONLY.or(Flags::FAST),
        "O(log(N)) for a set of N elements",
        "Gets the attribute of an element of a vector set.",
    )
    .arguments("key:key#0 element:string"),
    row(
        "vsetattr",
        add::vsetattr,
        Flags::WRITE.or(Flags::FAST),
        "O(log(N)) for a set of N elements",
        "Sets or removes the attribute of an element of a vector set.",
    )
    .arguments("key:key#0 element:string attributes:string"),
    row(
        "vinfo",
        query::vinfo,
        Flags::READONLY.or(Flags::FAST),
        "O(1)",
        "Tells what a vector set is made of.",
    )
    .arguments("key:key#0"),
    row(
        "vismember",
        query::vismember,
        Flags::READONLY,
        "O(log(N)) for a set of N elements",
        "Tells whether a vector set has an element.",
    )
    .arguments("key:key#0 element:string"),
    row(
        "vlinks",
        query::vlinks,
        Flags::READONLY.or(Flags::FAST),
        "O(M) for M links",
        "Lists the neighbours of an element of a vector set by the levels of the graph.",
    )
    .arguments("key:key#0 element:string withscores:pure-token@WITHSCORES?"),
    row(
        "vrandmember",
        query::vrandmember,
        Flags::READONLY,
        "O(C*log(N)) for C elements of a set of N",
        "Picks elements of a vector set at random.",
    )
    .arguments("key:key#0 count:integer?"),
    row(
        "vrange",
        query::vrange,
        Flags::READONLY,
        "O(log(N)+C) for C elements of a set of N",
        "Lists elements of a vector set in the order of their names' bytes.",
    )
    .arguments("key:key#0 start:string end:string count:integer?"),
];
