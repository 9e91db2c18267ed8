//! The values of settings: the neutral [`Value`] that a [`Kind`](super::kind::Kind) parses and prints, the
//! types of the fields, and the conversions between them.

/// A setting's value, whatever its type.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Yes or no.
    Bool(bool),
    /// A whole number: a count, a size in bytes, a set of bits.
    Integer(i64),
    /// The index of a choice.
    Choice(usize),
    /// Text or bytes.
    Bytes(Vec<u8>),
    /// Words.
    Words(Vec<Vec<u8>>),
    /// Numbers with a fraction.
    Numbers(Vec<f64>),
    /// Save points.
    Save(Vec<SavePoint>),
    /// Limits of replies that wait.
    Limits([OutputBufferLimit; 3]),
    /// Bytes or percent.
    Memory(MemoryOrPercent),
    /// The three adjustments for the kernel's out-of-memory killer.
    Scores([i32; 3]),
    /// A host and a port, or none.
    Address(Option<(String, u16)>),
}

/// The type of a field. `from_value` gives none for a value of another kind, which a row of the table never
/// produces.
pub trait Setting: Sized {
    /// Takes the field from a value of its kind.
    fn from_value(value: Value) -> Option<Self>;
    /// Gives the value of the field.
    fn to_value(&self) -> Value;
}

/// A snapshot is due after `seconds` when there were at least `changes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// Seconds since the last save.
    pub seconds: u64,
    /// Changes since the last save.
    pub changes: u64,
}

/// How many bytes of replies may wait for a client of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputBufferLimit {
    /// At this size the client is closed at once; 0 for no limit.
    pub hard_bytes: u64,
    /// Above this size the client is closed after `soft_seconds`; 0 for no limit.
    pub soft_bytes: u64,
    /// Seconds.
    pub soft_seconds: u64,
}

/// A size in bytes, or in percent of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryOrPercent {
    /// Bytes.
    Bytes(u64),
    /// Percent, 0 to 100.
    Percent(u8),
}

impl Default for MemoryOrPercent {
    fn default() -> Self {
        MemoryOrPercent::Bytes(0)
    }
}

/// What a signal to end does; with nothing set, what SHUTDOWN does by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownFlags {
    /// Save although there are no save points.
    pub save: bool,
    /// Do not save although there are save points.
    pub nosave: bool,
    /// Do not wait for replicas.
    pub now: bool,
    /// End although saving fails.
    pub force: bool,
    /// Of Valkey's clusters; without effect here.
    pub safe: bool,
    /// The same.
    pub failover: bool,
}

impl ShutdownFlags {
    /// The words of a configuration, in the order of the bits; the first stands for none of the others.
    pub const NAMES: &'static [&'static str] =
        &["default", "save", "nosave", "now", "force", "safe", "failover"];
}

impl Setting for ShutdownFlags {
    fn from_value(value: Value) -> Option<Self> {
        let Value::Integer(bits) = value else { return None };
        let has = |bit: u32| bits >> bit & 1 == 1;
        Some(ShutdownFlags {
            save: has(0),
            nosave: has(1),
            now: has(2),
            force: has(3),
            safe: has(4),
            failover: has(5),
        })
    }

    fn to_value(&self) -> Value {
        let bits = [self.save, self.nosave, self.now, self.force, self.safe, self.failover];
        Value::Integer(bits.iter().enumerate().map(|(index, &set)| i64::from(set) << index).sum())
    }
}

impl Setting for bool {
    fn from_value(value: Value) -> Option<Self> {
        if let Value::Bool(value) = value { Some(value) } else { None }
    }

    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }
}

macro_rules! integers {
    ($($type:ty),*) => { $(
        impl Setting for $type {
            fn from_value(value: Value) -> Option<Self> {
                if let Value::Integer(value) = value { <$type>::try_from(value).ok() } else { None }
            }

            fn to_value(&self) -> Value {
                // No row allows more than i64::MAX.
                Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
            }
        }
    )* };
}

integers!(u16, u32, u64, usize, i32, i64);

impl Setting for Vec<u8> {
    fn from_value(value: Value) -> Option<Self> {
        if let Value::Bytes(bytes) = value { Some(bytes) } else { None }
    }

    fn to_value(&self) -> Value {
        Value::Bytes(self.clone())
    }
}

impl Setting for String {
    fn from_value(value: Value) -> Option<Self> {
        if let Value::Bytes(bytes) = value { String::from_utf8(bytes).ok() } else { None }
    }

    fn to_value(&self) -> Value {
        Value::Bytes(self.clone().into_bytes())
    }
}

/// Empty text is none.
impl Setting for Option<String> {
    fn from_value(value: Value) -> Option<Self> {
        String::from_value(value).map(|text| Some(text).filter(|text| !text.is_empty()))
    }

    fn to_value(&self) -> Value {
        Value::Bytes(self.clone().unwrap_or_default().into_bytes())
    }
}

impl Setting for Vec<String> {
    fn from_value(value: Value) -> Option<Self> {
        let Value::Words(words) = value else { return None };
        words.into_iter().map(|word| String::from_utf8(word).ok()).collect()
    }

    fn to_value(&self) -> Value {
        Value::Words(self.iter().map(|word| word.clone().into_bytes()).collect())
    }
}

macro_rules! direct {
    ($($type:ty => $variant:ident),* $(,)?) => { $(
        impl Setting for $type {
            fn from_value(value: Value) -> Option<Self> {
                if let Value::$variant(value) = value { Some(value) } else { None }
            }

            fn to_value(&self) -> Value {
                Value::$variant(self.clone())
            }
        }
    )* };
}

direct! {
    Vec<f64> => Numbers,
    Vec<SavePoint> => Save,
    [OutputBufferLimit; 3] => Limits,
    MemoryOrPercent => Memory,
    [i32; 3] => Scores,
    Option<(String, u16)> => Address,
}

/// Defines an enum whose variants have names in a configuration; the first variant is the type's zero.
macro_rules! choices {
    ($( $(#[$meta:meta])* $type:ident { $( $variant:ident = $name:literal ),* $(,)? } )*) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $type {
            #[default]
            $( #[doc = concat!("`", $name, "`.")] $variant, )*
        }

        impl $type {
            /// The names, in the order of the variants.
            pub const NAMES: &'static [&'static str] = &[$($name),*];
            const ALL: &'static [$type] = &[$($type::$variant),*];

            /// The name in a configuration.
            pub fn name(self) -> &'static str {
                $type::NAMES[self as usize]
            }
        }

        impl Setting for $type {
            fn from_value(value: Value) -> Option<Self> {
                if let Value::Choice(index) = value { $type::ALL.get(index).copied() } else { None }
            }

            fn to_value(&self) -> Value {
                Value::Choice(*self as usize)
            }
        }
    )* };
}

choices! {
    /// Which driver asks the kernel for socket work.
    IoDriver { Auto = "auto", IoUring = "io_uring", Epoll = "epoll" }

    /// How important a line of the log must be to be written.
    LogLevel {
        Debug = "debug", Verbose = "verbose", Notice = "notice", Warning = "warning", Nothing = "nothing",
    }

    /// Who may use something dangerous.
    Permission { No = "no", Yes = "yes", Local = "local" }

    /// What is evicted when memory is full.
    MaxmemoryPolicy {
        VolatileLru = "volatile-lru", VolatileLrm = "volatile-lrm", VolatileLfu = "volatile-lfu",
        VolatileRandom = "volatile-random", VolatileTtl = "volatile-ttl", AllkeysLru = "allkeys-lru",
        AllkeysLrm = "allkeys-lrm", AllkeysLfu = "allkeys-lfu", AllkeysRandom = "allkeys-random",
        Noeviction = "noeviction",
    }

    /// When the log of changes is forced to the disk.
    AppendFsync { Everysec = "everysec", Always = "always", No = "no" }

    /// Whether loaded values are checked.
    SanitizeDump { No = "no", Yes = "yes", Clients = "clients" }

    /// The channels that a new user may use.
    AclPubsubDefault { AllChannels = "allchannels", ResetChannels = "resetchannels" }

    /// Whether TLS clients show a certificate.
    TlsAuthClients { No = "no", Yes = "yes", Optional = "optional" }

    /// Which init system supervises the process.
    Supervised { Upstart = "upstart", Systemd = "systemd", Auto = "auto", No = "no" }

    /// The facility of syslog.
    SyslogFacility {
        User = "user", Local0 = "local0", Local1 = "local1", Local2 = "local2", Local3 = "local3",
        Local4 = "local4", Local5 = "local5", Local6 = "local6", Local7 = "local7",
    }

    /// How the kernel's out-of-memory killer is influenced.
    OomScoreAdj { No = "no", Yes = "yes", Relative = "relative", Absolute = "absolute" }

    /// What a replica does about an error of a replicated command.
    PropagationError { Ignore = "ignore", Panic = "panic", PanicOnReplicas = "panic-on-replicas" }

    /// How a replica takes a dump without a file.
    DisklessLoad {
        Disabled = "disabled", OnEmptyDb = "on-empty-db", Swapdb = "swapdb",
        FlushBeforeLoad = "flush-before-load",
    }

    /// What becomes of a second sample of a time in a time series.
    SeriesPolicy {
        Block = "block", Last = "last", First = "first", Min = "min", Max = "max", Sum = "sum",
    }

    /// How chunks of time series are written to files.
    SeriesEncoding { Compressed = "compressed", Uncompressed = "uncompressed" }

    /// How a cluster names its nodes to clients.
    EndpointType { Ip = "ip", Hostname = "hostname", UnknownEndpoint = "unknown-endpoint" }
}
