//! A hash table of eight-byte items that grows and shrinks one bucket at a time (linear hashing).
//!
//! A bucket is one cache line: seven one-byte fingerprints, a mark, and seven items. A lookup reads the
//! bucket of its hash, compares fingerprints seven at a time, and follows the overflow chain only where there
//! is one. Growth splits the next bucket in turn, so there is neither a pause nor a moment with two tables:
//! memory follows the number of items at every size.
//!
//! Bytes per item: 64 / 5.5 = 11.6 for the buckets, and 1.1 to 1.7 for overflow blocks, which are just as
//! long as the items that they hold (a fifth of the buckets has one).
//!
//! # Invariants
//!
//! - `bucket_count == level_size + split` with `0 <= split < level_size`, `level_size` a power of two (or no
//!   bucket at all).
//! - An item with hash `h` lies in the chain of bucket `h mod 2*level_size` if that is `< bucket_count`, else
//!   of bucket `h mod level_size`.
//! - A fingerprint of zero marks a free slot; no item's fingerprint is zero.
//! - Chains are dense: only a bucket without overflow has free slots, and a last block has at least two
//!   items.
//!
//! # Scanning
//!
//! [`Table::scan`] returns every item that is present throughout a full iteration at least once, whatever is
//! inserted and removed, and however often the table grows and shrinks in between. The cursor counts in
//! reversed bit order (an idea of Pieter Noordhuis, known from Redis): at any time the cursors already passed
//! are a set of *low-bit patterns*. One step visits the pattern `c mod level_size`: the bucket of that number
//! and, where it has been split, its other half. All items whose hash ends in the pattern are in these two
//! chains. When the table grows a level, a passed pattern of k bits stands for both of its (k+1)-bit
//! extensions, which the reversed counter has passed as well; when it shrinks a level, two patterns merge and
//! the step visits their union, so that an item may be seen again but is never missed.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::mem::{align_of, size_of};
use std::ptr::NonNull;

use mantissa_memory::{CACHE_LINE_BYTES, allocator, prefetch, slab};
use smallvec::SmallVec;

use crate::sample;

#[cfg(test)]
mod tests;

/// Items in one bucket.
const SLOTS: usize = 7;
/// Items in two buckets, in the mean, above which the table grows.
const FILL_MAX_OF_TWO: usize = 11;
/// Mean number of items per bucket below which the table shrinks.
const FILL_MIN: usize = 3;
const BUCKET_BYTES: usize = CACHE_LINE_BYTES;
/// Buckets that are allocated together once a table is large.
const SEGMENT_BUCKETS: usize = slab::PAGE_BYTES / BUCKET_BYTES;
const ITEM_BYTES: usize = 8;
/// The byte behind the fingerprints.
const MARK: usize = 7;
/// The bit of the mark which says that the last slot holds a pointer to a block.
const OVERFLOW: u8 = 0x80;

/// A bucket, or a block of its overflow chain.
///
/// ```text
/// byte 0..7    fingerprints of the items (0: free)
/// byte 7       mark: whether the last slot holds a pointer to the next block (bit 7), and by how many slots
///              the block is shorter than seven (bits 0 to 2)
/// byte 8..     items of eight bytes: seven in a bucket, one to seven in a block
/// ```
struct Block<T>(NonNull<u8>, PhantomData<T>);

impl<T> Clone for Block<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Block<T> {}

const _: () = assert!(BUCKET_BYTES == (1 + SLOTS) * ITEM_BYTES);

/// The fingerprint of a hash: bits 48 to 55, never zero. Buckets use the low bits, shards the high ones.
#[inline]
fn fingerprint(hash: u64) -> u8 {
    ((hash >> 48) as u8).max(1)
}

/// The slots among the first seven whose tag is `tag`, as the high bits of their bytes. May name a slot too
/// many (callers compare the items), never one too few.
#[inline]
fn matches(tags: [u8; 8], tag: u8) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH_OF_SEVEN: u64 = 0x0080_8080_8080_8080;
    let difference = u64::from_le_bytes(tags) ^ (LOW * u64::from(tag));
    difference.wrapping_sub(LOW) & !difference & HIGH_OF_SEVEN
}

/// The blocks behind these handles are live: they belong to a table that is borrowed while they are used.
impl<T> Block<T> {
    #[inline]
    fn tags(self) -> [u8; 8] {
        // SAFETY: a live block begins with eight bytes of fingerprints and mark.
        unsafe { self.0.as_ptr().cast::<[u8; 8]>().read() }
    }

    #[inline]
    fn set_tag(self, index: usize, tag: u8) {
        debug_assert!(index < 8);
        // SAFETY: as in `tags`.
        unsafe { self.0.as_ptr().add(index).write(tag) }
    }

    #[inline]
    fn slot(self, index: usize) -> *mut T {
        debug_assert!(index < self.capacity());
        // SAFETY: the block has that many slots.
        unsafe { self.0.as_ptr().add(8 + index * ITEM_BYTES).cast() }
    }

    /// All slots, that of the overflow pointer included.
    #[inline]
    fn capacity(self) -> usize {
        SLOTS - usize::from(self.tags()[MARK] & 7)
    }

    /// Slots for items.
    #[inline]
    fn slot_count(self) -> usize {
        self.capacity() - usize::from(self.tags()[MARK] & OVERFLOW != 0)
    }

    #[inline]
    fn overflow(self) -> Option<Block<T>> {
        let mark = self.tags()[MARK];
        if mark & OVERFLOW == 0 {
            return None;
        }
        // SAFETY: the mark says that the last slot holds a live pointer to a block.
        unsafe {
            Some(Block(
                self.slot(SLOTS - 1 - usize::from(mark & 7)).cast::<NonNull<u8>>().read(),
                PhantomData,
            ))
        }
    }

    /// Makes the last slot a pointer to `next`. What was there has been moved away.
    fn set_overflow(self, next: Block<T>) {
        let last = self.capacity() - 1;
        self.set_tag(last, 0);
        self.set_tag(MARK, self.tags()[MARK] | OVERFLOW);
        // SAFETY: the slot exists and is free for the pointer.
        unsafe { self.slot(last).cast::<NonNull<u8>>().write(next.0) }
    }

    /// Makes the last slot one for items again.
    fn clear_overflow(self) {
        self.set_tag(MARK, self.tags()[MARK] & !OVERFLOW);
    }

    fn free_slot(self) -> Option<usize> {
        let tags = self.tags();
        tags[..self.slot_count()].iter().position(|&tag| tag == 0)
    }

    #[inline]
    fn put(self, slot: usize, tag: u8, item: T) {
        self.set_tag(slot, tag);
        // SAFETY: the slot exists and is free.
        unsafe { self.slot(slot).write(item) }
    }

    /// Takes an item out of an occupied slot.
    #[inline]
    fn take(self, slot: usize) -> (u8, T) {
        let tag = self.tags()[slot];
        debug_assert!(tag != 0);
        self.set_tag(slot, 0);
        // SAFETY: the slot was occupied, and its tag has been cleared: the item moves out exactly once.
        unsafe { (tag, self.slot(slot).read()) }
    }

    fn block_bytes(capacity: usize) -> usize {
        8 + capacity * ITEM_BYTES
    }

    /// A block with free slots.
    fn allocate(capacity: usize) -> Self {
        let block = Block(slab::alloc(Self::block_bytes(capacity)), PhantomData);
        // SAFETY: a block is at least eight bytes long.
        unsafe { block.0.as_ptr().cast::<[u8; 8]>().write([0; 8]) };
        block.set_tag(MARK, (SLOTS - capacity) as u8);
        block
    }

    /// The block with another number of slots; new ones are free, those that go must be.
    fn resize(self, capacity: usize) -> Self {
        let old = Self::block_bytes(self.capacity());
        // SAFETY: a block that `allocate` made, with its size; the old handle is given up.
        let block = Block(unsafe { slab::realloc(self.0, old, Self::block_bytes(capacity)) }, PhantomData);
        block.set_tag(MARK, (SLOTS - capacity) as u8 | block.tags()[MARK] & OVERFLOW);
        block
    }

    /// Frees a block that holds nothing any more.
    fn release(self) {
        // SAFETY: a block that `allocate` made, with its size; the handle is given up.
        unsafe { slab::dealloc(self.0, Self::block_bytes(self.capacity())) };
    }
}

/// What a lookup that may also change the table found.
pub enum Found<'a, T> {
    /// The item, which stays.
    Kept(&'a mut T),
    /// The item, which has been taken out.
    Taken(T),
    /// No item.
    Missing,
}

/// Where an item lies; valid until the table changes.
struct Position<T> {
    block: Block<T>,
    slot: usize,
}

/// A linear hash table; the [module](self) says how it grows, scans and costs. `T` must be eight bytes with
/// an alignment of at most eight.
pub struct Table<T> {
    segments: Vec<NonNull<u8>>,
    /// Capacity of the first segment, in buckets, up to `SEGMENT_BUCKETS`.
    first_capacity: usize,
    bucket_count: usize,
    level_size: usize,
    len: usize,
    /// Bytes of all overflow blocks.
    overflow_bytes: usize,
    owned: PhantomData<T>,
}

// SAFETY: the table owns its buckets and items; the raw pointers are never shared beyond borrows of the
// table.
unsafe impl<T: Send> Send for Table<T> {}
// SAFETY: as above; shared access only hands out shared references.
unsafe impl<T: Sync> Sync for Table<T> {}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Table<T> {
    const ITEM_FITS: () = assert!(size_of::<T>() == ITEM_BYTES && align_of::<T>() <= 8);

    /// An empty table. Allocates nothing.
    pub const fn new() -> Self {
        let () = Self::ITEM_FITS;
        Table {
            segments: Vec::new(),
            first_capacity: 0,
            bucket_count: 0,
            level_size: 0,
            len: 0,
            overflow_bytes: 0,
            owned: PhantomData,
        }
    }

    /// The number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of buckets, overflow buckets not counted.
    pub fn bucket_count(&self) -> usize {
        self.bucket_count
    }

    /// Bytes that the table itself takes, without what its items point to.
    pub fn memory_usage(&self) -> usize {
        let buckets = self.segments.len().saturating_sub(1) * SEGMENT_BUCKETS + self.first_capacity;
        buckets * BUCKET_BYTES + self.overflow_bytes + self.segments.capacity() * size_of::<usize>()
    }

    /// Makes an empty table as large as it will be with `items` items, so that they come without splits.
    pub fn reserve(&mut self, items: usize) {
        let buckets = items * 2 / FILL_MAX_OF_TWO;
        if self.len > 0 || buckets <= self.bucket_count {
            return;
        }
        while self.bucket_count < buckets {
            self.reserve_bucket();
            self.bucket_count += 1;
        }
        self.level_size = 1 << self.bucket_count.ilog2();
    }

    /// Gives up buckets, at most so many, of a table that is larger than its items need: one that was
    /// reserved for more than came. True if there are more to give up.
    pub fn shrink_to_fit(&mut self, buckets_max: usize, hash_of: impl Fn(&T) -> u64) -> bool {
        for _ in 0..buckets_max {
            if self.bucket_count <= 1 || self.len >= self.bucket_count * FILL_MIN {
                self.fit_first_segment();
                return false;
            }
            self.shrink(&hash_of);
        }
        true
    }

    /// The item with this hash for which `equal` holds.
    #[inline(always)]
    pub fn get(&self, hash: u64, equal: impl FnMut(&T) -> bool) -> Option<&T> {
        let at = self.find(hash, equal)?;
        // SAFETY: `find` returns occupied slots, and the borrow of `self` keeps the table unchanged.
        unsafe { Some(&*at.block.slot(at.slot)) }
    }

    /// The item with this hash for which `equal` holds, to change. Its hash must stay the same.
    #[inline]
    pub fn get_mut(&mut self, hash: u64, equal: impl FnMut(&T) -> bool) -> Option<&mut T> {
        let at = self.find(hash, equal)?;
        // SAFETY: as in `get`, and the borrow is exclusive.
        unsafe { Some(&mut *at.block.slot(at.slot)) }
    }

    /// Adds an item that is not there yet. `hash_of` gives the hash of any item; it is asked when buckets are
    /// split.
    pub fn insert(&mut self, hash: u64, item: T, hash_of: impl Fn(&T) -> u64) -> &mut T {
        if self.bucket_count == 0 || self.len * 2 >= self.bucket_count * FILL_MAX_OF_TWO {
            self.grow(&hash_of);
        }
        self.len += 1;
        let at = self.place(self.bucket(self.index(hash)), fingerprint(hash), item);
        // SAFETY: the item has just been put there, and the table is borrowed exclusively.
        unsafe { &mut *at.block.slot(at.slot) }
    }

    /// The item with this hash for which `equal` holds, or the new one that `make` returns, which is then
    /// added; and whether it is new. `hash_of` as for `insert`.
    pub fn get_or_insert_with(
        &mut self,
        hash: u64,
        equal: impl FnMut(&T) -> bool,
        make: impl FnOnce() -> T,
        hash_of: impl Fn(&T) -> u64,
    ) -> (&mut T, bool) {
        match self.find(hash, equal) {
            // SAFETY: `find` returns occupied slots, and the borrow of `self` is exclusive.
            Some(at) => unsafe { (&mut *at.block.slot(at.slot), false) },
            None => (self.insert(hash, make(), hash_of), true),
        }
    }

    /// The item with this hash for which `equal` holds; it is taken out if `unwanted` holds for it. `hash_of`
    /// as for `insert`.
    pub fn get_or_take(
        &mut self,
        hash: u64,
        equal: impl FnMut(&T) -> bool,
        unwanted: impl FnOnce(&T) -> bool,
        hash_of: impl Fn(&T) -> u64,
    ) -> Found<'_, T> {
        let Some(at) = self.find(hash, equal) else { return Found::Missing };
        // SAFETY: `find` returns occupied slots, and the borrow of `self` is exclusive.
        if unwanted(unsafe { &*at.block.slot(at.slot) }) {
            return Found::Taken(self.take_at(at, hash, hash_of));
        }
        // SAFETY: as above.
        Found::Kept(unsafe { &mut *at.block.slot(at.slot) })
    }

    /// Removes and returns the item with this hash for which `equal` holds. `hash_of` as for `insert`.
    pub fn remove(
        &mut self,
        hash: u64,
        equal: impl FnMut(&T) -> bool,
        hash_of: impl Fn(&T) -> u64,
    ) -> Option<T> {
        let at = self.find(hash, equal)?;
        Some(self.take_at(at, hash, hash_of))
    }

    /// Takes the item out of a place that `find` returned just now.
    fn take_at(&mut self, at: Position<T>, hash: u64, hash_of: impl Fn(&T) -> u64) -> T {
        let (_, item) = at.block.take(at.slot);
        self.len -= 1;
        let head = self.bucket(self.index(hash));
        if head.overflow().is_some() {
            self.fill_gap(head, at);
        }
        if self.bucket_count > 1 && self.len < self.bucket_count * FILL_MIN {
            self.shrink(&hash_of);
        }
        item
    }

    /// Makes a chain dense again that has one free slot: the last item goes there, and the last block becomes
    /// one slot shorter.
    fn fill_gap(&mut self, head: Block<T>, gap: Position<T>) {
        let mut before = head;
        let Some(mut last) = head.overflow() else { return };
        while let Some(next) = last.overflow() {
            (before, last) = (last, next);
        }
        let end = last.capacity() - 1;
        if last.tags()[end] == 0 {
            // The gap is the end itself.
        } else if gap.block.0 == last.0 {
            let (tag, item) = last.take(end);
            last.put(gap.slot, tag, item);
        } else {
            let (tag, item) = last.take(end);
            gap.block.put(gap.slot, tag, item);
        }
        self.overflow_bytes -= ITEM_BYTES;
        if end > 1 {
            before.set_overflow(last.resize(end));
            return;
        }
        // The one item that is left fits where the pointer was.
        let (tag, item) = last.take(0);
        self.overflow_bytes -= Block::<T>::block_bytes(end);
        last.release();
        before.clear_overflow();
        before.put(before.capacity() - 1, tag, item);
    }

    /// Visits a part of the table and returns the cursor of the next part; 0 starts, and 0 returned ends an
    /// iteration.
    pub fn scan(&self, cursor: u64, mut visit: impl FnMut(&T)) -> u64 {
        // SAFETY: the items are this table's, which is borrowed.
        self.scan_slots(cursor, &mut |item| visit(unsafe { &*item }))
    }

    fn scan_slots(&self, cursor: u64, visit: &mut impl FnMut(*mut T)) -> u64 {
        if self.bucket_count == 0 {
            return 0;
        }
        let index = (cursor & (self.level_size as u64 - 1)) as usize;
        self.visit_slots(index, visit);
        if index + self.level_size < self.bucket_count {
            self.visit_slots(index + self.level_size, visit);
        }
        self.after(cursor)
    }

    /// The cursor that follows in a scan.
    #[inline]
    fn after(&self, cursor: u64) -> u64 {
        let mask = self.level_size as u64 - 1;
        (cursor | !mask).reverse_bits().wrapping_add(1).reverse_bits()
    }

    /// Whether the next step of a scan that is at this cursor visits items again: the table has shrunk since.
    pub fn revisits(&self, cursor: u64) -> bool {
        cursor >= self.level_size as u64
    }

    /// Prepares for a scan that is at this cursor: has `fetch` called with the items that its next step
    /// visits, and fetches the buckets of the step after that.
    pub fn scan_ahead(&self, cursor: u64, mut fetch: impl FnMut(&T)) {
        if self.bucket_count == 0 {
            return;
        }
        let next = self.after(cursor);
        let mask = self.level_size as u64 - 1;
        let of = |cursor: u64| {
            let index = (cursor & mask) as usize;
            [index, index + self.level_size].into_iter().filter(|&index| index < self.bucket_count)
        };
        for index in of(next) {
            // SAFETY: the items are this table's, which is borrowed.
            self.visit_slots(index, &mut |item| fetch(unsafe { &*item }));
        }
        of(self.after(next)).for_each(|index| prefetch(self.bucket(index).0.as_ptr()));
    }

    /// A scan whose visitor may change the items; their hashes must stay.
    pub fn scan_items(&mut self, cursor: u64, mut visit: impl FnMut(&mut T)) -> u64 {
        // SAFETY: the items are this table's, which is borrowed exclusively; each is visited on its own.
        self.scan_slots(cursor, &mut |item| visit(unsafe { &mut *item }))
    }

    /// The same, with the items to change; their hashes must stay. Overflow blocks in sparsely used memory
    /// move (see [`slab::begin_compaction`]).
    pub fn scan_mut(&mut self, cursor: u64, visit: impl FnMut(&mut T)) -> u64 {
        let mask = (self.level_size as u64).wrapping_sub(1);
        let index = (cursor & mask) as usize;
        for index in [index, index + self.level_size] {
            if index < self.bucket_count {
                self.relocate_overflow(index);
            }
        }
        self.scan_items(cursor, visit)
    }

    fn relocate_overflow(&mut self, index: usize) {
        let mut before = self.bucket(index);
        while let Some(mut block) = before.overflow() {
            // SAFETY: an overflow block comes from the slabs with this size; its one pointer is replaced.
            if let Some(moved) = unsafe { slab::relocate(block.0, Block::<T>::block_bytes(block.capacity())) }
            {
                block = Block(moved, PhantomData);
                before.set_overflow(block);
            }
            before = block;
        }
    }

    /// All items, in no particular order.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { table: self, index: 0, block: None, slot: 0, left: self.len }
    }

    /// An item picked with equal probability (but for chains beyond 32 items, which do not arise with a sound
    /// hash). In a table that was reserved for many more items than it has, items in sparse parts are picked
    /// more often. `random` returns uniform 64-bit numbers.
    pub fn random(&self, mut random: impl FnMut() -> u64) -> Option<&T> {
        const CHAIN_MAX: usize = 32;
        /// With [`FILL_MIN`] items in a bucket one draw in eleven finds one: all fail once in 10^11 times.
        const DRAWS_MAX: usize = 256;
        if self.len == 0 {
            return None;
        }
        for _ in 0..DRAWS_MAX {
            // The high bits choose the bucket, the low ones a slot of its chain.
            let number = random();
            let mut wanted = number as usize % CHAIN_MAX;
            let index = ((u128::from(number) * self.bucket_count as u128) >> 64) as usize;
            let mut at = Some(self.bucket(index));
            while let Some(block) = at.filter(|block| block.slot_count() <= wanted) {
                wanted -= block.slot_count();
                at = block.overflow();
            }
            if let Some(block) = at.filter(|block| block.tags()[wanted] != 0) {
                // SAFETY: a non-zero tag marks an initialised slot, which `self` keeps borrowed.
                return Some(unsafe { &*block.slot(wanted) });
            }
        }
        self.random_of_next_chain(random())
    }

    /// An item of the first chain with items from a bucket on that `number` chooses, as it does the item.
    #[cold]
    fn random_of_next_chain(&self, number: u64) -> Option<&T> {
        let first = sample::below(number, self.bucket_count);
        let mut items: SmallVec<[*mut T; 16]> = SmallVec::new();
        for index in (first..self.bucket_count).chain(0..first) {
            self.visit_slots(index, &mut |item| items.push(item));
            if !items.is_empty() {
                break;
            }
        }
        let item = *items.get((number % items.len().max(1) as u64) as usize)?;
        // SAFETY: the item is this table's, which is borrowed.
        Some(unsafe { &*item })
    }

    /// Asks the processor to fetch the bucket of a hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if self.bucket_count != 0 {
            prefetch(self.bucket(self.index(hash)).0.as_ptr());
        }
    }

    /// The first item in the hash's bucket whose fingerprint fits: very likely the one a later `get` returns.
    /// For prefetching.
    #[inline]
    pub fn candidate(&self, hash: u64) -> Option<&T> {
        if self.bucket_count == 0 {
            return None;
        }
        let bucket = self.bucket(self.index(hash));
        let tags = bucket.tags();
        let found = matches(tags, fingerprint(hash));
        if found == 0 {
            return None;
        }
        let slot = found.trailing_zeros() as usize / 8;
        // SAFETY: a non-zero tag marks an initialised slot.
        (tags[slot] != 0).then(|| unsafe { &*bucket.slot(slot) })
    }

    #[inline]
    fn index(&self, hash: u64) -> usize {
        let low = hash as usize & (2 * self.level_size - 1);
        if low < self.bucket_count { low } else { low - self.level_size }
    }

    #[inline]
    fn bucket(&self, index: usize) -> Block<T> {
        debug_assert!(index < self.bucket_count);
        let offset = index % SEGMENT_BUCKETS * BUCKET_BYTES;
        // SAFETY: buckets below `bucket_count` lie in allocated segments.
        Block(unsafe { self.segments[index / SEGMENT_BUCKETS].add(offset) }, PhantomData)
    }

    #[inline]
    fn find(&self, hash: u64, mut equal: impl FnMut(&T) -> bool) -> Option<Position<T>> {
        if self.bucket_count == 0 {
            return None;
        }
        let tag = fingerprint(hash);
        let mut block = self.bucket(self.index(hash));
        loop {
            let tags = block.tags();
            let mut found = matches(tags, tag);
            while found != 0 {
                let slot = found.trailing_zeros() as usize / 8;
                // SAFETY: a tag equal to a fingerprint is not zero, so the slot holds an item.
                if tags[slot] == tag && equal(unsafe { &*block.slot(slot) }) {
                    return Some(Position { block, slot });
                }
                found &= found - 1;
            }
            block = block.overflow()?;
        }
    }

    /// Stores an item in the chain of a bucket.
    fn place(&mut self, head: Block<T>, tag: u8, item: T) -> Position<T> {
        if let Some(slot) = head.free_slot() {
            head.put(slot, tag, item);
            return Position { block: head, slot };
        }
        self.place_in_overflow(head, tag, item)
    }

    #[cold]
    fn place_in_overflow(&mut self, head: Block<T>, tag: u8, item: T) -> Position<T> {
        let (mut before, mut last) = (None, head);
        while let Some(next) = last.overflow() {
            (before, last) = (Some(last), next);
        }
        let capacity = last.capacity();
        if let Some(before) = before
            && capacity < SLOTS
        {
            let block = last.resize(capacity + 1);
            self.overflow_bytes += ITEM_BYTES;
            before.set_overflow(block);
            block.put(capacity, tag, item);
            return Position { block, slot: capacity };
        }
        let block = Block::allocate(2);
        self.overflow_bytes += Block::<T>::block_bytes(2);
        let (other_tag, other) = last.take(capacity - 1);
        block.put(0, other_tag, other);
        block.put(1, tag, item);
        last.set_overflow(block);
        Position { block, slot: 1 }
    }

    /// Takes all items out of the chain of a bucket, which is vacant then.
    fn take_chain(&mut self, head: Block<T>) -> SmallVec<[(u8, T); 16]> {
        let mut items = SmallVec::new();
        let mut at = Some(head);
        while let Some(block) = at {
            for slot in 0..block.slot_count() {
                if block.tags()[slot] != 0 {
                    items.push(block.take(slot));
                }
            }
            at = block.overflow();
            if block.0 != head.0 {
                self.overflow_bytes -= Block::<T>::block_bytes(block.capacity());
                block.release();
            }
        }
        head.clear_overflow();
        items
    }

    /// Adds one bucket and splits the next one.
    #[cold]
    fn grow(&mut self, hash_of: &impl Fn(&T) -> u64) {
        self.reserve_bucket();
        if self.bucket_count == 0 {
            self.bucket_count = 1;
            self.level_size = 1;
            return;
        }
        let from = self.bucket_count - self.level_size;
        self.bucket_count += 1;
        let (source, target) = (self.bucket(from), self.bucket(self.bucket_count - 1));
        let level_size = self.level_size;
        if self.bucket_count == 2 * level_size {
            self.level_size *= 2;
        }
        for (tag, item) in self.take_chain(source) {
            let home = if hash_of(&item) as usize & level_size == 0 { source } else { target };
            self.place(home, tag, item);
        }
    }

    /// Takes the last bucket away, its items going to the bucket that it was split from.
    #[cold]
    fn shrink(&mut self, _hash_of: &impl Fn(&T) -> u64) {
        if self.bucket_count == self.level_size {
            self.level_size /= 2;
        }
        let last = self.bucket(self.bucket_count - 1);
        let target = self.bucket(self.bucket_count - 1 - self.level_size);
        for (tag, item) in self.take_chain(last) {
            self.place(target, tag, item);
        }
        self.bucket_count -= 1;
        self.release_spare_segments();
    }

    /// Reserves one more bucket.
    fn reserve_bucket(&mut self) {
        let wanted = self.bucket_count;
        if wanted < SEGMENT_BUCKETS {
            if wanted < self.first_capacity {
                return;
            }
            // By as little as the allocator's sizes allow: most shards of a small keyspace have no second
            // segment.
            let bytes = allocator::class_size((self.first_capacity + 1) * BUCKET_BYTES);
            let capacity = (bytes / BUCKET_BYTES).min(SEGMENT_BUCKETS);
            let first = Self::allocate(capacity);
            if let Some(&old) = self.segments.first() {
                // SAFETY: the new segment is longer than the old one, whose buckets move there; then nothing
                // is left in it.
                unsafe {
                    let bytes = self.first_capacity * BUCKET_BYTES;
                    std::ptr::copy_nonoverlapping(old.as_ptr(), first.as_ptr(), bytes);
                    Self::release(old, self.first_capacity);
                }
            }
            self.segments.clear();
            self.segments.push(first);
            self.first_capacity = capacity;
        } else if wanted / SEGMENT_BUCKETS >= self.segments.len() {
            self.segments.push(Self::allocate(SEGMENT_BUCKETS));
        }
    }

    /// Frees segments that no bucket uses any more, but for one in reserve, so that a table at a border does
    /// not thrash.
    fn release_spare_segments(&mut self) {
        let needed = self.bucket_count.div_ceil(SEGMENT_BUCKETS) + 1;
        while self.segments.len() > needed.max(1) {
            if let Some(segment) = self.segments.pop() {
                // SAFETY: segments after the first have `SEGMENT_BUCKETS` vacant buckets here.
                unsafe { Self::release(segment, SEGMENT_BUCKETS) };
            }
        }
        if self.segments.capacity() > 64 && self.segments.len() < self.segments.capacity() / 4 {
            self.segments.shrink_to(self.segments.len() * 2);
        }
    }

    /// Makes the first segment no longer than its buckets need, and frees all others that have none.
    fn fit_first_segment(&mut self) {
        let bytes = allocator::class_size(self.bucket_count.max(1) * BUCKET_BYTES);
        let capacity = bytes / BUCKET_BYTES;
        let Some(&old) = self.segments.first() else { return };
        if capacity >= self.first_capacity {
            return;
        }
        for segment in self.segments.drain(1..) {
            // SAFETY: all buckets are in the first segment, so this one is vacant; it has this length.
            unsafe { Self::release(segment, SEGMENT_BUCKETS) };
        }
        let first = Self::allocate(capacity);
        // SAFETY: the new segment has all buckets, which move there; then nothing is left in the old one.
        unsafe {
            let bytes = self.bucket_count * BUCKET_BYTES;
            std::ptr::copy_nonoverlapping(old.as_ptr(), first.as_ptr(), bytes);
            Self::release(old, self.first_capacity);
        }
        self.segments = vec![first];
        self.first_capacity = capacity;
    }

    fn visit_slots(&self, index: usize, visit: &mut impl FnMut(*mut T)) {
        let mut at = Some(self.bucket(index));
        while let Some(block) = at {
            let tags = block.tags();
            for (slot, &tag) in tags[..block.slot_count()].iter().enumerate() {
                if tag != 0 {
                    visit(block.slot(slot));
                }
            }
            at = block.overflow();
        }
    }

    fn layout(buckets: usize) -> Layout {
        Layout::from_size_align(buckets * BUCKET_BYTES, BUCKET_BYTES).expect("segments are at most one page")
    }

    /// Vacant buckets.
    fn allocate(buckets: usize) -> NonNull<u8> {
        if buckets == SEGMENT_BUCKETS {
            let page = slab::alloc_page();
            // SAFETY: the page is ours; zero bytes are vacant buckets.
            unsafe { page.as_ptr().write_bytes(0, slab::PAGE_BYTES) };
            return page;
        }
        let layout = Self::layout(buckets);
        // SAFETY: the layout is not empty; zero bytes are vacant buckets.
        let memory = unsafe { alloc_zeroed(layout) };
        NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// # Safety
    /// `buckets` were allocated together by `allocate` and hold nothing any more.
    unsafe fn release(memory: NonNull<u8>, buckets: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if buckets == SEGMENT_BUCKETS {
                slab::dealloc_page(memory);
            } else {
                dealloc(memory.as_ptr(), Self::layout(buckets));
            }
        }
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        for index in 0..self.bucket_count {
            drop(self.take_chain(self.bucket(index)));
        }
        for (number, &segment) in self.segments.iter().enumerate() {
            let buckets = if number == 0 { self.first_capacity } else { SEGMENT_BUCKETS };
            // SAFETY: allocated with this number of buckets, all of them emptied above.
            unsafe { Self::release(segment, buckets) };
        }
    }
}

/// Iterates over all items of a table. See [`Table::iter`].
pub struct Iter<'a, T> {
    table: &'a Table<T>,
    index: usize,
    block: Option<Block<T>>,
    slot: usize,
    left: usize,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        if self.left == 0 {
            return None;
        }
        loop {
            let block = match self.block {
                Some(block) => block,
                None => {
                    let head = self.table.bucket(self.index);
                    self.index += 1;
                    self.slot = 0;
                    self.block = Some(head);
                    head
                }
            };
            while self.slot < block.slot_count() {
                let slot = self.slot;
                self.slot += 1;
                if block.tags()[slot] != 0 {
                    self.left -= 1;
                    // SAFETY: a non-zero tag marks an initialised slot, and the table is borrowed for as long
                    // as the iterator and its items live.
                    return Some(unsafe { &*block.slot(slot) });
                }
            }
            self.slot = 0;
            self.block = block.overflow();
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}
