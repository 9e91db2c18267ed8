//! BACKUP and its subcommands: backups of a running server. See [`crate::aof::backup`].

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use mantissa_commands::spec::{Flags, Group};
use mantissa_commands::{Error, Locks, Outcome, TimeoutReply};
use mantissa_protocol::{Args, Reply};

use crate::aof::backup;
use crate::blocking::{self, UnderWay};
use crate::engine::Engine;
use crate::invocation::{EngineSpec, Invocation};

/// Does work that waits for the disk on a thread of its own. The client gets its reply when that is done.
fn on_a_thread(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    work: fn(&Engine) -> Result<(), String>,
) -> Outcome {
    if invocation.in_transaction() {
        let name = String::from_utf8_lossy(args.at(1)).to_uppercase();
        return Err(Error::new(format!("ERR BACKUP {name} is not allowed in a transaction")));
    }
    let (engine, session) = (invocation.engine(), &mut *invocation.session);
    let blocked = blocking::waiting_without_keys(engine, session, args, None, TimeoutReply::Never)?;
    let (waits, under_way) = (Arc::clone(&blocked), UnderWay::begin(engine));
    let body = move |engine: &Engine| {
        let _until_it_is_answered = under_way;
        let mut reply = Reply::new(waits.protocol);
        match work(engine) {
            Ok(()) => reply.ok(),
            Err(reason) => reply.error(&format!("ERR {reason}")),
        }
        blocking::release(engine, &waits, reply.into_bytes());
    };
    let started = engine.spawn("backup", body);
    started.map_err(|error| Error::new(format!("ERR A thread could not be started: {error}")))?;
    blocking::wait(engine, session, blocked);
    Ok(())
}

fn start(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, _reply: &mut Reply) -> Outcome {
    on_a_thread(invocation, args, backup::start)
}

fn seal(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, _reply: &mut Reply) -> Outcome {
    on_a_thread(invocation, args, backup::seal)
}

fn abort(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, _reply: &mut Reply) -> Outcome {
    on_a_thread(invocation, args, backup::abort)
}

fn cleanup(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, _reply: &mut Reply) -> Outcome {
    on_a_thread(invocation, args, backup::clean_up)
}

fn status(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let record = invocation.engine().backup.record.lock().clone();
    let fields = [
        ("state", record.phase.name().to_owned()),
        ("error", record.error),
        ("start_time", record.start_s.to_string()),
        ("end_time", record.end_s.to_string()),
    ];
    reply.map(fields.len());
    for (name, value) in fields {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    Ok(())
}

fn list(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let record = invocation.engine().backup.record.lock().clone();
    let files = backup::files(&record);
    reply.array(files.len());
    for path in files {
        reply.bulk(path.as_os_str().as_bytes());
    }
    Ok(())
}

fn help(_invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    super::write_help(
        reply,
        "BACKUP",
        &[
            ("ABORT", "Ends a backup that is not sealed, and removes its files."),
            ("CLEANUP", "Removes the files of a backup that is sealed or has failed."),
            ("LIST", "The paths of the files that do not change any more."),
            ("SEAL", "Completes the backup with the data of this moment."),
            ("START", "Begins a backup in the folder that backupdirname names."),
            ("STATUS", "How far the backup is, why it failed, when it began and was sealed."),
        ],
    );
    Ok(())
}

const CHANGES: Flags = Flags::ADMIN.or(Flags::NOSCRIPT);
const TELLS: Flags = Flags::ADMIN.or(Flags::STALE);
const SINCE: &str = "8.10.0";

const SUBCOMMANDS: &[EngineSpec] = &[
    EngineSpec::new("abort", 2, abort, CHANGES).locks(Locks::Nothing).docs(
        Group::Server,
        SINCE,
        "O(1)",
        "Ends a backup that is not sealed, and removes its files.",
    ),
    EngineSpec::new("cleanup", 2, cleanup, CHANGES).locks(Locks::Nothing).docs(
        Group::Server,
        SINCE,
        "O(1)",
        "Removes the files of a backup that is sealed or has failed.",
    ),
    EngineSpec::new("help", 2, help, Flags::LOADING.or(Flags::STALE)).locks(Locks::Nothing).docs(
        Group::Server,
        SINCE,
        "O(1)",
        "Lists the subcommands.",
    ),
    EngineSpec::new("list", 2, list, TELLS).locks(Locks::Nothing).docs(
        Group::Server,
        SINCE,
        "O(1)",
        "Lists the files of the backup that do not change any more.",
    ),
    EngineSpec::new("seal", 2, seal, CHANGES).locks(Locks::Nothing).docs(
        Group::Server,
        SINCE,
        "O(1)",
        "Completes the backup with the data of this moment.",
    ),
    EngineSpec::new("start", 2, start, CHANGES).locks(Locks::Nothing).docs(
        Group::Server,
        SINCE,
        "O(1), the work is done in the background",
        "Begins a backup of the running server.",
    ),
    EngineSpec::new("status", 2, status, TELLS).locks(Locks::Nothing).docs(
        Group::Server,
        SINCE,
        "O(1)",
        "Tells how far the backup is.",
    ),
];

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[EngineSpec::container("backup", -2, Flags::NONE)
    .docs(Group::Server, SINCE, "Depends on the subcommand.", "Makes backups of the running server.")
    .subcommands(SUBCOMMANDS)];
