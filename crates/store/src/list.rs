//! Lists.
//!
//! A small list is one packed segment (OBJECT ENCODING `listpack`), a large one a sequence of nodes in a
//! counted tree (`quicklist`), each of segments of up to a KB. It changes from one to the other, and back,
//! exactly when Redis's does.
//!
//! Both ends cost O(1) in the small form and O(log nodes) in the large one; an index O(log nodes) and a walk
//! within one segment; a range that and its length. A clone costs O(1): it shares everything, and a change
//! then copies the segment that it touches and what leads there.
//!
//! Bytes per element of 16 bytes in a large list:
//!
//! ```text
//! payload and code     17
//! segment                 0.4   its header and the rest that is too short for an element, over 59 elements
//! node                  0.4   48 bytes, the vector of its segments, its place in the tree, over 454 elements
//! ```

mod limit;
mod node;
mod nodes;
mod segment;

use std::fmt;

use crate::listpack::{CheckedElements, Element, ListpackError};
use crate::{Collection, EncodingLimits};
use limit::NodeLimit;
use mantissa_memory::small_or_large::{Borrowed, Owned};
use mantissa_memory::{NodeId, SharedBytes, SmallOrLarge};
use node::{Cursor, FRAME_BYTES, Node};
use nodes::Nodes;
use segment::{Builder, Encoded, Segment, View};

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListEnd {
    /// The first element's.
    Head,
    /// The last element's.
    Tail,
}

/// A node of a list, for dumps.
#[derive(Clone)]
pub enum ListNode<'a> {
    /// Neighbouring elements, which are one listpack there.
    Packed(NodeElements<'a>),
    /// One large element as it is.
    Plain(&'a [u8]),
}

impl<'a> ListNode<'a> {
    fn of(node: &'a Node) -> Self {
        match node.plain_element() {
            Some(element) => ListNode::Plain(element),
            None => ListNode::Packed(NodeElements { cursor: node.cursor_at(0), left: node.count() }),
        }
    }
}

/// The elements of a node.
#[derive(Clone)]
pub struct NodeElements<'a> {
    cursor: Cursor<'a>,
    left: usize,
}

impl<'a> Iterator for NodeElements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        self.left = self.left.checked_sub(1)?;
        self.cursor.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// An element that is looked for, prepared for comparisons.
#[derive(Clone, Copy, Debug)]
pub struct Sought<'a> {
    text: &'a [u8],
    integer: Option<i64>,
    /// As it would be stored: equal elements are stored alike.
    encoded: Encoded<'a>,
}

impl<'a> Sought<'a> {
    /// Looks for elements that stand for this text.
    pub fn new(text: &'a [u8]) -> Self {
        let integer = mantissa_number::parse_i64(text);
        let encoded = Encoded::of(integer.map_or(Element::Bytes(text), Element::Integer));
        Sought { text, integer, encoded }
    }

    /// Whether the element stands for the text.
    #[inline]
    pub fn is(&self, element: Element<'_>) -> bool {
        match element {
            Element::Bytes(bytes) => bytes == self.text,
            Element::Integer(integer) => self.integer == Some(integer),
        }
    }
}

/// A list of byte strings: one segment, or nodes.
#[derive(Clone)]
#[repr(transparent)]
pub struct List {
    body: SmallOrLarge<Nodes>,
}

const _: () = assert!(size_of::<List>() == 8);

impl Default for List {
    fn default() -> Self {
        List { body: SmallOrLarge::new() }
    }
}

impl fmt::Debug for List {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

impl List {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        match self.body.get() {
            Borrowed::Small(payload) => View::new(payload).count(),
            Borrowed::Large(nodes) => nodes.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name that OBJECT ENCODING replies.
    pub fn encoding(&self) -> &'static str {
        match self.body.get() {
            Borrowed::Small(_) => "listpack",
            Borrowed::Large(_) => "quicklist",
        }
    }

    /// Adds an element at the tail.
    pub fn push_back(&mut self, element: &[u8], limits: &EncodingLimits) {
        self.extend(ListEnd::Tail, std::iter::once(element), limits);
    }

    /// Adds an element at the head.
    pub fn push_front(&mut self, element: &[u8], limits: &EncodingLimits) {
        self.extend(ListEnd::Head, std::iter::once(element), limits);
    }

    /// Adds elements at an end, one after the other: the last of them becomes the outermost.
    pub fn extend<'e>(
        &mut self,
        end: ListEnd,
        elements: impl Iterator<Item = &'e [u8]> + Clone,
        limits: &EncodingLimits,
    ) {
        let limit = NodeLimit::of(limits);
        self.grow_for(elements.clone(), limit);
        match self.body.large_mut() {
            Some(nodes) => elements.for_each(|element| nodes.push(end, element, limit)),
            None => self.change_packed(|segment| {
                for element in elements {
                    let at = if end == ListEnd::Head { 0 } else { segment.view().count() };
                    segment.splice(at, at, Some(&Encoded::new(element)), false);
                }
            }),
        }
    }

    /// The element at a place counted from the head.
    pub fn get(&self, index: usize) -> Option<Element<'_>> {
        match self.body.get() {
            Borrowed::Small(payload) => {
                let view = View::new(payload);
                if index < view.count() { view.cursor(index).next() } else { None }
            }
            Borrowed::Large(nodes) => nodes.get(index),
        }
    }

    /// All elements from head to tail.
    pub fn iter(&self) -> Iter<'_> {
        self.range(0, self.len())
    }

    /// The elements from `from` up to but not including `to`.
    pub fn range(&self, from: usize, to: usize) -> Iter<'_> {
        let to = to.min(self.len());
        let from = from.min(to);
        Iter { list: self, front: None, back: None, from, to }
    }

    /// Puts an element in the place of the one at `index`, which must be below the length.
    pub fn set(&mut self, index: usize, element: &[u8], limits: &EncodingLimits) {
        let limit = NodeLimit::of(limits);
        self.grow_for(std::iter::once(element), limit);
        let len = self.len();
        match self.body.large_mut() {
            Some(nodes) => nodes.set(index, element, limit),
            None if index < len => self.change_packed(|segment| {
                segment.splice(index, index + 1, Some(&Encoded::new(element)), false);
            }),
            None => {}
        }
        self.shrink(limits);
    }

    /// Adds an element before or after the one at `index`, which must be below the length.
    pub fn insert(&mut self, index: usize, after: bool, element: &[u8], limits: &EncodingLimits) {
        let limit = NodeLimit::of(limits);
        self.grow_for(std::iter::once(element), limit);
        let len = self.len();
        match self.body.large_mut() {
            Some(nodes) => nodes.insert(index, after, element, limit),
            None if index < len => self.change_packed(|segment| {
                let at = index + usize::from(after);
                segment.splice(at, at, Some(&Encoded::new(element)), false);
            }),
            None => {}
        }
    }

    /// Goes over to the large form if it would be needed with this element more. Redis's LINSERT does so
    /// before it knows whether there is a place to insert.
    pub fn prepare_insert(&mut self, element: &[u8], limits: &EncodingLimits) {
        self.grow_for(std::iter::once(element), NodeLimit::of(limits));
    }

    /// Removes the elements from `from` up to but not including `to`.
    pub fn remove(&mut self, from: usize, to: usize) {
        let to = to.min(self.len());
        if from >= to {
            return;
        }
        match self.body.large_mut() {
            Some(nodes) => nodes.remove(from, to),
            None => self.change_packed(|segment| segment.splice(from, to, None, false)),
        }
    }

    /// Removes up to `count_max` elements equal to one, the first ones seen from an end; returns how many.
    pub fn remove_equal(&mut self, end: ListEnd, count_max: usize, sought: Sought<'_>) -> usize {
        match self.body.large_mut() {
            Some(nodes) => nodes.remove_equal(end, count_max, &sought),
            None => {
                let mut removed = 0;
                self.change_packed(|segment| {
                    removed = segment.remove_equal(end, count_max, &sought.encoded);
                });
                removed
            }
        }
    }

    /// The place of the first element equal to one.
    pub fn position(&self, sought: Sought<'_>) -> Option<usize> {
        match self.body.get() {
            Borrowed::Small(payload) => {
                View::new(payload).find((0, 0), &sought.encoded).map(|(index, _)| index)
            }
            Borrowed::Large(nodes) => nodes.position(&sought),
        }
    }

    /// Goes back to the small form if elements were removed and what is left takes half of what it may.
    pub fn shrink(&mut self, limits: &EncodingLimits) {
        self.pack(limits, true);
    }

    /// The list that is one listpack of a dump.
    pub fn from_listpack(bytes: &[u8], limits: &EncodingLimits) -> Result<List, ListpackError> {
        let mut builder = Builder::new();
        for element in CheckedElements::new(bytes)? {
            builder.push(&Encoded::of(canonical(element?)));
        }
        let (segment, mut list) = (builder.finish(), List::new());
        let (bytes, count) = (segment.view().listpack_bytes() + FRAME_BYTES, segment.view().count());
        list.body.put(match NodeLimit::of(limits).is_small(bytes, count, false) {
            true => Owned::Small(segment.into_bytes()),
            false => Owned::Large(Box::new(Nodes::new(Node::from_segment(segment)))),
        });
        Ok(list)
    }

    /// Adds the elements of a whole node of a dump at the tail: a listpack's. After an error the list is not
    /// to be used.
    pub fn push_listpack(&mut self, bytes: &[u8]) -> Result<(), ListpackError> {
        let elements = CheckedElements::new(bytes)?.map(|element| element.map(canonical));
        let node = Node::try_from_elements(elements)?;
        self.nodes_mut().push_node(node);
        Ok(())
    }

    /// Adds a large element of a dump, which has a node of its own, at the tail.
    pub fn push_plain(&mut self, element: &[u8]) {
        self.nodes_mut().push_node(Node::plain(element));
    }

    /// Chooses the form after whole nodes were added.
    pub fn settle(&mut self, limits: &EncodingLimits) {
        self.pack(limits, false);
    }

    /// The nodes, for dumps.
    pub fn nodes(&self) -> impl Iterator<Item = ListNode<'_>> {
        let (packed, nodes) = match self.body.get() {
            Borrowed::Small(payload) => (Some(View::new(payload)).filter(|view| view.count() > 0), None),
            Borrowed::Large(nodes) => (None, Some(nodes.iter())),
        };
        let packed = packed.map(|view| {
            let cursor = Cursor::in_segment(view.cursor(0));
            ListNode::Packed(NodeElements { cursor, left: view.count() })
        });
        packed.into_iter().chain(nodes.into_iter().flatten().map(ListNode::of))
    }

    /// The number of nodes.
    pub fn node_count(&self) -> usize {
        match self.body.get() {
            Borrowed::Small(_) => usize::from(!self.is_empty()),
            Borrowed::Large(nodes) => nodes.node_count(),
        }
    }

    /// Has `visit` called with the nodes in order. Memory that is not shared is given back on the way, and
    /// writers of a clone copy nothing of what has been visited.
    pub fn into_nodes(mut self, visit: &mut dyn FnMut(ListNode<'_>)) {
        match self.body.take() {
            Owned::Large(nodes) => nodes.into_each(&mut |node| visit(ListNode::of(node))),
            small => {
                self.body.put(small);
                self.nodes().for_each(visit);
            }
        }
    }

    /// Bytes taken, the structure itself not included.
    pub fn memory_usage(&self) -> usize {
        match self.body.get() {
            Borrowed::Small(payload) => SharedBytes::allocation_of(payload),
            Borrowed::Large(nodes) => nodes.memory_usage(),
        }
    }

    /// Moves a slice of what is better placed elsewhere, so that memory can be given back. True if there are
    /// more slices (see [`slab::parts_of_slice`]).
    pub fn compact(&mut self, slice: usize) -> bool {
        match self.body.large_mut() {
            Some(nodes) => nodes.compact(slice),
            None => {
                self.change_packed(Segment::compact);
                false
            }
        }
    }

    /// Changes the segment that the whole list is.
    #[inline]
    fn change_packed(&mut self, change: impl FnOnce(&mut Segment)) {
        let mut segment = match self.body.take() {
            Owned::Small(bytes) => Segment::from_bytes(bytes),
            Owned::Large(_) => unreachable!("the caller has seen that the list is one segment"),
        };
        change(&mut segment);
        self.body.put(Owned::Small(segment.into_bytes()));
    }

    fn nodes_mut(&mut self) -> &mut Nodes {
        if let Owned::Small(bytes) = match self.body.get() {
            Borrowed::Small(_) => self.body.take(),
            Borrowed::Large(_) => return self.large(),
        } {
            let segment = Segment::from_bytes(bytes);
            let nodes = Nodes::new(Node::from_segment(segment));
            self.body.put(Owned::Large(Box::new(nodes)));
        }
        self.large()
    }

    fn large(&mut self) -> &mut Nodes {
        self.body.large_mut().expect("the list has nodes")
    }

    /// Goes over to the large form if the elements to be added might make a node too large.
    fn grow_for<'e>(&mut self, added: impl Iterator<Item = &'e [u8]>, limit: NodeLimit) {
        let Borrowed::Small(payload) = self.body.get() else { return };
        let view = View::new(payload);
        let (bytes, count) = added.fold((0, 0), |(bytes, count), element| (bytes + element.len(), count + 1));
        if limit.is_exceeded(view.listpack_bytes() + FRAME_BYTES + bytes, view.count() + count) {
            self.nodes_mut();
        }
    }

    fn pack(&mut self, limits: &EncodingLimits, shrinking: bool) {
        let Some(nodes) = self.body.large_mut() else { return };
        let limit = NodeLimit::of(limits);
        let is_small = |node: &Node| !node.is_plain() && limit.is_small(node.size(), node.count(), shrinking);
        if nodes.only_node().is_some_and(is_small) {
            let segment = nodes.take_only_node().into_segment();
            self.body.put(Owned::Small(segment.into_bytes()));
        }
    }
}

impl Collection for List {
    fn element_count(&self) -> u64 {
        self.len() as u64
    }

    fn encoding(&self) -> &'static str {
        List::encoding(self)
    }

    fn memory_usage(&self) -> usize {
        List::memory_usage(self)
    }

    fn free_effort(&self) -> usize {
        if self.is_large_form() { self.len() } else { 1 }
    }

    fn redis_free_effort(&self, max: usize) -> usize {
        self.node_count().min(max + 1)
    }

    fn is_large_form(&self) -> bool {
        self.encoding() != "listpack"
    }

    fn compact(&mut self, slice: usize) -> bool {
        List::compact(self, slice)
    }
}

/// The element that stands for the same text and is an integer where that is one.
fn canonical(element: Element<'_>) -> Element<'_> {
    match element {
        Element::Bytes(text) => mantissa_number::parse_i64(text).map_or(element, Element::Integer),
        integer => integer,
    }
}

/// A cursor within a node, with the number of elements that it has before it.
#[derive(Clone)]
struct Place<'a> {
    id: NodeId,
    cursor: Cursor<'a>,
    left: usize,
}

/// Elements of a list, from both ends; see [`List::range`].
#[derive(Clone)]
pub struct Iter<'a> {
    list: &'a List,
    front: Option<Place<'a>>,
    back: Option<Place<'a>>,
    from: usize,
    to: usize,
}

impl<'a> Iter<'a> {
    /// A cursor at the element at `from`, with the elements that follow in its node.
    #[cold]
    fn start_front(&self) -> Option<Place<'a>> {
        match self.list.body.get() {
            Borrowed::Small(payload) => {
                let view = View::new(payload);
                let cursor = Cursor::in_segment(view.cursor(self.from));
                Some(Place { id: 0, cursor, left: view.count() - self.from })
            }
            Borrowed::Large(nodes) => {
                let (offset, count) = nodes.place(self.from)?;
                let (id, cursor) = nodes.cursor_at(self.from)?;
                Some(Place { id, cursor, left: count - offset })
            }
        }
    }

    /// A cursor after the element at `to - 1`, with the elements before it in its node.
    #[cold]
    fn start_back(&self) -> Option<Place<'a>> {
        match self.list.body.get() {
            Borrowed::Small(payload) => {
                let cursor = Cursor::in_segment(View::new(payload).cursor(self.to));
                Some(Place { id: 0, cursor, left: self.to })
            }
            Borrowed::Large(nodes) => {
                let (offset, _) = nodes.place(self.to - 1)?;
                let (id, mut cursor) = nodes.cursor_at(self.to - 1)?;
                cursor.next();
                Some(Place { id, cursor, left: offset + 1 })
            }
        }
    }

    #[cold]
    fn step_front(&mut self) -> Option<()> {
        let Borrowed::Large(nodes) = self.list.body.get() else { return None };
        let (id, left, cursor) = nodes.next(self.front.as_ref()?.id)?;
        self.front = Some(Place { id, cursor, left });
        Some(())
    }

    #[cold]
    fn step_back(&mut self) -> Option<()> {
        let Borrowed::Large(nodes) = self.list.body.get() else { return None };
        let (id, left, cursor) = nodes.previous(self.back.as_ref()?.id)?;
        self.back = Some(Place { id, cursor, left });
        Some(())
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        if self.from == self.to {
            return None;
        }
        if self.front.is_none() {
            self.front = self.start_front();
        }
        if self.front.as_ref()?.left == 0 {
            self.step_front()?;
        }
        let front = self.front.as_mut()?;
        front.left -= 1;
        self.from += 1;
        front.cursor.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.to - self.from, Some(self.to - self.from))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.from == self.to {
            return None;
        }
        if self.back.is_none() {
            self.back = self.start_back();
        }
        if self.back.as_ref()?.left == 0 {
            self.step_back()?;
        }
        let back = self.back.as_mut()?;
        back.left -= 1;
        self.to -= 1;
        back.cursor.next_back()
    }
}

impl ExactSizeIterator for Iter<'_> {}

#[cfg(test)]
mod tests;
