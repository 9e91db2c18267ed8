//! Sets and hashes give back every byte, whatever has been done with them and their clones.
//!
//! One test alone in its process, as it reads the sum of all that the process has allocated.

use mantissa_store::allocator::{CountingAllocator, allocated_bytes};
use mantissa_store::{EncodingLimits, Hash, Set};

#[allow(dead_code, reason = "each test uses a part of it")]
#[path = "../../memory/src/test_random.rs"]
mod test_random;

use test_random::random_numbers;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn text(number: u64) -> Vec<u8> {
    match number % 5 {
        0 => (number >> 50).to_string().into_bytes(),
        1 => vec![b'x'; 200 + (number >> 57) as usize],
        _ => format!("text:{}", number >> 51).into_bytes(),
    }
}

fn churn(seed: u64, limits: &EncodingLimits) {
    let mut random = random_numbers(seed);
    let (mut set, mut hash) = (Set::new(), Hash::new());
    let mut clones = Vec::new();
    for _ in 0..6_000 {
        let (field, value) = (text(random()), text(random()));
        match random() % 10 {
            0..3 => _ = set.add(&field, limits),
            3 => _ = set.remove(&field),
            4..7 => _ = hash.set(&field, &value, limits),
            7 => _ = hash.remove(&field),
            8 => _ = hash.set_expiry(&field, Some(1 + (random() % 900) as i64)),
            _ if random().is_multiple_of(32) => clones.push((set.clone(), hash.clone())),
            _ => _ = hash.remove_expired(random() as i64 % 300, 3, |_| ()),
        }
        if clones.len() > 4 {
            clones.swap_remove(random() as usize % 5);
        }
    }
    std::thread::spawn(move || drop(clones)).join().expect("dropping does not panic");
}

#[test]
fn sets_and_hashes_give_back_what_they_took() {
    let narrow = EncodingLimits { hash_entries_max: 64, ..EncodingLimits::default() };
    let wide = EncodingLimits {
        hash_entries_max: usize::MAX,
        hash_value_bytes_max: usize::MAX,
        set_listpack_entries_max: usize::MAX,
        set_listpack_value_bytes_max: usize::MAX,
        ..EncodingLimits::default()
    };
    // What is allocated once (the hashes' seed, the test's own) is there after the first round.
    churn(0, &narrow);
    let before = allocated_bytes();
    (1..12).for_each(|seed| churn(seed, if seed % 4 == 0 { &wide } else { &narrow }));
    let after = allocated_bytes();
    assert!(after.abs_diff(before) < 16 << 10, "{before} bytes before, {after} after");

    let limits = EncodingLimits::default();
    let mut set = Set::new();
    (0..50_000).for_each(|number| assert!(set.add(format!("member:{number:012}").as_bytes(), &limits)));
    let taken = allocated_bytes() - after;
    let told = set.memory_usage();
    // It tells the sizes of the cells in slabs.
    assert!(
        cfg!(feature = "whole_allocations") || told.abs_diff(taken) < 2 << 10,
        "{taken} bytes are taken, {told} told"
    );
    let mut clone = set.clone();
    assert!(allocated_bytes() - after - taken < 1 << 10, "a clone shares everything");
    clone.remove(b"member:000000000000");
    assert!(allocated_bytes() - after - taken < 16 << 10, "and what it changes takes little");
}
