//! What replicas ask for (PSYNC, SYNC, REPLCONF), and waiting for what they have: WAIT and WAITAOF.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_commands::{Error, Outcome, TimeoutReply, parse};
use mantissa_protocol::{Args, Reply};

use super::replicaof::{caller, with_all_shards};
use crate::invocation::Invocation;
use crate::replication::{handshake, primary, role, waits};
use crate::session::{Session, Waiter, flag};
use crate::state::aof::WAITAOF_WITHOUT_LOG;
use crate::state::replication::{LinkState, Replica};
use crate::{blocking, notice, warning};

/// The longest announced address.
const ADDRESS_BYTES_MAX: usize = 255;
const WAIT_ON_REPLICA: Error = Error::fixed(
    "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is \
     configured to be writable (which is not the default) writes to replicas are just local and are not \
     propagated.",
);
const WAITAOF_ON_REPLICA: Error = Error::fixed(
    "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just \
     local and are not propagated.",
);

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

/// Up to where the log has what the client has written. A script has written nothing yet: what it writes is
/// logged once it ends, and what its caller has written before does not count.
fn written_before(invocation: &Invocation<'_, '_, '_>) -> u64 {
    match invocation.context.in_script {
        true => 0,
        false => invocation.session.logged_lsn,
    }
}

pub(super) fn wait(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let engine = invocation.engine();
    if engine.replication.is_replica() {
        return Err(WAIT_ON_REPLICA);
    }
    let replicas = parse::integer(args.at(1))?;
    let deadline = deadline(args.at(2), invocation.context.now_ms)?;
    let lsn = written_before(invocation);
    let have = engine.replication.confirming(lsn, false) as i64;
    if invocation.in_transaction() || invocation.context.in_script || have >= replicas {
        reply.integer(have);
        return Ok(());
    }
    let on_timeout = TimeoutReply::Acknowledgements { lsn };
    let waiter =
        |blocked| Waiter { lsn, local: false, replicas: replicas as usize, of_disks: false, blocked };
    block(invocation, args, deadline, on_timeout, waiter)
}

pub(super) fn waitaof(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    const LOCAL: &str = "ERR value is out of range, value must between 0 and 1";
    const REPLICAS: &str = "ERR value is out of range, must be positive";
    parse::integer(args.at(1))?;
    let local = parse::integer_in(args.at(1), 0, 1, LOCAL)? > 0;
    let replicas = parse::integer_in(args.at(2), 0, i64::MAX, REPLICAS)? as usize;
    let deadline = deadline(args.at(3), invocation.context.now_ms)?;
    let engine = invocation.engine();
    if engine.replication.is_replica() {
        return Err(WAITAOF_ON_REPLICA);
    }
    if local && !invocation.context.active.config.appendonly {
        return Err(Error::fixed(WAITAOF_WITHOUT_LOG));
    }
    let lsn = written_before(invocation);
    let is_local = !local || engine.aof.is_durable(lsn);
    let is_over = is_local && engine.replication.confirming(lsn, true) >= replicas;
    if invocation.in_transaction() || invocation.context.in_script || is_over {
        blocking::write_confirmations(engine, lsn, true, reply);
        return Ok(());
    }
    engine.log.kick();
    let on_timeout = TimeoutReply::Confirmations { lsn };
    let waiter = |blocked| Waiter { lsn, local, replicas, of_disks: true, blocked };
    block(invocation, args, deadline, on_timeout, waiter)
}

fn block(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    deadline: Option<i64>,
    on_timeout: TimeoutReply,
    waiter: impl FnOnce(Arc<crate::session::BlockedClient>) -> Waiter,
) -> Outcome {
    let engine = invocation.engine();
    let session = &mut *invocation.session;
    let blocked = blocking::waiting_without_keys(engine, session, args, deadline, on_timeout)?;
    blocking::wait(engine, session, Arc::clone(&blocked));
    waits::wait(engine, waiter(blocked));
    Ok(())
}

/// What is known of a session as a replica.
fn replica_of(session: &mut Session) -> Arc<Replica> {
    let shared = &session.shared;
    Arc::clone(session.replica.get_or_insert_with(|| Arc::new(Replica::new(Arc::clone(shared)))))
}

pub(super) fn psync(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, _reply: &mut Reply) -> Outcome {
    if args.get(3).is_some_and(|word| parse::is(word, "FAILOVER")) {
        take_over(invocation, args.at(1))?;
    }
    let Some(replica) = begin(invocation)? else { return Ok(()) };
    let engine = invocation.engine();
    let offset = parse::integer(args.at(2)).inspect_err(|_| {
        let name = primary::name_of(&replica);
        warning!("Replica {name} asks for synchronization but with a wrong offset");
    })?;
    if !primary::resume(engine, invocation.session, &replica, args.at(1), offset) {
        if args.at(1) != b"?" {
            engine.replication.serving.refused_partial_syncs.fetch_add(1, Ordering::Relaxed);
        }
        primary::begin_full(engine, invocation.session, &replica);
    }
    Ok(())
}

/// Takes the role of the primary that asks for it, whose history must be this server's.
fn take_over(invocation: &mut Invocation<'_, '_, '_>, id: &[u8]) -> Outcome {
    let replication = &invocation.engine().replication;
    notice!("Failover request received for replid {}.", id.escape_ascii());
    if !replication.is_replica() {
        return Err(Error::fixed("ERR PSYNC FAILOVER can't be sent to a master."));
    }
    if !replication.history().id.as_bytes().eq_ignore_ascii_case(id) {
        return Err(Error::fixed("ERR PSYNC FAILOVER replid must match my replid."));
    }
    if with_all_shards(invocation, |engine, _| role::lead(engine))? {
        notice!("MASTER MODE enabled (failover request from '{}')", caller(invocation));
    }
    Ok(())
}

pub(super) fn sync(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, _reply: &mut Reply) -> Outcome {
    let Some(replica) = begin(invocation)? else { return Ok(()) };
    replica.is_old.store(true, Ordering::Relaxed);
    primary::begin_full(invocation.engine(), invocation.session, &replica);
    Ok(())
}

/// The replica that a session becomes; none if it is one already.
fn begin(invocation: &mut Invocation<'_, '_, '_>) -> Outcome<Option<Arc<Replica>>> {
    let engine = invocation.engine();
    if invocation.session.shared.has(flag::REPLICA) {
        return Ok(None);
    }
    if invocation.session.is_framed {
        return Err(Error::fixed("ERR SYNC and PSYNC are not for connections over WebSocket"));
    }
    // The process that takes over from this one will follow the same primary, be it there or not.
    let is_successor = invocation.session.replica.as_ref().is_some_and(|replica| replica.is_successor());
    let link = &engine.replication.link;
    let is_whole = link.is_up() || is_successor && link.state() != LinkState::Transfer;
    if engine.replication.is_replica() && !is_whole {
        return Err(Error::fixed("NOMASTERLINK Can't SYNC while not connected with my master"));
    }
    let replica = replica_of(invocation.session);
    notice!("Replica {} asks for synchronization", primary::name_of(&replica));
    Ok(Some(replica))
}

pub(super) fn replconf(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(Error::SYNTAX);
    }
    let is_joined = invocation.session.shared.has(flag::REPLICA);
    for at in (1..args.len()).step_by(2) {
        let (name, value) = (args.at(at), args.at(at + 1));
        if parse::is(name, "ACK") {
            if is_joined {
                acknowledge(invocation, args, at);
            }
            return Ok(());
        }
        if parse::is(name, "GETACK") {
            // A primary that this server follows asks through the stream.
            return Ok(());
        }
        set(&replica_of(invocation.session), is_joined, name, value)?;
    }
    reply.ok();
    Ok(())
}

/// REPLCONF ACK offset [FACK offset].
fn acknowledge(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, at: usize) {
    let Some(replica) = invocation.session.replica.clone() else { return };
    let number = |argument: Option<&[u8]>| -> Option<u64> {
        parse::integer(argument?).ok().and_then(|number| u64::try_from(number).ok())
    };
    let Some(offset) = number(args.get(at + 1)) else { return };
    let has_durable = args.get(at + 2).is_some_and(|name| parse::is(name, "FACK"));
    let durable = if has_durable { number(args.get(at + 3)) } else { None };
    primary::acknowledge(invocation.engine(), &replica, offset, durable, invocation.context.now_ms);
}

/// One setting of a replica.
fn set(replica: &Replica, is_joined: bool, name: &[u8], value: &[u8]) -> Outcome {
    match &name.to_ascii_lowercase()[..] {
        b"listening-port" => {
            let port = parse::integer(value)?;
            replica.port.store(port as u32, Ordering::Relaxed);
        }
        b"ip-address" if value.len() <= ADDRESS_BYTES_MAX => {
            *replica.address.lock() = String::from_utf8_lossy(value).into_owned();
        }
        b"ip-address" => {
            return Err(Error::new(format!(
                "ERR REPLCONF ip-address provided by replica instance is too long: {} bytes",
                value.len()
            )));
        }
        b"capa" if parse::is(value, "EOF") => replica.takes_unknown_length.store(true, Ordering::Relaxed),
        b"capa" if parse::is(value, "PSYNC2") => replica.takes_other_history.store(true, Ordering::Relaxed),
        b"capa" if value.eq_ignore_ascii_case(handshake::CAPABILITY) => {
            replica.is_own_kind.store(true, Ordering::Relaxed);
        }
        b"capa" if value.starts_with(handshake::AHEAD_PREFIX.as_bytes()) => {
            let bytes = mantissa_number::parse_u64(&value[handshake::AHEAD_PREFIX.len()..]);
            replica.ahead_bytes_max.store(bytes.unwrap_or(0), Ordering::Relaxed);
        }
        // One that is not known is as if it were not there.
        b"capa" => {}
        b"version" => {
            let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
            let parts = value.split(|&byte| byte == b'.');
            if !parts.clone().all(is_number) || parts.count() != 3 {
                return Err(Error::quoting("ERR Unrecognized version format: ", value, ""));
            }
            *replica.version.lock() = String::from_utf8_lossy(value).into_owned();
        }
        b"rdb-only" => {
            const RANGE: &str = "ERR value is out of range, value must between 0 and 1";
            parse::integer(value)?;
            let is_dump_only = parse::integer_in(value, 0, 1, RANGE)? == 1;
            if !is_joined {
                replica.is_dump_only.store(is_dump_only, Ordering::Relaxed);
            }
        }
        b"rdb-filter-only" => filter(replica, value)?,
        _ => return Err(Error::quoting("ERR Unrecognized REPLCONF option: ", name, "")),
    }
    Ok(())
}

/// REPLCONF rdb-filter-only: the kinds of content that a dump is to have, separated by spaces.
fn filter(replica: &Replica, kinds: &[u8]) -> Outcome {
    replica.without_keys.store(true, Ordering::Relaxed);
    replica.without_functions.store(true, Ordering::Relaxed);
    for kind in kinds.split(u8::is_ascii_whitespace).filter(|kind| !kind.is_empty()) {
        if !parse::is(kind, "FUNCTIONS") {
            return Err(Error::quoting("ERR Unsupported rdb-filter-only option: ", kind, ""));
        }
        replica.without_functions.store(false, Ordering::Relaxed);
    }
    Ok(())
}
