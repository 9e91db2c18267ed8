//! Expiries while the commands of an append-only file are run on a server that serves.
//!
//! A server that loads its own file lets nothing expire before the end. Another server, to which the commands
//! are sent, would remove a key as soon as a command gives it an expiry that has passed by now, and with it
//! what later commands would have kept: `SET k v PXAT yesterday`, `PEXPIREAT k tomorrow`. So expiries that
//! are near or have passed are moved into the far future, by a fixed span, and moved back at the end
//! ([`Postponed::settle`]); what has expired goes then.

use std::collections::{HashMap, HashSet};
use std::io;

use mantissa_protocol::{Args, Value};

use super::source::{checked, select};
use crate::connection::Connection;

/// By how much an expiry is moved: 2,000 years, so that no real one is as late. That of a hash field may be
/// in the year 4199 at most.
const SPAN_MS: i64 = 2000 * 366 * 24 * 3600 * 1000;
/// An expiry within this time could come before the end of the import.
const NEAR_MS: i64 = 24 * 3600 * 1000;
/// How many questions are asked at a time.
const BATCH: usize = 500;

/// A key: its database and its name.
type Key = (u32, Vec<u8>);

/// Keys and fields whose expiry may have been moved.
pub(crate) struct Postponed {
    /// Expiries before this are moved.
    before_ms: i64,
    /// Keys, each with fields of its own that have an expiry.
    keys: HashMap<Key, HashSet<Vec<u8>>>,
}

impl Postponed {
    /// Nothing yet.
    pub(crate) fn new(now_ms: i64) -> Self {
        Postponed { before_ms: now_ms.saturating_add(NEAR_MS), keys: HashMap::new() }
    }

    /// The time at which to let a key expire that expires at `at_ms`.
    pub(crate) fn key_expires(&mut self, database: u32, key: &[u8], at_ms: i64) -> i64 {
        if at_ms >= self.before_ms {
            return at_ms;
        }
        self.keys.entry((database, key.to_vec())).or_default();
        at_ms.saturating_add(SPAN_MS)
    }

    /// The command to run in place of this one, if it is to be another.
    pub(crate) fn rewrite(&mut self, database: u32, command: Args<'_>) -> Option<Vec<Vec<u8>>> {
        let name = command.get(0)?.to_ascii_lowercase();
        let key = command.get(1)?;
        match name.as_slice() {
            b"rename" | b"renamenx" => self.follow((database, key), (database, command.get(2)?)),
            b"move" => self.follow((database, key), (number(command.get(2)?)?, key)),
            b"copy" => {
                let to = match word_at(command, 3, b"db") {
                    Some(at) => number(command.get(at + 1)?)?,
                    None => database,
                };
                self.follow((database, key), (to, command.get(2)?));
            }
            b"swapdb" => self.swap(number(key)?, number(command.get(2)?)?),
            b"pexpireat" => return self.moved(database, command, 2, 1),
            b"expireat" => return self.moved(database, command, 2, 1000),
            b"restore" if has_word(command, 4, b"absttl") => return self.moved(database, command, 2, 1),
            b"hpexpireat" => return self.moved_fields(database, command, 2, 1),
            b"hexpireat" => return self.moved_fields(database, command, 2, 1000),
            b"set" | b"getex" | b"hsetex" | b"hgetex" => {
                let is_hash = name.starts_with(b"h");
                let from = if name == b"set" { 3 } else { 2 };
                let options_end = word_at(command, from, b"fields").unwrap_or(command.len());
                for (option, unit_ms) in [(&b"pxat"[..], 1), (b"exat", 1000)] {
                    if let Some(at) = word_at(command, from, option).filter(|at| *at < options_end) {
                        return if is_hash {
                            self.moved_fields(database, command, at + 1, unit_ms)
                        } else {
                            self.moved(database, command, at + 1, unit_ms)
                        };
                    }
                }
            }
            _ => {}
        }
        None
    }

    /// What was moved for one key may be found under another one.
    fn follow(&mut self, from: (u32, &[u8]), to: (u32, &[u8])) {
        if let Some(fields) = self.keys.get(&(from.0, from.1.to_vec())).cloned() {
            self.keys.entry((to.0, to.1.to_vec())).or_default().extend(fields);
        }
    }

    fn swap(&mut self, one: u32, other: u32) {
        let swapped = std::mem::take(&mut self.keys).into_iter().map(|((database, key), fields)| {
            let database = match database {
                database if database == one => other,
                database if database == other => one,
                database => database,
            };
            ((database, key), fields)
        });
        self.keys = swapped.collect();
    }

    /// The command with its expiry, argument `at` in units of `unit_ms`, moved if it is near.
    fn moved(&mut self, database: u32, command: Args<'_>, at: usize, unit_ms: i64) -> Option<Vec<Vec<u8>>> {
        let time = number::<i64>(command.get(at)?)?;
        // RESTORE says by 0 that there is none.
        if time == 0 || time.saturating_mul(unit_ms) >= self.before_ms {
            return None;
        }
        self.keys.entry((database, command.get(1)?.to_vec())).or_default();
        let mut words: Vec<Vec<u8>> = command.iter().map(<[u8]>::to_vec).collect();
        *words.get_mut(at)? = time.saturating_add(SPAN_MS / unit_ms).to_string().into_bytes();
        Some(words)
    }

    /// The same for the expiry of fields, which follow the word FIELDS and their number.
    fn moved_fields(
        &mut self,
        database: u32,
        command: Args<'_>,
        at: usize,
        unit_ms: i64,
    ) -> Option<Vec<Vec<u8>>> {
        let words = self.moved(database, command, at, unit_ms)?;
        let fields_at = word_at(command, at + 1, b"fields")?;
        let count = number::<usize>(command.get(fields_at + 1)?)?;
        let with_values = command.get(0)?.eq_ignore_ascii_case(b"hsetex");
        let fields = command.iter().skip(fields_at + 2).step_by(if with_values { 2 } else { 1 }).take(count);
        let known = self.keys.entry((database, command.get(1)?.to_vec())).or_default();
        known.extend(fields.map(<[u8]>::to_vec));
        Some(words)
    }

    /// Moves the expiries back.
    pub(crate) fn settle(self, connection: &mut Connection) -> io::Result<()> {
        let mut keys: Vec<_> = self.keys.into_iter().collect();
        keys.sort_unstable_by_key(|((database, _), _)| *database);
        let mut selected = None;
        for piece in keys.chunk_by(|one, other| one.0.0 == other.0.0) {
            let Some(((database, _), _)) = piece.first() else { continue };
            select(connection, &mut selected, *database)?;
            let fields = piece.iter().flat_map(|((_, key), fields)| {
                fields.iter().map(|field| vec![key.clone(), words("FIELDS"), words("1"), field.clone()])
            });
            // Fields first: a key that is gone has none.
            settle_all(connection, fields, "HPEXPIRETIME", "HPEXPIREAT")?;
            let keys = piece.iter().map(|((_, key), _)| vec![key.clone()]);
            settle_all(connection, keys, "PEXPIRETIME", "PEXPIREAT")?;
        }
        Ok(())
    }
}

/// Asks for expiries, and moves those back that were moved. Of `places` the first word is the key.
fn settle_all(
    connection: &mut Connection,
    places: impl Iterator<Item = Vec<Vec<u8>>>,
    question: &str,
    command: &str,
) -> io::Result<()> {
    let mut places = places.peekable();
    while places.peek().is_some() {
        let batch: Vec<_> = places.by_ref().take(BATCH).collect();
        let questions = batch.iter().map(|place| [&[words(question)], place.as_slice()].concat());
        connection.send_all(&questions.collect::<Vec<_>>())?;
        let mut commands = Vec::new();
        for place in batch {
            let at_ms = match connection.receive_reply()? {
                Value::Array(times) => times.first().and_then(Value::as_integer),
                reply => reply.as_integer(),
            };
            let Some(at_ms) = at_ms.filter(|at_ms| *at_ms >= SPAN_MS / 2) else { continue };
            let (key, rest) = place.split_first().map_or((&[][..], &[][..]), |(key, rest)| (&key[..], rest));
            let time = (at_ms - SPAN_MS).max(1).to_string();
            commands.push([&[words(command), key.to_vec(), words(&time)], rest].concat());
        }
        connection.send_all(&commands)?;
        for _ in &commands {
            checked(connection.receive_reply()?)?;
        }
    }
    Ok(())
}

fn words(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn word_at(command: Args<'_>, from: usize, word: &[u8]) -> Option<usize> {
    (from..command.len()).find(|at| command.get(*at).is_some_and(|found| found.eq_ignore_ascii_case(word)))
}

fn has_word(command: Args<'_>, from: usize, word: &[u8]) -> bool {
    word_at(command, from, word).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mantissa_protocol::OwnedArgs;

    #[test]
    fn near_expiries_move() {
        let mut postponed = Postponed::new(1_000_000_000_000);
        let far = "1900000000000";
        for (line, expected) in [
            ("PEXPIREAT k 5", Some(format!("PEXPIREAT k {}", SPAN_MS + 5))),
            ("EXPIREAT k 5", Some(format!("EXPIREAT k {}", SPAN_MS / 1000 + 5))),
            ("SET k v NX PXAT 7", Some(format!("SET k v NX PXAT {}", SPAN_MS + 7))),
            ("SET pxat 5", None),
            ("SET k v", None),
            (&format!("PEXPIREAT k {far}"), None),
            ("RESTORE k 9 x ABSTTL", Some(format!("RESTORE k {} x ABSTTL", SPAN_MS + 9))),
            ("RESTORE k 0 x ABSTTL", None),
            ("RESTORE k 9 x", None),
            ("HSETEX h PXAT 3 FIELDS 1 a b", Some(format!("HSETEX h PXAT {} FIELDS 1 a b", SPAN_MS + 3))),
            ("HSETEX h FIELDS 2 pxat 3 c d", None),
            ("HPEXPIREAT h 3 FIELDS 2 a c", Some(format!("HPEXPIREAT h {} FIELDS 2 a c", SPAN_MS + 3))),
            ("RENAME h i", None),
            ("COPY h j REPLACE DB 3", None),
            ("PING", None),
        ] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let command = OwnedArgs::from_slices(&words);
            let rewritten = postponed.rewrite(0, command.as_args());
            let text = rewritten.map(|words| String::from_utf8(words.join(&b' ')).expect("it is ASCII"));
            assert_eq!(text, expected, "{line}");
        }
        let fields = HashSet::from([b"a".to_vec(), b"c".to_vec()]);
        assert_eq!(postponed.keys.get(&(0, b"h".to_vec())), Some(&fields));
        assert_eq!(postponed.keys.get(&(0, b"i".to_vec())), Some(&fields));
        assert_eq!(postponed.keys.get(&(3, b"j".to_vec())), Some(&fields));
        assert_eq!(postponed.keys.len(), 4);
        postponed.swap(0, 2);
        assert!(postponed.keys.contains_key(&(2, b"k".to_vec())));
    }
}
