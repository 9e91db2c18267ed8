//! What is known of dump files: changes that are not saved, the order of dumps, saves and loads under way.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::loading::LoadProgress;
use super::progress::SnapshotProgress;

/// Counts changes, each worker in a cache line of its own.
pub struct Changes {
    counters: [ChangeCounter; CHANGE_COUNTER_COUNT],
    saved: AtomicU64,
}

#[derive(Default)]
#[repr(align(128))]
struct ChangeCounter(AtomicU64);

const CHANGE_COUNTER_COUNT: usize = 64;

impl Default for Changes {
    fn default() -> Self {
        Changes { counters: std::array::from_fn(|_| ChangeCounter::default()), saved: AtomicU64::new(0) }
    }
}

impl Changes {
    /// Counts changes of a worker.
    #[inline]
    pub fn add(&self, worker: usize, changes: u64) {
        self.counters[worker % CHANGE_COUNTER_COUNT].0.fetch_add(changes, Ordering::Relaxed);
    }

    /// All changes since the start.
    pub fn total(&self) -> u64 {
        self.counters.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum()
    }

    /// The changes that have not been saved.
    pub fn get(&self) -> u64 {
        self.total().saturating_sub(self.saved.load(Ordering::Relaxed))
    }

    /// Says that the changes up to this total have been saved.
    pub fn saved(&self, total: u64) {
        self.saved.fetch_max(total, Ordering::Relaxed);
    }
}

/// The order of what is saved. Each state that a dump may hold has the number of its cut, the instant whose
/// state it is: all shards are locked then. No dump takes the place of one with a later cut.
#[derive(Default)]
pub struct Cuts {
    last: AtomicU64,
    /// The number of the last FLUSHALL.
    pub flushed: AtomicU64,
    /// The number of the dump that has the file's name; held while one gets it.
    published: Mutex<u64>,
}

impl Cuts {
    /// The number of a cut at this instant. All shards must be locked, or those of another keyspace whose
    /// state is that of all.
    pub fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether the data have been flushed since the cut with this number.
    pub fn is_void(&self, number: u64) -> bool {
        self.flushed.load(Ordering::Relaxed) > number
    }

    /// Permission to rename the dump of this cut to the file's name; `None` if a later one has it.
    pub fn publish(&self, number: u64) -> Option<MutexGuard<'_, u64>> {
        let mut published = self.published.lock();
        (number > *published).then(|| {
            *published = number;
            published
        })
    }
}

/// The state after a FLUSHALL.
#[derive(Clone, Copy)]
pub struct Flush {
    /// The number of its cut.
    pub number: u64,
    /// The changes since the start; the flush is one of them.
    pub changes: u64,
}

/// What is known of dump files.
#[derive(Default)]
pub struct Persistence {
    /// Changes since the last successful save.
    pub dirty: Changes,
    /// When the last successful save ended (at first: when the engine started), Unix time in s.
    pub last_save_s: AtomicI64,
    /// When a background save was last tried, Unix time in s.
    pub last_try_s: AtomicI64,
    /// How long the last background save took, in s; -1 before the first.
    pub last_duration_s: AtomicI64,
    /// The last background save failed.
    pub last_save_failed: AtomicBool,
    /// A background save is running.
    pub saving: AtomicBool,
    /// When it began, Unix time in s.
    pub saving_since_s: AtomicI64,
    /// It is to end without a file: BGSAVE CANCEL.
    pub cancelled: AtomicBool,
    /// One is to follow it: BGSAVE SCHEDULE.
    pub scheduled: AtomicBool,
    /// Held while a dump of the data is written.
    pub writing: Mutex<()>,
    /// The order of dumps.
    pub cuts: Cuts,
    /// The last FLUSHALL, until its dump is written.
    pub flush: Mutex<Option<Flush>>,
    /// Held while that dump is written.
    pub saving_flush: Mutex<()>,
    /// Held during the save before the end.
    pub ending: Mutex<()>,
    /// Held while a snapshot is under way.
    pub snapshot: Mutex<()>,
    /// How far it has come.
    pub progress: SnapshotProgress,
    /// Bytes that writers copied for the last background save.
    pub last_copied_bytes: AtomicU64,
    /// A dump is being read; commands get an error meanwhile.
    pub loading: AtomicBool,
    /// A primary's dump is being read beside the data, which are served meanwhile: `async_loading`.
    pub loading_aside: AtomicBool,
    /// That dump is large, and all shards are locked for it: commands that need one fail instead of waiting.
    pub reloading: AtomicBool,
    /// How far that has come.
    pub load: LoadProgress,
    /// Saves since the start.
    pub save_count: AtomicU64,
    /// Keys that the last load found expired.
    pub loaded_expired: AtomicU64,
    /// Keys that the last load brought.
    pub loaded_keys: AtomicU64,
    /// Files that were loaded without their data of modules.
    pub partial: Partial,
    /// What is written in the background ends with an error: the server ends, or is saved for that.
    pub background_ends: AtomicBool,
    /// The server ends, and has been saved for that.
    pub ends_saved: AtomicBool,
    /// It ends without one: no dump is begun any more.
    pub ends_unsaved: AtomicBool,
}

impl Persistence {
    /// Has commands be refused while so many bytes are loaded. Who sees `loading` sees the number as well.
    pub fn begin_loading(&self, total_bytes: u64) {
        self.load.begin(total_bytes);
        self.loading.store(true, Ordering::Release);
    }

    /// Whether a background save of this cut is not wanted any more: the data have been flushed since, or it
    /// was cancelled.
    pub fn is_save_void(&self, cut: u64) -> bool {
        self.cuts.is_void(cut) || self.cancelled.load(Ordering::Relaxed)
    }
}

/// Files that were loaded without their data of modules.
#[derive(Default)]
pub struct Partial {
    files: Mutex<Vec<PathBuf>>,
}

impl Partial {
    /// Adds a file.
    pub fn add(&self, path: &Path) {
        self.forget(path);
        self.files.lock().push(path.to_owned());
    }

    /// Why a file must not be replaced by what is in memory, if it is one of these; without a path, why no
    /// file must.
    pub fn refusal(&self, path: Option<&Path>) -> Option<String> {
        let files = self.files.lock();
        let found = files.iter().find(|partial| path.is_none_or(|path| path == *partial))?;
        Some(format!(
            "{} was loaded without its data of modules, which saving would lose. 'CONFIG SET \
             rdb-overwrite-after-skip yes' allows it",
            found.display()
        ))
    }

    /// A file is none of these: it was loaded whole, or replaced.
    pub fn forget(&self, path: &Path) {
        self.files.lock().retain(|partial| partial != path);
    }

    /// All files but this one were replaced.
    pub fn keep_only(&self, path: &Path) {
        self.files.lock().retain(|partial| partial == path);
    }
}
