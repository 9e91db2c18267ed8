//! Parts of a dump, cut where records end, and the workers that decode them.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::parallel::LoadJob;
use super::replication::Stated;
use super::skip::{Skipped, Slice, Stop, skip_record};
use super::{Extent, LoadSummary, LoadTarget, Loader};
use crate::format::Dialect;
use crate::source::{LoadError, Source};

/// Bytes that a part has at least, but for the last one.
pub(super) const PART_BYTES: usize = if cfg!(test) { 1 << 10 } else { 512 << 10 };
/// Memory of a part that was larger is not used again.
const PART_BYTES_KEPT: usize = 2 * PART_BYTES;

/// Whole records of a dump.
pub(super) struct Part<'a> {
    pub offset: u64,
    /// The database that is selected at its start.
    pub database: usize,
    pub content: Content<'a>,
}

/// The bytes of a part.
pub(super) enum Content<'a> {
    /// The bytes up to this number.
    Bytes(Vec<u8>, usize),
    /// A number of bytes, which the worker reads.
    Long(Box<dyn Read + Send + 'a>, u64),
}

/// The number of bytes in whole records, and whether the last of these is the end mark. `database` is the
/// one that is selected, at first before and then behind them. `reserve` is called with a database, the
/// number of keys that it is said to have, and where this is said.
pub(super) fn whole_records(
    bytes: &[u8],
    dialect: Dialect,
    database: &mut u64,
    mut reserve: impl FnMut(usize, u64, usize),
) -> Result<(usize, bool), Stop> {
    let mut input = Slice::new(bytes);
    let mut end = 0;
    loop {
        match skip_record(&mut input, dialect) {
            Ok(Skipped::Record) => {}
            Ok(Skipped::Database(number)) => *database = number,
            Ok(Skipped::Keys(keys)) => reserve(usize::try_from(*database).unwrap_or(usize::MAX), keys, end),
            Ok(Skipped::End) => return Ok((input.position(), true)),
            Err(Stop::Incomplete) => return Ok((end, false)),
            Err(Stop::Unknown) => return Err(Stop::Unknown),
        }
        end = input.position();
    }
}

/// What the workers share.
#[derive(Default)]
pub(super) struct Shared {
    /// How values are numbered.
    pub dialect: Dialect,
    /// Keys that have expired are left out, if the options say so.
    skips_expired: bool,
    /// The summaries of the parts that have been loaded.
    finished: Mutex<Vec<LoadSummary>>,
    /// The first error.
    failure: Mutex<Option<LoadError>>,
    failed: AtomicBool,
    /// Buffers of parts that have been loaded, for reuse.
    spare: Mutex<Vec<Vec<u8>>>,
}

impl Shared {
    /// Nothing has been loaded.
    pub fn new(dialect: Dialect, skips_expired: bool) -> Self {
        Shared { dialect, skips_expired, ..Shared::default() }
    }

    /// Loads parts until there are no more. What comes behind an error is thrown away.
    pub fn work(&self, job: &LoadJob<'_>, parts: &Mutex<Receiver<Part<'_>>>, target: &mut dyn LoadTarget) {
        loop {
            let received = lock(parts).recv();
            let Ok(part) = received else { break };
            if self.has_failed_before(part.offset) {
                continue;
            }
            let (bytes, outcome) = match part.content {
                Content::Bytes(bytes, count) => {
                    let source = Source::from_beginning(bytes, count).at_offset(part.offset);
                    let (outcome, source) = self.load_part(source, part.database, job, target);
                    let bytes = source.into_buffer();
                    if bytes.len() <= PART_BYTES_KEPT {
                        lock(&self.spare).push(bytes);
                    }
                    (count as u64, outcome)
                }
                Content::Long(reader, count) => {
                    let source = Source::new(reader, Some(count)).at_offset(part.offset);
                    (count, self.load_part(source, part.database, job, target).0)
                }
            };
            self.note(outcome);
            (job.progress)(bytes);
        }
        self.finish(target);
    }

    /// Has a target take what it has put off.
    pub fn finish(&self, target: &mut dyn LoadTarget) {
        if let Err(error) = target.finish() {
            self.fail(error);
        }
    }

    /// Notes what came of a part.
    pub fn note(&self, outcome: Result<LoadSummary, LoadError>) {
        match outcome {
            Ok(summary) => lock(&self.finished).push(summary),
            Err(error) => self.fail(error),
        }
    }

    /// Notes an error; of several the first in the dump counts.
    pub fn fail(&self, error: LoadError) {
        let mut failure = lock(&self.failure);
        if failure.as_ref().is_none_or(|earlier| error.offset < earlier.offset) {
            *failure = Some(error);
        }
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Whether there was an error.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    fn has_failed_before(&self, offset: u64) -> bool {
        self.has_failed() && lock(&self.failure).as_ref().is_some_and(|failure| failure.offset < offset)
    }

    /// The first error.
    pub fn take_failure(&self) -> Option<LoadError> {
        lock(&self.failure).take()
    }

    /// A buffer that was used, if there is one.
    pub fn spare(&self) -> Vec<u8> {
        lock(&self.spare).pop().unwrap_or_default()
    }

    /// The counts of all parts together.
    pub fn totals(&self) -> LoadSummary {
        let mut total = LoadSummary::default();
        for part in lock(&self.finished).iter() {
            total.keys_loaded += part.keys_loaded;
            total.keys_expired += part.keys_expired;
            total.keys_empty += part.keys_empty;
            total.keys_of_modules += part.keys_of_modules;
            total.aux_of_modules += part.aux_of_modules;
            total.functions += part.functions;
        }
        total
    }

    /// Loads what a source yields, and gives it back.
    fn load_part<'a, R: Read>(
        &self,
        source: Source<'a, R>,
        database: usize,
        job: &LoadJob<'_>,
        target: &mut dyn LoadTarget,
    ) -> (Result<LoadSummary, LoadError>, Source<'a, R>) {
        let mut loader = self.loader(source.unchecked(), job);
        let outcome = loader.records(database, target, Extent::Part);
        (outcome.map(|()| loader.summary), loader.source)
    }

    /// A loader of what a source within the dump yields.
    pub fn loader<'a, R: Read>(&self, source: Source<'a, R>, job: &LoadJob<'_>) -> Loader<'a, R> {
        let mut options = job.options.clone();
        options.skip_expired &= self.skips_expired;
        Loader {
            source,
            options,
            dialect: self.dialect,
            summary: LoadSummary::default(),
            key: Vec::new(),
            stated: Stated::default(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
