//! Streams as files hold them.
//!
//! ```text
//! nodes:     count, { first id (string of 16 bytes), listpack (string) }
//! numbers:   length, last id, [ first id, largest deleted id, entries added ]      [..]: from form 2
//! groups:    count, { name, last delivered id, [ entries read ], pending, consumers }
//! pending:   count, { id (16 bytes), delivered at (8 bytes), delivery count }
//! consumers: count, { name, seen at, [[ active at ]], count, ids (16 bytes) }      [[..]]: from form 3
//! ```

use crate::format::value_type;
use crate::source::{LoadError, Source};
use mantissa_store::stream::{Group, Node, Pending, Stream, StreamId};
use std::collections::BTreeMap;
use std::io::Read;

/// Says "unknown" in the place of a count of entries read.
const ENTRIES_READ_UNKNOWN: u64 = u64::MAX;

/// What a pending entry is until its consumer is known.
type Unclaimed = BTreeMap<StreamId, (i64, u64)>;

/// Reads the stream at `offset`; `form` is its value type.
pub(super) fn read<R: Read>(source: &mut Source<R>, form: u8, offset: u64) -> Result<Stream, LoadError> {
    let mut stream = Stream::new();
    let node_count = source.length()?;
    for _ in 0..node_count {
        let offset = source.offset();
        let Ok(first) = <[u8; 16]>::try_from(source.string()?) else {
            return source.error(offset, "stream node's key is not the size of an identifier");
        };
        let offset = source.offset();
        let bytes = source.string_owned()?;
        let node = Node::from_listpack(StreamId::from_be_bytes(first), bytes);
        if let Err(error) = node.and_then(|node| stream.push_node(node)) {
            return source.error(offset, error.to_string());
        }
    }
    let length = source.length()?;
    if length != stream.len() {
        return source.error(offset, "stream's length differs from its entries");
    }
    stream.last_id = identifier(source)?;
    if stream
        .range_reversed(StreamId::MIN, StreamId::MAX)
        .next()
        .is_some_and(|entry| entry.id > stream.last_id)
    {
        return source.error(offset, "stream has entries above its last identifier");
    }
    if form >= value_type::STREAM_LISTPACKS_2 {
        identifier(source)?;
        stream.max_deleted_id = identifier(source)?;
        stream.entries_added = source.length()?;
    } else {
        stream.entries_added = length;
    }
    let group_count = source.length()?;
    for _ in 0..group_count {
        read_group(source, form, &mut stream)?;
    }
    Ok(stream)
}

fn identifier<R: Read>(source: &mut Source<R>) -> Result<StreamId, LoadError> {
    Ok(StreamId { ms: source.length()?, seq: source.length()? })
}

fn read_group<R: Read>(source: &mut Source<R>, form: u8, stream: &mut Stream) -> Result<(), LoadError> {
    let offset = source.offset();
    let name = source.string_owned()?;
    let last_delivered = identifier(source)?;
    let entries_read = if form >= value_type::STREAM_LISTPACKS_2 {
        Some(source.length()?).filter(|&count| count != ENTRIES_READ_UNKNOWN)
    } else {
        stream.extent().entries_read_at(last_delivered)
    };
    let mut group = Group::new(last_delivered, entries_read);
    let mut unclaimed = Unclaimed::new();
    let pending_count = source.length()?;
    for _ in 0..pending_count {
        let offset = source.offset();
        let id = StreamId::from_be_bytes(source.array()?);
        let delivered_at_ms = source.milliseconds()?;
        if unclaimed.insert(id, (delivered_at_ms, source.length()?)).is_some() {
            return source.error(offset, "stream group has a pending entry twice");
        }
    }
    let consumer_count = source.length()?;
    for _ in 0..consumer_count {
        read_consumer(source, form, &mut group, &mut unclaimed)?;
    }
    if !unclaimed.is_empty() {
        return source.error(offset, "stream group has a pending entry without a consumer");
    }
    if !stream.add_group(&name, group) {
        return source.error(offset, "stream has two groups of one name");
    }
    Ok(())
}

fn read_consumer<R: Read>(
    source: &mut Source<R>,
    form: u8,
    group: &mut Group,
    unclaimed: &mut Unclaimed,
) -> Result<(), LoadError> {
    let offset = source.offset();
    let name = source.string_owned()?;
    let seen_at_ms = source.milliseconds()?;
    let active_at_ms =
        if form >= value_type::STREAM_LISTPACKS_3 { source.milliseconds()? } else { seen_at_ms };
    let Some(consumer) = group.add_consumer(&name, seen_at_ms, active_at_ms) else {
        return source.error(offset, "stream group has two consumers of one name");
    };
    let held_count = source.length()?;
    for _ in 0..held_count {
        let offset = source.offset();
        let id = StreamId::from_be_bytes(source.array()?);
        let Some((delivered_at_ms, delivery_count)) = unclaimed.remove(&id) else {
            return source.error(offset, "stream consumer has an entry that is not pending, or not its own");
        };
        group.assign(id, Pending { consumer, delivered_at_ms, delivery_count });
    }
    Ok(())
}
