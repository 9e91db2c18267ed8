//! A short run of what the fuzz targets of the collections run.

mod operations;

#[allow(dead_code, reason = "each test uses a part of it")]
#[path = "../../memory/src/test_random.rs"]
mod test_random;

use test_random::random_numbers;

/// Fewer under tools that watch memory, which are slow.
const SEEDS: u64 = if cfg!(feature = "whole_allocations") { 3 } else { 20 };

/// Runs operations of several seeds, each of which is told if it fails.
fn run(operations: fn(&[u8])) {
    for seed in 0..SEEDS {
        println!("seed {seed}");
        let mut random = random_numbers(seed);
        let bytes: Vec<u8> = (0..6_000).map(|_| random() as u8).collect();
        operations(&bytes);
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
fn arrays_do_as_a_standard_map_does() {
    run(operations::array_operations);
}

#[test]
fn lists_do_as_a_standard_deque_does() {
    run(operations::list_operations);
}

#[test]
fn tables_do_as_a_standard_set_does() {
    run(operations::table_operations);
}

#[test]
fn streams_do_as_a_standard_map_does() {
    run(operations::stream_operations);
}

#[test]
fn bloom_filters_take_any_chunk() {
    run(operations::bloom_operations);
}

#[test]
fn cuckoo_filters_take_any_chunk() {
    run(operations::cuckoo_operations);
}
