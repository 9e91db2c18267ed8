//! What reads and writes past the page cache (`O_DIRECT`) need.
//!
//! The system takes them where the place in the file, the length, and the address in memory are multiples of
//! the disk's block size.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// A multiple of every usual block size, in bytes.
pub const BLOCK_BYTES: usize = 4096;

/// Memory whose address is a multiple of [`BLOCK_BYTES`].
pub struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// A buffer of zeros of this length.
    pub fn new(len: usize) -> Self {
        let memory = vec![0; len + BLOCK_BYTES];
        let start = memory.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
        AlignedBuffer { memory, start, len }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..][..self.len]
    }

    /// Its bytes, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.len]
    }
}

/// Opens an existing file for direct reads or writes; `None` where the file system takes none.
pub fn open_direct(options: &mut OpenOptions, path: &Path) -> Option<File> {
    options.custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_and_zero() {
        for len in [0, 1, BLOCK_BYTES, 100_000] {
            let mut buffer = AlignedBuffer::new(len);
            assert_eq!(buffer.bytes(), vec![0; len]);
            assert!(buffer.bytes().as_ptr().addr().is_multiple_of(BLOCK_BYTES));
            buffer.bytes_mut().fill(1);
            assert_eq!(buffer.bytes(), vec![1; len]);
        }
    }
}
