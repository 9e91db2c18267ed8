//! What a replica is sent, in order: the answer to its request and the dump, then the log.
//!
//! Whoever has the connection calls [`send`] again and again, as long as the replica lives: the server's
//! workers at the end of each iteration of their event loops. Nothing is done for a command. What an
//! [`Outlet`] has no room for waits here or in the log.

use std::sync::atomic::Ordering;

use mantissa_config::Config;
use mantissa_persist::framing::parts::{self, Kind};
use mantissa_persist::log::{Chunk, Lost, Lsn};

use super::primary;
use crate::engine::Engine;
use crate::state::replication::{Outgoing, Piece, Replica};
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
    loop {
        // By turns, so that neither waits for the other.
        let ahead = match outgoing.is_amid_parts {
            true => send_ahead(engine, replica, (&mut outgoing, chunks), (outlet, &mut room)),
            false => Ok(0),
        };
        match ahead {
            Err(lost) => return Fate::Failed(too_slow(lost, config)),
            Ok(0) if outgoing.dump.is_empty() => break,
            Ok(_) if room == 0 => return Fate::Waits,
            Ok(_) => send_piece(engine, replica, &mut outgoing, (outlet, &mut room)),
        }
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

/// Sends one piece of what comes before the stream.
fn send_piece(
    engine: &Engine,
    replica: &Replica,
    outgoing: &mut Outgoing,
    (outlet, room): (&mut impl Outlet, &mut usize),
) {
    let Some(piece) = outgoing.dump.pop_front() else { return };
    outgoing.dump_bytes = outgoing.dump_bytes.saturating_sub(piece.byte_len());
    let (header, bytes): (&[u8], &[u8]) = match &piece {
        Piece::Bare(bytes) => (&[], bytes),
        Piece::Begin(bytes) => {
            outgoing.is_amid_parts = true;
            (&[], bytes)
        }
        Piece::Part(bytes) => (&parts::header(Kind::Dump, bytes.len()), bytes),
        Piece::End => {
            outgoing.is_amid_parts = false;
            (&parts::header(Kind::End, 0), &[])
        }
    };
    outlet.send([header, bytes].into_iter());
    let count = header.len() + bytes.len();
    *room = room.saturating_sub(count);
    count_sent(engine, replica, count);
    replica.has_sent.notify_all();
}

/// Sends some of the log as a part, if the replica takes more before the end of the dump. Returns how many
/// bytes.
fn send_ahead(
    engine: &Engine,
    replica: &Replica,
    (outgoing, chunks): (&mut Outgoing, &mut Vec<Chunk>),
    (outlet, room): (&mut impl Outlet, &mut usize),
) -> Result<usize, Lost> {
    let wanted = usize::try_from(outgoing.ahead_left).unwrap_or(usize::MAX).min(*room).min(SENT_BYTES_MAX);
    let Some(reader) = outgoing.reader.as_mut().filter(|reader| wanted > 0 && reader.behind() > 0) else {
        return Ok(0);
    };
    reader.read(Lsn::MAX, wanted, chunks)?;
    let bytes: usize = chunks.iter().map(|chunk| chunk.bytes().len()).sum();
    if bytes > 0 {
        let header = parts::header(Kind::Commands, bytes);
        outlet.send(std::iter::once(&header[..]).chain(chunks.iter().map(Chunk::bytes)));
        outgoing.ahead_left = outgoing.ahead_left.saturating_sub(bytes as u64);
        *room = room.saturating_sub(header.len() + bytes);
        count_sent(engine, replica, header.len() + bytes);
    }
    chunks.clear();
    Ok(bytes)
}

/// Why a replica is given up for which too much of the log waits.
fn too_slow(lost: Lost, config: &Config) -> String {
    let limit = primary::log_bytes_max(config);
    format!("{lost}, more than the {limit} of client-output-buffer-limit replica (hard) allow")
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
            return Fate::Failed(too_slow(lost, config));
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
