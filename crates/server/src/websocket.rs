//! Clients that speak WebSocket: what a connection keeps, without its socket. `worker/websocket.rs` brings
//! bytes and takes bytes away.
//!
//! Such a client is a session as any other. The messages of one connection are all of one [`Kind`]. Binary
//! ones carry RESP, whose requests and replies may begin and end anywhere in a message. Each text message is
//! a command in JSON, or an answer to one, or a push.

pub mod json;
mod upgrade;

use std::collections::VecDeque;

use mantissa_net::websocket::{self, CloseCode, Decoder, Incoming, Limits, Opcode};
use mantissa_protocol::Args;

use crate::http::Pairs;
pub use upgrade::{Upgrade, ticket};

/// Of a client that has not logged in, messages are no larger.
const MESSAGE_BYTES_MAX_BEFORE_LOGIN: u64 = 64 << 10;

/// What messages of a connection carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Binary messages: RESP.
    Resp,
    /// Text messages: JSON.
    Json,
}

impl Kind {
    fn of_protocol(name: &str) -> Option<Kind> {
        match name {
            "resp3" => Some(Kind::Resp),
            "json" => Some(Kind::Json),
            _ => None,
        }
    }

    fn protocol(self) -> &'static str {
        match self {
            Kind::Resp => "resp3",
            Kind::Json => "json",
        }
    }
}

/// The state of a connection.
pub struct WebSocket {
    /// Takes frames apart.
    pub decoder: Decoder,
    /// What messages have carried and is not used yet.
    pub incoming: Incoming,
    /// Settled by the opening request, else by the first message.
    pub kind: Option<Kind>,
    /// The ids of commands in JSON that have not been answered: JSON, empty for none.
    pub ids: Ids,
    /// JSON that has not been given to the driver.
    pub outgoing: Vec<u8>,
    /// The last frame, once it is known: the connection ends when what has come before has been answered.
    pub farewell: Option<Vec<u8>>,
    /// When something came from the client, Unix time in ms.
    heard_ms: i64,
    /// A ping has been sent since.
    is_pinged: bool,
}

/// The ids of commands, in order.
#[derive(Default)]
pub struct Ids {
    queue: VecDeque<Vec<u8>>,
    /// Bytes that the queue takes.
    bytes: usize,
}

impl Ids {
    /// The id of one more command.
    pub fn push(&mut self, id: Vec<u8>) {
        self.bytes += Self::bytes_of(&id);
        self.queue.push_back(id);
    }

    /// Takes the id of the first command; empty if it has none.
    pub fn take_first(&mut self) -> Vec<u8> {
        let id = self.queue.pop_front().unwrap_or_default();
        self.bytes = self.bytes.saturating_sub(Self::bytes_of(&id));
        id
    }

    /// Bytes that they take.
    pub fn byte_len(&self) -> usize {
        self.bytes
    }

    fn bytes_of(id: &Vec<u8>) -> usize {
        size_of_val(id) + id.len()
    }
}

/// What is to be done about a client that says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Silence {
    /// Nothing.
    Fine,
    /// It is to be asked whether it is there.
    Ping,
    /// It is gone.
    Gone,
}

impl WebSocket {
    /// A connection whose opening request has just been granted.
    pub fn new(kind: Option<Kind>, now_ms: i64) -> WebSocket {
        WebSocket {
            decoder: Decoder::new(Limits { frame_bytes_max: 0, message_bytes_max: 0 }),
            incoming: Incoming::default(),
            kind,
            ids: Ids::default(),
            outgoing: Vec::new(),
            farewell: None,
            heard_ms: now_ms,
            is_pinged: false,
        }
    }

    /// Whether it can go to another process: it is not to end.
    pub fn may_go(&self) -> bool {
        self.farewell.is_none() && !self.decoder.is_closed()
    }

    /// Its state, for another process, if it can go there.
    pub fn state(&self) -> Option<Pairs> {
        if !self.may_go() {
            return None;
        }
        let kind = self.kind.map_or("", Kind::protocol);
        let mut pairs: Pairs = vec![
            (b"kind", kind.into()),
            (b"decoder", self.decoder.state()),
            (b"text", self.incoming.text.clone()),
            (b"outgoing", self.outgoing.clone()),
        ];
        pairs.extend(self.ids.queue.iter().map(|id| (&b"command"[..], id.clone())));
        Some(pairs)
    }

    /// One in this state; none if it is no such state.
    pub fn with_state(state: Args<'_>, now_ms: i64) -> Option<WebSocket> {
        let mut websocket = WebSocket::new(None, now_ms);
        for at in (0..state.len()).step_by(2) {
            let value = state.get(at + 1)?;
            match state.at(at) {
                b"kind" => websocket.kind = Kind::of_protocol(std::str::from_utf8(value).ok()?),
                b"decoder" => {
                    let limits = Limits { frame_bytes_max: 0, message_bytes_max: 0 };
                    websocket.decoder = Decoder::with_state(limits, value)?;
                }
                b"text" => websocket.incoming.text = value.to_vec(),
                b"outgoing" => websocket.outgoing = value.to_vec(),
                b"command" => websocket.ids.push(value.to_vec()),
                _ => {}
            }
        }
        Some(websocket)
    }

    /// Sets what a client may send.
    pub fn set_limits(&mut self, frame_bytes_max: u64, message_bytes_max: u64, is_logged_in: bool) {
        let bound = if is_logged_in { u64::MAX } else { MESSAGE_BYTES_MAX_BEFORE_LOGIN };
        self.decoder.set_limits(Limits {
            frame_bytes_max: frame_bytes_max.min(bound),
            message_bytes_max: message_bytes_max.min(bound),
        });
    }

    /// Notes that something has come.
    pub fn heard(&mut self, now_ms: i64) {
        (self.heard_ms, self.is_pinged) = (now_ms, false);
    }

    /// What is to be done about a silent client, which is gone after `allowed_ms`; 0 is never.
    pub fn silence(&mut self, now_ms: i64, allowed_ms: i64) -> Silence {
        let silent_ms = now_ms - self.heard_ms;
        match allowed_ms {
            0 => Silence::Fine,
            _ if silent_ms > allowed_ms => Silence::Gone,
            _ if silent_ms > allowed_ms / 2 && !std::mem::replace(&mut self.is_pinged, true) => Silence::Ping,
            _ => Silence::Fine,
        }
    }

    /// Settles what messages carry, or finds that a message is of the other kind.
    pub fn settle(&mut self, kind: Kind) -> Result<(), CloseCode> {
        if *self.kind.get_or_insert(kind) == kind { Ok(()) } else { Err(CloseCode::Unsupported) }
    }

    /// Takes a command in JSON, and appends it as a request to what binary messages would have carried.
    pub fn take_command(&mut self) -> Result<(), String> {
        let text = std::mem::take(&mut self.incoming.text);
        let id = json::request(&text, &mut self.incoming.binary)?;
        self.ids.push(id);
        Ok(())
    }

    /// Has the connection end with this code.
    pub fn end(&mut self, code: CloseCode, reason: &str) {
        let mut frame = Vec::new();
        websocket::close(code, reason, &mut frame);
        self.farewell.get_or_insert(frame);
    }

    /// Answers the client's last frame by the same code.
    pub fn end_as_asked(&mut self) {
        let code = &self.decoder.control()[..self.decoder.control().len().min(2)];
        let mut frame = Vec::new();
        websocket::frame(Opcode::Close, code, &mut frame);
        self.farewell.get_or_insert(frame);
    }

    /// The last frame that the client is sent.
    pub fn take_farewell(&mut self) -> Vec<u8> {
        self.end(CloseCode::Normal, "");
        self.farewell.take().unwrap_or_default()
    }

    /// The frame that carries bytes of RESP, or those of the JSON for them. `id` is that of the command that
    /// they answer.
    pub fn frame(&mut self, resp: &[u8], source: Source, out: &mut Vec<u8>) {
        match self.kind {
            Some(Kind::Json) => {
                let id = match source {
                    Source::Reply if !resp.is_empty() => self.ids.take_first(),
                    _ => Vec::new(),
                };
                json::messages(resp, &id, source == Source::Push, |message| {
                    websocket::frame(Opcode::Text, message, out);
                });
            }
            _ => websocket::frame(Opcode::Binary, resp, out),
        }
    }
}

/// Where bytes for a client come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A command of its own.
    Reply,
    /// Somebody else.
    Push,
}
