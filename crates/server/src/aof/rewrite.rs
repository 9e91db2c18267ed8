//! Rewriting: a new base with the data as they are, and a new increment that begins at the same instant.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// What is known of rewriting.
pub struct Rewrite {
    running: AtomicBool,
    /// One is to follow what prevents it now.
    pub is_scheduled: AtomicBool,
    /// When the present one began, Unix time in s.
    pub since_s: AtomicI64,
    /// How long the last one took, in s; -1 before the first.
    pub last_duration_s: AtomicI64,
    /// The last one failed.
    pub has_failed: AtomicBool,
    /// How many have been begun.
    pub count: AtomicU64,
    /// How many of the last ones failed.
    pub failures: AtomicU64,
}

impl Default for Rewrite {
    fn default() -> Self {
        Rewrite {
            running: AtomicBool::new(false),
            is_scheduled: AtomicBool::new(false),
            since_s: AtomicI64::new(0),
            last_duration_s: AtomicI64::new(-1),
            has_failed: AtomicBool::new(false),
            count: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }
}

impl Rewrite {
    /// Whether one is under way.
    pub fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }
}
