//! Commands on arrays.

use mantissa_protocol::{Args, Reply};
use mantissa_store::json::{Fragment, View};

use super::change::{Change, check_depth};
use super::get::{Format, write_expanded};
use super::query::{each_match, first_match};
use super::scalar::values;
use super::{
    Access, Error, Outcome, at_least, change_present, integer, no_path, no_such, optional_path, parse_whole,
    path_at, path_or_root, read, wrong_path_type,
};

const NOT_AN_ARRAY: &str = "not an array";

const fn change(event: &'static str, names_original: bool) -> Change<'static> {
    Change { event, fits: &|value| value.is_array(), unfit: NOT_AN_ARRAY, names_original, added_bytes: 0 }
}

/// The same for a command that adds these values to each array.
fn addition(event: &'static str, names_original: bool, values: &[Fragment]) -> Change<'static> {
    let added_bytes = values.iter().map(|value| value.view().memory_usage()).sum();
    Change { added_bytes, ..change(event, names_original) }
}

fn write_len(reply: &mut Reply, len: &usize) {
    reply.integer(*len as i64);
}

pub(super) fn arrappend(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(4, args, "json.arrappend")?;
    let path = path_at(args, 2)?;
    let values = values(args.from(3))?;
    addition("json.arrappend", true, &values).run_and_reply(
        access,
        (args.at(1), &path),
        reply,
        &mut |document, place| {
            check_depth(place)?;
            let len = document.at(place).map_or(0, View::len);
            document.insert(place, len, &values)?;
            Ok(len + values.len())
        },
        &write_len,
    )
}

/// Where a value is inserted into an array, if that is possible.
fn insertion(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add_unsigned(len as u64)? } else { index };
    usize::try_from(index).ok().filter(|&index| index <= len)
}

pub(super) fn arrinsert(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(4, args, "json.arrinsert")?;
    let key = args.at(1);
    let path = path_at(args, 2)?;
    let index = integer(args.at(3))?;
    at_least(5, args, "json.arrinsert")?;
    let values = values(args.from(4))?;
    let mut is_outside = false;
    path.visit(change_present(access, key)?.root(), |_, value| {
        is_outside |= value.is_array() && insertion(index, value.len()).is_none();
        std::ops::ControlFlow::Continue(())
    })?;
    if is_outside {
        return Err(Error::fixed("ERR index out of bounds"));
    }
    addition("json.arrinsert", false, &values).run_and_reply(
        access,
        (key, &path),
        reply,
        &mut |document, place| {
            check_depth(place)?;
            let len = document.at(place).map_or(0, View::len);
            document.insert(place, insertion(index, len).unwrap_or(len), &values)?;
            Ok(len + values.len())
        },
        &write_len,
    )
}

/// JSON.ARRPOP key [FORMAT format] [path [index]]
pub(super) fn arrpop(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(2, args, "json.arrpop")?;
    let (mut format, mut at) = (None, 2);
    if args.len() > 3 && args.at(2).eq_ignore_ascii_case(b"FORMAT") {
        let wrong = || Error::fixed("ERR wrong reply format");
        let wanted = Format::parse(args.at(3)).filter(|format| *format != Format::Text).ok_or_else(wrong)?;
        if !reply.is_resp3() {
            return Err(Format::NEEDS_RESP3);
        }
        (format, at) = (Some(wanted), 4);
    }
    let path = path_or_root(args, at)?;
    let index = args.get(at + 1).and_then(|index| integer(index).ok()).unwrap_or(-1);
    // As in RedisJSON, an empty array counts as changed where a legacy path leads to it.
    let has_last = |value: View<'_>| value.is_array() && (path.is_legacy || !value.is_empty());
    Change { fits: &has_last, ..change("json.arrpop", false) }.run_and_reply(
        access,
        (args.at(1), &path),
        reply,
        &mut |document, place| {
            let array = document.at(place).filter(|array| !array.is_empty());
            let Some(last) = array.and_then(|array| array.len().checked_sub(1)) else { return Ok(None) };
            let index = super::select::index_of(index, last + 1).unwrap_or(last);
            let popped = array.and_then(|array| array.child(index)).map(Fragment::of);
            document.remove(place, index, 1);
            Ok(popped)
        },
        &|reply, popped| match (popped, format) {
            (None, _) => reply.null(),
            (Some(popped), Some(format)) => write_expanded(popped.view(), format, reply),
            (Some(popped), None) => {
                let mut text = Vec::new();
                popped.view().write(&mut text);
                reply.bulk(&text);
            }
        },
    )
}

pub(super) fn arrtrim(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(4, args, "json.arrtrim")?;
    let path = path_at(args, 2)?;
    let start = integer(args.at(3))?;
    at_least(5, args, "json.arrtrim")?;
    let stop = integer(args.at(4))?;
    change("json.arrtrim", false).run_and_reply(
        access,
        (args.at(1), &path),
        reply,
        &mut |document, place| {
            let len = document.at(place).map_or(0, View::len);
            let from_end =
                |index: i64| if index < 0 { index.saturating_add(len as i64).max(0) } else { index };
            let start = usize::try_from(from_end(start)).unwrap_or(usize::MAX);
            let stop = usize::try_from(from_end(stop)).unwrap_or(usize::MAX).min(len.saturating_sub(1));
            let (from, to) = if start >= len || start > stop { (0, 0) } else { (start, stop + 1) };
            document.remove(place, to, len - to);
            document.remove(place, 0, from);
            Ok(to - from)
        },
        &write_len,
    )
}

pub(super) fn arrlen(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(2, args, "json.arrlen")?;
    let path = optional_path(args, 2);
    let Some(document) = read(access, args.at(1))? else {
        return super::query::missing_key(&path, reply, super::NO_KEY);
    };
    path.check()?;
    if path.is_legacy {
        let value = path.first(document.root())?.ok_or_else(|| no_path(path.original()))?;
        if !value.is_array() {
            return Err(no_such(path.original(), NOT_AN_ARRAY));
        }
        reply.integer(value.len() as i64);
        return Ok(());
    }
    each_match(document, &path, reply, |value, reply| match value.is_array() {
        true => reply.integer(value.len() as i64),
        false => reply.null(),
    })
}

/// The part of an array of `len` elements that JSON.ARRINDEX looks at.
fn searched(start: i64, end: i64, len: usize) -> std::ops::Range<usize> {
    let len = len as i64;
    let start = if start < 0 { len.saturating_add(start).max(0) } else { start.min((len - 1).max(0)) };
    let end = match end {
        0 => len,
        end if end < 0 => len.saturating_add(end).max(0),
        end => end.min(len),
    };
    start as usize..(end as usize).max(start as usize)
}

/// JSON.ARRINDEX key path value [start [stop]]
pub(super) fn arrindex(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(4, args, "json.arrindex")?;
    let path = path_at(args, 2)?;
    let bound = |index: usize| args.get(index).map_or(Ok(0), integer);
    let (start, end) = (bound(4)?, bound(5)?);
    if args.len() > 6 {
        return Err(Error::arity("json.arrindex"));
    }
    let wanted = parse_whole(args.at(3))?;
    let document = read(access, args.at(1))?.ok_or_else(|| no_path(path.original()))?;
    let index_in = |array: View<'_>| {
        let range = searched(start, end, array.len());
        let mut elements = range.clone().zip(array.elements_from(range.start));
        let found = elements.find(|(_, element)| element.is_same(wanted.view()));
        found.map_or(-1, |(index, _)| index as i64)
    };
    path.check()?;
    if path.is_legacy {
        let value = first_match(document, &path)?;
        if !value.is_array() {
            return Err(wrong_path_type("array", super::type_name(value)));
        }
        reply.integer(index_in(value));
        return Ok(());
    }
    each_match(document, &path, reply, |value, reply| match value.is_array() {
        true => reply.integer(index_in(value)),
        false => reply.null(),
    })
}
