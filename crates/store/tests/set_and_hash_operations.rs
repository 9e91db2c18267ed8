//! A short run of what the fuzz targets `set` and `hash` run.

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

#[test]
fn sets_do_as_a_standard_set_does() {
    for seed in 0..20 {
        operations::set_operations(&random_bytes(seed, 6_000));
    }
}

#[test]
fn hashes_do_as_a_standard_map_does() {
    for seed in 0..20 {
        operations::hash_operations(&random_bytes(seed, 6_000));
    }
}
