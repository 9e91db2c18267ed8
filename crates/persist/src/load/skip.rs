//! Finding where records end without decoding them: only lengths are read.
//!
//! It accepts every record that a decoder accepts, and more: the decoder finds the other damage.

use super::module::skip_aux;
use crate::format::{Dialect, encoding, opcode};
use crate::source::Source;
use crate::types::skip_value;
use std::io::Read;

/// Why a record was not skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// The bytes end within it.
    Incomplete,
    /// The bytes are no record, or one that cannot be skipped.
    Unknown,
}

/// Bytes to skip.
pub(crate) trait Input {
    /// Skips `count` bytes.
    fn skip(&mut self, count: u64) -> Result<(), Stop>;

    /// The next bytes.
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop>;
}

/// Bytes in memory.
pub(super) struct Slice<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Slice<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Slice { bytes, at: 0 }
    }

    /// The bytes that have been skipped.
    pub fn position(&self) -> usize {
        self.at
    }
}

impl Input for Slice<'_> {
    #[inline]
    fn skip(&mut self, count: u64) -> Result<(), Stop> {
        if count > (self.bytes.len() - self.at) as u64 {
            return Err(Stop::Incomplete);
        }
        self.at += count as usize;
        Ok(())
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let array = self.bytes[self.at..].first_chunk().ok_or(Stop::Incomplete)?;
        self.at += N;
        Ok(*array)
    }
}

impl<R: Read> Input for Source<'_, R> {
    fn skip(&mut self, count: u64) -> Result<(), Stop> {
        const STEP_BYTES: u64 = 64 << 10;
        let mut left = count;
        while left > 0 {
            let step = left.min(STEP_BYTES);
            self.raw(step).map_err(|_| Stop::Incomplete)?;
            left -= step;
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        Source::array(self).map_err(|_| Stop::Incomplete)
    }
}

/// What a skipped record was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Skipped {
    /// A key, or a record without influence on later ones.
    Record,
    /// The keys that follow belong to this database.
    Database(u64),
    /// The number of keys that the database has.
    Keys(u64),
    /// The end mark.
    End,
}

/// Skips a key with what belongs to it, or one of the other things that files hold.
pub(super) fn skip_record(input: &mut impl Input, dialect: Dialect) -> Result<Skipped, Stop> {
    loop {
        let [mark] = input.array()?;
        match mark {
            opcode::EOF => return Ok(Skipped::End),
            opcode::SELECTDB => return skip_length(input).map(Skipped::Database),
            opcode::RESIZEDB => {
                let keys = skip_length(input)?;
                skip_length(input)?;
                return Ok(Skipped::Keys(keys));
            }
            opcode::SLOT_INFO => {
                for _ in 0..3 {
                    skip_length(input)?;
                }
                return Ok(Skipped::Record);
            }
            opcode::AUX => {
                skip_strings(input, 2)?;
                return Ok(Skipped::Record);
            }
            opcode::FUNCTION2 => {
                skip_string(input)?;
                return Ok(Skipped::Record);
            }
            opcode::MODULE_AUX => {
                skip_aux(input)?;
                return Ok(Skipped::Record);
            }
            // What comes behind it can not be read without it.
            opcode::HASH_TEMPLATE => return Err(Stop::Unknown),
            opcode::EXPIRETIME_MS => input.skip(8)?,
            opcode::EXPIRETIME => input.skip(4)?,
            opcode::IDLE => _ = skip_length(input)?,
            opcode::FREQ => input.skip(1)?,
            _ => {
                skip_string(input)?;
                skip_value(input, dialect.form(mark))?;
                return Ok(Skipped::Record);
            }
        }
    }
}

/// Steps over a count and that many elements.
pub(crate) fn skip_each<I: Input>(
    input: &mut I,
    mut skip: impl FnMut(&mut I) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let count = skip_length(input)?;
    for _ in 0..count {
        skip(input)?;
    }
    Ok(())
}

/// Steps over `count` strings.
pub(crate) fn skip_strings(input: &mut impl Input, count: u64) -> Result<(), Stop> {
    (0..count).try_for_each(|_| skip_string(input))
}

/// Steps over a length, which is returned.
pub(crate) fn skip_length(input: &mut impl Input) -> Result<u64, Stop> {
    let [first] = input.array()?;
    plain_length(input, first)
}

#[inline]
fn plain_length(input: &mut impl Input, first: u8) -> Result<u64, Stop> {
    let low = u64::from(first & 0x3f);
    match first {
        0..0x40 => Ok(low),
        0x40..0x80 => Ok(low << 8 | u64::from(input.array::<1>()?[0])),
        0x80 => input.array().map(|bytes| u64::from(u32::from_be_bytes(bytes))),
        0x81 => input.array().map(u64::from_be_bytes),
        _ => Err(Stop::Unknown),
    }
}

/// Steps over a string.
#[inline]
pub(crate) fn skip_string(input: &mut impl Input) -> Result<(), Stop> {
    let [first] = input.array()?;
    if first < 0xc0 {
        let length = plain_length(input, first)?;
        return input.skip(length);
    }
    match first & 0x3f {
        encoding::INT8 => input.skip(1),
        encoding::INT16 => input.skip(2),
        encoding::INT32 => input.skip(4),
        encoding::LZF => {
            let packed = skip_length(input)?;
            skip_length(input)?;
            input.skip(packed)
        }
        _ => Err(Stop::Unknown),
    }
}
