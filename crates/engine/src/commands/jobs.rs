//! Walks over all keys in the background: MANTISSA.TREE shows keys as a tree of prefixes, MANTISSA.DELETE
//! deletes those of a prefix, MANTISSA.JOBS shows the walks under way. Redis 8.2 has no such commands.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_commands::spec::{Categories, Flags, Group};
use mantissa_commands::{Error, Locks, Outcome, TimeoutReply, parse};
use mantissa_protocol::{Args, Reply};
use mantissa_sys::clock;

use crate::acl::{AclRequest, KeyPermit, READ, WRITE};
use crate::blocking;
use crate::invocation::{EngineSpec, Invocation};
use crate::jobs::{Deletion, Filter, Job, KeyWalk, Order, Shape, Task, Tree, Work};

/// Children that are shown if the caller does not say how many, and at most.
const LIMIT: usize = 100;
const LIMIT_MAX: i64 = 10_000;
const OFFSET_MAX: i64 = 1_000_000;
const DEPTH_MAX: i64 = 16;

/// A number among the options.
fn number(word: &[u8], name: &str, low: i64, high: i64) -> Outcome<usize> {
    let number = parse::integer(word)?;
    match (low..=high).contains(&number) {
        true => Ok(number as usize),
        false => Err(Error::new(format!("ERR {name} must be from {low} to {high}"))),
    }
}

/// `MANTISSA.TREE prefix [DELIMITER delimiter] [DEPTH levels] [MATCH pattern] [TYPE type] [SORT
/// KEYS|BYTES|NAME] [OFFSET offset] [LIMIT limit] [BELOW limit]`
fn tree(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, _reply: &mut Reply) -> Outcome {
    let mut shape = Shape {
        delimiter: Box::from(*b":"),
        depth: 1,
        order: Order::Keys,
        offset: 0,
        limit: LIMIT,
        below: 0,
    };
    let (mut pattern, mut kind, mut below) = (None, None, None);
    let mut at = 2;
    while let Some(option) = args.get(at) {
        let value = args.get(at + 1).ok_or(Error::SYNTAX)?;
        match () {
            () if parse::is(option, "DELIMITER") && !value.is_empty() => shape.delimiter = value.into(),
            () if parse::is(option, "DEPTH") => shape.depth = number(value, "DEPTH", 0, DEPTH_MAX)?,
            () if parse::is(option, "MATCH") => pattern = Some(value.into()),
            () if parse::is(option, "TYPE") => kind = Some(value.into()),
            () if parse::is(option, "OFFSET") => shape.offset = number(value, "OFFSET", 0, OFFSET_MAX)?,
            () if parse::is(option, "LIMIT") => shape.limit = number(value, "LIMIT", 1, LIMIT_MAX)?,
            () if parse::is(option, "BELOW") => below = Some(number(value, "BELOW", 1, LIMIT_MAX)?),
            () if parse::is(option, "SORT") && parse::is(value, "KEYS") => shape.order = Order::Keys,
            () if parse::is(option, "SORT") && parse::is(value, "BYTES") => shape.order = Order::Bytes,
            () if parse::is(option, "SORT") && parse::is(value, "NAME") => shape.order = Order::Name,
            () => return Err(Error::SYNTAX),
        }
        at += 2;
    }
    shape.below = below.unwrap_or(shape.limit);
    let prefix: Box<[u8]> = args.at(1).into();
    let task = Task::Tree(Box::new(Tree::new(shape, prefix.len())));
    start(invocation, args, (prefix, pattern, kind), READ, task)
}

/// `MANTISSA.DELETE prefix [MATCH pattern] [TYPE type] [DRYRUN]`
fn delete(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, _reply: &mut Reply) -> Outcome {
    let (mut pattern, mut kind) = (None, None);
    let mut deletion = Deletion::default();
    let mut at = 2;
    while let Some(option) = args.get(at) {
        at += match args.get(at + 1) {
            _ if parse::is(option, "DRYRUN") => {
                deletion.is_dry_run = true;
                1
            }
            Some(value) if parse::is(option, "MATCH") => {
                pattern = Some(value.into());
                2
            }
            Some(value) if parse::is(option, "TYPE") => {
                kind = Some(value.into());
                2
            }
            _ => return Err(Error::SYNTAX),
        };
    }
    let prefix: Box<[u8]> = args.at(1).into();
    if prefix.is_empty() && pattern.is_none() && kind.is_none() {
        return Err(Error::fixed("ERR An empty prefix needs MATCH or TYPE. FLUSHDB removes all keys"));
    }
    start(invocation, args, (prefix, pattern, kind), READ | WRITE, Task::Delete(Box::new(deletion)))
}

type Words = (Box<[u8]>, Option<Box<[u8]>>, Option<Box<[u8]>>);

/// Blocks the client until a walk over these keys is at its end.
fn start(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    (prefix, pattern, kind): Words,
    permission: u8,
    task: Task,
) -> Outcome {
    let engine = invocation.engine();
    let session = &mut *invocation.session;
    let blocked = blocking::waiting_without_keys(engine, session, args, None, TimeoutReply::Null)?;
    let request = AclRequest::new(blocked.command, args, session.database);
    let permit = KeyPermit::new(&session.user, &request, permission);
    let filter = Filter { database: session.database, prefix, pattern, kind, permit };
    let work = Work { walk: KeyWalk::new(engine.keyspace.shard_count()), task };
    let waiting = (session.shared.id, blocked.ticket);
    blocking::wait(engine, session, Arc::clone(&blocked));
    if let Err(error) = engine.jobs.add(waiting, (&session.user, args.at(1)), filter, work) {
        let mut reply = Reply::new(blocked.protocol);
        reply.error_bytes(error.bytes());
        blocking::release(engine, &blocked, reply.into_bytes());
    }
    engine.pressure.wake_background();
    Ok(())
}

/// The jobs that the client may see: those of its own user, or all if it may do everything.
fn visible(invocation: &Invocation<'_, '_, '_>) -> Vec<Arc<Job>> {
    let user = &invocation.session.user;
    let mut jobs = invocation.engine().jobs.all();
    jobs.retain(|job| user.is_unrestricted() || job.user.name == user.name);
    jobs.sort_by_key(|job| job.id);
    jobs
}

fn list(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let jobs = visible(invocation);
    reply.array(jobs.len());
    for job in jobs {
        let elapsed = clock::since(job.began);
        let visited = job.visited.load(Ordering::Relaxed);
        reply.map(9);
        let texts: [(&str, &[u8]); 3] =
            [("command", job.name.as_bytes()), ("argument", &job.argument), ("user", &job.user.name)];
        for (name, text) in texts {
            reply.bulk(name.as_bytes());
            reply.bulk(text);
        }
        let numbers = [
            ("id", job.id),
            ("client", job.client),
            ("visited", visited),
            ("matched", job.matched.load(Ordering::Relaxed)),
            ("elapsed-ms", elapsed.as_millis() as u64),
        ];
        for (name, number) in numbers {
            reply.bulk(name.as_bytes());
            reply.integer(number as i64);
        }
        reply.bulk(b"percent");
        reply.double((job.share.load(Ordering::Relaxed) / 1_000) as f64 / 10.0);
    }
    Ok(())
}

fn stop(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let id = parse::integer(args.at(2))?;
    let jobs = visible(invocation);
    let job = jobs.iter().find(|job| job.id as i64 == id);
    job.inspect(|job| job.stop());
    reply.integer(i64::from(job.is_some()));
    Ok(())
}

fn help(_session: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    super::write_help(
        reply,
        "MANTISSA.JOBS",
        &[
            ("LIST", "The walks over all keys that are under way, with their progress."),
            ("STOP <id>", "Has one of them end."),
        ],
    );
    Ok(())
}

const SUBCOMMANDS: &[EngineSpec] = &[
    EngineSpec::new("help", 2, help, Flags::LOADING.or(Flags::STALE)).locks(Locks::Nothing).docs(
        Group::Server,
        "1.0.0",
        "O(1)",
        "Lists the subcommands.",
    ),
    EngineSpec::new("list", 2, list, Flags::NOSCRIPT)
        .locks(Locks::Nothing)
        .docs(Group::Server, "1.0.0", "O(1)", "Shows the walks over all keys that are under way.")
        .tips(&["nondeterministic_output"]),
    EngineSpec::new("stop", 3, stop, Flags::NOSCRIPT)
        .locks(Locks::Nothing)
        .docs(Group::Server, "1.0.0", "O(1)", "Ends a walk over all keys.")
        .arguments("id:integer"),
];

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[
    EngineSpec::new(
        "mantissa.tree",
        -2,
        tree,
        Flags::READONLY.or(Flags::NOSCRIPT).or(Flags::NO_MULTI).or(Flags::BLOCKING),
    )
    .locks(Locks::Nothing)
    .categories(Categories::KEYSPACE)
    .docs(
        Group::Generic,
        "1.0.0",
        "O(N), N being the keys of the database, in the background",
        "Counts the keys below a prefix, by the next part of their names.",
    )
    .tips(&["nondeterministic_output"])
    .arguments(
        "prefix:string delimiter:string@DELIMITER? levels:integer@DEPTH? pattern:pattern@MATCH? \
         type:string@TYPE? order:oneof(keys:pure-token@KEYS bytes:pure-token@BYTES \
         name:pure-token@NAME)@SORT? offset:integer@OFFSET? limit:integer@LIMIT? below:integer@BELOW?",
    ),
    EngineSpec::new(
        "mantissa.delete",
        -2,
        delete,
        Flags::WRITE.or(Flags::NOSCRIPT).or(Flags::NO_MULTI).or(Flags::BLOCKING),
    )
    .locks(Locks::Nothing)
    .categories(Categories::KEYSPACE.or(Categories::DANGEROUS))
    .docs(
        Group::Generic,
        "1.0.0",
        "O(N), N being the keys of the database, in the background",
        "Deletes the keys below a prefix.",
    )
    .tips(&["nondeterministic_output"])
    .arguments("prefix:string pattern:pattern@MATCH? type:string@TYPE? dry-run:pure-token@DRYRUN?"),
    EngineSpec::container("mantissa.jobs", -2, Flags::NONE)
        .docs(Group::Server, "1.0.0", "Depends on the subcommand.", "Shows and ends walks over all keys.")
        .subcommands(SUBCOMMANDS),
];
