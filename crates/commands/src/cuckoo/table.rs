//! The registration table of Cuckoo filters.

use super::dump::{loadchunk, scandump};
use super::info::{debug, info};
use super::{add, addnx, compact, count, del, exists, insert, insertnx, mexists, reserve};
use crate::module_rows::{self, CHANGED_KEY, READ_KEY, WRITE};
use crate::spec::{Categories, Flags, Group, KeySpec};
use crate::{DataHandler, DataSpec};

const READ: Flags = module_rows::READ.or(Flags::FAST);
const SHRINK: Flags = module_rows::SHRINK.or(Flags::FAST);
const ONE_ITEM: &str = "key:key#0 item:string";
const ITEMS: &str = "key:key#0 capacity:integer@CAPACITY? nocreate:pure-token@NOCREATE? \
                     items:pure-token@ITEMS item:string*";

/// A command. The module takes any number of arguments and looks at it itself.
const fn command(
    name: &'static str,
    handler: DataHandler,
    flags: Flags,
    keys: &'static [KeySpec],
) -> DataSpec {
    DataSpec::new(name, -1, handler, flags).categories(Categories::CUCKOO).keys(keys)
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    command("cf.reserve", reserve, WRITE, CHANGED_KEY)
        .docs(Group::Module, "1.0.0", "O(1)", "Makes a Cuckoo filter.")
        .arguments(
            "key:key#0 capacity:integer bucketsize:integer@BUCKETSIZE? \
             maxiterations:integer@MAXITERATIONS? expansion:integer@EXPANSION?",
        ),
    command("cf.add", add, WRITE, CHANGED_KEY)
        .docs(
            Group::Module,
            "1.0.0",
            "O(K) for K filters",
            "Adds an item to a Cuckoo filter once more, making the filter if need be.",
        )
        .arguments(ONE_ITEM),
    command("cf.addnx", addnx, WRITE, CHANGED_KEY)
        .docs(
            Group::Module,
            "1.0.0",
            "O(K) for K filters",
            "Adds an item to a Cuckoo filter unless it is there, making the filter if need be.",
        )
        .arguments(ONE_ITEM),
    command("cf.insert", insert, WRITE, CHANGED_KEY)
        .docs(
            Group::Module,
            "1.0.0",
            "O(N*K) for N items and K filters",
            "Adds items to a Cuckoo filter once more, making it as the options say if it is not there.",
        )
        .arguments(ITEMS),
    command("cf.insertnx", insertnx, WRITE, CHANGED_KEY)
        .docs(
            Group::Module,
            "1.0.0",
            "O(N*K) for N items and K filters",
            "Adds items that are not there to a Cuckoo filter, making it as the options say if need be.",
        )
        .arguments(ITEMS),
    command("cf.exists", exists, READ, READ_KEY)
        .docs(
            Group::Module,
            "1.0.0",
            "O(K) for K filters",
            "Tells whether an item was added to a Cuckoo filter: surely not, or probably.",
        )
        .arguments(ONE_ITEM),
    command("cf.mexists", mexists, READ, READ_KEY)
        .docs(
            Group::Module,
            "1.0.0",
            "O(N*K) for N items and K filters",
            "Tells for each item whether it was added to a Cuckoo filter: surely not, or probably.",
        )
        .arguments("key:key#0 item:string*"),
    command("cf.count", count, READ, READ_KEY)
        .docs(
            Group::Module,
            "1.0.0",
            "O(K) for K filters",
            "Tells how often an item was added to a Cuckoo filter, at most.",
        )
        .arguments(ONE_ITEM),
    command("cf.del", del, SHRINK, CHANGED_KEY)
        .docs(
            Group::Module,
            "1.0.0",
            "O(K) for K filters",
            "Deletes an item from a Cuckoo filter, once; one that was never added may delete another.",
        )
        .arguments(ONE_ITEM),
    command("cf.compact", compact, SHRINK, CHANGED_KEY)
        .internal()
        .docs(
            Group::Module,
            "1.0.0",
            "O(N) for N slots",
            "Moves the items of a Cuckoo filter's layers to older ones, and drops those that become empty.",
        )
        .arguments("key:key#0"),
    command("cf.info", info, READ, READ_KEY)
        .docs(Group::Module, "1.0.0", "O(1)", "Tells how a Cuckoo filter was made and how full it is.")
        .arguments("key:key#0"),
    command("cf.debug", debug, READ, READ_KEY)
        .internal()
        .docs(Group::Module, "1.0.0", "O(1)", "Tells the numbers of a Cuckoo filter in one line.")
        .arguments("key:key#0"),
    command("cf.scandump", scandump, READ, READ_KEY)
        .docs(
            Group::Module,
            "1.0.0",
            "O(N) for N bytes",
            "Returns a piece of a Cuckoo filter, and where the next begins.",
        )
        .arguments("key:key#0 iterator:integer"),
    command("cf.loadchunk", loadchunk, WRITE, CHANGED_KEY)
        .docs(Group::Module, "1.0.0", "O(N) for N bytes", "Makes a Cuckoo filter from the pieces of another.")
        .arguments("key:key#0 iterator:integer data:string"),
];
