//! Which files an append-only file consists of, as a person names it: by its directory, its manifest, or a
//! single file.

use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use mantissa_persist::aof::Manifest;
use mantissa_persist::storage::{FileSystem, Storage, directory_of};

/// The longest manifest that is read.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;
/// How much of a file is looked at to tell whether it is a manifest.
const START_BYTES: u64 = 64 << 10;
/// Where redis-server puts append-only files, below its own directory.
const DIRECTORY_NAME: &str = "appendonlydir";

/// What a file is within the append-only file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// What is loaded first.
    Base,
    /// What is loaded after the base.
    Increment,
    /// The only file, as before Redis 7.
    OldStyle,
}

/// A file that is loaded.
#[derive(Debug)]
pub(crate) struct AofPart {
    pub(crate) path: PathBuf,
    /// How it is called in what is printed.
    pub(crate) name: String,
    pub(crate) role: Role,
}

/// The files that `path` means, in the order in which they are loaded.
pub(crate) fn parts_of(path: &Path) -> Result<Vec<AofPart>, String> {
    match find_manifest(path)? {
        Some(manifest) => parts_of_manifest(&manifest),
        None => {
            let (path, name) = (path.to_owned(), path.display().to_string());
            Ok(vec![AofPart { path, name, role: Role::OldStyle }])
        }
    }
}

fn failed(path: &Path, error: &dyn fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

/// The manifest that a path means: itself, or the only one in the directory. `None`: it is a single file.
fn find_manifest(path: &Path) -> Result<Option<PathBuf>, String> {
    if path.is_dir() {
        let mut found = manifests_in(path)?;
        let below = path.join(DIRECTORY_NAME);
        if found.is_empty() && below.is_dir() {
            found = manifests_in(&below)?;
        }
        return match found.as_slice() {
            [manifest] => Ok(Some(manifest.clone())),
            [] => Err(format!("{}: there is no manifest in this directory", path.display())),
            _ => Err(format!("{}: there are several manifests, name one", path.display())),
        };
    }
    let is_named_so = path.extension().is_some_and(|extension| extension == "manifest");
    let mut start = Vec::new();
    FileSystem
        .open(path)
        .and_then(|file| file.take(START_BYTES).read_to_end(&mut start))
        .map_err(|error| failed(path, &error))?;
    let first_line = start.split(|&byte| byte == b'\n').find(|line| !line.starts_with(b"#"));
    let reads_so = first_line.is_some_and(|line| line.starts_with(b"file"));
    Ok((is_named_so || reads_so).then(|| path.to_owned()))
}

fn manifests_in(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let names = FileSystem.list(directory).map_err(|error| failed(directory, &error))?;
    let is_manifest = |name: &OsString| {
        let name = name.as_encoded_bytes();
        name.ends_with(b".manifest") && !name.starts_with(b"temp-")
    };
    Ok(names.iter().filter(|name| is_manifest(name)).map(|name| directory.join(name)).collect())
}

fn parts_of_manifest(path: &Path) -> Result<Vec<AofPart>, String> {
    let text = FileSystem.read_file(path, MANIFEST_BYTES_MAX).map_err(|error| failed(path, &error))?;
    let manifest = Manifest::parse(&text).map_err(|error| failed(path, &error))?;
    let directory = directory_of(path);
    let base = manifest.base.iter().map(|file| (file, Role::Base));
    let increments = manifest.increments.iter().map(|file| (file, Role::Increment));
    Ok(base
        .chain(increments)
        .map(|(file, role)| {
            let name = file.name.to_string_lossy().into_owned();
            AofPart { path: directory.join(&file.name), name, role }
        })
        .collect())
}
