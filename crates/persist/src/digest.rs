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
use std::sync::LazyLock;

use mantissa_number::INTEGER_TEXT_MAX;
use mantissa_store::listpack::Element;
use mantissa_store::{Entry, LockedShards};
use sha1::{Digest as _, Sha1};

use crate::types;

/// A hash or a digest, as SHA-1 computes it: the words of its 20 bytes (BE).
type Hash = [u32; 5];
/// The digest of nothing.
const EMPTY: Hash = [0; 5];
/// SHA-1 is computed over blocks of this size. The length in bits ends the last one, behind a bit that is
/// set.
const BLOCK_BYTES: usize = 64;
const LENGTH_BYTES: usize = 8;
/// What SHA-1 begins with (FIPS 180-4, 5.3.1).
const SHA1_START: Hash = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
/// SHA-1 of the numbers of types, which each key needs.
static TYPE_HASHES: LazyLock<[Hash; 8]> =
    LazyLock::new(|| std::array::from_fn(|number| sha1(&(number as u32).to_be_bytes())));

/// SHA-1. One block or two go past the buffers of [`Sha1`], which take as long as the hash of a block.
fn sha1(bytes: &[u8]) -> Hash {
    if bytes.len() < BLOCK_BYTES - LENGTH_BYTES {
        padded::<BLOCK_BYTES>(bytes)
    } else if bytes.len() < 2 * BLOCK_BYTES - LENGTH_BYTES {
        padded::<{ 2 * BLOCK_BYTES }>(bytes)
    } else {
        from_bytes(&Sha1::digest(bytes).into())
    }
}

/// SHA-1 where that is of `SIZE` bytes with the padding.
fn padded<const SIZE: usize>(bytes: &[u8]) -> Hash {
    let mut padded = [0; SIZE];
    padded[..bytes.len()].copy_from_slice(bytes);
    padded[bytes.len()] = 0x80;
    let bits = 8 * bytes.len() as u64;
    padded[SIZE - LENGTH_BYTES..].copy_from_slice(&bits.to_be_bytes());
    let mut state = SHA1_START;
    for block in padded.as_chunks::<BLOCK_BYTES>().0 {
        sha1::compress(&mut state, &[(*block).into()]);
    }
    state
}

fn from_bytes(bytes: &[u8; 20]) -> Hash {
    let (words, _) = bytes.as_chunks();
    std::array::from_fn(|index| u32::from_be_bytes(words[index]))
}

fn to_bytes(words: Hash) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes.as_chunks_mut().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_be_bytes());
    bytes
}

/// A digest that is being built.
#[derive(Clone, Copy)]
pub(crate) struct Mixer(Hash);

impl Mixer {
    /// The digest of nothing.
    pub fn new() -> Self {
        Mixer(EMPTY)
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.add_hash(sha1(bytes));
    }

    /// Adds a digest.
    pub fn add_digest(&mut self, digest: &Mixer) {
        self.add(&to_bytes(digest.0));
    }

    /// Mixes bytes in.
    pub fn mix(&mut self, bytes: &[u8]) {
        self.add(bytes);
        self.0 = sha1(&to_bytes(self.0));
    }

    /// Mixes in the number of a type.
    pub fn mix_type(&mut self, number: u32) {
        match TYPE_HASHES.get(number as usize) {
            Some(hash) => {
                self.add_hash(*hash);
                self.0 = sha1(&to_bytes(self.0));
            }
            None => self.mix(&number.to_be_bytes()),
        }
    }

    fn add_hash(&mut self, hash: Hash) {
        self.0.iter_mut().zip(hash).for_each(|(mine, theirs)| *mine ^= theirs);
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
            total.add_hash(sum.0);
        }
        to_bytes(total.0)
    }
}

/// The digest of a key's value and of whether it expires.
pub fn digest_value(entry: &Entry) -> [u8; 20] {
    let mut digest = Mixer::new();
    value(&mut digest, entry);
    to_bytes(digest.0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_short_and_long_bytes_are_those_of_sha1() {
        let bytes: Vec<u8> = (0..400_u32).map(|at| (at * at / 7) as u8).collect();
        for end in 0..bytes.len() {
            assert_eq!(to_bytes(sha1(&bytes[..end])), *Sha1::digest(&bytes[..end]), "{end} bytes");
        }
    }
}
