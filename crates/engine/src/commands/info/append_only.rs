//! The part of the persistence section that is about the append-only file.

use std::sync::atomic::Ordering;

use super::{Lines, Source};
use mantissa_sys::clock::unix_ms;

pub(super) fn append_only(lines: &mut Lines, source: &Source) {
    let engine = source.engine;
    let aof = &engine.aof;
    let is_on = engine.keyspace.is_logged();
    let rewrite = &aof.rewrite;
    let since_s = rewrite.since_s.load(Ordering::Relaxed);
    let status = |failed: bool| if failed { "err" } else { "ok" };
    lines.add("aof_enabled", u8::from(source.active.config.appendonly));
    lines.add("aof_rewrite_in_progress", u8::from(rewrite.is_running()));
    lines.add("aof_rewrite_scheduled", u8::from(rewrite.is_scheduled.load(Ordering::Relaxed)));
    lines.add("aof_last_rewrite_time_sec", rewrite.last_duration_s.load(Ordering::Relaxed));
    let current_s = if rewrite.is_running() { unix_ms() / 1000 - since_s } else { -1 };
    lines.add("aof_current_rewrite_time_sec", current_s);
    lines.add("aof_last_bgrewrite_status", status(rewrite.has_failed.load(Ordering::Relaxed)));
    lines.add("aof_rewrites", rewrite.count.load(Ordering::Relaxed));
    lines.add("aof_rewrites_consecutive_failures", rewrite.failures.load(Ordering::Relaxed));
    lines.add("aof_last_write_status", status(aof.write_failed.load(Ordering::Relaxed)));
    lines.zeros(&["aof_last_cow_size", "module_fork_in_progress", "module_fork_last_cow_size"]);
    if is_on {
        lines.add("aof_current_size", aof.bytes());
        lines.add("aof_base_size", aof.base_bytes.load(Ordering::Relaxed));
        lines.add("aof_pending_rewrite", 0);
        lines.add("aof_buffer_length", aof.control.unwritten());
        lines.add("aof_pending_bio_fsync", u8::from(aof.control.is_syncing()));
        lines.add("aof_delayed_fsync", aof.control.slow_syncs());
    }
}
