//! Places between the members of a sorted set.

use std::cmp::Ordering;

/// A place between members: everything is either before it or after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Boundary<'a> {
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

impl Boundary<'_> {
    /// How a score lies to the place: `Equal` if the members with this score may be on both sides of it.
    #[inline]
    pub(super) fn order(self, score: f64) -> Ordering {
        let is_before = match self {
            Boundary::Start => false,
            Boundary::End => true,
            Boundary::BelowScore(bound) => score < bound,
            Boundary::AboveScore(bound) => score <= bound,
            Boundary::BelowMember(_) | Boundary::AboveMember(_) => return Ordering::Equal,
            Boundary::BelowEntry(bound, _) if score == bound => return Ordering::Equal,
            Boundary::BelowEntry(bound, _) => score < bound,
        };
        if is_before { Ordering::Less } else { Ordering::Greater }
    }

    /// The member that decides among those whose scores do not.
    #[inline]
    pub(super) fn member(&self) -> &[u8] {
        match self {
            Boundary::BelowMember(member)
            | Boundary::AboveMember(member)
            | Boundary::BelowEntry(_, member) => member,
            Boundary::Start | Boundary::End | Boundary::BelowScore(_) | Boundary::AboveScore(_) => b"",
        }
    }

    /// Whether the place is after a member with this score. The member is asked for only if it matters.
    #[inline]
    pub(super) fn is_after<'m>(self, score: f64, member: impl FnOnce() -> &'m [u8]) -> bool {
        match self {
            Boundary::Start => false,
            Boundary::End => true,
            Boundary::BelowScore(bound) => score < bound,
            Boundary::AboveScore(bound) => score <= bound,
            Boundary::BelowMember(bound) => member() < bound,
            Boundary::AboveMember(bound) => member() <= bound,
            Boundary::BelowEntry(bound, text) => score < bound || (score == bound && member() < text),
        }
    }
}
