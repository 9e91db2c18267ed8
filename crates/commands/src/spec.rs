//! What a command is: the single registration from which everything about it derives.
//!
//! Each family file ends in a table of [`Spec`]s. Dispatch, arity checks, key locking, MULTI, ACL, COMMAND
//! INFO, COMMAND DOCS, CLI hints and completion all read it; nothing about a command is written down twice.

use std::ops::Range;

use mantissa_protocol::Args;
use mantissa_store::Kind;
use mantissa_store::cold::Elements;

use smallvec::SmallVec;

use crate::DataHandler;
use crate::settings::Settings;

/// Defines a set of bits. The crate `bitflags` would not spare it: Redis's names of the bits need a macro
/// around that crate, and its `union` makes the tables' chains of `or` longer.
macro_rules! bit_set {
    (
        $(#[$outer:meta])* $set:ident: $repr:ty {
            $($(#[$inner:meta])* $name:ident = $bit:expr;)*
        }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        pub struct $set(pub $repr);

        const _: () = {
            let bits: &[u32] = &[$($bit),*];
            let (mut seen, mut index) = (0u64, 0);
            while index < bits.len() {
                assert!(seen & 1 << bits[index] == 0, "a bit has two names");
                seen |= 1 << bits[index];
                index += 1;
            }
        };

        impl $set {
            $($(#[$inner])* pub const $name: $set = $set(1 << $bit);)*
            /// No bit.
            pub const NONE: $set = $set(0);

            /// The bits of both.
            pub const fn or(self, other: $set) -> $set {
                $set(self.0 | other.0)
            }

            /// Whether all bits of `other` are set.
            #[inline]
            pub const fn has(self, other: $set) -> bool {
                self.0 & other.0 == other.0
            }
        }
    };
}

/// Defines a set of bits with the names that COMMAND INFO prints.
macro_rules! bits {
    (
        $(#[$outer:meta])* $set:ident: $repr:ty {
            $($(#[$inner:meta])* $name:ident = $bit:expr, $text:expr;)*
        }
    ) => {
        bit_set! {
            $(#[$outer])* $set: $repr {
                $($(#[$inner])* $name = $bit;)*
            }
        }

        impl $set {
            /// Every bit with its name, in the order in which Redis prints them.
            pub const ALL: &'static [($set, &'static str)] = &[$(($set::$name, $text)),*];

            /// The names of the bits that are set.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                $set::ALL.iter().filter(move |(bit, _)| self.has(*bit)).map(|(_, name)| *name)
            }
        }
    };
}

bits! {
    /// Command flags, as COMMAND INFO names them.
    Flags: u32 {
        /// May change data.
        WRITE = 0, "write";
        /// Reads data.
        READONLY = 1, "readonly";
        /// Refused when memory is short.
        DENYOOM = 2, "denyoom";
        /// Part of a module of Redis's.
        MODULE = 22, "module";
        /// For administrators.
        ADMIN = 3, "admin";
        /// Concerns publish and subscribe.
        PUBSUB = 4, "pubsub";
        /// Not from scripts.
        NOSCRIPT = 5, "noscript";
        /// May block the client.
        BLOCKING = 6, "blocking";
        /// Allowed while loading.
        LOADING = 7, "loading";
        /// Allowed on a replica with stale data.
        STALE = 8, "stale";
        /// Not shown by MONITOR.
        SKIP_MONITOR = 9, "skip_monitor";
        /// Not logged as slow.
        SKIP_SLOWLOG = 10, "skip_slowlog";
        /// Cluster: as if ASKING came before.
        ASKING = 11, "asking";
        /// Constant or logarithmic time.
        FAST = 12, "fast";
        /// Allowed before AUTH.
        NO_AUTH = 13, "no_auth";
        /// Replicated although it does not write.
        MAY_REPLICATE = 14, "may_replicate";
        /// May be called without any key although it has key specifications.
        NO_MANDATORY_KEYS = 19, "no_mandatory_keys";
        /// Not allowed during asynchronous loading.
        NO_ASYNC_LOADING = 15, "no_async_loading";
        /// Not inside MULTI.
        NO_MULTI = 16, "no_multi";
        /// Has keys that the key specifications do not find.
        MOVABLE_KEYS = 17, "movablekeys";
        /// Allowed while a script keeps the server busy.
        ALLOW_BUSY = 18, "allow_busy";
        /// DEBUG and MODULE: refused unless enabled. Not shown.
        PROTECTED = 20, "protected";
        /// Only for Sentinel. Not shown.
        SENTINEL = 21, "sentinel";
    }
}

bit_set! {
    /// What the server has to know of a command beside what COMMAND INFO shows of it.
    Traits: u32 {
        /// Runs at once inside MULTI instead of being queued.
        NOT_QUEUED = 0;
        /// Runs what MULTI has queued.
        RUNS_QUEUE = 1;
        /// May run a script.
        RUNS_SCRIPTS = 2;
        /// Allowed to a client of RESP2 that has subscriptions.
        WHILE_SUBSCRIBED = 3;
        /// Goes on while CLIENT PAUSE holds clients back.
        WHILE_PAUSED = 4;
        /// Replies after what it has its own client be told, unless it leaves the work for later.
        REPLIES_LAST = 5;
        /// A server command that waits for other shards than those of its keys.
        WAITS_FOR_SHARDS = 6;
        /// DEBUG, which scripts may be allowed to call.
        DEBUGS = 7;
        /// Options of SORT that read keys by a pattern.
        READS_BY_PATTERN = 8;
        /// Reads keys that it finds by labels.
        READS_BY_LABEL = 10;
        /// What CLIENT CACHING has said holds beyond it.
        KEEPS_CACHING = 9;
        /// Runs another command, which argument 2 names; of a subcommand: the command of its name.
        CARRIES = 11;
        /// May touch the series that time series at its keys are linked to.
        FOLLOWS_LINKS = 12;
        /// Touches the key that its second argument names, which its key specifications do not find.
        LINKS_KEYS = 13;
        /// Needs no value of its keys, only what an entry tells without it.
        LEAVES_VALUES = 14;
        /// Makes a time series of a key that is not there, with the compactions of `ts-compaction-policy`.
        COMPACTS = 15;
        /// Tells whether the server is well: refused as writes are while the disk does not take them, so that
        /// Sentinel lets a replica take over.
        TELLS_HEALTH = 16;
    }
}

bits! {
    /// ACL categories. Those that flags imply are added by [`Info::categories`].
    Categories: u32 {
        /// Keys and their metadata.
        KEYSPACE = 0, "keyspace";
        /// Reads data.
        READ = 1, "read";
        /// Writes data.
        WRITE = 2, "write";
        /// Sets.
        SET = 3, "set";
        /// Sorted sets.
        SORTEDSET = 4, "sortedset";
        /// Lists.
        LIST = 5, "list";
        /// Hashes.
        HASH = 6, "hash";
        /// Strings.
        STRING = 7, "string";
        /// Bitmaps.
        BITMAP = 8, "bitmap";
        /// HyperLogLogs.
        HYPERLOGLOG = 9, "hyperloglog";
        /// Geospatial.
        GEO = 10, "geo";
        /// Streams.
        STREAM = 11, "stream";
        /// Publish and subscribe.
        PUBSUB = 12, "pubsub";
        /// For administrators.
        ADMIN = 13, "admin";
        /// Constant or logarithmic time.
        FAST = 14, "fast";
        /// Everything else.
        SLOW = 15, "slow";
        /// May block.
        BLOCKING = 16, "blocking";
        /// Dangerous in the wrong hands.
        DANGEROUS = 17, "dangerous";
        /// Connections and clients.
        CONNECTION = 18, "connection";
        /// Transactions.
        TRANSACTION = 19, "transaction";
        /// Scripts and functions.
        SCRIPTING = 20, "scripting";
        /// JSON documents.
        JSON = 21, "json";
        /// Bloom filters.
        BLOOM = 22, "bloom";
        /// Cuckoo filters.
        CUCKOO = 23, "cuckoo";
        /// Count-Min sketches.
        CMS = 24, "cms";
        /// Top-K sketches.
        TOPK = 25, "topk";
        /// t-digests.
        TDIGEST = 26, "tdigest";
        /// Vector sets.
        VECTORSET = 27, "vectorset";
        /// Time series.
        TIMESERIES = 28, "timeseries";
        /// Arrays.
        ARRAY = 29, "array";
    }
}

/// Each type of values has its category among them.
const _: () = {
    let mut index = 0;
    while index < Kind::ALL.len() {
        assert!(is_category(Kind::ALL[index].row().category.as_bytes()));
        index += 1;
    }
};

const fn is_category(name: &[u8]) -> bool {
    let mut index = 0;
    while index < Categories::ALL.len() {
        let other = Categories::ALL[index].1.as_bytes();
        let mut at = 0;
        while at < name.len() && at < other.len() && name[at] == other[at] {
            at += 1;
        }
        if at == name.len() && at == other.len() {
            return true;
        }
        index += 1;
    }
    false
}

bits! {
    /// What a command does with the keys of one key specification.
    KeyFlags: u16 {
        /// Reads and writes.
        RW = 0, "RW";
        /// Only reads.
        RO = 1, "RO";
        /// Overwrites without reading.
        OW = 2, "OW";
        /// Removes.
        RM = 3, "RM";
        /// Returns, copies or depends on the value.
        ACCESS = 4, "access";
        /// Changes the value depending on what it was or adds to it.
        UPDATE = 5, "update";
        /// Adds without changing what is there.
        INSERT = 6, "insert";
        /// Deletes from the value.
        DELETE = 7, "delete";
        /// Not a key but routed like one.
        NOT_KEY = 8, "not_key";
        /// The specification may miss keys.
        INCOMPLETE = 9, "incomplete";
        /// Flags depend on arguments.
        VARIABLE_FLAGS = 10, "variable_flags";
    }
}

/// Where the search for keys begins.
#[derive(Clone, Copy, Debug)]
pub enum BeginSearch {
    /// At this argument.
    Index(i32),
    /// After this keyword, looked for from an argument on (from the end if negative).
    Keyword(&'static str, i32),
    /// Nowhere that can be told in general.
    Unknown,
}

/// How keys follow from where the search begins.
#[derive(Clone, Copy, Debug)]
pub enum FindKeys {
    /// Keys up to a last one.
    Range {
        /// The last key, relative to the first; negative counts from the end of the arguments.
        last: i32,
        /// Arguments from one key to the next.
        step: i32,
        /// If above 1 and `last` is negative: only the first `1/limit` of the arguments are looked at.
        limit: i32,
    },
    /// As many keys as an argument says.
    Count {
        /// Where the count is, relative to where the search begins.
        count_index: i32,
        /// Where the first key is, likewise.
        first: i32,
        /// Arguments from one key to the next.
        step: i32,
    },
    /// In no way that can be told in general.
    Unknown,
}

/// One key specification.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Where to begin.
    pub begin: BeginSearch,
    /// How to go on.
    pub find: FindKeys,
    /// What is done with the keys.
    pub flags: KeyFlags,
    /// A remark for people; empty if none.
    pub notes: &'static str,
}

impl KeySpec {
    /// Keys from argument `first` to `last` (counted from `first`, or from the end if negative), every
    /// `step`.
    pub const fn range(first: i32, last: i32, step: i32, flags: KeyFlags) -> Self {
        let find = FindKeys::Range { last, step, limit: 0 };
        KeySpec { begin: BeginSearch::Index(first), find, flags, notes: "" }
    }

    /// One key at argument `index`.
    pub const fn one(index: i32, flags: KeyFlags) -> Self {
        Self::range(index, 0, 1, flags)
    }

    /// A count at argument `index`, then that many keys.
    pub const fn counted(index: i32, flags: KeyFlags) -> Self {
        let find = FindKeys::Count { count_index: 0, first: 1, step: 1 };
        KeySpec { begin: BeginSearch::Index(index), find, flags, notes: "" }
    }

    /// A specification of any form.
    pub const fn other(begin: BeginSearch, find: FindKeys, flags: KeyFlags) -> Self {
        KeySpec { begin, find, flags, notes: "" }
    }

    /// Adds a remark.
    pub const fn notes(mut self, notes: &'static str) -> Self {
        self.notes = notes;
        self
    }
}

/// The group under which COMMAND DOCS and help list a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// array
    Array,
    /// bitmap
    Bitmap,
    /// cluster
    Cluster,
    /// connection
    Connection,
    /// generic
    Generic,
    /// geo
    Geo,
    /// hash
    Hash,
    /// hyperloglog
    HyperLogLog,
    /// list
    List,
    /// module
    Module,
    /// pubsub
    PubSub,
    /// scripting
    Scripting,
    /// server
    Server,
    /// set
    Set,
    /// sorted-set
    SortedSet,
    /// stream
    Stream,
    /// string
    String,
    /// transactions
    Transactions,
}

impl Group {
    /// The name that COMMAND DOCS prints.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Array => "array",
            Group::Bitmap => "bitmap",
            Group::Cluster => "cluster",
            Group::Connection => "connection",
            Group::Generic => "generic",
            Group::Geo => "geo",
            Group::Hash => "hash",
            Group::HyperLogLog => "hyperloglog",
            Group::List => "list",
            Group::Module => "module",
            Group::PubSub => "pubsub",
            Group::Scripting => "scripting",
            Group::Server => "server",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Stream => "stream",
            Group::String => "string",
            Group::Transactions => "transactions",
        }
    }
}

/// Which shards are locked while a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locks {
    /// Those of the keys that the key specifications find.
    Keys,
    /// None by itself; the handler visits shards one at a time through [`crate::Access::visit_shard`]. Inside
    /// a transaction: all.
    Sweep,
    /// All: the command's keys cannot be known, or it must be atomic over everything.
    All,
    /// None, also inside a transaction: the command touches no data.
    Nothing,
}

/// Which arguments name channels that a command uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// None that its user needs a right to.
    None,
    /// The first.
    First,
    /// All.
    All,
    /// All, and they are patterns.
    Patterns,
}

/// Which databases a command uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Databases {
    /// The client's, if it uses data at all.
    Current,
    /// The client's, and the one that this argument names.
    CurrentAndArgument(usize),
    /// The client's, and the one that the argument after this word names.
    CurrentAndOption(&'static str),
    /// Those that all arguments name.
    Arguments,
    /// All.
    All,
}

/// What the first argument of a command that runs a script is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptSource {
    /// The text of the script.
    Text,
    /// The digest of a cached one.
    Digest,
    /// The name of a function.
    Function,
}

/// A key's place among the arguments, with what is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPosition {
    /// The argument's index.
    pub index: usize,
    /// What is done with it.
    pub flags: KeyFlags,
}

/// The places of the keys, in the order of the specifications.
pub type KeyPositions = SmallVec<[KeyPosition; 4]>;

/// Whether an argument, by its index, is a secret that must not be shown.
pub type Secrets = fn(Args<'_>, usize) -> bool;
/// Mends the keys that the key specifications find where they can not find all, or too many.
pub type MoreKeys = fn(Args<'_>, &mut KeyPositions);
/// What a command does with keys whose flags depend on its arguments.
pub type KeyFlagsOf = fn(Args<'_>) -> KeyFlags;

/// The bytes that a call reads of the string at its only key, which has so many. `None` if that can be any,
/// or if the call changes the string.
pub type PartOf = fn(Args<'_>, &Settings, u64) -> Option<Range<u64>>;

/// The elements that a call reads of the collection at its only key. `None` if that can be any.
pub type ElementsOf = fn(Args<'_>) -> Option<Elements>;

/// What a command is in the stream that a replica gets from its primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InStream {
    /// What its code and flags say: it is run if it is on data, writes, or is passed on to replicas.
    AsFlagged,
    /// It is run, whatever its flags say.
    Runs,
    /// It is run, and changes no data.
    ChangesNothing,
    /// It begins a transaction.
    Begins,
    /// It ends one.
    Ends,
    /// It is from the primary to the replica itself.
    Talks,
    /// It never comes, and is not run.
    Never,
}

/// Everything about a command but its code.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// Lower-case name; for a subcommand without the container's.
    pub name: &'static str,
    /// Number of arguments, name included (for a subcommand both names); if negative, at least that many.
    pub arity: i32,
    /// Flags.
    pub flags: Flags,
    /// What else the server has to know.
    pub traits: Traits,
    /// What it is in a primary's stream.
    pub in_stream: InStream,
    /// The script that it runs, if it does.
    pub script: Option<ScriptSource>,
    /// Arguments that are channels.
    pub channels: Channels,
    /// The databases that it uses.
    pub databases: Databases,
    /// Arguments that are secrets, if any.
    pub secrets: Option<Secrets>,
    /// Keys beyond those that the specifications find.
    pub more_keys: Option<MoreKeys>,
    /// The flags of keys with [`KeyFlags::VARIABLE_FLAGS`]; those of reading and writing if there is none.
    pub key_flags_of: Option<KeyFlagsOf>,
    /// The part of a string that it reads with [`crate::Access::string_part`], if it reads no more.
    pub part_of: Option<PartOf>,
    /// The elements of a collection that it reads, if it reads no others.
    pub elements_of: Option<ElementsOf>,
    /// ACL categories beyond those that the flags imply.
    pub own_categories: Categories,
    /// Where the keys are.
    pub keys: &'static [KeySpec],
    /// Which shards to lock.
    pub locks: Locks,
    /// Documentation group.
    pub group: Group,
    /// The version of Redis that introduced it.
    pub since: &'static str,
    /// Cost, in words.
    pub complexity: &'static str,
    /// One sentence on what it does.
    pub summary: &'static str,
    /// Deprecation: since which version and what to use instead.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Meant for servers and tests, not for applications.
    pub internal: bool,
    /// Changes of behaviour: version and description.
    pub history: &'static [(&'static str, &'static str)],
    /// Hints for clients and proxies, as COMMAND INFO prints them.
    pub tips: &'static [&'static str],
    /// The arguments in the notation of [`crate::arguments`].
    pub arguments: &'static str,
    /// The handler of MANTISSA.PACKED for it, if it is carried.
    pub packed: Option<DataHandler>,
    /// Whether a call may read much of the value at its only key, argument 1: if that is large it reads an
    /// image of the value, with no shard locked.
    pub reads_much: Option<fn(Args<'_>) -> bool>,
}

impl Info {
    /// Whether its only key is its first argument.
    pub fn has_one_key(&self) -> bool {
        let one = |spec: &KeySpec| {
            matches!((spec.begin, spec.find), (BeginSearch::Index(1), FindKeys::Range { last: 0, .. }))
        };
        let is_alone = self.more_keys.is_none() && !self.traits.has(Traits::LINKS_KEYS);
        self.locks == Locks::Keys && is_alone && matches!(self.keys, [spec] if one(spec))
    }

    /// Whether it uses data: has keys, reads, writes, tells of keys, or runs a script that may.
    pub fn uses_data(&self) -> bool {
        const DATA: Categories = Categories::READ.or(Categories::WRITE).or(Categories::KEYSPACE);
        let uses = self.categories().0 & DATA.0 != 0 || self.script.is_some();
        uses || !self.keys.is_empty() || self.flags.has(Flags::MOVABLE_KEYS)
    }

    /// All ACL categories, those that the flags imply included.
    pub fn categories(&self) -> Categories {
        let implied = [
            (Flags::WRITE, Categories::WRITE),
            (Flags::PUBSUB, Categories::PUBSUB),
            (Flags::FAST, Categories::FAST),
            (Flags::BLOCKING, Categories::BLOCKING),
            (Flags::ADMIN, Categories::ADMIN.or(Categories::DANGEROUS)),
        ];
        let mut all = self.own_categories;
        for (flag, category) in implied {
            if self.flags.has(flag) {
                all = all.or(category);
            }
        }
        if self.flags.has(Flags::READONLY) && !all.has(Categories::SCRIPTING) {
            all = all.or(Categories::READ);
        }
        if all.has(Categories::FAST) { all } else { all.or(Categories::SLOW) }
    }

    /// The module that Redis has the command from, if it does.
    pub fn module(&self) -> Option<&'static str> {
        let family = self.name.split_once('.').map(|(family, _)| family);
        self.flags.has(Flags::MODULE).then_some(match family {
            Some("json") => "ReJSON",
            Some("ts") => "timeseries",
            Some(_) => "bf",
            None => "vectorset",
        })
    }

    /// Whether a call with this many arguments (name included) fits the arity.
    #[inline]
    pub fn accepts(&self, argument_count: usize) -> bool {
        let count = i64::try_from(argument_count).unwrap_or(i64::MAX);
        let arity = i64::from(self.arity);
        if arity >= 0 { count == arity } else { count >= -arity }
    }
}

/// One row of a registration table: a command, its handler of type `H`, and its subcommands.
#[derive(Debug)]
pub struct Spec<H: 'static> {
    /// Everything but the code.
    pub info: Info,
    /// The code; `None` for a container that only has subcommands.
    pub handler: Option<H>,
    /// Subcommands.
    pub subcommands: &'static [Spec<H>],
}

impl<H> Spec<H> {
    const fn with(name: &'static str, arity: i32, handler: Option<H>, flags: Flags) -> Self {
        let info = Info {
            name,
            arity,
            flags,
            traits: Traits::NONE,
            in_stream: InStream::AsFlagged,
            script: None,
            channels: Channels::None,
            databases: Databases::Current,
            secrets: None,
            more_keys: None,
            key_flags_of: None,
            part_of: None,
            elements_of: None,
            own_categories: Categories::NONE,
            keys: &[],
            locks: Locks::Keys,
            group: Group::Generic,
            since: "",
            complexity: "",
            summary: "",
            deprecated: None,
            internal: false,
            history: &[],
            tips: &[],
            arguments: "",
            packed: None,
            reads_much: None,
        };
        Spec { info, handler, subcommands: &[] }
    }

    /// A command.
    pub const fn new(name: &'static str, arity: i32, handler: H, flags: Flags) -> Self {
        Self::with(name, arity, Some(handler), flags)
    }

    /// A command that only has subcommands.
    pub const fn container(name: &'static str, arity: i32, flags: Flags) -> Self {
        Self::with(name, arity, None, flags)
    }

    /// Adds ACL categories.
    pub const fn categories(mut self, categories: Categories) -> Self {
        self.info.own_categories = categories;
        self
    }

    /// Adds traits.
    pub const fn traits(mut self, traits: Traits) -> Self {
        self.info.traits = self.info.traits.or(traits);
        self
    }

    /// Says what it is in a primary's stream.
    pub const fn in_stream(mut self, in_stream: InStream) -> Self {
        self.info.in_stream = in_stream;
        self
    }

    /// Says that it runs a script, and how that is named.
    pub const fn runs(mut self, script: ScriptSource) -> Self {
        self.info.script = Some(script);
        self.traits(Traits::RUNS_SCRIPTS)
    }

    /// Says which arguments are channels.
    pub const fn channels(mut self, channels: Channels) -> Self {
        self.info.channels = channels;
        self
    }

    /// Says which databases it uses, if not the client's.
    pub const fn databases(mut self, databases: Databases) -> Self {
        self.info.databases = databases;
        self
    }

    /// Says which arguments are secrets.
    pub const fn secrets(mut self, secrets: Secrets) -> Self {
        self.info.secrets = Some(secrets);
        self
    }

    /// Says which keys the specifications do not find.
    pub const fn more_keys(mut self, more_keys: MoreKeys) -> Self {
        self.info.more_keys = Some(more_keys);
        self
    }

    /// Says what is done with keys whose flags depend on the arguments.
    pub const fn key_flags_of(mut self, key_flags_of: KeyFlagsOf) -> Self {
        self.info.key_flags_of = Some(key_flags_of);
        self
    }

    /// Says which part of a string it reads: only of a command on data with one key, argument 1.
    pub const fn part_of(mut self, part_of: PartOf) -> Self {
        self.info.part_of = Some(part_of);
        self
    }

    /// Says which elements of a collection it reads: only of a command on data with one key, argument 1, that
    /// changes nothing. It gets a collection that may lack all others.
    pub const fn elements_of(mut self, elements_of: ElementsOf) -> Self {
        self.info.elements_of = Some(elements_of);
        self
    }

    /// Says where the keys are.
    pub const fn keys(mut self, keys: &'static [KeySpec]) -> Self {
        self.info.keys = keys;
        self
    }

    /// Says which shards to lock.
    pub const fn locks(mut self, locks: Locks) -> Self {
        self.info.locks = locks;
        self
    }

    /// Documents it: group, version of Redis that introduced it, cost, one sentence.
    pub const fn docs(
        mut self,
        group: Group,
        since: &'static str,
        complexity: &'static str,
        summary: &'static str,
    ) -> Self {
        self.info.group = group;
        self.info.since = since;
        self.info.complexity = complexity;
        self.info.summary = summary;
        self
    }

    /// Marks it as deprecated since a version, in favour of something else.
    pub const fn deprecated(mut self, since: &'static str, instead: &'static str) -> Self {
        self.info.deprecated = Some((since, instead));
        self
    }

    /// Marks it as meant for servers and tests.
    pub const fn internal(mut self) -> Self {
        self.info.internal = true;
        self
    }

    /// Lists changes of behaviour.
    pub const fn history(mut self, history: &'static [(&'static str, &'static str)]) -> Self {
        self.info.history = history;
        self
    }

    /// Adds hints for clients.
    pub const fn tips(mut self, tips: &'static [&'static str]) -> Self {
        self.info.tips = tips;
        self
    }

    /// Describes the arguments in the notation of [`crate::arguments`].
    pub const fn arguments(mut self, arguments: &'static str) -> Self {
        self.info.arguments = arguments;
        self
    }

    /// Has MANTISSA.PACKED carry it, with this handler for the whole call.
    pub const fn packed(mut self, handler: DataHandler) -> Self {
        self.info.packed = Some(handler);
        self
    }

    /// Says when it reads much of a value: only of a command on data with one key, argument 1, that changes
    /// nothing.
    pub const fn reads_much(mut self, reads_much: fn(Args<'_>) -> bool) -> Self {
        self.info.reads_much = Some(reads_much);
        self
    }

    /// Adds subcommands.
    pub const fn subcommands(mut self, subcommands: &'static [Spec<H>]) -> Self {
        self.subcommands = subcommands;
        self
    }
}
