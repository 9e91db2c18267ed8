//! Moves entries together, so that the memory that deletions left in holes goes back to the system.
//!
//! Once a second it computes how many slabs could be freed ([`slab::begin_compaction`]). If they are many
//! enough, a walk over all shards moves the entries out of the emptiest slabs, in short runs that take a
//! share of one core, so that a shard is never locked for long. While much is written, holes fill up by
//! themselves and only much waste starts a walk; when the size of memory is stable, less does. `activedefrag
//! yes` begins at `active-defrag-threshold-lower` and takes the share of `active-defrag-cycle-max`. A walk
//! that gave little back is followed by a longer and longer pause.

use mantissa_sys::{clock, simulation};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mantissa_store::{Keyspace, ShardSet, allocator, slab};

use mantissa_config::Config;

/// Percent of slabs that must be superfluous before entries are moved, without `activedefrag`.
const SPARE_PERCENT: usize = 25;
/// The same while allocated memory has changed by less than one in [`REST`] since it was last looked at.
const SPARE_PERCENT_AT_REST: usize = 3;
const REST: usize = 64;
/// Between two looks; and between two walks, at first and after some for nothing.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Percent of one core that the walk takes, without `activedefrag`.
const EFFORT_PERCENT: u32 = 10;
/// Maximum time that the walk runs, and a shard is locked, at a time. The pause until the next run is several
/// times as long.
const RUN_TIME_MAX: Duration = Duration::from_micros(50);
/// Between two runs while a snapshot is written, which shares values that could be moved.
const PAUSE_WHILE_SAVING: Duration = Duration::from_millis(10);
/// Attempts to lock a shard.
const ATTEMPTS_MAX: u32 = 20;
/// Buckets that are looked at between two looks at the clock.
const BUCKETS_PER_LOOK: usize = 16;

/// Statistics, for INFO.
#[derive(Default)]
pub struct Figures {
    /// Whether a walk is under way.
    pub is_running: AtomicBool,
    /// Bytes that slabs held before a walk and not after it, summed up.
    pub released_bytes: AtomicU64,
    /// Walks that have come to their end.
    pub walks: AtomicU64,
    /// Time spent, in us.
    pub spent_us: AtomicU64,
}

/// A walk over the keyspace.
struct Walk {
    shard: usize,
    database: usize,
    cursor: u64,
    /// Of large collections.
    slice: usize,
    held_before: usize,
    next_run: Instant,
}

/// The part of the background thread that does this.
pub struct Compactor {
    looked: Instant,
    /// How long after a walk the next may begin.
    pause: Duration,
    ended: Instant,
    /// Bytes that were allocated when it was last looked.
    allocated_bytes: usize,
    walk: Option<Walk>,
}

impl Default for Compactor {
    fn default() -> Self {
        Compactor {
            looked: clock::now(),
            pause: PAUSE_MIN,
            ended: clock::now(),
            allocated_bytes: 0,
            walk: None,
        }
    }
}

impl Compactor {
    /// Has memory ready, and begins a walk if it is time and worth it. To be called several times a second.
    pub fn tick(&mut self, figures: &Figures, config: &Config, is_loading: bool) {
        if is_loading {
            // All threads make memory ready by using it, and no client waits for that.
            slab::forget_growth();
        } else {
            slab::prepare();
        }
        // The slabs are the whole process's: in a simulation other runs would decide what this one does.
        if self.walk.is_some() || clock::since(self.looked) < PAUSE_MIN || simulation::is_active() {
            return;
        }
        self.looked = clock::now();
        let spare_percent = self.spare_percent(config);
        let held_before = slab::held_bytes();
        if clock::since(self.ended) >= self.pause && slab::begin_compaction(spare_percent) > 0 {
            let next_run = clock::now();
            self.walk = Some(Walk { shard: 0, database: 0, cursor: 0, slice: 0, held_before, next_run });
            figures.is_running.store(true, Ordering::Relaxed);
        } else {
            slab::purge();
        }
    }

    /// When the walk under way runs again.
    pub fn next_run(&self) -> Option<Instant> {
        self.walk.as_ref().map(|walk| walk.next_run)
    }

    /// Goes on with the walk if it is time, and no snapshot is being written.
    pub fn go_on(&mut self, keyspace: &Keyspace, figures: &Figures, config: &Config, is_saving: bool) {
        let began = clock::now();
        let Some(walk) = self.walk.as_mut().filter(|walk| walk.next_run <= began) else { return };
        if is_saving {
            walk.next_run = began + PAUSE_WHILE_SAVING;
            return;
        }
        if walk.go_on(keyspace, began + RUN_TIME_MAX) {
            self.end(figures);
        } else {
            let share = if config.activedefrag { config.active_defrag_cycle_max } else { EFFORT_PERCENT };
            let share = share.clamp(1, 100);
            walk.next_run = began + (clock::since(began) * 100 / share).max(RUN_TIME_MAX);
        }
        let spent = clock::since(began).as_micros() as u64;
        figures.spent_us.fetch_add(spent, Ordering::Relaxed);
    }

    /// Ends the walk and notes what came of it.
    fn end(&mut self, figures: &Figures) {
        let held_before = self.walk.take().map_or(0, |walk| walk.held_before);
        let released = held_before.saturating_sub(slab::held_bytes());
        slab::end_compaction();
        slab::purge();
        self.pause = match released >= held_before / slab::WORTHWHILE {
            true => PAUSE_MIN,
            false => (2 * self.pause).min(PAUSE_MAX),
        };
        (self.looked, self.ended) = (clock::now(), clock::now());
        figures.is_running.store(false, Ordering::Relaxed);
        figures.walks.fetch_add(1, Ordering::Relaxed);
        figures.released_bytes.fetch_add(released as u64, Ordering::Relaxed);
    }

    /// Percent of slabs that must be superfluous for a walk to begin now.
    fn spare_percent(&mut self, config: &Config) -> usize {
        let before = std::mem::replace(&mut self.allocated_bytes, allocator::allocated_bytes());
        let is_at_rest = self.allocated_bytes.abs_diff(before) < before / REST;
        let configured = config.activedefrag.then_some(config.active_defrag_threshold_lower as usize);
        let percent = if is_at_rest { SPARE_PERCENT_AT_REST } else { SPARE_PERCENT };
        configured.map_or(percent, |configured| configured.min(percent))
    }
}

impl Walk {
    /// Goes on until `deadline`; true at the end.
    fn go_on(&mut self, keyspace: &Keyspace, deadline: Instant) -> bool {
        let mut attempts = 0;
        while self.shard < keyspace.shard_count() {
            let Ok(mut locked) = keyspace.try_lock(ShardSet::one(self.shard)) else {
                attempts += 1;
                // A shard that stays locked, perhaps by a slow script, is left to the next run.
                if attempts == ATTEMPTS_MAX {
                    return false;
                }
                std::thread::yield_now();
                continue;
            };
            attempts = 0;
            loop {
                let Some(shard) = locked.shard_mut(self.shard) else { return false };
                let Some(database) = shard.databases.get_mut(self.database) else {
                    (self.shard, self.database) = (self.shard + 1, 0);
                    break;
                };
                for _ in 0..BUCKETS_PER_LOOK {
                    (self.cursor, self.slice) = database.compact(self.cursor, self.slice);
                    if (self.cursor, self.slice) == (0, 0) {
                        self.database += 1;
                        break;
                    }
                    if self.slice > 0 {
                        break;
                    }
                }
                if clock::now() >= deadline {
                    return false;
                }
            }
        }
        true
    }
}
