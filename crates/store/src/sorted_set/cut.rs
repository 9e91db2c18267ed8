//! Places between the members of a sorted set.

use std::cmp::Ordering;

/// A place between members: everything is either before it or after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cut<'a> {
    /// Before all members.
    Start,
    /// After all members.
    End,
    /// Before the members with this score.
    BelowScore(f64),
    /// After the members with this score.
    AboveScore(f64),
    /// Before this member, all scores being equal.
    BelowMember(&'a [u8]),
    /// After this member, all scores being equal.
    AboveMember(&'a [u8]),
    /// Before this member with this score.
    BelowEntry(f64, &'a [u8]),
}

impl Cut<'_> {
    /// How a score lies to the place: `Equal` if the members with this score may be on both sides of it.
    #[inline]
    pub(super) fn order(self, score: f64) -> Ordering {
        let is_before = match self {
            Cut::Start => false,
            Cut::End => true,
            Cut::BelowScore(bound) => score < bound,
            Cut::AboveScore(bound) => score <= bound,
            Cut::BelowMember(_) | Cut::AboveMember(_) => return Ordering::Equal,
            Cut::BelowEntry(bound, _) if score == bound => return Ordering::Equal,
            Cut::BelowEntry(bound, _) => score < bound,
        };
        if is_before { Ordering::Less } else { Ordering::Greater }
    }

    /// The member that decides among those whose scores do not.
    #[inline]
    pub(super) fn member(&self) -> &[u8] {
        match self {
            Cut::BelowMember(member) | Cut::AboveMember(member) | Cut::BelowEntry(_, member) => member,
            Cut::Start | Cut::End | Cut::BelowScore(_) | Cut::AboveScore(_) => b"",
        }
    }

    /// Whether the place is after a member with this score. The member is asked for only if it matters.
    #[inline]
    pub(super) fn is_after<'m>(self, score: f64, member: impl FnOnce() -> &'m [u8]) -> bool {
        match self {
            Cut::Start => false,
            Cut::End => true,
            Cut::BelowScore(bound) => score < bound,
            Cut::AboveScore(bound) => score <= bound,
            Cut::BelowMember(bound) => member() < bound,
            Cut::AboveMember(bound) => member() <= bound,
            Cut::BelowEntry(bound, text) => score < bound || (score == bound && member() < text),
        }
    }
}
