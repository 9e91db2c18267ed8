//! XGROUP and XACK.

use mantissa_protocol::{Args, Reply};
use mantissa_store::Value;
use mantissa_store::stream::{Group, Stream, StreamId};

use super::id::{parse_id, parse_ids};
use super::{consumer_created, no_group};
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;

const KEY_MISSING: Error = Error::fixed(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the \
     MKSTREAM option to create an empty stream automatically.",
);
const GROUP_EXISTS: Error = Error::fixed("BUSYGROUP Consumer Group name already exists");

/// Options of XGROUP CREATE and XGROUP SETID.
struct Options {
    make_stream: bool,
    entries_read: Option<u64>,
}

impl Options {
    fn parse(args: Args<'_>, creates: bool) -> Outcome<Self> {
        let mut options = Options { make_stream: false, entries_read: None };
        let mut at = 5;
        while let Some(option) = args.get(at) {
            match args.get(at + 1) {
                _ if creates && parse::is(option, "MKSTREAM") => {
                    options.make_stream = true;
                    at += 1;
                }
                Some(count) if parse::is(option, "ENTRIESREAD") => {
                    let count = parse::integer(count)?;
                    if count < -1 {
                        return Err(Error::fixed("ERR value for ENTRIESREAD must be positive or -1"));
                    }
                    options.entries_read = u64::try_from(count).ok();
                    at += 2;
                }
                _ => return Err(subcommand_error("XGROUP", args.at(1))),
            }
        }
        Ok(options)
    }
}

/// The error for options that a subcommand does not have.
pub(super) fn subcommand_error(command: &str, subcommand: &[u8]) -> Error {
    let after = format!("'. Try {command} HELP.");
    Error::quoting("ERR unknown subcommand or wrong number of arguments for '", subcommand, &after)
}

/// Options may come twice, but not in any number.
fn check_len(args: Args<'_>, len_max: usize) -> Outcome {
    if args.len() > len_max { Err(subcommand_error("XGROUP", args.at(1))) } else { Ok(()) }
}

/// Where a group is to stand.
fn position(stream: Option<&Stream>, text: &[u8]) -> Outcome<StreamId> {
    match text {
        b"$" => Ok(stream.map_or(StreamId::MIN, |stream| stream.last_id)),
        text => parse_id(text, 0),
    }
}

/// The stream at the command's key, which has to be there.
fn existing<'a>(access: &'a mut Access<'_>, args: Args<'_>) -> Outcome<&'a mut Stream> {
    access.stream_mut(args.at(2))?.ok_or(KEY_MISSING)
}

/// The command's group, which has to be there, with its stream's key.
fn existing_group<'a>(access: &'a mut Access<'_>, args: Args<'_>) -> Outcome<&'a mut Group> {
    let missing = || no_group(args.at(2), args.at(3));
    existing(access, args)?.group_mut(args.at(3)).ok_or_else(missing)
}

pub(super) fn create(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let options = Options::parse(args, true)?;
    let (key, name) = (args.at(2), args.at(3));
    let stream = access.collection_to_write::<Stream>(key)?;
    if stream.is_none() && !options.make_stream {
        return Err(KEY_MISSING);
    }
    check_len(args, 8)?;
    let is_new = stream.is_none();
    let id = position(stream, args.at(4))?;
    let stream = access.stream_or_new(key)?;
    let entries_read = options.entries_read.map(|count| count.min(stream.entries_added));
    if !stream.add_group(name, Group::new(id, entries_read)) {
        return Err(GROUP_EXISTS);
    }
    if is_new {
        access.changed_by(key, 0);
    }
    access.count_changes(1);
    access.event(EventClass::STREAM, "xgroup-create", key);
    reply.ok();
    Ok(())
}

pub(super) fn set_id(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let options = Options::parse(args, false)?;
    existing_group(access, args)?;
    check_len(args, 7)?;
    let stream = existing(access, args)?;
    let id = match args.at(4) {
        b"-" => StreamId::MIN,
        b"+" => StreamId::MAX,
        text => position(Some(stream), text)?,
    };
    let entries_read = options.entries_read.map(|count| count.min(stream.entries_added));
    if let Some(group) = stream.group_mut(args.at(3)) {
        group.last_delivered = id;
        group.entries_read = entries_read;
    }
    access.count_changes(1);
    access.event(EventClass::STREAM, "xgroup-setid", args.at(2));
    reply.ok();
    Ok(())
}

pub(super) fn destroy(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, name) = (args.at(2), args.at(3));
    let Some(group) = existing(access, args)?.remove_group(name) else {
        reply.integer(0);
        return Ok(());
    };
    if group.pending().len() > 64 {
        // What takes long to free goes as a stream of its own.
        let mut rest = Stream::new();
        rest.add_group(name, group);
        access.free_later(Value::Stream(rest));
    }
    access.count_changes(1);
    access.event(EventClass::STREAM, "xgroup-destroy", key);
    access.signal(key);
    reply.integer(1);
    Ok(())
}

pub(super) fn create_consumer(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let now_ms = access.clock_ms();
    let is_new = existing_group(access, args)?.add_consumer(args.at(4), now_ms, -1).is_some();
    if is_new {
        consumer_created(access, args.at(2), args.at(3), args.at(4));
    }
    reply.integer(i64::from(is_new));
    Ok(())
}

pub(super) fn delete_consumer(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let removed = existing_group(access, args)?.remove_consumer(args.at(4));
    if removed.is_some() {
        access.count_changes(1);
        access.event(EventClass::STREAM, "xgroup-delconsumer", args.at(2));
    }
    reply.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

pub(super) fn help(_: &mut Access<'_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    const LINES: &[&str] = &[
        "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CREATE <key> <group> <id|$> [MKSTREAM] [ENTRIESREAD <count>]",
        "    Make a group that begins after an entry; MKSTREAM makes the stream if need be,",
        "    ENTRIESREAD says how many entries the group has read by then.",
        "CREATECONSUMER <key> <group> <consumer>",
        "    Make a consumer.",
        "DELCONSUMER <key> <group> <consumer>",
        "    Remove a consumer with what is pending for it.",
        "DESTROY <key> <group>",
        "    Remove a group.",
        "SETID <key> <group> <id|$> [ENTRIESREAD <count>]",
        "    Move a group to another entry.",
        "HELP",
        "    This text.",
    ];
    reply.array(LINES.len());
    LINES.iter().for_each(|line| reply.simple(line));
    Ok(())
}

pub(super) fn xack(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, name) = (args.at(1), args.at(2));
    access.stream(key)?;
    let Some(group) = access.stream_mut(key)?.and_then(|stream| stream.group_mut(name)) else {
        reply.integer(0);
        return Ok(());
    };
    let ids = parse_ids(args.from(3).iter())?;
    let count = ids.into_iter().filter(|&id| group.acknowledge(id).is_some()).count();
    access.count_changes(count as u64);
    reply.integer(count as i64);
    Ok(())
}
