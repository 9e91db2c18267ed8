//! Changing lists: pushes, pops, LSET, LINSERT, LREM, LTRIM, LMOVE and LMPOP.

use mantissa_protocol::{Args, Reply};
use mantissa_store::{ListEnd, Sought};

use super::{by_end, end_of, move_element, pop_many, pop_one, range_of, settle, taken};
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse::{self, ManyKeys};

fn push(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply, end: ListEnd) -> Outcome {
    let limits = &access.settings().limits;
    let (key, elements) = (args.at(1), args.from(2));
    let list = access.list_or_new(key)?;
    list.extend(end, elements.iter(), limits);
    reply.integer(list.len() as i64);
    access.changed_by(key, elements.len() as u64);
    access.event(EventClass::LIST, by_end(end, "lpush", "rpush"), key);
    Ok(())
}

fn push_existing(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply, end: ListEnd) -> Outcome {
    if access.list_mut(args.at(1))?.is_none() {
        reply.integer(0);
        return Ok(());
    }
    push(access, args, reply, end)
}

pub(super) fn lpush(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    push(access, args, reply, ListEnd::Head)
}

pub(crate) fn rpush(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    push(access, args, reply, ListEnd::Tail)
}

pub(super) fn lpushx(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    push_existing(access, args, reply, ListEnd::Head)
}

pub(super) fn rpushx(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    push_existing(access, args, reply, ListEnd::Tail)
}

fn pop(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply, end: ListEnd) -> Outcome {
    let key = args.at(1);
    if args.len() > 3 {
        return Err(Error::arity(by_end(end, "lpop", "rpop")));
    }
    let count = match args.get(2) {
        Some(count) => {
            Some(parse::integer_in(count, 0, i64::MAX, "ERR value is out of range, must be positive")?)
        }
        None => None,
    };
    match count {
        None => {
            if !pop_one(access, reply, (key, end), |_| ())? {
                reply.null();
            }
        }
        Some(count) => {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            if pop_many(access, reply, (key, end), count, |_| ())?.is_none() {
                reply.null_array();
            }
        }
    }
    Ok(())
}

pub(super) fn lpop(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    pop(access, args, reply, ListEnd::Head)
}

pub(super) fn rpop(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    pop(access, args, reply, ListEnd::Tail)
}

pub(super) fn lset(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let limits = &access.settings().limits;
    let (key, element) = (args.at(1), args.at(3));
    let list = access.list_mut(key)?.ok_or(Error::NO_SUCH_KEY)?;
    // As in Redis, LSET alone takes the low 32 bits of its index, while these can tell all elements apart.
    let index = parse::integer(args.at(2))?;
    let index = if i32::try_from(list.len()).is_ok() { i64::from(index as i32) } else { index };
    let place = if index < 0 { index.saturating_add(list.len() as i64) } else { index };
    list.prepare_insert(element, limits);
    let place = usize::try_from(place).ok().filter(|&place| place < list.len());
    list.set(place.ok_or(Error::INDEX_OUT_OF_RANGE)?, element, limits);
    access.modified(key, EventClass::LIST, "lset");
    reply.ok();
    Ok(())
}

pub(super) fn linsert(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let limits = &access.settings().limits;
    let (key, element) = (args.at(1), args.at(4));
    let after = parse::is(args.at(2), "AFTER");
    if !after && !parse::is(args.at(2), "BEFORE") {
        return Err(Error::SYNTAX);
    }
    let Some(list) = access.list_mut(key)? else {
        reply.integer(0);
        return Ok(());
    };
    list.prepare_insert(element, limits);
    let Some(place) = list.position(Sought::new(args.at(3))) else {
        reply.integer(-1);
        return Ok(());
    };
    list.insert(place, after, element, limits);
    reply.integer(list.len() as i64);
    access.modified(key, EventClass::LIST, "linsert");
    Ok(())
}

pub(super) fn lrem(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let limits = &access.settings().limits;
    let key = args.at(1);
    let count = parse::negatable(args.at(2))?;
    let Some(list) = access.list_mut(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let end = if count < 0 { ListEnd::Tail } else { ListEnd::Head };
    let count_max = match usize::try_from(count.unsigned_abs()) {
        Ok(0) | Err(_) => usize::MAX,
        Ok(count) => count,
    };
    let removed = list.remove_equal(end, count_max, Sought::new(args.at(3)));
    if removed > 0 {
        let is_empty = settle(list, limits);
        taken(access, key, "lrem", (removed, is_empty));
    }
    reply.integer(removed as i64);
    Ok(())
}

pub(super) fn ltrim(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let limits = &access.settings().limits;
    let key = args.at(1);
    let (start, stop) = (parse::integer(args.at(2))?, parse::integer(args.at(3))?);
    reply.ok();
    let Some(list) = access.list_mut(key)? else { return Ok(()) };
    let len = list.len();
    let (from, to) = range_of(start, stop, len);
    list.remove(to, len);
    list.remove(0, from);
    let is_empty = settle(list, limits);
    taken(access, key, "ltrim", (len - (to - from), is_empty));
    Ok(())
}

pub(super) fn lmove(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (from, to) = (end_of(args.at(3))?, end_of(args.at(4))?);
    if !move_element(access, reply, (args.at(1), from), (args.at(2), to))? {
        reply.null();
    }
    Ok(())
}

pub(super) fn rpoplpush(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if !move_element(access, reply, (args.at(1), ListEnd::Tail), (args.at(2), ListEnd::Head))? {
        reply.null();
    }
    Ok(())
}

impl ManyKeys<'_, ListEnd> {
    /// Takes elements from the first list that is there. False if there is none.
    pub fn pop(&self, access: &mut Access<'_>, reply: &mut Reply) -> Outcome<bool> {
        for key in self.keys {
            let before = |reply: &mut Reply| {
                reply.array(2);
                reply.bulk(key);
            };
            let taken = pop_many(access, reply, (key, self.side), self.count, before)?;
            let Some(count) = taken else { continue };
            let count = count.to_string();
            access.log_instead(&[by_end(self.side, "LPOP", "RPOP").as_bytes(), key, count.as_bytes()]);
            return Ok(true);
        }
        Ok(false)
    }
}

pub(super) fn lmpop(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if !ManyKeys::parse(args, 1, end_of)?.pop(access, reply)? {
        reply.null_array();
    }
    Ok(())
}
