//! The registration table of Bloom filters.

use super::dump::{loadchunk, scandump};
use super::info::{card, debug, info};
use super::{add, exists, insert, madd, merge, mexists, reserve};
use crate::module_rows::{self, CHANGED_KEY, CHANGES, READ_KEY, READS, WRITE};
use crate::spec::{Categories, Flags, Group, KeySpec};
use crate::{DataHandler, DataSpec};

const READ: Flags = module_rows::READ.or(Flags::FAST);

/// A command that reads a filter. The module takes any number of arguments and looks at it itself.
const fn reads(name: &'static str, handler: DataHandler) -> DataSpec {
    DataSpec::new(name, -1, handler, READ).categories(Categories::BLOOM).keys(READ_KEY)
}

/// A command that changes a filter.
const fn writes(name: &'static str, handler: DataHandler) -> DataSpec {
    DataSpec::new(name, -1, handler, WRITE).categories(Categories::BLOOM).keys(CHANGED_KEY)
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    writes("bf.reserve", reserve).docs(Group::Module, "1.0.0", "O(1)", "Makes a Bloom filter.").arguments(
        "key:key#0 error_rate:double capacity:integer expansion:integer@EXPANSION? \
             nonscaling:pure-token@NONSCALING?",
    ),
    writes("bf.add", add)
        .docs(
            Group::Module,
            "1.0.0",
            "O(K) for K hash functions",
            "Adds an item to a Bloom filter, making the filter if need be.",
        )
        .arguments("key:key#0 item:string"),
    writes("bf.madd", madd)
        .docs(
            Group::Module,
            "1.0.0",
            "O(K*N) for K hash functions and N items",
            "Adds items to a Bloom filter, making the filter if need be.",
        )
        .arguments("key:key#0 item:string*"),
    writes("bf.insert", insert)
        .docs(
            Group::Module,
            "1.0.0",
            "O(K*N) for K hash functions and N items",
            "Adds items to a Bloom filter, making it as the options say if it is not there.",
        )
        .arguments(
            "key:key#0 capacity:integer@CAPACITY? error:double@ERROR? expansion:integer@EXPANSION? \
             nocreate:pure-token@NOCREATE? nonscaling:pure-token@NONSCALING? \
             items:pure-token@ITEMS item:string*",
        ),
    DataSpec::new("mantissa.bf.merge", -4, merge, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::BLOOM)
        .keys(&[KeySpec::one(1, CHANGES), KeySpec::counted(2, READS)])
        .docs(
            Group::Module,
            "0.1.0",
            "O(N) for N bytes of all filters",
            "Stores the union of Bloom filters of one shape; a destination that is there is one of them.",
        )
        .arguments("destination:key#0 numkeys:integer source:key#1*"),
    reads("bf.exists", exists)
        .docs(
            Group::Module,
            "1.0.0",
            "O(K) for K hash functions",
            "Tells whether an item was added to a Bloom filter: surely not, or probably.",
        )
        .arguments("key:key#0 item:string"),
    reads("bf.mexists", mexists)
        .docs(
            Group::Module,
            "1.0.0",
            "O(K*N) for K hash functions and N items",
            "Tells for each item whether it was added to a Bloom filter: surely not, or probably.",
        )
        .arguments("key:key#0 item:string*"),
    reads("bf.info", info)
        .docs(Group::Module, "1.0.0", "O(1)", "Tells how a Bloom filter was made and how full it is.")
        .arguments(
            "key:key#0 single_value:oneof(capacity:pure-token@CAPACITY size:pure-token@SIZE \
             filters:pure-token@FILTERS items:pure-token@ITEMS expansion:pure-token@EXPANSION)?",
        ),
    reads("bf.card", card)
        .docs(Group::Module, "2.4.4", "O(1)", "Tells how many items were added to a Bloom filter.")
        .arguments("key:key#0"),
    reads("bf.debug", debug)
        .internal()
        .docs(Group::Module, "1.0.0", "O(N) for N filters", "Tells the layers of a Bloom filter.")
        .arguments("key:key#0"),
    reads("bf.scandump", scandump)
        .docs(Group::Module, "1.0.0", "O(N) for N bytes", "Returns a piece of a Bloom filter, and its end.")
        .arguments("key:key#0 iterator:integer"),
    writes("bf.loadchunk", loadchunk)
        .docs(Group::Module, "1.0.0", "O(N) for N bytes", "Makes a Bloom filter from the pieces of another.")
        .arguments("key:key#0 iterator:integer data:string"),
];
