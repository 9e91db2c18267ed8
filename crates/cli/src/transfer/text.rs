//! Text files: JSON lines, a key each, and CSV, an element each.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use indicatif::ProgressBar;
use serde_json::Value as Json;

use super::item::{Data, Item};
use super::options::{ExportOptions, FileForm, ImportOptions};
use super::progress;
use super::sink::{Job, Pool, Tally};
use super::source::{Keys, checked, databases, expiries, select};
use crate::target::Target;

/// The names of the columns of CSV files.
const COLUMNS: [&str; 7] =
    ["database", "key", "type", "expires_at_ms", "field", "value", "field_expires_at_ms"];

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
    let tally = pool.finish()?;
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
        let object: Json = serde_json::from_str(&line).map_err(|error| at(error.to_string()))?;
        pool.add(Job::Item(Item::from_json(&object).map_err(at)?))?;
    }
    Ok(())
}

fn feed_csv(source: impl Read, pool: &mut Pool) -> Result<(), String> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(source);
    let names = reader.byte_headers().map_err(|error| error.to_string())?.clone();
    let columns = COLUMNS.map(|column| names.iter().position(|name| name == column.as_bytes()));
    if columns[1].is_none() || columns[5].is_none() {
        return Err("the first line names no columns 'key' and 'value'".to_owned());
    }
    let mut pending: Option<Item> = None;
    let mut record = csv::ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(|error| error.to_string())? {
        let at =
            |reason: String| format!("line {}: {reason}", record.position().map_or(0, csv::Position::line));
        let line = columns.map(|column| column.and_then(|column| record.get(column)).unwrap_or_default());
        let mut next = Item::from_csv(&line).map_err(at)?;
        if pending.as_mut().is_some_and(|pending| pending.join(&mut next)) {
            continue;
        }
        if let Some(whole) = pending.replace(next) {
            pool.add(Job::Item(whole))?;
        }
    }
    pending.map_or(Ok(()), |whole| pool.add(Job::Item(whole)))
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
    if options.is_quiet() {
        return write(options, &source, &all, form, BufWriter::new(io::stdout().lock()), &bar);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let file = File::create(&beside)?;
    let tally = write(options, &source, &all, form, BufWriter::new(&file), &bar)?;
    file.sync_all()?;
    fs::rename(beside, path)?;
    Ok(tally)
}

fn write(
    options: &ExportOptions,
    source: &Target,
    all: &[(u32, u64)],
    form: FileForm,
    mut out: impl Write,
    bar: &ProgressBar,
) -> io::Result<Tally> {
    let mut connection = source.open()?;
    let mut keys = Keys::new(source, all, None, options.pattern.as_deref(), options.batch)?;
    let (mut tally, mut selected) = (Tally::default(), None);
    if form == FileForm::Csv {
        writeln!(out, "{}", COLUMNS.join(","))?;
    }
    while let Some(batch) = keys.next()? {
        select(&mut connection, &mut selected, batch.database)?;
        let questions: Vec<_> = batch.keys.iter().map(|key| vec![b"TYPE".to_vec(), key.clone()]).collect();
        connection.send_all(&questions)?;
        let mut kinds = Vec::new();
        for _ in &batch.keys {
            kinds.push(checked(connection.receive_reply()?)?);
        }
        let (expiries, _) = expiries(&mut connection, &batch.keys)?;
        for ((key, kind), expires_at_ms) in batch.keys.iter().zip(kinds).zip(expiries) {
            let kind = kind.as_bytes().unwrap_or_default();
            let Some(data) = Data::read(&mut connection, key, kind)? else {
                if kind == b"none" || kind == b"string" {
                    tally.gone += 1;
                } else {
                    tally.fail(key, "its type has no place in this form");
                }
                continue;
            };
            let item = Item { database: batch.database, key: key.clone(), expires_at_ms, data };
            write_item(&item, form, &mut out)?;
            tally.stored += 1;
        }
        bar.inc(batch.keys.len() as u64);
    }
    bar.finish_and_clear();
    out.flush()?;
    Ok(tally)
}

fn write_item(item: &Item, form: FileForm, out: &mut impl Write) -> io::Result<()> {
    if form != FileForm::Csv {
        return writeln!(out, "{}", item.to_json());
    }
    let mut writer = csv::Writer::from_writer(out);
    for line in item.to_csv() {
        writer.write_record(line).map_err(io::Error::other)?;
    }
    writer.flush()
}
