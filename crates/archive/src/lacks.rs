//! What a snapshot lacks of which chunks are lost, as far as the chunks beside them tell.
//!
//! Records are in the order of database and key. So what was in a lost chunk is between the last record
//! before it and the first behind it, and a lost part belongs to the last record before it.

use std::collections::HashMap;
use std::io;

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
    /// Any records between two; `None` is the beginning or the end of the snapshot.
    Between(Option<Place>, Option<Place>),
}

/// The same before the records are read: chunks of records, of which the first or the last one is meant.
enum Lost {
    Value(ChunkName),
    Between(Option<ChunkName>, Option<ChunkName>),
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
    /// Records are lost, behind the ones that are named if there are any before.
    open: Option<Option<ChunkName>>,
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
                (self.last, self.lacks_part) = (Some(chunk.name), false);
            }
            (_, true, _) => {}
            _ if self.open.is_some() => {}
            (_, false, Some(last)) if is_part => {
                if !self.lacks_part {
                    self.push(Lost::Value(last));
                }
                self.lacks_part = true;
            }
            (_, false, last) => self.open = Some(last),
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
    places: &Places,
) -> io::Result<Option<Incomplete>> {
    let manifest = &snapshot.manifest;
    let load = |name: &PackName| Index::find(&archive.store, &archive.keys, name);
    let entries_of = |index: Option<Index>| index.map(|index| index.chunks().copied().collect::<Vec<_>>());
    let packs = manifest.packs.iter().map(|name| load(name).map(entries_of));
    let packs: Vec<Option<Vec<ChunkEntry>>> = packs.collect::<io::Result<_>>()?;
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
    let named = gaps.found.iter().map(|gap| {
        Ok(match gap {
            Lost::Value(chunk) => Gap::Value(beside.last(chunk)?),
            Lost::Between(before, behind) => Gap::Between(
                before.as_ref().map(|chunk| beside.last(chunk)).transpose()?,
                behind.as_ref().map(|chunk| beside.first(chunk)).transpose()?,
            ),
        })
    });
    let named = named.collect::<io::Result<_>>()?;
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
            Lost::Between(before, behind) => [*before, *behind],
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

    fn last(&mut self, name: &ChunkName) -> io::Result<Place> {
        let chunk = self.read(name)?;
        let (mut reader, mut last) = (Reader::new(&chunk, "a chunk"), &[][..]);
        while !reader.is_empty() {
            last = reader.bytes()?;
            let number = reader.number()?;
            // The body of a large value is in parts.
            let is_large = number & 1 != 0;
            reader.take(if is_large { 0 } else { number >> 1 })?;
        }
        place(last)
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
