//! Metrics that INFO does not show as one figure: those with labels, and some that only Mantissa has.

use std::sync::atomic::{AtomicU64, Ordering};

use mantissa_config::format_percentile;
use mantissa_protocol::put_quoted;

use super::text::Samples;
use super::{CommandFigures, Figures};
use crate::command_log::Cause;
use crate::latency::Distribution;
use crate::stats::WorkerStats;

/// Bounds of the histograms in seconds: as text, and in ns.
const BOUNDS: [(&str, u64); 19] = [
    ("0.000001", 1_000),
    ("0.000002", 2_000),
    ("0.000005", 5_000),
    ("0.00001", 10_000),
    ("0.00002", 20_000),
    ("0.00005", 50_000),
    ("0.0001", 100_000),
    ("0.0002", 200_000),
    ("0.0005", 500_000),
    ("0.001", 1_000_000),
    ("0.002", 2_000_000),
    ("0.005", 5_000_000),
    ("0.01", 10_000_000),
    ("0.02", 20_000_000),
    ("0.05", 50_000_000),
    ("0.1", 100_000_000),
    ("0.2", 200_000_000),
    ("0.5", 500_000_000),
    ("1", 1_000_000_000),
];
/// Hot and big keys that are shown.
const KEYS: usize = 10;
/// Bytes of a key that are shown.
const KEY_BYTES_MAX: usize = 128;
/// Databases up to which those without keys are shown as well.
const EMPTY_DATABASES_MAX: usize = 64;

// ---- the server ----

pub fn up(_figures: &Figures, samples: &mut Samples) {
    samples.add(&[], 1);
}

pub fn start_time(figures: &Figures, samples: &mut Samples) {
    samples.add(&[], figures.started_ms as f64 / 1000.0);
}

pub fn config_maxclients(figures: &Figures, samples: &mut Samples) {
    samples.add(&[], figures.source.active.config.maxclients);
}

pub fn config_maxmemory(figures: &Figures, samples: &mut Samples) {
    samples.add(&[], figures.source.active.config.maxmemory);
}

pub fn config_io_threads(figures: &Figures, samples: &mut Samples) {
    samples.add(&[], figures.source.active.config.io_threads);
}

/// The classes of clients, in the order of the setting.
const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

pub fn output_limits(figures: &Figures, samples: &mut Samples) {
    for (class, limit) in CLASSES.iter().zip(&figures.source.active.config.client_output_buffer_limits) {
        samples.add(&[("class", class), ("limit", "hard")], limit.hard_bytes);
        samples.add(&[("class", class), ("limit", "soft")], limit.soft_bytes);
    }
}

pub fn output_seconds(figures: &Figures, samples: &mut Samples) {
    for (class, limit) in CLASSES.iter().zip(&figures.source.active.config.client_output_buffer_limits) {
        samples.add(&[("class", class), ("limit", "soft")], limit.soft_seconds);
    }
}

// ---- commands ----

fn each_command(
    figures: &Figures,
    samples: &mut Samples,
    mut add: impl FnMut(&mut Samples, &[(&str, &str)], &CommandFigures),
) {
    for command in &figures.commands {
        add(samples, &[("cmd", &command.command.name)], command);
    }
}

fn each_distribution(
    figures: &Figures,
    samples: &mut Samples,
    mut add: impl FnMut(&mut Samples, &[(&str, &str)], &CommandFigures, &Distribution),
) {
    each_command(figures, samples, |samples, labels, command| {
        if let Some(distribution) = &command.distribution {
            add(samples, labels, command, distribution);
        }
    });
}

pub fn commands(figures: &Figures, samples: &mut Samples) {
    each_command(figures, samples, |samples, labels, command| samples.add(labels, command.calls.calls));
}

pub fn command_seconds(figures: &Figures, samples: &mut Samples) {
    each_command(figures, samples, |samples, labels, command| {
        samples.add(labels, seconds(command.calls.nanoseconds));
    });
}

pub fn command_rejections(figures: &Figures, samples: &mut Samples) {
    each_command(figures, samples, |samples, labels, command| samples.add(labels, command.calls.rejected));
}

pub fn command_failures(figures: &Figures, samples: &mut Samples) {
    each_command(figures, samples, |samples, labels, command| samples.add(labels, command.calls.failed));
}

pub fn command_latencies(figures: &Figures, samples: &mut Samples) {
    each_distribution(figures, samples, |samples, labels, command, distribution| {
        let sum_us = (command.calls.nanoseconds / 1000) as f64;
        samples.histogram(labels, distribution.steps(), (distribution.calls(), sum_us));
    });
}

/// With redis_exporter's quantiles, which are in percent.
pub fn command_percentiles(figures: &Figures, samples: &mut Samples) {
    let percentiles = &figures.source.active.config.latency_tracking_info_percentiles;
    each_distribution(figures, samples, |samples, labels, command, distribution| {
        let quantiles = percentiles
            .iter()
            .map(|&percent| (format_percentile(percent), distribution.percentile_us(percent)));
        let sum_us = command.calls.nanoseconds / 1000;
        samples.summary(labels, quantiles, (distribution.calls(), sum_us));
    });
}

pub fn command_durations(figures: &Figures, samples: &mut Samples) {
    each_distribution(figures, samples, |samples, labels, command, distribution| {
        let buckets = BOUNDS.iter().map(|&(text, bound_ns)| (text, distribution.within(bound_ns)));
        samples.histogram(labels, buckets, (distribution.calls(), seconds(command.calls.nanoseconds)));
    });
}

pub fn all_durations(figures: &Figures, samples: &mut Samples) {
    let known = || figures.commands.iter().filter_map(|command| command.distribution.as_ref());
    let within = |bound_ns| known().map(|distribution| distribution.within(bound_ns)).sum::<u64>();
    let buckets = BOUNDS.iter().map(|&(text, bound_ns)| (text, within(bound_ns)));
    let calls = known().map(Distribution::calls).sum();
    let nanoseconds = figures.commands.iter().map(|command| command.calls.nanoseconds).sum();
    samples.histogram(&[], buckets, (calls, seconds(nanoseconds)));
}

pub fn errors(figures: &Figures, samples: &mut Samples) {
    for (code, count) in figures.source.engine.stats.errors.lock().iter() {
        samples.add(&[("err", code)], count);
    }
}

pub fn spike_times(figures: &Figures, samples: &mut Samples) {
    for (event, unix_seconds, ..) in figures.source.engine.latency.lock().latest() {
        samples.add(&[("event_name", event)], unix_seconds);
    }
}

pub fn spike_durations(figures: &Figures, samples: &mut Samples) {
    for (event, _, milliseconds, _) in figures.source.engine.latency.lock().latest() {
        samples.add(&[("event_name", event)], milliseconds as f64 / 1000.0);
    }
}

pub fn slowlog_length(figures: &Figures, samples: &mut Samples) {
    samples.add(&[], figures.source.engine.command_log(Cause::Slow).len());
}

pub fn slowlog_last_id(figures: &Figures, samples: &mut Samples) {
    samples.add(&[], figures.source.engine.command_log(Cause::Slow).newest().map_or(0, |(id, _)| id));
}

pub fn slowlog_duration(figures: &Figures, samples: &mut Samples) {
    let duration_us =
        figures.source.engine.command_log(Cause::Slow).newest().map_or(0, |(_, duration_us)| duration_us);
    samples.add(&[], duration_us as f64 / 1e6);
}

// ---- keys ----

fn each_database(figures: &Figures, mut visit: impl FnMut(&[(&str, &str)], usize)) {
    let databases = &figures.source.keyspace.databases;
    let shows_empty = databases.len() <= EMPTY_DATABASES_MAX;
    for (number, database) in databases.iter().enumerate() {
        if database.keys > 0 || shows_empty {
            visit(&[("db", &format!("db{number}"))], number);
        }
    }
}

pub fn keys(figures: &Figures, samples: &mut Samples) {
    let databases = &figures.source.keyspace.databases;
    each_database(figures, |labels, number| samples.add(labels, databases[number].keys));
}

pub fn keys_expiring(figures: &Figures, samples: &mut Samples) {
    let databases = &figures.source.keyspace.databases;
    each_database(figures, |labels, number| samples.add(labels, databases[number].expires));
}

pub fn keys_ttl(figures: &Figures, samples: &mut Samples) {
    let databases = &figures.source.keyspace.databases;
    each_database(figures, |labels, number| {
        if databases[number].keys > 0 {
            samples.add(labels, databases[number].average_ttl_ms() as f64 / 1000.0);
        }
    });
}

/// A key as a label: what is no text, or long, in the form of an argument in the log.
fn key_text(key: &[u8]) -> String {
    match std::str::from_utf8(key) {
        Ok(text) if key.len() <= KEY_BYTES_MAX => text.to_owned(),
        _ => {
            let mut shown = Vec::new();
            put_quoted(&mut shown, &key[..key.len().min(KEY_BYTES_MAX)]);
            let mut shown = String::from_utf8_lossy(&shown).into_owned();
            if key.len() > KEY_BYTES_MAX {
                shown.push_str(&format!("... ({} more bytes)", key.len() - KEY_BYTES_MAX));
            }
            shown
        }
    }
}

pub fn hot_keys(figures: &Figures, samples: &mut Samples) {
    if figures.source.active.config.hide_user_data_from_log {
        return;
    }
    for found in figures.source.engine.hot_keys.hottest(figures.source.now_ms, KEYS) {
        let (database, key) = (format!("db{}", found.database), key_text(&found.key));
        samples.add_once(&[("db", &database), ("key", &key)], (found.per_second * 10.0).round() / 10.0);
    }
}

pub fn big_keys(figures: &Figures, samples: &mut Samples) {
    if figures.source.active.config.hide_user_data_from_log {
        return;
    }
    for found in figures.source.engine.key_sizes.biggest().iter().take(KEYS) {
        let (database, key) = (format!("db{}", found.database), key_text(&found.key));
        samples.add_once(&[("db", &database), ("key", &key)], found.bytes);
    }
}

// ---- scrapes ----

pub fn scrapes(figures: &Figures, samples: &mut Samples) {
    samples.add(&[], figures.scrapes);
}

pub fn scrape_duration(figures: &Figures, samples: &mut Samples) {
    samples.add(&[], figures.last_duration.as_secs_f64());
}

pub fn scrape_error(_figures: &Figures, samples: &mut Samples) {
    samples.add(&[("err", "")], 0);
}

pub fn stale_shards(figures: &Figures, samples: &mut Samples) {
    samples.add(&[], figures.stale_shards);
}

// ---- threads and shards ----

pub fn workers(figures: &Figures, samples: &mut Samples) {
    samples.add(&[], figures.source.engine.worker_count());
}

pub fn shards(figures: &Figures, samples: &mut Samples) {
    samples.add(&[], figures.source.engine.keyspace.shard_count());
}

pub fn shard_wait(figures: &Figures, samples: &mut Samples) {
    samples.add(&[], seconds(figures.source.engine.stats.shard_wait_ns.load(Ordering::Relaxed)));
}

pub fn compaction_seconds(figures: &Figures, samples: &mut Samples) {
    let spent_us = figures.source.engine.compaction.spent_us.load(Ordering::Relaxed);
    samples.add(&[], spent_us as f64 / 1e6);
}

fn each_worker(figures: &Figures, mut visit: impl FnMut(&[(&str, &str)], usize, &WorkerStats)) {
    let engine = figures.source.engine;
    for (number, stats) in engine.stats.workers.iter().take(engine.worker_count()).enumerate() {
        visit(&[("worker", &number.to_string())], number, stats);
    }
}

pub fn worker_iterations(figures: &Figures, samples: &mut Samples) {
    each_worker(figures, |labels, _, stats| samples.add(labels, load(&stats.iterations)));
}

pub fn worker_seconds(figures: &Figures, samples: &mut Samples) {
    each_worker(figures, |labels, _, stats| samples.add(labels, seconds(load(&stats.iteration_ns))));
}

pub fn worker_commands(figures: &Figures, samples: &mut Samples) {
    each_worker(figures, |labels, _, stats| samples.add(labels, load(&stats.commands)));
}

pub fn worker_clients(figures: &Figures, samples: &mut Samples) {
    let counts = &figures.source.clients().per_worker;
    each_worker(figures, |labels, number, _| samples.add(labels, counts.get(number).copied().unwrap_or(0)));
}

pub fn iteration_max(figures: &Figures, samples: &mut Samples) {
    samples.add(&[], seconds(load(&figures.source.engine.stats.iteration_ns_max)));
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
