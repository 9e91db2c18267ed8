//! The state of values on disk: the file, the reads that wait, and counts. What is done with it is
//! [`crate::tier`].

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mantissa_persist::tier::{TierFigures, TierFile};
use mantissa_store::cold::Cold;
use mantissa_store::{EncodingLimits, KeyHash};
use mantissa_sys::clock;
use parking_lot::{Condvar, Mutex};

use crate::client::SharedSession;

/// How long a value that could not be read counts as unreadable.
const FAILURE_LASTS: Duration = Duration::from_secs(1);
/// How often an idle reader looks whether the engine ends.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The engine's values on disk.
#[derive(Default)]
pub struct Tier {
    file: OnceLock<Arc<TierFile>>,
    /// A value has gone there.
    is_used: AtomicBool,
    /// Reads that wait.
    pub reads: Reads,
    offloaded: AtomicU64,
    /// Values whose copy in memory was given up.
    pub forgotten: AtomicU64,
    /// Records that were moved to empty a segment.
    pub moved: AtomicU64,
}

/// What INFO shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Of the file.
    pub file: TierFigures,
    /// Values that were moved there.
    pub offloaded: u64,
    /// Values that were there already and left memory again.
    pub forgotten: u64,
    /// Records that were moved to empty a segment.
    pub moved: u64,
    /// Requests that have waited for values.
    pub fetches: u64,
}

impl Tier {
    /// The file, if there is one.
    #[inline]
    pub fn file(&self) -> Option<&Arc<TierFile>> {
        self.file.get()
    }

    /// Whether values may be on disk.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Sets the file, once.
    pub fn open(&self, file: Arc<TierFile>) {
        let _set_once = self.file.set(file);
    }

    /// Notes that a value has gone to the file.
    pub fn note_use(&self) {
        self.is_used.store(true, Ordering::Relaxed);
        self.offloaded.fetch_add(1, Ordering::Relaxed);
    }

    /// Puts changed settings into force: the most disk space, and the limits of packed encodings.
    pub fn configure(&self, bytes_max: u64, limits: &EncodingLimits) {
        if let Some(file) = self.file() {
            file.configure(bytes_max, limits.clone());
        }
    }

    /// What INFO shows; `None` where all values are in memory.
    pub fn figures(&self) -> Option<Figures> {
        Some(Figures {
            file: self.file()?.figures(),
            offloaded: self.offloaded.load(Ordering::Relaxed),
            forgotten: self.forgotten.load(Ordering::Relaxed),
            moved: self.moved.load(Ordering::Relaxed),
            fetches: self.reads.fetches(),
        })
    }
}

/// A database and the hash of a key in it.
pub type Key = (usize, KeyHash);

/// A value to be read.
pub struct Read {
    /// The key that has it.
    pub key: Key,
    /// Its record.
    pub cold: Cold,
}

/// A request that waits.
pub struct Waiting {
    /// Whose it is.
    pub session: Arc<SharedSession>,
    /// Values that are still to come.
    left: AtomicUsize,
}

/// Reads that wait, and those who wait for them.
#[derive(Default)]
pub struct Reads {
    queue: Mutex<Queue>,
    arrived: Condvar,
    fetches: AtomicU64,
}

#[derive(Default)]
struct Queue {
    reads: VecDeque<Read>,
    waiting: HashMap<Key, Vec<Arc<Waiting>>>,
    failures: HashMap<Key, (Instant, String)>,
}

impl Reads {
    /// Requests that have waited.
    pub fn fetches(&self) -> u64 {
        self.fetches.load(Ordering::Relaxed)
    }

    /// The failure of a key that holds still.
    pub fn failure(&self, keys: &[(Key, Cold)]) -> Option<String> {
        let mut queue = self.queue.lock();
        if queue.failures.is_empty() {
            return None;
        }
        queue.failures.retain(|_, (since, _)| clock::since(*since) < FAILURE_LASTS);
        keys.iter().find_map(|(key, _)| queue.failures.get(key)).map(|(_, reason)| reason.clone())
    }

    /// Has values read for a session's request.
    pub fn add(&self, session: &Arc<SharedSession>, missing: Vec<(Key, Cold)>) {
        self.fetches.fetch_add(1, Ordering::Relaxed);
        let left = AtomicUsize::new(missing.len());
        let waiting = Arc::new(Waiting { session: Arc::clone(session), left });
        let mut queue = self.queue.lock();
        for (key, cold) in missing {
            let others = queue.waiting.entry(key).or_default();
            others.push(Arc::clone(&waiting));
            if others.len() == 1 {
                queue.reads.push_back(Read { key, cold });
                self.arrived.notify_one();
            }
        }
    }

    /// The next value to be read; `None` if none comes for a while.
    pub fn next(&self) -> Option<Read> {
        let mut queue = self.queue.lock();
        if queue.reads.is_empty() {
            self.arrived.wait_for(&mut queue, LOOK_EVERY);
        }
        queue.reads.pop_front()
    }

    /// Notes that a value has been read, or why not. The sessions whose requests wait for nothing more.
    pub fn end(&self, read: &Read, failure: Option<String>) -> Vec<Arc<SharedSession>> {
        let mut queue = self.queue.lock();
        if let Some(reason) = failure {
            queue.failures.insert(read.key, (clock::now(), reason));
        }
        let mut waiting = queue.waiting.remove(&read.key).unwrap_or_default();
        waiting.retain(|waiting| waiting.left.fetch_sub(1, Ordering::AcqRel) == 1);
        waiting.iter().map(|waiting| Arc::clone(&waiting.session)).collect()
    }
}
