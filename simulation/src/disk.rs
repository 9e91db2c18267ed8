//! A disk in memory that loses power, or whose user is killed, at operations that the seed chooses.
//!
//! The run goes on afterwards: what the crash leaves is an image, another disk that is looked at in the end.
//! What survives of what was not made durable is chosen by the seed: see [`MemoryStorage`].

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mantissa_persist::log::Lsn;
use mantissa_persist::storage::{MemoryStorage, OutputFile, SharedFile, Storage, StorageFile};

use crate::scheduler::Random;

/// What had been promised when a crash came.
#[derive(Clone, Copy, Debug, Default)]
pub struct Promise {
    /// So many transactions of the history had been acknowledged.
    pub acknowledged: usize,
    /// The log was in the file up to here.
    pub written: Lsn,
    /// The log was durable up to here.
    pub durable: Lsn,
}

/// A crash, at an operation of the disk.
#[derive(Clone, Copy, Debug)]
pub struct Crash {
    /// The operation, counted from when the crashes were set. It has not been done, or a part of its bytes.
    pub operation: u64,
    /// Only operations on names are counted: files are made, renamed, removed, directories synced.
    pub counts_names: bool,
    /// The power is lost; else the process is killed, and all is there that was written.
    pub is_power_loss: bool,
    /// Chooses what survives.
    pub seed: u64,
}

/// What a crash leaves.
pub struct Image {
    /// The crash.
    pub crash: Crash,
    /// The files.
    pub files: MemoryStorage,
    /// What had been promised.
    pub promise: Promise,
}

#[derive(Default)]
struct Plan {
    operations: u64,
    name_operations: u64,
    crashes: Vec<Crash>,
    images: Vec<Image>,
    /// Bytes become durable in their order.
    is_ordered: bool,
    look: Option<Box<dyn Fn() -> Promise + Send>>,
    /// The first operation that fails, how many do, and how.
    failure: Option<(u64, u64, io::ErrorKind)>,
}

/// The disk of a run.
#[derive(Clone, Default)]
pub struct Disk {
    files: MemoryStorage,
    plan: Arc<Mutex<Plan>>,
}

impl Disk {
    /// A disk with these files.
    pub fn with_files(files: MemoryStorage) -> Disk {
        Disk { files, plan: Arc::default() }
    }

    /// Sets the crashes that are to come; `look` says what has been promised. A log without checksums can
    /// tell where it ends only if bytes that were appended become durable in their order: `is_ordered`.
    pub fn set_crashes(
        &self,
        crashes: Vec<Crash>,
        is_ordered: bool,
        look: impl Fn() -> Promise + Send + 'static,
    ) {
        let mut plan = self.plan();
        plan.name_operations = 0;
        (plan.operations, plan.crashes, plan.is_ordered) = (0, crashes, is_ordered);
        plan.look = Some(Box::new(look));
    }

    /// Has `count` operations fail from the one with this number on, counted from now.
    pub fn fail(&self, operation: u64, count: u64, kind: io::ErrorKind) {
        let mut plan = self.plan();
        plan.failure = Some((plan.operations + operation, count, kind));
    }

    /// Limits the space that is left, in bytes.
    pub fn fill_up_after(&self, bytes: u64) {
        self.files.fill_up_after(Some(bytes));
    }

    /// Lets all operations succeed again.
    pub fn repair(&self) {
        self.plan().failure = None;
        self.files.fill_up_after(None);
    }

    /// What the crashes have left that came, which end with that.
    pub fn take_images(&self) -> Vec<Image> {
        let mut plan = self.plan();
        (plan.crashes, plan.look) = (Vec::new(), None);
        std::mem::take(&mut plan.images)
    }

    /// What a process leaves that is killed now.
    pub fn copy(&self) -> MemoryStorage {
        self.files.copy()
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation that changes something: the crash that comes at it, or its failure.
    fn count(&self, is_of_names: bool) -> io::Result<Option<Crash>> {
        let mut plan = self.plan();
        let (number, name_number) = (plan.operations, plan.name_operations);
        plan.operations += 1;
        plan.name_operations += u64::from(is_of_names);
        if let Some((from, count, kind)) = plan.failure
            && (from..from + count).contains(&number)
        {
            return Err(io::Error::from(kind));
        }
        let comes = |crash: &&Crash| match crash.counts_names {
            true => is_of_names && crash.operation == name_number,
            false => crash.operation == number,
        };
        Ok(plan.crashes.iter().find(comes).copied())
    }

    fn crash(&self, crash: Crash) {
        let files = self.files.copy();
        let mut plan = self.plan();
        match (crash.is_power_loss, plan.is_ordered) {
            (false, _) => {}
            (true, false) => files.crash_anyhow(crash.seed),
            (true, true) => files.crash_in_order(crash.seed),
        }
        let promise = plan.look.as_ref().map(|look| look()).unwrap_or_default();
        plan.images.push(Image { crash, files, promise });
    }

    /// Does an operation that changes something.
    fn change<T>(&self, is_of_names: bool, operation: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if let Some(crash) = self.count(is_of_names)? {
            self.crash(crash);
        }
        operation()
    }

    fn change_names<T>(&self, operation: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.change(true, operation)
    }

    fn wrap(&self, file: Box<dyn StorageFile>) -> Box<dyn StorageFile> {
        Box::new(DiskFile { disk: self.clone(), file })
    }
}

struct DiskFile {
    disk: Disk,
    file: Box<dyn StorageFile>,
}

impl Read for DiskFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl Write for DiskFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(crash) = self.disk.count(false)? else { return self.file.write(bytes) };
        let part = Random(crash.seed).below(bytes.len() as u64 + 1) as usize;
        // A full disk takes less.
        let part = if part == 0 { 0 } else { self.file.write(&bytes[..part])? };
        self.disk.crash(crash);
        if part == 0 { self.file.write(bytes) } else { Ok(part) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl OutputFile for DiskFile {
    fn sync(&mut self) -> io::Result<()> {
        self.disk.change(false, || self.file.sync())
    }
}

impl StorageFile for DiskFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn set_length(&mut self, bytes: u64) -> io::Result<()> {
        self.disk.change(false, || self.file.set_length(bytes))
    }

    fn go_to(&mut self, offset: u64) -> io::Result<()> {
        self.file.go_to(offset)
    }

    fn duplicate(&self) -> io::Result<Box<dyn StorageFile>> {
        Ok(self.disk.wrap(self.file.duplicate()?))
    }
}

impl Storage for Disk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        Ok(self.wrap(self.change_names(|| self.files.create(path))?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        Ok(self.wrap(self.files.open(path)?))
    }

    fn open_shared(&self, path: &Path) -> io::Result<Box<dyn SharedFile>> {
        self.files.open_shared(path)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        Ok(self.wrap(self.change_names(|| self.files.append(path))?))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.files.exists(path)
    }

    fn is_file(&self, path: &Path) -> bool {
        self.files.is_file(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.files.list(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.change_names(|| self.files.create_directory(path))
    }

    fn create_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.change_names(|| self.files.create_path(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change_names(|| self.files.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change_names(|| self.files.remove(path))
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.change_names(|| self.files.sync_directory(path))
    }
}
