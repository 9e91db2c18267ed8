//! REPLICAOF: which server this one follows; and ROLE where it follows one.

use mantissa_commands::{Error, Outcome, parse};
use mantissa_protocol::{Args, Reply};
use mantissa_store::LockedShards;

use crate::client_figures::ClientFigures;
use crate::engine::Engine;
use crate::invocation::Invocation;
use crate::locking::lock;
use crate::log::notice;
use crate::replication::role;
use crate::state::failover::FailoverState;
use crate::state::replication::{Address, LinkState};

pub(super) fn replicaof(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    let engine = invocation.engine();
    if engine.active_config().config.cluster_enabled {
        return Err(Error::fixed("ERR REPLICAOF not allowed in cluster mode."));
    }
    if engine.replication.failover.state() != FailoverState::None {
        return Err(Error::fixed("ERR REPLICAOF not allowed while failing over."));
    }
    if parse::is(args.at(1), "NO") && parse::is(args.at(2), "ONE") {
        if with_all_shards(invocation, |engine, _| role::lead(engine))? {
            notice!("MASTER MODE enabled (user request from '{}')", caller(invocation));
        }
        reply.ok();
        return Ok(());
    }
    if invocation.session.replica.is_some() {
        return Err(Error::fixed("ERR Command is not valid when client is a replica."));
    }
    let port = parse::integer_in(args.at(2), 0, 65535, "ERR Invalid master port")? as u16;
    let host = String::from_utf8_lossy(args.at(1)).into_owned();
    let is_new = with_all_shards(invocation, |engine, locked| {
        let present = engine.replication.primary.lock().clone();
        let is_same = |now: &Address| now.port == port && now.host.eq_ignore_ascii_case(&host);
        let is_new = !present.as_ref().is_some_and(is_same);
        if is_new {
            role::follow(engine, locked, Address { host: host.clone(), port });
        }
        is_new
    })?;
    if is_new {
        notice!("REPLICAOF {host}:{port} enabled (user request from '{}')", caller(invocation));
        reply.ok();
    } else {
        notice!(
            "REPLICAOF would result into synchronization with the master we are already connected with. No \
             operation performed."
        );
        reply.simple("OK Already connected to specified master");
    }
    Ok(())
}

/// Runs `work` with all shards locked: by the transaction, or for just this.
pub(super) fn with_all_shards<R>(
    invocation: &mut Invocation<'_, '_, '_>,
    work: impl FnOnce(&Engine, &LockedShards<'_>) -> R,
) -> Outcome<R> {
    let engine = invocation.engine();
    if let Some(access) = &mut invocation.access {
        return Ok(work(engine, access.locked_mut()));
    }
    let locked = lock(engine, engine.keyspace.all_shards(), false)?;
    Ok(work(engine, &locked))
}

/// The line of the caller in CLIENT LIST.
pub(super) fn caller(invocation: &Invocation<'_, '_, '_>) -> String {
    let mut line = Vec::new();
    let session = &invocation.session.shared;
    let figures = ClientFigures::of(invocation.engine(), session.id);
    figures.write_line(&mut line, session, invocation.context.now_ms);
    String::from_utf8_lossy(&line).trim_end().to_owned()
}

/// The reply of ROLE, if the server follows another.
pub(super) fn role_of_replica(engine: &Engine, reply: &mut Reply) -> bool {
    let replication = &engine.replication;
    let Some(Address { host, port }) = replication.primary.lock().clone() else { return false };
    let state = replication.link.state();
    reply.array(5);
    reply.bulk(b"slave");
    reply.bulk(host.as_bytes());
    reply.integer(port.into());
    reply.bulk(match state {
        LinkState::None => b"none",
        LinkState::Connect => b"connect",
        LinkState::Connecting => b"connecting",
        LinkState::Handshake => b"handshake",
        LinkState::Transfer => b"sync",
        LinkState::Connected => b"connected",
    });
    reply.integer(match state {
        LinkState::Connected => replication.offset_of(engine.log.end()) as i64,
        _ => -1,
    });
    true
}
