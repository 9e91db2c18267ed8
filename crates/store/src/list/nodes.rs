//! A large list: packed nodes in the order that a counted tree keeps.
//!
//! Where nodes begin and end follows Redis's quicklist rule for rule (what fits a node, how a full one is
//! split, which neighbours are merged then), because it decides when OBJECT ENCODING goes back to
//! `listpack`. The one exception: an element that replaces a shorter one splits a node that has grown far
//! beyond its limit.

use mantissa_memory::slab;
use mantissa_memory::{CountedTree, CowVec, NodeId};

use super::limit::NodeLimit;
use super::node::{Cursor, FRAME_BYTES, Node};
use super::{ListEnd, Sought};
use crate::listpack::Element;

/// What the element count of a node adds to its estimated size.
const ELEMENT_OVERHEAD: usize = 8;
/// The most bytes that a node reaches through replaced elements.
const REPLACED_BYTES_MAX: usize = 128 * 1024;

/// The nodes of a large list, in order. A clone costs O(1).
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    tree: CountedTree<()>,
    nodes: CowVec<Node>,
}

impl Nodes {
    /// The list of one node's elements.
    pub fn new(first: Node) -> Self {
        let mut nodes = Nodes { tree: CountedTree::new(), nodes: CowVec::new() };
        if first.count() > 0 {
            nodes.add_after(None, first);
        }
        nodes
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.tree.total()
    }

    /// The number of nodes.
    pub fn node_count(&self) -> usize {
        self.tree.node_count()
    }

    /// The only node, if there is just one.
    pub fn only_node(&self) -> Option<&Node> {
        let first = self.tree.first()?;
        (self.tree.last() == Some(first)).then(|| self.node(first))
    }

    /// Takes the only node out.
    pub fn take_only_node(&mut self) -> Node {
        self.tree.first().map(|id| std::mem::take(self.nodes.get_mut(id as usize))).unwrap_or_default()
    }

    /// Bytes taken, the structure itself included.
    pub fn memory_usage(&self) -> usize {
        let nodes: usize = self.iter().map(Node::memory_usage).sum();
        nodes + self.nodes.memory_usage() + self.tree.memory_usage() + size_of::<Self>()
    }

    /// Moves the nodes of a slice to better places, unless clones share them. True if there are more slices
    /// (see [`slab::parts_of_slice`]).
    pub fn compact(&mut self, slice: usize) -> bool {
        let parts = slab::parts_of_slice(self.nodes.len(), slice);
        let has_more = parts.end < self.nodes.len();
        if !self.nodes.is_shared() {
            parts.for_each(|id| self.nodes.get_mut(id).compact());
        }
        has_more
    }

    /// All nodes in order.
    pub fn iter(&self) -> impl Iterator<Item = &Node> {
        let ids = self.tree.iter();
        ids.map(|id| self.node(id))
    }

    /// Has `visit` called with all nodes in order, giving up each as soon as it has been visited.
    pub fn into_each(self, visit: &mut dyn FnMut(&Node)) {
        let Nodes { tree, mut nodes } = self;
        for id in tree.iter() {
            visit(&std::mem::take(nodes.get_mut(id as usize)));
        }
    }

    /// Adds a whole node at the tail.
    pub fn push_node(&mut self, node: Node) {
        if node.count() > 0 {
            self.add_after(self.tree.last(), node);
        }
    }

    /// Adds an element at an end.
    pub fn push(&mut self, end: ListEnd, element: &[u8], limit: NodeLimit) {
        let outer = match end {
            ListEnd::Head => self.tree.first(),
            ListEnd::Tail => self.tree.last(),
        };
        match (outer, end) {
            (Some(id), _) if self.allows(id, element, limit) => {
                match end {
                    ListEnd::Head => self.nodes.get_mut(id as usize).push_front(element),
                    ListEnd::Tail => self.nodes.get_mut(id as usize).push_back(element),
                }
                self.recount(id);
            }
            _ => {
                let before = if end == ListEnd::Head { None } else { outer };
                if let Some(outer) = outer {
                    self.nodes.get_mut(outer as usize).trim(end);
                }
                self.add_after(before, new_node(element, limit));
            }
        }
    }

    /// The element at a place.
    pub fn get(&self, index: usize) -> Option<Element<'_>> {
        let (id, offset) = self.tree.find(index)?;
        self.node(id).get(offset)
    }

    /// Adds an element next to the one at `index`.
    pub fn insert(&mut self, index: usize, after: bool, element: &[u8], limit: NodeLimit) {
        let Some((id, offset)) = self.tree.find(index) else { return };
        let place = offset + usize::from(after);
        let count = self.node(id).count();
        let is_outermost = place == if after { count } else { 0 };
        let neighbour = if after { self.tree.next(id) } else { self.tree.previous(id) };
        let before = if after { Some(id) } else { self.tree.previous(id) };
        if limit.is_large(element.len()) {
            if !is_outermost && !self.node(id).is_plain() {
                let tail = self.split(id, place);
                self.add_after(Some(id), tail);
                self.add_after(Some(id), Node::plain(element));
            } else {
                self.add_after(before, Node::plain(element));
            }
        } else if self.allows(id, element, limit) {
            self.nodes.get_mut(id as usize).insert(place, element);
            self.recount(id);
        } else if is_outermost {
            match neighbour.filter(|&other| self.allows(other, element, limit)) {
                Some(other) => {
                    let place = if after { 0 } else { self.node(other).count() };
                    self.nodes.get_mut(other as usize).insert(place, element);
                    self.recount(other);
                }
                None => drop(self.add_after(before, Node::with(element))),
            }
        } else {
            let mut tail = self.split(id, place);
            if after {
                tail.push_front(element);
            } else {
                self.nodes.get_mut(id as usize).push_back(element);
                self.recount(id);
            }
            let tail = self.add_after(Some(id), tail);
            // The part that kept the reference element is the centre of the merges.
            self.merge_around(if after { id } else { tail }, limit);
        }
    }

    /// Puts an element in the place of the one at `index`.
    pub fn set(&mut self, index: usize, element: &[u8], limit: NodeLimit) {
        let Some((id, offset)) = self.tree.find(index) else { return };
        let node = self.nodes.get_mut(id as usize);
        let is_large = limit.is_large(element.len());
        if node.is_plain() && is_large {
            *node = Node::plain(element);
        } else if !node.is_plain() && !is_large && node.size() + element.len() <= REPLACED_BYTES_MAX {
            node.replace(offset, element);
        } else if node.count() == 1 {
            *node = new_node(element, limit);
        } else {
            if offset + 1 < node.count() {
                let tail = self.split(id, offset + 1);
                self.add_after(Some(id), tail);
            }
            self.add_after(Some(id), new_node(element, limit));
            self.remove_in(id, offset, offset + 1);
        }
    }

    /// Removes the elements from `from` up to but not including `to`.
    pub fn remove(&mut self, from: usize, to: usize) {
        let mut left = to.saturating_sub(from);
        let Some((mut id, mut offset)) = self.tree.find(from) else { return };
        while left > 0 {
            let taken = left.min(self.node(id).count() - offset);
            let next = if taken < left { self.tree.next(id) } else { None };
            self.remove_in(id, offset, offset + taken);
            left -= taken;
            let Some(following) = next else { return };
            (id, offset) = (following, 0);
        }
    }

    /// Removes up to `count_max` elements equal to one, from the head or from the tail; returns how many.
    pub fn remove_equal(&mut self, end: ListEnd, count_max: usize, sought: &Sought<'_>) -> usize {
        let mut removed = 0;
        let mut at = match end {
            ListEnd::Head => self.tree.first(),
            ListEnd::Tail => self.tree.last(),
        };
        while let Some(id) = at.filter(|_| removed < count_max) {
            at = match end {
                ListEnd::Head => self.tree.next(id),
                ListEnd::Tail => self.tree.previous(id),
            };
            let node = self.node(id);
            if node.plain_element().is_some_and(|element| sought.is(Element::Bytes(element))) {
                removed += 1;
                self.drop_node(id);
            } else if let Some(segment) = node.segment_with(end, &sought.encoded) {
                let node = self.nodes.get_mut(id as usize);
                removed += node.remove_equal(end, segment, count_max - removed, &sought.encoded);
                match node.count() {
                    0 => self.drop_node(id),
                    _ => self.recount(id),
                }
            }
        }
        removed
    }

    /// The place of the first element equal to one.
    pub fn position(&self, sought: &Sought<'_>) -> Option<usize> {
        let mut start = 0;
        self.iter().find_map(|node| {
            let found = match node.plain_element() {
                Some(element) => sought.is(Element::Bytes(element)).then_some(0),
                None => node.position(&sought.encoded),
            };
            let place = found.map(|place| start + place);
            start += node.count();
            place
        })
    }

    /// A cursor before the element at `index` with the node that it is in; `None` past the last element.
    pub fn cursor_at(&self, index: usize) -> Option<(NodeId, Cursor<'_>)> {
        let (id, offset) = self.tree.find(index)?;
        Some((id, self.node(id).cursor_at(offset)))
    }

    /// A cursor at the start of the node after this one, with the node's number and count.
    pub fn next(&self, id: NodeId) -> Option<(NodeId, usize, Cursor<'_>)> {
        let id = self.tree.next(id)?;
        Some((id, self.node(id).count(), self.node(id).cursor_at(0)))
    }

    /// A cursor at the end of the node before this one, with the node's number and count.
    pub fn previous(&self, id: NodeId) -> Option<(NodeId, usize, Cursor<'_>)> {
        let id = self.tree.previous(id)?;
        let count = self.node(id).count();
        Some((id, count, self.node(id).cursor_at(count)))
    }

    /// The place of an element in its node, and the count of the node.
    pub fn place(&self, index: usize) -> Option<(usize, usize)> {
        let (id, offset) = self.tree.find(index)?;
        Some((offset, self.node(id).count()))
    }

    #[inline]
    fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(id as usize)
    }

    fn allows(&self, id: NodeId, element: &[u8], limit: NodeLimit) -> bool {
        let node = self.node(id);
        let size = node.size() + element.len() + ELEMENT_OVERHEAD;
        !node.is_plain() && !limit.is_large(element.len()) && !limit.is_exceeded(size, node.count() + 1)
    }

    #[inline]
    fn recount(&mut self, id: NodeId) {
        self.tree.set(id, self.nodes.get(id as usize).count(), ());
    }

    fn add_after(&mut self, previous: Option<NodeId>, node: Node) -> NodeId {
        let id = self.tree.insert_after(previous, node.count(), ());
        if self.nodes.len() == id as usize {
            self.nodes.push(node);
        } else {
            *self.nodes.get_mut(id as usize) = node;
        }
        id
    }

    fn drop_node(&mut self, id: NodeId) {
        self.tree.remove(id);
        *self.nodes.get_mut(id as usize) = Node::default();
        if self.tree.first().is_none() {
            self.nodes = CowVec::new();
        }
    }

    fn remove_in(&mut self, id: NodeId, from: usize, to: usize) {
        if to - from == self.node(id).count() {
            self.drop_node(id);
        } else {
            self.nodes.get_mut(id as usize).remove(from, to);
            self.recount(id);
        }
    }

    /// Splits a node at a place and returns the second part.
    fn split(&mut self, id: NodeId, place: usize) -> Node {
        let tail = self.nodes.get_mut(id as usize).split_off(place);
        self.recount(id);
        tail
    }

    /// Merges the nodes around one that has been split, in the order in which Redis tries.
    fn merge_around(&mut self, centre: NodeId, limit: NodeLimit) {
        let previous = self.tree.previous(centre);
        if let Some(previous) = previous {
            self.merge(self.tree.previous(previous), Some(previous), limit);
        }
        if let Some(next) = self.tree.next(centre) {
            self.merge(Some(next), self.tree.next(next), limit);
        }
        let target = match self.tree.previous(centre) {
            Some(previous) if self.merge(Some(previous), Some(centre), limit) => previous,
            _ => centre,
        };
        self.merge(Some(target), self.tree.next(target), limit);
    }

    /// Merges two neighbours into the first if both together fit a node.
    fn merge(&mut self, left: Option<NodeId>, right: Option<NodeId>, limit: NodeLimit) -> bool {
        let (Some(left), Some(right)) = (left, right) else { return false };
        let (first, second) = (self.node(left), self.node(right));
        let size = first.size() + second.size() - FRAME_BYTES;
        let is_plain = first.is_plain() || second.is_plain();
        if is_plain || limit.is_exceeded(size, first.count() + second.count()) {
            return false;
        }
        let second = std::mem::take(self.nodes.get_mut(right as usize));
        self.nodes.get_mut(left as usize).append(&second);
        self.drop_node(right);
        self.recount(left);
        true
    }
}

fn new_node(element: &[u8], limit: NodeLimit) -> Node {
    if limit.is_large(element.len()) { Node::plain(element) } else { Node::with(element) }
}
