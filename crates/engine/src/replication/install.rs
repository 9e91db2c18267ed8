//! Taking over a primary's data: a dump from its stream comes in the place of what is there.
//!
//! - Where nothing is there, and with `repl-diskless-load swapdb`, the stream is loaded into a private
//!   keyspace while clients are served what was there before. Then the databases, functions and the history
//!   are exchanged at one instant, with all shards locked. If anything fails before, all is as it was.
//! - Otherwise the stream goes to a file first, while clients are served. Once that is whole, and its
//!   checksum right, the data are removed and the file is loaded, and commands get -LOADING. It takes the
//!   memory of one data set, not of two.
//!
//! Keys that have expired are loaded: the primary's stream removes them. The append-only file begins anew
//! with the new data; what its manifest named before stays until the new base is there.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mantissa_commands::{Access, LazyFree};
use mantissa_config::DisklessLoad;
use mantissa_persist::format::{Checksum, Dialect, SIGNATURE_BYTES, VERSION_WITH_CHECKSUM};
use mantissa_persist::load::{LoadOptions, LoadTarget, Loader, Record};
use mantissa_store::Keyspace;
use mantissa_sys::simulation;
use parking_lot::MutexGuard;

use crate::call::with_held;
use crate::context::Context;
use crate::engine::{Engine, random_id};
use crate::lazy_free;
use crate::loading::{self, Present};
use crate::locking::Wanted;
use crate::replay;
use crate::scripting::functions::Policy;
use crate::state::replication::{History, OwnExpiries};

/// How often what waits looks whether it is still wanted, and tells the caller.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes that are put into a file at a time.
const BLOCK_BYTES: usize = 256 << 10;
/// Bytes of a dump's checksum.
const CHECKSUM_BYTES: usize = 8;

/// What is known of data that have been taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The database that the primary's stream has selected behind the dump.
    pub database: usize,
    /// The number of keys.
    pub keys: u64,
}

/// The primary's history and the number of bytes of it that the dump includes.
pub type Position = (String, u64);

/// Loads the dump that `payload` yields in the place of all data. `position` is where the stream goes on;
/// none where the primary has not told it. `progress` is called with the bytes received so far, several times
/// a second also while nothing is read. Once `cancelled` is true it ends with an error. An error leaves
/// everything as it was, unless the data had to go first (see above): then there are none, under a new
/// history. No shard may be locked by this thread.
pub fn install(
    engine: &Engine,
    payload: &mut dyn Read,
    position: Option<Position>,
    progress: &dyn Fn(u64),
    cancelled: &dyn Fn() -> bool,
) -> Result<Installed, String> {
    let position = position.unwrap_or_else(|| (random_id(), 0));
    let mut work = Work { engine, payload, progress, cancelled, received: 0, is_emptied: Cell::new(false) };
    let config = &engine.active_config().config;
    let is_aside = config.repl_diskless_load == DisklessLoad::Swapdb || is_empty(&engine.keyspace);
    let outcome = if is_aside {
        let total = engine.replication.link.dump_bytes.load(Ordering::Relaxed);
        engine.persistence.load.begin(u64::try_from(total).unwrap_or(0));
        let swaps = config.repl_diskless_load == DisklessLoad::Swapdb;
        engine.persistence.loading_aside.store(swaps, Ordering::Release);
        let outcome = work.load_aside(&position);
        engine.persistence.loading_aside.store(false, Ordering::Relaxed);
        outcome
    } else {
        work.load_spooled(&position)
    };
    outcome.map_err(|reason| match work.is_emptied.get() {
        true => format!("{reason}. The old data had been removed."),
        false => format!("{reason}. The old data stay."),
    })
}

fn is_empty(keyspace: &Keyspace) -> bool {
    let locked = keyspace.lock(keyspace.all_shards());
    (0..keyspace.shard_count())
        .filter_map(|index| locked.shard(index))
        .all(|shard| shard.databases.iter().all(|database| database.is_empty()))
}

/// The taking over of one dump. As a reader it yields the dump.
struct Work<'w> {
    engine: &'w Engine,
    payload: &'w mut dyn Read,
    progress: &'w dyn Fn(u64),
    cancelled: &'w dyn Fn() -> bool,
    received: u64,
    /// The old data are gone.
    is_emptied: Cell<bool>,
}

impl Read for Work<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.look().map_err(io::Error::other)?;
        let count = self.payload.read(buffer)?;
        self.received += count as u64;
        if self.engine.persistence.loading_aside.load(Ordering::Relaxed) {
            self.engine.persistence.load.loaded(count as u64);
        }
        (self.progress)(self.received);
        Ok(count)
    }
}

impl Work<'_> {
    /// Fails if the data are not wanted any more.
    fn look(&self) -> Result<(), String> {
        let stops = (self.cancelled)() || self.engine.stopping.load(Ordering::Relaxed);
        if stops { Err("it is not wanted any more".to_owned()) } else { Ok(()) }
    }

    /// Waits a little, if the data are still wanted.
    fn pause(&self, interval: Duration) -> Result<(), String> {
        self.look()?;
        (self.progress)(self.received);
        simulation::sleep(interval);
        Ok(())
    }

    /// Loads the stream into a private keyspace, and puts that in the place of the data.
    fn load_aside(&mut self, position: &Position) -> Result<Installed, String> {
        let engine = self.engine;
        let aside = Keyspace::new(engine.keyspace.database_count(), engine.keyspace.shard_count());
        let (summary, codes, database) = loading::load_stream(engine, &aside, &mut *self)?;
        let _no_snapshot = self.wait_for_snapshots()?;
        self.with_all_shards(false, |access| {
            replace_functions(engine, &codes)?;
            access.exchange_all(&mut aside.lock(aside.all_shards()));
            follow(engine, position);
            Ok(())
        })?;
        renew_log(engine);
        free(engine, &aside);
        Ok(Installed { database, keys: summary.keys_loaded })
    }

    /// Receives the stream into a file, and loads that once the data are removed.
    fn load_spooled(&mut self, position: &Position) -> Result<Installed, String> {
        let engine = self.engine;
        let name = format!("temp-{}-sync.rdb", std::process::id());
        let path = Path::new(&engine.active_config().config.dir).join(name);
        let outcome = self.spool(&path).and_then(|()| self.load_file(&path, position));
        let _may_not_be_there = engine.storage.remove(&path);
        outcome
    }

    /// Puts the stream into a file, and checks that it is a whole dump.
    fn spool(&mut self, path: &Path) -> Result<(), String> {
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let mut file = self.engine.storage.create_output(path).map_err(failed)?;
        let mut check = StreamCheck::default();
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            let count = self.read(&mut block).map_err(|error| error.to_string())?;
            if count == 0 {
                break;
            }
            check.take(&block[..count]);
            file.write_all(&block[..count]).map_err(failed)?;
        }
        file.sync().map_err(failed)?;
        check.conclude(self.engine.active_config().config.rdbchecksum)
    }

    /// Removes the data and loads a file, while commands are refused.
    fn load_file(&mut self, path: &Path, position: &Position) -> Result<Installed, String> {
        let engine = self.engine;
        let database = stream_database(engine, path)?;
        let _no_snapshot = self.wait_for_snapshots()?;
        let bytes = engine.storage.length_of(path);
        let mut old = None;
        self.with_all_shards(false, |access| {
            engine.persistence.begin_loading(bytes);
            access.take_all();
            old = access.take_databases();
            follow(engine, &(random_id(), 0));
            Ok(())
        })?;
        self.is_emptied.set(true);
        match engine.active_config().config.replica_lazy_flush {
            true => lazy_free::free(engine, old.map(counted)),
            false => drop(old),
        }
        let loaded = self.load_at_once(path);
        let mut outcome = Ok(());
        self.with_all_shards(true, |access| {
            outcome = loaded.clone().and_then(|keys| self.look().map(|()| keys)).map(drop);
            match outcome {
                Ok(()) => follow(engine, position),
                Err(_) => access.take_all(),
            }
            Ok(())
        })?;
        engine.persistence.loading.store(false, Ordering::Release);
        renew_log(engine);
        outcome.and(loaded).map(|keys| Installed { database, keys })
    }

    /// Loads a file into the keyspace, which is empty. Returns the number of its keys.
    fn load_at_once(&self, path: &Path) -> Result<u64, String> {
        let engine = self.engine;
        let load = || loading::load_file(engine, &engine.keyspace, path, Present::None, true);
        let summary = if simulation::is_active() {
            load()
        } else {
            let (is_done, waiting) = (AtomicBool::new(false), std::thread::current());
            std::thread::scope(|scope| {
                let loader = scope.spawn(|| {
                    let loaded = load();
                    is_done.store(true, Ordering::Release);
                    waiting.unpark();
                    loaded
                });
                while !is_done.load(Ordering::Acquire) && !loader.is_finished() {
                    (self.progress)(self.received);
                    std::thread::park_timeout(LOOK_INTERVAL);
                }
                loader.join().unwrap_or_else(|_| Err("loading failed".to_owned()))
            })
        };
        summary.map(|summary| summary.keys_loaded)
    }

    /// Ends background saves of what is about to go, and waits until no snapshot is under way.
    fn wait_for_snapshots(&self) -> Result<MutexGuard<'_, ()>, String> {
        let persistence = &self.engine.persistence;
        if let Some(guard) = persistence.snapshot.try_lock() {
            return Ok(guard);
        }
        self.with_all_shards(false, |_| {
            persistence.cuts.flushed.store(persistence.cuts.next(), Ordering::Relaxed);
            Ok(())
        })?;
        loop {
            self.pause(LOOK_INTERVAL)?;
            if let Some(guard) = persistence.snapshot.try_lock() {
                return Ok(guard);
            }
        }
    }

    /// Runs `work` with all shards locked, once no slow script holds one, and commits what it has done. Fails
    /// if the data are not wanted any more, unless it `insists`.
    fn with_all_shards(
        &self,
        insists: bool,
        mut work: impl FnMut(&mut Access<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        const RETRY_INTERVAL: Duration = Duration::from_millis(10);
        let engine = self.engine;
        let mut context = Context::new(engine, engine.link_number());
        let mut session = replay::session(&context);
        let all = Wanted::shards(engine.keyspace.all_shards());
        loop {
            let outcome = with_held(&mut context, &mut session, &all, true, |_, _, access| {
                // Who changes the role holds all shards.
                if insists { Ok(()) } else { self.look() }.and_then(|()| work(access))
            });
            match outcome {
                Ok(outcome) => {
                    context.outbox.end_iteration(false);
                    return outcome;
                }
                Err(_a_script_is_slow) if insists => simulation::sleep(RETRY_INTERVAL),
                Err(_a_script_is_slow) => self.pause(RETRY_INTERVAL)?,
            }
        }
    }
}

/// Has the data be those of a primary at this position. All shards must be locked.
fn follow(engine: &Engine, (id, offset): &Position) {
    let replication = &engine.replication;
    let end = engine.log.end();
    replication.set_history(History { id: id.clone(), second: None });
    replication.align(end, *offset);
    *replication.own_expiries.lock() = OwnExpiries::default();
    if let Some(kept) = &mut *replication.kept.lock() {
        (kept.first, kept.former) = (end, None);
    }
    // What this server's own replicas have been sent does not lead to these data.
    let replicas = replication.replicas.lock().clone();
    replicas.iter().for_each(|replica| engine.end_session(&replica.session));
    // The base that is being written has other data.
    engine.aof.rewrite.void();
    engine.backup.void();
}

/// Has the append-only file, if it is on, begin with the present data. No shard may be locked.
fn renew_log(engine: &Engine) {
    if let Some(begin_anew) = engine.aof_begins_anew.get() {
        begin_anew(engine);
    }
}

/// Puts libraries of functions in the place of those that are there.
fn replace_functions(engine: &Engine, codes: &[Vec<u8>]) -> Result<(), String> {
    let libraries = &engine.scripting.libraries;
    crate::scripting::with_machine(&engine.scripting, |vm| libraries.restore(vm, codes, Policy::Append, true))
        .map_err(|error| format!("a library of functions does not load: {}", error.text()))
}

/// Has the data of a private keyspace be freed in the background.
fn free(engine: &Engine, aside: &Keyspace) {
    let mut to_free = LazyFree::default();
    let mut locked = aside.lock(aside.all_shards());
    for index in 0..aside.shard_count() {
        let Some(shard) = locked.shard_mut(index) else { continue };
        to_free.databases.extend(shard.databases.iter_mut().filter_map(|database| database.take()));
    }
    drop(locked);
    let is_counted = engine.active_config().config.replica_lazy_flush;
    lazy_free::free(engine, if is_counted { counted(to_free) } else { to_free }.if_any());
}

/// The old data, whose keys count as freed lazily: `lazyfreed_objects`.
fn counted(to_free: LazyFree) -> LazyFree {
    let lazy_objects = to_free.databases.iter().map(|database| database.len() as u64).sum();
    LazyFree { lazy_objects, ..to_free }
}

/// The database that a dump says the stream has selected.
fn stream_database(engine: &Engine, path: &Path) -> Result<usize, String> {
    let file = engine.storage.open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut facts = Facts(0);
    // It ends with an error where the facts end; damage is found by who loads all of it.
    let _ends_early = Loader::new(file, None, LoadOptions::default()).load(&mut facts);
    Ok(facts.0)
}

/// Reads the database of the stream from the facts at the start of a dump.
struct Facts(usize);

impl LoadTarget for Facts {
    fn select(&mut self, _database: usize) -> Result<(), String> {
        Err(String::new())
    }

    fn insert(&mut self, _record: Record<'_>) -> Result<(), String> {
        Err(String::new())
    }

    fn function(&mut self, _source: &[u8]) -> Result<(), String> {
        Err(String::new())
    }

    fn describe(&mut self, name: &[u8], value: &[u8]) {
        self.0 = loading::stream_database(name, value).unwrap_or(self.0);
    }
}

/// Checks that bytes on their way are a whole dump.
#[derive(Default)]
struct StreamCheck {
    checksum: Checksum,
    signature: Vec<u8>,
    /// The last bytes, which may be the checksum.
    tail: Vec<u8>,
}

impl StreamCheck {
    fn take(&mut self, bytes: &[u8]) {
        let missing = SIGNATURE_BYTES - self.signature.len();
        self.signature.extend_from_slice(&bytes[..missing.min(bytes.len())]);
        let kept = CHECKSUM_BYTES.saturating_sub(bytes.len());
        let known = self.tail.len().saturating_sub(kept);
        self.checksum.update(&self.tail[..known]);
        self.tail.drain(..known);
        let (sure, tail) = bytes.split_at(bytes.len().saturating_sub(CHECKSUM_BYTES));
        self.checksum.update(sure);
        self.tail.extend_from_slice(tail);
    }

    fn conclude(&self, verifies_checksum: bool) -> Result<(), String> {
        let Some((_, version)) = Dialect::of_signature(&self.signature) else {
            return Err("what was received is no RDB file".to_owned());
        };
        let Ok(stated) = <[u8; CHECKSUM_BYTES]>::try_from(&self.tail[..]).map(u64::from_le_bytes) else {
            return Err("what was received is too short for an RDB file".to_owned());
        };
        let is_right = version < VERSION_WITH_CHECKSUM || stated == 0 || stated == self.checksum.value();
        if verifies_checksum && !is_right {
            return Err("what was received has a wrong checksum".to_owned());
        }
        Ok(())
    }
}
