//! Writing an RDB file as redis-server 8.2 writes it: the same encodings for the same data.
//!
//! [`Encoder`] turns entries into bytes and knows no file, so that several can work at a time; [`Writer`]
//! puts the bytes of one or more encoders into one stream and keeps the checksum; [`save_file`] makes of it a
//! file that is there whole or not at all.

mod long_text;

use crate::format::{
    Checksum, MAGIC, REDIS_VERSION, REPLICA_VERSION, VALKEY_SIGNATURE, VERSION, VERSION_WITH_ARRAYS,
    VERSION_WITH_GIVEN_BACK, VERSION_WITH_PRODUCERS, encoding, opcode, put_encoded_integer, put_length,
    value_type,
};
use crate::load::{KeyUsage, printable};
use crate::lzf;
use crate::storage::{OutputFile, Storage, directory_of};
use crate::types::{byte_of_form, form_of};
use long_text::TextOnDisk;
pub use long_text::long_text_on_disk;
use mantissa_number::{INTEGER_TEXT_MAX, format_i64, parse_i64};
use mantissa_store::listpack::Element;
use mantissa_store::snapshot::Image;
use mantissa_store::stream::StreamLevel;
use mantissa_store::{EncodingLimits, Entry, Kind, LockedShards, StringRef, ValueRef};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that a writer collects before it hands them on.
const BUFFER_BYTES: usize = 256 << 10;
/// The longest text that may be an encoded integer.
const ENCODED_INTEGER_TEXT_MAX: usize = 11;
/// Strings up to this length are not compressed.
const UNCOMPRESSED_BYTES_MAX: usize = 20;
/// Bytes that compression has to save.
const SAVED_BYTES_MIN: usize = 4;
/// Elements between two offers of what has been encoded.
pub(crate) const ELEMENTS_PER_SPILL: usize = 64;

/// How to write.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Compresses strings (`rdbcompression`).
    pub compress: bool,
    /// Computes the checksum (`rdbchecksum`).
    pub checksum: bool,
    /// Thresholds of the collections' encodings.
    pub limits: EncodingLimits,
    /// Who is to read it.
    pub target: Target,
    /// What streams there may be, which decides on the version of a file.
    pub streams: StreamLevel,
}

/// Who is to read what is written, which decides on the forms of values.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Target {
    /// Redis 8.2 and this server, as a file: the forms that redis-server 8.2 writes.
    #[default]
    File,
    /// A replica of any version from Redis 7.0 on: each value in the form of the lowest version that can
    /// express it.
    Replica,
    /// A replica that says it is Valkey 9 or later: the same, but for hashes with field expiries.
    Valkey,
    /// A replica that says it is an earlier Valkey, which knows no field expiries.
    ValkeyBefore9,
}

impl Target {
    /// What a replica is that has sent this as REPLCONF version; empty where it has not. Only Valkey does.
    pub fn of_replica(version: &str) -> Self {
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        match major {
            None => Target::Replica,
            Some(0..=8) => Target::ValkeyBefore9,
            Some(_) => Target::Valkey,
        }
    }

    /// What a file begins with.
    fn signature(self, streams: StreamLevel) -> Vec<u8> {
        match self {
            Target::File => [MAGIC, format!("{:04}", version_of(streams)).as_bytes()].concat(),
            Target::Replica | Target::ValkeyBefore9 => {
                [MAGIC, format!("{REPLICA_VERSION:04}").as_bytes()].concat()
            }
            Target::Valkey => VALKEY_SIGNATURE.to_vec(),
        }
    }
}

/// The lowest version that is written and has such streams.
fn version_of(streams: StreamLevel) -> u16 {
    match streams {
        StreamLevel::Usual => VERSION,
        StreamLevel::Producers => VERSION_WITH_PRODUCERS,
        StreamLevel::GivenBack => VERSION_WITH_GIVEN_BACK,
    }
}

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions {
            compress: true,
            checksum: true,
            limits: EncodingLimits::default(),
            target: Target::File,
            streams: StreamLevel::Usual,
        }
    }
}

/// Where replication stands at some instant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicationFacts {
    /// The database that the stream has selected; -1 if SELECT comes next.
    pub database: i64,
    /// The name of the history that the offset is in: 40 hexadecimal digits.
    pub id: String,
    /// The number of bytes in the stream of that history so far.
    pub offset: i64,
}

/// What a file says about itself.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FileFacts {
    /// When it was written, as unix time in seconds.
    pub created_s: i64,
    /// Bytes of memory that the server used.
    pub used_memory_bytes: u64,
    /// Whether it is the base of an AOF.
    pub is_aof_base: bool,
    /// Where replication stood.
    pub replication: Option<ReplicationFacts>,
}

/// Takes what has been encoded so far, while a large value is being encoded; what it leaves stays. False says
/// that nothing of the value is wanted any more: then encoding it may end anywhere.
pub type Spill<'s> = &'s mut dyn FnMut(&mut Vec<u8>) -> bool;

/// Turns keys and values into the bytes of a file.
pub struct Encoder<'a> {
    options: WriteOptions,
    usage_of: Option<&'a (dyn Fn(u32) -> KeyUsage + Sync)>,
    compressor: lzf::Compressor,
    packed: Vec<u8>,
    /// The key of the value, where that has to name it.
    key: Vec<u8>,
    refusal: Option<String>,
}

impl<'a> Encoder<'a> {
    /// An encoder. `usage_of` makes of an entry's access clock what the file is to say about the use of the
    /// key; without it the file says nothing.
    pub fn new(options: WriteOptions, usage_of: Option<&'a (dyn Fn(u32) -> KeyUsage + Sync)>) -> Self {
        let compressor = lzf::Compressor::new();
        Encoder { options, usage_of, compressor, packed: Vec::new(), key: Vec::new(), refusal: None }
    }

    /// Why what was encoded is not to be used, if it has a value that the target can not read.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Notes the key of the values that follow, for those that name it.
    pub(crate) fn set_key(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
    }

    /// Appends the key of the value, as a string of a module's value.
    pub(crate) fn module_key(&mut self, out: &mut Vec<u8>) {
        let key = std::mem::take(&mut self.key);
        self.module_string(&key, out);
        self.key = key;
    }

    /// Appends a key with all that belongs to it.
    pub fn entry(&mut self, entry: &Entry, out: &mut Vec<u8>) {
        let form = self.before_value(entry, out);
        self.value(form, entry.value(), out, &mut |_| true);
    }

    /// The payload of DUMP for a value (see [`crate::payload`]).
    pub(crate) fn payload(&mut self, value: ValueRef<'_>) -> Vec<u8> {
        let mut payload = Vec::new();
        match value {
            // What a series is linked to is elsewhere.
            ValueRef::Series(series) if series.has_links() => {
                let mut series = series.clone();
                series.unlink();
                self.typed_value(ValueRef::Series(&series), &mut payload);
            }
            value => self.typed_value(value, &mut payload),
        }
        let version = match value {
            ValueRef::Array(_) => VERSION_WITH_ARRAYS,
            ValueRef::Stream(stream) => version_of(stream.level()),
            _ => VERSION,
        };
        payload.extend_from_slice(&version.to_le_bytes());
        let checksum = Checksum::of(&payload);
        payload.extend_from_slice(&checksum.to_le_bytes());
        payload
    }

    /// Appends the type of a value and the value.
    pub(crate) fn typed_value(&mut self, value: ValueRef<'_>, out: &mut Vec<u8>) {
        self.spilled_value(value, out, &mut |_| true);
    }

    /// The same, calling `spill` again and again where it is large.
    pub(crate) fn spilled_value(&mut self, value: ValueRef<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        let form = self.form(value, b"");
        out.push(byte_of_form(form));
        self.value(form, value, out, spill);
    }

    /// The form in which the value of a key is written.
    fn form(&mut self, value: ValueRef<'_>, key: &[u8]) -> u8 {
        form_of(value, self.options.target).unwrap_or_else(|| {
            let key = printable(key);
            let what = match value {
                ValueRef::Array(_) => "an array, which Valkey does not know",
                ValueRef::Stream(_) => "entries that were given back, which Valkey does not know",
                _ => "fields with expiries, which Valkey before version 9 does not know",
            };
            self.refusal.get_or_insert_with(|| format!("the key '{key}' has {what}"));
            form_of(value, Target::File).unwrap_or(value_type::STRING)
        })
    }

    /// Appends a key with all that belongs to it, calling `spill` again and again where it is large, and
    /// giving up what has been encoded of it.
    pub fn image(&mut self, image: Image, out: &mut Vec<u8>, spill: Spill<'_>) {
        match image {
            Image::Entry(entry) => {
                if let Some(cold) = long_text_on_disk(&entry) {
                    self.attributes(entry.expiry(), entry.clock(), out);
                    out.push(value_type::STRING);
                    self.string(entry.key(), out);
                    return self.long_text(&mut TextOnDisk::new(cold), out, spill);
                }
                let form = self.before_value(&entry, out);
                if entry.kind() == Kind::String {
                    return self.value(form, entry.value(), out, spill);
                }
                self.owned_value(form, entry.into_value(), out, spill);
            }
            Image::Text { key, expiry, clock, mut text } => {
                self.attributes(expiry, clock, out);
                out.push(value_type::STRING);
                self.string(&key, out);
                self.long_text(&mut text, out, spill);
            }
        }
    }

    /// Appends a key that holds a string, with its expiry and access clock.
    pub fn string_entry(
        &mut self,
        key: &[u8],
        text: StringRef<'_>,
        expiry: Option<i64>,
        clock: u32,
        out: &mut Vec<u8>,
    ) {
        self.attributes(expiry, clock, out);
        out.push(value_type::STRING);
        self.string(key, out);
        self.string_value(text, out);
    }

    /// Appends what comes before the value of a key. Returns the form that the value is to have.
    fn before_value(&mut self, entry: &Entry, out: &mut Vec<u8>) -> u8 {
        self.attributes(entry.expiry(), entry.clock(), out);
        let form = self.form(entry.value(), entry.key());
        out.push(byte_of_form(form));
        self.string(entry.key(), out);
        if entry.kind() == Kind::Series {
            self.set_key(entry.key());
        }
        form
    }

    /// Appends what is said of a key before its type.
    fn attributes(&mut self, expiry: Option<i64>, clock: u32, out: &mut Vec<u8>) {
        if let Some(expiry) = expiry {
            out.push(opcode::EXPIRETIME_MS);
            out.extend_from_slice(&expiry.to_le_bytes());
        }
        if let Some(usage) = self.usage_of.map(|usage_of| usage_of(clock)) {
            if let Some(idle_s) = usage.idle_s {
                out.push(opcode::IDLE);
                put_length(idle_s, out);
            }
            if let Some(frequency) = usage.frequency {
                out.extend_from_slice(&[opcode::FREQ, frequency]);
            }
        }
    }

    /// Appends the number of a database: that of the keys that follow.
    pub fn select(&self, index: usize, out: &mut Vec<u8>) {
        out.push(opcode::SELECTDB);
        put_length(index as u64, out);
    }

    /// Appends the key count of a database and its number. `with_expiry` counts the keys with an expiry.
    pub fn database(&self, index: usize, keys: u64, with_expiry: u64, out: &mut Vec<u8>) {
        self.select(index, out);
        out.push(opcode::RESIZEDB);
        put_length(keys, out);
        put_length(with_expiry, out);
    }

    /// Appends a string, as an integer or compressed where that is shorter.
    pub(crate) fn string(&mut self, text: &[u8], out: &mut Vec<u8>) {
        if text.len() <= ENCODED_INTEGER_TEXT_MAX
            && parse_i64(text).is_some_and(|integer| put_encoded_integer(integer, out))
        {
            return;
        }
        if self.options.compress && text.len() > UNCOMPRESSED_BYTES_MAX && self.compressed(text, out) {
            return;
        }
        put_length(text.len() as u64, out);
        out.extend_from_slice(text);
    }

    fn compressed(&mut self, text: &[u8], out: &mut Vec<u8>) -> bool {
        self.packed.clear();
        if !self.compressor.compress(text, &mut self.packed, text.len() - SAVED_BYTES_MIN) {
            return false;
        }
        put_compressed_lengths(self.packed.len(), text.len(), out);
        out.extend_from_slice(&self.packed);
        true
    }

    /// Appends a string that is the value of a key.
    pub(crate) fn string_value(&mut self, text: StringRef<'_>, out: &mut Vec<u8>) {
        match text {
            StringRef::Integer(integer) => self.integer(integer, out),
            StringRef::Bytes(bytes) => self.string(bytes, out),
        }
    }

    /// Appends an element of a collection.
    pub(crate) fn element(&mut self, element: Element<'_>, out: &mut Vec<u8>) {
        match element {
            Element::Integer(integer) => self.integer(integer, out),
            Element::Bytes(bytes) => self.string(bytes, out),
        }
    }

    /// Appends an integer as the string that it stands for.
    pub(crate) fn integer(&mut self, integer: i64, out: &mut Vec<u8>) {
        if !put_encoded_integer(integer, out) {
            let mut digits = [0; INTEGER_TEXT_MAX];
            let text = format_i64(&mut digits, integer);
            put_length(text.len() as u64, out);
            out.extend_from_slice(text);
        }
    }
}

/// Offers what has been encoded, after the element with this index, now and then. False as [`Spill`].
#[inline]
pub(crate) fn offer(index: usize, out: &mut Vec<u8>, spill: Spill<'_>) -> bool {
    index % ELEMENTS_PER_SPILL != ELEMENTS_PER_SPILL - 1 || spill(out)
}

/// Appends what comes before a compressed string.
fn put_compressed_lengths(packed_bytes: usize, bytes: usize, out: &mut Vec<u8>) {
    out.push(0xc0 | encoding::LZF);
    put_length(packed_bytes as u64, out);
    put_length(bytes as u64, out);
}

/// Puts a file together.
pub struct Writer<'a, W> {
    sink: W,
    checksum: Option<Checksum>,
    encoder: Encoder<'a>,
    buffer: Vec<u8>,
    written: u64,
}

impl<'a, W: Write> Writer<'a, W> {
    /// A writer into `sink`; see [`Encoder::new`] for `usage_of`.
    pub fn new(
        sink: W,
        options: WriteOptions,
        usage_of: Option<&'a (dyn Fn(u32) -> KeyUsage + Sync)>,
    ) -> Self {
        Writer {
            sink,
            checksum: options.checksum.then(Checksum::default),
            encoder: Encoder::new(options, usage_of),
            buffer: Vec::with_capacity(BUFFER_BYTES),
            written: 0,
        }
    }

    /// Writes what a file begins with.
    pub fn begin(&mut self, facts: &FileFacts) -> io::Result<()> {
        self.buffer.extend_from_slice(&self.encoder.options.target.signature(self.encoder.options.streams));
        self.fact("redis-ver", REDIS_VERSION);
        self.fact("redis-bits", "64");
        self.fact("ctime", &facts.created_s.to_string());
        self.fact("used-mem", &facts.used_memory_bytes.to_string());
        if let Some(replication) = &facts.replication {
            self.fact("repl-stream-db", &replication.database.max(0).to_string());
            self.fact("repl-id", &replication.id);
            self.fact("repl-offset", &replication.offset.to_string());
        }
        self.fact("aof-base", if facts.is_aof_base { "1" } else { "0" });
        self.spill()
    }

    /// Writes the source of a library of functions; they come before the databases.
    pub fn function(&mut self, source: &[u8]) -> io::Result<()> {
        self.buffer.push(opcode::FUNCTION2);
        self.encoder.string(source, &mut self.buffer);
        self.spill()
    }

    /// Begins a database with its number of keys, and of those with an expiry.
    pub fn database(&mut self, index: usize, keys: u64, with_expiry: u64) -> io::Result<()> {
        self.encoder.database(index, keys, with_expiry, &mut self.buffer);
        self.spill()
    }

    /// Writes a key.
    pub fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        self.encoder.entry(entry, &mut self.buffer);
        self.spill()
    }

    /// Writes what an encoder made.
    pub fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.flush()?;
        if let Some(checksum) = &mut self.checksum {
            checksum.update(bytes);
        }
        self.emit(bytes)
    }

    /// Writes what an encoder made and whose checksum is known.
    pub fn checked_chunk(&mut self, bytes: &[u8], checksum: &Checksum) -> io::Result<()> {
        self.flush()?;
        if let Some(total) = &mut self.checksum {
            total.append(checksum);
        }
        self.emit(bytes)
    }

    /// Writes the end and gives the sink back, with the bytes written in all. An error says which key the
    /// target can not read.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        if let Some(reason) = self.encoder.refusal() {
            return Err(io::Error::other(reason));
        }
        self.buffer.push(opcode::EOF);
        self.flush()?;
        let checksum = self.checksum.as_ref().map_or(0, Checksum::value);
        self.emit(&checksum.to_le_bytes())?;
        Ok((self.sink, self.written))
    }

    /// The encoder, for use with [`Writer::chunk`].
    pub fn encoder(&mut self) -> &mut Encoder<'a> {
        &mut self.encoder
    }

    fn fact(&mut self, name: &str, value: &str) {
        self.buffer.push(opcode::AUX);
        self.encoder.string(name.as_bytes(), &mut self.buffer);
        self.encoder.string(value.as_bytes(), &mut self.buffer);
    }

    fn spill(&mut self) -> io::Result<()> {
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        if let Some(checksum) = &mut self.checksum {
            checksum.update(&buffer);
        }
        let outcome = self.emit(&buffer);
        buffer.clear();
        self.buffer = buffer;
        outcome
    }

    fn emit(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.sink.write_all(bytes)
    }
}

/// Writes every database of a keyspace, shard by shard: through `shards`, of which either all are locked or
/// none, and then one at a time while it is encoded. Nothing is locked by this function while it writes.
pub fn write_keyspace<W: Write>(writer: &mut Writer<'_, W>, shards: &mut LockedShards<'_>) -> io::Result<()> {
    let keyspace = shards.keyspace();
    let mut chunk = Vec::new();
    for database in 0..keyspace.database_count() {
        let (mut keys, mut with_expiry) = (0, 0);
        for shard in 0..keyspace.shard_count() {
            shards.visit(shard, |shard| {
                keys += shard.databases[database].len() as u64;
                with_expiry += shard.databases[database].with_expiry_len() as u64;
            });
        }
        if keys == 0 {
            continue;
        }
        writer.database(database, keys, with_expiry)?;
        for shard in 0..keyspace.shard_count() {
            chunk.clear();
            let encoder = writer.encoder();
            shards.visit(shard, |shard| {
                shard.databases[database].iter().for_each(|entry| encoder.entry(entry, &mut chunk));
            });
            writer.chunk(&chunk)?;
        }
    }
    Ok(())
}

/// Makes a file of what `write` writes, there whole or not at all: it is written under another name, made
/// durable, and renamed. After an error the file of that name is what it was before, or the new one where
/// only making the name durable failed. Returns what `write` returned. The file that had the name before,
/// whose blocks the system frees when it is closed, is closed by another thread: that takes a part of a
/// second, in which a system that does not interrupt itself lets nobody else on the processor. So what it
/// keeps of the file in memory, which is most of the work, goes first and bit by bit.
pub fn save_file<T>(
    storage: &dyn Storage,
    path: &Path,
    write: impl FnOnce(&mut dyn OutputFile) -> io::Result<T>,
) -> io::Result<T> {
    save_file_if(storage, path, write, |_| Ok(Some(())))
}

/// The same, where `admit` decides whether the file gets its name once it is durable. What `admit` returns is
/// dropped when the name is durable. `None` discards the file, which is no error.
pub fn save_file_if<T, G>(
    storage: &dyn Storage,
    path: &Path,
    write: impl FnOnce(&mut dyn OutputFile) -> io::Result<T>,
    admit: impl FnOnce(&T) -> io::Result<Option<G>>,
) -> io::Result<T> {
    static FILES: AtomicU64 = AtomicU64::new(0);
    let directory = directory_of(path);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let temporary = directory.join(format!("temp-{}-{number}.rdb", std::process::id()));
    let outcome = storage.create_output(&temporary).and_then(|mut file| {
        let outcome = write(&mut *file)?;
        file.sync()?;
        Ok(outcome)
    });
    let replaced = storage.open(path).ok();
    let outcome = outcome.and_then(|outcome| {
        let Some(_admitted) = admit(&outcome)? else {
            storage.remove(&temporary)?;
            return Ok(outcome);
        };
        storage.rename(&temporary, path)?;
        storage.sync_directory(directory)?;
        Ok(outcome)
    });
    if outcome.is_err() {
        // The error that matters is the one that led here. The name may be that of the new file already.
        let _ = storage.remove(&temporary);
    }
    let closing = std::thread::Builder::new().name("close".to_owned());
    let _closed_at_once_if_that_fails =
        closing.spawn(move || replaced.iter().for_each(|file| file.forget_cached()));
    outcome
}
