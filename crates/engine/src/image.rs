//! A large value that is read after its shard has been unlocked.

use mantissa_store::Entry;

/// What a request has left to read.
pub(crate) struct Image {
    /// The value, which shares its memory with the one in the keyspace.
    pub(crate) entry: Entry,
    /// How often large values had been freed when it was made.
    pub(crate) freed: u64,
}
