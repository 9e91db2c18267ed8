//! Reading a snapshot: as a dump, in whole or in part, and checking it.
//!
//! Records hold values as dumps do, so a dump is put together without knowing types. What needs the values
//! (a check, a dump with compressed strings) loads that dump as a server would, in another thread.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, PipeReader, Write};
use std::thread;

use mantissa_persist::digest::RunningDigest;
use mantissa_persist::format::{opcode, put_length};
use mantissa_persist::load::{LoadOptions, LoadTarget, Loader, Record};
use mantissa_persist::write::{FileFacts, WriteOptions, Writer};

use crate::manifest::Facts;
use crate::pack::{ChunkEntry, PackReader};
use crate::repository::{Archive, Snapshot};
use crate::sort::{FUNCTION, KEY, key_head};
use crate::store::Store;
use crate::wire::{Reader, damaged, hex};

/// Bytes of a dump that are put together before they are written.
const BUFFER_BYTES: usize = 64 << 10;

/// What of a snapshot is wanted: everything, or the keys that are named in any of these ways.
#[derive(Clone, Default, Debug)]
pub struct Selection {
    /// Only what is in this database.
    pub database: Option<u32>,
    /// These keys.
    pub keys: Vec<Vec<u8>>,
    /// Keys that begin with one of these.
    pub prefixes: Vec<Vec<u8>>,
    /// What is lost is left out. Else it is an error.
    pub skips_lost: bool,
}

/// Neighbouring records that are wanted.
struct Range {
    database: u32,
    start: Vec<u8>,
    /// Whether only the key `start` is wanted, not all that begin with it.
    is_key: bool,
}

impl Range {
    fn takes(&self, database: u32, key: &[u8]) -> bool {
        database == self.database
            && if self.is_key { key == self.start } else { key.starts_with(&self.start) }
    }

    /// Whether no record from this one on is wanted.
    fn is_before(&self, database: u32, key: &[u8]) -> bool {
        (database, key) > (self.database, &self.start) && !self.takes(database, key)
    }
}

impl Selection {
    /// Whether everything is wanted, functions too.
    pub fn is_all(&self) -> bool {
        self.database.is_none() && self.keys.is_empty() && self.prefixes.is_empty()
    }

    /// What is wanted of a snapshot, in order; no two ranges have a record in common.
    fn ranges(&self, facts: &Facts) -> Vec<Range> {
        let all = [Vec::new()];
        let prefixes =
            if self.keys.is_empty() && self.prefixes.is_empty() { &all } else { &self.prefixes[..] };
        let named = self.keys.iter().map(|key| (key, true));
        let mut starts: Vec<_> = named.chain(prefixes.iter().map(|prefix| (prefix, false))).collect();
        // A prefix comes right before what it covers.
        starts.sort();
        let mut kept: Vec<(&Vec<u8>, bool)> = Vec::new();
        for (start, is_key) in starts {
            let last = kept.iter().rev().find(|last| !last.1);
            if last.is_none_or(|(last, _)| !start.starts_with(last)) && kept.last() != Some(&(start, is_key))
            {
                kept.push((start, is_key));
            }
        }
        let databases = facts.databases.iter().map(|counts| counts.0);
        let databases = databases.filter(|database| self.database.is_none_or(|wanted| wanted == *database));
        let ranges = databases.flat_map(|database| {
            kept.iter().map(move |(start, is_key)| Range { database, start: start.to_vec(), is_key: *is_key })
        });
        ranges.collect()
    }
}

/// What was read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Restored {
    /// Keys.
    pub keys: u64,
    /// Libraries of functions.
    pub functions: u64,
    /// The number of gaps, if what is lost was to be left out.
    pub gaps: usize,
}

/// Is told again and again how many bytes of a snapshot, uncompressed, have been read.
pub type Report<'r> = &'r mut (dyn FnMut(u64) + Send);

/// What comes next in a snapshot.
enum Piece<'r> {
    /// A record, of whose body this is the beginning; parts follow until it has `size` bytes.
    Record { head: &'r [u8], body: &'r [u8], size: u64 },
    /// The next part of the body.
    Part(&'r [u8]),
    /// A record of whose body a part is lost.
    Lost { head: &'r [u8] },
}

/// The chunks of a snapshot in order.
struct Chunks<'a> {
    reader: PackReader<'a>,
    /// For each run the number of its first chunk, and what it has.
    runs: Vec<(u64, usize, u64, u64)>,
    count: u64,
    /// Bytes that have been read.
    bytes: u64,
    skips_lost: bool,
    /// The chunks with which gaps of records begin.
    gaps: BTreeSet<u64>,
}

impl<'a> Chunks<'a> {
    fn open<S: Store>(archive: &'a Archive<S>, snapshot: &Snapshot, skips_lost: bool) -> io::Result<Self> {
        let manifest = &snapshot.manifest;
        let reader = PackReader::open(&archive.store, &archive.keys, &manifest.packs)?;
        let (mut runs, mut count) = (Vec::new(), 0);
        for run in &manifest.runs {
            let pack = run.pack as usize;
            if run.first + run.count > reader.chunk_count(pack)? {
                return Err(damaged("the manifest names a chunk that its pack lacks"));
            }
            runs.push((count, pack, run.first, run.count));
            count += run.count;
        }
        Ok(Chunks { reader, runs, count, bytes: 0, skips_lost, gaps: BTreeSet::new() })
    }

    fn place(&self, number: u64) -> io::Result<(usize, u64)> {
        let run = self.runs.partition_point(|run| run.0 <= number).checked_sub(1).map(|run| self.runs[run]);
        let (start, pack, first, _) = run.ok_or_else(|| damaged("the snapshot has no chunk"))?;
        Ok((pack, first + (number - start)))
    }

    fn entry(&self, number: u64) -> io::Result<ChunkEntry> {
        let (pack, chunk) = self.place(number)?;
        self.reader.entry(pack, chunk)
    }

    fn read(&mut self, number: u64) -> io::Result<Vec<u8>> {
        let (pack, chunk) = self.place(number)?;
        let bytes = self.reader.read(pack, chunk)?;
        self.bytes += bytes.len() as u64;
        Ok(bytes)
    }

    /// A chunk of records, if it is one and can be read.
    fn probe(&mut self, number: u64) -> io::Result<Option<Vec<u8>>> {
        let is_part = self.entry(number).map(|entry| entry.is_part);
        match is_part.and_then(|is_part| if is_part { Ok(None) } else { self.read(number).map(Some) }) {
            Err(error) if is_lost(&error) => Ok(None),
            read => read,
        }
    }

    /// The last chunk of records whose first record is not above `head`.
    fn search(&mut self, head: &[u8]) -> io::Result<u64> {
        let (mut low, mut high) = (0, self.count);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            // Parts belong to the records before them. What is damaged is passed over: the record may be
            // elsewhere.
            let (mut probe, mut chunk) = (middle, self.probe(middle)?);
            while chunk.is_none() && probe > low + 1 {
                probe -= 1;
                chunk = self.probe(probe)?;
            }
            if chunk.is_none() {
                probe = middle;
            }
            while chunk.is_none() {
                probe += 1;
                if probe == high {
                    return Ok(low);
                }
                chunk = self.probe(probe)?;
            }
            let chunk = chunk.unwrap_or_default();
            let is_above = Reader::new(&chunk, "a chunk").bytes()? > head;
            if is_above { high = probe } else { low = probe }
        }
        Ok(low)
    }

    /// Calls `take` with what chunks hold from number `at` on, and the bytes read so far, until it says no.
    fn each(
        &mut self,
        mut at: u64,
        mut take: impl FnMut(Piece<'_>, u64) -> io::Result<bool>,
    ) -> io::Result<()> {
        let (mut is_gap, mut lacks_part) = (false, false);
        while at < self.count {
            let chunk = self.records(at);
            at += 1;
            if self.skips_lost && chunk.as_ref().is_err_and(is_lost) {
                // The parts of a value that is lost are of no other gap.
                lacks_part = lacks_part && self.entry(at - 1).is_ok_and(|entry| entry.is_part);
                if !is_gap && !lacks_part {
                    self.gaps.insert(at);
                    is_gap = true;
                }
                continue;
            }
            (is_gap, lacks_part) = (false, false);
            let chunk = chunk?;
            let mut reader = Reader::new(&chunk, "a chunk");
            while !reader.is_empty() {
                let head = reader.bytes()?;
                let number = reader.number()?;
                let (size, is_large) = (number >> 1, number & 1 != 0);
                if is_large && !reader.is_empty() {
                    return Err(damaged("records follow a large value in its chunk"));
                }
                if is_large && self.skips_lost && self.check_parts(at, size).as_ref().is_err_and(is_lost) {
                    lacks_part = true;
                    if take(Piece::Lost { head }, self.bytes)? { break } else { return Ok(()) }
                }
                let goes_on = if is_large {
                    self.large(&mut at, head, size, &mut take)?
                } else {
                    take(Piece::Record { head, body: reader.take(size)?, size }, self.bytes)?
                };
                if !goes_on {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// A chunk of records.
    fn records(&mut self, at: u64) -> io::Result<Vec<u8>> {
        if self.entry(at)?.is_part {
            return Err(damaged("a part of a large value has no beginning"));
        }
        self.read(at)
    }

    /// A part of a large value.
    fn part(&mut self, at: u64) -> io::Result<Vec<u8>> {
        if at >= self.count || !self.entry(at)?.is_part {
            return Err(damaged("a large value lacks a part"));
        }
        self.read(at)
    }

    /// Reads the parts of a large value, which are chunks from number `at` on.
    fn check_parts(&mut self, mut at: u64, size: u64) -> io::Result<()> {
        let (mut left, bytes) = (size, self.bytes);
        while left > 0 {
            left = left.saturating_sub(self.part(at)?.len() as u64);
            at += 1;
        }
        // They are read once more.
        self.bytes = bytes;
        Ok(())
    }

    /// Calls `take` with a large value, whose parts are chunks from number `at` on. Leaves `at` behind them.
    fn large(
        &mut self,
        at: &mut u64,
        head: &[u8],
        size: u64,
        take: &mut impl FnMut(Piece<'_>, u64) -> io::Result<bool>,
    ) -> io::Result<bool> {
        let (mut left, mut goes_on) = (size, true);
        while left > 0 && goes_on {
            let part = self.part(*at)?;
            *at += 1;
            let after = left.checked_sub(part.len() as u64);
            let after = after.ok_or_else(|| damaged("a large value is longer than it says"))?;
            let piece =
                if left == size { Piece::Record { head, body: &part, size } } else { Piece::Part(&part) };
            goes_on = take(piece, self.bytes)?;
            left = after;
        }
        Ok(goes_on)
    }
}

/// The database and the key of the record with this head.
fn database_and_key(head: &[u8]) -> io::Result<(u32, &[u8])> {
    let parts = head.split_first_chunk();
    let (database, key) = parts.ok_or_else(|| damaged("the record of a key is damaged"))?;
    Ok((u32::from_be_bytes(*database), key))
}

/// Whether an error tells that a chunk is lost.
fn is_lost(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
}

/// A dump that is being put together.
struct Dump<'a, W: Write> {
    writer: Writer<'static, W>,
    facts: &'a Facts,
    /// What is wanted; everything without one.
    range: Option<Range>,
    buffer: Vec<u8>,
    database: Option<u32>,
    /// Whether the parts that come belong to a record that is wanted.
    is_wanted: bool,
    done: Restored,
}

impl<W: Write> Dump<'_, W> {
    /// Takes a piece; whether more of them are wanted.
    fn take(&mut self, piece: Piece<'_>) -> io::Result<bool> {
        match piece {
            Piece::Record { head: [FUNCTION, ..], body, size } => {
                self.is_wanted = self.range.is_none();
                if self.is_wanted {
                    self.done.functions += 1;
                    self.buffer.push(opcode::FUNCTION2);
                    put_length(size, &mut self.buffer);
                    self.buffer.extend_from_slice(body);
                }
            }
            Piece::Record { head: [KEY, head @ ..], body, .. } => {
                let (database, key) = database_and_key(head)?;
                let Some(is_wanted) = self.wants(database, key) else { return Ok(false) };
                self.is_wanted = is_wanted;
                if is_wanted {
                    self.key(database, key, body)?;
                }
            }
            Piece::Lost { head: [KEY, head @ ..] } => {
                let (database, key) = database_and_key(head)?;
                let Some(is_wanted) = self.wants(database, key) else { return Ok(false) };
                self.done.gaps += usize::from(is_wanted);
            }
            Piece::Lost { .. } => self.done.gaps += usize::from(self.range.is_none()),
            Piece::Record { .. } => return Err(damaged("a record is of an unknown kind")),
            Piece::Part(part) if self.is_wanted => self.buffer.extend_from_slice(part),
            Piece::Part(_) => {}
        }
        if self.buffer.len() >= BUFFER_BYTES { self.flush().map(|()| true) } else { Ok(true) }
    }

    /// Whether a key is wanted; `None` if nothing from it on is.
    fn wants(&self, database: u32, key: &[u8]) -> Option<bool> {
        let Some(range) = &self.range else { return Some(true) };
        (!range.is_before(database, key)).then(|| range.takes(database, key))
    }

    fn key(&mut self, database: u32, key: &[u8], body: &[u8]) -> io::Result<()> {
        if self.database != Some(database) {
            self.database = Some(database);
            let index = database as usize;
            match self.facts.databases.iter().find(|facts| facts.0 == database) {
                Some((_, keys, with_expiry)) if self.range.is_none() => {
                    self.writer.encoder().database(index, *keys, *with_expiry, &mut self.buffer);
                }
                _ => self.writer.encoder().select(index, &mut self.buffer),
            }
        }
        let mut body = Reader::new(body, "the value of a key");
        if body.array()? != [0] {
            self.buffer.push(opcode::EXPIRETIME_MS);
            self.buffer.extend_from_slice(&body.array::<8>()?);
        }
        self.buffer.extend_from_slice(&body.array::<1>()?);
        put_length(key.len() as u64, &mut self.buffer);
        self.buffer.extend_from_slice(key);
        self.buffer.extend_from_slice(body.take(body.left() as u64)?);
        self.done.keys += 1;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.chunk(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Takes a dump as a server would load it.
struct Inspector<'t> {
    digest: RunningDigest,
    done: Restored,
    /// Has the rest of the work done: with a library of functions, or with a key.
    writer: Option<(&'t Facts, Writer<'static, &'t mut dyn Write>)>,
    database: Option<usize>,
}

fn text(error: io::Error) -> String {
    error.to_string()
}

impl LoadTarget for Inspector<'_> {
    fn select(&mut self, _database: usize) -> Result<(), String> {
        Ok(())
    }

    fn insert(&mut self, record: Record<'_>) -> Result<(), String> {
        let database = record.database;
        let entry = record.into_entry(0);
        self.digest.add(database, &entry);
        self.done.keys += 1;
        let Some((facts, writer)) = &mut self.writer else { return Ok(()) };
        if self.database != Some(database) {
            self.database = Some(database);
            let counts = facts.databases.iter().find(|facts| facts.0 as usize == database);
            let (keys, with_expiry) = counts.map_or((0, 0), |counts| (counts.1, counts.2));
            writer.database(database, keys, with_expiry).map_err(text)?;
        }
        writer.entry(&entry).map_err(text)
    }

    fn function(&mut self, source: &[u8]) -> Result<(), String> {
        self.done.functions += 1;
        self.writer.as_mut().map_or(Ok(()), |(_, writer)| writer.function(source)).map_err(text)
    }
}

impl<S: Store> Archive<S> {
    /// Writes what is wanted of a snapshot as a dump whose strings are not compressed.
    pub fn restore(
        &self,
        snapshot: &Snapshot,
        selection: &Selection,
        out: impl Write,
        report: Report<'_>,
    ) -> io::Result<Restored> {
        let mut chunks = Chunks::open(self, snapshot, selection.skips_lost)?;
        let options = WriteOptions { compress: false, ..WriteOptions::default() };
        let mut writer = Writer::new(out, options, None);
        writer.begin(&file_facts(&snapshot.facts))?;
        let (facts, buffer, done) = (&snapshot.facts, Vec::new(), Restored::default());
        let mut dump = Dump { writer, facts, range: None, buffer, database: None, is_wanted: false, done };
        let ranges = selection.ranges(facts).into_iter().map(Some);
        for range in if selection.is_all() { vec![None] } else { ranges.collect() } {
            let head = range.as_ref().map(|range| key_head(range.database, &range.start));
            let at = head.map_or(Ok(0), |head| chunks.search(&head))?;
            dump.range = range;
            chunks.each(at, |piece, bytes| {
                report(bytes);
                dump.take(piece)
            })?;
        }
        dump.flush()?;
        let (mut out, _) = dump.writer.finish()?;
        out.flush()?;
        Ok(Restored { gaps: dump.done.gaps + chunks.gaps.len(), ..dump.done })
    }

    /// Calls `take` with the dump that [`Archive::restore`] writes, while it is being written.
    pub fn read<T>(
        &self,
        snapshot: &Snapshot,
        selection: &Selection,
        report: Report<'_>,
        take: impl FnOnce(PipeReader) -> io::Result<T>,
    ) -> io::Result<(Restored, T)> {
        let (reader, writer) = io::pipe()?;
        thread::scope(|scope| {
            let out = BufWriter::with_capacity(BUFFER_BYTES, writer);
            let writing = scope.spawn(move || self.restore(snapshot, selection, out, report));
            let taken = take(reader);
            let written = writing.join().map_err(|_| io::Error::other("reading the archive failed"))?;
            match (written, taken) {
                // Who reads has hung up, and knows why.
                (Err(error), Err(reason)) if error.kind() == io::ErrorKind::BrokenPipe => Err(reason),
                (Err(error), _) => Err(error),
                (Ok(written), taken) => Ok((written, taken?)),
            }
        })
    }

    /// Writes a snapshot as a server would save it. Compares the digest on the way, and fails if it differs.
    pub fn export<'s>(
        &self,
        snapshot: &'s Snapshot,
        out: &'s mut dyn Write,
        report: Report<'_>,
    ) -> io::Result<Restored> {
        self.inspect(snapshot, Some(out), report)
    }

    /// Reads a snapshot as a server would load it, and compares its digest with that of the data of which it
    /// was made.
    pub fn verify(&self, snapshot: &Snapshot, report: Report<'_>) -> io::Result<Restored> {
        self.inspect(snapshot, None, report)
    }

    fn inspect<'s>(
        &self,
        snapshot: &'s Snapshot,
        out: Option<&'s mut dyn Write>,
        report: Report<'_>,
    ) -> io::Result<Restored> {
        let facts = &snapshot.facts;
        let writer = out.map(|out| (facts, Writer::new(out, WriteOptions::default(), None)));
        let (digest, done) = (RunningDigest::default(), Restored::default());
        let mut inspector = Inspector { digest, done, writer, database: None };
        if let Some((facts, writer)) = &mut inspector.writer {
            writer.begin(&file_facts(facts))?;
        }
        let now_ms = i64::try_from(facts.created_ms).unwrap_or(i64::MAX);
        let options = LoadOptions { now_ms, ..LoadOptions::default() };
        self.read(snapshot, &Selection::default(), report, |dump| {
            let loaded = Loader::new(dump, None, options).load(&mut inspector);
            loaded.map_err(|error| damaged(format!("the snapshot can not be loaded: {error}")))
        })?;
        let counted = (inspector.done.keys, inspector.done.functions);
        let digest = inspector.digest.value();
        if counted != (facts.keys, facts.functions) || digest != facts.digest {
            let (is, was) = (hex(&digest), hex(&facts.digest));
            return Err(damaged(format!("the data have the digest {is}, and had {was} when it was made")));
        }
        if let Some((_, writer)) = inspector.writer {
            writer.finish()?.0.flush()?;
        }
        Ok(inspector.done)
    }
}

fn file_facts(facts: &Facts) -> FileFacts {
    let created_s = i64::try_from(facts.created_ms / 1000).unwrap_or(i64::MAX);
    FileFacts { created_s, ..FileFacts::default() }
}
