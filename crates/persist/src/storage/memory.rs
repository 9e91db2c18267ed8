//! Files in memory that behave like a disk on which anything may go wrong.
//!
//! **What survives a crash.** A file is a row of pages. `sync` makes its dirty pages and its length durable.
//! After [`MemoryStorage::crash`] only that is left. After [`MemoryStorage::crash_anyhow`] of the pages that
//! were dirty any may have survived, each whole, up to a sector within it, or not at all, and the length is
//! the durable one, the live one, or in between; what lies under pages that were lost is zeros, and so is
//! the rest of the last page of a truncated file, whose old length may have survived. Names are
//! durable after `sync_directory`; of the changes of names since then the first few survive, as a journal
//! has them.
//!
//! **What fails.** [`MemoryStorage::fail_at`]: an operation and all later ones.
//! [`MemoryStorage::fill_up_after`]: the disk is full; a write puts down what fits, the next one fails.
//! [`MemoryStorage::fail_sync`]: a sync fails, and the pages that it should have written count as clean, as
//! on Linux: a later sync succeeds and does not write them. [`MemoryStorage::make_read_only`].
//! [`MemoryStorage::spoil`]: a byte of files without a name is read as another one.

use super::{OutputFile, ScratchFile, SharedFile, Storage, StorageFile, directory_of};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a page, which is dirty or clean as a whole.
const PAGE_BYTES: usize = 4096;
/// Bytes of a sector, which is written whole or not at all.
const SECTOR_BYTES: usize = 512;

/// A file: its bytes, those that are durable, and the pages in which they differ and that will be written.
#[derive(Clone, Default)]
struct MemoryBytes {
    live: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
}

impl MemoryBytes {
    fn write(&mut self, start: usize, bytes: &[u8]) {
        let end = start + bytes.len();
        self.live.resize(self.live.len().max(end), 0);
        self.live[start..end].copy_from_slice(bytes);
        self.dirty.extend(start / PAGE_BYTES..end.div_ceil(PAGE_BYTES));
    }

    fn set_length(&mut self, length: usize) {
        let first = self.live.len().min(length) / PAGE_BYTES;
        self.live.resize(length, 0);
        let pages = length.div_ceil(PAGE_BYTES);
        self.dirty.retain(|&page| page < pages);
        self.dirty.extend(first..pages);
    }

    /// Copies the first `count` bytes of a page to the durable bytes, as far as those reach. Behind the end
    /// of a truncated file its last page holds zeros, also where the old length survives.
    fn persist(&mut self, page: usize, count: usize) {
        let start = page * PAGE_BYTES;
        let end = (start + count).min(self.durable.len());
        let own = end.min(self.live.len());
        if start < own {
            self.durable[start..own].copy_from_slice(&self.live[start..own]);
        }
        if own.max(start) < end {
            self.durable[own.max(start)..end].fill(0);
        }
    }

    fn sync(&mut self) {
        self.durable.resize(self.live.len(), 0);
        for page in std::mem::take(&mut self.dirty) {
            self.persist(page, PAGE_BYTES);
        }
    }

    /// Makes durable what happens to have been written, in the order of the bytes.
    fn sync_first(&mut self, random: &mut Random) {
        let (old, new) = (self.durable.len(), self.live.len());
        if new >= old || random.below(2) == 0 {
            self.durable = self.live[..new.min(old + random.below(new.saturating_sub(old) + 1))].to_vec();
        }
        self.dirty.clear();
    }

    /// Makes durable what happens to have been written.
    fn sync_some(&mut self, random: &mut Random) {
        let (old, new) = (self.durable.len(), self.live.len());
        let length = match random.below(3) {
            0 => old,
            1 => new,
            _ => old.min(new) + random.below(old.abs_diff(new) + 1),
        };
        self.durable.resize(length, 0);
        for page in std::mem::take(&mut self.dirty) {
            match random.below(3) {
                0 => self.persist(page, PAGE_BYTES),
                1 => self.persist(page, SECTOR_BYTES * random.below(PAGE_BYTES / SECTOR_BYTES)),
                _ => {}
            }
        }
    }
}

type Node = Arc<Mutex<MemoryBytes>>;

/// A change of names.
#[derive(Clone)]
enum Change {
    Add(PathBuf, Node),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Change {
    fn directories(&self) -> [&Path; 2] {
        match self {
            Change::Add(path, _) | Change::Remove(path) => [directory_of(path); 2],
            Change::Rename(from, to) => [directory_of(from), directory_of(to)],
        }
    }

    fn apply(self, names: &mut HashMap<PathBuf, Node>) {
        match self {
            Change::Add(path, node) => drop(names.insert(path, node)),
            Change::Remove(path) => drop(names.remove(&path)),
            Change::Rename(from, to) => {
                if let Some(node) = names.remove(&from) {
                    names.insert(to, node);
                }
            }
        }
    }
}

#[derive(Default)]
struct State {
    live_names: HashMap<PathBuf, Node>,
    durable_names: HashMap<PathBuf, Node>,
    /// What was done to the names since they were made durable.
    changes: Vec<Change>,
    directories: BTreeSet<PathBuf>,
    operations: u64,
    syncs: u64,
    fail_at: Option<u64>,
    fail_sync_at: Option<u64>,
    space_bytes: Option<u64>,
    is_read_only: bool,
    spoiled_at: Option<u64>,
    holds_reads: bool,
}

impl State {
    fn change(&mut self, change: Change) {
        change.clone().apply(&mut self.live_names);
        self.changes.push(change);
    }
}

/// Files in memory, for tests of crashes and failing writes.
#[derive(Clone, Default)]
pub struct MemoryStorage(Arc<Mutex<State>>);

impl MemoryStorage {
    /// No files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the operation with this number fail, counted from 0 at the storage's creation, and every later
    /// one too: a broken disk.
    pub fn fail_at(&self, operation: u64) {
        locked(&self.0).fail_at = Some(operation);
    }

    /// How many operations there were.
    pub fn operations(&self) -> u64 {
        locked(&self.0).operations
    }

    /// Makes the sync of a file with this number fail, counted from 0 at the storage's creation, and no
    /// other.
    pub fn fail_sync(&self, sync: u64) {
        locked(&self.0).fail_sync_at = Some(sync);
    }

    /// How many syncs of files there were.
    pub fn syncs(&self) -> u64 {
        locked(&self.0).syncs
    }

    /// Limits the space that is left, in bytes; `None`: no limit.
    pub fn fill_up_after(&self, bytes: Option<u64>) {
        locked(&self.0).space_bytes = bytes;
    }

    /// Lets nothing be changed from now on, or again.
    pub fn make_read_only(&self, is_read_only: bool) {
        locked(&self.0).is_read_only = is_read_only;
    }

    /// Has a bit flipped in what is read of this byte of files without a name; `None`: of no byte.
    pub fn spoil(&self, offset: Option<u64>) {
        locked(&self.0).spoiled_at = offset;
    }

    /// Has reads of files without a name wait until this is taken back.
    pub fn hold_reads(&self, holds_reads: bool) {
        locked(&self.0).holds_reads = holds_reads;
    }

    /// A power loss: drops what is not durable, and clears all faults.
    pub fn crash(&self) {
        let mut state = locked(&self.0);
        state.changes.clear();
        settle(&mut state, |bytes| bytes.dirty.clear());
    }

    /// A power loss after which a part of what is not durable survives, as `seed` decides. Clears all faults.
    pub fn crash_anyhow(&self, seed: u64) {
        self.crash_with(seed, MemoryBytes::sync_some);
    }

    /// The same on a file system that makes a file longer only when its bytes are there: of what was appended
    /// a beginning survives, up to any byte.
    pub fn crash_in_order(&self, seed: u64) {
        self.crash_with(seed, MemoryBytes::sync_first);
    }

    fn crash_with(&self, seed: u64, persist: fn(&mut MemoryBytes, &mut Random)) {
        let mut state = locked(&self.0);
        let mut random = Random(seed);
        let mut stopped: BTreeSet<PathBuf> = BTreeSet::new();
        for change in std::mem::take(&mut state.changes) {
            let directories = change.directories().map(Path::to_owned);
            if random.below(4) == 0 || directories.iter().any(|directory| stopped.contains(directory)) {
                stopped.extend(directories);
            } else {
                change.apply(&mut state.durable_names);
            }
        }
        settle(&mut state, |bytes| persist(bytes, &mut random));
    }

    /// Another disk with the same files, of which as much is durable: what a killed process leaves and, after
    /// [`MemoryStorage::crash_anyhow`], what a power loss leaves. No faults are set in it.
    pub fn copy(&self) -> MemoryStorage {
        let state = locked(&self.0);
        let mut copies: HashMap<*const Mutex<MemoryBytes>, Node> = HashMap::new();
        let mut copy_of = |node: &Node| {
            let copy = || Arc::new(Mutex::new(locked(node).clone()));
            Arc::clone(copies.entry(Arc::as_ptr(node)).or_insert_with(copy))
        };
        let mut names = |names: &HashMap<PathBuf, Node>| -> HashMap<PathBuf, Node> {
            names.iter().map(|(path, node)| (path.clone(), copy_of(node))).collect()
        };
        let (live_names, durable_names) = (names(&state.live_names), names(&state.durable_names));
        let changes = state.changes.iter().map(|change| match change {
            Change::Add(path, node) => Change::Add(path.clone(), copy_of(node)),
            other => other.clone(),
        });
        let copy = State {
            live_names,
            durable_names,
            changes: changes.collect(),
            directories: state.directories.clone(),
            ..State::default()
        };
        MemoryStorage(Arc::new(Mutex::new(copy)))
    }

    /// A file's bytes.
    pub fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let state = locked(&self.0);
        state.live_names.get(path).map(|node| locked(node).live.clone())
    }

    /// The names there are.
    pub fn names(&self) -> Vec<PathBuf> {
        let mut names: Vec<_> = locked(&self.0).live_names.keys().cloned().collect();
        names.sort();
        names
    }

    fn operation(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = locked(&self.0);
        let number = state.operations;
        state.operations += 1;
        if state.fail_at.is_some_and(|fail_at| number >= fail_at) {
            return Err(io::Error::other("the disk failed, as asked for"));
        }
        Ok(state)
    }

    fn changing_operation(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.operation()?;
        if state.is_read_only { Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem)) } else { Ok(state) }
    }
}

/// Makes the durable state the live one, once `persist` has seen each file.
fn settle(state: &mut State, mut persist: impl FnMut(&mut MemoryBytes)) {
    (state.fail_at, state.fail_sync_at, state.space_bytes, state.is_read_only) = (None, None, None, false);
    let mut names: Vec<_> = state.durable_names.iter_mut().collect();
    // In the order of the names: what survives depends on the seed alone.
    names.sort_by(|one, other| one.0.cmp(other.0));
    for (_, node) in names {
        let mut bytes = locked(node).clone();
        persist(&mut bytes);
        bytes.live = bytes.durable.clone();
        // Files that are still open belong to the past and change nothing.
        *node = Arc::new(Mutex::new(bytes));
    }
    state.live_names = state.durable_names.clone();
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_found() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

/// A linear congruential generator; its upper bits are good enough here.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }
}

struct MemoryFile {
    storage: MemoryStorage,
    node: Node,
    position: usize,
}

impl Read for MemoryFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        drop(self.storage.operation()?);
        let bytes = locked(&self.node);
        let mut rest = bytes.live.get(self.position..).unwrap_or_default();
        let count = rest.read(buffer)?;
        self.position += count;
        Ok(count)
    }
}

impl Write for MemoryFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let mut state = self.storage.changing_operation()?;
        let mut file = locked(&self.node);
        let mut count = buffer.len();
        // Overwriting takes no space.
        let over = file.live.len().saturating_sub(self.position);
        if let Some(space_bytes) = &mut state.space_bytes {
            count = count.min(usize::try_from(*space_bytes).unwrap_or(usize::MAX).saturating_add(over));
            if count == 0 && !buffer.is_empty() {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            *space_bytes -= count.saturating_sub(over) as u64;
        }
        file.write(self.position, &buffer[..count]);
        self.position += count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl OutputFile for MemoryFile {
    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.storage.operation()?;
        let number = state.syncs;
        state.syncs += 1;
        if state.fail_sync_at == Some(number) {
            locked(&self.node).dirty.clear();
            return Err(io::Error::other("the sync failed, as asked for"));
        }
        locked(&self.node).sync();
        Ok(())
    }
}

impl StorageFile for MemoryFile {
    fn length(&self) -> io::Result<u64> {
        drop(self.storage.operation()?);
        Ok(locked(&self.node).live.len() as u64)
    }

    fn duplicate(&self) -> io::Result<Box<dyn StorageFile>> {
        drop(self.storage.operation()?);
        let (storage, node, position) = (self.storage.clone(), Arc::clone(&self.node), self.position);
        Ok(Box::new(MemoryFile { storage, node, position }))
    }

    fn set_length(&mut self, bytes: u64) -> io::Result<()> {
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut state = self.storage.changing_operation()?;
        let mut file = locked(&self.node);
        if let Some(space_bytes) = &mut state.space_bytes {
            *space_bytes += file.live.len().saturating_sub(length) as u64;
        }
        file.set_length(length);
        self.position = length;
        Ok(())
    }

    fn go_to(&mut self, offset: u64) -> io::Result<()> {
        drop(self.storage.operation()?);
        self.position = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        Ok(())
    }
}

impl SharedFile for MemoryFile {
    fn length(&self) -> io::Result<u64> {
        StorageFile::length(self)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        drop(self.storage.operation()?);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        locked(&self.node).live.get(start..).unwrap_or_default().read(buffer)
    }
}

/// A file without a name.
struct MemoryScratch {
    storage: MemoryStorage,
    bytes: Mutex<Vec<u8>>,
}

impl ScratchFile for MemoryScratch {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        while locked(&self.storage.0).holds_reads {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let spoiled_at = self.storage.operation()?.spoiled_at;
        let bytes = locked(&self.bytes);
        let there = bytes.get(offset as usize..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        let spoiled = spoiled_at.and_then(|at| at.checked_sub(offset));
        if let Some(byte) = spoiled.and_then(|at| buffer.get_mut(at as usize)) {
            *byte ^= 1;
        }
        Ok(())
    }

    fn write_at(&self, written: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.storage.changing_operation()?;
        if let Some(space) = &mut state.space_bytes {
            let left = space.checked_sub(written.len() as u64).ok_or(io::ErrorKind::StorageFull)?;
            *space = left;
        }
        let (mut bytes, offset) = (locked(&self.bytes), offset as usize);
        let end = offset + written.len();
        let len = bytes.len().max(end);
        bytes.resize(len, 0);
        bytes[offset..end].copy_from_slice(written);
        Ok(())
    }

    fn discard(&self, offset: u64, count: u64) -> io::Result<()> {
        let mut state = self.storage.changing_operation()?;
        if let Some(space) = &mut state.space_bytes {
            *space += count;
        }
        let mut bytes = locked(&self.bytes);
        let (start, end) = (bytes.len().min(offset as usize), bytes.len().min((offset + count) as usize));
        bytes[start..end].fill(0);
        Ok(())
    }
}

impl Storage for MemoryStorage {
    fn create_scratch(&self, _directory: &Path) -> io::Result<Box<dyn ScratchFile>> {
        drop(self.changing_operation()?);
        Ok(Box::new(MemoryScratch { storage: self.clone(), bytes: Mutex::default() }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let node = Node::default();
        self.changing_operation()?.change(Change::Add(path.to_owned(), node.clone()));
        Ok(Box::new(MemoryFile { storage: self.clone(), node, position: 0 }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let node = self.operation()?.live_names.get(path).cloned().ok_or_else(not_found)?;
        Ok(Box::new(MemoryFile { storage: self.clone(), node, position: 0 }))
    }

    fn open_shared(&self, path: &Path) -> io::Result<Box<dyn SharedFile>> {
        let node = self.operation()?.live_names.get(path).cloned().ok_or_else(not_found)?;
        Ok(Box::new(MemoryFile { storage: self.clone(), node, position: 0 }))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let mut state = self.changing_operation()?;
        let node = match state.live_names.get(path) {
            Some(node) => node.clone(),
            None => {
                let node = Node::default();
                state.change(Change::Add(path.to_owned(), node.clone()));
                node
            }
        };
        let position = locked(&node).live.len();
        Ok(Box::new(MemoryFile { storage: self.clone(), node, position }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let state = self.operation()?;
        let is_inside = |name: &PathBuf| directory_of(name) == path;
        Ok(state.live_names.contains_key(path)
            || state.directories.contains(path)
            || state.live_names.keys().any(is_inside))
    }

    fn is_file(&self, path: &Path) -> bool {
        locked(&self.0).live_names.contains_key(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let state = self.operation()?;
        let inside = state.live_names.keys().filter(|name| directory_of(name) == path);
        let mut names: Vec<_> = inside.filter_map(|name| name.file_name()).map(OsString::from).collect();
        if names.is_empty() && !state.directories.contains(path) {
            return Err(not_found());
        }
        names.sort();
        Ok(names)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.changing_operation()?.directories.insert(path.to_owned());
        Ok(())
    }

    fn create_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.create_directory(path)?;
        Ok(path.to_owned())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.changing_operation()?;
        if !state.live_names.contains_key(from) {
            return Err(not_found());
        }
        state.change(Change::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.changing_operation()?;
        if !state.live_names.contains_key(path) {
            return Err(not_found());
        }
        state.change(Change::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.operation()?;
        for change in std::mem::take(&mut state.changes) {
            if change.directories().contains(&path) {
                change.apply(&mut state.durable_names);
            } else {
                state.changes.push(change);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_synced_bytes_and_names_survive_a_crash() {
        let storage = MemoryStorage::new();
        let (path, other) = (Path::new("dir/file"), Path::new("dir/other"));
        let mut file = storage.create(path).expect("no fault is set");
        file.write_all(b"kept").expect("no fault is set");
        file.sync().expect("no fault is set");
        storage.sync_directory(Path::new("dir")).expect("no fault is set");
        file.write_all(b"lost").expect("no fault is set");
        storage.rename(path, other).expect("no fault is set");
        assert_eq!(storage.read(other).as_deref(), Some(&b"keptlost"[..]));
        storage.crash();
        assert_eq!((storage.read(path).as_deref(), storage.read(other)), (Some(&b"kept"[..]), None));
    }

    #[test]
    fn a_copy_loses_power_alone() {
        let storage = MemoryStorage::new();
        let (path, other) = (Path::new("dir/file"), Path::new("dir/other"));
        let mut file = storage.create(path).expect("no fault is set");
        file.write_all(b"kept").and_then(|()| file.sync()).expect("no fault is set");
        storage.sync_directory(Path::new("dir")).expect("no fault is set");
        file.write_all(b"lost").expect("no fault is set");
        drop(storage.create(other).expect("no fault is set"));
        let copy = storage.copy();
        assert_eq!((copy.read(path), copy.names().len()), (Some(b"keptlost".to_vec()), 2));
        copy.crash();
        assert_eq!((copy.read(path), copy.names().len()), (Some(b"kept".to_vec()), 1));
        assert_eq!((storage.read(path), storage.names().len()), (Some(b"keptlost".to_vec()), 2));
    }

    #[test]
    fn the_operation_asked_for_fails() {
        let storage = MemoryStorage::new();
        storage.fail_at(1);
        assert!(storage.create(Path::new("a")).is_ok());
        assert!(storage.create(Path::new("b")).is_err());
        assert!(storage.open(Path::new("a")).is_err());
    }

    #[test]
    fn of_what_was_not_synced_any_part_may_survive() {
        let path = Path::new("dir/file");
        let mut outcomes = BTreeSet::new();
        for seed in 0..200 {
            let storage = MemoryStorage::new();
            let mut file = storage.create(path).expect("no fault is set");
            file.write_all(&[1; PAGE_BYTES + 100]).and_then(|()| file.sync()).expect("no fault is set");
            storage.sync_directory(Path::new("dir")).expect("no fault is set");
            file.write_all(&[2; 3 * PAGE_BYTES]).expect("no fault is set");
            storage.crash_anyhow(seed);
            let bytes = storage.read(path).expect("its name is durable");
            assert!((PAGE_BYTES + 100..=4 * PAGE_BYTES + 100).contains(&bytes.len()), "seed {seed}");
            let (synced, rest) = bytes.split_at(PAGE_BYTES + 100);
            assert!(synced.iter().all(|&byte| byte == 1), "seed {seed}");
            assert!(rest.iter().all(|&byte| byte == 0 || byte == 2), "seed {seed}");
            let middle = rest.get(PAGE_BYTES..).and_then(|rest| rest.first()).copied();
            outcomes.insert((bytes.len() % PAGE_BYTES == 100, middle, rest.last().copied()));
        }
        assert!(outcomes.len() >= 6, "{outcomes:?}");
    }

    #[test]
    fn changes_of_names_survive_in_their_order() {
        let (old, new) = (Path::new("dir/old"), Path::new("dir/new"));
        let mut outcomes = BTreeSet::new();
        for seed in 0..200 {
            let storage = MemoryStorage::new();
            let mut file = storage.create(old).expect("no fault is set");
            file.write_all(b"x").and_then(|()| file.sync()).expect("no fault is set");
            storage.rename(old, new).expect("no fault is set");
            storage.remove(new).expect("no fault is set");
            storage.crash_anyhow(seed);
            outcomes.insert(storage.names());
        }
        let expected = [vec![], vec![new.to_owned()], vec![old.to_owned()]];
        assert_eq!(outcomes, BTreeSet::from(expected));
    }

    #[test]
    fn a_full_disk_takes_what_fits() {
        let storage = MemoryStorage::new();
        let mut file = storage.create(Path::new("a")).expect("no fault is set");
        storage.fill_up_after(Some(10));
        assert_eq!(file.write(b"seven b").ok(), Some(7));
        assert_eq!(file.write(b"seven b").ok(), Some(3));
        assert_eq!(file.write(b"x").map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull));
        file.set_length(7).expect("truncation frees space");
        assert_eq!(file.write(b"abcd").ok(), Some(3));
        assert_eq!(storage.read(Path::new("a")).as_deref(), Some(&b"seven babc"[..]));
    }

    #[test]
    fn what_a_failed_sync_should_have_written_is_never_written() {
        let path = Path::new("dir/a");
        let storage = MemoryStorage::new();
        let mut file = storage.create(path).expect("no fault is set");
        storage.sync_directory(Path::new("dir")).expect("no fault is set");
        storage.fail_sync(0);
        file.write_all(&[1; 2 * PAGE_BYTES]).expect("no fault is set");
        assert!(file.sync().is_err());
        file.write_all(&[2; PAGE_BYTES]).and_then(|()| file.sync()).expect("the second sync succeeds");
        storage.crash();
        let bytes = storage.read(path).expect("its name is durable");
        assert_eq!(bytes, [[0; 2 * PAGE_BYTES].as_slice(), &[2; PAGE_BYTES]].concat());
    }

    #[test]
    fn a_read_only_disk_is_read() {
        let storage = MemoryStorage::new();
        let path = Path::new("dir/a");
        let mut file = storage.append(path).expect("no fault is set");
        file.write_all(b"text").expect("no fault is set");
        storage.make_read_only(true);
        let kind = Err(io::ErrorKind::ReadOnlyFilesystem);
        assert_eq!(file.write(b"more").map_err(|error| error.kind()), kind);
        assert_eq!(storage.remove(path).map_err(|error| error.kind()), kind.map(|_: usize| ()));
        assert!(storage.create(path).is_err() && storage.append(path).is_err());
        assert_eq!(storage.read_file(path, 4).ok().as_deref(), Some(&b"text"[..]));
        assert!(storage.read_file(path, 3).is_err());
        assert_eq!(storage.list(Path::new("dir")).ok(), Some(vec![OsString::from("a")]));
    }
}
