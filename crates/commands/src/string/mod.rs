//! Strings: storing and reading whole values. Counters, ranges and LCS have files of their own.

pub(crate) mod condition;
pub(crate) mod counter;
pub(crate) mod increx;
pub(crate) mod lcs;
pub(crate) mod msetex;
pub(crate) mod range;

use mantissa_protocol::packed::PackedWriter;
use mantissa_protocol::{Args, Reply};
use smallvec::SmallVec;

use self::condition::Condition;
use crate::DataSpec;
use crate::access::{Access, NewExpiry};
use crate::effects::{EventClass, removal};
use crate::error::{Error, Outcome};
use crate::expiry::{Expiration, TimeForm};
use crate::packed::{self, packs};
use crate::parse;
use crate::spec::{Categories, Flags, Group, KeyFlags, KeySpec};

fn get(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    write_string(access, args.at(1), reply)?;
    Ok(())
}

/// Replies with the string at a key, or null. Says whether it was there.
fn write_string(access: &Access<'_>, key: &[u8], reply: &mut Reply) -> Outcome<bool> {
    match access.string(key)? {
        Some(text) => {
            reply.bulk(text.text(&mut [0; 20]));
            Ok(true)
        }
        None => {
            reply.null();
            Ok(false)
        }
    }
}

/// The options of SET.
#[derive(Default)]
struct SetOptions<'a> {
    only_if_missing: bool,
    only_if_there: bool,
    condition: Option<Condition<'a>>,
    get: bool,
    expiration: Option<Expiration<'a>>,
}

impl<'a> SetOptions<'a> {
    fn parse(args: Args<'a>) -> Outcome<Self> {
        let mut options = SetOptions::default();
        let mut at = 3;
        while at < args.len() {
            let option = args.at(at);
            if parse::is(option, "NX") && !options.only_if_there && options.condition.is_none() {
                options.only_if_missing = true;
                at += 1;
            } else if parse::is(option, "XX") && !options.only_if_missing && options.condition.is_none() {
                options.only_if_there = true;
                at += 1;
            } else if parse::is(option, "GET") {
                options.get = true;
                at += 1;
            } else if Condition::is_name(option) {
                let condition = args.get(at + 1).and_then(|argument| Condition::parse(option, argument));
                let is_other =
                    options.only_if_missing || options.only_if_there || options.condition.is_some();
                if is_other || condition.is_none() {
                    return Err(Error::SYNTAX);
                }
                options.condition = condition;
                at += 2;
            } else {
                let (expiration, after) = Expiration::parse(args, at).ok_or(Error::SYNTAX)?;
                if expiration == Expiration::Persist
                    || options.expiration.is_some_and(|old| !old.admits(expiration))
                {
                    return Err(Error::SYNTAX);
                }
                options.expiration = Some(expiration);
                at = after;
            }
        }
        Ok(options)
    }

    /// Whether the key is to be set as it is now.
    fn admits(&self, access: &mut Access<'_>, key: &[u8]) -> Outcome<bool> {
        if !(self.only_if_missing || self.only_if_there || self.condition.is_some()) {
            return Ok(true);
        }
        let entry = access.find_mut(key);
        let Some(condition) = self.condition else { return Ok(entry.is_some() == self.only_if_there) };
        match entry {
            None => Ok(condition.holds_without_key()),
            Some(entry) => condition.holds_for(entry.as_string().ok_or(Error::WRONG_TYPE)?),
        }
    }
}

fn set(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() == 3 {
        access.set_string(args.at(1), args.at(2), NewExpiry::Clear)?;
        access.modified(args.at(1), EventClass::STRING, "set");
        reply.ok();
        return Ok(());
    }
    set_with_options(access, args, reply)
}

fn set_with_options(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, text) = (args.at(1), args.at(2));
    let options = SetOptions::parse(args)?;
    let expiry = match options.expiration {
        None => NewExpiry::Clear,
        Some(Expiration::Set(form, argument)) => {
            NewExpiry::At(form.parse_positive(argument, access.clock_ms(), "set")?)
        }
        Some(_) => NewExpiry::Keep,
    };
    if options.get {
        access.remove_if_expired(key);
        write_string(access, key, reply)?;
    }
    if !options.admits(access, key)? {
        if !options.get {
            reply.null();
        }
        return Ok(());
    }
    store(access, key, text, expiry)?;
    match (options.expiration, expiry) {
        (Some(Expiration::Set(TimeForm::UNIX_MILLISECONDS, _)), _) if options.condition.is_none() => {}
        (_, NewExpiry::At(time)) => log_set_until(access, key, text, time),
        (_, NewExpiry::Keep) if options.condition.is_some() => {
            access.log_instead(&[b"SET", key, text, b"KEEPTTL"]);
        }
        _ if options.condition.is_some() => access.log_instead(&[b"SET", key, text]),
        _ if options.get => {
            let is_get = |&(at, argument): &(usize, &[u8])| at > 2 && parse::is(argument, "GET");
            let kept: SmallVec<[&[u8]; 8]> =
                args.iter().enumerate().filter(|pair| !is_get(pair)).map(|(_, argument)| argument).collect();
            access.log_instead(&kept);
        }
        _ => {}
    }
    if !options.get {
        reply.ok();
    }
    Ok(())
}

/// Sets a key, with its event.
fn store(access: &mut Access<'_>, key: &[u8], text: &[u8], expiry: NewExpiry) -> Outcome {
    access.set_string(key, text, expiry)?;
    access.modified(key, EventClass::STRING, "set");
    if let NewExpiry::At(_) = expiry {
        access.event(EventClass::GENERIC, "expire", key);
    }
    Ok(())
}

fn log_set_until(access: &mut Access<'_>, key: &[u8], text: &[u8], time: i64) {
    let mut digits = [0; 20];
    let time = mantissa_number::format_i64(&mut digits, time);
    access.log_instead(&[b"SET", key, text, b"PXAT", time]);
}

fn setex(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    set_for_a_time(access, args, reply, TimeForm::SECONDS, "setex")
}

fn psetex(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    set_for_a_time(access, args, reply, TimeForm::MILLISECONDS, "psetex")
}

fn set_for_a_time(
    access: &mut Access<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    form: TimeForm,
    name: &str,
) -> Outcome {
    let time = form.parse_positive(args.at(2), access.clock_ms(), name)?;
    store(access, args.at(1), args.at(3), NewExpiry::At(time))?;
    log_set_until(access, args.at(1), args.at(3), time);
    reply.ok();
    Ok(())
}

fn setnx(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if access.find_mut(args.at(1)).is_some() {
        reply.integer(0);
        return Ok(());
    }
    store(access, args.at(1), args.at(2), NewExpiry::Clear)?;
    reply.integer(1);
    Ok(())
}

fn getset(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    access.remove_if_expired(args.at(1));
    write_string(access, args.at(1), reply)?;
    store(access, args.at(1), args.at(2), NewExpiry::Clear)?;
    access.log_instead(&[b"SET", args.at(1), args.at(2)]);
    Ok(())
}

fn getdel(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let key = args.at(1);
    if write_string(access, key, reply)? {
        access.delete(key);
        access.log_instead(&[b"DEL", key]);
    }
    Ok(())
}

fn getex(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let key = args.at(1);
    let mut expiration = None;
    let mut at = 2;
    while at < args.len() {
        let (next, after) = Expiration::parse(args, at).ok_or(Error::SYNTAX)?;
        if next == Expiration::Keep || expiration.is_some_and(|old: Expiration<'_>| !old.admits(next)) {
            return Err(Error::SYNTAX);
        }
        expiration = Some(next);
        at = after;
    }
    if !write_string(access, key, reply)? {
        return Ok(());
    }
    match expiration {
        None | Some(Expiration::Keep) => {}
        Some(Expiration::Persist) => {
            if access.expiry(key).flatten().is_some() && access.set_expiry(key, None) {
                access.modified(key, EventClass::GENERIC, "persist");
                access.log_instead(&[b"PERSIST", key]);
            }
        }
        Some(Expiration::Set(form, argument)) => {
            let time = form.parse_positive(argument, access.clock_ms(), "getex")?;
            if form.absolute && time <= access.now_ms() {
                access.delete_as(access.settings().lazy_expire, key);
                access.log_instead(&[removal(access.settings().lazy_expire), key]);
                return Ok(());
            }
            access.set_expiry(key, Some(time));
            access.modified(key, EventClass::GENERIC, "expire");
            let mut digits = [0; 20];
            access.log_instead(&[b"PEXPIREAT", key, mantissa_number::format_i64(&mut digits, time)]);
        }
    }
    Ok(())
}

fn mget(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.array(args.len() - 1);
    for key in args.from(1) {
        match access.read(key).and_then(|entry| entry.as_string()) {
            Some(text) => reply.bulk(text.text(&mut [0; 20])),
            None => reply.null(),
        }
    }
    Ok(())
}

fn pack_get(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    writer.set_scalar();
    packed::write_string(writer, access.string(args.at(1))?);
    Ok(())
}

fn pack_mget(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    writer.reserve(args.len() - 1);
    for key in args.from(1) {
        packed::write_string(writer, access.read(key).and_then(|entry| entry.as_string()));
    }
    Ok(())
}

pub(crate) fn mset(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(Error::arity("mset"));
    }
    store_pairs(access, args)?;
    reply.ok();
    Ok(())
}

fn msetnx(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(Error::arity("msetnx"));
    }
    let keys = args.from(1).iter().step_by(2);
    for key in keys {
        if access.find_mut(key).is_some() {
            reply.integer(0);
            return Ok(());
        }
    }
    store_pairs(access, args)?;
    reply.integer(1);
    Ok(())
}

fn store_pairs(access: &mut Access<'_>, args: Args<'_>) -> Outcome {
    for at in (1..args.len() - 1).step_by(2) {
        let key = args.at(at);
        access.hint(key, access.keyspace().hash(key));
        store(access, key, args.at(at + 1), NewExpiry::Clear)?;
    }
    Ok(())
}

/// SET reads what was there with GET and for a condition, and overwrites it otherwise.
fn flags_of_set(args: Args<'_>) -> KeyFlags {
    let reads = |option: &[u8]| parse::is(option, "GET") || Condition::is_name(option);
    match args.from(3).iter().any(reads) {
        true => KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE),
        false => KeyFlags::OW.or(KeyFlags::UPDATE),
    }
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("get", 2, get, Flags::READONLY.or(Flags::FAST))
        .packed(packs!(pack_get))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::String, "1.0.0", "O(1)", "Reads the string at a key.")
        .arguments("key:key#0"),
    DataSpec::new("set", -3, set, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(
            1,
            KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE).or(KeyFlags::VARIABLE_FLAGS),
        )
        .notes("Access only matters with GET and conditions")])
        .key_flags_of(flags_of_set)
        .docs(Group::String, "1.0.0", "O(1)", "Stores a string at a key, whatever was there before.")
        .history(&[
            ("2.6.12", "EX, PX, NX and XX."),
            ("6.0.0", "KEEPTTL."),
            ("6.2.0", "GET, EXAT and PXAT."),
            ("7.0.0", "NX and GET go together."),
        ])
        .arguments(
            "key:key#0 value:string condition:oneof(nx:pure-token@NX xx:pure-token@XX)?<2.6.12 \
            get:pure-token@GET?<6.2.0 expiration:oneof(seconds:integer@EX<2.6.12 \
            milliseconds:integer@PX<2.6.12 unix-time-seconds:unix-time@EXAT<6.2.0 \
            unix-time-milliseconds:unix-time@PXAT<6.2.0 keepttl:pure-token@KEEPTTL<6.0.0)?",
        ),
    DataSpec::new("setnx", 3, setnx, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::OW.or(KeyFlags::INSERT))])
        .docs(Group::String, "1.0.0", "O(1)", "Stores a string at a key that is not there yet.")
        .deprecated("2.6.12", "SET with NX")
        .arguments("key:key#0 value:string"),
    DataSpec::new("setex", 4, setex, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::OW.or(KeyFlags::UPDATE))])
        .docs(Group::String, "2.0.0", "O(1)", "Stores a string that expires after some seconds.")
        .deprecated("2.6.12", "SET with EX")
        .arguments("key:key#0 seconds:integer value:string"),
    DataSpec::new("psetex", 4, psetex, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::OW.or(KeyFlags::UPDATE))])
        .docs(Group::String, "2.6.0", "O(1)", "Stores a string that expires after some milliseconds.")
        .deprecated("2.6.12", "SET with PX")
        .arguments("key:key#0 milliseconds:integer value:string"),
    DataSpec::new("getset", 3, getset, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE))])
        .docs(Group::String, "1.0.0", "O(1)", "Stores a string and replies with the one it replaces.")
        .deprecated("6.2.0", "SET with GET")
        .arguments("key:key#0 value:string"),
    DataSpec::new("getdel", 2, getdel, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE))])
        .docs(Group::String, "6.2.0", "O(1)", "Reads the string at a key and removes the key.")
        .arguments("key:key#0"),
    DataSpec::new("getex", -2, getex, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE))
            .notes("An update because the expiry changes")])
        .docs(Group::String, "6.2.0", "O(1)", "Reads the string at a key and changes when it expires.")
        .arguments(
            "key:key#0 expiration:oneof(seconds:integer@EX milliseconds:integer@PX \
            unix-time-seconds:unix-time@EXAT unix-time-milliseconds:unix-time@PXAT \
            persist:pure-token@PERSIST)?",
        ),
    DataSpec::new("mget", -2, mget, Flags::READONLY.or(Flags::FAST))
        .packed(packs!(pack_mget))
        .categories(Categories::STRING)
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::String, "1.0.0", "O(N) for N keys", "Reads several strings at once.")
        .tips(&["request_policy:multi_shard"])
        .arguments("key:key#0*"),
    DataSpec::new("mset", -3, mset, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::STRING)
        .keys(&[KeySpec::range(1, -1, 2, KeyFlags::OW.or(KeyFlags::UPDATE))])
        .docs(Group::String, "1.0.1", "O(N) for N keys", "Stores several strings at once.")
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"])
        .arguments("data:block(key:key#0 value:string)*"),
    DataSpec::new("msetnx", -3, msetnx, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::STRING)
        .keys(&[KeySpec::range(1, -1, 2, KeyFlags::OW.or(KeyFlags::INSERT))])
        .docs(
            Group::String,
            "1.0.1",
            "O(N) for N keys",
            "Stores several strings at once, provided that none of the keys is there.",
        )
        .arguments("data:block(key:key#0 value:string)*"),
];
