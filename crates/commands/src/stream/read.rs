//! XREAD and XREADGROUP: what to read from where.

use mantissa_protocol::{Args, OwnedArgs, Reply};
use mantissa_store::Kind;
use mantissa_store::stream::{Stream, StreamId};

use super::deliver::{Reader, Room, deliver, history};
use super::id::{IdText, parse_id};
use super::{error_naming, reply_entry};
use crate::access::Access;
use crate::effects::TimeoutReply;
use crate::error::{Error, Outcome};
use crate::parse;

const TIMEOUT_NOT_INTEGER: &str = "ERR timeout is not an integer or out of range";
const TIMEOUT_OUT_OF_RANGE: Error = Error::fixed("ERR timeout is out of range");
const GROUP_MISSING: Error = Error::fixed("ERR Missing GROUP option for XREADGROUP");
const GROUP_OF_XREAD: Error =
    Error::fixed("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.");
const NOACK_OF_XREAD: Error =
    Error::fixed("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.");
const CLAIM_OF_XREAD: Error =
    Error::fixed("ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.");
const CLAIM_NOT_INTEGER: &str = "ERR min-idle-time is not an integer or out of range";
const CLAIM_NEGATIVE: Error = Error::fixed("ERR min-idle-time must be a positive integer");
const MAXCOUNT_NOT_POSITIVE: Error = Error::fixed("ERR MAXCOUNT must be a positive integer");
const MAXSIZE_NOT_POSITIVE: Error = Error::fixed("ERR MAXSIZE must be a positive integer");
const MAXCOUNT_BELOW_COUNT: Error = Error::fixed("ERR MAXCOUNT must be greater than or equal to COUNT");
const NEW_OF_XREAD: Error = Error::fixed(
    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
);

/// What the header of a short array takes.
const ARRAY_HEADER_BYTES: usize = "*0\r\n".len();

/// The options, and where the keys and identifiers are.
struct Plan<'a> {
    /// Most entries of one stream.
    count: usize,
    /// Most entries of all streams.
    count_max: usize,
    /// Bytes of the reply from which on no entry comes in, but for the first.
    bytes_max: usize,
    /// Whether to wait, and until when: Unix time in ms, or for ever.
    wait: Option<Option<i64>>,
    /// Where the keys begin; as many identifiers follow them.
    first_key: usize,
    key_count: usize,
    /// Group and consumer.
    reader: Option<Reader<'a>>,
}

/// Where reading a stream begins.
#[derive(Clone, Copy)]
enum From {
    /// After this entry.
    After(StreamId),
    /// At the last one, if there is any; at what comes otherwise.
    Last,
    /// With what the group has not been delivered yet.
    New,
}

fn timeout(argument: &[u8], now_ms: i64) -> Outcome<Option<i64>> {
    let ms = parse::integer_or(argument, TIMEOUT_NOT_INTEGER)?;
    match ms {
        ..0 => Err(Error::TIMEOUT_NEGATIVE),
        0 => Ok(None),
        ms => now_ms.checked_add(ms).map(Some).ok_or(TIMEOUT_OUT_OF_RANGE),
    }
}

fn positive(argument: &[u8], otherwise: Error) -> Outcome<usize> {
    let number = usize::try_from(parse::integer(argument)?).unwrap_or(0);
    if number == 0 { Err(otherwise) } else { Ok(number) }
}

/// How long entries have to be pending for CLAIM, in ms.
fn idle_time(argument: &[u8], is_group: bool) -> Outcome<i64> {
    if !is_group {
        return Err(CLAIM_OF_XREAD);
    }
    let ms = parse::integer_or(argument, CLAIM_NOT_INTEGER)?;
    if ms < 0 { Err(CLAIM_NEGATIVE) } else { Ok(ms) }
}

impl<'a> Plan<'a> {
    fn parse(args: Args<'a>, is_group: bool, now_ms: i64) -> Outcome<Self> {
        let (count, count_max, bytes_max) = (usize::MAX, usize::MAX, usize::MAX);
        let mut plan =
            Plan { count, count_max, bytes_max, wait: None, first_key: 0, key_count: 0, reader: None };
        let (mut names, mut no_ack, mut claim_ms) = (None, false, None);
        let mut at = 1;
        while let Some(option) = args.get(at) {
            match args.get(at + 1) {
                Some(value) if parse::is(option, "BLOCK") => {
                    plan.wait = Some(timeout(value, now_ms)?);
                    at += 2;
                }
                Some(value) if parse::is(option, "COUNT") => {
                    let count = usize::try_from(parse::integer(value)?).unwrap_or(0);
                    plan.count = if count == 0 { usize::MAX } else { count };
                    at += 2;
                }
                Some(value) if parse::is(option, "MAXCOUNT") => {
                    plan.count_max = positive(value, MAXCOUNT_NOT_POSITIVE)?;
                    at += 2;
                }
                Some(value) if parse::is(option, "MAXSIZE") => {
                    plan.bytes_max = positive(value, MAXSIZE_NOT_POSITIVE)?;
                    at += 2;
                }
                Some(value) if parse::is(option, "CLAIM") => {
                    claim_ms = Some(idle_time(value, is_group)?);
                    at += 2;
                }
                Some(_) if parse::is(option, "STREAMS") => {
                    plan.streams(args, at + 1, is_group)?;
                    break;
                }
                Some(group) if parse::is(option, "GROUP") && at + 2 < args.len() => {
                    if !is_group {
                        return Err(GROUP_OF_XREAD);
                    }
                    names = Some((group, args.at(at + 2)));
                    at += 3;
                }
                _ if parse::is(option, "NOACK") => {
                    if !is_group {
                        return Err(NOACK_OF_XREAD);
                    }
                    no_ack = true;
                    at += 1;
                }
                _ => return Err(Error::SYNTAX),
            }
        }
        if plan.first_key == 0 {
            return Err(Error::SYNTAX);
        }
        plan.reader = names.map(|(group, consumer)| Reader { group, consumer, no_ack, claim_ms });
        if is_group && plan.reader.is_none() {
            return Err(GROUP_MISSING);
        }
        if plan.count != usize::MAX && plan.count_max < plan.count {
            return Err(MAXCOUNT_BELOW_COUNT);
        }
        Ok(plan)
    }

    fn streams(&mut self, args: Args<'_>, first_key: usize, is_group: bool) -> Outcome {
        let left = args.len() - first_key;
        if !left.is_multiple_of(2) {
            let (command, choice) =
                if is_group { ("xreadgroup", " or '>'") } else { ("xread", ", '+', or '$'") };
            return Err(Error::new(format!(
                "ERR Unbalanced '{command}' list of streams: for each stream key an ID{choice} must be \
                 specified."
            )));
        }
        (self.first_key, self.key_count) = (first_key, left / 2);
        Ok(())
    }
}

/// Where to begin with one stream.
fn parse_from(access: &Access<'_>, key: &[u8], text: &[u8], reader: Option<&Reader<'_>>) -> Outcome<From> {
    let stream = access.stream(key)?;
    if let Some(reader) = reader
        && stream.is_none_or(|stream| stream.group(reader.group).is_none())
        && access.is_locked(key)
    {
        return Err(error_naming([
            b"NOGROUP No such key '",
            key,
            b"' or consumer group '",
            reader.group,
            b"' in XREADGROUP with GROUP option",
        ]));
    }
    match (text, reader) {
        (b"$" | b"+", Some(_)) => {
            let special = char::from(text[0]);
            Err(Error::new(format!(
                "ERR The {special} ID is meaningless in the context of XREADGROUP: you want to read the \
                 history of this consumer by specifying a proper ID, or use the > ID to get new messages. \
                 The {special} ID would just return an empty result set."
            )))
        }
        (b"$", None) => Ok(From::After(stream.map_or(StreamId::MIN, |stream| stream.last_id))),
        (b"+", None) => Ok(From::Last),
        (b">", None) => Err(NEW_OF_XREAD),
        (b">", Some(_)) => Ok(From::New),
        (text, Some(_)) => Ok(match parse_id(text, 0)? {
            // Redis takes the largest identifier for the same as `>`.
            StreamId::MAX => From::New,
            id => From::After(id),
        }),
        (text, None) => parse_id(text, 0).map(From::After),
    }
}

/// Replies the header of one stream's part.
fn begin_stream(reply: &mut Reply, key: &[u8]) {
    if !reply.is_resp3() {
        reply.array(2);
    }
    reply.bulk(key);
}

/// Reads one stream without a group. Returns the number of entries, if it has any.
fn read_stream(
    access: &Access<'_>,
    reply: &mut Reply,
    key: &[u8],
    from: From,
    room: Room,
) -> Outcome<Option<usize>> {
    let Some(stream) = access.stream(key)? else { return Ok(None) };
    let start = match from {
        From::After(id) => id.next(),
        _ => Some(stream.newest_id()),
    };
    let Some(start) = start.filter(|start| *start <= stream.last_id) else { return Ok(None) };
    let mut entries = stream.range(start, StreamId::MAX);
    let begin = reply.len();
    begin_stream(reply, key);
    let header = reply.defer();
    let mut count = 0;
    while !room.is_full(reply, count)
        && let Some(entry) = entries.next()
    {
        reply_entry(reply, entry);
        count += 1;
    }
    if count == 0 {
        reply.truncate(begin);
        return Ok(None);
    }
    reply.finish_array(header, count);
    Ok(Some(count))
}

/// Reads one stream for a consumer. Returns the number of entries, unless it has nothing.
fn read_for(
    access: &mut Access<'_>,
    reply: &mut Reply,
    key: &[u8],
    from: From,
    (reader, room): (&Reader<'_>, Room),
) -> Outcome<Option<usize>> {
    // A second lookup, which counts in Redis too.
    access.stream(key)?;
    match from {
        From::After(id) => {
            begin_stream(reply, key);
            history(access, reply, key, reader, (id, room)).map(Some)
        }
        _ => deliver(access, reply, key, reader, room, begin_stream),
    }
}

fn read(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply, is_group: bool) -> Outcome {
    let plan = Plan::parse(args, is_group, access.clock_ms())?;
    let key = |index: usize| args.at(plan.first_key + index);
    let reader = plan.reader.as_ref();
    let mut starts = Vec::with_capacity(plan.key_count);
    for index in 0..plan.key_count {
        let text = args.at(plan.first_key + plan.key_count + index);
        starts.push(parse_from(access, key(index), text, reader)?);
    }
    let begin = reply.len();
    let header = reply.defer();
    // Redis does not count the header of the reply, nor that of the stream being read.
    let end = reply.len().saturating_add(plan.bytes_max);
    let (mut served, mut count) = (0, 0);
    for (index, &from) in starts.iter().enumerate() {
        if count >= plan.count_max || count > 0 && reply.len() >= end {
            break;
        }
        let end = end.saturating_add(ARRAY_HEADER_BYTES);
        let room = Room { count: plan.count.min(plan.count_max - count), end, has_entries: count > 0 };
        let entries = match reader {
            None => read_stream(access, reply, key(index), from, room)?,
            Some(reader) => read_for(access, reply, key(index), from, (reader, room))?,
        };
        served += usize::from(entries.is_some());
        count += entries.unwrap_or(0);
    }
    if served > 0 {
        if reply.is_resp3() {
            reply.finish_map(header, served);
        } else {
            reply.finish_array(header, served);
        }
        return Ok(());
    }
    reply.truncate(begin);
    match plan.wait {
        None => reply.null_array(),
        Some(deadline) => wait(access, args, reply, &plan, (&starts, deadline)),
    }
    Ok(())
}

fn wait(
    access: &mut Access<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    plan: &Plan<'_>,
    (starts, deadline): (&[From], Option<i64>),
) {
    let keys = args.range(plan.first_key..plan.first_key + plan.key_count);
    access.block(reply, (Kind::Stream, keys), None, deadline, TimeoutReply::NullArray);
    let instead = plan.reader.is_none().then(|| with_fixed_starts(args, plan, starts)).flatten();
    let again_at_ms = plan.reader.as_ref().and_then(|reader| next_claim(access, reader, keys));
    if let Some(blocking) = access.blocking_mut() {
        blocking.on_loss = plan.reader.is_some();
        blocking.instead = instead;
        blocking.again_at_ms = again_at_ms;
    }
}

/// When an entry may have been pending for long enough that a reader waits to claim it. Nothing is known
/// while some of the keys are not locked.
fn next_claim(access: &Access<'_>, reader: &Reader<'_>, keys: Args<'_>) -> Option<i64> {
    let claim_ms = reader.claim_ms?;
    if !keys.iter().all(|key| access.is_locked(key)) {
        return None;
    }
    let oldest = |key| {
        let group = access.collection_to_write::<Stream>(key).ok()??.group(reader.group)?;
        group.by_age().next().map(|(_, pending)| pending.last_delivery_ms())
    };
    // What is delivered from now on is claimed no earlier than this.
    let first = keys.iter().filter_map(oldest).min().unwrap_or(access.clock_ms());
    Some(first.saturating_add(claim_ms))
}

/// The command with `$` replaced by what it meant when the client began to wait.
fn with_fixed_starts(args: Args<'_>, plan: &Plan<'_>, starts: &[From]) -> Option<OwnedArgs> {
    let first_id = plan.first_key + plan.key_count;
    if !args.from(first_id).iter().any(|text| text == b"$") {
        return None;
    }
    let fixed: Vec<Vec<u8>> = std::iter::zip(args.from(first_id).iter(), starts)
        .map(|(text, from)| match from {
            From::After(id) => IdText::new(*id).as_bytes().to_vec(),
            _ => text.to_vec(),
        })
        .collect();
    let all: Vec<&[u8]> = args.range(0..first_id).iter().chain(fixed.iter().map(|text| &text[..])).collect();
    Some(OwnedArgs::from_slices(&all))
}

pub(super) fn xread(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    read(access, args, reply, false)
}

pub(super) fn xreadgroup(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    read(access, args, reply, true)
}
