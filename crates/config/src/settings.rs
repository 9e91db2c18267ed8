//! The one table of directives: every setting, its name, what it accepts, its default and how it may change.
//!
//! Each row below makes a public field of [`Config`] and an entry of [`DIRECTIVES`]. Everything else derives
//! from it: reading files and command lines, `CONFIG GET`, `CONFIG SET`, `CONFIG REWRITE`, warnings about
//! what has no effect yet. A row reads: `field: type = "name" | "old name", kind, "default", flags;` and its
//! comment is the directive's help.
//!
//! Names, ranges and defaults are those of Redis 8.2; where a default differs the comment says so.

use super::kind::Kind::{self, *};
use super::special::{
    check_database_file, check_hostname, check_locale, check_log_file_name, check_log_folder_name,
    check_node_name, check_title,
};
use super::value::*;
use std::path::PathBuf;

/// Can be given at the start only.
pub const IMMUTABLE: u8 = 1;
/// `CONFIG SET` needs `enable-protected-configs`.
pub const PROTECTED: u8 = 2;
/// Holds a secret: kept out of logs.
pub const SENSITIVE: u8 = 4;
/// Takes several words on a line; as one value they are separated by spaces.
pub const MULTI: u8 = 8;
/// Not shown by patterns of `CONFIG GET`, only by its full name.
pub const HIDDEN: u8 = 16;
/// Accepted and kept, but nothing acts on it yet: a warning says so where it is not at its default.
pub const INERT: u8 = 32;

const INT: Kind = Integer { min: 0, max: i32::MAX as i64 };
const LONG: Kind = Integer { min: 0, max: i64::MAX };
const ANY_INT: Kind = Integer { min: i32::MIN as i64, max: i32::MAX as i64 };
const ONE_UP: Kind = Integer { min: 1, max: i32::MAX as i64 };
const PORT: Kind = Integer { min: 0, max: 65535 };
const PERCENT: Kind = Integer { min: 0, max: 100 };
const COUNT: Kind = Unsigned { min: 0, max: i64::MAX as u64 };
const MEMORY: Kind = Memory { min: 0, signed: false };

/// One row of the table, without its type.
pub struct Directive {
    /// The name, in lower case.
    pub name: &'static str,
    /// An older name of the same setting.
    pub alias: Option<&'static str>,
    /// What the setting is for.
    pub about: &'static str,
    /// What it accepts and how it is printed.
    pub kind: Kind,
    /// Its default, as it would be written in a file.
    pub default: &'static str,
    /// A sum of [`IMMUTABLE`], [`PROTECTED`], [`SENSITIVE`], [`MULTI`], [`HIDDEN`] and [`INERT`].
    pub flags: u8,
    pub(super) read: fn(&Config) -> Value,
    pub(super) write: fn(&mut Config, Value),
}

impl Directive {
    /// Whether all bits of `flag` are set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag == flag
    }
}

macro_rules! settings {
    (@alias) => { None };
    (@alias $alias:literal) => { Some($alias) };
    ($(
        $(#[doc = $about:literal])+
        $field:ident: $type:ty = $name:literal $(| $alias:literal)?, $kind:expr, $default:literal,
            $flags:expr;
    )*) => {
        /// All settings, as one value: a change makes a new one. Read the fields; change them through
        /// [`Config::set`].
        #[derive(Clone, Debug, PartialEq)]
        pub struct Config {
            $( $(#[doc = $about])+ pub $field: $type, )*
            /// `rename-command`: the command's name and its new one, which is empty to remove the command.
            pub rename_commands: Vec<(Vec<u8>, Vec<u8>)>,
            /// `user` lines: the name of the user and its rules.
            pub users: Vec<(Vec<u8>, Vec<Vec<u8>>)>,
            /// `loadmodule` lines: the path and its arguments.
            pub modules: Vec<(Vec<u8>, Vec<Vec<u8>>)>,
            /// The configuration file that was read, as an absolute path.
            pub file: Option<PathBuf>,
            /// Where each of `rename_commands` stands.
            pub rename_origins: Vec<super::error::Origin>,
            /// Where each of `users` stands.
            pub user_origins: Vec<super::error::Origin>,
        }

        impl Config {
            /// Every setting at the zero of its type; only a stage of making the defaults.
            pub(super) fn blank() -> Config {
                Config {
                    $( $field: <$type>::default(), )*
                    rename_commands: Vec::new(),
                    users: Vec::new(),
                    modules: Vec::new(),
                    file: None,
                    rename_origins: Vec::new(),
                    user_origins: Vec::new(),
                }
            }
        }

        /// Every directive, in the order of a documented file.
        pub static DIRECTIVES: &[Directive] = &[ $( Directive {
            name: $name,
            alias: settings!(@alias $($alias)?),
            about: concat!($($about),+),
            kind: $kind,
            default: $default,
            flags: $flags,
            read: |config| Setting::to_value(&config.$field),
            write: |config, value| {
                let value = <$type as Setting>::from_value(value);
                debug_assert!(value.is_some(), "{}: a value of another kind", $name);
                if let Some(value) = value {
                    config.$field = value;
                }
            },
        }, )* ];
    };
}

settings! {
    // ---- Ours ---------------------------------------------------------------------------------------------

    /// Threads that serve clients; 0 takes one for each core. (Mantissa's own.)
    worker_threads: usize = "worker-threads", Integer { min: 0, max: 1024 }, "0", IMMUTABLE;
    /// Whether connections are packed on as few worker threads as the load needs. (Mantissa's own.)
    worker_packing: bool = "worker-packing", Bool, "yes", 0;
    /// How the kernel is asked for socket work: `auto` probes for io_uring. (Mantissa's own.)
    io_driver: IoDriver = "io-driver", Choice(IoDriver::NAMES), "auto", IMMUTABLE;
    /// Shards of the keyspace, rounded up to a power of two; 0 chooses by the cores. (Mantissa's own.)
    shards: usize = "shards", Integer { min: 0, max: 65536 }, "0", IMMUTABLE;

    /// Bytes that the append-only file is lengthened by ahead with `appendfsync always`, which then waits
    /// half to a third of the time for the disk; 64 MB at most, 0: none. (Mantissa's own.)
    aof_reserve_size: u64 = "aof-reserve-size", Memory { min: 0, signed: true }, "1mb", 0;

    /// The port for metrics over HTTP, at `/metrics`, with `/healthz` and `/readyz`; 0 listens on none.
    /// (Mantissa's own.)
    metrics_port: u16 = "metrics-port", PORT, "0", 0;
    /// The addresses to listen on for metrics. There is no password and no TLS. (Mantissa's own.)
    metrics_bind: Vec<String> = "metrics-bind", Bind, "127.0.0.1 -::1", MULTI;
    /// Seconds after which an idle connection for metrics is closed. (Mantissa's own.)
    metrics_timeout_s: u32 = "metrics-timeout", ONE_UP, "120", 0;

    // ---- Network ------------------------------------------------------------------------------------------

    /// The TCP port to listen on; 0 listens on none.
    port: u16 = "port", PORT, "6379", 0;
    /// The addresses to listen on; a leading `-` tolerates an address that is not there.
    bind: Vec<String> = "bind", Bind, "* -::*", MULTI;
    /// The local address for connections that the server opens.
    bind_source_addr: String = "bind-source-addr", Text, "", INERT;
    /// The path of a unix socket to listen on.
    unixsocket: Option<String> = "unixsocket", Text, "", IMMUTABLE;
    /// The permissions of the unix socket, in octal; 0 leaves them to the umask.
    unixsocketperm: u32 = "unixsocketperm", Octal { max: 0o777 }, "0", IMMUTABLE;
    /// Refuse connections from other machines while no password is set.
    protected_mode: bool = "protected-mode", Bool, "yes", 0;
    /// The queue of connections that wait to be accepted.
    tcp_backlog: u32 = "tcp-backlog", INT, "511", IMMUTABLE;
    /// Seconds after which an idle client is closed; 0 keeps it.
    timeout_s: u32 = "timeout", INT, "0", 0;
    /// Seconds between keep-alive probes; 0 sends none.
    tcp_keepalive_s: u32 = "tcp-keepalive", INT, "300", 0;
    /// A mark that the kernel puts on the packets of listening sockets.
    socket_mark_id: u32 = "socket-mark-id", Unsigned { min: 0, max: u32::MAX as u64 }, "0", IMMUTABLE | INERT;
    /// Connections accepted in one event-loop iteration.
    max_new_connections_per_cycle: u32 = "max-new-connections-per-cycle", Unsigned { min: 1, max: 1000 },
        "10", INERT;
    /// TLS connections accepted in one event-loop iteration.
    max_new_tls_connections_per_cycle: u32 = "max-new-tls-connections-per-cycle",
        Unsigned { min: 1, max: 1000 }, "1",
        INERT;

    // ---- TLS ----------------------------------------------------------------------------------------------

    /// The port for TLS; 0 listens on none.
    tls_port: u16 = "tls-port", PORT, "0", 0;
    /// The server's certificate, in PEM.
    tls_cert_file: String = "tls-cert-file", Text, "", 0;
    /// The server's private key, in PEM.
    tls_key_file: String = "tls-key-file", Text, "", 0;
    /// The password of the private key.
    tls_key_file_pass: Vec<u8> = "tls-key-file-pass", Bytes, "", SENSITIVE | INERT;
    /// The certificate for connections that the server opens.
    tls_client_cert_file: String = "tls-client-cert-file", Text, "", INERT;
    /// The private key for connections that the server opens.
    tls_client_key_file: String = "tls-client-key-file", Text, "", INERT;
    /// The password of that private key.
    tls_client_key_file_pass: Vec<u8> = "tls-client-key-file-pass", Bytes, "", SENSITIVE | INERT;
    /// Diffie-Hellman parameters.
    tls_dh_params_file: String = "tls-dh-params-file", Text, "", INERT;
    /// A file of certificate authorities to trust.
    tls_ca_cert_file: String = "tls-ca-cert-file", Text, "", 0;
    /// A folder of certificate authorities to trust.
    tls_ca_cert_dir: String = "tls-ca-cert-dir", Text, "", 0;
    /// Whether clients must show a certificate.
    tls_auth_clients: TlsAuthClients = "tls-auth-clients", Choice(TlsAuthClients::NAMES), "yes", 0;
    /// Replicate over TLS.
    tls_replication: bool = "tls-replication", Bool, "no", INERT;
    /// Talk over TLS between cluster nodes.
    tls_cluster: bool = "tls-cluster", Bool, "no", INERT;
    /// The TLS versions to accept.
    tls_protocols: String = "tls-protocols", Text, "", 0;
    /// Ciphers up to TLS 1.2.
    tls_ciphers: String = "tls-ciphers", Text, "", 0;
    /// Ciphers of TLS 1.3.
    tls_ciphersuites: String = "tls-ciphersuites", Text, "", 0;
    /// Whether the server's order of ciphers wins.
    tls_prefer_server_ciphers: bool = "tls-prefer-server-ciphers", Bool, "no", 0;
    /// Whether TLS sessions may be resumed.
    tls_session_caching: bool = "tls-session-caching", Bool, "yes", 0;
    /// TLS sessions kept.
    tls_session_cache_size: u32 = "tls-session-cache-size", INT, "20480", 0;
    /// Seconds that a TLS session is kept.
    tls_session_cache_timeout: u32 = "tls-session-cache-timeout", INT, "300", 0;

    // ---- General ------------------------------------------------------------------------------------------

    /// Run in the background.
    daemonize: bool = "daemonize", Bool, "no", IMMUTABLE;
    /// Whether an init system supervises the process.
    supervised: Supervised = "supervised", Choice(Supervised::NAMES), "no", IMMUTABLE | INERT;
    /// Where the process id is written; in the background there is always one.
    pidfile: Option<String> = "pidfile", Text, "", IMMUTABLE;
    /// How much is logged.
    loglevel: LogLevel = "loglevel", Choice(LogLevel::NAMES), "notice", 0;
    /// The file that the log goes to; empty for standard output.
    logfile: String = "logfile", Text, "", IMMUTABLE;
    /// Log to syslog.
    syslog_enabled: bool = "syslog-enabled", Bool, "no", IMMUTABLE | INERT;
    /// The name in syslog.
    syslog_ident: String = "syslog-ident", Text, "redis", IMMUTABLE | INERT;
    /// The facility in syslog.
    syslog_facility: SyslogFacility = "syslog-facility", Choice(SyslogFacility::NAMES), "local0",
        IMMUTABLE | INERT;
    /// Write a report into the log on a crash.
    crash_log_enabled: bool = "crash-log-enabled", Bool, "yes", 0;
    /// Test memory on a crash.
    crash_memcheck_enabled: bool = "crash-memcheck-enabled", Bool, "yes", INERT;
    /// End with an exit code rather than an abort when the server finds a fault in itself.
    use_exit_on_panic: bool = "use-exit-on-panic", Bool, "no", HIDDEN | INERT;
    /// Milliseconds after which a stuck thread is reported.
    watchdog_period: u32 = "watchdog-period", INT, "0", HIDDEN;
    /// Keep keys and arguments out of the log.
    hide_user_data_from_log: bool = "hide-user-data-from-log", Bool, "no", 0;
    /// The number of databases.
    databases: usize = "databases", ONE_UP, "16", IMMUTABLE;
    /// Draw the logo at the start also where the log is no terminal.
    always_show_logo: bool = "always-show-logo", Bool, "no", IMMUTABLE | INERT;
    /// Change the title of the process.
    set_proc_title: bool = "set-proc-title", Bool, "yes", IMMUTABLE | INERT;
    /// The title of the process.
    proc_title_template: String = "proc-title-template", Checked(check_title),
        "{title} {listen-addr} {server-mode}", INERT;
    /// The locale whose order SORT ALPHA follows.
    locale_collate: String = "locale-collate", Checked(check_locale), "", INERT;
    /// Start although these checks of the machine fail.
    ignore_warnings: String = "ignore-warnings", Text, "", INERT;
    /// Times a second that background work runs.
    hz: u32 = "hz", INT, "10", 0;
    /// Raise `hz` with the number of clients.
    dynamic_hz: bool = "dynamic-hz", Bool, "yes", INERT;
    /// Spend time on growing tables while idle.
    activerehashing: bool = "activerehashing", Bool, "yes", INERT;
    /// I/O threads of Redis; here `worker-threads` says how many threads serve clients.
    io_threads: u32 = "io-threads", Integer { min: 1, max: 128 }, "1", IMMUTABLE | INERT;
    /// Commands of a pipeline whose keys are prefetched together.
    prefetch_batch_max_size: u32 = "prefetch-batch-max-size", Integer { min: 0, max: 128 }, "16",
        HIDDEN | INERT;
    /// Cores for the threads that serve clients.
    server_cpulist: String = "server-cpulist" | "server_cpulist", Text, "", IMMUTABLE | INERT;
    /// Cores for background threads.
    bio_cpulist: String = "bio-cpulist" | "bio_cpulist", Text, "", IMMUTABLE | INERT;
    /// Cores for the rewriting of the append-only file.
    aof_rewrite_cpulist: String = "aof-rewrite-cpulist" | "aof_rewrite_cpulist", Text, "", IMMUTABLE | INERT;
    /// Cores for background saving.
    bgsave_cpulist: String = "bgsave-cpulist" | "bgsave_cpulist", Text, "", IMMUTABLE | INERT;
    /// Adjust how likely the kernel is to kill the process.
    oom_score_adj: OomScoreAdj = "oom-score-adj", Choice(OomScoreAdj::NAMES), "no", INERT;
    /// The adjustments for a master, a replica and a background process.
    oom_score_adj_values: [i32; 3] = "oom-score-adj-values", OomScores, "0 200 800", MULTI | INERT;
    /// Turn transparent huge pages off for the process.
    disable_thp: bool = "disable-thp", Bool, "yes", IMMUTABLE | INERT;

    // ---- Saving -------------------------------------------------------------------------------------------

    /// Save after so many seconds if so many changes were made; several pairs.
    save_points: Vec<SavePoint> = "save", Save, "3600 1 300 100 60 10000", MULTI;
    /// Refuse writes while background saving fails.
    stop_writes_on_bgsave_error: bool = "stop-writes-on-bgsave-error", Bool, "yes", 0;
    /// Compress strings in the dump.
    rdbcompression: bool = "rdbcompression", Bool, "yes", 0;
    /// Put a checksum at the end of the dump.
    rdbchecksum: bool = "rdbchecksum", Bool, "yes", IMMUTABLE;
    /// Check the structure of values while loading them.
    sanitize_dump_payload: SanitizeDump = "sanitize-dump-payload", Choice(SanitizeDump::NAMES), "no", INERT;
    /// The file name of the dump.
    dbfilename: String = "dbfilename", Checked(check_database_file), "dump.rdb", PROTECTED;
    /// Delete dumps that replication left behind.
    rdb_del_sync_files: bool = "rdb-del-sync-files", Bool, "no", INERT;
    /// Flush the dump to the disk bit by bit while it is written.
    rdb_save_incremental_fsync: bool = "rdb-save-incremental-fsync", Bool, "yes", INERT;
    /// Microseconds to wait after each saved key; for tests.
    rdb_key_save_delay: i32 = "rdb-key-save-delay", ANY_INT, "0", HIDDEN;
    /// Microseconds to wait after each loaded key; for tests.
    key_load_delay: i32 = "key-load-delay", ANY_INT, "0", HIDDEN;
    /// Bytes loaded between two looks at the clients.
    loading_process_events_interval_bytes: u32 = "loading-process-events-interval-bytes",
        Integer { min: 1024, max: i32::MAX as i64 }, "524288", HIDDEN | INERT;
    /// The folder for the dump and the log of changes; the default is the one the server started in.
    dir: String = "dir", Directory, "", PROTECTED;

    // ---- Append-only file ---------------------------------------------------------------------------------

    /// Keep a log of all changes.
    appendonly: bool = "appendonly", Bool, "no", 0;
    /// The stem of its file names.
    appendfilename: String = "appendfilename", Checked(check_log_file_name), "appendonly.aof",
        IMMUTABLE;
    /// The folder, within `dir`, that holds them.
    appenddirname: String = "appenddirname", Checked(check_log_folder_name), "appendonlydir",
        IMMUTABLE;
    /// When the log is forced to the disk.
    appendfsync: AppendFsync = "appendfsync", Choice(AppendFsync::NAMES), "everysec", 0;
    /// Do not force it to the disk while a rewrite runs.
    no_appendfsync_on_rewrite: bool = "no-appendfsync-on-rewrite", Bool, "no", 0;
    /// Rewrite the log when it has grown by so many percent.
    auto_aof_rewrite_percentage: u32 = "auto-aof-rewrite-percentage", INT, "100", 0;
    /// ... and is at least this big.
    auto_aof_rewrite_min_size: u64 = "auto-aof-rewrite-min-size", Memory { min: 0, signed: true }, "64mb",
        0;
    /// Start although the append-only file is truncated.
    aof_load_truncated: bool = "aof-load-truncated", Bool, "yes", 0;
    /// Begin a rewritten log with a dump.
    aof_use_rdb_preamble: bool = "aof-use-rdb-preamble", Bool, "yes", 0;
    /// Note the time in the log.
    aof_timestamp_enabled: bool = "aof-timestamp-enabled", Bool, "no", 0;
    /// Flush a rewritten log to the disk bit by bit.
    aof_rewrite_incremental_fsync: bool = "aof-rewrite-incremental-fsync", Bool, "yes", INERT;
    /// Keep files of the log that are no longer needed; for tests.
    aof_disable_auto_gc: bool = "aof-disable-auto-gc", Bool, "no", HIDDEN;

    // ---- Shutdown -----------------------------------------------------------------------------------------

    /// Seconds that a shutdown waits for replicas.
    shutdown_timeout_s: u32 = "shutdown-timeout", INT, "10", INERT;
    /// What SIGINT does.
    shutdown_on_sigint: ShutdownFlags = "shutdown-on-sigint", Shutdown, "default", MULTI;
    /// What SIGTERM does.
    shutdown_on_sigterm: ShutdownFlags = "shutdown-on-sigterm", Shutdown, "default", MULTI;

    // ---- Clients ------------------------------------------------------------------------------------------

    /// The most clients at a time.
    maxclients: u32 = "maxclients", Unsigned { min: 1, max: u32::MAX as u64 }, "10000", 0;
    /// The password of the default user.
    requirepass: Vec<u8> = "requirepass", Bytes, "", SENSITIVE;
    /// A file of users and their rights.
    aclfile: String = "aclfile", Text, "", IMMUTABLE;
    /// Entries of the log of refused commands.
    acllog_max_len: u64 = "acllog-max-len", LONG, "128", 0;
    /// The pub/sub channels that a new user may use.
    acl_pubsub_default: AclPubsubDefault = "acl-pubsub-default", Choice(AclPubsubDefault::NAMES),
        "resetchannels", 0;
    /// The longest single argument.
    proto_max_bulk_len: u64 = "proto-max-bulk-len", Memory { min: 1 << 20, signed: true }, "512mb", 0;
    /// The most bytes of a request that is not complete.
    client_query_buffer_limit: u64 = "client-query-buffer-limit", Memory { min: 1 << 20, signed: false },
        "1gb", 0;
    /// The most bytes of replies that wait for a client, for normal clients, replicas and subscribers.
    client_output_buffer_limits: [OutputBufferLimit; 3] = "client-output-buffer-limit", OutputLimits,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60", MULTI;
    /// The most memory for all clients, in bytes or in percent of `maxmemory`.
    maxmemory_clients: MemoryOrPercent = "maxmemory-clients", MemoryOrPercentage, "0", 0;
    /// The most keys remembered for client-side caching.
    tracking_table_max_keys: usize = "tracking-table-max-keys", COUNT, "1000000", 0;
    /// Milliseconds after which other clients are told that a script is busy.
    busy_reply_threshold_ms: u64 = "busy-reply-threshold" | "lua-time-limit", LONG, "5000", 0;
    /// Let scripts use what Lua deprecated.
    lua_enable_deprecated_api: bool = "lua-enable-deprecated-api", Bool, "no", IMMUTABLE | HIDDEN | INERT;
    /// Who may use DEBUG.
    enable_debug_command: Permission = "enable-debug-command", Choice(Permission::NAMES), "no", IMMUTABLE;
    /// Who may use MODULE.
    enable_module_command: Permission = "enable-module-command", Choice(Permission::NAMES), "no",
        IMMUTABLE;
    /// Who may change protected settings.
    enable_protected_configs: Permission = "enable-protected-configs", Choice(Permission::NAMES), "no",
        IMMUTABLE;

    // ---- Memory -------------------------------------------------------------------------------------------

    /// The most memory for data; 0 has no limit.
    maxmemory: u64 = "maxmemory", MEMORY, "0", 0;
    /// What is evicted at the limit.
    maxmemory_policy: MaxmemoryPolicy = "maxmemory-policy", Choice(MaxmemoryPolicy::NAMES), "noeviction", 0;
    /// Keys looked at to find one to evict.
    maxmemory_samples: u32 = "maxmemory-samples", Integer { min: 1, max: 64 }, "5", 0;
    /// How hard eviction works, from 0 to 100.
    maxmemory_eviction_tenacity: u32 = "maxmemory-eviction-tenacity", PERCENT, "10", 0;
    /// How fast the counter of frequency use saturates.
    lfu_log_factor: u32 = "lfu-log-factor", INT, "10", 0;
    /// Minutes after which the counter of frequency of use falls by one.
    lfu_decay_time: u32 = "lfu-decay-time", INT, "1", 0;
    /// How hard expired keys are looked for, from 1 to 10.
    active_expire_effort: u32 = "active-expire-effort", Integer { min: 1, max: 10 }, "1", 0;
    /// Let commands that look at arbitrary keys delete expired ones inside transactions and scripts.
    lazyexpire_nested_arbitrary_keys: bool = "lazyexpire-nested-arbitrary-keys", Bool, "yes", HIDDEN | INERT;
    /// Free evicted values in the background; what takes long to free always is.
    lazyfree_lazy_eviction: bool = "lazyfree-lazy-eviction", Bool, "no", 0;
    /// Free expired values in the background; what takes long to free always is.
    lazyfree_lazy_expire: bool = "lazyfree-lazy-expire", Bool, "no", 0;
    /// Free overwritten values in the background; what takes long to free always is.
    lazyfree_lazy_server_del: bool = "lazyfree-lazy-server-del", Bool, "no", 0;
    /// DEL works like UNLINK; what takes long to free it always leaves to the background.
    lazyfree_lazy_user_del: bool = "lazyfree-lazy-user-del", Bool, "no", 0;
    /// FLUSHALL and the like work as with ASYNC.
    lazyfree_lazy_user_flush: bool = "lazyfree-lazy-user-flush", Bool, "no", 0;
    /// Move values together while running.
    activedefrag: bool = "activedefrag", Bool, "no", 0;
    /// Wasted bytes from which on values are moved.
    active_defrag_ignore_bytes: u64 = "active-defrag-ignore-bytes", Memory { min: 1, signed: false },
        "100mb", INERT;
    /// Percent of waste from which on values are moved.
    active_defrag_threshold_lower: u32 = "active-defrag-threshold-lower", Integer { min: 0, max: 1000 },
        "10", 0;
    /// Percent of waste at which most effort is made.
    active_defrag_threshold_upper: u32 = "active-defrag-threshold-upper", Integer { min: 0, max: 1000 },
        "100",
        INERT;
    /// The least percent of time for moving.
    active_defrag_cycle_min: u32 = "active-defrag-cycle-min", Integer { min: 1, max: 99 }, "1", INERT;
    /// The most percent of time for moving.
    active_defrag_cycle_max: u32 = "active-defrag-cycle-max", Integer { min: 1, max: 99 }, "25", 0;
    /// Elements of a collection looked at in one go.
    active_defrag_max_scan_fields: u64 = "active-defrag-max-scan-fields", Integer { min: 1, max: i64::MAX },
        "1000",
        INERT;
    /// Let the allocator return memory on a thread of its own.
    jemalloc_bg_thread: bool = "jemalloc-bg-thread", Bool, "yes", INERT;

    // ---- Encodings ----------------------------------------------------------------------------------------

    /// Fields up to which a hash is packed.
    hash_max_listpack_entries: usize = "hash-max-listpack-entries" | "hash-max-ziplist-entries", COUNT,
        "512", 0;
    /// Bytes of a field or value up to which a hash is packed.
    hash_max_listpack_value: usize = "hash-max-listpack-value" | "hash-max-ziplist-value", MEMORY, "64", 0;
    /// The size of a packed list: elements if positive, -1 to -5 for 4 to 64 KB.
    list_max_listpack_size: i32 = "list-max-listpack-size" | "list-max-ziplist-size", ANY_INT, "-2", 0;
    /// Nodes at each end of a list that are not compressed; 0 compresses none.
    list_compress_depth: u32 = "list-compress-depth", INT, "0", 0;
    /// Members up to which a set of integers is packed.
    set_max_intset_entries: usize = "set-max-intset-entries", COUNT, "512", 0;
    /// Members up to which a set is packed.
    set_max_listpack_entries: usize = "set-max-listpack-entries", COUNT, "128", 0;
    /// Bytes of a member up to which a set is packed.
    set_max_listpack_value: usize = "set-max-listpack-value", COUNT, "64", 0;
    /// Members up to which a sorted set is packed.
    zset_max_listpack_entries: usize = "zset-max-listpack-entries" | "zset-max-ziplist-entries", COUNT,
        "128", 0;
    /// Bytes of a member up to which a sorted set is packed.
    zset_max_listpack_value: usize = "zset-max-listpack-value" | "zset-max-ziplist-value", MEMORY, "64", 0;
    /// Bytes up to which a HyperLogLog is sparse.
    hll_sparse_max_bytes: usize = "hll-sparse-max-bytes", MEMORY, "3000", 0;
    /// Bytes of a node of a stream.
    stream_node_max_bytes: usize = "stream-node-max-bytes", MEMORY, "4096", 0;
    /// Entries of a node of a stream.
    stream_node_max_entries: u64 = "stream-node-max-entries", LONG, "100", 0;
    /// Serve vector set commands on one thread only.
    vset_force_single_threaded_execution: bool = "vset-force-single-threaded-execution", Bool, "no", INERT;

    // ---- Events and observation ---------------------------------------------------------------------------

    /// Classes of events that are published, as bits of [`mantissa_commands::EventClass`].
    notify_keyspace_events: u32 = "notify-keyspace-events", Events, "", 0;
    /// Microseconds from which on a command is logged as slow; -1 logs none.
    slowlog_log_slower_than_us: i64 = "slowlog-log-slower-than", Integer { min: -1, max: i64::MAX },
        "10000", 0;
    /// Slow commands that are kept.
    slowlog_max_len: u64 = "slowlog-max-len", LONG, "128", 0;
    /// Milliseconds from which on an event is kept as slow; 0 keeps none.
    latency_monitor_threshold_ms: u64 = "latency-monitor-threshold", LONG, "0", 0;
    /// Keep a histogram of the time of each command.
    latency_tracking: bool = "latency-tracking", Bool, "yes", 0;
    /// The percentiles of it that INFO shows.
    latency_tracking_info_percentiles: Vec<f64> = "latency-tracking-info-percentiles", Percentiles,
        "50 99 99.9", MULTI;

    // ---- Replication --------------------------------------------------------------------------------------

    /// The host and port of the master.
    replicaof: Option<(String, u16)> = "replicaof" | "slaveof", ReplicaOf, "no one",
        IMMUTABLE | MULTI | INERT;
    /// The user to log in with at the master.
    masteruser: String = "masteruser", Text, "", SENSITIVE | INERT;
    /// The password to log in with at the master.
    masterauth: Vec<u8> = "masterauth", Bytes, "", SENSITIVE | INERT;
    /// Answer also while the master is not reached.
    replica_serve_stale_data: bool = "replica-serve-stale-data" | "slave-serve-stale-data", Bool, "yes",
        INERT;
    /// Refuse writes of clients to a replica.
    replica_read_only: bool = "replica-read-only" | "slave-read-only", Bool, "yes", INERT;
    /// Leave eviction to the master.
    replica_ignore_maxmemory: bool = "replica-ignore-maxmemory" | "slave-ignore-maxmemory", Bool, "yes",
        INERT;
    /// Go on when a replica can not write to its disk.
    replica_ignore_disk_write_errors: bool = "replica-ignore-disk-write-errors", Bool, "no", INERT;
    /// Drop the old data in the background before a full synchronisation.
    replica_lazy_flush: bool = "replica-lazy-flush" | "slave-lazy-flush", Bool, "no", INERT;
    /// Which replica is promoted first; 0 for never.
    replica_priority: u32 = "replica-priority" | "slave-priority", INT, "100", INERT;
    /// Whether the master tells about this replica.
    replica_announced: bool = "replica-announced", Bool, "yes", INERT;
    /// The address that a replica tells the master.
    replica_announce_ip: String = "replica-announce-ip" | "slave-announce-ip", Text, "", INERT;
    /// The port that a replica tells the master.
    replica_announce_port: u16 = "replica-announce-port" | "slave-announce-port", PORT, "0", INERT;
    /// The most bytes that a replica holds back during a full synchronisation.
    replica_full_sync_buffer_limit: u64 = "replica-full-sync-buffer-limit", Memory { min: 0, signed: true },
        "0", INERT;
    /// What to do about an error of a replicated command.
    propagation_error_behavior: PropagationError = "propagation-error-behavior",
        Choice(PropagationError::NAMES),
        "ignore", INERT;
    /// Replicas that must be there for a write.
    min_replicas_to_write: u32 = "min-replicas-to-write" | "min-slaves-to-write", INT, "0", INERT;
    /// Seconds that they may lag.
    min_replicas_max_lag: u32 = "min-replicas-max-lag" | "min-slaves-max-lag", INT, "10", INERT;
    /// Bytes of changes kept for a replica that comes back.
    repl_backlog_size: u64 = "repl-backlog-size", Memory { min: 1, signed: true }, "1mb", INERT;
    /// Seconds after which they are dropped when there is no replica.
    repl_backlog_ttl: u64 = "repl-backlog-ttl", LONG, "3600", INERT;
    /// Synchronise without a file at the master.
    repl_diskless_sync: bool = "repl-diskless-sync", Bool, "yes", INERT;
    /// Seconds to wait for more replicas before that.
    repl_diskless_sync_delay: u32 = "repl-diskless-sync-delay", INT, "5", INERT;
    /// ... but not once this many wait.
    repl_diskless_sync_max_replicas: u32 = "repl-diskless-sync-max-replicas", INT, "0", INERT;
    /// Synchronise without a file at the replica.
    repl_diskless_load: DisklessLoad = "repl-diskless-load", Choice(DisklessLoad::NAMES), "disabled", INERT;
    /// Let the kernel gather packets to replicas.
    repl_disable_tcp_nodelay: bool = "repl-disable-tcp-nodelay", Bool, "no", INERT;
    /// Seconds between pings to replicas.
    repl_ping_replica_period: u32 = "repl-ping-replica-period" | "repl-ping-slave-period", ONE_UP, "10",
        INERT;
    /// Seconds after which the other side is given up.
    repl_timeout: u32 = "repl-timeout", ONE_UP, "60", INERT;
    /// Send the dump over a connection of its own.
    repl_rdb_channel: bool = "repl-rdb-channel", Bool, "yes", HIDDEN | INERT;

    // ---- Cluster ------------------------------------------------------------------------------------------

    /// Be a node of a cluster.
    cluster_enabled: bool = "cluster-enabled", Bool, "no", IMMUTABLE | INERT;
    /// The file in which a node keeps its view of the cluster.
    cluster_config_file: String = "cluster-config-file", Text, "nodes.conf", IMMUTABLE | INERT;
    /// The port of the cluster bus; 0 for the port plus 10000.
    cluster_port: u16 = "cluster-port", PORT, "0", IMMUTABLE | INERT;
    /// Milliseconds after which a node counts as gone.
    cluster_node_timeout: u64 = "cluster-node-timeout", LONG, "15000", INERT;
    /// Milliseconds between pings.
    cluster_ping_interval: u64 = "cluster-ping-interval", LONG, "0", HIDDEN | INERT;
    /// How old data of a replica may be for it to be promoted.

    cluster_replica_validity_factor: u32 =
        "cluster-replica-validity-factor" | "cluster-slave-validity-factor", INT, "10", INERT;
    /// Never promote this replica by itself.
    cluster_replica_no_failover: bool = "cluster-replica-no-failover" | "cluster-slave-no-failover", Bool,
        "no", INERT;
    /// Replicas that a master keeps when others have none.
    cluster_migration_barrier: u32 = "cluster-migration-barrier", INT, "1", INERT;
    /// Let replicas move to masters that have none.
    cluster_allow_replica_migration: bool = "cluster-allow-replica-migration", Bool, "yes", INERT;
    /// Refuse commands while slots are not served.
    cluster_require_full_coverage: bool = "cluster-require-full-coverage", Bool, "yes", INERT;
    /// Read also while the cluster is down.
    cluster_allow_reads_when_down: bool = "cluster-allow-reads-when-down", Bool, "no", INERT;
    /// Publish also while the cluster is down.
    cluster_allow_pubsubshard_when_down: bool = "cluster-allow-pubsubshard-when-down", Bool, "yes", INERT;
    /// The most bytes that wait for another node.
    cluster_link_sendbuf_limit: u64 = "cluster-link-sendbuf-limit", MEMORY, "0", INERT;
    /// The address told to others.
    cluster_announce_ip: String = "cluster-announce-ip", Text, "", INERT;
    /// The host name told to others.
    cluster_announce_hostname: String = "cluster-announce-hostname", Checked(check_hostname), "", INERT;
    /// The name of the node in logs.
    cluster_announce_human_nodename: String = "cluster-announce-human-nodename", Checked(check_node_name),
        "", INERT;
    /// The port told to others.
    cluster_announce_port: u16 = "cluster-announce-port", PORT, "0", INERT;
    /// The TLS port told to others.
    cluster_announce_tls_port: u16 = "cluster-announce-tls-port", PORT, "0", INERT;
    /// The bus port told to others.
    cluster_announce_bus_port: u16 = "cluster-announce-bus-port", PORT, "0", INERT;
    /// What clients are told of nodes.
    cluster_preferred_endpoint_type: EndpointType = "cluster-preferred-endpoint-type",
        Choice(EndpointType::NAMES),
        "ip", INERT;
    /// Percent of commands that are checked for use in a cluster.
    cluster_compatibility_sample_ratio: u32 = "cluster-compatibility-sample-ratio", PERCENT, "0", INERT;
    /// Keep statistics of slots.
    cluster_slot_stats_enabled: bool = "cluster-slot-stats-enabled", Bool, "no", INERT;
}
