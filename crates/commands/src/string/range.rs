//! Parts of strings: APPEND, GETRANGE, SETRANGE and the length.

use std::ops::{Range, RangeInclusive};

use mantissa_protocol::{Args, Reply};

use crate::DataSpec;
use crate::access::{Access, NewExpiry};
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::packed::packs_text;
use crate::parse;
use crate::settings::Settings;
use crate::spec::{Categories, Flags, Group, KeyFlags, KeySpec, Traits};

/// The range from `start` to `end`, both included and counted from the end where negative, in a string of
/// `len` bytes (or bits); `None` if it is empty.
pub(crate) fn index_range(start: i64, end: i64, len: u64) -> Option<RangeInclusive<u64>> {
    if start < 0 && end < 0 && start > end {
        return None;
    }
    let from_end = |index: i64| match u64::try_from(index) {
        Ok(index) => index,
        Err(_) => len.saturating_sub(index.unsigned_abs()),
    };
    let (start, end) = (from_end(start), from_end(end).min(len.checked_sub(1)?));
    (start <= end).then_some(start..=end)
}

/// The same as a range without its end, 0 to 0 if it is empty.
pub(crate) fn bytes_between(start: i64, end: i64, len: u64) -> Range<u64> {
    index_range(start, end, len).map_or(0..0, |range| *range.start()..*range.end() + 1)
}

/// Checks the length that a string would have after it grew to `len + more` bytes.
fn check_length(settings: &Settings, len: u64, more: u64) -> Outcome {
    match len.checked_add(more) {
        Some(total) if total <= settings.string_bytes_max => Ok(()),
        _ => Err(Error::STRING_TOO_LONG),
    }
}

fn append(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, more) = (args.at(1), args.at(2));
    let settings = access.settings();
    let len = match access.find_mut(key) {
        Some(entry) => {
            let len = entry.as_string().ok_or(Error::WRONG_TYPE)?.len();
            check_length(settings, len as u64, more.len() as u64)?;
            let text = entry.text_mut().ok_or(Error::WRONG_TYPE)?;
            text.append(more);
            text.len()
        }
        None => {
            access.set_string(key, more, NewExpiry::Clear)?;
            more.len()
        }
    };
    access.modified(key, EventClass::STRING, "append");
    reply.integer(len as i64);
    Ok(())
}

fn strlen(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let len = access.read(args.at(1)).map_or(Some(0), |entry| entry.string_len());
    let len = len.ok_or(Error::WRONG_TYPE)?;
    reply.integer(len as i64);
    Ok(())
}

fn getrange(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (start, end) = (parse::integer(args.at(2))?, parse::integer(args.at(3))?);
    let mut digits = [0; 20];
    reply.bulk(access.string_part(args.at(1), &mut digits, |len| bytes_between(start, end, len))?);
    Ok(())
}

/// What GETRANGE reads.
fn part_of_getrange(args: Args<'_>, _: &Settings, len: u64) -> Option<Range<u64>> {
    let (start, end) = (parse::integer(args.at(2)).ok()?, parse::integer(args.at(3)).ok()?);
    Some(bytes_between(start, end, len))
}

fn setrange(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, part) = (args.at(1), args.at(3));
    let offset = parse::integer(args.at(2))?;
    let offset = u64::try_from(offset).map_err(|_| Error::fixed("ERR offset is out of range"))?;
    let settings = access.settings();
    let len = match access.find_mut(key) {
        Some(entry) => entry.as_string().ok_or(Error::WRONG_TYPE)?.len(),
        None => 0,
    };
    if part.is_empty() {
        reply.integer(len as i64);
        return Ok(());
    }
    check_length(settings, offset, part.len() as u64)?;
    let text = access.text_or_new(key)?;
    text.overwrite(offset as usize, part);
    let len = text.len();
    access.modified(key, EventClass::STRING, "setrange");
    reply.integer(len as i64);
    Ok(())
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("append", 3, append, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::INSERT))])
        .docs(
            Group::String,
            "2.0.0",
            "O(M) for M appended bytes, amortized",
            "Adds bytes to the end of a string.",
        )
        .arguments("key:key#0 value:string"),
    DataSpec::new("strlen", 2, strlen, Flags::READONLY.or(Flags::FAST))
        .traits(Traits::LEAVES_VALUES)
        .packed(packs_text!(strlen))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .docs(Group::String, "2.2.0", "O(1)", "Counts the bytes of a string.")
        .arguments("key:key#0"),
    DataSpec::new("getrange", 4, getrange, Flags::READONLY)
        .part_of(part_of_getrange)
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::String, "2.4.0", "O(N) for N returned bytes", "Reads a part of a string.")
        .arguments("key:key#0 start:integer end:integer"),
    DataSpec::new("substr", 4, getrange, Flags::READONLY)
        .part_of(part_of_getrange)
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::String, "1.0.0", "O(N) for N returned bytes", "Reads a part of a string.")
        .deprecated("2.0.0", "GETRANGE")
        .arguments("key:key#0 start:integer end:integer"),
    DataSpec::new("setrange", 4, setrange, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(
            Group::String,
            "2.2.0",
            "O(M) for M written bytes",
            "Overwrites a part of a string, padding it with zero bytes where needed.",
        )
        .arguments("key:key#0 offset:integer value:string"),
];
