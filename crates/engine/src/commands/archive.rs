//! MANTISSA.ARCHIVE: has a snapshot be made for the archive, and tells what is known of those that were.

use std::sync::atomic::Ordering::Relaxed;

use mantissa_commands::spec::{Flags, Group};
use mantissa_commands::{Error, Locks, Outcome, parse};
use mantissa_protocol::{Args, Reply};

use super::{write_help, wrong_subcommand};
use crate::invocation::{EngineSpec, Invocation};

const HELP: &[(&str, &str)] = &[
    ("LIST [<count>]", "Lists the newest snapshots in the archive, as when it was looked at last."),
    ("NOW", "Has a snapshot be made in the background. Its reply comes when that begins."),
    ("STATUS", "Tells when and how the last snapshot was made, and how far the log in the archive reaches."),
];

fn archive(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let what = args.at(1);
    if parse::is(what, "LIST") && args.len() <= 3 {
        return list(invocation, args, reply);
    }
    if args.len() != 2 {
        return Err(wrong_subcommand(args));
    }
    if parse::is(what, "NOW") {
        now(invocation, reply)
    } else if parse::is(what, "STATUS") {
        status(invocation, reply);
        Ok(())
    } else if parse::is(what, "HELP") {
        write_help(reply, "MANTISSA.ARCHIVE", HELP);
        Ok(())
    } else {
        Err(wrong_subcommand(args))
    }
}

fn now(invocation: &mut Invocation<'_, '_, '_>, reply: &mut Reply) -> Outcome {
    let engine = invocation.engine();
    if engine.active_config().config.archive_url.is_empty() {
        return Err(Error::fixed("ERR There is no archive: archive-url has to name it"));
    }
    if !engine.archive.ask() {
        return Err(Error::fixed("ERR A snapshot for the archive is already in progress"));
    }
    reply.simple("Background archiving started");
    Ok(())
}

fn list(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let count = match args.get(2) {
        Some(count) => {
            parse::integer_in(count, 0, i64::MAX, "ERR value is out of range, must be positive")? as usize
        }
        None => usize::MAX,
    };
    let newest = invocation.engine().archive.newest.lock();
    reply.array(newest.len().min(count));
    for snapshot in newest.iter().take(count) {
        let texts = [
            ("name", &snapshot.name),
            ("source", &snapshot.source),
            ("tag", &snapshot.tag),
            ("error", &snapshot.error),
        ];
        let numbers = [
            ("time-ms", snapshot.time_ms),
            ("keys", snapshot.keys),
            ("bytes", snapshot.bytes),
            ("new-bytes", snapshot.new_bytes),
            ("stored-bytes", snapshot.stored_bytes),
        ];
        reply.map(texts.len() + numbers.len());
        for (key, text) in texts {
            reply.bulk(key.as_bytes());
            reply.bulk(text.as_bytes());
        }
        for (key, number) in numbers {
            reply.bulk(key.as_bytes());
            reply.integer(number as i64);
        }
    }
    Ok(())
}

fn status(invocation: &mut Invocation<'_, '_, '_>, reply: &mut Reply) {
    let engine = invocation.engine();
    let (archive, active) = (&engine.archive, engine.active_config());
    let is_busy = archive.is_running.load(Relaxed) || archive.is_asked_for.load(Relaxed);
    let error = archive.error.lock().clone();
    let state = match () {
        () if active.config.archive_url.is_empty() => "off",
        () if is_busy => "running",
        () if !error.is_empty() => "failed",
        () => "idle",
    };
    let log_error = archive.log.error.lock().clone();
    let log = match (archive.log.is_on.load(Relaxed), log_error.is_empty()) {
        (false, _) => "off",
        (true, true) => "on",
        (true, false) => "failed",
    };
    let name = archive.last_name.lock().clone();
    let texts =
        [("state", state), ("error", &error), ("snapshot", &name), ("log", log), ("log-error", &log_error)];
    let numbers = [
        ("last-time-ms", archive.last_ms.load(Relaxed)),
        ("next-time-ms", archive.next_ms.load(Relaxed)),
        ("duration-ms", archive.last_duration_ms.load(Relaxed) as i64),
        ("keys", archive.last_keys.load(Relaxed) as i64),
        ("bytes", archive.last_bytes.load(Relaxed) as i64),
        ("new-bytes", archive.last_new_bytes.load(Relaxed) as i64),
        ("stored-bytes", archive.last_stored_bytes.load(Relaxed) as i64),
        ("snapshots", archive.kept.load(Relaxed) as i64),
        ("log-stored-ms", archive.log.stored_ms.load(Relaxed)),
    ];
    reply.map(texts.len() + numbers.len());
    for (key, text) in texts {
        reply.bulk(key.as_bytes());
        reply.bulk(text.as_bytes());
    }
    for (key, number) in numbers {
        reply.bulk(key.as_bytes());
        reply.integer(number);
    }
}

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[EngineSpec::new(
    "mantissa.archive",
    -2,
    archive,
    Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
)
.locks(Locks::Nothing)
.docs(
    Group::Server,
    "1.0.0",
    "O(1), the work is done in the background",
    "Has a snapshot be made for the archive, lists those in it, or tells about the last one.",
)
.arguments(
    "action:oneof(list:block(count:integer?)@LIST now:pure-token@NOW \
     status:pure-token@STATUS help:pure-token@HELP)",
)];
