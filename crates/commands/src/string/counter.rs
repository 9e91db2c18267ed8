//! Counters: strings that are numbers. INCR and its like change an integer in its entry, without text in
//! between.

use mantissa_number::LongDouble;
use mantissa_protocol::{Args, Reply};
use mantissa_store::{StringRef, Value};

use crate::DataSpec;
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::packed::{packs_changed_fraction, packs_text};
use crate::parse;
use crate::spec::{Categories, Flags, Group, KeyFlags, KeySpec};

fn incr(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    add(access, args.at(1), 1, reply)
}

fn decr(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    add(access, args.at(1), -1, reply)
}

fn incrby(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    add(access, args.at(1), parse::integer(args.at(2))?, reply)
}

fn decrby(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let decrement = parse::integer(args.at(2))?;
    let increment = decrement.checked_neg().ok_or(Error::fixed("ERR decrement would overflow"))?;
    add(access, args.at(1), increment, reply)
}

fn add(access: &mut Access<'_>, key: &[u8], increment: i64, reply: &mut Reply) -> Outcome {
    let (mut entry, is_new) = access.find_or_insert(key, || Value::Integer(increment))?;
    let mut sum = increment;
    if !is_new {
        let text = entry.as_string().ok_or(Error::WRONG_TYPE)?;
        let old = text.integer().ok_or(Error::NOT_INTEGER)?;
        sum = old.checked_add(increment).ok_or(Error::OVERFLOW)?;
        entry.set_integer(sum);
    }
    access.modified(key, EventClass::STRING, "incrby");
    reply.integer(sum);
    Ok(())
}

fn incrbyfloat(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let key = args.at(1);
    let old = match access.find_mut(key) {
        None => LongDouble::from_i64(0),
        Some(entry) => match entry.as_string().ok_or(Error::WRONG_TYPE)? {
            StringRef::Integer(number) => LongDouble::from_i64(number),
            StringRef::Bytes(text) => LongDouble::parse(text).ok_or(Error::NOT_FLOAT)?,
        },
    };
    let increment = LongDouble::parse(args.at(2)).ok_or(Error::NOT_FLOAT)?;
    let sum = old + increment;
    if sum.is_nan() || sum.is_infinite() {
        return Err(Error::fixed("ERR increment would produce NaN or Infinity"));
    }
    let mut text = Vec::new();
    sum.write(&mut text);
    let (mut entry, is_new) = access.find_or_insert(key, || Value::String(text.clone()))?;
    if !is_new {
        entry.set_string(&text);
    }
    entry.mark_as_text();
    access.modified(key, EventClass::STRING, "incrbyfloat");
    access.log_instead(&[b"SET", key, &text, b"KEEPTTL"]);
    reply.bulk(&text);
    Ok(())
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("incr", 2, incr, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .packed(packs_text!(incr))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE))])
        .docs(Group::String, "1.0.0", "O(1)", "Adds one to a counter; a missing key counts as 0.")
        .arguments("key:key#0"),
    DataSpec::new("decr", 2, decr, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .packed(packs_text!(decr))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE))])
        .docs(Group::String, "1.0.0", "O(1)", "Takes one from a counter; a missing key counts as 0.")
        .arguments("key:key#0"),
    DataSpec::new("incrby", 3, incrby, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .packed(packs_text!(incrby))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE))])
        .docs(Group::String, "1.0.0", "O(1)", "Adds an integer to a counter; a missing key counts as 0.")
        .arguments("key:key#0 increment:integer"),
    DataSpec::new("decrby", 3, decrby, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .packed(packs_text!(decrby))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE))])
        .docs(Group::String, "1.0.0", "O(1)", "Takes an integer from a counter; a missing key counts as 0.")
        .arguments("key:key#0 decrement:integer"),
    DataSpec::new("incrbyfloat", 3, incrbyfloat, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .packed(packs_changed_fraction!(incrbyfloat))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE))])
        .docs(
            Group::String,
            "2.6.0",
            "O(1)",
            "Adds a decimal number to a counter; a missing key counts as 0.",
        )
        .arguments("key:key#0 increment:double"),
];
