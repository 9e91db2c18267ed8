//! Secrets of an archive, and what is sealed with them.
//!
//! | secret | who has it | what for |
//! | --- | --- | --- |
//! | write | who makes snapshots | names of chunks, seeds of the chunker, indexes, manifests |
//! | public | who makes snapshots | sealing the key of each pack |
//! | read | who restores | opening the keys of packs |
//!
//! An archive without encryption has its public identity in place of the write secret, and no others.
//!
//! A pack has a random key, sealed by X25519: the key of the seal is derived by BLAKE3 from the shared secret
//! and both public keys. Blocks are sealed by ChaCha20-Poly1305 with their number as the nonce. Manifests and
//! indexes have a key derived from the write secret and 32 random bytes in front of them.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use x25519_dalek::{PublicKey, StaticSecret};

use crate::hashes::Hasher;
use crate::wire::{damaged, hex, unhex};

/// Bytes of the name of a chunk, a prefix of its BLAKE3 hash.
pub(crate) const NAME_BYTES: usize = 24;
/// Bytes of a sealed key of a pack: a public key, the key, a tag.
const SEALED_KEY_BYTES: usize = 32 + 32 + 16;
const HASH_BYTES: usize = 32;
const COMPRESSION_LEVEL: i32 = 3;
/// Bytes that a manifest or an index may unpack to.
const UNPACKED_BYTES_MAX: u64 = 4 << 30;

/// The name of a chunk.
pub(crate) type ChunkName = [u8; NAME_BYTES];

const FIRST_LINE: &str = "mantissa-archive-key 1";

/// What a key file holds.
#[derive(Clone)]
pub struct KeyFile {
    write: [u8; 32],
    public: [u8; 32],
    read: Option<[u8; 32]>,
}

impl KeyFile {
    /// New secrets.
    pub fn generate() -> io::Result<Self> {
        let read = random()?;
        let public = PublicKey::from(&StaticSecret::from(read)).to_bytes();
        Ok(KeyFile { write: random()?, public, read: Some(read) })
    }

    /// The same without what opens packs.
    pub fn without_read(&self) -> Self {
        KeyFile { read: None, ..self.clone() }
    }

    /// The text of a file.
    pub fn to_text(&self) -> String {
        let read = self.read.map_or(String::new(), |read| format!("read {}\n", hex(&read)));
        format!("{FIRST_LINE}\nwrite {}\npublic {}\n{read}", hex(&self.write), hex(&self.public))
    }

    /// Reads a file, which errors name.
    pub fn read(path: &Path) -> io::Result<Self> {
        let key = fs::read_to_string(path).and_then(|text| Self::parse(&text));
        key.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> io::Result<Self> {
        let mut lines = text.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err(damaged("this is no key file of an archive"));
        }
        let (mut write, mut public, mut read) = (None, None, None);
        for line in lines {
            match line.split_once(' ') {
                Some(("write", digits)) => write = unhex(digits),
                Some(("public", digits)) => public = unhex(digits),
                Some(("read", digits)) => read = unhex(digits),
                _ => {}
            }
        }
        match (write, public) {
            (Some(write), Some(public)) => Ok(KeyFile { write, public, read }),
            _ => Err(damaged("the key file lacks a key")),
        }
    }

    pub(crate) fn public(&self) -> [u8; 32] {
        self.public
    }
}

/// Names many chunks at once.
pub(crate) struct Namer(Hasher);

impl Namer {
    /// The names of chunks of these sizes, of records, which lie one behind the other in `bytes`.
    pub fn names(&mut self, bytes: &[u8], sizes: &[usize]) -> Vec<ChunkName> {
        let hashes = self.0.hash(bytes, sizes);
        hashes.iter().map(|hash| *hash.first_chunk().expect("a hash has 32 bytes")).collect()
    }
}

/// The secrets of an open archive.
pub(crate) struct Keys {
    names: [u8; 32],
    seed: u64,
    envelope: Option<[u8; 32]>,
    public: Option<PublicKey>,
    read: Option<StaticSecret>,
}

impl Keys {
    /// Those of an archive without encryption.
    pub fn plain(identity: &[u8; 32]) -> Self {
        Keys::derive(identity, None)
    }

    /// Those of an encrypted one.
    pub fn of_file(file: &KeyFile) -> Self {
        Keys::derive(&file.write, Some(file))
    }

    fn derive(secret: &[u8; 32], file: Option<&KeyFile>) -> Self {
        let seed = blake3::derive_key("mantissa archive 1 seed", secret);
        Keys {
            names: blake3::derive_key("mantissa archive 1 names", secret),
            seed: u64::from_le_bytes(*seed.first_chunk().expect("a hash has 32 bytes")),
            envelope: file.map(|file| blake3::derive_key("mantissa archive 1 envelope", &file.write)),
            public: file.map(|file| PublicKey::from(file.public)),
            read: file.and_then(|file| file.read).map(StaticSecret::from),
        }
    }

    /// What tells whether the secret is that of an archive.
    pub fn check(&self) -> [u8; 16] {
        let hash = blake3::keyed_hash(&self.names, b"check");
        *hash.as_bytes().first_chunk().expect("a hash has 32 bytes")
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub fn is_encrypted(&self) -> bool {
        self.envelope.is_some()
    }

    /// Whether blocks can be opened.
    pub fn can_read(&self) -> bool {
        !self.is_encrypted() || self.read.is_some()
    }

    /// An error if blocks can not be opened.
    pub fn check_reads(&self) -> io::Result<()> {
        if self.can_read() { Ok(()) } else { Err(needs_read_key()) }
    }

    pub fn name(&self, bytes: &[u8]) -> ChunkName {
        let hash = blake3::keyed_hash(&self.names, bytes);
        *hash.as_bytes().first_chunk().expect("a hash has 32 bytes")
    }

    /// The name of a chunk. Parts of large values have other names than records of the same bytes.
    pub fn chunk_name(&self, bytes: &[u8], is_part: bool) -> ChunkName {
        let mut name = self.name(bytes);
        name[0] ^= u8::from(is_part);
        name
    }

    /// What makes names of many chunks at once.
    pub fn namer(&self) -> Namer {
        Namer(Hasher::new(&self.names))
    }

    /// Compresses and seals a manifest or an index.
    pub fn wrap(&self, plain: &[u8]) -> io::Result<Vec<u8>> {
        let mut packed = zstd::bulk::compress(plain, COMPRESSION_LEVEL)?;
        let Some(envelope) = &self.envelope else {
            let hash = blake3::keyed_hash(&self.names, &packed);
            packed.extend_from_slice(hash.as_bytes());
            return Ok(packed);
        };
        let salt = random()?;
        let key = Key::new(blake3::keyed_hash(envelope, &salt).into());
        key.seal(0, &mut packed)?;
        Ok([&salt[..], &packed].concat())
    }

    /// Undoes [`Keys::wrap`]. An error names `what`.
    pub fn unwrap(&self, wrapped: &[u8], what: &str) -> io::Result<Vec<u8>> {
        let changed = || damaged(format!("{what}: it is damaged, or of another archive"));
        let Some(envelope) = &self.envelope else {
            let (packed, hash) = wrapped.split_last_chunk::<HASH_BYTES>().ok_or_else(changed)?;
            if *blake3::keyed_hash(&self.names, packed).as_bytes() != *hash {
                return Err(changed());
            }
            return decompress(packed, UNPACKED_BYTES_MAX).map_err(|_| changed());
        };
        let (salt, sealed) = wrapped.split_first_chunk::<32>().ok_or_else(changed)?;
        let key = Key::new(blake3::keyed_hash(envelope, salt).into());
        let packed = key.open(0, sealed.to_vec()).ok_or_else(changed)?;
        decompress(&packed, UNPACKED_BYTES_MAX).map_err(|_| changed())
    }

    /// A key for a new pack, and the same sealed; neither without encryption.
    pub fn new_pack(&self) -> io::Result<(Option<Key>, Vec<u8>)> {
        let Some(public) = &self.public else { return Ok((None, Vec::new())) };
        let (pack_key, ephemeral) = (random()?, StaticSecret::from(random()?));
        let sender = PublicKey::from(&ephemeral);
        let shared = ephemeral.diffie_hellman(public);
        let mut sealed = pack_key.to_vec();
        seal_key(shared.as_bytes(), &sender, public).seal(0, &mut sealed)?;
        Ok((Some(Key::new(pack_key)), [&sender.as_bytes()[..], &sealed].concat()))
    }

    /// The key of a pack.
    pub fn open_pack(&self, sealed: &[u8]) -> io::Result<Option<Key>> {
        if !self.is_encrypted() {
            return Ok(None);
        }
        let (Some(read), Some(public)) = (&self.read, &self.public) else {
            return Err(needs_read_key());
        };
        let parts = sealed.split_first_chunk::<32>().filter(|_| sealed.len() == SEALED_KEY_BYTES);
        let (sender, sealed) = parts.ok_or_else(|| damaged("the key of a pack is damaged"))?;
        let sender = PublicKey::from(*sender);
        let shared = read.diffie_hellman(&sender);
        let opened = seal_key(shared.as_bytes(), &sender, public).open(0, sealed.to_vec());
        let key = opened.and_then(|key| key.try_into().ok());
        key.map(|key| Some(Key::new(key))).ok_or_else(|| damaged("the key of a pack is of another archive"))
    }
}

fn needs_read_key() -> io::Error {
    io::Error::other("this key can write to the archive only; reading takes the read key")
}

fn seal_key(shared: &[u8; 32], sender: &PublicKey, receiver: &PublicKey) -> Key {
    let all = [&shared[..], sender.as_bytes(), receiver.as_bytes()].concat();
    Key::new(blake3::derive_key("mantissa archive 1 pack key", &all))
}

/// A key of ChaCha20-Poly1305.
pub(crate) struct Key(LessSafeKey);

impl Key {
    fn new(bytes: [u8; 32]) -> Self {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes).expect("the cipher's keys have 32 bytes");
        Key(LessSafeKey::new(key))
    }

    /// Seals in place. A number is used once with a key.
    pub fn seal(&self, number: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
        let sealed = self.0.seal_in_place_append_tag(nonce(number), Aad::empty(), bytes);
        sealed.map_err(|_| io::Error::other("sealing failed"))
    }

    /// What was sealed with this number.
    pub fn open(&self, number: u64, mut sealed: Vec<u8>) -> Option<Vec<u8>> {
        let size = self.0.open_in_place(nonce(number), Aad::empty(), &mut sealed).ok()?.len();
        sealed.truncate(size);
        Some(sealed)
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

pub(crate) fn random() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

pub(crate) fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    zstd::bulk::compress(bytes, COMPRESSION_LEVEL)
}

/// Decompresses to at most `bytes_max` bytes.
pub(crate) fn decompress(packed: &[u8], bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    zstd::stream::read::Decoder::with_buffer(packed)?.take(bytes_max + 1).read_to_end(&mut plain)?;
    if plain.len() as u64 > bytes_max { Err(damaged("it unpacks to too much")) } else { Ok(plain) }
}
