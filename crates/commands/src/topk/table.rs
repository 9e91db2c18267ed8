//! The registration table of Top-K sketches.

use super::{add, count, incrby, info, list, query, reserve};
use crate::module_rows::{CHANGED_KEY, READ, READ_KEY, SHRINK, WRITE};
use crate::spec::{Categories, Group};
use crate::{DataHandler, DataSpec};

/// A command that reads a sketch. The module takes any number of arguments and looks at it itself.
const fn reads(name: &'static str, handler: DataHandler) -> DataSpec {
    DataSpec::new(name, -1, handler, READ).categories(Categories::TOPK).keys(READ_KEY)
}

/// A command that changes a sketch.
const fn writes(name: &'static str, handler: DataHandler) -> DataSpec {
    DataSpec::new(name, -1, handler, WRITE).categories(Categories::TOPK).keys(CHANGED_KEY)
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    writes("topk.reserve", reserve)
        .docs(Group::Module, "2.0.0", "O(1)", "Makes a Top-K sketch.")
        .arguments("key:key#0 topk:integer params:block(width:integer depth:integer decay:double)?"),
    writes("topk.add", add)
        .docs(
            Group::Module,
            "2.0.0",
            "O(N*(D+K)) for N items, depth D and K places",
            "Adds items to a Top-K sketch, and returns those that had to leave its list.",
        )
        .arguments("key:key#0 items:string*"),
    writes("topk.incrby", incrby)
        .docs(
            Group::Module,
            "2.0.0",
            "O(N*(D*I+K)) for N items, depth D, increments of I and K places",
            "Adds items several times to a Top-K sketch, and returns those that had to leave its list.",
        )
        .arguments("key:key#0 items:block(item:string increment:integer)*"),
    reads("topk.query", query)
        .docs(Group::Module, "2.0.0", "O(N*K) for N items and K places", "Tells which items are in the list.")
        .arguments("key:key#0 items:string*"),
    // The module says that it writes.
    DataSpec::new("topk.count", -1, count, SHRINK)
        .categories(Categories::TOPK)
        .keys(READ_KEY)
        .docs(
            Group::Module,
            "2.0.0",
            "O(N*(D+K)) for N items, depth D and K places",
            "Estimates counts of items.",
        )
        .arguments("key:key#0 item:string*"),
    reads("topk.list", list)
        .docs(Group::Module, "2.0.0", "O(K*log(K)) for K places", "Lists the items seen most often.")
        .arguments("key:key#0 withcount:pure-token@WITHCOUNT?"),
    reads("topk.info", info)
        .docs(Group::Module, "2.0.0", "O(1)", "Tells how a Top-K sketch was made.")
        .arguments("key:key#0"),
];
