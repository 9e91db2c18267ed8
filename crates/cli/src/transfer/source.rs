//! The keys of a server, in batches.

use std::io;

use mantissa_protocol::Value;

use super::now_ms;
use crate::connection::Connection;
use crate::scan::Batch;
use crate::target::{Target, ask};

/// A walk through the keys of one database after another.
pub(crate) struct Keys {
    connection: Connection,
    /// Databases still to walk through, the current one last.
    databases: Vec<u32>,
    selected: Option<u32>,
    cursor: Vec<u8>,
    pattern: Option<String>,
    batch: usize,
}

/// Keys of one database, and where the walk goes on after them.
pub(crate) struct KeyBatch {
    pub(crate) database: u32,
    pub(crate) keys: Vec<Vec<u8>>,
    /// Where the walk goes on: a database and a cursor; `None` after the last batch.
    pub(crate) next: Option<(u32, Vec<u8>)>,
}

/// The databases of a server that have keys, with how many.
pub(crate) fn databases(target: &Target, only: Option<u32>) -> io::Result<Vec<(u32, u64)>> {
    let mut connection = target.open()?;
    let info = ask(&mut connection, &["INFO", "keyspace"])?;
    let text = String::from_utf8_lossy(info.as_bytes().unwrap_or_default()).into_owned();
    let all = text.lines().filter_map(|line| {
        let (name, facts) = line.strip_prefix("db")?.split_once(':')?;
        let keys = facts.split(',').find_map(|fact| fact.strip_prefix("keys="))?;
        Some((name.parse().ok()?, keys.parse().ok()?))
    });
    Ok(all.filter(|(database, _)| only.is_none_or(|only| only == *database)).collect())
}

impl Keys {
    /// A walk through these databases, from `start` if that is given.
    pub(crate) fn new(
        target: &Target,
        databases: &[(u32, u64)],
        start: Option<(u32, Vec<u8>)>,
        pattern: Option<&str>,
        batch: usize,
    ) -> io::Result<Keys> {
        let mut left: Vec<u32> = databases.iter().rev().map(|(database, _)| *database).collect();
        let mut cursor = b"0".to_vec();
        if let Some((database, at)) = start {
            while left.last().is_some_and(|other| *other != database) {
                left.pop();
            }
            cursor = at;
        }
        Ok(Keys {
            connection: target.open()?,
            databases: left,
            selected: None,
            cursor,
            pattern: pattern.map(str::to_owned),
            batch,
        })
    }

    /// The next keys; `None` after the last.
    pub(crate) fn next(&mut self) -> io::Result<Option<KeyBatch>> {
        let Some(&database) = self.databases.last() else { return Ok(None) };
        select(&mut self.connection, &mut self.selected, database)?;
        let mut command = vec![b"SCAN".to_vec(), self.cursor.clone()];
        if let Some(pattern) = &self.pattern {
            command.extend([b"MATCH".to_vec(), pattern.clone().into_bytes()]);
        }
        command.extend([b"COUNT".to_vec(), self.batch.to_string().into_bytes()]);
        let batch = Batch::new(ask(&mut self.connection, &command)?)?;
        let is_last = batch.is_last();
        self.cursor = batch.next;
        if is_last {
            self.databases.pop();
        }
        let next = self.databases.last().map(|database| (*database, self.cursor.clone()));
        Ok(Some(KeyBatch { database, keys: batch.keys, next }))
    }
}

/// Makes a database the current one of a connection.
pub(crate) fn select(
    connection: &mut Connection,
    selected: &mut Option<u32>,
    database: u32,
) -> io::Result<()> {
    if *selected != Some(database) {
        ask(connection, &["SELECT", &database.to_string()])?;
        *selected = Some(database);
    }
    Ok(())
}

/// A value as DUMP gives it, and when it expires as unix time in milliseconds.
pub(crate) struct Dumped {
    pub(crate) payload: Vec<u8>,
    pub(crate) expires_at_ms: Option<i64>,
    /// Whether the server gave that time itself.
    pub(crate) has_exact_expiry: bool,
}

/// When keys of the current database expire, as unix time in milliseconds; `None` for those that do not.
/// Servers before version 7 only say how much time is left, so theirs are right to the time of a reply, and
/// not exact.
pub(crate) fn expiries(
    connection: &mut Connection,
    keys: &[Vec<u8>],
) -> io::Result<(Vec<Option<i64>>, bool)> {
    let mut ask_all = |name: &str| -> io::Result<Vec<Value>> {
        let commands: Vec<_> = keys.iter().map(|key| vec![name.as_bytes().to_vec(), key.clone()]).collect();
        connection.send_all(&commands)?;
        keys.iter().map(|_| connection.receive_reply()).collect()
    };
    let times = ask_all("PEXPIRETIME")?;
    let positive = |value: Value| value.as_integer().filter(|number| *number >= 0);
    if times.iter().all(|time| time.as_error().is_none()) {
        return Ok((times.into_iter().map(positive).collect(), true));
    }
    let left = ask_all("PTTL")?;
    let times = left.into_iter().map(|left| Ok(positive(checked(left)?).map(|left_ms| now_ms() + left_ms)));
    Ok((times.collect::<io::Result<_>>()?, false))
}

/// Dumps keys; `None` for those that are gone.
pub(crate) fn dump(connection: &mut Connection, keys: &[Vec<u8>]) -> io::Result<Vec<Option<Dumped>>> {
    let (expiries, has_exact_expiry) = expiries(connection, keys)?;
    let commands: Vec<_> = keys.iter().map(|key| vec![b"DUMP".to_vec(), key.clone()]).collect();
    connection.send_all(&commands)?;
    let mut found = Vec::with_capacity(keys.len());
    for expires_at_ms in expiries {
        found.push(match checked(connection.receive_reply()?)? {
            Value::Bulk(payload) => Some(Dumped { payload, expires_at_ms, has_exact_expiry }),
            _ => None,
        });
    }
    Ok(found)
}

/// A reply that is no error.
pub(crate) fn checked(reply: Value) -> io::Result<Value> {
    match reply.as_error() {
        Some(error) => Err(io::Error::other(String::from_utf8_lossy(error).into_owned())),
        None => Ok(reply),
    }
}
