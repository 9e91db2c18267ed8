//! RDB files into a server and out of it.
//!
//! An export writes each value as the server's DUMP gives it, which is what such a file holds. It is no
//! snapshot: keys that are written meanwhile are in the file in one of their states. `mantissa cli --rdb`
//! asks the server for a dump of one instant.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use indicatif::ProgressBar;

use mantissa_persist::format::{opcode, put_length};
use mantissa_persist::load::{LoadOptions, LoadTarget, Loader, Record, SkippedKey};
use mantissa_persist::payload::dump_value;
use mantissa_persist::source::LoadError;
use mantissa_persist::write::{FileFacts, WriteOptions, Writer};
use mantissa_protocol::Value;

use super::beside::load_library;
use super::options::{ExportOptions, ImportOptions};
use super::postpone::Postponed;
use super::sink::{Job, Pool, Tally};
use super::source::{Keys, databases, dump, select};
use super::{now_ms, progress};
use crate::connection::Connection;
use crate::target::Target;
use crate::whole_file;

/// What DUMP appends to a value: a version and a checksum.
const FOOTER_BYTES: usize = 10;

/// Takes what the file holds and hands it to the threads that store it.
struct Feeder<'a> {
    pool: &'a mut Pool,
    functions: Connection,
    options: WriteOptions,
    import: &'a ImportOptions,
    tally: Tally,
    /// Takes care of keys that expire before the import ends, where those are wanted.
    postponed: Option<&'a mut Postponed>,
}

impl LoadTarget for Feeder<'_> {
    fn select(&mut self, _database: usize) -> Result<(), String> {
        Ok(())
    }

    fn insert(&mut self, record: Record<'_>) -> Result<(), String> {
        let database = u32::try_from(record.database).map_err(|error| error.to_string())?;
        let (key, mut expires_at_ms) = (record.key.to_vec(), record.expiry);
        if let Some(postponed) = &mut self.postponed {
            expires_at_ms = expires_at_ms.map(|at_ms| postponed.key_expires(database, &key, at_ms));
        }
        let payload = dump_value(record.into_entry(0).value(), &self.options);
        self.pool.add(Job::Payload { database, key, payload, expires_at_ms })
    }

    fn function(&mut self, source: &[u8]) -> Result<(), String> {
        if !self.import.copies_all() {
            return Ok(());
        }
        load_library(&mut self.functions, source, self.import.replace, &mut self.tally)
            .map_err(|error| error.to_string())
    }

    fn skipped(&mut self, skipped: &SkippedKey<'_>) {
        let SkippedKey { database, key, type_name, .. } = *skipped;
        let database = u32::try_from(database).unwrap_or(u32::MAX);
        self.tally.unknown(database, key, type_name, self.import.skip_unknown_types);
    }
}

/// Stores what a file holds.
pub(crate) fn import(options: &ImportOptions, path: &Path, target: &Target) -> io::Result<Tally> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(named)?;
    let total = file.metadata()?.len();
    let bar = progress(total, "bytes");
    let Stored { tally, damage, .. } = store(options, file, Some(total), target, None, &bar)?;
    bar.finish_and_clear();
    match damage {
        None => Ok(tally),
        Some(error) => Err(damaged(path, &error, &tally)),
    }
}

/// The error where a file was stored up to its damage.
pub(crate) fn damaged(path: &Path, error: &LoadError, tally: &Tally) -> io::Error {
    let text = format!("{}: {error} ({} keys before that are stored)", path.display(), tally.stored);
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// What came of a dump.
pub(crate) struct Stored<R> {
    pub(crate) tally: Tally,
    pub(crate) damage: Option<LoadError>,
    /// Where it ends.
    pub(crate) end: u64,
    /// What was read past that, and what yields the rest.
    pub(crate) rest: (Vec<u8>, R),
}

/// Stores what a dump holds that `input` begins with, which has `total` bytes if that is known. With
/// `postponed`, keys are stored that have expired.
pub(crate) fn store<R: Read>(
    options: &ImportOptions,
    input: R,
    total: Option<u64>,
    target: &Target,
    postponed: Option<&mut Postponed>,
    bar: &ProgressBar,
) -> io::Result<Stored<R>> {
    let target = Target { database: 0, ..target.clone() };
    let mut pool = Pool::new(&target, options)?;
    let load_options = LoadOptions {
        now_ms: now_ms(),
        skip_expired: postponed.is_none(),
        skip_modules: true,
        ..LoadOptions::default()
    };
    let mut loader = Loader::new(input, total, load_options);
    let before = bar.position();
    loader.on_progress(move |offset| bar.set_position(before + offset));
    let mut feeder = Feeder {
        pool: &mut pool,
        functions: target.open()?,
        options: WriteOptions::default(),
        import: options,
        tally: Tally::default(),
        postponed,
    };
    let loaded = loader.load(&mut feeder);
    let mut tally = feeder.tally;
    tally.add(pool.finish()?);
    let end = loader.summary().bytes;
    Ok(Stored { tally, damage: loaded.err(), end, rest: loader.into_rest() })
}

/// Writes a server's data to a file, which appears when it is whole, or to standard output for `-`; as the
/// base of an append-only file, if that is what it is for.
pub(crate) fn export(
    options: &ExportOptions,
    source: &Target,
    path: &Path,
    is_aof_base: bool,
) -> io::Result<Tally> {
    whole_file::write(path, |out| write(options, source, out, is_aof_base))
}

/// Writes a server's data as a dump.
pub(crate) fn write(
    options: &ExportOptions,
    source: &Target,
    out: &mut dyn Write,
    is_aof_base: bool,
) -> io::Result<Tally> {
    let source = Target { database: 0, ..source.clone() };
    let all = databases(&source, options.database)?;
    let bar = progress(all.iter().map(|(_, keys)| keys).sum(), "keys");
    let mut connection = source.open()?;
    let mut keys = Keys::new(&source, &all, None, options.pattern.as_deref(), options.batch)?;
    let mut writer = Writer::new(out, WriteOptions::default(), None);
    writer.begin(&FileFacts { created_s: now_ms() / 1000, is_aof_base, ..FileFacts::default() })?;
    if !options.is_part() {
        write_functions(&mut connection, &mut writer)?;
    }
    let (mut tally, mut selected, mut record) = (Tally::default(), None, Vec::new());
    let mut written_database = None;
    while let Some(batch) = keys.next()? {
        select(&mut connection, &mut selected, batch.database)?;
        if written_database != Some(batch.database) {
            record.clear();
            record.push(opcode::SELECTDB);
            put_length(u64::from(batch.database), &mut record);
            writer.chunk(&record)?;
            written_database = Some(batch.database);
        }
        for (key, dumped) in batch.keys.iter().zip(dump(&mut connection, &batch.keys)?) {
            let Some(dumped) = dumped else {
                tally.gone += 1;
                continue;
            };
            let body =
                dumped.payload.len().checked_sub(FOOTER_BYTES).and_then(|size| dumped.payload.get(..size));
            let Some([kind, value @ ..]) = body else {
                tally.fail(key, "the payload is too short");
                continue;
            };
            record.clear();
            if let Some(expires_at_ms) = dumped.expires_at_ms {
                record.push(opcode::EXPIRETIME_MS);
                record.extend_from_slice(&expires_at_ms.to_le_bytes());
            }
            record.push(*kind);
            put_length(key.len() as u64, &mut record);
            record.extend_from_slice(key);
            record.extend_from_slice(value);
            writer.chunk(&record)?;
            tally.stored += 1;
        }
        bar.inc(batch.keys.len() as u64);
    }
    bar.finish_and_clear();
    writer.finish()?;
    Ok(tally)
}

/// Writes the libraries of functions, which FUNCTION DUMP gives as a file holds them. Old servers have none.
fn write_functions<W: Write>(connection: &mut Connection, writer: &mut Writer<'_, W>) -> io::Result<()> {
    match connection.ask(&["FUNCTION", "DUMP"])? {
        Value::Bulk(payload) if payload.len() > FOOTER_BYTES => {
            writer.chunk(&payload[..payload.len() - FOOTER_BYTES])
        }
        _ => Ok(()),
    }
}
