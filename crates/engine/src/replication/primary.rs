//! Serving replicas: who they are, what they are sent, and when they are given up.
//!
//! A connection becomes a replica by PSYNC or SYNC. From then on its worker sends what
//! [`Outgoing`](crate::state::replication::Outgoing) has for it, and nothing else: a request that gets a
//! reply ends the connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_config::Config;
use mantissa_persist::log::Lsn;
use mantissa_protocol::Reply;
use mantissa_store::ShardSet;
use mantissa_sys::clock::unix_ms;
use mantissa_sys::simulation::{self, Fault};

use super::{backlog, full_sync, waits};
use crate::client::Peer;
use crate::context::{Context, Outbox};
use crate::engine::Engine;
use crate::session::{Session, flag};
use crate::state::failover::FailoverState;
use crate::state::replication::{Piece, Replica, ReplicaState};
use crate::{notice, warning};

/// The place of replicas among the classes of `client-output-buffer-limit`.
const REPLICA_CLASS: usize = 1;
/// How often replicas are looked at, in ms.
const LOOK_INTERVAL_MS: i64 = 1000;

/// A replica as the log names it: its address and the port that it listens on.
pub fn name_of(replica: &Replica) -> String {
    match replica.port.load(Ordering::Relaxed) {
        0 => format!("{}:<unknown-replica-port>", address_of(replica)),
        port => format!("{}:{port}", address_of(replica)),
    }
}

/// The address that a replica is known by.
pub fn address_of(replica: &Replica) -> String {
    let announced = replica.address.lock();
    match &replica.session.peer {
        _ if !announced.is_empty() => announced.clone(),
        Peer::Tcp { remote, .. } => remote.ip().to_canonical().to_string(),
        Peer::Unix { path } => path.to_string(),
        Peer::Embedded => String::new(),
    }
}

/// The bytes of the log that may wait for a replica: less than the backlog makes no sense, since a replica
/// may go on with all of that.
pub fn log_bytes_max(config: &Config) -> u64 {
    match config.client_output_buffer_limits[REPLICA_CLASS].hard_bytes {
        0 => u64::MAX,
        bytes => bytes.max(config.repl_backlog_size),
    }
}

/// The bytes of the log that wait for a replica.
pub fn waiting_bytes(replica: &Replica) -> u64 {
    replica.outgoing.lock().reader.as_ref().map_or(0, |reader| reader.behind())
}

/// Makes a session's client a replica that waits for a dump, or is online.
pub fn join(engine: &Engine, session: &Session, replica: &Arc<Replica>, state: ReplicaState) {
    let now_ms = unix_ms();
    replica.set_state(state);
    replica.waits_since_ms.store(now_ms, Ordering::Relaxed);
    replica.acked_ms.store(now_ms, Ordering::Relaxed);
    session.shared.mark(flag::REPLICA, true);
    let replication = &engine.replication;
    let mut replicas = replication.replicas.lock();
    replicas.push(Arc::clone(replica));
    if !replica.is_dump_only.load(Ordering::Relaxed) {
        replication.replica_count.fetch_add(1, Ordering::Relaxed);
    }
    replication.serving.idle_since_ms.store(0, Ordering::Relaxed);
}

/// Forgets a replica whose session has ended.
pub fn leave(engine: &Engine, session: &mut Session) {
    let Some(replica) = session.replica.take() else { return };
    let replication = &engine.replication;
    let mut replicas = replication.replicas.lock();
    let count = replicas.len();
    replicas.retain(|other| !Arc::ptr_eq(other, &replica));
    if replicas.len() == count {
        return;
    }
    if !replica.is_dump_only.load(Ordering::Relaxed) {
        replication.replica_count.fetch_sub(1, Ordering::Relaxed);
    }
    if replicas.is_empty() {
        backlog::note_idle(engine);
    }
    drop(replicas);
    let mut outgoing = replica.outgoing.lock();
    outgoing.is_closed = true;
    let reader = outgoing.reader.take();
    let dump = std::mem::take(&mut outgoing.dump);
    outgoing.dump_bytes = 0;
    drop(outgoing);
    drop((reader, dump));
    replica.has_sent.notify_all();
    count_good(engine, &engine.active_config().config);
    notice!("Connection with replica {} lost.", name_of(&replica));
}

/// Has a replica's worker close its connection, and say why in the log.
pub fn give_up(engine: &Engine, replica: &Replica, reason: String) {
    replica.outgoing.lock().failure.get_or_insert(reason);
    replica.has_sent.notify_all();
    wake_worker(engine, replica);
}

/// Has a replica's worker look what there is to send.
pub fn wake_worker(engine: &Engine, replica: &Replica) {
    let worker = replica.session.target.lock().worker;
    engine.wake(worker);
}

/// Goes on with a replica at `offset`, the first that it wants, if this server's history has it. `asked` is
/// the history that it has followed. The reply is left in what is sent to it.
pub fn resume(engine: &Engine, session: &Session, replica: &Arc<Replica>, asked: &[u8], offset: i64) -> bool {
    let (replication, name) = (&engine.replication, name_of(replica));
    let history = replication.history();
    let is = |id: &str| id.as_bytes().eq_ignore_ascii_case(asked);
    let second = history.second.as_ref().filter(|(id, _)| is(id));
    let is_known = is(&history.id) || second.is_some_and(|(_, end)| reaches(*end, offset));
    if !is_known {
        if asked == b"?" {
            notice!("Full resync requested by replica {name}");
        } else if let Some((_, end)) = second {
            notice!(
                "Partial resynchronization not accepted: Requested offset for second ID was {offset}, but I \
                 can reply up to {end}"
            );
        } else {
            let second = history.second.map_or_else(|| "0".repeat(history.id.len()), |(id, _)| id);
            notice!(
                "Partial resynchronization not accepted: Replication ID mismatch (Replica asked for '{}', my \
                 replication IDs are '{}' and '{second}')",
                String::from_utf8_lossy(asked),
                history.id
            );
        }
        return false;
    }
    let config = &engine.active_config().config;
    let had = u64::try_from(offset.saturating_sub(1)).ok();
    let kept = had.and_then(|had| backlog::read_from(engine, had, log_bytes_max(config)));
    let Some((pieces, reader)) = kept else {
        notice!(
            "Unable to partial resync with replica {name} for lack of backlog (Replica request was: \
             {offset})."
        );
        if had.is_some_and(|had| had > self::offset(engine)) {
            warning!(
                "Warning: replica {name} tried to PSYNC with an offset that is greater than the master \
                 replication offset."
            );
        }
        return false;
    };
    let bytes = pieces.iter().map(|piece| piece.len() as u64).sum::<u64>() + reader.behind();
    if bytes >= log_bytes_max(config) {
        // It would be closed for what waits for it, again and again.
        notice!(
            "Unable to partial resync with replica {name}: the {bytes} bytes of backlog from offset {offset} \
             on are more than client-output-buffer-limit replica allows."
        );
        return false;
    }
    notice!(
        "Partial resynchronization request from {name} accepted. Sending {bytes} bytes of backlog starting \
         from offset {offset}."
    );
    let answer = match replica.takes_other_history.load(Ordering::Relaxed) {
        true => format!("+CONTINUE {}\r\n", history.id),
        false => "+CONTINUE\r\n".to_owned(),
    };
    {
        let mut outgoing = replica.outgoing.lock();
        outgoing.push(Piece::Bare(Arc::new(answer.into_bytes())));
        pieces.into_iter().for_each(|piece| outgoing.push(Piece::Bare(piece)));
        outgoing.dump_ended = true;
        outgoing.reader = Some(reader);
    }
    replication.serving.partial_syncs.fetch_add(1, Ordering::Relaxed);
    join(engine, session, replica, ReplicaState::Online);
    count_good(engine, config);
    true
}

/// Whether a history that ends before the byte `end` has the byte `offset`, or ends there.
fn reaches(end: u64, offset: i64) -> bool {
    offset <= end as i64 || simulation::has_fault(Fault::LongSecondHistory)
}

/// Has a replica be sent a dump.
pub fn begin_full(engine: &Engine, session: &Session, replica: &Arc<Replica>) {
    engine.replication.serving.full_syncs.fetch_add(1, Ordering::Relaxed);
    join(engine, session, replica, ReplicaState::WaitsForDump);
    if engine.replication.kept.lock().is_none() {
        let locked = engine.keyspace.lock(engine.keyspace.all_shards());
        backlog::begin(engine, &locked);
    }
    full_sync::start_if_due(engine, unix_ms());
}

/// Notes that the last of a dump has been handed to the driver. Whether that was all that is wanted.
pub fn dump_sent(engine: &Engine, replica: &Replica) -> bool {
    if replica.state() != ReplicaState::ReceivesDump {
        return false;
    }
    let name = name_of(replica);
    if replica.is_dump_only.load(Ordering::Relaxed) {
        notice!("RDB transfer completed, rdb only replica ({name}) should be disconnected asap");
        return true;
    }
    replica.acked_ms.store(unix_ms(), Ordering::Relaxed);
    replica.set_state(ReplicaState::Online);
    count_good(engine, &engine.active_config().config);
    notice!("Synchronization with replica {name} succeeded");
    false
}

/// REPLCONF ACK: a replica has applied everything before `offset`, and has it on its disk up to `durable`.
pub fn acknowledge(engine: &Engine, replica: &Replica, offset: u64, durable: Option<u64>, now_ms: i64) {
    replica.acked.fetch_max(offset, Ordering::Release);
    if let Some(durable) = durable {
        replica.acked_durable.fetch_max(durable, Ordering::Release);
    }
    replica.acked_ms.store(now_ms, Ordering::Relaxed);
    let mut outgoing = replica.outgoing.lock();
    match replica.state() {
        // The worker that runs this sends at the end of its iteration.
        ReplicaState::Online => outgoing.awaits_ack = false,
        // The replica has seen the end of the dump before this server has noted it.
        ReplicaState::ReceivesDump if outgoing.dump.is_empty() => {
            (outgoing.awaits_ack, outgoing.has_acked) = (false, true);
        }
        _ => {}
    }
    drop(outgoing);
    waits::serve(engine, false);
}

/// Counts the replicas that are online and not behind for longer than `min-replicas-max-lag`.
pub fn count_good(engine: &Engine, config: &Config) {
    let now_ms = unix_ms();
    let lag_max_ms = i64::from(config.min_replicas_max_lag) * 1000;
    let is_good = |replica: &&Arc<Replica>| {
        let lag_ms = now_ms - replica.acked_ms.load(Ordering::Relaxed);
        let is_one = replica.state() == ReplicaState::Online && !replica.is_successor();
        is_one && lag_ms / 1000 * 1000 <= lag_max_ms
    };
    let good = engine.replication.replicas.lock().iter().filter(is_good).count();
    engine.replication.good_replica_count.store(good, Ordering::Relaxed);
}

/// What is done once a second: signs of life, timeouts, dumps that are due, a backlog that nobody needs.
pub fn tick(context: &mut Context) {
    let (engine, now_ms) = (context.engine, context.now_ms);
    let serving = &engine.replication.serving;
    if now_ms - serving.looked_ms.load(Ordering::Relaxed) < LOOK_INTERVAL_MS {
        return;
    }
    serving.looked_ms.store(now_ms, Ordering::Relaxed);
    // The first period begins with the first look, whether a replica is there already or not.
    let _only_the_first = serving.pinged_ms.compare_exchange(0, now_ms, Ordering::Relaxed, Ordering::Relaxed);
    let active = Arc::clone(&context.active);
    let config = &active.config;
    backlog::expire(engine, config.repl_backlog_ttl, now_ms);
    backlog::trim_former(engine, config.repl_backlog_size);
    let replicas = engine.replication.replicas.lock().clone();
    if replicas.is_empty() {
        // The first replica gets its first PING after a whole period.
        serving.pinged_ms.store(now_ms, Ordering::Relaxed);
        return;
    }
    let ping_ms = i64::from(config.repl_ping_replica_period) * 1000;
    let is_handing_over = engine.replication.failover.state() != FailoverState::None;
    if !engine.replication.is_replica()
        && !is_handing_over
        && now_ms - serving.pinged_ms.load(Ordering::Relaxed) >= ping_ms
        && append_neutral(&mut context.outbox, &[b"PING"])
    {
        serving.pinged_ms.store(now_ms, Ordering::Relaxed);
    }
    let timeout_ms = i64::from(config.repl_timeout) * 1000;
    for replica in &replicas {
        if let Some(reader) = &replica.outgoing.lock().reader {
            reader.set_bytes_max(log_bytes_max(config));
        }
        match replica.state() {
            ReplicaState::WaitsForDump => {
                // Any byte keeps its timeout from firing, and this one is skipped.
                let mut outgoing = replica.outgoing.lock();
                // Looked at again: the dump may have begun.
                if outgoing.dump.is_empty() && replica.state() == ReplicaState::WaitsForDump {
                    outgoing.push(Piece::Bare(Arc::new(b"\n".to_vec())));
                    drop(outgoing);
                    wake_worker(engine, replica);
                }
            }
            // One of SYNC acknowledges nothing.
            ReplicaState::Online if replica.is_old.load(Ordering::Relaxed) => {}
            ReplicaState::Online if now_ms - replica.acked_ms.load(Ordering::Relaxed) > timeout_ms => {
                give_up(engine, replica, "it has not been heard of for repl-timeout (streaming sync)".into());
            }
            _ => {}
        }
    }
    count_good(engine, config);
    full_sync::start_if_due(engine, now_ms);
}

/// Appends a command that means the same whatever database is selected. False if it can not be now. A shard
/// is held meanwhile: so nothing comes between the cut of a dump, or a change of role, and the offset that is
/// told for it. This thread may hold shards already, for a slow script.
pub fn append_neutral(outbox: &mut Outbox<'_>, words: &[&[u8]]) -> bool {
    let engine = outbox.engine();
    let Ok(_held) = engine.keyspace.try_lock(ShardSet::one(0)) else { return false };
    if engine.replication.is_replica() {
        // Its log has its primary's bytes only.
        return false;
    }
    let mut unit = mantissa_persist::log::Unit::default();
    unit.set_neutral(words.iter().copied());
    let lsn = engine.log.append(&mut unit, 0);
    outbox.note_logged(lsn);
    true
}

/// Asks all replicas for acknowledgements, if somebody waits for them. To be called at the end of an
/// iteration of the event loop.
#[inline]
pub fn ask_for_acks(outbox: &mut Outbox<'_>) {
    let wants_acks = &outbox.engine().replication.serving.wants_acks;
    if wants_acks.load(Ordering::Relaxed)
        && wants_acks.swap(false, Ordering::Relaxed)
        && !append_neutral(outbox, &[b"REPLCONF", b"GETACK", b"*"])
    {
        let engine = outbox.engine();
        let waits = !engine.replication.is_replica();
        engine.replication.serving.wants_acks.store(waits, Ordering::Relaxed);
    }
}

/// Wakes the workers, but for the caller, whose replicas have read all of the log. To be called after
/// appending.
#[inline]
pub fn wake_senders(engine: &Engine, worker: usize) {
    if engine.replication.replica_count.load(Ordering::Relaxed) > 0 {
        std::sync::atomic::fence(Ordering::SeqCst);
        for (other, sleeps) in engine.replication.serving.sleeping.iter().enumerate() {
            if other != worker && sleeps.load(Ordering::Relaxed) && sleeps.swap(false, Ordering::SeqCst) {
                engine.wake(other);
            }
        }
    }
}

/// Notes that a worker sleeps whose replicas have read the log up to `read`. False if more has been appended
/// since.
pub fn begin_sleep(engine: &Engine, worker: usize, read: Lsn) -> bool {
    let sleeps = &engine.replication.serving.sleeping[worker];
    sleeps.store(true, Ordering::SeqCst);
    std::sync::atomic::fence(Ordering::SeqCst);
    engine.log.end() == read
}

/// A replica's state as INFO calls it.
pub fn state_name(replica: &Replica) -> &'static str {
    match replica.state() {
        ReplicaState::Handshake | ReplicaState::WaitsForDump => "wait_bgsave",
        ReplicaState::ReceivesDump if replica.is_streamed_to.load(Ordering::Relaxed) => "wait_bgsave",
        ReplicaState::ReceivesDump => "send_bulk",
        ReplicaState::Online => "online",
    }
}

/// The replicas that a list shows: those that are to be sent the stream or a dump, and whose connection is
/// not about to end.
pub fn shown(engine: &Engine) -> Vec<Arc<Replica>> {
    let stays = |replica: &&Arc<Replica>| !replica.session.has(flag::KILLED) && !replica.is_successor();
    engine.replication.replicas.lock().iter().filter(stays).cloned().collect()
}

/// Bytes that replication holds in memory.
pub struct Buffered {
    /// The backlog, up to its configured size.
    pub backlog: u64,
    /// What is kept of the log for the backlog and replicas.
    pub log: u64,
    /// What waits for replicas: the log beyond the backlog, chunks of dumps, and what the drivers have.
    pub replicas: u64,
}

/// What replication holds in memory.
pub fn buffered(engine: &Engine) -> Buffered {
    let kept = backlog::range(engine).map_or(0, |(_, bytes)| bytes);
    let backlog = kept.min(engine.active_config().config.repl_backlog_size);
    let mut buffered = Buffered { backlog, log: kept, replicas: 0 };
    let replicas = shown(engine);
    for replica in &replicas {
        let outgoing = replica.outgoing.lock();
        let behind = outgoing.reader.as_ref().map_or(0, |reader| reader.behind());
        buffered.log = buffered.log.max(behind);
        let unsent = replica.session.output_bytes.load(Ordering::Relaxed).saturating_sub(behind);
        buffered.replicas += outgoing.dump_bytes as u64 + unsent;
    }
    if !replicas.is_empty() {
        buffered.replicas += buffered.log - backlog;
    }
    buffered
}

/// The reply of ROLE by a primary.
pub fn write_role(engine: &Engine, reply: &mut Reply) {
    let replicas = shown(engine);
    let online = replicas.iter().filter(|replica| replica.state() == ReplicaState::Online);
    let online: Vec<_> = online.collect();
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(offset(engine) as i64);
    reply.array(online.len());
    for replica in online {
        reply.array(3);
        reply.bulk(address_of(replica).as_bytes());
        reply.bulk(replica.port.load(Ordering::Relaxed).to_string().as_bytes());
        reply.bulk(replica.acked.load(Ordering::Relaxed).to_string().as_bytes());
    }
}

/// `master_repl_offset`: the number of bytes in this server's history.
pub fn offset(engine: &Engine) -> u64 {
    engine.replication.offset_of(engine.log.end())
}
