//! How far memory is beyond its limit, as all threads see it.

use mantissa_sys::clock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use mantissa_commands::LazyFree;
use mantissa_persist::log::Log;
use mantissa_store::{Entry, allocator};

use super::Verdict;

/// Elements up to which a value is measured before it is freed; measuring more could take long.
const MEASURED_ELEMENTS_MAX: usize = 10_000;
/// Maximum time that eviction waits for values of unknown size to be freed.
const UNMEASURED_WAIT_MAX: Duration = Duration::from_secs(1);

/// What requests hold of values on disk together may be one part in this many of the limit.
const LENT_PART: u64 = 4;
/// Or this, if that is more.
const LENT_BYTES_MIN: i64 = 64 << 20;

/// How far memory is beyond its limit, shared by all threads.
#[derive(Default)]
pub struct Pressure {
    /// Bytes that have left the keyspace, or are about to, and that are still counted as used.
    freeing_bytes: AtomicI64,
    /// Batches that are being freed whose size is not known.
    unmeasured: AtomicUsize,
    /// When the first of those came, in us since the start.
    unmeasured_since: AtomicU64,
    /// Since when memory has been beyond the limit, in us since the start; 0 if it is not.
    exceeded_since: AtomicU64,
    /// How long it was before that, in us.
    exceeded_total: AtomicU64,
    has_limit: AtomicBool,
    /// What it holds for slow readers is not counted.
    log: Arc<Log>,
    /// Bytes that are held for requests under way and freed with them. They are not counted either.
    lent_bytes: AtomicI64,
    /// The most of them.
    lent_bytes_max: AtomicI64,
    background: OnceLock<Thread>,
    started: OnceLock<Instant>,
}

/// What is known of a batch that is being freed.
#[derive(Clone, Copy)]
pub struct Freeing {
    bytes: i64,
    is_measured: bool,
}

impl Freeing {
    /// One of which nothing is expected.
    pub const NOTHING: Freeing = Freeing { bytes: 0, is_measured: true };
}

/// Bytes that are about to be freed.
pub struct Claim<'p> {
    pressure: &'p Pressure,
    bytes: i64,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.pressure.freeing_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Bytes that are held for a request under way, and do not count until this is dropped.
pub struct Lease {
    pressure: Arc<Pressure>,
    bytes: AtomicI64,
}

impl Lease {
    /// One of no bytes.
    pub fn new(pressure: &Arc<Pressure>) -> Arc<Lease> {
        Arc::new(Lease { pressure: Arc::clone(pressure), bytes: AtomicI64::new(0) })
    }

    /// Adds bytes. False if all requests together have more than they may.
    pub fn add(&self, bytes: usize) -> bool {
        self.bytes.fetch_add(bytes as i64, Ordering::Relaxed);
        let before = self.pressure.lent_bytes.fetch_add(bytes as i64, Ordering::Relaxed);
        before + bytes as i64 <= self.pressure.lent_bytes_max.load(Ordering::Relaxed)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pressure.lent_bytes.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

/// The bytes that an entry takes, unless it would take long to tell.
pub fn measure(entry: &Entry) -> Option<usize> {
    (entry.free_effort() <= MEASURED_ELEMENTS_MAX).then(|| entry.memory_usage())
}

impl Pressure {
    /// With the limit in force; 0 is none.
    pub fn new(limit: u64, log: &Arc<Log>) -> Self {
        let pressure = Pressure { log: Arc::clone(log), ..Pressure::default() };
        pressure.set_limit(limit);
        pressure
    }

    /// Bytes in use because others are slow, or for requests under way: no key is evicted for them.
    pub fn not_counted_bytes(&self) -> i64 {
        self.log.bytes_beyond_backlog() as i64 + self.lent_bytes.load(Ordering::Relaxed)
    }

    /// By how much memory exceeds the limit; what is left of it, negated, if it does not.
    pub fn excess(&self, limit: u64) -> i64 {
        let used = allocator::allocated_bytes() as i64 - self.freeing_bytes.load(Ordering::Relaxed);
        let used = used - self.not_counted_bytes();
        used.saturating_sub(i64::try_from(limit).unwrap_or(i64::MAX))
    }

    /// Says that these bytes are about to be freed, until the claim is dropped. Nothing if memory is within
    /// the limit by what others have claimed before.
    pub fn claim(&self, bytes: usize, limit: u64) -> Option<Claim<'_>> {
        let bytes = bytes as i64;
        self.freeing_bytes.fetch_add(bytes, Ordering::Relaxed);
        let claim = Claim { pressure: self, bytes };
        (self.excess(limit) + bytes > 0).then_some(claim)
    }

    /// Tells the limit in force; 0 is none.
    pub fn set_limit(&self, limit: u64) {
        self.has_limit.store(limit > 0, Ordering::Relaxed);
        let lent_max = i64::try_from(limit / LENT_PART).unwrap_or(i64::MAX).max(LENT_BYTES_MIN);
        self.lent_bytes_max.store(lent_max, Ordering::Relaxed);
    }

    /// Notes that a batch is to be freed by another thread.
    pub fn begin_freeing(&self, to_free: &LazyFree) -> Freeing {
        let is_wanted = self.has_limit.load(Ordering::Relaxed);
        let is_known = is_wanted && to_free.databases.is_empty() && to_free.values.is_empty();
        let sizes = is_known.then(|| to_free.entries.iter().map(measure).sum::<Option<usize>>());
        let bytes = sizes.flatten().map(|bytes| bytes as i64);
        match bytes {
            Some(bytes) => drop(self.freeing_bytes.fetch_add(bytes, Ordering::Relaxed)),
            None => {
                if self.unmeasured.fetch_add(1, Ordering::Relaxed) == 0 {
                    self.unmeasured_since.store(self.elapsed_us(), Ordering::Relaxed);
                }
            }
        }
        Freeing { bytes: bytes.unwrap_or(0), is_measured: bytes.is_some() }
    }

    /// Notes that it has been freed.
    pub fn end_freeing(&self, freeing: Freeing) {
        if freeing.is_measured {
            self.freeing_bytes.fetch_sub(freeing.bytes, Ordering::Relaxed);
        } else {
            self.unmeasured.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether something is being freed.
    pub fn is_freeing(&self) -> bool {
        self.unmeasured.load(Ordering::Relaxed) > 0 || self.freeing_bytes.load(Ordering::Relaxed) > 0
    }

    /// Whether eviction should wait because values of unknown size are being freed, for at most
    /// [`UNMEASURED_WAIT_MAX`].
    pub fn is_about_to_fall(&self) -> bool {
        self.unmeasured.load(Ordering::Relaxed) > 0 && {
            let since = self.unmeasured_since.load(Ordering::Relaxed);
            Duration::from_micros(self.elapsed_us().saturating_sub(since)) < UNMEASURED_WAIT_MAX
        }
    }

    /// Notes the outcome of an attempt to free memory.
    pub fn note(&self, verdict: Verdict, started: Instant) {
        let since = self.exceeded_since.load(Ordering::Relaxed);
        if verdict == Verdict::WithinLimit {
            if since > 0 && self.exceeded_since.swap(0, Ordering::Relaxed) == since {
                let elapsed = (clock::since(started).as_micros() as u64).saturating_sub(since);
                self.exceeded_total.fetch_add(elapsed, Ordering::Relaxed);
            }
        } else if since == 0 {
            let now = (clock::since(started).as_micros() as u64).max(1);
            let _kept_by_another_thread =
                self.exceeded_since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// How long memory has been beyond the limit: this time, and in all, in ms.
    pub fn exceeded_ms(&self, started: Instant) -> (u64, u64) {
        let since = self.exceeded_since.load(Ordering::Relaxed);
        let now = clock::since(started).as_micros() as u64;
        let current = if since == 0 { 0 } else { now.saturating_sub(since) };
        (current / 1000, (self.exceeded_total.load(Ordering::Relaxed) + current) / 1000)
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        self.exceeded_since.store(0, Ordering::Relaxed);
        self.exceeded_total.store(0, Ordering::Relaxed);
    }

    /// Makes the present thread the one that evicts in the background.
    pub fn work_here(&self) {
        let _set_once = self.background.set(std::thread::current());
    }

    /// Wakes that thread.
    pub fn wake_background(&self) {
        if let Some(thread) = self.background.get() {
            thread.unpark();
        }
    }

    fn elapsed_us(&self) -> u64 {
        clock::since(*self.started.get_or_init(clock::now)).as_micros() as u64
    }
}
