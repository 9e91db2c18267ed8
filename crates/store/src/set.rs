//! Sets.

use std::collections::HashSet;

/// A set of byte strings.
#[derive(Clone, Debug, Default)]
pub struct Set(HashSet<Box<[u8]>>);

impl Set {
    /// An empty set.
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

    /// All members.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.0.iter().map(|member| &member[..])
    }

    /// Bytes taken.
    pub fn memory_usage(&self) -> usize {
        self.0.iter().map(|member| member.len() + 16).sum()
    }
}
