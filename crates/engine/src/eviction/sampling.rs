//! Which keys a policy evicts first, and drawing candidates from the keyspace.

use mantissa_commands::{decayed_frequency, idle_seconds};
use mantissa_store::{Database, Entry, KeyHash, Keyspace, Shard, ShardSet};

use super::pool::{Candidate, Pool};
use crate::context::Context;
use mantissa_config::{Config, MaxmemoryPolicy};

/// Buckets that are looked at for enough entries.
const BUCKETS_MAX: usize = 64;
/// Entries that one step of a walk for keys with an expiry looks at.
const WALK_ENTRIES: usize = 1_000;
/// Where at least one in this many keys expires, random entries bring up enough of them.
const COMMON: usize = 16;

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
    /// Those that expire soonest first.
    Expiry,
    /// Any.
    Random,
}

/// What may be evicted, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    order: Order,
    /// Only keys with an expiry.
    volatile_only: bool,
    /// `maxmemory-samples`.
    samples: usize,
}

impl Policy {
    /// The policy of a configuration, `None` if nothing is to be evicted.
    pub fn of(config: &Config) -> Option<Policy> {
        let frequency = Order::Frequency { decay_minutes: config.lfu_decay_time };
        let (order, volatile_only) = match config.maxmemory_policy {
            MaxmemoryPolicy::Noeviction => return None,
            MaxmemoryPolicy::AllkeysLru => (Order::Recency, false),
            MaxmemoryPolicy::AllkeysLfu => (frequency, false),
            MaxmemoryPolicy::AllkeysRandom => (Order::Random, false),
            MaxmemoryPolicy::VolatileLru => (Order::Recency, true),
            MaxmemoryPolicy::VolatileLfu => (frequency, true),
            MaxmemoryPolicy::VolatileRandom => (Order::Random, true),
            MaxmemoryPolicy::VolatileTtl => (Order::Expiry, true),
        };
        Some(Policy { order, volatile_only, samples: config.maxmemory_samples as usize })
    }

    /// Whether a policy needs keys with an expiry to be known.
    pub fn needs_volatile(config: &Config) -> bool {
        config.maxmemory > 0 && Policy::of(config).is_some_and(|policy| policy.volatile_only)
    }

    /// An entry's place in the order: the lowest goes first. `None` if it may not be evicted.
    #[inline]
    fn rank(self, entry: &Entry, now_ms: i64, dice: u64) -> Option<i64> {
        let expiry = entry.expiry();
        if self.volatile_only && expiry.is_none() {
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

    /// Whether a candidate drawn with this rank still deserves it.
    pub fn still_stands(self, entry: &Entry, now_ms: i64, rank: i64) -> bool {
        match self.rank(entry, now_ms, 0) {
            None => false,
            Some(now) => self.order == Order::Random || now <= rank,
        }
    }

    /// How many keys of a database may be evicted.
    fn eligible(self, database: &Database) -> usize {
        if self.volatile_only { database.expiring_len() } else { database.len() }
    }
}

/// What drawing came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// Some shard has been looked at, or may have keys to evict.
    Looked,
    /// No shard has any key to evict.
    NothingThere,
}

/// Draws some entries of a random shard into the pool: of the next one that is free and has any to evict.
pub fn draw(context: &mut Context, policy: Policy) -> Drawn {
    let keyspace = &context.engine.keyspace;
    let mut draw = Draw {
        policy,
        keyspace,
        pool: &mut context.evictor.pool,
        random_state: &mut context.random_state,
        now_ms: context.now_ms,
    };
    let count = keyspace.shard_count();
    let first = draw.random() as usize % count;
    let mut drawn = Drawn::NothingThere;
    for index in (first..first + count).map(|index| index % count) {
        let Ok(mut locked) = keyspace.try_lock(ShardSet::one(index)) else {
            drawn = Drawn::Looked;
            continue;
        };
        if locked.shard_mut(index).is_some_and(|shard| draw.draw_shard(shard)) {
            return Drawn::Looked;
        }
    }
    drawn
}

struct Draw<'a> {
    policy: Policy,
    keyspace: &'a Keyspace,
    pool: &'a mut Pool,
    random_state: &'a mut u64,
    now_ms: i64,
}

impl Draw<'_> {
    /// Draws from one of the databases, each as likely as it has keys. False if there are none.
    fn draw_shard(&mut self, shard: &mut Shard) -> bool {
        let policy = self.policy;
        let total: usize = shard.databases.iter().map(|database| policy.eligible(database)).sum();
        if total == 0 {
            return false;
        }
        let mut wanted = self.random() as usize % total;
        for (number, database) in shard.databases.iter_mut().enumerate() {
            let eligible = policy.eligible(database);
            if wanted < eligible {
                if policy.volatile_only && database.expiring_len() * COMMON < database.len() {
                    self.draw_sample(number, database);
                } else {
                    self.draw_buckets(number, database);
                }
                return true;
            }
            wanted -= eligible;
        }
        false
    }

    /// Offers the entries of random buckets.
    fn draw_buckets(&mut self, number: usize, database: &Database) {
        let mut seen = 0;
        for _ in 0..BUCKETS_MAX {
            let bucket = self.random();
            database.sample(bucket, |entry| seen += usize::from(self.offer(number, entry)));
            if seen >= self.policy.samples {
                break;
            }
        }
    }

    /// Offers keys with an expiry that are known; where none is, those that the next step of a walk comes
    /// across.
    fn draw_sample(&mut self, number: usize, database: &mut Database) {
        database.sample_volatile(true);
        let mut seen = 0;
        for _ in 0..2 * self.policy.samples {
            let random = self.random();
            let Some(hash) = database.pick_volatile(random) else { continue };
            if let Some(entry) = database.get_hashed(hash) {
                seen += usize::from(self.offer(number, entry));
            }
        }
        if seen == 0 {
            self.walk(number, database);
        }
    }

    fn walk(&mut self, number: usize, database: &mut Database) {
        let mut found: Vec<KeyHash> = Vec::new();
        let mut visited = 0;
        while visited < WALK_ENTRIES {
            database.evict_cursor = database.scan(database.evict_cursor, |entry| {
                visited += 1;
                if entry.expiry().is_some() {
                    self.offer(number, entry);
                    found.push(self.keyspace.hash(entry.key()));
                }
            });
            if database.evict_cursor == 0 {
                break;
            }
        }
        found.into_iter().for_each(|hash| database.note_volatile(hash));
    }

    /// Offers an entry to the pool. False if it may not be evicted.
    #[inline]
    fn offer(&mut self, database: usize, entry: &Entry) -> bool {
        let dice = if self.policy.order == Order::Random { self.random() } else { 0 };
        let Some(rank) = self.policy.rank(entry, self.now_ms, dice) else { return false };
        if self.pool.would_keep(rank) {
            let hash = self.keyspace.hash(entry.key());
            self.pool.offer(Candidate { rank, hash, database });
        }
        true
    }

    /// The next random number (xorshift64*, of Sebastiano Vigna).
    #[inline]
    fn random(&mut self) -> u64 {
        let mut state = (*self.random_state).max(1);
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        *self.random_state = state;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}
