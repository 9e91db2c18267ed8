//! Packs of which little is needed still: what is needed goes into new packs, and manifests say so. The same
//! for packs that are gone (`repair`), of which other packs have the chunks.
//!
//! New packs come first, then for each snapshot the new manifest, then the old one goes. So a process that is
//! killed in between leaves each snapshot once or twice, with the same facts; the next call removes the
//! second one, and then the packs that nobody needs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;

use crate::keys::ChunkName;
use crate::manifest::Manifest;
use crate::pack::{Index, PackName, PackReader, PlacedChunks, Places, each_pack, stored};
use crate::repository::{Archive, Snapshot};
use crate::store::Store;

/// Which chunks of a pack are needed, by number.
type Needed = Vec<bool>;

/// Where a chunk of an old pack is in the new ones: the number of the pack, that of the chunk.
type Moves = HashMap<(PackName, u64), (usize, u64)>;

/// Packs of which less than half is needed, with what is needed of them.
pub(crate) struct Sparse(BTreeMap<PackName, Needed>);

impl Sparse {
    /// Looks for them. Packs that are gone or whose index can not be read are left as they are.
    pub fn find<S: Store>(archive: &Archive<S>, snapshots: &[Snapshot]) -> io::Result<Self> {
        let mut needed: BTreeMap<PackName, Vec<(u64, u64)>> = BTreeMap::new();
        for manifest in snapshots.iter().map(|snapshot| &snapshot.manifest) {
            for run in &manifest.runs {
                let runs = needed.entry(manifest.packs[run.pack as usize]).or_default();
                runs.push((run.first, run.count));
            }
        }
        let (mut sparse, stored) = (BTreeMap::new(), stored(&archive.store)?);
        for (name, runs) in needed {
            if !stored.contains_key(&name) {
                continue;
            }
            let Some(index) = Index::find(&archive.store, &archive.keys, &name)? else { continue };
            let sizes: Vec<_> = index.chunks().map(|chunk| u64::from(chunk.bytes)).collect();
            let mut is_needed = vec![false; sizes.len()];
            for (first, count) in runs {
                let last = is_needed.len() as u64;
                is_needed[first.min(last) as usize..(first + count).min(last) as usize].fill(true);
            }
            let used: u64 =
                sizes.iter().zip(&is_needed).filter(|(_, needed)| **needed).map(|(size, _)| size).sum();
            if used < sizes.iter().sum::<u64>() / 2 {
                sparse.insert(name, is_needed);
            }
        }
        Ok(Sparse(sparse))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Writes new packs and manifests. Returns the snapshots as they are now.
    pub fn rewrite<S: Store>(
        &self,
        archive: &Archive<S>,
        snapshots: Vec<Snapshot>,
    ) -> io::Result<Vec<Snapshot>> {
        if self.0.is_empty() {
            return Ok(snapshots);
        }
        let (packs, moves) = self.copy(archive)?;
        let rewritten = snapshots.into_iter().map(|snapshot| {
            if !snapshot.manifest.packs.iter().any(|name| self.0.contains_key(name)) {
                return Ok(snapshot);
            }
            replace(archive, &snapshot, moved(&snapshot.manifest, &packs, &moves))
        });
        rewritten.collect()
    }

    /// Copies what is needed into new packs. Returns their names.
    fn copy<S: Store>(&self, archive: &Archive<S>) -> io::Result<(Vec<PackName>, Moves)> {
        let names: Vec<_> = self.0.keys().copied().collect();
        let mut reader = PackReader::open(&archive.store, &archive.keys, &names)?;
        let mut placed = PlacedChunks::new(&archive.store, &archive.keys, Places::default())?;
        let mut moves = Moves::new();
        for (number, (name, needed)) in self.0.iter().enumerate() {
            let needed = needed.iter().enumerate().filter(|(_, needed)| **needed);
            for (chunk, _) in needed {
                let chunk = chunk as u64;
                let (bytes, entry) = (reader.read(number, chunk)?, reader.entry(number, chunk)?);
                let (pack, number, _) = placed.put(entry.name, &bytes, entry.is_part)?;
                moves.insert((*name, chunk), (pack, number));
            }
        }
        Ok((placed.finish()?.0.packs, moves))
    }
}

/// Has snapshots name the packs from which their chunks are read: others, where a pack is gone. What is
/// nowhere keeps its name. Without `is_real` no manifest is written.
pub(crate) fn settle<S: Store>(
    archive: &Archive<S>,
    snapshots: Vec<Snapshot>,
    is_real: bool,
) -> io::Result<Vec<Snapshot>> {
    let stored = stored(&archive.store)?;
    let named = snapshots.iter().flat_map(|snapshot| &snapshot.manifest.packs);
    let gone: HashSet<PackName> = named.filter(|name| !stored.contains_key(*name)).copied().collect();
    let mut wanted: HashMap<ChunkName, Vec<(PackName, u64)>> = HashMap::new();
    for name in &gone {
        let Some(index) = Index::find(&archive.store, &archive.keys, name)? else { continue };
        for (number, chunk) in (0..).zip(index.chunks()) {
            wanted.entry(chunk.name).or_default().push((*name, number));
        }
    }
    if wanted.is_empty() {
        return Ok(snapshots);
    }
    let (mut packs, mut moves) = (Vec::new(), Moves::new());
    each_pack(&archive.store, &archive.keys, |name, index| {
        for (number, chunk) in (0..).zip(index.chunks()) {
            for place in wanted.remove(&chunk.name).unwrap_or_default() {
                moves.insert(place, (packs.len(), number));
            }
        }
        packs.push(name);
    })?;
    let settled = snapshots.into_iter().map(|snapshot| {
        let new = moved(&snapshot.manifest, &packs, &moves);
        match new.runs == snapshot.manifest.runs && new.packs == snapshot.manifest.packs {
            true => Ok(snapshot),
            false if is_real => replace(archive, &snapshot, new),
            false => Ok(Snapshot { manifest: new, ..snapshot }),
        }
    });
    settled.collect()
}

/// Stores another manifest of the same snapshot in place of the one that there is.
fn replace<S: Store>(archive: &Archive<S>, old: &Snapshot, new: Manifest) -> io::Result<Snapshot> {
    let new = archive.put_manifest(new)?;
    archive.delete_manifest(old)?;
    Ok(new)
}

/// The same snapshot with chunks at other places.
fn moved(old: &Manifest, packs: &[PackName], moves: &Moves) -> Manifest {
    let mut new = Manifest { facts: old.facts.clone(), ..Manifest::default() };
    new.facts.chunks = 0;
    let mut numbers: HashMap<PackName, u32> = HashMap::new();
    for run in &old.runs {
        let name = old.packs[run.pack as usize];
        for chunk in run.first..run.first + run.count {
            let (name, chunk) = match moves.get(&(name, chunk)) {
                Some((pack, chunk)) => (packs[*pack], *chunk),
                None => (name, chunk),
            };
            let number = *numbers.entry(name).or_insert_with(|| {
                new.packs.push(name);
                new.packs.len() as u32 - 1
            });
            new.push(number, chunk);
        }
    }
    new
}
