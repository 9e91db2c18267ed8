//! Finding the keys among a command's arguments, from its key specifications.

use std::ops::Range;

use mantissa_protocol::Args;
use smallvec::SmallVec;

use crate::spec::{BeginSearch, FindKeys, Info, KeyFlags};

/// A key's place among the arguments, with what is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPosition {
    /// The argument's index.
    pub index: usize,
    /// What is done with it.
    pub flags: KeyFlags,
}

/// The places of the keys, in the order of the specifications.
pub type KeyPositions = SmallVec<[KeyPosition; 4]>;

/// The arguments do not have the form that the key specifications ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidArguments;

/// Finds the keys of a call. A call that is too malformed to find them gives an error; running it gives the
/// proper one.
pub fn find_keys(info: &Info, args: Args<'_>) -> Result<KeyPositions, InvalidArguments> {
    let mut found = KeyPositions::new();
    for spec in info.keys {
        let Some(first) = begin(&spec.begin, args) else { continue };
        let mut add = |index: usize| {
            if !spec.flags.has(KeyFlags::NOT_KEY) {
                found.push(KeyPosition { index, flags: spec.flags });
            }
        };
        match spec.find {
            FindKeys::Range { last, step, limit } => {
                let last = last_of_range(first, last, limit, args.len());
                (first..=last).step_by(step.max(1) as usize).for_each(&mut add);
            }
            FindKeys::Count { count_index, first: offset, step } => {
                let count = args.get(first + count_index as usize).and_then(mantissa_number::parse_i64);
                let count = count.and_then(|count| usize::try_from(count).ok()).ok_or(InvalidArguments)?;
                let (start, step) = (first + offset as usize, step.max(1) as usize);
                if count > args.len() || (count > 0 && start + (count - 1) * step >= args.len()) {
                    return Err(InvalidArguments);
                }
                (0..count).for_each(|number| add(start + number * step));
            }
            FindKeys::Unknown => {}
        }
    }
    match info.name {
        "migrate" => {
            let flags = found.first().map_or(KeyFlags::NONE, |key| key.flags);
            found.clear();
            found.extend(migrated_keys(args).map(|index| KeyPosition { index, flags }));
        }
        "sort" => found.extend(sort_destination(args)),
        "georadius" | "georadiusbymember" => settle_destination(&mut found, args),
        _ => {}
    }
    Ok(found)
}

/// The key after the last STORE of a SORT, whose options no key specification can tell from their values.
fn sort_destination(args: Args<'_>) -> Option<KeyPosition> {
    let mut at = 2;
    let mut destination = None;
    while let Some(option) = args.get(at) {
        let operands = match &option.to_ascii_uppercase()[..] {
            b"LIMIT" => 2,
            b"GET" | b"BY" => 1,
            b"STORE" => {
                let flags = KeyFlags::OW.or(KeyFlags::UPDATE);
                let given = args.get(at + 1).map(|_| KeyPosition { index: at + 1, flags });
                destination = given.or(destination);
                1
            }
            _ => 0,
        };
        at += 1 + operands;
    }
    destination
}

/// Where the keys of a MIGRATE are: the third argument, or if that is empty all after KEYS. The word may also
/// be a password.
pub fn migrated_keys(args: Args<'_>) -> Range<usize> {
    let mut at = 6;
    while let Some(option) = args.get(at).filter(|_| args.at(3).is_empty()) {
        at += 1 + match &option.to_ascii_uppercase()[..] {
            b"KEYS" => return at + 1..args.len(),
            b"AUTH" => 1,
            b"AUTH2" => 2,
            _ => 0,
        };
    }
    3..4
}

/// The key that a GEORADIUS stores to: the one after the last STORE or STOREDIST. The key specifications find
/// the first of each.
fn settle_destination(found: &mut KeyPositions, args: Args<'_>) {
    let mut at = 5;
    let mut destination = None;
    while let Some(option) = args.get(at) {
        if option.eq_ignore_ascii_case(b"STORE") || option.eq_ignore_ascii_case(b"STOREDIST") {
            destination = args.get(at + 1).map(|_| at + 1).or(destination);
            at += 1;
        }
        at += 1;
    }
    let flags = KeyFlags::OW.or(KeyFlags::UPDATE);
    let is_found = |index: &usize| found.iter().any(|key| key.index == *index);
    if let Some(index) = destination.filter(|index| !is_found(index)) {
        found.push(KeyPosition { index, flags });
    }
}

/// What is done with a key that [`find_keys`] has found in these arguments. The flags of two commands depend
/// on their other arguments: SET reads with the option GET, and BITFIELD writes unless all that it does is
/// GET.
pub fn key_flags(info: &Info, key: &KeyPosition, args: Args<'_>) -> KeyFlags {
    if !key.flags.has(KeyFlags::VARIABLE_FLAGS) {
        return key.flags;
    }
    const READS: KeyFlags = KeyFlags::RO.or(KeyFlags::ACCESS);
    const OVERWRITES: KeyFlags = KeyFlags::OW.or(KeyFlags::UPDATE);
    const READS_AND_WRITES: KeyFlags = KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE);
    match info.name {
        "set" if args.from(3).iter().any(|option| option.eq_ignore_ascii_case(b"GET")) => READS_AND_WRITES,
        "set" => OVERWRITES,
        "bitfield" if only_gets(args) => READS,
        _ => READS_AND_WRITES,
    }
}

/// Whether nothing but GET and OVERFLOW is among the operations of a BITFIELD.
fn only_gets(args: Args<'_>) -> bool {
    let mut at = 2;
    while let Some(operation) = args.get(at) {
        let operands = if operation.eq_ignore_ascii_case(b"GET") {
            2
        } else if operation.eq_ignore_ascii_case(b"OVERFLOW") {
            1
        } else {
            return false;
        };
        at += 1 + operands;
    }
    true
}

fn begin(begin: &BeginSearch, args: Args<'_>) -> Option<usize> {
    match *begin {
        BeginSearch::Index(index) => usize::try_from(index).ok().filter(|&index| index < args.len()),
        BeginSearch::Keyword(keyword, from) => {
            let is_keyword = |&index: &usize| args.at(index).eq_ignore_ascii_case(keyword.as_bytes());
            let found = if from >= 0 {
                (from as usize..args.len()).find(is_keyword)
            } else {
                let start = args.len().checked_sub(from.unsigned_abs() as usize)?;
                (1..=start).rev().find(is_keyword)
            };
            found.map(|index| index + 1).filter(|&index| index < args.len())
        }
        BeginSearch::Unknown => None,
    }
}

/// The last argument of a range that starts at `first`. A negative `last` counts from the end of the
/// arguments, or with a
/// `limit` above 1 from the end of the first `1/limit` of them.
fn last_of_range(first: usize, last: i32, limit: i32, argument_count: usize) -> usize {
    if last >= 0 {
        return (first + last as usize).min(argument_count - 1);
    }
    let from_end = last.unsigned_abs() as usize;
    if limit > 1 {
        first + ((argument_count - first) / limit as usize).saturating_sub(from_end)
    } else {
        argument_count.saturating_sub(from_end)
    }
}
