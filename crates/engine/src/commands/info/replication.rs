//! The section about replication.

use std::sync::atomic::Ordering;

use super::{Lines, Source};
use crate::engine::Engine;
use crate::replication::{backlog, primary};

pub(super) fn section(lines: &mut Lines, source: &Source) {
    let engine = source.engine;
    let is_replica = engine.replication.is_replica();
    lines.add("role", if is_replica { "slave" } else { "master" });
    super::replica::replica(lines, source);
    replicas(lines, source);
    lines.add("master_failover_state", engine.replication.failover.name());
    history(lines, engine);
    let link = &engine.replication.link;
    let has_followed = !is_replica || link.up_since_s.load(Ordering::Relaxed) > 0;
    // One that is empty and waits for a first stream counts as none.
    let range = backlog::range(engine).filter(|(_, bytes)| has_followed || *bytes > 0);
    lines.add("repl_backlog_active", u8::from(range.is_some()));
    lines.add("repl_backlog_size", source.active.config.repl_backlog_size);
    let (first, bytes) = range.unwrap_or((0, 0));
    lines.add("repl_backlog_first_byte_offset", first);
    lines.add("repl_backlog_histlen", bytes);
}

/// The lines about the replicas of this server.
fn replicas(lines: &mut Lines, source: &Source) {
    let (engine, config) = (source.engine, &source.active.config);
    let shown = primary::shown(engine);
    lines.add("connected_slaves", shown.len());
    if config.min_replicas_to_write > 0 && config.min_replicas_max_lag > 0 {
        let good = engine.replication.good_replica_count.load(Ordering::Relaxed);
        lines.add("min_slaves_good_slaves", good);
    }
    for (number, replica) in shown.iter().enumerate() {
        let state = replica.state();
        let lag_s = match state {
            crate::state::replication::ReplicaState::Online => {
                (source.now_ms - replica.acked_ms.load(Ordering::Relaxed)).max(0) / 1000
            }
            _ => 0,
        };
        let line = format!(
            "ip={},port={},state={},offset={},lag={lag_s}",
            primary::address_of(replica),
            replica.port.load(Ordering::Relaxed),
            primary::state_name(replica),
            replica.acked.load(Ordering::Relaxed)
        );
        lines.add(&format!("slave{number}"), line);
    }
}

/// The lines about the histories whose changes this server has.
fn history(lines: &mut Lines, engine: &Engine) {
    let history = engine.replication.history();
    let (second, end) = match history.second {
        Some((id, end)) => (id, end as i64),
        None => ("0".repeat(40), -1),
    };
    lines.add("master_replid", history.id);
    lines.add("master_replid2", second);
    lines.add("master_repl_offset", primary::offset(engine));
    lines.add("second_repl_offset", end);
}
