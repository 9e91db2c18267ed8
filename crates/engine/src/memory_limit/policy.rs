//! Which keys a policy evicts first.

use mantissa_commands::{decayed_frequency, idle_seconds};
use mantissa_config::{Config, MaxmemoryPolicy};
use mantissa_persist::tier::{COLLECTION_BYTES_MAX, TEXT_BYTES_MAX};
use mantissa_store::{Collection, Database, Entry, ValueRef};

/// The order in which keys are evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Those unused for longest first.
    Recency,
    /// Those used least often first.
    Frequency {
        /// `lfu-decay-time`.
        decay_minutes: u32,
    },
    /// The earliest expiry first.
    Expiry,
    /// Any.
    Random,
}

/// What may be evicted, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    order: Order,
    /// Only keys with an expiry.
    pub with_expiry_only: bool,
    /// Only values that can go to disk and have at least this many bytes, if that is where they go.
    to_disk_bytes_min: Option<usize>,
    /// `maxmemory-samples`.
    pub samples: usize,
}

impl Policy {
    /// The policy of a configuration, `None` if nothing is to be evicted.
    pub fn of(config: &Config) -> Option<Policy> {
        let frequency = Order::Frequency { decay_minutes: config.lfu_decay_time };
        let (order, with_expiry_only) = match config.maxmemory_policy {
            MaxmemoryPolicy::Noeviction => return None,
            MaxmemoryPolicy::AllkeysLru => (Order::Recency, false),
            MaxmemoryPolicy::AllkeysLfu => (frequency, false),
            MaxmemoryPolicy::AllkeysRandom => (Order::Random, false),
            MaxmemoryPolicy::VolatileLru => (Order::Recency, true),
            MaxmemoryPolicy::VolatileLfu => (frequency, true),
            MaxmemoryPolicy::VolatileRandom => (Order::Random, true),
            MaxmemoryPolicy::VolatileTtl => (Order::Expiry, true),
        };
        let samples = config.maxmemory_samples as usize;
        Some(Policy { order, with_expiry_only, to_disk_bytes_min: None, samples })
    }

    /// The order in which values go to disk: the least frequently used first where that is known, else those
    /// unused for longest.
    pub fn to_disk(config: &Config) -> Policy {
        let order = match config.maxmemory_policy {
            MaxmemoryPolicy::AllkeysLfu | MaxmemoryPolicy::VolatileLfu => {
                Order::Frequency { decay_minutes: config.lfu_decay_time }
            }
            _ => Order::Recency,
        };
        Policy {
            order,
            with_expiry_only: false,
            to_disk_bytes_min: Some(config.tier_min_bytes as usize),
            samples: config.maxmemory_samples as usize,
        }
    }

    /// Whether a policy needs a sample of the keys with an expiry.
    pub fn needs_expiry_sample(config: &Config) -> bool {
        config.maxmemory > 0 && Policy::of(config).is_some_and(|policy| policy.with_expiry_only)
    }

    /// An entry's place in the order: the lowest goes first. `None` if it may not be evicted.
    #[inline]
    pub fn rank(self, entry: &Entry, now_ms: i64, dice: u64) -> Option<i64> {
        let expiry = entry.expiry();
        if self.with_expiry_only && expiry.is_none() {
            return None;
        }
        if self.to_disk_bytes_min.is_some_and(|bytes_min| !may_go_to_disk(entry, bytes_min)) {
            return None;
        }
        Some(match self.order {
            Order::Recency => now_ms / 1000 - i64::from(idle_seconds(entry.clock(), now_ms)),
            Order::Frequency { decay_minutes } => {
                let clock = entry.clock();
                let idle_minutes = ((now_ms / 60_000) as u32).wrapping_sub(clock >> 8) & 0xFFFF;
                i64::from(decayed_frequency(clock, now_ms, decay_minutes)) << 16
                    | i64::from(0xFFFF - idle_minutes)
            }
            Order::Expiry => expiry.unwrap_or(i64::MAX),
            Order::Random => (dice >> 1) as i64,
        })
    }

    /// Whether a candidate that was drawn with this rank has not been used since.
    pub fn is_unchanged(self, entry: &Entry, now_ms: i64, rank: i64) -> bool {
        match self.rank(entry, now_ms, 0) {
            None => false,
            Some(now) => self.order == Order::Random || now <= rank,
        }
    }

    /// How many keys of a database may be evicted.
    pub fn eligible(self, database: &Database) -> usize {
        if self.with_expiry_only { database.with_expiry_len() } else { database.len() }
    }

    /// Whether the order is random, so that a rank needs a random number.
    #[inline]
    pub fn is_random(self) -> bool {
        self.order == Order::Random
    }
}

/// Parts of a value whose bytes are counted: for lists and some others that takes time for each part.
const PARTS_MAX: usize = 1 << 12;

/// Whether memory is gained by having an entry's value on disk.
fn may_go_to_disk(entry: &Entry, bytes_min: usize) -> bool {
    if entry.is_cold() {
        return entry.is_in_memory();
    }
    let (bytes, bytes_max) = match entry.string_len() {
        Some(len) => (len, TEXT_BYTES_MAX),
        None if has_many_parts(entry.value()) => return false,
        None => (entry.memory_usage(), COLLECTION_BYTES_MAX),
    };
    let gains = || bytes >= bytes_min.max(1) + entry.bytes_kept_on_disk();
    (bytes_min.max(1)..=bytes_max).contains(&bytes) && gains() && entry.cold_facts().is_some()
}

/// Whether a value has too many nodes to count their bytes each time that it is drawn.
fn has_many_parts(value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::List(list) => list.redis_free_effort(PARTS_MAX) > PARTS_MAX,
        ValueRef::Stream(stream) => stream.free_effort() > PARTS_MAX,
        ValueRef::Series(series) => series.free_effort() > 2 * PARTS_MAX,
        // So many take more than a collection that goes to disk may.
        ValueRef::VectorSet(set) => set.len() > COLLECTION_BYTES_MAX / 64,
        _ => false,
    }
}
