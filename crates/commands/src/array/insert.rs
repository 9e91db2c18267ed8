//! Inserting at the array's own place: ARINSERT, and ARRING, which begins anew at a size.

use mantissa_protocol::{Args, Reply};
use mantissa_store::array::{Element, INDEX_END};
use mantissa_store::{Array, ValueType};

use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;

const INSERT_OVERFLOW: Error = Error::fixed("ERR insert index overflow");
const SIZE_NOT_POSITIVE: Error = Error::fixed("ERR size must be positive");

/// The place after that of the last insertion.
fn next_place(array: &Array) -> u64 {
    array.cursor().map_or(0, |cursor| cursor + 1)
}

pub(super) fn arinsert(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, values) = (args.at(1), args.from(2));
    let array = access.collection_or_new::<Array>(key)?;
    let start = next_place(array);
    let last = start.checked_add(values.len() as u64 - 1).filter(|last| *last != INDEX_END);
    let last = last.ok_or(INSERT_OVERFLOW)?;
    for (index, value) in (start..=last).zip(values.iter()) {
        array.set(index, Element::of(value));
    }
    array.set_cursor(Some(last));
    access.changed_by(key, values.len() as u64);
    access.event(EventClass::ARRAY, "arinsert", key);
    reply.unsigned(last);
    Ok(())
}

/// How many of the latest items are kept, if the array has to be laid out anew for a ring of this size: one
/// that is smaller, or one that is larger where the old one has begun anew.
fn kept_for(array: &Array, size: u64) -> Option<u64> {
    let span = array.len();
    if span == 0 || size == span {
        None
    } else if size < span {
        Some(size)
    } else {
        (array.cursor().is_some() && next_place(array) < span).then_some(span)
    }
}

/// The latest items of a ring, up to `kept` of them and back to the first hole, from index 0 on.
fn laid_out(array: &Array, kept: u64) -> Array {
    let span = array.len();
    let newest = array.cursor().map_or(span - 1, |cursor| cursor % span);
    // Backwards from the newest one, and then from the end of the ring.
    let run = |from: u64, to: u64, most: u64| {
        let mut count = 0;
        array.visit(from, to, |index, _| {
            let goes_on = count < most && index == from - count;
            count += u64::from(goes_on);
            goes_on
        });
        count
    };
    let low = run(newest, 0, kept);
    let high = if low == newest + 1 && low < kept && low < span {
        run(span - 1, newest + 1, (kept - low).min(span - low))
    } else {
        0
    };
    let mut ring = Array::new();
    let mut next = 0;
    for (from, count) in [(span - high, high), (newest + 1 - low, low)] {
        if count == 0 {
            continue;
        }
        array.visit(from, from + count - 1, |_, element| {
            ring.set(next, element);
            next += 1;
            true
        });
    }
    ring.set_cursor(next.checked_sub(1));
    ring
}

pub(super) fn arring(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, values) = (args.at(1), args.from(3));
    let size = parse::integer_or(args.at(2), "ERR invalid size")?;
    let size = u64::try_from(size).ok().filter(|size| *size > 0).ok_or(SIZE_NOT_POSITIVE)?;
    let array = access.collection_or_new::<Array>(key)?;
    let mut old = None;
    if let Some(kept) = kept_for(array, size) {
        let ring = laid_out(array, kept);
        old = Some(std::mem::replace(array, ring));
    }
    let mut place = 0;
    for value in values.iter() {
        place = next_place(array) % size;
        array.set(place, Element::of(value));
        array.set_cursor(Some(place));
    }
    if let Some(old) = old {
        access.free_later(old.into_value());
    }
    access.changed_by(key, values.len() as u64);
    access.event(EventClass::ARRAY, "arring", key);
    reply.unsigned(place);
    Ok(())
}
