//! Emptying segments of the file that are mostly unused.
//!
//! What is left in them is copied to the open segment. Which entries name it is found by a walk over all
//! entries, a few with their shard locked at a time: so a record need not know its key, and keys can be
//! renamed and moved as if nothing were on disk. The walk begins only where that gives much space back
//! ([`mantissa_persist::tier::TierFile::sparse_segments`]), and one walk empties as many such segments as
//! there is room for: it comes across the records of all of them by turns, so one more would keep all from
//! becoming empty.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_persist::tier::{Refusal, TierFile};
use mantissa_store::cold::Cold;
use mantissa_store::{KeyHash, ShardSet};
use mantissa_sys::clock;

use crate::engine::Engine;

/// Entries that are looked at with their shard locked.
const LOCKED_ENTRIES: usize = 200;
/// How long one step takes about.
const STEP_TIME: Duration = Duration::from_millis(5);
/// How long it rests after a walk, or where there is nothing to do.
const REST: Duration = Duration::from_secs(1);

/// The walk.
#[derive(Default)]
pub struct Cleaner {
    sparse: HashSet<u32>,
    shard: usize,
    database: usize,
    cursor: u64,
    next: Option<std::time::Instant>,
}

impl Cleaner {
    /// Walks on for some milliseconds, if there is anything to do.
    pub fn go_on(&mut self, engine: &Engine) {
        let Some(file) = engine.tier.file() else { return };
        let now = clock::now();
        if self.sparse.is_empty() {
            if self.next.is_some_and(|next| now < next) {
                return;
            }
            let sparse = file.sparse_segments().into_iter().collect();
            *self = Cleaner { sparse, next: Some(now + REST), ..Cleaner::default() };
        }
        while !self.sparse.is_empty() && clock::since(now) < STEP_TIME {
            if !self.step(engine, file) {
                return;
            }
        }
    }

    /// Looks at some entries. False if it has to wait.
    fn step(&mut self, engine: &Engine, file: &TierFile) -> bool {
        let is_over = || engine.stopping.load(Ordering::Relaxed);
        let locked = engine.keyspace.lock_or_give_up(ShardSet::one(self.shard), is_over);
        let Some(locked) = locked else { return false };
        let Some(database) = locked.shard(self.shard).and_then(|shard| shard.databases.get(self.database))
        else {
            drop(locked);
            (self.shard, self.database) = (self.shard + 1, 0);
            if self.shard >= engine.keyspace.shard_count() {
                self.sparse.clear();
            }
            return true;
        };
        let mut found: Vec<(KeyHash, Cold)> = Vec::new();
        let (mut seen, mut cursor) = (0, self.cursor);
        loop {
            cursor = database.scan(cursor, |entry| {
                seen += 1;
                let cold = entry.cold().filter(|cold| self.sparse.contains(&cold.segment().number()));
                found.extend(cold.map(|cold| (engine.keyspace.hash(entry.key()), cold)));
            });
            if cursor == 0 || seen >= LOCKED_ENTRIES {
                break;
            }
        }
        drop(locked);
        for (hash, cold) in found {
            match file.copy_record(&cold) {
                Ok(copy) => self.rename(engine, hash, &cold, copy),
                // What can not be read stays where it is.
                Err(Refusal::Unfit) => {}
                // The walk looks at these entries once more.
                Err(Refusal::Behind) => return false,
                Err(Refusal::Full) => {
                    self.sparse.clear();
                    return false;
                }
            }
        }
        self.cursor = cursor;
        self.database += usize::from(cursor == 0);
        true
    }

    /// Has the entry name the copy, if it still names the record.
    fn rename(&self, engine: &Engine, hash: KeyHash, from: &Cold, to: Cold) {
        let mut locked = engine.keyspace.lock(ShardSet::one(self.shard));
        let database = locked.shard_mut(self.shard).and_then(|shard| shard.databases.get_mut(self.database));
        let Some(database) = database else { return };
        if database.keep_otherwise(hash, |_| true, |entry| entry.move_record(from, to)) == Some(true) {
            engine.tier.moved.fetch_add(1, Ordering::Relaxed);
        }
    }
}
