//! A linear hash table whose buckets are [`Block`]s.
//!
//! The table grows by splitting and shrinks by merging one bucket at a time, in turn: when the bytes of all
//! buckets are more than [`BUCKET_BYTES_MAX`] for each, or fewer than [`BUCKET_BYTES_MIN`]. So there is
//! neither a pause nor a moment with two tables, memory follows the contents at every size, and buckets stay
//! about as large whatever the size of the items is. A bucket is a block of any size: there are no overflow
//! chains.
//!
//! # Invariants
//!
//! - `buckets == level_size + split` with `0 <= split < level_size`, `level_size` a power of two.
//! - An item with hash `h` lies in bucket `h mod 2 * level_size` if that is `< buckets`, else in bucket
//!   `h mod level_size`. Its tag is bits 48 to 55 of the hash.
//!
//! # Scanning
//!
//! A full iteration with [`Buckets::scan`] visits every item that is there throughout at least once, whatever
//! is added and removed, and however often the table grows and shrinks in between. Why:
//!
//! - A cursor counts in reversed bit order (the idea is Pieter Noordhuis's, known from Redis). Read so, a
//!   hash is a place on a line from 0 on, and the cursor is the place up to which everything has been
//!   visited.
//! - A bucket holds the items of a pattern of low bits, which is an interval of that line. A step visits the
//!   bucket whose interval the cursor is in, whole, and moves the cursor to the end of the interval.
//! - When the table grows, an interval becomes two, and a cursor that was at its beginning is at the
//!   beginning of the first. When it shrinks, two intervals become one: a cursor that was at the beginning of
//!   the second is in the middle of it now, so items may come twice, but none is missed.
//!
//! # Picking at random
//!
//! A bucket is drawn, and then a number below [`Buckets::items_max`], which no bucket exceeds; if the bucket
//! has an item of that number it is the one, else both are drawn again. So all items are equally likely. The
//! bound is the largest number of items seen since the last round of splits or merges began, and therefore
//! not far from the truth: a few draws suffice.

use std::cmp::max;

use mantissa_memory::CowVec;
use mantissa_memory::slab;
use smallvec::SmallVec;

use super::block::{Block, Builder};
use super::element::Encoded;
use super::view::{Form, Item, Items, Position};
use crate::sample;

/// Mean bytes of a bucket's tags, codes and elements above which the table grows.
const BUCKET_BYTES_MAX: usize = 448;
/// Mean bytes below which it shrinks.
const BUCKET_BYTES_MIN: usize = 256;
/// Buckets from which on they are fetched ahead: fewer of them stay in the caches anyway.
const FETCHED_FROM: usize = 2048;
/// Splits that one insertion makes at most, as an item can be larger than a bucket should be.
const SPLITS_MAX: usize = 2;
/// The place of a tag in a hash. Buckets use the low bits.
const TAG_SHIFT: u32 = 48;

/// Where an item is, until the table changes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    bucket: usize,
    position: Position,
}

/// A hash table of packed items. A clone costs the same at any size: both share all buckets, and a writer
/// copies those that it changes.
#[derive(Clone)]
pub(crate) struct Buckets {
    blocks: CowVec<Block>,
    level_size: usize,
    len: usize,
    /// Bytes of tags, codes and elements of all buckets.
    content_bytes: usize,
    /// Bytes of all blocks and of the texts with allocations of their own.
    heap_bytes: usize,
    /// No bucket has more items.
    items_max: usize,
    /// The most items that a bucket had since the round of splits or merges began.
    round_items_max: usize,
    /// The number of buckets, a power of two, when the round began.
    round_start: usize,
}

#[inline]
fn tag_of(hash: u64) -> u8 {
    (hash >> TAG_SHIFT) as u8
}

/// The bucket of a hash among so many, of which `level_size` is the largest power of two that is not above
/// their number.
#[inline]
fn index_among(hash: u64, buckets: usize, level_size: usize) -> usize {
    let low = hash as usize & (2 * level_size - 1);
    if low < buckets { low } else { low - level_size }
}

impl Buckets {
    /// An empty table.
    pub(crate) fn new() -> Buckets {
        let mut blocks = CowVec::new();
        blocks.push(Block::EMPTY);
        Buckets {
            blocks,
            level_size: 1,
            len: 0,
            content_bytes: 0,
            heap_bytes: 0,
            items_max: 1,
            round_items_max: 1,
            round_start: 1,
        }
    }

    /// The number of items.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes taken, what is shared with clones included.
    pub(crate) fn memory_usage(&self) -> usize {
        self.blocks.memory_usage() + self.heap_bytes
    }

    /// Has `visit` called with all items, giving up each bucket as soon as it has been read. The table is of
    /// no use afterwards.
    pub(crate) fn give_up_each(&mut self, mut visit: impl FnMut(Item<'_>)) {
        for bucket in 0..self.blocks.len() {
            let block = std::mem::replace(self.blocks.get_mut(bucket), Block::EMPTY);
            block.view().items().for_each(&mut visit);
        }
    }

    /// The number of buckets.
    #[inline]
    pub(crate) fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// A bucket.
    #[inline]
    pub(crate) fn block(&self, bucket: usize) -> &Block {
        self.blocks.get(bucket)
    }

    /// The hashes of a bucket's items are congruent modulo this.
    pub(super) fn pattern_size(&self, bucket: usize) -> usize {
        let is_split = bucket >= self.level_size || bucket + self.level_size < self.blocks.len();
        if is_split { 2 * self.level_size } else { self.level_size }
    }

    /// The bucket of a hash, of which only the low bits matter.
    #[inline]
    pub(super) fn index(&self, hash: u64) -> usize {
        index_among(hash, self.blocks.len(), self.level_size)
    }

    /// The bucket of a text in a table of so many buckets.
    pub(crate) fn bucket_of(text: &[u8], buckets: usize) -> usize {
        index_among(Encoded::new(text).hash(), buckets, 1 << buckets.max(1).ilog2())
    }

    /// Fetches ahead what looking for the item with this hash will look at, if the table is larger than the
    /// caches; false if it is not.
    pub(crate) fn fetch_ahead(&self, hash: u64) -> bool {
        let is_far = self.blocks.len() >= FETCHED_FROM;
        if is_far {
            self.blocks.get(self.index(hash)).prefetch_all();
        }
        is_far
    }

    /// Where the item with this first element is.
    #[inline]
    pub(crate) fn find(&self, key: &Encoded<'_>, hash: u64) -> Option<Place> {
        let bucket = self.index(hash);
        let block = self.blocks.get(bucket);
        block.prefetch();
        let position = block.view().find(key, tag_of(hash))?;
        Some(Place { bucket, position })
    }

    /// Where the item with this hash is for which `is_it` holds.
    pub(crate) fn find_by(&self, hash: u64, mut is_it: impl FnMut(Item<'_>) -> bool) -> Option<Place> {
        let bucket = self.index(hash);
        let view = self.blocks.get(bucket).view();
        let mut position = Position::FIRST;
        while view.has(position) {
            let is_candidate = view.tags()[position.item] == tag_of(hash) && view.hash(position) == hash;
            if is_candidate && is_it(view.item(position)) {
                return Some(Place { bucket, position });
            }
            position = view.next(position);
        }
        None
    }

    /// The item at a place.
    #[inline(always)]
    pub(crate) fn item(&self, place: Place) -> Item<'_> {
        self.blocks.get(place.bucket).view().item(place.position)
    }

    /// Adds an item that is not there yet; `hash` is that of its first element. Elements that others in its
    /// bucket have and it has not are the integer 0.
    pub(crate) fn insert(&mut self, hash: u64, elements: &[Encoded<'_>]) {
        let bucket = self.index(hash);
        let tag = tag_of(hash);
        let block = self.blocks.get_mut(bucket);
        let stride = block.stride().unwrap_or(elements.len());
        let items = if stride == elements.len() {
            let heap = block.heap_bytes();
            block.push(Form::tagged(stride as u8), tag, elements, hash);
            self.heap_bytes = self.heap_bytes + block.heap_bytes() - heap;
            self.content_bytes += 1 + elements.iter().map(|element| 1 + element.span()).sum::<usize>();
            block.len()
        } else {
            self.change(bucket, |block| {
                if elements.len() > stride {
                    block.widen_items();
                }
                let mut padded: SmallVec<[Encoded<'_>; 3]> = SmallVec::from_slice(elements);
                padded.resize(stride.max(elements.len()), Encoded::ZERO);
                block.push(Form::tagged(padded.len() as u8), tag, &padded, hash);
                block.len()
            })
        };
        self.heap_bytes += elements.iter().map(Encoded::heap_bytes).sum::<usize>();
        self.len += 1;
        self.items_max = max(self.items_max, items);
        self.round_items_max = max(self.round_items_max, items);
        self.grow_as_needed();
    }

    /// Puts another element in the place of one of an item; not the first.
    pub(crate) fn replace(&mut self, place: Place, index: usize, element: &Encoded<'_>) {
        let (before, after) = self.change(place.bucket, |block| {
            let before = block.view().external_bytes_of(place.position);
            let mut position = place.position;
            if index >= block.view().form().stride() {
                block.widen_items();
                position = block.view().position(position.item);
            }
            block.replace(position, index, element);
            (before, block.view().external_bytes_of(position))
        });
        self.heap_bytes = self.heap_bytes + after - before;
        self.grow_as_needed();
        self.shrink_as_needed();
    }

    /// Removes the item at a place.
    pub(crate) fn remove(&mut self, place: Place) {
        let block = self.blocks.get_mut(place.bucket);
        let view = block.view();
        let (content, freed) =
            (view.content_bytes_of(place.position), view.external_bytes_of(place.position));
        let heap = block.heap_bytes();
        block.remove(place.position);
        self.content_bytes -= content;
        self.heap_bytes = self.heap_bytes + block.heap_bytes() - heap - freed;
        self.len -= 1;
        self.shrink_as_needed();
    }

    /// Makes the table as large as it will be with `items` items, if those that it has are typical: others
    /// then come without splits. Costs O(n) for those that it has.
    pub(crate) fn prepare(&mut self, items: usize) {
        if self.len == 0 {
            return;
        }
        let bucket_count = (self.content_bytes / self.len).saturating_mul(items) / BUCKET_BYTES_MAX;
        if bucket_count < 2 * self.blocks.len() {
            return;
        }
        let mut large = Buckets::new();
        while large.blocks.len() < bucket_count {
            large.blocks.push(Block::EMPTY);
        }
        large.level_size = 1 << bucket_count.ilog2();
        large.round_start = large.level_size;
        for bucket in 0..self.blocks.len() {
            let view = self.blocks.get(bucket).view();
            for item in view.items() {
                let (key, value) = (Encoded::of(item.key), Encoded::of(item.value));
                let elements = [key, value, Encoded::integer(item.expiry)];
                large.insert(key.hash(), &elements[..view.form().stride()]);
            }
        }
        *self = large;
    }

    /// The items that `keep` holds for, which is asked about each. Buckets all of whose items stay are shared
    /// with this table.
    pub(crate) fn filtered(&self, mut keep: impl FnMut(Item<'_>) -> bool) -> Buckets {
        self.filtered_by_block(|_, block| block.filtered(&mut keep))
    }

    /// The items that `filter` leaves in each bucket: it gets a bucket's number and block, and returns the
    /// block with what stays.
    pub(crate) fn filtered_by_block(&self, mut filter: impl FnMut(usize, &Block) -> Block) -> Buckets {
        let mut filtered = Buckets {
            blocks: CowVec::new(),
            level_size: self.level_size,
            len: 0,
            content_bytes: 0,
            heap_bytes: 0,
            items_max: 1,
            round_items_max: 1,
            round_start: self.round_start,
        };
        for bucket in 0..self.blocks.len() {
            let block = filter(bucket, self.blocks.get(bucket));
            let view = block.view();
            filtered.len += view.len();
            filtered.content_bytes += view.content_bytes();
            filtered.heap_bytes += block.heap_bytes() + view.external_bytes();
            filtered.items_max = max(filtered.items_max, view.len());
            filtered.blocks.push(block);
        }
        filtered.round_items_max = filtered.items_max;
        while filtered.blocks.len() > 1 && filtered.content_bytes < filtered.blocks.len() * BUCKET_BYTES_MIN {
            filtered.merge();
        }
        filtered
    }

    /// Changes a bucket and keeps the sums.
    fn change<R>(&mut self, bucket: usize, change: impl FnOnce(&mut Block) -> R) -> R {
        let block = self.blocks.get_mut(bucket);
        let (content, heap) = (block.view().content_bytes(), block.heap_bytes());
        let result = change(block);
        self.content_bytes = self.content_bytes + block.view().content_bytes() - content;
        self.heap_bytes = self.heap_bytes + block.heap_bytes() - heap;
        result
    }

    #[inline]
    fn grow_as_needed(&mut self) {
        for _ in 0..SPLITS_MAX {
            if self.content_bytes <= self.blocks.len() * BUCKET_BYTES_MAX {
                return;
            }
            self.split();
        }
    }

    #[inline]
    fn shrink_as_needed(&mut self) {
        for _ in 0..SPLITS_MAX {
            if self.blocks.len() == 1 || self.content_bytes >= self.blocks.len() * BUCKET_BYTES_MIN {
                return;
            }
            self.merge();
        }
    }

    /// Splits the next bucket.
    #[cold]
    fn split(&mut self) {
        let from = self.blocks.len() - self.level_size;
        let bit = self.level_size as u64;
        let source = std::mem::replace(self.blocks.get_mut(from), Block::EMPTY);
        let (low, high) = split_block(&source, bit);
        self.heap_bytes = self.heap_bytes + low.heap_bytes() + high.heap_bytes() - source.heap_bytes();
        let items = max(low.len(), high.len());
        *self.blocks.get_mut(from) = low;
        self.blocks.push(high);
        self.round_items_max = max(self.round_items_max, items);
        if self.blocks.len() == 2 * self.level_size {
            self.level_size *= 2;
        }
        self.end_round();
    }

    /// Merges the last bucket into the one that it was split from.
    #[cold]
    fn merge(&mut self) {
        if self.blocks.len() == self.level_size {
            self.level_size /= 2;
        }
        let Some(last) = self.blocks.pop() else { return };
        let target = self.blocks.get_mut(self.blocks.len() - self.level_size);
        let merged = merge_blocks(target, &last);
        self.heap_bytes = self.heap_bytes + merged.heap_bytes() - target.heap_bytes() - last.heap_bytes();
        // More than before if items of one have got an element that those of the other had.
        let before = target.view().content_bytes() + last.view().content_bytes();
        self.content_bytes = self.content_bytes + merged.view().content_bytes() - before;
        let items = merged.len();
        *target = merged;
        self.items_max = max(self.items_max, items);
        self.round_items_max = max(self.round_items_max, items);
        self.end_round();
    }

    /// Ends the round if the number of buckets is another power of two than when it began: every bucket has
    /// been split, or merged, since, so the most items seen since bound those of all.
    fn end_round(&mut self) {
        let count = self.blocks.len();
        if count.is_power_of_two() && count != self.round_start {
            self.items_max = self.round_items_max;
            self.round_items_max = 1;
            self.round_start = count;
        }
    }

    /// Visits a part of the items and returns the cursor of the next part; 0 starts, and 0 returned ends an
    /// iteration.
    pub(crate) fn scan(&self, cursor: u64, visit: impl FnMut(Item<'_>)) -> u64 {
        let bucket = self.index(cursor);
        let split = self.blocks.len() - self.level_size;
        let is_split = cursor as usize & (self.level_size - 1) < split;
        let mask = self.level_size as u64 * if is_split { 2 } else { 1 } - 1;
        self.blocks.get(bucket).view().items().for_each(visit);
        (cursor | !mask).reverse_bits().wrapping_add(1).reverse_bits()
    }

    /// The place of an item picked at random, all with equal probability. `random` returns uniform numbers.
    pub(crate) fn random(&self, mut random: impl FnMut() -> u64) -> Option<Place> {
        if self.len == 0 {
            return None;
        }
        loop {
            let bucket = sample::below(random(), self.blocks.len());
            let item = sample::below(random(), self.items_max);
            let view = self.blocks.get(bucket).view();
            if item < view.len() {
                return Some(Place { bucket, position: view.position(item) });
            }
        }
    }

    /// All items, bucket by bucket.
    #[inline]
    pub(crate) fn iter(&self) -> Iter<'_> {
        Iter { buckets: self, bucket: 0, items: Items::none(), left: self.len }
    }

    /// Moves the blocks of a slice so that memory can be given back, unless a clone shares them. True if
    /// there are more slices (see [`slab::parts_of_slice`]).
    pub(crate) fn compact(&mut self, slice: usize) -> bool {
        let parts = slab::parts_of_slice(self.blocks.len(), slice);
        let has_more = parts.end < self.blocks.len();
        if !self.blocks.is_shared() {
            parts.for_each(|bucket| self.blocks.get_mut(bucket).compact());
        }
        has_more
    }
}

/// Parts the items of a block by a bit of their hashes: those that have it not, and those that have it.
fn split_block(source: &Block, bit: u64) -> (Block, Block) {
    let view = source.view();
    let mut positions: SmallVec<[(Position, bool); 64]> = SmallVec::with_capacity(view.len());
    let mut position = Position::FIRST;
    // The number and bytes of those that have the bit.
    let (mut items, mut bytes) = (0, 0);
    while view.has(position) {
        let is_high = view.hash(position) & bit != 0;
        positions.push((position, is_high));
        let next = view.next(position);
        if is_high {
            items += 1;
            bytes += next.offset - position.offset;
        }
        position = next;
    }
    let gather = |wanted: bool, items: usize, bytes: usize| {
        if items == 0 {
            return Block::EMPTY;
        }
        let mut builder = Builder::new(view.form(), items, bytes);
        let chosen = positions.iter().filter(|(_, is_high)| *is_high == wanted);
        chosen.for_each(|&(position, _)| builder.push(&view, position));
        builder.finish()
    };
    (gather(false, view.len() - items, view.data().len() - bytes), gather(true, items, bytes))
}

/// A block with the items of two.
fn merge_blocks(first: &Block, second: &Block) -> Block {
    if first.len() == 0 || second.len() == 0 {
        return if first.len() == 0 { second.clone() } else { first.clone() };
    }
    let views = [first.view(), second.view()];
    let stride = max(views[0].form().stride, views[1].form().stride);
    let [items, bytes] = [views[0].len() + views[1].len(), views[0].data().len() + views[1].data().len()];
    let mut builder = Builder::new(Form::tagged(stride), items, bytes);
    views.iter().for_each(|view| builder.push_all(view));
    builder.finish()
}

/// All items of a table. See [`Buckets::iter`].
pub(crate) struct Iter<'a> {
    buckets: &'a Buckets,
    bucket: usize,
    items: Items<'a>,
    left: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        loop {
            if let Some(item) = self.items.next() {
                self.left = self.left.saturating_sub(1);
                return Some(item);
            }
            if self.bucket == self.buckets.blocks.len() {
                return None;
            }
            self.items = self.buckets.blocks.get(self.bucket).view().items();
            self.bucket += 1;
        }
    }

    #[inline]
    fn fold<B, F: FnMut(B, Item<'a>) -> B>(self, init: B, mut f: F) -> B {
        let mut result = self.items.fold(init, &mut f);
        for bucket in self.bucket..self.buckets.blocks.len() {
            result = self.buckets.blocks.get(bucket).view().items().fold(result, &mut f);
        }
        result
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Iter<'_> {}
