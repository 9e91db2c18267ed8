//! Strings. They are read together with keys, as both lie in the entry. Large ones are written by
//! [`Encoder::image`](crate::write::Encoder::image), in chunks.

use crate::aof::Rebuilder;
use crate::aof::rebuild::decimal;
use crate::digest::Mixer;
use crate::load::{Input, Stop, skip_string};
use mantissa_number::INTEGER_TEXT_MAX;
use mantissa_store::StringRef;
use std::io::Write;

/// Redis's number of the type, for digests.
const DIGEST_NUMBER: u32 = 0;

/// Steps over a string.
pub fn skip(input: &mut impl Input) -> Result<(), Stop> {
    skip_string(input)
}

/// Writes the command that makes a string.
pub fn rebuild<W: Write>(text: &[u8], key: &[u8], to: &mut Rebuilder<W>) -> Result<(), String> {
    to.command(&[b"SET", key, text])
}

/// The same for an integer.
pub fn rebuild_integer<W: Write>(integer: i64, key: &[u8], to: &mut Rebuilder<W>) -> Result<(), String> {
    rebuild(&decimal(integer), key, to)
}

/// Mixes a string into a digest.
pub fn digest(text: StringRef<'_>, digest: &mut Mixer) {
    digest.mix_type(DIGEST_NUMBER);
    digest.mix(text.text(&mut [0; INTEGER_TEXT_MAX]));
}
