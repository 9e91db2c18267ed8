//! Which keys a job is about.

use mantissa_commands::{glob, parse};
use mantissa_store::Entry;

use crate::acl::KeyPermit;

/// The keys of a database that a job is about.
pub struct Filter {
    /// The number of the database.
    pub database: usize,
    /// What they begin with.
    pub prefix: Box<[u8]>,
    /// A glob pattern of the whole key.
    pub pattern: Option<Box<[u8]>>,
    /// The name of their type.
    pub kind: Option<Box<[u8]>>,
    /// Those that the user may touch.
    pub permit: KeyPermit,
}

impl Filter {
    /// Whether a key is one of them. Those that have expired are not.
    #[inline]
    pub fn has(&self, entry: &Entry, now_ms: i64) -> bool {
        let key = entry.key();
        key.starts_with(&self.prefix)
            && !entry.has_expired(now_ms)
            && self.pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, key))
            && self.kind.as_ref().is_none_or(|kind| parse::is(kind, entry.kind().name()))
            && self.permit.has(key)
    }
}
