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
use mantissa_store::KeyHash;
use mantissa_store::cold::Cold;
use mantissa_sys::clock;

use crate::engine::Engine;
use crate::tier::walk::Walk;

/// How long one step takes about.
const STEP_TIME: Duration = Duration::from_millis(5);
/// How long it rests after a walk, or where there is nothing to do.
const REST: Duration = Duration::from_secs(1);

/// The walk.
#[derive(Default)]
pub struct Cleaner {
    sparse: HashSet<u32>,
    walk: Walk,
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
        let locked = engine.keyspace.lock_or_give_up(self.walk.shards(), is_over);
        let Some(locked) = locked else { return false };
        let (found, next) = self.walk.step(locked, |entry| {
            let cold = entry.cold().filter(|cold| self.sparse.contains(&cold.segment().number()))?;
            Some((engine.keyspace.hash(entry.key()), cold))
        });
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
        self.walk = next;
        if self.walk.is_over(&engine.keyspace) {
            self.sparse.clear();
        }
        true
    }

    /// Has the entry name the copy, if it still names the record.
    fn rename(&self, engine: &Engine, hash: KeyHash, from: &Cold, to: Cold) {
        let mut locked = engine.keyspace.lock(self.walk.shards());
        let Some(database) = self.walk.database_in(&mut locked) else { return };
        if database.keep_otherwise(hash, |_| true, |entry| entry.move_record(from, to)) == Some(true) {
            engine.tier.moved.fetch_add(1, Ordering::Relaxed);
        }
    }
}
