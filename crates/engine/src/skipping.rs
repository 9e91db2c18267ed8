//! Loading files without the keys of modules that are not there: `rdb-skip-unknown-types`.
//!
//! The log names the first keys that are left out, and how many there are of each type. The file is then not
//! replaced by one without them, unless `rdb-overwrite-after-skip` allows it: [`Partial`].

use std::collections::BTreeMap;
use std::path::Path;

use mantissa_persist::load::{KeyspaceTarget, LoadTarget, Record, SkippedKey};
use mantissa_persist::source::LoadError;
use mantissa_protocol::put_quoted;
use parking_lot::Mutex;

use crate::state::persistence::Partial;
use crate::warning;

/// Keys of a file that the log names; more of them are only counted.
const NAMED_MAX: u64 = 100;
/// Bytes of a key that the log shows.
const KEY_SHOWN_BYTES: usize = 128;

/// What a load leaves out.
pub struct Skipping {
    hides_keys: bool,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    keys: u64,
    /// Records that belong to no key.
    aux: u64,
    types: BTreeMap<String, u64>,
}

impl Skipping {
    /// Before a load; keys are kept out of the log if `hides_keys`.
    pub fn new(hides_keys: bool) -> Skipping {
        Skipping { hides_keys, counts: Mutex::default() }
    }

    fn note(&self, skipped: &SkippedKey<'_>) {
        let number = {
            let mut counts = self.counts.lock();
            counts.keys += 1;
            *counts.types.entry(skipped.type_name.to_owned()).or_default() += 1;
            counts.keys
        };
        if number > NAMED_MAX || self.hides_keys {
            return;
        }
        let mut key = Vec::new();
        put_quoted(&mut key, &skipped.key[..skipped.key.len().min(KEY_SHOWN_BYTES)]);
        warning!(
            "Skipped the key {} of database {}: its type '{}' is of a module that is not there",
            String::from_utf8_lossy(&key),
            skipped.database,
            skipped.type_name
        );
    }

    fn note_aux(&self, type_name: &str) {
        let mut counts = self.counts.lock();
        counts.aux += 1;
        *counts.types.entry(type_name.to_owned()).or_default() += 1;
    }

    /// Tells what was left out of a file, and has it kept as it is.
    pub fn conclude(self, partial: &Partial, path: &Path) {
        let counts = self.counts.into_inner();
        if counts.types.is_empty() {
            partial.forget(path);
            return;
        }
        let types: Vec<String> =
            counts.types.iter().map(|(name, count)| format!("{name}: {count}")).collect();
        warning!(
            "{} was loaded without {} keys and {} other data of modules ({}). It will not be overwritten \
             unless 'rdb-overwrite-after-skip yes' allows it.",
            path.display(),
            counts.keys,
            counts.aux,
            types.join(", ")
        );
        partial.add(path);
    }
}

/// Puts keys into the keyspace and notes those that are left out.
pub struct Target<'s, 'a, 'k> {
    inner: KeyspaceTarget<'a, 'k>,
    skipping: &'s Skipping,
}

impl<'s, 'a, 'k> Target<'s, 'a, 'k> {
    /// Loads through `inner`.
    pub fn new(inner: KeyspaceTarget<'a, 'k>, skipping: &'s Skipping) -> Self {
        Target { inner, skipping }
    }

    /// The libraries of functions, as sources.
    pub fn into_functions(self) -> Vec<Vec<u8>> {
        self.inner.functions
    }
}

impl LoadTarget for Target<'_, '_, '_> {
    fn select(&mut self, database: usize) -> Result<(), String> {
        self.inner.select(database)
    }

    fn insert(&mut self, record: Record<'_>) -> Result<(), String> {
        self.inner.insert(record)
    }

    fn function(&mut self, source: &[u8]) -> Result<(), String> {
        self.inner.function(source)
    }

    fn finish(&mut self) -> Result<(), LoadError> {
        self.inner.finish()
    }

    fn skipped(&mut self, key: &SkippedKey<'_>) {
        self.skipping.note(key);
    }

    fn skipped_aux(&mut self, type_name: &str) {
        self.skipping.note_aux(type_name);
    }

    fn describe(&mut self, name: &[u8], value: &[u8]) {
        self.inner.describe(name, value);
    }
}
