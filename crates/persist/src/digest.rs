//! DEBUG DIGEST: one SHA-1 for a whole keyspace, and DEBUG DIGEST-VALUE for one value, as Redis computes
//! them.
//!
//! Two operations build a digest. *Mixing* bytes in makes their order matter: the digest is XORed with their
//! SHA-1 and replaced by its own SHA-1. *Adding* bytes leaves out the second step, so that the order does not
//! matter.
//!
//! | what | how |
//! | --- | --- |
//! | keyspace | for each database with keys: mix its number (u32 BE), then add the digest of each key |
//! | key | mix the key, then what makes a value |
//! | value | mix its type (u32 BE), then its elements; add `!!expire!!` if the key has an expiry |
//! | string, list | mix the string; mix each element |
//! | set | add each member |
//! | sorted set | for each: mix the member and the digits of the score into a fresh digest, add that |
//! | hash | the same with field and value; a field with an expiry adds `!!hexpire!!` to its own |
//! | stream | for each entry: mix `ms.seq`, then each field and value |
//!
//! Linear in the data; takes no memory to speak of.

use std::collections::BTreeMap;

use mantissa_number::INTEGER_TEXT_MAX;
use mantissa_store::listpack::Element;
use mantissa_store::{Entry, LockedShards};
use sha1::{Digest as _, Sha1};

use crate::types;

/// The digest of nothing.
const EMPTY: [u8; 20] = [0; 20];

/// A digest that is being built.
#[derive(Clone, Copy)]
pub(crate) struct Mixer([u8; 20]);

impl Mixer {
    /// The digest of nothing.
    pub fn new() -> Self {
        Mixer(EMPTY)
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        let hash = Sha1::digest(bytes);
        self.0.iter_mut().zip(hash).for_each(|(mine, theirs)| *mine ^= theirs);
    }

    /// Adds a digest.
    pub fn add_digest(&mut self, digest: &Mixer) {
        self.add(&digest.0);
    }

    /// Mixes bytes in.
    pub fn mix(&mut self, bytes: &[u8]) {
        self.add(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    /// Mixes in the text of an element.
    pub fn mix_element(&mut self, element: Element<'_>) {
        self.mix(element.text(&mut [0; INTEGER_TEXT_MAX]));
    }
}

/// The digest of all databases. All shards of `shards` are locked, or none, and then the answer is that of no
/// one instant.
pub fn digest_keyspace(shards: &mut LockedShards<'_>) -> [u8; 20] {
    let keyspace = shards.keyspace();
    let mut digest = RunningDigest::default();
    for database in 0..keyspace.database_count() {
        for shard in 0..keyspace.shard_count() {
            shards.visit(shard, |shard| {
                shard.databases[database].iter().for_each(|entry| digest.add(database, entry));
            });
        }
    }
    digest.value()
}

/// The digest of a keyspace whose keys come one by one, in any order: for each database the sum of its keys.
#[derive(Default)]
pub struct RunningDigest(BTreeMap<usize, Mixer>);

impl RunningDigest {
    /// Takes a key of a database.
    pub fn add(&mut self, database: usize, entry: &Entry) {
        let mut digest = Mixer::new();
        digest.mix(entry.key());
        value(&mut digest, entry);
        self.0.entry(database).or_insert_with(Mixer::new).add_digest(&digest);
    }

    /// The digest of all of them.
    pub fn value(&self) -> [u8; 20] {
        let mut total = Mixer::new();
        for (database, sum) in &self.0 {
            total.mix(&(*database as u32).to_be_bytes());
            total.0.iter_mut().zip(sum.0).for_each(|(mine, theirs)| *mine ^= theirs);
        }
        total.0
    }
}

/// The digest of a key's value and of whether it expires.
pub fn digest_value(entry: &Entry) -> [u8; 20] {
    let mut digest = Mixer::new();
    value(&mut digest, entry);
    digest.0
}

fn value(digest: &mut Mixer, entry: &Entry) {
    // A value that can not be read makes a digest that no other has.
    if let Err(reason) = entry.look_at(|value| types::digest(value, digest)) {
        digest.add(reason.as_bytes());
    }
    if entry.expiry().is_some() {
        digest.add(b"!!expire!!");
    }
}
