//! Where loaded keys go.

use super::KeyUsage;
use crate::source::LoadError;
use mantissa_store::{Entry, KeyHash, LockedShards, Value};

/// Keys of one shard that are put into its tables together: the lock is taken once for them, and the places
/// where they go are fetched side by side.
const KEYS_AT_ONCE: usize = 32;

/// A value as it was read.
pub enum LoadedValue<'a> {
    /// A string, which may be the text of an integer.
    Text(&'a [u8]),
    /// A collection.
    Value(Value),
}

/// A key as it was read.
pub struct Record<'a> {
    /// Where in the file it is.
    pub offset: u64,
    /// Its database.
    pub database: usize,
    /// Its name.
    pub key: &'a [u8],
    /// Its value.
    pub value: LoadedValue<'a>,
    /// When it expires, as unix time in milliseconds.
    pub expiry: Option<i64>,
    /// When it was last used.
    pub usage: KeyUsage,
}

impl Record<'_> {
    /// The entry that the record stands for.
    pub fn into_entry(self, clock: u32) -> Entry {
        match self.value {
            LoadedValue::Text(text) => Entry::string(self.key, text, self.expiry, clock),
            LoadedValue::Value(value) => Entry::new(self.key, value, self.expiry, clock),
        }
    }
}

/// A key of a module's type that was stepped over.
#[derive(Clone, Copy, Debug)]
pub struct SkippedKey<'a> {
    /// Where in the file it is.
    pub offset: u64,
    /// Its database.
    pub database: usize,
    /// Its name.
    pub key: &'a [u8],
    /// The name of its type, nine characters, which the module has chosen.
    pub type_name: &'a str,
}

/// Takes what a file holds. An `Err` ends the load with that reason.
pub trait LoadTarget {
    /// The keys that follow belong to this database.
    fn select(&mut self, database: usize) -> Result<(), String>;

    /// The next key.
    fn insert(&mut self, record: Record<'_>) -> Result<(), String>;

    /// The source of a library of functions.
    fn function(&mut self, source: &[u8]) -> Result<(), String>;

    /// Nothing more comes. An error is one that was noticed only after the key had been taken.
    fn finish(&mut self) -> Result<(), LoadError> {
        Ok(())
    }

    /// A key that was left out because of its type, where [`LoadOptions::skip_modules`] is set.
    ///
    /// [`LoadOptions::skip_modules`]: super::LoadOptions::skip_modules
    fn skipped(&mut self, key: &SkippedKey<'_>) {
        let _ = key;
    }

    /// Data of a module that belong to no key were left out in the same way.
    fn skipped_aux(&mut self, type_name: &str) {
        let _ = type_name;
    }

    /// A fact about the file, such as `redis-ver`.
    fn describe(&mut self, name: &[u8], value: &[u8]) {
        let _ = (name, value);
    }
}

/// Loads into a keyspace. Keys wait here until there are some for the same shard: [`LoadTarget::finish`] is
/// to be called.
pub struct KeyspaceTarget<'a, 'k> {
    /// Either no shard, and each is locked as needed, or all.
    shards: &'a mut LockedShards<'k>,
    clock_of: &'a dyn Fn(KeyUsage) -> u32,
    /// Keys that are there already are replaced, not an error.
    replace: bool,
    /// Called with each entry before it is put into its table.
    prepare: Option<&'a mut Prepare<'a>>,
    /// For each shard the keys that wait.
    waiting: Vec<Vec<Waiting>>,
    /// The first key that was there already.
    failure: Option<LoadError>,
    /// The libraries of functions, as sources.
    pub functions: Vec<Vec<u8>>,
    /// The facts about the file.
    pub facts: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Changes how the value of a loaded entry is kept.
pub type Prepare<'a> = dyn FnMut(&mut Entry) + 'a;

/// A key that is to be put into its table.
struct Waiting {
    database: usize,
    hash: KeyHash,
    entry: Entry,
    offset: u64,
}

impl<'a, 'k> KeyspaceTarget<'a, 'k> {
    /// Loads through `shards`, of which none or all are locked. `clock_of` makes the entry's access clock of
    /// what the file says about the use of a key. With `replace`, keys that are there already are replaced.
    pub fn new(
        shards: &'a mut LockedShards<'k>,
        clock_of: &'a dyn Fn(KeyUsage) -> u32,
        replace: bool,
    ) -> Self {
        let waiting = (0..shards.keyspace().shard_count()).map(|_| Vec::new()).collect();
        let (functions, facts) = (Vec::new(), Vec::new());
        KeyspaceTarget { shards, clock_of, replace, prepare: None, waiting, failure: None, functions, facts }
    }

    /// Has `prepare` called with each entry before it is put into its table.
    #[must_use]
    pub fn preparing(mut self, prepare: Option<&'a mut Prepare<'a>>) -> Self {
        self.prepare = prepare;
        self
    }

    /// Puts the keys of a shard that wait into its tables.
    fn settle(&mut self, index: usize) {
        let (replace, failure, waiting) = (self.replace, &mut self.failure, &mut self.waiting[index]);
        self.shards.visit(index, |shard| {
            waiting.iter().for_each(|key| shard.databases[key.database].prefetch_bucket(key.hash));
            for Waiting { database, hash, entry, offset } in waiting.drain(..) {
                let table = &mut shard.databases[database];
                let Some(entry) = table.insert_new(hash, entry) else { continue };
                if replace {
                    table.remove(hash, entry.key());
                    table.insert(hash, entry);
                } else if failure.as_ref().is_none_or(|earlier| offset < earlier.offset) {
                    let key = printable(entry.key());
                    let reason = format!("duplicated key '{key}' in database {database}");
                    *failure = Some(LoadError { offset, reason });
                }
            }
        });
    }
}

impl LoadTarget for KeyspaceTarget<'_, '_> {
    fn select(&mut self, database: usize) -> Result<(), String> {
        let count = self.shards.keyspace().database_count();
        if database < count {
            return Ok(());
        }
        Err(format!(
            "the file has a database {database}, the server is configured to handle only {count} databases"
        ))
    }

    fn insert(&mut self, record: Record<'_>) -> Result<(), String> {
        let keyspace = self.shards.keyspace();
        let hash = keyspace.hash(record.key);
        let shard = keyspace.shard_of(hash);
        let (database, offset) = (record.database, record.offset);
        let clock = (self.clock_of)(record.usage);
        let mut entry = record.into_entry(clock);
        if let Some(prepare) = &mut self.prepare {
            prepare(&mut entry);
        }
        self.waiting[shard].push(Waiting { database, hash, entry, offset });
        if self.waiting[shard].len() >= KEYS_AT_ONCE {
            self.settle(shard);
        }
        Ok(())
    }

    fn function(&mut self, source: &[u8]) -> Result<(), String> {
        self.functions.push(source.to_vec());
        Ok(())
    }

    fn finish(&mut self) -> Result<(), LoadError> {
        (0..self.waiting.len()).for_each(|shard| self.settle(shard));
        self.failure.take().map_or(Ok(()), Err)
    }

    fn describe(&mut self, name: &[u8], value: &[u8]) {
        self.facts.push((name.to_vec(), value.to_vec()));
    }
}

/// A key for an error message: readable and not too long.
pub(crate) fn printable(key: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 128;
    let shown = &key[..key.len().min(SHOWN_BYTES_MAX)];
    let dots = if key.len() > SHOWN_BYTES_MAX { "..." } else { "" };
    format!("{}{dots}", shown.escape_ascii())
}
