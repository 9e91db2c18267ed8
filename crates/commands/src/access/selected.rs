//! Elements of collections on disk that were read for a command which needs no others.
//!
//! Such a command gets a collection of those elements in the place of the whole. What it asks by place or by
//! number it asks of a [`Window`].

use mantissa_protocol::Args;
use mantissa_store::cold::{Elements, Selected};
use mantissa_store::{Collection, Entry, ValueRef};

use super::Access;
use crate::error::Outcome;

/// A collection, or what there is of it.
pub struct Window<'a, T> {
    /// All its elements, or those that the command asks for.
    pub collection: &'a T,
    /// The place of the first of them in a list or sorted set.
    pub first: usize,
    /// The number of its elements.
    pub len: usize,
}

impl Access<'_> {
    /// The value of an entry, or those of its elements that were read for the command.
    #[inline]
    pub(super) fn value_of<'s>(&'s self, entry: &'s Entry) -> ValueRef<'s> {
        if let Some(selected) = self.selected_of(entry) {
            return selected.value.borrow();
        }
        entry.value()
    }

    #[inline]
    fn selected_of(&self, entry: &Entry) -> Option<&Selected> {
        Some(entry.selected_in(self.part?)?.1)
    }

    /// The collection of a type at a key, to be read by places and counted.
    pub fn window<T: Collection>(&self, key: &[u8]) -> Outcome<Option<Window<'_, T>>> {
        Ok(self.collection::<T>(key)?.map(|collection| self.window_of(key, collection)))
    }

    /// The same as [`Access::collection_in_place`] gives it.
    pub fn window_in_place<T: Collection>(&self, key: &[u8]) -> Outcome<Option<Window<'_, T>>> {
        Ok(self.collection_in_place::<T>(key)?.map(|collection| self.window_of(key, collection)))
    }

    fn window_of<'s, T: Collection>(&'s self, key: &[u8], collection: &'s T) -> Window<'s, T> {
        let selected = self.part.and_then(|_| self.selected_of(self.peek(key)?));
        let (first, len) = match selected {
            Some(selected) => (selected.first, selected.len),
            None => (0, collection.element_count()),
        };
        Window { collection, first, len: len as usize }
    }

    /// Whether a command has been lent the elements of the collection at a key that it reads.
    pub fn has_elements(&self, key: &[u8], elements: impl FnOnce() -> Option<Elements>) -> bool {
        let selected = self.part.and_then(|part| self.peek(key)?.selected_in(part));
        selected.is_some_and(|(lent, _)| elements().is_some_and(|elements| *lent == elements))
    }
}

/// How many elements there are.
pub(crate) fn count_of(_: Args<'_>) -> Option<Elements> {
    Some(Elements::Count)
}

/// Fields or members that the arguments from 2 on name.
pub(crate) fn named_of(args: Args<'_>) -> Option<Elements> {
    Some(Elements::Named(args.from(2).iter().map(Box::from).collect()))
}
