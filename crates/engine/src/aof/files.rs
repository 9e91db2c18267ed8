//! The files of the append-only file and their manifest.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use mantissa_persist::aof::Manifest;
use mantissa_persist::storage::Storage;

use crate::engine::Engine;
use crate::snapshot::Pace;
use crate::state::aof::Files;
use crate::{notice, snapshot};
use mantissa_config::Config;

impl Files {
    /// The folder that the configuration names.
    pub fn directory(config: &Config) -> PathBuf {
        Path::new(&config.dir).join(&config.appenddirname)
    }

    /// Reads the manifest that the configuration names. No files if there is none.
    pub fn find(storage: &dyn Storage, config: &Config) -> Result<Self, String> {
        let directory = Self::directory(config);
        let name = OsString::from(&config.appendfilename);
        let manifest = Manifest::load(storage, &directory, &name).map_err(|error| {
            format!("The AOF manifest in {} can not be read: {error}", directory.display())
        })?;
        Ok(Files { directory, name, manifest: manifest.unwrap_or_default() })
    }

    /// Makes the manifest durable.
    pub fn store(&self, storage: &dyn Storage) -> Result<(), String> {
        self.manifest.store(storage, &self.directory, &self.name).map_err(|error| {
            format!("The AOF manifest in {} can not be written: {error}", self.directory.display())
        })
    }

    /// The sum of the lengths of the files that are loaded, but for the last `without` increments.
    pub fn bytes(&self, storage: &dyn Storage, without: usize) -> u64 {
        let count = self.manifest.files().count().saturating_sub(without);
        self.manifest.files().take(count).map(|file| storage.length_of(&self.path(&file.name))).sum()
    }
}

/// Goes on with the last increment, or begins with a base and the first one.
pub fn open_at_start(engine: &Engine) -> Result<(), String> {
    let active = engine.active_config();
    let storage = &*engine.storage;
    let mut files = Files::find(storage, &active.config)?;
    let failed =
        |what: &Path, error: std::io::Error| format!("Can't open the AOF file {}: {error}", what.display());
    storage.create_directory(&files.directory).map_err(|error| failed(&files.directory, error))?;
    if files.manifest.files().next().is_none() {
        if let Some(reason) = super::rewrite::refusal(engine) {
            return Err(format!("The append-only file can not begin: {reason}."));
        }
        let (directory, aof_name) = (files.directory.clone(), files.name.clone());
        let is_rdb = active.config.aof_use_rdb_preamble;
        let path = directory.join(files.manifest.next_base(&aof_name, is_rdb));
        write_base(engine, &path).map_err(|error| failed(&path, error))?;
        if !is_rdb {
            super::rewrite::make_commands(engine, &path, &|| false)?;
        }
        notice!("Creating AOF base file {} on server start", path.display());
        files.store(storage)?;
    }
    let name = match files.manifest.increments.last() {
        Some(last) => last.name.clone(),
        None => {
            let aof_name = files.name.clone();
            files.manifest.next_increment(&aof_name, Some(0))
        }
    };
    let path = files.path(&name);
    let file = storage.append(&path).map_err(|error| failed(&path, error))?;
    files.store(storage)?;
    if !active.config.aof_disable_auto_gc {
        // A process that ended during a rewrite has left it.
        super::rewrite::remove_history(storage, &mut files);
    }
    engine.aof.base_bytes.store(files.bytes(storage, 0), Ordering::Relaxed);
    engine.aof.former_bytes.store(files.bytes(storage, 1), Ordering::Relaxed);
    engine.aof.control.switch_at(Box::new(move |_| Ok(Some(file))), &engine.stream_facts());
    engine.aof.is_logging.store(true, Ordering::Relaxed);
    engine.keyspace.set_logged(true);
    engine.aof.is_listed.store(true, Ordering::Relaxed);
    *engine.aof.files.lock() = Some(files);
    Ok(())
}

/// Writes a base with the present data, durable but for its name.
fn write_base(engine: &Engine, path: &Path) -> std::io::Result<()> {
    let mut file = engine.storage.create_output(path)?;
    let facts = mantissa_persist::write::FileFacts { is_aof_base: true, ..snapshot::facts() };
    snapshot::write(engine, &mut *file, &facts, Pace::Hasty, |_| {})?;
    file.sync()
}
