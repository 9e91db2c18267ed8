//! The keyspace: shards, tables, entries and the value types.

pub mod listpack;
pub mod stream;
