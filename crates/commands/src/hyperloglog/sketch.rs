//! The bytes of a HyperLogLog: a string that Redis takes for one, and we for one of Redis's.
//!
//! ```text
//! header  "HYLL" | encoding (1 byte: 0 dense, 1 sparse) | unused (3) | cardinality (u64 LE, top bit: stale)
//! dense   16,384 registers of 6 bits, the first in the lowest bits of the first byte
//! sparse  runs of registers (crate::hyperloglog::sparse)
//! ```
//!
//! A client can write any bytes into the string, so nothing is believed: what does not cover exactly 16,384
//! registers is [`Corrupt`].

use super::sparse;

/// Registers of a sketch.
pub(super) const REGISTERS: usize = 1 << INDEX_BITS;
/// Bits of a hash that choose the register.
const INDEX_BITS: u32 = 14;
/// Bits of a hash that are left for the run of zeros.
pub(super) const RUN_BITS: usize = 64 - INDEX_BITS as usize;
/// Bytes before the registers.
pub(super) const HEADER_BYTES: usize = 16;
/// Bytes of a dense sketch.
const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * 6 / 8;
const MAGIC: &[u8] = b"HYLL";
const ENCODING_AT: usize = 4;
const CARDINALITY_AT: usize = 8;
const STALE_AT: usize = 15;
const STALE_BIT: u8 = 0x80;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;

const _: () = assert!(DENSE_BYTES == 12_304);

/// All registers as bytes.
pub(super) type Registers = [u8; REGISTERS];

/// How often each value occurs among the registers.
pub(super) type Histogram = [u32; 64];

/// The bytes do not make up the registers of a sketch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Corrupt;

/// An empty sketch.
pub(super) fn new() -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    bytes[ENCODING_AT] = SPARSE;
    sparse::put_zeros(&mut bytes, REGISTERS);
    bytes
}

/// An empty sketch that is dense.
pub(super) fn new_dense() -> Vec<u8> {
    let mut bytes = vec![0; DENSE_BYTES];
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    bytes
}

/// Whether a string looks like a sketch. Everything else here takes only strings that do.
pub(super) fn is_sketch(bytes: &[u8]) -> bool {
    let has_header = bytes.len() >= HEADER_BYTES && bytes.starts_with(MAGIC);
    has_header
        && match bytes[ENCODING_AT] {
            DENSE => bytes.len() == DENSE_BYTES,
            SPARSE => true,
            _ => false,
        }
}

/// Whether it is sparse.
pub(super) fn is_sparse(bytes: &[u8]) -> bool {
    bytes[ENCODING_AT] == SPARSE
}

/// The cardinality noted in it, unless it is stale.
pub(super) fn noted_cardinality(bytes: &[u8]) -> Option<u64> {
    let noted = bytes[CARDINALITY_AT..].first_chunk().map(|raw| u64::from_le_bytes(*raw));
    noted.filter(|_| bytes[STALE_AT] & STALE_BIT == 0)
}

/// Notes the cardinality in it.
pub(super) fn note_cardinality(bytes: &mut [u8], cardinality: u64) {
    bytes[CARDINALITY_AT..HEADER_BYTES].copy_from_slice(&cardinality.to_le_bytes());
}

/// Says that the noted cardinality is out of date.
pub(super) fn make_stale(bytes: &mut [u8]) {
    bytes[STALE_AT] |= STALE_BIT;
}

/// Adds an element. True if a register has changed. A sparse sketch becomes dense when it would grow past
/// `sparse_bytes_max`.
pub(super) fn add(bytes: &mut Vec<u8>, element: &[u8], sparse_bytes_max: usize) -> Result<bool, Corrupt> {
    let (index, value) = register_of(element);
    raise(bytes, index, value, sparse_bytes_max)
}

/// The register that an element raises, and to what.
pub(super) fn register_of(element: &[u8]) -> (usize, u8) {
    let hash = murmur(element);
    // The bit above the hash's ends the run of zeros.
    let run = (hash >> INDEX_BITS | 1 << RUN_BITS).trailing_zeros() as u8;
    (hash as usize % REGISTERS, run + 1)
}

/// Makes a register at least `value`. True if it was less.
pub(super) fn raise(
    bytes: &mut Vec<u8>,
    index: usize,
    value: u8,
    sparse_bytes_max: usize,
) -> Result<bool, Corrupt> {
    if !is_sparse(bytes) {
        return Ok(raise_dense(bytes, index, value));
    }
    match sparse::raise(bytes, index, value, sparse_bytes_max)? {
        sparse::Raised::No => Ok(false),
        sparse::Raised::Yes => {
            make_stale(bytes);
            Ok(true)
        }
        sparse::Raised::TooLarge => {
            make_dense(bytes)?;
            Ok(raise_dense(bytes, index, value))
        }
    }
}

fn raise_dense(bytes: &mut [u8], index: usize, value: u8) -> bool {
    let bit = index * 6;
    let (at, shift) = (HEADER_BYTES + bit / 8, bit % 8);
    // The last register ends with the last byte: its upper part is empty.
    let high = bytes.get(at + 1).copied().unwrap_or(0);
    let pair = u16::from_le_bytes([bytes[at], high]);
    if (pair >> shift) as u8 & 63 >= value {
        return false;
    }
    let [low, high] = (pair & !(63 << shift) | u16::from(value) << shift).to_le_bytes();
    bytes[at] = low;
    if let Some(upper) = bytes.get_mut(at + 1) {
        *upper = high;
    }
    true
}

/// Makes a sparse sketch dense.
pub(super) fn make_dense(bytes: &mut Vec<u8>) -> Result<(), Corrupt> {
    if is_sparse(bytes) {
        let mut registers = [0; REGISTERS];
        merge(&mut registers, bytes)?;
        let mut dense = Vec::with_capacity(DENSE_BYTES);
        dense.extend_from_slice(&bytes[..HEADER_BYTES]);
        dense[ENCODING_AT] = DENSE;
        dense.resize(DENSE_BYTES, 0);
        store_dense(&mut dense, &registers);
        *bytes = dense;
    }
    Ok(())
}

/// Writes all registers of a dense sketch: eight at a time, which are six bytes.
fn store_dense(bytes: &mut [u8], registers: &Registers) {
    for (out, eight) in bytes[HEADER_BYTES..].chunks_exact_mut(6).zip(registers.as_chunks().0) {
        let word = joined(u64::from_le_bytes(*eight));
        out.copy_from_slice(&word.to_le_bytes()[..6]);
    }
}

/// The eight values of six bits in the low 48 bits of a word as bytes of one.
#[inline]
fn spread(word: u64) -> u64 {
    let halves = (word & 0xFF_FFFF) | (word & 0xFFFF_FF00_0000) << 8;
    let pairs = (halves & 0x0000_0FFF_0000_0FFF) | (halves & 0x00FF_F000_00FF_F000) << 4;
    (pairs & 0x003F_003F_003F_003F) | (pairs & 0x0FC0_0FC0_0FC0_0FC0) << 2
}

/// The inverse of [`spread`].
#[inline]
fn joined(eight: u64) -> u64 {
    let pairs = (eight & 0x003F_003F_003F_003F) | (eight & 0x3F00_3F00_3F00_3F00) >> 2;
    let halves = (pairs & 0x0000_0FFF_0000_0FFF) | (pairs & 0x0FFF_0000_0FFF_0000) >> 4;
    (halves & 0xFF_FFFF) | (halves >> 8 & 0xFFFF_FF00_0000)
}

/// The larger of each two bytes, which are below 128.
#[inline]
fn larger(one: u64, other: u64) -> u64 {
    const HIGHEST: u64 = 0x8080_8080_8080_8080;
    let not_less = (((one | HIGHEST) - other) & HIGHEST) >> 7;
    let mask = not_less * 0xFF;
    (one & mask) | (other & !mask)
}

/// The eight registers in six bytes, as the low 48 bits of a word.
#[inline]
fn word_of(six: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide[..6].copy_from_slice(six);
    u64::from_le_bytes(wide)
}

/// Raises `registers` to those of a sketch where they are less.
pub(super) fn merge(registers: &mut Registers, bytes: &[u8]) -> Result<(), Corrupt> {
    if is_sparse(bytes) {
        return sparse::each_run(bytes, |first, value, len| {
            if value > 0 {
                let registers = &mut registers[first..first + len];
                registers.iter_mut().for_each(|register| *register = value.max(*register));
            }
        });
    }
    for (eight, six) in registers.as_chunks_mut().0.iter_mut().zip(bytes[HEADER_BYTES..].chunks_exact(6)) {
        *eight = larger(u64::from_le_bytes(*eight), spread(word_of(six))).to_le_bytes();
    }
    Ok(())
}

/// Raises the registers of a dense sketch to those of another where they are less.
pub(super) fn merge_into_dense(dense: &mut [u8], bytes: &[u8]) -> Result<(), Corrupt> {
    if is_sparse(bytes) {
        return sparse::each_run(bytes, |first, value, len| {
            if value > 0 {
                (first..first + len).for_each(|index| _ = raise_dense(dense, index, value));
            }
        });
    }
    let (own, others) = (&mut dense[HEADER_BYTES..], &bytes[HEADER_BYTES..]);
    for (own, other) in own.as_chunks_mut::<24>().0.iter_mut().zip(others.as_chunks::<24>().0) {
        let ([a, b, c, d], theirs) = (eights_of(own), eights_of(other));
        let (a, b) = (larger_packed(a, theirs[0]), larger_packed(b, theirs[1]));
        let (c, d) = (larger_packed(c, theirs[2]), larger_packed(d, theirs[3]));
        own[..8].copy_from_slice(&(a | b << 48).to_le_bytes());
        own[8..16].copy_from_slice(&(b >> 16 | c << 32).to_le_bytes());
        own[16..].copy_from_slice(&(c >> 32 | d << 16).to_le_bytes());
    }
    Ok(())
}

/// Makes the registers of a dense sketch those of another.
pub(super) fn copy_registers(dense: &mut [u8], other: &[u8]) {
    dense[HEADER_BYTES..].copy_from_slice(&other[HEADER_BYTES..]);
}

/// Registers as words of eight, 48 bits of each.
#[inline]
fn eights_of(raw: &[u8; 24]) -> [u64; 4] {
    const EIGHT: u64 = (1 << 48) - 1;
    let word = |place: usize| u64::from_le_bytes(raw.as_chunks::<8>().0[place]);
    let (first, second, third) = (word(0), word(1), word(2));
    [first & EIGHT, (first >> 48 | second << 16) & EIGHT, (second >> 32 | third << 32) & EIGHT, third >> 16]
}

/// The larger of each two of eight registers: every other one is compared at a time, so that there is a bit
/// above each.
#[inline]
fn larger_packed(one: u64, other: u64) -> u64 {
    const EVEN: u64 = 0x03F0_3F03_F03F;
    const ABOVE: u64 = 0x0400_4004_0040;
    let larger = |one: u64, other: u64| {
        let not_less = ((one | ABOVE) - other) & ABOVE;
        let mask = not_less - (not_less >> 6);
        (one & mask) | (other & !mask)
    };
    larger(one & EVEN, other & EVEN) | larger(one >> 6 & EVEN, other >> 6 & EVEN) << 6
}

/// How often each value occurs among the registers of a sketch.
pub(super) fn histogram(bytes: &[u8]) -> Result<Histogram, Corrupt> {
    if is_sparse(bytes) {
        let mut counts = [0; 64];
        sparse::each_run(bytes, |_, value, len| counts[usize::from(value)] += len as u32)?;
        return Ok(counts);
    }
    Ok(count_eights(bytes[HEADER_BYTES..].chunks_exact(6).map(|six| spread(word_of(six)).to_le_bytes())))
}

/// The same for registers.
pub(super) fn histogram_of(registers: &Registers) -> Histogram {
    count_eights(registers.as_chunks().0.iter().copied())
}

/// How often each value occurs among registers, eight at a time.
fn count_eights(eights: impl Iterator<Item = [u8; 8]>) -> Histogram {
    let mut counts = [0; 64];
    // Four tables, so that equal neighbours do not wait for each other.
    let mut tables = [[0u32; 64]; 4];
    for eight in eights {
        // Of few elements nearly all registers are 0.
        if eight == [0; 8] {
            counts[0] += 8;
            continue;
        }
        for (place, value) in eight.into_iter().enumerate() {
            tables[place % 4][usize::from(value & 63)] += 1;
        }
    }
    for table in &tables {
        counts.iter_mut().zip(table).for_each(|(count, more)| *count += more);
    }
    counts
}

/// MurmurHash64A of Austin Appleby, with the seed that makes sketches of different servers agree.
fn murmur(element: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0xC6A4_A793_5BD1_E995;
    const SEED: u64 = 0xADC8_3B19;
    let mut hash = SEED ^ (element.len() as u64).wrapping_mul(MULTIPLIER);
    let mut words = element.chunks_exact(8);
    for word in &mut words {
        let mut mixed = u64::from_le_bytes(word.try_into().unwrap_or_default()).wrapping_mul(MULTIPLIER);
        mixed ^= mixed >> 47;
        hash = (hash ^ mixed.wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(MULTIPLIER);
    hash ^ hash >> 47
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_published_function() {
        assert_eq!(murmur(b"") % REGISTERS as u64, murmur(b"") & 0x3fff);
        assert_ne!(murmur(b"12345678"), murmur(b"12345679"));
        assert_ne!(murmur(b"123"), murmur(b"123\0"));
    }

    #[test]
    fn dense_registers_keep_to_themselves() {
        let mut bytes = new();
        make_dense(&mut bytes).expect("it is whole");
        assert_eq!(bytes.len(), DENSE_BYTES);
        let mut model = [0; REGISTERS];
        let mut state = 7;
        for _ in 0..100_000 {
            let random = crate::access::split_mix(&mut state);
            let (index, value) = (random as usize % REGISTERS, (random >> 32) as u8 & 63);
            assert_eq!(raise_dense(&mut bytes, index, value), model[index] < value);
            model[index] = model[index].max(value);
        }
        let mut read = [0; REGISTERS];
        assert_eq!(merge(&mut read, &bytes), Ok(()));
        assert!(read == model);
        assert_eq!(histogram(&bytes), Ok(histogram_of(&model)));
    }

    #[test]
    fn dense_sketches_merge_as_their_registers_do() {
        let mut state = 5;
        let mut random = || crate::access::split_mix(&mut state);
        let (mut one, mut other, mut few) = (new_dense(), new_dense(), new());
        let mut model: Registers = [0; REGISTERS];
        for bytes in [&mut one, &mut other] {
            for (index, expected) in model.iter_mut().enumerate() {
                let value = random() as u8 & 63;
                raise_dense(bytes, index, value);
                *expected = value.max(*expected);
            }
        }
        for _ in 0..200 {
            let (index, value) = (random() as usize % REGISTERS, random() as u8 % 32 + 1);
            assert!(raise(&mut few, index, value, 3000).is_ok());
            model[index] = model[index].max(value);
        }
        assert!(is_sparse(&few));
        assert_eq!(merge_into_dense(&mut one, &other), Ok(()));
        assert_eq!(merge_into_dense(&mut one, &few), Ok(()));
        let mut merged = [0; REGISTERS];
        assert_eq!(merge(&mut merged, &one), Ok(()));
        assert!(merged == model);
        copy_registers(&mut other, &one);
        assert!(one == other);
    }

    #[test]
    fn any_bytes_are_a_sketch_or_corrupt() {
        let mut state = 11;
        for _ in 0..3000 {
            let mut bytes = new();
            let count = crate::access::split_mix(&mut state) % 60;
            bytes.truncate(HEADER_BYTES + crate::access::split_mix(&mut state) as usize % 3);
            bytes.extend((0..count).map(|_| crate::access::split_mix(&mut state) as u8));
            let mut registers = [0; REGISTERS];
            assert_eq!(merge(&mut registers, &bytes).is_ok(), histogram(&bytes).is_ok());
            let _may_be_corrupt = add(&mut bytes.clone(), b"element", 3000);
            let _may_be_corrupt = raise(&mut bytes, REGISTERS - 1, 40, 3000);
        }
    }
}
