//! Values by their elements, as text files have them: how they are read from a server, written as JSON and
//! CSV, read from those, and stored.
//!
//! A value is held whole. Left out are the expiry of single hash fields and the groups of streams, which
//! these forms have no place for; RDB files keep both.

use std::io;

use mantissa_protocol::Value;
use serde_json::{Map, Value as Json, json};

use super::source::checked;
use crate::connection::Connection;

/// How many elements are asked for, or stored, by one command.
const ELEMENTS_PER_COMMAND: usize = 1000;

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
type Entry = (Vec<u8>, Vec<Vec<u8>>);

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Data {
    Text(Vec<u8>),
    List(Vec<Vec<u8>>),
    Set(Vec<Vec<u8>>),
    /// Fields and values.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    /// Members and the text of their scores.
    SortedSet(Vec<(Vec<u8>, Vec<u8>)>),
    Stream(Vec<Entry>),
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
            Data::Stream(_) => "stream",
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
            b"hash" => Data::Hash(pairs(scan(connection, b"HSCAN", key)?)),
            b"zset" => Data::SortedSet(pairs(scan(connection, b"ZSCAN", key)?)),
            b"stream" => Data::Stream(read_stream(connection, key)?),
            _ => return Ok(None),
        }))
    }
}

fn asked(connection: &mut Connection, command: &[&[u8]]) -> io::Result<Value> {
    checked(connection.ask(command)?)
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
fn texts(reply: Value) -> Vec<Vec<u8>> {
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
fn pairs(texts: Vec<Vec<u8>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut found, mut texts) = (Vec::new(), texts.into_iter());
    while let (Some(one), Some(other)) = (texts.next(), texts.next()) {
        found.push((one, other));
    }
    found
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
            Data::Hash(fields) => many(
                "HSET",
                fields.iter().flat_map(|(field, value)| [field.clone(), value.clone()]).collect(),
                2,
            ),
            Data::SortedSet(members) => many(
                "ZADD",
                members.iter().flat_map(|(member, score)| [score.clone(), member.clone()]).collect(),
                2,
            ),
            Data::Stream(entries) => entries
                .iter()
                .map(|(id, fields)| {
                    let start = [b"XADD".to_vec(), key.clone(), id.clone()];
                    start.into_iter().chain(fields.iter().cloned()).collect()
                })
                .collect(),
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
            Data::Hash(fields) => pairs(fields),
            Data::SortedSet(members) => pairs(members),
            Data::Stream(entries) => Json::Array(
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
        Json::Object(object)
    }

    /// The key that a JSON object describes.
    pub(crate) fn from_json(object: &Json) -> Result<Item, String> {
        let key = json_to_text(&object["key"]).ok_or("'key' is missing")?;
        let value = &object["value"];
        let database = object.get("database").and_then(Json::as_u64).unwrap_or(0);
        let texts =
            |value: &Json| -> Option<Vec<Vec<u8>>> { value.as_array()?.iter().map(json_to_text).collect() };
        // An object is as good as an array of pairs, where its names are text.
        let pairs = |value: &Json| -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
            if let Some(object) = value.as_object() {
                let pairs = object
                    .iter()
                    .map(|(name, value)| Some((name.clone().into_bytes(), json_to_text(value)?)));
                return pairs.collect();
            }
            let pairs =
                value.as_array()?.iter().map(|pair| Some((json_to_text(&pair[0])?, json_to_text(&pair[1])?)));
            pairs.collect()
        };
        let data = match object["type"].as_str().unwrap_or("string") {
            "string" => json_to_text(value).map(Data::Text),
            "list" => texts(value).map(Data::List),
            "set" => texts(value).map(Data::Set),
            "hash" => pairs(value).map(Data::Hash),
            "zset" => pairs(value).map(Data::SortedSet),
            "stream" => value.as_array().and_then(|entries| {
                let entries = entries.iter().map(|entry| Some((json_to_text(&entry[0])?, texts(&entry[1])?)));
                entries.collect::<Option<_>>().map(Data::Stream)
            }),
            other => return Err(format!("'{other}' is no type")),
        };
        Ok(Item {
            database: u32::try_from(database).map_err(|_| "the database is out of range")?,
            key,
            expires_at_ms: object.get("expires_at_ms").and_then(Json::as_i64),
            data: data.ok_or("'value' does not fit the type")?,
        })
    }

    /// The lines of a CSV file: for each element the database, the key, the type, the expiry, the field and
    /// the value.
    pub(crate) fn to_csv(&self) -> Vec<[Vec<u8>; 6]> {
        let expiry = self.expires_at_ms.map(|at| at.to_string()).unwrap_or_default();
        let line = |field: &[u8], value: &[u8]| {
            let database = self.database.to_string().into_bytes();
            let (kind, expiry) = (self.data.kind().as_bytes().to_vec(), expiry.clone().into_bytes());
            [database, self.key.clone(), kind, expiry, field.to_vec(), value.to_vec()]
        };
        match &self.data {
            Data::Text(text) => vec![line(b"", text)],
            Data::List(elements) | Data::Set(elements) => {
                elements.iter().map(|value| line(b"", value)).collect()
            }
            Data::Hash(pairs) | Data::SortedSet(pairs) => {
                pairs.iter().map(|(field, value)| line(field, value)).collect()
            }
            Data::Stream(entries) => entries
                .iter()
                .map(|(id, fields)| {
                    let fields = Json::Array(fields.iter().map(|field| text_to_json(field)).collect());
                    line(id, fields.to_string().as_bytes())
                })
                .collect(),
        }
    }

    /// The key that a line of a CSV file begins, with its first element.
    pub(crate) fn from_csv(line: &[&[u8]; 6]) -> Result<Item, String> {
        let [database, key, kind, expiry, field, value] = *line;
        let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
        let (field, value) = (field.to_vec(), value.to_vec());
        let data = match kind {
            b"string" | b"" => Data::Text(value),
            b"list" => Data::List(vec![value]),
            b"set" => Data::Set(vec![value]),
            b"hash" => Data::Hash(vec![(field, value)]),
            b"zset" => Data::SortedSet(vec![(field, value)]),
            b"stream" => {
                let fields: Option<Vec<Vec<u8>>> = serde_json::from_slice::<Json>(&value)
                    .ok()
                    .and_then(|fields| fields.as_array()?.iter().map(json_to_text).collect());
                Data::Stream(vec![(field, fields.ok_or("the fields of an entry are no JSON array")?)])
            }
            other => return Err(format!("'{}' is no type", other.escape_ascii())),
        };
        let database = if database.is_empty() { Some(0) } else { number(database) };
        let database = database.and_then(|database| u32::try_from(database).ok());
        Ok(Item {
            database: database.ok_or("the database is no number")?,
            key: key.to_vec(),
            expires_at_ms: number(expiry),
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
            (Data::Hash(all), Data::Hash(more)) | (Data::SortedSet(all), Data::SortedSet(more)) => {
                all.append(more);
            }
            (Data::Stream(all), Data::Stream(more)) => all.append(more),
            _ => return false,
        }
        true
    }
}

/// Text as JSON: a string, or an object with the member `hex` if it is not UTF-8.
fn text_to_json(text: &[u8]) -> Json {
    match std::str::from_utf8(text) {
        Ok(text) => json!(text),
        Err(_) => json!({ "hex": text.iter().map(|byte| format!("{byte:02x}")).collect::<String>() }),
    }
}

/// Text from JSON; numbers and booleans are as good as their text.
fn json_to_text(value: &Json) -> Option<Vec<u8>> {
    match value {
        Json::String(text) => Some(text.clone().into_bytes()),
        Json::Number(number) => Some(number.to_string().into_bytes()),
        Json::Bool(value) => Some(value.to_string().into_bytes()),
        Json::Object(object) => {
            let hex = object.get("hex")?.as_str()?.as_bytes();
            let bytes = hex.chunks(2).map(|digits| {
                let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 2)?;
                u8::from_str_radix(digits, 16).ok()
            });
            bytes.collect()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items() -> Vec<Item> {
        let text = |text: &str| text.as_bytes().to_vec();
        let pair = |one: &str, other: &str| (text(one), text(other));
        let all = [
            Data::Text(b"\x00\xff,\"\n".to_vec()),
            Data::List(vec![text("a"), text(""), text("a")]),
            Data::Set(vec![text("m")]),
            Data::Hash(vec![pair("f", "1"), pair("g", "x,y")]),
            Data::SortedSet(vec![pair("m", "1.5"), pair("n", "inf")]),
            Data::Stream(vec![(text("1-1"), vec![text("f"), b"\xfe".to_vec()])]),
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
            let object = serde_json::from_str(&line).expect("JSON");
            assert_eq!(Item::from_json(&object), Ok(item.clone()), "{line}");
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
        ] {
            let object = serde_json::from_str(wrong).expect("JSON");
            assert!(Item::from_json(&object).is_err(), "{wrong}");
        }
    }
}
