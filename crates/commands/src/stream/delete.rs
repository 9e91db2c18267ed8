//! XDEL, XDELEX, XACKDEL.

use mantissa_protocol::{Args, Reply};
use mantissa_store::stream::{References, Referrers, Stream, StreamId};

use super::id::parse_ids;
use super::references;
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;

pub(super) fn xdel(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let key = args.at(1);
    let Some(stream) = access.stream_mut(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let ids = parse_ids(args.from(2).iter())?;
    let count = ids.into_iter().filter(|&id| stream.delete(id)).count();
    if count > 0 {
        access.changed_by(key, count as u64);
        access.event(EventClass::STREAM, "xdel", key);
    }
    reply.integer(count as i64);
    Ok(())
}

/// The options of XDELEX and XACKDEL from argument `at` on: what becomes of pending entries, and the texts of
/// the identifiers.
fn parse_options(args: Args<'_>, mut at: usize) -> Outcome<(References, Args<'_>)> {
    let (mut choice, mut ids) = (None, None);
    while let Some(option) = args.get(at) {
        if let (true, Some(count)) = (parse::is(option, "IDS"), args.get(at + 1)) {
            let count =
                parse::integer_in(count, 1, i64::MAX, "ERR Number of IDs must be a positive integer")?;
            let left = args.len() - at - 2;
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            if count > left {
                return Err(Error::fixed("ERR The `numids` parameter must match the number of arguments"));
            }
            ids = Some(args.range(at + 2..at + 2 + count));
            at += 2 + count;
        } else if let Some(wanted) = references(option).filter(|_| choice.is_none()) {
            choice = Some(wanted);
            at += 1;
        } else {
            return Err(Error::SYNTAX);
        }
    }
    Ok((choice.unwrap_or_default(), ids.ok_or(Error::SYNTAX)?))
}

/// What became of an entry, as the commands reply it.
const MISSING: i64 = -1;
const DELETED: i64 = 1;
const STILL_REFERENCED: i64 = 2;

fn reply_all(reply: &mut Reply, outcomes: &[i64]) {
    reply.array(outcomes.len());
    outcomes.iter().for_each(|&outcome| reply.integer(outcome));
}

/// Deletes an entry unless it has to stay. True if it may go, and true if it went.
fn delete(stream: &mut Stream, id: StreamId, choice: References, referrers: &Referrers) -> (bool, bool) {
    match choice {
        References::Acknowledged if stream.is_referenced(id, referrers) => return (false, false),
        References::Delete => stream.acknowledge_everywhere(id, referrers),
        _ => {}
    }
    (true, stream.delete(id))
}

/// Says that entries were deleted, which counts as so many changes.
fn say_deleted(access: &mut Access<'_>, key: &[u8], count: u64, changes: u64) {
    if count > 0 {
        access.changed_by(key, changes);
        access.event(EventClass::STREAM, "xdel", key);
    }
}

pub(super) fn xdelex(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let key = args.at(1);
    access.collection_to_write::<Stream>(key)?;
    let (choice, ids) = parse_options(args, 2)?;
    let Some(stream) = access.stream_mut(key)? else {
        reply_all(reply, &vec![MISSING; ids.len()]);
        return Ok(());
    };
    let mut count = 0;
    let referrers = stream.referrers(choice);
    let outcome = |id: StreamId| match delete(stream, id, choice, &referrers) {
        (false, _) => STILL_REFERENCED,
        (true, true) => {
            count += 1;
            DELETED
        }
        (true, false) => MISSING,
    };
    let outcomes: Vec<i64> = parse_ids(ids.iter())?.into_iter().map(outcome).collect();
    say_deleted(access, key, count, count);
    reply_all(reply, &outcomes);
    Ok(())
}

pub(super) fn xackdel(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, name) = (args.at(1), args.at(2));
    access.stream(key)?;
    let (choice, ids) = parse_options(args, 3)?;
    let Some(stream) = access.stream_mut(key)?.filter(|stream| stream.group(name).is_some()) else {
        reply_all(reply, &vec![MISSING; ids.len()]);
        return Ok(());
    };
    let (mut acknowledged, mut deleted) = (0, 0);
    let referrers = stream.referrers(choice);
    let outcome = |id: StreamId| {
        if stream.group_mut(name).and_then(|group| group.acknowledge(id)).is_none() {
            return MISSING;
        }
        acknowledged += 1;
        let (may_go, went) = delete(stream, id, choice, &referrers);
        deleted += u64::from(went);
        if may_go { DELETED } else { STILL_REFERENCED }
    };
    let outcomes: Vec<i64> = parse_ids(ids.iter())?.into_iter().map(outcome).collect();
    access.count_changes(acknowledged);
    say_deleted(access, key, deleted, 0);
    reply_all(reply, &outcomes);
    Ok(())
}
