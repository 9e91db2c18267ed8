//! What tests and fuzz targets do: archives in memory, and bytes that claim to be parts of one.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mantissa_persist::load::{LoadOptions, LoadTarget, Loader, Record};

use crate::manifest::{Facts, Manifest};
use crate::pack::{Index, PackWriter};
use crate::repository::Archive;
use crate::restore::{Restored, Selection};
use crate::store::Store;
use crate::wire::damaged;

/// Objects in memory, of which the first `puts_max` are stored and no more. The first `deletes_max` are
/// removed.
pub struct Memory {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    puts_max: usize,
    puts: Mutex<usize>,
    deletes_max: usize,
    deletes: Mutex<usize>,
    gets: Mutex<usize>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    /// None yet.
    pub fn new(puts_max: usize) -> Self {
        let (puts, deletes, gets) = (Mutex::new(0), Mutex::new(0), Mutex::new(0));
        Memory { objects: Mutex::default(), puts_max, puts, deletes_max: usize::MAX, deletes, gets }
    }

    /// The same objects; some more are stored, some are removed.
    pub fn cut_off(&self, puts_max: usize, deletes_max: usize) -> Self {
        Memory { puts_max, deletes_max, ..self.revived() }
    }

    /// Changes a byte of each object whose name `is_meant` takes; how many they were.
    pub fn damage(&self, at: usize, is_meant: impl Fn(&str) -> bool) -> usize {
        let mut objects = locked(&self.objects);
        let meant = objects.iter_mut().filter(|(name, _)| is_meant(name));
        let changed = meant.filter_map(|(_, bytes)| bytes.get_mut(at)).map(|byte| *byte ^= 1);
        changed.count()
    }

    /// The same objects, any number of which may be added.
    pub fn revived(&self) -> Self {
        let objects = locked(&self.objects).clone();
        Memory { objects: Mutex::new(objects), ..Memory::new(usize::MAX) }
    }

    /// How many puts there were.
    pub fn puts(&self) -> usize {
        *locked(&self.puts)
    }

    /// How many objects were read as a whole.
    pub fn gets(&self) -> usize {
        *locked(&self.gets)
    }

    /// How many bytes the objects have.
    pub fn bytes(&self) -> usize {
        locked(&self.objects).values().map(Vec::len).sum()
    }

    /// The names of all objects.
    pub fn names(&self) -> Vec<String> {
        locked(&self.objects).keys().cloned().collect()
    }
}

fn absent(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{name}: it is not there"))
}

impl Store for Memory {
    fn put_new(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut objects = locked(&self.objects);
        if objects.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut puts = locked(&self.puts);
        if *puts == self.puts_max {
            return Err(io::Error::other("no more can be stored"));
        }
        *puts += 1;
        objects.insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        *locked(&self.gets) += 1;
        locked(&self.objects).get(name).cloned().ok_or_else(|| absent(name))
    }

    fn get_range(&self, name: &str, offset: u64, size: u64) -> io::Result<Vec<u8>> {
        let bytes = locked(&self.objects).get(name).cloned().ok_or_else(|| absent(name))?;
        let end = offset.checked_add(size).and_then(|end| usize::try_from(end).ok());
        let part = end.and_then(|end| bytes.get(offset as usize..end));
        part.map(<[u8]>::to_vec).ok_or_else(|| damaged(format!("{name}: it ends early")))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<(String, u64)>> {
        let objects = locked(&self.objects);
        let inside = objects.iter().filter_map(|(name, bytes)| {
            let name = name.strip_prefix(folder)?.strip_prefix('/')?;
            Some((name.to_owned(), bytes.len() as u64))
        });
        Ok(inside.collect())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        let mut deletes = locked(&self.deletes);
        if *deletes == self.deletes_max {
            return Err(io::Error::other("no more can be removed"));
        }
        *deletes += 1;
        locked(&self.objects).remove(name);
        Ok(())
    }

    fn lock(&self) -> io::Result<Box<dyn Send>> {
        Ok(Box::new(()))
    }

    fn remove_leftovers(&self) -> io::Result<usize> {
        Ok(0)
    }

    fn scratch(&self) -> io::Result<Option<PathBuf>> {
        Ok(None)
    }
}

/// Reads bytes as a manifest and as an index. What can be read is written as the same bytes again, or as
/// others that mean the same.
pub fn parses(bytes: &[u8]) -> bool {
    let _any_bytes_are_read_without_a_panic = crate::journal::Segment::parse(bytes);
    let manifest = Manifest::parse(bytes).ok();
    if let Some(manifest) = &manifest {
        assert_eq!(Manifest::parse(&manifest.encode()).ok().as_ref(), Some(manifest));
    }
    let index = Index::parse(bytes).ok();
    if let Some(index) = &index {
        assert_eq!(Index::parse(&index.encode()).ok().as_ref(), Some(index));
    }
    manifest.is_some() || index.is_some()
}

struct Nowhere;

impl LoadTarget for Nowhere {
    fn select(&mut self, _database: usize) -> Result<(), String> {
        Ok(())
    }

    fn insert(&mut self, record: Record<'_>) -> Result<(), String> {
        drop(record.into_entry(0));
        Ok(())
    }

    fn function(&mut self, _source: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

/// Makes an archive whose chunks are taken from `bytes`, and restores from it all, and the keys that begin
/// with a letter. Each chunk has two bytes in front: whether it is a part of a value (odd), and its length.
pub fn restores(mut bytes: &[u8]) -> io::Result<Restored> {
    let archive = Archive::init(Memory::new(usize::MAX), None)?;
    let facts = Facts { databases: vec![(0, 1, 0), (7, 1, 1)], ..Facts::default() };
    let mut manifest = Manifest { facts, ..Manifest::default() };
    let mut writer = PackWriter::new(&archive.store, &archive.keys)?;
    while let [kind, length, rest @ ..] = bytes {
        let (chunk, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        let name = archive.keys.chunk_name(chunk, kind & 1 != 0);
        writer.add(name, chunk, kind & 1 != 0)?;
        manifest.push(0, manifest.facts.chunks);
        bytes = rest;
    }
    manifest.packs.extend(writer.finish()?);
    let snapshot = archive.put_manifest(manifest)?;
    let prefixes = vec![b"k".to_vec()];
    let some = Selection { prefixes, ..Selection::default() };
    let _may_fail_as_well = archive.restore(&snapshot, &some, io::sink(), &mut |_| {});
    let mut dump = Vec::new();
    let restored = archive.restore(&snapshot, &Selection::default(), &mut dump, &mut |_| {})?;
    let loaded = Loader::new(&dump[..], None, LoadOptions::default()).load(&mut Nowhere);
    loaded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    Ok(restored)
}
