//! Drawing candidates for eviction from the keyspace.

use mantissa_store::{Database, Entry, Keyspace, Shard, ShardSet};

use super::{Candidate, Policy, Pool};

/// Buckets that are looked at for enough entries.
const BUCKETS_MAX: usize = 64;
/// Parts of a table, of some 200 entries, that are looked at for enough keys with an expiry.
const PARTS_MAX: usize = 16;
/// If at least one in this many keys has an expiry, random entries contain enough of them.
const COMMON: usize = 16;

/// The outcome of [`draw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// Some shard has been looked at, or may have keys to evict.
    Looked,
    /// No shard has any key to evict.
    NothingThere,
}

/// Draws some entries of a random shard into the pool: of the next one that is free and has any to evict.
pub fn draw(keyspace: &Keyspace, policy: Policy, drawer: Drawer<'_>) -> Drawn {
    let Drawer { pool, random_state, now_ms } = drawer;
    let mut draw = Draw { policy, keyspace, pool, random_state, now_ms };
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

/// What a thread draws with.
pub struct Drawer<'a> {
    /// Takes the candidates.
    pub pool: &'a mut Pool,
    /// The state of the random numbers.
    pub random_state: &'a mut u64,
    /// Unix time in ms.
    pub now_ms: i64,
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
                if policy.with_expiry_only && database.with_expiry_len() * COMMON < database.len() {
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

    /// Offers keys with an expiry of parts of the table that have some.
    fn draw_sample(&mut self, number: usize, database: &mut Database) {
        let mut seen = 0;
        for _ in 0..PARTS_MAX {
            let random = self.random();
            let wanted = self.policy.samples - seen;
            database.draw_with_expiry(random, wanted, |entry| seen += usize::from(self.offer(number, entry)));
            if seen >= self.policy.samples {
                break;
            }
        }
    }

    /// Offers an entry to the pool. False if it may not be evicted.
    #[inline]
    fn offer(&mut self, database: usize, entry: &Entry) -> bool {
        let dice = if self.policy.is_random() { self.random() } else { 0 };
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
