//! A file that is written past the page cache (`O_DIRECT`).
//!
//! Through the page cache, each byte of a dump would be copied, written back by a kernel thread, and kept
//! instead of pages that are read. That takes several times the processor time, in stretches that many
//! kernels do not preempt, and a sync of another file on the same disk may have to wait for all of it.
//!
//! The system takes direct writes whose place in the file, length and address in memory are multiples of the
//! disk's block size. They are made from one aligned buffer. The end of the file, which is shorter, goes
//! through the page cache, and so does everything where the file system takes no direct writes. While the
//! disk is slow, most writes go through the page cache too, so that the writer does not wait for the disk
//! and bytes do not pile up in the process.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use mantissa_sys::direct_io::{AlignedBuffer, open_direct};

use super::OutputFile;

/// Bytes of one write.
const BUFFER_BYTES: usize = 1 << 20;
/// A disk that takes longer than this for one write is slow.
const WRITE_TIME_MAX: Duration = Duration::from_millis(8);
/// Writes through the page cache before a slow disk is tried again.
const CACHED_WRITES: u32 = 31;

/// A file that is written past the page cache.
pub(super) struct DirectFile {
    /// The file, for writes through the page cache.
    cached: File,
    /// For direct writes, if the file system takes them.
    direct: Option<File>,
    /// The offset in the file of what the buffer holds, a multiple of its size.
    offset: u64,
    buffer: AlignedBuffer,
    filled: usize,
    /// Bytes of the buffer that are in the file already.
    flushed: usize,
    /// Writes that still go through the page cache because the disk is slow.
    cached_writes: u32,
}

impl DirectFile {
    /// Creates a file, or empties one.
    pub fn create(path: &Path) -> io::Result<Self> {
        let cached = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        let direct = open_direct(OpenOptions::new().write(true), path);
        let buffer = AlignedBuffer::new(BUFFER_BYTES);
        Ok(DirectFile { cached, direct, offset: 0, buffer, filled: 0, flushed: 0, cached_writes: 0 })
    }

    /// Writes the whole buffer and begins anew.
    fn write_buffer(&mut self) -> io::Result<()> {
        let bytes = self.buffer.bytes();
        match &self.direct {
            Some(direct) if self.cached_writes == 0 => {
                let began = Instant::now();
                match direct.write_all_at(bytes, self.offset) {
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                        self.direct = None;
                        return self.write_buffer();
                    }
                    outcome => outcome?,
                }
                if began.elapsed() > WRITE_TIME_MAX {
                    self.cached_writes = CACHED_WRITES;
                }
            }
            _ => {
                self.cached.write_all_at(&bytes[self.flushed..], self.offset + self.flushed as u64)?;
                self.cached_writes = self.cached_writes.saturating_sub(1);
            }
        }
        self.offset += BUFFER_BYTES as u64;
        (self.filled, self.flushed) = (0, 0);
        Ok(())
    }
}

impl Write for DirectFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.filled == BUFFER_BYTES {
            self.write_buffer()?;
        }
        let count = bytes.len().min(BUFFER_BYTES - self.filled);
        self.buffer.bytes_mut()[self.filled..][..count].copy_from_slice(&bytes[..count]);
        self.filled += count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = &self.buffer.bytes()[self.flushed..self.filled];
        self.cached.write_all_at(bytes, self.offset + self.flushed as u64)?;
        self.flushed = self.filled;
        Ok(())
    }
}

impl OutputFile for DirectFile {
    fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        self.cached.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// Writes chunks of many sizes, with syncs in between, and compares the file with what was written.
    fn check(path: &Path, prepare: impl Fn(&mut DirectFile)) {
        let mut written = Vec::new();
        let mut file = DirectFile::create(path).expect("the directory is there");
        let sizes =
            [1, 4095, 4096, BUFFER_BYTES - 1, 100_000, 2 * BUFFER_BYTES, 3, BUFFER_BYTES, 511, 70_000];
        for (round, size) in sizes.iter().cycle().take(35).enumerate() {
            prepare(&mut file);
            let chunk: Vec<u8> = (0..*size).map(|at| (at % 251) as u8 ^ round as u8).collect();
            file.write_all(&chunk).expect("the disk has space");
            written.extend_from_slice(&chunk);
            if round % 3 == 0 {
                file.sync().expect("the disk has space");
                assert!(std::fs::read(path).expect("it is there") == written, "after {round} chunks");
            }
        }
        file.sync().expect("the disk has space");
        drop(file);
        assert!(std::fs::read(path).expect("it is there") == written);
        std::fs::remove_file(path).expect("it is there");
    }

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("mantissa-direct-{}-{name}", std::process::id()))
    }

    #[test]
    fn a_file_holds_what_was_written() {
        check(&path("usual"), |_| {});
    }

    #[test]
    fn where_direct_writes_are_refused_or_slow_it_holds_the_same() {
        check(&path("cached"), |file| file.direct = None);
        check(&path("slow"), |file| {
            file.cached_writes = u32::from(!(file.offset / BUFFER_BYTES as u64).is_multiple_of(3))
        });
        // A handle that takes no writes of this kind: the error is that of a file system without them.
        let reader = || File::open("/dev/null").ok();
        let mut file = DirectFile::create(&path("error")).expect("the directory is there");
        file.direct = reader();
        assert!(file.write_all(&[1; 2 * BUFFER_BYTES]).is_err(), "an error is not passed over");
        std::fs::remove_file(path("error")).expect("it is there");
    }

    #[test]
    fn a_file_that_is_there_is_emptied() {
        let path = path("emptied");
        std::fs::write(&path, vec![7; 3 * BUFFER_BYTES]).expect("the directory is there");
        let mut file = DirectFile::create(&path).expect("the directory is there");
        file.write_all(b"short").and_then(|()| file.sync()).expect("the disk has space");
        assert_eq!(std::fs::read(&path).expect("it is there"), b"short");
        std::fs::remove_file(&path).expect("it is there");
    }
}
