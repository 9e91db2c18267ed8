//! The list of the families of commands.

use crate::{
    DataSpec, bitmap, bloom, cms, expire, generic, geo, hash, hyperloglog, list, object, scan, set, sort,
    sorted_set, stream, string, tdigest, topk,
};

/// All tables of commands on data.
pub const FAMILIES: &[&[DataSpec]] = &[
    string::COMMANDS,
    string::counter::COMMANDS,
    string::range::COMMANDS,
    string::lcs::COMMANDS,
    bitmap::COMMANDS,
    bitmap::field::COMMANDS,
    list::COMMANDS,
    set::COMMANDS,
    hash::COMMANDS,
    sorted_set::COMMANDS,
    stream::COMMANDS,
    stream::GROUP_COMMANDS,
    hyperloglog::COMMANDS,
    geo::COMMANDS,
    bloom::COMMANDS,
    cms::COMMANDS,
    topk::COMMANDS,
    tdigest::COMMANDS,
    generic::COMMANDS,
    expire::COMMANDS,
    scan::COMMANDS,
    object::COMMANDS,
    sort::COMMANDS,
];
