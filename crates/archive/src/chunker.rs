//! Where the stream of a snapshot is cut into chunks.
//!
//! Records are in the order of their keys. [`Cuts`] cuts between records, where the hash of a key says so: a
//! change touches the chunk that it is in, and the one behind it at most. Chunks are small, because of 1 % of
//! keys changed at random only 1 - 0.99^n of the chunks of n records are touched. [`Gear`] cuts large values
//! by a rolling hash over their last 64 bytes (Xia and others, FastCDC, USENIX ATC 2016: a gear table, and a
//! stricter condition before the mean length than after it).
//!
//! Both depend on the seed of the archive, so that lengths tell nothing to who lacks the seed.

/// Records of a chunk before a cut, at least.
const RECORDS_MIN: u32 = 4;
/// Bytes of a chunk before a cut, at least.
const BYTES_MIN: usize = 384;
/// Bytes of a chunk that is cut at the next key whatever its hash.
const BYTES_MAX: usize = 8 << 10;
/// One key in this many may begin a chunk.
const KEYS_PER_CUT: u64 = 4;

/// Lengths of the parts of large values.
const PART_BYTES_MIN: usize = 4 << 10;
const PART_BYTES_MEAN: usize = 16 << 10;
const PART_BYTES_MAX: usize = 64 << 10;
/// Two bits more and two less than the mean asks for. The high bits of the hash depend on most bytes.
const MASK_BEFORE_MEAN: u64 = 0xffff << 48;
const MASK_AFTER_MEAN: u64 = 0xfff << 52;

/// SplitMix64's step and output (Steele, Lea, Flood 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Decides on cuts between records.
pub struct Cuts {
    seed: u64,
    records: u32,
    bytes: usize,
}

impl Cuts {
    /// At the start of a chunk.
    pub fn new(seed: u64) -> Self {
        Cuts { seed: seed | 1, records: 0, bytes: 0 }
    }

    /// Whether a chunk ends before the record of this key.
    pub fn before(&mut self, key: &[u8], record_bytes: usize) -> bool {
        let is_long = self.records >= RECORDS_MIN && self.bytes >= BYTES_MIN;
        let cut = self.bytes >= BYTES_MAX || is_long && self.hash(key).is_multiple_of(KEYS_PER_CUT);
        if cut {
            self.restart();
        }
        self.records += 1;
        self.bytes += record_bytes;
        cut
    }

    /// A chunk begins for another reason.
    pub fn restart(&mut self) {
        (self.records, self.bytes) = (0, 0);
    }

    /// A hash of a key: words folded by 128-bit products.
    fn hash(&self, key: &[u8]) -> u64 {
        let fold = |left: u64, right: u64| {
            let product = u128::from(left) * u128::from(right);
            product as u64 ^ (product >> 64) as u64
        };
        let mut hash = self.seed ^ key.len() as u64;
        for word in key.chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            hash = fold(hash ^ u64::from_le_bytes(bytes) ^ 0x9e37_79b9_7f4a_7c15, self.seed | 1 << 63);
        }
        split_mix(&mut hash)
    }
}

/// Cuts large values.
pub struct Gear {
    table: [u64; 256],
}

impl Gear {
    /// A table of this seed.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Gear { table: std::array::from_fn(|_| split_mix(&mut state)) }
    }

    /// The length of the first part of `bytes`, of which none are missing if there are less than 64 KB.
    pub fn cut(&self, bytes: &[u8]) -> usize {
        let end = bytes.len().min(PART_BYTES_MAX);
        let mean = end.min(PART_BYTES_MEAN);
        let start = PART_BYTES_MIN.min(end);
        // The hash forgets a byte after 64 more.
        let mut hash = 0_u64;
        for &byte in &bytes[start.saturating_sub(64)..start] {
            hash = self.roll(hash, byte);
        }
        for (from, to, mask) in [(start, mean, MASK_BEFORE_MEAN), (start.max(mean), end, MASK_AFTER_MEAN)] {
            for (index, &byte) in bytes.get(from..to).unwrap_or_default().iter().enumerate() {
                hash = self.roll(hash, byte);
                if hash & mask == 0 {
                    return from + index + 1;
                }
            }
        }
        end
    }

    #[inline]
    fn roll(&self, hash: u64, byte: u8) -> u64 {
        (hash << 1).wrapping_add(self.table[usize::from(byte)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;
    use std::collections::HashSet;

    fn noise(seed: u64, count: usize) -> Vec<u8> {
        let mut state = seed;
        (0..count).map(|_| split_mix(&mut state) as u8).collect()
    }

    fn parts<'b>(gear: &Gear, mut bytes: &'b [u8]) -> Vec<&'b [u8]> {
        let mut parts = Vec::new();
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(gear.cut(bytes));
            parts.push(part);
            bytes = rest;
        }
        parts
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn parts_join_and_have_lengths_in_bounds(seed: u64, count in 0..400_000_usize) {
            let bytes = noise(seed, count);
            let parts = parts(&Gear::new(seed ^ 1), &bytes);
            prop_assert_eq!(&parts.concat(), &bytes);
            let (last, all) = parts.split_last().map_or((0, &[][..]), |(last, all)| (last.len(), all));
            prop_assert!(last <= PART_BYTES_MAX);
            prop_assert!(all.iter().all(|part| (PART_BYTES_MIN..=PART_BYTES_MAX).contains(&part.len())));
        }
    }

    // How many parts are new is a matter of chance, and has no bound for all seeds: the same cases each time.
    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::with_cases(24) })]

        #[test]
        fn an_insertion_changes_few_parts(seed: u64, at in 0..1_000_000_usize) {
            let gear = Gear::new(seed);
            let before = noise(seed, 1_000_000);
            let mut after = before.clone();
            after.splice(at..at, *b"inserted");
            let known: HashSet<_> = parts(&gear, &before).into_iter().collect();
            let new = parts(&gear, &after).into_iter().filter(|part| !known.contains(part)).count();
            prop_assert!(new <= 8, "{} parts are new", new);
        }

        #[test]
        fn cuts_of_records_meet_again(seed: u64, removed in 0..2000_usize) {
            let keys: Vec<_> = (0..2000).map(|index| format!("key:{index:06}")).collect();
            let chunks = |keys: &[String]| {
                let (mut cuts, mut chunks) = (Cuts::new(seed), vec![Vec::new()]);
                for key in keys {
                    if cuts.before(key.as_bytes(), 120) {
                        chunks.push(Vec::new());
                    }
                    chunks.last_mut().expect("there is one").push(key.clone());
                }
                chunks
            };
            let known: HashSet<_> = chunks(&keys).into_iter().collect();
            let mut fewer = keys.clone();
            fewer.remove(removed);
            let new = chunks(&fewer).into_iter().filter(|chunk| !known.contains(chunk)).count();
            prop_assert!(new <= 20, "{} chunks are new", new);
        }
    }
}
