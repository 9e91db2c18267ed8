//! Lists.

use std::collections::VecDeque;

use crate::EncodingLimits;
use crate::listpack::Element;

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

    /// The name that OBJECT ENCODING replies.
    pub fn encoding(&self) -> &'static str {
        "listpack"
    }

    /// Adds an element at the tail.
    pub fn push_back(&mut self, element: &[u8], _limits: &EncodingLimits) {
        self.0.push_back(element.into());
    }

    /// Adds an element at the head.
    pub fn push_front(&mut self, element: &[u8], _limits: &EncodingLimits) {
        self.0.push_front(element.into());
    }

    /// The element at a place counted from the head.
    pub fn get(&self, index: usize) -> Option<Element<'_>> {
        self.0.get(index).map(|element| Element::Bytes(element))
    }

    /// All elements from head to tail.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Element<'_>> + ExactSizeIterator {
        self.0.iter().map(|element| Element::Bytes(element))
    }

    /// Bytes taken.
    pub fn memory_usage(&self) -> usize {
        self.0.iter().map(|element| element.len() + 16).sum()
    }
}
