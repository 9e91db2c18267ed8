//! The engine: what all threads that run commands share.

use mantissa_sys::clock;
use mantissa_sys::simulation::{self, Fault};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use mantissa_commands::LazyFree;
use mantissa_persist::log::{Log, Lsn};
use mantissa_persist::storage::Storage;
use mantissa_persist::write::ReplicationFacts;
use mantissa_store::{Entry, Keyspace, SHARD_COUNT_MAX};
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

use crate::acl::Acl;
use crate::active_config::ActiveConfig;
use crate::client_memory::{self, ClientMemory};
use crate::command_log::{Cause, CommandLog};
use crate::host::{Host, Message};
use crate::hot_keys::HotKeys;
use crate::invocation::Registry;
use crate::jobs::Jobs;
use crate::key_sizes::KeySizes;
use crate::latency::LatencyMonitor;
use crate::memory_limit::{Freeing, Pressure};
use crate::pubsub::PubSub;
use crate::scripting::{self, Scripting};
use crate::session::{BlockedClient, SharedSession, Waiter, flag};
use crate::state::aof::Aof;
use crate::state::archive::ArchiveState;
use crate::state::backup::BackupState;
use crate::state::persistence::Persistence;
use crate::state::replication::{OwnExpiries, Replication};
use crate::state::tier::Tier;
use crate::state::tracking::Tracking;
use crate::stats::{ExpiryFigures, Stats};
use mantissa_config::Config;
use mantissa_sys::clock::unix_ms;

/// CLIENT PAUSE.
#[derive(Default)]
pub struct Pause {
    /// Until when, Unix time in ms; 0 if not paused.
    pub until_ms: AtomicI64,
    /// Whether reads are paused as well as writes.
    pub all: AtomicBool,
    /// Writes wait for a failover, whatever the rest says.
    holds_writes: AtomicBool,
}

impl Pause {
    /// Has writes wait, or no longer, apart from CLIENT PAUSE. Then its end is not 0: who looks at that first
    /// must see that there is more to look at.
    pub fn hold_writes(&self, holds: bool) {
        self.holds_writes.store(holds, Ordering::Relaxed);
        let (from, to) = if holds { (0, 1) } else { (1, 0) };
        let _ends_otherwise = self.until_ms.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Ends CLIENT PAUSE.
    pub fn end(&self) {
        let holds_writes = self.holds_writes.load(Ordering::Relaxed);
        self.until_ms.store(i64::from(holds_writes), Ordering::Relaxed);
        self.all.store(false, Ordering::Relaxed);
    }
}

/// The threads that work for an engine.
#[derive(Default)]
struct Threads {
    count: Mutex<usize>,
    ended: Condvar,
}

/// A thread that works for an engine, until it is dropped.
struct Running(Arc<Threads>);

impl Threads {
    fn start(self: &Arc<Self>) -> Running {
        *self.count.lock() += 1;
        Running(Arc::clone(self))
    }

    fn wait(&self) {
        const LOOK_EVERY: Duration = Duration::from_millis(10);
        while simulation::is_active() && *self.count.lock() > 0 {
            simulation::wait(Some(LOOK_EVERY));
        }
        let mut count = self.count.lock();
        while *count > 0 {
            self.ended.wait_for(&mut count, LOOK_EVERY);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.ended.notify_all();
    }
}

/// Threads with counters of their own that are no workers: the background thread, and the link to a primary.
pub const OTHER_THREADS: usize = 2;

/// Work to be done with no shard locked.
type Postponed = Box<dyn FnOnce(&Engine) + Send>;

/// What all threads that run commands share. A process may have several.
pub struct Engine {
    host: Arc<dyn Host>,
    /// Where its files are.
    pub storage: Arc<dyn Storage>,
    itself: Weak<Engine>,
    threads: Arc<Threads>,
    /// The data.
    pub keyspace: Keyspace,
    /// The commands.
    pub registry: &'static Registry,
    /// The same by the names that they have without `rename-command`.
    pub original_registry: &'static Registry,
    /// Users.
    pub acl: Acl,
    active: ArcSwap<ActiveConfig>,
    config_version: AtomicU64,
    /// Held while the configuration changes.
    pub config_change: Mutex<()>,
    /// Connected clients by number.
    pub clients: RwLock<BTreeMap<u64, Arc<SharedSession>>>,
    next_client: AtomicU64,
    /// The memory of all clients.
    pub client_memory: ClientMemory,
    /// Subscriptions of all clients.
    pub pubsub: PubSub,
    /// Clients that keep copies of keys.
    pub tracking: Tracking,
    /// Clients that wait in blocking commands, by number.
    pub blocked: Mutex<HashMap<u64, Arc<BlockedClient>>>,
    /// The number of commands whose clients wait while a thread of its own works for them.
    pub under_way: Arc<AtomicUsize>,
    /// Clients in WAIT and WAITAOF.
    pub awaiting_log: Mutex<Vec<Waiter>>,
    next_ticket: AtomicU64,
    /// Statistics of compaction.
    pub compaction: crate::compaction::Figures,
    /// Clients in MONITOR.
    pub monitors: RwLock<Vec<Arc<SharedSession>>>,
    /// Their number, readable without the lock.
    pub monitor_count: AtomicUsize,
    /// Work that waits for shards that a slow script holds.
    postponed: Mutex<Vec<Postponed>>,
    has_postponed: AtomicBool,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// Counters.
    pub stats: Stats,
    /// Commands that were slow or large, by [`Cause`].
    command_logs: [Mutex<CommandLog>; 3],
    /// Latency events.
    pub latency: Mutex<LatencyMonitor>,
    /// Scripts.
    pub scripting: Scripting,
    /// Dump files.
    pub persistence: Persistence,
    /// Snapshots into an archive.
    pub archive: ArchiveState,
    /// The backup that BACKUP START has begun.
    pub backup: BackupState,
    /// The log of commits.
    pub log: Arc<Log>,
    /// The append-only file.
    pub aof: Aof,
    /// Has it begin anew with the present data, where it is on.
    pub aof_begins_anew: OnceLock<fn(&Engine)>,
    /// Replication.
    pub replication: Replication,
    /// Frees large values.
    lazy_free_sender: Mutex<Option<std::sync::mpsc::Sender<(LazyFree, Freeing)>>>,
    /// Values on disk.
    pub tier: Tier,
    /// How far memory is beyond its limit.
    pub pressure: Arc<Pressure>,
    /// The keys that are used most.
    pub hot_keys: HotKeys,
    /// The sizes of keys.
    pub key_sizes: KeySizes,
    /// Walks over all keys that clients wait for.
    pub(crate) jobs: Jobs,
    /// Counts of active expiry.
    pub expiry: ExpiryFigures,
    /// Keys waiting to be freed in the background, as Redis counts them.
    pub lazyfree_pending: Arc<AtomicUsize>,
    /// How often large values were given to the thread that frees.
    pub freed_large: AtomicU64,
    /// Keys that have been freed in the background.
    pub lazyfreed: Arc<AtomicUsize>,
    /// Bytes in use when the engine was ready for data.
    pub startup_bytes: AtomicU64,
    /// When the engine was made.
    pub started: Instant,
    /// 40 hexadecimal digits, new at each start.
    pub run_id: String,
    /// DEBUG SET-ACTIVE-EXPIRE.
    pub active_expire: AtomicBool,
    /// DEBUG PAUSE-CRON: the background thread does nothing.
    pub pauses_cron: AtomicBool,
    /// Held for each of the background thread's rounds; it does nothing while another holds it.
    pub background_turn: Mutex<()>,
    /// DEBUG SET-DISABLE-DENY-SCRIPTS: scripts may call DEBUG.
    pub debug_in_scripts: AtomicBool,
    /// The engine is shutting down.
    pub stopping: AtomicBool,
}

/// How many shards so many workers get, each of which takes 3 KB: how often two of them want the same one
/// grows with the square of their number. MSETs of ten keys by eight workers: 829,000 a second with 256
/// shards, 1,487,000 with 1,024; but a script that names no keys locks all.
fn shards_for(worker_count: usize) -> usize {
    (worker_count * worker_count * 8).clamp(64, SHARD_COUNT_MAX)
}

impl Engine {
    /// An engine with an empty keyspace and these commands, and the same by their original names.
    pub(crate) fn with_commands(
        config: Config,
        registry: &'static Registry,
        original_registry: &'static Registry,
        storage: Arc<dyn Storage>,
        host: Arc<dyn Host>,
    ) -> Arc<Engine> {
        Arc::new_cyclic(|itself| {
            Engine::with_parts(config, registry, original_registry, storage, host, Weak::clone(itself))
        })
    }

    fn with_parts(
        config: Config,
        registry: &'static Registry,
        original_registry: &'static Registry,
        storage: Arc<dyn Storage>,
        host: Arc<dyn Host>,
        itself: Weak<Engine>,
    ) -> Engine {
        let worker_count = host.worker_count();
        let shard_count = if config.shards == 0 { shards_for(worker_count) } else { config.shards };
        let log = Arc::<Log>::default();
        let pressure = Arc::new(Pressure::new(config.maxmemory, &log));
        Engine {
            host,
            storage,
            itself,
            threads: Arc::default(),
            keyspace: Keyspace::new(config.databases, shard_count),
            registry,
            original_registry,
            acl: Acl::new(registry, &config),
            active: ArcSwap::from_pointee(ActiveConfig::new(1, config)),
            config_version: AtomicU64::new(1),
            config_change: Mutex::default(),
            clients: RwLock::default(),
            next_client: AtomicU64::new(1),
            client_memory: ClientMemory::new(worker_count),
            pubsub: PubSub::default(),
            tracking: Tracking::default(),
            blocked: Mutex::default(),
            under_way: Arc::default(),
            awaiting_log: Mutex::default(),
            next_ticket: AtomicU64::new(1),
            compaction: crate::compaction::Figures::default(),
            monitors: RwLock::default(),
            monitor_count: AtomicUsize::new(0),
            postponed: Mutex::default(),
            has_postponed: AtomicBool::new(false),
            pause: Pause::default(),
            stats: Stats::new(registry.index_count(), worker_count + OTHER_THREADS),
            command_logs: Default::default(),
            latency: Mutex::new(LatencyMonitor::new()),
            scripting: Scripting::new(worker_count + OTHER_THREADS, scripting::language()),
            persistence: Persistence::default(),
            archive: ArchiveState::default(),
            backup: BackupState::default(),
            aof: Aof::new(Arc::clone(&log), worker_count),
            log,
            aof_begins_anew: OnceLock::new(),
            replication: Replication::new(random_id(), worker_count),
            lazy_free_sender: Mutex::default(),
            tier: Tier::default(),
            pressure,
            hot_keys: HotKeys::new(worker_count + OTHER_THREADS),
            key_sizes: KeySizes::default(),
            jobs: Jobs::default(),
            expiry: ExpiryFigures::default(),
            lazyfree_pending: Arc::default(),
            freed_large: AtomicU64::default(),
            lazyfreed: Arc::default(),
            startup_bytes: AtomicU64::new(0),
            started: clock::now(),
            run_id: random_id(),
            active_expire: AtomicBool::new(true),
            pauses_cron: AtomicBool::new(false),
            background_turn: Mutex::default(),
            debug_in_scripts: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        }
    }

    /// The commands of a cause.
    pub fn command_log(&self, cause: Cause) -> MutexGuard<'_, CommandLog> {
        self.command_logs[cause as usize].lock()
    }

    /// The configuration in force.
    pub fn active_config(&self) -> Arc<ActiveConfig> {
        self.active.load_full()
    }

    /// Records a latency event if it took as long as `latency-monitor-threshold`.
    pub fn note_latency(&self, event: &'static str, spent: Duration) {
        let spent_ms = spent.as_millis() as u64;
        if spent_ms > 0 {
            let threshold_ms = self.active.load().config.latency_monitor_threshold_ms;
            if threshold_ms > 0 && spent_ms >= threshold_ms {
                self.latency.lock().add(event, spent_ms, unix_ms() / 1000);
            }
        }
    }

    /// The version of the configuration in force.
    #[inline]
    pub fn config_version(&self) -> u64 {
        self.config_version.load(Ordering::Acquire)
    }

    /// Puts a new configuration in force. The caller holds `config_change`.
    pub fn set_config(&self, config: Config) {
        self.pressure.set_limit(config.maxmemory);
        if let Some(kept) = &*self.replication.kept.lock() {
            kept.backlog.resize(config.repl_backlog_size);
        }
        let limits_clients = client_memory::limit(&config).is_some();
        let version = self.config_version() + 1;
        let active = ActiveConfig::new(version, config);
        self.tier.configure(active.config.tier_max_size);
        self.active.store(Arc::new(active));
        self.config_version.store(version, Ordering::Release);
        self.pressure.wake_background();
        if limits_clients {
            self.send_all(|| Message::WeighClients);
        }
    }

    /// The number for the next client.
    pub fn next_client_id(&self) -> u64 {
        self.next_client.fetch_add(1, Ordering::Relaxed)
    }

    /// Where replication stands at the end of the log. All shards must be locked, unless nobody is served.
    pub fn stream_facts(&self) -> ReplicationFacts {
        ReplicationFacts {
            database: self.log.database().map_or(-1, |database| database as i64),
            id: self.replication.history().id,
            offset: self.replication.offset_of(self.log.end()) as i64,
        }
    }

    /// The number of the last client.
    pub fn last_client_id(&self) -> u64 {
        self.next_client.load(Ordering::Relaxed) - 1
    }

    /// Has the next client get this number, or a later one.
    pub fn skip_client_ids(&self, next: u64) {
        self.next_client.fetch_max(next, Ordering::Relaxed);
    }

    /// The next ticket for the queues of blocked clients: lower ones are served first.
    pub fn next_ticket(&self) -> u64 {
        let ticket = self.next_ticket.fetch_add(1, Ordering::Relaxed);
        if simulation::has_fault(Fault::NewestFirst) { u64::MAX / 2 - ticket } else { ticket }
    }

    /// The number of the host's workers.
    pub fn worker_count(&self) -> usize {
        self.host.worker_count()
    }

    /// The number of the thread that applies a primary's stream, as that of a worker.
    pub fn link_number(&self) -> usize {
        self.worker_count() + OTHER_THREADS - 1
    }

    /// Sets whether the server follows another. All shards must be locked, unless nobody is served yet.
    pub fn set_replica(&self, is_replica: bool) {
        self.replication.set_replica(is_replica);
        self.keyspace.set_keeps_expired(is_replica && !simulation::has_fault(Fault::ExpiringReplica));
        *self.replication.own_expiries.lock() = OwnExpiries::default();
    }

    /// The program around the engine.
    pub fn host(&self) -> &dyn Host {
        &*self.host
    }

    /// The engine itself, for a thread that outlives the caller.
    pub fn share(&self) -> Arc<Engine> {
        self.itself.upgrade().unwrap_or_else(|| unreachable!("whoever calls holds the engine"))
    }

    /// Waits until the threads that work for the engine have ended. `stopping` must be set, and the log
    /// closed.
    pub fn wait_for_threads(&self) {
        // The thread that frees ends when it has freed everything.
        *self.lazy_free_sender.lock() = None;
        simulation::yield_point();
        self.threads.wait();
    }

    /// Starts a thread that works for the engine. It holds the engine until it ends.
    pub fn spawn(&self, name: &str, work: impl FnOnce(&Engine) + Send + 'static) -> std::io::Result<()> {
        let (engine, running) = (self.share(), self.threads.start());
        simulation::spawn(name, move || {
            work(&engine);
            drop(engine);
            drop(running);
        })
    }

    /// Sends a message to a worker.
    pub fn send(&self, worker: usize, message: Message) {
        self.host.send(worker, message, 0);
    }

    /// Sends a message to a worker that takes effect once the log is confirmed up to `lsn`.
    pub fn send_after(&self, worker: usize, message: Message, lsn: Lsn) {
        self.host.send(worker, message, lsn);
    }

    /// Wakes a worker.
    pub fn wake(&self, worker: usize) {
        self.host.wake(worker);
    }

    /// Sends a message to every worker.
    pub fn send_all(&self, message: impl Fn() -> Message) {
        (0..self.worker_count()).for_each(|worker| self.send(worker, message()));
    }

    /// Ends a session: no request of it runs from now on, and its worker disconnects it.
    pub fn end_session(&self, session: &SharedSession) {
        session.mark(flag::KILLED, true);
        if session.has(flag::PRIMARY) {
            self.replication.lose_link();
        }
        let blocked = self.blocked.lock().get(&session.id).cloned();
        if let Some(blocked) = blocked {
            *blocked.waiting.lock() = false;
        }
        self.clients.write().remove(&session.id);
        let target = *session.target.lock();
        self.send(target.worker, Message::Kill(target.conn));
    }

    /// Starts the thread that frees large values.
    pub fn start_lazy_free(&self) -> std::io::Result<()> {
        let (sender, receiver) = std::sync::mpsc::channel::<(LazyFree, Freeing)>();
        self.spawn("lazy-free", move |engine| {
            while let Ok((to_free, freeing)) = simulation::receive(&receiver) {
                let objects = to_free.lazy_objects as usize;
                drop(to_free);
                engine.pressure.end_freeing(freeing);
                engine.lazyfree_pending.fetch_sub(objects, Ordering::Relaxed);
                engine.lazyfreed.fetch_add(objects, Ordering::Relaxed);
            }
        })?;
        *self.lazy_free_sender.lock() = Some(sender);
        Ok(())
    }

    /// Counts scripts or functions that a flush with ASYNC has freed, if they are more than 64. Redis frees
    /// those in the background and counts them; here they are freed at once.
    pub fn count_flushed_scripts(&self, count: usize, also: usize) {
        const COUNT_MAX: usize = 64;
        if count > COUNT_MAX {
            self.lazyfreed.fetch_add(count + also, Ordering::Relaxed);
        }
    }

    /// Frees values: here if that is quick, else in the background. No shard may be locked.
    pub fn free_values(&self, to_free: LazyFree) {
        let objects = to_free.lazy_objects as usize;
        if !to_free.is_large() {
            drop(to_free);
            self.lazyfreed.fetch_add(objects, Ordering::Relaxed);
            return;
        }
        self.freed_large.fetch_add(1, Ordering::Relaxed);
        // In the place of the thread, where there is none, who asks frees.
        let sender = self.lazy_free_sender.lock();
        if let Some(sender) = &*sender {
            self.lazyfree_pending.fetch_add(objects, Ordering::Relaxed);
            let freeing = self.pressure.begin_freeing(&to_free);
            if sender.send((to_free, freeing)).is_err() {
                self.pressure.end_freeing(freeing);
                self.lazyfree_pending.fetch_sub(objects, Ordering::Relaxed);
            }
        }
    }

    /// Frees an image that may be the last holder of its value, in the background. It counts neither as a
    /// value that is freed nor as memory that is about to be.
    pub fn free_image(&self, image: Entry) {
        if let Some(sender) = &*self.lazy_free_sender.lock() {
            let to_free = LazyFree { entries: vec![image], ..LazyFree::default() };
            // Without the thread it is freed here.
            _ = sender.send((to_free, Freeing::NOTHING));
        }
    }

    /// Postpones work until no script is slow.
    pub fn postpone(&self, work: impl FnOnce(&Engine) + Send + 'static) {
        self.postponed.lock().push(Box::new(work));
        self.has_postponed.store(true, Ordering::Release);
    }

    /// Does the postponed work, if no script is slow and no file is loaded. No shard may be locked.
    pub fn do_postponed(&self) {
        let is_reloading = self.persistence.reloading.load(Ordering::Relaxed);
        if self.has_postponed.load(Ordering::Acquire) && !self.scripting.is_busy() && !is_reloading {
            self.has_postponed.store(false, Ordering::Release);
            let all = std::mem::take(&mut *self.postponed.lock());
            all.into_iter().for_each(|work| work(self));
        }
    }

    /// Has expired keys be kept where they are as long as writes are paused. To be called after a change of
    /// that, and from time to time.
    pub fn heed_pause(&self, now_ms: i64) {
        self.keyspace.pause_expiry(self.pauses(now_ms, true));
    }

    /// Whether CLIENT PAUSE postpones a command at this time. `may_write`: the command may write.
    pub fn pauses(&self, now_ms: i64, may_write: bool) -> bool {
        let until = self.pause.until_ms.load(Ordering::Relaxed);
        (until > now_ms && (may_write || self.pause.all.load(Ordering::Relaxed)))
            || (may_write && self.pause.holds_writes.load(Ordering::Relaxed))
    }
}

/// 40 random hexadecimal digits.
pub fn random_id() -> String {
    use std::hash::{BuildHasher, Hasher};
    let mut id = String::new();
    while id.len() < 40 {
        let number = simulation::draw().unwrap_or_else(|| {
            let mut hasher = std::hash::RandomState::new().build_hasher();
            hasher.write_usize(id.len());
            hasher.finish()
        });
        id.push_str(&format!("{number:016x}"));
    }
    id.truncate(40);
    id
}
