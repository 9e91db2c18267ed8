//! A connection: a session with what its worker keeps of the socket's input and output.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use mantissa_engine::Session;
use mantissa_net::{Conn, Driver};
use mantissa_persist::log::Lsn;
use mantissa_protocol::RequestParser;
use mantissa_sys::QuickInstant;

use crate::http::HttpConnection;
use crate::websocket::WebSocket;

/// An unfinished request, or requests that have to wait.
#[derive(Default)]
pub struct Partial {
    /// The bytes, from the first byte of the first request.
    pub buffer: Vec<u8>,
    /// Where the parser is in the first request.
    pub parser: RequestParser,
    /// Bytes of the buffer that have been counted as received, while the driver fills it.
    pub counted_bytes: usize,
}

/// Replies of one client that wait.
#[derive(Default)]
pub struct PendingReplies {
    /// LSNs, and what may leave when the log is confirmed up to them.
    pub queue: VecDeque<(Lsn, Vec<u8>)>,
    /// Bytes in the queue.
    pub bytes: usize,
}

/// What is noted of one client.
#[derive(Default)]
pub struct Weight {
    /// Bytes that are in its worker's sum.
    pub bytes: u64,
    /// The set that it is in.
    pub magnitude: Option<u8>,
}

impl Weight {
    /// Notes that the client is in no set.
    pub fn forget_magnitude(&mut self) {
        self.magnitude = None;
    }
}

/// What is spoken on a connection.
pub enum Wire {
    /// RESP: what comes is the session's requests, what leaves are its replies.
    Resp,
    /// HTTP, which makes requests and takes replies.
    Http(Box<HttpConnection>),
    /// WebSocket, whose messages carry requests and replies.
    WebSocket(Box<WebSocket>),
}

impl Wire {
    /// Whether it is RESP.
    #[inline]
    pub fn is_resp(&self) -> bool {
        matches!(self, Wire::Resp)
    }

    /// Whether it is HTTP.
    pub fn is_http(&self) -> bool {
        matches!(self, Wire::Http(_))
    }

    /// Whether it is WebSocket.
    #[inline]
    pub fn is_websocket(&self) -> bool {
        matches!(self, Wire::WebSocket(_))
    }

    /// Bytes that wait in front of the session.
    pub fn waiting_bytes(&self) -> usize {
        match self {
            Wire::Resp | Wire::WebSocket(_) => 0,
            Wire::Http(http) => http.waiting_bytes(),
        }
    }

    /// Those of an answer that has begun.
    pub fn unsent_bytes(&self) -> usize {
        match self {
            Wire::Resp | Wire::WebSocket(_) => 0,
            Wire::Http(http) => http.unsent_bytes(),
        }
    }

    /// Bytes of the ids of commands that have not been answered.
    pub fn id_bytes(&self) -> usize {
        match self {
            Wire::WebSocket(websocket) => websocket.ids.byte_len(),
            Wire::Resp | Wire::Http(_) => 0,
        }
    }

    /// Bytes of a text message that is not complete, and of ids.
    #[inline]
    pub fn kept_bytes(&self) -> usize {
        match self {
            Wire::WebSocket(websocket) => websocket.incoming.text.len() + websocket.ids.byte_len(),
            Wire::Resp | Wire::Http(_) => 0,
        }
    }

    /// Unused bytes of the buffer for text messages.
    #[inline]
    fn free_bytes(&self) -> usize {
        match self {
            Wire::WebSocket(websocket) => websocket.incoming.text.capacity() - websocket.incoming.text.len(),
            Wire::Resp | Wire::Http(_) => 0,
        }
    }
}

/// A client's connection, owned by the worker that serves it.
pub struct Connection {
    /// The client's state, which its commands change.
    pub session: Session,
    /// The driver's number for it.
    pub conn: Conn,
    /// What is spoken.
    pub wire: Wire,
    /// Bytes received and not used.
    pub partial: Option<Box<Partial>>,
    /// It is a replica: it is sent the stream, and no replies.
    pub is_replica: bool,
    /// Postponed by CLIENT PAUSE, by a slow disk, for values on disk, or while the worker reads a large
    /// value.
    pub paused: bool,
    /// It is CLIENT PAUSE or a failover that has postponed it.
    pub held_back: bool,
    /// Reading is held because too much output waits.
    pub held: bool,
    /// Since when the soft output limit has been exceeded, Unix time in ms; 0 if it is not.
    pub soft_limit_since_ms: i64,
    /// Replies that may not leave before the log is confirmed.
    pub pending_replies: Option<Box<PendingReplies>>,
    /// The commands that had been run when its worker last looked for connections to hand over.
    pub counted_commands: u64,
    /// The worker that it is to move to, once the driver has let go of it.
    pub moving_to: Option<usize>,
    /// When it last had a long request.
    pub long_at: Option<QuickInstant>,
    /// The driver is to let go of it, for a hand-over.
    pub is_released: bool,
    /// What it is sent before anything else, once it is served after a hand-over.
    pub first_bytes: Vec<u8>,
    /// What its worker has noted of the memory that it takes.
    pub weight: Weight,
    is_successor: bool,
}

impl Connection {
    /// The connection of a session that has just begun.
    pub fn new(session: Session, conn: Conn) -> Connection {
        Connection {
            session,
            conn,
            wire: Wire::Resp,
            partial: None,
            is_replica: false,
            paused: false,
            held_back: false,
            held: false,
            soft_limit_since_ms: 0,
            pending_replies: None,
            counted_commands: 0,
            moving_to: None,
            long_at: None,
            is_released: false,
            first_bytes: Vec::new(),
            weight: Weight::default(),
            is_successor: false,
        }
    }

    /// Notes how far the driver has filled the buffer of a long request. Who sends one is not idle.
    pub fn note_fill(&self, len: usize, wanted: usize, now_ms: i64) {
        let before = self.session.shared.query_bytes.load(Ordering::Relaxed);
        self.note_query(len, wanted);
        if self.session.shared.query_bytes.load(Ordering::Relaxed) != before {
            self.note_active(now_ms);
        }
    }

    /// Notes how many bytes of input the connection keeps, with those of its wire, and how large their buffer
    /// is or becomes.
    pub fn note_query(&self, len: usize, capacity: usize) {
        let read = self.partial.as_ref().map_or(0, |partial| partial.parser.bytes_read()).min(len);
        let shared = &self.session.shared;
        let used = len - read + self.wire.kept_bytes();
        let free = capacity.max(len) - len + read + self.wire.free_bytes();
        shared.query_bytes.store(used as u64, Ordering::Relaxed);
        shared.query_free_bytes.store(free as u64, Ordering::Relaxed);
    }

    /// What is kept of WebSocket, if that is spoken.
    #[inline]
    pub fn websocket(&mut self) -> Option<&mut WebSocket> {
        match &mut self.wire {
            Wire::WebSocket(websocket) => Some(websocket),
            _ => None,
        }
    }

    /// Whether the process that is to take over talks through it.
    pub fn is_successor(&self) -> bool {
        self.is_successor
    }

    /// The process that is to take over talks through it.
    pub fn be_successor(&mut self) {
        self.is_successor = true;
    }

    /// Whether requests have to wait.
    pub fn is_waiting(&self) -> bool {
        self.session.blocked.is_some() || self.paused
    }

    /// Whether they wait for what other clients or servers do. As in Redis, a client that ends its side is
    /// closed then, whatever it has sent. One that waits for this server's own work, which does not make it
    /// wait in Redis, gets its replies all the same.
    pub fn waits_for_others(&self) -> bool {
        match &self.session.blocked {
            Some(blocked) => !blocked.waits_for_work(),
            None => self.held_back,
        }
    }

    /// Stops reading from a client while its requests wait, if they do.
    pub fn stop_reading(&self, driver: &mut Driver) {
        if self.waits_for_others() {
            driver.pause_reading(self.conn);
        } else if self.held || self.is_waiting() {
            driver.hold_reading(self.conn);
        }
    }

    /// It has done or got something: it is not idle.
    #[inline]
    pub fn note_active(&self, now_ms: i64) {
        self.session.shared.active_ms.store(now_ms, Ordering::Relaxed);
    }
}
