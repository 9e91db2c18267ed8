//! Numbers and byte strings of the formats: variable-length integers, seven bits a byte, the lowest first.
//!
//! Reading checks bounds before anything is allocated; a count is believed only as far as the bytes reach.

use std::io;

use mantissa_number::binary::{VARINT_MAX, read_varint, write_varint};

/// The error for bytes that are not what they should be.
pub(crate) fn damaged(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// Appends a number.
pub(crate) fn put_number(number: u64, out: &mut Vec<u8>) {
    write_varint(out, number);
}

/// Appends a length and the bytes.
pub(crate) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_number(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Bytes that are read from the front.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// A reader of what errors call `what`.
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Reader { bytes, what }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn left(&self) -> usize {
        self.bytes.len()
    }

    /// An error that names what is read.
    pub fn error(&self, reason: &str) -> io::Error {
        damaged(format!("{}: {reason}", self.what))
    }

    pub fn take(&mut self, count: u64) -> io::Result<&'a [u8]> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or_else(|| self.error("it ends early"))?;
        self.bytes = rest;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or_else(|| self.error("it ends early"))?;
        self.bytes = rest;
        Ok(*taken)
    }

    pub fn number(&mut self) -> io::Result<u64> {
        let Some((number, size)) = read_varint(self.bytes) else {
            let is_cut = self.left() < VARINT_MAX;
            return Err(self.error(if is_cut { "it ends early" } else { "a number is too large" }));
        };
        self.bytes = &self.bytes[size..];
        Ok(number)
    }

    pub fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let count = self.number()?;
        self.take(count)
    }

    /// The number of elements of which each takes at least `bytes_min` bytes.
    pub fn count(&mut self, bytes_min: usize) -> io::Result<usize> {
        let count = self.number()?;
        if count > (self.left() / bytes_min) as u64 {
            return Err(self.error("a count is larger than what follows"));
        }
        Ok(count as usize)
    }

    pub fn finish(self) -> io::Result<()> {
        if self.is_empty() { Ok(()) } else { Err(self.error("bytes follow its end")) }
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal digits.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != N * 2 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; N];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(index * 2..index * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}
