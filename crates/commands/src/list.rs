//! Lists, blocking ones included.

mod blocking;
mod change;
mod movem;
mod query;
mod table;

use mantissa_number::INTEGER_TEXT_MAX;
use mantissa_protocol::Reply;
use mantissa_store::listpack::Element;
use mantissa_store::{EncodingLimits, List, ListEnd};
use smallvec::SmallVec;

use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;

pub(crate) use change::rpush;
pub(crate) use table::COMMANDS;

/// LEFT or RIGHT.
fn end_of(argument: &[u8]) -> Outcome<ListEnd> {
    if parse::is(argument, "LEFT") {
        Ok(ListEnd::Head)
    } else if parse::is(argument, "RIGHT") {
        Ok(ListEnd::Tail)
    } else {
        Err(Error::SYNTAX)
    }
}

/// The name of a command or event for one end or the other.
fn by_end(end: ListEnd, head: &'static str, tail: &'static str) -> &'static str {
    match end {
        ListEnd::Head => head,
        ListEnd::Tail => tail,
    }
}

fn write_element(reply: &mut Reply, element: Element<'_>) {
    match element {
        Element::Bytes(bytes) => reply.bulk(bytes),
        Element::Integer(integer) => reply.bulk_integer(integer),
    }
}

/// Turns an index that may count from the end into one from the start, not below zero.
fn clamp_index(index: i64, len: usize) -> usize {
    let from_start = if index < 0 { index.saturating_add(len as i64) } else { index };
    usize::try_from(from_start).unwrap_or(0)
}

/// The places that an inclusive range of indexes stands for: from and up to but not including.
fn range_of(start: i64, stop: i64, len: usize) -> (usize, usize) {
    let from = clamp_index(start, len);
    let stop = if stop < 0 { stop.saturating_add(len as i64) } else { stop };
    let to = usize::try_from(stop.saturating_add(1)).unwrap_or(0).min(len);
    if from >= to { (0, 0) } else { (from, to) }
}

/// Packs a list that has become small. True if none of its elements is left.
fn settle(list: &mut List, limits: &EncodingLimits) -> bool {
    list.shrink(limits);
    list.is_empty()
}

/// Says that elements were taken from a list, which goes if none is left.
fn taken(access: &mut Access<'_>, key: &[u8], event: &'static str, (count, is_empty): (usize, bool)) {
    access.event(EventClass::LIST, event, key);
    access.remove_if_empty(key, is_empty);
    access.changed_by(key, count as u64);
}

/// Takes up to `count` elements from an end of a list and replies them as an array, after what `before`
/// replies. Returns their number, `None` if there is no list.
fn pop_many(
    access: &mut Access<'_>,
    reply: &mut Reply,
    (key, end): (&[u8], ListEnd),
    count: usize,
    before: impl FnOnce(&mut Reply),
) -> Outcome<Option<usize>> {
    let limits = &access.settings().limits;
    let Some(list) = access.list_mut(key)? else { return Ok(None) };
    let len = list.len();
    let count = count.min(len);
    before(reply);
    reply.array(count);
    if count == 0 {
        return Ok(Some(0));
    }
    match end {
        ListEnd::Head => list.range(0, count).for_each(|element| write_element(reply, element)),
        ListEnd::Tail => list.range(len - count, len).rev().for_each(|element| write_element(reply, element)),
    }
    remove_at(list, end, count);
    let is_empty = settle(list, limits);
    taken(access, key, by_end(end, "lpop", "rpop"), (count, is_empty));
    Ok(Some(count))
}

/// Takes one element from an end of a list and replies it, after what `before` replies. False if there is
/// none.
fn pop_one(
    access: &mut Access<'_>,
    reply: &mut Reply,
    (key, end): (&[u8], ListEnd),
    before: impl FnOnce(&mut Reply),
) -> Outcome<bool> {
    let limits = &access.settings().limits;
    let Some(list) = access.list_mut(key)? else { return Ok(false) };
    let place = match end {
        ListEnd::Head => 0,
        ListEnd::Tail => list.len().saturating_sub(1),
    };
    before(reply);
    match list.get(place) {
        Some(element) => write_element(reply, element),
        None => reply.null(),
    }
    remove_at(list, end, 1);
    let is_empty = settle(list, limits);
    taken(access, key, by_end(end, "lpop", "rpop"), (1, is_empty));
    Ok(true)
}

fn remove_at(list: &mut List, end: ListEnd, count: usize) {
    let len = list.len();
    match end {
        ListEnd::Head => list.remove(0, count),
        ListEnd::Tail => list.remove(len.saturating_sub(count), len),
    }
}

/// Moves an element from an end of one list to an end of another and replies it. False if there is none.
fn move_element(
    access: &mut Access<'_>,
    reply: &mut Reply,
    (source, from): (&[u8], ListEnd),
    (destination, to): (&[u8], ListEnd),
) -> Outcome<bool> {
    let limits = &access.settings().limits;
    let Some(list) = access.list_mut(source)? else { return Ok(false) };
    let place = |list: &List| if from == ListEnd::Head { 0 } else { list.len().saturating_sub(1) };
    let at = place(list);
    let Some(element) = list.get(at) else { return Ok(false) };
    let element: SmallVec<[u8; 64]> = SmallVec::from_slice(element.text(&mut [0; INTEGER_TEXT_MAX]));
    let pushed = std::iter::once(&element[..]);
    let is_empty = if source == destination {
        list.remove(at, at + 1);
        list.extend(to, pushed, limits);
        settle(list, limits)
    } else {
        access.list_or_new(destination)?.extend(to, pushed, limits);
        access.list_mut(source)?.is_some_and(|list| {
            let at = place(list);
            list.remove(at, at + 1);
            settle(list, limits)
        })
    };
    access.changed_by(destination, 0);
    access.event(EventClass::LIST, by_end(to, "lpush", "rpush"), destination);
    reply.bulk(&element);
    taken(access, source, by_end(from, "lpop", "rpop"), (1, is_empty));
    Ok(true)
}

#[cfg(test)]
mod tests;
