//! Fetching ahead of their use what several commands will look at in large collections.

use smallvec::SmallVec;

use crate::{Database, KeyHash, Keyspace, ValueRef};

/// What a command is about to do with a key, if it has the usual shape: the arguments behind the key, empty
/// if there are none.
#[derive(Clone, Copy, Debug)]
pub struct Ahead<'a> {
    /// The key's hash.
    pub key: KeyHash,
    /// The field or member that is looked for; or a score, and the member that gets it.
    pub arguments: [&'a [u8]; 2],
}

impl Keyspace {
    /// Fetches what these commands will look at in collections that are larger than the caches, those of one
    /// key side by side. Their order is changed. A shard that is in use is left out: who holds it may do so
    /// for long, and on this thread. Returns how many of them are about to use such collections, or may be,
    /// as their shard was left out.
    pub fn fetch_ahead(&self, database: usize, commands: &mut [Ahead<'_>]) -> usize {
        commands.sort_unstable_by_key(|command| command.key.0);
        let mut large = 0;
        for group in commands.chunk_by(|one, other| one.key == other.key) {
            let index = self.shard_of(group[0].key);
            let Some(locked) = self.try_lock_one(index) else {
                large += group.len();
                continue;
            };
            let database = locked.shard(index).map(|shard| &shard.databases[database]);
            if database.is_some_and(|database| database.fetch_ahead(group)) {
                large += group.len();
            }
        }
        large
    }
}

impl Database {
    /// Fetches for commands with the same key. Whether it is that of a large collection.
    fn fetch_ahead(&self, commands: &[Ahead<'_>]) -> bool {
        let entry = commands.first().and_then(|command| self.candidate(command.key));
        match entry.map(|entry| entry.value()) {
            Some(ValueRef::SortedSet(set)) => {
                let aims: SmallVec<[_; 64]> = commands.iter().map(|command| aim(command.arguments)).collect();
                set.fetch_ahead(&aims)
            }
            Some(ValueRef::Hash(hash)) => {
                commands.iter().fold(false, |_, command| hash.fetch_ahead(command.arguments[0]))
            }
            Some(ValueRef::Set(set)) => {
                commands.iter().fold(false, |_, command| set.fetch_ahead(command.arguments[0]))
            }
            _ => false,
        }
    }
}

/// The member, and the score that it gets: `ZSCORE key member`, `ZADD key score member`.
fn aim([first, second]: [&[u8]; 2]) -> (&[u8], Option<f64>) {
    match second {
        [] => (first, None),
        member => (member, mantissa_number::parse_score(first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EncodingLimits, Entry, Hash, Set, ShardSet, SortedSet, Value};

    const MEMBERS: usize = 100_000;

    fn member(number: usize) -> Vec<u8> {
        format!("member:{number:012}").into_bytes()
    }

    #[test]
    fn what_large_collections_need_is_fetched_and_nothing_changes() {
        let limits = EncodingLimits::default();
        let (mut set, mut hash, mut scored) = (Set::new(), Hash::new(), SortedSet::new());
        for number in 0..MEMBERS {
            set.add(&member(number), &limits);
            hash.set(&member(number), b"a value", &limits);
            // Half of them have a score that others have as well.
            scored.insert(
                &member(number),
                (number % (MEMBERS / 2)).saturating_sub(MEMBERS / 4) as f64,
                &limits,
            );
        }
        let mut small = SortedSet::new();
        small.insert(b"one", 1.0, &limits);
        let values = [
            (&b"set"[..], Value::Set(set)),
            (b"hash", Value::Hash(hash)),
            (b"scored", Value::SortedSet(scored)),
            (b"small", Value::SortedSet(small)),
            (b"text", Value::String(b"a text".to_vec())),
        ];
        let keyspace = Keyspace::new(2, 4);
        for (key, value) in values {
            let hash = keyspace.hash(key);
            let index = keyspace.shard_of(hash);
            let mut locked = keyspace.lock(ShardSet::one(index));
            let shard = locked.shard_mut(index).expect("the shard is locked");
            shard.databases[1].insert(hash, Entry::new(key, value, None, 0));
        }
        let (known, unknown) = (member(MEMBERS / 3), member(2 * MEMBERS));
        let arguments: [[&[u8]; 2]; 10] = [
            [&known, b""],
            [&unknown, b""],
            [b"0", &known],
            [b"17.5", &unknown],
            [b"-inf", &known],
            [b"inf", &known],
            [b"nan", &known],
            [b"no number", &known],
            [b"", b""],
            [b"12", b""],
        ];
        let keys = [&b"scored"[..], b"none", b"set", b"text", b"hash", b"small"];
        let mut commands: Vec<Ahead<'_>> = Vec::new();
        for arguments in arguments {
            commands.extend(keys.iter().map(|key| Ahead { key: keyspace.hash(key), arguments }));
        }
        assert_eq!(keyspace.fetch_ahead(1, &mut commands), 3 * arguments.len());
        assert_eq!(keyspace.fetch_ahead(0, &mut commands), 0);
        assert_eq!(keyspace.fetch_ahead(1, &mut []), 0);
        let hash = keyspace.hash(b"scored");
        let index = keyspace.shard_of(hash);
        let locked = keyspace.lock(ShardSet::one(index));
        // It waits for no lock.
        assert!(keyspace.fetch_ahead(1, &mut commands) >= 3 * arguments.len());
        let entry = locked.shard(index).and_then(|shard| shard.databases[1].candidate(hash));
        let Some(ValueRef::SortedSet(scored)) = entry.map(|entry| entry.value()) else {
            panic!("the sorted set is there")
        };
        assert_eq!(scored.len(), MEMBERS);
        assert_eq!(scored.score(&known), Some((MEMBERS / 3 - MEMBERS / 4) as f64));
    }
}
