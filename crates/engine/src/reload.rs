//! Loading files in the place of the data, as one command: DEBUG RELOAD and DEBUG LOADAOF.
//!
//! All shards are locked from before the data are saved until what was loaded is in place. So no client sees
//! a state in between, and nothing is written between what is saved and what is loaded. Meanwhile the
//! databases are exchanged with those of a private keyspace, which several threads save and load as usual.
//!
//! Other clients wait for their shards. While a large file is loaded they get -LOADING instead, as they do
//! from redis-server.

use mantissa_sys::simulation;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_commands::{Access, Error, Outcome};
use mantissa_store::Keyspace;

use crate::call::with_held;
use crate::engine::Engine;
use crate::invocation::Invocation;
use crate::loading::{self, Present};
use crate::locking::Wanted;
use crate::persistence::dump_path;
use crate::snapshot::{self, Pace};
use crate::{aof, lazy_free, notice, persistence, warning};

/// How DEBUG RELOAD is to work.
#[derive(Clone, Copy)]
pub struct Options {
    /// The data are saved first; else the file is loaded as it is.
    pub saves: bool,
    /// The data are removed before the file is loaded.
    pub flushes: bool,
    /// Keys of the file replace those of the data; else a key in both is an error.
    pub merges: bool,
}

/// DEBUG RELOAD.
pub fn reload(invocation: &mut Invocation<'_, '_, '_>, options: Options) -> Outcome {
    const BUSY: Error =
        Error::fixed("ERR DEBUG RELOAD is not possible inside a transaction while data are saved");
    let persistence = &invocation.engine().persistence;
    let (_writing, _snapshot) = if invocation.in_transaction() {
        // Who holds these may wait for the shards that the transaction holds.
        let writing = persistence.writing.try_lock().ok_or(BUSY)?;
        (writing, persistence.snapshot.try_lock().ok_or(BUSY)?)
    } else {
        (persistence.writing.lock(), persistence.snapshot.lock())
    };
    with_all_shards(invocation, |engine, access| reload_locked(engine, access, options))?;
    notice!("DB reloaded by DEBUG RELOAD");
    Ok(())
}

/// DEBUG LOADAOF. Nothing is logged meanwhile.
pub fn load_log(invocation: &mut Invocation<'_, '_, '_>) -> Outcome {
    const POLL_INTERVAL: Duration = Duration::from_millis(1);
    if invocation.in_transaction() {
        return Err(Error::fixed("ERR DEBUG LOADAOF is not possible inside a transaction"));
    }
    let is_rewriting = |engine: &Engine| engine.aof.rewrite.is_running();
    let mut outcome = None;
    while outcome.is_none() {
        while is_rewriting(invocation.engine()) {
            simulation::sleep(POLL_INTERVAL);
        }
        outcome = with_all_shards(invocation, |engine, access| {
            // The files are about to change where a rewrite has begun meanwhile.
            Ok((!is_rewriting(engine)).then(|| load_log_locked(engine, access)))
        })?;
    }
    outcome.unwrap_or(Ok(())).map_err(|reason| {
        warning!("{reason}");
        Error::fixed("ERR Error trying to load the AOF files, check server logs.")
    })?;
    notice!("Append Only File loaded by DEBUG LOADAOF");
    Ok(())
}

/// Runs `work` with all shards locked: by the transaction, or for just this.
fn with_all_shards<R>(
    invocation: &mut Invocation<'_, '_, '_>,
    work: impl FnOnce(&Engine, &mut Access<'_>) -> Outcome<R>,
) -> Outcome<R> {
    let engine = invocation.engine();
    if let Some(access) = &mut invocation.access {
        return work(engine, access);
    }
    let all = Wanted::shards(engine.keyspace.all_shards());
    with_held(invocation.context, invocation.session, &all, true, |_, _, access| work(engine, access))?
}

fn reload_locked(engine: &Engine, access: &mut Access<'_>, options: Options) -> Outcome {
    let aside = Keyspace::new(engine.keyspace.database_count(), engine.keyspace.shard_count());
    if options.saves {
        loading::exchange(access.locked_mut(), &aside);
        let saved = persistence::publish(engine, |file| {
            snapshot::write_keyspace(engine, &aside, file, &snapshot::facts(), Pace::Hasty, |_| {})
        });
        loading::exchange(access.locked_mut(), &aside);
        saved.map_err(|error| {
            warning!("DEBUG RELOAD could not save: {error}");
            Error::fixed("ERR")
        })?;
    }
    let path = dump_path(&engine.active_config());
    if !options.flushes {
        let present = if options.merges { Present::Replaced } else { Present::Kept };
        loading::exchange(access.locked_mut(), &aside);
        let loaded = load_dump(engine, &aside, &path, present);
        loading::exchange(access.locked_mut(), &aside);
        return loaded.map(drop);
    }
    // A file that was just written can be read, and the memory is needed. Another one may not even exist.
    if options.saves {
        empty(engine, access);
    }
    load_dump(engine, &aside, &path, Present::None)?;
    if !options.saves {
        empty(engine, access);
    }
    loading::exchange(access.locked_mut(), &aside);
    Ok(())
}

fn load_log_locked(engine: &Engine, access: &mut Access<'_>) -> Result<(), String> {
    aof::drain(engine);
    let was_logged = engine.keyspace.is_logged();
    engine.keyspace.set_logged(false);
    empty(engine, access);
    engine.scripting.libraries.flush();
    let _loading = LoadGuard::begin(engine, engine.aof.bytes());
    access.begin_loading();
    let outcome = aof::load::load(engine, Some(access));
    engine.keyspace.set_logged(was_logged);
    access.end_loading();
    match outcome? {
        Some(_) => Ok(()),
        None => Err("There is no append only file".to_owned()),
    }
}

fn load_dump(engine: &Engine, aside: &Keyspace, path: &Path, present: Present) -> Outcome {
    let _loading = LoadGuard::begin(engine, engine.storage.length_of(path));
    loading::load_file(engine, aside, path, present, false).map(drop).map_err(|reason| {
        warning!("{reason}");
        Error::fixed("ERR Error trying to load the RDB dump, check server logs.")
    })
}

/// Removes all data, and has what they took be freed.
fn empty(engine: &Engine, access: &mut Access<'_>) {
    access.take_all();
    lazy_free::free(engine, access.take_databases());
}

/// A load with all shards locked, until it is dropped.
struct LoadGuard<'e>(&'e Engine);

impl<'e> LoadGuard<'e> {
    /// Refuses the commands of others if the files are large.
    fn begin(engine: &'e Engine, bytes: u64) -> Self {
        let interval_bytes = engine.active_config().config.loading_process_events_interval_bytes;
        if bytes >= u64::from(interval_bytes) {
            engine.persistence.reloading.store(true, Ordering::Relaxed);
            engine.persistence.begin_loading(bytes);
        } else {
            engine.persistence.load.begin(bytes);
        }
        LoadGuard(engine)
    }
}

impl Drop for LoadGuard<'_> {
    fn drop(&mut self) {
        self.0.persistence.loading.store(false, Ordering::Release);
        self.0.persistence.reloading.store(false, Ordering::Relaxed);
    }
}
