//! Reading a file ahead of who needs it.
//!
//! A thread reads blocks while those before them are used. What the system does not have in its page cache is
//! read past it (`O_DIRECT`): a dump is read once, and its bytes would only take memory there. Whether it has
//! it is told by the time that a block takes.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

use crate::storage::{AlignedBuffer, SharedFile};

/// Bytes of a block.
const BLOCK_BYTES: usize = if cfg!(test) { 4 << 10 } else { 1 << 20 };
/// Blocks in memory: the one in use and those that are read meanwhile.
const BLOCKS: usize = 3;
/// A block that takes longer was not in the page cache.
const CACHED_TIME_MAX: Duration = Duration::from_micros(250);

/// A block: its number, and what was read of it.
type Block = (u64, AlignedBuffer, io::Result<usize>);

/// A file that another thread reads ahead.
pub(super) struct ReadAhead {
    asks: Sender<(u64, AlignedBuffer)>,
    blocks: Receiver<Block>,
    spare: Vec<AlignedBuffer>,
    /// The block to ask for next; those that are on their way come right before it.
    next: u64,
    waiting: u64,
    current: Option<Block>,
    /// The file's length.
    total: u64,
}

impl ReadAhead {
    /// Starts the thread, which ends when this is dropped.
    pub fn start<'s>(scope: &'s Scope<'s, '_>, file: &'s dyn SharedFile, total: u64) -> Self {
        let (asks, asked) = channel::<(u64, AlignedBuffer)>();
        let (sender, blocks) = channel();
        scope.spawn(move || {
            let mut reader = Reader { file, direct: None, stays_cached: false };
            for (number, mut buffer) in asked {
                let outcome = reader.read(number, buffer.bytes_mut());
                if sender.send((number, buffer, outcome)).is_err() {
                    break;
                }
            }
        });
        let count = total.div_ceil(BLOCK_BYTES as u64).clamp(1, BLOCKS as u64);
        let mut spare: Vec<_> = (0..count).map(|_| AlignedBuffer::new(BLOCK_BYTES)).collect();
        // That the memory is there does not belong to the time that a block takes.
        spare.iter_mut().for_each(|buffer| buffer.bytes_mut().fill(1));
        ReadAhead { asks, blocks, spare, next: 0, waiting: 0, current: None, total }
    }

    /// Some bytes from an offset on, which is not before that of the last call; none behind the end.
    pub fn bytes_at(&mut self, offset: u64) -> io::Result<&[u8]> {
        let number = offset / BLOCK_BYTES as u64;
        if self.current.as_ref().is_none_or(|(current, ..)| *current != number) {
            self.go_to(number)?;
        }
        self.ask();
        let Some((_, buffer, outcome)) = &self.current else { return Ok(&[]) };
        let count = outcome.as_ref().map_err(|error| error.kind())?;
        let start = (offset % BLOCK_BYTES as u64) as usize;
        Ok(buffer.bytes().get(start..*count).unwrap_or_default())
    }

    fn go_to(&mut self, number: u64) -> io::Result<()> {
        self.spare.extend(self.current.take().map(|(_, buffer, _)| buffer));
        if !(self.next - self.waiting..self.next).contains(&number) {
            self.next = number;
        }
        loop {
            self.ask();
            if self.waiting == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            let block = self.blocks.recv().map_err(io::Error::other)?;
            self.waiting -= 1;
            if block.0 == number {
                self.current = Some(block);
                return Ok(());
            }
            self.spare.push(block.1);
        }
    }

    /// Asks for as many blocks as there is memory for.
    fn ask(&mut self) {
        while self.next * (BLOCK_BYTES as u64) < self.total
            && let Some(buffer) = self.spare.pop()
        {
            // It fails where the thread has panicked, which the next block tells.
            let _ = self.asks.send((self.next, buffer));
            self.next += 1;
            self.waiting += 1;
        }
    }
}

/// Reads blocks.
struct Reader<'a> {
    file: &'a dyn SharedFile,
    /// The same file for direct reads, once a block was not in the page cache.
    direct: Option<Box<dyn SharedFile>>,
    /// There are no direct reads of this file.
    stays_cached: bool,
}

impl Reader<'_> {
    /// Reads a block; less of it at the end of the file.
    fn read(&mut self, number: u64, block: &mut [u8]) -> io::Result<usize> {
        let offset = number * BLOCK_BYTES as u64;
        let mut filled = 0;
        if let Some(direct) = &self.direct {
            match direct.read_at(block, offset) {
                Ok(count) => filled = count,
                Err(_) => (self.direct, self.stays_cached) = (None, true),
            }
        }
        let (began, is_cached) = (Instant::now(), filled == 0);
        while filled < block.len() {
            match self.file.read_at(&mut block[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if is_cached && !self.stays_cached && began.elapsed() > CACHED_TIME_MAX {
            self.go_past_cache();
        }
        Ok(filled)
    }

    fn go_past_cache(&mut self) {
        self.direct = self.file.past_cache();
        self.stays_cached = self.direct.is_none();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};

    /// A file of `length` bytes.
    fn file(name: &str, length: usize) -> (File, Vec<u8>) {
        let bytes: Vec<u8> = (0..length).map(|at| (at / 7 % 251) as u8).collect();
        let path = std::env::temp_dir().join(format!("mantissa-ahead-{}-{name}", std::process::id()));
        std::fs::write(&path, &bytes).expect("there is a folder for temporary files");
        let file = File::open(&path).expect("written just now");
        std::fs::remove_file(&path).expect("written just now");
        (file, bytes)
    }

    #[test]
    fn bytes_come_in_order_and_parts_can_be_left_out() {
        for (round, length) in [0, 1, 4095, 4096, 4097, 100_000].into_iter().enumerate() {
            for skipped in [0, 1, 5_000, 50_000] {
                let (file, expected) = file(&format!("{round}-{skipped}"), length);
                std::thread::scope(|scope| {
                    let mut ahead = ReadAhead::start(scope, &file, length as u64);
                    let mut offset = 0;
                    while offset < length {
                        let bytes = ahead.bytes_at(offset as u64).expect("the file is there");
                        assert!(!bytes.is_empty() && *bytes == expected[offset..][..bytes.len()]);
                        offset += bytes.len() + skipped;
                    }
                    assert!(ahead.bytes_at(offset as u64 + 10_000).is_err());
                });
            }
        }
    }

    #[test]
    fn a_block_is_the_same_past_the_page_cache() {
        let (file, expected) = file("direct", 3 * BLOCK_BYTES - 100);
        let mut reader = Reader { file: &file, direct: None, stays_cached: false };
        let mut buffer = AlignedBuffer::new(BLOCK_BYTES);
        for round in 0..3 {
            for number in 0..3 {
                let count = reader.read(number, buffer.bytes_mut()).expect("the file is there");
                let start = number as usize * BLOCK_BYTES;
                assert_eq!(
                    &buffer.bytes()[..count],
                    &expected[start..expected.len().min(start + BLOCK_BYTES)]
                );
            }
            match round {
                0 => reader.go_past_cache(),
                // What takes no reads at all, so that the file itself has to do.
                _ => {
                    reader.direct = OpenOptions::new()
                        .write(true)
                        .open("/dev/null")
                        .ok()
                        .map(|file| Box::new(file) as Box<dyn SharedFile>)
                }
            }
        }
        assert!(reader.stays_cached);
    }
}
