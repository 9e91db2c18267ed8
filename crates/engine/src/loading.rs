//! Loading dumps into the keyspace.

use mantissa_sys::clock;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use mantissa_persist::delay::KeyDelay;
use mantissa_persist::load::{
    KeyUsage, KeyspaceTarget, LoadJob, LoadOptions, LoadSummary, LoadTarget, Loader, Prepare,
    load_in_parallel, load_stream_in_parallel,
};
use mantissa_store::{Keyspace, LockedShards, ShardSet};
use parking_lot::Mutex;

use crate::active_config::ActiveConfig;
use crate::engine::Engine;
use crate::notice;
use crate::scripting::functions::Policy;
use crate::skipping::{self, Skipping};
use crate::tier::offload::while_loading;
use mantissa_sys::clock::unix_ms;
use mantissa_sys::simulation;

/// Seconds between two lines of the log that say how far loading has come.
const LINES_EVERY_S: u64 = 2;

/// Threads that decode a stream: one thread does not read for more.
const STREAM_THREADS_MAX: usize = 8;

/// What happens to present keys when a dump is loaded.
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
/// expired: the log goes on from there. A replica keeps them too. No shard of it may be locked by this
/// thread.
pub fn load_file(
    engine: &Engine,
    keyspace: &Keyspace,
    path: &Path,
    present: Present,
    is_base: bool,
) -> Result<LoadSummary, String> {
    let active = engine.active_config();
    let failed = |reason: String| failure(path, &reason);
    let file = engine.storage.open_shared(path).map_err(|error| failed(error.to_string()))?;
    let now_ms = unix_ms();
    // Its primary says when they go.
    let is_replica = engine.replication.is_replica() || active.config.replicaof.is_some();
    let kept = active.settings.access_clock;
    let clock_of =
        |usage: KeyUsage| mantissa_commands::restored_clock(kept, usage.idle_s, usage.frequency, now_ms);
    let loading = &engine.persistence.load;
    let shown = Mutex::new(clock::now());
    let codes = Mutex::new(Vec::new());
    let skipping = Skipping::new(active.config.hide_user_data_from_log);
    let job = LoadJob {
        options: LoadOptions { skip_expired: !is_base && !is_replica, ..options(&active, now_ms) },
        threads: match simulation::is_active() {
            true => 1,
            false => std::thread::available_parallelism().map_or(1, usize::from),
        },
        work: &|run| {
            let mut none_locked = keyspace.lock(ShardSet::EMPTY);
            let replaces = present == Present::Replaced;
            let mut moves = while_loading(engine);
            let inner = KeyspaceTarget::new(&mut none_locked, &clock_of, replaces);
            let inner = inner.preparing(moves.as_mut().map(|moves| &mut **moves as &mut Prepare<'_>));
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
    let summary = load_in_parallel(&*file, &job).map_err(|error| failed(error.to_string()))?;
    shrink_to_fit(keyspace);
    mantissa_store::slab::forget_growth();
    skipping.conclude(&engine.persistence.partial, path);
    let codes = codes.into_inner();
    crate::scripting::with_machine(&engine.scripting, |vm| {
        let policy = if present == Present::Replaced { Policy::Replace } else { Policy::Append };
        engine.scripting.libraries.restore(vm, &codes, policy, present == Present::None)
    })
    .map_err(|error| failed(format!("a library of functions does not load: {}", error.text())))?;
    engine.persistence.loaded_keys.store(summary.keys_loaded, Ordering::Relaxed);
    engine.persistence.loaded_expired.store(summary.keys_expired, Ordering::Relaxed);
    Ok(summary)
}

fn options(active: &ActiveConfig, now_ms: i64) -> LoadOptions {
    LoadOptions {
        limits: active.settings.limits.clone(),
        now_ms,
        skip_expired: false,
        verify_checksum: active.config.rdbchecksum && mantissa_persist::payload::verifies_checksums(),
        skip_modules: active.config.rdb_skip_unknown_types,
        key_delay: KeyDelay(active.config.key_load_delay),
    }
}

/// Reads a dump from a stream, which ends with it, into a private keyspace: with one thread for each core, up
/// to eight, and one that reads. The others have a low priority, since the server serves clients meanwhile.
/// Keys that have expired are kept. Returns the libraries of functions as well, and the database that a
/// primary's stream has selected behind the dump.
pub fn load_stream(
    engine: &Engine,
    aside: &Keyspace,
    stream: &mut dyn Read,
) -> Result<(LoadSummary, Vec<Vec<u8>>, usize), String> {
    let (active, now_ms) = (engine.active_config(), unix_ms());
    let kept = active.settings.access_clock;
    let clock_of =
        |usage: KeyUsage| mantissa_commands::restored_clock(kept, usage.idle_s, usage.frequency, now_ms);
    let (codes, database) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    let reading_thread = std::thread::current().id();
    let work = |run: &mut dyn FnMut(&mut dyn LoadTarget)| {
        if std::thread::current().id() != reading_thread {
            mantissa_sys::scheduling::lower_priority();
        }
        let mut none_locked = aside.lock(ShardSet::EMPTY);
        let mut moves = while_loading(engine);
        let target = KeyspaceTarget::new(&mut none_locked, &clock_of, false);
        let mut target = target.preparing(moves.as_mut().map(|moves| &mut **moves as &mut Prepare<'_>));
        run(&mut target);
        let facts = target.facts.iter();
        if let Some(number) = facts.filter_map(|(name, value)| stream_database(name, value)).next_back() {
            database.store(number, Ordering::Relaxed);
        }
        codes.lock().append(&mut target.functions);
    };
    let options = options(&active, now_ms);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(STREAM_THREADS_MAX);
    // A delay is for tests that look at how far loading is.
    let loaded = if threads == 1 || simulation::is_active() || active.config.key_load_delay != 0 {
        let mut loader = Loader::new(&mut *stream, None, options);
        let mut loaded = Ok(LoadSummary::default());
        work(&mut |target| loaded = loader.load(target));
        loaded.map(|summary| (summary, loader.into_rest().0))
    } else {
        let reserve = |database, keys| reserve(aside, database, keys);
        let job = LoadJob { options, threads, work: &work, reserve: &reserve, progress: &|_| {} };
        load_stream_in_parallel(&mut *stream, &job)
    };
    let (summary, rest) = loaded.map_err(|error| error.to_string())?;
    let mut more = rest.as_slice().chain(stream).take(1);
    match more.read(&mut [0]) {
        Ok(0) => {}
        Ok(_) => return Err(format!("the dump ends at byte {}, but more follows", summary.bytes)),
        Err(error) => return Err(error.to_string()),
    }
    shrink_to_fit(aside);
    mantissa_store::slab::forget_growth();
    Ok((summary, codes.into_inner(), database.into_inner()))
}

/// The database of a fact about a dump, if it is that which a primary's stream has selected.
pub fn stream_database(name: &[u8], value: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(value).ok().filter(|_| name == b"repl-stream-db");
    text.and_then(|text| text.parse().ok())
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

/// Gives up what was reserved for keys that did not come, since they have expired.
fn shrink_to_fit(keyspace: &Keyspace) {
    /// Buckets that go while a shard is locked: about a tenth of a millisecond.
    const BUCKETS_MAX: usize = 4096;
    for index in 0..keyspace.shard_count() {
        for number in 0..keyspace.database_count() {
            loop {
                let mut locked = keyspace.lock(ShardSet::one(index));
                let shard = locked.shard_mut(index);
                let database = shard.and_then(|shard| shard.databases.get_mut(number));
                if !database.is_some_and(|database| database.shrink_to_fit(BUCKETS_MAX)) {
                    break;
                }
            }
        }
    }
}

/// Loads the base of a log. All shards are locked, and the databases are empty.
pub fn load_base(
    engine: &Engine,
    access: &mut mantissa_commands::Access<'_>,
    path: &Path,
) -> Result<LoadSummary, String> {
    let aside = Keyspace::new(engine.keyspace.database_count(), engine.keyspace.shard_count());
    let summary = load_file(engine, &aside, path, Present::None, true)?;
    exchange(access.locked_mut(), &aside);
    Ok(summary)
}

/// Exchanges the databases of all shards, which are locked, with those of another keyspace.
pub fn exchange(locked: &mut LockedShards<'_>, aside: &Keyspace) {
    let mut other = aside.lock(aside.all_shards());
    for index in 0..aside.shard_count() {
        if let (Some(ours), Some(theirs)) = (locked.shard_mut(index), other.shard_mut(index)) {
            std::mem::swap(&mut ours.databases, &mut theirs.databases);
        }
    }
}
