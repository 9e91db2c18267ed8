//! Counts of keys.

use mantissa_protocol::Reply;
use mantissa_store::Kind;
use smallvec::SmallVec;

/// What is counted of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fact {
    /// Its type.
    pub kind: Kind,
    /// Bytes that it takes with its value ([`crate::key_sizes::bytes_of`]).
    pub bytes: u64,
    /// Whether it has an expiry.
    pub expires: bool,
}

/// Counts of some keys.
#[derive(Clone, Default)]
pub struct Tally {
    /// Keys.
    pub keys: u64,
    /// The sum of their bytes.
    pub bytes: u64,
    /// Those with an expiry.
    pub expiring: u64,
    /// Keys of each type.
    kinds: SmallVec<[(Kind, u64); 1]>,
}

impl Tally {
    /// Counts a key.
    pub fn add(&mut self, fact: Fact) {
        self.keys += 1;
        self.bytes += fact.bytes;
        self.expiring += u64::from(fact.expires);
        match self.kinds.iter_mut().find(|(kind, _)| *kind == fact.kind) {
            Some((_, count)) => *count += 1,
            None => self.kinds.push((fact.kind, 1)),
        }
    }

    /// Takes counts off.
    pub fn subtract(&mut self, other: &Tally) {
        self.keys -= other.keys;
        self.bytes -= other.bytes;
        self.expiring -= other.expiring;
        for (kind, count) in &other.kinds {
            if let Some((_, left)) = self.kinds.iter_mut().find(|(own, _)| own == kind) {
                *left -= count;
            }
        }
    }

    /// The pairs that [`Tally::write`] writes.
    pub const PAIRS: usize = 4;

    /// Writes them as pairs of a map.
    pub fn write(&self, reply: &mut Reply) {
        for (name, count) in [("keys", self.keys), ("bytes", self.bytes), ("expiring", self.expiring)] {
            reply.bulk(name.as_bytes());
            reply.integer(count as i64);
        }
        reply.bulk(b"types");
        let mut kinds: Vec<_> = self.kinds.iter().filter(|(_, count)| *count > 0).collect();
        kinds.sort_by_key(|(kind, count)| (std::cmp::Reverse(*count), kind.name()));
        reply.map(kinds.len());
        for (kind, count) in kinds {
            reply.bulk(kind.name().as_bytes());
            reply.integer(*count as i64);
        }
    }
}
