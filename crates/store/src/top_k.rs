//! Top-K sketches: the items that were seen most often, and about how often (HeavyKeeper; Yang et al.,
//! "HeavyKeeper: An Accurate Algorithm for Finding Top-k Elephant Flows", 2019).
//!
//! ```text
//! buckets  depth rows of width buckets: | fingerprint (u32) | count (u32) |
//! heap     k places in the order of a heap, the least count first: fingerprint, count, item
//! ```
//!
//! An item has one bucket in each row. Where another holds it, each arrival lowers the other's count with
//! the probability `decay^count`; at 0 the bucket changes hands. The largest count of an item's buckets is
//! its estimate, by which it enters the heap.
//!
//! Hashes, places and the order of the heap are those of Redis's module, so that dumps go both ways. Chance
//! is drawn from a state that is part of the sketch and of its dumps: the same commands lead to the same
//! sketch, in replicas and from a log too.
//!
//! Adding costs O(depth + k): fingerprints of the heap lie together and are compared in bulk. An increment of
//! many counts as many arrivals where the bucket is another's. A clone costs O(1): all parts lie in pages
//! that are shared until they change.
//!
//! Invariants: `k`, `width` and `depth` are 1 or more unless the sketch is [`TopK::default`]; buckets and
//! heap take [`BYTES_MAX`] each or less; fingerprints are those of the items of their places, 0 where there
//! is none.

mod chance;
mod heap;
#[cfg(test)]
mod tests;

pub use heap::TopItem;

use crate::Collection;
use crate::murmur::{Grid, murmur_2};
use crate::paged_bytes::PagedBytes;
use chance::Chance;
use heap::Heap;

/// Most bytes that the buckets take, and the heap as dumps have it.
const BYTES_MAX: u64 = 64 << 30;
const BUCKET_BYTES: usize = 8;
/// Bytes of a place of the heap in dumps.
const PLACE_BYTES: u64 = 24;
/// The seed of fingerprints.
const FINGERPRINT_SEED: u32 = 1919;
/// Most arrivals that one increment stands for.
pub const INCREMENT_MAX: u32 = 100_000;

/// A Top-K sketch.
#[derive(Clone, Debug, Default)]
#[repr(transparent)]
pub struct TopK {
    body: Box<Body>,
}

const _: () = assert!(size_of::<TopK>() == 8);

#[derive(Clone, Debug, Default)]
struct Body {
    grid: Grid,
    chance: Chance,
    buckets: PagedBytes,
    heap: Heap,
}

/// What an item is looked for by.
#[derive(Clone, Copy)]
struct Sought<'a> {
    item: &'a [u8],
    fingerprint: u32,
}

impl<'a> Sought<'a> {
    fn new(item: &'a [u8]) -> Self {
        Sought { item, fingerprint: murmur_2(item, FINGERPRINT_SEED) }
    }
}

/// What adding an item has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopKAdded {
    /// The item that had to leave the heap.
    pub expelled: Option<Box<[u8]>>,
}

impl TopK {
    /// An empty sketch; the decay is above 0 and at most 1. `None` if a side is 0 or all would be too large.
    pub fn new(k: u32, width: u32, depth: u32, decay: f64) -> Option<Self> {
        let bytes = Self::byte_len_of(k, width, depth, decay)?;
        Some(TopK {
            body: Box::new(Body {
                grid: Grid::new(width.into(), depth.into()),
                chance: Chance::new(decay),
                buckets: PagedBytes::zeroed(bytes),
                heap: Heap::new(k),
            }),
        })
    }

    /// Bytes of the buckets of such a sketch, if there can be one.
    fn byte_len_of(k: u32, width: u32, depth: u32, decay: f64) -> Option<usize> {
        let bytes = u64::from(width).checked_mul(depth.into())?.checked_mul(BUCKET_BYTES as u64)?;
        let fits = bytes <= BYTES_MAX && u64::from(k) * PLACE_BYTES <= BYTES_MAX;
        let is_sound = k > 0 && bytes > 0 && fits && decay > 0.0 && decay <= 1.0;
        if is_sound { usize::try_from(bytes).ok() } else { None }
    }

    /// One with these buckets, and an empty heap that [`TopK::set_item`] fills. `None` if they are not as
    /// many as the sides say.
    pub fn from_parts(k: u32, width: u32, depth: u32, decay: f64, buckets: &[u8]) -> Option<Self> {
        Self::byte_len_of(k, width, depth, decay).filter(|&bytes| bytes == buckets.len())?;
        let mut sketch = TopK::new(k, width, depth, decay)?;
        sketch.body.buckets.write(0, buckets);
        Some(sketch)
    }

    /// Puts an item at a place of the heap, for files; the place is below `k`.
    pub fn set_item(&mut self, place: u32, item: &[u8], count: u32) {
        let fingerprint = Sought::new(item).fingerprint;
        self.body.heap.set(place as usize, item, fingerprint, count);
    }

    /// The state that chance is drawn from, for files.
    pub fn chance_state(&self) -> u64 {
        self.body.chance.state()
    }

    /// Sets the state that chance is drawn from.
    pub fn set_chance_state(&mut self, state: u64) {
        self.body.chance.set_state(state);
    }

    /// How many items the heap has place for.
    pub fn k(&self) -> u32 {
        self.body.heap.len() as u32
    }

    /// Buckets in a row.
    pub fn width(&self) -> u32 {
        self.body.grid.width as u32
    }

    /// The number of rows.
    pub fn depth(&self) -> u32 {
        self.body.grid.depth as u32
    }

    /// The base of the probability with which counts of others are lowered.
    pub fn decay(&self) -> f64 {
        self.body.chance.decay()
    }

    /// The number of bytes that the buckets take.
    pub fn byte_len(&self) -> usize {
        self.body.buckets.len()
    }

    /// Appends the bytes of a range of the buckets.
    pub fn append_bytes(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        self.body.buckets.append_to(from, to.min(self.byte_len()), out);
    }

    /// The places of the heap in their order: `None` where there is no item.
    pub fn places(&self) -> impl Iterator<Item = Option<TopItem<'_>>> {
        self.body.heap.places()
    }

    /// Whether it has an item that files do not tell from a place without one: an empty one of count 0.
    pub fn has_nameless_item(&self) -> bool {
        self.places().flatten().any(|item| item.item.is_empty() && item.count == 0)
    }

    /// The items with a count, the largest first.
    pub fn list(&self) -> Vec<TopItem<'_>> {
        let mut items: Vec<TopItem<'_>> = self.places().flatten().filter(|item| item.count > 0).collect();
        items.sort_by_key(|item| std::cmp::Reverse(item.count));
        items
    }

    /// Whether an item is in the heap.
    pub fn contains(&self, item: &[u8]) -> bool {
        self.body.heap.find(Sought::new(item)).is_some()
    }

    /// The estimate of an item.
    pub fn estimate(&self, item: &[u8]) -> u32 {
        let sought = Sought::new(item);
        let body = &*self.body;
        let least = body.heap.least();
        let is_listed = body.heap.find(sought).is_some();
        let mut most = 0;
        body.grid.each_place(item, |place| {
            let [fingerprint, count] = halves(*body.buckets.number(place * BUCKET_BYTES));
            if fingerprint == sought.fingerprint && (!is_listed || count >= least) {
                most = most.max(count);
            }
        });
        most
    }

    /// Adds an item so many times, [`INCREMENT_MAX`] at most.
    pub fn add(&mut self, item: &[u8], increment: u32) -> TopKAdded {
        let sought = Sought::new(item);
        let increment = increment.min(INCREMENT_MAX);
        let Body { grid, chance, buckets, heap } = &mut *self.body;
        let mut buckets = buckets.own();
        let mut most = 0;
        grid.each_place(item, |place| {
            let bucket = buckets.cell(place * BUCKET_BYTES);
            let [holder, count] = halves(bucket.get());
            let [holder, count] = match (holder, count) {
                (_, 0) => [sought.fingerprint, increment],
                (holder, count) if holder == sought.fingerprint => [holder, count.wrapping_add(increment)],
                (holder, count) => match chance.contest(count, increment) {
                    (0, left) => [sought.fingerprint, left],
                    (count, _) => [holder, count],
                },
            };
            if holder == sought.fingerprint {
                most = most.max(count);
            }
            bucket.set(whole([holder, count]));
        });
        let is_listed = most >= heap.least();
        TopKAdded { expelled: if is_listed { heap.offer(sought, most) } else { None } }
    }

    /// The bytes that Redis's module counts.
    pub fn module_bytes(&self) -> u64 {
        const FIXED: u64 = 2088;
        FIXED + self.byte_len() as u64 + PLACE_BYTES * u64::from(self.k())
    }
}

/// Fingerprint and count of a bucket.
#[inline]
fn halves(bucket: u64) -> [u32; 2] {
    let bucket = u64::from_le(bucket);
    [bucket as u32, (bucket >> 32) as u32]
}

/// The bucket of a fingerprint and a count.
#[inline]
fn whole([fingerprint, count]: [u32; 2]) -> u64 {
    (u64::from(count) << 32 | u64::from(fingerprint)).to_le()
}

impl Collection for TopK {
    fn element_count(&self) -> u64 {
        self.places().flatten().count() as u64
    }

    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn memory_usage(&self) -> usize {
        size_of::<Body>() + self.body.buckets.memory_usage() + self.body.heap.memory_usage()
    }

    fn free_effort(&self) -> usize {
        self.body.buckets.page_count() + self.body.heap.len()
    }

    fn redis_free_effort(&self, _: usize) -> usize {
        1
    }

    fn is_large_form(&self) -> bool {
        self.body.buckets.page_count() > 1 || self.body.heap.len() > 1000
    }
}
