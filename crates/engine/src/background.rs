//! What is done in the background: active expiry, eviction that commands have no time for, compaction,
//! sampling of rates.

use mantissa_sys::{clock, simulation};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::census::Walker;
use crate::compaction::Compactor;
use crate::context::Context;
use crate::engine::Engine;
use crate::eviction::{self, Verdict};
use crate::expiry::Expirer;
use mantissa_sys::clock::unix_ms;

/// How long keys are evicted before the other duties have their turn.
const EVICTION_TIME: Duration = Duration::from_millis(20);

/// Starts the thread that does it. Each round, `hz` times a second, it does `also` as well.
pub fn start(engine: &Engine, mut also: impl FnMut(&Engine) + Send + 'static) -> std::io::Result<()> {
    let body = move |engine: &Engine| {
        let worker = engine.worker_count();
        let mut context = Context::new(engine, worker);
        let mut sampled = (clock::now(), engine.stats.totals());
        let (mut expirer, mut walker) = (Expirer::default(), Walker::default());
        let mut compactor = Compactor::default();
        let mut next_round = clock::now();
        engine.pressure.work_here();
        while !engine.stopping.load(Ordering::Relaxed) {
            let next = compactor.next_stint().map_or(next_round, |stint| stint.min(next_round));
            std::thread::park_timeout(next.saturating_duration_since(clock::now()));
            context.refresh();
            compactor.go_on(engine, &context.live.config);
            let has_room = eviction::make_room(&mut context, EVICTION_TIME) != Verdict::Running;
            let now = clock::now();
            let is_paused = engine.pauses_cron.load(Ordering::Relaxed);
            if now >= next_round && !is_paused {
                let hz = context.live.config.hz.clamp(1, 500);
                next_round = now + Duration::from_micros(1_000_000 / u64::from(hz));
                if engine.active_expire.load(Ordering::Relaxed) && !engine.pauses(context.now_ms, true) {
                    expirer.run(&mut context);
                }
                crate::tracking::drop_surplus(&mut context);
                walker.step(&mut context);
                also(engine);
                if clock::since(sampled.0) >= Duration::from_millis(500) {
                    sampled = sample(engine, sampled);
                    mantissa_store::heap::tick();
                }
                crate::persistence::tick(&mut context);
                crate::aof::rewrite::tick(&mut context);
                compactor.tick(engine, &context.live.config);
            }
            if is_paused {
                next_round = now + Duration::from_millis(1);
            }
            if context.outbox.has_changed() {
                crate::tracking::broadcast(&mut context.outbox);
            }
            context.outbox.end_turn(false);
            if !has_room {
                // What is being freed by others needs a moment.
                simulation::sleep(Duration::from_micros(200));
                engine.pressure.wake_background();
            }
        }
    };
    engine.spawn("background", body)
}

/// Notes the rates since the last sample.
fn sample(
    engine: &Engine,
    (since, before): (Instant, crate::stats::Totals),
) -> (Instant, crate::stats::Totals) {
    let totals = engine.stats.totals();
    let elapsed_ms = clock::since(since).as_millis().max(1) as u64;
    let rate = |now: u64, before: u64| now.saturating_sub(before) * 1000 / elapsed_ms;
    let stats = &engine.stats;
    stats.operations_per_second.store(rate(totals.commands, before.commands), Ordering::Relaxed);
    stats.input_bytes_per_second.store(rate(totals.input_bytes, before.input_bytes), Ordering::Relaxed);
    stats.output_bytes_per_second.store(rate(totals.output_bytes, before.output_bytes), Ordering::Relaxed);
    stats.turns_per_second.store(rate(totals.turns, before.turns), Ordering::Relaxed);
    let turns = totals.turns.saturating_sub(before.turns).max(1);
    let turn_us = totals.turn_ns.saturating_sub(before.turn_ns) / turns / 1000;
    stats.turn_us.store(turn_us, Ordering::Relaxed);
    let used = mantissa_store::allocator::allocated_bytes() as u64;
    stats.note_memory(used, unix_ms());
    (clock::now(), totals)
}
