//! Taking the lowest or highest members: ZPOPMIN, ZPOPMAX, ZMPOP, and their blocking forms.

use mantissa_protocol::packed::PackedWriter;
use mantissa_protocol::{Args, Reply};
use mantissa_store::Kind;

use super::{Removal, removed};
use crate::access::Access;
use crate::effects::TimeoutReply;
use crate::error::{Error, Outcome};
use crate::packed::expect_fractions;
use crate::parse::{self, ManyKeys};

/// Which members go first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Lowest,
    Highest,
}

impl Side {
    fn parse(argument: &[u8]) -> Outcome<Self> {
        match argument {
            _ if parse::is(argument, "MIN") => Ok(Side::Lowest),
            _ if parse::is(argument, "MAX") => Ok(Side::Highest),
            _ => Err(Error::SYNTAX),
        }
    }

    fn event(self) -> &'static str {
        match self {
            Side::Lowest => "zpopmin",
            Side::Highest => "zpopmax",
        }
    }

    fn command(self) -> &'static [u8] {
        match self {
            Side::Lowest => b"ZPOPMIN",
            Side::Highest => b"ZPOPMAX",
        }
    }
}

/// Takes up to `count` members of a set that is there and has them written.
fn take(
    access: &mut Access<'_>,
    key: &[u8],
    side: Side,
    count: usize,
    mut write: impl FnMut(&[u8], f64),
) -> Outcome {
    let Some(set) = access.sorted_set_mut(key)? else { return Ok(()) };
    let len = set.len();
    let count = count.min(len);
    let ranks = match side {
        Side::Lowest => 0..count,
        Side::Highest => len - count..len,
    };
    let members = set.range(ranks.clone());
    match side {
        Side::Lowest => members.for_each(|(member, score)| write(member, score)),
        Side::Highest => members.rev().for_each(|(member, score)| write(member, score)),
    }
    let removal = Removal::of_ranks(ranks, set);
    removed(access, key, side.event(), removal);
    Ok(())
}

/// How many members ZPOPMIN and ZPOPMAX take.
fn pop_count(access: &mut Access<'_>, args: Args<'_>) -> Outcome<usize> {
    if args.len() > 3 {
        return Err(Error::SYNTAX);
    }
    let count = match args.get(2) {
        Some(count) => parse::integer_in(count, 0, i64::MAX, "ERR value is out of range, must be positive")?,
        None => 1,
    };
    let len = access.sorted_set_mut(args.at(1))?.map_or(0, |set| set.len());
    Ok(usize::try_from(count).unwrap_or(usize::MAX).min(len))
}

fn pack(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter, side: Side) -> Outcome {
    expect_fractions(writer)?;
    writer.set_named();
    let count = pop_count(access, args)?;
    if count == 0 {
        return Ok(());
    }
    writer.reserve(count);
    take(access, args.at(1), side, count, |member, score| {
        writer.number(score);
        writer.name(member);
    })
}

pub(super) fn pack_zpopmin(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    pack(access, args, writer, Side::Lowest)
}

pub(super) fn pack_zpopmax(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    pack(access, args, writer, Side::Highest)
}

fn pop(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply, side: Side) -> Outcome {
    let key = args.at(1);
    let count = pop_count(access, args)?;
    if count == 0 {
        reply.array(0);
        return Ok(());
    }
    let is_nested = reply.is_resp3() && args.len() == 3;
    reply.array(if is_nested { count } else { 2 * count });
    take(access, key, side, count, |member, score| {
        if is_nested {
            reply.array(2);
        }
        reply.bulk(member);
        reply.double(score);
    })
}

pub(super) fn zpopmin(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    pop(access, args, reply, Side::Lowest)
}

pub(super) fn zpopmax(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    pop(access, args, reply, Side::Highest)
}

fn pop_or_wait(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply, side: Side) -> Outcome {
    let deadline = parse::timeout(args.at(args.len() - 1), access.now_ms())?;
    let keys = args.range(1..args.len() - 1);
    for key in keys {
        if access.sorted_set_mut(key)?.is_none() {
            continue;
        }
        reply.array(3);
        reply.bulk(key);
        take(access, key, side, 1, |member, score| {
            reply.bulk(member);
            reply.double(score);
        })?;
        access.log_instead(&[side.command(), key]);
        return Ok(());
    }
    access.block(reply, (Kind::SortedSet, keys), None, deadline, TimeoutReply::NullArray);
    Ok(())
}

pub(super) fn bzpopmin(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    pop_or_wait(access, args, reply, Side::Lowest)
}

pub(super) fn bzpopmax(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    pop_or_wait(access, args, reply, Side::Highest)
}

impl ManyKeys<'_, Side> {
    /// Takes members from the first set that is there. False if there is none.
    fn pop(&self, access: &mut Access<'_>, reply: &mut Reply) -> Outcome<bool> {
        for key in self.keys {
            let Some(set) = access.sorted_set_mut(key)? else { continue };
            let count = self.count.min(set.len());
            reply.array(2);
            reply.bulk(key);
            reply.array(count);
            take(access, key, self.side, count, |member, score| {
                reply.array(2);
                reply.bulk(member);
                reply.double(score);
            })?;
            access.log_instead(&[self.side.command(), key, count.to_string().as_bytes()]);
            return Ok(true);
        }
        Ok(false)
    }
}

pub(super) fn zmpop(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if !ManyKeys::parse(args, 1, Side::parse)?.pop(access, reply)? {
        reply.null_array();
    }
    Ok(())
}

pub(super) fn bzmpop(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let many = ManyKeys::parse(args, 2, Side::parse)?;
    let deadline = parse::timeout(args.at(1), access.now_ms())?;
    if !many.pop(access, reply)? {
        access.block(reply, (Kind::SortedSet, many.keys), None, deadline, TimeoutReply::NullArray);
    }
    Ok(())
}
