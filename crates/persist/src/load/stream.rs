//! Loading a stream with several threads.
//!
//! The calling thread reads the stream, keeps the checksum, and cuts it where records end, which it finds by
//! their lengths alone ([`super::skip`]). Workers decode the parts and deliver them to their own targets; so
//! keys arrive in no particular order. A stream is not read twice: what can not be cut, a record of more
//! than [`RECORD_BYTES_MAX`] or damage, the calling thread decodes as it comes. So the error is that of the
//! first damage, as with one thread. (A key that comes twice is noticed before what comes behind it, and it
//! may name the other one of the two.)
//!
//! Memory: up to three parts for each worker, of half a megabyte, or of a record that is longer.

use std::cell::Cell;
use std::io::{self, Read};
use std::sync::Mutex;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use super::parts::{Content, PART_BYTES, Part, Shared, whole_records};
use super::{Extent, LoadJob, LoadOptions, LoadSummary, LoadTarget, Loader};
use crate::format::{Checksum, SIGNATURE_BYTES};
use crate::source::{LoadError, Source};

/// Longest record that is handed on in memory.
const RECORD_BYTES_MAX: usize = if cfg!(test) { 8 << 10 } else { 4 << 20 };
/// Parts that may wait for each worker.
const PARTS_WAITING_MAX: usize = 2;
/// Tables are made as large beforehand as for this many keys at most: nothing vouches for what is said.
const RESERVED_KEYS_MAX: u64 = 16 << 20;
/// Time between two looks whether the workers take more.
const PAUSE: Duration = Duration::from_millis(1);

/// Loads a dump from a stream on several threads. Returns as well what was read behind its end. While it
/// waits for the workers it reads no bytes, into an empty buffer, so that the reader can say that the dump is
/// not wanted any more. Each worker's target is told of the keys that the worker steps over.
pub fn load_stream_in_parallel(
    stream: &mut dyn Read,
    job: &LoadJob<'_>,
) -> Result<(LoadSummary, Vec<u8>), LoadError> {
    load_stream(stream, job, true)
}

/// The same. Keys that have expired are left out if the options say so and `may_skip_expired`.
pub(super) fn load_stream(
    stream: &mut dyn Read,
    job: &LoadJob<'_>,
    may_skip_expired: bool,
) -> Result<(LoadSummary, Vec<u8>), LoadError> {
    let mut input = Input { stream, failure: None, bytes: Vec::new(), filled: 0 };
    input.fill(PART_BYTES);
    let mut header = Loader::new(&input.bytes[..input.filled], None, LoadOptions::default());
    if header.header().is_err() {
        // It is wrong, or too short.
        return input.load_alone(job);
    }
    let (dialect, version) = (header.dialect, header.summary.version);
    let stated = Loader::new(&input.bytes[..input.filled], None, LoadOptions::default());
    let replication = stated.replication();
    let mut checksum = Checksum::default();
    checksum.update(&input.bytes[..SIGNATURE_BYTES]);
    input.bytes.copy_within(SIGNATURE_BYTES..input.filled, 0);
    input.filled -= SIGNATURE_BYTES;

    let shared = Shared::new(dialect, may_skip_expired);
    let (sender, receiver) = sync_channel::<Part<'_>>(PARTS_WAITING_MAX * job.threads);
    let receiver = Mutex::new(receiver);
    let mut cutter = Cutter {
        input,
        offset: SIGNATURE_BYTES as u64,
        database: 0,
        checksum,
        reservable_keys: RESERVED_KEYS_MAX,
        shared: &shared,
        job,
    };
    std::thread::scope(|scope| {
        for _ in 0..job.threads {
            scope.spawn(|| (job.work)(&mut |target| shared.work(job, &receiver, target)));
        }
        let mut sender = Some(sender);
        (job.work)(&mut |target| {
            if let Some(sender) = sender.take() {
                cutter.cut(&sender, target).unwrap_or_else(|error| shared.fail(error));
            }
            shared.finish(target);
        });
    });
    if let Some(error) = shared.take_failure() {
        return Err(error);
    }
    let mut summary = LoadSummary { version, replication, ..shared.totals() };
    cutter.footer(&mut summary)?;
    cutter.input.bytes.truncate(cutter.input.filled);
    Ok((summary, cutter.input.bytes))
}

/// The stream, with what has been read of it and not been used.
struct Input<'s> {
    stream: &'s mut dyn Read,
    /// Reading has failed: what a loader is told when it comes there.
    failure: Option<io::Error>,
    bytes: Vec<u8>,
    /// The number of bytes that have been read.
    filled: usize,
}

impl Input<'_> {
    /// Reads until there are `wanted` bytes. True if no more come.
    fn fill(&mut self, wanted: usize) -> bool {
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted, 0);
        }
        while self.filled < wanted && self.failure.is_none() {
            match self.stream.read(&mut self.bytes[self.filled..wanted]) {
                Ok(0) => return true,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.failure = Some(error),
            }
        }
        self.failure.is_some()
    }

    /// Loads all of it on this thread.
    fn load_alone(mut self, job: &LoadJob<'_>) -> Result<(LoadSummary, Vec<u8>), LoadError> {
        let mut outcome = None;
        (job.work)(&mut |target| {
            let bytes = (std::mem::take(&mut self.bytes), self.filled);
            let tail = Tail { stream: &mut *self.stream, failure: self.failure.take() };
            let mut loader = Loader::new(tail, None, job.options.clone());
            loader.source = Source::continuing(loader.source.into_rest().1, bytes, 0, Checksum::default());
            let loaded = loader.load(target);
            outcome.get_or_insert((loaded, loader.into_rest().0));
        });
        match outcome {
            Some((loaded, rest)) => loaded.map(|summary| (summary, rest)),
            None => Ok((LoadSummary::default(), Vec::new())),
        }
    }
}

/// What comes behind the bytes that have been read.
struct Tail<'s> {
    stream: &'s mut dyn Read,
    failure: Option<io::Error>,
}

impl Read for Tail<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.failure.take().map_or_else(|| self.stream.read(buffer), Err)
    }
}

/// Cuts a stream into parts.
struct Cutter<'s, 'j> {
    input: Input<'s>,
    /// Offset of what is in `input`.
    offset: u64,
    /// The database that is selected there.
    database: u64,
    /// The checksum of everything before.
    checksum: Checksum,
    reservable_keys: u64,
    shared: &'j Shared,
    job: &'j LoadJob<'j>,
}

impl Cutter<'_, '_> {
    /// Sends all parts, and gives the target what can not be cut.
    fn cut(&mut self, sender: &SyncSender<Part<'_>>, target: &mut dyn LoadTarget) -> Result<(), LoadError> {
        let mut wanted = PART_BYTES;
        loop {
            let is_all = self.input.fill(wanted);
            if self.shared.has_failed() {
                return Ok(());
            }
            let database = self.database;
            let Ok((end, is_end)) = self.whole_records() else {
                return self.decode(database, target, Extent::All);
            };
            if end > 0 {
                self.send(sender, database, end);
                if is_end {
                    return Ok(());
                }
                wanted = PART_BYTES;
            } else if is_all {
                return self.decode(database, target, Extent::All);
            } else if self.input.filled < RECORD_BYTES_MAX {
                wanted = self.input.filled * 2;
            } else {
                self.decode(database, target, Extent::Record)?;
                wanted = PART_BYTES.max(self.input.filled);
            }
        }
    }

    fn whole_records(&mut self) -> Result<(usize, bool), super::Stop> {
        let Cutter { input, reservable_keys, job, .. } = self;
        let reserve = |database, keys: u64, _| {
            let keys = keys.min(*reservable_keys);
            *reservable_keys -= keys;
            (job.reserve)(database, keys);
        };
        whole_records(&input.bytes[..input.filled], self.shared.dialect, &mut self.database, reserve)
    }

    /// Sends the first `count` bytes that have been read, and keeps the others.
    fn send(&mut self, sender: &SyncSender<Part<'_>>, database: u64, count: usize) {
        let input = &mut self.input;
        self.checksum.update(&input.bytes[..count]);
        let rest = &input.bytes[count..input.filled];
        let mut next = self.shared.spare();
        if next.len() < rest.len() {
            next.resize(rest.len(), 0);
        }
        next[..rest.len()].copy_from_slice(rest);
        input.filled = rest.len();
        let bytes = std::mem::replace(&mut input.bytes, next);
        let database = usize::try_from(database).unwrap_or(usize::MAX);
        let mut part = Part { offset: self.offset, database, content: Content::Bytes(bytes, count) };
        self.offset += count as u64;
        while let Err(TrySendError::Full(refused)) = sender.try_send(part) {
            part = refused;
            if let Err(error) = input.stream.read(&mut []) {
                input.failure.get_or_insert(error);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Decodes what comes next on this thread.
    fn decode(
        &mut self,
        database: u64,
        target: &mut dyn LoadTarget,
        extent: Extent,
    ) -> Result<(), LoadError> {
        let database = usize::try_from(database).unwrap_or(usize::MAX);
        self.with_loader(|loader| loader.records(database, target, extent))
    }

    /// Compares the checksum behind the end mark.
    fn footer(&mut self, summary: &mut LoadSummary) -> Result<(), LoadError> {
        let version = summary.version;
        let mut checksum = Default::default();
        self.with_loader(|loader| {
            loader.summary.version = version;
            loader.footer()?;
            checksum = loader.summary.checksum;
            Ok(())
        })?;
        (summary.bytes, summary.checksum) = (self.offset, checksum);
        Ok(())
    }

    /// Has a loader go on where this stands, and goes on where that comes to.
    fn with_loader(
        &mut self,
        work: impl FnOnce(&mut Loader<'_, Tail<'_>>) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let input = &mut self.input;
        let bytes = (std::mem::take(&mut input.bytes), input.filled);
        let tail = Tail { stream: &mut *input.stream, failure: input.failure.take() };
        let checksum = std::mem::take(&mut self.checksum);
        let source = Source::continuing(tail, bytes, self.offset, checksum);
        let told = Cell::new(self.offset);
        let tell = |offset: u64| (self.job.progress)(offset - told.replace(offset));
        let mut loader = self.shared.loader(source, self.job);
        loader.on_progress(tell);
        work(&mut loader)?;
        self.shared.note(Ok(loader.summary));
        tell(loader.source.offset());
        let ((bytes, filled), offset, checksum) = loader.source.into_state();
        (input.bytes, input.filled) = (bytes, filled);
        (self.offset, self.checksum) = (offset, checksum);
        Ok(())
    }
}
