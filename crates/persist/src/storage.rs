//! All file I/O of this crate goes through [`Storage`], so that tests can make any operation fail and can
//! tell what a crash would leave.
//!
//! [`FileSystem`] is the real one. [`MemoryStorage`] keeps what was written apart from what is durable: a
//! file's bytes are durable after `sync`, its name after `sync_directory`.

mod direct;
mod memory;

pub(crate) use mantissa_sys::direct_io::{AlignedBuffer, open_direct};
pub use memory::MemoryStorage;

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use direct::DirectFile;
use rustix::fs::{Advice, fadvise};

/// Rights of a directory that is created: what the user's mask leaves of these.
const DIRECTORY_MODE: u32 = 0o755;

/// Bytes of a file that the system forgets in one step, which takes it some hundred microseconds.
const FORGOTTEN_BYTES: NonZeroU64 = NonZeroU64::new(1 << 20).unwrap();

/// A file that is being written.
pub trait OutputFile: Write + Send {
    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// An open file.
pub trait StorageFile: OutputFile + Read {
    /// The file's length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Truncates the file, or lengthens it by zeros. What is written next goes to its end.
    fn set_length(&mut self, bytes: u64) -> io::Result<()>;

    /// Has what is written next go to this offset, over what is there.
    fn go_to(&mut self, offset: u64) -> io::Result<()>;

    /// Another handle of the same open file, for another thread to make it durable.
    fn duplicate(&self) -> io::Result<Box<dyn StorageFile>>;

    /// Has the system forget what it keeps in memory of the file, in many small steps. What is not durable it
    /// keeps.
    fn forget_cached(&self) {}
}

/// A file that several threads read.
pub trait SharedFile: Send + Sync {
    /// The file's length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Reads from an offset on. May read fewer bytes than the buffer holds; none at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The same file for reads past the page cache, if there are such.
    fn past_cache(&self) -> Option<Box<dyn SharedFile>> {
        None
    }
}

/// A file without a name, whose content is gone with its last handle.
pub trait ScratchFile: Send + Sync {
    /// Reads as many bytes as the buffer holds.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all bytes.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Gives the disk space of a part of the file back, where the system can.
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()>;
}

/// A directory that no other engine uses, until this is dropped or the process ends.
#[derive(Debug, Default)]
pub struct DirectoryLock {
    _directory: Option<File>,
}

/// Where files are.
pub trait Storage: Send + Sync {
    /// Creates a file, or empties one, for writing.
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;

    /// Creates a file, or empties one, that is written from its beginning to its end and is not read soon. It
    /// is complete only after [`OutputFile::sync`].
    fn create_output(&self, path: &Path) -> io::Result<Box<dyn OutputFile>> {
        Ok(self.create(path)?)
    }

    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;

    /// Opens a file for reading by several threads.
    fn open_shared(&self, path: &Path) -> io::Result<Box<dyn SharedFile>>;

    /// Creates a file without a name in a directory.
    fn create_scratch(&self, _directory: &Path) -> io::Result<Box<dyn ScratchFile>> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Opens a file for writing at its end; creates it if it is not there.
    fn append(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;

    /// Whether there is a file or directory of this name.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Whether there is a file of this name.
    fn is_file(&self, path: &Path) -> bool;

    /// The length of a file in bytes; 0 if there is none.
    fn length_of(&self, path: &Path) -> u64 {
        self.open(path).and_then(|file| file.length()).unwrap_or(0)
    }

    /// The names of the files in a directory, sorted.
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>>;

    /// Creates a directory and makes its name durable. It may be there already.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Creates a directory and those above it. The directory's absolute path, without symbolic links.
    fn create_path(&self, path: &Path) -> io::Result<PathBuf>;

    /// Locks a directory against other processes that lock it; makes no file. An error of kind `WouldBlock`
    /// if another process holds the lock. Where the system has no such locks, nothing is locked.
    fn lock_directory(&self, _path: &Path) -> io::Result<DirectoryLock> {
        Ok(DirectoryLock::default())
    }

    /// Gives a file another name, replacing what has it. It may move to another directory of the same disk.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name on the same disk, which no other file has. Where files have one name only,
    /// the second is that of a copy. It is durable after [`Storage::sync_directory`].
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.copy(from, to).map(drop)
    }

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// A whole file. One of more than `bytes_max` is an error of kind `FileTooLarge`.
    fn read_file(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > bytes_max {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        Ok(bytes)
    }

    /// Gives a file the permissions of another, where files have such.
    fn copy_permissions(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Replaces a file by one of the given content and of the same permissions, or makes one, durably, by way
    /// of a temporary file beside it.
    fn replace_file(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
        let directory = directory_of(path);
        let temporary = directory.join(format!(".{name}.{}.tmp", std::process::id()));
        let write = || {
            let mut file = self.create(&temporary)?;
            if self.is_file(path) {
                self.copy_permissions(path, &temporary)?;
            }
            file.write_all(content)?;
            file.sync()?;
            self.rename(&temporary, path)?;
            self.sync_directory(directory)
        };
        write().inspect_err(|_| drop(self.remove(&temporary)))
    }

    /// Makes a durable copy of a file. The new name is durable after [`Storage::sync_directory`].
    fn copy(&self, from: &Path, to: &Path) -> io::Result<u64> {
        let mut source = self.open(from)?;
        let mut copy = self.create(to)?;
        let bytes = io::copy(&mut source, &mut copy)?;
        copy.sync()?;
        Ok(bytes)
    }
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

impl OutputFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

impl StorageFile for File {
    fn length(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn set_length(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)?;
        self.seek(SeekFrom::End(0)).map(drop)
    }

    fn go_to(&mut self, offset: u64) -> io::Result<()> {
        self.seek(SeekFrom::Start(offset)).map(drop)
    }

    fn duplicate(&self) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(self.try_clone()?))
    }

    fn forget_cached(&self) {
        let steps = 0..StorageFile::length(self).unwrap_or(0).div_ceil(FORGOTTEN_BYTES.get());
        for step in steps {
            // It is advice: where it is not taken, nothing is lost but time.
            let _ = fadvise(self, step * FORGOTTEN_BYTES.get(), Some(FORGOTTEN_BYTES), Advice::DontNeed);
            std::thread::yield_now();
        }
    }
}

impl SharedFile for File {
    fn length(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }

    fn past_cache(&self) -> Option<Box<dyn SharedFile>> {
        let path = format!("/proc/self/fd/{}", self.as_raw_fd());
        let direct = open_direct(OpenOptions::new().read(true), Path::new(&path))?;
        Some(Box::new(direct))
    }
}

impl ScratchFile for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{FallocateFlags, fallocate};
            fallocate(self, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes)?;
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (offset, bytes);
        Ok(())
    }
}

impl Storage for FileSystem {
    fn create_scratch(&self, directory: &Path) -> io::Result<Box<dyn ScratchFile>> {
        let path = directory.join(format!(".mantissa-tier.{}", std::process::id()));
        // What another process of this number has left is not used.
        drop(fs::remove_file(&path));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        fs::remove_file(&path)?;
        // Values are read in any order: reading ahead would be in vain.
        let _ = fadvise(&file, 0, None, Advice::Random);
        Ok(Box::new(file))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        Ok(Box::new(file))
    }

    fn create_output(&self, path: &Path) -> io::Result<Box<dyn OutputFile>> {
        Ok(Box::new(DirectFile::create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(File::open(path)?))
    }

    fn open_shared(&self, path: &Path) -> io::Result<Box<dyn SharedFile>> {
        Ok(Box::new(File::open(path)?))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Box::new(file))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn length_of(&self, path: &Path) -> u64 {
        fs::metadata(path).map_or(0, |metadata| metadata.len())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                names.push(entry.file_name());
            }
        }
        names.sort();
        Ok(names)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            outcome => outcome,
        }?;
        self.sync_directory(directory_of(path))
    }

    fn create_path(&self, path: &Path) -> io::Result<PathBuf> {
        fs::create_dir_all(path)?;
        path.canonicalize()
    }

    fn lock_directory(&self, path: &Path) -> io::Result<DirectoryLock> {
        let directory = File::open(path)?;
        match directory.try_lock() {
            Err(TryLockError::WouldBlock) => Err(io::Error::from(io::ErrorKind::WouldBlock)),
            _ => Ok(DirectoryLock { _directory: Some(directory) }),
        }
    }

    fn copy_permissions(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::set_permissions(to, fs::metadata(from)?.permissions())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}
