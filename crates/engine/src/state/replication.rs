//! The state of replication: this server's history of changes, its replicas, and the primary it follows.
//!
//! The log of commits is the replication stream. An offset is a byte in the stream of a history, and counts
//! as Redis counts; an LSN is the same byte in this process's log, which never goes back. They differ by a
//! constant ([`Replication::offset_of`]) that changes where a replica takes over its primary's data: at the
//! instant at which the data are exchanged, with all shards locked.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use mantissa_persist::log::{Backlog, Lsn, Reader};
use mantissa_sys::clock::unix_ms;
use parking_lot::{Condvar, Mutex};

use crate::client::{Peer, SharedSession};
use crate::state::failover::Failover;
use crate::state::serving::Serving;

/// Hexadecimal digits in the name of a history.
pub const ID_DIGITS: usize = 40;

/// The histories whose changes this server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The present one: `master_replid`.
    pub id: String,
    /// The one before a promotion or restart, and the offset of the first byte that was no longer in it:
    /// `master_replid2` and `second_repl_offset`.
    pub second: Option<(String, u64)>,
}

/// Keys that a replica looks after itself.
#[derive(Default)]
pub struct OwnExpiries {
    /// The keys, each with its database.
    pub keys: BTreeSet<(usize, Box<[u8]>)>,
    /// Where the next round begins.
    pub next: (usize, Box<[u8]>),
}

/// Where a primary is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A host name or address.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

/// What keeps the end of the log for replicas that come back.
pub struct Kept {
    /// The backlog.
    pub backlog: Backlog,
    /// The first LSN that belongs to the present history.
    pub first: Lsn,
    /// What comes before `first` in that history, from the process that this one has taken over from. Of use
    /// as long as the log has `first`.
    pub former: Option<Former>,
}

/// A part of a history that is not in this process's log.
#[derive(Default)]
pub struct Former {
    /// The offset of its first byte, minus 1: the bytes of the history before it.
    pub offset: u64,
    /// Its bytes, in pieces.
    pub pieces: VecDeque<Arc<Vec<u8>>>,
    /// Their number.
    pub bytes: u64,
}

impl Former {
    /// Adds a piece behind `offset` bytes of the history. What does not reach up to that is dropped.
    pub fn push(&mut self, offset: u64, piece: Vec<u8>) {
        if offset != self.end() {
            *self = Former { offset, ..Former::default() };
        }
        self.bytes += piece.len() as u64;
        self.pieces.push_back(Arc::new(piece));
    }

    /// The number of bytes of the history up to its end.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// Drops pieces from the front, as long as `bytes` bytes are left.
    pub fn trim(&mut self, bytes: u64) {
        while let Some(first) = self.pieces.front()
            && self.bytes - first.len() as u64 >= bytes
        {
            self.bytes -= first.len() as u64;
            self.offset += first.len() as u64;
            self.pieces.pop_front();
        }
    }

    /// What follows `offset` bytes of the history; `None` if it begins later or has ended before.
    pub fn from(&self, offset: u64) -> Option<Vec<Arc<Vec<u8>>>> {
        let mut skipped = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        let mut pieces = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            match skipped.checked_sub(piece.len()) {
                Some(left) => skipped = left,
                None if skipped == 0 => pieces.push(Arc::clone(piece)),
                None => pieces.push(Arc::new(piece[std::mem::take(&mut skipped)..].to_vec())),
            }
        }
        (skipped == 0).then_some(pieces)
    }
}

/// The state of replication.
pub struct Replication {
    history: Mutex<History>,
    /// An offset minus its LSN, modulo 2^64.
    shift: AtomicU64,
    is_replica: AtomicBool,
    /// The primary that it follows.
    pub primary: Mutex<Option<Address>>,
    /// What is known of the link to the primary.
    pub link: Link,
    /// The connected replicas, from their PSYNC or SYNC on.
    pub replicas: Mutex<Vec<Arc<Replica>>>,
    /// The number of replicas that the stream is for; readable without the lock.
    pub replica_count: AtomicUsize,
    /// The number of replicas that are online and have acknowledged lately: `min_slaves_good_slaves`.
    pub good_replica_count: AtomicUsize,
    /// The backlog, if there is one.
    pub kept: Mutex<Option<Kept>>,
    /// Of a writable replica: the keys that its own clients gave an expiry.
    pub own_expiries: Mutex<OwnExpiries>,
    /// The failover that is under way.
    pub failover: Failover,
    /// What serving replicas needs.
    pub serving: Serving,
}

impl Replication {
    /// A primary without replicas, at the beginning of this history.
    pub fn new(id: String, worker_count: usize) -> Self {
        Replication {
            history: Mutex::new(History { id, second: None }),
            shift: AtomicU64::new(0),
            is_replica: AtomicBool::new(false),
            primary: Mutex::new(None),
            link: Link::default(),
            replicas: Mutex::default(),
            replica_count: AtomicUsize::new(0),
            good_replica_count: AtomicUsize::new(0),
            kept: Mutex::default(),
            own_expiries: Mutex::default(),
            failover: Failover::default(),
            serving: Serving::new(worker_count),
        }
    }

    /// The histories whose changes this server has.
    pub fn history(&self) -> History {
        self.history.lock().clone()
    }

    /// Goes on under these names.
    pub fn set_history(&self, history: History) {
        *self.history.lock() = history;
    }

    /// The offset of the byte with this LSN.
    pub fn offset_of(&self, lsn: Lsn) -> u64 {
        lsn.wrapping_add(self.shift.load(Ordering::Acquire))
    }

    /// The LSN of the byte with this offset, which may never have been in the log.
    pub fn lsn_of(&self, offset: u64) -> Lsn {
        offset.wrapping_sub(self.shift.load(Ordering::Acquire))
    }

    /// Has the byte with this LSN be at this offset. All shards must be locked, unless nobody is served yet.
    pub fn align(&self, lsn: Lsn, offset: u64) {
        self.shift.store(offset.wrapping_sub(lsn), Ordering::Release);
    }

    /// The number of replicas that have everything before an LSN; on their disks where `of_disks`. With 0,
    /// before which there is nothing, that of all replicas that are online.
    pub fn confirming(&self, lsn: Lsn, of_disks: bool) -> usize {
        let offset = self.offset_of(lsn);
        let has_it = |replica: &&Arc<Replica>| {
            if replica.is_successor() {
                return false;
            }
            let acked = if of_disks { &replica.acked_durable } else { &replica.acked };
            replica.state() == ReplicaState::Online && (lsn == 0 || acked.load(Ordering::Acquire) >= offset)
        };
        self.replicas.lock().iter().filter(has_it).count()
    }

    /// Whether writes are refused because fewer than `replicas` of them keep up.
    pub fn lacks(&self, replicas: u32, lag_max_s: u32) -> bool {
        let good = || self.good_replica_count.load(Ordering::Relaxed);
        replicas > 0 && lag_max_s > 0 && !self.is_replica() && good() < replicas as usize
    }

    /// Whether the server follows another.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Ordering::Relaxed)
    }

    /// Has the link be down at once: its connection is to be closed. Its thread connects again.
    pub(crate) fn lose_link(&self) {
        let _held_by_who_changes_the_state = self.primary.lock();
        if self.link.is_up() {
            self.link.enter(LinkState::Connect);
        }
    }

    /// Sets whether the server follows another.
    pub(crate) fn set_replica(&self, is_replica: bool) {
        self.is_replica.store(is_replica, Ordering::Release);
    }
}

/// The steps of the link to the primary, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkState {
    /// The server is a primary.
    None,
    /// To be connected: `connect` in ROLE.
    Connect,
    /// Under way: `connecting`, and `handshake` in ROLE.
    Connecting,
    /// The primary's answers to the greeting are awaited.
    Handshake,
    /// The dump arrives or is loaded: `sync` in ROLE.
    Transfer,
    /// The stream is applied.
    Connected,
}

/// What is known of the link to the primary.
#[derive(Default)]
pub struct Link {
    state: AtomicU8,
    /// Grows with each change of the primary: a link with another number ends.
    pub epoch: AtomicU64,
    /// The ends of the last connection to this primary.
    pub peer: Mutex<Option<Peer>>,
    /// When something last came from the primary, Unix time in ms.
    pub heard_ms: AtomicI64,
    /// Since when the link is down, Unix time in s; 0 if it is up or never was.
    pub down_since_s: AtomicI64,
    /// Since when the link is up, Unix time in s.
    pub up_since_s: AtomicI64,
    /// Seconds for which the link was down, without the present time.
    pub down_s: AtomicI64,
    /// Attempts to connect since the link was last up.
    pub attempts: AtomicU64,
    /// Attempts to connect since this primary is followed.
    pub attempts_total: AtomicU64,
    /// Bytes of the dump: expected (-1 if unknown), and received.
    pub dump_bytes: AtomicI64,
    /// Bytes of the dump that have been received.
    pub dump_received: AtomicU64,
    /// Bytes of commands that came before the dump was loaded and wait to be applied.
    pub ahead_bytes: AtomicU64,
    /// The highest value of `ahead_bytes`.
    pub ahead_bytes_peak: AtomicU64,
    /// Bytes of the stream that wait for the end of CLIENT PAUSE.
    pub unapplied_bytes: AtomicU64,
    /// When some of the dump was last received, Unix time in s.
    pub dump_heard_s: AtomicI64,
    /// Bytes read from the primary since the start.
    pub read_bytes: AtomicU64,
}

impl Link {
    /// The state.
    pub fn state(&self) -> LinkState {
        match self.state.load(Ordering::Acquire) {
            0 => LinkState::None,
            1 => LinkState::Connect,
            2 => LinkState::Connecting,
            3 => LinkState::Handshake,
            4 => LinkState::Transfer,
            _ => LinkState::Connected,
        }
    }

    /// Sets the state.
    pub fn set_state(&self, state: LinkState) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Sets the state, and notes when the link went up or down. The primary's lock must be held.
    pub fn enter(&self, state: LinkState) {
        let (was_up, now_s) = (self.is_up(), unix_ms() / 1000);
        self.set_state(state);
        if self.is_up() && !was_up {
            let down_since_s = self.down_since_s.swap(0, Ordering::Relaxed);
            if down_since_s > 0 {
                self.down_s.fetch_add((now_s - down_since_s).max(0), Ordering::Relaxed);
            }
            self.up_since_s.store(now_s, Ordering::Relaxed);
        } else if was_up && !self.is_up() {
            self.down_since_s.store(now_s, Ordering::Relaxed);
            self.attempts.store(0, Ordering::Relaxed);
        }
    }

    /// Begins anew, with another primary or none.
    pub fn begin(&self, state: LinkState) {
        self.set_state(state);
        self.down_since_s.store(0, Ordering::Relaxed);
        self.attempts.store(0, Ordering::Relaxed);
        self.attempts_total.store(0, Ordering::Relaxed);
        *self.peer.lock() = None;
    }

    /// Where clients reach the primary of this replica: the IP address of the link to it, or what it follows.
    pub fn endpoint(&self, following: &Address) -> Address {
        match &*self.peer.lock() {
            Some(Peer::Tcp { remote, .. }) => {
                Address { host: remote.ip().to_canonical().to_string(), port: following.port }
            }
            _ => following.clone(),
        }
    }

    /// Whether the link with this number is the present one. Does not change while the caller holds a shard.
    #[inline]
    pub fn is_current(&self, epoch: u64) -> bool {
        self.epoch.load(Ordering::Acquire) == epoch
    }

    /// Notes how many bytes of commands wait for the dump.
    pub fn note_ahead(&self, bytes: u64) {
        self.ahead_bytes.store(bytes, Ordering::Relaxed);
        self.ahead_bytes_peak.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Whether the stream is applied: `master_link_status:up`.
    pub fn is_up(&self) -> bool {
        self.state() == LinkState::Connected
    }
}

/// The steps of a replica, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplicaState {
    /// It has sent REPLCONF, and no PSYNC yet.
    Handshake,
    /// It waits for a dump to begin: `wait_bgsave`.
    WaitsForDump,
    /// It is sent the dump: `send_bulk`.
    ReceivesDump,
    /// It is sent the stream: `online`.
    Online,
}

impl Outgoing {
    /// Adds something to be sent before the stream.
    pub fn push(&mut self, piece: Piece) {
        self.dump_bytes += piece.byte_len();
        self.dump.push_back(piece);
    }
}

/// What the path of a successor's connection is said to be.
pub const SUCCESSOR: &str = "hand-over";

/// A connected replica.
pub struct Replica {
    /// Its session.
    pub session: Arc<SharedSession>,
    /// REPLCONF listening-port.
    pub port: AtomicU32,
    /// REPLCONF ip-address; empty for the address of its connection.
    pub address: Mutex<String>,
    /// REPLCONF version, which Valkey's replicas send.
    pub version: Mutex<String>,
    /// REPLCONF capa eof: a dump may come without its length.
    pub takes_unknown_length: AtomicBool,
    /// REPLCONF capa psync2: the reply of a partial resynchronisation may name another history.
    pub takes_other_history: AtomicBool,
    /// Others are not waited for: its dump begins at once.
    pub is_urgent: AtomicBool,
    /// It is a server of this kind: it has named the capability.
    pub is_own_kind: AtomicBool,
    /// The bytes of the stream that it takes before the end of a dump in parts; 0 if it takes no parts.
    pub ahead_bytes_max: AtomicU64,
    /// REPLCONF rdb-only: it wants a dump and no stream.
    pub is_dump_only: AtomicBool,
    /// REPLCONF rdb-filter-only: it wants no keys.
    pub without_keys: AtomicBool,
    /// REPLCONF rdb-filter-only that does not name functions: it wants none.
    pub without_functions: AtomicBool,
    /// It has asked by SYNC: a dump is not announced by a reply.
    pub is_old: AtomicBool,
    /// Since when it has waited for a dump, Unix time in ms.
    pub waits_since_ms: AtomicI64,
    /// That dump is sent while it is made, up to a mark.
    pub is_streamed_to: AtomicBool,
    /// A dump under way is for it.
    pub is_in_dump: AtomicBool,
    state: AtomicU8,
    /// The offset that it has acknowledged.
    pub acked: AtomicU64,
    /// The offset that is durable there: REPLCONF ACK with FACK.
    pub acked_durable: AtomicU64,
    /// When it last acknowledged, Unix time in ms.
    pub acked_ms: AtomicI64,
    /// What its worker is to send.
    pub outgoing: Mutex<Outgoing>,
    /// Waited on by who fills the dump's queue.
    pub has_sent: Condvar,
}

/// What comes before the stream.
pub enum Piece {
    /// Bytes that go as they are: answers, and a dump that does not go in parts.
    Bare(Arc<Vec<u8>>),
    /// An answer behind which parts begin.
    Begin(Arc<Vec<u8>>),
    /// Bytes of a dump that goes in parts.
    Part(Arc<Vec<u8>>),
    /// No part follows.
    End,
}

impl Piece {
    /// The number of bytes.
    pub fn byte_len(&self) -> usize {
        match self {
            Piece::Bare(bytes) | Piece::Begin(bytes) | Piece::Part(bytes) => bytes.len(),
            Piece::End => 0,
        }
    }
}

/// What is to be sent to a replica: the dump, then the stream. In parts the stream may come between the
/// pieces of the dump.
#[derive(Default)]
pub struct Outgoing {
    /// Pieces of the dump.
    pub dump: VecDeque<Piece>,
    /// The sum of their lengths.
    pub dump_bytes: usize,
    /// Nothing will be added to `dump`.
    pub dump_ended: bool,
    /// The stream begins when the replica acknowledges the dump, whose end it knows by a mark only.
    pub awaits_ack: bool,
    /// It has acknowledged the dump already.
    pub has_acked: bool,
    /// The reader of the stream. It is read from when the dump has been sent, or in parts.
    pub reader: Option<Reader>,
    /// The dump goes in parts.
    pub has_parts: bool,
    /// What is sent now is a part.
    pub is_amid_parts: bool,
    /// Bytes of the stream that the replica still takes before the end of the dump.
    pub ahead_left: u64,
    /// The connection has ended: what is added is dropped.
    pub is_closed: bool,
    /// Why the worker is to close the connection; for the log.
    pub failure: Option<String>,
}

impl Replica {
    /// Whether it is the process that is to take over from this one: to others it is no replica.
    pub fn is_successor(&self) -> bool {
        matches!(&self.session.peer, Peer::Unix { path } if **path == *SUCCESSOR)
    }

    /// What it has said of itself and goes over to another process. New ones come last: each has
    /// its bit there.
    pub fn abilities(&self) -> [&AtomicBool; 7] {
        [
            &self.takes_unknown_length,
            &self.takes_other_history,
            &self.is_dump_only,
            &self.without_keys,
            &self.without_functions,
            &self.is_own_kind,
            &self.is_old,
        ]
    }

    /// A replica whose session has begun to talk as one.
    pub fn new(session: Arc<SharedSession>) -> Self {
        Replica {
            session,
            port: AtomicU32::new(0),
            address: Mutex::default(),
            version: Mutex::default(),
            takes_unknown_length: AtomicBool::new(false),
            takes_other_history: AtomicBool::new(false),
            is_urgent: AtomicBool::new(false),
            is_own_kind: AtomicBool::new(false),
            ahead_bytes_max: AtomicU64::new(0),
            is_dump_only: AtomicBool::new(false),
            without_keys: AtomicBool::new(false),
            without_functions: AtomicBool::new(false),
            is_old: AtomicBool::new(false),
            waits_since_ms: AtomicI64::new(0),
            is_streamed_to: AtomicBool::new(false),
            is_in_dump: AtomicBool::new(false),
            state: AtomicU8::new(ReplicaState::Handshake as u8),
            acked: AtomicU64::new(0),
            acked_durable: AtomicU64::new(0),
            acked_ms: AtomicI64::new(0),
            outgoing: Mutex::default(),
            has_sent: Condvar::new(),
        }
    }

    /// The state.
    pub fn state(&self) -> ReplicaState {
        match self.state.load(Ordering::Acquire) {
            0 => ReplicaState::Handshake,
            1 => ReplicaState::WaitsForDump,
            2 => ReplicaState::ReceivesDump,
            _ => ReplicaState::Online,
        }
    }

    /// Sets the state.
    pub fn set_state(&self, state: ReplicaState) {
        self.state.store(state as u8, Ordering::Release);
    }
}
