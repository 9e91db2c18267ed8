//! The memory of all clients, and its limit: `maxmemory-clients`.
//!
//! Each worker keeps the sum over its own clients up to date, and where there is a limit sorts those that may
//! be evicted by the magnitude of what they take (`worker/weights.rs`). Others read the sums without a lock.
//! A worker that finds the limit reached evicts the largest of its clients, or has another worker do so whose
//! largest is of a greater magnitude, or of the same if its number is lower: one worker at a time evicts.
//!
//! What two workers see agrees because of an order. A worker that gains bytes tells of its largest client
//! before it adds to its sum; one that loses bytes takes them from its sum before it tells. So who finds the
//! limit reached, then looks at the largest, and then finds the limit reached still, has seen the largest of
//! that moment.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};

use mantissa_config::{Config, MemoryOrPercent};

/// The least limit, so that a client can always connect.
const LIMIT_BYTES_MIN: u64 = 128 << 10;

/// The clients of one worker.
#[derive(Default)]
#[repr(align(128))]
struct WorkerShare {
    /// Bytes of all of them. Signed, since a client may leave before what it took has been added.
    bytes: AtomicI64,
    /// The magnitude of the largest that may be evicted, plus 1; 0 if none may.
    largest: AtomicU32,
    /// It has been told to evict and has not looked yet.
    is_told: AtomicBool,
}

/// The bytes that the clients of all workers take.
pub struct ClientMemory {
    workers: Vec<WorkerShare>,
}

impl ClientMemory {
    /// All zero, with a share for each worker.
    pub fn new(worker_count: usize) -> Self {
        ClientMemory { workers: (0..worker_count).map(|_| WorkerShare::default()).collect() }
    }

    /// Bytes of all clients.
    pub fn total(&self) -> u64 {
        let sum: i64 = self.workers.iter().map(|share| share.bytes.load(Ordering::Acquire)).sum();
        u64::try_from(sum).unwrap_or(0)
    }

    /// Adds to the sum of a worker, which alone may do so.
    pub fn add(&self, worker: usize, bytes: i64) {
        if let Some(share) = self.workers.get(worker) {
            share.bytes.store(share.bytes.load(Ordering::Relaxed) + bytes, Ordering::Release);
        }
    }

    /// Tells how large the largest client of a worker is that may be evicted: its magnitude plus 1, or 0.
    pub fn set_largest(&self, worker: usize, largest: u32) {
        if let Some(share) = self.workers.get(worker) {
            share.largest.store(largest, Ordering::Release);
        }
    }

    /// The worker that evicts: the first of those with the largest client. None if no client may be evicted.
    pub fn evicting_worker(&self) -> Option<usize> {
        let all = self.workers.iter().map(|share| share.largest.load(Ordering::Acquire)).enumerate();
        let (worker, largest) = all.min_by_key(|&(worker, largest)| (Reverse(largest), worker))?;
        (largest > 0).then_some(worker)
    }

    /// Notes that a worker is told to evict. False if it has been told before and has not looked yet.
    pub fn tell(&self, worker: usize) -> bool {
        self.workers.get(worker).is_some_and(|share| !share.is_told.swap(true, Ordering::Relaxed))
    }

    /// Notes that a worker looks.
    pub fn heed(&self, worker: usize) {
        if let Some(share) = self.workers.get(worker) {
            share.is_told.store(false, Ordering::Relaxed);
        }
    }
}

/// The most bytes that all clients together may take; none if there is no limit.
pub fn limit(config: &Config) -> Option<u64> {
    let bytes = match config.maxmemory_clients {
        MemoryOrPercent::Bytes(0) | MemoryOrPercent::Percent(0) => return None,
        MemoryOrPercent::Bytes(bytes) => bytes,
        MemoryOrPercent::Percent(_) if config.maxmemory == 0 => return None,
        MemoryOrPercent::Percent(percent) => (config.maxmemory as f64 * f64::from(percent) / 100.0) as u64,
    };
    Some(bytes.max(LIMIT_BYTES_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_evicts() {
        let memory = ClientMemory::new(3);
        assert_eq!(memory.evicting_worker(), None);
        for (worker, largest) in [(0, 4), (1, 7), (2, 7)] {
            memory.set_largest(worker, largest);
        }
        assert_eq!(memory.evicting_worker(), Some(1));
        memory.set_largest(1, 0);
        assert_eq!(memory.evicting_worker(), Some(2));
        memory.set_largest(2, 3);
        assert_eq!(memory.evicting_worker(), Some(0));
    }
}
