//! INFO's fields of the archive, where one is configured.

use std::sync::atomic::Ordering::Relaxed;

use super::{Lines, Source};

/// Whether there is an archive, and what is known of it.
pub(super) fn archive(lines: &mut Lines, source: &Source) {
    let active = source.engine.active_config();
    let archive = &source.engine.archive;
    if active.config.archive_url.is_empty() {
        return;
    }
    let state = |error: &str| if error.is_empty() { "ok" } else { "err" };
    lines.add("archive_in_progress", u8::from(archive.is_running.load(Relaxed)));
    lines.add("archive_last_time", archive.last_ms.load(Relaxed) / 1000);
    lines.add("archive_next_time", archive.next_ms.load(Relaxed) / 1000);
    lines.add("archive_last_status", state(&archive.error.lock()));
    lines.add("archive_last_duration_ms", archive.last_duration_ms.load(Relaxed));
    lines.add("archive_last_bytes", archive.last_bytes.load(Relaxed));
    lines.add("archive_last_new_bytes", archive.last_new_bytes.load(Relaxed));
    lines.add("archive_last_stored_bytes", archive.last_stored_bytes.load(Relaxed));
    lines.add("archive_saves", archive.count.load(Relaxed));
    lines.add("archive_failures", archive.failures.load(Relaxed));
    lines.add("archive_snapshots", archive.kept.load(Relaxed));
    let log = &archive.log;
    lines.add("archive_log_enabled", u8::from(log.is_on.load(Relaxed)));
    lines.add("archive_log_last_time", log.stored_ms.load(Relaxed) / 1000);
    lines.add("archive_log_status", state(&log.error.lock()));
    lines.add("archive_log_segments", log.segments.load(Relaxed));
    lines.add("archive_log_bytes", log.bytes.load(Relaxed));
    lines.add("archive_log_breaks", log.breaks.load(Relaxed));
}
