//! How far the load of files has come.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use mantissa_sys::clock::unix_ms;

/// How far the load of one or more files has come.
#[derive(Default)]
pub struct LoadProgress {
    began_ms: AtomicI64,
    total_bytes: AtomicU64,
    loaded_bytes: AtomicU64,
}

impl LoadProgress {
    /// Begins anew, with the bytes to load; 0 where they are not known.
    pub fn begin(&self, total_bytes: u64) {
        self.began_ms.store(unix_ms(), Ordering::Relaxed);
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        self.loaded_bytes.store(0, Ordering::Relaxed);
    }

    /// Adds to the bytes that have been loaded.
    pub fn loaded(&self, bytes: u64) {
        self.loaded_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// When it began, Unix time in s.
    pub fn began_s(&self) -> i64 {
        self.began_ms.load(Ordering::Relaxed) / 1000
    }

    /// All bytes that are known to come.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }

    /// Those that have been loaded.
    pub fn loaded_bytes(&self) -> u64 {
        self.loaded_bytes.load(Ordering::Relaxed)
    }

    /// Percent loaded.
    pub fn percent(&self) -> f64 {
        self.loaded_bytes() as f64 * 100.0 / self.total_bytes().max(1) as f64
    }

    /// Seconds that it will take at the speed so far; 1 where nothing has been loaded.
    pub fn left_s(&self) -> i64 {
        let elapsed_ms = (unix_ms() - self.began_ms.load(Ordering::Relaxed)).max(1) as f64;
        let loaded = self.loaded_bytes() as f64;
        let left = (self.total_bytes() as f64 - loaded).max(0.0);
        if loaded == 0.0 { 1 } else { (elapsed_ms * left / loaded / 1000.0) as i64 }
    }
}
