//! Frames of a server: whole messages, without a mask.

use super::{CloseCode, Opcode};

/// The most bytes of a header that this side writes.
pub const HEADER_BYTES_MAX: usize = 10;
/// The most bytes of a control frame's payload (section 5.5), less the two of a close code.
const REASON_BYTES_MAX: usize = 123;
const FIN: u8 = 0x80;

/// The header of a frame that is a whole message of `len` bytes: the bytes, and how many of them count.
pub fn header(opcode: Opcode, len: usize) -> ([u8; HEADER_BYTES_MAX], usize) {
    let mut bytes = [0; HEADER_BYTES_MAX];
    bytes[0] = FIN | opcode.bits();
    let used = match len {
        0..=125 => {
            bytes[1] = len as u8;
            2
        }
        126..=0xffff => {
            bytes[1] = 126;
            bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            4
        }
        _ => {
            bytes[1] = 127;
            bytes[2..10].copy_from_slice(&(len as u64).to_be_bytes());
            10
        }
    };
    (bytes, used)
}

/// Appends a frame that is a whole message, or a control frame.
pub fn frame(opcode: Opcode, payload: &[u8], out: &mut Vec<u8>) {
    let (bytes, used) = header(opcode, payload.len());
    out.reserve(used + payload.len());
    out.extend_from_slice(&bytes[..used]);
    out.extend_from_slice(payload);
}

/// Appends a close frame. A reason that is too long is cut.
pub fn close(code: CloseCode, reason: &str, out: &mut Vec<u8>) {
    let reason = &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)];
    let payload = [&code.number().to_be_bytes(), reason.as_bytes()].concat();
    frame(Opcode::Close, &payload, out);
}
