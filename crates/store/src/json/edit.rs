//! Changes of packed bytes: a part of one container, or one value, is replaced, and the headers of the
//! containers around it follow.

use mantissa_memory::SharedBytes;
use smallvec::SmallVec;

use super::Fragment;
use super::packed::{self, ARRAY, Header};
use super::view::View;

/// A change of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op<'o> {
    /// Another value, in packed form, takes its place.
    Set(&'o [u8]),
    /// Of a container: of its children `removed` from `index` on go, and `added` others, which are `new` in
    /// packed form, come there.
    Children { index: usize, removed: usize, new: &'o [u8], added: usize },
}

impl<'o> Op<'o> {
    /// What comes in, and how many children that are beside those that go.
    pub fn new_bytes(self) -> (&'o [u8], usize) {
        match self {
            Op::Set(value) => (value, 0),
            Op::Children { new, added, .. } => (new, added),
        }
    }
}

/// A packed value after a change of what is at a place in it; `None` if there is no such place.
pub(super) fn changed(bytes: &[u8], place: &[usize], op: &Op<'_>) -> Option<Vec<u8>> {
    let edit = Edit::of(bytes, place, op)?;
    let (new, added) = op.new_bytes();
    Some(edit.with_parts(bytes, new, added, |parts| parts.concat()))
}

/// A range of packed bytes to be replaced, and the headers that change with it.
pub(super) struct Edit {
    /// The containers around it, the outermost first: where each begins, its kind and its header.
    around: SmallVec<[(usize, u8, Header); 8]>,
    /// What is replaced.
    pub range: std::ops::Range<usize>,
    /// The number of elements that go from the innermost container.
    removed: usize,
}

/// Where a header stands, its size, and what takes its place.
type NewHeader = (usize, usize, Header, [u8; 9]);

/// Where the children of a container begin: of `count` children from `index` on the range of bytes.
fn children_range(bytes: &[u8], kind: u8, header: Header, index: usize, count: usize) -> (usize, usize) {
    let per_child = if kind == ARRAY { 1 } else { 2 };
    let mut at = header.size;
    let mut skip = |count: usize| {
        for _ in 0..count * per_child {
            at += packed::size(&bytes[at..]);
        }
        at
    };
    let from = skip(index.min(header.count));
    (from, skip(count.min(header.count.saturating_sub(index))))
}

impl Edit {
    /// What a change of the value at `place` replaces.
    pub fn of(bytes: &[u8], place: &[usize], op: &Op<'_>) -> Option<Edit> {
        match *op {
            Op::Set(_) => Edit::of_value(bytes, place),
            Op::Children { index, removed, .. } => Edit::of_children(bytes, place, index, removed),
        }
    }

    /// The value at `place`, which is the child of a container for each step.
    fn of_value(bytes: &[u8], place: &[usize]) -> Option<Edit> {
        let Some((&last, outer)) = place.split_last() else {
            return Some(Edit { around: SmallVec::new(), range: 0..packed::size(bytes), removed: 0 });
        };
        let mut edit = Edit::of_children(bytes, outer, last, 1)?;
        if edit.removed != 1 {
            return None;
        }
        edit.removed = 0;
        if edit.around.last().is_some_and(|&(_, kind, _)| kind != ARRAY) {
            edit.range.start += packed::size(&bytes[edit.range.start..]);
        }
        Some(edit)
    }

    /// `count` children, from `index` on, of the container at `place`. With a count of 0 the place before
    /// the child at `index`.
    fn of_children(bytes: &[u8], place: &[usize], index: usize, count: usize) -> Option<Edit> {
        let mut around = SmallVec::new();
        let mut at = 0;
        for step in place {
            let kind = packed::container(&bytes[at..])?;
            let header = Header::read(&bytes[at..]);
            if *step >= header.count {
                return None;
            }
            around.push((at, kind, header));
            at += children_range(&bytes[at..], kind, header, *step, 0).0;
            if kind != ARRAY {
                at += packed::size(&bytes[at..]);
            }
        }
        let kind = packed::container(&bytes[at..])?;
        let header = Header::read(&bytes[at..]);
        let (from, to) = children_range(&bytes[at..], kind, header, index, count);
        around.push((at, kind, header));
        let removed = count.min(header.count.saturating_sub(index));
        Some(Edit { around, range: at + from..at + to, removed })
    }

    /// The headers after the change, the innermost first.
    fn headers(&self, new: &[u8], added: usize) -> SmallVec<[NewHeader; 8]> {
        let (mut inner_old, mut inner_new) = (self.range.len(), new.len());
        let mut headers = SmallVec::new();
        for (index, &(start, kind, old)) in self.around.iter().enumerate().rev() {
            let is_innermost = index + 1 == self.around.len();
            let count = if is_innermost { old.count + added - self.removed } else { old.count };
            let (header, text) = Header::new(kind, old.body - inner_old + inner_new, count);
            inner_old = old.size + old.body;
            inner_new = header.size + header.body;
            headers.push((start, old.size, header, text));
        }
        headers
    }

    /// The block after the change: `added` elements, which are `new`, stand in the place of the range.
    pub fn apply(&self, bytes: &[u8], new: &[u8], added: usize) -> SharedBytes {
        self.with_parts(bytes, new, added, SharedBytes::joined)
    }

    /// Calls `join` with the parts that make up the bytes after the change.
    fn with_parts<R>(&self, bytes: &[u8], new: &[u8], added: usize, join: impl FnOnce(&[&[u8]]) -> R) -> R {
        let headers = self.headers(new, added);
        let mut parts = SmallVec::<[&[u8]; 20]>::new();
        let mut at = 0;
        for (start, old_size, header, text) in headers.iter().rev() {
            parts.extend([&bytes[at..*start], &text[..header.size]]);
            at = start + old_size;
        }
        parts.extend([&bytes[at..self.range.start], new, &bytes[self.range.end..packed::size(bytes)]]);
        join(&parts)
    }

    /// The same in a block that is as large as the one after the change: only what stands behind the range
    /// moves. False, and nothing has changed, if a header takes more or fewer bytes.
    pub fn apply_in_place(&self, block: &mut [u8], new: &[u8], added: usize) -> bool {
        let headers = self.headers(new, added);
        let before = packed::size(block);
        let after = before - self.range.len() + new.len();
        if after > block.len() || headers.iter().any(|(_, size, header, _)| *size != header.size) {
            return false;
        }
        block.copy_within(self.range.end..before, self.range.start + new.len());
        block[self.range.start..][..new.len()].copy_from_slice(new);
        block[after..before.max(after)].fill(0);
        for (start, size, _, text) in &headers {
            block[*start..start + size].copy_from_slice(&text[..*size]);
        }
        true
    }
}

/// Appends the value with a change at each of several places. The places are sorted, none comes twice and
/// none lies in another; all begin with the `depth` steps to this value. `change` has the places' values in
/// order, and returns what takes their place, or nothing to remove them. Costs O(size), whatever the number
/// of places.
pub(super) fn rewrite(
    value: &[u8],
    places: &[&[usize]],
    depth: usize,
    change: &mut dyn FnMut(View<'_>) -> Option<Fragment>,
    out: &mut Vec<u8>,
) {
    let Some(kind) = packed::container(value) else { return out.extend_from_slice(value) };
    let header = Header::read(value);
    let start = packed::begin(out);
    let first = out.len();
    let (mut rest, mut places) = (&value[header.size..][..header.body], places);
    // Where the members that have been written end, and which of them are to go.
    let (mut ends, mut removed) = (Vec::new(), Vec::new());
    let mut count = header.count;
    for index in 0..header.count {
        let here = places.iter().take_while(|place| place.get(depth) == Some(&index)).count();
        let (inside, later) = places.split_at(here);
        places = later;
        let key = if kind == ARRAY { &[][..] } else { &rest[..packed::size(rest)] };
        let child = &rest[key.len()..];
        let child = &child[..packed::size(child)];
        rest = &rest[key.len() + child.len()..];
        out.extend_from_slice(key);
        match inside.first() {
            None => out.extend_from_slice(child),
            Some(place) if place.len() > depth + 1 => rewrite(child, inside, depth + 1, change, out),
            Some(_) => match change(View::new(child)) {
                Some(new) => new.view().pack(out),
                None => {
                    count -= 1;
                    removed.extend((kind != ARRAY).then(|| (packed::string(key), index)));
                }
            },
        }
        if kind != ARRAY {
            ends.push(out.len());
        }
    }
    if !removed.is_empty() {
        removed.sort_unstable();
        reorder(first, &ends, &removed, out);
    }
    packed::end(start, kind, count, out);
}

/// Leaves out members, one after the other: the last one takes the place of each. What has been written
/// from `first` on are the members, which end at `ends`.
fn reorder(first: usize, ends: &[usize], removed: &[(&[u8], usize)], out: &mut Vec<u8>) {
    let mut order: Vec<usize> = (0..ends.len()).collect();
    let mut place_of = order.clone();
    for &(_, member) in removed {
        let place = place_of[member];
        order.swap_remove(place);
        if let Some(&moved) = order.get(place) {
            place_of[moved] = place;
        }
    }
    let members = out.split_off(first);
    for member in order {
        let from = if member == 0 { first } else { ends[member - 1] };
        out.extend_from_slice(&members[from - first..ends[member] - first]);
    }
}
