//! BITFIELD: integers of 1 to 64 bits at any bit of a string.

use std::ops::Range;

use mantissa_protocol::{Args, Reply};
use mantissa_store::Text;

use super::{bit_offset, check_offset};
use crate::DataSpec;
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;
use crate::settings::Settings;
use crate::spec::{Categories, Flags, Group, KeyFlags, KeySpec};

const INVALID_TYPE: Error = Error::fixed(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
);

/// An integer type: signed of 1 to 64 bits, or unsigned of 1 to 63.
#[derive(Clone, Copy)]
struct FieldType {
    signed: bool,
    bits: u32,
}

impl FieldType {
    fn parse(argument: &[u8]) -> Outcome<FieldType> {
        let (signed, bits) = match argument {
            [b'i', bits @ ..] => (true, bits),
            [b'u', bits @ ..] => (false, bits),
            _ => return Err(INVALID_TYPE),
        };
        let most = if signed { 64 } else { 63 };
        match mantissa_number::parse_i64(bits) {
            Some(bits) if (1..=most).contains(&bits) => Ok(FieldType { signed, bits: bits as u32 }),
            _ => Err(INVALID_TYPE),
        }
    }

    /// The bit that an offset argument means; `#N` counts in integers of this type.
    fn offset(self, argument: &[u8], settings: &Settings) -> Outcome<u64> {
        match argument {
            [b'#', number @ ..] => {
                let number = mantissa_number::parse_i64(number);
                check_offset(number.and_then(|number| number.checked_mul(i64::from(self.bits))), settings)
            }
            _ => bit_offset(argument, settings),
        }
    }

    fn range(self) -> (i128, i128) {
        if self.signed {
            (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1)
        } else {
            (0, (1 << self.bits) - 1)
        }
    }

    /// The value whose lowest bits are those of `pattern`.
    fn wrap(self, pattern: u64) -> i64 {
        let shift = 64 - self.bits;
        if self.signed { ((pattern << shift) as i64) >> shift } else { (pattern << shift >> shift) as i64 }
    }
}

/// What happens to a value that its type cannot hold.
#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

impl Overflow {
    fn parse(argument: &[u8]) -> Outcome<Overflow> {
        let names = [("WRAP", Overflow::Wrap), ("SAT", Overflow::Saturate), ("FAIL", Overflow::Fail)];
        let found = names.iter().find(|(name, _)| parse::is(argument, name));
        found.map(|&(_, overflow)| overflow).ok_or(Error::fixed("ERR Invalid OVERFLOW type specified"))
    }

    fn apply(self, value: i128, field: FieldType) -> Option<i64> {
        let (low, high) = field.range();
        if (low..=high).contains(&value) {
            return Some(value as i64);
        }
        match self {
            Overflow::Wrap => Some(field.wrap(value as u64)),
            Overflow::Saturate => Some(value.clamp(low, high) as i64),
            Overflow::Fail => None,
        }
    }
}

#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

#[derive(Clone, Copy)]
struct Operation {
    field: FieldType,
    offset: u64,
    action: Action,
    overflow: Overflow,
}

fn parse_operations(args: Args<'_>, settings: &Settings) -> Outcome<Vec<Operation>> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut at = 2;
    while let Some(name) = args.get(at) {
        let left = args.len() - at - 1;
        if parse::is(name, "OVERFLOW") && left >= 1 {
            overflow = Overflow::parse(args.at(at + 1))?;
            at += 2;
            continue;
        }
        let is_get = parse::is(name, "GET") && left >= 2;
        let is_set = parse::is(name, "SET") && left >= 3;
        let is_add = parse::is(name, "INCRBY") && left >= 3;
        if !is_get && !is_set && !is_add {
            return Err(Error::SYNTAX);
        }
        let field = FieldType::parse(args.at(at + 1))?;
        let offset = field.offset(args.at(at + 2), settings)?;
        let action = if is_get {
            Action::Get
        } else {
            let number = parse::integer(args.at(at + 3))?;
            if is_set { Action::Set(number) } else { Action::Add(number) }
        };
        operations.push(Operation { field, offset, action, overflow });
        at += if is_get { 3 } else { 4 };
    }
    Ok(operations)
}

/// Reads a field; what lies behind the end is zero.
fn read(bytes: &[u8], offset: u64, field: FieldType) -> i64 {
    let start = (offset / 8) as usize;
    let mut window = [0; 16];
    // Up to 64 bits that start at any bit of a byte touch nine bytes.
    let present = bytes.get(start..).unwrap_or_default();
    let count = present.len().min(9);
    window[..count].copy_from_slice(&present[..count]);
    let pattern = u128::from_be_bytes(window) << (offset % 8) >> (128 - field.bits);
    field.wrap(pattern as u64)
}

/// Writes a field, which lies inside `text`.
fn write(text: &mut Text, offset: u64, field: FieldType, value: i64) {
    let start = (offset / 8) as usize;
    let end = (offset + u64::from(field.bits)).div_ceil(8) as usize;
    let mut window = [0; 16];
    let count = end - start;
    window[..count].copy_from_slice(&text[start..end]);
    let shift = 128 - field.bits - (offset % 8) as u32;
    let mask = (u128::MAX >> (128 - field.bits)) << shift;
    let old = u128::from_be_bytes(window);
    let new = (old & !mask) | ((value as u128) << shift & mask);
    text.overwrite(start, &new.to_be_bytes()[..count]);
}

fn bitfield(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let operations = parse_operations(args, access.settings())?;
    let ends = operations.iter().filter(|operation| !matches!(operation.action, Action::Get));
    let Some(end) = ends.map(|operation| operation.offset + u64::from(operation.field.bits)).max() else {
        return read_all(access, args.at(1), &operations, reply);
    };
    let key = args.at(1);
    let text = access.text_or_new(key)?;
    let len = end.div_ceil(8) as usize;
    let has_grown = len > text.len();
    let mut changes = 0;
    text.grow(len);
    reply.array(operations.len());
    for Operation { field, offset, action, overflow } in operations {
        let old = read(text, offset, field);
        let (wanted, replies_new) = match action {
            Action::Get => {
                reply.integer(old);
                continue;
            }
            // A negative number is too large for an unsigned type, not too small.
            Action::Set(number) if !field.signed => (i128::from(number as u64), false),
            Action::Set(number) => (i128::from(number), false),
            Action::Add(number) => (i128::from(old) + i128::from(number), true),
        };
        match overflow.apply(wanted, field) {
            None => reply.null(),
            Some(new) => {
                write(text, offset, field, new);
                changes += u64::from(has_grown || new != old);
                reply.integer(if replies_new { new } else { old });
            }
        }
    }
    if changes > 0 {
        access.changed_by(key, changes);
        access.event(EventClass::STRING, "setbit", key);
    } else if has_grown {
        access.changed(key);
    }
    Ok(())
}

fn bitfield_ro(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let operations = parse_operations(args, access.settings())?;
    if operations.iter().any(|operation| !matches!(operation.action, Action::Get)) {
        return Err(Error::fixed("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    read_all(access, args.at(1), &operations, reply)
}

fn read_all(access: &Access<'_>, key: &[u8], operations: &[Operation], reply: &mut Reply) -> Outcome {
    let mut digits = [0; 20];
    let text = access.string_part(key, &mut digits, |len| bytes_of(operations, len))?;
    let first_bit = bytes_of(operations, u64::MAX).start * 8;
    reply.array(operations.len());
    for operation in operations {
        reply.integer(read(text, operation.offset - first_bit, operation.field));
    }
    Ok(())
}

/// The bytes that have the fields of some operations and what lies between, in a string of `len` bytes.
fn bytes_of(operations: &[Operation], len: u64) -> Range<u64> {
    let starts = operations.iter().map(|operation| operation.offset / 8);
    let ends =
        operations.iter().map(|operation| (operation.offset + u64::from(operation.field.bits)).div_ceil(8));
    starts.min().unwrap_or(0).min(len)..ends.max().unwrap_or(0).min(len)
}

/// What a BITFIELD that only reads reads.
fn part_of_bitfield(args: Args<'_>, settings: &Settings, len: u64) -> Option<Range<u64>> {
    let operations = parse_operations(args, settings).ok()?;
    let reads_only = operations.iter().all(|operation| matches!(operation.action, Action::Get));
    reads_only.then(|| bytes_of(&operations, len))
}

/// BITFIELD writes unless all that it does is GET.
fn flags_of_bitfield(args: Args<'_>) -> KeyFlags {
    match only_gets(args) {
        true => KeyFlags::RO.or(KeyFlags::ACCESS),
        false => KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE),
    }
}

/// Whether nothing but GET and OVERFLOW is among the operations of a BITFIELD.
fn only_gets(args: Args<'_>) -> bool {
    let mut at = 2;
    while let Some(operation) = args.get(at) {
        let operands = if operation.eq_ignore_ascii_case(b"GET") {
            2
        } else if operation.eq_ignore_ascii_case(b"OVERFLOW") {
            1
        } else {
            return false;
        };
        at += 1 + operands;
    }
    true
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("bitfield", -2, bitfield, Flags::WRITE.or(Flags::DENYOOM))
        .part_of(part_of_bitfield)
        .categories(Categories::BITMAP)
        .keys(&[KeySpec::one(
            1,
            KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE).or(KeyFlags::VARIABLE_FLAGS),
        )
        .notes("Only reads if all operations are GET")])
        .key_flags_of(flags_of_bitfield)
        .docs(
            Group::Bitmap,
            "3.2.0",
            "O(1) for each operation",
            "Reads and changes integers of any width inside a string.",
        )
        .arguments(
            "key:key#0 operation:oneof(get-block:block(encoding:string offset:integer)@GET \
            write:block(overflow-block:oneof(wrap:pure-token@WRAP sat:pure-token@SAT \
            fail:pure-token@FAIL)@OVERFLOW? write-operation:oneof(set-block:block(encoding:string \
            offset:integer value:integer)@SET incrby-block:block(encoding:string offset:integer \
            increment:integer)@INCRBY)))?*",
        ),
    DataSpec::new("bitfield_ro", -2, bitfield_ro, Flags::READONLY.or(Flags::FAST))
        .part_of(part_of_bitfield)
        .categories(Categories::BITMAP)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(
            Group::Bitmap,
            "6.0.0",
            "O(1) for each operation",
            "Reads integers of any width inside a string.",
        )
        .arguments("key:key#0 get-block:block(encoding:string offset:integer)@GET?**"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_bit_by_bit_arithmetic_puts_them() {
        let mut state = 3_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 17) ^ (state << 29)
        };
        for round in 0..5_000 {
            let signed = random() % 2 == 0;
            let bits = 1 + (random() % if signed { 64 } else { 63 }) as u32;
            let field = FieldType { signed, bits };
            let offset = random() % 100;
            let before: Vec<u8> = (0..24).map(|_| random() as u8).collect();
            let value = field.wrap(random());
            let mut text = Text::from(before.clone());
            write(&mut text, offset, field, value);
            assert_eq!(read(&text, offset, field), value, "round {round}");
            for bit in 0..192_u64 {
                let of = |bytes: &[u8]| bytes[(bit / 8) as usize] >> (7 - bit % 8) & 1;
                let inside = bit.checked_sub(offset).filter(|place| *place < u64::from(bits));
                let expected = match inside {
                    Some(place) => (value >> (u64::from(bits) - 1 - place) & 1) as u8,
                    None => of(&before),
                };
                assert_eq!(of(&text), expected, "round {round}, bit {bit}");
            }
        }
    }

    #[test]
    fn values_that_do_not_fit_overflow_as_told() {
        let (i8, u8) = (FieldType { signed: true, bits: 8 }, FieldType { signed: false, bits: 8 });
        assert_eq!(Overflow::Wrap.apply(128, i8), Some(-128));
        assert_eq!(Overflow::Saturate.apply(128, i8), Some(127));
        assert_eq!(Overflow::Saturate.apply(-129, i8), Some(-128));
        assert_eq!(Overflow::Fail.apply(256, u8), None);
        assert_eq!(Overflow::Wrap.apply(-1, u8), Some(255));
        assert_eq!(Overflow::Saturate.apply(-1, u8), Some(0));
    }
}
