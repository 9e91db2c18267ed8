//! The configuration in force, with what is derived from it.

use mantissa_commands::{
    AccessClock, BloomMaking, CuckooMaking, FilterSettings, SeriesSettings, Settings, parse,
    parse_compactions,
};
use mantissa_store::EncodingLimits;
use mantissa_store::series::{DuplicatePolicy, expect_links};
use mantissa_store::stream::ProducerLimits;

use mantissa_config::{Config, MaxmemoryPolicy, SeriesEncoding, SeriesPolicy};

/// One state of the configuration. Never changed: CONFIG SET puts a new one in its place.
#[derive(Clone)]
pub struct ActiveConfig {
    /// Grows with every change.
    pub version: u64,
    /// All directives.
    pub config: Config,
    /// The part that handlers of data read.
    pub settings: Settings,
}

impl ActiveConfig {
    /// Derives the rest from the configuration.
    pub fn new(version: u64, config: Config) -> Self {
        let settings = settings(&config);
        ActiveConfig { version, config, settings }
    }

    /// Whether a command that flushes leaves the freeing to the background: by its mode, ASYNC or SYNC, if it
    /// gives one.
    pub fn flushes_lazily(&self, mode: Option<&[u8]>) -> bool {
        mode.map_or(self.config.lazyfree_lazy_user_flush, |mode| parse::is(mode, "ASYNC"))
    }
}

fn settings(config: &Config) -> Settings {
    let access_clock = match config.maxmemory_policy {
        MaxmemoryPolicy::AllkeysLfu | MaxmemoryPolicy::VolatileLfu => AccessClock::LeastFrequentlyUsed {
            log_factor: config.lfu_log_factor,
            decay_minutes: config.lfu_decay_time,
        },
        MaxmemoryPolicy::AllkeysLrm | MaxmemoryPolicy::VolatileLrm => AccessClock::LeastRecentlyModified,
        _ => AccessClock::LeastRecentlyUsed,
    };
    let limits = EncodingLimits {
        hash_entries_max: config.hash_max_listpack_entries,
        hash_value_bytes_max: config.hash_max_listpack_value,
        list_node_size: i64::from(config.list_max_listpack_size),
        list_compress_depth: config.list_compress_depth,
        set_intset_entries_max: config.set_max_intset_entries,
        set_listpack_entries_max: config.set_max_listpack_entries,
        set_listpack_value_bytes_max: config.set_max_listpack_value,
        sorted_set_entries_max: config.zset_max_listpack_entries,
        sorted_set_value_bytes_max: config.zset_max_listpack_value,
        stream_node_bytes_max: config.stream_node_max_bytes,
        stream_node_entries_max: usize::try_from(config.stream_node_max_entries).unwrap_or(usize::MAX),
    };
    Settings {
        limits,
        string_bytes_max: config.proto_max_bulk_len,
        notify: config.notify_keyspace_events,
        access_clock,
        sparse_hyperloglog_bytes_max: config.hll_sparse_max_bytes,
        compress_dumps: config.rdbcompression,
        lazy_user_del: config.lazyfree_lazy_user_del,
        lazy_user_flush: config.lazyfree_lazy_user_flush,
        lazy_server_del: config.lazyfree_lazy_server_del,
        lazy_expire: config.lazyfree_lazy_expire,
        lazy_eviction: config.lazyfree_lazy_eviction,
        producers: ProducerLimits {
            duration_s: config.stream_idmp_duration,
            names_max: config.stream_idmp_maxsize,
        },
        series: series_settings(config),
        filters: filter_settings(config),
    }
}

/// The texts have been checked when they were set.
fn filter_settings(config: &Config) -> FilterSettings {
    let bloom = BloomMaking {
        capacity: config.bf_initial_size.cast_signed(),
        error: config.bf_error_rate.parse().unwrap_or(BloomMaking::DEFAULT.error),
        ..BloomMaking::DEFAULT
    };
    FilterSettings {
        bloom: match config.bf_expansion_factor {
            0 => BloomMaking { is_fixed: true, ..bloom },
            expansion => BloomMaking { expansion: i64::from(expansion), ..bloom },
        },
        cuckoo: CuckooMaking {
            // A filter has two buckets at least.
            capacity: config.cf_initial_size.max(2 * config.cf_bucket_size).cast_signed(),
            bucket_size: config.cf_bucket_size.cast_signed(),
            steps: config.cf_max_iterations.cast_signed(),
            growth: config.cf_expansion_factor.cast_signed(),
        },
        cuckoo_parts_max: config.cf_max_expansions as usize,
    }
}

/// The texts have been checked when they were set.
fn series_settings(config: &Config) -> SeriesSettings {
    let compactions = parse_compactions(&config.ts_compaction_policy).unwrap_or_default();
    if !compactions.is_empty() {
        expect_links();
    }
    SeriesSettings {
        retention_ms: config.ts_retention_policy,
        chunk_bytes: config.ts_chunk_size_bytes.parse().unwrap_or(SeriesSettings::NONE.chunk_bytes),
        is_compressed: config.ts_encoding == SeriesEncoding::Compressed,
        policy: match config.ts_duplicate_policy {
            SeriesPolicy::Block => DuplicatePolicy::Block,
            SeriesPolicy::Last => DuplicatePolicy::Last,
            SeriesPolicy::First => DuplicatePolicy::First,
            SeriesPolicy::Min => DuplicatePolicy::Min,
            SeriesPolicy::Max => DuplicatePolicy::Max,
            SeriesPolicy::Sum => DuplicatePolicy::Sum,
        },
        ignore_time_ms: config.ts_ignore_max_time_diff,
        ignore_value: config.ts_ignore_max_val_diff.parse().unwrap_or_default(),
        compactions,
    }
}
