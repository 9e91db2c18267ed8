//! Sets.

use std::collections::HashSet;

use crate::EncodingLimits;
use crate::listpack::Element;

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

    /// The name that OBJECT ENCODING replies.
    pub fn encoding(&self) -> &'static str {
        "hashtable"
    }

    /// Adds a member; false if it is there already.
    pub fn add(&mut self, member: &[u8], _limits: &EncodingLimits) -> bool {
        self.0.insert(member.into())
    }

    /// All members; those that are stored as integers come as such.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Element<'_>> {
        self.0.iter().map(|member| Element::Bytes(member))
    }

    /// Whether a member is there.
    pub fn contains(&self, member: &[u8]) -> bool {
        self.0.contains(member)
    }

    /// Bytes taken.
    pub fn memory_usage(&self) -> usize {
        self.0.iter().map(|member| member.len() + 16).sum()
    }
}
