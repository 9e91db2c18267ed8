//! Messages between workers: how one worker has another do something for a connection of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use mantissa_net::{Conn, Listener, Socket, Waker};
use parking_lot::Mutex;

use crate::balance::Handover;
use crate::calls::Served;
use crate::client::{BlockedClient, Client};
use crate::context::Context;

/// The end of a command whose client waits, run by the client's worker.
pub type Completion = Box<dyn FnOnce(&mut Context) -> Vec<u8> + Send>;

/// Where a client is: a worker and a connection of its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The worker's number.
    pub worker: usize,
    /// The connection there.
    pub conn: Conn,
}

/// What a worker is asked to do.
pub enum Message {
    /// Serve a connection that another worker accepted.
    Adopt(Socket),
    /// Serve a client that another worker has served so far.
    Move(Box<Client>, Socket),
    /// Hand connections over to another worker.
    HandOver(Handover),
    /// Send bytes to a client, outside of any reply.
    Push(Conn, Arc<[u8]>),
    /// A blocked client has been served: send its reply and go on with its requests.
    Unblock(Conn, Served),
    /// What a client's command has waited for is there: do the rest, which gives the reply, also if the
    /// client is gone.
    Complete(Conn, Arc<BlockedClient>, Completion),
    /// Close a connection.
    Kill(Conn),
    /// The server is no longer paused.
    Resume,
    /// Evict clients if all take too much.
    WeighClients,
    /// Listen on these TCP sockets in the place of the present ones, but for the addresses that are kept.
    Listen {
        /// Whether they are those for TLS.
        for_tls: bool,
        /// Addresses that are listened on already and stay.
        kept: Vec<SocketAddr>,
        /// New sockets.
        opened: Vec<Listener>,
    },
    /// Stop serving and end the thread.
    Stop,
}

impl Message {
    /// The connection that it is for, if it is for one.
    pub fn target(&self) -> Option<Conn> {
        match self {
            Message::Push(conn, _) | Message::Unblock(conn, _) | Message::Kill(conn) => Some(*conn),
            Message::Complete(conn, ..) => Some(*conn),
            Message::Adopt(_) | Message::Move(..) | Message::HandOver(_) => None,
            Message::Resume | Message::WeighClients | Message::Listen { .. } | Message::Stop => None,
        }
    }

    /// Whether acting on it must wait until no script of the worker runs: because it locks shards, which the
    /// script holds, or because it moves clients.
    pub fn waits_for_scripts(&self) -> bool {
        matches!(self, Message::Complete(..) | Message::HandOver(_))
    }
}

/// A worker's queue of messages. Any thread may put some in; the worker takes them all at once.
pub struct Inbox {
    messages: Mutex<Vec<(u64, Message)>>,
    waker: Waker,
}

impl Inbox {
    /// An empty inbox whose owner sleeps in the driver that `waker` wakes.
    pub fn new(waker: Waker) -> Self {
        Inbox { messages: Mutex::default(), waker }
    }

    /// Leaves a message and wakes the worker. The message is for when the log is confirmed up to `position`.
    pub fn put(&self, message: Message, position: u64) {
        self.messages.lock().push((position, message));
        self.waker.wake();
    }

    /// Wakes the worker.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Takes all messages, with the positions in the log that they are for.
    pub fn take(&self) -> Vec<(u64, Message)> {
        std::mem::take(&mut *self.messages.lock())
    }
}
