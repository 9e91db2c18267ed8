//! The folder of backups: `backupdirname`.
//!
//! What a process that was killed has left there is known by its names. A manifest begins with a comment that
//! no other manifest has, so the files of an append-only file are not taken for a backup.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use mantissa_config::Config;
use mantissa_number::parse_i64;
use mantissa_persist::aof::Manifest;
use mantissa_persist::aof::manifest::manifest_name;

use crate::engine::Engine;
use crate::state::backup::{Phase, Record};
use crate::{notice, warning};

/// What the manifest of a backup begins with, followed by when the backup began and when it was sealed, Unix
/// times in s.
const COMMENT: &[u8] = b"# backup ";
/// What the names of files begin with that are no part of a backup yet.
const TEMPORARY_STEM: &str = "temp-backup-";
/// The longest manifest that is read.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;

/// The folder's path.
pub(super) fn path(config: &Config) -> PathBuf {
    let path = Path::new(&config.dir).join(&config.backupdirname);
    std::path::absolute(&path).unwrap_or(path)
}

/// The name of a base that is being written.
pub(super) fn temporary_name() -> String {
    format!("{TEMPORARY_STEM}{}.rdb", std::process::id())
}

/// Whether a backup may have made a file of this name.
fn is_ours(file: &OsStr, name: &OsStr) -> bool {
    const ENDS: [&[u8]; 4] = [b".base.rdb", b".base.aof", b".incr.aof", b".manifest"];
    let bytes = file.as_bytes();
    let is_temporary = bytes.starts_with(TEMPORARY_STEM.as_bytes())
        || (bytes.starts_with(&[b".", manifest_name(name).as_bytes()].concat()) && bytes.ends_with(b".tmp"));
    let is_part = bytes
        .strip_prefix(name.as_bytes())
        .is_some_and(|rest| rest.starts_with(b".") && ENDS.iter().any(|end| rest.ends_with(end)));
    is_temporary || is_part
}

/// Makes the folder if it is not there, and tries whether a file can be made in it. False if it holds files.
pub(super) fn prepare(engine: &Engine, directory: &Path) -> Result<bool, String> {
    let storage = &*engine.storage;
    let failed =
        |error: io::Error| format!("Can't use the backup directory {}: {error}", directory.display());
    storage.create_directory(directory).map_err(failed)?;
    if !storage.list(directory).map_err(failed)?.is_empty() {
        return Ok(false);
    }
    let probe = directory.join(temporary_name());
    storage.create(&probe).map_err(failed)?;
    storage.remove(&probe).map_err(failed)?;
    Ok(true)
}

/// Removes what backups have made, the manifest first: without it nothing is taken for a backup.
pub(super) fn remove(engine: &Engine, directory: &Path, name: &OsStr) -> Result<(), String> {
    let storage = &*engine.storage;
    let failed = |path: &Path, error: io::Error| format!("Can't remove {}: {error}", path.display());
    let mut names = match storage.list(directory) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(directory, error)),
    };
    names.retain(|file| is_ours(file, name));
    names.sort_by_key(|file| *file != manifest_name(name));
    for path in names.iter().map(|file| directory.join(file)) {
        match storage.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&path, error)),
            _ => {}
        }
    }
    storage.sync_directory(directory).map_err(|error| failed(directory, error))
}

/// Writes the manifest, durably, together with the names of the other files.
pub(super) fn write_manifest(
    engine: &Engine,
    directory: &Path,
    name: &OsStr,
    (start_s, end_s): (i64, i64),
    manifest: &Manifest,
) -> Result<(), String> {
    let mut text = COMMENT.to_vec();
    text.extend_from_slice(format!("{start_s} {end_s}\n").as_bytes());
    text.extend_from_slice(&manifest.to_text());
    let path = directory.join(manifest_name(name));
    let written = engine.storage.replace_file(&path, &text);
    written.map_err(|error| format!("Can't write {}: {error}", path.display()))
}

/// When the backup with this manifest began and was sealed; `None` if it is not of a backup.
fn times(text: &[u8]) -> Option<(i64, i64)> {
    let line = text.strip_prefix(COMMENT)?.split(|&byte| byte == b'\n').next()?;
    let (start, end) = line.split_at_checked(line.iter().position(|&byte| byte == b' ')?)?;
    Some((parse_i64(start)?, parse_i64(&end[1..])?))
}

/// Takes what an earlier process has left for a backup that is sealed, or that has failed. To be called
/// before there can be BACKUP START.
pub fn adopt(engine: &Engine) {
    let config = &engine.active_config().config;
    if config.backupdirname == config.appenddirname {
        return;
    }
    let (directory, name) = (path(config), OsString::from(&config.appendfilename));
    let Ok(names) = engine.storage.list(&directory) else { return };
    if !names.iter().any(|file| is_ours(file, &name)) {
        return;
    }
    let number = engine.backup.record.lock().number + 1;
    let found = Record { directory: directory.clone(), name: name.clone(), number, ..Record::default() };
    let manifest = engine.storage.read_file(&directory.join(manifest_name(&name)), MANIFEST_BYTES_MAX);
    let record = match manifest {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let error = "the server ended, or was upgraded, before it was sealed".to_owned();
            warning!("The backup in {} was not sealed: its files are removed", directory.display());
            Record { phase: Phase::Failed, error, has_leftovers: true, ..found }
        }
        Err(error) => {
            return warning!("The backup in {} can not be read: {error}", directory.display());
        }
        Ok(text) => {
            // Others than ours are not touched.
            let (Some((start_s, end_s)), Ok(manifest)) = (times(&text), Manifest::parse(&text)) else {
                return;
            };
            notice!("A sealed backup is in {}", directory.display());
            let (base, increments) = (manifest.base, manifest.increments);
            Record { phase: Phase::Sealed, start_s, end_s, base, increments, ..found }
        }
    };
    *engine.backup.record.lock() = record;
}
