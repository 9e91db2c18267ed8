//! Sums over all clients and over all shards.

use std::sync::atomic::Ordering;

use mantissa_store::{Shard, ShardSet};

use crate::engine::Engine;
use crate::invocation::Invocation;
use crate::session::flag;

/// Sums over all clients.
#[derive(Default)]
pub struct ClientTotals {
    /// Connected, but for replicas.
    pub connected: usize,
    /// Waiting in a blocking command, or because of CLIENT PAUSE.
    pub blocked: usize,
    /// Subscribed to something.
    pub pubsub: usize,
    /// With watched keys.
    pub watching: usize,
    /// The most bytes of an unfinished request.
    pub input_bytes_max: u64,
    /// The most bytes that a client has left unread.
    pub output_bytes_max: u64,
    /// Clients of each worker.
    pub per_worker: Vec<usize>,
}

impl ClientTotals {
    /// Looks at every client.
    pub fn collect(engine: &Engine) -> ClientTotals {
        let mut totals =
            ClientTotals { per_worker: vec![0; engine.worker_count()], ..ClientTotals::default() };
        let clients = engine.clients.read();
        for session in clients.values() {
            totals.connected += usize::from(!session.has(flag::REPLICA));
            totals.blocked += usize::from(session.has(flag::BLOCKED));
            totals.pubsub += usize::from(session.has(flag::PUBSUB));
            totals.watching += usize::from(session.watched_count.load(Ordering::Relaxed) > 0);
            let (input, output) = (&session.query_bytes, &session.output_bytes);
            totals.input_bytes_max = totals.input_bytes_max.max(input.load(Ordering::Relaxed));
            totals.output_bytes_max = totals.output_bytes_max.max(output.load(Ordering::Relaxed));
            let worker = session.target.lock().worker;
            if let Some(count) = totals.per_worker.get_mut(worker) {
                *count += 1;
            }
        }
        totals
    }
}

/// Keys with an expiry of a database of a shard that are looked at to estimate the time that keys have left.
const SAMPLES_PER_SHARD: usize = 8;

/// Sums over all shards of one database.
#[derive(Clone, Default)]
pub struct DatabaseTotals {
    /// Keys.
    pub keys: usize,
    /// Keys with an expiry.
    pub expires: usize,
    /// Hashes with fields that expire.
    pub hashes_with_expiry: usize,
    /// Bytes of the tables, without the entries.
    pub table_bytes: usize,
    ttl_sum_ms: i64,
    ttl_samples: i64,
}

impl DatabaseTotals {
    /// How long keys with an expiry have left on average, in ms: an estimate from some of them.
    pub fn average_ttl_ms(&self) -> i64 {
        self.ttl_sum_ms / self.ttl_samples.max(1)
    }
}

/// Sums over all shards.
#[derive(Clone, Default)]
pub struct KeyspaceTotals {
    /// Per database.
    pub databases: Vec<DatabaseTotals>,
    /// Keys that are watched.
    pub watched_keys: usize,
    /// Keys that blocked clients wait for.
    pub awaited_keys: usize,
}

impl KeyspaceTotals {
    /// Looks at every shard, one at a time.
    pub fn collect(invocation: &mut Invocation<'_, '_, '_>) -> KeyspaceTotals {
        let engine = invocation.engine();
        let now_ms = invocation.context.now_ms;
        let count = engine.keyspace.database_count();
        let mut totals =
            KeyspaceTotals { databases: vec![DatabaseTotals::default(); count], ..KeyspaceTotals::default() };
        let mut state = invocation.context.random_state;
        invocation.with_access(ShardSet::EMPTY, |access| {
            for index in 0..access.shard_count() {
                access.visit_shard(index, |shard| totals.add(shard, now_ms, &mut state));
            }
        });
        totals
    }

    /// Of one shard.
    pub fn of_shard(shard: &Shard, now_ms: i64, random_state: &mut u64) -> KeyspaceTotals {
        let databases = vec![DatabaseTotals::default(); shard.databases.len()];
        let mut totals = KeyspaceTotals { databases, ..KeyspaceTotals::default() };
        totals.add(shard, now_ms, random_state);
        totals
    }

    /// Adds the sums over other shards.
    pub fn merge(&mut self, other: &KeyspaceTotals) {
        self.watched_keys += other.watched_keys;
        self.awaited_keys += other.awaited_keys;
        if self.databases.len() < other.databases.len() {
            self.databases.resize_with(other.databases.len(), DatabaseTotals::default);
        }
        for (sum, more) in self.databases.iter_mut().zip(&other.databases) {
            sum.keys += more.keys;
            sum.expires += more.expires;
            sum.hashes_with_expiry += more.hashes_with_expiry;
            sum.table_bytes += more.table_bytes;
            sum.ttl_sum_ms = sum.ttl_sum_ms.saturating_add(more.ttl_sum_ms);
            sum.ttl_samples += more.ttl_samples;
        }
    }

    fn add(&mut self, shard: &Shard, now_ms: i64, random_state: &mut u64) {
        self.awaited_keys += shard.awaited_len();
        for (number, (database, totals)) in shard.databases.iter().zip(&mut self.databases).enumerate() {
            if shard.has_watchers() {
                self.watched_keys += shard.watched_keys(number).len();
            }
            totals.keys += database.len();
            totals.expires += database.with_expiry_len();
            totals.hashes_with_expiry += database.hashes_with_expiry_len();
            totals.table_bytes += database.table_bytes();
            if database.with_expiry_len() == 0 {
                continue;
            }
            database.sample_with_expiry(next_random(random_state), SAMPLES_PER_SHARD, |entry| {
                let Some(expiry) = entry.expiry() else { return };
                totals.ttl_sum_ms = totals.ttl_sum_ms.saturating_add((expiry - now_ms).max(0));
                totals.ttl_samples += 1;
            });
        }
    }
}

/// The next number of a xorshift generator, for picking samples.
fn next_random(state: &mut u64) -> u64 {
    let mut number = (*state).max(1);
    number ^= number << 13;
    number ^= number >> 7;
    number ^= number << 17;
    *state = number;
    number
}
