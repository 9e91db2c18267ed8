//! Cuckoo filters that grow: chains of filters, as Redis's module has them.
//!
//! An item is a fingerprint of a byte in one of two buckets. Where both are full it takes the place of
//! another, which goes to its other bucket, and so on; if no slot becomes free a further filter follows. All
//! this is exactly as in the module, so that dumps go both ways and replicas agree.
//!
//! Adding, looking up and deleting cost O(slots of a bucket) for each filter of the chain, adding to a full
//! one O(steps). Deleting from a chain now and then moves the items of its last filters, which is linear in
//! these. A clone costs O(filters): slots lie in pages that are shared until they change.
//!
//! Invariants: there are 1 to [`FILTERS_MAX`] filters unless the chain is [`CuckooFilter::default`], with at
//! most [`layer::BYTES_MAX`] bytes in all; filter `i` has `growth` to the power of `i` times the buckets of
//! the first. Counts come from clients, and may be anything.

mod dump;
mod layer;
#[cfg(test)]
mod tests;

use crate::murmur::murmur_64a;
use crate::{Ahead, Collection};
use layer::{BYTES_MAX, Hashed, Layer};

/// Most filters of a chain. Commands stop at fewer.
const FILTERS_MAX: usize = 1000;
/// Most slots of a bucket.
const BUCKET_SIZE_MAX: u16 = 255;
/// Bytes that the module counts for a chain and for each filter beside its slots.
const MODULE_BYTES: (u64, u64) = (40, 16);

/// How a chain is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CuckooShape {
    /// Buckets of the first filter: a power of two.
    pub buckets: u64,
    /// Slots of a bucket: 1 to 255.
    pub bucket_size: u16,
    /// How many items change places, at most, before the chain grows. Not 0.
    pub steps: u16,
    /// How much larger each filter is than the one before; 0 if none may follow the first.
    pub growth: u16,
}

impl CuckooShape {
    /// The shape for so many items. The growth is rounded up to a power of two, but for 0.
    pub fn new(capacity: u64, bucket_size: u16, steps: u16, growth: u16) -> Option<Self> {
        let buckets = (capacity / u64::from(bucket_size).max(1)).checked_next_power_of_two()?;
        let growth = if growth == 0 { 0 } else { growth.checked_next_power_of_two()? };
        let shape = CuckooShape { buckets, bucket_size, steps, growth };
        (shape.is_sound() && shape.buckets_of(0).is_some()).then_some(shape)
    }

    fn is_sound(&self) -> bool {
        self.buckets.is_power_of_two() && (1..=BUCKET_SIZE_MAX).contains(&self.bucket_size) && self.steps > 0
    }

    /// The number of buckets of a filter, if it is not too large.
    fn buckets_of(&self, filter: usize) -> Option<u64> {
        let growth = u64::from(self.growth).checked_pow(u32::try_from(filter).ok()?)?;
        let buckets = self.buckets.checked_mul(growth)?;
        let bytes = buckets.checked_mul(self.bucket_size.into())?;
        (buckets > 0 && bytes <= BYTES_MAX).then_some(buckets)
    }
}

/// What adding an item has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CuckooAdded {
    /// It was added.
    New,
    /// It was there, as far as can be told.
    Present,
    /// There is no place, and the chain does not grow.
    Full,
    /// There is no place, and the next filter would be too large.
    TooLarge,
}

/// A chain of Cuckoo filters.
#[derive(Clone, Debug, Default)]
#[repr(transparent)]
pub struct CuckooFilter {
    body: Box<Body>,
}

const _: () = assert!(size_of::<CuckooFilter>() == 8);

#[derive(Clone, Debug, Default)]
struct Body {
    layers: Vec<Layer>,
    shape: CuckooShape,
    items: u64,
    deletions: u64,
}

fn hash(item: &[u8]) -> Hashed {
    Hashed::new(murmur_64a(item, 0))
}

impl CuckooFilter {
    /// An empty chain; none if it would be too large.
    pub fn new(shape: CuckooShape) -> Option<Self> {
        let mut filter = Self::from_parts(shape, 0, 0)?;
        filter.push_part()?;
        Some(filter)
    }

    /// A chain to which [`CuckooFilter::push_part`] adds filters, for files; none if the shape is unsound.
    pub fn from_parts(shape: CuckooShape, items: u64, deletions: u64) -> Option<Self> {
        let body = Body { layers: Vec::new(), shape, items, deletions };
        shape.is_sound().then(|| CuckooFilter { body: Box::new(body) })
    }

    /// Adds a filter without items. `None` if there are too many, or they would be too large together.
    pub fn push_part(&mut self) -> Option<()> {
        let count = self.body.layers.len();
        let buckets = self.body.shape.buckets_of(count)?;
        let slots = self.parts().map(|(_, slots)| slots as u64).sum::<u64>();
        if count >= FILTERS_MAX || slots + buckets * u64::from(self.body.shape.bucket_size) > BYTES_MAX {
            return None;
        }
        // Most chains have one filter.
        self.body.layers.reserve_exact(1);
        self.body.layers.push(Layer::new(buckets, self.body.shape.bucket_size as u8));
        Some(())
    }

    /// Adds a filter of which a file says that it has so many buckets; none also if it has not.
    pub fn push_part_of(&mut self, buckets: u64) -> Option<()> {
        let is_right = self.body.shape.buckets_of(self.body.layers.len()) == Some(buckets);
        if is_right { self.push_part() } else { None }
    }

    /// Fills the newest filter with these slots; `None` if it has not so many.
    pub fn fill_newest(&mut self, bytes: &[u8]) -> Option<()> {
        let layer = self.body.layers.last_mut()?;
        if layer.slots.len() != bytes.len() {
            return None;
        }
        layer.slots.write(0, bytes);
        Some(())
    }

    /// Whether an item is there, as far as can be told.
    #[inline]
    pub fn contains(&self, item: &[u8]) -> bool {
        self.contains_hashed(hash(item))
    }

    fn contains_hashed(&self, item: Hashed) -> bool {
        self.body.layers.iter().any(|layer| layer.contains(item))
    }

    /// How often an item was added, at most.
    pub fn count(&self, item: &[u8]) -> u64 {
        let item = hash(item);
        self.body.layers.iter().map(|layer| layer.count(item)).sum()
    }

    /// Adds an item once more; with `only_new` unless it is there, as far as can be told.
    #[inline]
    pub fn add(&mut self, item: &[u8], only_new: bool) -> CuckooAdded {
        let item = hash(item);
        if only_new && self.contains_hashed(item) {
            return CuckooAdded::Present;
        }
        let added = self.put(item);
        self.body.items = self.body.items.wrapping_add(u64::from(added == CuckooAdded::New));
        added
    }

    fn put(&mut self, item: Hashed) -> CuckooAdded {
        let body = &mut *self.body;
        if body.layers.iter_mut().rev().any(|layer| layer.put(item)) {
            return CuckooAdded::New;
        }
        let steps = body.shape.steps;
        if body.layers.last_mut().is_some_and(|layer| layer.put_by_force(item, steps)) {
            return CuckooAdded::New;
        }
        if body.shape.growth == 0 {
            return CuckooAdded::Full;
        }
        if self.push_part().is_none() {
            return CuckooAdded::TooLarge;
        }
        let is_put = self.body.layers.last_mut().is_some_and(|layer| layer.put(item));
        if is_put { CuckooAdded::New } else { CuckooAdded::TooLarge }
    }

    /// Removes an item once. Whether it was there, as far as can be told.
    pub fn remove(&mut self, item: &[u8]) -> bool {
        let item = hash(item);
        let body = &mut *self.body;
        if !body.layers.iter_mut().rev().any(|layer| layer.remove(item)) {
            return false;
        }
        body.items = body.items.wrapping_sub(1);
        body.deletions = body.deletions.wrapping_add(1);
        if body.layers.len() > 1 && body.deletions as f64 > body.items as f64 * 0.10 {
            self.pull_together(false);
        }
        true
    }

    /// Moves items to older filters and drops the last ones if they become empty. `goes_on` says whether to
    /// do so also below a filter that keeps items.
    pub fn pull_together(&mut self, goes_on: bool) {
        for index in (1..self.body.layers.len()).rev() {
            if !self.empty(index) && !goes_on {
                break;
            }
        }
        self.body.deletions = 0;
    }

    /// Moves the items of a filter to older ones; it goes if it is the last and becomes empty. Whether all
    /// were moved.
    fn empty(&mut self, index: usize) -> bool {
        let (older, rest) = self.body.layers.split_at_mut(index);
        let layer = &mut rest[0];
        let (mut from, mut are_all_moved) = (0, true);
        while let Some((at, item)) = layer.next_item(from) {
            if older.iter_mut().any(|layer| layer.put(item)) {
                *layer.slots.get_mut(at) = 0;
            } else {
                are_all_moved = false;
            }
            from = at + 1;
        }
        if are_all_moved && rest.len() == 1 {
            self.body.layers.pop();
        }
        are_all_moved
    }

    /// How it was made.
    pub fn shape(&self) -> CuckooShape {
        self.body.shape
    }

    /// The number of items: additions less deletions.
    pub fn items(&self) -> u64 {
        self.body.items
    }

    /// The number of deletions since the chain was last pulled together.
    pub fn deletions(&self) -> u64 {
        self.body.deletions
    }

    /// The number of filters.
    pub fn filters(&self) -> usize {
        self.body.layers.len()
    }

    /// For each filter, the oldest first, the numbers of its buckets and of its slots.
    pub fn parts(&self) -> impl Iterator<Item = (u64, usize)> {
        self.body.layers.iter().map(|layer| (layer.buckets(), layer.slots.len()))
    }

    /// Appends slots of a filter, from one up to but not including another.
    pub fn append_slots(&self, filter: usize, from: usize, to: usize, out: &mut Vec<u8>) {
        let slots = &self.body.layers[filter].slots;
        slots.append_to(from, to.min(slots.len()), out);
    }

    /// The bytes that Redis's module counts.
    pub fn module_bytes(&self) -> u64 {
        self.parts().fold(MODULE_BYTES.0, |sum, (_, slots)| sum + MODULE_BYTES.1 + slots as u64)
    }
}

impl Collection for CuckooFilter {
    fn element_count(&self) -> u64 {
        self.body.items
    }

    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn memory_usage(&self) -> usize {
        let layers = self.body.layers.iter().map(|layer| layer.slots.memory_usage());
        size_of::<Body>() + self.body.layers.capacity() * size_of::<Layer>() + layers.sum::<usize>()
    }

    fn free_effort(&self) -> usize {
        self.body.layers.iter().map(|layer| 1 + layer.slots.page_count()).sum()
    }

    fn redis_free_effort(&self, _: usize) -> usize {
        1
    }

    fn prefetch(&self, commands: &[Ahead<'_>]) -> bool {
        let large = self.body.layers.last().filter(|layer| layer.slots.is_large());
        large
            .inspect(|layer| commands.iter().for_each(|command| layer.fetch(hash(command.arguments[0]))))
            .is_some()
    }

    fn is_large_form(&self) -> bool {
        self.body.layers.len() > 1 || self.body.layers.iter().any(|layer| layer.slots.page_count() > 1)
    }
}
