//! `cmsgpack`: MessagePack as the library of that name writes it. Tables nested deeper than 16 levels are
//! written as nil, and a table is an array if its keys are 1 to its length.

use std::borrow::Cow;

use mantissa_lua::{Item, Stack};
use mlua::{Lua, Table};

use super::{NESTING_MAX, VALUE_WORK};
use crate::lua::budget::{self, Output};
use crate::lua::convert::INTEGERS;
use crate::lua::native::{self, Native, Passed, Problem};

/// Levels of nested tables that are written.
const LEVELS: usize = 16;
/// Values that one call returns, at most. In Redis the stack of Lua sets the limit.
const RESULTS_MAX: usize = 7_990;

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("pack", native::in_place(lua, pack)?)?;
    table.set("unpack", native::in_place(lua, |stack| unpack(stack, "unpack", None, 0))?)?;
    let one = |stack: &mut Stack<'_>| {
        let offset = stack.integer_or(1, 0, "unpack_one")?;
        unpack(stack, "unpack_one", Some(1), offset)
    };
    table.set("unpack_one", native::in_place(lua, one)?)?;
    let some = |stack: &mut Stack<'_>| {
        let limit = stack.integer(1, "unpack_limit")?;
        let offset = stack.integer_or(2, 0, "unpack_limit")?;
        let limit = (limit != 0 || offset != 0).then_some(limit);
        unpack(stack, "unpack_limit", limit, offset)
    };
    table.set("unpack_limit", native::in_place(lua, some)?)?;
    table.set("_NAME", "cmsgpack")?;
    table.set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.set("_COPYRIGHT", "Copyright (C) 2012, Redis Ltd.")?;
    table.set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(table)
}

fn fail<T>(text: impl Into<String>) -> Native<T> {
    Err(Problem::Text(text.into()))
}

fn pack(stack: &mut Stack<'_>) -> Native<usize> {
    if stack.arguments() == 0 {
        return fail("bad argument #0 to 'pack' (MessagePack pack needs input.)");
    }
    let mut packed = Output::default();
    for slot in 1..=stack.arguments() {
        stack.push_copy(slot as isize)?;
        encode(&mut packed, stack, 0)?;
        stack.pop(1);
    }
    stack.push_text(packed.as_bytes())?;
    Ok(1)
}

/// Writes the last value.
fn encode(out: &mut Output, stack: &mut Stack<'_>, level: usize) -> Native<()> {
    budget::charge(VALUE_WORK)?;
    match stack.item(-1) {
        Item::Text(text) => {
            header(
                out,
                stack,
                text.len(),
                &[(0xA0, 31, 0), (0xD9, 0xFF, 1), (0xDA, 0xFFFF, 2), (0xDB, usize::MAX, 4)],
            )?;
            out.extend(stack, text)
        }
        Item::Boolean(value) => out.push(stack, if value { 0xC3 } else { 0xC2 }),
        Item::Number(number) => encode_number(out, stack, number),
        Item::Table if level < LEVELS => encode_table(out, stack, level),
        _ => out.push(stack, 0xC0),
    }
}

/// Writes a count in the first of the forms that holds it. A form is a type byte, the highest count and the
/// bytes that the count takes; with 0 bytes it is added to the type byte.
fn header(out: &mut Output, stack: &Stack<'_>, count: usize, forms: &[(u8, usize, usize)]) -> Native<()> {
    let Some(&(mark, _, bytes)) = forms.iter().find(|(_, highest, _)| count <= *highest) else {
        return Ok(());
    };
    if bytes == 0 {
        return out.push(stack, mark | count as u8);
    }
    out.push(stack, mark)?;
    out.extend(stack, &(count as u32).to_be_bytes()[4 - bytes..])
}

fn encode_number(out: &mut Output, stack: &Stack<'_>, number: f64) -> Native<()> {
    if !INTEGERS.contains(&number) || number != number.trunc() {
        let short = number as f32;
        if f64::from(short) == number {
            out.push(stack, 0xCA)?;
            out.extend(stack, &short.to_be_bytes())?;
        } else {
            out.push(stack, 0xCB)?;
            out.extend(stack, &number.to_be_bytes())?;
        }
        return Ok(());
    }
    let number = number as i64;
    let (mark, bytes) = match number {
        -32..=127 => return out.push(stack, number as u8),
        128..=0xFF => (0xCC, 1),
        0x100..=0xFFFF => (0xCD, 2),
        0x1_0000..=0xFFFF_FFFF => (0xCE, 4),
        0x1_0000_0000.. => (0xCF, 8),
        -0x80..=-33 => (0xD0, 1),
        -0x8000..=-0x81 => (0xD1, 2),
        -0x8000_0000..=-0x8001 => (0xD2, 4),
        _ => (0xD3, 8),
    };
    out.push(stack, mark)?;
    out.extend(stack, &number.to_be_bytes()[8 - bytes..])
}

/// Writes the table that is the last value.
fn encode_table(out: &mut Output, stack: &mut Stack<'_>, level: usize) -> Native<()> {
    let (mut count, mut highest, mut is_array) = (0usize, 0.0f64, true);
    stack.each(-1, |stack| {
        budget::charge(VALUE_WORK)?;
        match stack.item(-2) {
            Item::Number(number) if number > 0.0 && number == number.trunc() => highest = highest.max(number),
            _ => is_array = false,
        }
        count += 1;
        Ok::<_, Problem>(true)
    })?;
    if is_array && highest == count as f64 {
        header(out, stack, count, &[(0x90, 15, 0), (0xDC, 0xFFFF, 2), (0xDD, usize::MAX, 4)])?;
        for index in 1..=count {
            stack.push_element(-1, index)?;
            encode(out, stack, level + 1)?;
            stack.pop(1);
        }
        return Ok(());
    }
    header(out, stack, count, &[(0x80, 15, 0), (0xDE, 0xFFFF, 2), (0xDF, usize::MAX, 4)])?;
    stack.each(-1, |stack| {
        stack.push_copy(-2)?;
        encode(out, stack, level + 1)?;
        stack.pop(1);
        encode(out, stack, level + 1)?;
        Ok(true)
    })
}

/// Reads values. With a limit the first result is the offset behind them, or -1 at the end of the text.
fn unpack(stack: &mut Stack<'_>, name: &str, limit: Option<i64>, offset: i64) -> Native<usize> {
    let data: Cow<'_, [u8]> = stack.text(0, name)?;
    let invalid = limit.is_some_and(|limit| limit < 0) || offset < 0;
    if invalid {
        // The library prints the offset as 32 bits.
        let (offset, len) = (offset as i32, data.len());
        return fail(format!("Invalid request to unpack with offset of {offset} and limit of {len}."));
    }
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    if start > data.len() {
        let offset = offset as i32;
        return fail(format!("Start offset {offset} greater than input length {}.", data.len()));
    }
    let mut reader = Reader { data: &data, at: start };
    let most = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    if limit.is_some() {
        // The place of the offset.
        stack.push_nil()?;
    }
    let mut count = 0;
    while reader.at < data.len() && count < most {
        if count >= RESULTS_MAX {
            return fail("stack overflow (too many results)");
        }
        reader.push(stack, 0)?;
        count += 1;
    }
    if limit.is_none() {
        return Ok(count);
    }
    let next = if reader.at == data.len() { -1.0 } else { reader.at as f64 };
    stack.push_number(next)?;
    stack.replace(count + 1);
    Ok(count + 1)
}

struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Native<&'a [u8]> {
        budget::charge(len)?;
        let end = self.at.checked_add(len);
        let Some(bytes) = end.and_then(|end| self.data.get(self.at..end)) else {
            return fail("Missing bytes in input.");
        };
        self.at += len;
        Ok(bytes)
    }

    fn unsigned(&mut self, bytes: usize) -> Native<u64> {
        Ok(self.take(bytes)?.iter().fold(0, |value, &byte| (value << 8) | u64::from(byte)))
    }

    fn count(&mut self, bytes: usize) -> Native<usize> {
        Ok(self.unsigned(bytes)? as usize)
    }

    fn signed(&mut self, bytes: usize) -> Native<f64> {
        let shift = 64 - 8 * bytes as u32;
        let value = ((self.unsigned(bytes)? << shift) as i64) >> shift;
        Ok(value as f64)
    }

    fn push_text(&mut self, stack: &mut Stack<'_>, len: usize) -> Native<()> {
        Ok(stack.push_text(self.take(len)?)?)
    }

    /// Pushes the next value.
    fn push(&mut self, stack: &mut Stack<'_>, depth: usize) -> Native<()> {
        if depth > NESTING_MAX {
            return fail("stack overflow (in function mp_decode_to_lua_type)");
        }
        budget::charge(VALUE_WORK)?;
        let mark = self.unsigned(1)? as u8;
        let number = match mark {
            0x00..=0x7F => f64::from(mark),
            0xE0..=0xFF => f64::from(mark as i8),
            0xCA => f64::from(f32::from_bits(self.unsigned(4)? as u32)),
            0xCB => f64::from_bits(self.unsigned(8)?),
            0xCC..=0xCE => self.unsigned(1 << (mark - 0xCC))? as f64,
            // Redis takes 64 bits without a sign for ones with a sign.
            0xCF => self.signed(8)?,
            0xD0..=0xD3 => self.signed(1 << (mark - 0xD0))?,
            0x80..=0x8F => return self.push_map(stack, usize::from(mark & 15), depth),
            0x90..=0x9F => return self.push_array(stack, usize::from(mark & 15), depth),
            0xA0..=0xBF => return self.push_text(stack, usize::from(mark & 31)),
            0xC0 => return Ok(stack.push_nil()?),
            0xC2 | 0xC3 => return Ok(stack.push_boolean(mark == 0xC3)?),
            0xD9..=0xDB => {
                let len = self.count(1 << (mark - 0xD9))?;
                return self.push_text(stack, len);
            }
            0xDC | 0xDD => {
                let count = self.count(2 << (mark - 0xDC))?;
                return self.push_array(stack, count, depth);
            }
            0xDE | 0xDF => {
                let count = self.count(2 << (mark - 0xDE))?;
                return self.push_map(stack, count, depth);
            }
            _ => return fail("Bad data format in input."),
        };
        Ok(stack.push_number(number)?)
    }

    fn push_array(&mut self, stack: &mut Stack<'_>, count: usize, depth: usize) -> Native<()> {
        stack.push_table(0, 0)?;
        for index in 1..=count {
            self.push(stack, depth + 1)?;
            stack.set_element(index)?;
        }
        Ok(())
    }

    fn push_map(&mut self, stack: &mut Stack<'_>, count: usize, depth: usize) -> Native<()> {
        stack.push_table(0, 0)?;
        for _ in 0..count {
            self.push(stack, depth + 1)?;
            self.push(stack, depth + 1)?;
            match stack.item(-2) {
                Item::Nil => return fail("table index is nil"),
                Item::Number(number) if number.is_nan() => return fail("table index is NaN"),
                _ => stack.set()?,
            }
        }
        Ok(())
    }
}
