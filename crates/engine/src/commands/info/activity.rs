//! The sections that count what the server has done.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Lines, Source};
use crate::acl::log::Reason;
use crate::engine::Engine;
use crate::invocation::Command;
use crate::latency::Distribution;
use mantissa_config::format_percentile;

/// Figures of Redis's defragmentation, which is another one here.
const DEFRAGMENTATION: [&str; 5] = [
    "active_defrag_hits",
    "active_defrag_misses",
    "active_defrag_key_hits",
    "active_defrag_key_misses",
    "current_active_defrag_time",
];

/// The fields of refusals by ACL; the last is Valkey's.
const REFUSALS: [(&str, Reason); 5] = [
    ("acl_access_denied_auth", Reason::Auth),
    ("acl_access_denied_cmd", Reason::Command),
    ("acl_access_denied_key", Reason::Key),
    ("acl_access_denied_channel", Reason::Channel),
    ("acl_access_denied_db", Reason::Database),
];

pub(super) fn stats(lines: &mut Lines, source: &Source) {
    let engine = source.engine;
    let totals = engine.stats.totals();
    let rate = |figure: &std::sync::atomic::AtomicU64| figure.load(Ordering::Relaxed);
    let kilobytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    lines.add("total_connections_received", totals.connections);
    lines.add("total_commands_processed", totals.commands);
    lines.add("instantaneous_ops_per_sec", rate(&engine.stats.operations_per_second));
    lines.add("total_net_input_bytes", totals.input_bytes);
    lines.add("total_net_output_bytes", totals.output_bytes);
    lines.add("total_net_repl_input_bytes", rate(&engine.replication.link.read_bytes));
    let serving = &engine.replication.serving;
    lines.add("total_net_repl_output_bytes", rate(&serving.sent_bytes));
    lines.add("instantaneous_input_kbps", kilobytes(rate(&engine.stats.input_bytes_per_second)));
    lines.add("instantaneous_output_kbps", kilobytes(rate(&engine.stats.output_bytes_per_second)));
    lines.add("instantaneous_input_repl_kbps", kilobytes(rate(&engine.stats.primary_bytes_per_second)));
    lines.add("instantaneous_output_repl_kbps", kilobytes(rate(&engine.stats.replica_bytes_per_second)));
    lines.add("rejected_connections", totals.rejected_connections);
    lines.add("sync_full", rate(&serving.full_syncs));
    lines.add("sync_partial_ok", rate(&serving.partial_syncs));
    lines.add("sync_partial_err", rate(&serving.refused_partial_syncs));
    lines.add("expired_subkeys", totals.expired_fields);
    lines.add("expired_keys", totals.expired_keys);
    let expiry = &engine.expiry;
    let stale_percent = expiry.stale_basis_points.load(Ordering::Relaxed) as f64 / 100.0;
    lines.add("expired_stale_perc", format!("{stale_percent:.2}"));
    lines.add("expired_time_cap_reached_count", expiry.rounds_timed_out.load(Ordering::Relaxed));
    lines.add("expire_cycle_cpu_milliseconds", expiry.spent_us.load(Ordering::Relaxed) / 1000);
    lines.add("evicted_keys", totals.evicted_keys);
    lines.add("evicted_clients", totals.evicted_clients);
    lines.add("evicted_scripts", engine.scripting.cache.figures().2);
    let (exceeded_ms, exceeded_total_ms) = engine.pressure.exceeded_ms(engine.started);
    lines.add("total_eviction_exceeded_time", exceeded_total_ms);
    lines.add("current_eviction_exceeded_time", exceeded_ms);
    lines.add("keyspace_hits", totals.keyspace_hits);
    lines.add("keyspace_misses", totals.keyspace_misses);
    lines.add("pubsub_channels", engine.pubsub.name_count(crate::pubsub::Scope::Channel));
    lines.add("pubsub_patterns", engine.pubsub.name_count(crate::pubsub::Scope::Pattern));
    lines.add("pubsubshard_channels", engine.pubsub.name_count(crate::pubsub::Scope::Shard));
    lines.zeros(&["latest_fork_usec", "total_forks", "migrate_cached_sockets"]);
    lines.add("slave_expires_tracked_keys", engine.replication.own_expiries.lock().keys.len());
    lines.zeros(&DEFRAGMENTATION);
    lines.add("total_active_defrag_time", engine.compaction.spent_us.load(Ordering::Relaxed) / 1000);
    lines.add("compaction_walks", engine.compaction.walks.load(Ordering::Relaxed));
    lines.add("compaction_released_bytes", engine.compaction.released_bytes.load(Ordering::Relaxed));
    let tracked = engine.keyspace.tracked();
    lines.add("tracking_total_keys", tracked.keys());
    lines.add("tracking_total_items", tracked.holders());
    lines.add("tracking_total_prefixes", engine.tracking.prefix_count());
    lines.add("unexpected_error_replies", totals.unexpected_error_replies);
    lines.add("total_error_replies", totals.error_replies);
    lines.add("dump_payload_sanitizations", 0);
    lines.add("total_reads_processed", totals.reads);
    lines.add("total_writes_processed", totals.writes);
    lines.zeros(&["io_threaded_reads_processed", "io_threaded_writes_processed"]);
    lines.zeros(&["io_threaded_total_prefetch_batches", "io_threaded_total_prefetch_entries"]);
    lines.add("client_query_buffer_limit_disconnections", totals.query_limit_disconnections);
    lines.add("client_output_buffer_limit_disconnections", totals.output_limit_disconnections);
    lines.zeros(&["reply_buffer_shrinks", "reply_buffer_expands"]);
    lines.add("eventloop_cycles", totals.iterations);
    lines.add("eventloop_duration_sum", totals.iteration_ns / 1000);
    lines.add("eventloop_duration_cmd_sum", command_ns(engine).saturating_sub(totals.scripted_ns) / 1000);
    lines.add("instantaneous_eventloop_cycles_per_sec", rate(&engine.stats.iterations_per_second));
    lines.add("instantaneous_eventloop_duration_usec", rate(&engine.stats.iteration_us));
    REFUSALS.iter().for_each(|&(name, reason)| lines.add(name, engine.acl.log.count(reason)));
}

/// What all commands took together, in ns; those that scripts have called count twice.
fn command_ns(engine: &Engine) -> u64 {
    let commands = engine.stats.commands.iter().flatten();
    commands.map(|command| command.nanoseconds.load(Ordering::Relaxed)).sum()
}

/// The section that is shown only where it is named: the event loops of all workers together.
pub(super) fn debug(lines: &mut Lines, source: &Source) {
    let engine = source.engine;
    let totals = engine.stats.totals();
    let most = |figure: &std::sync::atomic::AtomicU64| figure.load(Ordering::Relaxed);
    lines.add("eventloop_duration_aof_sum", totals.log_ns / 1000);
    lines.add("eventloop_duration_cron_sum", totals.cron_ns / 1000);
    lines.add("eventloop_duration_max", most(&engine.stats.iteration_ns_max) / 1000);
    lines.add("eventloop_cmd_per_cycle_max", most(&engine.stats.iteration_commands_max));
    lines.add("allocator_allocated_lua", engine.scripting.vm_bytes());
}

pub(super) fn cpu(lines: &mut Lines, source: &Source) {
    let times = &source.cpu;
    let seconds = |time: Duration| format!("{:.6}", time.as_secs_f64());
    lines.add("used_cpu_sys", seconds(times.process.system));
    lines.add("used_cpu_user", seconds(times.process.user));
    lines.add("used_cpu_sys_children", seconds(times.children.system));
    lines.add("used_cpu_user_children", seconds(times.children.user));
    lines.add("used_cpu_sys_main_thread", seconds(times.thread.system));
    lines.add("used_cpu_user_main_thread", seconds(times.thread.user));
}

/// Counters of one command over all workers.
#[derive(Default)]
pub(crate) struct Calls {
    /// Calls that ran.
    pub calls: u64,
    /// Time that they took, in ns.
    pub nanoseconds: u64,
    /// Calls refused before they ran.
    pub rejected: u64,
    /// Calls that replied an error.
    pub failed: u64,
}

impl Calls {
    /// Adds up what the workers have counted.
    pub fn of(engine: &Engine, command: &Command) -> Calls {
        let mut sum = Calls::default();
        for counters in engine.stats.commands.iter().filter_map(|worker| worker.get(command.index)) {
            sum.calls += counters.calls.load(Ordering::Relaxed);
            sum.nanoseconds += counters.nanoseconds.load(Ordering::Relaxed);
            sum.rejected += counters.rejected.load(Ordering::Relaxed);
            sum.failed += counters.failed.load(Ordering::Relaxed);
        }
        sum
    }
}

/// Visits commands and subcommands, in the order of the registry.
pub(crate) fn each_command(engine: &Engine, mut visit: impl FnMut(&'static Command)) {
    for command in engine.registry.iter() {
        visit(command);
        command.subcommands.iter().for_each(&mut visit);
    }
}

pub(super) fn commandstats(lines: &mut Lines, source: &Source) {
    let engine = source.engine;
    each_command(engine, |command| {
        let Calls { calls, nanoseconds, rejected, failed } = Calls::of(engine, command);
        if calls + rejected + failed > 0 {
            let microseconds = nanoseconds / 1000;
            let each = if calls == 0 { 0.0 } else { nanoseconds as f64 / 1000.0 / calls as f64 };
            lines.add(
                &format!("cmdstat_{}", command.name),
                format!(
                    "calls={calls},usec={microseconds},usec_per_call={each:.2},rejected_calls={rejected},\
                     failed_calls={failed}"
                ),
            );
        }
    });
}

pub(super) fn errorstats(lines: &mut Lines, source: &Source) {
    for (code, count) in source.engine.stats.errors.lock().iter() {
        let code = code.replace(['#', ':', '\n', '\r'], "_");
        lines.add(&format!("errorstat_{code}"), format!("count={count}"));
    }
}

/// How long the calls of a command took, over all workers; nothing if there were none.
pub(crate) fn distribution_of(engine: &Engine, command: &Command) -> Option<Distribution> {
    let workers = engine.stats.commands.iter().filter_map(|worker| worker.get(command.index));
    Distribution::of(workers.filter_map(|counters| counters.histogram.get()).map(Box::as_ref))
}

pub(super) fn latencystats(lines: &mut Lines, source: &Source) {
    let engine = source.engine;
    let percentiles = &source.active.config.latency_tracking_info_percentiles;
    each_command(engine, |command| {
        let Some(distribution) = distribution_of(engine, command) else { return };
        let values: Vec<String> = percentiles
            .iter()
            .map(|&percent| {
                format!("p{}={:.3}", format_percentile(percent), distribution.percentile_us(percent))
            })
            .collect();
        lines.add(&format!("latency_percentiles_usec_{}", command.name), values.join(","));
    });
}
