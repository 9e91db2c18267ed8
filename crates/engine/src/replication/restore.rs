//! What files say about replication: where it stands, written with the data and read at a start.
//!
//! A dump says it for its cut ([`ReplicationFacts`]), an append-only file for the beginning of each increment
//! and wherever the history changes ([`mantissa_persist::aof::position`]). So replicas go on after a restart
//! of either side without loading all data again.

use mantissa_persist::write::ReplicationFacts;

use super::backlog;
use crate::engine::Engine;
use crate::notice;
use crate::state::replication::History;

/// Has the append-only file say where replication stands from here on. To be called with all shards locked,
/// after each change of the history or of its offset.
pub fn note_history(engine: &Engine) {
    engine.aof.control.note_position(Some(&engine.stream_facts()));
}

/// Goes on from where the files that were loaded say that replication stood. Nobody is served yet.
///
/// A replica goes on in the same history. A primary begins a new one there, as in Redis, since more may have
/// been sent to replicas than there is in the files. Replicas that do not have more can go on.
pub fn restore(engine: &Engine, facts: &ReplicationFacts) {
    let active = engine.active_config();
    let (replication, log) = (&engine.replication, &engine.log);
    let offset = facts.offset as u64;
    replication.align(log.end(), offset);
    backlog::begin(engine, &engine.keyspace.lock(engine.keyspace.all_shards()));
    backlog::note_idle(engine);
    if active.config.replicaof.is_some() {
        log.set_database(usize::try_from(facts.database).ok());
        replication.set_history(History { id: facts.id.clone(), second: None });
    } else {
        let id = replication.history().id;
        replication.set_history(History { id, second: Some((facts.id.clone(), offset + 1)) });
    }
    notice!("Replication goes on at offset {offset} of history {}", facts.id);
}
