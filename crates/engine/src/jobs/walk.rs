//! A walk over all shards of a database, a few entries of one shard at a time.

use std::time::Instant;

use mantissa_store::{Database, Entry, walked_share};
use mantissa_sys::clock;

/// Where a walk is. See [`Database::walk`] for what it guarantees: a key never changes its shard.
pub struct KeyWalk {
    /// Of each shard; `None` where the walk is at its end.
    cursors: Vec<Option<u64>>,
    at: usize,
    /// Shards that are not at their end.
    left: usize,
}

impl KeyWalk {
    /// At the beginning.
    pub fn new(shard_count: usize) -> Self {
        KeyWalk { cursors: vec![Some(0); shard_count], at: 0, left: shard_count }
    }

    /// The shard whose turn it is, each in turn, so that none is locked again at once. `None` at the end.
    pub fn next_shard(&mut self) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        while self.cursors[self.at].is_none() {
            self.at = (self.at + 1) % self.cursors.len();
        }
        let shard = self.at;
        self.at = (self.at + 1) % self.cursors.len();
        Some(shard)
    }

    /// Visits about `entries_max` entries of a shard's part of the database, or fewer when it is `deadline`.
    pub fn step(
        &mut self,
        shard: usize,
        database: &Database,
        entries_max: usize,
        deadline: Instant,
        mut visit: impl FnMut(&Entry),
    ) {
        let Some(mut cursor) = self.cursors[shard] else { return };
        let mut visited = 0;
        loop {
            cursor = database.walk(cursor, |entry| {
                visited += 1;
                visit(entry);
            });
            if cursor == 0 {
                self.cursors[shard] = None;
                self.left -= 1;
                return;
            }
            if visited >= entries_max || clock::now() >= deadline {
                self.cursors[shard] = Some(cursor);
                return;
            }
        }
    }

    /// The part that has been walked, from 0 to 1.
    pub fn share(&self) -> f64 {
        let sum: f64 = self.cursors.iter().map(|cursor| cursor.map_or(1.0, walked_share)).sum();
        sum / self.cursors.len() as f64
    }
}
