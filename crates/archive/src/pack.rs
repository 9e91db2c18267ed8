//! Packs: objects of some 16 MB that hold chunks, and their indexes.
//!
//! New chunks are joined into blocks of 128 KB, which are compressed and, with encryption, sealed. A pack is
//! its blocks one behind the other; its index says what is in them. The name of both is the BLAKE3 hash of
//! the index, so that a manifest, which has that name, vouches for every byte.
//!
//! An index may outlive its pack, when that was damaged (`repair`). It still says which chunks manifests
//! mean, which are then read from other packs.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use crate::keys::{ChunkName, Key, Keys, NAME_BYTES, compress, decompress};
use crate::store::Store;
use crate::wire::{Reader, damaged, hex, put_bytes, put_number, unhex};

const PACK_BYTES: usize = 16 << 20;
const BLOCK_BYTES: usize = 128 << 10;
/// Blocks that a reader keeps unpacked.
const BLOCKS_KEPT: usize = 64;
const MAGIC: &[u8; 8] = b"MANTPCK1";

/// The name of a pack.
pub(crate) type PackName = ChunkName;

pub(crate) fn pack_object(name: &PackName) -> String {
    format!("packs/{}", hex(name))
}

pub(crate) fn index_object(name: &PackName) -> String {
    format!("indexes/{}", hex(name))
}

/// The name of a pack in the name of an object.
pub(crate) fn pack_name(text: &str) -> Option<PackName> {
    unhex(text)
}

/// A chunk as an index has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChunkEntry {
    pub name: ChunkName,
    pub bytes: u32,
    /// Whether it is a part of a large value, not records.
    pub is_part: bool,
}

/// A block as an index has it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct BlockEntry {
    pub stored_bytes: u64,
    pub chunks: Vec<ChunkEntry>,
}

/// What is in a pack.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Index {
    pub sealed_key: Vec<u8>,
    pub blocks: Vec<BlockEntry>,
}

impl Index {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put_bytes(&self.sealed_key, &mut out);
        put_number(self.blocks.len() as u64, &mut out);
        for block in &self.blocks {
            put_number(block.stored_bytes, &mut out);
            put_number(block.chunks.len() as u64, &mut out);
            for chunk in &block.chunks {
                put_number(u64::from(chunk.bytes) << 1 | u64::from(chunk.is_part), &mut out);
                out.extend_from_slice(&chunk.name);
            }
        }
        out
    }

    pub fn parse(bytes: &[u8]) -> io::Result<Index> {
        let mut reader = Reader::new(bytes, "the index of a pack");
        if reader.array()? != *MAGIC {
            return Err(reader.error("it does not begin as one"));
        }
        let sealed_key = reader.bytes()?.to_vec();
        let mut index = Index { sealed_key, blocks: Vec::new() };
        let mut all_bytes = 0_u64;
        for _ in 0..reader.count(2)? {
            let mut block = BlockEntry { stored_bytes: reader.number()?, chunks: Vec::new() };
            let sum = all_bytes.checked_add(block.stored_bytes);
            all_bytes = sum.ok_or_else(|| reader.error("a number is too large"))?;
            for _ in 0..reader.count(1 + NAME_BYTES)? {
                let number = reader.number()?;
                let bytes = u32::try_from(number >> 1).map_err(|_| reader.error("a chunk is too large"))?;
                let chunk = ChunkEntry { name: reader.array()?, bytes, is_part: number & 1 != 0 };
                block.chunks.push(chunk);
            }
            index.blocks.push(block);
        }
        reader.finish()?;
        Ok(index)
    }

    pub fn load(store: &dyn Store, keys: &Keys, name: &PackName) -> io::Result<Index> {
        let object = index_object(name);
        let plain = keys.unwrap(&store.get(&object)?, &object)?;
        if keys.name(&plain) != *name {
            return Err(damaged(format!("{object}: it is the index of another pack")));
        }
        Index::parse(&plain)
    }

    /// The same, unless it is damaged or not there.
    pub fn find(store: &dyn Store, keys: &Keys, name: &PackName) -> io::Result<Option<Index>> {
        match Index::load(store, keys, name) {
            Err(error) if is_damage(&error) => Ok(None),
            index => index.map(Some),
        }
    }

    pub fn chunks(&self) -> impl Iterator<Item = &ChunkEntry> {
        self.blocks.iter().flat_map(|block| &block.chunks)
    }

    /// How long the pack is, in bytes.
    pub fn stored_bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.stored_bytes).sum()
    }

    /// Calls `take` with each chunk, and its bytes if `stored`, which is the pack, has those that its name
    /// says.
    pub fn each_chunk(
        &self,
        keys: &Keys,
        stored: &[u8],
        mut take: impl FnMut(&ChunkEntry, Option<&[u8]>) -> io::Result<()>,
    ) -> io::Result<()> {
        let key = keys.open_pack(&self.sealed_key)?;
        let mut rest = stored;
        for (number, block) in (0..).zip(&self.blocks) {
            let size = usize::try_from(block.stored_bytes).unwrap_or(usize::MAX);
            let (block_stored, behind) = rest.split_at_checked(size).unwrap_or_default();
            rest = behind;
            let bytes = block.chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum();
            let unpacked = unpack(key.as_ref(), number, block_stored.to_vec(), bytes).unwrap_or_default();
            let mut at = 0;
            for chunk in &block.chunks {
                let end = at + chunk.bytes as usize;
                let bytes = unpacked.get(at..end);
                take(chunk, bytes.filter(|bytes| keys.chunk_name(bytes, chunk.is_part) == chunk.name))?;
                at = end;
            }
        }
        Ok(())
    }
}

/// Whether an error tells that an object is damaged or gone.
fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound)
}

/// A block as it was before it was stored, unless it is damaged.
fn unpack(key: Option<&Key>, number: u64, mut stored: Vec<u8>, bytes: u64) -> Option<Vec<u8>> {
    if let Some(key) = key {
        stored = key.open(number, stored)?;
    }
    decompress(&stored, bytes).ok()
}

/// Calls `take` with the packs that chunks can be taken from: their index can be read, and they are at least
/// as long as it says.
pub(crate) fn each_pack(
    store: &dyn Store,
    keys: &Keys,
    mut take: impl FnMut(PackName, &Index),
) -> io::Result<()> {
    each_stored(store, keys, &stored(store)?, &mut take)
}

/// For each pack that there is, its size in bytes.
pub(crate) fn stored(store: &dyn Store) -> io::Result<HashMap<PackName, u64>> {
    let packs = store.list("packs")?.into_iter();
    Ok(packs.filter_map(|(text, bytes)| Some((pack_name(&text)?, bytes))).collect())
}

/// The same as [`each_pack`] where it is known which packs there are.
fn each_stored(
    store: &dyn Store,
    keys: &Keys,
    stored: &HashMap<PackName, u64>,
    take: &mut dyn FnMut(PackName, &Index),
) -> io::Result<()> {
    for (text, _) in store.list("indexes")? {
        let Some(name) = pack_name(&text) else { continue };
        let Some(bytes) = stored.get(&name) else { continue };
        if let Some(index) = Index::find(store, keys, &name)?
            && index.stored_bytes() <= *bytes
        {
            take(name, &index);
        }
    }
    Ok(())
}

/// Where chunks can be read.
#[derive(Default)]
pub(crate) struct Places {
    pub packs: Vec<PackName>,
    chunks: HashMap<ChunkName, (u32, u32)>,
}

impl Places {
    /// Takes note of a chunk of the pack that is the next in `packs`.
    fn add(&mut self, name: ChunkName, number: usize) {
        self.chunks.entry(name).or_insert((self.packs.len() as u32, number as u32));
    }

    /// Takes note of a pack, and of those of its chunks for whose number `is_there` holds.
    pub fn add_pack(&mut self, name: PackName, index: &Index, is_there: impl Fn(usize) -> bool) {
        let chunks = (0..).zip(index.chunks()).filter(|(number, _)| is_there(*number));
        chunks.for_each(|(number, chunk)| self.add(chunk.name, number));
        self.packs.push(name);
    }

    pub fn has(&self, name: &ChunkName) -> bool {
        self.chunks.contains_key(name)
    }

    /// The number of the pack, and that of the chunk in it.
    pub fn get(&self, name: &ChunkName) -> Option<(usize, u64)> {
        self.chunks.get(name).map(|(pack, chunk)| (*pack as usize, u64::from(*chunk)))
    }
}

/// Collects chunks into packs.
pub(crate) struct PackWriter<'a> {
    store: &'a dyn Store,
    keys: &'a Keys,
    key: Option<Key>,
    index: Index,
    block: Vec<u8>,
    entries: Vec<ChunkEntry>,
    pack: Vec<u8>,
    /// Bytes that have been put.
    pub bytes_put: u64,
}

impl<'a> PackWriter<'a> {
    pub fn new(store: &'a dyn Store, keys: &'a Keys) -> io::Result<Self> {
        let (key, sealed_key) = keys.new_pack()?;
        let index = Index { sealed_key, blocks: Vec::new() };
        let (block, entries, pack) = (Vec::new(), Vec::new(), Vec::new());
        Ok(PackWriter { store, keys, key, index, block, entries, pack, bytes_put: 0 })
    }

    /// Adds a chunk. Returns the name of the pack if that is complete.
    pub fn add(&mut self, name: ChunkName, bytes: &[u8], is_part: bool) -> io::Result<Option<PackName>> {
        let size = u32::try_from(bytes.len()).ok().filter(|size| *size < u32::MAX / 2);
        let size = size.ok_or_else(|| io::Error::other("a chunk is too large"))?;
        self.block.extend_from_slice(bytes);
        self.entries.push(ChunkEntry { name, bytes: size, is_part });
        if self.block.len() >= BLOCK_BYTES {
            self.end_block()?;
        }
        if self.pack.len() >= PACK_BYTES { self.finish() } else { Ok(None) }
    }

    fn end_block(&mut self) -> io::Result<()> {
        let mut stored = compress(&self.block)?;
        if let Some(key) = &self.key {
            key.seal(self.index.blocks.len() as u64, &mut stored)?;
        }
        let chunks = std::mem::take(&mut self.entries);
        self.index.blocks.push(BlockEntry { stored_bytes: stored.len() as u64, chunks });
        self.pack.extend_from_slice(&stored);
        self.block.clear();
        Ok(())
    }

    /// Stores what there is as a pack, if anything, and begins another one.
    pub fn finish(&mut self) -> io::Result<Option<PackName>> {
        if !self.entries.is_empty() {
            self.end_block()?;
        }
        if self.index.blocks.is_empty() {
            return Ok(None);
        }
        let plain = self.index.encode();
        let name = self.keys.name(&plain);
        let wrapped = self.keys.wrap(&plain)?;
        for (object, bytes) in [(pack_object(&name), &self.pack), (index_object(&name), &wrapped)] {
            match self.store.put_new(&object, bytes) {
                // Left by one that was cut off: the same chunks, so the same bytes.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if self.store.get(&object)? != *bytes {
                        return Err(damaged(format!(
                            "{object}: it is damaged, and in the way; `mantissa archive repair` removes it"
                        )));
                    }
                }
                put => put?,
            }
            self.bytes_put += bytes.len() as u64;
        }
        let (key, sealed_key) = self.keys.new_pack()?;
        self.key = key;
        self.index = Index { sealed_key, blocks: Vec::new() };
        self.pack.clear();
        Ok(Some(name))
    }
}

/// An unpacked block.
type Block = Arc<Vec<u8>>;

/// Stores chunks that are nowhere yet, and knows where all of them are.
pub(crate) struct PlacedChunks<'a> {
    pub places: Places,
    writer: PackWriter<'a>,
    /// The number of chunks in the pack that is being written.
    in_pack: usize,
}

impl<'a> PlacedChunks<'a> {
    /// With the chunks of `places`.
    pub fn new(store: &'a dyn Store, keys: &'a Keys, places: Places) -> io::Result<Self> {
        Ok(PlacedChunks { places, writer: PackWriter::new(store, keys)?, in_pack: 0 })
    }

    /// Where a chunk is: the number of the pack, that of the chunk in it. True if it had to be stored.
    pub fn put(&mut self, name: ChunkName, bytes: &[u8], is_part: bool) -> io::Result<(usize, u64, bool)> {
        if let Some((pack, number)) = self.places.get(&name) {
            return Ok((pack, number, false));
        }
        let (pack, number) = (self.places.packs.len(), self.in_pack);
        self.places.add(name, number);
        self.in_pack += 1;
        if let Some(name) = self.writer.add(name, bytes, is_part)? {
            self.places.packs.push(name);
            self.in_pack = 0;
        }
        Ok((pack, number as u64, true))
    }

    /// Ends the last pack. Returns where the chunks are, and how many bytes were stored.
    pub fn finish(mut self) -> io::Result<(Places, u64)> {
        self.places.packs.extend(self.writer.finish()?);
        Ok((self.places, self.writer.bytes_put))
    }
}

/// A pack that is read from.
struct OpenPack {
    name: PackName,
    key: Option<Key>,
    /// For each chunk: its block, its offset in the unpacked block, and what the index says.
    chunks: Vec<(u32, u32, ChunkEntry)>,
    /// For each block: offset, stored bytes, unpacked bytes.
    blocks: Vec<(u64, u64, u64)>,
    /// Its index is there, and it is not.
    is_gone: bool,
    /// Why its index could not be read, if so. Then it has no chunks.
    damage: Option<String>,
}

impl OpenPack {
    fn new(keys: &Keys, name: &PackName, index: &Index) -> io::Result<Self> {
        let key = keys.open_pack(&index.sealed_key)?;
        let (chunks, blocks) = (Vec::new(), Vec::new());
        let mut pack = OpenPack { name: *name, key, chunks, blocks, is_gone: false, damage: None };
        let mut offset = 0;
        for (number, block) in index.blocks.iter().enumerate() {
            let mut inside = 0_u64;
            for chunk in &block.chunks {
                let at = u32::try_from(inside).map_err(|_| damaged("a block is too large"))?;
                pack.chunks.push((number as u32, at, *chunk));
                inside += u64::from(chunk.bytes);
            }
            pack.blocks.push((offset, block.stored_bytes, inside));
            offset += block.stored_bytes;
        }
        Ok(pack)
    }
}

/// Reads chunks, each checked against its name. A chunk of a pack that is gone is read from any other pack
/// that has one of that name. These are looked for once: at the first pack that is found to be gone.
pub(crate) struct PackReader<'a> {
    store: &'a dyn Store,
    keys: &'a Keys,
    packs: Vec<OpenPack>,
    /// For chunks of packs that are gone: all other packs that have them, and their number there.
    elsewhere: HashMap<ChunkName, Vec<(usize, u64)>>,
    /// The numbers of all packs by name.
    numbers: HashMap<PackName, usize>,
    /// Unpacked blocks by pack and number, with the time of their last use.
    blocks: HashMap<(usize, u32), (u64, Block)>,
    uses: u64,
}

impl<'a> PackReader<'a> {
    /// Opens packs, which are numbered as they are named. A damaged index is an error where it is needed.
    pub fn open(store: &'a dyn Store, keys: &'a Keys, names: &[PackName]) -> io::Result<Self> {
        let mut packs = Vec::new();
        for name in names {
            packs.push(match Index::load(store, keys, name) {
                Err(error) if is_damage(&error) => {
                    let (chunks, blocks) = (Vec::new(), Vec::new());
                    let damage = Some(error.to_string());
                    OpenPack { name: *name, key: None, chunks, blocks, is_gone: false, damage }
                }
                index => OpenPack::new(keys, name, &index?)?,
            });
        }
        let (blocks, elsewhere) = (HashMap::new(), HashMap::new());
        let numbers = names.iter().copied().zip(0..).collect();
        Ok(PackReader { store, keys, packs, elsewhere, numbers, blocks, uses: 0 })
    }

    fn pack(&self, pack: usize) -> io::Result<&OpenPack> {
        self.packs.get(pack).ok_or_else(|| damaged("the manifest names a pack that it does not list"))
    }

    /// What the index says of a chunk.
    pub fn entry(&self, pack: usize, chunk: u64) -> io::Result<ChunkEntry> {
        let OpenPack { chunks, damage, .. } = self.pack(pack)?;
        if let Some(damage) = damage {
            return Err(damaged(damage));
        }
        let chunk = usize::try_from(chunk).ok().and_then(|chunk| chunks.get(chunk));
        chunk.map(|chunk| chunk.2).ok_or_else(|| damaged("the manifest names a chunk that its pack lacks"))
    }

    /// How many chunks a pack has; any number, if its index is damaged.
    pub fn chunk_count(&self, pack: usize) -> io::Result<u64> {
        let OpenPack { chunks, damage, .. } = self.pack(pack)?;
        Ok(if damage.is_some() { u64::MAX } else { chunks.len() as u64 })
    }

    /// A chunk.
    pub fn read(&mut self, pack: usize, chunk: u64) -> io::Result<Vec<u8>> {
        let entry = self.entry(pack, chunk)?;
        if !self.packs[pack].is_gone {
            match self.read_here(pack, chunk) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.look_elsewhere(pack)?,
                read => return read,
            }
        }
        let object = pack_object(&self.packs[pack].name);
        let mut found =
            Err(damaged(format!("{object}: it is gone, and no other pack has a chunk that it had")));
        for (other, number) in self.elsewhere.get(&entry.name).cloned().unwrap_or_default() {
            found = self.read_here(other, number);
            if !found.as_ref().is_err_and(is_damage) {
                break;
            }
        }
        found
    }

    fn read_here(&mut self, pack: usize, chunk: u64) -> io::Result<Vec<u8>> {
        self.entry(pack, chunk)?;
        let (block, offset, entry) = self.pack(pack)?.chunks[chunk as usize];
        let unpacked = self.block(pack, block)?;
        let bytes = unpacked.get(offset as usize..).and_then(|rest| rest.get(..entry.bytes as usize));
        match bytes.filter(|bytes| self.keys.chunk_name(bytes, entry.is_part) == entry.name) {
            Some(bytes) => Ok(bytes.to_vec()),
            None => Err(damaged(format!("{}: a chunk is damaged", pack_object(&self.pack(pack)?.name)))),
        }
    }

    /// Finds chunks of packs that are gone, of which `pack` is one, in others, which are opened.
    fn look_elsewhere(&mut self, pack: usize) -> io::Result<()> {
        let stored = stored(self.store)?;
        for (number, open) in self.packs.iter_mut().enumerate() {
            open.is_gone = number == pack || !stored.contains_key(&open.name);
        }
        let gone = self.packs.iter().filter(|pack| pack.is_gone);
        let wanted: HashSet<_> = gone.flat_map(|pack| &pack.chunks).map(|chunk| chunk.2.name).collect();
        let (keys, mut found) = (self.keys, Vec::new());
        each_stored(self.store, keys, &stored, &mut |name, index| {
            let chunks = (0..).zip(index.chunks());
            let here: Vec<_> = chunks
                .filter(|(_, chunk)| wanted.contains(&chunk.name))
                .map(|(number, chunk)| (chunk.name, number))
                .collect();
            if !here.is_empty() {
                let is_new = !self.numbers.contains_key(&name);
                found.push((name, is_new.then(|| OpenPack::new(keys, &name, index)), here));
            }
        })?;
        self.elsewhere.clear();
        for (name, pack, chunks) in found {
            if let Some(pack) = pack {
                self.numbers.insert(name, self.packs.len());
                self.packs.push(pack?);
            }
            let number = self.numbers[&name];
            for (name, chunk) in chunks {
                self.elsewhere.entry(name).or_default().push((number, chunk));
            }
        }
        Ok(())
    }

    fn block(&mut self, pack: usize, block: u32) -> io::Result<Block> {
        self.uses += 1;
        let now = self.uses;
        if let Some((used, bytes)) = self.blocks.get_mut(&(pack, block)) {
            *used = now;
            return Ok(bytes.clone());
        }
        let open = self.pack(pack)?;
        let object = pack_object(&open.name);
        let (offset, stored_bytes, bytes) = open.blocks[block as usize];
        let stored = self.store.get_range(&object, offset, stored_bytes)?;
        let unpacked = unpack(open.key.as_ref(), u64::from(block), stored, bytes)
            .ok_or_else(|| damaged(format!("{object}: a block is damaged")))?;
        if self.blocks.len() >= BLOCKS_KEPT {
            let oldest = self.blocks.iter().min_by_key(|(_, (used, _))| *used).map(|(place, _)| *place);
            oldest.and_then(|place| self.blocks.remove(&place));
        }
        let unpacked = Arc::new(unpacked);
        self.blocks.insert((pack, block), (now, unpacked.clone()));
        Ok(unpacked)
    }
}
