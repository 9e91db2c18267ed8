//! Sets.

mod combine;
mod pick;
mod table;

use mantissa_protocol::{Args, Reply};
use mantissa_store::{Kind, Set};

use crate::access::Access;
use crate::collection_scan::{ScanOptions, Scanned, found_elements, write_element, write_scan};
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::scan::parse_cursor;

pub(crate) use table::COMMANDS;

fn sadd(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, members) = (args.at(1), args.from(2));
    let limits = &access.settings().limits;
    let set = access.set_or_new(key)?;
    set.expect(args.at(2), members.len(), limits);
    let added = members.iter().filter(|member| set.add(member, limits)).count();
    if added > 0 {
        access.event(EventClass::SET, "sadd", key);
        access.changed_by(key, added as u64);
    }
    reply.integer(added as i64);
    Ok(())
}

fn srem(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let key = args.at(1);
    let Some(set) = access.set_mut(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let removed = args.from(2).iter().filter(|member| set.remove(member)).count();
    let is_empty = set.is_empty();
    if removed > 0 {
        access.event(EventClass::SET, "srem", key);
        access.changed_by(key, removed as u64);
        access.remove_if_empty(key, is_empty);
    }
    reply.integer(removed as i64);
    Ok(())
}

fn sismember(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let is_member = access.set(args.at(1))?.is_some_and(|set| set.contains(args.at(2)));
    reply.integer(i64::from(is_member));
    Ok(())
}

fn smismember(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let set = access.set(args.at(1))?;
    let members = args.from(2);
    reply.array(members.len());
    for member in members {
        reply.integer(i64::from(set.is_some_and(|set| set.contains(member))));
    }
    Ok(())
}

fn smembers(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match access.set(args.at(1))? {
        Some(set) => write_set(reply, set),
        None => reply.set(0),
    }
    Ok(())
}

fn write_set(reply: &mut Reply, set: &Set) {
    reply.set(set.len());
    set.iter().for_each(|member| {
        write_element(reply, member);
        reply.stream();
    });
}

fn scard(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.integer(access.window::<Set>(args.at(1))?.map_or(0, |set| set.len) as i64);
    Ok(())
}

fn smove(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (source, target, member) = (args.at(1), args.at(2), args.at(3));
    let limits = &access.settings().limits;
    let target_kind = access.kind(target);
    let Some(set) = access.collection_to_write::<Set>(source)? else {
        reply.integer(0);
        return Ok(());
    };
    if source == target {
        reply.integer(i64::from(set.contains(member)));
        return Ok(());
    }
    if target_kind.is_some_and(|kind| kind != Kind::Set) {
        return Err(Error::WRONG_TYPE);
    }
    let Some(is_empty) = access.set_mut(source)?.and_then(|set| set.remove(member).then(|| set.is_empty()))
    else {
        reply.integer(0);
        return Ok(());
    };
    access.event(EventClass::SET, "srem", source);
    access.changed(source);
    access.remove_if_empty(source, is_empty);
    if access.set_or_new(target)?.add(member, limits) {
        access.modified(target, EventClass::SET, "sadd");
    }
    reply.integer(1);
    Ok(())
}

fn sscan(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let cursor = parse_cursor(args.at(2))?;
    let Some(set) = access.set(args.at(1))? else {
        write_scan(reply, 0, 0, &Reply::default());
        return Ok(());
    };
    let options = ScanOptions::parse(args, Scanned::Set)?;
    let mut found = found_elements(reply);
    let mut len = 0;
    let next = options.walk(cursor, |cursor, visited| {
        set.scan(cursor, |member| {
            *visited += 1;
            if options.matches(member) {
                write_element(&mut found, member);
                len += 1;
            }
        })
    });
    write_scan(reply, next, len, &found);
    Ok(())
}
