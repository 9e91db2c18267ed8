//! Walks that visit no key twice, in steps between which the table may be changed.
//!
//! # Guarantee
//!
//! A key that is there during the whole walk is visited exactly once, any other at most once, however often
//! the table grows and shrinks, is emptied, or is exchanged for another meanwhile.
//!
//! # Mechanism
//!
//! [`crate::Table::scan`] goes through the hashes in ascending order of their bits reversed: a cursor stands
//! for the number below which all have been visited. Only when the table has shrunk below the size that the
//! cursor is of, a step visits some of them again. They are told by their hashes.

use crate::entry::Entry;
use crate::shard::Database;

/// The part of the table below a cursor of [`Database::walk`]: from 0 at the beginning towards 1.
pub fn walked_share(cursor: u64) -> f64 {
    cursor.reverse_bits() as f64 / 2.0_f64.powi(64)
}

impl Database {
    /// Visits a part of the entries, a bucket or two, and returns the cursor of the next part. 0 starts, and
    /// 0 returned ends the walk.
    pub fn walk(&self, cursor: u64, mut visit: impl FnMut(&Entry)) -> u64 {
        self.table.scan_ahead(cursor, Entry::prefetch);
        if !self.table.revisits(cursor) {
            return self.table.scan(cursor, visit);
        }
        let walked = cursor.reverse_bits();
        self.table.scan(cursor, |entry| {
            if self.hasher.hash(entry.key()).0.reverse_bits() >= walked {
                visit(entry);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::key_hash::KeyHasher;
    use crate::test_random::Random;
    use crate::value::Value;

    fn add(database: &mut Database, hasher: KeyHasher, key: &[u8]) {
        let entry = Entry::new(key, Value::String(b"1".to_vec()), None, 0);
        database.insert_new(hasher.hash(key), entry);
    }

    #[test]
    fn keys_are_visited_once_while_the_table_grows_and_shrinks() {
        let hasher = KeyHasher::of_this_run();
        let mut random = Random::new(25);
        let mut shrank = 0;
        for round in 0..40 {
            let mut database = Database::new(hasher);
            let stays: Vec<Vec<u8>> = (0..40).map(|number| format!("stays:{number}").into_bytes()).collect();
            stays.iter().for_each(|key| add(&mut database, hasher, key));
            let other = |number: u64| format!("other:{}", number % 3_000).into_bytes();
            (0..3_000 * (round % 2)).for_each(|number| add(&mut database, hasher, &other(number)));
            let mut visits: HashMap<Vec<u8>, u32> = HashMap::new();
            let mut cursor = 0;
            loop {
                shrank += u32::from(database.table.revisits(cursor));
                cursor = database.walk(cursor, |entry| *visits.entry(entry.key().to_vec()).or_default() += 1);
                if cursor == 0 {
                    break;
                }
                let (adds, count) = (random.below(2) == 0, random.below(3) * random.below(700));
                for _ in 0..count {
                    let key = other(random.next());
                    if adds {
                        add(&mut database, hasher, &key);
                    } else {
                        database.remove(hasher.hash(&key), &key);
                    }
                }
            }
            assert!(visits.values().all(|&count| count == 1), "a key was visited twice");
            assert!(stays.iter().all(|key| visits.contains_key(key)), "a key was missed");
        }
        assert!(shrank > 20, "the table has shrunk below the cursor {shrank} times");
    }

    #[test]
    fn the_share_rises_to_one() {
        assert_eq!(walked_share(0), 0.0);
        assert_eq!(walked_share(1), 0.5);
        assert_eq!(walked_share(3), 0.75);
    }
}
