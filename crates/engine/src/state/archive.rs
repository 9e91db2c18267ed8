//! What is known of snapshots that go into an archive. The program around the engine makes them; commands,
//! INFO and metrics show what is here.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

/// Snapshots into an archive.
#[derive(Default)]
pub struct ArchiveState {
    /// A snapshot is being made.
    pub is_running: AtomicBool,
    /// Somebody has asked for one.
    pub is_asked_for: AtomicBool,
    /// When the last one began or failed, Unix time in ms; 0 before the first since the start.
    pub last_try_ms: AtomicI64,
    /// The time of the newest snapshot in the archive, Unix time in ms; 0 if there is none, or it is not
    /// known.
    pub last_ms: AtomicI64,
    /// When the next one is due, Unix time in ms; 0 if none is.
    pub next_ms: AtomicI64,
    /// How long the last one took, in ms; 0 before the first.
    pub last_duration_ms: AtomicU64,
    /// Bytes of the last one before compression.
    pub last_bytes: AtomicU64,
    /// Those of them that no snapshot before it had.
    pub last_new_bytes: AtomicU64,
    /// Bytes that were stored for it.
    pub last_stored_bytes: AtomicU64,
    /// The number of its keys.
    pub last_keys: AtomicU64,
    /// Its name.
    pub last_name: Mutex<String>,
    /// Why the last one failed; empty if it did not.
    pub error: Mutex<String>,
    /// Snapshots since the start.
    pub count: AtomicU64,
    /// Failures since the start.
    pub failures: AtomicU64,
    /// Snapshots in the archive when it was looked at last.
    pub kept: AtomicU64,
    /// The newest of them, the newest first.
    pub newest: Mutex<Vec<ArchivedSnapshot>>,
    /// What is written between snapshots.
    pub log: ArchiveLog,
}

/// A snapshot in an archive.
#[derive(Clone, Default)]
pub struct ArchivedSnapshot {
    /// Its name.
    pub name: String,
    /// When it was made, Unix time in ms.
    pub time_ms: u64,
    /// The server that it is of.
    pub source: String,
    /// What it is called; may be empty.
    pub tag: String,
    /// The number of its keys.
    pub keys: u64,
    /// Its bytes before compression.
    pub bytes: u64,
    /// Those of them that no snapshot before it had.
    pub new_bytes: u64,
    /// Bytes that were stored for it.
    pub stored_bytes: u64,
    /// Why its manifest could not be read; empty if it could. Then nothing else but the name is known.
    pub error: String,
}

/// The log in an archive.
#[derive(Default)]
pub struct ArchiveLog {
    /// Changes are logged for it. Changes only while all shards are locked.
    pub is_on: AtomicBool,
    /// Up to when all is stored, Unix time in ms; 0 if nothing is.
    pub stored_ms: AtomicI64,
    /// Segments stored since the start.
    pub segments: AtomicU64,
    /// Bytes of commands in them.
    pub bytes: AtomicU64,
    /// How often it had to begin anew with a snapshot.
    pub breaks: AtomicU64,
    /// Why the last segment could not be stored; empty if it could.
    pub error: Mutex<String>,
}

impl ArchiveState {
    /// Asks for a snapshot. False if one is being made.
    pub fn ask(&self) -> bool {
        if self.is_running.load(Ordering::Acquire) {
            return false;
        }
        self.is_asked_for.store(true, Ordering::Release);
        true
    }
}
