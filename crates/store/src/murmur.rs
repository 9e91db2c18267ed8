//! The hash functions of filters and sketches: those of Redis's module, so that bits and counters lie where
//! its do.
//!
//! MurmurHash2 and MurmurHash64A are Austin Appleby's, and in the public domain.

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
