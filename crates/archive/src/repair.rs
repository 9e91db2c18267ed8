//! Repairing an archive: what is damaged goes, so that the next snapshot stores it anew.
//!
//! - A pack with a damaged chunk is removed when its whole chunks are in other packs. Its index stays and
//!   says which chunks manifests mean: these are read wherever they are (`pack`), and since no other pack has
//!   the lost ones, the next snapshot of the same data stores them, with which older ones are whole again.
//! - Manifests, indexes and headers of segments that are damaged, and packs without an index that can be
//!   read, are moved to `damaged/`: nothing can be read from them, and they are in the way of what is stored
//!   anew. The lock keeps out those who have stored a pack and not yet its index.
//!
//! Invariant: a chunk that can be read can be read at every moment. What can not be read is moved first, then
//! new packs and their indexes are stored, and what has nothing else to give is removed last; manifests that
//! can be read are not touched. So a process that is killed leaves an archive that the next call repairs,
//! with packs that are there twice at most. Damage is what two readings in a row agree on; an error of the
//! store ends it.

use std::collections::BTreeSet;
use std::io;

use crate::keys::random;
use crate::lacks::{self, Incomplete, Lists};
use crate::pack::{
    ChunkEntry, Index, PackName, PlacedChunks, Places, index_object, pack_name, pack_object, stored,
};
use crate::repository::{Archive, Snapshot};
use crate::store::Store;
use crate::wire::{Reader, hex};

/// What was repaired, or would be.
#[derive(Debug, Default)]
pub struct Repaired {
    /// The number of packs that were read: those with an index.
    pub packs: usize,
    /// Packs that were damaged.
    pub damaged: Vec<DamagedPack>,
    /// Objects that were moved to `damaged/`.
    pub set_aside: Vec<String>,
    /// The number of snapshots of which every chunk is there.
    pub whole: usize,
    /// The other snapshots.
    pub incomplete: Vec<Incomplete>,
}

/// A pack that was damaged.
#[derive(Debug)]
pub struct DamagedPack {
    /// The object.
    pub object: String,
    /// The number of its chunks.
    pub chunks: usize,
    /// Those that are whole nowhere.
    pub lost: usize,
}

/// A pack that is damaged: its index, and for each of its chunks whether it is whole.
struct Suspect {
    name: PackName,
    index: Index,
    is_whole: Vec<bool>,
}

impl<S: Store> Archive<S> {
    /// Removes what is damaged. Reads all packs, which takes the key that reads; `report` is told of bytes
    /// done and bytes in all. Without `is_real` only says what it would do.
    pub fn repair(&self, is_real: bool, report: &mut dyn FnMut(u64, u64)) -> io::Result<Repaired> {
        let _lock = self.store.lock()?;
        self.keys.check_reads()?;
        let mut unreadable = Vec::new();
        let snapshots = self.readable_snapshots(&mut unreadable)?;
        self.unreadable_segments(&mut unreadable)?;
        let mut places = Places::default();
        let named = snapshots.iter().flat_map(|snapshot| snapshot.manifest.packs.iter().copied());
        let mut lists = Lists::of(named.collect());
        let (packs, suspects) = self.check_packs(&mut lists, &mut places, &mut unreadable, report)?;
        if is_real {
            unreadable.iter().try_for_each(|object| self.set_aside(object))?;
        }
        let damaged = self.save_whole_chunks(&suspects, &mut places, is_real)?;
        let mut repaired =
            Repaired { packs, damaged, set_aside: Vec::new(), whole: 0, incomplete: Vec::new() };
        for snapshot in &snapshots {
            match lacks::of(self, snapshot, &mut lists, &places)? {
                Some(incomplete) => repaired.incomplete.push(incomplete),
                None => repaired.whole += 1,
            }
        }
        if is_real {
            suspects.iter().try_for_each(|pack| self.store.delete(&pack_object(&pack.name)))?;
        }
        repaired.set_aside = unreadable;
        Ok(repaired)
    }

    /// The snapshots whose manifest can be read. Names others in `unreadable`.
    fn readable_snapshots(&self, unreadable: &mut Vec<String>) -> io::Result<Vec<Snapshot>> {
        let mut snapshots = Vec::new();
        for (name, snapshot) in self.each_snapshot()? {
            match snapshot {
                Ok(snapshot) => snapshots.push(snapshot),
                Err(error) => {
                    let object = format!("snapshots/{name}");
                    self.check_damage(&object, &self.store.get(&object)?, error)?;
                    unreadable.push(object);
                }
            }
        }
        Ok(snapshots)
    }

    /// Names segments of the log whose header can not be read in `unreadable`.
    fn unreadable_segments(&self, unreadable: &mut Vec<String>) -> io::Result<()> {
        for (name, stored_bytes) in self.store.list("log")? {
            if let Err(error) = self.segment(&name, stored_bytes) {
                let object = format!("log/{name}");
                let bytes = self.store.get(&object)?;
                let wrapped = Reader::new(&bytes, "a segment of the log").bytes().unwrap_or_default();
                self.check_damage(&object, wrapped, error)?;
                unreadable.push(object);
            }
        }
        Ok(())
    }

    /// Returns the error of reading an object if that is no damage of it: it has the hash that its name says,
    /// or could not be read at all.
    fn check_damage(&self, object: &str, wrapped: &[u8], error: io::Error) -> io::Result<()> {
        let digits = object.rsplit(['/', '-']).next().unwrap_or_default();
        let is_right = self
            .keys
            .unwrap(wrapped, object)
            .is_ok_and(|plain| !digits.is_empty() && hex(&self.keys.name(&plain)).starts_with(digits));
        if is_right || error.kind() != io::ErrorKind::InvalidData { Err(error) } else { Ok(()) }
    }

    /// Reads all packs. Notes the places of chunks in those that are whole; returns how many were read, and
    /// those that are damaged. Names those without an index in `unreadable`. Fills `lists`.
    fn check_packs(
        &self,
        lists: &mut Lists,
        places: &mut Places,
        unreadable: &mut Vec<String>,
        report: &mut dyn FnMut(u64, u64),
    ) -> io::Result<(usize, Vec<Suspect>)> {
        let stored = stored(&self.store)?;
        let (total, mut done, mut read) = (stored.values().sum(), 0, 0);
        let mut without_index: BTreeSet<PackName> = stored.keys().copied().collect();
        let mut suspects = Vec::new();
        for (text, _) in self.store.list("indexes")? {
            let Some(name) = pack_name(&text) else { continue };
            let index = match Index::load(&self.store, &self.keys, &name) {
                Err(error) => {
                    let object = index_object(&name);
                    self.check_damage(&object, &self.store.get(&object)?, error)?;
                    unreadable.push(object);
                    continue;
                }
                Ok(index) => index,
            };
            lists.add(&name, &index);
            let Some(bytes) = stored.get(&name) else { continue };
            read += 1;
            without_index.remove(&name);
            let is_whole = self.whole_chunks(&name, &index, &mut |_, _| Ok(()))?;
            done += bytes;
            report(done, total);
            if is_whole.iter().all(|is_whole| *is_whole) {
                places.add_pack(name, &index, |_| true);
            } else {
                suspects.push(Suspect { name, index, is_whole });
            }
        }
        unreadable.extend(without_index.iter().map(pack_object));
        Ok((read, suspects))
    }

    /// Reads a pack: for each chunk whether it is whole. Calls `take` with those that are.
    fn whole_chunks(
        &self,
        name: &PackName,
        index: &Index,
        take: &mut dyn FnMut(&ChunkEntry, &[u8]) -> io::Result<()>,
    ) -> io::Result<Vec<bool>> {
        let stored = self.store.get(&pack_object(name))?;
        let mut is_whole = Vec::new();
        index.each_chunk(&self.keys, &stored, |chunk, bytes| {
            is_whole.push(bytes.is_some());
            bytes.map_or(Ok(()), |bytes| take(chunk, bytes))
        })?;
        Ok(is_whole)
    }

    /// Writes whole chunks of damaged packs to new packs, unless others have them already. Notes their
    /// places.
    fn save_whole_chunks(
        &self,
        suspects: &[Suspect],
        places: &mut Places,
        is_real: bool,
    ) -> io::Result<Vec<DamagedPack>> {
        let mut placed = PlacedChunks::new(&self.store, &self.keys, std::mem::take(places))?;
        for Suspect { name, index, is_whole } in suspects {
            let again = self.whole_chunks(name, index, &mut |chunk, bytes| {
                if is_real {
                    placed.put(chunk.name, bytes, chunk.is_part)?;
                }
                Ok(())
            })?;
            if again != *is_whole {
                let object = pack_object(name);
                return Err(io::Error::other(format!("{object}: each time other bytes of it are read")));
            }
            if !is_real {
                placed.places.add_pack(*name, index, |number| is_whole[number]);
            }
        }
        (*places, _) = placed.finish()?;
        let damaged = suspects.iter().map(|pack| DamagedPack {
            object: pack_object(&pack.name),
            chunks: pack.is_whole.len(),
            lost: pack.index.chunks().filter(|chunk| !places.has(&chunk.name)).count(),
        });
        Ok(damaged.collect())
    }

    /// Moves an object to `damaged/`.
    fn set_aside(&self, object: &str) -> io::Result<()> {
        let bytes = self.store.get(object)?;
        let name = format!("damaged/{}", object.replace('/', "-"));
        match self.store.put_new(&name, &bytes) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Left by one that was killed, or another that was damaged before.
                if self.store.get(&name)? != bytes {
                    self.store.put_new(&format!("{name}-{}", hex(&random()?[..8])), &bytes)?;
                }
            }
            put => put?,
        }
        self.store.delete(object)
    }
}
