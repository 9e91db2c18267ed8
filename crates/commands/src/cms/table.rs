//! The registration table of Count-Min sketches.

use super::{find_sources, incrby, info, init_by_dim, init_by_prob, merge, query};
use crate::module_rows::{CHANGED_KEY, READ, READ_KEY, WRITE};
use crate::spec::{Categories, Group};
use crate::{DataHandler, DataSpec};

/// A command that reads a sketch. The module takes any number of arguments and looks at it itself.
const fn reads(name: &'static str, handler: DataHandler) -> DataSpec {
    DataSpec::new(name, -1, handler, READ).categories(Categories::CMS).keys(READ_KEY)
}

/// A command that changes a sketch.
const fn writes(name: &'static str, handler: DataHandler) -> DataSpec {
    DataSpec::new(name, -1, handler, WRITE).categories(Categories::CMS).keys(CHANGED_KEY)
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    writes("cms.initbydim", init_by_dim)
        .docs(Group::Module, "2.0.0", "O(1)", "Makes a Count-Min sketch with given sides.")
        .arguments("key:key#0 width:integer depth:integer"),
    writes("cms.initbyprob", init_by_prob)
        .docs(
            Group::Module,
            "2.0.0",
            "O(1)",
            "Makes a Count-Min sketch that overestimates by no more than a part of all counts, but for a \
             given probability.",
        )
        .arguments("key:key#0 error:double probability:double"),
    writes("cms.incrby", incrby)
        .docs(Group::Module, "2.0.0", "O(N) for N items", "Counts items, and estimates their counts.")
        .arguments("key:key#0 items:block(item:string increment:integer)*"),
    reads("cms.query", query)
        .docs(Group::Module, "2.0.0", "O(N) for N items", "Estimates the counts of items: never too low.")
        .arguments("key:key#0 item:string*"),
    writes("cms.merge", merge)
        .more_keys(find_sources)
        .docs(
            Group::Module,
            "2.0.0",
            "O(N*W*D) for N sketches of width W and depth D",
            "Replaces a Count-Min sketch by the sum of sketches with the same sides.",
        )
        .arguments(
            "destination:key#0 numKeys:integer source:key* \
             weight:block(weights:pure-token@WEIGHTS weight:double*)?",
        ),
    reads("cms.info", info)
        .docs(
            Group::Module,
            "2.0.0",
            "O(1)",
            "Tells the sides of a Count-Min sketch and the sum of all counts.",
        )
        .arguments("key:key#0"),
];
