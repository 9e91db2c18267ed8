//! The commands on streams.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `id.rs` | identifiers as arguments and in replies |
//! | `add.rs`, `trim.rs` | XADD, XTRIM, XSETID, and the options of trimming |
//! | `range.rs` | XLEN, XRANGE, XREVRANGE |
//! | `delete.rs` | XDEL, XDELEX, XACKDEL |
//! | `read.rs`, `deliver.rs` | XREAD, XREADGROUP: what to read from where, and reading it |
//! | `group.rs` | XGROUP, XACK |
//! | `pending.rs`, `claim.rs`, `give_back.rs` | XPENDING; XCLAIM, XAUTOCLAIM; XNACK |
//! | `producers.rs` | IDMP and IDMPAUTO of XADD, XCFGSET, XIDMPRECORD |
//! | `info.rs` | XINFO |
//! | `table.rs`, `group_table.rs` | the registration tables |
//!
//! What a command does to a group is logged as its outcome (XCLAIM, XGROUP SETID), because what it meets
//! depends on the time and on which client came first. Acknowledging and reading change no entry, so they do
//! not mark its watchers.

mod add;
mod claim;
mod delete;
mod deliver;
mod give_back;
mod group;
mod group_table;
mod id;
mod info;
mod pending;
mod producers;
mod range;
mod read;
mod table;
mod trim;

pub(crate) use group_table::COMMANDS as GROUP_COMMANDS;
pub(crate) use table::COMMANDS;

use mantissa_protocol::Reply;
use mantissa_store::stream::{ConsumerId, Group, NUMBER_TEXT_MAX, NodeLimits, References, StreamEntry};

use crate::access::Access;
use crate::effects::EventClass;
use crate::error::Error;
use crate::parse;
use id::reply_id;
use info::unsigned;

/// When a node is full.
fn node_limits(access: &Access<'_>) -> NodeLimits {
    let limits = &access.settings().limits;
    NodeLimits { bytes_max: limits.stream_node_bytes_max, entries_max: limits.stream_node_entries_max }
}

/// Replies an entry: its identifier, then its fields and values.
fn reply_entry(reply: &mut Reply, entry: StreamEntry<'_>) {
    reply.array(2);
    reply_content(reply, entry);
}

/// Replies an entry with the time since its delivery before this one, in ms, and how many there were.
fn reply_delivered(reply: &mut Reply, entry: StreamEntry<'_>, idle_ms: i64, delivery_count: u64) {
    reply.array(4);
    reply_content(reply, entry);
    reply.integer(idle_ms);
    unsigned(reply, delivery_count);
}

fn reply_content(reply: &mut Reply, entry: StreamEntry<'_>) {
    let mut scratch = [0; NUMBER_TEXT_MAX];
    reply_id(reply, entry.id);
    reply.array(2 * entry.fields.len());
    for (name, value) in entry.fields {
        reply.bulk(name.bytes(&mut scratch));
        reply.bulk(value.bytes(&mut scratch));
    }
}

/// Replies entries as an array. With their number the reply can be streamed.
fn reply_entries<'a>(reply: &mut Reply, len: Option<usize>, entries: impl Iterator<Item = StreamEntry<'a>>) {
    let header = reply.array_or_defer(len);
    let mut count = 0;
    for entry in entries {
        reply_entry(reply, entry);
        count += 1;
        reply.stream();
    }
    debug_assert!(len.is_none_or(|len| len == count));
    reply.finish_if_deferred(header, count);
}

/// An error with a key and a group in its text, each up to its first NUL.
fn error_naming(parts: [&[u8]; 5]) -> Error {
    let shown = |part: &&[u8]| part.split(|&byte| byte == 0).next().unwrap_or_default().to_vec();
    Error::from_bytes(parts.iter().map(shown).collect::<Vec<_>>().concat())
}

/// There is no such key or group.
fn no_key_or_group(key: &[u8], group: &[u8]) -> Error {
    error_naming([b"NOGROUP No such key '", key, b"' or consumer group '", group, b"'"])
}

/// There is no such group at the key.
fn no_group(key: &[u8], group: &[u8]) -> Error {
    error_naming([b"NOGROUP No such consumer group '", group, b"' for key name '", key, b"'"])
}

/// What an argument says about entries that are pending somewhere, if it does.
fn references(argument: &[u8]) -> Option<References> {
    let choices =
        [("KEEPREF", References::Keep), ("DELREF", References::Delete), ("ACKED", References::Acknowledged)];
    choices.into_iter().find(|(name, _)| parse::is(argument, name)).map(|(_, choice)| choice)
}

/// The keyword for it.
fn references_keyword(references: References) -> &'static [u8] {
    match references {
        References::Keep => b"KEEPREF",
        References::Delete => b"DELREF",
        References::Acknowledged => b"ACKED",
    }
}

/// The consumer of that name, seen now, and whether it is new.
fn consumer_seen(group: &mut Group, name: &[u8], now_ms: i64) -> Option<(ConsumerId, bool)> {
    if let Some(id) = group.find_consumer(name) {
        group.set_seen(id, now_ms);
        return Some((id, false));
    }
    Some((group.add_consumer(name, now_ms, -1)?, true))
}

/// Says that a command has made a consumer.
fn consumer_created(access: &mut Access<'_>, key: &[u8], group: &[u8], consumer: &[u8]) {
    access.count_changes(1);
    access.event(EventClass::STREAM, "xgroup-createconsumer", key);
    access.log_instead(&[b"XGROUP", b"CREATECONSUMER", key, group, consumer]);
}

#[cfg(test)]
mod tests;
