//! Text files: JSON lines, a key each, and CSV, an element each.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use indicatif::ProgressBar;
use mantissa_protocol::Value;

use super::item::{Data, Item};
use super::options::{ExportOptions, FileForm, ImportOptions};
use super::rows::Rows;
use super::sink::{Job, Pool, Tally};
use super::source::{Keys, Timed, ask_timed, checked, databases, expiry_of, select};
use super::{progress, small};
use crate::connection::Connection;
use crate::target::Target;
use crate::whole_file;

/// The names of the columns of CSV files.
const COLUMNS: [&str; 7] =
    ["database", "key", "type", "expires_at_ms", "field", "value", "field_expires_at_ms"];

/// How many strings are held at a time.
const STRINGS_AT_ONCE: usize = 16;
/// How often a key is read that changes meanwhile.
const READINGS: usize = 5;

/// Stores what a file holds.
pub(crate) fn import(
    options: &ImportOptions,
    path: &Path,
    form: FileForm,
    target: &Target,
) -> io::Result<Tally> {
    let target = Target { database: 0, ..target.clone() };
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let from_input = path == Path::new("-");
    let total = if from_input { 0 } else { fs::metadata(path).map_err(named)?.len() };
    let bar = progress(total, "bytes");
    let source: Box<dyn Read> =
        if from_input { Box::new(io::stdin()) } else { Box::new(File::open(path).map_err(named)?) };
    let source = BufReader::with_capacity(1 << 16, bar.wrap_read(source));
    let mut pool = Pool::new(&target, options)?;
    let fed = match form {
        FileForm::Csv => feed_csv(source, &mut pool),
        _ => feed_json(source, &mut pool),
    };
    bar.finish_and_clear();
    let tally = pool.finish().map_err(named)?;
    fed.map_err(|reason| {
        let text = format!("{}: {reason} ({} keys are stored)", path.display(), tally.stored);
        io::Error::new(io::ErrorKind::InvalidData, text)
    })?;
    Ok(tally)
}

fn feed_json(source: impl BufRead, pool: &mut Pool) -> Result<(), String> {
    for (i, line) in source.lines().enumerate() {
        let at = |reason: String| format!("line {}: {reason}", i + 1);
        let line = line.map_err(|error| at(error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        pool.add(Job::Item(Item::from_json(&line).map_err(at)?, i as u64 + 1))?;
    }
    Ok(())
}

fn feed_csv(source: impl BufRead, pool: &mut Pool) -> Result<(), String> {
    let mut rows = Rows::new(source)?;
    rows.next()?;
    let names = rows.columns();
    let columns = COLUMNS.map(|column| names.iter().position(|name| name == column.as_bytes()));
    if columns[1].is_none() || columns[5].is_none() {
        return Err("the first line names no columns 'key' and 'value'".to_owned());
    }
    let mut pending: Option<(Item, u64)> = None;
    while rows.next()? {
        let number = rows.line();
        let row = columns.map(|column| column.map(|column| &rows.columns()[column][..]).unwrap_or_default());
        let mut next = Item::from_csv(&row).map_err(|reason| format!("line {number}: {reason}"))?;
        if pending.as_mut().is_some_and(|(pending, _)| pending.join(&mut next)) {
            continue;
        }
        // Of other types, rows that follow may belong to the same key.
        let is_whole = matches!(next.data, Data::Text(_));
        if let Some((whole, line)) = pending.replace((next, number)) {
            pool.add(Job::Item(whole, line))?;
        }
        if is_whole && let Some((whole, line)) = pending.take() {
            pool.add(Job::Item(whole, line))?;
        }
    }
    pending.map_or(Ok(()), |(whole, line)| pool.add(Job::Item(whole, line)))
}

/// Writes a server's data to a file, which appears when it is whole.
pub(crate) fn export(
    options: &ExportOptions,
    source: &Target,
    path: &Path,
    form: FileForm,
) -> io::Result<Tally> {
    let source = Target { database: 0, ..source.clone() };
    let all = databases(&source, options.database)?;
    let bar = progress(all.iter().map(|(_, keys)| keys).sum(), "keys");
    whole_file::write(path, |out| write(options, &source, &all, form, out, &bar))
}

fn write(
    options: &ExportOptions,
    source: &Target,
    all: &[(u32, u64)],
    form: FileForm,
    mut out: impl Write,
    bar: &ProgressBar,
) -> io::Result<Tally> {
    let (mut connection, mut selected) = (source.open()?, None);
    let mut keys = Keys::new(source, all, None, options.pattern.as_deref(), options.batch)?;
    let mut tally = Tally::default();
    if form == FileForm::Csv {
        writeln!(out, "{}", COLUMNS.join(","))?;
    }
    while let Some(batch) = keys.next()? {
        select(&mut connection, &mut selected, batch.database)?;
        read_all(&mut connection, &batch.keys, &mut tally, |key, expires_at_ms, data| {
            let item = Item { database: batch.database, key: key.to_vec(), expires_at_ms, data };
            write_item(&item, form, &mut out)
        })?;
        bar.inc(batch.keys.len() as u64);
    }
    bar.finish_and_clear();
    out.flush()?;
    Ok(tally)
}

/// Reads keys of the current database, and hands out those that are there.
fn read_all(
    connection: &mut Connection,
    keys: &[Vec<u8>],
    tally: &mut Tally,
    mut put: impl FnMut(&[u8], Option<i64>, Data) -> io::Result<()>,
) -> io::Result<()> {
    let questions: Vec<_> = keys.iter().map(|key| vec![b"TYPE".to_vec(), key.clone()]).collect();
    connection.send_all(&questions)?;
    let (mut strings, mut others) = (Vec::new(), Vec::new());
    for key in keys {
        match checked(connection.receive_reply()?)?.as_bytes() {
            Some(b"none") => tally.gone += 1,
            Some(b"string") => strings.push(key.clone()),
            kind => others.push((key.clone(), kind.unwrap_or_default().to_vec())),
        }
    }
    for piece in strings.chunks(STRINGS_AT_ONCE) {
        for (key, Timed { expires_at_ms, reply }) in piece.iter().zip(ask_timed(connection, "GET", piece)?.0)
        {
            if reply.as_error().is_some_and(|error| error.starts_with(b"WRONGTYPE")) {
                others.push((key.clone(), Vec::new()));
            } else if let Value::Bulk(text) = checked(reply)? {
                put(key, expires_at_ms, Data::Text(text))?;
                tally.stored += 1;
            } else {
                tally.gone += 1;
            }
        }
    }
    let mut alone = Vec::new();
    for piece in others.chunks(small::KEYS_AT_ONCE) {
        for ((key, _), read) in piece.iter().zip(small::read(connection, piece)?) {
            let Some((expires_at_ms, data)) = read else {
                alone.push(key);
                continue;
            };
            put(key, expires_at_ms, data)?;
            tally.stored += 1;
        }
    }
    for key in alone {
        let Reading { kind, expires_at_ms, data } = read_watched(connection, key)?;
        if let Some(data) = data {
            put(key, expires_at_ms, data)?;
            tally.stored += 1;
        } else if kind == b"none" || kind == b"string" {
            tally.gone += 1;
        } else {
            tally.fail(key, "its type has no place in this form");
        }
    }
    Ok(())
}

/// A value that was read by several commands.
struct Reading {
    kind: Vec<u8>,
    expires_at_ms: Option<i64>,
    /// `None` if the key is gone or of a type that has no place here.
    data: Option<Data>,
}

/// Reads a key, again if it changes meanwhile. One that always does may be given as it was at several times.
fn read_watched(connection: &mut Connection, key: &[u8]) -> io::Result<Reading> {
    let mut readings = 0;
    loop {
        readings += 1;
        let questions = ["WATCH", "TYPE", "PEXPIRETIME", "PTTL"];
        connection.send_all(&questions.map(|name| vec![name.as_bytes().to_vec(), key.to_vec()]))?;
        // A server may not allow transactions.
        connection.receive_reply()?;
        let kind = connection.receive_reply()?;
        let (time, left) = (connection.receive_reply()?, connection.receive_reply()?);
        let expires_at_ms = expiry_of(time, left)?;
        let kind = checked(kind)?.as_bytes().unwrap_or_default().to_vec();
        let data = Data::read(connection, key, &kind);
        connection.send_all(&["MULTI", "EXEC"].map(|name| vec![name.as_bytes().to_vec()]))?;
        connection.receive_reply()?;
        let has_changed = connection.receive_reply()?.is_null();
        if !has_changed || readings == READINGS {
            return Ok(Reading { kind, expires_at_ms, data: data? });
        }
    }
}

fn write_item(item: &Item, form: FileForm, out: &mut impl Write) -> io::Result<()> {
    if form != FileForm::Csv {
        return writeln!(out, "{}", item.to_json());
    }
    // In memory, as the crate's errors hide those of `out`.
    let mut writer = csv::Writer::from_writer(Vec::new());
    for line in item.to_csv() {
        writer.write_record(line)?;
    }
    let rows = writer.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
    out.write_all(&rows)
}
