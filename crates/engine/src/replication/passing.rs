//! Replicas whose connections go over to another process, which has the same stream: see the hand-over of an
//! upgrade in the server. They go on where they are, and notice nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_persist::log::{Lsn, Start};

use super::primary;
use crate::engine::Engine;
use crate::engine_state::Pair;
use crate::notice;
use crate::session::Session;
use crate::state::replication::{Replica, ReplicaState};

/// What is known of a replica, in a form for another process. Offsets stand for LSNs, which differ there.
#[derive(Default)]
pub struct PassedReplica {
    port: u32,
    address: String,
    version: String,
    /// Bits, in the order of [`Replica::abilities`].
    abilities: u64,
    acked: u64,
    acked_durable: u64,
    acked_ms: i64,
    /// The offset of what it has been sent; none before its PSYNC.
    sent: Option<u64>,
}

/// Whether a session can go over: not amid a dump.
pub fn may_go(session: &Session) -> bool {
    let Some(replica) = &session.replica else { return true };
    let outgoing = replica.outgoing.lock();
    match replica.state() {
        ReplicaState::Handshake => true,
        ReplicaState::WaitsForDump | ReplicaState::ReceivesDump => false,
        ReplicaState::Online => {
            let has_dump = outgoing.dump.is_empty() && outgoing.dump_ended && !outgoing.awaits_ack;
            has_dump && outgoing.reader.is_some() && outgoing.failure.is_none()
        }
    }
}

/// Whether any replica is amid a dump.
pub fn are_syncing(engine: &Engine) -> bool {
    let is_syncing =
        |replica: &Replica| replica.state() != ReplicaState::Online || replica.outgoing.lock().awaits_ack;
    primary::shown(engine).iter().any(|replica| is_syncing(replica))
}

/// The offset that stands for an LSN; 0 for none.
pub fn passed_lsn(engine: &Engine, lsn: Lsn) -> u64 {
    if lsn == 0 { 0 } else { engine.replication.offset_of(lsn) }
}

/// The LSN that an offset stands for. What was before the beginning of this log is at the beginning.
pub fn lsn_passed(engine: &Engine, offset: u64) -> Lsn {
    let (lsn, end) = (engine.replication.lsn_of(offset), engine.log.end());
    match offset {
        0 => 0,
        _ if lsn <= end => lsn,
        _ => end.min(1),
    }
}

impl PassedReplica {
    /// What is known of the replica that a session is. `None` if it is none.
    pub fn of(engine: &Engine, session: &Session) -> Option<PassedReplica> {
        let replica = session.replica.as_ref()?;
        let bits = replica.abilities().into_iter().enumerate();
        let abilities = bits.fold(0, |bits, (at, is)| bits | u64::from(is.load(Ordering::Relaxed)) << at);
        let reader_lsn = replica.outgoing.lock().reader.as_ref().map(|reader| reader.lsn());
        Some(PassedReplica {
            port: replica.port.load(Ordering::Relaxed),
            address: replica.address.lock().clone(),
            version: replica.version.lock().clone(),
            abilities,
            acked: replica.acked.load(Ordering::Acquire),
            acked_durable: replica.acked_durable.load(Ordering::Acquire),
            acked_ms: replica.acked_ms.load(Ordering::Relaxed),
            sent: reader_lsn.map(|lsn| engine.replication.offset_of(lsn)),
        })
    }

    /// It as pairs.
    pub fn encode(&self) -> Vec<Pair> {
        let number = |value: u64| value.to_string().into_bytes();
        let mut pairs: Vec<Pair> = vec![
            (b"replica-port", number(self.port.into())),
            (b"replica-address", self.address.clone().into_bytes()),
            (b"replica-version", self.version.clone().into_bytes()),
            (b"replica-abilities", number(self.abilities)),
            (b"replica-acked", number(self.acked)),
            (b"replica-acked-durable", number(self.acked_durable)),
            (b"replica-acked-ms", number(self.acked_ms as u64)),
        ];
        pairs.extend(self.sent.map(|offset| (&b"replica-sent"[..], number(offset))));
        pairs
    }

    /// Takes in one of the pairs. `None` if it makes no sense; names that are not known are left out.
    pub fn take(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        let number = || mantissa_number::parse_u64(value);
        let text = || String::from_utf8(value.to_vec()).ok();
        match name {
            b"replica-port" => self.port = number()? as u32,
            b"replica-address" => self.address = text()?,
            b"replica-version" => self.version = text()?,
            b"replica-abilities" => self.abilities = number()?,
            b"replica-acked" => self.acked = number()?,
            b"replica-acked-durable" => self.acked_durable = number()?,
            b"replica-acked-ms" => self.acked_ms = number()? as i64,
            b"replica-sent" => self.sent = Some(number()?),
            _ => {}
        }
        Some(())
    }

    /// Makes a session such a replica: the stream goes on behind what it has been sent.
    pub fn restore(&self, engine: &Engine, session: &mut Session) -> Result<(), String> {
        let replica = Arc::new(Replica::new(Arc::clone(&session.shared)));
        replica.port.store(self.port, Ordering::Relaxed);
        replica.address.lock().clone_from(&self.address);
        replica.version.lock().clone_from(&self.version);
        for (at, ability) in replica.abilities().into_iter().enumerate() {
            ability.store(self.abilities >> at & 1 != 0, Ordering::Relaxed);
        }
        replica.acked.store(self.acked, Ordering::Release);
        replica.acked_durable.store(self.acked_durable, Ordering::Release);
        if let Some(offset) = self.sent {
            let config = &engine.active_config().config;
            let start = Start::At(engine.replication.lsn_of(offset));
            let reader = engine.log.register(start, primary::log_bytes_max(config), None);
            let reader = reader.map_err(|kept| format!("offset {offset} of the stream is gone: {kept}"))?;
            {
                let mut outgoing = replica.outgoing.lock();
                outgoing.dump_ended = true;
                outgoing.reader = Some(reader);
            }
            primary::join(engine, session, &replica, ReplicaState::Online);
            replica.acked_ms.store(self.acked_ms, Ordering::Relaxed);
            primary::count_good(engine, config);
            notice!("Replica {} goes on here, at offset {offset}", primary::name_of(&replica));
        }
        session.replica = Some(replica);
        Ok(())
    }
}
