//! Looking through a dump: what it holds, its biggest keys, its first damage.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use mantissa_persist::load::{
    ChecksumState, LoadOptions, LoadSummary, LoadTarget, LoadedValue, Loader, Record, SkippedKey,
};
use mantissa_persist::payload::dump_value;
use mantissa_persist::source::LoadError;
use mantissa_persist::write::WriteOptions;
use mantissa_protocol::{Value, put_quoted};

use super::{now_ms, progress_bar};
use crate::format::json;
use crate::options::without_number;

/// Bytes that DUMP adds to a value.
const PAYLOAD_FOOTER_BYTES: usize = 10;

/// How many keys of modules are named.
const MODULE_KEYS_NAMED_MAX: usize = 100;

/// What was found of a type in a database.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) keys: u64,
    pub(super) bytes: u64,
}

/// A key: its bytes, database, name and type.
type Big = (usize, usize, Vec<u8>, &'static str);

/// Counts what a file holds.
#[derive(Default)]
pub(super) struct Counter {
    pub(super) seen: BTreeMap<(usize, &'static str), Seen>,
    with_expiry: u64,
    expired: u64,
    functions: u64,
    /// Keys of modules that are named: database, name, type.
    of_modules: Vec<(usize, Vec<u8>, String)>,
    /// Types of modules with data that belong to no key.
    types_beside: BTreeSet<String>,
    facts: Vec<(Vec<u8>, Vec<u8>)>,
    now_ms: i64,
    top: usize,
    /// The biggest keys, the smallest of them first out.
    biggest: BinaryHeap<Reverse<Big>>,
}

impl LoadTarget for Counter {
    fn select(&mut self, _database: usize) -> Result<(), String> {
        Ok(())
    }

    fn insert(&mut self, record: Record<'_>) -> Result<(), String> {
        self.with_expiry += u64::from(record.expiry.is_some());
        self.expired += u64::from(record.expiry.is_some_and(|expiry| expiry < self.now_ms));
        let (database, key) = (record.database, record.key.to_vec());
        let (kind, bytes) = match &record.value {
            LoadedValue::Text(text) => ("string", text.len()),
            LoadedValue::Value(_) => {
                let entry = record.into_entry(0);
                let options = WriteOptions { compress: false, ..WriteOptions::default() };
                let bytes = dump_value(entry.value(), &options).len() - PAYLOAD_FOOTER_BYTES;
                (entry.kind().name(), bytes)
            }
        };
        let seen = self.seen.entry((database, kind)).or_default();
        seen.keys += 1;
        seen.bytes += (key.len() + bytes) as u64;
        if self.top > 0 {
            self.biggest.push(Reverse((bytes, database, key, kind)));
            if self.biggest.len() > self.top {
                self.biggest.pop();
            }
        }
        Ok(())
    }

    fn function(&mut self, _source: &[u8]) -> Result<(), String> {
        self.functions += 1;
        Ok(())
    }

    fn skipped(&mut self, key: &SkippedKey<'_>) {
        if self.of_modules.len() < MODULE_KEYS_NAMED_MAX {
            self.of_modules.push((key.database, key.key.to_vec(), key.type_name.to_owned()));
        }
    }

    fn skipped_aux(&mut self, type_name: &str) {
        self.types_beside.insert(type_name.to_owned());
    }

    fn describe(&mut self, name: &[u8], value: &[u8]) {
        self.facts.push((name.to_vec(), value.to_vec()));
    }
}

/// What came of it.
pub(super) struct Report {
    pub(super) counter: Counter,
    pub(super) summary: LoadSummary,
    pub(super) damage: Option<LoadError>,
}

/// Checks a dump and prints what it holds.
pub(super) fn check(path: &Path, as_json: bool, top: usize) -> ExitCode {
    let report = match read(path, top) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("{}: {}", path.display(), without_number(&error));
            return ExitCode::FAILURE;
        }
    };
    let shown = if as_json { report.as_json() } else { report.as_text(&path.display().to_string()) };
    match io::stdout().lock().write_all(&shown) {
        Ok(()) if report.damage.is_none() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn read(path: &Path, top: usize) -> io::Result<Report> {
    let file = File::open(path)?;
    let facts = file.metadata()?;
    if facts.is_dir() {
        let inside = path.join("dump.rdb");
        let hint = if inside.is_file() { format!("; try {}", inside.display()) } else { String::new() };
        return Err(io::Error::other(format!("this is a folder, not a dump{hint}")));
    }
    let total = facts.len();
    let bar = progress_bar(total);
    let (report, _) = look_through(file, total, top, |offset| bar.set_position(offset));
    bar.finish_and_clear();
    Ok(report)
}

/// Reads a dump of at most `total` bytes. Returns as well what was read past its end, and what yields the
/// rest. `progress` is called with the bytes read.
pub(super) fn look_through<R: Read>(
    input: R,
    total: u64,
    top: usize,
    progress: impl FnMut(u64),
) -> (Report, (Vec<u8>, R)) {
    let now_ms = now_ms();
    let mut counter = Counter { now_ms, top, ..Counter::default() };
    let options = LoadOptions { now_ms, skip_modules: true, ..LoadOptions::default() };
    let mut loader = Loader::new(input, Some(total), options);
    loader.on_progress(progress);
    let damage = loader.load(&mut counter).err();
    let summary = loader.summary().clone();
    (Report { counter, summary, damage }, loader.into_rest())
}

impl Report {
    fn checksum(&self) -> &'static str {
        match self.summary.checksum {
            ChecksumState::Verified => "verified",
            ChecksumState::NotComputed => "not computed",
            ChecksumState::Ignored => "not looked at",
            ChecksumState::Absent => "absent",
        }
    }

    /// The biggest keys, the biggest first.
    fn biggest(&self) -> Vec<&Big> {
        let mut all: Vec<_> = self.counter.biggest.iter().map(|Reverse(key)| key).collect();
        all.sort_by(|one, other| other.cmp(one));
        all
    }

    fn as_text(&self, name: &str) -> Vec<u8> {
        let Report { counter, summary, .. } = self;
        let mut out = format!("{name}: RDB version {}\n", summary.version).into_bytes();
        for (name, value) in &counter.facts {
            out.extend_from_slice(
                format!("  {}: {}\n", name.escape_ascii(), value.escape_ascii()).as_bytes(),
            );
        }
        for ((database, kind), seen) in &counter.seen {
            let line =
                format!("database {database}: {} keys of type {kind}, {} bytes\n", seen.keys, seen.bytes);
            out.extend_from_slice(line.as_bytes());
        }
        let Counter { with_expiry, expired, functions, .. } = counter;
        let line = format!(
            "{} keys, {with_expiry} with an expiry, {expired} expired, {functions} libraries of functions\n",
            summary.keys_loaded
        );
        out.extend_from_slice(line.as_bytes());
        if summary.keys_of_modules > 0 {
            let line = format!("{} keys of module types, which cannot be loaded:\n", summary.keys_of_modules);
            out.extend_from_slice(line.as_bytes());
            for (database, key, type_name) in &counter.of_modules {
                out.extend_from_slice(format!("  type {type_name}  database {database}  ").as_bytes());
                put_quoted(&mut out, key);
                out.push(b'\n');
            }
            let more = summary.keys_of_modules.saturating_sub(counter.of_modules.len() as u64);
            if more > 0 {
                out.extend_from_slice(format!("  and {more} more\n").as_bytes());
            }
        }
        for type_name in &counter.types_beside {
            let line = format!("data of type {type_name} beside the keys, which cannot be loaded\n");
            out.extend_from_slice(line.as_bytes());
        }
        for (bytes, database, key, kind) in self.biggest() {
            out.extend_from_slice(format!("{bytes:>12} bytes  {kind:<6}  database {database}  ").as_bytes());
            put_quoted(&mut out, key);
            out.push(b'\n');
        }
        let end = match &self.damage {
            Some(damage) => format!("DAMAGED: {damage}\n"),
            None => format!("whole, checksum {}\n", self.checksum()),
        };
        out.extend_from_slice(end.as_bytes());
        out
    }

    fn as_json(&self) -> Vec<u8> {
        let text = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        let count = |count: u64| Value::Integer(i64::try_from(count).unwrap_or(i64::MAX));
        let Report { counter, summary, .. } = self;
        let types = counter.seen.iter().map(|((database, kind), seen)| {
            Value::Map(vec![
                (text("database"), count(*database as u64)),
                (text("type"), text(kind)),
                (text("keys"), count(seen.keys)),
                (text("bytes"), count(seen.bytes)),
            ])
        });
        let biggest = self.biggest().into_iter().map(|(bytes, database, key, kind)| {
            Value::Map(vec![
                (text("database"), count(*database as u64)),
                (text("key"), Value::Bulk(key.clone())),
                (text("type"), text(kind)),
                (text("bytes"), count(*bytes as u64)),
            ])
        });
        let of_modules = counter.of_modules.iter().map(|(database, key, type_name)| {
            Value::Map(vec![
                (text("database"), count(*database as u64)),
                (text("key"), Value::Bulk(key.clone())),
                (text("type"), text(type_name)),
            ])
        });
        let types_beside = counter.types_beside.iter().map(|type_name| text(type_name));
        let facts = counter.facts.iter();
        let facts = facts.map(|(name, value)| (Value::Bulk(name.clone()), Value::Bulk(value.clone())));
        let damage = self.damage.as_ref().map_or(Value::Null, |damage| text(&damage.to_string()));
        let mut out = json(&Value::Map(vec![
            (text("version"), count(u64::from(summary.version))),
            (text("facts"), Value::Map(facts.collect())),
            (text("keys"), count(summary.keys_loaded)),
            (text("expiring"), count(counter.with_expiry)),
            (text("expired"), count(counter.expired)),
            (text("functions"), count(counter.functions)),
            (text("keys_of_modules"), count(summary.keys_of_modules)),
            (text("of_modules"), Value::Array(of_modules.collect())),
            (text("types_beside_keys"), Value::Array(types_beside.collect())),
            (text("types"), Value::Array(types.collect())),
            (text("biggest"), Value::Array(biggest.collect())),
            (text("checksum"), text(self.checksum())),
            (text("damage"), damage),
        ]));
        out.push(b'\n');
        out
    }
}
