//! The proof in the opening handshake that the server has understood it (RFC 6455, section 4.2.2).

use sha1::{Digest, Sha1};

const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// The length of 16 bytes in base64.
const KEY_CHARS: usize = 24;

/// What `Sec-WebSocket-Accept` says to a `Sec-WebSocket-Key`; none if that is not the base64 of 16 bytes.
pub fn accept_key(key: &[u8]) -> Option<String> {
    if !is_key(key) {
        return None;
    }
    let digest = Sha1::new().chain_update(key).chain_update(GUID).finalize();
    Some(to_base64(&digest))
}

/// 22 characters, of which the last has four bits of no meaning, and two signs of padding.
fn is_key(key: &[u8]) -> bool {
    key.len() == KEY_CHARS
        && key[..KEY_CHARS - 2].iter().all(|byte| BASE64.contains(byte))
        && key.ends_with(b"==")
}

fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(*group.get(at).unwrap_or(&0)));
        for place in 0..4 {
            let digit = BASE64[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place > group.len() { '=' } else { char::from(digit) });
        }
    }
    text
}
