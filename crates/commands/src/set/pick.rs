//! Members picked at random: SPOP and SRANDMEMBER.

use mantissa_protocol::{Args, Reply};
use mantissa_store::Value;

use super::write_set;
use crate::access::{Access, split_mix};
use crate::collection_scan::{Picks, parse_pick_count, write_element};
use crate::effects::{EventClass, removal};
use crate::error::{Error, Outcome};
use crate::parse;

pub(super) fn srandmember(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() > 3 {
        return Err(Error::SYNTAX);
    }
    let mut state = access.random();
    let random = || split_mix(&mut state);
    let Some(count) = args.get(2) else {
        match access.set(args.at(1))?.and_then(|set| set.random(random)) {
            Some(member) => write_element(reply, member),
            None => reply.null(),
        }
        return Ok(());
    };
    let count = parse_pick_count(count)?;
    let Some(set) = access.set(args.at(1))? else {
        reply.array(0);
        return Ok(());
    };
    access.leave_for_long_reply()?;
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 {
        reply.array(wanted);
        let mut picks = Picks::default();
        set.pick(wanted, random, |member| picks.write(reply, |reply| write_element(reply, member)));
    } else {
        reply.array(wanted.min(set.len()));
        set.sample(wanted, random, |member| write_element(reply, member));
    }
    Ok(())
}

pub(super) fn spop(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let key = args.at(1);
    match args.get(2) {
        _ if args.len() > 3 => return Err(Error::SYNTAX),
        Some(count) => {
            let error = "ERR value is out of range, must be positive";
            let count = parse::integer_in(count, 0, i64::MAX, error)?;
            return spop_many(access, key, usize::try_from(count).unwrap_or(usize::MAX), reply);
        }
        None => {}
    }
    let mut state = access.random();
    let logs = access.logs();
    let Some(set) = access.set_mut(key)? else {
        reply.null();
        return Ok(());
    };
    let mut popped = Vec::new();
    set.take_one(
        || split_mix(&mut state),
        |member| {
            write_element(reply, member);
            if logs {
                popped = member.to_vec();
            }
        },
    );
    let is_empty = set.is_empty();
    access.modified(key, EventClass::SET, "spop");
    access.log_instead(&[b"SREM", key, &popped]);
    access.remove_if_empty(key, is_empty);
    Ok(())
}

/// Where this many times the members that stay are no more than those that go, the set that is left is made
/// anew.
const REPACKED_FACTOR: usize = 5;

fn spop_many(access: &mut Access<'_>, key: &[u8], count: usize, reply: &mut Reply) -> Outcome {
    let mut state = access.random();
    let (logs, limits) = (access.logs(), &access.settings().limits);
    let Some(set) = access.set_mut(key)?.filter(|_| count > 0) else {
        reply.set(0);
        return Ok(());
    };
    if count >= set.len() {
        let len = set.len();
        write_set(reply, set);
        access.event(EventClass::SET, "spop", key);
        access.changed_by(key, len as u64);
        access.log_instead(&[removal(access.settings().lazy_server_del), key]);
        access.remove_if_empty(key, true);
        return Ok(());
    }
    let mut popped: Vec<Vec<u8>> = Vec::new();
    reply.set(count);
    let taken = set.take(
        count,
        || split_mix(&mut state),
        |member| {
            write_element(reply, member);
            if logs {
                popped.push(member.to_vec());
            }
        },
    );
    if set.len().saturating_mul(REPACKED_FACTOR) <= count {
        set.repack(limits);
    }
    if taken.encoding() == "hashtable" {
        access.free_later(Value::Set(taken));
    }
    access.event(EventClass::SET, "spop", key);
    access.changed_by(key, count as u64);
    log_removal(access, key, &popped);
    Ok(())
}

/// Logs the removal of members, in commands of a bounded size.
fn log_removal(access: &mut Access<'_>, key: &[u8], members: &[Vec<u8>]) {
    const MEMBERS_PER_COMMAND: usize = 1024;
    for chunk in members.chunks(MEMBERS_PER_COMMAND) {
        let mut command: Vec<&[u8]> = vec![b"SREM", key];
        command.extend(chunk.iter().map(|text| &text[..]));
        access.log_instead(&command);
    }
}
