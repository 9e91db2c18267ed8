//! Changes of packed bytes: a part of one container, or one value, is replaced, and the headers of the
//! containers around it follow.

use smallvec::SmallVec;

use super::Fragment;
use super::packed::{self, ARRAY, Header};
use super::view::View;

/// A range of packed bytes to be replaced, and the headers that change with it.
pub(super) struct Edit {
    /// The containers around it, the outermost first: where each begins, its kind and its header.
    around: SmallVec<[(usize, u8, Header); 8]>,
    /// What is replaced.
    pub range: std::ops::Range<usize>,
    /// The number of elements that go from the innermost container.
    removed: usize,
}

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
    /// The value at `place`, which is the child of a container for each step.
    pub fn of_value(bytes: &[u8], place: &[usize]) -> Option<Edit> {
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
    pub fn of_children(bytes: &[u8], place: &[usize], index: usize, count: usize) -> Option<Edit> {
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

    /// The bytes after the change: `added` elements, which are `new`, stand in the place of the range.
    pub fn apply(&self, bytes: &[u8], new: &[u8], added: usize) -> Vec<u8> {
        let (mut inner_old, mut inner_new) = (self.range.len(), new.len());
        let mut headers = SmallVec::<[_; 8]>::new();
        for (index, &(start, kind, old)) in self.around.iter().enumerate().rev() {
            let is_innermost = index + 1 == self.around.len();
            let count = if is_innermost { old.count + added - self.removed } else { old.count };
            let (header, text) = Header::new(kind, old.body - inner_old + inner_new, count);
            inner_old = old.size + old.body;
            inner_new = header.size + header.body;
            headers.push((start, old.size, header, text));
        }
        let total = packed::size(bytes);
        let mut out = Vec::with_capacity(total + new.len() + 16);
        let mut at = 0;
        for (start, old_size, header, text) in headers.iter().rev() {
            out.extend_from_slice(&bytes[at..*start]);
            out.extend_from_slice(&text[..header.size]);
            at = start + old_size;
        }
        out.extend_from_slice(&bytes[at..self.range.start]);
        out.extend_from_slice(new);
        out.extend_from_slice(&bytes[self.range.end..total]);
        out
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
                Some(new) => out.extend_from_slice(new.view().bytes()),
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
