//! Large containers: trees of shared blocks.
//!
//! ```text
//! tree of an array:    order -> | block: elements in packed form, side by side | block | tree | block | ...
//! tree of an object:   order -> | block: members, each a string and a value    | key, tree     | ...
//! ```
//!
//! A child that is itself a large container is a tree of its own; all others lie in blocks. Finding a child
//! by its place costs O(log n) and a walk through one block. A change writes one block anew, and those
//! headers of trees that lead to it: O(depth * (log n + [`LARGE_BYTES`])). An object of many members has an
//! index from their keys to the parts that have them; of fewer, one part is looked through after the other.
//! A clone costs O(1), and shares everything until it changes.
//!
//! # Invariants
//!
//! - The contents of the parts, in the order of `order`, are the children; `order` has the number of children
//!   of each part, which is 1 of a tree, and `bytes` is the sum of what they take in packed form.
//! - A block has no more than [`BLOCK_BYTES`] or only one child, and no container in it has more than
//!   [`LARGE_BYTES`].
//! - A tree has more than [`SMALL_BYTES`]. Its owner replaces one that has shrunk by its packed form.
//! - An object of [`INDEXED_FROM`] members has an index, one of fewer than [`INDEXED_MIN`] has none. The
//!   index has one item for each member: its key's hash and the number of its part.

use std::sync::Arc;

use mantissa_memory::{CountedTree, CowVec, NodeId, SharedBytes, slab};

use super::edit::{self, Op};
use super::packed::{self, ARRAY, Header, OBJECT, four_bytes};
use super::view::{Children, Form, View};
use crate::member_index::{Index, Item, hash_of};

/// A container of more bytes is a tree.
pub(super) const LARGE_BYTES: usize = 8 << 10;
/// A tree of fewer bytes becomes packed.
pub(super) const SMALL_BYTES: usize = LARGE_BYTES / 4;
/// Most bytes of a block of several children: with the header of its allocation it fills a size of the slabs.
const BLOCK_BYTES: usize = (2 << 10) - SharedBytes::HEADER_BYTES;
/// A block of fewer bytes takes in a neighbour, if both together leave room.
const SPARSE_BYTES: usize = BLOCK_BYTES / 4;
const JOINED_BYTES_MAX: usize = BLOCK_BYTES / 4 * 3;
/// An object of as many members has an index, until it has fewer than [`INDEXED_MIN`]. JSON.GET of a path
/// into one of 300 members takes 1.1 us with an index and 2.5 without, JSON.SET 2.5 and 3.8.
const INDEXED_FROM: usize = 256;
const INDEXED_MIN: usize = INDEXED_FROM / 2;

/// A part of a tree.
#[derive(Clone, Debug, Default)]
pub(super) enum Part {
    /// Its number is free.
    #[default]
    None,
    /// Children side by side, in the first `len` bytes.
    Block { bytes: SharedBytes, len: u32, count: u32 },
    /// A child that is a tree, and its key as a packed string, behind which there may be zeros.
    Tree { key: SharedBytes, tree: Arc<Tree> },
}

impl Part {
    fn block(bytes: &[u8], count: usize) -> Part {
        let (len, count) = (four_bytes(bytes.len()), four_bytes(count));
        Part::Block { bytes: SharedBytes::joined(&[bytes]), len, count }
    }

    fn count(&self) -> usize {
        match self {
            Part::None => 0,
            Part::Block { count, .. } => *count as usize,
            Part::Tree { .. } => 1,
        }
    }

    /// The packed bytes of its children.
    fn size(&self) -> usize {
        match self {
            Part::None => 0,
            Part::Block { len, .. } => *len as usize,
            Part::Tree { key, tree } => key_of(key).len() + tree.size(),
        }
    }

    /// The children, if it is a block.
    #[inline]
    pub fn children(&self) -> &[u8] {
        match self {
            Part::Block { bytes, len, .. } => &bytes.payload()[..*len as usize],
            _ => &[],
        }
    }

    /// The packed keys of the members, of a part of an object.
    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let tree_key = match self {
            Part::Tree { key, .. } => Some(key_of(key)),
            _ => None,
        };
        tree_key.into_iter().chain(keys_in(self.children()))
    }

    fn memory_usage(&self) -> usize {
        match self {
            Part::None => 0,
            Part::Block { bytes, .. } => bytes.memory_usage(),
            Part::Tree { key, tree } => key.memory_usage() + 2 * size_of::<usize>() + tree.memory_usage(),
        }
    }
}

/// The packed string that a key is; empty of an element.
#[inline]
fn key_of(key: &SharedBytes) -> &[u8] {
    match key.payload() {
        [] => &[],
        payload => &payload[..packed::size(payload)],
    }
}

/// A large container.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    kind: u8,
    bytes: usize,
    order: CountedTree<()>,
    parts: CowVec<Part>,
    index: Option<Index>,
}

/// The hashes and parts of the members that a change takes away and those that it brings, where there is an
/// index that is to follow.
#[derive(Default)]
struct Moved {
    gone: Vec<(u64, NodeId)>,
    come: Vec<(u64, NodeId)>,
}

/// The bytes of the key, and those of the child with its key, which begins here.
#[inline]
fn child_sizes(kind: u8, bytes: &[u8]) -> (usize, usize) {
    let key = if kind == ARRAY { 0 } else { packed::size(bytes) };
    (key, key + packed::size(&bytes[key..]))
}

/// The packed keys of members side by side.
fn keys_in(mut members: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (key, size) = (!members.is_empty()).then(|| child_sizes(OBJECT, members))?;
        let (member, rest) = members.split_at(size);
        members = rest;
        Some(&member[..key])
    })
}

/// The hash of a packed key.
#[inline]
fn hash_of_key(key: &[u8]) -> u64 {
    hash_of(packed::string(key))
}

/// The hashes of packed members, as those of a part.
fn hashes(members: &[u8], id: NodeId) -> Vec<(u64, NodeId)> {
    keys_in(members).map(|key| (hash_of_key(key), id)).collect()
}

/// Where the child at a place begins among children side by side, of which there may be none.
fn start_of(kind: u8, bytes: &[u8], index: usize) -> usize {
    (0..index).fold(0, |at, _| if at < bytes.len() { at + child_sizes(kind, &bytes[at..]).1 } else { at })
}

/// Makes parts of children side by side: blocks end where they have `target` bytes, or with the next child
/// more than a block may have.
fn cut(kind: u8, bytes: &[u8], target: usize, put: &mut dyn FnMut(Part)) {
    let (mut start, mut at, mut count) = (0, 0, 0);
    while at < bytes.len() {
        let (key, size) = child_sizes(kind, &bytes[at..]);
        let value = &bytes[at + key..at + size];
        let is_tree = value.len() > LARGE_BYTES && packed::container(value).is_some();
        let is_full = at - start >= target || at - start + size > BLOCK_BYTES;
        if count > 0 && (is_tree || is_full) {
            put(Part::block(&bytes[start..at], count));
            (start, count) = (at, 0);
        }
        at += size;
        if is_tree {
            let key = &bytes[start..start + key];
            let key = if key.is_empty() { SharedBytes::default() } else { SharedBytes::joined(&[key]) };
            put(Part::Tree { key, tree: Arc::new(Tree::new(value)) });
            start = at;
        } else {
            count += 1;
        }
    }
    if count > 0 {
        put(Part::block(&bytes[start..], count));
    }
}

impl Tree {
    /// The tree of a packed container.
    pub fn new(packed: &[u8]) -> Tree {
        let header = Header::read(packed);
        let kind = packed[0] & !3;
        let mut parts = CowVec::new();
        let mut counts = Vec::new();
        cut(kind, &packed[header.size..][..header.body], BLOCK_BYTES, &mut |part| {
            counts.push((part.count(), ()));
            parts.push(part);
        });
        let order = CountedTree::build(counts.into_iter());
        let mut tree = Tree { kind, bytes: header.body, order, parts, index: None };
        tree.follow(Moved::default());
        tree
    }

    /// Whether it is an array or an object.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// The number of children.
    #[inline]
    pub fn len(&self) -> usize {
        self.order.total()
    }

    fn header(&self) -> (Header, [u8; 9]) {
        Header::new(self.kind, self.bytes, self.len())
    }

    /// The bytes of its packed form.
    pub fn size(&self) -> usize {
        self.header().0.size + self.bytes
    }

    /// Appends its packed form.
    pub fn pack(&self, out: &mut Vec<u8>) {
        let (header, bytes) = self.header();
        out.extend_from_slice(&bytes[..header.size]);
        for part in self.parts() {
            match part {
                Part::Tree { key, tree } => {
                    out.extend_from_slice(key_of(key));
                    tree.pack(out);
                }
                block => out.extend_from_slice(block.children()),
            }
        }
    }

    /// All parts in order.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.order.iter().map(|id| self.part(id))
    }

    #[inline]
    fn part(&self, id: NodeId) -> &Part {
        self.parts.get(id as usize)
    }

    /// A part, and the number of the next.
    #[inline]
    pub fn part_and_next(&self, id: NodeId) -> (&Part, Option<NodeId>) {
        (self.part(id), self.order.next(id))
    }

    /// The children from a place on.
    pub fn children_from(&self, index: usize) -> Children<'_> {
        let Some((id, inner)) = self.order.find(index) else { return Children::default() };
        match self.part(id) {
            block @ Part::Block { .. } => {
                let rest = &block.children()[start_of(self.kind, block.children(), inner)..];
                Children::new(rest, self.kind, Some((self, self.order.next(id))))
            }
            _ => Children::new(&[], self.kind, Some((self, Some(id)))),
        }
    }

    /// The place and the value of a member, or `None`, if an index can tell; else `None` around that.
    pub fn indexed_member(&self, key: &[u8]) -> Option<Option<(usize, View<'_>)>> {
        let index = self.index.as_ref()?;
        Some(index.find(hash_of(key), |id| {
            let (inner, value) = match self.part(id) {
                Part::Tree { key: name, tree } => {
                    let (name, value) = tree_child(name, tree);
                    (name == key).then_some((0, value))?
                }
                block => {
                    let mut members = Children::new(block.children(), self.kind, None).enumerate();
                    members.find_map(|(inner, (name, value))| (name == key).then_some((inner, value)))?
                }
            };
            Some((self.order.rank(id) + inner, value))
        }))
    }

    /// Brings the index up to date with a change, and makes or drops it as the number of members says.
    fn follow(&mut self, moved: Moved) {
        if self.kind != OBJECT {
            return;
        }
        let Some(index) = &mut self.index else {
            if self.len() >= INDEXED_FROM {
                self.index = self.new_index();
            }
            return;
        };
        if self.order.total() < INDEXED_MIN {
            self.index = None;
            return;
        }
        let Moved { mut gone, mut come } = moved;
        gone.sort_unstable();
        come.sort_unstable();
        let (mut old, mut new) = (gone.into_iter().peekable(), come.into_iter().peekable());
        loop {
            match (old.peek().copied(), new.peek().copied()) {
                (Some(before), Some(after)) if before.0 == after.0 => {
                    if before != after {
                        index.set(before.0, before.1, after.1);
                    }
                    old.next();
                    new.next();
                }
                (Some((hash, id)), after) if after.is_none_or(|after| hash < after.0) => {
                    index.remove(hash, id);
                    old.next();
                }
                (_, Some((hash, id))) => {
                    index.insert(hash, id);
                    new.next();
                }
                _ => return,
            }
        }
    }

    fn new_index(&self) -> Option<Index> {
        let item = |key: &[u8], id| Item { hash: hash_of_key(key) as u32, part: id };
        let of_part = |id| self.part(id).keys().map(move |key| item(key, id));
        let items: Vec<Item> = self.order.iter().flat_map(of_part).collect();
        // Keys are not looked at again: every object comes here with different ones.
        Index::build(&items, |_, _, _| false)
    }

    /// Carries out a change below this tree: `place` is not empty, or the change is one of its children.
    /// False if there is no such place.
    pub fn apply(&mut self, place: &[usize], op: &Op<'_>) -> bool {
        let Some((&index, rest)) = place.split_first() else { return self.apply_here(op) };
        let Some((id, inner)) = self.order.find(index) else { return false };
        if let (Op::Set(value), []) = (op, rest) {
            return self.set_child(index, value);
        }
        if let Part::Tree { tree, .. } = self.parts.get_mut(id as usize) {
            let before = tree.size();
            let is_done = Arc::make_mut(tree).apply(rest, op);
            let after = tree.size();
            self.bytes = self.bytes - before + after;
            if after <= SMALL_BYTES {
                let mut packed = Vec::with_capacity(after);
                tree.pack(&mut packed);
                self.set_child(index, &packed);
            }
            return is_done;
        }
        let children = self.part(id).children();
        let child = &children[start_of(self.kind, children, inner)..];
        let (key, size) = child_sizes(self.kind, child);
        let Some(changed) = edit::changed(&child[key..size], rest, op) else { return false };
        self.set_child(index, &changed)
    }

    fn apply_here(&mut self, op: &Op<'_>) -> bool {
        match *op {
            Op::Set(_) => false,
            Op::Children { index, removed, new, added } => {
                let index = index.min(self.len());
                self.splice(index, removed.min(self.len() - index), new, added);
                true
            }
        }
    }

    /// Replaces the value of a child.
    fn set_child(&mut self, index: usize, value: &[u8]) -> bool {
        let Some((id, inner)) = self.order.find(index) else { return false };
        let kind = self.kind;
        let mut with_key = Vec::with_capacity(value.len() + 16);
        match self.parts.get_mut(id as usize) {
            Part::Block { bytes, len, .. } => {
                let children = &bytes.payload()[..*len as usize];
                let start = start_of(kind, children, inner);
                let (key, size) = child_sizes(kind, &children[start..]);
                if size - key == value.len()
                    && value.len() <= LARGE_BYTES
                    && let Some(children) = bytes.payload_mut()
                {
                    children[start + key..start + size].copy_from_slice(value);
                    return true;
                }
                with_key.extend_from_slice(&bytes.payload()[start..start + key]);
            }
            Part::Tree { key, .. } => with_key.extend_from_slice(key_of(key)),
            Part::None => return false,
        }
        with_key.extend_from_slice(value);
        self.splice(index, 1, &with_key, 1);
        true
    }

    /// Puts `added` children, which are `new`, in the place of as many as are to be removed from `index` on.
    /// The parts that this touches are written anew, unless it is one block that stays.
    fn splice(&mut self, index: usize, removed: usize, new: &[u8], added: usize) {
        debug_assert!(index + removed <= self.len() && (added > 0) != new.is_empty());
        if self.splice_in_block(index, removed, new, added).is_some() {
            return;
        }
        let found = self.order.find(index);
        let (mut next, mut inner) = found.map_or((None, 0), |(id, inner)| (Some(id), inner));
        let mut previous = next.map_or(self.order.last(), |id| self.order.previous(id));
        let (mut children, mut moved) = (Vec::new(), Moved::default());
        // A block before the place takes in what is added, if it has room.
        let before = previous.filter(|_| inner == 0 && added > 0);
        if let Some(id) = before.filter(|&id| self.has_room(id, new.len(), BLOCK_BYTES)) {
            previous = self.order.previous(id);
            children.extend_from_slice(self.take(id, &mut moved).children());
        }
        let is_append = next.is_none();
        let mut left = removed;
        let mut tail = Part::None;
        let mut tail_start = 0;
        while let Some(id) = next.filter(|_| left > 0 || inner > 0) {
            next = self.order.next(id);
            let part = self.take(id, &mut moved);
            let here = left.min(part.count() - inner);
            let from = start_of(self.kind, part.children(), inner);
            children.extend_from_slice(&part.children()[..from]);
            tail_start = from + start_of(self.kind, &part.children()[from..], here);
            tail = part;
            left -= here;
            inner = 0;
        }
        children.extend_from_slice(new);
        children.extend_from_slice(tail.children().get(tail_start..).unwrap_or_default());
        if !children.is_empty() && children.len() < SPARSE_BYTES {
            let room = |id: &NodeId| self.has_room(*id, children.len(), JOINED_BYTES_MAX);
            if let Some(id) = next.filter(room) {
                children.extend_from_slice(self.take(id, &mut moved).children());
            } else if let Some(id) = previous.filter(room) {
                previous = self.order.previous(id);
                children.splice(0..0, self.take(id, &mut moved).children().iter().copied());
            }
        }
        let blocks = children.len().div_ceil(BLOCK_BYTES).max(1);
        // What is added at the end fills blocks, as more will come there.
        let target = if is_append { BLOCK_BYTES } else { children.len().div_ceil(blocks) };
        cut(self.kind, &children, target, &mut |part| {
            previous = Some(self.put_after(previous, part, &mut moved));
        });
        self.follow(moved);
    }

    /// The same within one block, which is neither emptied, nor filled up, nor small enough to join another.
    /// `None`, and nothing is done, if that is not so. What is added at the end goes to the last block.
    fn splice_in_block(&mut self, index: usize, removed: usize, new: &[u8], added: usize) -> Option<()> {
        let at_end = || self.order.last().map(|id| (id, self.part(id).count()));
        let (id, inner) = self.order.find(index).or_else(at_end)?;
        let Part::Block { count, .. } = *self.part(id) else { return None };
        let count = count as usize;
        let left = count.checked_sub(removed).filter(|&left| left + added > 0 && inner <= left)?;
        let children = self.part(id).children();
        let before = children.len();
        let from = if inner == count { before } else { start_of(self.kind, children, inner) };
        let to = if inner == left { before } else { from + start_of(self.kind, &children[from..], removed) };
        let after = before - (to - from) + new.len();
        let may_join = after < before && after < SPARSE_BYTES;
        if after > BLOCK_BYTES || may_join && self.has_neighbour_with_room(id, after) {
            return None;
        }
        let replaced = &children[from..to];
        let keeps_keys = self.index.is_none() || removed == added && keys_in(replaced).eq(keys_in(new));
        let mut moved = Moved::default();
        if !keeps_keys {
            moved = Moved { gone: hashes(replaced, id), come: hashes(new, id) };
        }
        let Part::Block { bytes, len, count } = self.parts.get_mut(id as usize) else { return None };
        let keeps_memory = SharedBytes::allocation_bytes(after) == bytes.memory_usage();
        if let Some(block) = bytes.payload_mut().filter(|_| keeps_memory) {
            block.copy_within(to..before, from + new.len());
            block[from..][..new.len()].copy_from_slice(new);
        } else {
            let block = bytes.payload();
            *bytes = SharedBytes::joined(&[&block[..from], new, &block[to..before]]);
        }
        (*len, *count) = (four_bytes(after), four_bytes(left + added));
        self.bytes = self.bytes - before + after;
        self.order.set(id, left + added, ());
        self.follow(moved);
        Some(())
    }

    /// Whether a part next to a block of so many bytes is a block that both fit into.
    fn has_neighbour_with_room(&self, id: NodeId, bytes: usize) -> bool {
        let neighbours = [self.order.previous(id), self.order.next(id)];
        neighbours.into_iter().flatten().any(|id| self.has_room(id, bytes, JOINED_BYTES_MAX))
    }

    /// Whether a part is a block that takes in so many bytes, with which it has `max` at most.
    fn has_room(&self, id: NodeId, bytes: usize, max: usize) -> bool {
        matches!(self.part(id), Part::Block { len, .. } if *len as usize + bytes <= max)
    }

    fn take(&mut self, id: NodeId, moved: &mut Moved) -> Part {
        self.order.remove(id);
        let part = std::mem::take(self.parts.get_mut(id as usize));
        self.bytes -= part.size();
        if self.index.is_some() {
            moved.gone.extend(part.keys().map(|key| (hash_of_key(key), id)));
        }
        if self.order.first().is_none() {
            self.parts = CowVec::new();
        }
        part
    }

    fn put_after(&mut self, previous: Option<NodeId>, part: Part, moved: &mut Moved) -> NodeId {
        self.bytes += part.size();
        let id = self.order.insert_after(previous, part.count(), ());
        if self.index.is_some() {
            moved.come.extend(part.keys().map(|key| (hash_of_key(key), id)));
        }
        if self.parts.len() == id as usize {
            self.parts.push(part);
        } else {
            *self.parts.get_mut(id as usize) = part;
        }
        id
    }

    /// Bytes taken, the structure itself included. O(parts).
    pub fn memory_usage(&self) -> usize {
        let parts = self.parts().map(Part::memory_usage).sum::<usize>();
        let index = self.index.as_ref().map_or(0, Index::memory_usage);
        size_of::<Self>() + self.order.memory_usage() + self.parts.memory_usage() + parts + index
    }

    /// About how many parts there are, in all trees below as well.
    pub fn part_count(&self) -> usize {
        1 + self.bytes / BLOCK_BYTES + self.index.as_ref().map_or(0, Index::bucket_count)
    }

    /// Moves the blocks of a slice to better places, unless clones share them: those of all trees below,
    /// counted in the order of their numbers. `passed` are those that were counted before. True if there are
    /// more.
    pub fn compact(&mut self, slice: usize, passed: &mut usize) -> bool {
        let wanted = slab::parts_of_slice(usize::MAX, slice);
        if self.parts.is_shared() {
            return false;
        }
        for id in 0..self.parts.len() {
            if *passed >= wanted.end {
                return true;
            }
            let is_here = wanted.contains(passed);
            *passed += 1;
            match self.parts.get(id) {
                Part::Block { .. } if !is_here => continue,
                Part::None => continue,
                _ => {}
            }
            match self.parts.get_mut(id) {
                Part::Block { bytes, .. } => bytes.compact(),
                Part::Tree { tree, .. } => {
                    if let Some(tree) = Arc::get_mut(tree)
                        && tree.compact(slice, passed)
                    {
                        return true;
                    }
                }
                Part::None => {}
            }
        }
        let Some(index) = self.index.as_mut().filter(|index| !index.is_shared()) else { return false };
        let own = *passed..*passed + index.bucket_count();
        *passed = own.end;
        let here = own.start.max(wanted.start)..own.end.min(wanted.end);
        if !here.is_empty() {
            index.compact_buckets(here.start - own.start..here.end - own.start);
        }
        own.end > wanted.end
    }

    /// Says what is wrong with it, if anything is.
    #[cfg(test)]
    pub fn check(&self) {
        let (mut bytes, mut count) = (0, 0);
        for part in self.parts() {
            bytes += part.size();
            count += part.count();
            match part {
                Part::None => panic!("a free part is not in the order"),
                Part::Tree { key, tree } => {
                    assert_eq!(key_of(key).is_empty(), self.kind == ARRAY);
                    assert!(tree.size() > SMALL_BYTES, "a tree of {} bytes", tree.size());
                    tree.check();
                }
                Part::Block { count, .. } => {
                    let mut rest = part.children();
                    assert!(rest.len() <= BLOCK_BYTES || *count == 1, "a block of {} bytes", rest.len());
                    for _ in 0..*count {
                        let (key, size) = child_sizes(self.kind, rest);
                        let is_container = packed::container(&rest[key..]).is_some();
                        assert!(!is_container || size - key <= LARGE_BYTES, "a container of {size} bytes");
                        rest = &rest[size..];
                    }
                    assert!(rest.is_empty());
                }
            }
        }
        assert_eq!((bytes, count), (self.bytes, self.len()));
        let is_indexed = self.index.is_some();
        assert!(!is_indexed || self.kind == OBJECT && self.len() >= INDEXED_MIN, "{} members", self.len());
        assert!(is_indexed || self.kind != OBJECT || self.len() < INDEXED_FROM, "{} members", self.len());
        if let Some(index) = &self.index {
            assert_eq!(index.len(), self.len());
            for id in self.order.iter() {
                for key in self.part(id).keys() {
                    let found = index.find(hash_of_key(key), |found| (found == id).then_some(()));
                    assert_eq!(found, Some(()), "no item of a key in part {id}");
                }
            }
        }
        // Blocks are half full on the whole.
        assert!(
            self.order.node_count() <= 4 + 4 * self.bytes / BLOCK_BYTES,
            "{} parts",
            self.order.node_count()
        );
    }
}

/// The child of a part that is a tree, with its key.
#[inline]
pub(super) fn tree_child<'a>(key: &'a SharedBytes, tree: &'a Arc<Tree>) -> (&'a [u8], View<'a>) {
    let key = key_of(key);
    (if key.is_empty() { key } else { packed::string(key) }, View { form: Form::Tree(tree) })
}
