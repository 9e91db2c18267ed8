//! The writer of an append-only file: one of the readers of the [log of commits](crate::log).
//!
//! The writer reads the log, writes it to the file, and syncs the file as the policy says. One sync serves
//! all clients that wait for one. A thread of its own runs the writer; a thread that waits for a sync may run
//! the writer itself where that is quick ([`Writer::is_quick`]). Other threads see settings and progress in
//! [`WriterControl`].
//!
//! The file has the bytes of the log, and beside them timestamps, positions, frames' headers and preallocated
//! bytes, which are not part of the log and do not count in an LSN. While there is a file these hold:
//!
//! - `durable <= written <= end of the log`, and each of them only grows;
//! - the file holds the units up to `written` in the order of the log, whole, after what it held before; a
//!   unit that did not fit as a whole is taken out again;
//! - the units up to `durable` survive a crash.
//!
//! While there is no file, `durable` and `written` are the maximum: nobody has to wait.
//!
//! With `appendfsync everysec` another thread syncs the file once a second, and the writer goes on writing
//! meanwhile. If a sync takes more than two seconds the writer is stalled ([`WriterControl::is_stalled`]):
//! workers should wait before they append, so that a crash loses about two seconds of changes at most. The
//! writer is stalled too if too many bytes wait to be written.
//!
//! With `appendfsync always` each batch is written as a frame over [preallocated] bytes, which shortens a
//! sync to a half or a third.
//!
//! The writer moves on to another file at an LSN ([`WriterControl::switch`]), so that a snapshot taken at
//! that instant and the new file together hold exactly everything. The file before is durable by then.
//!
//! [preallocated]: super::preallocation

use mantissa_sys::{clock, simulation};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use super::control::{FileChange, NextFile, Pause, Shared, SyncPolicy, WriterControl};
use super::preallocation::{
    self, END_LINE_BYTES, FILLER, FRAME_BYTES_MAX, FRAME_HEADER_BYTES_MAX, FrameHeader, Nonce,
};
use super::write::put_timestamp;
use crate::log::{Chunk, Lsn};
use crate::storage::StorageFile;

/// Time between two syncs with `appendfsync everysec`.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time of a sync before the writer counts as stalled.
const SYNC_TIME_MAX: Duration = Duration::from_secs(2);
/// A thread that waits for a sync runs the writer itself where a sync takes no longer than this: waking
/// another thread takes about as long.
const QUICK_SYNC: Duration = Duration::from_micros(250);
/// The same for the bytes to be written. Writing them takes a quarter of a millisecond without a sync.
const QUICK_BYTES: u64 = 256 << 10;
/// How long a sync takes at least in a simulation: others go on meanwhile.
const SIMULATED_SYNC_TIME: Duration = Duration::from_micros(100);
/// How often a failed write is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum items of the batch in one write: a megabyte of small units.
const VECTORS_MAX: usize = 16;

/// What is to be done, in this order.
enum Item {
    /// Writes a line that is not part of the log.
    Note(Vec<u8>),
    /// Writes units of the log.
    Units(Chunk),
    /// Goes on with another file.
    Change(NextFile),
}

impl Item {
    /// The bytes to write; `None` for a change of the file.
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Item::Note(line) => Some(line),
            Item::Units(chunk) => Some(chunk.bytes()),
            Item::Change(_) => None,
        }
    }
}

/// Why [`Writer::write_and_sync`] failed.
#[derive(Debug)]
pub enum WriterError {
    /// A write failed. Its bytes are kept, and tried again a second later.
    Write(io::Error),
    /// A sync failed. What was written since the last sync may be lost in a crash, also if a later sync
    /// succeeds.
    Sync(io::Error),
    /// The next file could not be opened. The writer stays with the present one.
    NextFile(io::Error),
    /// A write or sync failed while the file was being closed. The file is closed without the rest.
    Closed(io::Error),
}

/// The log's reader that writes the append-only file.
pub struct Writer {
    control: Arc<WriterControl>,
    file: Option<Box<dyn StorageFile>>,
    /// What has been read of the log and is not yet written as a whole.
    batch: VecDeque<Item>,
    /// The written part of the batch: whole items, and bytes of the next one.
    done_items: usize,
    done_bytes: usize,
    /// The length of the file before the batch, without preallocated bytes.
    length: u64,
    /// Where the preallocated bytes behind `length` end; 0 if there are none.
    preallocated_end: u64,
    /// Nothing could be preallocated in this file.
    is_full: bool,
    /// The nonce of this file's frames, and the buffer that a frame is made in.
    nonce: Nonce,
    frame: Vec<u8>,
    /// A frame was written since the last sync. The next sync is due, whatever the policy is now.
    has_frame: bool,
    /// The last timestamp that this file got, Unix time in s.
    noted_time_s: i64,
    /// Chunks that have just been read.
    chunks: Vec<Chunk>,
    /// Something was written since the last sync.
    is_dirty: bool,
    synced_at: Option<Instant>,
    /// The sync thread, which takes files with the LSN up to which they are written, and when the present
    /// sync began.
    syncer: Option<mpsc::Sender<(Box<dyn StorageFile>, Lsn)>>,
    sync_began: Option<Instant>,
    failed_at: Option<Instant>,
    /// Units in the file at the last sync, units in the batch and before, and the average time of a sync.
    synced_units: u64,
    written_units: u64,
    sync_time: Duration,
    /// Time of the sync in the last [`Writer::write_and_sync`]; 0 if nothing was synced.
    last_sync: Duration,
    /// Units for which clients waited just before the last sync.
    awaited_units: u64,
}

impl Writer {
    /// The writer of a control that has none yet.
    pub fn new(control: Arc<WriterControl>) -> Self {
        Writer {
            control,
            file: None,
            batch: VecDeque::new(),
            done_items: 0,
            done_bytes: 0,
            length: 0,
            preallocated_end: 0,
            is_full: false,
            nonce: Nonce::new(),
            frame: Vec::new(),
            has_frame: false,
            noted_time_s: 0,
            chunks: Vec::new(),
            is_dirty: false,
            synced_at: None,
            syncer: None,
            sync_began: None,
            failed_at: None,
            synced_units: 0,
            written_units: 0,
            sync_time: Duration::ZERO,
            last_sync: Duration::ZERO,
            awaited_units: 0,
        }
    }

    /// Starts the thread that syncs the file with `appendfsync everysec`.
    pub fn start_syncer(&mut self) -> io::Result<()> {
        if simulation::is_active() {
            // The writer makes durable what it has written.
            return Ok(());
        }
        let (sender, files) = mpsc::channel::<(Box<dyn StorageFile>, Lsn)>();
        let control = Arc::clone(&self.control);
        let body = move || {
            for (mut file, lsn) in files {
                let outcome = file.sync().map(|()| lsn);
                *locked(&control.sync_outcome) = Some(outcome);
                control.is_syncing.store(false, Ordering::Release);
                control.wake();
            }
        };
        std::thread::Builder::new().name("aof-sync".to_owned()).spawn(body)?;
        self.syncer = Some(sender);
        Ok(())
    }

    /// What the writer waits for now, and for how long: `timeout` at most.
    pub fn pause(&self, now: Instant, timeout: Duration) -> Pause {
        let has_batch = self.failed_at.is_none() && !self.batch.is_empty();
        let due = if has_batch { Some(now) } else { self.next_attempt() };
        Pause {
            timeout: due.map_or(timeout, |due| timeout.min(due.saturating_duration_since(now))),
            ends_with_sync: self.sync_began.is_some(),
            ends_with_work: self.failed_at.is_none(),
        }
    }

    /// Whether everything that was read of the log is written.
    pub fn is_idle(&self) -> bool {
        self.batch.is_empty() && self.failed_at.is_none()
    }

    /// Whether a sync or another attempt is due at some time, also without further appends.
    pub fn has_deadline(&self) -> bool {
        self.next_attempt().is_some()
    }

    /// Whether [`Writer::write_and_sync`] takes so little time that a waiting thread should call it itself.
    pub fn is_quick(&self) -> bool {
        let is_sync_quick = match self.control.policy() {
            SyncPolicy::Always => !self.sync_time.is_zero() && self.sync_time <= QUICK_SYNC,
            // A frame of an earlier policy is not synced yet.
            _ => !self.has_frame && self.preallocated_end == 0,
        };
        is_sync_quick
            && self.control.unwritten() <= QUICK_BYTES
            && self.failed_at.is_none()
            // A write may wait for the sync of the same file.
            && self.sync_began.is_none()
            && !self.control.has_change()
    }

    /// Group commit, with `appendfsync always`: waits for the clients that got their replies after the last
    /// sync to write again, so that their writes share the next sync. Waits for half the time of a sync at
    /// most.
    pub fn wait_for_group_commit(&mut self) {
        let waits = self.control.policy() == SyncPolicy::Always && !simulation::is_active();
        if !waits || self.failed_at.is_some() {
            return;
        }
        let deadline = Instant::now() + self.sync_time / 2;
        let expected = self.synced_units + self.awaited_units * 9 / 10;
        let control = Arc::clone(&self.control);
        let mut shared = control.locked();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !shared.changes.is_empty() || control.log.units() >= expected {
                return;
            }
            shared = control.sleep(shared, left, Some(expected));
        }
    }

    /// When a sync or another attempt is due without further appends.
    fn next_attempt(&self) -> Option<Instant> {
        if let Some(failed_at) = self.failed_at {
            return Some(failed_at + RETRY_INTERVAL);
        }
        let syncs = self.control.policy() == SyncPolicy::EverySecond && !self.control.holds_syncs();
        self.synced_at.filter(|_| self.is_dirty && syncs).map(|synced_at| synced_at + SYNC_INTERVAL)
    }

    /// Whether the last attempt failed.
    pub fn is_failing(&self) -> bool {
        self.failed_at.is_some()
    }

    /// Time of the sync in the last [`Writer::write_and_sync`]; 0 if nothing was synced.
    pub fn last_sync(&self) -> Duration {
        self.last_sync
    }

    /// The length of the file in bytes, without preallocated bytes.
    pub fn file_bytes(&self) -> u64 {
        self.length
    }

    /// Writes what can be read of the log, and syncs if that is due. Does nothing for [`RETRY_INTERVAL`]
    /// after a failure.
    pub fn write_and_sync(&mut self, now: Instant) -> Result<(), WriterError> {
        if self.failed_at.is_some_and(|failed_at| now < failed_at + RETRY_INTERVAL) {
            return Ok(());
        }
        if self.control.is_abandoned() && !self.control.is_closing.load(Ordering::Relaxed) {
            self.failed_at = Some(now);
            return Ok(());
        }
        self.last_sync = Duration::ZERO;
        let outcome = self.write_readable().and_then(|()| self.sync_if_due(now));
        let outcome = match outcome {
            Err(WriterError::Write(error) | WriterError::Sync(error)) if self.gives_up() => {
                self.give_up();
                return Err(WriterError::Closed(error));
            }
            outcome => outcome,
        };
        if !matches!(outcome, Err(WriterError::NextFile(_))) {
            self.failed_at = outcome.is_err().then_some(now);
        }
        outcome
    }

    /// Whether bytes that cannot be written are dropped: not where clients wait for them to be durable.
    fn gives_up(&self) -> bool {
        let is_awaited = self.control.policy() == SyncPolicy::Always && !self.control.is_abandoned();
        self.control.is_closing.load(Ordering::Relaxed) && !is_awaited
    }

    /// Closes the file without what could not be written.
    fn give_up(&mut self) {
        self.take();
        (self.done_items, self.done_bytes) = (0, 0);
        // A load of the file copes with preallocated bytes.
        let _ = self.truncate_preallocation();
        for item in std::mem::take(&mut self.batch) {
            match item {
                // Nobody waits any more for these units to be durable.
                Item::Units(chunk) => self.control.set_written(chunk.end()),
                Item::Note(_) => {}
                Item::Change(next) => {
                    self.file = open_next(next, self.length).ok().flatten();
                    self.length = self.file.as_ref().and_then(|file| file.length().ok()).unwrap_or(0);
                }
            }
        }
        (self.is_dirty, self.failed_at) = (false, None);
        if self.file.is_some() || !self.control.end_reading() {
            self.control.set_durable(self.control.written());
        }
    }

    /// Writes what can be read of the log and syncs, whatever the policy.
    pub fn finish(&mut self) -> Result<(), WriterError> {
        self.write_readable()?;
        self.truncate_preallocation()?;
        self.sync()
    }

    /// Adds to the batch what can be read of the log, and changes of the file where they belong.
    fn take(&mut self) {
        let control = Arc::clone(&self.control);
        let mut shared = control.locked();
        let Shared { reader, changes, .. } = &mut *shared;
        self.written_units = control.log.units();
        loop {
            let until = changes.front().map_or(Lsn::MAX, |change| change.lsn);
            if let Some(reader) = reader {
                let is_lost = reader.read(until, usize::MAX, &mut self.chunks).is_err();
                debug_assert!(!is_lost, "the writer has no limit of unread bytes");
            }
            for chunk in std::mem::take(&mut self.chunks).drain(..) {
                self.note_time(chunk.time_s());
                self.batch.push_back(Item::Units(chunk));
            }
            let is_change_next = reader.as_ref().is_none_or(|reader| reader.lsn() == until);
            let change = changes.pop_front_if(|_| is_change_next);
            let Some(FileChange { next, note, .. }) = change else { return };
            if let Some(next) = next {
                self.batch.push_back(Item::Change(next));
                self.noted_time_s = 0;
            }
            if !note.is_empty() {
                self.batch.push_back(Item::Note(note));
            }
        }
    }

    /// Adds a timestamp to the batch, if the file has none of this second.
    fn note_time(&mut self, time_s: i64) {
        if self.control.notes_time() && time_s > self.noted_time_s {
            self.noted_time_s = time_s;
            let mut line = Vec::new();
            put_timestamp(time_s, &mut line);
            self.batch.push_back(Item::Note(line));
        }
    }

    fn write_readable(&mut self) -> Result<(), WriterError> {
        self.take();
        loop {
            match self.frame_bytes() {
                Some(bytes) if self.preallocate(bytes)? => self.write_frame()?,
                _ if self.batch.is_empty() => {}
                _ => self.truncate_preallocation()?,
            }
            while let Some(Item::Note(_) | Item::Units(_)) = self.batch.get(self.done_items) {
                self.write_items()?;
            }
            if self.done_items == self.batch.len() {
                break;
            }
            self.change_file()?;
        }
        self.settle_batch();
        Ok(())
    }

    /// What is to be written to this file: the bytes of the items before the next change of the file.
    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.batch.iter().map_while(Item::bytes)
    }

    /// Their length if they are written as a frame: with `appendfsync always`, and if they fit in one.
    fn frame_bytes(&self) -> Option<u64> {
        let bytes = self.parts().map(<[u8]>::len).fold(0, usize::saturating_add);
        let suits = self.control.policy() == SyncPolicy::Always
            && self.control.preallocation() > 0
            && !self.control.holds_syncs()
            && (self.done_items, self.done_bytes) == (0, 0)
            && (1..=FRAME_BYTES_MAX).contains(&bytes)
            && self.file.is_some()
            && !self.is_full;
        suits.then_some(bytes as u64)
    }

    /// Ensures that bytes are preallocated for a frame with `frame` bytes of commands. False if the disk has
    /// no space.
    fn preallocate(&mut self, frame: u64) -> Result<bool, WriterError> {
        if self.preallocated_end == 0 {
            self.nonce = Nonce::new();
            let mut lines = Vec::new();
            preallocation::put_line(&self.nonce.start(), self.length, &mut lines);
            let length = self.length + lines.len() as u64;
            lines.extend_from_slice(&self.nonce.end());
            if !self.lengthen(self.length, &lines)? {
                return Ok(false);
            }
            self.length = length;
        }
        let needed = self.length + (FRAME_HEADER_BYTES_MAX + END_LINE_BYTES) as u64 + frame;
        if needed <= self.preallocated_end {
            return Ok(true);
        }
        // The new bytes overwrite the last line and end with it.
        let start = self.preallocated_end - END_LINE_BYTES as u64;
        let filler = self.control.preallocation() + (needed - start);
        let mut added = FILLER.repeat((filler / 2) as usize);
        added.extend_from_slice(&self.nonce.end());
        if !self.lengthen(start, &added)? {
            return Ok(false);
        }
        let Some(file) = &mut self.file else { return Ok(false) };
        file.go_to(self.length).map_err(WriterError::Write)?;
        Ok(true)
    }

    /// Writes the end of the file from `start` on, durably. False if the write fails.
    fn lengthen(&mut self, start: u64, bytes: &[u8]) -> Result<bool, WriterError> {
        let Some(file) = &mut self.file else { return Ok(false) };
        // Until all bytes are written: whatever part of them there is, is truncated before the next write.
        self.is_full = true;
        self.preallocated_end = start + bytes.len() as u64;
        if file.go_to(start).and_then(|()| file.write_all(bytes)).is_err() {
            return Ok(false);
        }
        file.sync().map_err(WriterError::Sync)?;
        self.is_full = false;
        Ok(true)
    }

    /// Writes the parts for this file as a frame.
    fn write_frame(&mut self) -> Result<(), WriterError> {
        let header = FrameHeader::of(self.nonce, self.parts());
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        preallocation::put_line(&header.line(), self.length + header.bytes as u64, &mut frame);
        let line = frame.len() as u64;
        self.parts().for_each(|part| frame.extend_from_slice(part));
        let count = self.parts().count();
        self.frame = frame;
        let Some(file) = &mut self.file else { return Ok(()) };
        (self.is_dirty, self.has_frame) = (true, true);
        if let Err(error) = file.write_all(&self.frame) {
            // The next attempt truncates what there is of the frame.
            self.is_full = true;
            return Err(WriterError::Write(error));
        }
        self.length += line;
        self.done_items = count;
        Ok(())
    }

    /// Truncates preallocated bytes, durably: the next write may share their first block of the disk.
    fn truncate_preallocation(&mut self) -> Result<(), WriterError> {
        if self.has_frame {
            self.sync()?;
        }
        if let Some(file) = &mut self.file
            && self.preallocated_end > 0
        {
            file.set_length(self.length).map_err(WriterError::Write)?;
            file.sync().map_err(WriterError::Sync)?;
        }
        self.preallocated_end = 0;
        Ok(())
    }

    /// Writes the rest of the batch up to the next change of the file, or as much as one call takes.
    fn write_items(&mut self) -> Result<(), WriterError> {
        let items = self.batch.iter().skip(self.done_items).map_while(Item::bytes);
        let Some(file) = &mut self.file else {
            // No file: it was closed, or the next one could not be opened.
            self.done_items += items.count();
            return Ok(());
        };
        let (mut vectors, mut count) = ([IoSlice::new(&[]); VECTORS_MAX], 0);
        for (vector, bytes) in vectors.iter_mut().zip(items) {
            *vector = IoSlice::new(if count == 0 { &bytes[self.done_bytes..] } else { bytes });
            count += 1;
        }
        match file.write_vectored(&vectors[..count]) {
            Ok(0) => Err(self.undo(io::Error::from(io::ErrorKind::WriteZero))),
            Ok(written) => {
                self.is_dirty = true;
                self.done_bytes += written;
                self.step_over_written();
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(self.undo(error)),
        }
    }

    /// Counts items that are written as a whole.
    fn step_over_written(&mut self) {
        while let Some(bytes) = self.batch.get(self.done_items).and_then(Item::bytes) {
            let Some(rest) = self.done_bytes.checked_sub(bytes.len()) else { return };
            (self.done_items, self.done_bytes) = (self.done_items + 1, rest);
        }
    }

    /// Truncates the file to its length before the batch, so that it ends with a whole unit. If that fails
    /// too, the next attempt goes on where this one ended.
    fn undo(&mut self, error: io::Error) -> WriterError {
        if let Some(file) = &mut self.file
            && (self.done_items, self.done_bytes) != (0, 0)
            && file.set_length(self.length).is_ok()
        {
            (self.done_items, self.done_bytes) = (0, 0);
        }
        WriterError::Write(error)
    }

    /// Removes the written items from the batch.
    fn settle_batch(&mut self) {
        let (mut bytes, mut written) = (0, None);
        for item in self.batch.drain(..self.done_items) {
            bytes += item.bytes().map_or(0, <[u8]>::len) as u64;
            if let Item::Units(chunk) = item {
                written = Some(chunk.end());
            }
        }
        (self.done_items, self.done_bytes) = (0, 0);
        self.length += bytes;
        if let Some(lsn) = written {
            self.control.set_written(lsn);
        }
    }

    /// Goes on with the next file.
    fn change_file(&mut self) -> Result<(), WriterError> {
        self.settle_batch();
        self.truncate_preallocation()?;
        self.sync()?;
        let Some(Item::Change(next)) = self.batch.pop_front() else { return Ok(()) };
        self.is_full = false;
        let opened = open_next(next, self.length).and_then(|file| {
            let length = file.as_ref().map_or(Ok(0), |file| file.length())?;
            Ok((file, length))
        });
        (self.file, self.length) = opened.map_err(WriterError::NextFile)?;
        let is_last = !self.batch.iter().any(|item| matches!(item, Item::Change(_)));
        if self.file.is_none() && is_last && self.control.end_reading() {
            // The rest was read after the last file was closed.
            self.batch.clear();
        } else {
            self.control.set_durable(self.control.written());
        }
        Ok(())
    }

    fn sync_if_due(&mut self, now: Instant) -> Result<(), WriterError> {
        self.note_synced(now)?;
        match self.control.policy() {
            _ if self.has_frame => self.sync(),
            SyncPolicy::Always => self.sync(),
            SyncPolicy::EverySecond => {
                let synced_at = *self.synced_at.get_or_insert(now);
                let is_held = self.control.holds_syncs() || self.sync_began.is_some();
                if is_held || !self.is_dirty || now < synced_at + SYNC_INTERVAL {
                    return Ok(());
                }
                self.synced_at = Some(now);
                self.begin_sync(now)
            }
            SyncPolicy::Never => Ok(()),
        }
    }

    /// Hands the file to the sync thread, if there is one.
    fn begin_sync(&mut self, now: Instant) -> Result<(), WriterError> {
        let (Some(file), Some(syncer)) = (&self.file, &self.syncer) else { return self.sync() };
        let file = file.duplicate().map_err(WriterError::Sync)?;
        self.control.is_syncing.store(true, Ordering::Release);
        if syncer.send((file, self.control.written())).is_err() {
            self.control.is_syncing.store(false, Ordering::Release);
            return self.sync();
        }
        self.sync_began = Some(now);
        self.is_dirty = false;
        Ok(())
    }

    /// Notes the outcome of the sync thread, or that its sync takes too long.
    fn note_synced(&mut self, now: Instant) -> Result<(), WriterError> {
        let Some(began) = self.sync_began else { return Ok(()) };
        if self.control.is_syncing.load(Ordering::Acquire) {
            if now >= began + SYNC_TIME_MAX && !self.control.is_slow.swap(true, Ordering::Relaxed) {
                self.control.slow_syncs.fetch_add(1, Ordering::Relaxed);
            }
            return Ok(());
        }
        self.sync_began = None;
        self.control.is_slow.store(false, Ordering::Relaxed);
        match locked(&self.control.sync_outcome).take() {
            Some(Ok(lsn)) => {
                self.control.set_durable(self.control.durable().max(lsn));
                Ok(())
            }
            Some(Err(error)) => {
                self.is_dirty = true;
                Err(WriterError::Sync(error))
            }
            None => Ok(()),
        }
    }

    /// Waits until the sync thread is done.
    fn await_syncer(&mut self) -> Result<(), WriterError> {
        let control = Arc::clone(&self.control);
        let mut shared = control.locked();
        while control.is_syncing.load(Ordering::Acquire) {
            shared = control.sleep(shared, SYNC_INTERVAL, None);
        }
        drop(shared);
        self.note_synced(Instant::now())
    }

    /// Makes everything durable that is written.
    fn sync(&mut self) -> Result<(), WriterError> {
        if self.sync_began.is_some() {
            self.await_syncer()?;
        }
        if let Some(file) = self.file.as_mut().filter(|_| self.is_dirty) {
            self.control.is_syncing.store(true, Ordering::Relaxed);
            let began = clock::now();
            simulation::wait(Some(SIMULATED_SYNC_TIME));
            let outcome = file.sync();
            self.control.is_syncing.store(false, Ordering::Relaxed);
            outcome.map_err(WriterError::Sync)?;
            self.last_sync = clock::since(began);
            self.sync_time = (self.sync_time * 7 + self.last_sync) / 8;
            self.awaited_units = self.control.log.units() - self.synced_units;
            self.synced_units = self.written_units;
        }
        (self.is_dirty, self.has_frame) = (false, false);
        if self.file.is_some() {
            self.control.set_durable(self.control.written());
        }
        Ok(())
    }
}

/// Opens the file that follows one of `length` bytes. Who waits for that may go on.
fn open_next(next: NextFile, length: u64) -> io::Result<Option<Box<dyn StorageFile>>> {
    let opened = next(length);
    simulation::yield_point();
    opened
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
