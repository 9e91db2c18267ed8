//! The backlog: the end of the log, kept for replicas that come back; and whether changes are logged at all.

use std::sync::atomic::Ordering;

use mantissa_persist::log::{Reader, Start};
use mantissa_store::LockedShards;
use mantissa_sys::clock::unix_ms;

use crate::engine::{Engine, random_id};
use crate::notice;
use crate::state::replication::{History, Kept};

/// Sets whether changes are logged: for the append-only file, for an archive, or for replicas. All shards
/// must be locked. A primary whose changes were not logged until now begins another history: nobody knows
/// what they were.
pub fn settle_logging(engine: &Engine) {
    let replication = &engine.replication;
    let logs = engine.aof.is_logging.load(Ordering::Relaxed)
        || engine.archive.log.is_on.load(Ordering::Relaxed)
        || replication.kept.lock().is_some();
    let logged = engine.keyspace.is_logged();
    if logs != logged && !replication.is_replica() {
        replication.set_history(History { id: random_id(), second: None });
    }
    engine.keyspace.set_logged(logs);
}

/// Begins a backlog where there is none.
pub fn begin(engine: &Engine, _all: &LockedShards<'_>) {
    let mut kept = engine.replication.kept.lock();
    if kept.is_none() {
        let backlog = engine.log.keep(engine.active_config().config.repl_backlog_size);
        *kept = Some(Kept { backlog, first: engine.log.end() });
        drop(kept);
        settle_logging(engine);
    }
}

/// Drops the backlog.
pub fn end(engine: &Engine, _all: &LockedShards<'_>) {
    let kept = engine.replication.kept.lock().take();
    settle_logging(engine);
    // Freed after the lock on it is released.
    drop(kept);
}

/// Begins to log for an archive, from here on, with SELECT before the next command unless a primary's stream
/// goes on. The reader is dropped if more than `bytes_max` bytes wait for it.
pub fn begin_archive_log(engine: &Engine, _all: &LockedShards<'_>, bytes_max: u64) -> Option<Reader> {
    engine.archive.log.is_on.store(true, Ordering::Relaxed);
    settle_logging(engine);
    let start = if engine.replication.is_replica() { Start::Here } else { Start::Fresh };
    engine.log.register(start, bytes_max, None).ok()
}

/// Ends that. No shard may be locked by this thread.
pub fn end_archive_log(engine: &Engine) {
    let _locked = engine.keyspace.lock(engine.keyspace.all_shards());
    engine.archive.log.is_on.store(false, Ordering::Relaxed);
    settle_logging(engine);
}

/// Drops the backlog of a primary that has had no replica for `repl-backlog-ttl`. No shard may be locked.
pub fn expire(engine: &Engine, ttl_s: u64, now_ms: i64) {
    let replication = &engine.replication;
    let idle_since_ms = replication.serving.idle_since_ms.load(Ordering::Relaxed);
    let is_over = idle_since_ms > 0 && (now_ms - idle_since_ms) / 1000 > ttl_s as i64;
    if ttl_s == 0 || !is_over || replication.is_replica() || replication.kept.lock().is_none() {
        return;
    }
    let locked = engine.keyspace.lock(engine.keyspace.all_shards());
    if replication.replicas.lock().is_empty() && !replication.is_replica() {
        end(engine, &locked);
        notice!("Replication backlog freed after {ttl_s} seconds without connected replicas.");
    }
}

/// Notes that there is no replica any more.
pub fn note_idle(engine: &Engine) {
    engine.replication.serving.idle_since_ms.store(unix_ms(), Ordering::Relaxed);
}

/// Where a replica could go on: the offset of the first byte that is kept, and the number of bytes.
pub fn range(engine: &Engine) -> Option<(u64, u64)> {
    let kept = engine.replication.kept.lock();
    let kept = kept.as_ref()?;
    let (first, end) = (kept.backlog.first().max(kept.first), engine.log.end());
    Some((engine.replication.offset_of(first) + 1, end.saturating_sub(first)))
}
