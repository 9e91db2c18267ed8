//! Converts replies to values of Lua and back, by Redis's rules.

use mantissa_lua::{Fault, Item, Kept, Program, Stack};
use mantissa_number::parse_i64;
use mantissa_protocol::{Protocol, Reply};

use super::budget;
use super::native::{Native, Problem};
use crate::language::ReturnedError;

/// How deep a value that a script returns may nest. In Redis the stack of Lua sets the limit.
const NESTING_MAX: usize = 1000;
/// Units of work for a value, besides its bytes.
const VALUE_WORK: usize = 32;

/// The names of fields that say what a table is as a reply.
pub struct Names {
    /// The global of a script's keys.
    pub keys: Kept,
    /// That of its arguments.
    pub arguments: Kept,
    /// The text of an error.
    pub err: Kept,
    /// The source of the function that raised it.
    pub source: Kept,
    /// The line there.
    pub line: Kept,
    /// The engine's statistics count it already.
    pub is_counted: Kept,
    ok: Kept,
    double: Kept,
    map: Kept,
    set: Kept,
    big_number: Kept,
    verbatim: Kept,
    format: Kept,
    string: Kept,
}

impl Names {
    /// Keeps the names in a machine.
    pub fn new(program: &Program) -> mlua::Result<Names> {
        Ok(Names {
            keys: program.keep("KEYS")?,
            arguments: program.keep("ARGV")?,
            err: program.keep("err")?,
            source: program.keep("source")?,
            line: program.keep("line")?,
            is_counted: program.keep("ignore_error_stats_update")?,
            ok: program.keep("ok")?,
            double: program.keep("double")?,
            map: program.keep("map")?,
            set: program.keep("set")?,
            big_number: program.keep("big_number")?,
            verbatim: program.keep("verbatim_string")?,
            format: program.keep("format")?,
            string: program.keep("string")?,
        })
    }
}

/// Reads a reply.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Pushes the value of the first reply in `bytes`, which this server has written.
pub fn push_reply(stack: &mut Stack<'_>, bytes: &[u8]) -> Native<()> {
    Reader { bytes, at: 0 }.push(stack)
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

    /// Pushes one value.
    fn push(&mut self, stack: &mut Stack<'_>) -> Native<()> {
        let line = self.line();
        budget::charge(VALUE_WORK)?;
        let Some((kind, text)) = line.split_first() else { return Ok(stack.push_nil()?) };
        let count = || parse_i64(text).and_then(|count| usize::try_from(count).ok());
        match kind {
            b'+' => push_field_of_text(stack, "ok", text)?,
            b'-' => push_field_of_text(stack, "err", text)?,
            b':' => stack.push_number(parse_i64(text).unwrap_or(0) as f64)?,
            b'$' => match count() {
                Some(len) => {
                    budget::charge(len)?;
                    stack.push_text(self.take(len))?;
                }
                None => stack.push_boolean(false)?,
            },
            b'*' | b'>' => match count() {
                Some(count) => self.push_array(stack, count)?,
                None => stack.push_boolean(false)?,
            },
            b'%' => self.push_pairs(stack, "map", count().unwrap_or(0), true)?,
            b'~' => self.push_pairs(stack, "set", count().unwrap_or(0), false)?,
            b',' => {
                let number = mantissa_protocol::parse_double(text).unwrap_or(f64::NAN);
                stack.push_table(0, 1)?;
                stack.push_text(b"double")?;
                stack.push_number(number)?;
                stack.set()?;
            }
            b'#' => stack.push_boolean(text == b"t")?,
            b'(' => push_field_of_text(stack, "big_number", text)?,
            b'=' => {
                let text = self.take(count().unwrap_or(0));
                stack.push_table(0, 1)?;
                stack.push_text(b"verbatim_string")?;
                stack.push_table(0, 2)?;
                stack.push_text(b"format")?;
                stack.push_text(text.get(..3).unwrap_or_default())?;
                stack.set()?;
                stack.push_text(b"string")?;
                stack.push_text(text.get(4..).unwrap_or_default())?;
                stack.set()?;
                stack.set()?;
            }
            b'|' => {
                for _ in 0..count().unwrap_or(0) * 2 {
                    self.push(stack)?;
                    stack.pop(1);
                }
                self.push(stack)?;
            }
            _ => stack.push_nil()?,
        }
        Ok(())
    }

    fn push_array(&mut self, stack: &mut Stack<'_>, count: usize) -> Native<()> {
        stack.push_table(count, 0)?;
        for index in 1..=count {
            self.push(stack)?;
            stack.set_element(index)?;
        }
        Ok(())
    }

    /// Pushes a table with one field, a table of so many pairs, or of members and `true`.
    fn push_pairs(
        &mut self,
        stack: &mut Stack<'_>,
        name: &str,
        count: usize,
        has_values: bool,
    ) -> Native<()> {
        stack.push_table(0, 1)?;
        stack.push_text(name.as_bytes())?;
        // As Redis makes it: the order in which `pairs` visits depends on how a table has grown.
        stack.push_table(0, 0)?;
        for _ in 0..count {
            self.push(stack)?;
            if has_values {
                self.push(stack)?
            } else {
                stack.push_boolean(true)?
            }
            stack.set()?;
        }
        Ok(stack.set()?)
    }
}

/// Pushes a table with one field.
fn push_field_of_text(stack: &mut Stack<'_>, name: &str, text: &[u8]) -> Result<(), Fault> {
    stack.push_table(0, 1)?;
    stack.push_text(name.as_bytes())?;
    stack.push_text(text)?;
    stack.set()
}

/// The text of the last value, a string or a number.
pub fn last_text(stack: &Stack<'_>) -> Option<Vec<u8>> {
    match stack.item(-1) {
        Item::Text(text) => Some(text.to_vec()),
        Item::Number(number) => Some(format_general(number, 14).into_bytes()),
        _ => None,
    }
}

/// Writes the last value, which a script has returned, and leaves it there. `protocol` is the one that the
/// script has chosen; booleans depend on it. Returns the errors that it holds.
pub fn write_reply(
    reply: &mut Reply,
    stack: &mut Stack<'_>,
    names: &Names,
    protocol: Protocol,
) -> Native<Vec<ReturnedError>> {
    let mut writer = Writer { reply, names, protocol, errors: Vec::new() };
    writer.write(stack, 0)?;
    Ok(writer.errors)
}

/// Writes values as a reply.
struct Writer<'a> {
    reply: &'a mut Reply,
    names: &'a Names,
    protocol: Protocol,
    errors: Vec<ReturnedError>,
}

impl Writer<'_> {
    fn error(&mut self, text: &[u8], counted: bool) {
        self.reply.error_bytes(text);
        let start = text[..text.len().min(ReturnedError::BYTES_MAX)].to_vec();
        self.errors.push(ReturnedError { start, counted });
    }

    /// Writes the last value.
    fn write(&mut self, stack: &mut Stack<'_>, depth: usize) -> Native<()> {
        let reply = &mut *self.reply;
        if depth >= NESTING_MAX {
            self.error(b"ERR reached lua stack limit", false);
            return Ok(());
        }
        budget::admit_reply(VALUE_WORK, reply.len())?;
        match stack.item(-1) {
            Item::Text(text) => {
                budget::admit_reply(text.len(), reply.len() + text.len())?;
                reply.bulk(text);
            }
            Item::Number(number) => reply.integer(truncate(number)),
            Item::Boolean(value) => match (self.protocol, value) {
                (Protocol::Resp3, value) => reply.boolean(value),
                (Protocol::Resp2, true) => reply.integer(1),
                (Protocol::Resp2, false) => reply.null(),
            },
            Item::Table => return self.write_table(stack, depth),
            _ => reply.null(),
        }
        Ok(())
    }

    /// Writes a table. A few fields make it something else than an array; the first of them in this order
    /// counts.
    fn write_table(&mut self, stack: &mut Stack<'_>, depth: usize) -> Native<()> {
        let (names, kept) = (self.names, stack.len());
        let fields = [&names.err, &names.ok, &names.double, &names.map, &names.set, &names.big_number];
        for (index, name) in fields.into_iter().chain([&names.verbatim]).enumerate() {
            stack.push_field(-1, name)?;
            let is_written = match (index, stack.item(-1)) {
                (_, Item::Nil) => false,
                (0, Item::Text(text)) => {
                    let text = without_line_ends(text).to_vec();
                    stack.push_field(-2, &names.is_counted)?;
                    self.error(&text, stack.item(-1) == Item::Boolean(true));
                    true
                }
                (1, Item::Text(text)) => {
                    let line = [b"+", &without_breaks(text)[..], b"\r\n"].concat();
                    self.reply.raw(&line);
                    true
                }
                (2, Item::Number(number)) => {
                    self.reply.double(number);
                    true
                }
                (3, Item::Table) => self.write_pairs(stack, depth, true).map(|()| true)?,
                (4, Item::Table) => self.write_pairs(stack, depth, false).map(|()| true)?,
                (5, Item::Text(text)) => {
                    self.reply.big_number(&without_breaks(text));
                    true
                }
                (6, Item::Table) => self.write_verbatim(stack)?,
                _ => false,
            };
            stack.pop(stack.len() - kept);
            if is_written {
                return Ok(());
            }
        }
        self.write_array(stack, depth)
    }

    /// Writes the last value, a table, as a map, or its keys as a set.
    fn write_pairs(&mut self, stack: &mut Stack<'_>, depth: usize, is_map: bool) -> Native<()> {
        let deferred = self.reply.defer();
        let mut count = 0;
        stack.each(-1, |stack| {
            stack.push_copy(-2)?;
            self.write(stack, depth + 1)?;
            stack.pop(1);
            if is_map {
                self.write(stack, depth + 1)?;
            }
            count += 1;
            Ok::<_, Problem>(true)
        })?;
        if is_map {
            self.reply.finish_map(deferred, count)
        } else {
            self.reply.finish_set(deferred, count)
        }
        Ok(())
    }

    /// Writes the last value as a verbatim string, if it has its fields.
    fn write_verbatim(&mut self, stack: &mut Stack<'_>) -> Native<bool> {
        stack.push_field(-1, &self.names.format)?;
        stack.push_field(-2, &self.names.string)?;
        let (Item::Text(format), Item::Text(text)) = (stack.item(-2), stack.item(-1)) else {
            return Ok(false);
        };
        let mut letters = [b' '; 3];
        letters.iter_mut().zip(format).for_each(|(letter, byte)| *letter = *byte);
        let letters = String::from_utf8_lossy(&letters);
        self.reply.verbatim(if letters.len() == 3 { &letters } else { "txt" }, text);
        Ok(true)
    }

    fn write_array(&mut self, stack: &mut Stack<'_>, depth: usize) -> Native<()> {
        let deferred = self.reply.defer();
        let mut count = 0;
        loop {
            stack.push_element(-1, count + 1)?;
            if stack.item(-1) == Item::Nil {
                stack.pop(1);
                break;
            }
            self.write(stack, depth + 1)?;
            stack.pop(1);
            count += 1;
        }
        self.reply.finish_array(deferred, count);
        Ok(())
    }
}

/// A text with a space for each byte of a line end.
fn without_breaks(text: &[u8]) -> Vec<u8> {
    text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }).collect()
}

/// A text without the line ends behind it.
fn without_line_ends(text: &[u8]) -> &[u8] {
    let len = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    &text[..len]
}

/// The doubles whose integer part fits 64 bits.
pub const INTEGERS: std::ops::Range<f64> = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;

/// A number as C converts it: without its fraction, or the least integer if it is out of range.
pub fn truncate(number: f64) -> i64 {
    if INTEGERS.contains(&number) { number as i64 } else { i64::MIN }
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
