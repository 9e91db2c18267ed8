//! A hash table of eight-byte items that grows and shrinks one bucket at a time (linear hashing).
//!
//! A bucket is one cache line: seven one-byte fingerprints, one byte that says whether the bucket overflows,
//! and seven items. A lookup reads the bucket of its hash, compares fingerprints seven at a time, and follows
//! the overflow chain only where there is one. Growth splits the next bucket in turn, so there is neither a
//! pause nor a moment with two tables: memory follows the number of items at every size.
//!
//! Bytes per item: 64 / [`FILL_MAX`] = 12.8, plus overflow buckets (about one in eight just before a level is
//! complete).
//!
//! # Invariants
//!
//! - `bucket_count == level_size + split` with `0 <= split < level_size`, `level_size` a power of two (or no
//!   bucket at all).
//! - An item with hash `h` lies in the chain of bucket `h mod 2*level_size` if that is `< bucket_count`, else
//!   of bucket `h mod level_size`.
//! - A fingerprint of zero marks a free slot; no item's fingerprint is zero.
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

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error, realloc};
use std::marker::PhantomData;
use std::mem::{MaybeUninit, size_of};
use std::ptr::NonNull;

/// Items in one bucket.
const SLOTS: usize = 7;
/// Mean number of items per bucket above which the table grows.
pub const FILL_MAX: usize = 5;
/// Mean number of items per bucket below which the table shrinks.
const FILL_MIN: usize = 2;
/// Buckets that are allocated together once a table is large: one page.
const SEGMENT_BUCKETS: usize = 64;
/// The byte of `Bucket::tags` that holds the overflow mark.
const MARK: usize = 7;

/// One cache line:
///
/// ```text
/// byte 0..7   fingerprints of the items (0: free)
/// byte 7      1 if the last slot holds a pointer to an overflow bucket
/// byte 8..64  seven items of eight bytes
/// ```
#[repr(C, align(64))]
struct Bucket<T> {
    tags: [u8; 8],
    slots: [MaybeUninit<T>; SLOTS],
}

const _: () = assert!(size_of::<Bucket<u64>>() == 64);

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

impl<T> Bucket<T> {
    #[inline]
    fn overflow(&self) -> Option<NonNull<Bucket<T>>> {
        if self.tags[MARK] == 0 {
            return None;
        }
        // SAFETY: the mark says that the last slot holds a live pointer to an overflow bucket.
        unsafe { Some(self.slots[SLOTS - 1].as_ptr().cast::<NonNull<Bucket<T>>>().read()) }
    }

    #[inline]
    fn slot_count(&self) -> usize {
        SLOTS - usize::from(self.tags[MARK] != 0)
    }

    fn free_slot(&self) -> Option<usize> {
        self.tags[..self.slot_count()].iter().position(|&tag| tag == 0)
    }

    fn is_vacant(&self) -> bool {
        self.tags == [0; 8]
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
#[derive(Clone, Copy)]
struct Position<T> {
    bucket: NonNull<Bucket<T>>,
    slot: usize,
}

/// See the module's description. `T` must be eight bytes with an alignment of at most eight.
pub struct Table<T> {
    segments: Vec<NonNull<Bucket<T>>>,
    /// Buckets that the first segment has room for: a power of two up to `SEGMENT_BUCKETS`.
    first_capacity: usize,
    bucket_count: usize,
    level_size: usize,
    len: usize,
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
    const ITEM_FITS: () = assert!(size_of::<T>() == 8 && align_of::<T>() <= 8);

    /// An empty table. Allocates nothing.
    pub const fn new() -> Self {
        let () = Self::ITEM_FITS;
        Table {
            segments: Vec::new(),
            first_capacity: 0,
            bucket_count: 0,
            level_size: 0,
            len: 0,
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

    /// Bytes that the table itself takes, without what its items point to and without overflow buckets.
    pub fn memory_usage(&self) -> usize {
        let buckets = self.segments.len().saturating_sub(1) * SEGMENT_BUCKETS + self.first_capacity;
        buckets * size_of::<Bucket<T>>() + self.segments.capacity() * size_of::<usize>()
    }

    /// The item with this hash for which `equal` holds.
    #[inline]
    pub fn get(&self, hash: u64, equal: impl FnMut(&T) -> bool) -> Option<&T> {
        let at = self.find(hash, equal)?;
        // SAFETY: `find` returns occupied slots, and the borrow of `self` keeps the table unchanged.
        unsafe { Some(at.bucket.as_ref().slots[at.slot].assume_init_ref()) }
    }

    /// The item with this hash for which `equal` holds, to change. Its hash must stay the same.
    #[inline]
    pub fn get_mut(&mut self, hash: u64, equal: impl FnMut(&T) -> bool) -> Option<&mut T> {
        let mut at = self.find(hash, equal)?;
        // SAFETY: as in `get`, and the borrow is exclusive.
        unsafe { Some(at.bucket.as_mut().slots[at.slot].assume_init_mut()) }
    }

    /// Adds an item that is not there yet. `hash_of` gives the hash of any item; it is asked when buckets are
    /// split.
    pub fn insert(&mut self, hash: u64, item: T, hash_of: impl Fn(&T) -> u64) -> &mut T {
        if self.bucket_count == 0 || self.len >= self.bucket_count * FILL_MAX {
            self.grow(&hash_of);
        }
        self.len += 1;
        let head = self.bucket(self.index(hash));
        // SAFETY: `head` is a live bucket of this table, which is borrowed exclusively.
        unsafe {
            let mut at = Self::place(head, fingerprint(hash), item);
            at.bucket.as_mut().slots[at.slot].assume_init_mut()
        }
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
            Some(mut at) => unsafe { (at.bucket.as_mut().slots[at.slot].assume_init_mut(), false) },
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
        let Some(mut at) = self.find(hash, equal) else { return Found::Missing };
        // SAFETY: `find` returns occupied slots, and the borrow of `self` is exclusive.
        if unwanted(unsafe { at.bucket.as_ref().slots[at.slot].assume_init_ref() }) {
            return Found::Taken(self.take_at(at, hash, hash_of));
        }
        // SAFETY: as above.
        Found::Kept(unsafe { at.bucket.as_mut().slots[at.slot].assume_init_mut() })
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
    fn take_at(&mut self, mut at: Position<T>, hash: u64, hash_of: impl Fn(&T) -> u64) -> T {
        // SAFETY: `find` returns occupied slots; the tag is cleared, so the item is moved out exactly once.
        let item = unsafe {
            let bucket = at.bucket.as_mut();
            bucket.tags[at.slot] = 0;
            bucket.slots[at.slot].assume_init_read()
        };
        self.len -= 1;
        let head = self.bucket(self.index(hash));
        // SAFETY: `head` is a live bucket of this table.
        unsafe { Self::trim_chain(head) };
        if self.bucket_count > 1 && self.len < self.bucket_count * FILL_MIN {
            self.shrink(&hash_of);
        }
        item
    }

    /// Visits a part of the table and returns the cursor of the next part; 0 starts, and 0 returned ends an
    /// iteration.
    pub fn scan(&self, cursor: u64, mut visit: impl FnMut(&T)) -> u64 {
        if self.bucket_count == 0 {
            return 0;
        }
        let mask = self.level_size as u64 - 1;
        let index = (cursor & mask) as usize;
        self.visit_chain(index, &mut visit);
        if index + self.level_size < self.bucket_count {
            self.visit_chain(index + self.level_size, &mut visit);
        }
        (cursor | !mask).reverse_bits().wrapping_add(1).reverse_bits()
    }

    /// All items, in no particular order.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { table: self, index: 0, bucket: None, slot: 0, left: self.len }
    }

    /// An item picked with equal probability (but for chains beyond 32 items, which do not arise with a sound
    /// hash).
    /// `random` returns uniform 64-bit numbers.
    pub fn random(&self, mut random: impl FnMut() -> u64) -> Option<&T> {
        const CHAIN_MAX: u64 = 32;
        if self.len == 0 {
            return None;
        }
        loop {
            let number = random();
            let index = ((u128::from(number) * self.bucket_count as u128) >> 64) as usize;
            let mut wanted = random() % CHAIN_MAX.min(4 * self.len as u64);
            let mut found = None;
            self.visit_slots(index, &mut |item| {
                if wanted == 0 && found.is_none() {
                    found = Some(item);
                }
                wanted = wanted.wrapping_sub(1);
            });
            if let Some(item) = found {
                // SAFETY: the pointer comes from a slot of this table, which `self` keeps borrowed.
                return Some(unsafe { &*item });
            }
        }
    }

    /// Asks the processor to fetch the bucket of a hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if self.bucket_count != 0 {
            prefetch(self.bucket(self.index(hash)).as_ptr().cast());
        }
    }

    /// The first item in the hash's bucket whose fingerprint fits: very likely the one a later `get` returns.
    /// For prefetching.
    #[inline]
    pub fn candidate(&self, hash: u64) -> Option<&T> {
        if self.bucket_count == 0 {
            return None;
        }
        // SAFETY: a live bucket; a non-zero tag marks an initialised slot.
        unsafe {
            let bucket = self.bucket(self.index(hash)).as_ref();
            let found = matches(bucket.tags, fingerprint(hash));
            if found == 0 {
                return None;
            }
            let slot = found.trailing_zeros() as usize / 8;
            (bucket.tags[slot] != 0).then(|| bucket.slots[slot].assume_init_ref())
        }
    }

    #[inline]
    fn index(&self, hash: u64) -> usize {
        let low = hash as usize & (2 * self.level_size - 1);
        if low < self.bucket_count { low } else { low - self.level_size }
    }

    #[inline]
    fn bucket(&self, index: usize) -> NonNull<Bucket<T>> {
        debug_assert!(index < self.bucket_count);
        // SAFETY: buckets below `bucket_count` lie in allocated segments.
        unsafe { self.segments[index / SEGMENT_BUCKETS].add(index % SEGMENT_BUCKETS) }
    }

    #[inline]
    fn find(&self, hash: u64, mut equal: impl FnMut(&T) -> bool) -> Option<Position<T>> {
        if self.bucket_count == 0 {
            return None;
        }
        let tag = fingerprint(hash);
        let mut at = self.bucket(self.index(hash));
        loop {
            // SAFETY: `at` is a live bucket of this table.
            let bucket = unsafe { at.as_ref() };
            let mut found = matches(bucket.tags, tag);
            while found != 0 {
                let slot = found.trailing_zeros() as usize / 8;
                // SAFETY: a tag equal to a fingerprint is not zero, so the slot holds an item.
                if bucket.tags[slot] == tag && equal(unsafe { bucket.slots[slot].assume_init_ref() }) {
                    return Some(Position { bucket: at, slot });
                }
                found &= found - 1;
            }
            at = bucket.overflow()?;
        }
    }

    /// Stores an item in the chain that starts at `at`.
    ///
    /// # Safety
    /// `at` is a live bucket that nobody else refers to.
    unsafe fn place(mut at: NonNull<Bucket<T>>, tag: u8, item: T) -> Position<T> {
        loop {
            // SAFETY: the caller's promise, and overflow pointers lead to live buckets of the same chain.
            let bucket = unsafe { at.as_mut() };
            if let Some(slot) = bucket.free_slot() {
                bucket.tags[slot] = tag;
                bucket.slots[slot].write(item);
                return Position { bucket: at, slot };
            }
            match bucket.overflow() {
                Some(next) => at = next,
                None => {
                    let mut next = Self::allocate(1);
                    // SAFETY: the new bucket is zeroed and ours; the last item moves there with its tag.
                    unsafe {
                        let fresh = next.as_mut();
                        fresh.tags[0] = bucket.tags[SLOTS - 1];
                        fresh.slots[0].write(bucket.slots[SLOTS - 1].assume_init_read());
                        bucket.tags[SLOTS - 1] = 0;
                        bucket.tags[MARK] = 1;
                        bucket.slots[SLOTS - 1].as_mut_ptr().cast::<NonNull<Bucket<T>>>().write(next);
                    }
                    at = next;
                }
            }
        }
    }

    /// Frees vacant overflow buckets at the end of a chain.
    ///
    /// # Safety
    /// `head` is a live bucket that nobody else refers to.
    unsafe fn trim_chain(head: NonNull<Bucket<T>>) {
        let mut at = head;
        // SAFETY: overflow pointers lead to live buckets; a freed one is unlinked first.
        unsafe {
            while let Some(next) = at.as_ref().overflow() {
                match next.as_ref().overflow() {
                    None if next.as_ref().is_vacant() => {
                        at.as_mut().tags[MARK] = 0;
                        Self::release(next, 1);
                    }
                    None => return,
                    Some(after) if next.as_ref().tags[..SLOTS] == [0; SLOTS] => {
                        at.as_mut().slots[SLOTS - 1].as_mut_ptr().cast::<NonNull<Bucket<T>>>().write(after);
                        Self::release(next, 1);
                    }
                    Some(_) => at = next,
                }
            }
        }
    }

    /// Adds one bucket and splits the one whose turn it is.
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
        // SAFETY: two distinct live buckets of a table that is borrowed exclusively.
        unsafe {
            let mut at = Some(source);
            while let Some(mut current) = at {
                let bucket = current.as_mut();
                for slot in 0..bucket.slot_count() {
                    let tag = bucket.tags[slot];
                    if tag != 0 && hash_of(bucket.slots[slot].assume_init_ref()) as usize & level_size != 0 {
                        bucket.tags[slot] = 0;
                        Self::place(target, tag, bucket.slots[slot].assume_init_read());
                    }
                }
                at = bucket.overflow();
            }
            Self::compact_chain(source);
        }
    }

    /// Moves the items of overflow buckets into free slots of the buckets before them.
    ///
    /// # Safety
    /// `head` is a live bucket that nobody else refers to.
    unsafe fn compact_chain(head: NonNull<Bucket<T>>) {
        // SAFETY: the caller's promise; each item moves exactly once, its old tag cleared before.
        unsafe {
            let mut at = head.as_ref().overflow();
            while let Some(mut current) = at {
                let bucket = current.as_mut();
                for slot in 0..bucket.slot_count() {
                    let tag = std::mem::take(&mut bucket.tags[slot]);
                    if tag != 0 {
                        let item = bucket.slots[slot].assume_init_read();
                        Self::place(head, tag, item);
                    }
                }
                at = bucket.overflow();
            }
            Self::trim_chain(head);
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
        // SAFETY: two distinct live buckets; every item and overflow bucket of the last one is moved or
        // freed.
        unsafe {
            let mut at = Some(last);
            while let Some(mut current) = at {
                let bucket = current.as_mut();
                for slot in 0..bucket.slot_count() {
                    let tag = std::mem::take(&mut bucket.tags[slot]);
                    if tag != 0 {
                        Self::place(target, tag, bucket.slots[slot].assume_init_read());
                    }
                }
                at = bucket.overflow();
            }
            Self::trim_chain(last);
        }
        self.bucket_count -= 1;
        self.release_spare_segments();
    }

    /// Makes room for one more bucket.
    fn reserve_bucket(&mut self) {
        let wanted = self.bucket_count;
        if wanted < SEGMENT_BUCKETS {
            if wanted < self.first_capacity {
                return;
            }
            let capacity = (self.first_capacity * 2).max(1);
            let first = match self.segments.first() {
                None => Self::allocate(capacity),
                Some(&old) => {
                    let layout = Self::layout(self.first_capacity);
                    let size = capacity * size_of::<Bucket<T>>();
                    // SAFETY: `old` was allocated with `layout`; the new half is zeroed below before it is
                    // used.
                    unsafe {
                        let grown = realloc(old.as_ptr().cast(), layout, size).cast::<Bucket<T>>();
                        let grown =
                            NonNull::new(grown).unwrap_or_else(|| handle_alloc_error(Self::layout(capacity)));
                        grown.add(self.first_capacity).write_bytes(0, capacity - self.first_capacity);
                        grown
                    }
                }
            };
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

    fn visit_chain(&self, index: usize, visit: &mut impl FnMut(&T)) {
        // SAFETY: the pointers come from slots of this table, which `self` keeps borrowed.
        self.visit_slots(index, &mut |item| visit(unsafe { &*item }));
    }

    fn visit_slots(&self, index: usize, visit: &mut impl FnMut(*const T)) {
        let mut at = Some(self.bucket(index));
        while let Some(current) = at {
            // SAFETY: a live bucket; only slots with a tag are initialised and visited.
            let bucket = unsafe { current.as_ref() };
            for slot in 0..bucket.slot_count() {
                if bucket.tags[slot] != 0 {
                    visit(bucket.slots[slot].as_ptr());
                }
            }
            at = bucket.overflow();
        }
    }

    fn layout(buckets: usize) -> Layout {
        Layout::array::<Bucket<T>>(buckets).expect("segments are at most one page")
    }

    fn allocate(buckets: usize) -> NonNull<Bucket<T>> {
        let layout = Self::layout(buckets);
        // SAFETY: the layout is not empty; zero bytes are a vacant bucket.
        let memory = unsafe { alloc_zeroed(layout) }.cast();
        NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// # Safety
    /// `buckets` were allocated together by `allocate` (or grown to that number) and hold nothing any more.
    unsafe fn release(memory: NonNull<Bucket<T>>, buckets: usize) {
        // SAFETY: the caller's promise.
        unsafe { dealloc(memory.as_ptr().cast(), Self::layout(buckets)) };
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        for index in 0..self.bucket_count {
            let head = self.bucket(index);
            let mut at = Some(head);
            while let Some(mut current) = at {
                // SAFETY: every bucket is visited once; items are dropped once, overflow buckets freed after
                // use.
                unsafe {
                    let bucket = current.as_mut();
                    at = bucket.overflow();
                    for slot in 0..bucket.slot_count() {
                        if bucket.tags[slot] != 0 {
                            bucket.slots[slot].assume_init_drop();
                        }
                    }
                    if current != head {
                        Self::release(current, 1);
                    }
                }
            }
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
    bucket: Option<NonNull<Bucket<T>>>,
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
            let current = match self.bucket {
                Some(current) => current,
                None => {
                    let head = self.table.bucket(self.index);
                    self.index += 1;
                    self.slot = 0;
                    self.bucket = Some(head);
                    head
                }
            };
            // SAFETY: the table is borrowed for as long as the iterator and its items live.
            let bucket = unsafe { current.as_ref() };
            while self.slot < bucket.slot_count() {
                let slot = self.slot;
                self.slot += 1;
                if bucket.tags[slot] != 0 {
                    self.left -= 1;
                    // SAFETY: a non-zero tag marks an initialised slot.
                    return Some(unsafe { bucket.slots[slot].assume_init_ref() });
                }
            }
            self.slot = 0;
            self.bucket = bucket.overflow();
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}

/// Asks the processor to bring a cache line near. Any address is fine; nothing is read.
#[inline]
pub fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect on memory and cannot fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn hash_of(item: &u64) -> u64 {
        item.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (item.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 29)
    }

    fn random_numbers(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed;
        move || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^ (mixed >> 31)
        }
    }

    fn insert(table: &mut Table<u64>, item: u64) {
        table.insert(hash_of(&item), item, hash_of);
    }

    fn remove(table: &mut Table<u64>, item: u64) -> Option<u64> {
        table.remove(hash_of(&item), |other| *other == item, hash_of)
    }

    #[test]
    fn behaves_like_a_set_while_growing_and_shrinking() {
        let mut random = random_numbers(7);
        let mut table = Table::new();
        let mut model = HashSet::new();
        for round in 0..200_000_u64 {
            let item = random() % 20_000;
            let one_in_four = random().is_multiple_of(4);
            let inserting = if (round / 40_000) % 2 == 0 { !one_in_four } else { one_in_four };
            if inserting && model.insert(item) {
                insert(&mut table, item);
            } else if !inserting {
                assert_eq!(remove(&mut table, item).is_some(), model.remove(&item), "round {round}");
            }
            assert_eq!(table.len(), model.len());
            assert_eq!(table.get(hash_of(&item), |other| *other == item).is_some(), model.contains(&item));
        }
        assert_eq!(table.iter().copied().collect::<HashSet<_>>(), model);
        for item in model {
            assert_eq!(remove(&mut table, item), Some(item));
        }
        assert!(table.is_empty() && table.bucket_count() == 1);
    }

    #[test]
    fn scan_returns_what_stays_throughout() {
        for seed in 0..40 {
            let mut random = random_numbers(seed);
            let mut table = Table::new();
            let stable = 1 + random() % 2_000;
            (0..stable).for_each(|item| insert(&mut table, item));
            let mut others: Vec<u64> = Vec::new();
            let mut seen = HashSet::new();
            let mut cursor = 0;
            let mut growing = true;
            loop {
                cursor = table.scan(cursor, |item| {
                    seen.insert(*item);
                });
                if cursor == 0 {
                    break;
                }
                if random().is_multiple_of(64) {
                    growing = !growing;
                }
                for _ in 0..random() % 200 {
                    if growing {
                        let item = random() | 1 << 63;
                        insert(&mut table, item);
                        others.push(item);
                    } else if let Some(item) = others.pop() {
                        remove(&mut table, item);
                    }
                }
                if others.len() > 40_000 {
                    growing = false;
                }
            }
            assert!((0..stable).all(|item| seen.contains(&item)), "seed {seed}");
        }
    }

    #[test]
    fn random_picks_reach_every_item() {
        let mut table = Table::new();
        (0..100).for_each(|item| insert(&mut table, item));
        let mut random = random_numbers(3);
        let mut counts = [0_u32; 100];
        for _ in 0..100_000 {
            counts[*table.random(&mut random).expect("not empty") as usize] += 1;
        }
        assert!(counts.iter().all(|&count| (700..1300).contains(&count)), "{counts:?}");
    }
}
