//! Values on disk.

use super::{Lines, Source};

/// Nothing where all values are in memory.
pub(super) fn section(lines: &mut Lines, source: &Source) {
    let Some(figures) = source.engine.tier.figures() else { return };
    lines.add("tier_values", figures.file.values);
    lines.add("tier_value_bytes", figures.file.value_bytes);
    lines.add("tier_file_bytes", figures.file.used_bytes);
    lines.add("tier_max_bytes", source.active.config.tier_max_size);
    lines.add("tier_waiting_bytes", figures.file.waiting_bytes);
    lines.add("tier_offloaded_values", figures.offloaded);
    lines.add("tier_forgotten_values", figures.forgotten);
    lines.add("tier_moved_values", figures.moved);
    lines.add("tier_written_values", figures.file.written);
    lines.add("tier_written_bytes", figures.file.written_bytes);
    lines.add("tier_reads", figures.file.reads);
    lines.add("tier_part_reads", figures.file.part_reads);
    lines.add("tier_read_bytes", figures.file.read_bytes);
    lines.add("tier_waited_requests", figures.fetches);
    lines.add("tier_read_errors", figures.file.read_errors);
    lines.add("tier_write_errors", figures.file.write_errors);
}
