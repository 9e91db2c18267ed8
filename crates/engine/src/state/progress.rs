//! How far a snapshot has come, for INFO.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mantissa_store::snapshot::Snapshot;
use parking_lot::Mutex;

/// How far a snapshot is, for INFO.
#[derive(Default)]
pub struct SnapshotProgress {
    keys_total: AtomicU64,
    keys_processed: AtomicU64,
    /// The most that writers have copied for one snapshot, in bytes.
    copied_peak_bytes: AtomicU64,
    snapshot: Mutex<Option<Arc<Snapshot>>>,
}

impl SnapshotProgress {
    /// Notes the start of a snapshot, with its number of keys.
    pub fn begin(&self, keys_total: u64, snapshot: &Arc<Snapshot>) {
        self.keys_total.store(keys_total, Ordering::Relaxed);
        self.keys_processed.store(0, Ordering::Relaxed);
        *self.snapshot.lock() = Some(Arc::clone(snapshot));
    }

    /// Adds to the keys that have been encoded.
    pub fn processed(&self, keys: u64) {
        self.keys_processed.fetch_add(keys, Ordering::Relaxed);
    }

    /// Notes that it has ended.
    pub fn end(&self) {
        self.copied_peak_bytes.fetch_max(self.copied_bytes(), Ordering::Relaxed);
        *self.snapshot.lock() = None;
        self.keys_total.store(0, Ordering::Relaxed);
        self.keys_processed.store(0, Ordering::Relaxed);
    }

    /// Keys that the snapshot under way holds; 0 if there is none.
    pub fn keys_total(&self) -> u64 {
        self.keys_total.load(Ordering::Relaxed)
    }

    /// Keys that have been encoded.
    pub fn keys_processed(&self) -> u64 {
        self.keys_processed.load(Ordering::Relaxed)
    }

    /// Bytes that writers have copied for the snapshot under way.
    pub fn copied_bytes(&self) -> u64 {
        self.snapshot.lock().as_ref().map_or(0, |snapshot| snapshot.copied_bytes())
    }

    /// The most of that since the start.
    pub fn copied_peak_bytes(&self) -> u64 {
        self.copied_peak_bytes.load(Ordering::Relaxed).max(self.copied_bytes())
    }
}
