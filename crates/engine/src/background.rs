//! The background thread: active expiry, eviction beyond what commands had time for, compaction, key sizes,
//! walks for clients, save points, rewrites of the append-only file, and sampling of rates.

use mantissa_sys::{clock, simulation};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::compaction::Compactor;
use crate::context::Context;
use crate::engine::Engine;
use crate::eviction;
use crate::expiry::Expirer;
use crate::job_runner::Runner;
use crate::key_sizes::Walker;
use crate::memory_limit::Verdict;
use crate::stats::Totals;
use crate::turnover::Turnover;
use mantissa_sys::clock::unix_ms;

/// Maximum time for eviction in one round.
const EVICTION_TIME: Duration = Duration::from_millis(20);

/// Starts the thread. It also calls `also` in each round, `hz` times a second.
pub fn start(engine: &Engine, mut also: impl FnMut(&Engine) + Send + 'static) -> std::io::Result<()> {
    let body = move |engine: &Engine| {
        let mut background = Background::new(engine);
        engine.pressure.work_here();
        while !engine.stopping.load(Ordering::Relaxed) {
            let pause = background.next_look().saturating_duration_since(clock::now());
            if !simulation::wait(Some(pause)) {
                std::thread::park_timeout(pause);
            }
            background.look(&mut also);
        }
    };
    engine.spawn("background", body)
}

/// The work of the background thread. A program that does not start the thread calls [`Background::round`].
pub struct Background<'e> {
    context: Context<'e>,
    sampled: Sample,
    expirer: Expirer,
    walker: Walker,
    compactor: Compactor,
    turnover: Turnover,
    runner: Runner,
    next_round: Instant,
}

impl<'e> Background<'e> {
    /// The first round is due at once.
    pub fn new(engine: &'e Engine) -> Self {
        Background {
            context: Context::new(engine, engine.worker_count()),
            sampled: Sample::take(engine),
            expirer: Expirer::default(),
            walker: Walker::default(),
            compactor: Compactor::default(),
            turnover: Turnover::default(),
            runner: Runner::default(),
            next_round: clock::now(),
        }
    }

    /// Runs one round: evicts while memory is full, for 20 ms at most, and removes expired keys, for about a
    /// quarter of the time between two rounds at `hz`. Does nothing while DEBUG PAUSE-CRON is on.
    pub fn round(&mut self) {
        self.next_round = clock::now();
        self.runner = Runner::default();
        self.look(&mut |_| {});
    }

    /// When the next work is due.
    fn next_look(&self) -> Instant {
        let (compaction, turnover) = (self.compactor.next_run(), self.turnover.next_run());
        let runs = [compaction, turnover, self.runner.next_run(self.context.engine)];
        runs.into_iter().flatten().fold(self.next_round, Instant::min)
    }

    /// Does what is due.
    fn look(&mut self, also: &mut impl FnMut(&Engine)) {
        let engine = self.context.engine;
        let context = &mut self.context;
        let Some(_turn) = engine.background_turn.try_lock() else {
            self.next_round = clock::now() + Duration::from_millis(1);
            return;
        };
        context.refresh();
        let is_saving = engine.persistence.saving.load(Ordering::Relaxed);
        self.compactor.go_on(&engine.keyspace, &engine.compaction, &context.active.config, is_saving);
        self.runner.go_on(context);
        let is_paused = engine.pauses_cron.load(Ordering::Relaxed);
        self.turnover.go_on(context);
        let is_within_limit =
            is_paused || eviction::free_memory(context, EVICTION_TIME) != Verdict::InProgress;
        let now = clock::now();
        if now >= self.next_round && !is_paused {
            let hz = context.active.config.hz.clamp(1, 500);
            self.next_round = now + Duration::from_micros(1_000_000 / u64::from(hz));
            engine.heed_pause(context.now_ms);
            let is_expiring =
                engine.active_expire.load(Ordering::Relaxed) && !engine.replication.is_replica();
            if is_expiring && !engine.pauses(context.now_ms, true) {
                self.expirer.run(context);
            }
            crate::expiry::forget_sent(context);
            crate::replication::own_expiry::remove(context);
            crate::tracking::drop_surplus(context);
            self.walker.step(&engine.keyspace, &engine.key_sizes, changes(engine));
            also(engine);
            if clock::since(self.sampled.at) >= Duration::from_millis(500) {
                self.sampled = self.sampled.next(engine);
                mantissa_store::heap::tick();
            }
            crate::persistence::tick(context);
            crate::aof::rewrite::tick(context);
            crate::aof::backup::tick(context);
            crate::replication::primary::tick(context);
            crate::replication::failover::tick(engine, context.now_ms);
            let is_loading = engine.persistence.loading.load(Ordering::Relaxed);
            self.compactor.tick(&engine.compaction, &context.active.config, is_loading);
        }
        if is_paused {
            self.next_round = now + Duration::from_millis(1);
        }
        if context.outbox.has_changed() {
            crate::tracking::broadcast(&mut context.outbox);
        }
        context.outbox.end_iteration(false);
        if !is_within_limit {
            // Other threads are still freeing values.
            simulation::sleep(Duration::from_micros(200));
            engine.pressure.wake_background();
        }
    }
}

/// The number of changes of the keyspace so far.
fn changes(engine: &Engine) -> u64 {
    let totals = engine.stats.totals();
    engine.persistence.dirty.total() + totals.expired_keys + totals.evicted_keys
}

/// Counters at a moment.
struct Sample {
    at: Instant,
    totals: Totals,
    /// Bytes that have come from the primary, and that have gone to replicas.
    replicated_bytes: [u64; 2],
}

impl Sample {
    fn take(engine: &Engine) -> Sample {
        let replication = &engine.replication;
        let counters = [&replication.link.read_bytes, &replication.serving.sent_bytes];
        Sample {
            at: clock::now(),
            totals: engine.stats.totals(),
            replicated_bytes: counters.map(|counter| counter.load(Ordering::Relaxed)),
        }
    }

    /// Takes the next sample, and notes the rates since this one.
    fn next(&self, engine: &Engine) -> Sample {
        let sample = Sample::take(engine);
        let (totals, before, stats) = (&sample.totals, &self.totals, &engine.stats);
        let elapsed_ms = sample.at.saturating_duration_since(self.at).as_millis().max(1) as u64;
        let ([read, sent], [read_before, sent_before]) = (sample.replicated_bytes, self.replicated_bytes);
        for (rate, now, before) in [
            (&stats.operations_per_second, totals.commands, before.commands),
            (&stats.input_bytes_per_second, totals.input_bytes, before.input_bytes),
            (&stats.output_bytes_per_second, totals.output_bytes, before.output_bytes),
            (&stats.primary_bytes_per_second, read, read_before),
            (&stats.replica_bytes_per_second, sent, sent_before),
            (&stats.iterations_per_second, totals.iterations, before.iterations),
        ] {
            rate.store(now.saturating_sub(before) * 1000 / elapsed_ms, Ordering::Relaxed);
        }
        let iterations = totals.iterations.saturating_sub(before.iterations).max(1);
        let iteration_us = totals.iteration_ns.saturating_sub(before.iteration_ns) / iterations / 1000;
        stats.iteration_us.store(iteration_us, Ordering::Relaxed);
        let used = mantissa_store::allocator::allocated_bytes() as u64;
        stats.note_memory(used, unix_ms());
        sample
    }
}
