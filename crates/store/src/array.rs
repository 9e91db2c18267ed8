//! Arrays: elements at indexes of 64 bits, most of which may be empty.
//!
//! ```text
//! Array -> small: packed bytes, up to 32 elements in 512 bytes
//!          large: Body { count, cursor, blocks: index / 256 -> Arc<Block> }
//! ```
//!
//! Reading and writing an element costs O(log blocks). Counting is O(1), and so is the length. A visit and a
//! removal cost what there is in the range, however wide that is. A clone costs O(1); a change after it
//! copies a block. An index of 2^63 takes what any other does: blocks without elements are not there.
//!
//! Bytes of an element in a full block: 8, and for a text of more than seven bytes 8 more beside the text's
//! own allocation; the block takes 144 beside.
//!
//! Invariants: no block is empty; `count` is the sum of their elements; indexes are below [`INDEX_END`]; an
//! array that was large stays so until it is empty.

mod block;
mod small;
#[cfg(test)]
mod tests;
mod word;

use std::sync::Arc;

use mantissa_memory::small_or_large::{Borrowed, Owned};
use mantissa_memory::{CowMap, NodeId, SharedBytes, SmallOrLarge, slab};

use crate::Collection;
use block::{Block, SLOTS};
use small::Unpacked;
pub use word::{ELEMENT_TEXT_MAX, Element, ElementText, ShortText};

/// The index that no element has.
pub const INDEX_END: u64 = u64::MAX;
/// Indexes of a slice of Redis's.
pub const SLICE: u64 = 4096;

/// An array.
#[repr(transparent)]
pub struct Array {
    body: SmallOrLarge<Body>,
}

const _: () = assert!(size_of::<Array>() == 8);

#[derive(Clone, Default)]
struct Body {
    count: u64,
    /// The last index that was inserted at.
    cursor: Option<u64>,
    /// Texts that have allocations of their own.
    texts: u64,
    /// Bytes that blocks take.
    block_bytes: usize,
    blocks: CowMap<u64, Arc<Block>>,
}

/// What is known of a slice of [`SLICE`] indexes, of those that hold elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceFacts {
    /// Its first index, divided by [`SLICE`].
    pub id: u64,
    /// Elements.
    pub count: u64,
    /// Indexes from the first element to the last.
    pub span: u64,
}

impl Default for Array {
    fn default() -> Self {
        Array::new()
    }
}

impl Clone for Array {
    fn clone(&self) -> Self {
        Array { body: self.body.clone() }
    }
}

impl std::fmt::Debug for Array {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut map = formatter.debug_map();
        self.visit(0, INDEX_END, |index, element| {
            let text = String::from_utf8_lossy(element.text(&mut [0; ELEMENT_TEXT_MAX])).into_owned();
            map.entry(&index, &text);
            true
        });
        map.finish()
    }
}

impl Array {
    /// An empty one.
    pub const fn new() -> Self {
        Array { body: SmallOrLarge::new() }
    }

    /// The number of elements.
    pub fn count(&self) -> u64 {
        match self.body.get() {
            Borrowed::Small(bytes) => Unpacked::new(bytes).len() as u64,
            Borrowed::Large(body) => body.count,
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The highest index of an element, plus 1; 0 if there is none.
    pub fn len(&self) -> u64 {
        match self.body.get() {
            Borrowed::Small(bytes) => Unpacked::new(bytes).last().map_or(0, |(index, _)| index + 1),
            Borrowed::Large(body) => body.len(),
        }
    }

    /// The last index that was inserted at; `None` if the next one is to be 0.
    pub fn cursor(&self) -> Option<u64> {
        match self.body.get() {
            Borrowed::Small(bytes) => Unpacked::new(bytes).cursor(),
            Borrowed::Large(body) => body.cursor,
        }
    }

    /// Sets it, to an index below [`INDEX_END`].
    pub fn set_cursor(&mut self, cursor: Option<u64>) {
        debug_assert!(cursor != Some(INDEX_END));
        if let Some(body) = self.body.large_mut() {
            body.cursor = cursor;
        } else {
            self.change_small(Change::Cursor(cursor));
        }
    }

    /// The element at an index.
    #[inline]
    pub fn get(&self, index: u64) -> Option<Element<'_>> {
        match self.body.get() {
            Borrowed::Small(bytes) => {
                let mut elements = Unpacked::new(bytes).skip_while(|(at, _)| *at < index);
                elements.next().filter(|(at, _)| *at == index).map(|(_, element)| element)
            }
            Borrowed::Large(body) => {
                let node = body.blocks.floor_node(index / SLOTS)?;
                let block = body.blocks.at(node).filter(|block| block.id == index / SLOTS)?;
                block.get((index % SLOTS) as usize)
            }
        }
    }

    /// Puts an element at an index below [`INDEX_END`]. Whether there was none.
    pub fn set(&mut self, index: u64, element: Element<'_>) -> bool {
        debug_assert!(index < INDEX_END);
        match self.body.large_mut() {
            Some(body) => body.set(index, element),
            None => self.change_small(Change::Set(index, element)) == 0,
        }
    }

    /// Removes the element at an index. Whether there was one.
    pub fn remove(&mut self, index: u64) -> bool {
        let (count, _) = self.remove_range(index, index);
        count != 0
    }

    /// Removes the elements from one index to another, which is not below it, and returns how many there
    /// were, with those whose freeing may take long.
    pub fn remove_range(&mut self, from: u64, to: u64) -> (u64, Array) {
        let mut rest = Array::new();
        let Some(body) = self.body.large_mut() else {
            return (self.change_small(Change::Remove(from, to)), rest);
        };
        let (count, removed) = body.remove_range(from, to);
        if removed.count != 0 {
            rest.body.put(Owned::Large(Box::new(removed)));
        }
        (count, rest)
    }

    /// Changes the packed form, which may become the other one. Returns how many elements it has lost.
    fn change_small(&mut self, change: Change<'_>) -> u64 {
        let Owned::Small(bytes) = self.body.take() else { return 0 };
        let (changed, lost) = change_packed(&bytes, change);
        self.body.put(changed);
        lost
    }

    /// Calls `visit` with the elements from one index to another, that one included, and their indexes,
    /// until it returns false. The order is that from the first index to the second.
    pub fn visit<'a>(&'a self, from: u64, to: u64, mut visit: impl FnMut(u64, Element<'a>) -> bool) {
        let (low, high, is_reversed) = (from.min(to), from.max(to), from > to);
        match self.body.get() {
            Borrowed::Small(bytes) => {
                let elements = Unpacked::new(bytes).filter(|(index, _)| (low..=high).contains(index));
                let mut visit = |(index, element)| visit(index, element);
                if is_reversed {
                    let elements: small::Elements<'a> = elements.collect();
                    elements.into_iter().rev().all(visit);
                } else {
                    let mut elements = elements;
                    elements.all(&mut visit);
                }
            }
            Borrowed::Large(body) => body.visit(low, high, is_reversed, &mut visit),
        }
    }

    /// Gives it up, calling `visit` with each element, in order, on the way.
    pub fn into_each(mut self, visit: &mut dyn FnMut(u64, Element<'_>)) {
        match self.body.take() {
            Owned::Small(bytes) => {
                Unpacked::new(bytes.payload()).for_each(|(index, element)| visit(index, element));
            }
            Owned::Large(mut body) => {
                while let Some(block) = body.blocks.pop_first() {
                    let all = (0, SLOTS as usize - 1);
                    block.visit(all, false, &mut |index, element| {
                        visit(index, element);
                        true
                    });
                }
            }
        }
    }

    /// The number of elements from one index to another, in either order.
    pub fn count_in(&self, from: u64, to: u64) -> u64 {
        let (low, high) = (from.min(to), from.max(to));
        match self.body.get() {
            Borrowed::Small(bytes) => {
                Unpacked::new(bytes).filter(|(index, _)| (low..=high).contains(index)).count() as u64
            }
            Borrowed::Large(body) => body.count_in(low, high),
        }
    }

    /// Calls `visit` with what is known of each slice that Redis would have, in order.
    pub fn visit_slices(&self, mut visit: impl FnMut(SliceFacts)) {
        let (mut slice, mut first) = (None::<SliceFacts>, 0);
        let mut add = |index: u64| {
            let id = index / SLICE;
            match &mut slice {
                Some(slice) if slice.id == id => {
                    slice.count += 1;
                    slice.span = index - first + 1;
                }
                _ => {
                    if let Some(done) = slice.replace(SliceFacts { id, count: 1, span: 1 }) {
                        visit(done);
                    }
                    first = index;
                }
            }
        };
        self.visit(0, INDEX_END, |index, _| {
            add(index);
            true
        });
        if let Some(last) = slice {
            visit(last);
        }
    }
}

/// A change of the packed form.
enum Change<'a> {
    Cursor(Option<u64>),
    /// Puts an element at an index.
    Set(u64, Element<'a>),
    /// Removes the elements from one index to another.
    Remove(u64, u64),
}

/// What becomes of packed bytes by a change, and how many elements are lost.
fn change_packed<'a>(bytes: &'a SharedBytes, change: Change<'a>) -> (Owned<Body>, u64) {
    let unpacked = Unpacked::new(bytes.payload());
    let mut cursor = unpacked.cursor();
    let mut elements: small::Elements<'a> = unpacked.collect();
    let before = elements.len();
    let lost = match change {
        Change::Cursor(now) => {
            cursor = now;
            0
        }
        Change::Set(index, element) => match elements.binary_search_by_key(&index, |(at, _)| *at) {
            Ok(place) => {
                elements[place].1 = element;
                1
            }
            Err(place) => {
                elements.insert(place, (index, element));
                0
            }
        },
        Change::Remove(from, to) => {
            elements.retain(|(index, _)| !(from..=to).contains(index));
            (before - elements.len()) as u64
        }
    };
    let changed = match small::pack(cursor, &elements) {
        Some(bytes) => Owned::Small(bytes),
        None => Owned::Large(Box::new(Body::with(cursor, &elements))),
    };
    (changed, lost)
}

impl Body {
    /// A body with these elements, whose indexes rise.
    fn with(cursor: Option<u64>, elements: &[(u64, Element<'_>)]) -> Self {
        let mut body = Body { cursor, ..Body::default() };
        for (index, element) in elements {
            body.set(*index, *element);
        }
        body
    }

    fn len(&self) -> u64 {
        let last = self.blocks.last().and_then(|block| Some(block.id * SLOTS + block.last()? as u64));
        last.map_or(0, |last| last + 1)
    }

    /// Counts what a block takes no more.
    fn forget(&mut self, block: &Block) {
        self.count -= block.len() as u64;
        self.texts -= block.text_count() as u64;
        self.block_bytes -= block.memory_usage();
    }

    /// Counts what a block takes.
    fn account(&mut self, block: &Block) {
        self.count += block.len() as u64;
        self.texts += block.text_count() as u64;
        self.block_bytes += block.memory_usage();
    }

    fn set(&mut self, index: u64, element: Element<'_>) -> bool {
        let (id, slot) = (index / SLOTS, (index % SLOTS) as usize);
        let node = self.blocks.floor_node(id);
        let node = node.filter(|&node| self.blocks.at(node).is_some_and(|block| block.id == id));
        let Some(node) = node else {
            let mut block = Block::new(id);
            block.set(slot, element);
            self.account(&block);
            self.blocks.insert(id, Arc::new(block));
            return true;
        };
        self.change_block(node, |block| block.set(slot, element)).unwrap_or(false)
    }

    /// Changes the block at a node, and counts what it takes then.
    fn change_block<R>(&mut self, node: NodeId, change: impl FnOnce(&mut Block) -> R) -> Option<R> {
        let block = self.blocks.at_mut(node)?;
        let (len, texts, bytes) = (block.len(), block.text_count(), block.memory_usage());
        let block = Arc::make_mut(block);
        let changed = change(block);
        self.count = self.count + block.len() as u64 - len as u64;
        self.texts = self.texts + block.text_count() as u64 - texts as u64;
        self.block_bytes = self.block_bytes + block.memory_usage() - bytes;
        Some(changed)
    }

    /// The slots of a block that are in a range of indexes.
    fn slots(id: u64, low: u64, high: u64) -> (usize, usize) {
        let from = if id == low / SLOTS { low % SLOTS } else { 0 };
        let to = if id == high / SLOTS { high % SLOTS } else { SLOTS - 1 };
        (from as usize, to as usize)
    }

    fn remove_range(&mut self, low: u64, high: u64) -> (u64, Body) {
        let (before, mut removed) = (self.count, Body::default());
        if low > high {
            return (0, removed);
        }
        let mut at = self.blocks.floor_node(low / SLOTS).or(self.blocks.first_node());
        while let Some(node) = at {
            at = self.blocks.after(node);
            let Some(block) = self.blocks.at(node).filter(|block| block.id <= high / SLOTS) else { break };
            if block.id < low / SLOTS {
                continue;
            }
            let (from, to) = Body::slots(block.id, low, high);
            let is_whole = block.count(from, to) == block.len();
            if is_whole {
                let Some(block) = self.blocks.remove_at(node) else { break };
                self.forget(&block);
                removed.account(&block);
                removed.blocks.push(block.id, block);
            } else if block.count(from, to) != 0 {
                self.change_block(node, |block| block.remove(from, to));
            }
        }
        (before - self.count, removed)
    }

    fn visit<'b>(
        &'b self,
        low: u64,
        high: u64,
        is_reversed: bool,
        visit: &mut impl FnMut(u64, Element<'b>) -> bool,
    ) {
        let mut blocks = self.blocks.between(low / SLOTS, high / SLOTS);
        let mut visit = |block: &'b Arc<Block>| {
            let is_before = block.id < low / SLOTS;
            is_before || block.visit(Body::slots(block.id, low, high), is_reversed, visit)
        };
        if is_reversed {
            blocks.rev().all(visit);
        } else {
            blocks.all(&mut visit);
        }
    }

    fn count_in(&self, low: u64, high: u64) -> u64 {
        if low == 0 && high >= self.len() {
            return self.count;
        }
        let blocks = self.blocks.between(low / SLOTS, high / SLOTS).filter(|block| block.id >= low / SLOTS);
        let count = |block: &Arc<Block>| {
            let (from, to) = Body::slots(block.id, low, high);
            block.count(from, to) as u64
        };
        blocks.map(count).sum()
    }
}

impl Collection for Array {
    fn element_count(&self) -> u64 {
        self.count()
    }

    fn encoding(&self) -> &'static str {
        "sliced-array"
    }

    fn memory_usage(&self) -> usize {
        match self.body.get() {
            Borrowed::Small(_) => self.body.share_bytes().map_or(0, |bytes| bytes.memory_usage()),
            Borrowed::Large(body) => {
                slab::class_size(size_of::<Body>()) + body.blocks.memory_usage() + body.block_bytes
            }
        }
    }

    fn free_effort(&self) -> usize {
        match self.body.get() {
            Borrowed::Small(_) => 1,
            Borrowed::Large(body) => 1 + 3 * body.blocks.len() + body.texts as usize,
        }
    }

    fn redis_free_effort(&self, max: usize) -> usize {
        match self.body.get() {
            Borrowed::Small(bytes) => {
                let mut slices: small::Slices =
                    Unpacked::new(bytes).map(|(index, _)| index / SLICE).collect();
                slices.dedup();
                slices.len().min(max + 1)
            }
            Borrowed::Large(body) => {
                let mut slices = 0;
                let mut last = None;
                for block in body.blocks.iter() {
                    let id = Some(block.id * SLOTS / SLICE);
                    slices += usize::from(id != last);
                    last = id;
                    if slices > max {
                        break;
                    }
                }
                slices
            }
        }
    }

    fn is_large_form(&self) -> bool {
        matches!(self.body.get(), Borrowed::Large(_))
    }
}
