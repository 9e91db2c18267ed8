//! XCLAIM and XAUTOCLAIM: pending entries change hands.

use mantissa_protocol::{Args, Reply};
use mantissa_store::stream::{ConsumerId, Group, Pending, Stream, StreamId};

use super::deliver::{log_claim, log_position};
use super::id::{IdText, parse_id, parse_start, reply_id};
use super::{consumer_created, consumer_seen, no_key_or_group, reply_entry};
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

/// XAUTOCLAIM looks at this many pending entries for each that it is asked for.
const ATTEMPTS_PER_ENTRY: u64 = 10;
/// More cannot be asked for.
const AUTO_COUNT_MAX: i64 = i64::MAX / 16;
/// Redis allocates the whole reply at once, which fails beyond some amount.
const AUTO_COUNT_SENSIBLE: u64 = 1 << 40;
const COUNT_TOO_HIGH: Error =
    Error::fixed("ERR Insufficient memory, failed allocating transient memory, COUNT too high.");

/// How XCLAIM changes what it claims.
struct Options {
    idle_ms_min: i64,
    ids: Vec<StreamId>,
    delivered_at_ms: i64,
    delivery_count: Option<u64>,
    force: bool,
    just_ids: bool,
    last_id: Option<StreamId>,
}

fn idle_ms_min(argument: &[u8], error: &'static str) -> Outcome<i64> {
    Ok(parse::integer_or(argument, error)?.max(0))
}

impl Options {
    fn parse(args: Args<'_>, now_ms: i64) -> Outcome<Self> {
        let idle_ms_min = idle_ms_min(args.at(4), "ERR Invalid min-idle-time argument for XCLAIM")?;
        let ids: Vec<_> = args.from(5).iter().map_while(|text| parse_id(text, 0).ok()).collect();
        let mut at = 5 + ids.len();
        let mut options = Options {
            idle_ms_min,
            ids,
            delivered_at_ms: now_ms,
            delivery_count: None,
            force: false,
            just_ids: false,
            last_id: None,
        };
        while let Some(option) = args.get(at) {
            at += options.option(option, args.get(at + 1), now_ms)?;
        }
        // A time to come would never become idle; one before all times means nothing.
        if !(0..=now_ms).contains(&options.delivered_at_ms) {
            options.delivered_at_ms = now_ms;
        }
        Ok(options)
    }

    /// Reads one option and returns how many arguments it takes.
    fn option(&mut self, option: &[u8], value: Option<&[u8]>, now_ms: i64) -> Outcome<usize> {
        match value {
            _ if parse::is(option, "FORCE") => self.force = true,
            _ if parse::is(option, "JUSTID") => self.just_ids = true,
            Some(value) => {
                if parse::is(option, "IDLE") {
                    let idle = parse::integer_or(value, "ERR Invalid IDLE option argument for XCLAIM")?;
                    self.delivered_at_ms = now_ms.wrapping_sub(idle);
                } else if parse::is(option, "TIME") {
                    self.delivered_at_ms =
                        parse::integer_or(value, "ERR Invalid TIME option argument for XCLAIM")?;
                } else if parse::is(option, "RETRYCOUNT") {
                    let count =
                        parse::integer_or(value, "ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
                    self.delivery_count = u64::try_from(count).ok();
                } else if parse::is(option, "LASTID") {
                    self.last_id = Some(parse_id(value, 0)?);
                } else {
                    return Err(unknown_option(option));
                }
                return Ok(2);
            }
            None => return Err(unknown_option(option)),
        }
        Ok(1)
    }
}

fn unknown_option(option: &[u8]) -> Error {
    Error::quoting("ERR Unrecognized XCLAIM option '", option, "'")
}

/// A claim that took effect, for the log.
struct Claimed {
    id: StreamId,
    /// `None` if the entry was gone and is no longer pending.
    pending: Option<Pending>,
}

/// Replies an entry, or just its identifier.
fn reply_claimed(stream: &Stream, reply: &mut Reply, id: StreamId, just_ids: bool) {
    match stream.get(id).filter(|_| !just_ids) {
        Some(entry) => reply_entry(reply, entry),
        None => reply_id(reply, id),
    }
}

fn has_group(access: &Access<'_>, key: &[u8], name: &[u8]) -> Outcome {
    let group = access.stream(key)?.and_then(|stream| stream.group(name));
    group.map(|_| ()).ok_or_else(|| no_key_or_group(key, name))
}

/// The consumer that claims, which is made if need be.
fn claimant(access: &mut Access<'_>, args: Args<'_>) -> Outcome<Option<ConsumerId>> {
    let (key, name, consumer) = (args.at(1), args.at(2), args.at(3));
    let now_ms = access.clock_ms();
    let group = access.stream_mut(key)?.and_then(|stream| stream.group_mut(name));
    let Some((id, is_new)) = group.and_then(|group| consumer_seen(group, consumer, now_ms)) else {
        return Ok(None);
    };
    if is_new {
        consumer_created(access, key, name, consumer);
    }
    Ok(Some(id))
}

/// Claims one entry if it may be. The first `Option` is whether anything happened to it.
fn claim(
    stream: &mut Stream,
    name: &[u8],
    id: StreamId,
    options: &Options,
    (consumer, now_ms): (ConsumerId, i64),
) -> Option<Claimed> {
    let is_there = stream.contains(id);
    let group = stream.group_mut(name)?;
    if !is_there {
        return group.acknowledge(id).map(|_| Claimed { id, pending: None });
    }
    let before = group.pending().get(id);
    if before.is_none() && !options.force {
        return None;
    }
    let is_busy = |before: Pending| {
        !before.is_given_back() && now_ms.saturating_sub(before.delivered_at_ms) < options.idle_ms_min
    };
    if options.idle_ms_min > 0 && before.is_some_and(is_busy) {
        return None;
    }
    let first = match before {
        None => 1,
        Some(before) if options.just_ids => before.delivery_count,
        Some(before) => before.delivery_count_after(),
    };
    let pending = Pending {
        consumer,
        delivered_at_ms: options.delivered_at_ms,
        delivery_count: options.delivery_count.unwrap_or(first),
    };
    take(group, id, pending, now_ms);
    Some(Claimed { id, pending: Some(pending) })
}

fn take(group: &mut Group, id: StreamId, pending: Pending, now_ms: i64) {
    group.assign(id, pending);
    group.set_active(pending.consumer, now_ms);
}

pub(super) fn xclaim(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, name) = (args.at(1), args.at(2));
    has_group(access, key, name)?;
    let now_ms = access.clock_ms();
    let options = Options::parse(args, now_ms)?;
    let Some(consumer) = claimant(access, args)? else { return Ok(()) };
    let Some(stream) = access.stream_mut(key)? else { return Ok(()) };
    let mut moves = false;
    if let (Some(last_id), Some(group)) = (options.last_id, stream.group_mut(name)) {
        moves = last_id > group.last_delivered;
        group.last_delivered = group.last_delivered.max(last_id);
    }
    let mut all = Vec::new();
    let header = reply.defer();
    let mut count = 0;
    for &id in &options.ids {
        let Some(claimed) = claim(stream, name, id, &options, (consumer, now_ms)) else { continue };
        if claimed.pending.is_some() {
            reply_claimed(stream, reply, id, options.just_ids);
            count += 1;
        }
        all.push(claimed);
    }
    reply.finish_array(header, count);
    if count > 0 && options.delivered_at_ms < now_ms {
        // Who waits to claim an entry may do so now.
        access.signal(key);
    }
    log_claims(access, args, &all)?;
    if moves {
        access.count_changes(u64::from(all.is_empty()));
        log_position(access, key, name)?;
    }
    Ok(())
}

fn log_claims(access: &mut Access<'_>, args: Args<'_>, all: &[Claimed]) -> Outcome {
    access.count_changes(all.len() as u64);
    access.log_nothing();
    if !access.logs() {
        return Ok(());
    }
    let (key, name, consumer) = (args.at(1), args.at(2), args.at(3));
    for Claimed { id, pending } in all {
        match pending {
            Some(pending) => {
                let time = pending.delivered_at_ms.to_string();
                log_claim(access, key, (name, consumer), *id, (&time, pending.delivery_count));
            }
            None => access.log_instead(&[b"XACK", key, name, IdText::new(*id).as_bytes()]),
        }
    }
    Ok(())
}

/// Options of XAUTOCLAIM after where it begins: how many entries, and whether only their identifiers.
fn parse_auto(args: Args<'_>) -> Outcome<(u64, bool)> {
    let (mut count, mut just_ids) = (100, false);
    let mut at = 6;
    while let Some(option) = args.get(at) {
        match args.get(at + 1) {
            Some(value) if parse::is(option, "COUNT") => {
                count = parse::integer_in(value, 1, AUTO_COUNT_MAX, "ERR COUNT must be > 0")?;
                at += 2;
            }
            _ if parse::is(option, "JUSTID") => {
                just_ids = true;
                at += 1;
            }
            _ => return Err(Error::SYNTAX),
        }
    }
    Ok((count as u64, just_ids))
}

pub(super) fn xautoclaim(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, name) = (args.at(1), args.at(2));
    // The key is looked up before the arguments are read.
    let group = has_group(access, key, name);
    let idle_ms_min = idle_ms_min(args.at(4), "ERR Invalid min-idle-time argument for XAUTOCLAIM")?;
    let start = parse_start(args.at(5))?;
    let (mut count, just_ids) = parse_auto(args)?;
    group?;
    if count > AUTO_COUNT_SENSIBLE {
        return Err(COUNT_TOO_HIGH);
    }
    let Some(consumer) = claimant(access, args)? else { return Ok(()) };
    let now_ms = access.clock_ms();
    let Some(stream) = access.stream_mut(key)? else { return Ok(()) };
    let mut attempts = count.saturating_mul(ATTEMPTS_PER_ENTRY);
    let options = Options {
        idle_ms_min,
        ids: Vec::new(),
        delivered_at_ms: now_ms,
        delivery_count: None,
        force: false,
        just_ids,
        last_id: None,
    };
    reply.array(3);
    let mut all = Vec::new();
    let mut entries = reply.part();
    let mut next = first_pending(stream, name, start);
    while let Some(id) = next.filter(|_| attempts > 0 && count > 0) {
        attempts -= 1;
        next = id.next().and_then(|start| first_pending(stream, name, start));
        let Some(claimed) = claim(stream, name, id, &options, (consumer, now_ms)) else { continue };
        count -= 1;
        if claimed.pending.is_some() {
            reply_claimed(stream, &mut entries, id, just_ids);
        }
        all.push(claimed);
    }
    reply_id(reply, next.unwrap_or(StreamId::MIN));
    reply.array(all.iter().filter(|claimed| claimed.pending.is_some()).count());
    reply.append(&entries);
    let gone: Vec<_> = all.iter().filter(|claimed| claimed.pending.is_none()).collect();
    reply.array(gone.len());
    gone.iter().for_each(|claimed| reply_id(reply, claimed.id));
    log_claims(access, args, &all)
}

/// The first pending entry from `start` on.
fn first_pending(stream: &Stream, name: &[u8], start: StreamId) -> Option<StreamId> {
    stream.group(name)?.pending().range(start..).next().map(|(id, _)| id)
}
