//! The keyspace: shards, tables, entries and the value types.
