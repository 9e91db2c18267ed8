//! Bloom filters that grow: chains of filters, as Redis's module has them.
//!
//! An item is in the chain if all its bits are set in one of its filters. When the newest filter has as many
//! items as it was made for, a larger one with half its rate of wrong positives follows. Bits lie exactly
//! where the module has them, so that dumps go both ways.
//!
//! Adding and looking up cost O(bits of an item) for each filter of the chain. Several items are handled in
//! groups, whose bits are found and fetched before the first of them is looked at. A clone costs O(filters):
//! bits lie in pages that are shared until they change, and that take no memory while they are zeros.
//!
//! Invariants: there are 1 to [`FILTERS_MAX`] filters unless the chain is [`BloomFilter::default`], with at
//! most [`layer::BYTES_MAX`] bytes each; `items` is the sum of theirs.

mod dump;
mod layer;
#[cfg(test)]
mod tests;

pub use layer::BloomShape;

use std::ops::ControlFlow;

use smallvec::SmallVec;

use crate::murmur::{murmur_2, murmur_64a};
use crate::{Ahead, Collection};
use layer::{Layer, are_set, set_all};

/// Most filters of a chain. Redis's module makes more, until a rate of wrong positives is 0, but crashes when
/// it loads them.
const FILTERS_MAX: usize = 999;
/// Sizes are not rounded up to powers of two.
const NOT_ROUNDED: u32 = 1;
/// Hashes have 64 bits.
const WIDE: u32 = 4;
/// No filter follows the first.
const FIXED: u32 = 8;
/// All bits of the options.
const OPTIONS: u32 = 15;
/// How the rate of wrong positives shrinks from a filter to the next, and from what is wanted to the first.
const TIGHTENING: f64 = 0.5;
/// Bytes that the module counts for a chain and for each filter beside its bits.
const MODULE_BYTES: (u64, u64) = (32, 64);

/// Most items whose bits are fetched together.
const TOGETHER: usize = 16;
type Together = SmallVec<[Hashed; TOGETHER]>;

/// The two hashes of an item.
#[derive(Clone, Copy, Debug)]
struct Hashed {
    first: u64,
    second: u64,
}

impl Hashed {
    #[inline]
    fn new(item: &[u8], is_wide: bool) -> Self {
        if is_wide {
            let first = murmur_64a(item, 0xc6a4_a793_5bd1_e995);
            Hashed { first, second: murmur_64a(item, first) }
        } else {
            let first = murmur_2(item, 0x9747_b28c);
            Hashed { first: first.into(), second: murmur_2(item, first).into() }
        }
    }
}

/// What adding an item has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BloomAdded {
    /// It was not there, and is now.
    New,
    /// It was there, as far as can be told.
    Present,
    /// It is not there: the only filter is full.
    Full,
    /// It is not there: the chain needs a filter that would be too large.
    TooLarge,
}

/// A chain of Bloom filters.
#[derive(Clone, Debug, Default)]
#[repr(transparent)]
pub struct BloomFilter {
    body: Box<Body>,
}

const _: () = assert!(size_of::<BloomFilter>() == 8);

#[derive(Clone, Debug, Default)]
struct Body {
    layers: Vec<Layer>,
    items: u64,
    options: u32,
    growth: u32,
}

/// One filter of a chain, for dumps.
#[derive(Clone, Copy)]
pub struct BloomPart<'a>(&'a Layer);

impl BloomPart<'_> {
    /// What it was made for.
    pub fn shape(&self) -> &BloomShape {
        &self.0.shape
    }

    /// Items that were added to it.
    pub fn items(&self) -> u64 {
        self.0.size
    }

    /// The number of bytes that its bits take.
    pub fn byte_len(&self) -> usize {
        self.0.bytes.len()
    }

    /// Appends the bytes of a range of it.
    pub fn append_bytes(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        self.0.bytes.append_to(from, to.min(self.0.bytes.len()), out);
    }
}

impl BloomFilter {
    /// A chain whose first filter takes so many items, at a rate of wrong positives between 0 and 1. Later
    /// ones take `growth` times what the one before does; none follows if it `is_fixed`. `None` if it would
    /// be too large.
    pub fn new(entries: u64, error: f64, growth: u32, is_fixed: bool) -> Option<Self> {
        let (tightening, option) = if is_fixed { (1.0, FIXED) } else { (TIGHTENING, 0) };
        let shape = BloomShape::new(entries, error * tightening)?;
        let options = NOT_ROUNDED | WIDE | option;
        Some(BloomFilter {
            body: Box::new(Body { layers: vec![Layer::new(shape)], items: 0, options, growth }),
        })
    }

    /// A chain to which [`BloomFilter::push_part`] adds filters, for files.
    pub fn from_parts(items: u64, options: u32, growth: u32) -> Self {
        BloomFilter { body: Box::new(Body { layers: Vec::new(), items, options, growth }) }
    }

    /// Adds a filter with these bits, or without any if there are no bytes. `None` if its parts do not fit
    /// together, or there are too many filters.
    pub fn push_part(&mut self, shape: BloomShape, bytes: &[u8]) -> Option<()> {
        let is_sized = bytes.is_empty() || bytes.len() as u64 * 8 == shape.bits;
        if !shape.is_sound() || !is_sized || self.body.layers.len() >= FILTERS_MAX {
            return None;
        }
        let mut layer = Layer::new(shape);
        layer.bytes.write(0, bytes);
        self.body.layers.push(layer);
        Some(())
    }

    /// Says how many items were added to the newest filter, for files.
    pub fn set_items_of_newest(&mut self, items: u64) {
        if let Some(layer) = self.body.layers.last_mut() {
            layer.size = items;
        }
    }

    /// Whether its parts fit together, for chains from files and clients.
    pub fn is_sound(&self) -> bool {
        let sum = self.body.layers.iter().try_fold(0u64, |sum, layer| sum.checked_add(layer.size));
        !self.body.layers.is_empty() && self.body.options & !OPTIONS == 0 && sum == Some(self.body.items)
    }

    #[inline]
    fn hash(&self, item: &[u8]) -> Hashed {
        Hashed::new(item, self.body.options & WIDE != 0)
    }

    /// Whether an item is there, as far as can be told.
    #[inline]
    pub fn contains(&self, item: &[u8]) -> bool {
        self.contains_hashed(self.hash(item))
    }

    #[inline]
    fn contains_hashed(&self, item: Hashed) -> bool {
        self.body.layers.iter().rev().any(|layer| layer.contains(item))
    }

    /// Adds an item.
    #[inline]
    pub fn add(&mut self, item: &[u8]) -> BloomAdded {
        self.add_hashed(self.hash(item))
    }

    /// Adds items until `each`, which has what came of one after the other, says that it is enough.
    pub fn add_all<'a>(
        &mut self,
        items: impl Iterator<Item = &'a [u8]>,
        mut each: impl FnMut(BloomAdded) -> ControlFlow<()>,
    ) {
        let mut items = items.peekable();
        while items.peek().is_some() {
            let hashed = self.hash_next(&mut items);
            if self.add_together(&hashed, &mut each).is_break() {
                return;
            }
        }
    }

    #[inline]
    fn add_together(
        &mut self,
        items: &[Hashed],
        each: &mut impl FnMut(BloomAdded) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let together = self
            .body
            .layers
            .split_last_mut()
            .filter(|(newest, _)| newest.has_pages() && newest.room() >= items.len() as u64);
        let Some((newest, older)) = together else {
            items.iter().for_each(|&item| _ = self.fetch(item));
            return items.iter().try_for_each(|&item| each(self.add_hashed(item)));
        };
        let hashes = newest.shape.hashes as usize;
        let is_older = |item: &Hashed| older.iter().rev().any(|layer| layer.contains(*item));
        let are_older: SmallVec<[bool; TOGETHER]> = items.iter().map(is_older).collect();
        // No page gets memory for an item that an older filter has.
        let candidates = items.iter().zip(&are_older).filter(|(_, is_older)| !**is_older);
        let bits = newest.own_bits(candidates.map(|(item, _)| *item));
        let mut bits_of_items = bits.chunks_exact(hashes);
        let mut added = 0;
        let flow = are_older.into_iter().try_for_each(|is_older| {
            let is_new = !is_older && bits_of_items.next().is_some_and(|bits| set_all(bits.iter().copied()));
            added += u64::from(is_new);
            each(if is_new { BloomAdded::New } else { BloomAdded::Present })
        });
        drop(bits);
        newest.size += added;
        self.body.items += added;
        flow
    }

    /// Tells `each` of several items whether it is there, as far as can be told.
    pub fn look_up_all<'a>(&self, items: impl Iterator<Item = &'a [u8]>, mut each: impl FnMut(bool)) {
        let mut items = items.peekable();
        while items.peek().is_some() {
            let hashed = self.hash_next(&mut items);
            let newest = self.body.layers.split_last().filter(|(newest, _)| newest.has_pages());
            let Some((newest, older)) = newest else {
                hashed.into_iter().for_each(|item| each(self.contains_hashed(item)));
                continue;
            };
            let bits = newest.bits(&hashed);
            for (item, bits) in hashed.iter().zip(bits.chunks_exact(newest.shape.hashes as usize)) {
                let is_there = are_set(bits.iter().copied());
                each(is_there || older.iter().rev().any(|layer| layer.contains(*item)));
            }
        }
    }

    /// The next items, as many as are looked at together.
    #[inline]
    fn hash_next<'a>(&self, items: &mut impl Iterator<Item = &'a [u8]>) -> Together {
        let most = self.body.layers.last().map_or(TOGETHER, Layer::items_together);
        items.take(most.min(TOGETHER)).map(|item| self.hash(item)).collect()
    }

    /// Fetches the bits of an item in the newest filter ahead of their use, if that is large.
    #[inline]
    fn fetch(&self, item: Hashed) -> bool {
        let large = self.body.layers.last().filter(|layer| layer.bytes.is_large());
        large.inspect(|layer| layer.fetch(item)).is_some()
    }

    #[inline]
    fn add_hashed(&mut self, item: Hashed) -> BloomAdded {
        let Some((newest, older)) = self.body.layers.split_last_mut() else { return BloomAdded::TooLarge };
        if older.iter().rev().any(|layer| layer.contains(item)) {
            return BloomAdded::Present;
        }
        if newest.is_full() {
            if newest.contains(item) {
                return BloomAdded::Present;
            }
            if let Err(refusal) = self.grow() {
                return refusal;
            }
            return self.add_to_newest(item);
        }
        let is_new = newest.add(item);
        self.body.items += u64::from(is_new);
        if is_new { BloomAdded::New } else { BloomAdded::Present }
    }

    fn add_to_newest(&mut self, item: Hashed) -> BloomAdded {
        let is_new = self.body.layers.last_mut().is_some_and(|layer| layer.add(item));
        self.body.items += u64::from(is_new);
        if is_new { BloomAdded::New } else { BloomAdded::Present }
    }

    /// Adds a filter to the chain.
    #[cold]
    fn grow(&mut self) -> Result<(), BloomAdded> {
        if self.is_fixed() {
            return Err(BloomAdded::Full);
        }
        let shape = self.body.layers.last().and_then(|layer| {
            let entries = layer.shape.entries.checked_mul(u64::from(self.body.growth))?;
            BloomShape::new(entries, layer.shape.error * TIGHTENING)
        });
        let shape = shape.filter(|_| self.body.layers.len() < FILTERS_MAX).ok_or(BloomAdded::TooLarge)?;
        self.body.layers.push(Layer::new(shape));
        Ok(())
    }

    /// Makes it hold what another of the same shape holds as well: equal options, and equal filters in equal
    /// number. False if the shapes differ, and nothing is done. Items that are in both count twice. Costs
    /// O(bytes).
    pub fn unite(&mut self, other: &BloomFilter) -> bool {
        let is_equal = |(mine, theirs): (&Layer, &Layer)| mine.shape == theirs.shape;
        let (mine, theirs) = (&self.body.layers, &other.body.layers);
        let are_alike = mine.len() == theirs.len() && mine.iter().zip(theirs).all(is_equal);
        if !are_alike || self.body.options != other.body.options || self.body.growth != other.body.growth {
            return false;
        }
        for (mine, theirs) in self.body.layers.iter_mut().zip(theirs) {
            mine.bytes.unite(&theirs.bytes);
            mine.size = mine.size.saturating_add(theirs.size);
        }
        let sizes = self.body.layers.iter().map(|layer| layer.size);
        self.body.items = sizes.fold(0, u64::saturating_add);
        true
    }

    /// The number of items that were added.
    pub fn items(&self) -> u64 {
        self.body.items
    }

    /// How much larger each filter is than the one before.
    pub fn growth(&self) -> u32 {
        self.body.growth
    }

    /// The bits of the module's options, for dumps.
    pub fn options(&self) -> u32 {
        self.body.options
    }

    /// Whether no filter follows the first.
    pub fn is_fixed(&self) -> bool {
        self.body.options & FIXED != 0
    }

    /// Whether hashes have 64 bits.
    pub fn is_wide(&self) -> bool {
        self.body.options & WIDE != 0
    }

    /// The filters, the oldest first.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = BloomPart<'_>> {
        self.body.layers.iter().map(BloomPart)
    }

    /// How many items all filters are made for.
    pub fn capacity(&self) -> u64 {
        self.parts().fold(0, |sum, part| sum.wrapping_add(part.shape().entries))
    }

    /// The bytes that Redis's module counts.
    pub fn module_bytes(&self) -> u64 {
        self.parts().fold(MODULE_BYTES.0, |sum, part| sum + MODULE_BYTES.1 + part.byte_len() as u64)
    }
}

impl Collection for BloomFilter {
    fn element_count(&self) -> u64 {
        self.body.items
    }

    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn memory_usage(&self) -> usize {
        let layers = self.body.layers.iter().map(|layer| layer.bytes.memory_usage());
        size_of::<Body>() + self.body.layers.capacity() * size_of::<Layer>() + layers.sum::<usize>()
    }

    fn free_effort(&self) -> usize {
        self.body.layers.iter().map(|layer| 1 + layer.bytes.page_count()).sum()
    }

    fn redis_free_effort(&self, _: usize) -> usize {
        1
    }

    fn prefetch(&self, commands: &[Ahead<'_>]) -> bool {
        commands.iter().all(|command| self.fetch(self.hash(command.arguments[0])))
    }

    fn is_large_form(&self) -> bool {
        self.body.layers.len() > 1 || self.body.layers.iter().any(Layer::has_pages)
    }
}
