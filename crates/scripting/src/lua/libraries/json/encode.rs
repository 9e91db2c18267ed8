//! Writing JSON.

use mantissa_lua::{Item, Stack};

use super::{Invalid, Settings, Shared};
use crate::lua::budget::{self, Output};
use crate::lua::convert::format_general;
use crate::lua::libraries::{NESTING_MAX, VALUE_WORK};
use crate::lua::native::{Native, Problem};

pub(super) fn encode(stack: &mut Stack<'_>, settings: &Shared) -> Native<usize> {
    if stack.arguments() != 1 {
        return Err(Problem::Text("bad argument #1 to 'encode' (expected 1 argument)".to_owned()));
    }
    let mut writer = Writer { settings: settings.get(), out: Output::default() };
    writer.value(stack, 0)?;
    stack.push_text(writer.out.as_bytes())?;
    Ok(1)
}

struct Writer {
    settings: Settings,
    out: Output,
}

/// Whether a byte of a string is written as an escape.
fn is_escaped(byte: u8) -> bool {
    matches!(byte, 0..=0x1F | 0x7F | b'"' | b'\\' | b'/')
}

fn refuse<T>(value: &str, reason: &str) -> Native<T> {
    Err(Problem::Text(format!("Cannot serialise {value}: {reason}")))
}

impl Writer {
    /// Writes the last value.
    fn value(&mut self, stack: &mut Stack<'_>, depth: usize) -> Native<()> {
        budget::charge(VALUE_WORK)?;
        match stack.item(-1) {
            Item::Nil | Item::Pointer { is_null: true } => self.out.extend(stack, b"null"),
            Item::Boolean(true) => self.out.extend(stack, b"true"),
            Item::Boolean(false) => self.out.extend(stack, b"false"),
            Item::Number(number) => self.number(stack, number),
            Item::Text(text) => self.string(stack, text),
            Item::Table => self.table(stack, depth + 1),
            other => refuse(other.type_name(), "type not supported"),
        }
    }

    fn number(&mut self, stack: &Stack<'_>, number: f64) -> Native<()> {
        if !number.is_finite() {
            match self.settings.encode_invalid {
                Invalid::Refuse => return refuse("number", "must not be NaN or Inf"),
                Invalid::Null => return self.out.extend(stack, b"null"),
                Invalid::Write => {}
            }
        }
        if number.is_nan() {
            return self.out.extend(stack, b"nan");
        }
        let text = format_general(number, self.settings.precision as usize);
        self.out.extend(stack, text.as_bytes())
    }

    fn string(&mut self, stack: &Stack<'_>, text: &[u8]) -> Native<()> {
        self.out.push(stack, b'"')?;
        let mut rest = text;
        while let Some(plain_len) = rest.iter().position(|byte| is_escaped(*byte)) {
            self.out.extend(stack, &rest[..plain_len])?;
            let byte = rest[plain_len];
            rest = &rest[plain_len + 1..];
            match byte {
                b'"' | b'\\' | b'/' => self.out.extend(stack, &[b'\\', byte])?,
                0x08 => self.out.extend(stack, b"\\b")?,
                b'\t' => self.out.extend(stack, b"\\t")?,
                b'\n' => self.out.extend(stack, b"\\n")?,
                0x0C => self.out.extend(stack, b"\\f")?,
                b'\r' => self.out.extend(stack, b"\\r")?,
                _ => self.out.extend(stack, format!("\\u{byte:04x}").as_bytes())?,
            }
        }
        self.out.extend(stack, rest)?;
        self.out.push(stack, b'"')
    }

    /// Writes the table that is the last value.
    fn table(&mut self, stack: &mut Stack<'_>, depth: usize) -> Native<()> {
        if depth as i64 > self.settings.encode_depth_max || depth > NESTING_MAX {
            return Err(Problem::Text(format!("Cannot serialise, excessive nesting ({depth})")));
        }
        match self.array_len(stack)? {
            Some(len) if len > 0 => {
                self.out.push(stack, b'[')?;
                for index in 1..=len as usize {
                    if index > 1 {
                        self.out.push(stack, b',')?;
                    }
                    stack.push_element(-1, index)?;
                    self.value(stack, depth)?;
                    stack.pop(1);
                }
                self.out.push(stack, b']')
            }
            _ => self.object(stack, depth),
        }
    }

    /// The highest index of the array that is the last value; `None` if the table is written as an object.
    fn array_len(&self, stack: &mut Stack<'_>) -> Native<Option<i64>> {
        let (mut highest, mut count, mut is_array) = (0i64, 0i64, true);
        stack.each(-1, |stack| {
            budget::charge(VALUE_WORK)?;
            match stack.item(-2) {
                Item::Number(number) if number >= 1.0 && number == number.trunc() => {
                    highest = highest.max(number as i64);
                    count += 1;
                }
                _ => is_array = false,
            }
            Ok::<_, Problem>(is_array)
        })?;
        if !is_array {
            return Ok(None);
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

    fn object(&mut self, stack: &mut Stack<'_>, depth: usize) -> Native<()> {
        self.out.push(stack, b'{')?;
        let mut is_first = true;
        stack.each(-1, |stack| {
            if !std::mem::replace(&mut is_first, false) {
                self.out.push(stack, b',')?;
            }
            match stack.item(-2) {
                Item::Text(text) => self.string(stack, text)?,
                Item::Number(number) => {
                    self.out.push(stack, b'"')?;
                    self.number(stack, number)?;
                    self.out.push(stack, b'"')?;
                }
                other => return refuse(other.type_name(), "table key must be a number or string"),
            }
            self.out.push(stack, b':')?;
            self.value(stack, depth)?;
            Ok(true)
        })?;
        self.out.push(stack, b'}')
    }
}
