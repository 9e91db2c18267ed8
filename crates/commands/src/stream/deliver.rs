//! Reading for a consumer: new entries, which become pending, and those that it has already.

use mantissa_protocol::Reply;
use mantissa_store::stream::{ConsumerId, Pending, Stream, StreamId};

use super::id::{IdText, reply_id};
use super::{consumer_created, consumer_seen, reply_entry};
use crate::access::Access;
use crate::error::Outcome;

/// The reading consumer.
pub(super) struct Reader<'a> {
    pub(super) group: &'a [u8],
    pub(super) consumer: &'a [u8],
    /// Entries are taken as acknowledged at once.
    pub(super) no_ack: bool,
}

/// The stream at a key, with the reader's consumer, which is made if need be.
fn enter<'a>(
    access: &'a mut Access<'_>,
    key: &[u8],
    reader: &Reader<'_>,
) -> Outcome<Option<(&'a mut Stream, ConsumerId)>> {
    let now_ms = access.clock_ms();
    let group = access.stream_mut(key)?.and_then(|stream| stream.group_mut(reader.group));
    let Some((id, is_new)) = group.and_then(|group| consumer_seen(group, reader.consumer, now_ms)) else {
        return Ok(None);
    };
    if is_new {
        consumer_created(access, key, reader.group, reader.consumer);
    }
    Ok(access.stream_mut(key)?.map(|stream| (stream, id)))
}

/// Replies entries that the group has not been delivered yet, after what `before` writes. False if there are
/// none.
pub(super) fn deliver(
    access: &mut Access<'_>,
    reply: &mut Reply,
    key: &[u8],
    reader: &Reader<'_>,
    count: usize,
    before: impl FnOnce(&mut Reply, &[u8]),
) -> Outcome<bool> {
    let now_ms = access.clock_ms();
    let Some((stream, consumer)) = enter(access, key, reader)? else { return Ok(false) };
    let Some(group) = stream.group(reader.group) else { return Ok(false) };
    let last = group.last_delivered;
    let Some(start) = last.next().filter(|_| last < stream.last_id) else { return Ok(false) };
    let extent = stream.extent();
    let mut ids = Vec::new();
    let begin = reply.len();
    before(reply, key);
    let header = reply.defer();
    for entry in stream.range(start, StreamId::MAX).take(count) {
        ids.push(entry.id);
        reply_entry(reply, entry);
    }
    if ids.is_empty() {
        reply.truncate(begin);
        return Ok(false);
    }
    reply.finish_array(header, ids.len());
    let Some(group) = stream.group_mut(reader.group) else { return Ok(true) };
    for &id in &ids {
        group.advance(id, &extent);
        if !reader.no_ack {
            group.assign(id, Pending { consumer, delivered_at_ms: now_ms, delivery_count: 1 });
        }
    }
    if !reader.no_ack {
        group.set_active(consumer, now_ms);
    }
    access.count_changes(1);
    log_delivered(access, key, reader, &ids)?;
    Ok(true)
}

/// What is logged of a delivery: each entry as claimed, and where the group stands.
fn log_delivered(access: &mut Access<'_>, key: &[u8], reader: &Reader<'_>, ids: &[StreamId]) -> Outcome {
    if !access.logs() {
        return Ok(());
    }
    if !reader.no_ack {
        let time = access.clock_ms().to_string();
        for &id in ids {
            log_claim(access, key, (reader.group, reader.consumer), id, (&time, 1));
        }
    }
    log_position(access, key, reader.group)
}

/// Logs that a consumer has an entry, since when, and its number of deliveries.
pub(super) fn log_claim(
    access: &mut Access<'_>,
    key: &[u8],
    (group, consumer): (&[u8], &[u8]),
    id: StreamId,
    (time, count): (&str, u64),
) {
    let (id, count) = (IdText::new(id), count.to_string());
    let (time, count) = (time.as_bytes(), count.as_bytes());
    let arguments: [&[u8]; 12] = [
        b"XCLAIM",
        key,
        group,
        consumer,
        b"0",
        id.as_bytes(),
        b"TIME",
        time,
        b"RETRYCOUNT",
        count,
        b"FORCE",
        b"JUSTID",
    ];
    access.log_instead(&arguments);
}

/// Logs how far a group has come.
pub(super) fn log_position(access: &mut Access<'_>, key: &[u8], name: &[u8]) -> Outcome {
    let stream = access.collection_to_write::<Stream>(key)?;
    let Some(group) = stream.and_then(|stream| stream.group(name)) else { return Ok(()) };
    let id = IdText::new(group.last_delivered);
    let read = group.entries_read.map_or("-1".to_owned(), |count| count.to_string());
    access.log_instead(&[b"XGROUP", b"SETID", key, name, id.as_bytes(), b"ENTRIESREAD", read.as_bytes()]);
    Ok(())
}

/// Replies entries that the consumer has already, after `last`; each counts as delivered once more.
pub(super) fn history(
    access: &mut Access<'_>,
    reply: &mut Reply,
    key: &[u8],
    reader: &Reader<'_>,
    (last, count): (StreamId, usize),
) -> Outcome {
    let now_ms = access.clock_ms();
    let Some((stream, consumer)) = enter(access, key, reader)? else {
        reply.array(0);
        return Ok(());
    };
    let held = stream.group(reader.group).and_then(|group| group.consumer(consumer));
    let ids: Vec<StreamId> = match (held, last.next()) {
        (Some(held), Some(start)) => held.pending().range(start..).map(|(id, ())| id).take(count).collect(),
        _ => Vec::new(),
    };
    reply.array(ids.len());
    for id in ids {
        let Some(entry) = stream.get(id) else {
            reply.array(2);
            reply_id(reply, id);
            reply.null_array();
            continue;
        };
        reply_entry(reply, entry);
        let Some(group) = stream.group_mut(reader.group) else { continue };
        if let Some(pending) = group.pending().get(id) {
            let delivery_count = pending.delivery_count.saturating_add(1);
            group.assign(id, Pending { delivered_at_ms: now_ms, delivery_count, ..pending });
        }
    }
    Ok(())
}
