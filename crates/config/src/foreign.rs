//! What the configuration files of Valkey, of later versions of Redis and of Redis with modules say, and what
//! that is here.

/// Valkey's names of directives. CONFIG GET and CONFIG SET know them, patterns do not show them.
pub(super) const NAMES: [(&str, &str); 4] = [
    ("primaryauth", "masterauth"),
    ("primaryuser", "masteruser"),
    ("commandlog-execution-slower-than", "slowlog-log-slower-than"),
    ("commandlog-slow-execution-max-len", "slowlog-max-len"),
];

/// Directives that do nothing here, with their defaults. A file may have them.
const WITHOUT_EFFECT: [(&str, &str); 41] = [
    // Valkey 9.1
    ("active-defrag-cycle-us", "500"),
    ("availability-zone", ""),
    ("cluster-announce-client-ipv4", ""),
    ("cluster-announce-client-ipv6", ""),
    ("cluster-announce-client-port", "0"),
    ("cluster-announce-client-tls-port", "0"),
    ("cluster-blacklist-ttl", "60"),
    ("cluster-config-save-behavior", "sync"),
    ("cluster-databases", "1"),
    ("cluster-manual-failover-timeout", "5000"),
    ("cluster-slot-migration-log-max-len", "1000"),
    ("debug-context", ""),
    ("dual-channel-replication-enabled", "no"),
    ("enable-debug-assert", "no"),
    ("events-per-io-thread", "2"),
    ("extended-redis-compatibility", "no"),
    ("hash-seed", ""),
    ("import-mode", "no"),
    ("io-threads-always-active", "no"),
    ("log-format", "legacy"),
    ("log-timestamp-format", "legacy"),
    ("lua-enable-insecure-api", "no"),
    ("min-io-threads-avoid-copy-reply", "7"),
    ("min-string-size-avoid-copy-reply", "16384"),
    ("min-string-size-avoid-copy-reply-threaded", "65536"),
    ("mptcp", "no"),
    ("prefetch-batch-max-size", "16"),
    ("rdb-version-check", "strict"),
    ("rdma-bind", ""),
    ("rdma-completion-vector", "-1"),
    ("rdma-port", "0"),
    ("rdma-rx-size", "1048576"),
    ("repl-mptcp", "no"),
    ("slot-migration-max-failover-repl-bytes", "0"),
    ("tls-auth-clients-user", "off"),
    ("tls-auto-reload-interval", "0"),
    ("unixsocketgroup", ""),
    // Redis 8.4 to 8.10
    ("aof-load-corrupt-tail-max-size", "0"),
    ("key-memory-histograms", "no"),
    ("lookahead", "16"),
    ("repl-compression", "0"),
];

/// The default of a directive that does nothing here; none for other names.
pub(super) fn default_without_effect(name: &[u8]) -> Option<&'static str> {
    WITHOUT_EFFECT.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, default)| *default)
}

/// A module of Redis whose types and commands are built in.
#[derive(Debug)]
pub(super) struct Module {
    /// The names of its file.
    files: &'static [&'static str],
    /// Its arguments, each of which a value follows, and the directives that they stand for.
    arguments: &'static [(&'static str, &'static str)],
    /// It refuses other arguments, and takes the last of those that are given twice; or it takes the first.
    is_strict: bool,
}

const BUILT_IN: [Module; 3] = [
    Module { files: &["rejson.so", "librejson.so"], arguments: &[], is_strict: false },
    Module {
        files: &["redistimeseries.so"],
        arguments: &[
            ("CHUNK_SIZE_BYTES", "ts-chunk-size-bytes"),
            ("COMPACTION_POLICY", "ts-compaction-policy"),
            ("DUPLICATE_POLICY", "ts-duplicate-policy"),
            ("ENCODING", "ts-encoding"),
            ("IGNORE_MAX_TIME_DIFF", "ts-ignore-max-time-diff"),
            ("IGNORE_MAX_VAL_DIFF", "ts-ignore-max-val-diff"),
            ("NUM_THREADS", "ts-num-threads"),
            ("RETENTION_POLICY", "ts-retention-policy"),
        ],
        is_strict: false,
    },
    Module {
        files: &["redisbloom.so", "rebloom.so"],
        arguments: &[
            ("ERROR_RATE", "bf-error-rate"),
            ("INITIAL_SIZE", "bf-initial-size"),
            ("CF_MAX_EXPANSIONS", "cf-max-expansions"),
        ],
        is_strict: true,
    },
];

/// The module that the file at a path has, if it is built in.
pub(super) fn built_in(path: &[u8]) -> Option<&'static Module> {
    let file = path.rsplit(|&byte| byte == b'/').next()?;
    BUILT_IN.iter().find(|module| module.files.iter().any(|name| name.as_bytes() == file))
}

impl Module {
    /// The directives that these arguments stand for, with their values, in their order, and the words that
    /// mean nothing to it. The error is a word that the module refuses.
    pub fn settings<'a>(&self, words: &'a [Vec<u8>]) -> Result<Settings<'a>, &'a [u8]> {
        let mut settings = Settings::default();
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let known = self.arguments.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(word));
            at += 1;
            match (known, words.get(at)) {
                (Some((_, directive)), Some(value)) => {
                    at += 1;
                    let is_first = settings.given.iter().all(|(other, _)| other != directive);
                    if self.is_strict || is_first {
                        settings.given.push((directive, value));
                    }
                }
                _ if self.is_strict => return Err(word),
                _ => settings.without_effect.push(word),
            }
        }
        Ok(settings)
    }
}

/// What the arguments of a module come to.
#[derive(Default)]
pub(super) struct Settings<'a> {
    pub given: Vec<(&'static str, &'a Vec<u8>)>,
    pub without_effect: Vec<&'a [u8]>,
}
