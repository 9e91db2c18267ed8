//! `struct`: packs values into bytes and back, after Roberto Ierusalimschy's library of that name.
//!
//! | option | meaning |
//! | --- | --- |
//! | `>` `<` | big or little endian from here on |
//! | `!n` | alignment of at most `n` bytes from here on |
//! | `b` `h` `l` `T` `in`, capital for unsigned | integers of 1, 2, 8, 8, `n` (or 4) bytes |
//! | `f` `d` | float, double |
//! | `cn` | `n` bytes; packing 0: the whole string; unpacking 0: as many as the number before says |
//! | `s` | a string that ends with a zero byte |
//! | `x` | a byte of padding |

use mantissa_lua::Stack;
use mlua::{Lua, Table};

use crate::lua::budget::{self, Output};
use crate::lua::convert;
use crate::lua::native::{self, Native, Passed as _, Problem};

const INTEGER_BYTES_MAX: usize = 32;
const ALIGNMENT_MAX: usize = 8;
/// Units of work for an option, besides its bytes.
const OPTION_WORK: usize = 8;
/// Values that one call returns, at most. In Redis the stack of Lua sets the limit.
const RESULTS_MAX: usize = 7_990;

/// A parser of formats.
struct Format<'a> {
    text: &'a [u8],
    big_endian: bool,
    alignment: usize,
}

fn fail<T>(text: impl Into<String>) -> Native<T> {
    Err(Problem::Text(text.into()))
}

impl<'a> Format<'a> {
    fn new(text: &'a [u8]) -> Self {
        // A NUL is the end, as in C.
        let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
        Format { text, big_endian: false, alignment: 1 }
    }

    fn next(&mut self) -> Option<u8> {
        let (&option, rest) = self.text.split_first()?;
        self.text = rest;
        Some(option)
    }

    /// The number that follows, or `otherwise`.
    fn number(&mut self, otherwise: usize) -> Native<usize> {
        let mut number: Option<i32> = None;
        while let Some((digit @ b'0'..=b'9', rest)) = self.text.split_first() {
            self.text = rest;
            let grown = number.unwrap_or(0).checked_mul(10);
            match grown.and_then(|grown| grown.checked_add(i32::from(digit - b'0'))) {
                Some(grown) => number = Some(grown),
                None => return fail("integral size overflow"),
            }
        }
        Ok(number.map_or(otherwise, |number| number as usize))
    }

    /// The size of an option in bytes, as far as the format alone determines it.
    fn size(&mut self, option: u8) -> Native<usize> {
        Ok(match option {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(1)?,
            b'i' | b'I' => match self.number(4)? {
                size if size > INTEGER_BYTES_MAX => {
                    let limit = INTEGER_BYTES_MAX;
                    return fail(format!("integral size {size} is larger than limit of {limit}"));
                }
                size => size,
            },
            _ => 0,
        })
    }

    /// The padding before a value of `size` bytes at `position`.
    fn padding(&self, position: usize, option: u8, size: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.alignment);
        size.wrapping_sub(position & (size.wrapping_sub(1))) & (size.wrapping_sub(1))
    }

    fn control(&mut self, option: u8, function: &str) -> Native<()> {
        match option {
            b' ' => {}
            b'>' => self.big_endian = true,
            b'<' => self.big_endian = false,
            b'!' => {
                let alignment = self.number(ALIGNMENT_MAX)?;
                if !alignment.is_power_of_two() {
                    return fail(format!("alignment {alignment} is not a power of 2"));
                }
                self.alignment = alignment;
            }
            _ => {
                let option = char::from(option);
                return fail(format!("bad argument #1 to '{function}' (invalid format option '{option}')"));
            }
        }
        Ok(())
    }

    /// Puts the bytes of a value, the lowest first, into the order of the format, or back.
    fn order(&self, bytes: &mut [u8]) {
        if self.big_endian {
            bytes.reverse();
        }
    }

    /// The bytes of a value in the order from the lowest on.
    fn ordered<const BYTES: usize>(&self, bytes: &[u8]) -> [u8; BYTES] {
        let mut ordered = bytes.try_into().unwrap_or([0; BYTES]);
        self.order(&mut ordered);
        ordered
    }
}

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("pack", native::in_place(lua, pack)?)?;
    table.set("unpack", native::in_place(lua, unpack)?)?;
    table.set("size", native::in_place(lua, size)?)?;
    Ok(table)
}

fn is_integer(option: u8) -> bool {
    matches!(option, b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I')
}

fn pack(stack: &mut Stack<'_>) -> Native<usize> {
    let text = stack.text(0, "pack")?;
    let mut format = Format::new(&text);
    let mut packed = Output::default();
    let mut next = 1;
    while let Some(option) = format.next() {
        let size = format.size(option)?;
        budget::charge(OPTION_WORK)?;
        let padding = format.padding(packed.len(), option, size);
        if padding > 0 {
            packed.pad(stack, padding)?;
        }
        match option {
            _ if is_integer(option) => {
                let value = to_integer(number(stack, next)?);
                let mut bytes = [0; INTEGER_BYTES_MAX];
                bytes[..size_of::<u64>()].copy_from_slice(&value.to_le_bytes());
                format.order(&mut bytes[..size]);
                packed.extend(stack, &bytes[..size])?;
                next += 1;
            }
            b'f' => {
                let number = number(stack, next)? as f32;
                packed.extend(stack, &format.ordered::<4>(&number.to_le_bytes()))?;
                next += 1;
            }
            b'd' => {
                let number = number(stack, next)?;
                packed.extend(stack, &format.ordered::<8>(&number.to_le_bytes()))?;
                next += 1;
            }
            b'x' => packed.push(stack, 0)?,
            b'c' | b's' => {
                if next >= stack.arguments() {
                    return Err(native::wrong(next, "pack", "string", "nil"));
                }
                let text = stack.text(next, "pack")?;
                next += 1;
                let wanted = if size == 0 { text.len() } else { size };
                let Some(part) = text.get(..wanted) else {
                    return fail(format!("bad argument #{} to 'pack' (string too short)", next + 1));
                };
                packed.extend(stack, part)?;
                if option == b's' {
                    packed.push(stack, 0)?;
                }
            }
            _ => format.control(option, "pack")?,
        }
    }
    stack.push_text(packed.as_bytes())?;
    Ok(1)
}

/// A number to pack. A missing one is nil in the error, as in Redis.
#[inline]
fn number(stack: &Stack<'_>, index: usize) -> Native<f64> {
    if index >= stack.arguments() {
        return Err(native::wrong(index, "pack", "number", "nil"));
    }
    stack.number(index, "pack")
}

/// The integer of a number, as C converts it on x86-64: to signed 64 bits if it is negative, and otherwise to
/// unsigned ones.
fn to_integer(number: f64) -> u64 {
    const TOP_BIT: u64 = 1 << 63;
    if number >= TOP_BIT as f64 {
        convert::truncate(number - TOP_BIT as f64) as u64 ^ TOP_BIT
    } else {
        convert::truncate(number) as u64
    }
}

/// The bytes of a value of this size.
fn take(data: &[u8], position: usize, size: usize) -> Native<&[u8]> {
    let end = position.checked_add(size);
    end.and_then(|end| data.get(position..end))
        .ok_or_else(|| Problem::Text("bad argument #2 to 'unpack' (data string too short)".to_owned()))
}

fn unpack(stack: &mut Stack<'_>) -> Native<usize> {
    let text = stack.text(0, "unpack")?;
    let data = stack.text(1, "unpack")?;
    let data = &*data;
    let position = stack.integer_or(2, 1, "unpack")?;
    if position == 0 {
        return fail("bad argument #3 to 'unpack' (offset must be 1 or greater)");
    }
    // A negative one is beyond the end of any data, as in C.
    let mut position = position.wrapping_sub(1) as usize;
    let mut format = Format::new(&text);
    let mut results = 0;
    while let Some(option) = format.next() {
        let mut size = format.size(option)?;
        position = position.saturating_add(format.padding(position, option, size));
        budget::charge(OPTION_WORK + size)?;
        let bytes = take(data, position, size)?;
        if results >= RESULTS_MAX {
            return fail("stack overflow (too many results)");
        }
        results += 1;
        match option {
            _ if is_integer(option) => {
                let mut ordered = [0; INTEGER_BYTES_MAX];
                ordered[..size].copy_from_slice(bytes);
                format.order(&mut ordered[..size]);
                stack.push_number(integer(&ordered[..size], option.is_ascii_lowercase()))?;
            }
            b'f' => stack.push_number(f64::from(f32::from_le_bytes(format.ordered(bytes))))?,
            b'd' => stack.push_number(f64::from_le_bytes(format.ordered(bytes)))?,
            b'c' => {
                if size == 0 {
                    results -= 1;
                    size = previous_size(stack, results)?;
                    budget::charge(size.min(data.len()))?;
                }
                stack.push_text(take(data, position, size)?)?;
            }
            b's' => {
                let rest = data.get(position..).unwrap_or_default();
                let Some(end) = rest.iter().position(|&byte| byte == 0) else {
                    return fail("unfinished string in data");
                };
                size = end + 1;
                budget::charge(size)?;
                stack.push_text(&rest[..end])?;
            }
            other => {
                results -= 1;
                if other != b'x' {
                    format.control(other, "unpack")?;
                }
            }
        }
        position += size;
    }
    stack.push_number(position.wrapping_add(1) as i64 as f64)?;
    Ok(results + 1)
}

/// Takes off the last of the results so far: the size of a string.
fn previous_size(stack: &mut Stack<'_>, results: usize) -> Native<usize> {
    let number = if results > 0 { stack.to_number(-1) } else { None };
    let Some(number) = number else { return fail("format 'c0' needs a previous size") };
    stack.pop(1);
    Ok(if number >= 0.0 { number as usize } else { usize::MAX })
}

/// The integer in these bytes, the lowest first.
fn integer(bytes: &[u8], is_signed: bool) -> f64 {
    let value = bytes.iter().rev().fold(0u64, |value, &byte| (value << 8) | u64::from(byte));
    if !is_signed || bytes.is_empty() {
        return value as f64;
    }
    let mask = u64::MAX.wrapping_shl((bytes.len() * 8 - 1) as u32);
    (if value & mask != 0 { value | mask } else { value }) as i64 as f64
}

fn size(stack: &mut Stack<'_>) -> Native<usize> {
    let text = stack.text(0, "size")?;
    let mut format = Format::new(&text);
    let mut position = 0usize;
    while let Some(option) = format.next() {
        let size = format.size(option)?;
        position = position.saturating_add(format.padding(position, option, size));
        budget::charge(OPTION_WORK)?;
        if option == b's' {
            return fail("bad argument #1 to 'size' (option 's' has no fixed size)");
        } else if option == b'c' && size == 0 {
            return fail("bad argument #1 to 'size' (option 'c0' has no fixed size)");
        }
        if !option.is_ascii_alphanumeric() {
            format.control(option, "size")?;
        }
        position = position.saturating_add(size);
    }
    stack.push_number(position as f64)?;
    Ok(1)
}
