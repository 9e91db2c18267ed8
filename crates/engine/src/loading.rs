//! Loading dumps into the keyspace, and how far that has come.

use mantissa_sys::clock;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use mantissa_persist::delay::KeyDelay;
use mantissa_persist::load::{Access, KeyspaceTarget, LoadJob, LoadOptions, LoadSummary, load_in_parallel};
use mantissa_store::{Keyspace, ShardSet};
use parking_lot::Mutex;

use crate::engine::Engine;
use crate::notice;
use crate::scripting::functions::Policy;
use crate::skipping::{self, Skipping};
use mantissa_sys::clock::unix_ms;

/// Seconds between two lines of the log that say how far loading has come.
const LINES_EVERY_S: u64 = 2;

/// How far the load of one or more files has come.
#[derive(Default)]
pub struct Loading {
    began_ms: AtomicI64,
    total_bytes: AtomicU64,
    loaded_bytes: AtomicU64,
}

impl Loading {
    /// Begins anew.
    pub fn begin(&self) {
        self.began_ms.store(unix_ms(), Ordering::Relaxed);
        self.total_bytes.store(0, Ordering::Relaxed);
        self.loaded_bytes.store(0, Ordering::Relaxed);
    }

    /// So many bytes more are to be loaded.
    pub fn expect(&self, bytes: u64) {
        self.total_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes more have been loaded.
    pub fn loaded(&self, bytes: u64) {
        self.loaded_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// When it began, Unix time in s.
    pub fn began_s(&self) -> i64 {
        self.began_ms.load(Ordering::Relaxed) / 1000
    }

    /// All bytes that are known to come.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }

    /// Those that have been loaded.
    pub fn loaded_bytes(&self) -> u64 {
        self.loaded_bytes.load(Ordering::Relaxed)
    }

    /// Percent loaded.
    pub fn percent(&self) -> f64 {
        self.loaded_bytes() as f64 * 100.0 / self.total_bytes().max(1) as f64
    }

    /// Seconds that it will take at the speed so far; 1 where nothing has been loaded.
    pub fn left_s(&self) -> i64 {
        let elapsed_ms = (unix_ms() - self.began_ms.load(Ordering::Relaxed)).max(1) as f64;
        let loaded = self.loaded_bytes() as f64;
        let left = (self.total_bytes() as f64 - loaded).max(0.0);
        if loaded == 0.0 { 1 } else { (elapsed_ms * left / loaded / 1000.0) as i64 }
    }
}

/// What is there when a dump is loaded, and becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Present {
    /// Nothing; but for libraries of functions, which go.
    None,
    /// It stays: what the dump has as well is an error.
    Kept,
    /// It stays, but for what the dump has as well.
    Replaced,
}

/// Reads a dump into a keyspace, with one thread for each core. As the base of a log it keeps keys that have
/// expired: the log goes on from there. No shard of it may be locked by this thread.
pub fn load_file(
    engine: &Engine,
    keyspace: &Keyspace,
    path: &Path,
    present: Present,
    is_base: bool,
) -> Result<LoadSummary, String> {
    let live = engine.live();
    let failed = |reason: String| failure(path, &reason);
    let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    let now_ms = unix_ms();
    let kept = live.settings.access_clock;
    let clock_of =
        |access: Access| mantissa_commands::restored_clock(kept, access.idle_s, access.frequency, now_ms);
    let loading = &engine.persistence.load;
    loading.expect(file.metadata().map_or(0, |metadata| metadata.len()));
    let shown = Mutex::new(clock::now());
    let codes = Mutex::new(Vec::new());
    let skipping = Skipping::new(live.config.hide_user_data_from_log);
    let job = LoadJob {
        options: LoadOptions {
            limits: live.settings.limits.clone(),
            now_ms,
            skip_expired: !is_base,
            verify_checksum: live.config.rdbchecksum && mantissa_persist::payload::verifies_checksums(),
            skip_modules: live.config.rdb_skip_unknown_types,
            key_delay: KeyDelay(live.config.key_load_delay),
        },
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        work: &|run| {
            let mut none_locked = keyspace.lock(ShardSet::EMPTY);
            let replaces = present == Present::Replaced;
            let inner = KeyspaceTarget::new(&mut none_locked, &clock_of, replaces);
            let mut target = skipping::Target::new(inner, &skipping);
            run(&mut target);
            codes.lock().append(&mut target.into_functions());
        },
        reserve: &|database, keys| reserve(keyspace, database, keys),
        progress: &|bytes| {
            loading.loaded(bytes);
            if let Some(mut shown) = shown.try_lock()
                && clock::since(*shown).as_secs() >= LINES_EVERY_S
            {
                *shown = clock::now();
                notice!("Loading: {:.0} % of {} bytes", loading.percent(), loading.total_bytes());
            }
        },
    };
    let summary = load_in_parallel(&file, &job).map_err(|error| failed(error.to_string()))?;
    mantissa_store::slab::forget_growth();
    skipping.conclude(&engine.persistence.partial, path);
    let codes = codes.into_inner();
    crate::scripting::with_machine(engine, |vm| {
        let policy = if present == Present::Replaced { Policy::Replace } else { Policy::Append };
        engine.scripting.libraries.restore(vm, &codes, policy, present == Present::None)
    })
    .map_err(|error| failed(format!("a library of functions does not load: {}", error.text())))?;
    engine.persistence.loaded_keys.store(summary.keys_loaded, Ordering::Relaxed);
    engine.persistence.loaded_expired.store(summary.keys_expired, Ordering::Relaxed);
    Ok(summary)
}

/// Why a dump can not be loaded, and what to do about it.
fn failure(path: &Path, reason: &str) -> String {
    let skips = match reason.contains("of a module") {
        true => ", or load it without what is of modules by 'rdb-skip-unknown-types yes'",
        false => "",
    };
    format!(
        "The dump {} can not be loaded: {reason}. Nothing was changed; repair or move the file, or look at \
         it with `mantissa check rdb`{skips}.",
        path.display()
    )
}

/// Makes the tables of a database as large as they will be.
fn reserve(keyspace: &Keyspace, database: usize, keys: u64) {
    let keys_of_one = usize::try_from(keys).unwrap_or(usize::MAX) / keyspace.shard_count();
    for index in 0..keyspace.shard_count() {
        let mut locked = keyspace.lock(ShardSet::one(index));
        let shard = locked.shard_mut(index);
        if let Some(database) = shard.and_then(|shard| shard.databases.get_mut(database)) {
            database.reserve(keys_of_one);
        }
    }
}
