//! RDB files into a server and out of it.
//!
//! An export writes each value as the server's DUMP gives it, which is what such a file holds. It is no cut:
//! keys that are written meanwhile are in the file in one of their states. `mantissa cli --rdb` asks the
//! server for a dump of one instant.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use mantissa_persist::format::{opcode, put_length};
use mantissa_persist::load::{LoadOptions, LoadTarget, Loader, Record};
use mantissa_persist::payload::dump_value;
use mantissa_persist::write::{FileFacts, WriteOptions, Writer};

use super::options::{ExportOptions, ImportOptions};
use super::sink::{Job, Pool, Tally};
use super::source::{Keys, databases, dump, select};
use super::{now_ms, progress};
use crate::connection::Connection;
use crate::target::{Target, ask};

/// What DUMP appends to a value: a version and a checksum.
const FOOTER_BYTES: usize = 10;

/// Takes what the file holds and hands it to the threads that store it.
struct Feeder<'a> {
    pool: &'a mut Pool,
    functions: Connection,
    options: WriteOptions,
    replace: bool,
}

impl LoadTarget for Feeder<'_> {
    fn select(&mut self, _database: usize) -> Result<(), String> {
        Ok(())
    }

    fn insert(&mut self, record: Record<'_>) -> Result<(), String> {
        let database = u32::try_from(record.database).map_err(|error| error.to_string())?;
        let (key, expires_at_ms) = (record.key.to_vec(), record.expiry);
        let payload = dump_value(record.into_entry(0).value(), &self.options);
        self.pool.add(Job::Payload { database, key, payload, expires_at_ms })
    }

    fn function(&mut self, source: &[u8]) -> Result<(), String> {
        let mut command = vec![&b"FUNCTION"[..], b"LOAD"];
        if self.replace {
            command.push(b"REPLACE");
        }
        command.push(source);
        ask(&mut self.functions, &command).map(|_| ()).map_err(|error| error.to_string())
    }
}

/// Stores what a file holds.
pub(crate) fn import(options: &ImportOptions, path: &Path, target: &Target) -> io::Result<Tally> {
    let target = Target { database: 0, ..target.clone() };
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(named)?;
    let total = file.metadata()?.len();
    let bar = progress(total, "bytes");
    let mut pool = Pool::new(&target, options.threads, options.batch, options.replace)?;
    let load_options =
        LoadOptions { now_ms: now_ms(), skip_expired: true, skip_modules: true, ..LoadOptions::default() };
    let mut loader = Loader::new(file, Some(total), load_options);
    loader.on_progress(|offset| bar.set_position(offset));
    let mut feeder = Feeder {
        pool: &mut pool,
        functions: target.open()?,
        options: WriteOptions::default(),
        replace: options.replace,
    };
    let loaded = loader.load(&mut feeder);
    bar.finish_and_clear();
    let tally = pool.finish()?;
    let summary = loaded.map_err(|error| {
        let text = format!("{}: {error} ({} keys before that are stored)", path.display(), tally.stored);
        io::Error::new(io::ErrorKind::InvalidData, text)
    })?;
    if summary.keys_of_modules > 0 {
        eprintln!("{} keys of modules were left out.", summary.keys_of_modules);
    }
    Ok(tally)
}

/// Writes a server's data to a file, which appears when it is whole.
pub(crate) fn export(options: &ExportOptions, source: &Target, path: &Path) -> io::Result<Tally> {
    if options.is_quiet() {
        let mut out = BufWriter::new(io::stdout().lock());
        let tally = write(options, source, &mut out)?;
        out.flush()?;
        return Ok(tally);
    }
    let beside = path.with_extension("rdb.part");
    let mut out = BufWriter::new(File::create(&beside)?);
    let tally = write(options, source, &mut out)?;
    out.into_inner().map_err(|error| error.into_error())?.sync_all()?;
    fs::rename(beside, path)?;
    Ok(tally)
}

fn write(options: &ExportOptions, source: &Target, out: &mut dyn Write) -> io::Result<Tally> {
    let source = Target { database: 0, ..source.clone() };
    let all = databases(&source, options.database)?;
    let bar = progress(all.iter().map(|(_, keys)| keys).sum(), "keys");
    let mut connection = source.open()?;
    let mut keys = Keys::new(&source, &all, None, options.pattern.as_deref(), options.batch)?;
    let mut writer = Writer::new(out, WriteOptions::default(), None);
    writer.begin(&FileFacts { created_s: now_ms() / 1000, ..FileFacts::default() })?;
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
