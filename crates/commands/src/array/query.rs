//! Reading arrays: ARGET, ARMGET, ARGETRANGE, ARSCAN, ARLEN, ARCOUNT, ARNEXT, ARLASTITEMS, ARINFO.

use mantissa_protocol::{Args, Reply};
use mantissa_store::Array;
use mantissa_store::array::{INDEX_END, SLICE, SliceFacts};

use super::{index_of, limit_of, write_each, write_element, write_or_null};
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

/// Most places of a reply that may be empty.
const PLACES_MAX: u64 = 1_000_000;
const RANGE_TOO_LONG: Error = Error::fixed("ERR range exceeds maximum of 1000000 items");
const COUNT_TOO_HIGH: Error = Error::fixed("ERR count exceeds maximum of 1000000 items");

pub(super) fn arget(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let array = access.collection_in_place::<Array>(args.at(1))?;
    let index = index_of(args.at(2))?;
    write_or_null(reply, array.and_then(|array| array.get(index)));
    Ok(())
}

pub(super) fn armget(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let array = access.collection_in_place::<Array>(args.at(1))?;
    let indexes = args.from(2);
    for index in indexes.iter() {
        index_of(index)?;
    }
    reply.array(indexes.len());
    for index in indexes.iter() {
        let index = index_of(index)?;
        write_or_null(reply, array.and_then(|array| array.get(index)));
    }
    Ok(())
}

pub(super) fn argetrange(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (start, end) = (index_of(args.at(2))?, index_of(args.at(3))?);
    let array = access.collection::<Array>(args.at(1))?;
    let len = start.abs_diff(end) + 1;
    if len > PLACES_MAX {
        return Err(RANGE_TOO_LONG);
    }
    reply.array(len as usize);
    write_each(reply, array.unwrap_or(&Array::new()), start, end);
    Ok(())
}

pub(super) fn arscan(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (start, end) = (index_of(args.at(2))?, index_of(args.at(3))?);
    let limit = match args.len() {
        4 => u64::MAX,
        6 if parse::is(args.at(4), "LIMIT") => limit_of(args.at(5))?,
        6 => return Err(Error::SYNTAX),
        _ => return Err(Error::arity("arscan")),
    };
    let Some(array) = access.collection::<Array>(args.at(1))? else {
        reply.array(0);
        return Ok(());
    };
    let mut left = array.count_in(start, end).min(limit);
    reply.array(left as usize);
    if left == 0 {
        return Ok(());
    }
    array.visit(start, end, |index, element| {
        reply.array(2);
        reply.unsigned(index);
        write_element(reply, element);
        reply.stream();
        left -= 1;
        left > 0
    });
    Ok(())
}

pub(super) fn arlen(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let array = access.collection_in_place::<Array>(args.at(1))?;
    reply.unsigned(array.map_or(0, Array::len));
    Ok(())
}

pub(super) fn arcount(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let array = access.collection_in_place::<Array>(args.at(1))?;
    reply.unsigned(array.map_or(0, Array::count));
    Ok(())
}

pub(super) fn arnext(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let array = access.collection_in_place::<Array>(args.at(1))?;
    match array.and_then(Array::cursor).map(|cursor| cursor + 1) {
        Some(INDEX_END) => reply.null(),
        next => reply.unsigned(next.unwrap_or(0)),
    }
    Ok(())
}

pub(super) fn arlastitems(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let count = parse::integer_or(args.at(2), "ERR invalid COUNT")?;
    let Some(count) = u64::try_from(count).ok().filter(|count| *count > 0) else {
        reply.array(0);
        return Ok(());
    };
    let is_reversed = match args.len() {
        3 => false,
        4 if parse::is(args.at(3), "REV") => true,
        4 => return Err(Error::SYNTAX),
        _ => return Err(Error::arity("arlastitems")),
    };
    let Some(array) = access.collection::<Array>(args.at(1))? else {
        reply.array(0);
        return Ok(());
    };
    let len = array.len();
    let count = count.min(len);
    if count > array.count() && count > PLACES_MAX {
        return Err(COUNT_TOO_HIGH);
    }
    reply.array(count as usize);
    if count == 0 {
        return Ok(());
    }
    // Places go backwards from the last insertion to the start, and on from the end.
    let newest = array.cursor().filter(|cursor| *cursor < len).unwrap_or(len - 1);
    let low = count.min(newest + 1);
    let high = count - low;
    let below = (newest + 1 - low, newest);
    let above = (len - high, len - 1);
    if is_reversed {
        write_each(reply, array, below.1, below.0);
    }
    if high > 0 {
        let (first, last) = if is_reversed { (above.1, above.0) } else { above };
        write_each(reply, array, first, last);
    }
    if !is_reversed {
        write_each(reply, array, below.0, below.1);
    }
    Ok(())
}

/// What ARINFO says of the slices that Redis would have. Which it has depends on how the array came to be as
/// well: these are those of an array that was written in the order of its indexes.
#[derive(Default)]
struct Layout {
    slices: u64,
    last: u64,
    /// Groups of slices that Redis lists where there are indexes beyond the first of them.
    groups: u64,
    last_group: Option<u64>,
    dense: u64,
    dense_places: u64,
    dense_elements: u64,
    sparse_places: u64,
}

impl Layout {
    /// Slices of a group.
    const GROUP: u64 = 2048;
    /// Elements of a slice that Redis keeps as pairs.
    const SPARSE_MAX: u64 = 10;
    /// Places that a slice has at least.
    const PLACES_MIN: u64 = 8;

    fn of(array: &Array) -> Layout {
        let mut layout = Layout::default();
        array.visit_slices(|slice| layout.add(slice));
        layout
    }

    fn add(&mut self, slice: SliceFacts) {
        self.slices += 1;
        self.last = slice.id;
        let group = Some(slice.id / Self::GROUP);
        self.groups += u64::from(group != self.last_group);
        self.last_group = group;
        if slice.count > Self::SPARSE_MAX {
            self.dense += 1;
            self.dense_elements += slice.count;
            self.dense_places += slice.span.next_power_of_two().clamp(Self::PLACES_MIN, SLICE);
        } else {
            self.sparse_places += match slice.count {
                0..=4 => 4,
                5..=8 => 8,
                _ => Self::SPARSE_MAX,
            };
        }
    }

    fn is_grouped(&self) -> bool {
        self.last >= Self::GROUP
    }

    fn directory_size(&self) -> u64 {
        if self.is_grouped() {
            self.groups.next_power_of_two().max(4)
        } else {
            (self.last + 1).next_power_of_two()
        }
    }
}

pub(super) fn arinfo(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let is_full = match args.len() {
        2 => false,
        3 if parse::is(args.at(2), "FULL") => true,
        _ => return Err(Error::SYNTAX),
    };
    let array = access.collection::<Array>(args.at(1))?.ok_or(Error::NO_SUCH_KEY)?;
    let layout = Layout::of(array);
    let next = array.cursor().map_or(0, |cursor| cursor + 1);
    let figures = [
        ("count", array.count()),
        ("len", array.len()),
        ("next-insert-index", if next == INDEX_END { 0 } else { next }),
        ("slices", layout.slices),
        ("directory-size", layout.directory_size()),
        ("super-dir-entries", if layout.is_grouped() { layout.groups } else { 0 }),
        ("slice-size", SLICE),
    ];
    reply.map(if is_full { 12 } else { figures.len() });
    for (name, figure) in figures {
        reply.bulk(name.as_bytes());
        reply.unsigned(figure);
    }
    if !is_full {
        return Ok(());
    }
    let sparse = layout.slices - layout.dense;
    let average = |sum: u64, count: u64| if count == 0 { 0.0 } else { sum as f64 / count as f64 };
    for (name, figure) in [("dense-slices", layout.dense), ("sparse-slices", sparse)] {
        reply.bulk(name.as_bytes());
        reply.unsigned(figure);
    }
    for (name, figure) in [
        ("avg-dense-size", average(layout.dense_places, layout.dense)),
        ("avg-dense-fill", average(layout.dense_elements, layout.dense_places)),
        ("avg-sparse-size", average(layout.sparse_places, sparse)),
    ] {
        reply.bulk(name.as_bytes());
        reply.double(figure);
    }
    Ok(())
}
