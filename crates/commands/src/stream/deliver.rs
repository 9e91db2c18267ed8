//! Reading for a consumer: new entries, which become pending, those that others have had for long, and those
//! that it has already.

use mantissa_protocol::Reply;
use mantissa_store::stream::{ConsumerId, Pending, Stream, StreamId};

use super::id::{IdText, reply_id};
use super::{consumer_created, consumer_seen, reply_delivered, reply_entry};
use crate::access::Access;
use crate::error::Outcome;

/// The reading consumer.
pub(super) struct Reader<'a> {
    pub(super) group: &'a [u8],
    pub(super) consumer: &'a [u8],
    /// Entries are taken as acknowledged at once.
    pub(super) no_ack: bool,
    /// Entries that have been pending for so many ms come first, and become its own.
    pub(super) claim_ms: Option<i64>,
}

/// What a reply has room for.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// Entries of one stream.
    pub(super) count: usize,
    /// The length of the reply at which it is full, once it has an entry.
    pub(super) end: usize,
    /// Whether it has an entry of another stream.
    pub(super) has_entries: bool,
}

impl Room {
    /// Whether no more goes into a reply that has so many entries of this stream.
    pub(super) fn is_full(&self, reply: &Reply, count: usize) -> bool {
        count >= self.count || reply.len() >= self.end && (count > 0 || self.has_entries)
    }
}

/// An entry that was replied, and what it is as a pending one.
type Delivered = (StreamId, Pending);

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

/// Replies entries that are to be claimed, and those that the group has not been delivered yet, after what
/// `before` writes. Returns their number, if there are any.
pub(super) fn deliver(
    access: &mut Access<'_>,
    reply: &mut Reply,
    key: &[u8],
    reader: &Reader<'_>,
    room: Room,
    before: impl FnOnce(&mut Reply, &[u8]),
) -> Outcome<Option<usize>> {
    let now_ms = access.clock_ms();
    let Some((stream, consumer)) = enter(access, key, reader)? else { return Ok(None) };
    let Some(group) = stream.group(reader.group) else { return Ok(None) };
    if group.last_delivered >= stream.last_id && reader.claim_ms.is_none() {
        return Ok(None);
    }
    let begin = reply.len();
    before(reply, key);
    let header = reply.defer();
    let claimed = claim_idle(stream, reply, reader, room, (consumer, now_ms));
    let new = deliver_new(stream, reply, reader, (room, claimed.len()), (consumer, now_ms));
    let count = claimed.len() + new.len();
    if count == 0 {
        reply.truncate(begin);
        return Ok(None);
    }
    reply.finish_array(header, count);
    if let Some(group) = stream.group_mut(reader.group)
        && !(claimed.is_empty() && reader.no_ack)
    {
        group.set_active(consumer, now_ms);
    }
    access.count_changes(1);
    if access.logs() {
        log_delivered(access, key, reader, &claimed);
        if !reader.no_ack {
            log_delivered(access, key, reader, &new);
        }
        if !new.is_empty() {
            log_position(access, key, reader.group)?;
        }
    }
    Ok(Some(count))
}

/// Replies entries that have been pending for long enough, those first that were delivered longest ago. The
/// consumer becomes their holder.
fn claim_idle(
    stream: &mut Stream,
    reply: &mut Reply,
    reader: &Reader<'_>,
    room: Room,
    (consumer, now_ms): (ConsumerId, i64),
) -> Vec<Delivered> {
    let (mut claimed, mut gone) = (Vec::new(), Vec::new());
    let Some(claim_ms) = reader.claim_ms else { return claimed };
    if let Some(group) = stream.group_mut(reader.group) {
        group.keep_ages();
    }
    let Some(group) = stream.group(reader.group) else { return claimed };
    for (id, pending) in group.by_age() {
        let idle_ms = now_ms.saturating_sub(pending.last_delivery_ms());
        if idle_ms < claim_ms || room.is_full(reply, claimed.len()) {
            break;
        }
        let Some(entry) = stream.get(id) else {
            gone.push(id);
            continue;
        };
        reply_delivered(reply, entry, idle_ms, pending.delivery_count);
        let delivery_count = pending.delivery_count_after();
        claimed.push((id, Pending { consumer, delivered_at_ms: now_ms, delivery_count }));
    }
    if let Some(group) = stream.group_mut(reader.group) {
        group.forget_ages(&gone);
        for &(id, pending) in &claimed {
            group.assign(id, pending);
        }
    }
    claimed
}

/// Replies entries that the group has not been delivered yet, behind some that were claimed.
fn deliver_new(
    stream: &mut Stream,
    reply: &mut Reply,
    reader: &Reader<'_>,
    (room, claimed): (Room, usize),
    (consumer, now_ms): (ConsumerId, i64),
) -> Vec<Delivered> {
    let mut new = Vec::new();
    let last = stream.group(reader.group).map_or(StreamId::MAX, |group| group.last_delivered);
    let Some(start) = last.next().filter(|_| last < stream.last_id) else { return new };
    let extent = stream.extent();
    let pending = Pending { consumer, delivered_at_ms: now_ms, delivery_count: 1 };
    for entry in stream.range(start, StreamId::MAX) {
        if room.is_full(reply, claimed + new.len()) {
            break;
        }
        new.push((entry.id, pending));
        match reader.claim_ms {
            None => reply_entry(reply, entry),
            Some(_) => reply_delivered(reply, entry, 0, 0),
        }
    }
    let Some(group) = stream.group_mut(reader.group).filter(|_| !new.is_empty()) else { return new };
    for &(id, pending) in &new {
        group.advance(id, &extent);
        if !reader.no_ack {
            group.assign(id, pending);
        }
    }
    new
}

/// Logs each entry of a delivery as claimed.
fn log_delivered(access: &mut Access<'_>, key: &[u8], reader: &Reader<'_>, entries: &[Delivered]) {
    for (id, pending) in entries {
        let time = pending.delivered_at_ms.to_string();
        log_claim(access, key, (reader.group, reader.consumer), *id, (&time, pending.delivery_count));
    }
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

/// Replies entries that the consumer has already, after `last`; each counts as delivered once more. Returns
/// their number.
pub(super) fn history(
    access: &mut Access<'_>,
    reply: &mut Reply,
    key: &[u8],
    reader: &Reader<'_>,
    (last, room): (StreamId, Room),
) -> Outcome<usize> {
    let now_ms = access.clock_ms();
    let Some((stream, consumer)) = enter(access, key, reader)? else {
        reply.array(0);
        return Ok(0);
    };
    let held = stream.group(reader.group).and_then(|group| group.consumer(consumer));
    let ids = held.zip(last.next()).into_iter().flat_map(|(held, start)| held.pending().range(start..));
    let header = reply.defer();
    let (mut count, mut found) = (0, Vec::new());
    for (id, ()) in ids {
        if room.is_full(reply, count) {
            break;
        }
        count += 1;
        let Some(entry) = stream.get(id) else {
            reply.array(2);
            reply_id(reply, id);
            reply.null_array();
            continue;
        };
        reply_entry(reply, entry);
        found.push(id);
    }
    reply.finish_array(header, count);
    let Some(group) = stream.group_mut(reader.group) else { return Ok(count) };
    for id in found {
        if let Some(pending) = group.pending().get(id) {
            let delivery_count = pending.delivery_count.saturating_add(1);
            group.assign(id, Pending { delivered_at_ms: now_ms, delivery_count, ..pending });
        }
    }
    Ok(count)
}
