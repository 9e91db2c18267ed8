//! The RDB format: its constants, and the encodings that are the same everywhere in a file.
//!
//! ```text
//! "REDIS" version (4 digits)
//! AUX key value ...  FUNCTION2 source ...
//! SELECTDB n  RESIZEDB keys expires  { [EXPIRETIME_MS t] [IDLE s] [FREQ n] type key value } ...
//! EOF  CRC-64 (little-endian, of all before it; 0 when not computed; from version 5)
//! ```
//!
//! | length begins with | meaning |
//! | --- | --- |
//! | `00xxxxxx` | x |
//! | `01xxxxxx` | 14 bits, with the next byte |
//! | `0x80` | next 4 bytes, big-endian |
//! | `0x81` | next 8 bytes, big-endian |
//! | `11xxxxxx` | no length: an encoded string, see [`encoding`] |

use crc_fast::{CrcAlgorithm, Digest};

/// What a file begins with, before the four digits of its version.
pub const MAGIC: &[u8] = b"REDIS";
/// The signature of Valkey 9 in the place of magic and version. Value types from 22 on have other meanings
/// behind it.
pub const VALKEY_SIGNATURE: &[u8] = b"VALKEY080";
/// What the signature of Valkey begins with, before three digits.
pub const VALKEY_MAGIC: &[u8] = b"VALKEY";
/// The version in [`VALKEY_SIGNATURE`], which payloads of DUMP have as well.
pub const VALKEY_VERSION: u16 = 80;
/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 9;
/// The version that is written: that of Redis 7.4 to 8.2.
pub const VERSION: u16 = 12;
/// The latest version that is read: that of Redis 8.10.
pub const LATEST_VERSION: u16 = 16;
/// The first version of Redis whose payloads may state 0 for a checksum that was not computed.
pub const VERSION_WITHOUT_CHECKSUM: u16 = 15;
/// The first version whose files may have arrays.
pub const VERSION_WITH_ARRAYS: u16 = 14;
/// The first version whose files may have fields of hashes apart from their values.
pub const VERSION_WITH_TEMPLATES: u16 = 15;
/// The version that is written for replicas: that of Redis 7.0. Servers refuse a higher version than their
/// own, but take value types as they come.
pub const REPLICA_VERSION: u16 = 10;
/// The version of Redis whose files are written.
pub const REDIS_VERSION: &str = "8.2.3";
/// The version of Redis 8.6: its streams may have what producers sent once only.
pub const VERSION_WITH_PRODUCERS: u16 = 13;
/// The version of Redis 8.8: its streams may have entries that were given back.
pub const VERSION_WITH_GIVEN_BACK: u16 = 14;
/// The first version whose files end in a checksum.
pub const VERSION_WITH_CHECKSUM: u16 = 5;

/// Whose numbers a file has for the forms of values. They agree up to 21.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Dialect {
    /// Those of Redis.
    #[default]
    Redis,
    /// Those of Valkey 9.
    Valkey,
}

impl Dialect {
    /// The dialect and version of a file that begins with this; none if it is no signature.
    pub fn of_signature(signature: &[u8]) -> Option<(Dialect, u16)> {
        let dialects = [(Dialect::Redis, MAGIC), (Dialect::Valkey, VALKEY_MAGIC)];
        dialects.into_iter().find_map(|(dialect, magic)| {
            let digits = signature.strip_prefix(magic).filter(|digits| digits.iter().all(u8::is_ascii_digit));
            Some((dialect, std::str::from_utf8(digits?).ok()?.parse().ok()?))
        })
    }

    /// The dialect of a version that can be read.
    pub fn of_version(version: u16) -> Option<Dialect> {
        match version {
            0..=LATEST_VERSION => Some(Dialect::Redis),
            VALKEY_VERSION => Some(Dialect::Valkey),
            _ => None,
        }
    }

    /// The form, as [`value_type`] has it, that a file names by this number.
    pub(crate) fn form(self, number: u8) -> u8 {
        match (self, number) {
            (Dialect::Valkey, value_type::VALKEY_HASH_2) => value_type::VALKEY_HASH,
            (_, value_type::VALKEY_HASH..opcode::SLOT_INFO) => value_type::UNKNOWN,
            (Dialect::Valkey, value_type::VALKEY_HASH_2..) => value_type::UNKNOWN,
            _ => number,
        }
    }
}

/// What stands where a value type could: everything in a file that is no key.
pub mod opcode {
    /// The fields of hashes of Redis 8.10, which name them by a number: number, count, fields.
    pub const HASH_TEMPLATE: u8 = 242;
    /// The slot that follows, with its key count (cluster mode).
    pub const SLOT_INFO: u8 = 244;
    /// A library of functions.
    pub const FUNCTION2: u8 = 245;
    /// Functions as an unreleased version wrote them.
    pub const FUNCTION_PRE_GA: u8 = 246;
    /// Data of a module that belongs to no key.
    pub const MODULE_AUX: u8 = 247;
    /// Seconds since the next key was last used.
    pub const IDLE: u8 = 248;
    /// Logarithmic use counter of the next key.
    pub const FREQ: u8 = 249;
    /// A key and a value that describe the file.
    pub const AUX: u8 = 250;
    /// How many keys, and how many with an expiry, the database has.
    pub const RESIZEDB: u8 = 251;
    /// When the next key expires, as unix time in milliseconds.
    pub const EXPIRETIME_MS: u8 = 252;
    /// When the next key expires, as unix time in seconds.
    pub const EXPIRETIME: u8 = 253;
    /// The database of the keys that follow.
    pub const SELECTDB: u8 = 254;
    /// The end.
    pub const EOF: u8 = 255;
}

/// Value types. The names are those of the format's documentation.
pub mod value_type {
    /// A string.
    pub const STRING: u8 = 0;
    /// A list: count, elements.
    pub const LIST: u8 = 1;
    /// A set: count, members.
    pub const SET: u8 = 2;
    /// A sorted set: count, members with scores as text.
    pub const ZSET: u8 = 3;
    /// A hash: count, fields with values.
    pub const HASH: u8 = 4;
    /// A sorted set: count, members with binary scores.
    pub const ZSET_2: u8 = 5;
    /// A module's value, of a version that can't be skipped.
    pub const MODULE_PRE_GA: u8 = 6;
    /// A module's value.
    pub const MODULE_2: u8 = 7;
    /// A hash as a zipmap.
    pub const HASH_ZIPMAP: u8 = 9;
    /// A list as a ziplist.
    pub const LIST_ZIPLIST: u8 = 10;
    /// A set as an intset.
    pub const SET_INTSET: u8 = 11;
    /// A sorted set as a ziplist.
    pub const ZSET_ZIPLIST: u8 = 12;
    /// A hash as a ziplist.
    pub const HASH_ZIPLIST: u8 = 13;
    /// A list as ziplists.
    pub const LIST_QUICKLIST: u8 = 14;
    /// A stream.
    pub const STREAM_LISTPACKS: u8 = 15;
    /// A hash as a listpack.
    pub const HASH_LISTPACK: u8 = 16;
    /// A sorted set as a listpack.
    pub const ZSET_LISTPACK: u8 = 17;
    /// A list as listpacks and plain elements.
    pub const LIST_QUICKLIST_2: u8 = 18;
    /// A stream with counters.
    pub const STREAM_LISTPACKS_2: u8 = 19;
    /// A set as a listpack.
    pub const SET_LISTPACK: u8 = 20;
    /// A stream with counters and the consumers' activity.
    pub const STREAM_LISTPACKS_3: u8 = 21;
    /// A hash with field expiries, of an unreleased version.
    pub const HASH_METADATA_PRE_GA: u8 = 22;
    /// A hash with field expiries behind [`super::VALKEY_SIGNATURE`]: count, fields with values and expiries
    /// as unix time in milliseconds, -1 for none.
    pub const VALKEY_HASH_2: u8 = 22;
    /// The number that stands for [`VALKEY_HASH_2`] where both dialects meet. No file has it.
    pub(crate) const VALKEY_HASH: u8 = 200;
    /// No form at all.
    pub(crate) const UNKNOWN: u8 = 201;
    /// The first of the numbers that stand for types of modules. No file has them: there it is [`MODULE_2`].
    pub(crate) const MODULES: u8 = 210;
    /// A JSON document.
    pub(crate) const JSON: u8 = MODULES;
    /// A Bloom filter.
    pub(crate) const BLOOM_FILTER: u8 = MODULES + 1;
    /// A Cuckoo filter.
    pub(crate) const CUCKOO_FILTER: u8 = MODULES + 2;
    /// A Count-Min sketch.
    pub(crate) const COUNT_MIN_SKETCH: u8 = MODULES + 3;
    /// A Top-K sketch.
    pub(crate) const TOP_K: u8 = MODULES + 4;
    /// A t-digest.
    pub(crate) const T_DIGEST: u8 = MODULES + 5;
    /// A vector set.
    pub(crate) const VECTOR_SET: u8 = MODULES + 6;
    /// A time series.
    pub(crate) const TIME_SERIES: u8 = MODULES + 7;
    /// A hash with field expiries as a listpack, of an unreleased version.
    pub const HASH_LISTPACK_EX_PRE_GA: u8 = 23;
    /// A hash with field expiries.
    pub const HASH_METADATA: u8 = 24;
    /// A hash with field expiries as a listpack.
    pub const HASH_LISTPACK_EX: u8 = 25;
    /// A stream with what producers sent once only, of Redis 8.6.
    pub const STREAM_LISTPACKS_4: u8 = 26;
    /// The same with entries that consumers gave back, of Redis 8.8.
    pub const STREAM_LISTPACKS_5: u8 = 27;
    /// An array, of Redis 8.8 and files of version 14.
    pub const ARRAY: u8 = 28;
    /// A hash of Redis 8.10: its fields, then a listpack of a number and its values.
    pub const HASH_TMPL_LP: u8 = 29;
    /// The same without the fields, which the number names ([`super::opcode::HASH_TEMPLATE`]).
    pub const HASH_TMPL_LP_REF: u8 = 30;
    /// A hash of Redis 8.10: its fields, then its values.
    pub const HASH_TMPL_ARRAY: u8 = 31;
    /// A number that names the fields, then the values.
    pub const HASH_TMPL_ARRAY_REF: u8 = 32;
}

/// The low six bits of a length that begins with `11`: how the string is encoded.
pub mod encoding {
    /// One byte, signed.
    pub const INT8: u8 = 0;
    /// Two bytes, little-endian, signed.
    pub const INT16: u8 = 1;
    /// Four bytes, little-endian, signed.
    pub const INT32: u8 = 2;
    /// Compressed length, length, compressed bytes.
    pub const LZF: u8 = 3;
}

/// How the nodes of a [`value_type::LIST_QUICKLIST_2`] hold their elements.
pub mod quicklist_container {
    /// One element as it is.
    pub const PLAIN: u64 = 1;
    /// A listpack of elements.
    pub const PACKED: u64 = 2;
}

/// What the values of modules consist of.
pub mod module_opcode {
    /// The end of the value.
    pub const EOF: u64 = 0;
    /// A signed integer.
    pub const SINT: u64 = 1;
    /// An unsigned integer.
    pub const UINT: u64 = 2;
    /// Four bytes of floating point.
    pub const FLOAT: u64 = 3;
    /// Eight bytes of floating point.
    pub const DOUBLE: u64 = 4;
    /// A string.
    pub const STRING: u64 = 5;
}

/// The characters of a module's name, each in the place of its six bits.
const MODULE_ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The name of a module from its identifier: nine characters of six bits, then ten bits of version.
pub fn module_name(identifier: u64) -> String {
    (0..9).map(|index| char::from(MODULE_ALPHABET[(identifier >> (58 - 6 * index)) as usize & 63])).collect()
}

/// The identifier of a module of that name with version 0; none if it has other than nine such characters.
pub(crate) fn module_identifier(name: &str) -> Option<u64> {
    if name.len() != 9 {
        return None;
    }
    let letters = name.bytes().map(|letter| MODULE_ALPHABET.iter().position(|&other| other == letter));
    let name = letters.into_iter().try_fold(0, |sum, letter| Some(sum << 6 | letter? as u64))?;
    Some(name << 10)
}

/// Appends a length.
pub fn put_length(length: u64, out: &mut Vec<u8>) {
    match length {
        0..0x40 => out.push(length as u8),
        0x40..0x4000 => out.extend_from_slice(&[0x40 | (length >> 8) as u8, length as u8]),
        0x4000..=0xffff_ffff => {
            out.push(0x80);
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend_from_slice(&length.to_be_bytes());
        }
    }
}

/// Appends `value` as an encoded integer. False, and nothing done, where it takes more than 32 bits.
pub fn put_encoded_integer(value: i64, out: &mut Vec<u8>) -> bool {
    let prefix = 0xc0;
    if let Ok(small) = i8::try_from(value) {
        out.extend_from_slice(&[prefix | encoding::INT8, small as u8]);
    } else if let Ok(small) = i16::try_from(value) {
        out.push(prefix | encoding::INT16);
        out.extend_from_slice(&small.to_le_bytes());
    } else if let Ok(small) = i32::try_from(value) {
        out.push(prefix | encoding::INT32);
        out.extend_from_slice(&small.to_le_bytes());
    } else {
        return false;
    }
    true
}

/// The running checksum of a file: CRC-64 with the polynomial of D. T. Jones, begun at 0.
#[derive(Clone)]
pub struct Checksum(Digest);

impl Default for Checksum {
    fn default() -> Self {
        Checksum(Digest::new(CrcAlgorithm::Crc64Redis))
    }
}

impl Checksum {
    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Takes in all bytes that `next` has taken in, after those of this one.
    pub fn append(&mut self, next: &Checksum) {
        self.0.combine(&next.0);
    }

    /// The checksum of all bytes so far.
    pub fn value(&self) -> u64 {
        self.0.finalize()
    }

    /// The checksum of `bytes` alone.
    pub fn of(bytes: &[u8]) -> u64 {
        let mut checksum = Checksum::default();
        checksum.update(bytes);
        checksum.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_the_one_of_the_format() {
        assert_eq!(Checksum::of(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        // The payload of DUMP for `hello` from redis-server 8.2.3.
        assert_eq!(Checksum::of(b"\x00\x05hello\x0c\x00").to_le_bytes(), *b"\xa8\x04\xeb\xb6\x9f\x1e\xbeC");
    }

    #[test]
    fn checksums_of_parts_add_up() {
        let mut whole = Checksum::default();
        whole.update(b"one");
        let mut part = Checksum::default();
        part.update(b" and another");
        whole.append(&part);
        whole.append(&Checksum::default());
        whole.update(b", two");
        assert_eq!(whole.value(), Checksum::of(b"one and another, two"));
    }

    #[test]
    fn module_names_come_out_of_their_identifiers() {
        let identifier =
            b"graphdata".iter().fold(0u64, |sum, letter| (sum << 6) | u64::from(letter - b'a' + 26));
        assert_eq!(module_name((identifier << 10) | 14), "graphdata");
    }
}
