//! FAILOVER: a primary hands its role to a replica.
//!
//! Writes wait until a replica has everything. Then the primary follows it, and asks by PSYNC ... FAILOVER
//! that it take over. If it refuses, the primary is one again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_sys::clock::unix_ms;

use super::{primary, role};
use crate::engine::Engine;
use crate::host::Message;
use crate::log::notice;
use crate::state::failover::{FailoverState, Plan};
use crate::state::replication::{Address, Replica, ReplicaState};

/// The replica at this address, if it is one of this server.
pub fn find(engine: &Engine, target: &Address) -> Option<Arc<Replica>> {
    primary::shown(engine).into_iter().find(|replica| address_of(replica) == *target)
}

fn address_of(replica: &Replica) -> Address {
    let port = u16::try_from(replica.port.load(Ordering::Relaxed)).unwrap_or(0);
    Address { host: primary::address_of(replica), port }
}

/// Begins: writes wait from now on. False if there is a failover already.
pub fn begin(engine: &Engine, plan: Plan) -> bool {
    let failover = &engine.replication.failover;
    let mut present = failover.plan.lock();
    if present.is_some() {
        return false;
    }
    match &plan.target {
        Some(Address { host, port }) => notice!("FAILOVER requested to {host}:{port}."),
        None => notice!("FAILOVER requested."),
    }
    *present = Some(plan);
    failover.set_state(FailoverState::WaitsForSync);
    engine.pause.hold_writes(true);
    engine.heed_pause(unix_ms());
    true
}

/// Ends: nothing waits any more.
pub fn end(engine: &Engine) {
    let failover = &engine.replication.failover;
    *failover.plan.lock() = None;
    failover.set_state(FailoverState::None);
    engine.pause.hold_writes(false);
    engine.heed_pause(unix_ms());
    engine.send_all(|| Message::Resume);
}

/// Gives up, with the role that the server had. No shard may be locked by this thread.
pub fn abort(engine: &Engine, reason: &str) {
    let _locked = engine.keyspace.lock(engine.keyspace.all_shards());
    abort_locked(engine, reason);
}

/// The same, where all shards are locked.
pub fn abort_locked(engine: &Engine, reason: &str) {
    let failover = &engine.replication.failover;
    let Some(plan) = failover.plan.lock().clone() else { return };
    let state = failover.name();
    match plan.target {
        Some(Address { host, port }) => {
            notice!("Aborting failover to {host}:{port} while {state}: {reason}");
        }
        None => notice!("Aborting failover while {state}: {reason}"),
    }
    if failover.state() == FailoverState::InProgress {
        role::lead(engine);
    }
    end(engine);
}

/// Goes on where the wait has ended. No shard may be locked by this thread.
pub fn tick(engine: &Engine, now_ms: i64) {
    if engine.replication.failover.state() != FailoverState::WaitsForSync {
        return;
    }
    let Some(plan) = engine.replication.failover.plan.lock().clone() else { return };
    if plan.deadline_ms.is_some_and(|deadline_ms| now_ms >= deadline_ms) {
        match plan.target {
            Some(target) if plan.forces => {
                notice!("Failover to {}:{} time out exceeded, failing over.", target.host, target.port);
                hand_over(engine, target, |_| true);
            }
            _ => abort(engine, "Replica never caught up before timeout"),
        }
        return;
    }
    let is_wanted =
        |replica: &&Arc<Replica>| plan.target.as_ref().is_none_or(|it| address_of(replica) == *it);
    let has_all = |replica: &Replica| {
        replica.state() == ReplicaState::Online
            && replica.acked.load(Ordering::Acquire) == primary::offset(engine)
    };
    let replicas = primary::shown(engine);
    let Some(replica) = replicas.iter().filter(is_wanted).find(|replica| has_all(replica)) else { return };
    let target = address_of(replica);
    notice!("Failover target {}:{} is synced, failing over.", target.host, target.port);
    hand_over(engine, target, |_| has_all(replica));
}

/// Follows the target, if that still makes sense with all shards locked.
fn hand_over(engine: &Engine, target: Address, makes_sense: impl FnOnce(&Engine) -> bool) {
    let failover = &engine.replication.failover;
    let locked = engine.keyspace.lock(engine.keyspace.all_shards());
    let mut plan = failover.plan.lock();
    if let Some(plan) = &mut *plan
        && makes_sense(engine)
    {
        plan.target = Some(target.clone());
        failover.set_state(FailoverState::InProgress);
        role::follow(engine, &locked, target);
    }
}
