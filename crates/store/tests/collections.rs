//! A short run of what the fuzz targets of the collections run.

mod operations;

fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Fewer under tools that watch memory, which are slow.
const SEEDS: u64 = if cfg!(feature = "whole_allocations") { 3 } else { 20 };

/// Runs operations of several seeds, each of which is told if it fails.
fn run(operations: fn(&[u8])) {
    for seed in 0..SEEDS {
        println!("seed {seed}");
        operations(&random_bytes(seed, 6_000));
    }
}

#[test]
fn sets_do_as_a_standard_set_does() {
    run(operations::set_operations);
}

#[test]
fn hashes_do_as_a_standard_map_does() {
    run(operations::hash_operations);
}

#[test]
fn sorted_sets_do_as_a_standard_map_and_a_sorted_vector_do() {
    run(operations::sorted_set_operations);
}

#[test]
fn lists_do_as_a_standard_deque_does() {
    run(operations::list_operations);
}

#[test]
fn streams_do_as_a_standard_map_does() {
    run(operations::stream_operations);
}
