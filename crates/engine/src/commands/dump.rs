//! DUMP and RESTORE: one value as bytes that any Redis server takes.
//!
//! A payload is checked before it is believed: a wrong checksum or a later version is refused at once, and
//! whatever its content says, a value is either built whole or refused; see [`mantissa_persist::load`].
//! Unpacking, and packing of a small value, happens with the key's shard locked: other keys of that shard
//! wait meanwhile.

use mantissa_commands::spec::{Categories, Flags, Group, KeyFlags, KeySpec};
use mantissa_commands::{
    Access, DataSpec, Error, EventClass, Outcome, Settings, check_key, parse, removal, restored_clock,
};
use mantissa_persist::load::LoadOptions;
use mantissa_persist::payload::{dump_named, is_later, restore_value};
use mantissa_persist::write::WriteOptions;
use mantissa_protocol::{Args, Reply};
use mantissa_store::{Entry, Value};

/// How a value is packed under these settings.
pub(super) fn write_options(settings: &Settings) -> WriteOptions {
    let (compress, limits) = (settings.compress_dumps, settings.limits.clone());
    WriteOptions { compress, limits, ..WriteOptions::default() }
}

fn dump(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match access.read(args.at(1)) {
        Some(entry) => {
            access.leave_if_large(entry)?;
            reply.bulk(&dump_named(args.at(1), entry.value(), &write_options(access.settings())));
        }
        None => reply.null(),
    }
    Ok(())
}

/// The options after the payload.
#[derive(Default)]
struct Options {
    replace: bool,
    /// The time to live is a Unix time.
    is_absolute: bool,
    idle_s: Option<u64>,
    frequency: Option<u8>,
}

impl Options {
    fn parse(args: Args<'_>) -> Outcome<Options> {
        let mut options = Options::default();
        let mut at = 4;
        while let Some(option) = args.get(at) {
            let operand = args.get(at + 1);
            match operand {
                _ if parse::is(option, "REPLACE") => options.replace = true,
                _ if parse::is(option, "ABSTTL") => options.is_absolute = true,
                Some(operand) if parse::is(option, "IDLETIME") && options.frequency.is_none() => {
                    let idle_s = u64::try_from(parse::integer(operand)?);
                    let refused = |_| Error::fixed("ERR Invalid IDLETIME value, must be >= 0");
                    options.idle_s = Some(idle_s.map_err(refused)?);
                    at += 1;
                }
                Some(operand) if parse::is(option, "FREQ") && options.idle_s.is_none() => {
                    let frequency = u8::try_from(parse::integer(operand)?);
                    let refused = |_| Error::fixed("ERR Invalid FREQ value, must be >= 0 and <= 255");
                    options.frequency = Some(frequency.map_err(refused)?);
                    at += 1;
                }
                _ => return Err(Error::SYNTAX),
            }
            at += 1;
        }
        Ok(options)
    }

    /// When the key is to expire (Unix time in ms). As in Redis, a time to live that leaves the range of
    /// times wraps around and so is past.
    fn expiry(&self, ttl_ms: i64, now_ms: i64) -> Option<i64> {
        match (ttl_ms, self.is_absolute) {
            (0, _) => None,
            (time, true) => Some(time),
            (ttl_ms, false) => Some(now_ms.wrapping_add(ttl_ms)),
        }
    }
}

fn restore(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let options = Options::parse(args)?;
    let (key, payload) = (args.at(1), args.at(3));
    check_key(key)?;
    if !options.replace && access.find_mut(key).is_some() {
        return Err(Error::fixed("BUSYKEY Target key name already exists."));
    }
    let ttl_ms = parse::integer(args.at(2))?;
    if ttl_ms < 0 {
        return Err(Error::fixed("ERR Invalid TTL value, must be >= 0"));
    }
    let now_ms = access.now_ms();
    let expiry = options.expiry(ttl_ms, access.clock_ms());
    let settings = access.settings();
    let load = LoadOptions { limits: settings.limits.clone(), now_ms, ..LoadOptions::default() };
    let value = restore_value(payload, &load).map_err(|error| Error::new(format!("ERR {}", error.text())))?;
    if expiry.is_some_and(|time| time <= now_ms) {
        if access.delete(key) {
            access.log_instead(&[removal(access.settings().lazy_server_del), key]);
        }
        access.free_later(value);
        reply.ok();
        return Ok(());
    }
    let clock = restored_clock(settings.access_clock, options.idle_s, options.frequency, access.clock_ms());
    let entry = match value {
        Value::String(text) => Entry::string(key, &text, expiry, clock),
        Value::Series(mut series) => {
            // Only the rewritten file of commands has links that lead to the keys beside it.
            if !access.is_loading_file() {
                series.unlink();
            }
            Entry::new(key, Value::Series(series), expiry, clock)
        }
        value => Entry::new(key, value, expiry, clock),
    };
    let kind = entry.kind();
    let before = access.put_entry_as_new(entry)?;
    access.modified(key, EventClass::GENERIC, "restore");
    // Under policies by the last change that was when the payload says.
    if let Some(entry) = access.peek(key) {
        entry.set_clock(clock);
    }
    if let Some(before) = before {
        access.overwritten(key, before, kind);
    }
    log_restore(access, args, expiry.filter(|_| !options.is_absolute));
    reply.ok();
    Ok(())
}

/// Logs a RESTORE such that it has the same effect at any time, and on a replica that is a Redis 8.2: with
/// this `expiry`, where it was relative, and with a payload of a version that this reads.
fn log_restore(access: &mut Access<'_>, args: Args<'_>, expiry: Option<i64>) {
    let entry = if access.logs() && is_later(args.at(3)) { access.peek(args.at(1)) } else { None };
    let payload = entry.map(|entry| dump_named(args.at(1), entry.value(), &write_options(access.settings())));
    if expiry.is_none() && payload.is_none() {
        return;
    }
    let time = expiry.map(|time| time.to_string());
    let mut command: Vec<&[u8]> = args.iter().collect();
    if let Some(payload) = &payload {
        command[3] = payload;
    }
    if let Some(time) = &time {
        command[2] = time.as_bytes();
        command.push(b"ABSTTL");
    }
    access.log_instead(&command);
}

const TARGET: &[KeySpec] = &[KeySpec::one(1, KeyFlags::OW.or(KeyFlags::UPDATE))];

const fn restoring(name: &'static str, flags: Flags, group: Group, since: &'static str) -> DataSpec {
    DataSpec::new(name, -4, restore, Flags::WRITE.or(Flags::DENYOOM).or(flags))
        .categories(Categories::KEYSPACE.or(Categories::DANGEROUS))
        .keys(TARGET)
        .docs(
            group,
            since,
            "O(N*M) for N elements of M bytes, with a factor of log(N) for sorted sets",
            "Makes a key of the payload that DUMP gave.",
        )
        .history(&[("3.0.0", "REPLACE."), ("5.0.0", "ABSTTL."), ("5.0.0", "IDLETIME and FREQ.")])
        .arguments(
            "key:key#0 ttl:integer serialized-value:string replace:pure-token@REPLACE?<3.0.0 \
             absttl:pure-token@ABSTTL?<5.0.0 seconds:integer@IDLETIME?<5.0.0 \
             frequency:integer@FREQ?<5.0.0",
        )
}

/// The registration table.
pub(super) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("dump", 2, dump, Flags::READONLY)
        .reads_much(mantissa_commands::long_reads::always)
        .categories(Categories::KEYSPACE)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::Generic, "2.6.0", "O(N*M) for N elements of M bytes", "Packs a value for RESTORE.")
        .tips(&["nondeterministic_output"])
        .arguments("key:key#0"),
    restoring("restore", Flags::NONE, Group::Generic, "2.6.0"),
    restoring("restore-asking", Flags::ASKING, Group::Server, "3.0.0").internal(),
];
