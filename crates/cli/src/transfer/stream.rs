//! What a stream has beside its entries: its counters, and its groups with consumers and pending entries.
//!
//! Not kept are the times at which a consumer was last seen and active: no command can set them; and what
//! producers have sent, which a stream forgets within minutes. A pending
//! entry that has been deleted from the stream can only be claimed while there is one: so it is added, and
//! deleted again in the end.

use std::collections::BTreeSet;
use std::io;

use mantissa_protocol::Value;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json, json};

use super::document::{self, member};
use super::item::{ELEMENTS_PER_COMMAND, Entry, text_to_json};
use super::now_ms;
use super::source::checked;
use crate::connection::Connection;

/// In the place of a time: the entry was given back. XPENDING shows it in the place of the idle time too.
const GIVEN_BACK_MS: i64 = -1;

/// An entry that a consumer has received and not acknowledged.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Pending {
    pub(crate) id: Vec<u8>,
    pub(crate) consumer: Vec<u8>,
    /// As unix time in milliseconds; [`GIVEN_BACK_MS`] where nobody has it.
    pub(crate) delivered_ms: i64,
    pub(crate) deliveries: i64,
}

/// A group of consumers.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Group {
    pub(crate) name: Vec<u8>,
    pub(crate) last_id: Vec<u8>,
    /// How many entries it has read, where that is known.
    pub(crate) entries_read: Option<i64>,
    pub(crate) consumers: Vec<Vec<u8>>,
    pub(crate) pending: Vec<Pending>,
}

/// What a stream counts.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Counters {
    pub(crate) last_id: Vec<u8>,
    /// Since Redis 7.
    pub(crate) entries_added: Option<i64>,
    pub(crate) max_deleted_id: Option<Vec<u8>>,
}

/// What a stream has beside its entries.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct State {
    pub(crate) counters: Option<Counters>,
    pub(crate) groups: Vec<Group>,
}

fn asked(connection: &mut Connection, command: &[&[u8]]) -> io::Result<Value> {
    checked(connection.ask(command)?)
}

/// The value of a field of a reply that is a map.
fn field<'a>(reply: &'a Value, name: &str) -> Option<&'a Value> {
    match reply {
        Value::Map(pairs) => {
            pairs.iter().find(|(key, _)| key.as_bytes() == Some(name.as_bytes())).map(|(_, value)| value)
        }
        Value::Array(parts) => {
            let mut pairs = parts.chunks_exact(2);
            pairs.find(|pair| pair[0].as_bytes() == Some(name.as_bytes())).map(|pair| &pair[1])
        }
        _ => None,
    }
}

fn text(reply: &Value, name: &str) -> Option<Vec<u8>> {
    field(reply, name)?.as_bytes().map(<[u8]>::to_vec)
}

fn parts(reply: Value) -> Vec<Value> {
    match reply {
        Value::Array(parts) => parts,
        _ => Vec::new(),
    }
}

impl State {
    /// Reads it from a server.
    pub(crate) fn read(connection: &mut Connection, key: &[u8]) -> io::Result<State> {
        let facts = asked(connection, &[b"XINFO", b"STREAM", key])?;
        let counters = text(&facts, "last-generated-id").map(|last_id| Counters {
            last_id,
            entries_added: field(&facts, "entries-added").and_then(Value::as_integer),
            max_deleted_id: text(&facts, "max-deleted-entry-id"),
        });
        let mut groups = Vec::new();
        for facts in parts(asked(connection, &[b"XINFO", b"GROUPS", key])?) {
            let (Some(name), Some(last_id)) = (text(&facts, "name"), text(&facts, "last-delivered-id"))
            else {
                continue;
            };
            let consumers = parts(asked(connection, &[b"XINFO", b"CONSUMERS", key, &name])?);
            groups.push(Group {
                consumers: consumers.iter().filter_map(|facts| text(facts, "name")).collect(),
                pending: read_pending(connection, key, &name)?,
                entries_read: field(&facts, "entries-read").and_then(Value::as_integer),
                name,
                last_id,
            });
        }
        Ok(State { counters, groups })
    }

    /// The command that gives a stream its counters, but at least so many entries added.
    fn set_counters(&self, key: &[u8], added_min: i64) -> Option<Vec<Vec<u8>>> {
        let Counters { last_id, entries_added, max_deleted_id } = self.counters.as_ref()?;
        let mut words = command(&[b"XSETID", key, last_id]);
        if let (Some(added), Some(deleted)) = (entries_added, max_deleted_id) {
            let added = (*added).max(added_min).to_string();
            words.extend(command(&[b"ENTRIESADDED", added.as_bytes(), b"MAXDELETEDID", deleted]));
        }
        Some(words)
    }

    /// The commands that make the groups.
    fn make_groups(&self, key: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let mut commands = Vec::new();
        for Group { name, last_id, entries_read, consumers, pending } in &self.groups {
            let mut words = command(&[b"XGROUP", b"CREATE", key, name, last_id]);
            if let Some(read) = entries_read {
                words.extend(command(&[b"ENTRIESREAD", read.to_string().as_bytes()]));
            }
            commands.push(words);
            for consumer in consumers {
                commands.push(command(&[b"XGROUP", b"CREATECONSUMER", key, name, consumer]));
            }
            for Pending { id, consumer, delivered_ms, deliveries } in pending {
                let (time, count) = (delivered_ms.to_string(), deliveries.to_string());
                if *delivered_ms == GIVEN_BACK_MS {
                    let give_back: [&[u8]; 7] = [b"XNACK", key, name, b"FAIL", b"IDS", b"1", id];
                    let how: [&[u8]; 3] = [b"RETRYCOUNT", count.as_bytes(), b"FORCE"];
                    commands.push(command(&[&give_back[..], &how[..]].concat()));
                    continue;
                }
                let claim: [&[u8]; 6] = [b"XCLAIM", key, name, consumer, b"0", id];
                let how: [&[u8]; 6] =
                    [b"TIME", time.as_bytes(), b"RETRYCOUNT", count.as_bytes(), b"FORCE", b"JUSTID"];
                commands.push(command(&[&claim[..], &how[..]].concat()));
            }
        }
        commands
    }
}

fn command(words: &[&[u8]]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

/// An identifier as two numbers.
type Id = (u64, u64);

fn id_of(text: &[u8]) -> Option<Id> {
    let (ms, sequence) = std::str::from_utf8(text).ok()?.split_once('-')?;
    Some((ms.parse().ok()?, sequence.parse().ok()?))
}

/// Pending entries that are not in the stream.
fn deleted_entries(entries: &[Entry], state: &State) -> BTreeSet<Id> {
    let pending = state.groups.iter().flat_map(|group| &group.pending);
    let mut deleted: BTreeSet<Id> = pending.filter_map(|pending| id_of(&pending.id)).collect();
    // No entry can have it.
    deleted.remove(&(0, 0));
    for (id, _) in entries {
        // Where a server is to choose it, what is behind cannot be told.
        let Some(id) = id_of(id) else { return BTreeSet::new() };
        deleted.remove(&id);
    }
    deleted
}

/// The commands that make a stream.
pub(super) fn stream_commands(key: &[u8], entries: &[Entry], state: &State) -> Vec<Vec<Vec<u8>>> {
    let deleted = deleted_entries(entries, state);
    let text = |(ms, sequence): &Id| format!("{ms}-{sequence}").into_bytes();
    let stand_in = |id: &Id| command(&[b"XADD", key, &text(id), b"", b""]);
    let (mut commands, mut left) = (Vec::new(), deleted.iter().peekable());
    for (id, fields) in entries {
        while let Some(before) = left.next_if(|before| id_of(id).is_some_and(|id| **before < id)) {
            commands.push(stand_in(before));
        }
        let mut words = command(&[b"XADD", key, id]);
        words.extend(fields.iter().cloned());
        commands.push(words);
    }
    commands.extend(left.map(stand_in));
    if commands.is_empty() && state.counters.is_some() {
        // There is no other way to an empty stream.
        commands.push(command(&[b"XGROUP", b"CREATE", key, b"-", b"0", b"MKSTREAM"]));
        commands.push(command(&[b"XGROUP", b"DESTROY", key, b"-"]));
    }
    if deleted.is_empty() {
        commands.extend(state.set_counters(key, 0));
        commands.extend(state.make_groups(key));
        return commands;
    }
    // The number of entries added is no less than those that are there, and the most that a group has read.
    let read_max = state.groups.iter().filter_map(|group| group.entries_read).max();
    let there = (entries.len() + deleted.len()) as i64;
    commands.extend(state.set_counters(key, there.max(read_max.unwrap_or(0))));
    commands.extend(state.make_groups(key));
    // XTRIM does not count as XDEL does; what it may have removed in the source is in front.
    let first = entries.first().and_then(|(id, _)| id_of(id));
    commands.push(match &first {
        Some(first) => command(&[b"XTRIM", key, b"MINID", &text(first)]),
        None => command(&[b"XTRIM", key, b"MAXLEN", b"0"]),
    });
    let within: Vec<&Id> = deleted.iter().filter(|id| first.is_some_and(|first| **id > first)).collect();
    for piece in within.chunks(ELEMENTS_PER_COMMAND) {
        let mut words = command(&[b"XDEL", key]);
        words.extend(piece.iter().map(|id| text(id)));
        commands.push(words);
    }
    commands.extend(state.set_counters(key, 0));
    commands
}

fn read_pending(connection: &mut Connection, key: &[u8], group: &[u8]) -> io::Result<Vec<Pending>> {
    let (mut found, mut from) = (Vec::<Pending>::new(), b"-".to_vec());
    let count = ELEMENTS_PER_COMMAND.to_string();
    loop {
        let piece = asked(connection, &[b"XPENDING", key, group, &from, b"+", count.as_bytes()])?;
        let (piece, now_ms) = (parts(piece), now_ms());
        let is_last = piece.len() < ELEMENTS_PER_COMMAND;
        for entry in piece {
            if let [
                Value::Bulk(id),
                Value::Bulk(consumer),
                Value::Integer(idle_ms),
                Value::Integer(deliveries),
            ] = parts(entry).as_slice()
            {
                found.push(Pending {
                    id: id.clone(),
                    consumer: consumer.clone(),
                    delivered_ms: if *idle_ms == GIVEN_BACK_MS { GIVEN_BACK_MS } else { now_ms - idle_ms },
                    deliveries: *deliveries,
                });
            }
        }
        match found.last() {
            Some(pending) if !is_last => from = [b"(", &pending.id[..]].concat(),
            _ => return Ok(found),
        }
    }
}

impl Counters {
    pub(crate) fn to_json(&self) -> Json {
        let mut object = Map::new();
        object.insert("last_id".to_owned(), text_to_json(&self.last_id));
        if let Some(added) = self.entries_added {
            object.insert("entries_added".to_owned(), json!(added));
        }
        if let Some(deleted) = &self.max_deleted_id {
            object.insert("max_deleted_id".to_owned(), text_to_json(deleted));
        }
        Json::Object(object)
    }

    pub(crate) fn from_json(value: &RawValue) -> Option<Counters> {
        let object = document::object(value)?;
        Some(Counters {
            last_id: document::bytes(member(&object, "last_id")?)?,
            entries_added: optional(member(&object, "entries_added"), document::integer)?,
            max_deleted_id: optional(member(&object, "max_deleted_id"), document::bytes)?,
        })
    }
}

/// What is read of a value that need not be there; `None` if it is there and cannot be read.
fn optional<'a, T>(
    value: Option<&'a RawValue>,
    read: impl FnOnce(&'a RawValue) -> Option<T>,
) -> Option<Option<T>> {
    value.map_or(Some(None), |value| read(value).map(Some))
}

impl Group {
    pub(crate) fn to_json(&self) -> Json {
        let pending = self.pending.iter().map(|pending| {
            let Pending { id, consumer, delivered_ms, deliveries } = pending;
            json!([text_to_json(id), text_to_json(consumer), delivered_ms, deliveries])
        });
        json!({
            "name": text_to_json(&self.name),
            "last_id": text_to_json(&self.last_id),
            "entries_read": self.entries_read,
            "consumers": self.consumers.iter().map(|name| text_to_json(name)).collect::<Vec<_>>(),
            "pending": pending.collect::<Vec<_>>(),
        })
    }

    pub(crate) fn from_json(value: &RawValue) -> Option<Group> {
        let object = document::object(value)?;
        let list =
            |name: &str| optional(member(&object, name), document::array).map(Option::unwrap_or_default);
        let pending =
            list("pending")?.into_iter().map(|pending| match document::array(pending)?.as_slice() {
                [id, consumer, delivered_ms, deliveries] => Some(Pending {
                    id: document::bytes(id)?,
                    consumer: document::bytes(consumer)?,
                    delivered_ms: document::integer(delivered_ms)?,
                    deliveries: document::integer(deliveries)?,
                }),
                _ => None,
            });
        Some(Group {
            name: document::bytes(member(&object, "name")?)?,
            last_id: document::bytes(member(&object, "last_id")?)?,
            entries_read: optional(member(&object, "entries_read"), document::integer)?,
            consumers: list("consumers")?.into_iter().map(document::bytes).collect::<Option<_>>()?,
            pending: pending.collect::<Option<_>>()?,
        })
    }
}
