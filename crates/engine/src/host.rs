//! What the engine asks of the program around it: to carry messages to whoever owns a session, and what only
//! a process can do. The engine knows no socket and no event loop. The host gives sessions numbers of its
//! own.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use mantissa_config::{Config, SetError};

use crate::calls::Served;
use crate::context::Context;
use crate::engine::Engine;
use crate::session::BlockedClient;

/// The end of a command whose session waits, run by the session's worker. It gives the reply.
pub type Completion = Box<dyn FnOnce(&mut Context<'_>) -> Vec<u8> + Send>;

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

/// What a worker of the host is asked to do.
pub enum Message {
    /// Send bytes to a session, outside of any reply.
    Push(ConnId, Arc<[u8]>),
    /// A blocked session has been served: send its reply and go on with its requests.
    Unblock(ConnId, Served),
    /// What a session's command has waited for is there: do the rest, which gives the reply, also if the
    /// session is gone.
    Complete(ConnId, Arc<BlockedClient>, Completion),
    /// End a session.
    Kill(ConnId),
    /// Commands are no longer paused.
    Resume,
    /// Evict sessions if all take too much memory.
    WeighClients,
}

impl Message {
    /// The session that it is for, if it is for one.
    pub fn target(&self) -> Option<ConnId> {
        match self {
            Message::Push(conn, _) | Message::Unblock(conn, _) | Message::Kill(conn) => Some(*conn),
            Message::Complete(conn, ..) => Some(*conn),
            Message::Resume | Message::WeighClients => None,
        }
    }
}

/// What INFO shows of the host.
#[derive(Clone, Debug, Default)]
pub struct HostFacts {
    /// How the kernel is asked about sockets.
    pub multiplexing: &'static str,
    /// The TCP port that is listened on; 0 if none is.
    pub port: u16,
}

/// The program around an engine.
pub trait Host: Send + Sync {
    /// The number of workers. Their numbers begin at 0.
    fn worker_count(&self) -> usize;

    /// Leaves a message for a worker, for when the log is confirmed up to `required_lsn`.
    fn send(&self, worker: usize, message: Message, required_lsn: u64);

    /// Wakes a worker, which looks whether more of the log is confirmed.
    fn wake(&self, worker: usize);

    /// Has the program end with this exit code.
    fn shut_down(&self, code: u8);

    /// Puts into effect what CONFIG SET has changed and the host is concerned with, before it is in force.
    /// `given` are the directives that were named, also those that kept their values. After an error nothing
    /// has changed.
    fn configure(
        &self,
        engine: &Engine,
        old: &Config,
        new: &mut Config,
        given: &[&[u8]],
    ) -> Result<(), SetError>;

    /// The log can not be written, or made durable, and `appendfsync always` has promised that it is. A
    /// server ends here, with `error` in its log. If this returns, writes are refused from now on, and who
    /// waits for the log gets an error.
    fn log_failed(&self, error: &str);

    /// What INFO shows.
    fn facts(&self) -> HostFacts;

    /// Ends the program as after a failure that can not be handled, with these lines in the report.
    fn abort(&self, report: String) -> !;
}

/// Who is at the other end of a session.
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
    pub fn remote_text(&self) -> impl fmt::Display + '_ {
        PeerText { peer: self, remote: true }
    }

    /// The server's end, as `laddr=` in CLIENT LIST prints it: `127.0.0.1:6379`, `[::1]:6379`, `/path:0`.
    pub fn local_text(&self) -> impl fmt::Display + '_ {
        PeerText { peer: self, remote: false }
    }

    /// Whether this is a Unix domain connection.
    pub fn is_unix(&self) -> bool {
        matches!(self, Peer::Unix { .. })
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

struct PeerText<'a> {
    peer: &'a Peer,
    remote: bool,
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
