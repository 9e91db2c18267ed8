//! Lists.
//!
//! A small list is one packed node (OBJECT ENCODING `listpack`), a large one a sequence of packed nodes in a
//! counted tree (`quicklist`). It changes from one to the other, and back, exactly when Redis's does.
//!
//! Both ends cost O(1) in the small form and O(log nodes) in the large one; an index O(log nodes) and a walk
//! within one node of (by default) 8 KB; a range that and its length. Bytes per element: the packed element,
//! one to eleven bytes more than its payload or up to ten for an integer, and some 1% for the nodes.

mod limit;
mod node;
mod nodes;

use crate::EncodingLimits;
use crate::listpack::{self, Element, ListpackError};
use crate::spine::NodeId;
use limit::NodeLimit;
use node::{Cursor, FRAME_BYTES, Node};
use nodes::Nodes;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListEnd {
    /// The first element's.
    Head,
    /// The last element's.
    Tail,
}

#[derive(Clone, Debug)]
enum Body {
    Packed(Node),
    Nodes(Box<Nodes>),
}

/// A node of a list as it lies in memory and in dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListNode<'a> {
    /// Elements in listpack form, header and end mark left out.
    Packed {
        /// The elements back to back.
        elements: &'a [u8],
        /// Their number.
        count: usize,
    },
    /// One large element as it is.
    Plain(&'a [u8]),
}

/// An element that is looked for, prepared for comparisons.
#[derive(Clone, Copy, Debug)]
pub struct Sought<'a> {
    text: &'a [u8],
    integer: Option<i64>,
}

impl<'a> Sought<'a> {
    /// Looks for elements that stand for this text.
    pub fn new(text: &'a [u8]) -> Self {
        Sought { text, integer: mantissa_number::parse_i64(text) }
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

/// A list of byte strings.
#[derive(Clone, Debug)]
pub struct List {
    body: Body,
}

impl Default for List {
    fn default() -> Self {
        List { body: Body::Packed(Node::default()) }
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
        match &self.body {
            Body::Packed(node) => node.count(),
            Body::Nodes(nodes) => nodes.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name that OBJECT ENCODING replies.
    pub fn encoding(&self) -> &'static str {
        match &self.body {
            Body::Packed(_) => "listpack",
            Body::Nodes(_) => "quicklist",
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
        match &mut self.body {
            Body::Packed(node) => match end {
                ListEnd::Head => elements.for_each(|element| node.push_front(element)),
                ListEnd::Tail => elements.for_each(|element| node.push_back(element)),
            },
            Body::Nodes(nodes) => elements.for_each(|element| nodes.push(end, element, limit)),
        }
    }

    /// The element at a place counted from the head.
    pub fn get(&self, index: usize) -> Option<Element<'_>> {
        match &self.body {
            Body::Packed(node) => node.get(index),
            Body::Nodes(nodes) => nodes.get(index),
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
        Iter { body: &self.body, front: None, back: None, from, to }
    }

    /// Puts an element in the place of the one at `index`, which must be below the length.
    pub fn set(&mut self, index: usize, element: &[u8], limits: &EncodingLimits) {
        let limit = NodeLimit::of(limits);
        self.grow_for(std::iter::once(element), limit);
        match &mut self.body {
            Body::Packed(node) if index < node.count() => node.replace(index, element),
            Body::Packed(_) => {}
            Body::Nodes(nodes) => nodes.set(index, element, limit),
        }
        self.shrink(limits);
    }

    /// Adds an element before or after the one at `index`, which must be below the length.
    pub fn insert(&mut self, index: usize, after: bool, element: &[u8], limits: &EncodingLimits) {
        let limit = NodeLimit::of(limits);
        self.grow_for(std::iter::once(element), limit);
        match &mut self.body {
            Body::Packed(node) if index < node.count() => node.insert(index + usize::from(after), element),
            Body::Packed(_) => {}
            Body::Nodes(nodes) => nodes.insert(index, after, element, limit),
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
        match &mut self.body {
            Body::Packed(node) => node.remove(from, to),
            Body::Nodes(nodes) => nodes.remove(from, to),
        }
    }

    /// Removes up to `count_max` elements equal to one, the first ones seen from an end; returns how many.
    pub fn remove_equal(&mut self, end: ListEnd, count_max: usize, sought: Sought<'_>) -> usize {
        match &mut self.body {
            Body::Packed(node) => nodes::remove_if(node, end, count_max, |element| sought.is(element)),
            Body::Nodes(nodes) => nodes.remove_if(end, count_max, |element| sought.is(element)),
        }
    }

    /// Goes back to the small form if elements were removed and what is left takes half of what it may.
    pub fn shrink(&mut self, limits: &EncodingLimits) {
        self.pack(limits, true);
    }

    /// Adds the elements of a whole node of a dump at the tail: a listpack's.
    pub fn push_listpack(&mut self, bytes: Vec<u8>) -> Result<(), ListpackError> {
        let count = listpack::validate(&bytes)?;
        self.nodes_mut().push_node(Node::from_listpack(bytes, count));
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

    /// The nodes as they lie in memory, for dumps.
    pub fn nodes(&self) -> impl Iterator<Item = ListNode<'_>> {
        let (packed, nodes) = match &self.body {
            Body::Packed(node) => (Some(node), None),
            Body::Nodes(nodes) => (None, Some(nodes.iter())),
        };
        packed.into_iter().chain(nodes.into_iter().flatten()).map(|node| match node.is_plain() {
            true => ListNode::Plain(node.packed()),
            false => ListNode::Packed { elements: node.packed(), count: node.count() },
        })
    }

    /// Bytes taken, the structure itself not included.
    pub fn memory_usage(&self) -> usize {
        match &self.body {
            Body::Packed(node) => node.memory_usage(),
            Body::Nodes(nodes) => nodes.memory_usage(),
        }
    }

    fn nodes_mut(&mut self) -> &mut Nodes {
        if let Body::Packed(node) = &mut self.body {
            self.body = Body::Nodes(Box::new(Nodes::new(std::mem::take(node))));
        }
        match &mut self.body {
            Body::Nodes(nodes) => nodes,
            Body::Packed(_) => unreachable!("the body has just become one of nodes"),
        }
    }

    /// Goes over to the large form if the elements to be added might make a node too large.
    fn grow_for<'e>(&mut self, added: impl Iterator<Item = &'e [u8]>, limit: NodeLimit) {
        let Body::Packed(node) = &self.body else { return };
        let (bytes, count) = added.fold((0, 0), |(bytes, count), element| (bytes + element.len(), count + 1));
        if limit.is_exceeded(node.packed().len() + FRAME_BYTES + bytes, node.count() + count) {
            self.nodes_mut();
        }
    }

    fn pack(&mut self, limits: &EncodingLimits, shrinking: bool) {
        let Body::Nodes(nodes) = &mut self.body else { return };
        let limit = NodeLimit::of(limits);
        let is_small = |node: &Node| !node.is_plain() && limit.is_small(node.size(), node.count(), shrinking);
        if nodes.only_node().is_some_and(is_small) {
            self.body = Body::Packed(nodes.take_only_node());
        }
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
    body: &'a Body,
    front: Option<Place<'a>>,
    back: Option<Place<'a>>,
    from: usize,
    to: usize,
}

impl<'a> Iter<'a> {
    /// A cursor at the element at `from`, with the elements that follow in its node.
    #[cold]
    fn start_front(&self) -> Option<Place<'a>> {
        match self.body {
            Body::Packed(node) => {
                Some(Place { id: 0, cursor: node.cursor_at(self.from), left: node.count() - self.from })
            }
            Body::Nodes(nodes) => {
                let (offset, count) = nodes.place(self.from)?;
                let (id, cursor) = nodes.cursor_at(self.from)?;
                Some(Place { id, cursor, left: count - offset })
            }
        }
    }

    /// A cursor after the element at `to - 1`, with the elements before it in its node.
    #[cold]
    fn start_back(&self) -> Option<Place<'a>> {
        match self.body {
            Body::Packed(node) => Some(Place { id: 0, cursor: node.cursor_at(self.to), left: self.to }),
            Body::Nodes(nodes) => {
                let (offset, _) = nodes.place(self.to - 1)?;
                let (id, mut cursor) = nodes.cursor_at(self.to - 1)?;
                cursor.next();
                Some(Place { id, cursor, left: offset + 1 })
            }
        }
    }

    #[cold]
    fn step_front(&mut self) -> Option<()> {
        let Body::Nodes(nodes) = self.body else { return None };
        let (id, left, cursor) = nodes.next(self.front.as_ref()?.id)?;
        self.front = Some(Place { id, cursor, left });
        Some(())
    }

    #[cold]
    fn step_back(&mut self) -> Option<()> {
        let Body::Nodes(nodes) = self.body else { return None };
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
