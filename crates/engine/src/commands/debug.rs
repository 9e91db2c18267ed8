//! DEBUG: what tests and tools look at and set.

mod end;
mod help;
mod tables;

use mantissa_sys::simulation;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_commands::spec::{Flags, Group, Traits};
use mantissa_commands::{Error, Locks, NewExpiry, Outcome, parse};
use mantissa_persist::digest::{digest_keyspace, digest_value};
use mantissa_persist::payload;
use mantissa_protocol::{Args, Protocol, Reply};
use mantissa_scripting::hexadecimal;
use mantissa_store::Entry;

use crate::admission;
use crate::invocation::{EngineSpec, Invocation};
use crate::reload::{self, Options};
use crate::replication::primary;
use crate::state::replication::History;
use crate::{notice, warning};

/// Seconds that DEBUG SLEEP takes at most.
const SLEEP_SECONDS_MAX: f64 = 3600.0;

fn debug(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    admission::of_protected(invocation.context, invocation.session, true)?;
    let name = args.at(1).to_ascii_lowercase();
    if accepts(&name, args.len()) || end(invocation, &name, args)? || set(invocation, &name, args)? {
        reply.ok();
        return Ok(());
    }
    match (&name[..], args.len()) {
        (b"help", 2) => super::write_help(reply, "DEBUG", help::LINES),
        (b"digest", 2) => digest(invocation, reply),
        (b"digest-value", _) => digest_values(invocation, args, reply),
        (b"object", 3) => tables::object(invocation, args, reply)?,
        (b"reload", _) => reload(invocation, args, reply)?,
        (b"protocol", 3) => protocol(invocation, args, reply)?,
        (b"sdslen", 3) => tables::sdslen(invocation, args, reply)?,
        (b"listpack", 3) => tables::structure(invocation, args, ("listpack", "Listpack"), reply)?,
        (b"quicklist", 3 | 4) => tables::structure(invocation, args, ("quicklist", "Quicklist"), reply)?,
        (b"htstats", 3 | 4) => tables::database(invocation, args, reply)?,
        (b"htstats-key", 3 | 4) => tables::value(invocation, args, reply)?,
        (b"client-eviction", 2) => tables::client_eviction(invocation, reply)?,
        (b"error", 3) => reply.error_bytes(args.at(2)),
        (b"populate", 3..=5) => populate(invocation, args, reply)?,
        (b"stringmatch-test", 2) => match_hard_patterns(reply),
        (b"structsize", 2) => {
            let text = format!("bits:{} entry:{} hash:8 listpack:7 ", usize::BITS, size_of::<Entry>());
            reply.bulk(text.as_bytes());
        }
        (b"internal_secret", 2) => return Err(Error::fixed("ERR Internal secret is missing")),
        (b"mallctl" | b"mallctl-str", 3 | 4) => return Err(Error::fixed("ERR No such file or directory")),
        (b"clusterlink", 5) => {
            return Err(Error::fixed("ERR Debug option only available for cluster mode enabled setup!"));
        }
        _ => return Err(super::wrong_subcommand(args)),
    }
    Ok(())
}

/// Clients keep no buffer for replies between commands, so there is nothing to be resized. The arguments are
/// checked all the same.
fn reply_buffer(args: Args<'_>) -> Outcome {
    let is_time = parse::is(args.at(2), "PEAK-RESET-TIME");
    if !is_time && !parse::is(args.at(2), "RESIZING") {
        return Err(super::wrong_subcommand(args));
    }
    if is_time && !parse::is(args.at(3), "NEVER") && !parse::is(args.at(3), "RESET") {
        parse::integer(args.at(3))?;
    }
    Ok(())
}

/// Whether a subcommand sets up a mechanism that works otherwise here or does not exist: accepted, so that
/// test tools go on.
fn accepts(name: &[u8], words: usize) -> bool {
    const ACCEPTED: [(&[u8], std::ops::RangeInclusive<usize>); 3] =
        [(b"dict-resizing", 3..=3), (b"keysizes-hist-assert", 3..=3), (b"mark-internal-client", 2..=2)];
    ACCEPTED.iter().any(|(accepted, allowed)| *accepted == name && allowed.contains(&words))
}

/// The subcommands that end the server. False if it is none of them.
fn end(invocation: &mut Invocation<'_, '_, '_>, name: &[u8], args: Args<'_>) -> Outcome<bool> {
    match (name, args.len()) {
        (b"segfault", 2) => end::segfault(),
        (b"panic", 2) => end::panic(invocation.engine()),
        (b"assert", 2) => end::assertion(invocation.engine()),
        (b"oom", 2) => end::out_of_memory(invocation.engine()),
        (b"restart", 2 | 3) => end::restart(invocation, args, true)?,
        (b"crash-and-recover", 2 | 3) => end::restart(invocation, args, false)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// The subcommands that do something and reply OK. False if it is none of them.
fn set(invocation: &mut Invocation<'_, '_, '_>, name: &[u8], args: Args<'_>) -> Outcome<bool> {
    let engine = invocation.engine();
    let is_on = || mantissa_number::parse_i64(args.at(2)).unwrap_or(0) != 0;
    match (name, args.len()) {
        (b"sleep", 3) => sleep(args),
        (b"aof-flush-sleep", 3) => {
            let time_us = mantissa_number::parse_i64(args.at(2)).unwrap_or(0);
            engine.aof.write_delay_us.store(u64::try_from(time_us).unwrap_or(0), Ordering::Relaxed);
        }
        (b"loadaof", _) => reload::load_log(invocation)?,
        (b"set-active-expire", 3) => engine.active_expire.store(is_on(), Ordering::Relaxed),
        (b"set-disable-deny-scripts", 3) => engine.debug_in_scripts.store(is_on(), Ordering::Relaxed),
        (b"pause-cron", 3) => engine.pauses_cron.store(is_on(), Ordering::Relaxed),
        (b"set-skip-checksum-validation", 3) => payload::skip_checksums(is_on()),
        (b"quicklist-packed-threshold", 3) => tables::packed_threshold(args)?,
        (b"replybuffer", 4) => reply_buffer(args)?,
        (b"replicate", 3..) => replicate(invocation, args)?,
        (b"script", 3) => tables::script(invocation, args)?,
        (b"leak", 3) => drop(Box::leak(Box::<[u8]>::from(args.at(2)))),
        (b"log", 3) => warning!("DEBUG LOG: {}", String::from_utf8_lossy(args.at(2))),
        (b"mark-internal-client", 3) if parse::is(args.at(2), "UNMARK") => {}
        (b"drop-cluster-packet-filter", 3) => {
            mantissa_number::parse_i64(args.at(2)).map(drop).ok_or(Error::NOT_INTEGER)?;
        }
        (b"repl-pause", 3) => {
            let known = ["clear", "after-fork", "before-rdb-channel", "on-streaming-repl-buf"];
            return Ok(known.iter().any(|word| parse::is(args.at(2), word)));
        }
        (b"config-rewrite-force-all", 2) => super::config::rewrite_file(invocation).map_err(|error| {
            let reason = error.text().trim_start_matches("ERR ").to_owned();
            Error::new(format!("ERR CONFIG-REWRITE-FORCE-ALL failed: {reason}"))
        })?,
        (b"change-repl-id", 2) => {
            notice!("Changing replication IDs after receiving change-repl-id");
            let history = History { id: crate::engine::random_id(), second: None };
            engine.replication.set_history(history);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Patterns that take a matcher without a bound for ever.
fn match_hard_patterns(reply: &mut Reply) {
    let text = [b'a'; 1000];
    for pattern in [&b"*a*a*a*a*a*a*a*a*b"[..], b"[^", b"\\", b"a[", b"***?***", b"[a-\\]]*"] {
        mantissa_commands::glob::matches(pattern, &text);
    }
    reply.simple("Apparently Redis did not crash: test passed");
}

fn digest(invocation: &mut Invocation<'_, '_, '_>, reply: &mut Reply) {
    let all = invocation.engine().keyspace.all_shards();
    let digest = invocation.with_access(all, |access| digest_keyspace(access.locked_mut()));
    reply.simple(&hexadecimal(&digest));
}

fn digest_values(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) {
    let all = invocation.engine().keyspace.all_shards();
    let digests: Vec<[u8; 20]> = invocation.with_access(all, |access| {
        args.from(2).iter().map(|key| access.peek(key).map_or([0; 20], digest_value)).collect()
    });
    reply.array(digests.len());
    digests.into_iter().for_each(|digest| reply.simple(&hexadecimal(&digest)));
}

/// Runs `look` on the entry of the key in argument 2.
fn with_entry<R>(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    look: impl FnOnce(&Entry, i64) -> R,
) -> Outcome<R> {
    let all = invocation.engine().keyspace.all_shards();
    invocation.with_access(all, |access| {
        let now_ms = access.now_ms();
        let entry = access.peek(args.at(2)).ok_or(Error::NO_SUCH_KEY)?;
        entry.bring().map_err(Error::unreadable)?;
        Ok(look(entry, now_ms))
    })
}

/// Runs `look` on the entry of the key in argument 2, even if it has expired.
fn with_any_entry<R>(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    look: impl FnOnce(&Entry, i64) -> R,
) -> Outcome<R> {
    let (keyspace, database) = (&invocation.engine().keyspace, invocation.session.database);
    let hash = keyspace.hash(args.at(2));
    let index = keyspace.shard_of(hash);
    invocation.with_access(keyspace.all_shards(), |access| {
        let now_ms = access.now_ms();
        let shard = access.locked_mut().shard_mut(index);
        let entry = shard.and_then(|shard| shard.databases.get(database)?.get(hash, args.at(2)));
        let entry = entry.ok_or(Error::NO_SUCH_KEY)?;
        entry.bring().map_err(Error::unreadable)?;
        Ok(look(entry, now_ms))
    })
}

/// DEBUG REPLICATE: sends its arguments to replicas as a command, whatever they are.
fn replicate(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>) -> Outcome {
    if invocation.context.active.config.appendonly {
        return Err(Error::fixed("ERR not with an append-only file, which has what replicas are sent"));
    }
    let changes_units = ["SELECT", "MULTI", "EXEC"].iter().any(|name| parse::is(args.at(2), name));
    if changes_units {
        return Err(Error::fixed("ERR not a command on which others in the stream depend"));
    }
    let words: Vec<&[u8]> = args.from(2).into_iter().collect();
    match primary::append_neutral(&mut invocation.context.outbox, &words) {
        true => Ok(()),
        false => Err(Error::fixed("ERR nothing can be sent to replicas at this moment")),
    }
}

fn sleep(args: Args<'_>) {
    let seconds = mantissa_number::parse_f64(args.at(2)).unwrap_or(0.0);
    let seconds = if seconds.is_finite() { seconds.clamp(0.0, SLEEP_SECONDS_MAX) } else { 0.0 };
    simulation::sleep(Duration::from_secs_f64(seconds));
}

fn reload(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (mut saves, mut flushes, mut merges) = (true, true, false);
    for option in args.from(2) {
        if parse::is(option, "MERGE") {
            merges = true;
        } else if parse::is(option, "NOFLUSH") {
            flushes = false;
        } else if parse::is(option, "NOSAVE") {
            saves = false;
        } else {
            return Err(Error::fixed(
                "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
            ));
        }
    }
    reload::reload(invocation, Options { saves, flushes, merges })?;
    reply.ok();
    Ok(())
}

fn protocol(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match &args.at(2).to_ascii_lowercase()[..] {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        b"double" => reply.double(3141.0 / 1000.0),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        }
        b"attrib" => {
            if reply.is_resp3() {
                reply.attribute(1);
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" => {
            if reply.protocol() == Protocol::Resp2 {
                return Err(Error::fixed("ERR RESP2 is not supported by this command"));
            }
            reply.bulk(b"Some real reply following the push reply");
            invocation.push(reply, |message| {
                message.push(2);
                message.bulk(b"server-cpu-usage");
                message.integer(42);
            });
        }
        b"verbatim" => reply.verbatim("txt", b"This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"bignum" => reply.big_number(b"1234567999999999999999999999999999999"),
        _ => {
            return Err(Error::fixed(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}

fn populate(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    const OUT_OF_RANGE: &str = "ERR value is out of range, must be positive";
    let count = parse::integer_in(args.at(2), 0, i64::from(u32::MAX), OUT_OF_RANGE)?;
    let prefix = args.get(3).unwrap_or(b"key");
    let size = args.get(4).map(|size| parse::integer_in(size, 0, 512 << 20, OUT_OF_RANGE)).transpose()?;
    let engine = invocation.engine();
    for number in 0..count {
        let suffix = number.to_string();
        let key = [prefix, b":", suffix.as_bytes()].concat();
        let mut value = [b"value:", suffix.as_bytes()].concat();
        if let Some(size) = size.filter(|&size| size > 0) {
            value.resize(size as usize, 0);
        }
        let shard = mantissa_store::ShardSet::one(engine.keyspace.shard_of(engine.keyspace.hash(&key)));
        invocation.with_access(shard, |access| {
            if access.exists(&key) { Ok(()) } else { access.set_string(&key, &value, NewExpiry::Clear) }
        })?;
    }
    reply.ok();
    Ok(())
}

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[EngineSpec::new(
    "debug",
    -2,
    debug,
    Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE).or(Flags::PROTECTED),
)
.traits(Traits::DEBUGS.or(Traits::WAITS_FOR_SHARDS))
.locks(Locks::All)
.docs(Group::Server, "1.0.0", "Depends on the subcommand", "Looks inside, for tests and tools.")
.internal()];
