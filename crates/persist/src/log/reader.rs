//! Readers of the log, and the backlog for readers that may come back.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Log, Lsn, NOBODY_SLEEPS, Registered, Source, State};

/// Wakes a sleeping reader. Runs on the thread that appends, and must be quick.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Where a reader begins.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// At the end, with SELECT before the next command, for a reader that has read nothing before.
    Fresh,
    /// At the end, where [`Log::database`] is selected.
    Here,
    /// At the byte with this LSN, for a reader that has read everything before.
    At(Lsn),
}

/// The LSN that a reader asked for is dropped already, or not appended yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotKept {
    /// The first LSN at which a reader could begin.
    pub first: Lsn,
    /// The last such LSN.
    pub end: Lsn,
}

impl fmt::Display for NotKept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the log is kept from byte {} to {}", self.first, self.end)
    }
}

/// A reader was dropped because too many bytes waited for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// The number of bytes that waited.
    pub bytes: u64,
}

impl fmt::Display for Lost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes of the log waited to be read", self.bytes)
    }
}

/// A contiguous range of the log's bytes, which stay in memory for as long as the chunk exists.
#[derive(Clone)]
pub struct Chunk {
    lsn: Lsn,
    time_s: i64,
    source: Source,
    offset: usize,
    len: usize,
}

impl Chunk {
    /// The LSN of its first byte.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The LSN behind its last byte.
    pub fn end(&self) -> Lsn {
        self.lsn + self.len as u64
    }

    /// When all of it was appended, Unix time in s; 0 if unknown.
    pub fn time_s(&self) -> i64 {
        self.time_s
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        let range = self.offset..self.offset + self.len;
        match &self.source {
            Source::Block(block) => block.bytes(range),
            Source::Unit(buffer) => &buffer.0[range],
        }
    }
}

impl Log {
    /// Registers a reader. It is dropped if more than `bytes_max` bytes wait for it. `waker` is called when
    /// it sleeps and there is something to read.
    pub fn register(
        self: &Arc<Self>,
        start: Start,
        bytes_max: u64,
        waker: Option<Waker>,
    ) -> Result<Reader, NotKept> {
        let mut state = self.locked();
        let (first, end) = (state.first(), state.end);
        let lsn = match start {
            Start::Fresh => {
                state.database = None;
                end
            }
            Start::Here => end,
            Start::At(lsn) if (first..=end).contains(&lsn) => lsn,
            Start::At(_) => return Err(NotKept { first, end }),
        };
        let id = state.register(lsn, None, bytes_max, waker);
        Ok(Reader { log: Arc::clone(self), id, lsn })
    }

    /// Keeps the last `bytes` bytes from now on, with or without readers. Keeps somewhat more: bytes are
    /// dropped when a block is full, and a unit that is not copied to a block is kept as a whole.
    pub fn keep(self: &Arc<Self>, bytes: u64) -> Backlog {
        let mut state = self.locked();
        let end = state.end;
        let id = state.register(end, Some(bytes), 0, None);
        self.note_kept(&state);
        Backlog { log: Arc::clone(self), id, since: end }
    }

    fn note_kept(&self, state: &State) {
        let kept = state.registered.iter().filter_map(|registered| registered.keeps_bytes).max();
        self.kept.store(kept.unwrap_or(0), Ordering::Relaxed);
    }

    fn unregister(&self, id: u64) {
        let mut state = self.locked();
        state.registered.retain(|registered| registered.id != id);
        self.note_kept(&state);
        if state.registered.is_empty() {
            state.forget();
        } else {
            state.drop_unneeded();
        }
        self.note_sleepers(&state);
    }
}

impl State {
    fn register(&mut self, lsn: Lsn, keeps_bytes: Option<u64>, bytes_max: u64, waker: Option<Waker>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let (lost_bytes, wakes_at_units) = (None, NOBODY_SLEEPS);
        self.registered.push(Registered {
            id,
            lsn,
            keeps_bytes,
            bytes_max,
            lost_bytes,
            wakes_at_units,
            waker,
        });
        id
    }

    /// Keeps nothing.
    fn forget(&mut self) {
        self.segments = Default::default();
        self.spares = Vec::new();
        (self.writer, self.is_growing, self.database, self.time_s) = (None, false, None, 0);
    }

    fn read(&mut self, id: u64, until: Lsn, bytes_max: usize, chunks: &mut Vec<Chunk>) -> Result<Lsn, Lost> {
        let registered = self.find(id);
        if let Some(bytes) = registered.lost_bytes {
            return Err(Lost { bytes });
        }
        let mut lsn = registered.lsn;
        let until = until.min(lsn.saturating_add(bytes_max as u64));
        for (segment, end, filled) in self.segments_from(lsn) {
            let stop = filled.min(until);
            if stop > lsn {
                let offset = segment.offset + (lsn - segment.lsn) as usize;
                let (time_s, source) = (segment.time_s, segment.source.clone());
                chunks.push(Chunk { lsn, time_s, source, offset, len: (stop - lsn) as usize });
                lsn = stop;
            }
            if lsn < end {
                break;
            }
        }
        self.find_mut(id).lsn = lsn;
        self.drop_unneeded();
        Ok(lsn)
    }
}

/// A reader: reads everything from some LSN on.
pub struct Reader {
    log: Arc<Log>,
    id: u64,
    lsn: Lsn,
}

impl Reader {
    /// The LSN of the next byte to read.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The number of bytes that wait to be read. Some of them may still be being copied.
    #[inline]
    pub fn behind(&self) -> u64 {
        self.log.end().saturating_sub(self.lsn)
    }

    /// Adds to `chunks` what can be read: whole units up to `until`, which must be between two units, but no
    /// more than `bytes_max` bytes, which may end within a unit. Adds nothing if nothing can be read.
    pub fn read(&mut self, until: Lsn, bytes_max: usize, chunks: &mut Vec<Chunk>) -> Result<(), Lost> {
        self.lsn = self.log.locked().read(self.id, until, bytes_max, chunks)?;
        Ok(())
    }

    /// Drops the reader from now on if more than `bytes_max` bytes wait for it.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.log.locked().find_mut(self.id).bytes_max = bytes_max;
    }

    /// Whether something can be read, or the reader has been dropped.
    pub fn has_more(&self) -> bool {
        let state = self.log.locked();
        let is_lost = state.find(self.id).lost_bytes.is_some();
        is_lost || state.segments_from(self.lsn).next().is_some_and(|(_, _, filled)| filled > self.lsn)
    }

    /// Notes that the reader is about to sleep until `units` units have been appended in all ([`Log::units`];
    /// 0 for any). After this call and before it sleeps, it must read once more: later appends wake it.
    pub fn begin_sleep(&self, units: u64) {
        let mut state = self.log.locked();
        state.find_mut(self.id).wakes_at_units = units;
        self.log.note_sleepers(&state);
    }

    /// Notes that the reader does not sleep.
    pub fn end_sleep(&self) {
        self.begin_sleep(NOBODY_SLEEPS);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.log.unregister(self.id);
    }
}

/// Keeps the last bytes of the log for readers that come back.
pub struct Backlog {
    log: Arc<Log>,
    id: u64,
    /// The end of the log when it began. What is before may belong to another history.
    since: Lsn,
}

impl Backlog {
    /// The first LSN of the backlog. A reader can begin there and anywhere up to the end of the log.
    pub fn first(&self) -> Lsn {
        self.log.locked().first().max(self.since)
    }

    /// The number of bytes from its first LSN to the end of the log.
    pub fn bytes(&self) -> u64 {
        let state = self.log.locked();
        state.end - state.first().max(self.since)
    }

    /// Sets the number of bytes that are kept from now on.
    pub fn resize(&self, bytes: u64) {
        let mut state = self.log.locked();
        state.find_mut(self.id).keeps_bytes = Some(bytes);
        self.log.note_kept(&state);
        state.drop_unneeded();
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        self.log.unregister(self.id);
    }
}
