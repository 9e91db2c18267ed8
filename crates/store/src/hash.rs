//! Hashes.

use std::collections::HashMap;

/// A map of byte strings.
#[derive(Clone, Debug, Default)]
pub struct Hash(HashMap<Box<[u8]>, Box<[u8]>>);

impl Hash {
    /// An empty hash.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes taken.
    pub fn memory_usage(&self) -> usize {
        self.0.iter().map(|(field, value)| field.len() + value.len() + 32).sum()
    }
}
