//! Clients that wait until their writes are on replicas, or on disks: WAIT and WAITAOF.

use std::sync::atomic::Ordering;

use mantissa_protocol::Reply;

use crate::blocking;
use crate::engine::Engine;
use crate::session::Waiter;
use crate::state::aof::WAITAOF_WITHOUT_LOG;

/// Has a client wait, and the replicas be asked.
pub fn wait(engine: &Engine, waiter: Waiter) {
    if waiter.replicas > 0 {
        engine.replication.serving.wants_acks.store(true, Ordering::Relaxed);
    }
    engine.awaiting_log.lock().push(waiter);
    // It may have come about meanwhile.
    serve(engine, false);
}

/// Replies to the clients whose waiting is over. `is_lost`: nothing more will be durable here.
pub fn serve(engine: &Engine, is_lost: bool) {
    let mut waiters = engine.awaiting_log.lock();
    if waiters.is_empty() {
        return;
    }
    let durable = engine.aof.control.durable();
    waiters.retain(|waiter| {
        if !*waiter.blocked.waiting.lock() {
            return false;
        }
        let is_local = !waiter.local || waiter.lsn <= durable;
        let is_over = is_local
            && (waiter.replicas == 0
                || engine.replication.confirming(waiter.lsn, waiter.of_disks) >= waiter.replicas);
        if is_over {
            let mut reply = Reply::new(waiter.blocked.protocol);
            match is_lost && waiter.local {
                true => reply.error(WAITAOF_WITHOUT_LOG),
                false => blocking::write_confirmations(engine, waiter.lsn, waiter.of_disks, &mut reply),
            }
            blocking::release(engine, &waiter.blocked, reply.into_bytes());
        }
        !is_over
    });
}
