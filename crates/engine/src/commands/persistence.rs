//! SAVE, BGSAVE, BGREWRITEAOF, LASTSAVE, SHUTDOWN.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_commands::spec::{Categories, Flags, Group, Traits};
use mantissa_commands::{Error, Locks, Outcome, TimeoutReply, parse};
use mantissa_protocol::{Args, Reply};

use crate::engine::Engine;
use crate::invocation::{EngineSpec, Invocation};
use crate::persistence;
use crate::replication::waits;
use crate::session::BlockedClient;
use crate::snapshot::Pace;
use crate::{aof, blocking, notice, warning};
use mantissa_config::ShutdownFlags;

fn save(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let engine = invocation.engine();
    if engine.persistence.saving.load(Ordering::Acquire) {
        return Err(Error::fixed("ERR Background save already in progress"));
    }
    check_overwriting(engine)?;
    match persistence::save(engine, Pace::Hasty) {
        Ok(()) => reply.ok(),
        Err(error) => {
            let path = persistence::dump_path(&engine.active_config());
            warning!("Error saving the DB on disk: {}: {error}", path.display());
            return Err(Error::fixed("ERR"));
        }
    }
    Ok(())
}

/// Refuses to overwrite a dump that was loaded in part.
fn check_overwriting(engine: &Engine) -> Outcome {
    match persistence::overwrite_refusal(engine) {
        None => Ok(()),
        Some(reason) => Err(Error::new(format!("ERR {reason}"))),
    }
}

fn bgsave(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if invocation.engine().scripting.is_busy() {
        return Err(invocation.engine().scripting.busy_error());
    }
    let schedule = match args.get(1) {
        None => false,
        Some(option) if args.len() == 2 && parse::is(option, "SCHEDULE") => true,
        // Valkey's option.
        Some(option) if args.len() == 2 && parse::is(option, "CANCEL") => {
            if !persistence::cancel_background_save(invocation.engine()) {
                return Err(Error::fixed("ERR Background saving is currently not in progress or scheduled"));
            }
            reply.simple("Background saving cancelled");
            return Ok(());
        }
        Some(_) => return Err(Error::SYNTAX),
    };
    let engine = invocation.engine();
    check_overwriting(engine)?;
    if engine.aof.rewrite.is_running() && !engine.persistence.saving.load(Ordering::Acquire) {
        if schedule {
            engine.persistence.scheduled.store(true, Ordering::Relaxed);
            reply.simple("Background saving scheduled");
            return Ok(());
        }
        return Err(Error::fixed(
            "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in \
             order to schedule a BGSAVE whenever possible.",
        ));
    }
    match start_background_save(invocation, args, reply) {
        Ok(()) => {}
        Err(_) if schedule => {
            engine.persistence.scheduled.store(true, Ordering::Relaxed);
            reply.simple("Background saving scheduled");
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Starts a background save. The client gets its reply after the instant whose state is saved: what it sends
/// then is not in the file. In a transaction it cannot wait for that.
fn start_background_save(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    const STARTED: &str = "Background saving started";
    let failed = |reason| Error::new(format!("ERR {reason}"));
    let engine = invocation.engine();
    if invocation.in_transaction() {
        persistence::start_background_save(engine, |_| {}).map_err(failed)?;
        reply.simple(STARTED);
        return Ok(());
    }
    let session = &mut *invocation.session;
    let blocked = blocking::waiting_without_keys(engine, session, args, None, TimeoutReply::Never)?;
    let waits = Arc::clone(&blocked);
    let at_cut = move |engine: &Engine| {
        let mut reply = Reply::new(waits.protocol);
        reply.simple(STARTED);
        blocking::release(engine, &waits, reply.into_bytes());
    };
    persistence::start_background_save(engine, at_cut).map_err(failed)?;
    blocking::wait(engine, session, blocked);
    Ok(())
}

fn bgrewriteaof(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let engine = invocation.engine();
    if let Some(reason) = aof::rewrite::refusal(engine) {
        return Err(Error::new(format!("ERR {reason}")));
    }
    if engine.aof.rewrite.is_running() {
        return Err(Error::fixed("ERR Background append only file rewriting already in progress"));
    }
    if engine.persistence.saving.load(Ordering::Acquire) || invocation.in_transaction() {
        engine.aof.rewrite.is_scheduled.store(true, Ordering::Relaxed);
        engine.aof.rewrite.allow_at_once();
        reply.simple("Background append only file rewriting scheduled");
        return Ok(());
    }
    aof::rewrite::start(engine).map_err(|reason| {
        warning!("{reason}");
        Error::fixed(
            "ERR Can't execute an AOF background rewriting. Please check the server logs for more \
             information.",
        )
    })?;
    reply.simple("Background append only file rewriting started");
    Ok(())
}

fn lastsave(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.integer(invocation.engine().persistence.last_save_s.load(Ordering::Relaxed));
    Ok(())
}

const FAILED_SHUTDOWN: &str = "ERR Errors trying to SHUTDOWN. Check logs.";

fn shutdown(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (mut flags, mut abort) = (ShutdownFlags::default(), false);
    for option in args.from(1) {
        let flag = match option {
            _ if parse::is(option, "SAVE") => &mut flags.save,
            _ if parse::is(option, "NOSAVE") => &mut flags.nosave,
            _ if parse::is(option, "NOW") => &mut flags.now,
            _ if parse::is(option, "FORCE") => &mut flags.force,
            _ if parse::is(option, "SAFE") => &mut flags.safe,
            _ if parse::is(option, "FAILOVER") => &mut flags.failover,
            _ if parse::is(option, "ABORT") => &mut abort,
            _ => return Err(Error::SYNTAX),
        };
        *flag = true;
    }
    if (flags.save && flags.nosave) || (abort && flags != ShutdownFlags::default()) {
        return Err(Error::SYNTAX);
    }
    if abort {
        if !waits::abort_shutdown(invocation.engine()) {
            return Err(Error::fixed("ERR No shutdown in progress."));
        }
        notice!("Shutdown manually aborted.");
        reply.ok();
        return Ok(());
    }
    let engine = invocation.engine();
    // The script may have shards that a dump needs, on this very thread.
    if engine.scripting.is_busy() && !flags.nosave {
        return Err(engine.scripting.busy_error());
    }
    notice!("User requested shutdown...");
    // What has been loaded so far is not what there is.
    let is_loading = engine.persistence.loading.load(Ordering::Acquire);
    if !is_loading && !invocation.in_transaction() && waits::delays_shutdown(engine, flags) {
        return shut_down_later(invocation, args, flags);
    }
    if !is_loading && !persistence::save_before_exit(engine, flags) {
        warning!("{}", persistence::FAILED_SHUTDOWN_LOG);
        return Err(Error::fixed(FAILED_SHUTDOWN));
    }
    engine.persistence.ends_unsaved.store(flags.nosave, Ordering::Relaxed);
    let ends = engine.host().shut_down(0);
    if !ends {
        engine.persistence.ends_unsaved.store(false, Ordering::Relaxed);
        persistence::go_on(engine);
    }
    reply.truncate(0);
    let in_transaction = invocation.in_transaction();
    let session = &mut *invocation.session;
    if ends && !in_transaction {
        // Its connection ends with the process, so that who sees its end finds nobody listening.
        let blocked = blocking::waiting_without_keys(engine, session, args, None, TimeoutReply::Never)?;
        blocking::wait(engine, session, blocked);
    } else {
        session.killed = true;
    }
    Ok(())
}

/// Shuts down once the replicas have everything. The client waits.
fn shut_down_later(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, flags: ShutdownFlags) -> Outcome {
    let (engine, session) = (invocation.engine(), &mut *invocation.session);
    let blocked = blocking::waiting_without_keys(engine, session, args, None, TimeoutReply::Never)?;
    let begun = Arc::new(waits::begin_shutdown(engine, flags));
    blocking::wait(engine, session, Arc::clone(&blocked));
    let waiting = (Arc::clone(&blocked), Arc::clone(&begun));
    let fail = |engine: &Engine, blocked: &BlockedClient| {
        let mut reply = Reply::new(blocked.protocol);
        reply.error(FAILED_SHUTDOWN);
        blocking::release(engine, blocked, reply.into_bytes());
    };
    let body = move |engine: &Engine| {
        let waited = waits::before_shutdown(engine, &begun);
        if waited.is_some() && persistence::save_before_exit(engine, flags) {
            if !engine.host().shut_down(0) {
                persistence::go_on(engine);
            }
            return;
        }
        warning!("{}", persistence::FAILED_SHUTDOWN_LOG);
        waits::after_failed_shutdown(engine, waited);
        fail(engine, &blocked);
    };
    if let Err(error) = engine.spawn("shutdown", body) {
        warning!("A thread could not be started: {error}");
        waits::give_up_shutdown(engine, &waiting.1);
        fail(engine, &waiting.0);
    }
    Ok(())
}

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[
    EngineSpec::new(
        "save",
        1,
        save,
        Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::NO_ASYNC_LOADING).or(Flags::NO_MULTI),
    )
    .traits(Traits::WAITS_FOR_SHARDS)
    .docs(Group::Server, "1.0.0", "O(N), N being all keys", "Writes a dump while everybody waits."),
    EngineSpec::new("bgsave", -1, bgsave, Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::NO_ASYNC_LOADING))
        .locks(Locks::Nothing)
        .docs(
            Group::Server,
            "1.0.0",
            "O(1), the work is done in the background",
            "Writes a dump in the background.",
        )
        .history(&[("3.2.2", "SCHEDULE waits for one that is running.")])
        .arguments("schedule:pure-token@SCHEDULE?<3.2.2"),
    EngineSpec::new(
        "bgrewriteaof",
        1,
        bgrewriteaof,
        Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::NO_ASYNC_LOADING),
    )
    .locks(Locks::Nothing)
    .docs(
        Group::Server,
        "1.0.0",
        "O(1), the work is done in the background",
        "Replaces the append-only file by a short one with the same outcome, in the background.",
    ),
    EngineSpec::new("lastsave", 1, lastsave, Flags::LOADING.or(Flags::STALE).or(Flags::FAST))
        .locks(Locks::Nothing)
        .categories(Categories::ADMIN.or(Categories::DANGEROUS))
        .docs(Group::Server, "1.0.0", "O(1)", "Tells when the last dump was completed.")
        .tips(&["nondeterministic_output"]),
    EngineSpec::new(
        "shutdown",
        -1,
        shutdown,
        Flags::ADMIN
            .or(Flags::NOSCRIPT)
            .or(Flags::LOADING)
            .or(Flags::STALE)
            .or(Flags::NO_MULTI)
            .or(Flags::ALLOW_BUSY),
    )
    .docs(Group::Server, "1.0.0", "O(N) if a dump is written, N being all keys", "Ends the server.")
    .history(&[("7.0.0", "NOW, FORCE and ABORT were added.")])
    .arguments(
        "save-selector:oneof(nosave:pure-token@NOSAVE save:pure-token@SAVE)? now:pure-token@NOW?<7.0.0 \
         force:pure-token@FORCE?<7.0.0 abort:pure-token@ABORT?<7.0.0",
    ),
];
