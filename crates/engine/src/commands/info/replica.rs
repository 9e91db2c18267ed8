//! The lines of INFO about the link to the primary.

use std::sync::atomic::Ordering;

use mantissa_sys::clock::unix_ms;

use super::{Lines, Source};
use crate::state::replication::{Address, LinkState};

/// The lines of the section `replication` that only a replica has.
pub(super) fn replica(lines: &mut Lines, source: &Source) {
    let (engine, config) = (source.engine, &source.active.config);
    let (replication, now_ms) = (&engine.replication, unix_ms());
    let Some(Address { host, port }) = replication.primary.lock().clone() else { return };
    let link = &replication.link;
    let (state, now_s) = (link.state(), now_ms / 1000);
    let seconds_since = |then_s: i64| (now_s - then_s).max(0);
    let heard_s = (now_ms - link.heard_ms.load(Ordering::Relaxed)).max(0) / 1000;
    let offset = replication.offset_of(engine.log.end());
    lines.add("master_host", host);
    lines.add("master_port", port);
    lines.add("master_link_status", if link.is_up() { "up" } else { "down" });
    lines.add("master_last_io_seconds_ago", if link.is_up() { heard_s } else { -1 });
    lines.add("master_sync_in_progress", u8::from(state == LinkState::Transfer));
    lines.add("slave_read_repl_offset", offset + link.unapplied_bytes.load(Ordering::Relaxed));
    lines.add("slave_repl_offset", offset);
    lines.add("replica_full_sync_buffer_size", link.ahead_bytes.load(Ordering::Relaxed));
    lines.add("replica_full_sync_buffer_peak", link.ahead_bytes_peak.load(Ordering::Relaxed));
    lines.add("master_current_sync_attempts", link.attempts.load(Ordering::Relaxed));
    lines.add("master_total_sync_attempts", link.attempts_total.load(Ordering::Relaxed));
    if state == LinkState::Transfer {
        let total = link.dump_bytes.load(Ordering::Relaxed);
        let received = link.dump_received.load(Ordering::Relaxed) as i64;
        lines.add("master_sync_total_bytes", total);
        lines.add("master_sync_read_bytes", received);
        lines.add("master_sync_left_bytes", total - received);
        let percent = if total == 0 { 0.0 } else { received as f64 * 100.0 / total as f64 };
        lines.add("master_sync_perc", format!("{percent:.2}"));
        let heard_s = link.dump_heard_s.load(Ordering::Relaxed);
        lines.add("master_sync_last_io_seconds_ago", seconds_since(heard_s));
    }
    if link.is_up() {
        let up_since_s = link.up_since_s.load(Ordering::Relaxed);
        lines.add("master_link_up_since_seconds", seconds_since(up_since_s));
    } else {
        let down_since_s = link.down_since_s.load(Ordering::Relaxed);
        let down_s = if down_since_s == 0 { -1 } else { seconds_since(down_since_s) };
        lines.add("master_link_down_since_seconds", down_s);
    }
    lines.add("total_disconnect_time_sec", link.down_s.load(Ordering::Relaxed));
    lines.add("slave_priority", config.replica_priority);
    lines.add("slave_read_only", u8::from(config.replica_read_only));
    lines.add("replica_announced", u8::from(config.replica_announced));
}
