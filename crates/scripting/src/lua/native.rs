//! Functions in Rust that scripts can call: their arguments and their errors.
//!
//! mlua gives Lua an error of Rust as a userdata, which scripts cannot read. Where an error is caught for a
//! script (`pcall` and `xpcall` of the prelude, the end of the script), [`error_value`] turns it into the
//! text or table that it represents.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use mantissa_lua::{End, Fault, Item, Place, Stack};
use mlua::{Function, IntoLuaMulti, Lua, MultiValue, Table, Value};

use super::budget::{self, MEMORY_BYTES_MAX};
use super::convert;
use super::host::Text;
use super::vm::{PRELUDE_NAME, SCRIPT_NAME};

/// Bytes that are read in the time of one unit of work.
const READ_BYTES: usize = 16;

/// Bytes that Lua needs for the table of an error besides its text, at most.
const ERROR_BYTES: usize = 1 << 10;

/// What an error of a native function is to scripts.
#[derive(Clone, Debug)]
pub enum Raised {
    /// A text.
    Text(String),
    /// An error reply that has not been counted.
    Reply(&'static str),
}

impl fmt::Display for Raised {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raised::Text(text) => formatter.write_str(text),
            Raised::Reply(text) => formatter.write_str(text),
        }
    }
}

impl std::error::Error for Raised {}

/// Why a native function failed.
pub enum Problem {
    /// A text, which will begin with the position of the call.
    Text(String),
    /// An argument that the function does not take.
    Argument(WrongArgument),
    /// An error reply.
    Reply(&'static str),
    /// An error of Lua itself, such as a lack of memory.
    Lua(mlua::Error),
    /// The same while values were pushed.
    Fault(Fault),
}

/// An argument that a function does not take.
pub struct WrongArgument {
    /// Its number, from 1.
    number: usize,
    /// The function's name.
    function: String,
    /// What is wrong.
    detail: String,
}

impl WrongArgument {
    /// The text of the error, with the name of the function.
    fn text(&self, function: &str) -> String {
        format!("bad argument #{} to '{function}' ({})", self.number, self.detail)
    }

    /// The same with the name by which the function was called, as far as Lua knows it. The prelude calls
    /// functions by other names than scripts do.
    fn text_in(mut self, stack: &Stack<'_>) -> String {
        let caller = stack.place(1).unwrap_or_default();
        match stack.call_name() {
            _ if caller.source == PRELUDE_NAME.as_bytes() || caller.what == "tail" => {
                self.text(&self.function)
            }
            Some((name, true)) if self.number == 1 => {
                format!("calling '{name}' on bad self ({})", self.detail)
            }
            Some((name, is_method)) => {
                self.number -= usize::from(is_method);
                self.text(&name)
            }
            None => self.text("?"),
        }
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Problem::Fault(fault)
    }
}

impl From<mlua::Error> for Problem {
    fn from(error: mlua::Error) -> Self {
        Problem::Lua(error)
    }
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Problem::Text(text)
    }
}

/// What native functions return.
pub type Native<T> = Result<T, Problem>;

/// Makes a native function.
pub fn function<R: IntoLuaMulti>(
    lua: &Lua,
    body: impl Fn(&Lua, &Arguments) -> Native<R> + 'static,
) -> mlua::Result<Function> {
    lua.create_function(move |lua, values: MultiValue| {
        body(lua, &Arguments { values }).map_err(|problem| match problem {
            Problem::Text(text) => {
                let place = place_of_call(lua, false);
                mlua::Error::external(Raised::Text(format!("{place}{text}")))
            }
            Problem::Argument(wrong) => {
                let place = place_of_call(lua, false);
                mlua::Error::external(Raised::Text(place + &wrong.text(&wrong.function)))
            }
            Problem::Reply(text) => mlua::Error::external(Raised::Reply(text)),
            Problem::Lua(error) => error,
            Problem::Fault(_) => budget::no_memory(),
        })
    })
}

/// Makes a native function that reads its arguments in place and pushes its results, whose number it returns.
pub fn in_place(
    lua: &Lua,
    body: impl Fn(&mut Stack<'_>) -> Native<usize> + 'static,
) -> mlua::Result<Function> {
    mantissa_lua::function(lua, MEMORY_BYTES_MAX, move |stack| {
        body(stack).map_err(|problem| raised(stack, problem))
    })
}

/// The same with values of its own, and with a function of Lua's that may go on after it.
pub fn before(
    lua: &Lua,
    original: Option<&Function>,
    own: impl IntoLuaMulti,
    body: impl Fn(&mut Stack<'_>) -> Native<End> + 'static,
) -> mlua::Result<Function> {
    mantissa_lua::function_before(lua, MEMORY_BYTES_MAX, original, own, move |stack| {
        body(stack).map_err(|problem| raised(stack, problem))
    })
}

/// Makes a native function that makes functions: `prepare` pushes the values that `step` has of its own.
pub fn maker(
    lua: &Lua,
    prepare: impl Fn(&mut Stack<'_>) -> Native<usize> + 'static,
    step: impl Fn(&mut Stack<'_>) -> Native<usize> + 'static,
) -> mlua::Result<Function> {
    let prepare = move |stack: &mut Stack<'_>| prepare(stack).map_err(|problem| raised(stack, problem));
    let step = move |stack: &mut Stack<'_>| step(stack).map_err(|problem| raised(stack, problem));
    mantissa_lua::maker(lua, MEMORY_BYTES_MAX, prepare, step)
}

/// Pushes the error that scripts get for a problem.
#[cold]
fn raised(stack: &mut Stack<'_>, problem: Problem) -> Fault {
    let pushed = match problem {
        Problem::Text(text) => {
            let place = place_in(|level| stack.place(level), false);
            stack.push_text(format!("{place}{text}").as_bytes())
        }
        Problem::Argument(wrong) => {
            let place = place_in(|level| stack.place(level), false);
            stack.push_text((place + &wrong.text_in(stack)).as_bytes())
        }
        Problem::Reply(text) => push_error(stack, text.as_bytes(), false),
        Problem::Lua(error) => stack.push_text(first_line(&error).as_bytes()),
        Problem::Fault(fault) => Err(fault),
    };
    pushed.err().unwrap_or(Fault::Raised)
}

/// The arguments of a function in place. They are counted from 0.
pub trait Passed<'s> {
    /// An argument.
    fn value(&self, index: usize) -> Item<'s>;

    /// Whether an argument is missing or nil.
    fn is_none(&self, index: usize) -> bool {
        matches!(self.value(index), Item::None | Item::Nil)
    }

    /// A number, or what Lua reads a string as.
    fn read_number(&self, index: usize) -> Option<f64>;

    /// A string; numbers are converted. Charges for reading it once.
    fn text(&self, index: usize, function: &str) -> Native<Cow<'s, [u8]>> {
        let text = match self.value(index) {
            Item::Text(text) => Cow::Borrowed(text),
            Item::Number(number) => Cow::Owned(convert::format_general(number, 14).into_bytes()),
            other => return Err(wrong(index, function, "string", other.type_name())),
        };
        budget::charge(text.len() / READ_BYTES)?;
        Ok(text)
    }

    /// A number; strings are converted.
    #[inline]
    fn number(&self, index: usize, function: &str) -> Native<f64> {
        self.read_number(index).ok_or_else(|| wrong(index, function, "number", self.value(index).type_name()))
    }

    /// A number without its fraction, as C converts it to 64 bits; strings are converted.
    #[inline]
    fn integer(&self, index: usize, function: &str) -> Native<i64> {
        self.number(index, function).map(convert::truncate)
    }

    /// [`Passed::integer`], or `otherwise` if there is none.
    fn integer_or(&self, index: usize, otherwise: i64, function: &str) -> Native<i64> {
        if self.is_none(index) { Ok(otherwise) } else { self.integer(index, function) }
    }
}

impl<'s> Passed<'s> for Stack<'s> {
    #[inline]
    fn value(&self, index: usize) -> Item<'s> {
        self.argument(index + 1)
    }

    #[inline]
    fn read_number(&self, index: usize) -> Option<f64> {
        if index < self.arguments() { self.to_number(index as isize + 1) } else { None }
    }
}

/// The problem with an argument, from 0.
#[cold]
pub fn wrong(index: usize, function: &str, wanted: &str, got: &str) -> Problem {
    wrong_as(index, function, format!("{wanted} expected, got {got}"))
}

/// The same in other words.
#[cold]
pub fn wrong_as(index: usize, function: &str, detail: String) -> Problem {
    Problem::Argument(WrongArgument { number: index + 1, function: function.to_owned(), detail })
}

/// The position in the script of the call of the native function that runs, as the beginning of an error's
/// text. `raised`: an error handler asks, so the function of Lua's that failed may still be on the stack.
///
/// After a tail call of a function of the prelude the stack does not have the script's function any more.
/// Then the line is known only if the script has just one.
pub fn place_of_call(lua: &Lua, raised: bool) -> String {
    let frame = |level: usize| {
        lua.inspect_stack(level, |frame| {
            let source = frame.source();
            Place {
                what: source.what,
                source: source.source.map(|name| name.into_owned().into_bytes()).unwrap_or_default(),
                short_source: source.short_src.unwrap_or_default().into_owned(),
                line: frame.current_line(),
            }
        })
    };
    place_in(frame, raised)
}

/// The same on a stack of calls, the function that runs being at level 0.
fn place_in(frame: impl Fn(usize) -> Option<Place>, raised: bool) -> String {
    // Below the error handler lie functions in C, then the function of the prelude that called them.
    let (mut skips_native, mut skipped, mut is_replaced) = (raised, false, false);
    for level in 1..12 {
        let Some(found) = frame(level) else { break };
        is_replaced = is_replaced || found.what == "tail";
        if found.what == "C" && skips_native {
            skipped = true;
            continue;
        }
        if found.what == "tail" || found.source == PRELUDE_NAME.as_bytes() {
            skips_native = skips_native && !skipped;
            continue;
        }
        let line = found.line.filter(|_| matches!(found.what, "Lua" | "main"));
        match line {
            None if is_replaced => break,
            line => {
                return line.map_or_else(String::new, |line| format!("{}:{line}: ", found.short_source));
            }
        }
    }
    if is_replaced && is_one_line() { format!("{SCRIPT_NAME}:1: ") } else { String::new() }
}

thread_local! {
    static ONE_LINE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the script that runs has one line only.
pub fn is_one_line() -> bool {
    ONE_LINE.get()
}

/// Notes whether the script that is about to run has one line only.
pub fn note_one_line(is_one: bool) {
    ONE_LINE.set(is_one);
}

/// What a caught error is to scripts: a text or a table. Other values are returned as they are.
pub fn error_value(lua: &Lua, problem: Value) -> mlua::Result<Value> {
    let Value::Error(error) = &problem else { return Ok(problem) };
    let mut error = &**error;
    while let mlua::Error::CallbackError { cause, .. } | mlua::Error::WithContext { cause, .. } = error {
        error = cause;
    }
    match error.downcast_ref::<Raised>() {
        Some(Raised::Text(text)) => Ok(Value::String(lua.create_string(text)?)),
        Some(Raised::Reply(text)) => Ok(Value::Table(error_table(lua, text.as_bytes())?)),
        None => Ok(Value::String(lua.create_string(first_line(error))?)),
    }
}

/// The text of an error of the machine itself.
pub fn first_line(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::MemoryError(text) => text.clone(),
        other => other.to_string(),
    };
    text.lines().next().unwrap_or_default().to_owned()
}

/// The table that is an error reply to scripts.
pub fn error_table(lua: &Lua, text: &[u8]) -> mlua::Result<Table> {
    budget::with_memory(lua, text.len() + ERROR_BYTES, || {
        let table = lua.create_table_with_capacity(0, 2)?;
        table.raw_set("err", lua.create_string(text)?)?;
        Ok(table)
    })
}

/// Raises an error reply: a table with its text, and whether it has been counted.
pub fn raise_reply<T>(stack: &mut Stack<'_>, text: &[u8], counted: bool) -> Result<T, Fault> {
    push_error(stack, text, counted)?;
    Err(Fault::Raised)
}

/// Pushes the table that is an error reply to scripts.
pub fn push_error(stack: &mut Stack<'_>, text: &[u8], counted: bool) -> Result<(), Fault> {
    stack.push_table(0, 2)?;
    stack.push_text(b"err")?;
    stack.push_text(text)?;
    stack.set()?;
    if counted {
        stack.push_text(b"ignore_error_stats_update")?;
        stack.push_boolean(true)?;
        stack.set()?;
    }
    Ok(())
}

/// The arguments of a call.
pub struct Arguments {
    values: MultiValue,
}

impl Arguments {
    /// The number of arguments.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// An argument, from 0.
    pub fn get(&self, index: usize) -> Option<&Value> {
        self.values.get(index)
    }

    /// All arguments.
    pub fn iter(&self) -> impl Iterator<Item = &Value> {
        self.values.iter()
    }

    /// Whether an argument is missing or nil.
    pub fn is_none(&self, index: usize) -> bool {
        self.get(index).is_none_or(Value::is_nil)
    }

    fn wrong(&self, index: usize, function: &str, wanted: &str) -> Problem {
        wrong(index, function, wanted, self.get(index).map_or("no value", Value::type_name_in_lua))
    }

    /// A string; numbers are converted. Charges for reading it once.
    pub fn text(&self, index: usize, function: &str) -> Native<Text> {
        let text = self.get(index).and_then(text_of).ok_or_else(|| self.wrong(index, function, "string"))?;
        budget::charge(text.as_ref().len() / READ_BYTES)?;
        Ok(text)
    }

    /// A number; strings are converted.
    pub fn number(&self, index: usize, function: &str) -> Native<f64> {
        self.get(index).and_then(number_of).ok_or_else(|| self.wrong(index, function, "number"))
    }

    /// A number without its fraction, as C converts it to 64 bits.
    pub fn integer(&self, index: usize, function: &str) -> Native<i64> {
        self.number(index, function).map(convert::truncate)
    }

    /// A number as C converts it to 32 bits.
    pub fn int(&self, index: usize, function: &str) -> Native<i64> {
        self.integer(index, function).map(|number| i64::from(number as i32))
    }
}

/// The name of a type as Lua's `type` returns it.
trait TypeName {
    fn type_name_in_lua(&self) -> &'static str;
}

impl TypeName for Value {
    fn type_name_in_lua(&self) -> &'static str {
        match self {
            Value::Integer(_) => "number",
            Value::LightUserData(_) | Value::Error(_) => "userdata",
            other => other.type_name(),
        }
    }
}

/// The text of a string or number.
pub fn text_of(value: &Value) -> Option<Text> {
    match value {
        Value::String(text) => Some(Text::Lent(text.as_bytes())),
        Value::Integer(number) => Some(Text::Owned(convert::format_general(*number as f64, 14).into_bytes())),
        Value::Number(number) => Some(Text::Owned(convert::format_general(*number, 14).into_bytes())),
        _ => None,
    }
}

/// The value of a number, or of a string that can be read as one.
pub fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        Value::String(text) => parse_number(&text.as_bytes()),
        _ => None,
    }
}

/// A number as Lua reads it from a string: decimal or hexadecimal, with spaces around.
fn parse_number(text: &[u8]) -> Option<f64> {
    let text = text.trim_ascii();
    let (sign, magnitude) = match text {
        [b'-', rest @ ..] => (-1.0, rest),
        [b'+', rest @ ..] => (1.0, rest),
        rest => (1.0, rest),
    };
    if let [b'0', b'x' | b'X', digits @ ..] = magnitude {
        let digits = std::str::from_utf8(digits).ok()?;
        return u64::from_str_radix(digits, 16).ok().map(|number| sign * number as f64);
    }
    mantissa_protocol::parse_double(magnitude)
        .filter(|_| magnitude.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.'))
        .map(|number| sign * number)
}
