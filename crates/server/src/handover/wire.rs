//! What is spoken with a client on its way to another process: HTTP, and how far a request is; WebSocket, and
//! how far a frame and a message are.

use mantissa_protocol::{decode_request, encode_request};
use mantissa_sys::clock::unix_ms;

use crate::connection::Wire;
use crate::http::HttpConnection;
use crate::websocket::WebSocket;

const HTTP: &[u8] = b"http";
const WEBSOCKET: &[u8] = b"websocket";

/// Whether it can go over.
pub fn may_go(wire: &Wire) -> bool {
    match wire {
        Wire::Resp => true,
        Wire::Http(http) => http.may_go(),
        Wire::WebSocket(websocket) => websocket.may_go(),
    }
}

/// One word for it, empty for RESP; none if it can not go over: content of a request is to come, or the
/// connection is to end.
pub fn encode(wire: &Wire) -> Option<Vec<u8>> {
    let (kind, pairs) = match wire {
        Wire::Resp => return Some(Vec::new()),
        Wire::Http(http) => (HTTP, http.state()?),
        Wire::WebSocket(websocket) => (WEBSOCKET, websocket.state()?),
    };
    let mut words: Vec<&[u8]> = vec![b"kind-of-wire", kind];
    words.extend(pairs.iter().flat_map(|(name, value)| [*name, value.as_slice()]));
    let mut out = Vec::new();
    encode_request(&mut out, words);
    Some(out)
}

/// What [`encode`] made; none if it is not that.
pub fn decode(word: &[u8]) -> Option<Wire> {
    if word.is_empty() {
        return Some(Wire::Resp);
    }
    let words = decode_request(word)?;
    let words = words.as_args();
    match words.get(1)? {
        HTTP => Some(Wire::Http(Box::new(HttpConnection::with_state(words)?))),
        WEBSOCKET => Some(Wire::WebSocket(Box::new(WebSocket::with_state(words, unix_ms())?))),
        _ => None,
    }
}
