//! Sorted sets.

use std::collections::HashMap;

/// A set of byte strings with a score each.
#[derive(Clone, Debug, Default)]
pub struct SortedSet(HashMap<Box<[u8]>, f64>);

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

    /// Bytes taken.
    pub fn memory_usage(&self) -> usize {
        self.0.keys().map(|member| member.len() + 24).sum()
    }
}
