//! WebSocket framing (RFC 6455), the server's side, without a socket: bytes in, bytes out.
//!
//! [`Decoder`] takes the bytes of a client in pieces of any size and appends what frames carry, unmasked, to
//! [`Incoming`]. Text is checked as UTF-8 while it comes, so that a bad message fails at its first bad byte.
//! [`frame`] and its kin write frames, which are neither masked nor fragmented.
//!
//! Guarantees:
//! - what is decoded does not depend on where the bytes are cut;
//! - a frame that breaks the protocol or a limit is refused once its header is there, before its payload;
//! - no extension: the reserved bits are refused.
//!
//! Costs: a decoder has about 200 bytes and holds no payload. Each byte of a payload is copied once, and its
//! mask removed, and text checked, with vector instructions.

mod close;
mod decoder;
mod handshake;
mod mask;
mod writer;

pub use close::CloseCode;
pub use decoder::{Decoder, Event, Incoming, Limits};
pub use handshake::accept_key;
pub use mantissa_sys::utf8::Utf8Checker;
pub use mask::unmask;
pub use writer::{HEADER_BYTES_MAX, close, frame, header};

/// What a message or control frame is (section 5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opcode {
    /// A further part of a message.
    Continuation,
    /// A message of text, UTF-8.
    Text,
    /// A message of bytes.
    Binary,
    /// The last frame of either side.
    Close,
    /// To be answered with a pong of the same payload.
    Ping,
    /// The answer to a ping, or sent by itself.
    Pong,
}

impl Opcode {
    /// The opcode of four bits; none if they are reserved.
    fn from_bits(bits: u8) -> Option<Opcode> {
        Some(match bits {
            0x0 => Opcode::Continuation,
            0x1 => Opcode::Text,
            0x2 => Opcode::Binary,
            0x8 => Opcode::Close,
            0x9 => Opcode::Ping,
            0xa => Opcode::Pong,
            _ => return None,
        })
    }

    fn bits(self) -> u8 {
        match self {
            Opcode::Continuation => 0x0,
            Opcode::Text => 0x1,
            Opcode::Binary => 0x2,
            Opcode::Close => 0x8,
            Opcode::Ping => 0x9,
            Opcode::Pong => 0xa,
        }
    }

    fn is_control(self) -> bool {
        self.bits() >= 0x8
    }
}

#[cfg(test)]
mod tests;
