//! Where the bytes that arrive go.

/// Whether the owner wants the bytes that arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reading {
    On,
    /// No, and a peer that ends the connection has ended it, whatever it sent before.
    Paused,
    /// No, but nothing is to be lost: the end is reported after the bytes.
    Held,
}

/// A buffer that arriving bytes go straight into.
#[derive(Debug)]
pub(crate) struct Fill {
    pub(crate) buffer: Vec<u8>,
    pub(crate) len: usize,
}

impl Fill {
    pub(crate) fn new(mut buffer: Vec<u8>, len: usize) -> Fill {
        buffer.reserve_exact(len.saturating_sub(buffer.len()));
        Fill { buffer, len }
    }

    /// What the buffer has, and what it is to have.
    pub(crate) fn progress(&self) -> (usize, usize) {
        (self.buffer.len(), self.len)
    }

    pub(crate) fn missing(&self) -> usize {
        self.len.saturating_sub(self.buffer.len())
    }

    /// Copies what it can use from bytes that have arrived elsewhere; the number of them.
    pub(crate) fn copy_from(&mut self, bytes: &[u8]) -> usize {
        let used = self.missing().min(bytes.len());
        self.buffer.extend_from_slice(&bytes[..used]);
        used
    }
}
