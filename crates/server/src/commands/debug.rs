//! DEBUG: what tests and tools look at. Nothing here crashes the server on purpose.

use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_commands::spec::{Flags, Group};
use mantissa_commands::{Error, Locks, NewExpiry, Outcome, object_encoding, parse};
use mantissa_persist::digest::{digest_keyspace, digest_value};
use mantissa_persist::payload::dump_value;
use mantissa_persist::write::WriteOptions;
use mantissa_protocol::{Args, Protocol, Reply};
use mantissa_store::{Entry, LockedShards};

use crate::registry::ServerSpec;
use crate::session::Session;
use crate::snapshot::Pace;
use crate::{aof, loading, notice, persistence, warning};

/// Seconds that DEBUG SLEEP takes at most.
const SLEEP_SECONDS_MAX: f64 = 3600.0;
/// Bytes of a serialized value that are not the value itself: its type, the version and the checksum.
const PAYLOAD_FRAME_BYTES: usize = 11;

fn debug(session: &mut Session<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let peer = &session.client.shared.peer;
    if !session.context.live.config.enable_debug_command.allows(peer.is_loopback()) {
        return Err(Error::fixed(
            "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can \
             run it \
             from a local connection, otherwise you need to set this option in the configuration file, \
             and then \
             restart the server.",
        ));
    }
    let name = args.at(1).to_ascii_lowercase();
    match (&name[..], args.len()) {
        (b"help", 2) => help(reply),
        (b"digest", 2) => digest(session, reply),
        (b"digest-value", _) => digest_values(session, args, reply),
        (b"object", 3..) => object(session, args, reply)?,
        (b"sleep", 3) => sleep(args, reply),
        (b"loadaof", 2) => load_log(session, reply)?,
        (b"reload", _) => reload(session, args, reply)?,
        (b"set-active-expire", 3) => {
            let on = mantissa_number::parse_i64(args.at(2)).unwrap_or(0) != 0;
            session.server().active_expire.store(on, Ordering::Relaxed);
            reply.ok();
        }
        (b"quicklist-packed-threshold", 3) => packed_threshold(args, reply)?,
        (b"protocol", 3) => protocol(args, reply)?,
        (b"sdslen", 3) => sdslen(session, args, reply)?,
        (b"listpack", 3) => listpack(session, args, reply)?,
        (b"error", 3) => reply.error_bytes(args.at(2)),
        (b"log", 3) => {
            warning!("DEBUG LOG: {}", String::from_utf8_lossy(args.at(2)));
            reply.ok();
        }
        (b"populate", 3..=5) => populate(session, args, reply)?,
        (b"change-repl-id", 2) => {
            notice!("Changing replication IDs after receiving change-repl-id");
            *session.server().replication_id.lock() = crate::server::random_id();
            reply.ok();
        }
        // Settings of mechanisms that work otherwise here: accepted, so that test tools go on.
        (b"stringmatch-test" | b"dict-resizing" | b"pause-cron" | b"replybuffer", _) => reply.ok(),
        _ => return Err(super::wrong_subcommand(args)),
    }
    Ok(())
}

fn help(reply: &mut Reply) {
    super::write_help(
        reply,
        "DEBUG",
        &[
            ("CHANGE-REPL-ID", "Takes a new replication id."),
            ("DIGEST", "A fingerprint of all data, equal for equal data."),
            ("DIGEST-VALUE <key> [<key> ...]", "Fingerprints of the values of these keys."),
            ("ERROR <text>", "Replies the text as an error."),
            ("LISTPACK <key>", "Tells whether the value is a listpack."),
            ("LOADAOF", "Loads the append-only file in the place of the data."),
            ("LOG <text>", "Writes the text into the log."),
            ("OBJECT <key>", "How the value of a key is stored."),
            ("POPULATE <count> [<prefix>] [<size>]", "Makes that many string keys."),
            ("PROTOCOL <type>", "Replies a sample of a type of the protocol."),
            ("QUICKLIST-PACKED-THRESHOLD <size>", "Accepted for test tools."),
            ("RELOAD [NOSAVE] [NOFLUSH] [MERGE]", "Saves a dump and reads it back."),
            ("SDSLEN <key>", "How many bytes the key and its string take."),
            ("SET-ACTIVE-EXPIRE <0|1>", "Whether expired keys are looked for in the background."),
            ("SLEEP <seconds>", "Keeps this client's worker busy doing nothing."),
        ],
    );
}

fn hexadecimal(digest: [u8; 20]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digest(session: &mut Session<'_, '_>, reply: &mut Reply) {
    let all = session.server().keyspace.all_shards();
    let digest = session.with_access(all, |access| digest_keyspace(access.locked_mut()));
    reply.simple(&hexadecimal(digest));
}

fn digest_values(session: &mut Session<'_, '_>, args: Args<'_>, reply: &mut Reply) {
    let all = session.server().keyspace.all_shards();
    let digests: Vec<[u8; 20]> = session.with_access(all, |access| {
        args.from(2).iter().map(|key| access.peek(key).map_or([0; 20], digest_value)).collect()
    });
    reply.array(digests.len());
    digests.into_iter().for_each(|digest| reply.simple(&hexadecimal(digest)));
}

/// Runs `look` on the entry of the key in argument 2.
fn with_entry<R>(
    session: &mut Session<'_, '_>,
    args: Args<'_>,
    look: impl FnOnce(&Entry, i64) -> R,
) -> Outcome<R> {
    let all = session.server().keyspace.all_shards();
    session.with_access(all, |access| {
        let now_ms = access.now_ms();
        access.peek(args.at(2)).map(|entry| look(entry, now_ms)).ok_or(Error::NO_SUCH_KEY)
    })
}

fn object(session: &mut Session<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let text = with_entry(session, args, |entry, now_ms| {
        let payload = dump_value(entry.value(), &WriteOptions::default());
        format!(
            "Value at:{:p} refcount:1 encoding:{} serializedlength:{} lru:{} lru_seconds_idle:{}",
            entry.address(),
            object_encoding(entry),
            payload.len().saturating_sub(PAYLOAD_FRAME_BYTES),
            entry.clock(),
            mantissa_commands::idle_seconds(entry.clock(), now_ms),
        )
    })?;
    reply.simple(&text);
    Ok(())
}

fn listpack(session: &mut Session<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let encoding = with_entry(session, args, |entry, _| object_encoding(entry))?;
    if !encoding.starts_with("listpack") {
        return Err(Error::fixed("ERR Not a listpack encoded object."));
    }
    reply.simple("Listpack structure printed on stdout");
    Ok(())
}

/// The lengths of a key and of its string. Neither has room to spare here; the sizes are those of what is
/// allocated for both.
fn sdslen(session: &mut Session<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let text = with_entry(session, args, |entry, _| {
        let value = entry.as_string().filter(|_| entry.string_encoding() != Some("int"))?;
        let mut digits = [0; 20];
        Some(format!(
            "key_sds_len:{}, key_sds_avail:0, key_zmalloc: {}, \
             val_sds_len:{}, val_sds_avail:0, val_zmalloc: 0",
            entry.key().len(),
            entry.memory_usage(),
            value.text(&mut digits).len(),
        ))
    })?;
    reply.simple(&text.ok_or(Error::fixed("ERR Not an sds encoded string."))?);
    Ok(())
}

fn sleep(args: Args<'_>, reply: &mut Reply) {
    let seconds = mantissa_number::parse_f64(args.at(2)).unwrap_or(0.0);
    let seconds = if seconds.is_finite() { seconds.clamp(0.0, SLEEP_SECONDS_MAX) } else { 0.0 };
    std::thread::sleep(Duration::from_secs_f64(seconds));
    reply.ok();
}

/// Drops all data.
fn clear(locked: &mut LockedShards<'_>) {
    for index in 0..locked.keyspace().shard_count() {
        if let Some(shard) = locked.shard_mut(index) {
            shard.tracked.clear();
            shard.databases.iter_mut().for_each(|database| drop(database.take()));
        }
    }
}

fn load_log(session: &mut Session<'_, '_>, reply: &mut Reply) -> Outcome {
    if session.in_transaction() {
        return Err(Error::fixed("ERR DEBUG LOADAOF is not possible inside a transaction"));
    }
    aof::reload(session.server(), clear).map_err(|reason| {
        warning!("{reason}");
        Error::fixed("ERR Error trying to load the AOF files, check server logs.")
    })?;
    crate::tracking::invalidate_all(&mut session.context.outbox);
    notice!("Append Only File loaded by DEBUG LOADAOF");
    reply.ok();
    Ok(())
}

fn reload(session: &mut Session<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
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
    if session.in_transaction() {
        return Err(Error::fixed("ERR DEBUG RELOAD is not possible inside a transaction"));
    }
    let server = session.server();
    if saves && let Err(error) = persistence::save(server, Pace::Hasty) {
        warning!("DEBUG RELOAD could not save: {error}");
        return Err(Error::fixed("ERR Error trying to save the DB, check server logs."));
    }
    let path = persistence::dump_path(&session.context.live);
    server.persistence.load.begin();
    server.persistence.loading.store(true, Ordering::Relaxed);
    if flushes {
        let all = server.keyspace.all_shards();
        clear(&mut server.keyspace.lock(all));
        crate::tracking::invalidate_all(&mut session.context.outbox);
    }
    let loaded = loading::load_file(server, &path, merges, false);
    server.persistence.loading.store(false, Ordering::Relaxed);
    if let Err(reason) = loaded {
        warning!("{reason}");
        return Err(Error::fixed("ERR Error trying to load the RDB dump, check server logs."));
    }
    notice!("DB reloaded by DEBUG RELOAD");
    reply.ok();
    Ok(())
}

/// Our lists have no such threshold: their nodes split by bytes alone. The argument is checked all the same.
fn packed_threshold(args: Args<'_>, reply: &mut Reply) -> Outcome {
    const REFUSED: Error =
        Error::fixed("ERR argument must be a memory value bigger than 1 and smaller than 4gb");
    let text = args.at(2).to_ascii_lowercase();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = mantissa_number::parse_u64(&text[..digits]).ok_or(REFUSED)?;
    let factor: u64 = match &text[digits..] {
        b"" | b"b" => 1,
        b"k" => 1_000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return Err(REFUSED),
    };
    let bytes = number.checked_mul(factor).filter(|&bytes| bytes <= 4 << 30).ok_or(REFUSED)?;
    if bytes == 1 {
        return Err(REFUSED);
    }
    reply.ok();
    Ok(())
}

fn protocol(args: Args<'_>, reply: &mut Reply) -> Outcome {
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
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
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

fn populate(session: &mut Session<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    const OUT_OF_RANGE: &str = "ERR value is out of range, must be positive";
    let count = parse::integer_in(args.at(2), 0, i64::from(u32::MAX), OUT_OF_RANGE)?;
    let prefix = args.get(3).unwrap_or(b"key");
    let size = args.get(4).map(|size| parse::integer_in(size, 0, 512 << 20, OUT_OF_RANGE)).transpose()?;
    let server = session.server();
    for number in 0..count {
        let suffix = number.to_string();
        let key = [prefix, b":", suffix.as_bytes()].concat();
        let mut value = [b"value:", suffix.as_bytes()].concat();
        if let Some(size) = size.filter(|&size| size > 0) {
            value.resize(size as usize, 0);
        }
        let shard = mantissa_store::ShardSet::one(server.keyspace.shard_of(server.keyspace.hash(&key)));
        session.with_access(shard, |access| {
            if access.exists(&key) { Ok(()) } else { access.set_string(&key, &value, NewExpiry::Clear) }
        })?;
    }
    reply.ok();
    Ok(())
}

/// The registration table.
pub(super) const COMMANDS: &[ServerSpec] = &[ServerSpec::new(
    "debug",
    -2,
    debug,
    Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE).or(Flags::PROTECTED),
)
.locks(Locks::All)
.docs(Group::Server, "1.0.0", "Depends on the subcommand", "Looks inside, for tests and tools.")
.internal()];
