//! Bits of strings: reading, setting, counting, finding and combining them. BITFIELD has a file of its own.

pub(crate) mod field;
mod operation;

use std::ops::Range;

use mantissa_protocol::{Args, Reply};
use mantissa_store::{Entry, bits};

use crate::DataSpec;
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::packed::packs_text;
use crate::parse;
use crate::settings::Settings;
use crate::spec::{Categories, Flags, Group, KeyFlags, KeySpec};
use crate::string::range::{bytes_between, index_range};

use operation::bitop;

const OFFSET: Error = Error::fixed("ERR bit offset is not an integer or out of range");

/// The number of a bit. It must lie in a string of the longest allowed length.
fn bit_offset(argument: &[u8], settings: &Settings) -> Outcome<u64> {
    check_offset(mantissa_number::parse_i64(argument), settings)
}

fn check_offset(offset: Option<i64>, settings: &Settings) -> Outcome<u64> {
    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < settings.string_bytes_max).ok_or(OFFSET)
}

fn bit_of(bytes: &[u8], offset: u64) -> bool {
    bytes.get((offset / 8) as usize).is_some_and(|byte| byte >> (7 - offset % 8) & 1 == 1)
}

fn setbit(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let key = args.at(1);
    let offset = bit_offset(args.at(2), access.settings())?;
    let value = parse::integer_in(args.at(3), 0, 1, "ERR bit is not an integer or out of range")? == 1;
    let text = access.text_or_new(key)?;
    let place = (offset / 8) as usize;
    let has_grown = place >= text.len();
    text.grow(place + 1);
    let before = bit_of(text, offset);
    if before != value {
        text.overwrite(place, &[text[place] ^ 0x80 >> (offset % 8)]);
    }
    if has_grown || before != value {
        access.modified(key, EventClass::STRING, "setbit");
    }
    reply.integer(i64::from(before));
    Ok(())
}

fn getbit(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let offset = bit_offset(args.at(2), access.settings())?;
    let mut digits = [0; 20];
    let byte = access.string_part(args.at(1), &mut digits, |len| byte_of(offset, len))?;
    reply.integer(i64::from(bit_of(byte, offset % 8)));
    Ok(())
}

/// The byte that has a bit, in a string of `len` bytes; none behind its end.
fn byte_of(offset: u64, len: u64) -> Range<u64> {
    let byte = offset / 8;
    byte.min(len)..(byte + 1).min(len)
}

/// What GETBIT reads.
fn part_of_getbit(args: Args<'_>, settings: &Settings, len: u64) -> Option<Range<u64>> {
    bit_offset(args.at(2), settings).ok().map(|offset| byte_of(offset, len))
}

/// Whether the unit of a range is the bit: what `BYTE` or `BIT` says.
fn unit_is_bit(argument: Option<&[u8]>) -> Outcome<bool> {
    match argument {
        None => Ok(false),
        Some(unit) if parse::is(unit, "BIT") => Ok(true),
        Some(unit) if parse::is(unit, "BYTE") => Ok(false),
        Some(_) => Err(Error::SYNTAX),
    }
}

fn bitcount(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (start, end, in_bits) = range_of_bitcount(args)?;
    let bytes_of =
        |len| if in_bits { bytes_of_bits(start, end, len) } else { bytes_between(start, end, len) };
    let mut digits = [0; 20];
    let part = access.string_part(args.at(1), &mut digits, bytes_of)?;
    let mut count = bits::count_ones(part);
    if in_bits {
        let len = access.peek(args.at(1)).and_then(Entry::string_len).unwrap_or(0);
        let range = index_range(start, end, len as u64 * 8);
        count -= range.map_or(0, |range| bits_beside(part, *range.start(), *range.end()));
    }
    reply.integer(count as i64);
    Ok(())
}

/// The range of a BITCOUNT, and whether it counts bits; all bytes where none is given.
fn range_of_bitcount(args: Args<'_>) -> Outcome<(i64, i64, bool)> {
    match args.len() {
        2 => Ok((0, -1, false)),
        4 | 5 => Ok((parse::integer(args.at(2))?, parse::integer(args.at(3))?, unit_is_bit(args.get(4))?)),
        _ => Err(Error::SYNTAX),
    }
}

/// The bytes that have the bits from `start` to `end`, in a string of `len` bytes.
fn bytes_of_bits(start: i64, end: i64, len: u64) -> Range<u64> {
    index_range(start, end, len * 8).map_or(0..0, |range| *range.start() / 8..*range.end() / 8 + 1)
}

/// What BITCOUNT reads.
fn part_of_bitcount(args: Args<'_>, _: &Settings, len: u64) -> Option<Range<u64>> {
    let (start, end, in_bits) = range_of_bitcount(args).ok()?;
    Some(if in_bits { bytes_of_bits(start, end, len) } else { bytes_between(start, end, len) })
}

/// The set bits before bit `start` and behind bit `end` of a text, in the bytes that have these two and what
/// lies between.
fn bits_beside(part: &[u8], start: u64, end: u64) -> u64 {
    let before = part.first().map_or(0, |byte| byte & !(u8::MAX >> (start % 8)));
    let after = part.last().map_or(0, |byte| byte & (0x7F >> (end % 8)));
    u64::from(before.count_ones() + after.count_ones())
}

fn bitpos(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let wanted = parse::integer(args.at(2))?;
    if !(0..=1).contains(&wanted) {
        return Err(Error::fixed("ERR The bit argument must be 1 or 0."));
    }
    if args.len() > 6 {
        return Err(Error::SYNTAX);
    }
    let wanted = wanted == 1;
    let start = args.get(3).map_or(Ok(0), parse::integer)?;
    let in_bits = unit_is_bit(args.get(5))?;
    let end = args.get(4).map_or(Ok(-1), parse::integer)?;
    let mut digits = [0; 20];
    let Some(text) = access.string(args.at(1))? else {
        reply.integer(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let text = text.text(&mut digits);
    let bit_len = text.len() as u64 * 8;
    let range = search_range(start, end, if in_bits { bit_len } else { text.len() as u64 });
    let range = range.map(|(start, end)| if in_bits { (start, end) } else { (start * 8, end * 8 + 7) });
    let found = range.and_then(|(start, end)| bits::first_bit(text, wanted, start, end));
    reply.integer(match (found, range) {
        (Some(position), _) => position as i64,
        // What follows the string counts as zeros, unless an end is given.
        (None, Some(_)) if !wanted && args.len() <= 4 => bit_len as i64,
        _ => -1,
    });
    Ok(())
}

/// The range that BITPOS searches among `len` bytes or bits; `None` if it is empty.
fn search_range(start: i64, end: i64, len: u64) -> Option<(u64, u64)> {
    let from_end = |index: i64| match u64::try_from(index) {
        Ok(index) => index,
        Err(_) => len.saturating_sub(index.unsigned_abs()),
    };
    let (start, end) = (from_end(start), from_end(end).min(len.checked_sub(1)?));
    (start <= end).then_some((start, end))
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("setbit", 4, setbit, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::BITMAP)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE))])
        .docs(Group::Bitmap, "2.2.0", "O(1)", "Sets or clears one bit of a string.")
        .arguments("key:key#0 offset:integer value:integer"),
    DataSpec::new("getbit", 3, getbit, Flags::READONLY.or(Flags::FAST))
        .part_of(part_of_getbit)
        .categories(Categories::BITMAP)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::Bitmap, "2.2.0", "O(1)", "Reads one bit of a string.")
        .arguments("key:key#0 offset:integer"),
    DataSpec::new("bitcount", -2, bitcount, Flags::READONLY)
        .part_of(part_of_bitcount)
        .packed(packs_text!(bitcount))
        .categories(Categories::BITMAP)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::Bitmap,
            "2.6.0",
            "O(N) for N bytes looked at",
            "Counts the bits that are set in a string or a part of it.",
        )
        .history(&[("7.0.0", "BYTE and BIT.")])
        .arguments(
            "key:key#0 range:block(start:integer end:integer unit:oneof(byte:pure-token@BYTE \
            bit:pure-token@BIT)?<7.0.0)?",
        ),
    DataSpec::new("bitpos", -3, bitpos, Flags::READONLY)
        .categories(Categories::BITMAP)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::Bitmap,
            "2.8.7",
            "O(N) for N bytes looked at",
            "Finds the first bit of a given value in a string or a part of it.",
        )
        .history(&[("7.0.0", "BYTE and BIT.")])
        .arguments(
            "key:key#0 bit:integer range:block(start:integer end-unit-block:block(end:integer \
            unit:oneof(byte:pure-token@BYTE bit:pure-token@BIT)?<7.0.0)?)?",
        ),
    DataSpec::new("bitop", -4, bitop, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::BITMAP)
        .keys(&[
            KeySpec::one(2, KeyFlags::OW.or(KeyFlags::UPDATE)),
            KeySpec::range(3, -1, 1, KeyFlags::RO.or(KeyFlags::ACCESS)),
        ])
        .docs(
            Group::Bitmap,
            "2.6.0",
            "O(N) for the N bytes of all sources",
            "Combines strings bit by bit and stores the result.",
        )
        .arguments(
            "operation:oneof(and:pure-token@AND or:pure-token@OR xor:pure-token@XOR \
            not:pure-token@NOT diff:pure-token@DIFF diff1:pure-token@DIFF1 andor:pure-token@ANDOR \
            one:pure-token@ONE) destkey:key#0 key:key#1*",
        ),
];
