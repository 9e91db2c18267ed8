//! A session: the state of a client. [`Session`] belongs to the thread that runs its commands; all threads
//! may read [`SharedSession`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use indexmap::IndexSet;
use mantissa_commands::{ForRequest, Lent, TimeoutReply, Unread};
use mantissa_persist::log::Lsn;
use mantissa_protocol::{OwnedArgs, Protocol};
use mantissa_store::cold::Part;
use parking_lot::Mutex;

use crate::acl::User;
use crate::client::ConnId;
use crate::field_sets::FieldSets;
use crate::invocation::Command;
use crate::memory_limit::Lease;
use crate::state::replication::Replica;
use crate::state::tier::{Batch, PartRead, Waiting};
use crate::state::tracking::Tracker;

pub use crate::client::{Identity, SharedSession, flag};

/// A queued command of a transaction.
pub struct Queued {
    /// The command.
    pub command: &'static Command,
    /// Its arguments.
    pub args: OwnedArgs,
}

/// A transaction since its MULTI.
#[derive(Default)]
pub struct Transaction {
    /// The commands so far.
    pub queue: Vec<Queued>,
    /// A command could not be queued: EXEC will refuse.
    pub aborted: bool,
    /// Bytes that the queued commands take.
    pub bytes: usize,
    /// Bytes of the queued arguments alone, which count as bytes of a request.
    pub argument_bytes: usize,
}

/// The watched keys of a session.
#[derive(Default)]
pub struct Watching {
    /// Set when one of the keys changes.
    pub dirty: Arc<AtomicBool>,
    /// Database and key.
    pub keys: IndexSet<(usize, Box<[u8]>)>,
}

/// CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// Replies are sent.
    #[default]
    On,
    /// No reply is sent.
    Off,
    /// The reply of the next command is not sent.
    SkipNext,
    /// The reply of the present command is not sent.
    Skip,
}

impl ReplyMode {
    /// Whether the reply of the present command is not sent.
    #[inline]
    pub fn is_silent(self) -> bool {
        matches!(self, ReplyMode::Off | ReplyMode::Skip)
    }
}

/// A blocked command. The lock on `waiting` decides which thread serves it, times it out or unblocks it.
pub struct BlockedClient {
    /// The client.
    pub session: Arc<SharedSession>,
    /// The user that called the command.
    pub user: Arc<User>,
    /// The command.
    pub command: &'static Command,
    /// Its arguments.
    pub args: OwnedArgs,
    /// The database it was given in.
    pub database: usize,
    /// The protocol of its reply.
    pub protocol: Protocol,
    /// Whether its keys are noted as read when it is served.
    pub remembers_reads: bool,
    /// Its place in the queues of its keys: lower ones are served first.
    pub ticket: u64,
    /// When it began to wait, Unix time in ms.
    pub since_ms: i64,
    /// What it waits for.
    pub blocking: mantissa_commands::Blocking,
    /// When its worker is to run its command again, Unix time in ms; `i64::MAX` for never. Only the worker
    /// changes it.
    pub again_at_ms: AtomicI64,
    /// The same as the latest run of the command had it.
    pub again_wanted_ms: AtomicI64,
    /// The time that it took until it began to wait, in ns.
    pub spent_ns: AtomicU64,
    /// Whether it is still blocked. Held by the thread that serves it, times it out or unblocks it.
    pub waiting: Mutex<bool>,
}

impl BlockedClient {
    /// Whether it waits for work of this server, which ends by itself, and not for other clients or servers.
    pub fn waits_for_work(&self) -> bool {
        self.blocking.on_timeout == TimeoutReply::Never
    }
}

/// What a client in WAIT or WAITAOF waits for: everything before an LSN is to be in these places.
pub struct Waiter {
    /// The LSN.
    pub lsn: Lsn,
    /// On this server's disk.
    pub local: bool,
    /// Replicas that have it; that have it on their disks, for WAITAOF.
    pub replicas: usize,
    /// The command is WAITAOF.
    pub of_disks: bool,
    /// The client.
    pub blocked: Arc<BlockedClient>,
}

/// The outcome of a blocked command.
pub struct Served {
    /// Its reply.
    pub reply: Vec<u8>,
    /// The time that its last run took, in ns.
    pub spent_ns: u64,
    /// Its user was no longer allowed to run it.
    pub is_rejected: bool,
    /// The client is disconnected after the reply.
    pub ends_session: bool,
}

impl Served {
    /// The outcome without another run: it has timed out, or was unblocked.
    pub fn without_run(reply: Vec<u8>) -> Self {
        Served { reply, spent_ns: 0, is_rejected: false, ends_session: false }
    }

    /// The text of the error that it replies, if it does.
    pub fn error(&self) -> Option<String> {
        let line = self.reply.strip_prefix(b"-")?;
        let end = line.iter().position(|&byte| byte == b'\r').unwrap_or(line.len());
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }
}

/// Subscriptions.
#[derive(Default)]
pub struct Subscriptions {
    /// Channels.
    pub channels: IndexSet<Vec<u8>>,
    /// Patterns.
    pub patterns: IndexSet<Vec<u8>>,
    /// Shard channels.
    pub shard_channels: IndexSet<Vec<u8>>,
    /// Bytes that all names take.
    pub bytes: usize,
}

impl Subscriptions {
    /// The number that replies to SUBSCRIBE and PSUBSCRIBE count.
    pub fn count(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// Whether there is none of any kind.
    pub fn is_empty(&self) -> bool {
        self.count() + self.shard_channels.len() == 0
    }
}

/// What is known of a request that turns out to need values on disk: it is run again once they have been
/// read.
#[derive(Default)]
pub struct Rerun {
    /// Whether values may be on disk, so that what it turns out to need is noted.
    pub is_noted: bool,
    /// Whether it has, and what is to be read.
    pub unread: Vec<Unread>,
    /// Records that are to be read for the request alone.
    pub for_request: Option<ForRequest>,
    /// Those that are being read. The token is dropped with the request.
    pub batch: Option<(Arc<Batch>, Arc<()>)>,
    /// What was taken of those that have been read, if any have.
    pub lent: Option<Box<Lent>>,
    /// What holds their bytes.
    pub leases: Vec<Arc<Lease>>,
    /// How often it has.
    pub count: u32,
    /// Calls that it has made as a script or a transaction: they have been counted and shown.
    pub called: usize,
    /// Lines that it has written to the log as a script.
    pub logged: usize,
}

impl Rerun {
    /// How often a request begins anew.
    pub const COUNT_MAX: u32 = 64;
    /// How often a transaction does. Each time it repeats the commands before the one that lacks a value,
    /// with its shards locked.
    pub const TRANSACTION_COUNT_MAX: u32 = 8;

    /// Whether values are to be read before the request runs.
    pub fn has_unread(&self) -> bool {
        !(self.unread.is_empty() && self.for_request.is_none())
    }

    /// Whether the request may end to begin anew.
    pub fn is_possible(&self) -> bool {
        self.is_noted && self.count < Self::COUNT_MAX
    }
}

/// The state of a client that its commands read and change. It is a plain value, owned by the thread that
/// runs the client's commands.
pub struct Session {
    /// The part that all may see.
    pub shared: Arc<SharedSession>,
    /// The host's number for it.
    pub conn: ConnId,
    /// RESP2 or RESP3.
    pub protocol: Protocol,
    /// What RESET goes back to.
    pub first_protocol: Protocol,
    /// What it is sent goes in frames, as over WebSocket: it can be no replica.
    pub is_framed: bool,
    /// Database number.
    pub database: usize,
    /// The user: the default user before a login.
    pub user: Arc<User>,
    /// It has logged in, or did not have to when it connected.
    pub authenticated: bool,
    /// To be closed once the reply is sent; nothing more is run.
    pub closing: bool,
    /// To be closed at once.
    pub killed: bool,
    /// CLIENT REPLY.
    pub reply_mode: ReplyMode,
    /// CLIENT NO-TOUCH.
    pub no_touch: bool,
    /// The transaction since MULTI.
    pub transaction: Option<Box<Transaction>>,
    /// The keys that WATCH has named.
    pub watching: Option<Box<Watching>>,
    /// The command that it is blocked in.
    pub blocked: Option<Arc<BlockedClient>>,
    /// Subscriptions.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// The field sets that HIMPORT PREPARE has named, if any.
    pub field_sets: Option<Box<FieldSets>>,
    /// Prefixes and options of CLIENT TRACKING, while it is on.
    pub tracker: Option<Box<Tracker>>,
    /// How often its present request has waited for values on disk.
    pub fetches: u32,
    /// The values that it waits for.
    pub waiting: Option<Arc<Waiting>>,
    /// What its present request has turned out to need besides.
    pub rerun: Rerun,
    /// What is read for that request of a string on disk, if it needs only a part.
    pub part: Option<Arc<PartRead>>,
    /// The LSN behind its last write that was logged; 0 if there is none.
    pub logged_lsn: Lsn,
    /// What is known of it as a replica, once it has begun to talk as one.
    pub replica: Option<Arc<Replica>>,
}

impl Session {
    /// A client that has just connected.
    pub fn new(shared: Arc<SharedSession>, conn: ConnId, authenticated: bool) -> Session {
        let user = Arc::clone(&shared.user.lock());
        Session {
            shared,
            conn,
            protocol: Protocol::Resp2,
            first_protocol: Protocol::Resp2,
            is_framed: false,
            database: 0,
            user,
            authenticated,
            closing: false,
            killed: false,
            reply_mode: ReplyMode::On,
            no_touch: false,
            transaction: None,
            watching: None,
            blocked: None,
            subscriptions: None,
            field_sets: None,
            tracker: None,
            fetches: 0,
            waiting: None,
            rerun: Rerun::default(),
            part: None,
            logged_lsn: 0,
            replica: None,
        }
    }

    /// Whether it is subscribed to anything.
    pub fn is_subscribed(&self) -> bool {
        self.subscriptions.as_ref().is_some_and(|subscriptions| !subscriptions.is_empty())
    }

    /// Whether the keys that its command reads are to be noted.
    #[inline]
    pub fn remembers_reads(&self) -> bool {
        self.shared.has(flag::TRACKING) && self.wants_reads_remembered()
    }

    #[cold]
    fn wants_reads_remembered(&self) -> bool {
        let caching = self.tracker.as_ref().and_then(|tracker| tracker.caching);
        !self.shared.has(flag::TRACKING_BROADCAST)
            && (!self.shared.has(flag::TRACKING_OPT_IN) || caching == Some(true))
            && (!self.shared.has(flag::TRACKING_OPT_OUT) || caching != Some(false))
    }

    /// Makes it a client of this user.
    pub fn set_user(&mut self, user: &Arc<User>) {
        *self.shared.user.lock() = Arc::clone(user);
        self.user = Arc::clone(user);
    }

    /// Forgets what its request has waited for: it does not run.
    pub fn forget_fetches(&mut self) {
        (self.fetches, self.waiting) = (0, None);
        (self.part, self.rerun) = (None, Rerun::default());
    }

    /// Selects a database.
    pub fn select(&mut self, number: usize) {
        self.database = number;
        self.shared.database.store(number as u32, Ordering::Relaxed);
    }

    /// Sets CLIENT REPLY.
    pub fn set_reply_mode(&mut self, mode: ReplyMode) {
        self.reply_mode = mode;
        self.shared.mark(flag::SILENT, mode == ReplyMode::Off);
    }

    /// Switches to a protocol.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        let number = if protocol == Protocol::Resp3 { 3 } else { 2 };
        self.shared.protocol.store(number, Ordering::Relaxed);
    }

    /// Bytes that it takes: its structures and all that it keeps waiting. What it has left unread counts as
    /// last noted.
    pub fn memory_bytes(&self) -> u64 {
        const BASE: usize = size_of::<Session>() + size_of::<SharedSession>();
        let shared = &self.shared;
        let get = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let arguments = self.blocked.as_ref().map_or(0, |blocked| blocked.args.memory_usage());
        let subscriptions = self.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.bytes);
        let field_sets = self.field_sets.as_ref().map_or(0, |field_sets| field_sets.bytes());
        let part = self.part.as_ref().and_then(|part| part.part()).map_or(0, Part::byte_len);
        (BASE + arguments + subscriptions + field_sets + part) as u64
            + get(&shared.query_bytes)
            + get(&shared.query_free_bytes)
            + get(&shared.output_bytes)
            + get(&shared.transaction_bytes)
            + get(&shared.watched_bytes)
            + get(&shared.prefix_bytes)
            + get(&shared.identity_bytes)
    }
}
