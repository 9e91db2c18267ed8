//! A node of a list: neighbouring elements, in packed segments that clones share.
//!
//! A node is what Redis would keep in one listpack: its size counts as Redis counts it, the elements as a
//! listpack and seven bytes. It lies in memory as [`Segment`]s of up to 1,024 bytes, so that adding or
//! removing an element moves no more than that. A *plain* node holds one large element as it is.
//!
//! Bytes of a node beside its segments: 40 here, 40 for the vector, 8 to 16 for a segment: less than half a
//! byte for an element of 16 bytes in a node of 8 KB.

use std::convert::Infallible;
use std::ops::Deref;
use std::sync::Arc;

use mantissa_memory::SharedBytes;
use mantissa_memory::slab;

use super::ListEnd;
use super::segment::{self, Builder, Encoded, Segment};
use crate::listpack::{Element, HEADER_BYTES};

/// Bytes of a listpack beside its elements.
pub(super) const FRAME_BYTES: usize = HEADER_BYTES + 1;
/// Below this size a segment is joined with a neighbour, if both fit in one.
const SEGMENT_BYTES_MIN: usize = segment::SEGMENT_BYTES_MAX / 4;
const JOINED_BYTES_MAX: usize = segment::SEGMENT_BYTES_MAX * 3 / 4;

/// The segments of a node, in order. Without a segment there is no allocation.
#[derive(Clone, Debug, Default)]
struct Segments(Option<Arc<Vec<Segment>>>);

impl Segments {
    fn of(segments: Vec<Segment>) -> Segments {
        Segments(Some(Arc::new(segments)))
    }

    /// The vector, to change; copied if clones share it.
    fn own(&mut self) -> &mut Vec<Segment> {
        Arc::make_mut(self.0.get_or_insert_default())
    }

    /// Bytes of the vector's allocations.
    fn memory_usage(&self) -> usize {
        let bytes =
            |segments: &Arc<Vec<Segment>>| 40 + slab::class_size(segments.capacity() * size_of::<Segment>());
        self.0.as_ref().map_or(0, bytes)
    }
}

impl Deref for Segments {
    type Target = [Segment];

    #[inline]
    fn deref(&self) -> &[Segment] {
        self.0.as_ref().map_or(&[], |segments| segments.as_slice())
    }
}

/// Neighbouring elements, or one large element.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    segments: Segments,
    count: usize,
    /// Bytes of the elements as a listpack; of a plain node, of its element.
    bytes: usize,
    /// The element of a plain node.
    plain: SharedBytes,
}

impl Node {
    /// A node with one large element.
    pub fn plain(element: &[u8]) -> Node {
        let mut plain = SharedBytes::zeroed(element.len().max(1));
        if let Some(payload) = plain.payload_mut() {
            payload[..element.len()].copy_from_slice(element);
        }
        Node { plain, count: 1, bytes: element.len(), ..Node::default() }
    }

    /// A node with one element.
    pub fn with(element: &[u8]) -> Node {
        let mut segment = Segment::default();
        segment.splice(0, 0, Some(&Encoded::new(element)), false);
        let bytes = segment.view().listpack_bytes();
        Node { segments: Segments::of(vec![segment]), count: 1, bytes, plain: SharedBytes::default() }
    }

    /// The node with the elements of a segment of any size.
    pub fn from_segment(segment: Segment) -> Node {
        let view = segment.view();
        let (count, bytes) = (view.count(), view.listpack_bytes());
        if view.size() <= segment::SEGMENT_BYTES_MAX {
            return Node {
                segments: Segments::of(vec![segment]),
                count,
                bytes,
                plain: SharedBytes::default(),
            };
        }
        Node::from_elements((0..count).scan(view.cursor(0), |cursor, _| cursor.next()))
    }

    /// The node with these elements.
    pub fn from_elements<'e>(elements: impl Iterator<Item = Element<'e>>) -> Node {
        let Ok(node) = Node::try_from_elements(elements.map(Ok::<_, Infallible>));
        node
    }

    /// The node with these elements, or the first error among them.
    pub fn try_from_elements<'e, E>(
        elements: impl Iterator<Item = Result<Element<'e>, E>>,
    ) -> Result<Node, E> {
        let (mut segments, mut builder) = (Vec::new(), Builder::new());
        for element in elements {
            let element = Encoded::of(element?);
            if !builder.fits(&element) && !builder.is_empty() {
                segments.push(builder.finish());
            }
            builder.push(&element);
        }
        if !builder.is_empty() {
            let end = segments.len();
            insert_exactly(&mut segments, end, builder.finish());
        }
        let views = || segments.iter().map(Segment::view);
        let count = views().map(|view| view.count()).sum();
        let bytes = views().map(|view| view.listpack_bytes()).sum();
        if segments.is_empty() {
            return Ok(Node::default());
        }
        Ok(Node { segments: Segments::of(segments), count, bytes, plain: SharedBytes::default() })
    }

    /// The elements in one segment.
    pub fn into_segment(self) -> Segment {
        Segment::join(&self.segments)
    }

    /// Whether the node holds one large element as it is.
    #[inline]
    pub fn is_plain(&self) -> bool {
        !self.plain.payload().is_empty()
    }

    /// The large element of a plain node.
    #[inline]
    pub fn plain_element(&self) -> Option<&[u8]> {
        self.is_plain().then(|| &self.plain.payload()[..self.bytes])
    }

    /// The number of elements.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The size as Redis counts it.
    #[inline]
    pub fn size(&self) -> usize {
        if self.is_plain() { self.bytes } else { self.bytes + FRAME_BYTES }
    }

    /// Bytes of its allocations.
    pub fn memory_usage(&self) -> usize {
        let segments = self.segments.iter().map(Segment::memory_usage).sum::<usize>();
        segments + self.plain.memory_usage() + self.segments.memory_usage()
    }

    /// Moves segments to other places if that lets memory be given back.
    pub fn compact(&mut self) {
        if let Some(segments) = self.segments.0.as_mut().and_then(Arc::get_mut) {
            segments.iter_mut().for_each(Segment::compact);
        }
    }

    /// Frees spare capacity at an end where no more elements are added.
    pub fn trim(&mut self, end: ListEnd) {
        let Some(segments) = self.segments.0.as_mut().and_then(Arc::get_mut) else { return };
        let segment = match end {
            ListEnd::Head => segments.first_mut(),
            ListEnd::Tail => segments.last_mut(),
        };
        if let Some(segment) = segment {
            segment.trim();
        }
    }

    /// Adds an element at the tail.
    pub fn push_back(&mut self, element: &[u8]) {
        self.insert(self.count, element);
    }

    /// Adds an element at the head.
    pub fn push_front(&mut self, element: &[u8]) {
        self.insert(0, element);
    }

    /// Adds an element before the one at `index`, or at the tail if `index` is the count.
    pub fn insert(&mut self, index: usize, element: &[u8]) {
        self.insert_encoded(index, &Encoded::new(element));
    }

    fn insert_encoded(&mut self, index: usize, element: &Encoded<'_>) {
        debug_assert!(!self.is_plain());
        let (mut at, mut offset) = self.locate(index);
        let segments = self.segments.own();
        // Between two segments the element may go to either.
        if offset == 0 && at > 0 && (at == segments.len() || !segments[at].fits(element)) {
            at -= 1;
            offset = segments[at].view().count();
        }
        let count = segments.get(at).map_or(0, |segment| segment.view().count());
        if segments.get(at).is_none_or(|segment| !segment.fits(element)) {
            let is_inner = 0 < offset && offset < count;
            if is_inner {
                let tail = segments[at].part(offset, count);
                segments[at] = segments[at].part(0, offset);
                insert_exactly(segments, at + 1, tail);
            }
            if !is_inner || !segments[at].fits(element) {
                at += usize::from(offset > 0);
                insert_exactly(segments, at, Segment::default());
                offset = 0;
            }
        }
        let segment = &mut segments[at];
        let before = segment.view().listpack_bytes();
        let is_end = offset == 0 || offset == segment.view().count();
        segment.splice(offset, offset, Some(element), is_end);
        self.bytes = self.bytes - before + segment.view().listpack_bytes();
        self.count += 1;
    }

    /// Puts an element in the place of the one at `index`.
    pub fn replace(&mut self, index: usize, element: &[u8]) {
        let (at, offset) = self.locate(index);
        let element = Encoded::new(element);
        let segment = &mut self.segments.own()[at];
        let before = segment.view().listpack_bytes();
        segment.splice(offset, offset + 1, Some(&element), false);
        let view = segment.view();
        self.bytes = self.bytes - before + view.listpack_bytes();
        if view.size() > segment::SEGMENT_BYTES_MAX && view.count() > 1 {
            // The element and what is before and after it, each in a segment of its own.
            let segment = std::mem::take(segment);
            let count = segment.view().count();
            let parts = [(0, offset), (offset, offset + 1), (offset + 1, count)];
            let parts = parts.map(|(from, to)| segment.part(from, to)).into_iter();
            let parts = parts.filter(|part| part.view().count() > 0);
            self.segments.own().splice(at..at + 1, parts);
        }
    }

    /// Removes the elements from `from` up to but not including `to`.
    pub fn remove(&mut self, from: usize, to: usize) {
        let (mut at, mut offset) = self.locate(from);
        let mut left = to - from;
        self.count -= left;
        let segments = self.segments.own();
        while left > 0 && at < segments.len() {
            let view = segments[at].view();
            let (count, before) = (view.count(), view.listpack_bytes());
            let taken = left.min(count - offset);
            left -= taken;
            if taken == count {
                // Those that go whole go at once, so that the others move once.
                let mut whole = 1;
                for count in segments[at + 1..].iter().map(|segment| segment.view().count()) {
                    if count > left {
                        break;
                    }
                    left -= count;
                    whole += 1;
                }
                let gone = segments.drain(at..at + whole);
                self.bytes -= gone.map(|segment| segment.view().listpack_bytes()).sum::<usize>();
            } else {
                segments[at].splice(offset, offset + taken, None, false);
                self.bytes = self.bytes - before + segments[at].view().listpack_bytes();
                at += 1;
            }
            offset = 0;
        }
        join_small(segments, at.saturating_sub(1));
    }

    /// Takes the elements from `index` on into a node of their own.
    pub fn split_off(&mut self, index: usize) -> Node {
        let (at, offset) = self.locate(index);
        let segments = self.segments.own();
        let mut tail = Vec::with_capacity(segments.len() - at);
        if offset > 0 {
            let count = segments[at].view().count();
            tail.push(segments[at].part(offset, count));
            tail.extend(segments.drain(at + 1..));
            segments[at] = segments[at].part(0, offset);
        } else {
            tail.extend(segments.drain(at..));
        }
        let bytes = tail.iter().map(|segment| segment.view().listpack_bytes()).sum();
        let tail = Node {
            segments: Segments::of(tail),
            count: self.count - index,
            bytes,
            plain: SharedBytes::default(),
        };
        self.count = index;
        self.bytes -= bytes;
        tail
    }

    /// Adds the elements of the node that follows this one.
    pub fn append(&mut self, next: &Node) {
        let segments = self.segments.own();
        let seam = segments.len().saturating_sub(1);
        segments.extend(next.segments.iter().cloned());
        self.count += next.count;
        self.bytes += next.bytes;
        join_small(segments, seam);
    }

    /// The place of the first element equal to one. A plain node has none.
    pub fn position(&self, sought: &Encoded<'_>) -> Option<usize> {
        let mut start = 0;
        self.segments.iter().find_map(|segment| {
            let view = segment.view();
            let found = view.find((0, 0), sought).map(|(index, _)| start + index);
            start += view.count();
            found
        })
    }

    /// The segment of the first element equal to one, seen from an end.
    pub fn segment_with(&self, end: ListEnd, sought: &Encoded<'_>) -> Option<usize> {
        let has = |segment: &Segment| segment.view().find((0, 0), sought).is_some();
        match end {
            ListEnd::Head => self.segments.iter().position(has),
            ListEnd::Tail => self.segments.iter().rposition(has),
        }
    }

    /// Removes up to `count_max` elements equal to one, the first ones seen from an end, of which the first
    /// is in the segment at `at`; returns how many.
    pub fn remove_equal(&mut self, end: ListEnd, at: usize, count_max: usize, sought: &Encoded<'_>) -> usize {
        let segments = self.segments.own();
        let (mut removed, mut low, mut high) = (0, at, at);
        let mut next = Some(at);
        while let Some(at) = next.filter(|&at| at < segments.len() && removed < count_max) {
            let segment = &mut segments[at];
            let before = segment.view().listpack_bytes();
            removed += segment.remove_equal(end, count_max - removed, sought);
            self.bytes = self.bytes - before + segment.view().listpack_bytes();
            (low, high) = (low.min(at), high.max(at));
            next = if end == ListEnd::Head { Some(at + 1) } else { at.checked_sub(1) };
        }
        self.count -= removed;
        segments.retain(|segment| segment.view().count() > 0);
        for at in (low.saturating_sub(1)..high.min(segments.len())).rev() {
            join_small(segments, at);
        }
        removed
    }

    /// The element at `index`.
    pub fn get(&self, index: usize) -> Option<Element<'_>> {
        if index >= self.count { None } else { self.cursor_at(index).next() }
    }

    /// A cursor before the element at `index`, or at the end if `index` is the count.
    pub fn cursor_at(&self, index: usize) -> Cursor<'_> {
        if let Some(element) = self.plain_element() {
            return Cursor { segments: &[], at: 0, place: Place::Plain(element) };
        }
        let (mut at, mut offset) = self.locate(index);
        if at == self.segments.len() && at > 0 {
            at -= 1;
            offset = self.segments[at].view().count();
        }
        let view = self.segments.get(at).map_or(segment::View::new(&[]), Segment::view);
        Cursor { segments: &self.segments, at, place: Place::Packed(view.cursor(offset)) }
    }

    /// The segment of the element at `index` and its place there; past the last segment if `index` is the
    /// count.
    fn locate(&self, index: usize) -> (usize, usize) {
        if index == self.count {
            return (self.segments.len(), 0);
        }
        // Counted from the nearer end.
        if index >= self.count / 2 {
            let mut start = self.count;
            for (at, segment) in self.segments.iter().enumerate().rev() {
                start -= segment.view().count();
                if start <= index {
                    return (at, index - start);
                }
            }
        }
        let mut rest = index;
        let at = self.segments.iter().position(|segment| {
            let count = segment.view().count();
            let is_here = rest < count;
            rest -= if is_here { 0 } else { count };
            is_here
        });
        (at.unwrap_or(self.segments.len()), rest)
    }
}

/// Inserts a segment into a vector that grows by few places.
fn insert_exactly(segments: &mut Vec<Segment>, at: usize, segment: Segment) {
    if segments.len() == segments.capacity() {
        segments.reserve_exact(2);
    }
    segments.insert(at, segment);
}

/// Joins the segments at `at` and after it if one of them is small and both fit in one.
fn join_small(segments: &mut Vec<Segment>, at: usize) {
    for at in [at + 1, at] {
        let Some([one, two]) = segments.get(at..at + 2) else { continue };
        let (first, second) = (one.view().size(), two.view().size());
        if first.min(second) < SEGMENT_BYTES_MIN && first + second <= JOINED_BYTES_MAX {
            segments[at] = Segment::join(&segments[at..at + 2]);
            segments.remove(at + 1);
        }
    }
}

/// A place between elements of a node, moving both ways.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    segments: &'a [Segment],
    at: usize,
    place: Place<'a>,
}

#[derive(Clone)]
enum Place<'a> {
    Packed(segment::Cursor<'a>),
    Plain(&'a [u8]),
}

impl<'a> Cursor<'a> {
    /// A cursor in a segment that is the whole list.
    pub fn in_segment(cursor: segment::Cursor<'a>) -> Self {
        Cursor { segments: &[], at: 0, place: Place::Packed(cursor) }
    }

    /// The element after the place. The caller counts: at the end of a plain node there is none.
    #[inline]
    pub fn next(&mut self) -> Option<Element<'a>> {
        match &mut self.place {
            Place::Plain(element) => Some(Element::Bytes(element)),
            Place::Packed(cursor) => match cursor.next() {
                Some(element) => Some(element),
                None => {
                    self.at += 1;
                    *cursor = self.segments.get(self.at)?.view().cursor(0);
                    cursor.next()
                }
            },
        }
    }

    /// The element before the place, of which there must be one.
    #[inline]
    pub fn next_back(&mut self) -> Option<Element<'a>> {
        match &mut self.place {
            Place::Plain(element) => Some(Element::Bytes(element)),
            Place::Packed(cursor) => match cursor.next_back() {
                Some(element) => Some(element),
                None => {
                    self.at = self.at.checked_sub(1)?;
                    let view = self.segments.get(self.at)?.view();
                    *cursor = view.cursor(view.count());
                    cursor.next_back()
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;

    #[test]
    fn behaves_like_a_vector() {
        let mut numbers = Random::new(1);
        let mut random = |bound: usize| numbers.below(bound);
        let mut node = Node::default();
        let mut model: Vec<Vec<u8>> = Vec::new();
        let mut clones: Vec<(Node, Vec<Vec<u8>>)> = Vec::new();
        for round in 0..5_000 {
            let element = match random(5) {
                0 => random(1 << 20).to_string().into_bytes(),
                1 => vec![b'x'; random(400)],
                2 => format!("-{}", 1_u64 << random(63)).into_bytes(),
                3 => random(60).to_string().into_bytes(),
                _ => vec![b'0'; random(70)],
            };
            let place = random(model.len() + 1);
            let growing = (round / 500) % 2 == 0;
            match random(if growing { 6 } else { 12 }) {
                0 => (node.push_front(&element), model.insert(0, element)).1,
                1 => (node.push_back(&element), model.push(element)).1,
                2 | 3 => (node.insert(place, &element), model.insert(place, element)).1,
                4 if place < model.len() => {
                    node.replace(place, &element);
                    model[place] = element;
                }
                5 => {
                    let tail = node.split_off(place);
                    assert_eq!(tail.count(), model.len() - place);
                    node.append(&tail);
                }
                6 => {
                    let end = if random(2) == 0 { ListEnd::Head } else { ListEnd::Tail };
                    let count_max = 1 + random(4);
                    let mut places: Vec<usize> =
                        (0..model.len()).filter(|&at| model[at] == element).collect();
                    assert_eq!(node.position(&Encoded::new(&element)), places.first().copied());
                    if end == ListEnd::Tail {
                        places.reverse();
                    }
                    places.truncate(count_max);
                    let unwanted = Encoded::new(&element);
                    let removed = node
                        .segment_with(end, &unwanted)
                        .map_or(0, |at| node.remove_equal(end, at, count_max, &unwanted));
                    assert_eq!(removed, places.len());
                    places.sort_unstable_by(|one, other| other.cmp(one));
                    places.into_iter().for_each(|at| drop(model.remove(at)));
                }
                _ => {
                    let end = (place + random(3 + round % 40)).min(model.len());
                    node.remove(place, end);
                    model.drain(place..end);
                }
            }
            if round % 100 == 0 {
                clones.push((node.clone(), model.clone()));
            }
            if round % 20 == 0 {
                check(&node, &model, place.min(model.len()), round);
            }
        }
        clones.iter().for_each(|(node, model)| check(node, model, model.len() / 2, 0));
        let whole = Node::from_segment(node.clone().into_segment());
        check(&whole, &model, 0, 0);
    }

    fn check(node: &Node, model: &[Vec<u8>], place: usize, round: usize) {
        assert_eq!(node.count(), model.len(), "round {round}");
        let bytes: usize = model.iter().map(|element| crate::listpack::element_bytes(element)).sum();
        assert_eq!(node.size(), bytes + FRAME_BYTES, "round {round}");
        assert!(node.segments.iter().all(|segment| {
            let view = segment.view();
            view.count() == 1 || view.size() <= segment::SEGMENT_BYTES_MAX
        }));
        let mut cursor = node.cursor_at(place);
        for element in &model[place..] {
            assert_eq!(cursor.next().map(|element| element.to_vec()).as_ref(), Some(element));
        }
        for element in model.iter().rev() {
            assert_eq!(cursor.next_back().map(|element| element.to_vec()).as_ref(), Some(element));
        }
    }
}
