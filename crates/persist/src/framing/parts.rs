//! Parts: a dump, and between its pieces the commands that come after it, on one connection.
//!
//! ```text
//! "D" length bytes    of the dump
//! "C" length bytes    of the stream behind the dump
//! "E" 0               the dump has ended: bare commands follow
//! ```
//!
//! A length is an integer of 32 bits, little-endian. So who sends the dump need not keep the commands until
//! it has been loaded: the receiver keeps them, up to a limit that it has told.

use std::collections::VecDeque;

/// The header line of a payload in parts.
pub const HEADER: &str = "$PARTS\r\n";
/// Bytes before those of a part.
pub const HEADER_BYTES: usize = 5;
/// Bytes of a block of commands.
const BLOCK_BYTES: usize = 256 << 10;

/// What a part has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Bytes of the dump.
    Dump,
    /// Bytes of the stream that follows the dump.
    Commands,
    /// Nothing: no part follows.
    End,
}

/// What comes before the bytes of a part. There may be 4 GiB of them at most.
pub fn header(kind: Kind, length: usize) -> [u8; HEADER_BYTES] {
    let letter = match kind {
        Kind::Dump => b'D',
        Kind::Commands => b'C',
        Kind::End => b'E',
    };
    let [a, b, c, d] = (length as u32).to_le_bytes();
    [letter, a, b, c, d]
}

/// The kind and length that a header tells.
pub(super) fn parse([letter, length @ ..]: [u8; HEADER_BYTES]) -> Result<(Kind, usize), String> {
    let length = u32::from_le_bytes(length) as usize;
    match letter {
        b'D' => Ok((Kind::Dump, length)),
        b'C' => Ok((Kind::Commands, length)),
        b'E' if length == 0 => Ok((Kind::End, 0)),
        _ => Err(format!(
            "a part of the payload begins with '{}' and has {length} bytes",
            letter.escape_ascii()
        )),
    }
}

/// Commands that came before the dump was whole, in order.
#[derive(Debug, Default)]
pub struct Ahead {
    blocks: VecDeque<Vec<u8>>,
    bytes: u64,
    pub(super) bytes_max: u64,
}

impl Ahead {
    /// The number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds bytes. An error says that there are too many.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.bytes += bytes.len() as u64;
        if self.bytes > self.bytes_max {
            return Err(format!("more than {} bytes of commands come before the dump ends", self.bytes_max));
        }
        self.append(bytes);
        Ok(())
    }

    /// Adds what follows the dump, whatever the limit.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.append(bytes);
    }

    fn append(&mut self, bytes: &[u8]) {
        let room = self.blocks.back().map_or(0, |block| BLOCK_BYTES.saturating_sub(block.len()));
        let (first, others) = bytes.split_at(room.min(bytes.len()));
        if let Some(block) = self.blocks.back_mut() {
            block.extend_from_slice(first);
        }
        for piece in others.chunks(BLOCK_BYTES) {
            let mut block = Vec::with_capacity(BLOCK_BYTES);
            block.extend_from_slice(piece);
            self.blocks.push_back(block);
        }
    }

    /// Takes the first bytes, if there are any.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        let block = self.blocks.pop_front()?;
        self.bytes -= block.len() as u64;
        Some(block)
    }
}
