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

use mlua::{Lua, MultiValue, Table, Value};

use crate::lua::budget::{self, Output};
use crate::lua::native::{self, Arguments, Native, Problem};

const INTEGER_BYTES_MAX: usize = 32;
const ALIGNMENT_MAX: usize = 8;
/// Units of work for an option, besides its bytes.
const OPTION_WORK: usize = 8;

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

    fn ordered(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if self.big_endian {
            bytes.reverse();
        }
        bytes
    }
}

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("pack", native::function(lua, pack)?)?;
    table.set("unpack", native::function(lua, unpack)?)?;
    table.set("size", native::function(lua, size)?)?;
    Ok(table)
}

fn is_integer(option: u8) -> bool {
    matches!(option, b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I')
}

fn pack(lua: &Lua, args: &Arguments) -> Native<Value> {
    let text = args.text(0, "pack")?;
    let mut format = Format::new(text.as_ref());
    let mut packed = Output::default();
    let mut next = 1;
    while let Some(option) = format.next() {
        let size = format.size(option)?;
        budget::charge(OPTION_WORK)?;
        packed.pad(lua, format.padding(packed.len(), option, size))?;
        match option {
            _ if is_integer(option) => {
                let number = args.number(next, "pack")?;
                let value = if number < 0.0 { number as i64 as u64 } else { number as u64 };
                let byte = |index: usize| value.checked_shr(8 * index as u32).unwrap_or(0) as u8;
                let bytes = (0..size).map(byte).collect();
                packed.extend(lua, &format.ordered(bytes))?;
                next += 1;
            }
            b'f' => {
                let number = args.number(next, "pack")? as f32;
                packed.extend(lua, &format.ordered(number.to_le_bytes().to_vec()))?;
                next += 1;
            }
            b'd' => {
                let number = args.number(next, "pack")?;
                packed.extend(lua, &format.ordered(number.to_le_bytes().to_vec()))?;
                next += 1;
            }
            b'x' => packed.push(lua, 0)?,
            b'c' | b's' => {
                let text = args.text(next, "pack")?;
                next += 1;
                let text = text.as_ref();
                let wanted = if size == 0 { text.len() } else { size };
                let Some(part) = text.get(..wanted) else {
                    return fail(format!("bad argument #{} to 'pack' (string too short)", next + 1));
                };
                packed.extend(lua, part)?;
                if option == b's' {
                    packed.push(lua, 0)?;
                }
            }
            _ => format.control(option, "pack")?,
        }
    }
    packed.into_value(lua)
}

const SHORT: &str = "bad argument #2 to 'unpack' (data string too short)";

fn unpack(lua: &Lua, args: &Arguments) -> Native<MultiValue> {
    let text = args.text(0, "unpack")?;
    let data = args.text(1, "unpack")?;
    let data = data.as_ref();
    let position = args.integer_or(2, 1, "unpack")?;
    if position == 0 {
        return fail("bad argument #3 to 'unpack' (offset must be 1 or greater)");
    }
    let mut position = usize::try_from(position - 1).unwrap_or(usize::MAX);
    let mut format = Format::new(text.as_ref());
    let mut results: Vec<Value> = Vec::new();
    while let Some(option) = format.next() {
        let mut size = format.size(option)?;
        position = position.saturating_add(format.padding(position, option, size));
        budget::charge(OPTION_WORK + size)?;
        let take = |position: usize, size: usize| {
            let end = position.checked_add(size);
            end.and_then(|end| data.get(position..end)).ok_or_else(|| Problem::Text(SHORT.to_owned()))
        };
        let bytes = take(position, size)?;
        if results.len() >= 7_990 {
            return fail("stack overflow (too many results)");
        }
        match option {
            _ if is_integer(option) => {
                let value = integer(&format.ordered(bytes.to_vec()), option.is_ascii_lowercase());
                results.push(Value::Number(value));
            }
            b'f' => {
                let bytes = format.ordered(bytes.to_vec()).try_into().unwrap_or_default();
                results.push(Value::Number(f64::from(f32::from_le_bytes(bytes))));
            }
            b'd' => {
                let bytes = format.ordered(bytes.to_vec()).try_into().unwrap_or_default();
                results.push(Value::Number(f64::from_le_bytes(bytes)));
            }
            b'x' => {}
            b'c' => {
                if size == 0 {
                    let Some(number) = results.last().and_then(native::number_of) else {
                        return fail("format 'c0' needs a previous size");
                    };
                    results.pop();
                    size = if number >= 0.0 { number as usize } else { usize::MAX };
                    budget::charge(size.min(data.len()))?;
                }
                results.push(Value::String(lua.create_string(take(position, size)?)?));
            }
            b's' => {
                let rest = data.get(position..).unwrap_or_default();
                let Some(end) = rest.iter().position(|&byte| byte == 0) else {
                    return fail("unfinished string in data");
                };
                size = end + 1;
                budget::charge(size)?;
                results.push(Value::String(lua.create_string(&rest[..end])?));
            }
            _ => format.control(option, "unpack")?,
        }
        position += size;
    }
    results.push(Value::Number((position + 1) as f64));
    Ok(results.into_iter().collect())
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

fn size(_lua: &Lua, args: &Arguments) -> Native<f64> {
    let text = args.text(0, "size")?;
    let mut format = Format::new(text.as_ref());
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
    Ok(position as f64)
}
