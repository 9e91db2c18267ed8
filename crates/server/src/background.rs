//! What is done in the background, shard by shard: active expiry, sampling of rates.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mantissa_commands::{Access, Mode};
use mantissa_store::ShardSet;

use crate::balance::Balancer;
use crate::commit::commit;
use crate::context::{Context, LastCommand, Outbox, unix_ms};
use crate::server::Server;

/// Entries of a database of a shard that are looked at in one step of the walk for expired keys.
const EXPIRE_ENTRIES: usize = 200;

/// Starts the thread that does it.
pub fn start(server: &'static Server, mut balancer: Balancer) -> std::io::Result<()> {
    let body = move || {
        let worker = server.worker_count();
        let mut context = Context {
            server,
            worker,
            now_ms: unix_ms(),
            command_began: Instant::now(),
            live: server.live(),
            random_state: 1,
            last_command: LastCommand::default(),
            in_script: false,
            outbox: Outbox::new(worker, server),
        };
        let mut sampled = (Instant::now(), server.stats.totals());
        let mut next_shard = 0;
        while !server.stopping.load(Ordering::Relaxed) {
            let hz = context.live.config.hz.clamp(1, 500);
            std::thread::sleep(Duration::from_millis(u64::from(1000 / hz).max(1)));
            context.refresh();
            if server.active_expire.load(Ordering::Relaxed) && !server.pauses(context.now_ms, true) {
                let budget = Duration::from_millis(u64::from(1000 / hz).max(4) / 4);
                next_shard = expire(&mut context, next_shard, budget);
            }
            balancer.tick(server);
            if sampled.0.elapsed() >= Duration::from_millis(500) {
                sampled = sample(server, sampled);
            }
            crate::persistence::tick(&mut context);
        }
    };
    std::thread::Builder::new().name("background".to_owned()).spawn(body).map(drop)
}

/// Removes expired keys, a shard at a time from `first` on, each once, for at most `budget`. Returns the
/// shard to go on with.
fn expire(context: &mut Context, first: usize, budget: Duration) -> usize {
    let server = context.server;
    let deadline = Instant::now() + budget;
    let live = Arc::clone(&context.live);
    let count = server.keyspace.shard_count();
    for index in (first..first + count).map(|index| index % count) {
        // One that is in use is left to the next round: a script may hold it for long.
        let Ok(locked) = server.keyspace.try_lock(ShardSet::one(index)) else { continue };
        let mode = Mode::default();
        let mut random_state = context.random_state;
        let mut access = Access::new(locked, 0, context.now_ms, &live.settings, mode, &mut random_state);
        while mantissa_commands::expire_cycle(&mut access, index, EXPIRE_ENTRIES).is_worthwhile()
            && Instant::now() < deadline
        {}
        let trash = commit(server, &mut context.outbox, &mut access, true);
        drop(access);
        server.free(trash);
        if Instant::now() >= deadline {
            return (index + 1) % count;
        }
    }
    first
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
    let used = mantissa_store::allocator::allocated_bytes() as u64;
    stats.note_memory(used, unix_ms());
    (Instant::now(), totals)
}
