//! Reading lists: LLEN, LINDEX, LRANGE, LPOS.

use mantissa_protocol::packed::PackedWriter;
use mantissa_protocol::{Args, Reply};
use mantissa_store::cold::Elements;
use mantissa_store::{List, ListIter, Sought};

use super::{range_of, write_element};
use crate::access::Access;
use crate::access::selected::Window;
use crate::error::{Error, Outcome};
use crate::{packed, parse};

pub(super) fn llen(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let len = access.window::<List>(args.at(1))?.map_or(0, |list| list.len);
    reply.integer(len as i64);
    Ok(())
}

pub(super) fn lindex(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let Some(window) = access.window::<List>(args.at(1))? else {
        reply.null();
        return Ok(());
    };
    let index = parse::integer(args.at(2))?;
    let place = if index < 0 { index.saturating_add(window.len as i64) } else { index };
    let place = usize::try_from(place).ok().and_then(|place| place.checked_sub(window.first));
    match place.and_then(|place| window.collection.get(place)) {
        Some(element) => write_element(reply, element),
        None => reply.null(),
    }
    Ok(())
}

pub(super) fn lrange(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (start, stop) = (parse::integer(args.at(2))?, parse::integer(args.at(3))?);
    let Some(window) = access.window::<List>(args.at(1))? else {
        reply.array(0);
        return Ok(());
    };
    let elements = range_in(&window, start, stop);
    reply.array(elements.len());
    for element in elements {
        write_element(reply, element);
        reply.stream();
    }
    Ok(())
}

/// The elements of a range.
fn range_in<'a>(window: &Window<'a, List>, start: i64, stop: i64) -> ListIter<'a> {
    let (from, to) = range_of(start, stop, window.len);
    let (first, last) = (window.first, window.first + window.collection.len());
    window.collection.range(from.clamp(first, last) - first, to.clamp(first, last) - first)
}

/// The elements that LRANGE reads.
pub(super) fn elements_of_lrange(args: Args<'_>) -> Option<Elements> {
    Some(Elements::Places(parse::integer(args.at(2)).ok()?, parse::integer(args.at(3)).ok()?))
}

/// The element that LINDEX reads.
pub(super) fn element_of_lindex(args: Args<'_>) -> Option<Elements> {
    let place = parse::integer(args.at(2)).ok()?;
    Some(Elements::Places(place, place))
}

pub(super) fn pack_lrange(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    let (start, stop) = (parse::integer(args.at(2))?, parse::integer(args.at(3))?);
    let Some(window) = access.window::<List>(args.at(1))? else { return Ok(()) };
    let elements = range_in(&window, start, stop);
    writer.reserve(elements.len());
    for element in elements {
        packed::write_element(writer, element);
    }
    Ok(())
}

/// The options of LPOS.
struct Search {
    /// Which match is the first to count.
    rank: u64,
    from_tail: bool,
    /// How many matches to reply, 0 for all; `None` replies just the first, not in an array.
    count: Option<u64>,
    /// How many elements to look at, 0 for all.
    elements_max: u64,
}

impl Search {
    fn parse(args: Args<'_>) -> Outcome<Search> {
        let mut search = Search { rank: 1, from_tail: false, count: None, elements_max: 0 };
        let mut at = 3;
        while let Some(option) = args.get(at) {
            let value = args.get(at + 1).ok_or(Error::SYNTAX)?;
            if parse::is(option, "RANK") {
                match parse::negatable(value)? {
                    0 => return Err(Error::fixed(RANK_IS_ZERO)),
                    rank => (search.rank, search.from_tail) = (rank.unsigned_abs(), rank < 0),
                }
            } else if parse::is(option, "COUNT") {
                let count = parse::integer_in(value, 0, i64::MAX, "ERR COUNT can't be negative")?;
                search.count = Some(count.unsigned_abs());
            } else if parse::is(option, "MAXLEN") {
                let count = parse::integer_in(value, 0, i64::MAX, "ERR MAXLEN can't be negative")?;
                search.elements_max = count.unsigned_abs();
            } else {
                return Err(Error::SYNTAX);
            }
            at += 2;
        }
        Ok(search)
    }
}

const RANK_IS_ZERO: &str = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second \
                            ... or use negative to start from the end of the list";

pub(super) fn lpos(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let search = Search::parse(args)?;
    let Some(list) = access.list(args.at(1))? else {
        match search.count {
            Some(_) => reply.array(0),
            None => reply.null(),
        }
        return Ok(());
    };
    let sought = Sought::new(args.at(2));
    let len = list.len();
    let seen_max = match search.elements_max {
        0 => len,
        max => usize::try_from(max).unwrap_or(len).min(len),
    };
    let skipped = usize::try_from(search.rank - 1).unwrap_or(usize::MAX);
    let wanted = match search.count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
    };
    let array = search.count.map(|_| reply.defer());
    let (mut matched, mut found) = (0_usize, 0_usize);
    let mut look = |place: usize, element| {
        if sought.is(element) {
            matched += 1;
            if matched > skipped {
                found += 1;
                reply.integer(place as i64);
            }
        }
        found < wanted
    };
    if search.from_tail {
        let mut elements = list.range(len - seen_max, len).rev().enumerate();
        elements.all(|(place, element)| look(len - 1 - place, element));
    } else {
        let mut elements = list.range(0, seen_max).enumerate();
        elements.all(|(place, element)| look(place, element));
    }
    match array {
        Some(array) => reply.finish_array(array, found),
        None if found == 0 => reply.null(),
        None => {}
    }
    Ok(())
}
