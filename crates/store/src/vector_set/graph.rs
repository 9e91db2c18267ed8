//! The graph: which elements are linked, on which levels.
//!
//! A hierarchical navigable small world (Malkov and Yashunin, 2018): every element is on level 0, one in
//! 16 also on level 1, and so on; a search goes down from the single entry on the highest level.
//!
//! ```text
//! level 0     a row for each element:  | count | up to 2 * M numbers of neighbours |
//! above       for elements that are there: a vector of up to M numbers for each level
//! ```
//!
//! Invariants: links are mutual, between elements that are both on their level, and no element is linked to
//! itself or twice to another. So an element that is removed is found at all its neighbours, and they are
//! linked with each other in its place. The entry is on the highest level.
//!
//! Inserting costs a search and, for each neighbour whose links are full, the distances to all of its
//! neighbours: one of them gives way. Removing costs the distances between the neighbours.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use mantissa_memory::{CowVec, prefetch_lines};

use super::plan::JournalCell;
use super::rows::{LARGE_CHUNK, Rows, SMALL_CHUNK, numbers, numbers_mut};
use super::search::{Extent, Near, Scratch, Untraced};
use super::space::Space;

/// An element is on the next level with the probability of one in so many.
const LEVEL_FACTOR_BITS: u32 = 4;
/// The highest level.
pub const LEVEL_MAX: u8 = 15;
/// Others that an element which has lost a neighbour is compared with at most.
const PARTNERS_MAX: usize = 128;

/// Links above level 0.
type Upper = Option<Arc<Vec<Vec<u32>>>>;

/// Links and vectors.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    rows: Rows,
    lowest: Rows,
    upper: CowVec<Upper>,
    links_max: u32,
    /// Where searches begin, if there is an element.
    entry: Option<u32>,
    /// Elements by their highest level.
    by_level: [u32; LEVEL_MAX as usize + 1],
    upper_bytes: usize,
    /// What plans have to know.
    pub journal: JournalCell,
}

impl Graph {
    /// An empty graph, with so many links on levels above 0 and twice as many there.
    pub fn new(space: &Space, links_max: u32) -> Self {
        Graph {
            rows: Rows::new(space.row_bytes(), LARGE_CHUNK),
            lowest: Rows::new(size_of::<u32>() * (2 * links_max as usize + 1), SMALL_CHUNK),
            upper: CowVec::new(),
            links_max,
            entry: None,
            by_level: [0; LEVEL_MAX as usize + 1],
            upper_bytes: 0,
            journal: JournalCell::default(),
        }
    }

    /// The vectors.
    #[inline]
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// The most links that an element has on level 1 and above.
    pub fn links_max(&self) -> u32 {
        self.links_max
    }

    /// The most links that an element has on a level.
    pub fn capacity(&self, level: u8) -> usize {
        if level == 0 { 2 * self.links_max as usize } else { self.links_max as usize }
    }

    /// Where searches begin, and the level of that element.
    pub fn entry(&self) -> Option<(u32, u8)> {
        self.entry.map(|entry| (entry, self.level(entry)))
    }

    /// The highest level that an element is on.
    pub fn level(&self, element: u32) -> u8 {
        self.upper.get(element as usize).as_ref().map_or(0, |levels| levels.len() as u8)
    }

    /// The neighbours of an element on a level. None on levels where it is not.
    #[inline]
    pub fn links(&self, element: u32, level: u8) -> &[u32] {
        if level == 0 {
            let row = numbers::<u32>(self.lowest.get(element));
            return &row[1..=row[0] as usize];
        }
        let levels = self.upper.get(element as usize).as_ref();
        levels.and_then(|levels| levels.get(usize::from(level) - 1)).map_or(&[], Vec::as_slice)
    }

    #[inline]
    pub fn prefetch_links(&self, element: u32) {
        let row = self.lowest.get(element);
        prefetch_lines(row.as_ptr().cast(), 0..size_of_val(row));
    }

    /// Makes an element without links, on levels up to this one, in the place of this number: one that has
    /// been removed, or the next.
    pub fn place(&mut self, element: u32, row: &[u64], level: u8) {
        while self.rows.len() <= element {
            self.rows.push();
            self.lowest.push();
            self.upper.push(None);
        }
        self.rows.get_mut(element).copy_from_slice(row);
        numbers_mut::<u32>(self.lowest.get_mut(element))[0] = 0;
        let levels = vec![Vec::new(); usize::from(level)];
        self.upper_bytes += usize::from(level) * self.upper_level_bytes();
        self.by_level[usize::from(level)] += 1;
        if level > 0 || self.upper.get(element as usize).is_some() {
            *self.upper.get_mut(element as usize) = (level > 0).then(|| Arc::new(levels));
        }
        if self.entry.is_none_or(|entry| self.level(entry) < level) {
            self.entry = Some(element);
        }
    }

    /// Has searches begin at an element. False if that is not on the highest level.
    pub fn set_entry(&mut self, entry: Option<u32>) -> bool {
        let highest = self.by_level.iter().rposition(|&count| count > 0);
        let level =
            entry.filter(|&entry| entry < self.rows.len()).map(|entry| usize::from(self.level(entry)));
        self.entry = entry;
        level == highest
    }

    /// Replaces the vector of an element by one at the same place.
    pub fn set_row(&mut self, element: u32, row: &[u64]) {
        self.journal.end();
        self.rows.get_mut(element).copy_from_slice(row);
    }

    /// About what the links of an element take on one of the upper levels.
    fn upper_level_bytes(&self) -> usize {
        self.links_max as usize * size_of::<u32>() + size_of::<Vec<u32>>()
    }

    fn links_mut(&mut self, element: u32, level: u8, change: impl FnOnce(&mut Vec<u32>)) {
        let levels = self.upper.get_mut(element as usize).as_mut().map(Arc::make_mut);
        if let Some(links) = levels.and_then(|levels| levels.get_mut(usize::from(level) - 1)) {
            change(links);
        }
    }

    /// Adds `to` at the end of the links of `from`, which are not full.
    pub fn add_half(&mut self, from: u32, to: u32, level: u8) {
        if level > 0 {
            return self.links_mut(from, level, |links| links.push(to));
        }
        let row = numbers_mut::<u32>(self.lowest.get_mut(from));
        row[0] += 1;
        row[row[0] as usize] = to;
    }

    /// Takes `to` from the links of `from`.
    pub fn remove_half(&mut self, from: u32, to: u32, level: u8) {
        let Some(at) = self.links(from, level).iter().position(|&link| link == to) else { return };
        if level > 0 {
            return self.links_mut(from, level, |links| _ = links.swap_remove(at));
        }
        let row = numbers_mut::<u32>(self.lowest.get_mut(from));
        row[at + 1] = row[row[0] as usize];
        row[0] -= 1;
    }

    fn link(&mut self, one: u32, other: u32, level: u8) {
        self.journal.note(one, other, level);
        self.add_half(one, other, level);
        self.add_half(other, one, level);
    }

    fn unlink(&mut self, one: u32, other: u32, level: u8) {
        self.journal.note(one, other, level);
        self.remove_half(one, other, level);
        self.remove_half(other, one, level);
    }

    fn between(&self, space: &Space, one: u32, other: u32) -> f32 {
        space.distance(self.rows.get(one), self.rows.get(other))
    }

    /// Adds an element with the vector of a row on levels up to this one, in the place of this number.
    pub fn insert(
        &mut self,
        space: &Space,
        element: u32,
        row: &[u64],
        level: u8,
        ef: usize,
        scratch: &mut Scratch,
    ) {
        let Some((_, top)) = self.entry() else { return self.place(element, row, level) };
        let highest = level.min(top);
        self.search_down(space, row, highest, Extent::all(ef), scratch, &mut Untraced);
        self.place(element, row, level);
        for on in (0..=highest).rev() {
            if on < highest {
                self.search_level(space, row, on, Extent::all(ef), scratch, &mut Untraced);
            }
            let chosen = self.choose(space, &scratch.found);
            self.connect(space, (element, row), &chosen, on, |_, _| None);
        }
    }

    /// Which of the nearest become neighbours: those that are nearer to the new element than to any of its
    /// neighbours, so that they lie on different sides of it; then the nearest of the others.
    pub fn choose(&self, space: &Space, nearest: &[Near]) -> Vec<Near> {
        let wanted = self.links_max as usize;
        let mut chosen: Vec<Near> = Vec::with_capacity(wanted);
        let mut left = Vec::new();
        for &candidate in nearest {
            if chosen.len() == wanted {
                break;
            }
            let row = self.rows.get(candidate.element());
            let is_hidden = chosen
                .iter()
                .any(|other| space.distance(row, self.rows.get(other.element())) < candidate.distance());
            if is_hidden { left.push(candidate) } else { chosen.push(candidate) }
        }
        let missing = wanted - chosen.len();
        chosen.extend(left.into_iter().take(missing));
        chosen
    }

    /// Links a new element with those chosen. One whose links are full gives one of them up, or refuses. If
    /// all refuse, the nearest gives up the neighbour that has the most links. What a full one does may be
    /// `known`, by its place among the chosen.
    pub fn connect(
        &mut self,
        space: &Space,
        (element, row): (u32, &[u64]),
        chosen: &[Near],
        level: u8,
        known: impl Fn(&Self, usize) -> Option<Option<u32>>,
    ) {
        for (index, &near) in chosen.iter().enumerate() {
            let other = near.element();
            if self.links(other, level).len() < self.capacity(level) {
                self.link(element, other, level);
                continue;
            }
            let known = known(self, index);
            let victim = known.unwrap_or_else(|| self.victim(space, other, row, near.distance(), level).0);
            if let Some(victim) = victim {
                self.unlink(other, victim, level);
                self.link(element, other, level);
            }
        }
        if self.links(element, level).is_empty()
            && let Some(near) = chosen.first()
        {
            let other = near.element();
            let links = self.links(other, level).iter().copied();
            if let Some(victim) = links.max_by_key(|&link| self.links(link, level).len()) {
                self.unlink(other, victim, level);
            }
            self.link(element, other, level);
        }
    }

    /// The link that a full element gives up for a new one at this distance, if any: the farthest of those
    /// that the new one is nearer to than the element is, since they can be reached through it; else, unless
    /// the new one can be reached through another, the farthest. Never the last link of a neighbour. Those
    /// that are all equally far from each other take half of the links at most, and change places among
    /// themselves then: equal vectors do not become an island.
    ///
    /// With it, whether it is the same however many links the neighbours have, as long as each has several.
    pub fn victim(
        &self,
        space: &Space,
        full: u32,
        new: &[u64],
        distance: f32,
        level: u8,
    ) -> (Option<u32>, bool) {
        let mut is_sure = true;
        let (mut hidden, mut farthest): (Option<Near>, Option<(Near, usize)>) = (None, None);
        let (mut equals, mut most_linked): (usize, Option<(usize, u32)>) = (0, None);
        let links = self.links(full, level);
        links.iter().for_each(|&link| self.rows.prefetch(link, space.row_bytes()));
        for &link in links {
            let (to_full, to_new) =
                (self.between(space, full, link), space.distance(new, self.rows.get(link)));
            if to_full < distance && to_new < distance {
                // The new one can be reached through this.
                farthest = None;
                most_linked = None;
                equals = usize::MAX;
            }
            is_sure &= !(to_full + to_new).is_nan();
            let degree = self.links(link, level).len();
            if degree <= 1 {
                is_sure = false;
                continue;
            }
            if to_full > distance && to_new < to_full {
                hidden = hidden.max(Some(Near::new(to_full, link)));
            }
            if equals == usize::MAX {
                continue;
            }
            if to_full == distance && to_new == distance {
                equals += 1;
                is_sure = false;
                most_linked = most_linked.max(Some((degree, link)));
            }
            // Of several at one distance the one with the most links.
            let key = (Near::new(to_full, 0), degree);
            is_sure &= farthest.is_none_or(|(near, _)| near.distance() != to_full);
            if to_full >= distance
                && farthest.is_none_or(|(near, most)| key > (Near::new(near.distance(), 0), most))
            {
                farthest = Some((Near::new(to_full, link), degree));
            }
        }
        let are_equals_many = equals >= self.capacity(level) / 2;
        let other = if are_equals_many {
            most_linked.map(|(_, link)| link)
        } else {
            farthest.map(|(near, _)| near.element())
        };
        (hidden.map(Near::element).or(other), is_sure)
    }

    /// Removes an element from the graph. Its place is empty then, until [`Graph::place`] makes another one
    /// there or [`Graph::fill_place`] moves the last one.
    pub fn remove(&mut self, space: &Space, element: u32) {
        self.journal.end();
        let top = self.level(element);
        self.by_level[usize::from(top)] -= 1;
        if self.entry == Some(element) {
            self.entry = self.next_entry(element);
        }
        for level in 0..=top {
            let neighbours = self.links(element, level).to_vec();
            for &neighbour in &neighbours {
                self.unlink(element, neighbour, level);
            }
            self.relink(space, &neighbours, level);
        }
        self.upper_bytes -= usize::from(top) * self.upper_level_bytes();
        if top > 0 {
            *self.upper.get_mut(element as usize) = None;
        }
    }

    /// Moves the last element to the place of one that has been removed, and gives its own up. Costs a look
    /// at the links of its neighbours.
    pub fn fill_place(&mut self, to: u32) {
        let Some(last) = self.rows.len().checked_sub(1) else { return };
        if to < last {
            for level in 0..=self.level(last) {
                for neighbour in self.links(last, level).to_vec() {
                    self.renumber_half(neighbour, last, to, level);
                }
            }
            for rows in [&mut self.rows, &mut self.lowest] {
                let row = rows.get(last).to_vec();
                rows.get_mut(to).copy_from_slice(&row);
            }
            if self.upper.get(last as usize).is_some() {
                let levels = self.upper.get_mut(last as usize).take();
                *self.upper.get_mut(to as usize) = levels;
            }
            if self.entry == Some(last) {
                self.entry = Some(to);
            }
        }
        self.rows.pop();
        self.lowest.pop();
        self.upper.pop();
    }

    /// Replaces a link of `from` by one to the same element under another number.
    fn renumber_half(&mut self, from: u32, before: u32, now: u32, level: u8) {
        let Some(at) = self.links(from, level).iter().position(|&link| link == before) else { return };
        if level > 0 {
            return self.links_mut(from, level, |links| links[at] = now);
        }
        numbers_mut::<u32>(self.lowest.get_mut(from))[at + 1] = now;
    }

    /// An element on the highest level but this one: a neighbour there, or found among all if the graph has
    /// fallen apart.
    fn next_entry(&self, element: u32) -> Option<u32> {
        let top = self.by_level.iter().rposition(|&count| count > 0)? as u8;
        let mut neighbours = self.links(element, top).iter().copied();
        let is_next = |other: &u32| *other != element && self.level(*other) == top;
        neighbours.find(is_next).or_else(|| (0..self.rows.len()).find(is_next))
    }

    /// Links elements that have lost a neighbour with each other, the nearest first, each to one or
    /// two, where there is room.
    fn relink(&mut self, space: &Space, orphans: &[u32], level: u8) {
        let capacity = self.capacity(level);
        let mut pairs = Vec::new();
        for (index, &one) in orphans.iter().enumerate() {
            let others = orphans.iter().enumerate().skip(index + 1).take(PARTNERS_MAX);
            for (other_index, &other) in others {
                let pair = index as u32 * orphans.len() as u32 + other_index as u32;
                pairs.push(Near::new(self.between(space, one, other), pair));
            }
        }
        pairs.sort_unstable();
        let mut gained = vec![0u8; orphans.len()];
        for pair in pairs {
            let (index, other_index) =
                (pair.element() as usize / orphans.len(), pair.element() as usize % orphans.len());
            let (one, other) = (orphans[index], orphans[other_index]);
            let has_room = |element| self.links(element, level).len() < capacity;
            if gained[index].max(gained[other_index]) < 2
                && gained[index].min(gained[other_index]) == 0
                && has_room(one)
                && has_room(other)
                && !self.links(one, level).contains(&other)
            {
                self.link(one, other, level);
                gained[index] += 1;
                gained[other_index] += 1;
            }
        }
    }

    /// Allocations, about.
    pub fn chunk_count(&self) -> usize {
        self.rows.chunk_count() + self.lowest.chunk_count()
    }

    /// Bytes taken.
    pub fn memory_usage(&self) -> usize {
        self.rows.memory_usage()
            + self.lowest.memory_usage()
            + self.upper.memory_usage()
            + self.upper_bytes
            + self.journal.memory_usage()
    }

    /// Removes the links that only one side has, after a load. Those that `from` has beyond its capacity, to
    /// itself or twice are refused before.
    pub fn drop_one_sided(&mut self) {
        if self.is_mutual() {
            return;
        }
        for element in 0..self.rows.len() {
            for level in 0..=self.level(element) {
                let is_lost = |other: &&u32| !self.links(**other, level).contains(&element);
                let lost: Vec<u32> = self.links(element, level).iter().filter(is_lost).copied().collect();
                lost.into_iter().for_each(|other| self.remove_half(element, other, level));
            }
        }
    }

    /// Whether each link has one the other way. Both are added up as one number, once with plus and once with
    /// minus: so links are read in the order of memory. Keys that nobody knows make the numbers, 128 bits of
    /// them, so that other links do not come to 0.
    fn is_mutual(&self) -> bool {
        let random = RandomState::new();
        let keys: [u64; 4] = std::array::from_fn(|index| random.hash_one(index));
        let number = |key: &[u64], low: u32, high: u64| {
            let product = u128::from(u64::from(low) ^ key[0]) * u128::from(high ^ key[1]);
            product as u64 ^ (product >> 64) as u64
        };
        let mut sums = [0_u64; 2];
        for element in 0..self.rows.len() {
            for level in 0..=self.level(element) {
                for &other in self.links(element, level) {
                    let (low, high) = (element.min(other), element.max(other));
                    let high = u64::from(level) << 32 | u64::from(high);
                    for (sum, key) in sums.iter_mut().zip(keys.chunks(2)) {
                        let number = number(key, low, high);
                        let signed = if element < other { number } else { number.wrapping_neg() };
                        *sum = sum.wrapping_add(signed);
                    }
                }
            }
        }
        sums == [0; 2]
    }

    /// Checks the invariants.
    #[cfg(test)]
    pub fn check(&self) {
        for element in 0..self.rows.len() {
            for level in 0..=self.level(element) {
                let links = self.links(element, level);
                assert!(links.len() <= self.capacity(level));
                for (index, &other) in links.iter().enumerate() {
                    assert!(other != element && !links[..index].contains(&other));
                    assert!(level <= self.level(other) && self.links(other, level).contains(&element));
                }
            }
        }
        if let Some((entry, top)) = self.entry() {
            assert!(entry < self.rows.len());
            assert!((0..self.rows.len()).all(|element| self.level(element) <= top));
        }
    }
}

/// The highest level of an element, from its number in the order of all that were ever added: as random as
/// the number's hash, and the same on every server that runs the same commands.
pub(super) fn level_of(uid: u64) -> u8 {
    let mut hash = uid.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    ((hash.trailing_zeros() / LEVEL_FACTOR_BITS) as u8).min(LEVEL_MAX)
}
