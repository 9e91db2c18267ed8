//! A walk over all entries, some of them at a time.

use mantissa_store::{Database, Entry, Keyspace, LockedShards, ShardSet};

/// Entries that are looked at with their shard locked.
const LOCKED_ENTRIES: usize = 200;

/// Where a walk stands.
#[derive(Clone, Copy, Default)]
pub struct Walk {
    shard: usize,
    database: usize,
    cursor: u64,
}

impl Walk {
    /// Whether all shards have been walked through.
    pub fn is_over(self, keyspace: &Keyspace) -> bool {
        self.shard >= keyspace.shard_count()
    }

    /// The number of the shard that is to be locked for the next step.
    pub fn shard(self) -> usize {
        self.shard
    }

    /// The same as a set.
    pub fn shards(self) -> ShardSet {
        ShardSet::one(self.shard)
    }

    /// The number of the database that the next step looks at.
    pub fn database(self) -> usize {
        self.database
    }

    /// That database, to change what the step has found.
    pub fn database_in<'a>(self, locked: &'a mut LockedShards<'_>) -> Option<&'a mut Database> {
        locked.shard_mut(self.shard)?.databases.get_mut(self.database)
    }

    /// Takes a step: what `look` takes of the next entries, and where the walk goes on behind them.
    pub fn step<T>(
        self,
        locked: LockedShards<'_>,
        mut look: impl FnMut(&Entry) -> Option<T>,
    ) -> (Vec<T>, Walk) {
        let shard = locked.shard(self.shard);
        let Some(database) = shard.and_then(|shard| shard.databases.get(self.database)) else {
            return (Vec::new(), Walk { shard: self.shard + 1, ..Walk::default() });
        };
        let (mut found, mut seen, mut cursor) = (Vec::new(), 0, self.cursor);
        loop {
            cursor = database.scan(cursor, |entry| {
                seen += 1;
                found.extend(look(entry));
            });
            if cursor == 0 || seen >= LOCKED_ENTRIES {
                break;
            }
        }
        (found, Walk { database: self.database + usize::from(cursor == 0), cursor, ..self })
    }
}
