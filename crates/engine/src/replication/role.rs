//! Changes of role: which server this one follows, if any.
//!
//! A role changes at an instant at which all shards are locked. The link to the primary applies commands and
//! exchanges the data only while it holds shards and its number is the present one ([`Link::epoch`]): so
//! nothing of a former primary comes after the change.
//!
//! [`Link::epoch`]: crate::state::replication::Link::epoch

use std::sync::atomic::Ordering;

use mantissa_store::LockedShards;

use super::{backlog, link, restore};
use crate::blocking;
use crate::engine::{Engine, random_id};
use crate::log::{self, Role, notice, warning};
use crate::state::replication::{Address, History, LinkState};

/// Begins to follow the server that `replicaof` names, if it names one. Nobody is served yet, and the data
/// are loaded.
pub fn begin(engine: &Engine) {
    let replicaof = engine.active_config().config.replicaof.clone();
    if let Some((host, port)) = replicaof {
        let locked = engine.keyspace.lock(engine.keyspace.all_shards());
        follow(engine, &locked, Address { host, port });
    }
}

/// Ends the link: nothing of the primary is applied from now on, unless it is started again. No shard may be
/// locked.
pub fn end(engine: &Engine) {
    if engine.replication.is_replica() {
        let _locked = engine.keyspace.lock(engine.keyspace.all_shards());
        engine.replication.link.epoch.fetch_add(1, Ordering::AcqRel);
    }
}

/// Follows a server, or another one than so far. All shards must be locked.
pub fn follow(engine: &Engine, all: &LockedShards<'_>, address: Address) {
    become_replica(engine, all, address);
    start_link(engine);
}

/// Starts the link to the primary, if there is one, in the place of the one before.
pub fn start_link(engine: &Engine) {
    let replication = &engine.replication;
    let primary = replication.primary.lock();
    if primary.is_none() {
        return;
    }
    replication.link.begin(LinkState::Connect);
    let epoch = replication.link.epoch.fetch_add(1, Ordering::AcqRel) + 1;
    drop(primary);
    if let Err(error) = link::start(engine, epoch) {
        warning!("The link to the primary could not be started: {error}");
    }
}

/// Is to follow a server, once the link is started. All shards must be locked.
pub fn become_replica(engine: &Engine, all: &LockedShards<'_>, address: Address) {
    let replication = &engine.replication;
    if replication.is_replica() {
        leave(engine);
    } else {
        notice!(
            "Before turning into a replica, using my own master parameters to synthesize a cached master: I \
             may be able to synchronize with the new master with just a partial transfer."
        );
    }
    engine.set_replica(true);
    // For replicas of this one, and for the time after its promotion.
    backlog::begin(engine, all);
    log::set_role(Role::Replica);
    engine.host().role_changed(engine);
    *replication.link.peer.lock() = None;
    blocking::release_all_for_role_change(engine, &address);
    *replication.primary.lock() = Some(address);
    // What a former one sends is no longer applied.
    replication.link.epoch.fetch_add(1, Ordering::AcqRel);
}

/// Takes writes from now on, under a new history that the former one leads to. False if the server was no
/// replica. All shards must be locked.
pub fn lead(engine: &Engine) -> bool {
    let replication = &engine.replication;
    if !replication.is_replica() {
        return false;
    }
    leave(engine);
    notice!("Discarding previously cached master state.");
    forget_primary(engine);
    let former = replication.history().id;
    let (id, end) = (random_id(), engine.log.restart());
    let offset = replication.offset_of(end).wrapping_add(1);
    notice!(
        "Setting secondary replication ID to {former}, valid up to offset: {offset}. New replication ID is \
         {id}"
    );
    replication.set_history(History { id, second: Some((former, offset)) });
    restore::note_history(engine);
    // They are to learn the new name. They go on where they were.
    disconnect_replicas(engine);
    true
}

/// Takes the place of the primary that was followed, which serves no more: its history goes on. All shards
/// must be locked.
pub fn succeed(engine: &Engine, _all: &LockedShards<'_>) {
    forget_primary(engine);
}

/// Follows nobody. All shards must be locked.
fn forget_primary(engine: &Engine) {
    let replication = &engine.replication;
    let mut primary = replication.primary.lock();
    *primary = None;
    replication.link.epoch.fetch_add(1, Ordering::AcqRel);
    replication.link.begin(LinkState::None);
    drop(primary);
    engine.set_replica(false);
    log::set_role(Role::Master);
    engine.host().role_changed(engine);
}

fn leave(engine: &Engine) {
    if engine.replication.link.is_up() {
        notice!("Connection with master lost.");
        notice!("Caching the disconnected master state.");
    }
}

/// Closes the connections of all replicas, which are sent nothing more from now on.
pub fn disconnect_replicas(engine: &Engine) {
    let replicas: Vec<_> = engine.replication.replicas.lock().clone();
    for replica in replicas {
        let reader = replica.outgoing.lock().reader.take();
        drop(reader);
        engine.end_session(&replica.session);
    }
}
