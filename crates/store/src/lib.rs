//! The keyspace: shards, tables, entries and the value types.
//!
//! A [`Keyspace`] is a number of [`Shard`]s, each behind its own lock. A shard holds its part of every
//! database: a [`Table`] of [`Entry`] pointers. Values are strings inside their entries, or one of the
//! collections that [`types`] has a row for, such as [`List`], whose encodings are their own affair.
//! No layer above names a concrete container.

mod ahead;
pub mod append_block;
pub mod array;
pub mod bits;
mod bloom_filter;
pub mod cold;
mod count_min_sketch;
mod cuckoo_filter;
mod deadlines;
mod distinct;
mod divisor;
mod entry;
mod extenders;
mod hash;
pub mod json;
mod kept;
mod key_hash;
mod keyspace;
mod label_index;
mod limits;
mod list;
pub mod listpack;
mod member_index;
mod murmur;
mod packed;
mod paged_bytes;
mod room;
mod sample;
mod seed;
pub mod series;
mod set;
mod shard;
mod shard_set;
mod short_text;
pub mod snapshot;
mod sorted_set;
pub mod stream;
mod t_digest;
mod table;
#[cfg(test)]
#[path = "../../memory/src/test_random.rs"]
mod test_random;
mod text;
mod top_k;
mod tracked;
pub mod types;
mod value;
pub mod vector_set;
mod walk;

pub use mantissa_memory::{allocator, heap, prefetch, slab};

pub use ahead::Ahead;
pub use array::Array;
pub use bloom_filter::{BloomAdded, BloomFilter, BloomPart, BloomShape};
pub use count_min_sketch::{CountMinSketch, WeightedSketch};
pub use cuckoo_filter::{CuckooAdded, CuckooFilter, CuckooShape};
pub use entry::{Entry, KEY_BYTES_MAX, canonical_integer};
pub use hash::{Field, FieldChange, Hash};
pub use json::Json;
pub use kept::is_contended;
pub use key_hash::{KeyHash, KeyHasher};
pub use keyspace::{Keyspace, LockedShards, PREFETCHED_KEYS_MIN, ReleaseKept};
pub use label_index::{LabelIndex, LabelShards};
pub use limits::EncodingLimits;
pub use list::{Iter as ListIter, List, ListEnd, ListNode, NodeElements, Sought};
pub use seed::fix_hash_seed;
pub use series::Series;
pub use set::{Presence, Set};
pub use shard::{Before, Database, DatabaseKey, ListedHash, Lookup, Shard, UnexpiredEntry, Waiter};
pub use shard_set::{SHARD_COUNT_MAX, ShardSet};
pub use snapshot::moving::{Move, Token};
pub use sorted_set::{Boundary, Iter as SortedSetIter, SortedSet, SortedSetBuilder};
pub use stream::Stream;
pub use t_digest::{Node as TDigestNode, TDigest, TDigestShape};
pub use table::{Found, Table};
pub use text::{Text, TextImage};
pub use top_k::{INCREMENT_MAX as TOP_K_INCREMENT_MAX, TopItem, TopK, TopKAdded};
pub use tracked::{Holders, TrackedKeys, TrackedTotals};
pub use types::{Collection, ValueType};
pub use value::{Kind, StringRef, Value, ValueMut, ValueRef};
pub use vector_set::VectorSet;
pub use walk::walked_share;

/// The bucket of a field or member in a table of so many buckets, in this process.
pub fn bucket_of(text: &[u8], buckets: usize) -> usize {
    packed::Buckets::bucket_of(text, buckets)
}
