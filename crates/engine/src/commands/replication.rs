//! Replication, as far as a server without it has an answer: it is a master without replicas.
//!
//! WAIT waits for confirmations of replicas until its timeout, since there are none. WAITAOF does so for
//! replicas, and for this server's own log until that is durable. What would make this server a replica, or
//! another one its replica, is refused in plain words.

use std::sync::Arc;

use mantissa_commands::spec::{Categories, Flags, Group};
use mantissa_commands::{Access, DataSpec, Error, Locks, Outcome, TimeoutReply, parse};
use mantissa_protocol::{Args, Reply};
use mantissa_store::Kind;

use super::replicaof::{replicaof, role_of_replica};
use crate::invocation::{EngineSpec, Invocation};
use crate::state::aof::{WAITAOF_WITHOUT_LOG, write_confirmations};
use crate::{aof, blocking};

const NOT_A_MASTER: Error =
    Error::fixed("ERR Replication is not supported yet: this server cannot serve replicas");

/// When waiting ends, for a time in ms of which 0 means never: Unix time in ms.
fn deadline(argument: &[u8], now_ms: i64) -> Outcome<Option<i64>> {
    let timeout_ms = parse::integer_or(argument, "ERR timeout is not an integer or out of range")?;
    if timeout_ms < 0 {
        return Err(Error::TIMEOUT_NEGATIVE);
    }
    match now_ms.checked_add(timeout_ms) {
        _ if timeout_ms == 0 => Ok(None),
        None => Err(Error::fixed("ERR timeout is out of range")),
        deadline => Ok(deadline),
    }
}

fn wait(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let replicas = parse::integer(args.at(1))?;
    let deadline = deadline(args.at(2), access.now_ms())?;
    if replicas <= 0 {
        TimeoutReply::Zero.write(reply);
    } else {
        access.block(reply, (Kind::String, []), None, deadline, TimeoutReply::Zero);
    }
    Ok(())
}

fn waitaof(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    const LOCAL: &str = "ERR value is out of range, value must between 0 and 1";
    const REPLICAS: &str = "ERR value is out of range, must be positive";
    parse::integer(args.at(1))?;
    let local = parse::integer_in(args.at(1), 0, 1, LOCAL)?;
    let replicas = parse::integer_in(args.at(2), 0, i64::MAX, REPLICAS)?;
    let deadline = deadline(args.at(3), invocation.context.now_ms)?;
    let engine = invocation.engine();
    if local > 0 && !invocation.context.active.config.appendonly {
        return Err(Error::fixed(WAITAOF_WITHOUT_LOG));
    }
    let lsn = engine.log.end();
    let is_durable = engine.aof.is_durable(lsn);
    if invocation.in_transaction() || (replicas == 0 && (local == 0 || is_durable)) {
        write_confirmations(reply, is_durable);
        return Ok(());
    }
    engine.log.kick();
    let session = &mut *invocation.session;
    let on_timeout = TimeoutReply::Confirmations { lsn };
    let blocked = blocking::waiting_without_keys(engine, session, args, deadline, on_timeout)?;
    blocking::wait(engine, session, Arc::clone(&blocked));
    if replicas == 0 {
        aof::wait(engine, lsn, blocked);
    }
    Ok(())
}

fn failover(_session: &mut Invocation<'_, '_, '_>, args: Args<'_>, _reply: &mut Reply) -> Outcome {
    let (mut aborts, mut forces, mut has_timeout, mut has_target) = (false, false, false, false);
    let mut at = 1;
    while let Some(option) = args.get(at) {
        let left = args.len() - at - 1;
        if parse::is(option, "TIMEOUT") && left >= 1 && !has_timeout {
            if parse::integer(args.at(at + 1))? <= 0 {
                return Err(Error::fixed("ERR FAILOVER timeout must be greater than 0"));
            }
            has_timeout = true;
            at += 1;
        } else if parse::is(option, "ABORT") && args.len() == 2 {
            aborts = true;
        } else if parse::is(option, "TO") && left >= 2 && !has_target {
            parse::integer(args.at(at + 2))?;
            has_target = true;
            at += 2;
        } else if parse::is(option, "FORCE") && !forces {
            forces = true;
        } else {
            return Err(Error::SYNTAX);
        }
        at += 1;
    }
    if aborts {
        return Err(Error::fixed("ERR No failover in progress."));
    }
    Err(Error::fixed("ERR FAILOVER requires connected replicas."))
}

fn role(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    if role_of_replica(invocation.engine(), reply) {
        return Ok(());
    }
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(0);
    reply.array(0);
    Ok(())
}

fn psync(_session: &mut Invocation<'_, '_, '_>, args: Args<'_>, _reply: &mut Reply) -> Outcome {
    parse::integer(args.at(2))?;
    Err(NOT_A_MASTER)
}

fn sync(_session: &mut Invocation<'_, '_, '_>, _args: Args<'_>, _reply: &mut Reply) -> Outcome {
    Err(NOT_A_MASTER)
}

fn replconf(_session: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match args.len() {
        1 => reply.ok(),
        count if count.is_multiple_of(2) => return Err(Error::SYNTAX),
        _ => return Err(NOT_A_MASTER),
    }
    Ok(())
}

const ADMIN: Flags = Flags::ADMIN.or(Flags::NOSCRIPT);
const CHANGES_ROLE: Flags = ADMIN.or(Flags::STALE).or(Flags::NO_ASYNC_LOADING);
const STREAMS: Flags = ADMIN.or(Flags::NO_ASYNC_LOADING).or(Flags::NO_MULTI);
const MASTER: &str = "args:oneof(host-port:block(host:string port:integer) no-one:block(no:pure-token@NO \
                      one:pure-token@ONE))";
const CONFIRMATIONS: &[&str] = &["request_policy:all_shards", "response_policy:agg_min"];

/// The registration table of what waits.
pub(super) const WAITING: &[DataSpec] = &[DataSpec::new("wait", 3, wait, Flags::BLOCKING)
    .locks(Locks::Nothing)
    .categories(Categories::CONNECTION)
    .docs(Group::Generic, "3.0.0", "O(1)", "Waits until replicas have confirmed this client's writes.")
    .tips(CONFIRMATIONS)
    .arguments("numreplicas:integer timeout:integer")];

/// The registration table of the others.
pub(super) const COMMANDS: &[EngineSpec] = &[
    EngineSpec::new("waitaof", 4, waitaof, Flags::BLOCKING)
        .locks(Locks::Nothing)
        .categories(Categories::CONNECTION)
        .docs(Group::Generic, "7.2.0", "O(1)", "Waits until this client's writes are in append-only files.")
        .tips(CONFIRMATIONS)
        .arguments("numlocal:integer numreplicas:integer timeout:integer"),
    EngineSpec::new("failover", -1, failover, ADMIN.or(Flags::STALE))
        .locks(Locks::Nothing)
        .docs(Group::Server, "6.2.0", "O(1)", "Hands the role of master to a replica.")
        .arguments(
            "target:block(host:string port:integer force:pure-token@FORCE?)@TO? abort:pure-token@ABORT? \
             milliseconds:integer@TIMEOUT?",
        ),
    EngineSpec::new("replicaof", 3, replicaof, CHANGES_ROLE)
        .locks(Locks::All)
        .docs(Group::Server, "5.0.0", "O(1)", "Makes the server a replica, or a master again.")
        .arguments(MASTER),
    EngineSpec::new("slaveof", 3, replicaof, CHANGES_ROLE)
        .locks(Locks::All)
        .docs(Group::Server, "1.0.0", "O(1)", "Makes the server a replica, or a master again.")
        .deprecated("5.0.0", "`REPLICAOF`")
        .arguments(MASTER),
    EngineSpec::new("role", 1, role, Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::FAST))
        .locks(Locks::Nothing)
        .categories(Categories::ADMIN.or(Categories::DANGEROUS))
        .docs(Group::Server, "2.8.12", "O(1)", "Tells the role in replication."),
    EngineSpec::new("psync", -3, psync, STREAMS)
        .locks(Locks::Nothing)
        .docs(Group::Server, "2.8.0", "", "What a replica asks for the stream of changes with.")
        .arguments("replicationid:string offset:integer"),
    EngineSpec::new("sync", 1, sync, STREAMS).locks(Locks::Nothing).docs(
        Group::Server,
        "1.0.0",
        "",
        "What replicas of old asked for all data with.",
    ),
    EngineSpec::new("replconf", -1, replconf, ADMIN.or(ANY_TIME).or(Flags::ALLOW_BUSY))
        .locks(Locks::Nothing)
        .docs(Group::Server, "3.0.0", "O(1)", "How replicas and their master talk about the stream.")
        .internal(),
];

const ANY_TIME: Flags = Flags::LOADING.or(Flags::STALE);
