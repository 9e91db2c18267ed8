//! A copy-on-write vector: a tree of chunks that clones share.
//!
//! ```text
//! root (height 2)        | chunk | chunk |                         up to 64 children each
//! height 1        | chunk | ... | chunk |  | chunk |
//! height 0     | 64 items | ... | 64 items |  | 1 to 64 items |
//!
//! chunk: | references (u32) | capacity (u32) | children or items, back to back |
//! ```
//!
//! A clone costs O(1): it shares the root. A change copies those chunks on the way from the root to the item
//! that are shared, 64 children at most each; where nothing is shared it costs one load for each chunk.
//! Reading costs one step for each factor of 64. Growth moves the items of one chunk at most.
//!
//! # Invariants
//!
//! - Item `i` lies under child `i / 64^h mod 64` of the chunk at height `h`. The root's height is the
//!   smallest with which `len <= 64^(height + 1)`.
//! - A chunk with several references does not change, and its holders agree on the number of items below it.
//!   So each holder can compute the number of its children from its own length.
//! - A root that holds items has a capacity of a power of two from 4 on; all other chunks have [`WIDTH`].
//!
//! Bytes per item beside its own: 16 / 64, for the header and the place in the chunk above.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::ref_count::RefCount;
use crate::slab;

const WIDTH_BITS: u32 = 6;
/// Children of a chunk.
const WIDTH: usize = 1 << WIDTH_BITS;
const CAPACITY_MIN: usize = 4;

#[repr(C, align(8))]
struct Header {
    references: RefCount,
    capacity: u32,
}

const HEADER_BYTES: usize = 8;
const _: () = assert!(size_of::<Header>() == HEADER_BYTES && align_of::<Header>() == 8);

type Chunk = NonNull<Header>;

/// A vector whose clones share its items until they change. See the [module](self) for costs.
pub struct CowVec<T> {
    root: Option<Chunk>,
    height: u32,
    len: usize,
    items: PhantomData<T>,
}

// SAFETY: the items are owned together with the other holders, who may be on other threads: they are read
// from there, and dropped where the last holder goes.
unsafe impl<T: Send + Sync> Send for CowVec<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for CowVec<T> {}

impl<T> Default for CowVec<T> {
    fn default() -> Self {
        CowVec { root: None, height: 0, len: 0, items: PhantomData }
    }
}

impl<T: fmt::Debug + Clone> fmt::Debug for CowVec<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries((0..self.len).map(|index| self.get(index))).finish()
    }
}

/// Items below one child of a chunk of this height.
#[inline]
fn span(height: u32) -> usize {
    1 << (WIDTH_BITS * height)
}

/// Bytes of a chunk of this height.
fn chunk_size<T>(height: u32, capacity: usize) -> usize {
    let child = if height == 0 { size_of::<T>() } else { size_of::<Chunk>() };
    slab::class_size(HEADER_BYTES + child * capacity)
}

/// The first child or item of a chunk.
///
/// # Safety
/// The chunk is live.
#[inline]
unsafe fn children<C>(chunk: Chunk) -> NonNull<C> {
    // SAFETY: the header is followed by the children within the same allocation.
    unsafe { chunk.add(1).cast() }
}

fn new_chunk<T>(height: u32, capacity: usize) -> Chunk {
    let chunk = slab::alloc(chunk_size::<T>(height, capacity)).cast::<Header>();
    // SAFETY: the allocation is ours, aligned to 8, and large enough for the header. A capacity is at most
    // WIDTH.
    unsafe { chunk.write(Header { references: RefCount::new(), capacity: capacity as u32 }) };
    chunk
}

fn retain(chunk: Chunk) {
    // SAFETY: the caller has a reference to the chunk.
    unsafe { chunk.as_ref().references.retain() };
}

/// Gives up a reference to a chunk with `count` items below it; the last one frees it and its children.
///
/// # Safety
/// The reference is the caller's, who does not use it any more; height and count are right.
unsafe fn release<T>(chunk: Chunk, height: u32, count: usize) {
    // SAFETY: the caller's reference keeps the chunk alive until the count is lowered; after that, the last
    // holder is alone with it.
    unsafe {
        if !chunk.as_ref().references.release() {
            return;
        }
        if height == 0 {
            NonNull::slice_from_raw_parts(children::<T>(chunk), count).drop_in_place();
        } else {
            let span = span(height);
            for child in 0..count.div_ceil(span) {
                let below = span.min(count - child * span);
                release::<T>(children::<Chunk>(chunk).add(child).read(), height - 1, below);
            }
        }
        slab::dealloc(chunk.cast(), chunk_size::<T>(height, chunk.as_ref().capacity as usize));
    }
}

impl<T: Clone> CowVec<T> {
    const ITEM_FITS: () = assert!(align_of::<T>() <= 8 && size_of::<T>() > 0);

    /// An empty vector. Allocates nothing.
    pub fn new() -> Self {
        let () = Self::ITEM_FITS;
        Self::default()
    }

    /// A vector of clones of an item. Costs O(log `len`): equal chunks are shared until they change.
    pub fn filled(len: usize, item: &T) -> Self {
        let mut filled = Self::new();
        if len <= WIDTH {
            (0..len).for_each(|_| filled.push(item.clone()));
            return filled;
        }
        while span(filled.height + 1) < len {
            filled.height += 1;
        }
        // For each height the chunk below which all places are taken.
        let mut full = vec![Self::filled_chunk(0, WIDTH, item, &[])];
        for height in 1..filled.height {
            full.push(Self::filled_chunk(height, span(height + 1), item, &full));
        }
        filled.root = Some(Self::filled_chunk(filled.height, len, item, &full));
        filled.len = len;
        for (height, chunk) in full.into_iter().enumerate() {
            // SAFETY: the reference is this function's own, and as many items are below it.
            unsafe { release::<T>(chunk, height as u32, span(height as u32 + 1)) };
        }
        filled
    }

    /// A chunk with `count` clones of an item below it. `full` are chunks of the heights below, all of whose
    /// places are taken; what it takes of them it gets references to.
    fn filled_chunk(height: u32, count: usize, item: &T, full: &[Chunk]) -> Chunk {
        let chunk = new_chunk::<T>(height, WIDTH);
        if height == 0 {
            for slot in 0..count {
                // SAFETY: the chunk is new and has room for `WIDTH` items, and `count` is not more.
                unsafe { children::<T>(chunk).add(slot).write(item.clone()) };
            }
            return chunk;
        }
        let (whole, rest) = (count / span(height), count % span(height));
        let below = full[height as usize - 1];
        for slot in 0..whole {
            retain(below);
            // SAFETY: the chunk is new and has room for `WIDTH` children; `count` is at most what is below so
            // many.
            unsafe { children::<Chunk>(chunk).add(slot).write(below) };
        }
        if rest > 0 {
            let last = Self::filled_chunk(height - 1, rest, item, full);
            // SAFETY: as above; there is a place after the whole ones, as the count is below what is whole.
            unsafe { children::<Chunk>(chunk).add(whole).write(last) };
        }
        chunk
    }

    /// The number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no item.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// An item; the index must be below the length.
    #[inline]
    pub fn get(&self, index: usize) -> &T {
        assert!(index < self.len, "an index is below the length");
        let Some(mut chunk) = self.root else { unreachable!("a vector that is not empty has a root") };
        let mut height = self.height;
        // SAFETY: below the length all chunks and items on the way are live, and stay so while `self` is
        // borrowed.
        unsafe {
            while height > 0 {
                let slot = (index >> (WIDTH_BITS * height)) % WIDTH;
                chunk = children::<Chunk>(chunk).add(slot).read();
                height -= 1;
            }
            children::<T>(chunk).add(index % WIDTH).as_ref()
        }
    }

    /// All items, if they lie in one chunk; none of an empty vector.
    #[inline]
    pub fn only_chunk(&self) -> Option<&[T]> {
        let root = self.root.filter(|_| self.height == 0)?;
        // SAFETY: a root of height 0 is live and holds all items, which stay as they are while `self` is
        // borrowed.
        unsafe { Some(NonNull::slice_from_raw_parts(children::<T>(root), self.len).as_ref()) }
    }

    /// The same, to change.
    #[inline]
    pub fn only_chunk_mut(&mut self) -> Option<&mut [T]> {
        let (height, len) = (self.height, self.len);
        let root = self.root.as_mut().filter(|_| height == 0)?;
        // SAFETY: as in `only_chunk`; the chunk is made this vector's own first.
        unsafe {
            let chunk = Self::make_own(NonNull::from(root), height, len);
            Some(NonNull::slice_from_raw_parts(children::<T>(chunk), len).as_mut())
        }
    }

    /// Prefetches an item and the reference count of its chunk, which a change reads; the index must be below
    /// the length.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        let item = std::ptr::from_ref(self.get(index));
        crate::prefetch(item.cast());
        crate::prefetch(item.wrapping_sub(index % WIDTH).cast::<u8>().wrapping_sub(HEADER_BYTES));
    }

    /// An item to change; the index must be below the length.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> &mut T {
        assert!(index < self.len, "an index is below the length");
        let (mut height, mut count) = (self.height, self.len);
        let Some(root) = &mut self.root else { unreachable!("a vector that is not empty has a root") };
        let mut link = NonNull::from(root);
        // SAFETY: below the length all chunks on the way are live. Each is made this vector's own before
        // anything below it is changed, so that `link` always lies in memory that nobody else refers to.
        unsafe {
            loop {
                let chunk = Self::make_own(link, height, count);
                let slot = (index >> (WIDTH_BITS * height)) % WIDTH;
                if height == 0 {
                    return children::<T>(chunk).add(slot).as_mut();
                }
                link = children::<Chunk>(chunk).add(slot);
                count = span(height).min(count - slot * span(height));
                height -= 1;
            }
        }
    }

    /// Adds an item at the end.
    pub fn push(&mut self, item: T) {
        if self.root.is_none() {
            self.root = Some(new_chunk::<T>(0, CAPACITY_MIN));
        } else if self.len == span(self.height + 1) {
            let root = new_chunk::<T>(self.height + 1, WIDTH);
            // SAFETY: the new chunk is ours and takes over the reference to the old root.
            unsafe { children::<Option<Chunk>>(root).write(self.root) };
            self.root = Some(root);
            self.height += 1;
        }
        let (mut height, mut count) = (self.height, self.len);
        let Some(root) = &mut self.root else { return };
        let mut link = NonNull::from(root);
        // SAFETY: as in `get_mut`. A child that is missing (its first item is the new one) is made.
        unsafe {
            loop {
                let mut chunk = Self::make_own(link, height, count);
                let slot = count / span(height);
                if height == 0 {
                    if slot == chunk.as_ref().capacity as usize {
                        chunk = Self::widen(chunk, count);
                        link.write(chunk);
                    }
                    children::<T>(chunk).add(slot).write(item);
                    break;
                }
                link = children::<Chunk>(chunk).add(slot);
                count -= slot * span(height);
                height -= 1;
                if count == 0 {
                    link.write(new_chunk::<T>(height, WIDTH));
                }
            }
        }
        self.len += 1;
    }

    /// Removes the last item and returns it.
    pub fn pop(&mut self) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        let item = NonNull::from(self.get_mut(last));
        // SAFETY: the item is moved out once: the length is lowered, and its chunk is this vector's own.
        let item = unsafe { item.read() };
        self.len = last;
        // Chunks on the way that have lost their only item.
        let (mut height, mut count) = (self.height, last);
        let Some(mut chunk) = self.root else { return Some(item) };
        if last == 0 {
            self.root = None;
            self.height = 0;
        } else {
            while height > 0 && !count.is_multiple_of(span(height)) {
                // SAFETY: `get_mut` has made all chunks on the way this vector's own.
                (chunk, count) = unsafe {
                    let slot = count / span(height);
                    (children::<Chunk>(chunk).add(slot).read(), count - slot * span(height))
                };
                height -= 1;
            }
            if height > 0 {
                // SAFETY: as above; this child has no item left, and is not counted any more.
                chunk = unsafe { children::<Chunk>(chunk).add(count / span(height)).read() };
                height -= 1;
                // SAFETY: the child is this vector's own and has no items.
                unsafe { Self::free_path(chunk, height) };
            }
            self.lower();
            return Some(item);
        }
        // SAFETY: the whole path belongs to this vector and has no items.
        unsafe { Self::free_path(chunk, height) };
        Some(item)
    }

    /// Whether a clone shares the root, and so everything.
    pub fn is_shared(&self) -> bool {
        // SAFETY: the root is live.
        self.root.is_some_and(|root| unsafe { !root.as_ref().references.is_unique() })
    }

    /// Bytes taken, what the items refer to not included.
    pub fn memory_usage(&self) -> usize {
        let Some(root) = self.root else { return 0 };
        // SAFETY: the root is live.
        let capacity = unsafe { root.as_ref().capacity } as usize;
        let mut bytes = chunk_size::<T>(self.height, capacity);
        for height in 0..self.height {
            bytes += self.len.div_ceil(span(height + 1)) * chunk_size::<T>(height, WIDTH);
        }
        bytes
    }

    /// Replaces roots that have one child by that child.
    fn lower(&mut self) {
        while self.height > 0
            && self.len <= span(self.height)
            && let Some(root) = self.root
        {
            // SAFETY: the root is live and has one child.
            unsafe {
                let child = children::<Chunk>(root).read();
                if root.as_ref().references.is_unique() {
                    slab::dealloc(root.cast(), chunk_size::<T>(self.height, WIDTH));
                } else {
                    retain(child);
                    release::<T>(root, self.height, self.len);
                }
                self.root = Some(child);
            }
            self.height -= 1;
        }
    }

    /// Frees a chunk without items, and those that lead down from it.
    ///
    /// # Safety
    /// The chunks are the caller's alone; each but the lowest has a first child.
    unsafe fn free_path(mut chunk: Chunk, mut height: u32) {
        loop {
            // SAFETY: the caller's promise.
            unsafe {
                let size = chunk_size::<T>(height, chunk.as_ref().capacity as usize);
                let child = if height > 0 { Some(children::<Chunk>(chunk).read()) } else { None };
                slab::dealloc(chunk.cast(), size);
                let Some(child) = child else { return };
                chunk = child;
            }
            height -= 1;
        }
    }

    /// The chunk at a link, copied if it is shared.
    ///
    /// # Safety
    /// The link is this vector's own; it leads to a live chunk of this height with `count` items below.
    #[inline]
    unsafe fn make_own(link: NonNull<Chunk>, height: u32, count: usize) -> Chunk {
        // SAFETY: the caller's promise.
        unsafe {
            let chunk = link.read();
            if chunk.as_ref().references.is_unique() {
                return chunk;
            }
            Self::copy(link, chunk, height, count)
        }
    }

    /// Puts a copy of a chunk in its place, its children shared.
    ///
    /// # Safety
    /// As for `make_own`.
    #[cold]
    unsafe fn copy(link: NonNull<Chunk>, chunk: Chunk, height: u32, count: usize) -> Chunk {
        // SAFETY: the caller's promise; the copy has the capacity of the original.
        unsafe {
            let copy = new_chunk::<T>(height, chunk.as_ref().capacity as usize);
            if height == 0 {
                for slot in 0..count {
                    let item = children::<T>(chunk).add(slot).as_ref().clone();
                    children::<T>(copy).add(slot).write(item);
                }
            } else {
                for slot in 0..count.div_ceil(span(height)) {
                    let child = children::<Chunk>(chunk).add(slot).read();
                    retain(child);
                    children::<Chunk>(copy).add(slot).write(child);
                }
            }
            link.write(copy);
            release::<T>(chunk, height, count);
            copy
        }
    }

    /// Moves the items of the only chunk to one of twice the capacity.
    ///
    /// # Safety
    /// The chunk is the caller's alone and has `count` items.
    unsafe fn widen(chunk: Chunk, count: usize) -> Chunk {
        // SAFETY: the caller's promise; items move bit by bit, and the old memory is given back without
        // dropping them.
        unsafe {
            let capacity = chunk.as_ref().capacity as usize;
            let wide = new_chunk::<T>(0, (2 * capacity).min(WIDTH));
            children::<T>(wide).copy_from_nonoverlapping(children::<T>(chunk), count);
            slab::dealloc(chunk.cast(), chunk_size::<T>(0, capacity));
            wide
        }
    }
}

impl<T> Clone for CowVec<T> {
    fn clone(&self) -> Self {
        if let Some(root) = self.root {
            retain(root);
        }
        CowVec { root: self.root, height: self.height, len: self.len, items: PhantomData }
    }
}

impl<T> Drop for CowVec<T> {
    fn drop(&mut self) {
        if let Some(root) = self.root {
            // SAFETY: the reference is this vector's, which ends here.
            unsafe { release::<T>(root, self.height, self.len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;
    use std::sync::Arc;

    /// Numbers with a token each, by which leaks are found.
    type Tokens = CowVec<(usize, Arc<()>)>;

    #[test]
    fn a_filled_vector_is_like_one_that_was_filled_item_by_item() {
        let token = Arc::new(());
        for len in [0, 1, 64, 65, 4095, 4096, 4097, 4096 + 64, 300_000] {
            let mut numbers = Random::new(len as u64);
            let mut vector: Tokens = CowVec::filled(len, &(7, token.clone()));
            let mut model = vec![7; len];
            let clone = vector.clone();
            for value in 0..200.min(len) {
                let at = numbers.below(len);
                vector.get_mut(at).0 = value;
                model[at] = value;
            }
            for value in 0..100 {
                vector.push((value, token.clone()));
                model.push(value);
            }
            for _ in 0..150 {
                assert_eq!(vector.pop().map(|item| item.0), model.pop());
            }
            assert!(vector.len() == model.len() && clone.len() == len);
            assert!((0..model.len()).all(|at| vector.get(at).0 == model[at]), "{len}");
            assert!((0..len).all(|at| clone.get(at).0 == 7), "{len}");
        }
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[test]
    fn behaves_like_a_vector_and_clones_stay() {
        let token = Arc::new(());
        for seed in 1..6_u64 {
            let mut numbers = Random::new(seed);
            let mut random = |bound: usize| numbers.below(bound);
            let mut vector: Tokens = CowVec::new();
            let mut model: Vec<usize> = Vec::new();
            let mut clones: Vec<(Tokens, Vec<usize>)> = Vec::new();
            let check = |vector: &Tokens, model: &[usize]| {
                assert_eq!(vector.len(), model.len(), "seed {seed}");
                for (index, expected) in model.iter().enumerate() {
                    assert_eq!(vector.get(index).0, *expected, "seed {seed}");
                }
            };
            for round in 0..300 {
                let steps = random(400);
                for _ in 0..steps {
                    match random(if (round / 100) % 2 == 0 { 5 } else { 12 }) {
                        0..3 => {
                            let value = random(1 << 30);
                            vector.push((value, token.clone()));
                            model.push(value);
                        }
                        3 if !model.is_empty() => {
                            let (at, value) = (random(model.len()), random(1 << 30));
                            vector.get_mut(at).0 = value;
                            model[at] = value;
                        }
                        4 => {}
                        _ => assert_eq!(vector.pop().map(|item| item.0), model.pop()),
                    }
                }
                match random(20) {
                    0..4 => clones.push((vector.clone(), model.clone())),
                    4 if !clones.is_empty() => {
                        let (clone, model) = clones.swap_remove(random(clones.len()));
                        check(&clone, &model);
                        std::thread::spawn(move || drop(clone)).join().expect("no panic");
                    }
                    5 if !clones.is_empty() => {
                        // Any of them may go on.
                        let at = random(clones.len());
                        std::mem::swap(&mut vector, &mut clones[at].0);
                        std::mem::swap(&mut model, &mut clones[at].1);
                    }
                    _ => {}
                }
            }
            check(&vector, &model);
            clones.iter().for_each(|(clone, model)| check(clone, model));
            drop((vector, clones));
            assert_eq!(Arc::strong_count(&token), 1, "seed {seed}");
        }
    }

    #[test]
    fn every_length_grows_and_shrinks() {
        let mut vector = CowVec::new();
        let count = 64 * 64 + 300;
        for value in 0..count {
            vector.push(value);
        }
        let clone = vector.clone();
        for value in (0..count).rev() {
            assert_eq!(vector.pop(), Some(value));
            assert!(value == 0 || *vector.get(value - 1) == value - 1);
        }
        assert_eq!((vector.pop(), vector.memory_usage()), (None, 0));
        assert!((0..count).all(|index| *clone.get(index) == index));
        assert!(clone.memory_usage() < count * 9 + 4096);
    }
}
