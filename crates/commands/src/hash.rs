//! Hashes, with expiry by field.
//!
//! No command sees an expired field or a hash that has only expired fields. Reads skip them. A write
//! removes the expired ones among its fields first, and some others ([`open`]). Active expiry removes the
//! rest ([`remove_expired_fields`]).

mod counter;
mod expiry;
mod fields;
mod import;
mod pick;
mod table;
#[cfg(test)]
mod tests;

use mantissa_protocol::packed::PackedWriter;
use mantissa_protocol::{Args, Reply};
use mantissa_store::Hash;
use mantissa_store::listpack::Element;

use crate::access::Access;
use crate::collection_scan::write_element;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::packed;

pub(crate) use expiry::remove_expired_fields;
pub use import::import_hash;
pub(crate) use table::COMMANDS;

/// The value of a field that has not expired.
fn unexpired_value<'a>(hash: &'a Hash, field: &[u8], now_ms: i64) -> Option<Element<'a>> {
    let (value, expiry) = hash.get(field)?;
    expiry.is_none_or(|time| time > now_ms).then_some(value)
}

/// Removes those of `fields` that have expired, and a few others.
fn remove_expired(access: &mut Access<'_>, key: &[u8], fields: Args<'_>) -> Outcome {
    if access.may_have_expired_fields(key) {
        expiry::remove_expired(access, key, fields)?;
    }
    Ok(())
}

/// The hash at a key, to change, without those of `fields` that have expired.
fn open<'a>(access: &'a mut Access<'_>, key: &[u8], fields: Args<'_>) -> Outcome<Option<&'a mut Hash>> {
    remove_expired(access, key, fields)?;
    access.hash_mut(key)
}

/// The same; a new empty hash if the key is not there.
fn open_or_new<'a>(access: &'a mut Access<'_>, key: &[u8], fields: Args<'_>) -> Outcome<&'a mut Hash> {
    remove_expired(access, key, fields)?;
    access.hash_or_new(key)
}

/// Writes a value, or its absence.
fn write_value(reply: &mut Reply, value: Option<Element<'_>>) {
    match value {
        Some(value) => write_element(reply, value),
        None => reply.null(),
    }
}

pub(crate) fn hset(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let added = set_pairs(access, args, "hset")?;
    reply.integer(added as i64);
    Ok(())
}

fn hmset(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    set_pairs(access, args, "hmset")?;
    reply.ok();
    Ok(())
}

/// Gives fields their values and returns how many are new.
fn set_pairs(access: &mut Access<'_>, args: Args<'_>, name: &str) -> Outcome<usize> {
    if !args.len().is_multiple_of(2) {
        return Err(Error::arity(name));
    }
    let (key, pairs) = (args.at(1), args.from(2));
    let limits = &access.settings().limits;
    let hash = open_or_new(access, key, pairs)?;
    let longest = pairs.iter().map(<[u8]>::len).max().unwrap_or(0);
    hash.expect(pairs.len() / 2, longest, limits);
    let mut added = 0;
    for at in (0..pairs.len()).step_by(2) {
        added += usize::from(hash.set(pairs.at(at), pairs.at(at + 1), limits));
    }
    if hash.is_tracked_in_vain() {
        access.track_fields(key);
    }
    access.event(EventClass::HASH, "hset", key);
    access.changed_by(key, pairs.len() as u64 / 2);
    Ok(added)
}

fn hsetnx(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, field, value) = (args.at(1), args.at(2), args.at(3));
    let limits = &access.settings().limits;
    let hash = open_or_new(access, key, args.range(2..3))?;
    let is_new = hash.get(field).is_none();
    if is_new {
        hash.set(field, value, limits);
        access.modified(key, EventClass::HASH, "hset");
    }
    reply.integer(i64::from(is_new));
    Ok(())
}

fn hget(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let hash = access.hash_value(args.at(1))?;
    write_value(reply, hash.and_then(|hash| unexpired_value(hash, args.at(2), access.now_ms())));
    Ok(())
}

fn hmget(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let hash = access.hash_value(args.at(1))?;
    write_values(access, hash, args.from(2), reply);
    Ok(())
}

/// Replies the values of fields as an array.
fn write_values(access: &Access<'_>, hash: Option<&Hash>, fields: Args<'_>, reply: &mut Reply) {
    reply.array(fields.len());
    for field in fields {
        write_value(reply, hash.and_then(|hash| unexpired_value(hash, field, access.now_ms())));
    }
}

fn hgetall(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let Some(hash) = access.hash_value(args.at(1))? else {
        reply.map(0);
        return Ok(());
    };
    reply.map(hash.unexpired_len(access.now_ms()));
    hash.unexpired(access.now_ms()).for_each(|(field, value, _)| {
        write_element(reply, field);
        write_element(reply, value);
        reply.stream();
    });
    Ok(())
}

fn hkeys(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let Some(hash) = access.hash_value(args.at(1))? else {
        reply.array(0);
        return Ok(());
    };
    reply.array(hash.unexpired_len(access.now_ms()));
    hash.unexpired(access.now_ms()).for_each(|(field, _, _)| {
        write_element(reply, field);
        reply.stream();
    });
    Ok(())
}

fn hvals(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let Some(hash) = access.hash_value(args.at(1))? else {
        reply.array(0);
        return Ok(());
    };
    reply.array(hash.unexpired_len(access.now_ms()));
    hash.unexpired(access.now_ms()).for_each(|(_, value, _)| {
        write_element(reply, value);
        reply.stream();
    });
    Ok(())
}

fn pack_hget(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    let hash = access.hash_value(args.at(1))?;
    let value = hash.and_then(|hash| unexpired_value(hash, args.at(2), access.now_ms()));
    writer.set_scalar();
    packed::write_value(writer, value);
    Ok(())
}

fn pack_hmget(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    let hash = access.hash_value(args.at(1))?;
    let fields = args.from(2);
    writer.reserve(fields.len());
    for field in fields {
        let value = hash.and_then(|hash| unexpired_value(hash, field, access.now_ms()));
        packed::write_value(writer, value);
    }
    Ok(())
}

fn pack_hvals(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    let Some(hash) = access.hash_value(args.at(1))? else { return Ok(()) };
    writer.reserve(hash.len());
    hash.unexpired(access.now_ms()).for_each(|(_, value, _)| packed::write_element(writer, value));
    Ok(())
}

fn pack_hgetall(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    writer.set_named();
    let Some(hash) = access.hash_value(args.at(1))? else { return Ok(()) };
    writer.reserve(hash.len());
    hash.unexpired(access.now_ms()).for_each(|(field, value, _)| {
        packed::write_element(writer, value);
        writer.name(field.text(&mut [0; 20]));
    });
    Ok(())
}

fn hdel(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, fields) = (args.at(1), args.from(2));
    let Some(hash) = open(access, key, fields)? else {
        reply.integer(0);
        return Ok(());
    };
    let removed = fields.iter().filter(|field| hash.remove(field)).count();
    let is_empty = hash.is_empty();
    if hash.is_tracked_in_vain() {
        access.track_fields(key);
    }
    if removed > 0 {
        access.event(EventClass::HASH, "hdel", key);
        access.changed_by(key, removed as u64);
        access.remove_if_empty(key, is_empty);
    }
    reply.integer(removed as i64);
    Ok(())
}

fn hlen(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let len = access.window::<Hash>(args.at(1))?.map_or(0, |window| match window.collection.len() {
        // Those of a hash with fields that expire come as a whole.
        0 => window.len,
        _ => window.collection.unexpired_len(access.now_ms()),
    });
    reply.integer(len as i64);
    Ok(())
}

fn hstrlen(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let hash = access.hash_value(args.at(1))?;
    let value = hash.and_then(|hash| unexpired_value(hash, args.at(2), access.now_ms()));
    reply.integer(value.map_or(0, |value| value.text(&mut [0; 20]).len()) as i64);
    Ok(())
}

fn hexists(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let hash = access.hash_value(args.at(1))?;
    let value = hash.and_then(|hash| unexpired_value(hash, args.at(2), access.now_ms()));
    reply.integer(i64::from(value.is_some()));
    Ok(())
}
