//! Active expiry: finding expired keys that no command accesses.
//!
//! There is no second table of keys that expire. A database knows in which small parts of its table a key may
//! have expired ([`mantissa_store::Database::visit_due`]), and these are looked through, some at a time. What
//! is found is removed as any expired key is, so that it is logged and published.
//!
//! Hashes with fields that have an expiry are listed by the earliest of these
//! ([`mantissa_store::Database::hashes_with_expired_fields`]), so that only those with expired fields are
//! visited. One that is on disk is removed as it is if all of its fields have expired; else its value is to
//! be read first, which is left to the caller.

use mantissa_store::cold::Cold;
use mantissa_store::{Entry, ListedHash};
use smallvec::SmallVec;

use crate::access::{Access, Unread};
use crate::hash::remove_expired_fields;

/// What a part of the walk did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpireProgress {
    /// Entries looked at.
    pub visited: usize,
    /// Of those, keys with an expiry, and fields with one.
    pub with_expiry: usize,
    /// Keys removed.
    pub removed: usize,
    /// Keys with an expiry that the shard had before, over all databases.
    pub keys: usize,
    /// Entries were looked at, and there are more to be because tables have grown: soon it will be known
    /// where the next expires.
    pub is_behind: bool,
}

/// Looks at about `entries_max` entries of a shard, over all databases, among those that may have expired,
/// and removes those that have. Nothing is visited if nothing has expired.
/// The shard must be locked by `access`, whose effects are to be committed afterwards. Values on disk that
/// have to be read before their fields can be removed are added to `unread`.
pub fn expire_cycle(
    access: &mut Access<'_>,
    shard: usize,
    entries_max: usize,
    unread: &mut Vec<Unread>,
) -> ExpireProgress {
    let selected = access.database();
    let mut progress = ExpireProgress::default();
    // There may be many, most of them empty.
    let mut databases: SmallVec<[usize; 16]> = access.visit_shard(shard, |shard| {
        let numbered = shard.databases.iter().enumerate();
        let with_expiries = numbered.filter(|(_, database)| database.has_expiries());
        with_expiries.inspect(|(_, it)| progress.keys += it.with_expiry_len()).map(|(at, _)| at).collect()
    });
    if databases.is_empty() {
        return progress;
    }
    // Not always the same one first, so that each gets its share of the time.
    let first = access.random_below(databases.len());
    databases.rotate_left(first);
    for database in databases {
        let left = entries_max.saturating_sub(progress.visited);
        if left == 0 {
            break;
        }
        walk(access, shard, database, left, &mut progress);
        remove_fields(access, (shard, database), left, unread, &mut progress);
    }
    access.select(selected);
    progress
}

fn walk(
    access: &mut Access<'_>,
    shard: usize,
    database: usize,
    entries_max: usize,
    progress: &mut ExpireProgress,
) {
    let now_ms = access.now_ms();
    access.select(database);
    let mut due: Vec<Box<[u8]>> = Vec::new();
    let mut left = entries_max;
    while left > 0 {
        let (mut visited, mut with_expiry) = (0, 0);
        let is_found = access.visit_shard(shard, |shard| {
            let database = &mut shard.databases[database];
            let is_found = database.visit_due(now_ms, |entry| {
                visited += 1;
                let Some(time) = entry.expiry() else { return false };
                with_expiry += 1;
                let is_due = time <= now_ms;
                if is_due {
                    due.push(entry.key().into());
                }
                is_due
            });
            progress.is_behind |= is_found && database.visits_in_vain();
            is_found
        });
        if !is_found {
            break;
        }
        for key in due.drain(..) {
            if access.remove_if_expired(&key) {
                progress.removed += 1;
                continue;
            }
            let hash = access.keyspace().hash(&key);
            access.visit_shard(shard, |shard| shard.databases[database].note_expiry(hash, &key));
        }
        progress.visited += visited;
        progress.with_expiry += with_expiry;
        // Tables of few entries have parts without any.
        left = left.saturating_sub(visited.max(1));
    }
}

/// What is to be done about a hash that is listed with an expired field.
enum Due {
    /// Fields of it are removed.
    Some,
    /// It is on disk and goes as it is, with so many fields.
    All(usize),
    /// It is on disk and has to be read first.
    Unread(Cold),
    /// It is on disk and has no expired field.
    Later,
}

impl Due {
    fn of(entry: Option<&Entry>, now_ms: i64) -> Due {
        let Some(entry) = entry.filter(|entry| entry.is_cold()) else { return Due::Some };
        match (entry.expired_fields(now_ms), entry.cold_only()) {
            (0, _) if !entry.has_expired_fields_on_disk(now_ms) => Due::Later,
            (0, Some(cold)) => Due::Unread(cold),
            (0, None) => Due::Some,
            (all, _) => Due::All(all),
        }
    }
}

/// Removes up to `fields_max` expired fields of the hashes in a database from where it stopped, or some more
/// if these are all of a hash on disk. One that has to be read first does not keep others from their turn.
fn remove_fields(
    access: &mut Access<'_>,
    (shard, number): (usize, usize),
    fields_max: usize,
    unread: &mut Vec<Unread>,
    progress: &mut ExpireProgress,
) {
    const HASHES_MAX: usize = 32;
    let (now_ms, keyspace) = (access.now_ms(), access.keyspace());
    access.select(number);
    let hashes_max = HASHES_MAX.min(fields_max);
    let (due, mut cursor) = access.visit_shard(shard, |shard| {
        let database = &shard.databases[number];
        let entry = |key: &[u8]| database.get(keyspace.hash(key), key);
        let listed = database.hashes_with_expired_fields(now_ms).take(hashes_max);
        let due = listed.map(|listed| (listed.clone(), Due::of(entry(&listed.1), now_ms)));
        (due.collect::<Vec<(ListedHash, Due)>>(), database.fields_cursor.clone())
    });
    let is_end = due.len() < hashes_max;
    let mut left = fields_max;
    for (listed, due) in due {
        let key = &listed.1;
        let removed = match due {
            Due::Some => remove_expired_fields(access, key, left),
            Due::All(all) if access.remove_if_expired(key) => all,
            Due::All(_) => 0,
            Due::Unread(cold) => {
                unread.push(((number, keyspace.hash(key)), cold));
                cursor = Some(listed);
                continue;
            }
            Due::Later => {
                access.track_fields(key);
                continue;
            }
        };
        progress.visited += removed.max(1);
        progress.with_expiry += removed.max(1);
        progress.removed += removed;
        left = left.saturating_sub(removed.max(1));
        if left == 0 {
            break;
        }
    }
    // The others are not listed any more, or later. At the end of the list the walk begins anew.
    cursor = cursor.filter(|_| left == 0 || !is_end);
    access.visit_shard(shard, |shard| shard.databases[number].fields_cursor = cursor);
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::testing::Bench;

    #[test]
    fn a_walk_removes_what_has_expired_and_nothing_else() {
        let mut bench = Bench::new();
        bench.keyspace.set_logged(true);
        for number in 0..1_000 {
            bench.run(&format!("SET expiring:{number} x PX {}", if number % 2 == 0 { 10 } else { 10_000 }));
            bench.run(&format!("SET eternal:{number} x"));
        }
        bench.now_ms += 100;
        let (mut removed, mut logged) = (0, 0);
        for shard in 0..bench.keyspace.shard_count() {
            let (progress, effects) = bench.with_shard(shard, |access| {
                let mut total = ExpireProgress::default();
                loop {
                    let part = expire_cycle(access, shard, 4, &mut Vec::new());
                    total.removed += part.removed;
                    if part.visited == 0 {
                        break;
                    }
                }
                total
            });
            removed += progress.removed;
            logged += effects.removed_expired.len();
            assert_eq!(effects.expired_count as usize, progress.removed);
        }
        assert_eq!((removed, logged), (500, 500));
        assert_eq!(bench.run("DBSIZE"), ":1500\r\n");
    }

    /// Runs the cycle in all shards until nothing is due, and returns what it did in all.
    fn run_all(bench: &mut Bench) -> ExpireProgress {
        let mut total = ExpireProgress::default();
        for shard in 0..bench.keyspace.shard_count() {
            loop {
                let work = |access: &mut Access<'_>| expire_cycle(access, shard, 200, &mut Vec::new());
                let (part, _) = bench.with_shard(shard, work);
                total.visited += part.visited;
                total.removed += part.removed;
                if part.visited == 0 {
                    break;
                }
            }
        }
        total
    }

    #[test]
    fn a_key_that_expires_is_found_among_many_that_do_not() {
        let mut bench = Bench::new();
        for number in 0..100_000 {
            bench.run(&format!("SET eternal:{number} x"));
        }
        for round in 0..3 {
            bench.run("SET k x PX 10");
            assert_eq!(run_all(&mut bench).removed, 0);
            bench.now_ms += 10;
            let progress = run_all(&mut bench);
            assert_eq!(progress.removed, 1);
            // The first time nothing is known of how keys are spread over a table that has grown.
            assert!(round == 0 || progress.visited <= 1_000, "{progress:?}");
        }
    }

    #[test]
    fn whatever_has_expired_is_removed() {
        let mut bench = Bench::new();
        let mut model: HashMap<u64, Option<i64>> = HashMap::new();
        let mut state = 20_261_130_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for phase in 0..40 {
            // Tables grow and shrink.
            let keys = if phase % 8 < 5 { 30_000 } else { 300 };
            for _ in 0..3_000 {
                let (key, ms) = (random(keys), 1 + random(200) as i64);
                let is_there = model.contains_key(&key);
                match random(6) {
                    0 | 1 => {
                        bench.run(&format!("SET {key} x"));
                        model.insert(key, None);
                    }
                    2 => {
                        bench.run(&format!("SET {key} x PX {ms}"));
                        model.insert(key, Some(bench.now_ms + ms));
                    }
                    3 if is_there => {
                        bench.run(&format!("PEXPIRE {key} {ms}"));
                        model.insert(key, Some(bench.now_ms + ms));
                    }
                    4 if is_there => {
                        bench.run(&format!("PERSIST {key}"));
                        model.insert(key, None);
                    }
                    _ => {
                        bench.run(&format!("DEL {key}"));
                        model.remove(&key);
                    }
                }
            }
            if phase % 8 == 5 {
                let gone: Vec<u64> = model.keys().copied().filter(|&key| key >= 300).collect();
                for key in gone {
                    bench.run(&format!("DEL {key}"));
                    model.remove(&key);
                }
            }
            bench.now_ms += random(150) as i64;
            let now_ms = bench.now_ms;
            model.retain(|_, expiry| expiry.is_none_or(|expiry| expiry > now_ms));
            run_all(&mut bench);
            assert_eq!(bench.run("DBSIZE"), format!(":{}\r\n", model.len()), "phase {phase}");
        }
    }
}
