//! The opening handshake (RFC 6455, section 4.2): an HTTP request that asks to speak WebSocket. Its host, its
//! origin and its credentials have been looked at as those of any request.

use mantissa_net::http::{Framing, Head, Response, Status};
use mantissa_net::websocket::accept_key;

use super::Kind;
use crate::http::json_error;

/// The parameter of a query that holds a ticket of MANTISSA.TICKET.
const TICKET_PARAMETER: &str = "ticket";

/// A request that can be granted.
pub struct Upgrade {
    accept: String,
    /// What messages are to carry, where the client offers that as a subprotocol.
    pub kind: Option<Kind>,
}

/// The ticket that a request presents.
pub fn ticket(head: &Head) -> Option<&str> {
    let mut parameters = head.query.split('&').filter_map(|parameter| parameter.split_once('='));
    parameters.find(|(name, _)| *name == TICKET_PARAMETER).map(|(_, ticket)| ticket)
}

impl Upgrade {
    /// What a request asks for. An error is the answer.
    pub fn of(head: &Head) -> Result<Upgrade, Response> {
        let is_version_13 = head.field("sec-websocket-version") == Some(b"13");
        if !head.has_option("upgrade", "websocket")
            || !head.has_option("connection", "upgrade")
            || !is_version_13
        {
            return Err(json_error(Status::UpgradeRequired, "ERR WebSocket of version 13 is spoken here")
                .with("Upgrade", "websocket")
                .with("Sec-WebSocket-Version", "13"));
        }
        let key = head.field("sec-websocket-key").and_then(accept_key);
        let has_content = !matches!(head.framing, Framing::None | Framing::Length(0));
        let Some(accept) = key.filter(|_| !has_content) else {
            return Err(json_error(Status::BadRequest, "ERR the request for WebSocket is not well-formed"));
        };
        let offered = head.joined("sec-websocket-protocol");
        let kind = offered.split(',').map(str::trim_ascii).find_map(Kind::of_protocol);
        Ok(Upgrade { accept, kind })
    }

    /// Writes the answer that grants it.
    pub fn grant(&self, out: &mut Vec<u8>) {
        let mut head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {}\r\n",
            self.accept
        );
        if let Some(kind) = self.kind {
            head.push_str("Sec-WebSocket-Protocol: ");
            head.push_str(kind.protocol());
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        out.extend_from_slice(head.as_bytes());
    }
}
