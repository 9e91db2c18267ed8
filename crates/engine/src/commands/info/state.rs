//! The sections that say how the server is set up and what it holds.

use mantissa_sys::clock;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use super::{Lines, Source};
use crate::commands::REDIS_VERSION;
use mantissa_sys::clock::{unix_ms, unix_us};
use mantissa_sys::supervision::{Supervisor, supervisor};

/// Bits of the clock that Redis shows as `lru_clock`.
const LRU_CLOCK_MAX: i64 = (1 << 24) - 1;

pub(super) fn server(lines: &mut Lines, source: &Source) {
    let engine = source.engine;
    let config = &source.active.config;
    let uptime_s = clock::since(engine.started).as_secs();
    lines.add("redis_version", REDIS_VERSION);
    lines.add("server_name", "mantissa");
    lines.add("mantissa_version", env!("CARGO_PKG_VERSION"));
    lines.add("redis_git_sha1", "00000000");
    lines.add("redis_git_dirty", 0);
    lines.add("redis_build_id", 0);
    lines.add("redis_mode", config.mode());
    lines.add("os", &*OPERATING_SYSTEM);
    lines.add("arch_bits", usize::BITS);
    lines.add("monotonic_clock", "POSIX clock_gettime");
    let host = engine.host().facts();
    lines.add("multiplexing_api", host.multiplexing);
    lines.add("atomicvar_api", "rust-std");
    lines.add("gcc_version", "0.0.0");
    lines.add("process_id", std::process::id());
    lines.add("process_supervised", supervisor().map_or("no", Supervisor::name));
    lines.add("run_id", &engine.run_id);
    lines.add("tcp_port", if host.port == 0 { config.tls_port } else { host.port });
    lines.add("server_time_usec", unix_us());
    lines.add("uptime_in_seconds", uptime_s);
    lines.add("uptime_in_days", uptime_s / (24 * 3600));
    lines.add("hz", config.hz);
    lines.add("configured_hz", config.hz);
    lines.add("lru_clock", (unix_ms() / 1000) & LRU_CLOCK_MAX);
    lines.add("executable", EXECUTABLE.display());
    lines.add("config_file", config.file().unwrap_or(std::path::Path::new("")).display());
    lines.add("io_threads_active", u8::from(engine.worker_count() > 1));
    let ends_ms = engine.replication.serving.ends_ms.load(Ordering::Relaxed);
    if ends_ms != 0 {
        lines.add("shutdown_in_milliseconds", ends_ms - unix_ms());
    }
    let port = host.port;
    let mut listeners = Vec::new();
    if port != 0 {
        let addresses: String = config.bind.iter().map(|address| format!("bind={address},")).collect();
        listeners.push(format!("name=tcp,{addresses}port={port}"));
    }
    if let Some(path) = config.unixsocket.as_deref().filter(|path| !path.is_empty()) {
        listeners.push(format!("name=unix,bind={path}"));
    }
    if config.tls_port != 0 {
        let addresses: String = config.bind.iter().map(|address| format!("bind={address},")).collect();
        listeners.push(format!("name=tls,{addresses}port={}", config.tls_port));
    }
    for (number, listener) in listeners.iter().enumerate() {
        lines.add(&format!("listener{number}"), listener);
    }
}

/// Where the program was when this was first asked.
static EXECUTABLE: LazyLock<PathBuf> = LazyLock::new(|| std::env::current_exe().unwrap_or_default());

/// Name, release and processor of the operating system.
static OPERATING_SYSTEM: LazyLock<String> = LazyLock::new(|| {
    let kernel = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
    let name = kernel("ostype").unwrap_or_else(|_| std::env::consts::OS.to_owned());
    let release = kernel("osrelease").unwrap_or_else(|_| "-".to_owned());
    format!("{} {} {}", name.trim(), release.trim(), std::env::consts::ARCH)
});

pub(super) fn clients(lines: &mut Lines, source: &Source) {
    let totals = source.clients();
    let keys = &source.keyspace;
    lines.add("connected_clients", totals.connected);
    lines.add("cluster_connections", 0);
    lines.add("maxclients", source.active.config.maxclients);
    lines.add("client_recent_max_input_buffer", totals.input_bytes_max);
    lines.add("client_recent_max_output_buffer", totals.output_bytes_max);
    lines.add("blocked_clients", totals.blocked);
    lines.add("tracking_clients", source.engine.tracking.client_count());
    lines.add("pubsub_clients", totals.pubsub);
    lines.add("watching_clients", totals.watching);
    let blocked = source.engine.blocked.lock();
    let timed = blocked.values().filter(|blocked| blocked.blocking.deadline.is_some()).count();
    lines.add("clients_in_timeout_table", timed);
    lines.add("total_watched_keys", keys.watched_keys);
    lines.add("total_blocking_keys", keys.awaited_keys);
    let on_loss = blocked.values().filter(|blocked| blocked.blocking.on_loss);
    let awaited = on_loss.flat_map(|blocked| blocked.blocking.keys.iter().map(|key| (blocked.database, key)));
    lines.add("total_blocking_keys_on_nokey", awaited.collect::<HashSet<_>>().len());
}

pub(super) fn persistence(lines: &mut Lines, source: &Source) {
    let persistence = &source.engine.persistence;
    let serving = &source.engine.replication.serving;
    let began_s = match persistence.saving.load(Ordering::Relaxed) {
        true => Some(&persistence.saving_since_s),
        // For replicas, as Redis counts it.
        false => serving.is_dumping.load(Ordering::Relaxed).then_some(&serving.dumping_since_s),
    };
    let since_s = began_s.map(|began_s| unix_ms() / 1000 - began_s.load(Ordering::Relaxed));
    let failed = persistence.last_save_failed.load(Ordering::Relaxed);
    let is_loading = persistence.loading.load(Ordering::Acquire);
    let is_loading_aside = persistence.loading_aside.load(Ordering::Acquire);
    lines.add("loading", u8::from(is_loading));
    let progress = &persistence.progress;
    let (processed, total) = (progress.keys_processed(), progress.keys_total());
    lines.add("async_loading", u8::from(is_loading_aside));
    lines.add("current_cow_peak", progress.copied_peak_bytes());
    lines.add("current_cow_size", progress.copied_bytes());
    lines.add("current_cow_size_age", 0);
    lines.add("current_fork_perc", format!("{:.2}", processed as f64 * 100.0 / total.max(1) as f64));
    lines.add("current_save_keys_processed", processed);
    lines.add("current_save_keys_total", total);
    lines.add("rdb_changes_since_last_save", persistence.dirty.get());
    lines.add("rdb_bgsave_in_progress", u8::from(since_s.is_some()));
    lines.add("rdb_last_save_time", persistence.last_save_s.load(Ordering::Relaxed));
    lines.add("rdb_last_bgsave_status", if failed { "err" } else { "ok" });
    lines.add("rdb_last_bgsave_time_sec", persistence.last_duration_s.load(Ordering::Relaxed));
    lines.add("rdb_current_bgsave_time_sec", since_s.unwrap_or(-1));
    lines.add("rdb_saves", persistence.save_count.load(Ordering::Relaxed));
    lines.add("rdb_last_cow_size", persistence.last_copied_bytes.load(Ordering::Relaxed));
    lines.add("rdb_last_load_keys_expired", persistence.loaded_expired.load(Ordering::Relaxed));
    lines.add("rdb_last_load_keys_loaded", persistence.loaded_keys.load(Ordering::Relaxed));
    super::append_only::append_only(lines, source);
    super::archive::archive(lines, source);
    if is_loading || is_loading_aside {
        let load = &persistence.load;
        lines.add("loading_start_time", load.began_s());
        lines.add("loading_total_bytes", load.total_bytes());
        lines.add("loading_rdb_used_mem", 0);
        lines.add("loading_loaded_bytes", load.loaded_bytes());
        lines.add("loading_loaded_perc", format!("{:.2}", load.percent()));
        lines.add("loading_eta_seconds", load.left_s());
    }
}

pub(super) fn threads(lines: &mut Lines, source: &Source) {
    let engine = source.engine;
    for (worker, clients) in source.clients().per_worker.iter().enumerate() {
        let stats = &engine.stats.workers[worker];
        let (reads, writes) = (stats.reads.load(Ordering::Relaxed), stats.writes.load(Ordering::Relaxed));
        let value = format!("clients={clients},reads={reads},writes={writes}");
        lines.add(&format!("io_thread_{worker}"), value);
    }
}

pub(super) fn cluster(lines: &mut Lines, source: &Source) {
    lines.add("cluster_enabled", u8::from(source.active.config.cluster_emulated));
}

pub(super) fn keyspace(lines: &mut Lines, source: &Source) {
    for (number, database) in
        source.keyspace.databases.iter().enumerate().filter(|(_, database)| database.keys > 0)
    {
        let (keys, expires, ttl) = (database.keys, database.expires, database.average_ttl_ms());
        let hashes = database.hashes_with_expiry;
        let figures = format!("keys={keys},expires={expires},avg_ttl={ttl},subexpiry={hashes}");
        lines.add(&format!("db{number}"), figures);
    }
}
