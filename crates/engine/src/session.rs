//! A session: what is known of a client. [`Session`] is the part that runs its commands; [`SharedSession`] is
//! the part that all threads may look at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use mantissa_protocol::{OwnedArgs, Protocol};
use parking_lot::Mutex;

use crate::acl::User;
use crate::host::{ConnId, Peer, Target};
use crate::registry::Command;
use crate::tracking::Tracker;

/// Bits of [`ClientShared::flags`], which CLIENT LIST prints as letters.
pub mod flag {
    /// `x`: inside MULTI.
    pub const MULTI: u32 = 1 << 0;
    /// `b`: waits in a blocking command.
    pub const BLOCKED: u32 = 1 << 1;
    /// `O`: runs MONITOR.
    pub const MONITOR: u32 = 1 << 3;
    /// `P`: subscribed to something.
    pub const PUBSUB: u32 = 1 << 4;
    /// `e`: not to be evicted.
    pub const NO_EVICT: u32 = 1 << 5;
    /// `T`: does not mark keys as used.
    pub const NO_TOUCH: u32 = 1 << 6;
    /// `U`: connected through a unix socket.
    pub const UNIX: u32 = 1 << 7;
    /// CLIENT KILL has chosen it: nothing more that it sends is run. It is in no list any more.
    pub const KILLED: u32 = 1 << 8;
    /// `t`: is told when keys change.
    pub const TRACKING: u32 = 1 << 9;
    /// `B`: is told of all keys with certain prefixes.
    pub const TRACKING_BROADCAST: u32 = 1 << 10;
    /// Only reads after CLIENT CACHING YES count.
    pub const TRACKING_OPT_IN: u32 = 1 << 11;
    /// Reads after CLIENT CACHING NO do not count.
    pub const TRACKING_OPT_OUT: u32 = 1 << 12;
    /// Is not told of its own changes.
    pub const TRACKING_NO_LOOP: u32 = 1 << 13;
    /// `R`: the client that was to be told in its place is gone.
    pub const TRACKING_BROKEN: u32 = 1 << 14;
    /// Everything that CLIENT TRACKING sets.
    pub const ALL_TRACKING: u32 = TRACKING
        | TRACKING_BROADCAST
        | TRACKING_OPT_IN
        | TRACKING_OPT_OUT
        | TRACKING_NO_LOOP
        | TRACKING_BROKEN;
    /// Has been named as the one to be told in the place of another.
    pub const GETS_MESSAGES: u32 = 1 << 15;
    /// CLIENT REPLY OFF: it gets pushed messages, and nothing else.
    pub const SILENT: u32 = 1 << 16;
}

/// Texts that a client gives itself.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// CLIENT SETNAME.
    pub name: Vec<u8>,
    /// CLIENT SETINFO LIB-NAME.
    pub library_name: Vec<u8>,
    /// CLIENT SETINFO LIB-VER.
    pub library_version: Vec<u8>,
}

/// The part of a session that all threads may look at. Figures are brought up to date after each batch of
/// requests.
pub struct SharedSession {
    /// Unique, growing.
    pub id: u64,
    /// Who is at the other end.
    pub peer: Peer,
    /// The socket's file descriptor, for CLIENT LIST.
    pub descriptor: i32,
    /// When it connected, Unix time in ms.
    pub connected_ms: i64,
    /// When it last sent something, Unix time in ms.
    pub active_ms: AtomicI64,
    /// Where to reach it.
    pub target: Mutex<Target>,
    /// Names.
    pub identity: Mutex<Identity>,
    /// Who has logged in.
    pub user: Mutex<Arc<User>>,
    /// Bits of [`flag`].
    pub flags: AtomicU32,
    /// Database number.
    pub database: AtomicU32,
    /// 2 or 3.
    pub protocol: AtomicU32,
    /// Index of the last command in the registry plus 1; 0 before the first.
    pub last_command: AtomicU32,
    /// Subscribed channels.
    pub channel_count: AtomicU32,
    /// Subscribed patterns.
    pub pattern_count: AtomicU32,
    /// Subscribed shard channels.
    pub shard_channel_count: AtomicU32,
    /// Queued commands of a transaction plus 1; 0 outside MULTI.
    pub queued_plus_1: AtomicU32,
    /// Bytes of the queued commands of a transaction.
    pub transaction_bytes: AtomicU64,
    /// Watched keys.
    pub watched_count: AtomicU32,
    /// Bytes of the watched keys.
    pub watched_bytes: AtomicU64,
    /// The client that is told in its place when keys change; 0 if it is told itself.
    pub redirect: AtomicU64,
    /// While keys are watched: set by whoever changes one of them.
    pub watch_dirty: Mutex<Option<Arc<AtomicBool>>>,
    /// Bytes of an unfinished request.
    pub query_bytes: AtomicU64,
    /// Bytes of its buffer that are free.
    pub query_free_bytes: AtomicU64,
    /// Bytes queued and not sent.
    pub output_bytes: AtomicU64,
    /// Bytes of the names.
    pub identity_bytes: AtomicU64,
    /// All bytes that it takes.
    pub memory_bytes: AtomicU64,
    /// Bytes received.
    pub received_bytes: AtomicU64,
    /// Bytes sent.
    pub sent_bytes: AtomicU64,
    /// Commands run.
    pub command_count: AtomicU64,
}

impl SharedSession {
    /// What is known of a client that has just connected.
    pub fn new(
        id: u64,
        peer: Peer,
        descriptor: i32,
        now_ms: i64,
        target: Target,
        user: &Arc<User>,
    ) -> SharedSession {
        SharedSession {
            id,
            flags: AtomicU32::new(if peer.is_unix() { flag::UNIX } else { 0 }),
            peer,
            descriptor,
            connected_ms: now_ms,
            active_ms: AtomicI64::new(now_ms),
            target: Mutex::new(target),
            identity: Mutex::new(Identity::default()),
            user: Mutex::new(Arc::clone(user)),
            database: AtomicU32::new(0),
            protocol: AtomicU32::new(2),
            last_command: AtomicU32::new(0),
            channel_count: AtomicU32::new(0),
            pattern_count: AtomicU32::new(0),
            shard_channel_count: AtomicU32::new(0),
            queued_plus_1: AtomicU32::new(0),
            transaction_bytes: AtomicU64::new(0),
            watched_count: AtomicU32::new(0),
            watched_bytes: AtomicU64::new(0),
            watch_dirty: Mutex::default(),
            redirect: AtomicU64::new(0),
            query_bytes: AtomicU64::new(0),
            query_free_bytes: AtomicU64::new(0),
            output_bytes: AtomicU64::new(0),
            identity_bytes: AtomicU64::new(0),
            memory_bytes: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            command_count: AtomicU64::new(0),
        }
    }

    /// Changes names.
    pub fn change_identity(&self, change: impl FnOnce(&mut Identity)) {
        let mut identity = self.identity.lock();
        change(&mut identity);
        let Identity { name, library_name, library_version } = &*identity;
        let bytes = name.capacity() + library_name.capacity() + library_version.capacity();
        self.identity_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// Whether any of these bits is set.
    pub fn has(&self, bits: u32) -> bool {
        self.flags.load(Ordering::Relaxed) & bits != 0
    }

    /// Who is told in its place as clients see it: a number, 0 for itself, -1 if nobody is told.
    pub fn redirect_shown(&self) -> i64 {
        if self.has(flag::TRACKING) { self.redirect.load(Ordering::Relaxed) as i64 } else { -1 }
    }

    /// Whether this is who has logged in.
    pub fn belongs_to(&self, user: &Arc<User>) -> bool {
        Arc::ptr_eq(&self.user.lock(), user)
    }

    /// Sets or clears bits.
    pub fn mark(&self, bits: u32, on: bool) {
        if on {
            self.flags.fetch_or(bits, Ordering::Relaxed);
        } else {
            self.flags.fetch_and(!bits, Ordering::Relaxed);
        }
    }
}

/// A queued command of a transaction.
pub struct Queued {
    /// The command.
    pub command: &'static Command,
    /// Its arguments.
    pub args: OwnedArgs,
}

/// What MULTI has begun.
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

/// What WATCH guards.
#[derive(Default)]
pub struct Watching {
    /// Set by whoever changes one of the keys.
    pub dirty: Arc<AtomicBool>,
    /// Database and key.
    pub keys: Vec<(usize, Box<[u8]>)>,
}

/// CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// Replies are sent.
    #[default]
    On,
    /// None is.
    Off,
    /// The next one is not.
    SkipNext,
    /// This one is not.
    Skip,
}

impl ReplyMode {
    /// Whether the reply of the present command is not sent.
    #[inline]
    pub fn is_silent(self) -> bool {
        matches!(self, ReplyMode::Off | ReplyMode::Skip)
    }
}

/// A command that waits for one of its keys. The owner's worker and whoever serves it agree through the
/// state.
pub struct BlockedClient {
    /// The client.
    pub session: Arc<SharedSession>,
    /// Who gave the command.
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
    /// The place in the queues.
    pub ticket: u64,
    /// What it waits for.
    pub blocking: mantissa_commands::Blocking,
    /// The time that it took until it began to wait, in ns.
    pub spent_ns: AtomicU64,
    /// Whether it still waits. Whoever serves, times out or unblocks it holds this lock meanwhile.
    pub waiting: Mutex<bool>,
}

/// Subscriptions.
#[derive(Default)]
pub struct Subscriptions {
    /// Channels.
    pub channels: indexmap::IndexSet<Vec<u8>>,
    /// Patterns.
    pub patterns: indexmap::IndexSet<Vec<u8>>,
    /// Shard channels.
    pub shard_channels: indexmap::IndexSet<Vec<u8>>,
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

/// The state of a client that its commands read and change. It is a plain value: whoever runs the client's
/// commands owns it.
pub struct Session {
    /// The part that all may see.
    pub shared: Arc<SharedSession>,
    /// The host's number for it.
    pub conn: ConnId,
    /// RESP2 or RESP3.
    pub protocol: Protocol,
    /// Database number.
    pub database: usize,
    /// Who has logged in: the default user before anybody has.
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
    /// MULTI.
    pub transaction: Option<Box<Transaction>>,
    /// WATCH.
    pub watching: Option<Box<Watching>>,
    /// Blocked in a command.
    pub blocked: Option<Arc<BlockedClient>>,
    /// Subscriptions.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// CLIENT TRACKING.
    pub tracker: Option<Box<Tracker>>,
}

impl Session {
    /// A client that has just connected.
    pub fn new(shared: Arc<SharedSession>, conn: ConnId, authenticated: bool) -> Session {
        let user = Arc::clone(&shared.user.lock());
        Session {
            shared,
            conn,
            protocol: Protocol::Resp2,
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
            tracker: None,
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
}
