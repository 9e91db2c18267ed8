//! Small collections, many at a time: what takes three round trips for each key is asked of all in three.
//!
//! The keys are watched from before the first question until after the last, as one key is.

use std::io;

use mantissa_protocol::Value;

use super::item::{Data, ELEMENTS_PER_COMMAND, Field, pairs, texts};
use super::source::expiry_of;
use crate::connection::Connection;

/// Keys that are read at a time. Each may have as many elements as one command asks for.
pub(super) const KEYS_AT_ONCE: usize = 16;

/// A key that has been looked at: its name and its type.
pub(super) type Typed = (Vec<u8>, Vec<u8>);

/// When a key expires as unix time in milliseconds, and its value.
pub(super) type Read = (Option<i64>, Data);

/// Reads keys of the current database. `None` for those that have to be read one by one: large ones, other
/// types, and what may have changed meanwhile.
pub(super) fn read(connection: &mut Connection, keys: &[Typed]) -> io::Result<Vec<Option<Read>>> {
    let mut questions = vec![vec![b"WATCH".to_vec()]];
    questions[0].extend(keys.iter().map(|(key, _)| key.clone()));
    for (key, kind) in keys {
        questions.extend([vec![b"PEXPIRETIME".to_vec(), key.clone()], vec![b"PTTL".to_vec(), key.clone()]]);
        questions.push(first_elements(key, kind));
    }
    connection.send_all(&questions)?;
    // A server may not allow transactions.
    connection.receive_reply()?;
    let mut found = Vec::with_capacity(keys.len());
    for (_, kind) in keys {
        let (time, left) = (connection.receive_reply()?, connection.receive_reply()?);
        let data = whole(kind, connection.receive_reply()?);
        found.push(match data {
            Some(data) => Some((expiry_of(time, left)?, data)),
            None => None,
        });
    }
    ask_field_expiries(connection, keys, &mut found)?;
    connection.send_all(&["MULTI", "EXEC"].map(|name| vec![name.as_bytes().to_vec()]))?;
    connection.receive_reply()?;
    if connection.receive_reply()?.is_null() {
        found.fill_with(|| None);
    }
    Ok(found)
}

/// The command for the first elements of a collection of a type.
fn first_elements(key: &[u8], kind: &[u8]) -> Vec<Vec<u8>> {
    let (count, last) = (ELEMENTS_PER_COMMAND.to_string(), (ELEMENTS_PER_COMMAND - 1).to_string());
    let words: [&[u8]; 5] = match kind {
        b"list" => return [b"LRANGE", key, b"0", last.as_bytes()].map(<[u8]>::to_vec).into(),
        b"hash" => [b"HSCAN", key, b"0", b"COUNT", count.as_bytes()],
        b"set" => [b"SSCAN", key, b"0", b"COUNT", count.as_bytes()],
        b"zset" => [b"ZSCAN", key, b"0", b"COUNT", count.as_bytes()],
        _ => return vec![b"TYPE".to_vec(), key.to_vec()],
    };
    words.map(<[u8]>::to_vec).into()
}

/// The collection whose first elements a reply holds, if these are all.
fn whole(kind: &[u8], reply: Value) -> Option<Data> {
    let Value::Array(parts) = reply else { return None };
    if kind == b"list" {
        let is_whole = !parts.is_empty() && parts.len() < ELEMENTS_PER_COMMAND;
        return is_whole.then(|| Data::List(texts(Value::Array(parts))));
    }
    let [cursor, elements] = <[Value; 2]>::try_from(parts).ok()?;
    let elements = texts(elements);
    if cursor.as_bytes() != Some(b"0") || elements.is_empty() || elements.len() > 2 * ELEMENTS_PER_COMMAND {
        return None;
    }
    Some(match kind {
        b"set" => Data::Set(elements),
        b"zset" => Data::SortedSet(pairs(elements)),
        _ => Data::Hash(pairs(elements).into_iter().map(|(field, value)| (field, value, None)).collect()),
    })
}

/// Asks when the fields of the hashes expire.
fn ask_field_expiries(
    connection: &mut Connection,
    keys: &[Typed],
    found: &mut [Option<Read>],
) -> io::Result<()> {
    let hashes = keys.iter().zip(found).filter_map(|((key, _), read)| match read {
        Some((_, Data::Hash(fields))) => Some((key, fields)),
        _ => None,
    });
    let hashes: Vec<(&Vec<u8>, &mut Vec<Field>)> = hashes.collect();
    let questions = hashes.iter().map(|(key, fields)| {
        let count = fields.len().to_string().into_bytes();
        let mut question = vec![b"HPEXPIRETIME".to_vec(), key.to_vec(), b"FIELDS".to_vec(), count];
        question.extend(fields.iter().map(|(field, ..)| field.clone()));
        question
    });
    connection.send_all(&questions.collect::<Vec<_>>())?;
    for (_, fields) in hashes {
        // A server that does not know the command has no such expiries.
        let Value::Array(times) = connection.receive_reply()? else { continue };
        for ((.., expires_at_ms), time) in fields.iter_mut().zip(times) {
            *expires_at_ms = time.as_integer().filter(|time| *time >= 0);
        }
    }
    Ok(())
}
