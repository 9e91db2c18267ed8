//! Checking a file without keeping what it holds.

use crate::load::{LoadOptions, LoadSummary, LoadTarget, LoadedValue, Loader, Record};
use crate::source::LoadError;
use crate::storage::Storage;
use mantissa_store::{Kind, Value};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// What a file holds, as far as it could be read.
#[derive(Clone, Default, Debug)]
pub struct Report {
    /// The summary of the load.
    pub summary: LoadSummary,
    /// Keys by database and type.
    pub keys: BTreeMap<(usize, Kind), u64>,
    /// Keys with an expiry.
    pub with_expiry: u64,
    /// Keys that have expired.
    pub expired: u64,
    /// Facts that the file states about itself.
    pub facts: Vec<(Vec<u8>, Vec<u8>)>,
    /// The first damage, if there is any.
    pub damage: Option<LoadError>,
}

impl Report {
    /// Keys of one type in all databases.
    pub fn keys_of(&self, kind: Kind) -> u64 {
        self.keys.iter().filter(|((_, found), _)| *found == kind).map(|(_, count)| count).sum()
    }
}

struct Counter {
    report: Report,
    now_ms: i64,
}

impl LoadTarget for Counter {
    fn select(&mut self, _database: usize) -> Result<(), String> {
        Ok(())
    }

    fn insert(&mut self, record: Record<'_>) -> Result<(), String> {
        let kind = match &record.value {
            LoadedValue::Text(_) => Kind::String,
            LoadedValue::Value(value) => Value::kind(value),
        };
        *self.report.keys.entry((record.database, kind)).or_default() += 1;
        self.report.with_expiry += u64::from(record.expiry.is_some());
        self.report.expired += u64::from(record.expiry.is_some_and(|expiry| expiry < self.now_ms));
        Ok(())
    }

    fn function(&mut self, _source: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn describe(&mut self, name: &[u8], value: &[u8]) {
        self.report.facts.push((name.to_vec(), value.to_vec()));
    }
}

/// Reads the whole file and checks everything that loading it would, but for keys that it has twice.
/// `progress` is called with the bytes read and the bytes there are. An `Err` means that the file could not
/// be opened.
pub fn check_rdb(
    storage: &dyn Storage,
    path: &Path,
    now_ms: i64,
    mut progress: impl FnMut(u64, u64),
) -> io::Result<Report> {
    let file = storage.open(path)?;
    let total = file.length()?;
    let options = LoadOptions { now_ms, skip_modules: true, ..LoadOptions::default() };
    let mut counter = Counter { report: Report::default(), now_ms };
    let mut loader = Loader::new(file, Some(total), options);
    loader.on_progress(move |offset| progress(offset, total));
    counter.report.damage = loader.load(&mut counter).err();
    counter.report.summary = loader.summary().clone();
    Ok(counter.report)
}
