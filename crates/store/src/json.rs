//! JSON documents.
//!
//! A document is one block of bytes in the packed form (see [`packed`]) with a count of references. Reading
//! walks the block, and steps over a value in O(1). A change writes the block anew, or in place where the
//! new value takes as many bytes as the old one. A clone costs O(1).
//!
//! Members keep the order in which they came; the last one takes the place of one that is removed, as in
//! RedisJSON.

mod edit;
mod packed;
mod parse;
mod plain;
#[cfg(test)]
mod tests;
mod text;
mod view;

pub use packed::Number;
pub use parse::{ParseError, TEXT_DEPTH_MAX};
pub use text::{Layout, write_list, write_number, write_string};
pub use view::{Shape, View};

use std::fmt;

use mantissa_memory::SharedBytes;

use crate::Collection;
use edit::Edit;

/// How deeply values may be nested in a document, whatever way they came there.
pub const DEPTH_MAX: usize = 512;

/// A value outside of a document, in packed form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment(Vec<u8>);

impl Fragment {
    /// Parses what a client has sent.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Fragment, ParseError> {
        parse::parse(text.as_ref(), TEXT_DEPTH_MAX).map(Fragment)
    }

    /// The same, and refuses whatever stands behind the value but spaces.
    pub fn parse_whole(text: impl AsRef<[u8]>) -> Result<Fragment, ParseError> {
        parse::parse_whole(text.as_ref(), TEXT_DEPTH_MAX).map(Fragment)
    }

    /// Parses what a document was printed as.
    pub fn parse_of_document(text: impl AsRef<[u8]>) -> Result<Fragment, ParseError> {
        parse::parse(text.as_ref(), DEPTH_MAX).map(Fragment)
    }

    /// A number; a double must be finite.
    pub fn number(value: Number) -> Fragment {
        let mut bytes = Vec::with_capacity(9);
        packed::put_number(value, &mut bytes);
        Fragment(bytes)
    }

    /// A string, which must be UTF-8.
    pub fn string(text: &[u8]) -> Fragment {
        let mut bytes = Vec::with_capacity(text.len() + 5);
        packed::put_string(text, &mut bytes);
        Fragment(bytes)
    }

    /// True or false.
    pub fn boolean(value: bool) -> Fragment {
        Fragment(vec![if value { packed::TRUE } else { packed::FALSE }])
    }

    /// An empty array.
    pub fn empty_array() -> Fragment {
        Fragment(vec![packed::ARRAY])
    }

    /// An empty object.
    pub fn empty_object() -> Fragment {
        Fragment(vec![packed::OBJECT])
    }

    /// An array of elements.
    pub fn array<'a>(elements: impl Iterator<Item = View<'a>>) -> Fragment {
        let mut bytes = Vec::new();
        let start = packed::begin(&mut bytes);
        let count = elements.inspect(|element| bytes.extend_from_slice(element.bytes())).count();
        packed::end(start, packed::ARRAY, count, &mut bytes);
        Fragment(bytes)
    }

    /// An object of members with different keys.
    pub fn object<'a>(members: impl Iterator<Item = (&'a [u8], Fragment)>) -> Fragment {
        let mut bytes = Vec::new();
        let start = packed::begin(&mut bytes);
        let mut count = 0;
        for (key, value) in members {
            packed::put_string(key, &mut bytes);
            bytes.extend_from_slice(&value.0);
            count += 1;
        }
        packed::end(start, packed::OBJECT, count, &mut bytes);
        Fragment(bytes)
    }

    /// A copy of a value.
    pub fn of(view: View<'_>) -> Fragment {
        Fragment(view.bytes().to_vec())
    }

    /// The value.
    pub fn view(&self) -> View<'_> {
        View::new(&self.0)
    }
}

/// A JSON document: any value.
#[derive(Clone, Default)]
#[repr(transparent)]
pub struct Json {
    bytes: SharedBytes,
}

const _: () = assert!(size_of::<Json>() == 8);

impl fmt::Debug for Json {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.root().write(&mut text);
        formatter.write_str(&String::from_utf8_lossy(&text))
    }
}

impl Json {
    /// A document of this value.
    pub fn new(value: &Fragment) -> Json {
        Json { bytes: SharedBytes::joined(&[&value.0]) }
    }

    /// Parses a document of a file.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Json, ParseError> {
        Fragment::parse_of_document(text).map(|value| Json::new(&value))
    }

    /// The whole value.
    #[inline]
    pub fn root(&self) -> View<'_> {
        View::new(self.bytes.payload())
    }

    /// The value at a place: in each container around it the place of the child.
    pub fn at(&self, place: &[usize]) -> Option<View<'_>> {
        place.iter().try_fold(self.root(), |value, &index| value.child(index))
    }

    /// Replaces the value at a place. False if there is none.
    pub fn set(&mut self, place: &[usize], value: &Fragment) -> bool {
        let Some(edit) = Edit::of_value(self.payload(), place) else { return false };
        if edit.range.len() == value.0.len()
            && let Some(payload) = self.bytes.payload_mut()
        {
            payload[edit.range].copy_from_slice(&value.0);
            return true;
        }
        self.apply(&edit, &value.0, 0);
        true
    }

    /// Inserts values into the array at a place, before the element at `index`. False if there is no
    /// container.
    pub fn insert(&mut self, place: &[usize], index: usize, values: &[Fragment]) -> bool {
        let Some(edit) = Edit::of_children(self.payload(), place, index, 0) else { return false };
        let new: Vec<u8> = values.iter().flat_map(|value| value.0.iter().copied()).collect();
        self.apply(&edit, &new, values.len());
        true
    }

    /// Adds a member, whose key must be new, to the object at a place. False if there is no container.
    pub fn add_member(&mut self, place: &[usize], key: &[u8], value: &Fragment) -> bool {
        let Some(edit) = Edit::of_children(self.payload(), place, usize::MAX, 0) else { return false };
        let mut new = Vec::with_capacity(key.len() + value.0.len() + 5);
        packed::put_string(key, &mut new);
        new.extend_from_slice(&value.0);
        self.apply(&edit, &new, 1);
        true
    }

    /// Removes `count` elements of the array at a place, from `index` on.
    pub fn remove(&mut self, place: &[usize], index: usize, count: usize) {
        if let Some(edit) = Edit::of_children(self.payload(), place, index, count) {
            self.apply(&edit, &[], 0);
        }
    }

    /// Removes a member of the object at a place; the last one takes its place.
    pub fn remove_member(&mut self, place: &[usize], index: usize) {
        let Some(last) = self.at(place).and_then(|object| object.len().checked_sub(1)) else { return };
        let Some(edit) = Edit::of_children(self.payload(), place, last, 1) else { return };
        let member = self.payload()[edit.range.clone()].to_vec();
        self.apply(&edit, &[], 0);
        if index < last
            && let Some(edit) = Edit::of_children(self.payload(), place, index, 1)
        {
            self.apply(&edit, &member, 1);
        }
    }

    /// Changes the values at several places, none of which is the root. They are sorted, none comes twice,
    /// and none lies in another. `change` has their values in order, and returns what takes their place, or
    /// nothing to remove them. Costs O(size), whatever the number of places.
    pub fn change_all(&mut self, places: &[&[usize]], change: &mut dyn FnMut(View<'_>) -> Option<Fragment>) {
        let mut out = Vec::with_capacity(self.payload().len());
        edit::rewrite(self.payload(), places, 0, change, &mut out);
        self.bytes = SharedBytes::joined(&[&out]);
    }

    /// The block, with null in the place of none.
    fn payload(&self) -> &[u8] {
        match self.bytes.payload() {
            [] => &[packed::NULL],
            payload => payload,
        }
    }

    fn apply(&mut self, edit: &Edit, new: &[u8], added: usize) {
        self.bytes = SharedBytes::joined(&[&edit.apply(self.payload(), new, added)]);
    }
}

impl Collection for Json {
    fn element_count(&self) -> u64 {
        self.root().len() as u64
    }

    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn memory_usage(&self) -> usize {
        self.bytes.memory_usage()
    }

    fn free_effort(&self) -> usize {
        1
    }

    fn redis_free_effort(&self, _max: usize) -> usize {
        1
    }

    fn is_large_form(&self) -> bool {
        self.bytes.memory_usage() > LARGE_BYTES
    }

    fn compact(&mut self, _slice: usize) -> bool {
        self.bytes.compact();
        false
    }
}

/// A larger block is encoded for a dump without a lock.
const LARGE_BYTES: usize = 16 << 10;
