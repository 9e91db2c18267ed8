//! Reading one file of an append-only file to its end or its first damage.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;

use mantissa_persist::aof::preallocation::Patches;
use mantissa_persist::aof::{AofError, Item, Reader};

use super::kinds::{keys_of, kind_of};
use super::rdb::{Report, look_through};

/// Keys that are told apart, over all databases: 64 bits are kept of each.
const KEYS_MAX: usize = 4_000_000;

/// What commands are about, over all files.
#[derive(Default)]
pub(super) struct Tally {
    /// Commands by database and type.
    pub(super) commands: BTreeMap<(u64, &'static str), u64>,
    /// Keys by database, told apart by their hashes.
    keys: BTreeMap<u64, HashSet<u64>>,
    keys_kept: usize,
    pub(super) transactions: u64,
    /// The first and the last timestamp.
    pub(super) times_s: Option<(i64, i64)>,
    /// Lines, counted from 1, as redis-check-aof counts them.
    pub(super) line: u64,
    database: u64,
}

impl Tally {
    /// Nothing seen yet.
    pub(super) fn new() -> Self {
        Tally { line: 1, ..Tally::default() }
    }

    /// How many keys the commands on a database name, as text.
    pub(super) fn keys_of(&self, database: u64) -> String {
        let count = self.keys.get(&database).map_or(0, HashSet::len);
        let more = if self.keys_kept >= KEYS_MAX { "at least " } else { "" };
        format!("{more}{count} {}", if count == 1 { "key" } else { "keys" })
    }

    /// A file begins: its commands are about database 0 until they say otherwise.
    fn begin_file(&mut self) {
        self.database = 0;
    }

    fn add(&mut self, item: Item<'_>) {
        let command = match item {
            Item::Command(command) => command,
            Item::Timestamp(time_s) => {
                let first_s = self.times_s.map_or(time_s, |(first_s, _)| first_s);
                self.times_s = Some((first_s, time_s));
                return;
            }
            Item::Annotation(_) => return,
        };
        let name = command.get(0).unwrap_or_default();
        let kind = kind_of(name);
        if kind == "framing" {
            if name.eq_ignore_ascii_case(b"select") {
                let index = command.get(1).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
                self.database = index.unwrap_or(self.database);
            } else if name.eq_ignore_ascii_case(b"exec") {
                self.transactions += 1;
            }
            return;
        }
        *self.commands.entry((self.database, kind)).or_default() += 1;
        for key in keys_of(kind, command) {
            if self.keys_kept < KEYS_MAX {
                let mut hasher = DefaultHasher::new();
                key.hash(&mut hasher);
                let is_new = self.keys.entry(self.database).or_default().insert(hasher.finish());
                self.keys_kept += usize::from(is_new);
            }
        }
    }
}

/// What one file is like.
pub(super) struct Analysis {
    /// Its length.
    pub(super) bytes: u64,
    /// Where its last whole command or transaction ends.
    pub(super) whole_end: u64,
    /// The dump that it begins with.
    pub(super) preamble: Option<Report>,
    /// Why it is not whole, with the place.
    pub(super) damage: Option<String>,
    /// Where to truncate the file so that nothing stays that was written after the time asked for.
    pub(super) truncation: Option<u64>,
    /// Patches to write before the truncation.
    pub(super) patches: Patches,
}

impl Analysis {
    /// Whether the dump that the file begins with is damaged: nothing can be done about that.
    pub(super) fn is_preamble_damaged(&self) -> bool {
        self.preamble.as_ref().is_some_and(|preamble| preamble.damage.is_some())
    }
}

/// Reads a file of `bytes` bytes. With `until_s`, stops at the first timestamp after that. `progress` is
/// called with the bytes read.
pub(super) fn analyze<R: Read>(
    input: R,
    bytes: u64,
    has_preamble: bool,
    until_s: Option<i64>,
    tally: &mut Tally,
    mut progress: impl FnMut(u64),
) -> Analysis {
    let mut analysis = Analysis {
        bytes,
        whole_end: 0,
        preamble: None,
        damage: None,
        truncation: None,
        patches: Patches::new(),
    };
    tally.begin_file();
    let mut reader = if has_preamble {
        let (report, (ahead, rest)) = look_through(input, bytes, 0, &mut progress);
        let start = report.summary.bytes;
        let damage = report.damage.as_ref().map(ToString::to_string);
        analysis.preamble = Some(report);
        if damage.is_some() {
            analysis.damage = damage;
            return analysis;
        }
        Reader::resume(ahead, rest, start, bytes)
    } else {
        Reader::new(input, bytes)
    };
    loop {
        match reader.next_item() {
            Ok(Some(Item::Timestamp(time_s))) if until_s.is_some_and(|until_s| time_s > until_s) => {
                let end = if reader.in_transaction() { reader.whole_end() } else { reader.item_offset() };
                analysis.truncation = Some(end);
                analysis.whole_end = end;
                analysis.patches = reader.patches().clone();
                analysis.patches.extend(reader.patch_of_truncation(end));
                return analysis;
            }
            Ok(Some(item)) => {
                if let Item::Command(command) = item {
                    tally.line += 1 + 2 * command.len() as u64;
                }
                tally.add(item);
            }
            Ok(None) => break,
            Err(failure) => {
                analysis.damage = Some(match failure {
                    AofError::Truncated { reason, .. } => format!("{reason} at byte {}", reader.offset()),
                    failure => failure.to_string(),
                });
                break;
            }
        }
        progress(reader.offset());
    }
    analysis.whole_end = reader.whole_end();
    analysis.patches = reader.patches().clone();
    analysis
}
