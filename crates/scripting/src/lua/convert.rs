//! Converts replies to values of Lua and back, by Redis's rules.

use mantissa_number::parse_i64;
use mantissa_protocol::{Protocol, Reply};
use mlua::{Lua, Table, Value};

use super::budget;

/// How deep a value that a script returns may nest. In Redis the stack of Lua sets the limit.
const NESTING_MAX: usize = 1000;
/// Units of work for a value, besides its bytes.
const VALUE_WORK: usize = 32;

/// Bytes of Lua's memory for a byte of a reply, at most. An empty map of four bytes takes two tables.
const MEMORY_PER_BYTE: usize = 100;

/// Reads a reply.
struct Reader<'a> {
    lua: &'a Lua,
    bytes: &'a [u8],
    at: usize,
}

/// Makes a Lua value of the first reply in `bytes`, which this server has written.
pub fn to_lua(lua: &Lua, bytes: &[u8]) -> mlua::Result<Value> {
    budget::with_memory(lua, bytes.len().saturating_mul(MEMORY_PER_BYTE), || {
        Reader { lua, bytes, at: 0 }.value()
    })
}

impl<'a> Reader<'a> {
    fn line(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let len = rest.iter().position(|&byte| byte == b'\r').unwrap_or(rest.len());
        self.at += len + 2;
        &rest[..len]
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let text = self.bytes.get(self.at..self.at + len).unwrap_or_default();
        self.at += len + 2;
        text
    }

    fn value(&mut self) -> mlua::Result<Value> {
        let lua = self.lua;
        let line = self.line();
        budget::charge(VALUE_WORK)?;
        let Some((kind, text)) = line.split_first() else { return Ok(Value::Nil) };
        let count = || parse_i64(text).and_then(|count| usize::try_from(count).ok());
        Ok(match kind {
            b'+' => field(lua, "ok", lua.create_string(text)?)?,
            b'-' => field(lua, "err", lua.create_string(text)?)?,
            b':' => Value::Number(parse_i64(text).unwrap_or(0) as f64),
            b'$' => match count() {
                Some(len) => {
                    budget::charge(len)?;
                    Value::String(lua.create_string(self.take(len))?)
                }
                None => Value::Boolean(false),
            },
            b'*' | b'>' => match count() {
                Some(count) => self.array(count)?,
                None => Value::Boolean(false),
            },
            b'%' => {
                let table = lua.create_table()?;
                for _ in 0..count().unwrap_or(0) {
                    let key = self.value()?;
                    let value = self.value()?;
                    if !key.is_nil() {
                        table.raw_set(key, value)?;
                    }
                }
                field(lua, "map", table)?
            }
            b'~' => {
                let table = lua.create_table()?;
                for _ in 0..count().unwrap_or(0) {
                    let member = self.value()?;
                    if !member.is_nil() {
                        table.raw_set(member, true)?;
                    }
                }
                field(lua, "set", table)?
            }
            b',' => {
                let number = mantissa_protocol::parse_double(text).unwrap_or(f64::NAN);
                field(lua, "double", number)?
            }
            b'#' => Value::Boolean(text == b"t"),
            b'(' => field(lua, "big_number", lua.create_string(text)?)?,
            b'=' => {
                let text = self.take(count().unwrap_or(0));
                let table = lua.create_table()?;
                table.raw_set("format", lua.create_string(text.get(..3).unwrap_or_default())?)?;
                table.raw_set("string", lua.create_string(text.get(4..).unwrap_or_default())?)?;
                field(lua, "verbatim_string", table)?
            }
            b'|' => {
                for _ in 0..count().unwrap_or(0) * 2 {
                    self.value()?;
                }
                self.value()?
            }
            _ => Value::Nil,
        })
    }

    fn array(&mut self, count: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(count, 0)?;
        for index in 1..=count {
            let element = self.value()?;
            table.raw_set(index, element)?;
        }
        Ok(Value::Table(table))
    }
}

fn field(lua: &Lua, name: &str, value: impl mlua::IntoLua) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, value)?;
    Ok(Value::Table(table))
}

/// Writes what a script has returned. `protocol` is the one that the script has chosen; booleans depend on
/// it.
pub fn write_reply(reply: &mut Reply, value: &Value, protocol: Protocol) -> mlua::Result<()> {
    write_nested(reply, value, protocol, 0)
}

fn write_nested(reply: &mut Reply, value: &Value, protocol: Protocol, depth: usize) -> mlua::Result<()> {
    if depth >= NESTING_MAX {
        reply.error("ERR reached lua stack limit");
        return Ok(());
    }
    budget::admit_reply(VALUE_WORK, reply.len())?;
    match value {
        Value::String(text) => {
            let text = text.as_bytes();
            budget::admit_reply(text.len(), reply.len() + text.len())?;
            reply.bulk(&text);
        }
        Value::Integer(number) => reply.integer(truncate(*number as f64)),
        Value::Number(number) => reply.integer(truncate(*number)),
        Value::Boolean(value) => match (protocol, *value) {
            (Protocol::Resp3, value) => reply.boolean(value),
            (Protocol::Resp2, true) => reply.integer(1),
            (Protocol::Resp2, false) => reply.null(),
        },
        Value::Table(table) => write_table(reply, table, protocol, depth)?,
        _ => reply.null(),
    }
    Ok(())
}

/// The doubles whose integer part fits 64 bits.
pub const INTEGERS: std::ops::Range<f64> = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;

/// A number as C converts it: without its fraction, or the least integer if it is out of range.
pub fn truncate(number: f64) -> i64 {
    if INTEGERS.contains(&number) { number as i64 } else { i64::MIN }
}

/// A text without the line ends behind it.
fn without_line_ends(text: &[u8]) -> &[u8] {
    let len = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    &text[..len]
}

/// Writes a table. A few fields make it something else than an array; the first of them in this order
/// counts.
fn write_table(reply: &mut Reply, table: &Table, protocol: Protocol, depth: usize) -> mlua::Result<()> {
    if let Value::String(text) = table.raw_get("err")? {
        reply.error_bytes(without_line_ends(&text.as_bytes()));
        return Ok(());
    }
    if let Value::String(text) = table.raw_get("ok")? {
        let mut line = vec![b'+'];
        let plain = |&byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte };
        line.extend(text.as_bytes().iter().map(plain));
        line.extend_from_slice(b"\r\n");
        reply.raw(&line);
        return Ok(());
    }
    match table.raw_get("double")? {
        Value::Integer(number) => {
            reply.double(number as f64);
            return Ok(());
        }
        Value::Number(number) => {
            reply.double(number);
            return Ok(());
        }
        _ => {}
    }
    if let Value::Table(map) = table.raw_get("map")? {
        let deferred = reply.defer();
        let mut count = 0;
        for pair in map.pairs::<Value, Value>() {
            let (key, value) = pair?;
            write_nested(reply, &key, protocol, depth + 1)?;
            write_nested(reply, &value, protocol, depth + 1)?;
            count += 1;
        }
        reply.finish_map(deferred, count);
        return Ok(());
    }
    if let Value::Table(set) = table.raw_get("set")? {
        let deferred = reply.defer();
        let mut count = 0;
        for pair in set.pairs::<Value, Value>() {
            write_nested(reply, &pair?.0, protocol, depth + 1)?;
            count += 1;
        }
        reply.finish_set(deferred, count);
        return Ok(());
    }
    if let Value::String(digits) = table.raw_get("big_number")? {
        let digits: Vec<u8> = digits
            .as_bytes()
            .iter()
            .map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte })
            .collect();
        reply.big_number(&digits);
        return Ok(());
    }
    if let Value::Table(verbatim) = table.raw_get("verbatim_string")?
        && let Value::String(text) = verbatim.raw_get("string")?
        && let Value::String(format) = verbatim.raw_get("format")?
    {
        let mut letters = [b' '; 3];
        letters.iter_mut().zip(format.as_bytes().iter()).for_each(|(letter, byte)| *letter = *byte);
        let letters = String::from_utf8_lossy(&letters);
        reply.verbatim(if letters.len() == 3 { &letters } else { "txt" }, &text.as_bytes());
        return Ok(());
    }
    write_array(reply, table, protocol, depth)
}

fn write_array(reply: &mut Reply, table: &Table, protocol: Protocol, depth: usize) -> mlua::Result<()> {
    let deferred = reply.defer();
    let mut count = 0;
    loop {
        let element: Value = table.raw_get(count + 1)?;
        if element.is_nil() {
            break;
        }
        write_nested(reply, &element, protocol, depth + 1)?;
        count += 1;
    }
    reply.finish_array(deferred, count);
    Ok(())
}

/// A number as an argument of a command: an integer, or 17 significant digits.
pub fn number_text(number: f64) -> Vec<u8> {
    const EXACT: f64 = (i64::MAX / 2) as f64;
    if number == number.trunc() && number.abs() <= EXACT {
        return (number as i64).to_string().into_bytes();
    }
    let mut text = Vec::new();
    mantissa_number::write_score(&mut text, number);
    text
}

/// Significant decimal digits that survive being stored in a normal double.
const DIGITS_KEPT: usize = 15;

/// The form that C's `%.*g` prints.
pub fn format_general(number: f64, digits: usize) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan".to_owned() } else { "nan".to_owned() };
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf".to_owned() } else { "inf".to_owned() };
    }
    let digits = digits.max(1);
    // Integers are the most frequent.
    if number == number.trunc() && number.abs() < 1e14 && digits >= 14 && number != 0.0 {
        return (number as i64).to_string();
    }
    // The shortest form that reads back as the number is the rounded one if it is short enough.
    let shortest = format!("{number:e}");
    let significant = shortest.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    let is_short = significant <= digits && digits <= DIGITS_KEPT && (number.is_normal() || number == 0.0);
    let scientific = if is_short { shortest } else { format!("{number:.*e}", digits - 1) };
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa), exponent.abs());
    }
    trim(&place_point(mantissa, exponent))
}

/// A mantissa such as `-1.25` times ten to the power of `exponent`, in digits.
fn place_point(mantissa: &str, exponent: i32) -> String {
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(|letter| *letter != '.').collect();
    let before = usize::try_from(exponent + 1).unwrap_or(0);
    if before == 0 {
        let zeros = exponent.unsigned_abs() as usize - 1;
        return format!("{sign}0.{:0>zeros$}{digits}", "");
    }
    match digits.split_at_checked(before) {
        Some((whole, fraction)) if !fraction.is_empty() => format!("{sign}{whole}.{fraction}"),
        _ => format!("{sign}{digits:0<before$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by two exact conversions.
    fn exact(number: f64, digits: usize) -> String {
        let scientific = format!("{number:.*e}", digits - 1);
        let (mantissa, exponent) = scientific.split_once('e').unwrap();
        let exponent: i32 = exponent.parse().unwrap();
        let trim = |text: &str| match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text.to_owned(),
        };
        if exponent < -4 || exponent >= digits as i32 {
            let sign = if exponent < 0 { '-' } else { '+' };
            return format!("{}e{sign}{:02}", trim(mantissa), exponent.abs());
        }
        let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap();
        trim(&format!("{number:.decimals$}"))
    }

    #[test]
    fn numbers_are_printed_as_in_c() {
        let mut numbers = vec![
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.1,
            1.5,
            -2.25,
            100.0,
            1e13,
            1e14,
            99999999999999.0,
            123456789012345.0,
            1e15,
            1e100,
            0.0001,
            0.00001234,
            0.3,
            1.0 / 3.0,
            2.0 / 3.0,
            9.99999999999995,
            99999999999999.5,
            5e-324,
            f64::MAX,
            f64::MIN_POSITIVE,
            0.0001,
        ];
        let mut state = 1u64;
        for _ in 0..20_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            numbers.push(f64::from_bits(state));
            numbers.push((state >> 40) as f64 / 1000.0);
            numbers.push((state % 100_000) as f64 * 1e-9);
            numbers.push((state >> 12) as f64);
        }
        for number in numbers.into_iter().filter(|number| number.is_finite()) {
            for digits in [1, 3, 14, 15, 17] {
                assert_eq!(format_general(number, digits), exact(number, digits), "{number:e} {digits}");
            }
        }
    }
}
