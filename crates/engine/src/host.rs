//! The interface to the program around the engine: it delivers messages to sessions and does what concerns
//! the whole process. The engine knows no socket and no event loop.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mantissa_config::{Config, SetError};

use crate::context::Context;
use crate::engine::Engine;
use crate::session::{BlockedClient, Served};
use crate::state::replication::Address;

pub use crate::client::{ConnId, Peer, Target};

/// The end of a command whose session waits, run by the session's worker. It gives the reply.
pub type Completion = Box<dyn FnOnce(&mut Context<'_>) -> Vec<u8> + Send>;

/// A message to a worker of the host.
pub enum Message {
    /// Send bytes to a session, outside of any reply.
    Push(ConnId, Arc<[u8]>),
    /// A blocked session has been served: send its reply and go on with its requests.
    Unblock(ConnId, Served),
    /// Another thread has done its part of a session's command: run the rest, which makes the reply, even if
    /// the session has ended.
    Complete(ConnId, Arc<BlockedClient>, Completion),
    /// End a session.
    Kill(ConnId),
    /// What a session's request needs has been read from disk: execute it.
    Retry(ConnId),
    /// Commands are no longer paused.
    Resume,
    /// Evict sessions if all take too much memory.
    WeighClients,
}

impl Message {
    /// The session that it is for, if it is for one.
    pub fn target(&self) -> Option<ConnId> {
        match self {
            Message::Push(conn, _) | Message::Unblock(conn, _) => Some(*conn),
            Message::Retry(conn) | Message::Kill(conn) => Some(*conn),
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

/// A connection to another server. Reads and writes fail with [`io::ErrorKind::WouldBlock`] or
/// [`io::ErrorKind::TimedOut`] when their timeout is over.
pub trait Stream: Read + Write + Send {
    /// Bounds each read and write from now on.
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()>;

    /// The address of this end, if it is a TCP connection.
    fn local_address(&self) -> Option<SocketAddr>;

    /// The address of the other end, if it is a TCP connection.
    fn remote_address(&self) -> Option<SocketAddr>;

    /// The file descriptor that CLIENT LIST shows; -1 for none.
    fn descriptor(&self) -> i32;
}

/// What MANTISSA.UPGRADE asks for.
pub struct Upgrade {
    /// The program that takes over; by default that which runs.
    pub binary: Option<PathBuf>,
    /// Directives for it as on a command line, beside those that are in force.
    pub options: Vec<Vec<u8>>,
    /// The client that has asked.
    pub blocked: Arc<BlockedClient>,
}

/// The program around an engine.
pub trait Host: Send + Sync {
    /// The number of workers. Their numbers begin at 0.
    fn worker_count(&self) -> usize;

    /// Sends a message to a worker. It takes effect once the log is confirmed up to `required_lsn`.
    fn send(&self, worker: usize, message: Message, required_lsn: u64);

    /// Wakes a worker, which looks whether more of the log is confirmed.
    fn wake(&self, worker: usize);

    /// Shuts the program down with this exit code, soon. False if it does not end.
    fn shut_down(&self, code: u8) -> bool;

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

    /// The server has become a replica, or is none any more. All shards are locked.
    fn role_changed(&self, _engine: &Engine) {}

    /// The log can not be written, or made durable, and `appendfsync always` has promised that it is. A
    /// server ends here, with `error` in its log. If this returns, writes are refused from now on, and who
    /// waits for the log gets an error.
    fn log_failed(&self, error: &str);

    /// Connects to another server, as a replica does to its primary; with TLS where `tls-replication` says
    /// so. `timeout` bounds this, and later each read and write.
    fn connect(&self, config: &Config, address: &Address, timeout: Duration) -> io::Result<Box<dyn Stream>>;

    /// Hands over to another process. The client that has asked waits: it is unblocked with an error if that
    /// fails, and answered by the other process if not.
    fn upgrade(&self, engine: &Engine, request: Upgrade) -> io::Result<()>;

    /// What INFO shows.
    fn facts(&self) -> HostFacts;

    /// Ends the program as after a failure that can not be handled, with these lines in the report.
    fn abort(&self, report: String) -> !;
}
