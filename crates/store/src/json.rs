//! JSON documents.
//!
//! A small document is one block of bytes in the packed form (see [`packed`]) with a count of references.
//! Reading walks the block, and steps over a value in O(1). A change moves what stands behind it in the
//! block, and writes the block anew where it is shared, too small or too large. The containers of a large
//! document that are large themselves are trees of such blocks (see [`tree`]): a change writes one block
//! anew. A clone costs O(1).
//!
//! Members keep the order in which they came; the last one takes the place of one that is removed, as in
//! RedisJSON.

mod edit;
mod floats;
mod packed;
mod parse;
mod plain;
#[cfg(test)]
mod tests;
mod text;
mod tree;
mod view;

pub use floats::FloatType;
pub use packed::Number;
pub use parse::{ParseError, TEXT_DEPTH_MAX};
pub use text::{Layout, ListWriter, write_number, write_string};
pub use view::{Shape, View};

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use mantissa_memory::small_or_large::{Borrowed, Owned};
use mantissa_memory::{SharedBytes, SmallOrLarge};

use crate::Collection;
use edit::{Edit, Op};
use tree::{LARGE_BYTES, SMALL_BYTES, Tree};
use view::Form;

/// How deeply values may be nested in a document, whatever way they came there.
pub const DEPTH_MAX: usize = 512;

/// Most bytes of a document in packed form, whose lengths and counts have four bytes at most.
pub const BYTES_MAX: usize = u32::MAX as usize;

static BYTES_LIMIT: AtomicUsize = AtomicUsize::new(BYTES_MAX);

#[inline]
fn bytes_max() -> usize {
    BYTES_LIMIT.load(Ordering::Relaxed)
}

/// Lowers the limit on the bytes of a document, of this whole process. For tests.
pub fn lower_bytes_max(bytes: usize) {
    BYTES_LIMIT.fetch_min(bytes, Ordering::Relaxed);
}

/// By how much the header of a container can grow.
const HEADER_GROWTH_MAX: usize = 8;

/// A document would have more than [`BYTES_MAX`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl fmt::Display for TooLarge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the document would take more than 4 GB")
    }
}

/// A value outside of a document, in packed form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment(Vec<u8>);

impl Fragment {
    /// Parses what a client has sent.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Fragment, ParseError> {
        Fragment::parse_as(text, TEXT_DEPTH_MAX, None)
    }

    /// The same, and refuses whatever stands behind the value but spaces.
    pub fn parse_whole(text: impl AsRef<[u8]>) -> Result<Fragment, ParseError> {
        Fragment::parsed(|out| parse::parse_whole(text.as_ref(), TEXT_DEPTH_MAX, out))
    }

    /// Parses a text that is refused at a depth. The elements of arrays of numbers are rounded to `floats`.
    pub fn parse_as(
        text: impl AsRef<[u8]>,
        depth_max: usize,
        floats: Option<FloatType>,
    ) -> Result<Fragment, ParseError> {
        Fragment::parsed(|out| parse::parse(text.as_ref(), depth_max, floats, out))
    }

    fn parsed(parse: impl FnOnce(&mut Vec<u8>) -> Result<(), ParseError>) -> Result<Fragment, ParseError> {
        let mut out = Vec::new();
        parse(&mut out)?;
        Ok(Fragment(out))
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
        let count = elements.inspect(|element| element.pack(&mut bytes)).count();
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
        let mut bytes = Vec::with_capacity(view.memory_usage());
        view.pack(&mut bytes);
        Fragment(bytes)
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
    /// An empty one is null.
    body: SmallOrLarge<Tree>,
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
        Json::of_packed(&value.0)
    }

    fn of_packed(value: &[u8]) -> Json {
        let mut body = SmallOrLarge::new();
        body.put(if value.len() > LARGE_BYTES && packed::container(value).is_some() {
            Owned::Large(Box::new(Tree::new(value)))
        } else {
            Owned::Small(SharedBytes::joined(&[value]))
        });
        Json { body }
    }

    /// Parses a document of a file.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Json, ParseError> {
        Json::parse_as(text, DEPTH_MAX, None)
    }

    /// Parses a text that is refused at a depth. The elements of arrays of numbers are rounded to `floats`.
    pub fn parse_as(
        text: impl AsRef<[u8]>,
        depth_max: usize,
        floats: Option<FloatType>,
    ) -> Result<Json, ParseError> {
        /// More bytes are not kept for the next text.
        const KEPT_BYTES_MAX: usize = 64 << 10;
        thread_local! {
            static PACKED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        PACKED.with_borrow_mut(|packed| {
            packed.clear();
            let document =
                parse::parse(text.as_ref(), depth_max, floats, packed).map(|()| Json::of_packed(packed));
            if packed.capacity() > KEPT_BYTES_MAX {
                *packed = Vec::new();
            }
            document
        })
    }

    /// The whole value.
    #[inline]
    pub fn root(&self) -> View<'_> {
        match self.body.get() {
            Borrowed::Small(bytes) => View::new(bytes),
            Borrowed::Large(tree) => View { form: Form::Tree(tree) },
        }
    }

    /// The value at a place: in each container around it the place of the child.
    pub fn at(&self, place: &[usize]) -> Option<View<'_>> {
        place.iter().try_fold(self.root(), |value, &index| value.child(index))
    }

    /// Bytes of the packed form.
    #[inline]
    fn size(&self) -> usize {
        match self.body.get() {
            Borrowed::Small([]) => 1,
            Borrowed::Small(bytes) => packed::size(bytes),
            Borrowed::Large(tree) => tree.size(),
        }
    }

    /// Whether so many bytes can surely be added, headers that grow at one place not counted.
    #[inline]
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.size().saturating_add(bytes).saturating_add(DEPTH_MAX * HEADER_GROWTH_MAX) <= bytes_max()
    }

    /// Refuses `new` bytes at a place, where `replaced` counts those that go for them, if that may take the
    /// document past the limit.
    #[inline]
    fn check_room(
        &self,
        place: &[usize],
        new: usize,
        replaced: impl FnOnce(&Json) -> usize,
    ) -> Result<(), TooLarge> {
        if self.has_room_for(new) {
            return Ok(());
        }
        let replaced = replaced(self);
        let after = self.size().saturating_sub(replaced) + new + HEADER_GROWTH_MAX * place.len();
        if new <= replaced || after <= bytes_max() { Ok(()) } else { Err(TooLarge) }
    }

    /// Replaces the value at a place. False if there is none.
    pub fn set(&mut self, place: &[usize], value: &Fragment) -> Result<bool, TooLarge> {
        let replaced = |json: &Json| json.at(place).map_or(0, View::memory_usage);
        self.check_room(place, value.0.len(), replaced)?;
        Ok(self.apply(place, &Op::Set(&value.0)))
    }

    /// Inserts values into the array at a place, before the element at `index`. False if there is no
    /// container.
    pub fn insert(&mut self, place: &[usize], index: usize, values: &[Fragment]) -> Result<bool, TooLarge> {
        self.check_room(place, values.iter().map(|value| value.0.len()).sum(), |_| 0)?;
        let new: Vec<u8> = values.iter().flat_map(|value| value.0.iter().copied()).collect();
        Ok(self.apply(place, &Op::Children { index, removed: 0, new: &new, added: values.len() }))
    }

    /// Adds a member, whose key must be new, to the object at a place. False if there is no container.
    pub fn add_member(&mut self, place: &[usize], key: &[u8], value: &Fragment) -> Result<bool, TooLarge> {
        self.check_room(place, key.len() + 5 + value.0.len(), |_| 0)?;
        let mut new = Vec::with_capacity(key.len() + value.0.len() + 5);
        packed::put_string(key, &mut new);
        new.extend_from_slice(&value.0);
        Ok(self.apply(place, &Op::Children { index: usize::MAX, removed: 0, new: &new, added: 1 }))
    }

    /// Removes `count` elements of the array at a place, from `index` on.
    pub fn remove(&mut self, place: &[usize], index: usize, count: usize) {
        self.apply(place, &Op::Children { index, removed: count, new: &[], added: 0 });
    }

    /// Removes a member of the object at a place; the last one takes its place.
    pub fn remove_member(&mut self, place: &[usize], index: usize) {
        let Some(object) = self.at(place) else { return };
        let Some(last) = object.len().checked_sub(1) else { return };
        let mut member = Vec::new();
        if index < last
            && let Some((key, value)) = object.child_with_key(last)
        {
            packed::put_string(key, &mut member);
            value.pack(&mut member);
        }
        self.remove(place, last, 1);
        if !member.is_empty() {
            self.apply(place, &Op::Children { index, removed: 1, new: &member, added: 1 });
        }
    }

    /// Changes the values at several places, none of which is the root. They are sorted, none comes twice,
    /// and none lies in another. `change` has their values in order, and returns what takes their place, or
    /// nothing to remove them. Costs O(size), whatever the number of places; less if there are few that a
    /// large document keeps. After an error everything is as it was.
    pub fn change_all(
        &mut self,
        places: &[&[usize]],
        change: &mut dyn FnMut(View<'_>) -> Option<Fragment>,
    ) -> Result<(), TooLarge> {
        let mut out = Vec::new();
        let mut new_bytes = 0_usize;
        // More than a document can have is not made.
        let mut change = |value: View<'_>| {
            let new = if new_bytes > bytes_max() { None } else { change(value) };
            new_bytes = new_bytes.saturating_add(new.as_ref().map_or(0, |new| new.0.len()));
            new
        };
        match self.body.get() {
            Borrowed::Small(_) => edit::rewrite(self.packed(), places, 0, &mut change, &mut out),
            Borrowed::Large(tree) => {
                let changed: Vec<Option<Fragment>> = places
                    .iter()
                    .map(|place| change(self.at(place).unwrap_or_else(|| self.root())))
                    .collect();
                if new_bytes > bytes_max() {
                    return Err(TooLarge);
                }
                let is_cheaper_apart = changed.len().saturating_mul(LARGE_BYTES) < tree.size();
                let headers = places.iter().map(|place| place.len() * HEADER_GROWTH_MAX).sum::<usize>();
                if is_cheaper_apart
                    && changed.iter().all(Option::is_some)
                    && self.has_room_for(new_bytes.saturating_add(headers))
                {
                    for (place, value) in places.iter().zip(changed.iter().flatten()) {
                        self.apply(place, &Op::Set(&value.0));
                    }
                    return Ok(());
                }
                let (mut packed, mut changed) = (Vec::with_capacity(tree.size()), changed.into_iter());
                tree.pack(&mut packed);
                edit::rewrite(&packed, places, 0, &mut |_| changed.next().flatten(), &mut out);
            }
        }
        if new_bytes > bytes_max() || out.len() > bytes_max() {
            return Err(TooLarge);
        }
        *self = Json::of_packed(&out);
        Ok(())
    }

    /// The bytes of a small document.
    fn packed(&self) -> &[u8] {
        match self.body.get() {
            Borrowed::Small(bytes @ [_, ..]) => bytes,
            _ => &[packed::NULL],
        }
    }

    /// Carries out a change of the value at a place. False if there is none that it fits.
    fn apply(&mut self, place: &[usize], op: &Op<'_>) -> bool {
        if let Some(tree) = self.body.large_mut() {
            if let (Op::Set(value), []) = (op, place) {
                *self = Json::of_packed(value);
                return true;
            }
            let is_done = tree.apply(place, op);
            if tree.size() <= SMALL_BYTES {
                let mut packed = Vec::new();
                tree.pack(&mut packed);
                *self = Json::of_packed(&packed);
            }
            return is_done;
        }
        let Some(edit) = Edit::of(self.packed(), place, op) else { return false };
        let (new, added) = op.new_bytes();
        let after = packed::size(self.packed()) - edit.range.len() + new.len();
        if after > LARGE_BYTES {
            let changed = edit::changed(self.packed(), place, op).unwrap_or_default();
            *self = Json::of_packed(&changed);
            return true;
        }
        let Owned::Small(mut bytes) = self.body.take() else { return false };
        let keeps_block = SharedBytes::allocation_bytes(after) == bytes.memory_usage();
        let is_changed = bytes
            .payload_mut()
            .filter(|_| keeps_block)
            .is_some_and(|block| edit.apply_in_place(block, new, added));
        if !is_changed {
            let before = if bytes.payload().is_empty() { &[packed::NULL] } else { bytes.payload() };
            bytes = edit.apply(before, new, added);
        }
        self.body.put(Owned::Small(bytes));
        true
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
        match self.body.get() {
            Borrowed::Small(bytes) => SharedBytes::allocation_of(bytes),
            Borrowed::Large(tree) => tree.memory_usage(),
        }
    }

    fn free_effort(&self) -> usize {
        match self.body.get() {
            Borrowed::Small(_) => 1,
            Borrowed::Large(tree) => tree.part_count(),
        }
    }

    fn redis_free_effort(&self, _max: usize) -> usize {
        1
    }

    fn is_large_form(&self) -> bool {
        match self.body.get() {
            Borrowed::Small(bytes) => bytes.len() > LARGE_BYTES,
            Borrowed::Large(_) => true,
        }
    }

    fn compact(&mut self, slice: usize) -> bool {
        if let Some(tree) = self.body.large_mut() {
            return tree.compact(slice, &mut 0);
        }
        if let Owned::Small(mut bytes) = self.body.take() {
            bytes.compact();
            self.body.put(Owned::Small(bytes));
        }
        false
    }
}
