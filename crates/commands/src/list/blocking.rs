//! The list commands that wait: BLPOP, BRPOP, BLMOVE, BRPOPLPUSH, BLMPOP.

use mantissa_protocol::{Args, Reply};
use mantissa_store::{Kind, ListEnd};

use super::{by_end, end_of, move_element, pop_one};
use crate::access::Access;
use crate::effects::TimeoutReply;
use crate::error::Outcome;
use crate::parse::{self, ManyKeys};

fn pop(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply, end: ListEnd) -> Outcome {
    let deadline = parse::timeout(args.at(args.len() - 1), access.now_ms())?;
    let keys = args.range(1..args.len() - 1);
    for key in keys {
        let before = |reply: &mut Reply| {
            reply.array(2);
            reply.bulk(key);
        };
        if !pop_one(access, reply, (key, end), before)? {
            continue;
        }
        access.log_instead(&[by_end(end, "LPOP", "RPOP").as_bytes(), key]);
        return Ok(());
    }
    access.block(reply, (Kind::List, keys), None, deadline, TimeoutReply::NullArray);
    Ok(())
}

pub(super) fn blpop(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    pop(access, args, reply, ListEnd::Head)
}

pub(super) fn brpop(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    pop(access, args, reply, ListEnd::Tail)
}

/// Moves an element or waits for one; true if it was moved.
fn move_or_wait(
    access: &mut Access<'_>,
    reply: &mut Reply,
    source: (&[u8], ListEnd),
    destination: (&[u8], ListEnd),
    deadline: Option<i64>,
) -> Outcome<bool> {
    if move_element(access, reply, source, destination)? {
        return Ok(true);
    }
    if access.mode().may_block {
        access.block(reply, (Kind::List, [source.0]), Some(destination.0), deadline, TimeoutReply::NullArray);
    } else {
        reply.null();
    }
    Ok(false)
}

pub(super) fn blmove(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (from, to) = (end_of(args.at(3))?, end_of(args.at(4))?);
    let deadline = parse::timeout(args.at(5), access.now_ms())?;
    let (source, destination) = (args.at(1), args.at(2));
    if move_or_wait(access, reply, (source, from), (destination, to), deadline)? {
        access.log_instead(&[b"LMOVE", source, destination, args.at(3), args.at(4)]);
    }
    Ok(())
}

pub(super) fn brpoplpush(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let deadline = parse::timeout(args.at(3), access.now_ms())?;
    let (source, destination) = (args.at(1), args.at(2));
    if move_or_wait(access, reply, (source, ListEnd::Tail), (destination, ListEnd::Head), deadline)? {
        access.log_instead(&[b"RPOPLPUSH", source, destination]);
    }
    Ok(())
}

pub(super) fn blmpop(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let many = ManyKeys::parse(args, 2, end_of)?;
    let deadline = parse::timeout(args.at(1), access.now_ms())?;
    if !many.pop(access, reply)? {
        access.block(reply, (Kind::List, many.keys), None, deadline, TimeoutReply::NullArray);
    }
    Ok(())
}
