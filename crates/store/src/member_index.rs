//! The index of a large collection that is made of numbered parts, from members to the numbers of the parts
//! that have them: of a sorted set to leaves, of the keys of a JSON object to blocks. It is a hash table
//! whose buckets are packed, and shared between clones.
//!
//! ```text
//! bucket: | header | n (u32, the high bit set if wide) | n hashes (u32) -> ... <- n part numbers |
//! ```
//!
//! An item is the low half of a member's hash and the number of its part, in three bytes (four in a wide
//! bucket, which has met a number beyond 2^24): 7 bytes. There are [`FILL`] items in a bucket on average,
//! with a pointer of 8 bytes, 12 bytes of header and some slack between them: 8 bytes per member in all.
//!
//! It is a linear hash table: growth splits the next bucket in turn, so there is neither a pause nor a moment
//! with two tables. Buckets are as large as they need to be; there is no overflow. A clone costs O(1), and a
//! change then copies the bucket and the chunks that lead to it.
//!
//! # Invariants
//!
//! - The level is the largest power of two that is not above the number of buckets. An item with hash `h`
//!   lies in bucket `h mod 2 * level` if there is one, else in bucket `h mod level`.
//!
//! # Scanning
//!
//! [`Index::scan`] visits every item that is present throughout an iteration at least once. The cursor counts
//! in reversed bit order: read so, a hash is a place on a line from 0 on, and a cursor is the place up to
//! which everything has been visited. A step takes a pattern of low bits that the cursor ends in, which is an
//! interval of the line that begins at the cursor or before it, visits the items of this pattern, and moves
//! the cursor to the end of the interval. A pattern has as many bits as tell a bucket from the others, or
//! some more for a part of a bucket; how many, each step may choose anew, so it does not matter how the index
//! grew or shrank since the last one. An item whose part changes stays in its place, since its hash stays.

use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

use mantissa_memory::prefetch_lines;
use mantissa_memory::slab;
use mantissa_memory::{CowVec, NodeId, SharedBytes};

use crate::seed;

/// Mean number of items of a bucket above which the index grows.
pub(crate) const FILL: usize = 32;
/// Mean number of items below which it shrinks.
const FILL_MIN: usize = FILL / 2;

/// Spare capacity, in items, of a bucket that is reallocated because it is full.
const SPARE_ITEMS: usize = 2;
/// Bytes of a bucket with as many items as there are on average, up to a cache line.
const FETCHED_BYTES: usize = 256;
/// Most unused bytes that a bucket keeps when items go.
const SLACK_MAX: usize = 40;
/// Bytes of a bucket's payload before the hashes.
const HASHES: usize = 4;
const HASH_BYTES: usize = 4;
const WIDE: u32 = 1 << 31;
/// Bytes of a part number, and the first number that takes one more.
const ID_BYTES: usize = 3;
const WIDE_FROM: NodeId = 1 << (8 * ID_BYTES);

/// The hash of a member.
#[inline]
pub(crate) fn hash_of(member: &[u8]) -> u64 {
    static SEED: LazyLock<foldhash::fast::SeedableRandomState> = LazyLock::new(seed::fast);
    let mut hasher = SEED.build_hasher();
    hasher.write(member);
    hasher.finish()
}

/// An item of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// The low half of the member's hash.
    pub hash: u32,
    /// The number of its part.
    pub part: NodeId,
}

/// A packed bucket: hashes of members and the numbers of their parts.
#[derive(Clone, Debug, Default)]
struct Bucket {
    bytes: SharedBytes,
}

impl Bucket {
    /// Number of items, bytes of a part number.
    #[inline]
    fn head(&self) -> (usize, usize) {
        match self.bytes.payload().first_chunk() {
            Some(&raw) => {
                let head = u32::from_le_bytes(raw);
                ((head & !WIDE) as usize, ID_BYTES + usize::from(head & WIDE != 0))
            }
            None => (0, ID_BYTES),
        }
    }

    #[inline]
    fn hashes(&self) -> &[[u8; HASH_BYTES]] {
        let (len, _) = self.head();
        let payload = self.bytes.payload();
        payload.get(HASHES..HASHES + len * HASH_BYTES).unwrap_or(&[]).as_chunks().0
    }

    #[inline]
    fn part(&self, slot: usize) -> NodeId {
        let (_, id_bytes) = self.head();
        let payload = self.bytes.payload();
        let at = payload.len() - id_bytes * (slot + 1);
        // Three bytes are read with the one before them, which is there: of a hash, or of another number.
        let narrow = ID_BYTES + 1 - id_bytes;
        let raw = payload[at - narrow..].first_chunk().map_or(0, |&raw| u32::from_le_bytes(raw));
        raw >> (8 * narrow)
    }

    fn items(&self) -> impl Iterator<Item = Item> {
        let hashes = self.hashes().iter().enumerate();
        hashes.map(|(slot, &raw)| Item { hash: u32::from_le_bytes(raw), part: self.part(slot) })
    }

    /// The first item with this hash for which `is_it` says something.
    #[inline]
    fn find<R>(&self, hash: u32, mut is_it: impl FnMut(usize, NodeId) -> Option<R>) -> Option<R> {
        let hashes = self.hashes();
        let (eights, rest) = hashes.as_chunks::<8>();
        for (index, eight) in eights.iter().enumerate() {
            // Without a branch for each, so that they are compared side by side.
            let mut found = 0;
            for (slot, &raw) in eight.iter().enumerate() {
                found |= u32::from(u32::from_le_bytes(raw) == hash) << slot;
            }
            while found != 0 {
                let slot = index * 8 + found.trailing_zeros() as usize;
                if let Some(result) = is_it(slot, self.part(slot)) {
                    return Some(result);
                }
                found &= found - 1;
            }
        }
        let base = hashes.len() - rest.len();
        let matching = rest.iter().enumerate().filter(|(_, raw)| u32::from_le_bytes(**raw) == hash);
        matching.map(|(slot, _)| base + slot).find_map(|slot| is_it(slot, self.part(slot)))
    }

    /// A bucket without items, with a capacity of `len` items.
    fn with_capacity(len: usize, id_bytes: usize) -> Self {
        let mut bytes = SharedBytes::zeroed(HASHES + len * (HASH_BYTES + id_bytes));
        if let Some(payload) = bytes.payload_mut() {
            let head = if id_bytes > ID_BYTES { WIDE } else { 0 };
            payload[..HASHES].copy_from_slice(&u32::to_le_bytes(head));
        }
        Bucket { bytes }
    }

    /// A bucket of these items with capacity for `spare` more.
    fn of(items: &[Item], spare: usize) -> Self {
        if items.len() + spare == 0 {
            return Bucket::default();
        }
        let is_wide = items.iter().any(|item| item.part >= WIDE_FROM);
        let id_bytes = ID_BYTES + usize::from(is_wide);
        let mut bucket = Bucket::with_capacity(items.len() + spare, id_bytes);
        let payload = bucket.bytes.payload_mut().expect("new bytes have one reference");
        let hashes = payload[HASHES..].as_chunks_mut().0;
        hashes.iter_mut().zip(items).for_each(|(raw, item)| *raw = item.hash.to_le_bytes());
        items.iter().enumerate().for_each(|(slot, item)| write_part(payload, slot, id_bytes, item.part));
        write_len(payload, items.len());
        bucket
    }

    /// Adds an item if it fits, without allocating. False if it does not.
    #[inline]
    fn add_within(&mut self, item: Item) -> bool {
        let (len, id_bytes) = self.head();
        let Some(payload) = self.bytes.payload_mut() else { return false };
        let capacity = (payload.len() - HASHES) / (HASH_BYTES + id_bytes);
        if len >= capacity || (item.part >= WIDE_FROM && id_bytes == ID_BYTES) {
            return false;
        }
        let at = HASHES + len * HASH_BYTES;
        payload[at..at + HASH_BYTES].copy_from_slice(&item.hash.to_le_bytes());
        write_part(payload, len, id_bytes, item.part);
        write_len(payload, len + 1);
        true
    }

    /// Adds an item.
    fn add(&mut self, item: Item) {
        if self.add_within(item) {
            return;
        }
        let (len, id_bytes) = self.head();
        if item.part >= WIDE_FROM && id_bytes == ID_BYTES {
            let mut items: Vec<Item> = self.items().collect();
            items.push(item);
            *self = Bucket::of(&items, 0);
            return;
        }
        *self = self.copy(len + SPARE_ITEMS);
        let fits = self.add_within(item);
        debug_assert!(fits, "the new bucket has capacity for one more");
    }

    /// A bucket with the same items and this capacity.
    fn copy(&self, capacity: usize) -> Self {
        let (len, id_bytes) = self.head();
        let mut copy = Bucket::with_capacity(capacity, id_bytes);
        if let Some(payload) = copy.bytes.payload_mut()
            && len > 0
        {
            let old = self.bytes.payload();
            payload[..HASHES + len * HASH_BYTES].copy_from_slice(&old[..HASHES + len * HASH_BYTES]);
            let at = payload.len() - len * id_bytes;
            payload[at..].copy_from_slice(&old[old.len() - len * id_bytes..]);
        }
        copy
    }

    /// Gives the item at `slot` another part.
    fn set_part(&mut self, slot: usize, part: NodeId) {
        let (len, id_bytes) = self.head();
        if (part >= WIDE_FROM && id_bytes == ID_BYTES) || self.bytes.is_shared() {
            let mut items: Vec<Item> = self.items().collect();
            debug_assert!(slot < len);
            items[slot].part = part;
            *self = Bucket::of(&items, 0);
        } else if let Some(payload) = self.bytes.payload_mut() {
            write_part(payload, slot, id_bytes, part);
        }
    }

    /// Takes the item at `slot` out.
    fn remove(&mut self, slot: usize) {
        let (len, id_bytes) = self.head();
        if len == 1 {
            *self = Bucket::default();
            return;
        }
        if self.bytes.is_shared() {
            *self = self.copy(len);
        }
        let last = self.part(len - 1);
        if let Some(payload) = self.bytes.payload_mut() {
            let (at, last_at) = (HASHES + slot * HASH_BYTES, HASHES + (len - 1) * HASH_BYTES);
            let mut hash = [0; HASH_BYTES];
            hash.copy_from_slice(&payload[last_at..last_at + HASH_BYTES]);
            payload[at..at + HASH_BYTES].copy_from_slice(&hash);
            write_part(payload, slot, id_bytes, last);
            write_len(payload, len - 1);
        }
        let left = HASHES + (len - 1) * (HASH_BYTES + id_bytes);
        if SharedBytes::allocation_bytes(left) + SLACK_MAX < self.bytes.memory_usage() {
            *self = self.copy(len - 1);
        }
    }
}

#[inline]
fn write_part(payload: &mut [u8], slot: usize, id_bytes: usize, part: NodeId) {
    let at = payload.len() - id_bytes * (slot + 1);
    let raw = part.to_le_bytes();
    // In sizes that are known, which makes them plain moves.
    if id_bytes == ID_BYTES {
        payload[at..at + ID_BYTES].copy_from_slice(&raw[..ID_BYTES]);
    } else {
        payload[at..at + raw.len()].copy_from_slice(&raw);
    }
}

/// Sets the number of items and parts the mark of a wide bucket.
#[inline]
fn write_len(payload: &mut [u8], len: usize) {
    let mark = payload[3] & (WIDE >> 24) as u8;
    let len = u32::try_from(len).ok().filter(|len| len & WIDE == 0);
    let len = len.expect("a bucket has few items: hashes are spread evenly");
    payload[..HASHES].copy_from_slice(&len.to_le_bytes());
    payload[3] |= mark;
}

/// A hash table from members to part numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    buckets: CowVec<Bucket>,
    len: usize,
    bucket_bytes: usize,
}

impl Index {
    /// The index of these items, in O(n); `None` if two are for the same member, which `is_twice` says of a
    /// hash and the parts of two items that have it.
    pub fn build(items: &[Item], is_twice: impl Fn(u32, NodeId, NodeId) -> bool) -> Option<Self> {
        let bucket_count = items.len().div_ceil(FILL).max(1);
        let level = level_of(bucket_count);
        let bucket_of = |item: &Item| bucket_of(item.hash.into(), level, bucket_count);
        // Items are brought in the order of their buckets, which are then filled one after the other.
        let mut places = vec![0; bucket_count + 1];
        items.iter().for_each(|item| places[bucket_of(item) + 1] += 1);
        (1..places.len()).for_each(|bucket| places[bucket] += places[bucket - 1]);
        let mut sorted = vec![Item { hash: 0, part: 0 }; items.len()];
        for item in items {
            let place = &mut places[bucket_of(item)];
            sorted[*place] = *item;
            *place += 1;
        }
        let mut index = Index { len: items.len(), ..Index::default() };
        let mut begin = 0;
        // What was the beginning of each bucket's items has become their end.
        for &end in &places[..bucket_count] {
            let own = &sorted[begin..end];
            begin = end;
            for (count, item) in own.iter().enumerate() {
                let mut same = own[..count].iter().filter(|other| other.hash == item.hash);
                if same.any(|other| is_twice(item.hash, item.part, other.part)) {
                    return None;
                }
            }
            let bucket = Bucket::of(own, 0);
            index.bucket_bytes += bucket.bytes.memory_usage();
            index.buckets.push(bucket);
        }
        Some(index)
    }

    /// The number of items.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes taken, the structure itself not included.
    pub fn memory_usage(&self) -> usize {
        self.bucket_bytes + self.buckets.memory_usage()
    }

    /// The first part among those of the items with a hash for which `is_it` says something.
    #[inline]
    pub fn find<R>(&self, hash: u64, mut is_it: impl FnMut(NodeId) -> Option<R>) -> Option<R> {
        let count = self.buckets.len();
        if count == 0 {
            return None;
        }
        let bucket = self.buckets.get(bucket_of(hash, level_of(count), count));
        bucket.find(hash as u32, |_, part| is_it(part))
    }

    /// Asks the processor to fetch the bucket of a hash, all of it: where its items are is not known before.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        let count = self.buckets.len();
        if count != 0 {
            let number = bucket_of(hash, level_of(count), count);
            self.buckets.prefetch(number);
            let start = self.buckets.get(number).bytes.address();
            prefetch_lines(start, 0..FETCHED_BYTES);
        }
    }

    /// Adds an item.
    pub fn insert(&mut self, hash: u64, part: NodeId) {
        if self.len >= self.buckets.len() * FILL {
            self.grow();
        }
        self.change(hash, |bucket| bucket.add(Item { hash: hash as u32, part }));
        self.len += 1;
    }

    /// Makes an item refer to another part.
    pub fn set(&mut self, hash: u64, old: NodeId, new: NodeId) {
        self.change(hash, |bucket| {
            if let Some(slot) = bucket.find(hash as u32, |slot, part| (part == old).then_some(slot)) {
                bucket.set_part(slot, new);
            }
        });
    }

    /// Takes an item out.
    pub fn remove(&mut self, hash: u64, part: NodeId) {
        let mut removed = 0;
        self.change(hash, |bucket| {
            if let Some(slot) = bucket.find(hash as u32, |slot, found| (found == part).then_some(slot)) {
                bucket.remove(slot);
                removed = 1;
            }
        });
        debug_assert_eq!(removed, 1, "every member has its item");
        self.len -= removed;
        if self.buckets.len() > 1 && self.len < self.buckets.len() * FILL_MIN {
            self.shrink();
        }
    }

    /// Visits a part of the items, hashes with part numbers, and returns the cursor of the next part; 0
    /// starts, and 0 returned ends an iteration. Of a bucket with many more than `wanted` items only a part
    /// is visited.
    pub fn scan(&self, cursor: u64, wanted: usize, mut visit: impl FnMut(u32, NodeId)) -> u64 {
        let count = self.buckets.len();
        if count == 0 {
            return 0;
        }
        let level = level_of(count);
        let cursor = u64::from(cursor as u32);
        let is_split = cursor as usize & (level - 1) < count - level;
        let mut size = if is_split { 2 * level as u64 } else { level as u64 };
        let mut items = FILL;
        while items > wanted / 2 && items > 1 && size < 1 << u32::BITS {
            items /= 2;
            size *= 2;
        }
        let mask = size - 1;
        let bucket = self.buckets.get(bucket_of(cursor, level, count));
        let items = bucket.items().filter(|item| (u64::from(item.hash) ^ cursor) & mask == 0);
        items.for_each(|item| visit(item.hash, item.part));
        (cursor | !mask).reverse_bits().wrapping_add(1).reverse_bits()
    }

    /// Moves the buckets of a slice where that lets memory be given back. True if there are more slices (see
    /// [`slab::parts_of_slice`]).
    pub fn compact(&mut self, slice: usize) -> bool {
        let parts = slab::parts_of_slice(self.buckets.len(), slice);
        let has_more = parts.end < self.buckets.len();
        self.compact_buckets(parts);
        has_more
    }

    /// Whether a clone shares all of it.
    pub fn is_shared(&self) -> bool {
        self.buckets.is_shared()
    }

    /// The number of buckets.
    pub fn bucket_count(&self) -> usize {
        self.buckets.len()
    }

    /// Moves these buckets where that lets memory be given back.
    pub fn compact_buckets(&mut self, buckets: std::ops::Range<usize>) {
        buckets.for_each(|at| self.buckets.get_mut(at).bytes.compact());
    }

    #[inline]
    fn change(&mut self, hash: u64, change: impl FnOnce(&mut Bucket)) {
        let count = self.buckets.len();
        let bucket = self.buckets.get_mut(bucket_of(hash, level_of(count), count));
        self.bucket_bytes -= bucket.bytes.memory_usage();
        change(bucket);
        self.bucket_bytes += bucket.bytes.memory_usage();
    }

    /// Splits the next bucket in turn.
    fn grow(&mut self) {
        let count = self.buckets.len();
        if count == 0 {
            self.buckets.push(Bucket::default());
            return;
        }
        let level = level_of(count);
        let old = self.buckets.get_mut(count - level);
        let items: Vec<Item> = old.items().collect();
        let (moved, kept): (Vec<Item>, Vec<Item>) =
            items.into_iter().partition(|item| item.hash as usize & level != 0);
        let (kept, moved) = (Bucket::of(&kept, 0), Bucket::of(&moved, 0));
        self.bucket_bytes += kept.bytes.memory_usage() + moved.bytes.memory_usage();
        self.bucket_bytes -= old.bytes.memory_usage();
        *old = kept;
        self.buckets.push(moved);
    }

    /// Moves the items of the last bucket to the one that it was split from.
    fn shrink(&mut self) {
        let Some(last) = self.buckets.pop() else { return };
        let count = self.buckets.len();
        let kept = self.buckets.get_mut(count - level_of(count));
        let items: Vec<Item> = kept.items().chain(last.items()).collect();
        self.bucket_bytes -= kept.bytes.memory_usage() + last.bytes.memory_usage();
        *kept = Bucket::of(&items, 0);
        self.bucket_bytes += kept.bytes.memory_usage();
    }
}

/// The level of a table of `bucket_count` buckets, of which there is at least one.
#[inline]
fn level_of(bucket_count: usize) -> usize {
    1 << bucket_count.ilog2()
}

/// The bucket of a hash. Only the low half counts: items have no more.
#[inline]
fn bucket_of(hash: u64, level: usize, bucket_count: usize) -> usize {
    let low = hash as u32 as usize & (2 * level - 1);
    if low < bucket_count { low } else { low - level }
}

const _: () = assert!(SharedBytes::HEADER_BYTES + HASHES == 12 && HASH_BYTES + ID_BYTES == 7);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;
    use std::collections::{HashMap, HashSet};

    fn hash_of_number(number: u64) -> u64 {
        number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
    }

    fn check(index: &Index, model: &HashMap<u64, NodeId>) {
        assert_eq!(index.len, model.len());
        for (&number, &part) in model {
            assert_eq!(index.find(hash_of_number(number), |found| (found == part).then_some(())), Some(()));
        }
        let buckets = (0..index.buckets.len()).map(|at| index.buckets.get(at).bytes.memory_usage());
        assert_eq!(buckets.sum::<usize>(), index.bucket_bytes);
    }

    #[test]
    fn behaves_like_a_map_and_clones_stay() {
        let mut numbers = Random::new(3);
        let mut random = |bound: u64| numbers.next() % bound;
        let (mut index, mut model) = (Index::default(), HashMap::new());
        let mut clones = Vec::new();
        for round in 0..60_000 {
            let number = random(6000);
            // Some numbers need a wide bucket.
            let part = random(if round > 30_000 { 1 << 25 } else { 1 << 24 }) as NodeId;
            let is_growing = (round / 15_000) % 2 == 0;
            match model.get(&number).copied() {
                None if is_growing || random(3) == 0 => {
                    index.insert(hash_of_number(number), part);
                    model.insert(number, part);
                }
                Some(old) if is_growing || random(4) == 0 => {
                    index.set(hash_of_number(number), old, part);
                    model.insert(number, part);
                }
                Some(old) => {
                    index.remove(hash_of_number(number), old);
                    model.remove(&number);
                }
                None => {}
            }
            if round % 6000 == 0 {
                check(&index, &model);
                clones.push((index.clone(), model.clone()));
            }
        }
        clones.iter().for_each(|(index, model)| check(index, model));
        let mut items: Vec<Item> =
            model.iter().map(|(&number, &part)| Item { hash: hash_of_number(number) as u32, part }).collect();
        let built = Index::build(&items, |_, _, _| false).expect("nothing is twice");
        check(&built, &model);
        items.extend(items.first().copied());
        assert!(Index::build(&items, |_, one, other| one == other).is_none());
        for (number, part) in model {
            index.remove(hash_of_number(number), part);
        }
        assert!(index.buckets.len() == 1 && index.bucket_bytes < 64);
    }

    #[test]
    fn scanning_meets_all_that_stays() {
        for seed in 1..5_u64 {
            let mut numbers = Random::new(seed);
            let mut random = |bound: u64| numbers.next() % bound;
            let (mut index, mut passing) = (Index::default(), Vec::new());
            let staying: HashSet<u32> = (0..3000).map(|number| hash_of_number(number) as u32).collect();
            (0..3000).for_each(|number| index.insert(hash_of_number(number), number as NodeId));
            let (mut seen, mut cursor, mut next) = (HashSet::new(), 0, 3000);
            let growing = seed % 2 == 0;
            if !growing {
                (0..20_000)
                    .for_each(|_| (passing.push(next), index.insert(hash_of_number(next), 1), next += 1).2);
            }
            loop {
                cursor =
                    index.scan(cursor, [1, 10, 1000][random(3) as usize], |hash, _| _ = seen.insert(hash));
                if cursor == 0 {
                    break;
                }
                for _ in 0..random(900) {
                    if growing && next < 40_000 {
                        index.insert(hash_of_number(next), 1);
                        next += 1;
                    } else if let Some(number) = passing.pop() {
                        index.remove(hash_of_number(number), 1);
                    }
                }
            }
            assert!(staying.is_subset(&seen), "seed {seed}");
        }
    }

    #[test]
    fn an_item_costs_eight_bytes() {
        let mut index = Index::default();
        for number in 0..70_000 {
            index.insert(hash_of_number(number), number as NodeId / 30);
            let len = number as usize + 1;
            if len > 10_000 && len.is_power_of_two() {
                let per_item = index.memory_usage() as f64 / len as f64;
                assert!(per_item < 8.6, "{per_item} at {len}");
            }
        }
    }
}
