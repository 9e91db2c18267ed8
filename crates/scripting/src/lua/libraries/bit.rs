//! `bit`: operations on 32-bit integers, after Mike Pall's library of that name.

use mantissa_lua::Stack;
use mlua::{Lua, Table};

use crate::lua::native::{self, Native, Passed as _};

/// Adding this leaves a number's 32 lowest bits, rounded, in the mantissa of a double.
const TO_BITS: f64 = 6_755_399_441_055_744.0;

/// The bits of an argument: of its value rounded to an integer, modulo 2^32.
#[inline]
fn bits(stack: &Stack<'_>, index: usize, name: &str) -> Native<u32> {
    Ok((stack.number(index, name)? + TO_BITS).to_bits() as u32)
}

/// Pushes bits as the signed number that they are.
#[inline]
fn push_signed(stack: &mut Stack<'_>, bits: u32) -> Native<usize> {
    stack.push_number(f64::from(bits as i32))?;
    Ok(1)
}

/// Adds functions of one argument, of a number and a count, and of one or more arguments.
struct Functions<'l> {
    lua: &'l Lua,
    table: Table,
}

impl Functions<'_> {
    fn unary(&self, name: &'static str, operation: impl Fn(u32) -> u32 + 'static) -> mlua::Result<()> {
        let body = move |stack: &mut Stack<'_>| {
            let bits = bits(stack, 0, name)?;
            push_signed(stack, operation(bits))
        };
        self.table.set(name, native::in_place(self.lua, body)?)
    }

    fn shift(&self, name: &'static str, operation: impl Fn(u32, u32) -> u32 + 'static) -> mlua::Result<()> {
        let body = move |stack: &mut Stack<'_>| {
            let (bits, by) = (bits(stack, 0, name)?, bits(stack, 1, name)? & 31);
            push_signed(stack, operation(bits, by))
        };
        self.table.set(name, native::in_place(self.lua, body)?)
    }

    fn fold(&self, name: &'static str, operation: impl Fn(u32, u32) -> u32 + 'static) -> mlua::Result<()> {
        let body = move |stack: &mut Stack<'_>| {
            let mut all = bits(stack, 0, name)?;
            for index in 1..stack.arguments() {
                all = operation(all, bits(stack, index, name)?);
            }
            push_signed(stack, all)
        };
        self.table.set(name, native::in_place(self.lua, body)?)
    }
}

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let functions = Functions { lua, table: lua.create_table()? };
    functions.unary("tobit", |bits| bits)?;
    functions.unary("bnot", |bits| !bits)?;
    functions.unary("bswap", u32::swap_bytes)?;
    functions.fold("band", |left, right| left & right)?;
    functions.fold("bor", |left, right| left | right)?;
    functions.fold("bxor", |left, right| left ^ right)?;
    functions.shift("lshift", |bits, by| bits << by)?;
    functions.shift("rshift", |bits, by| bits >> by)?;
    functions.shift("arshift", |bits, by| ((bits as i32) >> by) as u32)?;
    functions.shift("rol", u32::rotate_left)?;
    functions.shift("ror", u32::rotate_right)?;
    let Functions { table, .. } = functions;
    table.set("tohex", native::in_place(lua, to_hexadecimal)?)?;
    Ok(table)
}

/// `tohex(x [, n])`: the lowest `n` digits, in capitals if `n` is negative.
fn to_hexadecimal(stack: &mut Stack<'_>) -> Native<usize> {
    let value = bits(stack, 0, "tohex")?;
    let count = if stack.arguments() < 2 { 8 } else { bits(stack, 1, "tohex")? as i32 };
    let digits = if count < 0 { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let digit = |at: usize| digits[(value >> (28 - 4 * at) & 0xF) as usize];
    let text: [u8; 8] = std::array::from_fn(digit);
    let shown = count.unsigned_abs().min(8) as usize;
    stack.push_text(&text[8 - shown..])?;
    Ok(1)
}
