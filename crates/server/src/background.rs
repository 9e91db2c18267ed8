//! What is done in the background: active expiry, eviction that commands have no time for, compaction,
//! sampling of rates.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::balance::Balancer;
use crate::census::Walker;
use crate::compaction::Compactor;
use crate::context::{Context, unix_ms};
use crate::eviction::{self, Verdict};
use crate::expiry::Expirer;
use crate::server::Server;

/// How long keys are evicted before the other duties have their turn.
const EVICTION_TIME: Duration = Duration::from_millis(20);

/// Starts the thread that does it.
pub fn start(server: &'static Server, mut balancer: Balancer) -> std::io::Result<()> {
    let body = move || {
        let worker = server.worker_count();
        let mut context = Context::new(server, worker);
        let mut sampled = (Instant::now(), server.stats.totals());
        let (mut expirer, mut walker) = (Expirer::default(), Walker::default());
        let mut compactor = Compactor::default();
        let mut next_round = Instant::now();
        server.pressure.work_here();
        while !server.stopping.load(Ordering::Relaxed) {
            let next = compactor.next_stint().map_or(next_round, |stint| stint.min(next_round));
            std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
            context.refresh();
            compactor.go_on(server, &context.live.config);
            let has_room = eviction::make_room(&mut context, EVICTION_TIME) != Verdict::Running;
            let now = Instant::now();
            let is_paused = server.pauses_cron.load(Ordering::Relaxed);
            if now >= next_round && !is_paused {
                let hz = context.live.config.hz.clamp(1, 500);
                next_round = now + Duration::from_micros(1_000_000 / u64::from(hz));
                if server.active_expire.load(Ordering::Relaxed) && !server.pauses(context.now_ms, true) {
                    expirer.run(&mut context);
                }
                crate::tracking::drop_surplus(&mut context);
                walker.step(&mut context);
                balancer.tick(server);
                if sampled.0.elapsed() >= Duration::from_millis(500) {
                    sampled = sample(server, sampled);
                    mantissa_store::heap::tick();
                }
                crate::persistence::tick(&mut context);
                crate::aof::rewrite::tick(&mut context);
                compactor.tick(server, &context.live.config);
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
                std::thread::sleep(Duration::from_micros(200));
                server.pressure.wake_background();
            }
        }
    };
    std::thread::Builder::new().name("background".to_owned()).spawn(body).map(drop)
}

/// Notes the rates since the last sample.
fn sample(
    server: &Server,
    (since, before): (Instant, crate::stats::Totals),
) -> (Instant, crate::stats::Totals) {
    let totals = server.stats.totals();
    let elapsed_ms = since.elapsed().as_millis().max(1) as u64;
    let rate = |now: u64, before: u64| now.saturating_sub(before) * 1000 / elapsed_ms;
    let stats = &server.stats;
    stats.operations_per_second.store(rate(totals.commands, before.commands), Ordering::Relaxed);
    stats.input_bytes_per_second.store(rate(totals.input_bytes, before.input_bytes), Ordering::Relaxed);
    stats.output_bytes_per_second.store(rate(totals.output_bytes, before.output_bytes), Ordering::Relaxed);
    stats.turns_per_second.store(rate(totals.turns, before.turns), Ordering::Relaxed);
    let turns = totals.turns.saturating_sub(before.turns).max(1);
    let turn_us = totals.turn_ns.saturating_sub(before.turn_ns) / turns / 1000;
    stats.turn_us.store(turn_us, Ordering::Relaxed);
    let used = mantissa_store::allocator::allocated_bytes() as u64;
    stats.note_memory(used, unix_ms());
    (Instant::now(), totals)
}
