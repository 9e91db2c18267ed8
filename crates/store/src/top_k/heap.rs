//! The heap of the items that are listed: the least count first.
//!
//! Its moves are exactly those of Redis's module, on which the order of items with equal counts depends.

use mantissa_memory::{CowVec, SharedBytes};

use super::Sought;
use crate::paged_bytes::{PAGE_BYTES, PagedBytes};

const FINGERPRINT_BYTES: usize = 4;
const FINGERPRINTS_OF_PAGE: usize = PAGE_BYTES / FINGERPRINT_BYTES;
/// Fingerprints that are compared without a branch between them.
const UNBRANCHED: usize = 32;

/// An item of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopItem<'a> {
    /// The item.
    pub item: &'a [u8],
    /// Its estimate when it was last added.
    pub count: u32,
    /// Its fingerprint.
    pub fingerprint: u32,
}

/// A place; without an item it has neither text nor count.
#[derive(Clone, Default, Debug)]
struct Place {
    count: u32,
    len: u32,
    /// The item, behind which there may be zeros.
    text: SharedBytes,
    is_taken: bool,
}

impl Place {
    fn item(&self) -> &[u8] {
        &self.text.payload()[..self.len as usize]
    }
}

/// Places in the order of a heap.
#[derive(Clone, Default, Debug)]
pub(super) struct Heap {
    places: CowVec<Place>,
    /// The fingerprint of each place.
    fingerprints: PagedBytes,
}

impl Heap {
    /// A heap of so many empty places.
    pub fn new(k: u32) -> Self {
        let mut places = CowVec::new();
        (0..k).for_each(|_| places.push(Place::default()));
        Heap { places, fingerprints: PagedBytes::zeroed(k as usize * FINGERPRINT_BYTES) }
    }

    /// The number of places.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The least count, 0 if a place is empty.
    pub fn least(&self) -> u32 {
        if self.len() == 0 { 0 } else { self.places.get(0).count }
    }

    fn fingerprint(&self, place: usize) -> u32 {
        u32::from_le(*self.fingerprints.number(place * FINGERPRINT_BYTES))
    }

    fn set_fingerprint(&mut self, place: usize, fingerprint: u32) {
        self.fingerprints.own().cell(place * FINGERPRINT_BYTES).set(fingerprint.to_le());
    }

    /// All places in their order.
    pub fn places(&self) -> impl Iterator<Item = Option<TopItem<'_>>> {
        (0..self.len()).map(|index| {
            let place = self.places.get(index);
            let fingerprint = self.fingerprint(index);
            place.is_taken.then(|| TopItem { item: place.item(), count: place.count, fingerprint })
        })
    }

    /// Puts an item at a place, whatever order that makes.
    pub fn set(&mut self, place: usize, item: &[u8], fingerprint: u32, count: u32) {
        *self.places.get_mut(place) =
            Place { count, len: item.len() as u32, text: SharedBytes::joined(&[item]), is_taken: true };
        self.set_fingerprint(place, fingerprint);
    }

    /// The last place that an item is at.
    pub fn find(&self, sought: Sought<'_>) -> Option<usize> {
        (0..self.fingerprints.page_count()).rev().find_map(|page| {
            let from = page * FINGERPRINTS_OF_PAGE;
            let count = (self.len() - from).min(FINGERPRINTS_OF_PAGE);
            let bytes = self.fingerprints.page(page);
            let words = bytes.as_chunks::<FINGERPRINT_BYTES>().0;
            let words = &words[..count.min(words.len())];
            let wanted = sought.fingerprint.to_le_bytes();
            let is_it = |index: usize| {
                let place = self.places.get(from + index);
                words[index] == wanted && place.is_taken && place.item() == sought.item
            };
            // Most often it is not among some neighbours, which is told without a branch for each.
            words.chunks(UNBRANCHED).enumerate().rev().find_map(|(number, words)| {
                if !words.iter().fold(false, |found, word| found | (*word == wanted)) {
                    return None;
                }
                let start = number * UNBRANCHED;
                (start..start + words.len()).rev().find(|&index| is_it(index)).map(|index| from + index)
            })
        })
    }

    /// An item has come to this count, which is not below the least: it takes its place, or that of the
    /// least, which is returned.
    pub fn offer(&mut self, sought: Sought<'_>, count: u32) -> Option<Box<[u8]>> {
        if let Some(place) = self.find(sought) {
            self.places.get_mut(place).count = count;
            self.sift_down(place);
            return None;
        }
        let least = self.places.get(0);
        let expelled = least.is_taken.then(|| least.item().into());
        self.set(0, sought.item, sought.fingerprint, count);
        self.sift_down(0);
        expelled
    }

    /// The child of a place that has the lesser count, the first of equals; `None` of a leaf.
    fn lesser_child(&self, place: usize) -> Option<usize> {
        let child = 2 * place + 1;
        let count = |index: usize| self.places.get(index).count;
        let has_sibling = child + 1 < self.len();
        (child < self.len()).then(|| child + usize::from(has_sibling && count(child) > count(child + 1)))
    }

    /// Moves what is at a place down: at first also past a child of the same count.
    fn sift_down(&mut self, mut place: usize) {
        let Some(mut child) = self.lesser_child(place) else { return };
        if self.places.get(child).count > self.places.get(place).count {
            return;
        }
        let moved = std::mem::take(self.places.get_mut(place));
        let fingerprint = self.fingerprint(place);
        loop {
            let risen = std::mem::take(self.places.get_mut(child));
            *self.places.get_mut(place) = risen;
            self.set_fingerprint(place, self.fingerprint(child));
            place = child;
            match self.lesser_child(place) {
                Some(next) if self.places.get(next).count < moved.count => child = next,
                _ => break,
            }
        }
        *self.places.get_mut(place) = moved;
        self.set_fingerprint(place, fingerprint);
    }

    /// Bytes taken, the structure itself not included. O(k).
    pub fn memory_usage(&self) -> usize {
        let texts = (0..self.len()).map(|index| self.places.get(index).text.memory_usage());
        self.places.memory_usage() + self.fingerprints.memory_usage() + texts.sum::<usize>()
    }
}
