//! A hash table against a standard set, with a scan under way.

use std::collections::BTreeSet;

use mantissa_store::{Found, Table};

use super::Choices;

/// Items are allocations, so that one that is lost or dropped twice is noticed.
type Item = Box<u64>;
type Model = BTreeSet<u64>;

/// A scan that is not at its end.
#[derive(Default)]
struct Scan {
    cursor: u64,
    /// What has been in the table ever since the scan began.
    stayed: Model,
    seen: Model,
}

impl Scan {
    fn begin(model: &Model) -> Self {
        Scan { stayed: model.clone(), ..Scan::default() }
    }

    /// Takes a step; at the end all that has stayed must have been seen, and another scan begins.
    fn step(&mut self, table: &mut Table<Item>, model: &Model, moves: bool) {
        let seen = &mut self.seen;
        self.cursor = match moves {
            true => table.scan_mut(self.cursor, |item| _ = seen.insert(**item)),
            false => table.scan(self.cursor, |item| _ = seen.insert(**item)),
        };
        if self.cursor == 0 {
            assert!(self.stayed.is_subset(&self.seen), "the scan has missed something");
            *self = Scan::begin(model);
        }
    }
}

fn check(table: &Table<Item>, model: &Model) {
    assert_eq!(table.len(), model.len());
    assert_eq!(table.is_empty(), model.is_empty());
    let mut items: Vec<u64> = table.iter().map(|item| **item).collect();
    items.sort_unstable();
    assert!(items.iter().eq(model));
    let mut number = 0_u64;
    let random = table.random(|| {
        number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
        number
    });
    assert_eq!(random.is_some(), !model.is_empty());
    assert!(random.is_none_or(|item| model.contains(item)));
}

/// Does to a table what the bytes say. The first ones choose how well it hashes: badly makes long chains.
pub fn table_operations(data: &[u8]) {
    let mut choices = Choices(data);
    let (Some(quality), Some(range)) = (choices.next(), choices.number()) else { return };
    let mask = [u64::MAX, 0xff00_0000_0000_ffff, 0x0003_0000_0000_00ff, 0x0001_0000_0000_0003]
        [usize::from(quality % 4)];
    let hash_of = move |item: &Item| item.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31) & mask;
    let (mut table, mut model) = (Table::<Item>::new(), Model::new());
    if quality & 4 != 0 {
        table.reserve(range % 2_000);
    }
    let mut scan = Scan::default();
    while let (Some(operation), Some(number)) = (choices.next(), choices.number()) {
        let number = (number % (1 + range % 1_500)) as u64;
        let item = Box::new(number);
        let hash = hash_of(&item);
        let equal = |other: &Item| **other == number;
        match operation % 16 {
            0..4 => {
                let (found, is_new) = table.get_or_insert_with(hash, equal, || item, hash_of);
                assert_eq!((**found, is_new), (number, model.insert(number)));
            }
            4..6 if !model.contains(&number) => {
                assert_eq!(**table.insert(hash, item, hash_of), number);
                model.insert(number);
            }
            6..9 => {
                assert_eq!(table.remove(hash, equal, hash_of).is_some(), model.remove(&number));
                scan.stayed.remove(&number);
            }
            9 => match table.get_or_take(hash, equal, |item| **item % 2 == 0, hash_of) {
                Found::Taken(item) => {
                    assert!(*item == number && number.is_multiple_of(2) && model.remove(&number));
                    scan.stayed.remove(&number);
                }
                Found::Kept(item) => assert!(**item == number && number % 2 == 1 && model.contains(&number)),
                Found::Missing => assert!(!model.contains(&number)),
            },
            10 => {
                // As many of them come, or go, as it takes for the table to grow, or to shrink.
                for other in number..number + 100 {
                    let item = Box::new(other);
                    let hash = hash_of(&item);
                    if operation & 16 == 0 {
                        let (_, is_new) =
                            table.get_or_insert_with(hash, |item| **item == other, || item, hash_of);
                        assert_eq!(is_new, model.insert(other));
                    } else {
                        let removed = table.remove(hash, |item| **item == other, hash_of);
                        assert_eq!(removed.is_some(), model.remove(&other));
                        scan.stayed.remove(&other);
                    }
                }
            }
            11 => check(&table, &model),
            12..15 => scan.step(&mut table, &model, operation & 16 != 0),
            _ => {
                assert_eq!(table.get(hash, equal).is_some(), model.contains(&number));
                assert!(table.get_mut(hash, equal).is_none_or(|item| **item == number));
            }
        }
    }
    check(&table, &model);
}
