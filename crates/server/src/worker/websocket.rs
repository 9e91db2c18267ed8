//! Clients that speak WebSocket: bytes come in as frames, and leave as frames.
//!
//! What messages carry is put where the bytes of other clients would be, and is served like those. A client
//! that waits in a blocking command is still listened to, so that its pings are answered; one that leaves
//! more than [`UNREAD_BYTES_MAX`] unread is not, until it has read.

use mantissa_engine::context::Context;
use mantissa_engine::stats;
use mantissa_net::websocket::{self, CloseCode, Event, Opcode};
use mantissa_net::{Conn, Driver};
use mantissa_protocol::{Protocol, Reply};

use super::Worker;
use super::input::Input;
use crate::connection::{Connection, Wire};
use crate::limits;
use crate::websocket::{Kind, Silence, Source, Upgrade, WebSocket};

/// Unsent bytes beyond which a client is not read from.
pub(super) const UNREAD_BYTES_MAX: usize = 1 << 20;
/// Requests beyond which a client is not read from that waits, in bytes.
const WAITING_BYTES_MAX: usize = 1 << 20;

impl Connection {
    /// Whether the last frame for a WebSocket client is known.
    pub(super) fn has_farewell(&self) -> bool {
        matches!(&self.wire, Wire::WebSocket(websocket) if websocket.farewell.is_some())
    }
}

/// Bytes for a client, in frames if it speaks WebSocket.
pub(super) fn framed(
    driver: &mut Driver,
    connection: &mut Connection,
    bytes: Vec<u8>,
    source: Source,
) -> Vec<u8> {
    let Some(websocket) = connection.websocket() else { return bytes };
    let mut out = std::mem::take(&mut websocket.outgoing);
    if !bytes.is_empty() {
        if out.capacity() == 0 {
            out = driver.take_buffer();
        }
        websocket.frame(&bytes, source, &mut out);
    }
    driver.return_buffer(bytes);
    out
}

/// Turns the reply of one command into JSON, if the client speaks that. Returns the bytes that wait.
pub(super) fn collect(connection: &mut Connection, reply: &mut Reply) -> usize {
    let Wire::WebSocket(websocket) = &mut connection.wire else { return 0 };
    if websocket.kind != Some(Kind::Json) {
        return 0;
    }
    let resp = reply.take_bytes();
    if resp.is_empty() {
        // Nothing is to be answered, unless the command waits: then the answer comes later.
        if connection.session.blocked.is_none() {
            websocket.ids.take_first();
        }
    } else {
        // A command that waits has not been answered: what there is comes unasked.
        let source = if connection.session.blocked.is_some() { Source::Push } else { Source::Reply };
        let mut out = std::mem::take(&mut websocket.outgoing);
        websocket.frame(&resp, source, &mut out);
        websocket.outgoing = out;
    }
    // JSON is made of RESP3, in which no kind of value is lost.
    if connection.session.protocol != Protocol::Resp3 {
        connection.session.set_protocol(Protocol::Resp3);
        reply.set_protocol(Protocol::Resp3);
    }
    websocket.outgoing.len()
}

/// Stops reading from a client that does not read, or has sent enough while it waits.
pub(super) fn hold_websocket(driver: &mut Driver, connection: &Connection) {
    let requests = connection.partial.as_ref().map_or(0, |partial| partial.buffer.len());
    let waiting = requests + connection.wire.id_bytes();
    if connection.session.closing {
        driver.pause_reading(connection.conn);
    } else if connection.held || connection.is_waiting() && waiting > WAITING_BYTES_MAX {
        driver.hold_reading(connection.conn);
    }
}

/// Looks after a client about once a second: a silent one is sent a ping. False if it is gone.
pub(super) fn attend(driver: &mut Driver, context: &Context, connection: &mut Connection) -> bool {
    let Some(websocket) = connection.websocket() else { return true };
    let allowed_ms = i64::from(context.active.config.websocket_timeout_s) * 1000;
    match websocket.silence(context.now_ms, allowed_ms) {
        Silence::Fine => true,
        Silence::Ping => {
            let mut ping = driver.take_buffer();
            websocket::frame(Opcode::Ping, b"", &mut ping);
            driver.send(connection.conn, ping);
            true
        }
        Silence::Gone => false,
    }
}

impl Worker<'_> {
    /// Takes bytes of a client that speaks WebSocket.
    pub(super) fn websocket_received(&mut self, driver: &mut Driver, conn: Conn, bytes: &[u8]) {
        let now_ms = self.context.now_ms;
        let Some(mut connection) = self.connections[conn.index()].take() else { return };
        if let Some(websocket) = connection.websocket() {
            websocket.heard(now_ms);
        }
        self.take_frames(driver, connection, bytes);
    }

    /// Grants a request to speak WebSocket. An error is the answer.
    pub(super) fn upgrade(&mut self, driver: &mut Driver, conn: Conn, upgrade: &Upgrade) {
        let now_ms = self.context.now_ms;
        let Some(connection) = self.connection_mut(conn) else { return };
        let Wire::Http(http) = &mut connection.wire else { return };
        let (ahead, is_held) = (http.take_input(), http.is_held);
        connection.wire = Wire::WebSocket(Box::new(WebSocket::new(upgrade.kind, now_ms)));
        connection.session.first_protocol = Protocol::Resp3;
        connection.session.is_framed = true;
        connection.session.set_protocol(Protocol::Resp3);
        let mut bytes = driver.take_buffer();
        upgrade.grant(&mut bytes);
        driver.send(conn, bytes);
        if is_held {
            driver.resume_reading(conn);
        }
        if !ahead.is_empty() {
            self.websocket_received(driver, conn, &ahead);
        }
    }

    /// Takes frames, and serves what they carry.
    fn take_frames(&mut self, driver: &mut Driver, mut connection: Box<Connection>, bytes: &[u8]) {
        let conn = connection.conn;
        let mut partial = connection.partial.take();
        let mut requests = match &mut partial {
            Some(partial) => std::mem::take(&mut partial.buffer),
            None => std::mem::take(&mut self.requests),
        };
        let before = requests.len();
        self.decode(driver, &mut connection, bytes, &mut requests);
        let has_more = requests.len() > before;
        if has_more {
            connection.note_active(self.context.now_ms);
        }
        let is_over = connection.has_farewell();
        let unsent = self.unsent(driver, &connection);
        if unsent > UNREAD_BYTES_MAX && !connection.held {
            connection.held = true;
            driver.hold_reading(conn);
            driver.notify_sent(conn);
        }
        if partial.is_none() && !has_more {
            connection.note_query(0, 0);
            limits::bound_query(&self.context, &mut connection, 0);
        }
        self.connections[conn.index()] = Some(connection);
        if let Some(mut partial) = partial {
            partial.buffer = requests;
            self.serve(driver, conn, Input::Kept(partial));
        } else {
            if has_more || is_over {
                self.serve(driver, conn, Input::Lent(&requests));
            } else {
                self.after_send(driver, conn);
            }
            requests.clear();
            requests.shrink_to(KEPT_BYTES_MAX);
            self.requests = requests;
        }
    }

    /// Takes frames apart: requests are appended, pings answered, and the connection's end noted.
    fn decode(
        &mut self,
        driver: &mut Driver,
        connection: &mut Connection,
        mut bytes: &[u8],
        requests: &mut Vec<u8>,
    ) {
        let Wire::WebSocket(websocket) = &mut connection.wire else { return };
        if websocket.farewell.is_some() {
            return;
        }
        let config = &self.context.active.config;
        let is_logged_in = connection.session.authenticated || !self.context.engine.acl.needs_login();
        websocket.set_limits(
            config.websocket_max_frame as u64,
            config.websocket_max_message as u64,
            is_logged_in,
        );
        let mut pongs = driver.take_buffer();
        std::mem::swap(&mut websocket.incoming.binary, requests);
        if let Err((code, reason)) = take_messages(websocket, &mut bytes, &mut pongs) {
            websocket.end(code, &reason);
        }
        std::mem::swap(&mut websocket.incoming.binary, requests);
        if pongs.is_empty() {
            return driver.return_buffer(pongs);
        }
        stats::add(&connection.session.shared.sent_bytes, pongs.len() as u64);
        driver.send(connection.conn, pongs);
    }

    /// Ends a connection over HTTP or WebSocket because this process ends and no other can go on with it.
    pub(super) fn leave_web(&mut self, driver: &mut Driver, index: usize) {
        let Some(mut connection) = self.connections[index].take() else { return };
        match &mut connection.wire {
            Wire::WebSocket(websocket) => {
                websocket.end(CloseCode::ServiceRestart, "the server is being upgraded");
            }
            Wire::Http(http) => {
                if let Some(answer) = http.answer_at_end() {
                    driver.send(connection.conn, answer);
                }
            }
            Wire::Resp => {}
        }
        self.end(driver, &mut connection);
    }
}

/// Capacity that is kept for the requests of the next message.
const KEPT_BYTES_MAX: usize = 256 << 10;

fn take_messages(
    websocket: &mut WebSocket,
    bytes: &mut &[u8],
    pongs: &mut Vec<u8>,
) -> Result<(), (CloseCode, String)> {
    let plain = |code| (code, String::new());
    loop {
        let before = websocket.incoming.binary.len();
        let event = websocket.decoder.next(bytes, &mut websocket.incoming).map_err(plain)?;
        let Some(event) = event else { return Ok(()) };
        match event {
            Event::Binary { .. } => {
                if let Err(code) = websocket.settle(Kind::Resp) {
                    websocket.incoming.binary.truncate(before);
                    return Err(plain(code));
                }
            }
            Event::Text { is_last } => {
                websocket.settle(Kind::Json).map_err(plain)?;
                if is_last {
                    websocket.take_command().map_err(|reason| (CloseCode::InvalidPayload, reason))?;
                }
            }
            Event::Ping => websocket::frame(Opcode::Pong, websocket.decoder.control(), pongs),
            Event::Pong => {}
            Event::Close => websocket.end_as_asked(),
        }
    }
}
