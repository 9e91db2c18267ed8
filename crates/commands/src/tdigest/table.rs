//! The registration table of t-digests.

use super::ask::{byrank, byrevrank, cdf, info, max, min, quantile, rank, revrank, trimmed_mean};
use super::{add, create, merge, reset};
use crate::cms::find_sources;
use crate::module_rows::{CHANGED_KEY, READ, READ_KEY, WRITE};
use crate::spec::{Categories, Group};
use crate::{DataHandler, DataSpec};

/// A question. The module takes any number of arguments and looks at it itself.
const fn asks(
    name: &'static str,
    handler: DataHandler,
    complexity: &'static str,
    summary: &'static str,
) -> DataSpec {
    DataSpec::new(name, -1, handler, READ).categories(Categories::TDIGEST).keys(READ_KEY).docs(
        Group::Module,
        "2.4.0",
        complexity,
        summary,
    )
}

/// A command that changes a digest.
const fn changes(
    name: &'static str,
    handler: DataHandler,
    complexity: &'static str,
    summary: &'static str,
) -> DataSpec {
    DataSpec::new(name, -1, handler, WRITE).categories(Categories::TDIGEST).keys(CHANGED_KEY).docs(
        Group::Module,
        "2.4.0",
        complexity,
        summary,
    )
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    changes("tdigest.create", create, "O(1)", "Makes a t-digest.")
        .arguments("key:key#0 compression:integer@COMPRESSION?"),
    changes("tdigest.add", add, "O(N) for N numbers", "Adds numbers to a t-digest.")
        .arguments("key:key#0 values:double*"),
    changes("tdigest.reset", reset, "O(1)", "Forgets all numbers of a t-digest.").arguments("key:key#0"),
    changes(
        "tdigest.merge",
        merge,
        "O(N*K) for N digests of K nodes",
        "Adds what t-digests have seen to another one, or makes one of it.",
    )
    .more_keys(find_sources)
    .arguments(
        "destination-key:key#0 numkeys:integer source-key:key* compression:integer@COMPRESSION? \
         override:pure-token@OVERRIDE?",
    ),
    asks("tdigest.min", min, "O(1)", "Returns the least number that a t-digest has seen.")
        .arguments("key:key#0"),
    asks("tdigest.max", max, "O(1)", "Returns the largest number that a t-digest has seen.")
        .arguments("key:key#0"),
    asks(
        "tdigest.quantile",
        quantile,
        "O(N+K) for N quantiles in order and K nodes",
        "Estimates the numbers below which given parts of all lie.",
    )
    .arguments("key:key#0 quantile:double*"),
    asks(
        "tdigest.cdf",
        cdf,
        "O(N*K) for N numbers and K nodes",
        "Estimates the parts of all numbers that lie below given ones.",
    )
    .arguments("key:key#0 value:double*"),
    asks(
        "tdigest.rank",
        rank,
        "O(N*K) for N numbers and K nodes",
        "Estimates how many numbers lie below given ones.",
    )
    .arguments("key:key#0 value:double*"),
    asks(
        "tdigest.revrank",
        revrank,
        "O(N*K) for N numbers and K nodes",
        "Estimates how many numbers lie above given ones.",
    )
    .arguments("key:key#0 value:double*"),
    asks(
        "tdigest.byrank",
        byrank,
        "O(N*K) for N ranks and K nodes",
        "Estimates the numbers that have given ranks.",
    )
    .arguments("key:key#0 rank:integer*"),
    asks(
        "tdigest.byrevrank",
        byrevrank,
        "O(N*K) for N ranks and K nodes",
        "Estimates the numbers that have given ranks from the largest on.",
    )
    .arguments("key:key#0 reverse_rank:integer*"),
    asks(
        "tdigest.trimmed_mean",
        trimmed_mean,
        "O(K) for K nodes",
        "Estimates the mean of the numbers between two quantiles.",
    )
    .arguments("key:key#0 low_cut_quantile:double high_cut_quantile:double"),
    asks("tdigest.info", info, "O(1)", "Tells how a t-digest was made and how full it is.")
        .arguments("key:key#0"),
];
