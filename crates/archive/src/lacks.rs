//! What a snapshot lacks of which chunks are lost, as far as the chunks beside them tell.
//!
//! Records are in the order of database and key. So what was in a lost chunk is between the last record
//! before it and the first behind it, and a lost part belongs to the last record before it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use crate::keys::ChunkName;
use crate::pack::{ChunkEntry, Index, PackName, PackReader, Places};
use crate::repository::{Archive, Snapshot};
use crate::sort::{FUNCTION, KEY};
use crate::store::Store;
use crate::wire::{Reader, damaged};

/// The most gaps that are named.
const GAPS_MAX: usize = 20;

/// A snapshot of which chunks are lost.
#[derive(Clone, Debug)]
pub struct Incomplete {
    /// Its name.
    pub snapshot: String,
    /// The number of its chunks that are lost.
    pub lost: u64,
    /// Those of them of which nobody knows which chunks they were: no other snapshot brings them back.
    pub unnamed: u64,
    /// What was there, the first of them in order.
    pub gaps: Vec<Gap>,
    /// The number of gaps that are not named.
    pub more: usize,
}

/// A record of a snapshot, as its place in the order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A library of functions. They come before keys.
    Function,
    /// A key.
    Key {
        /// Its database.
        database: u32,
        /// The key.
        key: Vec<u8>,
    },
}

/// What lost chunks held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Gap {
    /// Parts of one large value.
    Value(Place),
    /// Any records between two; `None` is the beginning or the end of the snapshot. If the first of the two
    /// lacks parts itself, another gap says so.
    Between(Option<Place>, Option<Place>),
}

/// The same before the records are read: chunks of records, of which the first or the last one is meant.
enum Lost {
    Value(ChunkName),
    Between(Before, Option<ChunkName>),
}

/// Where lost records begin.
#[derive(Clone, Copy, Default)]
struct Before {
    /// The last chunk of records.
    chunk: Option<ChunkName>,
    /// If the first lost chunk may be a part of that chunk's last record: bytes of the parts that are there.
    part_bytes: Option<u64>,
}

/// The chunks of packs that snapshots name.
pub(crate) struct Lists {
    named: HashSet<PackName>,
    /// `None` where there is no index that can be read.
    known: HashMap<PackName, Option<Arc<Vec<ChunkEntry>>>>,
}

impl Lists {
    /// Those of `named`, of which none is known yet.
    pub fn of(named: HashSet<PackName>) -> Self {
        Lists { named, known: HashMap::new() }
    }

    /// Takes note of an index, if it is one of those.
    pub fn add(&mut self, name: &PackName, index: &Index) {
        if self.named.contains(name) {
            self.known.insert(*name, Some(Arc::new(index.chunks().copied().collect())));
        }
    }

    /// The chunks of a pack. Reads the index if it is not known.
    fn get<S: Store>(
        &mut self,
        archive: &Archive<S>,
        name: &PackName,
    ) -> io::Result<Option<Arc<Vec<ChunkEntry>>>> {
        if !self.known.contains_key(name) {
            let index = Index::find(&archive.store, &archive.keys, name)?;
            let list = index.map(|index| Arc::new(index.chunks().copied().collect()));
            self.known.insert(*name, list);
        }
        Ok(self.known.get(name).cloned().flatten())
    }
}

/// Finds gaps in the chunks of a snapshot, which come in order.
#[derive(Default)]
struct Gaps {
    lost: u64,
    unnamed: u64,
    found: Vec<Lost>,
    more: usize,
    /// The last chunk of records, if it is there.
    last: Option<ChunkName>,
    /// Bytes of parts that came behind it.
    part_bytes: u64,
    /// Records are lost from here on.
    open: Option<Before>,
    /// It is said already that the last record lacks a part.
    lacks_part: bool,
}

impl Gaps {
    fn take(&mut self, chunk: Option<&ChunkEntry>, places: &Places) {
        let is_there = chunk.is_some_and(|chunk| places.has(&chunk.name));
        self.lost += u64::from(!is_there);
        self.unnamed += u64::from(chunk.is_none());
        let is_part = chunk.is_some_and(|chunk| chunk.is_part);
        match (chunk, is_there, self.last) {
            (Some(chunk), true, _) if !is_part => {
                if let Some(before) = self.open.take() {
                    self.push(Lost::Between(before, Some(chunk.name)));
                }
                (self.last, self.lacks_part, self.part_bytes) = (Some(chunk.name), false, 0);
            }
            (part, true, _) => self.part_bytes += part.map_or(0, |part| u64::from(part.bytes)),
            _ if self.open.is_some() => {}
            (_, false, Some(last)) if is_part => {
                if !self.lacks_part {
                    self.push(Lost::Value(last));
                }
                self.lacks_part = true;
            }
            (_, false, last) => {
                let may_be_part = chunk.is_none() && !self.lacks_part;
                self.open = Some(Before { chunk: last, part_bytes: may_be_part.then_some(self.part_bytes) });
            }
        }
    }

    fn push(&mut self, gap: Lost) {
        if self.found.len() < GAPS_MAX { self.found.push(gap) } else { self.more += 1 }
    }
}

/// What a snapshot lacks, if anything.
pub(crate) fn of<S: Store>(
    archive: &Archive<S>,
    snapshot: &Snapshot,
    lists: &mut Lists,
    places: &Places,
) -> io::Result<Option<Incomplete>> {
    let manifest = &snapshot.manifest;
    let packs = manifest.packs.iter().map(|name| lists.get(archive, name));
    let packs: Vec<Option<_>> = packs.collect::<io::Result<_>>()?;
    let mut gaps = Gaps::default();
    for run in &manifest.runs {
        let entries = packs.get(run.pack as usize).and_then(Option::as_ref);
        for chunk in run.first..run.first + run.count {
            let chunk = usize::try_from(chunk).ok();
            gaps.take(chunk.zip(entries).and_then(|(chunk, entries)| entries.get(chunk)), places);
        }
    }
    if let Some(before) = gaps.open.take() {
        gaps.push(Lost::Between(before, None));
    }
    if gaps.lost == 0 {
        return Ok(None);
    }
    let mut beside = Beside::open(archive, &gaps.found, places)?;
    let mut named = Vec::new();
    for gap in &gaps.found {
        match gap {
            Lost::Value(chunk) => named.push(Gap::Value(beside.last(chunk)?.0)),
            Lost::Between(Before { chunk, part_bytes }, behind) => {
                let last = chunk.as_ref().map(|chunk| beside.last(chunk)).transpose()?;
                let (before, size) = last.map_or((None, 0), |(place, size)| (Some(place), size));
                if part_bytes.is_some_and(|bytes| bytes < size) {
                    named.extend(before.clone().map(Gap::Value));
                }
                let behind = behind.as_ref().map(|chunk| beside.first(chunk)).transpose()?;
                named.push(Gap::Between(before, behind));
            }
        }
    }
    let Gaps { lost, unnamed, more, .. } = gaps;
    Ok(Some(Incomplete { snapshot: snapshot.name.clone(), lost, unnamed, gaps: named, more }))
}

/// Reads the chunks beside gaps.
struct Beside<'a> {
    reader: PackReader<'a>,
    chunks: HashMap<ChunkName, (usize, u64)>,
}

impl<'a> Beside<'a> {
    fn open<S: Store>(archive: &'a Archive<S>, gaps: &[Lost], places: &Places) -> io::Result<Self> {
        let (mut packs, mut chunks) = (Vec::new(), HashMap::new());
        let names = gaps.iter().flat_map(|gap| match gap {
            Lost::Value(chunk) => [Some(*chunk), None],
            Lost::Between(before, behind) => [before.chunk, *behind],
        });
        for name in names.flatten() {
            let (pack, number) = places.get(&name).ok_or_else(|| damaged("a chunk is gone"))?;
            let pack = places.packs[pack];
            let opened = packs.iter().position(|opened| *opened == pack).unwrap_or_else(|| {
                packs.push(pack);
                packs.len() - 1
            });
            chunks.insert(name, (opened, number));
        }
        Ok(Beside { reader: PackReader::open(&archive.store, &archive.keys, &packs)?, chunks })
    }

    fn read(&mut self, name: &ChunkName) -> io::Result<Vec<u8>> {
        let (pack, number) = self.chunks.get(name).ok_or_else(|| damaged("a chunk is gone"))?;
        self.reader.read(*pack, *number)
    }

    fn first(&mut self, name: &ChunkName) -> io::Result<Place> {
        place(Reader::new(&self.read(name)?, "a chunk").bytes()?)
    }

    /// The last record, and the bytes that its parts have in all.
    fn last(&mut self, name: &ChunkName) -> io::Result<(Place, u64)> {
        let chunk = self.read(name)?;
        let (mut reader, mut last, mut part_bytes) = (Reader::new(&chunk, "a chunk"), &[][..], 0);
        while !reader.is_empty() {
            last = reader.bytes()?;
            let number = reader.number()?;
            let (size, is_large) = (number >> 1, number & 1 != 0);
            part_bytes = if is_large { size } else { 0 };
            reader.take(size - part_bytes)?;
        }
        Ok((place(last)?, part_bytes))
    }
}

/// The place of the record of this head.
fn place(head: &[u8]) -> io::Result<Place> {
    let key = || {
        let (database, key) = head.strip_prefix(&[KEY])?.split_first_chunk()?;
        Some(Place::Key { database: u32::from_be_bytes(*database), key: key.to_vec() })
    };
    match head {
        [FUNCTION, ..] => Ok(Place::Function),
        _ => key().ok_or_else(|| damaged("the record of a key is damaged")),
    }
}
