//! The append-only file: every change, as commands in the order of their commits.
//!
//! The commit of a command, transaction or script collects what it has for the log as one unit and appends
//! it while its shards are locked ([`append`]): so the order of the log is the order of commits on every key.
//! A thread of its own writes ([`writer`]).
//!
//! Whether changes are logged is known to whoever holds a lock on a shard
//! ([`mantissa_store::Keyspace::is_logged`]); it changes while all are locked, at the cut of the snapshot
//! that the log begins with. While it is off a commit pays for a test of a flag.

pub mod files;
pub mod load;
pub mod rewrite;
pub mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mantissa_commands::{Access, Error, Outcome};
use mantissa_persist::aof::{SyncPolicy, Writer, WriterControl};
use mantissa_persist::log::{Log, Lsn};
use mantissa_protocol::Reply;
use mantissa_sys::simulation::{self, Fault};
use parking_lot::Mutex;

use crate::blocking;
use crate::context::{Context, Outbox};
use crate::engine::Engine;
use crate::invocation::Invocation;
use crate::session::BlockedClient;
use crate::{notice, persistence, warning};
use files::Files;
use mantissa_config::{AppendFsync, Config};
use rewrite::Rewrite;

/// The error of a client in WAITAOF that waits for the log while there is none.
pub const WAITAOF_WITHOUT_LOG: &str =
    "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

/// The state of the append-only file.
pub struct Aof {
    /// The log of commits, which the append-only file is a reader of.
    pub log: Arc<Log>,
    /// Settings and progress of the writer.
    pub control: Arc<WriterControl>,
    /// Who writes it holds this.
    writer: Mutex<Writer>,
    /// The files, while it is on.
    pub files: Mutex<Option<Files>>,
    /// Whether there are any.
    pub is_listed: AtomicBool,
    /// Replies wait until the log is confirmed: `appendonly yes`.
    holds_replies: AtomicBool,
    /// Workers that want to be woken when more of the log is confirmed.
    waiting: Box<[AtomicBool]>,
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
    /// Clients in WAITAOF, with the LSNs that they wait for.
    waiters: Mutex<Vec<(Lsn, Arc<BlockedClient>)>>,
    /// The engine ends: the thread that writes has nothing more to do.
    has_ended: AtomicBool,
    /// What is known of rewriting.
    pub rewrite: Rewrite,
}

impl Aof {
    /// An append-only file that is off.
    pub fn new(worker_count: usize) -> Self {
        let log = Arc::new(Log::default());
        let control = Arc::new(WriterControl::new(Arc::clone(&log)));
        Aof {
            writer: Mutex::new(Writer::new(Arc::clone(&control))),
            log,
            control,
            files: Mutex::new(None),
            is_listed: AtomicBool::new(false),
            holds_replies: AtomicBool::new(false),
            waiting: (0..worker_count).map(|_| AtomicBool::new(false)).collect(),
            write_error: Mutex::default(),
            write_failed: AtomicBool::new(false),
            lost_after: AtomicU64::new(Lsn::MAX),
            increment_bytes: AtomicU64::new(0),
            former_bytes: AtomicU64::new(0),
            base_bytes: AtomicU64::new(0),
            write_delay_us: AtomicU64::new(0),
            waiters: Mutex::default(),
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

    /// The LSN up to which the log is where `appendfsync` promises it to be before anybody is told: on
    /// the disk with `always`, else in the file, which a killed process leaves behind. While writing fails
    /// under another policy than `always`, that is everything: as in Redis, who has written is told, the log
    /// keeps what it could not write, and further writes are refused.
    #[inline]
    pub fn confirmed(&self) -> Lsn {
        match self.control.policy() {
            SyncPolicy::Always if simulation::has_fault(Fault::UnsyncedReply) => self.control.written(),
            SyncPolicy::Always => self.control.durable().min(self.lost_after.load(Ordering::Relaxed)),
            _ if self.write_failed.load(Ordering::Relaxed) => Lsn::MAX,
            _ => self.control.written(),
        }
    }

    /// Whether something of the log is lost that `appendfsync always` had promised: see
    /// [`crate::host::Host::log_failed`].
    pub fn is_lost(&self) -> bool {
        self.lost_after.load(Ordering::Relaxed) != Lsn::MAX
    }

    /// Refuses writes from now on: what is not durable will not be.
    fn lose(&self) {
        self.lost_after.fetch_min(self.control.durable(), Ordering::Relaxed);
        self.control.abandon(true);
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

    /// Has a worker be woken when more is confirmed than is now.
    pub fn await_confirmed(&self, worker: usize) {
        if let Some(waits) = self.waiting.get(worker) {
            waits.store(true, Ordering::SeqCst);
        }
    }

    /// Has a worker not be woken: it looks by itself.
    fn await_no_longer(&self, worker: usize) {
        if let Some(waits) = self.waiting.get(worker) {
            waits.store(false, Ordering::SeqCst);
        }
    }

    /// Wakes the workers that wait for more to be confirmed, and serves the clients in WAITAOF for which
    /// enough is durable, or never will be, where `is_lost`.
    fn tell_waiters(&self, engine: &Engine, is_lost: bool) {
        for (worker, waits) in self.waiting.iter().enumerate() {
            if waits.swap(false, Ordering::SeqCst) {
                engine.wake(worker);
            }
        }
        let durable = self.control.durable();
        let mut waiters = self.waiters.lock();
        waiters.retain(|(lsn, blocked)| {
            let waits = *blocked.waiting.lock();
            if waits && *lsn <= durable {
                let mut reply = Reply::new(blocked.protocol);
                match is_lost {
                    true => reply.error(WAITAOF_WITHOUT_LOG),
                    false => write_confirmations(&mut reply, true),
                }
                blocking::release(engine, blocked, reply.into_bytes());
            }
            waits && *lsn > durable
        });
    }

    /// Whether the log is on, and durable up to `lsn`.
    pub fn is_durable(&self, lsn: Lsn) -> bool {
        self.is_listed.load(Ordering::Relaxed) && self.control.durable() >= lsn
    }

    /// Has a client wait until the log is durable up to `lsn`.
    pub fn wait(&self, engine: &Engine, lsn: Lsn, blocked: Arc<BlockedClient>) {
        self.waiters.lock().push((lsn, blocked));
        if self.control.durable() >= lsn {
            self.tell_waiters(engine, false);
        }
    }

    /// The length of all files that a start would load.
    pub fn bytes(&self) -> u64 {
        self.former_bytes.load(Ordering::Relaxed) + self.increment_bytes.load(Ordering::Relaxed)
    }
}

/// The reply of WAITAOF: whether the log is durable here, and on how many replicas.
pub fn write_confirmations(reply: &mut Reply, is_durable: bool) {
    reply.array(2);
    reply.integer(i64::from(is_durable));
    reply.integer(0);
}

/// Appends what has been collected to the log. The shards that it concerns are locked by `access`.
pub fn append(engine: &Engine, outbox: &mut Outbox, access: &mut Access<'_>) {
    let aof = &engine.aof;
    if simulation::has_fault(Fault::LateLog) {
        return;
    }
    if !outbox.unit.is_empty() {
        let lsn = aof.log.append(&mut outbox.unit, access.clock_ms() / 1000);
        outbox.note_logged(lsn);
        if aof.holds_replies() {
            access.locked_mut().note_logged(lsn);
            outbox.required_lsn = lsn;
        }
        outbox.send_waiting();
    } else if aof.holds_replies() {
        outbox.required_lsn = outbox.required_lsn.max(access.locked_mut().logged_at());
        outbox.send_waiting();
    }
}

/// Appends what a command had for the log when it failed inside the server: what the commands before it in
/// the same transaction or script have changed is not undone.
pub fn append_unfinished(context: &mut Context) {
    let outbox = &mut context.outbox;
    if !outbox.unit.is_empty() {
        let lsn = context.engine.aof.log.append(&mut outbox.unit, 0);
        outbox.note_logged(lsn);
    }
}

/// The refusal of writes after one of them could not be written.
pub fn write_refusal(engine: &Engine) -> Outcome {
    if !engine.aof.write_failed.load(Ordering::Relaxed) {
        return Ok(());
    }
    Err(Error::new(write_error(engine)))
}

/// The error reply that tells why the log can not be written, without `-` and the end of the line.
pub fn write_error(engine: &Engine) -> String {
    format!("MISCONF Errors writing to the AOF file: {}", engine.aof.write_error.lock())
}

/// Loads what there is, and begins to log if that is configured. Nobody is served yet. A dump is read where
/// there is no append-only file, so that switching it on in the configuration loses nothing.
pub fn start(engine: &Engine) -> Result<(), String> {
    let live = engine.live();
    persistence::begin(engine);
    engine.aof.configure(&live.config);
    writer::start(engine).map_err(|error| format!("Could not start a thread: {error}"))?;
    let is_loaded = live.config.appendonly && load::load(engine, None)?;
    if !is_loaded {
        persistence::load(engine)?;
    }
    // It may have been changed meanwhile.
    if engine.live().config.appendonly {
        files::open_at_start(engine)?;
    }
    Ok(())
}

/// Waits until everything that was logged is written, and durable. All shards must be locked, and no rewrite
/// be under way.
pub fn drain(engine: &Engine) {
    let path = engine.aof.files.lock().as_ref().and_then(Files::last_increment);
    if let Some(path) = path {
        let (sender, written) = std::sync::mpsc::channel::<()>();
        let storage = Arc::clone(&engine.storage);
        engine.aof.control.switch(Box::new(move || {
            drop(sender);
            storage.append(&path).map(Some)
        }));
        let _all_senders_are_gone_when_it_is_written = simulation::receive(&written);
    }
}

/// Has the log be switched on: by a rewrite, which begins at once or when nothing is in its way.
pub fn switch_on(engine: &Engine) {
    if engine.persistence.loading.load(Ordering::Acquire) {
        // It is looked at when that is done.
        return;
    }
    let is_busy = engine.persistence.saving.load(Ordering::Acquire);
    if is_busy || rewrite::start(engine).is_err() {
        engine.aof.rewrite.is_scheduled.store(true, Ordering::Relaxed);
        notice!(
            "AOF was enabled but there is already another background operation. An AOF background was \
             scheduled to start when possible."
        );
    }
}

/// Switches the log off for a command. Inside a transaction it is off when that has ended.
pub fn switch_off_for(invocation: &mut Invocation<'_, '_, '_>) {
    let engine = invocation.engine();
    if engine.persistence.loading.load(Ordering::Acquire) {
        return;
    }
    if invocation.in_transaction() {
        let started = engine.spawn("aof-off", switch_off);
        if let Err(error) = started {
            warning!("The append-only file could not be switched off: {error}");
        }
    } else {
        switch_off(engine);
    }
}

/// Switches the log off. No shard may be locked by this thread.
fn switch_off(engine: &Engine) {
    let locked = engine.keyspace.lock(engine.keyspace.all_shards());
    engine.keyspace.set_logged(false);
    engine.aof.rewrite.void();
    engine.aof.rewrite.is_scheduled.store(false, Ordering::Relaxed);
    drop(locked);
    finish(engine);
    engine.aof.is_listed.store(false, Ordering::Relaxed);
    *engine.aof.files.lock() = None;
    engine.aof.write_failed.store(false, Ordering::Relaxed);
    engine.aof.lost_after.store(Lsn::MAX, Ordering::Relaxed);
    engine.aof.control.abandon(false);
}

/// Makes everything durable that was logged, and closes the log.
pub fn finish(engine: &Engine) {
    let (sender, closed) = std::sync::mpsc::channel();
    let ends = engine.stopping.load(Ordering::Relaxed).then(|| engine.share());
    engine.aof.control.close(move || {
        if let Some(engine) = ends {
            engine.aof.has_ended.store(true, Ordering::Relaxed);
        }
        drop(sender);
    });
    let _all_senders_are_gone_when_it_is_closed: Result<(), _> = simulation::receive(&closed);
    engine.aof.log.kick();
}
