//! The hash functions of filters and sketches: those of Redis's module, so that bits and counters lie where
//! its do.
//!
//! MurmurHash2 and MurmurHash64A are Austin Appleby's, and in the public domain. What MurmurHash2 does with a
//! word of an item is the same for every seed: it is done once for several rows of a sketch, whose hashes are
//! computed side by side.

use crate::divisor::Divisor;

const M64: u64 = 0xc6a4_a793_5bd1_e995;
const M32: u32 = 0x5bd1_e995;

/// MurmurHash64A, in the order of bytes of x86.
#[inline]
pub(crate) fn murmur_64a(bytes: &[u8], seed: u64) -> u64 {
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M64);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(M64);
        word ^= word >> 47;
        hash = (hash ^ word.wrapping_mul(M64)).wrapping_mul(M64);
    }
    if !tail.is_empty() {
        hash = (hash ^ number(tail)).wrapping_mul(M64);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(M64);
    hash ^ hash >> 47
}

/// MurmurHash2 with 32 bits, in the order of bytes of x86.
#[inline]
pub(crate) fn murmur_2(bytes: &[u8], seed: u32) -> u32 {
    let mut hash = seed ^ bytes.len() as u32;
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(M32);
        word ^= word >> 24;
        hash = hash.wrapping_mul(M32) ^ word.wrapping_mul(M32);
    }
    if !tail.is_empty() {
        hash = (hash ^ number(tail) as u32).wrapping_mul(M32);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M32);
    hash ^ hash >> 15
}

/// The number that up to eight bytes are, the lowest first. Copying them to eight zeros would take a call,
/// and a load that waits for all of their stores.
#[inline(always)]
fn number(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        // They overlap where there are less than eight.
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return u64::from(first) | u64::from(last) << (8 * (len - 4));
    }
    if len == 0 {
        return 0;
    }
    // One to three: some of these are the same byte.
    let byte = |at: usize| u64::from(bytes[at]) << (8 * at);
    byte(0) | byte(len / 2) | byte(len - 1)
}

/// Rows of columns. An item has one in each row: the remainder of the hash whose seed is the row's number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Grid {
    pub width: u64,
    pub depth: u64,
    divisor: Divisor,
}

impl Grid {
    pub fn new(width: u64, depth: u64) -> Self {
        Grid { width, depth, divisor: Divisor::new(width) }
    }

    /// Calls `visit` with the place of an item in each row, counted from the first column of the first row.
    #[inline]
    pub fn each_place(&self, item: &[u8], mut visit: impl FnMut(usize)) {
        let Grid { width, depth, divisor } = *self;
        let mut start = 0;
        for first in (0..depth).step_by(ROWS) {
            let hashes = hashes(item, first as u32);
            for hash in hashes.into_iter().take((depth - first) as usize) {
                visit((start + divisor.remainder(hash.into())) as usize);
                start += width;
            }
        }
    }
}

/// Rows that are hashed side by side.
const ROWS: usize = 8;

/// The hashes with this seed and those that follow it.
#[inline]
fn hashes(bytes: &[u8], first_seed: u32) -> [u32; ROWS] {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { hashes_avx2(bytes, first_seed) };
    }
    hashes_here(bytes, first_seed)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn hashes_avx2(bytes: &[u8], first_seed: u32) -> [u32; ROWS] {
    hashes_here(bytes, first_seed)
}

// Loops alone: a closure would be called where the instructions differ from those that it is compiled for.
#[inline(always)]
fn hashes_here(bytes: &[u8], first_seed: u32) -> [u32; ROWS] {
    let mut hashes = [first_seed; ROWS];
    for (row, hash) in hashes.iter_mut().enumerate() {
        *hash = hash.wrapping_add(row as u32) ^ bytes.len() as u32;
    }
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        // The same for every seed.
        let mut word = u32::from_le_bytes(*word).wrapping_mul(M32);
        word = (word ^ word >> 24).wrapping_mul(M32);
        for hash in &mut hashes {
            *hash = hash.wrapping_mul(M32) ^ word;
        }
    }
    if !tail.is_empty() {
        let last = number(tail) as u32;
        for hash in &mut hashes {
            *hash = (*hash ^ last).wrapping_mul(M32);
        }
    }
    for hash in &mut hashes {
        *hash = (*hash ^ *hash >> 13).wrapping_mul(M32);
        *hash ^= *hash >> 15;
    }
    hashes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_its_bytes() {
        let bytes = [0x91, 0x02, 0xa3, 0x54, 0xb5, 0x66, 0xc7, 0xd8];
        for len in 0..=bytes.len() {
            let mut padded = [0; 8];
            padded[..len].copy_from_slice(&bytes[..len]);
            assert_eq!(number(&bytes[..len]), u64::from_le_bytes(padded), "{len} bytes");
        }
    }

    #[test]
    fn hashes_side_by_side_are_those_one_by_one() {
        let bytes: Vec<u8> = (0..200).map(|byte: u8| byte.wrapping_mul(37)).collect();
        for len in 0..bytes.len() {
            for first in [0, 8, 1919, u32::MAX - 3] {
                let one_by_one: [u32; ROWS] =
                    std::array::from_fn(|row| murmur_2(&bytes[..len], first.wrapping_add(row as u32)));
                assert_eq!(hashes(&bytes[..len], first), one_by_one, "{len} bytes");
                assert_eq!(hashes_here(&bytes[..len], first), one_by_one, "{len} bytes");
            }
        }
    }
}
