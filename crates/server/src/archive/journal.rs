//! The log between snapshots: a reader of the log of commits, whose segments go into the archive.
//!
//! It begins at the instant of a snapshot. Where it can not go on without a gap (the server has got other
//! data from a primary, another history has begun, too much waits to be stored) it ends, and begins anew
//! with the next snapshot, which is made at once. A segment is stored when it has 16 MB or is as old as
//! `archive-log-interval` says; what a failing disk refuses is kept in memory up to a limit.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mantissa_archive::Frame;
use mantissa_engine::replication::backlog;
use mantissa_engine::{Engine, notice, warning};
use mantissa_persist::log::{Lsn, Reader};
use mantissa_store::LockedShards;
use mantissa_sys::clock::unix_ms;
use parking_lot::{Condvar, Mutex};

use super::Place;

/// Bytes of commands in a segment.
const SEGMENT_BYTES: u64 = 16 << 20;
/// Bytes of the log that may wait to be read, and as many again to be stored.
const WAITING_BYTES_MAX: u64 = 256 << 20;
/// How often the log is read.
const READ_EVERY: Duration = Duration::from_millis(100);
/// How long after a failure a segment is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// How long the end of the server waits for the last segment.
const FINISH_TIME_MAX: Duration = Duration::from_secs(10);

/// The log, while it is on.
#[derive(Default)]
pub struct Journal {
    is_on: AtomicBool,
    /// The archive that it goes to.
    place: Mutex<Place>,
    ends: AtomicBool,
    is_running: Mutex<bool>,
    changed: Condvar,
}

/// What is to be stored.
struct Tail {
    /// The archive that has the snapshot it follows.
    place: Place,
    reader: Reader,
    history: String,
    /// The offset of the log's byte 0, which tells whether offsets go on.
    origin: u64,
    /// The offset of the first byte of `frames`.
    start: u64,
    frames: Vec<Frame>,
    bytes: u64,
    /// When the first of `frames` was read.
    since: Instant,
    retry_at: Option<Instant>,
}

impl Journal {
    /// Whether what is written is stored.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Whether it goes to another archive than this.
    pub(super) fn goes_elsewhere(&self, place: &Place) -> bool {
        self.is_on() && *self.place.lock() != *place
    }

    /// Begins at this instant, if it is off, in the archive that gets the snapshot of this instant.
    pub(super) fn begin(self: &Arc<Self>, engine: &Engine, all: &LockedShards<'_>, place: Place) {
        let mut is_running = self.is_running.lock();
        if *is_running {
            return;
        }
        let Some(reader) = backlog::begin_archive_log(engine, all, WAITING_BYTES_MAX) else { return };
        let replication = &engine.replication;
        let mut tail = Tail {
            place: place.clone(),
            history: replication.history().id,
            origin: replication.offset_of(0),
            start: replication.offset_of(reader.lsn()),
            reader,
            frames: Vec::new(),
            bytes: 0,
            since: Instant::now(),
            retry_at: None,
        };
        let journal = Arc::clone(self);
        let body = move |engine: &Engine| {
            journal.run(engine, &mut tail);
            backlog::end_archive_log(engine);
            drop(tail);
            journal.is_on.store(false, Ordering::Release);
            *journal.is_running.lock() = false;
            journal.changed.notify_all();
        };
        self.ends.store(false, Ordering::Release);
        match engine.spawn("archive-log", body) {
            Ok(()) => {
                *is_running = true;
                *self.place.lock() = place;
                self.is_on.store(true, Ordering::Release);
            }
            Err(error) => {
                engine.archive.log.is_on.store(false, Ordering::Relaxed);
                backlog::settle_logging(engine);
                warning!("The log for the archive can not begin: {error}");
            }
        }
    }

    /// Has it end soon, with all stored that can be.
    pub fn end(&self) {
        if self.is_on() {
            self.ends.store(true, Ordering::Release);
            self.changed.notify_all();
        }
    }

    /// The same, and waits for it.
    pub fn finish(&self) {
        self.end();
        let deadline = Instant::now() + FINISH_TIME_MAX;
        let mut is_running = self.is_running.lock();
        while *is_running {
            if self.changed.wait_until(&mut is_running, deadline).timed_out() {
                warning!("The last of the log could not be stored in the archive in time");
                return;
            }
        }
    }

    fn run(&self, engine: &Engine, tail: &mut Tail) {
        loop {
            let ends = {
                let mut is_running = self.is_running.lock();
                if !self.ends.load(Ordering::Acquire) {
                    self.changed.wait_for(&mut is_running, READ_EVERY);
                }
                self.ends.load(Ordering::Acquire)
            };
            let now_ms = unix_ms();
            let broken = tail.read(engine).err();
            let log = &engine.archive.log;
            let interval_s = engine.active_config().config.archive_log_interval_s;
            let is_old = tail.since.elapsed() >= Duration::from_secs(u64::from(interval_s));
            let is_last = ends || broken.is_some();
            if tail.bytes > 0 && (is_old || tail.bytes >= SEGMENT_BYTES || is_last) {
                tail.store(engine, is_last);
            }
            if tail.bytes == 0 && broken.is_none() {
                log.stored_ms.store(now_ms, Ordering::Relaxed);
            }
            let reason = match broken {
                Some(reason) => reason,
                None if tail.bytes > WAITING_BYTES_MAX => "too much waits to be stored".to_owned(),
                None if ends => return,
                None => continue,
            };
            log.breaks.fetch_add(1, Ordering::Relaxed);
            notice!("The log for the archive begins anew with a snapshot: {reason}");
            return;
        }
    }
}

impl Tail {
    /// Takes what can be read. An error says why it can not go on.
    fn read(&mut self, engine: &Engine) -> Result<(), String> {
        let mut chunks = Vec::new();
        self.reader.read(Lsn::MAX, usize::MAX, &mut chunks).map_err(|lost| lost.to_string())?;
        // What was appended before this was appended in the history that is named now.
        let replication = &engine.replication;
        if replication.history().id != self.history || replication.offset_of(0) != self.origin {
            return Err("another history of changes has begun".to_owned());
        }
        for chunk in chunks {
            let time_s = chunk.time_s().max(0) as u64;
            if self.frames.is_empty() {
                self.since = Instant::now();
            }
            match self.frames.last_mut() {
                Some(last) if last.time_s >= time_s => last.commands.extend_from_slice(chunk.bytes()),
                _ => self.frames.push(Frame { time_s, commands: chunk.bytes().to_vec() }),
            }
            self.bytes += chunk.bytes().len() as u64;
        }
        Ok(())
    }

    /// Stores what was taken; keeps it where that fails, for a later try.
    fn store(&mut self, engine: &Engine, is_last: bool) {
        if !is_last && self.retry_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let log = &engine.archive.log;
        let stored: io::Result<_> = self
            .place
            .open()
            .and_then(|archive| archive.put_segment(&self.history, self.start, &self.frames));
        match stored {
            Ok(segment) => {
                log.error.lock().clear();
                log.segments.fetch_add(1, Ordering::Relaxed);
                log.bytes.fetch_add(self.bytes, Ordering::Relaxed);
                self.start = segment.end;
                self.frames.clear();
                (self.bytes, self.retry_at) = (0, None);
            }
            Err(error) => {
                let mut text = log.error.lock();
                if text.is_empty() || is_last {
                    warning!("The log can not be stored in the archive: {error}");
                }
                *text = error.to_string();
                self.retry_at = Some(Instant::now() + RETRY);
            }
        }
    }
}
