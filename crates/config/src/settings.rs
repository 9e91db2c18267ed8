//! The one table of directives: every setting, its name, what it accepts, its default and how it may change.
//!
//! Each row below makes a public field of [`Config`] and an entry of [`DIRECTIVES`]. Everything else derives
//! from it: reading files and command lines, `CONFIG GET`, `CONFIG SET`, `CONFIG REWRITE`, warnings about
//! what has no effect, the reference in `docs/configuration.md`, `mantissa.conf` and the man page
//! ([`super::reference`]). A row reads: `field: type = "name" | "old name", kind, "default", flags;`.
//!
//! A row's comment is the directive's description for users: what it does, its unit, what special values
//! mean, and where it differs from Redis. Type, range, default, and whether it changes at run time follow
//! from the row and are not repeated there. After a change here
//!
//! ```text
//! MANTISSA_WRITE=1 cargo test -p mantissa-config reference
//! ```
//!
//! writes the generated files anew; a test fails where they differ.
//!
//! Names, ranges and defaults are those of Redis 8.2; where a default differs the comment says so.

use super::kind::Kind::{self, *};
use super::special::{
    check_archive_url, check_backup_folder_name, check_chunk_bytes, check_compactions, check_database_file,
    check_difference, check_error_rate, check_hostname, check_locale, check_log_file_name,
    check_log_folder_name, check_node_name, check_schedule, check_title,
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
    /// The heading under which it is described, and what is said below that.
    pub section: &'static Section,
    /// The description for users, in Markdown.
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

/// A group of directives that are described together.
#[derive(PartialEq)]
pub struct Section {
    /// The heading.
    pub title: &'static str,
    /// A sentence or two below it.
    pub intro: &'static str,
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
        section $title:literal, $intro:literal;
        $(
            $(#[doc = $about:literal])+
            $field:ident: $type:ty = $name:literal $(| $alias:literal)?, $kind:expr, $default:literal,
                $flags:expr;
        )*
    )*) => {
        /// All settings, as one value: a change makes a new one. Read the fields; change them through
        /// [`Config::set`].
        #[derive(Clone, Debug, PartialEq)]
        pub struct Config {
            $($( $(#[doc = $about])+ pub $field: $type, )*)*
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
                    $($( $field: <$type>::default(), )*)*
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
        pub static DIRECTIVES: &[Directive] = &[ $($( Directive {
            name: $name,
            alias: settings!(@alias $($alias)?),
            section: &Section { title: $title, intro: $intro },
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
        }, )*)* ];
    };
}

settings! {
    section "Threads",
        "Mantissa serves all keys from all threads: there are no slots and no I/O threads to configure.";

    /// Threads that serve clients; 0 starts one for each core. Any thread serves any key. Mantissa's own
    /// directive.
    worker_threads: usize = "worker-threads", Integer { min: 0, max: 1024 }, "0", IMMUTABLE;
    /// Packs connections on as few worker threads as the load needs, which costs the least processor time;
    /// `no` spreads them over all threads. Mantissa's own directive.
    worker_packing: bool = "worker-packing", Bool, "yes", 0;
    /// How the server talks to the kernel. `io_uring` needs the fewest system calls, `epoll` works
    /// everywhere, `auto` takes io_uring where the kernel allows it. Mantissa's own directive.
    io_driver: IoDriver = "io-driver", Choice(IoDriver::NAMES), "auto", IMMUTABLE;
    /// Parts of the keyspace that are locked separately, rounded up to a power of two; 0 takes eight
    /// times the square of the number of worker threads, from 64 to 1024. Mantissa's own directive.
    shards: usize = "shards", Integer { min: 0, max: 65536 }, "0", IMMUTABLE;

    section "Network",
        "Where the server listens. A server without a password answers only this machine unless \
        `protected-mode` is off.";

    /// The TCP port to listen on; 0 listens on none.
    port: u16 = "port", PORT, "6379", 0;
    /// The addresses to listen on: `*` is every IPv4 address, `::*` every IPv6 address. A leading `-`
    /// tolerates an address that this machine does not have.
    bind: Vec<String> = "bind", Bind, "* -::*", MULTI;
    /// The local address of the link to a primary, where this machine has it.
    bind_source_addr: String = "bind-source-addr", Text, "", 0;
    /// The path of a Unix socket to listen on; empty listens on none.
    unixsocket: Option<String> = "unixsocket", Text, "", IMMUTABLE;
    /// The permissions of the Unix socket, in octal; 0 leaves them to the umask.
    unixsocketperm: u32 = "unixsocketperm", Octal { max: 0o777 }, "0", IMMUTABLE;
    /// Refuses connections from other machines while the default user has no password.
    protected_mode: bool = "protected-mode", Bool, "yes", 0;
    /// Connections that may wait to be accepted. The kernel's net.core.somaxconn limits it too.
    tcp_backlog: u32 = "tcp-backlog", INT, "511", IMMUTABLE;
    /// Seconds after which an idle client is closed; 0 closes none. Blocked clients, subscribers and MONITOR
    /// are exempt.
    timeout_s: u32 = "timeout", INT, "0", 0;
    /// Seconds of silence after which the kernel probes a connection; 0 sends no probes.
    tcp_keepalive_s: u32 = "tcp-keepalive", INT, "300", 0;
    /// A mark that the kernel puts on packets of listening sockets, for routing and filters; 0 sets none.
    socket_mark_id: u32 = "socket-mark-id", Unsigned { min: 0, max: u32::MAX as u64 }, "0", IMMUTABLE | INERT;
    /// Connections accepted in one iteration of the event loop. Here the server chooses.
    max_new_connections_per_cycle: u32 = "max-new-connections-per-cycle", Unsigned { min: 1, max: 1000 },
        "10", INERT;
    /// TLS connections accepted in one iteration of the event loop. Here the server chooses.
    max_new_tls_connections_per_cycle: u32 = "max-new-tls-connections-per-cycle",
        Unsigned { min: 1, max: 1000 }, "1",
        INERT;

    section "TLS",
        "TLS 1.2 and 1.3 for clients. Certificates are read again without a restart when one of these is \
        set.";

    /// The port for TLS; 0 listens on none. It needs `tls-cert-file` and `tls-key-file`.
    tls_port: u16 = "tls-port", PORT, "0", 0;
    /// The server's certificate, with its chain, in PEM. Setting any `tls-` directive while the server runs
    /// reads the files again.
    tls_cert_file: String = "tls-cert-file", Text, "", 0;
    /// The server's private key in PEM.
    tls_key_file: String = "tls-key-file", Text, "", 0;
    /// The password of `tls-key-file`, if that is encrypted: a PKCS #8 key (`openssl pkcs8 -topk8`).
    tls_key_file_pass: Vec<u8> = "tls-key-file-pass", Bytes, "", SENSITIVE;
    /// The certificate for connections that the server opens to other servers.
    tls_client_cert_file: String = "tls-client-cert-file", Text, "", 0;
    /// The private key for connections that the server opens to other servers.
    tls_client_key_file: String = "tls-client-key-file", Text, "", 0;
    /// The password of `tls-client-key-file`.
    tls_client_key_file_pass: Vec<u8> = "tls-client-key-file-pass", Bytes, "", SENSITIVE;
    /// Diffie-Hellman parameters. The key exchanges used here need none.
    tls_dh_params_file: String = "tls-dh-params-file", Text, "", INERT;
    /// A PEM file of certificate authorities that clients' certificates are checked against.
    tls_ca_cert_file: String = "tls-ca-cert-file", Text, "", 0;
    /// A folder of certificate authorities that clients' certificates are checked against.
    tls_ca_cert_dir: String = "tls-ca-cert-dir", Text, "", 0;
    /// Whether clients must show a certificate: `yes`, `no`, or `optional`, which checks one that is shown.
    tls_auth_clients: TlsAuthClients = "tls-auth-clients", Choice(TlsAuthClients::NAMES), "yes", 0;
    /// Uses TLS between a replica and its master.
    tls_replication: bool = "tls-replication", Bool, "no", 0;
    /// Uses TLS on the cluster bus.
    tls_cluster: bool = "tls-cluster", Bool, "no", INERT;
    /// The TLS versions to accept, separated by spaces: `TLSv1.2`, `TLSv1.3`. Empty accepts both.
    tls_protocols: String = "tls-protocols", Text, "", 0;
    /// Cipher suites of TLS 1.2, by OpenSSL's names, separated by colons; empty allows all that are
    /// supported. OpenSSL's expressions such as `HIGH:!aNULL` are refused.
    tls_ciphers: String = "tls-ciphers", Text, "", 0;
    /// Cipher suites of TLS 1.3, separated by colons; empty allows all that are supported.
    tls_ciphersuites: String = "tls-ciphersuites", Text, "", 0;
    /// The server's order of cipher suites decides, and not the client's.
    tls_prefer_server_ciphers: bool = "tls-prefer-server-ciphers", Bool, "no", 0;
    /// Lets clients resume TLS sessions, which saves the full handshake.
    tls_session_caching: bool = "tls-session-caching", Bool, "yes", 0;
    /// TLS sessions kept for resumption.
    tls_session_cache_size: u32 = "tls-session-cache-size", INT, "20480", 0;
    /// Seconds that a TLS session can be resumed.
    tls_session_cache_timeout: u32 = "tls-session-cache-timeout", INT, "300", 0;

    section "General",
        "The process, its log and its background work.";

    /// Runs in the background. The process id is then written to a file in any case.
    daemonize: bool = "daemonize", Bool, "no", IMMUTABLE;
    /// How the server tells its supervisor that it is ready: `systemd` through its notify socket, with its
    /// state and the watchdog; `upstart` by SIGSTOP; `auto` by what the environment offers.
    supervised: Supervised = "supervised", Choice(Supervised::NAMES), "no", IMMUTABLE;
    /// The file for the process id; it is removed at the end. In the background an empty value means
    /// /var/run/mantissa.pid.
    pidfile: Option<String> = "pidfile", Text, "", IMMUTABLE;
    /// How much is logged, from `debug`, the most, to `warning`, the least; `nothing` logs nothing.
    loglevel: LogLevel = "loglevel", Choice(LogLevel::NAMES), "notice", 0;
    /// The file for the log; empty is standard output. SIGHUP opens it again, for log rotation.
    logfile: String = "logfile", Text, "", IMMUTABLE;
    /// Sends the log to syslog as well.
    syslog_enabled: bool = "syslog-enabled", Bool, "no", IMMUTABLE | INERT;
    /// The program's name in syslog.
    syslog_ident: String = "syslog-ident", Text, "redis", IMMUTABLE | INERT;
    /// The facility of entries in syslog.
    syslog_facility: SyslogFacility = "syslog-facility", Choice(SyslogFacility::NAMES), "local0",
        IMMUTABLE | INERT;
    /// Writes a crash report to the log: stacks of all threads, registers, INFO, clients and the command that
    /// ran.
    crash_log_enabled: bool = "crash-log-enabled", Bool, "yes", 0;
    /// Tests memory after a crash.
    crash_memcheck_enabled: bool = "crash-memcheck-enabled", Bool, "yes", INERT;
    /// Ends with an exit code in place of an abort when the server finds a fault in itself.
    use_exit_on_panic: bool = "use-exit-on-panic", Bool, "no", HIDDEN | INERT;
    /// Milliseconds after which a command that still runs has its stack logged; 0 is off, and less than 200
    /// counts as 200. For looking for slow commands.
    watchdog_period: u32 = "watchdog-period", INT, "0", HIDDEN;
    /// Keeps keys, arguments and names of clients out of crash reports.
    hide_user_data_from_log: bool = "hide-user-data-from-log", Bool, "no", 0;
    /// The number of databases. Clients choose one with SELECT, from 0.
    databases: usize = "databases", ONE_UP, "16", IMMUTABLE;
    /// Draws Redis's logo at the start although the log is no terminal. There is no logo here.
    always_show_logo: bool = "always-show-logo", Bool, "no", IMMUTABLE | INERT;
    /// Shows `proc-title-template` as the title of the process, in place of its command line.
    set_proc_title: bool = "set-proc-title", Bool, "yes", IMMUTABLE;
    /// The title of the process, with {title}, {listen-addr}, {server-mode}, {port}, {tls-port}, {unixsocket}
    /// and {config-file} filled in.
    proc_title_template: String = "proc-title-template", Checked(check_title),
        "{title} {listen-addr} {server-mode}", 0;
    /// The locale whose order SORT ALPHA follows. Here the order is that of bytes.
    locale_collate: String = "locale-collate", Checked(check_locale), "", INERT;
    /// Checks of the machine that do not stop the start. There are none here.
    ignore_warnings: String = "ignore-warnings", Text, "", INERT;
    /// Rounds of background work a second (expiry, idle clients), from 1 to 500. A higher number reacts
    /// sooner and costs more when idle.
    hz: u32 = "hz", INT, "10", 0;
    /// Raises `hz` with the number of clients. Here `hz` is used as it is.
    dynamic_hz: bool = "dynamic-hz", Bool, "yes", INERT;
    /// Spends idle time on moving entries of tables that grow. Tables grow step by step here, whatever it
    /// says.
    activerehashing: bool = "activerehashing", Bool, "yes", INERT;
    /// Redis's I/O threads. Use `worker-threads` here: every worker reads, runs commands and writes.
    io_threads: u32 = "io-threads", Integer { min: 1, max: 256 }, "1", IMMUTABLE | INERT;
    /// Commands of a pipeline whose keys are prefetched together. Here the server chooses.
    prefetch_batch_max_size: u32 = "prefetch-batch-max-size", Integer { min: 0, max: 128 }, "16",
        HIDDEN | INERT;
    /// Cores for the threads that serve clients, such as `0-3`. Start the server under taskset for that.
    server_cpulist: String = "server-cpulist" | "server_cpulist", Text, "", IMMUTABLE | INERT;
    /// Cores for background threads, such as `0,1`.
    bio_cpulist: String = "bio-cpulist" | "bio_cpulist", Text, "", IMMUTABLE | INERT;
    /// Cores for the process that rewrites the append-only file. No process is forked here.
    aof_rewrite_cpulist: String = "aof-rewrite-cpulist" | "aof_rewrite_cpulist", Text, "", IMMUTABLE | INERT;
    /// Cores for the process that saves in the background. No process is forked here.
    bgsave_cpulist: String = "bgsave-cpulist" | "bgsave_cpulist", Text, "", IMMUTABLE | INERT;
    /// Starts although `cluster-enabled` or `loadmodule` has no effect yet: outside of any cluster, without
    /// modules. Mantissa's own directive.
    ignore_unsupported_directives: bool = "ignore-unsupported-directives", Bool, "no", IMMUTABLE;
    /// Adjusts how soon the kernel's out-of-memory killer chooses the process: `relative`, and `yes`, add the
    /// value of the present role to what the process had at its start, `absolute` takes that value itself.
    oom_score_adj: OomScoreAdj = "oom-score-adj", Choice(OomScoreAdj::NAMES), "no", 0;
    /// The adjustments for a master, a replica and a background process, each from -2000 to 2000. The kernel
    /// lets others than root only raise what a process has. Nothing forks here: the third is not used.
    oom_score_adj_values: [i32; 3] = "oom-score-adj-values", OomScores, "0 200 800", MULTI;
    /// Turns transparent huge pages off for the process, since they are costly with fork. Nothing forks here,
    /// and data lie in huge pages on purpose.
    disable_thp: bool = "disable-thp", Bool, "yes", IMMUTABLE | INERT;

    section "Snapshots",
        "Dumps in the RDB format, exchanged with Redis in both directions. Nothing forks: saving takes a \
        few percent of memory.";

    /// Saves a dump after so many seconds if at least so many changes were made; several pairs may be given.
    /// `""` saves never by itself.
    save_points: Vec<SavePoint> = "save", Save, "3600 1 300 100 60 10000", MULTI;
    /// Refuses writes while the last background save failed and save points are set, so that somebody
    /// notices.
    stop_writes_on_bgsave_error: bool = "stop-writes-on-bgsave-error", Bool, "yes", 0;
    /// Compresses strings in dumps and in payloads of DUMP with LZF. Costs processor time, makes smaller
    /// files.
    rdbcompression: bool = "rdbcompression", Bool, "yes", 0;
    /// Ends dumps with a checksum, and checks it when loading.
    rdbchecksum: bool = "rdbchecksum", Bool, "yes", IMMUTABLE;
    /// Checks the structure of values while loading and in RESTORE. Here they are always checked.
    sanitize_dump_payload: SanitizeDump = "sanitize-dump-payload", Choice(SanitizeDump::NAMES), "no", INERT;
    /// Loads dumps without the keys of modules, each of which the log tells, instead of refusing them. The
    /// file is then not overwritten. Mantissa's own directive.
    rdb_skip_unknown_types: bool = "rdb-skip-unknown-types", Bool, "no", 0;
    /// Allows to overwrite a dump that was loaded without its keys of modules. Mantissa's own directive.
    rdb_overwrite_after_skip: bool = "rdb-overwrite-after-skip", Bool, "no", 0;
    /// The file name of the dump, within `dir`.
    dbfilename: String = "dbfilename", Checked(check_database_file), "dump.rdb", PROTECTED;
    /// Deletes dumps that replication left behind on servers without persistence.
    rdb_del_sync_files: bool = "rdb-del-sync-files", Bool, "no", INERT;
    /// Flushes a dump to the disk every few megabytes while it is written. Here dumps are written past the
    /// page cache, with the same effect.
    rdb_save_incremental_fsync: bool = "rdb-save-incremental-fsync", Bool, "yes", INERT;
    /// Microseconds to wait after each saved key; -n waits one microsecond after every n keys. For tests.
    rdb_key_save_delay: i32 = "rdb-key-save-delay", ANY_INT, "0", HIDDEN;
    /// Microseconds to wait after each loaded key; -n waits one microsecond after every n keys. For tests.
    key_load_delay: i32 = "key-load-delay", ANY_INT, "0", HIDDEN;
    /// Bytes loaded between two looks at clients. Here other threads answer clients meanwhile; it is only the
    /// size from which clients get -LOADING, at the start and with DEBUG RELOAD. They wait for smaller files.
    loading_process_events_interval_bytes: u32 = "loading-process-events-interval-bytes",
        Integer { min: 1024, max: i32::MAX as i64 }, "524288", HIDDEN;
    /// The folder of the dump and of the append-only file's folder, and the server's working directory.
    dir: String = "dir", Directory, "", PROTECTED;

    section "Append-only file",
        "The log of all writes, in the layout of Redis 7: a base file, increments and a manifest in one \
        folder.";

    /// Logs every write to an append-only file, which is loaded at the start in place of the dump. Switched
    /// on while the server runs, it first writes the data that are there, in the background.
    appendonly: bool = "appendonly", Bool, "no", 0;
    /// The stem of the append-only file's names.
    appendfilename: String = "appendfilename", Checked(check_log_file_name), "appendonly.aof",
        IMMUTABLE;
    /// The folder, within `dir`, of the append-only file.
    appenddirname: String = "appenddirname", Checked(check_log_folder_name), "appendonlydir",
        IMMUTABLE;
    /// When the append-only file is forced to the disk: `always` before each reply, `everysec` once a second,
    /// `no` when the system likes. In every mode a reply leaves only after its write is in the file, so that
    /// a killed process loses nothing that was acknowledged.
    appendfsync: AppendFsync = "appendfsync", Choice(AppendFsync::NAMES), "everysec", 0;
    /// Bytes by which the append-only file is lengthened ahead under `appendfsync always`; waiting for the
    /// disk then takes half to a third of the time. At most 64mb; 0 reserves nothing. Mantissa's own
    /// directive.
    aof_reserve_size: u64 = "aof-reserve-size", Memory { min: 0, signed: true }, "1mb", 0;
    /// Does not force the append-only file to the disk while it is rewritten: less waiting for the disk, but
    /// what is written meanwhile can be lost with the power.
    no_appendfsync_on_rewrite: bool = "no-appendfsync-on-rewrite", Bool, "no", 0;
    /// Rewrites the append-only file when it has grown by so many percent since the last rewrite; 0 never
    /// does.
    auto_aof_rewrite_percentage: u32 = "auto-aof-rewrite-percentage", INT, "100", 0;
    /// The size below which the append-only file is not rewritten by itself.
    auto_aof_rewrite_min_size: u64 = "auto-aof-rewrite-min-size", Memory { min: 0, signed: true }, "64mb",
        0;
    /// Starts although the end of the append-only file is missing, with a warning; `no` refuses to start.
    aof_load_truncated: bool = "aof-load-truncated", Bool, "yes", 0;
    /// Begins a rewritten append-only file with a dump, which is smaller and faster to load than commands.
    aof_use_rdb_preamble: bool = "aof-use-rdb-preamble", Bool, "yes", 0;
    /// Notes the time in the append-only file, so that `mantissa check aof --truncate-to-timestamp` can go
    /// back to it.
    aof_timestamp_enabled: bool = "aof-timestamp-enabled", Bool, "no", 0;
    /// Flushes a rewritten append-only file to the disk every few megabytes while it is written.
    aof_rewrite_incremental_fsync: bool = "aof-rewrite-incremental-fsync", Bool, "yes", INERT;
    /// Keeps files of the append-only file that are no longer needed. For tests.
    aof_disable_auto_gc: bool = "aof-disable-auto-gc", Bool, "no", HIDDEN;
    /// The folder, within `dir`, that BACKUP START puts a backup into. It must not hold anything else. A
    /// directive of Redis 8.10.
    backupdirname: String = "backupdirname", Checked(check_backup_folder_name), "backupdir", IMMUTABLE;
    /// Seconds after BACKUP SEAL after which a backup is removed as by BACKUP CLEANUP; 0 keeps it. A
    /// directive of Redis 8.10.
    backup_sealed_ttl: u64 = "backup-sealed-ttl", INT, "0", 0;

    section "Archive",
        "Snapshots by a schedule into an archive that `mantissa archive init` has made, equal data stored \
        once. See [An archive of snapshots](archive.md). Mantissa's own directives.";

    /// The archive: the path of a folder, or a URL such as `file:///backups` or
    /// `s3://backups/redis?region=eu-central-1`. Empty for none.
    archive_url: String = "archive-url", Checked(check_archive_url), "", PROTECTED;
    /// The file with the keys of an encrypted archive. That which `--new-write-key-file` has made suffices.
    archive_key_file: String = "archive-key-file", Text, "", PROTECTED;
    /// When snapshots are made: `every 6h` (or `30s`, `15m`, `1d`), at the multiples of that time since 1970,
    /// or `at 03:00,15:00`, each day; in quotes, since it has a space. Times are UTC. One that was missed,
    /// since the server did not run or had an error, is made as soon as possible. Empty for none but those
    /// that MANTISSA.ARCHIVE NOW asks for.
    archive_schedule: String = "archive-schedule", Checked(check_schedule), "", 0;
    /// Keeps so many of the newest snapshots. Those that none of the rules `archive-keep-` keeps are removed
    /// after each new one. If all are 0, none is removed.
    archive_keep_last: u32 = "archive-keep-last", INT, "0", 0;
    /// Keeps the newest snapshot of each hour, for so many hours that have one.
    archive_keep_hourly: u32 = "archive-keep-hourly", INT, "0", 0;
    /// Keeps the newest snapshot of each day (UTC), for so many days that have one.
    archive_keep_daily: u32 = "archive-keep-daily", INT, "0", 0;
    /// Keeps the newest snapshot of each week, from Monday on, for so many weeks that have one.
    archive_keep_weekly: u32 = "archive-keep-weekly", INT, "0", 0;
    /// Keeps the newest snapshot of each month, for so many months that have one.
    archive_keep_monthly: u32 = "archive-keep-monthly", INT, "0", 0;
    /// Also keeps in the archive all that is written between snapshots, so that `mantissa archive restore
    /// --at` can go back to any second. The first snapshot is made at once.
    archive_log: bool = "archive-log", Bool, "no", 0;
    /// Seconds after which what was written is stored in the archive at the latest. What is younger is lost
    /// to the archive when the server is killed.
    archive_log_interval_s: u32 = "archive-log-interval", Integer { min: 1, max: 3600 }, "60", 0;
    /// Removes what the log in the archive says of the time before so many days; 0 keeps all that follows a
    /// snapshot.
    archive_keep_log_days: u32 = "archive-keep-log", INT, "0", 0;

    section "Shutdown",
        "How the server ends.";

    /// Seconds that a shutdown waits for replicas that lag.
    shutdown_timeout_s: u32 = "shutdown-timeout", INT, "10", 0;
    /// What SIGINT does: `default` saves if save points are set; or any of `save`, `nosave`, `now`, `force`,
    /// as in SHUTDOWN.
    shutdown_on_sigint: ShutdownFlags = "shutdown-on-sigint", Shutdown, "default", MULTI;
    /// What SIGTERM does, with the words of `shutdown-on-sigint`.
    shutdown_on_sigterm: ShutdownFlags = "shutdown-on-sigterm", Shutdown, "default", MULTI;

    section "Clients and rights",
        "Limits for clients, and who may do what.";

    /// The most clients at a time. The limit of open files is raised to match; where the system refuses, the
    /// number is lowered and the log says so.
    maxclients: u32 = "maxclients", Unsigned { min: 1, max: u32::MAX as u64 }, "10000", 0;
    /// The password of the default user; empty asks for none. A fast server answers guesses fast: choose a
    /// long one.
    requirepass: Vec<u8> = "requirepass", Bytes, "", SENSITIVE;
    /// A file of ACL users, read at the start and by ACL LOAD, written by ACL SAVE. It excludes `user` lines.
    aclfile: String = "aclfile", Text, "", IMMUTABLE;
    /// Entries that ACL LOG keeps.
    acllog_max_len: u64 = "acllog-max-len", LONG, "128", 0;
    /// The channels of Pub/Sub that a new ACL user may use: all (`allchannels`) or none (`resetchannels`).
    acl_pubsub_default: AclPubsubDefault = "acl-pubsub-default", Choice(AclPubsubDefault::NAMES),
        "resetchannels", 0;
    /// The longest string in bytes, as an argument and as a value.
    proto_max_bulk_len: u64 = "proto-max-bulk-len", Memory { min: 1 << 20, signed: true }, "512mb", 0;
    /// The most bytes of a request that is not complete, with what is queued in MULTI; beyond it the client
    /// is closed.
    client_query_buffer_limit: u64 = "client-query-buffer-limit", Memory { min: 1 << 20, signed: false },
        "1gb", 0;
    /// Unread replies after which a client is closed, for each class: the class (`normal`, `replica`,
    /// `pubsub`), a hard limit, a soft limit, and the seconds that the soft limit may be exceeded. 0 is no
    /// limit. Here it also stops the growth of a single reply.
    client_output_buffer_limits: [OutputBufferLimit; 3] = "client-output-buffer-limit", OutputLimits,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60", MULTI;
    /// The most memory for all clients, in bytes or in percent of `maxmemory`; 0 is no limit. Beyond it the
    /// largest clients are closed, except those with CLIENT NO-EVICT ON.
    maxmemory_clients: MemoryOrPercent = "maxmemory-clients", MemoryOrPercentage, "0", 0;
    /// Keys remembered for client-side caching; 0 is no limit. Beyond it some are forgotten, with an
    /// invalidation to their clients.
    tracking_table_max_keys: usize = "tracking-table-max-keys", COUNT, "1000000", 0;
    /// Milliseconds after which a running script is called slow: other clients get -BUSY and may use SCRIPT
    /// KILL. 0 has no threshold.
    busy_reply_threshold_ms: u64 = "busy-reply-threshold" | "lua-time-limit", LONG, "5000", 0;
    /// Gives scripts Lua functions that Redis has deprecated.
    lua_enable_deprecated_api: bool = "lua-enable-deprecated-api", Bool, "no", IMMUTABLE | HIDDEN | INERT;
    /// Who may use DEBUG: nobody (`no`), everybody (`yes`), or clients on this machine (`local`).
    enable_debug_command: Permission = "enable-debug-command", Choice(Permission::NAMES), "no", IMMUTABLE;
    /// Who may use MODULE: nobody (`no`), everybody (`yes`), or clients on this machine (`local`). No module
    /// can be loaded here.
    enable_module_command: Permission = "enable-module-command", Choice(Permission::NAMES), "no",
        IMMUTABLE;
    /// Who may change protected directives (`dir`, `dbfilename`) with CONFIG SET: nobody (`no`), everybody
    /// (`yes`), or clients on this machine (`local`).
    enable_protected_configs: Permission = "enable-protected-configs", Choice(Permission::NAMES), "no",
        IMMUTABLE;

    section "Memory",
        "How much memory data may take, what is evicted, and how memory comes back.";

    /// The most memory for data, in bytes; 0 is no limit. What happens at the limit is `maxmemory-policy`.
    maxmemory: u64 = "maxmemory", MEMORY, "0", 0;
    /// What happens when memory is full: `noeviction` refuses writes, `allkeys-` policies evict any key,
    /// `volatile-` policies keys that expire: the least recently used (lru), the least frequently used (lfu),
    /// the least recently modified (lrm, as in Redis 8.6: reading a key does not keep it), random ones, or
    /// those that expire soonest (ttl).
    maxmemory_policy: MaxmemoryPolicy = "maxmemory-policy", Choice(MaxmemoryPolicy::NAMES), "noeviction", 0;
    /// Keys looked at to choose one to evict. More is more exact and slower.
    maxmemory_samples: u32 = "maxmemory-samples", Integer { min: 1, max: 64 }, "5", 0;
    /// How long one command may evict, from 0, not at all, over 10, half a millisecond, to 100, without
    /// limit.
    maxmemory_eviction_tenacity: u32 = "maxmemory-eviction-tenacity", PERCENT, "10", 0;
    /// How slowly the counter of use of the lfu policies grows: with 10 about a million uses fill it.
    lfu_log_factor: u32 = "lfu-log-factor", INT, "10", 0;
    /// Minutes of no use after which the counter of the lfu policies falls by one; 0 lets it never fall.
    lfu_decay_time: u32 = "lfu-decay-time", INT, "1", 0;
    /// How hard expired keys are looked for in the background, from 1 to 10. At 1 that takes up to 25 percent
    /// of a core while many are found; each step adds 2.
    active_expire_effort: u32 = "active-expire-effort", Integer { min: 1, max: 10 }, "1", 0;
    /// Lets commands that come across arbitrary keys (SCAN, RANDOMKEY) delete expired ones also inside
    /// transactions and scripts.
    lazyexpire_nested_arbitrary_keys: bool = "lazyexpire-nested-arbitrary-keys", Bool, "yes", HIDDEN | INERT;
    /// Counts evicted values as freed in the background. What takes long to free always is, whatever this
    /// says.
    lazyfree_lazy_eviction: bool = "lazyfree-lazy-eviction", Bool, "no", 0;
    /// Counts expired values as freed in the background. What takes long to free always is, whatever this
    /// says.
    lazyfree_lazy_expire: bool = "lazyfree-lazy-expire", Bool, "no", 0;
    /// Counts values that commands replace as freed in the background. What takes long to free always is,
    /// whatever this says.
    lazyfree_lazy_server_del: bool = "lazyfree-lazy-server-del", Bool, "no", 0;
    /// Has DEL count as UNLINK. What takes long to free is always freed in the background.
    lazyfree_lazy_user_del: bool = "lazyfree-lazy-user-del", Bool, "no", 0;
    /// Has FLUSHALL, FLUSHDB, SCRIPT FLUSH and FUNCTION FLUSH without an option work as with ASYNC.
    lazyfree_lazy_user_flush: bool = "lazyfree-lazy-user-flush", Bool, "no", 0;
    /// Moves entries together earlier, from `active-defrag-threshold-lower` on, and with more time. Without
    /// it they are moved as well, once enough memory can be gained.
    activedefrag: bool = "activedefrag", Bool, "no", 0;
    /// Wasted bytes below which nothing is moved. Here the percentage decides alone.
    active_defrag_ignore_bytes: u64 = "active-defrag-ignore-bytes", Memory { min: 1, signed: false },
        "100mb", INERT;
    /// Percent of superfluous memory from which on entries are moved, with `activedefrag yes`.
    active_defrag_threshold_lower: u32 = "active-defrag-threshold-lower", Integer { min: 0, max: 1000 },
        "10", 0;
    /// Percent of waste at which the most time is spent. Here `active-defrag-cycle-max` is always spent.
    active_defrag_threshold_upper: u32 = "active-defrag-threshold-upper", Integer { min: 0, max: 1000 },
        "100",
        INERT;
    /// The least percent of a core for moving entries.
    active_defrag_cycle_min: u32 = "active-defrag-cycle-min", Integer { min: 1, max: 99 }, "1", INERT;
    /// The most percent of a core for moving entries, with `activedefrag yes`.
    active_defrag_cycle_max: u32 = "active-defrag-cycle-max", Integer { min: 1, max: 99 }, "25", 0;
    /// Elements of a collection up to which it is moved in one go. Here steps are limited by time.
    active_defrag_max_scan_fields: u64 = "active-defrag-max-scan-fields", Integer { min: 1, max: i64::MAX },
        "1000",
        INERT;
    /// Lets the allocator return memory to the system on its own thread. Here the server's background thread
    /// does.
    jemalloc_bg_thread: bool = "jemalloc-bg-thread", Bool, "yes", INERT;

    section "Values on disk",
        "Where values that are not used go when memory is full, instead of being evicted.";

    /// A folder for values that `maxmemory` leaves no room for; empty keeps all in memory. Keys, expiries and
    /// types stay in memory. What is there belongs to the running server: dumps and the append-only file have
    /// all data.
    tier_dir: String = "tier-dir", Text, "", IMMUTABLE;
    /// The most disk space for values, in bytes. Where that is full, `maxmemory-policy` decides.
    tier_max_size: u64 = "tier-max-size", MEMORY, "16gb", 0;
    /// Values of fewer bytes stay in memory.
    tier_min_bytes: u64 = "tier-min-bytes", MEMORY, "64", 0;
    /// For tests: moves every value to disk at once.
    tier_pressure: bool = "tier-pressure", Bool, "no", HIDDEN;
    /// Threads that read values from disk: as many reads as are under way at once.
    tier_threads: u32 = "tier-threads", Integer { min: 1, max: 256 }, "8", IMMUTABLE;

    section "Encodings",
        "Small collections are packed into one block of memory, up to these numbers of elements and bytes \
        of an element.";

    /// Fields up to which a hash is packed into one block of memory.
    hash_max_listpack_entries: usize = "hash-max-listpack-entries" | "hash-max-ziplist-entries", COUNT,
        "512", 0;
    /// Bytes of a field or value up to which a hash is packed.
    hash_max_listpack_value: usize = "hash-max-listpack-value" | "hash-max-ziplist-value", MEMORY, "64", 0;
    /// The size of a list's nodes: elements if positive; -1 to -5 are 4, 8, 16, 32 and 64 KB.
    list_max_listpack_size: i32 = "list-max-listpack-size" | "list-max-ziplist-size", ANY_INT, "-2", 0;
    /// Nodes at each end of a list that Redis leaves uncompressed. Lists are never compressed here; DEBUG
    /// OBJECT shows the setting.
    list_compress_depth: u32 = "list-compress-depth", INT, "0", INERT;
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
    /// Bytes up to which a HyperLogLog keeps its sparse form; beyond them it takes 12 KB.
    hll_sparse_max_bytes: usize = "hll-sparse-max-bytes", MEMORY, "3000", 0;
    /// Bytes of a stream's node; 0 is no limit.
    stream_node_max_bytes: usize = "stream-node-max-bytes", MEMORY, "4096", 0;
    /// Entries of a stream's node; 0 is no limit.
    stream_node_max_entries: u64 = "stream-node-max-entries", LONG, "100", 0;
    /// Seconds for which a stream knows the entries that producers have sent with IDMP or IDMPAUTO, unless
    /// XCFGSET says otherwise.
    stream_idmp_duration: u32 = "stream-idmp-duration", Integer { min: 1, max: 86_400 }, "100", 0;
    /// The most entries of each producer that a stream knows, unless XCFGSET says otherwise.
    stream_idmp_maxsize: u32 = "stream-idmp-maxsize", Integer { min: 1, max: 10_000 }, "100", 0;
    /// Runs commands on vector sets on one thread. Here they always run on their client's.
    vset_force_single_threaded_execution: bool = "vset-force-single-threaded-execution", Bool, "no", INERT;

    section "Time series",
        "What time series are told that are not told otherwise. What comes of these is logged, so replicas \
        and files do not depend on their own settings.";

    /// Bytes of a chunk, as TS.INFO shows and files have it: a multiple of 8.
    ts_chunk_size_bytes: String = "ts-chunk-size-bytes", Checked(check_chunk_bytes), "4096", 0;
    /// Compactions of series that TS.ADD, TS.INCRBY and TS.DECRBY make: aggregation, length of buckets,
    /// retention and, if need be, alignment, separated by `:`, several ones by `;`. Units are `m` (ms), `s`,
    /// `M` (minutes), `h` and `d`. `max:1M:1h` keeps maxima of minutes in KEY_MAX_60000 for an hour.
    ts_compaction_policy: String = "ts-compaction-policy", Checked(check_compactions), "", 0;
    /// What becomes of a second sample of a time: `block` refuses it.
    ts_duplicate_policy: SeriesPolicy = "ts-duplicate-policy", Choice(SeriesPolicy::NAMES), "block", 0;
    /// How files have the series that `ts-compaction-policy` makes.
    ts_encoding: SeriesEncoding = "ts-encoding", Choice(SeriesEncoding::NAMES), "compressed", 0;
    /// A sample this many milliseconds after the latest one at most is left out of series with the policy
    /// `last`, if its value differs by no more than `ts-ignore-max-val-diff`.
    ts_ignore_max_time_diff: u64 = "ts-ignore-max-time-diff", LONG, "0", 0;
    /// The difference of values up to which `ts-ignore-max-time-diff` holds.
    ts_ignore_max_val_diff: String = "ts-ignore-max-val-diff", Checked(check_difference), "0.0", 0;
    /// Threads of queries for several series. Here the server chooses.
    ts_num_threads: u32 = "ts-num-threads", Unsigned { min: 1, max: 16 }, "3", IMMUTABLE | INERT;
    /// Milliseconds that samples are kept after the latest one; 0 keeps all.
    ts_retention_policy: u64 = "ts-retention-policy", LONG, "0", 0;

    section "Filters",
        "How Bloom and cuckoo filters are made by commands that do not say it. What comes of these is \
        logged, so replicas and files do not depend on their own settings.";

    /// The rate of false positives of Bloom filters that BF.ADD, BF.MADD and BF.INSERT make.
    bf_error_rate: String = "bf-error-rate", Checked(check_error_rate), "0.01", 0;
    /// How many times as large each further part of a Bloom filter is; 0 makes filters that do not grow.
    bf_expansion_factor: u32 = "bf-expansion-factor", Unsigned { min: 0, max: 32_768 }, "2", 0;
    /// The capacity of Bloom filters that BF.ADD, BF.MADD and BF.INSERT make, in items.
    bf_initial_size: u64 = "bf-initial-size", Unsigned { min: 1, max: 1 << 20 }, "100", 0;
    /// Items in a bucket of a cuckoo filter.
    cf_bucket_size: u64 = "cf-bucket-size", Unsigned { min: 1, max: 255 }, "2", 0;
    /// How many times as large each further part of a cuckoo filter is; 0 makes filters that do not grow.
    cf_expansion_factor: u64 = "cf-expansion-factor", Unsigned { min: 0, max: 32_768 }, "1", 0;
    /// The capacity of cuckoo filters that CF.ADD, CF.ADDNX, CF.INSERT and CF.INSERTNX make, in items.
    cf_initial_size: u64 = "cf-initial-size", Unsigned { min: 1, max: 1 << 20 }, "1024", 0;
    /// Parts up to which a cuckoo filter takes further items.
    cf_max_expansions: u64 = "cf-max-expansions", Unsigned { min: 1, max: 65_535 }, "32", 0;
    /// Items that are moved at most to make room for another in a cuckoo filter.
    cf_max_iterations: u64 = "cf-max-iterations", Unsigned { min: 1, max: 65_535 }, "20", 0;

    section "Events and observation",
        "What is published, logged and counted.";

    /// Which changes of keys are published. `K` publishes to channels of keys, `E` to channels of events;
    /// then the classes: `g` generic, `$` strings, `l` lists, `s` sets, `h` hashes, `z` sorted sets, `t`
    /// streams, `x` expired, `e` evicted, `d` modules, `A` all of these; `n` new keys, `m` misses. Empty
    /// publishes nothing. It costs time with every write.
    notify_keyspace_events: u32 = "notify-keyspace-events", Events, "", 0;
    /// Microseconds from which on SLOWLOG keeps a command; 0 keeps all, -1 none.
    slowlog_log_slower_than_us: i64 = "slowlog-log-slower-than", Integer { min: -1, max: i64::MAX },
        "10000", 0;
    /// Commands that SLOWLOG keeps.
    slowlog_max_len: u64 = "slowlog-max-len", LONG, "128", 0;
    /// Arguments that SLOWLOG and COMMANDLOG keep of a command; the last of them tells how many more there
    /// were. A directive of Redis 8.8.
    slowlog_entry_max_argc: u32 = "slowlog-entry-max-argc", Integer { min: 2, max: i32::MAX as i64 },
        "32", HIDDEN;
    /// Bytes that SLOWLOG and COMMANDLOG keep of an argument. A directive of Redis 8.8.
    slowlog_entry_max_string_len: u64 = "slowlog-entry-max-string-len", Integer { min: 1, max: i64::MAX },
        "128", HIDDEN;
    /// Bytes of arguments from which on `COMMANDLOG GET` keeps a command as a `large-request`; 0 keeps all,
    /// -1 none. Valkey's directive.
    commandlog_request_larger_than: i64 = "commandlog-request-larger-than",
        Integer { min: -1, max: i64::MAX }, "1048576", HIDDEN;
    /// Commands with large requests that COMMANDLOG keeps. Valkey's directive.
    commandlog_large_request_max_len: u64 = "commandlog-large-request-max-len", LONG, "128", HIDDEN;
    /// Bytes of a reply from which on `COMMANDLOG GET` keeps a command as a `large-reply`; 0 keeps all, -1
    /// none. Valkey's directive.
    commandlog_reply_larger_than: i64 = "commandlog-reply-larger-than",
        Integer { min: -1, max: i64::MAX }, "1048576", HIDDEN;
    /// Commands with large replies that COMMANDLOG keeps. Valkey's directive.
    commandlog_large_reply_max_len: u64 = "commandlog-large-reply-max-len", LONG, "128", HIDDEN;
    /// Milliseconds from which on LATENCY keeps an event; 0 keeps none.
    latency_monitor_threshold_ms: u64 = "latency-monitor-threshold", LONG, "0", 0;
    /// Keeps a histogram of the run time of each command, for LATENCY HISTOGRAM and INFO latencystats.
    latency_tracking: bool = "latency-tracking", Bool, "yes", 0;
    /// The percentiles of run times that INFO latencystats shows.
    latency_tracking_info_percentiles: Vec<f64> = "latency-tracking-info-percentiles", Percentiles,
        "50 99 99.9", MULTI;

    section "Metrics",
        "Metrics over HTTP at `/metrics` for Prometheus, with `/healthz` and `/readyz`. There is no \
        password and no TLS.";

    /// The port for metrics over HTTP; 0 listens on none. Mantissa's own directive.
    metrics_port: u16 = "metrics-port", PORT, "0", 0;
    /// The addresses to listen on for metrics. Mantissa's own directive.
    metrics_bind: Vec<String> = "metrics-bind", Bind, "127.0.0.1 -::1", MULTI;
    /// Seconds after which an idle connection for metrics is closed. Mantissa's own directive.
    metrics_timeout_s: u32 = "metrics-timeout", ONE_UP, "120", 0;

    section "HTTP",
        "Commands over HTTP and WebSocket: see [HTTP](http.md) and [WebSocket](websocket.md). Clients log in \
        as ACL users, TLS has the settings of `tls-port`.";

    /// The port for HTTP; 0 listens on none. Mantissa's own directive.
    http_port: u16 = "http-port", PORT, "0", 0;
    /// The port for HTTP within TLS; 0 listens on none. Mantissa's own directive.
    http_tls_port: u16 = "http-tls-port", PORT, "0", 0;
    /// The addresses to listen on for HTTP. Mantissa's own directive.
    http_bind: Vec<String> = "http-bind", Bind, "127.0.0.1 -::1", MULTI;
    /// Seconds after which an idle HTTP connection is closed. Mantissa's own directive.
    http_timeout_s: u32 = "http-timeout", ONE_UP, "60", 0;
    /// The most bytes of a request's content over HTTP. Mantissa's own directive.
    http_max_body: usize = "http-max-body", MEMORY, "16mb", 0;
    /// Names by which HTTP clients may address this server, separated by spaces, beside `localhost` and IP
    /// addresses; `*` for any. It keeps pages of other sites from reaching the server by a name of their own
    /// that leads to it. Mantissa's own directive.
    http_allowed_hosts: String = "http-allowed-hosts", Text, "", 0;
    /// Origins such as `https://app.example.com`, separated by spaces, whose pages may use this server over
    /// HTTP; `*` for all. Mantissa's own directive.
    http_allowed_origins: String = "http-allowed-origins", Text, "", 0;
    /// Serves the [console](console.md) at `/` of the HTTP ports. Mantissa's own directive.
    http_console: bool = "http-console", Bool, "yes", 0;
    /// What the console shows in a banner on all of its pages, such as `production`. With a label the console
    /// begins in its read-only mode. Mantissa's own directive.
    http_console_label: String = "http-console-label", Text, "", 0;
    /// The most bytes of a WebSocket frame. Mantissa's own directive.
    websocket_max_frame: usize = "websocket-max-frame", MEMORY, "16mb", 0;
    /// The most bytes of a WebSocket message, all of its frames together. Mantissa's own directive.
    websocket_max_message: usize = "websocket-max-message", MEMORY, "16mb", 0;
    /// Seconds after which a WebSocket client is closed that does not even answer a ping, which is sent after
    /// half of them; 0 is never. Mantissa's own directive.
    websocket_timeout_s: u32 = "websocket-timeout", INT, "120", 0;

    section "Replication",
        "A replica follows its primary over PSYNC: servers of this kind, Redis and Valkey.";

    /// The host and port of the master that this server is a replica of; `no one` is none.
    replicaof: Option<(String, u16)> = "replicaof" | "slaveof", ReplicaOf, "no one",
        IMMUTABLE | MULTI;
    /// The ACL user to log in as at the master.
    masteruser: String = "masteruser", Text, "", SENSITIVE;
    /// The password to log in with at the master.
    masterauth: Vec<u8> = "masterauth", Bytes, "", SENSITIVE;
    /// Answers reads also while the master is not reached.
    replica_serve_stale_data: bool = "replica-serve-stale-data" | "slave-serve-stale-data", Bool, "yes", 0;
    /// Refuses writes of clients to a replica.
    replica_read_only: bool = "replica-read-only" | "slave-read-only", Bool, "yes", 0;
    /// Leaves eviction to the master.
    replica_ignore_maxmemory: bool = "replica-ignore-maxmemory" | "slave-ignore-maxmemory", Bool, "yes", 0;
    /// Goes on although a replica can not write to its disk.
    replica_ignore_disk_write_errors: bool = "replica-ignore-disk-write-errors", Bool, "no", 0;
    /// Frees the old data of a replica in the background while it loads those of its primary. Otherwise they
    /// are freed first, which takes less memory and more time. What `repl-diskless-load swapdb` has replaced
    /// is freed in the background anyway.
    replica_lazy_flush: bool = "replica-lazy-flush" | "slave-lazy-flush", Bool, "no", 0;
    /// The order in which Sentinel promotes replicas: the lowest first; 0 is never.
    replica_priority: u32 = "replica-priority" | "slave-priority", INT, "100", 0;
    /// Lets Sentinel list this replica.
    replica_announced: bool = "replica-announced", Bool, "yes", 0;
    /// The address that a replica tells its master; empty is its real one.
    replica_announce_ip: String = "replica-announce-ip" | "slave-announce-ip", Text, "", 0;
    /// The port that a replica tells its master; 0 is its real one.
    replica_announce_port: u16 = "replica-announce-port" | "slave-announce-port", PORT, "0", 0;
    /// The most bytes of changes that a replica keeps while it loads the data of a primary that sends them
    /// meanwhile, as this server does; 0 takes `client-output-buffer-limit replica`.
    replica_full_sync_buffer_limit: u64 = "replica-full-sync-buffer-limit", Memory { min: 0, signed: true },
        "0", 0;
    /// What a replica does about an error of a replicated command: `ignore`, `panic` or `panic-on-replicas`.
    propagation_error_behavior: PropagationError = "propagation-error-behavior",
        Choice(PropagationError::NAMES),
        "ignore", 0;
    /// Replicas that must be connected for a write to be accepted; 0 asks for none.
    min_replicas_to_write: u32 = "min-replicas-to-write" | "min-slaves-to-write", INT, "0", 0;
    /// Seconds that those replicas may lag.
    min_replicas_max_lag: u32 = "min-replicas-max-lag" | "min-slaves-max-lag", INT, "10", 0;
    /// Bytes of changes kept for a replica that comes back.
    repl_backlog_size: u64 = "repl-backlog-size", Memory { min: 1, signed: true }, "1mb", 0;
    /// Seconds after which the backlog is freed when no replica is there; 0 keeps it.
    repl_backlog_ttl: u64 = "repl-backlog-ttl", LONG, "3600", 0;
    /// Sends the dump to replicas without a file at the master.
    repl_diskless_sync: bool = "repl-diskless-sync", Bool, "yes", 0;
    /// Seconds to wait for more replicas before that dump.
    repl_diskless_sync_delay: u32 = "repl-diskless-sync-delay", INT, "5", 0;
    /// Replicas at which that wait ends early; 0 waits in full.
    repl_diskless_sync_max_replicas: u32 = "repl-diskless-sync-max-replicas", INT, "0", 0;
    /// How a replica takes over its primary's data: `swapdb` loads them beside the old ones, which are served
    /// until the exchange; `disabled`, `on-empty-db` and Valkey's `flush-before-load` receive them into a
    /// file, then remove the old ones and load it. A replica without data needs no file.
    repl_diskless_load: DisklessLoad = "repl-diskless-load", Choice(DisklessLoad::NAMES), "disabled", 0;
    /// Lets the kernel gather packets to replicas: less traffic, more delay. It holds for replicas that
    /// connect from then on.
    repl_disable_tcp_nodelay: bool = "repl-disable-tcp-nodelay", Bool, "no", 0;
    /// Seconds between pings to replicas.
    repl_ping_replica_period: u32 = "repl-ping-replica-period" | "repl-ping-slave-period", ONE_UP, "10",
        0;
    /// Seconds of silence after which master or replica counts as lost.
    repl_timeout: u32 = "repl-timeout", ONE_UP, "60", 0;
    /// Sends the dump of a full synchronisation over a connection of its own.
    repl_rdb_channel: bool = "repl-rdb-channel", Bool, "yes", HIDDEN | INERT;

    section "Cluster",
        "A cluster of several primaries is not implemented yet. Commands of many keys work over any keys of \
        one server, on all its cores. With `cluster-emulated` clients of a cluster can use it.";

    /// Answers clients of a cluster as one of which this server, or its primary, has all slots, with its
    /// replicas as theirs. A replica sends requests with keys to its primary (`-MOVED`), but for reads after
    /// READONLY. Keys of different slots may be used together.
    cluster_emulated: bool = "cluster-emulated", Bool, "no", IMMUTABLE;
    /// Runs as a node of a cluster.
    cluster_enabled: bool = "cluster-enabled", Bool, "no", IMMUTABLE | INERT;
    /// The file in which a node keeps its view of the cluster.
    cluster_config_file: String = "cluster-config-file", Text, "nodes.conf", IMMUTABLE | INERT;
    /// The port of the cluster bus; 0 is `port` plus 10000.
    cluster_port: u16 = "cluster-port", PORT, "0", IMMUTABLE | INERT;
    /// Milliseconds after which a node that does not answer counts as failing.
    cluster_node_timeout: u64 = "cluster-node-timeout", LONG, "15000", INERT;
    /// Milliseconds between pings to nodes. For tests.
    cluster_ping_interval: u64 = "cluster-ping-interval", LONG, "0", HIDDEN | INERT;
    /// How old a replica's data may be for a failover, in multiples of `cluster-node-timeout`; 0 is any age.
    cluster_replica_validity_factor: u32 =
        "cluster-replica-validity-factor" | "cluster-slave-validity-factor", INT, "10", INERT;
    /// Keeps replicas from failing over by themselves.
    cluster_replica_no_failover: bool = "cluster-replica-no-failover" | "cluster-slave-no-failover", Bool,
        "no", INERT;
    /// Replicas that a master keeps when one of its replicas moves to a master without any.
    cluster_migration_barrier: u32 = "cluster-migration-barrier", INT, "1", INERT;
    /// Lets replicas move to masters that have none.
    cluster_allow_replica_migration: bool = "cluster-allow-replica-migration", Bool, "yes", INERT;
    /// Refuses commands while some slots are served by nobody.
    cluster_require_full_coverage: bool = "cluster-require-full-coverage", Bool, "yes", INERT;
    /// Answers reads also while the cluster is down.
    cluster_allow_reads_when_down: bool = "cluster-allow-reads-when-down", Bool, "no", INERT;
    /// Serves sharded Pub/Sub also while the cluster is down.
    cluster_allow_pubsubshard_when_down: bool = "cluster-allow-pubsubshard-when-down", Bool, "yes", INERT;
    /// The most bytes that wait for another node; 0 is no limit.
    cluster_link_sendbuf_limit: u64 = "cluster-link-sendbuf-limit", MEMORY, "0", INERT;
    /// The address told to clients of a cluster and, without `replica-announce-ip`, to the primary; empty is
    /// the real one.
    cluster_announce_ip: String = "cluster-announce-ip", Text, "", 0;
    /// The host name told to clients of a cluster.
    cluster_announce_hostname: String = "cluster-announce-hostname", Checked(check_hostname), "", 0;
    /// The name of the node in logs.
    cluster_announce_human_nodename: String = "cluster-announce-human-nodename", Checked(check_node_name),
        "", INERT;
    /// The port told to clients of a cluster and, without `replica-announce-port`, to the primary; 0 is the
    /// real one.
    cluster_announce_port: u16 = "cluster-announce-port", PORT, "0", 0;
    /// The TLS port told to clients of a cluster; 0 is the real one.
    cluster_announce_tls_port: u16 = "cluster-announce-tls-port", PORT, "0", 0;
    /// The port of the cluster bus told to clients of a cluster; 0 is the port plus 10000. Nobody listens
    /// there.
    cluster_announce_bus_port: u16 = "cluster-announce-bus-port", PORT, "0", 0;
    /// How clients are told of nodes: by `ip`, by `hostname`, or not at all (`unknown-endpoint`).
    cluster_preferred_endpoint_type: EndpointType = "cluster-preferred-endpoint-type",
        Choice(EndpointType::NAMES),
        "ip", 0;
    /// Percent of commands that are checked for use in a cluster.
    cluster_compatibility_sample_ratio: u32 = "cluster-compatibility-sample-ratio", PERCENT, "0", INERT;
    /// Keeps statistics of each slot.
    cluster_slot_stats_enabled: bool = "cluster-slot-stats-enabled", Bool, "no", INERT;
}
