//! XADD and XSETID.

use mantissa_protocol::{Args, Reply};
use mantissa_store::stream::{ENTRY_BYTES_MAX, Stream, StreamId, Trim};

use super::id::{IdText, NewId, parse_id, reply_id};
use super::node_limits;
use super::producers::Named;
use super::trim::{Options, Outcomes, trim};
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;

const ZERO_ID: Error = Error::fixed("ERR The ID specified in XADD must be greater than 0-0");
const EXHAUSTED: Error =
    Error::fixed("ERR The stream has exhausted the last possible ID, unable to add more items");
const NOT_ABOVE: Error =
    Error::fixed("ERR The ID specified in XADD is equal or smaller than the target stream top item");
const TOO_LARGE: Error = Error::fixed("ERR Elements are too large to be stored");

/// The identifier of a new entry.
fn next_id(stream: &Stream, wanted: NewId, now_ms: i64) -> Outcome<StreamId> {
    let last = stream.last_id;
    if last == StreamId::MAX {
        return Err(EXHAUSTED);
    }
    let now = u64::try_from(now_ms).unwrap_or(0);
    let id = match wanted {
        NewId::Given(id) => Some(id),
        NewId::Auto if now > last.ms => Some(StreamId { ms: now, seq: 0 }),
        NewId::Auto => last.next(),
        NewId::AutoSequence(ms) if ms == last.ms => last.seq.checked_add(1).map(|seq| StreamId { ms, seq }),
        NewId::AutoSequence(ms) => Some(StreamId { ms, seq: 0 }),
    };
    id.filter(|id| *id > last).ok_or(NOT_ABOVE)
}

pub(super) fn xadd(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let options = Options::parse(args, true, access)?;
    let key = args.at(1);
    let (wanted, at) = options.id.ok_or_else(|| Error::arity("xadd"))?;
    let pairs = args.from(at + 1);
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(Error::arity("xadd"));
    }
    if wanted == NewId::Given(StreamId::MIN) {
        return Err(ZERO_ID);
    }
    check_size(pairs)?;
    let (limits, now_ms, loaded) = (node_limits(access), access.clock_ms(), access.is_loading());
    let message = options.sender.map(|sender| sender.sends(pairs));
    let stream = if options.no_create {
        match access.stream_mut(key)? {
            Some(stream) => stream,
            None => {
                reply.null();
                return Ok(());
            }
        }
    } else {
        access.stream_or_new(key)?
    };
    if let Some(message) = &message
        && let Some(id) = message.known(stream, wanted, loaded, now_ms)
    {
        reply_id(reply, id);
        return message.repeated(access, key, id);
    }
    let id = next_id(stream, wanted, now_ms)?;
    let fields: Vec<_> =
        (0..pairs.len() / 2).map(|pair| (pairs.at(2 * pair), pairs.at(2 * pair + 1))).collect();
    stream.append(id, &fields, limits);
    reply_id(reply, id);
    let named = match message {
        Some(message) => Some(message.note(access, key, id)?),
        None => None,
    };
    access.signal(key);
    access.modified(key, EventClass::STREAM, "xadd");
    if let Some(plan) = &options.trim {
        trim(access, key, plan)?;
    }
    log_add(access, key, &options, id, pairs, named)
}

fn check_size(pairs: Args<'_>) -> Outcome {
    let bytes: usize = pairs.iter().map(<[u8]>::len).sum();
    if bytes > ENTRY_BYTES_MAX { Err(TOO_LARGE) } else { Ok(()) }
}

/// What depends on the time or on the nodes is logged as its outcome.
fn log_add(
    access: &mut Access<'_>,
    key: &[u8],
    options: &Options<'_>,
    id: StreamId,
    pairs: Args<'_>,
    named: Option<Named<'_>>,
) -> Outcome {
    let is_given = matches!(options.id, Some((NewId::Given(_), _)));
    let approximate = options.trim.filter(|trim: &Trim| trim.whole_nodes);
    if !access.logs() || (is_given && approximate.is_none()) {
        return Ok(());
    }
    let outcomes = match (options.trim, access.stream(key)?) {
        (Some(plan), Some(stream)) => Some(Outcomes::new(stream, &plan)),
        _ => None,
    };
    let text = IdText::new(id);
    let mut arguments: Vec<&[u8]> = vec![b"XADD", key];
    arguments.extend(named.iter().flat_map(Named::option));
    if let Some(outcomes) = &outcomes {
        arguments.extend(outcomes.arguments());
    }
    arguments.push(text.as_bytes());
    arguments.extend(pairs.iter());
    access.log_instead(&arguments);
    if let Some(named) = named {
        named.log_rest(access, key, id);
    }
    Ok(())
}

pub(super) fn xsetid(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let id = parse_id(args.at(2), 0)?;
    let (mut entries_added, mut max_deleted_id) = (None, None);
    let mut at = 3;
    while let Some(option) = args.get(at) {
        let value = args.get(at + 1).ok_or(Error::SYNTAX)?;
        if parse::is(option, "ENTRIESADDED") {
            let count = parse::integer(value)?;
            let negative = || Error::fixed("ERR entries_added must be positive");
            entries_added = Some(u64::try_from(count).map_err(|_| negative())?);
        } else if parse::is(option, "MAXDELETEDID") {
            let deleted = parse_id(value, 0)?;
            if id < deleted {
                return Err(Error::fixed(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
            max_deleted_id = Some(deleted);
        } else {
            return Err(Error::SYNTAX);
        }
        at += 2;
    }
    let key = args.at(1);
    let stream = access.stream_mut(key)?.ok_or(Error::NO_SUCH_KEY)?;
    set_id(stream, id, entries_added, max_deleted_id)?;
    access.count_changes(1);
    access.event(EventClass::STREAM, "xsetid", key);
    reply.ok();
    Ok(())
}

fn set_id(
    stream: &mut Stream,
    id: StreamId,
    entries_added: Option<u64>,
    max_deleted_id: Option<StreamId>,
) -> Outcome {
    if id < stream.max_deleted_id {
        return Err(Error::fixed(
            "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
        ));
    }
    if !stream.is_empty() {
        if id < stream.newest_id() {
            return Err(Error::fixed(
                "ERR The ID specified in XSETID is smaller than the target stream top item",
            ));
        }
        if entries_added.is_some_and(|count| count < stream.len()) {
            return Err(Error::fixed(
                "ERR The entries_added specified in XSETID is smaller than the target stream length",
            ));
        }
    }
    stream.last_id = id;
    if let Some(count) = entries_added {
        stream.entries_added = count;
    }
    if let Some(deleted) = max_deleted_id.filter(|deleted| *deleted != StreamId::MIN) {
        stream.max_deleted_id = deleted;
    }
    Ok(())
}
