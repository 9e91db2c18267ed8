//! One filter of a chain: buckets of fingerprints.

use crate::paged_bytes::PagedBytes;

/// Most bytes of a chain.
pub(super) const BYTES_MAX: u64 = 1 << 36;
/// In a slot without a fingerprint.
const FREE: u8 = 0;

/// The fingerprint of an item, and the hashes whose remainders are its two buckets. Each of these follows
/// from the other and the fingerprint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashed {
    pub fingerprint: u8,
    pub hashes: [u64; 2],
}

impl Hashed {
    #[inline]
    pub fn new(hash: u64) -> Self {
        Self::with_fingerprint(hash, (hash % 255 + 1) as u8)
    }

    /// That of an item that lies in a bucket.
    #[inline]
    pub fn with_fingerprint(hash: u64, fingerprint: u8) -> Self {
        Hashed { fingerprint, hashes: [hash, other_hash(hash, fingerprint)] }
    }
}

/// The hash for the other bucket of an item.
#[inline]
fn other_hash(hash: u64, fingerprint: u8) -> u64 {
    hash ^ u64::from(fingerprint).wrapping_mul(0x5bd1_e995)
}

/// A filter of a chain.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub slots: PagedBytes,
    buckets: u64,
    bucket_size: usize,
}

impl Layer {
    /// An empty one. There is at least one bucket, of at least one slot.
    pub fn new(buckets: u64, bucket_size: u8) -> Self {
        let bucket_size = usize::from(bucket_size);
        Layer { slots: PagedBytes::zeroed(buckets as usize * bucket_size), buckets, bucket_size }
    }

    pub fn buckets(&self) -> u64 {
        self.buckets
    }

    /// The first slot of the bucket of a hash.
    #[inline]
    fn bucket(&self, hash: u64) -> usize {
        let mask = self.buckets.wrapping_sub(1);
        let bucket = if self.buckets & mask == 0 { hash & mask } else { hash % self.buckets };
        bucket as usize * self.bucket_size
    }

    /// The first slot of a bucket that holds a byte.
    #[inline]
    fn find(&self, start: usize, byte: u8) -> Option<usize> {
        let end = start + self.bucket_size;
        let place = match self.slots.only_page() {
            Some([]) => (byte == FREE).then_some(0),
            Some(page) => page[start..end].iter().position(|&slot| slot == byte),
            None => (start..end).position(|at| self.slots.get(at) == byte),
        };
        place.map(|place| start + place)
    }

    #[inline]
    fn find_in_either(&self, item: Hashed, byte: u8) -> Option<usize> {
        let [first, second] = item.hashes.map(|hash| self.bucket(hash));
        self.find(first, byte).or_else(|| self.find(second, byte))
    }

    /// Fetches both buckets of an item ahead of their use.
    #[inline]
    pub fn fetch(&self, item: Hashed) {
        item.hashes.into_iter().for_each(|hash| self.slots.prefetch(self.bucket(hash)));
    }

    /// Whether the fingerprint is in one of the item's buckets.
    #[inline]
    pub fn contains(&self, item: Hashed) -> bool {
        self.find_in_either(item, item.fingerprint).is_some()
    }

    /// How often the fingerprint is in the item's buckets. Where these are one it counts twice, as for the
    /// module.
    pub fn count(&self, item: Hashed) -> u64 {
        let in_bucket = |start: usize| {
            let slots =
                (start..start + self.bucket_size).filter(|&at| self.slots.get(at) == item.fingerprint);
            slots.count() as u64
        };
        item.hashes.map(|hash| in_bucket(self.bucket(hash))).iter().sum()
    }

    /// Removes the fingerprint once. Whether it was there.
    pub fn remove(&mut self, item: Hashed) -> bool {
        let found = self.find_in_either(item, item.fingerprint);
        found.is_some_and(|at| std::mem::replace(self.slots.get_mut(at), FREE) != FREE)
    }

    /// Puts the fingerprint into a free slot of the item's buckets. Whether there was one.
    #[inline]
    pub fn put(&mut self, item: Hashed) -> bool {
        let found = self.find_in_either(item, FREE);
        found.map(|at| *self.slots.get_mut(at) = item.fingerprint).is_some()
    }

    /// Puts the fingerprint into the place of another, which goes to its other bucket, and so on, up to so
    /// many times. If no free slot is met all is as before, and the result false.
    pub fn put_by_force(&mut self, item: Hashed, steps: u16) -> bool {
        let mut fingerprint = item.fingerprint;
        let mut bucket = item.hashes[0] % self.buckets;
        let mut victim = 0;
        for _ in 0..steps {
            let start = bucket as usize * self.bucket_size;
            std::mem::swap(self.slots.get_mut(start + victim), &mut fingerprint);
            bucket = other_hash(bucket, fingerprint) % self.buckets;
            if let Some(at) = self.find(bucket as usize * self.bucket_size, FREE) {
                *self.slots.get_mut(at) = fingerprint;
                return true;
            }
            victim = (victim + 1) % self.bucket_size;
        }
        for _ in 0..steps {
            victim = (victim + self.bucket_size - 1) % self.bucket_size;
            bucket = other_hash(bucket, fingerprint) % self.buckets;
            let start = bucket as usize * self.bucket_size;
            std::mem::swap(self.slots.get_mut(start + victim), &mut fingerprint);
        }
        false
    }

    /// The first fingerprint from a slot on: its slot, and what it is of.
    pub fn next_item(&self, from: usize) -> Option<(usize, Hashed)> {
        let at = self.slots.next_set(from)?;
        let bucket = (at / self.bucket_size) as u64;
        Some((at, Hashed::with_fingerprint(bucket, self.slots.get(at))))
    }
}
