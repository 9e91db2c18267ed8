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

/// The databases of a server that have keys, with how many. Fails if `only` is one that it has not.
pub(crate) fn databases(target: &Target, only: Option<u32>) -> io::Result<Vec<(u32, u64)>> {
    let mut connection = target.open()?;
    if let Some(only) = only {
        select(&mut connection, &mut None, only)?;
    }
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

/// When a key expires as unix time in milliseconds, if it does, and what a command says of its value.
pub(crate) struct Timed {
    pub(crate) expires_at_ms: Option<i64>,
    pub(crate) reply: Value,
}

/// Asks a command with one key, and when the key expires, in a transaction for each key of the current
/// database: between two commands, a client may give a key another value and another expiry. Also says
/// whether the times are exact: servers before version 7 only say how much time is left, so theirs are right
/// to the time of a reply.
///
/// Where transactions are not allowed, the commands still follow each other.
pub(crate) fn ask_timed(
    connection: &mut Connection,
    name: &str,
    keys: &[Vec<u8>],
) -> io::Result<(Vec<Timed>, bool)> {
    let mut found = ask_both(connection, "PEXPIRETIME", name, keys)?;
    let is_exact = found.iter().all(|(time, _)| time.as_error().is_none());
    if !is_exact {
        found = ask_both(connection, "PTTL", name, keys)?;
    }
    let timed = found.into_iter().map(|(time, reply)| {
        let time = checked(time)?.as_integer().filter(|time| *time >= 0);
        let expires_at_ms = time.map(|time| if is_exact { time } else { now_ms() + time });
        Ok(Timed { expires_at_ms, reply })
    });
    Ok((timed.collect::<io::Result<_>>()?, is_exact))
}

/// The replies to two commands for each key, from a transaction for each.
fn ask_both(
    connection: &mut Connection,
    one: &str,
    other: &str,
    keys: &[Vec<u8>],
) -> io::Result<Vec<(Value, Value)>> {
    let commands = keys.iter().flat_map(|key| {
        let with_key = |name: &str| vec![name.as_bytes().to_vec(), key.clone()];
        [vec![b"MULTI".to_vec()], with_key(one), with_key(other), vec![b"EXEC".to_vec()]]
    });
    connection.send_all(&commands.collect::<Vec<_>>())?;
    keys.iter().map(|_| transaction(connection)).collect()
}

/// The replies to two commands between MULTI and EXEC, also where only these two are allowed.
fn transaction(connection: &mut Connection) -> io::Result<(Value, Value)> {
    let began = connection.receive_reply()?;
    let (one, other) = (connection.receive_reply()?, connection.receive_reply()?);
    let end = connection.receive_reply()?;
    if began.as_error().is_some() || one.as_error().is_some() {
        return Ok((one, other));
    }
    match end {
        Value::Array(replies) => match <[Value; 2]>::try_from(replies) {
            Ok([one, other]) => Ok((one, other)),
            Err(_) => Err(io::Error::other("EXEC has not given a reply to each command")),
        },
        // What was wrong with the second command says more than that the transaction was discarded.
        end => Ok((Value::NullBulk, if other.as_error().is_some() { other } else { end })),
    }
}

/// Dumps keys; `None` for those that are gone.
pub(crate) fn dump(connection: &mut Connection, keys: &[Vec<u8>]) -> io::Result<Vec<Option<Dumped>>> {
    let (timed, has_exact_expiry) = ask_timed(connection, "DUMP", keys)?;
    let mut found = Vec::with_capacity(keys.len());
    for Timed { expires_at_ms, reply } in timed {
        found.push(match checked(reply)? {
            Value::Bulk(payload) => Some(Dumped { payload, expires_at_ms, has_exact_expiry }),
            _ => None,
        });
    }
    Ok(found)
}

/// When a key expires, as the replies to PEXPIRETIME and PTTL say. Servers before version 7 know only PTTL.
pub(crate) fn expiry_of(time: Value, left: Value) -> io::Result<Option<i64>> {
    match time.as_integer() {
        Some(time) => Ok(Some(time).filter(|time| *time >= 0)),
        None => Ok(checked(left)?.as_integer().filter(|left| *left >= 0).map(|left| now_ms() + left)),
    }
}

/// A reply that is no error.
pub(crate) fn checked(reply: Value) -> io::Result<Value> {
    match reply.as_error() {
        Some(error) => Err(io::Error::other(String::from_utf8_lossy(error).into_owned())),
        None => Ok(reply),
    }
}
