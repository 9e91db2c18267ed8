//! Fields picked at random, and fields step by step: HRANDFIELD and HSCAN.

use mantissa_protocol::{Args, Reply};
use mantissa_store::Field;

use crate::access::{Access, split_mix};
use crate::collection_scan::{
    Picks, ScanOptions, Scanned, found_elements, parse_pick_count, write_element, write_scan,
};
use crate::error::{Error, Outcome};
use crate::parse;
use crate::scan::parse_cursor;

pub(super) fn hrandfield(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut state = access.random();
    let (now_ms, random) = (access.now_ms(), || split_mix(&mut state));
    let Some(count) = args.get(2) else {
        let mut picked = false;
        if let Some(hash) = access.hash_value(args.at(1))? {
            hash.pick(1, now_ms, random, |(field, _, _)| {
                write_element(reply, field);
                picked = true;
                true
            });
        }
        if !picked {
            reply.null();
        }
        return Ok(());
    };
    let count = parse_pick_count(count)?;
    let with_values = args.len() > 3;
    if args.len() > 4 || (with_values && !parse::is(args.at(3), "WITHVALUES")) {
        return Err(Error::SYNTAX);
    }
    if with_values && count.unsigned_abs() > (i64::MAX / 2) as u64 {
        return Err(Error::fixed("ERR value is out of range"));
    }
    let hash = access.hash_value(args.at(1))?;
    let Some(hash) = hash.filter(|hash| hash.unexpired_len(now_ms) > 0) else {
        reply.array(0);
        return Ok(());
    };
    access.leave_for_long_reply()?;
    let mut wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count >= 0 {
        wanted = wanted.min(hash.unexpired_len(now_ms));
    }
    reply.array(if with_values && !reply.is_resp3() { wanted.saturating_mul(2) } else { wanted });
    let mut picks = Picks::default();
    let mut visit = |(field, value, _): Field<'_>| {
        picks.write(reply, |reply| {
            if with_values && reply.is_resp3() {
                reply.array(2);
            }
            write_element(reply, field);
            if with_values {
                write_element(reply, value);
            }
        })
    };
    if count < 0 {
        hash.pick(wanted, now_ms, random, visit);
    } else {
        hash.sample(wanted, now_ms, random, |field| _ = visit(field));
    }
    Ok(())
}

pub(super) fn hscan(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let cursor = parse_cursor(args.at(2))?;
    let now_ms = access.now_ms();
    let Some(hash) = access.hash_value(args.at(1))? else {
        write_scan(reply, 0, 0, &Reply::default());
        return Ok(());
    };
    let options = ScanOptions::parse(args, Scanned::Hash)?;
    let mut found = found_elements(reply);
    let mut len = 0;
    let next = options.walk(cursor, |cursor, visited| {
        hash.scan(cursor, |(field, value, expiry)| {
            *visited += 1;
            if expiry.is_some_and(|time| time <= now_ms) || !options.matches(field) {
                return;
            }
            write_element(&mut found, field);
            len += 1;
            if !options.names_only {
                write_element(&mut found, value);
                len += 1;
            }
        })
    });
    write_scan(reply, next, len, &found);
    Ok(())
}
