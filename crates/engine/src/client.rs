//! The part of a session that all threads may read, and where its client is reached.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use mantissa_number::write_u64;
use mantissa_sys::sockets;
use parking_lot::Mutex;

use crate::acl::User;

/// The host's number for a session, unique on its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnId(pub u64);

impl ConnId {
    /// Names no session.
    pub const NONE: ConnId = ConnId(u64::MAX);
}

/// Where a session is: a worker of the host, and the host's number for it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The worker's number.
    pub worker: usize,
    /// The session there.
    pub conn: ConnId,
}

impl Target {
    /// Reaches nobody.
    pub const NOWHERE: Target = Target { worker: 0, conn: ConnId::NONE };
}

/// Bits of [`SharedSession::flags`], which CLIENT LIST prints as letters.
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
    /// Closed by CLIENT KILL: no further request of it runs, and no list shows it.
    pub const KILLED: u32 = 1 << 8;
    /// `t`: client-side caching is on (CLIENT TRACKING).
    pub const TRACKING: u32 = 1 << 9;
    /// `B`: tracking in broadcasting mode: all keys with certain prefixes.
    pub const TRACKING_BROADCAST: u32 = 1 << 10;
    /// Only reads after CLIENT CACHING YES count.
    pub const TRACKING_OPT_IN: u32 = 1 << 11;
    /// Reads after CLIENT CACHING NO do not count.
    pub const TRACKING_OPT_OUT: u32 = 1 << 12;
    /// NOLOOP: gets no invalidation messages for its own changes.
    pub const TRACKING_NO_LOOP: u32 = 1 << 13;
    /// `R`: the client to which its invalidation messages are redirected is gone.
    pub const TRACKING_BROKEN: u32 = 1 << 14;
    /// Everything that CLIENT TRACKING sets.
    pub const ALL_TRACKING: u32 = TRACKING
        | TRACKING_BROADCAST
        | TRACKING_OPT_IN
        | TRACKING_OPT_OUT
        | TRACKING_NO_LOOP
        | TRACKING_BROKEN;
    /// Another client redirects its invalidation messages to it.
    pub const GETS_MESSAGES: u32 = 1 << 15;
    /// CLIENT REPLY OFF: it gets pushed messages, and nothing else.
    pub const SILENT: u32 = 1 << 16;
    /// `S`: a replica.
    pub const REPLICA: u32 = 1 << 17;
    /// `M`: the primary that this server follows.
    pub const PRIMARY: u32 = 1 << 18;
    /// CLIENT CAPA REDIRECT: on a replica its requests for data are redirected to the primary.
    pub const REDIRECTED: u32 = 1 << 19;
    /// `r`: READONLY, its reads are not redirected.
    pub const READONLY: u32 = 1 << 20;
}

/// The names that a client has set.
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
    /// Unique; later clients have greater numbers.
    pub id: u64,
    /// The address of the peer.
    pub peer: Peer,
    /// The socket's file descriptor, for CLIENT LIST.
    pub descriptor: i32,
    /// When it connected, Unix time in ms.
    pub connected_ms: i64,
    /// When it last sent something, Unix time in ms.
    pub active_ms: AtomicI64,
    /// Where to reach it.
    pub target: Mutex<Target>,
    /// The names that the client has set.
    pub identity: Mutex<Identity>,
    /// The user that has logged in.
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
    /// Bytes of the prefixes of CLIENT TRACKING.
    pub prefix_bytes: AtomicU64,
    /// The client that gets its invalidation messages; 0 for itself.
    pub redirect: AtomicU64,
    /// While keys are watched: set when one of them changes.
    pub watch_dirty: Mutex<Option<Arc<AtomicBool>>>,
    /// Bytes of an unfinished request.
    pub query_bytes: AtomicU64,
    /// Bytes of its buffer that are free.
    pub query_free_bytes: AtomicU64,
    /// Bytes queued and not sent.
    pub output_bytes: AtomicU64,
    /// Bytes of `identity`.
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
    /// The shared part of a new session.
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
            prefix_bytes: AtomicU64::new(0),
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

    /// Changes the names and counts their bytes.
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

    /// `redir=` of CLIENT LIST: the client that gets its invalidation messages, 0 for itself, -1 without
    /// tracking.
    pub fn redirect_shown(&self) -> i64 {
        if self.has(flag::TRACKING) { self.redirect.load(Ordering::Relaxed) as i64 } else { -1 }
    }

    /// Whether it has logged in as this user.
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

/// The peer of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A TCP connection.
    Tcp {
        /// The address of the client.
        remote: SocketAddr,
        /// The address that the client connected to.
        local: SocketAddr,
    },
    /// A Unix domain connection, known by the path of the listener.
    Unix {
        /// The path of the listening socket.
        path: Arc<str>,
    },
    /// The program itself.
    Embedded,
}

impl Peer {
    /// The client's end, as `addr=` in CLIENT LIST prints it: `127.0.0.1:51234`, `[::1]:51234`, `/path:0`.
    pub fn remote_text(&self) -> PeerText<'_> {
        PeerText { peer: self, remote: true }
    }

    /// The server's end, as `laddr=` in CLIENT LIST prints it: `127.0.0.1:6379`, `[::1]:6379`, `/path:0`.
    pub fn local_text(&self) -> PeerText<'_> {
        PeerText { peer: self, remote: false }
    }

    /// Whether this is a Unix domain connection.
    pub fn is_unix(&self) -> bool {
        matches!(self, Peer::Unix { .. })
    }

    /// Whether the client is a program of this server's user on this machine, or of root. Who may connect to
    /// a Unix socket is what the permissions of its file say.
    pub fn is_of_own_user(&self) -> bool {
        match self {
            Peer::Tcp { remote, local } => self.is_loopback() && sockets::is_of_own_user(*remote, *local),
            Peer::Unix { .. } | Peer::Embedded => true,
        }
    }

    /// Whether the client runs on this host, as protected mode sees it: a Unix domain connection or a
    /// loopback address.
    pub fn is_loopback(&self) -> bool {
        match self {
            Peer::Tcp { remote, .. } => remote.ip().to_canonical().is_loopback(),
            Peer::Unix { .. } | Peer::Embedded => true,
        }
    }
}

/// One end of a connection, to be printed.
pub struct PeerText<'a> {
    peer: &'a Peer,
    remote: bool,
}

impl PeerText<'_> {
    /// Appends the text.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let address = match self.peer {
            Peer::Tcp { remote: SocketAddr::V4(address), .. } if self.remote => address,
            Peer::Tcp { local: SocketAddr::V4(address), .. } if !self.remote => address,
            _ => return out.extend_from_slice(self.to_string().as_bytes()),
        };
        for (octet, end) in std::iter::zip(address.ip().octets(), *b"...:") {
            write_u64(out, octet.into());
            out.push(end);
        }
        write_u64(out, address.port().into());
    }
}

impl fmt::Display for PeerText<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = match self.peer {
            Peer::Unix { path } => return write!(out, "{path}:0"),
            Peer::Embedded => return write!(out, ":0"),
            Peer::Tcp { remote, .. } if self.remote => remote,
            Peer::Tcp { local, .. } => local,
        };
        match address {
            SocketAddr::V4(address) => write!(out, "{address}"),
            // Without the scope of a link-local address, which Redis does not print either.
            SocketAddr::V6(address) => write!(out, "[{}]:{}", address.ip(), address.port()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_print_as_in_client_list() {
        let tcp = |remote: &str, local: &str| Peer::Tcp {
            remote: remote.parse().expect("an address"),
            local: local.parse().expect("an address"),
        };
        let four = tcp("127.0.0.1:51234", "127.0.0.1:6379");
        assert_eq!(four.remote_text().to_string(), "127.0.0.1:51234");
        assert_eq!(four.local_text().to_string(), "127.0.0.1:6379");
        assert!(four.is_loopback());
        let six = tcp("[::1]:1", "[fe80::1%3]:6379");
        assert_eq!(six.remote_text().to_string(), "[::1]:1");
        assert_eq!(six.local_text().to_string(), "[fe80::1]:6379");
        assert!(!tcp("10.0.0.1:1", "10.0.0.2:6379").is_loopback());
        let unix = Peer::Unix { path: "/tmp/a.sock".into() };
        assert_eq!(unix.remote_text().to_string(), "/tmp/a.sock:0");
        assert_eq!(unix.local_text().to_string(), "/tmp/a.sock:0");
        for peer in [four, six, unix, tcp("10.0.255.1:65535", "0.0.0.0:0"), Peer::Embedded] {
            for text in [peer.remote_text(), peer.local_text()] {
                let mut appended = Vec::new();
                text.append_to(&mut appended);
                assert_eq!(appended, text.to_string().as_bytes());
            }
        }
    }
}
