//! The state of the append-only file: its log and files, its writer, rewrites under way.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use mantissa_commands::{Error, Outcome};
use mantissa_config::{AppendFsync, Config};
use mantissa_persist::aof::{Manifest, SyncPolicy, Writer, WriterControl};
use mantissa_persist::log::{Log, Lsn};
use mantissa_sys::simulation::{self, Fault};
use parking_lot::Mutex;

/// The error of a client in WAITAOF that waits for the log while there is none.
pub const WAITAOF_WITHOUT_LOG: &str =
    "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

/// The state of the append-only file.
pub struct Aof {
    /// Settings and progress of the writer.
    pub control: Arc<WriterControl>,
    /// Who writes it holds this.
    pub writer: Mutex<Writer>,
    /// The files, while it is on.
    pub files: Mutex<Option<Files>>,
    /// Whether there are any.
    pub is_listed: AtomicBool,
    /// Whether changes are logged for it. Changes while all shards are locked.
    pub is_logging: AtomicBool,
    /// Whether replies wait until the log is confirmed: `appendonly yes`.
    holds_replies: AtomicBool,
    /// Workers that want to be woken when more of the log is confirmed.
    pub waiting: Box<[AtomicBool]>,
    /// Why the last attempt to write failed; empty if it did not.
    pub write_error: Mutex<String>,
    /// Whether the last attempt to write failed.
    pub write_failed: AtomicBool,
    /// Nothing after this LSN will ever be durable: it could not be written, `appendfsync always` had
    /// promised it, and the host goes on. The maximum if that has not happened.
    lost_after: AtomicU64,
    /// The length of the file that is written to, in bytes.
    pub increment_bytes: AtomicU64,
    /// The lengths of the files before it, in bytes.
    pub former_bytes: AtomicU64,
    /// The lengths of all files after the last rewrite or at the start, in bytes.
    pub base_bytes: AtomicU64,
    /// How long a write is put off, in microseconds: DEBUG AOF-FLUSH-SLEEP.
    pub write_delay_us: AtomicU64,
    /// The engine ends: the thread that writes has nothing more to do.
    pub has_ended: AtomicBool,
    /// What is known of rewriting.
    pub rewrite: Rewrite,
}

impl Aof {
    /// An append-only file that is off, and will be a reader of `log`.
    pub fn new(log: Arc<Log>, worker_count: usize) -> Self {
        let control = Arc::new(WriterControl::new(log));
        Aof {
            writer: Mutex::new(Writer::new(Arc::clone(&control))),
            control,
            files: Mutex::new(None),
            is_listed: AtomicBool::new(false),
            is_logging: AtomicBool::new(false),
            holds_replies: AtomicBool::new(false),
            waiting: (0..worker_count).map(|_| AtomicBool::new(false)).collect(),
            write_error: Mutex::default(),
            write_failed: AtomicBool::new(false),
            lost_after: AtomicU64::new(Lsn::MAX),
            increment_bytes: AtomicU64::new(0),
            former_bytes: AtomicU64::new(0),
            base_bytes: AtomicU64::new(0),
            write_delay_us: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            rewrite: Rewrite::default(),
        }
    }

    /// Whether replies wait until what they tell of is confirmed.
    #[inline]
    pub fn holds_replies(&self) -> bool {
        self.holds_replies.load(Ordering::Relaxed)
    }

    /// Whether they wait for the disk: `appendfsync always`.
    #[inline]
    pub fn waits_for_disk(&self) -> bool {
        self.holds_replies() && self.control.policy() == SyncPolicy::Always
    }

    /// The LSN up to which the log is where `appendfsync` promises it to be before anybody is told: on the
    /// disk with `always`, else in the file, which a killed process leaves behind.
    #[inline]
    pub fn confirmed(&self) -> Lsn {
        match self.control.policy() {
            SyncPolicy::Always if simulation::has_fault(Fault::UnsyncedReply) => self.control.written(),
            SyncPolicy::Always => self.control.durable().min(self.lost_after.load(Ordering::Relaxed)),
            _ => self.control.written(),
        }
    }

    /// Whether writing fails under another policy than `always`: the log keeps what it could not write, and
    /// writes are refused until it can. Who waits for a reply that tells of a write hears nothing.
    #[inline]
    pub fn is_refusing(&self) -> bool {
        self.write_failed.load(Ordering::Relaxed) && self.control.policy() != SyncPolicy::Always
    }

    /// Whether something of the log is lost that `appendfsync always` had promised: see
    /// [`crate::host::Host::log_failed`].
    pub fn is_lost(&self) -> bool {
        self.lost_after.load(Ordering::Relaxed) != Lsn::MAX
    }

    /// Refuses writes from now on: what is not durable will not be.
    pub fn lose(&self) {
        self.lost_after.fetch_min(self.control.durable(), Ordering::Relaxed);
        self.control.abandon(true);
    }

    /// Forgets what was lost: the log is off.
    pub fn forget_loss(&self) {
        self.lost_after.store(Lsn::MAX, Ordering::Relaxed);
        self.control.abandon(false);
    }

    /// Whether writes have to wait until the disk has caught up.
    #[inline]
    pub fn holds_writes(&self) -> bool {
        self.is_listed.load(Ordering::Relaxed) && self.control.is_stalled()
    }

    /// Puts the settings in force that concern the log.
    pub fn configure(&self, config: &Config) {
        let policy = match config.appendfsync {
            AppendFsync::Always => SyncPolicy::Always,
            AppendFsync::Everysec => SyncPolicy::EverySecond,
            AppendFsync::No => SyncPolicy::Never,
        };
        self.control.set_policy(policy);
        self.control.set_preallocation(config.aof_reserve_size);
        self.holds_replies.store(config.appendonly, Ordering::Relaxed);
        self.control.set_notes_time(config.aof_timestamp_enabled);
    }

    /// Wakes a worker once the log is confirmed further than now.
    pub fn await_confirmed(&self, worker: usize) {
        if let Some(waits) = self.waiting.get(worker) {
            waits.store(true, Ordering::SeqCst);
        }
    }

    /// Cancels [`Aof::await_confirmed`].
    pub fn await_no_longer(&self, worker: usize) {
        if let Some(waits) = self.waiting.get(worker) {
            waits.store(false, Ordering::SeqCst);
        }
    }

    /// Whether the log is on, and durable up to `lsn`.
    pub fn is_durable(&self, lsn: Lsn) -> bool {
        self.is_listed.load(Ordering::Relaxed) && self.control.durable() >= lsn
    }

    /// The length of all files that a start would load.
    pub fn bytes(&self) -> u64 {
        self.former_bytes.load(Ordering::Relaxed) + self.increment_bytes.load(Ordering::Relaxed)
    }

    /// The refusal of writes after one of them could not be written.
    pub fn write_refusal(&self) -> Outcome {
        if !self.write_failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::new(self.refusal_text()))
    }

    /// The error reply that tells why the log can not be written, without `-` and the end of the line.
    pub fn refusal_text(&self) -> String {
        format!("MISCONF Errors writing to the AOF file: {}", self.write_error.lock())
    }
}

/// The files while the append-only file is on.
#[derive(Clone)]
pub struct Files {
    /// Where they are.
    pub directory: PathBuf,
    /// `appendfilename`.
    pub name: OsString,
    /// What they are.
    pub manifest: Manifest,
}

impl Files {
    /// The path of one of the files.
    pub fn path(&self, name: &OsStr) -> PathBuf {
        self.directory.join(name)
    }

    /// The path of the increment that is written to.
    pub fn last_increment(&self) -> Option<PathBuf> {
        self.manifest.increments.last().map(|file| self.path(&file.name))
    }
}

/// What is known of rewriting.
pub struct Rewrite {
    /// One is under way.
    pub running: AtomicBool,
    /// The log's writer has not gone on to the increment of the last one yet, which may have failed since, or
    /// to the one after a backup's.
    pub is_switching: Arc<AtomicBool>,
    /// The one under way has yet to tell the log's writer about its increment, which gets the next number.
    pub takes_number: AtomicBool,
    /// Held by who takes the next number.
    numbering: Mutex<()>,
    /// How many threads are switching the log off. None begins meanwhile.
    pub switching_off: AtomicUsize,
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
    /// When the last one ended, Unix time in s.
    pub ended_s: AtomicI64,
    /// Grows when the log is switched off, while all shards are locked: what was begun before is void.
    pub epoch: AtomicU64,
}

impl Default for Rewrite {
    fn default() -> Self {
        Rewrite {
            running: AtomicBool::new(false),
            is_switching: Arc::default(),
            takes_number: AtomicBool::new(false),
            numbering: Mutex::default(),
            switching_off: AtomicUsize::new(0),
            is_scheduled: AtomicBool::new(false),
            since_s: AtomicI64::new(0),
            last_duration_s: AtomicI64::new(-1),
            has_failed: AtomicBool::new(false),
            count: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            ended_s: AtomicI64::new(0),
            epoch: AtomicU64::new(0),
        }
    }
}

impl Rewrite {
    /// Whether one is under way.
    pub fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }

    /// Has the rewrite that begins take the next number for its increment. False while the writer has yet to
    /// go on to an increment: it would get the same.
    pub fn take_number(&self) -> bool {
        let _numbering = self.numbering.lock();
        let is_free = !self.is_switching.load(Ordering::Acquire);
        self.takes_number.store(is_free, Ordering::Release);
        is_free
    }

    /// Notes that the log's writer is to go on to the increment of a rewrite, until the result is dropped.
    pub fn begin_switch(&self) -> Switch {
        self.is_switching.store(true, Ordering::Release);
        self.takes_number.store(false, Ordering::Release);
        Switch(Arc::clone(&self.is_switching))
    }

    /// The same for an increment that no rewrite begins. `None` while another has the next number.
    pub fn try_switch(&self) -> Option<Switch> {
        let _numbering = self.numbering.lock();
        let is_taken = self.is_switching.load(Ordering::Acquire) || self.takes_number.load(Ordering::Acquire);
        (!is_taken).then(|| self.begin_switch())
    }

    /// Has one that is scheduled begin as soon as it can, however many have failed.
    pub fn allow_at_once(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    /// Makes what has been begun void. All shards must be locked.
    pub fn void(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }
}

/// The log's writer is to go on to another increment.
pub struct Switch(Arc<AtomicBool>);

impl Drop for Switch {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
