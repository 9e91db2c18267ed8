//! `cmsgpack`: MessagePack as the library of that name writes it. Tables nested deeper than 16 levels are
//! written as nil, and a table is an array if its keys are 1 to its length.

use mlua::{Lua, MultiValue, Table, Value};

use super::{MEMORY_PER_BYTE, NESTING_MAX, VALUE_WORK};
use crate::lua::budget::{self, Output};
use crate::lua::convert::INTEGERS;
use crate::lua::native::{self, Arguments, Native, Problem};

/// Levels of nested tables that are written.
const LEVELS: usize = 16;

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("pack", native::function(lua, pack)?)?;
    table.set("unpack", native::function(lua, |lua, args| unpack(lua, args, "unpack", None, 0))?)?;
    let one = |lua: &Lua, args: &Arguments| {
        let offset = args.integer_or(1, 0, "unpack_one")?;
        unpack(lua, args, "unpack_one", Some(1), offset)
    };
    table.set("unpack_one", native::function(lua, one)?)?;
    let some = |lua: &Lua, args: &Arguments| {
        let limit = args.integer(1, "unpack_limit")?;
        let offset = args.integer_or(2, 0, "unpack_limit")?;
        let limit = (limit != 0 || offset != 0).then_some(limit);
        unpack(lua, args, "unpack_limit", limit, offset)
    };
    table.set("unpack_limit", native::function(lua, some)?)?;
    table.set("_NAME", "cmsgpack")?;
    table.set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.set("_COPYRIGHT", "Copyright (C) 2012, Redis Ltd.")?;
    table.set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(table)
}

fn fail<T>(text: impl Into<String>) -> Native<T> {
    Err(Problem::Text(text.into()))
}

fn pack(lua: &Lua, args: &Arguments) -> Native<Value> {
    if args.len() == 0 {
        return fail("bad argument #0 to 'pack' (MessagePack pack needs input.)");
    }
    let mut packed = Output::new(lua);
    for value in args.iter() {
        encode(&mut packed, value, 0)?;
    }
    packed.into_value()
}

fn encode(out: &mut Output<'_>, value: &Value, level: usize) -> Native<()> {
    budget::charge(VALUE_WORK)?;
    match value {
        Value::String(text) => {
            let text = text.as_bytes();
            header(
                out,
                text.len(),
                &[(0xA0, 31, 0), (0xD9, 0xFF, 1), (0xDA, 0xFFFF, 2), (0xDB, usize::MAX, 4)],
            )?;
            out.extend(&text)?;
        }
        Value::Boolean(value) => out.push(if *value { 0xC3 } else { 0xC2 })?,
        Value::Integer(number) => encode_number(out, *number as f64)?,
        Value::Number(number) => encode_number(out, *number)?,
        Value::Table(table) if level < LEVELS => encode_table(out, table, level)?,
        _ => out.push(0xC0)?,
    }
    Ok(())
}

/// Writes a count in the first of the forms that holds it. A form is a type byte, the highest count and the
/// bytes that the count takes; with 0 bytes it is added to the type byte.
fn header(out: &mut Output<'_>, count: usize, forms: &[(u8, usize, usize)]) -> Native<()> {
    let Some(&(mark, _, bytes)) = forms.iter().find(|(_, highest, _)| count <= *highest) else {
        return Ok(());
    };
    if bytes == 0 {
        return out.push(mark | count as u8);
    }
    out.push(mark)?;
    out.extend(&(count as u32).to_be_bytes()[4 - bytes..])
}

fn encode_number(out: &mut Output<'_>, number: f64) -> Native<()> {
    if !INTEGERS.contains(&number) || number != number.trunc() {
        let short = number as f32;
        if f64::from(short) == number {
            out.push(0xCA)?;
            out.extend(&short.to_be_bytes())?;
        } else {
            out.push(0xCB)?;
            out.extend(&number.to_be_bytes())?;
        }
        return Ok(());
    }
    let number = number as i64;
    let (mark, bytes) = match number {
        -32..=127 => return out.push(number as u8),
        128..=0xFF => (0xCC, 1),
        0x100..=0xFFFF => (0xCD, 2),
        0x1_0000..=0xFFFF_FFFF => (0xCE, 4),
        0x1_0000_0000.. => (0xCF, 8),
        -0x80..=-33 => (0xD0, 1),
        -0x8000..=-0x81 => (0xD1, 2),
        -0x8000_0000..=-0x8001 => (0xD2, 4),
        _ => (0xD3, 8),
    };
    out.push(mark)?;
    out.extend(&number.to_be_bytes()[8 - bytes..])
}

fn encode_table(out: &mut Output<'_>, table: &Table, level: usize) -> Native<()> {
    let (mut count, mut highest, mut is_array) = (0usize, 0.0f64, true);
    for pair in table.pairs::<Value, Value>() {
        budget::charge(VALUE_WORK)?;
        let (key, _) = pair?;
        match key {
            Value::Integer(number) if number > 0 => highest = highest.max(number as f64),
            Value::Number(number) if number > 0.0 && number == number.trunc() => {
                highest = highest.max(number)
            }
            _ => is_array = false,
        }
        count += 1;
    }
    if is_array && highest == count as f64 {
        let len = table.raw_len();
        header(out, len, &[(0x90, 15, 0), (0xDC, 0xFFFF, 2), (0xDD, usize::MAX, 4)])?;
        for index in 1..=len {
            encode(out, &table.raw_get(index)?, level + 1)?;
        }
        return Ok(());
    }
    header(out, count, &[(0x80, 15, 0), (0xDE, 0xFFFF, 2), (0xDF, usize::MAX, 4)])?;
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        encode(out, &key, level + 1)?;
        encode(out, &value, level + 1)?;
    }
    Ok(())
}

/// Reads values. With a limit the first result is the offset behind them, or -1 at the end of the text.
fn unpack(lua: &Lua, args: &Arguments, name: &str, limit: Option<i64>, offset: i64) -> Native<MultiValue> {
    let data = args.text(0, name)?;
    let data = data.as_ref();
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
    let mut reader = Reader { lua, data, at: start };
    let mut values = Vec::new();
    let most = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    while reader.at < data.len() && values.len() < most {
        if values.len() >= 7_990 {
            return fail("stack overflow (too many results)");
        }
        let bytes = (data.len() - reader.at).saturating_mul(MEMORY_PER_BYTE);
        values.push(budget::with_memory(lua, bytes, || reader.value(0))?);
    }
    if limit.is_some() {
        let next = if reader.at == data.len() { -1.0 } else { reader.at as f64 };
        values.insert(0, Value::Number(next));
    }
    Ok(values.into_iter().collect())
}

struct Reader<'a> {
    lua: &'a Lua,
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

    fn signed(&mut self, bytes: usize) -> Native<Value> {
        let shift = 64 - 8 * bytes as u32;
        let value = ((self.unsigned(bytes)? << shift) as i64) >> shift;
        Ok(Value::Number(value as f64))
    }

    fn text(&mut self, len: usize) -> Native<Value> {
        Ok(Value::String(self.lua.create_string(self.take(len)?)?))
    }

    fn value(&mut self, depth: usize) -> Native<Value> {
        if depth > NESTING_MAX {
            return fail("stack overflow (in function mp_decode_to_lua_type)");
        }
        budget::charge(VALUE_WORK)?;
        let mark = self.unsigned(1)? as u8;
        Ok(match mark {
            0x00..=0x7F => Value::Number(f64::from(mark)),
            0xE0..=0xFF => Value::Number(f64::from(mark as i8)),
            0x80..=0x8F => self.map(usize::from(mark & 15), depth)?,
            0x90..=0x9F => self.array(usize::from(mark & 15), depth)?,
            0xA0..=0xBF => self.text(usize::from(mark & 31))?,
            0xC0 => Value::Nil,
            0xC2 | 0xC3 => Value::Boolean(mark == 0xC3),
            0xD9..=0xDB => {
                let len = self.count(1 << (mark - 0xD9))?;
                self.text(len)?
            }
            0xCA => Value::Number(f64::from(f32::from_bits(self.unsigned(4)? as u32))),
            0xCB => Value::Number(f64::from_bits(self.unsigned(8)?)),
            0xCC..=0xCF => Value::Number(self.unsigned(1 << (mark - 0xCC))? as f64),
            0xD0..=0xD3 => self.signed(1 << (mark - 0xD0))?,
            0xDC | 0xDD => {
                let count = self.count(2 << (mark - 0xDC))?;
                self.array(count, depth)?
            }
            0xDE | 0xDF => {
                let count = self.count(2 << (mark - 0xDE))?;
                self.map(count, depth)?
            }
            _ => return fail("Bad data format in input."),
        })
    }

    fn array(&mut self, count: usize, depth: usize) -> Native<Value> {
        let table = self.lua.create_table()?;
        for index in 1..=count {
            table.raw_set(index, self.value(depth + 1)?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: usize, depth: usize) -> Native<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..count {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            match &key {
                Value::Nil => return fail("table index is nil"),
                Value::Number(number) if number.is_nan() => return fail("table index is NaN"),
                _ => table.raw_set(key, value)?,
            }
        }
        Ok(Value::Table(table))
    }
}
