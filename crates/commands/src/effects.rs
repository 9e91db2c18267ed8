//! The effects of a handler, which the commit applies while the shards are still locked.

use std::sync::Arc;

use mantissa_protocol::{OwnedArgs, Reply};
use mantissa_store::{Database, Entry, Kind, ShardSet, Value};

/// Classes of keyspace events, with the bits of `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventClass(pub u32);

impl EventClass {
    /// `K`: publish to `__keyspace@N__:key`.
    pub const KEYSPACE: EventClass = EventClass(1 << 0);
    /// `E`: publish to `__keyevent@N__:event`.
    pub const KEYEVENT: EventClass = EventClass(1 << 1);
    /// `g`: commands on keys of any type.
    pub const GENERIC: EventClass = EventClass(1 << 2);
    /// `$`: strings.
    pub const STRING: EventClass = EventClass(1 << 3);
    /// `l`: lists.
    pub const LIST: EventClass = EventClass(1 << 4);
    /// `s`: sets.
    pub const SET: EventClass = EventClass(1 << 5);
    /// `h`: hashes.
    pub const HASH: EventClass = EventClass(1 << 6);
    /// `z`: sorted sets.
    pub const SORTED_SET: EventClass = EventClass(1 << 7);
    /// `x`: keys that expired.
    pub const EXPIRED: EventClass = EventClass(1 << 8);
    /// `e`: keys that were evicted.
    pub const EVICTED: EventClass = EventClass(1 << 9);
    /// `t`: streams.
    pub const STREAM: EventClass = EventClass(1 << 10);
    /// `m`: keys that were asked for and are not there.
    pub const KEY_MISS: EventClass = EventClass(1 << 11);
    /// `d`: module types.
    pub const MODULE: EventClass = EventClass(1 << 13);
    /// `a`: arrays.
    pub const ARRAY: EventClass = EventClass(1 << 17);
    /// `n`: keys that are new.
    pub const NEW: EventClass = EventClass(1 << 14);
    /// `o`: keys that were overwritten.
    pub const OVERWRITTEN: EventClass = EventClass(1 << 15);
    /// `c`: keys whose type changed.
    pub const TYPE_CHANGED: EventClass = EventClass(1 << 16);
}

/// A keyspace event to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The class, which decides whether it is published.
    pub class: EventClass,
    /// The event's name, such as `lpush`.
    pub name: &'static str,
    /// The database of the key.
    pub database: usize,
    /// The key.
    pub key: Box<[u8]>,
}

/// What goes to the log (append-only file, replicas) for a write.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LogChoice {
    /// The command as it came.
    #[default]
    Verbatim,
    /// These commands instead (none: nothing).
    Instead(Vec<OwnedArgs>),
}

/// What the reply is when a blocked client's time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutReply {
    /// A null array.
    NullArray,
    /// A null.
    Null,
    /// How many replicas have the log up to an LSN. Knowing it is the server's business.
    Acknowledgements {
        /// The LSN.
        lsn: u64,
    },
    /// Whether this server's log is durable up to an LSN, and on how many replicas it is. Knowing it is the
    /// server's business.
    Confirmations {
        /// The LSN.
        lsn: u64,
    },
    /// What the command comes to at that time, without waiting. For commands that change nothing.
    Run,
    /// None: what it waits for ends by itself, and nobody can make it end sooner.
    Never,
}

impl TimeoutReply {
    /// Writes it.
    pub fn write(self, reply: &mut Reply) {
        match self {
            TimeoutReply::NullArray => reply.null_array(),
            TimeoutReply::Null | TimeoutReply::Never => reply.null(),
            TimeoutReply::Run => reply.array(0),
            TimeoutReply::Acknowledgements { .. } => reply.integer(0),
            TimeoutReply::Confirmations { .. } => {
                reply.array(2);
                reply.integer(0);
                reply.integer(0);
            }
        }
    }
}

/// A handler's request to block its client until one of these keys can serve it.
#[derive(Clone, Debug)]
pub struct Blocking {
    /// The type of the values that the client waits for; a string where it waits for no key.
    pub kind: Kind,
    /// The keys, in the order of preference.
    pub keys: Vec<Box<[u8]>>,
    /// When to give up: Unix time in ms; `None` waits for ever.
    pub deadline: Option<i64>,
    /// The reply at that time.
    pub on_timeout: TimeoutReply,
    /// The shards of all keys that the command may touch.
    pub shards: ShardSet,
    /// Whether the client is also served when a key, or what the command needs of it, is gone.
    pub on_loss: bool,
    /// Whether the command is also tried again when a key that is there changes.
    pub on_growth: bool,
    /// When to run the command again even if nothing has happened to the keys: Unix time in ms.
    pub again_at_ms: Option<i64>,
    /// The command to run instead, where the original one would mean something else later.
    pub instead: Option<OwnedArgs>,
}

/// Fields that were removed from a hash because they had expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredFields {
    /// The database of the hash.
    pub database: usize,
    /// The key of the hash.
    pub key: Box<[u8]>,
    /// The fields.
    pub fields: Vec<Box<[u8]>>,
}

/// The database and the key of what was removed, and the command that removes it.
pub type RemovedKey = (usize, Box<[u8]>, &'static [u8]);

/// What a command has caused.
#[derive(Default)]
pub struct Effects {
    /// Number of changes, counted as Redis counts them for save points.
    pub dirty: u64,
    /// Keys that changed, noted only where clients may watch them or hold copies.
    pub changed: Vec<(usize, Box<[u8]>)>,
    /// Keys that were removed because they had expired, noted where `changed` would be.
    pub changed_by_expiry: Vec<(usize, Box<[u8]>)>,
    /// All keys of a database are gone: clients that hold copies are told that all are invalid.
    pub flushed: bool,
    /// A command has flushed all databases: dumps of what was before are out of date.
    pub emptied: bool,
    /// Events that are wanted by `notify-keyspace-events`.
    pub events: Vec<Event>,
    /// What to log.
    pub log: LogChoice,
    /// New keys, noted while a client waits for a key of their shard.
    pub ready: Vec<(usize, Box<[u8]>)>,
    /// Keys that were found expired by lookups that may not remove them.
    pub expired: Vec<(usize, Box<[u8]>)>,
    /// Keys that were removed by expiry or eviction, for the log, with the command that does the same.
    pub removed_expired: Vec<RemovedKey>,
    /// Fields that were removed because they had expired, for the log, where they go before the command.
    pub removed_fields: Vec<ExpiredFields>,
    /// Keys whose values were read and that no argument names.
    pub found: Vec<Arc<[u8]>>,
    /// Set if the handler asks to block its client.
    pub blocking: Option<Blocking>,
    /// What is to be freed once no shard is locked.
    pub to_free: LazyFree,
    /// Lookups that found their key.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Keys that expired.
    pub expired_count: u64,
    /// Hash fields that expired.
    pub expired_fields_count: u64,
}

/// What is freed once no shard is locked, as Redis's lazyfree does; large values by a thread of their own.
#[derive(Default)]
pub struct LazyFree {
    /// Entries taken out of the keyspace.
    pub entries: Vec<Entry>,
    /// Values replaced or taken out of entries.
    pub values: Vec<Value>,
    /// Whole tables.
    pub databases: Vec<Database>,
    /// Keys among these that Redis would leave to its background thread, as it counts them.
    pub lazy_objects: u64,
    /// All databases were flushed, which is to be noted in the dump file.
    pub emptied: bool,
}

impl LazyFree {
    /// The same, if there is anything to free.
    pub fn if_any(self) -> Option<Self> {
        let is_empty = self.entries.is_empty() && self.values.is_empty() && self.databases.is_empty();
        (!is_empty || self.emptied || self.lazy_objects > 0).then_some(self)
    }

    /// Adds what another one holds.
    pub fn append(&mut self, other: LazyFree) {
        join(&mut self.entries, other.entries);
        join(&mut self.values, other.values);
        join(&mut self.databases, other.databases);
        self.lazy_objects += other.lazy_objects;
        self.emptied |= other.emptied;
    }

    /// Whether freeing may take long enough to leave it to another thread.
    pub fn is_large(&self) -> bool {
        /// Elements that are freed at once.
        const EFFORT_MAX: usize = 64;
        /// Buckets of tables that are freed at once: those of some shards with a few keys each.
        const BUCKETS_MAX: usize = 4096;
        let buckets: usize = self.databases.iter().map(Database::bucket_count).sum();
        let keys: usize = self.databases.iter().map(Database::len).sum();
        if !self.values.is_empty() || buckets > BUCKETS_MAX || keys > EFFORT_MAX {
            return true;
        }
        let entries = self.databases.iter().flat_map(Database::iter).chain(&self.entries);
        entries.map(Entry::free_effort).sum::<usize>() > EFFORT_MAX
    }
}

/// The command to log for a key that was removed: replicas free its value in the background where this server
/// does.
pub fn removal(in_background: bool) -> &'static [u8] {
    if in_background { b"UNLINK" } else { b"DEL" }
}

/// Appends a list. Into an empty one it moves as a whole, so that a list that goes back and forth with every
/// command of a transaction costs nothing for its length.
pub(crate) fn join<T>(list: &mut Vec<T>, mut more: Vec<T>) {
    if list.is_empty() {
        *list = more;
    } else {
        list.append(&mut more);
    }
}
