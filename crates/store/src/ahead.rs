//! Fetching ahead of their use what several commands will look at in large collections.

use crate::key_hash::KeyHash;

/// What a command is about to do with a key, if it has the usual shape: the arguments behind the key, empty
/// if there are none.
#[derive(Clone, Copy, Debug)]
pub struct Ahead<'a> {
    /// The key's hash.
    pub key: KeyHash,
    /// The field or member that is looked for; or a score, and the member that gets it.
    pub arguments: [&'a [u8]; 2],
}

impl<'a> Ahead<'a> {
    /// The member, and the score that it gets: `ZSCORE key member`, `ZADD key score member`.
    pub(crate) fn aim(&self) -> (&'a [u8], Option<f64>) {
        match self.arguments {
            [first, []] => (first, None),
            [score, member] => (member, mantissa_number::parse_score(score)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EncodingLimits, Entry, Hash, Keyspace, Set, ShardSet, SortedSet, Value, ValueRef};

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
        // Each in a database of its own, so that none is taken for another with the same fingerprint.
        let values = [
            (Some(Value::Set(set)), true),
            (Some(Value::Hash(hash)), true),
            (Some(Value::SortedSet(scored)), true),
            (Some(Value::SortedSet(small)), false),
            (Some(Value::String(b"a text".to_vec())), false),
            (None, false),
        ];
        let keyspace = Keyspace::new(values.len(), 4);
        let hash = keyspace.hash(b"key");
        let index = keyspace.shard_of(hash);
        let mut are_large = Vec::new();
        for (number, (value, is_large)) in values.into_iter().enumerate() {
            let mut locked = keyspace.lock(ShardSet::one(index));
            let shard = locked.shard_mut(index).expect("the shard is locked");
            if let Some(value) = value {
                shard.databases[number].insert(hash, Entry::new(b"key", value, None, 0));
            }
            are_large.push(is_large);
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
        let command = |arguments| Ahead { key: hash, arguments };
        let mut commands: Vec<Ahead<'_>> = arguments.into_iter().map(command).collect();
        for (number, is_large) in are_large.into_iter().enumerate() {
            let large = keyspace.fetch_ahead(number, &mut commands);
            assert_eq!(large, if is_large { arguments.len() } else { 0 }, "database {number}");
        }
        assert_eq!(keyspace.fetch_ahead(0, &mut []), 0);
        let locked = keyspace.lock(ShardSet::one(index));
        // It waits for no lock.
        assert_eq!(keyspace.fetch_ahead(5, &mut commands), arguments.len());
        let entry = locked.shard(index).and_then(|shard| shard.databases[2].candidate(hash));
        let Some(ValueRef::SortedSet(scored)) = entry.map(|entry| entry.value()) else {
            panic!("the sorted set is there")
        };
        assert_eq!(scored.len(), MEMBERS);
        assert_eq!(scored.score(&known), Some((MEMBERS / 3 - MEMBERS / 4) as f64));
    }
}
