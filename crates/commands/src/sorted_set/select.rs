//! What a range of a sorted set is: by rank, by score or by member.

use std::ops::Range;

use mantissa_store::cold::{Elements, Scores};
use mantissa_store::{Boundary, SortedSet, SortedSetIter};

use crate::error::{Error, Outcome};
use crate::parse;

/// Above this number of members a set is never walked from one end to find members in a range.
const WALKED_MAX: usize = 1024;

/// An end of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ScoreBound {
    score: f64,
    is_exclusive: bool,
}

impl ScoreBound {
    fn parse(argument: &[u8]) -> Outcome<Self> {
        let (text, is_exclusive) = match argument.strip_prefix(b"(") {
            Some(rest) => (rest, true),
            None => (argument, false),
        };
        match mantissa_number::parse_score_bound(text) {
            Some(score) => Ok(ScoreBound { score, is_exclusive }),
            None => Err(Error::fixed("ERR min or max is not a float")),
        }
    }

    /// The place where scores from this lower end on begin.
    fn lower_boundary(self) -> Boundary<'static> {
        match self {
            ScoreBound { score: f64::NEG_INFINITY, is_exclusive: false } => Boundary::Start,
            ScoreBound { score, is_exclusive: false } => Boundary::BelowScore(score),
            ScoreBound { score, is_exclusive: true } => Boundary::AboveScore(score),
        }
    }

    /// The place where scores up to this upper end stop.
    fn upper_boundary(self) -> Boundary<'static> {
        match self {
            ScoreBound { score: f64::INFINITY, is_exclusive: false } => Boundary::End,
            ScoreBound { score, is_exclusive: false } => Boundary::AboveScore(score),
            ScoreBound { score, is_exclusive: true } => Boundary::BelowScore(score),
        }
    }
}

/// An end of a range of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberBound<'a> {
    Lowest,
    Highest,
    Inclusive(&'a [u8]),
    Exclusive(&'a [u8]),
}

impl<'a> MemberBound<'a> {
    fn parse(argument: &'a [u8]) -> Outcome<Self> {
        match argument {
            [b'-'] | [b'-', 0, ..] => Ok(MemberBound::Lowest),
            [b'+'] | [b'+', 0, ..] => Ok(MemberBound::Highest),
            [b'[', member @ ..] => Ok(MemberBound::Inclusive(member)),
            [b'(', member @ ..] => Ok(MemberBound::Exclusive(member)),
            _ => Err(Error::fixed("ERR min or max not valid string range item")),
        }
    }

    /// Whether a member is not below this lower end.
    fn admits_from_below(self, member: &[u8]) -> bool {
        match self {
            MemberBound::Lowest => true,
            MemberBound::Highest => false,
            MemberBound::Inclusive(bound) => member >= bound,
            MemberBound::Exclusive(bound) => member > bound,
        }
    }

    /// Whether a member is not above this upper end.
    fn admits_from_above(self, member: &[u8]) -> bool {
        match self {
            MemberBound::Lowest => false,
            MemberBound::Highest => true,
            MemberBound::Inclusive(bound) => member <= bound,
            MemberBound::Exclusive(bound) => member < bound,
        }
    }

    /// The place where members from this lower end on begin.
    fn lower_boundary(self) -> Boundary<'a> {
        match self {
            MemberBound::Lowest => Boundary::Start,
            MemberBound::Highest => Boundary::End,
            MemberBound::Inclusive(bound) => Boundary::BelowMember(bound),
            MemberBound::Exclusive(bound) => Boundary::AboveMember(bound),
        }
    }

    /// The place where members up to this upper end stop.
    fn upper_boundary(self) -> Boundary<'a> {
        match self {
            MemberBound::Lowest => Boundary::Start,
            MemberBound::Highest => Boundary::End,
            MemberBound::Inclusive(bound) => Boundary::AboveMember(bound),
            MemberBound::Exclusive(bound) => Boundary::BelowMember(bound),
        }
    }
}

/// What a range's ends are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Member,
}

/// A range as a command gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Selection<'a> {
    Rank(i64, i64),
    Score(ScoreBound, ScoreBound),
    Member(MemberBound<'a>, MemberBound<'a>),
}

impl<'a> Selection<'a> {
    /// Reads the ends, the lower one first.
    pub fn parse(by: By, low: &'a [u8], high: &'a [u8]) -> Outcome<Self> {
        Ok(match by {
            By::Rank => Selection::Rank(parse::integer(low)?, parse::integer(high)?),
            By::Score => Selection::Score(ScoreBound::parse(low)?, ScoreBound::parse(high)?),
            By::Member => Selection::Member(MemberBound::parse(low)?, MemberBound::parse(high)?),
        })
    }

    /// The elements that a call reads of a set on disk, at most `count` of them. `None` if they are not found
    /// without reading all.
    pub fn elements(self, count: usize, reverse: bool) -> Option<Elements> {
        match self {
            // A place counted from the end is -1 less the place.
            Selection::Rank(start, stop) if reverse => Some(Elements::Places(!stop, !start)),
            Selection::Rank(start, stop) => Some(Elements::Places(start, stop)),
            Selection::Score(low, high) => {
                let low = if low.is_exclusive { low.score.next_up() } else { low.score };
                let high = if high.is_exclusive { high.score.next_down() } else { high.score };
                Some(Elements::Scores(Scores::between(low, high, count, reverse)))
            }
            Selection::Member(..) => None,
        }
    }

    /// The ranks of the members in the range. `reverse` counts a range of ranks from the highest, and is the
    /// direction in which a range of members is looked for.
    pub fn ranks(self, set: &SortedSet, reverse: bool) -> Range<usize> {
        let len = set.len();
        match self {
            Selection::Rank(start, stop) => ranks_of(start, stop, len, reverse),
            Selection::Score(low, high) => set.ranks_between(low.lower_boundary(), high.upper_boundary()),
            Selection::Member(low, high) if is_walked(set) => walk(set, low, high, reverse),
            Selection::Member(low, high) => set.ranks_between(low.lower_boundary(), high.upper_boundary()),
        }
    }

    /// The members in the range, in rising order; see [`Selection::ranks`].
    pub fn members(self, set: &SortedSet, reverse: bool) -> SortedSetIter<'_> {
        match self {
            Selection::Score(low, high) => set.between(low.lower_boundary(), high.upper_boundary()),
            Selection::Member(low, high) if !is_walked(set) => {
                set.between(low.lower_boundary(), high.upper_boundary())
            }
            _ => set.range(self.ranks(set, reverse)),
        }
    }
}

/// The ranks of a range of ranks, which `reverse` counts from the highest.
pub(super) fn ranks_of(start: i64, stop: i64, len: usize, reverse: bool) -> Range<usize> {
    let (from, to) = super::range::rank_range(start, stop, len);
    if reverse { len - to..len - from } else { from..to }
}

/// Whether members in a range are looked for from one end of a set.
fn is_walked(set: &SortedSet) -> bool {
    set.encoding() == "listpack" && set.len() <= WALKED_MAX
}

/// The ranks of the members in a range where scores may differ, so that the members are not in order: those
/// that Redis finds in a listpack, which it walks from one end.
fn walk(set: &SortedSet, low: MemberBound<'_>, high: MemberBound<'_>, reverse: bool) -> Range<usize> {
    let len = set.len();
    let admits_low = |(member, _): (&[u8], f64)| low.admits_from_below(member);
    let admits_high = |(member, _): (&[u8], f64)| high.admits_from_above(member);
    let touches = set.get(len.wrapping_sub(1)).is_some_and(admits_low) && set.get(0).is_some_and(admits_high);
    if !touches || is_void(low, high) {
        return 0..0;
    }
    if reverse {
        let to = set.iter().rev().position(admits_high).map_or(0, |from_end| len - from_end);
        let count = set.range(0..to).rev().take_while(|&entry| admits_low(entry)).count();
        to - count..to
    } else {
        let from = set.iter().position(admits_low).unwrap_or(len);
        let count = set.range(from..len).take_while(|&entry| admits_high(entry)).count();
        from..from + count
    }
}

/// Whether no member can be in a range.
fn is_void(low: MemberBound<'_>, high: MemberBound<'_>) -> bool {
    use MemberBound::{Exclusive, Highest, Inclusive, Lowest};
    match (low, high) {
        (Highest, _) | (_, Lowest) => true,
        (Lowest, _) | (_, Highest) => false,
        (Inclusive(low), Inclusive(high)) => low > high,
        (Inclusive(low) | Exclusive(low), Inclusive(high) | Exclusive(high)) => low >= high,
    }
}
