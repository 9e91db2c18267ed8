//! Finding the keys among a command's arguments, from its key specifications.

use mantissa_protocol::Args;

use crate::spec::{BeginSearch, FindKeys, Info, KeyFlags, KeyPosition, KeyPositions};

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
    if let Some(more_keys) = info.more_keys {
        more_keys(args, &mut found);
    }
    Ok(found)
}

/// What is done with a key that [`find_keys`] has found in these arguments.
pub fn key_flags(info: &Info, key: &KeyPosition, args: Args<'_>) -> KeyFlags {
    if !key.flags.has(KeyFlags::VARIABLE_FLAGS) {
        return key.flags;
    }
    const READS_AND_WRITES: KeyFlags = KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE);
    info.key_flags_of.map_or(READS_AND_WRITES, |flags_of| flags_of(args))
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
