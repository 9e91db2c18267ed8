//! Sorted sets.

use std::collections::BTreeMap;

use crate::EncodingLimits;

/// A set of byte strings with a score each, in the order of their scores and, where these are equal, of their bytes.
#[derive(Clone, Debug, Default)]
pub struct SortedSet(BTreeMap<Box<[u8]>, f64>);

impl SortedSet {
    /// An empty sorted set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name that OBJECT ENCODING replies.
    pub fn encoding(&self) -> &'static str {
        "listpack"
    }

    /// Gives a member a score, which must not be NaN. True if the member is new.
    pub fn insert(&mut self, member: &[u8], score: f64, _limits: &EncodingLimits) -> bool {
        self.0.insert(member.into(), score).is_none()
    }

    /// The score of a member.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.0.get(member).copied()
    }

    /// Removes a member and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        self.0.remove(member)
    }

    /// All members with their scores, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], f64)> + ExactSizeIterator {
        let mut all: Vec<(&[u8], f64)> = self.0.iter().map(|(member, score)| (&**member, *score)).collect();
        all.sort_by(|left, right| left.1.total_cmp(&right.1).then(left.0.cmp(right.0)));
        all.into_iter()
    }

    /// Bytes taken.
    pub fn memory_usage(&self) -> usize {
        self.0.keys().map(|member| member.len() + 24).sum()
    }
}
