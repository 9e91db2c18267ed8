//! The backlog: the end of the log, kept for replicas that come back; and whether changes are logged at all.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_persist::log::{Chunk, Reader, Start};
use mantissa_store::LockedShards;
use mantissa_sys::clock::unix_ms;
use mantissa_sys::simulation::{self, Fault};

use crate::engine::{Engine, random_id};
use crate::notice;
use crate::state::replication::{Former, History, Kept};

/// Bytes of the log that are passed on at once.
const PASSED_BYTES_MAX: usize = 256 << 10;

/// Sets whether changes are logged: for the append-only file, for an archive, for a backup, or for replicas.
/// All shards must be locked. A primary whose changes were not logged until now begins another history:
/// nobody knows what they were.
pub fn settle_logging(engine: &Engine) {
    let replication = &engine.replication;
    let logs = engine.aof.is_logging.load(Ordering::Relaxed)
        || engine.archive.log.is_on.load(Ordering::Relaxed)
        || engine.backup.is_logging.load(Ordering::Relaxed)
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
        *kept = Some(Kept { backlog, first: engine.log.end(), former: None });
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
    let (first, end) = (first_offset(engine, kept.as_ref()?), engine.replication.offset_of(engine.log.end()));
    Some((first + 1, end.saturating_sub(first)))
}

/// The number of bytes of the history before the first that is kept.
fn first_offset(engine: &Engine, kept: &Kept) -> u64 {
    match former_of(kept) {
        Some(former) => former.offset,
        None => engine.replication.offset_of(kept.backlog.first().max(kept.first)),
    }
}

/// What comes before the log, as long as the log goes on there.
fn former_of(kept: &Kept) -> Option<&Former> {
    kept.former.as_ref().filter(|_| kept.backlog.first() <= kept.first)
}

/// What is kept of the history behind its first `offset` bytes: first these pieces, then what the reader of
/// the log has. `None` if some of it is not kept.
pub fn read_from(engine: &Engine, offset: u64, bytes_max: u64) -> Option<(Vec<Arc<Vec<u8>>>, Reader)> {
    let kept = engine.replication.kept.lock();
    let kept = kept.as_ref()?;
    let log_offset = engine.replication.offset_of(kept.backlog.first().max(kept.first));
    let (pieces, offset) = match former_of(kept) {
        Some(former) if offset < log_offset => (former.from(offset)?, log_offset),
        _ if offset < log_offset => return None,
        _ => (Vec::new(), offset),
    };
    let lsn = engine.replication.lsn_of(offset);
    let start = if simulation::has_fault(Fault::SkippedBacklog) { Start::Here } else { Start::At(lsn) };
    Some((pieces, engine.log.register(start, bytes_max, None).ok()?))
}

/// Drops what is kept from before the log, as far as `repl-backlog-size` does not ask for it.
pub fn trim_former(engine: &Engine, backlog_bytes: u64) {
    let mut kept = engine.replication.kept.lock();
    let Some(kept) = kept.as_mut().filter(|kept| kept.former.is_some()) else { return };
    let logged = engine.log.end().saturating_sub(kept.first);
    match former_of(kept).is_some() && logged < backlog_bytes {
        true => kept.former.iter_mut().for_each(|former| former.trim(backlog_bytes - logged)),
        false => kept.former = None,
    }
}

/// Of a process that takes over: the number of bytes of the history before the log, which the other may still
/// have.
pub fn log_offset(engine: &Engine) -> Option<u64> {
    engine.replication.kept.lock().as_ref().map(|kept| engine.replication.offset_of(kept.first))
}

/// Gives what is kept of the history before its byte `end`, at most `repl-backlog-size` bytes: in pieces,
/// each with the number of bytes before it.
pub fn pass_on(
    engine: &Engine,
    end: u64,
    mut give: impl FnMut(u64, &[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let first = match &*engine.replication.kept.lock() {
        Some(kept) => first_offset(engine, kept),
        None => return Ok(()),
    };
    let mut offset = first.max(end.saturating_sub(engine.active_config().config.repl_backlog_size));
    if offset >= end {
        return Ok(());
    }
    let Some((pieces, mut reader)) = read_from(engine, offset, u64::MAX) else { return Ok(()) };
    for piece in &pieces {
        give(offset, piece)?;
        offset += piece.len() as u64;
    }
    let (until, mut chunks) = (engine.replication.lsn_of(end), Vec::new());
    while offset < end {
        let read = reader.read(until, PASSED_BYTES_MAX, &mut chunks);
        if read.is_err() || chunks.is_empty() {
            // It is of no use without the rest.
            return Ok(());
        }
        let piece = chunks.iter().map(Chunk::bytes).collect::<Vec<_>>().concat();
        chunks.clear();
        give(offset, &piece)?;
        offset += piece.len() as u64;
    }
    Ok(())
}

/// Takes what comes before the log in the same history, if it reaches up to that.
pub fn adopt(engine: &Engine, former: Former) {
    let mut kept = engine.replication.kept.lock();
    let Some(kept) = kept.as_mut() else { return };
    if former.bytes > 0 && former.end() == engine.replication.offset_of(kept.first) {
        kept.former = Some(former);
    }
}
