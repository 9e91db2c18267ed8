//! XLEN, XRANGE, XREVRANGE.

use mantissa_protocol::{Args, Reply};

use super::id::parse_interval;
use super::reply_entries;
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

pub(super) fn xlen(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let length = access.stream(args.at(1))?.map_or(0, |stream| stream.len());
    reply.integer(i64::try_from(length).unwrap_or(i64::MAX));
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

fn range(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply, is_reversed: bool) -> Outcome {
    let (first, second) = (args.at(2), args.at(3));
    let (start, end) =
        if is_reversed { parse_interval(second, first) } else { parse_interval(first, second) }?;
    let count = parse_count(args)?;
    let Some(stream) = access.stream(args.at(1))? else {
        reply.array(0);
        return Ok(());
    };
    match (count, is_reversed) {
        (Some(0), _) => reply.null_array(),
        (count, false) => reply_entries(reply, stream.range(start, end).take(count.unwrap_or(usize::MAX))),
        (count, true) => {
            reply_entries(reply, stream.range_reversed(start, end).take(count.unwrap_or(usize::MAX)));
        }
    }
    Ok(())
}

pub(super) fn xrange(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    range(access, args, reply, false)
}

pub(super) fn xrevrange(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    range(access, args, reply, true)
}
