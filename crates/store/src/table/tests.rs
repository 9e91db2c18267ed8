//! The table against sets of the standard library.

use super::*;
use crate::test_random::random_numbers;
use std::collections::HashSet;

fn hash_of(item: &u64) -> u64 {
    item.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (item.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 29)
}

fn insert(table: &mut Table<u64>, item: u64) {
    table.insert(hash_of(&item), item, hash_of);
}

fn remove(table: &mut Table<u64>, item: u64) -> Option<u64> {
    table.remove(hash_of(&item), |other| *other == item, hash_of)
}

#[test]
fn behaves_like_a_set_while_growing_and_shrinking() {
    let mut random = random_numbers(7);
    let mut table = Table::new();
    let mut model = HashSet::new();
    for round in 0..200_000_u64 {
        let item = random() % 20_000;
        let one_in_four = random().is_multiple_of(4);
        let inserting = if (round / 40_000) % 2 == 0 { !one_in_four } else { one_in_four };
        if inserting && model.insert(item) {
            insert(&mut table, item);
        } else if !inserting {
            assert_eq!(remove(&mut table, item).is_some(), model.remove(&item), "round {round}");
        }
        assert_eq!(table.len(), model.len());
        assert_eq!(table.get(hash_of(&item), |other| *other == item).is_some(), model.contains(&item));
    }
    assert_eq!(table.iter().copied().collect::<HashSet<_>>(), model);
    for item in model {
        assert_eq!(remove(&mut table, item), Some(item));
    }
    assert!(table.is_empty() && table.bucket_count() == 1);
}

#[test]
fn a_reserved_table_is_like_one_that_grew() {
    for count in [0, 1, 5, 6, 11, 12, 100, 1_000, 5_632, 70_000] {
        let mut table = Table::new();
        table.reserve(count as usize);
        let buckets = table.bucket_count();
        (0..count).for_each(|item| insert(&mut table, item));
        assert!(table.bucket_count() <= buckets + 1, "{count} items");
        assert!((0..count).all(|item| table.get(hash_of(&item), |other| *other == item).is_some()));
        check_chains(&table);
        (0..count).for_each(|item| assert_eq!(remove(&mut table, item), Some(item)));
        assert!(table.is_empty());
    }
}

#[test]
fn a_table_reserved_for_too_many_shrinks_to_one_that_grew() {
    for (reserved, count) in [(0, 0), (1_000, 0), (1_000, 5), (40_000, 3), (40_000, 9_000), (70_000, 60_000)]
    {
        let mut table = Table::new();
        table.reserve(reserved);
        (0..count).for_each(|item| insert(&mut table, item));
        let mut steps = 1;
        while table.shrink_to_fit(100, hash_of) {
            steps += 1;
            assert!((0..count).all(|item| table.get(hash_of(&item), |other| *other == item).is_some()));
        }
        assert!(steps <= 1 + reserved / 500, "{steps} steps");
        check_chains(&table);
        assert_eq!(table.iter().copied().collect::<HashSet<_>>(), (0..count).collect());
        let mut grown = Table::new();
        (0..count).for_each(|item| insert(&mut grown, item));
        let bytes = table.memory_usage();
        assert!(bytes <= 2 * grown.memory_usage().max(BUCKET_BYTES), "{bytes} bytes for {count} items");
        (count..2 * count + 9).for_each(|item| insert(&mut table, item));
        check_chains(&table);
        (0..2 * count + 9).for_each(|item| assert_eq!(remove(&mut table, item), Some(item)));
    }
}

#[test]
fn a_random_item_of_a_sparse_table_takes_few_draws() {
    let mut table = Table::new();
    table.reserve(500_000);
    (0..3).for_each(|item| insert(&mut table, item));
    let (mut random, mut draws, mut seen) = (random_numbers(5), 0, HashSet::new());
    for _ in 0..200 {
        let item = table.random(|| {
            draws += 1;
            random()
        });
        seen.insert(*item.expect("not empty"));
    }
    assert!(draws <= 200 * 257, "{draws} draws");
    assert_eq!(seen.len(), 3);
}

#[test]
fn scan_returns_what_stays_throughout() {
    for seed in 0..40 {
        let mut random = random_numbers(seed);
        let mut table = Table::new();
        let stable = 1 + random() % 2_000;
        (0..stable).for_each(|item| insert(&mut table, item));
        let mut others: Vec<u64> = Vec::new();
        let mut seen = HashSet::new();
        let mut cursor = 0;
        let mut growing = true;
        loop {
            cursor = table.scan(cursor, |item| {
                seen.insert(*item);
            });
            if cursor == 0 {
                break;
            }
            if random().is_multiple_of(64) {
                growing = !growing;
            }
            for _ in 0..random() % 200 {
                if growing {
                    let item = random() | 1 << 63;
                    insert(&mut table, item);
                    others.push(item);
                } else if let Some(item) = others.pop() {
                    remove(&mut table, item);
                }
            }
            if others.len() > 40_000 {
                growing = false;
            }
        }
        assert!((0..stable).all(|item| seen.contains(&item)), "seed {seed}");
    }
}

#[test]
fn chains_stay_dense_and_are_accounted_for() {
    let mut random = random_numbers(11);
    let mut table = Table::new();
    let mut items: Vec<u64> = Vec::new();
    for round in 0..60_000_u64 {
        if random() % 8 < if (round / 10_000).is_multiple_of(2) { 6 } else { 2 } {
            let item = random();
            insert(&mut table, item);
            items.push(item);
        } else if !items.is_empty() {
            let item = items.swap_remove(random() as usize % items.len());
            assert_eq!(remove(&mut table, item), Some(item));
        }
        if round % 1_000 == 0 {
            check_chains(&table);
        }
    }
    let mut seen = 0;
    let mut cursor = 0;
    loop {
        cursor = table.scan_mut(cursor, |_| seen += 1);
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen, table.len());
}

fn check_chains(table: &Table<u64>) {
    let mut overflow_bytes = 0;
    for index in 0..table.bucket_count {
        let mut block = table.bucket(index);
        let mut is_head = true;
        loop {
            let next = block.overflow();
            if !is_head {
                overflow_bytes += Block::<u64>::block_bytes(block.capacity());
            }
            if next.is_some() || !is_head {
                assert_eq!(block.free_slot(), None);
                assert!(block.slot_count() >= 2 && (next.is_none() || block.capacity() == SLOTS));
            }
            let Some(next) = next else { break };
            (block, is_head) = (next, false);
        }
    }
    assert_eq!(overflow_bytes, table.overflow_bytes);
}

#[test]
fn random_picks_reach_every_item() {
    let mut table = Table::new();
    (0..100).for_each(|item| insert(&mut table, item));
    let mut random = random_numbers(3);
    let mut counts = [0_u32; 100];
    for _ in 0..100_000 {
        counts[*table.random(&mut random).expect("not empty") as usize] += 1;
    }
    assert!(counts.iter().all(|&count| (700..1300).contains(&count)), "{counts:?}");
}
