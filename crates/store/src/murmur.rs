//! The hash functions of filters and sketches: those of Redis's module, so that bits and counters lie where
//! its do.
//!
//! MurmurHash2 and MurmurHash64A are Austin Appleby's, and in the public domain. What MurmurHash2 does with a
//! word of an item is the same for every seed: [`Mixed`] does it once for all rows of a sketch, whose hashes
//! are then computed side by side.

use smallvec::SmallVec;

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
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(M64);
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
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u32::from_le_bytes(last)).wrapping_mul(M32);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M32);
    hash ^ hash >> 15
}

/// Calls `visit` with each row of a sketch and the column of an item there: the remainder of the hash whose
/// seed is the row's number.
#[inline]
pub(crate) fn each_column(item: &[u8], width: u64, depth: u64, mut visit: impl FnMut(u64, u64)) {
    let mixed = Mixed::new(item);
    // Dividing 32 bits is faster.
    let short = u32::try_from(width).ok();
    for first in (0..depth).step_by(ROWS) {
        let hashes = mixed.hashes(first as u32);
        for (row, hash) in (first..depth).zip(hashes) {
            visit(row, short.map_or(u64::from(hash), |width| u64::from(hash % width)));
        }
    }
}

/// Rows that are hashed side by side.
const ROWS: usize = 8;

/// An item whose words have been mixed for MurmurHash2.
struct Mixed {
    words: SmallVec<[u32; 16]>,
    tail: Option<u32>,
    len: u32,
}

impl Mixed {
    #[inline]
    fn new(bytes: &[u8]) -> Self {
        let (words, tail) = bytes.as_chunks::<4>();
        let mix = |word: &[u8; 4]| {
            let word = u32::from_le_bytes(*word).wrapping_mul(M32);
            (word ^ word >> 24).wrapping_mul(M32)
        };
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        let tail = (!tail.is_empty()).then(|| u32::from_le_bytes(last));
        Mixed { words: words.iter().map(mix).collect(), tail, len: bytes.len() as u32 }
    }

    /// The hashes with this seed and those that follow it.
    #[inline]
    fn hashes(&self, first_seed: u32) -> [u32; ROWS] {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { self.hashes_avx2(first_seed) };
        }
        self.hashes_here(first_seed)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn hashes_avx2(&self, first_seed: u32) -> [u32; ROWS] {
        self.hashes_here(first_seed)
    }

    // Loops alone: a closure would be called where the instructions differ from those that it is compiled
    // for.
    #[inline(always)]
    fn hashes_here(&self, first_seed: u32) -> [u32; ROWS] {
        let mut hashes = [first_seed; ROWS];
        for (row, hash) in hashes.iter_mut().enumerate() {
            *hash = hash.wrapping_add(row as u32) ^ self.len;
        }
        for word in self.words.as_slice() {
            for hash in &mut hashes {
                *hash = hash.wrapping_mul(M32) ^ word;
            }
        }
        if let Some(tail) = self.tail {
            for hash in &mut hashes {
                *hash = (*hash ^ tail).wrapping_mul(M32);
            }
        }
        for hash in &mut hashes {
            *hash = (*hash ^ *hash >> 13).wrapping_mul(M32);
            *hash ^= *hash >> 15;
        }
        hashes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_side_by_side_are_those_one_by_one() {
        let bytes: Vec<u8> = (0..200).map(|byte: u8| byte.wrapping_mul(37)).collect();
        for len in 0..bytes.len() {
            for first in [0, 8, 1919, u32::MAX - 3] {
                let one_by_one: [u32; ROWS] =
                    std::array::from_fn(|row| murmur_2(&bytes[..len], first.wrapping_add(row as u32)));
                let mixed = Mixed::new(&bytes[..len]);
                assert_eq!(mixed.hashes(first), one_by_one, "{len} bytes");
                assert_eq!(mixed.hashes_here(first), one_by_one, "{len} bytes");
            }
        }
    }
}
