//! `bit`: operations on 32-bit integers, after Mike Pall's library of that name.

use mlua::{Lua, Table};

use crate::lua::native::{self, Arguments, Native};

/// Adding this leaves a number's 32 lowest bits, rounded, in the mantissa of a double.
const TO_BITS: f64 = 6_755_399_441_055_744.0;

/// The bits of an argument: of its value rounded to an integer, modulo 2^32.
fn bits(args: &Arguments, index: usize, name: &str) -> Native<u32> {
    Ok((args.number(index, name)? + TO_BITS).to_bits() as u32)
}

fn signed(bits: u32) -> f64 {
    f64::from(bits as i32)
}

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let unary = |name: &'static str, operation: fn(u32) -> u32| {
        let body = move |_: &Lua, args: &Arguments| Ok(signed(operation(bits(args, 0, name)?)));
        table.set(name, native::function(lua, body)?)
    };
    unary("tobit", |bits| bits)?;
    unary("bnot", |bits| !bits)?;
    unary("bswap", u32::swap_bytes)?;
    let fold = |name: &'static str, operation: fn(u32, u32) -> u32| {
        let body = move |_: &Lua, args: &Arguments| {
            let mut all = bits(args, 0, name)?;
            for index in 1..args.len() {
                all = operation(all, bits(args, index, name)?);
            }
            Ok(signed(all))
        };
        table.set(name, native::function(lua, body)?)
    };
    fold("band", |left, right| left & right)?;
    fold("bor", |left, right| left | right)?;
    fold("bxor", |left, right| left ^ right)?;
    let shift = |name: &'static str, operation: fn(u32, u32) -> u32| {
        let body = move |_: &Lua, args: &Arguments| {
            Ok(signed(operation(bits(args, 0, name)?, bits(args, 1, name)? & 31)))
        };
        table.set(name, native::function(lua, body)?)
    };
    shift("lshift", |bits, by| bits << by)?;
    shift("rshift", |bits, by| bits >> by)?;
    shift("arshift", |bits, by| ((bits as i32) >> by) as u32)?;
    shift("rol", u32::rotate_left)?;
    shift("ror", u32::rotate_right)?;
    table.set("tohex", native::function(lua, to_hexadecimal)?)?;
    Ok(table)
}

/// `tohex(x [, n])`: the lowest `n` digits, in capitals if `n` is negative.
fn to_hexadecimal(_lua: &Lua, args: &Arguments) -> Native<String> {
    let value = bits(args, 0, "tohex")?;
    let count = if args.len() < 2 { 8 } else { bits(args, 1, "tohex")? as i32 };
    let digits = count.unsigned_abs().min(8) as usize;
    let text = if count < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    Ok(text[8 - digits..].to_owned())
}
