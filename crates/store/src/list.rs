//! Lists.

use std::collections::VecDeque;

/// A list of byte strings.
#[derive(Clone, Debug, Default)]
pub struct List(VecDeque<Box<[u8]>>);

impl List {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an element at the tail.
    pub fn push_back(&mut self, element: &[u8]) {
        self.0.push_back(element.into());
    }

    /// Adds an element at the head.
    pub fn push_front(&mut self, element: &[u8]) {
        self.0.push_front(element.into());
    }

    /// All elements from head to tail.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        self.0.iter().map(|element| &element[..])
    }

    /// Bytes taken.
    pub fn memory_usage(&self) -> usize {
        self.0.iter().map(|element| element.len() + 16).sum()
    }
}
