//! Vector sets: elements with vectors, searched for the nearest to a vector.
//!
//! ```text
//! for each element (32-bit number)   Q8, 300 numbers, M = 16
//! vector    312      a row of `rows`: range and length, the numbers
//! level 0   136      a row of `lowest`: a count and 32 links
//! above       6      one element in 16 has up to 16 links on a level above
//! element    24      where its text lies, its place in the order of all that were added
//! text      24+      name and attribute with their lengths
//! order       6      leaves of a counted tree, by name
//! ```
//!
//! Guarantees: the same commands lead to the same set, on every server and processor: levels follow from the
//! count of all elements that were ever added, projections from their sizes. Exact searches compare with
//! every element. Elements have the numbers from 0 on: the last one takes the place of one that is removed.
//!
//! A search is about `ef * M` comparisons, inserting one search with `ef` 200 and more, removing some
//! thousand comparisons, finding a name O(log n). A clone costs O(1) and shares all; a change copies the
//! chunks that it touches and that are shared: of up to 32 KB for vectors, 4 KB for links.
//!
//! Insertions can be [planned](VectorSet::draft) on a clone, so that many threads search for one set.

mod graph;
mod load;
mod names;
mod plan;
#[cfg(test)]
mod plan_tests;
mod rows;
mod search;
mod space;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use mantissa_memory::{CowVec, SharedBytes, slab};

use crate::Collection;
use graph::{Graph, level_of};
pub use load::{LoadedElement, VectorSetBuilder, VectorSetError, VectorSetState};
use names::Names;
use plan::{GraphPlan, Moment};
use search::{Extent, Near, Scratch, Untraced, with_scratch};
pub use space::{Projection, Quantization};
use space::{Space, head};

/// Links of an element on levels above 0, where none are asked for.
pub const LINKS_DEFAULT: u32 = 16;
/// The most that can be asked for.
pub const LINKS_MAX: u32 = 4096;
/// The fewest.
pub const LINKS_MIN: u32 = 4;

/// What is fixed with the first element.
#[derive(Clone, Debug, Default)]
pub struct VectorSetOptions {
    /// Numbers of a vector as it is kept, up to [`DIMENSION_MAX`].
    pub dimension: u32,
    /// How they are kept.
    pub quantization: Quantization,
    /// Links of an element on levels above 0: from [`LINKS_MIN`] to [`LINKS_MAX`].
    pub links: u32,
    /// What vectors go through before.
    pub projection: Option<Arc<Projection>>,
}

/// The most numbers of a vector: 512 KB as binary32.
pub const DIMENSION_MAX: u32 = (1 << 17) - 1;

/// A vector set. Clones share everything until they change.
#[derive(Clone, Default)]
#[repr(transparent)]
pub struct VectorSet {
    body: Box<Body>,
}

const _: () = assert!(size_of::<VectorSet>() == 8);

#[derive(Clone, Default)]
struct Body {
    space: Space,
    projection: Option<Arc<Projection>>,
    graph: Graph,
    elements: CowVec<Element>,
    names: Names,
    attributes: u32,
    /// Elements that were ever added.
    last_uid: u64,
    text_bytes: usize,
}

/// What an element has beside its vector and links.
#[derive(Clone, Debug, Default)]
struct Element {
    text: ElementText,
    uid: u64,
}

/// Name and attribute, each after its length; nothing if there is no such element.
#[derive(Clone, Debug, Default)]
struct ElementText(SharedBytes);

impl ElementText {
    const LENGTHS_BYTES: usize = 8;

    fn new(name: &[u8], attribute: &[u8]) -> Self {
        let lengths = [name, attribute].map(|text| (text.len() as u32).to_le_bytes());
        ElementText(SharedBytes::joined(&[&lengths[0], &lengths[1], name, attribute]))
    }

    fn parts(&self) -> (&[u8], &[u8]) {
        let Some((lengths, texts)) = self.0.payload().split_first_chunk::<{ Self::LENGTHS_BYTES }>() else {
            return (&[], &[]);
        };
        let [a, b, c, d, e, f, g, h] = *lengths;
        let (name, rest) = texts.split_at(u32::from_le_bytes([a, b, c, d]) as usize);
        (name, &rest[..u32::from_le_bytes([e, f, g, h]) as usize])
    }

    /// Whether there is an element. Only while a file is read there may be none.
    fn is_there(&self) -> bool {
        !self.0.payload().is_empty()
    }
}

/// An element that was found, and its distance from what was looked for: from 0 to 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// The element's number.
    pub element: u32,
    /// Its distance.
    pub distance: f32,
}

impl Neighbour {
    /// The similarity: 1 for vectors of one direction, 0 for opposite ones.
    pub fn score(self) -> f64 {
        1.0 - f64::from(self.distance) / 2.0
    }
}

/// A vector in the form in which the elements of a set have theirs.
#[derive(Clone, Debug)]
pub struct Target(Vec<u64>);

/// A moment of a set. The insertion of an element is planned on an image of that moment.
pub struct Draft(Moment);

/// What the insertion of an element does to a set.
pub struct Plan(GraphPlan);

impl Draft {
    /// Plans the insertion of an element that the set does not have. `None` if it cannot be planned.
    pub fn plan(self, image: &VectorSet, target: &Target, ef: usize) -> Option<Plan> {
        let Body { graph, space, .. } = &*image.body;
        let level = level_of(self.0.uid);
        with_scratch(|scratch| graph.plan(space, (&target.0, level, ef), self.0, scratch)).map(Plan)
    }
}

/// How elements are searched.
pub struct Search<'f> {
    /// The number of elements that are wanted.
    pub count: usize,
    /// The number of nearest elements that are kept meanwhile; at least `count` is.
    pub ef: usize,
    /// Which elements are wanted, if not all.
    pub filter: Option<&'f mut dyn FnMut(u32) -> bool>,
    /// Elements whose neighbours are looked at, at most, if there is a filter.
    pub expanded_max: usize,
}

impl VectorSet {
    /// An empty set. The options are within their bounds.
    pub fn new(options: VectorSetOptions) -> Self {
        let space = Space::new(options.dimension, options.quantization);
        let links = options.links.clamp(LINKS_MIN, LINKS_MAX);
        let graph = Graph::new(&space, links);
        VectorSet { body: Box::new(Body { space, projection: options.projection, graph, ..Body::default() }) }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.body.elements.len()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.body.elements.is_empty()
    }

    /// The numbers of a vector as it is kept.
    pub fn dimension(&self) -> u32 {
        self.body.space.dimension
    }

    /// How they are kept.
    pub fn quantization(&self) -> Quantization {
        self.body.space.quantization
    }

    /// Links of an element on levels above 0.
    pub fn links_max(&self) -> u32 {
        self.body.graph.links_max()
    }

    /// What vectors go through before.
    pub fn projection(&self) -> Option<&Arc<Projection>> {
        self.body.projection.as_ref()
    }

    /// The highest level that has an element.
    pub fn top_level(&self) -> u8 {
        self.body.graph.entry().map_or(0, |(_, level)| level)
    }

    /// How many elements have an attribute.
    pub fn attribute_count(&self) -> usize {
        self.body.attributes as usize
    }

    /// How many elements were ever added.
    pub fn last_uid(&self) -> u64 {
        self.body.last_uid
    }

    /// The number of an element, by which it is known until one is removed.
    pub fn find(&self, name: &[u8]) -> Option<u32> {
        self.body.names.find(name, |element| self.name(element))
    }

    /// The name of an element.
    pub fn name(&self, element: u32) -> &[u8] {
        self.body.elements.get(element as usize).text.parts().0
    }

    /// The attribute of an element; empty if it has none.
    pub fn attribute(&self, element: u32) -> &[u8] {
        self.body.elements.get(element as usize).text.parts().1
    }

    /// The place of an element in the order of all that were ever added.
    pub fn uid(&self, element: u32) -> u64 {
        self.body.elements.get(element as usize).uid
    }

    /// Sets the attribute of an element; an empty one is none.
    pub fn set_attribute(&mut self, element: u32, attribute: &[u8]) {
        let (name, before) = self.body.elements.get(element as usize).text.parts();
        if before == attribute {
            return;
        }
        let (had, has) = (!before.is_empty(), !attribute.is_empty());
        let text = ElementText::new(name, attribute);
        self.body.replace_text(element, text);
        self.body.attributes = self.body.attributes + u32::from(has) - u32::from(had);
    }

    /// A vector as the elements of this set have theirs. It has [`VectorSet::dimension`] numbers.
    pub fn target(&self, mut vector: Vec<f32>) -> Target {
        debug_assert_eq!(vector.len(), self.dimension() as usize);
        vector.resize(self.dimension() as usize, 0.0);
        Target(self.body.space.row_of(&mut vector))
    }

    /// Sets the vector of an element, which is new if the name is; true then. `ef` is how many candidates are
    /// kept while its neighbours are looked for. An element with another vector counts as added again.
    pub fn set(&mut self, name: &[u8], target: &Target, ef: usize) -> bool {
        let body = &mut *self.body;
        let found = body.names.find(name, |element| body.elements.get(element as usize).text.parts().0);
        let Some(element) = found else {
            let element = body.name_element(name);
            body.insert(element, target, ef);
            return true;
        };
        let row = body.graph.rows().get(element);
        if row[1..] == target.0[1..] && head(row).0 == head(&target.0).0 {
            body.graph.set_row(element, &target.0);
        } else {
            body.graph.remove(&body.space, element);
            body.insert(element, target, ef);
        }
        false
    }

    /// Begins to plan the insertion of an element, on an image that is made now. `None` if that would not
    /// pay: the plan would be void.
    pub fn draft(&mut self, ef: usize) -> Option<Draft> {
        if ef >= self.len() {
            // Every insertion changes what the search meets.
            return None;
        }
        let last_uid = self.body.last_uid;
        self.body.graph.begin_plan(last_uid).map(Draft)
    }

    /// Adds an element as planned with a draft of a set. `false` and no change if that is another set, or so
    /// changed since that [`VectorSet::set`] might do something else.
    pub fn add_planned(&mut self, name: &[u8], target: &Target, plan: Plan) -> bool {
        let is_known = self.find(name).is_some();
        let body = &mut *self.body;
        if is_known {
            body.graph.give_up(&plan.0);
            return false;
        }
        let (uid, element) = (body.last_uid + 1, body.elements.len() as u32);
        let new = (&target.0[..], level_of(uid));
        if !body.graph.insert_planned(&body.space, element, new, plan.0) {
            return false;
        }
        let named = body.name_element(name);
        debug_assert_eq!(named, element);
        body.last_uid = uid;
        body.elements.get_mut(element as usize).uid = uid;
        true
    }

    /// Removes an element. The one with the highest number has its number then.
    pub fn remove(&mut self, element: u32) {
        let body = &mut *self.body;
        body.graph.remove(&body.space, element);
        let Element { text, .. } = body.elements.get(element as usize).clone();
        let (name, attribute) = text.parts();
        body.names.remove(name, |other| body.elements.get(other as usize).text.parts().0);
        body.attributes -= u32::from(!attribute.is_empty());
        body.text_bytes -= text.0.memory_usage();
        body.fill_place(element);
    }

    /// The vector of an element, as far as it has been kept.
    pub fn vector(&self, element: u32) -> Vec<f32> {
        self.body.space.vector_of(self.body.graph.rows().get(element))
    }

    /// Appends the numbers of an element's vector as files have them.
    pub fn put_vector_bytes(&self, element: u32, out: &mut Vec<u8>) {
        self.body.space.put_bytes(self.body.graph.rows().get(element), out);
    }

    /// The magnitude that 127 stands for in an element's vector, and the length of the vector.
    pub fn range_and_length(&self, element: u32) -> (f32, f32) {
        head(self.body.graph.rows().get(element))
    }

    /// The highest level of an element.
    pub fn level(&self, element: u32) -> u8 {
        self.body.graph.level(element)
    }

    /// The most links on a level.
    pub fn link_capacity(&self, level: u8) -> usize {
        self.body.graph.capacity(level)
    }

    /// The numbers of the neighbours of an element on a level, in the order in which they are kept.
    pub fn links(&self, element: u32, level: u8) -> &[u32] {
        self.body.graph.links(element, level)
    }

    /// The neighbours of an element on a level.
    pub fn neighbours(&self, element: u32, level: u8) -> impl ExactSizeIterator<Item = Neighbour> {
        let Body { graph, space, .. } = &*self.body;
        let own = graph.rows().get(element);
        graph.links(element, level).iter().map(move |&other| Neighbour {
            element: other,
            distance: space.distance(own, graph.rows().get(other)),
        })
    }

    /// What the set is beside its options and its elements.
    pub fn state(&self) -> VectorSetState {
        let Body { last_uid, graph, .. } = &*self.body;
        VectorSetState { last_uid: *last_uid, entry: graph.entry().map(|(entry, _)| entry) }
    }

    /// The nearest elements to a vector that a search of the graph finds, the nearest first.
    pub fn search(&self, target: &Target, search: Search<'_>) -> Vec<Neighbour> {
        let Body { graph, space, .. } = &*self.body;
        let expanded_max = if search.filter.is_some() { search.expanded_max } else { usize::MAX };
        let extent = Extent { ef: search.ef.max(search.count), expanded_max, filter: search.filter };
        with_scratch(|scratch| {
            graph.search_down(space, &target.0, 0, extent, scratch, &mut Untraced);
            self.body.shown(target, scratch.found.iter().take(search.count).copied())
        })
    }

    /// The nearest elements to a vector among all for which `filter` holds, the nearest first.
    /// O(n log count).
    pub fn search_all(
        &self,
        target: &Target,
        count: usize,
        mut filter: impl FnMut(u32) -> bool,
    ) -> Vec<Neighbour> {
        let Body { graph, space, .. } = &*self.body;
        let mut nearest = std::collections::BinaryHeap::new();
        for element in 0..graph.rows().len() {
            let near = Near::new(space.distance(&target.0, graph.rows().get(element)), element);
            let is_near = nearest.len() < count || nearest.peek().is_some_and(|worst| near < *worst);
            if is_near && filter(element) {
                nearest.push(near);
                if nearest.len() > count {
                    nearest.pop();
                }
            }
        }
        self.body.shown(target, nearest.into_sorted_vec().into_iter())
    }

    /// The element with so many names before its own.
    pub fn at_rank(&self, rank: usize) -> Option<u32> {
        self.body.names.at(rank)
    }

    /// How many names come before this one.
    pub fn rank(&self, name: &[u8]) -> usize {
        self.body.names.rank(name, |element| self.name(element))
    }

    /// The elements in the order of their names, from the one with so many before it on.
    pub fn from_rank(&self, rank: usize) -> impl Iterator<Item = u32> {
        self.body.names.from(rank)
    }

    /// The elements in the order in which they lie in memory.
    pub fn elements(&self) -> std::ops::Range<u32> {
        // Numbers end long after memory does: an element takes some hundred bytes.
        0..self.body.elements.len() as u32
    }
}

impl Body {
    /// What was found near a target, as it is shown.
    fn shown(&self, target: &Target, found: impl Iterator<Item = Near>) -> Vec<Neighbour> {
        let shown = |near: Near| {
            let row = self.graph.rows().get(near.element());
            Neighbour { element: near.element(), distance: self.space.shown_distance(&target.0, row) }
        };
        found.map(shown).collect()
    }

    /// Makes an element of this name, and returns its number.
    fn name_element(&mut self, name: &[u8]) -> u32 {
        let element = self.elements.len() as u32;
        let text = ElementText::new(name, b"");
        self.text_bytes += text.0.memory_usage();
        self.elements.push(Element { text, uid: 0 });
        let elements = &self.elements;
        self.names.insert(element, name, |other| elements.get(other as usize).text.parts().0);
        element
    }

    /// Gives the place of an element that has been removed to the last one.
    fn fill_place(&mut self, element: u32) {
        let Some(last) = self.elements.len().checked_sub(1).map(|last| last as u32) else { return };
        if element < last {
            let moved = self.elements.get(last as usize).clone();
            let elements = &self.elements;
            let name_of = |other: u32| elements.get(other as usize).text.parts().0;
            self.names.renumber(moved.text.parts().0, element, name_of);
            *self.elements.get_mut(element as usize) = moved;
        }
        self.graph.fill_place(element);
        self.elements.pop();
    }

    fn replace_text(&mut self, element: u32, text: ElementText) {
        let place = &mut self.elements.get_mut(element as usize).text;
        self.text_bytes = self.text_bytes + text.0.memory_usage() - place.0.memory_usage();
        *place = text;
    }

    fn insert(&mut self, element: u32, target: &Target, ef: usize) {
        self.last_uid += 1;
        self.elements.get_mut(element as usize).uid = self.last_uid;
        let level = level_of(self.last_uid);
        with_scratch(|scratch: &mut Scratch| {
            self.graph.insert(&self.space, element, &target.0, level, ef, scratch);
        });
    }
}

impl fmt::Debug for VectorSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let names =
            self.from_rank(0).map(|element| (text(self.name(element)), text(self.attribute(element))));
        formatter.debug_list().entries(names).finish()
    }
}

impl Collection for VectorSet {
    fn element_count(&self) -> u64 {
        self.len() as u64
    }

    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn memory_usage(&self) -> usize {
        let Body { graph, elements, names, projection, text_bytes, .. } = &*self.body;
        let structure = elements.memory_usage() + names.memory_usage();
        let projection = projection.as_ref().map_or(0, |projection| projection.memory_usage());
        slab::class_size(size_of::<Body>()) + graph.memory_usage() + structure + projection + text_bytes
    }

    fn free_effort(&self) -> usize {
        self.len() + self.body.graph.chunk_count()
    }

    fn redis_free_effort(&self, max: usize) -> usize {
        self.len().min(max + 1)
    }

    fn is_large_form(&self) -> bool {
        true
    }

    fn compact(&mut self, slice: usize) -> bool {
        let elements = &mut self.body.elements;
        let parts = slab::parts_of_slice(elements.len(), slice);
        let has_more = parts.end < elements.len();
        if !elements.is_shared() {
            parts.for_each(|index| elements.get_mut(index).text.0.compact());
        }
        has_more
    }
}
