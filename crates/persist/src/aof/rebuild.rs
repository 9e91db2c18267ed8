//! A snapshot as commands: what makes the same data when it is run on an empty server.

use std::io::{self, Write};

use mantissa_number::{INTEGER_TEXT_MAX, format_i64, write_i64, write_score};
use mantissa_protocol::encode_request;
use mantissa_store::Value;
use mantissa_store::stream::{Group, Stream};

use crate::load::{LoadTarget, LoadedValue, Record};

/// Elements that one command carries at most.
const ELEMENTS_PER_COMMAND: usize = 64;
/// Bytes that are gathered before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// Writes what is loaded into it as commands. [`Rebuilder::finish`] is to follow the load.
pub struct Rebuilder<W> {
    out: W,
    buffer: Vec<u8>,
    database: Option<usize>,
    error: Option<io::Error>,
}

/// A command that takes more and more elements of a key.
struct Gathering<'a> {
    start: Vec<&'a [u8]>,
    words: Vec<Vec<u8>>,
    words_max: usize,
}

impl Gathering<'_> {
    fn add(&mut self, words: impl IntoIterator<Item = Vec<u8>>, out: &mut Vec<u8>) {
        self.words.extend(words);
        if self.words.len() >= self.words_max {
            self.end(out);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if !self.words.is_empty() {
            let start = self.start.iter().copied();
            let all: Vec<&[u8]> = start.chain(self.words.iter().map(Vec::as_slice)).collect();
            encode_request(out, &all);
            self.words.clear();
        }
    }
}

fn gather<'a>(start: &[&'a [u8]], words_per_element: usize) -> Gathering<'a> {
    let words_max = ELEMENTS_PER_COMMAND * words_per_element;
    Gathering { start: start.to_vec(), words: Vec::new(), words_max }
}

fn decimal(value: i64) -> Vec<u8> {
    format_i64(&mut [0; INTEGER_TEXT_MAX], value).to_vec()
}

impl<W: Write> Rebuilder<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Rebuilder { out, buffer: Vec::new(), database: None, error: None }
    }

    /// Writes the rest, and returns where all of it went.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush();
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.out),
        }
    }

    fn flush(&mut self) {
        if self.error.is_none() {
            self.error = self.out.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }

    /// Lets the buffer go if it is large. An error ends the load.
    fn settle(&mut self) -> Result<(), String> {
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
        self.error.as_ref().map_or(Ok(()), |error| Err(error.to_string()))
    }

    fn value(&mut self, key: &[u8], value: &Value) -> Result<(), String> {
        let out = &mut self.buffer;
        match value {
            Value::String(text) => encode_request(out, &[b"SET", key, text]),
            Value::Integer(integer) => encode_request(out, &[b"SET", key, &decimal(*integer)]),
            Value::List(list) => {
                let mut push = gather(&[b"RPUSH", key], 1);
                list.iter().for_each(|element| push.add([element.to_vec()], out));
                push.end(out);
            }
            Value::Set(set) => {
                let mut add = gather(&[b"SADD", key], 1);
                set.iter().for_each(|member| add.add([member.to_vec()], out));
                add.end(out);
            }
            Value::SortedSet(set) => {
                let mut add = gather(&[b"ZADD", key], 2);
                for (member, score) in set.iter() {
                    let mut text = Vec::new();
                    write_score(&mut text, score);
                    add.add([text, member.to_vec()], out);
                }
                add.end(out);
            }
            Value::Hash(hash) => {
                let mut set = gather(&[b"HSET", key], 2);
                hash.iter().for_each(|(field, value, _)| set.add([field.to_vec(), value.to_vec()], out));
                set.end(out);
                for (field, _, expiry) in hash.iter() {
                    if let Some(expiry) = expiry {
                        let (time, field) = (decimal(expiry), field.to_vec());
                        encode_request(out, &[b"HPEXPIREAT", key, &time, b"FIELDS", b"1", &field]);
                    }
                }
            }
            Value::Stream(stream) => self.stream(key, stream)?,
        }
        self.settle()
    }

    fn stream(&mut self, key: &[u8], stream: &Stream) -> Result<(), String> {
        let last_id = stream.last_id.to_string();
        for entry in stream.entries() {
            let id = entry.id.to_string();
            let mut words = vec![b"XADD".to_vec(), key.to_vec(), id.into_bytes()];
            entry.fields.for_each(|(name, value)| words.extend([name.to_vec(), value.to_vec()]));
            encode_request(&mut self.buffer, &words);
            self.settle()?;
        }
        if stream.is_empty() {
            // An entry that is trimmed at once leaves an empty stream.
            encode_request(&mut self.buffer, &[b"XADD", key, b"MAXLEN", b"0", b"0-1", b"x", b"y"]);
        }
        let (added, deleted) = (stream.entries_added.to_string(), stream.max_deleted_id.to_string());
        let counters = [b"ENTRIESADDED", added.as_bytes(), b"MAXDELETEDID", deleted.as_bytes()];
        encode_request(&mut self.buffer, &[&[b"XSETID", key, last_id.as_bytes()], &counters[..]].concat());
        for (name, group) in stream.groups() {
            self.group(key, name, group)?;
        }
        Ok(())
    }

    fn group(&mut self, key: &[u8], name: &[u8], group: &Group) -> Result<(), String> {
        let last = group.last_delivered.to_string();
        let read = group.entries_read.map_or_else(|| "-1".to_owned(), |read| read.to_string());
        let counters: [&[u8]; 2] = [b"ENTRIESREAD", read.as_bytes()];
        encode_request(
            &mut self.buffer,
            &[&[b"XGROUP", b"CREATE", key, name, last.as_bytes()], &counters[..]].concat(),
        );
        for (_, consumer) in group.consumers() {
            encode_request(
                &mut self.buffer,
                &[&b"XGROUP"[..], b"CREATECONSUMER", key, name, consumer.name()],
            );
            for id in consumer.pending().ids() {
                let Some(pending) = group.pending().get(id) else { continue };
                let (id, mut time) = (id.to_string(), Vec::new());
                write_i64(&mut time, pending.delivered_at_ms);
                let count = pending.delivery_count.to_string();
                let claim = [b"XCLAIM", key, name, consumer.name(), b"0", id.as_bytes()];
                let how: [&[u8]; 6] = [b"TIME", &time, b"RETRYCOUNT", count.as_bytes(), b"JUSTID", b"FORCE"];
                encode_request(&mut self.buffer, &[&claim[..], &how[..]].concat());
                self.settle()?;
            }
        }
        Ok(())
    }
}

impl<W: Write> LoadTarget for Rebuilder<W> {
    fn select(&mut self, _database: usize) -> Result<(), String> {
        Ok(())
    }

    fn insert(&mut self, record: Record<'_>) -> Result<(), String> {
        if self.database.replace(record.database) != Some(record.database) {
            encode_request(&mut self.buffer, &[b"SELECT", record.database.to_string().as_bytes()]);
        }
        match &record.value {
            LoadedValue::Text(text) => encode_request(&mut self.buffer, &[b"SET", record.key, text]),
            LoadedValue::Value(value) => self.value(record.key, value)?,
        }
        if let Some(expiry) = record.expiry {
            encode_request(&mut self.buffer, &[b"PEXPIREAT", record.key, &decimal(expiry)]);
        }
        self.settle()
    }

    fn function(&mut self, source: &[u8]) -> Result<(), String> {
        encode_request(&mut self.buffer, &[&b"FUNCTION"[..], b"LOAD", source]);
        self.settle()
    }
}
