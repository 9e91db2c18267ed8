//! Packs: objects of some 16 MB that hold chunks, and their indexes.
//!
//! New chunks are joined into blocks of 128 KB, which are compressed and, with encryption, sealed. A pack is
//! its blocks one behind the other; its index says what is in them. The name of both is the BLAKE3 hash of
//! the index, so that a manifest, which has that name, vouches for every byte.

use std::collections::HashMap;
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

    pub fn chunks(&self) -> impl Iterator<Item = &ChunkEntry> {
        self.blocks.iter().flat_map(|block| &block.chunks)
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
                        return Err(damaged(format!("{object}: it is damaged, and in the way; remove it")));
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

/// A pack that is read from.
struct OpenPack {
    name: PackName,
    key: Option<Key>,
    /// For each chunk: its block, its offset in the unpacked block, and what the index says.
    chunks: Vec<(u32, u32, ChunkEntry)>,
    /// For each block: offset, stored bytes, unpacked bytes.
    blocks: Vec<(u64, u64, u64)>,
}

/// Reads chunks, each checked against its name.
pub(crate) struct PackReader<'a> {
    store: &'a dyn Store,
    keys: &'a Keys,
    packs: Vec<OpenPack>,
    /// Unpacked blocks by pack and number, with the time of their last use.
    blocks: HashMap<(usize, u32), (u64, Block)>,
    uses: u64,
}

impl<'a> PackReader<'a> {
    /// Opens packs, which are numbered as they are named.
    pub fn open(store: &'a dyn Store, keys: &'a Keys, names: &[PackName]) -> io::Result<Self> {
        let mut packs = Vec::new();
        for name in names {
            let index = Index::load(store, keys, name)?;
            let mut pack = OpenPack {
                name: *name,
                key: keys.open_pack(&index.sealed_key)?,
                chunks: vec![],
                blocks: vec![],
            };
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
            packs.push(pack);
        }
        Ok(PackReader { store, keys, packs, blocks: HashMap::new(), uses: 0 })
    }

    fn pack(&self, pack: usize) -> io::Result<&OpenPack> {
        self.packs.get(pack).ok_or_else(|| damaged("the manifest names a pack that it does not list"))
    }

    /// What the index says of a chunk.
    pub fn entry(&self, pack: usize, chunk: u64) -> io::Result<ChunkEntry> {
        let chunks = &self.pack(pack)?.chunks;
        let chunk = usize::try_from(chunk).ok().and_then(|chunk| chunks.get(chunk));
        chunk.map(|chunk| chunk.2).ok_or_else(|| damaged("the manifest names a chunk that its pack lacks"))
    }

    pub fn chunk_count(&self, pack: usize) -> io::Result<u64> {
        Ok(self.pack(pack)?.chunks.len() as u64)
    }

    /// A chunk.
    pub fn read(&mut self, pack: usize, chunk: u64) -> io::Result<Vec<u8>> {
        self.entry(pack, chunk)?;
        let (block, offset, entry) = self.pack(pack)?.chunks[chunk as usize];
        let unpacked = self.block(pack, block)?;
        let bytes = unpacked.get(offset as usize..).and_then(|rest| rest.get(..entry.bytes as usize));
        match bytes.filter(|bytes| self.keys.chunk_name(bytes, entry.is_part) == entry.name) {
            Some(bytes) => Ok(bytes.to_vec()),
            None => Err(damaged(format!("{}: a chunk is damaged", pack_object(&self.pack(pack)?.name)))),
        }
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
        let mut stored = self.store.get_range(&object, offset, stored_bytes)?;
        let changed = || damaged(format!("{object}: a block is damaged"));
        if let Some(key) = &open.key {
            stored = key.open(u64::from(block), stored).ok_or_else(changed)?;
        }
        let unpacked = decompress(&stored, bytes).map_err(|_| changed())?;
        if self.blocks.len() >= BLOCKS_KEPT {
            let oldest = self.blocks.iter().min_by_key(|(_, (used, _))| *used).map(|(place, _)| *place);
            oldest.and_then(|place| self.blocks.remove(&place));
        }
        let unpacked = Arc::new(unpacked);
        self.blocks.insert((pack, block), (now, unpacked.clone()));
        Ok(unpacked)
    }
}
