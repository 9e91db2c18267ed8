//! What is known of the backup that BACKUP START has begun. [`crate::aof::backup`] makes it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use mantissa_persist::aof::{AofFile, WriterControl};
use parking_lot::Mutex;

/// How far a backup is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// There is none.
    #[default]
    Idle,
    /// It waits for a dump or a rewrite that is under way.
    Pending,
    /// Its base is being written.
    Snapshotting,
    /// Its base is there, and what is written since is logged.
    Incrementing,
    /// Its last increment has ended, and its manifest is being written.
    Sealing,
    /// It is whole and does not change any more.
    Sealed,
    /// It failed or was aborted.
    Failed,
}

impl Phase {
    /// The name that BACKUP STATUS shows.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Idle => "idle",
            Phase::Pending => "pending",
            Phase::Snapshotting => "snapshotting",
            Phase::Incrementing | Phase::Sealing => "incrementing",
            Phase::Sealed => "sealed",
            Phase::Failed => "failed",
        }
    }

    /// Whether it has begun and is neither sealed nor failed.
    pub fn is_under_way(self) -> bool {
        !matches!(self, Phase::Idle | Phase::Sealed | Phase::Failed)
    }
}

/// A backup.
#[derive(Clone, Default)]
pub struct Record {
    /// How far it is.
    pub phase: Phase,
    /// Which one it is, counted since the start.
    pub number: u64,
    /// Why it failed; empty if it did not.
    pub error: String,
    /// When it began, Unix time in s; 0 if none has.
    pub start_s: i64,
    /// When it was sealed, Unix time in s; 0 if it was not.
    pub end_s: i64,
    /// The folder of its files, as an absolute path.
    pub directory: PathBuf,
    /// The stem of their names: `appendfilename`.
    pub name: OsString,
    /// Its base, once that is there.
    pub base: Option<AofFile>,
    /// Its increments that have ended.
    pub increments: Vec<AofFile>,
    /// It has a log of its own: there is no append-only file whose increments it could share.
    pub is_own: bool,
    /// It failed, and its files and its log are still to be removed.
    pub has_leftovers: bool,
    /// BACKUP SEAL is at work.
    pub is_being_sealed: bool,
    /// The epochs of the data and of the append-only file that it is of.
    pub epochs: (u64, u64),
}

/// The log of a backup that does not share the append-only file's.
pub struct OwnLog {
    /// Settings and progress of its writer.
    pub control: Arc<WriterControl>,
    /// Its file is closed.
    pub has_closed: Arc<AtomicBool>,
    /// Tells once whether everything was written and made durable.
    pub ended: Receiver<Result<(), String>>,
}

/// What is known of backups.
#[derive(Default)]
pub struct BackupState {
    /// The present one, or the last.
    pub record: Mutex<Record>,
    /// Held by who prepares, completes or clears the folder.
    pub turn: Mutex<()>,
    /// The log of its own, while it has one.
    pub own_log: Mutex<Option<OwnLog>>,
    /// Changes are logged for that. Changes only while all shards are locked.
    pub is_logging: AtomicBool,
    /// Grows when other data take the place of those that there are, while all shards are locked.
    epoch: AtomicU64,
}

impl BackupState {
    /// Makes a backup of the present data void. All shards must be locked.
    pub fn void(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of the present data.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }
}
