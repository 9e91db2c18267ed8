//! Which calls may read much of a value, so that they read an image of it and hold no lock meanwhile.
//!
//! An image costs some hundred instructions, and writers copy what they change while it is there: calls that
//! read little are better off under the lock.

use mantissa_protocol::Args;

use crate::parse;

/// Ranks from one bound to the other that are read under the lock.
const RANKS_MAX: i64 = 256;

/// Any call.
pub fn always(_: Args<'_>) -> bool {
    true
}

/// Ranks from argument 2 to argument 3. The length is not known: a bound that counts from the end may be
/// anywhere.
pub fn many_ranks(args: Args<'_>) -> bool {
    let bound = |index| args.get(index).and_then(|bound| parse::integer(bound).ok());
    let (Some(start), Some(end)) = (bound(2), bound(3)) else { return false };
    (start < 0) != (end < 0) || end.saturating_sub(start) > RANKS_MAX
}

/// Indexes of an array from argument 2 to argument 3, unless a LIMIT keeps what is read within bounds.
pub fn many_indexes(args: Args<'_>) -> bool {
    let index = |at| args.get(at).and_then(parse::unsigned);
    let has_limit = args.get(4).is_some_and(|word| parse::is(word, "LIMIT"));
    let limit = if has_limit { args.get(5).and_then(parse::unsigned) } else { None };
    let (Some(start), Some(end)) = (index(2), index(3)) else { return false };
    start.abs_diff(end).min(limit.unwrap_or(u64::MAX)) > RANKS_MAX.unsigned_abs()
}

/// The last items of an array, as many as argument 2 says.
pub fn many_items(args: Args<'_>) -> bool {
    args.get(2).and_then(|count| parse::integer(count).ok()).is_some_and(|count| count > RANKS_MAX)
}

/// Elements picked at random with repetition, as many as argument 2 says.
pub fn many_picks(args: Args<'_>) -> bool {
    args.get(2).and_then(|count| parse::integer(count).ok()).is_some_and(|count| count < -RANKS_MAX)
}

/// A step of a scan whose COUNT, somewhere from argument 3 on, is large.
pub fn many_scanned(args: Args<'_>) -> bool {
    let counts = (3..args.len()).filter(|&at| parse::is(args.at(at), "COUNT"));
    let mut counts = counts.filter_map(|at| parse::integer(args.get(at + 1)?).ok());
    counts.any(|count| count > RANKS_MAX)
}

/// A range of scores, names, IDs or times, from argument 2 to argument 3, of which nothing keeps the length
/// within bounds.
pub fn no_limit(args: Args<'_>) -> bool {
    let word_at = |name| (4..args.len()).find(|&at| parse::is(args.at(at), name));
    let number = match (word_at("COUNT"), word_at("LIMIT")) {
        (Some(at), _) => args.get(at + 1),
        (None, Some(at)) => args.get(at + 2),
        (None, None) => return args.get(2) != args.get(3),
    };
    let number = number.and_then(|number| parse::integer(number).ok());
    number.is_some_and(|number| !(0..=RANKS_MAX).contains(&number))
}

/// TS.RANGE, unless it looks at the series that a compaction is made of.
pub fn samples(args: Args<'_>) -> bool {
    no_limit(args) && !args.iter().skip(1).any(|word| parse::is(word, "LATEST"))
}

/// ZRANGE, by ranks or not.
pub fn zrange(args: Args<'_>) -> bool {
    let is_by = |word: &[u8]| parse::is(word, "BYSCORE") || parse::is(word, "BYLEX");
    if args.iter().skip(4).any(is_by) { no_limit(args) } else { many_ranks(args) }
}

/// Paths of which one leads to the whole document, or to what only a walk through it finds.
pub fn wide_paths(args: Args<'_>) -> bool {
    let is_root = |path: &[u8]| path == b"$" || path == b".";
    let walks =
        |path: &[u8]| path.contains(&b'?') || path.contains(&b'*') || path.windows(2).any(|two| two == b"..");
    args.len() == 2 || args.iter().skip(2).any(|path| is_root(path) || walks(path))
}
