//! Active expiry: finding expired keys that no command accesses.
//!
//! There is no second table of keys that expire, so a walk looks at all entries of the databases that have
//! any, a part of one shard at a time, and goes on where it stopped
//! ([`mantissa_store::Database::expire_cursor`]). Databases without keys that expire cost nothing. What is
//! found is removed as any expired key is, so that it is logged and published.
//!
//! Hashes with fields that have an expiry are listed by the earliest of these
//! ([`mantissa_store::Database::hashes_with_expired_fields`]), so that only those with expired fields are
//! visited. One that is on disk is removed as it is if all of its fields have expired; else its value is to
//! be read first, which is left to the caller.

use mantissa_store::cold::Cold;
use mantissa_store::{Entry, KeyHash, ListedHash};
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
    /// Databases that have been walked to the end; the next call begins them anew.
    pub finished: usize,
}

/// Looks at about `entries_max` entries of a shard, over all databases, and removes those that have expired.
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
        numbered.filter(|(_, database)| database.has_expiries()).map(|(number, _)| number).collect()
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
    let sampled = access.settings().sample_expiries;
    let hasher = access.keyspace().hasher();
    let mut due: Vec<Box<[u8]>> = Vec::new();
    let mut kept: Vec<KeyHash> = Vec::new();
    let (mut visited, mut with_expiry) = (0, 0);
    let is_finished = access.visit_shard(shard, |shard| {
        let database = &mut shard.databases[database];
        database.sample_expiries(sampled && database.with_expiry_len() > 0);
        if database.with_expiry_len() == 0 {
            return false;
        }
        loop {
            let cursor = database.scan(database.expire_cursor, |entry| {
                visited += 1;
                let Some(time) = entry.expiry() else { return };
                with_expiry += 1;
                if time <= now_ms {
                    due.push(entry.key().into());
                } else if sampled {
                    kept.push(hasher.hash(entry.key()));
                }
            });
            database.expire_cursor = cursor;
            if cursor == 0 || visited >= entries_max {
                kept.drain(..).for_each(|hash| database.note_with_expiry(hash));
                return cursor == 0;
            }
        }
    });
    progress.visited += visited;
    progress.with_expiry += with_expiry;
    progress.finished += usize::from(is_finished);
    access.select(database);
    for key in &due {
        progress.removed += usize::from(access.remove_if_expired(key));
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
                while total.finished == 0 {
                    let part = expire_cycle(access, shard, 4, &mut Vec::new());
                    total.removed += part.removed;
                    total.finished += part.finished;
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
}
