//! The one table of metrics: each one's name, type, description, and where its value comes from.
//!
//! A row reads: `Type "name" source => "description";`. A name is that of the Prometheus text format: those
//! of counters end in `_total`. The unit is the end of the name.

use super::Figures;
use super::text::{Kind, Samples as Sink};
use super::{labelled, replica, replicas};
use Get::{Field, Info, Microseconds, Samples, Status};

/// A metric.
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// What it is, in a sentence.
    pub help: &'static str,
    /// Where its value comes from.
    pub get: Get,
}

/// Where the value of a metric comes from.
#[derive(Clone, Copy)]
pub enum Get {
    /// The figure that INFO shows under this name; no sample where it shows none.
    Field(&'static str),
    /// The same in seconds, where INFO shows microseconds.
    Microseconds(&'static str),
    /// 1 if INFO shows `ok` under this name, 0 for another word.
    Status(&'static str),
    /// 1, with labels whose values INFO shows: name of the label, name in INFO.
    Info(&'static [(&'static str, &'static str)]),
    /// What this function adds.
    Samples(fn(&Figures, &mut Sink)),
}

const INSTANCE_INFO: &[(&str, &str)] = &[
    ("role", "role"),
    ("redis_version", "redis_version"),
    ("redis_build_id", "redis_build_id"),
    ("redis_mode", "redis_mode"),
    ("os", "os"),
    ("maxmemory_policy", "maxmemory_policy"),
    ("tcp_port", "tcp_port"),
    ("run_id", "run_id"),
    ("process_id", "process_id"),
    ("master_replid", "master_replid"),
];

const MANTISSA_BUILD_INFO: &[(&str, &str)] =
    &[("version", "mantissa_version"), ("io_driver", "multiplexing_api")];

macro_rules! metrics {
    ($($kind:ident $name:literal $get:expr => $help:literal;)*) => {
        /// All metrics, in the order in which they are written.
        pub static METRICS: &[Metric] = &[
            $( Metric { name: $name, kind: Kind::$kind, help: $help, get: $get }, )*
        ];
    };
}

metrics! {
    // ---- The server ---------------------------------------------------------------------------------------
    Gauge "redis_up" Samples(labelled::up) => "The process serves.";
    Gauge "redis_instance_info" Info(INSTANCE_INFO) => "What the server is, in its labels.";
    Gauge "redis_start_time_seconds" Samples(labelled::start_time) => "When the process started, Unix time.";
    Gauge "redis_uptime_in_seconds" Field("uptime_in_seconds") => "Seconds since the start.";
    Gauge "redis_process_id" Field("process_id") => "The number of the process.";
    Gauge "redis_io_threads_active" Field("io_threads_active") => "Whether several threads serve clients.";
    Gauge "redis_config_maxclients" Samples(labelled::config_maxclients) => "The setting maxclients.";
    Gauge "redis_config_maxmemory" Samples(labelled::config_maxmemory) => "The setting maxmemory.";
    Gauge "redis_config_io_threads" Samples(labelled::config_io_threads) =>
        "The setting io-threads, which has no effect.";
    Gauge "redis_config_client_output_buffer_limit_bytes" Samples(labelled::output_limits) =>
        "Bytes of unread replies at which a client is closed, by class and limit; 0 is no limit.";
    Gauge "redis_config_client_output_buffer_limit_overcome_seconds" Samples(labelled::output_seconds) =>
        "How long the soft limit of unread replies may be exceeded, by class.";

    // ---- Clients ------------------------------------------------------------------------------------------
    Gauge "redis_connected_clients" Field("connected_clients") => "Clients that are connected.";
    Gauge "redis_max_clients" Field("maxclients") => "The most clients that may be connected.";
    Gauge "redis_blocked_clients" Field("blocked_clients") => "Clients that wait in a blocking command.";
    Gauge "redis_tracking_clients" Field("tracking_clients") => "Clients that keep copies of keys.";
    Gauge "redis_pubsub_clients" Field("pubsub_clients") => "Clients that subscribe to something.";
    Gauge "redis_watching_clients" Field("watching_clients") => "Clients that watch keys.";
    Gauge "redis_clients_in_timeout_table" Field("clients_in_timeout_table") =>
        "Blocked clients with a timeout.";
    Gauge "redis_total_watched_keys" Field("total_watched_keys") => "Keys that are watched.";
    Gauge "redis_total_blocking_keys" Field("total_blocking_keys") => "Keys that blocked clients wait for.";
    Gauge "redis_total_blocking_keys_on_nokey" Field("total_blocking_keys_on_nokey") =>
        "Keys whose removal blocked clients wait for.";
    Gauge "redis_client_recent_max_output_buffer_bytes" Field("client_recent_max_output_buffer") =>
        "The most bytes that a client has left unread.";
    Gauge "redis_client_recent_max_input_buffer_bytes" Field("client_recent_max_input_buffer") =>
        "The most bytes of an unfinished request.";
    Counter "redis_connections_received_total" Field("total_connections_received") => "Connections accepted.";
    Counter "redis_rejected_connections_total" Field("rejected_connections") =>
        "Connections refused because of maxclients.";
    Counter "redis_evicted_clients_total" Field("evicted_clients") =>
        "Clients closed because all clients took too much memory.";
    Counter "redis_client_query_buffer_limit_disconnections_total"
        Field("client_query_buffer_limit_disconnections") =>
        "Clients closed because of a request that is too large.";
    Counter "redis_client_output_buffer_limit_disconnections_total"
        Field("client_output_buffer_limit_disconnections") =>
        "Clients closed because of replies that they did not read.";

    // ---- Memory -------------------------------------------------------------------------------------------
    Gauge "redis_memory_used_bytes" Field("used_memory") => "Bytes in use.";
    Gauge "redis_memory_used_rss_bytes" Field("used_memory_rss") => "Bytes in memory, as the kernel counts.";
    Gauge "redis_memory_used_peak_bytes" Field("used_memory_peak") => "The most bytes in use so far.";
    Gauge "redis_memory_used_overhead_bytes" Field("used_memory_overhead") =>
        "Bytes in use that are no data.";
    Gauge "redis_memory_used_startup_bytes" Field("used_memory_startup") =>
        "Bytes in use when the server was ready for data.";
    Gauge "redis_memory_used_dataset_bytes" Field("used_memory_dataset") => "Bytes of data.";
    Gauge "redis_memory_used_lua_bytes" Field("used_memory_lua") => "Bytes that the machines of scripts use.";
    Gauge "redis_memory_used_vm_eval_bytes" Field("used_memory_vm_eval") =>
        "Bytes that the machines of EVAL use.";
    Gauge "redis_memory_used_vm_functions_bytes" Field("used_memory_vm_functions") =>
        "Bytes that the machines of functions use beside those of EVAL.";
    Gauge "redis_memory_used_vm_total" Field("used_memory_vm_total") =>
        "Bytes that the machines of scripts and functions use.";
    Gauge "redis_memory_used_scripts_eval_bytes" Field("used_memory_scripts_eval") =>
        "Bytes of cached scripts.";
    Gauge "redis_memory_used_functions_bytes" Field("used_memory_functions") =>
        "Bytes of libraries of functions.";
    Gauge "redis_memory_used_scripts_bytes" Field("used_memory_scripts") =>
        "Bytes of cached scripts and libraries.";
    Gauge "redis_number_of_cached_scripts" Field("number_of_cached_scripts") => "Cached scripts.";
    Gauge "redis_number_of_functions" Field("number_of_functions") => "Functions.";
    Gauge "redis_number_of_libraries" Field("number_of_libraries") => "Libraries of functions.";
    Gauge "redis_memory_max_bytes" Field("maxmemory") => "The most bytes that may be in use; 0 is no limit.";
    Gauge "redis_total_system_memory_bytes" Field("total_system_memory") => "Bytes of memory of the machine.";
    Gauge "redis_allocator_allocated_bytes" Field("allocator_allocated") =>
        "Bytes handed out by the allocator.";
    Gauge "redis_allocator_active_bytes" Field("allocator_active") =>
        "Bytes in pages that the allocator uses.";
    Gauge "redis_allocator_resident_bytes" Field("allocator_resident") =>
        "Bytes of the allocator that are in memory.";
    Gauge "redis_allocator_muzzy_bytes" Field("allocator_muzzy") => "Bytes that the kernel may take back.";
    Gauge "redis_allocator_frag_ratio" Field("allocator_frag_ratio") =>
        "Bytes in used pages by bytes handed out.";
    Gauge "redis_allocator_frag_bytes" Field("allocator_frag_bytes") =>
        "Bytes in used pages that are not handed out.";
    Gauge "redis_allocator_rss_ratio" Field("allocator_rss_ratio") =>
        "The allocator's bytes in memory by bytes in used pages.";
    Gauge "redis_allocator_rss_bytes" Field("allocator_rss_bytes") =>
        "The allocator's bytes in memory beyond used pages.";
    Gauge "redis_rss_overhead_ratio" Field("rss_overhead_ratio") =>
        "Bytes in memory by those of the allocator.";
    Gauge "redis_rss_overhead_bytes" Field("rss_overhead_bytes") =>
        "Bytes in memory beyond those of the allocator.";
    Gauge "redis_mem_fragmentation_ratio" Field("mem_fragmentation_ratio") =>
        "Bytes in memory by bytes in use.";
    Gauge "redis_mem_fragmentation_bytes" Field("mem_fragmentation_bytes") =>
        "Bytes in memory beyond bytes in use.";
    Gauge "redis_mem_not_counted_for_eviction_bytes" Field("mem_not_counted_for_evict") =>
        "Bytes in use that do not count towards maxmemory.";
    Gauge "redis_mem_replication_backlog_bytes" Field("mem_replication_backlog") =>
        "Bytes of the replication backlog.";
    Gauge "redis_mem_total_replication_buffers_bytes" Field("mem_total_replication_buffers") =>
        "Bytes of all replication buffers.";
    Gauge "redis_mem_clients_slaves" Field("mem_clients_slaves") => "Bytes taken by replicas.";
    Gauge "redis_mem_clients_normal" Field("mem_clients_normal") => "Bytes taken by clients.";
    Gauge "redis_mem_cluster_links_bytes" Field("mem_cluster_links") =>
        "Bytes taken by links between cluster nodes.";
    Gauge "redis_mem_aof_buffer_bytes" Field("mem_aof_buffer") =>
        "Bytes that wait for the append-only file beyond the log.";
    Gauge "redis_mem_overhead_db_hashtable_rehashing_bytes" Field("mem_overhead_db_hashtable_rehashing") =>
        "Bytes of tables that are being replaced.";
    Gauge "redis_active_defrag_running" Field("active_defrag_running") =>
        "Whether entries are being moved together.";
    Gauge "redis_lazyfree_pending_objects" Field("lazyfree_pending_objects") =>
        "Values that wait to be freed.";
    Gauge "redis_lazyfreed_objects" Field("lazyfreed_objects") => "Values that were freed in the background.";
    Gauge "redis_defrag_hits" Field("active_defrag_hits") =>
        "Values moved by Redis's own defragmentation, which is not used here.";
    Gauge "redis_defrag_misses" Field("active_defrag_misses") => "Values left in place by it.";
    Gauge "redis_defrag_key_hits" Field("active_defrag_key_hits") => "Keys with moved values.";
    Gauge "redis_defrag_key_misses" Field("active_defrag_key_misses") => "Keys without moved values.";

    // ---- Persistence --------------------------------------------------------------------------------------
    Gauge "redis_loading_dump_file" Field("loading") => "Whether data is being loaded.";
    Gauge "redis_async_loading" Field("async_loading") =>
        "Whether data is loaded while the old data is served.";
    Gauge "redis_rdb_changes_since_last_save" Field("rdb_changes_since_last_save") =>
        "Changes since the last dump.";
    Gauge "redis_rdb_bgsave_in_progress" Field("rdb_bgsave_in_progress") =>
        "Whether a dump is being written.";
    Gauge "redis_rdb_last_save_timestamp_seconds" Field("rdb_last_save_time") =>
        "When the last dump was written, Unix time.";
    Gauge "redis_rdb_last_bgsave_status" Status("rdb_last_bgsave_status") =>
        "Whether the last dump was written without an error.";
    Gauge "redis_rdb_last_bgsave_duration_sec" Field("rdb_last_bgsave_time_sec") =>
        "Seconds that the last dump took; -1 before the first.";
    Gauge "redis_rdb_current_bgsave_duration_sec" Field("rdb_current_bgsave_time_sec") =>
        "Seconds that the dump under way has taken; -1 without one.";
    Counter "redis_rdb_saves_total" Field("rdb_saves") => "Dumps written.";
    Gauge "redis_rdb_last_cow_size_bytes" Field("rdb_last_cow_size") => "Bytes copied for the last dump.";
    Gauge "redis_rdb_last_load_expired_keys" Field("rdb_last_load_keys_expired") =>
        "Expired keys in the dump that was loaded.";
    Gauge "redis_rdb_last_load_loaded_keys" Field("rdb_last_load_keys_loaded") =>
        "Keys loaded from the dump.";
    Gauge "redis_aof_enabled" Field("aof_enabled") => "Whether there is an append-only file.";
    Gauge "redis_aof_rewrite_in_progress" Field("aof_rewrite_in_progress") =>
        "Whether the append-only file is being rewritten.";
    Gauge "redis_aof_rewrite_scheduled" Field("aof_rewrite_scheduled") => "Whether a rewrite is to follow.";
    Gauge "redis_aof_last_rewrite_duration_sec" Field("aof_last_rewrite_time_sec") =>
        "Seconds that the last rewrite took; -1 before the first.";
    Gauge "redis_aof_current_rewrite_duration_sec" Field("aof_current_rewrite_time_sec") =>
        "Seconds that the rewrite under way has taken; -1 without one.";
    Gauge "redis_aof_last_bgrewrite_status" Status("aof_last_bgrewrite_status") =>
        "Whether the last rewrite had no error.";
    Gauge "redis_aof_last_write_status" Status("aof_last_write_status") =>
        "Whether the append-only file can be written.";
    Gauge "redis_aof_last_cow_size_bytes" Field("aof_last_cow_size") => "Bytes copied for the last rewrite.";
    Gauge "redis_aof_current_size_bytes" Field("aof_current_size") => "Bytes of the append-only file.";
    Gauge "redis_aof_base_size_bytes" Field("aof_base_size") =>
        "Bytes of the append-only file after the last rewrite.";
    Gauge "redis_aof_pending_rewrite" Field("aof_pending_rewrite") => "Whether a rewrite waits for a dump.";
    Gauge "redis_aof_buffer_length" Field("aof_buffer_length") =>
        "Bytes that wait to be written to the append-only file.";
    Gauge "redis_aof_pending_bio_fsync" Field("aof_pending_bio_fsync") =>
        "Whether the append-only file is being synced.";
    Gauge "mantissa_archive_last_timestamp_seconds" Field("archive_last_time") =>
        "The time of the newest snapshot in the archive, Unix time.";
    Gauge "mantissa_archive_last_status" Status("archive_last_status") =>
        "Whether the last snapshot for the archive was made without an error.";
    Gauge "mantissa_archive_last_new_bytes" Field("archive_last_new_bytes") =>
        "Bytes of the last snapshot for the archive that none before it had.";
    Gauge "mantissa_archive_last_stored_bytes" Field("archive_last_stored_bytes") =>
        "Bytes that were stored for the last snapshot for the archive.";
    Counter "mantissa_archive_saves_total" Field("archive_saves") => "Snapshots made for the archive.";
    Counter "mantissa_archive_failures_total" Field("archive_failures") =>
        "Snapshots for the archive that failed.";
    Gauge "mantissa_archive_log_last_timestamp_seconds" Field("archive_log_last_time") =>
        "Up to when all that was written is stored in the archive, Unix time.";
    Gauge "mantissa_archive_log_status" Status("archive_log_status") =>
        "Whether the last part of the log was stored in the archive without an error.";
    Gauge "redis_aof_delayed_fsync" Field("aof_delayed_fsync") =>
        "Syncs of the append-only file that took long.";
    Gauge "redis_module_fork_in_progress" Field("module_fork_in_progress") =>
        "Whether a module works in a child process.";
    Gauge "redis_module_fork_last_cow_size" Field("module_fork_last_cow_size") =>
        "Bytes copied for the last child of a module.";

    // ---- Statistics ---------------------------------------------------------------------------------------
    Counter "redis_commands_processed_total" Field("total_commands_processed") => "Commands run.";
    Counter "redis_net_input_bytes_total" Field("total_net_input_bytes") => "Bytes received from clients.";
    Counter "redis_net_output_bytes_total" Field("total_net_output_bytes") => "Bytes sent to clients.";
    Counter "redis_net_repl_input_bytes_total" Field("total_net_repl_input_bytes") =>
        "Bytes received for replication.";
    Counter "redis_net_repl_output_bytes_total" Field("total_net_repl_output_bytes") =>
        "Bytes sent for replication.";
    Counter "redis_expired_keys_total" Field("expired_keys") => "Keys that expired.";
    Counter "redis_expired_subkeys_total" Field("expired_subkeys") => "Hash fields that expired.";
    Gauge "redis_expired_stale_percentage" Field("expired_stale_perc") =>
        "Percent of the keys with an expiry that have expired and are still there, estimated.";
    Counter "redis_expired_time_cap_reached_total" Field("expired_time_cap_reached_count") =>
        "Rounds of active expiry that ended early.";
    Counter "redis_expire_cycle_cpu_time_ms_total" Field("expire_cycle_cpu_milliseconds") =>
        "Milliseconds spent on active expiry.";
    Counter "redis_evicted_keys_total" Field("evicted_keys") => "Keys that were evicted.";
    Counter "redis_evicted_scripts_total" Field("evicted_scripts") => "Scripts dropped from the cache.";
    Counter "redis_eviction_exceeded_time_ms_total" Field("total_eviction_exceeded_time") =>
        "Milliseconds for which memory was beyond maxmemory.";
    Gauge "redis_current_eviction_exceeded_time_ms" Field("current_eviction_exceeded_time") =>
        "Milliseconds for which memory is beyond maxmemory now.";
    Counter "redis_keyspace_hits_total" Field("keyspace_hits") => "Lookups that found their key.";
    Counter "redis_keyspace_misses_total" Field("keyspace_misses") => "Lookups that did not.";
    Gauge "redis_pubsub_channels" Field("pubsub_channels") => "Channels with subscribers.";
    Gauge "redis_pubsub_patterns" Field("pubsub_patterns") => "Patterns with subscribers.";
    Gauge "redis_pubsubshard_channels" Field("pubsubshard_channels") => "Shard channels with subscribers.";
    Gauge "redis_latest_fork_seconds" Microseconds("latest_fork_usec") =>
        "How long the last fork took; nothing is forked here.";
    Counter "redis_migrate_cached_sockets_total" Field("migrate_cached_sockets") =>
        "Sockets kept for MIGRATE.";
    Gauge "redis_slave_expires_tracked_keys" Field("slave_expires_tracked_keys") =>
        "Keys whose expiry a writable replica tracks.";
    Gauge "redis_tracking_total_keys" Field("tracking_total_keys") => "Keys of which clients keep copies.";
    Gauge "redis_tracking_total_items" Field("tracking_total_items") => "Copies that clients keep.";
    Gauge "redis_tracking_total_prefixes" Field("tracking_total_prefixes") =>
        "Prefixes that broadcasting clients name.";
    Gauge "redis_unexpected_error_replies" Field("unexpected_error_replies") =>
        "Failed commands of a primary or of the append-only file.";
    Gauge "redis_total_error_replies" Field("total_error_replies") => "Error replies.";
    Gauge "redis_dump_payload_sanitizations" Field("dump_payload_sanitizations") =>
        "Payloads of RESTORE that were checked apart from loading.";
    Gauge "redis_total_reads_processed" Field("total_reads_processed") => "Read events.";
    Gauge "redis_total_writes_processed" Field("total_writes_processed") => "Write events.";
    Gauge "redis_io_threaded_reads_processed" Field("io_threaded_reads_processed") =>
        "Read events of Redis's I/O threads, which are not used here.";
    Gauge "redis_io_threaded_writes_processed" Field("io_threaded_writes_processed") =>
        "Write events of Redis's I/O threads, which are not used here.";
    Counter "redis_reply_buffer_shrinks_total" Field("reply_buffer_shrinks") => "Reply buffers made smaller.";
    Counter "redis_reply_buffer_expands_total" Field("reply_buffer_expands") => "Reply buffers made larger.";
    Counter "redis_eventloop_cycles_total" Field("eventloop_cycles") => "Iterations of all event loops.";
    Counter "redis_eventloop_duration_sum_usec_total" Field("eventloop_duration_sum") =>
        "Microseconds of these, without their waiting.";
    Counter "redis_eventloop_duration_cmd_sum_usec_total" Field("eventloop_duration_cmd_sum") =>
        "Microseconds of these spent on commands.";
    Gauge "redis_instantaneous_eventloop_cycles_per_sec" Field("instantaneous_eventloop_cycles_per_sec") =>
        "Iterations a second, as last sampled.";
    Gauge "redis_instantaneous_eventloop_duration_usec" Field("instantaneous_eventloop_duration_usec") =>
        "Microseconds of an iteration, as last sampled.";
    Gauge "redis_instantaneous_ops_per_sec" Field("instantaneous_ops_per_sec") =>
        "Commands a second, as last sampled.";
    Gauge "redis_instantaneous_input_kbps" Field("instantaneous_input_kbps") =>
        "Kilobytes a second received, as last sampled.";
    Gauge "redis_instantaneous_output_kbps" Field("instantaneous_output_kbps") =>
        "Kilobytes a second sent, as last sampled.";
    Counter "redis_acl_access_denied_auth_total" Field("acl_access_denied_auth") => "Logins refused.";
    Counter "redis_acl_access_denied_cmd_total" Field("acl_access_denied_cmd") => "Commands refused by ACL.";
    Counter "redis_acl_access_denied_key_total" Field("acl_access_denied_key") =>
        "Commands refused because of a key.";
    Counter "redis_acl_access_denied_channel_total" Field("acl_access_denied_channel") =>
        "Commands refused because of a channel.";

    // ---- Replication, cluster -----------------------------------------------------------------------------
    Gauge "redis_connected_slaves" Field("connected_slaves") => "Replicas.";
    Gauge "redis_connected_slave_offset_bytes" Samples(replicas::offset) =>
        "The offset that a replica has acknowledged.";
    Gauge "redis_connected_slave_lag_seconds" Samples(replicas::lag) =>
        "Seconds since a replica has acknowledged something.";
    Gauge "redis_master_repl_offset" Field("master_repl_offset") => "The replication offset.";
    Gauge "redis_second_repl_offset" Field("second_repl_offset") =>
        "The offset up to which a second replication id is valid.";
    Gauge "redis_repl_backlog_is_active" Field("repl_backlog_active") =>
        "Whether there is a replication backlog.";
    Gauge "redis_replication_backlog_bytes" Field("repl_backlog_size") =>
        "Bytes that the replication backlog may hold.";
    Gauge "redis_repl_backlog_first_byte_offset" Field("repl_backlog_first_byte_offset") =>
        "The offset at which the backlog begins.";
    Gauge "redis_repl_backlog_history_bytes" Field("repl_backlog_histlen") => "Bytes in the backlog.";
    Gauge "redis_replica_resyncs_full" Field("sync_full") => "Full resynchronisations.";
    Gauge "redis_replica_partial_resync_accepted" Field("sync_partial_ok") => "Partial resynchronisations.";
    Gauge "redis_replica_partial_resync_denied" Field("sync_partial_err") =>
        "Partial resynchronisations that were refused.";
    Gauge "redis_slave_info" Samples(replica::info) => "The primary that is followed, in its labels.";
    Gauge "redis_slave_priority" Field("slave_priority") => "The priority as a replica, for Sentinel.";
    Gauge "redis_slave_repl_offset" Samples(replica::offset) => "The offset that has been applied.";
    Gauge "redis_master_link_up" Samples(replica::link_up) => "Whether the primary's stream is applied.";
    Gauge "redis_master_last_io_seconds_ago" Samples(replica::last_io) =>
        "Seconds since the primary was last heard; -1 while it is not connected.";
    Gauge "redis_master_sync_in_progress" Samples(replica::sync_in_progress) =>
        "Whether a full synchronisation from the primary is under way.";
    Gauge "redis_cluster_connections" Field("cluster_connections") => "Links between cluster nodes.";
    Gauge "redis_cluster_enabled" Field("cluster_enabled") => "Whether the server is part of a cluster.";

    // ---- Processor time -----------------------------------------------------------------------------------
    Counter "redis_cpu_sys_seconds_total" Field("used_cpu_sys") => "Processor time in the kernel.";
    Counter "redis_cpu_user_seconds_total" Field("used_cpu_user") => "Processor time in user mode.";
    Counter "redis_cpu_sys_children_seconds_total" Field("used_cpu_sys_children") =>
        "Processor time of child processes in the kernel.";
    Counter "redis_cpu_user_children_seconds_total" Field("used_cpu_user_children") =>
        "Processor time of child processes in user mode.";
    Counter "redis_cpu_sys_main_thread_seconds_total" Field("used_cpu_sys_main_thread") =>
        "Processor time of the first worker in the kernel.";
    Counter "redis_cpu_user_main_thread_seconds_total" Field("used_cpu_user_main_thread") =>
        "Processor time of the first worker in user mode.";

    // ---- Commands -----------------------------------------------------------------------------------------
    Counter "redis_commands_total" Samples(labelled::commands) => "Calls, by command.";
    Counter "redis_command_calls_total" Samples(labelled::commands) => "Calls, by command; an older name.";
    Counter "redis_commands_duration_seconds_total" Samples(labelled::command_seconds) =>
        "Time that calls took, by command.";
    Counter "redis_commands_rejected_calls_total" Samples(labelled::command_rejections) =>
        "Calls refused before they ran, by command.";
    Counter "redis_commands_failed_calls_total" Samples(labelled::command_failures) =>
        "Calls that replied an error, by command.";
    Histogram "redis_commands_latencies_usec" Samples(labelled::command_latencies) =>
        "How long calls took in microseconds, by command, in the steps of LATENCY HISTOGRAM.";
    Summary "redis_latency_percentiles_usec" Samples(labelled::command_percentiles) =>
        "Percentiles of how long calls took in microseconds, by command; the quantile is in percent.";
    Counter "redis_errors_total" Samples(labelled::errors) => "Error replies by their code.";
    Gauge "redis_latency_spike_last" Samples(labelled::spike_times) =>
        "When an event last took longer than latency-monitor-threshold, Unix time.";
    Gauge "redis_latency_spike_duration_seconds" Samples(labelled::spike_durations) =>
        "How long that event took.";
    Gauge "redis_slowlog_length" Samples(labelled::slowlog_length) => "Commands in the slow log.";
    Gauge "redis_slowlog_last_id" Samples(labelled::slowlog_last_id) =>
        "The number of the newest command in the slow log.";
    Gauge "redis_last_slow_execution_duration_seconds" Samples(labelled::slowlog_duration) =>
        "How long that command took.";

    // ---- Keys ---------------------------------------------------------------------------------------------
    Gauge "redis_db_keys" Samples(labelled::keys) => "Keys, by database.";
    Gauge "redis_db_keys_expiring" Samples(labelled::keys_expiring) => "Keys with an expiry, by database.";
    Gauge "redis_db_avg_ttl_seconds" Samples(labelled::keys_ttl) =>
        "How long keys with an expiry have left on average, estimated from some, by database.";

    // ---- What an exporter says of itself ------------------------------------------------------------------
    Counter "redis_exporter_scrapes_total" Samples(labelled::scrapes) => "Scrapes so far, with this one.";
    Gauge "redis_exporter_last_scrape_duration_seconds" Samples(labelled::scrape_duration) =>
        "How long the last scrape before this one took.";
    Gauge "redis_exporter_last_scrape_error" Samples(labelled::scrape_error) =>
        "Whether the last scrape failed: it can not.";

    // ---- Mantissa's own -----------------------------------------------------------------------------------
    Gauge "mantissa_build_info" Info(MANTISSA_BUILD_INFO) => "The version of Mantissa, in its labels.";
    Gauge "mantissa_workers" Samples(labelled::workers) => "Threads that serve clients.";
    Gauge "mantissa_shards" Samples(labelled::shards) => "Shards of the keyspace.";
    Counter "mantissa_shard_wait_seconds_total" Samples(labelled::shard_wait) =>
        "Time that commands waited for shards that others held; of each wait at most a millisecond.";
    Gauge "mantissa_scrape_stale_shards" Samples(labelled::stale_shards) =>
        "Shards in use during this scrape, whose figures are those of an earlier one.";
    Gauge "mantissa_tier_values" Field("tier_values") => "Values on disk.";
    Gauge "mantissa_tier_value_bytes" Field("tier_value_bytes") => "Bytes of the values on disk.";
    Gauge "mantissa_tier_file_bytes" Field("tier_file_bytes") => "Disk space that is used for values.";
    Gauge "mantissa_tier_waiting_bytes" Field("tier_waiting_bytes") =>
        "Bytes of values that wait to be written to disk.";
    Counter "mantissa_tier_written_bytes_total" Field("tier_written_bytes") =>
        "Bytes of values written to disk.";
    Counter "mantissa_tier_reads_total" Field("tier_reads") => "Values read from disk.";
    Counter "mantissa_tier_part_reads_total" Field("tier_part_reads") => "Parts of values read from disk.";
    Counter "mantissa_tier_read_bytes_total" Field("tier_read_bytes") => "Bytes of values read from disk.";
    Counter "mantissa_tier_waited_requests_total" Field("tier_waited_requests") =>
        "Requests that have waited for values on disk.";
    Counter "mantissa_tier_read_errors_total" Field("tier_read_errors") =>
        "Values that could not be read from disk.";
    Counter "mantissa_tier_write_errors_total" Field("tier_write_errors") =>
        "Failed writes of values to disk.";
    Gauge "mantissa_slab_bytes" Field("mem_slabs") => "Bytes of slabs, in which entries lie.";
    Gauge "mantissa_compaction_running" Field("active_defrag_running") =>
        "Whether entries are being moved together.";
    Counter "mantissa_compaction_walks_total" Field("compaction_walks") =>
        "Walks over the keyspace that moved entries together.";
    Counter "mantissa_compaction_released_bytes_total" Field("compaction_released_bytes") =>
        "Bytes that these walks gave back.";
    Counter "mantissa_compaction_seconds_total" Samples(labelled::compaction_seconds) =>
        "Time that these walks took.";
    Gauge "mantissa_snapshot_keys" Field("current_save_keys_total") =>
        "Keys of the snapshot that is being written; 0 without one.";
    Gauge "mantissa_snapshot_keys_written" Field("current_save_keys_processed") =>
        "Keys of it that are done.";
    Gauge "mantissa_snapshot_copied_bytes" Field("current_cow_size") =>
        "Bytes copied because of writes during it.";
    Gauge "mantissa_snapshot_copied_peak_bytes" Field("current_cow_peak") =>
        "The most bytes copied for a snapshot so far.";
    Gauge "mantissa_loading_bytes" Field("loading_total_bytes") => "Bytes of the file that is being loaded.";
    Gauge "mantissa_loading_done_bytes" Field("loading_loaded_bytes") => "Bytes of it that are done.";
    Counter "mantissa_aof_rewrites_total" Field("aof_rewrites") => "Rewrites of the append-only file.";
    Gauge "mantissa_aof_rewrite_failures" Field("aof_rewrites_consecutive_failures") =>
        "Rewrites that failed since the last that did not.";
    Counter "mantissa_eventloop_iterations_total" Samples(labelled::worker_iterations) =>
        "Iterations of the event loop, by worker.";
    Counter "mantissa_eventloop_busy_seconds_total" Samples(labelled::worker_seconds) =>
        "Time of these without their waiting, by worker.";
    Counter "mantissa_worker_commands_total" Samples(labelled::worker_commands) => "Commands run, by worker.";
    Gauge "mantissa_worker_clients" Samples(labelled::worker_clients) => "Clients, by worker.";
    Gauge "mantissa_eventloop_iteration_max_seconds" Samples(labelled::iteration_max) =>
        "The longest iteration of an event loop.";
    Histogram "mantissa_command_duration_seconds" Samples(labelled::command_durations) =>
        "How long calls took, by command.";
    Histogram "mantissa_all_commands_duration_seconds" Samples(labelled::all_durations) =>
        "How long calls of all commands took; what scripts call counts too.";
    Gauge "mantissa_hot_key_accesses_per_second" Samples(labelled::hot_keys) =>
        "Accesses of the ten keys that are used most, estimated from samples.";
    Gauge "mantissa_big_key_bytes" Samples(labelled::big_keys) =>
        "Bytes of the ten biggest keys, as of the last walk over all keys.";
}
