//! The list of the families of commands.

use crate::{
    DataSpec, array, bitmap, bloom, cms, cuckoo, expire, generic, geo, hash, hyperloglog, json, list, object,
    packed, scan, series, set, sort, sorted_set, stream, string, tdigest, topk, unpack, vector_set,
};

/// All tables of commands on data.
pub const FAMILIES: &[&[DataSpec]] = &[
    string::COMMANDS,
    string::counter::COMMANDS,
    string::range::COMMANDS,
    string::lcs::COMMANDS,
    string::increx::COMMANDS,
    string::msetex::COMMANDS,
    string::condition::COMMANDS,
    bitmap::COMMANDS,
    bitmap::field::COMMANDS,
    list::COMMANDS,
    set::COMMANDS,
    hash::COMMANDS,
    sorted_set::COMMANDS,
    stream::COMMANDS,
    stream::GROUP_COMMANDS,
    array::COMMANDS,
    hyperloglog::COMMANDS,
    geo::COMMANDS,
    bloom::COMMANDS,
    cuckoo::COMMANDS,
    cms::COMMANDS,
    series::COMMANDS,
    json::COMMANDS,
    topk::COMMANDS,
    tdigest::COMMANDS,
    generic::COMMANDS,
    expire::COMMANDS,
    scan::COMMANDS,
    object::COMMANDS,
    sort::COMMANDS,
    packed::COMMANDS,
    unpack::COMMANDS,
    vector_set::COMMANDS,
];
