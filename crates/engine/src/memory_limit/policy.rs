//! Which keys a policy evicts first.

use mantissa_commands::{FREQUENCY_INITIAL, decayed_frequency, idle_seconds};
use mantissa_config::{Config, MaxmemoryPolicy};
use mantissa_persist::tier::TEXT_BYTES_MAX;
use mantissa_store::cold::RECORD_BYTES_MAX;
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
    /// Only keys whose value is in memory.
    in_memory_only: bool,
    /// Only values that can go to disk and have so many bytes, if that is where they go.
    to_disk: Option<ToDisk>,
    /// `maxmemory-samples`.
    pub samples: usize,
}

/// Which values go to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ToDisk {
    /// Bytes that they have at least.
    bytes_min: usize,
    /// Bytes in memory that they have at most.
    bytes_max: usize,
    /// Only those that are there already and in memory too: nothing else has room.
    copies_only: bool,
}

impl Policy {
    /// The policy of a configuration, `None` if nothing is to be evicted.
    pub fn of(config: &Config) -> Option<Policy> {
        let frequency = Order::Frequency { decay_minutes: config.lfu_decay_time };
        let (order, with_expiry_only) = match config.maxmemory_policy {
            MaxmemoryPolicy::Noeviction => return None,
            MaxmemoryPolicy::AllkeysLru | MaxmemoryPolicy::AllkeysLrm => (Order::Recency, false),
            MaxmemoryPolicy::AllkeysLfu => (frequency, false),
            MaxmemoryPolicy::AllkeysRandom => (Order::Random, false),
            MaxmemoryPolicy::VolatileLru | MaxmemoryPolicy::VolatileLrm => (Order::Recency, true),
            MaxmemoryPolicy::VolatileLfu => (frequency, true),
            MaxmemoryPolicy::VolatileRandom => (Order::Random, true),
            MaxmemoryPolicy::VolatileTtl => (Order::Expiry, true),
        };
        let samples = config.maxmemory_samples as usize;
        Some(Policy { order, with_expiry_only, in_memory_only: false, to_disk: None, samples })
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
            in_memory_only: false,
            to_disk: Some(ToDisk {
                bytes_min: config.tier_min_bytes as usize,
                bytes_max: large_bytes_max(config.maxmemory),
                copies_only: false,
            }),
            samples: config.maxmemory_samples as usize,
        }
    }

    /// The same for a file that takes no more: only what is on disk and in memory leaves memory.
    pub fn copies_only(self) -> Policy {
        let to_disk = self.to_disk.map(|bounds| ToDisk { copies_only: true, ..bounds });
        Policy { to_disk, ..self }
    }

    /// The same for keys whose value is in memory: evicting one whose value is on disk frees little.
    pub fn in_memory_only(self) -> Policy {
        Policy { in_memory_only: true, ..self }
    }

    /// Whether the order is one of expiries, which values on disk are not in.
    pub fn is_by_expiry(self) -> bool {
        self.order == Order::Expiry
    }

    /// An entry's place in the order: the lowest goes first. `None` if it may not be evicted.
    #[inline]
    pub fn rank(self, entry: &Entry, now_ms: i64, dice: u64) -> Option<i64> {
        let expiry = entry.expiry();
        if self.with_expiry_only && expiry.is_none() {
            return None;
        }
        if self.in_memory_only && !entry.is_in_memory() {
            return None;
        }
        if self.to_disk.is_some_and(|bounds| !bounds.has(entry)) {
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

    /// Whether a key has been used within so many seconds, or often, as far as the order asks for that.
    pub fn is_in_use(self, entry: &Entry, now_ms: i64, seconds: u64) -> bool {
        match self.order {
            Order::Recency => u64::from(idle_seconds(entry.clock(), now_ms)) < seconds,
            Order::Frequency { decay_minutes } => {
                decayed_frequency(entry.clock(), now_ms, decay_minutes) > FREQUENCY_INITIAL
            }
            Order::Expiry | Order::Random => false,
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

/// The share of `maxmemory` that a value on disk takes at most when it is read: more would push out too much.
const LARGE_PART: u64 = 4;
/// Bytes of a value that may always go.
const LARGE_BYTES_MIN: usize = TEXT_BYTES_MAX;

/// Bytes in memory of the largest value that goes to disk.
fn large_bytes_max(maxmemory: u64) -> usize {
    let part = if maxmemory == 0 { usize::MAX } else { (maxmemory / LARGE_PART) as usize };
    part.clamp(LARGE_BYTES_MIN, RECORD_BYTES_MAX)
}

/// Parts of a value whose bytes are counted: for lists and some others that takes time for each part.
const PARTS_MAX: usize = 1 << 12;

impl ToDisk {
    /// Whether memory is gained by having an entry's value on disk. Of one with many parts it is not known
    /// how large it is: see [`Policy::takes`].
    fn has(self, entry: &Entry) -> bool {
        if entry.is_cold() {
            return entry.is_in_memory();
        }
        if self.copies_only {
            return false;
        }
        let least = self.bytes_min.max(1);
        let is_wanted = match quick_bytes(entry) {
            Some(bytes) => {
                (least..=self.bytes_max).contains(&bytes) && bytes >= least + entry.bytes_kept_on_disk()
            }
            None => true,
        };
        is_wanted && entry.cold_facts().is_some()
    }
}

impl Policy {
    /// Whether a value of so many bytes in memory may go to disk.
    pub fn takes(self, bytes: usize) -> bool {
        self.to_disk.is_none_or(|bounds| bytes <= bounds.bytes_max)
    }
}

/// The bytes of a string, or those in memory of a collection. `None` if it has too many parts to count their
/// bytes each time that it is drawn.
pub fn quick_bytes(entry: &Entry) -> Option<usize> {
    match entry.string_len() {
        Some(len) => Some(len),
        None => (!has_many_parts(entry.value())).then(|| entry.memory_usage()),
    }
}

fn has_many_parts(value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::List(list) => list.len() > PARTS_MAX,
        ValueRef::Stream(stream) => stream.free_effort() > PARTS_MAX,
        ValueRef::Series(series) => series.free_effort() > 2 * PARTS_MAX,
        ValueRef::VectorSet(set) => set.len() > 32 * PARTS_MAX,
        ValueRef::Array(array) => array.count() > 32 * PARTS_MAX as u64,
        ValueRef::Json(document) => document.free_effort() > PARTS_MAX,
        ValueRef::BloomFilter(filter) => filter.free_effort() > PARTS_MAX,
        ValueRef::CuckooFilter(filter) => filter.free_effort() > PARTS_MAX,
        ValueRef::CountMinSketch(sketch) => sketch.free_effort() > PARTS_MAX,
        ValueRef::TopK(sketch) => sketch.free_effort() > PARTS_MAX,
        _ => false,
    }
}
