//! The registration table of time series.

use super::add::{add, decrby, incrby, madd};
use super::arrow;
use super::compaction::{create_rule, delete_rule};
use super::create::{alter, create};
use super::info::info;
use super::many::{mget, mrange, mrevrange, queryindex, querylabels};
use super::pivot::{nrange, nrevrange};
use super::range::{range, revrange};
use super::read::read;
use super::{del, get};
use crate::module_rows::{CHANGED_KEY, CHANGES, READ, READ_KEY, READS, SHRINK, WRITE};
use crate::spec::{Categories, Flags, Group, KeySpec, Locks, Traits};
use crate::{DataHandler, DataSpec, long_reads};

/// A command that reads a series. The module takes any number of arguments and looks at it itself.
const fn reads(name: &'static str, handler: DataHandler) -> DataSpec {
    DataSpec::new(name, -1, handler, READ)
        .categories(Categories::TIMESERIES)
        .keys(READ_KEY)
        .traits(Traits::FOLLOWS_LINKS)
}

/// A command that changes a series.
const fn writes(name: &'static str, handler: DataHandler, flags: Flags) -> DataSpec {
    DataSpec::new(name, -1, handler, flags)
        .categories(Categories::TIMESERIES)
        .keys(CHANGED_KEY)
        .traits(Traits::FOLLOWS_LINKS)
}

/// A command that changes a series, and makes it if need be.
const fn makes(name: &'static str, handler: DataHandler) -> DataSpec {
    writes(name, handler, WRITE).traits(Traits::FOLLOWS_LINKS.or(Traits::COMPACTS))
}

/// A command that reads the series that it finds by their labels.
const fn finds(name: &'static str, handler: DataHandler) -> DataSpec {
    DataSpec::new(name, -1, handler, READ)
        .categories(Categories::TIMESERIES)
        .traits(Traits::READS_BY_LABEL)
        .locks(Locks::Sweep)
}

/// A command that reads series whose number and keys come first.
const fn pivots(name: &'static str, handler: DataHandler) -> DataSpec {
    const KEYS: &[KeySpec] = &[KeySpec::counted(1, READS)];
    DataSpec::new(name, -5, handler, READ.or(Flags::MOVABLE_KEYS))
        .categories(Categories::TIMESERIES)
        .keys(KEYS)
        .traits(Traits::FOLLOWS_LINKS)
}

/// The times and the options of TS.RANGE.
macro_rules! range_arguments {
    () => {
        "fromtimestamp:string totimestamp:string latest:pure-token@LATEST? \
         timestamp:integer@FILTER_BY_TS?* values:block(min:double max:double)@FILTER_BY_VALUE? \
         count:integer@COUNT? aggregation:block(align:string@ALIGN? aggregator:string@AGGREGATION \
         bucketduration:integer buckettimestamp:string@BUCKETTIMESTAMP? empty:pure-token@EMPTY?)?"
    };
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    writes("ts.create", create, WRITE)
        .docs(Group::Module, "1.0.0", "O(1)", "Makes a time series.")
        .arguments(
            "key:key#0 retention:integer@RETENTION? \
             encoding:oneof(uncompressed:pure-token@UNCOMPRESSED compressed:pure-token@COMPRESSED)@ENCODING? \
             size:integer@CHUNK_SIZE? \
             policy:oneof(block:pure-token@BLOCK first:pure-token@FIRST last:pure-token@LAST \
             min:pure-token@MIN max:pure-token@MAX sum:pure-token@SUM)@DUPLICATE_POLICY? \
             ignore:block(max-time-difference:integer max-value-difference:double)@IGNORE? \
             labels:block(label:string value:string)@LABELS?*",
        ),
    writes("ts.alter", alter, WRITE)
        .docs(Group::Module, "1.0.0", "O(N) for N labels", "Changes the options of a time series.")
        .arguments(
            "key:key#0 retention:integer@RETENTION? size:integer@CHUNK_SIZE? \
             policy:oneof(block:pure-token@BLOCK first:pure-token@FIRST last:pure-token@LAST \
             min:pure-token@MIN max:pure-token@MAX sum:pure-token@SUM)@DUPLICATE_POLICY? \
             ignore:block(max-time-difference:integer max-value-difference:double)@IGNORE? \
             labels:block(label:string value:string)@LABELS?*",
        ),
    makes("ts.add", add)
        .docs(
            Group::Module,
            "1.0.0",
            "O(1), and that of its chunk for a sample that is not the latest",
            "Adds a sample to a time series, making the series if need be.",
        )
        .arguments(
            "key:key#0 timestamp:string value:double retention:integer@RETENTION? \
             encoding:oneof(uncompressed:pure-token@UNCOMPRESSED compressed:pure-token@COMPRESSED)@ENCODING? \
             size:integer@CHUNK_SIZE? \
             policy:oneof(block:pure-token@BLOCK first:pure-token@FIRST last:pure-token@LAST \
             min:pure-token@MIN max:pure-token@MAX sum:pure-token@SUM)@ON_DUPLICATE? \
             ignore:block(max-time-difference:integer max-value-difference:double)@IGNORE? \
             labels:block(label:string value:string)@LABELS?*",
        ),
    DataSpec::new("ts.madd", -1, madd, WRITE)
        .categories(Categories::TIMESERIES)
        .keys(&[KeySpec::range(1, -1, 3, CHANGES)])
        .traits(Traits::FOLLOWS_LINKS)
        .docs(
            Group::Module,
            "1.0.0",
            "O(N) for N samples, as TS.ADD for each",
            "Adds samples to one or more time series.",
        )
        .arguments("sample:block(key:key#0 timestamp:string value:double)*"),
    makes("ts.incrby", incrby)
        .docs(Group::Module, "1.0.0", "O(1)", "Adds to the latest value of a time series, as a new sample.")
        .arguments(
            "key:key#0 value:double timestamp:string@TIMESTAMP? retention:integer@RETENTION? \
             uncompressed:pure-token@UNCOMPRESSED? size:integer@CHUNK_SIZE? \
             labels:block(label:string value:string)@LABELS?*",
        ),
    makes("ts.decrby", decrby)
        .docs(
            Group::Module,
            "1.0.0",
            "O(1)",
            "Subtracts from the latest value of a time series, as a new sample.",
        )
        .arguments(
            "key:key#0 value:double timestamp:string@TIMESTAMP? retention:integer@RETENTION? \
             uncompressed:pure-token@UNCOMPRESSED? size:integer@CHUNK_SIZE? \
             labels:block(label:string value:string)@LABELS?*",
        ),
    writes("ts.createrule", create_rule, WRITE)
        .traits(Traits::FOLLOWS_LINKS.or(Traits::LINKS_KEYS))
        .docs(Group::Module, "1.0.0", "O(1)", "Makes a rule that keeps buckets of a time series in another.")
        .arguments(
            "sourcekey:key#0 destkey:key#0 aggregator:oneof(avg:pure-token@AVG first:pure-token@FIRST \
             last:pure-token@LAST min:pure-token@MIN max:pure-token@MAX sum:pure-token@SUM \
             range:pure-token@RANGE count:pure-token@COUNT std.p:pure-token@STD.P std.s:pure-token@STD.S \
             var.p:pure-token@VAR.P var.s:pure-token@VAR.S twa:pure-token@TWA)@AGGREGATION \
             bucketduration:integer aligntimestamp:integer?",
        ),
    writes("ts.deleterule", delete_rule, SHRINK)
        .traits(Traits::FOLLOWS_LINKS.or(Traits::LINKS_KEYS))
        .docs(Group::Module, "1.0.0", "O(1)", "Deletes a rule.")
        .arguments("sourcekey:key#0 destkey:key#0"),
    writes("ts.del", del, SHRINK)
        .docs(
            Group::Module,
            "1.6.0",
            "O(N) for N chunks between the times",
            "Deletes the samples between two times.",
        )
        .arguments("key:key#0 from_timestamp:integer to_timestamp:integer"),
    reads("ts.get", get)
        .docs(Group::Module, "1.0.0", "O(1)", "Returns the latest sample.")
        .arguments("key:key#0 latest:pure-token@LATEST?"),
    reads("ts.range", range)
        .reads_much(long_reads::samples)
        .docs(
            Group::Module,
            "1.0.0",
            "O(N) for N samples; buckets that hold whole chunks take one step for each of these",
            "Returns the samples between two times, or values of buckets of them.",
        )
        .arguments(RANGE_ARGUMENTS),
    reads("ts.revrange", revrange)
        .reads_much(long_reads::samples)
        .docs(
            Group::Module,
            "1.4.0",
            "O(N) for N samples; buckets that hold whole chunks take one step for each of these",
            "Returns the samples between two times, or values of buckets of them, the latest first.",
        )
        .arguments(RANGE_ARGUMENTS),
    finds("ts.mget", mget)
        .docs(
            Group::Module,
            "1.0.0",
            "O(N) for N series with the labels",
            "Returns the latest samples of the series that have certain labels.",
        )
        .arguments(
            "latest:pure-token@LATEST? labels:oneof(withlabels:pure-token@WITHLABELS \
             selected_labels:string@SELECTED_LABELS*)? filterexpr:string@FILTER*",
        ),
    finds("ts.mrange", mrange)
        .docs(
            Group::Module,
            "1.0.0",
            "O(N) for N samples of the series with the labels",
            "Returns samples between two times of the series that have certain labels.",
        )
        .arguments(MANY_ARGUMENTS),
    finds("ts.mrevrange", mrevrange)
        .docs(
            Group::Module,
            "1.4.0",
            "O(N) for N samples of the series with the labels",
            "Returns samples between two times of the series that have certain labels, the latest first.",
        )
        .arguments(MANY_ARGUMENTS),
    finds("ts.queryindex", queryindex)
        .docs(
            Group::Module,
            "1.0.0",
            "O(N) for N series with the labels",
            "Returns the keys of the series that have certain labels.",
        )
        .arguments("filterexpr:string*"),
    DataSpec::new("ts.querylabels", -2, querylabels, READ)
        .categories(Categories::TIMESERIES)
        .traits(Traits::READS_BY_LABEL)
        .locks(Locks::Sweep)
        .docs(
            Group::Module,
            "8.10.0",
            "O(N) for N series with the labels, or all of them",
            "Returns the names of labels, or the values of one, of the series that have certain labels.",
        )
        .arguments("subtype:oneof(labels:pure-token@LABELS values:string@VALUES) filterexpr:string@FILTER?*"),
    pivots("ts.nrange", nrange)
        .docs(
            Group::Module,
            "8.10.0",
            "O(N*M) for N samples of each of M series",
            "Returns samples, or values of buckets of them, of several series side by side.",
        )
        .arguments(PIVOT_ARGUMENTS),
    pivots("ts.nrevrange", nrevrange)
        .docs(
            Group::Module,
            "8.10.0",
            "O(N*M) for N samples of each of M series",
            "Returns samples, or values of buckets of them, of several series in rows, the latest first.",
        )
        .arguments(PIVOT_ARGUMENTS),
    pivots("mantissa.ts.arrow", arrow::of_keys)
        .docs(
            Group::Module,
            "1.0.0",
            "O(N*M) for N times of M series",
            "Returns samples, or values of buckets, of several series as a table in Arrow's IPC format.",
        )
        .arguments(concat!("numkeys:integer key:key#0* ", range_arguments!())),
    DataSpec::new("mantissa.ts.marrow", -5, arrow::of_labels, READ)
        .categories(Categories::TIMESERIES)
        .traits(Traits::READS_BY_LABEL)
        .locks(Locks::Sweep)
        .docs(
            Group::Module,
            "1.0.0",
            "O(N*M) for N times of M series with the labels",
            "Returns a table in Arrow's IPC format of the series that have certain labels.",
        )
        .arguments(concat!(range_arguments!(), " filterexpr:string@FILTER*")),
    DataSpec::new("ts.read", -3, read, READ.or(Flags::BLOCKING))
        .categories(Categories::TIMESERIES)
        .keys(READ_KEY)
        .docs(
            Group::Module,
            "8.10.0",
            "O(log(N)+M) for M samples returned of N",
            "Returns samples from a time on, waiting for them if asked to.",
        )
        .arguments(
            "key:key#0 timestamp:string block:block(milliseconds:integer min_count:integer)@BLOCK? \
             max_count:integer@MAX_COUNT?",
        ),
    reads("ts.info", info)
        .docs(Group::Module, "1.0.0", "O(1)", "Tells about a time series.")
        .arguments("key:key#0 debug:pure-token@DEBUG?"),
];

const PIVOT_ARGUMENTS: &str = "numkeys:integer key:key#0* fromtimestamp:string totimestamp:string \
     latest:pure-token@LATEST? timestamp:integer@FILTER_BY_TS?* \
     values:block(min:double max:double)@FILTER_BY_VALUE? count:integer@COUNT? \
     aggregation:block(align:string@ALIGN? aggregator:string@AGGREGATION* bucketduration:integer \
     buckettimestamp:string@BUCKETTIMESTAMP? empty:pure-token@EMPTY?)?";

const RANGE_ARGUMENTS: &str = concat!("key:key#0 ", range_arguments!());

const MANY_ARGUMENTS: &str = "fromtimestamp:string totimestamp:string latest:pure-token@LATEST? \
     timestamp:integer@FILTER_BY_TS?* values:block(min:double max:double)@FILTER_BY_VALUE? \
     labels:oneof(withlabels:pure-token@WITHLABELS selected_labels:string@SELECTED_LABELS*)? \
     count:integer@COUNT? aggregation:block(align:string@ALIGN? aggregator:string@AGGREGATION \
     bucketduration:integer buckettimestamp:string@BUCKETTIMESTAMP? empty:pure-token@EMPTY?)? \
     filterexpr:string@FILTER* groupby:block(label:string@GROUPBY reducer:string@REDUCE)? \
     excludeempty:pure-token@EXCLUDEEMPTY?";
