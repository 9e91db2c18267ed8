//! Where loaded keys go.

use super::Access;
use mantissa_store::{Entry, LockedShards, Value};

/// A value as it was read.
pub enum LoadedValue<'a> {
    /// A string, which may be the text of an integer.
    Text(&'a [u8]),
    /// A collection.
    Value(Value),
}

/// A key as it was read.
pub struct Record<'a> {
    /// Its database.
    pub database: usize,
    /// Its name.
    pub key: &'a [u8],
    /// Its value.
    pub value: LoadedValue<'a>,
    /// When it expires, as unix time in milliseconds.
    pub expiry: Option<i64>,
    /// When it was used.
    pub access: Access,
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

/// Takes what a file holds. An `Err` ends the load with that reason.
pub trait LoadTarget {
    /// The keys that follow belong to this database.
    fn select(&mut self, database: usize) -> Result<(), String>;

    /// The next key.
    fn insert(&mut self, record: Record<'_>) -> Result<(), String>;

    /// The source of a library of functions.
    fn function(&mut self, source: &[u8]) -> Result<(), String>;

    /// A fact about the file, such as `redis-ver`.
    fn describe(&mut self, name: &[u8], value: &[u8]) {
        let _ = (name, value);
    }
}

/// Loads into a keyspace.
pub struct KeyspaceTarget<'a, 'k> {
    /// Either no shard, and each is locked as needed, or all.
    shards: &'a mut LockedShards<'k>,
    clock_of: &'a dyn Fn(Access) -> u32,
    /// Keys that are there already are replaced, not an error.
    replace: bool,
    /// The libraries of functions, as sources.
    pub functions: Vec<Vec<u8>>,
    /// The facts about the file.
    pub facts: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<'a, 'k> KeyspaceTarget<'a, 'k> {
    /// Loads through `shards`, of which none or all are locked. `clock_of` makes the entry's access clock of
    /// what the file says about the use of a key. With `replace`, keys that are there already are replaced.
    pub fn new(shards: &'a mut LockedShards<'k>, clock_of: &'a dyn Fn(Access) -> u32, replace: bool) -> Self {
        KeyspaceTarget { shards, clock_of, replace, functions: Vec::new(), facts: Vec::new() }
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
        let (key, database, replace) = (record.key, record.database, self.replace);
        let clock = (self.clock_of)(record.access);
        self.shards.visit(keyspace.shard_of(hash), |shard| {
            let table = &mut shard.databases[database];
            if table.get(hash, key).is_some() {
                if !replace {
                    return Err(format!("duplicated key '{}' in database {database}", printable(key)));
                }
                table.remove(hash, key);
            }
            table.insert(hash, record.into_entry(clock));
            Ok(())
        })
    }

    fn function(&mut self, source: &[u8]) -> Result<(), String> {
        self.functions.push(source.to_vec());
        Ok(())
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
