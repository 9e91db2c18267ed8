//! BLAKE3 of many small inputs, side by side.
//!
//! BLAKE3 cuts an input into leaves of 1024 bytes, whose blocks of 64 bytes are compressed one after the
//! other. Wide instructions compress blocks of up to 16 leaves at once, which an input of one leaf has no use
//! for. Here leaves of several inputs are hashed together if they have the same number of blocks. The last
//! block of a leaf may be shorter and is compressed alone. Hashes are those of [`blake3::keyed_hash`].
//!
//! `blake3::platform` may change with each release, so the workspace asks for one version exactly.

use blake3::IncrementCounter;
use blake3::hazmat::{Mode, merge_subtrees_non_root, merge_subtrees_root};
use blake3::platform::{Platform, le_bytes_from_words_32, words_from_le_bytes_32};

/// Bytes of inputs that are best hashed at once: some hundred of them, and the processor's cache holds them.
pub const BATCH_BYTES: usize = 512 << 10;
const LEAF_BYTES: usize = 1024;
const BLOCK_BYTES: usize = 64;
/// The most leaves that any processor hashes at once.
const LANES: usize = 16;
/// Inputs above this have enough leaves of their own.
const INPUT_BYTES_MAX: usize = 4 * LEAF_BYTES;

/// Flags of the compression function (BLAKE3, table 3).
const CHUNK_START: u8 = 1 << 0;
const CHUNK_END: u8 = 1 << 1;
const ROOT: u8 = 1 << 3;
const KEYED_HASH: u8 = 1 << 4;

type Hash = [u8; 32];

/// A leaf of an input.
struct Leaf {
    /// Blocks that are hashed side by side: all of a leaf that others follow, else all but the last one.
    blocks: u8,
    /// Its number in its input.
    number: u8,
    is_root: bool,
    /// Where its hash goes.
    to: u32,
    /// Where its bytes begin, and how many they are.
    at: usize,
    bytes: usize,
}

/// Hashes inputs with a key.
pub struct Hasher {
    key: [u8; 32],
    platform: Platform,
    leaves: Vec<Leaf>,
    leaf_hashes: Vec<Hash>,
}

impl Hasher {
    /// With this key.
    pub fn new(key: &[u8; 32]) -> Self {
        let (leaves, leaf_hashes) = (Vec::new(), Vec::new());
        Hasher { key: *key, platform: Platform::detect(), leaves, leaf_hashes }
    }

    /// The hashes of inputs of these sizes, which lie one behind the other in `bytes`.
    ///
    /// # Panics
    ///
    /// Panics if `bytes` is shorter than all of them.
    pub fn hash(&mut self, bytes: &[u8], sizes: &[usize]) -> Vec<Hash> {
        self.leaves.clear();
        self.leaf_hashes.clear();
        let mut at = 0;
        for size in sizes {
            self.add_leaves(at, *size);
            at += size;
        }
        self.leaves.sort_unstable_by_key(|leaf| (leaf.blocks, leaf.number));
        for alike in
            self.leaves.chunk_by(|left, right| (left.blocks, left.number) == (right.blocks, right.number))
        {
            let run = RUNS[usize::from(alike[0].blocks)];
            for some in alike.chunks(LANES) {
                run(self.platform, &self.key, bytes, some, &mut self.leaf_hashes);
            }
        }
        let (mut at, mut leaf_hashes) = (0, &self.leaf_hashes[..]);
        sizes
            .iter()
            .map(|size| {
                let input = &bytes[at..at + size];
                at += size;
                let (own, rest) = leaf_hashes.split_at(leaf_count(*size));
                leaf_hashes = rest;
                match own {
                    [] => blake3::keyed_hash(&self.key, input).into(),
                    [hash] => *hash,
                    _ => {
                        let (left, right) = self.children(own);
                        merge_subtrees_root(&left, &right, Mode::KeyedHash(&self.key)).into()
                    }
                }
            })
            .collect()
    }

    fn add_leaves(&mut self, at: usize, size: usize) {
        let count = leaf_count(size);
        for number in 0..count {
            let start = number * LEAF_BYTES;
            let bytes = (size - start).min(LEAF_BYTES);
            let is_last = number + 1 == count;
            let blocks = (bytes - usize::from(is_last)) / BLOCK_BYTES;
            let (blocks, number, to) = (blocks as u8, number as u8, self.leaf_hashes.len() as u32);
            self.leaves.push(Leaf { blocks, number, is_root: count == 1, to, at: at + start, bytes });
            self.leaf_hashes.push([0; 32]);
        }
    }

    /// The hashes below a node of the tree that has these leaves: the left one has as many as it can be full
    /// with.
    fn children(&self, leaves: &[Hash]) -> (Hash, Hash) {
        let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
        (self.node(left), self.node(right))
    }

    fn node(&self, leaves: &[Hash]) -> Hash {
        if let [hash] = leaves {
            return *hash;
        }
        let (left, right) = self.children(leaves);
        merge_subtrees_non_root(&left, &right, Mode::KeyedHash(&self.key))
    }
}

/// The number of leaves of an input that are hashed with others.
fn leaf_count(size: usize) -> usize {
    if size > INPUT_BYTES_MAX { 0 } else { size.div_ceil(LEAF_BYTES) }
}

/// Hashes leaves of as many blocks and the same number.
type Run = fn(Platform, &[u8; 32], &[u8], &[Leaf], &mut [Hash]);

/// What hashes leaves of each number of blocks.
const RUNS: [Run; LEAF_BYTES / BLOCK_BYTES + 1] = [
    run::<0>,
    run::<64>,
    run::<128>,
    run::<192>,
    run::<256>,
    run::<320>,
    run::<384>,
    run::<448>,
    run::<512>,
    run::<576>,
    run::<640>,
    run::<704>,
    run::<768>,
    run::<832>,
    run::<896>,
    run::<960>,
    run::<1024>,
];

fn run<const BYTES: usize>(
    platform: Platform,
    key: &[u8; 32],
    bytes: &[u8],
    leaves: &[Leaf],
    hashes: &mut [Hash],
) {
    let key = words_from_le_bytes_32(key);
    let (mut inputs, mut wide) = ([&[0; BYTES]; LANES], [0; LANES * 32]);
    for (input, leaf) in inputs.iter_mut().zip(leaves) {
        *input = bytes[leaf.at..].first_chunk().expect("a leaf has its blocks");
    }
    let (inputs, wide) = (&inputs[..leaves.len()], &mut wide[..leaves.len() * 32]);
    let counter = u64::from(leaves.first().map_or(0, |leaf| leaf.number));
    let (start, end) = (CHUNK_START, if BYTES == LEAF_BYTES { CHUNK_END } else { 0 });
    if BYTES > 0 {
        platform.hash_many(inputs, &key, counter, IncrementCounter::No, KEYED_HASH, start, end, wide);
    }
    for (leaf, wide) in leaves.iter().zip(wide.as_chunks().0) {
        let hash = &mut hashes[leaf.to as usize];
        *hash = *wide;
        if BYTES == LEAF_BYTES {
            continue;
        }
        let last = &bytes[leaf.at + BYTES..leaf.at + leaf.bytes];
        let (mut block, mut words) = ([0; BLOCK_BYTES], key);
        block[..last.len()].copy_from_slice(last);
        let mut flags = KEYED_HASH | CHUNK_END;
        if BYTES == 0 {
            flags |= CHUNK_START;
        } else {
            words = words_from_le_bytes_32(wide);
        }
        if leaf.is_root {
            flags |= ROOT;
        }
        platform.compress_in_place(&mut words, &block, last.len() as u8, counter, flags);
        *hash = le_bytes_from_words_32(&words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(key: &[u8; 32], inputs: &[Vec<u8>]) {
        let sizes: Vec<_> = inputs.iter().map(Vec::len).collect();
        let hashes = Hasher::new(key).hash(&inputs.concat(), &sizes);
        let right: Vec<Hash> = inputs.iter().map(|input| blake3::keyed_hash(key, input).into()).collect();
        assert!(hashes == right, "inputs of {sizes:?} bytes");
    }

    fn pattern(size: usize) -> Vec<u8> {
        (0..size).map(|at| (at * at / 7) as u8 ^ size as u8).collect()
    }

    #[test]
    fn inputs_of_any_size_have_the_hashes_that_they_have_alone() {
        let key = [7; 32];
        (0..=2 * LEAF_BYTES + 1).for_each(|size| check(&key, &[pattern(size)]));
        for size in [3, 4, 5, 17, 64].map(|leaves| leaves * LEAF_BYTES) {
            (size - 1..=size + 1).for_each(|size| check(&key, &[pattern(size)]));
        }
        // As many as lanes, one less, one more.
        for count in [2, 3, 7, 8, 9, 15, 16, 17, 33] {
            (0..=LEAF_BYTES).step_by(31).for_each(|size| check(&key, &vec![pattern(size); count]));
        }
        check(&key, &(0..=LEAF_BYTES).map(pattern).collect::<Vec<_>>());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn inputs_side_by_side_have_the_hashes_that_they_have_alone(
            key: [u8; 32],
            inputs in prop::collection::vec(
                prop_oneof![
                    8 => prop::collection::vec(any::<u8>(), 0..1100),
                    2 => prop::collection::vec(any::<u8>(), 1000..6000),
                ],
                0..60,
            ),
        ) {
            check(&key, &inputs);
        }
    }
}
