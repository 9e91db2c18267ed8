//! A snapshot as commands that make the same data on an empty server.

use std::io::{self, Write};

use mantissa_number::{INTEGER_TEXT_MAX, format_i64};
use mantissa_protocol::encode_request;

use crate::load::{LoadTarget, LoadedValue, Record};
use crate::types::rebuild;
use crate::write::{Encoder, WriteOptions};
use mantissa_store::ValueRef;

/// Elements that one command carries at most.
const ELEMENTS_PER_COMMAND: usize = 64;
/// Bytes that are gathered before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// A load target that writes keys as commands. Call [`Rebuilder::finish`] after the load.
pub struct Rebuilder<W> {
    out: W,
    buffer: Vec<u8>,
    database: Option<usize>,
    error: Option<io::Error>,
}

/// A command to which elements of a key are added.
pub(crate) struct Gathering<'a, W> {
    to: &'a mut Rebuilder<W>,
    start: Vec<&'a [u8]>,
    words: Vec<Vec<u8>>,
    words_max: usize,
}

impl<W: Write> Gathering<'_, W> {
    /// Adds the words of an element. The command is written when it has many.
    pub fn add(&mut self, words: impl IntoIterator<Item = Vec<u8>>) -> Result<(), String> {
        self.words.extend(words);
        if self.words.len() >= self.words_max { self.write() } else { Ok(()) }
    }

    /// Writes the last command.
    pub fn end(mut self) -> Result<(), String> {
        if self.words.is_empty() { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<(), String> {
        let start = self.start.iter().copied();
        let all: Vec<&[u8]> = start.chain(self.words.iter().map(Vec::as_slice)).collect();
        let outcome = self.to.command(&all);
        self.words.clear();
        outcome
    }
}

/// The text of a number.
pub(crate) fn decimal(value: i64) -> Vec<u8> {
    format_i64(&mut [0; INTEGER_TEXT_MAX], value).to_vec()
}

impl<W: Write> Rebuilder<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Rebuilder { out, buffer: Vec::new(), database: None, error: None }
    }

    /// Writes the rest, and returns the output.
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

    /// Writes the buffer out if it is large. An error ends the load.
    fn settle(&mut self) -> Result<(), String> {
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
        self.error.as_ref().map_or(Ok(()), |error| Err(error.to_string()))
    }

    /// Writes a command.
    pub(crate) fn command(&mut self, words: &[impl AsRef<[u8]>]) -> Result<(), String> {
        encode_request(&mut self.buffer, words);
        self.settle()
    }

    /// Writes a value as its payload, for types that no other command makes as they are.
    pub(crate) fn restore(&mut self, key: &[u8], value: ValueRef<'_>) -> Result<(), String> {
        let payload = Encoder::new(WriteOptions::default(), None).payload(value);
        self.command(&[b"RESTORE", key, b"0", &payload])
    }

    /// Begins commands that start with these words and then take elements of `words_per_element` words.
    pub(crate) fn gather<'a>(&'a mut self, start: &[&'a [u8]], words_per_element: usize) -> Gathering<'a, W> {
        let words_max = ELEMENTS_PER_COMMAND * words_per_element;
        Gathering { to: self, start: start.to_vec(), words: Vec::new(), words_max }
    }
}

impl<W: Write> LoadTarget for Rebuilder<W> {
    fn select(&mut self, _database: usize) -> Result<(), String> {
        Ok(())
    }

    fn insert(&mut self, record: Record<'_>) -> Result<(), String> {
        if self.database.replace(record.database) != Some(record.database) {
            self.command(&[b"SELECT", record.database.to_string().as_bytes()])?;
        }
        match &record.value {
            LoadedValue::Text(text) => self.command(&[b"SET", record.key, text])?,
            LoadedValue::Value(value) => rebuild(value, record.key, self)?,
        }
        match record.expiry {
            Some(expiry) => self.command(&[b"PEXPIREAT", record.key, &decimal(expiry)]),
            None => Ok(()),
        }
    }

    fn function(&mut self, source: &[u8]) -> Result<(), String> {
        self.command(&[&b"FUNCTION"[..], b"LOAD", source])
    }
}
