//! The connection to the primary, as the link reads and writes it.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_sys::clock::unix_ms;

use crate::acl;
use crate::engine::Engine;
use crate::host::{Peer, Stream, Target};
use crate::session::{SharedSession, flag};

/// How long a read or write waits: so often the link looks whether it is to end.
const WAIT: Duration = Duration::from_millis(100);
/// A sign of life is sent this often while data are received or loaded.
const ALIVE_EVERY_MS: i64 = 1000;
/// More unsent bytes are not added to.
const UNSENT_BYTES_MAX: usize = 4096;

/// A connection to the primary. It ends with its link.
pub struct Wire<'e> {
    engine: &'e Engine,
    epoch: u64,
    stream: Box<dyn Stream>,
    /// What clients see of it.
    session: Option<Arc<SharedSession>>,
    unsent: Vec<u8>,
    /// When something last came.
    heard_ms: i64,
    alive_ms: i64,
    /// What comes are data: it is counted as such.
    pub receives_dump: bool,
}

impl<'e> Wire<'e> {
    /// The wire of the link with this number.
    pub fn new(engine: &'e Engine, epoch: u64, mut stream: Box<dyn Stream>) -> io::Result<Self> {
        stream.set_timeout(WAIT)?;
        let now_ms = unix_ms();
        Ok(Wire {
            engine,
            epoch,
            stream,
            session: None,
            unsent: Vec::new(),
            heard_ms: now_ms,
            alive_ms: now_ms,
            receives_dump: false,
        })
    }

    /// Whether the link is to go on: it is the present one, and nobody has closed its connection.
    pub fn check(&self) -> io::Result<()> {
        let is_killed = self.session.as_ref().is_some_and(|session| session.has(flag::KILLED));
        let goes_on = self.engine.replication.link.is_current(self.epoch)
            && !self.engine.stopping.load(Ordering::Relaxed);
        match goes_on && !is_killed {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the link was closed")),
        }
    }

    /// Shows the connection among the clients: `flags=M`.
    pub fn show(&mut self) {
        let (remote, local) = (self.stream.remote_address(), self.stream.local_address());
        let peer = match (remote, local) {
            (Some(remote), Some(local)) => Peer::Tcp { remote, local },
            _ => Peer::Embedded,
        };
        *self.engine.replication.link.peer.lock() = Some(peer.clone());
        let user = acl::superuser(self.engine.registry, &self.engine.active_config().config);
        let id = self.engine.next_client_id();
        let descriptor = self.stream.descriptor();
        let session = SharedSession::new(id, peer, descriptor, unix_ms(), Target::NOWHERE, &user);
        session.mark(flag::PRIMARY, true);
        let session = Arc::new(session);
        self.engine.clients.write().insert(session.id, Arc::clone(&session));
        self.session = Some(session);
    }

    /// Reads what has come, or waits for a moment. `None` if nothing has come; an error at the end of the
    /// connection, after `repl-timeout`, or if the link is to end.
    pub fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.check()?;
        let count = match self.stream.read(buffer) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "connection lost")),
            Ok(count) => count,
            Err(error) if is_pause(&error) => {
                let timeout_s = i64::from(self.engine.active_config().config.repl_timeout);
                return match unix_ms() - self.heard_ms > timeout_s * 1000 {
                    true => {
                        Err(io::Error::new(io::ErrorKind::TimedOut, "timeout: no data nor PING received"))
                    }
                    false => Ok(None),
                };
            }
            Err(error) => return Err(error),
        };
        self.heard(count as u64);
        Ok(Some(count))
    }

    /// Nothing is read from the connection for now: that the primary is not heard is not its fault.
    pub fn forgive_silence(&mut self) {
        self.heard_ms = unix_ms();
    }

    /// Notes how many bytes of the stream have been read before the dump was loaded, and wait.
    pub fn note_ahead(&self, bytes: u64) {
        self.engine.replication.link.note_ahead(bytes);
    }

    fn heard(&mut self, count: u64) {
        self.heard_ms = unix_ms();
        let link = &self.engine.replication.link;
        link.heard_ms.store(self.heard_ms, Ordering::Relaxed);
        link.read_bytes.fetch_add(count, Ordering::Relaxed);
        if self.receives_dump {
            link.dump_received.fetch_add(count, Ordering::Relaxed);
            link.dump_heard_s.store(self.heard_ms / 1000, Ordering::Relaxed);
        }
        if let Some(session) = &self.session {
            session.active_ms.store(self.heard_ms, Ordering::Relaxed);
            session.received_bytes.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Whether so much waits to be sent that more makes no sense.
    pub fn is_blocked(&self) -> bool {
        self.unsent.len() >= UNSENT_BYTES_MAX
    }

    /// Sends bytes, now or when the primary reads again.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.unsent.extend_from_slice(bytes);
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero)),
                Ok(count) => {
                    self.unsent.drain(..count);
                    if let Some(session) = &self.session {
                        session.sent_bytes.fetch_add(count as u64, Ordering::Relaxed);
                    }
                }
                Err(error) if is_pause(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        match self.stream.flush() {
            Err(error) if is_pause(&error) => Ok(()),
            outcome => outcome,
        }
    }

    /// Sends a sign of life if it is time for one.
    pub fn send_alive(&mut self) -> io::Result<()> {
        let now_ms = unix_ms();
        if now_ms - self.alive_ms < ALIVE_EVERY_MS || self.is_blocked() {
            return Ok(());
        }
        self.alive_ms = now_ms;
        self.send(b"\n")
    }
}

impl Read for Wire<'_> {
    /// Waits until something comes, and sends signs of life meanwhile.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.send_alive()?;
            if let Some(count) = self.try_read(buffer)? {
                return Ok(count);
            }
        }
    }
}

impl Drop for Wire<'_> {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            self.engine.clients.write().remove(&session.id);
        }
    }
}

/// Whether an operation only took too long, and may be tried again.
fn is_pause(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}
