//! The append-only file: every change, as commands in the order of their commits.
//!
//! The commit of a command, transaction or script collects what it has for the log as one unit and appends
//! it while its shards are locked ([`crate::commit`]): so the order of the log is the order of commits on
//! every key. A thread of its own writes ([`writer`]). What is known of all that is in [`crate::state::aof`].
//!
//! Whether changes are logged is known to whoever holds a lock on a shard
//! ([`mantissa_store::Keyspace::is_logged`]); it changes while all are locked, at the cut of the snapshot
//! that the log begins with. While it is off a commit pays for a test of a flag.

pub mod backup;
pub mod files;
pub mod load;
pub mod rewrite;
pub mod writer;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_sys::simulation;

use crate::context::Context;
use crate::engine::Engine;
use crate::invocation::Invocation;
use crate::replication::{backlog, restore, waits};
use crate::state::aof::Files;
use crate::{notice, persistence, warning};

/// Wakes the workers that wait for more to be confirmed, and serves the clients in WAITAOF for which
/// enough is durable, or never will be, where `is_lost`.
fn tell_waiters(engine: &Engine, is_lost: bool) {
    let aof = &engine.aof;
    for (worker, waits) in aof.waiting.iter().enumerate() {
        if waits.swap(false, Ordering::SeqCst) {
            engine.wake(worker);
        }
    }
    waits::serve(engine, is_lost);
}

/// Appends what a command had for the log when it failed inside the server: what the commands before it in
/// the same transaction or script have changed is not undone.
pub fn append_unfinished(context: &mut Context) {
    let outbox = &mut context.outbox;
    if context.engine.replication.is_replica() {
        // Its log is its primary's stream.
        outbox.unit.clear();
    }
    if !outbox.unit.is_empty() {
        let lsn = context.engine.log.append(&mut outbox.unit, 0);
        outbox.note_logged(lsn);
    }
}

/// Has commands be refused until [`start`] has loaded what there is. To be called before anybody is served.
pub fn begin_loading(engine: &Engine) {
    let config = &engine.active_config().config;
    let logged = if config.appendonly { load::byte_count(engine) } else { None };
    engine.persistence.begin_loading(logged.unwrap_or_else(|| persistence::dump_bytes(engine)));
}

/// Loads what there is, and begins to log if that is configured. Nobody is served yet. A dump is read where
/// there is no append-only file, so that switching it on in the configuration loses nothing.
pub fn start(engine: &Engine) -> Result<(), String> {
    let active = engine.active_config();
    start_without_files(engine)?;
    let loaded = if active.config.appendonly { load::load(engine, None)? } else { None };
    let replication = match loaded {
        Some(loaded) => loaded.replication,
        None => persistence::load(engine)?,
    };
    if let Some(facts) = replication {
        restore::restore(engine, &facts);
    }
    // It may have been changed meanwhile.
    if engine.active_config().config.appendonly {
        files::open_at_start(engine)?;
    }
    backup::adopt(engine);
    crate::replication::role::begin(engine);
    Ok(())
}

/// Starts the thread that writes. A server that gets its data from another opens its files later.
pub fn start_without_files(engine: &Engine) -> Result<(), String> {
    persistence::begin(engine);
    let _it_is_started_once = engine.aof_begins_anew.set(begin_anew);
    engine.aof.configure(&engine.active_config().config);
    writer::start(engine).map_err(|error| format!("Could not start a thread: {error}"))
}

/// Begins anew with the present data, where the log is on. No shard may be locked by this thread.
fn begin_anew(engine: &Engine) {
    if engine.active_config().config.appendonly {
        switch_off(engine);
        switch_on(engine);
    }
}

/// Waits until everything that was logged is written, and durable. All shards must be locked, and no rewrite
/// be under way.
pub fn drain(engine: &Engine) {
    let path = engine.aof.files.lock().as_ref().and_then(Files::last_increment);
    if let Some(path) = path {
        let (sender, written) = std::sync::mpsc::channel::<()>();
        let storage = Arc::clone(&engine.storage);
        let next = Box::new(move |_| {
            drop(sender);
            storage.append(&path).map(Some)
        });
        engine.aof.control.switch_at(next, &engine.stream_facts());
        let _all_senders_are_gone_when_it_is_written = simulation::receive(&written);
    }
}

/// Has the log be switched on: by a rewrite, which begins at once or when nothing is in its way.
pub fn switch_on(engine: &Engine) {
    if engine.persistence.loading.load(Ordering::Acquire) {
        // It is looked at when that is done.
        return;
    }
    let is_busy = engine.persistence.saving.load(Ordering::Acquire);
    if is_busy || rewrite::start(engine).is_err() {
        engine.aof.rewrite.is_scheduled.store(true, Ordering::Relaxed);
        notice!(
            "AOF was enabled but there is already another background operation. An AOF background was \
             scheduled to start when possible."
        );
    }
}

/// Switches the log off for a command. Inside a transaction it is off when that has ended.
pub fn switch_off_for(invocation: &mut Invocation<'_, '_, '_>) {
    let engine = invocation.engine();
    if engine.persistence.loading.load(Ordering::Acquire) {
        return;
    }
    if invocation.in_transaction() {
        let started = engine.spawn("aof-off", switch_off);
        if let Err(error) = started {
            warning!("The append-only file could not be switched off: {error}");
        }
    } else {
        switch_off(engine);
    }
}

/// Switches the log off. No shard may be locked by this thread.
fn switch_off(engine: &Engine) {
    engine.aof.rewrite.switching_off.fetch_add(1, Ordering::SeqCst);
    let locked = engine.keyspace.lock(engine.keyspace.all_shards());
    engine.aof.is_logging.store(false, Ordering::Relaxed);
    backlog::settle_logging(engine);
    if engine.aof.rewrite.is_running() {
        notice!("Killing running AOF rewrite child: what it writes is not wanted any more");
    }
    engine.aof.rewrite.void();
    engine.aof.rewrite.is_scheduled.store(false, Ordering::Relaxed);
    drop(locked);
    finish(engine);
    engine.aof.is_listed.store(false, Ordering::Relaxed);
    *engine.aof.files.lock() = None;
    engine.aof.write_failed.store(false, Ordering::Relaxed);
    engine.aof.forget_loss();
    rewrite::wait_for_void(engine);
    engine.aof.rewrite.switching_off.fetch_sub(1, Ordering::SeqCst);
    waits::serve(engine, false);
}

/// Makes everything durable that was logged, and closes the log. No shard may be locked by this thread.
pub fn finish(engine: &Engine) {
    let (sender, closed) = std::sync::mpsc::channel();
    let ends = engine.stopping.load(Ordering::Relaxed).then(|| engine.share());
    if ends.is_some() {
        // A cut that is under way changes the file before it is closed. Later ones change nothing.
        drop(engine.keyspace.lock(engine.keyspace.all_shards()));
    }
    engine.aof.control.close(move || {
        if let Some(engine) = ends {
            engine.aof.has_ended.store(true, Ordering::Relaxed);
        }
        drop(sender);
    });
    simulation::yield_point();
    let _all_senders_are_gone_when_it_is_closed: Result<(), _> = simulation::receive(&closed);
    engine.log.kick();
}
