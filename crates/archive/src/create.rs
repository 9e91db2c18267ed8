//! Making a snapshot: a dump is read, its records are sorted, cut, named, and stored where they are new.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use mantissa_persist::digest::RunningDigest;
use mantissa_persist::load::{LoadOptions, LoadTarget, Loader, Record};
use mantissa_persist::write::{Encoder, WriteOptions};

use crate::chunker::{Cuts, Gear};
use crate::hashes::BATCH_BYTES;
use crate::keys::{ChunkName, Namer};
use crate::manifest::{Facts, Manifest, Position};
use crate::order::{sorted, string_size};
use crate::pack::{PlacedChunks, Places, each_pack};
use crate::repository::{Archive, Snapshot};
use crate::sort::{FUNCTION, Sorter, key_head};
use crate::store::Store;
use crate::wire::{damaged, put_bytes, put_number};

/// Bodies of records above this are cut by their contents.
const LARGE_BYTES: usize = 64 << 10;
/// Bytes of a dump that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes before the value where a key expires.
const EXPIRY_BYTES: usize = 9;

/// What a snapshot is made of.
pub struct Origin<'a> {
    /// What is said of it.
    pub source: &'a str,
    /// What the user calls it.
    pub tag: &'a str,
    /// Tells the present, as unix time in milliseconds. It is asked when the dump has begun, so the data are
    /// not of a later time.
    pub now_ms: &'a (dyn Fn() -> u64 + 'a),
    /// The length of the dump in bytes, if known.
    pub bytes: Option<u64>,
    /// Where temporary files go.
    pub folder: &'a Path,
}

/// Takes what a dump holds to the sorter.
struct Collector {
    sorter: Sorter,
    encoder: Encoder<'static>,
    record: Vec<u8>,
    body: Vec<u8>,
    digest: RunningDigest,
    databases: BTreeMap<u32, (u64, u64)>,
    functions: u64,
    /// Bytes of records.
    bytes: u64,
}

impl LoadTarget for Collector {
    fn select(&mut self, _database: usize) -> Result<(), String> {
        Ok(())
    }

    fn insert(&mut self, record: Record<'_>) -> Result<(), String> {
        let database = u32::try_from(record.database).map_err(|error| error.to_string())?;
        let (at, expiry) = (record.database, record.expiry);
        let entry = record.into_entry(0);
        self.digest.add(at, &entry);
        self.record.clear();
        self.encoder.entry(&entry, &mut self.record);
        // The record without the key: an expiry, the form, the value.
        let form_at = if expiry.is_some() { EXPIRY_BYTES } else { 0 };
        let value_at = self.record.get(form_at + 1..).and_then(string_size).map(|size| form_at + 1 + size);
        let (Some(form), Some(value)) =
            (self.record.get(form_at), value_at.and_then(|value_at| self.record.get(value_at..)))
        else {
            return Err("a value could not be written".to_owned());
        };
        self.body.clear();
        self.body.push(u8::from(expiry.is_some()));
        expiry.inspect(|at_ms| self.body.extend_from_slice(&at_ms.to_le_bytes()));
        self.body.push(*form);
        match sorted(*form, value) {
            Some(value) => self.body.extend_from_slice(&value),
            None => self.body.extend_from_slice(value),
        }
        let counts = self.databases.entry(database).or_default();
        counts.0 += 1;
        counts.1 += u64::from(expiry.is_some());
        self.bytes += (entry.key().len() + self.body.len()) as u64;
        self.sorter.add(&key_head(database, entry.key()), &self.body).map_err(|error| error.to_string())
    }

    fn function(&mut self, source: &[u8]) -> Result<(), String> {
        let number = self.functions.to_be_bytes();
        self.functions += 1;
        let head = [&[FUNCTION][..], &number].concat();
        self.sorter.add(&head, source).map_err(|error| error.to_string())
    }
}

/// Names chunks and stores those that are new.
struct Chunks<'a, S> {
    archive: &'a Archive<S>,
    placed: PlacedChunks<'a>,
    manifest: Manifest,
}

impl<'a, S: Store> Chunks<'a, S> {
    fn new(archive: &'a Archive<S>, facts: Facts) -> io::Result<Self> {
        let store = &archive.store;
        let mut places = Places::default();
        // What others say is stored anew.
        each_pack(store, &archive.keys, |name, index| places.add_pack(name, index, |_| true))?;
        let placed = PlacedChunks::new(store, &archive.keys, places)?;
        let manifest = Manifest { facts, ..Manifest::default() };
        Ok(Chunks { archive, placed, manifest })
    }

    fn add(&mut self, name: ChunkName, bytes: &[u8], is_part: bool) -> io::Result<()> {
        self.manifest.facts.bytes += bytes.len() as u64;
        let (pack, number, is_new) = self.placed.put(name, bytes, is_part)?;
        self.manifest.push(pack as u32, number);
        self.manifest.facts.new_bytes += if is_new { bytes.len() as u64 } else { 0 };
        Ok(())
    }

    /// The manifest, with the packs that it needs only.
    fn finish(self) -> io::Result<Manifest> {
        let mut manifest = self.manifest;
        let (Places { packs, .. }, stored_bytes) = self.placed.finish()?;
        manifest.facts.stored_bytes = stored_bytes;
        let mut numbers = HashMap::new();
        for run in &mut manifest.runs {
            let next = numbers.len() as u32;
            let number = *numbers.entry(run.pack).or_insert(next);
            if number == next {
                manifest.packs.push(packs[run.pack as usize]);
            }
            run.pack = number;
        }
        Ok(manifest)
    }
}

impl<S: Store> Archive<S> {
    /// Makes a snapshot of the dump that `dump` yields. While it is being stored, `report` is told of bytes
    /// done and bytes in all.
    pub fn create(
        &self,
        dump: impl Read,
        origin: &Origin<'_>,
        report: &mut dyn FnMut(u64, u64),
    ) -> io::Result<Snapshot> {
        let _lock = self.store.lock()?;
        let options = WriteOptions { compress: false, ..WriteOptions::default() };
        let mut collector = Collector {
            sorter: Sorter::new(origin.folder),
            encoder: Encoder::new(options, None),
            record: Vec::new(),
            body: Vec::new(),
            digest: RunningDigest::default(),
            databases: BTreeMap::new(),
            functions: 0,
            bytes: 0,
        };
        let mut dump = BufReader::with_capacity(READ_BYTES, dump);
        dump.fill_buf()?;
        let created_ms = (origin.now_ms)();
        let now_ms = i64::try_from(created_ms).unwrap_or(i64::MAX);
        let mut loader = Loader::new(dump, origin.bytes, LoadOptions { now_ms, ..LoadOptions::default() });
        let loaded = loader.load(&mut collector).map_err(|error| damaged(error.to_string()))?;
        let position = loaded.replication.and_then(|facts| {
            let (offset, database) = (u64::try_from(facts.offset).ok()?, u32::try_from(facts.database).ok());
            Some(Position { history: facts.id, offset, database })
        });
        let databases = &collector.databases;
        let facts = Facts {
            created_ms,
            source: origin.source.to_owned(),
            tag: origin.tag.to_owned(),
            keys: databases.values().map(|(keys, _)| keys).sum(),
            functions: collector.functions,
            databases: databases.iter().map(|(number, counts)| (*number, counts.0, counts.1)).collect(),
            digest: collector.digest.value(),
            position,
            ..Facts::default()
        };
        let mut cutter = Cutter {
            cuts: Cuts::new(self.keys.seed()),
            gear: Gear::new(self.keys.seed()),
            namer: self.keys.namer(),
            bytes: Vec::new(),
            start: 0,
            sizes: Vec::new(),
            chunks: Chunks::new(self, facts)?,
        };
        let (total, mut done) = (collector.bytes, 0);
        collector.sorter.drain(|head, body| {
            done += (head.len() + body.len()) as u64;
            report(done.min(total), total);
            cutter.add(head, body)
        })?;
        cutter.store()?;
        self.put_manifest(cutter.chunks.finish()?)
    }
}

/// Cuts records, which come in order, into chunks. These are named many at once.
struct Cutter<'a, S> {
    cuts: Cuts,
    gear: Gear,
    namer: Namer,
    /// Chunks of records that have no name yet, and behind them the one that is begun.
    bytes: Vec<u8>,
    /// Where the chunk that is begun has its first byte.
    start: usize,
    /// The sizes of those before it.
    sizes: Vec<usize>,
    chunks: Chunks<'a, S>,
}

impl<S: Store> Cutter<'_, S> {
    fn add(&mut self, head: &[u8], body: &[u8]) -> io::Result<()> {
        let is_large = body.len() > LARGE_BYTES;
        if self.cuts.before(head, head.len() + if is_large { 0 } else { body.len() }) {
            self.end_chunk();
            if self.bytes.len() >= BATCH_BYTES {
                self.store()?;
            }
        }
        put_bytes(head, &mut self.bytes);
        put_number((body.len() as u64) << 1 | u64::from(is_large), &mut self.bytes);
        if !is_large {
            self.bytes.extend_from_slice(body);
            return Ok(());
        }
        self.store()?;
        self.cuts.restart();
        let mut rest = body;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(self.gear.cut(rest));
            // A part that has the bytes of records is another chunk.
            let name = self.chunks.archive.keys.chunk_name(part, true);
            self.chunks.add(name, part, true)?;
            rest = after;
        }
        Ok(())
    }

    fn end_chunk(&mut self) {
        if self.start < self.bytes.len() {
            self.sizes.push(self.bytes.len() - self.start);
            self.start = self.bytes.len();
        }
    }

    /// Stores all records that there are.
    fn store(&mut self) -> io::Result<()> {
        self.end_chunk();
        let names = self.namer.names(&self.bytes, &self.sizes);
        let mut rest = &self.bytes[..];
        for (name, size) in names.into_iter().zip(self.sizes.drain(..)) {
            let (chunk, after) = rest.split_at(size);
            self.chunks.add(name, chunk, false)?;
            rest = after;
        }
        self.bytes.clear();
        self.start = 0;
        Ok(())
    }
}
