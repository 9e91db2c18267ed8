//! XLEN, XRANGE, XREVRANGE.

use mantissa_protocol::packed::PackedWriter;
use mantissa_protocol::{Args, Reply};
use mantissa_store::Stream;
use mantissa_store::cold::{Elements, Interval};
use mantissa_store::stream::{Fields, NUMBER_TEXT_MAX, StreamEntry, StreamId, Text};

use super::id::{IdText, parse_interval};
use super::reply_entries;
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

pub(super) fn xlen(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let len = access.window::<Stream>(args.at(1))?.map_or(0, |stream| stream.len);
    reply.integer(i64::try_from(len).unwrap_or(i64::MAX));
    Ok(())
}

/// The options after the interval: how many entries at most, or all.
fn parse_count(args: Args<'_>) -> Outcome<Option<usize>> {
    let mut count = None;
    let mut at = 4;
    while let Some(option) = args.get(at) {
        let value = args.get(at + 1).filter(|_| parse::is(option, "COUNT")).ok_or(Error::SYNTAX)?;
        count = Some(usize::try_from(parse::integer(value)?).unwrap_or(0));
        at += 2;
    }
    Ok(count)
}

/// The interval and the options.
fn parse_range(args: Args<'_>, is_reversed: bool) -> Outcome<(StreamId, StreamId, Option<usize>)> {
    let (first, second) = (args.at(2), args.at(3));
    let (start, end) =
        if is_reversed { parse_interval(second, first) } else { parse_interval(first, second) }?;
    Ok((start, end, parse_count(args)?))
}

/// The entries that XRANGE or XREVRANGE reads.
fn entries_of(args: Args<'_>, is_reversed: bool) -> Option<Elements> {
    let (from, to, count) = parse_range(args, is_reversed).ok()?;
    let count = count.unwrap_or(usize::MAX);
    Some(Elements::Entries(Interval { from, to, count, is_reversed }))
}

pub(super) fn entries_of_xrange(args: Args<'_>) -> Option<Elements> {
    entries_of(args, false)
}

pub(super) fn entries_of_xrevrange(args: Args<'_>) -> Option<Elements> {
    entries_of(args, true)
}

/// Writes a value of a field.
fn pack_value(writer: &mut PackedWriter, value: Text<'_>) {
    /// The powers of ten that a double holds exactly: dividing by one rounds once.
    const TENS: [f64; 16] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    const EXACT_MAX: u64 = 1 << 53;
    match value {
        Text::Integer(integer) => writer.integer(integer),
        Text::Bytes(text) => writer.text(text),
        Text::Decimal(digits, places) => match TENS.get(usize::from(places)) {
            Some(power) if digits.unsigned_abs() <= EXACT_MAX && digits != 0 => {
                writer.number(digits as f64 / power);
            }
            _ => writer.text(value.bytes(&mut [0; NUMBER_TEXT_MAX])),
        },
    }
}

/// Writes entries, which all have the same fields: a row for each, whose name is its identifier.
fn pack_entries<'a>(writer: &mut PackedWriter, entries: impl Iterator<Item = StreamEntry<'a>>) -> Outcome {
    let mut before: Option<Fields<'a>> = None;
    for entry in entries {
        let text = IdText::new(entry.id);
        let id = text.as_bytes();
        // The entry before has the names of the first, and those of its own node are known by their place.
        match &before {
            Some(before) if before.has_names_of(&entry.fields) => {}
            None if name_columns(writer, &entry.fields) => {}
            _ => {
                return Err(Error::quoting(
                    "ERR entry ",
                    id,
                    " of the reply has other fields than the first",
                ));
            }
        }
        entry.fields.clone().for_each(|(_, value)| pack_value(writer, value));
        before = Some(entry.fields);
        writer.name(id);
        if writer.has_failed() {
            break;
        }
    }
    Ok(())
}

/// Names columns by fields. False if they are too many.
fn name_columns(writer: &mut PackedWriter, fields: &Fields<'_>) -> bool {
    let mut scratch = [0; NUMBER_TEXT_MAX];
    let names: Vec<Vec<u8>> = fields.clone().map(|(name, _)| name.bytes(&mut scratch).to_vec()).collect();
    writer.name_columns(names.iter().map(Vec::as_slice))
}

fn pack(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter, is_reversed: bool) -> Outcome {
    writer.set_named();
    let (start, end, count) = parse_range(args, is_reversed)?;
    let Some(stream) = access.stream(args.at(1))? else { return Ok(()) };
    let count = count.unwrap_or(usize::MAX);
    match is_reversed {
        false => pack_entries(writer, stream.range(start, end).take(count)),
        true => pack_entries(writer, stream.range_reversed(start, end).take(count)),
    }
}

pub(super) fn pack_xrange(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    pack(access, args, writer, false)
}

pub(super) fn pack_xrevrange(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    pack(access, args, writer, true)
}

fn range(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply, is_reversed: bool) -> Outcome {
    let (start, end, count) = parse_range(args, is_reversed)?;
    let Some(stream) = access.stream(args.at(1))? else {
        reply.array(0);
        return Ok(());
    };
    if count == Some(0) {
        reply.null_array();
        return Ok(());
    }
    let count = count.unwrap_or(usize::MAX);
    let is_whole = reply.has_sink() && start <= stream.first_id() && end >= stream.newest_id();
    let len = is_whole.then(|| count.min(stream.len() as usize));
    match is_reversed {
        false => reply_entries(reply, len, stream.range(start, end).take(count)),
        true => reply_entries(reply, len, stream.range_reversed(start, end).take(count)),
    }
    Ok(())
}

pub(super) fn xrange(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    range(access, args, reply, false)
}

pub(super) fn xrevrange(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    range(access, args, reply, true)
}
