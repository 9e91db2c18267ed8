//! Writing JSON.

use mlua::{Lua, Table, Value};

use super::{Invalid, Settings, Shared};
use crate::lua::budget::{self, Output};
use crate::lua::convert::format_general;
use crate::lua::libraries::{NESTING_MAX, VALUE_WORK};
use crate::lua::native::{self, Arguments, Native, Problem};

pub(super) fn encode(lua: &Lua, args: &Arguments, settings: &Shared) -> Native<Vec<Value>> {
    let (1, Some(value)) = (args.len(), args.get(0)) else {
        return Err(Problem::Text("bad argument #1 to 'encode' (expected 1 argument)".to_owned()));
    };
    let mut writer = Writer { settings: settings.get(), out: Output::new(lua) };
    writer.value(value, 0)?;
    Ok(vec![writer.out.into_value()?])
}

struct Writer<'l> {
    settings: Settings,
    out: Output<'l>,
}

/// Whether a byte of a string is written as an escape.
fn is_escaped(byte: u8) -> bool {
    matches!(byte, 0..=0x1F | 0x7F | b'"' | b'\\' | b'/')
}

fn refuse<T>(value: &str, reason: &str) -> Native<T> {
    Err(Problem::Text(format!("Cannot serialise {value}: {reason}")))
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Native<()> {
        budget::charge(VALUE_WORK)?;
        match value {
            Value::Nil => self.out.extend(b"null")?,
            Value::LightUserData(pointer) if pointer.0.is_null() => self.out.extend(b"null")?,
            Value::Boolean(true) => self.out.extend(b"true")?,
            Value::Boolean(false) => self.out.extend(b"false")?,
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::String(text) => self.string(&text.as_bytes())?,
            Value::Table(table) => self.table(table, depth + 1)?,
            Value::LightUserData(_) => return refuse("userdata", "type not supported"),
            other => return refuse(other.type_name(), "type not supported"),
        }
        Ok(())
    }

    fn number(&mut self, number: f64) -> Native<()> {
        if !number.is_finite() {
            match self.settings.encode_invalid {
                Invalid::Refuse => return refuse("number", "must not be NaN or Inf"),
                Invalid::Null => return self.out.extend(b"null"),
                Invalid::Write => {}
            }
        }
        let text = format_general(number, self.settings.precision as usize);
        self.out.extend(text.as_bytes())
    }

    fn string(&mut self, text: &[u8]) -> Native<()> {
        self.out.push(b'"')?;
        let mut rest = text;
        while let Some(plain_len) = rest.iter().position(|byte| is_escaped(*byte)) {
            self.out.extend(&rest[..plain_len])?;
            let byte = rest[plain_len];
            rest = &rest[plain_len + 1..];
            match byte {
                b'"' | b'\\' | b'/' => self.out.extend(&[b'\\', byte])?,
                0x08 => self.out.extend(b"\\b")?,
                b'\t' => self.out.extend(b"\\t")?,
                b'\n' => self.out.extend(b"\\n")?,
                0x0C => self.out.extend(b"\\f")?,
                b'\r' => self.out.extend(b"\\r")?,
                _ => self.out.extend(format!("\\u{byte:04x}").as_bytes())?,
            }
        }
        self.out.extend(rest)?;
        self.out.push(b'"')
    }

    fn table(&mut self, table: &Table, depth: usize) -> Native<()> {
        if depth as i64 > self.settings.encode_depth_max || depth > NESTING_MAX {
            return Err(Problem::Text(format!("Cannot serialise, excessive nesting ({depth})")));
        }
        match self.array_len(table)? {
            Some(len) if len > 0 => {
                self.out.push(b'[')?;
                for index in 1..=len {
                    if index > 1 {
                        self.out.push(b',')?;
                    }
                    self.value(&table.raw_get(index)?, depth)?;
                }
                self.out.push(b']')
            }
            _ => self.object(table, depth),
        }
    }

    /// The highest index of an array; `None` if the table is written as an object.
    fn array_len(&self, table: &Table) -> Native<Option<i64>> {
        let (mut highest, mut count) = (0i64, 0i64);
        for pair in table.pairs::<Value, Value>() {
            budget::charge(VALUE_WORK)?;
            let number = match pair?.0 {
                Value::Integer(number) => number as f64,
                Value::Number(number) => number,
                _ => return Ok(None),
            };
            if number < 1.0 || number != number.trunc() {
                return Ok(None);
            }
            highest = highest.max(number as i64);
            count += 1;
        }
        let settings = &self.settings;
        if settings.sparse_ratio > 0
            && highest > count.saturating_mul(settings.sparse_ratio)
            && highest > settings.sparse_safe
        {
            if !settings.convert_sparse {
                return refuse("table", "excessively sparse array");
            }
            return Ok(None);
        }
        Ok(Some(highest))
    }

    fn object(&mut self, table: &Table, depth: usize) -> Native<()> {
        self.out.push(b'{')?;
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if !std::mem::replace(&mut is_first, false) {
                self.out.push(b',')?;
            }
            match &key {
                Value::String(text) => self.string(&text.as_bytes())?,
                Value::Integer(_) | Value::Number(_) => {
                    self.out.push(b'"')?;
                    self.number(native::number_of(&key).unwrap_or(0.0))?;
                    self.out.push(b'"')?;
                }
                other => return refuse(other.type_name(), "table key must be a number or string"),
            }
            self.out.push(b':')?;
            self.value(&value, depth)?;
        }
        self.out.push(b'}')
    }
}
