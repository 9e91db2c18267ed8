//! Clients that wait until their writes are on replicas, or on disks: WAIT and WAITAOF.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_config::ShutdownFlags;
use mantissa_protocol::Reply;
use mantissa_sys::{clock, simulation};

use super::primary;
use crate::blocking;
use crate::context::Context;
use crate::engine::Engine;
use crate::host::Message;
use crate::session::Waiter;
use crate::state::aof::WAITAOF_WITHOUT_LOG;
use crate::state::replication::Replica;
use crate::{notice, warning};

/// Has a client wait, and the replicas be asked.
pub fn wait(engine: &Engine, waiter: Waiter) {
    if waiter.replicas > 0 {
        engine.replication.serving.wants_acks.store(true, Ordering::Relaxed);
    }
    engine.awaiting_log.lock().push(waiter);
    // It may have come about meanwhile.
    serve(engine, false);
}

/// Replies to the clients whose waiting is over. `is_lost`: nothing more will be durable here. Who waits for
/// that gets an error, as without an append-only file.
pub fn serve(engine: &Engine, is_lost: bool) {
    let mut waiters = engine.awaiting_log.lock();
    if waiters.is_empty() {
        return;
    }
    let is_off = is_lost || !engine.active_config().config.appendonly;
    waiters.retain(|waiter| {
        if !*waiter.blocked.waiting.lock() {
            return false;
        }
        let is_refused = waiter.local && is_off;
        let is_local = !waiter.local || engine.aof.is_durable(waiter.lsn);
        let is_over = is_refused
            || is_local
                && (waiter.replicas == 0
                    || engine.replication.confirming(waiter.lsn, waiter.of_disks) >= waiter.replicas);
        if is_over {
            let mut reply = Reply::new(waiter.blocked.protocol);
            match is_refused {
                true => reply.error(WAITAOF_WITHOUT_LOG),
                false => blocking::write_confirmations(engine, waiter.lsn, waiter.of_disks, &mut reply),
            }
            blocking::release(engine, &waiter.blocked, reply.into_bytes());
        }
        !is_over
    });
}

/// The replicas that are to have everything before `offset` when the server ends, and have not.
fn lagging(engine: &Engine, offset: u64) -> Vec<Arc<Replica>> {
    let lags = |replica: &&Arc<Replica>| {
        !replica.is_successor()
            && !replica.is_dump_only.load(Ordering::Relaxed)
            && replica.acked.load(Ordering::Acquire) < offset
    };
    engine.replication.replicas.lock().iter().filter(lags).cloned().collect()
}

/// Whether a shutdown has to wait for replicas first.
pub fn delays_shutdown(engine: &Engine, flags: ShutdownFlags) -> bool {
    let timeout_s = engine.active_config().config.shutdown_timeout_s;
    !flags.now
        && timeout_s > 0
        && !engine.replication.is_replica()
        && !lagging(engine, primary::offset(engine)).is_empty()
}

/// What [`begin_shutdown`] has done.
pub struct Begun {
    /// How many times shutdowns had been called off.
    aborts: u64,
    holds_writes: bool,
}

/// What [`before_shutdown`] has done.
pub struct Waited {
    holds_writes: bool,
}

/// Holds writes back for a shutdown.
fn hold_writes(engine: &Engine) {
    let mut holding = engine.replication.serving.holding.lock();
    if holding.0 == 0 {
        holding.1 = engine.pause.until_ms.swap(i64::MAX, Ordering::Relaxed);
        engine.heed_pause(clock::unix_ms());
    }
    holding.0 += 1;
}

/// Ends what [`hold_writes`] has begun. The last one lets writes go on.
fn release_writes(engine: &Engine) {
    let mut holding = engine.replication.serving.holding.lock();
    holding.0 = holding.0.saturating_sub(1);
    if holding.0 == 0 {
        // What CLIENT PAUSE or UNPAUSE has said meanwhile holds.
        let (held, before) = (i64::MAX, holding.1);
        let _changed_meanwhile =
            engine.pause.until_ms.compare_exchange(held, before, Ordering::Relaxed, Ordering::Relaxed);
        engine.heed_pause(clock::unix_ms());
        engine.send_all(|| Message::Resume);
    }
}

/// Lets writes go on that [`before_shutdown`] has held back.
pub fn after_failed_shutdown(engine: &Engine, waited: Option<Waited>) {
    if waited.is_some_and(|waited| waited.holds_writes) {
        release_writes(engine);
    }
}

/// Begins a shutdown that may be called off from now on. If replicas lack something, it holds writes back
/// before anybody can see that it has begun. Returns what [`before_shutdown`] takes.
pub fn begin_shutdown(engine: &Engine, flags: ShutdownFlags) -> Begun {
    let serving = &engine.replication.serving;
    let aborts = serving.aborts.load(Ordering::SeqCst);
    let timeout_s = engine.active_config().config.shutdown_timeout_s;
    let holds_writes = delays_shutdown(engine, flags);
    if holds_writes {
        hold_writes(engine);
    }
    serving.ends_ms.store(clock::unix_ms() + i64::from(timeout_s) * 1000, Ordering::SeqCst);
    Begun { aborts, holds_writes }
}

/// Takes back what [`begin_shutdown`] has done: nobody can wait.
pub fn give_up_shutdown(engine: &Engine, begun: &Begun) {
    abort_shutdown(engine);
    if begun.holds_writes {
        release_writes(engine);
    }
}

/// Calls off all shutdowns that have begun; false if none has.
pub fn abort_shutdown(engine: &Engine) -> bool {
    let serving = &engine.replication.serving;
    let is_any = serving.ends_ms.swap(0, Ordering::SeqCst) != 0;
    if is_any {
        serving.aborts.fetch_add(1, Ordering::SeqCst);
    }
    is_any
}

/// Waits until all replicas have everything, for `shutdown-timeout` at most; writes are held back meanwhile
/// and afterwards. None if that was called off: writes go on. Not to be called by a worker.
pub fn before_shutdown(engine: &Engine, begun: &Begun) -> Option<Waited> {
    const LOOK_INTERVAL: Duration = Duration::from_millis(10);
    const ASK_EVERY: usize = 100;
    let serving = &engine.replication.serving;
    let is_aborted = || serving.aborts.load(Ordering::SeqCst) != begun.aborts;
    if !begun.holds_writes {
        if is_aborted() {
            return None;
        }
        serving.ends_ms.store(0, Ordering::SeqCst);
        return Some(Waited { holds_writes: false });
    }
    let replicas = engine.replication.replica_count.load(Ordering::Relaxed);
    let timeout_s = engine.active_config().config.shutdown_timeout_s;
    notice!("Waiting for replicas before shutting down.");
    let mut context = Context::new(engine, engine.worker_count());
    let deadline = clock::now() + Duration::from_secs(u64::from(timeout_s));
    // What runs at this moment ends in it.
    simulation::sleep(LOOK_INTERVAL);
    let end = primary::offset(engine);
    let mut asks = 0;
    while !is_aborted() && !lagging(engine, end).is_empty() && clock::now() < deadline {
        if asks == 0 {
            serving.wants_acks.store(true, Ordering::Relaxed);
            context.outbox.end_iteration(false);
        }
        asks = (asks + 1) % ASK_EVERY;
        simulation::sleep(LOOK_INTERVAL);
    }
    if is_aborted() {
        release_writes(engine);
        return None;
    }
    serving.ends_ms.store(0, Ordering::SeqCst);
    let lagging = lagging(engine, end);
    for replica in &lagging {
        let acked = replica.acked.load(Ordering::Relaxed);
        let lag_s = (clock::unix_ms() - replica.acked_ms.load(Ordering::Relaxed)) / 1000;
        warning!(
            "Lagging replica {} reported offset {} behind master, lag={lag_s}, state={}.",
            primary::name_of(replica),
            end.saturating_sub(acked),
            primary::state_name(replica)
        );
    }
    notice!(
        "{} of {replicas} replicas are in sync when shutting down.",
        replicas.saturating_sub(lagging.len())
    );
    Some(Waited { holds_writes: true })
}
