//! Values by their elements, as text files have them: how they are read from a server, written as JSON and
//! CSV, read from those, and stored.
//!
//! A value is held whole. JSON has the expiry of a hash field as a third element beside field and value, and
//! what a stream has beside its entries as members `stream` and `groups`. CSV has the expiry of a field in a
//! column of its own, and for a stream lines whose field is `stream` or `group` and whose value is JSON.

use std::collections::BTreeMap;
use std::io;

use mantissa_protocol::Value;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json, json};

use super::document::{self, Members, member};
use super::source::checked;
use super::stream::{Counters, Group, State, stream_commands};
use crate::connection::Connection;

/// How many elements are asked for, or stored, by one command.
pub(crate) const ELEMENTS_PER_COMMAND: usize = 1000;

/// A key with its value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Item {
    pub(crate) database: u32,
    pub(crate) key: Vec<u8>,
    /// As unix time in milliseconds.
    pub(crate) expires_at_ms: Option<i64>,
    pub(crate) data: Data,
}

/// An entry of a stream: its identifier, and its fields and values in turn.
pub(super) type Entry = (Vec<u8>, Vec<Vec<u8>>);

/// A field of a hash, its value, and when it expires as unix time in milliseconds.
pub(super) type Field = (Vec<u8>, Vec<u8>, Option<i64>);

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Data {
    Text(Vec<u8>),
    List(Vec<Vec<u8>>),
    Set(Vec<Vec<u8>>),
    Hash(Vec<Field>),
    /// Members and the text of their scores.
    SortedSet(Vec<(Vec<u8>, Vec<u8>)>),
    Stream(Vec<Entry>, State),
}

impl Data {
    /// The name of the type, as TYPE gives it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Data::Text(_) => "string",
            Data::List(_) => "list",
            Data::Set(_) => "set",
            Data::Hash(_) => "hash",
            Data::SortedSet(_) => "zset",
            Data::Stream(..) => "stream",
        }
    }

    /// Reads the value of a key; `None` if it is gone or of a type that has no place here.
    pub(crate) fn read(connection: &mut Connection, key: &[u8], kind: &[u8]) -> io::Result<Option<Data>> {
        Ok(Some(match kind {
            b"string" => match asked(connection, &[b"GET", key])? {
                Value::Bulk(text) => Data::Text(text),
                _ => return Ok(None),
            },
            b"list" => Data::List(read_list(connection, key)?),
            b"set" => Data::Set(scan(connection, b"SSCAN", key)?),
            b"hash" => Data::Hash(read_hash(connection, key)?),
            b"zset" => Data::SortedSet(pairs(scan(connection, b"ZSCAN", key)?)),
            b"stream" => Data::Stream(read_stream(connection, key)?, State::read(connection, key)?),
            _ => return Ok(None),
        }))
    }
}

fn asked(connection: &mut Connection, command: &[&[u8]]) -> io::Result<Value> {
    checked(connection.ask(command)?)
}

fn read_hash(connection: &mut Connection, key: &[u8]) -> io::Result<Vec<Field>> {
    let pairs = pairs(scan(connection, b"HSCAN", key)?);
    let mut fields: Vec<Field> = pairs.into_iter().map(|(field, value)| (field, value, None)).collect();
    for piece in fields.chunks_mut(ELEMENTS_PER_COMMAND) {
        let count = piece.len().to_string();
        let mut question: Vec<&[u8]> = vec![b"HPEXPIRETIME", key, b"FIELDS", count.as_bytes()];
        question.extend(piece.iter().map(|(field, ..)| field.as_slice()));
        // A server that does not know the command has no such expiries.
        let Value::Array(times) = connection.ask(&question)? else { break };
        for ((.., expires_at_ms), time) in piece.iter_mut().zip(times) {
            *expires_at_ms = time.as_integer().filter(|time| *time >= 0);
        }
    }
    Ok(fields)
}

fn read_list(connection: &mut Connection, key: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut elements = Vec::new();
    loop {
        let first = elements.len().to_string();
        let last = (elements.len() + ELEMENTS_PER_COMMAND - 1).to_string();
        let piece = texts(asked(connection, &[b"LRANGE", key, first.as_bytes(), last.as_bytes()])?);
        let is_last = piece.len() < ELEMENTS_PER_COMMAND;
        elements.extend(piece);
        if is_last {
            return Ok(elements);
        }
    }
}

fn scan(connection: &mut Connection, name: &[u8], key: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let (mut elements, mut cursor) = (Vec::new(), b"0".to_vec());
    let count = ELEMENTS_PER_COMMAND.to_string();
    loop {
        let reply = asked(connection, &[name, key, &cursor, b"COUNT", count.as_bytes()])?;
        let Value::Array(parts) = reply else { return Ok(elements) };
        let mut parts = parts.into_iter();
        let (Some(Value::Bulk(next)), Some(piece)) = (parts.next(), parts.next()) else {
            return Ok(elements);
        };
        elements.extend(texts(piece));
        if next == b"0" {
            return Ok(elements);
        }
        cursor = next;
    }
}

fn read_stream(connection: &mut Connection, key: &[u8]) -> io::Result<Vec<Entry>> {
    let (mut entries, mut from) = (Vec::<Entry>::new(), b"-".to_vec());
    let count = ELEMENTS_PER_COMMAND.to_string();
    loop {
        let reply = asked(connection, &[b"XRANGE", key, &from, b"+", b"COUNT", count.as_bytes()])?;
        let Value::Array(piece) = reply else { return Ok(entries) };
        let is_last = piece.len() < ELEMENTS_PER_COMMAND;
        for entry in piece {
            let Value::Array(parts) = entry else { continue };
            let mut parts = parts.into_iter();
            if let (Some(Value::Bulk(id)), Some(fields)) = (parts.next(), parts.next()) {
                entries.push((id, texts(fields)));
            }
        }
        match entries.last() {
            Some((id, _)) if !is_last => from = [b"(", &id[..]].concat(),
            _ => return Ok(entries),
        }
    }
}

/// The strings of a reply.
pub(super) fn texts(reply: Value) -> Vec<Vec<u8>> {
    let elements = match reply {
        Value::Array(elements) | Value::Set(elements) => elements,
        _ => return Vec::new(),
    };
    let strings = elements.into_iter().filter_map(|element| match element {
        Value::Bulk(text) | Value::Simple(text) => Some(text),
        _ => None,
    });
    strings.collect()
}

/// Every two strings as a pair.
pub(super) fn pairs(texts: Vec<Vec<u8>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut found, mut texts) = (Vec::new(), texts.into_iter());
    while let (Some(one), Some(other)) = (texts.next(), texts.next()) {
        found.push((one, other));
    }
    found
}

/// The commands that let fields expire, those with the same time together.
fn field_expiries(key: &[u8], fields: &[Field]) -> Vec<Vec<Vec<u8>>> {
    let mut by_time = BTreeMap::<i64, Vec<&[u8]>>::new();
    for (field, _, expires_at_ms) in fields {
        if let Some(at_ms) = expires_at_ms {
            by_time.entry(*at_ms).or_default().push(field);
        }
    }
    let mut commands = Vec::new();
    for (at_ms, fields) in by_time {
        for piece in fields.chunks(ELEMENTS_PER_COMMAND) {
            let (at, count) = (at_ms.to_string().into_bytes(), piece.len().to_string().into_bytes());
            let start = [b"HPEXPIREAT".to_vec(), key.to_vec(), at, b"FIELDS".to_vec(), count];
            commands.push(start.into_iter().chain(piece.iter().map(|field| field.to_vec())).collect());
        }
    }
    commands
}

impl Item {
    /// The commands that make the key what it is.
    pub(crate) fn commands(&self) -> Vec<Vec<Vec<u8>>> {
        let key = &self.key;
        let many = |name: &str, words: Vec<Vec<u8>>, words_per_element: usize| -> Vec<Vec<Vec<u8>>> {
            words
                .chunks(ELEMENTS_PER_COMMAND * words_per_element)
                .map(|piece| {
                    let start = [name.as_bytes().to_vec(), key.clone()];
                    start.into_iter().chain(piece.iter().cloned()).collect()
                })
                .collect()
        };
        let mut commands = match &self.data {
            Data::Text(text) => vec![vec![b"SET".to_vec(), key.clone(), text.clone()]],
            Data::List(elements) => many("RPUSH", elements.clone(), 1),
            Data::Set(members) => many("SADD", members.clone(), 1),
            Data::Hash(fields) => {
                let words = fields.iter().flat_map(|(field, value, _)| [field.clone(), value.clone()]);
                let mut commands = many("HSET", words.collect(), 2);
                commands.extend(field_expiries(key, fields));
                commands
            }
            Data::SortedSet(members) => many(
                "ZADD",
                members.iter().flat_map(|(member, score)| [score.clone(), member.clone()]).collect(),
                2,
            ),
            Data::Stream(entries, state) => stream_commands(key, entries, state),
        };
        if let Some(expires_at_ms) = self.expires_at_ms {
            let at = expires_at_ms.to_string().into_bytes();
            commands.push(vec![b"PEXPIREAT".to_vec(), key.clone(), at]);
        }
        commands
    }

    /// The key as a JSON object.
    pub(crate) fn to_json(&self) -> Json {
        let all = |texts: &[Vec<u8>]| Json::Array(texts.iter().map(|text| text_to_json(text)).collect());
        let pairs = |pairs: &[(Vec<u8>, Vec<u8>)]| {
            Json::Array(
                pairs.iter().map(|(one, other)| json!([text_to_json(one), text_to_json(other)])).collect(),
            )
        };
        let value = match &self.data {
            Data::Text(text) => text_to_json(text),
            Data::List(elements) | Data::Set(elements) => all(elements),
            Data::Hash(fields) => {
                let field = |(field, value, expires_at_ms): &Field| match expires_at_ms {
                    None => json!([text_to_json(field), text_to_json(value)]),
                    Some(at_ms) => json!([text_to_json(field), text_to_json(value), at_ms]),
                };
                Json::Array(fields.iter().map(field).collect())
            }
            Data::SortedSet(members) => pairs(members),
            Data::Stream(entries, _) => Json::Array(
                entries.iter().map(|(id, fields)| json!([text_to_json(id), all(fields)])).collect(),
            ),
        };
        let mut object = Map::new();
        object.insert("database".to_owned(), json!(self.database));
        object.insert("key".to_owned(), text_to_json(&self.key));
        object.insert("type".to_owned(), json!(self.data.kind()));
        if let Some(expires_at_ms) = self.expires_at_ms {
            object.insert("expires_at_ms".to_owned(), json!(expires_at_ms));
        }
        object.insert("value".to_owned(), value);
        if let Data::Stream(_, State { counters, groups }) = &self.data {
            if let Some(counters) = counters {
                object.insert("stream".to_owned(), counters.to_json());
            }
            if !groups.is_empty() {
                object.insert("groups".to_owned(), groups.iter().map(Group::to_json).collect());
            }
        }
        Json::Object(object)
    }

    /// The key that a line of JSON describes.
    pub(crate) fn from_json(line: &str) -> Result<Item, String> {
        let object = document::members(line)?;
        let key = member(&object, "key").and_then(document::bytes).ok_or("'key' is missing")?;
        let database = member(&object, "database").map_or(Some(0), document::integer);
        let expires_at_ms = member(&object, "expires_at_ms").map(expiry_of).transpose()?;
        let kind = member(&object, "type").map_or(Some("string".to_owned()), document::string);
        let value = member(&object, "value").ok_or("'value' is missing")?;
        let data = match kind.as_deref().unwrap_or_default() {
            "string" => document::bytes(value).map(Data::Text),
            "list" => all_bytes(value).map(Data::List),
            "set" => all_bytes(value).map(Data::Set),
            "hash" => fields_of(value)?.map(Data::Hash),
            "zset" => scores_of(value).map(Data::SortedSet),
            "stream" => stream_of(value, &object),
            other => return Err(format!("'{other}' is no type")),
        };
        Ok(Item {
            database: database
                .and_then(|database| u32::try_from(database).ok())
                .ok_or("the database is no number")?,
            key,
            expires_at_ms,
            data: data.ok_or("'value' does not fit the type")?,
        })
    }

    /// The lines of a CSV file: for each element the database, the key, the type, the expiry, the field, the
    /// value, and the expiry of the field.
    pub(crate) fn to_csv(&self) -> Vec<[Vec<u8>; 7]> {
        let shown =
            |at_ms: Option<i64>| at_ms.map(|at_ms| at_ms.to_string()).unwrap_or_default().into_bytes();
        let expiry = shown(self.expires_at_ms);
        let full_line = |field: &[u8], value: &[u8], field_expires_at_ms: Option<i64>| {
            let database = self.database.to_string().into_bytes();
            let (kind, expiry) = (self.data.kind().as_bytes().to_vec(), expiry.clone());
            let field_expiry = shown(field_expires_at_ms);
            [database, self.key.clone(), kind, expiry, field.to_vec(), value.to_vec(), field_expiry]
        };
        let line = |field: &[u8], value: &[u8]| full_line(field, value, None);
        match &self.data {
            Data::Text(text) => vec![line(b"", text)],
            Data::List(elements) | Data::Set(elements) => {
                elements.iter().map(|value| line(b"", value)).collect()
            }
            Data::Hash(fields) => {
                fields.iter().map(|(field, value, at_ms)| full_line(field, value, *at_ms)).collect()
            }
            Data::SortedSet(pairs) => pairs.iter().map(|(field, value)| line(field, value)).collect(),
            Data::Stream(entries, State { counters, groups }) => {
                let entries = entries.iter().map(|(id, fields)| {
                    let fields = Json::Array(fields.iter().map(|field| text_to_json(field)).collect());
                    line(id, fields.to_string().as_bytes())
                });
                let counters = counters
                    .iter()
                    .map(|counters| line(b"stream", counters.to_json().to_string().as_bytes()));
                let groups =
                    groups.iter().map(|group| line(b"group", group.to_json().to_string().as_bytes()));
                entries.chain(counters).chain(groups).collect()
            }
        }
    }

    /// The key that a line of a CSV file begins, with its first element.
    pub(crate) fn from_csv(line: &[&[u8]; 7]) -> Result<Item, String> {
        let [database, key, kind, expiry, field, value, field_expiry] = *line;
        let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
        let time = |text: &[u8]| match text {
            b"" => Ok(None),
            text => number(text).map(Some).ok_or_else(|| no_expiry(&text.escape_ascii().to_string())),
        };
        let (expires_at_ms, field_expires_at_ms) = (time(expiry)?, time(field_expiry)?);
        let (field, value) = (field.to_vec(), value.to_vec());
        let data = match kind {
            b"string" | b"" => Data::Text(value),
            b"list" => Data::List(vec![value]),
            b"set" => Data::Set(vec![value]),
            b"hash" => Data::Hash(vec![(field, value, field_expires_at_ms)]),
            b"zset" => Data::SortedSet(vec![(field, value)]),
            b"stream" => stream_part(field, &value).ok_or("the value is no JSON of a stream")?,
            other => return Err(format!("'{}' is no type", other.escape_ascii())),
        };
        let database = if database.is_empty() { Some(0) } else { number(database) };
        let database = database.and_then(|database| u32::try_from(database).ok());
        Ok(Item {
            database: database.ok_or("the database is no number")?,
            key: key.to_vec(),
            expires_at_ms,
            data,
        })
    }

    /// Takes over the elements of the same key's next line; whether it was one.
    pub(crate) fn join(&mut self, next: &mut Item) -> bool {
        if self.key != next.key || self.database != next.database {
            return false;
        }
        match (&mut self.data, &mut next.data) {
            (Data::List(all), Data::List(more)) | (Data::Set(all), Data::Set(more)) => all.append(more),
            (Data::Hash(all), Data::Hash(more)) => all.append(more),
            (Data::SortedSet(all), Data::SortedSet(more)) => all.append(more),
            (Data::Stream(all, state), Data::Stream(more, more_state)) => {
                all.append(more);
                state.groups.append(&mut more_state.groups);
                state.counters = state.counters.take().or(more_state.counters.take());
            }
            _ => return false,
        }
        true
    }
}

/// When something expires, in milliseconds of unix time.
fn expiry_of(value: &RawValue) -> Result<i64, String> {
    document::integer(value).ok_or_else(|| no_expiry(value.get()))
}

fn no_expiry(text: &str) -> String {
    format!("the expiry is no number of milliseconds: {text}")
}

fn all_bytes(value: &RawValue) -> Option<Vec<Vec<u8>>> {
    document::array(value)?.into_iter().map(document::bytes).collect()
}

/// The fields of a hash: arrays of field, value and perhaps expiry. An object is as good, where the names are
/// text.
fn fields_of(value: &RawValue) -> Result<Option<Vec<Field>>, String> {
    if let Some(object) = document::object(value) {
        let fields = object.into_iter();
        let fields = fields.map(|(name, value)| Some((name.into_bytes(), document::bytes(value)?, None)));
        return Ok(fields.collect());
    }
    let Some(elements) = document::array(value) else { return Ok(None) };
    let mut fields = Vec::with_capacity(elements.len());
    for element in elements {
        let parts = document::array(element).unwrap_or_default();
        let (&[field, value] | &[field, value, _]) = parts.as_slice() else { return Ok(None) };
        let expiry = parts.get(2).filter(|expiry| expiry.get() != "null");
        let expires_at_ms = expiry.map(|expiry| expiry_of(expiry)).transpose()?;
        let (Some(field), Some(value)) = (document::bytes(field), document::bytes(value)) else {
            return Ok(None);
        };
        fields.push((field, value, expires_at_ms));
    }
    Ok(Some(fields))
}

/// The members of a sorted set and their scores, as arrays or as an object.
fn scores_of(value: &RawValue) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    if let Some(object) = document::object(value) {
        let members = object.into_iter();
        return members.map(|(name, score)| Some((name.into_bytes(), document::bytes(score)?))).collect();
    }
    let pairs = document::array(value)?.into_iter().map(|pair| match document::array(pair)?.as_slice() {
        [member, score] => Some((document::bytes(member)?, document::bytes(score)?)),
        _ => None,
    });
    pairs.collect()
}

/// A stream: its entries, and what an object has beside them.
fn stream_of(value: &RawValue, object: &Members<'_>) -> Option<Data> {
    let entries = document::array(value)?.into_iter().map(|entry| match document::array(entry)?.as_slice() {
        [id, fields] => Some((document::bytes(id)?, all_bytes(fields)?)),
        _ => None,
    });
    let entries = entries.collect::<Option<_>>()?;
    let counters = member(object, "stream");
    let groups = member(object, "groups").map_or(Some(Vec::new()), document::array)?;
    let state = State {
        counters: counters.map_or(Some(None), |value| Counters::from_json(value).map(Some))?,
        groups: groups.into_iter().map(Group::from_json).collect::<Option<_>>()?,
    };
    Some(Data::Stream(entries, state))
}

/// What a line of a CSV file says of a stream: an entry, its counters or a group.
fn stream_part(field: Vec<u8>, value: &[u8]) -> Option<Data> {
    let value: &RawValue = serde_json::from_slice(value).ok()?;
    let mut state = State::default();
    match field.as_slice() {
        b"stream" => state.counters = Some(Counters::from_json(value)?),
        b"group" => state.groups.push(Group::from_json(value)?),
        _ => return Some(Data::Stream(vec![(field, all_bytes(value)?)], state)),
    }
    Some(Data::Stream(Vec::new(), state))
}

/// Text as JSON: a string, or an object with the member `hex` if it is not UTF-8.
pub(crate) fn text_to_json(text: &[u8]) -> Json {
    match std::str::from_utf8(text) {
        Ok(text) => json!(text),
        Err(_) => json!({ "hex": text.iter().map(|byte| format!("{byte:02x}")).collect::<String>() }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::stream::Pending;
    use super::*;

    fn state() -> State {
        let pending = Pending {
            id: b"1-1".to_vec(),
            consumer: b"\xffa".to_vec(),
            delivered_ms: 1_700_000_000_000,
            deliveries: 3,
        };
        let group = |name: &[u8], entries_read, pending| Group {
            name: name.to_vec(),
            last_id: b"1-1".to_vec(),
            entries_read,
            consumers: vec![b"\xffa".to_vec(), b"b".to_vec()],
            pending,
        };
        let counters = Counters {
            last_id: b"2-0".to_vec(),
            entries_added: Some(9),
            max_deleted_id: Some(b"0-0".to_vec()),
        };
        let groups = vec![group(b"g", Some(1), vec![pending]), group(b"", None, Vec::new())];
        State { counters: Some(counters), groups }
    }

    fn items() -> Vec<Item> {
        let text = |text: &str| text.as_bytes().to_vec();
        let pair = |one: &str, other: &str| (text(one), text(other));
        let all = [
            Data::Text(b"\x00\xff,\"\n".to_vec()),
            Data::List(vec![text("a"), text(""), text("a")]),
            Data::Set(vec![text("m")]),
            Data::Hash(vec![(text("f"), text("1"), None), (text("g"), text("x,y"), Some(77))]),
            Data::SortedSet(vec![pair("m", "1.5"), pair("n", "inf")]),
            Data::Stream(vec![(text("1-1"), vec![text("f"), b"\xfe".to_vec()])], state()),
            Data::Stream(vec![(text("1-1"), vec![text("f"), text("")])], State::default()),
            Data::Stream(Vec::new(), state()),
        ];
        let item = |(i, data)| Item {
            database: i as u32 % 2,
            key: format!("key {i}").into_bytes(),
            expires_at_ms: (i == 1).then_some(123),
            data,
        };
        all.into_iter().enumerate().map(item).collect()
    }

    #[test]
    fn what_is_written_is_read_again() {
        for item in items() {
            let line = item.to_json().to_string();
            assert_eq!(Item::from_json(&line), Ok(item.clone()), "{line}");
            let mut read: Option<Item> = None;
            for line in item.to_csv() {
                let mut next = Item::from_csv(&line.each_ref().map(Vec::as_slice)).expect("a valid line");
                match &mut read {
                    None => read = Some(next),
                    Some(read) => assert!(read.join(&mut next)),
                }
            }
            assert_eq!(read, Some(item));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in [
            r#"{}"#,
            r#"{"key":"k"}"#,
            r#"{"key":"k","type":"list","value":"x"}"#,
            r#"{"key":"k","type":"none","value":"x"}"#,
            r#"{"key":{"hex":"0"},"value":"x"}"#,
            r#"[1]"#,
            r#"{"key":"k","value":"x","type":5}"#,
            r#"{"key":"k","value":"x","database":"3"}"#,
            r#"{"key":"k","value":"x","database":-1}"#,
            r#"{"key":"k","value":"x","database":1.5}"#,
            r#"{"key":"k","value":"x","expires_at_ms":"4102444800123"}"#,
            r#"{"key":"k","value":"x","expires_at_ms":true}"#,
            r#"{"key":"k","value":"x","expires_at_ms":1.5}"#,
            r#"{"key":"k","type":"hash","value":[["f","v","x"]]}"#,
            r#"{"key":"k","type":"hash","value":[["f"]]}"#,
            r#"{"key":"k","type":"zset","value":[["m",1,2]]}"#,
            r#"{"key":"k","type":"stream","value":[],"groups":[{"name":"g"}]}"#,
        ] {
            assert!(Item::from_json(wrong).is_err(), "{wrong}");
        }
    }
}
