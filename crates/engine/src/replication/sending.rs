//! What a replica is sent, in order: the answer to its request and the dump, then the log.
//!
//! Whoever has the connection calls [`send`] again and again, as long as the replica lives: the server's
//! workers at the end of each iteration of their event loops. Nothing is done for a command. What an
//! [`Outlet`] has no room for waits here or in the log.

use std::sync::atomic::Ordering;

use mantissa_config::Config;
use mantissa_persist::log::{Chunk, Lsn};

use super::primary;
use crate::engine::Engine;
use crate::state::replication::{Outgoing, Replica};
use crate::stats;

/// Bytes of the log that are handed over at once.
const SENT_BYTES_MAX: usize = 64 << 10;

/// The connection to a replica.
pub trait Outlet {
    /// Bytes that it takes now. It may be given somewhat more.
    fn room(&self) -> usize;

    /// Sends bytes, one part after the other.
    fn send<'p>(&mut self, parts: impl Iterator<Item = &'p [u8]>);
}

/// What has become of a replica.
#[derive(Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has all that there is.
    Served,
    /// It waits for room in the outlet.
    Waits,
    /// It has got the dump that it wanted, and nothing follows: its connection is to end.
    Done,
    /// Its connection is to be closed; why.
    Failed(String),
}

/// Hands over what there is for a replica, as far as there is room. `chunks` is empty before and after; it is
/// kept by the caller for its capacity.
pub fn send(
    engine: &Engine,
    replica: &Replica,
    config: &Config,
    chunks: &mut Vec<Chunk>,
    outlet: &mut impl Outlet,
) -> Fate {
    let mut outgoing = replica.outgoing.lock();
    if let Some(reason) = outgoing.failure.take() {
        return Fate::Failed(reason);
    }
    let mut room = outlet.room();
    if !outgoing.dump.is_empty() {
        while room > 0
            && let Some(chunk) = outgoing.dump.pop_front()
        {
            outgoing.dump_bytes = outgoing.dump_bytes.saturating_sub(chunk.len());
            room = room.saturating_sub(chunk.len());
            outlet.send(std::iter::once(&chunk[..]));
            count_sent(engine, replica, chunk.len());
        }
        replica.has_sent.notify_all();
    }
    if !outgoing.dump.is_empty() {
        return Fate::Waits;
    }
    if !outgoing.dump_ended {
        return Fate::Served;
    }
    drop(outgoing);
    if primary::dump_sent(engine, replica) {
        return Fate::Done;
    }
    let mut outgoing = replica.outgoing.lock();
    match outgoing.awaits_ack {
        true => Fate::Served,
        false => send_log(engine, replica, config, (&mut outgoing, chunks), (outlet, room)),
    }
}

fn send_log(
    engine: &Engine,
    replica: &Replica,
    config: &Config,
    (outgoing, chunks): (&mut Outgoing, &mut Vec<Chunk>),
    (outlet, mut room): (&mut impl Outlet, usize),
) -> Fate {
    let Some(reader) = &mut outgoing.reader else { return Fate::Served };
    while reader.behind() > 0 {
        if room == 0 {
            return Fate::Waits;
        }
        if let Err(lost) = reader.read(Lsn::MAX, room.min(SENT_BYTES_MAX), chunks) {
            let limit = primary::log_bytes_max(config);
            return Fate::Failed(format!(
                "{lost}, more than the {limit} of client-output-buffer-limit replica (hard) allow"
            ));
        }
        if chunks.is_empty() {
            // Somebody is still copying, and wakes who sends.
            return Fate::Served;
        }
        let bytes = chunks.iter().map(|chunk| chunk.bytes().len()).sum();
        outlet.send(chunks.iter().map(Chunk::bytes));
        chunks.clear();
        room = room.saturating_sub(bytes);
        count_sent(engine, replica, bytes);
    }
    Fate::Served
}

fn count_sent(engine: &Engine, replica: &Replica, bytes: usize) {
    stats::add(&replica.session.sent_bytes, bytes as u64);
    engine.replication.serving.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
}
