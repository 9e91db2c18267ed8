//! All file I/O of this crate goes through [`Storage`], so that tests can make any operation fail and can
//! tell what a crash would leave.
//!
//! [`FileSystem`] is the real one. [`MemoryStorage`] keeps what was written apart from what is durable: a
//! file's bytes are durable after `sync`, its name after `sync_directory`.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An open file.
pub trait StorageFile: Read + Write + Send {
    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()>;

    /// The file's length in bytes.
    fn length(&self) -> io::Result<u64>;
}

/// Where files are.
pub trait Storage: Send + Sync {
    /// Creates a file, or empties one, for writing.
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;

    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;

    /// Gives a file another name in the same directory, replacing what has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// The directory that a file is in.
pub fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The file system.
#[derive(Clone, Copy, Default, Debug)]
pub struct FileSystem;

impl StorageFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }
}

impl Storage for FileSystem {
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        Ok(Box::new(file))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(File::open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// A file of [`MemoryStorage`]: its bytes, and how many of them a crash would leave.
#[derive(Clone, Default)]
struct MemoryBytes {
    live: Vec<u8>,
    durable: Vec<u8>,
}

type MemoryNode = Arc<Mutex<MemoryBytes>>;

#[derive(Default)]
struct MemoryState {
    live_names: HashMap<PathBuf, MemoryNode>,
    durable_names: HashMap<PathBuf, MemoryNode>,
    operations: u64,
    fail_at: Option<u64>,
}

/// Files in memory, for tests: fails the operation that it is told to, and shows what survives a crash.
#[derive(Clone, Default)]
pub struct MemoryStorage(Arc<Mutex<MemoryState>>);

impl MemoryStorage {
    /// No files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the operation with this number fail, counted from 0 at the storage's creation, and every later
    /// one too: a full or broken disk.
    pub fn fail_at(&self, operation: u64) {
        locked(&self.0).fail_at = Some(operation);
    }

    /// How many operations there were.
    pub fn operations(&self) -> u64 {
        locked(&self.0).operations
    }

    /// Forgets what is not durable and repairs the disk.
    pub fn crash(&self) {
        let mut state = locked(&self.0);
        state.fail_at = None;
        state.live_names = state.durable_names.clone();
        for node in state.live_names.values() {
            let mut bytes = locked(node);
            bytes.live = bytes.durable.clone();
        }
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

    fn operation(&self) -> io::Result<MutexGuard<'_, MemoryState>> {
        let mut state = locked(&self.0);
        let number = state.operations;
        state.operations += 1;
        if state.fail_at.is_some_and(|fail_at| number >= fail_at) {
            return Err(io::Error::other("the disk failed, as asked for"));
        }
        Ok(state)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_found() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

struct MemoryFile {
    storage: MemoryStorage,
    node: MemoryNode,
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
        drop(self.storage.operation()?);
        locked(&self.node).live.extend_from_slice(buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl StorageFile for MemoryFile {
    fn sync(&mut self) -> io::Result<()> {
        drop(self.storage.operation()?);
        let mut bytes = locked(&self.node);
        bytes.durable = bytes.live.clone();
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        drop(self.storage.operation()?);
        Ok(locked(&self.node).live.len() as u64)
    }
}

impl Storage for MemoryStorage {
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let node = MemoryNode::default();
        self.operation()?.live_names.insert(path.to_owned(), node.clone());
        Ok(Box::new(MemoryFile { storage: self.clone(), node, position: 0 }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let node = self.operation()?.live_names.get(path).cloned().ok_or_else(not_found)?;
        Ok(Box::new(MemoryFile { storage: self.clone(), node, position: 0 }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.operation()?;
        let node = state.live_names.remove(from).ok_or_else(not_found)?;
        state.live_names.insert(to.to_owned(), node);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.operation()?.live_names.remove(path).map(drop).ok_or_else(not_found)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.operation()?;
        let inside = |name: &Path| directory_of(name) == path;
        let live: Vec<_> = state.live_names.iter().filter(|(name, _)| inside(name)).collect();
        let live: HashMap<_, _> = live.into_iter().map(|(name, node)| (name.clone(), node.clone())).collect();
        state.durable_names.retain(|name, _| !inside(name));
        state.durable_names.extend(live);
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
    fn the_operation_asked_for_fails() {
        let storage = MemoryStorage::new();
        storage.fail_at(1);
        assert!(storage.create(Path::new("a")).is_ok());
        assert!(storage.create(Path::new("b")).is_err());
        assert!(storage.open(Path::new("a")).is_err());
    }
}
