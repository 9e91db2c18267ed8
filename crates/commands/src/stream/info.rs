//! XINFO: streams, groups and consumers laid open.

use mantissa_protocol::{Args, Reply};
use mantissa_store::stream::{Consumer, ConsumerId, Extent, Group, Producers, Stream, StreamId};

use super::group::subcommand_error;
use super::id::reply_id;
use super::{no_group, reply_entries, reply_entry};
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

/// Entries, and pending entries of each list, that FULL shows unless told.
const FULL_COUNT: usize = 10;

/// As Redis shows a number without a sign: above `i64::MAX` as negative.
pub(super) fn unsigned(reply: &mut Reply, number: u64) {
    reply.integer(number as i64);
}

fn optional(reply: &mut Reply, number: Option<i64>) {
    match number {
        Some(number) => reply.integer(number),
        None => reply.null(),
    }
}

fn existing<'a>(access: &'a Access<'_>, args: Args<'_>) -> Outcome<&'a Stream> {
    access.stream(args.at(2))?.ok_or(Error::NO_SUCH_KEY)
}

/// What both forms of XINFO STREAM begin with.
fn head(stream: &Stream, extent: &Extent, now_ms: i64, reply: &mut Reply) {
    reply.bulk(b"length");
    unsigned(reply, stream.len());
    reply.bulk(b"radix-tree-keys");
    unsigned(reply, stream.nodes().len() as u64);
    reply.bulk(b"radix-tree-nodes");
    unsigned(reply, stream.radix_node_count());
    reply.bulk(b"last-generated-id");
    reply_id(reply, stream.last_id);
    reply.bulk(b"max-deleted-entry-id");
    reply_id(reply, stream.max_deleted_id);
    reply.bulk(b"entries-added");
    unsigned(reply, stream.entries_added);
    reply.bulk(b"recorded-first-entry-id");
    reply_id(reply, extent.first_id);
    if let Some(producers) = stream.producers() {
        sent(producers, now_ms, reply);
    }
}

/// Fields of [`sent`], which only a stream has that has had producers.
fn sent_len(stream: &Stream) -> usize {
    if stream.producers().is_some() { 6 } else { 0 }
}

/// What is known of the producers of a stream.
fn sent(producers: &Producers, now_ms: i64, reply: &mut Reply) {
    let (limits, (pids, iids)) = (producers.limits(), producers.known(now_ms));
    for (name, number) in [
        ("idmp-duration", limits.duration_s.into()),
        ("idmp-maxsize", limits.names_max.into()),
        ("pids-tracked", pids as u64),
        ("iids-tracked", iids as u64),
        ("iids-added", producers.added),
        ("iids-duplicates", producers.duplicates),
    ] {
        reply.bulk(name.as_bytes());
        unsigned(reply, number);
    }
}

/// XINFO STREAM key FULL's COUNT: 0 is all.
fn parse_full(args: Args<'_>) -> Outcome<Option<usize>> {
    let wrong = || subcommand_error("XINFO", args.at(1));
    match args.len() {
        3 => return Ok(None),
        4 | 6 if parse::is(args.at(3), "FULL") => {}
        _ => return Err(wrong()),
    }
    let Some(count) = args.get(5) else { return Ok(Some(FULL_COUNT)) };
    if !parse::is(args.at(4), "COUNT") {
        return Err(wrong());
    }
    let count = parse::integer(count)?;
    Ok(Some(match usize::try_from(count) {
        Ok(0) => usize::MAX,
        Ok(count) => count,
        Err(_) => FULL_COUNT,
    }))
}

pub(super) fn stream(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let now_ms = access.clock_ms();
    let stream = existing(access, args)?;
    let extent = stream.extent();
    if let Some(count) = parse_full(args)? {
        reply.map(9 + sent_len(stream));
        head(stream, &extent, now_ms, reply);
        full(stream, &extent, count, reply);
        return Ok(());
    }
    reply.map(10 + sent_len(stream));
    head(stream, &extent, now_ms, reply);
    reply.bulk(b"groups");
    unsigned(reply, stream.groups().len() as u64);
    let (first, last) = (stream.entries().next(), stream.range_reversed(StreamId::MIN, StreamId::MAX).next());
    for (name, entry) in [("first-entry", first), ("last-entry", last)] {
        reply.bulk(name.as_bytes());
        match entry {
            Some(entry) => reply_entry(reply, entry),
            None => reply.null(),
        }
    }
    Ok(())
}

fn full(stream: &Stream, extent: &Extent, count: usize, reply: &mut Reply) {
    reply.bulk(b"entries");
    reply_entries(reply, None, stream.entries().take(count));
    reply.bulk(b"groups");
    reply.array(stream.groups().len());
    for (name, group) in stream.groups() {
        let given_back = group.given_back_len();
        reply.map(if given_back == 0 { 7 } else { 8 });
        reply.bulk(b"name");
        reply.bulk(name);
        position(group, extent, reply);
        reply.bulk(b"pel-count");
        unsigned(reply, group.pending().len() as u64);
        if given_back > 0 {
            reply.bulk(b"nacked-count");
            unsigned(reply, given_back as u64);
        }
        reply.bulk(b"pending");
        full_pending(group, count, reply);
        reply.bulk(b"consumers");
        reply.array(group.consumers().len());
        for (id, consumer) in group.consumers() {
            full_consumer(group, (id, consumer), count, reply);
        }
    }
}

/// How far a group has come.
fn position(group: &Group, extent: &Extent, reply: &mut Reply) {
    reply.bulk(b"last-delivered-id");
    reply_id(reply, group.last_delivered);
    reply.bulk(b"entries-read");
    optional(reply, group.entries_read.map(|count| count as i64));
    reply.bulk(b"lag");
    optional(reply, extent.lag(group));
}

fn full_pending(group: &Group, count: usize, reply: &mut Reply) {
    reply.array(group.pending().len().min(count));
    for (id, pending) in group.pending().iter().take(count) {
        reply.array(4);
        reply_id(reply, id);
        reply.bulk(group.consumer(pending.consumer).map_or(b"", Consumer::name));
        reply.integer(pending.last_delivery_ms());
        unsigned(reply, pending.delivery_count);
    }
}

fn full_consumer(group: &Group, (_, consumer): (ConsumerId, &Consumer), count: usize, reply: &mut Reply) {
    reply.map(5);
    reply.bulk(b"name");
    reply.bulk(consumer.name());
    reply.bulk(b"seen-time");
    reply.integer(consumer.seen_at_ms);
    reply.bulk(b"active-time");
    reply.integer(consumer.active_at_ms);
    reply.bulk(b"pel-count");
    unsigned(reply, consumer.pending().len() as u64);
    reply.bulk(b"pending");
    reply.array(consumer.pending().len().min(count));
    for id in consumer.pending().ids().take(count) {
        let pending = group.pending().get(id);
        reply.array(3);
        reply_id(reply, id);
        reply.integer(pending.map_or(0, |pending| pending.delivered_at_ms));
        unsigned(reply, pending.map_or(0, |pending| pending.delivery_count));
    }
}

pub(super) fn groups(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let stream = existing(access, args)?;
    let extent = stream.extent();
    reply.array(stream.groups().len());
    for (name, group) in stream.groups() {
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(name);
        reply.bulk(b"consumers");
        unsigned(reply, group.consumers().len() as u64);
        reply.bulk(b"pending");
        unsigned(reply, group.pending().len() as u64);
        position(group, &extent, reply);
    }
    Ok(())
}

pub(super) fn consumers(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let now_ms = access.clock_ms();
    let stream = existing(access, args)?;
    let group = stream.group(args.at(3)).ok_or_else(|| no_group(args.at(2), args.at(3)))?;
    reply.array(group.consumers().len());
    for (_, consumer) in group.consumers() {
        let since = |time: i64| now_ms.saturating_sub(time).max(0);
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(consumer.name());
        reply.bulk(b"pending");
        unsigned(reply, consumer.pending().len() as u64);
        reply.bulk(b"idle");
        reply.integer(since(consumer.seen_at_ms));
        reply.bulk(b"inactive");
        reply.integer(if consumer.active_at_ms == -1 { -1 } else { since(consumer.active_at_ms) });
    }
    Ok(())
}

pub(super) fn help(_: &mut Access<'_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    const LINES: &[&str] = &[
        "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CONSUMERS <key> <group>",
        "    The consumers of a group.",
        "GROUPS <key>",
        "    The groups of a stream.",
        "STREAM <key> [FULL [COUNT <count>]]",
        "    A stream's numbers; with FULL also its entries, groups and consumers.",
        "HELP",
        "    This text.",
    ];
    reply.array(LINES.len());
    LINES.iter().for_each(|line| reply.simple(line));
    Ok(())
}
