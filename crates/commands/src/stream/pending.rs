//! XPENDING: the entries of a group that were delivered and not acknowledged.

use mantissa_protocol::{Args, Reply};
use mantissa_store::stream::{Consumer, Group, Pending, StreamId};

use super::id::{parse_interval, reply_id};
use super::info::unsigned;
use super::no_key_or_group;
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

/// Shown as the idle time of an entry that was given back.
const GIVEN_BACK_IDLE_MS: i64 = -1;

/// Which pending entries to list.
struct Filter<'a> {
    idle_ms_min: i64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> Filter<'a> {
    fn parse(args: Args<'a>) -> Outcome<Option<Self>> {
        if args.len() == 3 {
            return Ok(None);
        }
        if !(6..=9).contains(&args.len()) {
            return Err(Error::SYNTAX);
        }
        let (mut at, mut idle_ms_min) = (3, 0);
        if parse::is(args.at(3), "IDLE") {
            idle_ms_min = parse::integer(args.at(4))?;
            if args.len() < 8 {
                return Err(Error::SYNTAX);
            }
            at = 5;
        }
        let count = usize::try_from(parse::integer(args.at(at + 2))?).unwrap_or(0);
        let (start, end) = parse_interval(args.at(at), args.at(at + 1))?;
        Ok(Some(Filter { idle_ms_min, start, end, count, consumer: args.get(at + 3) }))
    }
}

fn idle_ms(pending: &Pending, now_ms: i64) -> i64 {
    now_ms.saturating_sub(pending.delivered_at_ms).max(0)
}

fn summarize(group: &Group, reply: &mut Reply) {
    reply.array(4);
    reply.integer(group.pending().len() as i64);
    let (Some(first), Some(last)) = (group.pending().first_id(), group.pending().last_id()) else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    reply_id(reply, first);
    reply_id(reply, last);
    let header = reply.defer();
    let mut count = 0;
    for (_, consumer) in group.consumers().filter(|(_, consumer)| !consumer.pending().is_empty()) {
        reply.array(2);
        reply.bulk(consumer.name());
        reply.bulk_integer(consumer.pending().len() as i64);
        count += 1;
    }
    reply.finish_array(header, count);
}

fn list(group: &Group, filter: &Filter<'_>, now_ms: i64, reply: &mut Reply) {
    let header = reply.defer();
    let mut count = 0;
    let mut show = |id: StreamId, pending: &Pending| {
        let given_back = pending.is_given_back();
        let idle = if given_back { GIVEN_BACK_IDLE_MS } else { idle_ms(pending, now_ms) };
        if !given_back && idle < filter.idle_ms_min {
            return true;
        }
        reply.array(4);
        reply_id(reply, id);
        reply.bulk(group.consumer(pending.consumer).map_or(b"", Consumer::name));
        reply.integer(idle);
        unsigned(reply, pending.delivery_count);
        count += 1;
        count < filter.count
    };
    let interval = filter.start..=filter.end;
    let wanted = filter.count > 0 && filter.start <= filter.end;
    match filter.consumer.map(|name| group.find_consumer(name).and_then(|id| group.consumer(id))) {
        _ if !wanted => {}
        None => {
            let _ = group.pending().range(interval).all(|(id, pending)| show(id, &pending));
        }
        Some(None) => {}
        Some(Some(consumer)) => {
            let mut held = consumer.pending().range(interval);
            let _ = held.all(|(id, ())| group.pending().get(id).is_none_or(|pending| show(id, &pending)));
        }
    }
    reply.finish_array(header, count);
}

pub(super) fn xpending(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let filter = Filter::parse(args)?;
    let (key, name) = (args.at(1), args.at(2));
    let group = access.stream(key)?.and_then(|stream| stream.group(name));
    let group = group.ok_or_else(|| no_key_or_group(key, name))?;
    match filter {
        None => summarize(group, reply),
        Some(filter) => list(group, &filter, access.clock_ms(), reply),
    }
    Ok(())
}
