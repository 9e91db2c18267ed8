//! Loading files in the place of the data, as one command: DEBUG RELOAD and DEBUG LOADAOF.
//!
//! All shards are locked from before the data are saved until what was loaded is in place. So no client sees
//! a state in between, and nothing is written between what is saved and what is loaded. Meanwhile the
//! databases are exchanged with those of a keyspace that nobody else knows, where several threads save and
//! load them as usual.
//!
//! Other clients wait for their shards. While a large file is loaded they get -LOADING instead, as they do
//! from redis-server.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_commands::{Access, Error, Outcome};
use mantissa_persist::load::LoadSummary;
use mantissa_store::{Keyspace, LockedShards};

use crate::loading::{self, Present};
use crate::persistence::dump_path;
use crate::server::Server;
use crate::session::{Session, run_as_one};
use crate::snapshot::{self, Pace};
use crate::{aof, notice, persistence, warning};

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
pub fn reload(session: &mut Session<'_, '_>, options: Options) -> Outcome {
    const BUSY: Error =
        Error::fixed("ERR DEBUG RELOAD is not possible inside a transaction while data are saved");
    let persistence = &session.server().persistence;
    let (_writing, _snapshot) = if session.in_transaction() {
        // Who holds these may wait for the shards that the transaction holds.
        let writing = persistence.writing.try_lock().ok_or(BUSY)?;
        (writing, persistence.snapshot.try_lock().ok_or(BUSY)?)
    } else {
        (persistence.writing.lock(), persistence.snapshot.lock())
    };
    with_all_shards(session, |server, access| reload_locked(server, access, options))?;
    notice!("DB reloaded by DEBUG RELOAD");
    Ok(())
}

/// DEBUG LOADAOF. Nothing is logged meanwhile.
pub fn load_log(session: &mut Session<'_, '_>) -> Outcome {
    const PATIENCE: Duration = Duration::from_millis(1);
    if session.in_transaction() {
        return Err(Error::fixed("ERR DEBUG LOADAOF is not possible inside a transaction"));
    }
    let is_rewriting = |server: &Server| server.aof.rewrite.is_running();
    let mut outcome = None;
    while outcome.is_none() {
        while is_rewriting(session.server()) {
            std::thread::sleep(PATIENCE);
        }
        outcome = with_all_shards(session, |server, access| {
            // The files are about to change where a rewrite has begun meanwhile.
            Ok((!is_rewriting(server)).then(|| load_log_locked(server, access)))
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
    session: &mut Session<'_, '_>,
    work: impl FnOnce(&'static Server, &mut Access<'_>) -> Outcome<R>,
) -> Outcome<R> {
    let server = session.server();
    if let Some(access) = &mut session.access {
        return work(server, access);
    }
    let all = server.keyspace.all_shards();
    run_as_one(session.context, session.client, all, true, |_, _, access| work(server, access))?
}

fn reload_locked(server: &'static Server, access: &mut Access<'_>, options: Options) -> Outcome {
    let aside = Keyspace::new(server.keyspace.database_count(), server.keyspace.shard_count());
    if options.saves {
        exchange(access.locked_mut(), &aside);
        let saved = persistence::publish(server, |file| {
            snapshot::write_keyspace(server, &aside, file, &snapshot::facts(), Pace::Hasty, |_| {})
        });
        exchange(access.locked_mut(), &aside);
        saved.map_err(|error| {
            warning!("DEBUG RELOAD could not save: {error}");
            Error::fixed("ERR")
        })?;
    }
    let path = dump_path(&server.live());
    if !options.flushes {
        let present = if options.merges { Present::Replaced } else { Present::Kept };
        exchange(access.locked_mut(), &aside);
        let loaded = load_dump(server, &aside, &path, present);
        exchange(access.locked_mut(), &aside);
        return loaded.map(drop);
    }
    // A file that was just written can be read, and the memory is needed. Another one may not even exist.
    if options.saves {
        empty(server, access);
    }
    load_dump(server, &aside, &path, Present::None)?;
    if !options.saves {
        empty(server, access);
    }
    exchange(access.locked_mut(), &aside);
    Ok(())
}

fn load_log_locked(server: &'static Server, access: &mut Access<'_>) -> Result<(), String> {
    aof::drain(server);
    let was_logged = server.keyspace.is_logged();
    server.keyspace.set_logged(false);
    empty(server, access);
    server.scripting.libraries.flush();
    let _loading = Loading::begin(server, server.aof.bytes());
    access.begin_loading();
    let outcome = aof::load::load(server, Some(access));
    server.keyspace.set_logged(was_logged);
    access.end_loading();
    match outcome? {
        true => Ok(()),
        false => Err("There is no append only file".to_owned()),
    }
}

/// Loads the base of a log. All shards are locked, and the databases are empty.
pub fn load_base(
    server: &'static Server,
    access: &mut Access<'_>,
    path: &Path,
) -> Result<LoadSummary, String> {
    let aside = Keyspace::new(server.keyspace.database_count(), server.keyspace.shard_count());
    let summary = loading::load_file(server, &aside, path, Present::None, true)?;
    exchange(access.locked_mut(), &aside);
    Ok(summary)
}

fn load_dump(server: &'static Server, aside: &Keyspace, path: &Path, present: Present) -> Outcome {
    let _loading = Loading::begin(server, std::fs::metadata(path).map_or(0, |metadata| metadata.len()));
    loading::load_file(server, aside, path, present, false).map(drop).map_err(|reason| {
        warning!("{reason}");
        Error::fixed("ERR Error trying to load the RDB dump, check server logs.")
    })
}

/// Removes all data, and has what they took be freed.
fn empty(server: &'static Server, access: &mut Access<'_>) {
    access.take_all();
    server.free(access.take_databases());
}

/// Exchanges the databases of all shards, which are locked, with those of another keyspace.
fn exchange(locked: &mut LockedShards<'_>, aside: &Keyspace) {
    let mut other = aside.lock(aside.all_shards());
    for index in 0..aside.shard_count() {
        if let (Some(ours), Some(theirs)) = (locked.shard_mut(index), other.shard_mut(index)) {
            std::mem::swap(&mut ours.databases, &mut theirs.databases);
        }
    }
}

/// A load with all shards locked, until it is dropped.
struct Loading(&'static Server);

impl Loading {
    /// Refuses the commands of others if the files are large.
    fn begin(server: &'static Server, bytes: u64) -> Self {
        let interval_bytes = server.live().config.loading_process_events_interval_bytes;
        server.persistence.load.begin();
        if bytes >= u64::from(interval_bytes) {
            server.persistence.reloading.store(true, Ordering::Relaxed);
            server.persistence.loading.store(true, Ordering::Release);
        }
        Loading(server)
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.0.persistence.loading.store(false, Ordering::Release);
        self.0.persistence.reloading.store(false, Ordering::Relaxed);
    }
}
