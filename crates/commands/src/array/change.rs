//! Writing and removing elements: ARSET, ARMSET, ARDEL, ARDELRANGE, ARSEEK.

use mantissa_protocol::{Args, Reply};
use mantissa_store::array::{Element, INDEX_END};
use mantissa_store::{Array, ValueType};

use super::{INVALID_INDEX, index_of};
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;

const INDEX_OVERFLOW: Error = Error::fixed("ERR array index overflow");

/// Says that elements were written.
fn written(access: &mut Access<'_>, key: &[u8], event: &'static str, changes: u64) {
    access.changed_by(key, changes);
    access.event(EventClass::ARRAY, event, key);
}

/// Says that elements were removed, and removes the array if none is left.
fn removed(access: &mut Access<'_>, key: &[u8], event: &'static str, (count, is_empty): (u64, bool)) {
    if count == 0 {
        return;
    }
    access.changed_by(key, count);
    access.event(EventClass::ARRAY, event, key);
    access.remove_if_empty(key, is_empty);
}

pub(super) fn arset(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, start, values) = (args.at(1), index_of(args.at(2))?, args.from(3));
    let last = start.checked_add(values.len() as u64 - 1).filter(|last| *last != INDEX_END);
    let last = last.ok_or(INDEX_OVERFLOW)?;
    let array = access.collection_or_new::<Array>(key)?;
    let new = (start..=last).zip(values.iter());
    let new = new.filter(|(index, value)| array.set(*index, Element::of(value))).count();
    reply.integer(new as i64);
    written(access, key, "arset", values.len() as u64);
    Ok(())
}

pub(super) fn armset(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, pairs) = (args.at(1), args.from(2));
    if !pairs.len().is_multiple_of(2) {
        return Err(Error::arity("armset"));
    }
    for at in (0..pairs.len()).step_by(2) {
        index_of(pairs.at(at))?;
    }
    let array = access.collection_or_new::<Array>(key)?;
    let mut new = 0;
    for at in (0..pairs.len()).step_by(2) {
        new += i64::from(array.set(index_of(pairs.at(at))?, Element::of(pairs.at(at + 1))));
    }
    reply.integer(new);
    written(access, key, "armset", pairs.len() as u64 / 2);
    Ok(())
}

pub(super) fn ardel(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, indexes) = (args.at(1), args.from(2));
    for index in indexes.iter() {
        index_of(index)?;
    }
    let Some(array) = access.collection_mut::<Array>(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let mut count = 0;
    for index in indexes.iter() {
        count += u64::from(array.remove(index_of(index)?));
    }
    let is_empty = array.is_empty();
    removed(access, key, "ardel", (count, is_empty));
    reply.unsigned(count);
    Ok(())
}

pub(super) fn ardelrange(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, bounds) = (args.at(1), args.from(2));
    if !bounds.len().is_multiple_of(2) {
        return Err(Error::arity("ardelrange"));
    }
    for bound in bounds.iter() {
        index_of(bound)?;
    }
    let Some(array) = access.collection_mut::<Array>(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let (mut count, mut rests) = (0, Vec::new());
    for at in (0..bounds.len()).step_by(2) {
        let (one, other) = (index_of(bounds.at(at))?, index_of(bounds.at(at + 1))?);
        let (low, high) = (one.min(other), one.max(other));
        if low == 0 && high >= array.len() {
            // All of it, which is freed later as it is.
            count += array.count();
            rests.push(std::mem::take(array));
            break;
        }
        let (some, rest) = array.remove_range(low, high);
        count += some;
        if !rest.is_empty() {
            rests.push(rest);
        }
    }
    let is_empty = array.is_empty();
    rests.into_iter().for_each(|rest| access.free_later(rest.into_value()));
    removed(access, key, "ardelrange", (count, is_empty));
    reply.unsigned(count);
    Ok(())
}

pub(super) fn arseek(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let key = args.at(1);
    let next = parse::unsigned(args.at(2)).ok_or(INVALID_INDEX)?;
    let Some(array) = access.collection_mut::<Array>(key)? else {
        reply.integer(0);
        return Ok(());
    };
    array.set_cursor(next.checked_sub(1));
    written(access, key, "arseek", 1);
    reply.integer(1);
    Ok(())
}
