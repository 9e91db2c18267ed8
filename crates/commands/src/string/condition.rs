//! Conditions on the string that a key has, as of Redis 8.4: those of SET and DELEX; Valkey's DELIFEQ;
//! DIGEST.
//!
//! What they lead to is logged in commands that every server knows.

use mantissa_protocol::{Args, Reply};
use mantissa_store::StringRef;
use twox_hash::XxHash3_64;

use crate::DataSpec;
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;
use crate::spec::{Categories, Flags, Group, KeyFlags, KeySpec};

/// Hexadecimal digits of a digest.
const DIGITS: usize = 16;
const BAD_DIGEST: Error = Error::fixed("ERR must be exactly 16 hexadecimal characters");

/// The digest of a text: XXH3 with 64 bits.
fn digest_of(text: &[u8]) -> [u8; DIGITS] {
    let hash = XxHash3_64::oneshot(text);
    std::array::from_fn(|at| b"0123456789abcdef"[(hash >> (60 - 4 * at)) as usize & 15])
}

/// What is compared with the string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compared {
    Text,
    Digest,
}

/// A condition on the string that a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Condition<'a> {
    compared: Compared,
    /// Whether that has to be the same as the argument, or different.
    is_equal: bool,
    argument: &'a [u8],
}

impl<'a> Condition<'a> {
    /// Whether a word is the name of a condition.
    pub fn is_name(word: &[u8]) -> bool {
        Condition::parse(word, &[]).is_some()
    }

    /// The condition of this name.
    pub fn parse(name: &[u8], argument: &'a [u8]) -> Option<Self> {
        let names = [
            ("IFEQ", Compared::Text, true),
            ("IFNE", Compared::Text, false),
            ("IFDEQ", Compared::Digest, true),
            ("IFDNE", Compared::Digest, false),
        ];
        let (_, compared, is_equal) = names.into_iter().find(|(known, ..)| parse::is(name, known))?;
        Some(Condition { compared, is_equal, argument })
    }

    /// Whether it holds where there is no key.
    pub fn holds_without_key(self) -> bool {
        !self.is_equal
    }

    /// Whether it holds for a string. A digest that is none is an error.
    pub fn holds_for(self, string: StringRef<'_>) -> Outcome<bool> {
        let (mut digits, Condition { compared, is_equal, argument }) = ([0; 20], self);
        let text = string.text(&mut digits);
        let is_same = match compared {
            Compared::Text => text == argument,
            Compared::Digest if argument.len() != DIGITS => return Err(BAD_DIGEST),
            Compared::Digest => digest_of(text).eq_ignore_ascii_case(argument),
        };
        Ok(is_same == is_equal)
    }
}

/// DELEX key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]
fn delex(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 2 && args.len() != 4 {
        return Err(Error::arity("delex"));
    }
    let key = args.at(1);
    if args.len() == 4
        && let Some(entry) = access.find_mut(key)
    {
        const NO_STRING: Error = Error::fixed("ERR Key should be of string type if conditions are specified");
        const UNKNOWN: Error = Error::fixed("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE");
        let string = entry.as_string().ok_or(NO_STRING)?;
        if !Condition::parse(args.at(2), args.at(3)).ok_or(UNKNOWN)?.holds_for(string)? {
            reply.integer(0);
            return Ok(());
        }
    }
    delete(access, key, reply);
    Ok(())
}

/// DELIFEQ key value
fn delifeq(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let key = args.at(1);
    if let Some(entry) = access.find_mut(key)
        && entry.as_string().ok_or(Error::WRONG_TYPE)?.text(&mut [0; 20]) != args.at(2)
    {
        reply.integer(0);
        return Ok(());
    }
    delete(access, key, reply);
    Ok(())
}

fn delete(access: &mut Access<'_>, key: &[u8], reply: &mut Reply) {
    let is_deleted = access.delete(key);
    if is_deleted {
        access.log_instead(&[b"DEL", key]);
    }
    reply.integer(i64::from(is_deleted));
}

/// DIGEST key
fn digest(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match access.string(args.at(1))? {
        Some(string) => reply.bulk(&digest_of(string.text(&mut [0; 20]))),
        None => reply.null(),
    }
    Ok(())
}

/// DELEX reads the string only for a condition.
fn flags_of_delex(args: Args<'_>) -> KeyFlags {
    match args.len() > 2 {
        true => KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE),
        false => KeyFlags::RM.or(KeyFlags::DELETE),
    }
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("delex", -2, delex, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::DELETE).or(KeyFlags::VARIABLE_FLAGS))])
        .key_flags_of(flags_of_delex)
        .docs(
            Group::String,
            "8.4.0",
            "O(1) for IFEQ and IFNE, O(N) for IFDEQ and IFDNE with N bytes",
            "Removes a key if its string, or the digest of that, is or is not a given one.",
        )
        .arguments(
            "key:key#0 condition:oneof(ifeq-value:string@IFEQ ifne-value:string@IFNE \
            ifdeq-digest:string@IFDEQ ifdne-digest:string@IFDNE)?",
        ),
    DataSpec::new("delifeq", 3, delifeq, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RM.or(KeyFlags::ACCESS).or(KeyFlags::DELETE))])
        .docs(Group::String, "9.0.0", "O(1)", "Removes a key if its string is a given one.")
        .arguments("key:key#0 value:string"),
    DataSpec::new("digest", 2, digest, Flags::READONLY.or(Flags::FAST))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::String, "8.4.0", "O(N) for N bytes", "Returns the XXH3 digest of a string.")
        .arguments("key:key#0"),
];

#[cfg(test)]
mod tests {
    use super::digest_of;

    #[test]
    fn digests_are_those_of_redis() {
        // Replies of Redis 8.4; the third begins with a zero.
        let known = [
            ("hello", b"9555e8555c62dcfd"),
            ("", b"2d06800538d394c2"),
            ("v8", b"0cc76dbb41381419"),
            ("123", b"404a763b3f4c8c9a"),
        ];
        for (text, digest) in known {
            assert_eq!(&digest_of(text.as_bytes()), digest, "{text}");
        }
    }
}
