//! The part of the configuration that handlers read.

use mantissa_store::EncodingLimits;
use mantissa_store::stream::ProducerLimits;

use crate::filter_settings::FilterSettings;
use crate::series_settings::SeriesSettings;

/// How the access clock of entries is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessClock {
    /// Seconds of last access (24 bits).
    LeastRecentlyUsed,
    /// Seconds of the last change (24 bits).
    LeastRecentlyModified,
    /// A logarithmic counter with decay, as in Redis's LFU policies.
    LeastFrequentlyUsed {
        /// `lfu-log-factor`.
        log_factor: u32,
        /// `lfu-decay-time`, in minutes.
        decay_minutes: u32,
    },
}

/// The part of the configuration that handlers read.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Thresholds of packed encodings.
    pub limits: EncodingLimits,
    /// `proto-max-bulk-len`: the longest string, in bytes.
    pub string_bytes_max: u64,
    /// `notify-keyspace-events` as bits of [`crate::EventClass`].
    pub notify: u32,
    /// How the access clock is kept.
    pub access_clock: AccessClock,
    /// `hll-sparse-max-bytes`: up to how many bytes a HyperLogLog is sparse.
    pub sparse_hyperloglog_bytes_max: usize,
    /// `rdbcompression`: whether DUMP compresses strings.
    pub compress_dumps: bool,
    /// `lazyfree-lazy-user-del`: DEL counts what it frees in the background, as UNLINK does.
    pub lazy_user_del: bool,
    /// `lazyfree-lazy-user-flush`: the same for flushing.
    pub lazy_user_flush: bool,
    /// `lazyfree-lazy-server-del`: the same for values that commands replace or remove beside their work.
    pub lazy_server_del: bool,
    /// `lazyfree-lazy-expire`: the same for keys that expire.
    pub lazy_expire: bool,
    /// `lazyfree-lazy-eviction`: the same for keys that are evicted.
    pub lazy_eviction: bool,
    /// How long streams know what producers have sent, if these do not say it.
    pub producers: ProducerLimits,
    /// What new time series are told.
    pub series: SeriesSettings,
    /// How filters are made by commands that do not say it.
    pub filters: FilterSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            limits: EncodingLimits::default(),
            string_bytes_max: 512 << 20,
            notify: 0,
            access_clock: AccessClock::LeastRecentlyUsed,
            sparse_hyperloglog_bytes_max: 3000,
            compress_dumps: true,
            lazy_user_del: false,
            lazy_user_flush: false,
            lazy_server_del: false,
            lazy_expire: false,
            lazy_eviction: false,
            producers: ProducerLimits::USUAL,
            series: SeriesSettings::default(),
            filters: FilterSettings::default(),
        }
    }
}
