//! Finding where records end without decoding them: only lengths are read.
//!
//! What this accepts need not be sound: whoever decodes the record finds out. It never accepts less than a
//! decoder does.

use crate::format::{encoding, opcode, value_type};
use crate::source::Source;
use std::io::Read;

/// Why a record was not skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// The bytes end within it.
    Incomplete,
    /// It is none, or one that cannot be skipped.
    Unknown,
}

/// Bytes to skip.
pub(super) trait Input {
    /// Skips so many bytes.
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

/// What a record was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Skipped {
    /// A key, or something that says nothing to who skips.
    Record,
    /// The keys that follow belong to this database.
    Database(u64),
    /// The database has so many keys.
    Keys(u64),
    /// The end mark.
    End,
}

/// Skips a key with what belongs to it, or one of the other things that files hold.
pub(super) fn skip_record(input: &mut impl Input) -> Result<Skipped, Stop> {
    loop {
        let [mark] = input.array()?;
        match mark {
            opcode::EOF => return Ok(Skipped::End),
            opcode::SELECTDB => return length(input).map(Skipped::Database),
            opcode::RESIZEDB => {
                let keys = length(input)?;
                length(input)?;
                return Ok(Skipped::Keys(keys));
            }
            opcode::SLOT_INFO => {
                for _ in 0..3 {
                    length(input)?;
                }
                return Ok(Skipped::Record);
            }
            opcode::AUX => {
                strings(input, 2)?;
                return Ok(Skipped::Record);
            }
            opcode::FUNCTION2 => {
                string(input)?;
                return Ok(Skipped::Record);
            }
            opcode::EXPIRETIME_MS => input.skip(8)?,
            opcode::EXPIRETIME => input.skip(4)?,
            opcode::IDLE => _ = length(input)?,
            opcode::FREQ => input.skip(1)?,
            _ => {
                string(input)?;
                skip_value(input, mark)?;
                return Ok(Skipped::Record);
            }
        }
    }
}

fn skip_value(input: &mut impl Input, form: u8) -> Result<(), Stop> {
    match form {
        value_type::STRING
        | value_type::HASH_ZIPMAP
        | value_type::LIST_ZIPLIST
        | value_type::SET_INTSET
        | value_type::ZSET_ZIPLIST
        | value_type::HASH_ZIPLIST
        | value_type::HASH_LISTPACK
        | value_type::ZSET_LISTPACK
        | value_type::SET_LISTPACK
        | value_type::HASH_LISTPACK_EX_PRE_GA => string(input),
        value_type::HASH_LISTPACK_EX => {
            input.skip(8)?;
            string(input)
        }
        value_type::LIST | value_type::SET | value_type::LIST_QUICKLIST => {
            let count = length(input)?;
            strings(input, count)
        }
        value_type::HASH => each(input, |input| strings(input, 2)),
        value_type::ZSET => each(input, |input| {
            string(input)?;
            match input.array()? {
                [253..=255] => Ok(()),
                [length] => input.skip(u64::from(length)),
            }
        }),
        value_type::ZSET_2 => each(input, |input| {
            string(input)?;
            input.skip(8)
        }),
        value_type::LIST_QUICKLIST_2 => each(input, |input| {
            length(input)?;
            string(input)
        }),
        value_type::HASH_METADATA | value_type::HASH_METADATA_PRE_GA => {
            if form == value_type::HASH_METADATA {
                input.skip(8)?;
            }
            each(input, |input| {
                length(input)?;
                strings(input, 2)
            })
        }
        value_type::STREAM_LISTPACKS | value_type::STREAM_LISTPACKS_2 | value_type::STREAM_LISTPACKS_3 => {
            skip_stream(input, form)
        }
        _ => Err(Stop::Unknown),
    }
}

fn skip_stream(input: &mut impl Input, form: u8) -> Result<(), Stop> {
    const ID_BYTES: u64 = 16;
    let is_counted = form >= value_type::STREAM_LISTPACKS_2;
    each(input, |input| strings(input, 2))?;
    let numbers = if is_counted { 8 } else { 3 };
    lengths(input, numbers)?;
    each(input, |input| {
        string(input)?;
        lengths(input, if is_counted { 3 } else { 2 })?;
        each(input, |input| {
            input.skip(ID_BYTES + 8)?;
            lengths(input, 1)
        })?;
        each(input, |input| {
            string(input)?;
            input.skip(if form >= value_type::STREAM_LISTPACKS_3 { 16 } else { 8 })?;
            let held = length(input)?;
            input.skip(held.checked_mul(ID_BYTES).ok_or(Stop::Unknown)?)
        })
    })
}

fn each<I: Input>(input: &mut I, mut skip: impl FnMut(&mut I) -> Result<(), Stop>) -> Result<(), Stop> {
    let count = length(input)?;
    for _ in 0..count {
        skip(input)?;
    }
    Ok(())
}

fn lengths(input: &mut impl Input, count: usize) -> Result<(), Stop> {
    (0..count).try_for_each(|_| length(input).map(drop))
}

fn strings(input: &mut impl Input, count: u64) -> Result<(), Stop> {
    (0..count).try_for_each(|_| string(input))
}

fn length(input: &mut impl Input) -> Result<u64, Stop> {
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

#[inline]
fn string(input: &mut impl Input) -> Result<(), Stop> {
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
            let packed = length(input)?;
            length(input)?;
            input.skip(packed)
        }
        _ => Err(Stop::Unknown),
    }
}
