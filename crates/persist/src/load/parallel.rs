//! Loading a file with several threads.
//!
//! The calling thread reads the file and splits it where records end, which it finds by their lengths alone
//! ([`super::skip`]). The parts, about [`PART_BYTES`] each, go to workers, which decode them as
//! [`Loader`] does and deliver them to their own targets; so keys arrive in no particular order. The reading
//! thread keeps the checksum. A record of more than [`RECORD_BYTES_MAX`] is not brought into memory as a
//! whole: the worker reads it from the file once more.
//!
//! A file of Redis 8.10 whose hashes name their fields by numbers is decoded by one thread.
//!
//! If anything is wrong, the file is read once more from its start by one thread, which finds the first
//! damage: the error is the same as without threads.

use std::io::{self, Read};
use std::sync::Mutex;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::ahead::ReadAhead;
use super::parts::{Content, PART_BYTES, Part, Shared, whole_records};
use super::skip::{Stop, skip_record};
use super::stream::load_stream;
use super::{LoadOptions, LoadSummary, LoadTarget, Loader, Record, VERSION_WITH_CHECKSUM, checksum_state};
use crate::format::{Checksum, Dialect, VERSION_WITH_TEMPLATES};
use crate::source::{LoadError, Source};
use crate::storage::SharedFile;

/// Longest record that is handed on in memory.
const RECORD_BYTES_MAX: usize = if cfg!(test) { 8 << 10 } else { 16 << 20 };
/// Parts that may wait for each worker.
const PARTS_WAITING_MAX: usize = 4;
/// About the fewest bytes that a key with its value takes in a file: bounds a stated number of keys.
const KEY_BYTES_MIN: u64 = 8;

/// Calls what it is given with a target, once or as often as it likes.
pub type Work<'a> = dyn Fn(&mut dyn FnMut(&mut dyn LoadTarget)) + Sync + 'a;

/// How a file is loaded by several threads.
pub struct LoadJob<'a> {
    /// How it is decoded.
    pub options: LoadOptions,
    /// The number of workers.
    pub threads: usize,
    /// Called by each worker: calls its argument with the target that takes what this worker decodes.
    pub work: &'a Work<'a>,
    /// Called with a database and the number of keys that it will have, before they come.
    pub reserve: &'a (dyn Fn(usize, u64) + Sync),
    /// Called with numbers of bytes that have been loaded, by all workers.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// Loads a file on several threads. Bytes after its end are not looked at. Each worker's target is told of
/// the keys that the worker steps over. Where the file says where replication stood, keys that have expired
/// are loaded whatever the options say: replicas that go on from there have them.
pub fn load_in_parallel(file: &dyn SharedFile, job: &LoadJob<'_>) -> Result<LoadSummary, LoadError> {
    let total = file.length().unwrap_or(0);
    match attempt(file, total, job) {
        Ok(summary) => Ok(summary),
        Err(failure) => {
            let whole = Range { file, at: 0, end: total };
            let mut loader = Loader::new(whole, Some(total), job.options.clone());
            match (loader.load(&mut Discard), failure) {
                (Err(one), Some(other)) => Err(if other.offset < one.offset { other } else { one }),
                (Err(error), None) | (Ok(_), Some(error)) => Err(error),
                (Ok(_), None) => {
                    Err(LoadError { offset: 0, reason: "file changed while it was read".into() })
                }
            }
        }
    }
}

/// Fails with the error of a worker, or with `None` if the file cannot be split.
fn attempt(file: &dyn SharedFile, total: u64, job: &LoadJob<'_>) -> Result<LoadSummary, Option<LoadError>> {
    let whole = Range { file, at: 0, end: total };
    let mut header = Loader::new(whole, Some(total), job.options.clone());
    header.header().map_err(Some)?;
    let (dialect, version) = (header.dialect, header.summary.version);
    let begin = header.source.offset();
    let checksum = header.source.into_checksum();
    let stated = Loader::new(Range { file, at: 0, end: total }, Some(total), job.options.clone());
    let replication = stated.replication();
    if dialect == Dialect::Redis && version >= VERSION_WITH_TEMPLATES {
        // Hashes may need what stands somewhere before them.
        let mut whole = Range { file, at: 0, end: total };
        let loaded = load_stream(&mut whole, job, replication.is_none());
        return loaded.map(|(summary, _)| LoadSummary { replication, ..summary }).map_err(Some);
    }
    let shared = Shared::new(dialect, replication.is_none());

    let (sender, receiver) = sync_channel::<Part<'_>>(PARTS_WAITING_MAX * job.threads);
    let receiver = Mutex::new(receiver);
    let end = std::thread::scope(|scope| {
        for _ in 0..job.threads {
            scope.spawn(|| (job.work)(&mut |target| shared.work(job, &receiver, target)));
        }
        let ahead = ReadAhead::start(scope, file, total);
        let (bytes, filled, shared) = (Vec::new(), 0, &shared);
        let offset = begin;
        let mut splitter = Splitter {
            file,
            ahead,
            total,
            offset,
            bytes,
            filled,
            database: 0,
            checksum,
            job,
            shared,
            sender,
        };
        let end = splitter.split()?;
        Ok::<_, Stop>((end, splitter.checksum.value()))
    });
    if let Some(error) = shared.take_failure() {
        return Err(Some(error));
    }
    let (end, computed) = end.map_err(|_| None)?;
    let mut summary = LoadSummary { version, bytes: end, replication, ..shared.totals() };
    conclude(file, &mut summary, computed, &job.options).map_err(Some)?;
    Ok(summary)
}

/// Compares the checksum that the file states behind the end mark.
fn conclude(
    file: &dyn SharedFile,
    summary: &mut LoadSummary,
    computed: u64,
    options: &LoadOptions,
) -> Result<(), LoadError> {
    if summary.version < VERSION_WITH_CHECKSUM {
        return Ok(());
    }
    let end = summary.bytes;
    let mut stated = [0; 8];
    let error = |reason: String| LoadError { offset: end, reason };
    let mut range = Range { file, at: end, end: end + stated.len() as u64 };
    range.read_exact(&mut stated).map_err(|_| error("unexpected end of file".into()))?;
    let stated = u64::from_le_bytes(stated);
    summary.checksum = checksum_state(stated, computed, options.verify_checksum).map_err(error)?;
    summary.bytes += stated.to_le_bytes().len() as u64;
    Ok(())
}

/// Reads a file and splits it into parts.
struct Splitter<'a, 'j> {
    file: &'a dyn SharedFile,
    ahead: ReadAhead,
    total: u64,
    /// Offset of `bytes`.
    offset: u64,
    /// The first `filled` bytes have been read and not sent.
    bytes: Vec<u8>,
    /// The number of bytes that have been read and not sent.
    filled: usize,
    /// The database that is selected at `offset`.
    database: u64,
    /// The checksum of everything before `offset`.
    checksum: Checksum,
    job: &'a LoadJob<'j>,
    shared: &'a Shared,
    sender: SyncSender<Part<'a>>,
}

impl<'a> Splitter<'a, '_> {
    /// Sends all parts. Returns the offset of what follows the end mark.
    fn split(&mut self) -> Result<u64, Stop> {
        let mut wanted = PART_BYTES;
        loop {
            let is_all = self.read(wanted)?;
            let database = self.database;
            let (end, is_end) = self.whole_records()?;
            if self.shared.has_failed() {
                return Err(Stop::Unknown);
            }
            if end > 0 {
                self.send_bytes(database, end);
                if is_end {
                    return Ok(self.offset);
                }
                wanted = PART_BYTES;
            } else if is_all {
                return Err(Stop::Incomplete);
            } else if self.filled < RECORD_BYTES_MAX {
                wanted = self.filled * 2;
            } else {
                self.long_record()?;
                wanted = PART_BYTES;
            }
        }
    }

    /// Sends the first `count` bytes that have been read, and keeps the others.
    fn send_bytes(&mut self, database: u64, count: usize) {
        self.checksum.update(&self.bytes[..count]);
        let rest = &self.bytes[count..self.filled];
        let mut next = self.shared.spare();
        if next.len() < rest.len() {
            next.resize(rest.len(), 0);
        }
        next[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
        let bytes = std::mem::replace(&mut self.bytes, next);
        self.send(database, Content::Bytes(bytes, count), count as u64);
    }

    /// Reads until `filled` is at least `wanted`. True at the end of the file.
    fn read(&mut self, wanted: usize) -> Result<bool, Stop> {
        let left = self.total.saturating_sub(self.offset + self.filled as u64);
        let wanted = wanted.min(self.filled + usize::try_from(left).unwrap_or(usize::MAX));
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted, 0);
        }
        while self.filled < wanted {
            let offset = self.offset + self.filled as u64;
            let bytes = self.ahead.bytes_at(offset).map_err(|_| Stop::Unknown)?;
            if bytes.is_empty() {
                return Err(Stop::Incomplete);
            }
            let count = bytes.len().min(wanted - self.filled);
            self.bytes[self.filled..][..count].copy_from_slice(&bytes[..count]);
            self.filled += count;
        }
        Ok(self.offset + self.filled as u64 == self.total)
    }

    /// The number of bytes in whole records, and whether the last of these is the end mark.
    fn whole_records(&mut self) -> Result<(usize, bool), Stop> {
        let left = self.total.saturating_sub(self.offset);
        let reserve = |database, keys: u64, at: usize| {
            (self.job.reserve)(database, keys.min(left.saturating_sub(at as u64) / KEY_BYTES_MIN));
        };
        whole_records(&self.bytes[..self.filled], self.shared.dialect, &mut self.database, reserve)
    }

    /// Sends the record at the offset as a range of the file, without reading it into memory.
    fn long_record(&mut self) -> Result<(), Stop> {
        let range = Range { file: self.file, at: self.offset, end: self.total };
        let mut source = Source::new(range, Some(self.total - self.offset)).at_offset(self.offset);
        skip_record(&mut source, self.shared.dialect)?;
        let count = source.offset() - self.offset;
        self.checksum.append(&source.into_checksum());
        self.filled = 0;
        let range = Range { file: self.file, at: self.offset, end: self.offset + count };
        self.send(self.database, Content::Long(Box::new(range), count), count);
        Ok(())
    }

    fn send(&mut self, database: u64, content: Content<'a>, count: u64) {
        let database = usize::try_from(database).unwrap_or(usize::MAX);
        // Sending fails where all workers have ended, which happens only after a panic.
        let _ = self.sender.send(Part { offset: self.offset, database, content });
        self.offset += count;
    }
}

/// Reads a part of a file.
struct Range<'a> {
    file: &'a dyn SharedFile,
    at: u64,
    end: u64,
}

impl Read for Range<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let count = self.file.read_at(&mut buffer[..wanted], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Takes everything and keeps nothing.
pub(super) struct Discard;

impl LoadTarget for Discard {
    fn select(&mut self, _database: usize) -> Result<(), String> {
        Ok(())
    }

    fn insert(&mut self, _record: Record<'_>) -> Result<(), String> {
        Ok(())
    }

    fn function(&mut self, _source: &[u8]) -> Result<(), String> {
        Ok(())
    }
}
