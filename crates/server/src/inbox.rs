//! Messages between workers: how one worker has another do something for a connection of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use mantissa_engine::host;
use mantissa_engine::metrics::Format;
use mantissa_net::{Conn, Listener, Socket, Waker};
use mantissa_persist::log::Lsn;
use parking_lot::Mutex;

use crate::conn_id::conn_of;
use crate::connection::Connection;
use crate::freeze::Freeze;
use crate::service::Service;

/// What a worker is asked to do.
pub enum Message {
    /// Serve a connection that another worker accepted.
    Adopt(Socket, Service),
    /// Serve the process that is to take over, which may do everything.
    AdoptSuccessor(Socket),
    /// Serve a connection that another worker has served so far.
    Move(Box<Connection>, Socket),
    /// Hand connections over to another worker.
    HandOver(Handover),
    /// What the engine asks for.
    Engine(host::Message),
    /// Listen on these TCP sockets in the place of the present ones, but for the addresses that are kept.
    Listen {
        /// What is spoken there.
        service: Service,
        /// Addresses that are listened on already and stay.
        kept: Vec<SocketAddr>,
        /// New sockets.
        opened: Vec<Listener>,
    },
    /// Metrics that a connection waits for.
    Scraped {
        /// The connection.
        conn: Conn,
        /// The format of the content.
        format: Format,
        /// The text of all metrics.
        content: Vec<u8>,
    },
    /// Stop running requests, for a hand-over.
    Freeze(Arc<Freeze>),
    /// Give up all connections, after [`Message::Freeze`].
    Release,
    /// Serve again.
    Thaw,
    /// Stop serving and end the thread.
    Stop,
}

impl Message {
    /// The connection that it is for, if it is for one.
    pub fn target(&self) -> Option<Conn> {
        match self {
            Message::Engine(message) => message.target().map(conn_of),
            Message::Adopt(..) | Message::Move(..) | Message::HandOver(_) => None,
            Message::Listen { .. } | Message::Scraped { .. } | Message::Stop => None,
            Message::AdoptSuccessor(_) | Message::Freeze(_) | Message::Release | Message::Thaw => None,
        }
    }

    /// Whether acting on it must wait until no script of the worker runs: because it locks shards, which the
    /// script holds, or because it moves clients.
    pub fn waits_for_scripts(&self) -> bool {
        matches!(
            self,
            Message::Engine(host::Message::Complete(..))
                | Message::HandOver(_)
                | Message::Freeze(_)
                | Message::Release
                | Message::Thaw
        )
    }
}

/// What a worker is asked to hand over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Handover {
    /// The worker that gives.
    pub from: usize,
    /// The worker that takes.
    pub to: usize,
    /// The part of the load of `from` that is to move, 0 to 1.
    pub share: f64,
}

/// A worker's queue of messages. Any thread may put some in; the worker takes them all at once.
pub struct Inbox {
    messages: Mutex<Vec<(Lsn, Message)>>,
    waker: Waker,
}

impl Inbox {
    /// An empty inbox whose owner sleeps in the driver that `waker` wakes.
    pub fn new(waker: Waker) -> Self {
        Inbox { messages: Mutex::default(), waker }
    }

    /// Leaves a message and wakes the worker. The message is for when the log is confirmed up to `lsn`.
    pub fn put(&self, message: Message, lsn: Lsn) {
        self.messages.lock().push((lsn, message));
        self.waker.wake();
    }

    /// Wakes the worker.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Takes all messages, with the LSNs that they are for.
    pub fn take(&self) -> Vec<(Lsn, Message)> {
        std::mem::take(&mut *self.messages.lock())
    }
}
