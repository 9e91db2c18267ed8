//! Listing the keys of a database: KEYS, SCAN, RANDOMKEY, DBSIZE. They visit the shards one at a time.

use std::sync::atomic::Ordering;

use mantissa_protocol::{Args, Reply};
use mantissa_store::Entry;

use crate::DataSpec;
use crate::access::{Access, split_mix};
use crate::error::{Error, Outcome};
use crate::glob;
use crate::parse;
use crate::spec::{Categories, Flags, Group, Locks};

fn is_unexpired(entry: &Entry, now_ms: i64) -> bool {
    !entry.has_expired(now_ms)
}

fn keys(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (pattern, database, now_ms) = (args.at(1), access.database(), access.now_ms());
    let list = reply.defer();
    let mut count = 0;
    if glob::is_literal(pattern) {
        let hash = access.keyspace().hash(pattern);
        let found = access.visit_shard(access.keyspace().shard_of(hash), |shard| {
            let entry = shard.databases[database].get(hash, pattern);
            entry.is_some_and(|entry| is_unexpired(entry, now_ms))
        });
        if found {
            reply.bulk(pattern);
            count = 1;
        }
    } else {
        for index in 0..access.shard_count() {
            access.visit_shard(index, |shard| {
                for entry in shard.databases[database].iter() {
                    if glob::matches(pattern, entry.key()) && is_unexpired(entry, now_ms) {
                        reply.bulk(entry.key());
                        count += 1;
                    }
                }
            });
        }
    }
    reply.finish_array(list, count);
    Ok(())
}

/// The cursor of an iteration over all shards: a shard and the cursor in its table. Both are packed into one
/// number, the shard in the lowest bits; 0 is the beginning. A key never changes its shard, so that the
/// guarantee of [`mantissa_store::Table::scan`] for each shard is one for all of them.
#[derive(Clone, Copy)]
pub(crate) struct Cursor {
    /// The shard; its number is that of shards at the end.
    pub shard: usize,
    /// The cursor in its table; 0 at the beginning.
    pub table: u64,
}

impl Cursor {
    /// The cursor that a number means.
    pub fn unpack(number: u64, shard_count: usize) -> Cursor {
        let bits = shard_count.ilog2();
        Cursor { shard: number as usize & (shard_count - 1), table: number >> bits }
    }

    /// 0 once every shard has been passed.
    pub fn pack(self, shard_count: usize) -> u64 {
        if self.shard >= shard_count { 0 } else { self.table << shard_count.ilog2() | self.shard as u64 }
    }
}

/// Reads a cursor, up to a NUL byte.
pub(crate) fn parse_cursor(argument: &[u8]) -> Outcome<u64> {
    let text = argument.split(|&byte| byte == 0).next().unwrap_or_default();
    parse::unsigned(text).ok_or(Error::fixed("ERR invalid cursor"))
}

/// The options of SCAN.
struct Options<'a> {
    count: u64,
    pattern: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Outcome<Options<'a>> {
        let mut options = Options { count: 10, pattern: None, kind: None };
        let mut at = 2;
        while let Some(option) = args.get(at) {
            if parse::is(option, "NOVALUES") {
                return Err(Error::fixed("ERR NOVALUES option can only be used in HSCAN"));
            }
            let value = args.get(at + 1).ok_or(Error::SYNTAX)?;
            if parse::is(option, "COUNT") {
                let count = parse::integer(value)?;
                options.count = u64::try_from(count).ok().filter(|&count| count > 0).ok_or(Error::SYNTAX)?;
            } else if parse::is(option, "MATCH") {
                options.pattern = Some(value).filter(|&pattern| pattern != b"*");
            } else if parse::is(option, "TYPE") {
                options.kind = Some(value);
            } else {
                return Err(Error::SYNTAX);
            }
            at += 2;
        }
        Ok(options)
    }

    fn wants(&self, entry: &Entry) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, entry.key()))
            && self.kind.is_none_or(|kind| parse::is(kind, entry.kind().name()))
    }
}

fn scan(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    /// Parts of tables that one call visits at most, for each key that it is to return.
    const STEPS_PER_KEY_MAX: u64 = 10;
    let cursor = parse_cursor(args.at(1))?;
    let options = Options::parse(args)?;
    let (number, now_ms) = (access.database(), access.now_ms());
    let shard_count = access.shard_count();
    let mut cursor = Cursor::unpack(cursor, shard_count);
    let mut steps_left = options.count.saturating_mul(STEPS_PER_KEY_MAX);
    let (mut visited, mut returned) = (0, 0);
    let mut keys = reply.part();
    let mut expired = Vec::new();
    while cursor.shard < shard_count && visited < options.count && steps_left > 0 {
        access.visit_shard(cursor.shard, |shard| {
            let database = &shard.databases[number];
            loop {
                cursor.table = database.scan(cursor.table, |entry| {
                    visited += 1;
                    if !is_unexpired(entry, now_ms) {
                        expired.push((number, Box::from(entry.key())));
                    } else if options.wants(entry) {
                        keys.bulk(entry.key());
                        returned += 1;
                    }
                });
                steps_left -= u64::from(!database.is_empty());
                if cursor.table == 0 || visited >= options.count || steps_left == 0 {
                    break;
                }
            }
        });
        if cursor.table == 0 {
            cursor.shard += 1;
        }
    }
    access.note_expired(expired);
    reply.array(2);
    reply.bulk(mantissa_number::format_u64(&mut [0; 20], cursor.pack(shard_count)));
    reply.array(returned);
    reply.append(&keys);
    Ok(())
}

/// Replies a random key without looking at all shards, unless that takes too many tries. A shard is drawn,
/// and kept with a probability that rises with the number of its keys, so that all keys are as probable.
fn pick_quickly(access: &mut Access<'_>, reply: &mut Reply, expired: &mut Vec<(usize, Box<[u8]>)>) -> bool {
    /// Of so many shards one is tried.
    const SHARDS_OF_A_TRY: usize = 4;
    let (number, now_ms, shard_count) = (access.database(), access.now_ms(), access.shard_count());
    let longest = access.keyspace().longest_shard(number).load(Ordering::Relaxed);
    if longest == 0 {
        return false;
    }
    let mut longest_seen = longest;
    let is_found = (0..shard_count.div_ceil(SHARDS_OF_A_TRY)).any(|_| {
        let (index, place) = (access.random_below(shard_count), access.random_below(longest));
        let mut state = access.random();
        access.visit_shard(index, |shard| {
            let database = &shard.databases[number];
            longest_seen = longest_seen.max(database.len());
            if place >= database.len() {
                return false;
            }
            let Some(entry) = database.random(|| split_mix(&mut state)) else { return false };
            let is_unexpired = is_unexpired(entry, now_ms);
            match is_unexpired {
                true => reply.bulk(entry.key()),
                false => expired.push((number, Box::from(entry.key()))),
            }
            is_unexpired
        })
    });
    if longest_seen > longest {
        access.keyspace().longest_shard(number).store(longest_seen, Ordering::Relaxed);
    }
    is_found
}

fn randomkey(access: &mut Access<'_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    /// Random picks that may hit expired keys, before all keys are searched for an unexpired one.
    const TRIES_MAX: usize = 100;
    let (number, now_ms) = (access.database(), access.now_ms());
    let mut expired = Vec::new();
    if pick_quickly(access, reply, &mut expired) {
        access.note_expired(expired);
        return Ok(());
    }
    let lens: Vec<usize> = shard_lens(access).collect();
    let total: usize = lens.iter().sum();
    let longest = lens.iter().copied().max().unwrap_or(0);
    access.keyspace().longest_shard(number).store(longest, Ordering::Relaxed);
    let mut state = access.random();
    for _ in 0..if total == 0 { 0 } else { TRIES_MAX } {
        let mut place = access.random_below(total);
        let Some(index) = lens.iter().position(|&len| {
            let is_here = place < len;
            place = place.saturating_sub(len);
            is_here
        }) else {
            break;
        };
        let is_found = access.visit_shard(index, |shard| {
            let Some(entry) = shard.databases[number].random(|| split_mix(&mut state)) else { return false };
            let is_unexpired = is_unexpired(entry, now_ms);
            if is_unexpired {
                reply.bulk(entry.key());
            } else {
                expired.push((number, Box::from(entry.key())));
            }
            is_unexpired
        });
        if is_found {
            access.note_expired(expired);
            return Ok(());
        }
    }
    // Where expired keys are kept, one of them is shown rather than nothing, as in Redis.
    let keeps = access.keyspace().keeps_expired() || access.keyspace().pauses_expiry();
    let kept = expired.first().filter(|_| keeps).map(|(_, key)| key.clone());
    access.note_expired(expired);
    for index in 0..access.shard_count() {
        let is_found = access.visit_shard(index, |shard| {
            let entry = shard.databases[number].iter().find(|entry| is_unexpired(entry, now_ms));
            entry.inspect(|entry| reply.bulk(entry.key())).is_some()
        });
        if is_found {
            return Ok(());
        }
    }
    match kept {
        Some(key) => reply.bulk(&key),
        None => reply.null(),
    }
    Ok(())
}

fn dbsize(access: &mut Access<'_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let count: usize = shard_lens(access).sum();
    reply.integer(count as i64);
    Ok(())
}

/// The number of keys in each shard of the database, including expired ones that have not been removed.
fn shard_lens(access: &mut Access<'_>) -> impl Iterator<Item = usize> {
    let database = access.database();
    (0..access.shard_count())
        .map(move |index| access.visit_shard(index, |shard| shard.databases[database].len()))
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("keys", 2, keys, Flags::READONLY)
        .locks(Locks::Sweep)
        .categories(Categories::KEYSPACE.or(Categories::DANGEROUS))
        .docs(
            Group::Generic,
            "1.0.0",
            "O(N) for N keys of the database",
            "Lists all keys that match a pattern.",
        )
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"])
        .arguments("pattern:pattern"),
    DataSpec::new("scan", -2, scan, Flags::READONLY)
        .locks(Locks::Sweep)
        .categories(Categories::KEYSPACE)
        .docs(
            Group::Generic,
            "2.8.0",
            "O(1) a call, O(N) for the N keys of a whole iteration",
            "Lists the keys of the database step by step.",
        )
        .history(&[("6.0.0", "TYPE.")])
        .tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"])
        .arguments("cursor:integer pattern:pattern@MATCH? count:integer@COUNT? type:string@TYPE?<6.0.0"),
    DataSpec::new("randomkey", 1, randomkey, Flags::READONLY)
        .locks(Locks::Sweep)
        .categories(Categories::KEYSPACE)
        .docs(Group::Generic, "1.0.0", "O(1)", "Picks a key of the database at random.")
        .tips(&["request_policy:all_shards", "response_policy:special", "nondeterministic_output"]),
    DataSpec::new("dbsize", 1, dbsize, Flags::READONLY.or(Flags::FAST))
        .locks(Locks::Sweep)
        .categories(Categories::KEYSPACE)
        .docs(Group::Server, "1.0.0", "O(1)", "Counts the keys of the database.")
        .tips(&["request_policy:all_shards", "response_policy:agg_sum"]),
];
