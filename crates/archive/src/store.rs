//! Where the objects of an archive lie: a folder, or anything that has objects with names.
//!
//! Objects never change. [`Store::put_new`] makes one that is there whole or not at all, durably, and refuses
//! a name that is taken: a conditional put, where the store is on the network.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::keys::random;
use crate::wire::hex;

/// A place for objects. Names are of letters, digits, `-` and one `/`.
pub trait Store: Send + Sync {
    /// Makes an object; an error of kind `AlreadyExists` if the name is taken.
    fn put_new(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// An object as a whole.
    fn get(&self, name: &str) -> io::Result<Vec<u8>>;

    /// A part of an object, which must have it.
    fn get_range(&self, name: &str, offset: u64, size: u64) -> io::Result<Vec<u8>>;

    /// The names that begin with `folder/`, without that, and the sizes of the objects in bytes.
    fn list(&self, folder: &str) -> io::Result<Vec<(String, u64)>>;

    /// Removes an object, if it is there.
    fn delete(&self, name: &str) -> io::Result<()>;

    /// The right to write, until it is dropped or the process ends. An error if another one has it.
    fn lock(&self) -> io::Result<Box<dyn Send>>;

    /// Removes what puts that were cut off have left. For who has the lock. Returns how many they were.
    fn remove_leftovers(&self) -> io::Result<usize>;

    /// A folder for temporary files beside the objects, if there is a place for one.
    fn scratch(&self) -> io::Result<Option<PathBuf>>;
}

impl Store for Box<dyn Store> {
    fn put_new(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        (**self).put_new(name, bytes)
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        (**self).get(name)
    }

    fn get_range(&self, name: &str, offset: u64, size: u64) -> io::Result<Vec<u8>> {
        (**self).get_range(name, offset, size)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<(String, u64)>> {
        (**self).list(folder)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        (**self).delete(name)
    }

    fn lock(&self) -> io::Result<Box<dyn Send>> {
        (**self).lock()
    }

    fn remove_leftovers(&self) -> io::Result<usize> {
        (**self).remove_leftovers()
    }

    fn scratch(&self) -> io::Result<Option<PathBuf>> {
        (**self).scratch()
    }
}

/// A folder of the file system.
pub struct Folder {
    path: PathBuf,
}

const UNFINISHED: &str = "unfinished";

impl Folder {
    /// The folder at `path`, which need not be there.
    pub fn new(path: &Path) -> Self {
        Folder { path: path.to_owned() }
    }

    fn put_once(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let target = self.path.join(name);
        let unfinished = self.path.join(UNFINISHED);
        let parent = target.parent().unwrap_or(&self.path);
        fs::create_dir_all(&unfinished)?;
        if !parent.is_dir() {
            fs::create_dir_all(parent)?;
            Self::sync_folder(&self.path)?;
        }
        let temporary = unfinished.join(hex(&random()?[..16]));
        let written = (|| {
            let mut file = File::create_new(&temporary)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            // A link does not replace what is there. Not every file system has them.
            fs::hard_link(&temporary, &target).or_else(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => Err(error),
                _ if target.exists() => Err(io::ErrorKind::AlreadyExists.into()),
                _ => fs::rename(&temporary, &target),
            })
        })();
        let _left_for_prune_if_that_fails = fs::remove_file(&temporary);
        written.map_err(|error| self.named(name, error))?;
        Self::sync_folder(parent)
    }

    fn sync_folder(path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn named(&self, name: &str, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.path.join(name).display()))
    }
}

impl Store for Folder {
    fn put_new(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        match self.put_once(name, bytes) {
            // Another process, which prunes, took the temporary file for one that was left.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.put_once(name, bytes),
            put => put,
        }
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path.join(name)).map_err(|error| self.named(name, error))
    }

    fn get_range(&self, name: &str, offset: u64, size: u64) -> io::Result<Vec<u8>> {
        let read = || {
            let mut file = File::open(self.path.join(name))?;
            file.seek(SeekFrom::Start(offset))?;
            let mut bytes = Vec::new();
            file.take(size).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes: Vec<u8> = read().map_err(|error| self.named(name, error))?;
        if (bytes.len() as u64) < size {
            let error = io::Error::new(io::ErrorKind::InvalidData, "the file ends early");
            return Err(self.named(name, error));
        }
        Ok(bytes)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<(String, u64)>> {
        let entries = match fs::read_dir(self.path.join(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| self.named(folder, error))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            names.push((entry.file_name().to_string_lossy().into_owned(), entry.metadata()?.len()));
        }
        names.sort();
        Ok(names)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => {
                removed.map_err(|error| self.named(name, error))?;
                Self::sync_folder(path.parent().unwrap_or(&self.path))
            }
        }
    }

    fn lock(&self) -> io::Result<Box<dyn Send>> {
        let file = File::create(self.path.join("lock")).map_err(|error| self.named("lock", error))?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(fs::TryLockError::WouldBlock) => {
                Err(io::Error::other("another process is writing to the archive; try again when it is done"))
            }
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn remove_leftovers(&self) -> io::Result<usize> {
        let left = self.list(UNFINISHED)?;
        for (name, _) in &left {
            self.delete(&format!("{UNFINISHED}/{name}"))?;
        }
        Ok(left.len())
    }

    fn scratch(&self) -> io::Result<Option<PathBuf>> {
        let path = self.path.join(UNFINISHED);
        fs::create_dir_all(&path).map_err(|error| self.named(UNFINISHED, error))?;
        Ok(Some(path))
    }
}
