//! Counters. Each worker counts in its own, so that counting costs no sharing; INFO adds them up.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::latency::Histogram;
use crate::warning;

/// Counters of one command.
#[derive(Default)]
pub struct CommandStats {
    /// Calls that ran.
    pub calls: AtomicU64,
    /// Time that they took, in ns.
    pub nanoseconds: AtomicU64,
    /// Calls refused before they ran.
    pub rejected: AtomicU64,
    /// Calls that replied an error.
    pub failed: AtomicU64,
    /// How their times are spread; made when the first call is recorded.
    pub histogram: OnceLock<Box<Histogram>>,
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// Counters of one worker.
        #[derive(Default)]
        #[repr(align(128))]
        pub struct WorkerStats {
            $($(#[doc = $doc])+ pub $name: AtomicU64,)*
        }

        /// The sums over all workers.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[doc = $doc])+ pub $name: u64,)*
        }

        impl Stats {
            /// The sums over all workers.
            pub fn totals(&self) -> Totals {
                let mut totals = Totals::default();
                for worker in &self.workers {
                    $(totals.$name += worker.$name.load(Ordering::Relaxed);)*
                }
                totals
            }

            /// CONFIG RESETSTAT.
            pub fn reset(&self) {
                for worker in &self.workers {
                    $(worker.$name.store(0, Ordering::Relaxed);)*
                }
                for command in self.commands.iter().flatten() {
                    let counters = [&command.calls, &command.nanoseconds, &command.rejected, &command.failed];
                    counters.into_iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
                    if let Some(histogram) = command.histogram.get() {
                        histogram.reset();
                    }
                }
                self.peak_bytes.store(0, Ordering::Relaxed);
                self.iteration_ns_max.store(0, Ordering::Relaxed);
                self.iteration_commands_max.store(0, Ordering::Relaxed);
            }
        }
    };
}

counters! {
    /// Commands run.
    commands,
    /// Connections accepted.
    connections,
    /// Connections refused because of maxclients.
    rejected_connections,
    /// Bytes received.
    input_bytes,
    /// Bytes sent.
    output_bytes,
    /// Lookups that found their key.
    keyspace_hits,
    /// Lookups that did not.
    keyspace_misses,
    /// Keys that expired.
    expired_keys,
    /// Hash fields that expired.
    expired_fields,
    /// Keys that were evicted.
    evicted_keys,
    /// Error replies.
    error_replies,
    /// Errors that commands of a log or of the primary have ended in.
    unexpected_error_replies,
    /// Clients closed because of output limits.
    output_limit_disconnections,
    /// Clients closed because all clients took too much memory.
    evicted_clients,
    /// Clients closed because of query limits.
    query_limit_disconnections,
    /// Read events.
    reads,
    /// Write events.
    writes,
    /// Event-loop iterations.
    iterations,
    /// Time of the iterations, without waiting for events, in ns.
    iteration_ns,
    /// The part of it for what is done a few times a second, in ns.
    cron_ns,
    /// The part of it for the append-only file, in ns.
    log_ns,
    /// Time of commands that scripts have called, which counts as theirs too, in ns.
    scripted_ns,
}

/// Adds to a counter that only one thread writes.
#[inline]
pub fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// All counters.
pub struct Stats {
    /// One per worker, and a last one for threads that are no workers.
    pub workers: Vec<WorkerStats>,
    /// Per worker, by [`mantissa_commands::Command::index`].
    pub commands: Vec<Box<[CommandStats]>>,
    /// Error replies by their code (`ERR`, `WRONGTYPE`).
    pub errors: parking_lot::Mutex<std::collections::BTreeMap<String, u64>>,
    /// The longest event-loop iteration, in ns.
    pub iteration_ns_max: AtomicU64,
    /// The most commands in one event-loop iteration.
    pub iteration_commands_max: AtomicU64,
    /// Event-loop iterations per second, as last sampled.
    pub iterations_per_second: AtomicU64,
    /// How long they took on average without their waiting, as last sampled, in us.
    pub iteration_us: AtomicU64,
    /// Nanoseconds that commands have waited for locked shards; at most 1 ms of each wait.
    pub shard_wait_ns: AtomicU64,
    /// The most bytes in use so far.
    pub peak_bytes: AtomicU64,
    /// When that was, Unix time in ms.
    pub peak_ms: AtomicI64,
    /// Operations per second, as last sampled.
    pub operations_per_second: AtomicU64,
    /// Bytes per second received, as last sampled.
    pub input_bytes_per_second: AtomicU64,
    /// Bytes per second sent, as last sampled.
    pub output_bytes_per_second: AtomicU64,
    /// Bytes per second received from the primary, as last sampled.
    pub primary_bytes_per_second: AtomicU64,
    /// Bytes per second sent to replicas, as last sampled.
    pub replica_bytes_per_second: AtomicU64,
    /// When the statistics were last reset, Unix time in ms.
    pub reset_ms: AtomicI64,
}

/// Distinct error codes that are counted; further ones are not, so that scripts cannot fill the memory with
/// them.
const ERROR_CODES_MAX: usize = 128;
/// Bytes of an error within which its first word ends.
const ERROR_CODE_BYTES_MAX: usize = 31;
/// The entry among the error codes that says that further ones are not counted.
const ERRORS_DISABLED: &str = "ERRORSTATS_DISABLED";

impl Stats {
    /// All zero.
    pub fn new(command_count: usize, thread_count: usize) -> Self {
        let commands = || (0..command_count).map(|_| CommandStats::default()).collect();
        Stats {
            workers: (0..thread_count).map(|_| WorkerStats::default()).collect(),
            commands: (0..thread_count).map(|_| commands()).collect(),
            errors: parking_lot::Mutex::default(),
            iteration_ns_max: AtomicU64::new(0),
            iteration_commands_max: AtomicU64::new(0),
            iterations_per_second: AtomicU64::new(0),
            iteration_us: AtomicU64::new(0),
            shard_wait_ns: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            peak_ms: AtomicI64::new(0),
            operations_per_second: AtomicU64::new(0),
            input_bytes_per_second: AtomicU64::new(0),
            output_bytes_per_second: AtomicU64::new(0),
            primary_bytes_per_second: AtomicU64::new(0),
            replica_bytes_per_second: AtomicU64::new(0),
            reset_ms: AtomicI64::new(0),
        }
    }

    /// Counts an event-loop iteration of a worker: its time, and the commands that it has run.
    #[inline]
    pub fn note_iteration(&self, worker: usize, ns: u64, commands: u64) {
        let stats = &self.workers[worker];
        add(&stats.iterations, 1);
        add(&stats.iteration_ns, ns);
        for (max, figure) in [(&self.iteration_ns_max, ns), (&self.iteration_commands_max, commands)] {
            if figure > max.load(Ordering::Relaxed) {
                max.fetch_max(figure, Ordering::Relaxed);
            }
        }
    }

    /// Notes how many bytes are in use now.
    pub fn note_memory(&self, used: u64, now_ms: i64) {
        if self.peak_bytes.fetch_max(used, Ordering::Relaxed) < used {
            self.peak_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Counts an error reply by its first word, or as ERR if that is not short.
    pub fn count_error(&self, worker: usize, text: &str) {
        if let Some(stats) = self.workers.get(worker) {
            add(&stats.error_replies, 1);
        }
        let mut start = text.bytes().take(ERROR_CODE_BYTES_MAX);
        let code = start.position(|byte| byte == b' ').map_or("ERR", |end| &text[..end]);
        let mut errors = self.errors.lock();
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else if errors.contains_key(ERRORS_DISABLED) {
            // Until CONFIG RESETSTAT nothing is counted.
        } else if errors.len() < ERROR_CODES_MAX {
            errors.insert(code.to_owned(), 1);
        } else {
            warning!(
                "Errorstats stopped adding new errors because the number of errors reached the limit, may be \
                 misuse of lua error_reply, please check INFO ERRORSTATS, this can be re-enabled via CONFIG \
                 RESETSTAT."
            );
            let codes: Vec<String> = errors.keys().map(|code| code.replace(['\n', '\r'], "_")).collect();
            warning!("Current errors code list: {}", codes.join(", "));
            errors.clear();
            errors.insert(ERRORS_DISABLED.to_owned(), 1);
        }
    }
}

/// What INFO shows of active expiry.
#[derive(Default)]
pub struct ExpiryFigures {
    /// The share of expired keys among those with an expiry, in hundredths of a percent.
    pub stale_basis_points: AtomicU64,
    /// Rounds that ended because their time was up.
    pub rounds_timed_out: AtomicU64,
    /// Time spent, in us.
    pub spent_us: AtomicU64,
}

impl ExpiryFigures {
    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        [&self.stale_basis_points, &self.rounds_timed_out, &self.spent_us]
            .into_iter()
            .for_each(|figure| figure.store(0, Ordering::Relaxed));
    }
}
